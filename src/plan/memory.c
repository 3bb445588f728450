/* SPDX-License-Identifier: MIT */
/* memory: bytes of a training job, by GPU, pipeline stage and kind.
 *
 * Static bytes (weights, gradients, optimizer) are counts times bytes a parameter, cut by tensor,
 * expert and pipeline parallelism and then by ZeRO.  Activations are what backward needs again,
 * operation by operation (Korthikanti et al. 2022, generalised to grouped heads, gated MLPs,
 * experts and latent attention): act_parts() is the whole list, and the table a user sees is the
 * same list.  What is not a tensor is in plan_memory_consts, and nowhere else. */
#include "plan/plan_int.h"

const char *const plan_kind_names[PLAN_KINDS] = {
    [PLAN_MEM_WEIGHTS] = "weights",     [PLAN_MEM_GRADS] = "gradients",
    [PLAN_MEM_OPTIMIZER] = "optimizer", [PLAN_MEM_ACTIVATIONS] = "activations",
    [PLAN_MEM_LOGITS] = "logits",       [PLAN_MEM_COMM] = "communication",
    [PLAN_MEM_CONTEXT] = "context",     [PLAN_MEM_FRAGMENTS] = "fragmentation",
};

#define GIB ((double)(1 << 30))
/* Sources: context 0.47 GiB lazy to 0.92 GiB eager (torch 2.1), NCCL 1 to 2 GiB in all
 * (stas00/ml-engineering); fragmentation 6 % between allocated and reserved (SimuMax, 50.9 to
 * 54.1 GB).  Bytes a logit: fused, bf16 and an fp32 gradient; eager, bf16, an fp32 copy and a bf16
 * gradient; with fp32 copies the gradient is fp32 too.  Norms that keep their input in fp32 take
 * two of 4 bytes, 16-bit gradients 2: both agree with the Ultra-Scale table's one-GPU rows. */
const struct plan_memory_consts plan_memory_default = {
    .fragment_share = 0.05,
    .context_bytes = 0.7 * GIB,
    .comm_group_bytes = 0.3 * GIB,
    .logit_bytes_fused = 6,
    .logit_bytes_eager = 8,
    .logit_bytes_copies = 10,
    .bucket_bytes = 0.1 * GIB,
    .grad_copy_bytes = 2,
    .norm_copy_bytes = 8,
};

static const struct {
    double weight, grad, master, moments;
    double gathered; /* of a weight that ZeRO 3 has brought together */
} mixes[PLAN_PRECISIONS] = {
    [PLAN_BF16] = { 2, 4, 4, 8, 2 },       [PLAN_BF16_GRADS] = { 2, 2, 4, 8, 2 },
    [PLAN_FSDP_MIXED] = { 4, 4, 0, 8, 2 }, [PLAN_PURE16] = { 2, 2, 0, 4, 2 },
    [PLAN_FP8] = { 4, 4, 4, 8, 2 },        [PLAN_FP32] = { 4, 4, 0, 8, 4 },
};
static const double optimizer_share[PLAN_OPTIMIZERS] = { /* of Adam's moments */
                                                         [PLAN_ADAM] = 1,
                                                         [PLAN_ADAM8] = 0.25,
                                                         [PLAN_SGD] = 0.5
};

static uint64_t bytes_of(double v)
{
    return v < (double)PLAN_BYTES_MAX ? (uint64_t)(v + 0.5) : PLAN_BYTES_MAX;
}

/* ---- activations ---- */
struct cut { /* what a token's bytes are divided by on this GPU */
    double tp;
    double sp;       /* tp with sequence parallelism, else 1 */
    double gathered; /* of the inputs of column-parallel matrices */
};

static struct cut cut_of(const struct plan_config *c)
{
    double sp = c->seq_par ? c->tp : 1;

    return (struct cut){ .tp = c->tp, .sp = sp, .gathered = c->profile.keep_gathered ? 1 : sp };
}

static void add(struct plan_act_part *out, size_t *n, const char *what, double bytes)
{
    assert(*n < PLAN_ACT_PARTS_MAX);
    if (bytes > 0)
        out[(*n)++] = (struct plan_act_part){ .what = what, .bytes = bytes };
}

static void attention_parts(const struct plan_model *m, const struct plan_config *c,
                            struct plan_act_part *out, size_t *n)
{
    struct cut d = cut_of(c);
    double h = (double)m->hidden, a = (double)m->heads, s = (double)c->seq;
    double q = a * (double)m->head_dim, v = m->kv_lora ? a * (double)m->v_dim : q;
    double kv = m->kv_lora ? q + v : 2 * (double)(m->kv_heads * m->head_dim);

    add(out, n, "input of the attention norm", 2 * h / d.sp);
    add(out, n, "input of q, k, v", 2 * h / d.gathered);
    if (m->kv_lora)
        add(out, n, "latent q and kv", 2 * (double)(m->q_lora + m->kv_lora + m->qk_rope) / d.sp);
    add(out, n, "q", 2 * q / d.tp);
    add(out, n, "k and v", 2 * kv / d.tp);
    add(out, n, "output of attention", 2 * v / d.tp);
    if (c->profile.flash)
        add(out, n, "softmax sums", 4 * a / d.tp);
    else if (c->recompute == PLAN_RECOMPUTE_NONE)
        add(out, n, "softmax over all pairs", (c->profile.dropout ? 5 : 2) * a * s / d.tp);
    if (c->profile.dropout)
        add(out, n, "dropout masks", 2 * h / d.sp);
}

/* Bytes for each element of an MLP's width: its input and output of GELU; gate, up and their
 * product, and without fused kernels the activated gate. */
static double mlp_bytes(const struct plan_model *m, const struct plan_config *c)
{
    return !m->gated ? 4 : c->profile.fused ? 6 : 8;
}

static void expert_parts(const struct plan_model *m, const struct plan_config *c,
                         struct plan_act_part *out, size_t *n)
{
    struct cut d = cut_of(c);
    double h = (double)m->hidden, k = (double)m->top_k, etp = (double)plan_etp(c);
    double copies = c->seq_par ? k * etp / d.tp : k; /* of a token, on this GPU when balanced */
    double wide = mlp_bytes(m, c) * (double)m->expert_ffn;

    add(out, n, "router", 8 * (double)m->experts / d.sp);
    add(out, n, "tokens sent to experts", 2 * h * copies);
    add(out, n, "inside the experts", wide * copies / etp);
    add(out, n, "outputs of experts", 2 * h * copies);
    add(out, n, "inside shared experts", mlp_bytes(m, c) * (double)m->shared_ffn / d.tp);
}

size_t plan_act_parts(const struct plan_model *m, const struct plan_config *c,
                      const struct plan_memory_consts *k, bool moe,
                      struct plan_act_part out[PLAN_ACT_PARTS_MAX])
{
    struct cut d = cut_of(c);
    double h = (double)m->hidden;
    size_t n = 0;

    attention_parts(m, c, out, &n);
    if (c->profile.fp32_copies)
        add(out, &n, "fp32 copies in the norms", k->norm_copy_bytes * h / d.sp);
    add(out, &n, "input of the MLP norm", 2 * h / d.sp);
    add(out, &n, "input of the MLP", 2 * h / d.gathered);
    if (moe)
        expert_parts(m, c, out, &n);
    else
        add(out, &n, m->gated ? "gate, up and their product" : "MLP before and behind GELU",
            mlp_bytes(m, c) * (double)m->ffn / d.tp);
    return n;
}

static double layer_bytes(const struct plan_model *m, const struct plan_config *c,
                          const struct plan_memory_consts *k, bool moe)
{
    struct plan_act_part parts[PLAN_ACT_PARTS_MAX];
    size_t n = plan_act_parts(m, c, k, moe, parts);
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += parts[i].bytes;
    return sum;
}

static double tokens_of(const struct plan_config *c)
{
    return (double)c->seq / c->cp * c->micro_batch;
}

static double activations(const struct plan_model *m, const struct plan_config *c,
                          const struct plan_memory_consts *k, const struct plan_memory_stage *o)
{
    struct cut d = cut_of(c);
    const struct plan_stage *s = &o->stage;
    double moe = s->moe ? layer_bytes(m, c, k, true) : 0;
    double dense = s->moe < s->count ? layer_bytes(m, c, k, false) : 0;
    double all = moe * (double)s->moe + dense * (double)(s->count - s->moe);
    double sets = (double)o->in_flight / c->vpp, ends = 0; /* in whole stages */

    if (c->recompute == PLAN_RECOMPUTE_FULL) {
        double every = (double)plan_min(c->recompute_every, plan_max(s->count, 1));
        double kept = (double)plan_ceil_div(s->count, (int64_t)every);
        double largest = moe > dense ? moe : dense;

        all = 2 * (double)m->hidden / d.sp * kept * sets + largest * every;
    } else {
        all *= sets;
    }
    if (s->embed && c->profile.dropout)
        ends += (double)m->hidden / d.sp * (double)o->in_flight / c->vpp;
    if (s->head)
        ends += 4 * (double)m->hidden / d.sp; /* the final norm's input and output */
    return (all + ends) * tokens_of(c);
}

double plan_logit_bytes(const struct plan_config *c, const struct plan_memory_consts *k)
{
    return c->profile.fused         ? k->logit_bytes_fused
           : c->profile.fp32_copies ? k->logit_bytes_copies
                                    : k->logit_bytes_eager;
}

static double logits(const struct plan_model *m, const struct plan_config *c,
                     const struct plan_memory_consts *k, const struct plan_stage *s)
{
    double each = plan_logit_bytes(c, k);

    return s->head && m->head ? each * (double)plan_ceil_div(m->vocab, c->tp) * tokens_of(c) : 0;
}

/* ---- parameters on one GPU ---- */
struct share {
    uint64_t dense, expert; /* before ZeRO */
    uint64_t largest;       /* the largest unit that ZeRO 3 gathers */
};

/* Latent attention's down projections and norms are on every GPU of a tensor-parallel group. */
static uint64_t whole_in_layer(const struct plan_model *m, const struct plan_counts *n)
{
    uint64_t down =
        m->kv_lora ? (uint64_t)m->hidden * (uint64_t)(m->q_lora + m->kv_lora + m->qk_rope) : 0;

    return n->norms + down;
}

static struct share share_of(const struct plan_model *m, const struct plan_counts *n,
                             const struct plan_config *c, const struct plan_stage *s)
{
    uint64_t tp = (uint64_t)c->tp, whole = whole_in_layer(m, n);
    uint64_t attn = plan_muldiv(n->attn + n->norms - whole, 1, tp) + whole;
    uint64_t mlp = plan_muldiv(n->mlp, 1, tp), shared = plan_muldiv(n->shared, 1, tp);
    uint64_t experts =
        plan_muldiv((uint64_t)(m->experts / c->ep), n->expert, (uint64_t)plan_etp(c));
    uint64_t table = plan_muldiv(n->embed, 1, tp), head = plan_muldiv(n->head, 1, tp);
    uint64_t layers = (uint64_t)s->count, moe = (uint64_t)s->moe;
    struct share o = { .dense = layers * attn + (layers - moe) * mlp + moe * (shared + n->router),
                       .expert = moe * experts };
    uint64_t unit = moe ? attn + shared + n->router + experts : attn + mlp;

    if (s->embed)
        o.dense += table + n->positions;
    if (s->head)
        o.dense += (m->tied && !s->embed && m->head ? table : head) + n->outer_norms;
    o.largest = s->embed || s->head ? (unit > table ? unit : table) : unit;
    return o;
}

/* Adapters of rank r on every matrix of a layer: r x (in + out). */
static uint64_t lora_params(const struct plan_model *m, const struct plan_config *c,
                            const struct plan_stage *s)
{
    uint64_t h = (uint64_t)m->hidden, q = (uint64_t)(m->heads * m->head_dim);
    uint64_t kv = (uint64_t)(m->kv_heads * m->head_dim), mats = m->gated ? 3 : 2;
    uint64_t layer = 2 * (h + q) + 2 * (h + kv) + mats * (h + (uint64_t)m->ffn);

    return plan_muldiv(layer * (uint64_t)s->count, (uint64_t)c->lora_rank, (uint64_t)c->tp);
}

static void static_bytes(const struct plan_model *m, const struct plan_counts *n,
                         const struct plan_config *c, const struct plan_memory_consts *k,
                         struct plan_memory_stage *o, struct share *out_share, uint64_t *out_host)
{
    struct share s = share_of(m, n, c, &o->stage);
    double all = (double)c->dp * c->cp, group = c->shard ? c->shard : all;
    double experts = (double)c->tp * all / ((double)c->ep * (double)plan_etp(c));
    double eg = c->shard && c->shard < experts ? c->shard : experts;
    double dense = (double)s.dense, expert = (double)s.expert, learn_d = dense, learn_e = expert;
    double weight = mixes[c->precision].weight, grad = mixes[c->precision].grad;
    double opt =
        mixes[c->precision].master + mixes[c->precision].moments * optimizer_share[c->optimizer];
    double zd[4], ze[4], w, optimizer;

    for (int i = 0; i < 4; i++) { /* what stage i of ZeRO divides by */
        zd[i] = c->zero >= i ? group : 1;
        ze[i] = c->zero >= i ? eg : 1;
    }
    w = weight * (dense / zd[3] + expert / ze[3]);
    if (c->lora_rank) {
        learn_d = (double)lora_params(m, c, &o->stage);
        learn_e = 0;
        w = (c->base_bits ? c->base_bits : 16) / 8.0 * (dense / zd[3] + expert / ze[3]) +
            weight * learn_d;
    }
    optimizer = opt * (learn_d / zd[1] + learn_e / ze[1]);
    o->params = s.dense + s.expert;
    o->kind[PLAN_MEM_WEIGHTS] = c->offload_params ? 0 : bytes_of(w);
    o->kind[PLAN_MEM_GRADS] =
        bytes_of(grad * (learn_d / zd[2] + learn_e / ze[2]) +
                 (c->profile.grad_copy ? k->grad_copy_bytes * (learn_d + learn_e) : 0));
    o->kind[PLAN_MEM_OPTIMIZER] = c->offload_optimizer ? 0 : bytes_of(optimizer);
    *out_host =
        (c->offload_params ? bytes_of(w) : 0) + (c->offload_optimizer ? bytes_of(optimizer) : 0);
    *out_share = s;
}

/* ---- communication and what is not a tensor ---- */
static double comm_bytes(const struct plan_model *m, const struct plan_config *c,
                         const struct plan_memory_consts *k, const struct share *s)
{
    struct cut d = cut_of(c);
    double tokens = tokens_of(c), h = (double)m->hidden, sum = 0;

    if (c->zero == 3 && c->dp * (int64_t)c->cp > 1) /* this layer and the next, one's gradients */
        sum +=
            (double)s->largest * (2 * mixes[c->precision].gathered + mixes[c->precision].gathered);
    else if (c->dp * (int64_t)c->cp > 1)
        sum += k->bucket_bytes;
    if (c->seq_par) /* one input gathered in forward, one in backward */
        sum += 2 * 2 * h * tokens;
    if (c->cp > 1) /* keys and values of the neighbour, received while ours are used */
        sum += 2 * 2 * 2 * (double)(m->kv_heads * m->head_dim) / d.tp * tokens;
    if (c->ep > 1)
        sum += 2 * 2 * h * (double)m->top_k / d.sp * tokens;
    if (c->pp > 1)
        sum += 2 * 2 * h / d.sp * tokens;
    return sum;
}

static double context_bytes(const struct plan_config *c, const struct plan_memory_consts *k)
{
    int groups =
        (c->tp > 1) + (c->pp > 1) + ((int64_t)c->dp * c->cp > 1) + (c->cp > 1) + (c->ep > 1);

    return k->context_bytes + k->comm_group_bytes * groups;
}

uint64_t plan_memory_allocated(const uint64_t kind[PLAN_KINDS])
{
    uint64_t sum = 0;

    for (int i = 0; i < PLAN_KINDS; i++)
        if (i != PLAN_MEM_CONTEXT && i != PLAN_MEM_FRAGMENTS)
            sum += kind[i];
    return sum;
}

static uint64_t stage_bytes(const struct plan_model *m, const struct plan_counts *n,
                            const struct plan_config *c, const struct plan_memory_consts *k,
                            int32_t stage, struct plan_memory_stage *o)
{
    uint64_t host, tensors;
    struct share s;

    *o = (struct plan_memory_stage){ .in_flight = plan_stage_in_flight(c, stage) };
    plan_stage_of(m, c, stage, &o->stage);
    static_bytes(m, n, c, k, o, &s, &host);
    o->kind[PLAN_MEM_ACTIVATIONS] = bytes_of(activations(m, c, k, o));
    o->kind[PLAN_MEM_LOGITS] = bytes_of(logits(m, c, k, &o->stage));
    o->kind[PLAN_MEM_COMM] = bytes_of(comm_bytes(m, c, k, &s));
    o->kind[PLAN_MEM_CONTEXT] = bytes_of(context_bytes(c, k));
    tensors = plan_memory_allocated(o->kind);
    o->kind[PLAN_MEM_FRAGMENTS] = bytes_of(k->fragment_share * (double)tensors);
    o->total = tensors + o->kind[PLAN_MEM_CONTEXT] + o->kind[PLAN_MEM_FRAGMENTS];
    return host;
}

void plan_memory_stage(const struct plan_model *m, const struct plan_counts *n,
                       const struct plan_config *c, const struct plan_memory_consts *k,
                       int32_t stage, struct plan_memory_stage *out)
{
    stage_bytes(m, n, c, k, stage, out);
}

/* Stages between the first and the last that have the same layers: the one in front holds most
 * micro-batches, so that the others need not be looked at. */
static bool middle_is_alike(const struct plan_model *m, const struct plan_config *c)
{
    bool even = c->profile.split == PLAN_SPLIT_EVEN || c->profile.split == PLAN_SPLIT_ENDS_LESS;

    return even && m->layers % c->pp == 0 &&
           (!m->experts || (m->moe_first == 0 && m->moe_every == 1));
}

void plan_memory_of(const struct plan_model *m, const struct plan_counts *n,
                    const struct plan_config *c, const struct plan_memory_consts *k,
                    struct plan_memory *out)
{
    bool alike = c->pp > 3 && middle_is_alike(m, c);
    struct plan_memory best = { 0 };

    for (int32_t i = 0; i < c->pp; i = alike && i == 1 ? c->pp - 1 : i + 1) {
        struct plan_memory_stage s;
        uint64_t host = stage_bytes(m, n, c, k, i, &s);

        if (host > best.host)
            best.host = host;
        if (s.total <= best.total)
            continue;
        best.total = s.total;
        best.worst = i;
        for (int j = 0; j < PLAN_KINDS; j++)
            best.kind[j] = s.kind[j];
    }
    *out = best;
}
