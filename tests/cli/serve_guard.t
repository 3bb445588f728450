#!/bin/sh
# SPDX-License-Identifier: MIT
# Who may ask the model server what: tokens by scope, web pages, slow bodies, secrets that change.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "who may ask" "python3 is not here"; test_done; }
cp -r "$TOP/tests/fixtures/models/bert" bert && chmod -R u+w bert
cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" bert/tokenizer.json
python3 "$TOP/tests/cli/serve_guard.py" "$BUILD/stoker" bert
