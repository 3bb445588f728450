/* SPDX-License-Identifier: MIT */
/* agent_sample: the two ways in which this program itself asks the driver: as the agent's
 * collector, and once, for what each call costs.  The costs are a table for people, dearest first
 * by what a usual second asks; --json has all there is. */
#include "cmd/agent/cmd_agent_int.h"

#include "base/str.h"
#include "base/text/json.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

enum { SAMPLE_CALLS_MAX = 256, SAMPLE_KINDS = 3 };

static const char *const kinds[SAMPLE_KINDS] = { "usual", "full", "first" };

struct sample_call {
    const char *name;
    double calls[SAMPLE_KINDS], us[SAMPLE_KINDS]; /* 0 calls: it was not asked */
};

static struct sample_call *call_of(struct sample_call *all, size_t *count, const char *name)
{
    for (size_t i = 0; i < *count; i++)
        if (str_eq(all[i].name, name))
            return &all[i];
    if (*count == SAMPLE_CALLS_MAX)
        return NULL;
    all[*count] = (struct sample_call){ .name = name };
    return &all[(*count)++];
}

static size_t read_calls(const struct json *d, struct sample_call *all)
{
    size_t count = 0;

    for (size_t k = 0; k < SAMPLE_KINDS; k++) {
        const struct json *calls = json_get(json_get(d, kinds[k]), "calls");
        for (const struct json *c = json_first(calls); c; c = c->next) {
            const char *name = json_str(json_get(c, "call"));
            struct sample_call *to = name ? call_of(all, &count, name) : NULL;
            if (!to)
                continue;
            to->calls[k] = json_num(json_get(c, "count"), 0);
            to->us[k] = json_num(json_get(c, "total_us"), 0);
        }
    }
    return count;
}

static int by_cost(const void *a, const void *b)
{
    const struct sample_call *x = a, *y = b;

    for (size_t k = 0; k < SAMPLE_KINDS; k++)
        if (x->us[k] < y->us[k] || x->us[k] > y->us[k])
            return x->us[k] < y->us[k] ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void add_row(struct table *t, const struct sample_call *c)
{
    table_row(t);
    table_cell(t, COLOUR_NONE, "%s", c->name);
    for (size_t k = 0; k < SAMPLE_KINDS; k++) {
        if (c->calls[k] > 0) {
            table_cell(t, COLOUR_NONE, "%.0f", c->calls[k]);
            table_cell(t, COLOUR_NONE, "%.1f", c->us[k] / c->calls[k]);
            table_cell(t, COLOUR_NONE, "%.1f", c->us[k]);
        } else {
            for (int i = 0; i < 3; i++)
                table_cell(t, COLOUR_DIM, "-");
        }
    }
}

/* The last row is of the whole sample: what is beyond the calls is ours. */
static void add_sums(struct table *t, const struct json *d, const struct sample_call *all,
                     size_t count)
{
    table_row(t);
    table_cell(t, COLOUR_BOLD, "the sample, with our own part");
    for (size_t k = 0; k < SAMPLE_KINDS; k++) {
        double calls = 0;
        for (size_t i = 0; i < count; i++)
            calls += all[i].calls[k];
        table_cell(t, COLOUR_BOLD, "%.0f", calls);
        table_cell(t, COLOUR_NONE, " ");
        table_cell(t, COLOUR_BOLD, "%.1f",
                   json_num(json_get(json_get(d, kinds[k]), "sample_us"), NAN));
    }
}

static enum rc print_costs(struct cmd_ctx *ctx, const struct buf *json, struct err *err)
{
    static const char *const titles[] = { "usual", "us each", "us",      "full", "us each",
                                          "us",    "first",   "us each", "us" };
    struct sample_call all[SAMPLE_CALLS_MAX];
    struct arena a = { 0 };
    struct json *d;
    struct table *t;
    size_t count;
    enum rc rc = json_parse(&a, buf_str(json), json->len, &d, err);

    if (rc == RC_OK) {
        count = read_calls(d, all);
        qsort(all, count, sizeof(all[0]), by_cost);
        t = table_new();
        table_col(t, "call", TABLE_LEFT | TABLE_WHOLE);
        for (size_t i = 0; i < ARRAY_SIZE(titles); i++)
            table_col(t, titles[i], TABLE_RIGHT);
        for (size_t i = 0; i < count; i++)
            add_row(t, &all[i]);
        add_sums(t, d, all, count);
        table_print(t, &ctx->out_term, 0, &ctx->out);
        table_free(t);
    }
    arena_release(&a);
    return rc;
}

static enum rc print_sample(struct cmd_ctx *ctx, const struct gpu_child_opts *go, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    struct buf json = { 0 };
    enum rc rc;

    if (args->json)
        return gpu_sample_json(go, &ctx->out, err);
    rc = gpu_sample_json(go, &json, err);
    if (rc == RC_OK)
        rc = print_costs(ctx, &json, err);
    buf_release(&json);
    return rc;
}

/* The collector's status tells the agent why it ended, so it is the process's own. */
enum rc agent_run_driver(struct cmd_ctx *ctx, struct err *err)
{
    const struct agent_args *args = ctx->opts;
    const char *library = args->gpu_library ? args->gpu_library : getenv("STOKER_NVML_LIB");
    struct gpu_child_opts go = { .nvml = library };
    struct root *root = NULL;
    enum rc rc = root_open(args->root, &root, err);

    go.root = root;
    if (rc == RC_OK && args->gpu_child)
        _exit(gpu_child_main(&go, (int)args->gpu_child));
    if (rc == RC_OK)
        rc = print_sample(ctx, &go, err);
    if (root)
        root_close(root);
    return rc;
}
