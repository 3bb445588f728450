/* SPDX-License-Identifier: MIT */
/* choose_gemm.c: see choose_gemm.h.  A way is run once unmeasured, then TIMES times between two
 * events; all of it waits, so that it belongs to loading and not to serving. */
#include "engine/cuda/choose_gemm.h"

#include <stdio.h>
#include <string.h>

enum { TIMES = 5 };

struct choose_key gemm_key(const struct gk_gemm *g)
{
    return (struct choose_key){ .type = (int)g->type,
                                .out_type = (int)g->out_type,
                                .act = (int)g->act,
                                .n = g->n,
                                .k = g->k,
                                .bucket = choose_bucket(g->m) };
}

static bool cuda_ok(cudaError_t e, const char *what, char err[GK_LT_TEXT_MAX])
{
    if (e == cudaSuccess)
        return true;
    (void)snprintf(err, GK_LT_TEXT_MAX, "%s: %s", what, cudaGetErrorString(e));
    return false;
}

bool gemm_by(const struct gemm_ways *w, const struct choose_way *way, const struct gk_gemm *g,
             const void *bias16, cudaStream_t s, char err[GK_LT_TEXT_MAX])
{
    struct gk_lt_algo algo = { .us = 0 };

    if (way->impl == CHOOSE_SM90 && w->sm90)
        return cuda_ok(w->sm90(g, s), "product by wgmma", err);
    if (way->impl == CHOOSE_SM80 && w->sm80)
        return cuda_ok(w->sm80(g, s), "product by mma", err);
    if (way->impl == CHOOSE_LT && w->lt) {
        _Static_assert(sizeof(algo.words) == sizeof(way->words), "words of an algorithm");
        memcpy(algo.words, way->words, sizeof(algo.words));
        return gk_lt_product(w->lt, g, bias16, &algo, &w->room, s, err);
    }
    (void)snprintf(err, GK_LT_TEXT_MAX, "this way of making a product is not here");
    return false;
}

static size_t ways(void *arg, const struct choose_key *key, struct choose_way *out, size_t max)
{
    const struct gemm_ways *w = arg;
    struct gk_lt_algo algos[GK_LT_ALGOS_MAX] = { 0 };
    char err[GK_LT_TEXT_MAX];
    size_t n = 0;
    int found = 0;

    (void)key;
    if (w->sm90 && n < max)
        out[n++].impl = CHOOSE_SM90;
    if (w->sm80 && n < max)
        out[n++].impl = CHOOSE_SM80;
    if (w->lt)
        found = gk_lt_algos(w->lt, w->g, w->bias16, &w->room, algos, err);
    for (int i = 0; i < found && n < max; i++, n++) {
        out[n].impl = CHOOSE_LT;
        memcpy(out[n].words, algos[i].words, sizeof(out[n].words));
    }
    return n;
}

static double time_way(const struct gemm_ways *w, const struct choose_way *way, cudaEvent_t begin,
                       cudaEvent_t end)
{
    char err[GK_LT_TEXT_MAX];
    float ms = -1;

    for (int i = 0; i <= TIMES; i++) {
        if (i == 1 && cudaEventRecord(begin, w->stream) != cudaSuccess)
            return -1;
        if (!gemm_by(w, way, w->g, w->bias16, w->stream, err)) {
            (void)cudaGetLastError(); /* a way that does not fit is no lasting error */
            return -1;
        }
    }
    if (cudaEventRecord(end, w->stream) != cudaSuccess ||
        cudaEventSynchronize(end) != cudaSuccess ||
        cudaEventElapsedTime(&ms, begin, end) != cudaSuccess)
        return -1;
    return (double)ms * 1e3 / TIMES;
}

static double measure(void *arg, const struct choose_key *key, const struct choose_way *way)
{
    cudaEvent_t begin = NULL, end = NULL;
    double us = -1;

    (void)key;
    if (cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess)
        us = time_way(arg, way, begin, end);
    if (begin)
        (void)cudaEventDestroy(begin);
    if (end)
        (void)cudaEventDestroy(end);
    return us;
}

struct choose_ops gemm_choose_ops(struct gemm_ways *w)
{
    return (struct choose_ops){ .arg = w, .ways = ways, .measure = measure };
}
