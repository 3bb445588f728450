#!/bin/sh
# SPDX-License-Identifier: MIT
# Models of the Hub: `stoker model get ORG/NAME` and `serve -m ORG/NAME` from a fake Hub that has the real
# one's routes, links, digests and ranges, and breaks them: into the Hub's own cache.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the Hub" "python3 is not here"; test_done; }
cp -r "$TOP/tests/fixtures/models/bert" bert && chmod -R u+w bert
cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" bert/tokenizer.json
cp -r "$TOP/tests/fixtures/torch" torch && chmod -R u+w torch
python3 "$TOP/tests/cli/hub.py" "$BUILD/stoker"
