#!/bin/sh
# SPDX-License-Identifier: MIT
# The story of --demo, played with a fast clock: which alerts fire and end in which chapter; and the
# same story below /demo/ of an agent that measures.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the demo" "python3 is not here"; test_done; }
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP"
python3 "$TOP/tests/cli/demo.py" "$BUILD/stoker"
