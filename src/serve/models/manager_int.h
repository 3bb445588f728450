/* SPDX-License-Identifier: MIT */
/* manager_int: what the files of the model manager share.
 *
 *   model_manager.c        life, references, finding a model for a request
 *   models_request.c what is asked for: load, unload, reload; names and aliases
 *   models_load.c    the thread that loads, and the one that frees
 *   models_place.c   on which devices, and how: settings, overrides
 *   models_identity.c  which model it is: digests, and files that are no longer those
 *   models_fallback.c the device that computes while a model's own does not
 *   models_meter.c   metrics;  models_json.c: lists
 *   pools.c          who has which bytes, who leaves, what the machine has
 *   settings.c       data/serve.csv
 *
 * Invariants.
 *  1. One lock guards slots, versions, pools and names.  Nothing is read, computed or called
 *     back under it.
 *  2. A slot holds one reference of its current version.  A version with one reference is
 *     therefore idle, and stays so while the lock is held: new references come from
 *     models_acquire(), under the lock, or from one who has another.
 *  3. A version's bytes are its pool's from before it is loaded until it is freed.
 *  4. Versions without references are freed by one thread, on their device queue. */
#ifndef SERVE_MODELS_MANAGER_INT_H
#define SERVE_MODELS_MANAGER_INT_H
#include "base/mem.h"
#include "model/files/files.h"
#include "serve/models/models_int.h"
#include "serve/sched/sched_int.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    MODELS_ROOM_WAIT_MS = 5000, /* for versions that leave, and for busy ones to become idle */
    MODELS_ROOM_POLL_MS = 5,
    MODELS_RETRY_MS = 1000, /* after a model that left could not come back */
    MODELS_TOLD_MAX = 16,   /* names in one message */
    MODELS_BATCH_TOKENS_MAX = 1 << 24,
    MODELS_DEVICE_MAX = 32 /* bytes of a device's name and its NUL */
};

/* ---- what was asked for; shared by reference counts under the lock */
struct model_wish {
    struct arena arena; /* strings of `o` */
    struct serve_model o;
    size_t refs;
    uint64_t ticket; /* rising; order of loading */
};

enum models_kind { KIND_UNKNOWN, KIND_EMBEDDING, KIND_RERANKER, KIND_CLASSIFIER };

/* ---- one loaded version */
struct version {
    struct served s; /* first: the two are one */
    _Atomic size_t refs;
    struct models *m;
    struct model_slot *slot; /* whose current one it is; NULL: it leaves */
    struct pool *pool;
    enum models_kind kind;
    enum models_priority priority;
    bool pinned;
    uint64_t used;           /* turn of its last request */
    struct model_wish *wish; /* what it was loaded for */
    struct files *files;
    struct arena arena;          /* strings and prompts of `s` */
    struct version *next, *dead; /* in lists of struct models */
};

enum models_state { STATE_LOADING, STATE_READY, STATE_AWAY, STATE_FAILED, STATE_LEAVING };
enum { MODELS_STATES = STATE_LEAVING + 1 };

struct model_slot {
    char name[MODELS_NAME_MAX];
    struct model_wish
        *serving; /* of the current version; without one, the last that was asked for */
    struct model_wish *wanted;  /* waits for the loader; NULL: nothing */
    struct model_wish *loading; /* the loader is at it; NULL: it is not */
    struct version *current;
    bool away;      /* it left its pool */
    bool returning; /* and waits for the loader to come back */
    bool gone;      /* unloaded: no list holds it */
    bool was_ready; /* once, or away as it should be */
    bool told;      /* the error was, by models_news() */
    size_t waiters; /* threads that look at it without the lock between */
    enum models_kind kind;
    struct err error;               /* of the last load; RC_OK: none */
    uint64_t done;                  /* greatest ticket whose load is over */
    uint64_t version;               /* number of the last one loaded */
    struct files *files;            /* of the last one loaded; NULL: none was.  A reference */
    char digest[MODELS_DIGEST_MAX]; /* of it */
    bool changed;                   /* the error is that its files are not those any more */
    int64_t retry_ns;               /* not before, when it could not come back */
    int64_t asked_unix_s;
};

struct pool {
    char name[MODELS_NAME_MAX];
    uint64_t bytes, used;
    enum models_priority priority;
};

struct name_entry {
    const char *name; /* NULL: free */
    struct model_slot *slot;
};

struct models_meter {
    struct metrics_family *pool_bytes, *bytes, *state, *loads, *seconds, *evictions, *swaps;
    struct metrics_family *info, *changes;
};

struct models {
    struct manager_opts o;
    struct metrics *priv_metrics; /* NULL: the caller's are used */
    struct models_meter meter;
    pthread_mutex_t lock;
    pthread_cond_t work;    /* for the loader */
    pthread_cond_t dying;   /* for the freeing thread */
    pthread_cond_t changed; /* for everyone who waits; monotonic clock */
    pthread_t loader, freer;
    bool loader_on, freer_on;
    bool stop, end;                       /* of the one, of the other */
    struct model_slot *slots[MODELS_MAX]; /* in the order they were first asked for */
    size_t slot_count;
    struct version *living, *dead; /* all; those to be freed */
    struct name_entry *names;      /* hash table of names and aliases */
    size_t name_cap;               /* a power of two */
    struct pool pools[POOLS_MAX + 1];
    size_t pool_count;
    uint64_t ticket, turn;
    bool started; /* all that was asked for at first was ready once */
    struct files_cache *sums;
};

/* ---- model_manager.c */
void version_drop(struct version *v); /* the lock is held */
void slot_free_if_gone(struct model_slot *s);
void changed_wait(struct models *m, int64_t deadline_ns); /* may return early */
enum models_state slot_state(const struct model_slot *s);
const char *models_state_name(enum models_state s);
const char *models_kind_name(enum models_kind k); /* NULL: unknown */
enum models_kind models_kind_of(const struct model *m);

/* ---- models_request.c; the lock is held */
void names_build(struct models *m);
struct model_slot *names_find(const struct models *m, const char *name);
struct model_wish *wish_ref(struct model_wish *w);
void wish_drop(struct model_wish *w); /* NULL is fine */

/* ---- models_load.c */
void *models_load_main(void *models);
void *models_free_main(void *models);

/* ---- models_place.c */
/* The devices of a list and the fallback: do they exist, as far as it can be told at once?
 * Without the lock: it may load a plug-in. */
enum rc place_check(struct workers *w, const struct serve_model *o, struct err *err) MUST_USE;
struct model_place {
    char devices[MODELS_REPLICAS_MAX][MODELS_DEVICE_MAX];
    size_t count;
    const struct eng_ops *ops; /* of the first; the others' are the same */
    struct serve_setting set;  /* what the table says */
    struct eng_opts eo;        /* of the first */
    size_t batch_tokens;
    const char *fallback; /* NULL: none; in the arena */
};
/* Where and how a model runs: what was asked for goes before what the table says. */
enum rc place_choose(struct workers *w, const struct serve_model *o, const struct model *m,
                     struct arena *a, struct model_place *out, struct err *err) MUST_USE;
/* What the operator wants otherwise than the model's files. */
enum rc place_override(const struct serve_model *o, struct model *m, struct err *err) MUST_USE;
uint64_t place_margin(uint64_t bytes); /* on top: what nobody counts */

/* ---- models_identity.c */
/* The type that an engine says it computes in; `asked` where it says none. */
const char *identity_dtype(const struct eng *e, enum eng_dtype asked);
/* Writes digest and files_sha256 of `s`, all of whose files were summed; `dtype`: of the engine. */
void identity_set(struct served *s, const struct serve_model *o, const struct files *f);
void identity_digest(const struct served *s, const struct serve_model *o, const char *dtype,
                     char out[MODELS_DIGEST_MAX]);
/* Are the files in `dir` those that `was` was made of, by content?  RC_FAIL says which is not. */
enum rc identity_check(const struct files *was, const char *dir, struct files_cache *c,
                       struct err *err) MUST_USE;
enum rc identity_changed(const char *file, struct err *err); /* that error */

/* ---- models_fallback.c */
/* Begins unloaded; `bytes`: what it will take. */
struct fallback *fallback_new(const char *device);
enum rc fallback_bytes(struct workers *ws, const struct model_wish *w, const struct model *m,
                       const char *device, uint64_t *out, struct err *err) MUST_USE;
/* Reads it; the bytes are taken by the caller. */
enum rc fallback_load(struct version *v, struct err *err) MUST_USE;
void fallback_empty(struct fallback *s); /* what is large; NULL is fine, here and below */
void fallback_free(struct fallback *s);

/* ---- pools.c; the lock is held */
enum rc pools_init(struct models *m, const struct manager_opts *o, struct err *err) MUST_USE;
struct pool *pools_find(struct models *m, const char *name); /* NULL: none */
/* Takes the bytes, letting others leave and waiting for them; RC_LIMIT says who has them.
 * The lock is given back while it waits. */
enum rc pools_take(struct models *m, struct model_slot *s, const struct model_wish *w,
                   struct pool *p, uint64_t bytes, struct err *err) MUST_USE;
/* Takes them if they are free now; nobody leaves for them. */
enum rc pools_take_now(struct models *m, const struct model_wish *w, struct pool *p, uint64_t bytes,
                       uint64_t available, struct err *err) MUST_USE;
void pools_give(struct models *m, struct pool *p, uint64_t bytes);
/* What models may take of the memory of the machine now, or of its copy below `root` ("": this
 * one): what is available, below the limits of our control groups, less a reserve. */
uint64_t pools_machine_bytes(const char *root);

/* ---- models_meter.c; the lock is held, or nobody else is there */
void meter_init(struct models *m);
void meter_pools(struct models *m);
void meter_name(struct models *m, const char *name); /* state and bytes as they are now */
void meter_load(struct models *m, const char *name, bool ok, double seconds);
/* One more of m->meter.evictions, .swaps or .changes. */
void meter_count(struct metrics_family *f, const char *name);
void meter_info(struct models *m, const struct version *v, bool current);

#endif
