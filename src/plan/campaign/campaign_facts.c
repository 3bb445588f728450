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

enum { COLS_MAX = 8 };

/* A table whose columns are `names`, in any order; their places in `col`. */
static enum rc open_table(struct arena *a, const char *text, size_t len, const char *const *names,
                          struct csv *t, size_t col[COLS_MAX], struct err *err)
{
    enum rc rc = csv_parse(a, text, len, t, err);

    if (rc)
        return rc;
    for (size_t i = 0; names[i]; i++) {
        int c = csv_col(t, names[i]);

        assert(i < COLS_MAX);
        if (c < 0)
            return err_set(err, RC_PARSE, "there is no column '%s'", names[i]);
        col[i] = (size_t)c;
    }
    return RC_OK;
}

/* NaN for an empty cell; a cell that is no number is a fault of the table. */
static enum rc read_number(const struct csv *t, size_t row, size_t col, double *out,
                           struct err *err)
{
    const char *s = csv_cell(t, row, col);

    *out = NAN;
    if (!*s || str_to_f64(s, out))
        return RC_OK;
    return err_set(err, RC_PARSE, "line %zu: '%s' is not a number", row + 2, s);
}

static enum rc load_failures(struct arena *a, struct plan_facts *out, struct err *err)
{
    static const char *const names[] = { "name",     "gpu",  "gpus",   "gpu_hours",
                                         "failures", "what", "source", "hardware_share",
                                         NULL };
    struct plan_failures *rows;
    size_t col[COLS_MAX] = { 0 };
    struct csv t;

    if (open_table(a, data_failures, data_failures_len, names, &t, col, err))
        return err_ctx(err, "table 'failures.csv'");
    rows = arena_array(a, struct plan_failures, t.rows);
    for (size_t i = 0; i < t.rows; i++) {
        rows[i].name = csv_cell(&t, i, col[0]);
        rows[i].gpu = csv_cell(&t, i, col[1]);
        rows[i].what = csv_cell(&t, i, col[5]);
        rows[i].source = csv_cell(&t, i, col[6]);
        if (read_number(&t, i, col[2], &rows[i].gpus, err) ||
            read_number(&t, i, col[3], &rows[i].gpu_hours, err) ||
            read_number(&t, i, col[4], &rows[i].failures, err) ||
            read_number(&t, i, col[7], &rows[i].hardware_share, err))
            return err_ctx(err, "table 'failures.csv'");
        if (isnan(rows[i].hardware_share))
            rows[i].hardware_share = 0;
    }
    out->failures = rows;
    out->failures_count = t.rows;
    return RC_OK;
}

static enum rc load_prices(struct arena *a, struct plan_facts *out, struct err *err)
{
    static const char *const names[] = { "item", "unit", "low",    "usual",
                                         "high", "date", "source", NULL };
    struct plan_price *rows;
    size_t col[COLS_MAX] = { 0 };
    struct csv t;

    if (open_table(a, data_prices, data_prices_len, names, &t, col, err))
        return err_ctx(err, "table 'prices.csv'");
    rows = arena_array(a, struct plan_price, t.rows);
    for (size_t i = 0; i < t.rows; i++) {
        rows[i].item = csv_cell(&t, i, col[0]);
        rows[i].unit = csv_cell(&t, i, col[1]);
        rows[i].date = csv_cell(&t, i, col[5]);
        rows[i].source = csv_cell(&t, i, col[6]);
        if (read_number(&t, i, col[2], &rows[i].low, err) ||
            read_number(&t, i, col[3], &rows[i].usual, err) ||
            read_number(&t, i, col[4], &rows[i].high, err))
            return err_ctx(err, "table 'prices.csv'");
    }
    out->prices = rows;
    out->prices_count = t.rows;
    return RC_OK;
}

static enum rc load_facts(struct arena *a, struct plan_facts *out, struct err *err)
{
    static const char *const names[] = { "name", "value", "unit", "source", NULL };
    struct plan_fact *rows;
    size_t col[COLS_MAX] = { 0 };
    struct csv t;

    if (open_table(a, data_campaign, data_campaign_len, names, &t, col, err))
        return err_ctx(err, "table 'campaign.csv'");
    rows = arena_array(a, struct plan_fact, t.rows);
    for (size_t i = 0; i < t.rows; i++) {
        rows[i].name = csv_cell(&t, i, col[0]);
        rows[i].unit = csv_cell(&t, i, col[2]);
        rows[i].source = csv_cell(&t, i, col[3]);
        if (read_number(&t, i, col[1], &rows[i].value, err))
            return err_ctx(err, "table 'campaign.csv'");
    }
    out->facts = rows;
    out->facts_count = t.rows;
    return RC_OK;
}

static enum rc load_bands(struct arena *a, struct plan_facts *out, struct err *err)
{
    static const char *const names[] = {
        "gpu", "moe", "stack", "low", "high", "n", "source", NULL
    };
    struct plan_band_row *rows;
    size_t col[COLS_MAX] = { 0 };
    struct csv t;

    if (open_table(a, data_plan_bands, data_plan_bands_len, names, &t, col, err))
        return err_ctx(err, "table 'plan_bands.csv'");
    rows = arena_array(a, struct plan_band_row, t.rows);
    for (size_t i = 0; i < t.rows; i++) {
        double n;

        rows[i].gpu = csv_cell(&t, i, col[0]);
        rows[i].moe = csv_cell(&t, i, col[1]);
        rows[i].stack = csv_cell(&t, i, col[2]);
        rows[i].source = csv_cell(&t, i, col[6]);
        if (read_number(&t, i, col[3], &rows[i].low, err) ||
            read_number(&t, i, col[4], &rows[i].high, err) || read_number(&t, i, col[5], &n, err))
            return err_ctx(err, "table 'plan_bands.csv'");
        rows[i].n = (int64_t)n;
    }
    out->bands = rows;
    out->bands_count = t.rows;
    return RC_OK;
}

enum rc plan_facts_load(struct arena *a, struct plan_facts *out, struct err *err)
{
    struct plan_facts f = { 0 };
    enum rc rc = load_failures(a, &f, err);

    if (rc == RC_OK)
        rc = load_prices(a, &f, err);
    if (rc == RC_OK)
        rc = load_facts(a, &f, err);
    if (rc == RC_OK)
        rc = load_bands(a, &f, err);
    if (rc == RC_OK)
        *out = f;
    return rc;
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
