#!/bin/sh
# SPDX-License-Identifier: MIT
# The RDMA ports `stoker detect --env` names, on machines that differ in where their NICs are
# and which fabric they are on (tests/machines/rails.py): never worse than naming none.
. "$(dirname "$0")/lib.sh"

tars=$TMP/tars
"$TOP/tests/machines/rails.py" "$tars" || {
    echo "Bail out! the machines could not be built"
    exit 1
}

# env MACHINE [ARG...]: its smallest environment, as env.sh
env_of() {
    name=$1
    shift
    stoker detect --root "$tars/$name.tar" --env "$@" >env.sh 2>err
    tr '\n' ' ' <env.sh | sed 's/ # / /g; s/#//g' >flat # one line, to look for sentences
}

# sets NAME VALUE: what a shell gets from env.sh; empty when unset
sets() {
    got=$(env -i PATH="$PATH" sh -c '. ./env.sh && eval "printf %s \"\${$1-}\""' sh "$1")
    test "$got" = "$2" || {
        echo "$1 is '$got', expected '$2'"
        return 1
    }
}

says() {
    grep -qF -- "$1" flat || {
        echo "not said: $1"
        cat env.sh
        return 1
    }
}

# check_of MACHINE ARG...: its checks, as one line
check_of() {
    name=$1
    shift
    stoker detect --root "$tars/$name.tar" --check "$@" 2>&1 | tr '\n' ' ' | tr -s ' ' >flat
}

score() { # score MACHINE PYTHON-EXPRESSION over s, the list of scores
    stoker detect --root "$tars/$1.tar" --env --json >nccl.json 2>/dev/null &&
        python3 -c '
import json, sys
doc = json.load(open("nccl.json"))
s = doc["choice"]["scores"]
p = {x["device"]: x for x in doc["choice"]["ports"]}
if not eval(sys.argv[1]):
    print(json.dumps(s, indent=1))
    sys.exit(1)' "$2"
}

eight==mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1

# ---- nothing we print is worse than NCCL's own choice, on any machine
for m in $("$TOP/tests/machines/rails.py" --list | cut -d' ' -f1); do
    test_expect "$m: no GPU has less bandwidth or a longer way than by NCCL's own choice" "
        score $m 'len(s) > 0 and not any(x[\"worse\"] for x in s)'
    "
done

# ---- what is printed holds once it is set: nothing is added, and none of it is warned of
test_expect 'on every machine: the environment, once set, is what is printed' '
    "$TOP/tests/cli/nccl_settled.py" "$BUILD/stoker" "$tars"/*.tar
'

# ---- place before rate and layer
test_expect 'faster NICs at root ports: the GPUs keep those at their switches' "
    env_of bluefield && sets NCCL_IB_HCA $eight && says 'every GPU has a nearer port' &&
    says '100 Gb/s at PHB by NCCL'
"
test_expect 'a faster NIC of another layer: InfiniBand at the switches stays' "
    env_of storage-roce && sets NCCL_IB_HCA $eight && says 'cannot join InfiniBand and Ethernet'
"
test_expect 'rails that are slower than a NIC of another model are well: no drain' "
    env_of slow-rails && sets NCCL_IB_HCA '' && says 'may be another fabric' && ! grep -q 'Drain' env.sh
"
test_expect 'NICs at different distances from different GPUs stay' "
    env_of uneven && sets NCCL_IB_HCA '' && says 'All 2 active InfiniBand ports'
"
test_expect 'a rail at half rate stays' "
    env_of half-rate && sets NCCL_IB_HCA '' && says 'All 8 active InfiniBand ports' &&
    says '200 Gb/s to 400 Gb/s'
"
for m in half-rate-two hidden root-ports all-far mixed-count dual-port single-nic roce-planes \
    roce-converged ib-converged; do
    test_expect "$m: every port is a compute port" "
        env_of $m && sets NCCL_IB_HCA '' && says 'NCCL takes'
    "
done
test_expect 'a rate that is not known does not make a storage NIC' "
    env_of unknown-rate && sets NCCL_IB_HCA $eight
"
test_expect 'among equals in place a slower model is left out' "
    env_of slow-beside && sets NCCL_IB_HCA $eight && says 'slower than a NIC of another model'
"
test_expect 'a choice with less bandwidth is not printed, and the comment says why' "
    env_of slow-single && sets NCCL_IB_HCA '' &&
    says 'would have 100 Gb/s at PIX instead of 400 Gb/s at PHB'
"
test_expect 'the ports of a card are one NIC of the sum of their rates, from 2.20 on: it may be the widest' "
    for m in dual-far dual-far-221 dual-far-220; do
        env_of \$m && sets NCCL_IB_HCA '' && says 'GPU 0 400 Gb/s at PHB either way' || return 1
    done
    env_of dual-far -e NCCL_IB_MERGE_NICS=0 && sets NCCL_IB_HCA =mlx5_0:1 &&
    env_of dual-far -e NCCL_NET_MERGE_LEVEL=LOC && sets NCCL_IB_HCA =mlx5_0:1 &&
    env_of dual-far-221 -e NCCL_NET_MERGE_LEVEL=LOC && sets NCCL_IB_HCA ''
"
test_expect '... not before, in 2.22 and 2.23 not beside cards of one port, up to 2.23 not without one GUID' "
    for m in dual-far-219 dual-far-223 dual-far-guids; do
        env_of \$m && sets NCCL_IB_HCA =mlx5_0:1 && says 'GPU 0 200 Gb/s at PIX either way' || return 1
    done
    score dual-far 'any(\"one NIC to NCCL\" in n for n in doc[\"choice\"][\"notes\"])' &&
    score dual-far-219 'not any(\"one NIC to NCCL\" in n for n in doc[\"choice\"][\"notes\"])'
"
test_expect 'two layers for different GPUs: neither is thrown away' "
    env_of split-layers && sets NCCL_IB_HCA '' && says 'Without mlx5_4:1'
"
test_expect 'two layers at every switch: one of them' "
    env_of layers-beside && sets NCCL_IB_HCA $eight
"

# ---- widths and limits
test_expect 'the link between newer Xeons: as wide as NCCL of that version takes it' "
    score erp 's[7][\"nccl\"][\"ports\"] == \"mlx5_8:1\" and s[7][\"nccl\"][\"path\"] == \"SYS\"' &&
    score erp-old 's[7][\"nccl\"][\"ports\"] == \"mlx5_7:1\"'
"
test_expect 'a link whose speed the kernel does not tell is PCIe 3 to NCCL: the near NIC serves' "
    score unknown-link 's[0][\"nccl\"][\"path\"] == \"PIX\" and s[0][\"nccl\"][\"ports\"] == \"mlx5_0:1\"'
"
test_expect 'more ports than NCCL takes: what is said counts those it does' "
    env_of many-ports && sets NCCL_IB_HCA '' && says 'The first 32 active RoCE ports' &&
    says '40 ports are active, and NCCL takes the first 32' && ! grep -q 'All 40' flat
"
test_expect 'more ports than NCCL takes, storage ones first: the rails are named' "
    env_of many-storage && sets NCCL_IB_HCA '=mlx5_40:1,mlx5_41:1,mlx5_42:1,mlx5_43:1'
"
test_expect 'a rail whose HCA is missing altogether: a storage HCA does not take its place' "
    env_of rail-missing &&
    sets NCCL_IB_HCA =mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1
"
test_expect 'RDMA that is turned off has no scores in --why' "
    stoker detect --root $tars/bluefield.tar -e NCCL_IB_DISABLE=1 --why NCCL_IB_HCA >why &&
    ! grep -q score why && stoker detect --root $tars/bluefield.tar --why NCCL_IB_HCA | grep -q score
"
test_expect 'file systems over the faster layer: the other one is for GPUs' "
    env_of layer-storage && sets NCCL_IB_HCA =mlx5_0:1
"
test_expect 'file systems over the nearest subnet: the free one is for GPUs' "
    env_of subnet-storage && ! grep -q 'export NCCL_IB_HCA=.=mlx5_1:1' env.sh
"

test_expect 'Ethernet with the default route and NFS does not take the place of InfiniBand' "
    env_of campus && sets NCCL_IB_HCA =mlx5_0:1 && says 'not those of file systems or the default' &&
    score campus 'doc[\"choice\"][\"certain\"]'
"
test_expect 'nothing tells which layer is for training: nothing is printed, and it is said' "
    env_of campus-bare && sets NCCL_IB_HCA '' && says 'Not certain: InfiniBand and Ethernet ports are as near' &&
    score campus-bare 'not doc[\"choice\"][\"certain\"]'
"
# ---- one flat network for training and all else
test_expect 'a flat RoCE network with the default route or NFS is not left out for lesser InfiniBand ports' "
    for m in flat-routed flat-mounted; do
        env_of \$m && sets NCCL_IB_HCA '' && says 'GPU 0-7 400 Gb/s at PIX either way' &&
        says 'File systems or the default route are on the Ethernet ones, which serve the GPUs better' &&
        says \"If they are for training, set NCCL_IB_HCA='$eight'\" &&
        score \$m 'not doc[\"choice\"][\"certain\"] and s[0][\"nccl\"][\"mbps\"] == 400000' || return 1
    done
"
test_expect '... and is named where the InfiniBand ports are farther; the check says the same' "
    env_of flat-far && sets NCCL_IB_HCA $eight && says 'the Ethernet ones serve the GPUs better' &&
    score flat-far 'doc[\"choice\"][\"certain\"] and not doc[\"choice\"][\"all_wanted_why\"]' &&
    check_of flat-far rdma && says '4 active ports are InfiniBand, 8 Ethernet' && ! grep -q 'for certain' flat &&
    check_of flat-mounted rdma && says 'none of them can be left out for certain'
"
test_expect '... nor for slower ports of its own layer, RoCE or InfiniBand' "
    env_of flat-one && sets NCCL_IB_HCA $eight && says 'slower than a NIC of another model' &&
    env_of flat-ib && sets NCCL_IB_HCA $eight && says 'another InfiniBand fabric'
"
test_expect 'ports of the other layer that are left out are told with their share' "
    env_of campus && says 'with them 50 Gb/s by NCCL'
"
test_expect 'dead rails do not flip a machine to the other layer' "
    env_of layers-dead && sets NCCL_IB_HCA =mlx5_1:1,mlx5_3:1 && sets NCCL_CROSS_NIC '' &&
    env_of layers-dead-side && sets NCCL_IB_HCA =mlx5_0:1,mlx5_1:1
"
for m in layers-dead-all fabric-gone; do
    test_expect "$m: what is up is not named in place of a fabric that is down" "
        env_of $m && sets NCCL_IB_HCA '' && sets NCCL_NET_GDR_LEVEL '' && sets NCCL_CROSS_NIC '' &&
        says 'Not certain: The ports that belong to the GPUs are down: mlx5_0:1' &&
        score $m 'not doc[\"choice\"][\"certain\"]' &&
        stoker detect --root $tars/$m.tar | tr '\n' ' ' | grep -q 'The ports that belong to the GPUs are  *down' &&
        check_of $m rdma && says 'FAIL port state' && ! grep -q 'detect --env. does' flat
    "
done

# ---- fabrics
test_expect 'two kinds of RoCE ports beside the same GPUs: all stay, and it is said what cannot be told' "
    env_of roce-planes && sets NCCL_IB_HCA '' && says 'may be another fabric' &&
    says 'If the former is for storage, set' && says '10.200.0.0/16' &&
    env_of gid-networks && ! grep -q 'another fabric than' flat &&
    env_of rail-pairs && ! grep -q 'another fabric than' flat &&
    env_of bluefield && ! grep -q 'another fabric than' flat
"
test_expect 'a second InfiniBand subnet at the GPUs own switches is left out' "
    env_of two-subnets && sets NCCL_IB_HCA $eight && says 'fec0:0000:0000:0007'
"
test_expect 'a network that Lustre is mounted over is left out, by its NIDs' "
    env_of ib-lustre && sets NCCL_IB_HCA =mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1 &&
    says 'ile systems are mounted over its network'
"
test_expect 'a plane that every GPU has a port on, Lustre over it: both shares are told, and it is not certain' "
    env_of ib-lustre && says 'Not certain: mlx5_4:1, mlx5_5:1, mlx5_6:1, mlx5_7:1 are left out' &&
    says 'leave NCCL_IB_HCA unset: each GPU has 504.1 Gb/s then, not 400 Gb/s' &&
    says 'with them 504.1 Gb/s by NCCL' && score ib-lustre '504000 < s[0][\"nccl\"][\"all_mbps\"] < 504200 and not doc[\"choice\"][\"certain\"]' &&
    for m in ib-joined ib-same-lids roce-nfs; do env_of \$m && ! grep -q 'second plane' flat || return 1; done
"
test_expect 'a network that NFS is mounted over is left out, by the address of the server' "
    env_of roce-nfs && sets NCCL_IB_HCA $eight && says '10.200.0.0/16' &&
    score roce-nfs 'p[\"mlx5_8\"][\"storage\"] and not p[\"mlx5_0\"][\"storage\"]'
"

test_expect 'storage HCAs whose subnet looks like that of the GPUs are left out by their routes' "
    env_of ib-same-lids && sets NCCL_IB_HCA $eight && says 'mounted over its network, 10.70.0.0/16' &&
    env_of ib-joined && sets NCCL_IB_HCA =mlx5_0:1,mlx5_1:1,mlx5_3:1,mlx5_4:1,mlx5_6:1,mlx5_7:1,mlx5_9:1,mlx5_10:1
"
test_expect 'two ports with one LID are on two fabrics: not certain where nothing else tells' "
    env_of ib-same-lids-bare && sets NCCL_IB_HCA '' && says 'Not certain: mlx5_0:1 and mlx5_8:1 both have LID 32' &&
    env_of half-rate && ! grep -q 'Not certain' flat
"
for m in ib-partition ib-partition-ip ib-bond; do
    test_expect "$m: what is mounted over an interface on top of IPoIB leads to the port below" "
        env_of $m && sets NCCL_IB_HCA $eight && says 'mounted over its network, 10.70.0.0/16' &&
        score $m 'p[\"mlx5_8\"][\"storage\"] and p[\"mlx5_9\"][\"storage\"]'
    "
done
test_expect 'Lustre over rails of the compute fabric that the GPUs need takes none away' "
    env_of ib-joined-few && sets NCCL_IB_HCA '' && env_of ib-joined-one && sets NCCL_IB_HCA ''
"
test_expect 'Lustre over one port of a plane takes no GPU its port of that plane' "
    env_of planes-lustre && sets NCCL_IB_HCA '' && says 'All 8 active InfiniBand ports'
"
test_expect '... nor the other fabric beside the same GPUs, though slower: not certain' "
    env_of fabrics-lustre && sets NCCL_IB_HCA '' && says 'whether it is for storage cannot be told' &&
    says \"set NCCL_IB_HCA='=mlx5_1:1,mlx5_3:1,mlx5_5:1,mlx5_7:1'\"
"
for m in unplaced unplaced-beegfs unplaced-mgs; do
    test_expect "$m: a file system whose network cannot be told makes the answer uncertain" "
        env_of $m && sets NCCL_IB_HCA '' && says 'over which network cannot be told' &&
        says 'as far as can be told' && score $m 'not doc[\"choice\"][\"certain\"]'
    "
done
test_expect 'it does not where no port could be left out, and an address places it' "
    env_of unplaced-rails && ! grep -q 'Not certain' flat &&
    env_of placed-gluster && sets NCCL_IB_HCA $eight
"

# ---- rails that carry more than compute, are down, or kept apart
seven==mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1
for m in rail-nfs rail-nfs-name rail-nfs-all rail-default; do
    test_expect "$m: a rail with another use stays a rail" "
        env_of $m && sets NCCL_IB_HCA '' && says 'All 16 active RoCE ports' &&
        says 'GPU 0-7 400 Gb/s at PIX either way' && sets NCCL_CROSS_NIC 0
    "
done
test_expect 'a NIC more than the GPUs have, with a mount over it, is a storage NIC' "
    env_of rail-extra && sets NCCL_IB_HCA $eight && says 'mounted over its network, 10.100.8.0/24'
"
test_expect 'a server that is mounted by name is found by its address' "
    env_of storage-ports && sets NCCL_IB_HCA $eight && says 'mounted over its network, 10.200.0.0/16' &&
    sets NCCL_CROSS_NIC 0
"
test_expect 'a GPU whose InfiniBand rail is down gets no port of another fabric' "
    env_of ib-down && sets NCCL_IB_HCA $seven && says 'another InfiniBand fabric' &&
    says 'GPU 3 only ports of another fabric or without an address that works by NCCL' &&
    env_of ib-init && sets NCCL_IB_HCA $seven && sets NCCL_CROSS_NIC ''
"
test_expect 'a GPU that goes by its neighbours shares what they have' "
    score ib-down '[x[\"wanted\"][\"mbps\"] for x in s] == [350000] * 8'
"
test_expect 'two subnets of which some GPUs have more of the lesser: both stay, and it is not certain' "
    env_of subnets-uneven && sets NCCL_IB_HCA '' && says 'Not certain: mlx5_2:1, mlx5_3:1, mlx5_4:1 and mlx5_0:1, mlx5_1:1 are two InfiniBand fabrics' &&
    says \"else NCCL_IB_HCA='=mlx5_0:1,mlx5_1:1'\"
"
test_expect 'a rail under another subnet manager stays when its GPU has no other' "
    env_of ib-stray && sets NCCL_IB_HCA '' && sets NCCL_CROSS_NIC ''
"
test_expect 'virtual functions add no bandwidth to their port' "
    env_of sriov && sets NCCL_IB_HCA $eight && says 'irtual function of a port that is here' &&
    says 'GPU 0-7 400 Gb/s at PIX either way'
"
test_expect 'one virtual function a port where the ports themselves have no address' "
    env_of sriov-bare &&
    sets NCCL_IB_HCA =mlx5_8:1,mlx5_10:1,mlx5_12:1,mlx5_14:1,mlx5_16:1,mlx5_18:1,mlx5_20:1,mlx5_22:1 &&
    says 'GPU 0-7 400 Gb/s at PIX either way'
"
test_expect 'two ports in the subnet of a rail are well, and rails are kept apart' "
    env_of rail-pairs && sets NCCL_IB_HCA '' && sets NCCL_CROSS_NIC 0 && says 'in 8 subnets' &&
    ! grep -q 'different networks' flat && check_of rail-pairs rdma &&
    ! grep -q 'on another network' flat
"
test_expect 'InfiniBand rails with a subnet each are kept apart' "
    env_of ib-rails && sets NCCL_IB_HCA '' && sets NCCL_CROSS_NIC 0 &&
    env_of ib-planes && sets NCCL_IB_HCA '' && sets NCCL_CROSS_NIC 0 && says 'in 2 subnets' &&
    env_of half-rate && sets NCCL_CROSS_NIC ''
"

# ---- addresses on several networks
test_expect 'addresses that land on different networks: one range for all' "
    env_of gid-networks && sets NCCL_IB_ADDR_RANGE 10.50.0.0/16 && sets NCCL_IB_GID_INDEX '' &&
    says 'mlx5_2 on 10.60.0.0/16' && says '5 on mlx5_2'
"
test_expect 'a port in two networks: not that of the file systems, whichever address came first' "
    env_of gid-vlan && sets NCCL_IB_ADDR_RANGE 10.50.0.0/24 && says 'a network that file systems are mounted over' &&
    says 'ends at index 5' && score gid-vlan 'doc[\"choice\"][\"certain\"]' &&
    env_of gid-vlan -e NCCL_IB_ADDR_RANGE=10.50.0.0/24 && ! grep -q 'mounted over' flat &&
    env_of gid-vlan-old && sets NCCL_IB_GID_INDEX 5 &&
    check_of gid-vlan rdma && says 'ends at index 3, on a network that file systems are mounted over'
"
test_expect 'nothing tells which of two networks of a port is for training: not certain' "
    env_of gid-vlan-bare && sets NCCL_IB_ADDR_RANGE '' && says 'Not certain: mlx5_0 has addresses in several networks' &&
    says 'set NCCL_IB_ADDR_RANGE=10.60.0.0/24 on all' && score gid-vlan-bare 'not doc[\"choice\"][\"certain\"]'
"
test_expect 'the same with an NCCL that has no range: no index that a NIC does not share' "
    env_of gid-networks-old && sets NCCL_IB_ADDR_RANGE '' && sets NCCL_IB_GID_INDEX '' &&
    says 'came with NCCL 2.21'
"
test_expect '... and where no index mends it, the ports are not called rails' "
    env_of gid-orders && sets NCCL_IB_GID_INDEX '' && says 'none can be given' && sets NCCL_CROSS_NIC ''
"
test_expect 'rails of a subnet each: a range that holds the rails and not the storage' "
    env_of gid-rails && sets NCCL_IB_ADDR_RANGE 10.100.0.0/22
"
test_expect 'the index that leads to the rails of a subnet each keeps them apart, too' "
    env_of gid-index-rails && sets NCCL_IB_GID_INDEX 5 && sets NCCL_CROSS_NIC 0
"
test_expect 'rails of a subnet each alone need no range' "
    env_of hidden && sets NCCL_IB_ADDR_RANGE '' && sets NCCL_IB_GID_INDEX ''
"
test_expect '169.254.0.0/16 is link-local, too: no index for it, a range that leaves it out, no pass' "
    env_of zeroconf && sets NCCL_IB_ADDR_RANGE 10.100.0.0/22 && says 'link-local' &&
    env_of zeroconf-old && sets NCCL_IB_GID_INDEX 5 && sets NCCL_CROSS_NIC 0 &&
    env_of zeroconf-only && sets NCCL_IB_GID_INDEX '' && says 'within one Ethernet segment' &&
    check_of zeroconf-only rdma && says 'only link-local RoCE v2 GIDs' && ! grep -q 'PASS GIDs' flat &&
    env_of zeroconf-old -e NCCL_IB_GID_INDEX=3 && grep -q 'NCCL_IB_GID_INDEX=3: .*link-local' err
"
test_expect '... and a rail that has no other is told as one that is down' "
    env_of zeroconf-failed && says 'GPU 2 goes by those of its neighbours, since mlx5_2:1 has no address that routers forward' &&
    check_of zeroconf-failed rdma && says 'where the others of its kind have an address' && says 'FAIL NIC near GPU GPU 2'
"
test_expect 'a pinned index on different networks is an error' "
    env_of gid-networks -e NCCL_IB_GID_INDEX=3 && grep -q 'error: NCCL_IB_GID_INDEX=3' err
"
test_expect 'a range that is set is kept' "
    env_of gid-networks -e NCCL_IB_ADDR_RANGE=10.60.0.0/16 && says 'NCCL_IB_ADDR_RANGE=10.60.0.0/16 stays'
"

test_expect 'a search that ends on addresses of the host: the range of those of the pod' "
    env_of pod-shared && sets NCCL_IB_ADDR_RANGE 10.100.0.0/21 && sets NCCL_IB_GID_INDEX '' &&
    says 'none of this namespace on mlx5_0' && check_of pod-shared rdma &&
    says 'FAIL GIDs' && says 'which is of no network device here' &&
    env_of pod-shared -e NCCL_IB_ADDR_RANGE=10.100.0.0/21 && says 'ends on a good RoCE v2 address'
"

test_expect '... is a PROBLEM of the page, and the rails of that range are kept apart' "
    env_of pod-shared && sets NCCL_CROSS_NIC 0 && env_of pod-shared -e NCCL_IB_ADDR_RANGE=10.100.0.0/21 && sets NCCL_CROSS_NIC 0 &&
    stoker detect --root $tars/pod-shared.tar | tr '\\n' ' ' | tr -s ' ' >flat &&
    says 'PROBLEM: NCCL'\''s search for an address ends on one of another network namespace on mlx5_0' &&
    stoker detect --root $tars/hidden.tar >page && ! grep -q 'another network namespace' page
"

# ---- the way to other nodes
test_expect 'no default route: the interface that is no rail, not virtual and not link-local' "
    env_of no-route && sets NCCL_SOCKET_IFNAME =eno1 && says 'bmc_redfish0, which has a link-local address only' &&
    stoker detect --root $tars/no-route.tar >page && grep -q '^  bmc_redfish0 .*169.254.3.1/24' page
"
test_expect 'several could be it: those, without what leads to no other node' "
    env_of no-route-tcp && sets NCCL_SOCKET_IFNAME =eno1,eno2 && says 'is not certain: --peer'
"
test_expect 'the network check does not pass over a link that leads to no other node' "
    check_of no-route container && says 'WARN network NCCL would start over bmc_redfish0' &&
    check_of no-route-tcp container && says 'WARN network NCCL would start over' &&
    check_of half-rate container && says 'PASS network'
"

# ---- isolated rails that are not well
test_expect 'a rail of isolated rails that is down or slow: healthy machines cannot be joined' "
    env_of rail-dead && says 'Not certain: The ports are rails that do not lead to each other, and GPU 5 goes by' &&
    says 'since mlx5_5:1 is down' && score rail-dead 'not doc[\"choice\"][\"certain\"]' &&
    env_of rail-half && says 'GPU 2 goes by those of its neighbours, whose rails are faster' && says 'Drain this machine' &&
    says 'as far as can be told' && env_of rail-slow && says 'as far as can be told' &&
    env_of hidden && ! grep -q 'Not certain' flat
"

for m in rails-off rails-dark rails-ib-off; do
    test_expect "$m: the front end and the storage ports are not called right in place of rails that are down" "
        env_of $m && sets NCCL_IB_HCA '' && sets NCCL_NET_GDR_LEVEL '' && sets NCCL_CROSS_NIC '' &&
        says 'Not certain: The ports that belong to the GPUs are down: mlx5_0:1' && ! grep -q 'right ones' flat &&
        score $m 'not doc[\"choice\"][\"certain\"]'
    "
done
test_expect 'rails that are turned off keep their GPUs from the storage ports, and count as rails' "
    env_of rails-one && sets NCCL_IB_HCA =mlx5_0:1 && says 'since mlx5_1:1, mlx5_2:1' && says 'mlx5_7:1 are down' &&
    sets NCCL_CROSS_NIC 0 && says 'The 8 RoCE ports (7 of them down) are rails' &&
    score rails-one 'not doc[\"choice\"][\"certain\"]'
"
test_expect 'most ports that are up have a mount: those that are down count, and the rail stays one' "
    env_of ib-one && sets NCCL_IB_HCA =mlx5_0:1 && says 'mounted over its network, 10.70.0.0/16'
"
test_expect 'rails with routing tables of their own lead to each other' "
    env_of rail-tables && sets NCCL_CROSS_NIC '' && env_of rail-tables-dead && ! grep -q 'Not certain' flat &&
    env_of rail-tables-few && sets NCCL_CROSS_NIC 0
"
test_expect 'a rail of a slower model is built so: it is told, and nothing is drained' "
    env_of rail-slow && says 'GPU 2 goes by those of its neighbours, whose NICs are of a faster model' && ! grep -q Drain flat
"
test_expect 'GPUs that never had a rail of their own are no reason to drain' "
    env_of rails-even && ! grep -q 'Not certain' flat && sets NCCL_CROSS_NIC 0
"
test_expect 'two subnets of which one lost a port are two subnets still' "
    env_of ib-halves && sets NCCL_CROSS_NIC 0 && env_of ib-halves-down && sets NCCL_CROSS_NIC 0 &&
    says 'in 2 subnets' && says 'since mlx5_7:1 is down' && score ib-halves-down 'not doc[\"choice\"][\"certain\"]'
"
test_expect '... and the check of the way to the NIC does not pass: failed when down, a warning when slow' "
    check_of rail-dead rdma && says 'FAIL NIC near GPU GPU 5: goes by a neighbour' && says 'Drain this machine' &&
    check_of rail-slow rdma && says 'WARN NIC near GPU GPU 2: goes by a neighbour' &&
    check_of hidden rdma && ! grep -q 'goes by a neighbour' flat
"

# ---- what the environment says
test_expect '^mlx5_1 also excludes mlx5_10 and the lint says so' "
    env_of half-rate-two -e NCCL_IB_HCA=^mlx5_1 &&
    tr '\n' ' ' <err | grep -q 'also excludes mlx5_10, mlx5_11, mlx5_12, mlx5_13, mlx5_14, mlx5_15' &&
    env_of half-rate-two -e NCCL_IB_HCA=^=mlx5_1 && ! grep -q 'also excludes' err
"
test_expect 'a prefix: every device that it takes besides is named' "
    env_of half-rate-two -e NCCL_IB_HCA=mlx5_1 &&
    tr '\n' ' ' <err | grep -q 'also takes mlx5_10, mlx5_11, mlx5_12, mlx5_13, mlx5_14, mlx5_15'
"
test_expect 'InfiniBand and RoCE: the addresses of the RoCE ports alone are searched' "
    env_of split-layers && ! grep -q 'Ethernet segment' flat && says 'search ends at index 3' &&
    check_of split-layers rdma && ! grep -q 'one link layer alone' flat &&
    check_of layers-beside rdma && says 'NCCL takes ports of both, and does not join them'
"
test_expect 'distance alone makes no storage NIC' "
    env_of bluefield && says 'every GPU has a nearer port' && ! grep -q 'storage or management' flat
"
test_expect 'a list that costs bandwidth is shown beside NCCL alone' "
    stoker detect --root $tars/root-ports.tar -e NCCL_IB_HCA==mlx5_0 --why NCCL_IB_HCA >why &&
    tr '\n' ' ' <why | grep -q 'which is worse'
"
test_expect 'NCCL_COMM_ID tells the peer' "
    env_of ib-converged -e NCCL_COMM_ID=100.126.0.99:29500 && says 'The route to 100.126.0.99' &&
    env_of ib-converged -e MASTER_ADDR=100.126.0.98 && says 'The route to 100.126.0.98' &&
    env_of ib-converged -e MASTER_ADDR=100.126.0.98 -e NCCL_COMM_ID=10.10.3.3:1 &&
    says 'The route to 10.10.3.3' &&
    env_of ib-converged -e MASTER_ADDR=100.126.0.98 -e NCCL_COMM_ID=node1:1 &&
    says 'The route to 100.126.0.98'
"
test_expect 'IPoIB: the choice says what it assumes' "
    env_of ib-converged && sets NCCL_SOCKET_IFNAME =eno1 && says 'is IP over InfiniBand: this assumes' &&
    env_of ib-converged --peer 100.126.0.98 && sets NCCL_SOCKET_IFNAME '' &&
    says 'is IP over InfiniBand: this assumes that every node'
"
test_expect 'RDMA turned off: no interface of the data is taken away, no RDMA port praised' "
    for off in NCCL_IB_DISABLE=1 NCCL_NET=Socket; do
        env_of late-front -e \$off && sets NCCL_SOCKET_IFNAME '' && says 'chooses the interfaces for data too' &&
        says 'eth_7 (400 Gb/s)' && says \"NCCL_IB_HCA is left unset. \${off%=1} turns RDMA off.\" &&
        ! grep -qE 'right ones|NCCL_CROSS_NIC' flat || return 1
        stoker detect --root $tars/late-front.tar -e \$off >page && ! grep -q 'share ' page || return 1
    done
"
test_expect 'with RDMA the same machine starts over the route to the others' "
    env_of late-front && sets NCCL_SOCKET_IFNAME =eno1
"
test_expect 'NCCL_NET_GDR_LEVEL stays unset where PXN gives every GPU GPUDirect, as --check has it' "
    env_of fewer-nics && sets NCCL_NET_GDR_LEVEL '' && says 'a neighbour that has one (PXN)' &&
    env_of fewer-nics -e NCCL_PXN_DISABLE=1 && sets NCCL_NET_GDR_LEVEL PHB &&
    check_of fewer-nics rdma && ! grep -q 'through host memory' flat
"
test_expect 'an IOMMU that translates: the level is not raised, and the reason is said' "
    env_of root-ports && sets NCCL_NET_GDR_LEVEL PHB &&
    env_of root-ports-translated && sets NCCL_NET_GDR_LEVEL '' && says 'the IOMMU translates addresses'
"
omp() { # omp VALUE ARG...
    want=$1
    shift
    stoker detect --root "$tars/root-ports.tar" --env=full "$@" >env.sh 2>/dev/null &&
        sets OMP_NUM_THREADS "$want"
}
test_expect 'OMP_NUM_THREADS follows SLURM_CPUS_PER_TASK' "
    omp 4 && omp 3 -e SLURM_CPUS_PER_TASK=3 &&
    omp 2 -e SLURM_CPUS_PER_TASK=8 -e SLURM_NTASKS_PER_NODE=1 && omp 4 -e SLURM_CPUS_PER_TASK=16
"

# ---- NUMA nodes, and one judgement for --env and --check
test_expect 'several NUMA nodes a socket: the same socket is not called another' "
    env_of sub-numa && says 'in another NUMA node of its socket' &&
    check_of sub-numa rdma,training && says 'another NUMA node of the same socket (mlx5_0)' &&
    says '2 GPUs over 2 sockets' && ! grep -q 'across sockets' flat
"
test_expect '... nor where other GPUs have a NIC at their switch' "
    env_of sub-numa-some && says 'that NCCL takes to be across the sockets from every NIC (SYS)' &&
    ! grep -q 'have NICs across the sockets' flat
"
test_expect 'numa_node -1 everywhere: near, as NCCL has it' "
    env_of no-numa && sets NCCL_NET_GDR_LEVEL PHB && says 'The farthest pair is at PHB' &&
    score no-numa 's[0][\"nccl\"][\"path\"] == \"PHB\"'
"
test_expect 'numa_node -1 on some: far, as NCCL has it, and not called another socket' "
    env_of half-numa && sets NCCL_NET_GDR_LEVEL '' && says 'tells no NUMA node' &&
    score half-numa 's[0][\"nccl\"][\"path\"] == \"SYS\"' &&
    check_of half-numa rdma && says 'tells no NUMA node' && ! grep -q 'across sockets' flat
"
test_expect 'a GPU whose neighbour stands at the NIC passes (PXN), unless that is off' "
    check_of single-nic rdma &&
    says 'GPU 4-7: a NIC at the PCIe switch of a GPU that NVLink leads to' &&
    check_of single-nic rdma -e NCCL_PXN_DISABLE=1 &&
    says 'GPU 4-7: its nearest NIC is across sockets'
"
test_expect 'a port without a subnet manager where others have one: no second one is to be started' "
    check_of ib-init rdma && says 'Other ports here have a subnet manager' && ! grep -q 'Start a subnet manager' flat &&
    check_of ib-init-all rdma && says 'Start a subnet manager on the fabric'
"
test_expect 'the check says which port lands on another network' "
    check_of gid-networks rdma &&
    says 'mlx5_2/1: NCCL'\''s search ends at index 3, on another network than other ports'
"
test_expect 'the check blames the cable of a slow rail, not a storage NIC of its own fabric' "
    check_of half-rate rdma && says 'mlx5_3/1: 200 Gb/s, other ports of this kind run at 400'
"

# ---- the scores are shown
test_expect 'detect --why shows both scores' "
    stoker detect --root $tars/bluefield.tar --why NCCL_IB_HCA >why &&
    grep -q 'score  *GPU 0: NCCL.s own choice 100 Gb/s at PHB by mlx5_8:1' why
"
test_expect 'the page shows both scores' "
    COLUMNS=400 stoker detect --root $tars/bluefield.tar >page &&
    tr '\n' ' ' <page | tr -s ' ' | grep -q 'GPU 0-7 100 Gb/s at PHB by NCCL.s own choice, 200 Gb/s at PIX'
"
test_expect 'JSON has both scores' "
    score bluefield '[s[7][k][x] for k in (\"nccl\", \"wanted\") for x in (\"mbps\", \"path\", \"ports\")] == [100000, \"PHB\", \"mlx5_9:1\", 200000, \"PIX\", \"mlx5_7:1\"]'
"
test_expect 'a list that is set is scored against NCCL alone' "
    stoker detect --root $tars/bluefield.tar -e NCCL_IB_HCA==mlx5_8,mlx5_9 --env --json >j &&
    python3 -c 'import json; s = json.load(open(\"j\"))[\"choice\"][\"scores\"]; assert s[0][\"wanted\"][\"ports\"] == \"mlx5_8:1\"'
"

# ---- the width of a way by a neighbour
test_expect 'a way by a neighbour is no wider than the PCIe link of that neighbour' "
    env_of relay-link && sets NCCL_IB_HCA $eight && says 'GPU 1-3,5-7 200 Gb/s at PIX either way' && says 'with them 252.0 Gb/s by NCCL'
"

# ---- the picture
# drawn MACHINE TEXT COUNT: so many times in its picture
drawn() {
    stoker detect --root "$tars/$1.tar" --svg pic.svg && got=$(grep -oF -- "$2" pic.svg | wc -l) &&
        test "$got" = "$3" || { echo "$1: '$2' is drawn $got times, not $3"; return 1; }
}
test_expect 'the picture marks the ports that NCCL uses, each once' "
    drawn storage-roce '>NCCL<' 9 && drawn half-rate '>NCCL<' 8 && drawn ib-down '>NCCL<' 9 &&
    drawn late-front '>NCCL<' 8
"
test_expect 'the picture draws second ports, a bond of one card as one, and sockets around their nodes' "
    drawn bonded '>NCCL<' 4 && drawn bonded '>1: 400 Gb/s IB<' 1 && drawn bonded '>2: DOWN<' 1 &&
    drawn bonded '>bond0, 2 links<' 1 && drawn bonded '>2 x 100 Gb/s<' 1 && drawn bonded '>ens9f1<' 0 &&
    drawn sub-numa '>Socket 0<' 1 && drawn sub-numa '>Socket 1<' 1 && drawn bonded '>Socket 0<' 0
"
# ---- for a whole group
test_expect 'render nccl writes the same for a group' "
    stoker detect --root $tars/bluefield.tar --json >node.json &&
    printf '%s\n' 'schema: stoker.spec/1' 'nodes:' '  - name: gpu' '    hosts: rail-node' \
        '    gpus_per_node: 8' '    gpu: {model: H100}' >stoker.yaml &&
    stoker render nccl -f stoker.yaml --inventory node.json -o out >/dev/null 2>err || { cat err; false; }
    grep -qx NCCL_IB_HCA=$eight out/nccl/nccl.conf &&
    tr '\n' ' ' <out/nccl/nccl.conf | sed 's/ # / /g' | grep -q '200 Gb/s at PIX with the wanted ports'
"
test_expect 'a variable that costs bandwidth or GPUDirect is warned of, with what it costs' "
    env_of bluefield -e NCCL_IB_HCA=mlx5_1 && tr '\n' ' ' <err | grep -q 'warning: NCCL_IB_HCA=mlx5_1: It costs 8 of 8 GPUs bandwidth: a share of 25 Gb/s at worst, where the ports of this machine give 200 Gb/s' &&
    env_of bluefield -e NCCL_NET_GDR_LEVEL=LOC && tr '\n' ' ' <err | grep -q 'error: NCCL_NET_GDR_LEVEL=LOC: It turns GPUDirect RDMA off' &&
    env_of bluefield -e NCCL_IB_HCA=$eight && ! grep -q costs err
"
test_done
