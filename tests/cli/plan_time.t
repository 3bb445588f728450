#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker plan validate` and `fit`: times of published runs.  RUNS=FILE.csv holds the whole table
# against the accuracy table and the constants' file; without it a small excerpt serves.
. "$(dirname "$0")/lib.sh"
EXCERPT="$TOP/tests/fixtures/plan/runs.csv"

test_expect 'times by set and source, reasons, a picture in characters, RESULT lines' '
    stoker plan validate --leave-out "$EXCERPT" >out &&
    grep -q "^Korthikanti Table 5  *2 " out && grep -q "^A source left out of the fit: median" out &&
    grep -q "NeMo Framework Launcher README (Oct 2023): 1 no batch, 1 no parallel sizes" out &&
    grep -q "measured s, the same scale" out &&
    grep -q "^RESULT plan.korthikanti-t5.time_mape .* n=2$" out &&
    grep -q "^RESULT plan.left-out.time_worst .* n=" out
'
test_expect 'the same in JSON; used and skipped rows add up' '
    stoker plan validate --json --leave-out "$EXCERPT" >j && python3 - <<\EOF
import json
t = json.load(open("j"))["time"]
for s in t["sources"]:
    assert s["n"] + sum(s["skipped"].values()) == s["rows"], s
assert t["sources"][-1]["rows"] == 35 and t["left_out"]["n"] >= 5
names = [s["set"] for s in t["sets"]]
assert "hf-clean-tp8" in names and "simumax-b200" in names
assert all(s["mape"] < 0.3 for s in t["sets"])
EOF
'
test_expect 'a picture with a dot for each row that was used' '
    stoker plan validate "$EXCERPT" --picture p.svg >out &&
    python3 -c "
import xml.dom.minidom as x
assert len(x.parse(\"p.svg\").getElementsByTagName(\"circle\")) == 25"
'
test_expect 'odd rows have a reason and no figure' '
    python3 - "$EXCERPT" <<\EOF &&
import csv, sys
rows = list(csv.reader(open(sys.argv[1])))
head = rows[0]
good = next(r for r in rows if r[0].startswith("Korthikanti"))
def odd(**change):
    r = list(good)
    for k, v in change.items():
        r[head.index(k)] = v
    return r
out = [head, odd(hardware="8x MI300X"), odd(hardware="V100-32GB"), odd(hardware="TPU v4"),
       odd(layers="?"), odd(layers="0"), odd(hidden="-5"), odd(heads=""), odd(gpus="seven"),
       odd(dp="3"), odd(iter_time_s="1e-300"), odd(iter_time_s=""), odd(iter_time_s="nan"),
       odd(tp="99999999999"), odd(pp="1000000"), odd(global_batch="0"), odd(seq_len="1e99"), good]
csv.writer(open("odd.csv", "w", newline="")).writerows(out)
EOF
    stoker plan validate --json odd.csv >j && python3 -c "
import json
t = json.load(open(\"j\"), parse_constant=lambda c: 1 / 0)[\"time\"][\"sources\"][-1]
assert t[\"skipped\"][\"unknown GPU\"] == 3 and t[\"skipped\"][\"impossible time\"] == 1, t
assert t[\"rows\"] == 17 and t[\"n\"] >= 1 and t[\"max\"] < 1, t"
'
test_expect 'fit: kinds, the built-in file or another, the same bytes twice' '
    stoker plan fit "$EXCERPT" -o a.csv >out && grep -q "^a100  *4  *15 " out &&
    grep -q "not those that are built in" out &&
    stoker plan fit "$EXCERPT" -o - | cmp - a.csv &&
    stoker plan fit --json "$EXCERPT" | python3 -c "
import json, sys
d = json.load(sys.stdin)
assert not d[\"same_as_built_in\"] and all(k[\"free\"] <= 16 and k[\"loss\"] < k[\"loss_start\"] for k in d[\"kinds\"])"
'
test_expect 'fit: no table, a table of something else, no rows that count' '
    stoker plan fit nothing.csv >out 2>err; test $? = 3 && test ! -s out &&
    printf "a,b\n1,2\n" >t.csv; stoker plan fit t.csv >out 2>err; test $? = 1 &&
    grep -q "table .t.csv.: there is no column .source." err &&
    head -1 "$EXCERPT" >none.csv; stoker plan fit none.csv >out 2>err; test $? = 1 &&
    grep -q "no row of the table belongs to a set" err
'
test_expect 'make validate-plan without a table says so' '
    "$TOP/tools/validate-plan" stoker "" x | grep -q "^SKIP .*RUNS=" &&
    "$TOP/tools/validate-plan" stoker nothing.csv x | grep -q "^SKIP .*nothing.csv"
'
if [ -n "${RUNS:-}" ] && [ -r "$RUNS" ]; then
    test_expect 'the whole table: its constants are data/plan.csv, byte for byte' '
        stoker plan fit "$RUNS" -o all.csv >out && cmp all.csv "$TOP/data/plan.csv"
    '
    test_expect 'the whole table: every row of time of the accuracy table holds' '
        stoker plan validate --leave-out "$RUNS" >out && ! grep "^RESULT .*time_.* short " out
    '
else
    test_skip 'the whole table of published runs' 'RUNS=FILE.csv is not given'
fi
test_done
