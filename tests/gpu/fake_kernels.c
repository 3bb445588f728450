/* SPDX-License-Identifier: MIT */
/* fake_kernels: gk_int.h as plain loops over host memory (fake_gpu.h).  Sums are f32 or double;
 * numbers are stored as the real kernels store them, saturating. */
#include "fake_gpu.h"

#include "engine/cuda/kernels/gemm_split90_int.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ---- */
__extension__ typedef _Float16 half;

static float e4m3_make(unsigned char b)
{
    int exp = b >> 3 & 15, mant = b & 7;
    float v = exp ? ldexpf(1.0f + (float)mant / 8, exp - 7) : ldexpf((float)mant / 8, -6);

    return (b & 127) == 127 ? NAN : b & 128 ? -v : v;
}

static float e4m3_value(unsigned char b)
{
    static float all[256];

    if (all[1] == 0)
        for (int i = 0; i < 256; i++)
            all[i] = e4m3_make((unsigned char)i);
    return all[b];
}

static unsigned char e4m3_from(float x)
{
    float a = fabsf(x);
    int lo = 0, hi = 126;

    if (isnan(x))
        return 127;
    while (lo < hi) { /* the largest that is not above */
        int mid = (lo + hi + 1) / 2;

        if (e4m3_value((unsigned char)mid) <= a)
            lo = mid;
        else
            hi = mid - 1;
    }
    if (lo < 126 && a - e4m3_value((unsigned char)lo) > e4m3_value((unsigned char)(lo + 1)) - a)
        lo++;
    return (unsigned char)(lo | (x < 0 ? 128 : 0));
}

static float get(enum gk_type t, const void *p, size_t i)
{
    uint32_t bits;
    float f;

    if (t == GK_F32)
        return ((const float *)p)[i];
    if (t == GK_F16)
        return (float)((const half *)p)[i];
    if (t == GK_E4M3)
        return e4m3_value(((const unsigned char *)p)[i]);
    bits = (uint32_t)((const uint16_t *)p)[i] << 16;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static void put(enum gk_type t, void *p, size_t i, float x)
{
    uint32_t bits;

    if (t == GK_F32)
        ((float *)p)[i] = x;
    else if (t == GK_F16)
        ((half *)p)[i] = (half)(isnan(x) ? x : fminf(fmaxf(x, -65504), 65504));
    else if (t == GK_E4M3)
        ((unsigned char *)p)[i] = e4m3_from(x);
    else {
        memcpy(&bits, &x, sizeof(bits));
        ((uint16_t *)p)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
}

static int rows_of(const int32_t *rows, int m)
{
    assert(!rows || (*rows >= 0 && *rows <= m));
    return rows ? *rows : m;
}

/* ---- products ---- */
static float activate(enum gk_act act, float x)
{
    if (act == GK_ACT_GELU)
        return (float)(0.5 * x * (1 + erf(x * M_SQRT1_2)));
    if (act == GK_ACT_GELU_TANH)
        return (float)(0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))));
    return act == GK_ACT_RELU ? fmaxf(x, 0) : x;
}

static float *floats(enum gk_type t, const void *p, size_t ld, int rows, int cols)
{
    float *out = calloc((size_t)rows * (size_t)cols + 1, sizeof(*out));

    for (int i = 0; i < rows; i++)
        for (int c = 0; c < cols; c++)
            out[(size_t)i * (size_t)cols + (size_t)c] = get(t, p, (size_t)i * ld + (size_t)c);
    return out;
}

/* Both sides of a product as f32. */
struct sides {
    float *a, *w;
    int k;
};

static float dot(const struct sides *s, int i, int j, int from, int to)
{
    enum { LANES = 16 };
    const float *a = s->a + (size_t)i * (size_t)s->k, *w = s->w + (size_t)j * (size_t)s->k;
    float lanes[LANES] = { 0 }, sum = 0;

    assert((to - from) % LANES == 0);
    for (int k = from; k < to; k += LANES)
        for (int l = 0; l < LANES; l++)
            lanes[l] += a[k + l] * w[k + l];
    for (int l = 0; l < LANES; l++)
        sum += lanes[l];
    return sum;
}

static void run_product(const struct gk_gemm *g, const struct sides *s, int rows)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < g->n; j++) {
            float sum = dot(s, i, j, 0, g->k);

            if (g->type == GK_E4M3)
                sum *= g->a_scale[g->a_scale_rows ? i : 0] * g->w_scale[g->w_scale_cols ? j : 0];
            float y = activate(g->act, sum + (g->bias ? g->bias[j] : 0));
            if (g->out_type == GK_E4M3)
                y /= *g->out_scale;
            put(g->out_type, g->out, (size_t)i * g->ldout + (size_t)j, y);
        }
}

/* `splits` 1: all of it. */
static void run_gemm(const struct gk_gemm *g, float *partial, int splits)
{
    int rows = rows_of(g->rows, g->m), step = g->k / GK_PAD / splits * GK_PAD;
    struct sides s = { floats(g->type, g->a, g->lda, rows, g->k),
                       floats(g->type, g->w, (size_t)g->k, g->n, g->k), g->k };

    assert(g->n % GK_PAD == 0 && g->k % GK_PAD == 0 && g->lda % GK_PAD == 0);
    assert((g->type == GK_E4M3) == (g->a_scale != NULL));
    assert(g->out_type != GK_E4M3 || (g->type == GK_E4M3 && g->out_scale));
    if (splits == 1)
        run_product(g, &s, rows);
    for (int part = 0; splits > 1 && part < splits; part++)
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < g->n; j++)
                partial[((size_t)part * (size_t)g->m + (size_t)i) * (size_t)g->n + (size_t)j] =
                    dot(&s, i, j, part * step, part + 1 == splits ? g->k : (part + 1) * step);
    free(s.a);
    free(s.w);
}

/* As cuBLASLt does it: a bias of 16 bits. */
static void run_lt(const struct fake_launch *l)
{
    struct gk_gemm g = l->gemm;
    float *bias = l->bias16 ? floats(g.out_type, l->bias16, (size_t)g.n, 1, g.n) : NULL;

    assert(!g.rows);
    g.bias = bias ? bias : g.bias;
    run_gemm(&g, NULL, 1);
    free(bias);
}

/* ---- attention ---- */
/* One head of one tile; q, k and v as f32 [count][head_dim]. */
static void attend(const struct gk_attn *a, const struct gk_tile *t, int head, uint32_t q,
                   float *const qkv[3])
{
    int d = a->head_dim;
    double *p = calloc(t->count, sizeof(*p)), max = -INFINITY, sum = 0;

    for (uint32_t j = 0; j < t->count; j++) {
        ptrdiff_t far = (ptrdiff_t)j - (ptrdiff_t)q;

        far = far > GK_REACH ? GK_REACH : far < -GK_REACH ? -GK_REACH : far;
        far += GK_REL_REACH;
        for (int c = 0; c < d; c++)
            p[j] += (double)qkv[0][(int)q * d + c] * (double)qkv[1][(int)j * d + c];
        p[j] = p[j] * (double)a->scale +
               (a->rel ? (double)(a->rel[head * GK_REL + far % 2 * 2 * GK_REL_PAIRS + far / 2 * 2] /
                                  GK_LOG2E)
                       : 0);
        max = fmax(max, p[j]);
    }
    for (uint32_t j = 0; j < t->count; j++)
        sum += p[j] = exp(p[j] - max);
    for (int c = 0; c < d; c++) {
        double y = 0;

        for (uint32_t j = 0; j < t->count; j++)
            y += p[j] / sum * (double)qkv[2][(int)j * d + c];
        if (a->out_type == GK_E4M3)
            y /= (double)*a->out_scale;
        put(a->out_type, a->out, (t->first + q) * a->ldout + (size_t)(head * d + c), (float)y);
    }
    free(p);
}

static void run_attn(const struct gk_attn *a)
{
    uint32_t tile_rows = a->tile_rows ? (uint32_t)a->tile_rows : GK_ATTN_ROWS;
    int tiles = rows_of(a->tile_count, a->tile_max), size = a->type == GK_F32 ? 4 : 2;

    for (int i = 0; i < tiles * a->heads; i++) {
        const struct gk_tile *t = &a->tiles[i / a->heads];
        int head = i % a->heads;
        float *qkv[3];

        assert(i < a->heads || t->count / 8 <= t[-1].count / 8);
        assert(t->q < t->count && (int)(t->first + t->count) <= a->row_cap);
        for (int part = 0; part < 3; part++)
            qkv[part] =
                floats(a->type,
                       (const char *)a->qkv +
                           (t->first * a->ld + (size_t)((part * a->heads + head) * a->head_dim)) *
                               (size_t)size,
                       a->ld, (int)t->count, a->head_dim);
        for (uint32_t q = t->q; q < t->count && q < t->q + tile_rows; q++)
            attend(a, t, head, q, qkv);
        for (int part = 0; part < 3; part++)
            free(qkv[part]);
    }
}

/* ---- rows ---- */
static void put_8(void *x8, float *scale, size_t ld, int row, enum gk_type type, const void *x)
{
    float most = 0;

    for (size_t c = 0; x8 && c < ld; c++)
        most = fmaxf(most, fabsf(get(type, x, (size_t)row * ld + c)));
    if (!x8)
        return;
    scale[row] = most > 0 ? most / 448 : 1;
    for (size_t c = 0; c < ld; c++)
        put(GK_E4M3, x8, (size_t)row * ld + c, get(type, x, (size_t)row * ld + c) / scale[row]);
}

static void normalise(const double *row, int hidden, size_t ld, const float *gamma,
                      const float *beta, float eps, enum gk_type type, void *x, int at)
{
    double mean = 0, var = 0;

    for (int c = 0; c < hidden; c++)
        mean += row[c] / hidden;
    for (int c = 0; c < hidden; c++)
        var += (row[c] - mean) * (row[c] - mean) / hidden;
    for (size_t c = 0; c < ld; c++)
        put(type, x, (size_t)at * ld + c,
            c < (size_t)hidden
                ? (float)((row[c] - mean) / sqrt(var + (double)eps) * (double)gamma[c] +
                          (double)beta[c])
                : 0);
}

static void run_embed(const struct gk_embed *e)
{
    double *row = calloc((size_t)e->hidden, sizeof(*row));

    for (int i = 0; i < rows_of(e->rows, e->m); i++) {
        for (int c = 0; c < e->hidden; c++) {
            size_t at = (size_t)c, type = e->types ? e->types[i] : 0;

            row[c] = (double)get(e->type, e->word, e->ids[i] * e->ld + at) +
                     (double)get(e->type, e->position, e->positions[i] * e->ld + at) +
                     (e->token_type ? (double)get(e->type, e->token_type, type * e->ld + at) : 0);
        }
        normalise(row, e->hidden, e->ld, e->gamma, e->beta, e->eps, e->type, e->x, i);
        put_8(e->x8, e->x8_scale, e->ld, i, e->type, e->x);
    }
    free(row);
}

static void run_norm(const struct gk_norm *n)
{
    double *row = calloc((size_t)n->hidden, sizeof(*row));

    for (int i = 0; i < rows_of(n->rows, n->m); i++) {
        for (int c = 0; c < n->hidden; c++) {
            size_t at = (size_t)i * n->ld + (size_t)c;

            row[c] = (double)get(n->type, n->x, at);
            if (n->y)
                row[c] += (double)get(n->type, n->y, at);
            for (int s = 0; !n->y && s < n->splits; s++)
                row[c] += (double)n->partial[(size_t)s * (size_t)n->m * n->ld + at];
            row[c] += !n->y && n->bias ? (double)n->bias[c] : 0;
        }
        normalise(row, n->hidden, n->ld, n->gamma, n->beta, n->eps, n->type, n->x, i);
        put_8(n->x8, n->x8_scale, n->ld, i, n->type, n->x);
    }
    free(row);
}

/* ---- the tail ---- */
static void normalise_vector(float *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    for (size_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] / fmax(sqrt(sum), 1e-12));
}

static double pool_one(const struct gk_pool *p, enum gk_pool_kind kind, uint32_t first, uint32_t n,
                       uint32_t skip, size_t c)
{
    double sum = 0, weight = 0, max = -INFINITY, left = n - skip;

    for (uint32_t t = skip; t < n; t++) {
        double x = (double)get(p->type, p->x, (first + t) * p->ld + c);

        sum += kind == GK_POOL_WEIGHTED ? x * (t + 1) : x;
        weight += t + 1;
        max = fmax(max, x);
    }
    switch (kind) {
    case GK_POOL_MEAN:
        return sum / fmax(left, 1);
    case GK_POOL_MEAN_SQRT:
        return sum / fmax(sqrt(left), 1);
    case GK_POOL_WEIGHTED:
        return sum / fmax(weight, 1);
    case GK_POOL_MAX:
        return max;
    case GK_POOL_CLS:
        return (double)get(p->type, p->x, (first + (left > 0 ? skip : 0)) * p->ld + c);
    case GK_POOL_LAST:
        break;
    }
    return left > 0 ? (double)get(p->type, p->x, (first + n - 1) * p->ld + c) : 0;
}

static void run_pool(const struct gk_pool *p)
{
    size_t width = (size_t)(p->kind_count * p->hidden);

    for (int s = 0; s < rows_of(p->count, p->sequences); s++) {
        uint32_t n = p->starts[s + 1] - p->starts[s], skip = p->skip ? p->skip[s] : 0;

        skip = skip < n ? skip : n;
        for (int k = 0; k < p->kind_count; k++)
            for (int c = 0; c < p->hidden; c++)
                p->out[(size_t)s * width + (size_t)(k * p->hidden + c)] =
                    (float)pool_one(p, p->kinds[k], p->starts[s], n, skip, (size_t)c);
        if (p->normalize)
            normalise_vector(p->out + (size_t)s * width, width);
    }
}

static void run_dense(const struct gk_dense *d)
{
    for (int s = 0; s < rows_of(d->count, d->sequences); s++) {
        for (int j = 0; j < d->n; j++) {
            double sum = d->bias ? (double)d->bias[j] : 0;

            for (int k = 0; k < d->in; k++)
                sum += (double)d->w[(size_t)j * (size_t)d->in + (size_t)k] *
                       (double)d->x[(size_t)s * (size_t)d->in + (size_t)k];
            d->out[(size_t)s * (size_t)d->n + (size_t)j] =
                d->act == GK_DENSE_TANH   ? (float)tanh(sum)
                : d->act == GK_DENSE_RELU ? (float)fmax(sum, 0)
                : d->act == GK_DENSE_GELU ? activate(GK_ACT_GELU, (float)sum)
                                          : (float)sum;
        }
        if (d->normalize)
            normalise_vector(d->out + (size_t)s * (size_t)d->n, (size_t)d->n);
    }
}

void fake_run(const struct fake_launch *l)
{
    switch (l->kind) {
    case FAKE_GEMM:
        run_gemm(&l->gemm, NULL, 1);
        break;
    case FAKE_LT:
        run_lt(l);
        break;
    case FAKE_SKINNY:
        assert(l->gemm.m <= GK_SKINNY_ROWS && l->splits <= GK_SPLITS_MAX);
        run_gemm(&l->gemm, l->partial, l->splits);
        break;
    case FAKE_ATTN:
        run_attn(&l->attn);
        break;
    case FAKE_EMBED:
        run_embed(&l->embed);
        break;
    case FAKE_NORM:
        run_norm(&l->norm);
        break;
    case FAKE_POOL:
        run_pool(&l->pool);
        break;
    case FAKE_DENSE:
        run_dense(&l->dense);
        break;
    case FAKE_FETCH:
        memcpy(l->fetch.to, l->fetch.from, l->fetch.bytes);
        break;
    }
}

/* ---- launchers ---- */
cudaError_t gk_gemm_sm90(const struct gk_gemm *g, cudaStream_t s)
{
    (void)s;
    return fake_launch(
        &(struct fake_launch){ .kind = FAKE_GEMM, .gemm = *g, .us = fake_us("FAKE_SM90_US", 10) });
}

/* The fewer parts, the faster. */
cudaError_t gk_gemm_split90(const struct gk_gemm *g, int splits, cudaStream_t s)
{
    (void)s;
    assert(splits <= GK_SPLIT90_MAX && splits <= g->k / GK_PAD);
    return fake_launch(&(struct fake_launch){
        .kind = FAKE_GEMM, .gemm = *g, .us = fake_us("FAKE_SPLIT90_US", 20) + splits });
}

cudaError_t gk_gemm_sm80(const struct gk_gemm *g, cudaStream_t s)
{
    return gk_gemm_sm90(g, s);
}

cudaError_t gk_gemm_skinny(const struct gk_gemm *g, float *partial, int splits, cudaStream_t s)
{
    (void)s;
    return fake_launch(&(struct fake_launch){ .kind = FAKE_SKINNY,
                                              .gemm = *g,
                                              .partial = partial,
                                              .splits = splits,
                                              .us = fake_us("FAKE_SKINNY_US", 50) });
}

int gk_skinny_splits(int n, int k, int sms)
{
    (void)n, (void)sms;
    return k / GK_PAD >= 2 ? 2 : 1;
}

cudaError_t gk_attn_sm90(const struct gk_attn *a, cudaStream_t s)
{
    (void)s;
    return fake_launch(&(struct fake_launch){ .kind = FAKE_ATTN, .attn = *a });
}

cudaError_t gk_attn_sm80(const struct gk_attn *a, cudaStream_t s)
{
    return gk_attn_sm90(a, s);
}

cudaError_t gk_embed(const struct gk_embed *e, cudaStream_t s)
{
    (void)s;
    return fake_launch(&(struct fake_launch){ .kind = FAKE_EMBED, .embed = *e });
}

cudaError_t gk_add_norm(const struct gk_norm *n, cudaStream_t s)
{
    (void)s;
    return fake_launch(&(struct fake_launch){ .kind = FAKE_NORM, .norm = *n });
}

cudaError_t gk_pool(const struct gk_pool *p, cudaStream_t s)
{
    (void)s;
    return fake_launch(&(struct fake_launch){ .kind = FAKE_POOL, .pool = *p });
}

cudaError_t gk_dense(const struct gk_dense *d, cudaStream_t s)
{
    (void)s;
    return fake_launch(&(struct fake_launch){ .kind = FAKE_DENSE, .dense = *d });
}

/* As the two products and the LayerNorm, over memory of its own. */
static void run_ffn(const struct gk_ffn *f)
{
    size_t rows = (size_t)f->m, size = f->type == GK_F32 ? 4 : 2;
    void *mid = calloc(rows * (size_t)f->ffn + 1, size), *y = calloc(rows * f->ld + 1, size);
    struct gk_gemm up = { .type = f->type,
                          .out_type = f->type,
                          .act = f->act,
                          .m = f->m,
                          .n = f->ffn,
                          .k = f->hidden,
                          .rows = f->rows,
                          .a = f->x,
                          .w = f->w1,
                          .out = mid,
                          .lda = f->ld,
                          .ldout = (size_t)f->ffn,
                          .bias = f->b1 };
    struct gk_gemm down = up;

    down.act = GK_ACT_NONE;
    down.n = f->hidden;
    down.k = f->ffn;
    down.a = mid;
    down.w = f->w2;
    down.out = y;
    down.lda = (size_t)f->ffn;
    down.ldout = f->ld;
    down.bias = f->b2;
    run_gemm(&up, NULL, 1);
    run_gemm(&down, NULL, 1);
    run_norm(&(struct gk_norm){ .type = f->type,
                                .m = f->m,
                                .rows = f->rows,
                                .hidden = f->hidden,
                                .ld = f->ld,
                                .x = f->x,
                                .y = y,
                                .gamma = f->gamma,
                                .beta = f->beta,
                                .eps = f->eps });
    free(mid);
    free(y);
}

bool gk_ffn_sm90_can(const struct gk_ffn *f)
{
    return f->hidden % GK_PAD == 0;
}

cudaError_t gk_ffn_sm90(const struct gk_ffn *f, cudaStream_t s)
{
    (void)s;
    run_ffn(f); /* never in a graph: it is for many rows */
    return cudaSuccess;
}

cudaError_t gk_fetch(const void *from, void *to, size_t bytes, cudaStream_t s)
{
    (void)s;
    return fake_launch(&(struct fake_launch){ .kind = FAKE_FETCH, .fetch = { from, to, bytes } });
}

cudaError_t gk_widen(enum gk_type type, const void *x, size_t ld, int m, int hidden, float *out,
                     cudaStream_t s)
{
    (void)s;
    for (int i = 0; i < m; i++)
        for (int c = 0; c < hidden; c++)
            out[(size_t)i * (size_t)hidden + (size_t)c] = get(type, x, (size_t)i * ld + (size_t)c);
    return cudaSuccess;
}

cudaError_t gk_pack(enum gk_type type, const float *w, int n, int k, int n_pad, int k_pad,
                    void *out, float *scale, bool by_row, cudaStream_t s)
{
    (void)s;
    assert(type != GK_E4M3 || (by_row && scale));
    for (int i = 0; i < n_pad; i++) {
        float most = 0;

        for (int j = 0; j < k && i < n; j++)
            most = fmaxf(most, fabsf(w[(size_t)i * (size_t)k + (size_t)j]));
        if (type == GK_E4M3)
            scale[i] = most > 0 ? most / 448 : 1;
        for (int j = 0; j < k_pad; j++) {
            float x = i < n && j < k ? w[(size_t)i * (size_t)k + (size_t)j] : 0;

            put(type, out, (size_t)i * (size_t)k_pad + (size_t)j,
                type == GK_E4M3 ? x / scale[i] : x);
        }
    }
    return cudaSuccess;
}

cudaError_t gk_amax(enum gk_type type, const void *x, size_t ld, int m, int n, float *largest,
                    cudaStream_t s)
{
    (void)s;
    for (int i = 0; i < m; i++)
        for (int c = 0; c < n; c++)
            *largest = fmaxf(*largest, fabsf(get(type, x, (size_t)i * ld + (size_t)c)));
    return cudaSuccess;
}

cudaError_t gk_scale(float *x, int count, float factor, float least, cudaStream_t s)
{
    (void)s;
    for (int i = 0; i < count; i++)
        x[i] = fmaxf(x[i] * factor, least);
    return cudaSuccess;
}

cudaError_t gk_mean(enum gk_type type, const void *x, size_t ld, int m, int n, float *mean,
                    cudaStream_t s)
{
    (void)s;
    for (int c = 0; c < n; c++) {
        float sum = 0;

        for (int i = 0; i < m; i++)
            sum += get(type, x, (size_t)i * ld + (size_t)c);
        mean[c] = sum / (float)m;
    }
    return cudaSuccess;
}

cudaError_t gk_rebias(const float *w, const void *w8, const float *scale, int n, int k,
                      const float *mean, const float *from, float *to, cudaStream_t s)
{
    (void)s;
    for (int i = 0; i < n; i++) {
        float sum = from[i];

        for (int j = 0; j < k; j++) {
            size_t at = (size_t)i * (size_t)k + (size_t)j;

            sum += (w[at] - scale[i] * get(GK_E4M3, w8, at)) * mean[j];
        }
        to[i] = sum;
    }
    return cudaSuccess;
}
