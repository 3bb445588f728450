/* SPDX-License-Identifier: MIT */
/* plan_validate_time: what `stoker plan validate` prints of the time model. */
#include "base/str.h"
#include "cmd/plan/plan_cmd_int.h"
#include "os/file.h"

enum { PICTURE_WIDTH = 66, PICTURE_HEIGHT = 20, CELLS_SHOWN = 40 };

static void cell_percent(struct table *t, double v, double limit, bool known)
{
    if (!known)
        table_cell(t, COLOUR_DIM, "-");
    else
        table_cell(t, limit > 0 && v > limit ? COLOUR_YELLOW : COLOUR_NONE, "%.2f %%", 100 * v);
}

static void print_sets(struct cmd_ctx *ctx, const struct plan_time_report *r)
{
    static const char *const titles[] = { "time of a step", "rows", "mean",    "median",
                                          "signed",         "p90",  "at most", "left out" };
    struct table *t = table_new();

    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_col(t, titles[i], i ? TABLE_RIGHT | TABLE_WHOLE : TABLE_LEFT);
    for (int s = 0; s < PLAN_SETS; s++) {
        const struct plan_set_info *info = &plan_sets[s];
        const struct plan_errors *e = &r->sets[s].e;

        if (!e->n)
            continue;
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", info->title);
        table_cell(t, COLOUR_NONE, "%zu", e->n);
        cell_percent(t, e->mape, info->median ? 0 : info->limit, true);
        cell_percent(t, e->median, info->median ? info->limit : 0, true);
        table_cell(t, COLOUR_NONE, "%+.2f %%", 100 * e->mean);
        cell_percent(t, e->p90, 0, true);
        if (info->limit > 0)
            table_cell(t, COLOUR_NONE, "%.1f %%%s", 100 * info->limit,
                       info->median ? " median" : "");
        else
            table_cell(t, COLOUR_DIM, "-");
        cell_percent(t, r->sets[s].left_out.mape, 0, r->sets[s].left_out.n > 0);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    if (r->left_n)
        buf_addf(&ctx->out, "A source left out of the fit: median %.1f %%, worst %.1f %% of %zu.\n",
                 100 * r->left_median, 100 * r->left_worst, r->left_n);
}

static void print_sources(struct cmd_ctx *ctx, const struct plan_time_report *r)
{
    static const char *const titles[] = { "source", "rows", "used", "mean", "median", "signed" };
    struct table *t = table_new();

    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_col(t, titles[i], i ? TABLE_RIGHT | TABLE_WHOLE : TABLE_LEFT | TABLE_SHRINK);
    for (size_t i = 0; i < r->source_count; i++) {
        const struct plan_time_source *s = &r->sources[i];

        table_row(t);
        table_cell(t, i + 1 == r->source_count ? COLOUR_BOLD : COLOUR_NONE, "%s", s->source);
        table_cell(t, COLOUR_NONE, "%zu", s->rows);
        table_cell(t, COLOUR_NONE, "%zu", s->used);
        cell_percent(t, s->e.mape, 0, s->used > 0);
        cell_percent(t, s->e.median, 0, s->used > 0);
        if (s->used)
            table_cell(t, COLOUR_NONE, "%+.2f %%", 100 * s->e.mean);
        else
            table_cell(t, COLOUR_DIM, "-");
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    buf_adds(&ctx->out, "Rows without a figure of time, by the first reason:\n");
    for (size_t i = 0; i < r->source_count; i++) {
        const struct plan_time_source *s = &r->sources[i];

        for (size_t k = 0; k < s->reasons; k++)
            buf_addf(&ctx->out, "%s%s%s%zu %s", k ? "" : "  ", k ? "" : s->source, k ? ", " : ": ",
                     s->skipped[k], s->reason[k]);
        if (s->reasons)
            buf_addc(&ctx->out, '\n');
    }
}

static void print_cells(struct cmd_ctx *ctx, const struct plan_time_report *r)
{
    static const char *const titles[] = { "model", "GPUs", "batch", "rows", "rank", "first" };
    struct table *t = table_new();

    if (r->cell_count) {
        for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
            table_col(t, titles[i], i ? TABLE_RIGHT | TABLE_WHOLE : TABLE_LEFT | TABLE_SHRINK);
        for (size_t i = 0; i < r->cell_count && i < CELLS_SHOWN; i++) {
            const struct plan_cell *c = &r->cells[i];

            table_row(t);
            table_cell(t, COLOUR_NONE, "%s", c->model);
            table_cell(t, COLOUR_NONE, "%lld", (long long)c->gpus);
            table_cell(t, COLOUR_NONE, "%lld", (long long)c->batch);
            table_cell(t, COLOUR_NONE, "%zu", c->rows);
            table_cell(t, COLOUR_NONE, "%.3f", c->rank);
            table_cell(t, COLOUR_NONE, "%.3f", c->first);
        }
        buf_addc(&ctx->out, '\n');
        table_print(t, &ctx->out_term, 0, &ctx->out);
        if (r->cell_count > CELLS_SHOWN)
            buf_addf(&ctx->out, "... and %zu more (--json has them all)\n",
                     r->cell_count - CELLS_SHOWN);
        buf_adds(&ctx->out, "rank: Spearman's correlation of predicted with measured time; first: "
                            "measured speed of the row predicted fastest over the best.\n");
    }
    table_free(t);
}

void plan_print_time(struct cmd_ctx *ctx, const struct plan_rows *rows,
                     const struct plan_time_report *r)
{
    buf_addc(&ctx->out, '\n');
    print_sets(ctx, r);
    print_sources(ctx, r);
    print_cells(ctx, r);
    buf_addc(&ctx->out, '\n');
    plan_scatter_text(rows, r, PICTURE_WIDTH, PICTURE_HEIGHT, &ctx->out);
}

static void result(struct buf *out, const char *name, const char *measure, double v, double limit,
                   size_t n)
{
    if (n)
        buf_addf(out, "RESULT plan.%s.%s %.4g %% <=%.4g %s n=%zu\n", name, measure, 100 * v,
                 100 * limit, v <= limit ? "ok" : "short", n);
}

/* "MegaScale NSDI24 Fig 9" to "megascale-nsdi24-fig-9": the middle of a RESULT's name. */
static void result_source(struct buf *out, const struct plan_time_source *s)
{
    double limit = plan_source_limit(s->source);
    char name[64] = "source.";
    size_t len = strlen(name);

    for (const char *p = s->source; *p && len + 2 < sizeof(name); p++) {
        bool plain = (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') || *p == '.';

        if (*p >= 'A' && *p <= 'Z')
            name[len++] = (char)(*p - 'A' + 'a');
        else if (plain)
            name[len++] = *p;
        else if (name[len - 1] != '-')
            name[len++] = '-';
    }
    name[name[len - 1] == '-' ? len - 1 : len] = 0;
    if (limit > 0)
        result(out, name, "time_mape", s->e.mape, limit, s->used);
    else if (s->used)
        buf_addf(out, "RESULT plan.%s.time_mape %.4g %% n=%zu\n", name, 100 * s->e.mape, s->used);
}

static void results_bands(struct cmd_ctx *ctx, const struct plan_rows *rows,
                          const struct plan_time_report *r, struct buf *csv)
{
    struct plan_bands b;
    struct arena a = { 0 };

    if (!r->unseen)
        return;
    plan_bands_of(&a, rows, r->unseen, &b);
    if (b.sources)
        buf_addf(&ctx->out, "RESULT plan.band.coverage_left_out %.4f >=0.75 %s n=%zu\n", b.coverage,
                 b.coverage >= 0.75 ? "ok" : "short", b.sources);
    plan_bands_write(&b, csv);
    arena_release(&a);
}

void plan_results_time(struct cmd_ctx *ctx, const struct plan_rows *rows,
                       const struct plan_time_report *r, struct buf *bands)
{
    for (int s = 0; s < PLAN_SETS; s++) {
        const struct plan_set_info *info = &plan_sets[s];
        const struct plan_errors *e = &r->sets[s].e;

        if (info->limit > 0)
            result(&ctx->out, info->name, info->median ? "time_median" : "time_mape",
                   info->median ? e->median : e->mape, info->limit, e->n);
    }
    result(&ctx->out, "left-out", "time_median", r->left_median, 0.12, r->left_n);
    result(&ctx->out, "left-out", "time_worst", r->left_worst, 0.25, r->left_n);
    for (size_t i = 0; i + 1 < r->source_count; i++)
        result_source(&ctx->out, &r->sources[i]);
    results_bands(ctx, rows, r, bands);
}

/* ---- JSON ---- */
static void kv_num(struct json_out *w, const char *key, double v)
{
    json_key(w, key);
    json_add_num(w, v);
}

static void json_errors(struct json_out *w, const struct plan_errors *e)
{
    json_kv_int(w, "n", (int64_t)e->n);
    if (!e->n)
        return;
    kv_num(w, "mape", e->mape);
    kv_num(w, "median", e->median);
    kv_num(w, "p90", e->p90);
    kv_num(w, "max", e->max);
    kv_num(w, "mean", e->mean);
}

static void json_sets(struct json_out *w, const struct plan_time_report *r)
{
    json_key(w, "sets");
    json_arr(w);
    for (int s = 0; s < PLAN_SETS; s++) {
        if (!r->sets[s].e.n)
            continue;
        json_obj(w);
        json_kv_str(w, "set", plan_sets[s].name);
        json_errors(w, &r->sets[s].e);
        if (plan_sets[s].limit > 0)
            kv_num(w, plan_sets[s].median ? "limit_median" : "limit_mape", plan_sets[s].limit);
        if (r->sets[s].left_out.n)
            kv_num(w, "left_out_mape", r->sets[s].left_out.mape);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void json_sources(struct json_out *w, const struct plan_time_report *r)
{
    json_key(w, "sources");
    json_arr(w);
    for (size_t i = 0; i < r->source_count; i++) {
        const struct plan_time_source *s = &r->sources[i];

        json_obj(w);
        json_kv_str(w, "source", s->source);
        json_kv_int(w, "rows", (int64_t)s->rows);
        json_errors(w, &s->e);
        json_key(w, "skipped");
        json_obj(w);
        for (size_t k = 0; k < s->reasons; k++)
            json_kv_int(w, s->reason[k], (int64_t)s->skipped[k]);
        json_obj_end(w);
        json_obj_end(w);
    }
    json_arr_end(w);
}

void plan_json_time(struct json_out *w, const struct plan_time_report *r)
{
    json_key(w, "time");
    json_obj(w);
    json_sets(w, r);
    json_sources(w, r);
    json_key(w, "cells");
    json_arr(w);
    for (size_t i = 0; i < r->cell_count; i++) {
        const struct plan_cell *c = &r->cells[i];

        json_obj(w);
        json_kv_str(w, "model", c->model);
        json_kv_int(w, "gpus", c->gpus);
        json_kv_int(w, "batch", c->batch);
        json_kv_int(w, "rows", (int64_t)c->rows);
        kv_num(w, "rank", c->rank);
        kv_num(w, "first", c->first);
        json_obj_end(w);
    }
    json_arr_end(w);
    if (r->left_n) {
        json_key(w, "left_out");
        json_obj(w);
        json_kv_int(w, "n", (int64_t)r->left_n);
        kv_num(w, "median", r->left_median);
        kv_num(w, "worst", r->left_worst);
        json_obj_end(w);
    }
    json_obj_end(w);
}

enum rc plan_write_text(const struct buf *text, const char *path, struct err *err)
{
    struct file_new f;
    enum rc rc = file_new_open(&f, path, err);

    if (rc == RC_OK)
        rc = file_new_close(&f, file_write(f.fd, path, buf_str(text), text->len, err), err);
    return rc;
}

enum rc plan_write_picture(struct cmd_ctx *ctx, const struct plan_rows *rows,
                           const struct plan_time_report *r, const char *path, struct err *err)
{
    struct buf text = { 0 };
    enum rc rc;

    if (str_eq(path, "-")) {
        plan_scatter_svg(rows, r, &ctx->out);
        return RC_OK;
    }
    plan_scatter_svg(rows, r, &text);
    rc = plan_write_text(&text, path, err);
    buf_release(&text);
    return rc;
}
