/* SPDX-License-Identifier: MIT */
/* client: many HTTP/1.1 connections to one server, in one thread, over epoll.
 *
 * A client has a fixed number of slots.  A free slot takes a request, whole as bytes; its
 * connection is opened when there is none and kept for the next.  client_poll() moves all
 * of them and calls back once for every request that ended, well or not.
 *
 *     client_send(slot) ─► connect? ─► write ─► read ─► on_done(slot) ─► free again
 *
 * A kept connection that the server ended before it answered a byte is no error: the
 * request goes out once more on a new one.  At most CLIENT_CONNECTING_MAX connections are
 * opened at a time, so that a listen queue is not flooded; the others wait their turn. */
#ifndef OS_NET_CLIENT_H
#define OS_NET_CLIENT_H
#include "os/net/reply.h"
#include "os/net/url.h"

enum {
    CLIENT_SLOTS_MAX = 60000,    /* connections of one client */
    CLIENT_CONNECTING_MAX = 128, /* of them being opened at a time */
    CLIENT_BODY_MAX = 256 << 20, /* bytes of a kept body */
    CLIENT_EVENTS_MAX = 256,     /* taken from the kernel at a time */
    CLIENT_READ_MAX = 256 << 10, /* bytes read at a time */
    CLIENT_SWEEP_MS = 20         /* between two looks for requests that are over their time */
};

enum client_fault {
    CLIENT_OK,      /* a whole reply came, whatever its status */
    CLIENT_CONNECT, /* no connection */
    CLIENT_TIMEOUT,
    CLIENT_RESET,  /* the connection broke before the reply was whole */
    CLIENT_GARBAGE /* what came is no HTTP */
};

struct client_done {
    size_t slot;
    uint64_t tag; /* as given to client_send() */
    enum client_fault fault;
    int sys;                   /* errno of CLIENT_CONNECT and CLIENT_RESET; 0: none */
    int64_t begun_ns, done_ns; /* monotonic: given, ended */
    const struct reply *reply; /* borrowed until the callback returns; status 0: no head came */
    const struct buf *body;    /* with keep_bodies, else NULL; `over` when cut */
};

struct client_opts {
    const struct url *url; /* copied */
    size_t slots;
    int64_t timeout_ns; /* for a request, connecting included */
    bool keep_bodies;
    size_t body_max; /* bytes of a kept body; 0: CLIENT_BODY_MAX */
    void (*on_done)(void *arg, const struct client_done *d);
    void *arg;
};

struct client;
/* Resolves the name and connects once: RC_FAIL, RC_TIMEOUT when nobody is there. */
enum rc client_new(const struct client_opts *o, struct client **out, struct err *err) MUST_USE;
void client_free(struct client *c); /* cuts what is under way; NULL is fine */

/* A free slot, the one used last first, so that few connections do the work; -1: none. */
long client_free_slot(struct client *c);
size_t client_in_flight(const struct client *c);
/* `bytes` is a whole request and stays the caller's, untouched until it ends.  on_done is
 * never called from here. */
void client_send(struct client *c, size_t slot, const char *bytes, size_t len, uint64_t tag);
/* Works until `until_ns` (monotonic), or until something happened.  RC_OK also when a
 * signal came. */
enum rc client_poll(struct client *c, int64_t until_ns, struct err *err) MUST_USE;

struct client_counts {
    uint64_t connects, resent; /* connections opened; requests that met an ended one */
    uint64_t bytes_out, bytes_in;
};
struct client_counts client_counts(const struct client *c);
const char *client_fault_name(enum client_fault f); /* "timeout" */

#endif
