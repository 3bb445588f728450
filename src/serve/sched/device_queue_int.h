/* SPDX-License-Identifier: MIT */
/* device_queue_int: what the files of the scheduler share.
 *
 *   sched.c          from outside: device queues, submit, stop
 *   sched_waiting.c  texts in queues: in, out, shared, dropped
 *   sched_fair.c     whose turn it is: heaps of clients and of their requests
 *   sched_batch.c    which texts make the next batch, and how many
 *   sched_admit.c    what would end too late is not taken in
 *   device_queue.c   the device queue's thread: batches out and back, rows to those who wait
 *   sched_run.c      one batch: on its device, on the fallback, text by text
 *   sched_meter.c    metrics
 *   sched_trace.c    the last batches, as JSON;  sched_picture.c: as SVG
 *
 * Invariants.
 *  1. A device queue's lock guards its queues, its table, its lists and its counts.  It is held for
 *     list work only: no hashing, copying, running or calling back.
 *  2. A text is waiting (in a queue), following (another text like it is computed for both),
 *     running (in the device queue's batch) or over.  Waiting and running ones are in the table.
 *  3. Once submitted, a request is touched by its device queue's thread only, but for `cancelled`,
 *     and for followers that join its texts (under the lock).
 *  4. A request with a text in a batch does not leave, so no text of a batch loses its memory.
 *  5. Of ENG_IN_FLIGHT batches, those that fly are in the order they were submitted; what the
 *     thread calls `batch` is the one it fills, runs or hands out. */
#ifndef SERVE_SCHED_DEVICE_QUEUE_INT_H
#define SERVE_SCHED_DEVICE_QUEUE_INT_H
#include "serve/sched/row_cache_int.h"
#include "serve/sched/sched_int.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SCHED_CLASSES = 2,       /* of enum request_class */
    SCHED_BULK_EVERY = 4,    /* of so many tokens one is bulk's when both classes wait */
    SCHED_LITTLE = 8,        /* who wants less than this part of a batch goes first */
    SCHED_QUEUE_RESERVE = 8, /* such a part of the queue is kept for those who do not fill it */
    SCHED_LOOK_MAX = 64,     /* requests passed over since no text of theirs fits any more */
    SCHED_CELLS_MIN = 16,    /* first room of a heap */
    SCHED_TABLE = 1 << 15,
    SCHED_MODELS_SEEN_MAX = 1024,      /* names that a device queue has figures of */
    SCHED_BATCH_TOKENS_DEFAULT = 4096, /* for a model that says none */
    SCHED_KEEP_BYTES_MAX = 64 << 20,   /* of results, from batch to batch */
    SCHED_SWEEP_NS = 5000000,          /* between looks at who cancelled */
    SCHED_RETRY_S_MAX = 60,
    SCHED_DEVICE_WAIT_MS = 500,       /* before a device that failed is tried again; doubles … */
    SCHED_DEVICE_WAIT_MS_MAX = 60000, /* … up to this */
    SCHED_PACE_WINDOW = 3,            /* batches of a size that its speed is measured over */
    SCHED_PACE_MIN = 3,               /* batches before it is believed */
    SCHED_PROBE_TOKENS = 1024,        /* of a batch until then */
    SCHED_OCTAVES = 24,               /* of batch sizes */
    SCHED_TRIAL_EVERY = 16,           /* batches: one of so many is larger, to measure it; … */
    SCHED_TRIAL_SOON = 2,             /* … while that pays, one of so many */
    SCHED_PACE_STALE_S = 10           /* a speed as old as this refuses all but one, to measure */
};

#define SCHED_COST_MAX 1.25 /* a token's cost by the least that it can be */

enum sched_drop { DROP_DEADLINE, DROP_CANCELLED, DROP_FAILED, DROP_STOPPED, DROP_REASONS };
enum sched_refuse {
    REFUSE_TOKENS,
    REFUSE_REQUESTS,
    REFUSE_DEADLINE, /* with what waits already it would end too late */
    REFUSE_SIZE,     /* alone it would */
    REFUSE_STOPPED,
    REFUSE_REASONS
};

/* A model's series. */
struct model_series {
    struct counter *batches, *failures, *device_failures, *fallbacks, *coalesced, *hits, *misses;
    struct counter *dropped[DROP_REASONS], *refused[REFUSE_REASONS];
    struct counter *class_tokens[SCHED_CLASSES];
    struct histogram *fill, *sequences, *tokens, *seconds, *age[SCHED_CLASSES];
    struct gauge *queue_tokens[SCHED_CLASSES], *queue_requests[SCHED_CLASSES];
};

/* How long batches take.  See sched_admit.c. */
struct pace_octave {
    double token_ns;  /* 0: none ran */
    size_t tokens;    /* of the last one */
    uint64_t at;      /* pace.batches when it was measured last */
    int64_t ended_ns; /* the last one */
    int64_t tried_ns; /* when a request that this refuses came in all the same */
};

struct pace {
    struct pace_octave octaves[SCHED_OCTAVES]; /* by tokens of the batch */
    uint64_t batches, since_trial;
    size_t trial; /* tokens of a batch that is to be larger; 0: none is */
    bool climbs;  /* the last one paid */
};

/* What a device queue knows of a model's name, for as long as the device queue lives. */
struct model_record {
    struct model_record *next;
    struct model_series series;
    struct pace pace;
    size_t waiting[SCHED_CLASSES]; /* tokens */
    size_t requests[SCHED_CLASSES];
    char name[MODELS_NAME_MAX];
};

struct sched_heap {
    struct sched_turn **cells; /* [cap], the first one unused */
    size_t count, cap;
    double now; /* where newcomers begin: tokens given, by those who shared them */
};

/* The requests of one client that wait in one class of a queue; gone with the last of them. */
struct sched_client {
    struct sched_client *next; /* in its class */
    uint64_t key;
    struct sched_turn turn;
    struct sched_heap requests;
    size_t count; /* of requests, those set aside included */
};

struct class_queue {
    struct sched_client *clients;
    struct sched_heap turns; /* of the clients */
    size_t tokens;           /* waiting */
    uint64_t ran;            /* the device queue's batch that began with this class last */
};

struct model_queue { /* one version of a model and one kind of result; gone with its last request */
    struct model_queue *next;
    struct served *model;
    struct model_replica
        *replica; /* the model on this device queue; NULL: it has no list of them */
    struct model_record *record;
    enum eng_want want;
    size_t budget, width;
    size_t texts_max; /* of a batch */
    size_t request_count;
    size_t running; /* tokens in batches */
    struct class_queue classes[SCHED_CLASSES];
    size_t room;      /* tokens of a batch, as they were worked out */
    uint64_t room_at; /* ... after so many batches of its model */
};

/* The device queue's thread's own; memory is kept.
 *
 *     empty ─fill─► filled ─submit─► flying ─collect─► over ─delivered─► empty
 *                      └─────────run, here or on the fallback─┘ */
enum batch_state { BATCH_EMPTY, BATCH_FILLED, BATCH_FLYING };
struct sched_batch {
    enum batch_state state;
    struct model_queue *queue;
    enum request_class class; /* that it began with */
    struct request_text **texts;
    size_t count, cap;
    size_t tokens, room;
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

struct device_task {
    struct device_task *next;
    void (*fn)(void *arg);
    void *arg;
    bool over;
};

struct device_queue {
    struct sched *sched;
    char *device;
    size_t index;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;    /* there is work, a call or an end */
    pthread_cond_t changed; /* a call or a request is over */
    bool asleep, stopping, ending;
    _Atomic bool sweep; /* look at every request now */
    struct model_queue *queues, *free_queues;
    struct request *requests;
    struct request_text **table; /* [SCHED_TABLE] */
    struct model_record *records;
    size_t record_count;
    struct device_task *tasks;    /* first come, first run; each on its caller's stack */
    size_t request_count, tokens; /* admitted and not over; waiting */
    size_t open;                  /* requests whose done() has not returned */
    size_t running_tokens;        /* of batches */
    struct counter *busy;
    uint64_t batches;
    uint64_t came;  /* requests, ever: their order */
    double hurried; /* tokens of interactive batches since bulk had one */
    struct sched_client *free_clients;
    int64_t swept_ns;
    int64_t deadline_ns;                /* no request's is earlier */
    struct request *ended, **ended_end; /* the thread's own: done() comes next */
    struct sched_batch slots[ENG_IN_FLIGHT];
    struct sched_batch *batch; /* the one at hand */
    size_t flying, first;      /* on the device; which is the oldest */
    int64_t ended_ns;          /* when the last one was over */
    struct eng *waits;         /* the thread waits for rows of this one, and may be called away */
};

struct sched_families {
    struct metrics_family *batches, *failures, *device_failures, *fallbacks, *coalesced, *hits,
        *misses, *dropped, *refused, *class_tokens;
    struct metrics_family *fill, *sequences, *tokens, *seconds, *age, *queue_tokens,
        *queue_requests;
    struct metrics_family *busy; /* seconds, by device */
    struct counter *evictions;
    struct gauge *cache_bytes;
};

struct sched_note { /* one batch, for /debug/batches */
    const struct model_record *model;
    enum eng_want want;
    size_t device_queue, sequences, bulk, tokens, bulk_tokens, budget, shortest, longest, shared,
        failures;
    bool fell_back;
    int64_t begun_ns, run_ns, wait_ns; /* wait: of the one that waited longest */
    int64_t unix_ms;
};

struct sched {
    struct sched_opts o;
    struct metrics *priv_metrics; /* when nobody wants them */
    struct sched_families families;
    struct cache *cache; /* NULL: none */
    uint64_t seed;
    pthread_mutex_t lock; /* of device queues: after a device queue's lock, never before */
    struct device_queue *queues[SCHED_DEVICE_QUEUES_MAX];
    size_t queue_count;
    bool stopping;
    pthread_mutex_t note_lock;
    struct sched_note notes[SCHED_BATCHES_KEPT];
    uint64_t note_count; /* ever */
};

/* ---- sched_waiting.c; the device queue's lock is held */
struct model_record *record_of(struct device_queue *dq, const char *name); /* made */
struct model_queue *queue_of(struct device_queue *dq, struct served *m,
                             enum eng_want want); /* made */
void queues_tidy(struct device_queue *dq);        /* those without requests go; between batches */
bool text_same(const struct request_text *a, const struct request_text *b);
void text_enter(struct device_queue *dq,
                struct request_text *t); /* waits, or follows one like it */
void text_leave(struct device_queue *dq, struct request_text *t);  /* its queue, not the table */
void text_forget(struct device_queue *dq, struct request_text *t); /* the table */
/* The request is over: its texts leave, its place is free, its done() comes next. */
void request_end(struct device_queue *dq, struct request *r, enum rc why);

/* ---- sched_fair.c; the device queue's lock is held */
void fair_enter(struct device_queue *dq, struct request *r); /* it has a text that waits */
void fair_leave(struct device_queue *dq, struct request *r); /* it has none any more */
struct request *fair_next(const struct class_queue *c);      /* NULL: none waits */
/* That it was given; fair_change() or fair_leave() comes next. */
void fair_charge(struct request *r, size_t tokens);
void fair_change(struct request *r); /* it wants more or less than before */
/* While a batch is filled: others get their turn, and then it is where it was. */
void fair_set_aside(struct request *r);
void fair_put_back(struct request *r);
void clients_free(struct device_queue *dq);

/* ---- sched_admit.c; the device queue's lock is held */
void pace_add(struct pace *p, size_t tokens, int64_t begun_ns, int64_t ended_ns);
bool pace_known(const struct pace *p);
double pace_ns(const struct pace *p, size_t tokens, size_t batch); /* 0: not known */
/* Tokens that run within `ns`, at most `budget`. */
size_t pace_tokens(const struct pace *p, double ns, size_t budget);
size_t queue_room(const struct device_queue *dq, struct model_queue *q);     /* tokens of a batch */
size_t queue_room_now(const struct device_queue *dq, struct model_queue *q); /* of the next one */
/* Would it end in time, and would what is there already?  *out_why, *err: what is refused. */
enum rc admit(const struct device_queue *dq, struct request *r, enum sched_refuse *out_why,
              struct err *err);
/* For one that came in before the speed at its size was known. */
enum rc admit_again(const struct device_queue *dq, struct request *r, int64_t now_ns,
                    struct err *err);
int admit_retry_s(const struct device_queue *dq, const struct request *r);

/* ---- sched_batch.c; the device queue's lock is held */
/* Takes the texts of the next batch into dq->batch, which is empty; false: nothing waits. */
bool batch_fill(struct device_queue *dq, int64_t now_ns);
/* Is there enough in a queue for a whole batch? */
bool batch_full_waits(const struct device_queue *dq);
bool queue_full(const struct device_queue *dq, struct model_queue *q);
/* RC_OK, or why it need not be computed any more. */
enum rc request_dead(const struct request *r, int64_t now_ns);

/* ---- sched_run.c; on the device queue's thread */
void batch_prepare(struct sched_batch *b); /* packs it and makes room for its rows */
struct eng *batch_eng(const struct sched_batch *b);
struct eng_batch batch_texts(const struct sched_batch *b); /* as an engine wants them */
size_t batch_row_count(const struct sched_batch *b, const struct request_text *t);
float *batch_rows(const struct sched_batch *b, size_t i); /* of text i */
/* Its device failed and is left alone, while there is a fallback. */
bool batch_rests(const struct sched_batch *b);
/* rc, or RC_FAIL when a number is not finite. */
enum rc batch_check(const struct sched_batch *b, enum rc rc, struct err *err);
/* What the model's own device said of dq->batch; a failure is made good, or its texts fail.
 * *other: why there is no fallback, if that is known already. */
void batch_judge(struct device_queue *dq, enum rc rc, struct err *err, struct err *other);
void batch_compute(struct device_queue *dq); /* dq->batch, from its begin to its end */

/* ---- device_queue.c */
void *device_queue_main(void *arg);

/* ---- sched_meter.c */
void meter_families(struct sched *s);
void meter_make(struct sched *s, const char *model, struct model_series *out);
void meter_batch(const struct device_queue *dq);
void meter_end(const struct request *r, bool stopping);
void meter_queue(const struct model_record *m); /* its gauges; the device queue's lock is held */

/* ---- sched_trace.c */
void trace_add(const struct device_queue *dq);
const char *sched_want_name(enum eng_want want);
/* Copies the notes, oldest first; `out` has room for SCHED_BATCHES_KEPT. */
size_t trace_copy(struct sched *s, struct sched_note *out);

#endif
