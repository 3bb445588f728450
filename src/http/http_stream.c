/* SPDX-License-Identifier: MIT */
/* stream: replies without an end.
 *
 * A stream is an exchange whose reply has a head and no length, on a connection that ends with
 * it.  Bytes go through the exchange, not straight to the socket:
 *
 *     http_stream_send() ─► more ─► hub's list ─► loop: body ─► client
 *
 * Several know of a stream at a time: its streamer, the connection, the hub's list of replies and
 * its list of streams.  Each is a hold, counted under the hub's lock, and the last one frees it;
 * so none has to know who else is left.  `waiting` counts what the client has not taken yet, in
 * `more` and in the loop's body; beyond HTTP_STREAM_BYTES_MAX the stream is flooded, and the loop
 * closes the connection. */
#include "http/http_int.h"

#include "base/mem.h"

#include <assert.h>

void http_stream_begin(struct http_exchange *x, const char *type, const char *fields)
{
    struct hub *h = x->hub;
    bool on_loop;

    exchange_answer_head(x, type, fields);
    buf_init(&x->more, HTTP_STREAM_BYTES_MAX);
    buf_init(&x->body, HTTP_STREAM_BYTES_MAX);
    pthread_mutex_lock(&h->lock);
    on_loop = h->has_loop && pthread_equal(h->loop, pthread_self());
    while (x->calling && !on_loop)
        pthread_cond_wait(&h->called, &h->lock);
    assert(!x->replied);
    x->replied = x->stream = true;
    x->on_gone = NULL;
    x->holds = 1; /* the streamer's */
    if (!atomic_load(&x->gone)) {
        x->holds += 2; /* the connection's, the list's */
        x->close = true;
        x->kept_alive = false;
        x->over = x->req.method == HTTP_HEAD;
        hub_put(h, x);
        if (!on_loop)
            hub_wake(h);
    }
    pthread_mutex_unlock(&h->lock);
}

/* Into the list of streams.  The lock is held, and the client is there. */
static void queue_stream(struct hub *h, struct http_exchange *x)
{
    if (x->queued)
        return;
    x->queued = true;
    x->holds++;
    x->next_stream = h->streams;
    h->streams = x;
    hub_wake(h);
}

bool http_stream_send(struct http_exchange *x, const void *data, size_t len)
{
    struct hub *h = x->hub;
    bool taken = false;

    assert(x->stream && !x->ended);
    pthread_mutex_lock(&h->lock);
    if (!atomic_load(&x->gone) && !x->flooded && !h->draining && x->req.method != HTTP_HEAD) {
        taken =
            len <= HTTP_STREAM_BYTES_MAX && atomic_load(&x->waiting) <= HTTP_STREAM_BYTES_MAX - len;
        if (taken) {
            buf_add(&x->more, data, len);
            atomic_fetch_add(&x->waiting, len);
        }
        x->flooded = !taken;
        queue_stream(h, x);
    }
    pthread_mutex_unlock(&h->lock);
    return taken;
}

bool http_stream_wait(struct http_exchange *x, size_t len)
{
    struct hub *h = x->hub;
    size_t most =
        len > HTTP_STREAM_BYTES_MAX / 2 ? HTTP_STREAM_BYTES_MAX - len : HTTP_STREAM_BYTES_MAX / 2;
    bool gone = true;

    assert(x->stream && !x->ended && len <= HTTP_STREAM_BYTES_MAX);
    pthread_mutex_lock(&h->lock);
    atomic_store(&x->pressed, true);
    while (!(gone = atomic_load(&x->gone) || x->flooded || h->draining) &&
           atomic_load(&x->waiting) > most)
        pthread_cond_wait(&h->moved, &h->lock);
    atomic_store(&x->pressed, false);
    pthread_mutex_unlock(&h->lock);
    return !gone;
}

void http_stream_end(struct http_exchange *x)
{
    struct hub *h = x->hub;

    pthread_mutex_lock(&h->lock);
    assert(x->stream && !x->ended);
    x->ended = true;
    if (!atomic_load(&x->gone))
        queue_stream(h, x);
    pthread_mutex_unlock(&h->lock);
    stream_drop(x);
}

/* ---- the loop's side */
void stream_drop(struct http_exchange *x)
{
    struct hub *h = x->hub;
    bool last;

    pthread_mutex_lock(&h->lock);
    assert(x->holds > 0);
    last = --x->holds == 0;
    pthread_mutex_unlock(&h->lock);
    if (last)
        exchange_free(x);
}

void stream_leave(struct http_exchange *x)
{
    pthread_mutex_lock(&x->hub->lock);
    x->conn = NULL;
    atomic_store(&x->gone, true);
    pthread_cond_broadcast(&x->hub->moved);
    pthread_mutex_unlock(&x->hub->lock);
    stream_drop(x);
}

void stream_sent(struct http_exchange *x, size_t n)
{
    size_t head = x->head_len - x->head_at, before = x->sent > head ? x->sent - head : 0;
    size_t after = x->sent + n > head ? x->sent + n - head : 0;

    atomic_fetch_sub(&x->waiting, after - before);
    if (after != before && atomic_load(&x->pressed)) {
        pthread_mutex_lock(&x->hub->lock);
        pthread_cond_broadcast(&x->hub->moved);
        pthread_mutex_unlock(&x->hub->lock);
    }
}

/* Forgets what has left, so that the body holds no more than what waits. */
static void forget_sent(struct http_exchange *x)
{
    size_t head = x->head_len - x->head_at, done;

    if (!x->prefixed || x->sent < head)
        return;
    done = x->sent - head;
    x->passed += x->sent;
    x->head_at = x->head_len;
    x->sent = 0;
    if (done)
        memmove(x->body.data, x->body.data + done, x->body.len - done);
    x->body.len -= done;
}

struct http_exchange *stream_next(struct hub *h, bool *out_flooded)
{
    struct http_exchange *x;

    pthread_mutex_lock(&h->lock);
    x = h->streams;
    if (x) {
        h->streams = x->next_stream;
        x->queued = false;
        *out_flooded = x->flooded;
        if (x->conn && x->more.len) {
            forget_sent(x);
            buf_add(&x->body, x->more.data, x->more.len);
            buf_reset(&x->more);
        }
        x->over = x->over || x->ended;
    }
    pthread_mutex_unlock(&h->lock);
    return x;
}
