/* SPDX-License-Identifier: MIT */
/* sched: queues of tokenised texts and the device queues that run them.
 *
 * A device queue is a device with a thread of its own.  Each model has a queue there; the thread
 * picks a model and fills one batch from its queue, up to what runs within a time, without padding.
 * Clients share by tokens, and so do the requests of one; interactive ones go before bulk ones,
 * which have a share.  A short request waits for at most one batch.
 *
 * Admission is by tokens and time, a whole request or nothing: sched_submit() refuses what would
 * make the queue's tokens more than the limit, or would not end by its deadline, and says when
 * to come again.  A text that is wanted twice while it waits or runs is computed once; a text that
 * is in the cache is not computed at all.
 *
 *     request.texts ──► those not in the cache ──► batches ──► rows at request_text.out;
 *     the last one calls request.done() on the device queue's thread. */
#ifndef SERVE_SCHED_SCHED_INT_H
#define SERVE_SCHED_SCHED_INT_H
#include "engine/engine.h"
#include "metrics/metrics.h"
#include "serve/models/models_int.h"
#include "serve/request_int.h"

enum {
    SCHED_DEVICE_QUEUES_MAX = 64,
    SCHED_QUEUE_TOKENS_DEFAULT = 1 << 20, /* waiting tokens of one device queue */
    SCHED_QUEUE_REQUESTS_DEFAULT = 4096,
    SCHED_BATCH_MS_DEFAULT = 50, /* that a batch shall take at most */
    SCHED_BATCHES_KEPT = 512     /* for /debug/batches */
};

struct sched;
struct te_metrics;
struct sched_opts {
    size_t queue_tokens_max, queue_requests_max; /* 0: the defaults */
    uint64_t cache_bytes;                        /* 0: no cache */
    int64_t batch_ns; /* that a batch shall take at most; 0: SCHED_BATCH_MS_DEFAULT */
    struct metrics *metrics;
    struct te_metrics *te; /* NULL: none */
    /* For tests: instead of eng_run. */
    enum rc (*run)(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                   struct err *err);
    bool one_hash; /* For tests: every text has the same. */
};
enum rc sched_new(const struct sched_opts *o, struct sched **out, struct err *err) MUST_USE;
/* Requests still waiting are done() with RC_LIMIT, new ones are refused; device queues go on to
 * live, for sched_on_device_queue().  Returns when every done() has; not to be called from one. */
void sched_stop(struct sched *s);
/* Ends device queues when their queues are empty or at once; requests still waiting are done() with
 * RC_LIMIT. NULL is fine. */
void sched_free(struct sched *s);
/* Made at first use; NULL when SCHED_DEVICE_QUEUES_MAX are, or no thread could be started. */
struct device_queue *sched_device_queue(struct sched *s, const char *device);
/* Runs fn(arg) on the device queue's thread between batches and waits for it: for loading and
 * freeing what belongs to that thread.  On that thread itself, at once. */
void sched_on_device_queue(struct device_queue *dq, void (*fn)(void *arg), void *arg);

/* Makes the model's series, so that they are there before its first request. */
void sched_expect_model(struct sched *s, const char *name);

/* RC_LIMIT: overloaded, *out_retry_s says when to come again; nothing was taken.  Overloaded
 * are too many requests or tokens (but a request that is larger than the limit by itself is taken
 * when nothing waits), or so many tokens that the request, or one that is there, would end behind
 * its deadline.  RC_TIMEOUT: it would with all of its time and alone. */
enum rc sched_submit(struct sched *s, struct request *r, int *out_retry_s,
                     struct err *err) MUST_USE;

/* The last batches: model, class, sequences, tokens, longest, fill, wait and run times. */
struct json_out;
void sched_batches_json(struct sched *s, struct json_out *w);
void sched_batches_svg(struct sched *s, struct buf *out);

#endif
