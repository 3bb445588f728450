/* SPDX-License-Identifier: MIT */
/* alerts_cost: what the site costs as Prometheus sees it, and the rules of `budgets`.
 *
 * Money is counted, not guessed: each minute the machines at the spec's prices are recorded as
 * dollars an hour, a day's and a month's cost is the sum of those records.
 *
 *   owned, reserved    a machine is paid for whether it answers or not
 *   on_demand, spot    one that has not answered for some minutes is away and costs nothing; a
 *                      scrape that is missed, or an agent that is started again, changes nothing
 *
 * A Prometheus that is younger than a day or a month has seen less than was spent: its sums are
 * low and never made up.  The month is the calendar's, in UTC, and a sum of hours: each carries the
 * month it was in, and those of the present one are kept.
 *
 * What a component costs is known where no other component runs on its groups: then it is the GPUs
 * with processes on them (or the machines, when it has no GPUs).  A component that cannot spend its
 * budget, with every replica at work, needs no rule.  Everything else is a warning at its key. */
#include "base/str.h"
#include "base/text/units.h"
#include "render/alerts/alerts_int.h"
#include "render/machine_cost_int.h"

#include <inttypes.h>
#include <math.h>

enum {
    GONE_MIN = 10,  /* minutes after which a machine that does not answer is away */
    LEVELS = 5,     /* rules of one who has a budget of the day and of the month */
    RECORDS = 4,    /* for everybody, and one for each component */
    DAYS_MOST = 31, /* of a month */
};
#define DAY_HOURS 24.0
/* Twelve steps an hour; both ends of a range count, hence a minute less. */
#define DAY_STEPS  "[1439m:5m]"
#define HOUR_STEPS "[59m:5m]"
#define MONTH_NOW  "count_values(\"month\", month())"
#define MONTH_THEN "count_values(\"month\", month(vector(time() - 1800)))" /* of the hour before */

/* ---- dollars an hour */
static void window_add(const struct render *r, struct buf *out)
{
    int64_t two = (2 * r->targets->prometheus->scrape_ms + 59999) / 60000;

    buf_addf(out, "[%" PRId64 "m]", two > GONE_MIN ? two : GONE_MIN);
}

static void up_add(const struct render *r, const struct spec_node *n, const char *of,
                   struct buf *out)
{
    buf_addf(out, "%s(up{job=\"" ALERTS_JOB_AGENT "\",group=\"%s\"}", of, n->name);
    window_add(r, out);
    buf_addc(out, ')');
}

static void group_cost(const struct render *r, const struct spec_node *n, double price,
                       struct buf *out)
{
    bool stops = render_cost_stops(n);

    buf_addf(out, "%s%.6g * %s by (group) (", out->len ? " or " : "", price,
             stops ? "sum" : "count");
    up_add(r, n, stops ? "max_over_time" : "last_over_time", out);
    buf_addc(out, ')');
}

void alerts_cost_groups(const struct render *r, const struct spec_alert *own, struct buf *out)
{
    double price;

    for (size_t i = 0; i < r->spec->node_count; i++)
        if ((!own || alerts_is_for(r->spec, own, &r->spec->nodes[i])) &&
            render_cost_hour(r->spec, &r->spec->nodes[i], &price) && price > 0)
            group_cost(r, &r->spec->nodes[i], price, out);
}

/* Nobody else's work is on a group. */
static bool has_alone(const struct spec *s, const struct spec_component *c,
                      const struct spec_node *n)
{
    for (size_t i = 0; i < s->component_count; i++)
        if (&s->components[i] != c && spec_component_on(s, &s->components[i], n))
            return false;
    for (size_t i = 0; i < s->model_count; i++)
        if (!s->models[i].component && n->role == SPEC_ROLE_GPU)
            return false;
    return true;
}

static bool is_alone(const struct spec *s, const struct spec_component *c)
{
    const struct spec_node *n;

    for (size_t i = 0; (n = spec_component_group(s, c, i)); i++)
        if (!has_alone(s, c, n))
            return false;
    return true;
}

/* The GPUs it is on; none of a machine that is known are 0. */
static void component_cost(const struct render *r, const struct spec_component *c, struct buf *out)
{
    bool has_gpus = c->gpus || c->pools.count;
    const struct spec_node *n;
    double price;

    for (size_t i = 0; (n = spec_component_group(r->spec, c, i)); i++) {
        if (!render_cost_hour(r->spec, n, &price))
            continue; /* it was told of */
        if (!has_gpus || !n->gpus_per_node) {
            group_cost(r, n, price, out);
            continue;
        }
        buf_addf(out,
                 "%s%.6g * count by (group) (last_over_time(stoker_gpu_processes{group=\"%s\"}",
                 out->len ? " or " : "", price / (double)n->gpus_per_node, n->name);
        window_add(r, out);
        buf_adds(out, ") > 0) or 0 * count by (group) (");
        up_add(r, n, "last_over_time", out);
        buf_addc(out, ')');
    }
}

/* ---- records */
static struct alerts_record *record_add(struct render_alerts *all, const char *name,
                                        const char *expr, const void *member)
{
    struct alerts_record *x = &all->records[all->record_count++];

    *x = (struct alerts_record){ .name = name, .expr = expr, .member = member };
    return x;
}

static const char *sum_take(struct arena *a, struct buf *b)
{
    const char *s = arena_printf(a, "sum(%s)", buf_str(b));

    buf_release(b);
    return s;
}

/* The first budget of a day or of a month; NULL: there is none. */
static const struct spec_money *budget_of(const struct spec_budgets *b, bool day)
{
    if (day ? b->day.known : b->month.known)
        return day ? &b->day : &b->month;
    for (size_t i = 0; i < b->component_count; i++)
        if (day ? b->components[i].day.known : b->components[i].month.known)
            return day ? &b->components[i].day : &b->components[i].month;
    return NULL;
}

static void sums_add(struct render_alerts *all, const struct spec_budgets *b)
{
    const struct spec_money *day = budget_of(b, true), *month = budget_of(b, false);

    if (day)
        (void)record_add(all, ALERTS_COST_DAY, "sum_over_time(" ALERTS_COST_HOUR DAY_STEPS ") / 12",
                         day);
    if (!month)
        return;
    (void)record_add(all, ALERTS_COST_ONE, "sum_over_time(" ALERTS_COST_HOUR HOUR_STEPS ") / 12",
                     month);
    (void)record_add(all, ALERTS_COST_MONTH,
                     "sum without (month) (sum_over_time((" ALERTS_COST_ONE
                     " * on () group_left (month) " MONTH_THEN
                     ")[31d:1h]) and on (month) " MONTH_NOW ")",
                     month);
}

/* ---- rules */
static double budget_dollars(const struct spec_money *m, bool day)
{
    double month = render_cost_monthly(m);

    return day ? month / RENDER_HOURS_A_MONTH * DAY_HOURS : month;
}

static const char *money_text(double v, bool day, char out[UNITS_TEXT_MAX])
{
    return units_money_exact((int64_t)llround(v * 100) * 10000,
                             day ? MONEY_PER_DAY : MONEY_PER_MONTH, out);
}

struct cost_owner {        /* of a budget */
    const char *component; /* NULL: the site */
    const char *who;       /* for a summary */
    const struct spec_money *day, *month;
};

static const char *labels_of_owner(struct arena *a, const struct cost_owner *o)
{
    return arena_printf(a, "{component=\"%s\"}", o->component ? o->component : "");
}

static struct render_alert *rule_add(struct render_alerts *all, const struct cost_owner *o,
                                     const struct spec_money *m, const char *name)
{
    struct render_alert *x = &all->items[all->count++];

    *x = (struct render_alert){ .component = o->component, .member = m };
    x->rule = (struct alert_rule){ .name = name,
                                   .metric = m == o->day ? "budget.day" : "budget.month",
                                   .op = ALERT_ABOVE,
                                   .clear = NAN,
                                   .unit = "$" };
    return x;
}

static void level_add(struct render_alerts *all, const struct cost_owner *o,
                      const struct spec_money *m, double pct)
{
    bool day = m == o->day, over = pct >= 100;
    struct arena *a = &all->arena;
    struct render_alert *x = rule_add(all, o, m, day ? "BudgetDay" : "BudgetMonth");
    double most = budget_dollars(m, day);
    char text[UNITS_TEXT_MAX];

    x->budget = day ? BUDGET_DAY : BUDGET_MONTH;
    x->rule.severity = over ? ALERT_CRITICAL : ALERT_WARNING;
    x->rule.threshold = most * pct / 100;
    x->rule.summary =
        over ? arena_printf(a, "%s cost {value} dollars %s, more than the budget of %s", o->who,
                            day ? "in the last day" : "this month", money_text(most, day, text))
             : arena_printf(a, "%s cost {value} dollars %s, more than %.4g %% of the budget of %s",
                            o->who, day ? "in the last day" : "this month", pct,
                            money_text(most, day, text));
    x->rule.why = "counted from the machines that Prometheus has seen, at the prices of the spec";
    x->expr = arena_printf(a, "%s%s > %.12g", day ? ALERTS_COST_DAY : ALERTS_COST_MONTH,
                           labels_of_owner(a, o), x->rule.threshold);
}

/* At the rate of the last day, for as many days as are looked ahead or are left of the month. */
static void forecast_add(const struct render *r, struct render_alerts *all,
                         const struct cost_owner *o)
{
    int64_t days = r->spec->budgets.forecast_days;
    struct render_alert *x = rule_add(all, o, o->month, "BudgetForecast");
    struct arena *a = &all->arena;
    const char *labels = labels_of_owner(a, o);
    double most = budget_dollars(o->month, false);
    char text[UNITS_TEXT_MAX];

    x->budget = BUDGET_FORECAST;
    x->rule.severity = ALERT_WARNING;
    x->rule.threshold = most;
    x->rule.for_ns = INT64_C(3600) * 1000000000;
    x->rule.summary = arena_printf(
        a,
        "At the rate of the last day %s has cost {value} dollars this month in %" PRId64
        " days or at its end, more than the budget of %s",
        o->component ? arena_printf(a, "component %s", o->component) : "the site", days,
        money_text(most, false, text));
    x->rule.why = "what was spent this month and the mean rate of the last day";
    x->expr =
        arena_printf(a,
                     ALERTS_COST_MONTH
                     "%s + avg_over_time(" ALERTS_COST_HOUR "%s" DAY_STEPS
                     ") * on () group_left () clamp_max(24 * (days_in_month() - day_of_month() "
                     "+ 1) - hour() - minute() / 60, %" PRId64 ") > %.12g",
                     labels, labels, 24 * days, most);
}

static void owner_add(const struct render *r, struct render_alerts *all, const struct cost_owner *o)
{
    double warn = r->spec->budgets.warn_pct;
    const struct spec_money *each[] = { o->day, o->month };

    for (size_t i = 0; i < ARRAY_SIZE(each); i++) {
        if (!each[i]->known)
            continue;
        if (warn < 100)
            level_add(all, o, each[i], warn);
        level_add(all, o, each[i], 100);
    }
    if (o->month->known)
        forecast_add(r, all, o);
}

/* ---- what is told of */
#define NO_PRICE "Give its nodes a 'price' or 'capex', or 'prices.gpu_hour'."

struct teller {
    struct render *r;
    bool told;
};

/* The groups whose machines cost nobody knows what. */
static bool unpriced_list(const struct spec *s, struct buf *out)
{
    size_t count = 0;
    double price;

    for (size_t i = 0; i < s->node_count; i++)
        if (!render_cost_hour(s, &s->nodes[i], &price)) {
            buf_addf(out, "%s'%s'", out->len ? ", " : "", s->nodes[i].name);
            count++;
        }
    return count == s->node_count;
}

/* Machines that are there all the time, dollars an hour. */
static double steady_cost(const struct render *r)
{
    double all = 0, price;

    for (size_t i = 0; i < r->spec->node_count; i++) {
        const struct spec_node *n = &r->spec->nodes[i];

        if (!alerts_group_sleeps(r, n) && render_cost_hour(r->spec, n, &price))
            all += price * (double)n->count;
    }
    return all;
}

static void site_tell(const struct teller *t, const struct spec_money *m, bool day)
{
    double hours = day ? DAY_HOURS : RENDER_HOURS_A_MONTH, all = steady_cost(t->r) * hours;
    char text[UNITS_TEXT_MAX], most[UNITS_TEXT_MAX];
    struct buf without = { 0 };
    bool none = unpriced_list(t->r->spec, &without);

    if (none)
        render_warn(t->r, m, NO_PRICE, "what the site costs is unknown: no node group has a price");
    else if (without.len)
        render_warn(t->r, m, NO_PRICE,
                    "the cost that is held against this budget leaves out %s: no price is known",
                    buf_str(&without));
    if (all > budget_dollars(m, day))
        render_warn(t->r, m,
                    "They cost that whatever runs on them: raise the budget, or have fewer.",
                    "the machines cost %s at the prices of the spec, the budget is %s",
                    money_text(all, day, text), money_text(budget_dollars(m, day), day, most));
    buf_release(&without);
}

/* Does a rule have to watch it? */
static bool component_tell(const struct teller *t, const struct spec_component *c,
                           const struct spec_money *m, bool day)
{
    double most = budget_dollars(m, day), all;
    bool alone = is_alone(t->r->spec, c);
    char text[UNITS_TEXT_MAX], words[UNITS_TEXT_MAX];

    if (!render_cost_component(t->r->spec, c, &all)) {
        if (t->told)
            render_warn(t->r, m, NO_PRICE,
                        "what component '%s' costs is unknown: no price is known", c->name);
        return false;
    }
    all *= day ? DAY_HOURS : RENDER_HOURS_A_MONTH;
    if (all <= most)
        return false;
    money_text(all, day, text);
    money_text(most, day, words);
    if (t->told && !alone)
        render_warn(
            t->r, m, "Give it a node group of its own.",
            "what component '%s' costs is not measured, as others run on its nodes; at work "
            "all the time it costs %s, the budget is %s",
            c->name, text, words);
    else if (t->told && !c->queued &&
             (c->kind == SPEC_COMPONENT_SERVICE || c->kind == SPEC_COMPONENT_SERVING))
        render_warn(t->r, m, "It runs all the time: raise the budget, or have fewer replicas.",
                    "component '%s' costs %s at the prices of the spec, the budget is %s", c->name,
                    text, words);
    return alone;
}

static void component_add(struct teller *t, struct render_alerts *all, const struct spec_share *s)
{
    static const struct spec_money none;
    const struct spec_component *c = spec_component_find(t->r->spec, s->name);
    bool day = s->day.known && component_tell(t, c, &s->day, true);
    bool month = s->month.known && component_tell(t, c, &s->month, false);
    struct cost_owner o = { .component = s->name,
                            .who = arena_printf(&all->arena, "Component %s", s->name),
                            .day = day ? &s->day : &none,
                            .month = month ? &s->month : &none };
    struct buf b = { 0 };

    if (!day && !month)
        return;
    component_cost(t->r, c, &b);
    record_add(all, ALERTS_COST_HOUR, sum_take(&all->arena, &b), day ? &s->day : &s->month)
        ->component = s->name;
    owner_add(t->r, all, &o);
}

size_t alerts_budgets_most(const struct spec *s)
{
    return LEVELS * (1 + s->budgets.component_count);
}

static void site_add(const struct teller *t, struct render_alerts *all)
{
    const struct spec_budgets *b = &t->r->spec->budgets;
    struct cost_owner site = { .who = "The site", .day = &b->day, .month = &b->month };
    struct buf cost = { 0 };

    if (t->told && b->day.known)
        site_tell(t, &b->day, true);
    if (t->told && b->month.known)
        site_tell(t, &b->month, false);
    alerts_cost_groups(t->r, NULL, &cost);
    if (cost.len && (b->day.known || b->month.known)) {
        (void)record_add(all, ALERTS_COST_HOUR, sum_take(&all->arena, &cost),
                         b->day.known ? &b->day : &b->month);
        owner_add(t->r, all, &site);
    }
    buf_release(&cost);
}

static void budgets_add(struct teller *t, struct render_alerts *all)
{
    const struct spec_budgets *b = &t->r->spec->budgets;

    all->records = arena_array(&all->arena, struct alerts_record, RECORDS + b->component_count);
    site_add(t, all);
    for (size_t i = 0; i < b->component_count; i++)
        component_add(t, all, &b->components[i]);
    if (all->record_count)
        sums_add(all, b);
}

void alerts_budgets(struct render *r, struct render_alerts *all)
{
    struct teller t = { .r = r };

    budgets_add(&t, all);
}

void alerts_budgets_tell(struct render *r, bool watched)
{
    const struct spec_budgets *b = &r->spec->budgets;
    const void *first = budget_of(b, true) ? budget_of(b, true) : budget_of(b, false);
    struct teller t = { .r = r, .told = true };
    struct render_alerts all = { 0 };

    if (!first || r->budgets_told)
        return;
    r->budgets_told = true;
    if (!watched)
        render_warn(r, first, "Add 'targets: {prometheus: {}}', whose alerts tell of it.",
                    "nobody is told of what is spent: no target has alert rules");
    else if (!r->spec->agent.enabled)
        render_warn(r, first, "Set 'agent: {enabled: true}'.",
                    "what is spent is not measured: no machine has an agent");
    all.items = arena_array(&all.arena, struct render_alert, alerts_budgets_most(r->spec));
    budgets_add(&t, &all);
    if (watched) {
        const struct spec_prometheus *p = t.r->targets->prometheus;

        if (t.told && budget_of(&t.r->spec->budgets, false) &&
            p->retention_ms < DAYS_MOST * INT64_C(86400000))
            render_warn(t.r, &p->retention_ms, "Keep samples for 32d.",
                        "the budget of a month needs the samples of 31 days");
    }
    arena_release(&all.arena);
}
