/* SPDX-License-Identifier: MIT */
/* kill -9 at any moment: a child appends and says each row once it is acknowledged; it is killed,
 * and every row that was said is there, with its values, and the file is whole.
 *
 *   HISTORY_KILLS=60 HISTORY_KILL_MS=1000    how often, after how long; 30 after a few ms each */
#include "base/mem.h"
#include "history/history_int.h"
#include "os/file.h"
#include "telemetry/telemetry_int.h"
#include "test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SERIES = 1200, KILLS_DEFAULT = 30, KILLS_MAX = 3600, WAIT_MS_MAX = 60000 };
#define T0 INT64_C(1763194320000000000)
#define S  INT64_C(1000000000)

static char dir[] = "/tmp/test_history_kill.XXXXXX", path[64];

static double value_of(uint64_t row, size_t s)
{
    return (double)((row * 2654435761u + s * 97) % 100003) / 8;
}

static struct telemetry *make_table(void)
{
    struct telemetry *t = telemetry_new(0);
    const struct telemetry_metric *m = telemetry_foreign(t, "app_value", "", TELEMETRY_GAUGE);
    unsigned source = telemetry_source(t, "test");

    for (size_t i = 0; i < SERIES; i++) {
        char text[16];
        struct telemetry_label label = { "n", text };

        snprintf(text, sizeof(text), "%zu", i);
        (void)telemetry_series(t, source, m, &label, 1);
    }
    return t;
}

static void NORETURN append_for_ever(uint64_t row, int fd)
{
    struct history_opts o = { .path = path, .bytes = HISTORY_BYTES_MIN };
    struct telemetry *t = make_table();
    double v[SERIES];
    struct history *r;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (history_open(&o, &r, NULL))
        _exit(2);
    for (;; row++) {
        for (size_t s = 0; s < SERIES; s++)
            v[s] = value_of(row, s);
        if (history_append(r, t, T0 + (int64_t)row * S, v, SERIES, NULL))
            _exit(3);
        if (write(fd, &row, sizeof(row)) != sizeof(row))
            _exit(4);
    }
}

/* Rows that were said before the child was killed. */
static uint64_t run_and_kill(uint64_t row, unsigned wait_us)
{
    uint64_t said = row, one;
    int fds[2], status;
    pid_t child;

    CHECK(!pipe(fds));
    child = fork();
    CHECK(child >= 0);
    if (!child) {
        close(fds[0]);
        append_for_ever(row, fds[1]);
    }
    close(fds[1]);
    CHECK(read(fds[0], &one, sizeof(one)) == sizeof(one) && one == row); /* it runs */
    said = row + 1;
    usleep(wait_us);
    CHECK(!kill(child, SIGKILL));
    while (read(fds[0], &one, sizeof(one)) == sizeof(one))
        said = one + 1;
    close(fds[0]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return said;
}

struct count {
    uint64_t rows, next;
    size_t series;
};

/* Rows come once each, in order, true; minutes where seconds have gone. */
static bool take(void *arg, const struct telemetry_series *s, const struct history_point *p,
                 size_t n)
{
    size_t number = strtoul(s->labels[0].value, NULL, 10);
    struct count *c = arg;

    c->rows = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t row = (uint64_t)((p[i].time_ns - T0) / S);

        c->rows += p[i].count;
        /* the oldest may be what is left of a minute: its first part has gone */
        if (p[i].count == 1 && i)
            CHECK(p[i].last == value_of(row, number));
        c->next = row + p[i].count;
    }
    c->series++;
    return true;
}

/* Returns the first row that is not there. */
static uint64_t check_file(uint64_t said)
{
    struct history_opts o = { .path = path, .bytes = HISTORY_BYTES_MIN };
    struct history_query q = { .metric = "app_value", .to_ns = INT64_MAX / 4 };
    struct count c = { 0 };
    struct history_stats st;
    struct history *r = NULL;
    struct err err = { 0 };

    if (history_open(&o, &r, &err))
        fail_msg("%s", err.msg);
    CHECK(history_read(r, &q, take, &c, &err) == RC_OK && c.series == SERIES);
    CHECK(c.next == said || c.next == said + 1); /* one more may have been written, not said */
    history_stats(r, &st);
    CHECK(st.newest_ns == T0 + (int64_t)(c.next - 1) * S);
    if (!st.oldest_minute_ns)
        CHECK(c.rows == c.next);
    history_close(r);
    return c.next;
}

static unsigned long setting(const char *name, unsigned long normal, unsigned long max)
{
    const char *text = getenv(name);
    unsigned long v = text ? strtoul(text, NULL, 10) : normal;

    return v < max ? v : max;
}

TEST(nothing_acknowledged_is_lost)
{
    unsigned long kills = setting("HISTORY_KILLS", KILLS_DEFAULT, KILLS_MAX);
    unsigned long ms = setting("HISTORY_KILL_MS", 0, WAIT_MS_MAX);
    uint64_t row = 0;

    for (unsigned long i = 0; i < kills; i++) {
        unsigned wait = (unsigned)(ms * 1000) + (unsigned)((i * 7919) % 30000);

        row = check_file(run_and_kill(row, wait));
    }
    print_message("# %lu kills, %llu rows, none lost\n", kills, (unsigned long long)row);
}

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/ring", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    file_remove_tree(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_acknowledged_is_lost) };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
