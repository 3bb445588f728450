/* SPDX-License-Identifier: MIT */
/* stoker plan choose: which GPU for a model, a budget and a use. */
#include "cmd/plan/plan_request_int.h"
#include "plan/choices.h"

#include "base/str.h"

#include <math.h>

enum { LORA_RANK = 16, EXIT_LIMIT = 4 };

struct choose_opts {
    struct request_opts request;
    const char *use, *budget, *deadline, *price;
};

struct choose_job {
    struct run_request request;
    struct plan_choice_want want;
    struct plan_gpu_choice row[PLAN_CHOICES], *rows;
    size_t count;
    int best, next; /* -1: none */
    const char *choice;
};

enum { PRICE_WORD_MAX = 128 }; /* bytes of "h100=2.10" */

/* One of "h100=2.10", of the kind by any of its names. */
static enum rc read_kind_price(const char *word, double usd[PLAN_CHOICES], struct err *err)
{
    const char *equals = strchr(word, '=');
    char name[PRICE_WORD_MAX];
    struct plan_gpu gpu;
    int i = 0;

    if (!equals || equals == word) {
        err_hint(err, "Give dollars an hour, as 2.50, or h100=2.10,h200=3.");
        return err_set(err, RC_USAGE, "option '--price' cannot be '%s'", word);
    }
    snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
    if (plan_gpu_by_name(name, &gpu, err))
        return err_ctx(err, "option '--price'");
    while (i < PLAN_CHOICES && !str_eq(plan_choice_kinds[i], gpu.alias))
        i++;
    if (i == PLAN_CHOICES) {
        err_hint(err,
                 "Compared are a100-40gb, a100, h100, h200, b200, b300, l40s, 4090 and gb200.");
        return err_set(err, RC_USAGE,
                       "option '--price': '%s' is none of the GPUs that are compared", name);
    }
    if (usd[i] > 0) {
        err_hint(err, "Leave one of them out.");
        return err_set(err, RC_USAGE, "option '--price' has '%s' twice", plan_choice_kinds[i]);
    }
    return option_money("--price", equals + 1, &usd[i], err);
}

/* "2.50" is of every kind; "h100=2.10,h200=3" of those it names; 0: the catalogue's. */
static enum rc read_prices(const char *text, double usd[PLAN_CHOICES], struct err *err)
{
    const char *p = text;
    double all;

    if (!strchr(text, '=')) {
        if (option_money("--price", text, &all, err))
            return err->code;
        for (int i = 0; i < PLAN_CHOICES; i++)
            usd[i] = all;
        return RC_OK;
    }
    for (;;) {
        size_t len = strcspn(p, ",");
        char word[PRICE_WORD_MAX];

        while (*p == ' ') {
            p++;
            len--;
        }
        snprintf(word, sizeof(word), "%.*s", (int)len, p);
        if (read_kind_price(word, usd, err))
            return err->code;
        if (!p[len])
            return RC_OK;
        p += len + 1;
    }
}

static enum rc choose_gpu(const struct choose_opts *o, struct choose_job *j, struct err *err)
{
    struct plan_choice_want *w = &j->want;
    double seconds = 0;

    if ((o->price && read_prices(o->price, w->usd, err)) ||
        (o->budget && option_money("--budget", o->budget, &w->budget, err)) ||
        (o->deadline && option_seconds("--deadline", o->deadline, &seconds, err)))
        return err->code;
    if (!j->request.tokens_given && w->use != PLAN_USE_PRETRAIN)
        j->request.tokens = 1e9;
    w->facts = &j->request.facts;
    w->model = &j->request.model;
    w->counts = &j->request.counts;
    w->best = &j->request.want;
    w->tokens = j->request.tokens;
    w->days = seconds / PLAN_DAY_S;
    w->most = o->request.gpus;
    j->rows = j->row;
    j->count = PLAN_CHOICES;
    if (plan_gpu_choices(w, j->row, &j->best, &j->next, err))
        return err->code;
    j->choice = j->best < 0 ? NULL : j->rows[j->best].gpu.alias;
    return RC_OK;
}

/* ---- figures ---- */
#define S struct plan_gpu_choice
#define CHOICE_FIELDS(metric_key, metric_doc, metric_title, usd_key, usd_doc, usd_title)           \
    FIELD_OF("gpu", S, gpu.alias, "kind of GPU", .title = "GPU", .flags = TABLE_WHOLE),            \
        FIELD_OF(NULL, S, sheet_gb, "", .title = "GB"),                                            \
        FIELD_OF("memory_bytes", S, gpu.mem_bytes, "that a program can have"),                     \
        FIELD_OF("memory_bytes_s", S, gpu.mem_bytes_s, "bandwidth", .title = "TB/s",               \
                 .fmt = "%.2f", .scale = 1e-12),                                                   \
        FIELD_OF("bf16_flops", S, gpu.bf16_flops, "FLOP/s, dense", .title = "bf16 TFLOP/s",        \
                 .scale = 1e-12),                                                                  \
        FIELD_OF("link_bytes_s", S, gpu.link_bytes_s, "NVLink, one direction; 0: none"),           \
        FIELD_OF(NULL, S, gpu.link_bytes_s, "", .title = "link GB/s", .scale = 1e-9,               \
                 .above_0 = true),                                                                 \
        FIELD_OF("usd_gpu_hour", S, gpu.price_usd_h, "dollars a GPU-hour", .title = "$/h",         \
                 .fmt = "%.2f", .above_0 = true),                                                  \
        FIELD_OF("price_date", S, gpu.price_date, "of that price"),                                \
        FIELD_OF("fits", S, fits, "some number of them does it"),                                  \
        FIELD_OF("gpus", S, gpus, "the fewest", .title = "GPUs", .above_0 = true),                 \
        FIELD_OF(metric_key, S, metric, metric_doc, .title = (metric_title), .words = text_short), \
        FIELD_OF(usd_key, S, usd, usd_doc, .title = (usd_title), .words = text_usd),               \
        FIELD_OF("affordable", S, affordable, "it is within the budget"),                          \
        FIELD_OF(NULL, S, remark, "", .title = "", .flags = TABLE_WRAP, .colour = COLOUR_DIM)
static const struct field train_fields[] = {
    CHOICE_FIELDS("days", "of the run", "days", "usd", "dollars of the run", "cost"),
};
static FIELD_TABLE(train_table, "kind of GPU", S, train_fields);
static const struct field serve_fields[] = {
    CHOICE_FIELDS("tokens_s_most", "of one stream, at most", "tokens/s at most", "usd_hour",
                  "dollars an hour of all", "$/h in all"),
};
static FIELD_TABLE(serve_table, "kind of GPU that serves", S, serve_fields);
#undef S

#define S struct choose_job
#define CHOOSE_FIELDS(table)                                                                       \
    FIELD_OF("model", S, request.model.name, "that is trained or served"),                         \
        FIELD_NAME_OF("use", S, want.use, plan_use_names, "what for"),                             \
        FIELD_OF("choice", S, choice, "the cheapest that does it; null: none does"),               \
        FIELD_SUBS("gpus", S, rows, count, table, "kinds that were compared")
static const struct field choose_train_fields[] = { CHOOSE_FIELDS(&train_table) };
static FIELD_TABLE(choose_train_doc, "stoker.plan-choose/1", S, choose_train_fields);
static const struct field choose_serve_fields[] = { CHOOSE_FIELDS(&serve_table) };
static FIELD_TABLE(choose_serve_doc, "stoker.plan-choose/1", S, choose_serve_fields);
#undef S

/* ---- text ---- */
static void choose_reason(struct cmd_ctx *ctx, const struct choose_job *j)
{
    const struct plan_gpu_choice *c = &j->rows[j->best < 0 ? 0 : j->best];
    const struct plan_gpu_choice *next = j->next < 0 ? NULL : &j->rows[j->next];
    char a[FIELD_TEXT_MAX], b[FIELD_TEXT_MAX];

    if (j->best < 0) {
        print_note(ctx,
                   "\nNone of them does it: a larger budget, a later deadline or a smaller model "
                   "would.");
        return;
    }
    print_note(ctx, "\n%s: %lld of them %s %s%s for the least money%s.", c->gpu.name,
               (long long)c->gpus, c->gpus == 1 ? "holds" : "hold", j->request.model.name,
               j->want.days > 0 ? ", in time," : "",
               isnan(c->usd) ? " that is known (no price: the fewest GPUs)" : "");
    if (next && !isnan(next->usd) && !isnan(c->usd))
        print_note(ctx, "The runner-up is %s: %s against %s.", next->gpu.name,
                   text_usd(next->usd, a), text_usd(c->usd, b));
    if (str_eq(c->gpu.price_date, "given"))
        print_note(ctx, "The price is the one that was given.");
    else
        print_note(ctx, "Prices are of %s and vary between clouds by a factor of two to three.",
                   c->gpu.price_date[0] ? c->gpu.price_date : "no date");
    if (j->want.use == PLAN_USE_SERVE)
        print_note(ctx,
                   "Tokens/s are the bound of one stream: memory bandwidth over the bytes of "
                   "active weights. 16-bit weights, a fifth of their size for keys and values. "
                   "GPUs: tensor parallelism inside a node, in a size that divides heads and "
                   "MLP, and a pipeline over nodes.");
    else
        print_note(
            ctx,
            "%s, %s tokens in sequences of %lld, 5 %% of memory kept free; the fewest "
            "GPUs of a node, or whole nodes, that %s. GPUs without published runs take another's "
            "constants.",
            j->want.use == PLAN_USE_LORA       ? "Adapters of rank 16"
            : j->want.use == PLAN_USE_FINETUNE ? "All weights, fine-tuning"
                                               : "All weights",
            text_short(j->request.tokens, a), (long long)j->request.want.seq,
            j->want.days > 0 ? "are in time" : "hold the job");
}

static enum rc run_choose(struct cmd_ctx *ctx, struct err *err)
{
    const struct choose_opts *o = ctx->opts;
    struct request_opts request = o->request;
    struct choose_job *j;
    struct run_request a;
    enum rc rc;
    int use = plan_name_place(plan_use_names, o->use, PLAN_USE_PRETRAIN);
    if (use == PLAN_USE_LORA)

        request.lora = LORA_RANK;
    if (!request.batch && use != PLAN_USE_PRETRAIN)
        request.batch = 64;
    if (request_read(&request, &a, err))
        return err->code;
    j = arena_new(&a.arena, struct choose_job);
    j->request = a;
    j->want.use = (enum plan_use)use;
    rc = choose_gpu(o, j, err);
    if (rc == RC_OK && j->best < 0)
        ctx->status = EXIT_LIMIT;
    if (rc == RC_OK && o->request.json) {
        fields_write_report(&ctx->out,
                            use == PLAN_USE_SERVE ? &choose_serve_doc : &choose_train_doc, j);
    } else if (rc == RC_OK) {
        fields_print(&ctx->out, &ctx->out_term, use == PLAN_USE_SERVE ? &serve_table : &train_table,
                     j->rows, j->count, j->best);
        choose_reason(ctx, j);
    }
    request_release(&a);
    return rc;
}

#define S choose_opts
static const struct opt choose_opts[] = {
    ROW_MODEL(S),
    { 'u', "use", OPT_STR, offsetof(struct S, use), "WHICH", "pretrain|finetune|lora|serve", 0, 0,
      "pretrain (default), finetune, lora or serve" },
    ROW_OPT(S, 'b', "budget", STR, budget, "DOLLARS",
            "of the run; for serving of a month, as 40K or 1.5M"),
    ROW_OPT(S, 'd', "deadline", STR, deadline, "TIME", "as 14d"),
    ROW_OPT(S, 0, "price", STR, price, "DOLLARS",
            "of a GPU-hour, for all kinds, or as h100=2.10,h200=3 (default: the catalogue's)"),
    ROW_TOKENS(S),
    ROW_NUM(S, "gpus", request.gpus, 1, PLAN_GPUS_MAX, "at most so many GPUs"),
    ROW_SEQ(S),
    ROW_BATCH(S),
    ROW_PRECISION(S),
    ROW_KERNELS(S),
    ROW_JSON(S),
    { 0 },
};
#undef S
static const struct cmd_example choose_examples[] = {
    { "stoker plan choose --model llama-3.1-8b --use finetune --budget 2K",
      "which GPU to fine-tune on for 2000 dollars" },
    { "stoker plan choose --model llama-3.1-70b --use serve", "which to serve it on" },
    { 0 },
};
const struct cmd cmd_plan_choose = {
    .name = "choose",
    .summary = "choose a kind of GPU for a model, a budget and a use",
    .operands = "",
    .opts = choose_opts,
    .opts_size = sizeof(struct choose_opts),
    .about = "Compares the GPUs of the catalogue by memory, bandwidth, matrix rate, link and "
             "price, finds for each the fewest that do the work, and takes the cheapest. "
             "Fine-tuning takes 1B tokens where --tokens does not say, adapters have rank 16. "
             "The exit status is 4 when no kind does it.",
    .examples = choose_examples,
    .run = run_choose,
};
