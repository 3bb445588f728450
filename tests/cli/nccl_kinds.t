#!/bin/sh
# SPDX-License-Identifier: MIT
# What is said of NCCL by its release and by the kind of machine (tests/machines/kinds.py).
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/cli/nccl_lib.sh"

tars=$TMP/tars
"$TOP/tests/machines/kinds.py" "$tars" || {
    echo "Bail out! the machines could not be built"
    exit 1
}

# ---- direct copies between GPUs, by release and processor
ways() { # TRANSPORT: that of every pair of GPUs
    echo "{x[\"transport\"] for x in c[\"p2p\"]} == {\"$1\"}"
}
test_expect 'AMD before 2.23: GPUs copy directly across the sockets; 2.23 wants two GPUs' "
    json_of amd-222 \"\$(ways p2p)\" && json_of amd-223 \"\$(ways shm)\" && json_of intel-222 \"\$(ways shm)\" &&
    json_of amd-223 \"\$(ways p2p)\" -e CUDA_VISIBLE_DEVICES=0,1
"
test_expect 'and what --env=full writes down is the default of that release' "
    stoker detect --root $tars/amd-222.tar --env=full >env.sh 2>err && sets NCCL_P2P_LEVEL SYS &&
    stoker detect --root $tars/amd-223.tar --env=full >env.sh 2>err && sets NCCL_P2P_LEVEL PXB &&
    flat_of amd-222 && hides 'shared host memory'
"
test_expect 'dma-buf came with 2.13: before, GPUDirect RDMA wants the peer-memory module' "
    flat_of dmabuf-212 --check rdma && test \$rc = 1 && says 'FAIL GPUDirect RDMA dma-buf works, but NCCL 2.12.12 does not use it' &&
    json_of dmabuf-212 'c[\"gpudirect_support\"] == \"none\" and not any(g[\"use\"] for g in c[\"gpudirect\"])' &&
    json_of dmabuf-213 'c[\"gpudirect_support\"] == \"dma-buf\" and any(g[\"use\"] for g in c[\"gpudirect\"])'
"
test_expect 'an NCCL newer than what is followed: not certain, and said' "
    env_of newer && says 'NCCL 2.35.1 is newer than 2.30' && json_of newer 'not c[\"certain\"]' && json_of amd-222 'c[\"certain\"]'
"
test_expect 'NCCL took 16 ports up to 2.18.3' "
    json_of many-2183 'sum(x[\"used\"] for x in c[\"ports\"]) == 16' && env_of many-2183 && says 'takes the first 16' &&
    json_of many-2185 'sum(x[\"used\"] for x in c[\"ports\"]) == 18'
"
test_expect 'and knew no way by a neighbour (PXN) before 2.12' "
    json_of neighbours-211 'not {g[\"path\"] for g in c[\"gpudirect\"]} & {\"PXN\"}' && env_of neighbours-211 && hides PXN
"

# ---- GPUs without a rail of their own
test_expect 'fewer rails than GPUs, all well: no doubt, no drain' "
    json_of even-rails 'c[\"certain\"] and env[\"NCCL_CROSS_NIC\"][\"value\"] == \"0\"' &&
    flat_of even-rails && hides Drain && flat_of even-rails --check rdma && test \$rc = 0 && hides 'neighbour.s rail' && hides 'faster rail'
"
test_expect 'one of these rails slower than the others: its GPU alone goes astray' "
    flat_of even-rails-slow && says 'GPU 4 goes by those of its neighbours, whose rails are faster' &&
    json_of even-rails-slow 'not c[\"certain\"]'
"
test_expect 'a rail down without NVLink leads astray all the same' "
    flat_of far-rail-down && says 'GPU 1 goes by those of its neighbours, since mlx5_1:1 is down'
"

# ---- no share is more than PCIe carries
shares() { # MBPS: that of every GPU
    echo "{x[\"wanted\"][\"mbps\"] for x in c[\"scores\"]} == {$1}"
}
test_expect 'the share is what the slot carries now, and that is no fault of the card' "
    json_of gen4-slots \"\$(shares 252048)\" && flat_of gen4-slots && hides PROBLEM:\ PCIe &&
    flat_of gen4-slots --check rdma && says 'PASS NIC PCIe link mlx5_0-3: PCIe x16 at 16.0 GT/s PCIe: all that the slot can do (252 Gb/s)'
"
test_expect '... of both ports of a card together, and no more than the GPU takes' "
    json_of one-link \"\$(shares 252048)\" && json_of two-nics-a-gpu \"\$(shares 504112)\"
"

# ---- the links of GPUs of one model are compared, and a bridge is no fabric
test_expect 'cards without a bridge, and cards without NVLink, are no reason to drain' "
    flat_of one-bridge --check gpu && hides Drain && says 'WARN NVLink GPU 2-3: no link of 12 is active, while a bridge joins' && hides 'FAIL NVLink' &&
    flat_of two-kinds --check gpu && hides Drain && says 'PASS NVLink GPU 0-1: 12 links active' && hides 'FAIL NVLink' &&
    says 'several models: 2 of 4 GPUs have NVIDIA L4'
"
test_expect 'a bridge with links down fails, and a board whose GPU has none' "
    flat_of bad-bridge --check gpu && test \$rc = 1 && says 'FAIL NVLink GPU 2-3: 8 of 12 links active' && hides 'fabric manager.s log' &&
    flat_of board-link-down --check gpu && test \$rc = 1 && says 'FAIL NVLink GPU 3: 0 of 12 links active'
"
test_expect 'NVLink whose peer access the driver refuses: NCCL stops, in every output' "
    flat_of refused && says 'PROBLEM: NCCL stops with an error: NVLink joins 3 pairs of GPUs' && hides 'shared host memory' &&
    says 'NVLink for 3 of 6 pairs, an error for 3 of 6 pairs' &&
    env_of refused && says 'NCCL stops with an error' && hides 'uses it by itself' && sets NCCL_P2P_LEVEL '' &&
    flat_of refused --check gpu && test \$rc = 1 && says 'FAIL peer access GPU 0 with 2, GPU 1 with 2, GPU 2 with 3: NVLink joins them' &&
    json_of refused 'sum(x[\"transport\"] == \"fails\" for x in c[\"p2p\"]) == 3'
"
test_expect '... unless NCCL was told to go on without, or not to use it at all' "
    flat_of refused -e NCCL_IGNORE_DISABLED_P2P=1 && hides 'NCCL stops' && says 'shared host memory for 3 of 6 pairs' &&
    flat_of refused -e NCCL_P2P_DISABLE=1 && hides 'NCCL stops'
"

# ---- ports and interfaces
test_expect 'a port that is taken down and keeps its address is no spare one' "
    flat_of kept-address --check rdma && test \$rc = 1 && says 'FAIL port state mlx5_3/1:' && hides 'without an address' &&
    flat_of kept-address && says 'PROBLEM: port 1 of mlx5_3 is DOWN'
"
test_expect 'a bridge of pods before the way out is not the only interface' "
    flat_of pods-first && hides 'The only interface' && says 'Between machines: TCP sockets. NCCL starts over cni0' &&
    env_of pods-first && sets NCCL_SOCKET_IFNAME '=eno1' &&
    flat_of pods-first -e NCCL_SOCKET_IFNAME=cni0 && says 'The only interface that NCCL_SOCKET_IFNAME leaves is cni0'
"
test_expect 'on each of these machines: the environment, once set, is what is printed' '
    "$TOP/tests/cli/nccl_settled.py" "$BUILD/stoker" "$tars"/*.tar
'
test_done
