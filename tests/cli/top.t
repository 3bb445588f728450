#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker top`: one screen as text, the screen of a terminal, a lost connection, ending a process.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "top" "python3 is not here"; test_done; }
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP" RUNTIME_DIRECTORY="$TMP"
python3 "$TOP/tests/cli/top.py" "$BUILD/stoker" "$BUILD/tests/libfakenvml.so" "$TOP/tests/fakenvml"
