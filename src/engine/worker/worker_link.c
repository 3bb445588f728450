/* SPDX-License-Identifier: MIT */
/* worker_link: one process of a worker: its start, its loss, what it prints. */
#include "engine/worker/worker_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/worker/process.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LINK_FD = STDERR_FILENO + 1 /* the socket's number in the worker */
};

/* ---- the start */

struct socket_ends { /* ours and the worker's */
    int sock[2], talk[2];
};

static enum rc open_ends(struct socket_ends *e, struct err *err)
{
    *e = (struct socket_ends){ { -1, -1 }, { -1, -1 } };
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, e->sock))
        return err_sys(err, "could not open a socket");
    if (pipe2(e->talk, O_CLOEXEC) || fcntl(e->talk[0], F_SETFL, O_NONBLOCK) ||
        fcntl(e->sock[0], F_SETFL, O_NONBLOCK)) {
        close(e->sock[0]);
        close(e->sock[1]);
        return err_sys(err, "could not open a pipe");
    }
    return RC_OK;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static enum rc start_process(struct device_worker *w, struct link *l, struct err *err)
{
    char name[] = "stoker", command[] = "serve", option[] = "--worker", number[4];
    char *argv[] = { name, command, option, number, NULL };
    struct msg_request setup;
    struct socket_ends e;

    (void)snprintf(number, sizeof(number), "%d", LINK_FD);
    if (open_ends(&e, err))
        return err->code;
    l->sock = e.sock[0];
    l->talk = e.talk[0];
    msg_request_init(&setup, MSG_SETUP);
    (void)str_copy(setup.device, sizeof(setup.device), w->device);
    bool sent = fd_message_send(l->sock, &setup, sizeof(setup), l->ring.fd);
    const int fds[] = { -1, e.talk[1], e.talk[1], e.sock[1] };
    static_assert(ARRAY_SIZE(fds) == LINK_FD + 1, "the socket is the last");
    l->pid = sent ? process_start(&(struct process_opts){ .exe = w->all->exe,
                                                          .argv = argv,
                                                          .fds = fds,
                                                          .fd_count = ARRAY_SIZE(fds),
                                                          .death_signal = SIGKILL })
                  : -1;
    close(e.sock[1]);
    close(e.talk[1]);
    return l->pid > 0 ? RC_OK
                      : err_sys(err, "could not start the worker of device '%s'", w->device);
}

enum rc link_start(struct device_worker *w, struct err *err)
{
    struct link *l = xcalloc(1, sizeof(*l));
    enum rc rc;

    assert(!w->link);
    l->refs = 1;
    l->sock = l->talk = -1;
    l->started_ms = l->sign_ms = clock_mono_ms();
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->freed, NULL);
    rc = wring_new(&l->ring, err);
    if (rc == RC_OK)
        wring_beat(&l->ring, WRING_BATCHES, WORKER_START);
    if (rc == RC_OK)
        rc = start_process(w, l, err);
    if (rc != RC_OK) {
        link_release(l);
        return rc;
    }
    w->link = l;
    w->starts++;
    return RC_OK;
}

void link_release(struct link *l)
{
    if (--l->refs)
        return;
    close_end(&l->sock);
    close_end(&l->talk);
    wring_close(&l->ring);
    pthread_cond_destroy(&l->freed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- the loss */

const char *link_call(const struct link *l)
{
    uint32_t batches = wring_call(&l->ring, WRING_BATCHES), control;

    control = wring_call(&l->ring, WRING_CONTROL);
    return worker_call_name(batches == WORKER_IDLE ? control : batches);
}

void link_state(const struct link *l, char *out, size_t cap)
{
    struct process_sleep s = { 0 };

    out[0] = '\0';
    if (!l->reaped)
        process_sleep(l->pid, &s);
    if (s.state)
        (void)snprintf(out, cap, ", in state %c%s%s", s.state, s.wchan[0] ? ", asleep in " : "",
                       s.wchan);
}

static void tell_calls(struct device_worker *w)
{
    for (struct pending_call *c = w->calls; c; c = c->next)
        c->lost = true;
    for (struct proxy *p = w->models; p; p = p->next) {
        p->link = NULL;
        p->reload = 0;
        p->why = (struct err){ 0 };
    }
}

static void plan_start(struct device_worker *w, const struct link *l)
{
    int64_t now = clock_mono_ms();

    w->backoff_ms = process_backoff_ms(w->backoff_ms, WORKER_BACKOFF_MS, now - l->started_ms);
    w->start_ms = now + w->backoff_ms;
}

/* Never waited for: one that sleeps in the driver goes when its call returns, if it does. */
static void bury_process(struct device_worker *w, struct link *l)
{
    if (l->reaped)
        return;
    (void)kill(l->pid, SIGKILL);
    if (w->gone_count < WORKER_GONE_MAX)
        w->gone[w->gone_count++] = l->pid;
    l->reaped = true; /* as far as this link is concerned */
}

void link_lost(struct device_worker *w, struct link *l, const char *fmt, ...)
{
    char what[ERR_MSG_MAX - 128];
    va_list ap;

    if (atomic_load(&l->lost))
        return;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    (void)err_set(&l->why, RC_NODEV, "the worker of device '%s' (process %d) %s", w->device,
                  (int)l->pid, what);
    bury_process(w, l);
    plan_start(w, l);
    w->why = l->why;
    w->failures++;
    w->asked = false;
    w->link = NULL;
    tell_calls(w);
    atomic_store(&l->lost, true);
    wring_wake_owner(&l->ring);
    pthread_mutex_lock(&l->lock);
    pthread_cond_broadcast(&l->freed);
    pthread_mutex_unlock(&l->lock);
    pthread_cond_broadcast(&w->all->changed);
    if (w->models)
        workers_say(w->all, "%s; it is started again in %.1f s", l->why.msg,
                    (double)w->backoff_ms / 1000);
    workers_wake(w->all); /* it reaps */
    link_release(l);
}

/* ---- what it prints */

static void say_line(struct device_worker *w, struct link *l)
{
    int64_t now = clock_mono_ms();

    l->line[l->line_len] = '\0';
    l->line_len = 0;
    if (now - w->lines_ms >= WORKER_LINES_MS) {
        if (w->lines > WORKER_LINES_MAX)
            workers_say(w->all, "worker %s: %zu lines more", w->device,
                        w->lines - WORKER_LINES_MAX);
        w->lines_ms = now;
        w->lines = 0;
    }
    str_make_text(l->line);
    if (l->line[0] && ++w->lines <= WORKER_LINES_MAX)
        workers_say(w->all, "worker %s: %s", w->device, l->line);
}

void link_listen(struct device_worker *w, struct link *l)
{
    char chunk[4096];
    ssize_t n;

    for (size_t sum = 0; sum < WORKER_TALK_MAX && (n = read(l->talk, chunk, sizeof(chunk))) > 0;
         sum += (size_t)n)
        for (ssize_t i = 0; i < n; i++) {
            if (chunk[i] == '\n')
                say_line(w, l);
            else if (l->line_len + 1 < sizeof(l->line))
                l->line[l->line_len++] = chunk[i];
        }
}
