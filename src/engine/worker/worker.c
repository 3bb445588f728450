/* SPDX-License-Identifier: MIT */
/* worker: the owner's side as others call it: life, devices by name, a message and its reply.
 *
 * A device has one struct device_worker from the moment somebody asks for it until the end; the
 * process behind it (struct link) comes and goes.  Whoever asks waits on one condition for all
 * workers, which the watching thread signals after every turn that changed something. */
#include "engine/worker/worker_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/plugin_int.h"
#include "os/clock.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- life */

enum rc workers_new(const struct workers_opts *o, struct workers **out, struct err *err)
{
    struct workers *ws = xcalloc(1, sizeof(*ws));

    ws->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ws->wake < 0) {
        free(ws);
        return err_sys(err, "could not make an event");
    }
    ws->o = *o;
    ws->exe = o->exe ? xstrdup(o->exe) : NULL;
    ws->o.batch_ms = o->batch_ms ? o->batch_ms : WORKER_BATCH_MS;
    ws->o.load_ms = o->load_ms ? o->load_ms : WORKER_LOAD_MS;
    ws->o.start_ms = o->start_ms ? o->start_ms : WORKER_START_MS;
    ws->spin_ns = wring_may_spin() ? WORKER_SPIN_NS_MAX : WRING_SPIN_NS;
    buf_init(&ws->said, WORKER_SAID_MAX);
    pthread_mutex_init(&ws->lock, NULL);
    clock_cond_init(&ws->changed);
    *out = ws;
    return RC_OK;
}

void workers_hurry(struct workers *ws)
{
    pthread_mutex_lock(&ws->lock);
    ws->hurry = true;
    pthread_cond_broadcast(&ws->changed);
    pthread_mutex_unlock(&ws->lock);
}

void workers_free(struct workers *ws)
{
    if (!ws)
        return;
    pthread_mutex_lock(&ws->lock);
    ws->stop = true;
    workers_wake(ws);
    pthread_mutex_unlock(&ws->lock);
    if (ws->watching)
        (void)pthread_join(ws->thread, NULL);
    for (size_t i = 0; i < ws->count; i++) {
        assert(!ws->list[i]->models && !ws->list[i]->link);
        free(ws->list[i]);
    }
    pthread_cond_destroy(&ws->changed);
    pthread_mutex_destroy(&ws->lock);
    close(ws->wake);
    buf_release(&ws->said);
    free(ws->exe);
    free(ws);
}

void workers_wake(struct workers *ws)
{
    const uint64_t one = 1;

    if (write(ws->wake, &one, sizeof(one)) < 0)
        return; /* it is awake */
}

void workers_say(struct workers *ws, const char *fmt, ...)
{
    char line[ERR_MSG_MAX + WORKER_LINE_MAX];
    va_list ap;

    if (!ws->o.say || ws->said.len + sizeof(line) > WORKER_SAID_MAX)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    buf_addf(&ws->said, "%s\n", line);
    workers_wake(ws);
}

/* ---- devices */

static struct plugin_kind *kind_of(struct workers *ws, const char *name, struct err *err)
{
    for (size_t i = 0; i < ws->kind_count; i++)
        if (str_eq(ws->kinds[i].name, name))
            return &ws->kinds[i];
    if (ws->kind_count == WORKER_KINDS_MAX) {
        (void)err_set(err, RC_LIMIT, "more than %d plug-ins", WORKER_KINDS_MAX);
        return NULL;
    }
    struct plugin_kind *k = &ws->kinds[ws->kind_count++];
    (void)str_copy(k->name, sizeof(k->name), name);
    k->ops = worker_ops;
    k->ops.name = k->name;
    k->ops.about = &k->about;
    k->about.kind = k->text;
    return k;
}

/* "cuda" is "cuda:0". */
static enum rc split_device(const char *device, char name[WORKER_NAME_MAX], uint64_t *number,
                            struct err *err)
{
    size_t len = strcspn(device, ":");

    *number = 0;
    if (!len || len >= WORKER_NAME_MAX ||
        (device[len] && !str_to_u64(device + len + 1, 10, number)) || *number >= MSG_DEVICES_MAX)
        return err_set(err, RC_USAGE, "unknown device '%.64s'", device);
    (void)snprintf(name, WORKER_NAME_MAX, "%.*s", (int)len, device);
    return RC_OK;
}

struct device_worker *worker_of(struct workers *ws, const char *device, struct err *err)
{
    char name[WORKER_NAME_MAX], full[WORKER_DEVICE_MAX];
    uint64_t number;
    struct plugin_kind *k;

    if (split_device(device, name, &number, err) || !(k = kind_of(ws, name, err)))
        return NULL;
    (void)snprintf(full, sizeof(full), "%s:%u", name, (unsigned)number);
    for (size_t i = 0; i < ws->count; i++)
        if (str_eq(ws->list[i]->device, full))
            return ws->list[i];
    if (ws->count == WORKERS_MAX) {
        (void)err_set(err, RC_LIMIT, "more than %d devices of plug-ins", WORKERS_MAX);
        return NULL;
    }
    struct device_worker *w = xcalloc(1, sizeof(*w));
    w->all = ws;
    w->kind = k;
    (void)str_copy(w->device, sizeof(w->device), full);
    ws->list[ws->count++] = w;
    return w;
}

/* ---- asking */

/* Signals are for other threads. */
static enum rc watch_start(struct workers *ws, struct err *err)
{
    sigset_t all, old;

    if (ws->watching)
        return RC_OK;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    ws->watching = pthread_create(&ws->thread, NULL, workers_watch, ws) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ws->watching ? RC_OK : err_set(err, RC_FAIL, "could not start a thread");
}

enum rc worker_up(struct device_worker *w, struct err *err)
{
    struct workers *ws = w->all;
    uint64_t seen = w->failures;

    if (watch_start(ws, err))
        return RC_FAIL;
    while (!w->link || !w->link->up) {
        if (w->failures != seen) {
            if (err)
                *err = w->why;
            return w->why.code;
        }
        if (ws->hurry)
            return err_set(err, RC_FAIL, "device '%s' is let go", w->device);
        w->asked = true;
        w->drop = false;
        workers_wake(ws);
        (void)pthread_cond_wait(&ws->changed, &ws->lock); /* its start has a deadline */
    }
    return RC_OK;
}

static void forget_call(struct device_worker *w, const struct pending_call *c)
{
    struct pending_call **at = &w->calls;

    while (*at && *at != c)
        at = &(*at)->next;
    if (*at)
        *at = c->next;
}

enum rc worker_call(struct device_worker *w, struct msg_request *request,
                    struct msg_response *response, int64_t ms, struct err *err)
{
    struct workers *ws = w->all;
    struct link *l = w->link;
    struct pending_call **at = &w->calls,
                        c = { .next = *at, .number = ++ws->numbers, .response = response };
    int64_t until = clock_mono_ns() + (int64_t)ms * 1000000;

    assert(l->up);
    *at = &c;
    request->number = c.number;
    l->refs++;
    if (!fd_message_send(l->sock, request, sizeof(*request), -1))
        link_lost(w, l, "takes no messages");
    while (!c.done && !c.lost && !ws->hurry)
        if (!clock_cond_wait(&ws->changed, &ws->lock, until) && !c.done && !c.lost) {
            char where[128];
            link_state(l, where, sizeof(where));
            link_lost(w, l, "did not answer for %.1f s in %s%s", (double)ms / 1000, link_call(l),
                      where);
        }
    forget_call(w, &c);
    enum rc rc = RC_NODEV;
    if (c.done)
        rc = msg_response_rc(response, err);
    else if (!c.lost)
        rc = err_set(err, RC_FAIL, "device '%s' is let go", w->device);
    else if (err)
        *err = l->why;
    link_release(l);
    return rc;
}

/* ---- from outside */

enum rc workers_find(struct workers *ws, const char *device, bool wait, const struct eng_ops **out,
                     struct err *err)
{
    char name[WORKER_NAME_MAX];
    uint64_t number;
    enum rc rc = split_device(device, name, &number, err);

    if (rc == RC_OK)
        rc = plugin_check(device, err);
    if (rc != RC_OK)
        return rc;
    pthread_mutex_lock(&ws->lock);
    struct plugin_kind *k = kind_of(ws, name, err);
    struct device_worker *w = k && !k->known && wait ? worker_of(ws, device, err) : NULL;
    if (!k || (!k->known && wait && !w))
        rc = RC_LIMIT;
    else if (w)
        rc = worker_up(w, err);
    if (rc == RC_OK && w && number >= k->about.count) {
        w->drop = true; /* it could say that there is no such device, and is of no other use */
        workers_wake(ws);
    }
    if (rc == RC_OK && (wait || k->known))
        *out = &k->ops;
    pthread_mutex_unlock(&ws->lock);
    return rc;
}

size_t workers_look(struct workers *ws, struct worker_state *out, size_t max)
{
    int64_t now = clock_mono_ms();
    size_t n = 0;

    pthread_mutex_lock(&ws->lock);
    for (size_t i = 0; i < ws->count && n < max; i++) {
        const struct device_worker *w = ws->list[i];
        const struct link *l = w->link;

        if (!l && !w->models)
            continue;
        out[n] = (struct worker_state){ .up = l && l->up,
                                        .pid = l ? l->pid : 0,
                                        .restarts = w->starts ? w->starts - 1 : 0,
                                        .beat_s = l ? (double)(now - l->sign_ms) / 1000 : NAN };
        (void)str_copy(out[n++].device, WORKER_DEVICE_MAX, w->device);
    }
    pthread_mutex_unlock(&ws->lock);
    return n;
}
