#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker up`: the agent and the model server under one parent.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "up" "python3 is not here"; test_done; }
cp -r "$TOP/tests/fixtures/models/bert" bert && chmod -R u+w bert
cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" bert/tokenizer.json
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP" RUNTIME_DIRECTORY="$TMP"
python3 "$TOP/tests/cli/up.py" "$BUILD/stoker"
