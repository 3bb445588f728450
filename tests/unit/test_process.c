/* SPDX-License-Identifier: MIT */
/* process: a program is given its descriptors and nothing else, ends with its owner, is waited for
 * no longer than asked; where it sleeps is told; the backoff doubles and is forgotten. */
#include "test.h"

#include "os/clock.h"
#include "os/worker/fd_message.h"
#include "os/worker/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SOON_MS = 5000 };

static pid_t start_shell(const char *line, const int *fds, size_t count, int death_signal)
{
    char sh[] = "sh", option[] = "-c";
    char *argv[] = { sh, option, (char *)(uintptr_t)line, NULL };

    return process_start(&(struct process_opts){ .exe = "/bin/sh",
                                                 .argv = argv,
                                                 .fds = fds,
                                                 .fd_count = count,
                                                 .death_signal = death_signal });
}

/* All that comes until the other side is closed. */
static void read_all(int fd, char *out, size_t cap)
{
    size_t len = 0;
    ssize_t n;

    while (len + 1 < cap && (n = read(fd, out + len, cap - 1 - len)) > 0)
        len += (size_t)n;
    out[len] = '\0';
    close(fd);
}

/* fds[] may name each other's places: 0 and 1 are swapped here, and 2 is the pipe as well. */
TEST(descriptors_are_put_in_place_and_no_others_are_there)
{
    char text[256];
    int ends[2], extra = dup(STDERR_FILENO), status = -1;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const int fds[] = { -1, ends[1], ends[1], ends[1] };
    pid = start_shell("for f in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$f ] && "
                      "echo $f $(readlink /proc/$$/fd/$f | cut -c1-5); done; true",
                      fds, 4, 0);
    close(ends[1]);
    assert_true(pid > 0);
    read_all(ends[0], text, sizeof(text));
    assert_string_equal(text, "0 /dev/\n1 pipe:\n2 pipe:\n3 pipe:\n");
    assert_true(process_await(pid, SOON_MS, &status));
    assert_int_equal(status, 0);
    close(extra);
}

TEST(signals_are_free_and_the_group_is_its_own)
{
    char text[64], want[64];
    sigset_t all, before;
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    const int fds[] = { -1, ends[1], -1 };
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = start_shell("grep SigBlk /proc/self/status; cut -d' ' -f5 /proc/$$/stat", fds, 3, 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    read_all(ends[0], text, sizeof(text));
    snprintf(want, sizeof(want), "SigBlk:\t0000000000000000\n%d\n", (int)pid);
    assert_string_equal(text, want);
    assert_true(process_await(pid, SOON_MS, NULL));
}

TEST(what_cannot_start_says_so_by_its_status)
{
    char name[] = "none";
    char *argv[] = { name, NULL };
    const int fds[] = { -1, -1, -1 }, bad[] = { -1, 1000000 };
    int status = 0;
    pid_t pid = process_start(
        &(struct process_opts){ .exe = "/nowhere/none", .argv = argv, .fds = fds, .fd_count = 3 });

    assert_true(process_await(pid, SOON_MS, &status));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == PROCESS_NO_EXEC);
    pid = start_shell("exit 0", bad, 2, 0);
    assert_true(process_await(pid, SOON_MS, &status));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == PROCESS_NO_FDS);
}

TEST(one_that_goes_on_is_not_waited_for)
{
    const int fds[] = { -1, -1, -1 };
    struct process_sleep s;
    int64_t begun = clock_mono_ms();
    int status = 0;
    pid_t pid = start_shell("exec sleep 1000", fds, 3, 0);

    CHECK(!process_await(pid, 50, &status));
    CHECK(clock_mono_ms() - begun >= 50);
    while ((process_sleep(pid, &s), s.state != 'S') && clock_mono_ms() - begun < SOON_MS)
        usleep(1000);
    CHECK(s.state == 'S');
    CHECK(!strchr(s.syscall, '\n'));
    kill(pid, SIGKILL);
    assert_true(process_await(pid, SOON_MS, &status));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    process_sleep(pid, &s);
    CHECK(s.state == 0 && !s.wchan[0] && !s.syscall[0]);
    CHECK(process_await(pid, SOON_MS, NULL)); /* none of ours any more */
}

/* The owner is a process of its own here, killed while its child sleeps; the pipe tells the end. */
TEST(it_ends_with_its_owner)
{
    int ends[2];
    char byte;
    pid_t owner;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    owner = fork();
    if (owner == 0) {
        const int fds[] = { -1, ends[1], -1 };
        (void)start_shell("echo; exec sleep 1000", fds, 3, SIGKILL);
        for (;;)
            pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    kill(owner, SIGKILL);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
}

TEST(the_backoff_doubles_and_is_forgotten)
{
    static const struct {
        int64_t last, first, lived, want;
    } rows[] = {
        { 0, 500, 0, 500 },          { 500, 500, 10, 1000 },     { 1000, 500, 59999, 2000 },
        { 40000, 1000, 10, 60000 },  { 60000, 1000, 10, 60000 }, { 60000, 1000, 60000, 1000 },
        { 2000, 1000, 90000, 1000 }, { 0, 90000, 0, 60000 },
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(process_backoff_ms(rows[i].last, rows[i].first, rows[i].lived),
                         rows[i].want);
}

TEST(a_descriptor_travels_and_one_unasked_for_is_closed)
{
    int pair[2], fd = -1, highest;
    char text[8];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_true(fd_message_send(pair[0], "abc", 3, STDERR_FILENO));
    assert_int_equal(fd_message_receive(pair[1], text, sizeof(text), &fd), 3);
    CHECK(!memcmp(text, "abc", 3) && fd > STDERR_FILENO);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    assert_true(fd_message_send(pair[0], "abc", 3, -1));
    assert_int_equal(fd_message_receive(pair[1], text, sizeof(text), &fd), 3);
    assert_int_equal(fd, -1);
    highest = dup(STDERR_FILENO);
    close(highest);
    assert_true(fd_message_send(pair[0], "abc", 3, STDERR_FILENO));
    assert_int_equal(fd_message_receive(pair[1], text, sizeof(text), NULL), 3);
    assert_int_equal(fcntl(highest, F_GETFD), -1);
    assert_true(fd_message_send(pair[0], "too long a packet", 17, -1));
    assert_int_equal(fd_message_receive(pair[1], text, sizeof(text), NULL), 1);
    close(pair[0]);
    assert_int_equal(fd_message_receive(pair[1], text, sizeof(text), NULL), 0);
    close(pair[1]);
}

TEST_MAIN(cmocka_unit_test(descriptors_are_put_in_place_and_no_others_are_there),
          cmocka_unit_test(signals_are_free_and_the_group_is_its_own),
          cmocka_unit_test(what_cannot_start_says_so_by_its_status),
          cmocka_unit_test(one_that_goes_on_is_not_waited_for),
          cmocka_unit_test(it_ends_with_its_owner),
          cmocka_unit_test(the_backoff_doubles_and_is_forgotten),
          cmocka_unit_test(a_descriptor_travels_and_one_unasked_for_is_closed))
