#!/bin/sh
# SPDX-License-Identifier: MIT
# What is said of NCCL on machines where something besides place and fabric decides
# (tests/machines/odd.py): --env, --why, --check, the page and the JSON say the same.
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/cli/nccl_lib.sh"

tars=$TMP/tars
"$TOP/tests/machines/odd.py" "$tars" && "$TOP/tests/machines/build.py" "$tars" gb200 >/dev/null || {
    echo "Bail out! the machines could not be built"
    exit 1
}

pairs() { # COUNT: GPUs and NICs with GPUDirect RDMA
    echo "sum(g[\"use\"] is True for g in c[\"gpudirect\"]) == $1"
}

# ---- virtual machines
test_expect 'a virtual machine that hides its switches: no level is set, and it is not certain' "
    env_of guest && sets NCCL_NET_GDR_LEVEL '' && says 'Not certain: This virtual machine does not show' &&
    says 'set PHB only after measuring' && says 'NCCL_TOPO_FILE is left unset. This virtual machine hides' &&
    json_of guest 'not c[\"certain\"] and env[\"NCCL_NET_GDR_LEVEL\"][\"kind\"] == \"unset\"'
"
test_expect 'its page tells nothing of the IOMMU of the host, and has the doubt' "
    flat_of guest && hides 'IOMMU off' && says 'no IOMMU of its own' && says 'Not certain: This virtual machine'
"
test_expect '--why of the level and of the topology file say the same' "
    flat_of guest --why NCCL_NET_GDR_LEVEL && says 'set PHB only after measuring' &&
    flat_of guest --why NCCL_TOPO_FILE && says 'This virtual machine hides'
"
test_expect 'its check does not say how far a NIC is that the virtual machine does not show' "
    for m in guest topo-empty topo-foreign topo-tab; do flat_of \$m --check rdma && hides 'another root port' && says 'UNKNOWN NIC near GPU' || exit 1; done
"
test_expect 'switches that are passed on, or a topology file, leave no doubt' "
    json_of guest-switches 'c[\"certain\"] and \"NCCL_TOPO_FILE\" not in env' &&
    env_of guest -e NCCL_TOPO_FILE=/x.xml && hides 'does not show'
"
test_expect 'a topology file that -e names: read where it is, a warning where it is not, and no claim on either' "
    env_of guest -e NCCL_TOPO_FILE=/x.xml && grep -q 'warning: NCCL_TOPO_FILE=/x.xml' err && says 'the capture or inventory does not hold' &&
    says 'Not certain: NCCL_TOPO_FILE names /x.xml' && hides 'and not from this machine' &&
    mkdir -p topo && tar -xf $tars/guest.tar -C topo && tar -xf $tars/guest-topo.tar -C topo opt/topo.xml &&
    tar -cf $tars/guest-beside.tar -C topo . &&
    json_of guest-beside 'c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PIX\"' -e NCCL_TOPO_FILE=/opt/topo.xml &&
    stoker detect -e NCCL_TOPO_FILE=/not-here/topo.xml --env 2>err >live && grep -q 'warning: NCCL_TOPO_FILE' err && tr '\\n' ' ' <err | grep -q 'cannot be opened'
"

test_expect 'a topology file that names NICs where NCCL does not look: NCCL_IB_MERGE_VFS=0, and it is said' "
    env_of guest-file && sets NCCL_IB_MERGE_VFS 0 && says 'names mlx5_0, mlx5_1, mlx5_2, mlx5_3 by their own' &&
    json_of guest-file 'not c[\"certain\"] and c[\"scores\"][0][\"wanted\"][\"path\"] == \"PIX\"' &&
    json_of guest-file 'c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PIX\"' -e NCCL_IB_MERGE_VFS=0 &&
    json_of guest-file 'c[\"scores\"][0][\"nccl\"][\"path\"] == \"PHB\"' -e NCCL_IB_MERGE_VFS=1 &&
    env_of guest-file -e NCCL_IB_MERGE_VFS=1 && grep -q 'warning: NCCL_IB_MERGE_VFS=1' err &&
    env_of guest-file-226 && sets NCCL_IB_MERGE_VFS '' && json_of guest-file-226 'c[\"certain\"]'
"
test_expect '... at another function than 0: no variable mends that, and no way is claimed' "
    env_of guest-function && sets NCCL_IB_MERGE_VFS '' && says 'NCCL does not find mlx5_1, mlx5_3, mlx5_5, mlx5_7 in the topology file' &&
    sets NCCL_NET_GDR_LEVEL '' && flat_of guest-function --check rdma && says 'Name the NICs in /var/run' && hides 'Nothing is broken' && hides NPS1 &&
    json_of guest-gpus 'not c[\"certain\"] and {s[\"nccl\"][\"path\"] for s in c[\"scores\"]} == {\"SYS\"} and env[\"NCCL_NET_GDR_LEVEL\"][\"value\"] is None' &&
    for v in 0 1; do
        json_of guest-function 'not c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PHB\"' -e NCCL_IB_MERGE_VFS=\$v || exit 1
    done
    json_of guest-function 'not c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PHB\"' &&
    json_of guest-function-226 'c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PIX\"' &&
    json_of guest-function-zero 'c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PIX\"'
"
test_expect 'NICs where NCCL does not look, without a file: it would take those of both sockets for one at the first' "
    env_of flat-nodes && sets NCCL_IB_MERGE_VFS 0 && says 'there is none: it would take all for one NIC at its first CPU' &&
    json_of flat-nodes '{s[\"nccl\"][\"path\"] for s in c[\"scores\"]} == {\"PHB\"} and not c[\"certain\"]' &&
    json_of flat-nodes '[s[\"nccl\"][\"path\"] for s in c[\"scores\"]] == [\"PHB\", \"SYS\"]' -e NCCL_IB_MERGE_VFS=1 &&
    env_of flat-nodes -e NCCL_IB_MERGE_VFS=1 && grep -q 'warning: NCCL_IB_MERGE_VFS=1' err &&
    json_of flat-nodes 'c[\"certain\"]' -e NCCL_IB_MERGE_VFS=0 && env_of flat-nodes-226 && sets NCCL_IB_MERGE_VFS '' && hides Certain
"
test_expect 'a topology file of a version that NCCL refuses is a PROBLEM, and its distances do not count' "
    flat_of guest-file-version && says 'PROBLEM: topology file /var/run/nvidia-topologyd/virtualTopology.xml: its version is 2' &&
    json_of guest-file-version 'not c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PHB\"' &&
    flat_of guest-file-bare && says 'its version is missing'
"

test_expect 'what the reader of NCCL does not take stops every job, although it is XML' "
    for m in topo-tab topo-declared topo-cut; do
        flat_of \$m && says 'PROBLEM: topology file /opt/topo.xml: line' && json_of \$m 'not c[\"certain\"]' || exit 1
        env_of \$m && grep -q 'error: NCCL_TOPO_FILE' err || exit 1
    done
    for m in topo-tab topo-declared topo-cut guest-file-version; do
        flat_of \$m --check rdma && test \$rc = 1 && says 'FAIL NCCL start' && json_of \$m 'c[\"transport\"] == \"fails\" and c[\"stop_why\"]' &&
            flat_of \$m && says 'PROBLEM: NCCL stops at start-up' && hides 'Between machines: RDMA' || exit 1
    done
    json_of guest-topo 'c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PIX\"' && flat_of guest-topo && hides 'PROBLEM: topology'
"
test_expect 'an empty topology file, or one of another machine, leaves NCCL what the machine shows' "
    for m in topo-empty topo-foreign; do
        env_of \$m && sets NCCL_NET_GDR_LEVEL '' && says 'Not certain: This virtual machine does not show' &&
            grep -q 'warning: NCCL_TOPO_FILE' err || exit 1
    done
"

# ---- several NCCLs
test_expect 'two NCCLs whose rules differ: not certain, and the one that a job loads counts' "
    env_of two-nccls && says 'this is what 2.18.1 of' && sets NCCL_IB_GID_INDEX 3 && json_of two-nccls 'not c[\"certain\"]' &&
    flat_of two-nccls --check training && says 'WARN NCCL NCCL 2.18.1 is older'
"
test_expect 'LD_LIBRARY_PATH is looked at first, as the loader does' "
    env_of path-nccl && says 'this is what 2.19.3 of /opt/nccl/lib' && sets NCCL_IB_GID_INDEX 3
"

# ---- GPUs
test_expect 'GeForce has no GPUDirect RDMA: no level is set for it, and the check does not pass it' "
    env_of geforce && sets NCCL_NET_GDR_LEVEL '' && says 'GeForce GPUs have no GPUDirect RDMA' &&
    flat_of geforce --check rdma && says 'SKIP GPUDirect RDMA GeForce' && hides 'NCCL_NET_GDR_LEVEL=PHB' && json_of geforce 'not any(g[\"use\"] for g in c[\"gpudirect\"])'
"
test_expect 'ranks that see one GPU each get one level, and their part of the CPUs' "
    for g in 0 1 2 3 0,1; do
        env_of ranks -e CUDA_VISIBLE_DEVICES=\$g && sets NCCL_NET_GDR_LEVEL PHB || exit 1
        env_of ranks -e CUDA_VISIBLE_DEVICES=\$g --env=full && sets OMP_NUM_THREADS 4 || exit 1
    done
"
test_expect 'a number that no GPU has is not counted as one' "
    flat_of ranks -e CUDA_VISIBLE_DEVICES=9 --check container && says 'WARN GPUs left to CUDA CUDA_VISIBLE_DEVICES=9 leaves CUDA 0 of 4' &&
    flat_of ranks -e CUDA_VISIBLE_DEVICES=0,foo,1 --check container && says 'leaves CUDA 1 of 4' &&
    flat_of ranks -e CUDA_VISIBLE_DEVICES=0,1 --check container && says 'PASS GPUs left to CUDA'
"

# ---- ACS and the IOMMU
test_expect 'ACS at a switch between GPU and NIC: the check names the ports, --env and --why what it does' "
    flat_of acs-switch --check rdma && says 'WARN ACS on at' && says 'switch ports between GPUs and NICs' && says 'Switch ACS off in the BIOS' &&
    env_of acs-switch && says 'ACS is on at' && sets NCCL_NET_GDR_LEVEL '' && flat_of acs-switch --why NCCL_P2P_LEVEL && says 'ACS is on at' &&
    flat_of acs-ats --check rdma && says 'with ATS they reach each other directly all the same' &&
    flat_of acs-lent --check rdma && says 'only where the port lets translated requests through' && hides 'all the same'
"
test_expect 'ACS at root ports only redirects nothing' "
    flat_of acs-root --check rdma && says 'PASS ACS on at' && env_of acs-root && hides 'ACS is on'
"
test_expect 'an IOMMU that translates sends all through the root complex, whatever ACS is' "
    env_of iommu-translated && says 'The IOMMU translates addresses, so what GPUs and NICs behind one switch send' && says 'iommu=pt' &&
    flat_of iommu-translated --check gpu && says 'also where one switch is above them and ACS is off' &&
    flat_of guest-switches --env && hides 'IOMMU translates'
"

# ---- cards of two ports
test_expect 'a dead second port of a rail: machines that are well pair it with a rail that leads nowhere' "
    for m in second-dead second-bare; do
        env_of \$m && says 'GPU 3 goes by those of its neighbours, since mlx5_7:1 is down' &&
            env_of \$m -e NCCL_IB_MERGE_NICS=0 && says 'mlx5_7:1 is down: GPU 3 goes on by the rest of its ports' && json_of \$m 'not c[\"certain\"]' &&
            flat_of \$m --check rdma && says 'FAIL port state mlx5_7/1' || exit 1
    done
    json_of second-port 'c[\"certain\"]'
"
test_expect 'second ports that most cards leave free are spare, and it is told that this is not certain' "
    env_of second-some && says 'a port that nobody uses, or a rail that is missing here' && flat_of second-some --check rdma && hides FAIL &&
    env_of spare-ports && hides 'rail that is missing'
"

# ---- what a release knows
test_expect 'an empty port in NCCL_IB_HCA is port 0 before 2.30.7, which none has' "
    env_of ranks -e NCCL_IB_HCA==mlx5_0:,mlx5_1::1 && grep -q \"no RDMA port 'mlx5_0:0'\" err && json_of ranks 'c[\"transport\"] == \"tcp\"' -e NCCL_IB_HCA==mlx5_0:
"
test_expect 'names of levels that came later are ignored, and it is said' "
    env_of guest-file-226 -e NCCL_NET_GDR_LEVEL=P2C && tr '\\n' ' ' <err | grep -q 'no level of that name' &&
    env_of guest-file -e NCCL_NET_GDR_LEVEL=P2C && ! grep -q 'no level' err
"
test_expect 'GB200 with 2.28: the level that is the default changes nothing' "
    json_of gb200 \"\$(pairs 16)\" && json_of gb200 \"\$(pairs 16)\" -e NCCL_NET_GDR_LEVEL=PXB && json_of gb200 'c[\"gpudirect_level\"] == \"PXB\"'
"

# ---- AWS EFA
test_expect 'variables that keep the plug-in of EFA out are errors, and nothing goes by EFA then' "
    '$TOP/tests/machines/build.py' '$tars' cloud-efa >/dev/null && json_of cloud-efa 'c[\"transport\"] == \"efa\"' &&
    json_of cloud-efa 'c[\"transport\"] == \"tcp\"' -e NCCL_NET=Socket && json_of cloud-efa 'c[\"transport\"] == \"tcp\"' -e NCCL_NET_PLUGIN=none &&
    json_of cloud-efa 'c[\"transport\"] == \"fails\"' -e NCCL_NET=IB && env_of cloud-efa -e NCCL_NET=Socket && grep -q 'error: NCCL_NET=Socket' err &&
    flat_of cloud-efa -e NCCL_NET=Socket --check rdma && says 'FAIL AWS EFA'
"

test_expect 'a network that no plug-in is known to bring is told, one that is known is not' "
    json_of cloud-efa 'not c[\"certain\"]' -e NCCL_NET=Foo && env_of cloud-efa -e NCCL_NET=Foo && grep -q 'warning: NCCL_NET=Foo' err &&
    json_of cloud-efa 'c[\"certain\"]' -e 'NCCL_NET=AWS Libfabric' && env_of cloud-efa -e 'NCCL_NET=AWS Libfabric' && ! grep -q NCCL_NET= err
"

# ---- ports that look like RoCE
test_expect 'iWARP is not called RoCE: RDMA is turned off, or the others are named' "
    env_of iwarp && sets NCCL_IB_DISABLE 1 && says 'they are iWARP' && hides 'right ones' &&
    sets NCCL_NET_GDR_LEVEL '' && sets NCCL_CROSS_NIC '' &&
    env_of iwarp-beside && sets NCCL_IB_HCA =mlx5_2:1,mlx5_3:1 && sets NCCL_IB_DISABLE '' && says 'is iWARP' &&
    flat_of iwarp --check rdma && hides 'cma_roce_mode' && hides 'wanted for RoCE'
"

# ---- neighbours: NCCL 2.27 goes by no chip-to-chip link of theirs, 2.28 does
test_expect 'GB200: a neighbour at the NIC by its chip-to-chip link sends for us from 2.28 on' "
    json_of gb200 \"\$(pairs 8)\" -e NCCL_PXN_C2C=0 && json_of gb200 \"\$(pairs 16)\" -e NCCL_PXN_C2C=1
"
test_expect 'the default is that of the version: 2.27 does not' "
    mkdir -p gb && tar -xf $tars/gb200.tar -C gb && lib=\$(find gb -name 'libnccl.so.2') && (cd \$(dirname \$lib) &&
    rm -f libnccl* && : >libnccl.so.2.27.5 && ln -s libnccl.so.2.27.5 libnccl.so.2) && tar -cf $tars/gb227.tar -C gb . &&
    json_of gb227 \"\$(pairs 8)\" && flat_of gb227 && says '8 of 16 GPU and NIC pairs' &&
    (cd \$(dirname \$lib) && mv libnccl.so.2.27.5 libnccl.so.2.28.3 && ln -sf libnccl.so.2.28.3 libnccl.so.2) &&
    tar -cf $tars/gb228.tar -C gb . && json_of gb228 \"\$(pairs 16)\" && json_of gb228 \"\$(pairs 8)\" -e NCCL_P2P_LEVEL=LOC
"
test_expect 'what keeps NCCL from starting does not change how far its NICs are' "
    for v in NCCL_SOCKET_FAMILY=AF_INET6 NCCL_COMM_ID=10.55.0.1:1 NCCL_SOCKET_IFNAME=eth9; do
        flat_of neighbours -e \$v --check rdma && says 'FAIL NCCL start' && hides 'across sockets' && says '(PXN)' || exit 1
    done
"
test_expect 'a GPU whose NIC is left out by NCCL_IB_HCA: the variable is the cause, not the slot' "
    flat_of ranks -e NCCL_IB_HCA==mlx5_0 --check rdma && says 'is left out by NCCL_IB_HCA' && says 'Unset NCCL_IB_HCA' && hides 'Move a NIC'
"
test_expect 'NVLink that NCCL was told not to use leads to no neighbour' "
    json_of neighbours '{g[\"path\"] for g in c[\"gpudirect\"]} == {\"PIX\", \"PXN\"}' &&
    json_of neighbours 'not {g[\"path\"] for g in c[\"gpudirect\"]} & {\"PXN\"}' -e NCCL_P2P_DISABLE=1 &&
    env_of neighbours -e NCCL_P2P_DISABLE=1 && hides 'NCCL uses it by itself' && hides PXN &&
    says 'NCCL_P2P_DISABLE=1 keeps GPUs from' && flat_of neighbours -e NCCL_P2P_DISABLE=1 --why NCCL_IB_HCA && hides PXN
"

# ---- links and ports
test_expect 'a degraded PCIe link is a PROBLEM of the page, with what it carries' "
    flat_of bad-slots && says 'PROBLEM: PCIe link of mlx5_1 degraded to x4 at 32.0 GT/s' && says '126 Gb/s, less than its port' &&
    says 'PROBLEM: PCIe link of mlx5_2 degraded to x16 at 8.0 GT/s' && hides 'PCIe link of mlx5_3' && hides 'PCIe link of mlx5_0'
"
test_expect 'the share of a GPU is what the link carries, in every output' "
    json_of bad-slots 'p[\"mlx5_1:1\"][\"pcie_mbps\"] == 126028 and p[\"mlx5_0:1\"][\"pcie_mbps\"] is None and c[\"scores\"][1][\"wanted\"][\"mbps\"] == 126028' &&
    env_of bad-slots && says 'The PCIe link of mlx5_1:1 (126 Gb/s), mlx5_2:1 (126 Gb/s) is degraded' &&
    flat_of bad-slots --why NCCL_IB_HCA && says 'is degraded'
"
test_expect 'and the check fails; lanes that nobody misses are a warning' "
    flat_of bad-slots --check rdma && test \$rc = 1 && says 'FAIL NIC PCIe link mlx5_1:' && says 'WARN NIC PCIe link mlx5_3:' &&
    says 'FAIL NIC PCIe link mlx5_2:'
"
test_expect 'a second port that nobody uses is no fault' "
    for m in spare-ports spare-ports-up; do
        flat_of \$m --check rdma && test \$rc = 0 && says 'WARN port state mlx5_1,3/1:' && flat_of \$m && hides 'PROBLEM: port' &&
        says 'port 1 of mlx5_1 is DOWN and spare' || exit 1
    done
"
test_expect 'one with an address is' "
    flat_of dead-ports --check rdma && test \$rc = 1 && says 'FAIL port state mlx5_1,3/1:' && flat_of dead-ports &&
    says 'PROBLEM: port 1 of mlx5_1 is DOWN'
"
test_expect 'a /31 has no other node in it: such rails are routed, not apart' "
    env_of routed-links && sets NCCL_CROSS_NIC '' && hides 'could not connect'
"
test_expect 'GPUs whose NIC is across the sockets and that go by a neighbour: one sentence for all' "
    env_of neighbours && hides 'through host memory or a neighbour' && says 'a neighbour that has one (PXN)' &&
    env_of neighbours -e NCCL_PXN_DISABLE=1 && hides '(PXN)' && sets NCCL_NET_GDR_LEVEL PHB
"
# Half of the rails, or all but two, are down: whoever has none sends by a neighbour's.
"$TOP/tests/machines/build.py" --dir dgx dgx-h100 >/dev/null
rails_down() { # DEVICE...: into $tars/rails.tar
    for d in "$@"; do echo "1: DOWN" >"$(echo dgx/dgx-h100/sys/class/infiniband/$d/ports/1/)state" || return 1; done
    tar -cf "$tars/rails.tar" -C dgx/dgx-h100 .
}
test_expect 'four rails down and six are told by the same sentence' "
    rails_down mlx5_0 mlx5_4 mlx5_6 mlx5_10 && env_of rails && says 'a neighbour that has one (PXN)' && hides 'through host memory or a' &&
    rails_down mlx5_3 mlx5_9 && env_of rails && says 'a neighbour that has one (PXN)' && hides 'through host memory or a' &&
    env_of rails -e NCCL_PXN_DISABLE=1 && hides 'a neighbour that has one (PXN)' && says 'through host memory'
"
# ---- what only --check and --compare see
test_expect 'a PCIe switch with 4 lanes up: told by its address, once, and among machines that should be equal' "
    flat_of uplink --check gpu && says 'WARN PCIe uplinks' && says 'x4 at 8.0 GT/s PCIe to the CPU, it can do x16' &&
    test \$(grep -c 'WARN *PCIe uplinks' page) = 1 && says '3 of 4 switches' &&
    flat_of uplink-well --check gpu && says 'PASS PCIe uplinks 4 of 4 switches' &&
    { stoker detect --compare '$tars/uplink.tar' '$tars/uplink-well.tar' >diff; test \$? = 1; } &&
    grep -q 'pci.link_width.*4: uplink' diff && ! grep -q 'equal in all' diff
"
test_expect 'NCCL passes a NIC at the switch for a wider one across the sockets: --env, --why and --check say so' "
    env_of wider-far && hides 'which NCCL'\''s default (PXB) covers' && says 'GPU 2 and others like it send by mlx5_0:1 at SYS' &&
    flat_of wider-far --check rdma && says 'WARN NIC near GPU GPU 2-3: NCCL takes mlx5_0:1 at SYS' && says 'PASS NIC near GPU GPU 0-1'
"
test_expect 'without GPUDirect RDMA all go through host memory: no NIC is called wider than its like' "
    flat_of no-peermem --check rdma && hides 'stays idle' && says 'GPU 0-3: a NIC behind the same PCIe switch' && says 'GPUDirect RDMA' &&
    json_of no-peermem 'c[\"scores\"][0][\"wanted\"][\"path\"] == \"PHB\"'
"
test_expect 'MIG refuses peer access on purpose: nobody is drained' "
    flat_of mig-nvlink --check gpu && says 'SKIP peer access MIG is on' && hides 'FAIL peer access'
"
test_expect 'a GPU that a container was given and the driver does not tell is lost, not given to others' "
    for m in container container-list; do
        flat_of \$m --check gpu && test \$rc = 1 && says 'FAIL GPUs visible' && says 'fallen off the bus at' || exit 1
    done
    for m in container-others container-nodes container-dev; do
        flat_of \$m --check gpu && test \$rc = 0 && says 'given to somebody else' && hides 'fallen off' || exit 1
    done
"
test_expect 'virtual functions beside their own ports are the host'\''s stock, not a pod'\''s' "
    flat_of lent-functions --check rdma && says '8 virtual functions of this host' && hides 'WARN virtual functions'
"
test_expect 'names that a plug-in reads are not called slips of names that turn a transport off' "
    for v in NCCL_IBEXT_DISABLE NCCL_SHARP_DISABLE NCCL_NVLS_DISABLE NCCL_TIMEOUT; do
        stoker detect --root '$tars/uplink-well.tar' -e \$v=1 --env >out 2>&1 && ! grep -q 'did you mean' out || return 1
    done &&
    stoker detect --root '$tars/uplink-well.tar' -e NCCL_DEBG=INFO --env 2>&1 | tr '\n' ' ' | grep -q 'did you mean NCCL_DEBUG'
"
test_expect 'on each of these machines: the environment, once set, is what is printed' '
    "$TOP/tests/cli/nccl_settled.py" "$BUILD/stoker" "$tars"/*.tar
'
test_done
