#!/bin/sh
# SPDX-License-Identifier: MIT
# Advice: learning rates with their source, the configuration of a machine, the choice of a GPU,
# recomputation and precision.
. "$(dirname "$0")/lib.sh"

test_expect 'machine: 8 H200 give the reference configuration, with reasons' '
    stoker plan machine --gpu h200 --gpus 8 --cores 128 >out && golden out plan/machine-h200.txt
'
test_expect 'machine as JSON: the values of it' '
    stoker plan machine --gpu h200 --gpus 8 --cores 128 --json | python3 -c "
import json, sys
d = json.load(sys.stdin)
s = {k: v[\"value\"] for k, v in d[\"settings\"].items()}
assert d[\"schema\"] == \"stoker.plan-machine/1\" and all(v[\"why\"] for v in d[\"settings\"].values())
assert s[\"batch\"] == 256 and s[\"batch_gpu\"] == 32 and s[\"precision\"] == \"bf16\"
assert s[\"loader_workers_gpu\"] == 2 and s[\"prefetch_factor\"] == 4 and s[\"pin_memory\"] is True
assert s[\"persistent_workers\"] is True and s[\"drop_last\"] is True
assert s[\"parallelism\"].startswith(\"data parallel\") and s[\"batch_norm\"] == \"synchronised\""
'
test_expect 'machine: from a captured machine' '
    stoker detect --root "$BUILD/machines/dgx-h100.tar" --json >d.json &&
    stoker plan machine --machine d.json | grep -q "^8 x H100 SXM5 80GB, 112 cores" &&
    stoker detect --root "$BUILD/machines/vm-plain.tar" --json >d.json &&
    { stoker plan machine --machine d.json >out 2>err; test $? = 3; } && grep -q "machine .d.json.: " err && cat err
'
test_expect 'machine: a measured model' '
    stoker plan machine --gpu h200 --gpus 8 --cores 128 --params 69M --gflop-sample 3900 --act-sample 26GiB \
        --efficiency 20% --cpu-ms 200 --bytes-sample 60MB --samples 28130 --epochs 24 >out &&
    grep -q "^batch a GPU  *4 " out && grep -q "^loader workers a GPU  *13 " out && grep -q "run takes" out &&
    { stoker plan machine --act-sample 200GiB >out 2>err; test $? = 4; } && grep -q "one sample does not fit" err
'

test_expect 'advise: a batch four times as large, with the rule and its source' '
    stoker plan advise --from-batch 256 --batch 1024 --lr 0.1 >out && golden out plan/advise-batch.txt
'
test_expect 'advise: a model, with published runs and laws' '
    stoker plan advise --model llama-3.1-8b --tokens 2T >out && golden out plan/advise-model.txt
'
test_expect 'advise as JSON: rules by optimizer, capped at the critical batch' '
    rate() { stoker plan advise --json "$@" | python3 -c "
import json, sys
c = json.load(sys.stdin)[\"change\"]
assert c[\"source\"] and c[\"holds\"] and c[\"lr_low\"] <= c[\"lr\"] <= c[\"lr_high\"]
print(\"%.6g %s %s\" % (c[\"lr\"], c[\"rule\"], c[\"capped\"]))"; } &&
    test "$(rate --from-batch 256 --batch 1024 --lr 0.1)" = "0.4 linear False" &&
    test "$(rate --from-batch 256 --batch 64K --lr 0.1)" = "3.2 linear True" &&
    test "$(rate --from-batch 4M --batch 16M --lr 3e-4 --optimizer adam)" = "0.0006 square root False" &&
    test "$(rate --from-batch 4M --batch 16M --lr 3e-4 --optimizer adam --critical 4M)" = "0.0003 keep True"
'

test_expect 'choose: servers get a number of GPUs that can be cut, the fewest, and no more than are allowed' '
    for model in mixtral-8x22b llama-3.1-70b qwen2.5-72b deepseek-v3 llama-3.1-405b; do
        stoker plan choose --model $model --use serve --json >j && python3 -c "
import json
for c in json.load(open(\"j\"))[\"gpus\"]:
    n = c[\"gpus\"]
    assert n is None or n in (1, 2, 4) or n % 8 == 0, c" || exit 1
    done &&
    stoker plan choose --model deepseek-v3 --use serve --gpus 24 --json >j && python3 -c "
import json
n = {c[\"gpu\"]: c[\"gpus\"] for c in json.load(open(\"j\"))[\"gpus\"]}
assert n[\"h100\"] == 24 and n[\"a100-40gb\"] is None and max(v or 0 for v in n.values()) <= 24, n" &&
    { stoker plan choose --model llama-3.1-70b --use serve --budget 1 >out; test $? = 4; } && grep -q "None of them does it" out &&
    { stoker plan choose --model llama-3.1-70b --use lora --budget 1 --json >out; test $? = 4; } && grep -q "\"choice\": null" out
'
test_expect 'choose: a GPU for a budget, and its figures' '
    stoker plan choose --model llama-3.1-8b --use finetune --budget 2K --json | python3 -c "
import json, sys
d = json.load(sys.stdin)
rows = {g[\"gpu\"]: g for g in d[\"gpus\"]}
assert {\"h100\", \"h200\", \"a100\", \"a100-40gb\", \"l40s\", \"4090\", \"b200\"} <= set(rows)
best = rows[d[\"choice\"]]
assert best[\"usd\"] <= 2000 and all(best[\"usd\"] <= g[\"usd\"] for g in rows.values() if g[\"usd\"])
assert rows[\"h200\"][\"memory_bytes\"] > 140e9 and rows[\"l40s\"][\"usd\"] is None
assert all(g[\"price_date\"] for g in rows.values() if g[\"usd\"])" &&
    stoker plan choose --model llama-3.1-8b --use lora | grep -q "the choice" &&
    stoker plan choose --model llama-3.1-70b --use serve | grep -q "the choice" &&
    stoker plan choose --model llama-3.1-70b --budget 100 | grep -q "None of them does it"
'
test_expect 'recompute: saves bytes, costs time, and what does not fit is not chosen' '
    stoker plan recompute --model llama-3.1-8b --gpus 8 --config "tp2 zero1 mbs4 sp" --seq 8192 --batch 256 --json >j &&
    python3 - <<\EOF
import json
d = json.load(open("j"))
o = d["options"]
none, full = o[0], next(x for x in o if x["recompute"] == "full" and x["every"] == 1)
assert none["saved_bytes"] == 0 and full["saved_bytes"] > 20 * 2**30 and 0.15 < full["paid"] < 0.45
best = o[d["choice"]]
assert best["fits"] and all(best["step_s"] <= x["step_s"] for x in o if x["fits"] and x["precision"] in ("bf16", "fp8"))
assert all(x["again"] for x in o)
EOF
'

refused() {
    want=$1 msg=$2 hint=$3
    shift 3
    stoker plan "$@" >out 2>err
    test $? = "$want" && test ! -s out && sed -n 1p err | grep -qF -- "$msg" && sed -n 2p err | grep -qF -- "$hint" ||
        { cat err; return 1; }
}
test_expect 'what is refused, and with which words' '
    refused 2 "no --model and no change of batch" "--from-batch" advise &&
    refused 2 "needs --from-batch, --batch and --lr" "--lr 0.1" advise --batch 512 &&
    refused 2 "option '"'--lr' cannot be 'big'"'" "3e-4" advise --from-batch 1 --batch 2 --lr big &&
    refused 2 "option '"'--budget' cannot be 'much'"'" "40K" choose --model llama-3.1-8b --budget much &&
    refused 2 "option '"'--params' cannot be 'x'"'" "300B" machine --params x &&
    refused 2 "option '"'--cpu-ms' cannot be '0'"'" "above 0" machine --cpu-ms 0 &&
    refused 2 "no GPU '"'h20x'"'" "h200" machine --gpu h20x
'
test_done
