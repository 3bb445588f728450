#!/bin/sh
# SPDX-License-Identifier: MIT
# The fleet: 512 fake nodes that speak the agent's API, asked by one real agent.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the fleet" "python3 is not here"; test_done; }
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP"
python3 "$TOP/tests/cli/fleet.py" "$BUILD/stoker" "$TOP/tests/page"
