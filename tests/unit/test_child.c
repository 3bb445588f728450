/* SPDX-License-Identifier: MIT */
/* child: a function that hangs, dies or never closes costs its stall time, no more. */
#include "test.h"

#include "os/clock.h"
#include "os/worker/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void well(struct child_link *l, void *arg)
{
    child_step(l, "step %s", (const char *)arg);
    child_send(l, "one\ntwo\n", 8);
}

static void hang(struct child_link *l, void *arg)
{
    (void)arg;
    child_send(l, "before\npart", 11);
    child_step(l, "sleepCall(%d)", 3);
    for (;;)
        pause();
}

static void crash(struct child_link *l, void *arg)
{
    (void)arg;
    child_step(l, "crashCall");
    child_send(l, "kept\nlost", 9);
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void slow(struct child_link *l, void *arg)
{
    (void)arg;
    for (int i = 0; i < 6; i++) {
        child_step(l, "slow %d", i);
        usleep(60000);
    }
    child_send(l, "done\n", 5);
}

TEST(answer_comes_back)
{
    struct child_report rep;
    struct buf out = { 0 };
    char name[] = "x";

    assert_int_equal(child_run(well, name, 1000, &out, &rep, NULL), RC_OK);
    CHECK(rep.finished && !rep.stalled);
    assert_string_equal(buf_str(&out), "one\ntwo\n");
    assert_string_equal(rep.step, "step x");
    buf_release(&out);
}

TEST(hang_is_named_and_gone)
{
    struct child_report rep;
    struct buf out = { 0 };
    int64_t start = clock_mono_ms();

    assert_int_equal(child_run(hang, NULL, 200, &out, &rep, NULL), RC_OK);
    CHECK(clock_mono_ms() - start < 1000);
    CHECK(rep.stalled && !rep.finished);
    assert_string_equal(rep.step, "sleepCall(3)");
    assert_string_equal(buf_str(&out), "before\n");
    CHECK(rep.sleep.state == 'S');
    assert_int_equal(kill(rep.pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    buf_release(&out);
}

TEST(crash_is_a_report)
{
    struct child_report rep;
    struct buf out = { 0 };

    assert_int_equal(child_run(crash, NULL, 1000, &out, &rep, NULL), RC_OK);
    CHECK(!rep.finished && !rep.stalled && rep.status != 0);
    assert_string_equal(rep.step, "crashCall");
    assert_string_equal(buf_str(&out), "kept\n");
    buf_release(&out);
}

TEST(steps_keep_a_slow_child_alive)
{
    struct child_report rep;
    struct buf out = { 0 };

    assert_int_equal(child_run(slow, NULL, 200, &out, &rep, NULL), RC_OK);
    CHECK(rep.finished);
    assert_string_equal(buf_str(&out), "done\n");
    buf_release(&out);
}

/* Which descriptors the child still has, as text. */
static void list_fds(struct child_link *l, void *arg)
{
    struct stat null, st;
    char line[64];

    (void)arg;
    stat("/dev/null", &null);
    for (int fd = 0; fd < 64; fd++) {
        int len;

        if (fstat(fd, &st))
            continue;
        len = snprintf(line, sizeof(line), "%d %s\n", fd,
                       st.st_rdev == null.st_rdev && S_ISCHR(st.st_mode) ? "null"
                       : S_ISFIFO(st.st_mode)                            ? "pipe"
                                                                         : "other");
        child_send(l, line, (size_t)len);
    }
}

TEST(child_holds_nothing_of_ours)
{
    struct child_report rep;
    struct buf out = { 0 };
    int extra = dup(STDERR_FILENO), pipes = 0;

    CHECK(extra > 2);
    assert_int_equal(child_run(list_fds, NULL, 1000, &out, &rep, NULL), RC_OK);
    CHECK(rep.finished);
    CHECK(strstr(buf_str(&out), "0 null\n1 null\n2 null\n") == buf_str(&out));
    for (const char *p = buf_str(&out); (p = strstr(p, "pipe")); p++)
        pipes++;
    assert_int_equal(pipes, 1); /* the one it answers through */
    assert_null(strstr(buf_str(&out), "other"));
    close(extra);
    buf_release(&out);
}

/* Started without the three, the pipe takes a place among them. */
TEST(answer_comes_back_without_stdio)
{
    struct child_report rep = { 0 };
    struct buf out = { 0 };
    int kept[3];
    char name[] = "x";
    enum rc rc;

    for (int fd = 0; fd < 3; fd++)
        kept[fd] = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    fflush(NULL);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    rc = child_run(well, name, 1000, &out, &rep, NULL);
    for (int fd = 0; fd < 3; fd++)
        if (kept[fd] >= 0) {
            dup2(kept[fd], fd);
            close(kept[fd]);
        }
    assert_int_equal(rc, RC_OK);
    CHECK(rep.finished);
    assert_string_equal(buf_str(&out), "one\ntwo\n");
    buf_release(&out);
}

TEST_MAIN(cmocka_unit_test(child_holds_nothing_of_ours),
          cmocka_unit_test(answer_comes_back_without_stdio), cmocka_unit_test(answer_comes_back),
          cmocka_unit_test(hang_is_named_and_gone), cmocka_unit_test(crash_is_a_report),
          cmocka_unit_test(steps_keep_a_slow_child_alive))
