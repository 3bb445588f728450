#!/bin/sh
# SPDX-License-Identifier: MIT
# A job that asks for nothing runs in every partition: one site of tests/slurm/sites on a real Slurm;
# make test-slurm has all of them.
. "$(dirname "$0")/lib.sh"
skip() { test_skip "a default job in every partition" "$1"; test_done; }
plain_build || skip "$ONCE"
command -v python3 >/dev/null || skip "python3 is not here"
why=$("$TOP/tools/slurm-here" check) || skip "$why"
PYTHONDONTWRITEBYTECODE=1 exec python3 "$TOP/tests/slurm/sites.py" "$BUILD/stoker" "$BUILD/machines" campus
