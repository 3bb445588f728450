/* SPDX-License-Identifier: MIT */
/* cuda_forward: one pass through the layers, as launches on the model's stream.
 *
 *     x = LN(word + position + type)
 *     each layer:
 *       qkv = x Wqkv' + b             ctx = run_attention(qkv)
 *       y   = ctx Wo' + b             x = LN(x + y)
 *       mid = act(x W1' + b)          (over the memory of qkv)
 *       y   = mid W2' + b             x = LN(x + y)
 *     pooling, dense layers, head: f32
 *
 * Up to GK_SKINNY_ROWS rows the products are those that read weights fastest, and the two before
 * a LayerNorm are cut along k: it adds the parts up.  Beyond them products.c says which one.  With
 * `invariant` there is one kernel a matrix for every number of rows.
 *
 * A product in e4m3 takes rows of 8 bits that the LayerNorm before it wrote, or what attention
 * and the activation wrote by a scale measured at load (fp8.c).
 *
 * Nothing here waits or allocates, so that the same calls can be captured into a graph. */
#include "engine/cuda/cuda_int.h"

#include <assert.h>

/* ---- places in a batch's block ---- */
size_t net_tiles_max(size_t tokens, size_t sequences)
{
    /* a sequence of n tokens has at most 1 + (n - 1) / GK_ATTN_ROWS tiles */
    return sequences + (tokens > sequences ? (tokens - sequences) / GK_ATTN_ROWS : 0);
}

struct cu_layout net_layout_batch(size_t tokens, size_t sequences, size_t tiles)
{
    struct cu_layout l;
    size_t at = sizeof(struct cu_counts);

    l.ids = at;
    at = cu_round_up(at + tokens * sizeof(uint32_t), 16);
    l.positions = at;
    at = cu_round_up(at + tokens * sizeof(uint32_t), 16);
    l.starts = at;
    at = cu_round_up(at + (sequences + 1) * sizeof(uint32_t), 16);
    l.skip = at;
    at = cu_round_up(at + sequences * sizeof(uint32_t), 16);
    l.tiles = at;
    at = cu_round_up(at + tiles * sizeof(struct gk_tile), 16);
    l.types = at;
    at = cu_round_up(at + tokens, 16);
    l.bytes = at;
    return l;
}

/* ---- one pass ---- */
struct forward_way {
    struct cuda_net *e;
    const struct cu_pass *p;
    const int32_t *rows, *sequences, *tiles; /* device; NULL: as many as the pass says */
    bool skinny, fp8;
    cudaError_t error; /* the first */
};

static bool pass_good(struct forward_way *w, cudaError_t e)
{
    if (w->error == cudaSuccess)
        w->error = e;
    return w->error == cudaSuccess;
}

static void mark_step(struct forward_way *w, int step)
{
    if (w->e->profile && !w->error)
        (void)pass_good(w, profile_mark(w->e, step));
}

static const struct cu_counts *pass_counts(const struct cu_pass *p)
{
    return (const struct cu_counts *)(const void *)p->block;
}

static void embed_tokens(struct forward_way *w)
{
    struct cuda_net *e = w->e;
    const struct cu_pass *p = w->p;
    struct gk_embed g = {
        .type = e->type,
        .m = p->tokens,
        .rows = w->rows,
        .hidden = (int)e->base.model->hidden,
        .ld = e->ld,
        .ids = (const void *)(p->block + p->at.ids),
        .positions = (const void *)(p->block + p->at.positions),
        .types = e->token_type ? p->block + p->at.types : NULL,
        .word = e->word,
        .position = e->position,
        .token_type = e->token_type,
        .gamma = e->emb.gain,
        .beta = e->emb.bias,
        .eps = e->base.model->ln_eps,
        .x = e->room.x.base,
        .x8 = w->fp8 ? e->room.x8.base : NULL,
        .x8_scale = w->fp8 ? (float *)(void *)e->room.x8_scale.base : NULL,
    };

    (void)pass_good(w, gk_embed(&g, e->stream));
}

/* What a product reads and writes beside its own matrix. */
struct sides {
    const void *a, *a8; /* 16 bits; 8 bits, by a_scale */
    const float *a_scale;
    bool a_scale_rows;
    void *out;
    size_t ldout;
    enum gk_act act;
    const float *out_scale; /* not NULL: e4m3 */
};

static struct gk_gemm gemm_of(const struct forward_way *w, const struct cu_linear *l,
                              const struct sides *s)
{
    bool fp8 = l->type == GK_E4M3;

    return (struct gk_gemm){
        .type = l->type,
        .out_type = s->out_scale ? GK_E4M3 : w->e->type,
        .act = s->act,
        .m = w->p->tokens,
        .n = l->n,
        .k = l->k,
        .rows = w->rows,
        .a = fp8 ? s->a8 : s->a,
        .w = l->w,
        .out = s->out,
        .lda = (size_t)l->k,
        .ldout = s->ldout,
        .bias = l->bias,
        .a_scale = fp8 ? s->a_scale : NULL,
        .a_scale_rows = fp8 && s->a_scale_rows,
        .w_scale = l->scale,
        .w_scale_cols = fp8,
        .out_scale = s->out_scale,
        .pdl = w->e->pdl,
    };
}

static void make_product(struct forward_way *w, const struct cu_linear *l, const struct sides *s)
{
    struct gk_gemm g = gemm_of(w, l, s);

    if (w->error)
        return;
    if (w->skinny && net_product_skinny(w->e, l, g.m))
        (void)pass_good(w, gk_gemm_skinny(&g, NULL, 1, w->e->stream));
    else
        (void)pass_good(w, net_product(w->e, l, &g));
}

/* y = a W' + b, then x = LN(x + y). */
static void product_norm(struct forward_way *w, const struct cu_linear *l, struct sides *s,
                         const struct cu_norm *n, int step)
{
    struct cuda_net *e = w->e;
    bool cut = w->skinny && net_product_skinny(e, l, w->p->tokens);
    int splits = cut ? gk_skinny_splits(l->n, l->k, e->gpu->sms) : 1;
    float *partial = (float *)(void *)e->room.partial.base;
    struct gk_norm g = {
        .type = e->type,
        .m = w->p->tokens,
        .rows = w->rows,
        .hidden = (int)e->base.model->hidden,
        .ld = e->ld,
        .x = e->room.x.base,
        .gamma = n->gain,
        .beta = n->bias,
        .eps = e->base.model->ln_eps,
        .x8 = w->fp8 ? e->room.x8.base : NULL,
        .x8_scale = w->fp8 ? (float *)(void *)e->room.x8_scale.base : NULL,
        .pdl = e->pdl,
    };

    s->out = e->room.y.base;
    s->ldout = e->ld;
    if (splits > 1) {
        struct gk_gemm one = gemm_of(w, l, s);

        if (!w->error)
            (void)pass_good(w, gk_gemm_skinny(&one, partial, splits, e->stream));
        g.partial = partial;
        g.splits = splits;
        g.bias = l->bias;
    } else {
        make_product(w, l, s);
        g.y = s->out;
    }
    mark_step(w, step);
    if (!w->error)
        (void)pass_good(w, gk_add_norm(&g, e->stream));
    mark_step(w, step == STOKER_CUDA_O ? STOKER_CUDA_NORM1 : STOKER_CUDA_NORM2);
}

static void show_product(struct forward_way *w, size_t layer, enum cu_product of, const void *x,
                         size_t n)
{
    if (w->p->seen && !w->error)
        (void)pass_good(w, w->p->seen(w->p->arg, layer, of, x, (int)n));
}

static void run_attention(struct forward_way *w, const struct cu_layer *l)
{
    struct cuda_net *e = w->e;
    const struct cu_pass *p = w->p;
    bool fp8 = l->product[CU_O].type == GK_E4M3;
    struct gk_attn g = {
        .type = e->type,
        .out_type = fp8 ? GK_E4M3 : e->type,
        .heads = (int)e->heads,
        .head_dim = (int)e->head_dim,
        .qkv = e->room.wide.base,
        .out = e->room.ctx.base,
        .ld = 3 * e->wide,
        .ldout = e->wide,
        .row_cap = (int)cu_round_up((size_t)p->tokens, GK_ROWS_PAD),
        .scale = e->scale,
        .rel = e->rel,
        .tiles = (const void *)(p->block + p->at.tiles),
        .tile_max = p->tiles,
        .tile_rows = p->tile_rows,
        .tile_count = w->tiles,
        .out_scale = fp8 ? l->ctx_scale : NULL,
        .pdl = e->pdl,
    };

    if (!w->error)
        (void)pass_good(w, e->gpu->sm == 90 ? gk_attn_sm90(&g, e->stream)
                                            : gk_attn_sm80(&g, e->stream));
}

/* The whole block in one kernel, which is made for many rows: an SM takes FFN_ROWS of them through
 * both products, so that a pass should fill FFN_FULL of the rounds it makes. */
enum { FFN_ROWS = 128 };
#define FFN_FULL 0.8

static bool ffn_fused(struct forward_way *w, const struct cu_layer *l, enum gk_act act)
{
    struct cuda_net *e = w->e;
    const struct cu_linear *up = &l->product[CU_FFN1], *down = &l->product[CU_FFN2];
    int round = FFN_ROWS * e->gpu->sms, rounds = (w->p->tokens + round - 1) / round;
    struct gk_ffn g = {
        .type = e->type,
        .act = act,
        .m = w->p->tokens,
        .rows = w->rows,
        .hidden = (int)e->base.model->hidden,
        .ffn = up->n,
        .ld = e->ld,
        .x = e->room.x.base,
        .w1 = up->w,
        .w2 = down->w,
        .b1 = up->bias,
        .b2 = down->bias,
        .gamma = l->out.gain,
        .beta = l->out.bias,
        .eps = e->base.model->ln_eps,
        .pdl = e->pdl,
    };

    if (e->gpu->sm != 90 || e->invariant || w->p->seen ||
        w->p->tokens < FFN_FULL * rounds * round || !gk_ffn_sm90_can(&g))
        return false;
    if (!w->error)
        (void)pass_good(w, gk_ffn_sm90(&g, e->stream));
    mark_step(w, STOKER_CUDA_FFN1);
    return true;
}

enum gk_act net_act(const struct cuda_net *e)
{
    static const enum gk_act acts[] = {
        [MODEL_GELU] = GK_ACT_GELU,
        [MODEL_GELU_TANH] = GK_ACT_GELU_TANH,
        [MODEL_RELU] = GK_ACT_RELU,
    };

    return acts[e->base.model->act];
}

static void run_layer(struct forward_way *w, size_t i)
{
    struct cuda_net *e = w->e;
    const struct cu_layer *l = &(w->p->in16 ? e->layers16 : e->layers)[i];
    bool mid8 = l->product[CU_FFN2].type == GK_E4M3;
    struct cu_room *r = &e->room;
    const float *row_scale = (const float *)(const void *)r->x8_scale.base;
    struct sides normed = { .a = r->x.base,
                            .a8 = r->x8.base,
                            .a_scale = row_scale,
                            .a_scale_rows = true,
                            .out = r->wide.base,
                            .ldout = 3 * e->wide };
    struct sides ctx = { .a = r->ctx.base, .a8 = r->ctx.base, .a_scale = l->ctx_scale };
    struct sides mid = { .a = r->wide.base, .a8 = r->wide.base, .a_scale = l->mid_scale };

    show_product(w, i, CU_QKV, r->x.base, e->ld);
    make_product(w, &l->product[CU_QKV], &normed);
    mark_step(w, STOKER_CUDA_QKV);
    run_attention(w, l);
    mark_step(w, STOKER_CUDA_ATTENTION);
    show_product(w, i, CU_O, r->ctx.base, e->wide);
    product_norm(w, &l->product[CU_O], &ctx, &l->att, STOKER_CUDA_O);
    if (ffn_fused(w, l, net_act(e)))
        return;
    normed.ldout = e->ffn;
    normed.act = net_act(e);
    normed.out_scale = mid8 ? l->mid_scale : NULL;
    show_product(w, i, CU_FFN1, r->x.base, e->ld);
    make_product(w, &l->product[CU_FFN1], &normed);
    mark_step(w, STOKER_CUDA_FFN1);
    show_product(w, i, CU_FFN2, r->wide.base, e->ffn);
    product_norm(w, &l->product[CU_FFN2], &mid, &l->out, STOKER_CUDA_FFN2);
}

/* ---- after the last layer ---- */
static void pool_rows(struct forward_way *w, bool head, bool normalize, bool last)
{
    const struct model *m = w->e->base.model;
    const struct cu_pass *p = w->p;
    struct gk_pool g = {
        .type = w->e->type,
        .sequences = p->sequences,
        .count = w->sequences,
        .hidden = (int)m->hidden,
        .ld = w->e->ld,
        .x = w->e->room.x.base,
        .starts = (const void *)(p->block + p->at.starts),
        .skip = head ? NULL : (const void *)(p->block + p->at.skip),
        .kinds = { head ? GK_POOL_CLS : (enum gk_pool_kind)m->pool },
        .kind_count = 1,
        .normalize = normalize,
        .out = last && p->to ? p->to : (float *)(void *)w->e->room.tail[0].base,
        .pdl = w->e->pdl,
    };

    for (size_t i = 0; !head && i < m->joined_count; i++)
        g.kinds[g.kind_count++] = (enum gk_pool_kind)m->joined[i];
    if (!w->error)
        (void)pass_good(w, gk_pool(&g, w->e->stream));
}

/* From tail[i % 2] to the other. */
static void dense_layer(struct forward_way *w, const struct cu_dense *d, size_t i, bool normalize,
                        bool last)
{
    struct gk_dense g = {
        .sequences = w->p->sequences,
        .count = w->sequences,
        .in = d->in,
        .n = d->out,
        .x = (const float *)(const void *)w->e->room.tail[i % 2].base,
        .w = d->w,
        .bias = d->bias,
        .act = d->act,
        .normalize = normalize,
        .out = last && w->p->to ? w->p->to : (float *)(void *)w->e->room.tail[(i + 1) % 2].base,
        .pdl = w->e->pdl,
    };

    if (!w->error)
        (void)pass_good(w, gk_dense(&g, w->e->stream));
}

static size_t tail_steps(const struct model *m, enum eng_want want)
{
    return want == ENG_SCORES ? 2 : m->dense_count;
}

static void run_tail(struct forward_way *w)
{
    const struct model *m = w->e->base.model;
    size_t steps = tail_steps(m, w->p->want);
    bool scores = w->p->want == ENG_SCORES, normalize = m->normalize && !scores;

    pool_rows(w, scores, normalize && !steps, !steps);
    for (size_t i = 0; i < steps; i++)
        dense_layer(w, scores ? &w->e->head[i] : &w->e->dense[i], i, normalize && i + 1 == steps,
                    i + 1 == steps);
}

float *net_result(struct cuda_net *e, enum eng_want want)
{
    return (float *)(void *)e->room.tail[tail_steps(e->base.model, want) % 2].base;
}

cudaError_t net_forward(struct cuda_net *e, const struct cu_pass *p)
{
    struct forward_way w = { .e = e, .p = p, .error = cudaSuccess };

    static_assert((int)GK_POOL_WEIGHTED == (int)MODEL_POOL_WEIGHTED, "kinds of pooling agree");
    static_assert((int)GK_REACH == (int)MPNET_REACH, "reaches of relative distances agree");
    assert((size_t)p->tokens <= e->room.tokens && (size_t)p->sequences <= e->room.sequences);
    if (p->counted) {
        w.rows = &pass_counts(p)->tokens;
        w.sequences = &pass_counts(p)->sequences;
        w.tiles = &pass_counts(p)->tiles;
    }
    w.fp8 = e->dtype == ENG_FP8 && !p->in16;
    w.skinny = p->tokens <= GK_SKINNY_ROWS && !e->invariant;
    mark_step(&w, -1);
    embed_tokens(&w);
    mark_step(&w, STOKER_CUDA_EMBED);
    for (size_t i = 0; i < e->base.model->layers && !w.error; i++)
        run_layer(&w, i);
    if (p->want != ENG_TOKENS && !w.error)
        run_tail(&w);
    mark_step(&w, STOKER_CUDA_TAIL);
    return w.error;
}
