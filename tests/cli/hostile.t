#!/bin/sh
# SPDX-License-Identifier: MIT
# What nobody means well with: captures made to stall or crash, folders full of what is no
# file, a process started without its descriptors, memory or processes, and a gather that
# somebody has put a trap for.
. "$(dirname "$0")/lib.sh"

hostile() { python3 "$TOP/tests/hostile/tars.py" "$@"; }

# quick FORM...: on the capture x.tar, within what a person waits even under a sanitizer
quick() { timeout 20 "$BUILD/stoker" detect --root x.tar "$@" >out 2>err; }

# ---- captures
test_expect 'an extension header shorter than its own length: no crash' '
    hostile pax x.tar && quick --json && python3 -m json.tool out >/dev/null
'
test_expect 'deep paths without their folders: quick' '
    hostile deep x.tar && quick --json
'
test_expect 'eighty thousand errors to replay: quick' '
    hostile errors x.tar && quick --json
'
test_expect 'sixty thousand variables: as many as an environment would give, quick' '
    hostile env x.tar && quick --env=full && quick --json && python3 -c "
import json
assert len(json.load(open(\"out\"))[\"place\"][\"env\"]) == 512
"
'
test_expect 'a document of two million values: refused, not held' '
    hostile values x.tar && quick --json && grep -q "too many values" out
'
test_expect 'a capture that was cut is no small machine' '
    hostile env whole.tar && head -c 1024 whole.tar >x.tar && ! quick && grep -q "tar" err &&
    hostile names whole.tar && size=$(wc -c <whole.tar) && head -c $((size - 10240)) whole.tar >x.tar &&
    ! quick && grep -q "end mark\|ends inside" err
'
test_expect 'names that shells and terminals act on: quoted, or no names' '
    hostile names x.tar && quick --env=full && sh ./out >/dev/null && test ! -e pwned &&
    quick && ! grep -q "$(printf "\033")" out && quick --svg - &&
    python3 -c "import xml.etree.ElementTree as e; e.parse(\"out\")"
'

test_expect 'a name of two lines forges no line' '
    hostile forged x.tar && for form in "" "--check all" "--env=full" --topo; do
        quick $form || test $? = 1 || exit 1
        ! grep -n "^  PASS  *forged\|	" out || exit 1
    done && quick && grep -q "GPU? PASS forged" out
'

# ---- folders
test_expect 'FIFOs, folders, links out of the root and 1 GB in place of files: quick' '
    mkdir -p x.tar.d/proc/self x.tar.d/stoker x.tar.d/etc && cd x.tar.d && mkfifo proc/meminfo stoker/self.json &&
    mkdir proc/cpuinfo && truncate -s 1G proc/self/mountinfo && ln -s /etc/passwd etc/os-release &&
    ln -s ../../../../../../../../etc/passwd proc/cmdline && cd .. && rm -f x.tar && mv x.tar.d x.tar &&
    quick --json && ! grep -q "root:" out && rm -r x.tar
'

# ---- the process
fake() {
    FAKE_NVML_JSON=$TOP/tests/fakenvml/h200.json STOKER_NVML_LIB=$BUILD/tests/libfakenvml.so "$@"
}
test_expect 'without stdin, stdout and stderr the driver is still understood' '
    fake stoker detect --svg a.svg && fake stoker detect --svg b.svg <&- >&- 2>&- && cmp a.svg b.svg &&
    grep -q H200 a.svg
'
test_expect 'stdout that is closed is an error' '
    stoker detect >&- 2>err; test $? = 1 && grep -q "could not write" err
'
case "$BUILD" in
*/address | */*thread) test_skip 'out of memory: one line, exit 4' 'a sanitizer needs its memory' ;;
*)
    test_expect 'out of memory: one line, exit 4' '
        hostile errors x.tar && (ulimit -v 10000; exec "$BUILD/stoker" detect --root x.tar) >out 2>err
        test $? = 4 && test ! -s out && test "$(wc -l <err)" = 1 && grep -q "out of memory" err
    '
    ;;
esac

# ---- gather
test_expect 'gather --force replaces files alone, not folders and FIFOs' '
    mkdir folder && mkfifo fifo && ! stoker gather --force folder 2>err && grep -q "is no file" err &&
    ! stoker gather --force fifo 2>err && grep -q "is no file" err && test -p fifo && test -d folder &&
    ! ls | grep -q "\.tmp\."
'

test_expect 'a file that may not grow: an error, and nothing is left behind' '
    (ulimit -f 8; exec "$BUILD/stoker" gather small.tar) >out 2>err; test $? = 1 &&
    grep -q "could not write" err && ! ls | grep -q small
'

# ---- the command line
usage() {
    stoker "$@" >out 2>err
    test $? = 2 && test ! -s out && test -s err
}
test_expect 'messages hold nothing a terminal acts on' '
    esc=$(printf "\033") && usage "x${esc}[31m" && ! grep -q "$esc" err && usage detect "--${esc}[31m" &&
    ! grep -q "$esc" err && ! stoker detect --root "${esc}c" 2>err && ! grep -q "$esc" err
'
test_expect '--version: a line for scripts, then what a bug report needs' '
    stoker --version >out && head -1 out | grep -qx "stoker [0-9.]*" && grep -Eq "^commit  +([0-9a-f]{12}( and changes)?|unknown)$" out &&
    grep -Eq "^compiler  +(gcc|clang) [0-9]" out && grep -q "^linked  .*libfyaml [0-9].*ncurses [0-9].*zlib [0-9]" out &&
    grep -Eq "libcurl.so.4: (libcurl/[0-9]|not found)" out && grep -q "^CUDA " out
'
test_expect '--version behind every command' '
    for c in detect gather "spec check" spec help; do
        test "$(stoker $c --version)" = "$(stoker --version)" || exit 1
    done
'
test_expect 'a command of a command is named with it' '
    usage spec check && grep -q "stoker help spec check" err && usage spec bogus &&
    grep -q "unknown command .spec bogus." err && usage spec --bogus && grep -q "unknown option" err
'
test_expect 'an operand too many is named; an empty choice is none' '
    usage detect a && grep -q "operand .a.$" err && usage gather a b && grep -q "operand .b.$" err &&
    usage detect --colour= && stoker detect --env= >out
'

# ---- completion, in a bash
if command -v bash >/dev/null; then
    # completes 'WORDS' 'WANT': what is offered for the last word, itself an argument
    completes() {
        want=$1 && shift
        got=$(bash -c '. ./completion; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _stoker; echo "${COMPREPLY[*]}"' \
            bash stoker "$@")
        test "$got" = "$want" || { echo "$*: '$got', not '$want'"; false; }
    }
    test_expect 'bash completes commands, options and values, and leaves files to the shell' '
        stoker completion bash >completion && completes detect de && completes "check doc example show" spec "" &&
        completes --topo detect --to && completes rdma detect --check r && completes "auto always" detect --colour a &&
        completes full detect --env = f && completes "" detect --root "" && completes "" spec check "" &&
        completes kb-a100 spec example k && completes "gather" help g && completes "bash zsh fish" completion ""
    '
else
    test_skip 'bash completes commands, options and values' 'no bash'
fi

# ---- set-up
test_expect 'set-up without the means says what is missing and how to go on' '
    mkdir bin && printf "#!/bin/sh\nexit 100\n" >bin/apt-get && cp bin/apt-get bin/dpkg-query &&
    cp bin/apt-get bin/sudo && chmod +x bin/* && PATH=$PWD/bin:$PATH "$TOP/tools/setup" build >out 2>err
    test $? = 1 && grep -q "could not install libfyaml-dev libncurses-dev zlib1g-dev: apt-get" err && grep -q "by hand" err
'
test_done
