#!/bin/sh
# SPDX-License-Identifier: MIT
# Operating the model server: a device that fails, the spec's settings, prompts that are not
# pooled, the service manager, TLS and tokens, --explain and --try.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "operating the server" "python3 is not here"; test_done; }
for m in bert bert-score bert-joined; do
    cp -r "$TOP/tests/fixtures/models/$m" "$m" && chmod -R u+w "$m"
    cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" "$m/tokenizer.json"
done
python3 "$TOP/tests/cli/serve_ops.py" "$BUILD/stoker" "$BUILD/tests/plugin/engine" "$TOP/tests/fixtures/prompts.json"
