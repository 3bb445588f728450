/* SPDX-License-Identifier: MIT */
/* pool: from the last hidden states of one sequence to a vector or scores.
 *
 * Sums run in double, in the order of the tokens, whatever the device computed before:
 * the result depends on the sequence alone. */
#include "base/mem.h"
#include "engine/engine.h"

#include <assert.h>
#include <math.h>

enum { POOL_BLOCK = 16 }; /* columns summed together: one cache line of f32 */

/* Sum over tokens of `width` neighbouring columns, times `scale`. */
static void sum_columns(const float *tokens, size_t count, size_t hidden, size_t width,
                        double divisor, float *out)
{
    double sum[POOL_BLOCK] = { 0 };

    for (size_t t = 0; t < count; t++)
        for (size_t c = 0; c < width; c++)
            sum[c] += (double)tokens[t * hidden + c];
    for (size_t c = 0; c < width; c++)
        out[c] = (float)(sum[c] / divisor);
}

static void pool_sum(const float *tokens, size_t count, size_t hidden, double divisor, float *out)
{
    for (size_t c = 0; c < hidden; c += POOL_BLOCK) {
        size_t width = hidden - c < POOL_BLOCK ? hidden - c : POOL_BLOCK;

        sum_columns(tokens + c, count, hidden, width, divisor, out + c);
    }
}

static void pool_max(const float *tokens, size_t count, size_t hidden, float *out)
{
    memcpy(out, tokens, hidden * sizeof(*out));
    for (size_t t = 1; t < count; t++)
        for (size_t c = 0; c < hidden; c++) {
            float x = tokens[t * hidden + c];

            if (x > out[c] || isnan(x)) /* a NaN must not vanish here */
                out[c] = x;
        }
}

void eng_pool(enum model_pool kind, const float *tokens, size_t count, size_t hidden, float *out)
{
    assert(count > 0); /* so the reference's clamp of the count to 1e-9 never acts */
    switch (kind) {
    case MODEL_POOL_MEAN:
        pool_sum(tokens, count, hidden, (double)count, out);
        break;
    case MODEL_POOL_MEAN_SQRT:
        pool_sum(tokens, count, hidden, sqrt((double)count), out);
        break;
    case MODEL_POOL_MAX:
        pool_max(tokens, count, hidden, out);
        break;
    case MODEL_POOL_CLS:
        memcpy(out, tokens, hidden * sizeof(*out));
        break;
    case MODEL_POOL_LAST:
        memcpy(out, tokens + (count - 1) * hidden, hidden * sizeof(*out));
        break;
    }
}

void eng_normalize(float *v, size_t n)
{
    double sum = 0, norm;

    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    norm = fmax(sqrt(sum), 1e-12);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] / norm);
}

void eng_truncate(float *v, size_t keep)
{
    eng_normalize(v, keep);
}

float eng_score(enum model_score kind, float logit)
{
    return kind == MODEL_SCORE_SIGMOID ? (float)(1.0 / (1.0 + exp(-(double)logit))) : logit;
}

/* ---- the tail: dense layers and heads */

enum tail_act { TAIL_IDENTITY, TAIL_TANH, TAIL_RELU, TAIL_GELU };

struct tail_linear {
    float *w;    /* [out][in], owned */
    float *bias; /* [out], owned; zeros where the layer has none */
    size_t in, out;
    enum tail_act act;
};

struct eng_tail {
    const struct model *model; /* borrowed */
    struct tail_linear dense[MODEL_DENSE_MAX];
    struct tail_linear head[2]; /* [0].in is 0: no head */
    size_t wide;                /* the widest row that passes through */
};

static void linear_init(struct tail_linear *l, size_t in, size_t out, enum tail_act act)
{
    *l = (struct tail_linear){ .in = in, .out = out, .act = act };
    l->w = xcalloc(in * out, sizeof(*l->w));
    l->bias = xcalloc(out, sizeof(*l->bias));
}

static void linear_release(struct tail_linear *l)
{
    free(l->w);
    free(l->bias);
}

static float activate(enum tail_act act, double x)
{
    switch (act) {
    case TAIL_TANH:
        return (float)tanh(x);
    case TAIL_RELU:
        return (float)(x > 0 ? x : 0);
    case TAIL_GELU:
        return (float)(0.5 * x * (1.0 + erf(x * M_SQRT1_2)));
    case TAIL_IDENTITY:
        break;
    }
    return (float)x;
}

static void linear_run(const struct tail_linear *l, const float *x, float *y)
{
    for (size_t o = 0; o < l->out; o++) {
        double sum = 0;

        for (size_t i = 0; i < l->in; i++)
            sum += (double)l->w[o * l->in + i] * (double)x[i];
        y[o] = activate(l->act, sum + (double)l->bias[o]);
    }
}

static enum rc load_dense(struct eng_tail *t, struct err *err)
{
    static const enum tail_act acts[] = {
        [MODEL_DENSE_IDENTITY] = TAIL_IDENTITY,
        [MODEL_DENSE_TANH] = TAIL_TANH,
        [MODEL_DENSE_RELU] = TAIL_RELU,
        [MODEL_DENSE_GELU] = TAIL_GELU,
    };
    const struct model *m = t->model;

    for (size_t i = 0; i < m->dense_count; i++) {
        const struct model_dense *d = &m->dense[i];

        assert(d->in == (i ? m->dense[i - 1].out : m->hidden));
        linear_init(&t->dense[i], d->in, d->out, acts[d->act]);
        if (eng_dense_weight(m, i, t->dense[i].w, t->dense[i].bias, err) != RC_OK)
            return err_ctx(err, "model '%s'", m->dir);
        t->wide = d->out > t->wide ? d->out : t->wide;
    }
    return RC_OK;
}

static enum rc load_head(struct eng_tail *t, struct err *err)
{
    const struct model *m = t->model;
    enum tail_act act = m->arch == MODEL_DISTILBERT ? TAIL_RELU : TAIL_TANH;
    enum rc rc;

    if (m->head == MODEL_HEAD_NONE)
        return RC_OK;
    linear_init(&t->head[0], m->hidden, m->hidden, act);
    linear_init(&t->head[1], m->hidden, m->labels, TAIL_IDENTITY);
    rc = eng_weight(m, W_HEAD1, 0, t->head[0].w, m->hidden * m->hidden, err);
    if (rc == RC_OK)
        rc = eng_weight(m, W_HEAD1_B, 0, t->head[0].bias, m->hidden, err);
    if (rc == RC_OK)
        rc = eng_weight(m, W_HEAD2, 0, t->head[1].w, m->labels * m->hidden, err);
    if (rc == RC_OK)
        rc = eng_weight(m, W_HEAD2_B, 0, t->head[1].bias, m->labels, err);
    return rc;
}

enum rc eng_tail_load(const struct model *m, struct eng_tail **out, struct err *err)
{
    struct eng_tail *t = xcalloc(1, sizeof(*t));
    enum rc rc;

    t->model = m;
    t->wide = m->hidden;
    rc = load_dense(t, err);
    if (rc == RC_OK)
        rc = load_head(t, err);
    if (rc != RC_OK) {
        eng_tail_free(t);
        return rc;
    }
    *out = t;
    return RC_OK;
}

void eng_tail_free(struct eng_tail *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(t->dense); i++)
        linear_release(&t->dense[i]);
    for (size_t i = 0; i < ARRAY_SIZE(t->head); i++)
        linear_release(&t->head[i]);
    free(t);
}

uint64_t eng_tail_bytes(const struct model *m)
{
    uint64_t floats = 0;

    for (size_t i = 0; i < m->dense_count; i++)
        floats += (uint64_t)m->dense[i].out * (m->dense[i].in + 1);
    if (m->head != MODEL_HEAD_NONE)
        floats += ((uint64_t)m->hidden + m->labels) * (m->hidden + 1);
    return floats * sizeof(float);
}

static void run_vector(const struct eng_tail *t, const float *tokens, size_t count, float *out)
{
    const struct model *m = t->model;
    float *room = xcalloc(2 * t->wide, sizeof(*room));
    float *x = room, *y = room + t->wide;

    eng_pool(m->pool, tokens, count, m->hidden, x);
    for (size_t i = 0; i < m->dense_count; i++) {
        float *was = x;

        linear_run(&t->dense[i], x, y);
        x = y;
        y = was;
    }
    if (m->normalize)
        eng_normalize(x, eng_dim(m));
    memcpy(out, x, eng_dim(m) * sizeof(*out));
    free(room);
}

static void run_scores(const struct eng_tail *t, const float *first, float *out)
{
    float *x = xcalloc(t->wide, sizeof(*x));

    assert(t->head[0].in > 0);
    linear_run(&t->head[0], first, x);
    linear_run(&t->head[1], x, out);
    free(x);
}

void eng_tail_run(const struct eng_tail *t, enum eng_want want, const float *tokens, size_t count,
                  float *out)
{
    switch (want) {
    case ENG_VECTORS:
        run_vector(t, tokens, count, out);
        break;
    case ENG_SCORES:
        run_scores(t, tokens, out); /* every head looks at the first token */
        break;
    case ENG_TOKENS:
        memcpy(out, tokens, count * t->model->hidden * sizeof(*out));
        break;
    }
}
