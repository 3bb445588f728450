#!/bin/sh
# SPDX-License-Identifier: MIT
# Whole runs: campaigns, goodput, the cluster that meets a deadline, sizes.  Figures that follow
# from the fitted constants are held to bounds and to each other, not to digits.
. "$(dirname "$0")/lib.sh"

# name, exit status, command: JSON of the right kind lands in j
json_is() {
    name=$1 want=$2
    shift 2
    stoker plan "$@" --json >j 2>err
    status=$?
    test $status = "$want" || { echo "status $status"; cat err; return 1; }
    python3 -c "import json; assert json.load(open('j'))['schema'] == 'stoker.plan-$name/1'"
}
test_expect 'campaign: what is printed' '
    stoker plan campaign --model llama-3.1-70b --gpus 64 --time 7d >out &&
    for w in days GPU-hours interruptions "save every" "spare nodes" power energy "on demand" reserved spot "Error band"; do
        grep -q "$w" out || { echo "no $w"; cat out; exit 1; }
    done
'
test_expect 'campaign: figures agree with each other' '
    json_is campaign 0 campaign --model llama-3.1-405b --gpus 16384 --tokens 15.6T --seq 8192 --batch 2048 \
        --config "tp8 pp16 vpp8 zero1 mbs1 sp" &&
    python3 - <<\EOF
import json
d = json.load(open("j"))
near = lambda a, b, s: abs(a - b) <= s * abs(b)
days = d["days"]
assert days["low"] < days["expected"] < days["high"]
assert near(d["clean_days"] / d["goodput"], days["expected"], 1e-9)
assert near(d["gpu_hours"]["expected"], days["expected"] * 24 * 16384, 1e-9)
assert near(d["played_days"]["mean"], days["expected"], 0.01)       # formula and simulation
assert near(d["mtbf_s"] / 3600, 3.09, 0.01)                         # Llama 3: 419 failures in 54 days
assert 0.90 < d["goodput"] < 0.95                                   # "above 90 % effective training time"
assert near(d["interruptions"], days["expected"] * 24 / 3.09, 0.01)
assert near(d["checkpoint_bytes"], 14 * 405853388800, 1e-9)
assert near(d["interval_s"], d["interval_daly_s"], 0.01)
assert d["cost"]["spot"]["days"] > days["expected"]
assert near(d["cost"]["on_demand"]["usd"]["expected"], d["gpu_hours"]["expected"] * 3.97, 1e-6)
assert 20e6 < d["gpu_hours"]["expected"] < 38e6                     # published: 30.84M
EOF
'
test_expect 'campaign: a deadline that is missed exits with 4, one that is kept with 0' '
    json_is campaign 4 campaign --model llama-3.1-8b --gpus 8 --tokens 1T --time 7d &&
    json_is campaign 0 campaign --model llama-3.1-8b --gpus 8 --tokens 1B --time 7d
'
test_expect 'campaign: days without tokens give tokens' '
    json_is campaign 0 campaign --model llama-3.1-8b --gpus 8 --time 7d &&
    python3 -c "import json; d = json.load(open(\"j\")); assert abs(d[\"days\"][\"expected\"] - 7) < 0.1 and d[\"tokens\"] > 1e9"
'
test_expect 'campaign: what the user knows goes before the tables' '
    json_is campaign 0 campaign --model llama-3.1-8b --gpus 64 --tokens 1T --price 2 --mtbf 10000 --write 1GB/s \
        --restart 1h --interval 30m &&
    python3 - <<\EOF
import json
d = json.load(open("j"))
assert abs(d["mtbf_s"] - 10000 * 3600 / 64) < 1 and d["restart_s"] == 3600 and d["interval_s"] == 1800
assert abs(d["save_s"] - 14 * 8030261248 / 1e9) < 1e-3
u = d["cost"]["on_demand"]["usd"]
assert u["low"] == u["high"] and abs(u["expected"] / d["gpu_hours"]["expected"] - 2) < 1e-9
EOF
'
test_expect 'campaign: a measured step closes the band' '
    json_is campaign 0 campaign --model llama-3.1-8b --gpus 64 --tokens 1T --batch 1024 --step 6s --mtbf 50000 &&
    python3 -c "
import json
d = json.load(open(\"j\"))
assert d[\"step_s\"] == 6 and d[\"band\"][\"low\"] == d[\"band\"][\"high\"] == 1
assert d[\"days\"][\"low\"] == d[\"days\"][\"expected\"] == d[\"days\"][\"high\"]"
'
test_expect 'campaign: the H800 says whose constants it takes; adapters save adapters' '
    stoker plan campaign --model llama-3.1-8b --gpu h800 --gpus 8 --tokens 1B | grep -q "H100 constants" &&
    json_is campaign 0 campaign --model llama-3.1-70b --gpus 8 --lora 16 --tokens 1B --batch 64 &&
    python3 -c "import json; assert json.load(open(\"j\"))[\"checkpoint_bytes\"] < 1e10"
'

test_expect 'campaign: machines like a captured one' '
    stoker detect --root "$BUILD/machines/dgx-h100.tar" --json >m.json &&
    stoker plan campaign --model llama-3.1-8b --machine m.json --gpus 16 --tokens 1B | grep -q "on 16 x H100 SXM5 80GB" &&
    { stoker plan campaign --model llama-3.1-8b --machine m.json --gpu h100 --gpus 16 >out 2>err; test $? = 2; } &&
    grep -q "both say which GPU" err
'

test_expect 'goodput: 16,384 GPUs' '
    stoker plan goodput --gpus 16384 --model llama-3.1-405b >out && golden out plan/goodput.txt
'
test_expect 'goodput: formula, simulation and the linear form agree; Young and Daly are near' '
    json_is goodput 0 goodput --gpu a100 --gpus 384 --checkpoint 2.3TB --write 57GB/s &&
    python3 - <<\EOF
import json
d = json.load(open("j"))
assert abs(d["save_s"] - 40.4) < 0.1                       # BLOOM: 2.3 TB in 40 s
assert abs(d["goodput"] - d["goodput_played"]) < 0.002 and abs(d["goodput"] - d["goodput_linear"]) < 0.002
assert abs(d["interval_s"] / d["interval_young_s"] - 1) < 0.02
assert d["spares_suffice"] >= 0.99
EOF
'

test_expect 'cluster: all three costs, rented and bought' '
    stoker plan cluster --model llama-2-7b --tokens 1T --deadline 30d >out &&
    for w in "rent: GPUs" "rent: storage" "rent: network" "buy: GPUs" "buy: storage" "buy: network" "buy or rent"; do
        grep -q "^$w  *[\$0-9r]" out || { echo "no $w"; cat out; exit 1; }
    done &&
    sed -n "/^GPUs/,/^buy or rent/p" out | sed "s/\$[0-9][0-9.]*[kMBT]*/USD/g; s/[0-9][0-9.]*[kMBT]*/N/g" | tr -s " \n" "\n\n" >words &&
    golden words plan/cluster-words.txt
'
test_expect 'cluster: the smallest in time, surer with --sure, and its costs add up' '
    json_is cluster 0 cluster --model llama-2-7b --tokens 1T --deadline 30d && cp j a &&
    json_is cluster 0 cluster --model llama-2-7b --tokens 1T --deadline 30d --sure && cp j b &&
    python3 - <<\EOF
import json
a, b = json.load(open("a")), json.load(open("b"))
assert a["days"]["expected"] <= 30 and b["days"]["high"] <= 30 and b["gpus"] >= a["gpus"]
assert a["nodes"] == a["gpus"] // 8 + a["spare_nodes"]
for k in "gpus_usd", "storage_usd", "network_usd":
    assert a["rent"][k]["expected"] > 0 and a["buy"][k]["expected"] > 0
assert abs(a["data_bytes"] - 4e12) < 1
EOF
'
test_expect 'sizes: 8 GPUs for 7B, 512 and more for 175B' '
    json_is sizes 0 sizes && python3 - <<\EOF
import json
rows = {r["size"]: r for r in json.load(open("j"))["sizes"]}
assert rows["7B"]["gpus"] == 8 and rows["175B"]["gpus"] >= 512
order = [r["gpus"] for r in rows.values() if r["gpus"]]
assert order == sorted(order) and all(r["least_gpus"] <= (r["gpus"] or 1 << 30) for r in rows.values())
EOF
'

# refused: message and hint
refused() {
    want=$1 msg=$2 hint=$3
    shift 3
    stoker plan "$@" >out 2>err
    test $? = "$want" && test ! -s out && sed -n 1p err | grep -qF -- "$msg" && sed -n 2p err | grep -qF -- "$hint" ||
        { cat err; return 1; }
}
test_expect 'what is refused, and with which words' '
    refused 2 "there is no --model" "stoker plan models" campaign --gpus 8 &&
    refused 2 "there is no --gpus" "plan cluster" campaign --model llama-3.1-8b &&
    refused 2 "option '"'--tokens' cannot be '15x'"'" "300B" campaign --model llama-3.1-8b --gpus 8 --tokens 15x &&
    refused 2 "option '"'--time' cannot be 'soon'"'" "7d" campaign --model llama-3.1-8b --gpus 8 --time soon &&
    refused 2 "option '"'--write' cannot be 'fast'"'" "20GB/s" campaign --model llama-3.1-8b --gpus 8 --write fast &&
    refused 2 "option '"'--spares' cannot be '100%'"'" "99%" campaign --model llama-3.1-8b --gpus 8 --spares 100% &&
    refused 2 "option '"'--price' cannot be '-3'"'" "2.50" campaign --model llama-3.1-8b --gpus 8 --price=-3 &&
    refused 2 "no GPU '"'h900'"'" "h100" cluster --model llama-3.1-8b --gpu h900 --deadline 3d &&
    refused 2 "there is no --deadline" "30d" cluster --model llama-3.1-8b &&
    refused 2 "there is no --checkpoint and no --model" "5.7TB" goodput --gpus 8 &&
    refused 4 "no way to cut '"'llama-3.1-8b'"' on 3 GPUs" "The nearest batch that works is 6." campaign --model llama-3.1-8b --gpus 3 --batch 7 --tokens 1B &&
    refused 4 "does not fit on 8 x H100" "On 128 GPUs something fits." campaign --model llama-3.1-405b --gpus 8 --batch 8 --tokens 1B &&
    refused 4 "does it in 0.0417 days" "longer deadline" cluster --model llama-3.1-70b --deadline 1h &&
    refused 4 "would not get anywhere" "--restart" goodput --gpus 1000000 --mtbf 100 --checkpoint 1TB
'
test_expect 'a precision that the GPU does not have is refused at once, and by its name' '
    for job in "campaign --model llama-3.1-8b --gpus 8 --tokens 1B" "cluster --model llama-3.1-8b --tokens 1B --deadline 1d" sizes \
        "recompute --model llama-3.1-8b --gpus 8"; do
        { stoker plan $job --gpu a100 --precision fp8 >out 2>err; test $? = 2; } && test ! -s out && grep -q "rule fp8: A100.* has no fp8" err &&
        grep -q "nearest valid value is bf16" err || exit 1
    done &&
    { stoker plan cluster --model qwen3-30b-a3b --gpu t4 --precision pure --tokens 1B --deadline 1d 2>err; test $? = 2; } && grep -q "rule bf16" err &&
    stoker plan choose --model llama-3.1-8b --precision fp8 | grep -q "^a100 .*rule fp8: A100"
'
test_expect 'racks of 72: clusters and sizes, with the part of each that divides the batch' '
    for gpu in gb200 gb300; do
        stoker plan cluster --model llama-3.1-70b --gpu $gpu --tokens 1T --deadline 30d >out && grep -q "64 of a rack.s 72 GPUs are used" out &&
        stoker plan cluster --model llama-3.1-70b --gpu $gpu --tokens 1T --deadline 30d --json >c.json || exit 1
    done &&
    gpus=$(python3 -c "import json; print(json.load(open(\"c.json\"))[\"gpus\"])") &&
    stoker plan train --model llama-3.1-70b --gpu gb300 --node 64 --gpus $gpus --batch 1024 --no-vary --json >t.json && python3 -c "
import json
c, t = json.load(open(\"c.json\")), json.load(open(\"t.json\"))[\"clusters\"][0][\"choice\"]
assert c[\"config\"] == t[\"text\"] and c[\"memory_bytes\"] == t[\"memory_bytes\"], (c[\"config\"], t[\"text\"])"
'
test_expect 'a model that does not fit says what the smallest takes' '
    stoker plan campaign --model llama-3.1-405b --gpus 8 --tokens 1B >out 2>err; test $? = 4 && test ! -s out &&
    grep -q "does not fit on 8 x H100" err
'
test_expect 'choose: gigabytes of data sheets, single GPUs, prices that are given' '
    stoker plan choose --model llama-3.1-8b --use lora --price h100=2,h200=9 >out &&
    grep -qE "^a100 +80 " out && grep -qE "^h200 +141 .* 9\.00 " out && grep -qE "^4090 +24 " out &&
    grep -qE "^h100 +80 .* 2\.00 +1 .*the choice" out &&
    stoker plan choose --model llama-3.1-8b --use lora --price 2.5 >out && grep -qE "^l40s .* 2\.50 " out &&
    ! stoker plan choose --model llama-3.1-8b --price h100=x 2>err && grep -q "option .--price. cannot be .x." err &&
    for name in "NVIDIA H100 80GB HBM3" "H100 SXM5 80GB" h100-80gb; do
        stoker plan choose --model llama-3.1-8b --use lora --price "$name=2.25, h200=9" >out && grep -qE "^h100 .* 2\.25 " out && grep -qE "^h200 .* 9\.00 " out || exit 1
    done
    for p in "foo=3|no GPU .foo." "t4=1|.t4. is none of the GPUs that are compared" "h100=1,h100=2|has .h100. twice" "h100=2,|cannot be" "=3|cannot be" "|cannot be" "h100=2,3|cannot be .3."; do
        { stoker plan choose --model llama-3.1-8b --price "${p%%|*}" >out 2>err; test $? = 2; } && test ! -s out && sed -n 1p err | grep -q "${p#*|}" && test $(wc -l <err) = 2 || { cat err; exit 1; }
    done
'
test_done
