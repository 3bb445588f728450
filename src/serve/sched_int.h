/* SPDX-License-Identifier: MIT */
/* sched_int: what the files of the scheduler share.
 *
 *   sched.c          from outside: lanes, submit, stop
 *   sched_queue.c    texts in queues: in, out, shared, dropped
 *   sched_batch.c    which texts make the next batch
 *   sched_lane.c     the lane's thread: batches out and back, rows to those who wait
 *   sched_run.c      one batch: on its device, on the fallback, text by text
 *   sched_meter.c    metrics
 *   sched_trace.c    the last batches, as JSON;  sched_picture.c: as SVG
 *
 * Invariants.
 *  1. A lane's lock guards its queues, its table, its lists and its counts.  It is held for
 *     list work only: no hashing, copying, running or calling back.
 *  2. A text is waiting (in a queue), following (another text like it is computed for both),
 *     running (in the lane's batch) or over.  Waiting and running ones are in the table.
 *  3. Once submitted, a job is touched by its lane's thread alone, but for `cancelled`, and
 *     for followers that join its texts (under the lock).
 *  4. A job with a text in a batch does not leave, so no text of a batch loses its memory.
 *  5. Of ENG_IN_FLIGHT batches, those that fly are in the order they were submitted; what the
 *     thread calls `batch` is the one it fills, runs or hands out. */
#ifndef SERVE_SCHED_INT_H
#define SERVE_SCHED_INT_H
#include "serve/cache.h"
#include "serve/sched.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SCHED_CLASSES = 2,    /* of enum ask_class */
    SCHED_BUCKETS = 64,   /* of lengths, four an octave */
    SCHED_BULK_EVERY = 4, /* batches: one of so many is bulk's when both classes wait */
    SCHED_LOOK_MAX = 16,  /* texts of a bucket looked at for one that fits */
    SCHED_TABLE = 1 << 15,
    SCHED_MODELS_SEEN_MAX = 1024,      /* names that a lane has figures of */
    SCHED_BATCH_TOKENS_DEFAULT = 4096, /* for a model that says none */
    SCHED_KEEP_BYTES_MAX = 64 << 20,   /* of results, from batch to batch */
    SCHED_SWEEP_NS = 5000000,          /* between looks at who cancelled */
    SCHED_RETRY_S_MAX = 60,
    SCHED_DEVICE_WAIT_MS = 500,       /* before a device that failed is tried again; doubles … */
    SCHED_DEVICE_WAIT_MS_MAX = 60000, /* … up to this */
    SCHED_RATE_WINDOW = 8             /* full batches that a lane's speed is measured over */
};

enum sched_drop { DROP_DEADLINE, DROP_CANCELLED, DROP_FAILED, DROP_STOPPED, DROP_REASONS };
enum sched_refuse { REFUSE_TOKENS, REFUSE_JOBS, REFUSE_DEADLINE, REFUSE_STOPPED, REFUSE_REASONS };

/* A model's series. */
struct meter {
    struct counter *batches, *failures, *device_failures, *fallbacks, *coalesced, *hits, *misses;
    struct counter *dropped[DROP_REASONS], *refused[REFUSE_REASONS];
    struct histogram *fill, *sequences, *tokens, *seconds, *age[SCHED_CLASSES];
    struct gauge *queue_tokens[SCHED_CLASSES], *queue_jobs[SCHED_CLASSES];
};

/* What a lane knows of a model's name, for as long as the lane lives. */
struct seen {
    struct seen *next;
    struct meter meter;
    double tokens, ns;             /* run lately; older ones fade */
    size_t waiting[SCHED_CLASSES]; /* tokens */
    size_t jobs[SCHED_CLASSES];
    char name[MODELS_NAME_MAX];
};

enum text_state { TEXT_OVER, TEXT_WAITING, TEXT_FOLLOWING, TEXT_RUNNING };

struct text { /* of a job's item that is not in the cache */
    struct work *work;
    struct job_item *item;
    const uint8_t *types; /* the item's; NULL when all are 0 */
    uint64_t hash[2];
    struct text *chain;         /* in the table */
    struct text *older, *newer; /* waiting: in its class */
    struct text *prev, *next;   /* waiting: in its bucket; following: beside others */
    struct text *leader;        /* following: that one */
    struct text *followers;
    struct err *err; /* owned; why it has no row */
    uint64_t due;    /* turn of its class from which nothing younger passes it */
    enum text_state state;
    enum ask_class class; /* at least as urgent as its job: an urgent follower lifts it */
};

struct work { /* job.own */
    struct job *job;
    struct lane_queue *queue;
    struct work *prev, *next; /* of the lane */
    struct work *ended;       /* in a list of those that are */
    size_t count, left;       /* texts; not yet over */
    size_t running;           /* in batches */
    bool over;
    enum rc why;
    struct err *err; /* owned; with RC_FAIL */
    struct text texts[];
};

struct class_queue {
    struct text *oldest, *newest;
    struct text *first[SCHED_BUCKETS], *last[SCHED_BUCKETS];
    uint64_t used; /* a bit for each bucket with texts */
    size_t tokens; /* waiting */
    uint64_t turn; /* batches that began with this class */
    uint64_t last_due;
    uint64_t ran; /* lane's batch that did */
};

struct lane_queue { /* one version of a model and one kind of result; gone with its last job */
    struct lane_queue *next;
    struct served *model;
    struct replica *replica; /* the model on this lane; NULL: it has no list of them */
    struct seen *seen;
    enum eng_want want;
    size_t budget, width;
    size_t texts_max; /* of a batch */
    size_t jobs;
    size_t running; /* tokens in batches */
    struct class_queue classes[SCHED_CLASSES];
};

/* The lane's thread's own; memory is kept.
 *
 *     empty ─fill─► filled ─submit─► flying ─collect─► over ─delivered─► empty
 *                      └─────────run, here or on the fallback─┘ */
enum batch_state { BATCH_EMPTY, BATCH_FILLED, BATCH_FLYING };
struct batch {
    enum batch_state state;
    struct lane_queue *queue;
    enum ask_class class; /* that it began with */
    struct text **texts;
    size_t count, cap;
    size_t tokens;
    uint32_t *ids, *starts;
    uint32_t *skips;      /* [count] */
    bool typed, skipping; /* a type, a skip is not 0 */
    uint8_t *types;
    size_t tokens_cap, starts_cap, skips_cap;
    float *out;
    size_t out_cap; /* floats */
    size_t failures;
    bool fell_back; /* it ran on the model's fallback */
    int64_t begun_ns, ended_ns;
};

struct lane_call {
    struct lane_call *next;
    void (*fn)(void *arg);
    void *arg;
    bool over;
};

struct lane {
    struct sched *sched;
    char *device;
    size_t index;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;    /* there is work, a call or an end */
    pthread_cond_t changed; /* a call or a job is over */
    bool asleep, stopping, ending;
    _Atomic bool sweep; /* look at every job now */
    struct lane_queue *queues, *spare;
    struct work *works;
    struct text **table; /* [SCHED_TABLE] */
    struct seen *seen;
    size_t seen_count;
    struct lane_call *calls; /* first come, first run; each on its caller's stack */
    size_t jobs, tokens;     /* admitted and not over; waiting */
    size_t open;             /* jobs whose done() has not returned */
    size_t running_tokens;   /* of batches */
    struct counter *busy;
    uint64_t batches;
    unsigned since_bulk;
    int64_t swept_ns;
    int64_t deadline_ns;             /* no job's is earlier */
    struct work *ended, **ended_end; /* the thread's own: done() comes next */
    struct batch slots[ENG_IN_FLIGHT];
    struct batch *batch;  /* the one at hand */
    size_t flying, first; /* on the device; which is the oldest */
    int64_t ended_ns;     /* when the last one was over */
    struct eng *waits;    /* the thread waits for rows of this one, and may be called away */
};

struct sched_families {
    struct metrics_family *batches, *failures, *device_failures, *fallbacks, *coalesced, *hits,
        *misses, *dropped, *refused;
    struct metrics_family *fill, *sequences, *tokens, *seconds, *age, *queue_tokens, *queue_jobs;
    struct metrics_family *busy; /* seconds, by device */
    struct counter *evictions;
    struct gauge *cache_bytes;
};

struct sched_note { /* one batch, for /debug/batches */
    const struct seen *model;
    enum eng_want want;
    size_t lane, sequences, bulk, tokens, bulk_tokens, budget, shortest, longest, shared, failures;
    bool fell_back;
    int64_t begun_ns, run_ns, wait_ns; /* wait: of the one that waited longest */
    int64_t unix_ms;
};

struct sched {
    struct sched_opts o;
    struct metrics *own_metrics; /* when nobody wants them */
    struct sched_families families;
    struct cache *cache; /* NULL: none */
    uint64_t seed;
    pthread_mutex_t lock; /* of lanes: after a lane's lock, never before */
    struct lane *lanes[SCHED_LANES_MAX];
    size_t lane_count;
    bool stopping;
    pthread_mutex_t note_lock;
    struct sched_note notes[SCHED_BATCHES_KEPT];
    uint64_t note_count; /* ever */
};

/* ---- sched_queue.c; the lane's lock is held */
struct seen *seen_of(struct lane *l, const char *name);                            /* made */
struct lane_queue *queue_of(struct lane *l, struct served *m, enum eng_want want); /* made */
void queues_tidy(struct lane *l); /* those without jobs go; between batches */
size_t bucket_of(size_t tokens);
void text_enter(struct lane *l, struct text *t);  /* waits, or follows one like it */
void text_leave(struct lane *l, struct text *t);  /* its queue, not the table */
void text_forget(struct lane *l, struct text *t); /* the table */
/* The job is over: its texts leave, its place is free, its done() comes next. */
void work_end(struct lane *l, struct work *w, enum rc why);

/* ---- sched_batch.c; the lane's lock is held */
/* Takes the texts of the next batch into l->batch, which is empty; false: nothing waits. */
bool batch_fill(struct lane *l, int64_t now_ns);
/* Is there enough in a queue for a whole batch? */
bool batch_full_waits(const struct lane *l);
bool queue_full(const struct lane_queue *q);
/* RC_OK, or why it need not be computed any more. */
enum rc work_dead(const struct work *w, int64_t now_ns);

/* ---- sched_run.c; on the lane's thread */
void batch_prepare(struct batch *b); /* packs it and makes room for its rows */
struct eng *batch_eng(const struct batch *b);
struct eng_batch batch_texts(const struct batch *b); /* as an engine wants them */
size_t batch_row_count(const struct batch *b, const struct text *t);
float *batch_rows(const struct batch *b, size_t i); /* of text i */
/* Its device failed and is left alone, while there is a fallback. */
bool batch_rests(const struct batch *b);
/* rc, or RC_FAIL when a number is not finite. */
enum rc batch_check(const struct batch *b, enum rc rc, struct err *err);
/* What the model's own device said of l->batch; a failure is made good, or its texts fail.
 * *other: why there is no fallback, if that is known already. */
void batch_judge(struct lane *l, enum rc rc, struct err *err, struct err *other);
void batch_compute(struct lane *l); /* l->batch, from its begin to its end */

/* ---- sched_lane.c */
void *lane_main(void *arg);
double seen_ns_per_token(const struct seen *m, size_t budget); /* 0: not known */

/* ---- sched_meter.c */
void meter_families(struct sched *s);
void meter_make(struct sched *s, const char *model, struct meter *out);
void meter_batch(const struct lane *l);
void meter_end(const struct work *w, bool stopping);
void meter_queue(const struct seen *m); /* its gauges; the lane's lock is held */

/* ---- sched_trace.c */
void trace_add(const struct lane *l);
const char *sched_want_name(enum eng_want want);
/* Copies the notes, oldest first; `out` has room for SCHED_BATCHES_KEPT. */
size_t trace_copy(struct sched *s, struct sched_note *out);

#endif
