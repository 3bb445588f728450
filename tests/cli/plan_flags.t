#!/bin/sh
# SPDX-License-Identifier: MIT
# `stoker plan train --for` and `--flags`: nothing is chosen or printed that a framework refuses.
# FRAMEWORKS_PYTHON is a python that has deepspeed, torchtitan, tyro and accelerate (all on PyPI):
# their own parsers then read the text.
. "$(dirname "$0")/lib.sh"
PYTHON=${FRAMEWORKS_PYTHON:-python3}

flags() { # MODEL GPUS FRAMEWORK [OPTION…]
    model=$1 gpus=$2 framework=$3
    shift 3
    stoker plan train --model "$model" --gpus "$gpus" --gpu h200 --batch 512 --flags "$framework" "$@"
}

test_expect 'versions are named in the first line' '
    for f in megatron torchtitan deepspeed accelerate torchrun; do
        flags llama-3.1-8b 8 $f >out && head -1 out | grep -q "^# .*[0-9]\.[0-9]" || exit 1
    done
'
test_expect 'Megatron-FSDP has its checkpoint format, experts their grouped product' '
    flags llama-3.1-8b 8 megatron --fix zero3 >out && grep -q "optim_grads_params --ckpt-format fsdp_dtensor" out &&
    flags mixtral-8x7b 64 megatron >out && grep -q -e "--moe-grouped-gemm" out &&
    flags llama-3.1-8b 8 megatron --fix "zero1 norm act" --precision fp8 >out &&
    grep -q -e "--recompute-modules layernorm mlp" out && grep -q -e "--fp8-param-gather" out
'
test_expect 'Megatron-LM: no fp8 recipe that refuses the recompute, no table of positions shorter than the sequence' '
    flags llama-3.1-8b 8 megatron --fix "zero1 norm" --precision fp8 >out && grep -q -e "--fp8-recipe tensorwise" out &&
    flags llama-3.1-8b 8 megatron --fix zero1 --precision fp8 >out && ! grep -q -e "--fp8-recipe" out &&
    flags gpt3-175b 512 megatron --seq 4096 >out && grep -q -e "--max-position-embeddings 4096" out &&
    grep -q "^# .* has positions for 2048 tokens" out &&
    flags gpt3-175b 512 megatron --seq 1024 >out && grep -q -e "--max-position-embeddings 2048" out
'
test_expect 'no pipeline with ZeRO 2 for DeepSpeed: neither chosen nor accepted' '
    for m in llama-3.1-70b gpt3-175b llama-3.1-405b; do
        stoker plan train --model $m --gpus 512 --batch 512 --for deepspeed --json --no-vary >j &&
        python3 -c "
import json
d = json.load(open(\"j\"))
for c in d[\"front\"] + d[\"clusters\"][0][\"top\"]:
    assert not (c[\"pp\"] > 1 and c[\"zero\"] > 1) and c[\"vpp\"] == 1 and not c[\"seq_par\"], c" || exit 1
    done
    ! stoker plan train --model llama-3.1-70b --gpus 64 --batch 512 --fix "pp4 zero2" --for deepspeed 2>err &&
    grep -q "DeepSpeed [0-9.]* cannot run it: its pipeline refuses ZeRO 2 and 3" err
'
test_expect 'TorchTitan: flags of its current configuration, no ZeRO 1, its own precision' '
    flags llama-3.1-70b 64 torchtitan >out && grep -q -e "-m torchtitan.train --module" out &&
    ! grep -q "CONFIG_FILE\|activation_checkpoint.mode\|expert_tensor_parallel" out &&
    stoker plan train --model llama-3.1-70b --gpus 64 --batch 512 --for torchtitan --json --no-vary >j &&
    python3 -c "
import json
d = json.load(open(\"j\"))
for c in d[\"front\"] + d[\"clusters\"][0][\"top\"]:
    assert c[\"zero\"] != 1 and c[\"precision\"] == \"fsdp\", c"
'
test_expect 'Accelerate: the bytes of the trainer that is printed, no plug-in whose command cannot describe the model' '
    for job in "llama-3.1-70b 16" "llama-3.1-405b 512" "mixtral-8x7b 64" "gpt-neox-20b 8" "llama-3.2-1b 8" "qwen2.5-14b 8"; do
        set -- $job
        flags $1 $2 accelerate --gpu h100 >out && ! grep -q megatron_lm out || exit 1
        if grep -q -e "--use_fsdp" out && ! grep -q "gradient accumulation 1," out; then
            grep -q "^# .*GradientAccumulationPlugin(num_steps=[0-9]*, sync_each_batch=True)" out || exit 1
        fi
    done
    flags llama-3.2-1b 8 accelerate --fix zero0 >out && grep -q -e "--multi_gpu" out && ! grep -q deepspeed out &&
    flags llama-3.1-8b 8 accelerate --precision pure >out && grep -q -e "--mixed_precision no" out && grep -q "dtype=torch.bfloat16" out &&
    flags llama-3.1-8b 8 accelerate --precision bf16-grads --fix zero2 >out && grep -q -e "--use_deepspeed --zero_stage 2" out &&
    ! flags llama-3.1-8b 8 accelerate --precision bf16 2>err && grep -q "its weights are fp32 (fsdp)" err &&
    ! flags llama-3.1-8b 8 accelerate --fix pp2 2>err && grep -q "its Megatron-LM plug-in, whose command cannot describe" err
'
test_expect 'DeepSpeed: sums in the type that is counted, and no types that it has not' '
    flags llama-3.1-8b 8 deepspeed --precision bf16 >out && grep -q "\"grad_accum_dtype\": \"fp32\"" out &&
    flags llama-3.1-8b 8 deepspeed >out && ! grep -q grad_accum_dtype out || exit 1
    for p in fsdp pure; do
        ! flags llama-3.1-8b 8 deepspeed --precision $p 2>err && grep -q "a master copy in fp32 (bf16-grads, bf16)" err || exit 1
    done
    ! flags llama-3.1-8b 8 megatron --precision fsdp 2>err && grep -q "a master copy in fp32 (bf16, bf16-grads)" err
'
test_expect 'what is counted as compiled is compiled, and only that' '
    flags llama-3.1-8b 8 torchtitan >out && grep -q -e "--compile.enable --compile.components model,loss$" out &&
    flags llama-3.1-70b 64 torchtitan --fix "tp8 sp" >out && grep -q -e "--compile.enable_async_tensor_parallel" out &&
    flags llama-3.1-70b 64 torchtitan --fix "tp8 nosp" >out && grep -q "^# the time hides .* is longer" out &&
    flags llama-3.1-8b 8 accelerate --fix zero3 >out && grep -q -e "--dynamo_backend inductor" out &&
    flags llama-3.1-8b 8 deepspeed >out && grep -q "^# .* call engine.compile()" out &&
    flags llama-3.1-8b 8 torchrun >out && grep -q "^# .* call torch.compile(model)" out || exit 1
    for f in torchtitan accelerate deepspeed torchrun; do
        flags llama-3.1-8b 8 $f --eager >out && ! grep -v -e "--compile.no-enable$" out | grep -q "compile\|dynamo\|inductor" || exit 1
    done
'
test_expect 'the optimizer that is counted is the one that is switched on, or said' '
    flags llama-3.1-8b 8 megatron --optimizer adam8 >out && grep -q -e "--use-distributed-optimizer" out &&
    grep -q -e "--exp-avg-dtype fp8 --exp-avg-sq-dtype fp8" out &&
    flags llama-3.2-1b 1 megatron --optimizer adam16 >out && grep -q -e "--use-distributed-optimizer" out &&
    grep -q -e "--exp-avg-dtype bf16" out &&
    flags llama-3.2-1b 8 megatron --optimizer sgd >out && grep -q -e "--optimizer sgd" out &&
    ! grep -q -e "--use-distributed-optimizer" out &&
    ! flags llama-3.2-1b 8 megatron --optimizer sgd --fix zero1 2>err && grep -q "has Adam alone" err &&
    flags llama-3.1-8b 8 deepspeed --optimizer adam8 >out && grep -q "zero_allow_untested_optimizer.: true" out || exit 1
    for f in deepspeed accelerate torchrun; do
        flags llama-3.1-8b 8 $f --optimizer adam8 >out && grep -q "^# the optimizer.* AdamW8bit" out &&
        flags llama-3.1-8b 8 $f --optimizer adam >out && ! grep -q "^# the optimizer" out || exit 1
    done
'
test_expect 'what a framework refuses is blamed on it, not on the rule that refuses most' '
    ! flags llama-3.1-8b 8 torchtitan --optimizer adam8 2>err && grep -q "TorchTitan [0-9.]* cannot run it: .* AdamW" err &&
    ! grep -q vpp err
'
test_expect 'a GPU without bf16 gets fp16, or is refused' '
    old() { stoker plan train --model qwen2.5-0.5b --gpu $1 --gpus 8 --batch 64 --seq 1024 --flags "$2" ${3-} ${4-}; }
    for gpu in v100 t4; do
        old $gpu megatron >out && grep -q -e "--fp16 --accumulate-allreduce-grads-in-fp32" out && ! grep -q -e --bf16 out &&
        old $gpu megatron --precision bf16-grads >out && grep -q -e "--fp16$" out &&
        old $gpu deepspeed >out && grep -q "\"fp16\": { \"enabled\": true }" out && ! grep -q "\"bf16\"" out &&
        old $gpu accelerate >out && grep -q -e "--mixed_precision fp16" out &&
        old $gpu torchrun >out && grep -q "^# .* has no bf16: fp16" out || exit 1
    done
    ! old v100 torchtitan 2>err && grep -q "TorchTitan .* cannot train on V100.*bf16" err &&
    ! old v100 megatron --precision pure 2>err && grep -q "rule bf16: V100 .* has no bf16" err &&
    ! old v100 megatron --precision fp8 2>err && grep -q "which on this GPU is fp16" err &&
    stoker plan machine --gpu v100 >out && grep -q "^precision *fp16" out && grep -q GradScaler out
'
test_expect 'torchrun: each precision is said' '
    for p in bf16 bf16-grads fsdp pure fp8 fp32; do
        flags llama-3.2-1b 8 torchrun --precision $p >out && grep "^# precision: " out || exit 1
    done >all && test "$(sort -u all | wc -l)" = 6
'
test_expect 'Megatron-LM: the model that is planned, and what the command does not say of it' '
    has() { stoker plan train --model $1 --gpus 64 --gpu h200 --batch 512 --flags megatron >out || return 1
        shift; for w; do grep -q -e "$w" out || return 1; done; } &&
    has llama-3.1-70b "--rotary-base 500000" --use-rope-scaling && ! grep -q "not set here" out &&
    has mixtral-8x7b "--rotary-base 1000000" && has qwen3-30b-a3b --qk-layernorm &&
    has gpt-oss-20b "--softmax-type learnable" --quick-geglu "# not set here: YaRN" && ! grep -q -e --swiglu out &&
    has bloom-7b1 "--position-embedding-type none" "# not set here: ALiBi" && has opt-30b "# not set here: ReLU" &&
    has phi-2 "--rotary-percent 0.4" && has gemma-2-9b "# not set here: GeGLU" &&
    has phi-3-mini "# not set here: the sliding window" && has gemma-2b --apply-layernorm-1p &&
    has 7B,32,4096 "# not set here: rotary base" && has deepseek-v2-lite --moe-router-pre-softmax || exit 1
    sed 1d "$TOP/data/models.csv" | cut -d, -f1 | while read -r m; do
        stoker plan train --model $m --gpus 1024 --gpu h200 --batch 1024 --fix "mbs1 full" --flags megatron >out 2>err ||
            { echo "$m: $(cat err)"; exit 1; }
        test $m != deepseek-v3 || grep -q -e "--moe-router-pre-softmax --moe-router-topk-scaling-factor 2.5" out || exit 1
        grep -q "config.json has them" out && { echo "no row for $m"; exit 1; } || :
    done
'
test_expect 'Megatron-LM: stages that it does not make by itself are laid out, with their virtual stages' '
    layout() { # STAGES LAYERS MODEL GPUS SPLIT FIX [OPTION...]: as the training script reads it: an embedding, all layers, a head
        want="$1 $2" m=$3 n=$4 split=$5 fix=$6; shift 6
        stoker plan train --model $m --gpus $n --batch 512 --split $split --fix "$fix" --no-vary "$@" --flags megatron >out &&
        ! grep -q "virtual-stages\|account-for" out && test "$want" = "$(python3 -c "
import re
text = re.search(r\"pipeline-model-parallel-layout \\\"(.*?)\\\"\", open(\"out\").read())[1]
for unit in (r\"\(([^)]+)\)\*(\d+)\", r\"(.)\*(\d+)\"):
    text = re.sub(unit, lambda x: x[1] * int(x[2]), text)
assert text[0] == \"E\" and text[-1] == \"L\" and set(text) == set(\"EtL|\"), text
print(len(text.split(\"|\")), text.count(\"t\"))")"
    }
    layout 8 61 deepseek-v3 1024 cost "pp8 vpp1 ep32" && layout 56 61 deepseek-v3 1024 cost "pp8 vpp7 ep32" &&
    layout 4 126 llama-3.1-405b 1024 cost "pp4 vpp1" --offload && layout 4 80 llama-3.1-70b 64 cost "pp4 vpp1" &&
    stoker plan train --model llama-3.1-70b --gpus 64 --batch 512 --fix "pp4 vpp2" --flags megatron >out && grep -q "virtual-stages-per-pipeline-rank 2" out && ! grep -q layout out
'
test_expect 'shards that DeepSpeed no longer has, graphs that TorchTitan has not of pipelines, recompute that is another one' '
    stoker plan train --model llama-3.1-70b --gpus 256 --gpu a100 --batch 512 --no-vary --flags deepspeed >out && ! grep -q mics out &&
    ! stoker plan train --model llama-3.1-70b --gpus 64 --batch 512 --fix "zero3 shard8" --flags deepspeed 2>err && grep -q "no shards smaller than all replicas" err &&
    flags llama-3.1-70b 256 torchtitan --fix pp4 >out && grep -q -e "--training.disable_cuda_graphs" out &&
    flags llama-3.1-8b 8 torchtitan >out && ! grep -q cuda_graphs out &&
    flags llama-3.1-8b 8 torchtitan --eager >out && grep -q -e "--compile.no-enable" out &&
    ! flags mixtral-8x7b 128 torchtitan --fix "tp2 pp2 ep8 zero3 shard2" 2>err && grep -q "expert parallelism is inside a shard of the weights" err &&
    flags mixtral-8x7b 128 torchtitan --fix "tp2 pp2 ep8 zero3 shard4" >out &&
    ! flags llama-3.1-70b 64 torchtitan --fix pp4 --split cost 2>err && grep -q "stages by cost are no setting of it" err &&
    ! flags llama-3.1-8b 8 torchtitan --fix selective 2>err && grep -q "operations by its own list, which is not counted" err
'
test_expect 'an optimizer in host memory: which, and none that DeepSpeed has not there' '
    stoker plan train --model llama-3.1-8b --gpus 8 --batch 64 --offload --fix "zero3 offload-optimizer" --flags deepspeed >out && grep -q "^# the optimizer, in train.py, is deepspeed.ops.adam.DeepSpeedCPUAdam" out &&
    for o in sgd adam8 adam16; do
        for f in deepspeed accelerate; do
            ! stoker plan train --model llama-3.1-8b --gpus 8 --batch 64 --precision bf16-grads --optimizer $o --fix "zero3 offload-optimizer" --flags $f 2>err && grep -q "DeepSpeedCPUAdam, is an Adam of fp32 moments" err || exit 1
        done
    done &&
    stoker plan train --model llama-3.1-8b --gpus 1 --batch 8 --fix "full offload-optimizer" --flags torchrun >out && grep -q "^# moments and step are in host memory" out &&
    stoker plan memory --model llama-3.1-8b --gpus 1 --offload optimizer --recompute full --json >j && python3 -c "
import json
assert json.load(open(\"j\"))[\"total_bytes\"] < 56 * 2**30"
'
test_expect 'the reason that holds whatever ZeRO is; bytes that Megatron-LM does not store' '
    for z in "" " zero1" " zero0"; do
        ! stoker plan train --model llama-3.1-8b --gpus 8 --batch 64 --fix "pp8 gpipe$z" --flags megatron 2>err && grep -q "it has no GPipe schedule" err || exit 1
    done &&
    ! stoker plan train --model llama-3.1-8b --gpus 24 --batch 128 --fix "mbs12 sp tp4" --for deepspeed 2>err && grep -q "context and sequence parallelism are no settings of it" err &&
    ! stoker plan train --model llama-3.1-8b --gpus 64 --batch 512 --fix "tp2 pp2" --flags deepspeed 2>err && grep -q "AutoTP goes with no pipeline" err &&
    ! stoker plan train --model llama-3.1-8b --gpus 8 --batch 64 --fix "pp4 zero3" --flags megatron 2>err && grep -q "Megatron-FSDP (ZeRO 2 and 3) has no pipeline" err &&
    ! stoker plan train --model llama-3.1-8b --gpus 8 --batch 64 --precision pure --flags megatron 2>err && grep -q "its weights are of 16 bits with a master copy in fp32" err
'
test_expect 'Megatron-LM does not cut experts of a model with biases' '
    ! flags gpt-oss-20b 64 megatron --fix "tp8 etp8" 2>err && grep -q "a model with biases has whole experts" err &&
    flags gpt-oss-20b 64 megatron --fix tp8 >out && grep -q -e "--expert-tensor-parallel-size 1 " out && ! grep -q disable-bias out &&
    flags mixtral-8x7b 64 megatron --fix "tp8 etp8" >out
'
test_expect 'as many processes as GPUs: equal parts of nodes that hold groups of tensor parallelism whole, four in a tray of a rack' '
    started() { # GPUS BATCH OPTION...: nodes x processes of each framework, one line each
        n=$1 b=$2; shift 2
        for f in deepspeed megatron torchtitan accelerate torchrun; do
            stoker plan train --model llama-3.1-8b --gpus $n --batch $b --no-vary "$@" --flags $f >out || exit 1
            sed -n "s/.*--num_nodes \([0-9]*\) --num_gpus \([0-9]*\) .*/\1 x \2/p; s/^[A-Z_=0-9 ]*torchrun --nnodes \([0-9]*\) --nproc-per-node \([0-9]*\) .*/\1 x \2/p; s/^accelerate launch --num_processes \([0-9]*\) --num_machines \([0-9]*\) .*/\2 : \1/p" out
        done
    }
    test "$(started 12 96)" = "$(printf "2 x 6\n2 x 6\n2 x 6\n2 : 12\n2 x 6")" && grep -q "12 GPUs are 2 nodes with 6 of their 8 GPUs" out &&
    test "$(started 20 100 --node 4)" = "$(printf "5 x 4\n5 x 4\n5 x 4\n5 : 20\n5 x 4")" && ! grep -q "of their" out &&
    test "$(started 36 288 --fix tp4 | sort -u)" = "$(printf "9 : 36\n9 x 4")" &&
    for fix in "zero3 shard4 mbs1" "cp4 zero3 mbs1"; do
        stoker plan train --model llama-3.1-8b --gpus 12 --batch 96 --no-vary --fix "$fix" --flags torchrun >out && grep -q -e "--nnodes 3 --nproc-per-node 4 " out || exit 1
    done &&
    stoker plan train --model qwen3-30b-a3b --gpus 12 --batch 96 --no-vary --fix ep4 --flags megatron >out && grep -q -e "--nnodes 3 --nproc-per-node 4 " out &&
    test "$(started 144 1152 --gpu gb200 | sort -u)" = "$(printf "36 : 144\n36 x 4")" &&
    test "$(started 144 1152 --gpu gb300 --node 8 | sort -u)" = "$(printf "36 : 144\n36 x 4")" &&
    { stoker plan train --model llama-3.1-8b --gpus 13 --batch 104 --flags torchrun >out 2>err; test $? = 2; } && test ! -s out &&
    grep -q "no command starts 13 GPUs on machines of 8" err && grep -q "is 16; --node" err
'
test_expect 'as JSON: the same text, its framework and configuration' '
    flags llama-3.1-8b 8 deepspeed >text && flags llama-3.1-8b 8 deepspeed --json >j && python3 -c "
import json
d = json.load(open(\"j\"))
assert d[\"schema\"] == \"stoker.plan-flags/1\" and d[\"text\"] == open(\"text\").read() and d[\"framework\"] == \"deepspeed\", d
assert d[\"config\"].startswith(\"dp8 \") and d[\"version\"].startswith(\"DeepSpeed \"), d"
'
test_expect 'two frameworks at once are refused' '
    ! stoker plan train --model llama-3.1-8b --gpus 8 --batch 64 --for megatron --flags deepspeed 2>err &&
    grep -q "two frameworks" err
'
for f in deepspeed torchtitan accelerate; do
    flags llama-3.1-8b 8 $f >first.txt
    if "$PYTHON" "$TOP/tests/plan/flags_parse.py" $f <first.txt >out 2>err; [ $? = 77 ]; then
        test_skip "$f's own parser" "$(tail -1 err); FRAMEWORKS_PYTHON names a python that has it"
        continue
    fi
    test_expect "$f's own parser accepts what is printed" '
        for case in "llama-3.1-8b 8" "llama-3.1-70b 64" "mixtral-8x7b 64 --precision pure" "gpt3-175b 512" \
            "llama-3.1-8b 8 --optimizer sgd" "llama-3.1-8b 8 --fix zero2" "llama-3.1-70b 256 --fix pp4" "mixtral-8x7b 64 --fix ep8"; do
            test $f = accelerate && [ "$case" != "${case%pp4}" ] && continue
            test $f != torchtitan && [ "$case" != "${case%ep8}" ] && continue
            test $f = torchtitan && [ "$case" != "${case%sgd}" ] && continue
            test $f = deepspeed && [ "$case" != "${case%pure}" ] && continue
            set -- $case
            flags $1 $2 $f ${3-} ${4-} >text || exit 1
            "$PYTHON" "$TOP/tests/plan/flags_parse.py" $f <text || exit 1
        done
    '
done
test_skip "Megatron-LM's own parser" 'megatron/training/arguments.py is in no package of PyPI'
test_done
