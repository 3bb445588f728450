/* SPDX-License-Identifier: MIT */
/* stoker top: a node on a terminal.  Where the figures come from is chosen here: an agent that
 * runs, here or elsewhere, or one that is started inside this process for the time being. */
#include "cmd/agent/cmd_agent_int.h"

#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/net/url.h"
#include "top/top.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    TOP_COLS_DEFAULT = 80, /* of --once without COLUMNS */
    TOP_TURN_MS = 1000,    /* between two looks at the clock */
    TOP_ONCE_MS = 1000,    /* between the two seconds that rates need */
    TOP_FIRST_MS = 10000   /* for GPUs to answer at first */
};

struct top_args {
    const char *host, *token_file, *ca_file, *replay, *speed;
    bool no_verify, demo, sample, once;
};

struct top {
    struct agent_plan *plan; /* of our own agent; NULL: another's is asked */
    struct agent *agent;
    struct url url;
    char token[TOKEN_FILE_BYTES_MAX], from[URL_HOST_MAX + 32];
    bool local; /* the figures are this machine's */
    struct top_source_opts source;
    struct top_snap *snap;
    struct top_history history;
    struct top_view view;
    struct top_news news;
    int64_t got_ms; /* monotonic: when the snapshot came */
    char clock[16];
};

/* ---- where from */

/* "node7", "node7:9000", "http://node7": the agent's port unless another is given. */
static enum rc address(const char *text, struct url *out, struct err *err)
{
    const char *at = strstr(text, "://"), *end;
    enum rc rc = url_parse(text, out, err);

    at = at ? at + 3 : text;
    end = at + strcspn(at, "/");
    if (*at == '[')
        at = memchr(at, ']', (size_t)(end - at));
    if (!rc && !out->socket[0] && at && !memchr(at, ':', (size_t)(end - at)))
        (void)snprintf(out->port, sizeof(out->port), "%d", AGENT_PORT);
    return rc;
}

static void use_url(struct top *t, const char *token_file)
{
    char host[URL_AUTHORITY_MAX];

    t->source.url = &t->url;
    t->source.token = token_file ? t->token : NULL;
    (void)snprintf(t->from, sizeof(t->from), "agent %s",
                   t->url.socket[0] ? t->url.socket : url_authority(&t->url, host));
}

/* The agent of this machine, when one runs and lets us look. */
static bool try_local(struct top *t, const char *token_file)
{
    struct err why = { 0 };
    char text[32];

    (void)snprintf(text, sizeof(text), "127.0.0.1:%d", AGENT_PORT);
    if (url_parse(text, &t->url, &why))
        return false;
    use_url(t, token_file);
    if (top_ask_once(&t->source, NULL, &t->snap, &why) == RC_OK)
        return true;
    t->source = (struct top_source_opts){ 0 };
    (void)snprintf(t->from, sizeof(t->from), "sampled here%s",
                   why.code == RC_USAGE ? ": the agent asks for its token" : ", no agent answers");
    return false;
}

/* An agent in this process: no port, no history but a replay's own. */
static enum rc start_agent(struct cmd_ctx *ctx, struct top *t, struct err *err)
{
    const struct top_args *a = ctx->opts;
    struct agent_args args = { .port = "none",
                               .metrics_port = "none",
                               .no_history = true,
                               .quiet = true,
                               .demo = a->demo,
                               .replay = a->replay,
                               .speed = a->speed };
    struct cmd_ctx as_agent = *ctx;
    enum rc rc;

    as_agent.opts = &args;
    rc = agent_plan_make(&as_agent, NULL, &t->plan, err);
    if (rc)
        return rc;
    t->plan->o.ask = true;
    rc = agent_start(&t->plan->o, &t->agent, err);
    t->source.agent = t->agent;
    if (!t->from[0])
        (void)str_copy(t->from, sizeof(t->from), a->sample ? "sampled here" : "a recording");
    return rc;
}

static enum rc choose(struct cmd_ctx *ctx, struct top *t, struct err *err)
{
    const struct top_args *a = ctx->opts;
    enum rc rc = RC_OK;

    if ((a->host != NULL) + (a->replay != NULL) + a->demo + a->sample > 1)
        return err_set(err, RC_USAGE, "--host, --replay, --demo and --sample are alternatives");
    if (a->token_file)
        rc = token_file_read(a->token_file, t->token, sizeof(t->token), err);
    if (rc)
        return rc;
    if (a->host) {
        rc = address(a->host, &t->url, err);
        use_url(t, a->token_file);
        t->source.trust = (struct web_trust){ a->ca_file, a->no_verify };
        return rc;
    }
    t->local = !a->replay && !a->demo;
    if (t->local && !a->sample && try_local(t, a->token_file))
        return RC_OK;
    return start_agent(ctx, t, err);
}

static void release(struct top *t)
{
    agent_stop(t->agent);
    agent_plan_free(t->plan);
    top_snap_free(t->snap);
    top_history_release(&t->history);
}

/* ---- one screen as text */

static void wait_ms(int ms)
{
    struct timespec d = { ms / 1000, ms % 1000 * 1000000L };

    (void)nanosleep(&d, NULL);
}

static void take_snap(struct top *t, struct top_snap *s)
{
    time_t seconds = (time_t)(s->time_ms / 1000);
    struct tm tm;

    top_snap_free(t->snap);
    t->snap = s;
    t->got_ms = clock_mono_ms();
    t->view.may_kill = t->local && !s->demo && !s->note[0];
    t->clock[0] = '\0';
    if (s->time_ms > 0 && localtime_r(&seconds, &tm))
        (void)strftime(t->clock, sizeof(t->clock), "%H:%M:%S", &tm);
}

static struct top_frame frame_of(struct top *t)
{
    return (struct top_frame){ .snap = t->snap,
                               .history = &t->history,
                               .view = &t->view,
                               .from = t->from,
                               .clock = t->clock,
                               .lost = t->news.lost ? t->news.why : NULL,
                               .age_s = (double)(clock_mono_ms() - t->got_ms) / 1000 };
}

/* Has an agent of our own not seen the driver, or the two seconds that its rates need; has one
 * that plays not shown what is due? */
static bool unripe(const struct top *t, const struct top_snap *s)
{
    return !agent_ready(t->agent) || (!s->gpu_count && !s->driver[0]) ||
           (t->local && agent_seconds(t->agent) < 2);
}

/* Two seconds when there are rates to be had; our own agent is waited for a while at first. */
static enum rc ask_for_once(struct top *t, struct err *err)
{
    int64_t until = clock_mono_ms() + TOP_FIRST_MS;
    struct top_snap *s = NULL, *first;
    enum rc rc = top_ask_once(&t->source, NULL, &s, err);

    while (!rc && t->agent && unripe(t, s) && clock_mono_ms() < until) {
        top_snap_free(s);
        wait_ms(100);
        rc = top_ask_once(&t->source, NULL, &s, err);
    }
    if (rc)
        return rc;
    if (s->process_count) {
        first = s;
        wait_ms(TOP_ONCE_MS);
        rc = top_ask_once(&t->source, first, &s, err);
        top_snap_free(first);
    }
    if (!rc)
        take_snap(t, s);
    return rc;
}

static enum rc print_once(struct cmd_ctx *ctx, struct top *t, struct err *err)
{
    enum rc rc = ask_for_once(t, err);
    struct top_frame f;
    struct grid g;

    if (rc)
        return rc;
    (void)setlocale(LC_CTYPE, "");
    f = frame_of(t);
    f.plain = true;
    grid_init(&g, ctx->out_term.width ? ctx->out_term.width : TOP_COLS_DEFAULT, top_rows(&f),
              str_eq(nl_langinfo(CODESET), "UTF-8"));
    top_draw(&g, &f);
    grid_print(&g, &ctx->out);
    grid_release(&g);
    while (ctx->out.len > 1 && ctx->out.data[ctx->out.len - 2] == '\n') /* empty rows at the end */
        ctx->out.data[--ctx->out.len] = '\0';
    return RC_OK;
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

static void show(struct top *t, struct screen *screen)
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

static void loop(struct top *t, struct screen *screen, struct top_source *source)
{
    for (;;) {
        struct screen_event e;
        enum top_action act;

        show(t, screen);
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

static enum rc run_screen(struct cmd_ctx *ctx, struct top *t, int signals, struct err *err)
{
    struct top_source *source = NULL;
    struct screen *screen = NULL;
    enum rc rc = screen_open(signals, ctx->out_term.colour, &screen, err);

    if (rc)
        return rc;
    rc = top_source_new(&t->source, &source, err);
    if (!rc)
        loop(t, screen, source);
    screen_close(screen);
    top_source_free(source);
    return rc;
}

/* ---- the command */

static enum rc run_top(struct cmd_ctx *ctx, struct err *err)
{
    const struct top_args *a = ctx->opts;
    struct top t = { 0 };
    int signals = -1;
    enum rc rc = RC_OK;

    if (!a->once && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))) {
        err_hint(err, "Use --once to print one screen as text.");
        return err_set(err, RC_USAGE, "stdin and stdout are not a terminal");
    }
    log_level = LOG_QUIET; /* the screen says what matters */
    top_view_init(&t.view);
    if (!a->once)
        rc = screen_signals(&signals, err); /* before any thread */
    if (!rc)
        rc = choose(ctx, &t, err);
    if (!rc)
        rc = a->once ? print_once(ctx, &t, err) : run_screen(ctx, &t, signals, err);
    release(&t);
    if (signals >= 0)
        close(signals);
    return rc;
}

#define OPT_STRUCT struct top_args
static const struct opt opts_top[] = {
    OPT(0, "host", STR, host, "HOST[:PORT]", "an agent elsewhere (port: 8090)"),
    OPT(0, "token-file", STR, token_file, "FILE", "the bearer token that the agent asks for"),
    OPT(0, "ca-file", STR, ca_file, "FILE", "who signed its certificate, PEM (https)"),
    OPT(0, "no-verify", FLAG, no_verify, NULL, "do not check its certificate"),
    OPT(0, "sample", FLAG, sample, NULL, "measure here, even if an agent runs"),
    OPT(0, "replay", STR, replay, "FILE", "show a recording"),
    OPT(0, "speed", STR, speed, "N|max", "of a recording (default: 1)"),
    OPT(0, "demo", FLAG, demo, NULL, "show eight GPUs of a story instead of this machine"),
    OPT(0, "once", FLAG, once, NULL, "print one screen as text and end"),
    { 0 },
};

static const struct cmd_example examples[] = {
    { "stoker top", "this machine, from its agent if one runs" },
    { "stoker top --host node7 --token-file token", "another machine's agent" },
    { "stoker top --replay incident.rec", "a recording of 'stoker agent --record'" },
    { "stoker top --once | head -20", "one screen as text" },
    { 0 },
};

const struct cmd cmd_top = {
    .name = "top",
    .summary = "show GPUs and their processes on a terminal",
    .opts = opts_top,
    .opts_size = sizeof(struct top_args),
    .about =
        "Shows a card or a line a GPU: utilisation, memory, temperature, power, tensor activity, "
        "clocks, PCIe and NVLink rates, a fan where there is one, and why clocks are held back; "
        "plots of the last minutes; the processes on the GPUs with their users, jobs (Slurm, pod, "
        "container, unit) and use of the host; alerts that fire. An unknown value is '-'.\n"
        "\n"
        "The figures come from the agent that runs on this machine (127.0.0.1:8090) or, where none "
        "answers, from one inside this process that ends with it; --host asks an agent elsewhere. "
        "When the connection is lost the last picture stays, marked with its age, and it goes on "
        "trying.\n"
        "\n"
        "Keys: q quits, ? lists all keys, 0 to 9 choose a GPU, arrows select a process, < and > "
        "choose the column to sort by, k ends the selected process after a question (on this "
        "machine alone), g toggles plots, p pauses, a lists alerts. It works on 80x24 and follows "
        "the terminal's size, with and without colours (--colour never) and UTF-8.",
    .examples = examples,
    .run = run_top,
};
