/* SPDX-License-Identifier: MIT */
/* worker_watch: the thread that starts workers, hears them, watches their hearts and reaps them.
 *
 *   no process, and models or somebody who asks   it is started, when its backoff is over
 *   it says hello                                 models that it had are loaded again
 *   its socket closes                             lost: as soon as its status is known
 *   no hello, no reply, no beat in time           lost
 *   lost                                          killed; reaped when it goes, whenever that is
 *
 * It waits for nothing but events: one turn takes what is there. */
#include "engine/worker/worker_int.h"

#include "base/str.h"
#include "os/clock.h"
#include "os/worker/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WATCH_CLOSED_MS = 300,  /* for the status of one whose socket closed */
    WATCH_SOON_MS = 1,      /* between looks for it */
    WATCH_PACKETS_MAX = 64, /* heard in one turn */
    WATCH_BEATS = 8 /* that may fail on a machine that is busy, however short the deadline */
};

/* ---- starting */

static void start_worker(struct device_worker *w, int64_t now_ms)
{
    struct err err = { 0 };

    if (w->gone_count == WORKER_GONE_MAX)
        (void)err_set(&err, RC_NODEV, "%d workers of device '%s' were killed and have not gone",
                      WORKER_GONE_MAX, w->device);
    else if (link_start(w, &err) == RC_OK)
        return;
    w->why = err;
    w->failures++;
    w->asked = false;
    w->start_ms = now_ms + PROCESS_BACKOFF_MS_MAX;
    pthread_cond_broadcast(&w->all->changed);
}

static void greet_worker(struct device_worker *w, struct link *l, const struct msg_response *a,
                         int64_t now_ms)
{
    struct plugin_kind *k = w->kind;
    size_t before = 0;

    if (!k->known) {
        k->known = true;
        k->about.score = a->score;
        k->about.count = a->count;
        (void)str_copy(k->text, sizeof(k->text), a->device_kind);
    }
    l->up = true;
    w->asked = false;
    if (w->models)
        workers_say(w->all, "the worker of device '%s' is started again (process %d)", w->device,
                    (int)l->pid);
    for (struct proxy *p = w->models; p; p = p->next)
        proxy_reload(p, now_ms, before++);
    pthread_cond_broadcast(&w->all->changed);
}

/* It found no device: the reason is its own, and of use to who asked. */
static void start_refused(struct device_worker *w, struct link *l, const struct msg_response *a)
{
    struct err why = { 0 };

    (void)msg_response_rc(a, &why);
    link_lost(w, l, "has no device: %s", why.msg);
    w->why = why;
}

/* ---- hearing */

static void take_reply(struct device_worker *w, const struct msg_response *a, int64_t now_ms)
{
    for (struct pending_call *c = w->calls; c; c = c->next)
        if (c->number == a->number && !c->done) {
            *c->response = *a;
            c->done = true;
            pthread_cond_broadcast(&w->all->changed);
            return;
        }
    for (struct proxy *p = w->models; p; p = p->next)
        if (p->reload && p->reload == a->number) {
            proxy_reloaded(p, a, now_ms);
            return;
        }
}

static void hear_link(struct device_worker *w, struct link *l, int64_t now_ms)
{
    struct msg_response raw, a;

    for (size_t i = 0; i < WATCH_PACKETS_MAX && !atomic_load(&l->lost); i++) {
        ssize_t n = fd_message_receive(l->sock, &raw, sizeof(raw), NULL);

        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return;
        if (n <= 0) {
            l->closed_ms = l->closed_ms ? l->closed_ms : now_ms;
            return;
        }
        if (!msg_response_read(&raw, (size_t)n, &a) || (a.kind == MSG_HELLO) == l->up)
            link_lost(w, l, "sends what nobody understands");
        else if (a.kind == MSG_REPLY)
            take_reply(w, &a, now_ms);
        else if (a.rc != RC_OK)
            start_refused(w, l, &a);
        else
            greet_worker(w, l, &a, now_ms);
    }
}

/* ---- watching */

static void link_died(struct device_worker *w, struct link *l, int64_t now_ms)
{
    int status = 0;
    pid_t got = waitpid(l->pid, &status, WNOHANG);

    if (got == 0 && now_ms - l->closed_ms < WATCH_CLOSED_MS)
        return;
    link_listen(w, l); /* its last words */
    l->reaped = got != 0;
    if (got == 0)
        link_lost(w, l, "closed its connection in %s", link_call(l));
    else if (got > 0 && WIFSIGNALED(status))
        link_lost(w, l, "died of signal %d (%s) in %s", WTERMSIG(status),
                  strsignal(WTERMSIG(status)), link_call(l));
    else
        link_lost(w, l, "ended with status %d in %s", WEXITSTATUS(status), link_call(l));
}

static void link_silent(struct device_worker *w, struct link *l, int64_t ms)
{
    char where[128];

    link_state(l, where, sizeof(where));
    link_lost(w, l, "did not answer for %.1f s in %s%s", (double)ms / 1000, link_call(l), where);
}

/* Batches on their way have their own deadline, which whoever waits for them keeps. */
static void feel_heart(struct device_worker *w, struct link *l, int64_t now_ms)
{
    const struct workers_opts *o = &w->all->o;
    uint64_t beats = wring_beats(&l->ring);
    int64_t most = WATCH_BEATS * WORKER_BEAT_MS;

    most = o->batch_ms > most ? o->batch_ms : most;
    if (beats != l->beats || atomic_load(&l->late_ns) / 1000000 > now_ms)
        l->sign_ms = beats != l->beats ? now_ms : l->sign_ms;
    else if (l->up && now_ms - l->sign_ms > most)
        link_silent(w, l, now_ms - l->sign_ms);
    l->beats = beats;
    if (!atomic_load(&l->lost) && !l->up && now_ms - l->started_ms > o->start_ms)
        link_silent(w, l, now_ms - l->started_ms);
}

static void look_after_models(struct device_worker *w, struct link *l, int64_t now_ms)
{
    for (struct proxy *p = w->models; p && !atomic_load(&l->lost); p = p->next) {
        if (p->link == l || now_ms < p->reload_ms)
            continue;
        if (p->reload)
            link_silent(w, l, w->all->o.load_ms);
        else
            proxy_reload(p, now_ms, 0);
    }
}

static void let_end(struct device_worker *w)
{
    struct link *l = w->link;

    if (!l->reaped && w->gone_count < WORKER_GONE_MAX)
        w->gone[w->gone_count++] = l->pid;
    w->link = NULL;
    link_release(l); /* its socket closes */
}

static void watch_one(struct device_worker *w, int64_t now_ms)
{
    struct link *l = w->link;

    if (l) {
        l->refs++; /* it may be lost below */
        link_listen(w, l);
        if (!l->closed_ms)
            hear_link(w, l, now_ms);
        if (l->closed_ms && !atomic_load(&l->lost))
            link_died(w, l, now_ms);
        if (!atomic_load(&l->lost))
            feel_heart(w, l, now_ms);
        if (!atomic_load(&l->lost) && l->up)
            look_after_models(w, l, now_ms);
        link_release(l);
    }
    for (size_t i = 0; i < w->gone_count;)
        if (waitpid(w->gone[i], NULL, WNOHANG) == 0)
            i++;
        else
            w->gone[i] = w->gone[--w->gone_count];
    if (w->link && w->drop && !w->models && !w->calls)
        let_end(w);
    if (!w->link && (w->asked || (w->models && now_ms >= w->start_ms)))
        start_worker(w, now_ms);
}

/* ---- the thread */

/* Until there is something to hear, or the next look; the lock is held at both ends. */
static void wait_for_event(struct workers *ws)
{
    struct pollfd fds[1 + 2 * WORKERS_MAX] = { { .fd = ws->wake, .events = POLLIN } };
    nfds_t n = 1;
    int ms = WORKER_TURN_MS;
    uint64_t drop;

    for (size_t i = 0; i < ws->count; i++) {
        const struct link *l = ws->list[i]->link;
        if (l && l->closed_ms)
            ms = WATCH_SOON_MS;
        if (!l || l->closed_ms)
            continue;
        fds[n++] = (struct pollfd){ .fd = l->sock, .events = POLLIN };
        fds[n++] = (struct pollfd){ .fd = l->talk, .events = POLLIN };
    }
    pthread_mutex_unlock(&ws->lock);
    (void)poll(fds, n, ms);
    (void)!read(ws->wake, &drop, sizeof(drop));
    pthread_mutex_lock(&ws->lock);
}

/* The lock is held at both ends, and given back meanwhile: whoever hears may be slow. */
static void say_lines(struct workers *ws)
{
    struct buf said = ws->said;

    if (!said.len)
        return;
    ws->said = (struct buf){ 0 };
    buf_init(&ws->said, WORKER_SAID_MAX);
    pthread_mutex_unlock(&ws->lock);
    char *rest_of = (char *)(uintptr_t)buf_str(&said);
    for (char *line; (line = strsep(&rest_of, "\n"));)
        if (*line)
            ws->o.say(ws->o.arg, line);
    buf_release(&said);
    pthread_mutex_lock(&ws->lock);
}

static size_t reap_gone(struct workers *ws, bool by_force)
{
    size_t left = 0;

    for (size_t i = 0; i < ws->count; i++) {
        struct device_worker *w = ws->list[i];

        for (size_t k = 0; k < w->gone_count;) {
            if (by_force)
                (void)kill(w->gone[k], SIGKILL);
            if (waitpid(w->gone[k], NULL, WNOHANG) == 0)
                k++;
            else
                w->gone[k] = w->gone[--w->gone_count];
        }
        left += w->gone_count;
    }
    return left;
}

/* Politely, then not; what sleeps in a driver is left alone. */
static void end_all(struct workers *ws)
{
    const struct timespec nap = { .tv_nsec = 1000000 };

    for (size_t i = 0; i < ws->count; i++)
        if (ws->list[i]->link)
            let_end(ws->list[i]);
    for (int ms = 0; reap_gone(ws, ms > WORKER_END_MS_MAX) && ms < WORKER_END_MS_MAX * 5 / 4; ms++)
        nanosleep(&nap, NULL);
}

void *workers_watch(void *arg)
{
    struct workers *ws = arg;

    pthread_mutex_lock(&ws->lock);
    while (!ws->stop) {
        int64_t now = clock_mono_ms();

        for (size_t i = 0; i < ws->count; i++)
            watch_one(ws->list[i], now);
        say_lines(ws);
        if (!ws->stop)
            wait_for_event(ws);
    }
    end_all(ws);
    pthread_mutex_unlock(&ws->lock);
    return NULL;
}
