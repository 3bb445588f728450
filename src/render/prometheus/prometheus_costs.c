/* SPDX-License-Identifier: MIT */
/* prometheus_costs: tests/budgets_test.yml for `promtool test rules`: what machines cost that
 * answer and that do not, and every alert of a budget.
 *
 * promtool's clock begins with the year 1970, so that a month is young and Prometheus with it.  The
 * recorded cost of an hour is given, not the machines, or a large budget would need thousands:
 *
 *   bad    a sixth of the budget an hour, with a gap of two hours: over it after eight, not
 *          before; a day after it has ended, or with the month, that is forgotten
 *   near   just more or less than the budget in a whole day, or at the end of what is looked ahead
 *
 * Rules are evaluated once an hour, which is enough for sums of days, and every six hours in
 * budgets_month_test.yml, which goes through a month. */
#include "base/str.h"
#include "render/machine_cost_int.h"
#include "render/prometheus/prometheus_int.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    HOUR_SAMPLES = 12, /* one in five minutes */
    MONTH_HOURS = 744, /* of January */
    FIRES_HOURS = 6,   /* of data */
    MONTH_TICK = 6,    /* hours between evaluations of months */
    GAP_FROM = 3,
    GAP_HOURS = 2
};

struct costs {
    struct yaml_out *y;
    const struct render *r;
    const struct render_alert *x;
};

static void test_open(struct costs *c, const char *what)
{
    const char *of = c->x && c->x->component ? c->x->component : "site";

    yaml_map(c->y, NULL);
    if (c->x)
        yaml_strf(c->y, "name", "%s %s %s, %s", c->x->rule.name,
                  alert_severity_word(c->x->rule.severity), of, what);
    else
        yaml_str(c->y, "name", what);
    yaml_str(c->y, "interval", "5m");
    yaml_seq(c->y, "input_series");
}

static void test_expect(struct costs *c)
{
    yaml_end(c->y);
    yaml_seq(c->y, "promql_expr_test");
}

static void test_close(struct costs *c)
{
    yaml_ends(c->y, 2);
}

static void series_put(struct costs *c, const char *series, const char *values)
{
    yaml_map_of(c->y, NULL, "series", series, "values", values);
}

static void spent_put(struct costs *c, const char *name, const char *values)
{
    struct buf series = { 0 };

    buf_adds(&series, name);
    if (c->x->component)
        buf_addf(&series, "{component=\"%s\"}", c->x->component);
    series_put(c, buf_str(&series), values);
    buf_release(&series);
}

static void check_put(struct costs *c, int hours, bool fires)
{
    const struct render_alert *x = c->x;

    yaml_map(c->y, NULL);
    yaml_strf(c->y, "expr",
              "count(ALERTS{alertname=\"%s\",severity=\"%s\",component=\"%s\","
              "alertstate=\"firing\"})",
              x->rule.name, alert_severity_word(x->rule.severity),
              x->component ? x->component : "");
    yaml_strf(c->y, "eval_time", "%dh", hours);
    yaml_seq(c->y, "exp_samples");
    if (fires) {
        yaml_map(c->y, NULL);
        yaml_str(c->y, "labels", "{}");
        yaml_int(c->y, "value", 1);
        yaml_end(c->y);
    }
    yaml_ends(c->y, 2);
}

static void values_add(struct buf *b, double v, int hours)
{
    buf_addf(b, "%s%.12gx%d", b->len ? " " : "", v, hours * HOUR_SAMPLES - 1);
}

static void missing_add(struct buf *b, int hours)
{
    buf_addf(b, "%s_x%d", b->len ? " " : "", hours * HOUR_SAMPLES);
}

static void sum_near(struct costs *c, bool day, bool over)
{
    int hours = day ? 26 : 24;
    struct buf values = { 0 };
    double v = (over ? 1.006 : 0.994) * c->x->rule.threshold / 24;

    values_add(&values, v, hours + 1);
    test_open(c, over ? "just more" : "just less");
    spent_put(c, ALERTS_COST_HOUR, buf_str(&values));
    test_expect(c);
    check_put(c, hours, over);
    test_close(c);
    buf_release(&values);
}

static void sum_bad(struct costs *c, bool day)
{
    struct buf values = { 0 };
    double v = c->x->rule.threshold / FIRES_HOURS;

    values_add(&values, v, GAP_FROM);
    missing_add(&values, GAP_HOURS);
    values_add(&values, v, FIRES_HOURS);
    values_add(&values, 0, 26);
    test_open(c, "more");
    spent_put(c, ALERTS_COST_HOUR, buf_str(&values));
    test_expect(c);
    check_put(c, 0, false);
    check_put(c, FIRES_HOURS + GAP_HOURS - 1, false);
    check_put(c, FIRES_HOURS + GAP_HOURS + 1, true);
    if (day)
        check_put(c, FIRES_HOURS + GAP_HOURS + GAP_FROM + 24, false);
    else
        check_put(c, 36, true);
    test_close(c);
    buf_release(&values);
}

/* What January cost is not February's.  Given are hours, one sample each. */
static void month_end(struct costs *c)
{
    struct buf values = { 0 };

    missing_add(&values, MONTH_HOURS - 18);
    values_add(&values, c->x->rule.threshold / 8, 24);
    test_open(c, "another month");
    spent_put(c, ALERTS_COST_ONE, buf_str(&values));
    test_expect(c);
    check_put(c, MONTH_HOURS - MONTH_TICK, true);
    check_put(c, MONTH_HOURS + MONTH_TICK, false);
    test_close(c);
    buf_release(&values);
}

/* On the first of January, a few hours in. */
static void forecast_test(struct costs *c, bool bad)
{
    int64_t ahead = 24 * c->r->spec->budgets.forecast_days;
    double hours = (double)(ahead < MONTH_HOURS - 4 ? ahead : MONTH_HOURS - 4);
    struct buf values = { 0 };
    double v = c->x->rule.threshold * (bad ? 1.02 / hours : 0.98 / (hours + 4));

    values_add(&values, v, 5);
    test_open(c, bad ? "more" : "less");
    spent_put(c, ALERTS_COST_HOUR, buf_str(&values));
    test_expect(c);
    check_put(c, 0, false);
    check_put(c, 3, bad);
    test_close(c);
    buf_release(&values);
}

/* Two machines of each group, one of which does not answer. */
static void site_test(struct costs *c)
{
    const struct spec *s = c->r->spec;
    double sum = 0, price;
    char text[32];

    c->x = NULL;
    test_open(c, "machines that answer, and that do not");
    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];

        if (!render_cost_hour(s, n, &price) || price <= 0)
            continue;
        for (int up = 0; up < 2; up++) {
            struct buf series = { 0 };

            buf_addf(&series, "up{job=\"" ALERTS_JOB_AGENT "\",group=\"%s\",instance=\"m%d\"}",
                     n->name, up);
            series_put(c, buf_str(&series), up ? "1x24" : "0x24");
            buf_release(&series);
        }
        (void)snprintf(text, sizeof(text), "%.6g", price); /* as the rule has it */
        sum += strtod(text, NULL) * (render_cost_stops(n) ? 1 : 2);
    }
    test_expect(c);
    yaml_map(c->y, NULL);
    yaml_str(c->y, "expr", "round(100 * " ALERTS_COST_HOUR "{component=\"\"})");
    yaml_str(c->y, "eval_time", "1h");
    yaml_open(c->y, "exp_samples[]");
    yaml_str(c->y, "labels", "{}");
    yaml_int(c->y, "value", (int64_t)floor(100 * sum + 0.5));
    yaml_ends(c->y, 3);
    test_close(c);
}

static void budget_test(struct costs *c)
{
    if (c->x->budget == BUDGET_FORECAST) {
        forecast_test(c, true);
        forecast_test(c, false);
        return;
    }
    sum_bad(c, c->x->budget == BUDGET_DAY);
    sum_near(c, c->x->budget == BUDGET_DAY, true);
    sum_near(c, c->x->budget == BUDGET_DAY, false);
}

static void file_put(struct render *r, const struct render_alerts *all, const char *name,
                     bool months)
{
    struct yaml_out y;
    struct costs c = { .y = &y, .r = r };
    struct buf *b = render_file(r, "prometheus/tests/%s", name);

    render_head(r, b, "#", "tests of the rules of budgets, for promtool test rules");
    yaml_begin(&y, b);
    yaml_seq_of(&y, "rule_files", "../rules/alerts.yml");
    yaml_strf(&y, "evaluation_interval", "%dh", months ? MONTH_TICK : 1);
    yaml_seq(&y, "tests");
    if (!months && !all->records[0].component)
        site_test(&c);
    for (size_t i = 0; i < all->count; i++) {
        c.x = &all->items[i];
        if (!months && c.x->budget)
            budget_test(&c);
        else if (months && c.x->budget == BUDGET_MONTH && c.x->rule.severity == ALERT_CRITICAL)
            month_end(&c);
    }
    yaml_finish(&y);
}

void prometheus_cost_tests(struct render *r, const struct render_alerts *all)
{
    bool months = false;

    if (!all->record_count)
        return;
    for (size_t i = 0; i < all->count; i++)
        months |= all->items[i].budget == BUDGET_MONTH;
    file_put(r, all, "budgets_test.yml", false);
    if (months)
        file_put(r, all, "budgets_month_test.yml", true);
}
