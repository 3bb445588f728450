/* SPDX-License-Identifier: MIT */
/* worker_eng: the engine that stands for a model in a worker.
 *
 * run() and submit() copy a batch into the ring, collect() waits for its rows.  A model is in one
 * process; when that is lost, batches fail at once until the next one has loaded it.  Files that
 * are no longer those it was loaded from are not loaded: half of the replies would come of
 * another model. */
#include "engine/worker/worker_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <assert.h>

static struct proxy *proxy_of(struct eng *e)
{
    return (struct proxy *)e;
}

/* ---- loading */

static enum rc ask_load(struct device_worker *w, struct proxy *p, struct err *err)
{
    struct workers *ws = w->all;
    struct msg_response a;
    enum rc rc = worker_up(w, err);

    if (rc != RC_OK)
        return rc;
    p->request.handle = ++ws->handles;
    struct link *l = w->link;
    rc = worker_call(w, &p->request, &a, ws->o.load_ms, err);
    if (rc != RC_OK)
        return rc;
    p->link = w->link == l ? l : NULL;
    p->identity = a.identity;
    (void)str_copy(p->describe, sizeof(p->describe), a.describe);
    p->next = w->models;
    w->models = p;
    return RC_OK;
}

static enum rc proxy_load(const struct model *m, const struct eng_opts *o, struct eng **out,
                          struct err *err)
{
    struct workers *ws = o->workers;
    struct proxy *p = xcalloc(1, sizeof(*p));
    enum rc rc;

    assert(ws && o->device);
    msg_request_init(&p->request, MSG_LOAD);
    rc = msg_request_model(&p->request, m, o, err);
    pthread_mutex_lock(&ws->lock);
    p->worker = rc == RC_OK ? worker_of(ws, o->device, err) : NULL;
    if (p->worker)
        p->eng = (struct eng){ .ops = &p->worker->kind->ops, .model = m };
    if (rc == RC_OK)
        rc = p->worker ? ask_load(p->worker, p, err) : RC_LIMIT;
    pthread_mutex_unlock(&ws->lock);
    if (rc != RC_OK) {
        free(p);
        return rc;
    }
    *out = &p->eng;
    return RC_OK;
}

static void proxy_unload(struct eng *e)
{
    struct proxy *p = proxy_of(e), **at;
    struct device_worker *w;
    struct msg_request request;

    if (!p)
        return;
    w = p->worker;
    pthread_mutex_lock(&w->all->lock);
    for (at = &w->models; *at != p;)
        at = &(*at)->next;
    *at = p->next;
    if (w->link && (p->link == w->link || p->reload)) {
        msg_request_init(&request, MSG_UNLOAD);
        request.handle = p->request.handle;
        request.number = ++w->all->numbers;
        if (!fd_message_send(w->link->sock, &request, sizeof(request), -1))
            link_lost(w, w->link, "takes no messages");
    }
    for (size_t i = 0; i < p->flying_count; i++)
        link_release(p->flying[i].link);
    pthread_mutex_unlock(&w->all->lock);
    free(p);
}

/* 0 when there is no answer: the load that follows says why. */
static uint64_t proxy_memory(const struct model *m, const struct eng_opts *o)
{
    struct workers *ws = o->workers;
    struct msg_response a = { 0 };
    struct msg_request request;
    struct device_worker *w;

    assert(ws && o->device);
    msg_request_init(&request, MSG_MEMORY);
    if (msg_request_model(&request, m, o, NULL))
        return 0;
    pthread_mutex_lock(&ws->lock);
    w = worker_of(ws, o->device, NULL);
    bool ok = w && worker_up(w, NULL) == RC_OK &&
              worker_call(w, &request, &a, ws->o.load_ms, NULL) == RC_OK;
    pthread_mutex_unlock(&ws->lock);
    return ok ? a.bytes : 0;
}

static void proxy_describe(const struct eng *e, char *out, size_t cap)
{
    (void)str_copy(out, cap, ((const struct proxy *)e)->describe);
}

/* ---- loading again; the lock is held */

void proxy_reload(struct proxy *p, int64_t now_ms, size_t before)
{
    struct device_worker *w = p->worker;

    p->request.number = ++w->all->numbers;
    p->reload = p->request.number;
    p->reload_ms = now_ms + w->all->o.load_ms * (int64_t)(before + 1);
    if (!fd_message_send(w->link->sock, &p->request, sizeof(p->request), -1)) {
        p->reload = 0; /* many at once: it is asked again */
        p->reload_ms = now_ms + WORKER_TURN_MS;
    }
}

static void take_back(struct proxy *p)
{
    struct msg_request request;

    msg_request_init(&request, MSG_UNLOAD);
    request.handle = p->request.handle;
    request.number = ++p->worker->all->numbers;
    (void)fd_message_send(p->worker->link->sock, &request, sizeof(request), -1);
}

void proxy_reloaded(struct proxy *p, const struct msg_response *a, int64_t now_ms)
{
    struct device_worker *w = p->worker;

    p->reload = 0;
    p->why = (struct err){ 0 };
    p->reload_ms = now_ms + WORKER_RELOAD_MS;
    enum rc rc = msg_response_rc(a, &p->why);
    if (rc == RC_OK && a->identity != p->identity) {
        take_back(p);
        rc = err_set(&p->why, RC_NODEV,
                     "its files are not those it was loaded from: load it anew to use them");
    }
    if (rc == RC_OK) {
        p->link = w->link;
        return;
    }
    (void)err_ctx(&p->why, "the worker of device '%s' could not load '%s' again", w->device,
                  p->eng.model->name);
    workers_say(w->all, "%s", p->why.msg);
}

/* ---- running */

/* A reference of the process that has the model; NULL: *err says why there is none. */
static struct link *link_of(struct proxy *p, struct err *err)
{
    struct device_worker *w = p->worker;

    pthread_mutex_lock(&w->all->lock);
    struct link *l = p->link && p->link == w->link ? p->link : NULL;
    const struct err *why = p->why.code ? &p->why : &w->why;
    if (l)
        l->refs++;
    else
        (void)err_set(err, RC_NODEV, "%s", why->code ? why->msg : "it is being loaded again");
    pthread_mutex_unlock(&w->all->lock);
    return l;
}

static void unlink_from(struct proxy *p, struct link *l)
{
    pthread_mutex_lock(&p->worker->all->lock);
    link_release(l);
    pthread_mutex_unlock(&p->worker->all->lock);
}

/* The next ticket's slot is free; the link's lock is held. */
static bool slot_free(struct link *l, bool wait)
{
    for (;;) {
        bool taken = l->busy & 1u << l->next % WRING_SLOTS;
        if (!taken || !wait || atomic_load(&l->lost))
            return !taken;
        pthread_cond_wait(&l->freed, &l->lock);
    }
}

/* RC_LIMIT without `wait`: every slot is taken. */
static enum rc post_batch(struct proxy *p, const struct wring_post *what, bool wait,
                          struct posted_batch *out, struct err *err)
{
    const struct eng_batch *b = what->batch;
    size_t rows = what->want == ENG_TOKENS ? b->starts[b->sequences] : b->sequences;
    struct link *l = link_of(p, err);
    struct posted_batch f = { .link = l, .floats = rows * what->width };
    enum rc rc = RC_OK;

    if (!l)
        return RC_NODEV;
    pthread_mutex_lock(&l->lock);
    if (!slot_free(l, wait))
        rc = err_set(err, atomic_load(&l->lost) ? RC_NODEV : RC_LIMIT, "%s",
                     atomic_load(&l->lost) ? l->why.msg : "the worker has enough to do");
    f.posted_ns = clock_mono_ns();
    f.ticket = l->next;
    if (rc == RC_OK)
        rc = wring_post(&l->ring, f.ticket, what, err);
    if (rc == RC_OK) {
        int64_t from = atomic_load(&l->late_ns);
        from = l->busy && from > f.posted_ns ? from : f.posted_ns; /* behind what is in front */
        f.until_ns = from + p->worker->all->o.batch_ms * 1000000 +
                     (int64_t)b->starts[b->sequences] * WORKER_TOKEN_NS;
        atomic_store(&l->late_ns, f.until_ns);
        l->busy |= 1u << f.ticket % WRING_SLOTS;
        l->next++;
    }
    pthread_mutex_unlock(&l->lock);
    if (rc == RC_OK)
        *out = f;
    else
        unlink_from(p, l);
    return rc;
}

static void give_slot(struct link *l, uint32_t ticket)
{
    pthread_mutex_lock(&l->lock);
    l->busy &= ~(1u << ticket % WRING_SLOTS);
    if (!l->busy)
        atomic_store(&l->late_ns, 0);
    pthread_cond_broadcast(&l->freed);
    pthread_mutex_unlock(&l->lock);
}

static void too_late(struct proxy *p, struct link *l, int64_t posted_ns)
{
    struct device_worker *w = p->worker;
    char where[128];

    pthread_mutex_lock(&w->all->lock);
    link_state(l, where, sizeof(where));
    if (w->link == l)
        link_lost(w, l, "did not answer for %.1f s in %s%s",
                  (double)(clock_mono_ns() - posted_ns) / 1e9, link_call(l), where);
    pthread_mutex_unlock(&w->all->lock);
}

/* As long as batches usually take, if that is short enough on this machine. */
static int64_t spin_of(const struct proxy *p)
{
    int64_t usual = 2 * p->usual_ns;

    return usual > WRING_SPIN_NS && usual <= p->worker->all->spin_ns ? usual : WRING_SPIN_NS;
}

/* false: it was called away, and goes on. */
static bool await_rows(struct proxy *p, const struct posted_batch *f, bool nudges, float *out,
                       enum rc *out_rc, struct err *err)
{
    struct wring_patience patience = { .spin_ns = spin_of(p),
                                       .until_ns = f->until_ns,
                                       .lost = &f->link->lost,
                                       .nudged = nudges ? &p->nudged : NULL };
    int64_t begun = clock_mono_ns();
    enum wring_end end = wring_await(&f->link->ring, f->ticket, &patience);

    if (end == WRING_NUDGED)
        return false;
    p->usual_ns += (clock_mono_ns() - begun - p->usual_ns) / 8;
    if (end == WRING_LATE)
        too_late(p, f->link, f->posted_ns);
    if (end == WRING_DONE) {
        *out_rc = wring_take(&f->link->ring, f->ticket, out, f->floats, err);
        give_slot(f->link, f->ticket);
    } else {
        *out_rc = err_set(err, RC_NODEV, "%s", f->link->why.msg);
    }
    unlink_from(p, f->link);
    return true;
}

/* ---- whole batches */

static enum rc run_part(struct proxy *p, struct wring_post *what, float *out, struct err *err)
{
    struct posted_batch f;
    enum rc rc = post_batch(p, what, true, &f, err);

    if (rc == RC_OK)
        (void)await_rows(p, &f, false, out, &rc, err);
    return rc;
}

static enum rc run_range(struct proxy *p, struct wring_post what, size_t first, size_t count,
                         float *out, struct err *err)
{
    const struct eng_batch *all = what.batch;
    uint32_t at = all->starts[first], *starts = xreallocarray(NULL, count + 1, sizeof(*starts));
    struct eng_batch b = { .ids = all->ids + at,
                           .types = all->types ? all->types + at : NULL,
                           .starts = starts,
                           .sequences = count,
                           .skip = all->skip ? all->skip + first : NULL };
    struct wring_post part = what;
    enum rc rc;

    for (size_t i = 0; i <= count; i++)
        starts[i] = all->starts[first + i] - at;
    part.batch = &b;
    if (wring_fits(&part) || count == 1) {
        rc = run_part(p, &part, out + (what.want == ENG_TOKENS ? at : first) * what.width, err);
    } else {
        rc = run_range(p, what, first, count / 2, out, err);
        if (rc == RC_OK)
            rc = run_range(p, what, first + count / 2, count - count / 2, out, err);
    }
    free(starts);
    return rc;
}

static struct wring_post post_of(const struct proxy *p, const struct eng_batch *b,
                                 enum eng_want want)
{
    return (struct wring_post){ .handle = p->request.handle,
                                .want = want,
                                .width = (uint32_t)eng_width(p->eng.model, want),
                                .batch = b };
}

static enum rc proxy_run(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                         struct err *err)
{
    struct proxy *p = proxy_of(e);
    struct wring_post what = post_of(p, b, want);

    if (wring_fits(&what))
        return run_part(p, &what, out, err);
    return run_range(p, what, 0, b->sequences, out, err);
}

/* ---- in two halves */

static enum rc proxy_submit(struct eng *e, const struct eng_batch *b, enum eng_want want,
                            float *out, struct err *err)
{
    struct proxy *p = proxy_of(e);
    struct wring_post what = post_of(p, b, want);
    struct posted_batch f;

    if (p->flying_count == ENG_IN_FLIGHT || !wring_fits(&what))
        return err_set(err, RC_LIMIT, "%zu batches are on their way", p->flying_count);
    enum rc rc = post_batch(p, &what, false, &f, err);
    if (rc == RC_OK) {
        f.out = out;
        p->flying[p->flying_count++] = f;
    }
    return rc;
}

static enum rc proxy_collect(struct eng *e, bool *out_done, struct err *err)
{
    struct proxy *p = proxy_of(e);
    struct posted_batch f = p->flying[0];
    enum rc rc = RC_OK;

    assert(p->flying_count);
    *out_done = await_rows(p, &f, true, f.out, &rc, err);
    if (*out_done) {
        p->flying_count--;
        memmove(p->flying, p->flying + 1, p->flying_count * sizeof(p->flying[0]));
    }
    return rc;
}

static void proxy_nudge(struct eng *e)
{
    struct proxy *p = proxy_of(e);
    struct device_worker *w = p->worker;

    atomic_store(&p->nudged, true);
    pthread_mutex_lock(&w->all->lock);
    if (w->link) /* else those who wait were told that it is lost */
        wring_wake_owner(&w->link->ring);
    pthread_mutex_unlock(&w->all->lock);
}

const struct eng_ops worker_ops = {
    .load = proxy_load,
    .unload = proxy_unload,
    .run = proxy_run,
    .memory = proxy_memory,
    .describe = proxy_describe,
    .submit = proxy_submit,
    .collect = proxy_collect,
    .nudge = proxy_nudge,
};
