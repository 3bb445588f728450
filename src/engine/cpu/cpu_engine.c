/* SPDX-License-Identifier: MIT */
/* cpu_engine: the fast CPU engine behind struct eng_ops: loads a model, cuts batches into spans of
 * sequences and hands them to the threads. */
#include "base/mem.h"
#include "engine/cpu/cpu_net_int.h"

/* With fewer tokens for each thread the team works together. */
enum { ALONE_TOKENS_MIN = 96 };

static int cpu_score(void)
{
    return (int)cpu_isa_best() * 10; /* CPU_NONE: 0 */
}

static void cpu_unload(struct eng *base)
{
    struct cpu_net *e = (struct cpu_net *)base;

    if (!e)
        return;
    net_release(e);
    free(e);
}

static enum rc cpu_load(const struct model *m, const struct eng_opts *o, struct eng **out,
                        struct err *err)
{
    struct cpu_net *e = xcalloc(1, sizeof(*e));
    enum rc rc = net_choose(e, m, o, err);

    e->base.ops = &eng_cpu;
    if (rc == RC_OK)
        rc = net_load(e, err);
    if (rc != RC_OK) {
        cpu_unload(&e->base);
        return rc;
    }
    *out = &e->base;
    return RC_OK;
}

static uint64_t cpu_memory(const struct model *m, const struct eng_opts *o)
{
    struct cpu_net e = { 0 };

    return net_choose(&e, m, o, NULL) == RC_OK ? net_bytes(&e, NET_CHUNK) : 0;
}

static void add_span(struct cpu_net *e, size_t first, size_t end, bool team)
{
    VEC_GROW(e->spans, e->spans_count, e->spans_cap);
    e->spans[e->spans_count++] = (struct net_span){ .first = first, .end = end, .team = team };
}

/* Tokens of a span so that all threads end at about the same time. */
static size_t span_tokens(size_t tokens, size_t threads)
{
    size_t rounds = (tokens + threads * NET_CHUNK - 1) / (threads * NET_CHUNK);

    return (tokens + threads * rounds - 1) / (threads * rounds);
}

/* Whole sequences in their order; one longer than a chunk is a span of its own, and the
 * team's. */
static void cut_spans(struct cpu_net *e, const struct eng_batch *b)
{
    size_t tokens = b->starts[b->sequences], want = span_tokens(tokens, e->threads), first = 0;
    bool team =
        e->threads > 1 && (tokens < e->threads * ALONE_TOKENS_MIN || b->sequences < e->threads);

    e->spans_count = 0;
    for (size_t i = 0; i < b->sequences; i++) {
        size_t before = b->starts[i] - b->starts[first], n = b->starts[i + 1] - b->starts[i];
        if (i > first && (before + n > NET_CHUNK || (!team && before >= want))) {
            add_span(e, first, i, team);
            first = i;
        }
        if (n > NET_CHUNK) {
            add_span(e, i, i + 1, e->threads > 1);
            first = i + 1;
        }
    }
    if (first < b->sequences)
        add_span(e, first, b->sequences, team);
}

static enum rc cpu_run(struct eng *base, const struct eng_batch *b, enum eng_want want, float *out,
                       struct err *err)
{
    struct cpu_net *e = (struct cpu_net *)base;
    struct net_work work = { .e = e, .batch = b, .want = want, .out = out };

    (void)err;
    cut_spans(e, b);
    cpu_pool_run(e->pool, net_work_task, &work);
    return RC_OK;
}

static void cpu_describe(const struct eng *base, char *out, size_t cap)
{
    const struct cpu_net *e = (const struct cpu_net *)base;

    (void)snprintf(out, cap, "%s %s, %zu thread%s", cpu_isa_name(e->isa), eng_dtype_name(e->dtype),
                   e->threads, e->threads == 1 ? "" : "s");
}

static const char *cpu_kind(void)
{
    static const char *const names[CPU_ISAS] = {
        [CPU_NONE] = "cpu",
        [CPU_AVX2] = "cpu avx2",
        [CPU_AVX512] = "cpu avx512",
        [CPU_VNNI] = "cpu avx512vnni",
        [CPU_BF16] = "cpu avx512bf16",
        [CPU_AMX] = "cpu amx",
    };

    return names[cpu_isa_best()];
}

const struct eng_ops eng_cpu = {
    .name = "cpu",
    .score = cpu_score,
    .load = cpu_load,
    .unload = cpu_unload,
    .run = cpu_run,
    .memory = cpu_memory,
    .describe = cpu_describe,
    .kind = cpu_kind,
};
