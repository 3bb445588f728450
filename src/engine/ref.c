/* SPDX-License-Identifier: MIT */
/* ref: the encoder as a definition.
 *
 * Plain loops over one sequence at a time, meant to be read: every faster implementation
 * is compared with this one.  Weights, activations and results are f32; inside a sum, a
 * softmax or a LayerNorm numbers are double and run in index order, so that what is left
 * is the rounding of the f32 values that pass from one step to the next, and the bits of
 * a sequence cannot depend on its neighbours in a batch.  (Measured against torch's f32 on
 * real MiniLM weights: 1.5e-7 at most with sums in double, 2.9e-7 with sums in f32.)
 *
 * With x [n][hidden] the block is post-norm:
 *
 *     x = LN(word[id] + type[t] + position[p])
 *     each layer:
 *       q, k, v = x Wq' + bq, x Wk' + bk, x Wv' + bv
 *       a = softmax_row(q k' / sqrt(head_dim) + bias of the distance) v     for each head
 *       x = LN(x + a Wo' + bo)
 *       x = LN(x + act(x W1' + b1) W2' + b2) */
#include "base/mem.h"
#include "engine/engine_int.h"

#include <assert.h>
#include <math.h>

enum { REF_TOGETHER = 4 }; /* tokens that share one pass over a row of weights */

struct ref {
    struct eng base;
    float *global[W_ROLES];    /* roles of the whole model, owned; NULL: it has none */
    float *(*layers)[W_ROLES]; /* [layers], owned */
    float *rel;                /* MPNet: [heads][2 * MPNET_REACH + 1], owned; else NULL */
    struct eng_tail *tail;     /* owned */
};

/* Room for one sequence of n tokens. */
struct ref_room {
    float *x;               /* [n][hidden] the hidden states */
    float *q, *k, *v, *att; /* [n][heads * head_dim] */
    float *sub;             /* [n][hidden] what a sub-layer adds */
    float *ffn;             /* [n][ffn] */
    double *scores;         /* [n] one query's */
    uint32_t *positions;    /* [n] */
    float *tail;            /* eng_tail_room() */
};

static void room_init(struct ref_room *r, const struct model *m, size_t n)
{
    size_t wide = m->heads * m->head_dim;

    r->x = xcalloc(n * m->hidden, sizeof(float));
    r->q = xcalloc(n * wide, sizeof(float));
    r->k = xcalloc(n * wide, sizeof(float));
    r->v = xcalloc(n * wide, sizeof(float));
    r->att = xcalloc(n * wide, sizeof(float));
    r->sub = xcalloc(n * m->hidden, sizeof(float));
    r->ffn = xcalloc(n * m->ffn, sizeof(float));
    r->scores = xcalloc(n, sizeof(double));
    r->positions = xcalloc(n, sizeof(uint32_t));
    r->tail = xcalloc(eng_tail_room(m), sizeof(float));
}

static void room_release(struct ref_room *r)
{
    free(r->x);
    free(r->q);
    free(r->k);
    free(r->v);
    free(r->att);
    free(r->sub);
    free(r->ffn);
    free(r->scores);
    free(r->positions);
    free(r->tail);
}

/* y[n][out] = x[n][in] w[out][in]' + bias[out].  Each sum runs over k from 0: taking
 * several tokens at once changes the speed and no result. */
static void linear_layer(const float *x, size_t n, const float *w, const float *bias, size_t in,
                         size_t out, float *y)
{
    for (size_t o = 0; o < out; o++) {
        const float *row = w + o * in;

        for (size_t t = 0; t < n; t += REF_TOGETHER) {
            size_t some = n - t < REF_TOGETHER ? n - t : REF_TOGETHER;
            double sum[REF_TOGETHER] = { 0 };

            for (size_t k = 0; k < in; k++)
                for (size_t i = 0; i < some; i++)
                    sum[i] += (double)row[k] * (double)x[(t + i) * in + k];
            for (size_t i = 0; i < some; i++)
                y[(t + i) * out + o] = (float)(sum[i] + (double)bias[o]);
        }
    }
}

/* Each row of x: (x - mean) / sqrt(variance + eps) * gain + bias. */
static void layer_norm(float *x, size_t n, size_t hidden, float eps, const float *gain,
                       const float *bias)
{
    for (size_t t = 0; t < n; t++, x += hidden) {
        double mean = 0, var = 0, scale;

        for (size_t c = 0; c < hidden; c++)
            mean += (double)x[c];
        mean /= (double)hidden;
        for (size_t c = 0; c < hidden; c++)
            var += ((double)x[c] - mean) * ((double)x[c] - mean);
        scale = 1.0 / sqrt(var / (double)hidden + (double)eps);
        for (size_t c = 0; c < hidden; c++)
            x[c] = (float)(((double)x[c] - mean) * scale * (double)gain[c] + (double)bias[c]);
    }
}

/* x = LN(x + sub) */
static void add_norm(const struct model *m, struct ref_room *r, size_t n, const float *gain,
                     const float *bias)
{
    for (size_t i = 0; i < n * m->hidden; i++)
        r->x[i] += r->sub[i];
    layer_norm(r->x, n, m->hidden, m->ln_eps, gain, bias);
}

static float apply_activation(enum model_act act, double x)
{
    switch (act) {
    case MODEL_GELU:
        return (float)(0.5 * x * (1.0 + erf(x * M_SQRT1_2)));
    case MODEL_GELU_TANH:
        return (float)(0.5 * x * (1.0 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x))));
    case MODEL_RELU:
        break;
    }
    return (float)(x > 0 ? x : 0);
}

static void softmax_row(double *s, size_t n)
{
    double max = s[0], sum = 0;

    for (size_t j = 1; j < n; j++)
        max = s[j] > max ? s[j] : max;
    for (size_t j = 0; j < n; j++) {
        s[j] = exp(s[j] - max);
        sum += s[j];
    }
    for (size_t j = 0; j < n; j++)
        s[j] /= sum;
}

static double rel_bias(const struct ref *e, size_t head, size_t i, size_t j)
{
    ptrdiff_t d = (ptrdiff_t)j - (ptrdiff_t)i;

    if (!e->rel)
        return 0;
    d = d > MPNET_REACH ? MPNET_REACH : d < -MPNET_REACH ? -MPNET_REACH : d;
    return (double)e->rel[head * (2 * MPNET_REACH + 1) + (size_t)(d + MPNET_REACH)];
}

/* att[i] = sum over j of softmax_row(q[i] k[j] / sqrt(d))[j] v[j], for token i of one head. */
static void attend_head(const struct ref *e, struct ref_room *r, size_t n, size_t head, size_t i)
{
    const struct model *m = e->base.model;
    size_t d = m->head_dim, wide = m->heads * d, at = head * d;
    double scale = 1.0 / sqrt((double)d);

    for (size_t j = 0; j < n; j++) {
        double dot = 0;

        for (size_t c = 0; c < d; c++)
            dot += (double)r->q[i * wide + at + c] * (double)r->k[j * wide + at + c];
        r->scores[j] = dot * scale + rel_bias(e, head, i, j);
    }
    softmax_row(r->scores, n);
    for (size_t c = 0; c < d; c++) {
        double sum = 0;

        for (size_t j = 0; j < n; j++)
            sum += r->scores[j] * (double)r->v[j * wide + at + c];
        r->att[i * wide + at + c] = (float)sum;
    }
}

static void embed_tokens(const struct ref *e, const uint32_t *ids, const uint8_t *types, size_t n,
                         struct ref_room *r)
{
    const struct model *m = e->base.model;
    size_t hidden = m->hidden;

    eng_positions(m, ids, n, r->positions);
    for (size_t t = 0; t < n; t++) {
        const float *word = e->global[W_WORD] + ids[t] * hidden;
        const float *position = e->global[W_POSITION] + r->positions[t] * hidden;
        const float *type = e->global[W_TYPE];

        type = type && types ? type + types[t] * hidden : type;
        for (size_t c = 0; c < hidden; c++)
            r->x[t * hidden + c] = word[c] + (type ? type[c] : 0) + position[c];
    }
    layer_norm(r->x, n, hidden, m->ln_eps, e->global[W_EMB_LN_G], e->global[W_EMB_LN_B]);
}

static void layer_run(const struct ref *e, float *const *w, struct ref_room *r, size_t n)
{
    const struct model *m = e->base.model;
    size_t wide = m->heads * m->head_dim;

    linear_layer(r->x, n, w[W_Q], w[W_Q_B], m->hidden, wide, r->q);
    linear_layer(r->x, n, w[W_K], w[W_K_B], m->hidden, wide, r->k);
    linear_layer(r->x, n, w[W_V], w[W_V_B], m->hidden, wide, r->v);
    for (size_t head = 0; head < m->heads; head++)
        for (size_t i = 0; i < n; i++)
            attend_head(e, r, n, head, i);
    linear_layer(r->att, n, w[W_O], w[W_O_B], wide, m->hidden, r->sub);
    add_norm(m, r, n, w[W_ATT_LN_G], w[W_ATT_LN_B]);

    linear_layer(r->x, n, w[W_FFN1], w[W_FFN1_B], m->hidden, m->ffn, r->ffn);
    for (size_t i = 0; i < n * m->ffn; i++)
        r->ffn[i] = apply_activation(m->act, (double)r->ffn[i]);
    linear_layer(r->ffn, n, w[W_FFN2], w[W_FFN2_B], m->ffn, m->hidden, r->sub);
    add_norm(m, r, n, w[W_OUT_LN_G], w[W_OUT_LN_B]);
}

static enum rc ref_run(struct eng *base, const struct eng_batch *b, enum eng_want want, float *out,
                       struct err *err)
{
    const struct ref *e = (const struct ref *)base;
    const struct model *m = base->model;
    size_t width = eng_width(m, want);

    (void)err;
    for (size_t s = 0; s < b->sequences; s++) {
        size_t first = b->starts[s], n = b->starts[s + 1] - first;
        size_t row = want == ENG_TOKENS ? first : s;
        struct eng_rows rows = { .ld = m->hidden, .count = n, .skip = b->skip ? b->skip[s] : 0 };
        struct ref_room room;

        room_init(&room, m, n);
        embed_tokens(e, b->ids + first, b->types ? b->types + first : NULL, n, &room);
        for (size_t l = 0; l < m->layers; l++)
            layer_run(e, e->layers[l], &room, n);
        rows.x = room.x;
        eng_tail_run(e->tail, want, &rows, room.tail, out + row * width);
        room_release(&room);
    }
    return RC_OK;
}

/* ---- loading */

static enum rc read_role(const struct model *m, enum model_role role, size_t layer, float **out,
                         struct err *err)
{
    struct eng_shape s = eng_weight_shape(m, role);
    float *w;
    enum rc rc;

    if (s.rows == 0)
        return RC_OK;
    w = xcalloc(s.rows * s.cols, sizeof(*w));
    rc = eng_weight(m, role, layer, w, s.rows * s.cols, err);
    if (rc != RC_OK) {
        free(w);
        return rc;
    }
    *out = w;
    return RC_OK;
}

static enum rc read_all(struct ref *e, const struct model *m, struct err *err)
{
    enum rc rc = RC_OK;

    for (int role = W_WORD; rc == RC_OK && role <= W_EMB_LN_B; role++)
        rc = read_role(m, (enum model_role)role, 0, &e->global[role], err);
    for (size_t l = 0; l < m->layers; l++)
        for (int role = W_Q; rc == RC_OK && role <= W_OUT_LN_B; role++)
            rc = read_role(m, (enum model_role)role, l, &e->layers[l][role], err);
    if (rc == RC_OK && m->rel_buckets) {
        e->rel = xcalloc(m->heads * (2 * MPNET_REACH + 1), sizeof(*e->rel));
        rc = eng_rel_bias(m, e->rel, err);
    }
    return rc == RC_OK ? eng_tail_load(m, &e->tail, err) : rc;
}

static void ref_unload(struct eng *base)
{
    struct ref *e = (struct ref *)base;

    if (!e)
        return;
    for (int role = 0; role < W_ROLES; role++)
        free(e->global[role]);
    for (size_t l = 0; l < e->base.model->layers; l++)
        for (int role = 0; role < W_ROLES; role++)
            free(e->layers[l][role]);
    free(e->layers);
    free(e->rel);
    eng_tail_free(e->tail);
    free(e);
}

static enum rc ref_load(const struct model *m, const struct eng_opts *o, struct eng **out,
                        struct err *err)
{
    struct ref *e;
    enum rc rc;

    if (o->dtype != ENG_AUTO && o->dtype != ENG_F32)
        return err_set(err, RC_USAGE, "device 'ref' computes in f32 alone");
    e = xcalloc(1, sizeof(*e));
    e->base = (struct eng){ .ops = &eng_ref, .model = m };
    e->layers = xcalloc(m->layers, sizeof(*e->layers));
    rc = read_all(e, m, err);
    if (rc != RC_OK) {
        ref_unload(&e->base);
        return rc;
    }
    *out = &e->base;
    return RC_OK;
}

static int ref_score(void)
{
    return 1;
}

static uint64_t ref_memory(const struct model *m, const struct eng_opts *o)
{
    uint64_t floats = 0;

    (void)o;
    for (int role = 0; role < W_HEAD1; role++) {
        struct eng_shape s = eng_weight_shape(m, (enum model_role)role);
        uint64_t times = role < W_Q ? 1 : m->layers;

        floats += times * s.rows * s.cols;
    }
    return floats * sizeof(float) + eng_tail_bytes(m);
}

static void ref_describe(const struct eng *e, char *out, size_t cap)
{
    (void)e;
    (void)snprintf(out, cap, "scalar f32, 1 thread");
}

const struct eng_ops eng_ref = {
    .name = "ref",
    .score = ref_score,
    .load = ref_load,
    .unload = ref_unload,
    .run = ref_run,
    .memory = ref_memory,
    .describe = ref_describe,
};
