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
    struct ask_opts ask;
    const char *use, *budget, *deadline, *price;
};

struct choice {
    struct plan_gpu gpu;
    struct plan_sized s;
    bool fits, affordable, in_time;
    double usd;    /* of the run; for serving of an hour; NaN: no price */
    double metric; /* days; for serving tokens/s of one stream at most */
    int64_t gpus;
    char why_not[ERR_MSG_MAX];
};

struct choose_job {
    struct ask ask;
    enum use use;
    double budget, days; /* 0: none */
    struct choice rows[KINDS];
    int best; /* -1: none */
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
static void serve_gpus(const struct choose_job *j, double need, double room, struct choice *c,
                       int64_t *tp)
{
    const struct plan_model *m = &j->ask.model;
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

static void serve_choice(const struct choose_job *j, const struct ask_opts *o, struct choice *c)
{
    double weights = 2 * (double)j->ask.counts.total, active = 2 * (double)j->ask.counts.active;
    double room = (double)c->gpu.mem_bytes * 0.9 - plan_memory_default.context_bytes;
    int64_t most = o->gpus ? o->gpus : SERVE_GPUS_MAX, tp;

    serve_gpus(j, weights * 1.2, room, c, &tp); /* a fifth is left for keys and values */
    c->fits = c->gpus <= most;
    c->metric = c->gpu.mem_bytes_s * (double)tp / active; /* stages take turns */
    c->usd = c->gpu.price_usd_h > 0 ? c->gpu.price_usd_h * (double)c->gpus : NAN;
    c->affordable = j->budget <= 0 || c->usd * PLAN_MONTH_H <= j->budget;
    c->in_time = true;
    if (!c->fits)
        snprintf(c->why_not, sizeof(c->why_not), "the weights need %lld of them",
                 (long long)c->gpus);
}

static void train_choice(const struct choose_job *j, const struct ask_opts *o, struct choice *c)
{
    struct plan_size_want w = { .best = j->ask.want, .days = j->days, .parts = true };
    struct plan_sized before;
    struct err err = { 0 };

    w.campaign.tokens = j->ask.tokens;
    w.campaign.price_usd_h = c->gpu.price_usd_h;
    w.most = o->gpus ? o->gpus : j->use == USE_PRETRAIN ? 16384 : 1024;
    if (plan_size_for(&j->ask.facts, &j->ask.model, &j->ask.counts, &c->gpu, &w, &c->s, &before,
                      &err)) {
        str_copy(c->why_not, sizeof(c->why_not), err.msg);
        return;
    }
    c->fits = c->in_time = true;
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
    return ask_money("--price", equals + 1, &usd[i], err);
}

/* "2.50" is of every kind; "h100=2.10,h200=3" of those it names; 0: the catalogue's. */
static enum rc read_prices(const char *text, double usd[KINDS], struct err *err)
{
    const char *p = text;
    double all;

    if (!strchr(text, '=')) {
        if (ask_money("--price", text, &all, err))
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
static bool better(const struct choice *a, const struct choice *b)
{
    if (isnan(a->usd) != isnan(b->usd))
        return !isnan(a->usd);
    return isnan(a->usd) ? a->gpus < b->gpus : a->usd < b->usd;
}

static enum rc choose(const struct choose_opts *o, struct choose_job *j, struct err *err)
{
    double seconds = 0, usd[KINDS] = { 0 };

    if ((o->price && read_prices(o->price, usd, err)) ||
        (o->budget && ask_money("--budget", o->budget, &j->budget, err)) ||
        (o->deadline && ask_seconds("--deadline", o->deadline, &seconds, err)))
        return err->code;
    j->days = seconds / PLAN_DAY_S;
    if (!j->ask.tokens_given && j->use != USE_PRETRAIN)
        j->ask.tokens = 1e9;
    j->best = -1;
    for (int i = 0; i < KINDS; i++) {
        struct choice *c = &j->rows[i];

        if (plan_gpu_by_name(kinds[i], &c->gpu, err))
            return err->code;
        if (usd[i] > 0) {
            c->gpu.price_usd_h = usd[i];
            str_copy(c->gpu.price_date, sizeof(c->gpu.price_date), "given");
        }
        if (j->use == USE_SERVE)
            serve_choice(j, &o->ask, c);
        else
            train_choice(j, &o->ask, c);
        if (c->fits && c->affordable && (j->best < 0 || better(c, &j->rows[j->best])))
            j->best = i;
    }
    return RC_OK;
}

/* ---- text ---- */
static void choose_table(struct cmd_ctx *ctx, const struct choose_job *j)
{
    bool serve = j->use == USE_SERVE;
    const struct {
        const char *title;
        int flags;
    } cols[] = {
        { "GPU", TABLE_LEFT | TABLE_WHOLE },
        { "GB", TABLE_RIGHT },
        { "TB/s", TABLE_RIGHT },
        { "bf16 TFLOP/s", TABLE_RIGHT },
        { "link GB/s", TABLE_RIGHT },
        { "$/h", TABLE_RIGHT },
        { "GPUs", TABLE_RIGHT },
        { serve ? "tokens/s at most" : "days", TABLE_RIGHT },
        { serve ? "$/h in all" : "cost", TABLE_RIGHT },
        { "", TABLE_LEFT | TABLE_WRAP },
    };
    struct table *t = table_new();
    char v[ASK_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(cols); i++)
        table_col(t, cols[i].title, cols[i].flags);
    for (int i = 0; i < KINDS; i++) {
        const struct choice *c = &j->rows[i];

        table_row(t);
        table_cell(t, i == j->best ? COLOUR_BOLD : COLOUR_NONE, "%s", c->gpu.alias);
        table_cell(t, COLOUR_NONE, "%d", sheet_gigabytes(&c->gpu));
        table_cell(t, COLOUR_NONE, "%.2f", c->gpu.mem_bytes_s / 1e12);
        table_cell(t, COLOUR_NONE, "%.0f", c->gpu.bf16_flops / 1e12);
        table_cell(t, COLOUR_NONE, c->gpu.link_bytes_s > 0 ? "%.0f" : "-",
                   c->gpu.link_bytes_s / 1e9);
        table_cell(t, COLOUR_NONE, c->gpu.price_usd_h > 0 ? "%.2f" : "-", c->gpu.price_usd_h);
        table_cell(t, COLOUR_NONE, c->fits ? "%lld" : "-", (long long)c->gpus);
        table_cell(t, COLOUR_NONE, "%s", c->fits ? ask_short(c->metric, v) : "-");
        table_cell(t, COLOUR_NONE, "%s", c->fits && !isnan(c->usd) ? ask_usd(c->usd, v) : "-");
        table_cell(t, COLOUR_DIM, "%s",
                   i == j->best     ? "the choice"
                   : !c->fits       ? c->why_not
                   : !c->affordable ? isnan(c->usd) ? "no price is known" : "above the budget"
                                    : "");
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void choose_reason(struct cmd_ctx *ctx, const struct choose_job *j)
{
    const struct choice *c = &j->rows[j->best < 0 ? 0 : j->best], *next = NULL;
    char a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    if (j->best < 0) {
        ask_note(ctx,
                 "\nNone of them does it: a larger budget, a later deadline or a smaller model "
                 "would.");
        return;
    }
    for (int i = 0; i < KINDS; i++)
        if (i != j->best && j->rows[i].fits && j->rows[i].affordable &&
            (!next || better(&j->rows[i], next)))
            next = &j->rows[i];
    ask_note(ctx, "\n%s: %lld of them %s %s%s for the least money%s.", c->gpu.name,
             (long long)c->gpus, c->gpus == 1 ? "holds" : "hold", j->ask.model.name,
             j->days > 0 ? ", in time," : "",
             isnan(c->usd) ? " that is known (no price: the fewest GPUs)" : "");
    if (next && !isnan(next->usd) && !isnan(c->usd))
        ask_note(ctx, "The runner-up is %s: %s against %s.", next->gpu.name, ask_usd(next->usd, a),
                 ask_usd(c->usd, b));
    if (str_eq(c->gpu.price_date, "given"))
        ask_note(ctx, "The price is the one that was given.");
    else
        ask_note(ctx, "Prices are of %s and vary between clouds by a factor of two to three.",
                 c->gpu.price_date[0] ? c->gpu.price_date : "no date");
    if (j->use == USE_SERVE)
        ask_note(ctx, "Tokens/s are the bound of one stream: memory bandwidth over the bytes of "
                      "active weights. 16-bit weights, a fifth of their size for keys and values. "
                      "GPUs: tensor parallelism inside a node, in a size that divides heads and "
                      "MLP, and a pipeline over nodes.");
    else
        ask_note(
            ctx,
            "%s, %s tokens in sequences of %lld, 5 %% of memory kept free; the fewest "
            "GPUs of a node, or whole nodes, that %s. GPUs without published runs take another's "
            "constants.",
            j->use == USE_LORA       ? "Adapters of rank 16"
            : j->use == USE_FINETUNE ? "All weights, fine-tuning"
                                     : "All weights",
            ask_short(j->ask.tokens, a), (long long)j->ask.want.seq,
            j->days > 0 ? "are in time" : "hold the job");
}

static void choose_json(struct cmd_ctx *ctx, const struct choose_job *j)
{
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.plan-choose/1");
    json_kv_str(&w, "model", j->ask.model.name);
    json_kv_str(&w, "use", use_names[j->use]);
    json_kv_str(&w, "choice", j->best < 0 ? NULL : j->rows[j->best].gpu.alias);
    json_key(&w, "gpus");
    json_arr(&w);
    for (int i = 0; i < KINDS; i++) {
        const struct choice *c = &j->rows[i];

        json_obj(&w);
        json_kv_str(&w, "gpu", c->gpu.alias);
        json_kv_int(&w, "memory_bytes", c->gpu.mem_bytes);
        ask_json_num(&w, "memory_bytes_s", c->gpu.mem_bytes_s);
        ask_json_num(&w, "bf16_flops", c->gpu.bf16_flops);
        ask_json_num(&w, "link_bytes_s", c->gpu.link_bytes_s);
        ask_json_num(&w, "usd_gpu_hour", c->gpu.price_usd_h > 0 ? c->gpu.price_usd_h : NAN);
        json_kv_str(&w, "price_date", c->gpu.price_date);
        json_kv_bool(&w, "fits", c->fits);
        json_kv_maybe(&w, "gpus", c->fits ? maybe_of(c->gpus) : maybe_none());
        ask_json_num(&w, j->use == USE_SERVE ? "tokens_s_most" : "days", c->fits ? c->metric : NAN);
        ask_json_num(&w, j->use == USE_SERVE ? "usd_hour" : "usd", c->fits ? c->usd : NAN);
        json_kv_bool(&w, "affordable", c->fits && c->affordable);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_obj_end(&w);
    buf_addc(&ctx->out, '\n');
}

static enum rc run_choose(struct cmd_ctx *ctx, struct err *err)
{
    const struct choose_opts *o = ctx->opts;
    struct ask_opts ask = o->ask;
    struct choose_job *j;
    struct ask a;
    enum rc rc;
    int use = 0;

    while (o->use && use_names[use] && !str_eq(use_names[use], o->use))
        use++;
    if (use == USE_LORA)
        ask.lora = LORA_RANK;
    if (!ask.batch && use != USE_PRETRAIN)
        ask.batch = 64;
    if (ask_read(&ask, &a, err))
        return err->code;
    j = arena_new(&a.arena, struct choose_job);
    j->ask = a;
    j->use = (enum use)use;
    rc = choose(o, j, err);
    if (rc == RC_OK && j->best < 0)
        ctx->status = EXIT_LIMIT;
    if (rc == RC_OK && o->ask.json) {
        choose_json(ctx, j);
    } else if (rc == RC_OK) {
        choose_table(ctx, j);
        choose_reason(ctx, j);
    }
    ask_release(&a);
    return rc;
}

#define S choose_opts
static const struct opt choose_opts[] = {
    ASK_MODEL(S),
    { 'u', "use", OPT_STR, offsetof(struct S, use), "WHICH", "pretrain|finetune|lora|serve", 0, 0,
      "pretrain (default), finetune, lora or serve" },
    ASK_OPT(S, 'b', "budget", STR, budget, "DOLLARS",
            "of the run; for serving of a month, as 40K or 1.5M"),
    ASK_OPT(S, 'd', "deadline", STR, deadline, "TIME", "as 14d"),
    ASK_OPT(S, 0, "price", STR, price, "DOLLARS",
            "of a GPU-hour, for all kinds, or as h100=2.10,h200=3 (default: the catalogue's)"),
    ASK_TOKENS(S),
    ASK_NUM(S, "gpus", ask.gpus, 1, PLAN_GPUS_MAX, "at most so many GPUs"),
    ASK_SEQ(S),
    ASK_BATCH(S),
    ASK_PRECISION(S),
    ASK_KERNELS(S),
    ASK_JSON(S),
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
    struct ask_opts ask;
};

struct trade {
    struct plan_config config;
    struct plan_memory memory;
    struct plan_time time;
    bool valid, fits;
};
enum { TRADES_MAX = 12 };

struct recompute_job {
    struct ask ask;
    struct plan_cluster cluster;
    struct plan_best best;
    struct plan_consts k;
    uint64_t limit;
    struct trade rows[TRADES_MAX];
    size_t count;
    int choice; /* -1: nothing fits */
};

static void trade_add(struct recompute_job *j, enum plan_recompute rc, int32_t every,
                      enum plan_precision p)
{
    struct trade *t = &j->rows[j->count++];

    t->config = j->best.config;
    t->config.recompute = rc;
    t->config.recompute_every = every;
    t->config.precision = p;
    t->valid = plan_config_rule(&j->ask.model, &j->cluster, &t->config) == PLAN_RULE_OK;
    if (!t->valid)
        return;
    plan_memory_of(&j->ask.model, &j->ask.counts, &t->config, &j->k.memory, &t->memory);
    plan_time_of(&j->ask.model, &j->ask.counts, &j->cluster, &t->config, &j->k, &t->time);
    t->fits = t->memory.total <= j->limit;
}

static void trades_of(struct recompute_job *j)
{
    enum plan_precision p = j->best.config.precision;

    trade_add(j, PLAN_RECOMPUTE_NONE, 1, p);
    trade_add(j, PLAN_RECOMPUTE_SELECTIVE, 1, p);
    trade_add(j, PLAN_RECOMPUTE_FULL, 1, p);
    for (int32_t every = 2; every <= 8; every *= 2)
        trade_add(j, PLAN_RECOMPUTE_FULL, every, p);
    trade_add(j, PLAN_RECOMPUTE_NONE, 1, PLAN_BF16_GRADS);
    trade_add(j, PLAN_RECOMPUTE_NONE, 1, PLAN_PURE16);
    if (j->cluster.gpu.fp8_flops > 0)
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
}

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

static void recompute_text(struct cmd_ctx *ctx, const struct recompute_job *j)
{
    const struct trade *none = &j->rows[0], *pick = &j->rows[j->choice < 0 ? 0 : j->choice];
    struct table *t = table_new();
    char v[ASK_TEXT_MAX];

    ask_head(ctx, &j->ask, &j->cluster, &j->best);
    table_col(t, "recompute", TABLE_LEFT);
    table_col(t, "precision", TABLE_LEFT);
    table_col(t, "GiB", TABLE_RIGHT);
    table_col(t, "saved", TABLE_RIGHT);
    table_col(t, "step", TABLE_RIGHT);
    table_col(t, "paid", TABLE_RIGHT);
    table_col(t, "fits", TABLE_LEFT);
    table_col(t, "what is computed again", TABLE_LEFT | TABLE_WRAP);
    for (size_t i = 0; i < j->count; i++) {
        const struct trade *r = &j->rows[i];

        if (!r->valid)
            continue;
        table_row(t);
        if (r->config.recompute_every > 1)
            table_cell(t, COLOUR_NONE, "full, in %d", r->config.recompute_every);
        else
            table_cell(t, COLOUR_NONE, "%s", plan_recompute_names[r->config.recompute]);
        table_cell(t, COLOUR_NONE, "%s", plan_precision_names[r->config.precision]);
        table_cell(t, COLOUR_NONE, "%.1f", (double)r->memory.total / 0x1p30);
        table_cell(t, COLOUR_NONE, "%+.1f",
                   ((double)none->memory.total - (double)r->memory.total) / 0x1p30);
        table_cell(t, COLOUR_NONE, "%s", ask_time(r->time.step_s, v));
        table_cell(t, COLOUR_NONE, "%+.1f %%", 100 * (r->time.step_s / none->time.step_s - 1));
        table_cell(t, (int)i == j->choice ? COLOUR_GREEN : COLOUR_NONE, "%s",
                   (int)i == j->choice ? "the choice"
                   : r->fits           ? "yes"
                                       : "no");
        table_cell(t, COLOUR_DIM, "%s", what_again(&r->config));
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
    if (j->choice < 0)
        ask_note(ctx, "\nNothing fits with this cut: 'stoker plan train' searches others.");
    else
        ask_note(ctx,
                 "\n%s recomputation in %s: the fastest that fits %.1f GiB and keeps fp32 master "
                 "weights. Saved bytes are of the fullest GPU.%s",
                 plan_recompute_names[pick->config.recompute],
                 plan_precision_names[pick->config.precision], (double)j->limit / 0x1p30,
                 pick->config.precision == PLAN_FP8
                     ? " fp8 needs a recipe that was shown to learn as well as bf16 (DeepSeek-V3, "
                       "arXiv 2412.19437, is one); --precision bf16 rows are the safe ones."
                     : "");
}

static void recompute_json(struct cmd_ctx *ctx, const struct recompute_job *j)
{
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.plan-recompute/1");
    json_kv_str(&w, "model", j->ask.model.name);
    ask_json_best(&w, &j->cluster, &j->best);
    json_kv_int(&w, "limit_bytes", (int64_t)j->limit);
    json_kv_maybe(&w, "choice", j->choice < 0 ? maybe_none() : maybe_of(j->choice));
    json_key(&w, "options");
    json_arr(&w);
    for (size_t i = 0; i < j->count; i++) {
        const struct trade *r = &j->rows[i];

        json_obj(&w);
        json_kv_str(&w, "recompute", plan_recompute_names[r->config.recompute]);
        json_kv_int(&w, "every", r->config.recompute_every);
        json_kv_str(&w, "precision", plan_precision_names[r->config.precision]);
        json_kv_bool(&w, "valid", r->valid);
        json_kv_bool(&w, "fits", r->fits);
        json_kv_int(&w, "memory_bytes", (int64_t)r->memory.total);
        json_kv_int(&w, "saved_bytes",
                    r->valid ? (int64_t)j->rows[0].memory.total - (int64_t)r->memory.total : 0);
        ask_json_num(&w, "step_s", r->valid ? r->time.step_s : NAN);
        ask_json_num(&w, "paid", r->valid ? r->time.step_s / j->rows[0].time.step_s - 1 : NAN);
        json_kv_str(&w, "again", what_again(&r->config));
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_obj_end(&w);
    buf_addc(&ctx->out, '\n');
}

static enum rc run_recompute(struct cmd_ctx *ctx, struct err *err)
{
    const struct recompute_opts *o = ctx->opts;
    struct recompute_job j = { 0 };
    enum rc rc;

    if (ask_read(&o->ask, &j.ask, err))
        return err->code;
    plan_cluster_usual(&j.ask.gpu, o->ask.gpus ? o->ask.gpus : 8, &j.cluster);
    j.limit = (uint64_t)((double)j.ask.gpu.mem_bytes * (1 - j.ask.want.free_share));
    rc = ask_best(&j.ask, &o->ask, &j.cluster, &j.best, err);
    if (rc == RC_OK)
        rc = plan_consts_builtin(&j.ask.gpu, &j.k, err);
    if (rc == RC_OK) {
        trades_of(&j);
        (o->ask.json ? recompute_json : recompute_text)(ctx, &j);
        ctx->status = j.choice < 0 ? 4 : 0;
    }
    ask_release(&j.ask);
    return rc;
}

#define S recompute_opts
static const struct opt recompute_opts[] = {
    ASK_MODEL(S),
    ASK_GPU(S),
    ASK_NUM(S, "gpus", ask.gpus, 1, PLAN_GPUS_MAX, "GPUs in all (default 8)"),
    ASK_SEQ(S),
    ASK_BATCH(S),
    ASK_PRECISION(S),
    ASK_KERNELS(S),
    ASK_OPT(S, 0, "config", STR, ask.config, "CONFIG",
            "a cut such as 'tp8 zero1 mbs1 sp' (default: the search's choice)"),
    ASK_JSON(S),
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
