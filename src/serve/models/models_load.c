/* SPDX-License-Identifier: MIT */
/* models_load: the thread that loads versions, one after the other, and the one that frees
 * them.
 *
 *     files as they are ─ open, check ─ count bytes, take them ─ tokenizer, weights ─ the
 *     files are the same still? ─ publish             └─ their sums, beside that
 *
 * Loading one at a time keeps the count of memory simple and the disk busy with one reader.
 * Freeing has a thread of its own: the loader may wait for it, and a model that leaves is not
 * kept by one that loads. */
#include "base/log.h"
#include "base/str.h"
#include "base/text/units.h"
#include "os/clock.h"
#include "os/file.h"
#include "serve/models/manager_int.h"

#include <assert.h>
#include <limits.h>
#include <malloc.h>
#include <sys/stat.h>

enum {
    /* Bytes a tokenizer takes for each byte of its tokenizer.json, as measured. */
    LOAD_TOKENIZER_FACTOR = 4
};

/* A version on its way, and what it needs besides. */
struct model_load {
    struct models *m;
    struct model_slot *slot;
    const struct model_wish *wish;
    struct version *v;
    struct model_place place;
    char tok_path[FILE_PATH_MAX];
    struct files *was; /* it comes back and was made of these; NULL: it does not.  A reference */
    bool changed;      /* but it would not be: that is the error */
    bool look;         /* only whether it could be loaded */
};

/* ---- freeing */

static void free_engine(void *arg)
{
    struct model_replica *r = arg;

    eng_free(r->eng);
    r->eng = NULL;
}

/* What is large, while lists may show the version still; a half-built one is fine. */
static void version_empty(struct version *v)
{
    for (size_t i = 0; i < v->s.replica_count; i++) {
        struct model_replica *r = &v->s.replicas[i];
        if (r->eng && r->device_queue)
            sched_on_device_queue(r->device_queue, free_engine, r);
        else
            free_engine(r);
    }
    v->s.eng = NULL;
    fallback_empty(v->s.fallback); /* lists ask it for its device */
    tokenizer_free(v->s.tok);
    v->s.tok = NULL;
    model_close(v->s.model);
    v->s.model = NULL;
}

/* When no list has it any more; the lock is held. */
static void version_free(struct version *v)
{
    fallback_free(v->s.fallback);
    files_free(v->files);
    wish_drop(v->wish);
    arena_release(&v->arena);
    free(v);
}

/* The lock is held at both ends. */
static void free_dead(struct models *m, struct version *v)
{
    struct version **at = &m->living;

    assert(!v->slot && !atomic_load(&v->refs));
    pthread_mutex_unlock(&m->lock);
    version_empty(v);
    (void)malloc_trim(0); /* a tokenizer is many small blocks */
    pthread_mutex_lock(&m->lock);
    while (*at != v)
        at = &(*at)->next;
    *at = v->next;
    pools_give(m, v->pool, v->s.bytes);
    meter_name(m, v->s.name);
    version_free(v);
    pthread_cond_broadcast(&m->changed);
}

void *models_free_main(void *arg)
{
    struct models *m = arg;

    pthread_mutex_lock(&m->lock);
    while (m->dead || !m->end) {
        struct version *v = m->dead;
        if (v) {
            m->dead = v->dead;
            free_dead(m, v);
        } else {
            pthread_cond_wait(&m->dying, &m->lock);
        }
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- choosing */

static enum rc choose_tokens(struct model_load *l, struct err *err)
{
    struct served *s = &l->v->s;
    size_t most = eng_tokens_max(s->model), asked = l->wish->o.max_tokens;

    if (asked > most)
        return err_set(err, RC_USAGE, "it has positions for %zu tokens, not %zu", most, asked);
    s->max_tokens = asked ? asked : s->model->max_tokens < most ? s->model->max_tokens : most;
    return RC_OK;
}

/* Device, type and batch size. */
static enum rc choose_settings(struct model_load *l, struct err *err)
{
    const struct serve_model *o = &l->wish->o;
    struct served *s = &l->v->s;
    struct arena *a = &l->v->arena;

    if (place_choose(l->m->o.workers, o, s->model, a, &l->place, err))
        return err->code;
    for (; s->replica_count < l->place.count; s->replica_count++)
        s->replicas[s->replica_count].device = arena_strdup(a, l->place.devices[s->replica_count]);
    s->device = s->replicas[0].device;
    s->batch_tokens = l->place.batch_tokens;
    s->batch_texts = o->batch_texts;
    s->settings = arena_printf(
        a, "%s; %s", o->dtype != ENG_AUTO ? "the operator chose the type" : l->place.set.dtype_why,
        o->batch_tokens ? "the operator chose the tokens a batch" : l->place.set.batch_why);
    s->fallback = l->place.fallback ? fallback_new(l->place.fallback) : NULL;
    return RC_OK;
}

static bool operator_has(const struct serve_model *o, const char *name)
{
    for (size_t i = 0; i < o->prompt_count; i++)
        if (str_eq(o->prompts[i].name, name))
            return true;
    return false;
}

static void choose_prompts(struct model_load *l)
{
    const struct serve_model *o = &l->wish->o;
    const struct model *net = l->v->s.model;
    struct served *s = &l->v->s;
    struct arena *a = &l->v->arena;

    s->prompts = arena_array(a, struct model_prompt, o->prompt_count + net->prompts_count + 1);
    for (size_t i = 0; i < o->prompt_count; i++)
        s->prompts[s->prompt_count++] =
            (struct model_prompt){ arena_strdup(a, o->prompts[i].name),
                                   arena_strdup(a, o->prompts[i].text) };
    for (size_t i = 0; i < net->prompts_count; i++)
        if (!operator_has(o, net->prompts[i].name))
            s->prompts[s->prompt_count++] =
                (struct model_prompt){ arena_strdup(a, net->prompts[i].name),
                                       arena_strdup(a, net->prompts[i].text) };
}

/* ---- memory */

static enum rc bytes_of(const struct model_load *l, uint64_t *out, struct err *err)
{
    const struct model_place *p = &l->place;
    uint64_t bytes, spare = 0;
    struct stat st;

    assert(p->ops); /* open_model() chose it */
    bytes = p->ops->memory(l->v->s.model, &p->eo) * p->count;
    if (l->wish->o.fallback_at_start && p->fallback &&
        fallback_bytes(l->m->o.workers, l->wish, l->v->s.model, p->fallback, &spare, err))
        return err->code;
    if (stat(l->tok_path, &st) == 0)
        bytes += (uint64_t)st.st_size * LOAD_TOKENIZER_FACTOR;
    bytes += place_margin(bytes) + spare;
    *out = l->wish->o.memory_bytes ? l->wish->o.memory_bytes : bytes;
    return RC_OK;
}

static enum rc take_bytes(struct model_load *l, struct err *err)
{
    uint64_t bytes = 0;

    if (bytes_of(l, &bytes, err))
        return err->code;
    pthread_mutex_lock(&l->m->lock);
    l->v->pool = pools_find(l->m, l->wish->o.pool);
    assert(l->v->pool); /* it was checked when it was asked for */
    enum rc rc = pools_take(l->m, l->slot, l->wish, l->v->pool, bytes, err);
    pthread_mutex_unlock(&l->m->lock);
    if (rc == RC_OK)
        l->v->s.bytes = bytes;
    return rc;
}

/* What is larger than its pool will never fit. */
static enum rc check_bytes(const struct model_load *l, struct err *err)
{
    char asked[UNITS_TEXT_MAX], have[UNITS_TEXT_MAX];
    uint64_t bytes = 0, most;

    if (bytes_of(l, &bytes, err))
        return err->code;
    pthread_mutex_lock(&l->m->lock);
    most = pools_find(l->m, l->wish->o.pool)->bytes;
    pthread_mutex_unlock(&l->m->lock);
    if (bytes <= most)
        return RC_OK;
    return err_set(err, RC_LIMIT, "it takes %s (%llu bytes), and pool '%s' has %s",
                   units_bytes_human(bytes, asked), (unsigned long long)bytes, l->wish->o.pool,
                   units_bytes_human(most, have));
}

/* ---- reading */

/* Before anybody leaves for it. */
static enum rc check_was(struct model_load *l, const char *dir, struct err *err)
{
    enum rc rc = l->was ? identity_check(l->was, dir, l->m->sums, err) : RC_OK;

    l->changed = rc != RC_OK;
    return rc;
}

/* Where it is.  A link to the folder is followed once: whoever turns it meanwhile, and back, would
 * have files of two folders read as one. */
static enum rc find_dir(const struct model_load *l, char *out, size_t cap, struct err *err)
{
    char real[PATH_MAX];
    enum rc rc = model_find(l->wish->o.dir, out, cap, err);

    if (rc == RC_OK && realpath(out, real) && !str_copy(out, cap, real))
        rc = err_set(err, RC_LIMIT, "the folder's path is longer than %zu bytes", cap - 1);
    return rc;
}

static enum rc open_model(struct model_load *l, struct err *err)
{
    struct served *s = &l->v->s;
    char dir[FILE_PATH_MAX];

    if (find_dir(l, dir, sizeof(dir), err) || check_was(l, dir, err) ||
        files_look(dir, &l->v->files, err) || model_open(dir, &s->model, err) ||
        place_override(&l->wish->o, s->model, err) || choose_tokens(l, err) ||
        choose_settings(l, err))
        return err->code;
    s->normalize_set = l->wish->o.normalize != SERVE_DEFAULT;
    s->normalize = s->model->normalize;
    s->model->normalize = false;
    l->v->kind = models_kind_of(s->model);
    if (l->wish->o.kind && !str_eq(l->wish->o.kind, models_kind_name(l->v->kind)))
        return err_set(err, RC_USAGE, "its files are of a model of kind %s, not %s",
                       models_kind_name(l->v->kind), l->wish->o.kind);
    choose_prompts(l);
    return file_join(l->tok_path, sizeof(l->tok_path), s->model->net_dir, "tokenizer.json", err);
}

static enum rc read_parts(struct model_load *l, struct err *err)
{
    struct served *s = &l->v->s;
    enum rc rc = model_tokenizer(s->model, &s->tok, err);

    for (size_t i = 0; rc == RC_OK && i < s->replica_count; i++) {
        struct eng_opts eo = l->place.eo;
        eo.device = s->replicas[i].device;
        rc = l->m->o.load(s->model, &eo, &s->replicas[i].eng, err);
    }
    s->eng = s->replicas[0].eng;
    if (rc == RC_OK && s->fallback && l->wish->o.fallback_at_start)
        rc = fallback_load(l->v, err);
    if (rc == RC_OK)
        s->dtype = identity_dtype(s->eng, l->place.eo.dtype);
    return rc;
}

/* A file that was written while it was read may have given half of the old and half of the
 * new.  A load that failed for that reason says so too. */
static enum rc check_files(struct model_load *l, enum rc rc, struct err *err)
{
    struct files *now = NULL;
    const char *name;

    if (files_look(l->v->s.model->dir, &now, NULL))
        return rc != RC_OK ? rc : err_set(err, RC_FAIL, "its folder went while it was loading");
    name = files_differ(l->v->files, now);
    if (name && rc == RC_OK)
        rc = err_set(err, RC_FAIL, "file '%s' changed while the model was loading", name);
    else if (name && !strstr(err->msg, "changed while the model was loading"))
        (void)err_ctx(err, "file '%s' changed while the model was loading", name);
    files_free(now);
    return rc;
}

/* Sums are made while the engine reads the same pages. */
static enum rc read_all(struct model_load *l, struct err *err)
{
    struct served *s = &l->v->s;
    struct files_task *sums = files_sum_begin(l->v->files, s->model, l->m->sums);
    enum rc rc = read_parts(l, err);
    const char *name;

    if (rc == RC_OK)
        rc = files_sum_end(sums, err);
    else
        files_sum_drop(sums);
    rc = check_files(l, rc, err);
    if (rc != RC_OK)
        return rc;
    identity_set(s, &l->wish->o, l->v->files);
    name = l->was ? files_differ_summed(l->was, l->v->files) : NULL;
    l->changed = name != NULL;
    return name ? identity_changed(name, err) : RC_OK;
}

static uint64_t key_of(const struct version *v)
{
    uint64_t h = 1469598103934665603u ^ v->s.version * 0x9e3779b97f4a7c15u;
    const char *const words[] = { v->s.digest, v->s.device };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        for (const char *c = words[i]; *c; c++)
            h = (h ^ (unsigned char)*c) * 1099511628211u;
    return h ^ h >> 29;
}

static enum rc load_version(struct model_load *l, struct err *err)
{
    struct served *s = &l->v->s;
    enum rc rc = open_model(l, err);

    if (l->look)
        return rc == RC_OK ? check_bytes(l, err) : rc;
    if (rc == RC_OK)
        rc = take_bytes(l, err);
    if (rc == RC_OK)
        rc = read_all(l, err);
    for (size_t i = 0; rc == RC_OK && l->m->o.sched && i < s->replica_count; i++) {
        s->replicas[i].device_queue = sched_device_queue(l->m->o.sched, s->replicas[i].device);
        if (!s->replicas[i].device_queue)
            rc = err_set(err, RC_LIMIT, "there is no lane for device '%s'", s->replicas[i].device);
    }
    s->device_queue = s->replicas[0].device_queue;
    if (rc != RC_OK)
        return rc;
    st_close(s->model->tensors); /* the files are nobody's business any more */
    s->model->tensors = NULL;
    s->loaded_unix_s = clock_unix_s();
    return RC_OK;
}

/* ---- publishing; the lock is held */

static void publish_version(struct models *m, struct model_slot *s, struct version *v)
{
    struct model_wish *w = s->loading;
    struct version *old = s->current;

    /* One that comes back from the same files is the same: what caches hold of it is good. */
    if (!(s->away && w == s->serving && str_eq(s->digest, v->s.digest)))
        s->version++;
    if (old)
        log_info("model '%s': digest %s now, not %s any more", s->name, v->s.digest, s->digest);
    else if (m->started) /* the command tells of those at the start */
        log_info("model '%s' is loaded, digest %s", s->name, v->s.digest);
    files_free(s->files);
    s->files = files_ref(v->files);
    memcpy(s->digest, v->s.digest, sizeof(s->digest));
    v->s.version = s->version;
    v->s.key = key_of(v);
    v->priority = w->o.priority;
    v->pinned = w->o.pinned;
    v->used = ++m->turn;
    v->slot = s;
    s->current = v;
    s->kind = v->kind;
    s->away = false;
    s->was_ready = true;
    s->error = (struct err){ 0 };
    s->changed = false;
    if (s->serving != w) {
        wish_drop(s->serving);
        s->serving = wish_ref(w);
    }
    if (old)
        meter_info(m, old, false);
    meter_info(m, v, true);
    if (old) {
        old->slot = NULL;
        version_drop(old);
        meter_count(m->meter.swaps, s->name);
    }
    names_build(m);
}

/* Nothing is loaded, and the slot is as after its version left; what was loaded before under this
 * name is nobody's any more. */
static void put_away(struct models *m, struct model_slot *s, enum models_kind kind)
{
    struct model_wish *w = s->loading;

    s->away = true;
    s->was_ready = true;
    s->kind = kind;
    files_free(s->files);
    s->files = NULL;
    s->digest[0] = '\0';
    s->error = (struct err){ 0 };
    s->changed = false;
    if (s->serving != w) {
        wish_drop(s->serving);
        s->serving = wish_ref(w);
    }
    names_build(m);
}

/* A version that is current stays; one that left can come back, but not at once. */
static void fail_slot(struct model_slot *s, const struct err *err, bool changed)
{
    s->told = s->told && str_eq(s->error.msg, err->msg);
    s->error = *err;
    s->changed = changed;
    s->retry_ns =
        s->loading == s->serving ? clock_mono_ns() + (int64_t)MODELS_RETRY_MS * 1000000 : 0;
}

static void finish_load(struct models *m, struct model_load *l, enum rc rc, const struct err *err,
                        double seconds)
{
    struct model_slot *s = l->slot;

    enum models_kind kind = l->v->kind;
    bool waits = rc == RC_LIMIT && l->wish->o.may_wait && l->wish->o.priority == MODELS_LOW &&
                 !s->current && !s->was_ready;

    if (rc == RC_OK && l->look) {
        version_free(l->v);
        if (!s->gone)
            put_away(m, s, kind);
    } else if (rc == RC_OK) {
        l->v->next = m->living;
        m->living = l->v;
        if (s->gone)
            version_drop(l->v);
        else
            publish_version(m, s, l->v);
    } else {
        pools_give(m, l->v->pool, l->v->s.bytes);
        version_free(l->v);
        if (l->changed)
            meter_count(m->meter.changes, s->name);
        if (waits && !s->gone)
            put_away(m, s, kind);
        if (!s->gone)
            fail_slot(s, err, l->changed);
    }
    files_free(l->was);
    if (rc != RC_OK || !l->look)
        meter_load(m, s->name, rc == RC_OK, seconds);
    if (s->done < s->loading->ticket)
        s->done = s->loading->ticket;
    wish_drop(s->loading);
    s->loading = NULL;
    meter_name(m, s->name);
    pthread_cond_broadcast(&m->changed);
    slot_free_if_gone(s);
}

/* ---- the thread */

static const struct model_wish *waiting_wish(const struct model_slot *s)
{
    return s->wanted ? s->wanted : s->returning ? s->serving : NULL;
}

/* The one that was asked for first. */
static struct model_slot *next_slot(const struct models *m)
{
    struct model_slot *best = NULL;

    for (size_t i = 0; i < m->slot_count; i++)
        if (waiting_wish(m->slots[i]) &&
            (!best || waiting_wish(m->slots[i])->ticket < waiting_wish(best)->ticket))
            best = m->slots[i];
    return best;
}

/* The lock is held at both ends. */
static void load_next(struct models *m, struct model_slot *s)
{
    struct model_load l = { .m = m, .slot = s, .v = xcalloc(1, sizeof(*l.v)) };
    char name[MODELS_NAME_MAX];
    struct err err = { 0 };
    int64_t begun = clock_mono_ns();

    l.look = s->wanted && s->wanted->o.on_demand && !s->current;
    if (!s->wanted && s->files)
        l.was = files_ref(s->files);
    s->loading = s->wanted ? s->wanted : wish_ref(s->serving);
    s->wanted = NULL;
    s->returning = false;
    l.wish = s->loading;
    l.v->wish = wish_ref(s->loading);
    l.v->m = m;
    atomic_init(&l.v->refs, 1);
    (void)str_copy(name, sizeof(name), s->name);
    l.v->s.name = arena_strdup(&l.v->arena, name);
    pthread_mutex_unlock(&m->lock);
    enum rc rc = load_version(&l, &err);
    if (rc != RC_OK)
        (void)err_ctx(&err, "model '%s'", name);
    if (rc != RC_OK || l.look)
        version_empty(l.v);
    pthread_mutex_lock(&m->lock);
    finish_load(m, &l, rc, &err, (double)(clock_mono_ns() - begun) * 1e-9);
    pthread_mutex_unlock(&m->lock);
    if (m->o.on_change)
        m->o.on_change(m->o.arg, name);
    pthread_mutex_lock(&m->lock);
}

void *models_load_main(void *arg)
{
    struct models *m = arg;

    pthread_mutex_lock(&m->lock);
    while (!m->stop) {
        struct model_slot *s = next_slot(m);
        if (s)
            load_next(m, s);
        else
            pthread_cond_wait(&m->work, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}
