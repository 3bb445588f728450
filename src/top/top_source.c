/* SPDX-License-Identifier: MIT */
/* top_source: asks an agent once a period, in a thread of its own, so that a screen answers keys
 * however slow the network is.
 *
 * The next question comes a little after the agent's next second, by the agent's clock: each of
 * its seconds is then seen once.  When nothing answers, it goes on trying; what it remembers of
 * the time before (/api/v1/query) is asked each time a connection is new. */
#include "agent/agent.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/net/web.h"
#include "top/top_int.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    SOURCE_TIMEOUT_MS = 3000, /* for one answer */
    SOURCE_RETRY_MS = 1000,   /* between tries at first, then twice as long up to the next */
    SOURCE_RETRY_MS_MAX = 5000,
    SOURCE_AFTER_MS = 400,  /* behind the agent's second, which takes a while to be shown */
    SOURCE_START_MS = 5000, /* for an agent in this process to have its first second */
    SOURCE_STOP_MS = 500,   /* for the thread to end: a name that is being resolved may take long */
    SOURCE_LOOK_MS = 10,    /* between two looks at something that has no file to wait for */
    SOURCE_FILL = 900       /* samples asked of the agent's memory */
};
#define MS INT64_C(1000000)

/* ---- one question after the other */
struct asker {
    struct agent *agent;
    struct url url;
    const char *token;
    struct web *web; /* owned; keeps its connection */
    struct web_reply reply;
    const _Atomic bool *stop; /* NULL: never */
};

static bool is_stopped(void *arg)
{
    const struct asker *a = arg;

    return a->stop && atomic_load(a->stop);
}

static enum rc judge_status(int status, struct err *err)
{
    if (status == 401) {
        err_hint(err, "Give it with --token-file.");
        return err_set(err, RC_USAGE, "the agent asks for its token");
    }
    if (status == 404)
        return err_set(err, RC_PARSE, "what answers there is not a stoker agent");
    return status == 200 ? RC_OK : err_set(err, RC_FAIL, "the agent answered %d", status);
}

static enum rc ask_http(struct asker *a, const char *path, struct buf *out, struct err *err)
{
    struct web_request q = { .to = &a->url,
                             .path = path,
                             .accept = "application/json",
                             .token = a->token,
                             .timeout_ms = SOURCE_TIMEOUT_MS,
                             .body_max = TOP_BODY_MAX,
                             .stop = is_stopped,
                             .arg = a };
    enum rc rc = web_send(a->web, &q, &a->reply, err);

    if (!rc)
        rc = judge_status(a->reply.status, err);
    if (!rc)
        buf_add(out, buf_str(&a->reply.body), a->reply.body.len);
    return rc;
}

static void asker_release(struct asker *a)
{
    web_free(a->web);
    web_reply_release(&a->reply);
}

static enum rc ask_agent(struct asker *a, const char *path, struct buf *out, struct err *err)
{
    return a->agent ? agent_ask(a->agent, path, out, err) : ask_http(a, path, out, err);
}

/* The four documents of a second. */
static enum rc ask_second(struct asker *a, const struct top_snap *before, struct top_snap **out,
                          struct err *err)
{
    static const char *const paths[] = { "/api/v1/node", top_series_path, "/api/v1/processes",
                                         "/api/v1/alerts" };
    struct buf text[ARRAY_SIZE(paths)] = { { 0 } };
    enum rc rc = RC_OK;

    for (size_t i = 0; i < ARRAY_SIZE(paths) && !rc; i++)
        rc = ask_agent(a, paths[i], &text[i], err);
    if (!rc) {
        struct top_docs d = { buf_str(&text[0]), buf_str(&text[1]), buf_str(&text[2]),
                              buf_str(&text[3]), text[0].len,       text[1].len,
                              text[2].len,       text[3].len };
        rc = top_snap_read(&d, out, err);
    }
    if (!rc && before)
        top_snap_rates(*out, before);
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        buf_release(&text[i]);
    return rc;
}

static void asker_open(struct asker *a, const struct top_source_opts *o)
{
    *a = (struct asker){ .agent = o->agent, .token = o->token, .web = web_new(&o->trust) };
    if (o->url)
        a->url = *o->url;
}

enum rc top_ask_once(const struct top_source_opts *o, const struct top_snap *before,
                     struct top_snap **out, struct err *err)
{
    int64_t until = clock_mono_ms() + SOURCE_START_MS;
    struct asker a;
    enum rc rc;

    asker_open(&a, o);
    while (o->agent && !agent_ready(o->agent) && clock_mono_ms() < until)
        clock_sleep_ms(SOURCE_LOOK_MS);
    rc = ask_second(&a, before, out, err);
    asker_release(&a);
    return rc;
}

/* ---- the thread */
struct top_source {
    struct asker asker;
    pthread_t thread;
    _Atomic bool stop, ended; /* ended: the thread does nothing more */
    int wake_fd, news_fd;
    pthread_mutex_t lock;  /* what follows */
    struct top_snap *snap; /* owned: not taken yet; NULL: none */
    bool lost;
    char why[256];
    struct buf fill[TOP_LINES]; /* what the agent remembers, not taken yet */
    /* ---- the thread's */
    struct top_snap *before; /* owned: only counters of the last second */
    bool filled;             /* since the connection is new */
};

static void tell_waiter(int fd)
{
    (void)!write(fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

/* Only what rates need. */
static struct top_snap *counters_of(const struct top_snap *s)
{
    struct top_snap *c = xcalloc(1, sizeof(*c));

    *c = *s;
    c->alerts = NULL;
    c->gpus = xcalloc(s->gpu_count + 1, sizeof(*c->gpus));
    c->processes = xcalloc(s->process_count + 1, sizeof(*c->processes));
    memcpy(c->gpus, s->gpus, s->gpu_count * sizeof(*c->gpus));
    memcpy(c->processes, s->processes, s->process_count * sizeof(*c->processes));
    return c;
}

static void ask_history(struct top_source *s, int period_ms)
{
    struct buf got[TOP_LINES] = { { 0 } };
    struct err ignored = { 0 };
    char path[128];

    s->filled = true;
    if (period_ms % 1000)
        return; /* its steps are whole seconds */
    for (int l = 0; l < TOP_LINES; l++) {
        (void)snprintf(path, sizeof(path), "/api/v1/query?metric=%s&from=-%ds&step=%ds",
                       top_history_metric((enum top_line)l), SOURCE_FILL * (period_ms / 1000),
                       period_ms / 1000);
        if (ask_agent(&s->asker, path, &got[l], &ignored)) {
            buf_reset(&got[l]); /* an agent that keeps none */
            ignored = (struct err){ 0 };
        }
    }
    pthread_mutex_lock(&s->lock);
    for (int l = 0; l < TOP_LINES; l++) {
        buf_release(&s->fill[l]);
        s->fill[l] = got[l];
    }
    pthread_mutex_unlock(&s->lock);
}

/* Until the agent's clock is a little behind its next second. */
static int64_t next_wait_ms(const struct top_snap *s)
{
    int64_t after = SOURCE_AFTER_MS < s->period_ms / 2 ? SOURCE_AFTER_MS : s->period_ms / 2;

    return s->time_ms > 0 ? s->period_ms - (s->time_ms - after) % s->period_ms : s->period_ms;
}

static void put_lost(struct top_source *s, const struct err *err)
{
    pthread_mutex_lock(&s->lock);
    s->lost = true;
    (void)str_copy(s->why, sizeof(s->why), err->msg);
    pthread_mutex_unlock(&s->lock);
}

static int64_t one_second(struct top_source *s, int64_t *retry_ms)
{
    struct top_snap *snap = NULL;
    struct err err = { 0 };
    int64_t wait;

    if (ask_second(&s->asker, s->before, &snap, &err)) {
        put_lost(s, &err);
        s->filled = false;
        wait = *retry_ms;
        *retry_ms = 2 * wait < SOURCE_RETRY_MS_MAX ? 2 * wait : SOURCE_RETRY_MS_MAX;
        return wait;
    }
    *retry_ms = SOURCE_RETRY_MS;
    wait = next_wait_ms(snap);
    top_snap_free(s->before);
    s->before = counters_of(snap);
    if (!s->filled && snap->gpu_count)
        ask_history(s, snap->period_ms);
    pthread_mutex_lock(&s->lock);
    s->lost = false;
    top_snap_free(s->snap);
    s->snap = snap;
    pthread_mutex_unlock(&s->lock);
    return wait;
}

static void *run_source(void *arg)
{
    struct top_source *s = arg;
    int64_t retry = SOURCE_RETRY_MS, until = clock_mono_ms() + SOURCE_START_MS;

    s->asker.stop = &s->stop;
    while (s->asker.agent && !agent_ready(s->asker.agent) && !atomic_load(&s->stop) &&
           clock_mono_ms() < until)
        clock_sleep_ms(SOURCE_LOOK_MS);
    while (!atomic_load(&s->stop)) {
        struct pollfd p = { .fd = s->wake_fd, .events = POLLIN };
        int64_t wait = one_second(s, &retry);

        tell_waiter(s->news_fd);
        if (wait > 0)
            (void)poll(&p, 1, (int)wait);
    }
    atomic_store(&s->ended, true);
    return NULL;
}

enum rc top_source_new(const struct top_source_opts *o, struct top_source **out, struct err *err)
{
    struct top_source *s = xcalloc(1, sizeof(*s));
    sigset_t all, old;
    int e;

    asker_open(&s->asker, o);
    pthread_mutex_init(&s->lock, NULL);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = s->wake_fd < 0 || s->news_fd < 0 ? errno : pthread_create(&s->thread, NULL, run_source, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e) {
        errno = e;
        (void)err_sys(err, "could not start a thread");
        top_source_free(s);
        return err->code;
    }
    *out = s;
    return RC_OK;
}

void top_source_free(struct top_source *s)
{
    int64_t until = clock_mono_ms() + SOURCE_STOP_MS;

    if (!s)
        return;
    if (s->thread) {
        atomic_store(&s->stop, true);
        tell_waiter(s->wake_fd);
        while (!atomic_load(&s->ended) && clock_mono_ms() < until)
            clock_sleep_ms(SOURCE_LOOK_MS);
        if (!atomic_load(&s->ended))
            return; /* a name is being resolved: its memory stays until the program ends */
        (void)pthread_join(s->thread, NULL);
    }
    asker_release(&s->asker);
    top_snap_free(s->snap);
    top_snap_free(s->before);
    for (int l = 0; l < TOP_LINES; l++)
        buf_release(&s->fill[l]);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    if (s->news_fd >= 0)
        close(s->news_fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int top_source_fd(const struct top_source *s)
{
    return s->news_fd;
}

void top_source_take(struct top_source *s, struct top_history *h, struct top_news *out)
{
    struct buf fill[TOP_LINES];
    struct err ignored = { 0 };
    uint64_t drain;

    (void)!read(s->news_fd, &drain, sizeof(drain));
    *out = (struct top_news){ 0 };
    pthread_mutex_lock(&s->lock);
    out->snap = s->snap;
    s->snap = NULL;
    out->lost = s->lost;
    (void)str_copy(out->why, sizeof(out->why), s->why);
    memcpy(fill, s->fill, sizeof(fill));
    if (out->snap)
        memset(s->fill, 0, sizeof(s->fill));
    pthread_mutex_unlock(&s->lock);
    if (!out->snap)
        return;
    top_history_add(h, out->snap);
    for (int l = 0; l < TOP_LINES; l++) {
        if (fill[l].len) /* what is no history leaves the plot as it is */
            (void)!top_history_fill(h, (enum top_line)l, out->snap, buf_str(&fill[l]), fill[l].len,
                                    &ignored);
        ignored = (struct err){ 0 };
        buf_release(&fill[l]);
    }
}
