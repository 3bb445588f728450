/* SPDX-License-Identifier: MIT */
/* top1: the cells of top1.h.  Every run of a cell is predicted, plan_choice() takes one of them as
 * it would in a search, and its measured speed is held against the best measured one. */
#include "plan/top1.h"

#include "base/str.h"
#include "plan/plan_int.h"
#include "plan/search/search_int.h"
#include "plan/validate/validate_int.h"

#include <math.h>

static bool same_cell(const struct plan_row *a, const struct plan_row *b)
{
    const struct plan_model *x = &a->model, *y = &b->model;

    return str_eq(a->source, b->source) && x->layers == y->layers && x->hidden == y->hidden &&
           x->kv_heads == y->kv_heads && x->ffn == y->ffn && x->vocab == y->vocab &&
           a->cluster.gpus == b->cluster.gpus && a->global_batch == b->global_batch &&
           a->config.seq == b->config.seq && str_eq(a->cluster.gpu.name, b->cluster.gpu.name);
}

struct top1_cell {
    struct plan_pick *picks;
    const struct plan_row **rows;
    size_t count;
};

static void cell_gather(const struct plan_rows *rows, const double *step_s, size_t from, bool *seen,
                        struct top1_cell *o)
{
    o->count = 0;
    for (size_t i = from; i < rows->count; i++) {
        const struct plan_row *r = &rows->rows[i];
        struct plan_memory m;

        if (seen[i] || !(step_s[i] > 0) || !same_cell(&rows->rows[from], r))
            continue;
        seen[i] = true;
        plan_memory_of(&r->model, &r->counts, &r->config, &plan_memory_default, &m);
        o->rows[o->count] = r;
        o->picks[o->count++] = (struct plan_pick){ r->config, step_s[i], m.total };
    }
}

/* What the search would take of these; where none leaves the margin free, the emptiest. */
static struct plan_pick first_choice(const struct top1_cell *o)
{
    const struct plan_cluster *cl = &o->rows[0]->cluster;
    uint64_t limit = (uint64_t)((double)cl->gpu.mem_bytes * (1 - PLAN_CHOICE_MARGIN));
    struct plan_found f = { .least = { .memory = UINT64_MAX } };
    const struct plan_pick *choice;

    for (size_t i = 0; i < o->count; i++) {
        const struct plan_pick *p = &o->picks[i];

        if (pick_is_leaner(p, &f.least))
            f.least = *p;
        if (p->memory <= limit)
            found_offer_plain(&f, p, plan_plainness(&p->config, cl));
    }
    choice = plan_choice(&f);
    return choice ? *choice : f.least;
}

/* False: nothing of the cell ran. */
static bool cell_ratio(const struct top1_cell *o, double *out)
{
    struct plan_pick choice = first_choice(o);
    double best = INFINITY;
    size_t first = 0;

    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i]->measured.iter_s > 0 && o->rows[i]->measured.iter_s < best)
            best = o->rows[i]->measured.iter_s;
    if (!isfinite(best))
        return false;
    while (plan_pick_cmp(&o->picks[first], &choice))
        first++;
    *out = o->rows[first]->measured.iter_s > 0 ? best / o->rows[first]->measured.iter_s : 0;
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

static bool takes_part(const struct plan_row *r, enum plan_top1_set set)
{
    const unsigned needs = PLAN_NO_SHAPE | PLAN_BAD_MODEL | PLAN_NO_CUT | PLAN_BAD_CONFIG |
                           PLAN_NO_MICRO_BATCH | PLAN_NO_GPU | PLAN_NO_BATCH;

    if ((r->missing & needs) || (r->exclude & (PLAN_R2_PP_LAYERS | PLAN_R6_GPUS)) ||
        !str_starts(r->source, "HF Ultra-Scale"))
        return false;
    return set == PLAN_TOP1_CLEAN ? !(r->exclude & PLAN_R1_NOT_CLEAN) : r->cluster.gpus <= 256;
}

static void rows_predict(const struct plan_rows *rows, const struct plan_consts_all *k,
                         enum plan_top1_set set, double *step_s)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct plan_row *r = &rows->rows[i];
        const struct plan_consts *own;
        struct plan_time t;

        step_s[i] = 0;
        if (!takes_part(r, set) || !(own = plan_consts_for(k, &r->cluster.gpu)))
            continue;
        plan_time_of(&r->model, &r->counts, &r->cluster, &r->config, own, &t);
        step_s[i] = t.step_s;
    }
}

enum rc plan_top1_of(struct arena *a, const struct plan_rows *rows, const struct plan_consts_all *k,
                     enum plan_top1_set set, struct plan_top1 *out, struct err *err)
{
    size_t n = rows->count ? rows->count : 1, cells = 0;
    struct top1_cell o = { .picks = arena_array(a, struct plan_pick, n),
                           .rows = arena_array(a, const struct plan_row *, n) };
    double ratio[PLAN_CELLS_MAX], *step_s = arena_array(a, double, n);
    bool *seen = arena_array(a, bool, n);

    rows_predict(rows, k, set, step_s);
    for (size_t i = 0; i < rows->count; i++) {
        if (seen[i] || !(step_s[i] > 0))
            continue;
        if (cells == PLAN_CELLS_MAX)
            return err_set(err, RC_LIMIT, "more than %d cells", PLAN_CELLS_MAX);
        cell_gather(rows, step_s, i, seen, &o);
        if (cell_ratio(&o, &ratio[cells]))
            cells++;
    }
    sum_up(ratio, cells, out);
    return RC_OK;
}
