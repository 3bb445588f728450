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

#define S struct plan_cell
static const struct field cell_fields[] = {
    FIELD_OF("model", S, model, "that was trained", .title = "model", .flags = TABLE_SHRINK),
    FIELD_OF("gpus", S, gpus, "GPUs of the runs", .title = "GPUs", .flags = TABLE_WHOLE),
    FIELD_OF("batch", S, batch, "sequences in a step", .title = "batch", .flags = TABLE_WHOLE),
    FIELD_OF("rows", S, rows, "runs", .title = "rows", .flags = TABLE_WHOLE),
    FIELD_OF("rank", S, rank, "Spearman's, predicted against measured time", .title = "rank",
             .fmt = "%.3f", .flags = TABLE_WHOLE),
    FIELD_OF("first", S, first, "measured speed of the row predicted fastest over the best",
             .title = "first", .fmt = "%.3f", .flags = TABLE_WHOLE),
};
static FIELD_TABLE(cell_table, "cell", S, cell_fields);
#undef S

static void print_cells(struct cmd_ctx *ctx, const struct plan_time_report *r)
{
    size_t n = r->cell_count < CELLS_SHOWN ? r->cell_count : CELLS_SHOWN;

    if (!n)
        return;
    buf_addc(&ctx->out, '\n');
    fields_print(&ctx->out, &ctx->out_term, &cell_table, r->cells, n, -1);
    if (r->cell_count > n)
        buf_addf(&ctx->out, "... and %zu more (--json has them all)\n", r->cell_count - n);
    buf_adds(&ctx->out, "rank: Spearman's correlation of predicted with measured time; first: "
                        "measured speed of the row predicted fastest over the best.\n");
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

static void print_result(struct buf *out, const char *name, const char *measure, double v,
                         double limit, size_t n)
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
        print_result(out, name, "time_mape", s->e.mape, limit, s->used);
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
            print_result(&ctx->out, info->name, info->median ? "time_median" : "time_mape",
                         info->median ? e->median : e->mape, info->limit, e->n);
    }
    print_result(&ctx->out, "left-out", "time_median", r->left_median, 0.12, r->left_n);
    print_result(&ctx->out, "left-out", "time_worst", r->left_worst, 0.25, r->left_n);
    for (size_t i = 0; i + 1 < r->source_count; i++)
        result_source(&ctx->out, &r->sources[i]);
    results_bands(ctx, rows, r, bands);
}

/* ---- JSON ---- */
#define S struct plan_errors
static const struct field mean_fields[] = {
    FIELD_OF("mape", S, mape, "mean of the absolute errors"),
    FIELD_OF("median", S, median, "their median"),
    FIELD_OF("p90", S, p90, "nine of ten are below it"),
    FIELD_OF("max", S, max, "the largest"),
    FIELD_OF("mean", S, mean, "with its sign: above 0 too much is predicted"),
};
static FIELD_TABLE(mean_table, "means", S, mean_fields);

static void json_means(struct json_out *w, const void *obj)
{
    const struct plan_errors *e = obj;

    if (e->n)
        fields_write_members(w, &mean_table, e);
}

static const struct field errors_fields[] = {
    FIELD_OF("n", S, n, "rows behind it"),
    FIELD_BY(json_means),
};
FIELD_TABLE(plan_errors_table, "errors", S, errors_fields);
#undef S

static void json_sets(struct json_out *w, const void *obj)
{
    const struct plan_time_report *r = obj;

    json_kv_arr(w, "sets");
    for (int s = 0; s < PLAN_SETS; s++) {
        if (!r->sets[s].e.n)
            continue;
        json_obj(w);
        json_kv_str(w, "set", plan_sets[s].name);
        fields_write_members(w, &plan_errors_table, &r->sets[s].e);
        if (plan_sets[s].limit > 0)
            json_kv_num(w, plan_sets[s].median ? "limit_median" : "limit_mape", plan_sets[s].limit);
        if (r->sets[s].left_out.n)
            json_kv_num(w, "left_out_mape", r->sets[s].left_out.mape);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void json_skipped(struct json_out *w, const void *obj)
{
    const struct plan_time_source *s = obj;

    fields_write_members(w, &plan_errors_table, &s->e);
    json_kv_obj(w, "skipped");
    for (size_t k = 0; k < s->reasons; k++)
        json_kv_int(w, s->reason[k], (int64_t)s->skipped[k]);
    json_obj_end(w);
}

static const struct field source_fields[] = {
    FIELD_OF("source", struct plan_time_source, source, "who published the runs"),
    FIELD_OF("rows", struct plan_time_source, rows, "of the table"),
    FIELD_BY(json_skipped),
};
static FIELD_TABLE(source_table, "source", struct plan_time_source, source_fields);

#define S struct plan_time_report
static const struct field left_fields[] = {
    FIELD_OF("n", S, left_n, "sources that were left out in turn", .above_0 = true),
    FIELD_OF("median", S, left_median, "error of such a source"),
    FIELD_OF("worst", S, left_worst, "the largest"),
};
static FIELD_TABLE(left_table, "left out", S, left_fields);
static const struct field time_fields[] = {
    FIELD_BY(json_sets),
    FIELD_SUBS("sources", S, sources, source_count, &source_table, "errors by source"),
    FIELD_SUBS("cells", S, cells, cell_count, &cell_table, "by model, GPUs and batch"),
    { .key = "left_out",
      .kind = FIELD_STRUCT,
      .sub = &left_table,
      .doc = "sources that the fit had not seen",
      .left_out = true },
};
FIELD_TABLE(plan_time_table, "time", S, time_fields);
#undef S
