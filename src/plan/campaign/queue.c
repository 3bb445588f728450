/* SPDX-License-Identifier: MIT */
/* queue: the simulation, and the search for the smallest cluster.
 *
 * Empty nodes are alike and only counted; a node that jobs smaller than a node share has a slot
 * with the GPUs it has left.  A slot whose node is empty again is free for the next. */
#include "plan/queue.h"

#include "base/str.h"
#include "catalog/csv.h"
#include "plan/campaign.h"
#include "plan/campaign/campaign_int.h"
#include "plan/plan_int.h"

#include <math.h>
#include <stdlib.h>

enum {
    LOOK_MAX = 100,                     /* jobs behind the first that backfill looks at */
    JOBS_DRAWN_MAX = QUEUE_JOBS_MAX / 2 /* expected: what is drawn may be more */
};

struct queued_job {
    double arrives, hours, starts;
    int32_t gpus;
    int32_t slot;  /* of a shared node; -1: whole nodes */
    uint32_t next; /* in the queue; 0: the last */
};

struct queue_sim {
    const struct queue_in *in;
    struct queued_job *jobs; /* by arrival; jobs[0] is none, so that 0 ends a list */
    uint32_t count;
    int32_t *left; /* GPUs left in a slot's node; node_gpus: the slot is not in use */
    int64_t slots; /* ever used */
    int64_t empty; /* nodes */
    int64_t free_gpus;
    uint32_t *heap; /* running jobs, the one that ends first on top */
    uint32_t running;
    uint32_t head, tail; /* of the queue */
    size_t waiting;
    double now, from, until;
    double held, queued; /* GPU-hours held and job-hours waited between from and until */
};

/* ---- running jobs: a heap by their end ---- */
static double end_of(const struct queue_sim *s, uint32_t j)
{
    return s->jobs[j].starts + s->jobs[j].hours;
}

static void heap_push(struct queue_sim *s, uint32_t j)
{
    uint32_t i = s->running++;

    while (i && end_of(s, s->heap[(i - 1) / 2]) > end_of(s, j)) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = j;
}

static uint32_t heap_pop(struct queue_sim *s)
{
    uint32_t top = s->heap[0], last = s->heap[--s->running], i = 0;

    for (;;) {
        uint32_t kid = 2 * i + 1;

        if (kid >= s->running)
            break;
        if (kid + 1 < s->running && end_of(s, s->heap[kid + 1]) < end_of(s, s->heap[kid]))
            kid++;
        if (end_of(s, s->heap[kid]) >= end_of(s, last))
            break;
        s->heap[i] = s->heap[kid];
        i = kid;
    }
    s->heap[i] = last;
    return top;
}

/* ---- places ---- */
/* The shared node with least room that has enough; a fresh one when none has; -1: no node. */
static int32_t part_slot(struct queue_sim *s, int32_t gpus)
{
    int32_t size = (int32_t)s->in->node_gpus, best = -1, unused = -1;

    for (int64_t i = 0; i < s->slots; i++) {
        if (s->left[i] == size)
            unused = (int32_t)i;
        else if (s->left[i] >= gpus && (best < 0 || s->left[i] < s->left[best]))
            best = (int32_t)i;
    }
    if (best >= 0 || !s->empty)
        return best;
    if (unused < 0) {
        unused = (int32_t)s->slots++;
        s->left[unused] = size;
    }
    s->empty--;
    return unused;
}

static int64_t whole_nodes(const struct queue_sim *s, const struct queued_job *j)
{
    return plan_ceil_div(j->gpus, s->in->node_gpus);
}

/* GPUs nobody else can have while it runs. */
static int64_t gpus_taken(const struct queue_sim *s, const struct queued_job *j)
{
    return j->gpus < s->in->node_gpus ? j->gpus : whole_nodes(s, j) * s->in->node_gpus;
}

static bool job_start(struct queue_sim *s, uint32_t i)
{
    struct queued_job *j = &s->jobs[i];

    if (j->gpus < s->in->node_gpus) {
        j->slot = part_slot(s, j->gpus);
        if (j->slot < 0)
            return false;
        s->left[j->slot] -= j->gpus;
    } else {
        j->slot = -1;
        if (s->empty < whole_nodes(s, j))
            return false;
        s->empty -= whole_nodes(s, j);
    }
    s->free_gpus -= gpus_taken(s, j);
    j->starts = s->now;
    heap_push(s, i);
    return true;
}

static void job_finish(struct queue_sim *s, const struct queued_job *j)
{
    s->free_gpus += gpus_taken(s, j);
    if (j->slot < 0) {
        s->empty += whole_nodes(s, j);
        return;
    }
    s->left[j->slot] += j->gpus;
    s->empty += s->left[j->slot] == s->in->node_gpus;
}

/* ---- the queue ---- */
static void job_enqueue(struct queue_sim *s, uint32_t i)
{
    if (s->head)
        s->jobs[s->tail].next = i;
    else
        s->head = i;
    s->tail = i;
    s->jobs[i].next = 0;
    s->waiting++;
}

/* Takes the job behind `before` (0: the first) out. */
static void job_dequeue(struct queue_sim *s, uint32_t before)
{
    uint32_t i = before ? s->jobs[before].next : s->head;

    if (before)
        s->jobs[before].next = s->jobs[i].next;
    else
        s->head = s->jobs[i].next;
    if (s->tail == i)
        s->tail = before;
    s->waiting--;
}

static int by_end(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (x[0] > y[0]) - (x[0] < y[0]);
}

/* When the first in the queue can start, counted in GPUs, and how many are left over then. */
static double shadow_of(const struct queue_sim *s, double (*ends)[2], int64_t *out_extra)
{
    int64_t need = gpus_taken(s, &s->jobs[s->head]), have = s->free_gpus;
    double at = s->now;

    for (uint32_t i = 0; i < s->running; i++) {
        ends[i][0] = end_of(s, s->heap[i]);
        ends[i][1] = (double)gpus_taken(s, &s->jobs[s->heap[i]]);
    }
    qsort(ends, s->running, sizeof(*ends), by_end);
    for (uint32_t i = 0; i < s->running && have < need; i++) {
        have += (int64_t)ends[i][1];
        at = ends[i][0];
    }
    *out_extra = have - need;
    return at;
}

static void jobs_dispatch(struct queue_sim *s, double (*ends)[2])
{
    int64_t extra;
    double shadow;
    uint32_t before;

    while (s->head && job_start(s, s->head))
        job_dequeue(s, 0);
    if (!s->in->backfill || !s->head || !s->free_gpus)
        return;
    shadow = shadow_of(s, ends, &extra);
    before = s->head;
    for (int i = 0; i < LOOK_MAX && s->jobs[before].next; i++) {
        uint32_t next = s->jobs[before].next;
        const struct queued_job *j = &s->jobs[next];
        bool short_enough = s->now + j->hours <= shadow, small = gpus_taken(s, j) <= extra;

        if ((short_enough || small) && gpus_taken(s, j) <= s->free_gpus && job_start(s, next)) {
            if (!short_enough)
                extra -= gpus_taken(s, j);
            job_dequeue(s, before);
        } else {
            before = next;
        }
    }
}

/* ---- time ---- */
static void clock_advance(struct queue_sim *s, double to)
{
    double a = fmax(s->now, s->from), b = fmin(to, s->until);

    if (b > a) {
        s->held += (b - a) * (double)(s->in->nodes * s->in->node_gpus - s->free_gpus);
        s->queued += (b - a) * (double)s->waiting;
    }
    s->now = to;
}

static void sim_run(struct queue_sim *s, double (*ends)[2])
{
    uint32_t next = 1;

    while (next <= s->count || s->running) {
        if (s->running && (next > s->count || end_of(s, s->heap[0]) <= s->jobs[next].arrives)) {
            uint32_t done = s->heap[0];

            clock_advance(s, end_of(s, done));
            job_finish(s, &s->jobs[heap_pop(s)]);
        } else {
            clock_advance(s, s->jobs[next].arrives);
            job_enqueue(s, next++);
        }
        jobs_dispatch(s, ends);
    }
}

/* ---- jobs ---- */
static int by_arrival(const void *a, const void *b)
{
    const struct queued_job *x = a, *y = b;

    return (x->arrives > y->arrives) - (x->arrives < y->arrives);
}

static enum rc input_check(const struct queue_in *in, uint32_t *out_cap, struct err *err)
{
    double jobs = 0;

    if (in->nodes < 1 || in->nodes > QUEUE_NODES_MAX) {
        err_hint(err, "The nearest valid value is %d.", in->nodes < 1 ? 1 : QUEUE_NODES_MAX);
        return err_set(err, RC_USAGE, "a cluster cannot have %lld nodes here",
                       (long long)in->nodes);
    }
    for (size_t i = 0; i < in->class_count; i++) {
        const struct queue_class *c = &in->classes[i];
        int64_t gpus = in->nodes * in->node_gpus;

        if (c->gpus < 1 || c->gpus > gpus) {
            err_hint(err, "It has %lld GPUs.", (long long)gpus);
            return err_set(err, RC_USAGE, "a job of '%s' wants %lld GPUs: more than the cluster",
                           c->name, (long long)c->gpus);
        }
        jobs += c->per_month * in->months * 1.2;
    }
    if (jobs < 1 || jobs > JOBS_DRAWN_MAX) {
        err_hint(err, "At most %d jobs can be simulated.", JOBS_DRAWN_MAX);
        return err_set(err, RC_USAGE, "cannot simulate %.0f jobs", jobs);
    }
    *out_cap = (uint32_t)(jobs + 8 * sqrt(jobs) + 64); /* eight deviations: never reached */
    return RC_OK;
}

/* Each class draws from a stream of its own: a class more does not change the others' jobs. */
static uint32_t make_jobs(const struct queue_in *in, struct queued_job *jobs, uint32_t cap,
                          double until)
{
    uint32_t n = 0;

    for (size_t i = 0; i < in->class_count; i++) {
        const struct queue_class *c = &in->classes[i];
        struct plan_rng rng = { in->seed * 1000003 + i };
        double gap = PLAN_MONTH_H / c->per_month, at = plan_rng_exp(&rng, gap);

        while (at < until && n + 1 < cap) {
            jobs[++n] = (struct queued_job){ .arrives = at,
                                             .hours = plan_rng_lognormal(&rng, c->hours, c->spread),
                                             .gpus = (int32_t)c->gpus };
            at += plan_rng_exp(&rng, gap);
        }
    }
    qsort(jobs + 1, n, sizeof(*jobs), by_arrival);
    return n;
}

/* ---- figures ---- */
static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double sorted_quantile(const double *v, size_t n, double q)
{
    double at = q * (double)(n - 1);
    size_t i = (size_t)at;

    return i + 1 < n ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[n - 1];
}

static void times_of(double *v, size_t n, struct queue_times *out)
{
    double sum = 0;

    if (!n)
        return;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    qsort(v, n, sizeof(*v), by_size);
    *out = (struct queue_times){ .mean = sum / (double)n,
                                 .p50 = sorted_quantile(v, n, 0.5),
                                 .p90 = sorted_quantile(v, n, 0.9),
                                 .p95 = sorted_quantile(v, n, 0.95),
                                 .p99 = sorted_quantile(v, n, 0.99),
                                 .max = v[n - 1] };
}

static void sim_figures(const struct queue_sim *s, double *v, struct queue_out *out)
{
    struct queue_out r = { 0 };
    double span = s->until - s->from;
    size_t n = 0;

    for (uint32_t i = 1; i <= s->count; i++) {
        const struct queued_job *j = &s->jobs[i];

        if (j->arrives < s->from)
            continue;
        v[n++] = j->starts - j->arrives;
    }
    r.jobs = n;
    times_of(v, n, &r.wait);
    n = 0;
    for (uint32_t i = 1; i <= s->count; i++)
        if (s->jobs[i].arrives >= s->from)
            v[n++] = end_of(s, i) - s->jobs[i].arrives;
    times_of(v, n, &r.turnaround);
    r.utilisation = s->held / (span * (double)(s->in->nodes * s->in->node_gpus));
    r.queue_mean = s->queued / span;
    *out = r;
}

/* GPU-hours that come in an hour. */
static double load_gpus(const struct queue_in *in)
{
    double load = 0;

    for (size_t i = 0; i < in->class_count; i++) {
        const struct queue_class *c = &in->classes[i];
        int64_t size = in->node_gpus;
        int64_t gpus = c->gpus < size ? c->gpus : plan_ceil_div(c->gpus, size) * size;

        load += c->per_month / PLAN_MONTH_H * c->hours * (double)gpus;
    }
    return load;
}

enum rc queue_run(struct arena *a, const struct queue_in *in, struct queue_out *out,
                  struct err *err)
{
    struct queue_sim s = { .in = in, .empty = in->nodes };
    double(*ends)[2];
    uint32_t cap = 0;
    enum rc rc;

    rc = input_check(in, &cap, err);
    if (rc)
        return rc;
    s.free_gpus = in->nodes * in->node_gpus; /* in range: input_check() */
    s.from = in->months * PLAN_MONTH_H * 0.1;
    s.until = s.from + in->months * PLAN_MONTH_H;
    s.jobs = arena_array(a, struct queued_job, cap);
    s.count = make_jobs(in, s.jobs, cap, s.until);
    s.left = arena_array(a, int32_t, (size_t)in->nodes);
    s.heap = arena_array(a, uint32_t, s.count + 1);
    ends = arena_array_bytes(a, s.count + 1, sizeof(*ends));
    sim_run(&s, ends);
    sim_figures(&s, arena_array(a, double, s.count + 1), out);
    out->unstable = load_gpus(in) >= (double)(in->nodes * in->node_gpus);
    return RC_OK;
}

/* Of 50, 90, 95 or 99. */
static double percentile_of(const struct queue_times *t, int percentile)
{
    return percentile >= 99   ? t->p99
           : percentile >= 95 ? t->p95
           : percentile >= 90 ? t->p90
                              : t->p50;
}

/* ---- the smallest cluster ---- */
static enum rc size_meets(const struct queue_in *in, int percentile, double hours, bool *out,
                          struct queue_out *at, struct err *err)
{
    struct arena a = { 0 };
    enum rc rc = queue_run(&a, in, at, err);

    arena_release(&a);
    *out = rc == RC_OK && !at->unstable && percentile_of(&at->turnaround, percentile) <= hours;
    return rc;
}

static int64_t fewest_possible(const struct queue_in *in)
{
    int64_t nodes = (int64_t)ceil(load_gpus(in) / (double)in->node_gpus);

    for (size_t i = 0; i < in->class_count; i++)
        nodes = plan_max(nodes, plan_ceil_div(in->classes[i].gpus, in->node_gpus));
    return plan_max(nodes, 1);
}

/* Halving between a size that does not do and one that does; more nodes never hurt by more than
 * noise, and all sizes see the same jobs. */
static enum rc size_smallest(const struct queue_in *in, int percentile, double hours, int64_t *out,
                             struct err *err)
{
    struct queue_in q = *in;
    int64_t low = fewest_possible(in) - 1, high;
    struct queue_out at;
    bool ok = false;
    enum rc rc;

    for (high = low + 1; high <= QUEUE_NODES_MAX && !ok; high += high - low) {
        q.nodes = high;
        rc = size_meets(&q, percentile, hours, &ok, &at, err);
        if (rc)
            return rc;
        if (ok)
            break;
        if (at.wait.max <= 0) { /* nobody waits any more */
            err_hint(err, "Without any waiting it is %.1f h.",
                     percentile_of(&at.turnaround, percentile));
            return err_set(err, RC_LIMIT,
                           "no cluster turns %d %% of these jobs around in %.1f hours", percentile,
                           hours);
        }
    }
    if (!ok)
        return err_set(err, RC_LIMIT, "more than %d nodes are needed", QUEUE_NODES_MAX);
    while (high - low > 1) {
        q.nodes = low + (high - low) / 2;
        rc = size_meets(&q, percentile, hours, &ok, &at, err);
        if (rc)
            return rc;
        *(ok ? &high : &low) = q.nodes;
    }
    *out = high;
    return RC_OK;
}

static int by_count(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

enum rc queue_size_for(const struct queue_in *in, int percentile, double hours, size_t runs,
                       struct queue_size *out, struct err *err)
{
    enum { RUNS_MAX = 32 };
    struct queue_in q = *in;
    int64_t sizes[RUNS_MAX];
    enum rc rc;
    bool ok;

    assert(runs > 0 && runs <= RUNS_MAX);
    for (size_t i = 0; i < runs; i++) {
        q.seed = in->seed + i;
        rc = size_smallest(&q, percentile, hours, &sizes[i], err);
        if (rc)
            return rc;
    }
    qsort(sizes, runs, sizeof(*sizes), by_count);
    *out = (struct queue_size){ .nodes = sizes[runs / 2],
                                .least = sizes[0],
                                .most = sizes[runs - 1],
                                .load = fewest_possible(in) };
    q.seed = in->seed;
    q.nodes = out->nodes;
    return size_meets(&q, percentile, hours, &ok, &out->at, err);
}

/* ---- job classes from a table ---- */
static enum rc read_number(const struct csv *t, size_t row, const char *name, double least,
                           double most, double *out, struct err *err)
{
    int col = csv_col(t, name);
    const char *cell = col < 0 ? "" : csv_cell(t, row, (size_t)col);

    if (str_to_f64(cell, out) && *out >= least && *out <= most)
        return RC_OK;
    err_hint(err, "Give a number from %g to %g.", least, most);
    return err_set(err, RC_PARSE, "line %zu: %s cannot be '%s'", row + 2, name, cell);
}

enum rc queue_read(struct arena *a, const char *text, size_t len, double spread,
                   struct queue_class out[QUEUE_CLASSES_MAX], size_t *out_count, struct err *err)
{
    static const char *const needed[] = { "name", "per_month", "gpus", "hours" };
    size_t col[ARRAY_SIZE(needed)];
    struct csv t;
    enum rc rc = csv_parse(a, text, len, &t, err);

    if (rc == RC_OK)
        rc = csv_columns(&t, needed, ARRAY_SIZE(needed), col, err);
    if (rc)
        return rc;
    if (!t.rows || t.rows > QUEUE_CLASSES_MAX)
        return err_set(err, RC_LIMIT, "there are %zu kinds of job: 1 to %d are possible", t.rows,
                       QUEUE_CLASSES_MAX);
    for (size_t i = 0; i < t.rows; i++) {
        struct queue_class c = { .spread = spread };
        double gpus = 0;

        str_copy(c.name, sizeof(c.name), csv_cell(&t, i, col[0]));
        rc = read_number(&t, i, "per_month", 1e-3, 1e6, &c.per_month, err);
        if (rc == RC_OK)
            rc = read_number(&t, i, "gpus", 1, PLAN_GPUS_MAX, &gpus, err);
        if (rc == RC_OK)
            rc = read_number(&t, i, "hours", 1e-3, 1e5, &c.hours, err);
        if (rc == RC_OK && csv_col(&t, "spread") >= 0)
            rc = read_number(&t, i, "spread", 0, 10, &c.spread, err);
        if (rc)
            return rc;
        c.gpus = (int64_t)gpus;
        out[i] = c;
    }
    *out_count = t.rows;
    return RC_OK;
}
