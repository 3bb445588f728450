#!/bin/sh
# SPDX-License-Identifier: MIT
# Prometheus' own opinion of the agent's text: the golden files of test_prom_export parse, and its
# linter complains of no name but those of DCGM and node_exporter that are listed.
. "$(dirname "$0")/lib.sh"
GOLDEN=$TOP/tests/golden/prom_export

test_expect 'the list has no name of ours' '
    ! grep -v "^#" "$GOLDEN/lint-names.txt" | grep -v "^DCGM_[A-Z0-9_]*$" | grep -v "^node_[A-Za-z0-9_]*$"
'
if ! command -v promtool >/dev/null; then
    test_skip 'promtool check metrics' 'promtool is missing: it comes with the Debian package prometheus'
    test_done
fi
for f in h200 all; do
    # 3: it parses, and the linter has complaints
    test_expect "$f.prom: no error, no new complaint" '
        promtool check metrics <"$GOLDEN/'$f'.prom" >out 2>&1; rc=$?
        cat out; test $rc = 0 || test $rc = 3 || exit 1
        sed "s/ .*//" out | sort -u >names
        ! grep -vxFf "$GOLDEN/lint-names.txt" names
    '
done
test_done
