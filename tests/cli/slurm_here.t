#!/bin/sh
# SPDX-License-Identifier: MIT
# tools/slurm-here without the source beside it: it says what it needs and leaves nothing behind.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "slurm-here alone" "python3 is not here"; test_done; }
test_expect 'help names the machines that nodes are' '
    "$TOP/tools/slurm-here" start --help >help && grep -q -e "--machine FILE" help && grep -q -e "--bad-machine FILE" help &&
    grep -q "WORK/bad.NODE" help && "$TOP/tools/slurm-here" --help | grep -q "stoker gather"
'
why=$("$TOP/tools/slurm-here" check) && [ ! -e /dev/nvidia0 ] || {
    test_skip "slurm-here alone" "${why:-this machine has a GPU}"
    test_done
}
mkdir -p alone/tools etc && cp "$TOP/tools/slurm-here" alone/tools/ && echo "NodeName=here-alone1 CPUs=1" >etc/slurm.conf
start() { alone/tools/slurm-here start --work "$PWD/work" etc "$@" >out 2>err </dev/null; }
test_expect 'without the source it asks for a machine, and leaves no folder' '
    ! start --stoker /bin/true && grep -q -e "--machine FILE" err && grep -q -e "--bad-machine FILE" err && ! grep -q Traceback err &&
    test ! -e work
'
test_expect 'files that are not there are told before anything is made' '
    ! start --stoker /bin/true --machine no.tar && grep -q "machine no.tar: there is no such file" err && test ! -e work &&
    ! start && grep -q "stoker .*build/stoker: there is no such file" err && test ! -e work
'
test_expect 'a source that makes no machine is told, and leaves no folder' '
    mkdir -p alone/tests/machines && echo "import nothing_of_that_name" >alone/tests/machines/build.py &&
    ! start --stoker /bin/true && grep -q "made no machine" err && grep -q nothing_of_that_name err && test ! -e work
'
test_done
