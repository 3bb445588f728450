/* SPDX-License-Identifier: MIT */
/* models: its life, references to versions, and which model a request means.
 *
 * A request takes the lock once, for a look-up in a hash table and one addition.  Giving a
 * reference back takes no lock unless it was the last one of a version that leaves. */
#include "serve/models/manager_int.h"

#include "base/str.h"
#include "os/clock.h"

#include <assert.h>
#include <time.h>

/* ---- names of things */

const char *models_state_name(enum models_state s)
{
    static const char *const names[MODELS_STATES] = {
        [STATE_LOADING] = "loading", [STATE_READY] = "ready",     [STATE_AWAY] = "away",
        [STATE_FAILED] = "failed",   [STATE_LEAVING] = "leaving",
    };

    assert((size_t)s < ARRAY_SIZE(names));
    return names[s];
}

const char *models_kind_name(enum models_kind k)
{
    static const char *const names[] = { NULL, "embedding", "reranker", "classifier" };

    assert((size_t)k < ARRAY_SIZE(names));
    return names[k];
}

enum models_kind models_kind_of(const struct model *m)
{
    return m->head == MODEL_HEAD_NONE ? KIND_EMBEDDING
           : m->labels == 1           ? KIND_RERANKER
                                      : KIND_CLASSIFIER;
}

enum models_state slot_state(const struct model_slot *s)
{
    if (s->current)
        return STATE_READY;
    if (s->wanted || s->loading || s->returning)
        return STATE_LOADING;
    return s->away ? STATE_AWAY : STATE_FAILED;
}

/* ---- references */

static void bury_version(struct version *v)
{
    v->dead = v->m->dead;
    v->m->dead = v;
    pthread_cond_signal(&v->m->dying);
}

void version_drop(struct version *v)
{
    size_t before = atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel);

    assert(before);
    if (before == 1)
        bury_version(v);
}

void served_release(struct served *s)
{
    struct version *v = (struct version *)s;
    struct models *m = v->m;
    size_t before = atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel);

    assert(before);
    if (before != 1)
        return;
    pthread_mutex_lock(&m->lock);
    bury_version(v);
    pthread_mutex_unlock(&m->lock);
}

/* ---- waiting */

void changed_wait(struct models *m, int64_t deadline_ns)
{
    if (deadline_ns)
        (void)clock_cond_wait(&m->changed, &m->lock, deadline_ns);
    else
        (void)pthread_cond_wait(&m->changed, &m->lock);
}

/* A slot that was unloaded goes when the loader and everyone who waits have let go of it. */
void slot_free_if_gone(struct model_slot *s)
{
    if (!s->gone || s->loading || s->waiters)
        return;
    assert(!s->current);
    files_free(s->files);
    wish_drop(s->serving);
    wish_drop(s->wanted);
    free(s);
}

/* ---- which model */

/* Can a model of kind `k` do it? */
static bool kind_does(enum models_kind k, enum request_what what)
{
    switch (what) {
    case REQUEST_VECTORS:
    case REQUEST_TOKENS:
        return k == KIND_EMBEDDING;
    case REQUEST_RANK:
        return k == KIND_RERANKER;
    case REQUEST_CLASSES:
        return k == KIND_RERANKER || k == KIND_CLASSIFIER;
    case REQUEST_IDS:
    case REQUEST_TEXTS:
        break;
    }
    return true;
}

/* A reranker has a label too, but who asks for classes means a classifier where there is one. */
static bool kind_is_meant(enum models_kind k, enum request_what what)
{
    return what == REQUEST_CLASSES ? k == KIND_CLASSIFIER : kind_does(k, what);
}

/* The first that is meant, else the first that can do it.  One whose kind is not known yet is
 * waited for rather than passed over: what a server answers does not depend on which model loads
 * faster. */
static struct model_slot *default_slot(const struct models *m, enum request_what what)
{
    for (size_t i = 0; i < m->slot_count; i++) {
        struct model_slot *s = m->slots[i];

        if (s->kind == KIND_UNKNOWN ? slot_state(s) == STATE_LOADING : kind_is_meant(s->kind, what))
            return s;
    }
    for (size_t i = 0; i < m->slot_count; i++)
        if (kind_does(m->slots[i]->kind, what))
            return m->slots[i];
    return m->slot_count ? m->slots[0] : NULL;
}

/* Those whose load failed are none to ask for. */
static size_t count_slots(const struct models *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->slot_count; i++)
        n += slot_state(m->slots[i]) != STATE_FAILED;
    return n;
}

/* "'a', 'b' and 3 more" */
static void list_names(const struct models *m, struct buf *out)
{
    size_t told = 0, count = count_slots(m);

    for (size_t i = 0; i < m->slot_count && told < MODELS_TOLD_MAX; i++)
        if (slot_state(m->slots[i]) != STATE_FAILED)
            buf_addf(out, "%s'%.40s'", told++ ? ", " : "", m->slots[i]->name);
    if (told < count)
        buf_addf(out, " and %zu more", count - told);
}

static enum models_got no_model(const struct models *m, const char *name, struct err *err)
{
    const char *all[MODELS_MAX * 2];
    const char *near = NULL;
    size_t count = 0;
    struct buf list = { 0 };

    if (!count_slots(m)) {
        (void)err_set(err, RC_NODEV, "no model is loaded");
        return MODELS_NONE;
    }
    for (size_t i = 0; i < m->name_cap && count < ARRAY_SIZE(all); i++)
        if (m->names[i].name)
            all[count++] = m->names[i].name;
    near = str_nearest(name, all, count);
    list_names(m, &list);
    if (near) {
        err_hint(err, "Did you mean '%s'?", near);
        (void)err_set(err, RC_NODEV, "there is no model '%.*s' (nearest: '%s'); there is %s",
                      MODELS_NAME_MAX, name, near, buf_str(&list));
    } else {
        (void)err_set(err, RC_NODEV, "there is no model '%.*s'; there is %s", MODELS_NAME_MAX, name,
                      buf_str(&list));
    }
    buf_release(&list);
    return MODELS_NONE;
}

/* What to say of a slot without a version; one that left begins to come back. */
static enum models_got not_ready(struct models *m, struct model_slot *s, struct err *err)
{
    enum models_state state = slot_state(s);

    if (state == STATE_LOADING)
        return MODELS_LOADING;
    if (state == STATE_AWAY && !m->stop && (!s->error.code || clock_mono_ns() >= s->retry_ns)) {
        s->returning = true;
        s->serving->ticket = ++m->ticket;
        meter_name(m, s->name);
        pthread_cond_signal(&m->work);
        return MODELS_LOADING;
    }
    if (err && !err->code)
        *err = s->error;
    if (err && !err->code)
        (void)err_set(err, RC_FAIL, "model '%s' is not loaded: the server is stopping", s->name);
    return s->error.code && s->changed ? MODELS_CHANGED : MODELS_FAILED;
}

enum models_got models_acquire(struct models *m, const char *name, enum request_what what,
                               struct served **out, struct err *err)
{
    enum models_got got = MODELS_READY;

    pthread_mutex_lock(&m->lock);
    struct model_slot *s = name && name[0] ? names_find(m, name) : default_slot(m, what);
    if (!s && (m->o.any_name || count_slots(m) == 1)) { /* there is nothing to mistake it for */
        s = default_slot(m, what);
        if (s && s->kind != KIND_UNKNOWN && !kind_does(s->kind, what))
            s = NULL;
    }
    if (!s) {
        got = no_model(m, name ? name : "", err);
    } else if (!s->current) {
        got = not_ready(m, s, err);
    } else {
        s->current->used = ++m->turn;
        atomic_fetch_add_explicit(&s->current->refs, 1, memory_order_relaxed);
        *out = &s->current->s;
    }
    pthread_mutex_unlock(&m->lock);
    return got;
}

/* ---- all of them */

bool models_all_ready(struct models *m)
{
    pthread_mutex_lock(&m->lock);
    bool all = true;
    for (size_t i = 0; !m->started && i < m->slot_count; i++)
        all = all && m->slots[i]->was_ready;
    m->started = m->started || (all && m->slot_count);
    pthread_mutex_unlock(&m->lock);
    return all;
}

bool models_news(struct models *m, const char *name, struct err *out, bool *out_away)
{
    pthread_mutex_lock(&m->lock);
    struct model_slot *s = names_find(m, name);
    bool fresh = s && s->error.code != RC_OK && !s->told && (m->started || s->was_ready);
    if (fresh) {
        s->told = true;
        *out = s->error;
        *out_away = slot_state(s) == STATE_AWAY && s->error.code == RC_LIMIT;
    }
    pthread_mutex_unlock(&m->lock);
    return fresh;
}

enum rc models_check_all(struct models *m, struct err *err)
{
    enum rc rc = RC_OK;

    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; rc == RC_OK && i < m->slot_count; i++) {
        struct model_slot *s = m->slots[i];

        if (s->was_ready || slot_state(s) == STATE_LOADING)
            continue;
        rc = s->error.code ? s->error.code : RC_FAIL;
        if (err && !err->code)
            *err = s->error;
    }
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* ---- life */

enum rc models_new(const struct manager_opts *o, struct models **out, struct err *err)
{
    struct models *m = xcalloc(1, sizeof(*m));
    enum rc rc;

    m->o = *o;
    m->o.pools = NULL; /* borrowed for the start alone */
    m->o.load = o->load ? o->load : eng_load;
    m->priv_metrics = o->metrics ? NULL : metrics_new();
    m->o.metrics = o->metrics ? o->metrics : m->priv_metrics;
    m->sums = files_cache_new();
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->work, NULL);
    pthread_cond_init(&m->dying, NULL);
    clock_cond_init(&m->changed);
    meter_init(m);
    names_build(m);
    rc = pools_init(m, o, err);
    if (rc == RC_OK) {
        m->freer_on = pthread_create(&m->freer, NULL, models_free_main, m) == 0;
        m->loader_on = m->freer_on && pthread_create(&m->loader, NULL, models_load_main, m) == 0;
        if (!m->loader_on)
            rc = err_set(err, RC_FAIL, "could not start a thread to load models");
    }
    if (rc != RC_OK) {
        models_free(m);
        return rc;
    }
    *out = m;
    return RC_OK;
}

/* What waits for the loader has failed: nobody is to wait for it. */
static void fail_waiting(struct models *m)
{
    for (size_t i = 0; i < m->slot_count; i++) {
        struct model_slot *s = m->slots[i];

        if (!s->wanted && !s->returning)
            continue;
        if (s->wanted)
            s->done = s->wanted->ticket;
        wish_drop(s->wanted);
        s->wanted = NULL;
        s->returning = false;
        s->error = (struct err){ 0 };
        (void)err_set(&s->error, RC_FAIL, "model '%s' is not loaded: the server is stopping",
                      s->name);
    }
    pthread_cond_broadcast(&m->changed);
}

void models_stop(struct models *m)
{
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_broadcast(&m->work);
    pthread_cond_broadcast(&m->changed);
    fail_waiting(m);
    pthread_mutex_unlock(&m->lock);
    if (m->loader_on)
        (void)pthread_join(m->loader, NULL);
    m->loader_on = false;
}

static void free_slots(struct models *m)
{
    for (size_t i = 0; i < m->slot_count; i++) {
        struct model_slot *s = m->slots[i];

        s->gone = true;
        if (s->current) {
            s->current->slot = NULL;
            version_drop(s->current);
            s->current = NULL;
        }
        assert(!s->waiters && !s->loading);
        slot_free_if_gone(s);
    }
    m->slot_count = 0;
    names_build(m);
}

void models_free(struct models *m)
{
    if (!m)
        return;
    models_stop(m);
    pthread_mutex_lock(&m->lock);
    free_slots(m);
    while (m->living)
        changed_wait(m, 0);
    m->end = true;
    pthread_cond_signal(&m->dying);
    pthread_mutex_unlock(&m->lock);
    if (m->freer_on)
        (void)pthread_join(m->freer, NULL);
    pthread_cond_destroy(&m->work);
    pthread_cond_destroy(&m->dying);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    metrics_free(m->priv_metrics);
    files_cache_free(m->sums);
    free(m->names);
    free(m);
}
