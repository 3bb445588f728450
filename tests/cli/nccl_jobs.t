#!/bin/sh
# SPDX-License-Identifier: MIT
# What is said of NCCL by what a job loads (tests/machines/jobs.py): one NCCL of several, the
# library for RDMA, plug-ins that variables keep out.
. "$(dirname "$0")/lib.sh"
. "$TOP/tests/cli/nccl_lib.sh"

tars=$TMP/tars
"$TOP/tests/machines/jobs.py" "$tars" && "$TOP/tests/machines/build.py" "$tars" cloud-efa vm-plain >/dev/null || {
    echo "Bail out! the machines could not be built"
    exit 1
}

# ---- several NCCLs
test_expect 'the one that PyTorch brings counts before the system'"'"'s, in --env and --check' "
    env_of wheel-older && sets NCCL_IB_GID_INDEX 3 && json_of wheel-older 'c[\"nccl_version\"] == \"2.18.1\"' &&
    flat_of wheel-older --check training && says 'NCCL 2.18.1 is older than 2.21' &&
    env_of wheel-newer && sets NCCL_IB_GID_INDEX '' && json_of wheel-newer 'c[\"nccl_version\"] == \"2.27.3\"' &&
    flat_of wheel-newer --check training && says 'NCCL 2.18.3 at /usr/lib/x86_64-linux-gnu/libnccl.so.2.18.3 is beside 2.27.3'
"
test_expect 'where the two differ in what is used the answer is not certain, and says in what' "
    json_of wheel-older 'not c[\"certain\"] and \"2.27.5 of /usr/lib\" in c[\"doubts\"][0] and \"GID\" in c[\"doubts\"][0]' &&
    json_of wheel-newer 'not c[\"certain\"]' &&
    json_of wheel-like 'c[\"certain\"] and c[\"nccl_version\"] == \"2.27.3\"'
"
test_expect 'LD_LIBRARY_PATH comes before the system, and a wheel named there is one finding' "
    env_of path-older && sets NCCL_IB_GID_INDEX 3 &&
    json_of path-older 'c[\"nccl_version\"] == \"2.19.3\" and not c[\"certain\"]' &&
    json_of wheel-path 'c[\"nccl_version\"] == \"2.27.3\" and c[\"certain\"]'
"
test_expect 'LD_PRELOAD comes before all, and is certain' "
    env_of preloaded && sets NCCL_IB_GID_INDEX 3 &&
    json_of preloaded 'c[\"nccl_version\"] == \"2.19.3\" and c[\"certain\"]'
"
test_expect 'one that tells no version is not taken for another that does' "
    json_of untold 'c[\"nccl_version\"] is None and \"/opt/nccl/lib\" in c[\"doubts\"][0]'
"

# ---- the library for RDMA
test_expect 'without libibverbs, or its provider for the NIC, RDMA is not certain, and --check warns' "
    json_of slim-none 'not c[\"certain\"] and \"libibverbs.so.1\" in c[\"doubts\"][0]' &&
    flat_of slim-none --check rdma && says 'libibverbs was not found' &&
    json_of slim-other 'not c[\"certain\"] and \"no provider for mlx5_0\" in c[\"doubts\"][0]' &&
    flat_of slim-other --check rdma && says 'WARN verbs library libibverbs has no provider for mlx5_0 (libmlx5' &&
    json_of slim-whole 'c[\"certain\"]' && flat_of slim-whole --check rdma && says 'PASS verbs library'
"

# ---- plug-ins that variables keep out
test_expect 'AWS EFA without its plug-in is TCP, with NCCL_NET=IB an error, and the variable is to blame' "
    for e in NCCL_NET=socket NCCL_NET_PLUGIN=none; do
        json_of cloud-efa 'c[\"transport\"] == \"tcp\"' -e \$e && flat_of cloud-efa -e \$e --check rdma &&
        says 'FAIL AWS EFA 32 EFA devices stay unused' && env_of cloud-efa -e \$e &&
        tr '\\n' ' ' <err | grep -q 'error: NCCL_NET' || return 1
    done
    json_of cloud-efa 'c[\"transport\"] == \"fails\"' -e NCCL_NET=IB && env_of cloud-efa -e NCCL_NET=IB &&
    grep -q 'error: NCCL_NET=IB' err && json_of cloud-efa 'c[\"transport\"] == \"efa\"'
"
test_expect 'NCCL_NET=IB where no port can be used: NCCL stops, and does not go over TCP' "
    json_of vm-plain 'c[\"transport\"] == \"fails\"' -e NCCL_NET=IB
"

# ---- the GPUs a job has: as the driver of an H200 reads the variable
test_expect 'CUDA_VISIBLE_DEVICES: the number a word begins with, one kind, nothing twice, UUIDs with digits' '
    uuid=$(stoker detect --root "$tars/wheel-like.tar" --json | sed -n "s/.*\"uuid\": \"\(GPU-[^\"]*\)\".*/\1/p" | head -1) &&
    for v in "0 1=1" "+1=1" "0x1=1" "1gpu,2=2" " 3=1" "0,0=" "1,9,2=1" "1,-1,2=1" "0,=1" ",0=" "all=" "GPU-=" \
        "$uuid=1" "$uuid,0=1" "0,$uuid=1" "$uuid,$uuid="; do
        env_of wheel-like --env=full -e "CUDA_VISIBLE_DEVICES=${v%=*}" && sets GPUS_PER_NODE "${v##*=}" ||
            { echo "for $v"; return 1; }
    done
    flat_of wheel-like -e CUDA_VISIBLE_DEVICES=0,0 --check container && says "WARN GPUs left to CUDA"
'
test_expect 'on each of these machines: the environment, once set, is what is printed' '
    "$TOP/tests/cli/nccl_settled.py" "$BUILD/stoker" "$tars"/*.tar
'
test_done
