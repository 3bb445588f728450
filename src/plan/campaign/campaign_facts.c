/* SPDX-License-Identifier: MIT */
/* campaign_facts: failures, prices, power and error bands from data/, each with its source. */
#include "plan/campaign.h"
#include "plan/campaign/campaign_int.h"

#include "base/embed.h"
#include "base/str.h"
#include "catalog/csv.h"

#include <assert.h>
#include <math.h>

EMBED(data_failures, "data/failures.csv");
EMBED(data_prices, "data/prices.csv");
EMBED(data_campaign, "data/campaign.csv");
EMBED(data_plan_bands, "data/plan_bands.csv");

const char *const plan_pay_names[] = { "on demand", "reserved", "spot", NULL };

/* ---- tables: a row's keys are the columns ---- */
#define S struct plan_failures
static const struct field failure_fields[] = {
    FIELD_OF("name", S, name, "the system"),
    FIELD_OF("gpu", S, gpu, "its kind of GPU"),
    FIELD_OF("gpus", S, gpus, "how many"),
    FIELD_OF("gpu_hours", S, gpu_hours, "that were watched"),
    FIELD_OF("failures", S, failures, "in them"),
    FIELD_OF("what", S, what, "counts as one"),
    FIELD_OF("source", S, source, "who says so"),
    FIELD_OF("hardware_share", S, hardware_share, "of failures that take a node; empty: not said"),
};
static FIELD_TABLE(failure_table, "failures", S, failure_fields);
#undef S

#define S struct plan_price
static const struct field price_fields[] = {
    FIELD_OF("item", S, item, "what is paid for"),
    FIELD_OF("unit", S, unit, "of the figures"),
    FIELD_OF("low", S, low, "the lowest", .or_null = true),
    FIELD_OF("usual", S, usual, "empty: not known", .or_null = true),
    FIELD_OF("high", S, high, "the highest", .or_null = true),
    FIELD_OF("date", S, date, "when it was looked up"),
    FIELD_OF("source", S, source, "where"),
};
static FIELD_TABLE(price_table, "prices", S, price_fields);
#undef S

#define S struct plan_fact
static const struct field fact_fields[] = {
    FIELD_OF("name", S, name, "that plan_fact() asks for"),
    FIELD_OF("value", S, value, "in the unit"),
    FIELD_OF("unit", S, unit, "of it"),
    FIELD_OF("source", S, source, "who says so"),
};
static FIELD_TABLE(fact_table, "facts", S, fact_fields);
#undef S

#define S struct plan_band_row
static const struct field band_fields[] = {
    FIELD_OF("gpu", S, gpu, "generation"),
    FIELD_OF("moe", S, moe, "models with experts: yes or no"),
    FIELD_OF("stack", S, stack, "of software"),
    FIELD_OF("low", S, low, "percent"),
    FIELD_OF("high", S, high, "percent"),
    FIELD_OF("n", S, n, "rows behind it"),
    FIELD_OF("source", S, source, "which runs"),
};
static FIELD_TABLE(band_table, "bands", S, band_fields);
#undef S

enum rc plan_facts_load(struct arena *a, struct plan_facts *out, struct err *err)
{
    struct plan_facts f = { 0 };

    if (csv_rows(a, "failures.csv", data_failures, data_failures_len, &failure_table, &f.failures,
                 &f.failures_count, err) ||
        csv_rows(a, "prices.csv", data_prices, data_prices_len, &price_table, &f.prices,
                 &f.prices_count, err) ||
        csv_rows(a, "campaign.csv", data_campaign, data_campaign_len, &fact_table, &f.facts,
                 &f.facts_count, err) ||
        csv_rows(a, "plan_bands.csv", data_plan_bands, data_plan_bands_len, &band_table, &f.bands,
                 &f.bands_count, err))
        return RC_PARSE;
    *out = f;
    return RC_OK;
}

/* ---- look-ups ---- */
const struct plan_fact *plan_fact_row(const struct plan_facts *f, const char *name)
{
    for (size_t i = 0; i < f->facts_count; i++)
        if (str_eq(f->facts[i].name, name))
            return &f->facts[i];
    return NULL;
}

double plan_fact(const struct plan_facts *f, const char *name)
{
    const struct plan_fact *row = plan_fact_row(f, name);

    assert(row);
    return row->value;
}

const struct plan_price *plan_price(const struct plan_facts *f, const char *item)
{
    for (size_t i = 0; i < f->prices_count; i++)
        if (str_eq(f->prices[i].item, item))
            return &f->prices[i];
    return NULL;
}

bool plan_gpu_price(const struct plan_facts *f, const struct plan_gpu *gpu, enum plan_pay pay,
                    struct plan_range *out)
{
    const struct plan_price *p, *share = plan_price(f, "reserved");
    char item[PLAN_NAME_MAX];

    snprintf(item, sizeof(item), pay == PLAN_SPOT ? "%s spot" : "%s", gpu->alias);
    p = plan_price(f, item);
    if (pay == PLAN_SPOT) {
        if (!p)
            return false;
        *out = (struct plan_range){ p->low, p->usual, p->high };
        return true;
    }
    if (gpu->price_usd_h <= 0)
        return false;
    *out = (struct plan_range){ gpu->price_usd_h, gpu->price_usd_h, gpu->price_usd_h };
    if (p) {
        out->low = fmin(p->low, gpu->price_usd_h);
        out->high = fmax(p->high, gpu->price_usd_h);
    }
    if (pay == PLAN_RESERVED) {
        assert(share);
        *out = (struct plan_range){ out->low * share->low, out->usual * share->usual,
                                    out->high * share->high };
    }
    return true;
}

struct plan_range plan_spot_rate(const struct plan_facts *f, const struct plan_gpu *gpu)
{
    const struct plan_price *p =
        plan_price(f, str_eq(gpu->arch, "Ampere") ? "a100 interruption" : "h100 interruption");

    assert(p);
    return (struct plan_range){ p->low, p->usual, p->high };
}

const char *plan_gpu_kin(const struct plan_gpu *gpu)
{
    static const char *const kins[][2] = { { "Ampere", "a100" },
                                           { "Hopper", "h100" },
                                           { "Blackwell", "b200" } };

    for (size_t i = 0; i < ARRAY_SIZE(kins); i++)
        if (str_eq(gpu->arch, kins[i][0]))
            return kins[i][1];
    return "none";
}

const char *plan_band_stack(enum plan_stack stack)
{
    return stack == PLAN_STACK_NANOTRON   ? "nanotron"
           : stack == PLAN_STACK_MEGATRON ? "megatron"
                                          : "fsdp";
}

void plan_band_of(const struct plan_facts *f, const struct plan_gpu *gpu,
                  const struct plan_model *m, const struct plan_config *c, struct plan_band *out)
{
    const char *stack = plan_band_stack(c->profile.stack);
    const struct plan_band_row *row = NULL;

    for (size_t i = 0; i < f->bands_count && !row; i++) {
        const struct plan_band_row *b = &f->bands[i];

        if (c->lora_rank && !str_eq(b->gpu, "any")) /* no adapters are among the rows */
            continue;
        if ((str_eq(b->gpu, "any") || str_eq(b->gpu, plan_gpu_kin(gpu))) &&
            (str_eq(b->moe, "any") || str_eq(b->moe, m->experts ? "yes" : "no")) &&
            (str_eq(b->stack, "any") || str_eq(b->stack, stack)))
            row = b;
    }
    assert(row);
    /* predicted = measured (1 + e): measured lies between predicted over 1 + high and 1 + low */
    *out = (struct plan_band){ .low = 1 / (1 + fmax(row->high, 0) / 100),
                               .high = 1 / (1 + fmin(row->low, 0) / 100),
                               .n = row->n,
                               .source = row->source,
                               .stand_in = str_eq(row->gpu, "any") ||
                                           !str_starts(gpu->alias, plan_gpu_kin(gpu)) };
}

void plan_failure_rate_of(const struct plan_facts *f, const struct plan_gpu *gpu,
                          struct plan_failure_rate *out)
{
    const char *want = str_eq(gpu->arch, "Ampere") ? "a100" : "h100";
    struct plan_failure_rate r = { { INFINITY, 0, 0 }, NULL, NULL, NULL };

    for (size_t i = 0; i < f->failures_count; i++) {
        const struct plan_failures *row = &f->failures[i];
        double hours = row->gpu_hours / row->failures;

        if (hours < r.gpu_hours.low) {
            r.gpu_hours.low = hours;
            r.worst = row;
        }
        if (hours > r.gpu_hours.high) {
            r.gpu_hours.high = hours;
            r.best = row;
        }
        if (!r.usual && str_eq(row->gpu, want)) { /* the first of the kind is the largest set */
            r.gpu_hours.usual = hours;
            r.usual = row;
        }
    }
    assert(r.usual && r.worst && r.best);
    *out = r;
}
