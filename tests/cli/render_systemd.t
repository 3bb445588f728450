#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render systemd`: systemd itself takes the units and reads from them what the spec has, and
# the real agent, server and up run by the rendered lines.
. "$(dirname "$0")/lib.sh"
for need in python3 systemd-analyze; do
    command -v $need >/dev/null || { test_skip "systemd units" "$need is not here"; test_done; }
done
for m in bert bert-score; do
    cp -r "$TOP/tests/fixtures/models/$m" "$m" && chmod -R u+w "$m"
    cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" "$m/tokenizer.json"
done
python3 "$TOP/tests/cli/render_systemd.py" "$BUILD/stoker" "$TOP"
