/* SPDX-License-Identifier: MIT */
/* test_gemm90: the Hopper product against a plain one, for every type, tile shape, activation and
 * awkward number of rows; that a row's bits do not depend on its batch; then how fast it is.
 *
 * Bounds, as |out - ref| / |ref| over the whole output: 16-bit results round once (2^-12 and 2^-9
 * relative, about 2.0e-4 and 1.7e-3 in norm); e4m3 results have four bits. */
#include "gpu/gk_test.cuh"

#include "engine/cuda/kernels/gemm_sm90_int.cuh"

#include <cublasLt.h>
#include <dlfcn.h>
#include <glob.h>
#include <string.h>

enum { SHAPES = GEMM90_SHAPES };
static const char *const shape_names[] = { "turns2",  "turns",  "wide2", "wide",
                                           "128x128", "64x128", "64x64" };
static const char *const type_names[] = { "f16", "bf16", "e4m3" };
enum { GUARD_ROWS = 300, LD_EXTRA = 64 };

static float bound_of(enum gk_type type, enum gk_type out)
{
    if (type == GK_E4M3 && out != GK_E4M3)
        return 3e-3f;
    return out == GK_F16 ? 4e-4f : out == GK_BF16 ? 3e-3f : 4e-2f;
}

/* ---- the plain product ---- */
__device__ float plain_number(const void *p, size_t i, enum gk_type t)
{
    if (t == GK_F16)
        return __half2float(((const __half *)p)[i]);
    if (t == GK_BF16)
        return __bfloat162float(((const __nv_bfloat16 *)p)[i]);
    return float(((const __nv_fp8_e4m3 *)p)[i]);
}
__device__ float plain_act(float x, enum gk_act act)
{
    if (act == GK_ACT_GELU)
        return 0.5f * x * erfcf(-x * 0.70710678118654752f);
    if (act == GK_ACT_GELU_TANH)
        return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
    return act == GK_ACT_RELU ? fmaxf(x, 0.0f) : x;
}
__global__ void plain_kernel(struct gk_gemm g, float *ref)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    float sum = 0;

    if (j >= g.n)
        return;
    for (int x = 0; x < g.k; x++)
        sum = fmaf(plain_number(g.a, i * g.lda + x, g.type),
                   plain_number(g.w, (size_t)j * g.k + x, g.type), sum);
    if (g.a_scale)
        sum *= g.a_scale[g.a_scale_rows ? i : 0];
    if (g.w_scale)
        sum *= g.w_scale[g.w_scale_cols ? j : 0];
    sum = plain_act(sum + (g.bias ? g.bias[j] : 0.0f), g.act);
    ref[(size_t)i * g.n + j] =
        g.out_type == GK_E4M3 ? fminf(fmaxf(sum / *g.out_scale, -448.0f), 448.0f) : sum;
}

/* |out - ref| and |ref| summed on the device; what is not finite, and what was written where
 * nothing may be. */
struct verdict {
    double diff, norm;
    unsigned long long bad, strayed, first_bad;
};
__global__ void judge_kernel(struct gk_gemm g, int rows, const float *ref, struct verdict *v)
{
    size_t i = blockIdx.x, size = g.out_type == GK_E4M3 ? 1 : 2;

    for (int j = threadIdx.x; j < (int)g.ldout; j += blockDim.x) {
        const uint8_t *at = (const uint8_t *)g.out + (i * g.ldout + j) * size;
        if ((int)i >= rows || j >= g.n) {
            if (at[0] != 0xff || at[size - 1] != 0xff)
                atomicAdd(&v->strayed, 1ull);
            continue;
        }
        float x = plain_number(g.out, i * g.ldout + j, g.out_type), y = ref[i * g.n + j];
        if (!isfinite(x) || fabsf(x - y) > 0.05f + 0.1f * fabsf(y)) {
            atomicAdd(&v->bad, 1ull);
            atomicMin(&v->first_bad, (unsigned long long)i << 32 | (unsigned)j);
        }
        if (isfinite(x))
            atomicAdd(&v->diff, (double)(x - y) * (x - y));
        atomicAdd(&v->norm, (double)y * y);
    }
}

/* ---- one product and all it needs ---- */
static void *numbers(enum gk_type t, size_t n, float sd, uint32_t seed)
{
    if (t == GK_F16)
        return gk_random<__half>(n, sd, seed);
    if (t == GK_BF16)
        return gk_random<__nv_bfloat16>(n, sd, seed);
    return gk_random<__nv_fp8_e4m3>(n, sd, seed);
}
__global__ void scales_kernel(float *p, size_t n, float around)
{
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        p[i] = around * (0.5f + (gk_hash((uint32_t)i, 77) & 0xffff) / 65536.0f);
}
static float *scales(size_t n, float around)
{
    float *p;
    MUST(cudaMalloc((void **)&p, n * sizeof(float)));
    scales_kernel<<<1, 256>>>(p, n, around);
    return p;
}
static struct gk_gemm make(enum gk_type type, enum gk_type out, enum gk_act act, int m, int n,
                           int k)
{
    struct gk_gemm g = {};
    size_t size = out == GK_E4M3 ? 1 : 2;
    float w_sd = type == GK_E4M3 ? 1.0f : 0.03f;

    g.type = type;
    g.out_type = out;
    g.act = act;
    g.m = m;
    g.n = n;
    g.k = k;
    g.lda = k + LD_EXTRA;
    g.ldout = n + LD_EXTRA;
    g.a = numbers(type, (m + 256) * g.lda, 1.0f, 1 + m);
    g.w = numbers(type, (size_t)n * k, w_sd, 2 + n);
    g.out = gk_poisoned<uint8_t>((m + GUARD_ROWS) * g.ldout * size);
    g.bias = gk_random<float>(n, 0.5f, 3);
    if (type == GK_E4M3) {
        g.a_scale = scales(m, 1.0f);
        g.w_scale = scales(n, 0.03f);
        g.a_scale_rows = m & 1;
        g.w_scale_cols = n & 128;
    }
    if (out == GK_E4M3)
        g.out_scale = scales(1, 0.05f);
    return g;
}
static void unmake(struct gk_gemm *g)
{
    const void *all[] = { g->a, g->w, g->out, g->bias, g->a_scale, g->w_scale, g->out_scale };
    for (const void *p : all)
        cudaFree((void *)p);
}

static struct verdict judge(const struct gk_gemm *g, int rows, const float *ref)
{
    struct verdict *v, out = { 0, 0, 0, 0, ~0ull };
    MUST(cudaMalloc((void **)&v, sizeof(*v)));
    MUST(cudaMemcpy(v, &out, sizeof(*v), cudaMemcpyHostToDevice));
    judge_kernel<<<g->m + GUARD_ROWS, 128>>>(*g, rows, ref, v);
    MUST(cudaMemcpy(&out, v, sizeof(*v), cudaMemcpyDeviceToHost));
    MUST(cudaFree(v));
    return out;
}

/* Every shape over one product; `rows` < m: the device says how many there are. */
static void check_shapes(enum gk_type type, enum gk_type out, enum gk_act act, int m, int rows,
                         int n, int k)
{
    struct gk_gemm g = make(type, out, act, m, n, k);
    size_t bytes = (m + GUARD_ROWS) * g.ldout * (out == GK_E4M3 ? 1 : 2);
    double worst = 0;
    float *ref;
    int32_t *count;
    bool good = true;

    MUST(cudaMalloc((void **)&ref, (size_t)m * n * sizeof(float)));
    plain_kernel<<<dim3((n + 127) / 128, m), 128>>>(g, ref);
    MUST(cudaMalloc((void **)&count, sizeof(*count)));
    MUST(cudaMemcpy(count, &rows, sizeof(rows), cudaMemcpyHostToDevice));
    g.rows = rows < m ? count : NULL;
    g.pdl = m & 1;
    for (int shape = -1; shape < SHAPES; shape++) {
        MUST(cudaMemset(g.out, 0xff, bytes));
        MUST(shape < 0 ? gk_gemm_sm90(&g, 0) : gk_gemm_sm90_as(&g, shape, 0));
        MUST(cudaDeviceSynchronize());
        struct verdict v = judge(&g, rows, ref);
        double e = v.norm > 0 ? sqrt(v.diff / v.norm) : 0;
        worst = e > worst ? e : worst;
        if (v.bad || v.strayed || !(e < bound_of(type, out))) {
            good = false;
            printf("# %s: %llu bad, first at %d,%d; %llu strayed; error %.3g\n",
                   shape < 0 ? "chosen" : shape_names[shape], v.bad, (int)(v.first_bad >> 32),
                   (int)(v.first_bad & 0xffffffff), v.strayed, e);
        }
    }
    gk_ok(good, "%s to %s act %d m %d rows %d n %d k %d: error %.2e of %.0e", type_names[type],
          type_names[out], act, m, rows, n, k, worst, bound_of(type, out));
    MUST(cudaFree(ref));
    MUST(cudaFree(count));
    unmake(&g);
}

/* Some rows of a large batch, alone and with every shape: the same bits. */
static void check_bits(enum gk_type type, int m, int n, int k)
{
    struct gk_gemm g = make(type, type == GK_E4M3 ? GK_BF16 : type, GK_ACT_GELU, m, n, k);
    const int some[] = { 0, 7, 63, 64, 130, m - 1 };
    int wrong = 0;

    g.a_scale_rows = false;
    MUST(gk_gemm_sm90_as(&g, 0, 0));
    std::vector<uint16_t> all = gk_host((const uint16_t *)g.out, m * g.ldout);
    for (int shape = 0; shape < SHAPES; shape++) {
        MUST(cudaMemset(g.out, 0xff, m * g.ldout * 2));
        MUST(gk_gemm_sm90_as(&g, shape, 0));
        std::vector<uint16_t> again = gk_host((const uint16_t *)g.out, m * g.ldout);
        for (int i = 0; i < m; i++)
            wrong += memcmp(&again[i * g.ldout], &all[i * g.ldout], n * 2) != 0;
        for (int i : some) {
            struct gk_gemm one = g;
            one.m = 1;
            one.a = (const uint8_t *)g.a + i * g.lda * (type == GK_E4M3 ? 1 : 2);
            MUST(gk_gemm_sm90_as(&one, shape, 0));
            again = gk_host((const uint16_t *)g.out, n);
            wrong += memcmp(again.data(), &all[i * g.ldout], n * 2) != 0;
        }
    }
    gk_ok(!wrong, "%s: rows of m %d have the same bits in every shape and alone (%d differ)",
          type_names[type], m, wrong);
    unmake(&g);
}

/* ---- cuBLASLt, where it is found, to compare with: bias and GELU left out ---- */
struct lt {
    void *lib;
    cublasLtHandle_t handle;
    cublasStatus_t (*create)(cublasLtHandle_t *);
    cublasStatus_t (*desc)(cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t);
    cublasStatus_t (*desc_set)(cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *,
                               size_t);
    cublasStatus_t (*layout)(cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t);
    cublasStatus_t (*pref)(cublasLtMatmulPreference_t *);
    cublasStatus_t (*pref_set)(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                               const void *, size_t);
    cublasStatus_t (*choose)(cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t,
                             cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                             cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t *,
                             int *);
    cublasStatus_t (*matmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *,
                             cublasLtMatrixLayout_t, const void *, cublasLtMatrixLayout_t,
                             const void *, const void *, cublasLtMatrixLayout_t, void *,
                             cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t,
                             cudaStream_t);
    void *room;
};
enum { LT_ROOM = 64 << 20 };

static bool lt_open(struct lt *lt)
{
    const char *const places[] = {
        "libcublasLt.so.13", "/usr/local/cuda*/lib64/libcublasLt.so.1?",
        "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1?",
        "/opt/*/lib/python3*/site-packages/nvidia/*/lib/libcublasLt.so.1?"
    };
    memset(lt, 0, sizeof(*lt));
    for (const char *place : places) {
        glob_t found = {};
        if (!lt->lib)
            lt->lib = dlopen(place, RTLD_NOW);
        glob(place, 0, NULL, &found);
        for (size_t i = 0; !lt->lib && i < found.gl_pathc; i++)
            lt->lib = dlopen(found.gl_pathv[i], RTLD_NOW);
        globfree(&found);
    }
    if (!lt->lib)
        return false;
    *(void **)&lt->create = dlsym(lt->lib, "cublasLtCreate");
    *(void **)&lt->desc = dlsym(lt->lib, "cublasLtMatmulDescCreate");
    *(void **)&lt->desc_set = dlsym(lt->lib, "cublasLtMatmulDescSetAttribute");
    *(void **)&lt->layout = dlsym(lt->lib, "cublasLtMatrixLayoutCreate");
    *(void **)&lt->pref = dlsym(lt->lib, "cublasLtMatmulPreferenceCreate");
    *(void **)&lt->pref_set = dlsym(lt->lib, "cublasLtMatmulPreferenceSetAttribute");
    *(void **)&lt->choose = dlsym(lt->lib, "cublasLtMatmulAlgoGetHeuristic");
    *(void **)&lt->matmul = dlsym(lt->lib, "cublasLtMatmul");
    MUST(cudaMalloc(&lt->room, LT_ROOM));
    return lt->create && lt->matmul && !lt->create(&lt->handle);
}

/* What cublasLtMatmul() takes, made once for a size. */
struct lt_plan {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, a, out;
    cublasLtMatmulHeuristicResult_t how;
};
static bool lt_prepare(const struct lt *lt, const struct gk_gemm *g, struct lt_plan *p)
{
    const cudaDataType types[] = { CUDA_R_16F, CUDA_R_16BF, CUDA_R_8F_E4M3 };
    cublasOperation_t t = CUBLAS_OP_T;
    cublasLtMatmulPreference_t pref;
    size_t room = LT_ROOM;
    int8_t fast = 1;
    int got = 0;

    if (lt->desc(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) ||
        lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &t, sizeof(t)) ||
        lt->layout(&p->w, types[g->type], g->k, g->n, g->k) ||
        lt->layout(&p->a, types[g->type], g->k, g->m, g->lda) ||
        lt->layout(&p->out, types[g->out_type], g->n, g->m, g->ldout) || lt->pref(&pref) ||
        lt->pref_set(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof(room)))
        return false;
    if (g->type == GK_E4M3)
        lt->desc_set(p->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast));
    return !lt->choose(lt->handle, p->desc, p->w, p->a, p->out, p->out, pref, 1, &p->how, &got) &&
           got;
}
static bool lt_run(const struct lt *lt, const struct lt_plan *p, const struct gk_gemm *g,
                   cudaStream_t s)
{
    float one = 1, zero = 0;
    return !lt->matmul(lt->handle, p->desc, &one, g->w, p->w, g->a, p->a, &zero, g->out, p->out,
                       g->out, p->out, &p->how.algo, lt->room, LT_ROOM, s);
}

/* ---- timing: variants take turns, so that the chip's power limit meets them all alike ---- */
enum { SETS = 3, LAUNCHES = 8, ROUNDS = 5, VARIANTS_MAX = 16, LT = -2, CHOSEN = -1 };

struct pool { /* room for the largest operands, SETS times */
    uint8_t *a[SETS], *out[SETS], *w[SETS];
    float *bias;
    struct lt lt;
};
struct size {
    int m, n, k;
    enum gk_act act;
    bool narrow; /* e4m3 out of e4m3 */
};

/* Several launches over different buffers, as a graph; NULL: this variant cannot. */
static cudaGraphExec_t graph_of(struct gk_gemm g, const struct pool *p, int variant, int launches)
{
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    struct lt_plan plan;
    bool good = true;

    if (variant == LT && (!p->lt.lib || !lt_prepare(&p->lt, &g, &plan)))
        return NULL;
    MUST(cudaStreamCreate(&s));
    MUST(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < launches; i++) {
        g.a = p->a[i % SETS];
        g.w = p->w[i % SETS];
        g.out = p->out[i % SETS];
        if (variant == LT)
            good = good && lt_run(&p->lt, &plan, &g, s);
        else
            MUST(variant == CHOSEN ? gk_gemm_sm90(&g, s) : gk_gemm_sm90_as(&g, variant, s));
    }
    MUST(cudaStreamEndCapture(s, &graph));
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaStreamDestroy(s));
    return good ? exec : NULL;
}

static struct gk_gemm gemm_of(const struct pool *p, enum gk_type type, struct size z)
{
    struct gk_gemm g = {};

    g.type = type;
    g.out_type = type != GK_E4M3 ? type : z.narrow ? GK_E4M3 : GK_BF16;
    g.act = z.act;
    g.m = z.m;
    g.n = z.n;
    g.k = z.k;
    g.lda = z.k;
    g.ldout = z.n;
    g.bias = p->bias;
    if (type == GK_E4M3) {
        g.a_scale = g.w_scale = p->bias;
        g.w_scale_cols = g.a_scale_rows = true;
        g.out_scale = z.narrow ? p->bias : NULL;
    }
    return g;
}

static void time_size(const struct pool *p, enum gk_type type, struct size z, const int *variants,
                      int count, bool rate)
{
    struct gk_gemm g = gemm_of(p, type, z);
    double work = 2e-6 * z.m * z.n * z.k; /* over microseconds: TFLOP/s */
    int launches = work > 3e5 ? 3 : rate ? LAUNCHES : 2 * LAUNCHES;
    cudaGraphExec_t graphs[VARIANTS_MAX];
    std::vector<float> us[VARIANTS_MAX];
    cudaEvent_t from, to;

    MUST(cudaEventCreate(&from));
    MUST(cudaEventCreate(&to));
    for (int i = 0; i < count; i++)
        graphs[i] = graph_of(g, p, variants[i], launches);
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            float t = INFINITY;
            if (graphs[i]) {
                MUST(cudaEventRecord(from));
                MUST(cudaGraphLaunch(graphs[i], 0));
                MUST(cudaEventRecord(to));
                MUST(cudaEventSynchronize(to));
                MUST(cudaEventElapsedTime(&t, from, to));
            }
            if (round)
                us[i].push_back(t * 1e3f / launches);
        }
    printf("# %s %dx%dx%d%s%s:", type_names[type], z.m, z.n, z.k,
           z.act == GK_ACT_GELU ? " gelu" : "", z.narrow ? " to e4m3" : "");
    for (int i = 0; i < count; i++) {
        const char *name = variants[i] == LT       ? "Lt"
                           : variants[i] == CHOSEN ? "chosen"
                                                   : shape_names[variants[i]];
        std::sort(us[i].begin(), us[i].end());
        printf(rate ? "  %s %.0f" : "  %s %.2fus", name,
               rate ? work / us[i][ROUNDS / 2] : us[i][ROUNDS / 2]);
        if (graphs[i])
            MUST(cudaGraphExecDestroy(graphs[i]));
    }
    printf("\n");
    fflush(stdout);
}

static const struct size large[] = {
    { 16384, 3072, 1024, GK_ACT_NONE, false }, { 16384, 1024, 1024, GK_ACT_NONE, false },
    { 16384, 4096, 1024, GK_ACT_GELU, false }, { 16384, 4096, 1024, GK_ACT_GELU, true },
    { 16384, 1024, 4096, GK_ACT_NONE, false }, { 16384, 4096, 1024, GK_ACT_NONE, false },
    { 65536, 4096, 1024, GK_ACT_GELU, false }, { 65536, 1024, 4096, GK_ACT_NONE, false },
    { 32768, 1152, 384, GK_ACT_NONE, false },  { 32768, 384, 384, GK_ACT_NONE, false },
    { 32768, 1536, 384, GK_ACT_GELU, false },  { 32768, 384, 1536, GK_ACT_NONE, false },
    { 32768, 2304, 768, GK_ACT_NONE, false },  { 32768, 768, 768, GK_ACT_NONE, false },
    { 32768, 3072, 768, GK_ACT_GELU, false },  { 32768, 768, 3072, GK_ACT_NONE, false },
};
static const int large_variants[] = { LT,           CHOSEN,           GEMM90_TURNS_PAIR,
                                      GEMM90_TURNS, GEMM90_WIDE_PAIR, GEMM90_WIDE };
static const int small_variants[] = { LT,           CHOSEN,         GEMM90_TURNS_PAIR,
                                      GEMM90_TURNS, GEMM90_128X128, GEMM90_64X128,
                                      GEMM90_64X64 };

static void time_all(void)
{
    const size_t room = (size_t)65536 * 4096 * 2;
    struct pool p;

    if (!lt_open(&p.lt))
        printf("# no cuBLASLt here\n");
    for (int i = 0; i < SETS; i++)
        MUST(cudaMalloc((void **)&p.out[i], room));
    p.bias = gk_random<float>(65536, 0.1f, 9);
    for (int t = GK_F16; t <= GK_E4M3; t++) {
        for (int i = 0; i < SETS; i++) {
            p.a[i] = (uint8_t *)numbers((enum gk_type)t, room / 2, 1.0f, 10 + i);
            p.w[i] = (uint8_t *)numbers((enum gk_type)t, 4096 * 4096, 0.05f, 20 + i);
        }
        for (struct size z : large)
            if (!z.narrow || t == GK_E4M3)
                time_size(&p, (enum gk_type)t, z, large_variants,
                          sizeof(large_variants) / sizeof(int), true);
        for (int m = 128; m <= 2048 && t == GK_F16; m *= 4)
            for (int i = 0; i < 5; i += i == 2 ? 2 : 1)
                time_size(&p, (enum gk_type)t, { m, large[i].n, large[i].k, large[i].act, false },
                          small_variants, sizeof(small_variants) / sizeof(int), false);
        for (int i = 0; i < SETS; i++) {
            MUST(cudaFree(p.a[i]));
            MUST(cudaFree(p.w[i]));
        }
    }
}

static void check_all(void)
{
    const int ms[] = { 1, 7, 64, 65, 127, 129, 300, 1000, 4097 };
    const int ns[] = { 64, 192, 256, 384, 640, 1152 }, ks[] = { 64, 192, 384, 1024 };
    const enum gk_act acts[] = { GK_ACT_GELU, GK_ACT_NONE, GK_ACT_GELU_TANH, GK_ACT_RELU };
    int turn = 0;

    for (int type = GK_F16; type <= GK_E4M3; type++) {
        for (int m : ms) {
            enum gk_type out = (enum gk_type)(type == GK_E4M3 ? turn % 3 : (type + turn / 5) % 2);
            check_shapes((enum gk_type)type, out, acts[turn % 4], m, m > 200 ? m - 1 - m / 3 : m,
                         ns[turn % 6], ks[turn % 4]);
            turn++;
        }
        check_shapes((enum gk_type)type, (enum gk_type)type, GK_ACT_GELU, 513, 513, 1536, 384);
        check_shapes((enum gk_type)type, (enum gk_type)type, GK_ACT_NONE, 257, 0, 256, 384);
        check_bits((enum gk_type)type, 4097, 384, 1024);
    }
}

int main(void)
{
    check_all();
    time_all();
    return gk_done();
}
