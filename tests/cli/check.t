#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker detect --check`: answers, remedies, exit status and forms.  What each machine is
# told in full is in machines.t; here are the answers people act on.
. "$(dirname "$0")/lib.sh"

tars=$BUILD/machines
[ -f "$tars/openshift-memlock.tar" ] || {
    tars=$TMP/tars
    "$TOP/tests/machines/build.py" "$tars" || {
        echo "Bail out! the machines could not be built"
        exit 1
    }
}
fakes=$BUILD/tests/plugin
unset STOKER_PLUGIN_DIR CUDA_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES

# check MACHINE GROUP [OPTION...]: unwrapped lines in `out`, the exit status in $status
COLUMNS=1000
check() {
    machine=$1 group=$2
    shift 2
    stoker detect --root "$tars/$machine.tar" --check "$group" "$@" >out 2>err
    status=$?
    cat out err
}

# line STATUS TITLE TEXT: one row has all three
line() {
    grep -E "^  $1 +$2 +" out | grep -F -- "$3"
}

test_expect 'a healthy DGX fails nothing' '
    check dgx-h100 gpu,rdma && test "$status" = 0 &&
    line PASS "GPUs" "8 x NVIDIA H100" && line PASS "NVLink" "GPU 0-7: 18 links active" &&
    ! grep "^  FAIL" out && tail -1 out | grep -E "^[0-9]+ passed, [0-9]+ warnings?, 0 failed"
'
test_expect 'a lost GPU: named, with its address, exit 1' '
    check gpu-lost gpu && test "$status" = 1 &&
    line FAIL "GPUs visible" "fallen off the bus at 0000:" && grep -F "Drain the node and reboot" out
'
test_expect 'locked memory in a pod: both limits and the remedy for a pod' '
    check openshift-memlock rdma && test "$status" = 1 &&
    line FAIL "locked memory" "soft limit 8MiB, hard limit 8MiB" && grep -F "IPC_LOCK" out
'
test_expect 'the pod is judged by its four NICs, not by those of the host' '
    check openshift-roce rdma &&
    line PASS "RDMA devices" "4 devices; 10 more of the host belong to others" &&
    line PASS "GIDs" "RoCE v2 GID at index 3" && line PASS "virtual functions" "port of its own" &&
    ! line FAIL "GIDs" ""
'
test_expect 'an init container without GPUs is explained, not counted as 0' '
    check openshift-init container && test "$status" = 1 &&
    line FAIL "GPUs visible" "not given to this container" && grep -F "init container" out &&
    line UNKNOWN "OpenMP threads" "cannot be counted"
'
test_expect 'what a spec asks for: alone, beside a group, with its line; older fails, exit 1' '
    stoker spec example llm-cluster >site.yaml && stoker detect --root "$tars/dgx-h100.tar" -f site.yaml >out; cat out
    line PASS driver "535 is asked for (site.yaml:17, software.driver)" && line PASS NCCL "2.19 is asked for (site.yaml:19" &&
    ! grep -F "driver answers" out && sed "s/nccl: .*/nccl: \"2.99\"/" site.yaml >new.yaml &&
    check dgx-h100 training -f new.yaml && test "$status" = 1 && line FAIL NCCL "older than 2.99 (new.yaml:19, software.nccl)" &&
    grep -F "Install NCCL 2.99 or newer" out && grep -F "driver answers" out &&
    check dgx-h100 spec && test "$status" = 2 && grep "needs .--file" err
'
test_expect 'training: the group answers its own checks and the shared ones once' '
    check dgx-h100 training && test "$(grep -c "driver answers" out)" = 1 &&
    line PASS "NCCL" "NCCL 2." && line PASS "NUMA balancing" "off" && ! grep -F "port rate" out
'
test_expect 'no RDMA: fails who asks for it, not who asks for all' '
    check a100-pcie rdma && test "$status" = 1 && line FAIL "RDMA devices" "no device" &&
    check a100-pcie all && ! line FAIL "RDMA devices" ""
'
test_expect 'JSON has the schema, every status and full evidence' '
    stoker detect --root "$tars/gpu-lost.tar" --check gpu --json >out.json
    test $? = 1 && python3 -c "
import json
d = json.load(open(\"out.json\"))
assert d[\"schema\"] == \"stoker.checks/1\" and d[\"worst\"] == \"fail\"
rows = d[\"checks\"]
assert sum(d[\"counts\"].values()) == len(rows)
lost = [r for r in rows if r[\"id\"] == \"gpu.visible\" and r[\"status\"] == \"fail\"]
assert len(lost) == 1 and lost[0][\"remedy\"].endswith(\".\"), lost
assert all(r[\"remedy\"] for r in rows if r[\"status\"] in (\"warn\", \"fail\"))
"'
test_expect 'lines fit the terminal' '
    COLUMNS=72 check openshift-memlock all >/dev/null; (! grep -E "^.{73}" out)
'
test_expect 'an unknown group is a usage error' '
    stoker detect --check nics >out 2>err; test $? = 2 && test ! -s out && grep -F nics err
'
test_expect '--deep on a captured machine runs nothing' '
    STOKER_PLUGIN_DIR=$fakes/good check dgx-h100 gpu --deep &&
    line SKIP "CUDA runs" "a captured machine cannot run anything"
'
if [ -f "$fakes/good/stoker-cuda.so" ]; then
    test_expect '--deep here asks the plug-in' '
        STOKER_PLUGIN_DIR=$fakes/good stoker detect --check gpu --deep >out
        line PASS "CUDA runs" "a kernel on 132 of 132 SMs wrote what it should"
    '
    test_expect '--deep here with a plug-in that dies: told, and no harm' '
        STOKER_PLUGIN_DIR=$fakes/crash stoker detect --check gpu --deep >out
        grep -F "died of signal 6" out && line PASS "CUDA runs" "CUDA device 0"
    '
else
    test_skip '--deep here asks the plug-in' 'the fakes are not built'
fi
test_expect '--check without a group is all of them, also before another option' '
    { dgx=$tars/dgx-h100.tar; stoker detect --root "$dgx" --check; stoker detect --root "$dgx" --check all >all; stoker detect --check --root "$dgx" >bare; true; } >end &&
    cmp all end && cmp all bare && test -s all
'
test_done
