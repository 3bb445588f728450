#!/bin/sh
# SPDX-License-Identifier: MIT
# Work that is too large for one request: files and batches in OpenAI's API, also across kill -9 and
# a full disk, and streams of lines in bounded memory.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "large work" "python3 is not here"; test_done; }
for kind in bert bert-score; do
    cp -r "$TOP/tests/fixtures/models/$kind" "$kind" && chmod -R u+w "$kind"
    cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" "$kind/tokenizer.json"
done
python3 "$TOP/tests/cli/serve_bulk.py" "$BUILD/stoker" bert bert-score
