/* SPDX-License-Identifier: MIT */
/* server: the loop: one thread, one epoll, all connections.
 *
 * A turn of the loop:
 *
 *     wait ─► each event: accept, read, note what to write ─► replies from other threads
 *          ─► timers that are due ─► drain ─► free closed connections
 *
 * Replies are taken and written before and after each event, so a handler that answers at once is
 * answered at once, and never inside a function that still holds the connection.  Closed
 * connections are freed at the end of the turn: events of the same turn may name them.
 *
 * When descriptors run out, or connections_max is reached, one that has no request in progress
 * is closed for a new one (room.c).  Where there is none the listeners are taken out of the wait
 * (they would be ready for ever) and put back when a connection closed, when one may be closed, or
 * after HTTP_ACCEPT_PAUSE_MS. */
#include "http/http_int.h"

#include "base/mem.h"
#include "os/clock.h"
#include "os/net/url.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MS = 1000000 }; /* nanoseconds */

void server_note_flush(struct http_server *s, struct conn *c)
{
    if (c->flushing || c->dead)
        return;
    c->flushing = true;
    c->next_flush = s->flush;
    s->flush = c;
}

void server_note_dead(struct http_server *s, struct conn *c)
{
    c->next_dead = s->dead;
    s->dead = c;
}

/* ---- replies */
void server_take_replies(struct http_server *s)
{
    struct http_exchange *x = hub_take(s->hub), *next;
    bool flooded;

    for (; x; x = next) {
        next = x->next_reply;
        conn_answered(x);
    }
    while ((x = stream_next(s->hub, &flooded)) != NULL)
        conn_stream(x, flooded);
}

static void write_replies(struct http_server *s)
{
    server_take_replies(s);
    while (s->flush) {
        struct conn *c = s->flush;

        s->flush = c->next_flush;
        c->flushing = false;
        conn_flush(c);
        if (!s->flush) /* handlers that ran meanwhile may have answered */
            server_take_replies(s);
    }
}

/* ---- accepting */
static void set_accepting(struct http_server *s, bool on)
{
    if (s->accepting == on)
        return;
    s->accepting = on;
    for (size_t i = 0; i < s->listener_count; i++) {
        struct epoll_event e = { .events = on ? EPOLLIN : 0, .data.ptr = &s->listeners[i] };

        (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->listeners[i].fd, &e);
    }
}

static void accept_some(struct http_server *s, const struct listener *l, size_t max)
{
    char peer[HTTP_PEER_MAX];
    int fd;

    for (size_t i = 0; i < max; i++) {
        enum rc rc;

        if (atomic_load(&s->conn_count) >= s->o.connections_max) {
            struct pollfd waits = { .fd = l->fd, .events = POLLIN };

            if (poll(&waits, 1, 0) != 1)
                return;
            if (!room_make(s)) {
                set_accepting(s, false);
                return;
            }
        }
        rc = listener_accept(l, &fd, peer, sizeof(peer));
        if (rc == RC_LIMIT && room_make(s))
            continue;
        if (rc == RC_LIMIT)
            set_accepting(s, false);
        if (rc == RC_LIMIT || rc == RC_TIMEOUT)
            return;
        if (rc == RC_OK)
            conn_open(s, fd, peer, l->port);
    }
}

/* A connection closed, or the pause is over. */
static void accept_again(struct http_server *s)
{
    if (s->accepting || s->draining)
        return;
    s->accept_again_ns = 0;
    set_accepting(s, true);
}

/* ---- draining */
static void drain_begin(struct http_server *s, int64_t end_ns)
{
    s->draining = true;
    s->drain_cut_ns = end_ns;
    s->drain_idle_ns = s->now_ns + (int64_t)HTTP_DRAIN_IDLE_MS * MS;
    for (size_t i = 0; i < s->listener_count; i++) {
        if (!s->listeners[i].shared) /* who waits in the queue is let in */
            accept_some(s, &s->listeners[i], s->o.connections_max);
        (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->listeners[i].fd, NULL);
        listener_close(&s->listeners[i]);
    }
    s->listener_count = 0;
    s->accepting = false;
    s->accept_again_ns = 0;
    for (struct conn *c = s->conns; c; c = c->next)
        conn_end_streams(c);
}

/* Closes all connections, or those that have nothing to do; how many requests that cut. */
static size_t close_all(struct http_server *s, bool idle_alone)
{
    struct conn *next;
    size_t cut = 0;

    for (struct conn *c = s->conns; c; c = next) {
        next = c->next;
        if (c->lingering || (idle_alone && conn_busy(c)))
            continue;
        cut += c->count + (c->spare || !http_parser_idle(&c->parser));
        conn_close(c);
    }
    return cut;
}

static void drain_end(struct http_server *s, size_t cut)
{
    s->drain_idle_ns = s->drain_cut_ns = INT64_MAX;
    pthread_mutex_lock(&s->hub->lock);
    s->is_drained = true;
    s->cut = cut;
    pthread_cond_broadcast(&s->drained);
    pthread_mutex_unlock(&s->hub->lock);
}

static void drain_step(struct http_server *s)
{
    size_t cut = 0;

    if (!s->draining || s->drain_cut_ns == INT64_MAX)
        return;
    if (s->now_ns >= s->drain_idle_ns) {
        (void)close_all(s, true);
        s->drain_idle_ns = INT64_MAX;
    }
    if (s->now_ns >= s->drain_cut_ns)
        cut = close_all(s, false);
    if (atomic_load(&s->conn_count) == s->lingering)
        drain_end(s, cut);
}

/* ---- the loop */
static bool read_wake(struct http_server *s)
{
    uint64_t count;
    bool ending, drain;
    int64_t end_ns;

    pthread_mutex_lock(&s->hub->lock);
    s->hub->woken = false;
    (void)!read(s->hub->wake_fd, &count, sizeof(count));
    ending = s->ending;
    drain = s->drain_asked;
    end_ns = s->drain_end_ns;
    pthread_mutex_unlock(&s->hub->lock);
    if (drain && !s->draining)
        drain_begin(s, end_ns);
    else if (drain && s->drain_cut_ns != INT64_MAX) /* INT64_MAX: it is over */
        s->drain_cut_ns = end_ns;
    for (struct conn *c; (c = inlet_ready(s));)
        conn_unpause(c);
    return ending;
}

static int wait_ms(const struct http_server *s)
{
    int64_t due = timers_next(&s->timers), left;

    if (s->out && s->now_ns + (int64_t)HTTP_REAP_MS * MS < due)
        due = s->now_ns + (int64_t)HTTP_REAP_MS * MS;
    if (s->accept_again_ns && s->accept_again_ns < due)
        due = s->accept_again_ns;
    if (s->draining && s->drain_idle_ns < due)
        due = s->drain_idle_ns;
    if (s->draining && s->drain_cut_ns < due)
        due = s->drain_cut_ns;
    if (due == INT64_MAX)
        return -1;
    left = due - clock_mono_ns();
    if (left <= 0)
        return 0;
    return left / MS > 60000 ? 60000 : (int)((left + MS - 1) / MS);
}

static bool is_listener(const struct http_server *s, const void *p)
{
    return (const char *)p >= (const char *)s->listeners &&
           (const char *)p < (const char *)(s->listeners + HTTP_LISTENERS_MAX);
}

/* False: the end was asked for. */
static bool run_turn(struct http_server *s)
{
    struct epoll_event events[HTTP_EVENTS_MAX];
    int n = epoll_wait(s->epoll_fd, events, HTTP_EVENTS_MAX, wait_ms(s));
    struct timer *due;
    bool ending = false;

    s->now_ns = clock_mono_ns();
    write_replies(s); /* so that a next request finds the one before it gone */
    for (int i = 0; i < n; i++) {
        void *p = events[i].data.ptr;

        if (p == s)
            ending = read_wake(s);
        else if (!is_listener(s, p))
            conn_event(p, events[i].events);
        else if (s->accepting)
            accept_some(s, p, HTTP_ACCEPTS_MAX);
        write_replies(s);
    }
    while ((due = timers_due(&s->timers, s->now_ns)) != NULL) {
        conn_timeout(due->conn, due->kind);
        write_replies(s);
    }
    if (s->accept_again_ns && s->now_ns >= s->accept_again_ns)
        accept_again(s);
    drain_step(s);
    write_replies(s);
    if (s->dead)
        accept_again(s);
    while (s->dead) {
        struct conn *c = s->dead;

        s->dead = c->next_dead;
        free(c);
    }
    return !ending;
}

static void *loop_main(void *arg)
{
    struct http_server *s = arg;

    pthread_mutex_lock(&s->hub->lock);
    s->hub->loop = pthread_self();
    s->hub->has_loop = true;
    pthread_mutex_unlock(&s->hub->lock);
    while (run_turn(s))
        ;
    while (s->conns) {
        conn_close(s->conns);
        server_take_replies(s); /* of callbacks that answered, and late ones */
    }
    server_take_replies(s);
    while (s->dead) {
        struct conn *c = s->dead;

        s->dead = c->next_dead;
        free(c);
    }
    pthread_mutex_lock(&s->hub->lock);
    s->hub->has_loop = false;
    s->is_drained = true;
    pthread_cond_broadcast(&s->drained);
    pthread_mutex_unlock(&s->hub->lock);
    return NULL;
}

/* ---- the public side */
static int64_t ns_of(int ms, int dflt_ms)
{
    return (int64_t)(ms > 0 ? ms : dflt_ms) * MS;
}

static void take_opts(struct http_server *s, const struct http_opts *o)
{
    struct timers *t = &s->timers;

    s->o = *o;
    s->connections_fixed = o->connections_max > 0;
    s->o.server_name = o->server_name ? xstrdup(o->server_name) : NULL;
    if (!o->body_bytes_max)
        s->o.body_bytes_max = HTTP_BODY_BYTES_DEFAULT;
    if (!o->connections_max)
        s->o.connections_max = HTTP_CONNECTIONS_DEFAULT;
    if (!o->bodies_bytes_max)
        s->o.bodies_bytes_max = HTTP_BODIES_BYTES_MAX;
    s->body_total_ns = ns_of(o->body_total_ms, HTTP_BODY_TOTAL_MS_DEFAULT);
    guard_init(&s->guard, o);
    timers_init(t);
    t->ns[TIMER_HEAD] = ns_of(o->head_ms, HTTP_HEAD_MS_DEFAULT);
    t->ns[TIMER_BODY] = ns_of(o->body_ms, HTTP_BODY_MS_DEFAULT);
    t->ns[TIMER_IDLE] = ns_of(o->idle_ms, HTTP_IDLE_MS_DEFAULT);
    t->ns[TIMER_WRITE] = ns_of(o->write_ms, HTTP_WRITE_MS_DEFAULT);
    t->ns[TIMER_LINGER] = ns_of(HTTP_LINGER_MS, 0);
}

enum rc http_server_new(const struct http_opts *o, struct http_server **out, struct err *err)
{
    struct http_server *s = xcalloc(1, sizeof(*s));
    enum rc rc = RC_OK;

    take_opts(s, o);
    router_init(&s->router, o);
    clock_cond_init(&s->drained);
    s->hub = hub_new(o->server_name);
    s->hub->gzip_min = o->gzip_min;
    s->hub->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->hub->wake_fd < 0 || s->epoll_fd < 0)
        rc = err_sys(err, "could not make an event loop");
    for (size_t i = 0; !rc && o->origins && o->origins[i]; i++)
        rc = url_check_origin(o->origins[i], err);
    for (size_t i = 0; !rc && o->hosts && o->hosts[i]; i++)
        rc = url_check_host(o->hosts[i], err);
    if (!rc && (o->tls_cert || o->tls_key)) {
        if (!o->tls_cert || !o->tls_key)
            rc = err_set(err, RC_USAGE, "TLS needs both a certificate and a key");
        else
            rc = tls_new(o->tls_cert, o->tls_key, &s->tls, err);
    }
    if (rc) {
        http_server_free(s);
        return rc;
    }
    s->read_buf = xmalloc(HTTP_READ_BYTES_MAX);
    s->write_buf = xmalloc(HTTP_TLS_WRITE_MAX);
    *out = s;
    return RC_OK;
}

enum rc http_listen(struct http_server *s, const char *address, int port, int *out_port,
                    struct err *err)
{
    struct listener l = { .fd = -1 };
    enum rc rc;

    assert(!s->started);
    if (s->listener_count == HTTP_LISTENERS_MAX)
        return err_set(err, RC_LIMIT, "could not listen on '%s': %d addresses are taken already",
                       address, HTTP_LISTENERS_MAX);
    rc = listener_open(&l, address, port, err);
    if (rc)
        return rc;
    s->listeners[s->listener_count++] = l;
    if (out_port)
        *out_port = l.port;
    return RC_OK;
}

enum rc http_listen_fd(struct http_server *s, int fd, int *out_port, struct err *err)
{
    struct listener l = { .fd = -1 };
    enum rc rc;

    assert(!s->started);
    if (s->listener_count == HTTP_LISTENERS_MAX)
        return err_set(err, RC_LIMIT, "could not take socket %d: %d addresses are taken already",
                       fd, HTTP_LISTENERS_MAX);
    rc = listener_adopt(&l, fd, err);
    if (rc)
        return rc;
    s->listeners[s->listener_count++] = l;
    if (out_port)
        *out_port = l.port;
    return RC_OK;
}

static enum rc watch_all(struct http_server *s, struct err *err)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = s };
    int bad = epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->hub->wake_fd, &e);

    for (size_t i = 0; i < s->listener_count && !bad; i++) {
        e.data.ptr = &s->listeners[i];
        bad = epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->listeners[i].fd, &e);
    }
    return bad ? err_sys(err, "could not watch a socket") : RC_OK;
}

enum rc http_start(struct http_server *s, struct err *err)
{
    sigset_t all, old;
    enum rc rc;
    int e;

    assert(!s->started);
    rc = files_raise(&s->o.connections_max, s->connections_fixed, err);
    if (!rc)
        rc = watch_all(s, err);
    if (rc)
        return rc;
    s->accepting = true;
    sigfillset(&all); /* signals are the program's; SIGPIPE is nobody's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    e = pthread_create(&s->thread, NULL, loop_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e) {
        errno = e;
        return err_sys(err, "could not start a thread");
    }
    s->started = true;
    return RC_OK;
}

static void wake_loop(struct http_server *s)
{
    uint64_t one = 1;

    s->hub->woken = true;
    while (write(s->hub->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

void http_drain(struct http_server *s, int ms, size_t *out_cut)
{
    int64_t end_ns;

    if (out_cut)
        *out_cut = 0;
    if (!s->started)
        return;
    pthread_mutex_lock(&s->hub->lock);
    end_ns = clock_mono_ns() + (int64_t)(ms > 0 ? ms : 0) * MS;
    if (!s->drain_asked || end_ns < s->drain_end_ns) {
        s->drain_asked = s->hub->draining = true;
        pthread_cond_broadcast(&s->hub->moved); /* streamers that wait */
        s->drain_end_ns = end_ns;
        wake_loop(s);
    }
    while (!s->is_drained)
        pthread_cond_wait(&s->drained, &s->hub->lock);
    if (out_cut)
        *out_cut = s->cut;
    pthread_mutex_unlock(&s->hub->lock);
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    if (s->started) {
        pthread_mutex_lock(&s->hub->lock);
        s->ending = true;
        wake_loop(s);
        pthread_mutex_unlock(&s->hub->lock);
        pthread_join(s->thread, NULL);
    }
    for (size_t i = 0; i < s->listener_count; i++)
        listener_close(&s->listeners[i]);
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    pthread_mutex_lock(&s->hub->lock);
    if (s->hub->wake_fd >= 0)
        close(s->hub->wake_fd);
    s->hub->wake_fd = -1;
    pthread_mutex_unlock(&s->hub->lock);
    hub_unref(s->hub);
    tls_free(s->tls);
    router_release(&s->router);
    pthread_cond_destroy(&s->drained);
    free(s->read_buf);
    free(s->write_buf);
    guard_release(&s->guard);
    free((char *)s->o.server_name);
    free(s);
}

void http_set_keys(struct http_server *s, const struct http_keys *keys)
{
    guard_set_keys(&s->guard, keys);
}

enum rc http_set_tls(struct http_server *s, const char *cert, const char *key, struct err *err)
{
    if (!s->tls)
        return err_set(err, RC_USAGE, "the server began without TLS");
    return tls_change(s->tls, cert, key, err);
}

size_t http_connections(const struct http_server *s)
{
    return atomic_load(&s->conn_count);
}

size_t http_replies_bytes(const struct http_server *s)
{
    return atomic_load(&s->hub->reply_bytes);
}

size_t http_connections_max(const struct http_server *s)
{
    return s->o.connections_max;
}

uint64_t http_connections_dropped(const struct http_server *s)
{
    return atomic_load(&s->room.count);
}
