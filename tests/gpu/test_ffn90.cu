/* SPDX-License-Identifier: MIT */
/* test_ffn90: gk_ffn_sm90() against plain products, then its speed.
 *
 * The reference rounds what lies between the products as the kernel does; the rest is f32.  What
 * remains is the rounding of the result (2^-12.8 of the norm in f16, 2^-9.8 in bf16) and some
 * differences in how h was rounded; the bounds are four times the first.  Rows behind the last one
 * must stay as they were, and rows have the bits they have in any other batch. */
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

template <typename T> __global__ void gelu_kernel(const float *in, size_t n, T *out)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        out[i] = gk_from<T>(0.5f * in[i] * erfcf(-in[i] * 0.70710678f));
}

/* One block a row. */
template <typename T>
__global__ void norm_kernel(const T *x, size_t ld, const float *gamma, const float *beta, float eps,
                            int hidden, float *y)
{
    __shared__ float part[32];
    const T *row = x + blockIdx.x * ld;
    float *to = y + (size_t)blockIdx.x * hidden;
    float mean = 0, var = 0;

    for (int pass = 0; pass < 2; pass++) {
        float sum = 0;

        for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
            float v = to[i] + gk_float<T>(row[i]) - mean;

            sum += pass ? v * v : v;
        }
        sum = gk_warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            part[threadIdx.x / 32] = sum;
        __syncthreads();
        sum = 0;
        for (unsigned i = 0; i < blockDim.x / 32; i++)
            sum += part[i];
        __syncthreads();
        *(pass ? &var : &mean) = sum / hidden;
    }
    for (int i = threadIdx.x; i < hidden; i += blockDim.x)
        to[i] = (to[i] + gk_float<T>(row[i]) - mean) / sqrtf(var + eps) * gamma[i] + beta[i];
}

/* A block's weights, and x as it was. */
template <typename T> struct net {
    int m, hidden, ffn;
    size_t ld, room;
    T *x, *first, *w1, *w2;
    float *b1, *b2, *gamma, *beta;
    struct gk_ffn f;
};

template <typename T> static struct net<T> net_make(int m, int hidden, int ffn, size_t ld) {
    struct net<T> t = {
    };

    t.room = (size_t)(m + GK_ROWS_PAD - 1) / GK_ROWS_PAD * GK_ROWS_PAD;
    t.m = m;
    t.hidden = hidden;
    t.ffn = ffn;
    t.ld = ld;
    t.first = gk_random<T>(t.room * ld, 1.0f, 11);
    t.x = gk_poisoned<T>(t.room * ld);
    MUST(cudaMemcpy(t.x, t.first, t.room *ld * sizeof(T), cudaMemcpyDeviceToDevice));
    t.w1 = gk_random<T>((size_t)ffn * hidden, 0.06f, 12);
    t.w2 = gk_random<T>((size_t)ffn * hidden, 0.05f, 13);
    t.b1 = gk_random<float>(ffn, 0.3f, 14);
    t.b2 = gk_random<float>(hidden, 0.3f, 15);
    t.gamma = gk_random<float>(hidden, 1.0f, 16);
    t.beta = gk_random<float>(hidden, 0.5f, 17);
    t.f.type = kind<T>::type;
    t.f.act = GK_ACT_GELU;
    t.f.m = m;
    t.f.hidden = hidden;
    t.f.ffn = ffn;
    t.f.ld = ld;
    t.f.x = t.x;
    t.f.w1 = t.w1;
    t.f.w2 = t.w2;
    t.f.b1 = t.b1;
    t.f.b2 = t.b2;
    t.f.gamma = t.gamma;
    t.f.beta = t.beta;
    t.f.eps = 1e-12f;
    return t;
}

template <typename T>
static void net_free(struct net<T> *t)
{
    for (void *p : { (void *)t->x, (void *)t->first, (void *)t->w1, (void *)t->w2, (void *)t->b1,
                     (void *)t->b2, (void *)t->gamma, (void *)t->beta })
        MUST(cudaFree(p));
}

template <typename T> static float *reference(const struct net<T> &t)
{
    float *h = gk_plain<T>(t.first, t.ld, t.w1, t.b1, t.m, t.ffn, t.hidden), *y;
    T *h16 = gk_poisoned<T>((size_t)t.m * t.ffn);

    gelu_kernel<T><<<1024, 256>>>(h, (size_t)t.m * t.ffn, h16);
    y = gk_plain<T>(h16, t.ffn, t.w2, t.b2, t.m, t.hidden, t.ffn);
    norm_kernel<T><<<t.m, 128>>>(t.first, t.ld, t.gamma, t.beta, t.f.eps, t.hidden, y);
    MUST(cudaDeviceSynchronize());
    MUST(cudaFree(h));
    MUST(cudaFree(h16));
    return y;
}

/* Where the wrong numbers are, in few lines. */
template <typename T>
static void say_where(const std::vector<T> &o, const std::vector<float> &r, size_t ld, int rows,
                      int hidden)
{
    int said = 0;

    for (int i0 = 0; i0 < rows && said < 6; i0 += 16) {
        char line[64] = "";
        int bad = 0, cols = hidden / 64;

        for (int b = 0; b < cols; b++) {
            int n = 0;
            for (int i = i0; i < i0 + 16 && i < rows; i++)
                for (int j = b * 64; j < b * 64 + 64; j++) {
                    float e = fabsf(float(o[i * ld + j]) - r[(size_t)i * hidden + j]);
                    n += !(e < 0.05f);
                }
            line[b] = n ? n > 256 ? '#' : '+' : '.';
            bad += n;
        }
        if (bad) {
            printf("# rows %d..: %s, first got %g %g %g %g want %g %g %g %g\n", i0, line,
                   float(o[i0 * ld]), float(o[i0 * ld + 1]), float(o[i0 * ld + 2]),
                   float(o[i0 * ld + 64]), r[(size_t)i0 * hidden], r[(size_t)i0 * hidden + 1],
                   r[(size_t)i0 * hidden + 2], r[(size_t)i0 * hidden + 64]);
            said++;
        }
    }
}

template <typename T> static void check(int m, int rows, int hidden, int ffn)
{
    struct net<T> t = net_make<T>(m, hidden, ffn, (size_t)hidden + (m % 2 ? 64 : 0));
    float *ref = reference(t);
    int have = rows < 0 ? m : rows, *d_rows = NULL;
    size_t all = t.room * t.ld, behind = 0;

    MUST(cudaMalloc((void **)&d_rows, sizeof(int)));
    MUST(cudaMemcpy(d_rows, &have, sizeof(int), cudaMemcpyHostToDevice));
    t.f.rows = rows < 0 ? NULL : d_rows;
    t.f.pdl = m % 2;
    MUST(gk_ffn_sm90(&t.f, 0));
    MUST(cudaDeviceSynchronize());
    struct gk_diff d = { 0, 0, 0 };
    if (have)
        d = gk_compare(t.x, t.ld, ref, have, hidden);
    std::vector<T> now = gk_host(t.x, all), was = gk_host(t.first, all);
    for (size_t i = 0; i < t.room; i++)
        for (size_t j = 0; j < t.ld; j++)
            if (i >= (size_t)have || j >= (size_t)hidden)
                behind += memcmp(&now[i * t.ld + j], &was[i * t.ld + j], sizeof(T)) != 0;
    gk_ok(d.relative <= kind<T>::bound && !behind,
          "%s m %d rows %d hidden %d ffn %d: %.2e, largest %.2e, bad %zu, behind %zu",
          kind<T>::name, m, have, hidden, ffn, d.relative, d.largest, d.bad, behind);
    if (!(d.relative <= kind<T>::bound))
        say_where(now, gk_host(ref, (size_t)m * hidden), t.ld, have, hidden);
    MUST(cudaFree(ref));
    MUST(cudaFree(d_rows));
    net_free(&t);
}

static void check_same_bits(void)
{
    enum { HIDDEN = 384, FFN = 1536, FEW = 65, MANY = 40000 };
    struct net<__half> a = net_make<__half>(FEW, HIDDEN, FFN, HIDDEN);
    struct net<__half> b = net_make<__half>(MANY, HIDDEN, FFN, HIDDEN);

    MUST(gk_ffn_sm90(&a.f, 0));
    MUST(gk_ffn_sm90(&b.f, 0));
    MUST(cudaDeviceSynchronize());
    std::vector<__half> few = gk_host(a.x, (size_t)FEW * HIDDEN);
    std::vector<__half> many = gk_host(b.x, (size_t)FEW * HIDDEN);
    gk_ok(!memcmp(few.data(), many.data(), few.size() * 2), "same bits in batches of 65 and 40000");
    net_free(&a);
    net_free(&b);
}

template <typename T> static void time_one(int m, int hidden, int ffn)
{
    enum { SETS = 4 };
    struct net<T> t[SETS];

    for (struct net<T> &one : t)
        one = net_make<T>(m, hidden, ffn, hidden);
    float ms = gk_time([&](int i) { MUST(gk_ffn_sm90(&t[i % SETS].f, 0)); });
    printf("ffn90 %s m %d hidden %d: %.1f us, %.0f TFLOP/s\n", kind<T>::name, m, hidden, ms * 1e3,
           4e-9 * m * hidden * ffn / ms);
    fflush(stdout);
    for (struct net<T> &one : t)
        net_free(&one);
}

int main(void)
{
    for (int m : { 1, 7, 64, 65, 127, 128, 129, 300, 1000, 4097 })
        check<__half>(m, -1, 384, 1536);
    check<__half>(500, 200, 384, 1536);
    check<__half>(20000, 19999, 384, 1536);
    check<__half>(777, -1, 384, 64);
    check<__half>(777, 0, 384, 128);
    check<__half>(777, -1, 256, 1024);
    check<__half>(40000, -1, 256, 64);
    check<__nv_bfloat16>(4097, -1, 384, 1536);
    check<__nv_bfloat16>(777, -1, 256, 1024);
    check_same_bits();
    for (int m : { 1024, 4096, 8192, 16384, 16896, 32768, 33792, 65536 })
        time_one<__half>(m, 384, 1536);
    time_one<__nv_bfloat16>(32768, 384, 1536);
    time_one<__half>(32768, 256, 1024);
    return gk_done();
}
