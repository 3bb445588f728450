#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker plan validate` and `fit`: times of published runs: a small excerpt, and the whole table
# against the accuracy table, the constants' file and the bands'.
. "$(dirname "$0")/lib.sh"
EXCERPT="$TOP/tests/fixtures/plan/runs.csv"

test_expect 'times by set and source, reasons, a picture in characters, RESULT lines' '
    stoker plan validate --leave-out "$EXCERPT" >out &&
    grep -q "^Korthikanti Table 5  *2 " out && grep -q "^A source left out of the fit: median" out &&
    grep -q "NeMo Framework Launcher README (Oct 2023): 1 no parallel sizes" out &&
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
assert len(x.parse(\"p.svg\").getElementsByTagName(\"circle\")) == 31"
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
RUNS="$TOP/data/runs/published.csv"
test_expect 'make validate-plan takes the table of the repository; a file that is not there is told' '
    grep -q "^RUNS ?= data/runs/published.csv$" "$TOP/mk/plan_validate.mk" && test -r "$RUNS" &&
    test "$(wc -c <"$RUNS")" -lt 1000000 &&
    "$TOP/tools/validate-plan" stoker nothing.csv x | grep -q "^SKIP .*nothing.csv"
'
test_expect 'the first choice of a cell is what the search would take: of two as fast the plainer' '
    python3 - "$RUNS" <<\EOF >two.csv &&
import csv, sys
rows, last = [], []
for r in csv.reader(open(sys.argv[1])):
    last = [b if a == "^" else a for a, b in zip(r, last or r)]
    rows.append(last)
at = rows[0].index
wanted = (("1", "2", "8", "1", "1"), ("2", "1", "8", "2", "0"))  # 4.32 s, predicted a little faster; 4.66 s
keep = [r for r in rows if r[at("model")] == "llama-3B" and r[at("gpus")] == "16" and r[at("iter_time_s")] and
        tuple(r[at(c)] for c in ("tp", "pp", "dp", "micro_batch", "zero")) in wanted]
assert len(keep) == 2, keep
csv.writer(sys.stdout).writerows([rows[0]] + keep)
EOF
    stoker plan validate two.csv >out && grep "^RESULT plan.top1" out && grep -q "^RESULT plan.top1.all 0.9267 .* n=1 crashed=0$" out
'
test_expect 'the whole table: its constants are data/plan.csv, byte for byte' '
    stoker plan fit "$RUNS" -o all.csv >out && cmp all.csv "$TOP/data/plan.csv"
'
test_expect 'the whole table: every row of time holds, every source has one, so do the bands' '
    stoker plan validate --leave-out "$RUNS" --bands bands.csv >out &&
    ! grep "^RESULT .*time_.* short " out && cmp bands.csv "$TOP/data/plan_bands.csv" &&
    grep -q "^RESULT plan.band.coverage_left_out 0\.[789].* ok n=" out && python3 - "$RUNS" <<\EOF
import csv, re, sys
sources, last = set(), ""
for r in csv.DictReader(open(sys.argv[1])):
    last = r["source"] if r["source"] != "^" else last
    sources.add(re.sub("[^a-z0-9.]+", "-", last.lower())[:40].strip("-"))
held = {m[1][:40].strip("-") for m in re.finditer(r"^RESULT plan\.source\.(\S+)\.time_mape .* ok n=", open("out").read(), re.M)}
assert sources == held, sources ^ held
EOF
'
test_done
