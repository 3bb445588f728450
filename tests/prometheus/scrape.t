#!/bin/sh
# SPDX-License-Identifier: MIT
# A real Prometheus scrapes replayed nodes, and has data for every query of NVIDIA's dashboard; it
# evaluates our rules, and what fires reaches a real Alertmanager, from it and from an agent.
#
#   DASHBOARD=FILE   the dashboard's JSON: our list of its queries is compared with it
#   RECORDING=FILE   is replayed in the place of the demo
. "$(dirname "$0")/../cli/lib.sh"
for p in prometheus promtool python3; do
    command -v $p >/dev/null || {
        test_skip 'Prometheus scrapes replayed nodes' "$p is not here: tools/setup prometheus"
        test_done
    }
done
PYTHONPATH=$TOP/tests/cli exec python3 "$TOP/tests/prometheus/scrape.py" "$BUILD/stoker" "$BUILD/tests/libfakenvml.so"
