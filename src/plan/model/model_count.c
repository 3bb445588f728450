/* SPDX-License-Identifier: MIT */
/* model_count: parameters and FLOPs of a transformer, counted, not estimated.
 *
 * One layer of each kind is counted and multiplied; nothing is rounded, so that the sums equal
 * those of the published checkpoints to the last parameter (tests/unit/test_model_count.c holds
 * them against each other). */
#include "plan/plan_int.h"

#include "base/str.h"

const char *const plan_flops_names[] = { "full", "causal", "six-n", "hardware", NULL };

bool plan_layer_is_moe(const struct plan_model *m, int64_t layer)
{
    return m->experts && layer >= m->moe_first && layer % m->moe_every == m->moe_phase;
}

/* MoE layers below `end`. */
static int64_t moe_below(const struct plan_model *m, int64_t end)
{
    int64_t first = m->moe_first;

    if (!m->experts)
        return 0;
    /* the first MoE layer at or behind moe_first */
    first += (m->moe_phase - first % m->moe_every + m->moe_every) % m->moe_every;
    return first >= end ? 0 : (end - first - 1) / m->moe_every + 1;
}

int64_t plan_moe_layers(const struct plan_model *m)
{
    return moe_below(m, m->layers);
}

/* ---- checks ---- */
static enum rc in_range(const char *what, int64_t v, int64_t min, int64_t max, struct err *err)
{
    if (v >= min && v <= max)
        return RC_OK;
    err_hint(err, "The nearest valid value is %lld.", (long long)(v < min ? min : max));
    return err_set(err, RC_USAGE, "the model cannot have %lld %s", (long long)v, what);
}

static enum rc check_ranges(const struct plan_model *m, struct err *err)
{
    const struct {
        const char *what;
        int64_t v, min, max;
    } rows[] = {
        { "layers", m->layers, 1, PLAN_LAYERS_MAX },
        { "as hidden size", m->hidden, 1, PLAN_HIDDEN_MAX },
        { "attention heads", m->heads, 1, PLAN_HEADS_MAX },
        { "key-value heads", m->kv_heads, 1, PLAN_HEADS_MAX },
        { "as head dimension", m->head_dim, 1, PLAN_HEAD_DIM_MAX },
        { "as MLP width", m->ffn, m->experts ? 0 : 1, PLAN_FFN_MAX },
        { "as vocabulary", m->vocab, 1, PLAN_VOCAB_MAX },
        { "positions", m->positions, 0, PLAN_SEQ_MAX },
        { "as embedding width", m->embed_dim, 0, PLAN_HIDDEN_MAX },
        { "norms in a layer", m->layer_norms, 0, 8 },
        { "outer norms", m->outer_norms, 0, 8 },
        { "experts", m->experts, 0, PLAN_EXPERTS_MAX },
        { "as expert width", m->expert_ffn, m->experts ? 1 : 0, PLAN_FFN_MAX },
        { "as width of shared experts", m->shared_ffn, 0, PLAN_FFN_MAX },
        { "dense layers first", m->moe_first, 0, PLAN_LAYERS_MAX },
        { "as rank of q", m->q_lora, 0, PLAN_HIDDEN_MAX },
        { "as rank of k and v", m->kv_lora, 0, PLAN_HIDDEN_MAX },
        { "as q-k dimension", m->qk_nope, 0, PLAN_HEAD_DIM_MAX },
        { "as rotary dimension", m->qk_rope, 0, PLAN_HEAD_DIM_MAX },
        { "as v dimension", m->v_dim, 0, PLAN_HEAD_DIM_MAX },
        { "as window", m->window, 0, PLAN_SEQ_MAX },
        { "as distance of full layers", m->window_every, 0, PLAN_LAYERS_MAX },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (in_range(rows[i].what, rows[i].v, rows[i].min, rows[i].max, err))
            return RC_USAGE;
    return RC_OK;
}

static enum rc check_heads(const struct plan_model *m, struct err *err)
{
    if (m->kv_lora || m->heads % m->kv_heads == 0)
        return RC_OK;
    err_hint(err, "The nearest valid value is %lld.",
             (long long)plan_nearest_divisor(m->heads, m->kv_heads, m->heads));
    return err_set(err, RC_USAGE, "%lld key-value heads do not divide %lld attention heads",
                   (long long)m->kv_heads, (long long)m->heads);
}

static enum rc check_moe(const struct plan_model *m, struct err *err)
{
    if (!m->experts)
        return RC_OK;
    if (in_range("experts for each token", m->top_k, 1, m->experts, err) ||
        in_range("as distance of MoE layers", m->moe_every, 1, PLAN_LAYERS_MAX, err) ||
        in_range("as place of the MoE layer", m->moe_phase, 0, m->moe_every - 1, err))
        return RC_USAGE;
    return plan_moe_layers(m) == m->layers || m->ffn > 0
               ? RC_OK
               : err_set(err, RC_USAGE, "the model has dense layers but no MLP width for them");
}

static enum rc derive_head_dim(struct plan_model *m, struct err *err)
{
    if (m->kv_lora) {
        m->head_dim = m->qk_nope + m->qk_rope;
        return RC_OK;
    }
    if (m->head_dim)
        return RC_OK;
    if (m->heads < 1 || m->heads > PLAN_HEADS_MAX)
        return in_range("attention heads", m->heads, 1, PLAN_HEADS_MAX, err);
    if (m->hidden < 1 || m->hidden > PLAN_HIDDEN_MAX)
        return in_range("as hidden size", m->hidden, 1, PLAN_HIDDEN_MAX, err);
    if (m->hidden % m->heads) {
        err_hint(err, "The nearest number of heads that divides it is %lld.",
                 (long long)plan_nearest_divisor(m->hidden, m->heads, PLAN_HEADS_MAX));
        return err_set(err, RC_USAGE, "%lld heads do not divide hidden size %lld",
                       (long long)m->heads, (long long)m->hidden);
    }
    m->head_dim = m->hidden / m->heads;
    return RC_OK;
}

enum rc plan_model_check(struct plan_model *m, struct err *err)
{
    struct plan_model d = *m;
    struct plan_counts n;

    if (!d.kv_heads)
        d.kv_heads = d.heads;
    if (d.experts && !d.moe_every)
        d.moe_every = 1;
    if (derive_head_dim(&d, err) || check_ranges(&d, err) || check_heads(&d, err) ||
        check_moe(&d, err) || plan_model_counts(&d, &n, err))
        return RC_USAGE;
    *m = d;
    return RC_OK;
}

/* ---- parameters ---- */
static plan_u128 mlp_params(const struct plan_model *m, int64_t width, bool bias)
{
    plan_u128 n = (plan_u128)(m->gated ? 3 : 2) * (uint64_t)m->hidden * (uint64_t)width;

    return bias ? n + (uint64_t)((m->gated ? 2 : 1) * width + m->hidden) : n;
}

static plan_u128 mla_params(const struct plan_model *m)
{
    uint64_t h = (uint64_t)m->hidden, a = (uint64_t)m->heads;
    uint64_t q = a * (uint64_t)(m->qk_nope + m->qk_rope), ql = (uint64_t)m->q_lora;
    uint64_t kvl = (uint64_t)m->kv_lora;
    plan_u128 n = ql ? (plan_u128)ql * (h + q) + ql : (plan_u128)h * q; /* with q's norm */

    n += (plan_u128)h * (kvl + (uint64_t)m->qk_rope) + kvl; /* down, and the norm of kv */
    n += (plan_u128)kvl * a * (uint64_t)(m->qk_nope + m->v_dim);
    return n + (plan_u128)a * (uint64_t)m->v_dim * h;
}

static plan_u128 attn_params(const struct plan_model *m)
{
    uint64_t h = (uint64_t)m->hidden, q = (uint64_t)(m->heads * m->head_dim);
    uint64_t kv = (uint64_t)(m->kv_heads * m->head_dim);
    plan_u128 n;

    if (m->kv_lora)
        return mla_params(m);
    n = (plan_u128)h * (2 * q + 2 * kv);
    if (m->qkv_bias)
        n += q + 2 * kv;
    if (m->out_bias)
        n += h;
    if (m->qk_norm)
        n += 2 * (uint64_t)m->head_dim;
    return m->attn_sinks ? n + (uint64_t)m->heads : n;
}

static void count_parts(const struct plan_model *m, plan_u128 part[10])
{
    uint64_t h = (uint64_t)m->hidden, norm = m->norm_bias ? 2 * h : h;
    uint64_t e = m->embed_dim ? (uint64_t)m->embed_dim : h;
    bool moe = m->experts > 0;

    part[0] = attn_params(m);
    part[1] = m->ffn ? mlp_params(m, m->ffn, m->mlp_bias) : 0;
    part[2] = moe ? mlp_params(m, m->expert_ffn, m->expert_bias) : 0;
    part[3] = m->shared_ffn ? mlp_params(m, m->shared_ffn, false) : 0;
    part[4] = moe ? (plan_u128)h * (uint64_t)m->experts : 0;
    if (moe && m->router_bias)
        part[4] += (uint64_t)m->experts;
    if (moe && m->shared_gate)
        part[4] += h;
    part[5] = (plan_u128)norm * (uint64_t)m->layer_norms;
    /* OPT-350m puts a projection before and behind its layers */
    part[6] = (plan_u128)e * (uint64_t)m->vocab + (e != h ? (plan_u128)2 * e * h : 0);
    part[7] = (plan_u128)h * (uint64_t)m->positions;
    part[8] = m->head && !m->tied ? (plan_u128)e * (uint64_t)m->vocab : 0;
    if (m->head && m->head_bias)
        part[8] += (uint64_t)m->vocab;
    part[9] = (plan_u128)norm * (uint64_t)m->outer_norms;
}

enum rc plan_model_counts(const struct plan_model *m, struct plan_counts *out, struct err *err)
{
    uint64_t moe = (uint64_t)plan_moe_layers(m), dense = (uint64_t)m->layers - moe;
    plan_u128 p[10], common, dense_layer, moe_layer, outer, total, active;
    struct plan_counts n = { 0 };
    uint64_t *const fields[] = { &n.attn,  &n.mlp,   &n.expert,    &n.shared, &n.router,
                                 &n.norms, &n.embed, &n.positions, &n.head,   &n.outer_norms };

    if (m->sample_params) {
        uint64_t all = (uint64_t)m->sample_params;

        *out = (struct plan_counts){ .mlp = all, .dense_layer = all, .total = all, .active = all };
        return RC_OK;
    }
    count_parts(m, p);
    common = p[0] + p[5];
    dense_layer = common + p[1];
    moe_layer = common + p[2] * (uint64_t)m->experts + p[3] + p[4];
    outer = p[6] + p[7] + p[8] + p[9];
    total = dense_layer * dense + moe_layer * moe + outer;
    if (total > (plan_u128)PLAN_PARAMS_MAX || dense_layer > (plan_u128)PLAN_PARAMS_MAX ||
        moe_layer > (plan_u128)PLAN_PARAMS_MAX) {
        err_hint(err, "The largest model that can be planned has %lld.",
                 (long long)PLAN_PARAMS_MAX);
        return err_set(err, RC_USAGE, "the model has about %.3g parameters", (double)total);
    }
    active = dense_layer * dense + outer + (common + p[2] * (uint64_t)m->top_k + p[3] + p[4]) * moe;
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
        *fields[i] = plan_u64(p[i]);
    n.dense_layer = plan_u64(dense_layer);
    n.moe_layer = plan_u64(moe_layer);
    n.total = plan_u64(total);
    n.active = plan_u64(active);
    *out = n;
    return RC_OK;
}

/* ---- FLOPs ---- */

/* Multiply-adds with weights, a token, in layers.  Routers are left out: Megatron's count, which
 * `causal` follows, has none (from memory).  Qwen3-235B is the one that tells: 148.0 GFLOP a token
 * without, 148.3 with; 147.3 is printed, so that neither is within 0.1 %. */
static double layer_weights(const struct plan_model *m)
{
    double h = (double)m->hidden, moe = (double)plan_moe_layers(m);
    double dense = (double)m->layers - moe, mats = m->gated ? 3 : 2, attn;
    double a = (double)m->heads, qd = a * (double)m->head_dim;

    if (m->kv_lora) {
        double ql = (double)m->q_lora, kvl = (double)m->kv_lora;

        attn = ql > 0 ? ql * (h + qd) : h * qd;
        attn += h * (kvl + (double)m->qk_rope) + kvl * a * (double)(m->qk_nope + m->v_dim);
        attn += a * (double)m->v_dim * h;
    } else {
        attn = h * 2 * (qd + (double)(m->kv_heads * m->head_dim));
    }
    return attn * (double)m->layers + dense * mats * h * (double)m->ffn +
           moe * mats * h * (double)(m->top_k * m->expert_ffn + m->shared_ffn);
}

/* Pairs of positions a token's attention meets, summed over layers: s, or the window. */
static double attention_pairs(const struct plan_model *m, int64_t seq, bool causal)
{
    double s = (double)seq, w = (double)plan_min(m->window, seq), full = (double)m->layers;
    double windowed = 0, near;

    if (m->window && m->window < seq) {
        int64_t whole = m->window_every ? m->layers / m->window_every : 0;

        windowed = full - (double)whole;
        full -= windowed;
    }
    /* a causal window is short at the start of the sequence: w - w^2 / 2s on average */
    near = causal ? w - w * w / (2 * s) : w;
    return full * (causal ? s / 2 : s) + windowed * near;
}

double plan_flops_token(const struct plan_model *m, int64_t seq, enum plan_flops kind,
                        struct plan_recompute_share again)
{
    double qk = (double)(m->heads * m->head_dim);
    double v = m->kv_lora ? (double)(m->heads * m->v_dim) : qk;
    double core = 2 * (qk + v) * attention_pairs(m, seq, kind == PLAN_FLOPS_CAUSAL);
    double layers = 2 * layer_weights(m) + core;
    double head = m->head ? 2.0 * (double)m->hidden * (double)m->vocab : 0;
    struct plan_counts n = { 0 };

    if (m->sample_params)
        return m->sample_flops / (double)seq * (1 + again.layers / 3);
    if (kind == PLAN_FLOPS_SIX_N)
        return plan_model_counts(m, &n, NULL)
                   ? 0
                   : 6 * (double)n.active +
                         12 * (double)m->layers * (double)m->hidden * (double)seq;
    if (kind == PLAN_FLOPS_HARDWARE)
        return 3 * (layers + head) + again.layers * layers + again.attention * core;
    return 3 * (layers + head);
}

enum rc plan_model_measured(double params, double flops, double bytes, struct plan_model *out,
                            struct err *err)
{
    struct plan_model m = { .name = "measured model",
                            .layers = 1,
                            .hidden = 1,
                            .heads = 1,
                            .ffn = 1,
                            .vocab = 1,
                            .sample_flops = flops,
                            .sample_bytes = bytes };

    if (!(params >= 1) || params > (double)PLAN_PARAMS_MAX) {
        err_hint(err, "Give 1 to %lld.", (long long)PLAN_PARAMS_MAX);
        return err_set(err, RC_USAGE, "a model of %.3g parameters cannot be", params);
    }
    if (!(flops >= 0) || flops > 1e24 || !(bytes >= 0) || bytes > (double)(INT64_C(1) << 50))
        return err_set(err, RC_USAGE, "%.3g FLOPs or %.3g bytes a sample cannot be", flops, bytes);
    m.sample_params = (int64_t)(params + 0.5);
    if (plan_model_check(&m, err))
        return RC_USAGE;
    *out = m;
    return RC_OK;
}
