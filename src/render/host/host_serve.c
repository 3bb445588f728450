/* SPDX-License-Identifier: MIT */
/* host_serve: a spec for one `stoker serve`: the models of one component, or those of the machine's
 * own server, with the pools they name and the limits of the server.
 *
 * `stoker serve` takes every model of the spec it is given; here each serving component gets its
 * own.  The machine's own server has the models that name no component.  Where each names one, it
 * is the other way to run those of the machine's components, all in one process.  What a component
 * of another target serves is never its: two servers would load it.  A model whose spec leaves the
 * device to us goes onto the GPUs of its component. */
#include "base/str.h"
#include "render/host/host_int.h"

#include <inttypes.h>
#include <stdio.h>

#define TEXT_(id, text) [SPEC_##id] = (text),
static const char *const kinds[] = { SPEC_MODEL_KINDS(TEXT_) };
static const char *const devices[] = { SPEC_DEVICES(TEXT_) };
static const char *const dtypes[] = { SPEC_DTYPES(TEXT_) };
static const char *const poolings[] = { SPEC_POOLINGS(TEXT_) };
static const char *const priorities[] = { SPEC_PRIORITIES(TEXT_) };
static const char *const patterns[] = { SPEC_PATTERNS(TEXT_) };

struct out { /* one spec that is being written */
    const struct render *r;
    const struct host_plan *plan;
    const struct host_run *run; /* NULL: the machine's own server */
    bool whole;                 /* beside everything else of the spec */
    struct yaml_out y;
};

bool host_model_of(const struct spec_model *m, const struct host_run *run)
{
    return str_eq(m->component, run->c->name);
}

bool host_models_loose(const struct spec *s)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (!s->models[i].component)
            return true;
    return false;
}

bool host_models_own(const struct spec *s, const struct host_plan *p, const struct spec_model *m)
{
    const struct host_run *run = host_run_find(p, m->component);

    return host_models_loose(s) ? !m->component : run && host_is_server(run->c);
}

static bool has_model(const struct out *o, const struct spec_model *m)
{
    if (o->run)
        return host_model_of(m, o->run);
    return o->whole || host_models_own(o->r->spec, o->plan, m);
}

static bool is_set(const struct out *o, const void *member)
{
    return spec_where(o->r->spec, member).line != 0;
}

static void put_str(struct out *o, const char *key, const char *value, const void *member)
{
    if (!value || !is_set(o, member))
        return;
    render_str(o->r, &o->y, key, value, member);
}

static void put_bytes(struct out *o, const char *key, int64_t bytes, const void *member)
{
    char text[UNITS_TEXT_MAX];

    if (is_set(o, member))
        put_str(o, key, units_bytes_exact((uint64_t)bytes, text), member);
}

static void put_int(struct out *o, const char *key, struct maybe m, const void *member)
{
    if (!m.known || !is_set(o, member))
        return;
    render_int(o->r, &o->y, key, m.v, member);
}

static void put_bool(struct out *o, const char *key, bool v, const void *member)
{
    if (!is_set(o, member))
        return;
    yaml_note(&o->y, render_from(o->r, member));
    yaml_bool(&o->y, key, v);
}

static void put_ms(struct out *o, const char *key, int64_t ms, const void *member)
{
    char text[UNITS_TEXT_MAX];

    if (is_set(o, member))
        put_str(o, key, units_duration_exact((uint64_t)ms, text), member);
}

/* The machine as this server sees it: a run sees only its own GPUs. */
static void put_nodes(struct out *o)
{
    const struct spec_node *n = o->run ? o->run->node : spec_node_of(o->r->spec, NULL);
    char text[UNITS_TEXT_MAX];
    int64_t gpus;

    for (size_t i = 0; !n && i < o->plan->count; i++)
        if (host_is_server(o->plan->runs[i].c))
            n = o->plan->runs[i].node;
    if (!n)
        return;
    gpus = o->run ? host_gpu_count(o->run->gpus) : n->gpus_per_node;
    yaml_open(&o->y, "nodes[]");
    yaml_str(&o->y, "name", n->name);
    yaml_int(&o->y, "gpus_per_node", gpus);
    if (n->gpu && gpus) {
        yaml_map(&o->y, "gpu");
        yaml_str(&o->y, "model", n->gpu->model);
        if (n->gpu->memory_bytes.known)
            yaml_str(&o->y, "memory", units_bytes_exact((uint64_t)n->gpu->memory_bytes.v, text));
        yaml_end(&o->y);
    }
    yaml_ends(&o->y, 2);
}

static bool pool_used(const struct out *o, const struct spec_pool *p)
{
    for (size_t i = 0; i < o->r->spec->model_count; i++) {
        const struct spec_model *m = &o->r->spec->models[i];

        if (has_model(o, m) && str_eq(m->pool, p->name))
            return true;
    }
    return false;
}

/* Where it runs: what the spec says; else on the GPUs of its component, which a server of its own
 * counts from 0. */
static void put_device(struct out *o, const struct spec_model *m)
{
    const struct host_run *run = o->run ? o->run : host_run_find(o->plan, m->component);
    uint32_t gpus = run ? run->gpus : 0;
    struct buf list = { 0 };

    put_str(o, "device", devices[m->device], &m->device);
    if (m->gpus || m->device != SPEC_DEVICE_AUTO || spec_model_on_cpu(o->r->spec, m) || !gpus) {
        put_str(o, "gpus", m->gpus, &m->gpus);
        return;
    }
    host_gpu_list(&list, o->run ? (1U << host_gpu_count(gpus)) - 1 : gpus);
    yaml_note(&o->y, "the GPUs of its component");
    yaml_str(&o->y, "gpus", buf_str(&list));
    buf_release(&list);
}

static void put_texts(struct out *o, const struct spec_model *m)
{
    if (m->aliases.count) {
        yaml_note(&o->y, render_from(o->r, &m->aliases));
        yaml_strs(&o->y, "aliases", &m->aliases);
    }
    if (!m->prompts.count)
        return;
    yaml_map(&o->y, "prompts");
    for (size_t i = 0; i < m->prompts.count; i++)
        yaml_str(&o->y, m->prompts.items[i].key, m->prompts.items[i].value);
    yaml_end(&o->y);
}

static void put_model(struct out *o, const struct spec_model *m)
{
    struct arena a = { 0 };

    yaml_map(&o->y, m->name);
    put_str(o, "source", host_model_source(&a, o->plan->models, m), &m->source);
    arena_release(&a);
    put_str(o, "revision", m->revision, &m->revision);
    put_str(o, "kind", kinds[m->kind], &m->kind);
    if (o->whole)
        put_str(o, "component", m->component, &m->component);
    put_device(o, m);
    put_str(o, "dtype", dtypes[m->dtype], &m->dtype);
    put_str(o, "fallback", m->fallback, &m->fallback);
    put_bool(o, "fallback_at_start", m->fallback_at_start, &m->fallback_at_start);
    put_str(o, "load", m->load == SPEC_LOAD_ON_DEMAND ? "on_demand" : "at_start", &m->load);
    put_str(o, "pool", m->pool, &m->pool);
    put_int(o, "batch", m->batch, &m->batch);
    put_int(o, "batch_tokens", m->batch_tokens, &m->batch_tokens);
    put_int(o, "max_tokens", m->max_tokens, &m->max_tokens);
    if (m->memory_bytes.known)
        put_bytes(o, "memory", m->memory_bytes.v, &m->memory_bytes);
    put_bool(o, "normalize", m->normalize, &m->normalize);
    put_str(o, "pooling", poolings[m->pooling], &m->pooling);
    put_str(o, "priority", priorities[m->priority], &m->priority);
    put_texts(o, m);
    yaml_end(&o->y);
}

static void put_models(struct out *o)
{
    yaml_map(&o->y, "models");
    for (size_t i = 0; i < o->r->spec->model_count; i++)
        if (has_model(o, &o->r->spec->models[i]))
            put_model(o, &o->r->spec->models[i]);
    yaml_end(&o->y);
}

void host_batch_dir(const struct spec_serve *v, const struct host_run *run, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%s%s%s", v->batch_dir, run ? "/" : "", run ? run->c->name : "");
}

static void put_serve(struct out *o)
{
    const struct spec_serve *v = &o->r->spec->serve;
    char dir[HOST_BATCH_DIR_MAX];

    yaml_map(&o->y, "serve");
    put_str(o, "listen", v->listen, &v->listen);
    put_int(o, "port", maybe_of(v->port), &v->port);
    put_int(o, "rerank_port", maybe_of(v->rerank_port), &v->rerank_port);
    put_str(o, "token_file", v->token_file, &v->token_file);
    put_str(o, "admin_token_file", v->admin_token_file, &v->admin_token_file);
    if (v->allow_origin.count && is_set(o, &v->allow_origin)) {
        yaml_note(&o->y, render_from(o->r, &v->allow_origin));
        yaml_seq(&o->y, "allow_origin");
        for (size_t i = 0; i < v->allow_origin.count; i++)
            yaml_str(&o->y, NULL, v->allow_origin.items[i]);
        yaml_end(&o->y);
    }
    put_str(o, "tls_cert", v->tls_cert, &v->tls_cert);
    put_str(o, "tls_key", v->tls_key, &v->tls_key);
    put_int(o, "items_max", maybe_of(v->items_max), &v->items_max);
    put_bytes(o, "body_max", v->body_bytes_max, &v->body_bytes_max);
    put_bytes(o, "text_max", v->text_bytes_max, &v->text_bytes_max);
    put_bytes(o, "calls_max", v->calls_bytes_max, &v->calls_bytes_max);
    put_int(o, "queue_max", maybe_of(v->queue_max), &v->queue_max);
    put_int(o, "connections_max", maybe_of(v->connections_max), &v->connections_max);
    put_int(o, "users_max", maybe_of(v->users_max), &v->users_max);
    put_ms(o, "timeout", v->timeout_ms, &v->timeout_ms);
    put_ms(o, "timeout_max", v->timeout_max_ms, &v->timeout_max_ms);
    put_ms(o, "body_total_timeout", v->body_total_ms, &v->body_total_ms);
    put_ms(o, "batch_time", v->batch_ms, &v->batch_ms);
    put_bool(o, "any_model", v->any_model, &v->any_model);
    /* A folder has one server: each component's is below the one that is named. */
    if (v->batch_dir) {
        host_batch_dir(v, o->run, dir, sizeof(dir));
        put_str(o, "batch_dir", dir, &v->batch_dir);
    }
    put_bytes(o, "batch_size", v->batch_bytes_max, &v->batch_bytes_max);
    put_ms(o, "batch_expiry", v->batch_expiry_ms, &v->batch_expiry_ms);
    put_ms(o, "drain", v->drain_ms, &v->drain_ms);
    put_bytes(o, "cache", v->cache_bytes, &v->cache_bytes);
    yaml_end(&o->y);
}

void host_serve_models(const struct render *r, const struct host_plan *p, struct buf *out)
{
    struct out o = { .r = r, .plan = p, .whole = true };
    struct buf doc = { 0 };

    yaml_begin(&o.y, &doc);
    put_models(&o);
    yaml_finish(&o.y);
    buf_add(out, buf_str(&doc), doc.len);
    buf_release(&doc);
}

void host_serve_spec(const struct render *r, const struct host_plan *p, const struct host_run *run,
                     struct buf *out)
{
    struct out o = { .r = r, .plan = p, .run = run };
    struct buf doc = { 0 };

    render_head(r, out, "#", "Models of one `stoker serve`.");
    yaml_begin(&o.y, &doc);
    yaml_str(&o.y, "schema", "stoker.spec/1");
    put_nodes(&o);
    yaml_map(&o.y, "pools");
    for (size_t i = 0; i < o.r->spec->pool_count; i++) {
        const struct spec_pool *pool = &o.r->spec->pools[i];

        if (!pool_used(&o, pool))
            continue;
        yaml_map(&o.y, pool->name);
        put_bytes(&o, "size", pool->size_bytes, &pool->size_bytes);
        put_str(&o, "device", pool->device == SPEC_POOL_CPU ? "cpu" : "gpu", &pool->device);
        put_str(&o, "priority", priorities[pool->priority], &pool->priority);
        put_str(&o, "access", patterns[pool->access], &pool->access);
        if (!o.run)
            put_str(&o, "gpus", pool->gpus, &pool->gpus);
        yaml_end(&o.y);
    }
    yaml_end(&o.y);
    put_models(&o);
    put_serve(&o);
    yaml_finish(&o.y);
    buf_add(out, buf_str(&doc), doc.len);
    buf_release(&doc);
}
