/* SPDX-License-Identifier: MIT */
/* models_fallback: the device that computes while a model's own does not.
 *
 * It is a second engine of the same files.  Unless it was loaded with the model it is read when
 * it is needed first, on the thread of the device queue whose device failed: nothing else can
 * happen there.  Memory is taken only if it is free then, since whoever would have to leave is
 * freed on a device queue, perhaps this one.  Files that are no longer those the model came of are
 * refused: half of the replies would come of another model.
 *
 * Replicas share it: one at a time. */
#include "serve/models/manager_int.h"

#include "base/str.h"
#include "os/clock.h"

#include <assert.h>

struct fallback {
    const char *device;   /* in the version's arena */
    pthread_mutex_t lock; /* of the engine, and of what follows */
    struct model *model;
    struct eng *eng; /* NULL: not loaded */
    char digest[MODELS_DIGEST_MAX];
    struct err error; /* of the last load */
    int64_t retry_ns; /* not before */
};

struct fallback *fallback_new(const char *device)
{
    struct fallback *s = xcalloc(1, sizeof(*s));

    s->device = device;
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void fallback_empty(struct fallback *s)
{
    if (!s)
        return;
    eng_free(s->eng);
    s->eng = NULL;
    model_close(s->model);
    s->model = NULL;
}

void fallback_free(struct fallback *s)
{
    if (!s)
        return;
    fallback_empty(s);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *fallback_device(const struct served *s)
{
    return s->fallback ? s->fallback->device : NULL;
}

const char *fallback_digest(const struct served *s)
{
    return s->fallback && s->fallback->digest[0] ? s->fallback->digest : s->digest;
}

/* ---- loading */

/* The same options on the other device; a type that was chosen for the first stays, unless GPUs
 * alone have it. */
static enum rc choose_place(struct workers *ws, const struct model_wish *w, const struct model *m,
                            const char *device, struct arena *a, struct model_place *out,
                            struct err *err)
{
    struct serve_model o = w->o;

    o.device = device;
    o.fallback = "none";
    if ((o.dtype == ENG_F16 || o.dtype == ENG_FP8) && !str_starts(device, "cuda"))
        o.dtype = ENG_AUTO;
    return place_choose(ws, &o, m, a, out, err);
}

enum rc fallback_bytes(struct workers *ws, const struct model_wish *w, const struct model *m,
                       const char *device, uint64_t *out, struct err *err)
{
    struct arena a = { 0 };
    struct model_place p;
    enum rc rc = choose_place(ws, w, m, device, &a, &p, err);

    if (rc == RC_OK) {
        uint64_t bytes = p.ops->memory(m, &p.eo);
        *out = bytes + place_margin(bytes);
    }
    arena_release(&a);
    return rc;
}

enum rc fallback_load(struct version *v, struct err *err)
{
    struct fallback *s = v->s.fallback;
    const char *dir = v->s.model->dir;
    struct arena a = { 0 };
    struct model *m = NULL;
    struct eng *e = NULL;
    struct model_place p;
    enum rc rc = identity_check(v->files, dir, v->m->sums, err);

    if (rc == RC_OK)
        rc = model_open(dir, &m, err);
    if (rc == RC_OK)
        rc = place_override(&v->wish->o, m, err);
    if (rc == RC_OK)
        rc = choose_place(v->m->o.workers, v->wish, m, s->device, &a, &p, err);
    if (rc == RC_OK) {
        m->normalize = false; /* as in the version: request_finish.c does it */
        rc = eng_load(m, &p.eo, &e, err);
    }
    if (rc == RC_OK)
        rc = identity_check(v->files, dir, v->m->sums, err);
    if (rc == RC_OK) {
        st_close(m->tensors);
        m->tensors = NULL;
        s->model = m;
        s->eng = e;
        identity_digest(&v->s, &v->wish->o, identity_dtype(e, p.eo.dtype), s->digest);
    } else {
        eng_free(e);
        model_close(m);
    }
    arena_release(&a);
    return rc;
}

/* Counted first; the version's bytes grow by it. */
static enum rc load_now(struct version *v, struct err *err)
{
    struct models *m = v->m;
    uint64_t bytes = 0, available = m->o.memory_bytes ? 0 : pools_machine_bytes("");
    enum rc rc =
        fallback_bytes(m->o.workers, v->wish, v->s.model, v->s.fallback->device, &bytes, err);

    if (rc != RC_OK)
        return rc;
    pthread_mutex_lock(&m->lock);
    rc = pools_take_now(m, v->wish, v->pool, bytes, available, err);
    if (rc == RC_OK)
        v->s.bytes += bytes;
    pthread_mutex_unlock(&m->lock);
    if (rc != RC_OK)
        return rc;
    rc = fallback_load(v, err);
    pthread_mutex_lock(&m->lock);
    if (rc != RC_OK) {
        v->s.bytes -= bytes;
        pools_give(m, v->pool, bytes);
    }
    meter_name(m, v->s.name);
    pthread_mutex_unlock(&m->lock);
    return rc;
}

struct eng *fallback_take(struct served *served, struct err *err)
{
    struct version *v = (struct version *)served;
    struct fallback *s = served->fallback;

    assert(s);
    pthread_mutex_lock(&s->lock);
    if (!s->eng && clock_mono_ns() >= s->retry_ns) {
        s->error = (struct err){ 0 };
        if (load_now(v, &s->error))
            s->retry_ns = clock_mono_ns() + (int64_t)MODELS_RETRY_MS * 1000000;
    }
    if (s->eng)
        return s->eng;
    *err = s->error;
    (void)err_ctx(err, "its fallback '%s' could not be loaded", s->device);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void fallback_done(struct served *s)
{
    pthread_mutex_unlock(&s->fallback->lock);
}
