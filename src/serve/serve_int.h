/* SPDX-License-Identifier: MIT */
/* serve_int: one request on its way through the server, and the stages it passes.
 *
 *   loop thread    front threads                       lane's thread
 *   handler ─────► parse, model, tokenise, submit ───► batches
 *                  finish, write, reply ◄───────────── done
 *
 * The only call of an idle server skips the front threads: the loop's thread parses it and the
 * lane's answers it.  A call belongs to exactly one of them at a time; what others may touch is
 * atomic. */
#ifndef SERVE_SERVE_INT_H
#define SERVE_SERVE_INT_H
#include "http/http.h"
#include "metrics/access_log.h"
#include "serve/admin/stats_int.h"
#include "serve/admin/te_metrics_int.h"
#include "serve/api/routes_int.h"
#include "serve/sched/sched_int.h"
#include "serve/serve.h"

#include <stdatomic.h>

struct front;
struct bulk;
struct loads;

struct serve {
    struct serve_opts o; /* strings owned by model_server.c */
    struct metrics *metrics;
    struct stats *stats;
    struct te_metrics *te; /* NULL: TEI's names are not wanted */
    struct sched *sched;
    struct models *models;
    struct front *front;
    struct http_server *http;
    struct access *access; /* NULL: no log is kept */
    struct bulk *bulk;     /* files, batches, streams */
    struct loads *loads;   /* who waits for a model */
    int ports[SERVE_LISTEN_MAX];
    _Atomic bool stopping;
    atomic_size_t calls_bytes; /* see request_bytes.c */
    struct serve_own *own;     /* model_server.c's */
};

/* A request that came with many others, as a line of a file or of a stream: nobody waits for it
 * by itself, and it is bulk whatever it says.  Its owner's until done() is called, on any thread
 * but the submitter's or on that. */
struct call_line {
    struct http_request req; /* path, query, body; no fields */
    const struct api *api;
    uint64_t client;     /* of the scheduler */
    int64_t deadline_ns; /* monotonic */
    const _Atomic bool *gone;
    /* What it will hold, before it does; false: later, as others of the same source hold enough. */
    bool (*takes)(struct call_line *l, size_t bytes);
    /* Takes what is in `body`.  `f` is NULL where the status is 200. */
    void (*done)(struct call_line *l, int status, struct buf *body, const struct ask_fault *f);
    void *arg;
};

struct call {
    struct serve *s;
    struct http_exchange *x;        /* NULL: a line's */
    struct call_line *line;         /* NULL: a client's own */
    const struct http_request *req; /* of one of them */
    const struct api *api;
    struct call *next; /* in the queue that holds it */
    enum { CALL_PARSE, CALL_MODEL, CALL_FINISH } stage;
    struct ask ask; /* arena: everything of this call */
    struct ask_fault fault;
    struct served *model; /* a reference, or NULL */
    struct job job;
    float *rows; /* [row_count][width], owned: too large for an arena's life */
    size_t row_count;
    size_t full_width; /* floats a row as computed */
    size_t bytes;      /* counted in calls_bytes */
    struct answer answer;
    enum rc why; /* how the job ended */
    struct err err;
    int64_t tokenize_ns;
};

/* What a front thread keeps from call to call. */
struct front_own {
    struct tok_scratch *scratch;
    struct buf prepared;
};

/* ---- frontend.c: the threads */
enum rc front_new(struct serve *s, size_t threads, struct front **out, struct err *err) MUST_USE;
void front_free(struct front *f); /* when no call is left; NULL is fine */
/* A request for a row of the tables; on the loop's thread. */
void front_take(struct front *f, const struct api *api, struct http_exchange *x);
void front_take_line(struct front *f, struct call_line *l); /* any thread */
void front_wake_parked(struct front *f);                    /* a model became ready or failed */

/* Who asks, as a hash and as the scheduler's number: those who show the server's own token are one,
 * also when the token is another tomorrow; else by the token they show all the same, else by
 * address without its port. */
enum { CALL_OWNER_BYTES = 65 };
void call_owner(const struct http_request *r, char out[CALL_OWNER_BYTES]);
uint64_t call_client(const char owner[CALL_OWNER_BYTES]);

/* ---- request_bytes.c: memory of all calls together; false: c->fault says why there is none */
bool call_take_bytes(struct call *c, size_t bytes);
void call_give_bytes(struct call *c);

/* ---- request_encode.c: inputs as ids; false: c->fault says why */
bool call_encode(struct call *c, struct front_own *own);
bool call_tokenize(struct call *c, struct front_own *own); /* ASK_IDS, ASK_TEXTS: all there is */

/* ---- request_finish.c: rows as the client wants them; false: c->fault */
bool call_finish(struct call *c);

#endif
