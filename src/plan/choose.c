/* SPDX-License-Identifier: MIT */
/* choose: see choose.h. */
#include "plan/choose.h"

#include "base/str.h"
#include "plan/plan_int.h"

#include <math.h>

static double fastest_under(const struct plan_candidate *c, size_t n, double bytes)
{
    double best = INFINITY;

    for (size_t i = 0; i < n; i++)
        if (c[i].step_s > 0 && c[i].bytes <= bytes && c[i].step_s < best)
            best = c[i].step_s;
    return best;
}

/* Of those as fast as `step_s` the emptiest; of those alike the first. */
static size_t emptiest(const struct plan_candidate *c, size_t n, double step_s, double bytes)
{
    size_t best = n;

    for (size_t i = 0; i < n; i++)
        if (c[i].step_s > 0 && c[i].step_s <= step_s && c[i].bytes <= bytes &&
            (best == n || c[i].bytes < c[best].bytes))
            best = i;
    return best;
}

size_t plan_choose_first(const struct plan_candidate *c, size_t n, const struct plan_choice *rule)
{
    double bytes = rule->limit * (1 - rule->margin), fastest = fastest_under(c, n, bytes);

    if (isfinite(fastest))
        return emptiest(c, n, fastest * (1 + rule->tie), bytes);
    return emptiest(c, n, INFINITY, rule->limit);
}

/* ---- the rule against what was measured ---- */
static bool same_cell(const struct plan_row *a, const struct plan_row *b)
{
    const struct plan_model *x = &a->model, *y = &b->model;

    return str_eq(a->source, b->source) && x->layers == y->layers && x->hidden == y->hidden &&
           x->kv_heads == y->kv_heads && x->ffn == y->ffn && x->vocab == y->vocab &&
           a->cluster.gpus == b->cluster.gpus && a->global_batch == b->global_batch &&
           a->config.seq == b->config.seq && str_eq(a->cluster.gpu.name, b->cluster.gpu.name);
}

struct cell {
    struct plan_candidate *candidates;
    const struct plan_row **rows;
    size_t count;
};

static void gather(const struct plan_rows *rows, const double *step_s, size_t from, bool *seen,
                   const struct plan_memory_consts *k, struct cell *o)
{
    o->count = 0;
    for (size_t i = from; i < rows->count; i++) {
        const struct plan_row *r = &rows->rows[i];
        struct plan_memory m;

        if (seen[i] || !(step_s[i] > 0) || !same_cell(&rows->rows[from], r))
            continue;
        seen[i] = true;
        plan_memory_of(&r->model, &r->counts, &r->config, k, &m);
        o->rows[o->count] = r;
        o->candidates[o->count++] = (struct plan_candidate){ step_s[i], (double)m.total };
    }
}

/* False: nothing of the cell ran, or nothing can be chosen. */
static bool cell_ratio(const struct cell *o, const struct plan_choice *rule, double *out)
{
    double best = INFINITY;
    size_t first = plan_choose_first(o->candidates, o->count, rule);

    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i]->measured.iter_s > 0 && o->rows[i]->measured.iter_s < best)
            best = o->rows[i]->measured.iter_s;
    if (!isfinite(best))
        return false;
    if (first == o->count || !(o->rows[first]->measured.iter_s > 0))
        *out = 0;
    else
        *out = best / o->rows[first]->measured.iter_s;
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void sum_up(double *ratio, size_t n, struct plan_top1 *out)
{
    struct plan_top1 o = { .cells = n };

    if (n) {
        qsort(ratio, n, sizeof(*ratio), by_value);
        for (size_t i = 0; i < n; i++) {
            o.mean += ratio[i] / (double)n;
            o.crashed += !(ratio[i] > 0);
        }
        o.median = (ratio[(n - 1) / 2] + ratio[n / 2]) / 2;
        o.worst = ratio[0];
    }
    *out = o;
}

enum rc plan_top1_of(struct arena *a, const struct plan_rows *rows, const double *step_s,
                     const struct plan_memory_consts *k, const struct plan_choice *rule,
                     struct plan_top1 *out, struct err *err)
{
    size_t n = rows->count ? rows->count : 1, cells = 0;
    struct cell o = { .candidates = arena_array(a, struct plan_candidate, n),
                      .rows = arena_array(a, const struct plan_row *, n) };
    bool *seen = arena_array(a, bool, n);
    double ratio[PLAN_CELLS_MAX];

    for (size_t i = 0; i < rows->count; i++) {
        struct plan_choice here = *rule;

        if (seen[i] || !(step_s[i] > 0))
            continue;
        if (cells == PLAN_CELLS_MAX)
            return err_set(err, RC_LIMIT, "more than %d cells", PLAN_CELLS_MAX);
        gather(rows, step_s, i, seen, k, &o);
        if (!(here.limit > 0))
            here.limit = (double)rows->rows[i].cluster.gpu.mem_bytes;
        if (cell_ratio(&o, &here, &ratio[cells]))
            cells++;
    }
    sum_up(ratio, cells, out);
    return RC_OK;
}
