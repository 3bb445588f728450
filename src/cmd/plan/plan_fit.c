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

static enum rc write_table(struct cmd_ctx *ctx, const char *path, const struct buf *text,
                           struct err *err)
{
    struct file_new f;
    enum rc rc;

    if (str_eq(path, "-")) {
        buf_add(&ctx->out, buf_str(text), text->len);
        return RC_OK;
    }
    rc = file_new_open(&f, path, err);
    if (rc == RC_OK)
        rc = file_new_close(&f, file_write(f.fd, path, buf_str(text), text->len, err), err);
    return rc;
}

static void print_report(struct cmd_ctx *ctx, const struct plan_fit_report *r, size_t n)
{
    static const char *const titles[] = { "kind", "rows", "free", "steps", "loss before", "after" };
    struct table *t = table_new();

    for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
        table_col(t, titles[i], i ? TABLE_RIGHT : TABLE_LEFT);
    for (size_t i = 0; i < n; i++) {
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", r[i].kind);
        table_cell(t, COLOUR_NONE, "%zu", r[i].rows);
        table_cell(t, COLOUR_NONE, "%zu", r[i].free);
        table_cell(t, COLOUR_NONE, "%d", r[i].steps);
        table_cell(t, COLOUR_NONE, "%.5f", r[i].loss_start);
        table_cell(t, COLOUR_NONE, "%.5f", r[i].loss);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void print_json(struct cmd_ctx *ctx, const struct plan_fit_report *r, size_t n,
                       const struct plan_const_table *t, bool same)
{
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.plan-fit/1");
    json_kv_bool(&w, "same_as_built_in", same);
    json_key(&w, "kinds");
    json_arr(&w);
    for (size_t i = 0; i < n; i++) {
        json_obj(&w);
        json_kv_str(&w, "kind", r[i].kind);
        json_kv_int(&w, "rows", (int64_t)r[i].rows);
        json_kv_int(&w, "free", (int64_t)r[i].free);
        json_kv_int(&w, "steps", r[i].steps);
        json_key(&w, "loss_start");
        json_add_num(&w, r[i].loss_start);
        json_key(&w, "loss");
        json_add_num(&w, r[i].loss);
        json_key(&w, "constants");
        json_obj(&w);
        for (size_t j = 0; j < t->count; j++)
            if (str_eq(t->rows[j].kind, r[i].kind) && t->rows[j].free) {
                json_key(&w, plan_const_name(&t->rows[j]));
                json_add_num(&w, t->rows[j].value);
            }
        json_obj_end(&w);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_obj_end(&w);
    buf_addc(&ctx->out, '\n');
}

/* Every kind that has rows; a kind without keeps what it has. */
static enum rc fit_all(struct arena *a, const struct plan_rows *rows, struct plan_const_table *t,
                       struct plan_fit_report *r, size_t *n, struct err *err)
{
    struct plan_consts_all kinds;

    plan_consts_each(t, &kinds);
    *n = 0;
    for (size_t i = 0; i < kinds.count; i++) {
        struct err mine = { 0 };
        enum rc rc =
            plan_fit(a, rows, arena_strdup(a, kinds.kind[i].kind), PLAN_SETS, t, &r[*n], &mine);

        if (rc == RC_OK)
            ++*n;
        else if (rc != RC_LIMIT)
            return err_set(err, rc, "%s", mine.msg);
    }
    if (!*n)
        return err_set(err, RC_PARSE, "no row of the table belongs to a set that is fitted");
    return RC_OK;
}

static enum rc run_fit(struct cmd_ctx *ctx, struct err *err)
{
    const struct fit_opts *o = ctx->opts;
    const char *path = ctx->argv[0];
    struct plan_fit_report report[PLAN_CONST_KINDS_MAX];
    struct plan_const_table t;
    struct plan_rows rows;
    struct arena a = { 0 };
    struct buf text = { 0 }, before = { 0 }, after = { 0 };
    size_t n = 0;
    enum rc rc = file_read(path, PLAN_FILE_MAX, &text, err);

    if (rc == RC_OK && plan_rows_read(&a, buf_str(&text), text.len, &rows, err))
        rc = err_ctx(err, "table '%s'", path);
    if (rc == RC_OK)
        rc = plan_consts_table(&a, &t, err);
    if (rc == RC_OK) {
        plan_consts_write(&t, &before);
        rc = fit_all(&a, &rows, &t, report, &n, err);
    }
    if (rc == RC_OK) {
        bool same;

        plan_consts_write(&t, &after);
        same = str_eq(buf_str(&before), buf_str(&after));
        if (o->json)
            print_json(ctx, report, n, &t, same);
        else if (!str_eq(o->out, "-")) {
            print_report(ctx, report, n);
            buf_addf(&ctx->out, "The constants are %s\n",
                     same ? "those that are built in, byte for byte."
                          : "not those that are built in.");
        }
        if (o->out)
            rc = write_table(ctx, o->out, &after, err);
    }
    buf_release(&text);
    buf_release(&before);
    buf_release(&after);
    arena_release(&a);
    return rc;
}

static const struct opt fit_opts[] = {
    { 'o', "output", OPT_STR, offsetof(struct fit_opts, out), "FILE", NULL, 0, 0,
      "write the constants as data/plan.csv has them ('-' for stdout)" },
    { 'j', "json", OPT_FLAG, offsetof(struct fit_opts, json), NULL, NULL, 0, 0,
      "print JSON instead of text" },
    { 0 },
};
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
