/* SPDX-License-Identifier: MIT */
/* sched_device_queue: the thread of a device.
 *
 * Between two batches it runs what others want run on it, drops what nobody waits for any
 * more, and takes the next batch; with nothing to do it sleeps.  It never waits for a batch to
 * grow: on an idle device queue a text runs at once, on a busy one others gather behind it.
 *
 * A device with submit() and collect() shall not wait for this thread: a second batch goes behind
 * the one that runs as soon as a whole one has gathered; when less has, as soon as the first is
 * back, before its rows are handed out.  Sooner would cut small batches into smaller ones.
 *
 *     device   │▒▒▒▒ 1 ▒▒▒▒│▒▒▒▒ 2 ▒▒▒▒│▒▒▒▒ 3 ▒▒▒▒│
 *     thread     submit 2   hand out 1, submit 3   hand out 2 …
 */
#include "base/mem.h"
#include "os/clock.h"
#include "serve/sched/device_queue_int.h"

#include <assert.h>

/* ---- handing out */

static void deliver_row(const struct device_queue *dq, struct request_text *t, size_t i,
                        const struct err *why)
{
    const struct sched_batch *b = dq->batch;
    struct request *r = t->request;

    if (!r->started_ns)
        r->started_ns = r->submitted_ns > b->begun_ns ? r->submitted_ns : b->begun_ns;
    if (b->fell_back || !r->device)
        r->device = b->fell_back ? fallback_device(b->queue->model) : dq->device;
    if (b->fell_back) {
        r->fell_back = true;
        r->failed_device = dq->device;
    }
    if (why) {
        t->failed = true;
        if (!r->failed)
            r->err = *why;
        r->failed = true;
    } else {
        memcpy(t->out, batch_rows(b, i), batch_row_count(b, t) * b->queue->width * sizeof(*t->out));
    }
    t->state = TEXT_OVER;
    r->unfinished--;
}

static void keep_row(struct sched *s, const struct sched_batch *b, const struct request_text *t,
                     size_t i)
{
    struct cache_key k = { .hash = { t->hash[0], t->hash[1] },
                           .model = b->queue->model->key,
                           .want = b->queue->want,
                           .tokens = t->tokens,
                           .skip = t->skip,
                           .ids = t->ids,
                           .types = t->types };

    counter_add(s->families.evictions, cache_put(s->cache, &k, batch_rows(b, i), b->queue->width));
}

/* Rows to everyone who waits for them; nobody can follow these texts any more. */
static void deliver_all(struct device_queue *dq)
{
    struct sched_batch *b = dq->batch;
    /* another device's bits are not those that the key stands for */
    bool cached = dq->sched->cache && b->queue->want != ENG_TOKENS && !b->fell_back;

    for (size_t i = 0; i < b->count; i++) {
        struct request_text *t = b->texts[i];
        if (cached && !t->err)
            keep_row(dq->sched, b, t, i);
        for (struct request_text *f = t->followers; f; f = f->next) {
            f->shared = true;
            deliver_row(dq, f, i, t->err);
        }
        deliver_row(dq, t, i, t->err);
    }
    if (cached)
        gauge_set(dq->sched->families.cache_bytes, (double)cache_stats(dq->sched->cache).bytes);
}

/* Which requests end with this batch: those that have all, and those of a text that failed.  The
 * lock is held. */
static void end_request(struct device_queue *dq, struct request *r)
{
    if (!r->over && !r->running && (!r->unfinished || r->failed))
        request_end(dq, r, r->failed ? RC_FAIL : RC_OK);
}

static void end_requests(struct device_queue *dq)
{
    struct sched_batch *b = dq->batch;

    for (size_t i = 0; i < b->count; i++) {
        struct request_text *t = b->texts[i];
        for (struct request_text *f = t->followers, *next; f; f = next) {
            next = f->next;
            end_request(dq, f->request);
        }
        t->request->running--;
        free(t->err);
        t->err = NULL;
        end_request(dq, t->request);
    }
}

/* ---- between batches */

static void run_calls(struct device_queue *dq)
{
    for (struct device_task *c; (c = dq->tasks);) {
        dq->tasks = c->next;
        pthread_mutex_unlock(&dq->lock);
        c->fn(c->arg);
        pthread_mutex_lock(&dq->lock);
        c->over = true;
        pthread_cond_broadcast(&dq->changed);
    }
}

/* Deadlines are looked at when the next one is over, flags of those who cancelled now and
 * then, or when somebody says so. */
static void sweep_requests(struct device_queue *dq, int64_t now_ns)
{
    bool told = atomic_exchange(&dq->sweep, false) || dq->stopping;

    if (!told && now_ns < dq->deadline_ns && now_ns - dq->swept_ns < SCHED_SWEEP_NS)
        return;
    dq->swept_ns = now_ns;
    dq->deadline_ns = INT64_MAX;
    for (struct request *r = dq->requests, *next; r; r = next) {
        enum rc why = request_dead(r, now_ns);
        int64_t deadline = r->deadline_ns;
        next = r->next;
        if (why == RC_OK && dq->stopping)
            why = RC_LIMIT;
        if (why == RC_OK && !r->running && !r->failed)
            why = admit_again(dq, r, now_ns, &r->err);
        if (why != RC_OK && r->running)
            atomic_store(&dq->sweep, true); /* after that batch */
        else if (why != RC_OK)
            request_end(dq, r, why);
        else if (deadline && deadline < dq->deadline_ns)
            dq->deadline_ns = deadline;
    }
}

/* Tells those whose requests ended; without the lock.  Returns how many. */
static size_t call_done(struct device_queue *dq)
{
    size_t n = 0;
    struct request *r = dq->ended, *next;

    dq->ended = NULL;
    dq->ended_end = &dq->ended;
    for (; r; r = next, n++) {
        next = r->ended;
        r->ended_ns = clock_mono_ns();
        free(r->pending);
        r->pending = NULL;
        r->done(r);
    }
    return n;
}

/* ---- a batch from its start to its end */

/* Rows to those who wait for them; the batch is empty then.  Returns how many requests ended. */
static size_t hand_out(struct device_queue *dq)
{
    struct sched_batch *b = dq->batch;

    pthread_mutex_lock(&dq->lock);
    for (size_t i = 0; i < b->count; i++)
        text_forget(dq, b->texts[i]);
    dq->running_tokens -= b->tokens;
    b->queue->running -= b->tokens;
    pace_add(&b->queue->record->pace, b->tokens, b->begun_ns, b->ended_ns);
    pthread_mutex_unlock(&dq->lock);
    deliver_all(dq);
    meter_batch(dq);
    trace_add(dq);
    pthread_mutex_lock(&dq->lock);
    end_requests(dq);
    b->state = BATCH_EMPTY;
    pthread_mutex_unlock(&dq->lock);
    if (b->out_cap * sizeof(*b->out) > SCHED_KEEP_BYTES_MAX) {
        free(b->out);
        b->out = NULL;
        b->out_cap = 0;
    }
    return call_done(dq);
}

/* Onto the device, behind what is there; false: it is to be run when nothing is. */
static bool submit_batch(struct device_queue *dq)
{
    struct sched_batch *b = dq->batch;
    struct eng *e = batch_eng(b);
    struct eng_batch all = batch_texts(b);

    if (dq->sched->o.run != eng_run || !eng_can_submit(e) || batch_rests(b) ||
        eng_submit(e, &all, b->queue->want, b->out, NULL))
        return false;
    b->state = BATCH_FLYING;
    if (!dq->flying++)
        dq->first = (size_t)(b - dq->slots);
    return true;
}

/* Takes the next batch into one that is empty; the lock is held. */
static bool fill_next(struct device_queue *dq, int64_t now_ns)
{
    static_assert(ENG_IN_FLIGHT == 2, "the one that is not the oldest is the youngest");
    for (size_t i = 0; i < ARRAY_SIZE(dq->slots); i++)
        if (dq->slots[i].state == BATCH_EMPTY) {
            dq->batch = &dq->slots[i];
            return batch_fill(dq, now_ns);
        }
    return false;
}

/* Waits for the rows of the oldest batch; false: it was called away, since there is a whole one
 * to be submitted. */
static bool wait_for(struct device_queue *dq, struct sched_batch *b, bool room, enum rc *rc,
                     struct err *err)
{
    struct eng *e = batch_eng(b);
    struct eng_batch all = batch_texts(b);
    bool done = false;

    pthread_mutex_lock(&dq->lock);
    bool call = room && dq->flying < ENG_IN_FLIGHT && !dq->tasks;
    if (call && batch_full_waits(dq)) {
        pthread_mutex_unlock(&dq->lock);
        return false;
    }
    dq->waits = call ? e : NULL;
    pthread_mutex_unlock(&dq->lock);
    do
        *rc = eng_collect(e, &all, b->queue->want, b->out, &done, err);
    while (!done && !call);
    pthread_mutex_lock(&dq->lock);
    dq->waits = NULL;
    pthread_mutex_unlock(&dq->lock);
    return done;
}

static size_t begin_batch(struct device_queue *dq);

/* The oldest batch comes back.  `more`: the next one goes out before its rows are handed out. */
static size_t collect_batch(struct device_queue *dq, bool more)
{
    struct sched_batch *b = &dq->slots[dq->first], *next = NULL;
    struct err err = { 0 }, other = { 0 };
    enum rc rc = RC_OK;

    if (!wait_for(dq, b, more, &rc, &err))
        return 0;
    b->begun_ns = b->begun_ns > dq->ended_ns ? b->begun_ns : dq->ended_ns; /* it was behind one */
    b->ended_ns = dq->ended_ns = clock_mono_ns();
    dq->flying--;
    dq->first = (dq->first + 1) % ENG_IN_FLIGHT;
    if (more && rc == RC_OK) {
        pthread_mutex_lock(&dq->lock);
        next = !dq->tasks && fill_next(dq, b->ended_ns) ? dq->batch : NULL;
        pthread_mutex_unlock(&dq->lock);
    }
    if (next)
        batch_prepare(next);
    bool flies = next && submit_batch(dq);
    dq->batch = b;
    batch_judge(dq, batch_check(b, rc, &err), &err, &other);
    if (rc != RC_OK)
        b->ended_ns = clock_mono_ns();
    size_t n = hand_out(dq);
    dq->batch = next;
    return next && !flies ? n + begin_batch(dq) : n;
}

/* The batch at hand: onto the device, or run here and now. */
static size_t begin_batch(struct device_queue *dq)
{
    struct sched_batch *b = dq->batch;
    size_t n = 0;

    batch_prepare(b);
    if (submit_batch(dq))
        return 0;
    while (dq->flying)
        n += collect_batch(dq, false);
    dq->batch = b;
    batch_compute(dq);
    return n + hand_out(dq);
}

/* One turn, the lock held at both ends; false: there is nothing to do. */
static bool run_turn(struct device_queue *dq)
{
    if (!dq->flying)
        run_calls(dq);
    queues_tidy(dq);
    int64_t now = dq->requests ? clock_mono_ns() : 0;
    sweep_requests(dq, now);
    bool some = !dq->tasks && (!dq->flying || batch_full_waits(dq)) && fill_next(dq, now);
    if (!some && !dq->ended && !dq->flying)
        return false;
    pthread_mutex_unlock(&dq->lock);
    size_t n = call_done(dq);
    if (some)
        n += begin_batch(dq);
    else if (dq->flying)
        n += collect_batch(dq, true);
    pthread_mutex_lock(&dq->lock);
    dq->open -= n;
    if (dq->stopping)
        pthread_cond_broadcast(&dq->changed);
    return true;
}

void *device_queue_main(void *arg)
{
    struct device_queue *dq = arg;

    pthread_mutex_lock(&dq->lock);
    for (;;) {
        if (run_turn(dq))
            continue;
        if (dq->ending)
            break;
        dq->asleep = true;
        pthread_cond_wait(&dq->wake, &dq->lock);
        dq->asleep = false;
    }
    pthread_mutex_unlock(&dq->lock);
    return NULL;
}
