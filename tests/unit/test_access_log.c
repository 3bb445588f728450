/* SPDX-License-Identifier: MIT */
/* The access log: lines, a full ring, rotation, a file that cannot be written, and many
 * threads at once. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "metrics/access_log.h"
#include "metrics/metrics_int.h"
#include "os/file.h"
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

AUTO_OF(metrics_free, metrics);

enum { LOG_BYTES_MAX = 64 << 20 };

static char dir[] = "/tmp/test_access_log.XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static struct access_record record_of(uint64_t id)
{
    struct access_record r = {
        .unix_ms = 1763194333123, .id = id, .method = "POST", .status = 200
    };

    access_text(r.peer, sizeof(r.peer), "127.0.0.1:53122");
    access_text(r.path, sizeof(r.path), "/v1/embeddings");
    access_text(r.model, sizeof(r.model), "minilm");
    r.items = 2;
    r.tokens = 17;
    r.bytes_in = 120;
    r.bytes_out = 6000;
    r.queue_ns = 1234567;
    r.run_ns = 2000000;
    r.total_ns = 3999999;
    return r;
}

static struct access *open_log(const char *path, size_t ring, struct metrics *m)
{
    struct access_opts o = { .path = path, .ring = ring, .metrics = m };
    struct access *a = NULL;
    struct err err = { 0 };

    assert_int_equal(access_open(&o, &a, &err), RC_OK);
    return a;
}

static uint64_t count_of(struct metrics *m, const char *name)
{
    return counter_value(
        metrics_counter(metrics_family(m, METRICS_COUNTER, name, "", NULL, NULL, 0)));
}

/* Waits up to 10 s for a thread that has no reason to be late. */
static void wait_for(struct metrics *m, const char *name, uint64_t want)
{
    for (int i = 0; i < 1000 && count_of(m, name) < want; i++)
        usleep(10000);
    assert_int_equal(count_of(m, name), want);
}

static char *read_log(const char *path)
{
    struct buf text = { 0 };
    struct err err = { 0 };

    buf_init(&text, LOG_BYTES_MAX);
    assert_int_equal(file_read(path, LOG_BYTES_MAX, &text, &err), RC_OK);
    return text.data ? buf_take(&text) : xstrdup("");
}

TEST(line)
{
    struct access_record r = record_of(7);
    AUTO(buf_release) struct buf out = { 0 };

    access_line(&r, &out);
    assert_string_equal(
        buf_str(&out),
        "{\"time\":\"2025-11-15T08:12:13.123Z\",\"id\":7,\"peer\":\"127.0.0.1:53122\","
        "\"method\":\"POST\",\"path\":\"/v1/embeddings\",\"status\":200,\"model\":\"minilm\","
        "\"items\":2,\"tokens\":17,\"bytes_in\":120,\"bytes_out\":6000,\"queue_ms\":1.235,"
        "\"run_ms\":2,\"total_ms\":4,\"error\":null,\"request_id\":null,\"traceparent\":null,"
        "\"gone\":false}\n");
    buf_reset(&out);
    r = (struct access_record){ .unix_ms = -1, .queue_ns = -1, .run_ns = -1, .total_ns = -1 };
    r.error = "overloaded";
    r.gone = true;
    access_line(&r, &out);
    assert_string_equal(
        buf_str(&out),
        "{\"time\":\"1969-12-31T23:59:59.999Z\",\"id\":0,\"peer\":null,"
        "\"method\":null,\"path\":\"\",\"status\":null,\"model\":null,"
        "\"items\":0,\"tokens\":0,\"bytes_in\":0,\"bytes_out\":0,\"queue_ms\":null,"
        "\"run_ms\":null,\"total_ms\":null,\"error\":\"overloaded\",\"request_id\":null,"
        "\"traceparent\":null,\"gone\":true}\n");
}

TEST(texts_from_outside_stay_on_their_line)
{
    struct access_record r = record_of(1);
    struct arena arena = { 0 };
    struct buf out = { 0 };
    struct err err = { 0 };
    struct json *v;
    char much[1000];

    access_text(r.path, sizeof(r.path), "/a\"\n\r\x01\\\xff\xe2\x80\xa8");
    memset(much, '\n', sizeof(much)); /* the worst to escape */
    much[sizeof(much) - 1] = '\0';
    access_text(r.model, sizeof(r.model), much);
    access_line(&r, &out);
    assert_ptr_equal(strchr(out.data, '\n'), out.data + out.len - 1);
    assert_int_equal(json_parse(&arena, out.data, out.len, &v, &err), RC_OK);
    assert_string_equal(json_str(json_get(v, "path")), "/a\"\n\r\x01\\\xef\xbf\xbd\xe2\x80\xa8");
    assert_int_equal(strlen(json_str(json_get(v, "model"))), ACCESS_NAME_MAX - 1);
    arena_release(&arena);
    buf_release(&out);
    /* cut between characters */
    access_text(much, 4, "a\xc3\xa9\xc3\xa9");
    assert_string_equal(much, "a\xc3\xa9");
    access_text(much, 3, "a\xc3\xa9");
    assert_string_equal(much, "a");
}

TEST(written_in_order_and_appended)
{
    struct access *a;
    char *text, want[64];
    const char *p;

    for (int part = 0; part < 2; part++) {
        a = open_log(in_dir("order"), 0, NULL);
        for (uint64_t i = 0; i < 500; i++) {
            struct access_record r = record_of((uint64_t)part * 500 + i);

            assert_true(access_put(a, &r));
        }
        access_close(a); /* writes what waits */
    }
    p = text = read_log(in_dir("order"));
    for (int i = 0; i < 1000; i++) {
        snprintf(want, sizeof(want), "\"id\":%d,", i);
        assert_true(strncmp(strstr(p, "\"id\":"), want, strlen(want)) == 0);
        p = strchr(p, '\n') + 1;
    }
    assert_string_equal(p, "");
    free(text);
    assert_true(access_put(NULL, NULL)); /* no log */
    access_close(NULL);
}

/* A pipe that nobody reads stops the log's thread, not its producers. */
TEST(full_ring_drops_and_counts)
{
    AUTO(metrics_free_at) struct metrics *m = metrics_new();
    struct access *a;
    uint64_t kept = 0, dropped = 0, lines = 0;
    char path[64], chunk[4096];
    int fds[2];
    ssize_t n;

    assert_int_equal(pipe(fds), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[1]);
    a = open_log(path, 8, m);
    for (uint64_t i = 0; i < 20000; i++) {
        struct access_record r = record_of(i);

        if (access_put(a, &r))
            kept++;
        else
            dropped++;
    }
    assert_true(dropped > 0);
    assert_int_equal(count_of(m, "stoker_access_log_dropped_total"), dropped);
    close(fds[1]);
    while (lines < kept) {
        n = read(fds[0], chunk, sizeof(chunk));
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++)
            lines += chunk[i] == '\n';
    }
    assert_int_equal(lines, kept);
    access_close(a);
    close(fds[0]);
}

TEST(rotation)
{
    struct metrics *m = metrics_new();
    struct access *a = open_log(in_dir("rotated"), 0, m);
    struct access_record r = record_of(1);
    char old[256];
    char *text;

    assert_true(access_put(a, &r));
    wait_for(m, "stoker_access_log_written_total", 1);
    str_copy(old, sizeof(old), in_dir("rotated.1"));
    assert_int_equal(rename(in_dir("rotated"), old), 0);
    r.id = 2;
    access_put(a, &r); /* before the call: to the old file */
    access_reopen(a);
    wait_for(m, "stoker_access_log_reopened_total", 1);
    r.id = 3;
    access_put(a, &r);
    access_close(a);
    text = read_log(in_dir("rotated.1"));
    assert_non_null(strstr(text, "\"id\":1,"));
    assert_non_null(strstr(text, "\"id\":2,"));
    assert_null(strstr(text, "\"id\":3,"));
    free(text);
    text = read_log(in_dir("rotated"));
    assert_non_null(strstr(text, "\"id\":3,"));
    free(text);
    metrics_free(m);
}

TEST(a_name_that_went_away_keeps_the_old_file)
{
    struct metrics *m = metrics_new();
    struct access_record r = record_of(1);
    char sub[256], moved[256];
    struct err err = { 0 };
    struct access *a;
    char *text;

    str_copy(sub, sizeof(sub), in_dir("sub"));
    str_copy(moved, sizeof(moved), in_dir("moved"));
    assert_int_equal(file_make_dirs(sub, &err), RC_OK);
    a = open_log(in_dir("sub/log"), 0, m);
    assert_int_equal(rename(sub, moved), 0);
    access_reopen(a);
    wait_for(m, "stoker_access_log_reopen_failed_total", 1);
    access_put(a, &r);
    access_close(a);
    text = read_log(in_dir("moved/log"));
    assert_non_null(strstr(text, "\"id\":1,"));
    free(text);
    metrics_free(m);
}

struct troubles { /* the log's thread alone writes it; read when that has ended */
    int began, ended;
    uint64_t lost;
    char why[64];
};

static void on_trouble(void *arg, const char *path, const char *why, uint64_t lost)
{
    struct troubles *t = arg;

    assert_non_null(path);
    t->began += why != NULL;
    t->ended += why == NULL;
    t->lost += lost;
    if (why)
        snprintf(t->why, sizeof(t->why), "%s", why);
}

TEST(a_full_disk_is_told_once)
{
    struct troubles t = { 0 };
    AUTO(metrics_free_at) struct metrics *m = metrics_new();
    struct access_opts o = {
        .path = in_dir("full"), .metrics = m, .on_trouble = on_trouble, .arg = &t
    };
    struct access_record r = record_of(1);
    struct access *a = NULL;

    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(symlink("/dev/full", o.path), 0);
        assert_int_equal(access_open(&o, &a, NULL), RC_OK);
        for (uint64_t i = 1; i <= 3; i++) {
            access_put(a, &r);
            wait_for(m, "stoker_access_log_lost_total", i);
        }
        assert_int_equal(unlink(in_dir("full")), 0); /* room again */
        access_reopen(a);
        wait_for(m, "stoker_access_log_reopened_total", 1);
        access_put(a, &r);
        access_close(a);
        assert_int_equal(t.began, 1);
        assert_string_equal(t.why, strerror(ENOSPC));
        assert_int_equal(t.ended, 1);
        assert_int_equal(t.lost, 3);
        assert_int_equal(count_of(m, "stoker_access_log_written_total"), 1);
    }
}

TEST(faults)
{
    struct access_opts o = { .path = "/nowhere/at/all" };
    AUTO(metrics_free_at) struct metrics *m = metrics_new();
    struct access_record r = record_of(1);
    struct access *a = NULL;
    struct err err = { 0 };

    assert_int_equal(access_open(&o, &a, &err), RC_NODEV);
    assert_non_null(strstr(err.msg, "'/nowhere/at/all'"));
    assert_null(a);
    if (access("/dev/full", W_OK) == 0) { /* a disk without room */
        a = open_log("/dev/full", 0, m);
        access_put(a, &r);
        wait_for(m, "stoker_access_log_lost_total", 1);
        access_put(a, &r);
        access_close(a);
        assert_int_equal(count_of(m, "stoker_access_log_lost_total"), 2);
    }
}

enum { PRODUCERS = 8, EACH = 4000 };

static void *produce(void *arg)
{
    struct access *a = arg;

    for (uint64_t i = 0; i < EACH; i++) {
        struct access_record r = record_of(i);

        access_put(a, &r);
        if (i % 1000 == 0)
            access_reopen(a);
    }
    return NULL;
}

TEST(many_threads)
{
    struct metrics *m = metrics_new();
    struct access *a = open_log(in_dir("many"), 256, m);
    pthread_t threads[PRODUCERS];
    uint64_t lines = 0, counted;
    char *text;

    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, produce, a), 0);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(threads[i], NULL);
    access_close(a);
    text = read_log(in_dir("many"));
    for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
        assert_true(str_starts(p, "{\"time\":\"2025-11-15T08:12:13.123Z\",\"id\":"));
        lines++;
    }
    counted = count_of(m, "stoker_access_log_written_total");
    assert_int_equal(lines, counted);
    assert_int_equal(counted + count_of(m, "stoker_access_log_dropped_total"), PRODUCERS * EACH);
    free(text);
    metrics_free(m);
}

static int make_dir(void **state __attribute__((unused)))
{
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state __attribute__((unused)))
{
    file_remove_tree(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line),
        cmocka_unit_test(texts_from_outside_stay_on_their_line),
        cmocka_unit_test(written_in_order_and_appended),
        cmocka_unit_test(full_ring_drops_and_counts),
        cmocka_unit_test(a_full_disk_is_told_once),
        cmocka_unit_test(rotation),
        cmocka_unit_test(a_name_that_went_away_keeps_the_old_file),
        cmocka_unit_test(faults),
        cmocka_unit_test(many_threads),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
