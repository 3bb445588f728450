/* SPDX-License-Identifier: MIT */
/* bench_load: requests at a server for a while, and what became of them.
 *
 * Closed loop: N clients, each sends its next request when the last is answered.  Times
 * are service times: while the server stalls, nobody asks, and the stall is seen by N
 * requests only.  Open loop: requests fall due at a rate whatever the server does, and a
 * time counts from when the request was due, not from when a connection was free for it;
 * a stall is then seen by all who would have come (no "coordinated omission").
 *
 *     due ──(no connection free)──► sent ──► answered
 *     └───────────── latency, open loop ─────────────┘
 *                                  └ closed ┘
 *
 * Arrivals that wait need no queue: they come from a seeded sequence, and the sequence
 * simply lags behind the clock.
 *
 * What counts: requests due (closed loop: sent) inside the window, also when they end
 * behind it.  Latency is that of good replies, and of requests that ran out of time or
 * could not be sent, as the time they waited; replies that are errors have a histogram of
 * their own, so that a fast 429 makes nothing look fast.  Rates are of good replies that
 * ended inside the window. */
#ifndef BENCH_BENCH_LOAD_H
#define BENCH_BENCH_LOAD_H
#include "bench/bench_api.h"
#include "bench/hist.h"
#include "os/net/client.h"

enum {
    LOAD_STATUSES_MAX = 32, /* different statuses counted; further ones in the last row */
    LOAD_SAMPLE_MAX = 240,  /* bytes of a failure's own words */
    LOAD_PAUSE_MS = 10      /* after a connection that was refused */
};

enum load_kind { /* what became of a request that was no good */
                 LOAD_CONNECT,
                 LOAD_TIMEOUT,
                 LOAD_RESET,
                 LOAD_GARBAGE, /* no HTTP */
                 LOAD_429,
                 LOAD_4XX, /* the others, and 3xx */
                 LOAD_5XX,
                 LOAD_CHECK,  /* --check found the content wrong */
                 LOAD_UNSENT, /* open loop: due, but never sent */
                 LOAD_KINDS
};

struct load_stats { /* all zero is empty; slices add up */
    double seconds; /* length of the windows */
    uint64_t requests, good, errors[LOAD_KINDS];
    uint64_t done_good, done_items, done_tokens; /* ended inside a window */
    uint64_t tokens_told;                        /* good replies that told their tokens */
    struct {
        int status;
        uint64_t count;
    } statuses[LOAD_STATUSES_MAX];
    size_t status_count;
    struct hist latency, failed, lag; /* ns; lag: open loop, from due to sent */
    double cpu_s;                     /* of this process, inside the windows */
    uint64_t connects, resent, bytes_out, bytes_in;
    size_t width;                 /* of vectors, with check; 0: not known */
    char sample[LOAD_SAMPLE_MAX]; /* the first failure, in words */
    bool stopped;                 /* by `stop` before its time */
    bool too_many_errors;
};
uint64_t load_errors(const struct load_stats *s);

struct load_progress {
    int which;                /* load_opts' */
    const char *phase;        /* "warm-up", "measuring", "draining" */
    double done;              /* 0 to 1 */
    double rps, tokens_per_s; /* since the last call; tokens below 0: not told */
    const struct load_stats *stats;
    size_t in_flight;
};

struct load_opts {
    size_t clients; /* closed loop: of them; open loop: the most in flight */
    double rate;    /* requests a second; 0: closed loop */
    bool uniform;   /* arrivals at equal distances instead of Poisson's */
    uint64_t seed;
    int64_t warmup_ns, duration_ns; /* duration 0: until `requests` are sent */
    uint64_t requests;              /* in the window; 0: no limit */
    uint64_t max_errors;            /* ends when there are more; UINT64_MAX: never */
    int64_t timeout_ns;
    bool check;
    enum api_route route;
    int which;       /* for the caller: of several servers this one */
    int64_t tick_ns; /* between two calls of … */
    void (*tick)(void *arg, const struct load_progress *p); /* NULL: none */
    void *arg;
    const volatile int *stop; /* not 0: end now; NULL: never */
};

struct bench_load; /* a server under load; keeps its connections between runs */
enum rc load_new(const struct load_opts *o, const struct url *url, const struct api_requests *reqs,
                 struct bench_load **out, struct err *err) MUST_USE;
void load_free(struct bench_load *l);
/* One request, whose reply must be good: RC_FAIL with the server's own words. */
enum rc load_try(struct bench_load *l, struct err *err) MUST_USE;

#endif
