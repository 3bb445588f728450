/* SPDX-License-Identifier: MIT */
/* sched_batch: which texts make the next batch.
 *
 * The class first: interactive, but every SCHED_BULK_EVERYth batch is bulk's when both wait.
 * Then the queue: of those with texts of that class, the one that ran longest ago.  Then the
 * texts, until the budget is full:
 *
 *   1. the oldest, always; and those after it, as long as they are due
 *   2. of the same class, by nearness in length, the oldest of a length first; in the end
 *      these are shorter ones that fill what is left
 *   3. of the other class, likewise.  Bulk texts join an interactive batch only when it is at
 *      least half full: else those who hurry would wait for those who do not.
 *
 * There is no padding, so lengths cost nothing by themselves; texts of one length keep the
 * rows of an engine's attention equal and let short texts fill the end. */
#include "base/mem.h"
#include "serve/sched_int.h"

#include <assert.h>

enum rc work_dead(const struct work *w, int64_t now_ns)
{
    if (atomic_load_explicit(&w->job->cancelled, memory_order_relaxed))
        return RC_LIMIT;
    return w->job->deadline_ns && w->job->deadline_ns <= now_ns ? RC_TIMEOUT : RC_OK;
}

/* ---- which queue */

static struct lane_queue *longest_ago(struct lane *l, enum ask_class class)
{
    struct lane_queue *best = NULL;

    for (struct lane_queue *q = l->queues; q; q = q->next)
        if (q->classes[class].oldest &&
            (!best || q->classes[class].ran <= best->classes[class].ran))
            best = q; /* of equals the one that came first, which is last in the list */
    return best;
}

static struct lane_queue *choose(struct lane *l, enum ask_class *out)
{
    struct lane_queue *hurry = longest_ago(l, ASK_INTERACTIVE), *bulk = longest_ago(l, ASK_BULK);
    bool take_bulk = bulk && (!hurry || l->since_bulk >= SCHED_BULK_EVERY - 1);

    *out = take_bulk ? ASK_BULK : ASK_INTERACTIVE;
    return take_bulk ? bulk : hurry;
}

/* ---- which texts */

static bool fits(const struct batch *b, const struct text *t)
{
    return !b->count ||
           (b->count < b->queue->texts_max && b->tokens + t->item->tokens <= b->queue->budget);
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
    text_leave(l, t);
    t->state = TEXT_RUNNING;
    t->work->running++;
    VEC_GROW(b->texts, b->count, b->cap);
    b->texts[b->count++] = t;
    b->tokens += t->item->tokens;
}

static void fill_by_age(struct lane *l, struct class_queue *c, int64_t now_ns)
{
    struct batch *b = l->batch;

    for (struct text *t; (t = c->oldest) && (!b->count || t->due <= c->turn) && fits(b, t);)
        take(l, t, now_ns);
}

/* The oldest of a bucket that fits; NULL: none of the first ones does. */
static struct text *fitting(const struct batch *b, struct text *t)
{
    for (size_t i = 0; t && i < SCHED_LOOK_MAX; i++, t = t->next)
        if (fits(b, t))
            return t;
    return NULL;
}

/* The nearest bucket to `at` of those in `used`. */
static size_t nearest(uint64_t used, size_t at)
{
    uint64_t low = used & (UINT64_MAX >> (SCHED_BUCKETS - 1 - at)), high = used & ~low;
    size_t below = low ? 63 - (size_t)__builtin_clzll(low) : 0;
    size_t above = high ? (size_t)__builtin_ctzll(high) : 0;

    if (!low || !high)
        return low ? below : above;
    return at - below <= above - at ? below : above;
}

static void fill_by_length(struct lane *l, struct class_queue *c, int64_t now_ns)
{
    struct batch *b = l->batch;
    uint64_t closed = 0; /* buckets that had nothing that fits: there is less room from here on */

    if (!b->count)
        return;
    size_t at = bucket_of(b->texts[0]->item->tokens);
    while ((c->used & ~closed) && b->tokens < b->queue->budget) {
        size_t i = nearest(c->used & ~closed, at);
        struct text *t = fitting(b, c->first[i]);
        if (t)
            take(l, t, now_ns);
        else
            closed |= UINT64_C(1) << i;
    }
}

static void fill(struct lane *l, struct lane_queue *q, enum ask_class class, int64_t now_ns)
{
    struct batch *b = l->batch;
    struct class_queue *mine = &q->classes[class], *other = &q->classes[!class];

    b->queue = q;
    b->class = class;
    b->count = b->tokens = b->failures = 0;
    mine->turn++;
    fill_by_age(l, mine, now_ns);
    fill_by_length(l, mine, now_ns);
    if (class == ASK_BULK || b->tokens >= q->budget / 2)
        fill_by_length(l, other, now_ns);
    if (b->count) {
        mine->ran = ++l->batches;
        l->since_bulk = class == ASK_BULK ? 0 : l->since_bulk + 1;
    } else {
        mine->turn--; /* all were dead */
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

bool queue_full(const struct lane_queue *q)
{
    return q->classes[ASK_INTERACTIVE].tokens + q->classes[ASK_BULK].tokens >= q->budget;
}

bool batch_full_waits(const struct lane *l)
{
    for (const struct lane_queue *q = l->queues; q; q = q->next)
        if (queue_full(q))
            return true;
    return false;
}
