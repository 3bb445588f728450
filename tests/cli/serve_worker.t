#!/bin/sh
# SPDX-License-Identifier: MIT
# Devices of plug-ins in processes of their own: workers that die, hang, crash, talk, and end with
# their server.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "workers of devices" "python3 is not here"; test_done; }
for m in bert bert-score; do
    cp -r "$TOP/tests/fixtures/models/$m" "$m" && chmod -R u+w "$m"
    cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" "$m/tokenizer.json"
done
PYTHONDONTWRITEBYTECODE=1 python3 "$TOP/tests/cli/serve_worker.py" "$BUILD/stoker" "$BUILD/tests/plugin/engine" "$@"
