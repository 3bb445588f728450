#!/bin/sh
# SPDX-License-Identifier: MIT
# Which model answered: digests in every reply, and files that changed behind a model's back.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "which model answered" "python3 is not here"; test_done; }
python3 "$TOP/tests/cli/serve_identity.py" "$BUILD/stoker"
