/* SPDX-License-Identifier: MIT */
/* Where rules come from and go to: the table, a spec, a file for Prometheus. */
#include "test.h"

#include "alert_sim.h"

#include "base/str.h"

#define HEAD                                                                                       \
    "name,metric,where,how,window,op,threshold,clear,for,keep,while,severity,unit,summary,why,"    \
    "source\n"

static enum rc read_table(struct arena *a, const char *text, const struct alert_rule **out,
                          size_t *out_count, struct err *err)
{
    struct csv t;
    enum rc rc = csv_parse(a, text, strlen(text), &t, err);

    return rc ? rc : alert_rules_read(a, &t, out, out_count, err);
}

TEST(a_row_becomes_a_rule)
{
    const struct alert_rule *r = NULL;
    AUTO(arena_release) struct arena a = { 0 };
    size_t n = 0;

    CHECK(!read_table(&a,
                      HEAD "A,x.y/x.z,l=1|2,mean,5m,below,0.5,0.6,1m,2m,g.h not_equal -3,critical,"
                           "ratio,text,because,there\n"
                           "B,x,,increase_from_zero,1h,above,0,,,,,info,1,t,w,s\n",
                      &r, &n, NULL));
    CHECK(n == 2);
    CHECK(str_eq(r[0].metric, "x.y") && str_eq(r[0].of, "x.z") && str_eq(r[0].where, "l=1|2"));
    CHECK(r[0].how == ALERT_MEAN && r[0].window_ns == 300 * SEC && r[0].op == ALERT_BELOW);
    CHECK(r[0].threshold == 0.5 && r[0].clear == 0.6);
    CHECK(r[0].for_ns == 60 * SEC && r[0].keep_ns == 120 * SEC);
    CHECK(str_eq(r[0].guard, "g.h") && r[0].guard_op == ALERT_NOT_EQUAL && r[0].guard_than == -3);
    CHECK(r[0].severity == ALERT_CRITICAL && str_eq(r[0].unit, "ratio"));
    CHECK(r[1].from_zero && r[1].how == ALERT_INCREASE && isnan(r[1].clear) && !r[1].of);
}

TEST(bad_rows_are_told)
{
    static const struct {
        const char *row, *says;
    } rows[] = {
        { ",x,,value,,above,1,,,,,info,1,,,", "column 'name'" },
        { "A,,,value,,above,1,,,,,info,1,,,", "names no metric" },
        { "A,x/,,value,,above,1,,,,,info,1,,,", "names no metric" },
        { "A,x,xid,value,,above,1,,,,,info,1,,,", "is not like 'xid=48|79'" },
        { "A,x,,guess,,above,1,,,,,info,1,,,", "column 'how'" },
        { "A,x,,value,5m,above,1,,,,,info,1,,,", "does not suit" },
        { "A,x,,rate,,above,1,,,,,info,1,,,", "does not suit" },
        { "A,x,,rate,soon,above,1,,,,,info,1,,,", "is not a duration" },
        { "A,x,,value,,over,1,,,,,info,1,,,", "column 'op'" },
        { "A,x,,value,,above,much,,,,,info,1,,,", "is not a number" },
        { "A,x,,value,,above,1,2,,,,info,1,,,", "worse than the threshold" },
        { "A,x,,value,,equal,1,1,,,,info,1,,,", "no meaning" },
        { "A,x,,value,,above,1,,1y,,,info,1,,,", "column 'for'" },
        { "A,x,,value,,above,1,,,,x above,info,1,,,", "is not like" },
        { "A,x,,value,,above,1,,,,,dire,1,,,", "column 'severity'" },
        { "A,x,,value,,above,1,,,,,info,furlong,,,", "column 'unit'" },
    };
    const struct alert_rule *r;
    size_t n;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct arena a = { 0 };
        struct err err = { 0 };
        struct buf text = { 0 };

        buf_addf(&text, "%s%s\n", HEAD, rows[i].row);
        CHECK(read_table(&a, text.data, &r, &n, &err) == RC_PARSE);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("row %zu: %s", i, err.msg);
        buf_release(&text);
        arena_release(&a);
    }
}

TEST(defaults_are_sound)
{
    size_t n;
    const struct alert_rule *r = alert_defaults(&n);

    for (size_t i = 0; i < n; i++) {
        const struct telemetry_metric *m = telemetry_metric(r[i].metric);

        assert_non_null(m);
        CHECK(!r[i].of || telemetry_metric(r[i].of));
        CHECK(!r[i].guard || telemetry_metric(r[i].guard));
        CHECK(*r[i].why && *r[i].source && *r[i].summary);
        for (size_t k = 0; k < i; k++)
            CHECK(!str_eq(r[i].name, r[k].name));
        for (const char *p = r[i].summary; (p = strchr(p, '{')); p++) { /* labels that exist */
            char label[48];

            snprintf(label, sizeof(label), "%.*s", (int)strcspn(p + 1, "}"), p + 1);
            if (strcmp(label, "value") != 0 && !strchr(label, '|') &&
                !(m->labels && strstr(m->labels, label)))
                fail_msg("%s has no label {%s}", r[i].name, label);
        }
    }
}

/* ---- spec */
static const struct alert_rule *find(const struct alert_rule *r, size_t n, const char *name,
                                     enum alert_severity severity)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(r[i].name, name) && r[i].severity == severity)
            return &r[i];
    return NULL;
}

static struct spec *parse(const char *text)
{
    struct spec *s = NULL;
    struct err err = { 0 };

    if (spec_parse(text, strlen(text), "x.yaml", &s, NULL, &err))
        fail_msg("%s", err.msg);
    return s;
}

TEST(a_spec_changes_and_adds)
{
    struct spec *s = parse(
        "default_alerts:\n"
        "  GpuUnderused: {off: true}\n"
        "  GpuTemperatureHigh: {threshold: 80C, clear: 75C, for: 10s, severity: critical}\n"
        "  GpuMemoryFull: {threshold: 90%, summary: 'full {gpu}', runbook: http://x/y}\n"
        "  GpuThrottledByHeat: {threshold: 5%}\n"
        "alerts:\n"
        "  hot: {metric: gpu_temperature, warn: 70C, critical: 78C, clear: 65C, for: 2m,\n"
        "        keep: 1m}\n"
        "  full: {metric: disk_used, warn: 80%, clear: 75%}\n"
        "  slow: {metric: latency_p99, warn: 50ms}\n"
        "  link: {metric: nvlink_rate, when: below, warn: 80Gb/s}\n"
        "  rail: {metric: rdma_link_down, critical: 0}\n"
        "  mine: {metric: custom, series: app_queue, how: mean, window: 3m, critical: 12}\n"
        "  gone: {metric: custom, series: app_queue, how: absent}\n"
        "  dear: {metric: cost_per_day, warn: $5000}\n"
        "notify: {alertmanager: http://a:9093, command: [/bin/tell, \"it's\"], log: false}\n");
    const struct alert_rule *r = NULL, *x;
    struct alert_targets to;
    AUTO(arena_release) struct arena a = { 0 };
    size_t n = 0, defaults;

    (void)alert_defaults(&defaults);
    CHECK(!alert_rules_of(s, &a, &r, &n, NULL));
    CHECK(n == defaults - 1 + 9 && !find(r, n, "GpuUnderused", ALERT_INFO));
    x = find(r, n, "GpuTemperatureHigh", ALERT_CRITICAL);
    CHECK(x && x->threshold == 80 && x->clear == 75 && x->for_ns == 10 * SEC);
    CHECK(x->keep_ns == 120 * SEC);
    x = find(r, n, "GpuMemoryFull", ALERT_WARNING);
    CHECK(x && x->threshold == 0.9 && isnan(x->clear) && str_eq(x->summary, "full {gpu}"));
    x = find(r, n, "GpuThrottledByHeat", ALERT_CRITICAL);
    CHECK(x && x->threshold == 5e7);
    x = find(r, n, "hot", ALERT_WARNING);
    CHECK(x && x->threshold == 70 && x->clear == 65 && x->for_ns == 120 * SEC);
    x = find(r, n, "hot", ALERT_CRITICAL);
    CHECK(x && x->threshold == 78 && x->clear == 73 && x->keep_ns == 60 * SEC);
    x = find(r, n, "full", ALERT_WARNING); /* used above 80 %: left below 20 % */
    CHECK(x && x->op == ALERT_BELOW && fabs(x->threshold - 0.2) < 1e-9);
    CHECK(fabs(x->clear - 0.25) < 1e-9);
    x = find(r, n, "slow", ALERT_WARNING);
    CHECK(x && fabs(x->threshold - 0.05) < 1e-12);
    x = find(r, n, "link", ALERT_WARNING);
    CHECK(x && x->op == ALERT_BELOW && x->threshold == 1e10);
    x = find(r, n, "rail", ALERT_CRITICAL);
    CHECK(x && x->op == ALERT_NOT_EQUAL && x->threshold == 4);
    x = find(r, n, "mine", ALERT_CRITICAL);
    CHECK(x && str_eq(x->metric, "app_queue") && x->how == ALERT_MEAN && x->threshold == 12);
    CHECK(x->window_ns == 180 * SEC && str_eq(x->summary, "app_queue is {value}"));
    CHECK(find(r, n, "gone", ALERT_WARNING));
    CHECK(!find(r, n, "dear", ALERT_WARNING));
    for (size_t i = 0; i < s->alert_count; i++)
        CHECK(alert_is_watched(&s->alerts[i]) == !str_eq(s->alerts[i].name, "dear"));
    alert_targets_of(s, &a, &to);
    CHECK(str_eq(to.alertmanager, "http://a:9093") && !to.webhook && !to.log);
    CHECK(str_eq(to.command, "exec '/bin/tell' 'it'\\''s'"));
    spec_free(s);
}

TEST(too_many_alerts_are_told)
{
    AUTO(buf_release) struct buf text = { 0 };
    const struct alert_rule *r = NULL;
    AUTO(arena_release) struct arena a = { 0 };
    struct err err = { 0 };
    struct spec *s;
    size_t n = 0, defaults;

    (void)alert_defaults(&defaults);
    CHECK(!alert_rules_of(NULL, &a, &r, &n, NULL) && n == defaults);
    buf_adds(&text, "alerts:\n");
    for (int i = 0; i < ALERT_RULES_MAX; i++)
        buf_addf(&text, "  a%d: {metric: gpu_power, warn: 1W}\n", i);
    s = parse(text.data);
    CHECK(alert_rules_of(s, &a, &r, &n, &err) == RC_LIMIT && n == defaults);
    CHECK(str_starts(err.msg, "x.yaml:") && strstr(err.msg, "more than 512 alerts"));
    spec_free(s);
}

TEST(bad_specs_are_told_with_their_place)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { "default_alerts: {GpuTemperaturHigh: {off: true}}\n",
          "x.yaml:1:18: there is no default alert 'GpuTemperaturHigh'" },
        { "default_alerts:\n  GpuPowerHigh: {threshold: 80C}\n", "x.yaml:2:29: GpuPowerHigh is in "
                                                                 "watts" },
        { "default_alerts:\n  GpuPowerHigh: {threshold: 600W, clear: 650W}\n",
          "x.yaml:2:42: alert 'GpuPowerHigh' would clear at 650W" },
        { "default_alerts:\n  GpuPowerHigh: {clear: 650W}\n", "without a 'threshold'" },
        { "default_alerts:\n  GpuLost: {off: perhaps}\n", "x.yaml:2:18" },
        { "alerts: {a: {metric: custom, warn: 3}}\n", "no series" },
        { "alerts: {a: {metric: custom, series: q, how: rate, warn: 3}}\n", "needs a window" },
        { "alerts: {a: {metric: gpu_power, series: q, warn: 3W}}\n", "only metric custom" },
        { "alerts: {a: {metric: gpu_power, how: mean, warn: 3W}}\n", "only metric custom" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = { 0 };
        struct spec *s = NULL;

        CHECK(spec_parse(rows[i].text, strlen(rows[i].text), "x.yaml", &s, NULL, &err) == RC_PARSE);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("row %zu: %s", i, err.msg);
    }
}

/* ---- Prometheus */
static void writes(const struct alert_rule *r, enum prom_export_names names, const char *want)
{
    AUTO(buf_release) struct buf b = { 0 };

    alert_prom_write(r, 1, names, &b);
    if (!strstr(buf_str(&b), want))
        fail_msg("no '%s' in\n%s", want, buf_str(&b));
}

TEST(prometheus_forms)
{
    struct alert_rule r = { .name = "A",
                            .metric = "gpu.temp",
                            .threshold = 85,
                            .clear = NAN,
                            .unit = "C",
                            .summary = "GPU {gpu} {at {value}",
                            .for_ns = 90 * SEC };
    struct alert_rule x = { .name = "X",
                            .metric = "gpu.xid.total",
                            .where = "xid!=13|31",
                            .how = ALERT_INCREASE,
                            .from_zero = true,
                            .window_ns = 600 * SEC,
                            .clear = NAN,
                            .unit = "1",
                            .summary = "s" };
    struct alert_rule f = { .name = "F",
                            .metric = "gpu.fb.used",
                            .of = "gpu.fb.total",
                            .how = ALERT_MEAN,
                            .window_ns = 300 * SEC,
                            .threshold = 0.9,
                            .clear = 0.8,
                            .unit = "ratio",
                            .summary = "s",
                            .guard = "gpu.fb.used",
                            .guard_op = ALERT_ABOVE,
                            .guard_than = 1048576 };
    struct alert_rule t = { .name = "T",
                            .metric = "gpu.violation.power",
                            .how = ALERT_RATE,
                            .window_ns = 300 * SEC,
                            .threshold = 5e8,
                            .clear = NAN,
                            .unit = "ns/s",
                            .summary = "{value}" };
    struct alert_rule n = {
        .name = "N", .metric = "host.cpu.util", .clear = NAN, .unit = "%", .summary = "s"
    };

    writes(&r, PROM_EXPORT_OLD, "expr: \"(DCGM_FI_DEV_GPU_TEMP > 85)\"\n        for: 90s\n");
    writes(&r, PROM_EXPORT_NEW, "expr: \"(DCGM_FI_DEV_GPU_TEMP_CELSIUS > 85)\"");
    writes(&r, PROM_EXPORT_OLD,
           "summary: \"GPU {{ $labels.gpu }} {{ \\\"{\\\" }}at "
           "{{ printf \\\"%.4g\\\" $value }} °C\"");
    writes(&x, PROM_EXPORT_OLD,
           "(increase(stoker_gpu_xid_errors_total{xid!~\\\"13|31\\\"}[10m]) > 0) or "
           "(stoker_gpu_xid_errors_total{xid!~\\\"13|31\\\"} > 0 unless "
           "stoker_gpu_xid_errors_total{xid!~\\\"13|31\\\"} offset 10m)");
    writes(
        &f, PROM_EXPORT_OLD,
        "((avg_over_time((DCGM_FI_DEV_FB_USED / DCGM_FI_DEV_FB_TOTAL)[5m:]) > 0.9) or (avg_over_");
    writes(&f, PROM_EXPORT_OLD, "ALERTS{alertname=\\\"F\\\",alertstate=\\\"firing\\\"");
    writes(&f, PROM_EXPORT_OLD, ") DCGM_FI_DEV_FB_USED > 1\"");
    writes(&t, PROM_EXPORT_OLD, "(rate(DCGM_FI_DEV_POWER_VIOLATION[5m]) * 1e-09 > 0.5)");
    writes(&n, PROM_EXPORT_OLD,
           "(100 * (1 - sum without (mode) "
           "(rate(stoker_cpu_seconds_total{mode=~\\\"idle|iowait\\\"}[1m])) "
           "/ stoker_cpus) > 0)");
    n.how = ALERT_MEAN;
    n.window_ns = 900 * SEC; /* a part of a window would show a higher use */
    writes(&n, PROM_EXPORT_OLD, "[15m])) / stoker_cpus) > 0 and stoker_cpus offset 15m)");
    n.metric = "host.cpu.mhz";
    writes(&n, PROM_EXPORT_OLD, "# N: only the agent sees what it is about");
}

TEST_MAIN(cmocka_unit_test(a_row_becomes_a_rule), cmocka_unit_test(bad_rows_are_told),
          cmocka_unit_test(defaults_are_sound), cmocka_unit_test(a_spec_changes_and_adds),
          cmocka_unit_test(too_many_alerts_are_told),
          cmocka_unit_test(bad_specs_are_told_with_their_place), cmocka_unit_test(prometheus_forms))
