/* SPDX-License-Identifier: MIT */
/* sched: queues of tokenised texts and the lanes that run them.
 *
 * A lane is a device with a thread of its own.  Each model has a queue; its lane picks a
 * model and fills one batch from its queue, up to what runs within a time, without
 * padding.  Clients share by tokens, and so do the requests of one; interactive ones go
 * before bulk ones, which have a share.  A short request waits for at most one batch.
 *
 * Admission is by tokens and time, a whole job or nothing: sched_submit() refuses what would
 * make the queue's tokens more than the limit, or would not end by its deadline, and says when
 * to come again.  A text that is wanted twice while it waits or runs is computed once; a text that
 * is in the cache is not computed at all.
 *
 *     job = texts of one request ──► per-text entries ──► batch ──► rows back into the job;
 *     the last one calls done() on the lane's thread. */
#ifndef SERVE_SCHED_SCHED_INT_H
#define SERVE_SCHED_SCHED_INT_H
#include "engine/engine.h"
#include "metrics/metrics.h"
#include "serve/models/models_int.h"

enum {
    SCHED_LANES_MAX = 64,
    SCHED_QUEUE_TOKENS_DEFAULT = 1 << 20, /* waiting tokens of one lane */
    SCHED_QUEUE_JOBS_DEFAULT = 4096,
    SCHED_BATCH_MS_DEFAULT = 50, /* that a batch shall take at most */
    SCHED_BATCHES_KEPT = 512     /* for /debug/batches */
};

struct job_item {
    const uint32_t *ids;  /* borrowed until done() */
    const uint8_t *types; /* NULL: all 0 */
    uint32_t tokens;
    uint32_t skip; /* first tokens that pooling leaves out: a prompt's */
    float *out;    /* [width], or [tokens][width] for ENG_TOKENS; borrowed until done() */
    bool failed, cached, shared;
};

struct job {
    struct served *model; /* the submitter's reference */
    enum eng_want want;
    struct job_item *items;
    size_t count;
    enum ask_class class; /* bulk anyway when it takes longer than a batch may */
    uint64_t client;      /* who asks: those who differ share alike */
    int64_t deadline_ns;  /* 0: none */
    int64_t begun_ns;     /* since when its time runs; 0: since it is submitted */
    /* Any thread may set it, before sched_submit() too; a lane looks before it runs an item. */
    _Atomic bool cancelled;
    const _Atomic bool *gone; /* cancels it with others of its source; NULL: none, borrowed */
    /* Called once, on the lane's thread or inside sched_submit() when all was cached; all items
     * are done, failed or dropped.  `why` is RC_OK, RC_TIMEOUT (deadline; *err says so where it
     * would not have ended in time alone), RC_FAIL (engine; *err says it), RC_LIMIT (cancelled,
     * or *err of that code says that it would end too late beside the others). */
    void (*done)(struct job *j, enum rc why, const struct err *err);
    void *arg;
    /* filled in */
    int64_t submitted_ns, started_ns, ended_ns;
    const char *device; /* where rows were computed, the fallback if some were there; NULL: all
                         * were cached.  Good as long as the model's reference */
    const char *failed_device; /* whose fallback that is; NULL: none failed */
    bool fell_back;
    void *own; /* sched.c's */
};

struct sched;
struct te_metrics;
struct sched_opts {
    size_t queue_tokens_max, queue_jobs_max; /* 0: the defaults */
    uint64_t cache_bytes;                    /* 0: no cache */
    int64_t batch_ns; /* that a batch shall take at most; 0: SCHED_BATCH_MS_DEFAULT */
    struct metrics *metrics;
    struct te_metrics *te; /* NULL: none */
    /* For tests: instead of eng_run. */
    enum rc (*run)(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                   struct err *err);
    bool one_hash; /* For tests: every text has the same. */
};
enum rc sched_new(const struct sched_opts *o, struct sched **out, struct err *err) MUST_USE;
/* Jobs still waiting are done() with RC_LIMIT, new ones are refused; lanes go on to live, for
 * sched_on_lane().  Returns when every done() has; not to be called from one. */
void sched_stop(struct sched *s);
/* Ends lanes when their queues are empty or at once; jobs still waiting are done() with
 * RC_LIMIT. NULL is fine. */
void sched_free(struct sched *s);
/* Made at first use; NULL when SCHED_LANES_MAX are, or no thread could be started. */
struct lane *sched_lane(struct sched *s, const char *device);
/* Runs fn(arg) on the lane's thread between batches and waits for it: for loading and freeing
 * what belongs to that thread.  On that thread itself, at once. */
void sched_on_lane(struct lane *l, void (*fn)(void *arg), void *arg);

/* Makes the model's series, so that they are there before its first request. */
void sched_expect_model(struct sched *s, const char *name);

/* RC_LIMIT: overloaded, *out_retry_s says when to come again; nothing was taken.  Overloaded
 * are too many jobs or tokens (but a job that is larger than the limit by itself is taken when
 * nothing waits), or so many tokens that the job, or one that is there, would end behind its
 * deadline.  RC_TIMEOUT: it would with all of its time and
 * alone. */
enum rc sched_submit(struct sched *s, struct job *j, int *out_retry_s, struct err *err) MUST_USE;
void sched_cancel(struct sched *s, struct job *j); /* done() still comes, soon */
size_t sched_waiting_tokens(struct sched *s);
size_t sched_jobs(struct sched *s); /* not yet done */

/* The last batches: model, class, sequences, tokens, longest, fill, wait and run times. */
struct json_out;
void sched_batches_json(struct sched *s, struct json_out *w);
void sched_batches_svg(struct sched *s, struct buf *out);

#endif
