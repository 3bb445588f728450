/* SPDX-License-Identifier: MIT */
/* models_place: on which devices a model runs, in which type and batches, and what the operator
 * wants otherwise than its files. */
#include "serve/models/manager_int.h"

#include "base/str.h"

#include <assert.h>
#include <sched.h>

enum {
    PLACE_MARGIN_BYTES = 1 << 20, /* what nobody counts: threads, headers, labels */
    PLACE_MARGIN_SHARE = 64       /* and this part of the whole: pages that are not full */
};

uint64_t place_margin(uint64_t bytes)
{
    return bytes / PLACE_MARGIN_SHARE + PLACE_MARGIN_BYTES;
}

/* ---- devices */

/* "cuda:0,cuda:1" apart; NULL is the best that is compiled in. */
static enum rc split_devices(const char *list, struct model_place *p, struct err *err)
{
    p->count = 0;
    while (list && *list) {
        size_t len = strcspn(list, ",");

        if (!len || len >= MODELS_DEVICE_MAX)
            return err_set(err, RC_USAGE, "unknown device '%.64s'", list);
        if (p->count == MODELS_REPLICAS_MAX)
            return err_set(err, RC_LIMIT, "more than %d devices", MODELS_REPLICAS_MAX);
        (void)snprintf(p->devices[p->count++], MODELS_DEVICE_MAX, "%.*s", (int)len, list);
        list += len + (list[len] == ',');
    }
    return RC_OK;
}

/* The name before the number. */
static bool same_kind(const char *a, const char *b)
{
    size_t n = strcspn(a, ":");

    return n == strcspn(b, ":") && !memcmp(a, b, n);
}

static enum rc check_names(const struct model_place *p, struct err *err)
{
    for (size_t i = 1; i < p->count; i++) {
        if (!same_kind(p->devices[0], p->devices[i]))
            return err_set(err, RC_USAGE, "devices '%s' and '%s' are not of one kind",
                           p->devices[0], p->devices[i]);
        for (size_t k = 0; k < i; k++)
            if (str_eq(p->devices[i], p->devices[k]))
                return err_set(err, RC_USAGE, "device '%s' stands there twice", p->devices[i]);
    }
    return RC_OK;
}

static enum rc find_all(struct workers *w, const char *list, struct model_place *p, struct err *err)
{
    const struct eng_ops *ops = NULL;
    enum rc rc = split_devices(list, p, err);

    if (rc == RC_OK)
        rc = check_names(p, err);
    if (rc == RC_OK)
        rc = eng_find_in(w, p->count ? p->devices[0] : NULL, &p->ops, err);
    for (size_t i = 1; rc == RC_OK && i < p->count; i++)
        rc = eng_find_in(w, p->devices[i], &ops, err);
    if (rc == RC_OK && !p->count)
        (void)str_copy(p->devices[p->count++], MODELS_DEVICE_MAX, p->ops->name);
    return rc;
}

enum rc place_check(struct workers *w, const struct serve_model *o, struct err *err)
{
    struct model_place p = { 0 };
    enum rc rc = split_devices(o->device, &p, err);

    if (rc == RC_OK)
        rc = check_names(&p, err);
    for (size_t i = 0; rc == RC_OK && i < p.count; i++)
        rc = eng_check_in(w, p.devices[i], err);
    if (rc != RC_OK)
        return err_ctx(err, "model '%s'", o->name);
    if (o->fallback && !str_eq(o->fallback, "none") && eng_check_in(w, o->fallback, err))
        return err_ctx(err, "model '%s': fallback", o->name);
    return RC_OK;
}

/* ---- settings */

static size_t tokens_of(const struct serve_setting *set, int threads)
{
    cpu_set_t cpus;
    size_t n = threads > 0                                      ? (size_t)threads
               : sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (size_t)CPU_COUNT(&cpus)
                                                                : 1;
    size_t tokens = set->per_thread ? set->batch_tokens * n : set->batch_tokens;

    return tokens < MODELS_BATCH_TOKENS_MAX ? tokens : MODELS_BATCH_TOKENS_MAX;
}

/* A device is no fallback for itself. */
static const char *fallback_of(const struct serve_model *o, const struct model_place *p,
                               struct arena *a)
{
    const char *name = o->fallback ? o->fallback : p->set.fallback;

    for (size_t i = 0; i < p->count; i++)
        if (str_eq(name, p->devices[i]))
            return NULL;
    return str_eq(name, "none") ? NULL : arena_strdup(a, name);
}

enum rc place_choose(struct workers *w, const struct serve_model *o, const struct model *m,
                     struct arena *a, struct model_place *out, struct err *err)
{
    struct model_place p = { 0 };

    if (find_all(w, o->device, &p, err))
        return err->code;
    if (settings_of(eng_ops_kind(p.ops), m, a, &p.set, err))
        return err->code;
    *out = p;
    out->eo = (struct eng_opts){ .device = out->devices[0],
                                 .dtype = o->dtype != ENG_AUTO ? o->dtype : p.set.dtype,
                                 .threads = o->threads,
                                 .invariant = o->invariant,
                                 .workers = w };
    out->batch_tokens = o->batch_tokens ? o->batch_tokens : tokens_of(&p.set, o->threads);
    out->fallback = fallback_of(o, &p, a);
    return RC_OK;
}

/* ---- otherwise than the files */

/* By the names of the files, and "last". */
static bool pool_of(const char *name, enum model_pool *out)
{
    name = str_eq(name, "last") ? model_pool_label(MODEL_POOL_LAST) : name;
    for (int i = MODEL_POOL_MEAN; i <= MODEL_POOL_WEIGHTED; i++)
        if (str_eq(model_pool_label((enum model_pool)i), name)) {
            *out = (enum model_pool)i;
            return true;
        }
    return false;
}

bool models_pooling_known(const char *name)
{
    enum model_pool ignored;

    return pool_of(name, &ignored);
}

enum rc place_override(const struct serve_model *o, struct model *m, struct err *err)
{
    bool some = o->pooling || o->normalize != SERVE_DEFAULT;

    if (some && m->head != MODEL_HEAD_NONE)
        return err_set(err, RC_USAGE, "it gives scores: '%s' is for models that give vectors",
                       o->pooling ? "pooling" : "normalize");
    if (o->pooling && m->joined_count)
        return err_set(err, RC_USAGE, "its pooling joins %zu vectors, 'pooling: %s' would give one",
                       m->joined_count + 1, o->pooling);
    if (o->pooling && !pool_of(o->pooling, &m->pool))
        return err_set(err, RC_USAGE, "there is no pooling '%.64s'", o->pooling);
    if (o->normalize != SERVE_DEFAULT)
        m->normalize = o->normalize == SERVE_YES;
    return RC_OK;
}

/* ---- telling */

struct tell {
    struct arena *a;
    struct models_setting *out;
    size_t count;
};

static void tell_setting(struct tell *t, const char *name, const char *value,
                         enum models_source source, const char *reason)
{
    t->out[t->count++] = (struct models_setting){ name, value, reason, source };
}

static const char *number_text(struct arena *a, uint64_t n)
{
    return arena_printf(a, "%llu", (unsigned long long)n);
}

static void tell_place(struct tell *t, const struct serve_model *o, const struct model_place *p)
{
    static const char asked[] = "asked for";
    const char *list = o->device ? o->device : p->devices[0];
    const char *kind = eng_ops_kind(p->ops);

    tell_setting(t, "device", list, o->device ? MODELS_OPERATOR : MODELS_MACHINE,
                 o->device ? asked
                           : arena_printf(t->a, "the best that this program has here: %s", kind));
    tell_setting(t, "dtype", eng_dtype_name(p->eo.dtype),
                 o->dtype != ENG_AUTO ? MODELS_OPERATOR : MODELS_TABLE,
                 o->dtype != ENG_AUTO ? asked : p->set.dtype_why);
    tell_setting(t, "batch_tokens", number_text(t->a, p->batch_tokens),
                 o->batch_tokens ? MODELS_OPERATOR : MODELS_TABLE,
                 o->batch_tokens ? asked : p->set.batch_why);
    tell_setting(t, "fallback", p->fallback ? p->fallback : "none",
                 o->fallback ? MODELS_OPERATOR : MODELS_TABLE,
                 o->fallback ? asked : p->set.fallback_why);
}

static void tell_vectors(struct tell *t, const struct serve_model *o, const struct model *m)
{
    bool said = o->normalize != SERVE_DEFAULT;

    if (m->head != MODEL_HEAD_NONE)
        return;
    tell_setting(t, "pooling", model_pool_label(m->pool),
                 o->pooling ? MODELS_OPERATOR : MODELS_FILES,
                 o->pooling ? "asked for" : "how the model was trained");
    tell_setting(t, "normalize", m->normalize ? "true" : "false",
                 said ? MODELS_OPERATOR : MODELS_FILES,
                 said ? "asked for, where a request does not say"
                      : "where neither a request nor the rule of its API says");
}

static enum rc tell_rest(struct tell *t, const struct serve_model *o, const struct model *m,
                         const struct model_place *p, struct err *err)
{
    size_t most = eng_tokens_max(m), own = m->max_tokens < most ? m->max_tokens : most;
    uint64_t bytes;

    assert(p->ops); /* place_choose() found it */
    bytes = p->ops->memory(m, &p->eo) * p->count;
    if (o->max_tokens > most)
        return err_set(err, RC_USAGE, "it has positions for %zu tokens, not %zu", most,
                       o->max_tokens);
    tell_setting(t, "max_tokens", number_text(t->a, o->max_tokens ? o->max_tokens : own),
                 o->max_tokens ? MODELS_OPERATOR : MODELS_FILES,
                 o->max_tokens ? "asked for" : "the longest text the model was made for");
    tell_setting(t, "pool", o->pool ? o->pool : "default",
                 o->pool ? MODELS_OPERATOR : MODELS_MACHINE,
                 o->pool ? "asked for" : "all memory that the machine has available");
    tell_setting(t, "memory",
                 number_text(t->a, o->memory_bytes ? o->memory_bytes : bytes + place_margin(bytes)),
                 o->memory_bytes ? MODELS_OPERATOR : MODELS_FILES,
                 o->memory_bytes ? "asked for"
                                 : "counted from its shapes, the tokenizer not yet included");
    return RC_OK;
}

enum rc models_explain(struct workers *w, const struct serve_model *o, struct arena *a,
                       struct models_setting out[MODELS_SETTINGS_MAX], size_t *out_count,
                       struct err *err)
{
    struct tell t = { .a = a, .out = out };
    struct model *m = NULL;
    struct model_place p = { 0 };
    enum rc rc = model_open(o->dir, &m, err);

    if (rc == RC_OK)
        rc = place_override(o, m, err);
    if (rc == RC_OK)
        rc = place_choose(w, o, m, a, &p, err);
    if (rc == RC_OK) {
        tell_place(&t, o, &p);
        tell_vectors(&t, o, m);
        rc = tell_rest(&t, o, m, &p, err);
    }
    for (size_t i = 0; rc == RC_OK && i < t.count; i++)
        t.out[i].value = arena_strdup(a, t.out[i].value); /* the model goes */
    if (rc == RC_OK)
        *out_count = t.count;
    model_close(m);
    return rc == RC_OK ? rc : err_ctx(err, "model '%s'", o->name);
}
