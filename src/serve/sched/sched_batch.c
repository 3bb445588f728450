/* SPDX-License-Identifier: MIT */
/* sched_batch: which texts make the next batch.
 *
 * The class first: interactive, but of SCHED_BULK_EVERY tokens one is bulk's when both wait.
 * Then the queue: of those with texts of that class, the one that ran longest ago.  Then the
 * texts, until the room is filled:
 *
 *   1. of the same class, by turns (sched_fair.c): the longest that the request has, or the
 *      shortest where that does not fit; a request without one that fits is passed over
 *   2. of the other class, likewise.  Bulk texts join an interactive batch only when it is at
 *      least half full: else those who hurry would wait for those who do not.
 *
 * The room is what runs within the time of a batch, so that whoever comes waits for no more than
 * that; there is no padding, so lengths cost nothing by themselves. */
#include "base/mem.h"
#include "serve/sched/device_queue_int.h"

#include <assert.h>
#include <math.h>

enum rc request_dead(const struct request *r, int64_t now_ns)
{
    if (atomic_load_explicit(&r->cancelled, memory_order_relaxed) ||
        (r->gone && atomic_load_explicit(r->gone, memory_order_relaxed)))
        return RC_LIMIT;
    return r->deadline_ns && r->deadline_ns <= now_ns ? RC_TIMEOUT : RC_OK;
}

/* ---- which queue */

static struct model_queue *longest_ago(struct device_queue *dq, enum request_class class)
{
    struct model_queue *best = NULL;

    for (struct model_queue *q = dq->queues; q; q = q->next)
        if (q->classes[class].tokens &&
            (!best || q->classes[class].ran <= best->classes[class].ran))
            best = q; /* of equals the one that came first, which is last in the list */
    return best;
}

/* Have those who hurry had their share of what its next batch takes? */
static bool bulk_is_due(const struct device_queue *dq, struct model_queue *q)
{
    double next = fmin((double)q->classes[REQUEST_BULK].tokens, (double)queue_room(dq, q));

    return dq->hurried + next / 2 >= (SCHED_BULK_EVERY - 1) * next;
}

static struct model_queue *choose_queue(struct device_queue *dq, enum request_class *out)
{
    struct model_queue *hurry = longest_ago(dq, REQUEST_INTERACTIVE),
                       *bulk = longest_ago(dq, REQUEST_BULK);
    bool take_bulk = bulk && (!hurry || bulk_is_due(dq, bulk));

    *out = take_bulk ? REQUEST_BULK : REQUEST_INTERACTIVE;
    return take_bulk ? bulk : hurry;
}

/* ---- which texts */

static bool text_fits(const struct sched_batch *b, const struct request_text *t)
{
    return !b->count || (b->count < b->queue->texts_max && b->tokens + t->tokens <= b->room);
}

/* A dead request's text is not taken: the request ends, and something else stands in its place. */
static void take_text(struct device_queue *dq, struct request_text *t, int64_t now_ns)
{
    struct sched_batch *b = dq->batch;
    enum rc why = t->request->running ? RC_OK : request_dead(t->request, now_ns);

    if (why != RC_OK) {
        request_end(dq, t->request, why);
        return;
    }
    fair_charge(t->request, t->tokens);
    text_leave(dq, t);
    t->state = TEXT_RUNNING;
    t->request->running++;
    VEC_GROW(b->texts, b->count, b->cap);
    b->texts[b->count++] = t;
    b->tokens += t->tokens;
}

static void fill_by_turns(struct device_queue *dq, struct class_queue *c, int64_t now_ns)
{
    struct request *aside[SCHED_LOOK_MAX], *r;
    struct sched_batch *b = dq->batch;
    size_t n = 0;

    while (b->tokens < b->room && n < SCHED_LOOK_MAX && (r = fair_next(c))) {
        struct request_text *t = text_fits(b, r->waiting_first)  ? r->waiting_first
                                 : text_fits(b, r->waiting_last) ? r->waiting_last
                                                                 : NULL;
        if (t) {
            take_text(dq, t, now_ns);
        } else {
            fair_set_aside(r);
            aside[n++] = r;
        }
    }
    while (n)
        fair_put_back(aside[--n]);
}

static void fill_batch(struct device_queue *dq, struct model_queue *q, enum request_class class,
                       int64_t now_ns)
{
    struct sched_batch *b = dq->batch;
    struct class_queue *mine = &q->classes[class], *other = &q->classes[!class];

    b->queue = q;
    b->class = class;
    b->count = b->tokens = b->failures = 0;
    b->room = class == REQUEST_BULK ? queue_room_now(dq, q) : queue_room(dq, q);
    fill_by_turns(dq, mine, now_ns);
    if (b->count && (class == REQUEST_BULK || b->tokens >= b->room / 2))
        fill_by_turns(dq, other, now_ns);
    if (b->count) { /* else all were dead */
        mine->ran = ++dq->batches;
        /* a small batch takes its time too */
        dq->hurried =
            class == REQUEST_BULK ? 0 : dq->hurried + fmax((double)b->tokens, (double)b->room / 8);
    }
    meter_queue(q->record);
}

bool batch_fill(struct device_queue *dq, int64_t now_ns)
{
    enum request_class class;
    struct model_queue *q;

    static_assert(REQUEST_INTERACTIVE == 0 && REQUEST_BULK == 1, "the other class is !class");
    assert(dq->batch->state == BATCH_EMPTY);
    dq->batch->count = 0;
    while (!dq->batch->count && (q = choose_queue(dq, &class)))
        fill_batch(dq, q, class, now_ns);
    if (!dq->batch->count)
        return false;
    dq->batch->state = BATCH_FILLED;
    dq->batch->queue->running += dq->batch->tokens;
    dq->running_tokens += dq->batch->tokens;
    return true;
}

bool queue_full(const struct device_queue *dq, struct model_queue *q)
{
    return q->classes[REQUEST_INTERACTIVE].tokens + q->classes[REQUEST_BULK].tokens >=
           queue_room(dq, q);
}

bool batch_full_waits(const struct device_queue *dq)
{
    for (struct model_queue *q = dq->queues; q; q = q->next)
        if (queue_full(dq, q))
            return true;
    return false;
}
