#!/bin/sh
# SPDX-License-Identifier: MIT
# The model server in the place of others: TEI's figures, Infinity's shapes, classes where no model
# is named, values that an API refuses, packed bodies, ids of another tokenizer.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the model server in the place of others" "python3 is not here"; test_done; }
python3 "$TOP/tests/cli/serve_dropin.py" "$BUILD/stoker"
