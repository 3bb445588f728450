/* SPDX-License-Identifier: MIT */
/* reply: exchanges, and how replies come from other threads to the loop.
 *
 * Who owns an exchange, and who frees it:
 *
 *     made ─► handler has it ─► http_reply() ─► hub's list ─► loop writes ─► freed by the loop
 *                  └─ client gone: the loop lets go ─► http_reply() ─► freed there
 *
 * The hub's lock decides between the two: `gone` and `replied` change under it.  The hub is
 * counted by the server and by every exchange, so that a reply may come after
 * http_server_free(): it finds the loop ended and frees the exchange.
 *
 * The foremost reply of a plain connection is sent by the thread that gives it, with `sending`
 * set, so that its client need not wait for the loop to wake.  Nothing else writes there
 * meanwhile: the loop writes replies in order and does not know of this one yet.  It then comes
 * to the loop like any other, all or some of it sent; when all is, and no reply waits behind it,
 * the loop is not woken but finds it on its next turn, HTTP_REAP_MS away at most.  A client that
 * asks again before that finds its next request foremost.  Before the loop closes the connection
 * it waits for a send.
 *
 * A callback of http_on_gone() runs without the lock, with `calling` set; http_reply() of
 * another thread waits for it, of the callback itself leaves the freeing to the loop. */
#include "http/http_int.h"

#include "base/codec/gzip.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct hub *hub_new(const char *server_name)
{
    struct hub *h = xcalloc(1, sizeof(*h));

    if (server_name)
        (void)snprintf(h->server_name, sizeof(h->server_name), "%s", server_name);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->called, NULL);
    clock_cond_init(&h->moved);
    h->last = &h->first;
    h->wake_fd = -1;
    atomic_init(&h->refs, 1);
    return h;
}

void hub_unref(struct hub *h)
{
    if (atomic_fetch_sub(&h->refs, 1) != 1)
        return;
    pthread_cond_destroy(&h->called);
    pthread_cond_destroy(&h->moved);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

struct http_exchange *exchange_new(struct hub *h, struct conn *c)
{
    struct http_exchange *x = xcalloc(1, sizeof(*x));

    atomic_fetch_add(&h->refs, 1);
    x->hub = h;
    x->conn = c;
    x->direct_fd = -1;
    x->req.path = x->req.query = x->req.body = x->req.peer = "";
    return x;
}

void exchange_free(struct http_exchange *x)
{
    if (x->body_bytes)
        atomic_fetch_sub(&x->hub->body_bytes, x->body_bytes);
    if (x->reply_bytes)
        atomic_fetch_sub(&x->hub->reply_bytes, x->reply_bytes);
    hub_unref(x->hub);
    free(x->own.head);
    free(x->own.fields);
    free(x->own.body);
    free(x->head);
    buf_release(&x->body);
    buf_release(&x->more);
    buf_release(&x->in);
    free(x);
}

void exchange_detach(struct http_exchange *x)
{
    struct hub *h = x->hub;
    void (*fn)(void *arg);
    bool ours, streams;

    pthread_mutex_lock(&h->lock);
    while (x->sending) /* its descriptor is about to be closed; a send never waits */
        pthread_cond_wait(&h->called, &h->lock);
    x->conn = NULL;
    atomic_store(&x->gone, true);
    pthread_cond_broadcast(&h->moved);
    ours = !x->handed || x->answered; /* nobody else has it, nor is it in the list */
    fn = x->replied ? NULL : x->on_gone;
    streams = x->stream;
    if (fn && !ours) {
        x->calling = true;
        pthread_mutex_unlock(&h->lock);
        fn(x->gone_arg);
        pthread_mutex_lock(&h->lock);
        x->calling = false;
        x->on_gone = NULL;
        ours = x->replied && !x->stream; /* inside fn */
        streams = false;                 /* begun by fn: it is its streamer's */
        pthread_cond_broadcast(&h->called);
    }
    pthread_mutex_unlock(&h->lock);
    if (streams)
        stream_drop(x);
    else if (ours)
        exchange_free(x);
}

struct http_exchange *hub_take(struct hub *h)
{
    struct http_exchange *all;

    pthread_mutex_lock(&h->lock);
    all = h->first;
    h->first = NULL;
    h->last = &h->first;
    pthread_mutex_unlock(&h->lock);
    return all;
}

/* ---- the reply's text */
static char *put_text(char *p, const char *s)
{
    return mempcpy(p, s, strlen(s));
}

static char *put_number(char *p, uint64_t n)
{
    char digits[24];
    size_t i = sizeof(digits);

    do {
        digits[--i] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    memcpy(p, digits + i, sizeof(digits) - i);
    return p + sizeof(digits) - i;
}

/* Caches keep replies to pages of different origins apart. */
static const char cors_rest[] = "\r\nVary: Origin\r\nAccess-Control-Expose-Headers: *\r\n";

/* What a client or a proxy named its request by comes back with the reply: at most so many bytes,
 * and no more than such a name has. */
static const char *const echoed[] = { "X-Request-Id", "Traceparent" };
enum { ECHO_TRACE = 1 }; /* Traceparent's place among them */

/* W3C Trace Context: version-trace-parent-flags in lower-case hexadecimal.  Version ff is none,
 * ids of zeros alone are none, and what follows the flags belongs to versions after 00. */
static bool is_traceparent(const char *s)
{
    static const size_t digits[] = { 2, 32, 16, 2 };
    const char *p = s;

    for (size_t i = 0; i < ARRAY_SIZE(digits); i++) {
        bool is_id = i == 1 || i == 2;

        if (i && *p++ != '-')
            return false;
        if (strspn(p, "0123456789abcdef") != digits[i] || (is_id && strspn(p, "0") == digits[i]))
            return false;
        p += digits[i];
    }
    return !str_starts(s, "ff") && (!*p || (*p == '-' && !str_starts(s, "00")));
}

static const char *echo_of(const struct http_request *r, size_t i)
{
    const char *value = http_field(r, echoed[i]);

    for (const char *p = value; p && *p; p++)
        if (*p <= ' ' || *p > '~' || p - value >= HTTP_ECHO_MAX)
            return NULL;
    if (value && i == ECHO_TRACE && !is_traceparent(value))
        return NULL;
    return value && *value ? value : NULL;
}

static char *put_echoes(char *p, const struct http_request *r)
{
    for (size_t i = 0; i < ARRAY_SIZE(echoed); i++) {
        const char *value = echo_of(r, i);

        if (value)
            p = put_text(put_text(put_text(put_text(p, echoed[i]), ": "), value), "\r\n");
    }
    return p;
}

enum { ECHOES_ROOM = ARRAY_SIZE(echoed) * (HTTP_ECHO_MAX + 32) };

void exchange_answer(struct http_exchange *x, int status, const char *type, struct buf *body,
                     const char *fields)
{
    bool bodiless = status < 200 || status == 204 || status == 304;
    const char *origin = x->cors ? http_field(&x->req, "origin") : NULL;
    size_t room = (type ? strlen(type) : 0) + (fields ? strlen(fields) : 0) + 128 + ECHOES_ROOM +
                  (origin ? strlen(origin) + sizeof(cors_rest) + 64 : 0);
    char *p = x->head = xmalloc(HTTP_PREFIX_BYTES + room);

    if (body) {
        x->body = *body;
        body->data = NULL;
        buf_init(body, body->max);
        x->reply_bytes = x->body.len;
        atomic_fetch_add(&x->hub->reply_bytes, x->reply_bytes);
    }
    x->status = status;
    p += HTTP_PREFIX_BYTES;
    if (type) {
        p = put_text(put_text(put_text(p, "Content-Type: "), type), "\r\n");
    }
    if (!bodiless)
        p = put_text(put_number(put_text(p, "Content-Length: "), x->body.len), "\r\n");
    if (fields)
        p = put_text(p, fields);
    if (origin)
        p = put_text(put_text(put_text(p, "Access-Control-Allow-Origin: "), origin), cors_rest);
    p = put_text(put_echoes(p, &x->req), "\r\n");
    x->head_at = HTTP_PREFIX_BYTES;
    x->head_len = (size_t)(p - x->head);
    if (bodiless || x->req.method == HTTP_HEAD)
        buf_release(&x->body);
}

void exchange_answer_head(struct http_exchange *x, const char *type, const char *fields)
{
    const char *origin = x->cors ? http_field(&x->req, "origin") : NULL;
    size_t room = strlen(type) + (fields ? strlen(fields) : 0) + 64 + ECHOES_ROOM +
                  (origin ? strlen(origin) + sizeof(cors_rest) + 64 : 0);
    char *p = x->head = xmalloc(HTTP_PREFIX_BYTES + room);

    x->status = 200;
    p = put_text(put_text(put_text(p + HTTP_PREFIX_BYTES, "Content-Type: "), type), "\r\n");
    p = put_text(p, fields ? fields : "");
    if (origin)
        p = put_text(put_text(put_text(p, "Access-Control-Allow-Origin: "), origin), cors_rest);
    p = put_text(put_echoes(p, &x->req), "\r\n");
    x->head_at = HTTP_PREFIX_BYTES;
    x->head_len = (size_t)(p - x->head);
}

/* The lock is held. */
static void keep_date(struct hub *h)
{
    static const char days[][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };
    static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    int64_t now = clock_unix_s();
    time_t t = (time_t)now;
    struct tm tm;
    int n;

    if (now == h->date_s || !gmtime_r(&t, &tm))
        return;
    h->date_s = now;
    n = snprintf(h->common, sizeof(h->common), "Date: %s, %02d %s %04d %02d:%02d:%02d GMT\r\n",
                 days[tm.tm_wday], tm.tm_mday, months[tm.tm_mon], tm.tm_year + 1900, tm.tm_hour,
                 tm.tm_min, tm.tm_sec);
    if (h->server_name[0])
        n += snprintf(h->common + n, sizeof(h->common) - (size_t)n, "Server: %s\r\n",
                      h->server_name);
    h->common_len = (size_t)n;
}

void exchange_prefix(struct http_exchange *x)
{
    char text[HTTP_PREFIX_BYTES + 96], *p = text;
    struct hub *h = x->hub;
    size_t len;

    p = put_number(put_text(p, "HTTP/1.1 "), (uint64_t)x->status);
    p = put_text(put_text(put_text(p, " "), http_status_text(x->status)), "\r\n");
    pthread_mutex_lock(&h->lock);
    keep_date(h);
    p = mempcpy(p, h->common, h->common_len);
    pthread_mutex_unlock(&h->lock);
    if (x->close)
        p = put_text(p, "Connection: close\r\n");
    else if (x->kept_alive)
        p = put_text(p, "Connection: keep-alive\r\n");
    len = (size_t)(p - text);
    assert(len <= HTTP_PREFIX_BYTES);
    x->head_at = HTTP_PREFIX_BYTES - len;
    memcpy(x->head + x->head_at, text, len);
    x->prefixed = true;
}

size_t exchange_bytes(const struct http_exchange *x)
{
    return x->head_len - x->head_at + x->body.len;
}

/* ---- the public side */
const struct http_request *http_request(const struct http_exchange *x)
{
    return &x->req;
}

const char *http_field(const struct http_request *r, const char *name)
{
    for (size_t i = 0; i < r->field_count; i++)
        if (!strcasecmp(r->fields[i].name, name))
            return r->fields[i].value;
    return NULL;
}

bool http_query(const struct http_request *r, const char *name, char *out, size_t cap)
{
    char key[256];
    size_t len;

    assert(cap > 4);
    for (const char *p = r->query; *p; p += *p == '&') {
        size_t all = strcspn(p, "&"), k = strcspn(p, "&=");

        if (http_decode(p, k, true, key, sizeof(key), &len) && !strcmp(key, name)) {
            const char *value = p + k + (k < all);

            size_t raw = all - k - (k < all);

            if (!http_decode(value, raw, true, out, cap, &len))
                (void)snprintf(out, cap, raw < cap ? "%.*s" : "%.*s...",
                               (int)(raw < cap ? raw : cap - 4), value);
            return true;
        }
        p += all;
    }
    return false;
}

void hub_wake(struct hub *h)
{
    uint64_t one = 1;

    if (h->woken)
        return;
    h->woken = true;
    while (write(h->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void hub_put(struct hub *h, struct http_exchange *x)
{
    x->next_reply = NULL;
    *h->last = x;
    h->last = &x->next_reply;
}

/* What the client takes at once; the loop sends the rest, and sees faults when it does. */
static void send_direct(struct http_exchange *x)
{
    struct iovec iov[2];
    struct msghdr m = { .msg_iov = iov, .msg_iovlen = 1 };
    ssize_t n;

    exchange_prefix(x);
    iov[0] = (struct iovec){ x->head + x->head_at, x->head_len - x->head_at };
    if (x->body.len)
        iov[m.msg_iovlen++] = (struct iovec){ x->body.data, x->body.len };
    n = sendmsg(x->direct_fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    x->sent = n > 0 ? (size_t)n : 0;
    x->sent_ns = x->sent == exchange_bytes(x) ? clock_mono_ns() : 0;
}

/* The lock is held at both ends, not between. */
static void try_direct(struct http_exchange *x)
{
    struct hub *h = x->hub;

    if (x->direct_fd < 0 || !x->foremost || h->draining || atomic_load(&x->gone) ||
        exchange_bytes(x) > HTTP_DIRECT_BYTES_MAX)
        return;
    x->sending = true;
    pthread_mutex_unlock(&h->lock);
    send_direct(x);
    pthread_mutex_lock(&h->lock);
    x->sending = false;
    pthread_cond_broadcast(&h->called);
}

/* All of it has left: the next one may.  False: the loop has to see to that one now.  The lock is
 * held; the follower is there, as the loop lets go of exchanges in their order. */
static bool pass_on(struct http_exchange *x)
{
    struct http_exchange *f = x->follower;

    if (f)
        f->foremost = true;
    return !f || (f->quiet && !f->replied);
}

/* Packs a large text for a client that takes it so, where that is worth it; `out` gets the fields
 * of the reply then, and those that say so. */
static const char *pack_reply(struct http_exchange *x, const char *type, struct buf *body,
                              const char *fields, struct buf *out)
{
    bool text = type && (!strncmp(type, "text/", 5) || !strncmp(type, "application/json", 16));
    struct buf packed = { 0 };

    if (!x->hub->gzip_min || !text || !body || body->len < x->hub->gzip_min ||
        (fields && strcasestr(fields, "content-encoding:")))
        return fields;
    buf_addf(out, "%sVary: Accept-Encoding\r\n", fields ? fields : "");
    if (http_wish(http_field(&x->req, "accept-encoding"), "gzip") > 0 &&
        gzip_pays(body->data, body->len)) {
        gzip_pack(body->data, body->len, &packed);
        buf_release(body);
        *body = packed;
        buf_adds(out, "Content-Encoding: gzip\r\n");
    }
    return buf_str(out);
}

void http_reply(struct http_exchange *x, int status, const char *type, struct buf *body,
                const char *fields)
{
    static const char too_long[] = "{\"error\":\"the reply grew past its limit\"}";
    struct hub *h = x->hub;
    struct buf more = { 0 };
    bool on_loop, ours;

    if (body && body->over) {
        buf_release(body);
        buf_adds(body, too_long);
        status = 500;
        type = "application/json";
    }
    assert(status >= 200 && status <= 999);
    exchange_answer(x, status, type, body, pack_reply(x, type, body, fields, &more));
    buf_release(&more);
    pthread_mutex_lock(&h->lock);
    on_loop = h->has_loop && pthread_equal(h->loop, pthread_self());
    while (x->calling && !on_loop)
        pthread_cond_wait(&h->called, &h->lock);
    assert(!x->replied);
    x->replied = true;
    x->on_gone = NULL;
    if (!on_loop)
        try_direct(x);
    ours = atomic_load(&x->gone) && !x->calling;
    if (!atomic_load(&x->gone)) {
        hub_put(h, x);
        if (!on_loop && !(x->sent_ns && pass_on(x)))
            hub_wake(h);
    }
    pthread_mutex_unlock(&h->lock);
    if (ours)
        exchange_free(x);
}

bool http_gone(const struct http_exchange *x)
{
    return atomic_load(&x->gone);
}

void http_on_gone(struct http_exchange *x, void (*fn)(void *arg), void *arg)
{
    bool gone;

    pthread_mutex_lock(&x->hub->lock);
    gone = atomic_load(&x->gone);
    x->on_gone = gone ? NULL : fn;
    x->gone_arg = arg;
    pthread_mutex_unlock(&x->hub->lock);
    if (gone && fn)
        fn(arg);
}
