#!/bin/sh
# SPDX-License-Identifier: MIT
# Clusters for jobs a month and a turnaround, by simulation.
. "$(dirname "$0")/lib.sh"

test_expect '200 jobs a month of 8 GPUs and a day: the answer, with percentiles' '
    stoker plan queue --jobs 200 --gpus 8 --hours 24h --turnaround 72h >out && golden out plan/queue.txt
'
test_expect 'the same twice; another seed is another two years' '
    stoker plan queue --jobs 200 --gpus 8 --hours 24h --turnaround 72h >again && cmp out again 2>/dev/null ||
        { stoker plan queue --jobs 200 --gpus 8 --hours 24h --turnaround 72h >out; cmp out again; } &&
    stoker plan queue --jobs 200 --gpus 8 --hours 24h --turnaround 72h --seed 9 >other && ! cmp -s other again
'
test_expect 'JSON: the answer keeps the turnaround, one node fewer does not' '
    stoker plan queue --jobs 200 --gpus 8 --hours 24h --turnaround 72h --json >j && python3 - <<\EOF
import json
d = json.load(open("j"))
assert d["schema"] == "stoker.plan-queue/1" and d["nodes_busy"] == 7
assert d["nodes_busy"] <= d["nodes_least"] <= d["nodes"] <= d["nodes_most"]
at = {s["nodes"]: s for s in d["sizes"]}
assert at[d["nodes"]]["turnaround_h"]["p95"] <= 72 < at[d["nodes"] - 1]["turnaround_h"]["p95"]
for s in d["sizes"]:
    t = s["turnaround_h"]
    assert t["p50"] <= t["p90"] <= t["p95"] <= t["p99"] <= t["max"] and 0 < s["utilisation"] <= 1
    assert abs(s["utilisation"] * s["nodes"] - 200 * 24 / 720) < 0.35   # the work is what it is
EOF
'
test_expect 'several kinds of job from a table; backfill helps them' '
    printf "name,per_month,gpus,hours,spread\nsmall,600,2,4,1\nnode,100,8,20,1\nlarge,6,64,60,0.5\n" >mix.csv &&
    stoker plan queue --mix mix.csv --nodes 14 --json >easy && stoker plan queue --mix mix.csv --nodes 14 --fifo --json >fifo &&
    python3 -c "
import json
e, f = (json.load(open(n))[\"sizes\"][0] for n in (\"easy\", \"fifo\"))
assert e[\"wait_h\"][\"mean\"] < f[\"wait_h\"][\"mean\"] and e[\"jobs\"] == f[\"jobs\"]" &&
    stoker plan queue --mix mix.csv --turnaround 96h --percentile 90 | grep -q "turn 90 % of the jobs around in 96 h"
'
test_expect 'a cluster that is too small says that its queue only grows' '
    stoker plan queue --jobs 200 --gpus 8 --hours 24h --nodes 5 | grep -q "only grows"
'
refused() {
    want=$1 msg=$2 hint=$3
    shift 3
    stoker plan queue "$@" >out 2>err
    test $? = "$want" && test ! -s out && sed -n 1p err | grep -qF -- "$msg" && sed -n 2p err | grep -qF -- "$hint" ||
        { cat err; return 1; }
}
test_expect 'what is refused, and with which words' '
    refused 2 "no --jobs and no --mix" "--jobs 200" --turnaround 48h &&
    refused 2 "no --turnaround and no --nodes" "48h" --jobs 200 &&
    refused 2 "option '"'--spread' cannot be 'x'"'" "0 to 10" --jobs 200 --turnaround 48h --spread x &&
    refused 2 "wants 80 GPUs: more than the cluster" "32 GPUs" --jobs 9 --gpus 80 --nodes 4 &&
    refused 4 "no cluster turns 95 % of these jobs around in 24.0 hours" "Without any waiting" --jobs 200 --turnaround 24h &&
    { printf "name,per_month\nx,1\n" >bad.csv; stoker plan queue --mix bad.csv --nodes 4 >out 2>err; test $? = 1; } &&
    grep -q "table .bad.csv.: there is no column .gpus." err
'
test_done
