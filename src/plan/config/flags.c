/* SPDX-License-Identifier: MIT */
/* flags: a configuration as training frameworks take it.
 *
 * Names are those of Megatron-LM (megatron/training/arguments.py and the config classes it makes
 * arguments of), TorchTitan (torchtitan/config/configs.py), DeepSpeed (runtime/config.py) and
 * Accelerate (commands/launch.py) in the versions that plan_framework_versions has; the text opens
 * with it.  Only what their parsers accept is printed as a flag; what a framework has none for is
 * said in a comment instead of being left out.  What it cannot run at all is not chosen for it:
 * framework.c. */
#include "plan/search.h"

#include "base/str.h"
#include "plan/config/flags_int.h"
#include "plan/plan_int.h"
#include "plan/search/search_int.h"

struct flags_job { /* what all of them need */
    const struct plan_model *m;
    const struct plan_cluster *cl;
    const struct plan_config *c;
    struct buf *out;
    struct buf notes; /* comments, printed behind the command */
    int64_t replicas, batch, shard;
};

static void add_flag(struct flags_job *j, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void add_flag(struct flags_job *j, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    buf_adds(j->out, " \\\n    ");
    buf_vaddf(j->out, fmt, ap);
    va_end(ap);
}

static void add_note(struct flags_job *j, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void add_note(struct flags_job *j, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    buf_adds(&j->notes, "# ");
    buf_vaddf(&j->notes, fmt, ap);
    buf_addc(&j->notes, '\n');
    va_end(ap);
}

static long long as_ll(int64_t v)
{
    return (long long)v;
}

/* Groups of GPUs that talk in every layer, in the order of the ranks, lie in one node each or take
 * whole nodes. */
static bool groups_fit(const struct plan_config *c, int64_t each)
{
    const int64_t groups[] = { c->tp, (int64_t)c->tp * c->cp,
                               c->zero && c->shard ? (int64_t)c->tp * c->shard : 1,
                               c->ep > 1 ? c->ep * plan_etp(c) : 1 };

    for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
        if (each % groups[i] && groups[i] % each)
            return false;
    return true;
}

bool plan_launch_shape(const struct plan_cluster *cl, const struct plan_config *c,
                       int64_t *out_nodes, int64_t *out_each)
{
    int64_t machine = cl->machine_gpus ? cl->machine_gpus : cl->node_gpus;
    int64_t most = plan_max(1, plan_min(machine, cl->gpus));

    for (int64_t each = most; 2 * each >= most; each--)
        if (cl->gpus % each == 0 && groups_fit(c, each)) {
            *out_nodes = cl->gpus / each;
            *out_each = each;
            return true;
        }
    return false;
}

/* Nodes and processes of one of them, as launchers want them. */
static void launch_shape(struct flags_job *j, int64_t *nodes, int64_t *each)
{
    int64_t machine = j->cl->machine_gpus ? j->cl->machine_gpus : j->cl->node_gpus;

    if (!plan_launch_shape(j->cl, j->c, nodes, each)) {
        *nodes = j->cl->gpus;
        *each = 1;
    }
    if (*nodes > 1 && *each < machine)
        add_note(
            j,
            "launchers start as many processes on each node: %lld GPUs are %lld nodes with %lld "
            "of their %lld GPUs; the plan counted full nodes",
            as_ll(j->cl->gpus), as_ll(*nodes), as_ll(*each), as_ll(machine));
}

static void print_torchrun(struct flags_job *j, const char *script)
{
    int64_t nodes, each;

    launch_shape(j, &nodes, &each);
    if (nodes == 1)
        buf_addf(j->out, "torchrun --standalone --nproc-per-node %lld %s", as_ll(each), script);
    else
        buf_addf(j->out,
                 "torchrun --nnodes %lld --nproc-per-node %lld --rdzv-backend c10d --rdzv-id job "
                 "--rdzv-endpoint \"$HEAD_NODE:29500\" %s",
                 as_ll(nodes), as_ll(each), script);
}

/* The type of 16 bits. */
static const char *half_name(const struct flags_job *j)
{
    return j->cl->gpu.no_bf16 ? "fp16" : "bf16";
}

static void note_half(struct flags_job *j)
{
    if (j->cl->gpu.no_bf16 && j->c->precision != PLAN_FP32)
        add_note(j, "%s has no bf16: fp16 with a scaled loss takes its place", j->cl->gpu.name);
}

/* Fused kernels hide tensor-parallel collectives behind products inside one NVLink domain: what
 * layer_time.c counts. */
static bool hides_tp(const struct flags_job *j)
{
    return j->c->profile.fused && j->c->tp > 1 && j->c->tp <= j->cl->node_gpus;
}

/* The plan counts compiled kernels, which no framework but Megatron-LM has without being told:
 * uncompiled, a plan near the limit runs out of memory.  `how` is what the script has to do. */
static void note_compile(struct flags_job *j, const char *how)
{
    if (j->c->profile.fused)
        add_note(j, "planned with compiled kernels (--eager plans without): %s", how);
}

/* Frameworks that take their optimizer from the script get what is counted said. */
static void note_optimizer(struct flags_job *j)
{
    static const char *const names[PLAN_OPTIMIZERS] = {
        [PLAN_ADAM8] = "an Adam of 8-bit moments: AdamW8bit of torchao (FSDP) or of bitsandbytes",
        [PLAN_ADAM16] = "an Adam of bf16 moments: FusedAdam of Transformer Engine with "
                        "exp_avg_dtype and exp_avg_sq_dtype",
        [PLAN_SGD] = "torch.optim.SGD with momentum",
    };

    if (names[j->c->optimizer])
        add_note(j, "the optimizer, in train.py, is %s", names[j->c->optimizer]);
}

/* A script's own AdamW would keep its moments on the GPU, and DeepSpeed refuses it. */
static void note_cpu_adam(struct flags_job *j)
{
    if (j->c->offload_optimizer)
        add_note(j,
                 "the optimizer, in train.py, is deepspeed.ops.adam.DeepSpeedCPUAdam, or one that "
                 "ds_config.json names");
}

static void note_tp_shown(struct flags_job *j, const char *who)
{
    if (hides_tp(j))
        add_note(
            j,
            "the time hides collectives of tp%d behind products, which %s does not: it is longer",
            j->c->tp, who);
}

/* ---- Megatron-LM ---- */
static void megatron_model(struct flags_job *j)
{
    const struct plan_model *m = j->m;
    struct plan_megatron_model row;

    plan_megatron_model_of(m, &row);
    add_flag(j, "--num-layers %lld --hidden-size %lld --num-attention-heads %lld", as_ll(m->layers),
             as_ll(m->hidden), as_ll(m->heads));
    if (!m->kv_lora && m->kv_heads != m->heads)
        add_flag(j, "--group-query-attention --num-query-groups %lld", as_ll(m->kv_heads));
    if (!m->kv_lora && m->head_dim * m->heads != m->hidden)
        add_flag(j, "--kv-channels %lld", as_ll(m->head_dim));
    if (m->kv_lora) {
        add_flag(j, "--multi-latent-attention --kv-lora-rank %lld", as_ll(m->kv_lora));
        if (m->q_lora)
            add_flag(j, "--q-lora-rank %lld", as_ll(m->q_lora));
        add_flag(j, "--qk-head-dim %lld --qk-pos-emb-head-dim %lld --v-head-dim %lld",
                 as_ll(m->qk_nope), as_ll(m->qk_rope), as_ll(m->v_dim));
    }
    add_flag(j, "--ffn-hidden-size %lld", as_ll(m->ffn ? m->ffn : m->expert_ffn));
    if (m->gated && !(row.flags && strstr(row.flags, "geglu")))
        add_flag(j, "--swiglu");
    if (!m->norm_bias)
        add_flag(j, "--normalization RMSNorm");
    if (!m->mlp_bias && !m->out_bias)
        add_flag(j, "--disable-bias-linear%s", m->qkv_bias ? " --add-qkv-bias" : "");
    if (!m->positions)
        add_flag(j, "--position-embedding-type %s",
                 row.not_set && str_starts(row.not_set, "ALiBi") ? "none" : "rope");
    if (row.flags)
        add_flag(j, "%s", row.flags);
    if (row.not_set)
        add_note(j, "not set here: %s", row.not_set);
    if (!m->tied)
        add_flag(j, "--untie-embeddings-and-output-weights");
    if (m->experts) {
        add_flag(j, "--num-experts %lld --moe-router-topk %lld --moe-ffn-hidden-size %lld",
                 as_ll(m->experts), as_ll(m->top_k), as_ll(m->expert_ffn));
        if (m->shared_ffn)
            add_flag(j, "--moe-shared-expert-intermediate-size %lld", as_ll(m->shared_ffn));
        if (m->moe_first)
            add_flag(j, "--moe-layer-freq \"[0]*%lld+[1]*%lld\"", as_ll(m->moe_first),
                     as_ll(m->layers - m->moe_first));
        else if (m->moe_every > 1)
            add_flag(j, "--moe-layer-freq %lld", as_ll(m->moe_every));
    }
    /* a table of positions shorter than the sequence is refused */
    add_flag(j, "--seq-length %lld --max-position-embeddings %lld", as_ll(j->c->seq),
             as_ll(plan_max(m->positions, j->c->seq)));
    if (m->positions && m->positions < j->c->seq)
        add_note(j, "%s has positions for %lld tokens: longer sequences want a longer table",
                 m->name, as_ll(m->positions));
}

static void megatron_zero(struct flags_job *j)
{
    const struct plan_config *c = j->c;

    if (c->zero >= 2)
        add_flag(
            j,
            "--use-megatron-fsdp --data-parallel-sharding-strategy %s --ckpt-format fsdp_dtensor",
            c->zero == 2 ? "optim_grads" : "optim_grads_params");
    if (c->zero >= 1 || plan_megatron_aware(c))
        add_flag(j, "--use-distributed-optimizer");
    if (c->zero >= 1 && j->shard != j->replicas)
        add_flag(j, "--num-distributed-optimizer-instances %lld", as_ll(j->replicas / j->shard));
    if (c->profile.dp_overlap && j->replicas > 1)
        add_flag(j, "--overlap-grad-reduce%s", c->zero ? " --overlap-param-gather" : "");
}

static void megatron_optimizer(struct flags_job *j)
{
    const struct plan_config *c = j->c;
    const char *moments = c->optimizer == PLAN_ADAM8    ? "fp8"
                          : c->optimizer == PLAN_ADAM16 ? half_name(j)
                                                        : NULL;

    if (c->optimizer == PLAN_SGD)
        add_flag(j, "--optimizer sgd");
    if (c->offload_optimizer)
        add_flag(j, "--optimizer-cpu-offload");
    if (plan_megatron_aware(c))
        add_flag(j, "--use-precision-aware-optimizer");
    if (moments)
        add_flag(j, "--exp-avg-dtype %s --exp-avg-sq-dtype %s", moments, moments);
}

/* Experts in one grouped product: without it each is a product of its own. */
static void megatron_experts(struct flags_job *j)
{
    add_flag(j, "--expert-model-parallel-size %d --expert-tensor-parallel-size %lld", j->c->ep,
             as_ll(plan_etp(j->c)));
    add_flag(j, "--moe-grouped-gemm --moe-token-dispatcher-type alltoall");
}

static void megatron_recompute(struct flags_job *j)
{
    static const char *const modules[PLAN_OPS] = { "layernorm", "moe_act", "mla_up_proj", "moe",
                                                   "shared_experts" };
    const struct plan_config *c = j->c;
    struct buf list = { 0 };

    if (c->recompute == PLAN_RECOMPUTE_FULL) {
        add_flag(
            j, "--recompute-granularity full --recompute-method uniform --recompute-num-layers %d",
            c->recompute_every);
        return;
    }
    if (c->recompute == PLAN_RECOMPUTE_SELECTIVE)
        buf_adds(&list, " core_attn");
    for (int i = 0; i < PLAN_OPS; i++)
        if (c->recompute_ops >> i & 1)
            buf_addf(&list, " %s", 1 << i == PLAN_OP_ACT && !j->m->experts ? "mlp" : modules[i]);
    if (list.len)
        add_flag(j, "--recompute-granularity selective --recompute-modules%s", buf_str(&list));
    buf_release(&list);
}

static void megatron_precision(struct flags_job *j)
{
    switch (j->c->precision) {
    case PLAN_FP8:
        add_flag(j, "--bf16 --fp8-format hybrid --grad-reduce-in-bf16%s",
                 j->c->zero ? " --fp8-param-gather" : "");
        /* its default recipe, delayed, refuses norms and activations that are computed again */
        if (j->c->recompute_ops & (PLAN_OP_NORM | PLAN_OP_ACT))
            add_flag(j, "--fp8-recipe tensorwise");
        break;
    case PLAN_FP32:
        break;
    case PLAN_BF16_GRADS:
        add_flag(j, "--%s%s", half_name(j), j->cl->gpu.no_bf16 ? "" : " --grad-reduce-in-bf16");
        break;
    default: /* sums of fp16 gradients are fp16 unless it is told */
        add_flag(j, "--%s%s", half_name(j),
                 j->cl->gpu.no_bf16 ? " --accumulate-allreduce-grads-in-fp32" : "");
    }
    note_half(j);
}

/* Layers of chunk `i` in the order of the layers: all first chunks of the stages, then all second
 * ones. */
static int64_t chunk_layers(const struct flags_job *j, int64_t i)
{
    struct plan_stage s;
    int64_t chunk = i / j->c->pp;

    plan_stage_of(j->m, j->c, (int32_t)(i % j->c->pp), &s);
    return s.count / j->c->vpp + (chunk < s.count % j->c->vpp);
}

/* E and L are the embedding and the head, t a layer, (t*2|)*3 three chunks of two. */
static void megatron_layout(struct flags_job *j)
{
    int64_t chunks = (int64_t)j->c->pp * j->c->vpp, same;
    struct buf text = { 0 };

    for (int64_t i = 0; i < chunks; i += same) {
        int64_t n = chunk_layers(j, i);
        bool last = i + 1 == chunks;

        for (same = 1; i && i + same + 1 < chunks && chunk_layers(j, i + same) == n;)
            same++;
        buf_adds(&text, i ? "" : "E");
        buf_adds(&text, same > 1 ? "(" : "");
        if (n)
            buf_adds(&text, "t");
        if (n > 1)
            buf_addf(&text, "*%lld", as_ll(n));
        buf_adds(&text, last ? "L" : "|");
        if (same > 1)
            buf_addf(&text, ")*%lld", as_ll(same));
    }
    add_flag(j, "--pipeline-model-parallel-layout \"%s\"", buf_str(&text));
    buf_release(&text);
}

/* Stages of the same number of layers are Megatron-LM's own, also with the embedding and the head
 * as a layer each; others it has to be told. */
static void megatron_split(struct flags_job *j)
{
    const struct plan_config *c = j->c;
    enum plan_split split = c->profile.split;
    int64_t chunks = (int64_t)c->pp * c->vpp, layers = j->m->layers;
    bool ends =
        split == PLAN_SPLIT_EMBED_LAYER || (split == PLAN_SPLIT_ENDS_LESS && layers % chunks);

    if (c->pp == 1)
        return;
    if (split == PLAN_SPLIT_COST || (ends ? layers + 2 : layers) % chunks) {
        megatron_layout(j);
    } else {
        if (ends)
            add_flag(j, "--account-for-embedding-in-pipeline-split "
                        "--account-for-loss-in-pipeline-split");
        if (c->vpp > 1)
            add_flag(j, "--num-virtual-stages-per-pipeline-rank %d", c->vpp);
    }
    if (c->schedule == PLAN_GPIPE)
        add_note(j, "Megatron-LM has no GPipe schedule: 1F1B takes the same time and less memory");
}

static void print_megatron(struct flags_job *j)
{
    const struct plan_config *c = j->c;

    /* one queue keeps the order of collectives and products; FSDP's prefetch needs more of them */
    if (c->zero < 2 && (c->tp > 1 || c->cp > 1))
        buf_adds(j->out, "CUDA_DEVICE_MAX_CONNECTIONS=1 ");
    print_torchrun(j, "pretrain_gpt.py");
    megatron_model(j);
    add_flag(j, "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d", c->tp, c->pp);
    if (c->seq_par)
        add_flag(j, "--sequence-parallel");
    megatron_split(j);
    if (c->cp > 1)
        add_flag(j, "--context-parallel-size %d", c->cp);
    if (j->m->experts)
        megatron_experts(j);
    add_flag(j, "--micro-batch-size %d --global-batch-size %lld", c->micro_batch, as_ll(j->batch));
    megatron_zero(j);
    megatron_optimizer(j);
    megatron_recompute(j);
    megatron_precision(j);
    if (hides_tp(j) && c->seq_par)
        add_flag(j, "--tp-comm-overlap");
    if (c->zero >= 2 && (c->tp > 1 || c->cp > 1) && j->cl->gpu.few_queues)
        add_note(
            j, "Megatron-LM advises against this: before Blackwell tensor and context parallelism "
               "want CUDA_DEVICE_MAX_CONNECTIONS=1, which Megatron-FSDP refuses; collectives that "
               "the time counts as hidden may show");
    add_note(
        j, "add your data, tokenizer, learning rate and checkpoint flags, and the model's dropout "
           "and epsilon of norms (Megatron-LM: 0.1, 1e-5)");
}

/* ---- TorchTitan ---- */
static void torchtitan_pipeline(struct flags_job *j)
{
    const struct plan_config *c = j->c;

    add_flag(j, "--parallelism.pipeline_parallel_schedule %s",
             c->schedule == PLAN_GPIPE ? "GPipe"
             : c->vpp > 1              ? "Interleaved1F1B"
                                       : "1F1B");
    add_flag(j, "--parallelism.pipeline_parallel_microbatch_size %d", c->micro_batch);
    add_flag(j, "--parallelism.pipeline_parallel_layers_per_stage %lld",
             as_ll(plan_ceil_div(j->m->layers, (int64_t)c->pp * c->vpp)));
    if (j->m->layers % ((int64_t)c->pp * c->vpp) == 0)
        add_flag(j, "--parallelism.pipeline_parallel_first_stage_less_layers 0 "
                    "--parallelism.pipeline_parallel_last_stage_less_layers 0");
}

/* Models, sizes and activation checkpointing are a function of its registry; flags change the
 * rest. */
static void print_torchtitan(struct flags_job *j)
{
    const struct plan_config *c = j->c;
    int64_t each = c->pp > 1 ? (int64_t)c->micro_batch * c->grad_acc : c->micro_batch;

    print_torchrun(j, "-m torchtitan.train --module your_model --config your_config");
    add_flag(j, "--parallelism.tensor_parallel_degree %d", c->tp);
    if (c->tp > 1)
        add_flag(j, "--parallelism.%senable_sequence_parallel", c->seq_par ? "" : "no-");
    add_flag(j, "--parallelism.pipeline_parallel_degree %d", c->pp);
    if (c->pp > 1)
        torchtitan_pipeline(j);
    if (c->pp > 1 || j->m->experts) /* it records a step as a graph, but neither of these */
        add_flag(j, "--training.disable_cuda_graphs");
    if (c->cp > 1)
        add_flag(j, "--parallelism.context_parallel_degree %d", c->cp);
    if (c->ep > 1)
        add_flag(j, "--parallelism.expert_parallel_degree %d", c->ep);
    if (c->zero >= 2) {
        add_flag(j, "--parallelism.data_parallel_shard_degree %lld", as_ll(j->shard / c->cp));
        add_flag(j, "--parallelism.data_parallel_replicate_degree %lld",
                 as_ll(j->replicas / j->shard));
        add_flag(j, "--parallelism.fsdp_reshard_after_forward %s",
                 c->zero == 3 ? "always" : "never");
    } else {
        add_flag(j,
                 "--parallelism.data_parallel_replicate_degree %d "
                 "--parallelism.data_parallel_shard_degree 1",
                 c->dp);
    }
    add_flag(j, "--training.local_batch_size %lld --training.global_batch_size %lld", as_ll(each),
             as_ll(j->batch));
    add_flag(j, "--training.seq_len %lld --training.dtype %s", as_ll(c->seq),
             c->precision == PLAN_PURE16 ? "bfloat16" : "float32");
    if (c->offload_params)
        add_flag(j, "--training.enable_cpu_offload");
    if (c->profile.fused) /* some of its configurations compile only the loss, or nothing */
        add_flag(j, "--compile.enable --compile.components model,loss%s",
                 hides_tp(j) && c->seq_par ? " --compile.enable_async_tensor_parallel" : "");
    else
        add_flag(j, "--compile.no-enable");
    if (!c->seq_par)
        note_tp_shown(j, "TorchTitan without sequence parallelism");
    add_note(j, "your_config is a function of the module's config_registry.py; in it");
    add_note(j, "  activation_checkpoint=%s", c->recompute ? "FullAC.Config()" : "None");
    if (c->precision == PLAN_FP8)
        add_note(j, "  the float8 converter of Linear layers");
}

/* ---- DeepSpeed ---- */
static void no_flag(struct flags_job *j, const char *who)
{
    const struct plan_config *c = j->c;

    if (c->pp > 1)
        add_note(j, "%s: the pipeline of %d stages is a PipelineModule in your code", who, c->pp);
    if (c->vpp > 1)
        add_note(j, "%s has no interleaved schedule", who);
    if (c->pp > 1 && c->zero >= 2)
        add_note(j, "%s refuses ZeRO 2 and 3 with a pipeline", who);
    if (c->cp > 1)
        add_note(j,
                 "%s: context parallelism %d is no flag; its own is Ulysses sequence parallelism",
                 who, c->cp);
    if (c->ep > 1)
        add_note(j, "%s: expert parallelism %d is an argument of its MoE layer", who, c->ep);
    if (c->recompute != PLAN_RECOMPUTE_NONE)
        add_note(j,
                 "recompute (%s) is switched on in the model: gradient_checkpointing_enable() of "
                 "Transformers is full",
                 plan_recompute_names[c->recompute]);
}

static void deepspeed_json(struct flags_job *j)
{
    const struct plan_config *c = j->c;
    struct buf *o = j->out;

    buf_addf(o, "cat >ds_config.json <<'END'\n{\n");
    buf_addf(o, "  \"train_batch_size\": %lld,\n", as_ll(j->batch));
    buf_addf(o, "  \"train_micro_batch_size_per_gpu\": %d,\n", c->micro_batch);
    buf_addf(o, "  \"gradient_accumulation_steps\": %d,\n", c->grad_acc);
    buf_addf(o, "  \"%s\": { \"enabled\": %s },\n", half_name(j),
             c->precision == PLAN_FP32 ? "false" : "true");
    if (c->precision == PLAN_BF16) /* its own is the type of the weights */
        buf_adds(o, "  \"data_types\": { \"grad_accum_dtype\": \"fp32\" },\n");
    if (c->zero && c->optimizer != PLAN_ADAM)
        buf_adds(o, "  \"zero_allow_untested_optimizer\": true,\n");
    if (c->tp > 1)
        buf_addf(o, "  \"tensor_parallel\": { \"autotp_size\": %d },\n", c->tp);
    buf_addf(o, "  \"zero_optimization\": {\n    \"stage\": %d,\n", c->zero);
    buf_addf(o, "    \"overlap_comm\": %s,\n", c->profile.dp_overlap ? "true" : "false");
    if (c->offload_optimizer)
        buf_adds(o, "    \"offload_optimizer\": { \"device\": \"cpu\", \"pin_memory\": true },\n");
    if (c->offload_params)
        buf_adds(o, "    \"offload_param\": { \"device\": \"cpu\", \"pin_memory\": true },\n");
    buf_adds(o, "    \"contiguous_gradients\": true\n  }\n}\nEND\n");
}

static void print_deepspeed(struct flags_job *j)
{
    int64_t nodes, each;

    launch_shape(j, &nodes, &each);
    deepspeed_json(j);
    if (nodes > 1)
        buf_addf(j->out, "deepspeed --hostfile hosts --num_nodes %lld --num_gpus %lld",
                 as_ll(nodes), as_ll(each));
    else
        buf_addf(j->out, "deepspeed --num_gpus %lld", as_ll(each));
    buf_adds(j->out, " train.py --deepspeed ds_config.json");
    no_flag(j, "DeepSpeed");
    if (j->c->tp > 1 && !j->c->seq_par)
        add_note(j, "tensor parallelism is AutoTP, for models of Transformers");
    if (j->c->zero && j->shard != j->replicas)
        add_note(j, "DeepSpeed has no shards over %lld of %lld GPUs", as_ll(j->shard),
                 as_ll(j->replicas));
    note_half(j);
    note_optimizer(j);
    note_cpu_adam(j);
    note_compile(j, "call engine.compile() behind deepspeed.initialize()");
    note_tp_shown(j, "DeepSpeed");
    if (j->c->precision == PLAN_FP8)
        add_note(j, "fp8 is Transformer Engine's, in your model");
}

/* ---- Accelerate ---- */
static void accelerate_deepspeed(struct flags_job *j)
{
    const struct plan_config *c = j->c;

    add_flag(j, "--use_deepspeed --zero_stage %d --gradient_accumulation_steps %d", c->zero,
             c->grad_acc);
    if (c->offload_optimizer)
        add_flag(j, "--offload_optimizer_device cpu");
    if (c->offload_params)
        add_flag(j, "--offload_param_device cpu");
}

static void accelerate_fsdp(struct flags_job *j)
{
    const struct plan_config *c = j->c;

    add_flag(j,
             "--use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP "
             "--fsdp_reshard_after_forward %s",
             c->zero == 3 ? "true" : "false");
    if (c->offload_params)
        add_flag(j, "--fsdp_offload_params true");
    if (c->tp > 1 || c->cp > 1 || j->shard != j->replicas)
        add_flag(j,
                 "--use_parallelism_config --parallelism_config_tp_size %d "
                 "--parallelism_config_cp_size %d --parallelism_config_dp_shard_size %lld "
                 "--parallelism_config_dp_replicate_size %lld",
                 c->tp, c->cp, as_ll(plan_max(1, j->shard / c->cp)), as_ll(j->replicas / j->shard));
    if (c->recompute == PLAN_RECOMPUTE_FULL)
        add_flag(j, "--fsdp_activation_checkpointing true");
    if (c->grad_acc > 1)
        add_note(
            j,
            "in train.py: GradientAccumulationPlugin(num_steps=%d, sync_each_batch=True); without "
            "the latter each GPU keeps whole gradients between micro-batches, which are not "
            "counted",
            c->grad_acc);
}

static void print_accelerate(struct flags_job *j)
{
    const struct plan_config *c = j->c;
    bool fsdp = c->zero >= 2 && !plan_accelerate_deepspeed(c);
    int64_t nodes, each;

    launch_shape(j, &nodes, &each);
    buf_addf(j->out, "accelerate launch --num_processes %lld --num_machines %lld",
             as_ll(nodes * each), as_ll(nodes));
    if (nodes > 1)
        add_flag(j, "--machine_rank \"$RANK_OF_NODE\" --main_process_ip \"$HEAD_NODE\" "
                    "--main_process_port 29500");
    add_flag(j, "--mixed_precision %s",
             c->precision == PLAN_FP32 || c->precision == PLAN_PURE16 ? "no"
             : c->precision == PLAN_FP8                               ? "fp8"
                                                                      : half_name(j));
    if (plan_accelerate_deepspeed(c))
        accelerate_deepspeed(j);
    else if (fsdp)
        accelerate_fsdp(j);
    else if (nodes * each > 1)
        add_flag(j, "--multi_gpu");
    if (c->profile.fused)
        add_flag(j, "--dynamo_backend inductor");
    add_flag(j, "train.py");
    add_note(j, "in train.py: per-device batch %d, gradient accumulation %d, sequences of %lld",
             c->micro_batch, c->grad_acc, as_ll(c->seq));
    if (c->recompute == PLAN_RECOMPUTE_FULL && !fsdp)
        add_note(j,
                 "recompute (full) is switched on in the model: gradient_checkpointing_enable()");
    if (c->precision == PLAN_PURE16)
        add_note(j, "all of it in bf16: load the model with dtype=torch.bfloat16");
    note_tp_shown(j, "Accelerate");
    note_half(j);
    note_optimizer(j);
}

/* ---- torchrun ---- */
static void note_precision(struct flags_job *j)
{
    static const char *const says[PLAN_PRECISIONS] = {
        [PLAN_BF16] = "weights of 16 bits, their gradients summed and a master copy kept in fp32",
        [PLAN_BF16_GRADS] = "weights and gradients of 16 bits, a master copy in fp32",
        [PLAN_FSDP_MIXED] = "weights in fp32, products in 16 bits: MixedPrecisionPolicy() of "
                            "fully_shard(), or torch.autocast()",
        [PLAN_PURE16] = "all of it in bf16: model.to(torch.bfloat16)",
        [PLAN_FP8] = "products of Linear layers in fp8 (torchao's convert_to_float8_training() or "
                     "Transformer Engine), the rest in bf16 with a master copy in fp32",
        [PLAN_FP32] = "all of it in fp32; TF32, which PyTorch leaves off, is not counted",
    };

    add_note(j, "precision: %s", says[j->c->precision]);
    note_half(j);
}

static void print_plain(struct flags_job *j)
{
    const struct plan_config *c = j->c;

    print_torchrun(j, "train.py");
    add_note(j, "a plain script makes the mesh itself:");
    add_note(
        j,
        "  init_device_mesh(\"cuda\", (%d, %d, %d, %d), mesh_dim_names=(\"pp\", \"dp\", \"cp\", "
        "\"tp\"))",
        c->pp, c->dp, c->cp, c->tp);
    add_note(j, "per-device batch %d, gradient accumulation %d, sequences of %lld", c->micro_batch,
             c->grad_acc, as_ll(c->seq));
    note_precision(j);
    if (c->zero >= 2)
        add_note(j, "ZeRO %d: fully_shard(layer, reshard_after_forward=%s), shards of %lld GPUs",
                 c->zero, c->zero == 3 ? "True" : "False", as_ll(j->shard));
    else if (c->zero == 1)
        add_note(j, "ZeRO 1: ZeroRedundancyOptimizer under DistributedDataParallel, %lld GPUs",
                 as_ll(j->shard));
    else if (j->replicas > 1)
        add_note(j, "DistributedDataParallel over %lld GPUs", as_ll(j->replicas));
    if (c->offload_params)
        add_note(j,
                 "weights and optimizer are in host memory: CPUOffloadPolicy() of fully_shard()");
    else if (c->offload_optimizer)
        add_note(
            j,
            "moments and step are in host memory: CPUOffloadOptimizer of torchao, or one like it");
    if (c->pp > 1)
        add_note(j, "torch.distributed.pipelining: %s, %d stages a rank",
                 c->schedule == PLAN_GPIPE ? "ScheduleGPipe"
                 : c->vpp > 1              ? "ScheduleInterleaved1F1B"
                                           : "Schedule1F1B",
                 c->vpp);
    if (c->recompute != PLAN_RECOMPUTE_NONE)
        add_note(j, "torch.utils.checkpoint.checkpoint around %s",
                 c->recompute == PLAN_RECOMPUTE_FULL ? "every layer" : "attention alone");
    if (c->ep > 1)
        add_note(j, "experts over %d GPUs: an all-to-all of your own", c->ep);
    note_optimizer(j);
    note_compile(j, "call torch.compile(model)");
    if (hides_tp(j))
        add_note(j,
                 "torch._inductor.config._micro_pipeline_tp hides collectives of tp%d, as counted",
                 c->tp);
}

void plan_flags(const struct plan_model *m, const struct plan_cluster *cl,
                const struct plan_config *c, enum plan_framework f, struct buf *out)
{
    static void (*const print[PLAN_FRAMEWORKS])(struct flags_job *) = {
        [PLAN_MEGATRON] = print_megatron,   [PLAN_TORCHTITAN] = print_torchtitan,
        [PLAN_DEEPSPEED] = print_deepspeed, [PLAN_ACCELERATE] = print_accelerate,
        [PLAN_TORCHRUN] = print_plain,
    };
    struct flags_job j = { .m = m, .cl = cl, .c = c, .out = out };

    j.replicas = (int64_t)c->dp * c->cp;
    j.shard = c->zero && c->shard ? c->shard : j.replicas;
    j.batch = (int64_t)c->dp * c->micro_batch * c->grad_acc;
    buf_addf(out, "# %s\n", plan_framework_versions[f]);
    print[f](&j);
    buf_addc(out, '\n');
    buf_add(out, buf_str(&j.notes), j.notes.len);
    buf_release(&j.notes);
}
