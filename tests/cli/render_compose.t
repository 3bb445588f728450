#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker render compose`: the file has the form compose asks for, says what the spec says, whatever
# its texts hold, and its health checks ask real servers.
. "$(dirname "$0")/lib.sh"
python=
for p in python3 /usr/bin/python3; do
    [ -n "$python" ] || ! $p -c 'import yaml' 2>/dev/null || python=$p
done
[ -n "$python" ] || { test_skip "compose files" "no python3 with yaml is here"; test_done; }
for m in bert bert-score; do
    cp -r "$TOP/tests/fixtures/models/$m" "$m" && chmod -R u+w "$m"
    cp "$TOP/tests/fixtures/tokenizers/tiny-bert.json" "$m/tokenizer.json"
done
$python "$TOP/tests/cli/render_compose.py" "$BUILD/stoker" "${STOKER_SCHEMAS:-$TOP/../shared/schemas}/compose-spec.json"
