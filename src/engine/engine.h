/* SPDX-License-Identifier: MIT */
/* engine: encoders on devices.
 *
 * A device turns packed batches (sequences one behind the other, no padding) into
 * sentence vectors, scores or token vectors.  The same text gives the same bits
 * whatever shares its batch, on a GPU where eng_opts asks for it.  eng_load() packs the weights
 * into memory of its own and lets the files go. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H
#include "model/model.h"

enum eng_dtype { ENG_AUTO, ENG_F32, ENG_BF16, ENG_I8, ENG_F16, ENG_FP8 };

enum { ENG_DTYPES = ENG_FP8 + 1 };
/* "auto", "f32", "bf16", "int8", "f16", "fp8".  The CPU has the first four, GPUs auto, bf16 and
 * the last two. */
const char *eng_dtype_name(enum eng_dtype t);
bool eng_dtype_parse(const char *name, enum eng_dtype *out); /* false: no such name */

struct eng_opts {
    const char *device;   /* "ref", "cpu", "cuda:1"; NULL: the best that is compiled in */
    enum eng_dtype dtype; /* of weights and products; sums, LN and softmax stay f32 */
    int threads;          /* 0: one for each usable CPU */
    const char *isa;      /* "avx2", "avx512", "amx" …: for tests; NULL: the best */
    bool invariant;       /* the same bits whatever shares a batch, at whatever cost it has;
                           * "cpu" and "ref" do so always */
    bool timed;           /* the device measures its runs: eng_ops.device_ms */
    /* Who runs a plug-in's device in a process of its own (worker.h); NULL: the plug-in is loaded
     * into this one.  A command that ends with its work has nothing to lose by that; a server has
     * all its other devices and everyone who asks. */
    struct workers *workers;
};

struct eng_batch {
    const uint32_t *ids;    /* [tokens] */
    const uint8_t *types;   /* [tokens]; NULL: all 0; not looked at by a model without types */
    const uint32_t *starts; /* [sequences + 1]: sequence s is ids[starts[s] .. starts[s+1]) */
    size_t sequences;
    const uint32_t *skip; /* [sequences]: first tokens that pooling leaves out; NULL: none */
};

enum eng_want {
    ENG_VECTORS, /* [sequences][dim]: pooled, dense layers applied, normalised if the model is */
    ENG_SCORES,  /* [sequences][labels]: head's logits, no activation */
    ENG_TOKENS   /* [tokens][hidden]: last hidden states */
};

struct eng; /* one loaded model on one device; calls from one thread at a time */

/* What a device that lives in another process said of itself once. */
struct eng_about {
    int score;
    size_t count;
    const char *kind;
};

enum { ENG_IN_FLIGHT = 2 }; /* batches that a device with submit() has room for, at least */

/* What an implementation fills in; (optional) entries may be NULL. */
struct eng_ops {
    const char *name;   /* "ref", "cpu"; a plug-in's: "cuda" */
    int (*score)(void); /* 0: cannot run here; higher is better */
    enum rc (*load)(const struct model *m, const struct eng_opts *o, struct eng **out,
                    struct err *err);
    void (*unload)(struct eng *e); /* NULL is fine */
    /* RC_NODEV: the device is lost to this process; another code: this batch failed. */
    enum rc (*run)(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                   struct err *err);
    uint64_t (*memory)(const struct model *m, const struct eng_opts *o); /* bytes it will take */
    void (*describe)(const struct eng *e, char *out, size_t cap); /* "avx512 bf16, 2 threads" */
    const char *(*kind)(void); /* (optional) which one this machine has: "cpu amx"; static */
    size_t (*count)(void);     /* (optional) devices of this kind: NAME:0 …; default: 1 */
    /* (optional) Milliseconds of the last run as the device measured them, from the first kernel to
     * the end of the last; NAN: not known.  Loaded with `timed`. */
    double (*device_ms)(const struct eng *e);

    /* (optional, both or none) run() in two halves, so that the next batch is on the device while
     * one runs.  What the batch points to and `out` stay untouched until collect() has ended it;
     * `b` itself may go.  RC_LIMIT: there is no room, and nothing was taken. */
    enum rc (*submit)(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                      struct err *err);
    /* Waits for the oldest batch and ends it: its rows are in its `out`, or an error is its own.
     * *out_done false: nudge() called it away, nothing ended. */
    enum rc (*collect)(struct eng *e, bool *out_done, struct err *err);
    void (*nudge)(struct eng *e);  /* (optional) any thread, while one waits in collect() */
    const struct eng_about *about; /* (optional) the answers of score(), kind() and count() */

    /* (optional, both or none) Weights out to pinned host memory, so that their place on the
     * device is free, and back.  Between the two run() is not called. */
    enum rc (*swap_out)(struct eng *e, struct err *err);
    enum rc (*swap_in)(struct eng *e, struct err *err);

    /* (optional) The i-th line of what the device chose for this model: "qkv 512x3072x1024: …";
     * false: there are fewer. */
    bool (*choice)(const struct eng *e, size_t i, char *out, size_t cap);
};
const char *eng_ops_kind(const struct eng_ops *ops); /* the name, if it says nothing */
size_t eng_ops_count(const struct eng_ops *ops);
extern const struct eng_ops eng_ref, eng_cpu;

/* Implementation `i` of this program, best first; NULL past the last.  Look at score(). */
const struct eng_ops *eng_device(size_t i);
/* The implementation of a device's name ("cpu", "cuda:1"; NULL: the best that is compiled in):
 * one of this program's, else a plug-in's, which is one of these workers (NULL: is loaded into this
 * process).  RC_USAGE: there is none of that name; RC_NODEV: it cannot run here, or has no device
 * of that number. */
enum rc eng_find_in(struct workers *w, const char *device, const struct eng_ops **out,
                    struct err *err) MUST_USE;
/* The same question, for those who cannot wait: a plug-in's device whose kind no worker has told
 * of yet passes when there is such a plug-in. */
enum rc eng_check_in(struct workers *w, const char *device, struct err *err) MUST_USE;
enum rc eng_load(const struct model *m, const struct eng_opts *o, struct eng **out,
                 struct err *err) MUST_USE;
void eng_free(struct eng *e);
/* Checks ids, lengths (1 .. positions) and finiteness of what comes out.  RC_USAGE, RC_LIMIT:
 * the batch is bad; RC_FAIL: the numbers are; RC_NODEV: the device failed, and the same batch
 * may run on another. */
enum rc eng_run(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                struct err *err) MUST_USE;
/* eng_run() in two halves, where the device has them; collect with what was submitted.  The
 * oldest first; `b`, what it points to and `out` stay as they are until *out_done. */
bool eng_can_submit(const struct eng *e);
enum rc eng_submit(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                   struct err *err) MUST_USE;
enum rc eng_collect(struct eng *e, const struct eng_batch *b, enum eng_want want, const float *out,
                    bool *out_done, struct err *err) MUST_USE;
void eng_nudge(struct eng *e);         /* any thread: a collect() that waits returns early */
size_t eng_dim(const struct model *m); /* floats a vector: hidden, or the last dense layer's */
size_t eng_width(const struct model *m, enum eng_want want); /* floats a row of the output */
size_t eng_tokens_max(const struct model *m); /* tokens a sequence: rows of the position table */
const struct eng_ops *eng_ops_of(const struct eng *e);

/* Every implementation's struct begins with this. */
struct eng {
    const struct eng_ops *ops;
    const struct model *model; /* borrowed; must outlive it */
};

/* ---- pool.c ---- */
void eng_normalize(float *v, size_t n); /* x / max(|x|, 1e-12) */
/* Matryoshka: the first `keep` numbers, normalised again. */
void eng_truncate(float *v, size_t keep);
float eng_score(enum model_score kind, float logit);

#endif
