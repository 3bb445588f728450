/* SPDX-License-Identifier: MIT */
/* pool: from the last hidden states of one sequence to a vector or scores.
 *
 * Every sum has one order, whatever the device computed before: the result depends on the
 * sequence alone.  Pooling sums over tokens in double; a layer's output is four sums in
 * f32, of every fourth product.
 *
 * Nothing here allocates or keeps state once loaded: threads that bring their own room
 * may run one tail together. */
#include "base/mem.h"
#include "engine/engine_int.h"

#include <assert.h>
#include <math.h>

enum {
    LANES = 16, /* floats of a cache line */
    SPLIT = 4,  /* sums that an output is made of */
    BLOCK = 4   /* lines of a row that pooling sums together */
};

/* LANES neighbours, wherever they begin; compilers cut them to what the CPU has. */
typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));
typedef double wide __attribute__((vector_size(LANES * sizeof(double))));

/* Compiled for each of these too; the loader takes the best that this CPU has.  It chooses
 * before ThreadSanitizer is there, whose checks in the chooser then end the program. */
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CLONES
#endif

/* ---- pooling */

/* `lines` lines of columns from `at` on: the sum of the rows, row t times t + 1 when
 * `weighted`, divided. */
ALWAYS_INLINE void sum_columns(const struct eng_rows *r, size_t at, size_t lines, bool weighted,
                               double divisor, float *out)
{
    wide sum[BLOCK] = { 0 };

    for (size_t t = r->skip; t < r->count; t++) {
        const float *x = r->x + t * r->ld + at;
#pragma GCC unroll 4
        for (size_t i = 0; i < lines; i++) {
            wide v = __builtin_convertvector(*(const lanes *)(x + i * LANES), wide);

            sum[i] += weighted ? v * (double)(t + 1) : v;
        }
    }
    for (size_t i = 0; i < lines; i++)
        *(lanes *)(out + at + i * LANES) = __builtin_convertvector(sum[i] / divisor, lanes);
}

CLONES static void pool_sum(const struct eng_rows *r, size_t hidden, bool weighted, double divisor,
                            float *out)
{
    size_t c = 0;

    for (; c + BLOCK * LANES <= hidden; c += BLOCK * LANES)
        sum_columns(r, c, BLOCK, weighted, divisor, out);
    for (; c + LANES <= hidden; c += LANES)
        sum_columns(r, c, 1, weighted, divisor, out);
    for (; c < hidden; c++) {
        double sum = 0;

        for (size_t t = r->skip; t < r->count; t++)
            sum += (double)r->x[t * r->ld + c] * (weighted ? (double)(t + 1) : 1);
        out[c] = (float)(sum / divisor);
    }
}

static void pool_max(const struct eng_rows *r, size_t hidden, float *out)
{
    for (size_t c = 0; c < hidden; c++)
        out[c] = -INFINITY;
    for (size_t t = r->skip; t < r->count; t++)
        for (size_t c = 0; c < hidden; c++) {
            float x = r->x[t * r->ld + c];

            if (x > out[c] || isnan(x)) /* a NaN must not vanish here */
                out[c] = x;
        }
}

/* Where a prompt leaves no token at all, the reference divides a sum of nothing by a clamped
 * count: zeros; and CLS is the first token. */
void eng_pool(enum model_pool kind, const struct eng_rows *r, size_t hidden, float *out)
{
    size_t skip = r->skip < r->count ? r->skip : r->count;
    struct eng_rows kept = { .x = r->x, .ld = r->ld, .count = r->count, .skip = skip };
    double n = (double)(r->count - skip), all = (double)r->count, left = (double)skip;

    assert(r->count > 0);
    switch (kind) {
    case MODEL_POOL_MEAN:
        pool_sum(&kept, hidden, false, fmax(n, 1), out);
        break;
    case MODEL_POOL_MEAN_SQRT:
        pool_sum(&kept, hidden, false, fmax(sqrt(n), 1), out);
        break;
    case MODEL_POOL_WEIGHTED:
        /* weights are places counted from 1, a prompt's too: the sum of skip + 1 .. count */
        pool_sum(&kept, hidden, true, fmax((all * (all + 1) - left * (left + 1)) / 2, 1), out);
        break;
    case MODEL_POOL_MAX:
        pool_max(&kept, hidden, out);
        break;
    case MODEL_POOL_CLS:
        memcpy(out, r->x + (n > 0 ? skip : 0) * r->ld, hidden * sizeof(*out));
        break;
    case MODEL_POOL_LAST:
        memcpy(out, r->x + (r->count - 1) * r->ld, hidden * sizeof(*out));
        if (n == 0)
            memset(out, 0, hidden * sizeof(*out));
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
    void *owned;
    float *w;    /* [out / LANES][in][LANES]: begins on a line, zeros behind the last output */
    float *bias; /* [out], then zeros; all zeros where the layer has none */
    size_t in, out;
    enum tail_act act;
};

struct eng_tail {
    const struct model *model; /* borrowed */
    struct tail_linear dense[MODEL_DENSE_MAX];
    struct tail_linear head[2]; /* [0].in is 0: no head */
};

static size_t linear_floats(size_t in, size_t out)
{
    return (in + 1) * ((out + LANES - 1) / LANES * LANES);
}

static void linear_init(struct tail_linear *l, size_t in, size_t out, enum tail_act act)
{
    size_t line = LANES * sizeof(float);

    *l = (struct tail_linear){ .in = in, .out = out, .act = act };
    l->owned = xcalloc(linear_floats(in, out) + LANES, sizeof(float));
    l->bias = (float *)(((uintptr_t)l->owned + line - 1) / line * line);
    l->w = l->bias + linear_floats(0, out);
}

/* From rows [out][in] as files have them. */
static void linear_pack(struct tail_linear *l, const float *rows)
{
    assert(rows);
    for (size_t o = 0; o < l->out; o++)
        for (size_t k = 0; k < l->in; k++)
            l->w[(o / LANES * l->in + k) * LANES + o % LANES] = rows[o * l->in + k];
}

static void activate_rows(enum tail_act act, float *y, size_t n)
{
    switch (act) {
    case TAIL_TANH:
        for (size_t i = 0; i < n; i++)
            y[i] = (float)tanh((double)y[i]);
        break;
    case TAIL_RELU:
        for (size_t i = 0; i < n; i++)
            y[i] = y[i] > 0 || isnan(y[i]) ? y[i] : 0;
        break;
    case TAIL_GELU:
        for (size_t i = 0; i < n; i++)
            y[i] = (float)(0.5 * (double)y[i] * (1.0 + erf((double)y[i] * M_SQRT1_2)));
        break;
    case TAIL_IDENTITY:
        break;
    }
}

/* y = w x + bias.  Each output is SPLIT sums, of every SPLIT-th product. */
CLONES static void multiply(const struct tail_linear *l, const float *x, float *y)
{
    for (size_t o = 0; o < l->out; o += LANES) {
        const float *w = l->w + o * l->in;
        size_t some = l->out - o < LANES ? l->out - o : LANES;
        lanes sum[SPLIT] = { *(const lanes *)(l->bias + o) };
        size_t k = 0;

        for (; k + SPLIT <= l->in; k += SPLIT)
#pragma GCC unroll 4
            for (size_t i = 0; i < SPLIT; i++)
                sum[i] += *(const lanes *)(w + (k + i) * LANES) * x[k + i];
        for (; k < l->in; k++)
            sum[0] += *(const lanes *)(w + k * LANES) * x[k];
        sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        memcpy(y + o, &sum[0], some * sizeof(*y));
    }
}

static void linear_run(const struct tail_linear *l, const float *x, float *y)
{
    multiply(l, x, y);
    activate_rows(l->act, y, l->out);
}

static enum rc load_dense(struct eng_tail *t, float *rows, struct err *err)
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

        assert(d->in == (i ? m->dense[i - 1].out : model_pool_width(m)));
        linear_init(&t->dense[i], d->in, d->out, acts[d->act]);
        if (eng_dense_weight(m, i, rows, t->dense[i].bias, err) != RC_OK)
            return err_ctx(err, "model '%s'", m->dir);
        linear_pack(&t->dense[i], rows);
    }
    return RC_OK;
}

static enum rc load_linear(const struct model *m, enum model_role role, struct tail_linear *l,
                           float *rows, struct err *err)
{
    enum rc rc = eng_weight(m, role, 0, rows, l->in * l->out, err);

    if (rc == RC_OK)
        rc = eng_weight(m, role + 1, 0, l->bias, l->out, err);
    if (rc == RC_OK)
        linear_pack(l, rows);
    return rc;
}

static enum rc load_head(struct eng_tail *t, float *rows, struct err *err)
{
    const struct model *m = t->model;
    enum tail_act act = m->arch == MODEL_DISTILBERT ? TAIL_RELU : TAIL_TANH;
    enum rc rc;

    if (m->head == MODEL_HEAD_NONE)
        return RC_OK;
    linear_init(&t->head[0], m->hidden, m->hidden, act);
    linear_init(&t->head[1], m->hidden, m->labels, TAIL_IDENTITY);
    rc = load_linear(m, W_HEAD1, &t->head[0], rows, err);
    return rc == RC_OK ? load_linear(m, W_HEAD2, &t->head[1], rows, err) : rc;
}

/* Numbers of the largest matrix; 0: there is none. */
static size_t matrix_max(const struct model *m)
{
    size_t most = m->head == MODEL_HEAD_NONE ? 0
                  : m->labels > m->hidden    ? m->labels * m->hidden
                                             : m->hidden * m->hidden;

    for (size_t i = 0; i < m->dense_count; i++)
        if (m->dense[i].in * m->dense[i].out > most)
            most = m->dense[i].in * m->dense[i].out;
    return most;
}

enum rc eng_tail_load(const struct model *m, struct eng_tail **out, struct err *err)
{
    struct eng_tail *t = xcalloc(1, sizeof(*t));
    float *rows = matrix_max(m) ? xcalloc(matrix_max(m), sizeof(*rows)) : NULL;
    enum rc rc;

    t->model = m;
    rc = load_dense(t, rows, err);
    if (rc == RC_OK)
        rc = load_head(t, rows, err);
    free(rows);
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
        free(t->dense[i].owned);
    for (size_t i = 0; i < ARRAY_SIZE(t->head); i++)
        free(t->head[i].owned);
    free(t);
}

uint64_t eng_tail_bytes(const struct model *m)
{
    uint64_t floats = 0;

    for (size_t i = 0; i < m->dense_count; i++)
        floats += linear_floats(m->dense[i].in, m->dense[i].out);
    if (m->head != MODEL_HEAD_NONE)
        floats += linear_floats(m->hidden, m->hidden) + linear_floats(m->hidden, m->labels);
    return floats * sizeof(float);
}

/* The widest row that passes through. */
static size_t row_max(const struct model *m)
{
    size_t most = model_pool_width(m);

    for (size_t i = 0; i < m->dense_count; i++)
        most = m->dense[i].out > most ? m->dense[i].out : most;
    return most;
}

size_t eng_tail_room(const struct model *m)
{
    return 2 * row_max(m);
}

static void run_vector(const struct eng_tail *t, const struct eng_rows *r, float *room, float *out)
{
    const struct model *m = t->model;
    float *x = room, *y = room + row_max(m);

    eng_pool(m->pool, r, m->hidden, x);
    for (size_t i = 0; i < m->joined_count; i++)
        eng_pool(m->joined[i], r, m->hidden, x + (i + 1) * m->hidden);
    for (size_t i = 0; i < m->dense_count; i++) {
        float *was = x;

        linear_run(&t->dense[i], x, y);
        x = y;
        y = was;
    }
    if (m->normalize)
        eng_normalize(x, eng_dim(m));
    memcpy(out, x, eng_dim(m) * sizeof(*out));
}

void eng_tail_run(const struct eng_tail *t, enum eng_want want, const struct eng_rows *r,
                  float *room, float *out)
{
    size_t hidden = t->model->hidden;

    switch (want) {
    case ENG_VECTORS:
        run_vector(t, r, room, out);
        break;
    case ENG_SCORES: /* every head looks at the first token */
        assert(t->head[0].in > 0);
        linear_run(&t->head[0], r->x, room);
        linear_run(&t->head[1], room, out);
        break;
    case ENG_TOKENS:
        for (size_t i = 0; i < r->count; i++)
            memcpy(out + i * hidden, r->x + i * r->ld, hidden * sizeof(*out));
        break;
    }
}
