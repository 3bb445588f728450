/* SPDX-License-Identifier: MIT */
/* stoker plan fit: the planner's constants from a table of published runs. */
#include "base/str.h"
#include "base/text/json.h"
#include "cmd/plan/plan_cmd_int.h"
#include "os/file.h"
#include "plan/runs.h"

struct fit_opts {
    bool json;
    const char *out;
};

struct fit_kind {
    struct plan_fit_report r;
    int64_t steps;
    const struct plan_const_table *consts;
};
struct fit_answer {
    bool same;
    struct fit_kind row[PLAN_CONST_KINDS_MAX], *rows;
    size_t count;
};

static void json_constants(struct json_out *w, const void *obj)
{
    const struct fit_kind *r = obj;

    json_kv_obj(w, "constants");
    for (size_t i = 0; i < r->consts->count; i++)
        if (str_eq(r->consts->rows[i].kind, r->r.kind) && r->consts->rows[i].free)
            json_kv_num(w, plan_const_name(&r->consts->rows[i]), r->consts->rows[i].value);
    json_obj_end(w);
}

#define S struct fit_kind
static const struct field row_fields[] = {
    FIELD_OF("kind", S, r.kind, "of GPU", .title = "kind"),
    FIELD_OF("rows", S, r.rows, "runs that are fitted", .title = "rows"),
    FIELD_OF("free", S, r.free, "constants that are free", .title = "free"),
    FIELD_OF("steps", S, steps, "of the fit", .title = "steps"),
    FIELD_OF("loss_start", S, r.loss_start, "before", .title = "loss before", .fmt = "%.5f"),
    FIELD_OF("loss", S, r.loss, "after", .title = "after", .fmt = "%.5f"),
    FIELD_BY(json_constants),
};
static FIELD_TABLE(row_table, "kind", S, row_fields);
#undef S
static const struct field fit_fields[] = {
    FIELD_OF("same_as_built_in", struct fit_answer, same, "byte for byte"),
    FIELD_SUBS("kinds", struct fit_answer, rows, count, &row_table, "kinds of GPU with rows"),
};
static FIELD_TABLE(fit_doc, "stoker.plan-fit/1", struct fit_answer, fit_fields);

/* Every kind that has rows; a kind without keeps what it has. */
static enum rc fit_all(struct arena *a, const struct plan_rows *rows, struct plan_const_table *t,
                       struct fit_answer *out, struct err *err)
{
    struct plan_consts_all kinds;

    plan_consts_each(t, &kinds);
    out->rows = out->row;
    for (size_t i = 0; i < kinds.count; i++) {
        struct fit_kind *r = &out->row[out->count];
        struct err mine = { 0 };
        enum rc rc =
            plan_fit(a, rows, arena_strdup(a, kinds.kind[i].kind), PLAN_SETS, t, &r->r, &mine);

        r->steps = r->r.steps;
        r->consts = t;
        if (rc == RC_OK)
            out->count++;
        else if (rc != RC_LIMIT)
            return err_set(err, rc, "%s", mine.msg);
    }
    if (!out->count)
        return err_set(err, RC_PARSE, "no row of the table belongs to a set that is fitted");
    return RC_OK;
}

static enum rc run_fit(struct cmd_ctx *ctx, struct err *err)
{
    const struct fit_opts *o = ctx->opts;
    const char *path = ctx->argv[0];
    struct fit_answer answer = { 0 };
    struct plan_const_table t;
    struct plan_rows rows;
    struct arena a = { 0 };
    struct buf text = { 0 }, before = { 0 }, after = { 0 };
    enum rc rc = file_read(path, PLAN_FILE_MAX, &text, err);

    if (rc == RC_OK && plan_rows_read(&a, buf_str(&text), text.len, &rows, err))
        rc = err_ctx(err, "table '%s'", path);
    if (rc == RC_OK)
        rc = plan_consts_table(&a, &t, err);
    if (rc == RC_OK) {
        plan_consts_write(&t, &before);
        rc = fit_all(&a, &rows, &t, &answer, err);
    }
    if (rc == RC_OK) {
        plan_consts_write(&t, &after);
        answer.same = str_eq(buf_str(&before), buf_str(&after));
        if (o->json)
            fields_write_report(&ctx->out, &fit_doc, &answer);
        else if (!str_eq(o->out, "-")) {
            fields_print(&ctx->out, &ctx->out_term, &row_table, answer.rows, answer.count, -1);
            buf_addf(&ctx->out, "The constants are %s\n",
                     answer.same ? "those that are built in, byte for byte."
                                 : "not those that are built in.");
        }
        if (o->out)
            rc = plan_write_out(ctx, &after, o->out, err);
    }
    buf_release(&text);
    buf_release(&before);
    buf_release(&after);
    arena_release(&a);
    return rc;
}

#define S fit_opts
static const struct opt fit_opts[] = {
    ROW_OPT(S, 'o', "output", STR, out, "FILE",
            "write the constants as data/plan.csv has them ('-' for stdout)"),
    ROW_OPT(S, 'j', "json", FLAG, json, NULL, "print JSON instead of text"),
    { 0 },
};
#undef S
static const struct cmd_example fit_examples[] = {
    { "stoker plan fit training_runs.csv", "are the constants still those of these runs?" },
    { "stoker plan fit training_runs.csv -o data/plan.csv", "write them" },
    { 0 },
};
const struct cmd cmd_plan_fit = {
    .name = "fit",
    .summary = "fit the planner's constants to published runs",
    .operands = "FILE.csv",
    .args_min = 1,
    .args_max = 1,
    .opts = fit_opts,
    .opts_size = sizeof(struct fit_opts),
    .about = "Reads a table of published training runs and fits the free constants of the time "
             "model, at most 16 for each kind of GPU. Start values, prior widths, fixed numbers "
             "and where each comes from are in the constants' file, which is built in; the fit "
             "changes values alone. The same table gives the same bytes.",
    .examples = fit_examples,
    .run = run_fit,
};
