#!/bin/sh
# SPDX-License-Identifier: MIT
# Pools of the machine's memory, models that come when they are asked for, loads that are waited for.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "pools of models" "python3 is not here"; test_done; }
python3 "$TOP/tests/cli/serve_pools.py" "$BUILD/stoker"
