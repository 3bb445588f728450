/* SPDX-License-Identifier: MIT */
/* stoker plan advise: learning rate, batch and schedule, from published runs and the rules for
 * changing them, each with its source. */
#include "cmd/plan/plan_request_int.h"

#include "base/str.h"

#include <math.h>

enum { NEAR = 5 };

struct advise_opts {
    struct ask_opts ask;
    const char *lr, *optimizer, *batch, *from, *kind, *critical;
};

struct advise_job {
    struct arena arena;
    struct plan_facts facts;
    struct plan_recipes recipes;
    struct plan_model model;
    struct plan_counts counts;
    bool has_model, change;
    const char *kind, *optimizer;
    double params, tokens, compute;
    double lr, from, to, critical;
    const struct plan_recipe *near[NEAR];
    size_t near_count;
    struct plan_lr_change ch;
};

static enum rc read_change(const struct advise_opts *o, struct advise_job *j, struct err *err)
{
    if (!o->from && !o->batch)
        return RC_OK;
    if (!o->from || !o->batch || !o->lr) {
        err_hint(err, "For example --from-batch 256 --batch 1024 --lr 0.1.");
        return err_set(err, RC_USAGE, "a change of batch needs --from-batch, --batch and --lr");
    }
    if (ask_count("--from-batch", o->from, 1, 1e12, &j->from, err) ||
        ask_count("--batch", o->batch, 1, 1e12, &j->to, err) ||
        (o->critical && ask_count("--critical", o->critical, 1, 1e12, &j->critical, err)))
        return err->code;
    if (!str_to_f64(o->lr, &j->lr) || j->lr <= 0 || j->lr > 100) {
        err_hint(err, "Give a rate such as 0.1 or 3e-4.");
        return err_set(err, RC_USAGE, "option '--lr' cannot be '%s'", o->lr);
    }
    /* the linear rule was shown to hold to 8192 images (Goyal et al.) */
    if (!o->critical && str_eq(j->optimizer, "sgd"))
        j->critical = 8192;
    j->change = true;
    plan_lr_change(&j->recipes, j->optimizer, j->lr, j->from, j->to, j->critical, &j->ch);
    return RC_OK;
}

static enum rc read_advise(const struct advise_opts *o, struct advise_job *j, struct err *err)
{
    if (plan_facts_load(&j->arena, &j->facts, err) ||
        plan_recipes_load(&j->arena, &j->recipes, err))
        return err->code;
    j->kind = o->kind ? o->kind : o->ask.model ? "llm" : "vision";
    j->optimizer = o->optimizer ? o->optimizer : o->ask.model ? "adam" : "sgd";
    j->params = str_eq(j->kind, "llm") ? 7e9 : 50e6;
    if (o->ask.model) {
        j->has_model = true;
        if (plan_read_model(o->ask.model, &j->model, err) ||
            plan_model_counts(&j->model, &j->counts, err))
            return err->code;
        j->params = (double)j->counts.active;
        j->tokens = plan_fact(&j->facts, "tokens_a_parameter") * j->params;
        if (o->ask.tokens && ask_count("--tokens", o->ask.tokens, 1, 1e18, &j->tokens, err))
            return err->code;
        j->compute = 6 * j->params * j->tokens;
    } else if (!o->from && !o->batch) {
        err_hint(err, "Give --model, or --from-batch, --batch and --lr.");
        return err_set(err, RC_USAGE, "there is no --model and no change of batch");
    }
    j->near_count = plan_recipes_near(&j->recipes, j->kind, j->params, j->near, NEAR);
    return read_change(o, j, err);
}

/* ---- text ---- */
static void change_text(struct cmd_ctx *ctx, const struct advise_job *j)
{
    const struct plan_lr_change *c = &j->ch;
    double epochs = j->to > j->from ? 5 : 0;
    char a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    ask_note(ctx, "Batch %s to %s with %s: learning rate %.4g becomes %.3g (%.3g to %.3g).",
             ask_short(j->from, a), ask_short(j->to, b), j->optimizer, j->lr, c->lr, c->low,
             c->high);
    ask_note(ctx, "Rule: %s. %s", c->rule->name, c->rule->source);
    ask_note(ctx, "It holds %s.", c->rule->holds);
    if (c->capped)
        ask_note(ctx, "Above a batch of %s the rate stays: larger batches then save no steps. %s",
                 ask_short(j->critical, a), j->recipes.rules[j->recipes.rules_count - 1].source);
    if (str_eq(j->optimizer, "sgd"))
        ask_note(ctx, "%s",
                 epochs > 0 ? "Warm up over 5 epochs, from the old rate to the new one in equal "
                              "increments; then the old schedule by epochs, unchanged (Goyal et "
                              "al. 2017). Steps an epoch fall by the same factor."
                            : "No warm-up is needed for a smaller batch; keep the schedule by "
                              "epochs.");
    else
        ask_note(ctx,
                 "Scale the moments too: with a batch %.3g times as large, 1 - beta becomes %.3g "
                 "times as large (Malladi et al. 2022: beta' = 1 - %.3g (1 - beta)), so that they "
                 "average over as many samples. Keep the warm-up in samples or tokens, not in "
                 "steps: %.3g times as many steps.",
                 j->to / j->from, j->to / j->from, j->to / j->from, j->from / j->to);
    buf_addc(&ctx->out, '\n');
}

static void near_text(struct cmd_ctx *ctx, const struct advise_job *j)
{
    struct table *t = table_new();
    char a[ASK_TEXT_MAX], b[ASK_TEXT_MAX];

    table_col(t, "published run", TABLE_LEFT);
    table_col(t, "parameters", TABLE_RIGHT);
    table_col(t, "optimizer", TABLE_LEFT);
    table_col(t, "rate", TABLE_RIGHT);
    table_col(t, "batch", TABLE_RIGHT);
    table_col(t, "warm-up, schedule, source", TABLE_LEFT | TABLE_WRAP);
    for (size_t i = 0; i < j->near_count; i++) {
        const struct plan_recipe *r = j->near[i];

        table_row(t);
        table_cell(t, COLOUR_BOLD, "%s", r->name);
        table_cell(t, COLOUR_NONE, "%s", ask_short(r->params, a));
        table_cell(t, COLOUR_NONE, "%s", r->optimizer);
        table_cell(t, COLOUR_NONE, "%.2g", r->lr);
        if (r->batch_last > 0)
            table_cell(t, COLOUR_NONE, "%s to %s", ask_short(r->batch, a),
                       ask_short(r->batch_last, b));
        else
            table_cell(t, COLOUR_NONE, "%s", ask_short(r->batch, a));
        table_cell(t, COLOUR_DIM, "%s; %s, to %.3g of the peak; %s", r->warmup, r->schedule,
                   r->lr_end_share, r->source);
    }
    table_print(t, &ctx->out_term, 0, &ctx->out);
    table_free(t);
}

static void model_text(struct cmd_ctx *ctx, const struct advise_job *j)
{
    const struct plan_recipe *r = j->near[0];
    double law_lr = plan_lr_deepseek(j->compute), law_batch = plan_batch_deepseek(j->compute);
    struct plan_range batch = plan_usual_batch(&j->recipes, j->params);
    struct plan_range lr = plan_usual_lr(&j->recipes, j->params);
    const struct plan_recipe *like[PLAN_NEAR_MAX];
    size_t n = plan_recipes_like(&j->recipes, "llm", j->params, like);
    char a[ASK_TEXT_MAX], b[ASK_TEXT_MAX], c[ASK_TEXT_MAX];
    struct ask_table t;
    char v[ASK_TEXT_MAX], w[2 * ASK_TEXT_MAX];

    ask_note(ctx, "%s: %s parameters a token meets, %s tokens, %.3g FLOPs", j->model.name,
             ask_short(j->params, a), ask_short(j->tokens, b), j->compute);
    buf_addc(&ctx->out, '\n');
    ask_table_begin(&t, "");
    snprintf(v, sizeof(v), "%.2g", lr.usual);
    snprintf(w, sizeof(w), "%.2g to %.2g", fmin(lr.low, law_lr), fmax(lr.high, law_lr));
    ask_row(&t, "peak learning rate", v, w,
            "the median of the %zu published runs of the size; a law fitted to compute says %.2g "
            "(DeepSeek LLM, arXiv 2401.02954), one fitted to parameters %.2g (Kaplan et al. "
            "2020, arXiv 2001.08361)",
            n, law_lr, plan_lr_kaplan(j->params));
    snprintf(w, sizeof(w), "%s to %s", ask_short(fmin(batch.low, law_batch), a),
             ask_short(fmax(batch.high, law_batch), b));
    ask_row(&t, "tokens a step", ask_short(batch.usual, v), w,
            "the median of the same runs; the law says %s (DeepSeek LLM)", ask_short(law_batch, c));
    ask_row(&t, "warm-up", "2000 steps", "375M tokens to 8000 steps",
            "what most of the runs did; longer for 405B");
    ask_row(&t, "schedule", "cosine", "", "to a tenth of the peak over the whole run: %s",
            r->source);
    ask_row(&t, "steps", ask_short(j->tokens / batch.usual, v), "", "%s tokens",
            ask_short(j->tokens, a));
    ask_table_end(&t, ctx);
    buf_addc(&ctx->out, '\n');
}

static void advise_text(struct cmd_ctx *ctx, const struct advise_job *j)
{
    if (j->change)
        change_text(ctx, j);
    if (j->has_model)
        model_text(ctx, j);
    near_text(ctx, j);
}

/* ---- JSON ---- */
static void json_near(struct json_out *w, const struct advise_job *j)
{
    json_key(w, "runs");
    json_arr(w);
    for (size_t i = 0; i < j->near_count; i++) {
        const struct plan_recipe *r = j->near[i];

        json_obj(w);
        json_kv_str(w, "name", r->name);
        ask_json_num(w, "parameters", r->params);
        json_kv_str(w, "optimizer", r->optimizer);
        ask_json_num(w, "lr", r->lr);
        ask_json_num(w, "batch", r->batch);
        json_kv_str(w, "batch_unit", r->batch_unit);
        json_kv_str(w, "warmup", r->warmup);
        json_kv_str(w, "schedule", r->schedule);
        json_kv_str(w, "source", r->source);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void advise_json(struct cmd_ctx *ctx, const struct advise_job *j)
{
    struct json_out w;

    json_out_init(&w, &ctx->out, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.plan-advise/1");
    json_kv_str(&w, "optimizer", j->optimizer);
    if (j->change) {
        json_key(&w, "change");
        json_obj(&w);
        ask_json_num(&w, "from_batch", j->from);
        ask_json_num(&w, "batch", j->to);
        ask_json_num(&w, "from_lr", j->lr);
        ask_json_num(&w, "lr", j->ch.lr);
        ask_json_num(&w, "lr_low", j->ch.low);
        ask_json_num(&w, "lr_high", j->ch.high);
        json_kv_str(&w, "rule", j->ch.rule->name);
        json_kv_bool(&w, "capped", j->ch.capped);
        json_kv_str(&w, "holds", j->ch.rule->holds);
        json_kv_str(&w, "source", j->ch.rule->source);
        json_obj_end(&w);
    }
    if (j->has_model) {
        struct plan_range batch = plan_usual_batch(&j->recipes, j->params);
        struct plan_range lr = plan_usual_lr(&j->recipes, j->params);

        json_kv_str(&w, "model", j->model.name);
        ask_json_num(&w, "tokens", j->tokens);
        ask_json_range(&w, "lr", &lr);
        ask_json_num(&w, "lr_deepseek", plan_lr_deepseek(j->compute));
        ask_json_num(&w, "lr_kaplan", plan_lr_kaplan(j->params));
        ask_json_range(&w, "batch_tokens", &batch);
        ask_json_num(&w, "batch_deepseek", plan_batch_deepseek(j->compute));
        json_kv_str(&w, "source", j->near[0]->source);
    }
    json_near(&w, j);
    json_obj_end(&w);
    buf_addc(&ctx->out, '\n');
}

static enum rc run_advise(struct cmd_ctx *ctx, struct err *err)
{
    const struct advise_opts *o = ctx->opts;
    struct advise_job j = { 0 };
    enum rc rc = read_advise(o, &j, err);

    if (rc == RC_OK)
        (o->ask.json ? advise_json : advise_text)(ctx, &j);
    arena_release(&j.arena);
    return rc;
}

#define S advise_opts
static const struct opt advise_opts[] = {
    ASK_MODEL(S),
    ASK_TOKENS(S),
    ASK_OPT(S, 0, "from-batch", STR, from, "COUNT", "the batch a learning rate was found for"),
    ASK_OPT(S, 0, "batch", STR, batch, "COUNT", "the batch to be, in the same unit"),
    ASK_OPT(S, 0, "lr", STR, lr, "RATE", "the learning rate at --from-batch"),
    { 0, "optimizer", OPT_STR, offsetof(struct S, optimizer), "WHICH", "sgd|adam", 0, 0,
      "sgd (default without a model) or adam" },
    { 0, "kind", OPT_STR, offsetof(struct S, kind), "WHICH", "llm|vision", 0, 0,
      "of published runs to show" },
    ASK_OPT(S, 0, "critical", STR, critical, "COUNT",
            "critical batch, above which the rate stays (default: 8192 for sgd)"),
    ASK_JSON(S),
    { 0 },
};
#undef S
static const struct cmd_example advise_examples[] = {
    { "stoker plan advise --from-batch 256 --batch 1024 --lr 0.1", "a batch four times as large" },
    { "stoker plan advise --model llama-3.1-8b --tokens 2T", "where published runs stood" },
    { "stoker plan advise --from-batch 4M --batch 16M --lr 3e-4 --optimizer adam",
      "the same for Adam" },
    { 0 },
};
const struct cmd cmd_plan_advise = {
    .name = "advise",
    .summary = "advise on learning rate, batch and schedule",
    .operands = "",
    .opts = advise_opts,
    .opts_size = sizeof(struct advise_opts),
    .about = "Says what a learning rate becomes when the batch changes, by which rule, where the "
             "rule comes from and how far it holds; and for a model what published runs of its "
             "size used. Nothing here is a prediction: it is where to begin a search.",
    .examples = advise_examples,
    .run = run_advise,
};
