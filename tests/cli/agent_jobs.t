#!/bin/sh
# SPDX-License-Identifier: MIT
# Whose a GPU is and what jobs say of themselves: labels of GPUs from the cgroups of a captured
# machine, files of training jobs, XIDs that two sources tell.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "jobs on GPUs" "python3 is not here"; test_done; }
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP"
python3 "$TOP/tests/cli/agent_jobs.py" "$BUILD/stoker" "$BUILD/tests/libfakenvml.so" "$TOP/tests/fakenvml"
