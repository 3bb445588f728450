#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/bench/quiet: it keeps a command on as many cores as were asked for, of those it may use.
. "$(dirname "$0")/lib.sh"

quiet=$BUILD/tests/quiet
core=$("$quiet" 1 2>/dev/null)
test_expect 'a command runs on one core' '[ "$("$quiet" 1 nproc 2>/dev/null)" = 1 ]'
test_expect "a core's number alone is printed" 'expr "$core" : "[0-9][0-9]*$" >/dev/null'
test_expect 'of one core that it may use it takes that' \
    '[ "$(taskset -c "$core" "$quiet" 1 2>/dev/null)" = "$core" ]'
test_expect 'more cores than there are is refused' \
    'taskset -c "$core" "$quiet" 2 true 2>err; [ $? = 1 ] &&
     grep -q "2 cores are asked for, this process may use 1" err'
test_expect "the command's status is its own" '"$quiet" 1 sh -c "exit 7" 2>/dev/null; [ $? = 7 ]'
test_expect 'a command that is not there' \
    '"$quiet" 1 ./nothing 2>err; [ $? = 127 ] &&
     grep -q "could not run .\./nothing.: No such file" err'
test_expect 'no count' '"$quiet" 2>/dev/null; [ $? = 2 ] && ! "$quiet" 0 true 2>/dev/null'
test_done
