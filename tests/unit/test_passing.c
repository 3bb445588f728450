/* SPDX-License-Identifier: MIT */
/* A node whose processes come and go for weeks: 100,000 of them pass through a table, a history and
 * an agent.  Ids are given again, the budget holds, and no process has a value of another.  Every
 * process' value is its own number, so that one of another shows. */
#include "test.h"

#include "agent/agent.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "telemetry/record/stream.h"
#include "telemetry/telemetry_int.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

AUTO_OF(telemetry_free, telemetry);

enum {
    PROCESSES = 100000,
    A_SECOND = 25, /* new ones */
    LIVES_S = 2,
    BUDGET = 1024,
    SECONDS = PROCESSES / A_SECOND,
    PLAYED_S = 600 /* by the agent, which syncs each */
};
#define SECOND INT64_C(1000000000)
/* Of history: a day and a half.  Its dictionary makes room each ten minutes. */
#define STEP  (30 * SECOND)
#define BEGIN (INT64_C(1794744000) * SECOND)

static const struct telemetry_metric *memory;

static uint32_t process_series(struct telemetry *t, unsigned source, int pid)
{
    char text[16];
    struct telemetry_label l[] = { { "gpu", "0" }, { "pid", text } };

    snprintf(text, sizeof(text), "%d", pid);
    return telemetry_series(t, source, memory, l, 2);
}

/* Those that live in second `s` are s * A_SECOND - (LIVES_S - 1) * A_SECOND and on. */
static int first_of(int s)
{
    int first = (s - LIVES_S + 1) * A_SECOND;

    return first < 0 ? 0 : first;
}

static void second(struct telemetry *t, unsigned source, uint32_t fixed, int s)
{
    telemetry_begin(t, source, BEGIN + s * STEP);
    telemetry_set(t, fixed, 7);
    for (int pid = first_of(s); pid < (s + 1) * A_SECOND; pid++) {
        uint32_t id = process_series(t, source, pid + 1);

        CHECK(id != TELEMETRY_NONE);
        telemetry_set(t, id, pid + 1);
    }
    telemetry_end(t);
}

static double pid_of(const struct telemetry_series *s)
{
    for (size_t i = 0; i < s->label_count; i++)
        if (str_eq(s->labels[i].name, "pid"))
            return strtod(s->labels[i].value, NULL);
    return -1;
}

/* Every known value is that of the process whose labels it has; how many there are. */
static size_t check_values(struct telemetry *t, uint32_t fixed)
{
    size_t known = 0;

    for (uint32_t i = 0; i < telemetry_count(t); i++) {
        double v = telemetry_value(t, i);

        if (isnan(v) || i == fixed)
            continue;
        assert_true(pid_of(telemetry_get(t, i)) == v);
        known++;
    }
    CHECK(telemetry_value(t, fixed) == 7);
    return known;
}

TEST(a_table)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(BUDGET);
    unsigned source = telemetry_source(t, "gpu");
    uint32_t fixed = telemetry_series(t, source, telemetry_metric("gpu.temp"), NULL, 0);

    for (int s = 0; s < SECONDS; s++) {
        second(t, source, fixed, s);
        if (s % 97 == 0 || s == SECONDS - 1)
            CHECK(check_values(t, fixed) == (size_t)((s + 1) * A_SECOND - first_of(s)));
    }
    CHECK(telemetry_count(t) <= 1 + BUDGET / 4);
    CHECK(telemetry_refused(t) == 0);
    CHECK(telemetry_renewed(t) >= PROCESSES - BUDGET / 4);
    CHECK(telemetry_generation(t, fixed) == 0);
}

TEST(more_at_once_than_have_room)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(BUDGET);
    unsigned source = telemetry_source(t, "gpu");

    for (int s = 0; s < 3; s++) {
        telemetry_begin(t, source, BEGIN + s * STEP);
        for (int pid = 1; pid <= BUDGET; pid++)
            telemetry_set(t, process_series(t, source, pid), pid);
        telemetry_end(t);
    }
    CHECK(telemetry_count(t) == BUDGET / 4 && telemetry_renewed(t) == 0); /* none of them rests */
    CHECK(telemetry_refused(t) == BUDGET - BUDGET / 4);
    for (uint32_t i = 0; i < telemetry_count(t); i++)
        CHECK(pid_of(telemetry_get(t, i)) == telemetry_value(t, i));
}

/* `count` series of an application's metric, numbered from `from`; how many found room.  Each has
 * its number as value. */
static size_t app_batch(struct telemetry *t, const char *app, int64_t time_ns, int from, int count)
{
    const struct telemetry_metric *m = telemetry_foreign(t, "app_x", NULL, TELEMETRY_GAUGE);
    unsigned source = telemetry_source(t, app);
    size_t have = 0;

    telemetry_begin(t, source, time_ns);
    for (int i = from; i < from + count; i++) {
        char text[16];
        struct telemetry_label l = { "pid", text };
        uint32_t id;

        snprintf(text, sizeof(text), "%d", i);
        id = telemetry_series(t, source, m, &l, 1);
        telemetry_set(t, id, i);
        have += id != TELEMETRY_NONE;
    }
    telemetry_end(t);
    return have;
}

/* An application that comes back with other labels has room when the old ones have rested, and so
 * has another one when the first is gone.  Neither takes an id of a process. */
TEST(applications)
{
    enum { SHARE = BUDGET / 2, OWN = BUDGET / 8 };
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(BUDGET);
    unsigned gpu = telemetry_source(t, "gpu");
    int64_t now = BEGIN;
    size_t count;

    telemetry_begin(t, gpu, now);
    for (int pid = 1; pid <= OWN; pid++)
        telemetry_set(t, process_series(t, gpu, pid), pid);
    telemetry_end(t);
    CHECK(app_batch(t, "app:a", now += SECOND, 10000, BUDGET) == SHARE - OWN);
    count = telemetry_count(t);
    for (int i = 0; i < TELEMETRY_REST_BATCHES; i++)
        CHECK(app_batch(t, "app:a", now += SECOND, 20000, 100) == 0);
    CHECK(app_batch(t, "app:a", now += SECOND, 20000, 100) == 100);
    CHECK(app_batch(t, "app:b", now += SECOND, 30000, BUDGET) == SHARE - OWN - 100);
    CHECK(app_batch(t, "app:b", now += 200 * SECOND, 30000, BUDGET) == SHARE - OWN - 100);
    CHECK(app_batch(t, "app:b", now += 200 * SECOND, 30000, BUDGET) == SHARE - OWN); /* a is gone */
    CHECK(telemetry_count(t) == count);
    for (uint32_t i = 0; i < telemetry_count(t); i++)
        CHECK(pid_of(telemetry_get(t, i)) == telemetry_value(t, i));
}

/* ---- history */

struct found {
    size_t series, points;
    double pid; /* that was asked for; -1: any */
};

static bool take(void *arg, const struct telemetry_series *s, const struct history_point *p,
                 size_t n)
{
    struct found *f = arg;
    double pid = pid_of(s);

    assert_true(f->pid < 0 || pid == f->pid);
    for (size_t i = 0; i < n; i++)
        assert_true(p[i].min == pid && p[i].max == pid && p[i].last == pid);
    f->series++;
    f->points += n;
    return true;
}

static struct found look(struct history *r, int pid, int64_t step)
{
    char text[16];
    struct telemetry_label l = { "pid", text };
    struct history_query q = { .metric = "process.gpu.memory",
                               .labels = &l,
                               .label_count = 1,
                               .from_ns = BEGIN,
                               .to_ns = BEGIN + (SECONDS + 1) * STEP,
                               .step_ns = step };
    struct found f = { .pid = pid };
    struct err err = { 0 };

    snprintf(text, sizeof(text), "%d", pid);
    if (history_read(r, &q, take, &f, &err))
        fail_msg("%s", err.msg);
    return f;
}

static void check_history(struct history *r)
{
    for (int pid = PROCESSES; pid > PROCESSES - 400; pid -= 37) {
        struct found f = look(r, pid, 0);

        if (f.series != 1 || !f.points || f.points > LIVES_S)
            fail_msg("process %d: %zu series, %zu points", pid, f.series, f.points);
    }
    for (int pid = 1; pid < PROCESSES; pid += 7919) /* gone from the dictionary, or its own */
        CHECK(look(r, pid, 0).series <= 1 && look(r, pid, 60 * SECOND).series <= 1);
}

TEST(a_history)
{
    char path[] = "/tmp/stoker-passing-XXXXXX";
    struct history_opts o = { .path = path, .bytes = 64 << 20, .no_sync = true };
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(BUDGET);
    unsigned source = telemetry_source(t, "gpu");
    uint32_t fixed = telemetry_series(t, source, telemetry_metric("gpu.temp"), NULL, 0);
    double values[BUDGET];
    struct history *r = NULL;
    int fd = mkstemp(path);

    CHECK(fd >= 0 && close(fd) == 0 && unlink(path) == 0);
    assert_int_equal(history_open(&o, &r, NULL), RC_OK);
    for (int s = 0; s < SECONDS; s++) {
        struct err err = { 0 };

        second(t, source, fixed, s);
        if (history_append(r, t, BEGIN + s * STEP, values, telemetry_copy(t, values, BUDGET), &err))
            fail_msg("second %d: %s", s, err.msg);
    }
    check_history(r);
    history_close(r);
    assert_int_equal(history_open(&o, &r, NULL), RC_OK); /* the same after a start */
    check_history(r);
    history_close(r);
    CHECK(unlink(path) == 0);
}

/* ---- an agent that plays it, with readers */

static void write_recording(const char *path)
{
    AUTO(buf_release) struct buf out = { .max = 256 << 20 };
    struct stream_writer *w = stream_writer_new("{\"schema\":\"stoker.tele/1\"}", &out);
    struct telemetry *t = telemetry_new(TELEMETRY_SERIES_MAX);
    unsigned agent = telemetry_source(t, "agent");
    FILE *f = fopen(path, "we");

    for (int s = 0; s < PLAYED_S; s++) {
        uint32_t ids[LIVES_S * A_SECOND];
        double values[LIVES_S * A_SECOND];
        size_t n = 0;

        for (int pid = first_of(s); pid < (s + 1) * A_SECOND; pid++, n++) {
            char text[16];
            struct telemetry_label l[] = { { "gpu", "0" }, { "pid", text } };
            struct telemetry_series series = { .metric = memory, .labels = l, .label_count = 2 };

            ids[n] = (uint32_t)pid % TELEMETRY_SERIES_DEFAULT; /* told anew, as a recording does */
            values[n] = pid + 1;
            snprintf(text, sizeof(text), "%d", pid + 1);
            if (pid >= s * A_SECOND)
                stream_series(w, agent, ids[n], &series, "agent");
        }
        stream_batch(w, agent, BEGIN + s * SECOND, ids, values, n);
    }
    CHECK(!out.over && f && fwrite(out.data, 1, out.len, f) == out.len && fclose(f) == 0);
    stream_writer_free(w);
    telemetry_free(t);
}

/* Every line of a process has its own number as value; how many there are. */
static size_t check_text(const char *text)
{
    size_t n = 0;

    for (const char *at = text; (at = strstr(at, "\nstoker_process_gpu_memory_bytes{")); n++) {
        const char *pid = strstr(at + 1, "pid=\""), *value = strchr(at + 1, '}');

        assert_true(pid && value && pid < value);
        assert_true(strtod(pid + 5, NULL) == strtod(value + 1, NULL));
        at = value;
    }
    return n;
}

struct readers {
    struct agent *a;
    atomic_bool stop;
};

static void *reader(void *arg)
{
    struct readers *r = arg;
    struct buf b = { 0 };

    while (!atomic_load(&r->stop)) {
        buf_reset(&b);
        agent_metrics(r->a, &b);
        (void)check_text(buf_str(&b));
        buf_reset(&b);
        agent_values(r->a, &b);
    }
    buf_release(&b);
    return NULL;
}

TEST(an_agent)
{
    char path[] = "/tmp/stoker-passing-XXXXXX", ring[64];
    int fd = mkstemp(path);
    struct agent_opts o = { .port = -1,
                            .metrics_port = -1,
                            .replay = path,
                            .replay_speed = 0,
                            .ring_path = ring,
                            .ring_bytes = 64 << 20,
                            .series_max = BUDGET };
    struct history_opts ro = { .path = ring, .bytes = 64 << 20 };
    struct readers readers = { 0 };
    struct err err = { 0 };
    struct history *r = NULL;
    struct buf b = { 0 };
    pthread_t thread;

    CHECK(fd >= 0 && close(fd) == 0);
    snprintf(ring, sizeof(ring), "%s.ring", path);
    write_recording(path);
    if (agent_start(&o, &readers.a, &err))
        fail_msg("%s", err.msg);
    CHECK(pthread_create(&thread, NULL, reader, &readers) == 0);
    while (!agent_ended(readers.a))
        (void)usleep(20000);
    atomic_store(&readers.stop, true);
    CHECK(pthread_join(thread, NULL) == 0);
    agent_metrics(readers.a, &b);
    CHECK(check_text(buf_str(&b)) == LIVES_S * A_SECOND); /* of the last second, all */
    agent_stop(readers.a);
    assert_int_equal(history_open(&ro, &r, NULL), RC_OK);
    history_close(r);
    buf_release(&b);
    CHECK(unlink(path) == 0 && unlink(ring) == 0);
}

static int begin(void **state)
{
    (void)state;
    memory = telemetry_metric("process.gpu.memory");
    return !memory;
}

TEST_MAIN(cmocka_unit_test_setup(a_table, begin),
          cmocka_unit_test_setup(more_at_once_than_have_room, begin),
          cmocka_unit_test_setup(applications, begin), cmocka_unit_test_setup(a_history, begin),
          cmocka_unit_test_setup(an_agent, begin))
