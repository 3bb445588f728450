/* SPDX-License-Identifier: MIT */
/* engine: finds the implementation that was asked for and keeps bad batches from it.
 *
 * An implementation may rely on what eng_run() has checked: at least one sequence, none
 * empty, none longer than the position table, ids and types inside their tables.  Types of a
 * model without a table mean nothing: DistilBERT comes with BERT's tokenizer, which gives them
 * to pairs, and the reference drops them. */
#include "base/str.h"
#include "engine/engine_int.h"
#include "engine/plugin_int.h"
#include "engine/worker/worker_int.h"

#include <assert.h>
#include <math.h>

static const char *const dtype_names[ENG_DTYPES] = {
    [ENG_AUTO] = "auto", [ENG_F32] = "f32", [ENG_BF16] = "bf16",
    [ENG_I8] = "int8",   [ENG_F16] = "f16", [ENG_FP8] = "fp8",
};

const char *eng_dtype_name(enum eng_dtype t)
{
    assert((size_t)t < ENG_DTYPES);
    return dtype_names[t];
}

bool eng_dtype_parse(const char *name, enum eng_dtype *out)
{
    for (size_t i = 0; i < ENG_DTYPES; i++)
        if (str_eq(name, dtype_names[i])) {
            *out = (enum eng_dtype)i;
            return true;
        }
    return false;
}

static const struct eng_ops *const registry[] = {
    &eng_cpu, &eng_ref, /* the definition: always built, always last */
};

const struct eng_ops *eng_device(size_t i)
{
    return i < ARRAY_SIZE(registry) ? registry[i] : NULL;
}

int eng_ops_score(const struct eng_ops *ops)
{
    return ops->about ? ops->about->score : ops->score();
}

const char *eng_ops_kind(const struct eng_ops *ops)
{
    if (ops->about)
        return ops->about->kind;
    return ops->kind ? ops->kind() : ops->name;
}

size_t eng_ops_count(const struct eng_ops *ops)
{
    if (ops->about)
        return ops->about->count;
    return ops->count ? ops->count() : 1;
}

/* The one of this name, or without a name the best; NULL: there is none. */
static const struct eng_ops *find_here(const char *name)
{
    const struct eng_ops *best = NULL;
    int best_score = 0;

    for (size_t i = 0; i < ARRAY_SIZE(registry); i++) {
        int score = name ? str_eq(registry[i]->name, name) : registry[i]->score();

        if (score > best_score) {
            best = registry[i];
            best_score = score;
        }
    }
    return best;
}

static enum rc check_number(const char *device, const struct eng_ops *ops, struct err *err)
{
    const char *colon;
    size_t have;
    uint64_t number = 0;

    assert(device && ops);
    colon = strchr(device, ':');
    have = eng_ops_count(ops);
    if (colon && !str_to_u64(colon + 1, 10, &number))
        return err_set(err, RC_USAGE, "unknown device '%.64s'", device);
    if (number < have)
        return RC_OK;
    return err_set(err, RC_NODEV, "there is no device '%s': this machine has %zu", device, have);
}

/* `wait`: for what a worker has to say; else *out may stay NULL when it has not said it yet. */
static enum rc find_ops(struct workers *w, const char *device, bool wait,
                        const struct eng_ops **out, struct err *err)
{
    const struct eng_ops *here = find_here(device), *ops = here;
    enum rc rc = RC_OK;

    if (!ops && device && w)
        rc = workers_find(w, device, wait, &ops, err);
    else if (!ops && device)
        rc = plugin_engine(device, &ops, err);
    if (!wait && rc == RC_OK && !ops && device)
        return RC_OK; /* not known yet */
    if (rc == RC_USAGE)
        err_hint(err, "This program has '%s', '%s'.", registry[0]->name, registry[1]->name);
    if (rc == RC_OK && (!ops || eng_ops_score(ops) <= 0))
        rc = err_set(err, RC_NODEV, "device '%s' cannot run on this machine", device ? device : "");
    if (rc == RC_OK && !here)
        rc = check_number(device, ops, err);
    if (rc == RC_OK)
        *out = ops;
    return rc;
}

enum rc eng_find_in(struct workers *w, const char *device, const struct eng_ops **out,
                    struct err *err)
{
    return find_ops(w, device, true, out, err);
}

enum rc eng_find(const char *device, const struct eng_ops **out, struct err *err)
{
    return find_ops(NULL, device, true, out, err);
}

enum rc eng_check_in(struct workers *w, const char *device, struct err *err)
{
    const struct eng_ops *ops = NULL;

    return find_ops(w, device, false, &ops, err);
}

enum rc eng_load(const struct model *m, const struct eng_opts *o, struct eng **out, struct err *err)
{
    static const struct eng_opts none = { 0 };
    const struct eng_ops *ops = NULL;
    enum rc rc;

    o = o ? o : &none;
    rc = eng_find_in(o->workers, o->device, &ops, err);
    return rc == RC_OK ? ops->load(m, o, out, err) : rc;
}

void eng_free(struct eng *e)
{
    if (e)
        e->ops->unload(e);
}

const struct eng_ops *eng_ops_of(const struct eng *e)
{
    return e->ops;
}

size_t eng_dim(const struct model *m)
{
    return m->dense_count ? m->dense[m->dense_count - 1].out : model_pool_width(m);
}

size_t eng_width(const struct model *m, enum eng_want want)
{
    if (want == ENG_SCORES)
        return m->labels;
    return want == ENG_VECTORS ? eng_dim(m) : m->hidden;
}

size_t eng_tokens_max(const struct model *m)
{
    return m->positions > m->position_first ? m->positions - m->position_first : 0;
}

static enum rc check_sequence(const struct model *m, const struct eng_batch *b, size_t s,
                              struct err *err)
{
    if (b->starts[s + 1] <= b->starts[s])
        return err_set(err, RC_USAGE, "sequence %zu of the batch has no tokens", s);
    if (b->starts[s + 1] - b->starts[s] > eng_tokens_max(m)) {
        err_hint(err, "Truncate the text to %zu tokens.", eng_tokens_max(m));
        return err_set(err, RC_LIMIT, "sequence %zu has %u tokens and model '%s' takes %zu at most",
                       s, (unsigned)(b->starts[s + 1] - b->starts[s]), m->name, eng_tokens_max(m));
    }
    for (size_t i = b->starts[s]; i < b->starts[s + 1]; i++) {
        if (b->ids[i] >= m->vocab)
            return err_set(err, RC_USAGE,
                           "token %zu of sequence %zu is %u and model '%s' has %zu tokens",
                           i - b->starts[s], s, (unsigned)b->ids[i], m->name, m->vocab);
        if (b->types && m->types && b->types[i] >= m->types)
            return err_set(err, RC_USAGE,
                           "token %zu of sequence %zu has type %u and model '%s' has %zu types",
                           i - b->starts[s], s, b->types[i], m->name, m->types);
    }
    return RC_OK;
}

static enum rc check_batch(const struct model *m, const struct eng_batch *b, enum eng_want want,
                           struct err *err)
{
    if (want == ENG_SCORES && m->head == MODEL_HEAD_NONE)
        return err_set(err, RC_USAGE, "model '%s' has no head that gives scores", m->name);
    if (b->sequences == 0)
        return err_set(err, RC_USAGE, "the batch has no sequences");
    if (b->starts[0] != 0)
        return err_set(err, RC_USAGE, "the batch starts at token %u, not 0",
                       (unsigned)b->starts[0]);
    for (size_t s = 0; s < b->sequences; s++) {
        enum rc rc = check_sequence(m, b, s, err);

        if (rc != RC_OK)
            return rc;
    }
    return RC_OK;
}

/* A NaN in the weights or an overflow shows here, before anyone stores it. */
static enum rc check_output(const struct eng *e, const struct eng_batch *b, enum eng_want want,
                            const float *out, struct err *err)
{
    size_t width = eng_width(e->model, want);

    for (size_t s = 0; s < b->sequences; s++) {
        size_t first = want == ENG_TOKENS ? b->starts[s] : s;
        size_t end = want == ENG_TOKENS ? b->starts[s + 1] : s + 1;

        for (size_t i = first * width; i < end * width; i++)
            if (!isfinite(out[i]))
                return err_set(err, RC_FAIL,
                               "sequence %zu: model '%s' gave %s on device '%s'; a weight may be "
                               "damaged: 'stoker model verify' looks at each",
                               s, e->model->name, isnan(out[i]) ? "NaN" : "infinity", e->ops->name);
    }
    return RC_OK;
}

static enum rc device_failed(const struct eng *e, enum rc rc, struct err *err)
{
    (void)err_set(err, rc, "it gave no reason");
    (void)err_ctx(err, "device '%s' failed", e->ops->name);
    if (err)
        err->code = RC_NODEV;
    return RC_NODEV;
}

enum rc eng_run(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                struct err *err)
{
    enum rc rc = check_batch(e->model, b, want, err);

    if (rc != RC_OK)
        return rc;
    rc = e->ops->run(e, b, want, out, err);
    return rc == RC_OK ? check_output(e, b, want, out, err) : device_failed(e, rc, err);
}

bool eng_can_submit(const struct eng *e)
{
    return e->ops->submit && e->ops->collect;
}

enum rc eng_submit(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                   struct err *err)
{
    enum rc rc = check_batch(e->model, b, want, err);

    if (rc != RC_OK)
        return rc;
    rc = e->ops->submit(e, b, want, out, err);
    return rc == RC_OK || rc == RC_LIMIT ? rc : device_failed(e, rc, err);
}

enum rc eng_collect(struct eng *e, const struct eng_batch *b, enum eng_want want, const float *out,
                    bool *out_done, struct err *err)
{
    bool done = false;
    enum rc rc = e->ops->collect(e, &done, err);

    *out_done = done || rc != RC_OK;
    if (rc != RC_OK)
        return device_failed(e, rc, err);
    return done ? check_output(e, b, want, out, err) : RC_OK;
}

void eng_nudge(struct eng *e)
{
    if (e->ops->nudge)
        e->ops->nudge(e);
}
