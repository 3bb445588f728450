/* SPDX-License-Identifier: MIT */
/* stoker plan validate: the planner against a table of published runs. */
#include "base/str.h"
#include "base/text/json.h"
#include "cmd/plan/plan_cmd_int.h"
#include "os/file.h"
#include "plan/top1.h"

#include <math.h>

struct validate_opts {
    bool json, rows, leave_out;
    const char *picture, *bands;
};

static void cell_errors(struct table *t, const struct plan_errors *e, double target)
{
    if (!e->n)
        table_cell(t, COLOUR_DIM, "-");
    else
        table_cell(t, e->median > target ? COLOUR_YELLOW : COLOUR_NONE, "%.2f %% (%zu)",
                   100 * e->median, e->n);
}

static void print_table(struct cmd_ctx *ctx, const struct plan_report *r)
{
    static const char *const titles[] = { "source", "rows",   "used",         "parameters",
                                          "FLOPs",  "memory", "above 30 GiB", "fits or not" };
    struct table *t = table_new();

    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_col(t, titles[i], i ? TABLE_RIGHT | TABLE_WHOLE : TABLE_LEFT | TABLE_SHRINK);
    for (size_t i = 0; i < r->count; i++) {
        const struct plan_source_report *s = &r->sources[i];

        table_row(t);
        table_cell(t, i + 1 == r->count ? COLOUR_BOLD : COLOUR_NONE, "%s", s->source);
        table_cell(t, COLOUR_NONE, "%zu", s->rows);
        table_cell(t, COLOUR_NONE, "%zu", s->used);
        cell_errors(t, &s->params, 0.001);
        cell_errors(t, &s->flops, 0.01);
        cell_errors(t, &s->memory, 0.05);
        cell_errors(t, &s->memory_large, 0.07);
        if (s->fit_n)
            table_cell(t, COLOUR_NONE, "%.1f %% (%zu)",
                       100 * (double)s->fit_right / (double)s->fit_n, s->fit_n);
        else
            table_cell(t, COLOUR_DIM, "-");
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    buf_adds(&ctx->out, "Errors are medians, with the number of rows; rounding of printed "
                        "parameters is no error.\n");
}

/* The next of a source's reasons; *n counts them. */
static void print_reason(struct buf *out, const char *source, size_t *n, size_t count,
                         const char *what)
{
    if (!count)
        return;
    if (!*n)
        buf_addf(out, "  %s: %zu %s", source, count, what);
    else
        buf_addf(out, ", %zu %s", count, what);
    ++*n;
}

static void print_reasons(struct cmd_ctx *ctx, const struct plan_report *r)
{
    buf_adds(&ctx->out, "\nWhat rows lack or fall under:\n");
    for (size_t i = 0; i < r->count; i++) {
        const struct plan_source_report *s = &r->sources[i];
        size_t n = 0;

        for (int k = 0; k < PLAN_MISSINGS; k++)
            print_reason(&ctx->out, s->source, &n, s->missing[k], plan_missing_names[k]);
        for (int k = 0; k < PLAN_EXCLUDES; k++)
            print_reason(&ctx->out, s->source, &n, s->exclude[k], plan_exclude_names[k]);
        if (n)
            buf_addc(&ctx->out, '\n');
    }
    buf_adds(&ctx->out,
             "R1 stalled, 512 GPUs or another batch; R2 as many stages as layers; R3 adapters, "
             "unsaid; R4 another version of the table; R5 LoRA, fine-tuning, modified blocks; "
             "R6 sizes do not multiply to the GPUs.\n");
}

static void print_result(struct buf *out, const char *name, double v, size_t n, double target,
                         bool above)
{
    if (n)
        buf_addf(out, "RESULT %s %.4g %% %s%.4g %s n=%zu\n", name, 100 * v,
                 above ? ">=" : "<=", 100 * target,
                 (above ? v >= target : v <= target) ? "ok" : "short", n);
}

static void result_fits(struct buf *out, const char *name, const struct plan_source_report *s)
{
    if (s->fit_n)
        print_result(out, name, (double)s->fit_right / (double)s->fit_n, s->fit_n, 0.96, true);
}

/* The largest error of a known model's parameters against what was published, beyond rounding.
 * A count that was computed from a published shape proves nothing: it is left out. */
static void result_models(struct arena *a, struct buf *out)
{
    struct plan_known_table t;
    double worst = 0;
    size_t n = 0;

    if (plan_known_load(a, &t, NULL))
        return;
    for (size_t i = 0; i < t.count; i++) {
        double want, ulp, off;
        struct plan_counts c;

        if (str_starts(t.rows[i].source, "computed ") ||
            !plan_count_parse(t.rows[i].published, &want, &ulp) || !(want > 0) ||
            plan_model_counts(&t.rows[i].model, &c, NULL))
            continue;
        off = fabs((double)c.total - want) - ulp / 2;
        worst = off / want > worst ? off / want : worst;
        n++;
    }
    print_result(out, "plan.models.params_max", worst, n, 0.001, false);
}

static void result_top1(struct buf *out, const char *name, const struct plan_top1 *t, double target)
{
    if (t->cells)
        buf_addf(out, "RESULT %s %.4f >=%.2f %s n=%zu crashed=%zu\n", name, t->mean, target,
                 t->mean >= target && !t->crashed ? "ok" : "short", t->cells, t->crashed);
}

static void print_results(struct cmd_ctx *ctx, struct arena *a, const struct plan_report *r,
                          const struct plan_top1 *top1)
{
    const struct plan_source_report *all = &r->sources[r->count - 1];

    buf_addc(&ctx->out, '\n');
    result_models(a, &ctx->out);
    print_result(&ctx->out, "plan.all.params_median", all->params.median, all->params.n, 0.001,
                 false);
    print_result(&ctx->out, "plan.all.flops_median", all->flops.median, all->flops.n, 0.001, false);
    for (size_t i = 0; i + 1 < r->count; i++) {
        const struct plan_source_report *s = &r->sources[i];

        if (!str_starts(s->source, "HF Ultra-Scale"))
            continue;
        print_result(&ctx->out, "plan.hf-clean-tp8.memory_median", s->memory.median, s->memory.n,
                     0.05, false);
        print_result(&ctx->out, "plan.hf-above-30gib.memory_median", s->memory_large.median,
                     s->memory_large.n, 0.07, false);
        result_fits(&ctx->out, "plan.hf.fits", s);
    }
    result_fits(&ctx->out, "plan.all.fits", all);
    if (r->fp8_n)
        print_result(&ctx->out, "plan.h100-fp8.fits", (double)r->fp8_fit / (double)r->fp8_n,
                     r->fp8_n, 0.9, true);
    result_top1(&ctx->out, "plan.top1.clean", &top1[PLAN_TOP1_CLEAN], 0.97);
    result_top1(&ctx->out, "plan.top1.all", &top1[PLAN_TOP1_ALL], 0.94);
}

static void print_rows(struct cmd_ctx *ctx, const struct plan_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct plan_row *r = &rows->rows[i];
        struct plan_memory got = { 0 };

        if (!(r->missing & (PLAN_NO_SHAPE | PLAN_BAD_MODEL | PLAN_NO_CUT | PLAN_BAD_CONFIG)))
            plan_memory_of(&r->model, &r->counts, &r->config, &plan_memory_default, &got);
        buf_addf(&ctx->out, "row %zu: %s, %s: %.4g of %.4g GiB%s", r->line, r->name,
                 TEXT_CONFIG(&r->config), (double)got.total / (1 << 30),
                 r->measured.mem_bytes / (1 << 30), r->measured.failed ? ", failed" : "");
        for (int k = 0; k < PLAN_MISSINGS; k++)
            if (r->missing >> k & 1)
                buf_addf(&ctx->out, "; %s", plan_missing_names[k]);
        if (r->rule != PLAN_RULE_OK)
            buf_addf(&ctx->out, " (rule %s)", plan_rule_names[r->rule]);
        for (int k = 0; k < PLAN_EXCLUDES; k++)
            if (r->exclude >> k & 1)
                buf_addf(&ctx->out, "; %s", plan_exclude_names[k]);
        for (int k = 0; k < PLAN_ASSUMEDS; k++)
            if (r->assumed >> k & 1)
                buf_addf(&ctx->out, "; %s", plan_assumed_names[k]);
        buf_addc(&ctx->out, '\n');
    }
}

/* ---- JSON ---- */
#define S struct plan_source_report
static void json_reasons(struct json_out *w, const void *obj)
{
    const struct plan_source_report *s = obj;

    json_kv_obj(w, "missing");
    for (int i = 0; i < PLAN_MISSINGS; i++)
        if (s->missing[i])
            json_kv_int(w, plan_missing_names[i], (int64_t)s->missing[i]);
    json_obj_end(w);
    json_kv_obj(w, "excluded");
    for (int i = 0; i < PLAN_EXCLUDES; i++)
        if (s->exclude[i])
            json_kv_int(w, plan_exclude_names[i], (int64_t)s->exclude[i]);
    json_obj_end(w);
}

static const struct field fits_fields[] = {
    FIELD_OF("n", S, fit_n, "rows that say whether a job fits"),
    FIELD_OF("right", S, fit_right, "that are counted as they were"),
    FIELD_OF("ran", S, fit_yes, "that ran"),
    FIELD_OF("ran_right", S, fit_yes_right, "of them, that are counted to fit"),
    FIELD_OF("failed", S, fit_no, "that ran out of memory"),
    FIELD_OF("failed_right", S, fit_no_right, "of them, that are counted not to fit"),
};
static FIELD_TABLE(fits_table, "fits", S, fits_fields);
static const struct field source_fields[] = {
    FIELD_OF("source", S, source, "who published the runs"),
    FIELD_OF("rows", S, rows, "of the table"),
    FIELD_OF("used", S, used, "for parameters, FLOPs or memory"),
    FIELD_BY(json_reasons),
    FIELD_SUB("parameters", S, params, &plan_errors_table, "of the counted parameters"),
    FIELD_SUB("flops", S, flops, &plan_errors_table, "of FLOPs a token"),
    FIELD_SUB("memory", S, memory, &plan_errors_table, "of bytes a GPU"),
    FIELD_SUB("memory_above_30gib", S, memory_large, &plan_errors_table, "of large ones"),
    { .key = "fits", .kind = FIELD_STRUCT, .sub = &fits_table, .doc = "whether a job fits" },
};
static FIELD_TABLE(source_table, "source", S, source_fields);
#undef S

#define S struct plan_top1
static const struct field top1_fields[] = {
    FIELD_OF("cells", S, cells, "with a run that ran"),
    FIELD_OF("crashed", S, crashed, "first choices that did not run"),
    FIELD_OF("mean", S, mean, "speed of the first choice over the best"),
    FIELD_OF("worst", S, worst, "the least of them"),
};
static FIELD_TABLE(top1_table, "first choices", S, top1_fields);
#undef S

struct validation {
    struct plan_report report;
    struct plan_time_report times;
    struct plan_top1 top1[2]; /* by enum plan_top1_set */
};
#define S struct validation
static const struct field validation_fields[] = {
    FIELD_SUBS("sources", S, report.sources, report.count, &source_table, "errors by source"),
    FIELD_SUB("time", S, times, &plan_time_table, "errors of the time of a step"),
    FIELD_SUB("top1_clean", S, top1[PLAN_TOP1_CLEAN], &top1_table, "first choices, clean runs"),
    FIELD_SUB("top1_all", S, top1[PLAN_TOP1_ALL], &top1_table, "first choices, all runs"),
};
static FIELD_TABLE(validation_doc, "stoker.plan-validate/1", S, validation_fields);
#undef S

static enum rc run_validate(struct cmd_ctx *ctx, struct err *err)
{
    const struct validate_opts *o = ctx->opts;
    const char *path = ctx->argv[0];
    struct arena a = { 0 };
    struct buf text = { 0 }, svg = { 0 }, bands = { 0 };
    struct validation v;
    struct plan_const_table consts;
    struct plan_consts_all kinds;
    struct plan_rows rows;
    enum rc rc = file_read(path, PLAN_FILE_MAX, &text, err);

    if (rc == RC_OK && plan_rows_read(&a, buf_str(&text), text.len, &rows, err))
        rc = err_ctx(err, "table '%s'", path);
    if (rc == RC_OK)
        rc = plan_validate(&a, &rows, &plan_memory_default, &v.report, err);
    if (rc == RC_OK)
        rc = plan_consts_table(&a, &consts, err);
    if (rc == RC_OK)
        rc = plan_validate_time(&a, &rows, &consts, o->leave_out, &v.times, err);
    if (rc == RC_OK)
        plan_consts_each(&consts, &kinds);
    for (int i = 0; i < 2 && rc == RC_OK; i++)
        rc = plan_top1_of(&a, &rows, &kinds, (enum plan_top1_set)i, &v.top1[i], err);
    if (rc == RC_OK && o->picture) {
        plan_scatter_svg(&rows, &v.times, &svg);
        rc = plan_write_out(ctx, &svg, o->picture, err);
    }
    if (rc == RC_OK && o->json) {
        fields_write_report(&ctx->out, &validation_doc, &v);
    } else if (rc == RC_OK) {
        if (o->rows)
            print_rows(ctx, &rows);
        print_table(ctx, &v.report);
        print_reasons(ctx, &v.report);
        plan_print_time(ctx, &rows, &v.times);
        print_results(ctx, &a, &v.report, v.top1);
        plan_results_time(ctx, &rows, &v.times, &bands);
        if (o->bands)
            rc = plan_write_text(&bands, o->bands, err);
    }
    buf_release(&bands);
    buf_release(&svg);
    buf_release(&text);
    arena_release(&a);
    return rc;
}

#define S validate_opts
static const struct opt validate_opts[] = {
    ROW_OPT(S, 0, "leave-out", FLAG, leave_out, NULL,
            "fit without each source in turn, then predict it"),
    ROW_OPT(S, 0, "picture", STR, picture, "FILE",
            "write predicted over measured time as SVG ('-' for stdout)"),
    ROW_OPT(S, 0, "bands", STR, bands, "FILE",
            "with --leave-out: write the error bands as data/plan_bands.csv has them"),
    ROW_OPT(S, 0, "rows", FLAG, rows, NULL, "print every row, with its reasons, first"),
    ROW_OPT(S, 'j', "json", FLAG, json, NULL, "print JSON instead of text"),
    { 0 },
};
#undef S
static const struct cmd_example validate_examples[] = {
    { "stoker plan validate training_runs.csv",
      "errors of parameters, FLOPs, memory and time by source" },
    { "stoker plan validate training_runs.csv --leave-out --picture time.svg",
      "also with each source left out of the fit, and a picture" },
    { 0 },
};
const struct cmd cmd_plan_validate = {
    .name = "validate",
    .summary = "hold the planner against published runs",
    .operands = "FILE.csv",
    .args_min = 1,
    .args_max = 1,
    .opts = validate_opts,
    .opts_size = sizeof(struct validate_opts),
    .about = "Reads a table of published training runs and prints, by source, how many rows were "
             "used, why others were not, and the errors of parameters, FLOPs a token, memory, of "
             "whether a job fits, and of the time of a step; by model and number of GPUs how well "
             "predictions rank. Ends with RESULT lines. The same table always gives the same "
             "figures.",
    .examples = validate_examples,
    .run = run_validate,
};
