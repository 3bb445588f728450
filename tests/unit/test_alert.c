/* SPDX-License-Identifier: MIT */
/* The engine of the alerts under a simulated clock: every form of rule, each default rule, values
 * that flap, are unknown or begin again, clocks that jump, thousands of series, other threads. */
#include "test.h"

#include "alert/alert_int.h"
#include "alert_sim.h"

#include <pthread.h>
#include <stdatomic.h>

AUTO_OF(alerts_free, alerts);
AUTO_OF(telemetry_free, telemetry);

#define TEMP                                                                                       \
    .name = "Hot", .metric = "gpu.temp", .threshold = 85, .clear = NAN, .unit = "C",               \
    .summary = "GPU {gpu} at {value}"

/* ---- states */
TEST(fires_after_for_and_resolves)
{
    struct alert_rule r = { TEMP, .for_ns = 60 * SEC };
    struct alert_active x[4];
    AUTO(sim_end) struct sim s;

    sim_start(&s, &r, 1);
    sim_series(&s, "gpu.temp", "gpu", "3", NULL);
    sim_hold(&s, 85, 300);
    CHECK(s.fired == 0 && alerts_list(s.a, x, 4) == 0); /* 85 is not above 85 */
    sim_hold(&s, 91, 1);
    CHECK(alerts_list(s.a, x, 4) == 1 && x[0].state == ALERT_PENDING);
    CHECK(x[0].since_ns == s.now);
    sim_run(&s, 59);
    CHECK(s.fired == 0);
    sim_step(&s, SEC);
    CHECK(s.fired == 1 && s.last.fired_ns == s.now && s.last.value == 91);
    CHECK(!strcmp(s.last.summary, "GPU 3 at 91 °C"));
    sim_hold(&s, 85, 1);
    CHECK(s.resolved == 1 && s.last.resolved_ns == s.now && s.last.fired_ns == s.now - SEC);
    CHECK(alerts_list(s.a, x, 4) == 1 && x[0].state == ALERT_RESOLVED);
    sim_run(&s, 900);
    CHECK(alerts_list(s.a, x, 4) == 0 && s.fired == 1 && s.resolved == 1);
}

TEST(hysteresis_and_keep)
{
    struct alert_rule r = { TEMP, .keep_ns = 30 * SEC };
    AUTO(sim_end) struct sim s;

    r.clear = 80;
    sim_start_hot(&s, &r);
    sim_hold(&s, 86, 1);
    CHECK(s.fired == 1); /* without a `for`: at once */
    sim_hold(&s, 81, 600);
    CHECK(s.resolved == 0); /* neither bad nor clear */
    sim_hold(&s, 80, 30);
    CHECK(s.resolved == 0);
    sim_hold(&s, 82, 1); /* the time of `keep` begins again */
    sim_hold(&s, 80, 30);
    CHECK(s.resolved == 0);
    sim_step(&s, SEC);
    CHECK(s.resolved == 1 && s.fired == 1);
}

TEST(flapping_never_fires_nor_resolves)
{
    struct alert_rule r = { TEMP, .for_ns = 10 * SEC, .keep_ns = 10 * SEC };
    AUTO(sim_end) struct sim s;

    sim_start_hot(&s, &r);
    for (int i = 0; i < 1000; i++) {
        sim_hold(&s, i % 8 ? 90 : 70, 1);
    }
    CHECK(s.fired == 0);
    sim_hold(&s, 90, 20);
    CHECK(s.fired == 1);
    for (int i = 0; i < 1000; i++) {
        sim_hold(&s, i % 8 ? 70 : 90, 1);
    }
    CHECK(s.fired == 1 && s.resolved == 0);
}

TEST(unknown_neither_fires_nor_resolves)
{
    struct alert_rule r = { TEMP, .for_ns = 10 * SEC, .keep_ns = 10 * SEC };
    struct alert_active x[2];
    AUTO(sim_end) struct sim s;

    sim_start_hot(&s, &r);
    sim_hold(&s, 90, 6); /* held 5 s */
    sim_hold(&s, NAN, 300);
    CHECK(s.fired == 0 && alerts_list(s.a, x, 2) == 1 && x[0].state == ALERT_PENDING);
    sim_hold(&s, 90, 4);
    CHECK(s.fired == 0);
    sim_step(&s, SEC);
    CHECK(s.fired == 1);
    sim_hold(&s, 60, 6); /* clear for 5 s */
    sim_hold(&s, NAN, 290);
    CHECK(s.resolved == 0);
    sim_hold(&s, 60, 4);
    CHECK(s.resolved == 0);
    sim_step(&s, SEC);
    CHECK(s.resolved == 1);
    sim_hold(&s, 90, 3); /* a pending one whose value stays away is forgotten */
    sim_hold(&s, NAN, 700);
    CHECK(alerts_list(s.a, x, 2) == 0 && s.fired == 1);
}

TEST(clock_jumps)
{
    struct alert_rule r = { TEMP, .for_ns = 300 * SEC };
    AUTO(sim_end) struct sim s;

    sim_start_hot(&s, &r);
    sim_hold(&s, 90, 10);
    sim_step(&s, 86400 * SEC); /* a day ahead: no more than a minute has passed */
    CHECK(s.fired == 0);
    sim_step(&s, -2 * 86400 * SEC); /* and back */
    sim_run(&s, 230);
    CHECK(s.fired == 0);
    sim_run(&s, 2);
    CHECK(s.fired == 1);
}

/* ---- forms */
TEST(rate_with_resets_and_gaps)
{
    struct alert_rule r = { .name = "R",
                            .metric = "port.symbol_error",
                            .how = ALERT_RATE,
                            .window_ns = 60 * SEC,
                            .threshold = 10,
                            .clear = NAN,
                            .unit = "/s",
                            .summary = "{value} on {device}/{port}, {nothing} {" };
    AUTO(sim_end) struct sim s;

    sim_start(&s, &r, 1);
    sim_series(&s, "port.symbol_error", "device", "mlx5_0", "port", "1", NULL);
    sim_hold(&s, 1e9, 120); /* what was counted before we came is no rate */
    CHECK(s.fired == 0);
    sim_count(&s, 9, 200);
    CHECK(s.fired == 0);
    s.value[0] = 0; /* the counter begins again: no negative rate, no huge one */
    sim_count(&s, 9, 200);
    CHECK(s.fired == 0);
    sim_hold(&s, NAN, 30); /* what came in a gap is spread over the gap */
    sim_hold(&s, 9 * 231, 1);
    CHECK(s.fired == 0);
    sim_count(&s, 12, 100);
    CHECK(s.fired == 1);
    CHECK(!strcmp(s.last.summary + strcspn(s.last.summary, " "), " on mlx5_0/1, ? {"));
    sim_run(&s, 120);
    CHECK(s.resolved == 1);
}

/* A disk that is unmounted, a job that has ended: its source goes on, without it. */
TEST(what_is_gone_resolves_and_says_so)
{
    struct alert_rule r = { TEMP, .for_ns = 0, .keep_ns = 10 * SEC };
    AUTO(sim_end) struct sim s;

    sim_start_hot(&s, &r);
    sim_hold(&s, 90, 5);
    CHECK(s.fired == 1 && !s.last.gone);
    sim_hold(&s, NAN, 299);
    CHECK(s.resolved == 0);
    sim_run(&s, 2);
    CHECK(s.resolved == 1 && s.last.gone && !s.last.subject);
    sim_hold(&s, 90, 2); /* it is back, and as bad */
    CHECK(s.fired == 2 && !s.last.gone);
    sim_hold(&s, 60, 12);
    CHECK(s.resolved == 2 && !s.last.gone);
}

/* A source that is silent may hang: its subjects are not gone for that. */
TEST(what_a_silent_source_had_is_kept_longer)
{
    struct alert_rule r = { TEMP, .for_ns = 0, .keep_ns = 10 * SEC };
    AUTO(sim_end) struct sim s;

    sim_start_hot(&s, &r);
    sim_hold(&s, 90, 5);
    sim_hold(&s, NAN, 1); /* the batch that empties it is its last */
    for (int i = 0; i < 3500; i++)
        alerts_turn(s.a, s.now += SEC, sim_changed, &s);
    CHECK(s.resolved == 0);
    for (int i = 0; i < 120; i++)
        alerts_turn(s.a, s.now += SEC, sim_changed, &s);
    CHECK(s.resolved == 1 && s.last.gone);
}

static void keep_subject(void *arg, const struct alert_active *x)
{
    struct buf *b = arg;

    if (x->state != ALERT_RESOLVED || !x->gone || !x->subject)
        return;
    for (size_t i = 0; i < x->subject->label_count; i++)
        buf_addf(b, "%s=%s ", x->subject->labels[i].name, x->subject->labels[i].value);
}

/* Its id is given to another process while it fires: the end is told with its own labels. */
TEST(a_series_that_is_anothers_ends_under_its_own_labels)
{
    struct alert_rule r = { .name = "Big",
                            .metric = "process.gpu.memory",
                            .threshold = 10,
                            .clear = NAN,
                            .unit = "B",
                            .summary = "{pid}" };
    const struct telemetry_metric *m = telemetry_metric("process.gpu.memory");
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(256);
    unsigned source = telemetry_source(t, "gpu");
    AUTO(alerts_free_at) struct alerts *a = alerts_new(&r, 1, t);
    AUTO(buf_release) struct buf said = { 0 };
    char pid[16];

    for (int turn = 0; turn < 200; turn++) {
        struct telemetry_label l[] = { { "gpu", "0" }, { "pid", pid } };

        snprintf(pid, sizeof(pid), "%d", turn + 1);
        telemetry_begin(t, source, BEGIN_NS + turn * SEC);
        telemetry_set(t, telemetry_series(t, source, m, l, 2), 100);
        telemetry_end(t);
        alerts_turn(a, BEGIN_NS + turn * SEC, keep_subject, &said);
    }
    CHECK(strstr(buf_str(&said), "gpu=0 pid=1 ") != NULL);
    CHECK(strstr(buf_str(&said), "gpu=0 pid=200 ") == NULL);
}

/* Twenty seconds of work, twenty without a process: busy 40 % of the time it works in. */
TEST(bursts_of_work_are_work)
{
    size_t n;
    const struct alert_rule *all = alert_defaults(&n), *r = all;
    AUTO(sim_end) struct sim s;

    while (strcmp(r->name, "GpuUtilizationLow") != 0)
        r++;
    sim_start(&s, r, 1);
    sim_series(&s, "gpu.util", "gpu", "0", NULL);
    sim_series(&s, "gpu.processes", "gpu", "0", NULL);
    for (int i = 0; i < 1800; i++) {
        bool works = i % 40 < 20;

        s.value[0] = works ? 80 : 0;
        s.value[1] = works;
        sim_step(&s, SEC);
    }
    CHECK(s.fired == 1);
    s.value[0] = 95; /* a long job with a good end */
    s.value[1] = 1;
    sim_run(&s, 3600);
    CHECK(s.resolved == 1);
    sim_hold(&s, 55, 1800);
    s.value[0] = s.value[1] = 0;
    sim_run(&s, 3600);
    CHECK(s.fired == 1); /* its end is no low utilisation */
}

TEST(one_is_not_many)
{
    static const struct telemetry_series s = { .label_count = 0 };
    struct alert_rule r = { .unit = "1",
                            .summary = "{value} {GPU is|GPUs are} down {value} {time|times}" };
    char text[TELEMETRY_VALUE_MAX];

    alert_summary(&r, &s, 1, text);
    assert_string_equal(text, "1 GPU is down 1 time");
    alert_summary(&r, &s, 3, text);
    assert_string_equal(text, "3 GPUs are down 3 times");
}

/* No default rule counts "1 times". */
TEST(no_rule_says_one_times)
{
    size_t n;
    const struct alert_rule *all = alert_defaults(&n);
    static const struct telemetry_series s = { .label_count = 0 };
    char text[TELEMETRY_VALUE_MAX];

    for (size_t i = 0; i < n; i++) {
        alert_summary(&all[i], &s, 1, text);
        if (strstr(text, "1 times") || strstr(text, "1 errors") || strstr(text, "1 GPUs") ||
            strstr(text, "1 processes") || strstr(text, "1 rows"))
            fail_msg("%s: %s", all[i].name, text);
    }
}

TEST(the_words_follow_the_value)
{
    struct alert_rule r = { TEMP, .for_ns = 10 * SEC, .keep_ns = 10 * SEC };
    struct alert_active x[2];
    AUTO(sim_end) struct sim s;

    r.summary = "at {value}";
    sim_start_hot(&s, &r);
    sim_hold(&s, 90, 3);
    sim_hold(&s, 92, 1);
    CHECK(alerts_list(s.a, x, 2) == 1 && !strcmp(x[0].summary, "at 92 °C"));
    sim_run(&s, 10);
    CHECK(s.fired == 1);
    sim_hold(&s, 97, 1);
    CHECK(alerts_list(s.a, x, 2) == 1 && !strcmp(x[0].summary, "at 97 °C"));
    sim_hold(&s, NAN, 1); /* the last word that was known stays */
    CHECK(alerts_list(s.a, x, 2) == 1 && !strcmp(x[0].summary, "at 97 °C"));
    sim_hold(&s, 50, 12);
    CHECK(s.resolved == 1 && !strcmp(s.last.summary, "at 50 °C"));
}

/* The agent counts from zero: what is there at its first second has happened under its eyes. */
TEST(increase_from_zero_counts_the_first_second)
{
    struct alert_rule r = { .name = "Xid",
                            .metric = "gpu.xid.total",
                            .how = ALERT_INCREASE,
                            .from_zero = true,
                            .window_ns = 600 * SEC,
                            .clear = NAN,
                            .unit = "1",
                            .summary = "{xid}" };
    AUTO(sim_end) struct sim s;

    sim_start(&s, &r, 1);
    sim_series(&s, "gpu.xid.total", "gpu", "0", "xid", "79", NULL);
    sim_hold(&s, 1, 1);
    CHECK(s.fired == 1);
    sim_run(&s, 700);
    CHECK(s.fired == 1 && s.resolved == 1);
}

TEST(increase_from_zero_counts_what_appears)
{
    struct alert_rule r[2] = {
        { .name = "Xid",
          .metric = "gpu.xid.total",
          .where = "xid=48|79",
          .how = ALERT_INCREASE,
          .from_zero = true,
          .window_ns = 600 * SEC,
          .clear = NAN,
          .unit = "1",
          .summary = "{xid}" },
        { .name = "Other",
          .metric = "gpu.xid.total",
          .where = "xid!=48|79",
          .how = ALERT_INCREASE,
          .window_ns = 600 * SEC,
          .clear = NAN,
          .unit = "1",
          .summary = "{xid}" },
    };
    AUTO(sim_end) struct sim s;

    sim_start(&s, r, 2);
    alerts_played(s.a);
    sim_series(&s, "gpu.xid.total", "gpu", "0", "xid", "79", NULL);
    sim_hold(&s, 3, 60);
    CHECK(s.fired == 0); /* it was there when the recording began */
    sim_series(&s, "gpu.xid.total", "gpu", "1", "xid", "48", NULL);
    sim_series(&s, "gpu.xid.total", "gpu", "1", "xid", "13", NULL);
    s.value[1] = s.value[2] = 1;
    sim_step(&s, SEC);
    CHECK(s.fired == 1 && !strncmp(s.last.summary, "48: ", 4));
    s.value[2] = 2;
    sim_step(&s, SEC);
    CHECK(s.fired == 2 && !strcmp(s.last.rule->name, "Other"));
    sim_run(&s, 660);
    CHECK(s.resolved == 2);
}

/* "none in 15 minutes" is not known before. */
TEST(too_little_waits_for_the_whole_window)
{
    struct alert_rule r = { .name = "S",
                            .metric = "job.step",
                            .how = ALERT_INCREASE,
                            .window_ns = 600 * SEC,
                            .op = ALERT_BELOW,
                            .threshold = 1,
                            .clear = NAN,
                            .unit = "1",
                            .summary = "{value}" };
    AUTO(sim_end) struct sim s;

    sim_start(&s, &r, 1);
    sim_series(&s, "job.step", "job", "new", NULL);
    sim_hold(&s, 0, 500);
    CHECK(s.fired == 0);
    sim_run(&s, 140);
    CHECK(s.fired == 1);
}

TEST(mean_waits_for_half_a_window)
{
    struct alert_rule r = { .name = "M",
                            .metric = "gpu.util",
                            .how = ALERT_MEAN,
                            .window_ns = 600 * SEC,
                            .op = ALERT_BELOW,
                            .threshold = 50,
                            .clear = NAN,
                            .unit = "%",
                            .summary = "{value}" };
    struct sim s;

    sim_start(&s, &r, 1);
    sim_series(&s, "gpu.util", "gpu", "0", NULL);
    sim_hold(&s, 10, 298);
    CHECK(s.fired == 0);
    sim_run(&s, 5);
    CHECK(s.fired == 1);
    sim_end(&s);
    sim_start(&s, &r, 1);
    sim_series(&s, "gpu.util", "gpu", "0", NULL);
    for (int i = 0; i < 3000; i++) { /* half of the time at 100, half at 2 */
        sim_hold(&s, i % 2 ? 100 : 2, 1);
    }
    CHECK(s.fired == 0);
    sim_end(&s);
}

TEST(absent_means_known_once)
{
    struct alert_rule r = { .name = "A",
                            .metric = "gpu.temp",
                            .how = ALERT_ABSENT,
                            .clear = NAN,
                            .for_ns = 60 * SEC,
                            .unit = "C",
                            .summary = "GPU {gpu}: {value}" };
    AUTO(sim_end) struct sim s;

    sim_start_hot(&s, &r);
    sim_run(&s, 600);
    CHECK(s.fired == 0); /* never known */
    sim_hold(&s, 40, 10);
    sim_hold(&s, NAN, 61);
    CHECK(s.fired == 1 && !strcmp(s.last.summary, "GPU 0: unknown"));
    sim_hold(&s, 40, 1);
    CHECK(s.resolved == 1);
}

TEST(ratio_and_guard_come_late)
{
    struct alert_rule r = { .name = "Full",
                            .metric = "gpu.fb.used",
                            .of = "gpu.fb.total",
                            .threshold = 0.95,
                            .clear = NAN,
                            .unit = "ratio",
                            .guard = "gpu.processes",
                            .guard_op = ALERT_ABOVE,
                            .summary = "{value}" };
    AUTO(sim_end) struct sim s;

    sim_start(&s, &r, 1);
    sim_series(&s, "gpu.fb.used", "gpu", "1", NULL);
    sim_hold(&s, 97e9, 10);
    CHECK(s.fired == 0); /* of what? */
    sim_series(&s, "gpu.fb.total", "gpu", "0", NULL);
    sim_series(&s, "gpu.fb.total", "gpu", "1", NULL);
    s.value[1] = 50e9;
    s.value[2] = 100e9;
    sim_run(&s, 10);
    CHECK(s.fired == 0); /* the guard is unknown */
    sim_series(&s, "gpu.processes", "gpu", "1", "device", "nvidia1", NULL);
    s.value[3] = 0;
    sim_run(&s, 10);
    CHECK(s.fired == 0);
    s.value[3] = 1;
    sim_step(&s, SEC);
    CHECK(s.fired == 1 && !strcmp(s.last.summary, "97 %"));
    s.value[3] = NAN;
    sim_run(&s, 100);
    CHECK(s.resolved == 0);
    s.value[3] = 0; /* with nobody there it is over */
    sim_step(&s, SEC);
    CHECK(s.resolved == 1);
    s.value[2] = 0; /* nothing is a share of nothing */
    s.value[3] = 1;
    sim_run(&s, 10);
    CHECK(s.fired == 1);
}

TEST(rules_that_are_off_are_not_there)
{
    struct alert_rule r = { TEMP, .off = true };
    struct alerts_stats st;
    AUTO(sim_end) struct sim s;

    sim_start_hot(&s, &r);
    sim_hold(&s, 200, 10);
    alerts_stats(s.a, &st);
    CHECK(s.fired == 0 && st.tracks == 0);
}

/* ---- each default rule */
static bool counts(const struct alert_rule *r)
{
    return r->how == ALERT_RATE || r->how == ALERT_INCREASE;
}

/* The labels that the table says, with a value that `where` takes. */
static size_t rule_labels(const struct alert_rule *r, const char *metric,
                          struct telemetry_label *out,
                          char names[TELEMETRY_LABELS_MAX][TELEMETRY_NAME_MAX], char *value)
{
    const char *p = telemetry_metric(metric)->labels;
    size_t n = 0;

    while (p && *p) {
        size_t len = strcspn(p, ",");

        snprintf(names[n], TELEMETRY_NAME_MAX, "%.*s", (int)len, p);
        out[n] = (struct telemetry_label){ names[n], "7" };
        if (r->where && !strncmp(r->where, names[n], len) && strchr("!=", r->where[len])) {
            const char *first = r->where + len + 1;

            snprintf(value, TELEMETRY_NAME_MAX, "%.*s", (int)strcspn(first, "|"), first);
            if (r->where[len] == '=')
                out[n].value = value;
        }
        n++;
        p += len + (p[len] == ',');
    }
    return n;
}

static size_t rule_series(struct sim *s, const struct alert_rule *r, const char *metric)
{
    char names[TELEMETRY_LABELS_MAX][TELEMETRY_NAME_MAX], value[TELEMETRY_NAME_MAX];
    struct telemetry_label l[TELEMETRY_LABELS_MAX];
    size_t n = rule_labels(r, metric, l, names, value);

    s->id[s->count] = telemetry_series(s->t, s->source, telemetry_metric(metric), l, n);
    s->value[s->count] = NAN;
    return s->count++;
}

/* A value on the bad side of `than`, or on the edge and so not bad. */
static double side(enum alert_op op, double than, bool is_bad)
{
    double far = fabs(than) * 0.01 + (than == floor(than) && fabs(than) < 1e6 ? 1 : 1e-4);

    switch (op) {
    case ALERT_ABOVE:
        return is_bad ? than + far : than;
    case ALERT_BELOW:
        return is_bad ? than - far : than;
    case ALERT_EQUAL:
        return is_bad ? than : than + 1;
    case ALERT_NOT_EQUAL:
        return is_bad ? than + 1 : than;
    }
    return NAN;
}

enum { UNITS_OF = 1000 }; /* of a ratio's divisor */

/* Lives through `seconds` with a series that crosses the rule's threshold, or just does not. */
static void live(struct sim *s, const struct alert_rule *r, bool is_bad, double than,
                 int64_t seconds, int64_t step_s)
{
    double v = side(r->op, than, is_bad);

    if (r->how == ALERT_INCREASE && r->op == ALERT_ABOVE && seconds > 0) {
        s->value[0] = isnan(s->value[0]) ? v : s->value[0] + v; /* all at once */
        v = 0;
    } else if (r->how == ALERT_INCREASE) { /* a step for every half of the window, or none */
        v = is_bad ? 0 : 2.2 / ((double)r->window_ns / 1e9);
    } else if (r->how == ALERT_RATE && !is_bad) {
        v *= 0.99;
    }
    for (int64_t at = 0; at < seconds; at += step_s) {
        if (counts(r))
            s->value[0] += v * (double)step_s;
        else
            s->value[0] = r->how == ALERT_ABSENT && is_bad ? NAN : r->of ? v * UNITS_OF : v;
        sim_step(s, step_s * SEC);
    }
}

static void sim_of_rule(struct sim *s, const struct alert_rule *r)
{
    sim_start(s, r, 1);
    sim_run(s, 20); /* the table is there before its series */
    rule_series(s, r, r->metric);
    if (r->of)
        s->value[rule_series(s, r, r->of)] = UNITS_OF;
    if (r->guard && strcmp(r->guard, r->metric) != 0)
        s->value[rule_series(s, r, r->guard)] = side(r->guard_op, r->guard_than, true);
    if (counts(r) && !r->from_zero) {
        s->value[0] = strcmp(r->metric, "mount.readonly") ? 5 : 0;
        sim_run(s, 2);
    }
}

/* Beyond what sums of fractions may be off. */
static double well_clear(const struct alert_rule *r)
{
    double clear = isnan(r->clear) ? r->threshold : r->clear;

    return r->op == ALERT_BELOW   ? clear + fabs(clear) * 1e-6
           : r->op == ALERT_ABOVE ? clear - fabs(clear) * 1e-6
                                  : clear;
}

TEST(each_default_rule_fires_and_does_not)
{
    size_t n;
    const struct alert_rule *all = alert_defaults(&n);

    CHECK(n > 60);
    for (size_t i = 0; i < n; i++) {
        const struct alert_rule *r = &all[i];
        int64_t window = r->window_ns / SEC, step = window > 3600 ? 60 : 1;
        int64_t bad_s = window + r->for_ns / SEC + 60;
        struct sim s;

        assert_non_null(telemetry_metric(r->metric));
        sim_of_rule(&s, r);
        live(&s, r, false, r->threshold, bad_s + r->keep_ns / SEC, step);
        if (s.fired)
            fail_msg("%s fires on the edge", r->name);
        sim_end(&s);

        sim_of_rule(&s, r);
        if (r->how == ALERT_ABSENT)
            live(&s, r, false, 40, 10, 1);
        live(&s, r, true, r->threshold, bad_s, step);
        if (s.fired != 1)
            fail_msg("%s fired %d times", r->name, s.fired);
        if (s.last.rule->severity != r->severity || strchr(s.last.summary, '?'))
            fail_msg("%s says '%s'", r->name, s.last.summary);
        if (r->how == ALERT_INCREASE && r->op == ALERT_ABOVE)
            sim_run(&s, (int)(window / 15 + window + r->keep_ns / SEC + 60));
        else
            live(&s, r, false, well_clear(r), 2 * window + r->keep_ns / SEC + 120, step);
        if (s.resolved != 1)
            fail_msg("%s resolved %d times", r->name, s.resolved);
        sim_end(&s);
    }
}

/* ---- many */
/* Rules are read again: those that are the same go on, others begin. */
TEST(a_new_set_of_rules_inherits)
{
    struct alert_rule r[] = {
        { .name = "Same",
          .metric = "gpu.temp",
          .op = ALERT_ABOVE,
          .threshold = 80,
          .clear = NAN,
          .for_ns = 10 * SEC,
          .unit = "C",
          .summary = "{value}" },
        { .name = "Other",
          .metric = "gpu.temp",
          .op = ALERT_ABOVE,
          .threshold = 80,
          .clear = NAN,
          .for_ns = 10 * SEC,
          .unit = "C",
          .summary = "{value}" },
        { .name = "Fires",
          .metric = "gpu.power",
          .op = ALERT_ABOVE,
          .threshold = 1,
          .clear = NAN,
          .unit = "W",
          .summary = "{value}" },
        { .name = "New",
          .metric = "gpu.xid.total",
          .how = ALERT_INCREASE,
          .from_zero = true,
          .window_ns = 60 * SEC,
          .op = ALERT_ABOVE,
          .threshold = 0,
          .clear = NAN,
          .unit = "1",
          .summary = "{value}" },
    };
    static const char *const metrics[] = { "gpu.temp", "gpu.power", "gpu.xid.total" };
    struct telemetry *t = telemetry_new(0);
    unsigned source = telemetry_source(t, "gpu");
    struct alerts *a = alerts_new(r, 3, t), *b;
    struct alert_active x[8];
    size_t n = 0, fired = 0;

    for (int s = 0; s < 24; s++) {
        telemetry_begin(t, source, BEGIN_NS + s * SEC);
        for (size_t i = 0; i < 3; i++)
            telemetry_set(t, telemetry_series(t, source, telemetry_metric(metrics[i]), NULL, 0),
                          100);
        telemetry_end(t);
        if (s == 6) {
            r[1].threshold = 70;
            b = alerts_new(r, 4, t);
            alerts_inherit(b, a);
            alerts_free(a);
            a = b;
        }
        alerts_turn(a, BEGIN_NS + s * SEC, NULL, NULL);
        if (s == 12) { /* ten seconds behind the first, six behind the new rules */
            n = alerts_list(a, x, ARRAY_SIZE(x));
            for (size_t i = 0; i < n; i++) {
                bool same = !strcmp(x[i].rule->name, "Same");
                bool fires = !strcmp(x[i].rule->name, "Fires");

                CHECK(x[i].state == (same || fires ? ALERT_FIRING : ALERT_PENDING));
                if (same || fires)
                    CHECK(x[i].since_ns == BEGIN_NS);
                fired += same || fires;
            }
            CHECK(n == 3 && fired == 2); /* an old count is no increase */
        }
    }
    n = alerts_list(a, x, ARRAY_SIZE(x));
    CHECK(n == 3 && x[0].state == ALERT_FIRING && x[1].state == ALERT_FIRING &&
          x[2].state == ALERT_FIRING);
    alerts_free(a);
    telemetry_free(t);
}

TEST(thousands_of_series)
{
    enum { MANY = 8000 };
    struct alert_rule r[2] = {
        { .name = "V",
          .metric = "gpu.fb.used",
          .threshold = 10,
          .clear = NAN,
          .unit = "B",
          .summary = "{pid}" },
        { .name = "M",
          .metric = "gpu.fb.used",
          .how = ALERT_MEAN,
          .window_ns = 60 * SEC,
          .threshold = 10,
          .clear = NAN,
          .unit = "B",
          .summary = "{pid}" },
    };
    const struct telemetry_metric *m = telemetry_metric("gpu.fb.used");
    struct telemetry *t = telemetry_new(TELEMETRY_SERIES_MAX);
    unsigned source = telemetry_source(t, "gpu");
    struct alerts *a = alerts_new(r, 2, t);
    struct alert_active *x = xcalloc(ALERT_ACTIVE_MAX + 1, sizeof(*x));
    struct alerts_stats st;
    char pid[16];

    for (int turn = 0; turn < 100; turn++) {
        int64_t now = BEGIN_NS + turn * SEC;

        telemetry_begin(t, source, now);
        for (int i = 0; i < MANY; i++) {
            struct telemetry_label l = { "pid", pid };

            snprintf(pid, sizeof(pid), "%d", i);
            telemetry_set(t, telemetry_series(t, source, m, &l, 1), turn < 90 ? 11 + i : 0);
        }
        telemetry_end(t);
        alerts_turn(a, now, NULL, NULL);
        if (turn == 80) {
            alerts_stats(a, &st);
            CHECK(st.active == ALERT_ACTIVE_MAX && st.refused > 0);
            CHECK(alerts_list(a, x, ALERT_ACTIVE_MAX + 1) == ALERT_ACTIVE_MAX);
        }
    }
    alerts_stats(a, &st);
    CHECK(st.tracks == 2 * MANY);
    CHECK(alerts_list(a, x, 5) == 5 && x[0].state == ALERT_RESOLVED);
    free(x);
    alerts_free(a);
    telemetry_free(t);
}

struct looker {
    struct alerts *a;
    atomic_bool stop;
    size_t most;
};

static void *look(void *arg)
{
    struct looker *l = arg;
    struct alert_active x[8];
    struct alerts_stats st;

    while (!atomic_load(&l->stop)) {
        size_t n = alerts_list(l->a, x, 8);

        alerts_stats(l->a, &st);
        l->most = n > l->most ? n : l->most;
    }
    return NULL;
}

TEST(lists_from_another_thread)
{
    struct alert_rule r = { TEMP };
    struct looker l = { 0 };
    pthread_t thread;
    AUTO(sim_end) struct sim s;

    sim_start(&s, &r, 1);
    l.a = s.a;
    CHECK(!pthread_create(&thread, NULL, look, &l));
    for (int i = 0; i < 8; i++) {
        char gpu[4];

        snprintf(gpu, sizeof(gpu), "%d", i);
        sim_series(&s, "gpu.temp", "gpu", gpu, NULL);
        for (int k = 0; k < 200; k++) {
            s.value[i] = k % 2 ? 90 : 40;
            sim_step(&s, SEC);
        }
    }
    atomic_store(&l.stop, true);
    pthread_join(thread, NULL);
    CHECK(s.fired == 800 && s.fired - s.resolved <= 8);
}

TEST_MAIN(cmocka_unit_test(fires_after_for_and_resolves), cmocka_unit_test(hysteresis_and_keep),
          cmocka_unit_test(flapping_never_fires_nor_resolves),
          cmocka_unit_test(unknown_neither_fires_nor_resolves), cmocka_unit_test(clock_jumps),
          cmocka_unit_test(rate_with_resets_and_gaps),
          cmocka_unit_test(what_is_gone_resolves_and_says_so),
          cmocka_unit_test(what_a_silent_source_had_is_kept_longer),
          cmocka_unit_test(a_series_that_is_anothers_ends_under_its_own_labels),
          cmocka_unit_test(bursts_of_work_are_work), cmocka_unit_test(one_is_not_many),
          cmocka_unit_test(no_rule_says_one_times), cmocka_unit_test(the_words_follow_the_value),
          cmocka_unit_test(increase_from_zero_counts_the_first_second),
          cmocka_unit_test(increase_from_zero_counts_what_appears),
          cmocka_unit_test(too_little_waits_for_the_whole_window),
          cmocka_unit_test(mean_waits_for_half_a_window), cmocka_unit_test(absent_means_known_once),
          cmocka_unit_test(ratio_and_guard_come_late),
          cmocka_unit_test(rules_that_are_off_are_not_there),
          cmocka_unit_test(each_default_rule_fires_and_does_not),
          cmocka_unit_test(a_new_set_of_rules_inherits), cmocka_unit_test(thousands_of_series),
          cmocka_unit_test(lists_from_another_thread))
