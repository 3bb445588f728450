/* SPDX-License-Identifier: MIT */
/* A restart of the engine and the sender: what fires goes on untold, ends as it would have, and
 * what waited for a receiver goes on waiting; texts that anybody may have written. */
#include "test.h"

#include "alert_sim.h"

#include "base/str.h"

#define HOT                                                                                        \
    .name = "Hot", .metric = "gpu.temp", .threshold = 85, .clear = NAN, .unit = "C",               \
    .summary = "GPU {gpu} at {value}", .severity = ALERT_CRITICAL

/* Nobody listens there: what is told waits. */
static const struct alert_targets nobody = { .webhook = "http://127.0.0.1:1/hook",
                                             .hostname = "node1",
                                             .backoff_ms = 30000 };

/* Another engine and table, as after a restart, with what `s` kept. */
static size_t restart(struct sim *s, const struct alert_rule *rules, size_t count)
{
    struct buf text = { 0 };
    int64_t now = s->now;
    size_t kept;

    alert_keep_write(s->a, NULL, s->t, &text);
    sim_end(s);
    sim_start(s, rules, count);
    s->now = now + 60 * SEC;
    assert_int_equal(alert_keep_read(buf_str(&text), text.len, s->a, NULL, s->t, &kept), 0);
    buf_release(&text);
    return kept;
}

static void fire(struct sim *s, const struct alert_rule *rules, size_t count)
{
    sim_start(s, rules, count);
    sim_series(s, "gpu.temp", "gpu", "3", NULL);
    s->value[0] = 91;
    sim_run(s, 3);
    CHECK(s->fired == 1);
}

TEST(it_fires_on_untold)
{
    struct alert_rule r = { HOT };
    struct alert_active x[2];
    AUTO(sim_end) struct sim s;
    int64_t begun;

    fire(&s, &r, 1);
    begun = s.last.fired_ns;
    CHECK(restart(&s, &r, 1) == 1);
    sim_run(&s, 10); /* its series is not there yet */
    CHECK(s.fired == 0 && s.resolved == 0 && alerts_list(s.a, x, 2) == 0);
    sim_series(&s, "gpu.temp", "gpu", "4", NULL);
    sim_series(&s, "gpu.temp", "gpu", "3", NULL);
    s.value[0] = 40;
    s.value[1] = 92;
    sim_run(&s, 400);
    CHECK(s.fired == 0 && s.resolved == 0);
    CHECK(alerts_list(s.a, x, 2) == 1 && x[0].state == ALERT_FIRING && x[0].fired_ns == begun);
    CHECK(!strcmp(x[0].summary, "GPU 3 at 92 °C"));
    CHECK(restart(&s, &r, 1) == 1); /* and once more */
    sim_series(&s, "gpu.temp", "gpu", "3", NULL);
    sim_hold(&s, 50, 2); /* it ended while nobody looked */
    CHECK(s.fired == 0 && s.resolved == 1 && !s.last.gone && s.last.fired_ns == begun);
    CHECK(restart(&s, &r, 1) == 0);
}

TEST(without_a_series_it_is_gone)
{
    struct alert_rule r[] = { { HOT }, { HOT } };
    struct sim s;
    int64_t begun;

    r[1].severity = ALERT_WARNING;
    fire(&s, &r[0], 1);
    begun = s.last.fired_ns;
    CHECK(restart(&s, r, 1) == 1);
    sim_run(&s, 300);
    CHECK(s.resolved == 0);
    CHECK(restart(&s, r, 1) == 1); /* one that waits is kept, too */
    sim_run(&s, 301);
    CHECK(s.fired == 0 && s.resolved == 1 && s.last.gone && s.last.fired_ns == begun);
    CHECK(!strcmp(s.last.summary, "GPU 3 at 91 °C"));
    sim_run(&s, 600);
    CHECK(s.resolved == 1);
    sim_end(&s);

    fire(&s, &r[0], 1);
    CHECK(restart(&s, &r[1], 1) == 1); /* a rule of that name, and another severity */
    sim_step(&s, SEC);
    CHECK(s.resolved == 1 && s.last.gone && s.last.rule->severity == ALERT_CRITICAL);
    sim_end(&s);
}

/* What was added before the restart is not seen after it. */
TEST(an_increase_is_not_clear_before_its_window)
{
    struct alert_rule r = { .name = "Xid",
                            .metric = "gpu.xid.total",
                            .how = ALERT_INCREASE,
                            .window_ns = 600 * SEC,
                            .clear = NAN,
                            .unit = "1",
                            .summary = "{value}" };
    AUTO(sim_end) struct sim s;

    sim_start(&s, &r, 1);
    sim_series(&s, "gpu.xid.total", "gpu", "3", NULL);
    sim_hold(&s, 5, 1);
    sim_hold(&s, 6, 1);
    CHECK(s.fired == 1);
    CHECK(restart(&s, &r, 1) == 1);
    sim_series(&s, "gpu.xid.total", "gpu", "3", NULL);
    sim_hold(&s, 6, 600);
    CHECK(s.fired == 0 && s.resolved == 0);
    sim_run(&s, 2);
    CHECK(s.fired == 0 && s.resolved == 1 && !s.last.gone);
}

TEST(a_rule_of_absence_stays)
{
    struct alert_rule r = {
        .name = "Absent", .metric = "gpu.temp", .how = ALERT_ABSENT, .clear = NAN, .summary = "no"
    };
    AUTO(sim_end) struct sim s;

    sim_start(&s, &r, 1);
    sim_series(&s, "gpu.temp", "gpu", "3", NULL);
    sim_hold(&s, 50, 1);
    sim_hold(&s, NAN, 1);
    CHECK(s.fired == 1);
    CHECK(restart(&s, &r, 1) == 1);
    sim_run(&s, 3600); /* it is still away */
    CHECK(s.fired == 0 && s.resolved == 0);
    sim_series(&s, "gpu.temp", "gpu", "3", NULL);
    sim_hold(&s, 50, 2);
    CHECK(s.fired == 0 && s.resolved == 1 && !s.last.gone);
}

/* ---- the sender's part */
static struct alert_sender *sender(const struct alert_targets *to)
{
    struct alert_sender *s = NULL;

    assert_int_equal(alert_sender_new(to, &s, NULL), RC_OK);
    return s;
}

static uint64_t waiting(struct alert_sender *s)
{
    struct alert_sender_stats st;

    alert_sender_stats(s, &st);
    return st.waiting;
}

TEST(what_waits_goes_on_waiting)
{
    struct alert_rule r = { HOT };
    struct alert_targets other = nobody;
    struct alert_sender *b, *c;
    struct buf text = { 0 }, again = { 0 };
    struct alerts *engine;
    struct sim s;
    size_t kept;

    fire(&s, &r, 1);
    b = sender(&nobody);
    CHECK(!alert_sender_has(b, s.t, &s.last));
    alert_sender_add(b, s.t, &s.last);
    alert_sender_stop(b, 0);
    CHECK(waiting(b) == 1);
    alert_keep_write(s.a, b, s.t, &text);
    alert_sender_free(b, 0);

    b = sender(&nobody);
    engine = alerts_new(&r, 1, s.t);
    assert_int_equal(alert_keep_read(buf_str(&text), text.len, engine, b, s.t, &kept), 0);
    CHECK(kept == 2 && waiting(b) == 1 && alert_sender_has(b, s.t, &s.last));
    alert_sender_catch_up(b, s.t, &s.last);
    CHECK(waiting(b) == 1); /* all believe it */
    alert_sender_stop(b, 0);
    alert_keep_write(engine, b, s.t, &again);
    CHECK(str_eq(buf_str(&text), buf_str(&again)));
    s.last.state = ALERT_RESOLVED;
    s.last.resolved_ns = s.now;
    alert_sender_add(b, s.t, &s.last);
    CHECK(waiting(b) == 2 && !alert_sender_has(b, s.t, &s.last));
    alerts_free(engine);

    other.webhook = "http://127.0.0.1:1/other"; /* was told nothing */
    c = sender(&other);
    engine = alerts_new(&r, 1, s.t);
    assert_int_equal(alert_keep_read(buf_str(&text), text.len, engine, c, s.t, &kept), 0);
    CHECK(kept == 2 && waiting(c) == 0);
    s.last.state = ALERT_FIRING;
    alert_sender_catch_up(c, s.t, &s.last);
    CHECK(waiting(c) == 1);
    alerts_free(engine);
    alert_sender_free(c, 0);
    alert_sender_free(b, 0);
    buf_release(&text);
    buf_release(&again);
    sim_end(&s);
}

/* ---- texts that are none */
TEST(damaged_lines_cost_themselves)
{
#define LINE(severity, labels, since, whose, told)                                                 \
    "{\"alert\":\"Hot\",\"severity\":" severity ",\"metric\":\"gpu.temp\",\"labels\":" labels      \
    ",\"since_ms\":" since ",\"fired_ms\":1,\"value\":null,\"summary\":\"\",\"cause\":\"\","       \
    "\"role\":null,\"whose\":" whose ",\"told\":" told "}\n"
    static const char good[] = LINE("\"critical\"", "{\"gpu\":\"3\"}", "1", "{}", "[]");
    static const char *const bad[] = {
        "x\n",
        "[]\n",
        "{}\n",
        LINE("\"loud\"", "{}", "1", "{}", "[]"),
        LINE("\"critical\"", "{\"gpu\":3}", "1", "{}", "[]"),
        LINE("\"critical\"", "[]", "1", "{}", "[]"),
        LINE("\"critical\"", "{}", "-1", "{}", "[]"),
        LINE("\"critical\"", "{}", "9223372036854775807", "{}", "[]"),
        LINE("\"critical\"", "{}", "1", "{\"job\":7}", "[]"),
        LINE("\"critical\"", "{}", "1", "{}", "[1]"),
        LINE("\"critical\"", "{}", "1", "{}", "\"log\""),
        LINE("\"critical\"", "{\"gpu\":\"3\"}", "2", "{}", "[]"), /* it is there already */
        "{\"waits_for\":7}\n",
        "{\"waits_for\":\"x\",\"labels\":{},\"annotations\":[],\"starts_ms\":1}\n",
        "{\"waits_for\":\"x\",\"labels\":{},\"annotations\":{},\"starts_ms\":1,\"ends_ms\":-1}\n",
    };
    struct alert_rule r = { HOT };
    AUTO(buf_release) struct buf text = { 0 };
    struct sim s;
    size_t kept;

    sim_start(&s, &r, 1);
    buf_adds(&text, good);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        buf_adds(&text, bad[i]);
    CHECK(alert_keep_read(buf_str(&text), text.len, s.a, NULL, s.t, &kept) == ARRAY_SIZE(bad));
    CHECK(kept == 1);
    sim_series(&s, "gpu.temp", "gpu", "3", NULL);
    sim_hold(&s, 91, 2);
    CHECK(s.fired == 0);
    sim_end(&s);
}

TEST_MAIN(cmocka_unit_test(it_fires_on_untold), cmocka_unit_test(without_a_series_it_is_gone),
          cmocka_unit_test(an_increase_is_not_clear_before_its_window),
          cmocka_unit_test(a_rule_of_absence_stays), cmocka_unit_test(what_waits_goes_on_waiting),
          cmocka_unit_test(damaged_lines_cost_themselves))
