#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker plan train`: the whole space ranked, explained, compared, and as flags; what is refused and
# with which words.  Figures move with the constants, so that these tests look at what has to hold
# between them; commands of frameworks are goldens (UPDATE_GOLDEN=1 rewrites tests/golden/plan/*).
. "$(dirname "$0")/lib.sh"

train() { stoker plan train --model llama-3.1-8b --gpus 16 --gpu h100 --batch 64 "$@"; }

refused() {
    want=$1 msg=$2 hint=$3
    shift 3
    stoker plan train "$@" >out 2>err
    test $? = "$want" && test ! -s out && sed -n 1p err | grep -qF -- "$msg" && sed -n 2p err | grep -qF -- "$hint" ||
        { cat err; return 1; }
}

test_expect 'the table: choice, ranking, parts, runner-up, front, sensitivity, error band' '
    train --tokens 1T --days 30 >out 2>err && test ! -s err &&
    grep -q "configurations, .* fit in 75.7 GiB (5 % kept free)" out &&
    grep -qE "^ *\*[0-9]* +[a-z]+[0-9]+ " out && grep -qE "^ *10 " out &&
    grep -qE "^ms +matmul +attention" out && grep -q "The choice (\*) is " out &&
    grep -q "The runner-up, .* s" out && grep -q "nothing beats in all of" out &&
    grep -q "half the network" out && grep -q "Error band: of published runs" out &&
    grep -q "misses the deadline" out
'
test_expect 'the first line says what to run; refusals are behind --rules; ten columns' '
    train >out && head -1 out | grep -qE "^Run [a-z].* on 16 x H100" && ! grep -q "Refused, by rule" out &&
    train --rules >out && grep -q "Refused, by rule: .*sp-needs-tp" out &&
    awk "/^ms /{n = NF} END{exit !(n > 3 && n <= 10)}" out
'
test_expect 'a deadline that is missed: how many GPUs would do, and they do' '
    stoker plan train --model llama-3.1-70b --gpus 64 --batch 1024 --tokens 300B --days 7 --no-vary >out &&
    grep -q "That misses 7 days" out &&
    gpus=$(stoker plan train --model llama-3.1-70b --gpus 64 --batch 1024 --tokens 300B --days 7 --no-vary --json |
        python3 -c "import json, sys; print(int(json.load(sys.stdin)[\"gpus_in_time\"]))") &&
    tr "\n" " " <out | grep -q "$gpus GPUs would do" &&
    stoker plan train --model llama-3.1-70b --gpus $gpus --batch 1024 --tokens 300B --days 7 --no-vary --json |
        python3 -c "import json, sys; assert not json.load(sys.stdin)[\"clusters\"][0][\"choice\"][\"misses_days\"]"
'
test_expect 'and half as many would not: the space of that question is the whole one' '
    in_time() { stoker plan train --model llama-3.1-8b --gpus $1 --batch 64 --tokens 1T --days 7 --no-vary --json |
        python3 -c "import json, sys; d = json.load(sys.stdin); print(int(d[\"gpus_in_time\"] or 0), d[\"clusters\"][0][\"choice\"][\"misses_days\"])"; } &&
    set -- $(in_time 8) && test "$1" -gt 8 && test "$(in_time $1)" = "0 False" && set -- $(in_time $(($1 / 2))) && test "$2" = True
'
test_expect 'nothing is left by the rules: the nearest batch, which works, or the size that breaks one' '
    batch() { stoker plan train --model llama-3.1-8b --gpus $1 --batch $2 --no-vary >out 2>err; test $? = 2 &&
        near=$(sed -n "s/^The nearest batch that works is \([0-9]*\)\.$/\1/p" err) && test -n "$near" &&
        stoker plan train --model llama-3.1-8b --gpus $1 --batch $near --no-vary >out; } &&
    batch 7 8 && batch 12 8 && batch 160 64 && batch 3 1 &&
    refused 2 "there is no configuration for 8 GPUs" "rule tp-heads: tensor-parallel size 3 does not divide the number of heads 32. The nearest tensor-parallel size that works is 2." \
        --model llama-3.1-8b --gpus 8 --batch 8 --fix tp3
'
test_expect 'and where a size beside others is what refuses: the batch that its micro-batch takes, or its nearest value' '
    none="there is no configuration" && job="--gpus 8 --no-vary" &&
    refused 2 "$none" "The nearest batch that works is 9." --model llama-3.1-8b --gpus 8 --batch 8 --fix mbs3 --no-vary &&
    stoker plan train --model llama-3.1-8b --gpus 8 --batch 9 --fix mbs3 --no-vary >out &&
    refused 2 "$none" "The nearest number of virtual stages that works is 2." --model mixtral-8x7b $job --batch 64 --fix vpp3 &&
    stoker plan train --model mixtral-8x7b --gpus 64 --batch 64 --fix vpp2 --no-vary >out &&
    refused 2 "$none" "The nearest number of virtual stages that works is 2, with a batch of 504." --model 7B,32,4096 --gpus 72 --seq 8192 --batch 512 --fix vpp3 &&
    stoker plan train --model 7B,32,4096 --gpus 72 --seq 8192 --batch 504 --fix vpp2 --no-vary >out &&
    refused 2 "$none" "expert-parallel size 8 for a model without experts. The nearest expert-parallel size that works is 1, with a batch of 25." --model gpt2 --gpus 100 --batch 1 --fix ep8
'
cat >near.py <<\EOF
# MODEL GPUS BATCH SIZES: what the hint says works, works
import os, re, subprocess, sys
NAMES = {"number of virtual stages": "vpp", "micro-batch": "mbs", "gradient accumulation": "ga", "expert-parallel size": "ep",
         "tensor-parallel size of experts": "etp", "context-parallel size": "cp", "pipeline size": "pp",
         "tensor-parallel size": "tp", "data-parallel size": "dp", "shard group": "shard"}
def train(model, gpus, batch, fix):
    p = subprocess.run([os.environ["BUILD"] + "/stoker", "plan", "train", "--model", model, "--gpus", gpus, "--batch", batch,
                        "--fix", fix, "--no-vary", "--top", "1"], capture_output=True, text=True)
    return p.returncode, p.stderr
for line in sys.stdin:
    model, gpus, batch, fix = line.split(None, 3)
    fix = fix.strip()
    rc, err = train(model, gpus, batch, fix)
    near = re.search(r"[Tt]he nearest (.+) that works is (\d+)(?:, with a batch of (\d+))?\.", err)
    assert rc == 2 and near, (line, err)
    what, value = near[1], near[2]
    batch = near[3] or batch
    if what == "batch":
        batch = value
    elif what == "number of GPUs":
        gpus = value
    else:
        fix = re.sub(rf"\b{NAMES[what]}\d+", NAMES[what] + value, fix)
    again, err2 = train(model, gpus, batch, fix)
    assert again in (0, 4), (line, err, err2)
EOF
test_expect 'what a hint says works, works: beside the batch, the GPUs and the other sizes' '
    python3 near.py <<\EOF &&
llama-3.1-8b 64 100 dp7
llama-3.1-8b 8 100 dp14
llama-3.1-70b 128 1000 dp40
gpt3-175b 48 100 dp7
deepseek-v2 12 512 tp14
qwen2.5-7b 1 1000 tp7
mixtral-8x7b 48 250 tp14
llama-3.1-70b 16 1000 tp33
mixtral-8x7b 12 128 pp20
qwen2.5-7b 64 100 pp14
mixtral-8x7b 96 64 ga40
deepseek-v2 1 96 ep33
mixtral-8x7b 6 100 etp33
llama-3.1-70b 12 100 zero3 shard40
llama-3.1-8b 16 64 dp6 cp2
EOF
    refused 2 "there is no configuration" "rule gpus: the sizes that are given multiply to 7. The nearest data-parallel size that works is 4." --model llama-3.1-8b --gpus 64 --batch 100 --fix dp7
'
test_expect 'values that are too large or no rate: the nearest, and the status of a usage error' '
    refused 2 "cannot be" "nearest valid value is 1048576" --model llama-3.1-8b --gpus 1e30 --batch 8 &&
    for net in 0 0Gb/s x; do
        refused 2 "cannot be" "400Gb/s" --model llama-3.1-8b --gpus 8 --batch 8 --net $net || exit 1
    done
'
test_expect 'tensor parallelism across nodes is not chosen for being plain' '
    stoker plan train --model llama-65b --gpu a100 --gpus 2048 --batch 2048 --seq 2048 --no-vary --json >j &&
    python3 -c "
import json
c = json.load(open(\"j\"))[\"clusters\"][0][\"choice\"]
assert c[\"tp\"] <= 8, c"
'
test_expect 'before Blackwell no tensor parallelism with Megatron-FSDP where a plan as fast is without; the command says why' '
    for model in llama-3.1-70b qwen2.5-72b llama-30b mixtral-8x22b; do
        for gpu in a100 h100; do
            stoker plan train --model $model --gpu $gpu --gpus 128 --batch 1024 --no-vary --json >j && python3 -c "
import json
c = json.load(open(\"j\"))[\"clusters\"][0][\"choice\"]
assert c[\"zero\"] < 2 or (c[\"tp\"] == 1 and c[\"cp\"] == 1), c" || exit 1
        done
    done
    flags() { stoker plan train --model llama-3.1-70b --gpu $1 --gpus 64 --batch 1024 --fix "tp8 zero2" --flags megatron; } &&
    flags h100 >out && grep -q "^# Megatron-LM advises against this: before Blackwell" out && ! grep -q CUDA_DEVICE_MAX_CONNECTIONS=1\  out &&
    flags b200 >out && ! grep -q "advises against" out
'
test_expect 'hints do not propose what was given' '
    stoker plan train --model llama-3.1-405b --gpus 8 --batch 64 --offload --free 0% >out 2>err; test $? = 4 &&
    ! grep -q -e "--offload\|--free" err
'
test_expect 'JSON: what is ranked is in order, fits, and its parts add up; the front is one' '
    train --tokens 1T --json --top 50 >j && python3 - <<\EOF
import json
d = json.load(open("j"))
assert d["schema"] == "stoker.plan-train/1" and d["parameters"] == 8030261248
c = d["clusters"][0]
assert c["fit"] <= c["configurations"] and c["refused"]["sp-needs-tp"] > 0
assert len(c["top"]) == 50
best = c["top"][0]["step_s"]
for a, b in zip(c["top"], c["top"][1:]):
    assert a["step_s"] <= b["step_s"]
for t in c["top"] + [c["choice"], c["runner_up"]]:
    assert t["tp"] * t["pp"] * t["cp"] * t["dp"] == 16
    assert t["dp"] * t["micro_batch"] * t["grad_acc"] == 64
    assert t["memory_bytes"] <= c["limit_bytes"]
    assert abs(sum(t["parts_s"].values()) - t["step_s"]) < 1e-6 * t["step_s"]
    assert abs(t["days"] * 86400 * t["tokens_s"] - 1e12) < 1e6
    assert abs(t["dollars"] - t["days"] * 24 * 16 * c["gpu_hour_dollars"]) < 1
    assert t["step_s_low"] <= t["step_s"] <= t["step_s_high"]
assert c["choice"]["step_s"] <= best * 1.0400001
f = d["front"]
for a in f:
    for b in f:
        assert not (a["tokens_s"] > b["tokens_s"] and a["free_bytes"] > b["free_bytes"])
assert len(d["sensitivity"]) == 6
EOF
'
test_expect 'the answer is the same whatever the number of threads' '
    train --json --threads 1 >one && train --json --threads 7 >seven && cmp one seven &&
    train --all --json --threads 1 --no-vary >one && train --all --json --threads 3 --no-vary >three &&
    cmp one three
'
test_expect '--explain: parts, memory, rank; --compare: both and the differences' '
    train --explain "tp2 mbs1 zero1 full" >out && grep -q "tp2 dp8 zero1 mbs1 ga8 full recompute bf16" out &&
    grep -q "forward again" out && grep -q "of the configurations that fit are faster" out &&
    grep -q "Against it: recompute +" out &&
    train --compare "tp2 mbs1 zero1" "tp4, mbs1, zero1" >out && grep -q "^A: tp2 dp8" out &&
    grep -q "^B: tp4 dp4" out && grep -qE "^B takes [0-9.]+ % (longer|less): " out &&
    train --explain "tp2 mbs1 zero1" --json | python3 -c "import json, sys; d = json.load(sys.stdin); assert d[\"better\"] <= d[\"fit\"] and d[\"config\"].startswith(\"tp2 dp8\")"
'
test_expect 'what is printed can be asked for' '
    train --json --no-vary >j && text=$(python3 -c "import json; print(json.load(open(\"j\"))[\"clusters\"][0][\"choice\"][\"text\"])") &&
    train --explain "$text" >out && sed -n 1p out | grep -qxF -- "$text"
'
test_expect '--fix: sizes that are given stay, and the rest is searched' '
    train --fix "tp4 zero1 nosp" --json --all --no-vary --top 200 >j && python3 -c "
import json
t = json.load(open(\"j\"))[\"clusters\"][0][\"top\"]
assert t and all(x[\"tp\"] == 4 and x[\"zero\"] == 1 and not x[\"seq_par\"] for x in t)"
'
test_expect 'several clusters: the cheapest that meets the deadline' '
    stoker plan train --model llama-3.1-8b --gpus 8,16,32 --gpu h100,h200 --batch 64 --tokens 1T --days 100 --json --no-vary >j &&
    python3 - <<\EOF
import json
d = json.load(open("j"))
cs = d["clusters"]
assert len(cs) == 6
fit = [c for c in cs if c["choice"]["days"] <= 100]
assert cs[d["chosen"]]["choice"]["dollars"] == min(c["choice"]["dollars"] for c in fit)
EOF
'
for f in megatron torchtitan deepspeed accelerate torchrun; do
    case $f in # what each can run
        torchtitan) fix='tp8 pp4 vpp2 cp1 zero3 shard0 mbs1 sp full every1' ;;
        deepspeed) fix='tp1 pp4 vpp1 cp1 zero1 shard0 mbs1 nosp full every1 1f1b' ;;
        accelerate) fix='tp4 pp1 vpp1 cp2 zero3 shard0 mbs1 nosp full every1 1f1b' ;;
        *) fix='tp8 pp4 vpp2 cp1 zero1 shard0 mbs1 sp selective' ;;
    esac
    test_expect "flags: $f" "
        stoker plan train --model llama-3.1-70b --gpus 64 --gpu h200 --batch 128 --flags $f \
            --fix '$fix' >out && golden out plan/flags-$f.txt
    "
done
test_expect 'fp32 is counted without TF32, and the answer says so; another precision says nothing of it' '
    job="--model llama-3.2-1b --gpus 8 --batch 64 --no-vary"
    stoker plan train $job --precision fp32 >out && grep -q "^fp32 counts 67 TFLOP/s: TF32, .* is not counted" out &&
    stoker plan train $job --precision fp32 --explain "zero1 mbs1" >out && grep -q "^fp32 counts 67 TFLOP/s" out &&
    stoker plan train $job --precision fp32 --flags torchrun >out && grep -q "^# precision: .*TF32" out &&
    stoker plan train $job >out && ! grep -q TF32 out
'
test_expect 'flags: experts, FSDP' '
    stoker plan train --model deepseek-v3 --gpus 256 --gpu h200 --batch 512 --flags megatron \
        --fix "tp1 pp1 cp1 ep32 etp1 zero3 shard0 mbs2 full every1" >out && golden out plan/flags-moe.txt
'
M="--model llama-3.1-8b --gpus 8 --batch 16"
test_expect 'what is missing' '
    refused 2 "there is no --model and no --gpus" "--model llama-3.1-70b --gpus 64" &&
    refused 2 "there is no --model" "llama-3.1-70b" --gpus 8 && refused 2 "there is no --gpus" "64" --model llama-3.1-8b &&
    refused 2 "no --tokens" "15T" $M --days 7
'
test_expect 'without --batch: that of published runs, as campaign takes it, which every number of GPUs can share' '
    job="--model llama-3.1-8b --seq 4096 --no-vary --top 1"
    stoker plan train $job --gpus 64 >out && grep -q "batch 1024 of 4096 tokens (usual of this size; --batch sets it)" out &&
    stoker plan campaign --model llama-3.1-8b --gpus 64 | grep -q "step of 4.19M tokens" &&
    stoker plan train $job --gpus 64 --batch 1024 >given && ! grep -q "usual" given && ! diff out given >/dev/null &&
    stoker plan train $job --gpus 24,40 --json >out && grep -q "\"batch\": 960" out && grep -q "\"batch_from\": \"published runs\"" out
'
test_expect 'absurd batches, numbers of GPUs, models and unknown GPUs: the nearest valid value' '
    for n in 1000000000 -4 0; do
        stoker plan train --model llama-3.1-8b --gpus 8 --batch $n 2>err; test $? = 2 &&
            grep -q "from 1 to 16777216, not .$n" err || { cat err; return 1; }
    done &&
    refused 2 "cannot be '"'9999999999'"'" "is 1048576." --model llama-3.1-8b --gpus 9999999999 --batch 8 &&
    refused 2 "cannot be '"'0'"'" "is 1." --model llama-3.1-8b --gpus 0 --batch 8 &&
    refused 2 "no GPU '"'h300'"'" "h100" $M --gpu h300 &&
    refused 2 "no model '"'llama-3.1-9b'"'" "llama-3.1-8b" --model llama-3.1-9b --gpus 8 --batch 8 &&
    refused 2 "cannot have 1e+18 parameters" "nearest valid value" --model 1000000000B,32,4096 --gpus 8 --batch 8 &&
    refused 2 "rule fp8" "bf16" --model llama-3.1-8b --gpus 8 --batch 8 --gpu a100 --precision fp8
'
test_expect 'configurations that cannot be: the word, or the rule and the nearest value' '
    refused 2 "'"'tq8'"' says nothing" "tp" $M --explain "tq8 mbs1" &&
    refused 2 "rule tp-kv-heads" "is 8." --model llama-3.1-8b --gpus 16 --batch 16 --explain "tp16 mbs1" &&
    refused 2 "rule batch" "24." $M --explain "dp8 mbs3" &&
    refused 2 "--compare takes two" "--compare" $M --compare "tp8" &&
    refused 2 "one at a time" "Leave" $M --explain tp8 --flags megatron &&
    refused 2 "contradict" "Leave" $M --eager --fused
'
test_expect 'no configuration, and none that fits (exit 4): what would help' '
    refused 2 "there is no configuration for 7 GPUs" "rule tp-heads" --model llama-3.1-8b --gpus 7 --batch 4 --fix tp7 &&
    refused 4 "the leanest, " "GPUs something fits" --model llama-3.1-405b --gpus 16 --gpu h100 --batch 16
'
stoker spec example llm-cluster >site.yaml
test_expect 'a component of a spec: each value with its key and line, and the same answer as by options' '
    stoker plan train -f site.yaml train-7b --no-vary >out && grep -q "^--gpus  *8  *site.yaml:[0-9]*: components.train-7b.gpus" out &&
    grep -q "^--fix  *zero3 .*components.train-7b.training.parallel" out && grep -q "^--net  *3200Gb/s" out &&
    stoker plan train -f site.yaml train-7b --no-vary --json >a.json &&
    stoker plan train -m 7B,32,4096 --gpus 8 --gpu h100 --node 8 --net 3200Gb/s --price 3.99 --batch 512 --seq 4096 --tokens 140B \
        --precision fsdp --stack fsdp --fix zero3 --no-vary --json >b.json && python3 - <<\EOF
import json
a, b = json.load(open("a.json")), json.load(open("b.json"))
assert a["component"] == "train-7b" and {g["option"]: g["value"] for g in a["given"]}["--batch"] == "512"
assert all(g["line"] > 0 for g in a["given"] if g["option"] in ("--model", "--gpus", "--net", "--tokens"))
for key in ("batch", "seq", "tokens"):
    assert a[key] == b[key], key
x, y = a["clusters"][0], b["clusters"][0]
assert x["configurations"] == y["configurations"] and abs(x["top"][0]["step_s"] / y["top"][0]["step_s"] - 1) < 0.05
EOF
'
cat >gb.yaml <<'END'
nodes: [{name: gb, count: 36, gpus_per_node: 4, gpu: {model: GB200}, nvlink_domain: 72, fabrics: [ib], capex: $262800, power: 10000}]
fabrics: [{name: ib, kind: infiniband, rate: 400Gb/s, nics_per_node: 4}]
prices: {gpu_hour: $9/h, energy_per_kwh: $0.1, pue: 1.5, years: 3}
shapes: {l: {params: 7B, layers: 32, hidden: 4096, heads: 32, ffn: 11008, vocab: 32000, seq_len: 4096}}
components:
  t: {kind: training, nodes: gb, gpus: 4, nodes_per_replica: 36, command: [x], training: {framework: torchrun, shape: l, batch_per_gpu: 1}}
budgets: {components: {t: {day: $10000/d}}}
END
test_expect 'an NVLink domain of several machines is the node of a plan, with the network of all of them' '
    stoker plan train -f gb.yaml t --no-vary >out && cat out && grep -q "^--node  *72  *gb.yaml:1: nodes.gb.nvlink_domain" out &&
    grep -q "^--net  *28800Gb/s  *gb.yaml:1: nodes.gb.fabrics x 18 machines" out && grep -q "^144 x GB200.*, 72 in a node, 28800 Gb/s" out &&
    sed "s/ nvlink_domain: 72,//" gb.yaml >no.yaml && stoker plan train -f no.yaml t --no-vary >out && grep -q "^--node  *4  *no.yaml:1: nodes.gb.gpus_per_node" out &&
    grep -q "^--net  *1600Gb/s  *no.yaml:1: nodes.gb.fabrics$" out
'
test_expect 'some GPUs of each of several machines: no more share NVLink and adapters, and as many processes are started there' '
    python3 - <<\EOF >four.yaml &&
s = open("site.yaml").read()
a = s.index("  train-13b:")
b = s.index("\n\n", a)
print(s[:a] + s[a:b].replace("    gpus: 8\n", "    gpus: 4\n").replace("nodes_per_replica: 2 ", "nodes_per_replica: 4 ") + s[b:])
EOF
    stoker plan train -f four.yaml train-13b --no-vary >out && grep -q "^--node  *4  *four.yaml:[0-9]*: components.train-13b.gpus" out &&
    grep -q "^16 x H100.*, 4 in a node, 1600 Gb/s" out && grep -q "^--net  *1600Gb/s .*, of 4 of 8 GPUs" out &&
    stoker plan train -f four.yaml train-13b --no-vary --flags torchrun >out && grep -q -e "--nnodes 4 --nproc-per-node 4 " out &&
    stoker plan train -f site.yaml train-13b --no-vary >out && grep -q "^16 x H100.*, 8 in a node, 3200 Gb/s" out
'
test_expect 'a GPU-hour costs in a plan what it costs on the page: bought, rented, or as GPUs do' '
    cost() { stoker plan train -f "$1" t --no-vary >out && sed -n "s/^--price  *\([^ ]*\)  *[^ ]* \(.*\)/\1 \2/p" out; } &&
    day() { stoker render doc -f "$1" -o page >/dev/null 2>&1 && sed "s/<[^>]*>//g" page/doc/index.html | sed -n "s/.*Budget of component t.*, \([0-9]*\) % of which.*/\1/p"; } &&
    test "$(cost gb.yaml)" = "2.875 nodes.gb.capex" && test "$(day gb.yaml)" = 99 &&
    sed "s/capex: \$262800, power: 10000/price: \$8\/h/" gb.yaml >rent.yaml && test "$(cost rent.yaml)" = "2 nodes.gb.price" && test "$(day rent.yaml)" = 69 &&
    sed "s/, power: 10000//" gb.yaml >dark.yaml && test "$(cost dark.yaml)" = "9 prices.gpu_hour" && test "$(day dark.yaml)" = 311 &&
    grep -q "<td>gb</td>.*>946080</td>" page/doc/index.html || { grep "<td>gb</td>" page/doc/index.html; false; }
'
test_expect 'options win over the spec; --compare takes its two beside the component' '
    stoker plan train -f site.yaml train-7b --gpus 16 --batch 256 --no-vary >out &&
    grep -q "^16 x H100.* batch 256 of 4096" out && ! grep -q "^--gpus " out &&
    stoker plan train -f site.yaml train-7b --compare "zero3 mbs1" "zero2 mbs1" | grep -q "^B: dp8 zero2"
'
test_expect 'what the spec lacks is asked for by its key' '
    sed "/global_batch: 512/d" site.yaml >lacks.yaml && refused 2 "components.train-7b.training.global_batch" "or give --batch" -f lacks.yaml train-7b &&
    stoker plan train -f lacks.yaml train-7b --batch 512 --no-vary >/dev/null &&
    refused 2 " train: name one" "Those that train: train-7b, train-13b" -f site.yaml &&
    refused 2 "there is no component" "Those that train" -f site.yaml nobody
'
test_expect 'a shape that was measured: what plan machine says of it, from the spec' '
    stoker spec example driving-h200 >d.yaml && stoker plan train -f d.yaml >out && grep -q "^--gpus  *8  *d.yaml:[0-9]*: components" out &&
    grep -q "no layers to cut" out && grep -q "as given; it takes" out && grep -q "^8 x .*H200.*, 128 cores; a model of 300M parameters" out &&
    stoker plan train -f d.yaml --json | python3 -c "import json, sys; d = json.load(sys.stdin); assert d[\"settings\"][\"batch_gpu\"][\"value\"] == 32, d" &&
    refused 2 "has no layers to cut" "Leave the configuration out" -f d.yaml --explain tp8
'
# what ships has to plan: every component of every example that trains
for name in $(stoker spec example | cut -d" " -f1); do
    stoker spec example "$name" >"$name.yaml"
    for c in $(stoker spec show --json "$name.yaml" | python3 -c 'import json, sys
d = json.load(sys.stdin); d = d.get("spec", d)
for c in d["components"] if isinstance(d["components"], list) else [dict(v, name=k) for k, v in d["components"].items()]:
    if c.get("training"): print(c["name"])'); do
        test_expect "example $name: its component $c plans" '
            stoker plan train -f $name.yaml $c --no-vary >out && grep -q "$name.yaml:[0-9]*: components.$c.training.shape" out &&
            stoker plan train -f $name.yaml $c --no-vary --json | python3 -m json.tool >/dev/null
        '
    done
done
test_done
