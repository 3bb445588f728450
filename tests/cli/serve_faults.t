#!/bin/sh
# SPDX-License-Identifier: MIT
# The model server under faults: clients that die, stall or send garbage, models that change under
# it, full pools, overload, signals, 10,000 connections.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the model server under faults" "python3 is not here"; test_done; }
for m in bert bert-score; do
    cp -r "$TOP/tests/fixtures/models/$m" "$m" && chmod -R u+w "$m"
    cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" "$m/tokenizer.json"
done
PYTHONDONTWRITEBYTECODE=1 python3 "$TOP/tests/cli/serve_faults.py" "$BUILD/stoker" bert bert-score "$@"
