/* SPDX-License-Identifier: MIT */
/* test_skinny: products of few rows against a plain one, and the chain of small kernels that
 * one short text is: right with overlapping launches, and how long a layer takes. */
#include "gpu/gk_test.cuh"

#include <string.h>

namespace
{

/* ---- a product against the plain one ---- */
struct product {
    int m, n, k, splits;
    enum gk_act act;
    bool bias;
    int rows; /* there are, in device memory; 0: m of them, and no such number */
};

double activation(enum gk_act act, double x)
{
    switch (act) {
    case GK_ACT_GELU:
        return 0.5 * x * (1 + erf(x * M_SQRT1_2));
    case GK_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    case GK_ACT_RELU:
        return x > 0 ? x : 0;
    default:
        return x;
    }
}

/* Relative error of out (or the sum of the parts), infinite where anything is wrong behind the
 * last row or not a number before it; says where the first bad number is. */
template <typename T>
double error_of(const struct product &c, const T *out, const float *parts, const float *plain,
                const float *bias)
{
    std::vector<T> o = gk_host(out, (size_t)GK_SKINNY_ROWS * c.n);
    std::vector<float> q = gk_host(parts, (size_t)GK_SPLITS_MAX * c.m * c.n);
    std::vector<float> r = gk_host(plain, (size_t)c.m * c.n), b = gk_host(bias, c.n);
    double num = 0, den = 0;
    int rows = c.rows ? c.rows : c.m, shown = 0;

    for (int i = 0; i < GK_SKINNY_ROWS; i++)
        for (int j = 0; j < c.n; j++) {
            double x = float(o[(size_t)i * c.n + j]), y;
            bool written = i < rows && c.splits == 1;

            if (written == isnan(x) && !shown++)
                printf("# row %d column %d: %s\n", i, j, written ? "not written" : "written");
            if (i >= rows)
                continue;
            y = r[(size_t)i * c.n + j];
            if (c.splits > 1) {
                x = 0;
                for (int s = 0; s < c.splits; s++)
                    x += (double)q[((size_t)s * c.m + i) * c.n + j];
            } else
                y = activation(c.act, y + (c.bias ? b[j] : 0));
            if (!(fabs(x - y) <= 0.05 * (1 + fabs(y))) && !shown++)
                printf("# row %d column %d: %g, not %g\n", i, j, x, y);
            num += (x - y) * (x - y);
            den += y * y;
        }
    return shown ? INFINITY : sqrt(num / (den > 0 ? den : 1));
}

template <typename T> void check_product(const struct product &c, enum gk_type type)
{
    double bound = c.splits > 1 ? 2e-6 : type == GK_F16 ? 6e-4 : 4e-3, error;
    size_t lda = (size_t)c.k + GK_PAD;
    T *a = gk_random<T>(GK_ROWS_PAD * lda, 1.0f, 1),
      *out = gk_poisoned<T>(GK_ROWS_PAD * (size_t)c.n);
    T *w = gk_random<T>((size_t)c.n * c.k, 1.0f / sqrtf((float)c.k), 2);
    float *parts = gk_poisoned<float>((size_t)GK_SPLITS_MAX * GK_SKINNY_ROWS * c.n);
    float *bias = gk_random<float>(c.n, 0.5f, 3),
          *plain = gk_plain<T>(a, lda, w, NULL, c.m, c.n, c.k);
    struct gk_gemm g = {};
    int32_t *rows = NULL;

    MUST(cudaMalloc((void **)&rows, sizeof(*rows)));
    MUST(cudaMemcpy(rows, &c.rows, sizeof(*rows), cudaMemcpyHostToDevice));
    g.type = g.out_type = type;
    g.act = c.act;
    g.m = c.m, g.n = c.n, g.k = c.k;
    g.rows = c.rows ? rows : NULL;
    g.a = a, g.w = w, g.out = out;
    g.lda = lda, g.ldout = (size_t)c.n;
    g.bias = c.bias ? bias : NULL;
    MUST(gk_gemm_skinny(&g, parts, c.splits, 0));
    MUST(cudaDeviceSynchronize());
    error = error_of(c, out, parts, plain, bias);
    gk_ok(error <= bound, "%s %d x %d x %d, %d splits, act %d, rows %d: error %.2g (%.2g)",
          type == GK_F16 ? "f16" : "bf16", c.m, c.n, c.k, c.splits, c.act, c.rows, error, bound);
    for (void *p : { (void *)a, (void *)out, (void *)w, (void *)parts, (void *)bias, (void *)plain,
                     (void *)rows })
        MUST(cudaFree(p));
}

/* A row has the same bits whatever m is. */
void check_bits(int n, int k)
{
    const int few = 5;
    __half *a = gk_random<__half>((size_t)GK_ROWS_PAD * k, 1.0f, 4);
    __half *w = gk_random<__half>((size_t)n * k, 0.05f, 5);
    __half *out = gk_poisoned<__half>((size_t)GK_SKINNY_ROWS * n);
    std::vector<__half> first;
    struct gk_gemm g = {};
    bool same = true;

    g.n = n, g.k = k;
    g.a = a, g.w = w, g.out = out;
    g.lda = (size_t)k, g.ldout = (size_t)n;
    for (int m : { few, 16, 30, 48, 64 }) {
        g.m = m;
        MUST(gk_gemm_skinny(&g, NULL, 1, 0));
        std::vector<__half> o = gk_host(out, (size_t)few * n);
        if (first.empty())
            first = o;
        same = same && memcmp(o.data(), first.data(), o.size() * sizeof(o[0])) == 0;
    }
    gk_ok(same, "%d x %d: a row's bits do not depend on the number of rows", n, k);
    for (void *p : { (void *)a, (void *)w, (void *)out })
        MUST(cudaFree(p));
}

/* ---- the chain: what one text is, without its attention ---- */
struct shape {
    const char *name;
    int hidden, ffn, layers;
};
const struct shape shapes[] = { { "xlmr-large", 1024, 4096, 24 },
                                { "mpnet-base", 768, 3072, 12 },
                                { "minilm-l6", 384, 1536, 6 } };
enum { ROWS = 32, HEAD = 64 };

struct chain {
    const struct shape *s;
    __half *qkv_w, *o_w, *ffn1_w, *ffn2_w; /* of all layers */
    __half *x, *qkv, *att, *ffn, *start;
    float *parts, *bias, *gamma, *beta;
    float *vector;
    uint32_t *starts;
    int32_t *rows;
    bool pdl;
};

/* In the place of attention: reads q, writes as much. */
__global__ void copy_kernel(const __half *qkv, size_t ld, __half *out, size_t ldout)
{
    gk_let_next();
    gk_wait_before();
    for (int i = threadIdx.x; i < ROWS * HEAD / 8; i += blockDim.x) {
        size_t row = i / (HEAD / 8), column = blockIdx.x * HEAD + i % (HEAD / 8) * 8;
        *(uint4 *)(out + row * ldout + column) = __ldcg((const uint4 *)(qkv + row * ld + column));
    }
}

void product_run(const struct chain *c, const __half *a, size_t k, const __half *w, size_t n,
                 __half *out, enum gk_act act, int splits, cudaStream_t s)
{
    struct gk_gemm g = {};

    g.act = act;
    g.m = ROWS, g.n = (int)n, g.k = (int)k;
    g.a = a, g.w = w, g.out = out;
    g.lda = k, g.ldout = n;
    g.rows = c->rows;
    g.bias = c->bias;
    g.pdl = c->pdl;
    MUST(gk_gemm_skinny(&g, c->parts, splits, s));
}
void norm_run(const struct chain *c, const __half *y, int splits, cudaStream_t s)
{
    struct gk_norm n = {};

    n.m = ROWS, n.hidden = c->s->hidden;
    n.ld = (size_t)c->s->hidden;
    n.rows = c->rows;
    n.x = c->x;
    n.y = splits > 1 ? NULL : y;
    n.partial = c->parts;
    n.splits = splits;
    n.bias = c->bias, n.gamma = c->gamma, n.beta = c->beta;
    n.eps = 1e-5f;
    n.pdl = c->pdl;
    MUST(gk_add_norm(&n, s));
}
void layer_run(const struct chain *c, int layer, cudaStream_t s)
{
    size_t h = (size_t)c->s->hidden, f = (size_t)c->s->ffn, l = (size_t)layer;
    int sms = 0, o_splits, ffn_splits;

    MUST(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    o_splits = gk_skinny_splits((int)h, (int)h, sms);
    ffn_splits = gk_skinny_splits((int)h, (int)f, sms);
    product_run(c, c->x, h, c->qkv_w + l * 3 * h * h, 3 * h, c->qkv, GK_ACT_NONE, 1, s);
    MUST(gk_launch(copy_kernel, dim3((unsigned)h / HEAD), dim3(128), 0, s, c->pdl, c->qkv, 3 * h,
                   c->att, h));
    product_run(c, c->att, h, c->o_w + l * h * h, h, c->att, GK_ACT_NONE, o_splits, s);
    norm_run(c, c->att, o_splits, s);
    product_run(c, c->x, h, c->ffn1_w + l * f * h, f, c->ffn, GK_ACT_GELU, 1, s);
    product_run(c, c->ffn, f, c->ffn2_w + l * f * h, h, c->att, GK_ACT_NONE, ffn_splits, s);
    norm_run(c, c->att, ffn_splits, s);
}
void pool_run(const struct chain *c, cudaStream_t s)
{
    struct gk_pool p = {};

    p.sequences = 1;
    p.hidden = c->s->hidden;
    p.ld = (size_t)c->s->hidden;
    p.x = c->x;
    p.starts = c->starts;
    p.kind_count = 1;
    p.normalize = true;
    p.out = c->vector;
    p.pdl = c->pdl;
    MUST(gk_pool(&p, s));
}

struct chain chain_make(const struct shape *s)
{
    size_t h = (size_t)s->hidden, f = (size_t)s->ffn, l = (size_t)s->layers;
    uint32_t starts[2] = { 0, ROWS };
    struct chain c = {};

    c.s = s;
    c.qkv_w = gk_random<__half>(l * 3 * h * h, 0.03f, 10);
    c.o_w = gk_random<__half>(l * h * h, 0.03f, 11);
    c.ffn1_w = gk_random<__half>(l * f * h, 0.03f, 12);
    c.ffn2_w = gk_random<__half>(l * f * h, 0.03f, 13);
    c.x = gk_poisoned<__half>(GK_ROWS_PAD * h);
    c.start = gk_random<__half>(GK_ROWS_PAD * h, 1.0f, 14);
    c.qkv = gk_poisoned<__half>(GK_ROWS_PAD * 3 * h);
    c.att = gk_poisoned<__half>(GK_ROWS_PAD * h);
    c.ffn = gk_poisoned<__half>(GK_ROWS_PAD * f);
    c.parts = gk_poisoned<float>(GK_SPLITS_MAX * ROWS * h);
    c.bias = gk_random<float>(f, 0.1f, 15);
    c.gamma = gk_random<float>(h, 1.0f, 16);
    c.beta = gk_random<float>(h, 0.1f, 17);
    c.vector = gk_poisoned<float>(h);
    MUST(cudaMalloc((void **)&c.starts, sizeof(starts)));
    MUST(cudaMemcpy(c.starts, starts, sizeof(starts), cudaMemcpyHostToDevice));
    MUST(cudaMalloc((void **)&c.rows, sizeof(*c.rows)));
    MUST(cudaMemcpy(c.rows, &starts[1], sizeof(*c.rows), cudaMemcpyHostToDevice));
    return c;
}
void chain_free(struct chain *c)
{
    for (void *p : { (void *)c->qkv_w, (void *)c->o_w, (void *)c->ffn1_w, (void *)c->ffn2_w,
                     (void *)c->x, (void *)c->qkv, (void *)c->att, (void *)c->ffn, (void *)c->start,
                     (void *)c->parts, (void *)c->bias, (void *)c->gamma, (void *)c->beta,
                     (void *)c->vector, (void *)c->starts, (void *)c->rows })
        MUST(cudaFree(p));
}
cudaGraphExec_t chain_capture(const struct chain *c)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStream_t s;

    MUST(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int l = 0; l < c->s->layers; l++)
        layer_run(c, l, s);
    pool_run(c, s);
    MUST(cudaStreamEndCapture(s, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(s));
    return exec;
}

/* The same vector with and without overlap, many times; and the time of each. */
void check_chain(const struct shape *s)
{
    struct chain c = chain_make(s);
    size_t h = (size_t)s->hidden;
    std::vector<float> first;
    int same = 0, runs = 0;
    bool finite = true;
    float ms[2];

    for (int pdl = 0; pdl < 2; pdl++) {
        c.pdl = pdl;
        cudaGraphExec_t exec = chain_capture(&c);
        for (int i = 0; i < 10; i++, runs++) {
            MUST(cudaMemcpy(c.x, c.start, GK_ROWS_PAD * h * sizeof(__half),
                            cudaMemcpyDeviceToDevice));
            MUST(cudaGraphLaunch(exec, 0));
            std::vector<float> v = gk_host(c.vector, h);
            if (first.empty())
                first = v;
            for (float x : v)
                finite = finite && isfinite(x);
            same += memcmp(v.data(), first.data(), h * sizeof(float)) == 0;
        }
        ms[pdl] = gk_time([&](int) { MUST(cudaGraphLaunch(exec, 0)); }, 5, 41);
        MUST(cudaGraphExecDestroy(exec));
    }
    gk_ok(finite && same == runs, "%s: %d of %d runs have the same bits", s->name, same, runs);
    printf("# %s: %d layers of %d rows: %.1f us in order, %.1f us overlapped (%.2f a layer, "
           "%.2f TB/s)\n",
           s->name, s->layers, (int)ROWS, ms[0] * 1e3, ms[1] * 1e3, ms[1] * 1e3 / s->layers,
           2e-9 * s->layers * (4.0 * h * h + 2.0 * h * s->ffn) / ms[1]);
    chain_free(&c);
}

} // namespace

int main(void)
{
    static const int sizes[][2] = { { 64, 64 },     { 192, 320 },   { 384, 384 },
                                    { 1152, 384 },  { 384, 1536 },  { 2304, 768 },
                                    { 3072, 1024 }, { 1024, 4096 }, { 4096, 1024 } };
    int i = 0;

    for (const int *s : sizes)
        for (int m : { 1, 7, 16, 17, 32, 33, 64 }) {
            struct product c = {
                m, s[0], s[1], 1, (enum gk_act)(i % 4), i % 3 != 0, i % 5 == 0 ? m / 2 : 0
            };

            if (i++ % 2)
                check_product<__half>(c, GK_F16);
            else
                check_product<__nv_bfloat16>(c, GK_BF16);
            c.splits = i % 2 ? gk_skinny_splits(s[0], s[1], 132) : std::min(s[1] / 32, 8);
            if (c.splits > 1)
                check_product<__half>(c, GK_F16);
        }
    check_bits(1152, 384);
    check_bits(3072, 1024);
    for (const struct shape &s : shapes)
        check_chain(&s);
    return gk_done();
}
