/* SPDX-License-Identifier: MIT */
/* stoker plan train --explain and --compare: where the time and the memory of one configuration
 * go, or of two beside each other. */
#include "cmd/plan/plan_request_int.h"
#include "cmd/plan/plan_train_int.h"

#include <math.h>

static void print_title(struct cmd_ctx *ctx, const struct train_job *j, const char *what,
                        const struct plan_config *c, const struct plan_figures *f)
{
    const struct plan_case *k = &j->cases[j->chosen];

    if (*what)
        buf_addf(&ctx->out, "%s: ", what);
    term_text(&ctx->out_term, &ctx->out, COLOUR_BOLD, "%s", TEXT_CONFIG(c));
    buf_addf(&ctx->out,
             "\n%.3f s a step, %.0f tokens/s, MFU %.1f %%, HFU %.1f %%, %.1f GiB of %.1f%s",
             f->time.step_s, f->time.tokens_s, 100 * f->time.mfu, 100 * f->time.hfu,
             (double)f->memory.total / GIB, (double)k->space.limit / GIB,
             f->fits ? "" : " (does not fit)");
    if (j->goal.tokens > 0)
        buf_addf(&ctx->out, ", %.1f days%s", f->days, f->misses_days ? " (too long)" : "");
    if (j->goal.tokens > 0 && f->dollars > 0)
        buf_addf(&ctx->out, ", $%.0f%s", f->dollars, f->misses_budget ? " (too much)" : "");
    buf_adds(&ctx->out, "\n");
}

static void print_parts(struct cmd_ctx *ctx, const struct plan_figures *f)
{
    static const char *const why[PLAN_PARTS] = {
        [PLAN_TIME_MATMUL] = "matrices of layers, forward and backward",
        [PLAN_TIME_ATTENTION] = "scores, softmax and values",
        [PLAN_TIME_MEMORY] = "norms, rotary, activations: bound by HBM",
        [PLAN_TIME_HEAD] = "embedding, head and loss",
        [PLAN_TIME_RECOMPUTE] = "forward again",
        [PLAN_TIME_LAUNCH] = "the host, where it is slower than the device",
        [PLAN_TIME_TP] = "tensor-parallel collectives",
        [PLAN_TIME_CP] = "keys and values round the context-parallel ring",
        [PLAN_TIME_EP] = "tokens to experts and back",
        [PLAN_TIME_PP] = "sends between stages",
        [PLAN_TIME_BUBBLE] = "waiting for the pipeline",
        [PLAN_TIME_DP] = "gradients and ZeRO traffic that nothing hides",
        [PLAN_TIME_OPTIMIZER] = "the optimizer",
        [PLAN_TIME_OFFLOAD] = "to host memory and back",
    };
    struct table *t = table_new();

    table_col(t, "part", TABLE_LEFT);
    table_col(t, "s", TABLE_RIGHT);
    table_col(t, "share", TABLE_RIGHT);
    table_col(t, "hidden s", TABLE_RIGHT);
    table_col(t, "what", TABLE_LEFT);
    for (int i = 0; i < PLAN_PARTS; i++) {
        if (f->time.part[i] < 0.0005 && f->time.hidden[i] < 0.0005)
            continue;
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", plan_part_names[i]);
        table_cell(t, COLOUR_NONE, "%.3f", f->time.part[i]);
        table_cell(t, COLOUR_NONE, "%.1f %%", 100 * f->time.part[i] / f->time.step_s);
        table_cell(t, COLOUR_NONE, f->time.hidden[i] >= 0.0005 ? "%.3f" : "-", f->time.hidden[i]);
        table_cell(t, COLOUR_DIM, "%s", why[i]);
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void print_kinds(struct cmd_ctx *ctx, const struct train_job *j, const struct plan_config *c)
{
    const struct plan_case *k = &j->cases[j->chosen];
    const struct plan_job job = { .model = &j->model,
                                  .counts = &j->counts,
                                  .cluster = &k->cluster,
                                  .config = c,
                                  .consts = &k->consts.memory,
                                  .limit = k->space.limit };
    struct plan_memory_stage s;
    struct plan_memory m;
    struct table *t = table_new();
    struct buf why = { 0 };

    plan_memory_of(&j->model, &j->counts, c, &k->consts.memory, &m);
    plan_memory_stage(&j->model, &j->counts, c, &k->consts.memory, m.worst, &s);
    table_col(t, c->pp > 1 ? "fullest stage" : "memory", TABLE_LEFT);
    table_col(t, "GiB", TABLE_RIGHT);
    table_col(t, "why", TABLE_LEFT | TABLE_WRAP);
    for (int i = 0; i < PLAN_KINDS; i++) {
        buf_reset(&why);
        plan_memory_why(&job, &s, (enum plan_kind)i, &why);
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", plan_kind_names[i]);
        table_cell(t, COLOUR_NONE, "%.2f", (double)s.kind[i] / GIB);
        table_cell(t, COLOUR_DIM, "%s", buf_str(&why));
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    buf_release(&why);
}

static void json_figures(struct json_out *w, const struct plan_config *c,
                         const struct plan_figures *f)
{
    json_kv_str(w, "config", TEXT_CONFIG(c));
    fields_write_members(w, &train_time_table, f);
    json_kv_bool(w, "fits", f->fits);
    json_kv_int(w, "memory_bytes", (int64_t)f->memory.total);
    for (int what = 0; what < 2; what++) {
        json_kv_obj(w, what ? "hidden_s" : "parts_s");
        for (int i = 0; i < PLAN_PARTS; i++) {
            json_kv_num(w, plan_part_names[i], what ? f->time.hidden[i] : f->time.part[i]);
        }
        json_obj_end(w);
    }
    json_kv_obj(w, "memory");
    for (int i = 0; i < PLAN_KINDS; i++)
        json_kv_int(w, plan_kind_names[i], (int64_t)f->memory.kind[i]);
    json_obj_end(w);
}

static void json_begin(struct json_out *w, struct cmd_ctx *ctx, const struct train_job *j,
                       const char *schema)
{
    json_doc(w, &ctx->out, schema);
    json_kv_str(w, "model", j->model.name);
    json_kv_str(w, "gpu", j->cases[0].cluster.gpu.name);
    json_kv_int(w, "gpus", j->cases[0].cluster.gpus);
    json_kv_int(w, "batch", j->batch);
    json_kv_int(w, "seq", j->base.seq);
}

void train_explain(struct cmd_ctx *ctx, const struct train_job *j, const struct plan_config *c,
                   bool json)
{
    const struct plan_case *k = &j->cases[j->chosen];
    const struct plan_pick *choice = plan_choice(&k->found);
    struct plan_figures f, best;
    struct buf text = { 0 };
    struct json_out w;

    plan_case_figures(k, &j->goal, c, &f);
    plan_case_figures(k, &j->goal, &choice->config, &best);
    if (json) {
        json_begin(&w, ctx, j, "stoker.plan-explain/1");
        json_figures(&w, c, &f);
        json_kv_int(&w, "better", (int64_t)k->found.better);
        json_kv_int(&w, "fit", (int64_t)k->found.fit);
        json_kv_str(&w, "choice", TEXT_CONFIG(&choice->config));
        json_doc_end(&w);
    } else {
        print_title(ctx, j, "", c, &f);
        print_parts(ctx, &f);
        print_kinds(ctx, j, c);
        buf_addf(&ctx->out,
                 "\n%s of the configurations that fit are faster. The choice is %s: %.1f %% %s.\n",
                 TEXT_DIGITS(k->found.better), TEXT_CONFIG(&choice->config),
                 100 * fabs(best.time.step_s / f.time.step_s - 1),
                 best.time.step_s < f.time.step_s ? "faster" : "slower");
        train_differences(&best.time, &f.time, &text);
        buf_addf(&ctx->out, "Against it: %s.\n", buf_str(&text));
        print_fp32(ctx, &k->cluster.gpu, c->precision);
    }
    buf_release(&text);
}

static void compare_table(struct cmd_ctx *ctx, const struct plan_figures *a,
                          const struct plan_figures *b)
{
    struct table *t = table_new();

    table_col(t, "", TABLE_LEFT);
    table_col(t, "A", TABLE_RIGHT);
    table_col(t, "B", TABLE_RIGHT);
    table_col(t, "B - A", TABLE_RIGHT);
    for (int i = 0; i < PLAN_PARTS; i++) {
        if (a->time.part[i] < 0.0005 && b->time.part[i] < 0.0005)
            continue;
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s, s", plan_part_names[i]);
        table_cell(t, COLOUR_NONE, "%.3f", a->time.part[i]);
        table_cell(t, COLOUR_NONE, "%.3f", b->time.part[i]);
        table_cell(t, COLOUR_NONE, "%+.3f", b->time.part[i] - a->time.part[i]);
    }
    for (int i = 0; i < PLAN_KINDS; i++) {
        double x = (double)a->memory.kind[i] / GIB, y = (double)b->memory.kind[i] / GIB;

        if (x < 0.005 && y < 0.005)
            continue;
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s, GiB", plan_kind_names[i]);
        table_cell(t, COLOUR_NONE, "%.2f", x);
        table_cell(t, COLOUR_NONE, "%.2f", y);
        table_cell(t, COLOUR_NONE, "%+.2f", y - x);
    }
    buf_addc(&ctx->out, '\n');
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

void train_compare(struct cmd_ctx *ctx, const struct train_job *j, const struct plan_config *a,
                   const struct plan_config *b, bool json)
{
    const struct plan_case *k = &j->cases[j->chosen];
    struct plan_figures fa, fb;
    struct buf text = { 0 };
    struct json_out w;
    double d;

    plan_case_figures(k, &j->goal, a, &fa);
    plan_case_figures(k, &j->goal, b, &fb);
    d = fb.time.step_s / fa.time.step_s - 1;
    if (json) {
        json_begin(&w, ctx, j, "stoker.plan-compare/1");
        json_kv_obj(&w, "a");
        json_figures(&w, a, &fa);
        json_obj_end(&w);
        json_kv_obj(&w, "b");
        json_figures(&w, b, &fb);
        json_obj_end(&w);
        json_doc_end(&w);
        return;
    }
    print_title(ctx, j, "A", a, &fa);
    print_title(ctx, j, "B", b, &fb);
    compare_table(ctx, &fa, &fb);
    train_differences(&fa.time, &fb.time, &text);
    buf_addf(&ctx->out, "\nB takes %.2f %% %s: %s.\n", 100 * fabs(d), d > 0 ? "longer" : "less",
             buf_str(&text));
    buf_release(&text);
}
