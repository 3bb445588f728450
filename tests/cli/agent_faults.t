#!/bin/sh
# SPDX-License-Identifier: MIT
# The node agent through faults, seen from outside: GPUs that go, drivers that change, a disk that
# fills up, a clock that is set, histories that are cut, labels that mean harm.  docs/user/agent.md has
# the list of all faults and their tests.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the agent's faults" "python3 is not here"; test_done; }
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP"
python3 "$TOP/tests/cli/agent_faults.py" "$BUILD/stoker" "$BUILD/tests/libfakenvml.so" "$TOP/tests" "$BUILD/tests/libfakeclock.so"
