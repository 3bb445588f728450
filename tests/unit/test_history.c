/* SPDX-License-Identifier: MIT */
/* The history: what was appended comes back, whatever happens to the file in between.  A plain
 * array is the reference.  Faults come through a fake file layer: writes that fail, and a disk
 * that keeps only what was synced. */
#include "base/codec/crc32c.h"
#include "base/mem.h"
#include "base/str.h"
#include "history/history_int.h"
#include "os/file.h"
#include "telemetry/telemetry_int.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

AUTO_OF(telemetry_free, telemetry);

#define T0 INT64_C(1763194320000000000) /* a minute's begin */
#define S  INT64_C(1000000000)
enum { SMALL = HISTORY_BYTES_MIN };

static char dir[] = "/tmp/test_history.XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static uint64_t seed = 88172645463325252;

static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static double rnd01(void)
{
    return (double)(rnd() >> 11) / 9007199254740992.0;
}

/* ---- a disk that forgets what was not synced, and fails when told */
struct fake_disk {
    char *shown, *synced; /* the file as seen, and as after a power cut */
    uint64_t bytes;
    int fail_write, fail_sync; /* errno; 0: none */
    long writes_left;          /* -1: any number */
    bool tear;                 /* the last write before a fault is cut in two */
    char *copy_to;
};

static ssize_t fake_read(void *arg, int fd, void *p, size_t n, off_t at)
{
    (void)arg;
    return pread(fd, p, n, at);
}

static ssize_t fake_write(void *arg, int fd, const void *p, size_t n, off_t at)
{
    struct fake_disk *d = arg;

    if (d->writes_left == 0 || d->fail_write) {
        if (d->tear && n > 1) {
            d->tear = false;
            return pwrite(fd, p, n / 2, at);
        }
        errno = d->fail_write ? d->fail_write : EIO;
        return -1;
    }
    if (d->writes_left > 0)
        d->writes_left--;
    return pwrite(fd, p, n, at);
}

/* What is on the disk after a sync is the file as it is now. */
static int fake_sync(void *arg, int fd)
{
    struct fake_disk *d = arg;
    char *p;

    if (d->fail_sync) {
        errno = d->fail_sync;
        return -1;
    }
    if (!d->copy_to)
        return 0;
    p = xmalloc(d->bytes);
    if (pread(fd, p, d->bytes, 0) != (ssize_t)d->bytes) {
        free(p);
        return -1;
    }
    free(d->synced);
    d->synced = p;
    return 0;
}

static int fake_reserve(void *arg, int fd, off_t bytes)
{
    struct fake_disk *d = arg;

    if (d->fail_write) {
        errno = d->fail_write;
        return -1;
    }
    return ftruncate(fd, bytes);
}

static struct history_io fake_io(struct fake_disk *d)
{
    return (struct history_io){
        .arg = d, .read = fake_read, .write = fake_write, .sync = fake_sync, .reserve = fake_reserve
    };
}

static struct history *open_ring(const char *path, uint64_t bytes)
{
    struct history_opts o = { .path = path, .bytes = bytes, .no_sync = true };
    struct history *r = NULL;
    struct err err = { 0 };

    if (history_open(&o, &r, &err))
        fail_msg("%s", err.msg);
    return r;
}

/* ---- tables and queries */
static struct telemetry *table_of(size_t count, const char *metric)
{
    struct telemetry *t = telemetry_new(TELEMETRY_SERIES_MAX);
    unsigned source = telemetry_source(t, "test");
    const struct telemetry_metric *m = metric ? telemetry_metric(metric) : NULL;

    if (!m)
        m = telemetry_foreign(t, metric ? metric : "app_value", "", TELEMETRY_GAUGE);
    for (size_t i = 0; i < count; i++) {
        char text[16];
        struct telemetry_label label = { "gpu", text };

        snprintf(text, sizeof(text), "%zu", i);
        CHECK(telemetry_series(t, source, m, &label, 1) == i);
    }
    return t;
}

static void append(struct history *r, struct telemetry *t, int64_t time_ns, const double *v,
                   size_t n)
{
    struct err err = { 0 };

    if (history_append(r, t, time_ns, v, n, &err))
        fail_msg("%s", err.msg);
}

struct answer {
    struct history_point *points;
    size_t count, series;
};

static bool take(void *arg, const struct telemetry_series *s, const struct history_point *p,
                 size_t n)
{
    struct answer *a = arg;

    CHECK(s->label_count == 1 && str_eq(s->labels[0].name, "gpu"));
    for (size_t i = 1; i < n; i++)
        CHECK(p[i - 1].time_ns <= p[i].time_ns);
    a->points = xreallocarray(a->points, a->count + n, sizeof(*p));
    memcpy(a->points + a->count, p, n * sizeof(*p));
    a->count += n;
    a->series++;
    return true;
}

static struct answer ask(struct history *r, const char *metric, size_t series, int64_t from,
                         int64_t to, int64_t step)
{
    char text[16];
    struct telemetry_label label = { "gpu", text };
    struct history_query q = { .metric = metric,
                               .labels = &label,
                               .label_count = 1,
                               .from_ns = from,
                               .to_ns = to,
                               .step_ns = step };
    struct answer a = { 0 };
    struct err err = { 0 };

    snprintf(text, sizeof(text), "%zu", series);
    if (history_read(r, &q, take, &a, &err))
        fail_msg("%s", err.msg);
    return a;
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* ---- numbers as bits */
static void check_code(const double *v, size_t n, size_t most)
{
    AUTO(buf_release) struct buf b = { 0 };
    double *got = xcalloc(n + 1, sizeof(*got));
    size_t used;
    uint8_t *exact;

    history_code_put(&b, v, n);
    exact = xmalloc(b.len);
    memcpy(exact, b.data, b.len);
    used = history_code_get(exact, b.len, got, n);
    CHECK(used == b.len);
    for (size_t i = 0; i < n; i++)
        CHECK(same(v[i], got[i]));
    CHECK(!most || b.len <= most);
    for (size_t cut = 0; cut < b.len; cut++) { /* cut short: refused, nothing read beyond */
        uint8_t *part = xmalloc(cut ? cut : 1);

        memcpy(part, exact, cut);
        CHECK(history_code_get(part, cut, got, n) == 0);
        free(part);
    }
    free(exact);
    free(got);
}

static double value_of(int kind, size_t i, double before)
{
    switch (kind) {
    case 0:
        return 42;
    case 1:
        return before + (double)(rnd() % 1000); /* a counter */
    case 2:
        return 81.45 + (double)(rnd() % 100) / 1000; /* power */
    case 3:
        return rnd01(); /* no decimals fit */
    case 4:
        return (double)(rnd() % 3) * 1048576 + 6397 * 1e6; /* memory */
    case 5:
        return rnd() % 4 ? before : NAN; /* comes and goes */
    case 6:
        return (double)(int64_t)(rnd() << 11); /* anything */
    case 7:
        return i == 30 ? 1e300 : i == 40 ? -INFINITY : 0.1; /* far apart */
    case 8:
        return before - 0.25;
    default:
        return NAN;
    }
}

TEST(columns)
{
    static const size_t lengths[] = { 1, 2, 3, 31, 32, 33, 34, 64, 65, 600 };
    double v[600];

    for (int kind = 0; kind <= 9; kind++) {
        for (size_t l = 0; l < ARRAY_SIZE(lengths); l++) {
            double before = 1000;

            for (size_t i = 0; i < lengths[l]; i++) {
                v[i] = value_of(kind, i, before);
                before = isnan(v[i]) ? before : v[i];
            }
            check_code(v, lengths[l], kind == 0 || kind == 9 ? 8 : 0);
        }
    }
    for (size_t i = 0; i < 600; i++)
        v[i] = i < 300 ? 40 : 41; /* a temperature: a bit a second */
    check_code(v, 600, 600 / 8 + 40);
}

TEST(columns_of_whole_numbers)
{
    static const int64_t ends[] = { INT64_MIN, INT64_MAX, 0, -1, 1, INT64_MIN, INT64_MIN };
    int64_t got[ARRAY_SIZE(ends)];
    AUTO(buf_release) struct buf b = { 0 };

    history_code_put_ints(&b, ends, ARRAY_SIZE(ends));
    CHECK(history_code_get_ints((uint8_t *)b.data, b.len, got, ARRAY_SIZE(ends)) == b.len);
    CHECK(!memcmp(ends, got, sizeof(ends)));
}

TEST(damaged_columns)
{
    double v[200], got[200];

    for (int round = 0; round < 2000; round++) {
        struct buf b = { 0 };

        for (size_t i = 0; i < ARRAY_SIZE(v); i++)
            v[i] = value_of((int)(rnd() % 9), i, 5);
        history_code_put(&b, v, ARRAY_SIZE(v));
        for (int i = 0; i < 3; i++)
            b.data[rnd() % b.len] ^= (char)(1 << rnd() % 8);
        CHECK(history_code_get((uint8_t *)b.data, b.len, got, ARRAY_SIZE(got)) <= b.len);
        buf_release(&b);
    }
}

TEST(rounding)
{
    static const struct {
        double in, want;
    } rows[] = { { 700.123, 700.123 },
                 { 85899345920, 85899345920 },
                 { 0.5, 0.5 },
                 { 0.926345678, 0.92635 },
                 { 123456789.1234, 123460000 },
                 { 0.000123456789, 0.00012346 },
                 { -3.14159265, -3.1416 },
                 { 99999.96, 99999.96 },
                 { 99999.9612, 100000 },
                 { 1e300, 1e300 },
                 { 1e-30, 1e-30 } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        CHECK(history_round(rows[i].in) == rows[i].want);
    for (int i = 0; i < 10000; i++) {
        double v = (rnd01() - 0.5) * pow(10, (double)(rnd() % 16) - 4), r = history_round(v);

        CHECK(fabs(r - v) <= fabs(v) * 5.001e-5);
        CHECK(history_round(r) == r);
    }
    CHECK(isnan(history_round(NAN)) && isinf(history_round(INFINITY)));
}

/* ---- round trips against arrays */
enum { SERIES = 9, ROWS = 1500 };
static double reference[ROWS][SERIES];

static void fill(struct history *r, struct telemetry *t, size_t from, size_t to, int64_t begin)
{
    for (size_t i = from; i < to; i++) {
        for (size_t s = 0; s < SERIES; s++)
            reference[i][s] = value_of((int)s, i, i ? reference[i - 1][s] : 7);
        if (i && isnan(reference[i][5]) && isnan(reference[i - 1][5]))
            reference[i][5] = (double)i;
        append(r, t, begin + (int64_t)i * S, reference[i], SERIES);
    }
}

static void check_all(struct history *r, size_t from, size_t to, int64_t begin)
{
    for (size_t s = 0; s < SERIES; s++) {
        struct answer a =
            ask(r, "app_value", s, begin + (int64_t)from * S, begin + (int64_t)to * S, 0);
        size_t n = 0;

        CHECK(a.series == 1);
        for (size_t i = from; i < to; i++) {
            if (isnan(reference[i][s]))
                continue;
            CHECK(n < a.count && a.points[n].time_ns == begin + (int64_t)i * S);
            CHECK(a.points[n].last == reference[i][s] && a.points[n].mean == reference[i][s]);
            CHECK(a.points[n].count == 1);
            n++;
        }
        CHECK(n == a.count);
        free(a.points);
    }
}

TEST(round_trip)
{
    const char *path = in_dir("round");
    struct telemetry *t = table_of(SERIES, NULL);
    struct history *r = open_ring(path, SMALL);
    struct history_stats st;

    for (size_t i = 0; i < ROWS; i += 250) {
        fill(r, t, i, i + 250, T0);
        check_all(r, 0, i + 250, T0);
        if (i % 500) {
            history_close(r);
            r = open_ring(path, SMALL);
            check_all(r, 0, i + 250, T0);
        }
    }
    history_stats(r, &st);
    CHECK(!st.bad_blocks && st.oldest_ns == T0 && st.newest_ns == T0 + (ROWS - 1) * S);
    history_close(r);
    telemetry_free(t);
    unlink(path);
}

TEST(steps)
{
    const char *path = in_dir("steps");
    struct telemetry *t = table_of(SERIES, NULL);
    struct history *r = open_ring(path, SMALL);

    fill(r, t, 0, ROWS, T0);
    for (size_t s = 0; s < SERIES; s++) {
        struct answer a = ask(r, "app_value", s, T0, T0 + ROWS * S, 7 * S);
        size_t n = 0;

        for (size_t i = 0; i < ROWS;) {
            int64_t step = (T0 + (int64_t)i * S) / (7 * S) * (7 * S);
            double min = INFINITY, max = -INFINITY, sum = 0, last = NAN;
            uint32_t count = 0;

            for (; i < ROWS && (T0 + (int64_t)i * S) / (7 * S) * (7 * S) == step; i++) {
                double v = reference[i][s];

                if (isnan(v))
                    continue;
                min = v < min ? v : min;
                max = v > max ? v : max;
                sum += v;
                last = v;
                count++;
            }
            if (!count)
                continue;
            CHECK(n < a.count && a.points[n].time_ns == step && a.points[n].count == count);
            CHECK(a.points[n].min == min && a.points[n].max == max && a.points[n].last == last);
            CHECK(same(a.points[n].mean, sum / count) ||
                  fabs(a.points[n].mean - sum / count) <= fabs(sum) * 1e-12);
            n++;
        }
        CHECK(n == a.count);
        free(a.points);
    }
    history_close(r);
    telemetry_free(t);
    unlink(path);
}

/* ---- the file comes round: seconds go, minutes stay */
enum { WIDE = 400 };

static double wide_value(size_t row, size_t s)
{
    return (double)((row * 2654435761u + s * 40503u) % 100003 * (s % 7 + 1)) + (double)(row % 60);
}

static void append_wide(struct history *r, struct telemetry *t, size_t row)
{
    double v[WIDE];

    for (size_t s = 0; s < WIDE; s++)
        v[s] = wide_value(row, s);
    append(r, t, T0 + (int64_t)row * S, v, WIDE);
}

static void check_minutes(struct history *r, size_t series, size_t from_row, size_t rows)
{
    struct answer a = ask(r, "app_value", series, T0 + (int64_t)from_row * S,
                          T0 + (int64_t)rows * S, HISTORY_MINUTE);
    size_t n = 0;

    for (size_t i = from_row; i < rows; i += 60, n++) {
        double min = INFINITY, max = -INFINITY, sum = 0;
        size_t stop = i + 60 < rows ? i + 60 : rows;

        for (size_t j = i; j < stop; j++) {
            double v = wide_value(j, series);

            min = v < min ? v : min;
            max = v > max ? v : max;
            sum += v;
        }
        CHECK(n < a.count && a.points[n].time_ns == T0 + (int64_t)i * S);
        CHECK(a.points[n].count == stop - i);
        CHECK(a.points[n].min == min && a.points[n].max == max);
        CHECK(a.points[n].last == wide_value(stop - 1, series));
        CHECK(fabs(a.points[n].mean - sum / (double)(stop - i)) <= 5.1e-5 * sum / 60);
    }
    CHECK(n == a.count);
    free(a.points);
}

TEST(wraps_and_keeps_minutes)
{
    enum { MANY = 9000 };
    const char *path = in_dir("wrap");
    struct telemetry *t = table_of(WIDE, NULL);
    struct history *r = open_ring(path, SMALL);
    struct history_stats st;
    struct answer a;
    size_t oldest, first;

    for (size_t row = 0; row < MANY; row++) {
        append_wide(r, t, row);
        if (row % 3001 == 0) {
            history_close(r);
            r = open_ring(path, SMALL);
        }
    }
    history_stats(r, &st);
    CHECK(!st.bad_blocks && st.used <= SMALL && st.oldest_ns > T0);
    oldest = (size_t)((st.oldest_ns - T0) / S);
    first = (size_t)((st.oldest_minute_ns - T0) / S);
    CHECK(oldest > 1000 && first < oldest && first % 60 == 0);
    for (size_t s = 0; s < WIDE; s += 57) {
        check_minutes(r, s, first, MANY);
        check_minutes(r, s, first + 600, MANY - 300);
        /* seconds where there are some, minutes before: every second counts once */
        a = ask(r, "app_value", s, T0 + (int64_t)first * S, T0 + MANY * S, 0);
        size_t rows = 0;
        for (size_t i = 0; i < a.count; i++)
            rows += a.points[i].count;
        CHECK(rows == MANY - first);
        CHECK(a.points[a.count - 1].last == wide_value(MANY - 1, s));
        CHECK(a.points[0].count > 1 && a.points[a.count - 1].count == 1);
        free(a.points);
    }
    history_close(r);
    telemetry_free(t);
    unlink(path);
}

/* ---- series that come and go, tables that are made anew */
TEST(series_come_and_go)
{
    enum { LIVES = 40, EACH = 30 };
    const char *path = in_dir("series");
    struct history *r = open_ring(path, SMALL);

    for (size_t life = 0; life < LIVES; life++) {
        struct telemetry *t = table_of(life + 1, NULL);
        double v[LIVES];

        for (size_t i = 0; i < EACH; i++) {
            for (size_t s = 0; s <= life; s++) /* all but the newest are gone now and then */
                v[s] = s < life && (i + s) % 3 == 0 ? NAN : (double)(life * 1000 + s);
            append(r, t, T0 + (int64_t)(life * EACH + i) * S, v, life + 1);
        }
        if (life % 5 == 0) {
            history_close(r);
            r = open_ring(path, SMALL);
        }
        telemetry_free(t);
    }
    for (size_t s = 0; s < LIVES; s++) {
        struct answer a = ask(r, "app_value", s, T0, T0 + LIVES * EACH * S, 0);

        CHECK(a.series == 1 && a.count == EACH + (LIVES - 1 - s) * EACH * 2 / 3);
        for (size_t i = 0; i < a.count; i++) {
            size_t life = (size_t)((a.points[i].time_ns - T0) / S) / EACH;

            CHECK(a.points[i].last == (double)(life * 1000 + s));
        }
        free(a.points);
    }
    history_close(r);
    unlink(path);
}

TEST(more_series_than_the_dictionary_holds)
{
    const char *path = in_dir("churn");
    struct history *r = open_ring(path, SMALL);
    struct answer a;
    enum { LIVES = 60, EACH = 100 };

    for (size_t life = 0; life < LIVES; life++) { /* 6000 processes, one after the other */
        struct telemetry *t = telemetry_new(TELEMETRY_SERIES_MAX);
        const struct telemetry_metric *m = telemetry_foreign(t, "app_value", "", TELEMETRY_GAUGE);
        double v[EACH];

        for (size_t i = 0; i < EACH; i++) {
            char text[16];
            struct telemetry_label label = { "gpu", text };

            snprintf(text, sizeof(text), "%zu", life * EACH + i);
            CHECK(telemetry_series(t, 0, m, &label, 1) != TELEMETRY_NONE ||
                  telemetry_series(t, telemetry_source(t, "x"), m, &label, 1) != TELEMETRY_NONE);
            v[i] = (double)i;
        }
        for (int i = 0; i < 3; i++)
            append(r, t, T0 + (int64_t)life * 20 * HISTORY_MINUTE + i * S, v, EACH);
        telemetry_free(t);
    }
    CHECK(r->dict.forgotten > 0 && r->dict.count <= HISTORY_SERIES_MAX);
    history_close(r);
    r = open_ring(path, SMALL);
    a = ask(r, "app_value", LIVES * EACH - 1, T0, INT64_MAX / 4, 0);
    CHECK(a.count == 3 && a.points[0].last == EACH - 1);
    free(a.points);
    history_close(r);
    unlink(path);
}

/* ---- clocks */
TEST(clock_jumps)
{
    const char *path = in_dir("clock");
    struct telemetry *t = table_of(1, NULL);
    struct history *r = open_ring(path, SMALL);
    static const int64_t begins[] = { 0, 86400 * 365, 50, -3600, 86400 };
    enum { EACH = 100 };
    struct answer a;

    for (size_t k = 0; k < ARRAY_SIZE(begins); k++)
        for (int i = 0; i < EACH; i++)
            append(r, t, T0 + (begins[k] + i) * S, &(double){ (double)(k * 1000) + i }, 1);
    for (int again = 0; again < 2; again++) {
        a = ask(r, "app_value", 0, 0, INT64_MAX / 4, 0);
        CHECK(a.count == ARRAY_SIZE(begins) * EACH); /* both runs of 50..99 */
        free(a.points);
        a = ask(r, "app_value", 0, T0, T0 + 200 * S, 0);
        CHECK(a.count == 2 * EACH);
        free(a.points);
        a = ask(r, "app_value", 0, T0, T0 + 200 * S, 10 * S);
        CHECK(a.count == 15 && a.points[5].count == 20 && a.points[0].count == 10);
        CHECK(a.points[5].min == 50 && a.points[5].max == 2009);
        free(a.points);
        history_close(r);
        r = open_ring(path, SMALL);
    }
    history_close(r);
    telemetry_free(t);
    unlink(path);
}

/* ---- a table of rounded gauges and exact counters */
TEST(gauges_and_counters)
{
    const char *path = in_dir("kinds");
    struct telemetry *t = telemetry_new(0);
    unsigned source = telemetry_source(t, "gpu");
    struct telemetry_label label = { "gpu", "0" };
    const struct telemetry_metric *gauge = telemetry_metric("gpu.power"),
                                  *counter = telemetry_metric("gpu.energy");
    struct history *r = open_ring(path, SMALL);
    struct answer a;
    double v[2];

    assert_non_null(gauge);
    assert_non_null(counter);
    telemetry_series(t, source, gauge, &label, 1);
    telemetry_series(t, source, counter, &label, 1);
    for (int i = 0; i < 4000; i++) {
        v[0] = 700.123456789;
        v[1] = 1234567.891 + i * 0.7;
        append(r, t, T0 + i * S, v, 2);
    }
    a = ask(r, "gpu.power", 0, T0, T0 + 4000 * S, 0);
    CHECK(a.count == 4000 && a.points[0].last == 700.12 && a.points[3999].last == 700.12);
    free(a.points);
    a = ask(r, "gpu.energy", 0, T0, T0 + 4000 * S, 0);
    for (int i = 0; i < 4000; i++)
        CHECK(a.points[i].last == 1234567.891 + i * 0.7);
    free(a.points);
    a = ask(r, "gpu.energy", 0, T0, T0 + 3600 * S, HISTORY_MINUTE);
    CHECK(a.count == 60 && a.points[1].min == 1234567.891 + 60 * 0.7 &&
          a.points[1].last == 1234567.891 + 119 * 0.7 && a.points[1].mean > a.points[1].min &&
          a.points[1].mean < a.points[1].max);
    free(a.points);
    history_close(r);
    telemetry_free(t);
    unlink(path);
}

/* ---- faults of the disk */
TEST(power_cut_after_any_append)
{
    enum { APPENDS = 700 };
    const char *path = in_dir("cut");
    char copy[256];
    struct fake_disk d = { .writes_left = -1, .copy_to = copy, .bytes = SMALL };
    struct history_io io = fake_io(&d);
    struct history_opts o = { .path = path, .bytes = SMALL };
    struct telemetry *t = table_of(WIDE, NULL);
    struct history *r = NULL, *after;
    struct err err = { 0 };

    snprintf(copy, sizeof(copy), "%s/cut.copy", dir);
    CHECK(history_open_io(&o, &io, &r, &err) == RC_OK);
    for (size_t row = 0; row < APPENDS; row++) {
        append_wide(r, t, row);
        if (row < 20 || row % 23 == 0 || r->rows.rows <= 1) {
            int fd = open(copy, O_RDWR | O_CREAT | O_TRUNC, 0600);
            struct answer a;

            CHECK(write(fd, d.synced, SMALL) == SMALL);
            close(fd);
            after = open_ring(copy, SMALL);
            a = ask(after, "app_value", 17, T0, T0 + APPENDS * S, 0);
            CHECK(a.count == row + 1);
            for (size_t i = 0; i <= row; i++)
                CHECK(a.points[i].last == wide_value(i, 17));
            free(a.points);
            history_close(after);
        }
    }
    history_close(r);
    free(d.synced);
    telemetry_free(t);
    unlink(path);
    unlink(copy);
}

/* Every write after the k-th fails, the k+1st after its first half: what was acknowledged is
 * there after a start, and appends go on when the disk works again. */
TEST(writes_that_fail_or_tear)
{
    enum { APPENDS = 400 };
    const char *path = in_dir("fail");

    for (long k = 0; k < 60; k++) {
        struct fake_disk d = { .writes_left = -1 };
        struct history_io io = fake_io(&d);
        struct history_opts o = { .path = path, .bytes = SMALL };
        struct telemetry *t = table_of(WIDE, NULL);
        struct history *r = NULL;
        struct err err = { 0 };
        double v[WIDE];
        size_t good = 0;
        struct answer a;

        CHECK(history_open_io(&o, &io, &r, &err) == RC_OK);
        for (size_t row = 0; row < APPENDS; row++) {
            err = (struct err){ 0 };
            if (row == (size_t)k * 5 + 80) {
                d.writes_left = k % 4;
                d.tear = k % 2;
            }
            for (size_t s = 0; s < WIDE; s++)
                v[s] = wide_value(good, s);
            if (history_append(r, t, T0 + (int64_t)good * S, v, WIDE, &err) == RC_OK)
                good++;
            else if (row > (size_t)k * 5 + 90)
                d.writes_left = -1;
        }
        CHECK(good > 300 && good < APPENDS);
        for (int again = 0; again < 2; again++) {
            a = ask(r, "app_value", 3, T0, T0 + APPENDS * S, 0);
            CHECK(a.count == good);
            for (size_t i = 0; i < a.count; i++)
                CHECK(a.points[i].last == wide_value(i, 3));
            free(a.points);
            history_close(r);
            r = open_ring(path, SMALL);
        }
        history_close(r);
        telemetry_free(t);
        unlink(path);
    }
}

TEST(disk_full)
{
    const char *path = in_dir("full");
    struct fake_disk d = { .writes_left = -1, .fail_write = ENOSPC };
    struct history_io io = fake_io(&d);
    struct history_opts o = { .path = path, .bytes = SMALL };
    struct telemetry *t = table_of(1, NULL);
    struct history *r = NULL;
    struct err err = { 0 };
    struct answer a;

    CHECK(history_open_io(&o, &io, &r, &err) == RC_LIMIT && !r);
    CHECK(strstr(err.msg, "No space left") && err.hint[0]);
    CHECK(!file_exists(path) && !file_exists(in_dir("full.ring-new")));
    path = in_dir("full");
    d.fail_write = 0;
    err = (struct err){ 0 };
    CHECK(history_open_io(&o, &io, &r, &err) == RC_OK);
    append(r, t, T0, &(double){ 1 }, 1);
    d.fail_write = ENOSPC;
    CHECK(history_append(r, t, T0 + S, &(double){ 2 }, 1, &err) == RC_LIMIT);
    d.fail_write = 0;
    d.fail_sync = EIO;
    CHECK(history_append(r, t, T0 + 2 * S, &(double){ 3 }, 1, NULL) == RC_FAIL);
    d.fail_sync = 0;
    append(r, t, T0 + 3 * S, &(double){ 4 }, 1);
    a = ask(r, "app_value", 0, T0, T0 + 10 * S, 0);
    CHECK(a.count == 2 && a.points[0].last == 1 && a.points[1].last == 4);
    free(a.points);
    history_close(r);
    r = open_ring(path, SMALL);
    a = ask(r, "app_value", 0, T0, T0 + 10 * S, 0);
    CHECK(a.count == 2 && a.points[1].last == 4);
    free(a.points);
    history_close(r);
    telemetry_free(t);
    unlink(path);
}

/* ---- files that are not as they were left */
static void flip(const char *path, off_t at, unsigned bits)
{
    int fd = open(path, O_RDWR);
    char c;

    CHECK(pread(fd, &c, 1, at) == 1);
    c ^= (char)bits;
    CHECK(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

/* What comes back is true, and little is missing. */
static size_t check_true(struct history *r, size_t rows)
{
    struct answer a = ask(r, "app_value", 5, T0, T0 + (int64_t)rows * S, 0);
    size_t count = a.count;

    for (size_t i = 0; i < a.count; i++)
        if (a.points[i].count == 1)
            CHECK(a.points[i].last == wide_value((size_t)((a.points[i].time_ns - T0) / S), 5));
    free(a.points);
    return count;
}

TEST(flipped_bits_anywhere)
{
    enum { MANY = 600, LOST_MAX = 250 };
    const char *path = in_dir("flip");
    struct telemetry *t = table_of(WIDE, NULL);
    struct history *r = open_ring(path, SMALL);
    struct history_map map;
    size_t least = MANY;

    for (size_t row = 0; row < MANY; row++)
        append_wide(r, t, row);
    CHECK(check_true(r, MANY) == MANY);
    map = r->file.map;
    history_close(r);
    for (int i = 0; i < 250; i++) {
        uint64_t used = map.seconds.at + (2u << 20), at = rnd() % used;
        unsigned bits = 1u << rnd() % 8;
        size_t got;

        flip(path, (off_t)at, bits);
        r = open_ring(path, SMALL);
        got = check_true(r, MANY);
        least = got < least ? got : least;
        CHECK(got + LOST_MAX >= MANY);
        history_close(r);
        flip(path, (off_t)at, bits);
    }
    for (int i = 0; i < 30; i++) /* a damaged block is found by the query, and counted */
        flip(path, (off_t)(map.seconds.at + 8192 + rnd() % 100000), 255);
    r = open_ring(path, SMALL);
    for (size_t s = 0; s < WIDE; s++) {
        struct answer a = ask(r, "app_value", s, T0, T0 + MANY * S, 0);

        free(a.points);
    }
    struct history_stats st;
    history_stats(r, &st);
    CHECK(st.bad_blocks > 0);
    history_close(r);
    telemetry_free(t);
    unlink(path);
}

TEST(truncated)
{
    enum { MANY = 600 };
    const char *path = in_dir("short");
    AUTO(telemetry_free_at) struct telemetry *t = table_of(WIDE, NULL);

    for (int cut = 0; cut < 12; cut++) {
        struct history *r = open_ring(path, SMALL);
        struct stat st;
        off_t at;

        for (size_t row = 0; row < MANY; row++)
            append_wide(r, t, row);
        at = cut < 6 ? (off_t)(r->file.map.seconds.at + (uint64_t)cut * 200000)
                     : (off_t)(rnd() % SMALL);
        at = at > 40 ? at : 40;
        history_close(r);
        CHECK(!truncate(path, at));
        r = open_ring(path, SMALL);
        (void)check_true(r, MANY);
        for (size_t row = MANY; row < MANY + 100; row++)
            append_wide(r, t, row);
        history_close(r);
        r = open_ring(path, SMALL);
        struct answer a = ask(r, "app_value", 5, T0 + MANY * S, T0 + (MANY + 100) * S, 0);
        CHECK(a.count == 100);
        free(a.points);
        history_close(r);
        CHECK(!stat(path, &st) && st.st_size == SMALL);
        unlink(path);
    }
}

static void put_file(const char *path, const void *p, size_t n)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    CHECK(write(fd, p, n) == (ssize_t)n);
    close(fd);
}

TEST(no_ring)
{
    static const char text[] =
        "STKTELE1 something else that somebody wants to keep, longer than a head";
    const char *path = in_dir("none");
    struct history_opts o = { .path = path, .bytes = SMALL };
    struct history *r = NULL, *other = NULL;
    struct err err = { 0 };
    struct buf back = { 0 };

    put_file(path, text, sizeof(text));
    CHECK(history_open(&o, &r, &err) == RC_PARSE && !r && strstr(err.msg, "not a history"));
    CHECK(file_read(path, 1000, &back, NULL) == RC_OK && back.len == sizeof(text) &&
          !memcmp(back.data, text, sizeof(text)));
    buf_release(&back);
    put_file(path, "", 0); /* nothing to lose */
    CHECK(history_open(&o, &r, &err) == RC_OK);
    err = (struct err){ 0 };
    CHECK(history_open(&o, &other, &err) == RC_FAIL && strstr(err.msg, "in use"));
    history_close(r);
    flip(path, 20, 255); /* the first head */
    r = open_ring(path, SMALL);
    history_close(r);
    flip(path, 20, 255);
    flip(path, HISTORY_PAGE + 20, 255);
    err = (struct err){ 0 };
    CHECK(history_open(&o, &other, &err) == RC_PARSE && strstr(err.msg, "damaged"));
    unlink(path);
    o.path = dir;
    err = (struct err){ 0 };
    CHECK(history_open(&o, &other, &err) != RC_OK);
    o = (struct history_opts){ .path = path, .bytes = 1 << 20 };
    CHECK(history_open(&o, &other, NULL) == RC_USAGE && !file_exists(path));
}

TEST(another_version)
{
    const char *path = in_dir("version");
    struct history_opts o = { .path = path, .bytes = SMALL };
    struct history *r = open_ring(path, SMALL), *other = NULL;
    struct err err = { 0 };
    struct {
        char magic[8];
        uint32_t version, crc;
        uint64_t id, bytes;
        uint32_t minute_pct, page;
    } head;
    int fd;

    history_close(r);
    fd = open(path, O_RDWR);
    CHECK(pread(fd, &head, sizeof(head), 0) == sizeof(head));
    head.version = 7;
    head.crc = 0;
    head.crc = crc32c(0, &head, sizeof(head));
    CHECK(pwrite(fd, &head, sizeof(head), 0) == sizeof(head));
    close(fd);
    CHECK(history_open(&o, &other, &err) == RC_PARSE && strstr(err.msg, "version 7"));
    unlink(path);
}

TEST(another_size)
{
    enum { MANY = 5000 };
    static const uint64_t sizes[] = { 12 << 20, 32 << 20, 8 << 20 };
    const char *path = in_dir("size");
    AUTO(telemetry_free_at) struct telemetry *t = table_of(WIDE, NULL);
    struct history *r = open_ring(path, 10 << 20);
    struct telemetry_event e = { .time_ns = T0, .kind = TELEMETRY_EVENT_XID, .gpu = 3, .code = 79 };
    struct history_stats st;

    CHECK(history_append_event(r, &e, NULL) == RC_OK);
    for (size_t row = 0; row < MANY; row++)
        append_wide(r, t, row);
    history_close(r);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct answer a;

        r = open_ring(path, sizes[i]);
        history_stats(r, &st);
        CHECK(st.bytes == sizes[i] && !st.bad_blocks && r->event_seq == 1);
        CHECK(check_true(r, MANY) > 1000);
        a = ask(r, "app_value", 5, T0, T0 + MANY * S, HISTORY_MINUTE);
        CHECK(a.count == (MANY + 59) / 60 && a.points[0].count == 60);
        free(a.points);
        append_wide(r, t, MANY + i);
        history_close(r);
    }
    CHECK(!file_exists(in_dir("size.ring-new")));
    unlink(in_dir("size"));
}

/* ---- events */
static bool count_event(void *arg, const struct telemetry_event *e)
{
    int64_t *last = arg;

    CHECK(e->time_ns >= last[0] && e->kind == TELEMETRY_EVENT_XID && e->code == 79 && e->gpu == 2);
    CHECK(str_eq(e->text, "fallen off the bus"));
    last[0] = e->time_ns;
    last[1]++;
    return true;
}

TEST(events)
{
    const char *path = in_dir("events");
    struct history *r = open_ring(path, SMALL);
    struct telemetry_event e = {
        .kind = TELEMETRY_EVENT_XID, .gpu = 2, .code = 79, .text = "fallen off the bus"
    };
    uint64_t room = r->file.map.events.size / HISTORY_EVENT_SLOT;
    int64_t seen[2];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 50; i++) {
            e.time_ns = T0 + (int64_t)((i * 37) % 50 + round * 50) * S;
            CHECK(history_append_event(r, &e, NULL) == RC_OK);
        }
        history_close(r);
        r = open_ring(path, SMALL);
    }
    CHECK(room == 64);
    seen[0] = seen[1] = 0;
    CHECK(history_events(r, 0, INT64_MAX, count_event, seen, NULL) == RC_OK &&
          seen[1] == (int64_t)room);
    seen[0] = seen[1] = 0;
    CHECK(history_events(r, T0 + 60 * S, T0 + 70 * S, count_event, seen, NULL) == RC_OK &&
          seen[1] == 10);
    history_close(r);
    unlink(path);
}

TEST(the_default_is_the_specs)
{
    static const char text[] = "agent: {port: 8090}\n";
    struct err err = { 0 };
    struct spec *s = NULL;

    CHECK(spec_parse(text, strlen(text), "x.yaml", &s, NULL, &err) == RC_OK);
    CHECK((uint64_t)s->agent.history_bytes == HISTORY_BYTES_DEFAULT);
    spec_free(s);
}

TEST(limits)
{
    const char *path = in_dir("limits");
    struct history *r = open_ring(path, SMALL);
    struct telemetry *t = table_of(1, NULL);
    struct answer a = { 0 };
    struct history_query q = { .metric = "app_value", .from_ns = T0, .to_ns = T0 - 1 };
    struct err err = { 0 };

    CHECK(history_read(r, &q, take, &a, &err) == RC_USAGE);
    CHECK(history_append(r, t, INT64_MAX, &(double){ 1 }, 1, NULL) == RC_USAGE);
    for (int i = 0; i < HISTORY_POINTS_MAX + 10; i++)
        append(r, t, T0 + i * S / 10, &(double){ 1 }, 1);
    q.to_ns = INT64_MAX / 4;
    err = (struct err){ 0 };
    CHECK(history_read(r, &q, take, &a, &err) == RC_LIMIT && err.hint[0]);
    a = ask(r, "app_value", 0, T0, INT64_MAX / 4, S);
    CHECK(a.count == (HISTORY_POINTS_MAX + 10) / 10 && a.points[0].count == 10);
    free(a.points);
    a = ask(r, "app_other", 0, T0, INT64_MAX / 4, S);
    CHECK(!a.series);
    history_close(r);
    telemetry_free(t);
    unlink(path);
}

/* ---- queries while rows come in: what is read is true and whole up to a moment */
struct reading {
    struct history *r;
    _Atomic bool stop;
    _Atomic bool wrong; /* no cmocka here: it is for one thread */
    size_t rounds;
};

struct seen_rows {
    size_t rows;
    int64_t next;
    bool wrong;
};

static bool take_quietly(void *arg, const struct telemetry_series *s, const struct history_point *p,
                         size_t n)
{
    struct seen_rows *seen = arg;

    (void)s;
    for (size_t i = 0; i < n; i++) {
        size_t row = (size_t)((p[i].time_ns - T0) / S);

        seen->wrong = seen->wrong || (p[i].count == 1 && p[i].last != wide_value(row, 9)) ||
                      (i && p[i].time_ns <= p[i - 1].time_ns);
        seen->rows += p[i].count;
        seen->next = (int64_t)row + p[i].count;
    }
    return true;
}

static void *read_for_ever(void *arg)
{
    struct reading *d = arg;
    struct telemetry_label label = { "gpu", "9" };
    struct history_query q = {
        .metric = "app_value", .labels = &label, .label_count = 1, .to_ns = INT64_MAX / 4
    };

    while (!d->stop) {
        struct seen_rows seen = { 0 };
        struct history_stats st;

        if (history_read(d->r, &q, take_quietly, &seen, NULL) || seen.wrong)
            d->wrong = true;
        history_stats(d->r, &st);
        q.step_ns = d->rounds++ % 3 * HISTORY_MINUTE / 2;
        q.step_ns = q.step_ns == HISTORY_MINUTE / 2 ? 0 : q.step_ns;
    }
    return NULL;
}

TEST(queries_beside_appends)
{
    const char *path = in_dir("threads");
    struct telemetry *t = table_of(WIDE, NULL);
    struct reading d = { .r = open_ring(path, SMALL) };
    pthread_t thread;
    struct history_stats st;

    assert_int_equal(pthread_create(&thread, NULL, read_for_ever, &d), 0);
    for (size_t row = 0; row < 6000; row++)
        append_wide(d.r, t, row);
    d.stop = true;
    pthread_join(thread, NULL);
    history_stats(d.r, &st);
    CHECK(!d.wrong && !st.bad_blocks);
    history_close(d.r);
    telemetry_free(t);
    unlink(path);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    (void)state;
    file_remove_tree(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(columns),
                                        cmocka_unit_test(columns_of_whole_numbers),
                                        cmocka_unit_test(damaged_columns),
                                        cmocka_unit_test(rounding),
                                        cmocka_unit_test(round_trip),
                                        cmocka_unit_test(steps),
                                        cmocka_unit_test(wraps_and_keeps_minutes),
                                        cmocka_unit_test(series_come_and_go),
                                        cmocka_unit_test(more_series_than_the_dictionary_holds),
                                        cmocka_unit_test(clock_jumps),
                                        cmocka_unit_test(gauges_and_counters),
                                        cmocka_unit_test(power_cut_after_any_append),
                                        cmocka_unit_test(writes_that_fail_or_tear),
                                        cmocka_unit_test(disk_full),
                                        cmocka_unit_test(flipped_bits_anywhere),
                                        cmocka_unit_test(truncated),
                                        cmocka_unit_test(no_ring),
                                        cmocka_unit_test(another_version),
                                        cmocka_unit_test(another_size),
                                        cmocka_unit_test(the_default_is_the_specs),
                                        cmocka_unit_test(events),
                                        cmocka_unit_test(limits),
                                        cmocka_unit_test(queries_beside_appends) };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
