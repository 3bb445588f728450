/* SPDX-License-Identifier: MIT */
/* sched_lane: the thread of a device.
 *
 * Between two batches it runs what others want run on it, drops what nobody waits for any
 * more, and takes the next batch; with nothing to do it sleeps.  It never waits for a batch to
 * grow: on an idle lane a text runs at once, on a busy one others gather behind it.
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

static void deliver(const struct lane *l, struct text *t, size_t i, const struct err *why)
{
    const struct batch *b = l->batch;
    struct work *w = t->work;
    struct job *j = w->job;

    if (!j->started_ns)
        j->started_ns = j->submitted_ns > b->begun_ns ? j->submitted_ns : b->begun_ns;
    if (b->fell_back || !j->device)
        j->device = b->fell_back ? spare_device(b->queue->model) : l->device;
    if (b->fell_back) {
        j->fell_back = true;
        j->failed_device = l->device;
    }
    if (why) {
        t->item->failed = true;
        if (!w->err) {
            w->err = xmalloc(sizeof(*w->err));
            *w->err = *why;
        }
    } else {
        memcpy(t->item->out, batch_rows(b, i),
               batch_row_count(b, t) * b->queue->width * sizeof(*t->item->out));
    }
    t->state = TEXT_OVER;
    w->left--;
}

static void keep(struct sched *s, const struct batch *b, const struct text *t, size_t i)
{
    struct cache_key k = { .hash = { t->hash[0], t->hash[1] },
                           .model = b->queue->model->key,
                           .want = b->queue->want,
                           .tokens = t->item->tokens,
                           .skip = t->item->skip,
                           .ids = t->item->ids,
                           .types = t->types };

    counter_add(s->families.evictions, cache_put(s->cache, &k, batch_rows(b, i), b->queue->width));
}

/* Rows to everyone who waits for them; nobody can follow these texts any more. */
static void deliver_all(struct lane *l)
{
    struct batch *b = l->batch;
    /* another device's bits are not those that the key stands for */
    bool cached = l->sched->cache && b->queue->want != ENG_TOKENS && !b->fell_back;

    for (size_t i = 0; i < b->count; i++) {
        struct text *t = b->texts[i];
        if (cached && !t->err)
            keep(l->sched, b, t, i);
        for (struct text *f = t->followers; f; f = f->next) {
            f->item->shared = true;
            deliver(l, f, i, t->err);
        }
        deliver(l, t, i, t->err);
    }
    if (cached)
        gauge_set(l->sched->families.cache_bytes, (double)cache_stats(l->sched->cache).bytes);
}

/* Which jobs end with this batch: those that have all, and those of a text that failed.  The
 * lock is held. */
static void end_work(struct lane *l, struct work *w)
{
    if (!w->over && !w->running && (!w->left || w->err))
        work_end(l, w, w->err ? RC_FAIL : RC_OK);
}

static void end_works(struct lane *l)
{
    struct batch *b = l->batch;

    for (size_t i = 0; i < b->count; i++) {
        struct text *t = b->texts[i];
        for (struct text *f = t->followers, *next; f; f = next) {
            next = f->next;
            end_work(l, f->work);
        }
        t->work->running--;
        free(t->err);
        t->err = NULL;
        end_work(l, t->work);
    }
}

/* ---- between batches */

static void run_calls(struct lane *l)
{
    for (struct lane_call *c; (c = l->calls);) {
        l->calls = c->next;
        pthread_mutex_unlock(&l->lock);
        c->fn(c->arg);
        pthread_mutex_lock(&l->lock);
        c->over = true;
        pthread_cond_broadcast(&l->changed);
    }
}

/* Taken in before the model's speed was known, and too large for its deadline. */
static enum rc hopeless(struct lane *l, struct work *w, int64_t now_ns)
{
    struct err err = { 0 };
    enum rc rc = admit_again(l, w, now_ns, &err);

    if (rc != RC_OK) {
        w->err = xmalloc(sizeof(*w->err));
        *w->err = err;
    }
    return rc;
}

/* Deadlines are looked at when the next one is over, flags of those who cancelled now and
 * then, or when somebody says so. */
static void sweep(struct lane *l, int64_t now_ns)
{
    bool told = atomic_exchange(&l->sweep, false) || l->stopping;

    if (!told && now_ns < l->deadline_ns && now_ns - l->swept_ns < SCHED_SWEEP_NS)
        return;
    l->swept_ns = now_ns;
    l->deadline_ns = INT64_MAX;
    for (struct work *w = l->works, *next; w; w = next) {
        enum rc why = work_dead(w, now_ns);
        int64_t deadline = w->job->deadline_ns;
        next = w->next;
        if (why == RC_OK && l->stopping)
            why = RC_LIMIT;
        if (why == RC_OK && !w->running && !w->err)
            why = hopeless(l, w, now_ns);
        if (why != RC_OK && w->running)
            atomic_store(&l->sweep, true); /* after that batch */
        else if (why != RC_OK)
            work_end(l, w, why);
        else if (deadline && deadline < l->deadline_ns)
            l->deadline_ns = deadline;
    }
}

/* Tells those whose jobs ended; without the lock.  Returns how many. */
static size_t call_done(struct lane *l)
{
    size_t n = 0;
    struct work *w = l->ended, *next;

    l->ended = NULL;
    l->ended_end = &l->ended;
    for (; w; w = next, n++) {
        struct job *j = w->job;
        struct err *err = w->err;
        enum rc why = w->why;
        next = w->ended;
        j->ended_ns = clock_mono_ns();
        j->own = NULL;
        free(w);
        j->done(j, why, err);
        free(err);
    }
    return n;
}

/* ---- a batch from its start to its end */

/* Rows to those who wait for them; the batch is empty then.  Returns how many jobs ended. */
static size_t hand_out(struct lane *l)
{
    struct batch *b = l->batch;

    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < b->count; i++)
        text_forget(l, b->texts[i]);
    l->running_tokens -= b->tokens;
    b->queue->running -= b->tokens;
    pace_add(&b->queue->seen->pace, b->tokens, b->begun_ns, b->ended_ns);
    pthread_mutex_unlock(&l->lock);
    deliver_all(l);
    meter_batch(l);
    trace_add(l);
    pthread_mutex_lock(&l->lock);
    end_works(l);
    b->state = BATCH_EMPTY;
    pthread_mutex_unlock(&l->lock);
    if (b->out_cap * sizeof(*b->out) > SCHED_KEEP_BYTES_MAX) {
        free(b->out);
        b->out = NULL;
        b->out_cap = 0;
    }
    return call_done(l);
}

/* Onto the device, behind what is there; false: it is to be run when nothing is. */
static bool fly(struct lane *l)
{
    struct batch *b = l->batch;
    struct eng *e = batch_eng(b);
    struct eng_batch all = batch_texts(b);

    if (l->sched->o.run != eng_run || !eng_can_submit(e) || batch_rests(b) ||
        eng_submit(e, &all, b->queue->want, b->out, NULL))
        return false;
    b->state = BATCH_FLYING;
    if (!l->flying++)
        l->first = (size_t)(b - l->slots);
    return true;
}

/* Takes the next batch into one that is empty; the lock is held. */
static bool fill_next(struct lane *l, int64_t now_ns)
{
    static_assert(ENG_IN_FLIGHT == 2, "the one that is not the oldest is the youngest");
    for (size_t i = 0; i < ARRAY_SIZE(l->slots); i++)
        if (l->slots[i].state == BATCH_EMPTY) {
            l->batch = &l->slots[i];
            return batch_fill(l, now_ns);
        }
    return false;
}

/* Waits for the rows of the oldest batch; false: it was called away, since there is a whole one
 * to be submitted. */
static bool wait_for(struct lane *l, struct batch *b, bool room, enum rc *rc, struct err *err)
{
    struct eng *e = batch_eng(b);
    struct eng_batch all = batch_texts(b);
    bool done = false;

    pthread_mutex_lock(&l->lock);
    bool call = room && l->flying < ENG_IN_FLIGHT && !l->calls;
    if (call && batch_full_waits(l)) {
        pthread_mutex_unlock(&l->lock);
        return false;
    }
    l->waits = call ? e : NULL;
    pthread_mutex_unlock(&l->lock);
    do
        *rc = eng_collect(e, &all, b->queue->want, b->out, &done, err);
    while (!done && !call);
    pthread_mutex_lock(&l->lock);
    l->waits = NULL;
    pthread_mutex_unlock(&l->lock);
    return done;
}

static size_t begin(struct lane *l);

/* The oldest batch comes back.  `more`: the next one goes out before its rows are handed out. */
static size_t land(struct lane *l, bool more)
{
    struct batch *b = &l->slots[l->first], *next = NULL;
    struct err err = { 0 }, other = { 0 };
    enum rc rc = RC_OK;

    if (!wait_for(l, b, more, &rc, &err))
        return 0;
    b->begun_ns = b->begun_ns > l->ended_ns ? b->begun_ns : l->ended_ns; /* it was behind one */
    b->ended_ns = l->ended_ns = clock_mono_ns();
    l->flying--;
    l->first = (l->first + 1) % ENG_IN_FLIGHT;
    if (more && rc == RC_OK) {
        pthread_mutex_lock(&l->lock);
        next = !l->calls && fill_next(l, b->ended_ns) ? l->batch : NULL;
        pthread_mutex_unlock(&l->lock);
    }
    if (next)
        batch_prepare(next);
    bool flies = next && fly(l);
    l->batch = b;
    batch_judge(l, batch_check(b, rc, &err), &err, &other);
    if (rc != RC_OK)
        b->ended_ns = clock_mono_ns();
    size_t n = hand_out(l);
    l->batch = next;
    return next && !flies ? n + begin(l) : n;
}

/* The batch at hand: onto the device, or run here and now. */
static size_t begin(struct lane *l)
{
    struct batch *b = l->batch;
    size_t n = 0;

    batch_prepare(b);
    if (fly(l))
        return 0;
    while (l->flying)
        n += land(l, false);
    l->batch = b;
    batch_compute(l);
    return n + hand_out(l);
}

/* One turn, the lock held at both ends; false: there is nothing to do. */
static bool turn(struct lane *l)
{
    if (!l->flying)
        run_calls(l);
    queues_tidy(l);
    int64_t now = l->works ? clock_mono_ns() : 0;
    sweep(l, now);
    bool some = !l->calls && (!l->flying || batch_full_waits(l)) && fill_next(l, now);
    if (!some && !l->ended && !l->flying)
        return false;
    pthread_mutex_unlock(&l->lock);
    size_t n = call_done(l);
    if (some)
        n += begin(l);
    else if (l->flying)
        n += land(l, true);
    pthread_mutex_lock(&l->lock);
    l->open -= n;
    if (l->stopping)
        pthread_cond_broadcast(&l->changed);
    return true;
}

void *lane_main(void *arg)
{
    struct lane *l = arg;

    pthread_mutex_lock(&l->lock);
    for (;;) {
        if (turn(l))
            continue;
        if (l->ending)
            break;
        l->asleep = true;
        pthread_cond_wait(&l->wake, &l->lock);
        l->asleep = false;
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}
