#!/bin/sh
# SPDX-License-Identifier: MIT
# https to other programs: agents, exporters, Alertmanager and webhooks, with real TLS servers and an
# authority made here: trust, dates, names, time limits, replies without an end, a machine without libcurl.
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "https" "python3 is not here"; test_done; }
export XDG_STATE_HOME="$TMP/state" XDG_RUNTIME_DIR="$TMP"
python3 "$TOP/tests/cli/web.py" "$BUILD/stoker"
