/* SPDX-License-Identifier: MIT */
/* inlet: bodies that their handler reads while they come.
 *
 * The handler of a streamed route is called as soon as the head is there.  What follows goes
 * through a buffer of the exchange, never straight to the reader:
 *
 *     client ─► loop: parser ─► in ─► http_body_read(), on any thread
 *
 * Back pressure: with HTTP_INLET_BYTES_MAX in the buffer the loop stops reading the connection, so
 * that the kernel's buffer fills and the client waits.  The reader wakes the loop when half of it
 * is gone.  While the connection is not read no timer of it runs: a slow reader is not the
 * client's fault.
 *
 * A connection has one inlet at most, that of the request being read; the loop keeps those in a
 * list.  The exchange may be answered before its body is whole: the connection then ends with that
 * reply, as what still comes has no reader. */
#include "http/http_int.h"

#include "base/mem.h"
#include "os/clock.h"

#include <assert.h>

/* ---- the loop's side */
void inlet_open(struct conn *c, struct http_exchange *x)
{
    assert(!c->inlet);
    x->streamed = true;
    buf_init(&x->in, 2 * HTTP_INLET_BYTES_MAX + HTTP_READ_BYTES_MAX); /* half may be taken */
    c->inlet = x;
    c->inlet_bytes = 0;
    c->next_inlet = c->s->inlets;
    c->s->inlets = c;
}

void inlet_close(struct conn *c)
{
    struct conn **at = &c->s->inlets;

    if (!c->inlet)
        return;
    while (*at != c)
        at = &(*at)->next_inlet;
    *at = c->next_inlet;
    c->inlet = NULL;
    c->paused = false;
}

void inlet_put(struct conn *c, const char *data, size_t len, bool end)
{
    struct http_exchange *x = c->inlet;
    struct hub *h = x->hub;

    c->inlet_bytes += len;
    pthread_mutex_lock(&h->lock);
    if (len)
        buf_add(&x->in, data, len);
    assert(!x->in.over);
    x->in_end = end;
    c->paused = x->in_paused = !end && x->in.len - x->in_at >= HTTP_INLET_BYTES_MAX;
    pthread_cond_broadcast(&h->moved);
    pthread_mutex_unlock(&h->lock);
}

void inlet_fail(struct conn *c, int status, const char *why)
{
    struct http_exchange *x = c->inlet;

    pthread_mutex_lock(&x->hub->lock);
    x->in_status = status;
    x->in_why = why;
    x->in_end = true;
    x->close = true;
    x->kept_alive = false;
    pthread_cond_broadcast(&x->hub->moved);
    pthread_mutex_unlock(&x->hub->lock);
    inlet_close(c);
}

/* A connection whose reader has made room; NULL: none. */
struct conn *inlet_ready(struct http_server *s)
{
    struct conn *c;

    pthread_mutex_lock(&s->hub->lock);
    for (c = s->inlets; c; c = c->next_inlet)
        if (c->paused && !c->inlet->in_paused)
            break;
    pthread_mutex_unlock(&s->hub->lock);
    if (c)
        c->paused = false;
    return c;
}

/* ---- the reader's side */
enum http_body http_body_read(struct http_exchange *x, void *out, size_t cap, size_t *out_len,
                              int wait_ms)
{
    int64_t due = clock_mono_ns() + (int64_t)wait_ms * 1000000;
    struct hub *h = x->hub;
    enum http_body what;
    size_t n;

    assert(x->streamed && cap);
    *out_len = 0;
    pthread_mutex_lock(&h->lock);
    while (x->in_at == x->in.len && !x->in_end && !atomic_load(&x->gone))
        if (!clock_cond_wait(&h->moved, &h->lock, due))
            break;
    n = x->in.len - x->in_at < cap ? x->in.len - x->in_at : cap;
    what = n                       ? HTTP_BODY_DATA
           : x->in_status          ? HTTP_BODY_FAILED
           : x->in_end             ? HTTP_BODY_END
           : atomic_load(&x->gone) ? HTTP_BODY_FAILED
                                   : HTTP_BODY_LATE;
    if (n)
        memcpy(out, x->in.data + x->in_at, n);
    *out_len = n;
    x->in_at += n;
    if (x->in_at == x->in.len) {
        buf_reset(&x->in);
        x->in_at = 0;
    } else if (x->in_at >= HTTP_INLET_BYTES_MAX / 2) {
        memmove(x->in.data, x->in.data + x->in_at, x->in.len - x->in_at);
        x->in.len -= x->in_at;
        x->in_at = 0;
    }
    if (x->in_paused && x->in.len - x->in_at < HTTP_INLET_BYTES_MAX / 2) {
        x->in_paused = false;
        if (h->wake_fd >= 0)
            hub_wake(h);
    }
    pthread_mutex_unlock(&h->lock);
    return what;
}

int http_body_fault(struct http_exchange *x, const char **out_why)
{
    int status;

    pthread_mutex_lock(&x->hub->lock);
    status = x->in_status ? x->in_status : 499;
    *out_why = x->in_why ? x->in_why : "the client left";
    pthread_mutex_unlock(&x->hub->lock);
    return status;
}
