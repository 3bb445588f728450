/* SPDX-License-Identifier: MIT */
/* check_alerts: thresholds of alerts and goals: their units, their order, and whether the default
 * rules that a file changes exist. */
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/csv.h"
#include "spec/check/check_int.h"

static const struct {
    enum spec_unit unit;
    const char *word, *like;
} unit_words[] = {
    { SPEC_UNIT_PERCENT, "in percent", "80%" },
    { SPEC_UNIT_CELSIUS, "in degrees Celsius", "85C" },
    { SPEC_UNIT_WATT, "in watts", "700W" },
    { SPEC_UNIT_BYTES, "a size", "20GB" },
    { SPEC_UNIT_BPS, "a rate", "400Gb/s" },
    { SPEC_UNIT_MS, "a duration", "250ms" },
    { SPEC_UNIT_COUNT, "a count", "3" },
    { SPEC_UNIT_MONEY, "an amount of money", "$5000" },
    { SPEC_UNIT_PER_S, "a number a second", "1000/s" },
};

static bool check_unit(struct check *c, const struct spec_quantity *q, enum spec_unit want,
                       const char *what)
{
    if (!q->known || q->unit == want)
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(unit_words); i++)
        if (unit_words[i].unit == want) {
            ERROR(c, q, "%s is %s, not '%s'", what, unit_words[i].word, q->text);
            diag_hint(c->l, "Write it like %s.", unit_words[i].like);
        }
    return false;
}

bool check_metric_unit(struct check *c, const struct spec_quantity *q, enum spec_metric m)
{
    return check_unit(c, q, spec_metric_unit(m), spec_metric_name(m));
}

/* A metric that we have no word for needs to be told all. */
static void check_custom(struct check *c, const struct spec_alert *a)
{
    bool custom = a->metric == SPEC_METRIC_CUSTOM;

    if (custom && !a->series) {
        ERROR(c, &a->name, "alert '%s' has metric custom but no series", a->name);
        diag_hint(c->l, "Name the metric with 'series'.");
    }
    if (!custom && a->series)
        ERROR(c, &a->series, "alert '%s' has a series, which only metric custom has", a->name);
    if (!custom && a->how != SPEC_HOW_VALUE)
        ERROR(c, &a->how, "alert '%s' says how to compare, which only metric custom does", a->name);
    if (custom && !a->window_ms.known && a->how != SPEC_HOW_VALUE && a->how != SPEC_HOW_ABSENT) {
        ERROR(c, &a->how, "alert '%s' needs a window", a->name);
        diag_hint(c->l, "Add 'window: 5m'.");
    }
}

/* Is x further into trouble than y? */
static bool is_worse(const struct spec_alert *a, double x, double y)
{
    return a->when == SPEC_SIDE_ABOVE ? x > y : x < y;
}

static void check_alert(struct check *c, const struct spec_alert *a)
{
    const char *word = a->when == SPEC_SIDE_ABOVE ? "above" : "below";
    bool units = check_metric_unit(c, &a->warn, a->metric);

    units = check_metric_unit(c, &a->critical, a->metric) && units;
    units = check_metric_unit(c, &a->clear, a->metric) && units;
    check_custom(c, a);
    if (!a->warn.known && !a->critical.known && a->how != SPEC_HOW_ABSENT) {
        ERROR(c, &a->name, "alert '%s' has no threshold", a->name);
        diag_hint(c->l, "Add 'warn', 'critical' or both.");
    }
    if (!units)
        return;
    if (a->warn.known && a->critical.known && !is_worse(a, a->critical.v, a->warn.v)) {
        ERROR(c, &a->critical, "alert '%s' warns %s %s, but is critical %s %s already", a->name,
              word, a->warn.text, word, a->critical.text);
        diag_hint(c->l, "'critical' must be %s 'warn' when %s values are bad.", word,
                  a->when == SPEC_SIDE_ABOVE ? "high" : "low");
    }
    if (a->clear.known) {
        const struct spec_quantity *first = a->warn.known ? &a->warn : &a->critical;

        if (first->known && is_worse(a, a->clear.v, first->v))
            ERROR(c, &a->clear, "alert '%s' would clear at %s, still %s its threshold %s", a->name,
                  a->clear.text, word, first->text);
    }
}

/* --- changes to the default rules --- */
/* What a unit of data/alerts.csv is in a spec. */
static enum spec_unit rule_unit(const char *unit)
{
    static const struct {
        const char *word;
        enum spec_unit unit;
    } rows[] = {
        { "%", SPEC_UNIT_PERCENT }, { "ratio", SPEC_UNIT_PERCENT }, { "ns/s", SPEC_UNIT_PERCENT },
        { "C", SPEC_UNIT_CELSIUS }, { "W", SPEC_UNIT_WATT },        { "B", SPEC_UNIT_BYTES },
        { "B/s", SPEC_UNIT_BPS },   { "s", SPEC_UNIT_MS },          { "/s", SPEC_UNIT_PER_S },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_eq(unit, rows[i].word))
            return rows[i].unit;
    return SPEC_UNIT_COUNT;
}

static long default_row(const struct csv *t, int col, const char *name)
{
    for (size_t i = 0; i < t->rows; i++)
        if (str_eq(csv_cell(t, i, (size_t)col), name))
            return (long)i;
    return -1;
}

static void no_default(struct check *c, const struct csv *t, int col,
                       const struct spec_default_alert *d)
{
    const char **names = arena_array(c->l->arena, const char *, t->rows);
    const char *near;

    for (size_t i = 0; i < t->rows; i++)
        names[i] = csv_cell(t, i, (size_t)col);
    near = str_nearest(d->name, names, t->rows);
    ERROR(c, &d->name, "there is no default alert '%s'", d->name);
    if (near)
        diag_hint(c->l, "Did you mean '%s'?", near);
    else
        diag_hint(c->l, "docs/user/alerts.md lists them; one of your own stands in 'alerts'.");
}

static void check_default(struct check *c, const struct spec_default_alert *d, const char *unit,
                          const char *op)
{
    bool above = str_eq(op, "above"), below = str_eq(op, "below");
    bool units = check_unit(c, &d->threshold, rule_unit(unit), d->name);

    units = check_unit(c, &d->clear, rule_unit(unit), d->name) && units;
    if (!units || !d->clear.known)
        return;
    if (!above && !below)
        ERROR(c, &d->clear, "alert '%s' is not %s a threshold and has nowhere to clear", d->name,
              "above or below");
    else if (!d->threshold.known)
        ERROR(c, &d->clear, "alert '%s' gets a 'clear' without a 'threshold'", d->name);
    else if (above ? d->clear.v > d->threshold.v : d->clear.v < d->threshold.v)
        ERROR(c, &d->clear, "alert '%s' would clear at %s, still %s its threshold %s", d->name,
              d->clear.text, op, d->threshold.text);
}

static void check_default_alerts(struct check *c)
{
    struct csv t;
    int name, unit, op;

    if (!c->s->default_alert_count || cat_alerts_load(c->l->arena, &t, NULL))
        return;
    name = csv_col(&t, "name");
    unit = csv_col(&t, "unit");
    op = csv_col(&t, "op");
    for (size_t i = 0; i < c->s->default_alert_count; i++) {
        const struct spec_default_alert *d = &c->s->default_alerts[i];
        long row = default_row(&t, name, d->name);

        if (row < 0)
            no_default(c, &t, name, d);
        else
            check_default(c, d, csv_cell(&t, (size_t)row, (size_t)unit),
                          csv_cell(&t, (size_t)row, (size_t)op));
    }
}

void check_thresholds(struct check *c)
{
    check_default_alerts(c);
    for (size_t i = 0; i < c->s->alert_count; i++)
        check_alert(c, &c->s->alerts[i]);
    for (size_t i = 0; i < c->s->goal_count; i++) {
        const struct spec_goal *g = &c->s->goals[i];

        if (!check_metric_unit(c, &g->min, g->metric) || !check_metric_unit(c, &g->max, g->metric))
            continue;
        if (!g->min.known && !g->max.known)
            ERROR(c, &g->name, "goal '%s' has neither 'min' nor 'max'", g->name);
        if (g->min.known && g->max.known && g->min.v > g->max.v)
            ERROR(c, &g->min, "goal '%s' wants at least %s but at most %s", g->name, g->min.text,
                  g->max.text);
    }
}
