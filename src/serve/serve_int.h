/* SPDX-License-Identifier: MIT */
/* serve_int: the server, and what the stages of a request (request_int.h) call of one another. */
#ifndef SERVE_SERVE_INT_H
#define SERVE_SERVE_INT_H
#include "http/http.h"
#include "metrics/access_log.h"
#include "serve/admin/stats_int.h"
#include "serve/admin/te_metrics_int.h"
#include "serve/api/routes_int.h"
#include "serve/request_int.h"
#include "serve/sched/sched_int.h"
#include "serve/serve.h"

#include <stdatomic.h>

struct frontend;
struct bulk;
struct loads;

struct serve {
    struct serve_opts o; /* strings owned by model_server.c */
    struct metrics *metrics;
    struct stats *stats;
    struct te_metrics *te; /* NULL: TEI's names are not wanted */
    struct sched *sched;
    struct models *models;
    struct frontend *frontend;
    struct http_server *http;
    struct access *access; /* NULL: no log is kept */
    struct bulk *bulk;     /* files, batches, streams */
    struct loads *loads;   /* who waits for a model */
    int ports[SERVE_LISTEN_MAX];
    _Atomic bool stopping;
    atomic_size_t requests_bytes; /* see request_bytes.c */
    struct serve_priv *priv;      /* model_server.c's */
};

/* A request that came with many others, as a line of a file or of a stream: nobody waits for it
 * by itself, and it is bulk whatever it says.  Its owner's until done() is called, on any thread
 * but the submitter's or on that. */
struct request_line {
    struct http_request http; /* path, query, body; no fields */
    const struct serve_route *api;
    uint64_t client;     /* of the scheduler */
    int64_t deadline_ns; /* monotonic */
    const _Atomic bool *gone;
    /* What it will hold, before it does; false: later, as others of the same source hold enough. */
    bool (*takes)(struct request_line *l, size_t bytes);
    /* Takes what is in `body`.  `f` is NULL where the status is 200. */
    void (*done)(struct request_line *l, int status, struct buf *body,
                 const struct request_fault *f);
    void *arg;
};

/* What a frontend thread keeps from request to request. */
struct frontend_scratch {
    struct tok_scratch *tok;
    struct buf prepared;
};

/* ---- frontend.c: the threads */
enum rc frontend_new(struct serve *s, size_t threads, struct frontend **out,
                     struct err *err) MUST_USE;
void frontend_free(struct frontend *f); /* when no request is left; NULL is fine */
/* A request for a row of the tables; on the loop's thread. */
void frontend_take(struct frontend *f, const struct serve_route *api, struct http_exchange *x);
void frontend_take_line(struct frontend *f, struct request_line *l); /* any thread */
void frontend_wake_parked(struct frontend *f); /* a model became ready or failed */

/* Who asks, as a hash and as the scheduler's number: those who show the server's own token are one,
 * also when the token is another tomorrow; else by the token they show all the same, else by
 * address without its port. */
enum { REQUEST_OWNER_BYTES = 65 };
void request_owner(const struct http_request *r, char out[REQUEST_OWNER_BYTES]);
uint64_t request_client(const char owner[REQUEST_OWNER_BYTES]);

/* ---- request_bytes.c: memory of all requests together; false: r->fault says why there is none */
bool request_take_bytes(struct request *r, size_t bytes);
void request_give_bytes(struct request *r);

/* ---- request_encode.c: inputs as ids; false: r->fault says why */
bool request_encode(struct request *r, struct frontend_scratch *scratch);
bool request_tokenize(
    struct request *r,
    struct frontend_scratch *scratch); /* REQUEST_IDS, REQUEST_TEXTS: all there is */

/* ---- request_finish.c: rows as the client wants them; false: r->fault */
bool request_finish(struct request *r);

#endif
