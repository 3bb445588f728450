/* SPDX-License-Identifier: MIT */
/* graph: small passes as CUDA graphs, so that one call launches all of their kernels.
 *
 * A graph is captured for the most tokens and sequences of a bucket; how many there are stands
 * in the batch's block, and kernels read it there.  The first pass of a bucket is launched
 * kernel by kernel, which also loads their code, and then captured without running it; later
 * ones replay.  The graph that was used longest ago makes room for a new one. */
#include "engine/cuda/cuda_int.h"

#include <assert.h>

enum { TOKENS_LEAST = 16 };

size_t graph_tokens(size_t tokens)
{
    size_t bucket = TOKENS_LEAST;

    while (bucket < tokens)
        bucket *= 2;
    return bucket;
}

/* 1, 8, 64 … and never more than there are tokens. */
size_t graph_sequences(size_t sequences, size_t tokens)
{
    size_t bucket = 1;

    while (bucket < sequences)
        bucket *= 8;
    return cu_min(bucket, tokens);
}

static bool same_bucket(const struct cu_key *a, const struct cu_key *b)
{
    return a->tokens == b->tokens && a->sequences == b->sequences && a->want == b->want &&
           a->normalize == b->normalize && a->pool == b->pool && a->in16 == b->in16 &&
           a->slot == b->slot;
}

static struct cu_graph *find_graph(struct cuda_net *e, const struct cu_key *key)
{
    for (size_t i = 0; i < e->graph_count; i++)
        if (same_bucket(&e->graphs[i].key, key))
            return &e->graphs[i];
    return NULL;
}

/* An empty place: a new one, or that of the graph used longest ago. */
static struct cu_graph *place_graph(struct cuda_net *e)
{
    struct cu_graph *oldest = &e->graphs[0];

    if (e->graph_count < CU_GRAPHS_MAX)
        return &e->graphs[e->graph_count++];
    for (size_t i = 1; i < e->graph_count; i++)
        if (e->graphs[i].used < oldest->used)
            oldest = &e->graphs[i];
    (void)cudaGraphExecDestroy(oldest->exec);
    return oldest;
}

static enum rc capture_graph(struct cuda_net *e, const struct cu_pass *p, cudaGraphExec_t *out,
                             struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    cudaGraph_t graph = NULL;
    cudaError_t launched, ended;

    if (!cu_ok(&t, cudaStreamBeginCapture(e->stream, cudaStreamCaptureModeRelaxed),
               "cudaStreamBeginCapture", "a graph"))
        return t.rc;
    launched = net_forward(e, p);
    ended = cudaStreamEndCapture(e->stream, &graph);
    if (cu_ok(&t, launched, "capture", "the layers") &&
        cu_ok(&t, ended, "cudaStreamEndCapture", "a graph"))
        (void)cu_ok(&t, cudaGraphInstantiate(out, graph, 0), "cudaGraphInstantiate", "the layers");
    if (graph)
        (void)cudaGraphDestroy(graph);
    return t.rc;
}

/* The pass has run: a graph that cannot be had is a loss of speed and no error. */
static void keep_graph(struct cuda_net *e, const struct cu_pass *p, const struct cu_key *key)
{
    cudaGraphExec_t exec = NULL;

    if (capture_graph(e, p, &exec, NULL) == RC_OK)
        *place_graph(e) = (struct cu_graph){ .key = *key, .exec = exec, .used = ++e->graph_clock };
    else
        e->eager = true;
}

enum rc graph_run(struct cuda_net *e, const struct cu_pass *p, int slot, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    struct cu_key key = { .tokens = p->tokens,
                          .sequences = p->sequences,
                          .want = p->want,
                          .normalize = e->base.model->normalize,
                          .pool = e->base.model->pool,
                          .in16 = p->in16,
                          .slot = slot };
    struct cu_graph *g = e->eager ? NULL : find_graph(e, &key);

    assert(p->counted);
    if (!g) {
        if (cu_ok(&t, net_forward(e, p), "launch", "the layers") && !e->eager)
            keep_graph(e, p, &key);
        return t.rc;
    }
    g->used = ++e->graph_clock;
    e->graph_replays++;
    (void)cu_ok(&t, cudaGraphLaunch(g->exec, e->stream), "cudaGraphLaunch", "the layers");
    return t.rc;
}

void graph_release(struct cuda_net *e)
{
    for (size_t i = 0; i < e->graph_count; i++)
        (void)cudaGraphExecDestroy(e->graphs[i].exec);
    e->graph_count = 0;
}
