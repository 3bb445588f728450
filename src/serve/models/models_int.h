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
#ifndef SERVE_MODELS_MODELS_INT_H
#define SERVE_MODELS_MODELS_INT_H
#include "engine/engine.h"
#include "metrics/metrics.h"
#include "model/files/files.h"
#include "model/tokenizer.h"
#include "serve/request_int.h"
#include "serve/serve.h"

#include <stdatomic.h>

struct device_queue; /* sched_int.h */

/* A version on one device.  Of its device queue's thread alone, but for `device` and `retry_ns`. */
struct model_replica {
    const char *device; /* "cpu", "cuda:1" */
    struct eng *eng;
    struct device_queue *device_queue;
    _Atomic int64_t retry_ns; /* it failed: not tried before; 0: it works */
    int64_t wait_ns;          /* the last one between two tries */
};

/* One loaded version. Read-only for everyone but its device queue. */
struct served {
    const char *name;
    struct model *model; /* normalize is off: request_finish.c normalises as the request asks */
    bool normalize;      /* what the model's own modules say, or the operator */
    bool normalize_set;  /* the operator: it goes before an API's rule */
    struct tokenizer *tok;
    struct eng *eng; /* those of the first replica */
    struct device_queue *device_queue;
    struct model_replica replicas[MODELS_REPLICAS_MAX];
    size_t replica_count;       /* 0 (tests): eng and device queue are all there is */
    struct fallback *fallback;  /* another device for when one fails; NULL: none */
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

struct models;
struct manager_opts {
    const struct serve_pool *pools;
    size_t pool_count;
    uint64_t memory_bytes;   /* for all pools together; 0: what the machine has available */
    struct metrics *metrics; /* NULL: nobody reads them */
    struct sched *sched;     /* where device queues are; NULL: there are none */
    struct workers *workers; /* who run plug-ins' devices; NULL: they run in this process */
    bool any_name;           /* one that nobody has is the default model's */
    /* Called when a model became ready or failed, on the manager's thread. */
    void (*on_change)(void *arg, const char *name);
    void *arg;
    /* For tests: instead of eng_load. */
    enum rc (*load)(const struct model *m, const struct eng_opts *o, struct eng **out,
                    struct err *err);
};
enum rc models_new(const struct manager_opts *o, struct models **out, struct err *err) MUST_USE;
/* Loads nothing more, once the load at hand is over: what waits has failed.  on_change is not
 * called after this returns. */
void models_stop(struct models *m);
void models_free(struct models *m); /* stops, and waits for references; NULL is fine */

/* Asks for it to be loaded, or swapped when the name is taken; returns at once.  `wait`:
 * returns when it is ready or failed. */
enum rc models_load(struct models *m, const struct serve_model *o, bool wait,
                    struct err *err) MUST_USE;
/* The same without waiting; what becomes of it is told by models_loaded() for this ticket. */
enum rc models_load_begin(struct models *m, const struct serve_model *o, uint64_t *out_ticket,
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
enum models_got models_acquire(struct models *m, const char *name, enum request_what what,
                               struct served **out, struct err *err);
void served_release(struct served *s);
/* Why its last load failed, though an older version may still serve; once for each reason, and for
 * models that were well or away before; *out_away: it waits for room.  False: there is nothing new.
 * */
bool models_news(struct models *m, const char *name, struct err *out, bool *out_away);
bool models_all_ready(struct models *m); /* every model asked for at start, once */
/* The error of the first that failed; RC_OK while one is still loading. */
enum rc models_check_all(struct models *m, struct err *err) MUST_USE;
/* Makes the list of models this one: loads what is new, swaps what changed (other options, or
 * files with another size or time), unloads what is gone; returns at once.  Nothing changes
 * when an entry cannot be. */
enum rc models_reload(struct models *m, const struct serve_model *list, size_t count,
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

/* ---- models_fallback.c: the device that computes while a model's own does not.  On a device
 * queue's thread. */
/* Its engine, loaded at the first call, the caller's until fallback_done(); NULL: *err says why. */
struct eng *fallback_take(struct served *s, struct err *err);
void fallback_done(struct served *s);
const char *fallback_device(const struct served *s); /* NULL: there is none */
/* Of the model as it is there, which may be in another type; once it has computed something. */
const char *fallback_digest(const struct served *s);

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
enum rc settings_of(const char *device_kind, const struct model *m, struct arena *a,
                    struct serve_setting *out, struct err *err) MUST_USE;

#endif
