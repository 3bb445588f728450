#!/bin/sh
# SPDX-License-Identifier: MIT
# The node agent: values once and over HTTP, recordings and the demo, history through kill -9, a
# full disk and damage, a hung driver, a hundred scrapers, the control socket, the service manager.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the agent" "python3 is not here"; test_done; }
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP"
python3 "$TOP/tests/cli/agent.py" "$BUILD/stoker" "$BUILD/tests/libfakenvml.so" "$TOP/tests/fakenvml"
