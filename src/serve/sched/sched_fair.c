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

static bool goes_first(const struct sched_turn *a, const struct sched_turn *b)
{
    double x = a->tag + a->size, y = b->tag + b->size;

    return x != y ? x < y : a->came < b->came;
}

static void settle_at(struct sched_heap *h, struct sched_turn *t, size_t i)
{
    h->cells[i] = t;
    t->at = i;
}

static void sift_turn(struct sched_heap *h, struct sched_turn *t)
{
    size_t i = t->at;

    for (; i > 1 && goes_first(t, h->cells[i / 2]); i /= 2)
        settle_at(h, h->cells[i / 2], i);
    for (size_t c; (c = 2 * i) <= h->count; i = c) {
        if (c < h->count && goes_first(h->cells[c + 1], h->cells[c]))
            c++;
        if (!goes_first(h->cells[c], t))
            break;
        settle_at(h, h->cells[c], i);
    }
    settle_at(h, t, i);
}

static void heap_put(struct sched_heap *h, struct sched_turn *t)
{
    assert(!t->at);
    if (h->count + 1 >= h->cap) {
        h->cap = h->cap ? 2 * h->cap : SCHED_CELLS_MIN;
        h->cells = xreallocarray(h->cells, h->cap, sizeof(*h->cells));
    }
    settle_at(h, t, ++h->count);
    sift_turn(h, t);
}

static void heap_take(struct sched_heap *h, struct sched_turn *t)
{
    struct sched_turn *last = h->cells[h->count--];
    size_t i = t->at;

    assert(i && h->cells[i] == t);
    t->at = 0;
    if (last == t)
        return;
    settle_at(h, last, i);
    sift_turn(h, last);
}

/* ---- clients */

static struct sched_client *client_of(struct device_queue *dq, struct class_queue *c, uint64_t key)
{
    struct sched_client *o = c->clients;

    while (o && o->key != key)
        o = o->next;
    if (o)
        return o;
    o = dq->free_clients;
    if (o)
        dq->free_clients = o->next;
    else
        o = xcalloc(1, sizeof(*o));
    o->key = key;
    o->requests.now = 0;
    o->turn = (struct sched_turn){ .tag = c->turns.now, .came = dq->came };
    o->next = c->clients;
    c->clients = o;
    return o;
}

static void client_leave(struct device_queue *dq, struct class_queue *c, struct sched_client *o)
{
    struct sched_client **at = &c->clients;

    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    o->next = dq->free_clients;
    dq->free_clients = o;
}

void clients_free(struct device_queue *dq)
{
    for (struct sched_client *o = dq->free_clients, *next; o; o = next) {
        next = o->next;
        free(o->requests.cells);
        free(o);
    }
}

/* ---- requests */

static struct class_queue *class_of(const struct request *r)
{
    return &r->queue->classes[r->class];
}

static struct request *request_at(struct sched_turn *t)
{
    return (struct request *)((char *)t - offsetof(struct request, turn));
}

/* The client stands where its next request lets it stand. */
static void client_sift(struct class_queue *c, struct sched_client *o)
{
    if (!o->requests.count) {
        if (o->turn.at)
            heap_take(&c->turns, &o->turn);
        return;
    }
    o->turn.size = o->requests.cells[1]->size;
    if (o->turn.at)
        sift_turn(&c->turns, &o->turn);
    else
        heap_put(&c->turns, &o->turn);
}

static void request_size(struct request *r)
{
    size_t most = r->queue->budget / SCHED_LITTLE;

    r->turn.size = (double)(r->waiting_tokens < most ? r->waiting_tokens : most);
}

void fair_enter(struct device_queue *dq, struct request *r)
{
    struct class_queue *c = class_of(r);
    struct sched_client *o = client_of(dq, c, r->client);

    assert(!r->sharer);
    r->sharer = o;
    if (!r->turn.came)
        r->turn.came = ++dq->came;
    if (r->turn.tag < o->requests.now)
        r->turn.tag = o->requests.now;
    o->count++;
    fair_put_back(r);
}

void fair_set_aside(struct request *r)
{
    heap_take(&r->sharer->requests, &r->turn);
    client_sift(class_of(r), r->sharer);
}

void fair_put_back(struct request *r)
{
    request_size(r);
    heap_put(&r->sharer->requests, &r->turn);
    client_sift(class_of(r), r->sharer);
}

void fair_change(struct request *r)
{
    request_size(r);
    if (r->turn.at) {
        sift_turn(&r->sharer->requests, &r->turn);
        client_sift(class_of(r), r->sharer);
    }
}

void fair_leave(struct device_queue *dq, struct request *r)
{
    struct sched_client *o = r->sharer;

    if (r->turn.at)
        fair_set_aside(r);
    r->sharer = NULL;
    if (!--o->count)
        client_leave(dq, class_of(r), o);
}

struct request *fair_next(const struct class_queue *c)
{
    const struct sched_client *o;

    if (!c->turns.count)
        return NULL;
    o = (const struct sched_client *)((const char *)c->turns.cells[1] -
                                      offsetof(struct sched_client, turn));
    return request_at(o->requests.cells[1]);
}

void fair_charge(struct request *r, size_t tokens)
{
    struct sched_client *o = r->sharer;

    class_of(r)->turns.now += (double)tokens / (double)class_of(r)->turns.count;
    o->requests.now += (double)tokens / (double)o->requests.count;
    o->turn.tag += (double)tokens;
    r->turn.tag += (double)tokens;
}
