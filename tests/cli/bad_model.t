#!/bin/sh
# SPDX-License-Identifier: MIT
# Models whose files lie: each is told with file and field, none crashes.
. "$(dirname "$0")/lib.sh"
cp -r "$TOP/tests/fixtures/models/bert" m && chmod -R u+w m
cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" m/tokenizer.json
python3 "$TOP/tests/cli/bad_model.py" "$BUILD/stoker" m
