#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker plan`: memory explained, drawn and as JSON; what is refused and with which words; a table
# of published runs.  UPDATE_GOLDEN=1 rewrites tests/golden/plan/*.
. "$(dirname "$0")/lib.sh"

# name, exit status, options
memory_is() {
    name=$1 want=$2
    shift 2
    stoker plan memory "$@" >out 2>err
    status=$?
    test $status = "$want" || { echo "status $status"; cat err; return 1; }
    test ! -s err && golden out "plan/$name"
}
test_expect 'a pipeline, by stage and kind' '
    memory_is llama-70b-pp4.txt 0 --model llama-3.1-70b --gpus 64 --tp 8 --pp 4 --sp --zero 1
'
test_expect 'what does not fit exits with 4 and names the cheapest change' '
    memory_is llama-8b-one-node.txt 4 --model llama-3.1-8b --gpus 8 --seq 8192
'
test_expect 'experts, with what a layer saves' '
    memory_is deepseek-v3.txt 0 --model deepseek-v3 --gpu h200 --gpus 2048 --pp 16 --ep 64 --zero 1 \
        --split cost --recompute full --parts
'
test_expect 'FSDP on a model from its config.json; the H200 says whose constants it takes' '
    cp "$TOP/tests/fuzz/corpus/plan_config/llama.json" config.json &&
    memory_is llama-8b-fsdp.txt 0 --model ./config.json --gpu h200 --gpus 8 --zero 3 --precision fsdp &&
    stoker plan memory --model . --gpu h200 --gpus 8 --zero 3 --precision fsdp >folder && cmp out folder &&
    grep -q "H100 constants" out
'
test_expect 'adapters over 4-bit weights on a small GPU' '
    memory_is qlora-4090.txt 0 --model 7B,32,4096 --gpu 4090 --lora 16 --base-bits 4 --recompute full
'
test_expect 'a model by what was measured of it, and the largest micro-batch that fits' '
    memory_is measured.txt 0 --params 304M --act-bytes-sample 450M --flops-sample 382G --micro-batch 64 --gpus 8 --gpu h200 &&
    stoker plan memory --params 304M --act-bytes-sample 450M --micro-batch 300 --gpus 8 --gpu h200 >/dev/null &&
    ! stoker plan memory --params 304M --act-bytes-sample 450M --micro-batch 301 --gpus 8 --gpu h200 >/dev/null
'
test_expect 'a machine that stoker detect described' '
    stoker detect --root "$BUILD/machines/cloud-efa.tar" --json >efa.json &&
    stoker plan memory --model llama-3.1-8b --machine efa.json \
        --gpus 16 --zero 1 --json >j &&
    python3 -c "
import json
d = json.load(open(\"j\"))
assert d[\"gpu\"] == \"H100 SXM5 80GB\" and d[\"gpus\"] == 16 and d[\"gpu_bytes\"] == 85520809984 - 577765376
assert d[\"largest_micro_batch\"] >= 1"
'
test_expect 'JSON: stages add up, the fullest is the total, and a fix where it does not fit' '
    stoker plan memory --model llama-3.1-8b --gpus 8 --seq 8192 --json >j; test $? = 4 &&
    python3 - <<\EOF
import json
d = json.load(open("j"))
assert d["schema"] == "stoker.plan-memory/1" and d["parameters"] == 8030261248
kinds = ["weights", "gradients", "optimizer", "activations", "logits", "communication", "context", "fragmentation"]
for s in d["stages"]:
    assert sum(s[k] for k in kinds) == s["total"]
assert max(s["total"] for s in d["stages"]) == d["total_bytes"] > d["limit_bytes"] and not d["fits"]
assert d["fix"]["total"] <= d["limit_bytes"] and d["fix"]["steps"]
EOF
'
test_expect 'the picture is one SVG with a column a stage' '
    stoker plan memory --model llama-3.1-70b --gpus 32 --tp 8 --pp 4 --sp --svg p.svg &&
    stoker plan memory --model llama-3.1-70b --gpus 32 --tp 8 --pp 4 --sp --svg - | cmp - p.svg &&
    python3 -c "import xml.dom.minidom as x; d = x.parse(\"p.svg\"); assert len(d.getElementsByTagName(\"rect\")) > 30"
'

# refused: message and hint
refused() {
    msg=$1 hint=$2
    shift 2
    stoker plan memory "$@" >out 2>err
    test $? = 2 && test ! -s out && sed -n 1p err | grep -qF -- "$msg" && sed -n 2p err | grep -qF -- "$hint" ||
        { cat err; return 1; }
}
test_expect 'a GPU by any name of the catalogue: ours, the driver'"'"'s, the label of a Kubernetes node' '
    for n in "h100=H100 SXM5 80GB" "NVIDIA H100 80GB HBM3=H100 SXM5 80GB" "NVIDIA-A100-SXM4-80GB=A100 SXM4 80GB" "a100-80gb=A100 SXM4 80GB" \
             "Tesla-V100-SXM2-16GB=V100 SXM2 16GB" "NVIDIA GeForce RTX 4090=RTX 4090" "NVIDIA B200=B200 SXM 180GB"; do
        stoker plan memory --model llama-3.2-1b --gpu "${n%%=*}" >out; grep -q "^1 x ${n#*=}: " out || { echo "$n"; return 1; }
    done
'
test_expect 'no model, an unknown one, a wrong one' '
    refused "there is no --model" "stoker plan models" &&
    refused "no model '"'llama-3.1-9b'"'" "llama-3.1-8b" --model llama-3.1-9b &&
    refused "is not a model" "7B,32,4096" --model 7B,32
'
test_expect 'impossible models' '
    refused "cannot have 1e+18 parameters" "nearest valid value" --model 1000000000B,32,4096 &&
    refused "cannot have 0 layers" "is 1." --model 7B,0,4096 &&
    printf "{\"model_type\":\"llama\",\"hidden_size\":100,\"num_attention_heads\":7,\"num_hidden_layers\":2,\"intermediate_size\":8,\"vocab_size\":9}" >config.json &&
    refused "7 heads do not divide hidden size 100" "is 5." --model config.json
'
test_expect 'unknown GPUs and impossible cuts, with the rule and the nearest value' '
    refused "no GPU '"'h300'"'" "h100" --model llama-3.1-8b --gpu h300 &&
    refused "rule tp-heads: tensor-parallel size 3" "is 2." --model llama-3.1-8b --tp 3 &&
    refused "rule tp-kv-heads" "is 8." --model llama-3.1-8b --tp 16 &&
    refused "rule pp-even" "is 4." --model llama-3.1-8b --pp 5 &&
    refused "rule vpp-batch" "is 8: a batch of 8." --model llama-3.1-8b --pp 4 --vpp 2 --grad-acc 6 &&
    refused "rule ep-experts" "is 8." --model mixtral-8x7b --ep 16 --gpus 16 &&
    refused "rule gpus" "On 10 GPUs the nearest tensor-parallel size is 2; 4 takes 12 GPUs." --model llama-3.1-8b --gpus 10 --tp 4 &&
    refused "rule gpus" "On 12 GPUs the nearest tensor-parallel size is 4; 8 takes 16 GPUs." --model llama-3.1-8b --gpus 12 --tp 8 &&
    refused "rule tp-heads" "is 2." --model llama-3.1-8b --gpus 8 --tp 3 &&
    refused "rule pp-even" "is 2." --model llama-3.1-8b --gpus 8 --pp 3 &&
    refused "rule fp8" "bf16" --model llama-3.1-8b --gpu a100 --precision fp8
'
test_expect 'sizes that are given with their replicas: the GPUs they take' '
    ! stoker plan memory --model llama-3.1-8b --tp 8 --dp 3 --gpus 100 2>err && grep -q "^These sizes take 24 GPUs" err &&
    stoker plan memory --model llama-3.1-8b --tp 8 --dp 3 --gpus 24 >out &&
    ! stoker plan memory --model qwen2.5-7b --pp 4 --vpp 7 --dp 2 --batch 12 2>err && grep -q "is 8: a batch of 16" err &&
    stoker plan memory --model qwen2.5-7b --pp 4 --vpp 7 --dp 2 --batch 16 >out
'
test_expect 'a context-parallel size that does not cut the sequence: the nearest that does and divides the GPUs' '
    ! stoker plan memory --model llama-3.1-8b --gpus 8 --cp 3 2>err && grep -q "nearest context-parallel size is 2; 3 takes sequences of 4098 tokens" err &&
    stoker plan memory --model llama-3.1-8b --gpus 64 --cp 2 --zero 3 >out
'
test_expect 'measured models and machines that cannot be' '
    refused "needs '"'--act-bytes-sample'"'" "Measure it" --params 86M &&
    refused "needs '"'--params'"'" "--params 86M" --act-bytes-sample 86M &&
    refused "two models" "Leave one" --params 86M --act-bytes-sample 1M --model gpt2 &&
    refused "option '"'--params'"' cannot be '"'x'"'" "86M" --params x --act-bytes-sample 1M &&
    refused "rule tp-heads" "is 1." --params 86M --act-bytes-sample 1M --tp 2 &&
    refused "both say which GPU" "Leave one" --model gpt2 --gpu h100 --machine x &&
    stoker detect --root "$BUILD/machines/dgx-h100.tar" --json >dgx.json &&
    refused "20 GPUs are no whole nodes of 8" "is 24." --model gpt2 --gpus 20 --machine dgx.json &&
    refused "is cut into MIG instances" "switch MIG off" --model gpt2 \
        --machine "$TOP/tests/golden/machines/mig-h200/inventory.json"
'
test_expect 'one output at a time' '
    refused "one at a time" "Leave one" --model llama-3.1-8b --json --svg -
'
test_expect 'absurd batches' '
    refused "batch 7 is not a multiple" "is 8." --model llama-3.1-8b --gpus 4 --batch 7 &&
    refused "micro-batch 16777216 cannot be" "is 1024." --model llama-3.1-8b --micro-batch 16777216 --seq 67108864 &&
    refused "is not 9" "follows from the batch" --model llama-3.1-8b --batch 9 --grad-acc 4
'
test_expect 'a config.json that is none' '
    echo "{" >bad.json; stoker plan memory --model bad.json >out 2>err; test $? = 1 && test ! -s out &&
    grep -q "model .bad.json.: line " err
'

test_expect 'models: a table and JSON, all with their source' '
    stoker plan models | grep -q "^llama-3.1-405b  *405853388800" &&
    stoker plan models --json | python3 -c "
import json, sys
d = json.load(sys.stdin)
assert len(d[\"models\"]) >= 70 and all(m[\"source\"] and m[\"published\"] for m in d[\"models\"])"
'

test_expect 'validate: rows, reasons and RESULT lines' '
    stoker plan validate --rows "$TOP/tests/fixtures/plan/runs.csv" >out && golden out plan/validate.txt &&
    grep -q "^RESULT plan.all.params_median .* ok n=" out
'
test_expect 'validate as JSON: used rows and reasons are there for every source' '
    stoker plan validate --json "$TOP/tests/fixtures/plan/runs.csv" | python3 -c "
import json, sys
d = json.load(sys.stdin)
s = d[\"sources\"]
assert s[-1][\"source\"] == \"all\" and s[-1][\"rows\"] == sum(x[\"rows\"] for x in s[:-1]) == 35
assert all(x[\"used\"] == x[\"rows\"] or x[\"missing\"] or x[\"excluded\"] for x in s)"
'
test_expect 'validate: a file that is no such table' '
    printf "a,b\n1,2\n" >t.csv; stoker plan validate t.csv >out 2>err; test $? = 1 && test ! -s out &&
    grep -q "table .t.csv.: there is no column .source." err
'
test_expect 'communication of tensor parallelism alone is not "one GPU"' '
    stoker plan memory --model llama-3.1-8b --gpus 8 --tp 8 --gpu h200 >out && grep -q "^communication .*tensor parallelism sums in place" out &&
    stoker plan memory --model llama-3.2-1b --gpus 1 >out && grep -q "^communication .*one GPU, none" out
'
test_done
