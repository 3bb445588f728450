/* SPDX-License-Identifier: MIT */
/* sched_lane: the thread of a device.
 *
 * Between two batches it runs what others want run on it, drops what nobody waits for any
 * more, and takes the next batch; with nothing to do it sleeps.  It never waits for a batch to
 * grow: on an idle lane a text runs at once, on a busy one others gather behind it.
 *
 * A batch that fails is run again text by text, so that a text which cannot be computed costs
 * its own job alone. */
#include "base/mem.h"
#include "os/clock.h"
#include "serve/sched_int.h"

#include <assert.h>

/* ---- running */

static void *grown(void *p, size_t need, size_t *cap, size_t size)
{
    if (need <= *cap)
        return p;
    *cap = need;
    free(p);
    return xreallocarray(NULL, need, size);
}

static size_t row_count(const struct batch *b, const struct text *t)
{
    return b->queue->want == ENG_TOKENS ? t->item->tokens : 1;
}

/* The rows of text i. */
static float *rows_of(const struct batch *b, size_t i)
{
    size_t row = b->queue->want == ENG_TOKENS ? b->starts[i] : i;

    return b->out + row * b->queue->width;
}

static void make_room(struct batch *b)
{
    size_t rows = b->queue->want == ENG_TOKENS ? b->tokens : b->count;

    if (b->tokens > b->tokens_cap) {
        size_t cap = b->tokens_cap;
        b->types = grown(b->types, b->tokens, &cap, sizeof(*b->types));
        b->ids = grown(b->ids, b->tokens, &b->tokens_cap, sizeof(*b->ids));
    }
    b->starts = grown(b->starts, b->count + 1, &b->starts_cap, sizeof(*b->starts));
    b->skips = grown(b->skips, b->count, &b->skips_cap, sizeof(*b->skips));
    b->out = grown(b->out, rows * b->queue->width, &b->out_cap, sizeof(*b->out));
}

/* Copies ids and types behind one another. */
static void pack(struct batch *b)
{
    uint32_t at = 0;

    b->typed = b->skipping = false;
    for (size_t i = 0; i < b->count; i++) {
        const struct text *t = b->texts[i];
        uint32_t n = t->item->tokens;
        b->starts[i] = at;
        b->skips[i] = t->item->skip;
        memcpy(b->ids + at, t->item->ids, n * sizeof(*b->ids));
        if (t->types)
            memcpy(b->types + at, t->types, n);
        else
            memset(b->types + at, 0, n);
        b->typed |= t->types != NULL;
        b->skipping |= t->item->skip != 0;
        at += n;
    }
    b->starts[b->count] = at;
    assert(at == b->tokens);
}

static bool all_finite(const float *v, size_t n)
{
    const uint32_t exponent = 0x7f800000; /* all ones for NaN and infinity alone */
    uint32_t odd = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &v[i], sizeof(bits));
        odd |= (bits & exponent) == exponent;
    }
    return !odd;
}

static enum rc check_finite(const struct batch *b, size_t i, struct err *err)
{
    if (all_finite(rows_of(b, i), row_count(b, b->texts[i]) * b->queue->width))
        return RC_OK;
    return err_set(err, RC_FAIL, "model '%s' gave a number that is not finite",
                   b->queue->model->name);
}

static void fail_text(struct batch *b, size_t i, const struct err *err)
{
    struct text *t = b->texts[i];

    t->err = xmalloc(sizeof(*t->err));
    *t->err = *err;
    b->failures++;
}

static struct eng_batch texts_of(const struct batch *b)
{
    return (struct eng_batch){ .ids = b->ids,
                               .types = b->typed ? b->types : NULL,
                               .starts = b->starts,
                               .sequences = b->count,
                               .skip = b->skipping ? b->skips : NULL };
}

static void run_singly(struct lane *l, struct eng *e)
{
    struct batch *b = &l->batch;

    for (size_t i = 0; i < b->count; i++) {
        uint32_t at = b->starts[i], starts[2] = { 0, b->starts[i + 1] - at };
        struct eng_batch one = { .ids = b->ids + at,
                                 .types = b->typed ? b->types + at : NULL,
                                 .starts = starts,
                                 .sequences = 1,
                                 .skip = b->skipping ? b->skips + i : NULL };
        struct err err = { 0 };
        enum rc rc = l->sched->o.run(e, &one, b->queue->want, rows_of(b, i), &err);
        if (rc == RC_OK)
            rc = check_finite(b, i, &err);
        else
            (void)err_set(&err, rc, "the engine failed"); /* if it gave no reason */
        if (rc != RC_OK)
            fail_text(b, i, &err);
    }
}

static enum rc run_all(struct lane *l, struct eng *e, struct err *err)
{
    struct batch *b = &l->batch;
    struct eng_batch all = texts_of(b);
    enum rc rc = l->sched->o.run(e, &all, b->queue->want, b->out, err);

    for (size_t i = 0; rc == RC_OK && i < b->count; i++)
        rc = check_finite(b, i, err);
    return rc;
}

/* What a failure costs: the one text, or each on its own. */
static void settle(struct lane *l, struct eng *e, enum rc rc, struct err *err)
{
    if (rc == RC_OK)
        return;
    if (l->batch.count > 1) {
        run_singly(l, e);
        return;
    }
    (void)err_set(err, rc, "the engine failed");
    fail_text(&l->batch, 0, err);
}

/* The device failed: it is left alone for a while, each time for longer. */
static void device_down(const struct batch *b)
{
    struct replica *r = b->queue->replica;
    int64_t most = (int64_t)SCHED_DEVICE_WAIT_MS_MAX * 1000000;

    r->wait_ns = r->wait_ns ? r->wait_ns * 2 : (int64_t)SCHED_DEVICE_WAIT_MS * 1000000;
    r->wait_ns = r->wait_ns < most ? r->wait_ns : most;
    atomic_store(&r->retry_ns, clock_mono_ns() + r->wait_ns);
    counter_add(b->queue->seen->meter.device_failures, 1);
}

static void device_up(struct replica *r)
{
    r->wait_ns = 0;
    atomic_store(&r->retry_ns, 0);
}

/* On the fallback; false: there is none to be had, and *err says why. */
static bool run_elsewhere(struct lane *l, struct err *err)
{
    struct batch *b = &l->batch;
    struct served *m = b->queue->model;
    struct err own = { 0 };
    struct eng *e = spare_take(m, err);

    if (!e)
        return false;
    b->fell_back = true;
    settle(l, e, run_all(l, e, &own), &own);
    spare_done(m);
    return true;
}

/* A model with a fallback.  A device that failed is not tried before its time, unless the
 * fallback cannot be had. */
static void run_either(struct lane *l)
{
    struct batch *b = &l->batch;
    struct replica *r = b->queue->replica;
    struct err err = { 0 }, other = { 0 };

    if (atomic_load(&r->retry_ns) > b->begun_ns && run_elsewhere(l, &other))
        return;
    enum rc rc = run_all(l, r->eng, &err);
    if (rc != RC_NODEV) {
        device_up(r);
        settle(l, r->eng, rc, &err);
        return;
    }
    device_down(b);
    if (other.code || !run_elsewhere(l, &other)) {
        (void)err_ctx(&other, "%s", err.msg);
        for (size_t i = 0; i < b->count; i++)
            fail_text(b, i, &other);
    }
}

static void run(struct lane *l)
{
    struct batch *b = &l->batch;
    struct replica *r = b->queue->replica;
    struct eng *e = r ? r->eng : b->queue->model->eng;
    struct err err = { 0 };

    make_room(b);
    pack(b);
    b->fell_back = false;
    b->begun_ns = clock_mono_ns();
    if (r && b->queue->model->spare)
        run_either(l);
    else
        settle(l, e, run_all(l, e, &err), &err);
    b->ended_ns = clock_mono_ns();
}

/* ---- handing out */

static void deliver(const struct lane *l, struct text *t, size_t i, const struct err *why)
{
    const struct batch *b = &l->batch;
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
        memcpy(t->item->out, rows_of(b, i),
               row_count(b, t) * b->queue->width * sizeof(*t->item->out));
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

    counter_add(s->families.evictions, cache_put(s->cache, &k, rows_of(b, i), b->queue->width));
}

/* Rows to everyone who waits for them; nobody can follow these texts any more. */
static void deliver_all(struct lane *l)
{
    struct batch *b = &l->batch;
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
    if (!w->over && (!w->left || w->err))
        work_end(l, w, w->err ? RC_FAIL : RC_OK);
}

static void end_works(struct lane *l)
{
    struct batch *b = &l->batch;

    for (size_t i = 0; i < b->count; i++) {
        struct text *t = b->texts[i];
        for (struct text *f = t->followers, *next; f; f = next) {
            next = f->next;
            end_work(l, f->work);
        }
        t->work->running = 0;
        free(t->err);
        t->err = NULL;
        end_work(l, t->work);
    }
}

/* ---- speed */

/* Small batches say little of how fast full ones are: what fades is measured in tokens. */
static void measure(struct lane *l)
{
    const struct batch *b = &l->batch;
    struct seen *m = b->queue->seen;
    double window = (double)b->queue->budget * SCHED_RATE_WINDOW;
    double stay = (double)b->tokens < window ? 1 - (double)b->tokens / window : 0;

    m->tokens = m->tokens * stay + (double)b->tokens;
    m->ns = m->ns * stay + (double)(b->ended_ns - b->begun_ns);
}

double seen_ns_per_token(const struct seen *m, size_t budget)
{
    return m->tokens >= (double)budget ? m->ns / m->tokens : 0;
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
        if (why != RC_OK)
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

static size_t run_batch(struct lane *l)
{
    struct batch *b = &l->batch;

    run(l);
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < b->count; i++)
        text_forget(l, b->texts[i]);
    l->running_tokens = 0;
    measure(l);
    pthread_mutex_unlock(&l->lock);
    deliver_all(l);
    meter_batch(l);
    trace_add(l);
    pthread_mutex_lock(&l->lock);
    end_works(l);
    pthread_mutex_unlock(&l->lock);
    if (b->out_cap * sizeof(*b->out) > SCHED_KEEP_BYTES_MAX) {
        free(b->out);
        b->out = NULL;
        b->out_cap = 0;
    }
    return call_done(l);
}

/* One turn, the lock held at both ends; false: there is nothing to do. */
static bool turn(struct lane *l)
{
    run_calls(l);
    queues_tidy(l);
    int64_t now = l->works ? clock_mono_ns() : 0;
    sweep(l, now);
    bool some = batch_fill(l, now);
    if (!some && !l->ended)
        return false;
    pthread_mutex_unlock(&l->lock);
    size_t n = call_done(l);
    if (some)
        n += run_batch(l);
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
