/* SPDX-License-Identifier: MIT */
/* A line of the log is one write: lines of processes that share a terminal or a pipe stay whole. */
#include "test.h"

#include "base/log.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* What log_warn() wrote, a packet a write; how many there were. */
static size_t packets(const char *text, char *first, size_t cap)
{
    int pair[2], own = dup(STDERR_FILENO);
    char more[64];
    size_t count = 0;
    ssize_t n;

    CHECK(own >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) == 0);
    CHECK(dup2(pair[1], STDERR_FILENO) == STDERR_FILENO);
    log_warn("%s", text);
    CHECK(dup2(own, STDERR_FILENO) == STDERR_FILENO);
    n = recv(pair[0], first, cap - 1, 0);
    for (first[n > 0 ? n : 0] = '\0'; n > 0; n = recv(pair[0], more, sizeof(more), 0))
        count++;
    close(own);
    close(pair[0]);
    close(pair[1]);
    return count;
}

TEST(a_line_is_one_write)
{
    char got[8 * LOG_LINE_MAX], longest[2 * LOG_LINE_MAX];

    CHECK(packets("a path\nof 'two' lines\x1b[2J \x7f é", got, sizeof(got)) == 1);
    CHECK(!strcmp(got, "stoker: warning: a path\\x0aof 'two' lines\\x1b[2J \\x7f é\n"));
    memset(longest, '\n', sizeof(longest) - 1); /* each of them four bytes */
    longest[sizeof(longest) - 1] = '\0';
    CHECK(packets(longest, got, sizeof(got)) == 1);
    CHECK(strlen(got) == strlen("stoker: warning: \n") + (size_t)4 * (LOG_LINE_MAX - 1));
    CHECK(packets("", got, sizeof(got)) == 1 && !strcmp(got, "stoker: warning: \n"));
}

TEST_MAIN(cmocka_unit_test(a_line_is_one_write))
