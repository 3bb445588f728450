/* SPDX-License-Identifier: MIT */
/* A history that was damaged: what is lost is counted, a head that cannot be read does not end the
 * agent, a file that is no history is left alone. */
#include "history/history_int.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

AUTO_OF(history_close, history);
AUTO_OF(telemetry_free, telemetry);

enum { SECONDS = 45, SERIES = 40, BYTES = 8 << 20 };
#define T0 (INT64_C(1790000000) * 1000000000)
#define S  INT64_C(1000000000)

static char dir[] = "/tmp/test_history_damage.XXXXXX";

static const char *in_dir(const char *name)
{
    static char path[4][512];
    static unsigned turn;

    snprintf(path[++turn % 4], sizeof(path[0]), "%s/%s", dir, name);
    return path[turn % 4];
}

static enum rc open_ring(const char *path, bool move, struct history **out, struct err *err)
{
    struct history_opts o = { .path = path, .bytes = BYTES, .no_sync = true, .move_damaged = move };

    return history_open(&o, out, err);
}

/* 45 s of 40 series, closed again. */
static void make_history(const char *path)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    unsigned source = telemetry_source(t, "test");
    struct telemetry_event e = { .kind = TELEMETRY_EVENT_XID, .gpu = 1, .code = 79 };
    double v[SERIES];
    char gpu[8];
    AUTO(history_close_at) struct history *r = NULL;

    unlink(path);
    CHECK(open_ring(path, false, &r, NULL) == RC_OK);
    for (int i = 0; i < SERIES; i++) {
        struct telemetry_label l = { "gpu", gpu };

        snprintf(gpu, sizeof(gpu), "%d", i);
        CHECK(telemetry_series(t, source, telemetry_metric("gpu.temp"), &l, 1) == (uint32_t)i);
    }
    for (int s = 0; s < SECONDS; s++) {
        for (int i = 0; i < SERIES; i++)
            v[i] = 40 + (s * 7 + i * 3) % 31;
        CHECK(history_append(r, t, T0 + s * S, v, SERIES, NULL) == RC_OK);
    }
    e.time_ns = T0;
    CHECK(history_append_event(r, &e, NULL) == RC_OK);
}

static bool count_points(void *arg, const struct telemetry_series *s, const struct history_point *p,
                         size_t n)
{
    (void)s;
    (void)p;
    *(size_t *)arg += n;
    return true;
}

/* Points that can be read, and what is counted as damaged. */
static size_t read_back(const char *path, struct history_stats *out)
{
    struct history_query q = { .metric = "gpu.temp", .from_ns = T0, .to_ns = T0 + 100 * S };
    struct history *r = NULL;
    size_t n = 0;

    CHECK(open_ring(path, false, &r, NULL) == RC_OK);
    CHECK(history_read(r, &q, count_points, &n, NULL) == RC_OK);
    history_stats(r, out);
    history_close(r);
    return n;
}

static void write_at(const char *path, off_t at, const void *p, size_t n)
{
    int fd = open(path, O_WRONLY);

    CHECK(fd >= 0 && pwrite(fd, p, n, at) == (ssize_t)n);
    close(fd);
}

static void flip_at(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    char c = 0;

    CHECK(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c = (char)(c ^ 0x10);
    CHECK(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

/* Wherever bits flip in what is not in a block yet: nothing is lost that is not counted. */
TEST(what_is_lost_is_counted)
{
    struct history_map m;
    struct history_stats st;
    unsigned seed = 7;

    history_map(BYTES, 25, &m);
    make_history(in_dir("a"));
    assert_int_equal(read_back(in_dir("a"), &st), SECONDS * SERIES);
    CHECK(st.bad_blocks == 0);
    for (int round = 0; round < 60; round++) {
        const struct history_area *areas[] = { &m.log[0], &m.dict[0], &m.events };
        const struct history_area *a = areas[round % 3];
        off_t span = round % 3 == 1 ? 2000 : round % 3 == 0 ? 12000 : 200;
        size_t got;

        make_history(in_dir("a"));
        for (int k = 0; k < 1 + round; k++) {
            off_t at = (off_t)a->at + rand_r(&seed) % span;

            flip_at(in_dir("a"), at);
            if (a == &m.dict[0]) /* its other copy too */
                flip_at(in_dir("a"), (off_t)m.dict[1].at + (at - (off_t)a->at));
        }
        got = read_back(in_dir("a"), &st);
        if (got < SECONDS * SERIES && !st.bad_blocks)
            fail_msg("round %d: %zu of %d points, and no damage", round, got, SECONDS * SERIES);
        if (a == &m.log[0] && st.bad_blocks > SECONDS + 5)
            fail_msg("round %d: %llu damaged of %d", round, (unsigned long long)st.bad_blocks,
                     SECONDS);
    }
}

TEST(two_hundred_flips_are_not_nothing)
{
    struct history_map m;
    struct history_stats st;
    unsigned seed = 3;

    history_map(BYTES, 25, &m);
    make_history(in_dir("b"));
    for (int i = 0; i < 200; i++)
        flip_at(in_dir("b"), (off_t)m.log[0].at + rand_r(&seed) % 9000);
    CHECK(read_back(in_dir("b"), &st) < SECONDS * SERIES);
    CHECK(st.bad_blocks >= 10);
}

TEST(a_cut_file_says_so)
{
    struct history_stats st;

    make_history(in_dir("c"));
    CHECK(truncate(in_dir("c"), BYTES / 2) == 0);
    assert_int_equal(read_back(in_dir("c"), &st), SECONDS * SERIES);
    CHECK(st.cut_bytes == BYTES / 2);
    (void)read_back(in_dir("c"), &st);
    CHECK(st.cut_bytes == 0); /* it is whole again */
}

static bool is_there(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0;
}

/* A file of another size that takes the place of one that was damaged and cut is whole: what the
 * first had lost is told and counted nevertheless. */
TEST(another_size_says_so_too)
{
    enum { CUT = 1 << 20, WIDER = 2 * BYTES };
    struct history_opts o = { .path = in_dir("wider"), .bytes = WIDER, .no_sync = true };
    struct history_stats same, st;
    struct history_map m;
    struct history *r = NULL;

    make_history(o.path);
    CHECK(open_ring(o.path, false, &r, NULL) == RC_OK);
    m = r->file.map;
    history_close(r);
    for (int i = 0; i < 40; i++)
        flip_at(o.path, (off_t)(m.log[0].at + 64 + (uint64_t)i * 97));
    CHECK(truncate(o.path, BYTES - CUT) == 0);
    (void)read_back(o.path, &same);
    CHECK(same.bad_blocks > 0 && same.cut_bytes == CUT && same.cut_of == BYTES);
    CHECK(truncate(o.path, BYTES - CUT) == 0);
    CHECK(history_open(&o, &r, NULL) == RC_OK);
    history_stats(r, &st);
    history_close(r);
    CHECK(st.bytes == WIDER && st.bad_blocks > 0);
    CHECK(st.cut_bytes == CUT && st.cut_of == BYTES);
    CHECK(history_open(&o, &r, NULL) == RC_OK);
    history_stats(r, &st);
    history_close(r);
    CHECK(!st.cut_bytes && !st.bad_blocks); /* once */
    unlink(o.path);
}

TEST(a_damaged_head_goes_aside)
{
    static const char zeros[2 * HISTORY_PAGE];
    struct err err = { 0 };
    struct history *r = NULL;

    for (int i = 0; i < 3; i++) { /* a flipped head, an overwritten one, a few bytes alone */
        make_history(in_dir("d"));
        if (i == 0) {
            flip_at(in_dir("d"), 20);
            flip_at(in_dir("d"), HISTORY_PAGE + 20);
        } else if (i == 1) {
            write_at(in_dir("d"), 0, zeros, sizeof(zeros));
        } else {
            CHECK(truncate(in_dir("d"), 20) == 0);
        }
        CHECK(open_ring(in_dir("d"), false, &r, &err) == RC_PARSE); /* who asks for it to stay */
        CHECK(open_ring(in_dir("d"), true, &r, &err) == RC_OK);
        assert_non_null(history_moved(r));
        assert_string_equal(history_moved(r), in_dir(i == 0   ? "d.damaged"
                                                     : i == 1 ? "d.damaged.1"
                                                              : "d.damaged.2"));
        CHECK(is_there(history_moved(r)) && is_there(in_dir("d")));
        history_close(r);
    }
    for (int i = 0; i < 4; i++) { /* no more than four of them */
        make_history(in_dir("d"));
        write_at(in_dir("d"), 0, zeros, sizeof(zeros));
        CHECK(open_ring(in_dir("d"), true, &r, &err) == RC_OK);
        history_close(r);
    }
    CHECK(is_there(in_dir("d.damaged.3")) && !is_there(in_dir("d.damaged.4")));
}

/* It is moved all the same, so where it went is told with why there is no new one. */
TEST(a_damaged_head_where_there_is_no_room)
{
    struct rlimit all, few = { .rlim_cur = 1 << 20 };
    struct err err = { 0 };
    AUTO(history_close_at) struct history *r = NULL;

    make_history(in_dir("n"));
    flip_at(in_dir("n"), 20);
    flip_at(in_dir("n"), HISTORY_PAGE + 20);
    CHECK(getrlimit(RLIMIT_FSIZE, &all) == 0);
    few.rlim_max = all.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &few) == 0);
    CHECK(open_ring(in_dir("n"), true, &r, &err) == RC_FAIL);
    CHECK(setrlimit(RLIMIT_FSIZE, &all) == 0);
    CHECK(strstr(err.msg, "could not ") && strstr(err.msg, "n.damaged' now"));
    CHECK(is_there(in_dir("n.damaged")) && !is_there(in_dir("n")));
    CHECK(open_ring(in_dir("n"), true, &r, &err) == RC_OK); /* as soon as there is */
}

/* What a power cut leaves of a new file, and what is written behind the end of one that was cut
 * under a running agent. */
TEST(zeros_go_aside)
{
    static const char *const moved[] = { "z.damaged", "z.damaged.1", "z.damaged.2" };
    struct err err = { 0 };
    struct history *r = NULL;
    struct history_map m;
    uint32_t record = HISTORY_RECORD_MAGIC;

    history_map(BYTES, 25, &m);
    for (int i = 0; i < 3; i++) {
        int fd = open(in_dir("z"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        static const char zeros[1 << 20];

        CHECK(fd >= 0);
        if (i == 0) /* none of them written */
            CHECK(ftruncate(fd, BYTES) == 0);
        else if (i == 1) /* fewer than a history has, all written */
            CHECK(write(fd, zeros, sizeof(zeros)) == (ssize_t)sizeof(zeros));
        else
            CHECK(pwrite(fd, &record, sizeof(record), (off_t)m.log[0].at + 8192) == 4);
        close(fd);
        CHECK(open_ring(in_dir("z"), false, &r, &err) == RC_PARSE);
        CHECK(open_ring(in_dir("z"), true, &r, &err) == RC_OK);
        assert_string_equal(history_moved(r), in_dir(moved[i]));
        history_close(r);
    }
}

static void check_here(const struct history *r, const char *words)
{
    struct err err = { 0 };

    CHECK(history_here(r, &err) == RC_FAIL && strstr(err.msg, words));
}

TEST(a_file_that_goes_under_us_is_noticed)
{
    AUTO(history_close_at) struct history *r = NULL;

    make_history(in_dir("f"));
    CHECK(open_ring(in_dir("f"), true, &r, NULL) == RC_OK);
    CHECK(history_here(r, NULL) == RC_OK);
    CHECK(truncate(in_dir("f"), BYTES / 2) == 0);
    check_here(r, "was cut to 4194304 of 8388608 bytes");
    CHECK(truncate(in_dir("f"), 0) == 0 && truncate(in_dir("f"), BYTES) == 0);
    check_here(r, "the head of history");
    CHECK(unlink(in_dir("f")) == 0);
    check_here(r, "was removed");
    CHECK(close(open(in_dir("f"), O_WRONLY | O_CREAT, 0600)) == 0);
    check_here(r, "another file is in the place");
}

TEST(what_is_no_history_stays)
{
    char text[] = "dear diary, this is no history of any machine\n";
    struct err err = { 0 };
    struct history *r = NULL;
    int fd = open(in_dir("e"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && write(fd, text, sizeof(text)) == (ssize_t)sizeof(text));
    CHECK(open_ring(in_dir("e"), true, &r, &err) == RC_PARSE);
    CHECK(ftruncate(fd, BYTES) == 0); /* of a history's size */
    CHECK(open_ring(in_dir("e"), true, &r, &err) == RC_PARSE);
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, text, sizeof(text), BYTES / 2) > 0); /* zeros first */
    CHECK(open_ring(in_dir("e"), true, &r, &err) == RC_PARSE);
    CHECK(is_there(in_dir("e")) && !is_there(in_dir("e.damaged")));
    close(fd);
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    DIR *d = opendir(dir);

    (void)state;
    for (struct dirent *e; d && (e = readdir(d));)
        unlink(in_dir(e->d_name)); /* the names of what goes aside are the ring's, not ours */
    if (d)
        closedir(d);
    return rmdir(dir);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_lost_is_counted),
        cmocka_unit_test(two_hundred_flips_are_not_nothing),
        cmocka_unit_test(a_cut_file_says_so),
        cmocka_unit_test(another_size_says_so_too),
        cmocka_unit_test(a_damaged_head_goes_aside),
        cmocka_unit_test(a_damaged_head_where_there_is_no_room),
        cmocka_unit_test(zeros_go_aside),
        cmocka_unit_test(a_file_that_goes_under_us_is_noticed),
        cmocka_unit_test(what_is_no_history_stays),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
