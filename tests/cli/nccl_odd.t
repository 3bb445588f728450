#!/bin/sh
# SPDX-License-Identifier: MIT
# What is said of NCCL on machines where something besides place and fabric decides
# (tests/machines/odd.py): --env, --why, --check, the page and the JSON say the same.
. "$(dirname "$0")/lib.sh"

tars=$TMP/tars
"$TOP/tests/machines/odd.py" "$tars" && "$TOP/tests/machines/build.py" "$tars" gb200 >/dev/null || {
    echo "Bail out! the machines could not be built"
    exit 1
}

# env_of MACHINE [ARG...]: its smallest environment, as env.sh, and as one line
env_of() {
    name=$1
    shift
    stoker detect --root "$tars/$name.tar" --env "$@" >env.sh 2>err
    tr '\n' ' ' <env.sh | sed 's/ # / /g; s/#//g' >flat
}
# any other output as one line: flat_of MACHINE ARG...
flat_of() {
    name=$1
    shift
    stoker detect --root "$tars/$name.tar" "$@" >page 2>err
    rc=$?
    tr '\n' ' ' <page | tr -s ' ' >flat
}
sets() { # NAME VALUE: what a shell gets from env.sh; empty when unset
    got=$(env -i PATH="$PATH" sh -c '. ./env.sh && eval "printf %s \"\${$1-}\""' sh "$1")
    test "$got" = "$2" || {
        echo "$1 is '$got', expected '$2'"
        return 1
    }
}
says() {
    grep -qF -- "$1" flat || {
        echo "not said: $1"
        fold -s -w 120 flat
        return 1
    }
}
hides() {
    ! grep -F -- "$1" flat
}
json_of() { # MACHINE PYTHON-EXPRESSION over doc, c, p, env [ARG...]
    name=$1 what=$2
    shift 2
    stoker detect --root "$tars/$name.tar" --env --json "$@" >nccl.json 2>/dev/null &&
        python3 -c '
import json, sys
doc = json.load(open("nccl.json"))
c = doc["choice"]
p = {"%s:%d" % (x["device"], x["port"]): x for x in c["ports"]}
env = {v["name"]: v for v in doc["env"]}
if not eval(sys.argv[1]):
    print(json.dumps(c, indent=1)[:4000])
    sys.exit(1)' "$what"
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
test_expect 'switches that are passed on, or a topology file, leave no doubt' "
    json_of guest-switches 'c[\"certain\"] and \"NCCL_TOPO_FILE\" not in env' &&
    env_of guest -e NCCL_TOPO_FILE=/x.xml && hides 'does not show'
"

test_expect 'a topology file that names NICs where NCCL does not look: NCCL_IB_MERGE_VFS=0, and it is said' "
    env_of guest-file && sets NCCL_IB_MERGE_VFS 0 && says 'names mlx5_0, mlx5_1, mlx5_2, mlx5_3 by their own' &&
    json_of guest-file 'not c[\"certain\"] and c[\"scores\"][0][\"wanted\"][\"path\"] == \"PIX\"' &&
    json_of guest-file 'c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PIX\"' -e NCCL_IB_MERGE_VFS=0 &&
    json_of guest-file 'c[\"scores\"][0][\"nccl\"][\"path\"] == \"PHB\"' -e NCCL_IB_MERGE_VFS=1 &&
    env_of guest-file -e NCCL_IB_MERGE_VFS=1 && grep -q 'warning: NCCL_IB_MERGE_VFS=1' err &&
    env_of guest-file-226 && sets NCCL_IB_MERGE_VFS '' && json_of guest-file-226 'c[\"certain\"]'
"
test_expect 'a topology file of a version that NCCL refuses is a PROBLEM, and its distances do not count' "
    flat_of guest-file-version && says 'PROBLEM: topology file /var/run/nvidia-topologyd/virtualTopology.xml: its version is 2' &&
    json_of guest-file-version 'not c[\"certain\"] and c[\"scores\"][0][\"nccl\"][\"path\"] == \"PHB\"' &&
    flat_of guest-file-bare && says 'its version is missing'
"

# ---- ports that look like RoCE
test_expect 'iWARP is not called RoCE: RDMA is turned off, or the others are named' "
    env_of iwarp && sets NCCL_IB_DISABLE 1 && says 'they are iWARP' && hides 'right ones' &&
    sets NCCL_NET_GDR_LEVEL '' && sets NCCL_CROSS_NIC '' &&
    env_of iwarp-beside && sets NCCL_IB_HCA =mlx5_2:1,mlx5_3:1 && sets NCCL_IB_DISABLE '' && says 'is iWARP' &&
    flat_of iwarp --check rdma && hides 'cma_roce_mode' && hides 'wanted for RoCE'
"

# ---- neighbours: NCCL 2.27 goes by no chip-to-chip link of theirs, 2.28 does
pairs() { # COUNT: GPUs and NICs with GPUDirect RDMA
    echo "sum(g[\"use\"] is True for g in c[\"gpudirect\"]) == $1"
}
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
test_done
