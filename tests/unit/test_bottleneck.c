/* SPDX-License-Identifier: MIT */
/* limits: each class from facts, ties, mixtures, what is missing; from windows; from recordings of
 * an H200 under loads made for each class (tests/fixtures/limits; those named fake were changed by
 * a tool). */
#include "test.h"

#include "base/str.h"
#include "bottleneck/bottleneck_int.h"
#include "telemetry/record/recording.h"
#include "telemetry/telemetry_int.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

AUTO_OF(telemetry_free, telemetry);
AUTO_OF(window_free, window);

/* A GPU with nothing to do on a quiet host, everything known. */
static struct bottleneck_facts quiet(void)
{
    struct bottleneck_facts f = { .seconds = 60 };

    f.absent[BOTTLENECK_F_RDMA] = f.absent[BOTTLENECK_F_REMOTE] = true;
    f.at[BOTTLENECK_F_RDMA] = f.at[BOTTLENECK_F_REMOTE] = NAN;
    return f;
}

static struct bottleneck_verdict judge(const struct bottleneck_facts *f)
{
    struct bottleneck_verdict v;

    bottleneck_judge(f, &v);
    CHECK(v.confidence >= 0 && v.confidence <= 1);
    CHECK(v.advice && *v.advice);
    return v;
}

struct fact_row {
    enum bottleneck_fact fact;
    double value;
};
static struct bottleneck_facts with(const struct fact_row *rows, size_t n)
{
    struct bottleneck_facts f = quiet();

    for (size_t i = 0; i < n; i++) {
        f.at[rows[i].fact] = rows[i].value;
        f.absent[rows[i].fact] = false;
    }
    return f;
}
#define WITH(...)                                                                                  \
    with((const struct fact_row[]){ __VA_ARGS__ },                                                 \
         sizeof((const struct fact_row[]){ __VA_ARGS__ }) / sizeof(struct fact_row))
#define UTIL(v)                                                                                    \
    { BOTTLENECK_F_UTIL, v },                                                                      \
    {                                                                                              \
        BOTTLENECK_F_WORK, 1                                                                       \
    }

TEST(each_class_has_its_signs)
{
    static const struct {
        enum bottleneck_class want;
        struct fact_row rows[6];
    } cases[] = {
        { BOTTLENECK_IDLE, { { BOTTLENECK_F_UTIL, 0 } } },
        { BOTTLENECK_NONE, { UTIL(0.4), { BOTTLENECK_F_SM, 0.3 } } },
        { BOTTLENECK_COMPUTE,
          { UTIL(1), { BOTTLENECK_F_SM, 0.95 }, { BOTTLENECK_F_TENSOR, 0.9 } } },
        { BOTTLENECK_COMPUTE, { UTIL(1), { BOTTLENECK_F_SM, 0.9 }, { BOTTLENECK_F_PIPES, 0.8 } } },
        { BOTTLENECK_COMPUTE, { UTIL(1), { BOTTLENECK_F_SM, 0.99 } } }, /* latency: weak */
        { BOTTLENECK_MEMORY, { UTIL(1), { BOTTLENECK_F_SM, 0.99 }, { BOTTLENECK_F_DRAM, 0.88 } } },
        { BOTTLENECK_PCIE, { UTIL(1), { BOTTLENECK_F_PCIE, 0.9 }, { BOTTLENECK_F_CORE, 1 } } },
        { BOTTLENECK_NVLINK, { UTIL(1), { BOTTLENECK_F_NVLINK, 0.7 }, { BOTTLENECK_F_SM, 0.3 } } },
        { BOTTLENECK_NETWORK, { UTIL(1), { BOTTLENECK_F_RDMA, 0.8 }, { BOTTLENECK_F_SM, 0.3 } } },
        { BOTTLENECK_NETWORK, { UTIL(0.5), { BOTTLENECK_F_NET, 0.95 } } },
        { BOTTLENECK_DATA,
          { UTIL(0.3), { BOTTLENECK_F_PRESSURE_IO, 0.6 }, { BOTTLENECK_F_DISK, 0.9 } } },
        { BOTTLENECK_DATA, { UTIL(0.02), { BOTTLENECK_F_FED, 1 }, { BOTTLENECK_F_CORE, 0.95 } } },
        { BOTTLENECK_DATA, { UTIL(0.2), { BOTTLENECK_F_REMOTE, 5 } } },
        { BOTTLENECK_HOST, { UTIL(0.3), { BOTTLENECK_F_TINY, 0.99 }, { BOTTLENECK_F_CORE, 1 } } },
        { BOTTLENECK_HOST, { UTIL(0.3), { BOTTLENECK_F_CPU, 0.97 } } },
        { BOTTLENECK_HOST, { UTIL(0.3), { BOTTLENECK_F_PRESSURE_MEMORY, 0.5 } } },
        { BOTTLENECK_THROTTLE,
          { UTIL(1), { BOTTLENECK_F_TENSOR, 0.9 }, { BOTTLENECK_F_THERMAL, 0.5 } } },
        { BOTTLENECK_THROTTLE,
          { UTIL(1), { BOTTLENECK_F_TENSOR, 0.6 }, { BOTTLENECK_F_BRAKE, 0.2 } } },
        { BOTTLENECK_THROTTLE,
          { UTIL(1), { BOTTLENECK_F_SM, 0.9 }, { BOTTLENECK_F_CLOCK_LOST, 0.6 } } },
        /* at its own power limit: that is compute, and told */
        { BOTTLENECK_COMPUTE,
          { UTIL(1),
            { BOTTLENECK_F_TENSOR, 0.9 },
            { BOTTLENECK_F_POWER_CAP, 1 },
            { BOTTLENECK_F_CLOCK_LOST, 0.25 } } },
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct bottleneck_facts f = with(cases[i].rows, ARRAY_SIZE(cases[i].rows));
        f.at[BOTTLENECK_F_UTIL] = cases[i].rows[0].value; /* rows left out are util 0 */
        struct bottleneck_verdict v = judge(&f);

        if (v.limit != cases[i].want)
            print_message("case %zu: %s\n", i, bottleneck_word(v.limit));
        CHECK(v.limit == cases[i].want);
        CHECK(v.evidence_count > 0 || v.limit == BOTTLENECK_NONE);
    }
}

TEST(what_a_class_needs_can_rule_it_out)
{
    /* a busy disk under a busy GPU, a busy host under a GPU that nobody uses, heat without work */
    struct bottleneck_facts busy =
        WITH(UTIL(0.95), { BOTTLENECK_F_SM, 0.5 }, { BOTTLENECK_F_DISK, 1 });
    struct bottleneck_facts unused =
        WITH({ BOTTLENECK_F_UTIL, 0 }, { BOTTLENECK_F_CPU, 1 }, { BOTTLENECK_F_DISK, 1 });
    struct bottleneck_facts hot = WITH({ BOTTLENECK_F_UTIL, 0 }, { BOTTLENECK_F_THERMAL, 1 });

    CHECK(judge(&busy).limit == BOTTLENECK_NONE);
    CHECK(judge(&unused).limit == BOTTLENECK_IDLE);
    CHECK(judge(&hot).limit == BOTTLENECK_IDLE);
}

TEST(ties_and_mixtures_name_both_and_are_less_sure)
{
    struct bottleneck_facts tie =
        WITH(UTIL(1), { BOTTLENECK_F_TENSOR, 0.85 }, { BOTTLENECK_F_DRAM, 0.8 });
    struct bottleneck_facts clear =
        WITH(UTIL(1), { BOTTLENECK_F_TENSOR, 0.85 }, { BOTTLENECK_F_DRAM, 0.2 });
    struct bottleneck_verdict a = judge(&tie), b = judge(&clear);

    CHECK(a.limit == BOTTLENECK_MEMORY && a.also == BOTTLENECK_COMPUTE); /* the first of the enum */
    CHECK(b.limit == BOTTLENECK_COMPUTE && b.also == BOTTLENECK_UNKNOWN);
    CHECK(a.confidence < b.confidence);
    /* the same facts give the same verdict, whatever the order of questions */
    CHECK(judge(&tie).confidence == a.confidence);
}

TEST(what_is_missing_is_named_and_lowers_confidence)
{
    struct bottleneck_facts f = WITH(UTIL(1), { BOTTLENECK_F_TENSOR, 0.9 }), g = f, none = f;
    struct bottleneck_verdict all = judge(&f), less, nothing;

    g.at[BOTTLENECK_F_DRAM] = g.at[BOTTLENECK_F_PCIE] = g.at[BOTTLENECK_F_CPU] = NAN;
    less = judge(&g);
    CHECK(!all.missing[BOTTLENECK_F_DRAM] && less.missing[BOTTLENECK_F_DRAM] &&
          less.missing[BOTTLENECK_F_CPU]);
    CHECK(less.limit == BOTTLENECK_COMPUTE && less.confidence < all.confidence);
    CHECK(!less.missing[BOTTLENECK_F_RDMA]); /* there is none: not missed */
    for (size_t i = 0; i < BOTTLENECK_FACTS; i++)
        none.at[i] = NAN;
    nothing = judge(&none);
    CHECK(nothing.limit == BOTTLENECK_UNKNOWN && nothing.confidence == 0);
    /* unknown is not zero: a GPU of which only its use is known is not idle, and not compute */
    none.at[BOTTLENECK_F_UTIL] = 1;
    CHECK(judge(&none).limit == BOTTLENECK_NONE && judge(&none).confidence < 0.3);
    /* nobody is blamed for a GPU of which nothing is known */
    none.at[BOTTLENECK_F_UTIL] = NAN;
    none.at[BOTTLENECK_F_CPU] = none.at[BOTTLENECK_F_PRESSURE_IO] = 1;
    CHECK(judge(&none).limit == BOTTLENECK_UNKNOWN);
    f.seconds = 1;
    CHECK(judge(&f).confidence < all.confidence);
}

TEST(a_host_alone)
{
    struct bottleneck_facts f = WITH({ BOTTLENECK_F_CPU, 0.02 });

    f.no_gpu = true;
    for (size_t i = 0; i < BOTTLENECK_F_CPU; i++) {
        f.at[i] = NAN;
        f.absent[i] = true;
    }
    CHECK(judge(&f).limit == BOTTLENECK_IDLE);
    CHECK(judge(&f).confidence > 0.8); /* GPUs are not missed */
    f.at[BOTTLENECK_F_CPU] = 0.3;
    CHECK(judge(&f).limit == BOTTLENECK_NONE);
    f.at[BOTTLENECK_F_CPU] = 0.99;
    CHECK(judge(&f).limit == BOTTLENECK_HOST);
    f.at[BOTTLENECK_F_CPU] = NAN;
    CHECK(judge(&f).limit == BOTTLENECK_UNKNOWN);
}

TEST(the_node_is_what_most_gpus_are_but_one_throttled_one_holds_up_all)
{
    struct bottleneck_report r = { .gpu_count = 3 };
    struct bottleneck_facts compute = WITH(UTIL(1), { BOTTLENECK_F_TENSOR, 0.9 }),
                            idle = WITH({ BOTTLENECK_F_UTIL, 0 }),
                            hot = WITH(UTIL(1), { BOTTLENECK_F_THERMAL, 0.5 });

    for (int i = 0; i < 3; i++)
        r.gpus[i].gpu = i;
    bottleneck_judge(&idle, &r.gpus[0].verdict);
    bottleneck_judge(&idle, &r.gpus[1].verdict);
    bottleneck_judge(&compute, &r.gpus[2].verdict);
    bottleneck_report_node(&r);
    CHECK(r.node.limit == BOTTLENECK_COMPUTE && r.node_gpu == 2 && r.agree == 1);
    bottleneck_judge(&compute, &r.gpus[1].verdict);
    bottleneck_judge(&hot, &r.gpus[0].verdict);
    bottleneck_report_node(&r);
    CHECK(r.node.limit == BOTTLENECK_THROTTLE && r.node_gpu == 0);
}

TEST(facts_of_two_spans_are_weighed_by_their_length)
{
    struct bottleneck_facts a = WITH({ BOTTLENECK_F_UTIL, 1 }), b = WITH({ BOTTLENECK_F_UTIL, 0 });

    a.seconds = 30;
    b.seconds = 10;
    b.at[BOTTLENECK_F_SM] = NAN;
    a.at[BOTTLENECK_F_SM] = 0.5;
    bottleneck_facts_merge(&a, &b);
    CHECK(fabs(a.at[BOTTLENECK_F_UTIL] - 0.75) < 1e-9 && a.at[BOTTLENECK_F_SM] == 0.5);
    CHECK(a.seconds == 40);
}

TEST(the_table_is_whole)
{
    size_t n, signs[BOTTLENECK_CLASSES] = { 0 };
    const struct bottleneck_row *r = bottleneck_rows(&n);

    for (size_t i = 0; i < n; i++) {
        CHECK(*r[i].why);
        signs[r[i].limit] += r[i].role == BOTTLENECK_SIGN;
        CHECK(r[i].role != BOTTLENECK_SIGN || (r[i].weight > 0 && r[i].weight <= 1));
    }
    for (int c = BOTTLENECK_THROTTLE; c < BOTTLENECK_CLASSES; c++)
        CHECK(signs[c] > 0);
    for (int c = BOTTLENECK_UNKNOWN; c < BOTTLENECK_THROTTLE; c++)
        CHECK(*bottleneck_advice((enum bottleneck_class)c));
    for (int f = 0; f < BOTTLENECK_FACTS; f++)
        CHECK(telemetry_metric(bottleneck_fact_metric((enum bottleneck_fact)f)) != NULL);
    for (size_t i = 0; bottleneck_metrics[i]; i++) {
        char id[TELEMETRY_NAME_MAX];
        (void)str_copy(id, sizeof(id), bottleneck_metrics[i]);
        id[strcspn(id, "|")] = '\0';
        CHECK(telemetry_metric(id) != NULL);
    }
}

/* ---- windows */

TEST(a_window_counts_rises_bits_and_quantiles)
{
    static const char *const ids[] = { "gpu.clock_events", "gpu.util", "gpu.energy",
                                       "host.cpu.seconds|mode=idle", NULL };
    AUTO(window_free_at) struct window *w = window_new(ids, true);
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    unsigned src = telemetry_source(t, "x");
    struct telemetry_label gpu[] = { { "gpu", "3" } };
    struct telemetry_label idle[] = { { "cpu", "0" }, { "mode", "idle" } },
                           user[] = { { "cpu", "0" }, { "mode", "user" } };
    uint32_t id[] = { telemetry_series(t, src, telemetry_metric("gpu.clock_events"), gpu, 1),
                      telemetry_series(t, src, telemetry_metric("gpu.util"), gpu, 1),
                      telemetry_series(t, src, telemetry_metric("gpu.energy"), gpu, 1),
                      telemetry_series(t, src, telemetry_metric("host.cpu.seconds"), idle, 2),
                      telemetry_series(t, src, telemetry_metric("host.cpu.seconds"), user, 2) };

    for (int i = 0; i < 10; i++) {
        telemetry_begin(t, src, i);
        telemetry_set(t, id[0], i < 5 ? 4 : 0);
        if (i != 3)
            telemetry_set(t, id[1], i * 10);
        telemetry_set(t, id[2], i == 6 ? 0 : 1000 + i * 7); /* begins anew once */
        telemetry_set(t, id[3], i * 0.25);
        telemetry_set(t, id[4], i);
        telemetry_end(t);
        window_take(w, t, (i + 1) * INT64_C(1000000000));
    }
    CHECK(window_count(w) == 4);
    const struct window_slot *s = window_find(w, "gpu.util", 3);
    CHECK(s->count == 9 && s->max == 90 && window_quantile(s, 0.5) == 50 &&
          window_quantile(s, 1) == 90);
    CHECK(window_find(w, "gpu.util", 2) == NULL && isnan(window_mean(NULL)));
    s = window_find(w, "gpu.clock_events", 3);
    CHECK(s->bits[2] == 5 && s->bits[0] == 0);
    s = window_find(w, "gpu.energy", 3);
    CHECK(s->rise == 7 * 5 + 1049 + 7 * 2);
    CHECK(fabs(window_rate(window_find(w, "host.cpu.seconds", -1)) - 0.25) < 1e-9);
    window_next(w);
    CHECK(window_find(w, "gpu.util", 3) == NULL && window_from_ns(w) == 0);
}

/* An id that was given to another process: the values of each are its own. */
TEST(a_window_of_processes_that_pass)
{
    enum { BUDGET = 16, ROOM = BUDGET / 4 };
    static const char *const metrics[] = { "process.gpu.memory", NULL };
    struct window *w = window_new(metrics, false);
    struct telemetry *t = telemetry_new(BUDGET);
    unsigned src = telemetry_source(t, "gpu");

    for (int i = 0; i < 3 * ROOM * (TELEMETRY_REST_BATCHES + 1); i++) {
        int pid = i / (TELEMETRY_REST_BATCHES + 1);
        char text[16];
        struct telemetry_label l[] = { { "gpu", "0" }, { "pid", text } };

        (void)snprintf(text, sizeof(text), "%d", pid);
        telemetry_begin(t, src, i);
        telemetry_set(t, telemetry_series(t, src, telemetry_metric(metrics[0]), l, 2), pid);
        telemetry_end(t);
        window_take(w, t, (i + 1) * INT64_C(1000000000));
    }
    CHECK(telemetry_renewed(t) > ROOM && window_count(w) == 3 * ROOM);
    for (size_t i = 0; i < window_count(w); i++) {
        const struct window_slot *s = window_at(w, i);

        CHECK(s->count == TELEMETRY_REST_BATCHES + 1 && s->min == s->max);
    }
    window_free(w);
    telemetry_free(t);
}

TEST(kept_samples_are_thinned_evenly_and_bounded)
{
    static const char *const ids[] = { "gpu.temp", NULL };
    AUTO(window_free_at) struct window *w = window_new(ids, true);
    struct telemetry_label l = { "gpu", "0" };
    struct telemetry_series s = { .metric = telemetry_metric("gpu.temp"),
                                  .labels = &l,
                                  .label_count = 1 };
    struct window_slot *slot = window_slot(w, &s);

    for (int i = 0; i < 100000; i++)
        window_add(slot, i, i);
    CHECK(slot->kept_count <= WINDOW_KEPT_MAX && slot->kept_count >= WINDOW_KEPT_MAX / 4);
    CHECK(fabs(window_quantile(slot, 0.5) - 50000) < 200);
    CHECK(slot->count == 100000 && slot->max == 99999);
}

TEST(series_beyond_the_limit_are_counted_alone)
{
    static const char *const ids[] = { "process.gpu.memory", NULL };
    AUTO(window_free_at) struct window *w = window_new(ids, true);

    for (int i = 0; i < WINDOW_SLOTS_MAX + 10; i++) {
        char pid[16];
        struct telemetry_label l = { "pid", pid };
        struct telemetry_series s = { .metric = telemetry_metric("process.gpu.memory"),
                                      .labels = &l,
                                      .label_count = 1 };
        (void)snprintf(pid, sizeof(pid), "%d", i);
        (void)window_slot(w, &s);
    }
    CHECK(window_count(w) == WINDOW_SLOTS_MAX && window_refused(w) == 10);
}

/* The kernel's sum comes every two seconds: a second may show the waits of two. */
TEST(a_share_of_time_is_no_more_than_one)
{
    AUTO(window_free_at) struct window *w = window_new(bottleneck_metrics, false);
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    unsigned src = telemetry_source(t, "x");
    uint32_t id = telemetry_series(t, src, telemetry_metric("host.pressure.cpu.waiting"), NULL, 0);
    struct bottleneck_facts f;

    for (int i = 0; i < 4; i++) {
        telemetry_begin(t, src, i);
        telemetry_set(t, id, i * 1.21);
        telemetry_end(t);
        window_take(w, t, (i + 1) * INT64_C(1000000000));
    }
    bottleneck_facts_of(w, -1, &f);
    CHECK(f.at[BOTTLENECK_F_PRESSURE_CPU] == 1);
}

/* ---- recordings */

static bool take(void *arg, struct telemetry *t, int64_t time_ns)
{
    window_take(arg, t, time_ns);
    return true;
}

static void read_fixture(const char *name, struct bottleneck_report *out, struct recording_end *end)
{
    AUTO(window_free_at) struct window *w = window_new(bottleneck_metrics, false);
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    char path[256];

    (void)snprintf(path, sizeof(path), "tests/fixtures/limits/%s.rec", name);
    struct recording_opts o = { .path = path, .into = t, .on_second = take, .arg = w };
    CHECK(recording_read(&o, end, NULL) == RC_OK);
    bottleneck_report(w, out);
}

TEST(recordings_of_an_h200_give_their_class)
{
    static const struct {
        const char *name;
        enum bottleneck_class want;
    } rows[] = {
        { "idle", BOTTLENECK_IDLE },
        { "gemm", BOTTLENECK_COMPUTE },
        { "devcopy", BOTTLENECK_MEMORY },
        { "h2d", BOTTLENECK_PCIE },
        { "dataload", BOTTLENECK_DATA },
        { "launch", BOTTLENECK_HOST },
        { "fake-nvlink", BOTTLENECK_NVLINK },
        { "fake-network", BOTTLENECK_NETWORK },
        { "fake-throttling", BOTTLENECK_THROTTLE },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct bottleneck_report r;
        struct recording_end end;
        struct buf text = { 0 };
        read_fixture(rows[i].name, &r, &end);
        bottleneck_verdict_text(&r.node, &text);
        if (r.node.limit != rows[i].want)
            print_message("%s: %s\n", rows[i].name, buf_str(&text));
        CHECK(r.node.limit == rows[i].want && r.node.confidence > 0.6);
        CHECK(r.gpu_count == 1 && r.agree == 1 && end.seconds >= 10 && !end.torn);
        buf_release(&text);
    }
}

struct keeping {
    struct history *ring;
    double *values;
    int64_t first_ns, last_ns;
};

static bool keep_second(void *arg, struct telemetry *t, int64_t time_ns)
{
    struct keeping *k = arg;
    size_t n = telemetry_copy(t, k->values, TELEMETRY_SERIES_MAX);

    k->first_ns = k->first_ns ? k->first_ns : time_ns;
    k->last_ns = time_ns;
    return history_append(k->ring, t, time_ns, k->values, n, NULL) == RC_OK;
}

static void through_history(const char *path, struct bottleneck_report *out)
{
    char file[] = "/tmp/stoker-test-limits-XXXXXX";
    int fd = mkstemp(file);
    struct keeping k = { .values = calloc(TELEMETRY_SERIES_MAX, sizeof(double)) };
    struct telemetry *t = telemetry_new(0);
    struct window *w = window_new(bottleneck_metrics, false);
    struct recording_opts o = { .path = path, .into = t, .on_second = keep_second, .arg = &k };
    struct recording_end end;
    struct history_opts ro = { .path = file, .bytes = HISTORY_BYTES_MIN, .no_sync = true };

    CHECK(fd >= 0);
    close(fd);
    CHECK(history_open(&ro, &k.ring, NULL) == RC_OK && recording_read(&o, &end, NULL) == RC_OK);
    CHECK(bottleneck_from_history(k.ring, k.first_ns, k.last_ns + 1000000000, w, NULL) == RC_OK);
    bottleneck_report(w, out);
    history_close(k.ring);
    (void)unlink(file);
    window_free(w);
    telemetry_free(t);
    free(k.values);
}

TEST(history_gives_the_verdict_of_the_recording)
{
    struct bottleneck_report a, b;
    struct recording_end end;

    read_fixture("gemm", &a, &end);
    through_history("tests/fixtures/limits/gemm.rec", &b);
    CHECK(b.node.limit == a.node.limit && fabs(a.node.confidence - b.node.confidence) < 0.02);
    CHECK(b.gpu_count == 1 && b.to_ns > b.from_ns);
}

TEST(a_torn_or_wrong_file)
{
    AUTO(window_free_at) struct window *w = window_new(bottleneck_metrics, false);
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    struct recording_opts o = { .path = "data/limits.csv", .into = t, .on_second = take, .arg = w };
    struct recording_end end;
    struct err err = { 0 };

    CHECK(recording_read(&o, &end, &err) == RC_PARSE && strstr(err.msg, "not a recording"));
    o.path = "tests/fixtures/limits/none.rec";
    err = (struct err){ 0 };
    CHECK(recording_read(&o, &end, &err) == RC_NODEV);
}

TEST_MAIN(cmocka_unit_test(each_class_has_its_signs),
          cmocka_unit_test(what_a_class_needs_can_rule_it_out),
          cmocka_unit_test(ties_and_mixtures_name_both_and_are_less_sure),
          cmocka_unit_test(what_is_missing_is_named_and_lowers_confidence),
          cmocka_unit_test(a_host_alone),
          cmocka_unit_test(the_node_is_what_most_gpus_are_but_one_throttled_one_holds_up_all),
          cmocka_unit_test(facts_of_two_spans_are_weighed_by_their_length),
          cmocka_unit_test(the_table_is_whole),
          cmocka_unit_test(a_window_counts_rises_bits_and_quantiles),
          cmocka_unit_test(a_window_of_processes_that_pass),
          cmocka_unit_test(kept_samples_are_thinned_evenly_and_bounded),
          cmocka_unit_test(series_beyond_the_limit_are_counted_alone),
          cmocka_unit_test(a_share_of_time_is_no_more_than_one),
          cmocka_unit_test(recordings_of_an_h200_give_their_class),
          cmocka_unit_test(history_gives_the_verdict_of_the_recording),
          cmocka_unit_test(a_torn_or_wrong_file))
