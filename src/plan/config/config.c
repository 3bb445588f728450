/* SPDX-License-Identifier: MIT */
/* config: how a job is cut, and which cuts can be.
 *
 * Every rule has a name.  plan_config_rule() answers with only the rule, for searches that try
 * millions; plan_config_check() says the same in words and gives the nearest value that the rule
 * lets through. */
#include "plan/plan_int.h"

#include "base/str.h"

const char *const plan_recompute_names[] = { "none", "selective", "full", NULL };
const char *const plan_schedule_names[] = { "1f1b", "interleaved", "gpipe", NULL };
const char *const plan_precision_names[] = { "bf16", "bf16-grads", "fsdp", "pure",
                                             "fp8",  "fp32",       NULL };
const char *const plan_optimizer_names[] = { "adam", "adam8", "sgd", "adam16", NULL };
const char *const plan_op_names[PLAN_OPS] = { "norm", "act", "mla-up", "experts",
                                              "shared-experts" };
const char *const plan_stack_names[] = { "megatron", "fsdp", "nanotron", "torch", NULL };
const char *const plan_split_names[] = { "even", "ends-less", "embedding-layer", "cost", NULL };
const char *const plan_rule_names[PLAN_RULES] = {
    [PLAN_RULE_OK] = "ok",
    [PLAN_RULE_RANGE] = "range",
    [PLAN_RULE_GPUS] = "gpus",
    [PLAN_RULE_TP_HEADS] = "tp-heads",
    [PLAN_RULE_TP_KV_HEADS] = "tp-kv-heads",
    [PLAN_RULE_TP_FFN] = "tp-ffn",
    [PLAN_RULE_TP_NODE] = "tp-node",
    [PLAN_RULE_SP_NEEDS_TP] = "sp-needs-tp",
    [PLAN_RULE_SP_SEQ] = "sp-seq",
    [PLAN_RULE_PP_LAYERS] = "pp-layers",
    [PLAN_RULE_PP_EVEN] = "pp-even",
    [PLAN_RULE_VPP_NEEDS_PP] = "vpp-needs-pp",
    [PLAN_RULE_VPP_LAYERS] = "vpp-layers",
    [PLAN_RULE_VPP_BATCH] = "vpp-batch",
    [PLAN_RULE_CP_SEQ] = "cp-seq",
    [PLAN_RULE_EP_EXPERTS] = "ep-experts",
    [PLAN_RULE_EP_GROUP] = "ep-group",
    [PLAN_RULE_ETP_FFN] = "etp-ffn",
    [PLAN_RULE_SHARD_GROUP] = "shard-group",
    [PLAN_RULE_ZERO_OFFLOAD] = "zero-offload",
    [PLAN_RULE_RECOMPUTE_EVERY] = "recompute-every",
    [PLAN_RULE_FP8] = "fp8",
    [PLAN_RULE_BF16] = "bf16",
    [PLAN_RULE_FRAMEWORK] = "framework",
    [PLAN_RULE_BATCH] = "batch",
};

enum plan_stack plan_stack_usual(int64_t gpus)
{
    return gpus > 1 ? PLAN_STACK_MEGATRON : PLAN_STACK_TORCH;
}

int plan_name_place(const char *const *names, const char *s, int dflt)
{
    for (int i = 0; s && names[i]; i++)
        if (str_eq(names[i], s))
            return i;
    return dflt;
}

enum plan_precision plan_precision_of(const char *name)
{
    return str_eq(name, "autocast")
               ? PLAN_FSDP_MIXED
               : (enum plan_precision)plan_name_place(plan_precision_names, name, PLAN_BF16);
}

void plan_config_init(struct plan_config *c)
{
    *c = (struct plan_config){ .tp = 1,
                               .pp = 1,
                               .vpp = 1,
                               .cp = 1,
                               .ep = 1,
                               .dp = 1,
                               .micro_batch = 1,
                               .grad_acc = 1,
                               .seq = 4096,
                               .recompute_every = 1,
                               .profile = { .fused = true, .flash = true, .dp_overlap = true } };
}

int64_t plan_nearest_divisor(int64_t n, int64_t v, int64_t max)
{
    int64_t best = 1;

    if (n < 1)
        return 1;
    for (int64_t d = 1; d <= n / d; d++) {
        const int64_t pair[] = { d, n / d };

        if (n % d)
            continue;
        for (size_t i = 0; i < ARRAY_SIZE(pair); i++)
            if (pair[i] <= max && (llabs(pair[i] - v) < llabs(best - v) ||
                                   (llabs(pair[i] - v) == llabs(best - v) && pair[i] < best)))
                best = pair[i]; /* of two as near the smaller */
    }
    return best;
}

/* ---- stages ---- */

/* Layers of stage i when `items` are spread evenly over the stages, the first ones taking what is
 * left over. */
static int64_t even_first(int64_t items, int64_t pp, int64_t i)
{
    return i * (items / pp) + plan_min(i, items % pp);
}

/* Places in front of stage i when the embedding and the head weigh as `front` and `back` layers:
 * the whole is cut into equal weights, and a layer goes where its middle falls. */
static int64_t weighed_first(int64_t layers, double front, double back, int64_t pp, int64_t i)
{
    double share = ((double)layers + front + back) / (double)pp;
    int64_t first = (int64_t)((double)i * share - front + 0.5);

    if (i == 0)
        return 0;
    if (i == pp)
        return layers;
    return plan_min(plan_max(first, i), layers - (pp - i)); /* a layer for every stage */
}

/* The head's work in layers: its multiply-adds over a layer's. */
static double head_weight(const struct plan_model *m)
{
    double h = (double)m->hidden, mlp = (m->gated ? 3.0 : 2.0) * h;
    double attn = m->kv_lora ? 4 * h : 2 * (double)((m->heads + m->kv_heads) * m->head_dim);
    double layer = attn * h + mlp * (double)(m->experts ? m->top_k * m->expert_ffn : m->ffn);

    return m->head ? h * (double)m->vocab / layer : 0;
}

/* Places in front of stage i when the last stage, which has the head, takes as many layers as make
 * the slowest stage fastest, and the others share the rest (what nanotron's times and memory
 * show). */
static int64_t cost_first(int64_t layers, double head, int64_t pp, int64_t i)
{
    int64_t last = 0;
    double best = (double)layers + head + 1;

    if (i == 0 || i == pp)
        return i ? layers : 0;
    for (int64_t n = 0; n <= layers; n++) {
        double others = (double)plan_ceil_div(layers - n, pp - 1), mine = head + (double)n;
        double cost = others > mine ? others : mine;

        if (cost < best) {
            best = cost;
            last = n;
        }
    }
    return even_first(layers - last, pp - 1, i);
}

static int64_t stage_first(const struct plan_model *m, const struct plan_config *c, int64_t i)
{
    int64_t pp = c->pp, layers = m->layers;

    switch (c->profile.split) {
    case PLAN_SPLIT_COST:
        return cost_first(layers, head_weight(m), pp, i);
    case PLAN_SPLIT_EMBED_LAYER:
        return weighed_first(layers, 1, 1, pp, i);
    case PLAN_SPLIT_ENDS_LESS:
        if (layers % pp)
            return weighed_first(layers, 1, 1, pp, i);
        break;
    case PLAN_SPLIT_EVEN:
        break;
    }
    return even_first(layers, pp, i);
}

void plan_stage_of(const struct plan_model *m, const struct plan_config *c, int32_t stage,
                   struct plan_stage *out)
{
    int64_t first = stage_first(m, c, stage), end = stage_first(m, c, stage + 1), moe = 0;

    if (m->experts && m->moe_every == 1 && m->moe_first == 0)
        moe = end - first;
    else if (m->experts)
        for (int64_t l = first; l < end; l++)
            moe += plan_layer_is_moe(m, l);
    *out = (struct plan_stage){ .first = first,
                                .count = end - first,
                                .moe = moe,
                                .embed = stage == 0,
                                .head = stage == c->pp - 1 };
}

int64_t plan_stage_in_flight(const struct plan_config *c, int32_t stage)
{
    int64_t pp = c->pp, m = c->grad_acc, vpp = c->vpp, behind = pp - stage - 1;

    if (c->schedule == PLAN_GPIPE)
        return m * vpp;
    if (vpp == 1)
        return plan_min(m, behind + 1);
    /* warm-up of the interleaved schedule: two for each stage behind, and all chunks but one */
    return plan_min(m * vpp, 2 * behind + (vpp - 1) * pp + 1);
}

/* ---- rules ---- */
static bool ranges_hold(const struct plan_config *c)
{
    const int64_t degrees[] = { c->tp, c->pp, c->vpp, c->cp, c->ep, c->dp };

    for (size_t i = 0; i < ARRAY_SIZE(degrees); i++)
        if (degrees[i] < 1 || degrees[i] > PLAN_GPUS_MAX)
            return false;
    return c->etp >= 0 && c->etp <= PLAN_GPUS_MAX && c->pp <= PLAN_STAGES_MAX &&
           c->vpp <= PLAN_LAYERS_MAX && c->micro_batch >= 1 && c->micro_batch <= PLAN_BATCH_MAX &&
           c->grad_acc >= 1 && c->grad_acc <= PLAN_BATCH_MAX && c->seq >= 1 &&
           c->seq <= PLAN_SEQ_MAX && c->micro_batch <= PLAN_TOKENS_MAX / c->seq && c->zero >= 0 &&
           c->zero <= 3 && c->shard >= 0 && c->lora_rank >= 0 && c->lora_rank <= PLAN_HIDDEN_MAX &&
           c->recompute_every >= 1 && (int64_t)c->tp * c->pp <= PLAN_GPUS_MAX &&
           (int64_t)c->cp * c->dp <= PLAN_GPUS_MAX &&
           (int64_t)c->tp * c->pp * c->cp * c->dp <= PLAN_GPUS_MAX;
}

static enum plan_rule tp_rule(const struct plan_model *m, const struct plan_cluster *cl,
                              const struct plan_config *c)
{
    if (c->seq_par && c->tp == 1)
        return PLAN_RULE_SP_NEEDS_TP;
    if (c->tp > 1) {
        if (m->heads % c->tp)
            return PLAN_RULE_TP_HEADS;
        if (!m->kv_lora && m->kv_heads % c->tp)
            return PLAN_RULE_TP_KV_HEADS;
        if (m->ffn % c->tp || m->shared_ffn % c->tp)
            return PLAN_RULE_TP_FFN;
        if (cl && cl->gpus > cl->node_gpus && c->tp > cl->node_gpus && c->tp % cl->node_gpus)
            return PLAN_RULE_TP_NODE;
    }
    if (c->cp > 1 && c->seq % (2 * (int64_t)c->cp))
        return PLAN_RULE_CP_SEQ;
    if (c->seq_par && c->seq % ((int64_t)c->cp * c->tp))
        return PLAN_RULE_SP_SEQ;
    return PLAN_RULE_OK;
}

static enum plan_rule pp_rule(const struct plan_model *m, const struct plan_config *c)
{
    if (c->pp > 1 && c->pp >= m->layers)
        return PLAN_RULE_PP_LAYERS;
    if (c->pp == 1)
        return c->vpp > 1 ? PLAN_RULE_VPP_NEEDS_PP : PLAN_RULE_OK;
    if (c->vpp > 1) {
        int64_t chunks = (int64_t)c->pp * c->vpp;

        /* a layout that is not even may leave the first and the last chunk to embedding and head */
        if (c->profile.split == PLAN_SPLIT_EVEN ? m->layers % chunks : m->layers + 2 < chunks)
            return PLAN_RULE_VPP_LAYERS;
        return c->grad_acc % c->pp ? PLAN_RULE_VPP_BATCH : PLAN_RULE_OK;
    }
    if (c->profile.split == PLAN_SPLIT_EVEN && m->layers % c->pp)
        return PLAN_RULE_PP_EVEN;
    return PLAN_RULE_OK;
}

static enum plan_rule ep_rule(const struct plan_model *m, const struct plan_config *c)
{
    int64_t etp = plan_etp(c), group = (int64_t)c->tp * c->cp * c->dp;

    if (!m->experts)
        return c->ep > 1 ? PLAN_RULE_EP_EXPERTS : PLAN_RULE_OK;
    if (m->experts % c->ep)
        return PLAN_RULE_EP_EXPERTS;
    if (group % (c->ep * etp))
        return PLAN_RULE_EP_GROUP;
    return m->expert_ffn % etp ? PLAN_RULE_ETP_FFN : PLAN_RULE_OK;
}

/* fp16 stands in for bf16 where there is a master copy: without one its small numbers are lost. */
static enum plan_rule precision_rule(const struct plan_gpu *gpu, enum plan_precision p)
{
    if (p == PLAN_FP8 && !(gpu->fp8_flops > 0))
        return PLAN_RULE_FP8;
    return p == PLAN_PURE16 && gpu->no_bf16 ? PLAN_RULE_BF16 : PLAN_RULE_OK;
}

enum plan_rule plan_config_rule(const struct plan_model *m, const struct plan_cluster *cl,
                                const struct plan_config *c)
{
    enum plan_rule rule;

    if (!ranges_hold(c))
        return PLAN_RULE_RANGE;
    if (cl && (int64_t)c->tp * c->pp * c->cp * c->dp != cl->gpus)
        return PLAN_RULE_GPUS;
    rule = tp_rule(m, cl, c);
    if (rule == PLAN_RULE_OK)
        rule = pp_rule(m, c);
    if (rule == PLAN_RULE_OK)
        rule = ep_rule(m, c);
    if (rule != PLAN_RULE_OK)
        return rule;
    if (c->shard && ((int64_t)c->dp * c->cp) % c->shard)
        return PLAN_RULE_SHARD_GROUP;
    if (c->offload_params && c->zero < 3)
        return PLAN_RULE_ZERO_OFFLOAD;
    if (c->recompute_every > 1 &&
        (c->recompute != PLAN_RECOMPUTE_FULL || c->recompute_every > m->layers))
        return PLAN_RULE_RECOMPUTE_EVERY;
    return cl ? precision_rule(&cl->gpu, c->precision) : PLAN_RULE_OK;
}

/* ---- the same in words ---- */
#define LL(v) ((long long)(v))

static enum rc say_range(const struct plan_config *c, struct err *err)
{
    const struct {
        const char *what;
        int64_t v, min, max;
    } rows[] = {
        { "tensor-parallel size", c->tp, 1, PLAN_GPUS_MAX },
        { "pipeline size", c->pp, 1, PLAN_STAGES_MAX },
        { "number of virtual stages", c->vpp, 1, PLAN_LAYERS_MAX },
        { "context-parallel size", c->cp, 1, PLAN_GPUS_MAX },
        { "expert-parallel size", c->ep, 1, PLAN_GPUS_MAX },
        { "data-parallel size", c->dp, 1, PLAN_GPUS_MAX },
        { "micro-batch", c->micro_batch, 1, PLAN_BATCH_MAX },
        { "gradient accumulation", c->grad_acc, 1, PLAN_BATCH_MAX },
        { "sequence length", c->seq, 1, PLAN_SEQ_MAX },
        { "ZeRO stage", c->zero, 0, 3 },
        { "LoRA rank", c->lora_rank, 0, PLAN_HIDDEN_MAX },
        { "distance of recomputed layers", c->recompute_every, 1, PLAN_LAYERS_MAX },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].v < rows[i].min || rows[i].v > rows[i].max) {
            err_hint(err, "The nearest valid value is %lld.",
                     LL(rows[i].v < rows[i].min ? rows[i].min : rows[i].max));
            return err_set(err, RC_USAGE, "%s %lld cannot be", rows[i].what, LL(rows[i].v));
        }
    if (c->micro_batch > PLAN_TOKENS_MAX / c->seq) {
        err_hint(err, "The nearest valid value is %lld.", LL(PLAN_TOKENS_MAX / c->seq));
        return err_set(err, RC_USAGE, "micro-batch %d cannot be with sequences of %lld tokens",
                       c->micro_batch, LL(c->seq));
    }
    err_hint(err, "The nearest valid value is %d GPUs.", PLAN_GPUS_MAX);
    return err_set(err, RC_USAGE, "the parallel sizes multiply to more GPUs than there are");
}

static enum rc say_divides(struct err *err, const char *what, int64_t v, const char *of, int64_t n,
                           int64_t max)
{
    err_hint(err, "The nearest valid value is %lld.", LL(plan_nearest_divisor(n, v, max)));
    return err_set(err, RC_USAGE, "%s %lld does not divide %s %lld", what, LL(v), of, LL(n));
}

static enum rc say_multiple(struct err *err, const char *what, int64_t v, const char *of,
                            int64_t unit)
{
    int64_t near = plan_max(1, (v + unit / 2) / unit) * unit;

    err_hint(err, "The nearest valid value is %lld.", LL(near));
    return err_set(err, RC_USAGE, "%s %lld is not a multiple of %s %lld", what, LL(v), of,
                   LL(unit));
}

/* The size nearest to *size, a member of `c`, that divides `n` and that the rules of tensor and
 * pipeline sizes let through. */
static int64_t nearest_size(const struct plan_model *m, const struct plan_cluster *cl,
                            struct plan_config *c, int32_t *size, int64_t n)
{
    int64_t was = *size, best = 1;

    for (int64_t d = 1; d <= n; d++) {
        *size = (int32_t)d;
        if (n % d == 0 && llabs(d - was) < llabs(best - was) && tp_rule(m, cl, c) == PLAN_RULE_OK &&
            pp_rule(m, c) == PLAN_RULE_OK)
            best = d;
    }
    return best;
}

/* Which size to change so that the GPUs are divided, and which number of GPUs would do. */
static void hint_size(const struct plan_model *m, const struct plan_cluster *cl,
                      const struct plan_config *c, struct err *err)
{
    struct plan_config x = *c;
    const struct {
        const char *what;
        int32_t *size;
    } rows[] = { { "tensor-parallel size", &x.tp },
                 { "pipeline size", &x.pp },
                 { "context-parallel size", &x.cp } };
    int64_t cut = (int64_t)c->tp * c->pp * c->cp;
    int64_t near = plan_max(1, (cl->gpus + cut / 2) / cut) * cut;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int64_t was = *rows[i].size, others = cut / was;

        if (was == 1 || cl->gpus % others)
            continue;
        err_hint(err, "On %lld GPUs the nearest %s is %lld; %lld takes %lld GPUs.", LL(cl->gpus),
                 rows[i].what, LL(nearest_size(m, cl, &x, rows[i].size, cl->gpus / others)),
                 LL(was), LL(near));
        return;
    }
    err_hint(err, "The nearest number of GPUs that works is %lld.", LL(near));
}

static enum rc say_gpus(const struct plan_model *m, const struct plan_cluster *cl,
                        const struct plan_config *c, struct err *err)
{
    int64_t cut = (int64_t)c->tp * c->pp * c->cp;

    if (cl->gpus % cut && c->dp != plan_max(1, cl->gpus / cut)) /* replicas are given as well */
        err_hint(err, "These sizes take %lld GPUs.", LL(cut * c->dp));
    else if (cl->gpus % cut)
        hint_size(m, cl, c, err);
    else
        err_hint(err, "With a data-parallel size of %lld it is.", LL(cl->gpus / cut));
    return err_set(err, RC_USAGE, "tensor %d x pipeline %d x context %d x data %d is not %lld GPUs",
                   c->tp, c->pp, c->cp, c->dp, LL(cl->gpus));
}

/* The size nearest to what was given that cuts the sequence and divides the GPUs; 1 always does. */
static int64_t nearest_cp(const struct plan_cluster *cl, const struct plan_config *c)
{
    int64_t others = (int64_t)c->tp * c->pp, best = 1;

    for (int64_t cp = 2; cp <= 2 * (int64_t)c->cp && cp <= c->seq; cp++)
        if (c->seq % (2 * cp) == 0 && cl->gpus % (others * cp) == 0 &&
            llabs(cp - c->cp) < llabs(best - c->cp))
            best = cp;
    return best;
}

static enum rc say_cp_seq(const struct plan_cluster *cl, const struct plan_config *c,
                          struct err *err)
{
    int64_t unit = 2 * (int64_t)c->cp, near = plan_max(1, (c->seq + unit / 2) / unit) * unit;

    if (!cl)
        return say_multiple(err, "sequence length", c->seq, "twice the context-parallel size,",
                            unit);
    err_hint(err, "The nearest context-parallel size is %lld; %d takes sequences of %lld tokens.",
             LL(nearest_cp(cl, c)), c->cp, LL(near));
    return err_set(err, RC_USAGE,
                   "sequence length %lld is not a multiple of twice the context-parallel size %d",
                   LL(c->seq), c->cp);
}

static enum rc say_kv_heads(const struct plan_model *m, const struct plan_config *c,
                            struct err *err)
{
    if (c->tp % m->kv_heads)
        return say_divides(err, "tensor-parallel size", c->tp, "the number of key-value heads",
                           m->kv_heads, c->tp);
    err_hint(err,
             "The nearest valid value is %lld. Megatron-LM can give one key-value head to several "
             "GPUs, gathering q, k and v in every layer; that is not counted.",
             LL(m->kv_heads));
    return err_set(err, RC_USAGE,
                   "tensor-parallel size %d does not divide the number of key-value heads %lld",
                   c->tp, LL(m->kv_heads));
}

static enum rc say_tp(const struct plan_model *m, const struct plan_cluster *cl,
                      const struct plan_config *c, enum plan_rule rule, struct err *err)
{
    const char *const tp = "tensor-parallel size";

    switch (rule) {
    case PLAN_RULE_TP_HEADS:
        return say_divides(err, tp, c->tp, "the number of heads", m->heads, m->heads);
    case PLAN_RULE_TP_KV_HEADS:
        return say_kv_heads(m, c, err);
    case PLAN_RULE_TP_FFN:
        if (m->ffn % c->tp)
            return say_divides(err, tp, c->tp, "the MLP width", m->ffn, c->tp);
        return say_divides(err, tp, c->tp, "the shared experts' width", m->shared_ffn, c->tp);
    case PLAN_RULE_TP_NODE:
        return say_multiple(err, tp, c->tp, "the GPUs of a node,", cl->node_gpus);
    case PLAN_RULE_SP_NEEDS_TP:
        err_hint(err, "The nearest valid value is a tensor-parallel size of 2.");
        return err_set(err, RC_USAGE, "sequence parallelism needs tensor parallelism");
    case PLAN_RULE_CP_SEQ:
        return say_cp_seq(cl, c, err);
    default:
        return say_multiple(err, "sequence length", c->seq, "tensor- times context-parallel size,",
                            (int64_t)c->cp * c->tp);
    }
}

static enum rc say_accumulation(const struct plan_config *c, struct err *err)
{
    int64_t near = plan_max(1, (c->grad_acc + c->pp / 2) / c->pp) * c->pp;

    err_hint(err, "The nearest valid value is %lld: a batch of %lld.", LL(near),
             LL(near * c->dp * c->micro_batch));
    return err_set(err, RC_USAGE,
                   "gradient accumulation %d is not a multiple of the pipeline size (the "
                   "interleaved schedule needs it), %d",
                   c->grad_acc, c->pp);
}

static enum rc say_pp(const struct plan_model *m, const struct plan_config *c, enum plan_rule rule,
                      struct err *err)
{
    switch (rule) {
    case PLAN_RULE_PP_LAYERS:
        err_hint(err, "The nearest valid value is %lld.",
                 LL(plan_nearest_divisor(m->layers, c->pp, plan_max(1, m->layers - 1))));
        return err_set(err, RC_USAGE, "%d pipeline stages are too many for %lld layers", c->pp,
                       LL(m->layers));
    case PLAN_RULE_PP_EVEN:
        return say_divides(err, "pipeline size", c->pp, "the number of layers", m->layers,
                           m->layers);
    case PLAN_RULE_VPP_NEEDS_PP:
        err_hint(err, "The nearest valid value is 1.");
        return err_set(err, RC_USAGE, "%d virtual stages need a pipeline", c->vpp);
    case PLAN_RULE_VPP_LAYERS:
        if (c->profile.split != PLAN_SPLIT_EVEN) {
            err_hint(err, "The nearest valid value is %lld.", LL((m->layers + 2) / c->pp));
            return err_set(err, RC_USAGE, "%d virtual stages on each are too many for %lld layers",
                           c->vpp, LL(m->layers));
        }
        if (m->layers % c->pp)
            return say_divides(err, "pipeline size", c->pp, "the number of layers", m->layers,
                               m->layers);
        return say_divides(err, "number of virtual stages", c->vpp, "the layers of a stage,",
                           m->layers / c->pp, m->layers);
    default:
        return say_accumulation(c, err);
    }
}

/* The size nearest to `given` that divides both. */
static int64_t nearest_common(int64_t given, int64_t a, int64_t b)
{
    int64_t best = 1;

    for (int64_t d = 2; d <= plan_min(a, b); d++)
        if (a % d == 0 && b % d == 0 && llabs(d - given) < llabs(best - given))
            best = d;
    return best;
}

/* One of both sizes of experts where that is enough, else both. */
static void hint_experts(const struct plan_model *m, const struct plan_config *c, int64_t group,
                         struct err *err)
{
    int64_t etp = plan_etp(c);

    if (group % etp == 0)
        err_hint(err, "The nearest expert-parallel size is %lld.",
                 LL(nearest_common(c->ep, m->experts, group / etp)));
    else if (group % c->ep == 0)
        err_hint(err, "The nearest tensor-parallel size of experts is %lld.",
                 LL(nearest_common(etp, m->expert_ffn, group / c->ep)));
    else
        err_hint(err, "The nearest expert-parallel size is %lld, with whole experts (1).",
                 LL(nearest_common(c->ep, m->experts, group)));
}

static enum rc say_ep(const struct plan_model *m, const struct plan_config *c, enum plan_rule rule,
                      struct err *err)
{
    int64_t etp = plan_etp(c), group = (int64_t)c->tp * c->cp * c->dp;

    if (rule == PLAN_RULE_EP_EXPERTS && !m->experts) {
        err_hint(err, "The nearest valid value is 1.");
        return err_set(err, RC_USAGE, "expert-parallel size %d for a model without experts", c->ep);
    }
    if (rule == PLAN_RULE_EP_EXPERTS)
        return say_divides(err, "expert-parallel size", c->ep, "the number of experts", m->experts,
                           m->experts);
    if (rule == PLAN_RULE_EP_GROUP) {
        hint_experts(m, c, group, err);
        return err_set(err, RC_USAGE,
                       "expert- times expert-tensor-parallel size %lld does not divide tensor x "
                       "context x data %lld",
                       LL(c->ep * etp), LL(group));
    }
    return say_divides(err, "expert-tensor-parallel size", etp, "an expert's width", m->expert_ffn,
                       m->expert_ffn);
}

/* A GPU computes in this precision, or RC_USAGE with what is nearest. */
static enum rc precision_check(const struct plan_gpu *gpu, enum plan_precision p, struct err *err)
{
    enum plan_rule rule = precision_rule(gpu, p);

    if (rule == PLAN_RULE_OK)
        return RC_OK;
    if (gpu->no_bf16)
        err_hint(err, "The nearest valid value is bf16, which on this GPU is fp16 with a scaled "
                      "loss.");
    else
        err_hint(err, "The nearest valid value is bf16.");
    return err_set(err, RC_USAGE, "%s has no %s", gpu->name, plan_rule_names[rule]);
}

enum rc plan_precision_rule_check(const struct plan_gpu *gpu, enum plan_precision p,
                                  struct err *err)
{
    if (precision_check(gpu, p, err))
        return err_ctx(err, "rule %s", plan_rule_names[precision_rule(gpu, p)]);
    return RC_OK;
}

static enum rc say_other(const struct plan_model *m, const struct plan_cluster *cl,
                         const struct plan_config *c, enum plan_rule rule, struct err *err)
{
    switch (rule) {
    case PLAN_RULE_SHARD_GROUP:
        return say_divides(err, "shard size", c->shard, "data x context", (int64_t)c->dp * c->cp,
                           (int64_t)c->dp * c->cp);
    case PLAN_RULE_ZERO_OFFLOAD:
        err_hint(err, "The nearest valid value is ZeRO stage 3.");
        return err_set(err, RC_USAGE, "weights can be offloaded only with ZeRO stage 3");
    case PLAN_RULE_RECOMPUTE_EVERY:
        err_hint(err, "The nearest valid value is %lld.",
                 LL(c->recompute == PLAN_RECOMPUTE_FULL ? m->layers : 1));
        return err_set(err, RC_USAGE, "%d layers between kept inputs cannot be (%s recompute)",
                       c->recompute_every, plan_recompute_names[c->recompute]);
    default:
        return precision_check(&cl->gpu, c->precision, err);
    }
}

enum rc plan_config_check(const struct plan_model *m, const struct plan_cluster *cl,
                          const struct plan_config *c, struct err *err)
{
    enum plan_rule rule = plan_config_rule(m, cl, c), other = PLAN_RULE_OK;
    enum rc rc = RC_OK;

    if (rule == PLAN_RULE_OK)
        return RC_OK;
    /* a size that no number of GPUs makes valid is named before the product of the sizes */
    if (rule == PLAN_RULE_GPUS && (other = tp_rule(m, cl, c)) == PLAN_RULE_OK)
        other = pp_rule(m, c);
    if (other != PLAN_RULE_OK && other != PLAN_RULE_VPP_BATCH)
        rule = other;
    if (rule == PLAN_RULE_RANGE)
        rc = say_range(c, err);
    else if (rule == PLAN_RULE_GPUS)
        rc = say_gpus(m, cl, c, err);
    else if (rule <= PLAN_RULE_SP_SEQ || rule == PLAN_RULE_CP_SEQ)
        rc = say_tp(m, cl, c, rule, err);
    else if (rule <= PLAN_RULE_VPP_BATCH)
        rc = say_pp(m, c, rule, err);
    else if (rule <= PLAN_RULE_ETP_FFN)
        rc = say_ep(m, c, rule, err);
    else
        rc = say_other(m, cl, c, rule, err);
    err_ctx(err, "rule %s", plan_rule_names[rule]);
    return rc;
}

void plan_config_text(const struct plan_config *c, struct buf *out)
{
    const struct {
        const char *name;
        int32_t v, usual;
    } rows[] = { { "tp", c->tp, 1 },           { "pp", c->pp, 1 },      { "vpp", c->vpp, 1 },
                 { "cp", c->cp, 1 },           { "ep", c->ep, 1 },      { "etp", c->etp, 0 },
                 { "dp", c->dp, 1 },           { "zero", c->zero, 0 },  { "shard", c->shard, 0 },
                 { "mbs", c->micro_batch, 0 }, { "ga", c->grad_acc, 0 } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].v != rows[i].usual)
            buf_addf(out, "%s%s%d", out->len ? " " : "", rows[i].name, rows[i].v);
    if (c->seq_par)
        buf_adds(out, " sp");
    if (c->recompute != PLAN_RECOMPUTE_NONE)
        buf_addf(out, " %s recompute", plan_recompute_names[c->recompute]);
    if (c->recompute_every > 1)
        buf_addf(out, " every %d layers", c->recompute_every);
    for (int i = 0; i < PLAN_OPS; i++)
        if (c->recompute_ops >> i & 1)
            buf_addf(out, " %s", plan_op_names[i]);
    if (c->recompute_ops && c->recompute == PLAN_RECOMPUTE_NONE)
        buf_adds(out, " recompute");
    if (c->schedule == PLAN_GPIPE)
        buf_adds(out, " gpipe");
    if (c->offload_optimizer || c->offload_params)
        buf_addf(out, " offload-%s", c->offload_params ? "all" : "optimizer");
    buf_addf(out, " %s", plan_precision_names[c->precision]);
}
