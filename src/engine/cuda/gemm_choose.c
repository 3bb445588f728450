/* SPDX-License-Identifier: MIT */
/* gemm_choose.c: see gemm_choose_int.h.
 *
 * A way is measured as it will be used: in a graph, with programmatic launches where there are any
 * and another kernel between two products, each with the weights of another layer, so that they
 * come from memory and not from the cache.  (Launched one by one, what the host takes for a launch
 * would be measured; with one matrix, the cache; and a product of cuBLASLt, which neither begins
 * nor ends beside its neighbours, looks better among its like than it is.)  It waits, so that it
 * belongs to loading and not to serving. */
#include "engine/cuda/gemm_choose_int.h"

#include "engine/cuda/kernels/gemm_split90_int.h"

#include <stdio.h>
#include <string.h>

enum {
    CHAIN_LEAST = 12, /* products of a chain */
    ROUNDS = 3,       /* of which the shortest counts */
    LT_MOST = 4,      /* algorithms of cuBLASLt that are tried */
    LT_ROWS = 256,    /* from which on */
    TILE_ROWS = 128,  /* of gk_gemm_split90() */
    TILE_COLS = 64
};

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

bool gemm_by(const struct gemm_ways *w, const struct choose_way *way, const struct gemm_one *one,
             cudaStream_t s, char err[GK_LT_TEXT_MAX])
{
    struct gk_lt_algo algo = { .us = 0 };

    if (way->impl == CHOOSE_SM90 && w->sm90)
        return cuda_ok(w->sm90(&one->g, s), "product by wgmma", err);
    if (way->impl == CHOOSE_SM80 && w->sm80)
        return cuda_ok(w->sm80(&one->g, s), "product by mma", err);
    if (way->impl == CHOOSE_SPLIT90 && w->split90)
        return cuda_ok(w->split90(&one->g, way->parts, s), "product in parts", err);
    if (way->impl == CHOOSE_SKINNY && w->skinny)
        return cuda_ok(w->skinny(&one->g, w->splits > 1 ? w->partial : NULL, w->splits, s),
                       "product of few rows", err);
    if (way->impl == CHOOSE_LT && w->lt) {
        struct gk_gemm all = one->g;

        _Static_assert(sizeof(algo.words) == sizeof(way->words), "words of an algorithm");
        memcpy(algo.words, way->words, sizeof(algo.words));
        all.rows = NULL; /* what it makes of rows that are not there, nobody reads */
        return gk_lt_product(w->lt, &all, one->bias16, &algo, &w->room, s, err);
    }
    (void)snprintf(err, GK_LT_TEXT_MAX, "this way of making a product is not here");
    return false;
}

/* ---- the ways there are ---- */
/* The most parts that leave each two stages of k. */
static int parts_most(const struct gk_gemm *g)
{
    int parts = 1;

    while (parts < GK_SPLIT90_MAX && parts * 4 <= g->k / GK_PAD)
        parts *= 2;
    return parts;
}

/* Those that give a third of the SMs work, or as many as can be had, and none too much. */
static size_t split_ways(const struct gemm_ways *w, const struct gk_gemm *g, struct choose_way *out,
                         size_t max)
{
    int most = parts_most(g);
    int tiles = (g->m + TILE_ROWS - 1) / TILE_ROWS * (g->n / TILE_COLS);
    size_t n = 0;

    for (int parts = 1; parts <= most; parts *= 2)
        if (n < max && (tiles * parts * 3 >= w->sms || parts == most) &&
            tiles * parts <= w->sms * 2)
            out[n++] = (struct choose_way){ .impl = CHOOSE_SPLIT90, .parts = parts };
    return n;
}

/* On Hopper a pass behind the library's product for GELU, or a launch that is not programmatic
 * before few rows, costs more than it ever won; each algorithm takes milliseconds to load. */
static bool lt_may_win(const struct gemm_ways *w, const struct gk_gemm *g)
{
    return !w->sm90 || (g->act == GK_ACT_NONE && g->m >= LT_ROWS);
}

static size_t ways_of(void *arg, const struct choose_key *key, struct choose_way *out, size_t max)
{
    const struct gemm_ways *w = arg;
    const struct gemm_one *one = &w->list[0];
    struct gk_lt_algo algos[GK_LT_ALGOS_MAX] = { 0 };
    struct gk_gemm all = one->g;
    char err[GK_LT_TEXT_MAX];
    size_t n = 0;
    int found = 0;

    (void)key;
    all.rows = NULL;
    if (w->skinny && one->g.m <= GK_SKINNY_ROWS && n < max)
        out[n++].impl = CHOOSE_SKINNY;
    if (w->sm90 && n < max)
        out[n++].impl = CHOOSE_SM90;
    if (w->sm80 && n < max)
        out[n++].impl = CHOOSE_SM80;
    if (w->split90)
        n += split_ways(w, &one->g, out + n, max - n);
    if (w->lt && lt_may_win(w, &all))
        found = gk_lt_algos(w->lt, &all, one->bias16, &w->room, algos, err);
    for (int i = 0; i < found && i < LT_MOST && n < max; i++, n++) {
        out[n].impl = CHOOSE_LT;
        memcpy(out[n].words, algos[i].words, sizeof(out[n].words));
    }
    return n;
}

/* ---- measuring ---- */
struct way_clock {
    cudaEvent_t begin, end;
};

static int chain_length(const struct gemm_ways *w)
{
    return w->count < CHAIN_LEAST ? CHAIN_LEAST : w->count;
}

/* The first is launched by itself, which loads its code. */
static bool chain_capture(const struct gemm_ways *w, const struct choose_way *way,
                          cudaGraphExec_t *out)
{
    char err[GK_LT_TEXT_MAX];
    cudaGraph_t graph = NULL;
    bool good = gemm_by(w, way, &w->list[0], w->stream, err) &&
                cudaStreamSynchronize(w->stream) == cudaSuccess &&
                cudaStreamBeginCapture(w->stream, cudaStreamCaptureModeRelaxed) == cudaSuccess;

    if (!good)
        return false;
    for (int i = 0; i < chain_length(w) && good; i++)
        good = gemm_by(w, way, &w->list[i % w->count], w->stream, err) &&
               (!w->after || w->after(w->arg, way) == cudaSuccess);
    good = cudaStreamEndCapture(w->stream, &graph) == cudaSuccess && good &&
           cudaGraphInstantiate(out, graph, 0) == cudaSuccess;
    if (graph)
        (void)cudaGraphDestroy(graph);
    return good;
}

/* Milliseconds of the chain; negative: it does not run. */
static float chain_time(const struct gemm_ways *w, cudaGraphExec_t chain, const struct way_clock *c)
{
    float least = -1;

    for (int i = 0; i <= ROUNDS; i++) {
        float ms = -1;

        if (cudaEventRecord(c->begin, w->stream) != cudaSuccess ||
            cudaGraphLaunch(chain, w->stream) != cudaSuccess ||
            cudaEventRecord(c->end, w->stream) != cudaSuccess ||
            cudaEventSynchronize(c->end) != cudaSuccess ||
            cudaEventElapsedTime(&ms, c->begin, c->end) != cudaSuccess)
            return -1;
        if (i > 0 && (least < 0 || ms < least))
            least = ms;
    }
    return least;
}

static double measure_way(void *arg, const struct choose_key *key, const struct choose_way *way)
{
    const struct gemm_ways *w = arg;
    struct way_clock c = { NULL, NULL };
    cudaGraphExec_t chain = NULL;
    float ms = -1;

    (void)key;
    if (cudaEventCreate(&c.begin) == cudaSuccess && cudaEventCreate(&c.end) == cudaSuccess &&
        chain_capture(w, way, &chain))
        ms = chain_time(w, chain, &c);
    if (chain)
        (void)cudaGraphExecDestroy(chain);
    if (c.begin)
        (void)cudaEventDestroy(c.begin);
    if (c.end)
        (void)cudaEventDestroy(c.end);
    if (ms < 0)
        (void)cudaGetLastError(); /* a way that does not fit is no lasting error */
    return (double)ms * 1e3 / chain_length(w);
}

struct choose_ops gemm_choose_ops(struct gemm_ways *w)
{
    return (struct choose_ops){ .arg = w, .ways = ways_of, .measure = measure_way };
}
