/* SPDX-License-Identifier: MIT */
/* cluster_cases: figures, front and choice over several clusters. */
#include "plan/cluster_cases.h"

#include "plan/campaign.h"

#include <math.h>
#include <stdlib.h>

enum {
    SIZES_TRIED = 24, /* numbers of GPUs for a deadline: up to 64 times what was asked */
    SIZES_NEAR = 2    /* times of a step so near to the wanted one are looked at closely */
};

void plan_case_figures(const struct plan_case *k, const struct plan_goal *goal,
                       const struct plan_config *c, struct plan_figures *out)
{
    struct plan_figures f = { 0 };
    double hours;

    plan_time_of(k->space.model, k->space.counts, &k->cluster, c, &k->consts, &f.time);
    plan_memory_of(k->space.model, k->space.counts, c, &k->consts.memory, &f.memory);
    f.fits = f.memory.total <= k->space.limit;
    f.dollars_btok = k->price * (double)k->cluster.gpus * 1e9 / f.time.tokens_s / 3600;
    hours = goal->tokens / f.time.tokens_s / 3600;
    f.days = hours / 24;
    f.dollars = hours * (double)k->cluster.gpus * k->price;
    f.misses_days = goal->days > 0 && f.days > goal->days;
    f.misses_budget = goal->budget > 0 && f.dollars > goal->budget;
    *out = f;
}

/* ---- front ---- */
static bool point_beats(const struct plan_point *a, const struct plan_point *b)
{
    if (a->token_s > b->token_s || a->headroom < b->headroom || a->dollars > b->dollars)
        return false;
    return a->token_s < b->token_s || a->headroom > b->headroom || a->dollars < b->dollars;
}

static int by_time(const void *pa, const void *pb)
{
    const struct plan_point *a = pa, *b = pb;

    return a->token_s < b->token_s ? -1 : a->token_s > b->token_s;
}

size_t plan_cases_front(const struct plan_case *cases, size_t count, struct plan_point *out,
                        size_t max)
{
    size_t n = 0, kept = 0;

    for (size_t i = 0; i < count; i++) {
        const struct plan_case *k = &cases[i];
        double tokens = (double)k->space.batch * (double)k->space.base.seq;

        for (size_t p = 0; p < k->found.front_count && n < max; p++, n++) {
            const struct plan_pick *pick = &k->found.front[p];

            out[n] = (struct plan_point){ .cluster = i, .pick = pick };
            out[n].token_s = pick->step_s / tokens;
            out[n].headroom = (double)k->cluster.gpu.mem_bytes - (double)pick->memory;
            out[n].dollars = out[n].token_s / 3600 * (double)k->cluster.gpus * k->price;
        }
    }
    for (size_t i = 0; i < n; i++) {
        bool beaten = false;

        for (size_t p = 0; p < n && !beaten; p++)
            beaten = point_beats(&out[p], &out[i]);
        if (!beaten)
            out[kept++] = out[i]; /* only moves to the front: those behind are as they were */
    }
    qsort(out, kept, sizeof(*out), by_time);
    return kept;
}

/* ---- the choice ---- */
bool plan_cases_choose(const struct plan_case *cases, size_t count, const struct plan_goal *goal,
                       size_t *chosen)
{
    double best = INFINITY;
    bool any = false;

    for (int strict = 1; strict >= 0 && !any; strict--)
        for (size_t i = 0; i < count; i++) {
            const struct plan_pick *p = plan_choice(&cases[i].found);
            struct plan_figures f;
            double v;

            if (!p)
                continue;
            plan_case_figures(&cases[i], goal, &p->config, &f);
            if (strict && (f.misses_days || f.misses_budget))
                continue;
            v = strict && goal->days > 0 && f.dollars > 0 ? f.dollars : 1 / f.time.tokens_s;
            if (any && v >= best)
                continue;
            best = v;
            *chosen = i;
            any = true;
        }
    return any;
}

/* ---- how many GPUs a deadline takes ---- */
/* Seconds of a step of the choice in `s`; INFINITY: nothing fits. */
static double step_of_choice(const struct plan_space *s, int threads)
{
    struct plan_search_run run = { .threads = threads, .top = 1 };
    struct plan_found f = { 0 };
    struct arena a = { 0 };
    double step_s = (double)INFINITY;

    if (plan_search(s, &run, &a, &f, NULL) == RC_OK && f.fit)
        step_s = plan_choice(&f)->step_s;
    arena_release(&a);
    return step_s;
}

/* Shard groups and distances of recompute make most of the space and little
 * of the time: without them a size is searched first, with them where it is decided by that. */
int64_t plan_gpus_in_time(const struct plan_case *k, const struct plan_goal *goal, int threads)
{
    double steps = goal->tokens / ((double)k->space.batch * (double)k->space.base.seq);
    double wanted_s = goal->days * PLAN_DAY_S / steps;
    int64_t node = k->cluster.node_gpus, tried = k->cluster.gpus;
    struct plan_cluster cl = k->cluster;
    struct plan_space all = k->space, less;

    all.cluster = &cl;
    all.base.dp = 1;
    all.fixed &= ~(unsigned)PLAN_GIVEN_DP;
    less = all;
    less.fixed |= PLAN_GIVEN_SHARD | PLAN_GIVEN_EVERY;
    for (int i = 0; i < SIZES_TRIED; i++) {
        int64_t gpus = (k->cluster.gpus << (i / 4)) * (5 + i % 4) / 4;
        double step_s;

        gpus = gpus > node ? gpus / node * node : gpus;
        if (gpus <= tried || gpus > PLAN_GPUS_MAX)
            continue;
        cl.gpus = tried = gpus;
        step_s = step_of_choice(&less, threads);
        if (step_s > wanted_s && (step_s < SIZES_NEAR * wanted_s || !isfinite(step_s)))
            step_s = step_of_choice(&all, threads);
        if (step_s <= wanted_s)
            return gpus;
    }
    return 0;
}
