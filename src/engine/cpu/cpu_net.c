/* SPDX-License-Identifier: MIT */
/* cpu_net: chooses kernels for a model, lays out its memory and packs its weights. */
#include "engine/cpu/cpu_net_int.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <sys/mman.h>

enum { HUGE_PAGE = 2 << 20, LOAD_ROWS = 1024 };
#define HALF_MAX 65504.0f /* greatest finite number of 16 bits */

/* ---- choosing */

static const struct cpu_gemm *linear_kernel(enum cpu_isa isa, enum eng_dtype dtype)
{
    if (dtype == ENG_I8)
        return isa == CPU_AMX ? &cpu_amx_i8 : isa >= CPU_VNNI ? &cpu_vnni_i8 : &cpu_avx2_i8;
    if (dtype == ENG_BF16)
        return isa == CPU_AMX      ? &cpu_amx_bf16
               : isa >= CPU_VNNI   ? &cpu_vnni_i16
               : isa >= CPU_AVX512 ? &cpu_avx512_bf16
                                   : &cpu_avx2_bf16;
    return isa >= CPU_AVX512 ? &cpu_avx512_f32 : &cpu_avx2_f32;
}

/* A LayerNorm's output has numbers of all sizes and reaches most of a layer's weights: rounding
 * it and them to bfloat16 is more than half of the error of the vectors.  Tiles multiply split
 * words at two thirds of their rate, which takes it away: on all-MiniLM-L6-v2 the top 10 of a
 * search overlap by 0.997 instead of 0.994. */
static const struct cpu_gemm *normed_kernel(enum cpu_isa isa, enum eng_dtype dtype)
{
    return isa == CPU_AMX && dtype == ENG_BF16 ? &cpu_amx_split : linear_kernel(isa, dtype);
}

static const struct cpu_gemm *attention_kernel(enum cpu_isa isa, enum eng_dtype dtype)
{
    if (dtype != ENG_F32 && isa == CPU_AMX)
        return &cpu_amx_bf16;
    if (dtype != ENG_F32 && isa == CPU_BF16)
        return &cpu_dpbf16;
    return isa >= CPU_AVX512 ? &cpu_avx512_f32 : &cpu_avx2_f32;
}

/* A stride of at least n elements whose bytes are an odd number of cache lines. */
static size_t row_stride(size_t n, size_t bytes)
{
    size_t lines = cpu_round_up(n * bytes, CPU_LINE) / CPU_LINE;

    return (lines | 1) * CPU_LINE / bytes;
}

static size_t act_bytes(const struct cpu_net *e)
{
    return e->act == CPU_E_F32 ? 4 : 2;
}

static void choose_strides(struct cpu_net *e, const struct model *m)
{
    size_t b = act_bytes(e), ints = e->lin_normed->a == CPU_E_U8 ? 1 : 2;
    size_t longest = m->hidden > e->wide ? m->hidden : e->wide;

    e->ld_x = row_stride(m->hidden, 4);
    e->ld_half = row_stride(m->hidden, 2);
    e->ld_ints = row_stride(cpu_round_up(longest, e->lin_normed->kstep), ints) * ints;
    e->ld_qkv = row_stride(3 * e->wide, b);
    e->ld_ctx = row_stride(e->wide, b);
    e->ld_mid = row_stride(m->ffn, b);
    e->ld_mid_ints = row_stride(m->ffn, ints) * ints;
}

static enum rc choose_isa(struct cpu_net *e, const struct eng_opts *o, struct err *err)
{
    enum cpu_isa best = cpu_isa_best();

    e->isa = o->isa ? cpu_isa_parse(o->isa) : best;
    if (o->isa && e->isa == CPU_NONE) {
        err_hint(err, "Known are avx2, avx512, avx512vnni, avx512bf16 and amx.");
        return err_set(err, RC_USAGE, "unknown instruction set '%s'", o->isa);
    }
    if (e->isa > best || e->isa == CPU_NONE)
        return err_set(err, RC_NODEV, "this CPU does not have '%s', its best is '%s'",
                       o->isa ? o->isa : "avx2", cpu_isa_name(best));
    return RC_OK;
}

enum rc net_choose(struct cpu_net *e, const struct model *m, const struct eng_opts *o,
                   struct err *err)
{
    static const enum cpu_act acts[] = {
        [MODEL_GELU] = CPU_ACT_GELU,
        [MODEL_GELU_TANH] = CPU_ACT_GELU_TANH,
        [MODEL_RELU] = CPU_ACT_RELU,
    };
    enum rc rc = choose_isa(e, o, err);

    if (rc != RC_OK)
        return rc;
    if (o->dtype == ENG_F16 || o->dtype == ENG_FP8) {
        err_hint(err, "bf16 is as small as f16, int8 as fp8; auto takes what this CPU is best at.");
        return err_set(err, RC_USAGE, "device 'cpu' does not compute in %s: that is for GPUs",
                       eng_dtype_name(o->dtype));
    }
    if (o->threads < 0 || o->threads > CPU_THREADS_MAX)
        return err_set(err, RC_USAGE, "%d threads asked for, not 0 to %d", o->threads,
                       CPU_THREADS_MAX);
    e->threads = o->threads ? (size_t)o->threads : cpu_pool_default();
    e->base.model = m;
    /* 16 bits are taken unasked only where the CPU multiplies them: elsewhere they save memory
     * and cost exactness for little speed */
    e->dtype = o->dtype != ENG_AUTO ? o->dtype : e->isa >= CPU_VNNI ? ENG_BF16 : ENG_F32;
    if (m->head_dim % 2 && o->dtype != ENG_AUTO && o->dtype != ENG_F32)
        return err_set(err, RC_USAGE, "model '%s' has heads of %zu numbers: f32 alone is possible",
                       m->dir, m->head_dim);
    if (m->head_dim % 2) /* bfloat16 is multiplied by pairs */
        e->dtype = ENG_F32;
    e->lin = linear_kernel(e->isa, e->dtype);
    e->lin_normed = normed_kernel(e->isa, e->dtype);
    e->att = attention_kernel(e->isa, e->dtype);
    e->vec = e->isa >= CPU_BF16     ? &cpu_vec_bf16
             : e->isa >= CPU_AVX512 ? &cpu_vec_avx512
                                    : &cpu_vec_avx2;
    e->act = e->att->a;
    e->table = e->dtype == ENG_F32 ? CPU_E_F32 : CPU_E_F16;
    e->ffn_act = acts[m->act];
    e->wide = m->heads * m->head_dim;
    e->tokens_max = eng_tokens_max(m);
    e->bare = e->lin->bare && m->hidden % e->lin->nr == 0;
    choose_strides(e, m);
    assert(e->lin->a == e->act || net_by_integers(e->lin));
    return RC_OK;
}

/* ---- laying out */

static void *block_cut(struct net_block *b, size_t bytes)
{
    void *at = b->base ? b->base + b->used : NULL;

    b->used += cpu_round_up(bytes, CPU_LINE);
    return at;
}

static void cut_linear(const struct cpu_net *e, struct net_block *b, struct net_linear *l,
                       bool normed, size_t n, size_t k)
{
    const struct cpu_gemm *g = normed ? e->lin_normed : e->lin;
    size_t padded = cpu_round_up(n, g->nr);

    l->normed = normed;
    l->n = n;
    l->k = cpu_round_up(k, g->kstep);
    l->b = block_cut(b, cpu_pack_bytes(g, n, k));
    l->bias = block_cut(b, padded * sizeof(float));
    l->block = g->b == CPU_E_S8 ? cpu_turn_block(k) : 1;
    if (net_by_integers(g)) {
        l->col_scale = block_cut(b, padded * sizeof(float));
        l->col_sum = block_cut(b, padded * sizeof(int32_t));
    }
}

static void cut_norm(const struct cpu_net *e, struct net_block *b, struct net_norm *n)
{
    n->gain = block_cut(b, e->base.model->hidden * sizeof(float));
    n->bias = block_cut(b, e->base.model->hidden * sizeof(float));
}

/* `layers` NULL: counts. */
static void layout_weights(struct cpu_net *e, struct net_block *b)
{
    const struct model *m = e->base.model;
    struct net_layer any = { 0 }, *layers = e->layers;

    e->word = block_cut(b, m->vocab * m->hidden * (e->table == CPU_E_F32 ? 4 : 2));
    e->position = block_cut(b, m->positions * m->hidden * sizeof(float));
    e->type = m->types ? block_cut(b, m->types * m->hidden * sizeof(float)) : NULL;
    e->rel = m->rel_buckets ? block_cut(b, m->heads * (2 * MPNET_REACH + 1) * sizeof(float)) : NULL;
    cut_norm(e, b, &e->emb);
    for (size_t i = 0; i < m->layers; i++) {
        struct net_layer *l = layers ? &layers[i] : &any;
        cut_linear(e, b, &l->qkv, true, 3 * e->wide, m->hidden);
        cut_linear(e, b, &l->o, false, m->hidden, e->wide);
        cut_linear(e, b, &l->ffn1, true, m->ffn, m->hidden);
        cut_linear(e, b, &l->ffn2, false, m->hidden, m->ffn);
        if (e->lin->b == CPU_E_S8) {
            l->qkv.mul = block_cut(b, m->hidden * sizeof(float));
            l->ffn1.mul = block_cut(b, m->hidden * sizeof(float));
        }
        cut_norm(e, b, &l->att);
        cut_norm(e, b, &l->out);
    }
}

static void layout_room(const struct cpu_net *e, struct net_block *b, struct net_room *r,
                        size_t tokens)
{
    size_t rows = tokens + CPU_ROWS_SLACK, mid = NET_ROWS + CPU_ROWS_SLACK, act = act_bytes(e);
    bool half = e->lin_normed->a == CPU_E_BF16, ints = net_by_integers(e->lin_normed);
    bool mid_ints = net_by_integers(e->lin);

    r->rows = tokens;
    r->x = block_cut(b, rows * e->ld_x * sizeof(float));
    r->y = block_cut(b, rows * e->ld_x * sizeof(float));
    r->half = half ? block_cut(b, rows * e->ld_half * sizeof(uint16_t)) : NULL;
    r->ints = ints ? block_cut(b, rows * e->ld_ints) : NULL;
    r->qkv = block_cut(b, rows * e->ld_qkv * act);
    r->ctx = block_cut(b, rows * e->ld_ctx * act);
    r->mid = block_cut(b, mid * e->ld_mid * act);
    r->mid_ints = mid_ints ? block_cut(b, mid * e->ld_mid_ints) : NULL;
    r->scale = ints ? block_cut(b, rows * sizeof(float)) : NULL;
    r->zero = e->lin->a == CPU_E_U8 ? block_cut(b, rows * sizeof(int32_t)) : NULL;
    r->positions = block_cut(b, rows * sizeof(uint32_t));
}

static size_t longest_row(const struct cpu_net *e)
{
    size_t most = e->base.model->hidden > e->wide ? e->base.model->hidden : e->wide;

    return e->base.model->ffn > most ? e->base.model->ffn : most;
}

static void layout_att(const struct cpu_net *e, struct net_block *b, struct net_att *a,
                       size_t tokens)
{
    const struct cpu_gemm *g = e->att;
    size_t keys = cpu_pack_bytes(g, tokens, e->base.model->head_dim);

    a->keys = block_cut(b, keys);
    a->values = block_cut(b, cpu_pack_bytes(g, e->base.model->head_dim, tokens));
    a->scores = block_cut(b, NET_QUERIES * e->ld_scores * sizeof(float));
    a->probs = g->a == CPU_E_F32 ? (void *)a->scores : block_cut(b, NET_QUERIES * e->ld_probs * 2);
    a->sums = block_cut(b, NET_QUERIES * sizeof(float));
    a->turned = e->lin->a == CPU_E_U8 ? block_cut(b, longest_row(e) * sizeof(float)) : NULL;
    a->bias =
        e->rel || e->base.model->rel_buckets ? block_cut(b, 2 * tokens * sizeof(float)) : NULL;
    a->tail = block_cut(b, eng_tail_room(e->base.model) * sizeof(float));
}

/* The first room is the team's and holds the longest sequence. */
static void layout_scratch(struct cpu_net *e, struct net_block *b, size_t tokens)
{
    size_t longest = tokens > NET_CHUNK ? tokens : NET_CHUNK;
    struct net_room room = { 0 };
    struct net_att att = { 0 };

    e->ld_scores = row_stride(cpu_round_up(tokens, CPU_PANEL_MAX * 2), 4);
    e->ld_probs = row_stride(cpu_round_up(tokens, CPU_PANEL_MAX * 2), act_bytes(e));
    for (size_t t = 0; t < e->threads; t++) {
        layout_room(e, b, e->rooms ? &e->rooms[t] : &room, t ? NET_CHUNK : longest);
        layout_att(e, b, e->heads ? &e->heads[t] : &att, tokens);
    }
}

uint64_t net_bytes(struct cpu_net *e, size_t tokens)
{
    struct net_block w = { 0 }, s = { 0 };

    assert(!e->layers);
    layout_weights(e, &w);
    layout_scratch(e, &s, tokens < e->tokens_max ? tokens : e->tokens_max);
    return (uint64_t)cpu_round_up(w.used, HUGE_PAGE) + cpu_round_up(s.used, HUGE_PAGE) +
           eng_tail_bytes(e->base.model);
}

/* ---- packing */

/* What stands behind each other in one packed matrix. */
struct parts {
    enum model_role roles[3]; /* the bias is the next role */
    size_t count;
    const struct net_norm *from; /* what gives A; NULL: no LayerNorm does */
};

/* Bytes share one scale over a row of A, and a few columns of a LayerNorm's output reach
 * further than others or count for more.  Dividing column j of A by s and multiplying that of
 * W by s changes no product; s = sqrt(a / w), with a how far the column reaches (4 deviations
 * of the gain, and the bias) and w the root mean square of its weights, gives both a share of
 * the range.  Of Q, K and V the values decide: an error in a value reaches the result whole,
 * one in a score is evened out; their rows are [first, n). */
static void balance_columns(const struct net_norm *from, float *w, size_t n, size_t k, size_t first,
                            float *mul)
{
    memset(mul, 0, k * sizeof(*mul));
    for (size_t i = first; i < n; i++)
        for (size_t j = 0; j < k; j++)
            mul[j] += w[i * k + j] * w[i * k + j];
    for (size_t j = 0; j < k; j++) {
        float reach = 4.0f * fabsf(from->gain[j]) + fabsf(from->bias[j]);
        mul[j] = sqrtf(reach / sqrtf(mul[j] / (float)(n - first)));
        if (!isnormal(mul[j]))
            mul[j] = 1.0f;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < k; j++)
            w[i * k + j] *= mul[j];
    for (size_t j = 0; j < k; j++)
        mul[j] = 1.0f / mul[j];
}

/* What is left outside of the common range, such as the few huge numbers behind an activation,
 * is spread: with a matrix H of 1 and -1 and H * H = block, A * W^T = (A H) * (W H)^T / block.
 * One number far outside becomes many of a usual size, in rows of A and of W alike, and the
 * scale that they share becomes several times finer.  On all-MiniLM-L6-v2 the variance of a
 * score's error falls to a third. */
static void turn_weights(const struct cpu_net *e, const struct net_linear *l, float *w, size_t k)
{
    for (size_t i = 0; l->block > 1 && i < l->n; i++)
        e->vec->turn(w + i * k, k, l->block, w + i * k);
}

static enum rc pack_parts(const struct cpu_net *e, const struct parts *p, size_t layer,
                          const struct net_linear *l, float *tmp, struct err *err)
{
    struct eng_shape s = eng_weight_shape(e->base.model, p->roles[0]);
    enum rc rc = RC_OK;

    for (size_t i = 0; i < p->count && rc == RC_OK; i++) {
        rc = eng_weight(e->base.model, p->roles[i], layer, tmp + i * s.rows * s.cols,
                        s.rows * s.cols, err);
        if (rc == RC_OK)
            rc = eng_weight(e->base.model, p->roles[i] + 1, layer, l->bias + i * s.rows, s.rows,
                            err);
    }
    if (rc != RC_OK)
        return rc;
    if (l->mul)
        balance_columns(p->from, tmp, p->count * s.rows, s.cols, (p->count - 1) * s.rows, l->mul);
    turn_weights(e, l, tmp, s.cols);
    cpu_pack_fast(net_kernel(e, l), e->vec, tmp, p->count * s.rows, s.cols, l->b, l->col_scale,
                  l->col_sum);
    for (size_t i = 0; l->block > 1 && i < l->n; i++)
        l->col_scale[i] /= (float)l->block;
    return RC_OK;
}

static enum rc load_norm(const struct cpu_net *e, enum model_role role, size_t layer,
                         const struct net_norm *n, struct err *err)
{
    size_t hidden = e->base.model->hidden;
    enum rc rc = eng_weight(e->base.model, role, layer, n->gain, hidden, err);

    return rc == RC_OK ? eng_weight(e->base.model, role + 1, layer, n->bias, hidden, err) : rc;
}

static enum rc load_layer(const struct cpu_net *e, size_t i, float *tmp, struct err *err)
{
    struct net_layer *l = &e->layers[i];
    const struct parts qkv = { { W_Q, W_K, W_V }, 3, i ? &l[-1].out : &e->emb };
    const struct parts o = { { W_O }, 1, NULL }, ffn1 = { { W_FFN1 }, 1, &l->att };
    const struct parts ffn2 = { { W_FFN2 }, 1, NULL };
    enum rc rc = load_norm(e, W_ATT_LN_G, i, &l->att, err);

    if (rc == RC_OK)
        rc = load_norm(e, W_OUT_LN_G, i, &l->out, err);
    if (rc == RC_OK)
        rc = pack_parts(e, &qkv, i, &l->qkv, tmp, err);
    if (rc == RC_OK)
        rc = pack_parts(e, &o, i, &l->o, tmp, err);
    if (rc == RC_OK)
        rc = pack_parts(e, &ffn1, i, &l->ffn1, tmp, err);
    return rc == RC_OK ? pack_parts(e, &ffn2, i, &l->ffn2, tmp, err) : rc;
}

/* The word table is the largest tensor: some rows at a time.  Sixteen bits are a half, with
 * three bits more than bfloat16, unless the file has bfloat16 or larger numbers. */
static enum rc load_words(struct cpu_net *e, float *tmp, struct err *err)
{
    const struct model *m = e->base.model;
    const struct st_tensor *t = model_tensor(m, "embeddings.word_embeddings.weight");

    if (!t || t->count != (uint64_t)m->vocab * m->hidden)
        return err_set(err, RC_PARSE, "model '%s' has no word table of %zu by %zu", m->dir,
                       m->vocab, m->hidden);
    if (e->table == CPU_E_F16 && t->dtype == ST_BF16)
        e->table = CPU_E_BF16;
    for (size_t row = 0; row < m->vocab; row += LOAD_ROWS) {
        size_t n = (m->vocab - row < LOAD_ROWS ? m->vocab - row : LOAD_ROWS) * m->hidden;
        size_t at = row * m->hidden;
        float *to = e->table == CPU_E_F32 ? (float *)e->word + at : tmp;
        enum rc rc = st_read_f32(m->tensors, t, at, n, to, err);
        if (rc != RC_OK)
            return err_ctx(err, "model '%s'", m->dir);
        if (to == tmp && e->vec->narrow(tmp, n, e->table, (uint16_t *)e->word + at) > HALF_MAX &&
            e->table == CPU_E_F16) {
            e->table = CPU_E_BF16;
            return load_words(e, tmp, err);
        }
    }
    return RC_OK;
}

static enum rc load_tables(struct cpu_net *e, float *tmp, struct err *err)
{
    const struct model *m = e->base.model;
    enum rc rc = load_words(e, tmp, err);

    if (rc == RC_OK)
        rc = eng_weight(m, W_POSITION, 0, e->position, m->positions * m->hidden, err);
    if (rc == RC_OK && e->type)
        rc = eng_weight(m, W_TYPE, 0, e->type, m->types * m->hidden, err);
    if (rc == RC_OK && e->rel)
        rc = eng_rel_bias(m, e->rel, err);
    return rc == RC_OK ? load_norm(e, W_EMB_LN_G, 0, &e->emb, err) : rc;
}

static size_t tmp_floats(const struct cpu_net *e)
{
    const struct model *m = e->base.model;
    size_t most = LOAD_ROWS * m->hidden;

    most = 3 * e->wide * m->hidden > most ? 3 * e->wide * m->hidden : most;
    return m->ffn * m->hidden > most ? m->ffn * m->hidden : most;
}

/* Zeroed memory; large pages where the kernel has them. */
static enum rc map_block(struct net_block *b, size_t bytes, size_t *size, struct err *err)
{
    size_t len = cpu_round_up(bytes, HUGE_PAGE);
    void *p =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED)
        return err_sys(err, "could not reserve %zu bytes", len);
    (void)madvise(p, len, MADV_HUGEPAGE);
    *b = (struct net_block){ .base = p };
    *size = len;
    return RC_OK;
}

static enum rc map_all(struct cpu_net *e, struct err *err)
{
    struct net_block w = { 0 }, s = { 0 };
    enum rc rc;

    layout_weights(e, &w);
    layout_scratch(e, &s, e->tokens_max);
    rc = map_block(&e->weights, w.used, &e->weights_size, err);
    if (rc == RC_OK)
        rc = map_block(&e->scratch, s.used, &e->scratch_size, err);
    if (rc != RC_OK)
        return rc;
    e->layers = xcalloc(e->base.model->layers, sizeof(*e->layers));
    e->rooms = xcalloc(e->threads, sizeof(*e->rooms));
    e->heads = xcalloc(e->threads, sizeof(*e->heads));
    layout_weights(e, &e->weights);
    layout_scratch(e, &e->scratch, e->tokens_max);
    assert(e->weights.used == w.used && e->scratch.used == s.used);
    return RC_OK;
}

enum rc net_load(struct cpu_net *e, struct err *err)
{
    struct net_block tmp = { 0 };
    size_t tmp_size = 0;
    enum rc rc;

    e->pool = cpu_pool_new(e->threads);
    if (!e->pool)
        return err_set(err, RC_FAIL, "could not start %zu threads", e->threads);
    e->threads = cpu_pool_size(e->pool);
    rc = map_all(e, err);
    if (rc == RC_OK) /* a mapping of its own goes back to the system at once */
        rc = map_block(&tmp, tmp_floats(e) * sizeof(float), &tmp_size, err);
    if (rc != RC_OK)
        return rc;
    rc = load_tables(e, (float *)(void *)tmp.base, err);
    for (size_t i = 0; i < e->base.model->layers && rc == RC_OK; i++)
        rc = load_layer(e, i, (float *)(void *)tmp.base, err);
    (void)munmap(tmp.base, tmp_size);
    return rc == RC_OK ? eng_tail_load(e->base.model, &e->tail, err) : rc;
}

void net_release(struct cpu_net *e)
{
    cpu_pool_free(e->pool);
    if (e->weights.base)
        (void)munmap(e->weights.base, e->weights_size);
    if (e->scratch.base)
        (void)munmap(e->scratch.base, e->scratch_size);
    eng_tail_free(e->tail);
    free(e->layers);
    free(e->rooms);
    free(e->heads);
    free(e->spans);
}
