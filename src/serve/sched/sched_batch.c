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

enum rc work_dead(const struct work *w, int64_t now_ns)
{
    if (atomic_load_explicit(&w->job->cancelled, memory_order_relaxed) ||
        (w->job->gone && atomic_load_explicit(w->job->gone, memory_order_relaxed)))
        return RC_LIMIT;
    return w->job->deadline_ns && w->job->deadline_ns <= now_ns ? RC_TIMEOUT : RC_OK;
}

/* ---- which queue */

static struct lane_queue *longest_ago(struct lane *l, enum ask_class class)
{
    struct lane_queue *best = NULL;

    for (struct lane_queue *q = l->queues; q; q = q->next)
        if (q->classes[class].tokens &&
            (!best || q->classes[class].ran <= best->classes[class].ran))
            best = q; /* of equals the one that came first, which is last in the list */
    return best;
}

/* Have those who hurry had their share of what its next batch takes? */
static bool bulk_is_due(const struct lane *l, struct lane_queue *q)
{
    double next = fmin((double)q->classes[ASK_BULK].tokens, (double)queue_room(l, q));

    return l->hurried + next / 2 >= (SCHED_BULK_EVERY - 1) * next;
}

static struct lane_queue *choose(struct lane *l, enum ask_class *out)
{
    struct lane_queue *hurry = longest_ago(l, ASK_INTERACTIVE), *bulk = longest_ago(l, ASK_BULK);
    bool take_bulk = bulk && (!hurry || bulk_is_due(l, bulk));

    *out = take_bulk ? ASK_BULK : ASK_INTERACTIVE;
    return take_bulk ? bulk : hurry;
}

/* ---- which texts */

static bool fits(const struct batch *b, const struct text *t)
{
    return !b->count || (b->count < b->queue->texts_max && b->tokens + t->item->tokens <= b->room);
}

/* A dead job's text is not taken: the job ends, and something else stands in its place. */
static void take(struct lane *l, struct text *t, int64_t now_ns)
{
    struct batch *b = l->batch;
    enum rc why = t->work->running ? RC_OK : work_dead(t->work, now_ns);

    if (why != RC_OK) {
        work_end(l, t->work, why);
        return;
    }
    fair_charge(t->work, t->item->tokens);
    text_leave(l, t);
    t->state = TEXT_RUNNING;
    t->work->running++;
    VEC_GROW(b->texts, b->count, b->cap);
    b->texts[b->count++] = t;
    b->tokens += t->item->tokens;
}

static struct text *fitting(const struct batch *b, const struct work *w)
{
    return fits(b, w->first) ? w->first : fits(b, w->last) ? w->last : NULL;
}

static void fill_by_turns(struct lane *l, struct class_queue *c, int64_t now_ns)
{
    struct work *aside[SCHED_LOOK_MAX], *w;
    struct batch *b = l->batch;
    size_t n = 0;

    while (b->tokens < b->room && n < SCHED_LOOK_MAX && (w = fair_next(c))) {
        struct text *t = fitting(b, w);
        if (t) {
            take(l, t, now_ns);
        } else {
            fair_set_aside(w);
            aside[n++] = w;
        }
    }
    while (n)
        fair_put_back(aside[--n]);
}

static void fill(struct lane *l, struct lane_queue *q, enum ask_class class, int64_t now_ns)
{
    struct batch *b = l->batch;
    struct class_queue *mine = &q->classes[class], *other = &q->classes[!class];

    b->queue = q;
    b->class = class;
    b->count = b->tokens = b->failures = 0;
    b->room = class == ASK_BULK ? queue_room_now(l, q) : queue_room(l, q);
    fill_by_turns(l, mine, now_ns);
    if (b->count && (class == ASK_BULK || b->tokens >= b->room / 2))
        fill_by_turns(l, other, now_ns);
    if (b->count) { /* else all were dead */
        mine->ran = ++l->batches;
        /* a small batch takes its time too */
        l->hurried =
            class == ASK_BULK ? 0 : l->hurried + fmax((double)b->tokens, (double)b->room / 8);
    }
    meter_queue(q->seen);
}

bool batch_fill(struct lane *l, int64_t now_ns)
{
    enum ask_class class;
    struct lane_queue *q;

    static_assert(ASK_INTERACTIVE == 0 && ASK_BULK == 1, "the other class is !class");
    assert(l->batch->state == BATCH_EMPTY);
    l->batch->count = 0;
    while (!l->batch->count && (q = choose(l, &class)))
        fill(l, q, class, now_ns);
    if (!l->batch->count)
        return false;
    l->batch->state = BATCH_FILLED;
    l->batch->queue->running += l->batch->tokens;
    l->running_tokens += l->batch->tokens;
    return true;
}

bool queue_full(const struct lane *l, struct lane_queue *q)
{
    return q->classes[ASK_INTERACTIVE].tokens + q->classes[ASK_BULK].tokens >= queue_room(l, q);
}

bool batch_full_waits(const struct lane *l)
{
    for (struct lane_queue *q = l->queues; q; q = q->next)
        if (queue_full(l, q))
            return true;
    return false;
}
