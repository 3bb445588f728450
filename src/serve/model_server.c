/* SPDX-License-Identifier: MIT */
/* serve: starts the parts in the order in which each needs the one before, and stops them in
 * the other order.
 *
 *     metrics ─ sched (device queues) ─ models ─ frontend ─ http       start
 *     http stops listening ─ calls are answered ─ device queues end    stop */
#include "serve/serve.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/worker/worker.h"
#include "os/clock.h"
#include "serve/admin/admin_int.h"
#include "serve/admin/device_metrics_int.h"
#include "serve/admin/loads_int.h"
#include "serve/bulk/bulk_int.h"
#include "serve/serve_int.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>

enum { SERVE_TICK_MS = 200, SERVE_TIMEOUT_DEFAULT_MS = 30000, SERVE_DRAIN_DEFAULT_MS = 30000 };

struct api_row { /* the argument of a table's row */
    struct serve *s;
    const struct serve_route *api;
};

struct serve_priv {
    struct http_route *routes; /* owned */
    struct api_row *api_rows;  /* owned */
    size_t route_count;
    struct http_route *streamed; /* owned */
    size_t streamed_count;
    pthread_t ticker;
    bool ticking;
    pthread_mutex_t lock;
    pthread_cond_t tick, change;
    bool stop;
    struct devices *devices;
    char *tls_cert, *tls_key, *listen, *batch_dir; /* owned */
};

/* ---- routes */

static void on_api_request(void *arg, struct http_exchange *x)
{
    const struct api_row *r = arg;

    frontend_take(r->s->frontend, r->api, x); /* while it stops too: its connection was accepted */
}

/* Appends a table that ends with a row without a path, each row with the server as argument. */
static void add_routes(struct serve *s, struct http_route **routes, size_t *count,
                       const struct http_route *table)
{
    for (; table->path; table++) {
        *routes = xreallocarray(*routes, *count + 1, sizeof(**routes));
        (*routes)[*count] = *table;
        (*routes)[(*count)++].arg = s;
    }
}

static void make_routes(struct serve *s)
{
    struct serve_priv *priv = s->priv;
    size_t apis = 0;

    while (api_at(apis))
        apis++;
    priv->route_count = apis;
    priv->routes = xcalloc(priv->route_count, sizeof(*priv->routes));
    priv->api_rows = xcalloc(apis ? apis : 1, sizeof(*priv->api_rows));
    for (size_t i = 0; i < apis; i++) {
        priv->api_rows[i] = (struct api_row){ s, api_at(i) };
        priv->routes[i] = (struct http_route){ .method = HTTP_POST,
                                               .path = api_at(i)->path,
                                               .run = on_api_request,
                                               .arg = &priv->api_rows[i] };
    }
    add_routes(s, &priv->routes, &priv->route_count, admin_routes);
    add_routes(s, &priv->routes, &priv->route_count, loads_routes);
    add_routes(s, &priv->routes, &priv->route_count, bulk_routes);
    add_routes(s, &priv->streamed, &priv->streamed_count, bulk_streamed_routes);
}

/* Errors that the HTTP server finds itself look like those of the route they hit. */
static void error_body(void *arg, const char *path, int status, const char *why, struct buf *out)
{
    const struct serve *s = arg;
    const struct serve_route *api = path ? api_find(path) : NULL;
    struct request_fault f = { .kind = status >= 500 ? FAULT_BACKEND : FAULT_INVALID,
                               .status = status };

    if (status == 413) /* of a body alone */
        (void)fault_set(&f, f.kind, NULL, "the body is longer than %zu bytes (--body-max)",
                        s->o.body_bytes_max);
    else
        (void)fault_set(&f, f.kind, NULL, "%s", why);
    (void)api_error(api ? api->family : API_OPENAI, &f, out);
}

/* ---- time and changes */

static void *tick_main(void *arg)
{
    struct serve *s = arg;
    struct serve_priv *priv = s->priv;

    pthread_mutex_lock(&priv->lock);
    while (!priv->stop) {
        (void)clock_cond_wait(&priv->tick, &priv->lock,
                              clock_mono_ns() + SERVE_TICK_MS * 1000000LL);
        pthread_mutex_unlock(&priv->lock);
        frontend_wake_parked(s->frontend); /* their deadlines pass too */
        loads_look(s);
        pthread_mutex_lock(&priv->lock);
    }
    pthread_mutex_unlock(&priv->lock);
    return NULL;
}

static void on_model_change(void *arg, const char *name)
{
    struct serve *s = arg;
    struct err err = { 0 };
    bool away = false;

    (void)models_all_ready(s->models); /* the command tells of those that fail at the start */
    if (models_news(s->models, name, &err, &away))
        log_warn("%s%s", err.msg, away ? "; it waits for room" : "");
    stats_expect_model(s->stats, name);
    sched_expect_model(s->sched, name);
    if (s->frontend)
        frontend_wake_parked(s->frontend);
    loads_look(s);
}

/* ---- starting */

void serve_defaults(struct serve_opts *o)
{
    o->items_max = o->items_max ? o->items_max : SERVE_ITEMS_DEFAULT;
    o->body_bytes_max = o->body_bytes_max ? o->body_bytes_max : HTTP_BODY_BYTES_DEFAULT;
    o->calls_bytes_max = o->calls_bytes_max ? o->calls_bytes_max : SERVE_CALLS_BYTES_DEFAULT;
    o->connections_max = o->connections_max ? o->connections_max : HTTP_CONNECTIONS_DEFAULT;
    o->queue_tokens_max = o->queue_tokens_max ? o->queue_tokens_max : SCHED_QUEUE_TOKENS_DEFAULT;
    o->queue_requests_max =
        o->queue_requests_max ? o->queue_requests_max : SCHED_QUEUE_REQUESTS_DEFAULT;
    o->timeout_ms = o->timeout_ms ? o->timeout_ms : SERVE_TIMEOUT_DEFAULT_MS;
    o->timeout_max_ms = o->timeout_max_ms ? o->timeout_max_ms : SERVE_TIMEOUT_MAX_DEFAULT_MS;
    if (o->timeout_max_ms < o->timeout_ms)
        o->timeout_max_ms = o->timeout_ms;
    o->batch_ms = o->batch_ms ? o->batch_ms : SCHED_BATCH_MS_DEFAULT;
    o->drain_ms = o->drain_ms ? o->drain_ms : SERVE_DRAIN_DEFAULT_MS;
}

static void take_opts(struct serve *s, const struct serve_opts *o)
{
    struct serve_priv *priv = s->priv;

    s->o = *o;
    priv->listen = xstrdup(o->listen ? o->listen : "127.0.0.1");
    priv->tls_cert = o->tls_cert ? xstrdup(o->tls_cert) : NULL;
    priv->tls_key = o->tls_key ? xstrdup(o->tls_key) : NULL;
    priv->batch_dir = o->batch_dir ? xstrdup(o->batch_dir) : NULL;
    serve_defaults(&s->o);
    s->o.connections_max = o->connections_max; /* 0: the HTTP server takes what there can be */
    s->o.models = NULL;                        /* borrowed for the start alone */
    s->o.pools = NULL;
    s->o.batch_dir = priv->batch_dir;
}

/* Anyone who can reach the port can use the machine: beyond loopback a token is needed. */
static enum rc check_open(const struct serve_opts *o, struct err *err)
{
    const char *a = o->listen ? o->listen : "127.0.0.1";

    if (http_address_local(a) || o->keys.token || o->allow_anyone)
        return RC_OK;
    err_hint(err, "Give --token-file, or --insecure if every host that reaches it may use it.");
    return err_set(err, RC_USAGE, "refusing to listen on '%s' without a token", a);
}

static size_t frontend_threads(const struct serve_opts *o)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 2;

    n = o->frontend_threads ? o->frontend_threads : n < 2 ? 2 : n > 8 ? 8 : n;
    return (size_t)(n > SERVE_FRONTEND_THREADS_MAX ? SERVE_FRONTEND_THREADS_MAX : n);
}

static void on_log_trouble(void *arg, const char *path, const char *why, uint64_t lost)
{
    (void)arg;
    if (why)
        log_warn("could not write access log '%s': %s; requests go on without it", path, why);
    else
        log_info("access log '%s' is written again; %" PRIu64 " %s missing in it", path, lost,
                 lost == 1 ? "request is" : "requests are");
}

static enum rc start_log(struct serve *s, const struct serve_opts *o, struct err *err)
{
    struct access_opts ao = { .path = o->access_log,
                              .metrics = s->metrics,
                              .on_trouble = on_log_trouble };

    return o->access_log ? access_open(&ao, &s->access, err) : RC_OK;
}

/* At the start there is time to hear what a plug-in has to say, before anyone can ask us; later
 * that is the loader's affair. */
static enum rc meet_devices(const struct serve_opts *o, struct err *err)
{
    for (size_t i = 0; o->workers && i < o->model_count; i++) {
        const char *list = o->models[i].device;
        const struct eng_ops *ops = NULL;
        char first[WORKER_DEVICE_MAX];

        if (!list || strcspn(list, ",") >= sizeof(first))
            continue;
        (void)snprintf(first, sizeof(first), "%.*s", (int)strcspn(list, ","), list);
        if (eng_find_in(o->workers, first, &ops, err))
            return err_ctx(err, "model '%s'", o->models[i].name);
    }
    return RC_OK;
}

static enum rc start_parts(struct serve *s, const struct serve_opts *o, struct err *err)
{
    struct sched_opts so = { .batch_ns = (int64_t)o->batch_ms * 1000000,
                             .queue_tokens_max = o->queue_tokens_max,
                             .queue_requests_max = o->queue_requests_max,
                             .cache_bytes = o->cache_bytes,
                             .metrics = s->metrics,
                             .te = s->te };
    enum rc rc = start_log(s, o, err);
    if (rc == RC_OK)
        rc = meet_devices(o, err);
    if (rc == RC_OK)
        rc = sched_new(&so, &s->sched, err);
    struct manager_opts mo = { .pools = o->pools,
                               .pool_count = o->pool_count,
                               .metrics = s->metrics,
                               .sched = s->sched,
                               .workers = o->workers,
                               .any_name = o->any_model,
                               .on_change = on_model_change,
                               .arg = s };

    if (rc == RC_OK)
        rc = frontend_new(s, frontend_threads(o), &s->frontend, err);
    if (rc == RC_OK)
        rc = models_new(&mo, &s->models, err);
    for (size_t i = 0; rc == RC_OK && i < o->model_count; i++)
        rc = models_load(s->models, &o->models[i], false, err);
    if (rc == RC_OK)
        rc = bulk_new(s, &s->bulk, err);
    return rc;
}

static enum rc listen_on_all(struct serve *s, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < s->o.socket_count; i++)
        rc = http_listen_fd(s->http, s->o.sockets[i], &s->ports[i], err);
    for (size_t i = 0; rc == RC_OK && !s->o.socket_count && i < s->o.port_count; i++) {
        struct err taken = { 0 };
        rc = http_listen(s->http, s->priv->listen, s->o.ports[i], &s->ports[i], &taken);
        if (rc == RC_FAIL && s->o.free_port && s->o.ports[i])
            rc = http_listen(s->http, s->priv->listen, 0, &s->ports[i], err);
        else if (rc != RC_OK && err)
            *err = taken;
    }
    return rc;
}

#define NO_ADMIN                                                                                   \
    "changes are taken from a unix socket alone, as there is no token for them: start the "        \
    "server with --admin-token-file or --admin-socket"

static enum rc start_http(struct serve *s, struct err *err)
{
    struct serve_priv *priv = s->priv;
    struct http_opts ho = { .routes = priv->routes,
                            .route_count = priv->route_count,
                            .streamed = priv->streamed,
                            .streamed_count = priv->streamed_count,
                            .body_bytes_max = s->o.body_bytes_max,
                            .connections_max = s->o.connections_max,
                            .head_ms = s->o.head_ms,
                            .body_ms = s->o.body_ms,
                            .body_total_ms = s->o.body_total_ms,
                            .keys = s->o.keys,
                            .origins = s->o.origins,
                            .hosts = s->o.hosts,
                            .no_admin = NO_ADMIN,
                            .tls_cert = priv->tls_cert,
                            .tls_key = priv->tls_key,
                            .server_name = "stoker",
                            .packed = on_api_request,
                            .gzip_min = SERVE_GZIP_BYTES_MIN,
                            .error_body = error_body,
                            .on_done = admin_on_done,
                            .arg = s };
    enum rc rc = http_server_new(&ho, &s->http, err);

    if (rc == RC_OK)
        stats_watch_http(s->stats, s->metrics, s->http);
    if (rc == RC_OK)
        rc = listen_on_all(s, err);
    if (rc == RC_OK && s->o.admin_socket) {
        char at[PATH_MAX];

        (void)snprintf(at, sizeof(at), "unix:%s", s->o.admin_socket);
        rc = http_listen(s->http, at, 0, NULL, err);
    }
    s->o.keys = (struct http_keys){ 0 }; /* borrowed for the start alone */
    return rc == RC_OK ? http_start(s->http, err) : rc;
}

enum rc serve_start(const struct serve_opts *o, struct serve **out, struct err *err)
{
    enum rc rc = check_open(o, err);

    if (rc != RC_OK)
        return rc;
    struct serve *s = xcalloc(1, sizeof(*s));
    s->priv = xcalloc(1, sizeof(*s->priv));
    pthread_mutex_init(&s->priv->lock, NULL);
    clock_cond_init(&s->priv->tick);
    take_opts(s, o);
    s->metrics = metrics_new();
    s->stats = stats_new(s->metrics);
    s->te = o->no_te_metrics ? NULL : te_metrics_new(s->metrics);
    s->priv->devices = o->workers ? devices_new(s->metrics, o->workers) : NULL;
    s->loads = loads_new();
    make_routes(s);
    rc = start_parts(s, o, err);
    if (rc == RC_OK)
        rc = start_http(s, err);
    if (rc == RC_OK && pthread_create(&s->priv->ticker, NULL, tick_main, s) != 0)
        rc = err_set(err, RC_FAIL, "could not start a thread");
    s->priv->ticking = rc == RC_OK;
    if (rc != RC_OK) {
        serve_free(s);
        return rc;
    }
    *out = s;
    return RC_OK;
}

int serve_port(const struct serve *s, size_t i)
{
    assert(i < s->o.port_count);
    return s->ports[i];
}

bool serve_ready(const struct serve *s)
{
    return !atomic_load(&s->stopping) && models_all_ready(s->models);
}

bool serve_describe(const struct serve *s, const char *model, struct buf *out)
{
    return models_describe(s->models, model, out);
}

enum rc serve_check(struct serve *s, struct err *err)
{
    return models_check_all(s->models, err);
}

enum rc serve_reload(struct serve *s, const struct serve_model *models, size_t count,
                     struct err *err)
{
    access_reopen(s->access); /* whoever moved the file away says so by the same signal */
    return models_reload(s->models, models, count, err);
}

enum rc serve_set_keys(struct serve *s, const struct http_keys *keys, struct err *err)
{
    http_set_keys(s->http, keys);
    return s->priv->tls_cert ? http_set_tls(s->http, s->priv->tls_cert, s->priv->tls_key, err)
                             : RC_OK;
}

/* ---- stopping */

void serve_stop(struct serve *s, size_t *out_cut)
{
    if (atomic_exchange(&s->stopping, true))
        return;
    bulk_stop(s->bulk);
    frontend_wake_parked(s->frontend);
    loads_look(s);
    http_drain(s->http, s->o.drain_ms, out_cut);
}

void serve_hurry(struct serve *s)
{
    http_drain(s->http, 0, NULL);
}

void serve_free(struct serve *s)
{
    if (!s)
        return;
    struct serve_priv *priv = s->priv;
    if (priv->ticking) {
        pthread_mutex_lock(&priv->lock);
        priv->stop = true;
        pthread_cond_signal(&priv->tick);
        pthread_mutex_unlock(&priv->lock);
        (void)pthread_join(priv->ticker, NULL);
    }
    if (s->o.workers)
        workers_hurry(s->o.workers); /* a load may never end */
    if (s->models)
        models_stop(s->models); /* nothing is loaded any more, nobody is told */
    if (s->sched)
        sched_stop(s->sched); /* waiting requests end, their requests are answered */
    atomic_store(&s->stopping, true);
    bulk_free(s->bulk); /* its lines are answered, and its exchanges */
    frontend_free(s->frontend);
    loads_look(s);
    http_server_free(s->http);
    models_free(s->models);
    loads_free(s->loads);
    sched_free(s->sched);
    access_close(s->access);
    stats_free(s->stats);
    te_metrics_free(s->te);
    metrics_free(s->metrics);
    devices_free(priv->devices);
    pthread_cond_destroy(&priv->tick);
    pthread_mutex_destroy(&priv->lock);
    free(priv->routes);
    free(priv->api_rows);
    free(priv->streamed);
    free(priv->batch_dir);
    free(priv->tls_cert);
    free(priv->tls_key);
    free(priv->listen);
    free(priv);
    free(s);
}
