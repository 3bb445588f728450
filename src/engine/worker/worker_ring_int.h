/* SPDX-License-Identifier: MIT */
/* worker_ring: the memory that a process and the worker of one device share, and how batches
 * pass through it.
 *
 *     page          slot 0: batch, rows    slot 1: batch, rows    …
 *     ├─ bells ─ slots' heads ─┤
 *
 *   owner                                worker
 *   wring_post(t): batch, READY, bell ──► wring_ready(t): checks, runs on the memory itself
 *   wring_await(t) ◄──────────── wring_finish(t): rows are there, code and text, DONE, bell
 *   wring_take(t): copies rows
 *
 * Tickets rise by one; ticket t has slot t % WRING_SLOTS, and the worker takes them in order.  The
 * owner posts one only when the slot's last rows were taken.
 *
 * A bell is a futex: whoever waits looks for a while without sleeping, since a sleep and a wake
 * cost more than a small batch.
 *
 * Invariants.
 *  1. The file is sealed: it cannot shrink under who reads it.  Its pages are there before a
 *     ticket is posted (fallocate), so no access can fail for want of memory.
 *  2. Neither side takes an offset or a length from the memory: both compute them from numbers
 *     that were copied and checked. */
#ifndef ENGINE_WORKER_WORKER_RING_INT_H
#define ENGINE_WORKER_WORKER_RING_INT_H
#include "engine/engine.h"

#include <stdatomic.h>

enum {
    WRING_SLOTS = 4,             /* batches on their way */
    WRING_IN_BYTES = 32 << 20,   /* of a batch: ids, types, starts, skips */
    WRING_OUT_BYTES = 256 << 20, /* of its rows */
    WRING_KEEP_BYTES = 16 << 20, /* of a slot's rows that stay when they were taken */
    WRING_TEXT_MAX = 1024,       /* of why a batch failed */
    WRING_WIDTH_MAX = 1 << 20,   /* floats a row */
    WRING_SPIN_CPUS = 4,         /* so many, and one may look without sleeping; with fewer the other
                                  * side may need the one that looks, and does so … */
    WRING_SPIN_NS = 5000         /* … for no longer than this */
};

/* What a worker is doing, so that one that never returns can say in which call. */
enum worker_call {
    WORKER_IDLE,
    WORKER_START,
    WORKER_OPEN_PLUGIN,
    WORKER_ASK_DEVICES,
    WORKER_OPEN_MODEL,
    WORKER_LOAD,
    WORKER_UNLOAD,
    WORKER_MEMORY,
    WORKER_RUN,
    WORKER_SUBMIT,
    WORKER_COLLECT,
    WORKER_CALLS
};
const char *worker_call_name(uint32_t call); /* "run"; "an unknown call" */

struct wring_page; /* what is shared; worker_ring.c's */

struct wring { /* one side's view */
    struct wring_page *page;
    int fd; /* the owner's; -1 in the worker */
    size_t in_have[WRING_SLOTS], out_have[WRING_SLOTS];
};

bool wring_may_spin(void); /* this process has CPUs for it */

/* ---- life */
enum rc wring_new(struct wring *out, struct err *err) MUST_USE; /* the owner's */
enum rc wring_open(int fd, struct wring *out,
                   struct err *err) MUST_USE; /* the worker's; fd stays */
void wring_close(struct wring *r);            /* one that was never opened is all zero */

/* ---- the owner */
struct wring_post {
    uint32_t handle; /* of the model */
    enum eng_want want;
    uint32_t width; /* floats a row */
    const struct eng_batch *batch;
};
/* Does it fit a slot?  One that does not is to be run in parts. */
bool wring_fits(const struct wring_post *p);
enum rc wring_post(struct wring *r, uint32_t ticket, const struct wring_post *p,
                   struct err *err) MUST_USE;

struct wring_patience {
    int64_t spin_ns, until_ns; /* looks without sleeping; clock_mono_ns() when it is over */
    const _Atomic bool *lost;  /* of the worker */
    _Atomic bool *nudged;      /* NULL: nobody calls away; taken back when it was seen */
};
enum wring_end { WRING_DONE, WRING_NUDGED, WRING_LATE, WRING_LOST };
enum wring_end wring_await(struct wring *r, uint32_t ticket, const struct wring_patience *p);
void wring_wake_owner(struct wring *r); /* after `lost` or `nudged` was set; any thread */
/* The rows of a batch that is DONE, or its error; the slot is free then. */
enum rc wring_take(struct wring *r, uint32_t ticket, float *out, size_t floats, struct err *err);

/* ---- the worker */
struct wring_work {
    uint32_t handle, width;
    enum eng_want want;
    size_t tokens;
    struct eng_batch batch; /* in the slot */
    float *out;
};
/* Waits so long; false: nothing was posted. */
bool wring_ready(struct wring *r, uint32_t ticket, int64_t spin_ns, int64_t sleep_ns);
enum rc wring_work(struct wring *r, uint32_t ticket, struct wring_work *out,
                   struct err *err) MUST_USE;
void wring_finish(struct wring *r, uint32_t ticket, enum rc rc, const char *why);

/* ---- heartbeat: two threads of the worker name their calls, one of them beats */
enum wring_thread { WRING_BATCHES, WRING_CONTROL };
void wring_beat(struct wring *r, enum wring_thread who, enum worker_call call);
uint64_t wring_beats(const struct wring *r);
uint32_t wring_call(const struct wring *r, enum wring_thread who);

#endif
