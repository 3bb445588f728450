/* SPDX-License-Identifier: MIT */
/* models_request: what is requested of the manager: which names there are and what they stand for.
 *
 * Everything is checked before anything changes.  A name that is taken is swapped: its slot
 * keeps what it serves until the new version is ready. */
#include "base/log.h"
#include "base/str.h"
#include "os/clock.h"
#include "os/file.h"
#include "serve/models/manager_int.h"

#include <assert.h>

/* ---- wishes */

static const char *keep_text(struct arena *a, const char *s)
{
    return s ? arena_strdup(a, s) : NULL;
}

static struct model_wish *wish_new(const struct serve_model *o)
{
    struct model_wish *w = xcalloc(1, sizeof(*w));
    struct model_prompt *prompts = arena_array(&w->arena, struct model_prompt, o->prompt_count + 1);

    w->refs = 1;
    w->o = *o;
    w->o.name = keep_text(&w->arena, o->name);
    w->o.dir = keep_text(&w->arena, o->dir);
    w->o.device = keep_text(&w->arena, o->device);
    w->o.fallback = keep_text(&w->arena, o->fallback);
    w->o.pooling = keep_text(&w->arena, o->pooling);
    w->o.pool = keep_text(&w->arena, o->pool ? o->pool : "default");
    w->o.kind = keep_text(&w->arena, o->kind);
    for (size_t i = 0; i < o->alias_count; i++)
        w->o.aliases[i] = keep_text(&w->arena, o->aliases[i]);
    for (size_t i = 0; i < o->prompt_count; i++)
        prompts[i] = (struct model_prompt){ keep_text(&w->arena, o->prompts[i].name),
                                            keep_text(&w->arena, o->prompts[i].text) };
    w->o.prompts = prompts;
    return w;
}

struct model_wish *wish_ref(struct model_wish *w)
{
    w->refs++;
    return w;
}

void wish_drop(struct model_wish *w)
{
    if (!w || --w->refs)
        return;
    arena_release(&w->arena);
    free(w);
}

static bool same_aliases(const struct serve_model *a, const struct serve_model *b)
{
    if (a->alias_count != b->alias_count)
        return false;
    for (size_t i = 0; i < a->alias_count; i++)
        if (!str_eq(a->aliases[i], b->aliases[i]))
            return false;
    return true;
}

/* Would the same version come of it?  Names, priority and pinning are the slot's affair. */
static bool same_version(const struct serve_model *a, const struct serve_model *b)
{
    if (!str_eq(a->dir, b->dir) || !str_eq(a->device, b->device) || a->dtype != b->dtype ||
        !str_eq(a->pool ? a->pool : "default", b->pool ? b->pool : "default") ||
        a->batch_tokens != b->batch_tokens || a->batch_texts != b->batch_texts ||
        !str_eq(a->kind, b->kind) || a->max_tokens != b->max_tokens ||
        a->memory_bytes != b->memory_bytes || a->threads != b->threads ||
        !str_eq(a->fallback, b->fallback) || a->fallback_at_start != b->fallback_at_start ||
        a->invariant != b->invariant || a->on_demand != b->on_demand ||
        a->normalize != b->normalize || !str_eq(a->pooling, b->pooling) ||
        a->prompt_count != b->prompt_count)
        return false;
    for (size_t i = 0; i < a->prompt_count; i++)
        if (!str_eq(a->prompts[i].name, b->prompts[i].name) ||
            !str_eq(a->prompts[i].text, b->prompts[i].text))
            return false;
    return true;
}

/* ---- the table of names */

static uint64_t hash_of(const char *s)
{
    uint64_t h = 1469598103934665603u;

    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h ^ h >> 32;
}

static struct name_entry *place_of(const struct models *m, const char *name)
{
    size_t at = hash_of(name) & (m->name_cap - 1);

    while (m->names[at].name && !str_eq(m->names[at].name, name))
        at = (at + 1) & (m->name_cap - 1);
    return &m->names[at];
}

struct model_slot *names_find(const struct models *m, const char *name)
{
    return place_of(m, name)->slot;
}

static void put_name(struct models *m, const char *name, struct model_slot *s)
{
    *place_of(m, name) = (struct name_entry){ name, s };
}

/* Aliases first, so that a name wins over an alias that another slot had before. */
void names_build(struct models *m)
{
    size_t count = 0;

    for (size_t i = 0; i < m->slot_count; i++)
        count += 1 + m->slots[i]->serving->o.alias_count;
    free(m->names);
    m->name_cap = 16;
    while (m->name_cap < 2 * count)
        m->name_cap *= 2;
    m->names = xcalloc(m->name_cap, sizeof(*m->names));
    for (size_t i = 0; i < m->slot_count; i++)
        for (size_t k = 0; k < m->slots[i]->serving->o.alias_count; k++)
            put_name(m, m->slots[i]->serving->o.aliases[k], m->slots[i]);
    for (size_t i = 0; i < m->slot_count; i++)
        put_name(m, m->slots[i]->name, m->slots[i]);
}

/* ---- checking */

static enum rc check_name(const char *what, const char *name, struct err *err)
{
    size_t len = name ? strlen(name) : 0;
    bool plain = true;

    for (size_t i = 0; i < len; i++)
        plain = plain && (unsigned char)name[i] >= ' ' && name[i] != 0x7f;
    if (!len || len >= MODELS_NAME_MAX || !str_is_text(name, len) || !plain)
        return err_set(err, RC_USAGE,
                       "%s must be text of 1 to %d bytes, without control characters", what,
                       MODELS_NAME_MAX - 1);
    return RC_OK;
}

/* What can be said of options without looking at other models or at the disk. */
static enum rc check_alone(struct models *m, const struct serve_model *o, struct err *err)
{
    if (check_name("a model's name", o->name, err))
        return err->code;
    if (!o->dir || !o->dir[0])
        return err_set(err, RC_USAGE, "model '%s' has no folder", o->name);
    if (o->alias_count > MODELS_ALIASES_MAX || o->prompt_count > MODEL_PROMPTS_MAX)
        return err_set(err, RC_LIMIT, "model '%s' has more than %d aliases or %d prompts", o->name,
                       MODELS_ALIASES_MAX, MODEL_PROMPTS_MAX);
    for (size_t i = 0; i < o->alias_count; i++)
        if (check_name("an alias", o->aliases[i], err))
            return err_ctx(err, "model '%s'", o->name);
    if (!pools_find(m, o->pool)) {
        err_hint(err, "Pools are those of the spec, and 'default'.");
        return err_set(err, RC_USAGE, "model '%s': there is no pool '%.64s'", o->name, o->pool);
    }
    if (o->batch_tokens > MODELS_BATCH_TOKENS_MAX)
        return err_set(err, RC_LIMIT, "model '%s': %zu tokens a batch, %d at most", o->name,
                       o->batch_tokens, MODELS_BATCH_TOKENS_MAX);
    return RC_OK;
}

static bool has_name(const struct serve_model *o, const char *name)
{
    bool is = str_eq(o->name, name);

    for (size_t i = 0; !is && i < o->alias_count; i++)
        is = str_eq(o->aliases[i], name);
    return is;
}

/* No name of the one is a name of the other. */
static enum rc check_apart(const struct serve_model *a, const struct serve_model *b,
                           struct err *err)
{
    const char *twice = has_name(b, a->name) ? a->name : NULL;

    for (size_t i = 0; !twice && i < a->alias_count; i++)
        twice = has_name(b, a->aliases[i]) ? a->aliases[i] : NULL;
    if (!twice)
        return RC_OK;
    return err_set(err, RC_USAGE, "models '%s' and '%s' are both called '%s'", a->name, b->name,
                   twice);
}

static struct model_slot *slot_named(const struct models *m, const char *name)
{
    struct model_slot *s = names_find(m, name);

    return s && str_eq(s->name, name) ? s : NULL;
}

static enum rc check_beside(const struct models *m, const struct serve_model *o, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < m->slot_count && rc == RC_OK; i++) {
        const struct model_slot *s = m->slots[i];
        if (str_eq(s->name, o->name))
            continue;
        rc = check_apart(o, &s->serving->o, err);
        if (rc == RC_OK && s->wanted)
            rc = check_apart(o, &s->wanted->o, err);
        if (rc == RC_OK && s->loading)
            rc = check_apart(o, &s->loading->o, err);
    }
    if (rc == RC_OK && m->slot_count == MODELS_MAX && !slot_named(m, o->name))
        rc = err_set(err, RC_LIMIT, "there are %d models already", MODELS_MAX);
    return rc;
}

/* ---- loading */

static struct model_slot *slot_new(struct models *m, struct model_wish *w)
{
    struct model_slot *s = xcalloc(1, sizeof(*s));

    (void)str_copy(s->name, sizeof(s->name), w->o.name);
    s->serving = wish_ref(w);
    m->slots[m->slot_count++] = s;
    return s;
}

/* The lock is held; takes the caller's reference. */
static struct model_slot *want_model(struct models *m, struct model_wish *w)
{
    struct model_slot *s = slot_named(m, w->o.name);

    w->ticket = ++m->ticket;
    if (!s)
        s = slot_new(m, w);
    wish_drop(s->wanted);
    s->wanted = w;
    s->returning = false;
    s->asked_unix_s = clock_unix_s();
    if (!s->current && !s->away) { /* nothing serves, or could again, under the old options */
        struct model_wish *old = s->serving;

        s->serving = wish_ref(w);
        wish_drop(old);
    }
    names_build(m);
    meter_name(m, s->name);
    pthread_cond_signal(&m->work);
    return s;
}

/* The lock is held. */
static enum rc wait_done(struct models *m, struct model_slot *s, uint64_t ticket, struct err *err)
{
    enum rc rc = RC_OK;

    s->waiters++;
    while (s->done < ticket && !s->gone)
        changed_wait(m, 0);
    if (s->gone)
        rc = err_set(err, RC_FAIL, "model '%s' was unloaded while it was loading", s->name);
    else if (s->error.code) {
        rc = s->error.code;
        if (err && !err->code)
            *err = s->error;
    }
    s->waiters--;
    slot_free_if_gone(s);
    return rc;
}

/* With the lock held when it returns; RC_OK: *out_slot has a ticket. */
static enum rc load_begin(struct models *m, const struct serve_model *o,
                          struct model_slot **out_slot, struct err *err)
{
    enum rc rc;

    rc = check_alone(m, o, err);
    if (rc == RC_OK)
        rc = place_check(m->o.workers, o, err);
    pthread_mutex_lock(&m->lock);
    if (rc == RC_OK)
        rc = check_beside(m, o, err);
    if (rc == RC_OK && m->stop)
        rc = err_set(err, RC_FAIL, "model '%s' is not loaded: the server is stopping", o->name);
    if (rc == RC_OK)
        *out_slot = want_model(m, wish_new(o));
    return rc;
}

enum rc models_load(struct models *m, const struct serve_model *o, bool wait, struct err *err)
{
    struct err own = { 0 };
    struct model_slot *s = NULL;

    err = err ? err : &own;
    enum rc rc = load_begin(m, o, &s, err);
    if (rc == RC_OK && wait)
        rc = wait_done(m, s, m->ticket, err);
    pthread_mutex_unlock(&m->lock);
    return rc;
}

enum rc models_load_begin(struct models *m, const struct serve_model *o, uint64_t *out_ticket,
                          struct err *err)
{
    struct model_slot *s = NULL;
    enum rc rc = load_begin(m, o, &s, err);

    if (rc == RC_OK)
        *out_ticket = m->ticket;
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* The lock is held. */
static void tell_loaded(const struct model_slot *s, uint64_t ticket, struct models_loaded *out,
                        struct err *err)
{
    if (s->done < ticket) {
        out->how = MODELS_LOAD_RUNS;
    } else if (s->done > ticket) {
        out->how = MODELS_LOAD_REPLACED;
        (void)err_set(err, RC_FAIL, "a later load of model '%s' took the place of this one",
                      s->name);
    } else if (s->error.code) {
        out->how = MODELS_LOAD_FAILED;
        if (err && !err->code)
            *err = s->error;
    } else {
        out->how = MODELS_LOAD_OK;
        out->version = s->version;
        out->away = s->away;
        (void)str_copy(out->digest, sizeof(out->digest), s->digest);
        if (s->current)
            (void)str_copy(out->dtype, sizeof(out->dtype), s->current->s.dtype);
    }
}

void models_loaded(struct models *m, const char *name, uint64_t ticket, struct models_loaded *out,
                   struct err *err)
{
    *out = (struct models_loaded){ .how = MODELS_LOAD_REPLACED };
    pthread_mutex_lock(&m->lock);
    const struct model_slot *s = slot_named(m, name);
    if (s)
        tell_loaded(s, ticket, out, err);
    else
        (void)err_set(err, RC_FAIL, "model '%s' was unloaded while it was loading", name);
    pthread_mutex_unlock(&m->lock);
}

/* ---- unloading */

/* The lock is held. */
static void unload_slot(struct models *m, struct model_slot *s)
{
    size_t at = 0;

    while (m->slots[at] != s)
        at++;
    memmove(&m->slots[at], &m->slots[at + 1], (m->slot_count - at - 1) * sizeof(m->slots[0]));
    m->slot_count--;
    s->gone = true;
    log_info("model '%s' is unloaded", s->name);
    names_build(m);
    if (s->current) {
        s->current->slot = NULL;
        meter_info(m, s->current, false);
        version_drop(s->current);
        s->current = NULL;
    }
    meter_name(m, s->name);
    pthread_cond_broadcast(&m->changed);
    slot_free_if_gone(s);
}

enum rc models_unload(struct models *m, const char *name, struct err *err)
{
    enum rc rc = RC_OK;

    pthread_mutex_lock(&m->lock);
    struct model_slot *s = name ? slot_named(m, name) : NULL;
    if (s) {
        unload_slot(m, s);
    } else {
        struct model_slot *of = name ? names_find(m, name) : NULL;
        if (of)
            err_hint(err, "'%s' is an alias of '%s'.", name, of->name);
        rc = err_set(err, RC_NODEV, "there is no model '%.*s'", MODELS_NAME_MAX, name ? name : "");
    }
    pthread_mutex_unlock(&m->lock);
    return rc;
}

/* ---- another list */

static enum rc check_list(struct models *m, const struct serve_model *list, size_t count,
                          struct err *err)
{
    enum rc rc = count <= MODELS_MAX
                     ? RC_OK
                     : err_set(err, RC_LIMIT, "%zu models, %d at most", count, MODELS_MAX);

    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        rc = check_alone(m, &list[i], err);
        if (rc == RC_OK)
            rc = place_check(m->o.workers, &list[i], err);
        if (rc == RC_OK && !file_is_dir(list[i].dir))
            rc = err_set(err, RC_NODEV, "model '%s': there is no folder '%.400s'", list[i].name,
                         list[i].dir);
        for (size_t k = 0; k < i && rc == RC_OK; k++)
            rc = check_apart(&list[k], &list[i], err);
    }
    return rc;
}

/* Do its files differ from those the slot's version came of?  Unknown is yes. */
static bool files_are_new(struct models *m, const char *name, const char *dir)
{
    struct files *now = NULL;
    bool differ = true;

    if (files_look(dir, &now, NULL))
        return true;
    pthread_mutex_lock(&m->lock);
    struct model_slot *s = slot_named(m, name);
    if (s && s->files && (s->current || s->away))
        differ = files_differ(s->files, now) != NULL;
    pthread_mutex_unlock(&m->lock);
    files_free(now);
    return differ;
}

/* What the slot will serve when the loader is done; NULL: nothing, it failed. */
static struct model_wish *wish_of(const struct model_slot *s)
{
    if (s->wanted || s->loading)
        return s->wanted ? s->wanted : s->loading;
    return s->current || s->away ? s->serving : NULL;
}

/* Other names, priority or pinning: nothing is loaded for that, unless the loader is at it
 * with the old ones.  The lock is held. */
static void change_light(struct models *m, struct model_slot *s, const struct serve_model *o)
{
    struct model_wish *w = wish_new(o);

    if (s->wanted || s->loading) {
        (void)want_model(m, w);
        return;
    }
    w->ticket = s->serving->ticket;
    wish_drop(s->serving);
    s->serving = w;
    if (s->current) {
        s->current->priority = o->priority;
        s->current->pinned = o->pinned;
    }
}

/* The first of the list is the first here: requests that name no model get it. */
static void order_slots(struct models *m, const struct serve_model *list, size_t count)
{
    assert(m->slot_count == count);
    for (size_t i = 0; i < count; i++) {
        size_t at = i;

        while (!str_eq(m->slots[at]->name, list[i].name))
            at++;
        struct model_slot *s = m->slots[at];
        m->slots[at] = m->slots[i];
        m->slots[i] = s;
    }
}

static bool in_list(const char *name, const struct serve_model *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(list[i].name, name))
            return true;
    return false;
}

/* The lock is held. */
static void apply_list(struct models *m, const struct serve_model *list, size_t count,
                       const bool *fresh)
{
    for (size_t i = m->slot_count; i-- > 0;)
        if (!in_list(m->slots[i]->name, list, count))
            unload_slot(m, m->slots[i]);
    for (size_t i = 0; i < count; i++) {
        struct model_slot *s = slot_named(m, list[i].name);
        struct model_wish *w = s ? wish_of(s) : NULL;
        bool coming = s && (s->wanted || s->loading);
        if (!w || !same_version(&w->o, &list[i]) || (fresh[i] && !coming))
            (void)want_model(m, wish_new(&list[i]));
        else if (!same_aliases(&w->o, &list[i]) || w->o.priority != list[i].priority ||
                 w->o.pinned != list[i].pinned)
            change_light(m, s, &list[i]);
    }
    order_slots(m, list, count);
    names_build(m);
}

enum rc models_reload(struct models *m, const struct serve_model *list, size_t count,
                      struct err *err)
{
    struct err own = { 0 };
    bool *fresh;
    enum rc rc;

    err = err ? err : &own;
    rc = check_list(m, list, count, err);
    if (rc != RC_OK)
        return rc;
    fresh = xcalloc(count + 1, sizeof(*fresh));
    for (size_t i = 0; i < count; i++)
        fresh[i] = files_are_new(m, list[i].name, list[i].dir);
    pthread_mutex_lock(&m->lock);
    if (m->stop)
        rc = err_set(err, RC_FAIL, "the server is stopping");
    else
        apply_list(m, list, count, fresh);
    pthread_mutex_unlock(&m->lock);
    free(fresh);
    return rc;
}
