/* SPDX-License-Identifier: MIT */
/* validate_time: the time model's errors by set, by source and by cell, and with a source left out
 * of the fit. */
#include "plan/runs.h"
#include "plan/validate/validate_int.h"

#include "base/str.h"

#include <math.h>

static bool row_error(const struct plan_row *r, const struct plan_consts_all *k, double *seconds)
{
    const struct plan_consts *own;

    *seconds = 0;
    if (plan_row_no_time(r) || !(own = plan_consts_for(k, &r->cluster.gpu)))
        return false;
    *seconds = plan_row_seconds(r, own, NULL);
    return *seconds > 0 && isfinite(*seconds);
}

static double relative_error(const struct plan_row *r, double seconds)
{
    return seconds / r->measured.iter_s - 1;
}

static void set_errors(const struct plan_rows *rows, const double *seconds, enum plan_set s,
                       double *scratch, struct plan_errors *out)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->count; i++)
        if (seconds[i] > 0 && plan_set_has(s, &rows->rows[i]))
            scratch[n++] = relative_error(&rows->rows[i], seconds[i]);
    plan_errors_of(scratch, n, out);
}

/* ---- by source ---- */
static void source_skip(struct plan_time_source *o, const char *reason)
{
    size_t i = 0;

    while (i < o->reasons && !str_eq(o->reason[i], reason))
        i++;
    if (i == PLAN_NO_TIME_MAX)
        return;
    if (i == o->reasons)
        o->reason[o->reasons++] = reason;
    o->skipped[i]++;
}

static void one_source(const struct plan_rows *rows, const double *seconds, const char *source,
                       double *scratch, struct plan_time_source *out)
{
    struct plan_time_source o = { .source = source ? source : "all" };

    for (size_t i = 0; i < rows->count; i++) {
        const struct plan_row *r = &rows->rows[i];
        const char *why = plan_row_no_time(r);

        if (source && !str_eq(r->source, source))
            continue;
        o.rows++;
        if (!why && !(seconds[i] > 0))
            why = "no micro-batch divides the batch";
        if (!why && r->exclude & PLAN_R1_NOT_CLEAN)
            why = "R1";
        if (why)
            source_skip(&o, why);
        else
            scratch[o.used++] = relative_error(r, seconds[i]);
    }
    plan_errors_of(scratch, o.used, &o.e);
    *out = o;
}

static enum rc by_source(struct arena *a, const struct plan_rows *rows, double *scratch,
                         struct plan_time_report *out, struct err *err)
{
    const char *names[PLAN_SOURCES_MAX];
    size_t count = 0;
    enum rc rc = plan_rows_sources(rows, names, &count, err);

    if (rc != RC_OK)
        return rc;
    out->sources = arena_array(a, struct plan_time_source, count + 1);
    for (size_t s = 0; s <= count; s++)
        one_source(rows, out->seconds, s < count ? names[s] : NULL, scratch, &out->sources[s]);
    out->source_count = count + 1;
    return RC_OK;
}

/* ---- by model and number of GPUs ---- */
struct ranked {
    double got, want, rank_got, rank_want;
};

static int by_got(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    return (x->got > y->got) - (x->got < y->got);
}

static int by_want(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    return (x->want > y->want) - (x->want < y->want);
}

/* Spearman's: the correlation of ranks, equal values sharing the mean of theirs. */
static double rank_correlation(struct ranked *v, size_t n)
{
    double xx = 0, yy = 0, xy = 0, mean = ((double)n - 1) / 2;

    qsort(v, n, sizeof(*v), by_got);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i; j < n && v[j].got == v[i].got; j++)
            ;
        for (size_t k = i; k < j; k++)
            v[k].rank_got = ((double)i + (double)j - 1) / 2;
    }
    qsort(v, n, sizeof(*v), by_want);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i; j < n && v[j].want == v[i].want; j++)
            ;
        for (size_t k = i; k < j; k++)
            v[k].rank_want = ((double)i + (double)j - 1) / 2;
    }
    for (size_t i = 0; i < n; i++) {
        double x = v[i].rank_got - mean, y = v[i].rank_want - mean;

        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

static bool same_cell(const struct plan_row *a, const struct plan_row *b)
{
    return a->model.hidden == b->model.hidden && a->model.layers == b->model.layers &&
           a->model.kv_heads == b->model.kv_heads && a->cluster.gpus == b->cluster.gpus &&
           a->global_batch == b->global_batch && a->config.seq == b->config.seq &&
           str_eq(a->source, b->source) && str_eq(a->cluster.gpu.alias, b->cluster.gpu.alias);
}

enum { CELL_MIN = 5 }; /* rows below which a rank says nothing */

static void by_cell(struct arena *a, const struct plan_rows *rows, struct plan_time_report *out)
{
    struct ranked *v = arena_array(a, struct ranked, rows->count ? rows->count : 1);
    bool *done = arena_array(a, bool, rows->count ? rows->count : 1);

    out->cells = arena_array(a, struct plan_cell, rows->count / CELL_MIN + 1);
    for (size_t i = 0; i < rows->count; i++) {
        const struct plan_row *first = &rows->rows[i];
        struct plan_cell c = { .model = first->name,
                               .gpus = first->cluster.gpus,
                               .batch = first->global_batch };
        double best = 0, chosen = 0, least = 0;

        for (size_t j = i; !done[i] && j < rows->count; j++) {
            const struct plan_row *r = &rows->rows[j];

            if (done[j] || !(out->seconds[j] > 0) || r->exclude & PLAN_R1_NOT_CLEAN ||
                !same_cell(first, r))
                continue;
            done[j] = j > i;
            v[c.rows++] = (struct ranked){ .got = out->seconds[j], .want = r->measured.iter_s };
            if (!(best > 0) || r->measured.iter_s < best)
                best = r->measured.iter_s;
            if (!(least > 0) || out->seconds[j] < least) {
                least = out->seconds[j];
                chosen = r->measured.iter_s;
            }
        }
        if (c.rows < CELL_MIN)
            continue;
        c.rank = rank_correlation(v, c.rows);
        c.first = best / chosen;
        out->cells[out->cell_count++] = c;
    }
}

/* ---- a source left out ---- */
static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static enum rc left_out(struct arena *a, const struct plan_rows *rows,
                        const struct plan_const_table *t, double *scratch,
                        struct plan_time_report *out, struct err *err)
{
    double mapes[PLAN_SETS_FITTED], *seconds = arena_array(a, double, rows->count + 1);

    out->unseen = arena_memdup(a, out->seconds, (rows->count + 1) * sizeof(double));

    for (int s = 0; s < PLAN_SETS_FITTED; s++) {
        /* fitted on all of a source, judged on what its line of the table is about */
        enum plan_set judge = s == PLAN_SET_HF_CLEAN ? PLAN_SET_HF_CLEAN8 : (enum plan_set)s;
        struct plan_const_table mine = { arena_memdup(a, t->rows, t->count * sizeof(*t->rows)),
                                         t->count };
        struct plan_fit_report report;
        struct plan_consts_all k;
        enum rc rc;

        if (!out->sets[s].e.n)
            continue;
        rc = plan_fit(a, rows, plan_sets[s].kind, (enum plan_set)s, &mine, &report, err);
        if (rc == RC_LIMIT)
            continue; /* nothing is left to fit to */
        if (rc)
            return rc;
        plan_consts_each(&mine, &k);
        for (size_t i = 0; i < rows->count; i++) {
            row_error(&rows->rows[i], &k, &seconds[i]);
            if (plan_set_has((enum plan_set)s, &rows->rows[i]))
                out->unseen[i] = seconds[i];
        }
        set_errors(rows, seconds, judge, scratch, &out->sets[s].left_out);
        mapes[out->left_n++] = out->sets[s].left_out.mape;
    }
    qsort(mapes, out->left_n, sizeof(mapes[0]), by_value);
    if (out->left_n) {
        out->left_median = (mapes[(out->left_n - 1) / 2] + mapes[out->left_n / 2]) / 2;
        out->left_worst = mapes[out->left_n - 1];
    }
    return RC_OK;
}

enum rc plan_validate_time(struct arena *a, const struct plan_rows *rows,
                           const struct plan_const_table *t, bool leave_out,
                           struct plan_time_report *out, struct err *err)
{
    double *scratch = arena_array(a, double, rows->count + 1);
    struct plan_time_report r = { .seconds = arena_array(a, double, rows->count + 1) };
    struct plan_consts_all k;
    enum rc rc;

    plan_consts_each(t, &k);
    for (size_t i = 0; i < rows->count; i++)
        if (!row_error(&rows->rows[i], &k, &r.seconds[i]))
            r.seconds[i] = 0;
    for (int s = 0; s < PLAN_SETS; s++)
        set_errors(rows, r.seconds, (enum plan_set)s, scratch, &r.sets[s].e);
    rc = by_source(a, rows, scratch, &r, err);
    if (rc == RC_OK)
        by_cell(a, rows, &r);
    if (rc == RC_OK && leave_out)
        rc = left_out(a, rows, t, scratch, &r, err);
    *out = r;
    return rc;
}
