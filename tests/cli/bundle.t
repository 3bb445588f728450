#!/bin/sh
# SPDX-License-Identifier: MIT
# `make bundle`: the folder runs elsewhere, with nothing but itself.
. "$(dirname "$0")/lib.sh"

if [ "$BUILD" != "$TOP/build" ]; then
    test_skip 'bundle' 'the plain build is the one that is bundled'
    test_done
fi
env -u MAKEFLAGS make -C "$TOP" --no-print-directory CUDA=0 BUNDLE="$TMP/made" bundle >"$TMP/log" 2>&1
mkdir -p "$TMP/else where"
tar -C "$TMP/made" -cf - . | tar -C "$TMP/else where" -xf - && rm -r "$TMP/made"
cp -r "$TOP/tests/fixtures/models/bert" "$TMP/model"
bundled() { (cd / && env -i "$TMP/else where/stoker" "$@"); }

test_expect 'it was made' 'cat log && grep -q "MiB$" log'
test_expect 'it runs in an empty environment' '
    bundled --version | grep -q "^stoker [0-9]"'
test_expect 'a model runs on the CPU' '
    bundled bench engine "$TMP/model" --device cpu -c 3x5 --passes 2 >out && cat out && grep -q "^3x5  *3  *15  *1  *2" out'
test_expect 'without a plug-in a GPU is no device' '
    bundled bench engine "$TMP/model" --device cuda -c 3x5 2>err; test $? -ge 2 && grep -q "device" err'
test_expect 'no library is looked for outside but the C library' '
    ldd "else where/stoker" | grep -Ev "libc\.so|libm\.so|ld-linux|vdso|else where/lib" >left; test ! -s left || { cat left; false; }'
test_expect 'its tests know their options' '
    for t in gpu-test gpu-bench; do
        python3 -c "import numpy" 2>/dev/null || exit 0
        "else where/$t" --help | grep -q -- --seconds || exit 1
    done'
test_done
