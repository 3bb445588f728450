/* SPDX-License-Identifier: MIT */
/* The registry: what is counted, what is written, and that both may happen at once.  The
 * text is read back by a small reader that knows the format from its description, not from
 * the writer. */
#include "base/mem.h"
#include "base/str.h"
#include "metrics/metrics_int.h"
#include "test.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

AUTO_OF(metrics_free, metrics);

/* ---- an independent reader of the format */

enum { SAMPLES_MAX = 4096, LABEL_TEXT_MAX = 2048 };

struct sample {
    char name[128];
    char labels[LABEL_TEXT_MAX]; /* "a=1;b=2;" with the values unescaped */
    char value[64];
};

struct text {
    struct sample *samples;
    size_t count, families;
    char last_family[128], last_type[32];
};

static const char *read_label(const char *p, struct sample *s)
{
    size_t len = strlen(s->labels);

    while (*p != '=')
        s->labels[len++] = *p++;
    s->labels[len++] = '=';
    assert_int_equal(p[1], '"');
    for (p += 2; *p != '"'; p++) {
        assert_true(*p && *p != '\n' && len < LABEL_TEXT_MAX - 2);
        if (*p == '\\') {
            p++;
            assert_true(*p == '\\' || *p == '"' || *p == 'n');
            s->labels[len++] = *p == 'n' ? '\n' : *p;
        } else {
            s->labels[len++] = *p;
        }
    }
    s->labels[len++] = ';';
    s->labels[len] = '\0';
    return p + 1;
}

static const char *read_sample(const char *p, struct text *t)
{
    struct sample *s = &t->samples[t->count++];
    size_t len = strcspn(p, "{ ");

    assert_true(t->count <= SAMPLES_MAX && len < sizeof(s->name));
    memset(s, 0, sizeof(*s));
    memcpy(s->name, p, len);
    assert_true(str_starts(s->name, t->last_family)); /* under its family */
    p += len;
    if (*p == '{') {
        do {
            p = read_label(p + 1, s);
        } while (*p == ',');
        assert_int_equal(*p, '}');
        p++;
    }
    assert_int_equal(*p, ' ');
    len = strcspn(++p, "\n");
    assert_true(len > 0 && len < sizeof(s->value) && !memchr(p, ' ', len));
    memcpy(s->value, p, len);
    assert_int_equal(p[len], '\n');
    return p + len + 1;
}

static const char *read_comment(const char *p, struct text *t)
{
    const char *end = strchr(p, '\n');
    char word[8], name[128];

    assert_non_null(end);
    assert_int_equal(sscanf(p, "# %7s %127s", word, name), 2);
    if (str_eq(word, "HELP")) {
        assert_true(strcmp(name, t->last_family) > 0); /* sorted, each once */
        str_copy(t->last_family, sizeof(t->last_family), name);
        t->families++;
    } else {
        assert_string_equal(word, "TYPE");
        assert_string_equal(name, t->last_family);
        sscanf(p, "# TYPE %*s %31s", t->last_type);
    }
    return end + 1;
}

static struct text text_read(const struct buf *b)
{
    struct text t = { .samples = xcalloc(SAMPLES_MAX, sizeof(struct sample)) };
    const char *p = buf_str(b);

    while (*p)
        p = *p == '#' ? read_comment(p, &t) : read_sample(p, &t);
    return t;
}

static const char *text_value(const struct text *t, const char *name, const char *labels)
{
    for (size_t i = 0; i < t->count; i++)
        if (str_eq(t->samples[i].name, name) && str_eq(t->samples[i].labels, labels))
            return t->samples[i].value;
    return NULL;
}

static struct text scrape(struct metrics *m)
{
    struct buf out = { 0 };
    struct text t;

    metrics_write(m, &out);
    assert_false(out.over);
    t = text_read(&out);
    buf_release(&out);
    return t;
}

static void expect(struct metrics *m, const char *name, const char *labels, const char *want)
{
    struct text t = scrape(m);
    const char *got = text_value(&t, name, labels);

    if (!want)
        assert_null(got);
    else
        assert_string_equal(got ? got : "(missing)", want);
    free(t.samples);
}

/* ---- the tests */

static const double bounds[] = { 0.005, 0.1, 1, 10 };

TEST(whole_text)
{
    AUTO(metrics_free_at) struct metrics *m = metrics_new();
    struct metrics_family *h = metrics_family(m, METRICS_HISTOGRAM, "b_seconds",
                                              "Time\nwith \\ a break.", "model", bounds, 4);
    struct metrics_family *c =
        metrics_family(m, METRICS_COUNTER, "a_total", "Counted.", "model,route", NULL, 0);
    struct metrics_family *g = metrics_family(m, METRICS_GAUGE, "c_bytes", "Held.", NULL, NULL, 0);
    AUTO(buf_release) struct buf out = { 0 };

    counter_add(metrics_counter(c, "z", "/b"), 7);
    metrics_counter(c, "a\"\\\n", "/b");
    metrics_counter(c, "z", "/a");
    histogram_add(metrics_histogram(h, "m"), 0.1);
    histogram_add(metrics_histogram(h, "m"), 0.2);
    histogram_add(metrics_histogram(h, "m"), 1000);
    gauge_set(metrics_gauge(g), 0.25);
    metrics_write(m, &out);
    assert_string_equal(buf_str(&out),
                        "# HELP a_total Counted.\n"
                        "# TYPE a_total counter\n"
                        "a_total{model=\"a\\\"\\\\\\n\",route=\"/b\"} 0\n"
                        "a_total{model=\"z\",route=\"/a\"} 0\n"
                        "a_total{model=\"z\",route=\"/b\"} 7\n"
                        "# HELP b_seconds Time\\nwith \\\\ a break.\n"
                        "# TYPE b_seconds histogram\n"
                        "b_seconds_bucket{model=\"m\",le=\"0.005\"} 0\n"
                        "b_seconds_bucket{model=\"m\",le=\"0.1\"} 1\n"
                        "b_seconds_bucket{model=\"m\",le=\"1\"} 2\n"
                        "b_seconds_bucket{model=\"m\",le=\"10\"} 2\n"
                        "b_seconds_bucket{model=\"m\",le=\"+Inf\"} 3\n"
                        "b_seconds_sum{model=\"m\"} 1000.3\n"
                        "b_seconds_count{model=\"m\"} 3\n"
                        "# HELP c_bytes Held.\n"
                        "# TYPE c_bytes gauge\n"
                        "c_bytes 0.25\n"
                        "# HELP stoker_metrics_series_dropped_total Series asked for beyond the "
                        "registry's limit; they are not written.\n"
                        "# TYPE stoker_metrics_series_dropped_total counter\n"
                        "stoker_metrics_series_dropped_total 0\n");
}

TEST(numbers_table)
{
    static const struct {
        double v;
        const char *want; /* NULL: not written */
    } rows[] = {
        { 0, "0" },
        { -0.0, "0" },
        { 1e6, "1000000" },
        { 9007199254740992.0, "9007199254740992" },
        { -9007199254740992.0, "-9007199254740992" },
        { 1e300, "1e+300" },
        { 0.1, "0.1" },
        { 1e-5, "1e-05" },
        { 1.0 / 3, "0.3333333333333333" },
        { INFINITY, "+Inf" },
        { -INFINITY, "-Inf" },
        { NAN, NULL },
    };
    AUTO(metrics_free_at) struct metrics *m = metrics_new();
    struct gauge *g =
        metrics_gauge(metrics_family(m, METRICS_GAUGE, "g", "A number.", NULL, NULL, 0));

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        gauge_set(g, rows[i].v);
        expect(m, "g", "", rows[i].want);
    }
    gauge_add(g, 2); /* unknown and 2 */
    gauge_add(g, -0.5);
    gauge_add(g, NAN);
    assert_true(gauge_value(g) == 1.5);
}

TEST(counters)
{
    AUTO(metrics_free_at) struct metrics *m = metrics_new();
    struct metrics_family *f =
        metrics_family(m, METRICS_COUNTER, "n_total", "N.", "model", NULL, 0);
    struct counter *a = metrics_counter(f, "a"), *b = metrics_counter(f, "b");

    assert_ptr_equal(metrics_family(m, METRICS_COUNTER, "n_total", "N.", "model", NULL, 0), f);
    assert_ptr_equal(metrics_counter(f, "a"), a);
    counter_add(a, UINT64_MAX - 1);
    expect(m, "n_total", "model=a;", "18446744073709551614"); /* exact, beyond a double */
    counter_add_seconds(b, 0.5);
    counter_add_seconds(b, -1);
    counter_add_seconds(b, NAN);
    counter_add_seconds(b, 0.75);
    expect(m, "n_total", "model=b;", "1.25");
    assert_int_equal(counter_value(b), 1);
    metrics_drop(f, "a");
    metrics_drop(f, "never was");
    expect(m, "n_total", "model=a;", NULL);
    expect(m, "n_total", "model=b;", "1.25");
}

TEST(values_from_outside)
{
    AUTO(metrics_free_at) struct metrics *m = metrics_new();
    struct metrics_family *f = metrics_family(m, METRICS_COUNTER, "n", "N.", "a,b", NULL, 0);
    char lengthy[3 * METRICS_VALUE_MAX], want[2 * METRICS_VALUE_MAX] = "a=";

    metrics_counter(f, "x\xff\xc3y", NULL);
    expect(m, "n", "a=x\xef\xbf\xbd\xef\xbf\xbdy;b=;", "0");
    for (size_t i = 0; i + 2 < sizeof(lengthy); i += 2)
        memcpy(&lengthy[i], "\xc3\xa9", 2); /* cut between characters */
    memset(&lengthy[sizeof(lengthy) - 2], 0, 2);
    counter_add(metrics_counter(f, lengthy, "b"), 1);
    counter_add(metrics_counter(f, lengthy, "b"), 1); /* found again */
    memcpy(&want[2], lengthy, METRICS_VALUE_MAX - 2);
    memcpy(&want[METRICS_VALUE_MAX], ";b=b;", 6);
    expect(m, "n", want, "2");
    /* "a","bc" is not "ab","c" */
    counter_add(metrics_counter(f, "a", "bc"), 3);
    counter_add(metrics_counter(f, "ab", "c"), 4);
    expect(m, "n", "a=a;b=bc;", "3");
    expect(m, "n", "a=ab;b=c;", "4");
}

TEST(histograms)
{
    AUTO(metrics_free_at) struct metrics *m = metrics_new();
    struct metrics_family *f =
        metrics_family(m, METRICS_HISTOGRAM, "h", "H.", NULL, bounds, ARRAY_SIZE(bounds));
    struct histogram *h = metrics_histogram(f);

    expect(m, "h_bucket", "le=+Inf;", "0");
    histogram_add(h, NAN);
    expect(m, "h_count", "", "0");
    for (int i = 0; i < 10; i++)
        histogram_add(h, 0.5); /* (0.1, 1] */
    for (int i = 0; i < 10; i++)
        histogram_add(h, 10); /* a bound belongs to its bucket */
    expect(m, "h_bucket", "le=1;", "10");
    expect(m, "h_count", "", "20");
    expect(m, "h_sum", "", "105");
    histogram_add(h, 1e9);
    expect(m, "h_bucket", "le=10;", "20");
    expect(m, "h_count", "", "21");
}

TEST(durations_rise)
{
    assert_int_equal(metrics_durations_count, 29);
    assert_true(metrics_durations_count <= METRICS_BUCKETS_MAX);
    assert_true(metrics_durations[0] == 1e-5 && metrics_durations[28] == 100);
    for (size_t i = 1; i < metrics_durations_count; i++)
        assert_true(metrics_durations[i] > metrics_durations[i - 1]);
}

TEST(series_limit)
{
    AUTO(metrics_free_at) struct metrics *m = metrics_new_max(4); /* one is the registry's own */
    struct metrics_family *f = metrics_family(m, METRICS_COUNTER, "n", "N.", "id", NULL, 0);
    struct metrics_family *h =
        metrics_family(m, METRICS_HISTOGRAM, "h", "H.", "id", bounds, ARRAY_SIZE(bounds));
    struct text t;
    char id[16];

    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof(id), "%d", i);
        counter_add(metrics_counter(f, id), 1);
    }
    histogram_add(metrics_histogram(h, "x"), 5); /* counts, into nothing that is written */
    t = scrape(m);
    assert_int_equal(t.count, 4);
    assert_string_equal(text_value(&t, "stoker_metrics_series_dropped_total", ""), "8");
    free(t.samples);
    metrics_drop(f, "0"); /* makes room */
    counter_add(metrics_counter(f, "new"), 1);
    expect(m, "n", "id=new;", "1");
}

static void set_to_seven(void *arg)
{
    struct metrics_family *f = arg;

    gauge_set(metrics_gauge(f, "looked up"), 7);
}

TEST(collectors_run_first)
{
    AUTO(metrics_free_at) struct metrics *m = metrics_new();
    struct metrics_family *f = metrics_family(m, METRICS_GAUGE, "g", "G.", "what", NULL, 0);

    metrics_on_collect(m, set_to_seven, f);
    expect(m, "g", "what=looked up;", "7");
}

/* ---- threads: eight count and make series, one writes, one drops */

enum { THREADS = 8, ROUNDS = 20000 };

struct stress {
    struct metrics *m;
    struct metrics_family *counters, *gauges, *histograms, *passing;
    _Atomic int running;
};

static void *count_much(void *arg)
{
    struct stress *s = arg;
    struct counter *c = metrics_counter(s->counters, "shared");
    struct gauge *g = metrics_gauge(s->gauges);
    struct histogram *h = metrics_histogram(s->histograms);
    char own[32];

    snprintf(own, sizeof(own), "%p", (void *)&own);
    for (int i = 0; i < ROUNDS; i++) {
        counter_add(c, 1);
        counter_add_seconds(c, 0.5);
        gauge_add(g, i % 2 ? -1 : 1);
        histogram_add(h, i % 20);
        if (i % 100 == 0)
            counter_add(metrics_counter(s->counters, i % 200 ? own : "made"), 1);
        if (i % 500 == 0) {
            metrics_histogram(s->passing, own);
            metrics_drop(s->passing, own);
        }
    }
    s->running--;
    return NULL;
}

/* In every scrape buckets rise and the last is the count. */
static void check_moving(const struct text *t)
{
    uint64_t last = 0, n;

    for (size_t i = 0; i < t->count; i++) {
        if (str_eq(t->samples[i].name, "h_bucket")) {
            assert_true(str_to_u64(t->samples[i].value, 10, &n));
            assert_true(n >= last);
            last = n;
        } else if (str_eq(t->samples[i].name, "h_count")) {
            assert_true(str_to_u64(t->samples[i].value, 10, &n));
            assert_int_equal(n, last);
        }
    }
}

TEST(threads_count_while_one_writes)
{
    struct stress s = { .m = metrics_new(), .running = THREADS };
    pthread_t threads[THREADS];
    struct text t;

    s.counters = metrics_family(s.m, METRICS_COUNTER, "c", "C.", "what", NULL, 0);
    s.gauges = metrics_family(s.m, METRICS_GAUGE, "g", "G.", NULL, NULL, 0);
    s.histograms = metrics_family(s.m, METRICS_HISTOGRAM, "h", "H.", NULL, bounds, 4);
    s.passing = metrics_family(s.m, METRICS_HISTOGRAM, "p", "P.", "what", bounds, 4);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_much, &s), 0);
    while (s.running > 0) {
        t = scrape(s.m);
        check_moving(&t);
        free(t.samples);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    t = scrape(s.m);
    check_moving(&t);
    /* 8 * 20000 whole ones and as many halves */
    assert_string_equal(text_value(&t, "c", "what=shared;"), "240000");
    assert_string_equal(text_value(&t, "c", "what=made;"), "800");
    assert_string_equal(text_value(&t, "g", ""), "0");
    assert_string_equal(text_value(&t, "h_count", ""), "160000");
    assert_string_equal(text_value(&t, "h_sum", ""), "1520000");
    free(t.samples);
    metrics_free(s.m);
}

/* Prometheus' own reader, where it is installed (PROMTOOL names another place). */
TEST(promtool_takes_it)
{
    const char *tool = getenv("PROMTOOL") ? getenv("PROMTOOL") : "promtool";
    struct metrics *m = metrics_new();
    struct metrics_family *c = metrics_family(m, METRICS_COUNTER, "stoker_requests_total",
                                              "Requests.", "model,status", NULL, 0);
    struct metrics_family *h =
        metrics_family(m, METRICS_HISTOGRAM, "stoker_run_seconds", "Run \\ time.", "model",
                       metrics_durations, metrics_durations_count);
    AUTO(buf_release) struct buf out = { 0 };
    char command[512];
    FILE *pipe;
    int status;

    snprintf(command, sizeof(command), "command -v '%s' >/dev/null", tool);
    if (system(command) != 0) {
        print_message("# promtool is not installed (Debian: prometheus)\n");
        metrics_free(m);
        return; /* cmocka's own skip() writes "not ok" */
    }
    counter_add(metrics_counter(c, "a \"b\" \\ \n é", "200"), 3);
    histogram_add(metrics_histogram(h, "m"), 0.002);
    metrics_write(m, &out);
    snprintf(command, sizeof(command), "'%s' check metrics >&2", tool);
    pipe = popen(command, "w");
    assert_non_null(pipe);
    fwrite(out.data, 1, out.len, pipe);
    status = pclose(pipe);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    metrics_free(m);
}

TEST_MAIN(cmocka_unit_test(whole_text), cmocka_unit_test(numbers_table), cmocka_unit_test(counters),
          cmocka_unit_test(values_from_outside), cmocka_unit_test(histograms),
          cmocka_unit_test(durations_rise), cmocka_unit_test(series_limit),
          cmocka_unit_test(collectors_run_first), cmocka_unit_test(threads_count_while_one_writes),
          cmocka_unit_test(promtool_takes_it))
