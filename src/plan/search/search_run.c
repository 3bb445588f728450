/* SPDX-License-Identifier: MIT */
/* search_run: a search on several threads, one configuration as the search sees it, and searches
 * under changed conditions.
 *
 * Threads take units off one counter and share nothing else but read-only tables, so that there is
 * no lock; found_merge() joins what they have. */
#include "plan/search/search_int.h"

#include "plan/plan_int.h"

#include <pthread.h>
#include <stdatomic.h>

struct search_team {
    const struct plan_space *space;
    const struct space_axes *axes;
    const struct plan_search_run *run;
    uint64_t units, all;
    _Atomic uint64_t next, done;
};

struct team_member {
    struct search_team *team;
    struct search_worker worker;
    struct plan_found found;
    pthread_t thread;
    bool first; /* the caller's own thread, which tells of progress */
};

static void *member_work(void *arg)
{
    struct team_member *m = arg;
    struct search_team *t = m->team;

    for (;;) {
        uint64_t unit = atomic_fetch_add(&t->next, 1), before = m->found.tried, done;

        if (unit >= t->units)
            return NULL;
        worker_unit(&m->worker, unit);
        done = atomic_fetch_add(&t->done, m->found.tried - before);
        if (m->first && t->run->progress && m->found.tried != before)
            t->run->progress(t->run->arg, done + (m->found.tried - before), t->all);
    }
}

static enum rc space_check(const struct plan_space *s, struct err *err)
{
    if (s->batch < 1 || s->batch > PLAN_BATCH_MAX) {
        err_hint(err, "The nearest valid value is %d.", s->batch < 1 ? 1 : PLAN_BATCH_MAX);
        return err_set(err, RC_USAGE, "a batch of %lld sequences cannot be", (long long)s->batch);
    }
    if (s->cluster->gpus < 1 || s->cluster->gpus > PLAN_GPUS_MAX) {
        err_hint(err, "The nearest valid value is %d.", s->cluster->gpus < 1 ? 1 : PLAN_GPUS_MAX);
        return err_set(err, RC_USAGE, "%lld GPUs cannot be", (long long)s->cluster->gpus);
    }
    if (s->base.seq < 1 || s->base.seq > PLAN_SEQ_MAX) {
        err_hint(err, "The nearest valid value is %d.", s->base.seq < 1 ? 1 : PLAN_SEQ_MAX);
        return err_set(err, RC_USAGE, "a sequence of %lld tokens cannot be",
                       (long long)s->base.seq);
    }
    return RC_OK;
}

static void members_run(struct team_member *m, int threads)
{
    int started = 1;

    m[0].first = true;
    while (started < threads &&
           pthread_create(&m[started].thread, NULL, member_work, &m[started]) == 0)
        started++; /* fewer threads than asked for take longer, and answer the same */
    member_work(&m[0]);
    for (int i = 1; i < started; i++)
        pthread_join(m[i].thread, NULL);
}

enum rc plan_search(const struct plan_space *s, const struct plan_search_run *run, struct arena *a,
                    struct plan_found *out, struct err *err)
{
    int threads = run->threads < 1                  ? 1
                  : run->threads > PLAN_THREADS_MAX ? PLAN_THREADS_MAX
                                                    : run->threads;
    struct space_axes *x;
    struct plan_found counted;
    struct team_member *m;
    struct search_worker w;
    struct search_team t;
    enum rc rc = space_check(s, err);

    if (rc != RC_OK)
        return rc;
    x = arena_alloc(a, sizeof(*x));
    m = arena_array_bytes(a, (size_t)threads, sizeof(*m));
    space_axes_of(s, x);
    if (space_work(s, x) > PLAN_CUTS_MAX) {
        err_hint(err, "Fix some sizes, as in --fix \"tp8 cp1 mbs1\".");
        return err_set(err, RC_LIMIT,
                       "%lld GPUs and a batch of %lld have more than %d ways to be cut",
                       (long long)s->cluster->gpus, (long long)s->batch, PLAN_CUTS_MAX);
    }
    for (int i = 0; i < threads; i++) {
        found_init(&m[i].found, run->top, a);
        worker_init(&m[i].worker, s, x, &m[i].found, arena_alloc(a, sizeof(struct search_unit)));
        m[i].team = &t;
    }
    found_init(&counted, 0, NULL);
    worker_init(&w, s, x, &counted, m[0].worker.unit);
    w.count_only = true;
    for (uint64_t i = 0; i < space_units(x); i++)
        worker_unit(&w, i);
    if (counted.tried > PLAN_SPACE_MAX) {
        err_hint(err, "Fix some sizes, as in --fix \"tp8 zero1\".");
        return err_set(err, RC_LIMIT, "there are %llu configurations, more than %llu",
                       (unsigned long long)counted.tried, (unsigned long long)PLAN_SPACE_MAX);
    }
    t = (struct search_team){
        .space = s, .axes = x, .run = run, .units = space_units(x), .all = counted.tried
    };
    members_run(m, threads);
    for (int i = 1; i < threads; i++)
        found_merge(&m[0].found, &m[i].found);
    assert(m[0].found.tried + m[0].found.excluded[PLAN_RULE_FRAMEWORK] == counted.tried);
    *out = m[0].found;
    return RC_OK;
}

bool plan_search_any(const struct plan_space *s, double *left)
{
    struct arena a = { 0 };
    struct space_axes *x = arena_alloc(&a, sizeof(*x));
    const struct plan_config *b = &s->base;
    int64_t given = (int64_t)(s->fixed & PLAN_GIVEN_TP ? b->tp : 1) *
                    (s->fixed & PLAN_GIVEN_PP ? b->pp : 1) * (s->fixed & PLAN_GIVEN_CP ? b->cp : 1);
    struct plan_found f = { 0 };
    struct search_worker w;

    if (s->fixed & PLAN_GIVEN_DP)
        given *= b->dp;
    if (space_check(s, NULL) == RC_OK && s->cluster->gpus % plan_max(1, given) == 0) {
        uint64_t units, looked = 0;

        found_init(&f, 1, &a);
        space_axes_of(s, x);
        worker_init(&w, s, x, &f, arena_alloc(&a, sizeof(struct search_unit)));
        units = space_units(x);
        for (uint64_t i = 0; i < units && !f.tried && *left > 0; i++) {
            worker_unit(&w, i);
            *left -= (double)(w.looked - looked);
            looked = w.looked;
        }
    }
    arena_release(&a);
    return f.tried > 0;
}

void plan_pick_of(const struct plan_space *s, const struct plan_config *c, struct plan_pick *out)
{
    struct plan_memory m;
    struct plan_time t;

    plan_memory_of(s->model, s->counts, c, &s->consts->memory, &m);
    plan_time_of(s->model, s->counts, s->cluster, c, s->consts, &t);
    *out = (struct plan_pick){ .config = *c, .step_s = t.step_s, .memory = m.total };
}

/* ---- what would change it ---- */
static const struct {
    const char *name;
    double network, memory, batch;
} varies[PLAN_VARIES] = {
    { "half the network", 0.5, 1, 1 }, { "twice the network", 2, 1, 1 },
    { "half the memory", 1, 0.5, 1 },  { "twice the memory", 1, 2, 1 },
    { "half the batch", 1, 1, 0.5 },   { "twice the batch", 1, 1, 2 },
};

/* The choice where the batch is another: as many micro-batches as that gives. */
static bool carry_over(const struct plan_space *s, const struct plan_config *choice,
                       struct plan_pick *out)
{
    struct plan_config c = *choice;
    int64_t round = (int64_t)c.dp * c.micro_batch;

    if (s->batch % round)
        return false;
    c.grad_acc = (int32_t)(s->batch / round);
    if (plan_config_rule(s->model, s->cluster, &c) != PLAN_RULE_OK)
        return false;
    plan_pick_of(s, &c, out);
    return true;
}

static enum rc vary_one(const struct plan_space *base, const struct plan_search_run *run, int i,
                        const struct plan_config *choice, struct plan_vary *out, struct err *err)
{
    struct plan_cluster cl = *base->cluster;
    struct plan_space s = *base;
    struct plan_found f = { 0 };
    struct arena a = { 0 };
    enum rc rc;

    cl.net_bytes_s *= varies[i].network;
    cl.gpu.mem_bytes = (int64_t)((double)cl.gpu.mem_bytes * varies[i].memory);
    s.cluster = &cl;
    s.limit = (uint64_t)((double)s.limit * varies[i].memory);
    s.batch = plan_min(plan_max(1, (int64_t)((double)s.batch * varies[i].batch)), PLAN_BATCH_MAX);
    *out = (struct plan_vary){ .name = varies[i].name };
    rc = plan_search(&s, run, &a, &f, err);
    if (rc == RC_OK && f.fit) {
        out->any = true;
        out->best = *plan_choice(&f);
    }
    if (rc == RC_OK)
        out->same_valid = carry_over(&s, choice, &out->same);
    out->same_fits = out->same_valid && out->same.memory <= s.limit;
    arena_release(&a);
    return rc;
}

enum rc plan_vary_all(const struct plan_space *s, const struct plan_search_run *run,
                      const struct plan_config *choice, struct plan_vary out[PLAN_VARIES],
                      struct err *err)
{
    for (int i = 0; i < PLAN_VARIES; i++) {
        enum rc rc = vary_one(s, run, i, choice, &out[i], err);

        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}
