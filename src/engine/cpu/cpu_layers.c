/* SPDX-License-Identifier: MIT */
/* cpu_layers: spans of sequences through the network.
 *
 * A span is worked on by one thread alone, in its own room, or by the whole team in the
 * first room with a barrier between steps.  Alone is faster when there are enough spans:
 * activations stay in the core's own cache and nobody waits.  The team serves what is
 * left: one text, or few short ones, where every thread then reads its share of each
 * weight.  Both give the same bits: the team divides columns and heads, never a sum. */
#include "engine/cpu/cpu_net_int.h"

#include <math.h>

/* Who works on a span, and where. */
struct layer_team {
    const struct cpu_net *e;
    const struct net_room *room;
    const struct net_att *att; /* this thread's */
    size_t rank, size;
};

static void team_meet(const struct layer_team *t)
{
    if (t->size > 1)
        cpu_pool_barrier(t->e->pool);
}

/* This member's part of n things. */
static void team_share(const struct layer_team *t, size_t n, size_t *first, size_t *end)
{
    *first = n * t->rank / t->size;
    *end = n * (t->rank + 1) / t->size;
}

/* Columns are divided first: a member then reads its part of the weights and no more.  With
 * more members than panels rows are divided too, between blocks: a bare product is stored by
 * whole ones. */
static void multiply_panels(const struct layer_team *t, const struct cpu_gemm *g,
                            const struct cpu_job *j)
{
    size_t panels = (j->n + g->nr - 1) / g->nr;
    size_t by_col = t->size < panels ? t->size : panels, by_row = t->size / by_col;
    size_t col = t->rank % by_col, row = t->rank / by_col, blocks = (j->m + g->mr - 1) / g->mr;
    size_t first = blocks * row / by_row * g->mr, end = blocks * (row + 1) / by_row * g->mr;

    if (row < by_row && first < end)
        g->run(j, first, end < j->m ? end : j->m, panels * col / by_col,
               panels * (col + 1) / by_col);
}

static struct cpu_job linear_job(const struct net_linear *l, size_t m)
{
    return (struct cpu_job){ .b = l->b,
                             .k = l->k,
                             .n = l->n,
                             .m = m,
                             .bias = l->bias,
                             .col_scale = l->col_scale,
                             .col_sum = l->col_sum };
}

/* Scales of rows from `row` on. */
static void scales_at(const struct layer_team *t, struct cpu_job *j, size_t row)
{
    j->scale = t->room->scale + row;
    j->zero = t->room->zero ? t->room->zero + row : NULL;
}

/* A of `l` = rows of x in the type that its kernel reads. */
static void from_x(const struct layer_team *t, const struct net_linear *l, struct cpu_job *j,
                   size_t row)
{
    const struct cpu_net *e = t->e;
    enum cpu_elem a = net_kernel(e, l)->a;

    if (a == CPU_E_F32) {
        j->a = t->room->x + row * e->ld_x;
        j->lda = e->ld_x * sizeof(float);
    } else if (a == CPU_E_BF16) {
        j->a = t->room->half + row * e->ld_half;
        j->lda = e->ld_half * sizeof(uint16_t);
    } else {
        j->a = t->room->ints + row * e->ld_ints;
        j->lda = e->ld_ints;
        scales_at(t, j, row);
    }
}

/* A row of `l`'s A as the integers that its kernel reads; `row` is its place in `scale`. */
static void to_integers(const struct layer_team *t, const struct net_linear *l, const void *x,
                        enum cpu_elem elem, size_t n, void *q, size_t row)
{
    const struct cpu_net *e = t->e;
    const struct net_room *r = t->room;
    enum cpu_elem a = net_kernel(e, l)->a;

    if (a == CPU_E_S16)
        e->vec->words(x, elem, n, q, r->scale + row);
    else if (a == CPU_E_SPLIT)
        e->vec->split(x, elem, n, l->k, q, r->scale + row);
    else
        e->vec->quantize(x, elem, l->mul, n, l->block, t->att->turned, q, r->scale + row,
                         r->zero + row);
}

/* y = a product + x, or only the product where that is faster: normalize_rows() adds the rest. */
static void onto_y(const struct layer_team *t, struct cpu_job *j, size_t row)
{
    const struct cpu_net *e = t->e;

    j->out = t->room->y + row * e->ld_x;
    j->ldo = e->ld_x;
    j->whole = e->bare;
    if (e->bare) {
        j->bias = NULL;
        return;
    }
    j->add = t->room->x + row * e->ld_x;
    j->ld_add = e->ld_x;
}

/* x = LN(y) for rows [first, end), and x once more as A of `next`, if there is a next.  `from`
 * is the layer that gave y, NULL: none did. */
static void normalize_rows(const struct layer_team *t, const struct net_norm *n,
                           const struct net_linear *from, const struct net_linear *next,
                           size_t first, size_t end)
{
    const struct cpu_net *e = t->e;
    const struct net_room *r = t->room;
    size_t hidden = e->base.model->hidden;

    for (size_t i = first; i < end; i++) {
        float *x = r->x + i * e->ld_x;
        const float *late = e->bare && from ? from->bias : NULL;
        e->vec->layernorm(r->y + i * e->ld_x, late ? x : NULL, late, hidden, n->gain, n->bias,
                          e->base.model->ln_eps, x,
                          r->half && next ? r->half + i * e->ld_half : NULL);
        if (r->ints && next)
            to_integers(t, next, x, CPU_E_F32, hidden, r->ints + i * e->ld_ints, i);
    }
}

static void embed_tokens(const struct layer_team *t, const struct eng_batch *b, size_t base,
                         size_t first, size_t end)
{
    const struct cpu_net *e = t->e;
    size_t hidden = e->base.model->hidden, word = e->table == CPU_E_F32 ? 4 : 2;

    for (size_t i = first; i < end; i++) {
        size_t type = b->types ? b->types[base + i] : 0;
        e->vec->embed((const char *)e->word + b->ids[base + i] * hidden * word, e->table,
                      e->type ? e->type + type * hidden : NULL,
                      e->position + t->room->positions[i] * hidden, hidden,
                      t->room->y + i * e->ld_x);
    }
    normalize_rows(t, &e->emb, NULL, &e->layers[0].qkv, first, end);
}

/* ---- attention */

/* One head of one sequence: rows [row, row + n) of qkv. */
struct head {
    size_t row, n, head;
};

static const void *head_part(const struct layer_team *t, const struct head *h, size_t part)
{
    const struct cpu_net *e = t->e;
    size_t bytes = e->act == CPU_E_F32 ? 4 : 2;
    size_t at = h->row * e->ld_qkv + part * e->wide + h->head * e->base.model->head_dim;

    return (const char *)t->room->qkv + at * bytes;
}

/* bias[n - 1 + (j - i)], so that a query's row is contiguous. */
static void spread_bias(const struct layer_team *t, const struct head *h)
{
    const float *row = t->e->rel + h->head * (2 * MPNET_REACH + 1);

    for (size_t x = 0; x < 2 * h->n - 1; x++) {
        ptrdiff_t d = (ptrdiff_t)x - (ptrdiff_t)(h->n - 1);
        d = d > MPNET_REACH ? MPNET_REACH : d < -MPNET_REACH ? -MPNET_REACH : d;
        t->att->bias[x] = row[MPNET_REACH + d];
    }
}

/* Queries [q, q + rows): scores, softmax, the weighted sum of values. */
static void attend_queries(const struct layer_team *t, const struct head *h, size_t q, size_t rows)
{
    const struct cpu_net *e = t->e;
    const struct cpu_gemm *g = e->att;
    size_t d = e->base.model->head_dim, act = e->act == CPU_E_F32 ? 4 : 2;
    size_t kn = cpu_round_up(h->n, g->kstep);
    struct cpu_job s = { .a = (const char *)head_part(t, h, 0) + q * e->ld_qkv * act,
                         .lda = e->ld_qkv * act,
                         .b = t->att->keys,
                         .k = cpu_round_up(d, g->kstep),
                         .n = h->n,
                         .m = rows,
                         .out = t->att->scores,
                         .ldo = e->ld_scores,
                         .whole = true };
    struct cpu_job v = { .a = t->att->probs,
                         .lda = e->ld_probs * act,
                         .b = t->att->values,
                         .k = kn,
                         .n = d,
                         .m = rows,
                         .row_mul = t->att->sums,
                         .out_elem = e->act,
                         .ldo = e->ld_ctx };

    g->run(&s, 0, rows, 0, (h->n + g->nr - 1) / g->nr);
    for (size_t i = 0; i < rows; i++)
        t->att->sums[i] =
            e->vec->softmax(t->att->scores + i * e->ld_scores, h->n, kn, 1.0f / sqrtf((float)d),
                            t->att->bias ? t->att->bias + (h->n - 1 - (q + i)) : NULL,
                            (char *)t->att->probs + i * e->ld_probs * act, e->act);
    v.out = (char *)t->room->ctx + ((h->row + q) * e->ld_ctx + h->head * d) * act;
    g->run(&v, 0, rows, 0, (d + g->nr - 1) / g->nr);
}

static void attend_head(const struct layer_team *t, const struct head *h)
{
    const struct cpu_net *e = t->e;
    const struct cpu_gemm *g = e->att;
    size_t d = e->base.model->head_dim, act = e->act == CPU_E_F32 ? 4 : 2;
    size_t at_once = NET_QUERIES / g->mr * g->mr;

    e->vec->pack_keys(head_part(t, h, 1), e->ld_qkv * act, h->n, d / g->kg,
                      cpu_round_up(d, g->kstep) / g->kg, g->nr, t->att->keys);
    e->vec->pack_values(head_part(t, h, 2), e->ld_qkv * act, h->n, cpu_round_up(h->n, g->kstep), d,
                        g->nr, e->act, t->att->values);
    if (t->att->bias)
        spread_bias(t, h);
    for (size_t q = 0; q < h->n; q += at_once)
        attend_queries(t, h, q, h->n - q < at_once ? h->n - q : at_once);
}

static void attention_span(const struct layer_team *t, const struct eng_batch *b,
                           const struct net_span *s)
{
    size_t heads = t->e->base.model->heads, turn = 0;

    for (size_t i = s->first; i < s->end; i++)
        for (size_t h = 0; h < heads; h++)
            if (turn++ % t->size == t->rank)
                attend_head(t, &(struct head){ .row = b->starts[i] - b->starts[s->first],
                                               .n = b->starts[i + 1] - b->starts[i],
                                               .head = h });
}

/* ---- the layer */

/* A = rows of ctx, first made integers where the kernel wants them. */
static void output_product(const struct layer_team *t, const struct net_layer *l, size_t row,
                           size_t m)
{
    const struct cpu_net *e = t->e;
    const struct net_room *r = t->room;
    size_t act = e->act == CPU_E_F32 ? 4 : 2, first, end;
    struct cpu_job j = linear_job(&l->o, m);

    j.a = (const char *)r->ctx + row * e->ld_ctx * act;
    j.lda = e->ld_ctx * act;
    if (net_by_integers(e->lin)) {
        team_share(t, m, &first, &end);
        for (size_t i = row + first; i < row + end; i++)
            to_integers(t, &l->o, (const char *)r->ctx + i * e->ld_ctx * act, e->act, e->wide,
                        r->ints + i * e->ld_ints, i);
        team_meet(t);
        from_x(t, &l->o, &j, row);
    }
    onto_y(t, &j, row);
    multiply_panels(t, e->lin, &j);
    team_meet(t);
    team_share(t, m, &first, &end);
    normalize_rows(t, &l->att, &l->o, &l->ffn1, row + first, row + end);
    team_meet(t);
}

static void feed_forward(const struct layer_team *t, const struct net_layer *l, size_t row,
                         size_t m)
{
    const struct cpu_net *e = t->e;
    const struct net_room *r = t->room;
    bool last = l == &e->layers[e->base.model->layers - 1];
    const struct net_linear *next = last ? NULL : &l[1].qkv;
    size_t act = e->act == CPU_E_F32 ? 4 : 2, first, end;
    struct cpu_job up = linear_job(&l->ffn1, m), down = linear_job(&l->ffn2, m);

    from_x(t, &l->ffn1, &up, row);
    up.act = e->ffn_act;
    up.out = r->mid;
    up.ldo = e->ld_mid;
    up.out_elem = e->act;
    multiply_panels(t, e->lin_normed, &up);
    team_meet(t);
    team_share(t, m, &first, &end);
    down.a = r->mid;
    down.lda = e->ld_mid * act;
    if (r->mid_ints) {
        for (size_t i = first; i < end; i++)
            to_integers(t, &l->ffn2, (const char *)r->mid + i * e->ld_mid * act, e->act, l->ffn1.n,
                        r->mid_ints + i * e->ld_mid_ints, row + i);
        team_meet(t);
        down.a = r->mid_ints;
        down.lda = e->ld_mid_ints;
        scales_at(t, &down, row);
    }
    onto_y(t, &down, row);
    multiply_panels(t, e->lin, &down);
    team_meet(t);
    normalize_rows(t, &l->out, &l->ffn2, next, row + first, row + end);
    team_meet(t);
}

static void layer_run(const struct layer_team *t, const struct net_layer *l,
                      const struct eng_batch *b, const struct net_span *s)
{
    const struct cpu_net *e = t->e;
    size_t m = b->starts[s->end] - b->starts[s->first];
    struct cpu_job j = linear_job(&l->qkv, m);

    from_x(t, &l->qkv, &j, 0);
    j.out = t->room->qkv;
    j.ldo = e->ld_qkv;
    j.out_elem = e->act;
    multiply_panels(t, e->lin_normed, &j);
    team_meet(t);
    attention_span(t, b, s);
    team_meet(t);
    for (size_t row = 0; row < m; row += NET_ROWS) {
        size_t some = m - row < NET_ROWS ? m - row : NET_ROWS;
        output_product(t, l, row, some);
        feed_forward(t, l, row, some);
    }
}

/* ---- spans */

static void finish_span(const struct layer_team *t, const struct net_work *w,
                        const struct net_span *s)
{
    const struct cpu_net *e = t->e;
    const struct eng_batch *b = w->batch;
    size_t width = eng_width(e->base.model, w->want);

    for (size_t i = s->first + t->rank; i < s->end; i += t->size) {
        size_t at = w->want == ENG_TOKENS ? b->starts[i] : i;
        struct eng_rows rows = { .x = t->room->x + (b->starts[i] - b->starts[s->first]) * e->ld_x,
                                 .ld = e->ld_x,
                                 .count = b->starts[i + 1] - b->starts[i],
                                 .skip = b->skip ? b->skip[i] : 0 };
        eng_tail_run(e->tail, w->want, &rows, t->att->tail, w->out + at * width);
    }
}

static void run_span(const struct layer_team *t, const struct net_work *w, const struct net_span *s)
{
    const struct eng_batch *b = w->batch;
    size_t base = b->starts[s->first], m = b->starts[s->end] - base, first, end;

    for (size_t i = s->first; t->rank == 0 && i < s->end; i++)
        eng_positions(t->e->base.model, b->ids + b->starts[i], b->starts[i + 1] - b->starts[i],
                      t->room->positions + (b->starts[i] - base));
    team_meet(t);
    team_share(t, m, &first, &end);
    embed_tokens(t, b, base, first, end);
    team_meet(t);
    for (size_t i = 0; i < t->e->base.model->layers; i++)
        layer_run(t, &t->e->layers[i], b, s);
    finish_span(t, w, s);
    team_meet(t);
}

void net_work_task(void *work, size_t rank)
{
    struct net_work *w = work;
    const struct cpu_net *e = w->e;
    struct layer_team all = { e, &e->rooms[0], &e->heads[rank], rank, e->threads };
    struct layer_team alone = { e, &e->rooms[rank], &e->heads[rank], 0, 1 };

    for (size_t i = 0; i < e->spans_count; i++)
        if (e->spans[i].team)
            run_span(&all, w, &e->spans[i]);
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < e->spans_count;)
        if (!e->spans[i].team)
            run_span(&alone, w, &e->spans[i]);
    if (e->lin->rest)
        e->lin->rest();
    if (e->att->rest)
        e->att->rest();
}
