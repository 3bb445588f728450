/* SPDX-License-Identifier: MIT */
/* sched_fair: whose turn it is.
 *
 * A class of a queue has clients, a client has requests, a request has texts.  Each level shares
 * by tokens: every client has a tag that grows by the tokens it is given, and one that was away
 * begins where it would be had it shared all along.  Served is the one whose tag and next request
 * together are least, and within it, by the same rule, a request.  So
 *
 *   - two clients that always want something get the same number of tokens, whatever the number
 *     and size of their requests;
 *   - nobody waits for the rest of another's large request: each has its share at once;
 *   - of those that are equally far, who wants little is served first: it costs the others little.
 *     More than a part of a batch is not little, so large requests do not wait for small ones
 *     without end.
 *
 * Deficit round robin gives the same shares, but a newcomer waits there for the end of a round,
 * which with many clients is many batches. */
#include "base/mem.h"
#include "serve/sched/device_queue_int.h"

#include <assert.h>

/* ---- heaps */

static bool before(const struct turn *a, const struct turn *b)
{
    double x = a->tag + a->size, y = b->tag + b->size;

    return x != y ? x < y : a->came < b->came;
}

static void settle_at(struct turn_heap *h, struct turn *t, size_t i)
{
    h->cells[i] = t;
    t->at = i;
}

static void sift(struct turn_heap *h, struct turn *t)
{
    size_t i = t->at;

    for (; i > 1 && before(t, h->cells[i / 2]); i /= 2)
        settle_at(h, h->cells[i / 2], i);
    for (size_t c; (c = 2 * i) <= h->count; i = c) {
        if (c < h->count && before(h->cells[c + 1], h->cells[c]))
            c++;
        if (!before(h->cells[c], t))
            break;
        settle_at(h, h->cells[c], i);
    }
    settle_at(h, t, i);
}

static void heap_put(struct turn_heap *h, struct turn *t)
{
    assert(!t->at);
    if (h->count + 1 >= h->cap) {
        h->cap = h->cap ? 2 * h->cap : SCHED_CELLS_MIN;
        h->cells = xreallocarray(h->cells, h->cap, sizeof(*h->cells));
    }
    settle_at(h, t, ++h->count);
    sift(h, t);
}

static void heap_take(struct turn_heap *h, struct turn *t)
{
    struct turn *last = h->cells[h->count--];
    size_t i = t->at;

    assert(i && h->cells[i] == t);
    t->at = 0;
    if (last == t)
        return;
    settle_at(h, last, i);
    sift(h, last);
}

/* ---- clients */

static struct client *client_of(struct lane *l, struct class_queue *c, uint64_t key)
{
    struct client *o = c->clients;

    while (o && o->key != key)
        o = o->next;
    if (o)
        return o;
    o = l->spare_clients;
    if (o)
        l->spare_clients = o->next;
    else
        o = xcalloc(1, sizeof(*o));
    o->key = key;
    o->works.now = 0;
    o->turn = (struct turn){ .tag = c->turns.now, .came = l->came };
    o->next = c->clients;
    c->clients = o;
    return o;
}

static void client_leave(struct lane *l, struct class_queue *c, struct client *o)
{
    struct client **at = &c->clients;

    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    o->next = l->spare_clients;
    l->spare_clients = o;
}

void clients_free(struct lane *l)
{
    for (struct client *o = l->spare_clients, *next; o; o = next) {
        next = o->next;
        free(o->works.cells);
        free(o);
    }
}

/* ---- requests */

static struct class_queue *class_of(const struct work *w)
{
    return &w->queue->classes[w->class];
}

static struct work *work_at(struct turn *t)
{
    return (struct work *)((char *)t - offsetof(struct work, turn));
}

/* The client stands where its next request lets it stand. */
static void client_sift(struct class_queue *c, struct client *o)
{
    if (!o->works.count) {
        if (o->turn.at)
            heap_take(&c->turns, &o->turn);
        return;
    }
    o->turn.size = o->works.cells[1]->size;
    if (o->turn.at)
        sift(&c->turns, &o->turn);
    else
        heap_put(&c->turns, &o->turn);
}

static void work_size(struct work *w)
{
    size_t most = w->queue->budget / SCHED_LITTLE;

    w->turn.size = (double)(w->tokens < most ? w->tokens : most);
}

void fair_enter(struct lane *l, struct work *w)
{
    struct class_queue *c = class_of(w);
    struct client *o = client_of(l, c, w->job->client);

    assert(!w->client);
    w->client = o;
    if (!w->turn.came)
        w->turn.came = ++l->came;
    if (w->turn.tag < o->works.now)
        w->turn.tag = o->works.now;
    o->count++;
    fair_put_back(w);
}

void fair_set_aside(struct work *w)
{
    heap_take(&w->client->works, &w->turn);
    client_sift(class_of(w), w->client);
}

void fair_put_back(struct work *w)
{
    work_size(w);
    heap_put(&w->client->works, &w->turn);
    client_sift(class_of(w), w->client);
}

void fair_change(struct work *w)
{
    work_size(w);
    if (w->turn.at) {
        sift(&w->client->works, &w->turn);
        client_sift(class_of(w), w->client);
    }
}

void fair_leave(struct lane *l, struct work *w)
{
    struct client *o = w->client;

    if (w->turn.at)
        fair_set_aside(w);
    w->client = NULL;
    if (!--o->count)
        client_leave(l, class_of(w), o);
}

struct work *fair_next(const struct class_queue *c)
{
    const struct client *o;

    if (!c->turns.count)
        return NULL;
    o = (const struct client *)((const char *)c->turns.cells[1] - offsetof(struct client, turn));
    return work_at(o->works.cells[1]);
}

void fair_charge(struct work *w, size_t tokens)
{
    struct client *o = w->client;

    class_of(w)->turns.now += (double)tokens / (double)class_of(w)->turns.count;
    o->works.now += (double)tokens / (double)o->works.count;
    o->turn.tag += (double)tokens;
    w->turn.tag += (double)tokens;
}
