#!/bin/sh
# SPDX-License-Identifier: MIT
# Every route of the model server: its numbers beside those of the commands, its forms, its
# prompts, what it tells of cuts, its errors, and that the OpenAPI document says the same.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the routes of the model server" "python3 is not here"; test_done; }
python3 "$TOP/tests/cli/serve_api.py" "$BUILD/stoker"
