/* SPDX-License-Identifier: MIT */
/* room: which connection is closed when all are taken and another one waits.
 *
 * One that has no request in progress: it rests after a reply, or sent nothing yet, or a part of
 * a head, or has its last reply.  It has to be as old as HTTP_ROOM_IDLE_MS, or HTTP_ROOM_CROWD_MS
 * where its address holds more than half of all connections; where it never sent a whole head and
 * no address holds more than twice as many as its own, HTTP_ROOM_SILENT_MS.
 *
 * Or one whose request's body, or whose reply, has come or left at less than HTTP_BODY_RATE_MIN for
 * HTTP_ROOM_STALL_MS, or HTTP_ROOM_STALL_CROWD_MS where no address holds more than twice as many as
 * its own.  Where a token is wanted and the request showed none, at whatever rate, and a body after
 * HTTP_ROOM_STALL_CROWD_MS always; one whose request is refused already, HTTP_ROOM_CROWD_MS.
 *
 * Short requests without a pause would keep a connection for ever: while somebody waits, that of an
 * address which holds more than half of all ends with its next reply, and that of a request which
 * did not show the token that is wanted (room_is_short()); who comes back waits behind those who
 * came before.
 *
 * Nothing of this ends a request in progress, so an address with one on each connection would keep
 * all others out until they are answered: with large ones, for long.  So one more is refused where
 * an address has HTTP_ROOM_SHARE times as many busy connections as are not busy at all: one address
 * has seven eighths at most, two have seven fifteenths each, and some are left that may be closed
 * for somebody else.  Who has none in progress is never refused.  The refused one's connection ends
 * with that reply, and is closed for another one after HTTP_ROOM_SILENT_MS.
 *
 * Of all that may be closed the first is of the address that holds the most: whoever opens
 * connections and says nothing pays for it himself, and the others are let in.  Addresses are
 * counted by a hash of theirs in ROOM_SLOTS; two that share a slot are taken for one, which costs
 * an order, and beside a crowd of the other one a 429.  The rings of the timers are sorted by age,
 * so the first that fits is the oldest. */
#include "http/http_int.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>

enum { MS = 1000000 }; /* nanoseconds */

/* The bytes of "address:port" that are the address. */
static size_t address_len(const char *peer)
{
    const char *colon = strrchr(peer, ':');

    return colon ? (size_t)(colon - peer) : strlen(peer);
}

void room_enter(struct http_server *s, struct conn *c)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    char text[INET6_ADDRSTRLEN] = "";
    struct in6_addr v6;
    size_t n = address_len(c->peer);
    const char *p = c->peer;

    if (*p == '[' && n > 2 && n - 2 < sizeof(text))
        memcpy(text, p + 1, n - 2);
    if (*text && inet_pton(AF_INET6, text, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6)) {
        p = (const char *)&v6;
        n = 8; /* whoever has one address of a /64 has them all */
    }
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)p[i]) * 16777619u;
    c->slot = (uint16_t)((hash ^ hash >> 16) % ROOM_SLOTS);
    s->room.held[c->slot]++;
}

void room_leave(struct http_server *s, const struct conn *c)
{
    assert(s->room.held[c->slot] > 0);
    s->room.held[c->slot]--;
}

void room_busy(struct conn *c, bool busy)
{
    struct room *r = &c->s->room;

    if (c->busy == busy)
        return;
    c->busy = busy;
    if (busy) {
        r->busy[c->slot]++;
        r->busy_all++;
    } else {
        assert(r->busy[c->slot] > 0);
        r->busy[c->slot]--;
        r->busy_all--;
    }
}

bool room_refuses(struct conn *c)
{
    struct http_server *s = c->s;
    size_t own = s->room.busy[c->slot], all = s->room.busy_all;
    size_t rest = s->o.connections_max > all ? s->o.connections_max - all : 0;

    if (c->busy || !own || own < HTTP_ROOM_SHARE * rest)
        return false;
    c->crowded_out = true;
    if (!s->room.refused_told_ns ||
        s->now_ns - s->room.refused_told_ns > (int64_t)HTTP_ROOM_TOLD_MS * MS) {
        s->room.refused_told_ns = s->now_ns;
        log_warn(
            "%.*s has a request in progress on %zu of %zu connections (connections_max, or the "
            "limit of open files): its further requests are refused (429), so that others "
            "are let in",
            (int)address_len(c->peer), c->peer, own, s->o.connections_max);
    }
    return true;
}

struct room_pick {
    struct conn *conn; /* NULL: none may be closed yet */
    uint32_t held;     /* connections of its address */
    uint32_t most;     /* of the address that holds the most */
    int64_t ripe_ns;   /* when the next one may be */
    size_t looked;
};

static bool is_crowd(const struct http_server *s, const struct conn *c)
{
    return (size_t)s->room.held[c->slot] * 2 > atomic_load(&s->conn_count);
}

bool room_is_short(const struct conn *c)
{
    const struct http_server *s = c->s;

    return s->room.short_ns && s->now_ns - s->room.short_ns < (int64_t)HTTP_ROOM_IDLE_MS * MS &&
           (is_crowd(s, c) || (s->room.keyed && !c->verdict.proven));
}

/* Since `since_ns` so many bytes came or left: when may that be too few?  INT64_MAX: it is not. */
static int64_t too_few_ns(const struct http_server *s, int64_t since_ns, size_t bytes, int least_ms)
{
    int64_t ms = (s->now_ns - since_ns) / MS;

    if (ms >= least_ms && (int64_t)bytes >= ms * HTTP_BODY_RATE_MIN / 1000)
        return INT64_MAX;
    return since_ns + (int64_t)least_ms * MS;
}

static int64_t body_ripe_ns(const struct http_server *s, const struct conn *c, int least_ms)
{
    if (c->verdict.status) /* its reply does not depend on it */
        return c->body_ns + (int64_t)HTTP_ROOM_CROWD_MS * MS;
    if (s->room.keyed && !c->verdict.proven)
        return c->body_ns + (int64_t)HTTP_ROOM_STALL_CROWD_MS * MS;
    return too_few_ns(s, c->body_ns, c->inlet ? c->inlet_bytes : c->parser.body_len, least_ms);
}

static int64_t reply_ripe_ns(const struct http_server *s, const struct conn *c, int least_ms)
{
    if (s->room.keyed && c->first && !c->first->req.proven)
        return c->stuck_ns + (int64_t)least_ms * MS;
    return too_few_ns(s, c->stuck_ns, c->stuck_bytes, least_ms);
}

/* When may it be closed for another one? */
static int64_t ripe_ns(const struct http_server *s, const struct timer *t, uint32_t most)
{
    int64_t since_ns = t->due_ns - s->timers.ns[t->kind];
    const struct conn *c = t->conn;
    bool holds_most = (size_t)s->room.held[c->slot] * 2 >= most;
    int ms = is_crowd(s, c) ? HTTP_ROOM_CROWD_MS : HTTP_ROOM_IDLE_MS;
    int stall_ms = holds_most ? HTTP_ROOM_STALL_CROWD_MS : HTTP_ROOM_STALL_MS;

    if (t->kind == TIMER_BODY)
        return body_ripe_ns(s, c, stall_ms);
    if (t->kind == TIMER_WRITE)
        return reply_ripe_ns(s, c, stall_ms);
    if (c->crowded_out || (!c->served && holds_most))
        ms = HTTP_ROOM_SILENT_MS;
    return since_ns + (int64_t)ms * MS;
}

/* Is a request before it being answered, which it has to wait for? */
static bool waits_for_reply(const struct timer *t)
{
    const struct conn *c = t->conn;

    return t->kind != TIMER_WRITE && c->first && c->first != c->inlet;
}

/* Has it sent something that we have not read? */
static bool has_sent(const struct conn *c)
{
    int bytes = 0;

    return ioctl(c->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* Looks through one ring, oldest first, until nothing better can come. */
static void look_at_list(const struct http_server *s, enum timer_kind kind, struct room_pick *p)
{
    const struct timer *ring = &s->timers.list[kind];

    for (struct timer *t = ring->next; t != ring; t = t->next) {
        uint32_t held = s->room.held[t->conn->slot];
        int64_t ripe = ripe_ns(s, t, p->most);

        if (p->held == p->most || p->looked++ == HTTP_ROOM_LOOKS_MAX)
            return;
        if (t->conn->dead || waits_for_reply(t))
            continue;
        if (ripe > s->now_ns) {
            p->ripe_ns = ripe < p->ripe_ns ? ripe : p->ripe_ns;
        } else if ((!p->conn || held > p->held) &&
                   ((kind != TIMER_HEAD && kind != TIMER_IDLE) || !has_sent(t->conn))) {
            p->conn = t->conn;
            p->held = held;
        }
    }
}

static void log_pick(struct http_server *s, const struct room_pick *p)
{
    size_t all = atomic_load(&s->conn_count);

    if (s->room.told_ns && s->now_ns - s->room.told_ns <= (int64_t)HTTP_ROOM_TOLD_MS * MS)
        return;
    s->room.told_ns = s->now_ns;
    if (p->conn)
        log_warn(
            "all %zu connections are taken (connections_max, or the limit of open files), "
            "%" PRIu32
            " of them from %.*s: those without a request, or whose bytes barely move, are closed "
            "for new ones, "
            "%" PRIu64 " so far",
            all, p->held, (int)address_len(p->conn->peer), p->conn->peer,
            atomic_load(&s->room.count));
    else
        log_warn("all %zu connections are taken (connections_max, or the limit of open files), and "
                 "each has a request: new ones wait",
                 all);
}

bool room_make(struct http_server *s)
{
    struct room_pick p = { .ripe_ns = INT64_MAX };
    int64_t pause_ns = s->now_ns + (int64_t)HTTP_ACCEPT_PAUSE_MS * MS;

    s->room.short_ns = s->now_ns;
    s->room.keyed = guard_is_keyed(&s->guard);
    for (size_t i = 0; i < ROOM_SLOTS; i++)
        p.most = s->room.held[i] > p.most ? s->room.held[i] : p.most;
    look_at_list(s, TIMER_HEAD, &p);
    look_at_list(s, TIMER_IDLE, &p);
    look_at_list(s, TIMER_LINGER, &p);
    look_at_list(s, TIMER_BODY, &p);
    look_at_list(s, TIMER_WRITE, &p);
    if (!p.conn) {
        if (p.ripe_ns == INT64_MAX)
            log_pick(s, &p);
        s->accept_again_ns = p.ripe_ns < pause_ns ? p.ripe_ns : pause_ns;
        return false;
    }
    atomic_fetch_add(&s->room.count, 1);
    log_pick(s, &p);
    conn_close(p.conn);
    return true;
}
