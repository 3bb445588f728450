/* SPDX-License-Identifier: MIT */
/* device_queue_int: what the files of the scheduler share.
 *
 *   sched.c          from outside: lanes, submit, stop
 *   sched_waiting.c  texts in queues: in, out, shared, dropped
 *   sched_fair.c     whose turn it is: heaps of clients and of their requests
 *   sched_batch.c    which texts make the next batch, and how many
 *   sched_admit.c    what would end too late is not taken in
 *   device_queue.c   the lane's thread: batches out and back, rows to those who wait
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
#ifndef SERVE_SCHED_DEVICE_QUEUE_INT_H
#define SERVE_SCHED_DEVICE_QUEUE_INT_H
#include "serve/sched/row_cache_int.h"
#include "serve/sched/sched_int.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SCHED_CLASSES = 2,     /* of enum ask_class */
    SCHED_BULK_EVERY = 4,  /* of so many tokens one is bulk's when both classes wait */
    SCHED_LITTLE = 8,      /* who wants less than this part of a batch goes first */
    SCHED_QUEUE_SPARE = 8, /* such a part of the queue is kept for others than those who fill it */
    SCHED_LOOK_MAX = 64,   /* requests passed over since no text of theirs fits any more */
    SCHED_CELLS_MIN = 16,  /* first room of a heap */
    SCHED_TABLE = 1 << 15,
    SCHED_MODELS_SEEN_MAX = 1024,      /* names that a lane has figures of */
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
    REFUSE_JOBS,
    REFUSE_DEADLINE, /* with what waits already it would end too late */
    REFUSE_SIZE,     /* alone it would */
    REFUSE_STOPPED,
    REFUSE_REASONS
};

/* A model's series. */
struct meter {
    struct counter *batches, *failures, *device_failures, *fallbacks, *coalesced, *hits, *misses;
    struct counter *dropped[DROP_REASONS], *refused[REFUSE_REASONS];
    struct counter *class_tokens[SCHED_CLASSES];
    struct histogram *fill, *sequences, *tokens, *seconds, *age[SCHED_CLASSES];
    struct gauge *queue_tokens[SCHED_CLASSES], *queue_jobs[SCHED_CLASSES];
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

/* What a lane knows of a model's name, for as long as the lane lives. */
struct seen {
    struct seen *next;
    struct meter meter;
    struct pace pace;
    size_t waiting[SCHED_CLASSES]; /* tokens */
    size_t jobs[SCHED_CLASSES];
    char name[MODELS_NAME_MAX];
};

enum text_state { TEXT_OVER, TEXT_WAITING, TEXT_FOLLOWING, TEXT_RUNNING };

/* A place in a heap.  The least tag + size is served first, of equals the one that came first. */
struct turn {
    double tag;  /* where it stands: grows by the tokens it is given */
    double size; /* tokens that it still wants; SCHED_LITTLE of a batch at most */
    uint64_t came;
    size_t at; /* in its heap, from 1; 0: in none */
};

struct turn_heap {
    struct turn **cells; /* [cap], the first one unused */
    size_t count, cap;
    double now; /* where newcomers begin: tokens given, by those who shared them */
};

struct text { /* of a job's item that is not in the cache */
    struct work *work;
    struct job_item *item;
    const uint8_t *types; /* the item's; NULL when all are 0 */
    uint64_t hash[2];
    struct text *chain;       /* in the table */
    struct text *prev, *next; /* waiting: in its request; following: beside others */
    struct text *leader;      /* following: that one */
    struct text *followers;
    struct err *err; /* owned; why it has no row */
    enum text_state state;
};

/* The requests of one client that wait in one class of a queue; gone with the last of them. */
struct client {
    struct client *next; /* in its class */
    uint64_t key;
    struct turn turn;
    struct turn_heap works;
    size_t count; /* of works, those set aside included */
};

struct work { /* job.own */
    struct job *job;
    struct lane_queue *queue;
    enum ask_class class;      /* bulk too when it is large */
    struct client *client;     /* while a text of it waits */
    struct turn turn;          /* among its client's */
    struct text *first, *last; /* that wait; longest first */
    size_t tokens;             /* that wait */
    size_t joined;             /* tokens when it came, of equal texts those of one */
    struct work *prev, *next;  /* of the lane */
    struct work *ended;        /* in a list of those that are */
    size_t count, left;        /* texts; not yet over */
    size_t running;            /* in batches */
    bool over;
    bool unsure; /* whether it ends in time: the speed at its size was not known when it came, … */
    uint64_t unsure_at; /* … or was old: it is judged by what runs after so many of pace.batches */
    enum rc why;
    struct err *err; /* owned; with RC_FAIL */
    struct text texts[];
};

struct class_queue {
    struct client *clients;
    struct turn_heap turns; /* of the clients */
    size_t tokens;          /* waiting */
    uint64_t ran;           /* the lane's batch that began with this class last */
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
    size_t room;      /* tokens of a batch, as they were worked out */
    uint64_t room_at; /* ... after so many batches of its model */
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
    uint64_t came;  /* requests, ever: their order */
    double hurried; /* tokens of interactive batches since bulk had one */
    struct client *spare_clients;
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
        *misses, *dropped, *refused, *class_tokens;
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

/* ---- sched_waiting.c; the lane's lock is held */
struct seen *seen_of(struct lane *l, const char *name);                            /* made */
struct lane_queue *queue_of(struct lane *l, struct served *m, enum eng_want want); /* made */
void queues_tidy(struct lane *l); /* those without jobs go; between batches */
bool text_same(const struct text *a, const struct text *b);
void text_enter(struct lane *l, struct text *t);  /* waits, or follows one like it */
void text_leave(struct lane *l, struct text *t);  /* its queue, not the table */
void text_forget(struct lane *l, struct text *t); /* the table */
/* The job is over: its texts leave, its place is free, its done() comes next. */
void work_end(struct lane *l, struct work *w, enum rc why);

/* ---- sched_fair.c; the lane's lock is held */
void fair_enter(struct lane *l, struct work *w);     /* it has a text that waits */
void fair_leave(struct lane *l, struct work *w);     /* it has none any more */
struct work *fair_next(const struct class_queue *c); /* NULL: none waits */
/* That it was given; fair_change() or fair_leave() comes next. */
void fair_charge(struct work *w, size_t tokens);
void fair_change(struct work *w); /* it wants more or less than before */
/* While a batch is filled: others get their turn, and then it is where it was. */
void fair_set_aside(struct work *w);
void fair_put_back(struct work *w);
void clients_free(struct lane *l);

/* ---- sched_admit.c; the lane's lock is held */
void pace_add(struct pace *p, size_t tokens, int64_t begun_ns, int64_t ended_ns);
bool pace_known(const struct pace *p);
double pace_ns(const struct pace *p, size_t tokens, size_t batch); /* 0: not known */
/* Tokens that run within `ns`, at most `budget`. */
size_t pace_tokens(const struct pace *p, double ns, size_t budget);
size_t queue_room(const struct lane *l, struct lane_queue *q);     /* tokens of a batch */
size_t queue_room_now(const struct lane *l, struct lane_queue *q); /* of the next one */
/* Would it end in time, and would what is there already?  *out_why, *err: what is refused. */
enum rc admit(const struct lane *l, struct work *w, enum sched_refuse *out_why, struct err *err);
/* For one that came in before the speed at its size was known. */
enum rc admit_again(const struct lane *l, struct work *w, int64_t now_ns, struct err *err);
int admit_retry_s(const struct lane *l, const struct work *w);

/* ---- sched_batch.c; the lane's lock is held */
/* Takes the texts of the next batch into l->batch, which is empty; false: nothing waits. */
bool batch_fill(struct lane *l, int64_t now_ns);
/* Is there enough in a queue for a whole batch? */
bool batch_full_waits(const struct lane *l);
bool queue_full(const struct lane *l, struct lane_queue *q);
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

/* ---- device_queue.c */
void *lane_main(void *arg);

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
