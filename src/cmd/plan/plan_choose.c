/* SPDX-License-Identifier: MIT */
/* stoker plan choose: which GPU for a model, a budget and a use.
 * stoker plan recompute: recomputation and precision for a job: bytes saved, time paid. */
#include "cmd/plan/plan_request_int.h"
#include "plan/cluster_size.h"

#include "base/str.h"

#include <math.h>

static const char *const kinds[] = { "a100-40gb", "a100", "h100", "h200", "b200",
                                     "b300",      "l40s", "4090", "gb200" };
enum { KINDS = ARRAY_SIZE(kinds), LORA_RANK = 16, EXIT_LIMIT = 4 };

enum use { USE_PRETRAIN, USE_FINETUNE, USE_LORA, USE_SERVE };
static const char *const use_names[] = { "pretrain", "finetune", "lora", "serve", NULL };

struct choose_opts {
    struct request_opts request;
    const char *use, *budget, *deadline, *price;
};

struct gpu_choice {
    struct plan_gpu gpu;
    struct plan_sized s;
    bool fits, affordable;
    double usd;    /* of the run; for serving of an hour; NaN: no price */
    double metric; /* days; for serving tokens/s of one stream at most */
    int64_t gpus;
    char why_not[ERR_MSG_MAX];
    /* what is shown: 0 or NaN where it does not fit */
    int64_t sheet_gb, shown_gpus;
    double shown_metric, shown_usd;
    bool shown_affordable;
    const char *remark;
};

struct choose_job {
    struct run_request request;
    enum use use;
    double budget, days; /* 0: none */
    struct gpu_choice row[KINDS], *rows;
    size_t count;
    int best; /* -1: none */
    const char *choice;
};

/* ---- serving: a stream reads every weight for each token ---- */
enum {
    SERVE_GPUS_MAX = 72 /* of one model that is served, where --gpus does not say */
};

/* What servers cut by tensor parallelism: whole heads on each GPU; keys and values of one head may
 * be on several. */
static bool serve_tp_runs(const struct plan_model *m, int64_t tp)
{
    int64_t ffn = m->experts ? m->expert_ffn : m->ffn;
    bool kv = m->kv_lora || m->kv_heads < 1 || m->kv_heads % tp == 0 || tp % m->kv_heads == 0;

    return m->heads % tp == 0 && kv && (ffn % tp == 0 || m->sample_params);
}

/* The fewest: tensor parallelism inside a node, above it a pipeline over nodes that are as full as
 * their size can be cut. */
static void serve_gpus(const struct choose_job *j, double need, double room, struct gpu_choice *c,
                       int64_t *tp)
{
    const struct plan_model *m = &j->request.model;
    struct plan_cluster node;

    plan_cluster_usual(&c->gpu, SERVE_GPUS_MAX, &node);
    *tp = 1;
    for (int64_t n = 1; n <= node.node_gpus; n++) {
        if (!serve_tp_runs(m, n))
            continue;
        *tp = n;
        if ((double)n * room >= need)
            break;
    }
    c->gpus = *tp * (int64_t)ceil(need / ((double)*tp * room));
}

static void serve_choice(const struct choose_job *j, const struct request_opts *o,
                         struct gpu_choice *c)
{
    double weights = 2 * (double)j->request.counts.total,
           active = 2 * (double)j->request.counts.active;
    double room = (double)c->gpu.mem_bytes * 0.9 - plan_memory_default.context_bytes;
    int64_t most = o->gpus ? o->gpus : SERVE_GPUS_MAX, tp;

    serve_gpus(j, weights * 1.2, room, c, &tp); /* a fifth is left for keys and values */
    c->fits = c->gpus <= most;
    c->metric = c->gpu.mem_bytes_s * (double)tp / active; /* stages take turns */
    c->usd = c->gpu.price_usd_h > 0 ? c->gpu.price_usd_h * (double)c->gpus : NAN;
    c->affordable = j->budget <= 0 || c->usd * PLAN_MONTH_H <= j->budget;
    if (!c->fits)
        snprintf(c->why_not, sizeof(c->why_not), "the weights need %lld of them",
                 (long long)c->gpus);
}

static void train_choice(const struct choose_job *j, const struct request_opts *o,
                         struct gpu_choice *c)
{
    struct plan_size_want w = { .best = j->request.want, .days = j->days, .parts = true };
    struct plan_sized before;
    struct err err = { 0 };

    w.campaign.tokens = j->request.tokens;
    w.campaign.price_usd_h = c->gpu.price_usd_h;
    w.most = o->gpus ? o->gpus : j->use == USE_PRETRAIN ? 16384 : 1024;
    if (plan_size_for(&j->request.facts, &j->request.model, &j->request.counts, &c->gpu, &w, &c->s,
                      &before, &err)) {
        str_copy(c->why_not, sizeof(c->why_not), err.msg);
        return;
    }
    c->fits = true;
    c->gpus = c->s.cluster.gpus;
    c->metric = c->s.campaign.days.usual;
    c->usd = c->s.campaign.bill[PLAN_ON_DEMAND].known ? c->s.campaign.bill[PLAN_ON_DEMAND].usd.usual
                                                      : NAN;
    c->affordable = j->budget <= 0 || c->usd <= j->budget;
}

enum { PRICE_WORD_MAX = 128 }; /* bytes of "h100=2.10" */

static int kind_find(const char *alias)
{
    for (int i = 0; i < KINDS; i++)
        if (str_eq(kinds[i], alias))
            return i;
    return -1;
}

/* One of "h100=2.10", of the kind by any of its names. */
static enum rc read_kind_price(const char *word, double usd[KINDS], struct err *err)
{
    const char *equals = strchr(word, '=');
    char name[PRICE_WORD_MAX];
    struct plan_gpu gpu;
    int i;

    if (!equals || equals == word) {
        err_hint(err, "Give dollars an hour, as 2.50, or h100=2.10,h200=3.");
        return err_set(err, RC_USAGE, "option '--price' cannot be '%s'", word);
    }
    snprintf(name, sizeof(name), "%.*s", (int)(equals - word), word);
    if (plan_gpu_by_name(name, &gpu, err))
        return err_ctx(err, "option '--price'");
    i = kind_find(gpu.alias);
    if (i < 0) {
        err_hint(err,
                 "Compared are a100-40gb, a100, h100, h200, b200, b300, l40s, 4090 and gb200.");
        return err_set(err, RC_USAGE,
                       "option '--price': '%s' is none of the GPUs that are compared", name);
    }
    if (usd[i] > 0) {
        err_hint(err, "Leave one of them out.");
        return err_set(err, RC_USAGE, "option '--price' has '%s' twice", kinds[i]);
    }
    return option_money("--price", equals + 1, &usd[i], err);
}

/* "2.50" is of every kind; "h100=2.10,h200=3" of those it names; 0: the catalogue's. */
static enum rc read_prices(const char *text, double usd[KINDS], struct err *err)
{
    const char *p = text;
    double all;

    if (!strchr(text, '=')) {
        if (option_money("--price", text, &all, err))
            return err->code;
        for (int i = 0; i < KINDS; i++)
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

/* What a data sheet says: the name's where it has a size, else the whole GiB above what a program
 * can have. */
static int sheet_gigabytes(const struct plan_gpu *g)
{
    const char *gb = strstr(g->name, "GB");
    const char *digits = gb;

    while (digits && digits > g->name && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    if (gb && digits < gb)
        return (int)strtol(digits, NULL, 10);
    return (int)ceil((double)g->mem_bytes / 0x1p30);
}

/* The cheapest that does what is asked; without prices the fewest GPUs. */
static bool choice_is_better(const struct gpu_choice *a, const struct gpu_choice *b)
{
    if (isnan(a->usd) != isnan(b->usd))
        return !isnan(a->usd);
    return isnan(a->usd) ? a->gpus < b->gpus : a->usd < b->usd;
}

static enum rc choose_gpu(const struct choose_opts *o, struct choose_job *j, struct err *err)
{
    double seconds = 0, usd[KINDS] = { 0 };

    if ((o->price && read_prices(o->price, usd, err)) ||
        (o->budget && option_money("--budget", o->budget, &j->budget, err)) ||
        (o->deadline && option_seconds("--deadline", o->deadline, &seconds, err)))
        return err->code;
    j->days = seconds / PLAN_DAY_S;
    if (!j->request.tokens_given && j->use != USE_PRETRAIN)
        j->request.tokens = 1e9;
    j->best = -1;
    j->rows = j->row;
    j->count = KINDS;
    for (int i = 0; i < KINDS; i++) {
        struct gpu_choice *c = &j->rows[i];

        if (plan_gpu_by_name(kinds[i], &c->gpu, err))
            return err->code;
        if (usd[i] > 0) {
            c->gpu.price_usd_h = usd[i];
            str_copy(c->gpu.price_date, sizeof(c->gpu.price_date), "given");
        }
        if (j->use == USE_SERVE)
            serve_choice(j, &o->request, c);
        else
            train_choice(j, &o->request, c);
        if (c->fits && c->affordable && (j->best < 0 || choice_is_better(c, &j->rows[j->best])))
            j->best = i;
    }
    for (int i = 0; i < KINDS; i++) {
        struct gpu_choice *c = &j->rows[i];

        c->sheet_gb = sheet_gigabytes(&c->gpu);
        c->shown_gpus = c->fits ? c->gpus : 0;
        c->shown_metric = c->fits ? c->metric : (double)NAN;
        c->shown_usd = c->fits ? c->usd : (double)NAN;
        c->shown_affordable = c->fits && c->affordable;
        c->remark = i == j->best     ? "the choice"
                    : !c->fits       ? c->why_not
                    : !c->affordable ? isnan(c->usd) ? "no price is known" : "above the budget"
                                     : "";
    }
    j->choice = j->best < 0 ? NULL : j->rows[j->best].gpu.alias;
    return RC_OK;
}

/* ---- figures ---- */
#define S struct gpu_choice
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
        FIELD_OF("gpus", S, shown_gpus, "the fewest", .title = "GPUs", .above_0 = true),           \
        FIELD_OF(metric_key, S, shown_metric, metric_doc, .title = (metric_title),                 \
                 .words = text_short),                                                             \
        FIELD_OF(usd_key, S, shown_usd, usd_doc, .title = (usd_title), .words = text_usd),         \
        FIELD_OF("affordable", S, shown_affordable, "it is within the budget"),                    \
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
        FIELD_NAME_OF("use", S, use, use_names, "what for"),                                       \
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
    const struct gpu_choice *c = &j->rows[j->best < 0 ? 0 : j->best], *next = NULL;
    char a[FIELD_TEXT_MAX], b[FIELD_TEXT_MAX];

    if (j->best < 0) {
        print_note(ctx,
                   "\nNone of them does it: a larger budget, a later deadline or a smaller model "
                   "would.");
        return;
    }
    for (int i = 0; i < KINDS; i++)
        if (i != j->best && j->rows[i].fits && j->rows[i].affordable &&
            (!next || choice_is_better(&j->rows[i], next)))
            next = &j->rows[i];
    print_note(ctx, "\n%s: %lld of them %s %s%s for the least money%s.", c->gpu.name,
               (long long)c->gpus, c->gpus == 1 ? "holds" : "hold", j->request.model.name,
               j->days > 0 ? ", in time," : "",
               isnan(c->usd) ? " that is known (no price: the fewest GPUs)" : "");
    if (next && !isnan(next->usd) && !isnan(c->usd))
        print_note(ctx, "The runner-up is %s: %s against %s.", next->gpu.name,
                   text_usd(next->usd, a), text_usd(c->usd, b));
    if (str_eq(c->gpu.price_date, "given"))
        print_note(ctx, "The price is the one that was given.");
    else
        print_note(ctx, "Prices are of %s and vary between clouds by a factor of two to three.",
                   c->gpu.price_date[0] ? c->gpu.price_date : "no date");
    if (j->use == USE_SERVE)
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
            j->use == USE_LORA       ? "Adapters of rank 16"
            : j->use == USE_FINETUNE ? "All weights, fine-tuning"
                                     : "All weights",
            text_short(j->request.tokens, a), (long long)j->request.want.seq,
            j->days > 0 ? "are in time" : "hold the job");
}

static enum rc run_choose(struct cmd_ctx *ctx, struct err *err)
{
    const struct choose_opts *o = ctx->opts;
    struct request_opts request = o->request;
    struct choose_job *j;
    struct run_request a;
    enum rc rc;
    int use = 0;

    use = plan_name_place(use_names, o->use, USE_PRETRAIN);
    if (use == USE_LORA)
        request.lora = LORA_RANK;
    if (!request.batch && use != USE_PRETRAIN)
        request.batch = 64;
    if (request_read(&request, &a, err))
        return err->code;
    j = arena_new(&a.arena, struct choose_job);
    j->request = a;
    j->use = (enum use)use;
    rc = choose_gpu(o, j, err);
    if (rc == RC_OK && j->best < 0)
        ctx->status = EXIT_LIMIT;
    if (rc == RC_OK && o->request.json) {
        fields_write_report(&ctx->out, use == USE_SERVE ? &choose_serve_doc : &choose_train_doc, j);
    } else if (rc == RC_OK) {
        fields_print(&ctx->out, &ctx->out_term, use == USE_SERVE ? &serve_table : &train_table,
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

/* ---- recompute ---- */
struct recompute_opts {
    struct request_opts request;
};

struct trade {
    struct plan_config config;
    struct plan_memory memory;
    struct plan_time time;
    bool valid, fits;
    int64_t saved_bytes;
    double step_s, paid; /* NaN: not valid */
    char name[32];       /* "full, in 2" */
    const char *again;
};
enum { TRADES_MAX = 12 };

struct recompute_job {
    struct run_request request; /* first: see request_json_best() */
    struct plan_consts k;
    uint64_t limit;
    struct trade row[TRADES_MAX], *rows;
    size_t count;
    int choice; /* -1: nothing fits */
    struct maybe chosen;
};

static const char *what_again(const struct plan_config *c)
{
    if (c->recompute == PLAN_RECOMPUTE_FULL)
        return c->recompute_every == 1 ? "every layer: its input is kept, all else computed again"
                                       : "groups of layers: one input kept a group";
    if (c->recompute == PLAN_RECOMPUTE_SELECTIVE)
        return "scores and softmax of attention";
    switch (c->precision) {
    case PLAN_BF16_GRADS:
        return "nothing; gradients in 16 bits";
    case PLAN_PURE16:
        return "nothing; all states in 16 bits: small updates are lost";
    case PLAN_FP8:
        return "nothing; products in fp8";
    case PLAN_FP32:
        return "nothing; all in fp32, without TF32";
    default:
        return "nothing";
    }
}

static void trade_add(struct recompute_job *j, enum plan_recompute rc, int32_t every,
                      enum plan_precision p)
{
    struct trade *t = &j->rows[j->count++];

    t->config = j->request.best.config;
    t->config.recompute = rc;
    t->config.recompute_every = every;
    t->config.precision = p;
    t->again = what_again(&t->config);
    if (every > 1)
        snprintf(t->name, sizeof(t->name), "full, in %d", every);
    else
        snprintf(t->name, sizeof(t->name), "%s", plan_recompute_names[rc]);
    t->step_s = t->paid = (double)NAN;
    t->valid = plan_config_rule(&j->request.model, &j->request.cluster, &t->config) == PLAN_RULE_OK;
    if (!t->valid)
        return;
    plan_memory_of(&j->request.model, &j->request.counts, &t->config, &j->k.memory, &t->memory);
    plan_time_of(&j->request.model, &j->request.counts, &j->request.cluster, &t->config, &j->k,
                 &t->time);
    t->fits = t->memory.total <= j->limit;
    t->saved_bytes = (int64_t)j->rows[0].memory.total - (int64_t)t->memory.total;
    t->step_s = t->time.step_s;
    t->paid = t->step_s / j->rows[0].time.step_s - 1;
}

static void trades_of(struct recompute_job *j)
{
    enum plan_precision p = j->request.best.config.precision;

    j->rows = j->row;
    trade_add(j, PLAN_RECOMPUTE_NONE, 1, p);
    trade_add(j, PLAN_RECOMPUTE_SELECTIVE, 1, p);
    trade_add(j, PLAN_RECOMPUTE_FULL, 1, p);
    for (int32_t every = 2; every <= 8; every *= 2)
        trade_add(j, PLAN_RECOMPUTE_FULL, every, p);
    trade_add(j, PLAN_RECOMPUTE_NONE, 1, PLAN_BF16_GRADS);
    trade_add(j, PLAN_RECOMPUTE_NONE, 1, PLAN_PURE16);
    if (j->request.cluster.gpu.fp8_flops > 0)
        trade_add(j, PLAN_RECOMPUTE_NONE, 1, PLAN_FP8);
    trade_add(j, PLAN_RECOMPUTE_NONE, 1, PLAN_FP32);
    j->choice = -1;
    for (size_t i = 0; i < j->count; i++) {
        const struct trade *t = &j->rows[i];
        bool same = t->config.precision == p || t->config.precision == PLAN_FP8;

        /* the choice keeps fp32 master weights: pure 16 bits learn differently */
        if (t->valid && t->fits && same &&
            (j->choice < 0 || t->time.step_s < j->rows[j->choice].time.step_s))
            j->choice = (int)i;
    }
    j->chosen = j->choice < 0 ? maybe_none() : maybe_of(j->choice);
}

#define S struct trade
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
    const struct trade *pick = &j->rows[j->choice < 0 ? 0 : j->choice];
    struct table *t = table_new();

    print_request(ctx, &j->request);
    fields_columns(t, &trade_table);
    table_col(t, "fits", TABLE_LEFT);
    table_col(t, "what is computed again", TABLE_LEFT | TABLE_WRAP);
    for (size_t i = 0; i < j->count; i++) {
        const struct trade *r = &j->rows[i];
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
        trades_of(&j);
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
