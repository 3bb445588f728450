/* SPDX-License-Identifier: MIT */
/* stoker plan recompute: recomputation and precision for a job: bytes saved, time paid. */
#include "cmd/plan/plan_request_int.h"
#include "plan/choices.h"

enum { EXIT_LIMIT = 4 };

struct recompute_opts {
    struct request_opts request;
};

struct recompute_job {
    struct run_request request; /* first: see request_json_best() */
    struct plan_consts k;
    uint64_t limit;
    struct plan_trade row[PLAN_TRADES_MAX], *rows;
    size_t count;
    int choice; /* -1: nothing fits */
    struct maybe chosen;
};

#define S struct plan_trade
static const struct field trade_fields[] = {
    FIELD_OF(NULL, S, name, "", .title = "recompute"),
    FIELD_NAME_OF("recompute", S, config.recompute, plan_recompute_names, "which layers"),
    FIELD_OF("every", S, config.recompute_every, "layers of which one input is kept"),
    FIELD_NAME_OF("precision", S, config.precision, plan_precision_names, "the mix",
                  .title = "precision"),
    FIELD_OF("valid", S, valid, "no rule refuses it"),
    FIELD_OF("fits", S, fits, "the memory suffices"),
    FIELD_OF("memory_bytes", S, memory.total, "of the fullest GPU", .title = "GiB", .fmt = "%.1f",
             .scale = 1 / 0x1p30),
    FIELD_OF("saved_bytes", S, saved_bytes, "against no recomputation", .title = "saved",
             .fmt = "%+.1f", .scale = 1 / 0x1p30),
    FIELD_OF("step_s", S, step_s, "seconds of a step", .title = "step", .words = text_time),
    FIELD_OF("paid", S, paid, "share that the step is longer", .title = "paid", .fmt = "%+.1f %%",
             .scale = 100),
    FIELD_OF("again", S, again, "what is computed again"),
};
static FIELD_TABLE(trade_table, "option", S, trade_fields);
#undef S

#define S struct recompute_job
static const struct field recompute_fields[] = {
    FIELD_BY(request_json_model),
    FIELD_BY(request_json_best),
    FIELD_OF("limit_bytes", S, limit, "that a GPU has"),
    FIELD_OF("choice", S, chosen, "place in options; null: nothing fits"),
    FIELD_SUBS("options", S, rows, count, &trade_table, "kinds of recomputation and precision"),
};
static FIELD_TABLE(recompute_doc, "stoker.plan-recompute/1", S, recompute_fields);
#undef S

static void recompute_text(struct cmd_ctx *ctx, const struct recompute_job *j)
{
    const struct plan_trade *pick = &j->rows[j->choice < 0 ? 0 : j->choice];
    struct table *t = table_new();

    print_request(ctx, &j->request);
    fields_columns(t, &trade_table);
    table_col(t, "fits", TABLE_LEFT);
    table_col(t, "what is computed again", TABLE_LEFT | TABLE_WRAP);
    for (size_t i = 0; i < j->count; i++) {
        const struct plan_trade *r = &j->rows[i];
        bool chosen = (int)i == j->choice;

        if (!r->valid)
            continue;
        table_row(t);
        fields_cells(t, &trade_table, r, COLOUR_NONE);
        table_cell(t, chosen ? COLOUR_GREEN : COLOUR_NONE, "%s",
                   chosen    ? "the choice"
                   : r->fits ? "yes"
                             : "no");
        table_cell(t, COLOUR_DIM, "%s", r->again);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    if (j->choice < 0)
        print_note(ctx, "\nNothing fits with this cut: 'stoker plan train' searches others.");
    else
        print_note(
            ctx,
            "\n%s recomputation in %s: the fastest that fits %.1f GiB and keeps fp32 master "
            "weights. Saved bytes are of the fullest GPU.%s",
            plan_recompute_names[pick->config.recompute],
            plan_precision_names[pick->config.precision], (double)j->limit / 0x1p30,
            pick->config.precision == PLAN_FP8
                ? " fp8 needs a recipe that was shown to learn as well as bf16 (DeepSeek-V3, "
                  "arXiv 2412.19437, is one); --precision bf16 rows are the safe ones."
                : "");
}

static enum rc run_recompute(struct cmd_ctx *ctx, struct err *err)
{
    const struct recompute_opts *o = ctx->opts;
    struct recompute_job j = { 0 };
    enum rc rc;

    if (request_read(&o->request, &j.request, err))
        return err->code;
    plan_cluster_usual(&j.request.gpu, o->request.gpus ? o->request.gpus : 8, &j.request.cluster);
    j.limit = (uint64_t)((double)j.request.gpu.mem_bytes * (1 - j.request.want.free_share));
    rc = request_best(&j.request, &o->request, err);
    if (rc == RC_OK)
        rc = plan_consts_builtin(&j.request.gpu, &j.k, err);
    if (rc == RC_OK) {
        j.rows = j.row;
        j.count = plan_trades(&j.request.model, &j.request.counts, &j.request.cluster,
                              &j.request.best.config, &j.k, j.limit, j.row, &j.choice);
        j.chosen = j.choice < 0 ? maybe_none() : maybe_of(j.choice);
        if (o->request.json)
            fields_write_report(&ctx->out, &recompute_doc, &j);
        else
            recompute_text(ctx, &j);
        ctx->status = j.choice < 0 ? EXIT_LIMIT : 0;
    }
    request_release(&j.request);
    return rc;
}

#define S recompute_opts
static const struct opt recompute_opts[] = {
    ROW_MODEL(S),
    ROW_GPU(S),
    ROW_NUM(S, "gpus", request.gpus, 1, PLAN_GPUS_MAX, "GPUs in all (default 8)"),
    ROW_SEQ(S),
    ROW_BATCH(S),
    ROW_PRECISION(S),
    ROW_KERNELS(S),
    ROW_OPT(S, 0, "config", STR, request.config, "CONFIG",
            "a cut such as 'tp8 zero1 mbs1 sp' (default: the search's choice)"),
    ROW_JSON(S),
    { 0 },
};
#undef S
static const struct cmd_example recompute_examples[] = {
    { "stoker plan recompute --model llama-3.1-8b --gpus 8 --config 'tp2 zero1 mbs4 sp' --seq 8192",
      "what each kind of recomputation saves and costs" },
    { 0 },
};
const struct cmd cmd_plan_recompute = {
    .name = "recompute",
    .summary = "choose recomputation and precision for a job",
    .operands = "",
    .opts = recompute_opts,
    .opts_size = sizeof(struct recompute_opts),
    .about = "One cut, every granularity of activation checkpointing and every mix of precisions: "
             "bytes a GPU, bytes saved, seconds paid and what is computed again. The fastest that "
             "fits with a tenth of the memory free is the choice. The exit status is 4 when "
             "nothing fits.",
    .examples = recompute_examples,
    .run = run_recompute,
};
