/* SPDX-License-Identifier: MIT */
/* conn: one connection, from its first byte to its end.
 *
 *     handshake ─► reading ◄──────────────────────────┐
 *                    │ whole request                  │ keep-alive
 *                    ▼                                │
 *                  waiting (and reading on) ─► writing┴─► lingering ─► closed
 *
 * Requests stand in a list in their order; a reply is written when all before it are.  Up to
 * HTTP_PIPELINE_MAX wait there, then reading pauses: what was read already lies in `spare`,
 * the rest in the kernel.  Errors of ours are exchanges of the same list, already answered.
 *
 * Lingering: when we end a connection, unread bytes in the kernel would turn the close into
 * a reset that can overtake our reply.  So we end our side, throw away what still comes and
 * close when the client does, or after HTTP_LINGER_MS.
 *
 * A connection at rest owns nothing but its struct. */
#include "http/http_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <errno.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

enum { READS_MAX = 16 }; /* in a row, when the client's end is known to follow */

static bool is_reading(const struct conn *c)
{
    return !c->stop && !c->eof && !c->spare && !c->paused && c->count < HTTP_PIPELINE_MAX;
}

bool conn_busy(const struct conn *c)
{
    return c->first || c->spare || !http_parser_idle(&c->parser);
}

/* ---- what the kernel and the timers are asked to tell */
static uint32_t events_wanted(const struct conn *c)
{
    uint32_t want = c->eof ? 0 : EPOLLRDHUP;

    if (c->handshaking || c->lingering || is_reading(c))
        want |= EPOLLIN;
    if ((c->blocked && !c->write_wants_read) || c->read_wants_write)
        want |= EPOLLOUT;
    return want;
}

static enum timer_kind timer_wanted(const struct conn *c)
{
    if (c->lingering)
        return TIMER_LINGER;
    if (c->handshaking)
        return TIMER_HEAD;
    if (!is_reading(c))
        return TIMER_KINDS; /* none */
    if (http_parser_in_body(&c->parser))
        return TIMER_BODY;
    if (!http_parser_idle(&c->parser))
        return TIMER_HEAD;
    return c->count ? TIMER_KINDS : TIMER_IDLE;
}

static void conn_update(struct conn *c)
{
    struct timers *t = &c->s->timers;
    enum timer_kind kind;
    struct epoll_event e = { .data.ptr = c };

    if (c->dead)
        return;
    room_busy(c, c->count || http_parser_in_body(&c->parser));
    kind = timer_wanted(c);
    if (kind == TIMER_KINDS)
        timer_stop(&c->read_timer);
    else if (!c->read_timer.next || c->read_timer.kind != kind)
        timer_arm(t, &c->read_timer, kind, c->s->now_ns);
    if (c->blocked && !c->stuck_ns)
        c->stuck_bytes = 0;
    c->stuck_ns = !c->blocked ? 0 : c->stuck_ns ? c->stuck_ns : c->s->now_ns;
    if (!c->blocked)
        timer_stop(&c->write_timer);
    else if (!c->write_timer.next)
        timer_arm(t, &c->write_timer, TIMER_WRITE, c->s->now_ns);
    e.events = events_wanted(c);
    if (e.events == c->events)
        return;
    c->events = e.events;
    (void)epoll_ctl(c->s->epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
}

/* ---- opening and closing */
void conn_open(struct http_server *s, int fd, const char *peer, int port)
{
    struct epoll_event e = { .events = EPOLLIN | EPOLLRDHUP };
    struct conn *c = xcalloc(1, sizeof(*c));

    c->s = s;
    c->fd = fd;
    c->port = (uint16_t)port;
    c->way = guard_way_of(fd);
    c->events = e.events;
    c->read_timer.conn = c->write_timer.conn = c;
    (void)str_copy(c->peer, sizeof(c->peer), peer);
    http_parser_init(&c->parser, s->o.body_bytes_max);
    c->handshaking = s->tls && c->way != GUARD_UNIX; /* a socket file leaves no machine: plain */
    c->ssl = c->handshaking ? tls_open(s->tls, fd) : NULL;
    e.data.ptr = c;
    if ((c->handshaking && !c->ssl) || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &e) != 0) {
        if (c->ssl)
            tls_close(s->tls, c->ssl, false);
        close(fd);
        free(c);
        return;
    }
    c->next = s->conns;
    if (s->conns)
        s->conns->prev = c;
    s->conns = c;
    room_enter(s, c);
    atomic_fetch_add(&s->conn_count, 1);
    conn_update(c);
}

static void report_done(struct conn *c, struct http_exchange *x, bool gone)
{
    const struct http_opts *o = &c->s->o;

    if (o->on_done && !x->interim) /* what is not answered may be its replier's now */
        o->on_done(o->arg, &x->req, x->answered ? x->status : 499,
                   x->answered ? x->passed + x->sent : 0,
                   x->answered && x->sent_ns ? x->sent_ns : clock_mono_ns(), gone);
}

/* Lets go of the requests from `*at` on. */
static void drop_from(struct conn *c, struct http_exchange **at, struct http_exchange *before)
{
    struct http_exchange *x = *at, *next;

    *at = NULL;
    c->last = before;
    for (; x; x = next) {
        next = x->next;
        if (x == c->inlet)
            inlet_close(c);
        c->count -= x->interim ? 0 : 1;
        c->s->out -= x->handed && !x->answered;
        report_done(c, x, true);
        exchange_detach(x);
    }
}

/* What was read of requests that were never whole. */
static void forget_input(struct conn *c)
{
    atomic_fetch_sub(&c->s->hub->body_bytes, c->counted);
    c->counted = 0;
    http_parser_release(&c->parser);
    free(c->spare);
    c->spare = NULL;
}

void conn_close(struct conn *c)
{
    if (c->dead)
        return;
    c->dead = true;
    timer_stop(&c->read_timer);
    timer_stop(&c->write_timer);
    drop_from(c, &c->first, NULL);
    forget_input(c);
    if (c->ssl)
        tls_close(c->s->tls, c->ssl, false);
    /* a process that is being started has it too for a moment, and while it does the kernel would
     * go on to tell of it */
    (void)epoll_ctl(c->s->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    if (c->prev)
        c->prev->next = c->next;
    else
        c->s->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->s->lingering -= c->lingering;
    room_busy(c, false);
    room_leave(c->s, c);
    atomic_fetch_sub(&c->s->conn_count, 1);
    server_note_dead(c->s, c);
}

/* The last reply is written; behind a stream's there may be requests that get none. */
static void conn_finish(struct conn *c)
{
    drop_from(c, &c->first, NULL);
    forget_input(c);
    if (c->eof) {
        conn_close(c);
        return;
    }
    if (c->ssl) {
        tls_close(c->s->tls, c->ssl, true);
        c->ssl = NULL;
    }
    shutdown(c->fd, SHUT_WR);
    c->stop = c->lingering = true;
    c->blocked = c->read_wants_write = false;
    c->s->lingering++;
    timer_stop(&c->read_timer);
    conn_update(c);
}

/* What handlers answered while its last bytes were read.  A client may have all of a reply and be
 * gone before the thread that sent it has said so: such a reply is not one that nobody took. */
static void take_sent(struct conn *c)
{
    struct hub *h = c->s->hub;

    pthread_mutex_lock(&h->lock);
    for (struct http_exchange *x = c->first; x; x = x->next)
        while (x->sending) /* a send never waits */
            pthread_cond_wait(&h->called, &h->lock);
    pthread_mutex_unlock(&h->lock);
    server_take_replies(c->s);
}

/* The client sends no more: requests without a reply have nobody who waits for them. */
static void conn_eof(struct conn *c)
{
    struct http_exchange **at = &c->first, *before = NULL;

    if (c->lingering) {
        conn_close(c);
        return;
    }
    take_sent(c);
    c->eof = c->stop = true;
    while (*at && (*at)->answered && !(*at)->stream) {
        before = *at;
        at = &(*at)->next;
    }
    drop_from(c, at, before);
    forget_input(c);
    if (!c->first)
        conn_close(c);
    else
        server_note_flush(c->s, c);
}

/* ---- requests */
static void append_exchange(struct conn *c, struct http_exchange *x)
{
    if (c->last) {
        pthread_mutex_lock(&c->s->hub->lock);
        c->last->follower = x;
        pthread_mutex_unlock(&c->s->hub->lock);
        c->last->next = x;
    } else {
        c->first = x;
    }
    c->last = x;
}

/* A new exchange for the parser's request. */
static struct http_exchange *begin_exchange(struct conn *c)
{
    struct http_exchange *x = exchange_new(c->s->hub, c);
    bool keeps = http_parser_keeps(&c->parser) && !room_is_short(c);

    x->close = !keeps;
    x->kept_alive = keeps && c->parser.minor == 0;
    x->cors = c->verdict.cors;
    memcpy(x->peer, c->peer, sizeof(x->peer));
    x->req.peer = x->peer;
    x->req.port = c->port;
    x->req.tls = c->ssl != NULL;
    x->req.id = ++c->s->next_id;
    x->req.proven = c->verdict.proven;
    x->req.begun_ns = c->begun_ns;
    return x;
}

/* The parser's request, as the last of the list. */
static struct http_exchange *take_request(struct conn *c)
{
    struct http_exchange *x = begin_exchange(c);

    x->body_bytes = c->parser.body_cap;
    if (x->body_bytes != c->counted)
        atomic_fetch_add(&c->s->hub->body_bytes, x->body_bytes - c->counted);
    c->counted = 0;
    http_parser_take(&c->parser, &x->req, &x->own);
    c->parser.body_max = c->s->o.body_bytes_max;
    x->req.complete_ns = clock_mono_ns();
    c->begun_ns = 0;
    c->stop = c->stop || x->close;
    c->count++;
    append_exchange(c, x);
    timer_stop(&c->read_timer);
    return x;
}

/* A reply of our own. */
static void answer_error(struct conn *c, struct http_exchange *x, int status, const char *why,
                         const char *fields)
{
    const struct http_opts *o = &c->s->o;
    struct buf body = { 0 };

    if (o->error_body)
        o->error_body(o->arg, x->req.path, status, why, &body);
    else
        error_json(why, &body);
    exchange_answer(x, status, "application/json", &body, fields);
    x->answered = true;
    server_note_flush(c->s, c);
}

/* A request that cannot be read on: the connection ends with this reply. */
static void fail_request(struct conn *c, int status, const char *why)
{
    struct http_exchange *x;

    if (c->inlet) { /* its handler answers */
        c->stop = true;
        inlet_fail(c, status, why);
        return;
    }
    x = take_request(c);
    x->close = c->stop = true;
    x->kept_alive = false;
    answer_error(c, x, status, why, status == 503 ? "Retry-After: 1\r\n" : NULL);
}

static void refuse_request(struct conn *c, struct http_exchange *x, int status)
{
    char why[HTTP_WHY_MAX], allow[64] = "", fields[128];
    const struct router *r = &c->s->router;
    const char *near;
    int cut = HTTP_WHY_MAX / 2, ignored;

    switch (status) {
    case 204:
        exchange_answer(x, 204, NULL, NULL,
                        "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, DELETE\r\n"
                        "Access-Control-Allow-Headers: Authorization, *\r\n"
                        "Access-Control-Allow-Private-Network: true\r\n"
                        "Access-Control-Max-Age: 600\r\n");
        x->answered = true;
        server_note_flush(c->s, c);
        return;
    case 401:
        answer_error(c, x, 401, c->verdict.why, "WWW-Authenticate: Bearer\r\n");
        return;
    case 403:
    case 415:
    case 421:
    case 429:
        answer_error(c, x, status, c->verdict.why, c->verdict.fields);
        return;
    case 405:
        (void)router_find(r, x->req.path, x->req.method, &ignored, allow, sizeof(allow));
        snprintf(why, sizeof(why), "'%.*s' takes %s", cut, x->req.path, allow);
        snprintf(fields, sizeof(fields), "Allow: %s\r\n", allow);
        answer_error(c, x, 405, why, fields);
        return;
    default:
        near = router_nearest(r, x->req.path);
        snprintf(why, sizeof(why),
                 near ? "no such path '%.*s'; did you mean '%s'?" : "no such path '%.*s'%s", cut,
                 x->req.path, near ? near : "");
        answer_error(c, x, 404, why, NULL);
    }
}

/* What the head decides before a body is read: who answers, and may this client ask? */
static void find_route(struct conn *c)
{
    const struct http_parser *p = &c->parser;
    const char *path = p->head + p->path;
    int status = 0;
    char allow[64];

    c->route = router_find(&c->s->router, path, (enum http_method)p->method, &status, allow,
                           sizeof(allow));
    c->verdict = guard_check(&c->s->guard, p, c->way,
                             c->route ? c->route->scope : router_scope(&c->s->router, path));
    if (!c->verdict.status && !c->route)
        c->verdict.status = status;
    if (c->route)
        guard_coding(p, c->route->run == c->s->o.packed, &c->verdict);
    if (!c->verdict.status && c->route->scope == HTTP_SCOPE_CALL && room_refuses(c)) {
        c->verdict.status = 429;
        c->verdict.why = "requests of this address are in progress on nearly all connections, and "
                         "some are kept for others (connections_max)";
        c->verdict.fields = "Retry-After: 1\r\n";
    }
}

static void refuse_now(struct conn *c)
{
    struct http_exchange *x = take_request(c);

    x->close = c->stop = true;
    x->kept_alive = false;
    refuse_request(c, x, c->verdict.status);
}

static void say_continue(struct conn *c)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http_exchange *x = exchange_new(c->s->hub, c);

    x->head = xstrdup(text);
    x->head_len = sizeof(text) - 1;
    x->interim = x->answered = x->prefixed = true;
    append_exchange(c, x);
    server_note_flush(c->s, c);
}

/* Gives the exchange to its handler. */
static void hand_over(struct conn *c, struct http_exchange *x)
{
    x->handed = x->req.handled = true;
    c->s->out++;
    if (!c->ssl && !x->close && !x->streamed && c->count <= HTTP_DIRECT_AHEAD_MAX)
        x->direct_fd = c->fd;
    pthread_mutex_lock(&c->s->hub->lock);
    x->quiet = x->direct_fd >= 0;
    x->foremost = x->foremost || c->first == x;
    pthread_mutex_unlock(&c->s->hub->lock);
    c->route->run(c->route->arg, x);
}

/* Its handler reads the body itself. */
static void on_streamed(struct conn *c)
{
    struct http_exchange *x = begin_exchange(c);

    http_parser_copy_head(&c->parser, &x->req, &x->own);
    x->req.complete_ns = clock_mono_ns();
    c->count++;
    append_exchange(c, x);
    inlet_open(c, x);
    hand_over(c, x);
}

/* Bytes of a streamed body, or its end. */
static void on_piece(struct conn *c, bool end)
{
    struct http_parser *p = &c->parser;
    int64_t spent_ns = c->s->now_ns - c->body_ns;
    struct http_exchange *x = c->inlet;

    inlet_put(c, p->body, p->body_len, end);
    p->body_len = 0;
    timer_stop(&c->read_timer);
    if (end) {
        inlet_close(c);
        c->stop = c->stop || x->close || (x->answered && x->stream);
        c->begun_ns = 0;
        forget_input(c);
        p->body_max = c->s->o.body_bytes_max;
    } else if (spent_ns > c->s->timers.ns[TIMER_BODY]) {
        bool slow = (int64_t)c->inlet_bytes < spent_ns / 1000000 * HTTP_BODY_RATE_MIN / 1000;

        c->body_ns = c->s->now_ns;
        c->inlet_bytes = 0;
        if (slow)
            fail_request(c, 408, "the body came too slowly");
    }
}

static bool is_streamed(const struct conn *c)
{
    const struct http_opts *o = &c->s->o;

    return o->streamed && c->route >= o->streamed && c->route < o->streamed + o->streamed_count;
}

/* A body has no meaning for GET and HEAD and may never end: what follows the head is not read. */
static void answer_head(struct conn *c)
{
    struct http_exchange *x = take_request(c);

    x->close = c->stop = true;
    x->kept_alive = false;
    hand_over(c, x);
}

static void on_head(struct conn *c, bool more)
{
    struct http_parser *p = &c->parser;

    c->body_ns = c->s->now_ns;
    c->served = true;
    timer_stop(&c->read_timer);
    find_route(c);
    if (!c->verdict.status && (p->method == HTTP_GET || p->method == HTTP_HEAD) &&
        (p->chunked || p->left)) {
        answer_head(c);
        return;
    }
    if (!c->verdict.status) {
        if (is_streamed(c))
            p->body_max = SIZE_MAX / 2;
        if (p->expect && !more && p->left <= p->body_max)
            say_continue(c);
        if (is_streamed(c))
            on_streamed(c);
        return;
    }
    if (c->crowded_out || p->expect || p->chunked ||
        (p->has_length && p->left > HTTP_REFUSED_BODY_MAX)) {
        refuse_now(c); /* it may never end */
        return;
    }
    p->drops = true;
    if (p->body_max > HTTP_REFUSED_BODY_MAX)
        p->body_max = HTTP_REFUSED_BODY_MAX;
}

static void on_request(struct conn *c)
{
    struct http_exchange *x = take_request(c);

    if (c->verdict.status) {
        refuse_request(c, x, c->verdict.status);
        return;
    }
    hand_over(c, x);
}

static void on_fault(struct conn *c)
{
    if (c->inlet) /* what was whole before it */
        inlet_put(c, c->parser.body, c->parser.body_len, false);
    if (c->verdict.status)
        refuse_now(c);
    else
        fail_request(c, c->parser.status, c->parser.why);
}

/* After bytes of a body: do we hold too many, or do they come too slowly? */
static void check_body(struct conn *c)
{
    int64_t spent_ns = c->s->now_ns - c->body_ns;
    int64_t over_ns = spent_ns - c->s->timers.ns[TIMER_BODY];
    size_t cap = c->parser.body_cap;
    size_t all = atomic_fetch_add(&c->s->hub->body_bytes, cap - c->counted) + cap - c->counted;

    c->counted = cap;
    timer_stop(&c->read_timer);
    if (all > c->s->o.bodies_bytes_max)
        fail_request(c, 503, "too many bytes of requests are held already");
    else if (over_ns > 0 &&
             (int64_t)c->parser.body_len < over_ns / 1000000 * HTTP_BODY_RATE_MIN / 1000)
        fail_request(c, 408, "the body came too slowly");
    else if (spent_ns > c->s->body_total_ns)
        fail_request(c, 408, "the body was not whole in time");
}

/* Bytes of the client; returns how many were taken. */
static size_t conn_feed(struct conn *c, const char *data, size_t len)
{
    enum http_step step = HTTP_MORE;
    size_t used = 0;

    while (!c->stop && c->count < HTTP_PIPELINE_MAX && (used < len || step == HTTP_HEAD_DONE)) {
        if (!c->begun_ns) {
            c->begun_ns = c->s->now_ns;
            c->verdict = (struct guard_verdict){ 0 };
        }
        used += http_parse(&c->parser, data + used, len - used, &step);
        if (step == HTTP_BAD)
            on_fault(c);
        else if (step == HTTP_HEAD_DONE)
            on_head(c, used < len);
        else if (c->inlet)
            on_piece(c, step == HTTP_DONE);
        else if (step == HTTP_DONE)
            on_request(c);
        else if (http_parser_in_body(&c->parser))
            check_body(c);
    }
    return c->stop ? len : used;
}

/* There is room in the list again. */
static void conn_resume(struct conn *c)
{
    char *spare = c->spare;

    if (!spare || c->stop || c->count >= HTTP_PIPELINE_MAX)
        return;
    c->spare_at += conn_feed(c, spare + c->spare_at, c->spare_len - c->spare_at);
    if (c->spare_at == c->spare_len || c->stop) {
        free(c->spare);
        c->spare = NULL;
    }
}

/* ---- reading */
static ssize_t receive_bytes(struct conn *c, char *out, size_t cap)
{
    ssize_t n;

    if (!c->ssl) {
        n = recv(c->fd, out, cap, 0);
        return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? TLS_AGAIN_READ : TLS_ERROR;
    }
    n = tls_read(c->s->tls, c->ssl, out, cap);
    c->read_wants_write = n == TLS_AGAIN_WRITE;
    return n;
}

static void got_bytes(struct conn *c, const char *data, size_t len)
{
    size_t used;

    if (c->lingering) {
        c->lingered += len;
        if (c->lingered > HTTP_LINGER_BYTES_MAX)
            conn_close(c);
        return;
    }
    used = conn_feed(c, data, len);
    if (used == len)
        return;
    c->spare = xmalloc(len - used);
    memcpy(c->spare, data + used, len - used);
    c->spare_at = 0;
    c->spare_len = len - used;
}

/* `ends`: the client's FIN is behind what can be read. */
static void conn_read(struct conn *c, bool ends)
{
    for (int i = 0; i < (ends ? READS_MAX : 1) && !c->dead; i++) {
        ssize_t n;

        if (!c->lingering && !is_reading(c)) {
            if (ends)
                conn_eof(c);
            return;
        }
        n = receive_bytes(c, c->s->read_buf, HTTP_READ_BYTES_MAX);
        if (n > 0)
            got_bytes(c, c->s->read_buf, (size_t)n);
        else if (n == 0)
            conn_eof(c);
        else if (n == TLS_ERROR)
            conn_close(c);
        if (n <= 0)
            return;
    }
}

/* ---- writing */
static void prepare_reply(struct conn *c, struct http_exchange *x)
{
    if (x->prefixed)
        return;
    if (c->s->draining && x == c->last && http_parser_idle(&c->parser) && !c->spare) {
        x->close = c->stop = true;
        x->kept_alive = false;
    }
    exchange_prefix(x);
}

/* The unsent pieces of the replies that may be written now. */
static size_t gather_pieces(struct conn *c, struct iovec *iov, size_t max)
{
    size_t n = 0;

    for (struct http_exchange *x = c->first; x && x->answered && n + 2 <= max; x = x->next) {
        size_t head, sent = x->sent;

        prepare_reply(c, x);
        head = x->head_len - x->head_at;
        if (sent < head)
            iov[n++] = (struct iovec){ x->head + x->head_at + sent, head - sent };
        sent = sent > head ? sent - head : 0;
        if (sent < x->body.len)
            iov[n++] = (struct iovec){ x->body.data + sent, x->body.len - sent };
        if (x->close)
            break;
    }
    return n;
}

/* TLS has no writev: small pieces are joined to one record, large ones sent from where they
 * are. */
static ssize_t send_tls(struct conn *c, const struct iovec *iov, size_t count)
{
    size_t len = 0;

    if (count == 1 || iov[0].iov_len >= HTTP_TLS_WRITE_MAX)
        return tls_write(c->s->tls, c->ssl, iov[0].iov_base, iov[0].iov_len);
    for (size_t i = 0; i < count && len < HTTP_TLS_WRITE_MAX; i++) {
        size_t n = HTTP_TLS_WRITE_MAX - len;

        n = iov[i].iov_len < n ? iov[i].iov_len : n;
        memcpy(c->s->write_buf + len, iov[i].iov_base, n);
        len += n;
    }
    return tls_write(c->s->tls, c->ssl, c->s->write_buf, len);
}

static ssize_t send_some(struct conn *c, struct iovec *iov, size_t count)
{
    struct msghdr m = { .msg_iov = iov, .msg_iovlen = count };
    ssize_t n;

    if (c->ssl)
        return send_tls(c, iov, count);
    n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
    return n >= 0 ? n : errno == EAGAIN ? TLS_AGAIN_WRITE : errno == EINTR ? 0 : TLS_ERROR;
}

/* The first of the list is written: the next one's replier may send. */
static void step_to_next(struct conn *c)
{
    bool ends = c->first->close; /* who stands behind it is not answered */

    if (c->first == c->inlet) {
        inlet_close(c);
        c->stop = true;
    }
    c->first = c->first->next;
    if (!c->first)
        c->last = NULL;
    if (!c->first || ends)
        return;
    pthread_mutex_lock(&c->s->hub->lock);
    c->first->foremost = true;
    pthread_mutex_unlock(&c->s->hub->lock);
}

/* `n` more bytes have left; true: the last reply of this connection is out. */
static bool count_sent(struct conn *c, size_t n)
{
    bool closes = false;

    while (c->first && c->first->answered && !closes) {
        struct http_exchange *x = c->first;
        size_t part = exchange_bytes(x) - x->sent;

        if (x->stream)
            stream_sent(x, n < part ? n : part);
        if (n < part) {
            x->sent += n;
            return false;
        }
        n -= part;
        x->sent += part;
        if (x->stream && !x->over)
            return false;
        step_to_next(c);
        c->count -= x->interim ? 0 : 1;
        closes = x->close;
        report_done(c, x, false);
        if (x->stream)
            stream_leave(x);
        else
            exchange_free(x);
    }
    return closes;
}

/* Writes what is there and the client takes; false: the connection ended. */
static bool write_replies(struct conn *c)
{
    struct iovec iov[HTTP_IOV_MAX];
    size_t turn = 0, count;

    c->blocked = false;
    if (count_sent(c, 0)) { /* replies that their own threads sent; a stream that ended */
        conn_finish(c);
        return false;
    }
    while ((count = gather_pieces(c, iov, HTTP_IOV_MAX)) > 0) {
        ssize_t n = send_some(c, iov, count);

        if (n == TLS_ERROR) {
            conn_close(c);
            return false;
        }
        c->write_wants_read = n == TLS_AGAIN_READ;
        c->blocked = n < 0;
        if (c->blocked)
            return true;
        timer_stop(&c->write_timer);
        c->stuck_bytes += (size_t)n;
        if (count_sent(c, (size_t)n)) {
            conn_finish(c);
            return false;
        }
        turn += (size_t)n;
        if (turn > HTTP_TURN_BYTES_MAX && c->first) { /* the kernel wakes us for the rest */
            c->blocked = true;
            return true;
        }
    }
    return true;
}

void conn_flush(struct conn *c)
{
    if (c->dead || c->lingering)
        return;
    if (!write_replies(c))
        return;
    if (c->eof && !c->first) {
        conn_close(c);
        return;
    }
    conn_resume(c);
    if (c->s->drain_idle_ns == INT64_MAX && !conn_busy(c)) { /* its reply did not say so */
        conn_close(c);
        return;
    }
    conn_update(c);
}

void conn_answered(struct http_exchange *x)
{
    struct conn *c = x->conn;

    x->answered = true;
    if (c) {
        c->s->out--;
        if (c->inlet == x && !x->stream) { /* the rest of its body has no reader */
            x->close = c->stop = true;
            x->kept_alive = false;
            inlet_close(c);
        }
        c->stop = c->stop || (x->stream && c->inlet != x);
        x->over = x->over || (x->stream && c->s->draining);
        server_note_flush(c->s, c);
    }
    if (x->stream)
        stream_drop(x);
    else if (!c)
        exchange_free(x);
}

void conn_stream(struct http_exchange *x, bool flooded)
{
    if (x->conn && flooded)
        conn_close(x->conn);
    else if (x->conn)
        server_note_flush(x->conn->s, x->conn);
    stream_drop(x);
}

void conn_end_streams(struct conn *c)
{
    for (struct http_exchange *x = c->first; x; x = x->next)
        if (x->answered && x->stream) {
            x->over = true;
            server_note_flush(c->s, c);
        }
}

void conn_unpause(struct conn *c)
{
    c->body_ns = c->s->now_ns;
    c->inlet_bytes = 0;
    conn_read(c, false);
    conn_update(c);
}

/* ---- events */
static void go_on_handshake(struct conn *c)
{
    int r = tls_handshake(c->s->tls, c->ssl);

    if (r == TLS_ERROR) {
        conn_close(c);
        return;
    }
    c->handshaking = r != 1;
    c->read_wants_write = r == TLS_AGAIN_WRITE;
    if (!c->handshaking)
        timer_stop(&c->read_timer);
}

void conn_event(struct conn *c, uint32_t events)
{
    bool ends = events & EPOLLRDHUP, was_waiting = c->read_wants_write;

    if (c->dead)
        return;
    if (events & (EPOLLERR | EPOLLHUP)) {
        conn_close(c);
        return;
    }
    if (c->handshaking) {
        go_on_handshake(c);
        if (c->dead || c->handshaking) {
            conn_update(c);
            return;
        }
    }
    if (events & EPOLLOUT || c->write_wants_read)
        server_note_flush(c->s, c);
    if (events & (EPOLLIN | EPOLLRDHUP) || was_waiting)
        conn_read(c, ends);
    conn_update(c);
}

void conn_timeout(struct conn *c, enum timer_kind kind)
{
    bool slow_head = kind == TIMER_HEAD && !c->handshaking;

    if (c->dead)
        return;
    if (slow_head)
        fail_request(c, 408, "the head took too long");
    else if (kind == TIMER_BODY)
        fail_request(c, 408, "the body came too slowly");
    else
        conn_close(c);
    conn_update(c);
}
