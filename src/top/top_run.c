/* SPDX-License-Identifier: MIT */
/* top_run: one screen as text, or a screen that follows until a key ends it. */
#include "top/top_int.h"

#include "agent/agent.h"
#include "base/str.h"
#include "os/clock.h"
#include "telemetry/collect/collect.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    TOP_COLS_DEFAULT = 80, /* of one screen as text */
    TOP_TURN_MS = 1000,    /* between two looks at the clock */
    TOP_ONCE_MS = 1000,    /* between the two seconds that rates need */
    TOP_FIRST_MS = 10000   /* for GPUs to answer at first */
};

struct top {
    const struct top_what *what;
    struct top_snap *snap;
    struct top_history history;
    struct top_view view;
    struct top_news news;
    int64_t got_ms; /* monotonic: when the snapshot came */
    char clock[16];
};

/* ---- one screen as text */

static void take_snap(struct top *t, struct top_snap *s)
{
    time_t seconds = (time_t)(s->time_ms / 1000);
    struct tm tm;

    top_snap_free(t->snap);
    t->snap = s;
    t->got_ms = clock_mono_ms();
    t->view.may_kill = t->what->local && !s->demo && !s->note[0];
    t->clock[0] = '\0';
    if (s->time_ms > 0 && localtime_r(&seconds, &tm))
        (void)strftime(t->clock, sizeof(t->clock), "%H:%M:%S", &tm);
}

static struct top_frame frame_of(struct top *t)
{
    return (struct top_frame){ .snap = t->snap,
                               .history = &t->history,
                               .view = &t->view,
                               .from = t->what->from,
                               .clock = t->clock,
                               .lost = t->news.lost ? t->news.why : NULL,
                               .age_s = (double)(clock_mono_ms() - t->got_ms) / 1000 };
}

/* Has an agent of our own not seen the driver, or the two seconds that its rates need; has one
 * that plays not shown what is due? */
static bool is_unripe(const struct top *t, const struct top_snap *s)
{
    const struct agent *a = t->what->source.agent;

    return !agent_ready(a) || (!s->gpu_count && !s->driver[0]) ||
           (t->what->local && agent_seconds(a) < 2);
}

/* Two seconds when there are rates to be had; our own agent is waited for a while at first. */
static enum rc ask_for_once(struct top *t, struct err *err)
{
    int64_t until = clock_mono_ms() + TOP_FIRST_MS;
    struct top_snap *s = NULL, *first;
    enum rc rc = top_ask_once(&t->what->source, NULL, &s, err);

    while (!rc && t->what->source.agent && is_unripe(t, s) && clock_mono_ms() < until) {
        top_snap_free(s);
        clock_sleep_ms(100);
        rc = top_ask_once(&t->what->source, NULL, &s, err);
    }
    if (rc)
        return rc;
    if (s->process_count) {
        first = s;
        clock_sleep_ms(TOP_ONCE_MS);
        rc = top_ask_once(&t->what->source, first, &s, err);
        top_snap_free(first);
    }
    if (!rc)
        take_snap(t, s);
    return rc;
}

/* The first snapshot may have come while it was looked who answers. */
static void begin_top(struct top *t, const struct top_what *what)
{
    *t = (struct top){ .what = what, .snap = what->first };
    top_view_init(&t->view);
}

static void end_top(struct top *t)
{
    top_snap_free(t->snap);
    top_history_release(&t->history);
}

enum rc top_print(const struct top_what *what, int width, struct buf *out, struct err *err)
{
    struct top t;
    struct top_frame f;
    struct grid g;
    enum rc rc;

    begin_top(&t, what);
    rc = ask_for_once(&t, err);
    if (!rc) {
        (void)setlocale(LC_CTYPE, "");
        f = frame_of(&t);
        f.plain = true;
        grid_init(&g, width ? width : TOP_COLS_DEFAULT, top_rows(&f),
                  str_eq(nl_langinfo(CODESET), "UTF-8"));
        top_draw(&g, &f);
        grid_print(&g, out);
        grid_release(&g);
        while (out->len > 1 && out->data[out->len - 2] == '\n') /* empty rows at the end */
            out->data[--out->len] = '\0';
    }
    end_top(&t);
    return rc;
}

/* ---- on a terminal */

/* A process that has the number now may be another one: only what has the same command is ended,
 * and the signal goes to what was looked at. */
static void end_process(struct top *t)
{
    struct top_view *v = &t->view;
    struct owner o = { 0 };
    struct err err = { 0 };
    struct root *root = NULL;
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)v->kill_pid, 0);
    bool same = fd >= 0 && !root_open(NULL, &root, &err) && owner_of(root, (int)v->kill_pid, &o);

    str_make_text(o.command);
    same = same && o.command[0] && str_eq(o.command, v->kill_command);
    if (fd < 0)
        (void)snprintf(v->note, sizeof(v->note), "process %lld is gone", (long long)v->kill_pid);
    else if (!same)
        (void)snprintf(v->note, sizeof(v->note), "process %lld is not what was shown here",
                       (long long)v->kill_pid);
    else if (syscall(SYS_pidfd_send_signal, fd, v->kill_signal, NULL, 0))
        (void)snprintf(v->note, sizeof(v->note), "could not end process %lld: %s",
                       (long long)v->kill_pid, strerror(errno));
    else
        (void)snprintf(v->note, sizeof(v->note), "signal %d went to process %lld", v->kill_signal,
                       (long long)v->kill_pid);
    if (root)
        root_close(root);
    if (fd >= 0)
        close(fd);
    v->kill_pid = 0;
}

static void show_frame(struct top *t, struct screen *screen)
{
    struct top_frame f = frame_of(t);
    struct grid g;
    int cols, rows;

    screen_size(screen, &cols, &rows);
    grid_init(&g, cols, rows, screen_utf8(screen));
    top_draw(&g, &f);
    screen_show(screen, &g);
    grid_release(&g);
}

static void take_news(struct top *t, struct top_source *source)
{
    top_source_take(source, &t->history, &t->news);
    if (t->news.snap && !t->view.paused)
        take_snap(t, t->news.snap);
    else
        top_snap_free(t->news.snap);
    t->news.snap = NULL;
}

static void run_loop(struct top *t, struct screen *screen, struct top_source *source)
{
    for (;;) {
        struct screen_event e;
        enum top_action act;

        show_frame(t, screen);
        e = screen_wait(screen, top_source_fd(source), TOP_TURN_MS);
        if (e.kind == SCREEN_END)
            return;
        act = e.kind == SCREEN_KEY ? top_key(&t->view, t->snap, e.key) : TOP_NONE;
        if (act == TOP_QUIT)
            return;
        if (act == TOP_KILL)
            end_process(t);
        take_news(t, source);
    }
}

enum rc top_run(const struct top_what *what, int signals, bool colour, struct err *err)
{
    struct top_source *source = NULL;
    struct screen *screen = NULL;
    struct top t;
    enum rc rc;

    begin_top(&t, what);
    rc = screen_open(signals, colour, &screen, err);
    if (!rc)
        rc = top_source_new(&what->source, &source, err);
    if (!rc)
        run_loop(&t, screen, source);
    screen_close(screen);
    top_source_free(source);
    end_top(&t);
    return rc;
}
