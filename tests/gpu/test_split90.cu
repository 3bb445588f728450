/* SPDX-License-Identifier: MIT */
/* test_split90: the product that is cut along k against a plain one, for every number of parts,
 * both types and all activations, over awkward numbers of rows; then how fast it is beside the
 * other products there are, in chains with programmatic launches and weights that rotate.
 *
 * Bounds, as |out - ref| / |ref|: 16-bit results round once, 2.0e-4 and 1.7e-3 in norm. */
#include "gpu/gk_test.cuh"

#include "engine/cuda/gemm_lt_int.h"
#include "engine/cuda/kernels/gemm_split90_int.h"

#include <string.h>
#include <time.h>

enum { GUARD_ROWS = 130, LD_EXTRA = 64 };

__global__ void act_kernel(float *x, size_t n, enum gk_act act)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x) {
        float v = x[i];
        x[i] = act == GK_ACT_GELU ? 0.5f * v * erfcf(-v * 0.70710678118654752f)
               : act == GK_ACT_GELU_TANH
                   ? 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)))
               : act == GK_ACT_RELU ? fmaxf(v, 0.0f)
                                    : v;
    }
}

/* Everything that must not be written still is what it was. */
template <typename T>
static size_t strayed(const std::vector<T> &all, size_t ld, int rows, int n, int total)
{
    size_t bad = 0;

    for (int i = 0; i < total; i++)
        for (size_t j = i < rows ? n : 0; j < ld; j++)
            bad += ((const uint16_t *)all.data())[i * ld + j] != 0xffff;
    return bad;
}

template <typename T>
static void check(enum gk_type type, enum gk_act act, int m, int rows, int n, int k)
{
    struct gk_gemm g = {};
    T *a = gk_random<T>((size_t)(m + 256) * (k + LD_EXTRA), 1.0f, 1 + m);
    T *w = gk_random<T>((size_t)n * k, 0.03f, 2 + n), *out;
    float *bias = gk_random<float>(n, 0.5f, 3), *ref;
    size_t size = (size_t)(m + GUARD_ROWS) * (n + LD_EXTRA);
    double bound = type == GK_F16 ? 4e-4 : 3e-3, worst = 0;
    int32_t *count;
    bool good = true;

    MUST(cudaMalloc((void **)&count, sizeof(*count)));
    MUST(cudaMemcpy(count, &rows, sizeof(rows), cudaMemcpyHostToDevice));
    out = gk_poisoned<T>(size);
    ref = gk_plain<T>(a, k + LD_EXTRA, w, bias, m, n, k);
    act_kernel<<<256, 256>>>(ref, (size_t)m * n, act);
    g.type = g.out_type = type;
    g.act = act;
    g.m = m;
    g.n = n;
    g.k = k;
    g.rows = rows < m ? count : NULL;
    g.a = a;
    g.w = w;
    g.out = out;
    g.lda = k + LD_EXTRA;
    g.ldout = n + LD_EXTRA;
    g.bias = bias;
    g.pdl = m & 1;
    for (int splits = 1; splits <= GK_SPLIT90_MAX && splits <= k / 64; splits *= 2) {
        MUST(cudaMemset(out, 0xff, size * sizeof(T)));
        MUST(gk_gemm_split90(&g, splits, 0));
        MUST(cudaDeviceSynchronize());
        struct gk_diff d = gk_compare<T>(out, g.ldout, ref, rows, n);
        size_t stray = strayed(gk_host(out, size), g.ldout, rows, n, m + GUARD_ROWS);
        worst = d.relative > worst ? d.relative : worst;
        if (!(d.relative < bound) || stray) {
            good = false;
            printf("# %d parts: error %.3g, %zu bad, %zu strayed\n", splits, d.relative, d.bad,
                   stray);
        }
    }
    gk_ok(good, "%s act %d m %d rows %d n %d k %d: error %.2e of %.0e",
          type == GK_F16 ? "f16" : "bf16", act, m, rows, n, k, worst, bound);
    for (void *p : { (void *)a, (void *)w, (void *)out, (void *)bias, (void *)ref, (void *)count })
        MUST(cudaFree(p));
}

static void check_all(void)
{
    const int ms[] = { 1, 7, 64, 65, 127, 129, 300, 1000 };
    const int ns[] = { 64, 192, 256, 384, 640, 1152 }, ks[] = { 64, 192, 384, 1024 };
    const enum gk_act acts[] = { GK_ACT_GELU, GK_ACT_NONE, GK_ACT_GELU_TANH, GK_ACT_RELU };
    int turn = 0;

    for (int m : ms) {
        int rows = m > 200 ? m - 1 - m / 3 : m;

        if (turn % 2)
            check<__half>(GK_F16, acts[turn % 4], m, rows, ns[turn % 6], ks[turn % 4]);
        else
            check<__nv_bfloat16>(GK_BF16, acts[turn % 4], m, rows, ns[turn % 6], ks[turn % 4]);
        turn++;
    }
    check<__half>(GK_F16, GK_ACT_GELU, 257, 0, 256, 384);
    check<__half>(GK_F16, GK_ACT_GELU, 513, 513, 1536, 384);
    check<__nv_bfloat16>(GK_BF16, GK_ACT_NONE, 512, 300, 1024, 4096);
}

/* ---- timing ---- */
enum { SETS = 24, ROUNDS = 5, VARIANTS_MAX = 40, TYPE = GK_BF16 };

struct pool {
    __nv_bfloat16 *a[2], *w[SETS], *out[2], *bias16;
    float *bias, *partial;
    struct gk_lt *lt;
    struct gk_lt_room room;
};
struct variant {
    char name[16];
    int splits; /* 0: gk_gemm_sm90(); -1: cuBLASLt, by algorithm; -2: gk_gemm_skinny() */
    struct gk_lt_algo algo;
    cudaGraphExec_t exec;
    std::vector<float> us;
};

static cudaError_t one(const struct pool *p, const struct variant *v, const struct gk_gemm *g,
                       cudaStream_t s)
{
    char err[GK_LT_TEXT_MAX];

    if (v->splits == -2)
        return gk_gemm_skinny(g, p->partial, g->n > 1024 ? 1 : gk_skinny_splits(g->n, g->k, 132),
                              s);
    if (v->splits < 0)
        return gk_lt_product(p->lt, g, p->bias16, &v->algo, &p->room, s, err) ? cudaSuccess
                                                                              : cudaErrorUnknown;
    return v->splits ? gk_gemm_split90(g, v->splits, s) : gk_gemm_sm90(g, s);
}

static void chain(const struct pool *p, struct variant *v, struct gk_gemm g)
{
    cudaStream_t s;
    cudaGraph_t graph;

    MUST(cudaStreamCreate(&s));
    MUST(one(p, v, &g, s)); /* what is loaded at the first launch */
    MUST(cudaStreamSynchronize(s));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < SETS; i++) {
        g.a = p->a[i % 2];
        g.w = p->w[i];
        g.out = p->out[i % 2];
        MUST(one(p, v, &g, s));
    }
    MUST(cudaStreamEndCapture(s, &graph));
    MUST(cudaGraphInstantiate(&v->exec, graph, 0));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(s));
}

static int variants_of(const struct pool *p, const struct gk_gemm *g, struct variant *v)
{
    struct gk_lt_algo algos[GK_LT_ALGOS_MAX];
    char err[GK_LT_TEXT_MAX];
    int n = 0, found = 0;

    snprintf(v[n++].name, sizeof(v->name), "own");
    if (g->m <= GK_SKINNY_ROWS) {
        v[n].splits = -2;
        snprintf(v[n++].name, sizeof(v->name), "skinny");
    }
    for (int splits = 1; splits <= GK_SPLIT90_MAX; splits *= 2) {
        int blocks = (g->m + 127) / 128 * (g->n / 64) * splits;

        if (blocks < 40 || blocks > 264 || splits > g->k / 128)
            continue;
        v[n].splits = splits;
        snprintf(v[n++].name, sizeof(v->name), "/%d", splits);
    }
    if (p->lt)
        found = gk_lt_tune((struct gk_lt *)p->lt, g, p->bias16, &p->room, 0, algos, err);
    for (int i = 0; i < found && i < 3; i++) {
        v[n].splits = -1;
        v[n].algo = algos[i];
        snprintf(v[n].name, sizeof(v->name), "Lt");
        n++;
    }
    return n;
}

static void time_one(const struct pool *p, int m, int n, int k, enum gk_act act)
{
    static struct variant v[VARIANTS_MAX];
    struct gk_gemm g = {};
    cudaEvent_t from, to;
    int count;

    g.type = g.out_type = (enum gk_type)TYPE;
    g.act = act;
    g.m = m;
    g.n = n;
    g.k = k;
    g.a = p->a[0];
    g.w = p->w[0];
    g.out = p->out[0];
    g.lda = k;
    g.ldout = n;
    g.bias = p->bias;
    g.pdl = true;
    for (struct variant &x : v)
        x = {};
    count = variants_of(p, &g, v);
    MUST(cudaEventCreate(&from));
    MUST(cudaEventCreate(&to));
    for (int i = 0; i < count; i++)
        chain(p, &v[i], g);
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            float t;

            MUST(cudaEventRecord(from));
            MUST(cudaGraphLaunch(v[i].exec, 0));
            MUST(cudaEventRecord(to));
            MUST(cudaEventSynchronize(to));
            MUST(cudaEventElapsedTime(&t, from, to));
            if (round)
                v[i].us.push_back(t * 1e3f / SETS);
        }
    printf("# %dx%dx%d%s:", m, n, k, act == GK_ACT_GELU ? " gelu" : "");
    for (int i = 0; i < count; i++) {
        std::sort(v[i].us.begin(), v[i].us.end());
        printf(" %s %.2f", v[i].name, v[i].us[ROUNDS / 2]);
        MUST(cudaGraphExecDestroy(v[i].exec));
    }
    printf("\n");
    fflush(stdout);
    MUST(cudaEventDestroy(from));
    MUST(cudaEventDestroy(to));
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void time_all(void)
{
    const size_t most = (size_t)2048 * 4096;
    char err[GK_LT_TEXT_MAX];
    struct pool p = {};
    double t0 = now_ms();

    if (gk_lt_open(&p.lt, err))
        printf("# cuBLASLt %zu opened in %.1f ms\n", gk_lt_version(p.lt), now_ms() - t0);
    else
        printf("# %s\n", err);
    p.room.bytes = GK_LT_WORKSPACE_BYTES;
    MUST(cudaMalloc(&p.room.p, p.room.bytes));
    for (int i = 0; i < 2; i++) {
        p.a[i] = gk_random<__nv_bfloat16>(most, 1.0f, 10 + i);
        p.out[i] = gk_poisoned<__nv_bfloat16>(most);
    }
    for (int i = 0; i < SETS; i++)
        p.w[i] = gk_random<__nv_bfloat16>((size_t)4096 * 1024, 0.05f, 20 + i);
    p.bias = gk_random<float>(4096, 0.1f, 9);
    MUST(cudaMalloc((void **)&p.partial, GK_SPLITS_MAX * GK_SKINNY_ROWS * 4096 * sizeof(float)));
    p.bias16 = gk_random<__nv_bfloat16>(4096, 0.1f, 9);
    for (int h = 1024; h >= 384; h = h == 1024 ? 768 : h == 768 ? 384 : 0)
        for (int m = 64; m <= 2048; m *= 2) {
            time_one(&p, m, 3 * h, h, GK_ACT_NONE);
            time_one(&p, m, h, h, GK_ACT_NONE);
            time_one(&p, m, 4 * h, h, GK_ACT_GELU);
            time_one(&p, m, h, 4 * h, GK_ACT_NONE);
        }
    printf("# timed in %.0f ms\n", now_ms() - t0);
}

int main(int argc, char **argv)
{
    check_all();
    if (argc < 2 || strcmp(argv[1], "quick"))
        time_all();
    return gk_done();
}
