/* SPDX-License-Identifier: MIT */
/* models_json: the lists of models and pools that clients and the page read. */
#include "serve/models/manager_int.h"

#include "base/str.h"
#include "base/text/json.h"

static const char *const priority_names[] = {
    [MODELS_LOW] = "low", [MODELS_MEDIUM] = "medium", [MODELS_HIGH] = "high"
};

static void kv_uint(struct json_out *w, const char *key, uint64_t v)
{
    json_key(w, key);
    json_add_uint(w, v);
}

static void write_aliases(struct json_out *w, const struct model_slot *s)
{
    json_kv_arr(w, "aliases");
    for (size_t i = 0; i < s->serving->o.alias_count; i++)
        json_add_str(w, s->serving->o.aliases[i]);
    json_arr_end(w);
}

/* As a list was asked for: "cuda:0,cuda:1". */
static void write_devices(struct json_out *w, const struct served *s)
{
    struct buf list = { 0 };

    for (size_t i = 0; i < s->replica_count; i++)
        buf_addf(&list, "%s%s", i ? "," : "", s->replicas[i].device);
    json_kv_str(w, "device", buf_str(&list));
    buf_release(&list);
}

/* What is known of a loaded version alone; null while there is none. */
static void write_version(struct json_out *w, const struct version *v)
{
    static const char *const unknown[] = { "device",       "fallback", "dtype",       "max_tokens",
                                           "batch_tokens", "digest",   "files_sha256" };

    kv_uint(w, "bytes", v ? v->s.bytes : 0);
    for (size_t i = 0; !v && i < ARRAY_SIZE(unknown); i++) {
        json_kv_str(w, unknown[i], NULL);
    }
    if (v) {
        write_devices(w, &v->s);
        json_kv_str(w, "fallback", fallback_device(&v->s));
        json_kv_str(w, "dtype", v->s.dtype);
        kv_uint(w, "max_tokens", v->s.max_tokens);
        kv_uint(w, "batch_tokens", v->s.batch_tokens);
        json_kv_str(w, "digest", v->s.digest);
        json_kv_str(w, "files_sha256", v->s.files_sha256);
    }
    json_kv_arr(w, "prompts");
    for (size_t i = 0; v && i < v->s.prompt_count; i++)
        json_add_str(w, v->s.prompts[i].name);
    json_arr_end(w);
}

/* The members that both lists have. */
static void write_common(struct json_out *w, const struct model_slot *s)
{
    json_kv_str(w, "kind", models_kind_name(s->kind));
    json_kv_str(w, "state", models_state_name(slot_state(s)));
    write_version(w, s->current);
    json_kv_str(w, "pool", s->serving->o.pool);
    json_kv_str(w, "load", s->serving->o.on_demand ? "on_demand" : "at_start");
    write_aliases(w, s);
    kv_uint(w, "version", s->version);
    if (s->error.code)
        json_kv_str(w, "error", s->error.msg);
    if (s->error.code && s->error.hint[0])
        json_kv_str(w, "hint", s->error.hint);
}

static void write_slot(struct json_out *w, const struct model_slot *s)
{
    const char *dir = s->serving->o.dir, *slash = dir ? strrchr(dir, '/') : NULL;

    json_obj(w);
    json_kv_str(w, "name", s->name);
    write_common(w, s);
    /* whoever may call sees this: where the server keeps its files is nobody's business */
    json_kv_str(w, "source", slash && slash[1] ? slash + 1 : dir);
    json_kv_str(w, "priority", priority_names[s->serving->o.priority]);
    json_kv_bool(w, "pinned", s->serving->o.pinned);
    json_kv_bool(w, "loading", s->wanted || s->loading || s->returning);
    if (s->current) {
        json_kv_int(w, "loaded_unix", s->current->s.loaded_unix_s);
        kv_uint(w, "in_use", atomic_load(&s->current->refs) - 1);
        json_kv_str(w, "settings", s->current->s.settings);
    }
    json_obj_end(w);
}

/* Versions that were replaced or unloaded and are in use still. */
static void write_leaving(struct json_out *w, const struct version *v)
{
    json_obj(w);
    json_kv_str(w, "name", v->s.name);
    json_kv_str(w, "kind", models_kind_name(v->kind));
    json_kv_str(w, "state", models_state_name(STATE_LEAVING));
    write_version(w, v);
    json_kv_str(w, "pool", v->pool->name);
    kv_uint(w, "version", v->s.version);
    kv_uint(w, "in_use", atomic_load(&v->refs));
    json_obj_end(w);
}

bool models_describe(struct models *m, const char *name, struct buf *out)
{
    enum eng_dtype dtype = ENG_AUTO;

    pthread_mutex_lock(&m->lock);
    const struct model_slot *s = names_find(m, name);
    const struct version *v = s ? s->current : NULL;
    if (v) {
        (void)eng_dtype_parse(v->s.dtype, &dtype);
        buf_addf(out, "%s on %s%s: %s", v->s.dtype, v->s.device,
                 v->wish->o.dtype == ENG_AUTO ? ", the default here" : "",
                 settings_exactness(dtype, str_starts(v->s.device, "cuda"),
                                    v->s.model->head != MODEL_HEAD_NONE));
        if (dtype != ENG_F32 && !str_starts(v->s.device, "cuda"))
            buf_adds(out, "; --dtype f32 is exact");
    } else if (s) {
        buf_adds(out, s->error.code ? "away: it waits for room" : "away until it is asked for");
    }
    pthread_mutex_unlock(&m->lock);
    return s != NULL;
}

void models_json(struct models *m, struct json_out *w)
{
    pthread_mutex_lock(&m->lock);
    json_arr(w);
    for (size_t i = 0; i < m->slot_count; i++)
        write_slot(w, m->slots[i]);
    for (const struct version *v = m->living; v; v = v->next)
        if (!v->slot)
            write_leaving(w, v);
    json_arr_end(w);
    pthread_mutex_unlock(&m->lock);
}

/* What Infinity's client reads of a model beside OpenAI's members. */
static void write_infinity(struct json_out *w, const struct model_slot *s)
{
    static const char *const does[] = { [KIND_UNKNOWN] = NULL,
                                        [KIND_EMBEDDING] = "embed",
                                        [KIND_RERANKER] = "rerank",
                                        [KIND_CLASSIFIER] = "classify" };

    json_kv_obj(w, "stats");
    kv_uint(w, "results_pending", s->current ? atomic_load(&s->current->refs) - 1 : 0);
    json_obj_end(w);
    json_kv_str(w, "backend", "stoker");
    json_kv_arr(w, "capabilities");
    if (does[s->kind])
        json_add_str(w, does[s->kind]);
    json_arr_end(w);
}

/* `owner`: "infinity" on the path of that server, as its client takes no other. */
static void write_openai(struct json_out *w, const struct model_slot *s, const char *owner)
{
    json_obj(w);
    json_kv_str(w, "id", s->name);
    json_kv_str(w, "object", "model");
    json_kv_int(w, "created", s->current ? s->current->s.loaded_unix_s : s->asked_unix_s);
    json_kv_str(w, "owned_by", owner);
    write_infinity(w, s);
    json_kv_obj(w, "stoker");
    write_common(w, s);
    json_obj_end(w);
    json_obj_end(w);
}

void models_openai_json(struct models *m, struct json_out *w, const char *owner)
{
    pthread_mutex_lock(&m->lock);
    json_obj(w);
    json_kv_str(w, "object", "list");
    json_kv_arr(w, "data");
    for (size_t i = 0; i < m->slot_count; i++)
        if (slot_state(m->slots[i]) != STATE_FAILED) /* /v1/pools tells of those */
            write_openai(w, m->slots[i], owner);
    json_arr_end(w);
    json_obj_end(w);
    pthread_mutex_unlock(&m->lock);
}

bool models_openai_one(struct models *m, const char *name, struct json_out *w, struct err *err)
{
    pthread_mutex_lock(&m->lock);
    const struct model_slot *s = names_find(m, name);
    bool there = s && slot_state(s) != STATE_FAILED;
    if (there)
        write_openai(w, s, "stoker");
    else if (s && s->error.code)
        *err = s->error;
    else
        (void)err_set(err, RC_NODEV, "no model is called '%.200s'", name);
    pthread_mutex_unlock(&m->lock);
    return there;
}

static void write_pool(struct json_out *w, const struct models *m, const struct pool *p)
{
    json_obj(w);
    json_kv_str(w, "name", p->name);
    kv_uint(w, "bytes", p->bytes);
    kv_uint(w, "used_bytes", p->used);
    json_kv_str(w, "priority", priority_names[p->priority]);
    json_kv_arr(w, "models");
    for (const struct version *v = m->living; v; v = v->next) {
        if (v->pool != p)
            continue;
        json_obj(w);
        json_kv_str(w, "name", v->s.name);
        kv_uint(w, "bytes", v->s.bytes);
        json_kv_str(w, "state", models_state_name(v->slot ? STATE_READY : STATE_LEAVING));
        json_obj_end(w);
    }
    json_arr_end(w);
    json_obj_end(w);
}

void pools_json(struct models *m, struct json_out *w)
{
    pthread_mutex_lock(&m->lock);
    json_arr(w);
    for (size_t i = 0; i < m->pool_count; i++)
        write_pool(w, m, &m->pools[i]);
    json_arr_end(w);
    pthread_mutex_unlock(&m->lock);
}
