/* SPDX-License-Identifier: MIT */
/* cuda_net: the sizes of a model as kernels want them, and where everything stands.
 *
 * Widths are padded with zeros to multiples of GK_PAD and heads to 32 or 64 numbers; an odd
 * number of heads of 32 gets one more, of zeros, so that all heads together are a multiple of
 * GK_PAD too.  A head of zeros gives zeros, which meet zeros in the next matrix.
 *
 * Weights stand in two regions: matrices of the layers and everything else.  fp8 has a third, of
 * the matrices in 8 bits. */
#include "engine/cuda/cuda_int.h"

#include <assert.h>
#include <math.h>

/* ---- choosing ---- */
static enum rc choose_dtype(struct cuda_net *e, const struct eng_opts *o, struct err *err)
{
    e->dtype = o->dtype == ENG_AUTO ? ENG_F16 : o->dtype;
    e->type = e->dtype == ENG_BF16 ? GK_BF16 : GK_F16;
    if (e->dtype == ENG_F32 || e->dtype == ENG_I8) {
        cu_host()->hint(err, "A GPU has f16, which auto takes, bf16 and fp8; the CPU has %s.",
                        e->dtype == ENG_F32 ? "f32" : "int8");
        return cu_host()->fail(err, RC_USAGE, "device 'cuda' does not compute in %s",
                               e->dtype == ENG_F32 ? "f32" : "int8");
    }
    if (e->dtype == ENG_FP8 && e->gpu->sm < 90) {
        cu_host()->hint(err, "f16 runs there.");
        return cu_host()->fail(err, RC_USAGE,
                               "fp8 wants kernels of compute capability 9.0, and GPU '%s' runs "
                               "those of %d.%d",
                               e->gpu->name, e->gpu->sm / 10, e->gpu->sm % 10);
    }
    return RC_OK;
}

/* STOKER_CUDA_PASS=TOKENS cuts batches elsewhere, for measuring. */
static size_t choose_cut(void)
{
    const char *asked = getenv("STOKER_CUDA_PASS");
    unsigned long tokens = asked ? strtoul(asked, NULL, 10) : 0;

    return tokens && tokens < CU_PASS_TOKENS ? tokens : CU_PASS_TOKENS;
}

enum rc net_choose(struct cuda_net *e, const struct model *m, const struct eng_opts *o,
                   struct err *err)
{
    const char *pdl = getenv("STOKER_PDL");
    enum rc rc = choose_dtype(e, o, err);

    if (rc != RC_OK)
        return rc;
    if (m->head_dim > 64)
        return cu_host()->fail(err, RC_USAGE,
                               "model '%s' has heads of %zu numbers, and a GPU takes 64 at most",
                               m->dir, m->head_dim);
    e->base.model = m;
    /* A sum in another order moves one value in some thousand across a rounding of 8 or fewer bits,
     * and the next layer doubles that: only f16 is fine enough to have two ways. */
    e->invariant = o->invariant || e->dtype != ENG_F16;
    e->pdl = e->gpu->sm == 90 && !(pdl && pdl[0] == '0');
    e->head_dim = m->head_dim <= 32 ? 32 : 64;
    e->heads = cu_round_up(m->heads, GK_PAD / e->head_dim);
    e->wide = e->heads * e->head_dim;
    e->ld = cu_round_up(m->hidden, GK_PAD);
    e->ffn = cu_round_up(m->ffn, GK_PAD);
    e->tokens_max = m->positions - m->position_first;
    e->pass_tokens = cu_max(CU_PASS_TOKENS, e->tokens_max);
    e->cut_tokens = choose_cut();
    e->scale = 1.0f / sqrtf((float)m->head_dim);
    e->layers = cu_host()->alloc(m->layers, sizeof(*e->layers));
    return RC_OK;
}

/* ---- weights ---- */
struct cutter {
    unsigned char *base; /* NULL: only counts */
    size_t used;
};

static void *cut_bytes(struct cutter *c, size_t bytes)
{
    void *at = c->base ? c->base + c->used : NULL;

    c->used += cu_round_up(bytes, CU_ALIGN);
    return at;
}

static float *cut_floats(struct cutter *c, size_t n)
{
    return cut_bytes(c, n * sizeof(float));
}

static void cut_norm(const struct cuda_net *e, struct cutter *c, struct cu_norm *n)
{
    n->gain = cut_floats(c, e->ld);
    n->bias = cut_floats(c, e->ld);
}

static void cut_dense(struct cutter *c, struct cu_dense *d, size_t in, size_t out, bool bias,
                      enum gk_dense_act act)
{
    *d = (struct cu_dense){ .in = (int)in, .out = (int)out, .act = act };
    d->w = cut_floats(c, in * out);
    d->bias = bias ? cut_floats(c, out) : NULL;
}

static void cut_tail(struct cuda_net *e, struct cutter *c)
{
    static const enum gk_dense_act acts[] = {
        [MODEL_DENSE_IDENTITY] = GK_DENSE_NONE,
        [MODEL_DENSE_TANH] = GK_DENSE_TANH,
        [MODEL_DENSE_RELU] = GK_DENSE_RELU,
        [MODEL_DENSE_GELU] = GK_DENSE_GELU,
    };
    const struct model *m = e->base.model;

    for (size_t i = 0; i < m->dense_count; i++)
        cut_dense(c, &e->dense[i], m->dense[i].in, m->dense[i].out, m->dense[i].bias,
                  acts[m->dense[i].act]);
    if (m->head == MODEL_HEAD_NONE)
        return;
    cut_dense(c, &e->head[0], m->hidden, m->hidden, true,
              m->arch == MODEL_DISTILBERT ? GK_DENSE_RELU : GK_DENSE_TANH);
    cut_dense(c, &e->head[1], m->hidden, m->labels, true, GK_DENSE_NONE);
}

size_t net_layout_small(struct cuda_net *e, unsigned char *base)
{
    const struct model *m = e->base.model;
    size_t row = e->ld * cu_type_bytes(e->type);
    struct cutter c = { .base = base };

    e->word = cut_bytes(&c, m->vocab * row);
    e->position = cut_bytes(&c, m->positions * row);
    e->token_type = m->types ? cut_bytes(&c, m->types * row) : NULL;
    e->rel = m->rel_buckets ? cut_floats(&c, e->heads * GK_REL) : NULL;
    cut_norm(e, &c, &e->emb);
    cut_tail(e, &c);
    for (size_t i = 0; i < m->layers; i++) {
        struct cu_layer *l = &e->layers[i];
        const size_t n[CU_PRODUCTS] = { 3 * e->wide, e->ld, e->ffn, e->ld };

        cut_norm(e, &c, &l->att);
        cut_norm(e, &c, &l->out);
        l->ctx_scale = cut_floats(&c, 1);
        l->mid_scale = cut_floats(&c, 1);
        for (int p = 0; p < CU_PRODUCTS; p++)
            l->product[p].bias = cut_floats(&c, n[p]);
    }
    return c.used;
}

static size_t layout_products(struct cuda_net *e, enum gk_type type, unsigned char *base)
{
    struct cutter c = { .base = base };

    for (size_t i = 0; i < e->base.model->layers; i++) {
        const size_t n[CU_PRODUCTS] = { 3 * e->wide, e->ld, e->ffn, e->ld };
        const size_t k[CU_PRODUCTS] = { e->ld, e->wide, e->ld, e->ffn };

        for (int p = 0; p < CU_PRODUCTS; p++) {
            struct cu_linear *l = &e->layers[i].product[p];

            l->type = type;
            l->of = (enum cu_product)p;
            l->n = (int)n[p];
            l->k = (int)k[p];
            l->w = cut_bytes(&c, n[p] * k[p] * cu_type_bytes(type));
            if (type != GK_E4M3)
                continue;
            l->scale = cut_floats(&c, n[p]);
            l->bias = cut_floats(&c, n[p]);
        }
    }
    return c.used;
}

size_t net_layout_matrices(struct cuda_net *e, unsigned char *base)
{
    return layout_products(e, e->type, base);
}

size_t net_layout_matrices8(struct cuda_net *e, unsigned char *base)
{
    return layout_products(e, GK_E4M3, base);
}

/* ---- room for what passes through ---- */
size_t net_pool_width(const struct model *m)
{
    return (m->joined_count + 1) * m->hidden;
}

size_t net_width(const struct model *m, enum eng_want want)
{
    if (want == ENG_SCORES)
        return m->labels;
    if (want == ENG_TOKENS)
        return m->hidden;
    return m->dense_count ? m->dense[m->dense_count - 1].out : net_pool_width(m);
}

size_t net_tail_row(const struct model *m)
{
    size_t most = cu_max(net_pool_width(m), m->labels);

    for (size_t i = 0; i < m->dense_count; i++)
        most = cu_max(most, m->dense[i].out);
    return most;
}

enum { ROOM_REGIONS = 10, ROWS32_BYTES = 32 << 20 };

/* Bytes of each region for so many tokens and sequences, in the order of struct cu_room. */
static void room_sizes(const struct cuda_net *e, size_t tokens, size_t sequences,
                       size_t out[ROOM_REGIONS])
{
    size_t rows = cu_round_up(tokens, GK_ROWS_PAD), b = cu_type_bytes(e->type);
    size_t tail = net_tail_row(e->base.model) * sizeof(float);
    bool fp8 = e->dtype == ENG_FP8;

    out[0] = out[1] = rows * e->ld * b;
    out[2] = fp8 ? rows * e->ld : 0;
    out[3] = fp8 ? rows * sizeof(float) : 0;
    out[4] = rows * cu_max(3 * e->wide, e->ffn) * b;
    out[5] = rows * e->wide * b;
    out[6] = (size_t)GK_SPLITS_MAX * GK_SKINNY_ROWS * e->ld * sizeof(float);
    out[7] = out[8] = sequences * tail;
    out[9] = ROWS32_BYTES;
}

static struct region *room_region(struct cu_room *r, size_t i)
{
    struct region *const all[ROOM_REGIONS] = { &r->x,       &r->y,     &r->x8,      &r->x8_scale,
                                               &r->wide,    &r->ctx,   &r->partial, &r->tail[0],
                                               &r->tail[1], &r->rows32 };

    return all[i];
}

uint64_t net_bytes(struct cuda_net *e, size_t tokens)
{
    size_t sizes[ROOM_REGIONS];
    uint64_t sum = net_layout_small(e, NULL);

    assert(!e->matrices.gpu);
    sum += net_layout_matrices(e, NULL);
    if (e->dtype == ENG_FP8)
        sum += net_layout_matrices8(e, NULL);
    room_sizes(e, tokens, cu_min(tokens, CU_PASS_SEQUENCES), sizes);
    for (size_t i = 0; i < ROOM_REGIONS; i++)
        sum += sizes[i];
    if (!e->invariant)
        sum += GK_LT_WORKSPACE_BYTES;
    return sum;
}

enum rc net_room(struct cuda_net *e, size_t tokens, size_t sequences, struct err *err)
{
    static const char *const names[ROOM_REGIONS] = {
        "rows",      "rows",         "rows of 8 bits", "scales",  "products",
        "attention", "partial sums", "vectors",        "vectors", "token vectors",
    };
    struct cu_room *r = &e->room;
    size_t now[ROOM_REGIONS], most[ROOM_REGIONS];
    enum rc rc = RC_OK;

    if (tokens <= r->tokens && sequences <= r->sequences)
        return RC_OK;
    tokens = cu_max(tokens, r->tokens);
    sequences = cu_max(sequences, r->sequences);
    room_sizes(e, tokens, sequences, now);
    room_sizes(e, e->pass_tokens, CU_PASS_SEQUENCES, most);
    for (size_t i = 0; i < ROOM_REGIONS && rc == RC_OK; i++) {
        struct region *one = room_region(r, i);

        if (!one->gpu)
            rc = region_open(e->gpu, names[i], most[i], one, err);
        if (rc == RC_OK)
            rc = region_commit(one, now[i], e->stream, err);
    }
    if (rc == RC_OK) {
        r->tokens = tokens;
        r->sequences = sequences;
    }
    return rc;
}

void net_release(struct cuda_net *e)
{
    graph_release(e);
    net_slots_close(e);
    net_products_close(e);
    profile_close(e);
    for (size_t i = 0; i < ROOM_REGIONS; i++)
        region_close(room_region(&e->room, i));
    region_close(&e->small);
    region_close(&e->matrices);
    region_close(&e->matrices8);
    if (e->began)
        (void)cudaEventDestroy(e->began);
    if (e->ended)
        (void)cudaEventDestroy(e->ended);
    if (e->stream)
        (void)cudaStreamDestroy(e->stream);
    if (e->up)
        (void)cudaStreamDestroy(e->up);
    if (e->down)
        (void)cudaStreamDestroy(e->down);
    if (e->aside)
        (void)cudaFreeHost(e->aside);
    free(e->layers);
    free(e->layers16);
    free(e->order);
    free(e->buckets);
}
