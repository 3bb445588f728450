/* SPDX-License-Identifier: MIT */
/* stoker plan advise: learning rate, batch and schedule, from published runs and the rules for
 * changing them, each with its source. */
#include "cmd/plan/plan_request_int.h"

#include "base/str.h"

#include <math.h>

enum { NEAR = 5 };

struct advise_opts {
    struct request_opts request;
    const char *lr, *optimizer, *batch, *from, *kind, *critical;
};

struct near_run {
    struct plan_recipe r;
    char batch[2 * FIELD_TEXT_MAX + 8], notes[512]; /* as text */
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
    struct near_run near_row[NEAR], *near;
    size_t near_count;
    struct plan_lr_change ch;
    struct plan_lr_rule rule; /* ch.rule */
    /* for a model: what runs of its size took, and what laws say */
    struct plan_range lr_range, batch_range;
    double lr_deepseek, lr_kaplan, batch_deepseek;
};

static enum rc read_change(const struct advise_opts *o, struct advise_job *j, struct err *err)
{
    if (!o->from && !o->batch)
        return RC_OK;
    if (!o->from || !o->batch || !o->lr) {
        err_hint(err, "For example --from-batch 256 --batch 1024 --lr 0.1.");
        return err_set(err, RC_USAGE, "a change of batch needs --from-batch, --batch and --lr");
    }
    if (option_count("--from-batch", o->from, 1, 1e12, &j->from, err) ||
        option_count("--batch", o->batch, 1, 1e12, &j->to, err) ||
        (o->critical && option_count("--critical", o->critical, 1, 1e12, &j->critical, err)))
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
    j->rule = *j->ch.rule;
    return RC_OK;
}

static void read_near(struct advise_job *j)
{
    const struct plan_recipe *near[NEAR];

    j->near = j->near_row;
    j->near_count = plan_recipes_near(&j->recipes, j->kind, j->params, near, NEAR);
    for (size_t i = 0; i < j->near_count; i++) {
        const struct plan_recipe *r = near[i];
        struct near_run *n = &j->near[i];

        n->r = *r;
        snprintf(n->batch, sizeof(n->batch), r->batch_last > 0 ? "%s to %s" : "%s",
                 TEXT_SHORT(r->batch), TEXT_SHORT(r->batch_last));
        snprintf(n->notes, sizeof(n->notes), "%s; %s, to %.3g of the peak; %s", r->warmup,
                 r->schedule, r->lr_end_share, r->source);
    }
}

static enum rc read_advise(const struct advise_opts *o, struct advise_job *j, struct err *err)
{
    if (plan_facts_load(&j->arena, &j->facts, err) ||
        plan_recipes_load(&j->arena, &j->recipes, err))
        return err->code;
    j->kind = o->kind ? o->kind : o->request.model ? "llm" : "vision";
    j->optimizer = o->optimizer ? o->optimizer : o->request.model ? "adam" : "sgd";
    j->params = str_eq(j->kind, "llm") ? 7e9 : 50e6;
    if (o->request.model) {
        j->has_model = true;
        if (plan_read_model(o->request.model, &j->model, err) ||
            plan_model_counts(&j->model, &j->counts, err))
            return err->code;
        j->params = (double)j->counts.active;
        j->tokens = plan_fact(&j->facts, "tokens_a_parameter") * j->params;
        if (o->request.tokens &&
            option_count("--tokens", o->request.tokens, 1, 1e18, &j->tokens, err))
            return err->code;
        j->compute = 6 * j->params * j->tokens;
    } else if (!o->from && !o->batch) {
        err_hint(err, "Give --model, or --from-batch, --batch and --lr.");
        return err_set(err, RC_USAGE, "there is no --model and no change of batch");
    }
    read_near(j);
    j->lr_range = plan_usual_lr(&j->recipes, j->params);
    j->batch_range = plan_usual_batch(&j->recipes, j->params);
    j->lr_deepseek = plan_lr_deepseek(j->compute);
    j->lr_kaplan = plan_lr_kaplan(j->params);
    j->batch_deepseek = plan_batch_deepseek(j->compute);
    return read_change(o, j, err);
}

/* ---- figures ---- */
#define S struct near_run
static const struct field near_fields[] = {
    FIELD_OF("name", S, r.name, "the run", .title = "published run", .colour = COLOUR_BOLD),
    FIELD_OF("parameters", S, r.params, "of its model", .title = "parameters", .words = text_short),
    FIELD_OF("optimizer", S, r.optimizer, "adam or sgd", .title = "optimizer"),
    FIELD_OF("lr", S, r.lr, "peak learning rate", .title = "rate", .fmt = "%.2g"),
    FIELD_OF("batch", S, r.batch, "in batch_unit, at the beginning"),
    FIELD_OF(NULL, S, batch, "", .title = "batch", .flags = TABLE_RIGHT),
    FIELD_OF("batch_unit", S, r.batch_unit, "tokens or images"),
    FIELD_OF("warmup", S, r.warmup, "how long the rate rises"),
    FIELD_OF("schedule", S, r.schedule, "how it falls"),
    FIELD_OF("source", S, r.source, "where that is said"),
    FIELD_OF(NULL, S, notes, "", .title = "warm-up, schedule, source", .flags = TABLE_WRAP,
             .colour = COLOUR_DIM),
};
static FIELD_TABLE(near_table, "published run", S, near_fields);
#undef S

#define S struct advise_job
static const struct field change_fields[] = {
    FIELD_OF("from_batch", S, from, "the batch the rate was found for"),
    FIELD_OF("batch", S, to, "the batch to be"),
    FIELD_OF("from_lr", S, lr, "the rate that was found"),
    FIELD_OF("lr", S, ch.lr, "the rate to be"),
    FIELD_OF("lr_low", S, ch.low, "at the low end"),
    FIELD_OF("lr_high", S, ch.high, "at the high end"),
    FIELD_OF("rule", S, rule.name, "how it was changed"),
    FIELD_OF("capped", S, ch.capped, "the batch is above the critical one"),
    FIELD_OF("holds", S, rule.holds, "how far the rule holds"),
    FIELD_OF("source", S, rule.source, "who says so"),
};
static FIELD_TABLE(change_table, "change of batch", S, change_fields);
static const struct field model_fields[] = {
    FIELD_OF("model", S, model.name, "that is trained"),
    FIELD_OF("tokens", S, tokens, "to train on"),
    FIELD_RANGE("lr", S, lr_range, "peak learning rate of runs of the size"),
    FIELD_OF("lr_deepseek", S, lr_deepseek, "by a law fitted to compute"),
    FIELD_OF("lr_kaplan", S, lr_kaplan, "by a law fitted to parameters"),
    FIELD_RANGE("batch_tokens", S, batch_range, "tokens a step of runs of the size"),
    FIELD_OF("batch_deepseek", S, batch_deepseek, "by a law fitted to compute"),
    FIELD_OF("source", S, near_row[0].r.source, "of the nearest run"),
};
static FIELD_TABLE(model_table, "model", S, model_fields);

static void json_answers(struct json_out *w, const void *obj)
{
    const struct advise_job *j = obj;

    if (j->change) {
        json_key(w, "change");
        fields_write(w, &change_table, j);
    }
    if (j->has_model)
        fields_write_members(w, &model_table, j);
}

static const struct field advise_fields[] = {
    FIELD_OF("optimizer", S, optimizer, "adam or sgd"),
    FIELD_BY(json_answers),
    FIELD_SUBS("runs", S, near, near_count, &near_table, "published runs that are nearest"),
};
static FIELD_TABLE(advise_doc, "stoker.plan-advise/1", S, advise_fields);
#undef S

/* ---- text ---- */
static void change_text(struct cmd_ctx *ctx, const struct advise_job *j)
{
    const struct plan_lr_change *c = &j->ch;

    print_note(ctx, "Batch %s to %s with %s: learning rate %.4g becomes %.3g (%.3g to %.3g).",
               TEXT_SHORT(j->from), TEXT_SHORT(j->to), j->optimizer, j->lr, c->lr, c->low, c->high);
    print_note(ctx, "Rule: %s. %s", c->rule->name, c->rule->source);
    print_note(ctx, "It holds %s.", c->rule->holds);
    if (c->capped)
        print_note(ctx, "Above a batch of %s the rate stays: larger batches then save no steps. %s",
                   TEXT_SHORT(j->critical), j->recipes.rules[j->recipes.rules_count - 1].source);
    if (str_eq(j->optimizer, "sgd"))
        print_note(ctx, "%s",
                   j->to > j->from
                       ? "Warm up over 5 epochs, from the old rate to the new one in equal "
                         "increments; then the old schedule by epochs, unchanged (Goyal et al. "
                         "2017). Steps an epoch fall by the same factor."
                       : "No warm-up is needed for a smaller batch; keep the schedule by epochs.");
    else
        print_note(
            ctx,
            "Scale the moments too: with a batch %.3g times as large, 1 - beta becomes %.3g "
            "times as large (Malladi et al. 2022: beta' = 1 - %.3g (1 - beta)), so that they "
            "average over as many samples. Keep the warm-up in samples or tokens, not in "
            "steps: %.3g times as many steps.",
            j->to / j->from, j->to / j->from, j->to / j->from, j->from / j->to);
    buf_addc(&ctx->out, '\n');
}

static void model_text(struct cmd_ctx *ctx, const struct advise_job *j)
{
    const struct plan_range *lr = &j->lr_range, *batch = &j->batch_range;
    const struct plan_recipe *like[PLAN_NEAR_MAX];
    size_t n = plan_recipes_like(&j->recipes, "llm", j->params, like);
    char value[FIELD_TEXT_MAX], range[2 * FIELD_TEXT_MAX];
    struct figure_table t;

    print_note(ctx, "%s: %s parameters a token meets, %s tokens, %.3g FLOPs", j->model.name,
               TEXT_SHORT(j->params), TEXT_SHORT(j->tokens), j->compute);
    buf_addc(&ctx->out, '\n');
    figure_begin(&t, NULL, NULL);
    snprintf(value, sizeof(value), "%.2g", lr->usual);
    snprintf(range, sizeof(range), "%.2g to %.2g", fmin(lr->low, j->lr_deepseek),
             fmax(lr->high, j->lr_deepseek));
    figure_row(
        &t, "peak learning rate", value, range,
        "the median of the %zu published runs of the size; a law fitted to compute says %.2g "
        "(DeepSeek LLM, arXiv 2401.02954), one fitted to parameters %.2g (Kaplan et al. "
        "2020, arXiv 2001.08361)",
        n, j->lr_deepseek, j->lr_kaplan);
    snprintf(range, sizeof(range), "%s to %s", TEXT_SHORT(fmin(batch->low, j->batch_deepseek)),
             TEXT_SHORT(fmax(batch->high, j->batch_deepseek)));
    figure_row(&t, "tokens a step", TEXT_SHORT(batch->usual), range,
               "the median of the same runs; the law says %s (DeepSeek LLM)",
               TEXT_SHORT(j->batch_deepseek));
    figure_row(&t, "warm-up", "2000 steps", "375M tokens to 8000 steps",
               "what most of the runs did; longer for 405B");
    figure_row(&t, "schedule", "cosine", "", "to a tenth of the peak over the whole run: %s",
               j->near[0].r.source);
    figure_row(&t, "steps", TEXT_SHORT(j->tokens / batch->usual), "", "%s tokens",
               TEXT_SHORT(j->tokens));
    figure_end(&t, ctx);
    buf_addc(&ctx->out, '\n');
}

static enum rc run_advise(struct cmd_ctx *ctx, struct err *err)
{
    const struct advise_opts *o = ctx->opts;
    struct advise_job j = { 0 };
    enum rc rc = read_advise(o, &j, err);

    if (rc == RC_OK && o->request.json) {
        fields_write_report(&ctx->out, &advise_doc, &j);
    } else if (rc == RC_OK) {
        if (j.change)
            change_text(ctx, &j);
        if (j.has_model)
            model_text(ctx, &j);
        fields_print(&ctx->out, &ctx->out_term, &near_table, j.near, j.near_count, -1);
    }
    arena_release(&j.arena);
    return rc;
}

#define S advise_opts
static const struct opt advise_opts[] = {
    ROW_MODEL(S),
    ROW_TOKENS(S),
    ROW_OPT(S, 0, "from-batch", STR, from, "COUNT", "the batch a learning rate was found for"),
    ROW_OPT(S, 0, "batch", STR, batch, "COUNT", "the batch to be, in the same unit"),
    ROW_OPT(S, 0, "lr", STR, lr, "RATE", "the learning rate at --from-batch"),
    ROW_ONE_OF(S, "optimizer", optimizer, "sgd|adam", "sgd (default without a model) or adam"),
    ROW_ONE_OF(S, "kind", kind, "llm|vision", "of published runs to show"),
    ROW_OPT(S, 0, "critical", STR, critical, "COUNT",
            "critical batch, above which the rate stays (default: 8192 for sgd)"),
    ROW_JSON(S),
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
