/* SPDX-License-Identifier: MIT */
/* front: what answers HTTP.
 *
 * Two servers, each with its own loop: a long question on the page's port cannot hold up a scrape.
 * The text of /metrics is made once a second at most, by the first who asks; a hundred scrapers
 * cost one text and copies of it. */
#include "agent/agent_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <stdlib.h>

enum { FRONT_DRAIN_MS = 500, FRONT_BODY_BYTES = 64 << 10, FRONT_OWN_ROUTES = 2 };

void agent_metrics(struct agent *a, struct buf *out)
{
    pthread_mutex_lock(&a->show);
    if (!a->text_made || a->text_of != atomic_load(&a->seconds)) {
        int64_t begun = clock_mono_ns();
        buf_reset(&a->text);
        expo_write(a->shown, &a->o.expo, &a->text);
        a->text_of = atomic_load(&a->seconds);
        a->text_made = true;
        atomic_store(&a->scrape_ns, clock_mono_ns() - begun);
    }
    buf_add(out, buf_str(&a->text), a->text.len);
    pthread_mutex_unlock(&a->show);
}

static void on_metrics(void *arg, struct http_exchange *x)
{
    struct agent *a = arg;
    struct buf body = { 0 };

    agent_metrics(a, &body);
    atomic_fetch_add(&a->scrapes, 1);
    http_reply(x, 200, "text/plain; version=0.0.4; charset=utf-8", &body, NULL);
    buf_release(&body);
}

static void on_health(void *arg, struct http_exchange *x)
{
    struct agent *a = arg;
    struct buf body = { 0 };
    struct json_out w;
    bool alive = agent_alive(a), history, hung = atomic_load(&a->gpu_state) == GPU_CHILD_HUNG;

    pthread_mutex_lock(&a->lock);
    history = !a->ring_why[0];
    pthread_mutex_unlock(&a->lock);
    json_out_init(&w, &body, 0);
    json_obj(&w);
    json_kv_str(&w, "status", !alive ? "dead" : history && !hung ? "ok" : "degraded");
    json_kv_bool(&w, "sampling", alive);
    json_kv_bool(&w, "history", history);
    json_kv_bool(&w, "driver_hung", hung);
    json_kv_bool(&w, "demo", a->o.demo);
    json_obj_end(&w);
    buf_addc(&body, '\n');
    http_reply(x, alive ? 200 : 503, "application/json", &body, NULL);
    buf_release(&body);
}

/* ---- what the API asks of us */

static void view_enter(void *arg, struct api_view *out)
{
    struct agent *a = arg;

    pthread_rwlock_rdlock(&a->view);
    *out = (struct api_view){ a->ring, a->alerts };
}

static void view_leave(void *arg)
{
    struct agent *a = arg;

    pthread_rwlock_unlock(&a->view);
}

static void view_status(void *arg, struct json_out *w)
{
    json_obj(w);
    status_members(arg, w);
    json_obj_end(w);
}

static enum rc make_api(struct agent *a, struct err *err)
{
    struct api_opts ao = { .tele = a->shown,
                           .enter = view_enter,
                           .leave = view_leave,
                           .status = view_status,
                           .arg = a,
                           .host = a->host,
                           .demo = a->o.demo,
                           .note = a->o.demo     ? "a recorded H200, played as eight"
                                   : a->o.replay ? a->o.replay
                                                 : NULL,
                           .period_ms = a->o.period_ms,
                           .begun_ns = a->begun_wall_ns,
                           .fleet = a->o.fleet,
                           .fleet_token = a->o.token,
                           .root = a->player ? NULL : a->o.root };

    return api_new(&ao, &a->api, err);
}

enum rc agent_ask(struct agent *a, const char *path, struct buf *out, struct err *err)
{
    return a->api ? api_ask(a->api, path, out, err)
                  : err_set(err, RC_USAGE, "this agent answers no questions");
}

/* ---- the servers */

static void make_routes(struct agent *a)
{
    size_t n = 0, of_api = 0;
    const struct http_route *api = api_routes(a->api, &of_api);

    a->routes = xcalloc(FRONT_OWN_ROUTES + of_api, sizeof(*a->routes));
    a->routes[n++] =
        (struct http_route){ .method = HTTP_GET,
                             .path = "/metrics",
                             .run = on_metrics,
                             .arg = a,
                             .scope = a->o.open_metrics ? HTTP_SCOPE_OPEN : HTTP_SCOPE_METRICS };
    a->routes[n++] = (struct http_route){
        .method = HTTP_GET, .path = "/health", .run = on_health, .arg = a, .scope = HTTP_SCOPE_OPEN
    };
    for (size_t i = 0; i < of_api; i++)
        a->routes[n++] = api[i];
    a->route_count = n;
}

static enum rc listen_on(struct agent *a, size_t routes, int port, struct http_server **out,
                         int *out_port, struct err *err)
{
    struct http_opts ho = { .routes = a->routes,
                            .route_count = routes,
                            .body_bytes_max = FRONT_BODY_BYTES,
                            .keys = { .token = a->o.token, .metrics = a->o.metrics_token },
                            .origins = a->o.origins,
                            .hosts = a->o.hosts,
                            .tls_cert = a->o.tls_cert,
                            .tls_key = a->o.tls_key,
                            .server_name = "stoker" };
    struct err taken = { 0 };
    enum rc rc = http_server_new(&ho, out, err);

    if (rc != RC_OK)
        return rc;
    rc = http_listen(*out, a->o.listen, port, out_port, &taken);
    if (rc == RC_FAIL && a->o.free_port && port)
        return http_listen(*out, a->o.listen, 0, out_port, err);
    if (rc != RC_OK)
        *err = taken;
    return rc;
}

enum rc front_start(struct agent *a, struct err *err)
{
    enum rc rc = RC_OK;

    a->port = a->metrics_port = -1;
    if (a->o.port < 0 && a->o.metrics_port < 0 && !a->o.ask)
        return RC_OK;
    rc = make_api(a, err);
    if (rc != RC_OK)
        return rc;
    make_routes(a);
    if (a->o.port >= 0)
        rc = listen_on(a, a->route_count, a->o.port, &a->http, &a->port, err);
    if (rc == RC_OK && a->o.metrics_port >= 0)
        rc = listen_on(a, FRONT_OWN_ROUTES, a->o.metrics_port, &a->http_metrics, &a->metrics_port,
                       err);
    return rc;
}

enum rc front_run(struct agent *a, struct err *err)
{
    enum rc rc = a->http ? http_start(a->http, err) : RC_OK;

    return rc == RC_OK && a->http_metrics ? http_start(a->http_metrics, err) : rc;
}

void front_stop(struct agent *a)
{
    size_t cut;

    if (a->http_metrics)
        http_drain(a->http_metrics, FRONT_DRAIN_MS, &cut);
    if (a->http)
        http_drain(a->http, FRONT_DRAIN_MS, &cut);
    http_server_free(a->http_metrics);
    http_server_free(a->http);
    a->http = a->http_metrics = NULL;
}
