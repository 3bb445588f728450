#!/bin/sh
# SPDX-License-Identifier: MIT
# The model server over real sockets: every API, errors, faults, models that come and go.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the model server" "python3 is not here"; test_done; }
for m in bert bert-score; do
    cp -r "$TOP/tests/fixtures/models/$m" "$m" && chmod -R u+w "$m"
    cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" "$m/tokenizer.json"
done
python3 "$TOP/tests/cli/serve.py" "$BUILD/stoker" bert bert-score
