/* SPDX-License-Identifier: MIT */
/* An application's Prometheus text into the table. */
#include "host.h"

#include "base/buf.h"
#include "telemetry/prom/prom.h"

static const struct telemetry_label app[] = { { "app", "trainer" } };

static enum rc take(struct host *h, const char *text)
{
    return prom_parse_take(h->t, telemetry_source(h->t, "app:trainer"), text, strlen(text), SECOND,
                           app, 1, NULL);
}

static const struct telemetry_metric *metric_of(const struct host *h, const char *name)
{
    for (size_t i = 0; i < telemetry_count(h->t); i++)
        if (str_eq(telemetry_get(h->t, (uint32_t)i)->metric->prom, name))
            return telemetry_get(h->t, (uint32_t)i)->metric;
    return NULL;
}

TEST(text_format)
{
    AUTO(host_close) struct host h;

    host_open(&h, NULL);
    assert_int_equal(
        take(&h, "# HELP http_requests_total The total number\\nof \\\\ requests.\n"
                 "# TYPE http_requests_total counter\n"
                 "http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n"
                 "http_requests_total{method=\"post\",code=\"400\",}    3 1395066363000\n"
                 "http_requests_total_by_nobody 1\n"
                 "\n# a remark\n"
                 "msdos_file_access_time_seconds{path=\"C:\\\\DIR\\\\FILE.TXT\",error=\"Cannot "
                 "find file:\\n\\\"FILE.TXT\\\"\"} 1.458255915e9\n"
                 "metric_without_timestamp_and_labels 12.47\n"
                 "something_weird{problem=\"division by zero\"} +Inf -3982045\n"
                 "nothing NaN\n"
                 "hex 0x1p4\n"
                 "  blanks { a = \"b\" , c=\"d\" }  -7e-2  \n"),
        RC_OK);
    NEAR(&h, "http_requests_total", "method=post,code=200,app=trainer", 1027);
    NEAR(&h, "http_requests_total", "method=post,code=400,app=trainer", 3);
    assert_int_equal(metric_of(&h, "http_requests_total")->kind, TELEMETRY_COUNTER);
    assert_string_equal(metric_of(&h, "http_requests_total")->help,
                        "The total number of \\ requests.");
    CHECK(!metric_of(&h, "http_requests_total_by_nobody")->help); /* another's begins alike */
    NEAR(&h, "metric_without_timestamp_and_labels", "app=trainer", 12.47);
    assert_int_equal(metric_of(&h, "metric_without_timestamp_and_labels")->kind, TELEMETRY_GAUGE);
    CHECK(isinf(host_value(&h, "something_weird", "problem=division by zero,app=trainer")));
    UNKNOWN(&h, "nothing", "app=trainer");
    NEAR(&h, "hex", "app=trainer", 16);
    NEAR(&h, "blanks", "a=b,c=d,app=trainer", -0.07);
    NEAR(&h, "msdos_file_access_time_seconds",
         "path=C:\\DIR\\FILE.TXT,error=Cannot find file:\n\"FILE.TXT\",app=trainer", 1.458255915e9);
    /* what the next text leaves out is unknown */
    assert_int_equal(take(&h, "hex 1\n"), RC_OK);
    UNKNOWN(&h, "metric_without_timestamp_and_labels", "app=trainer");
    NEAR(&h, "hex", "app=trainer", 1);
}

TEST(histograms_and_summaries)
{
    AUTO(host_close) struct host h;

    host_open(&h, NULL);
    assert_int_equal(take(&h,
                          "# TYPE req histogram\n"
                          "req_bucket{le=\"0.05\"} 24054\nreq_bucket{le=\"+Inf\"} 144320\n"
                          "req_sum 53423\nreq_count 144320\n"
                          "# TYPE rpc summary\n"
                          "rpc{quantile=\"0.99\"} 76656\nrpc_sum 1.7560473e+07\nrpc_count 2693\n"),
                     RC_OK);
    NEAR(&h, "req_bucket", "le=+Inf,app=trainer", 144320);
    assert_int_equal(metric_of(&h, "req_bucket")->kind, TELEMETRY_COUNTER);
    assert_int_equal(metric_of(&h, "req_sum")->kind, TELEMETRY_COUNTER);
    NEAR(&h, "rpc", "quantile=0.99,app=trainer", 76656);
    assert_int_equal(metric_of(&h, "rpc")->kind, TELEMETRY_GAUGE);
    assert_int_equal(metric_of(&h, "rpc_count")->kind, TELEMETRY_COUNTER);
}

/* What is shown to Prometheus again is what was read. */
TEST(histograms_are_written_as_they_came)
{
    static const char want[] =
        "# HELP req Requests.\n# TYPE req histogram\n"
        "req_bucket{a=\"1\",le=\"0.05\",app=\"trainer\"} 2\n"
        "req_bucket{a=\"1\",le=\"+Inf\",app=\"trainer\"} 3\n"
        "req_sum{a=\"1\",app=\"trainer\"} 3\nreq_count{a=\"1\",app=\"trainer\"} 3\n"
        "req_bucket{a=\"2\",le=\"0.05\",app=\"trainer\"} 4\n"
        "req_bucket{a=\"2\",le=\"+Inf\",app=\"trainer\"} 5\n"
        "req_sum{a=\"2\",app=\"trainer\"} 5\nreq_count{a=\"2\",app=\"trainer\"} 5\n"
        "# TYPE rpc summary\n"
        "rpc{quantile=\"0.99\",app=\"trainer\"} 7\n"
        "rpc_sum{app=\"trainer\"} 8\nrpc_count{app=\"trainer\"} 2\n";
    static const char *const only[] = { "req_sum", "rpc", NULL };
    AUTO(buf_release) struct buf out = { 0 };
    struct host h;

    host_open(&h, NULL);
    assert_int_equal(take(&h, "# HELP req Requests.\n# TYPE req histogram\n"
                              "req_bucket{a=\"1\",le=\"0.05\"} 2\n"
                              "req_bucket{a=\"1\",le=\"+Inf\"} 3\n"
                              "req_sum{a=\"1\"} 3\nreq_count{a=\"1\"} 3\n"
                              "req_bucket{a=\"2\",le=\"0.05\"} 4\n"
                              "req_bucket{a=\"2\",le=\"+Inf\"} 5\n"
                              "req_sum{a=\"2\"} 5\nreq_count{a=\"2\"} 5\n"
                              "# TYPE rpc summary\n"
                              "rpc{quantile=\"0.99\"} 7\nrpc_sum 8\nrpc_count 2\n"),
                     RC_OK);
    for (size_t open = 0; open < 2; open++) {
        prom_export_write(h.t, &(struct prom_export_opts){ .only = only, .open_metrics = open },
                          &out);
        CHECK(str_starts(buf_str(&out), want));
        assert_string_equal(buf_str(&out) + strlen(want), open ? "# EOF\n" : "");
        buf_reset(&out);
    }
    host_close(&h);
}

TEST(open_metrics)
{
    AUTO(host_close) struct host h;

    host_open(&h, NULL);
    assert_int_equal(
        take(&h, "# TYPE foo_seconds counter\n# UNIT foo_seconds seconds\n"
                 "foo_seconds_total{a=\"b\"} 17.0 1520879607.789 # {trace_id=\"x}y\"} 0.5\n"
                 "foo_seconds_created{a=\"b\"} 1520430000.123\n"
                 "# TYPE info info\ninfo{v=\"1\"} 1\n"
                 "# EOF\nbehind_the_end 1\n"),
        RC_OK);
    NEAR(&h, "foo_seconds_total", "a=b,app=trainer", 17);
    assert_int_equal(metric_of(&h, "foo_seconds_total")->kind, TELEMETRY_COUNTER);
    assert_null(metric_of(&h, "foo_seconds_created"));
    NEAR(&h, "info", "v=1,app=trainer", 1);
    assert_null(metric_of(&h, "behind_the_end"));
}

TEST(conflicts)
{
    AUTO(host_close) struct host h;

    host_open(&h, NULL);
    assert_int_equal(take(&h,
                          "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 5\n"
                          "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 30\n"
                          "up 0\nscrape_samples_scraped 5\nALERTS 1\n"
                          "x{app=\"mine\"} 1\n"
                          "# TYPE y counter\ny 1\n"),
                     RC_OK);
    NEAR(&h, "app_process_cpu_seconds_total", "app=trainer", 5);
    NEAR(&h, "app_DCGM_FI_DEV_GPU_TEMP", "gpu=0,app=trainer", 30);
    assert_null(metric_of(&h, "process_cpu_seconds_total"));
    /* Prometheus' own of the target that it asks: the node's would be the application's */
    NEAR(&h, "app_up", "app=trainer", 0);
    NEAR(&h, "app_scrape_samples_scraped", "app=trainer", 5);
    NEAR(&h, "app_ALERTS", "app=trainer", 1);
    assert_null(metric_of(&h, "up"));
    NEAR(&h, "x", "exported_app=mine,app=trainer", 1);
    /* the same name as something else: left out */
    assert_int_equal(take(&h, "# TYPE y gauge\ny 7\nz 1\n"), RC_OK);
    UNKNOWN(&h, "y", "app=trainer");
    NEAR(&h, "z", "app=trainer", 1);
}

TEST(bad_lines_are_passed_over)
{
    static const char *const bad[] = {
        "9lives 1",
        "a",
        "a ",
        "a{",
        "a{b",
        "a{b=",
        "a{b=\"",
        "a{b=\"c",
        "a{b=\"c\"",
        "a{b=\"c\"}",
        "a{b=\"c\",b=\"d\"} 1",
        "a{b=\"c\"d=\"e\"} 1",
        "a{\"b\"} 1",
        "a{b=c} 1",
        "a 1x",
        "a 0x",
        "a nanny",
        "a --1",
        "a 1 x",
        "a 1 2 3",
        "a{__=\"\"\"} 1",
        "a-b 1",
        "<html>",
        "{} 1",
        "a{9=\"x\"} 1",
        "a 1e",
        "\xff\xfe 1",
        "a{b=\"c\"} 1 2x",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char text[256];
        struct host h;

        host_open(&h, NULL);
        snprintf(text, sizeof(text), "%s\ngood 1\n", bad[i]);
        assert_int_equal(take(&h, text), RC_OK);
        if (telemetry_count(h.t) != 1)
            fail_msg("'%s' is a line", bad[i]);
        NEAR(&h, "good", "app=trainer", 1);
        assert_int_equal(take(&h, bad[i]), RC_PARSE);
        UNKNOWN(&h, "good", "app=trainer");
        host_close(&h);
    }
}

TEST(hostile_text)
{
    struct err err = { 0 };
    AUTO(buf_release) struct buf b = { 0 };
    struct host h;

    host_open(&h, NULL);
    assert_int_equal(take(&h, ""), RC_OK);
    assert_int_equal(take(&h, "\n\r\n# x\n"), RC_OK);
    assert_int_equal(take(&h, "a{b=\"\xff\xc3\x01\"} 1\r\n"), RC_OK);
    NEAR(&h, "a", "b=???,app=trainer", 1);
    /* a name, a value, a line and labels beyond the limits */
    buf_fill(&b, 'n', TELEMETRY_NAME_MAX);
    buf_adds(&b, " 1\nv{l=\"");
    buf_fill(&b, 'v', 4 * TELEMETRY_VALUE_MAX);
    buf_adds(&b, "\"} 2\nm{");
    for (int i = 0; i < TELEMETRY_LABELS_MAX; i++)
        buf_addf(&b, "l%d=\"x\",", i);
    buf_adds(&b, "} 3\nlong{l=\"");
    buf_fill(&b, 'v', 20000);
    buf_adds(&b, "\"} 4\nlast 5\n");
    assert_int_equal(take(&h, buf_str(&b)), RC_OK);
    CHECK(telemetry_count(h.t) == 3); /* a, v, last */
    NEAR(&h, "last", "app=trainer", 5);
    /* more series than an application may have: counted and left out, ours have room */
    buf_reset(&b);
    for (int i = 0; i < 12000; i++)
        buf_addf(&b, "flood{i=\"%d\"} %d\n", i, i);
    assert_int_equal(take(&h, buf_str(&b)), RC_OK);
    CHECK(telemetry_refused(h.t) > 0 && telemetry_count(h.t) < TELEMETRY_SERIES_DEFAULT);
    CHECK(telemetry_series(h.t, telemetry_source(h.t, "gpu"), telemetry_metric("gpu.temp"), app,
                           1) != TELEMETRY_NONE);
    /* a NUL in it, and too long a text */
    assert_int_equal(prom_parse_take(h.t, 0, "a\0b 1\nq 1\n", 10, SECOND, NULL, 0, &err), RC_OK);
    assert_int_equal(prom_parse_take(h.t, 0, "", (16 << 20) + 1, SECOND, NULL, 0, &err), RC_LIMIT);
    host_close(&h);
}

TEST_MAIN(cmocka_unit_test(text_format), cmocka_unit_test(histograms_and_summaries),
          cmocka_unit_test(histograms_are_written_as_they_came), cmocka_unit_test(open_metrics),
          cmocka_unit_test(conflicts), cmocka_unit_test(bad_lines_are_passed_over),
          cmocka_unit_test(hostile_text))
