#!/bin/sh
# SPDX-License-Identifier: MIT
# Captured machines, damaged at random: a short run with a fixed seed.  MUTATE_SECONDS and
# MUTATE_SEED make it a longer or another one (tests/hostile/mutate.py says what holds).
. "$(dirname "$0")/lib.sh"

mkdir tars keep && cp "$BUILD"/machines/*.tar tars/ || {
    echo "Bail out! the machines are not built"
    exit 1
}
rm -f tars/hostile.tar # slow, and as bad as it gets already

test_expect 'every form of every damaged machine ends well' '
    python3 "$TOP/tests/hostile/mutate.py" "$BUILD/stoker" tars --keep keep \
        --seed "${MUTATE_SEED:-1}" --seconds "${MUTATE_SECONDS:-8}"
'
test_done
