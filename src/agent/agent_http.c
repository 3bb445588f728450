/* SPDX-License-Identifier: MIT */
/* agent_http: what answers HTTP.
 *
 * Two servers, each with its own loop: a long question on the page's port cannot hold up a scrape.
 * The text of /metrics is made once a second at most, by the first who asks; a hundred scrapers
 * cost one text and copies of it. */
#include "agent/agent_int.h"
#include "agent/api/api_parts_int.h"
#include "agent/demo/demo_script_int.h"

#include "base/codec/gzip.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <stdlib.h>
#include <strings.h>

enum {
    FRONT_DRAIN_MS = 500,
    FRONT_BODY_BYTES = 64 << 10,
    FRONT_OWN_ROUTES = 2,
    FRONT_SILENCE_ROUTES = 2,
    FRONT_DEMO_ROUTES = 3
};

/* ---- /metrics */

/* The text of this second, made by the first who asks; which second that is. */
static uint64_t text_of(struct agent *a, bool open, struct buf *out)
{
    struct page_text *t = &a->texts[open];
    uint64_t of;

    pthread_mutex_lock(&a->show);
    of = atomic_load(&a->seconds) + 1;
    if (t->of != of) {
        int64_t begun = clock_mono_ns();
        struct prom_export_opts o = a->o.prom_export;

        o.open_metrics = open;
        buf_reset(&t->text);
        prom_export_write(a->shown, &o, &t->text);
        t->of = of;
        atomic_store(&a->scrape_ns, clock_mono_ns() - begun);
    }
    buf_add(out, buf_str(&t->text), t->text.len);
    pthread_mutex_unlock(&a->show);
    return of;
}

void agent_metrics(struct agent *a, struct buf *out)
{
    (void)text_of(a, false, out);
}

/* Packed once a second, too; not under the lock that the sampling thread needs. */
static void pack_text(struct agent *a, bool open, uint64_t of, struct buf *io)
{
    struct page_text *t = &a->packed[open];

    pthread_mutex_lock(&a->packing);
    if (!of || t->of != of) {
        buf_reset(&t->text);
        gzip_pack(buf_str(io), io->len, &t->text);
        t->of = of;
    }
    buf_reset(io);
    buf_add(io, buf_str(&t->text), t->text.len);
    pthread_mutex_unlock(&a->packing);
}

/* "collect[]=gpu&collect[]=node_*": patterns of prom_export_opts, the strings those of `p`; a
 * count of 0: all is wanted. */
static enum rc collect_of(struct agent *a, const struct api_params *p,
                          const char *out[API_PARAMS_MAX + 1], struct err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < p->count; i++) {
        if (!str_eq(p->at[i].name, "collect[]") && !str_eq(p->at[i].name, "name[]"))
            continue;
        if (!prom_export_pattern_known(a->shown, p->at[i].value))
            return err_set(err, RC_USAGE, "collect[]: no metric is called '%.100s'",
                           p->at[i].value);
        out[n++] = p->at[i].value;
    }
    out[n] = NULL;
    return RC_OK;
}

static void on_metrics(void *arg, struct http_exchange *x)
{
    static const char *const types[] = {
        "text/plain; version=0.0.4; charset=utf-8",
        "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    struct agent *a = arg;
    const struct http_request *r = http_request(x);
    const char *accept = http_field(r, "accept"), *coding = http_field(r, "accept-encoding");
    bool open = http_wish(accept, "application/openmetrics-text") > http_wish(accept, "text/plain");
    bool packs = http_wish(coding, "gzip") > 0;
    struct api_params *p = xcalloc(1, sizeof(*p));
    const char *only[API_PARAMS_MAX + 1] = { NULL };
    struct buf body = { 0 };
    struct err err = { 0 };
    uint64_t of = 0;

    atomic_fetch_add(&a->scrapes, 1);
    if (api_params_read(r->query, p, &err) || collect_of(a, p, only, &err)) {
        buf_addf(&body, "%s\n", err.msg);
        http_reply(x, 400, "text/plain; charset=utf-8", &body, NULL);
    } else {
        if (only[0]) {
            struct prom_export_opts o = a->o.prom_export;

            o.only = only;
            o.open_metrics = open;
            prom_export_write(a->shown, &o, &body);
        } else {
            of = text_of(a, open, &body);
        }
        if (packs)
            pack_text(a, open, of, &body);
        http_reply(x, 200, types[open], &body,
                   packs ? "Vary: Accept, Accept-Encoding\r\nContent-Encoding: gzip\r\n"
                         : "Vary: Accept, Accept-Encoding\r\n");
    }
    buf_release(&body);
    free(p);
}

static void on_health(void *arg, struct http_exchange *x)
{
    struct agent *a = arg;
    struct buf body = { 0 };
    struct json_out w;
    bool alive = agent_alive(a), history, hung = atomic_load(&a->driver_hangs);
    struct maybe models = scrape_serve_up(a->scraper);

    pthread_mutex_lock(&a->lock);
    history = !a->ring_why[0];
    pthread_mutex_unlock(&a->lock);
    json_out_init(&w, &body, 0);
    json_obj(&w);
    json_kv_str(&w, "status",
                !alive                                     ? "dead"
                : history && !hung && !maybe_is(models, 0) ? "ok"
                                                           : "degraded");
    json_kv_bool(&w, "sampling", alive);
    json_kv_bool(&w, "history", history);
    json_kv_bool(&w, "driver_hung", hung);
    json_key(&w, "model_server"); /* null: none was named */
    if (models.known)
        json_add_bool(&w, maybe_is(models, 1));
    else
        json_add_null(&w);
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

static void view_story(void *arg, struct json_out *w)
{
    const struct agent *a = arg;

    player_story(a->player, w);
}

static const char *view_token(void *arg)
{
    struct agent *a = arg;

    return atomic_load(&a->token);
}

static void view_mark(void *arg, const char *rule, const struct telemetry_series *subject,
                      struct json_out *w)
{
    struct agent *a = arg;

    silences_mark(a->silences, rule, subject, agent_wall_ns(), w);
}

/* ---- silences */

static void on_silences(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    agent_silences(arg, &body);
    http_reply(x, 200, "application/json", &body, NULL);
    buf_release(&body);
}

static void reply_error(struct http_exchange *x, const struct err *err)
{
    struct buf body = { 0 };
    struct json_out w;

    json_out_init(&w, &body, 0);
    json_obj(&w);
    json_kv_str(&w, "error", err->msg);
    json_obj_end(&w);
    http_reply(x,
               err->code == RC_NODEV  ? 404
               : err->code == RC_FAIL ? 500
                                      : 400,
               "application/json", &body, NULL);
    buf_release(&body);
}

/* POST: a new one, or {"end": id}. */
static void on_silence(void *arg, struct http_exchange *x)
{
    struct agent *a = arg;
    const struct http_request *r = http_request(x);
    struct arena arena = { 0 };
    struct json *d = NULL;
    struct err err = { 0 };
    uint64_t id = 0;
    enum rc rc = json_parse(&arena, r->body, r->body_len, &d, &err);
    const struct json *ends = rc == RC_OK ? json_get(d, "end") : NULL;
    struct maybe end = json_int(ends);

    if (ends && (!end.known || d->first->next))
        rc = err_set(&err, RC_USAGE, "'end' is the number of a silence, and alone");
    else if (ends)
        rc = agent_silence_end(a, (uint64_t)maybe_or(end, 0), &err);
    else if (rc == RC_OK)
        rc = agent_silence(a, r->body, r->body_len, &id, &err);
    arena_release(&arena);
    if (rc != RC_OK)
        reply_error(x, &err);
    else
        on_silences(a, x);
}

static enum rc make_api(struct agent *a, struct err *err)
{
    struct api_opts ao = { .telemetry = a->shown,
                           .enter = view_enter,
                           .leave = view_leave,
                           .status = view_status,
                           .arg = a,
                           .host = a->host,
                           .demo = a->o.demo,
                           .serve_url = a->o.serve_url,
                           .note = a->o.demo     ? AGENT_DEMO_NOTE
                                   : a->o.replay ? a->o.replay
                                                 : NULL,
                           .period_ms = a->o.period_ms,
                           .begun_ns = a->begun_wall_ns,
                           .fleet = a->o.fleet,
                           .places = a->o.places,
                           .place_count = a->o.place_count,
                           .story = view_story,
                           .fleet_token = view_token,
                           .mark = view_mark,
                           .trust = a->o.trust,
                           .root = a->player ? NULL : a->o.root };

    return api_new(&ao, &a->api, err);
}

enum rc agent_ask(struct agent *a, const char *path, struct buf *out, struct err *err)
{
    return a->api ? api_ask(a->api, path, out, err)
                  : err_set(err, RC_USAGE, "this agent answers no questions");
}

/* ---- the servers */

static void on_demo_door(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    http_reply(x, 308, NULL, &body, "Location: /demo/\r\n");
}

static void make_routes(struct agent *a)
{
    size_t n = 0, of_api = 0;
    const struct http_route *api = api_routes(a->api, &of_api);

    a->routes = xcalloc(FRONT_OWN_ROUTES + of_api + FRONT_SILENCE_ROUTES + FRONT_DEMO_ROUTES,
                        sizeof(*a->routes));
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
    a->routes[n++] = (struct http_route){
        .method = HTTP_GET, .path = "/api/v1/silences", .run = on_silences, .arg = a
    };
    a->routes[n++] = (struct http_route){ .method = HTTP_POST,
                                          .path = "/api/v1/silences",
                                          .run = on_silence,
                                          .arg = a,
                                          .scope = HTTP_SCOPE_ADMIN };
    if (!a->player) { /* one that plays is no place to see another play */
        a->demo = demo_new(a);
        a->routes[n++] = (struct http_route){
            .method = HTTP_GET, .path = "/demo", .run = on_demo_door, .scope = HTTP_SCOPE_OPEN
        };
        a->routes[n++] = (struct http_route){
            .method = HTTP_GET, .path = "/demo/", .run = api_page, .scope = HTTP_SCOPE_OPEN
        };
        a->routes[n++] =
            (struct http_route){ .method = HTTP_GET, .path = "/demo/*", .run = demo_ask, .arg = a };
    }
    a->route_count = n;
}

static enum rc listen_on(struct agent *a, size_t routes, int port, int socket,
                         struct http_server **out, int *out_port, struct err *err)
{
    struct http_opts ho = {
        .routes = a->routes,
        .route_count = routes,
        .body_bytes_max = FRONT_BODY_BYTES,
        .keys = { .token = a->o.token, .admin = a->o.admin_token, .metrics = a->o.metrics_token },
        .origins = a->o.origins,
        .hosts = a->o.hosts,
        .no_admin = "changes over the network need a token, and none is set: start the agent with "
                    "--admin-token-file",
        .tls_cert = a->o.tls_cert,
        .tls_key = a->o.tls_key,
        .server_name = "stoker"
    };
    struct err taken = { 0 };
    enum rc rc = http_server_new(&ho, out, err);

    if (rc != RC_OK)
        return rc;
    if (socket)
        return http_listen_fd(*out, socket, out_port, err);
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
        rc = listen_on(a, a->route_count, a->o.port, a->o.socket, &a->http, &a->port, err);
    if (rc == RC_OK && a->o.metrics_port >= 0)
        rc = listen_on(a, FRONT_OWN_ROUTES, a->o.metrics_port, a->o.metrics_socket,
                       &a->http_metrics, &a->metrics_port, err);
    return rc;
}

/* A token that others may be reading is kept until the end. */
static void change_token(struct agent *a, _Atomic(const char *) *which, const char *token)
{
    const char *now = atomic_load(which);

    if (str_eq(now, token) || a->token_count == AGENT_TOKENS_MAX)
        return;
    a->tokens[a->token_count] = token ? xstrdup(token) : NULL;
    atomic_store(which, a->tokens[a->token_count++]);
}

enum rc agent_set_keys(struct agent *a, const struct http_keys *keys, const char *serve,
                       struct err *err)
{
    struct http_server *const servers[] = { a->http, a->http_metrics };
    enum rc rc = RC_OK;

    for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
        if (!servers[i])
            continue;
        http_set_keys(servers[i], keys);
        if (rc == RC_OK && a->o.tls_cert)
            rc = http_set_tls(servers[i], a->o.tls_cert, a->o.tls_key, err);
    }
    change_token(a, &a->token, keys->token);
    change_token(a, &a->serve_token, serve);
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
