/* SPDX-License-Identifier: MIT */
/* client: see client.h.
 *
 * Invariants: a slot is on the free list exactly when `busy` is false; a busy slot is
 * waiting for its turn to connect (on the waiting list, fd -1), connecting, or talking.
 * Requests end only in end_request().  Slots that end outside of an event (their time is
 * over) are swept now and then, which costs one pass over the busy ones. */
#include "os/net/client.h"

#include "base/mem.h"
#include "os/clock.h"
#include "os/net/net_int.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLIENT_SPARE_FILES = 64 /* of the limit, left to the rest of the program */ };

struct slot {
    int fd; /* -1: no connection */
    bool busy, connecting, waiting;
    bool used;    /* the connection has carried a reply before */
    bool resent;  /* this request already met an ended connection */
    bool writing; /* EPOLLOUT is asked for */
    const char *out;
    size_t out_len, out_at;
    uint64_t tag;
    int64_t begun_ns;
    size_t next; /* in the free or the waiting list */
    struct reply reply;
    struct buf body;
};

struct client {
    struct url url;
    struct sockaddr_storage addr;
    socklen_t addr_len;
    int epoll, timer;
    struct slot *slots; /* owned */
    size_t count;
    size_t free_first, wait_first, wait_last; /* `count`: none */
    size_t in_flight, connecting;
    int64_t timeout_ns, swept_ns, timer_ns;
    bool keep_bodies;
    void (*on_done)(void *arg, const struct client_done *d);
    void *arg;
    struct client_counts counts;
    char *in; /* CLIENT_READ_MAX bytes, shared by all */
};

const char *client_fault_name(enum client_fault f)
{
    static const char *const names[] = { "ok", "connect", "timeout", "reset", "garbage" };

    assert((size_t)f < ARRAY_SIZE(names));
    return names[f];
}

struct client_counts client_counts(const struct client *c)
{
    return c->counts;
}

size_t client_in_flight(const struct client *c)
{
    return c->in_flight;
}

/* ---- the address ---- */
/* A connected blocking-free socket to `c->addr`, or -1: in progress is fine too. */
static int open_socket(const struct client *c)
{
    int fd = socket(c->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

    if (fd < 0)
        return -1;
    if (c->addr.ss_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (!connect(fd, (const struct sockaddr *)&c->addr, c->addr_len) || errno == EINPROGRESS)
        return fd;
    int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* Waits for one connection; 0 or an errno. */
static int try_address(const struct client *c)
{
    int fd = open_socket(c), fault = 0;
    socklen_t size = sizeof(fault);
    struct pollfd p = { .fd = fd, .events = POLLOUT };

    if (fd < 0)
        return errno;
    if (poll(&p, 1, (int)(c->timeout_ns / 1000000)) < 1)
        fault = ETIMEDOUT;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &size))
        fault = errno;
    close(fd);
    return fault;
}

static int find_unix(struct client *c)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&c->addr;

    un->sun_family = AF_UNIX;
    snprintf(un->sun_path, sizeof(un->sun_path), "%s", c->url.socket);
    c->addr_len = sizeof(*un);
    return try_address(c);
}

static enum rc no_server(const struct client *c, int fault, struct err *err)
{
    char where[URL_AUTHORITY_MAX];

    err_hint(err, "Is the server running, and is this its address?");
    return err_set(err, fault == ETIMEDOUT ? RC_TIMEOUT : RC_FAIL, "could not connect to '%s': %s",
                   c->url.socket[0] ? c->url.socket : url_authority(&c->url, where),
                   strerror(fault));
}

/* The first of the name's addresses that takes a connection. */
static enum rc find_address(struct client *c, struct err *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *all = NULL;
    int fault = ENOENT, found;

    if (c->url.socket[0]) {
        fault = find_unix(c);
        return fault ? no_server(c, fault, err) : RC_OK;
    }
    found = getaddrinfo(c->url.host, c->url.port, &hints, &all);
    if (found)
        return err_set(err, RC_FAIL, "could not find the host '%s': %s", c->url.host,
                       gai_strerror(found));
    for (struct addrinfo *a = all; a && fault; a = a->ai_next) {
        memcpy(&c->addr, a->ai_addr, a->ai_addrlen);
        c->addr_len = a->ai_addrlen;
        fault = try_address(c);
    }
    freeaddrinfo(all);
    return fault ? no_server(c, fault, err) : RC_OK;
}

/* Every slot needs a file: the soft limit goes up to the hard one. */
static enum rc allow_files(size_t slots, struct err *err)
{
    struct rlimit lim;
    rlim_t want = slots + CLIENT_SPARE_FILES;

    if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur >= want)
        return RC_OK;
    lim.rlim_cur = lim.rlim_max < want ? lim.rlim_max : want;
    if (!setrlimit(RLIMIT_NOFILE, &lim) && lim.rlim_cur >= want)
        return RC_OK;
    err_hint(err, "Raise it with 'ulimit -Hn' as root, or ask for fewer.");
    return err_set(err, RC_LIMIT, "%zu connections need %zu open files, the limit is %llu", slots,
                   (size_t)want, (unsigned long long)lim.rlim_max);
}

/* ---- lists ---- */
static void list_free(struct client *c, size_t i)
{
    c->slots[i].next = c->free_first;
    c->free_first = i;
}

static void list_waiting(struct client *c, size_t i)
{
    struct slot *s = &c->slots[i];

    s->waiting = true;
    s->next = c->count;
    if (c->wait_first == c->count)
        c->wait_first = i;
    else
        c->slots[c->wait_last].next = i;
    c->wait_last = i;
}

static void unlist_waiting(struct client *c, size_t i)
{
    size_t *at = &c->wait_first, before = c->count;

    while (*at != i) {
        before = *at;
        at = &c->slots[*at].next;
    }
    *at = c->slots[i].next;
    if (c->wait_last == i)
        c->wait_last = before;
    c->slots[i].waiting = false;
}

long client_free_slot(struct client *c)
{
    return c->free_first == c->count ? -1 : (long)c->free_first;
}

/* ---- one slot ---- */
static void drop_connection(struct client *c, struct slot *s)
{
    if (s->connecting)
        c->connecting--;
    s->connecting = s->used = s->writing = false;
    if (s->fd >= 0)
        close(s->fd); /* leaves the epoll set with it */
    s->fd = -1;
}

static void end_request(struct client *c, struct slot *s, enum client_fault fault, int sys)
{
    struct client_done d = { .slot = (size_t)(s - c->slots),
                             .tag = s->tag,
                             .fault = fault,
                             .sys = sys,
                             .begun_ns = s->begun_ns,
                             .done_ns = clock_mono_ns(),
                             .reply = &s->reply,
                             .body = c->keep_bodies ? &s->body : NULL };

    if (s->waiting)
        unlist_waiting(c, d.slot);
    if (fault || s->reply.close)
        drop_connection(c, s);
    s->busy = false;
    s->used = s->fd >= 0;
    c->in_flight--;
    list_free(c, d.slot);
    c->on_done(c->arg, &d);
}

static bool watch_slot(struct client *c, struct slot *s, int op, uint32_t events)
{
    struct epoll_event e = { .events = events, .data.u64 = (uint64_t)(s - c->slots) };

    return !epoll_ctl(c->epoll, op, s->fd, &e);
}

static void start_connecting(struct client *c, struct slot *s)
{
    s->fd = open_socket(c);
    c->counts.connects++;
    if (s->fd < 0) {
        end_request(c, s, CLIENT_CONNECT, errno);
        return;
    }
    s->connecting = s->writing = true;
    c->connecting++;
    if (!watch_slot(c, s, EPOLL_CTL_ADD, EPOLLIN | EPOLLOUT | EPOLLRDHUP))
        end_request(c, s, CLIENT_CONNECT, errno);
}

static void begin_request(struct slot *s)
{
    s->out_at = 0;
    buf_reset(&s->body);
    reply_reset(&s->reply, s->reply.keep);
}

/* The kept connection had ended: once more, on a new one. */
static void resend_request(struct client *c, struct slot *s)
{
    drop_connection(c, s);
    begin_request(s);
    s->resent = true;
    c->counts.resent++;
    list_waiting(c, (size_t)(s - c->slots));
}

static void connection_broke(struct client *c, struct slot *s, int sys)
{
    if (!s->busy)
        drop_connection(c, s); /* a kept one that the server let go */
    else if (s->connecting)
        end_request(c, s, CLIENT_CONNECT, sys);
    else if (s->used && !s->resent && !reply_begun(&s->reply))
        resend_request(c, s);
    else
        end_request(c, s, CLIENT_RESET, sys);
}

static void write_some(struct client *c, struct slot *s)
{
    ssize_t n;

    while (s->out_at < s->out_len) {
        n = send(s->fd, s->out + s->out_at, s->out_len - s->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            if (!s->writing)
                (void)watch_slot(c, s, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
            s->writing = true;
            return;
        }
        if (n < 0) {
            if (errno == EPIPE || errno == ECONNRESET)
                return; /* a reply may be there already; reading tells */
            connection_broke(c, s, errno);
            return;
        }
        s->out_at += (size_t)n;
        c->counts.bytes_out += (uint64_t)n;
    }
    if (s->writing)
        (void)watch_slot(c, s, EPOLL_CTL_MOD, EPOLLIN | EPOLLRDHUP);
    s->writing = false;
}

static void finish_connecting(struct client *c, struct slot *s)
{
    int fault = 0;
    socklen_t size = sizeof(fault);

    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &fault, &size) || fault) {
        connection_broke(c, s, fault ? fault : errno);
        return;
    }
    s->connecting = false;
    c->connecting--;
    write_some(c, s);
}

/* A piece of the reply; true when the request has ended. */
static bool take_bytes(struct client *c, struct slot *s, size_t len)
{
    enum reply_state state;
    size_t used;

    c->counts.bytes_in += len;
    state = reply_feed(&s->reply, c->in, len, &used);
    if (state == REPLY_MORE)
        return false;
    /* bytes behind a reply, or a reply before the request was out: not a connection to keep */
    if (used < len || s->out_at < s->out_len)
        s->reply.close = true;
    end_request(c, s, state == REPLY_DONE ? CLIENT_OK : CLIENT_GARBAGE, 0);
    return true;
}

static void read_some(struct client *c, struct slot *s)
{
    for (;;) {
        ssize_t n = recv(s->fd, c->in, CLIENT_READ_MAX, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (!s->busy) { /* nobody asked: the connection ended, or talks nonsense */
            drop_connection(c, s);
            return;
        }
        if (n < 0) {
            connection_broke(c, s, errno);
            return;
        }
        if (n == 0) {
            if (reply_begun(&s->reply) && reply_eof(&s->reply) == REPLY_DONE)
                end_request(c, s, CLIENT_OK, 0);
            else
                connection_broke(c, s, 0);
            return;
        }
        if (take_bytes(c, s, (size_t)n) || n < CLIENT_READ_MAX)
            return; /* what is left wakes us again */
    }
}

static void on_event(struct client *c, struct slot *s, uint32_t events)
{
    if (s->fd < 0)
        return; /* ended by an earlier event of this turn */
    if (s->connecting) {
        finish_connecting(c, s);
        return;
    }
    if (s->busy && (events & EPOLLOUT))
        write_some(c, s);
    if (s->fd >= 0 && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        read_some(c, s);
}

/* ---- all slots ---- */
void client_send(struct client *c, size_t slot, const char *bytes, size_t len, uint64_t tag)
{
    struct slot *s = &c->slots[slot];

    assert(slot == c->free_first && !s->busy && len);
    c->free_first = s->next;
    c->in_flight++;
    s->busy = true;
    s->resent = false;
    s->out = bytes;
    s->out_len = len;
    s->tag = tag;
    s->begun_ns = clock_mono_ns();
    begin_request(s);
    if (s->fd < 0)
        list_waiting(c, slot); /* client_poll() connects: an end is never told from here */
    else
        write_some(c, s);
}

static void connect_waiting(struct client *c)
{
    /* A refused connection ends at once and its slot may be given work again by the
     * callback; the bound keeps that from going on for ever. */
    for (size_t n = 0; n < CLIENT_CONNECTING_MAX; n++) {
        size_t i = c->wait_first;

        if (i == c->count || c->connecting >= CLIENT_CONNECTING_MAX)
            return;
        unlist_waiting(c, i);
        start_connecting(c, &c->slots[i]);
    }
}

static void sweep_late(struct client *c, int64_t now)
{
    if (now - c->swept_ns < CLIENT_SWEEP_MS * INT64_C(1000000))
        return;
    c->swept_ns = now;
    for (size_t i = 0; i < c->count; i++)
        if (c->slots[i].busy && now - c->slots[i].begun_ns > c->timeout_ns)
            end_request(c, &c->slots[i], CLIENT_TIMEOUT, 0);
}

/* epoll counts in milliseconds, arrivals do not: a timer among the files wakes us. */
static void set_timer(struct client *c, int64_t until_ns)
{
    struct itimerspec t = { .it_value = { until_ns / 1000000000, until_ns % 1000000000 } };

    if (until_ns == c->timer_ns)
        return;
    c->timer_ns = until_ns;
    (void)timerfd_settime(c->timer, TFD_TIMER_ABSTIME, &t, NULL);
}

enum rc client_poll(struct client *c, int64_t until_ns, struct err *err)
{
    struct epoll_event events[CLIENT_EVENTS_MAX];
    int64_t now = clock_mono_ns(), sweep_ns = c->swept_ns + CLIENT_SWEEP_MS * INT64_C(1000000);
    uint64_t expired;
    int count;

    connect_waiting(c);
    if (c->in_flight && sweep_ns < until_ns)
        until_ns = sweep_ns;
    if (until_ns > now)
        set_timer(c, until_ns);
    count = epoll_wait(c->epoll, events, CLIENT_EVENTS_MAX, until_ns > now ? -1 : 0);
    if (count < 0 && errno != EINTR)
        return err_sys(err, "could not wait for the connections");
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 < c->count)
            on_event(c, &c->slots[events[i].data.u64], events[i].events);
        else if (read(c->timer, &expired, sizeof(expired)) > 0)
            c->timer_ns = 0;
    }
    sweep_late(c, clock_mono_ns());
    return RC_OK;
}

/* ---- life ---- */
static enum rc open_files(struct client *c, struct err *err)
{
    struct epoll_event e = { .events = EPOLLIN, .data.u64 = UINT64_MAX };

    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (c->epoll < 0 || c->timer < 0 || epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->timer, &e))
        return err_sys(err, "could not make an epoll set");
    return RC_OK;
}

enum rc client_new(const struct client_opts *o, struct client **out, struct err *err)
{
    struct client *c;

    assert(o->slots > 0 && o->timeout_ns > 0 && o->on_done);
    if (o->slots > CLIENT_SLOTS_MAX)
        return err_set(err, RC_LIMIT, "%zu connections are more than %d", o->slots,
                       CLIENT_SLOTS_MAX);
    if (o->url->tls) { /* os/net/web.h has TLS, for one request at a time */
        err_hint(err, "Give the server's plain port, or put a proxy that ends TLS before it.");
        return err_set(err, RC_USAGE, "https is not supported for load on '%s'", o->url->host);
    }
    if (allow_files(o->slots, err))
        return RC_LIMIT;
    c = xcalloc(1, sizeof(*c));
    c->epoll = c->timer = -1;
    c->url = *o->url;
    c->timeout_ns = o->timeout_ns;
    c->keep_bodies = o->keep_bodies;
    c->on_done = o->on_done;
    c->arg = o->arg;
    if (find_address(c, err) || open_files(c, err)) {
        client_free(c);
        return err ? err->code : RC_FAIL;
    }
    c->in = xmalloc(CLIENT_READ_MAX);
    c->count = c->free_first = c->wait_first = c->wait_last = o->slots;
    c->slots = xcalloc(c->count, sizeof(*c->slots));
    for (size_t i = c->count; i-- > 0;) {
        struct slot *s = &c->slots[i];

        s->fd = -1;
        buf_init(&s->body, o->body_max ? o->body_max : CLIENT_BODY_MAX);
        s->reply.keep = c->keep_bodies ? &s->body : NULL;
        list_free(c, i);
    }
    *out = c;
    return RC_OK;
}

void client_free(struct client *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->count; i++) {
        drop_connection(c, &c->slots[i]);
        buf_release(&c->slots[i].body);
    }
    if (c->epoll >= 0)
        close(c->epoll);
    if (c->timer >= 0)
        close(c->timer);
    free(c->slots);
    free(c->in);
    free(c);
}
