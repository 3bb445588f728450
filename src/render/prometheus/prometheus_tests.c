/* SPDX-License-Identifier: MIT */
/* prometheus_tests: tests/alerts_test.yml for `promtool test rules`: every alert is given series
 * of up to three machines,
 *
 *   bad    beyond the threshold, then between it and where the alert clears, then well again
 *   near   just on the right side of it, all the time
 *   off    as bad, but the state that the rule is limited to does not hold
 *
 * and must fire for `bad` only, not before `for` is over and not after `keep` is.  Rules are
 * evaluated once a tick, and a tick has four samples: it is a minute, and five of them in
 * alerts_slow_test.yml, which has the rules that take long. */
#include "base/str.h"
#include "render/machine_cost_int.h"
#include "render/prometheus/prometheus_int.h"

#include <inttypes.h>
#include <math.h>

enum {
    A_TICK = 4,        /* samples */
    TICK_S = 60,       /* seconds of a tick */
    SLOW_TICK_S = 300, /* and of rules that take SLOW_S or more */
    SLOW_S = 1200,
    MACHINES_MAX = 500,  /* of a test of cost */
    LONG_S = 3 * 3600,   /* windows beyond are not waited for */
    ABSENT_S = 3 * 3600, /* a series that is gone is missed still */
    BASE = 1000          /* of counters: they were there before */
};

#define BAD "{instance=\"bad:9400\"}"

struct rule_test_plan { /* in ticks */
    int tick_s;
    struct rule_track {
        struct phase {
            double level; /* NaN: from where it is */
            double slope; /* a second */
            int ticks;
            enum { HELD, MISSING, STALE } kind;
        } phases[4];
        size_t count;
    } bad, near;
    int true_at, fires_at, gone_at; /* gone_at 0: not waited for */
    int holds_at;                   /* fires still; 0: nothing to see */
};

static int tick_of(const struct alert_rule *r)
{
    bool fine = r->window_ns && r->window_ns < SLOW_TICK_S * INT64_C(1000000000);
    int64_t all = r->window_ns + r->for_ns + r->keep_ns;

    return !fine && all >= SLOW_S * INT64_C(1000000000) ? SLOW_TICK_S : TICK_S;
}

static int ticks_of(const struct rule_test_plan *p, int64_t ns)
{
    int64_t tick_ns = p->tick_s * INT64_C(1000000000);

    return (int)((ns + tick_ns - 1) / tick_ns);
}

static void track_add(struct rule_track *t, double level, double slope, int ticks)
{
    t->phases[t->count++] = (struct phase){ .level = level, .slope = slope, .ticks = ticks };
}

/* ---- numbers on the one and the other side */
static double value_beyond(double v, double part, double least)
{
    double d = fabs(v) * part;

    return d > 0 ? d : least;
}

static double bad_value(const struct alert_rule *r)
{
    double d = value_beyond(r->threshold, 0.005, 1);

    switch (r->op) {
    case ALERT_ABOVE:
        return r->threshold + d;
    case ALERT_BELOW:
        return r->threshold - d;
    case ALERT_EQUAL:
        return r->threshold;
    default:
        return r->threshold > 1 ? 1 : r->threshold + 1;
    }
}

/* `than` is the threshold or where it clears: a value that is well in respect of it. */
static double well_value(const struct alert_rule *r, double than)
{
    double d = than != 0 ? fabs(than) * 0.005 : 0;

    switch (r->op) {
    case ALERT_ABOVE:
        return than - d;
    case ALERT_BELOW:
        return than + d;
    case ALERT_EQUAL:
        return than + 1;
    default:
        return than;
    }
}

/* ---- what the series do */
static void plan_value(const struct alert_rule *r, struct rule_test_plan *p)
{
    bool band = !isnan(r->clear) && r->clear != r->threshold;
    int keep = ticks_of(p, r->keep_ns), well_at;

    p->fires_at = ticks_of(p, r->for_ns);
    track_add(&p->bad, bad_value(r), 0, p->fires_at + 2);
    well_at = p->fires_at + 2;
    if (band) {
        track_add(&p->bad, (r->threshold + r->clear) / 2, 0, keep + 2);
        well_at += keep + 2;
    }
    track_add(&p->bad, well_value(r, band ? r->clear : r->threshold), 0, keep + 3);
    p->holds_at = band || keep ? well_at + keep - 1 : 0;
    p->gone_at = well_at + keep;
    track_add(&p->near, well_value(r, r->threshold), 0, p->gone_at + 3);
}

static void wait_for_end(const struct alert_rule *r, struct rule_test_plan *p, int well_at)
{
    int keep = ticks_of(p, r->keep_ns), window = ticks_of(p, r->window_ns);

    p->holds_at = keep > 1 ? well_at + keep - 1 : 0;
    if (r->window_ns <= LONG_S * INT64_C(1000000000))
        p->gone_at = well_at + window + keep + 1;
}

static void plan_mean(const struct alert_rule *r, struct rule_test_plan *p)
{
    double than = isnan(r->clear) ? r->threshold : r->clear, d = value_beyond(than, 0.5, 1);
    double scale;
    bool whole;
    int well_at;

    whole = !alert_prom_name(r->metric, PROM_EXPORT_OLD, &scale); /* computed from a rate */
    p->true_at = ticks_of(p, whole ? r->window_ns : r->window_ns / 2);
    p->fires_at = p->true_at + ticks_of(p, r->for_ns);
    well_at = p->fires_at + 2;
    wait_for_end(r, p, well_at);
    track_add(&p->bad, bad_value(r), 0, well_at);
    track_add(&p->bad, r->op == ALERT_ABOVE ? than - d : than + d, 0,
              p->gone_at ? p->gone_at - well_at + 1 : p->holds_at + 1);
    track_add(&p->near, well_value(r, r->threshold), 0,
              p->bad.phases[0].ticks + p->bad.phases[1].ticks);
}

/* Far beyond, since a part of a window counts as part of a rate. */
static void plan_rate(const struct alert_rule *r, struct rule_test_plan *p)
{
    bool above = r->op == ALERT_ABOVE;
    double bad = above ? (r->threshold > 0 ? 4 * r->threshold : 1) : 0;
    int well_at;

    p->true_at = ticks_of(p, above ? r->window_ns / 2 : r->window_ns);
    p->fires_at = p->true_at + ticks_of(p, r->for_ns);
    well_at = p->fires_at + 2;
    wait_for_end(r, p, well_at);
    track_add(&p->bad, BASE, bad, well_at);
    track_add(&p->bad, NAN, above ? 0 : 4 * r->threshold + 1,
              p->gone_at ? p->gone_at - well_at + 1 : p->holds_at + 1);
    track_add(&p->near, BASE, r->threshold * (above ? 0.98 : 1.05),
              p->bad.phases[0].ticks + p->bad.phases[1].ticks);
}

static void plan_less(const struct alert_rule *r, struct rule_test_plan *p)
{
    double window_s = (double)r->window_ns * 1e-9;
    int well_at;

    p->true_at = ticks_of(p, r->window_ns);
    p->fires_at = p->true_at + ticks_of(p, r->for_ns);
    well_at = p->fires_at + 2;
    wait_for_end(r, p, well_at);
    track_add(&p->bad, BASE, 0, well_at);
    track_add(&p->bad, NAN, 4 * (r->threshold + 1) / window_s,
              p->gone_at ? p->gone_at - well_at + 1 : p->holds_at + 1);
    track_add(&p->near, BASE, 1.05 * r->threshold / window_s,
              p->bad.phases[0].ticks + p->bad.phases[1].ticks);
}

/* A jump, and then as much again in each window. */
static void plan_more(const struct alert_rule *r, struct rule_test_plan *p)
{
    double jump = 2 * r->threshold + 2, slope = jump / ((double)r->window_ns * 1e-9);
    int quiet = 2, well_at;

    if (r->from_zero) /* `near` is there from the start and must be past its first window */
        quiet = ticks_of(p, r->window_ns) + ticks_of(p, r->keep_ns) + ticks_of(p, r->for_ns) + 3;
    p->true_at = quiet;
    p->fires_at = quiet + ticks_of(p, r->for_ns);
    well_at = p->fires_at + 2;
    wait_for_end(r, p, well_at);
    track_add(&p->bad, BASE, 0, quiet);
    if (r->from_zero)
        p->bad.phases[0].kind = MISSING;
    track_add(&p->bad, r->from_zero ? jump : BASE + jump, slope, well_at - quiet);
    track_add(&p->bad, NAN, 0, p->gone_at ? p->gone_at - well_at + 1 : p->holds_at + 1);
    track_add(&p->near, BASE, 0, quiet);
    track_add(&p->near, r->from_zero ? BASE : BASE + 0.8 * r->threshold, 0,
              p->bad.phases[1].ticks + p->bad.phases[2].ticks);
}

static void plan_absent(const struct alert_rule *r, struct rule_test_plan *p)
{
    p->true_at = 3;
    p->fires_at = 3 + ticks_of(p, r->for_ns);
    p->holds_at = p->fires_at + ticks_of(p, ABSENT_S * INT64_C(1000000000));
    p->gone_at = p->holds_at + 2 + ticks_of(p, r->keep_ns);
    track_add(&p->bad, 50, 0, 3);
    p->bad.phases[p->bad.count++] = (struct phase){ .kind = STALE };
    p->bad.phases[p->bad.count++] = (struct phase){ .kind = MISSING, .ticks = p->holds_at + 1 - 3 };
    track_add(&p->bad, 50, 0, p->gone_at - p->holds_at + 1);
    track_add(&p->near, 50, 0, p->gone_at + 1);
}

static void plan_of(const struct alert_rule *r, struct rule_test_plan *p)
{
    *p = (struct rule_test_plan){ .tick_s = tick_of(r) };
    if (r->how == ALERT_ABSENT)
        plan_absent(r, p);
    else if (r->how == ALERT_VALUE)
        plan_value(r, p);
    else if (r->how == ALERT_MEAN)
        plan_mean(r, p);
    else if (r->how == ALERT_RATE)
        plan_rate(r, p);
    else if (r->op == ALERT_ABOVE)
        plan_more(r, p);
    else
        plan_less(r, p);
}

/* ---- series as promtool has them: "5+2x3" is 5 7 9 11 */
static void values_of(const struct rule_track *t, int tick_s, double scale, struct buf *out)
{
    double at = 0;

    for (size_t i = 0; i < t->count; i++) {
        const struct phase *ph = &t->phases[i];
        int more = ph->ticks * A_TICK - 1;
        double d = ph->slope * tick_s / A_TICK * scale;

        if (i)
            buf_addc(out, ' ');
        if (ph->kind == STALE) {
            buf_adds(out, "stale");
        } else if (ph->kind == MISSING) {
            buf_addf(out, "_x%d", more + 1);
        } else {
            if (!isnan(ph->level))
                at = ph->level * scale;
            buf_addf(out, "%.12g+%.12gx%d", at, d, more);
            at += d * (more + 1);
        }
    }
}

static void label_values(const struct render_alert *x, const char *name, size_t len,
                         struct buf *out)
{
    const char *label, *values;
    size_t n;
    bool others;

    if (x->rule.where) {
        others = alert_where_split(x->rule.where, &label, &n, &values);
        if (n == len && !memcmp(label, name, n)) {
            if (others)
                buf_adds(out, "other");
            else
                buf_add(out, values, strcspn(values, "|"));
            return;
        }
    }
    buf_addc(out, '0');
}

static void labels_of(const struct render_alert *x, const char *id, const char *machine,
                      struct buf *out)
{
    const struct telemetry_metric *m = telemetry_metric(id);
    const char *at = x->at ? x->at : "group=\"g\"";

    buf_addf(out, "instance=\"%s:9400\",%s", machine, at);
    if (!m && x->rule.where) { /* what Prometheus knows itself */
        const char *label, *values;
        size_t n;

        (void)alert_where_split(x->rule.where, &label, &n, &values);
        buf_addf(out, ",%.*s=\"%s\"", (int)n, label, values);
    }
    for (const char *p = m ? m->labels : NULL; p && *p;) {
        size_t n = strcspn(p, ",");

        if (!(n == 5 && !memcmp(p, "model", n) && strstr(at, "model="))) {
            buf_addf(out, ",%.*s=\"", (int)n, p);
            label_values(x, p, n, out);
            buf_addc(out, '"');
        }
        p += n + (p[n] == ',');
    }
}

struct rule_test_writer {
    struct yaml_out *y;
    const struct render_alerts *all;
    const struct render_alert *x;
    int tick_s; /* of the file */
};

static void put_series(struct rule_test_writer *w, const char *id, const char *machine,
                       const struct rule_track *t, double factor)
{
    struct buf series = { 0 }, values = { 0 };
    double scale;
    const char *name = alert_prom_name(id, w->all->names, &scale);

    buf_addf(&series, "%s{", name);
    labels_of(w->x, id, machine, &series);
    buf_addc(&series, '}');
    values_of(t, w->tick_s, scale * factor, &values);
    yaml_map_of(w->y, NULL, "series", buf_str(&series), "values", buf_str(&values));
    buf_release(&series);
    buf_release(&values);
}

static int length_of(const struct rule_track *t)
{
    int sum = 1;

    for (size_t i = 0; i < t->count; i++)
        sum += t->phases[i].ticks;
    return sum;
}

static void put_constant(struct rule_test_writer *w, const char *id, const char *machine, double v,
                         int ticks)
{
    struct rule_track t = { 0 };

    track_add(&t, v, 0, ticks);
    put_series(w, id, machine, &t, 1);
}

/* host.cpu.util is computed from the seconds of the idle CPU. */
static void put_cpu(struct rule_test_writer *w, const char *machine, const struct rule_track *t)
{
    struct rule_track idle = { 0 };

    for (size_t i = 0; i < t->count; i++)
        track_add(&idle, i ? NAN : BASE, fmax(0, 1 - t->phases[i].level / 100), t->phases[i].ticks);
    for (size_t i = 0; i < 2; i++) {
        struct buf series = { 0 }, values = { 0 };

        buf_adds(&series, i ? "stoker_cpus{" : "stoker_cpu_seconds_total{mode=\"idle\",");
        labels_of(w->x, "host.cpu.count", machine, &series);
        buf_addc(&series, '}');
        if (i)
            buf_addf(&values, "1x%d", length_of(t) * A_TICK);
        else
            values_of(&idle, w->tick_s, 1, &values);
        yaml_map_of(w->y, NULL, "series", buf_str(&series), "values", buf_str(&values));
        buf_release(&series);
        buf_release(&values);
    }
}

static void put_machine(struct rule_test_writer *w, const char *machine, const struct rule_track *t,
                        bool guard_ok)
{
    const struct alert_rule *r = &w->x->rule;
    double d = value_beyond(r->guard_than, 0.1, 1), ok, scale;
    int ticks = length_of(t);

    if (!alert_prom_name(r->metric, w->all->names, &scale))
        put_cpu(w, machine, t);
    else
        put_series(w, r->metric, machine, t, r->of ? BASE : 1);
    if (r->of)
        put_constant(w, r->of, machine, BASE, ticks);
    if (r->how == ALERT_ABSENT) {
        /* Prometheus has the machine among its targets. */
        yaml_map(w->y, NULL);
        yaml_strf(w->y, "series", "up{instance=\"%s:9400\",job=\"" ALERTS_JOB_AGENT "\"}", machine);
        yaml_strf(w->y, "values", "1x%d", ticks * A_TICK);
        yaml_end(w->y);
    }
    if (!r->guard || str_eq(r->guard, r->metric))
        return;
    ok = r->guard_op == ALERT_ABOVE ? r->guard_than + d : r->guard_than - d;
    put_constant(w, r->guard, machine, guard_ok ? ok : r->guard_than, ticks);
}

/* ---- what is expected */
static void put_check(struct rule_test_writer *w, int ticks, bool fires, const char *who)
{
    const struct render_alert *x = w->x;

    yaml_map(w->y, NULL);
    yaml_strf(w->y, "expr",
              "count by (instance) (ALERTS{alertname=\"%s\",severity=\"%s\",alertstate=\"firing\""
              "%s%s%s})",
              x->rule.name, alert_severity_word(x->rule.severity), x->metric ? ",metric=\"" : "",
              x->metric ? x->metric : "", x->metric ? "\"" : "");
    yaml_strf(w->y, "eval_time", "%dm", ticks * w->tick_s / 60);
    yaml_seq(w->y, "exp_samples");
    if (fires) {
        yaml_map(w->y, NULL);
        yaml_str(w->y, "labels", who);
        yaml_int(w->y, "value", 1);
        yaml_end(w->y);
    }
    yaml_ends(w->y, 2);
}

static void open_test(struct rule_test_writer *w)
{
    yaml_map(w->y, NULL);
    yaml_strf(w->y, "name", "%s %s%s%s", w->x->rule.name, alert_severity_word(w->x->rule.severity),
              w->x->metric ? " " : "", w->x->metric ? w->x->metric : "");
    yaml_strf(w->y, "interval", "%ds", w->tick_s / A_TICK);
    yaml_seq(w->y, "input_series");
}

static void put_rule_test(struct rule_test_writer *w, const struct rule_test_plan *p)
{
    const struct alert_rule *r = &w->x->rule;

    open_test(w);
    put_machine(w, "bad", &p->bad, true);
    put_machine(w, "near", &p->near, true);
    if (r->guard && !str_eq(r->guard, r->metric))
        put_machine(w, "off", &p->bad, false);
    yaml_end(w->y);
    yaml_seq(w->y, "promql_expr_test");
    if (p->fires_at)
        put_check(w, p->fires_at - 1, false, BAD);
    put_check(w, p->fires_at, true, BAD);
    if (p->holds_at > p->fires_at)
        put_check(w, p->holds_at, true, BAD);
    if (p->gone_at)
        put_check(w, p->gone_at, false, BAD);
    yaml_ends(w->y, 2);
}

/* ---- words: series with one value all the time */
static void put_word_series(struct rule_test_writer *w, struct render *r, const char *machine,
                            double v, int ticks)
{
    struct buf labels = { 0 }, lines = { 0 };
    const char *at = w->x->at ? w->x->at : "group=\"g\"";

    buf_addf(&labels, "instance=\"%s:9400\",%s", machine, at);
    if (w->x->word->of_models && !strstr(at, "model="))
        buf_adds(&labels, ",model=\"m\"");
    w->x->word->series(r, v, buf_str(&labels), &lines);
    for (char *line = lines.data, *end; line && *line; line = end + 1) {
        char *tab = strchr(line, '\t');

        end = strchr(line, '\n');
        *tab = *end = '\0';
        yaml_map(w->y, NULL);
        yaml_str(w->y, "series", line);
        yaml_strf(w->y, "values", "%s%d", tab + 1, ticks * A_TICK);
        yaml_end(w->y);
    }
    buf_release(&labels);
    buf_release(&lines);
}

static void put_word_test(struct rule_test_writer *w, struct render *r)
{
    const struct alert_rule *rule = &w->x->rule;
    struct rule_test_plan p = { .tick_s = w->tick_s };
    int fires_at = w->x->word->warm_minutes + ticks_of(&p, rule->for_ns);

    open_test(w);
    put_word_series(w, r, "bad", bad_value(rule), fires_at + 2);
    put_word_series(w, r, "near", well_value(rule, rule->threshold), fires_at + 2);
    yaml_end(w->y);
    yaml_seq(w->y, "promql_expr_test");
    if (fires_at)
        put_check(w, fires_at - 1, false, BAD);
    put_check(w, fires_at, true, BAD);
    yaml_ends(w->y, 2);
}

/* ---- what the site costs: one value for all, so that each side is a test of its own */
static void put_line(struct rule_test_writer *w, const char *series, const char *values)
{
    yaml_map_of(w->y, NULL, "series", series, "values", values);
}

static void put_up(struct rule_test_writer *w, const char *group, int64_t count, int ticks)
{
    for (int64_t i = 0; i < count; i++) {
        struct buf series = { 0 }, values = { 0 };

        buf_addf(&series, "up{job=\"" ALERTS_JOB_AGENT "\",group=\"%s\",instance=\"m%" PRId64 "\"}",
                 group, i);
        buf_addf(&values, "1x%d", ticks * A_TICK);
        put_line(w, buf_str(&series), buf_str(&values));
        buf_release(&series);
        buf_release(&values);
    }
}

/* As many machines as are too dear, and one less. */
static void put_day_test(struct rule_test_writer *w, const struct render *r, bool bad)
{
    const struct alert_rule *rule = &w->x->rule;
    const struct spec_node *n = r->spec->nodes;
    struct rule_test_plan p = { .tick_s = w->tick_s };
    int fires_at = ticks_of(&p, rule->for_ns);
    double price = 0;
    int64_t most;

    while (!render_cost_hour(r->spec, n, &price) || price <= 0)
        n++; /* there is one, or there were no rule */
    most = (int64_t)(rule->threshold / (24 * price));
    if (most > MACHINES_MAX)
        return;
    open_test(w);
    put_up(w, n->name, most + (bad == (rule->op == ALERT_ABOVE)), fires_at + 2);
    yaml_end(w->y);
    yaml_seq(w->y, "promql_expr_test");
    if (fires_at)
        put_check(w, fires_at - 1, false, "{}");
    put_check(w, fires_at, bad, "{}");
    yaml_ends(w->y, 2);
}

/* A day at one speed, then at another. */
static void put_task_test(struct rule_test_writer *w, bool bad)
{
    const struct alert_rule *rule = &w->x->rule;
    struct rule_test_plan p = { .tick_s = w->tick_s };
    double rise = bad ? bad_value(rule) : well_value(rule, rule->threshold);
    int half = 12 * 3600 / w->tick_s, day = 2 * half;
    int ready = day + 3600 / w->tick_s + ticks_of(&p, rule->for_ns) + 1;
    struct rule_track t = { 0 };
    struct buf values = { 0 };

    if (rise <= -100)
        return;
    track_add(&t, 0, 10, half);
    track_add(&t, NAN, 10 / (1 + rise / 100), ready - half + 2);
    values_of(&t, w->tick_s, 1, &values);
    open_test(w);
    put_up(w, "g", 1, ready + 2);
    put_line(w, "stoker_items_total{model=\"m\",instance=\"m0:8003\"}", buf_str(&values));
    yaml_end(w->y);
    yaml_seq(w->y, "promql_expr_test");
    put_check(w, day, false, "{}");
    put_check(w, ready, bad, "{}");
    yaml_ends(w->y, 2);
    buf_release(&values);
}

static void put_cost_tests(struct rule_test_writer *w, const struct render *r)
{
    for (int bad = 1; bad >= 0; bad--)
        if (w->x->own->metric == SPEC_METRIC_COST_DAY)
            put_day_test(w, r, bad);
        else
            put_task_test(w, bad);
}

static int file_of(const struct render_alert *x)
{
    bool day = x->own && x->own->metric == SPEC_METRIC_COST_TASK_RISE;

    return day ? SLOW_TICK_S : tick_of(&x->rule);
}

static void put_test(struct rule_test_writer *w, struct render *r)
{
    struct rule_test_plan p;

    if (!w->x->expr || w->x->budget || file_of(w->x) != w->tick_s)
        return;
    if (w->x->word) {
        if (w->x->word->series)
            put_word_test(w, r);
        else
            put_cost_tests(w, r);
    } else {
        plan_of(&w->x->rule, &p);
        put_rule_test(w, &p);
    }
}

static void put_file(struct render *r, const struct render_alerts *all, const char *name,
                     int tick_s)
{
    struct buf *b = render_file(r, "prometheus/tests/%s", name);
    struct yaml_out y;
    struct rule_test_writer w = { .y = &y, .all = all, .tick_s = tick_s };

    render_head(r, b, "#", "tests of the alert rules, for promtool test rules");
    yaml_begin(&y, b);
    yaml_seq_of(&y, "rule_files", "../rules/alerts.yml");
    yaml_strf(&y, "evaluation_interval", "%ds", tick_s);
    yaml_seq(&y, "tests");
    for (size_t i = 0; i < all->count; i++) {
        w.x = &all->items[i];
        put_test(&w, r);
    }
    yaml_finish(&y);
}

void prometheus_tests(struct render *r)
{
    struct render_alerts all;

    if (render_alerts_init(r, &all)) {
        put_file(r, &all, "alerts_test.yml", TICK_S);
        put_file(r, &all, "alerts_slow_test.yml", SLOW_TICK_S);
        prometheus_cost_tests(r, &all);
    }
    render_alerts_release(&all);
}
