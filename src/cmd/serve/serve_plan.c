/* SPDX-License-Identifier: MIT */
/* serve_plan: what to serve and how: the spec first, then options, which win. */
#include "cmd/serve/cmd_serve_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "cmd/model/cmd_model_int.h"
#include "os/file.h"

#include <assert.h>
#include <limits.h>

/* The folder of the next model. */
static enum rc find_model(struct serve_plan *p, const struct cmd_ctx *ctx, const char *source,
                          const char *revision, struct err *err)
{
    char *out = p->dirs[p->o.model_count];
    size_t cap = sizeof(p->dirs[0]);

    return model_find_or_fetch(p->fetch ? ctx : NULL, source, revision, out, cap, err);
}

/* ---- from the spec */

static enum models_priority priority_of(enum spec_priority p)
{
    return p == SPEC_PRIORITY_HIGH  ? MODELS_HIGH
           : p == SPEC_PRIORITY_LOW ? MODELS_LOW
                                    : MODELS_MEDIUM;
}

/* "FILE:LINE:COLUMN: " and the message of `err`. */
static enum rc at_spec(const struct serve_plan *p, const void *member, struct err *err)
{
    struct spec_pos at = spec_where(p->spec, member);

    return err_ctx(err, "%.400s:%d:%d", spec_file(p->spec), at.line, at.col);
}

static enum eng_dtype dtype_of(const struct spec_model *m)
{
    static const enum eng_dtype types[] = {
        [SPEC_DTYPE_AUTO] = ENG_AUTO, [SPEC_DTYPE_F32] = ENG_F32, [SPEC_DTYPE_F16] = ENG_F16,
        [SPEC_DTYPE_BF16] = ENG_BF16, [SPEC_DTYPE_INT8] = ENG_I8, [SPEC_DTYPE_FP8] = ENG_FP8
    };

    return types[m->dtype];
}

/* f16 and fp8 are for GPUs; an option may choose another device or type. */
static enum rc check_dtype(const struct serve_plan *p, const struct spec_model *m,
                           const char *device, struct err *err)
{
    if ((m->dtype != SPEC_DTYPE_F16 && m->dtype != SPEC_DTYPE_FP8) ||
        (device && str_starts(device, "cuda")))
        return RC_OK;
    err_hint(err, "bf16 is as small as f16 on a CPU, and auto chooses by the device.");
    (void)err_set(err, RC_USAGE, "model '%s': device '%s' does not compute in %s", m->name,
                  device ? device : "cpu", eng_dtype_name(dtype_of(m)));
    return at_spec(p, &m->dtype, err);
}

/* Devices of the plug-in for GPUs, as a list of names; `gpus` NULL: all there are. */
static enum rc gpus_of(const struct serve_plan *p, const struct spec_model *m, char *out,
                       size_t cap, struct err *err)
{
    const void *member = m->gpus ? (const void *)&m->gpus : (const void *)&m->device;
    const struct eng_ops *ops = NULL;
    size_t used = 0, have, count = 0;

    if (eng_find_in(p->o.workers, "cuda", &ops, err)) {
        (void)err_ctx(err, "model '%s' wants a GPU", m->name);
        return at_spec(p, member, err);
    }
    have = eng_ops_count(ops);
    for (int64_t i = 0; i < SERVE_GPU_INDEX_MAX; i++) {
        if (m->gpus ? !spec_range_has(m->gpus, i) : (size_t)i >= have)
            continue;
        if ((size_t)i >= have || ++count > MODELS_REPLICAS_MAX) {
            (void)err_set(err, RC_NODEV, "model '%s' wants GPU %d: %s %zu", m->name, (int)i,
                          (size_t)i >= have ? "the number of GPUs here is"
                                            : "one model takes at most",
                          (size_t)i >= have ? have : (size_t)MODELS_REPLICAS_MAX);
            return at_spec(p, member, err);
        }
        used += (size_t)snprintf(out + used, cap - used, "%scuda:%d", used ? "," : "", (int)i);
    }
    return RC_OK;
}

static enum rc device_of(struct serve_plan *p, size_t i, const struct spec_model *m,
                         struct err *err)
{
    bool gpu = m->device == SPEC_DEVICE_GPU || m->gpus, cpu = spec_model_on_cpu(p->spec, m);

    static_assert(MODELS_REPLICAS_MAX * 12 < SERVE_DEVICES_BYTES_MAX, "a list has room");
    if (cpu || !gpu) {
        p->models[i].device = cpu ? "cpu" : NULL;
        return RC_OK;
    }
    p->models[i].device = p->devices[i];
    return gpus_of(p, m, p->devices[i], sizeof(p->devices[i]), err);
}

/* The hub's cache names a folder after its commit: snapshots/COMMIT.  Others do not say it. */
static enum rc revision_of(struct serve_plan *p, const struct spec_model *m, const char *dir,
                           struct err *err)
{
    static const char mark[] = "/snapshots/";
    char path[PATH_MAX];
    const char *at = m->revision && realpath(dir, path) ? strstr(path, mark) : NULL;
    struct hub_name name;

    if (hub_name_parse(m->source, &name) && !file_is_dir(m->source))
        return RC_OK; /* it was looked up by its revision */
    if (m->revision && !at)
        log_warn("model '%s': '%s' does not tell its commit, so revision '%s' was not checked",
                 m->name, dir, m->revision);
    if (!at || str_starts(at + sizeof(mark) - 1, m->revision))
        return RC_OK;
    (void)err_set(err, RC_USAGE, "model '%s': folder '%s' holds commit %.40s, not '%s'", m->name,
                  dir, at + sizeof(mark) - 1, m->revision);
    return at_spec(p, &m->revision, err);
}

/* Options go before the file. */
static void options_win(struct serve_model *o, const struct serve_args *a)
{
    (void)eng_dtype_parse(a->dtype, &o->dtype); /* the option has a list of choices */
    o->device = a->device ? a->device : o->device;
    o->fallback = a->fallback ? a->fallback : o->fallback;
    o->fallback_at_start |= a->fallback_at_start;
    o->invariant |= a->invariant;
    o->threads = a->threads ? (int)a->threads : o->threads;
    o->batch_tokens = a->batch_tokens ? (size_t)a->batch_tokens : o->batch_tokens;
}

static enum rc model_of_spec(struct serve_plan *p, const struct spec_model *m,
                             const struct cmd_ctx *ctx, struct err *err)
{
    const struct serve_args *a = ctx->opts;
    size_t i = p->o.model_count;
    struct serve_model *o = &p->models[i];
    static const char *const kinds[] = { [SPEC_MODEL_EMBEDDING] = "embedding",
                                         [SPEC_MODEL_RERANK] = "reranker",
                                         [SPEC_MODEL_CLASSIFY] = "classifier" };

    if (i >= MODELS_MAX)
        return err_set(err, RC_LIMIT, "more than %d models", MODELS_MAX);
    if (find_model(p, ctx, m->source, m->revision, err)) {
        (void)err_ctx(err, "model '%s'", m->name);
        return at_spec(p, &m->source, err);
    }
    if ((!a->device && device_of(p, i, m, err)) ||
        (!a->dtype && check_dtype(p, m, a->device ? a->device : o->device, err)) ||
        revision_of(p, m, p->dirs[i], err))
        return err->code;
    p->of_spec[i] = m;
    *o = (struct serve_model){ .name = m->name,
                               .dir = p->dirs[i],
                               .device = o->device,
                               .dtype = a->dtype ? ENG_AUTO : dtype_of(m),
                               .fallback = str_eq(m->fallback, "auto") ? NULL : m->fallback,
                               .fallback_at_start = m->fallback_at_start,
                               .on_demand = m->load == SPEC_LOAD_ON_DEMAND,
                               .pool = m->pool,
                               .kind = kinds[m->kind],
                               .batch_texts = (size_t)maybe_or(m->batch, 0),
                               .priority = priority_of(m->priority),
                               .batch_tokens = (size_t)maybe_or(m->batch_tokens, 0),
                               .max_tokens = (size_t)maybe_or(m->max_tokens, 0),
                               .memory_bytes = (uint64_t)maybe_or(m->memory_bytes, 0) };
    for (size_t k = 0; k < m->aliases.count && k < MODELS_ALIASES_MAX; k++)
        o->aliases[o->alias_count++] = m->aliases.items[k];
    p->prompts[i] = xcalloc(m->prompts.count ? m->prompts.count : 1, sizeof(*p->prompts[i]));
    for (size_t k = 0; k < m->prompts.count; k++)
        p->prompts[i][k] =
            (struct model_prompt){ m->prompts.items[k].key, m->prompts.items[k].value };
    o->prompts = p->prompts[i];
    o->prompt_count = m->prompts.count;
    /* What the file says of vectors; what it does not say is the model's and the APIs' affair. */
    static const char *const poolings[] = {
        [SPEC_POOLING_MEAN] = "mean", [SPEC_POOLING_CLS] = "cls", [SPEC_POOLING_LAST] = "last"
    };
    o->pooling = m->pooling == SPEC_POOLING_AUTO ? NULL : poolings[m->pooling];
    if (spec_where(p->spec, &m->normalize).line)
        o->normalize = m->normalize ? SERVE_YES : SERVE_NO;
    options_win(o, a);
    p->o.model_count++;
    return RC_OK;
}

static void serve_of_spec(struct serve_plan *p, const struct spec_serve *s)
{
    p->o.listen = s->listen;
    p->o.ports[0] = (int)s->port;
    p->o.ports[1] = (int)s->rerank_port;
    p->o.items_max = (size_t)s->items_max;
    p->o.body_bytes_max = (size_t)s->body_bytes_max;
    p->o.queue_requests_max = (size_t)s->queue_max;
    if (spec_where(p->spec, &s->connections_max).line) /* else as many as the machine can hold */
        p->o.connections_max = (size_t)s->connections_max;
    p->o.timeout_ms = (int)s->timeout_ms;
    p->o.drain_ms = s->drain_ms ? (int)s->drain_ms : 1; /* 0 would be the default */
    p->o.timeout_max_ms = (int)s->timeout_max_ms;
    p->o.batch_ms = (int)s->batch_ms;
    p->o.body_total_ms = (int)s->body_total_ms;
    p->o.text_bytes_max = (size_t)s->text_bytes_max;
    p->o.calls_bytes_max = (size_t)s->calls_bytes_max;
    p->o.any_model = s->any_model;
    p->o.batch_dir = s->batch_dir;
    p->o.batch_bytes_max = (uint64_t)s->batch_bytes_max;
    p->o.batch_expiry_s = s->batch_expiry_ms / 1000;
    p->o.cache_bytes = (uint64_t)s->cache_bytes;
    p->o.tls_cert = s->tls_cert;
    p->o.tls_key = s->tls_key;
}

static enum rc from_spec(struct serve_plan *p, const char *path, struct cmd_ctx *ctx,
                         struct err *err)
{
    enum rc rc = cmd_spec_load(ctx, path, &p->spec, err);

    if (rc != RC_OK)
        return rc;
    serve_of_spec(p, &p->spec->serve);
    for (size_t i = 0; i < p->spec->pool_count && i < POOLS_MAX; i++)
        p->pools[p->o.pool_count++] =
            (struct serve_pool){ p->spec->pools[i].name, (uint64_t)p->spec->pools[i].size_bytes,
                                 priority_of(p->spec->pools[i].priority) };
    for (size_t i = 0; rc == RC_OK && i < p->spec->model_count; i++)
        rc = model_of_spec(p, &p->spec->models[i], ctx, err);
    return rc;
}

/* ---- from options */

static enum rc model_of_arg(struct serve_plan *p, const char *arg, const struct cmd_ctx *ctx,
                            struct err *err)
{
    size_t i = p->o.model_count;
    const char *eq = strchr(arg, '='), *dir = eq ? eq + 1 : arg, *base;
    bool of_hub;

    if (i >= MODELS_MAX)
        return err_set(err, RC_LIMIT, "more than %d models", MODELS_MAX);
    if (find_model(p, ctx, dir, NULL, err))
        return err->code;
    for (size_t n = strlen(p->dirs[i]); n > 1 && p->dirs[i][n - 1] == '/'; n--)
        p->dirs[i][n - 1] = '\0';
    of_hub = !file_is_dir(dir) && hub_name_parse(dir, &p->hub[i]); /* NAME, and ORG/NAME too */
    base = strrchr(of_hub ? p->hub[i].repo : p->dirs[i], '/');
    p->names[i] = eq ? xstrndup(arg, (size_t)(eq - arg)) : xstrdup(base ? base + 1 : p->dirs[i]);
    p->models[i] =
        (struct serve_model){ .name = p->names[i], .dir = p->dirs[i], .priority = MODELS_MEDIUM };
    for (size_t k = 0; k < i && of_hub;
         k++) /* two revisions of one model: the first has the name */
        of_hub = !str_eq(p->hub[k].repo, p->hub[i].repo);
    if (of_hub)
        p->models[i].aliases[p->models[i].alias_count++] = p->hub[i].repo;
    options_win(&p->models[i], ctx->opts);
    p->o.model_count++;
    return RC_OK;
}

/* One that the spec has too gets this size. */
static enum rc pool_of_arg(struct serve_plan *p, size_t n, const char *arg, struct err *err)
{
    const char *eq = strchr(arg, '=');
    uint64_t bytes;
    size_t at = 0;

    if (units_bytes_parse(eq ? eq + 1 : arg, &bytes, err))
        return err_ctx(err, "--pool");
    if (!bytes)
        return err_set(err, RC_USAGE, "--pool: '%s' holds no model", arg);
    p->pool_names[n] = eq ? xstrndup(arg, (size_t)(eq - arg)) : xstrdup("default");
    while (at < p->o.pool_count && !str_eq(p->pools[at].name, p->pool_names[n]))
        at++;
    if (at == POOLS_MAX)
        return err_set(err, RC_LIMIT, "more than %d pools", POOLS_MAX);
    if (at == p->o.pool_count)
        p->pools[p->o.pool_count++] =
            (struct serve_pool){ .name = p->pool_names[n], .priority = MODELS_MEDIUM };
    p->pools[at].bytes = bytes;
    return RC_OK;
}

/* Which models wait for a request, and which for room. */
static enum rc loads_of_args(struct serve_plan *p, const struct serve_args *a, struct err *err)
{
    for (size_t i = 0; i < p->o.model_count; i++)
        p->models[i].may_wait = true;
    for (size_t i = 0; i < a->on_demand.count; i++) {
        const char *name = a->on_demand.items[i];
        bool found = str_eq(name, "*");

        for (size_t k = 0; k < p->o.model_count; k++)
            if (str_eq(name, "*") || str_eq(name, p->models[k].name))
                found = p->models[k].on_demand = true;
        if (!found)
            return err_set(err, RC_USAGE, "--on-demand: there is no model '%s'", name);
    }
    return RC_OK;
}

/* Milliseconds of an option, 1 for none at all (0 is the default's); without it *ms stays. */
static enum rc time_of(const char *arg, const char *name, int *ms, struct err *err)
{
    uint64_t v;

    if (!arg)
        return RC_OK;
    if (units_duration_parse(arg, &v, err))
        return err_ctx(err, "%s", name);
    *ms = v > INT_MAX ? INT_MAX : v ? (int)v : 1;
    return RC_OK;
}

static enum rc sizes_of_args(struct serve_plan *p, const struct serve_args *a, struct err *err)
{
    const struct {
        const char *arg, *name;
        size_t *out, least; /* least 0: the default's */
    } sizes[] = { { a->body, "--body-max", &p->o.body_bytes_max, 0 },
                  { a->text_max, "--text-max", &p->o.text_bytes_max, 1 },
                  { a->calls_max, "--calls-max", &p->o.calls_bytes_max, 1 } };
    uint64_t v;

    if (a->cache && units_bytes_parse(a->cache, &p->o.cache_bytes, err))
        return err_ctx(err, "--cache");
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        if (!sizes[i].arg)
            continue;
        if (units_bytes_parse(sizes[i].arg, &v, err))
            return err_ctx(err, "%s", sizes[i].name);
        *sizes[i].out = v > sizes[i].least ? (size_t)v : sizes[i].least;
    }
    if (a->batch_size && units_bytes_parse(a->batch_size, &p->o.batch_bytes_max, err))
        return err_ctx(err, "--batch-size");
    if (a->batch_expiry) {
        if (units_duration_parse(a->batch_expiry, &v, err))
            return err_ctx(err, "--batch-expiry");
        p->o.batch_expiry_s = v < 1000 ? 1 : (int64_t)(v / 1000);
    }
    if (time_of(a->timeout, "--timeout", &p->o.timeout_ms, err) ||
        time_of(a->timeout_max, "--timeout-max", &p->o.timeout_max_ms, err) ||
        time_of(a->batch_time, "--batch-time", &p->o.batch_ms, err) ||
        time_of(a->drain, "--drain", &p->o.drain_ms, err) ||
        time_of(a->head_timeout, "--head-timeout", &p->o.head_ms, err) ||
        time_of(a->body_timeout, "--body-timeout", &p->o.body_ms, err) ||
        time_of(a->body_total, "--body-total-timeout", &p->o.body_total_ms, err))
        return err->code;
    return RC_OK;
}

static enum rc port_of(const char *arg, int dflt, int *port, struct err *err)
{
    uint64_t v;

    if (!arg) {
        *port = *port ? *port : dflt;
        return RC_OK;
    }
    if (!str_to_u64(arg, 10, &v) || v > 65535)
        return err_set(err, RC_USAGE, "'%s' is not a port: 0 (a free one) to 65535", arg);
    *port = (int)v;
    return RC_OK;
}

/* Sockets that were handed over, and where they listen: of several the one that most can reach. */
static enum rc ports_of_sockets(struct serve_plan *p, struct err *err)
{
    char address[HTTP_ADDRESS_MAX];

    static_assert((int)LISTEN_FDS_MAX <= (int)SERVE_LISTEN_MAX, "all have room");
    for (size_t i = 0; i < p->sockets.count; i++) {
        enum rc rc = http_socket_address(p->sockets.items[i].fd, address, &p->o.ports[i], err);

        if (rc != RC_OK)
            return rc;
        p->o.sockets[i] = p->sockets.items[i].fd;
        if (!i || !http_address_local(address))
            (void)str_copy(p->listen, sizeof(p->listen), address);
    }
    if (p->sockets.count) {
        p->o.socket_count = p->o.port_count = p->sockets.count;
        p->o.listen = p->listen;
    }
    return RC_OK;
}

enum rc serve_plan_keys(struct serve_plan *p, const struct serve_args *a, struct err *err)
{
    const struct spec_serve *of_spec = p->spec ? &p->spec->serve : NULL;
    struct cmd_keys *k = &p->keys;
    enum rc rc;

    k->files[CMD_KEY_CALL] = a->token_file ? a->token_file : of_spec ? of_spec->token_file : NULL;
    k->files[CMD_KEY_ADMIN] = a->admin_token_file ? a->admin_token_file
                              : of_spec           ? of_spec->admin_token_file
                                                  : NULL;
    k->files[CMD_KEY_METRICS] = a->metrics_token_file;
    p->watch.paths[CMD_WATCH_MAX - 2] = p->o.tls_cert;
    p->watch.paths[CMD_WATCH_MAX - 1] = p->o.tls_key;
    rc = cmd_keys_read(k, &p->watch, err);
    p->o.keys = (struct http_keys){ .token = cmd_key(k, CMD_KEY_CALL),
                                    .admin = cmd_key(k, CMD_KEY_ADMIN),
                                    .metrics = cmd_key(k, CMD_KEY_METRICS) };
    return rc;
}

static enum rc from_args(struct serve_plan *p, const struct cmd_ctx *ctx, struct err *err)
{
    const struct serve_args *a = ctx->opts;
    const struct spec_strs *of_spec =
        p->spec && !a->origins.count ? &p->spec->serve.allow_origin : NULL;
    enum rc rc = sizes_of_args(p, a, err);

    p->o.listen = a->listen ? a->listen : p->o.listen;
    p->o.tls_cert = a->tls_cert ? a->tls_cert : p->o.tls_cert;
    p->o.tls_key = a->tls_key ? a->tls_key : p->o.tls_key;
    /* one port when only that was asked for; a socket file has none */
    p->o.port_count =
        (a->port && !a->rerank_port) || (p->o.listen && str_starts(p->o.listen, "unix:")) ? 1 : 2;
    if (rc == RC_OK)
        rc = port_of(a->port, SERVE_PORT, &p->o.ports[0], err);
    if (rc == RC_OK)
        rc = port_of(a->rerank_port, SERVE_PORT_RERANK, &p->o.ports[1], err);
    if (rc == RC_OK)
        rc = ports_of_sockets(p, err);
    p->o.items_max = a->items ? (size_t)a->items : p->o.items_max;
    p->o.connections_max = a->connections ? (size_t)a->connections : p->o.connections_max;
    p->o.frontend_threads = (int)a->frontend_threads;
    p->o.allow_anyone = a->insecure;
    p->o.no_te_metrics = a->no_te_metrics;
    p->o.any_model = p->o.any_model || a->any_model;
    p->o.free_port = a->free_port;
    p->o.access_log = a->access_log;
    p->o.batch_dir = a->batch_dir ? a->batch_dir : p->o.batch_dir;
    for (size_t i = 0; rc == RC_OK && i < a->pools.count; i++)
        rc = pool_of_arg(p, i, a->pools.items[i], err);
    for (size_t i = 0; rc == RC_OK && i < a->models.count; i++)
        rc = model_of_arg(p, a->models.items[i], ctx, err);
    if (rc == RC_OK)
        rc = loads_of_args(p, a, err);
    for (size_t i = 0; of_spec && i < of_spec->count && i < ARGS_REPEAT_MAX; i++)
        p->origins[i] = of_spec->items[i];
    p->o.origins = of_spec ? p->origins : a->origins.items;
    p->o.hosts = a->hosts.items;
    p->o.admin_socket = a->admin_socket;
    if (rc == RC_OK)
        rc = serve_plan_keys(p, a, err);
    if (rc == RC_OK && !p->o.model_count) {
        err_hint(err,
                 "Give -m NAME=DIR, or models in a spec with -f; 'stoker model get' fetches one.");
        rc = err_set(err, RC_USAGE, "no model to serve");
    }
    p->o.models = p->models;
    p->o.pools = p->pools;
    return rc;
}

void serve_plan_free(struct serve_plan *p)
{
    for (size_t i = 0; i < MODELS_MAX; i++) {
        free(p->names[i]);
        free(p->prompts[i]);
    }
    for (size_t i = 0; i < ARGS_REPEAT_MAX; i++)
        free(p->pool_names[i]);
    if (p->spec)
        spec_free(p->spec);
    free(p);
}

static bool same_pools(const struct serve_opts *a, const struct serve_opts *b)
{
    bool same = a->pool_count == b->pool_count;

    for (size_t i = 0; same && i < a->pool_count; i++)
        same = str_eq(a->pools[i].name, b->pools[i].name) &&
               a->pools[i].bytes == b->pools[i].bytes &&
               a->pools[i].priority == b->pools[i].priority;
    return same;
}

void serve_plan_needs_start(const struct serve_plan *p, const struct serve_plan *q, struct buf *out)
{
    const struct serve_opts *a = &p->o, *b = &q->o;
    const struct {
        const char *name;
        bool differs;
    } rows[] = {
        { "pools", !same_pools(a, b) },
        { "addresses and ports",
          !str_eq(a->listen, b->listen) || a->port_count != b->port_count ||
              memcmp(a->ports, b->ports, a->port_count * sizeof(*a->ports)) != 0 },
        { "token and TLS files", !a->keys.token != !b->keys.token ||
                                     !str_eq(a->tls_cert, b->tls_cert) ||
                                     !str_eq(a->tls_key, b->tls_key) },
        { "limits",
          a->items_max != b->items_max || a->body_bytes_max != b->body_bytes_max ||
              a->text_bytes_max != b->text_bytes_max || a->calls_bytes_max != b->calls_bytes_max ||
              a->connections_max != b->connections_max ||
              a->queue_requests_max != b->queue_requests_max || a->timeout_ms != b->timeout_ms ||
              a->timeout_max_ms != b->timeout_max_ms || a->batch_ms != b->batch_ms ||
              a->drain_ms != b->drain_ms || a->head_ms != b->head_ms || a->body_ms != b->body_ms ||
              a->body_total_ms != b->body_total_ms || a->cache_bytes != b->cache_bytes },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i].differs)
            buf_addf(out, "%s%s", out->len ? ", " : "", rows[i].name);
}

enum rc serve_plan_device_ms(const struct serve_args *a, int *out, struct err *err)
{
    *out = 0;
    return time_of(a->device_timeout, "--device-timeout", out, err);
}

enum rc serve_plan_make(struct cmd_ctx *ctx, struct workers *w, const struct listen_fds *sockets,
                        bool fetch, struct serve_plan **out, struct err *err)
{
    const struct serve_args *a = ctx->opts;
    struct serve_plan *p = xcalloc(1, sizeof(*p));
    enum rc rc = RC_OK;

    p->o.workers = w;
    p->sockets = *sockets;
    p->fetch = fetch;
    if (a->spec)
        rc = from_spec(p, a->spec, ctx, err);
    if (rc == RC_OK)
        rc = from_args(p, ctx, err);
    if (rc != RC_OK) {
        serve_plan_free(p);
        return rc;
    }
    *out = p;
    return RC_OK;
}
