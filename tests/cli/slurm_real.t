#!/bin/sh
# SPDX-License-Identifier: MIT
# The files of `stoker render slurm` start a real Slurm on this machine, and it does what the spec says.
. "$(dirname "$0")/lib.sh"
skip() { test_skip "a real Slurm from the rendered files" "$1"; test_done; }
plain_build || skip "$ONCE"
command -v python3 >/dev/null || skip "python3 is not here"
why=$("$TOP/tools/slurm-here" check) || skip "$why"
PYTHONDONTWRITEBYTECODE=1 exec python3 "$TOP/tests/slurm/real.py" "$BUILD/stoker" "$BUILD/machines"
