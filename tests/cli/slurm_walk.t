#!/bin/sh
# SPDX-License-Identifier: MIT
# The commands of docs/user/deploying.md do what the page says: those for one machine are run.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the walk-through" "python3 is not here"; test_done; }
why=
plain_build && why=$("$TOP/tools/slurm-here" check) || why="${why:-$ONCE}"
PYTHONDONTWRITEBYTECODE=1 exec python3 "$TOP/tests/slurm/walk.py" "$BUILD" ${why:+"$why"}
