/* SPDX-License-Identifier: MIT */
/* fit: the free constants of a kind of GPU from published runs.
 *
 * The unknowns are logarithms of a constant over its start value.  The loss is the mean absolute
 * logarithm of predicted over measured time, smoothed near 0, each set weighing as the square root
 * of its rows, with a prior around the start values.  It is lowered by Levenberg-Marquardt on a
 * reweighted square.  Everything is in the order of rows and of constants and in one thread, so
 * that the same table gives the same bytes. */
#include "plan/runs.h"
#include "plan/time/step_time_int.h"
#include "plan/validate/validate_int.h"

#include "base/str.h"

#include <math.h>

#define SMOOTH 0.02   /* below this error the loss is a square */
#define PRIOR  0.0005 /* weight of the prior */
#define NUDGE  1e-4   /* of a forward difference */
#define STRIDE 0.5    /* the most a step moves a logarithm */
enum { STEPS_MAX = 25, TRIES_MAX = 8 };

struct fit_row {
    const struct plan_row *row;
    struct plan_config config;
    double log_seconds, weight;
};

struct fit {
    struct fit_row *rows;
    size_t count;
    struct plan_consts base;
    size_t free[PLAN_FREE_MAX]; /* rows of the table of constants */
    size_t n;
    const struct plan_const_table *table;
    double x[PLAN_FREE_MAX], *res, *trial, *jac; /* jac: row by row, n columns */
};

static void consts_at(const struct fit *f, const double *x, struct plan_consts *k)
{
    *k = f->base;
    for (size_t j = 0; j < f->n; j++) {
        const struct plan_const_row *r = &f->table->rows[f->free[j]];

        k->c[r->which] = r->start * exp(x[j]);
    }
}

static void fit_residuals(const struct fit *f, const double *x, double *out)
{
    struct plan_consts k;

    consts_at(f, x, &k);
    for (size_t i = 0; i < f->count; i++) {
        const struct fit_row *r = &f->rows[i];
        double t = plan_seconds(&r->row->model, &r->row->cluster, &r->config, &k);

        out[i] = log(fmax(t, 1e-9)) - r->log_seconds;
    }
}

static double loss_of(const struct fit *f, const double *x, const double *res)
{
    double loss = 0, prior = 0;

    for (size_t i = 0; i < f->count; i++)
        loss += f->rows[i].weight * (sqrt(res[i] * res[i] + SMOOTH * SMOOTH) - SMOOTH);
    for (size_t j = 0; j < f->n; j++) {
        double w = f->table->rows[f->free[j]].width;

        prior += x[j] / w * (x[j] / w);
    }
    return loss + PRIOR / 2 * prior;
}

/* A x = b for a symmetric A above 0, by Cholesky in place; false: A is not. */
static bool solve_linear(size_t n, double a[PLAN_FREE_MAX][PLAN_FREE_MAX], double *b)
{
    for (size_t j = 0; j < n; j++) {
        for (size_t k = 0; k < j; k++)
            a[j][j] -= a[j][k] * a[j][k];
        if (!(a[j][j] > 0))
            return false;
        a[j][j] = sqrt(a[j][j]);
        for (size_t i = j + 1; i < n; i++) {
            for (size_t k = 0; k < j; k++)
                a[i][j] -= a[i][k] * a[j][k];
            a[i][j] /= a[j][j];
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    for (size_t i = n; i-- > 0;) {
        for (size_t k = i + 1; k < n; k++)
            b[i] -= a[k][i] * b[k];
        b[i] /= a[i][i];
    }
    return true;
}

/* The reweighted square at x: A and the gradient. */
static void normal_equations(struct fit *f, double a[PLAN_FREE_MAX][PLAN_FREE_MAX], double *g)
{
    double x[PLAN_FREE_MAX];

    memcpy(x, f->x, sizeof(x));
    for (size_t j = 0; j < f->n; j++) {
        x[j] += NUDGE;
        fit_residuals(f, x, f->trial);
        x[j] = f->x[j];
        for (size_t i = 0; i < f->count; i++)
            f->jac[i * f->n + j] = (f->trial[i] - f->res[i]) / NUDGE;
    }
    memset(g, 0, f->n * sizeof(*g));
    for (size_t j = 0; j < f->n; j++)
        memset(a[j], 0, f->n * sizeof(a[j][0]));
    for (size_t i = 0; i < f->count; i++) {
        const double *row = &f->jac[i * f->n];
        double r = f->res[i], w = f->rows[i].weight / sqrt(r * r + SMOOTH * SMOOTH);

        for (size_t j = 0; j < f->n; j++) {
            g[j] += w * row[j] * r;
            for (size_t k = 0; k < f->n; k++)
                a[j][k] += w * row[j] * row[k];
        }
    }
    for (size_t j = 0; j < f->n; j++) {
        double w = f->table->rows[f->free[j]].width;

        a[j][j] += PRIOR / (w * w);
        g[j] += PRIOR * f->x[j] / (w * w);
    }
}

/* One step; returns how much the loss fell, 0: no try helped. */
static double one_step(struct fit *f, double *loss, double *lambda)
{
    double a[PLAN_FREE_MAX][PLAN_FREE_MAX], g[PLAN_FREE_MAX];

    normal_equations(f, a, g);
    for (int i = 0; i < TRIES_MAX; i++) {
        double damped[PLAN_FREE_MAX][PLAN_FREE_MAX], s[PLAN_FREE_MAX], x[PLAN_FREE_MAX], now;

        memcpy(damped, a, sizeof(damped));
        for (size_t j = 0; j < f->n; j++) {
            damped[j][j] *= 1 + *lambda;
            s[j] = -g[j];
        }
        if (solve_linear(f->n, damped, s)) {
            for (size_t j = 0; j < f->n; j++)
                x[j] = f->x[j] + fmin(fmax(s[j], -STRIDE), STRIDE);
            fit_residuals(f, x, f->trial);
            now = loss_of(f, x, f->trial);
            if (now < *loss) {
                double gain = *loss - now, *t = f->res;

                memcpy(f->x, x, f->n * sizeof(*x));
                f->res = f->trial;
                f->trial = t;
                *loss = now;
                *lambda = fmax(*lambda / 5, 1e-6);
                return gain;
            }
        }
        *lambda *= 4;
    }
    return 0;
}

static void fit_minimise(struct fit *f, struct plan_fit_report *report)
{
    double loss, lambda = 1e-2;

    memset(f->x, 0, sizeof(f->x));
    fit_residuals(f, f->x, f->res);
    loss = report->loss_start = loss_of(f, f->x, f->res);
    report->steps = 0;
    for (int i = 0; i < STEPS_MAX && f->n && f->count; i++) {
        double gain = one_step(f, &loss, &lambda);

        report->steps += gain > 0;
        if (gain < 1e-5 * loss)
            break;
    }
    report->loss = loss;
}

/* ---- rows and weights ---- */

/* Rows of the kind's sets; with `open` also those whose micro-batch has to be chosen. */
static void fit_collect(struct fit *f, const struct plan_rows *rows, enum plan_set without,
                        bool open)
{
    double sum = 0;

    f->count = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const struct plan_row *r = &rows->rows[i];
        enum plan_set set = PLAN_SET_KORTHIKANTI;

        if (r->missing & PLAN_NO_MICRO_BATCH && !open)
            continue;
        while (
            set < PLAN_SETS_FITTED &&
            (set == without || !str_eq(plan_sets[set].kind, f->base.kind) || !plan_set_has(set, r)))
            set++;
        if (set < PLAN_SETS_FITTED)
            f->rows[f->count++] = (struct fit_row){ .row = r,
                                                    .config = r->config,
                                                    .log_seconds = log(r->measured.iter_s) };
    }
    for (int set = 0; set < PLAN_SETS_FITTED; set++) {
        size_t n = 0;

        for (size_t i = 0; i < f->count; i++)
            n += plan_set_has((enum plan_set)set, f->rows[i].row);
        for (size_t i = 0; i < f->count; i++)
            if (plan_set_has((enum plan_set)set, f->rows[i].row))
                f->rows[i].weight = 1 / sqrt((double)n);
    }
    for (size_t i = 0; i < f->count; i++)
        sum += f->rows[i].weight;
    for (size_t i = 0; i < f->count; i++)
        f->rows[i].weight /= sum;
}

static enum rc fit_prepare(struct fit *f, struct arena *a, const struct plan_rows *rows,
                           const char *kind, const struct plan_const_table *t, struct err *err)
{
    size_t n = rows->count ? rows->count : 1;

    *f = (struct fit){ .table = t,
                       .rows = arena_array(a, struct fit_row, n),
                       .res = arena_array(a, double, n),
                       .trial = arena_array(a, double, n),
                       .jac = arena_array(a, double, n *PLAN_FREE_MAX) };
    plan_consts_of(t, kind, &f->base);
    for (size_t i = 0; i < t->count; i++) {
        if (!str_eq(t->rows[i].kind, kind) || !t->rows[i].free)
            continue;
        if (f->n == PLAN_FREE_MAX)
            return err_set(err, RC_LIMIT, "kind '%s' has more than %d free constants", kind,
                           PLAN_FREE_MAX);
        f->free[f->n++] = i;
    }
    return RC_OK;
}

enum rc plan_fit(struct arena *a, const struct plan_rows *rows, const char *kind,
                 enum plan_set without, struct plan_const_table *t, struct plan_fit_report *report,
                 struct err *err)
{
    struct plan_fit_report ignored;
    struct plan_consts k;
    struct fit f;
    bool open = false;
    enum rc rc = fit_prepare(&f, a, rows, kind, t, err);

    if (rc)
        return rc;
    *report = (struct plan_fit_report){ .kind = kind, .free = f.n };
    fit_collect(&f, rows, without, false);
    if (!f.count)
        return err_set(err, RC_LIMIT, "no rows of a kind that the constants of '%s' are fitted to",
                       kind);
    fit_minimise(&f, report);
    /* rows without a micro-batch get the best one under these constants, then all are fitted */
    consts_at(&f, f.x, &k);
    fit_collect(&f, rows, without, true);
    for (size_t i = 0; i < f.count; i++)
        if (f.rows[i].row->missing & PLAN_NO_MICRO_BATCH) {
            plan_row_seconds(f.rows[i].row, &k, &f.rows[i].config);
            open = true;
        }
    if (open) {
        ignored = *report;
        fit_minimise(&f, report);
        report->steps += ignored.steps;
    }
    report->rows = f.count;
    for (size_t j = 0; j < f.n; j++) {
        struct plan_const_row *r = &t->rows[f.free[j]];

        r->value = r->start * exp(f.x[j]);
    }
    return RC_OK;
}

/* ---- the file ---- */
static void add_cell(struct buf *out, const char *s)
{
    if (!strpbrk(s, ",\"\n")) {
        buf_adds(out, s);
        return;
    }
    buf_addc(out, '"');
    for (; *s; s++) {
        if (*s == '"')
            buf_addc(out, '"');
        buf_addc(out, *s);
    }
    buf_addc(out, '"');
}

void plan_consts_write(const struct plan_const_table *t, struct buf *out)
{
    buf_adds(out, "kind,name,value,free,start,width,meaning,source\n");
    for (size_t i = 0; i < t->count; i++) {
        const struct plan_const_row *r = &t->rows[i];

        add_cell(out, r->kind);
        buf_addf(out, ",%s,%.6g,%s,%.6g,%.6g,", plan_const_name(r), r->value,
                 r->free ? "yes" : "no", r->start, r->width);
        add_cell(out, r->meaning);
        buf_addc(out, ',');
        add_cell(out, r->source);
        buf_addc(out, '\n');
    }
}
