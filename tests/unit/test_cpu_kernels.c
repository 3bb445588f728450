/* SPDX-License-Identifier: MIT */
/* Every kernel of the CPU engine that this machine can run, against plain loops in double,
 * over one table of shapes; and the AMX kernels with emulated tiles where there are none.
 *
 * With STOKER_BENCH set, each kernel's speed too, in GFLOP/s and as a fraction of what the
 * same registers reach with nothing to load, measured in turns. */
#include "test.h"

#include "base/mem.h"
#include "engine/cpu/cpu_int.h"
#include "model/weights/safetensors_int.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>

#define AMX_EMULATED
#define cpu_amx_bf16  emulated_amx_bf16
#define cpu_amx_i8    emulated_amx_i8
#define cpu_amx_split emulated_amx_split
extern const struct cpu_gemm cpu_amx_bf16, cpu_amx_i8, cpu_amx_split;
#include "../../src/engine/cpu/gemm_amx.c"
#undef cpu_amx_bf16
#undef cpu_amx_i8
#undef cpu_amx_split

enum { GEMMS_MAX = 16 };

/* Relative to the sum of absolute products: K roundings of f32 in the worst order would be
 * K * 6e-8; sums of random signs stay far below. */
static const double sum_bound = 4e-6, half_bound = 1.0 / 256 + 1e-6;
static const double split_bound = 5 * 74 * 74; /* five deviations of such a product */

static size_t usable(const struct cpu_gemm **out)
{
    enum cpu_isa best = cpu_isa_best();
    size_t n = 0;

    for (size_t i = 0; cpu_gemms[i]; i++)
        if (cpu_gemms[i]->isa <= best)
            out[n++] = cpu_gemms[i];
    if (best >= CPU_BF16) {
        out[n++] = &emulated_amx_bf16;
        out[n++] = &emulated_amx_i8;
        out[n++] = &emulated_amx_split;
    }
    return n;
}

static const char *label(const struct cpu_gemm *g)
{
    return g == &emulated_amx_bf16    ? "amx bf16 (emulated)"
           : g == &emulated_amx_i8    ? "amx int8 (emulated)"
           : g == &emulated_amx_split ? "amx split int16 (emulated)"
                                      : g->name;
}

static uint32_t seed = 1;

static float noise(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)(int32_t)seed / 2147483648.0f;
}

/* ---- one product in all its parts */

struct product {
    const struct cpu_gemm *g;
    size_t m, n, k, kp, np;
    float *a, *w;       /* as the kernel sees them, in f32 */
    void *a_packed, *b; /* what the kernel reads */
    float *bias, *add, *row_mul, *scale, *col_scale;
    int32_t *zero, *col_sum;
    void *out;
    struct cpu_job job;
};

static void *lines(size_t bytes)
{
    void *p = aligned_alloc(CPU_LINE, cpu_round_up(bytes + CPU_LINE, CPU_LINE));

    assert_non_null(p);
    memset(p, 0, cpu_round_up(bytes + CPU_LINE, CPU_LINE));
    return p;
}

static bool by_integers(const struct cpu_gemm *g)
{
    return g->a == CPU_E_U8 || g->a == CPU_E_S16 || g->a == CPU_E_SPLIT;
}

/* A row in the kernel's type, and the f32 numbers that this type then means. */
static void product_row(struct product *p, size_t r)
{
    float *row = p->a + r * p->k;
    char *to = (char *)p->a_packed + r * p->job.lda;

    for (size_t i = 0; i < p->k; i++)
        row[i] = noise() + (by_integers(p->g) ? 0.3f : 0.0f);
    if (p->g->a == CPU_E_F32)
        memcpy(to, row, p->k * sizeof(*row));
    for (size_t i = 0; p->g->a == CPU_E_BF16 && i < p->k; i++) {
        ((uint16_t *)(void *)to)[i] = st_f32_to_bf16(row[i]);
        row[i] = st_bf16_to_f32(((uint16_t *)(void *)to)[i]);
    }
    if (p->g->a == CPU_E_U8)
        cpu_vec_avx2.quantize(row, CPU_E_F32, NULL, p->k, 1, NULL, (uint8_t *)to, &p->scale[r],
                              &p->zero[r]);
    if (p->g->a == CPU_E_S16)
        cpu_vec_avx2.words(row, CPU_E_F32, p->k, (int16_t *)(void *)to, &p->scale[r]);
    if (p->g->a == CPU_E_SPLIT)
        cpu_vec_avx2.split(row, CPU_E_F32, p->k, p->kp, (int8_t *)to, &p->scale[r]);
}

static void product_init(struct product *p, const struct cpu_gemm *g, size_t m, size_t n, size_t k)
{
    size_t np = cpu_round_up(n, g->nr), kp = cpu_round_up(k, g->kstep);
    size_t elem = g->a == CPU_E_F32 ? 4 : g->a == CPU_E_U8 ? 1 : 2;

    *p = (struct product){ .g = g, .m = m, .n = n, .k = k, .kp = kp, .np = np };
    p->job.lda = cpu_round_up(kp * elem, CPU_LINE) + CPU_LINE;
    p->a = lines(m * k * 4);
    p->w = lines(n * k * 4);
    p->a_packed = lines((m + CPU_ROWS_SLACK) * p->job.lda);
    p->b = lines(cpu_pack_bytes(g, n, k));
    p->bias = lines(np * 4);
    p->add = lines(m * n * 4);
    p->row_mul = lines(m * 4);
    p->scale = lines(m * 4);
    p->zero = lines(m * 4);
    p->col_scale = lines(np * 4);
    p->col_sum = lines(np * 4);
    p->out = lines((m + CPU_MR_MAX) * np * 4);
    for (size_t r = 0; r < m; r++)
        product_row(p, r);
    for (size_t i = 0; i < n * k; i++)
        p->w[i] = noise() * 0.1f;
    for (size_t i = 0; i < n; i++)
        p->bias[i] = noise();
    for (size_t i = 0; i < m * n; i++)
        p->add[i] = noise();
    for (size_t i = 0; i < m; i++)
        p->row_mul[i] = 1.0f + noise() * 0.5f;
    cpu_pack(g, p->w, n, k, p->b, p->col_scale, p->col_sum);
}

static void product_release(struct product *p)
{
    void *const all[] = { p->a,       p->w,     p->a_packed, p->b,         p->bias,    p->add,
                          p->row_mul, p->scale, p->zero,     p->col_scale, p->col_sum, p->out };

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        free(all[i]);
}

/* The sum that an element should be, and the sum of absolute products. */
static double product_sum(const struct product *p, size_t r, size_t c, double *absolute)
{
    double sum = 0;

    *absolute = 0;
    for (size_t i = 0; i < p->k; i++) {
        double a = (double)p->a[r * p->k + i], w = (double)p->w[c * p->k + i], x;
        if (by_integers(p->g)) {
            const char *row = (const char *)p->a_packed + r * p->job.lda;
            double s = (double)p->col_scale[c];
            double q = p->g->a == CPU_E_U8 ? ((const uint8_t *)row)[i] - p->zero[r]
                       : p->g->a == CPU_E_SPLIT
                           ? 256 * ((const int8_t *)row)[i] + ((const int8_t *)row)[p->kp + i]
                           : ((const int16_t *)(const void *)row)[i];
            a = q * (double)p->scale[r];
            w = (double)rintf(p->w[c * p->k + i] * (1.0f / p->col_scale[c])) * s;
        } else if (p->g->b == CPU_E_BF16) {
            w = (double)st_bf16_to_f32(st_f32_to_bf16((float)w));
        }
        x = a * w;
        sum += x;
        *absolute += fabs(x);
    }
    return sum;
}

static double activation_of(enum cpu_act act, double x)
{
    if (act == CPU_ACT_GELU)
        return 0.5 * x * (1 + erf(x * M_SQRT1_2));
    if (act == CPU_ACT_GELU_TANH)
        return 0.5 * x * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    return act == CPU_ACT_RELU ? fmax(x, 0) : x;
}

/* The greatest error as a multiple of what is allowed. */
static double product_error(const struct product *p)
{
    const struct cpu_job *j = &p->job;
    double worst = 0;

    for (size_t r = 0; r < p->m; r++)
        for (size_t c = 0; c < p->n; c++) {
            double absolute, v = product_sum(p, r, c, &absolute), got, bound;
            v = activation_of(j->act, v + (j->bias ? (double)j->bias[c] : 0));
            v += j->add ? (double)j->add[r * p->n + c] : 0;
            v *= j->row_mul ? (double)j->row_mul[r] : 1;
            if (j->out_elem == CPU_E_F32)
                got = (double)((float *)p->out)[r * j->ldo + c];
            else
                got = (double)st_bf16_to_f32(((uint16_t *)p->out)[r * j->ldo + c]);
            bound = 2e-6 + sum_bound * (absolute + 1);
            if (p->g->a == CPU_E_SPLIT) /* products of two lower bytes are left out */
                bound += split_bound * sqrt((double)p->k) * (double)(p->scale[r] * p->col_scale[c]);
            bound += j->out_elem == CPU_E_BF16 ? half_bound * fabs(v) : 0;
            worst = fmax(worst, fabs(got - v) / bound);
        }
    return worst;
}

static void product_job(struct product *p, enum cpu_act act, bool parts, enum cpu_elem out)
{
    p->job = (struct cpu_job){ .a = p->a_packed,
                               .lda = p->job.lda,
                               .b = p->b,
                               .k = p->kp,
                               .n = p->n,
                               .m = p->m,
                               .act = act,
                               .bias = p->bias,
                               .add = parts ? p->add : NULL,
                               .ld_add = p->n,
                               .row_mul = parts ? p->row_mul : NULL,
                               .out = p->out,
                               .ldo = p->np,
                               .out_elem = out };
    if (by_integers(p->g)) {
        p->job.scale = p->scale;
        p->job.zero = p->g->a == CPU_E_U8 ? p->zero : NULL;
        p->job.col_scale = p->col_scale;
        p->job.col_sum = p->col_sum;
    }
}

static const struct {
    size_t m, n, k;
} shapes[] = {
    { 1, 1, 1 },      { 1, 32, 32 },   { 2, 33, 31 },   { 3, 16, 64 },    { 7, 48, 96 },
    { 14, 32, 64 },   { 15, 31, 5 },   { 16, 64, 17 },  { 17, 40, 33 },   { 28, 96, 24 },
    { 29, 100, 130 }, { 31, 5, 2 },    { 32, 32, 8 },   { 33, 65, 65 },   { 64, 12, 52 },
    { 70, 36, 48 },   { 45, 96, 384 }, { 5, 40, 1536 }, { 40, 34, 1100 },
};

TEST(products_match_plain_loops)
{
    static const struct {
        enum cpu_act act;
        bool parts;
        enum cpu_elem out;
    } forms[] = {
        { CPU_ACT_NONE, false, CPU_E_F32 },      { CPU_ACT_GELU, false, CPU_E_F32 },
        { CPU_ACT_GELU_TANH, false, CPU_E_F32 }, { CPU_ACT_RELU, true, CPU_E_F32 },
        { CPU_ACT_NONE, true, CPU_E_F32 },       { CPU_ACT_GELU, false, CPU_E_BF16 },
        { CPU_ACT_NONE, true, CPU_E_BF16 },
    };
    const struct cpu_gemm *gs[GEMMS_MAX];
    size_t n = usable(gs), failed = 0;

    for (size_t g = 0; g < n; g++) {
        double worst = 0;
        for (size_t s = 0; s < ARRAY_SIZE(shapes); s++) {
            struct product p;
            product_init(&p, gs[g], shapes[s].m, shapes[s].n, shapes[s].k);
            for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
                product_job(&p, forms[f].act, forms[f].parts, forms[f].out);
                gs[g]->run(&p.job, 0, p.m, 0, p.np / gs[g]->nr);
                worst = fmax(worst, product_error(&p));
            }
            product_release(&p);
        }
        printf("# %s %-20s %zu shapes, worst error %.3f of the bound\n",
               worst <= 1 ? "PASS" : "FAIL", label(gs[g]), ARRAY_SIZE(shapes), worst);
        failed += !(worst <= 1);
    }
    CHECK(failed == 0);
}

/* The bare product of attention: whole blocks are written, nothing behind them. */
TEST(bare_products_stay_in_whole_blocks)
{
    const struct cpu_gemm *gs[GEMMS_MAX];
    size_t n = usable(gs);

    for (size_t g = 0; g < n; g++) {
        struct product p;
        if (by_integers(gs[g]))
            continue;
        product_init(&p, gs[g], 21, 37, 32);
        product_job(&p, CPU_ACT_NONE, false, CPU_E_F32);
        p.job.bias = NULL;
        p.job.whole = true;
        gs[g]->run(&p.job, 0, p.m, 0, p.np / gs[g]->nr);
        CHECK(product_error(&p) <= 1);
        product_release(&p);
    }
}

/* A row has the same bits alone, in the middle of a block and at the end of a short one. */
TEST(rows_do_not_depend_on_their_neighbours)
{
    const struct cpu_gemm *gs[GEMMS_MAX];
    size_t n = usable(gs);

    for (size_t g = 0; g < n; g++) {
        struct product p;
        product_init(&p, gs[g], 47, 70, 131);
        product_job(&p, CPU_ACT_GELU, true, CPU_E_F32);
        gs[g]->run(&p.job, 0, p.m, 0, p.np / gs[g]->nr);
        float *all = lines(p.m * p.np * 4);
        memcpy(all, p.out, p.m * p.np * 4);
        for (size_t first = 0; first < p.m; first += 3)
            for (size_t rows = 1; first + rows <= p.m; rows += 5) {
                memset(p.out, 0x55, p.m * p.np * 4);
                gs[g]->run(&p.job, first, first + rows, 0, p.np / gs[g]->nr);
                for (size_t r = first; r < first + rows; r++)
                    assert_memory_equal((float *)p.out + r * p.np, all + r * p.np, p.n * 4);
            }
        free(all);
        product_release(&p);
    }
}

/* So much of A and of k that a kernel may cut both to keep them near: no bit may show it.  A
 * few rows alone are not cut. */
static void check_cuts(const struct cpu_gemm *g, bool whole)
{
    enum { ROWS = 530, ALONE = 16 };
    struct product p;
    float *all;

    product_init(&p, g, ROWS, 33, 2100);
    product_job(&p, CPU_ACT_NONE, false, CPU_E_F32);
    p.job.whole = whole;
    p.job.bias = whole ? NULL : p.job.bias;
    g->run(&p.job, 0, p.m, 0, p.np / g->nr);
    all = lines(p.m * p.np * 4);
    memcpy(all, p.out, p.m * p.np * 4);
    for (size_t r = 0; r + ALONE <= ROWS; r += 7 * ALONE) {
        memset((float *)p.out + r * p.np, 0x55, ALONE * p.np * 4);
        g->run(&p.job, r, r + ALONE, 0, p.np / g->nr);
        for (size_t i = r; i < r + ALONE; i++)
            assert_memory_equal((float *)p.out + i * p.np, all + i * p.np, p.n * 4);
    }
    free(all);
    product_release(&p);
}

TEST(large_products_have_the_bits_of_small_ones)
{
    const struct cpu_gemm *gs[GEMMS_MAX];
    size_t n = usable(gs);

    for (size_t g = 0; g < n; g++) {
        check_cuts(gs[g], false);
        if (gs[g]->bare)
            check_cuts(gs[g], true);
    }
}

/* ---- rows */

enum { VECS_MAX = 3 };
static size_t vecs(const struct cpu_vec *out[VECS_MAX])
{
    enum cpu_isa best = cpu_isa_best();
    size_t n = 0;

    if (best >= CPU_AVX2)
        out[n++] = &cpu_vec_avx2;
    if (best >= CPU_AVX512)
        out[n++] = &cpu_vec_avx512;
    if (best >= CPU_BF16)
        out[n++] = &cpu_vec_bf16;
    return n;
}

TEST(gelu_is_within_a_millionth)
{
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    for (size_t v = 0; v < n; v++) {
        double worst = 0, relu = 0;
        for (double at = -12; at < 12; at += 1e-4) {
            float x[3] = { (float)at, (float)at, (float)at };
            vs[v]->act(CPU_ACT_GELU, x, 1);
            vs[v]->act(CPU_ACT_RELU, x + 1, 1);
            worst = fmax(worst, fabs((double)x[0] - activation_of(CPU_ACT_GELU, (double)x[2])));
            relu = fmax(relu, fabs((double)x[1] - fmax(0, (double)x[2])));
        }
        float big[] = { -1e30f, 1e30f, -100.0f, 100.0f, -INFINITY, INFINITY, NAN, 0.0f };
        vs[v]->act(CPU_ACT_GELU, big, ARRAY_SIZE(big));
        printf("# %s gelu: greatest error %.2g\n", vs[v]->name, worst);
        CHECK(worst < 1e-6 && relu == 0);
        CHECK(fabsf(big[0]) < 1e-6f && big[1] == 1e30f && fabsf(big[2]) < 1e-6f);
        CHECK(big[3] == 100.0f && isnan(big[6]) && big[7] == 0);
    }
}

/* The bias carries x, A is zero: what comes out is the activation alone. */
static double short_gelu_error(const struct cpu_gemm *g)
{
    struct product p;
    double worst = 0;

    product_init(&p, g, 1, 32, g->kstep);
    memset(p.a_packed, 0, p.job.lda);
    product_job(&p, CPU_ACT_GELU, false, CPU_E_BF16);
    p.job.bias = p.bias;
    for (double at = -12; at < 12; at += 32e-3) {
        for (size_t c = 0; c < 32; c++)
            p.bias[c] = (float)(at + (double)c * 1e-3);
        g->run(&p.job, 0, 1, 0, p.np / g->nr);
        for (size_t c = 0; c < 32; c++) {
            double want = activation_of(CPU_ACT_GELU, (double)p.bias[c]);
            double got = (double)st_bf16_to_f32(((uint16_t *)p.out)[c]);
            worst = fmax(worst, fabs(got - want) - half_bound * fabs(want));
        }
    }
    p.bias[0] = NAN, p.bias[1] = INFINITY, p.bias[2] = 1e30f, p.bias[3] = -100.0f;
    g->run(&p.job, 0, 1, 0, p.np / g->nr);
    CHECK(isnan(st_bf16_to_f32(((uint16_t *)p.out)[0])));
    CHECK(isinf(st_bf16_to_f32(((uint16_t *)p.out)[1])));
    CHECK(st_bf16_to_f32(((uint16_t *)p.out)[2]) > 9e29f);
    CHECK(fabsf(st_bf16_to_f32(((uint16_t *)p.out)[3])) < 5e-5f);
    product_release(&p);
    return worst;
}

TEST(gelu_of_narrow_results_is_finer_than_their_rounding)
{
    for (size_t i = 0; cpu_gemms[i]; i++) {
        if (cpu_gemms[i]->isa > cpu_isa_best() || cpu_gemms[i]->a == CPU_E_U8)
            continue;
        double worst = short_gelu_error(cpu_gemms[i]);
        printf("# %s gelu to bfloat16: %.2g beyond the rounding\n", cpu_gemms[i]->name, worst);
        CHECK(worst < 5e-5);
    }
}

TEST(softmax_matches)
{
    static const size_t lengths[] = { 1, 2, 7, 8, 15, 16, 17, 31, 33, 100, 512, 777 };
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    for (size_t v = 0; v < n; v++)
        for (size_t l = 0; l < ARRAY_SIZE(lengths); l++) {
            float s[832], bias[832], p[832];
            size_t len = lengths[l], padded = cpu_round_up(len, 32);
            double sum = 0, top = -INFINITY;
            for (size_t i = 0; i < len; i++) {
                s[i] = noise() * 60;
                bias[i] = noise();
                top = fmax(top, (double)s[i] * 0.25 + (double)bias[i]);
            }
            for (size_t i = 0; i < len; i++)
                sum += exp((double)s[i] * 0.25 + (double)bias[i] - top);
            memset(p, 0x55, sizeof(p));
            double inv = (double)vs[v]->softmax(s, len, padded, 0.25f, bias, p, CPU_E_F32);
            CHECK(fabs(inv * sum - 1) < 4e-6);
            for (size_t i = 0; i < padded; i++) {
                double want = i < len ? exp((double)s[i] * 0.25 + (double)bias[i] - top) : 0;
                CHECK(fabs((double)p[i] - want) <= 4e-6 * want + 1e-30);
            }
        }
}

TEST(layernorm_matches)
{
    static const size_t lengths[] = { 1, 5, 16, 24, 32, 48, 384, 1024, 1031 };
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    for (size_t v = 0; v < n; v++)
        for (size_t l = 0; l < ARRAY_SIZE(lengths); l++) {
            float x[1040], g[1040], b[1040], y[1040];
            uint16_t half[1040];
            size_t len = lengths[l];
            double mean = 0, var = 0;
            for (size_t i = 0; i < len; i++) {
                x[i] = noise() * 3 + 1;
                g[i] = noise();
                b[i] = noise();
                mean += (double)x[i] / (double)len;
            }
            for (size_t i = 0; i < len; i++)
                var += pow((double)x[i] - mean, 2) / (double)len;
            vs[v]->layernorm(x, NULL, NULL, len, g, b, 1e-5f, y, half);
            for (size_t i = 0; i < len; i++) {
                double want =
                    ((double)x[i] - mean) / sqrt(var + 1e-5) * (double)g[i] + (double)b[i];
                CHECK(fabs((double)y[i] - want) < 3e-6);
                CHECK(half[i] == st_f32_to_bf16(y[i]));
            }
            float sum[1040], late[1040]; /* what is added inside has the bits of outside */
            for (size_t i = 0; i < len; i++)
                sum[i] = x[i] + g[i] + b[i];
            vs[v]->layernorm(x, b, g, len, g, b, 1e-5f, late, NULL);
            vs[v]->layernorm(sum, NULL, NULL, len, g, b, 1e-5f, y, NULL);
            assert_memory_equal(late, y, len * sizeof(*y));
        }
}

TEST(bytes_mean_what_they_should)
{
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    for (size_t v = 0; v < n; v++)
        for (size_t len = 1; len < 300; len += 23) {
            float x[300], scale;
            uint8_t q[300];
            int32_t zero;
            for (size_t i = 0; i < len; i++)
                x[i] = noise() * 4 + 1.5f;
            vs[v]->quantize(x, CPU_E_F32, NULL, len, 1, NULL, q, &scale, &zero);
            CHECK(zero >= 0 && zero <= 255);
            for (size_t i = 0; i < len; i++)
                CHECK(fabsf((float)(q[i] - zero) * scale - x[i]) <= scale * 1.01f);
            float mul[300];
            for (size_t i = 0; i < len; i++)
                mul[i] = 0.5f + (float)(i % 5);
            vs[v]->quantize(x, CPU_E_F32, mul, len, 1, NULL, q, &scale, &zero);
            for (size_t i = 0; i < len; i++)
                CHECK(fabsf((float)(q[i] - zero) * scale - x[i] * mul[i]) <= scale * 1.01f);
            memset(x, 0, sizeof(x));
            vs[v]->quantize(x, CPU_E_F32, NULL, len, 1, NULL, q, &scale, &zero);
            CHECK(scale > 0 && q[0] == zero);
        }
}

/* Row r of a Hadamard matrix: the sign of column c is the parity of the bits that both have. */
static double turned(const float *x, size_t r, size_t block)
{
    double sum = 0;

    for (size_t c = 0; c < block; c++)
        sum += __builtin_parityl(r & c) ? -(double)x[c] : (double)x[c];
    return sum;
}

TEST(rows_are_turned_by_a_hadamard_matrix)
{
    static const size_t lengths[] = { 16, 48, 32, 96, 64, 192, 128, 384 };
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    CHECK(cpu_turn_block(384) == 128 && cpu_turn_block(1536) == 128 && cpu_turn_block(96) == 32);
    CHECK(cpu_turn_block(48) == 16 && cpu_turn_block(24) == 1 && cpu_turn_block(33) == 1);
    CHECK(cpu_turn_block(1) == 1 && cpu_turn_block(0) == 1);
    for (size_t v = 0; v < n; v++)
        for (size_t l = 0; l < ARRAY_SIZE(lengths); l++) {
            size_t len = lengths[l], block = cpu_turn_block(len);
            float x[384], y[384];
            for (size_t i = 0; i < len; i++)
                x[i] = noise();
            vs[v]->turn(x, len, block, y);
            for (size_t i = 0; i < len; i++)
                CHECK(fabs((double)y[i] - turned(x + i / block * block, i % block, block)) < 2e-5);
            vs[v]->turn(y, len, block, y);
            for (size_t i = 0; i < len; i++)
                CHECK(fabsf(y[i] / (float)block - x[i]) < 1e-6f);
        }
}

/* One number far outside of the others' range costs a turned row little. */
TEST(turned_bytes_stand_an_outlier)
{
    enum { N = 384 };
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    for (size_t v = 0; v < n; v++) {
        double error[2] = { 0 };
        for (int turn = 0; turn < 2; turn++) {
            float x[N], mul[N], room[N], back[N], scale;
            uint8_t q[N];
            int32_t zero;
            for (size_t i = 0; i < N; i++) {
                x[i] = noise();
                mul[i] = 0.75f + (float)(i % 3) * 0.25f;
            }
            x[77] = 40.0f;
            vs[v]->quantize(x, CPU_E_F32, mul, N, turn ? 128 : 1, turn ? room : NULL, q, &scale,
                            &zero);
            for (size_t i = 0; i < N; i++)
                back[i] = (float)(q[i] - zero) * scale / (turn ? 128.0f : 1.0f);
            if (turn)
                vs[v]->turn(back, N, 128, back);
            for (size_t i = 0; i < N; i++)
                error[turn] += pow((double)back[i] - (double)(x[i] * mul[i]), 2);
        }
        CHECK(error[1] < error[0] / 8);
    }
}

TEST(words_mean_what_they_should)
{
    enum { N = 1536 };
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    for (size_t v = 0; v < n; v++)
        for (size_t len = 1; len <= N; len = len * 3 / 2 + 1) {
            float x[N], scale;
            uint16_t half[N];
            int16_t q[N];
            double norm = 0;
            for (size_t i = 0; i < len; i++) {
                half[i] = st_f32_to_bf16(noise() * 3 + (i == 7 ? 100.0f : 0.0f));
                x[i] = st_bf16_to_f32(half[i]);
            }
            vs[v]->words(half, CPU_E_BF16, len, q, &scale);
            for (size_t i = 0; i < len; i++) {
                CHECK(fabsf((float)q[i] * scale - x[i]) <= scale * 0.51f);
                norm += (double)q[i] * (double)q[i];
            }
            CHECK(norm < 45100.0 * 45100.0);
            vs[v]->words(x, CPU_E_F32, len, (int16_t *)(void *)x, &scale); /* in place */
            assert_memory_equal(x, q, len * sizeof(*q));
        }
    for (size_t v = 0; v < n; v++) {
        float x[20] = { 0 }, scale;
        int16_t q[20];
        vs[v]->words(x, CPU_E_F32, 20, q, &scale);
        CHECK(scale == 1.0f && q[0] == 0 && q[19] == 0);
        x[3] = 1e-25f;
        vs[v]->words(x, CPU_E_F32, 20, q, &scale);
        CHECK(scale == 1.0f && q[3] == 0);
        x[4] = NAN;
        vs[v]->words(x, CPU_E_F32, 20, q, &scale);
        CHECK(isnan(scale));
    }
}

TEST(split_words_mean_what_they_should)
{
    enum { N = 1000, FAR = 1024 };
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    for (size_t v = 0; v < n; v++) {
        float x[N], scale;
        int8_t q[2 * FAR];
        for (size_t len = 1; len <= N; len = len * 3 / 2 + 1) {
            for (size_t i = 0; i < len; i++)
                x[i] = noise() * 3 + (i == 7 ? 100.0f : 0.0f);
            vs[v]->split(x, CPU_E_F32, len, FAR, q, &scale);
            for (size_t i = 0; i < len; i++)
                CHECK(fabsf((float)(256 * q[i] + q[FAR + i]) * scale - x[i]) <= scale * 0.51f);
        }
        memset(x, 0, sizeof(x));
        vs[v]->split(x, CPU_E_F32, N, FAR, q, &scale);
        CHECK(scale == 1.0f && q[0] == 0 && q[FAR + N - 1] == 0);
        x[3] = 1e-44f;
        vs[v]->split(x, CPU_E_F32, N, FAR, q, &scale);
        CHECK(scale == 1.0f && q[3] == 0);
        x[N - 1] = NAN;
        vs[v]->split(x, CPU_E_F32, N, FAR, q, &scale);
        CHECK(isnan(scale));
    }
}

TEST(weights_that_are_no_numbers_show)
{
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    for (size_t v = 0; v < n; v++)
        for (size_t at = 0; at < 40; at += 3) {
            float w[40], scale;
            int8_t q[40];
            for (size_t i = 0; i < 40; i++)
                w[i] = noise();
            CHECK(vs[v]->bytes(w, 40, q, &scale) != 0 && scale > 0);
            w[at] = at % 2 ? NAN : INFINITY;
            CHECK(vs[v]->bytes(w, 40, q, &scale) == 0 && isnan(scale));
        }
}

/* Rows that point the way of their column give the greatest sums there are. */
TEST(words_never_leave_32_bits)
{
    static const size_t ks[] = { 2, 64, 384, 1536, 4096 };

    if (cpu_isa_best() < CPU_VNNI)
        return;
    for (size_t x = 0; x < ARRAY_SIZE(ks); x++)
        for (int form = 0; form < 2; form++) {
            struct product p;
            product_init(&p, &cpu_vnni_i16, 2, 32, ks[x]);
            for (size_t i = 0; i < p.k; i++) {
                float to = form ? noise() : i % 3 ? 1.0f : -1.0f;
                for (size_t c = 0; c < p.n; c++)
                    p.w[c * p.k + i] = c % 2 ? to : -to;
                p.a[i] = p.a[p.k + i] = to;
            }
            for (size_t r = 0; r < 2; r++)
                cpu_vec_avx512.words(p.a + r * p.k, CPU_E_F32, p.k,
                                     (int16_t *)(void *)((char *)p.a_packed + r * p.job.lda),
                                     &p.scale[r]);
            cpu_pack(p.g, p.w, p.n, p.k, p.b, p.col_scale, p.col_sum);
            product_job(&p, CPU_ACT_NONE, false, CPU_E_F32);
            p.g->run(&p.job, 0, p.m, 0, 1);
            CHECK(product_error(&p) <= 1);
            product_release(&p);
        }
}

/* Keys and values as B of a product: what the layout of struct cpu_gemm says. */
TEST(heads_are_packed_as_the_layout_says)
{
    static const struct {
        size_t rows, d;
    } heads[] = {
        { 1, 8 }, { 3, 12 }, { 16, 32 }, { 33, 64 }, { 70, 32 }, { 31, 20 }, { 128, 64 }
    };
    const struct cpu_vec *vs[VECS_MAX];
    const struct cpu_gemm *gs[GEMMS_MAX];
    size_t n = vecs(vs), count = usable(gs);

    for (size_t h = 0; h < ARRAY_SIZE(heads); h++)
        for (size_t x = 0; x < n * count; x++) {
            const struct cpu_vec *v = vs[x % n];
            const struct cpu_gemm *g = gs[x / n];
            size_t rows = heads[h].rows, d = heads[h].d,
                   ld = (d + 16) * (g->a == CPU_E_F32 ? 4 : 2);
            if (by_integers(g) || g->a != g->b)
                continue;
            float *src = lines(rows * d * 4), *turned = lines(rows * d * 4);
            char *raw = lines((rows + 1) * ld);
            void *want = lines(cpu_pack_bytes(g, rows, d) + cpu_pack_bytes(g, d, rows));
            void *got = lines(cpu_pack_bytes(g, rows, d) + cpu_pack_bytes(g, d, rows));
            for (size_t r = 0; r < rows; r++)
                for (size_t c = 0; c < d; c++) {
                    uint16_t half = st_f32_to_bf16(noise());
                    src[r * d + c] = turned[c * rows + r] = st_bf16_to_f32(half);
                    if (g->a == CPU_E_F32)
                        memcpy(raw + r * ld + c * 4, &src[r * d + c], 4);
                    else
                        memcpy(raw + r * ld + c * 2, &half, 2);
                }
            cpu_pack(g, src, rows, d, want, NULL, NULL);
            v->pack_keys(raw, ld, rows, d / g->kg, cpu_round_up(d, g->kstep) / g->kg, g->nr, got);
            assert_memory_equal(got, want, cpu_pack_bytes(g, rows, d));
            memset(want, 0, cpu_pack_bytes(g, d, rows));
            cpu_pack(g, turned, d, rows, want, NULL, NULL);
            v->pack_values(raw, ld, rows, cpu_round_up(rows, g->kstep), d, g->nr, g->a, got);
            assert_memory_equal(got, want, cpu_pack_bytes(g, d, rows));
            free(src);
            free(turned);
            free(raw);
            free(want);
            free(got);
        }
}

static void check_words(const int16_t *got, const int16_t *want, size_t n, const float *scale,
                        const float *want_scale, size_t scales)
{
    for (size_t i = 0; i < n; i++)
        CHECK(abs(got[i] - want[i]) <= 1);
    for (size_t i = 0; i < scales; i++)
        CHECK(fabsf(scale[i] - want_scale[i]) <= 4e-6f * want_scale[i]);
}

TEST(fast_packing_is_packing)
{
    const struct cpu_vec *vs[VECS_MAX];
    const struct cpu_gemm *gs[GEMMS_MAX];
    size_t n = vecs(vs), count = usable(gs);

    for (size_t s = 0; s < ARRAY_SIZE(shapes); s++)
        for (size_t x = 0; x < n * count; x++) {
            const struct cpu_gemm *g = gs[x / n];
            struct product p;
            product_init(&p, g, 1, shapes[s].n, shapes[s].k);
            size_t bytes = cpu_pack_bytes(g, p.n, p.k);
            void *got = lines(bytes);
            float *scale = lines(p.np * 4);
            int32_t *sum = lines(p.np * 4);
            cpu_pack_fast(g, vs[x % n], p.w, p.n, p.k, got, scale, sum);
            if (g->b == CPU_E_S16) { /* the norm is summed in another order */
                check_words(got, p.b, bytes / 2, scale, p.col_scale, p.np);
            } else {
                assert_memory_equal(got, p.b, bytes);
                assert_memory_equal(scale, p.col_scale, p.np * 4);
            }
            assert_memory_equal(sum, p.col_sum, p.np * 4);
            free(got);
            free(scale);
            free(sum);
            product_release(&p);
        }
}

TEST(narrow_numbers_are_rounded_as_the_exact_conversions_do)
{
    const struct cpu_vec *vs[VECS_MAX];
    size_t n = vecs(vs);

    for (size_t v = 0; v < n; v++)
        for (size_t len = 1; len < 40; len++) {
            float x[40], top = 0;
            uint16_t out[40];
            for (size_t i = 0; i < len; i++) {
                x[i] = noise() * ldexpf(1.0f, (int)(i % 24) - 12);
                top = fmaxf(top, fabsf(x[i]));
            }
            CHECK(vs[v]->narrow(x, len, CPU_E_BF16, out) == top);
            for (size_t i = 0; i < len; i++)
                CHECK(out[i] == st_f32_to_bf16(x[i]));
            CHECK(vs[v]->narrow(x, len, CPU_E_F16, out) == top);
            for (size_t i = 0; i < len; i++)
                CHECK(out[i] == st_f32_to_f16(x[i]));
        }
}

/* ---- threads */

struct count {
    struct cpu_pool *pool;
    size_t part[8], wrong;
    _Atomic size_t total;
};

/* Everybody writes, all meet, everybody sees what the others wrote. */
static void count_task(void *arg, size_t rank)
{
    struct count *c = arg;
    size_t size = cpu_pool_size(c->pool);

    for (size_t round = 1; round <= 20; round++) {
        c->part[rank] = round;
        cpu_pool_barrier(c->pool);
        for (size_t i = 0; i < size; i++)
            if (c->part[i] != round)
                atomic_fetch_add(&c->total, 1000000);
        cpu_pool_barrier(c->pool);
    }
    atomic_fetch_add(&c->total, 1);
}

TEST(threads_meet)
{
    for (size_t threads = 1; threads <= 4; threads++) {
        struct count c = { .pool = cpu_pool_new(threads) };
        assert_non_null(c.pool);
        CHECK(cpu_pool_size(c.pool) == threads);
        for (size_t run_no = 0; run_no < 20; run_no++)
            cpu_pool_run(c.pool, count_task, &c);
        CHECK(atomic_load(&c.total) == 20 * threads);
        cpu_pool_free(c.pool);
    }
    cpu_pool_free(NULL);
}

TEST(names_of_instruction_sets)
{
    for (enum cpu_isa i = CPU_AVX2; i < CPU_ISAS; i++)
        CHECK(cpu_isa_parse(cpu_isa_name(i)) == i);
    CHECK(cpu_isa_parse("sse9") == CPU_NONE && cpu_isa_parse("none") == CPU_NONE);
}

/* ---- speed */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* others disturb it less */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* A product as an encoder's layer asks for it, and the peak in slices of the same length, one
 * behind the other: the median of their ratios.  A shared machine is at times half as fast,
 * and both of a pair see it. */
struct bench {
    size_t n, k;
    enum cpu_act act;
    bool add; /* a residual, f32; else bfloat16 where the kernel reads it */
};

static double bench_product(const struct cpu_gemm *g, size_t m, const struct bench *b)
{
    enum { SLICES = 61 };
    double rate[SLICES], ratio[SLICES], ops = 2.0 * (double)m * (double)b->n * (double)b->k;
    size_t rounds = (size_t)(ops / g->peak_ops) + 1;
    struct product p;
    volatile float sink;

    product_init(&p, g, m, b->n, b->k);
    product_job(&p, b->act, false, g->a != CPU_E_F32 && !b->add ? CPU_E_BF16 : CPU_E_F32);
    p.job.whole = b->add && g->bare; /* as cpu_layers.c asks for it */
    p.job.bias = p.job.whole ? NULL : p.bias;
    p.job.add = b->add && !g->bare ? p.add : NULL;
    p.job.ld_add = b->n;
    g->run(&p.job, 0, m, 0, p.np / g->nr);
    for (size_t i = 0; i < SLICES; i++) {
        double t0 = now(), t1;
        g->run(&p.job, 0, m, 0, p.np / g->nr);
        t1 = now();
        rate[i] = ops / (t1 - t0) * 1e-9;
        sink = g->peak(rounds);
        ratio[i] = rate[i] / ((double)rounds * g->peak_ops / (now() - t1) * 1e-9);
    }
    (void)sink;
    qsort(rate, SLICES, sizeof(*rate), by_value);
    qsort(ratio, SLICES, sizeof(*ratio), by_value);
    printf("# %-18s %5zu x %4zu x %4zu %s %8.1f GFLOP/s, %.2f of the peak\n", g->name, m, b->n,
           b->k,
           b->act == CPU_ACT_GELU ? "gelu"
           : p.job.whole          ? "bare"
           : b->add               ? "add "
                                  : "    ",
           rate[SLICES / 2], ratio[SLICES / 2]);
    product_release(&p);
    return ratio[SLICES / 2];
}

/* The four products of a layer: all their operations over all their time at the peak's rate. */
static void bench_layer(const struct cpu_gemm *g, const char *model, size_t m, size_t hidden)
{
    const struct bench layer[] = { { 3 * hidden, hidden, CPU_ACT_NONE, false },
                                   { hidden, hidden, CPU_ACT_NONE, true },
                                   { 4 * hidden, hidden, CPU_ACT_GELU, false },
                                   { hidden, 4 * hidden, CPU_ACT_NONE, true } };
    double ops = 0, time = 0;

    for (size_t i = 0; i < ARRAY_SIZE(layer); i++) {
        double of_it = (double)(layer[i].n * layer[i].k);
        ops += of_it;
        time += of_it / bench_product(g, m, &layer[i]);
    }
    printf("# %s, a layer of %s, %zu rows: %.3f of the peak\n", g->name, model, m, ops / time);
    if (g == &cpu_amx_bf16 && m == 512)
        printf("RESULT amx.gemm.fraction.%s %.3f share 0.50 %s\n", model, ops / time,
               ops / time >= 0.5 ? "ok" : "short");
}

TEST(speed)
{
    static const size_t rows[] = { 16, 128, 512 };
    const char *want = getenv("STOKER_BENCH");

    if (!want) {
        printf("# skipped: STOKER_BENCH is not set (1, or part of a kernel's name)\n");
        return;
    }
    for (size_t g = 0; cpu_gemms[g]; g++)
        for (size_t i = 0; cpu_gemms[g]->isa <= cpu_isa_best() && i < ARRAY_SIZE(rows); i++) {
            if (strcmp(want, "1") != 0 && !strstr(cpu_gemms[g]->name, want))
                continue;
            bench_layer(cpu_gemms[g], "minilm", rows[i], 384);
            bench_layer(cpu_gemms[g], "xlmr", rows[i], 1024);
        }
}

TEST_MAIN(cmocka_unit_test(products_match_plain_loops),
          cmocka_unit_test(bare_products_stay_in_whole_blocks),
          cmocka_unit_test(rows_do_not_depend_on_their_neighbours),
          cmocka_unit_test(large_products_have_the_bits_of_small_ones),
          cmocka_unit_test(gelu_is_within_a_millionth),
          cmocka_unit_test(gelu_of_narrow_results_is_finer_than_their_rounding),
          cmocka_unit_test(softmax_matches), cmocka_unit_test(layernorm_matches),
          cmocka_unit_test(bytes_mean_what_they_should),
          cmocka_unit_test(rows_are_turned_by_a_hadamard_matrix),
          cmocka_unit_test(turned_bytes_stand_an_outlier),
          cmocka_unit_test(words_mean_what_they_should),
          cmocka_unit_test(words_never_leave_32_bits),
          cmocka_unit_test(split_words_mean_what_they_should),
          cmocka_unit_test(weights_that_are_no_numbers_show),
          cmocka_unit_test(heads_are_packed_as_the_layout_says),
          cmocka_unit_test(fast_packing_is_packing),
          cmocka_unit_test(narrow_numbers_are_rounded_as_the_exact_conversions_do),
          cmocka_unit_test(threads_meet), cmocka_unit_test(names_of_instruction_sets),
          cmocka_unit_test(speed))
