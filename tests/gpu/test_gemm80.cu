/* SPDX-License-Identifier: MIT */
/* test_gemm80: gk_gemm_sm80() and cuBLASLt's products against a plain product, then their speed.
 *
 * A result has 11 (f16) or 8 (bf16) bits: rounding alone leaves 2^-12.8 and 2^-9.8 of the norm, and
 * the bounds are some four times that.  The output is all NaN before, rows behind the last one must
 * stay so, and the first rows of every batch must have the bits they have alone. */
#include "engine/cuda/gemm_choose_int.h"
#include "gpu/gk_test.cuh"

#include <string.h>

template <typename T> struct kind;
template <> struct kind<__half> {
    static constexpr enum gk_type type = GK_F16;
    static constexpr double bound = 6e-4;
    static constexpr const char *name = "f16";
};
template <> struct kind<__nv_bfloat16> {
    static constexpr enum gk_type type = GK_BF16;
    static constexpr double bound = 5e-3;
    static constexpr const char *name = "bf16";
};

static double act_of(enum gk_act act, double x)
{
    switch (act) {
    case GK_ACT_GELU:
        return 0.5 * x * erfc(-x * M_SQRT1_2);
    case GK_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case GK_ACT_RELU:
        return x > 0 ? x : 0;
    default:
        return x;
    }
}

struct shape {
    int m, n, k, rows; /* rows: in device memory; -1: not there */
    enum gk_act act;
    bool bias;
};

/* Rows behind the last one as they were: all bits set. */
template <typename T>
static size_t written_behind(const std::vector<T> &o, int rows, int room, size_t ld, int n)
{
    size_t bad = 0;

    for (int i = 0; i < room; i++)
        for (size_t j = 0; j < ld; j++) {
            uint16_t bits;

            memcpy(&bits, &o[i * ld + j], 2);
            if (i >= rows || j >= (size_t)n)
                bad += bits != 0xffff;
        }
    return bad;
}

template <typename T> static void check(const struct shape &s)
{
    int room = (s.m + GK_ROWS_PAD - 1) / GK_ROWS_PAD * GK_ROWS_PAD;
    int rows = s.rows < 0 ? s.m : s.rows, *d_rows = NULL;
    size_t lda = s.k + 64, ldout = s.n + 64;
    T *a = gk_random<T>(room * lda, 1.0f, 1 + s.m), *w = gk_random<T>((size_t)s.n * s.k, 0.05f, 2);
    T *out = gk_poisoned<T>(room * ldout);
    float *bias = gk_random<float>(s.n, 0.5f, 3);
    struct gk_gemm g = {};

    MUST(cudaMalloc((void **)&d_rows, sizeof(int)));
    MUST(cudaMemcpy(d_rows, &rows, sizeof(int), cudaMemcpyHostToDevice));
    g.type = g.out_type = kind<T>::type;
    g.act = s.act;
    g.m = s.m;
    g.n = s.n;
    g.k = s.k;
    g.rows = s.rows < 0 ? NULL : d_rows;
    g.a = a;
    g.w = w;
    g.out = out;
    g.lda = lda;
    g.ldout = ldout;
    g.bias = s.bias ? bias : NULL;
    float *ref = gk_plain<T>(a, lda, w, g.bias, s.m, s.n, s.k);
    MUST(gk_gemm_sm80(&g, 0));
    MUST(cudaDeviceSynchronize());
    std::vector<float> r = gk_host(ref, (size_t)s.m * s.n);
    for (float &x : r)
        x = (float)act_of(s.act, x);
    MUST(cudaMemcpy(ref, r.data(), r.size() * sizeof(float), cudaMemcpyHostToDevice));
    struct gk_diff d = { 0, 0, 0 };
    if (rows)
        d = gk_compare(out, ldout, ref, rows, s.n);
    size_t behind = written_behind(gk_host(out, room * ldout), rows, room, ldout, s.n);
    gk_ok(d.relative <= kind<T>::bound && !behind,
          "%s m %d n %d k %d rows %d act %d bias %d: %.2e, largest %.2e, bad %zu, behind %zu",
          kind<T>::name, s.m, s.n, s.k, rows, (int)s.act, s.bias, d.relative, d.largest, d.bad,
          behind);
    for (void *p : { (void *)a, (void *)w, (void *)out, (void *)bias, (void *)ref, (void *)d_rows })
        MUST(cudaFree(p));
}

/* The first 65 rows have the same bits in batches of 65 (small tiles) and 4097 (large ones). */
static void check_same_bits(void)
{
    enum { N = 1536, K = 384, FEW = 65, MANY = 4097, ROOM = 4352 };
    __half *a = gk_random<__half>((size_t)ROOM * K, 1.0f, 5);
    __half *w = gk_random<__half>((size_t)N * K, 0.05f, 6);
    __half *out[2] = { gk_poisoned<__half>((size_t)ROOM * N),
                       gk_poisoned<__half>((size_t)ROOM * N) };
    struct gk_gemm g = {};

    g.type = g.out_type = GK_F16;
    g.act = GK_ACT_GELU;
    g.n = N;
    g.lda = g.k = K;
    g.ldout = N;
    g.a = a;
    g.w = w;
    g.pdl = true;
    for (int i = 0; i < 2; i++) {
        g.m = i ? MANY : FEW;
        g.out = out[i];
        MUST(gk_gemm_sm80(&g, 0));
    }
    MUST(cudaDeviceSynchronize());
    std::vector<__half> few = gk_host(out[0], (size_t)FEW * N),
                        many = gk_host(out[1], (size_t)FEW * N);
    gk_ok(!memcmp(few.data(), many.data(), few.size() * 2),
          "same bits in a batch of 65 and of 4097");
    MUST(cudaFree(a));
    MUST(cudaFree(w));
    MUST(cudaFree(out[0]));
    MUST(cudaFree(out[1]));
}

static void time_one(int m, int n, int k, enum gk_act act)
{
    enum { SETS = 4 };
    int room = (m + GK_ROWS_PAD - 1) / GK_ROWS_PAD * GK_ROWS_PAD;
    __half *a[SETS], *w[SETS], *out[SETS];
    float *bias = gk_random<float>(n, 0.5f, 3);
    struct gk_gemm g = {};

    for (int i = 0; i < SETS; i++) {
        a[i] = gk_random<__half>((size_t)room * k, 1.0f, 10 + i);
        w[i] = gk_random<__half>((size_t)n * k, 0.05f, 20 + i);
        out[i] = gk_poisoned<__half>((size_t)room * n);
    }
    g.type = g.out_type = GK_F16;
    g.act = act;
    g.m = m;
    g.ldout = g.n = n;
    g.lda = g.k = k;
    g.bias = bias;
    float ms = gk_time([&](int i) {
        g.a = a[i % SETS];
        g.w = w[i % SETS];
        g.out = out[i % SETS];
        MUST(gk_gemm_sm80(&g, 0));
    });
    printf("sm80 %dx%dx%d act %d: %.1f us, %.0f TFLOP/s\n", m, n, k, (int)act, ms * 1e3,
           2e-9 * m * n * k / ms);
    fflush(stdout);
    for (int i = 0; i < SETS; i++) {
        MUST(cudaFree(a[i]));
        MUST(cudaFree(w[i]));
        MUST(cudaFree(out[i]));
    }
    MUST(cudaFree(bias));
}

/* ---- cuBLASLt, where it is ---- */
struct lt {
    struct gk_lt *lib;
    struct gk_lt_room room;
};

template <typename T> static T *bias_in(const float *bias, int n)
{
    std::vector<float> f = gk_host(bias, n);
    std::vector<T> v(n);
    T *p = gk_poisoned<T>(n);

    for (int i = 0; i < n; i++)
        v[i] = T(f[i]);
    MUST(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

/* Against the plain product: the bias in the product, or in the pass behind it. */
template <typename IN, typename T>
static void lt_check(const struct lt *l, enum gk_type type, int m, int n, int k, enum gk_act act,
                     bool in_product)
{
    enum { SCALE_AT = 64 }; /* the library wants scales at addresses of their own */
    IN *a = gk_random<IN>((size_t)m * k, 1.0f, 31), *w = gk_random<IN>((size_t)n * k, 0.5f, 32);
    T *out = gk_poisoned<T>((size_t)m * n);
    float *bias = gk_random<float>(n, 0.5f, 33), *d_scales = NULL;
    float scales[SCALE_AT + 1] = { 0.5f };
    T *bias16 = bias_in<T>(bias, n);
    char err[GK_LT_TEXT_MAX] = "";
    struct gk_gemm g = {};

    scales[SCALE_AT] = 0.125f;
    MUST(cudaMalloc((void **)&d_scales, sizeof(scales)));
    MUST(cudaMemcpy(d_scales, scales, sizeof(scales), cudaMemcpyHostToDevice));
    g.type = type;
    g.out_type = kind<T>::type;
    g.act = act;
    g.m = m;
    g.ldout = g.n = n;
    g.lda = g.k = k;
    g.a = a;
    g.w = w;
    g.out = out;
    g.bias = bias;
    g.a_scale = d_scales;
    g.w_scale = d_scales + SCALE_AT;
    bool good = gk_lt_product(l->lib, &g, in_product ? bias16 : NULL, NULL, &l->room, 0, err);
    MUST(cudaDeviceSynchronize());
    float *ref = gk_plain<IN>(a, k, w, NULL, m, n, k);
    std::vector<float> r = gk_host(ref, (size_t)m * n), b = gk_host(bias, n);
    for (size_t i = 0; i < r.size(); i++)
        r[i] = (float)act_of(act, r[i] * (type == GK_E4M3 ? scales[0] * scales[SCALE_AT] : 1) +
                                      b[i % n]);
    MUST(cudaMemcpy(ref, r.data(), r.size() * sizeof(float), cudaMemcpyHostToDevice));
    struct gk_diff d = gk_compare(out, n, ref, m, n);
    gk_ok(good && d.relative <= (type == GK_E4M3 ? 4 : 1) * kind<T>::bound,
          "lt type %d to %s %dx%dx%d act %d bias %d: %.2e, bad %zu %s", (int)type, kind<T>::name, m,
          n, k, (int)act, in_product, d.relative, d.bad, err);
    for (void *p : { (void *)a, (void *)w, (void *)out, (void *)bias, (void *)bias16,
                     (void *)d_scales, (void *)ref })
        MUST(cudaFree(p));
}

static void lt_time(const struct lt *l, int m, int n, int k, enum gk_act act)
{
    __half *a = gk_random<__half>((size_t)m * k, 1.0f, 1);
    __half *w = gk_random<__half>((size_t)n * k, 0.05f, 2),
           *out = gk_poisoned<__half>((size_t)m * n);
    float *bias = gk_random<float>(n, 0.5f, 3);
    __half *bias16 = bias_in<__half>(bias, n);
    struct gk_lt_algo algos[GK_LT_ALGOS_MAX];
    char err[GK_LT_TEXT_MAX] = "";
    struct gk_gemm g = {};

    g.type = g.out_type = GK_F16;
    g.act = act;
    g.m = m;
    g.ldout = g.n = n;
    g.lda = g.k = k;
    g.a = a;
    g.w = w;
    g.out = out;
    g.bias = bias;
    int count = gk_lt_tune(l->lib, &g, bias16, &l->room, 0, algos, err);
    if (count > 0) {
        float ms =
            gk_time([&](int) { (void)gk_lt_product(l->lib, &g, bias16, algos, &l->room, 0, err); });
        printf("lt %dx%dx%d act %d: %d algorithms %.1f .. %.1f us; best with its pass %.1f us, "
               "%.0f TFLOP/s\n",
               m, n, k, (int)act, count, algos[0].us, algos[count - 1].us, ms * 1e3,
               2e-9 * m * n * k / ms);
    } else {
        printf("lt %dx%dx%d: %s\n", m, n, k, err);
    }
    fflush(stdout);
    for (void *p : { (void *)a, (void *)w, (void *)out, (void *)bias, (void *)bias16 })
        MUST(cudaFree(p));
}

/* What is chosen, measured on this device, makes the product; and is found again. */
static void choose_one(const struct lt *l, int m, int n, int k, enum gk_act act)
{
    static struct choose c;
    static const char *const names[] = { "sm90", "sm80", "lt", "split90" };
    __half *a = gk_random<__half>((size_t)m * k, 1.0f, 1),
           *w = gk_random<__half>((size_t)n * k, 0.05f, 2);
    __half *out = gk_poisoned<__half>((size_t)m * n);
    char err[GK_LT_TEXT_MAX] = "";
    struct choose_way way;
    struct gemm_one one = {};
    struct gk_gemm &g = one.g;
    struct gemm_ways ways = {};

    MUST(cudaStreamCreate(&ways.stream));
    g.type = g.out_type = GK_F16;
    g.act = act;
    g.m = m;
    g.ldout = g.n = n;
    g.lda = g.k = k;
    g.a = a;
    g.w = w;
    g.out = out;
    ways.sm80 = gk_gemm_sm80;
    ways.lt = l->lib;
    ways.room = l->room;
    ways.list = &one;
    ways.count = 1;
    choose_init(&c, "test");
    struct choose_key key = gemm_key(&g);
    struct choose_ops ops = gemm_choose_ops(&ways);
    bool good = choose_best(&c, &key, &ops, &way) && choose_find(&c, &key) &&
                gemm_by(&ways, &way, &one, ways.stream, err);
    MUST(cudaDeviceSynchronize());
    gk_ok(good, "chosen for %dx%dx%d act %d: %s, %.1f us %s", m, n, k, (int)act,
          good ? names[way.impl] : "none", good ? c.entries[0].us : 0, err);
    MUST(cudaStreamDestroy(ways.stream));
    MUST(cudaFree(a));
    MUST(cudaFree(w));
    MUST(cudaFree(out));
}

static void lt_all(void)
{
    struct lt l = {};
    char err[GK_LT_TEXT_MAX] = "";

    if (!gk_lt_open(&l.lib, err)) {
        printf("# lt: %s\n", err);
        return;
    }
    printf("# lt: %s %zu\n", gk_lt_name(l.lib), gk_lt_version(l.lib));
    l.room.bytes = GK_LT_WORKSPACE_BYTES;
    MUST(cudaMalloc(&l.room.p, l.room.bytes));
    lt_check<__half, __half>(&l, GK_F16, 1000, 1536, 384, GK_ACT_GELU, true);
    lt_check<__half, __half>(&l, GK_F16, 7, 384, 1536, GK_ACT_NONE, false);
    lt_check<__nv_bfloat16, __nv_bfloat16>(&l, GK_BF16, 300, 1152, 384, GK_ACT_NONE, true);
    lt_check<__nv_fp8_e4m3, __half>(&l, GK_E4M3, 512, 1024, 1024, GK_ACT_GELU, true);
    lt_check<__nv_fp8_e4m3, __nv_bfloat16>(&l, GK_E4M3, 512, 1024, 1024, GK_ACT_NONE, true);
    lt_time(&l, 16384, 1152, 384, GK_ACT_NONE);
    lt_time(&l, 16384, 1536, 384, GK_ACT_GELU);
    lt_time(&l, 16384, 384, 1536, GK_ACT_NONE);
    lt_time(&l, 16384, 4096, 1024, GK_ACT_GELU);
    lt_time(&l, 16384, 1024, 4096, GK_ACT_NONE);
    lt_time(&l, 32, 4096, 1024, GK_ACT_GELU);
    choose_one(&l, 16384, 1536, 384, GK_ACT_GELU);
    choose_one(&l, 64, 1024, 1024, GK_ACT_NONE);
    MUST(cudaFree(l.room.p));
    gk_lt_close(l.lib);
}

int main(void)
{
    static const struct shape shapes[] = { { 1, 64, 64, -1, GK_ACT_NONE, false },
                                           { 7, 192, 128, -1, GK_ACT_NONE, true },
                                           { 64, 128, 192, -1, GK_ACT_RELU, true },
                                           { 65, 384, 1536, -1, GK_ACT_GELU, true },
                                           { 127, 1152, 384, 100, GK_ACT_NONE, true },
                                           { 129, 1536, 384, -1, GK_ACT_GELU, true },
                                           { 300, 1024, 4096, 1, GK_ACT_NONE, true },
                                           { 1000, 3072, 768, 0, GK_ACT_GELU, true },
                                           { 4097, 1536, 384, -1, GK_ACT_GELU, true },
                                           { 4096, 576, 64, 3333, GK_ACT_GELU_TANH, true },
                                           { 5000, 1024, 1024, -1, GK_ACT_NONE, false } };

    for (const struct shape &s : shapes) {
        check<__half>(s);
        check<__nv_bfloat16>(s);
    }
    check_same_bits();
    time_one(16384, 1152, 384, GK_ACT_NONE);
    time_one(16384, 1536, 384, GK_ACT_GELU);
    time_one(16384, 384, 1536, GK_ACT_NONE);
    time_one(16384, 3072, 1024, GK_ACT_NONE);
    time_one(16384, 4096, 1024, GK_ACT_GELU);
    time_one(16384, 1024, 4096, GK_ACT_NONE);
    time_one(512, 3072, 1024, GK_ACT_NONE);
    time_one(128, 3072, 1024, GK_ACT_NONE);
    time_one(32, 4096, 1024, GK_ACT_GELU);
    lt_all();
    return gk_done();
}
