#!/bin/sh
# SPDX-License-Identifier: MIT
# The curl lines of docs/user/serving.md, run as they stand, with tiny models; CLIENTS_MODEL is a
# real one (`make test-clients`).
. "$(dirname "$0")/lib.sh"
command -v python3 >/dev/null || { test_skip "the examples" "python3 is not here"; test_done; }
if [ -n "${CLIENTS_MODEL-}" ] && ! stoker model info "$CLIENTS_MODEL" >/dev/null 2>&1; then
    test_skip "the examples with $CLIENTS_MODEL" "it is not here: stoker model get $CLIENTS_MODEL"
    test_done
fi
python3 "$TOP/tests/clients/examples.py" "$BUILD/stoker" ${CLIENTS_MODEL:+"$CLIENTS_MODEL"}
