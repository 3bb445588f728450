/* SPDX-License-Identifier: MIT */
/* access_log: one JSON line for each request, written by a thread of its own.
 *
 * The thread that ends a request copies a fixed-size record into a ring and goes on: no
 * lock, no allocation, no system call but a rare wake-up.  The log's thread turns records
 * into text and writes them in batches.  A full ring or a file that cannot be written loses
 * records, and counts them (stoker_access_log_*): a slow disk never slows an answer. */
#ifndef METRICS_ACCESS_LOG_H
#define METRICS_ACCESS_LOG_H
#include "base/err.h"
#include "metrics/metrics.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ACCESS_RING_DEFAULT = 4096, /* records that wait; 2 MiB */
    ACCESS_RING_MAX = 1 << 20,
    ACCESS_PEER_MAX = 64,  /* bytes with NUL: longer ones are cut */
    ACCESS_PATH_MAX = 192, /* bytes with NUL: longer ones are cut */
    ACCESS_TRACE_MAX = 64, /* bytes with NUL of a traceparent: longer ones are cut */
    ACCESS_NAME_MAX = 128  /* bytes with NUL of a model's name: longer ones are cut */
};

struct access_record {
    int64_t unix_ms; /* when it ended */
    uint64_t id;
    char peer[ACCESS_PEER_MAX];
    char path[ACCESS_PATH_MAX];
    char model[ACCESS_NAME_MAX];                               /* "": none, null in the log */
    char request_id[ACCESS_NAME_MAX], trace[ACCESS_TRACE_MAX]; /* the client's; "": none */
    const char *method, *error;                                /* static text; NULL: null */
    int status;                                                /* 0: none was sent, null */
    bool gone; /* the client left before the answer was written */
    uint64_t items, tokens, bytes_in, bytes_out;
    int64_t queue_ns, run_ns, total_ns; /* -1: not known, null */
};

struct access;
struct access_opts {
    const char *path;        /* appended to; "-": stdout.  Copied */
    size_t ring;             /* records, rounded up to a power of two; 0: the default */
    struct metrics *metrics; /* borrowed, outlives the log; NULL: an own one */
    /* (optional) Called on the log's thread when lines begin to be lost (why: strerror's text)
     * and when they are written again (why NULL; lost: how many were not). */
    void (*on_trouble)(void *arg, const char *path, const char *why, uint64_t lost);
    void *arg;
};
enum rc access_open(const struct access_opts *o, struct access **out, struct err *err) MUST_USE;
void access_close(struct access *a); /* writes what waits; NULL is fine */

/* Copies the record; false: the ring is full and the record is counted as dropped.  Any
 * thread.  `a` NULL: nothing happens, true. */
bool access_put(struct access *a, const struct access_record *r);
/* Fills a text of the record, cut between characters. */
void access_text(char *out, size_t cap, const char *s);
/* What the client named its request by; NULL: nothing. */
void access_names(struct access_record *r, const char *request_id, const char *trace);
/* Opens the file anew, after what waits has gone to the old one: for logrotate.  Returns at
 * once; when the new one cannot be opened the old one goes on, and that is counted.  Safe in
 * a signal handler. */
void access_reopen(struct access *a);

#endif
