/* SPDX-License-Identifier: MIT */
/* step_memory: bytes of a training job, by GPU, pipeline stage and kind.
 *
 * Static bytes (weights, gradients, optimizer) are counts times bytes a parameter, cut by tensor,
 * expert and pipeline parallelism and then by ZeRO.  Activations are what backward needs again,
 * operation by operation (Korthikanti et al. 2022, generalised to grouped heads, gated MLPs,
 * experts and latent attention): plan_act_parts() is the whole list, and the table a user sees is
 * the same list.  What is not a tensor is in plan_memory_consts, and nowhere else. */
#include "plan/memory/step_memory_int.h"
#include "plan/plan_int.h"

#include <stddef.h>

const char *const plan_kind_names[PLAN_KINDS] = {
    [PLAN_MEM_WEIGHTS] = "weights",     [PLAN_MEM_GRADS] = "gradients",
    [PLAN_MEM_OPTIMIZER] = "optimizer", [PLAN_MEM_ACTIVATIONS] = "activations",
    [PLAN_MEM_LOGITS] = "logits",       [PLAN_MEM_COMM] = "communication",
    [PLAN_MEM_CONTEXT] = "context",     [PLAN_MEM_FRAGMENTS] = "fragmentation",
};

/* The rows of data/plan.csv whose kind is "memory", where their sources are; a test holds the two
 * together. */
const struct plan_memory_consts plan_memory_default = {
    .fragment_share = 0.01,
    .logit_fragment = 0.8,
    .logit_fragment_low = 0.15,
    .context_bytes = 7.51619e8, /* the digits that the table has */
    .comm_group_bytes = 3.22123e8,
    .fixed_bytes = 1.07374e8,
    .logit_bytes_fused = 6,
    .logit_bytes_eager = 8,
    .logit_bytes_copies = 10,
    .logit_bytes_torch = 16.5,
    .logit_fragment_again = 0.35,
    .cast_copy_bytes = 18,
    .cast_copy_fused = 4,
    .bucket_bytes = 1.07374e8,
    .grad_copy_bytes = 2,
    .table_copy_bytes = 2,
    .norm_copy_bytes = 8,
    .ahead_work = 3e10,
    .error_share = 0.13,
};

#define CONST(field)                                                                               \
    {                                                                                              \
#field, offsetof(struct plan_memory_consts, field)                                         \
    }
const struct plan_memory_const plan_memory_const_table[] = {
    CONST(fragment_share),    CONST(logit_fragment),       CONST(logit_fragment_low),
    CONST(context_bytes),     CONST(comm_group_bytes),     CONST(fixed_bytes),
    CONST(logit_bytes_fused), CONST(logit_bytes_eager),    CONST(logit_bytes_copies),
    CONST(bucket_bytes),      CONST(grad_copy_bytes),      CONST(table_copy_bytes),
    CONST(norm_copy_bytes),   CONST(ahead_work),           CONST(error_share),
    CONST(logit_bytes_torch), CONST(logit_fragment_again), CONST(cast_copy_bytes),
    CONST(cast_copy_fused),
};
static_assert(ARRAY_SIZE(plan_memory_const_table) * sizeof(double) ==
                  sizeof(struct plan_memory_consts),
              "a name for every constant");
const size_t plan_memory_const_count = ARRAY_SIZE(plan_memory_const_table);

static const struct {
    double weight, grad, master, moments;
    double gathered; /* of a weight that ZeRO 3 has brought together */
} mixes[PLAN_PRECISIONS] = {
    [PLAN_BF16] = { 2, 4, 4, 8, 2 },       [PLAN_BF16_GRADS] = { 2, 2, 4, 8, 2 },
    [PLAN_FSDP_MIXED] = { 4, 4, 0, 8, 2 }, [PLAN_PURE16] = { 2, 2, 0, 4, 2 },
    [PLAN_FP8] = { 2, 2, 4, 8, 1 },        [PLAN_FP32] = { 4, 4, 0, 8, 4 },
};

/* Of a parameter.  adam16 and adam8 say themselves what their two moments are; those of the others
 * are as the mix has them, and momentum is one. */
static double moment_bytes(const struct plan_config *c)
{
    switch (c->optimizer) {
    case PLAN_ADAM16:
        return 4;
    case PLAN_ADAM8:
        return 2;
    case PLAN_SGD:
        return mixes[c->precision].moments / 2;
    default:
        return mixes[c->precision].moments;
    }
}

static uint64_t bytes_of(double v)
{
    return v < (double)PLAN_BYTES_MAX ? (uint64_t)(v + 0.5) : PLAN_BYTES_MAX;
}

/* ---- activations ---- */
struct cut { /* what a token's bytes are divided by on this GPU */
    double tp;
    double sp; /* tp with sequence parallelism, else 1 */
};

static struct cut cut_of(const struct plan_config *c)
{
    return (struct cut){ .tp = c->tp, .sp = c->seq_par ? c->tp : 1 };
}

static void part_add(struct plan_act_part *out, size_t *n, const char *what, double bytes)
{
    assert(*n < PLAN_ACT_PARTS_MAX);
    if (bytes > 0)
        out[(*n)++] = (struct plan_act_part){ .what = what, .bytes = bytes };
}

/* A plain script computes in 16 bits from fp32 weights: autocast keeps a copy of each weight until
 * backward has used it, and of each product's input.  Where ZeRO 2 and 3 gather, that copy is what
 * is gathered. */
static bool gathers_copies(const struct plan_config *c)
{
    return c->zero >= 2 && (int64_t)c->dp * c->cp > 1;
}

static bool weights_cast(const struct plan_config *c)
{
    return c->precision == PLAN_FSDP_MIXED && c->profile.stack == PLAN_STACK_TORCH &&
           !gathers_copies(c);
}

/* Replicas of a trainer that keeps fp32 weights run under autocast too; with full recompute a
 * layer's copies go before the next is computed. */
static bool casts_replicas(const struct plan_config *c)
{
    return c->precision == PLAN_FSDP_MIXED && c->profile.stack == PLAN_STACK_FSDP &&
           !gathers_copies(c) && c->recompute != PLAN_RECOMPUTE_FULL;
}

/* What a transformers layer keeps beyond the list: RMSNorm's fp32 input and normed output, and
 * under autocast the fp32 residual and a 16-bit input for each product.  torch.compile() computes
 * the norms again, and gives every query head its keys and values. */
static double torch_copies(const struct plan_config *c, const struct plan_memory_consts *k)
{
    if (c->profile.fused)
        return weights_cast(c) ? k->cast_copy_fused : 0;
    return weights_cast(c) ? k->cast_copy_bytes : k->norm_copy_bytes;
}

/* Bytes of an element that a product keeps for the gradient of its weight: TransformerEngine keeps
 * the fp8 copy that it multiplied. */
static double input_bytes(const struct plan_config *c)
{
    return c->precision == PLAN_FP8 ? 1 : 2;
}

static bool op_again(const struct plan_config *c, enum plan_op op)
{
    return c->recompute_ops & op;
}

static void attention_parts(const struct plan_model *m, const struct plan_config *c,
                            struct plan_act_part *out, size_t *n)
{
    struct cut d = cut_of(c);
    double h = (double)m->hidden, a = (double)m->heads, s = (double)c->seq;
    double q = a * (double)m->head_dim, v = m->kv_lora ? a * (double)m->v_dim : q;
    double kv = m->kv_lora ? q + v : 2 * (double)(m->kv_heads * m->head_dim);

    part_add(out, n, "input of the attention norm", 2 * h / d.sp);
    if (!op_again(c, PLAN_OP_NORM))
        part_add(out, n, "input of q, k, v", input_bytes(c) * h / d.sp);
    if (m->kv_lora)
        part_add(out, n, "latent q and kv",
                 2 * (double)(m->q_lora + m->kv_lora + m->qk_rope) / d.sp);
    if (!m->kv_lora || !op_again(c, PLAN_OP_MLA))
        part_add(out, n, "q", 2 * q / d.tp);
    if (c->profile.stack == PLAN_STACK_TORCH && c->profile.fused && !m->kv_lora)
        kv = 2 * q;
    if (!m->kv_lora || !op_again(c, PLAN_OP_MLA))
        part_add(out, n, "k and v", 2 * kv / d.tp);
    part_add(out, n, "output of attention", 2 * v / d.tp);
    if (c->precision == PLAN_FP8)
        part_add(out, n, "output of attention in fp8", v / d.tp);
    if (c->profile.flash)
        part_add(out, n, "softmax sums", 4 * a / d.tp);
    else if (c->recompute == PLAN_RECOMPUTE_NONE)
        part_add(out, n, "softmax over all pairs", (c->profile.dropout ? 5 : 2) * a * s / d.tp);
    if (c->profile.dropout)
        part_add(out, n, "dropout masks", 2 * h / d.sp);
}

/* Bytes for each element of an MLP's width: its input and output of GELU; gate, up and their
 * product, and without fused kernels the activated gate.  The last is what the second product
 * keeps. */
static double mlp_bytes(const struct plan_model *m, const struct plan_config *c)
{
    double before = !m->gated ? 2 : c->profile.fused ? 4 : 6;

    return before + (op_again(c, PLAN_OP_ACT) ? 0 : input_bytes(c));
}

static void expert_parts(const struct plan_model *m, const struct plan_config *c,
                         struct plan_act_part *out, size_t *n)
{
    struct cut d = cut_of(c);
    double h = (double)m->hidden, k = (double)m->top_k, etp = (double)plan_etp(c);
    double copies = c->seq_par ? k * etp / d.tp : k; /* of a token, on this GPU when balanced */
    double wide = mlp_bytes(m, c) * (double)m->expert_ffn;

    part_add(out, n, "router", 8 * (double)m->experts / d.sp);
    if (!op_again(c, PLAN_OP_EXPERTS)) {
        part_add(out, n, "tokens sent to experts", input_bytes(c) * h * copies);
        part_add(out, n, "inside the experts", wide * copies / etp);
        part_add(out, n, "outputs of experts", 2 * h * copies);
    }
    if (!op_again(c, PLAN_OP_SHARED))
        part_add(out, n, "inside shared experts", mlp_bytes(m, c) * (double)m->shared_ffn / d.tp);
}

static double tokens_of(const struct plan_config *c)
{
    return (double)c->seq / c->cp * c->micro_batch;
}

/* Where the device is the slower side, the host has asked for the next gathered input before the
 * last was used up, and a caching allocator keeps both; where the host waits (small work a rank of
 * a pipeline), they are given back in time.  Nanotron's runs show both. */
static bool runs_ahead(const struct plan_model *m, const struct plan_config *c,
                       const struct plan_memory_consts *k)
{
    double wide = (double)(m->experts ? m->top_k * m->expert_ffn : m->ffn);
    double work = tokens_of(c) * (double)m->hidden * wide / c->tp / c->tp;

    return work > k->ahead_work;
}

static bool may_stay(const struct plan_config *c)
{
    return c->profile.keep_gathered && c->seq_par && c->tp <= 16;
}

/* Of `sets` micro-batches in flight those whose gathered inputs stay. */
static inline double sets_staying(bool ahead, bool alone, double sets)
{
    if (ahead || alone)
        return sets;
    return sets > 2 ? sets - 2 : 0;
}

size_t plan_act_parts(const struct plan_model *m, const struct plan_config *c,
                      const struct plan_memory_consts *k, bool moe,
                      struct plan_act_part out[PLAN_ACT_PARTS_MAX])
{
    struct cut d = cut_of(c);
    double h = (double)m->hidden, sets = (double)plan_stage_in_flight(c, 0) / c->vpp;
    size_t n = 0;

    if (m->sample_params) {
        part_add(out, &n, "as measured, a sample", m->sample_bytes);
        return n;
    }
    attention_parts(m, c, out, &n);
    if (c->profile.fp32_copies)
        part_add(out, &n, "fp32 copies in the norms", k->norm_copy_bytes * h / d.sp);
    else if (c->profile.stack == PLAN_STACK_TORCH)
        part_add(out, &n, "copies of eager norms and casts", torch_copies(c, k) * h / d.sp);
    part_add(out, &n, "input of the MLP norm", 2 * h / d.sp);
    if (!op_again(c, PLAN_OP_NORM))
        part_add(out, &n, "input of the MLP", input_bytes(c) * h / d.sp);
    if (moe)
        expert_parts(m, c, out, &n);
    else
        part_add(out, &n, m->gated ? "gate, up and their product" : "MLP before and behind GELU",
                 mlp_bytes(m, c) * (double)m->ffn / d.tp);
    if (may_stay(c))
        part_add(out, &n, "gathered inputs that stay (stage 0)",
                 4 * h * (1 - 1 / d.tp) * sets_staying(runs_ahead(m, c, k), c->pp == 1, sets) /
                     sets);
    return n;
}

/* What a layer saves, without gathered inputs. */
static double layer_bytes(const struct plan_model *m, const struct plan_config *c,
                          const struct plan_memory_consts *k, bool moe)
{
    struct plan_act_part parts[PLAN_ACT_PARTS_MAX];
    struct plan_config plain = *c;
    double sum = 0;
    size_t n;

    plain.profile.keep_gathered = false;
    n = plan_act_parts(m, &plain, k, moe, parts);
    for (size_t i = 0; i < n; i++)
        sum += parts[i].bytes;
    return sum;
}

double plan_logit_bytes(const struct plan_config *c, const struct plan_memory_consts *k)
{
    return c->profile.fused || c->profile.stack == PLAN_STACK_FSDP ? k->logit_bytes_fused
           : c->profile.fp32_copies                                ? k->logit_bytes_copies
           : c->profile.stack == PLAN_STACK_TORCH                  ? k->logit_bytes_torch
                                                                   : k->logit_bytes_eager;
}

/* ---- the layer half ---- */

/* Latent attention's down projections and norms are on every GPU of a tensor-parallel group. */
static double whole_in_layer(const struct plan_model *m, const struct plan_counts *n)
{
    double down =
        m->kv_lora ? (double)m->hidden * (double)(m->q_lora + m->kv_lora + m->qk_rope) : 0;

    return (double)n->norms + down;
}

/* Adapters of rank r on every matrix of a layer: r x (in + out). */
static double lora_params(const struct plan_model *m, const struct plan_config *c)
{
    double h = (double)m->hidden, q = (double)(m->heads * m->head_dim);
    double kv = (double)(m->kv_heads * m->head_dim), mats = m->gated ? 3 : 2;
    double layer = 2 * (h + q) + 2 * (h + kv) + mats * (h + (double)m->ffn);

    return layer * c->lora_rank / c->tp;
}

static void share_params(const struct plan_model *m, const struct plan_counts *n,
                         const struct plan_config *c, struct plan_layer_memory *l)
{
    double tp = c->tp, whole = whole_in_layer(m, n), unit;
    int64_t experts = m->experts / c->ep;

    l->attn = ((double)(n->attn + n->norms) - whole) / tp + whole;
    l->mlp = (double)n->mlp / tp;
    l->shared = (double)n->shared / tp + (double)n->router;
    l->experts = (double)experts * (double)n->expert / (double)plan_etp(c);
    l->table = (double)n->embed / tp;
    l->head = (double)n->head / tp;
    l->positions = (double)n->positions;
    l->outer = (double)n->outer_norms;
    l->tied_far = m->tied && m->head;
    l->adapters = c->lora_rank ? lora_params(m, c) : 0;
    unit = l->attn + l->mlp;
    l->unit_d = unit;
    l->unit_m = l->attn + l->shared + l->experts;
}

double plan_frozen_bits(const struct plan_config *c)
{
    enum { BLOCK = 64, OUTER_BLOCK = 256 };

    if (!c->base_bits || c->base_bits >= 16)
        return 16;
    if (c->base_bits > 4)
        return c->base_bits; /* a scale a row */
    return c->base_bits + 8.0 / BLOCK + 32.0 / (BLOCK * OUTER_BLOCK);
}

static void share_bytes(const struct plan_config *c, const struct plan_memory_consts *k,
                        struct plan_layer_memory *l)
{
    l->weight = mixes[c->precision].weight;
    l->grad = mixes[c->precision].grad;
    l->gathered_weight = mixes[c->precision].gathered;
    l->optimizer = mixes[c->precision].master + moment_bytes(c);
    l->adapt = c->lora_rank > 0;
    l->frozen = plan_frozen_bits(c) / 8;
    l->frozen_end = 2;
    l->copy = c->profile.grad_copy ? k->grad_copy_bytes : 0;
    l->table_copy = c->profile.grad_copy && !l->adapt ? k->table_copy_bytes : 0;
    l->cast = weights_cast(c) && !l->adapt ? 2 : 0;
    if (casts_replicas(c))
        l->whole_copy = 2;
    else if (c->precision == PLAN_FSDP_MIXED && c->zero == 2 && gathers_copies(c))
        l->whole_copy = l->gathered_weight;
    /* torch's AdamW takes a root of all second moments at once, where they are */
    l->step_copy =
        c->profile.stack == PLAN_STACK_TORCH && c->optimizer == PLAN_ADAM && !c->offload_optimizer
            ? mixes[c->precision].moments / 2
            : 0;
    l->torch = c->profile.stack == PLAN_STACK_TORCH;
    l->offload_weights = c->offload_params;
    l->offload_optimizer = c->offload_optimizer;
}

static void share_traffic(const struct plan_model *m, const struct plan_config *c,
                          const struct plan_memory_consts *k, struct plan_layer_memory *l)
{
    struct cut d = cut_of(c);
    double tokens = tokens_of(c), h = (double)m->hidden;

    if (c->seq_par) /* one input gathered in forward, one in backward */
        l->gather = 2 * 2 * h * tokens;
    if (c->cp > 1) /* keys and values of the neighbour, received while ours are used */
        l->exchange += 2 * 2 * 2 * (double)(m->kv_heads * m->head_dim) / d.tp * tokens;
    if (c->ep > 1)
        l->exchange += 2 * 2 * h * (double)m->top_k / d.sp * tokens;
    l->send = 2 * 2 * h / d.sp * tokens;
    l->bucket = k->bucket_bytes;
    l->context = k->context_bytes;
    l->group = k->comm_group_bytes;
    l->groups = (c->tp > 1) + (c->cp > 1) + (c->ep > 1);
    l->fragment = k->fragment_share;
    l->logit_fragment = c->profile.fp32_copies ? k->logit_fragment : k->logit_fragment_low;
    l->logit_fragment_low = k->logit_fragment_low;
    if (c->profile.stack == PLAN_STACK_TORCH && !c->profile.fused)
        l->logit_fragment = l->logit_fragment_low = 0; /* measured as reserved */
    else if (c->profile.stack == PLAN_STACK_TORCH && c->recompute == PLAN_RECOMPUTE_FULL)
        l->logit_fragment = l->logit_fragment_low = k->logit_fragment_again;
    l->fixed = k->fixed_bytes;
    l->expert_replicas = (double)c->tp / ((double)c->ep * (double)plan_etp(c));
}

void plan_layer_memory_of(const struct plan_model *m, const struct plan_counts *n,
                          const struct plan_config *c, const struct plan_memory_consts *k,
                          struct plan_layer_memory *out)
{
    struct cut d = cut_of(c);
    double h = (double)m->hidden, tokens = tokens_of(c);
    int64_t moe = plan_moe_layers(m);
    struct plan_layer_memory l = { 0 };

    share_params(m, n, c, &l);
    share_bytes(c, k, &l);
    share_traffic(m, c, k, &l);
    l.act_dense = moe < m->layers ? layer_bytes(m, c, k, false) * tokens : 0;
    l.act_moe = moe ? layer_bytes(m, c, k, true) * tokens : 0;
    l.stays = may_stay(c) ? 4 * h * (1 - 1 / d.tp) * tokens : 0;
    l.ahead = runs_ahead(m, c, k);
    l.input = (weights_cast(c) ? 4 : 2) * h / d.sp * tokens;
    l.embed_act = c->profile.dropout ? h / d.sp * tokens : 0;
    l.head_act = 4 * h / d.sp * tokens; /* the final norm's input and output */
    if (m->head)
        l.logits = plan_logit_bytes(c, k) * (double)plan_ceil_div(m->vocab, c->tp) * tokens;
    l.every = c->recompute == PLAN_RECOMPUTE_FULL ? c->recompute_every : 0;
    if (m->sample_params) { /* a sample is a sample, however long; nothing is known of its layers */
        l.act_dense = m->sample_bytes * c->micro_batch;
        l.input = l.head_act = l.embed_act = l.stays = 0;
    }
    *out = l;
}

/* ---- one stage ---- */
/* In line: one of two callers wants every kind, the other, millions of times, only their sum. */

struct pipeline_step {  /* what of the step half all stages share */
    double z[4], ez[4]; /* 1 over what stage i of ZeRO divides by: dense weights, experts */
    double copy;        /* 16-bit gradients, bytes a parameter */
    double comm, context, logit_fragment;
    double inv_vpp;
    bool replicas, alone, gathers;
    bool keeps; /* gathered weights beside their shards */
    bool sums;  /* gradients of several micro-batches are summed */
};

ALWAYS_INLINE void step_of(const struct plan_layer_memory *l, const struct plan_config *c,
                           struct pipeline_step *o)
{
    double all = (double)c->dp * c->cp, group = c->shard ? c->shard : all;
    double experts = l->expert_replicas * all;
    double eg = c->shard && c->shard < experts ? c->shard : experts;
    double inv = 1 / group, einv = 1 / eg;

    o->replicas = all > 1;
    o->sums = c->grad_acc > 1;
    o->alone = c->pp == 1;
    o->gathers = c->zero == 3 && o->replicas;
    o->keeps = c->zero == 2 && o->replicas && l->whole_copy > 0;
    for (int i = 0; i < 4; i++) {
        o->z[i] = c->zero >= i ? inv : 1;
        o->ez[i] = c->zero >= i ? einv : 1;
    }
    if (c->zero == 2 && c->grad_acc > 1 && !plan_scatters_each(c->zero, c->pp))
        o->z[2] = o->ez[2] = 1; /* the sum of a stage's micro-batches is whole until the last */
    /* ZeRO 1 makes them anew for one micro-batch; a bucket of plain replicas is always there */
    o->copy = o->replicas && (c->zero == 0 || c->grad_acc > 1) ? l->copy : 0;
    o->comm = l->gather + l->exchange + (o->alone ? 0 : l->send) +
              (o->replicas && !o->gathers ? l->bucket : 0);
    o->context = l->context + l->group * (l->groups + !o->alone + o->replicas);
    o->logit_fragment = c->grad_acc > 1 ? l->logit_fragment : l->logit_fragment_low;
    o->inv_vpp = c->vpp == 1 ? 1 : 1.0 / c->vpp;
}

/* Embedding, positions, head and outer norms that a stage has. */
ALWAYS_INLINE double stage_ends(const struct plan_layer_memory *l, const struct plan_stage *s)
{
    double p = 0;

    if (s->embed)
        p += l->table + l->positions;
    if (s->head)
        p += (l->tied_far ? (s->embed ? 0 : l->table) : l->head) + l->outer;
    return p;
}

ALWAYS_INLINE double stage_params(const struct plan_layer_memory *l, const struct plan_stage *s)
{
    double layers = (double)s->count, moe = (double)s->moe;

    return layers * l->attn + (layers - moe) * l->mlp + moe * l->shared + stage_ends(l, s);
}

/* Weights, gradients and optimizer; *host is what offloading moves away. */
ALWAYS_INLINE void static_kinds(const struct plan_layer_memory *l, const struct pipeline_step *t,
                                const struct plan_stage *s, double kind[PLAN_KINDS], double *host)
{
    double dense = stage_params(l, s), expert = (double)s->moe * l->experts, weights, optimizer;
    double learn_d = dense, learn_e = expert, weight = l->weight;

    if (l->adapt) {
        learn_d = l->adapters * (double)s->count;
        learn_e = 0;
        weight = l->frozen;
    }
    if (t->keeps) /* ZeRO 2 of FSDP: fp32 shards, and 16 bits gathered that stay until backward */
        weights = weight * (dense * t->z[1] + expert * t->ez[1]);
    else
        weights = weight * (dense * t->z[3] + expert * t->ez[3]);
    weights += l->whole_copy * (dense + expert);
    if (l->adapt)
        weights += l->weight * learn_d + (l->frozen_end - weight) * stage_ends(l, s) * t->z[3];
    optimizer = l->optimizer * (learn_d * t->z[1] + learn_e * t->ez[1]);
    kind[PLAN_MEM_WEIGHTS] = l->offload_weights ? 0 : weights;
    kind[PLAN_MEM_GRADS] = l->grad * (learn_d * t->z[2] + learn_e * t->ez[2]) +
                           t->copy * (learn_d + learn_e) +
                           (s->embed || s->head ? l->table_copy * l->table : 0);
    kind[PLAN_MEM_OPTIMIZER] = l->offload_optimizer ? 0 : optimizer;
    *host = (l->offload_weights ? weights : 0) + (l->offload_optimizer ? optimizer : 0);
}

/* `sets` micro-batches in flight, in whole stages. */
ALWAYS_INLINE double activations(const struct plan_layer_memory *l, const struct pipeline_step *t,
                                 const struct plan_stage *s, double sets)
{
    double moe = (double)s->moe, dense = (double)s->count - moe, sum;

    if (l->every) {
        double layers = (double)s->count, every = l->every < layers ? l->every : layers;
        double largest = moe > 0 && l->act_moe > l->act_dense ? l->act_moe : l->act_dense;
        double kept = layers > 0 ? (double)plan_ceil_div(s->count, (int64_t)every) : 0;

        if (dense <= 0)
            largest = l->act_moe;
        sum = l->input * kept * sets + (largest + l->stays) * every;
    } else {
        sum = (l->act_moe * moe + l->act_dense * dense) * sets;
        if (l->stays > 0)
            sum += l->stays * (double)s->count * sets_staying(l->ahead, t->alone, sets);
    }
    if (s->embed)
        sum += l->embed_act * sets;
    return s->head ? sum + l->head_act : sum;
}

/* A plain script on one GPU frees its gradients after each step: at the loss there are none, and
 * while they grow, activations go.  The fullest moment is the loss, the first layer that is
 * computed again, the end of backward, or the optimizer's step; what of it the loss does not
 * explain is told with the gradients. */
ALWAYS_INLINE void torch_kinds(const struct plan_layer_memory *l, const struct pipeline_step *t,
                               const struct plan_stage *s, double kind[PLAN_KINDS])
{
    double params = stage_params(l, s) - (s->embed && !l->tied_far ? l->table : 0);
    double cast = l->cast * (params + (double)s->moe * l->experts);
    double grads = kind[PLAN_MEM_GRADS], again = 0, kept = kind[PLAN_MEM_ACTIVATIONS], loss, most;
    double learn = l->grad > 0 ? grads / l->grad : 0;

    if (l->every) /* recomputed layers cast again, one at a time; the head's copy stays */
        cast = s->head ? l->cast * l->table : 0;
    kind[PLAN_MEM_WEIGHTS] += cast;
    if (t->replicas)
        return;
    if (l->every) {
        again = (s->moe && l->act_moe > l->act_dense ? l->act_moe : l->act_dense) * l->every;
        again = again < kept ? again : kept;
        kept -= again;
    }
    loss = cast + kept + kind[PLAN_MEM_LOGITS] + (t->sums ? grads : 0);
    most = loss;
    if (cast + kept + again + l->grad * l->table > most)
        most = cast + kept + again + l->grad * l->table;
    if (grads + again > most)
        most = grads + again;
    if (grads + l->step_copy * learn > most)
        most = grads + l->step_copy * learn;
    kind[PLAN_MEM_ACTIVATIONS] = kept;
    kind[PLAN_MEM_GRADS] = most - cast - kept - kind[PLAN_MEM_LOGITS];
}

ALWAYS_INLINE void stage_kinds(const struct plan_layer_memory *l, const struct pipeline_step *t,
                               const struct plan_stage *s, int64_t in_flight,
                               double kind[PLAN_KINDS], double *host)
{
    double tensors = 0;

    static_kinds(l, t, s, kind, host);
    kind[PLAN_MEM_ACTIVATIONS] = activations(l, t, s, (double)in_flight * t->inv_vpp);
    kind[PLAN_MEM_LOGITS] = s->head ? l->logits : 0;
    if (l->torch)
        torch_kinds(l, t, s, kind);
    kind[PLAN_MEM_COMM] = t->comm + l->fixed;
    if (t->gathers) { /* this layer and the next, one's gradients */
        double unit = s->moe ? l->unit_m : l->unit_d;

        if ((s->embed || s->head) && unit < l->table)
            unit = l->table;
        kind[PLAN_MEM_COMM] += unit * 3 * l->gathered_weight;
    }
    kind[PLAN_MEM_CONTEXT] = t->context;
    for (int i = 0; i <= PLAN_MEM_COMM; i++)
        tensors += kind[i];
    kind[PLAN_MEM_FRAGMENTS] = l->fragment * tensors + t->logit_fragment * kind[PLAN_MEM_LOGITS];
}
static_assert(PLAN_MEM_COMM + 2 == PLAN_MEM_FRAGMENTS && PLAN_MEM_FRAGMENTS + 1 == PLAN_KINDS,
              "kinds up to communication are tensors");

double plan_step_memory(const struct plan_layer_memory *l, const struct plan_stages *s,
                        const struct plan_config *c)
{
    double most = 0;
    struct pipeline_step t;

    step_of(l, c, &t);
    for (int32_t i = 0; i < s->count; i++) {
        double kind[PLAN_KINDS], host, sum = 0;

        stage_kinds(l, &t, &s->stage[i], plan_stage_in_flight(c, s->index[i]), kind, &host);
        for (int j = 0; j < PLAN_KINDS; j++)
            sum += kind[j];
        most = sum > most ? sum : most;
    }
    return most;
}

/* ---- stages ---- */
static bool stage_covers(const struct plan_stage *a, const struct plan_stage *b)
{
    return a->count - a->moe >= b->count - b->moe && a->moe >= b->moe && a->count >= b->count &&
           a->embed >= b->embed && a->head >= b->head;
}

void plan_stages_of(const struct plan_model *m, const struct plan_config *c,
                    struct plan_stages *out)
{
    struct plan_stages o = { 0 };

    for (int32_t i = 0; i < c->pp; i++) {
        struct plan_stage s;
        bool covered = false;

        plan_stage_of(m, c, i, &s);
        for (int32_t k = 0; k < o.count && !covered; k++)
            covered = stage_covers(&o.stage[k], &s);
        if (covered)
            continue;
        if (o.count == PLAN_STAGES_KEPT) { /* many sizes: the last takes the most of each */
            struct plan_stage *t = &o.stage[o.count - 1];

            t->count = plan_max(t->count, s.count);
            t->moe = plan_max(t->moe, s.moe);
            t->head = t->head || s.head;
            continue;
        }
        o.index[o.count] = i;
        o.stage[o.count++] = s;
    }
    *out = o;
}

/* ---- with every kind ---- */
uint64_t plan_memory_allocated(const uint64_t kind[PLAN_KINDS])
{
    uint64_t sum = 0;

    for (int i = 0; i <= PLAN_MEM_COMM; i++)
        sum += kind[i];
    return sum;
}

static uint64_t stage_bytes(const struct plan_layer_memory *l, const struct pipeline_step *t,
                            struct plan_memory_stage *o)
{
    double kind[PLAN_KINDS], host;

    stage_kinds(l, t, &o->stage, o->in_flight, kind, &host);
    o->params = bytes_of(stage_params(l, &o->stage) + (double)o->stage.moe * l->experts);
    o->total = 0;
    for (int i = 0; i < PLAN_KINDS; i++) {
        o->kind[i] = bytes_of(kind[i]);
        o->total += o->kind[i];
    }
    return bytes_of(host);
}

void plan_memory_stage(const struct plan_model *m, const struct plan_counts *n,
                       const struct plan_config *c, const struct plan_memory_consts *k,
                       int32_t stage, struct plan_memory_stage *out)
{
    struct plan_layer_memory l;
    struct pipeline_step t;

    plan_layer_memory_of(m, n, c, k, &l);
    step_of(&l, c, &t);
    *out = (struct plan_memory_stage){ .in_flight = plan_stage_in_flight(c, stage) };
    plan_stage_of(m, c, stage, &out->stage);
    stage_bytes(&l, &t, out);
}

void plan_memory_of(const struct plan_model *m, const struct plan_counts *n,
                    const struct plan_config *c, const struct plan_memory_consts *k,
                    struct plan_memory *out)
{
    struct plan_memory best = { 0 };
    struct plan_layer_memory l;
    struct plan_stages all;
    struct pipeline_step t;

    plan_layer_memory_of(m, n, c, k, &l);
    plan_stages_of(m, c, &all);
    step_of(&l, c, &t);
    for (int32_t i = 0; i < all.count; i++) {
        struct plan_memory_stage s = { .stage = all.stage[i],
                                       .in_flight = plan_stage_in_flight(c, all.index[i]) };
        uint64_t host = stage_bytes(&l, &t, &s);

        if (host > best.host)
            best.host = host;
        if (s.total <= best.total)
            continue;
        best.total = s.total;
        best.worst = all.index[i];
        for (int j = 0; j < PLAN_KINDS; j++)
            best.kind[j] = s.kind[j];
    }
    *out = best;
}
