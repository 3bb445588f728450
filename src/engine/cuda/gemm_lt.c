/* SPDX-License-Identifier: MIT */
/* gemm_lt.c: cuBLASLt, found at run time.
 *
 * The library thinks in columns: a matrix [rows][cols] of ours is one of cols x rows of its.  So
 * out [m][n] = a [m][k] w [n][k]^T is, for it, out (n x m) = w^T (n x k) a (k x m): its A is our w,
 * transposed, its B our a, and its bias by row of out is ours by column.
 *
 * What describes a product is made for each call and thrown away: some microseconds of the host,
 * next to products that take longer, and none once they are captured in a graph. */
#include "engine/cuda/gemm_lt_int.h"

#include <stdlib.h>

#if defined(__has_include)
#if __has_include(<cublasLt.h>)
#define HAVE_LT 1
#endif
#endif

#ifdef HAVE_LT
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* What we call, by the names after "cublasLt". */
#define LT_FUNCTIONS(X)                                                                            \
    X(Create)                                                                                      \
    X(Destroy)                                                                                     \
    X(GetVersion)                                                                                  \
    X(MatmulDescCreate)                                                                            \
    X(MatmulDescDestroy)                                                                           \
    X(MatmulDescSetAttribute)                                                                      \
    X(MatrixLayoutCreate)                                                                          \
    X(MatrixLayoutDestroy)                                                                         \
    X(MatmulPreferenceCreate)                                                                      \
    X(MatmulPreferenceDestroy)                                                                     \
    X(MatmulPreferenceSetAttribute)                                                                \
    X(MatmulAlgoGetHeuristic)                                                                      \
    X(Matmul)

enum { TUNE_TIMES = 3 /* runs of an algorithm that are timed, after one that is not */ };

struct gk_lt {
    void *so;
    const char *name;
    cublasLtHandle_t handle;
#define X(f) __typeof__(cublasLt##f) *f;
    LT_FUNCTIONS(X)
#undef X
};

_Static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(uint64_t) * GK_LT_ALGO_WORDS,
               "an algorithm has another size");

static bool status_ok(cublasStatus_t s, const char *call, char err[GK_LT_TEXT_MAX])
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return true;
    (void)snprintf(err, GK_LT_TEXT_MAX, "cublasLt%s failed with status %d", call, (int)s);
    return false;
}

static bool cuda_ok(cudaError_t e, const char *call, char err[GK_LT_TEXT_MAX])
{
    if (e == cudaSuccess)
        return true;
    (void)snprintf(err, GK_LT_TEXT_MAX, "%s: %s", call, cudaGetErrorString(e));
    return false;
}

/* ---- the library ---- */
static bool find_functions(struct gk_lt *lt, char err[GK_LT_TEXT_MAX])
{
    static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12",
                                         "libcublasLt.so" };

    for (size_t i = 0; !lt->so && i < sizeof(names) / sizeof(names[0]); i++) {
        lt->so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        lt->name = names[i];
    }
    if (!lt->so) {
        (void)snprintf(err, GK_LT_TEXT_MAX, "no cuBLASLt library on this machine");
        return false;
    }
#define X(f)                                                                                       \
    *(void **)&lt->f = dlsym(lt->so, "cublasLt" #f);                                               \
    if (!lt->f) {                                                                                  \
        (void)snprintf(err, GK_LT_TEXT_MAX, "%s has no cublasLt%s", lt->name, #f);                 \
        return false;                                                                              \
    }
    LT_FUNCTIONS(X)
#undef X
    return true;
}

bool gk_lt_open(struct gk_lt **out, char err[GK_LT_TEXT_MAX])
{
    struct gk_lt *lt = calloc(1, sizeof(*lt));

    if (!lt) {
        (void)snprintf(err, GK_LT_TEXT_MAX, "no host memory");
        return false;
    }
    if (!find_functions(lt, err) || !status_ok(lt->Create(&lt->handle), "Create", err)) {
        gk_lt_close(lt);
        return false;
    }
    *out = lt;
    return true;
}

void gk_lt_close(struct gk_lt *lt)
{
    if (!lt)
        return;
    if (lt->handle)
        (void)lt->Destroy(lt->handle);
    if (lt->so)
        (void)dlclose(lt->so);
    free(lt);
}

size_t gk_lt_version(const struct gk_lt *lt)
{
    return lt->GetVersion();
}

const char *gk_lt_name(const struct gk_lt *lt)
{
    return lt->name;
}

const char *gk_lt_path(const struct gk_lt *lt)
{
    const void *inside;
    Dl_info from;

    memcpy(&inside, &lt->Create, sizeof(inside));
    return dladdr(inside, &from) && from.dli_fname ? from.dli_fname : "";
}

/* ---- describing a product ---- */
struct lt_plan {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, a, out;
    cublasLtMatmulPreference_t pref;
};

static cudaDataType_t type_of(enum gk_type t)
{
    switch (t) {
    case GK_F16:
        return CUDA_R_16F;
    case GK_BF16:
        return CUDA_R_16BF;
    case GK_E4M3:
        return CUDA_R_8F_E4M3;
    case GK_F32:
        break;
    }
    return CUDA_R_32F;
}

static bool can_multiply(const struct gk_gemm *g, char err[GK_LT_TEXT_MAX])
{
    const char *why = NULL;

    if (g->rows)
        why = "rows in device memory";
    else if (g->type == GK_F32 || (g->out_type != GK_F16 && g->out_type != GK_BF16))
        why = "types other than f16, bf16 and e4m3 to these";
    else if (g->type != GK_E4M3 && g->type != g->out_type)
        why = "an output of another type";
    else if (g->type == GK_E4M3 && (g->a_scale_rows || g->w_scale_cols))
        why = "scales by row or column";
    else if (g->m <= 0 || g->n <= 0 || g->k <= 0)
        why = "an empty product";
    if (why)
        (void)snprintf(err, GK_LT_TEXT_MAX, "cuBLASLt is not asked for %s", why);
    return !why;
}

static bool set_attribute(struct gk_lt *lt, struct lt_plan *p, cublasLtMatmulDescAttributes_t what,
                          const void *value, size_t bytes, char err[GK_LT_TEXT_MAX])
{
    return status_ok(lt->MatmulDescSetAttribute(p->desc, what, value, bytes),
                     "MatmulDescSetAttribute", err);
}

static bool describe_product(struct gk_lt *lt, struct lt_plan *p, const struct gk_gemm *g,
                             const void *bias16, char err[GK_LT_TEXT_MAX])
{
    const cublasOperation_t turned = CUBLAS_OP_T;
    const cublasLtEpilogue_t epilogue = bias16 ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const int8_t fast = 1; /* of e4m3: the tensor cores' own sums, as our kernels have them */

    if (!status_ok(lt->MatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                   "MatmulDescCreate", err) ||
        !set_attribute(lt, p, CUBLASLT_MATMUL_DESC_TRANSA, &turned, sizeof(turned), err) ||
        !set_attribute(lt, p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue), err))
        return false;
    if (bias16 && !set_attribute(lt, p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, (const void *)&bias16,
                                 sizeof(bias16), err))
        return false;
    if (g->type != GK_E4M3)
        return true;
    return set_attribute(lt, p, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast), err) &&
           set_attribute(lt, p, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, (const void *)&g->w_scale,
                         sizeof(g->w_scale), err) &&
           set_attribute(lt, p, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, (const void *)&g->a_scale,
                         sizeof(g->a_scale), err);
}

static void plan_release(struct gk_lt *lt, struct lt_plan *p)
{
    if (p->pref)
        (void)lt->MatmulPreferenceDestroy(p->pref);
    if (p->out)
        (void)lt->MatrixLayoutDestroy(p->out);
    if (p->a)
        (void)lt->MatrixLayoutDestroy(p->a);
    if (p->w)
        (void)lt->MatrixLayoutDestroy(p->w);
    if (p->desc)
        (void)lt->MatmulDescDestroy(p->desc);
}

/* The caller releases it whatever is returned. */
static bool plan_init(struct gk_lt *lt, struct lt_plan *p, const struct gk_gemm *g,
                      const void *bias16, size_t room, char err[GK_LT_TEXT_MAX])
{
    cudaDataType_t in = type_of(g->type), out = type_of(g->out_type);
    uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;

    memset(p, 0, sizeof(*p));
    return can_multiply(g, err) && describe_product(lt, p, g, bias16, err) &&
           status_ok(lt->MatrixLayoutCreate(&p->w, in, k, n, (int64_t)k), "MatrixLayoutCreate",
                     err) &&
           status_ok(lt->MatrixLayoutCreate(&p->a, in, k, m, (int64_t)g->lda), "MatrixLayoutCreate",
                     err) &&
           status_ok(lt->MatrixLayoutCreate(&p->out, out, n, m, (int64_t)g->ldout),
                     "MatrixLayoutCreate", err) &&
           status_ok(lt->MatmulPreferenceCreate(&p->pref), "MatmulPreferenceCreate", err) &&
           status_ok(lt->MatmulPreferenceSetAttribute(
                         p->pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof(room)),
                     "MatmulPreferenceSetAttribute", err);
}

/* ---- algorithms ---- */
static int ask_library(struct gk_lt *lt, struct lt_plan *p, int most, struct gk_lt_algo *out,
                       char err[GK_LT_TEXT_MAX])
{
    cublasLtMatmulHeuristicResult_t found[GK_LT_ALGOS_MAX];
    int count = 0, good = 0;

    memset(found, 0, sizeof(found));
    if (!status_ok(lt->MatmulAlgoGetHeuristic(lt->handle, p->desc, p->w, p->a, p->out, p->out,
                                              p->pref, most, found, &count),
                   "MatmulAlgoGetHeuristic", err))
        return -1;
    for (int i = 0; i < count && i < most; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS) {
            memcpy(out[good].words, &found[i].algo, sizeof(found[i].algo));
            out[good++].us = 0;
        }
    if (!good)
        (void)snprintf(err, GK_LT_TEXT_MAX, "cuBLASLt knows no algorithm for this product");
    return good ? good : -1;
}

int gk_lt_algos(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
                const struct gk_lt_room *room, struct gk_lt_algo out[GK_LT_ALGOS_MAX],
                char err[GK_LT_TEXT_MAX])
{
    struct lt_plan p;
    int count = -1;

    if (plan_init(lt, &p, g, bias16, room->bytes, err))
        count = ask_library(lt, &p, GK_LT_ALGOS_MAX, out, err);
    plan_release(lt, &p);
    return count;
}

static bool multiply_by(struct gk_lt *lt, struct lt_plan *p, const struct gk_gemm *g,
                        const struct gk_lt_algo *algo, const struct gk_lt_room *room,
                        cudaStream_t s, char err[GK_LT_TEXT_MAX])
{
    const float one = 1, zero = 0;
    cublasLtMatmulAlgo_t a;

    memcpy(&a, algo->words, sizeof(a));
    return status_ok(lt->Matmul(lt->handle, p->desc, &one, g->w, p->w, g->a, p->a, &zero, g->out,
                                p->out, g->out, p->out, &a, room->p, room->bytes, s),
                     "Matmul", err);
}

bool gk_lt_product(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
                   const struct gk_lt_algo *algo, const struct gk_lt_room *room, cudaStream_t s,
                   char err[GK_LT_TEXT_MAX])
{
    struct gk_lt_algo first;
    struct lt_plan p;
    bool good = plan_init(lt, &p, g, bias16, room->bytes, err);

    if (good && !algo) {
        good = ask_library(lt, &p, 1, &first, err) == 1;
        algo = &first;
    }
    good = good && multiply_by(lt, &p, g, algo, room, s, err);
    plan_release(lt, &p);
    return good && cuda_ok(gk_bias_act(g, !bias16, s), "bias and activation", err);
}

/* ---- measuring ---- */
struct lt_clock {
    cudaEvent_t begin, end;
};

/* Microseconds of one run; negative: it does not run. */
static double time_one(struct gk_lt *lt, struct lt_plan *p, const struct gk_gemm *g,
                       const struct gk_lt_algo *algo, const struct gk_lt_room *room, cudaStream_t s,
                       const struct lt_clock *c)
{
    char why[GK_LT_TEXT_MAX];
    float ms = 0;

    for (int i = 0; i <= TUNE_TIMES; i++) {
        if (i == 1 && cudaEventRecord(c->begin, s) != cudaSuccess)
            return -1;
        if (!multiply_by(lt, p, g, algo, room, s, why))
            return -1;
    }
    if (cudaEventRecord(c->end, s) != cudaSuccess || cudaEventSynchronize(c->end) != cudaSuccess ||
        cudaEventElapsedTime(&ms, c->begin, c->end) != cudaSuccess)
        return -1;
    return (double)ms * 1e3 / TUNE_TIMES;
}

static int by_time(const void *x, const void *y)
{
    const struct gk_lt_algo *a = x, *b = y;

    return (a->us > b->us) - (a->us < b->us);
}

static int time_all(struct gk_lt *lt, struct lt_plan *p, const struct gk_gemm *g,
                    const struct gk_lt_room *room, cudaStream_t s, struct gk_lt_algo *algos,
                    int count, char err[GK_LT_TEXT_MAX])
{
    struct lt_clock c = { NULL, NULL };
    int good = 0;

    if (cuda_ok(cudaEventCreate(&c.begin), "cudaEventCreate", err) &&
        cuda_ok(cudaEventCreate(&c.end), "cudaEventCreate", err)) {
        for (int i = 0; i < count; i++) {
            algos[i].us = time_one(lt, p, g, &algos[i], room, s, &c);
            if (algos[i].us >= 0)
                algos[good++] = algos[i];
        }
        if (!good)
            (void)snprintf(err, GK_LT_TEXT_MAX, "no algorithm of cuBLASLt ran");
    }
    if (c.begin)
        (void)cudaEventDestroy(c.begin);
    if (c.end)
        (void)cudaEventDestroy(c.end);
    qsort(algos, (size_t)good, sizeof(*algos), by_time);
    return good ? good : -1;
}

int gk_lt_tune(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
               const struct gk_lt_room *room, cudaStream_t s,
               struct gk_lt_algo out[GK_LT_ALGOS_MAX], char err[GK_LT_TEXT_MAX])
{
    struct lt_plan p;
    int count = -1;

    if (plan_init(lt, &p, g, bias16, room->bytes, err))
        count = ask_library(lt, &p, GK_LT_ALGOS_MAX, out, err);
    if (count > 0)
        count = time_all(lt, &p, g, room, s, out, count, err);
    plan_release(lt, &p);
    return count;
}

#else /* built where the toolkit has no cublasLt.h */

#include <stdio.h>

struct gk_lt {
    int none;
};

static void say_no(char err[GK_LT_TEXT_MAX])
{
    (void)snprintf(err, GK_LT_TEXT_MAX, "cuBLASLt was not built in");
}

bool gk_lt_open(struct gk_lt **out, char err[GK_LT_TEXT_MAX])
{
    (void)out;
    say_no(err);
    return false;
}

void gk_lt_close(struct gk_lt *lt)
{
    (void)lt;
}

size_t gk_lt_version(const struct gk_lt *lt)
{
    (void)lt;
    return 0;
}

const char *gk_lt_name(const struct gk_lt *lt)
{
    (void)lt;
    return "";
}

const char *gk_lt_path(const struct gk_lt *lt)
{
    (void)lt;
    return "";
}

int gk_lt_algos(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
                const struct gk_lt_room *room, struct gk_lt_algo out[GK_LT_ALGOS_MAX],
                char err[GK_LT_TEXT_MAX])
{
    (void)lt, (void)g, (void)bias16, (void)room, (void)out;
    say_no(err);
    return -1;
}

int gk_lt_tune(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
               const struct gk_lt_room *room, cudaStream_t s,
               struct gk_lt_algo out[GK_LT_ALGOS_MAX], char err[GK_LT_TEXT_MAX])
{
    (void)lt, (void)g, (void)bias16, (void)room, (void)s, (void)out;
    say_no(err);
    return -1;
}

bool gk_lt_product(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
                   const struct gk_lt_algo *algo, const struct gk_lt_room *room, cudaStream_t s,
                   char err[GK_LT_TEXT_MAX])
{
    (void)lt, (void)g, (void)bias16, (void)algo, (void)room, (void)s;
    say_no(err);
    return false;
}
#endif
