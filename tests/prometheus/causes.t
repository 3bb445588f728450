#!/bin/sh
# SPDX-License-Identifier: MIT
# Alerts of one cause: the agent with the fake driver and a kernel log posts to a real Alertmanager
# that runs what `stoker render prometheus` writes: the root is active, what follows is inhibited.
. "$(dirname "$0")/../cli/lib.sh"
if ! command -v prometheus-alertmanager >/dev/null; then
    test_skip 'Alertmanager inhibits what follows' 'Alertmanager is not here: tools/setup prometheus'
    test_done
fi
export PYTHONPATH="$TOP/tests/cli"
python3 "$TOP/tests/prometheus/causes.py" "$BUILD/stoker" "$BUILD/tests/libfakenvml.so" "$TOP/tests"
