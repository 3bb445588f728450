/* SPDX-License-Identifier: MIT */
/* models: which models are loaded, where, at what cost, and who may use them now.
 *
 * A name stands for a slot; a slot has a current version (struct served) and perhaps one
 * that is being loaded.  A version is counted by references: requests take one for their
 * whole life, so a swap or an unload never pulls a model from under a request.  Loading
 * is done by one thread of the manager, never by a thread that answers requests.
 *
 *     absent ─load─► loading ─► ready ─unload─► leaving ─last reference─► absent
 *                       ├─► failed (with its reason)      ready ─swap─► loading beside ready
 *                       └─► away ─request─► loading       ready ─full pool─► away
 *
 * One that is to be loaded on demand is looked at (files, settings, bytes) and is away then.
 *
 * Memory: each model takes its bytes from a named pool before it loads (eng_ops.memory,
 * the tokenizer and a margin).  A full pool lets its least recently used models of lower
 * or equal priority leave, then refuses, naming the bytes asked, free, and held by whom.
 * A model that left comes back at its next request. */
#ifndef SERVE_MODELS_H
#define SERVE_MODELS_H
#include "engine/engine.h"
#include "metrics/metrics.h"
#include "model/files.h"
#include "model/tokenizer.h"
#include "serve/ask.h"

#include <stdatomic.h>

enum {
    MODELS_MAX = 256,        /* names */
    MODELS_ALIASES_MAX = 16, /* of one model */
    POOLS_MAX = 64,
    MODELS_REPLICAS_MAX = 16, /* devices of one model */
    MODELS_NAME_MAX = 128,    /* bytes of a name, an alias or a pool's name, and its NUL */
    MODELS_DIGEST_MAX = 17    /* bytes of a digest as text and its NUL */
};

enum models_priority { MODELS_LOW, MODELS_MEDIUM, MODELS_HIGH };

struct pool_opts {
    const char *name; /* "default" is always there */
    uint64_t bytes;   /* 0: all the memory of the machine */
    enum models_priority priority;
};

struct model_opts { /* strings are copied */
    const char *name, *dir;
    const char *aliases[MODELS_ALIASES_MAX];
    size_t alias_count;
    const char *device;        /* "cpu", or several: "cuda:0,cuda:1"; NULL: the best here */
    enum eng_dtype dtype;      /* ENG_AUTO: from settings */
    const char *fallback;      /* device when that one fails; "none"; NULL: from settings */
    bool fallback_at_start;    /* load it at once; else when it is needed first */
    bool invariant;            /* eng_opts.invariant */
    enum ask_choice normalize; /* ASK_DEFAULT: as each API does; a request may say otherwise */
    const char *pooling;       /* "mean", "cls", "last" …; NULL: the model's own */
    const char *pool;          /* NULL: "default" */
    const char *kind;          /* that it must be: "embedding", "reranker" …; NULL: any */
    enum models_priority priority;
    size_t batch_texts;    /* 0: as many as batch_tokens hold */
    size_t batch_tokens;   /* 0: from settings */
    size_t max_tokens;     /* 0: the model's own */
    uint64_t memory_bytes; /* 0: counted */
    int threads;
    bool pinned;    /* never leaves a full pool */
    bool on_demand; /* at the first request, not before */
    bool may_wait;  /* of low priority: away, not failed, where there is no room for it now */
    const struct model_prompt *prompts; /* added to the model's own, winning over them */
    size_t prompt_count;
};

struct lane; /* sched.h */

/* A version on one device.  Of its lane's thread alone, but for `device` and `retry_ns`. */
struct replica {
    const char *device; /* "cpu", "cuda:1" */
    struct eng *eng;
    struct lane *lane;
    _Atomic int64_t retry_ns; /* it failed: not tried before; 0: it works */
    int64_t wait_ns;          /* the last one between two tries */
};

/* One loaded version. Read-only for everyone but its lane. */
struct served {
    const char *name;
    struct model *model; /* normalize is off: front.c normalises as the request asks */
    bool normalize;      /* what the model's own modules say, or the operator */
    bool normalize_set;  /* the operator: it goes before an API's rule */
    struct tokenizer *tok;
    struct eng *eng; /* those of the first replica */
    struct lane *lane;
    struct replica replicas[MODELS_REPLICAS_MAX];
    size_t replica_count;       /* 0 (tests): eng and lane are all there is */
    struct spare *spare;        /* another device for when one fails; NULL: none */
    const char *device, *dtype; /* "cpu", "bf16" */
    size_t max_tokens, batch_tokens;
    size_t batch_texts; /* 0: as many as batch_tokens hold */
    uint64_t bytes;     /* counted against its pool */
    uint64_t version;
    int64_t loaded_unix_s;
    uint64_t key; /* differs when the vectors do: for caches */
    /* Which model it is: 16 hexadecimal digits, the same on every machine for the same content of
     * files, type, pooling, normalisation, length and prompts of the operator. */
    char digest[MODELS_DIGEST_MAX];
    char files_sha256[SHA256_HEX]; /* of the files alone: files.h */
    struct model_prompt *prompts;  /* all: the model's and the operator's */
    size_t prompt_count;
    const char *settings; /* where dtype and batch_tokens come from, with the reason */
};

bool models_pooling_known(const char *name); /* a value of model_opts.pooling? */

/* What a model would run with and where that comes from; nothing is loaded.  Texts are in the
 * arena or static.  `w`: as models_opts.workers. */
enum models_source { MODELS_OPERATOR, MODELS_TABLE, MODELS_FILES, MODELS_MACHINE };
struct models_setting {
    const char *name, *value, *reason;
    enum models_source source;
};
enum { MODELS_SETTINGS_MAX = 16 };
enum rc models_explain(struct workers *w, const struct model_opts *o, struct arena *a,
                       struct models_setting out[MODELS_SETTINGS_MAX], size_t *out_count,
                       struct err *err) MUST_USE;

struct models;
struct models_opts {
    const struct pool_opts *pools;
    size_t pool_count;
    uint64_t memory_bytes;   /* for all pools together; 0: what the machine has available */
    struct metrics *metrics; /* NULL: nobody reads them */
    struct sched *sched;     /* where lanes are; NULL: there are none */
    struct workers *workers; /* who run plug-ins' devices; NULL: they run in this process */
    bool any_name;           /* one that nobody has is the default model's */
    /* Called when a model became ready or failed, on the manager's thread. */
    void (*on_change)(void *arg, const char *name);
    void *arg;
    /* For tests: instead of eng_load. */
    enum rc (*load)(const struct model *m, const struct eng_opts *o, struct eng **out,
                    struct err *err);
};
enum rc models_new(const struct models_opts *o, struct models **out, struct err *err) MUST_USE;
/* Loads nothing more, once the load at hand is over: what waits has failed.  on_change is not
 * called after this returns. */
void models_stop(struct models *m);
void models_free(struct models *m); /* stops, and waits for references; NULL is fine */

/* Asks for it to be loaded, or swapped when the name is taken; returns at once.  `wait`:
 * returns when it is ready or failed. */
enum rc models_load(struct models *m, const struct model_opts *o, bool wait,
                    struct err *err) MUST_USE;
/* The same without waiting; what becomes of it is told by models_loaded() for this ticket. */
enum rc models_load_begin(struct models *m, const struct model_opts *o, uint64_t *out_ticket,
                          struct err *err) MUST_USE;
struct models_loaded { /* what a load came to */
    enum { MODELS_LOAD_RUNS, MODELS_LOAD_OK, MODELS_LOAD_FAILED, MODELS_LOAD_REPLACED } how;
    bool away; /* it comes when it is asked for */
    uint64_t version;
    char digest[MODELS_DIGEST_MAX]; /* "": not loaded yet */
    char dtype[8];                  /* "": not loaded yet */
};
/* *err says why one failed, or was replaced (a later load or an unload of the same name). */
void models_loaded(struct models *m, const char *name, uint64_t ticket, struct models_loaded *out,
                   struct err *err);
enum rc models_unload(struct models *m, const char *name, struct err *err) MUST_USE;

enum models_got {
    MODELS_READY,
    MODELS_LOADING,
    MODELS_NONE,
    MODELS_FAILED,
    MODELS_CHANGED /* its files are not those it was loaded from, and nobody asked for that */
};
/* By name or alias; NULL or "" is the only model of the kind `what` needs, else the first.
 * A model that left its pool begins to come back: MODELS_LOADING.  A reference is taken when
 * it is ready. */
enum models_got models_acquire(struct models *m, const char *name, enum ask_what what,
                               struct served **out, struct err *err);
void served_ref(struct served *s);
void served_release(struct served *s);
/* Waits until the name is ready or failed, or the deadline; for front threads that hold a
 * request whose model comes back. */
enum models_got models_wait(struct models *m, const char *name, enum ask_what what,
                            int64_t deadline_ns, struct served **out, struct err *err);
/* Why its last load failed, though an older version may still serve; false: it did not. */
bool models_last_error(struct models *m, const char *name, struct err *out);
/* The same once for each reason, and for models that were well or away before; *out_away: it
 * waits for room. */
bool models_news(struct models *m, const char *name, struct err *out, bool *out_away);
bool models_all_ready(struct models *m); /* every model asked for at start, once */
/* Waits until every model that was asked for is ready; the first that failed is the error. */
enum rc models_wait_all(struct models *m, struct err *err) MUST_USE;
/* The same without waiting: RC_OK while one is still loading. */
enum rc models_check_all(struct models *m, struct err *err) MUST_USE;
/* Makes the list of models this one: loads what is new, swaps what changed (other options, or
 * files with another size or time), unloads what is gone; returns at once.  Nothing changes
 * when an entry cannot be. */
enum rc models_reload(struct models *m, const struct model_opts *list, size_t count,
                      struct err *err) MUST_USE;

/* For /v1/models, /info and the page: name, aliases, state, bytes, pool, dtype, device, … */
struct json_out;
void models_json(struct models *m, struct json_out *w); /* our own form: a list */
/* "data": [{"id",…}]; `owner`: what "owned_by" says. */
void models_openai_json(struct models *m, struct json_out *w, const char *owner);
/* One of them by name or alias; false: there is none or its load failed, as *err says, and nothing
 * was written. */
bool models_openai_one(struct models *m, const char *name, struct json_out *w, struct err *err);
void pools_json(struct models *m, struct json_out *w);

/* "bf16 on cpu, the default here: ten nearest of a search …": the type it computes in and what that
 * costs, for people.  false: there is no such model. */
bool models_describe(struct models *m, const char *name, struct buf *out);

/* ---- models_spare.c: the device that computes while a model's own does not.  On a lane's
 * thread. */
/* Its engine, loaded at the first call, the caller's until spare_done(); NULL: *err says why. */
struct eng *spare_take(struct served *s, struct err *err);
void spare_done(struct served *s);
const char *spare_device(const struct served *s); /* NULL: there is none */
/* Of the model as it is there, which may be in another type; once it has computed something. */
const char *spare_digest(const struct served *s);

/* ---- settings.c: what data/serve.csv says for a device and a model, each with its reason */
struct serve_setting {
    enum eng_dtype dtype;
    size_t batch_tokens; /* for each thread, if so */
    bool per_thread;
    const char *fallback; /* "cpu", "none"; in the arena, as those that follow */
    const char *dtype_why, *batch_why, *fallback_why;
};
/* `device_kind` is "cpu amx", "NVIDIA H100 80GB HBM3" …; the row that says most of device and
 * model is taken. */
/* How near vectors in this type are to those in f32, which are the reference's. */
const char *settings_exactness(enum eng_dtype dtype, bool gpu, bool scores);
enum rc settings_of(const char *device_kind, const struct model *m, struct arena *a,
                    struct serve_setting *out, struct err *err) MUST_USE;

#endif
