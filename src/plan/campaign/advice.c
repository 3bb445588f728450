/* SPDX-License-Identifier: MIT */
/* advice: published recipes, and the rules for changing them. */
#include "plan/advice.h"

#include "base/embed.h"
#include "base/str.h"
#include "catalog/csv.h"

#include <assert.h>
#include <math.h>

EMBED(data_recipes, "data/recipes.csv");
EMBED(data_lr_rules, "data/lr_rules.csv");

#define S struct plan_recipe
static const struct field recipe_fields[] = {
    FIELD_OF("name", S, name, "the run"),
    FIELD_OF("kind", S, kind, "llm, moe, vision or driving"),
    FIELD_OF("optimizer", S, optimizer, "adam or sgd"),
    FIELD_OF("batch_unit", S, batch_unit, "tokens or images"),
    FIELD_OF("warmup", S, warmup, "how long the rate rises"),
    FIELD_OF("schedule", S, schedule, "how it falls"),
    FIELD_OF("source", S, source, "who says so"),
    FIELD_OF("params_b", S, params, "that a token meets, in billions", .scale = 1e9),
    FIELD_OF("tokens_b", S, tokens, "in billions; empty: not said", .scale = 1e9),
    FIELD_OF("lr", S, lr, "peak learning rate"),
    FIELD_OF("batch", S, batch, "a step"),
    FIELD_OF("batch_last", S, batch_last, "where it grows"),
    FIELD_OF("lr_end_share", S, lr_end_share, "of the peak, at the end"),
};
static FIELD_TABLE(recipe_table, "recipes", S, recipe_fields);
#undef S

#define S struct plan_lr_rule
static const struct field rule_fields[] = {
    FIELD_OF("rule", S, name, "the rule"),
    FIELD_OF("optimizer", S, optimizer, "whose rate it changes"),
    FIELD_OF("exponent", S, exponent, "of the ratio of batches"),
    FIELD_OF("holds", S, holds, "how far"),
    FIELD_OF("source", S, source, "who says so"),
};
static FIELD_TABLE(rule_table, "rules", S, rule_fields);
#undef S

enum rc plan_recipes_load(struct arena *a, struct plan_recipes *out, struct err *err)
{
    enum rc rc = csv_rows(a, "recipes.csv", data_recipes, data_recipes_len, &recipe_table,
                          &out->rows, &out->count, err);

    return rc ? rc
              : csv_rows(a, "lr_rules.csv", data_lr_rules, data_lr_rules_len, &rule_table,
                         &out->rules, &out->rules_count, err);
}

static bool of_kind(const struct plan_recipe *r, const char *kind)
{
    return str_eq(r->kind, kind) || (str_eq(kind, "llm") && str_eq(r->kind, "moe")) ||
           (str_eq(kind, "vision") && str_eq(r->kind, "driving"));
}

static double size_distance(const struct plan_recipe *r, double params)
{
    return fabs(log(r->params / params));
}

size_t plan_recipes_near(const struct plan_recipes *r, const char *kind, double params,
                         const struct plan_recipe **out, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < r->count; i++) {
        const struct plan_recipe *row = &r->rows[i];
        size_t at = n;

        if (!of_kind(row, kind))
            continue;
        while (at && size_distance(out[at - 1], params) > size_distance(row, params))
            at--;
        if (at >= max)
            continue;
        n = n < max ? n + 1 : n;
        for (size_t k = n - 1; k > at; k--)
            out[k] = out[k - 1];
        out[at] = row;
    }
    return n;
}

size_t plan_recipes_like(const struct plan_recipes *r, const char *kind, double params,
                         const struct plan_recipe *out[PLAN_NEAR_MAX])
{
    size_t n = plan_recipes_near(r, kind, params, out, PLAN_NEAR_MAX), like = 1;

    assert(n);
    while (like < n && size_distance(out[like], params) <= M_LN2)
        like++;
    return like;
}

/* Sorts: the least, the median (the lower of two) and the most. */
static struct plan_range range_of(double *v, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k && v[k - 1] > v[k]; k--) {
            double swap = v[k];

            v[k] = v[k - 1];
            v[k - 1] = swap;
        }
    return (struct plan_range){ v[0], v[(n - 1) / 2], v[n - 1] };
}

struct plan_range plan_usual_batch(const struct plan_recipes *r, double params)
{
    const struct plan_recipe *near[PLAN_NEAR_MAX];
    size_t n = plan_recipes_like(r, "llm", params, near);
    double b[PLAN_NEAR_MAX];

    for (size_t i = 0; i < n; i++)
        b[i] = near[i]->batch_last > 0 ? near[i]->batch_last : near[i]->batch;
    return range_of(b, n);
}

struct plan_range plan_usual_lr(const struct plan_recipes *r, double params)
{
    const struct plan_recipe *near[PLAN_NEAR_MAX];
    size_t n = plan_recipes_like(r, "llm", params, near);
    double v[PLAN_NEAR_MAX];

    for (size_t i = 0; i < n; i++)
        v[i] = near[i]->lr;
    return range_of(v, n);
}

int64_t plan_usual_sequences(const struct plan_recipes *r, double params, int64_t seq)
{
    double want = plan_usual_batch(r, params).usual / (double)seq;
    int64_t batch = 1;

    while ((double)batch * M_SQRT2 < want && batch < PLAN_BATCH_MAX / 2)
        batch *= 2;
    return batch;
}

/* ---- another batch ---- */
static const struct plan_lr_rule *rule_of(const struct plan_recipes *r, const char *name)
{
    for (size_t i = 0; i < r->rules_count; i++)
        if (str_eq(r->rules[i].name, name))
            return &r->rules[i];
    return NULL;
}

void plan_lr_change(const struct plan_recipes *r, const char *optimizer, double lr, double from,
                    double to, double critical, struct plan_lr_change *out)
{
    bool sgd = str_eq(optimizer, "sgd");
    const struct plan_lr_rule *rule = rule_of(r, sgd ? "linear" : "square root");
    double cap = critical > 0 ? fmax(critical, from) : INFINITY;
    double ratio = fmin(to, cap) / from, a = lr * ratio, b = lr * sqrt(ratio);

    assert(rule);
    *out = (struct plan_lr_change){ .rule = to > cap && from >= cap ? rule_of(r, "keep") : rule,
                                    .lr = sgd ? a : b,
                                    .low = fmin(fmin(a, b), lr),
                                    .high = fmax(fmax(a, b), lr),
                                    .capped = to > cap };
}

double plan_lr_deepseek(double compute)
{
    return 0.3118 * pow(compute, -0.1250);
}

double plan_batch_deepseek(double compute)
{
    return 0.2920 * pow(compute, 0.3271);
}

double plan_lr_kaplan(double params)
{
    return 0.003239 - 0.0001395 * log(params);
}
