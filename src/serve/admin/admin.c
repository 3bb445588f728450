/* SPDX-License-Identifier: MIT */
/* admin: the routes that compute nothing: health, which models there are, figures, the page.
 *
 * Their handlers run on the HTTP loop's thread, so they read what is at hand and wait for nobody.
 * Shapes are those of the servers whose clients ask: /info is TEI's, /v1/models OpenAI's with what
 * Infinity's client reads beside it. */
#include "serve/admin/admin_int.h"

#include "base/str.h"
#include "base/text/json.h"
#include "os/clock.h"
#include "serve/admin/page_int.h"
#include "serve/models/manager_int.h"
#include "serve/serve_int.h"

#include <inttypes.h>

/* ---- replies */

void admin_reply_json(struct http_exchange *x, int status, struct buf *body)
{
    buf_addc(body, '\n');
    http_reply(x, status, "application/json", body, NULL);
    buf_release(body);
}

static void reply_error_as(struct http_exchange *x, enum api_family family, int status,
                           enum fault_kind kind, const char *why)
{
    struct request_fault f = { .kind = kind };
    struct buf body = { 0 };

    (void)fault_set(&f, kind, NULL, "%s", why);
    (void)api_error(family, &f, &body);
    http_reply(x, status, "application/json", &body, NULL);
    buf_release(&body);
}

void admin_reply_error(struct http_exchange *x, int status, enum fault_kind kind, const char *why)
{
    reply_error_as(x, API_OPENAI, status, kind, why);
}

static void reply_as(struct http_exchange *x, const char *type, const char *fields,
                     struct buf *body)
{
    http_reply(x, 200, type, body, fields);
    buf_release(body);
}

/* ---- health */

static void on_health(void *arg, struct http_exchange *x)
{
    struct serve *s = arg;
    bool ready = serve_ready(s);
    struct json_out w;
    struct buf body = { 0 };

    json_out_init(&w, &body, 0);
    json_obj(&w);
    json_kv_str(&w, "status", ready ? "ok" : atomic_load(&s->stopping) ? "stopping" : "loading");
    json_kv_int(&w, "unix", clock_unix_s());
    json_obj_end(&w);
    admin_reply_json(x, ready ? 200 : 503, &body);
}

/* ---- models */

static void on_models(void *arg, struct http_exchange *x)
{
    struct serve *s = arg;
    struct json_out w;
    struct buf body = { 0 };

    json_out_init(&w, &body, 0);
    models_openai_json(s->models, &w,
                       str_eq(http_request(x)->path, "/models") ? "infinity" : "stoker");
    admin_reply_json(x, 200, &body);
}

static void on_model(void *arg, struct http_exchange *x)
{
    struct serve *s = arg;
    const char *name = http_request(x)->path + sizeof("/v1/models/") - 1;
    struct json_out w;
    struct buf body = { 0 };
    struct err err = { 0 };

    json_out_init(&w, &body, 0);
    if (models_openai_one(s->models, name, &w, &err)) {
        admin_reply_json(x, 200, &body);
        return;
    }
    admin_reply_error(x, 404, FAULT_NO_MODEL, err.msg);
}

static void on_pools(void *arg, struct http_exchange *x)
{
    struct serve *s = arg;
    struct json_out w;
    struct buf body = { 0 };

    json_out_init(&w, &body, 0);
    json_obj(&w);
    json_key(&w, "pools");
    pools_json(s->models, &w);
    json_key(&w, "models");
    models_json(s->models, &w);
    json_obj_end(&w);
    admin_reply_json(x, 200, &body);
}

static void info_limits(struct json_out *w, const struct serve *s, const struct served *m)
{
    json_kv_int(w, "max_concurrent_requests",
                (int64_t)(s->o.queue_requests_max ? s->o.queue_requests_max
                                                  : SCHED_QUEUE_REQUESTS_DEFAULT));
    json_kv_int(w, "max_input_length", (int64_t)m->max_tokens);
    json_kv_int(w, "max_batch_tokens", (int64_t)m->batch_tokens);
    json_kv_str(w, "max_batch_requests", NULL);
    json_kv_int(w, "max_client_batch_size", (int64_t)s->o.items_max);
    json_kv_bool(w, "auto_truncate", true);
    json_kv_int(w, "tokenization_workers", (int64_t)s->o.frontend_threads);
    json_kv_str(w, "version", STOKER_VERSION);
    json_kv_str(w, "sha", NULL);
    json_kv_str(w, "docker_label", NULL);
}

static const char *label_of(const struct model *m, size_t i, char *text, size_t cap)
{
    snprintf(text, cap, "LABEL_%zu", i);
    return m->label_names && m->label_names[i] ? m->label_names[i] : text;
}

/* {"0": "name"} and {"name": 0}, as TEI has them. */
static void info_labels(struct json_out *w, const struct model *m)
{
    char text[32], number[24];

    json_kv_obj(w, "id2label");
    for (size_t i = 0; i < m->labels; i++) {
        snprintf(number, sizeof(number), "%zu", i);
        json_kv_str(w, number, label_of(m, i, text, sizeof(text)));
    }
    json_obj_end(w);
    json_kv_obj(w, "label2id");
    for (size_t i = 0; i < m->labels; i++)
        json_kv_int(w, label_of(m, i, text, sizeof(text)), (int64_t)i);
    json_obj_end(w);
}

/* TEI's shape. */
static void info_json(struct json_out *w, const struct serve *s, const struct served *m)
{
    json_obj(w);
    json_kv_str(w, "model_id", m->name); /* a folder is nobody's business */
    json_kv_str(w, "model_sha", m->files_sha256);
    json_kv_str(w, "digest", m->digest);
    json_kv_str(w, "model_dtype", m->dtype);
    json_kv_str(w, "served_model_name", m->name);
    json_kv_obj(w, "model_type");
    json_kv_obj(w, models_kind_name(models_kind_of(m->model)));
    if (m->model->head == MODEL_HEAD_NONE)
        json_kv_str(w, "pooling", model_pool_label(m->model->pool));
    else
        info_labels(w, m->model);
    json_obj_end(w);
    json_obj_end(w);
    info_limits(w, s, m);
    json_obj_end(w);
}

static void on_info(void *arg, struct http_exchange *x)
{
    struct serve *s = arg;
    char name[MODELS_NAME_MAX] = "";
    struct served *m = NULL;
    struct err err = { 0 };
    struct json_out w;
    struct buf body = { 0 };

    (void)http_query(http_request(x), "model", name, sizeof(name));
    switch (models_acquire(s->models, name, REQUEST_IDS, &m, &err)) {
    case MODELS_READY:
        json_out_init(&w, &body, 0);
        info_json(&w, s, m);
        served_release(m);
        admin_reply_json(x, 200, &body);
        return;
    case MODELS_LOADING:
        reply_error_as(x, API_TEI, 503, FAULT_LOADING, "the model is being loaded");
        return;
    case MODELS_NONE:
        reply_error_as(x, API_TEI, 404, FAULT_NO_MODEL, err.msg);
        return;
    case MODELS_FAILED:
        reply_error_as(x, API_TEI, 500, FAULT_BACKEND, err.msg);
        return;
    case MODELS_CHANGED:
        reply_error_as(x, API_TEI, 503, FAULT_CHANGED, err.msg);
        return;
    }
}

/* ---- figures */

static void on_metrics(void *arg, struct http_exchange *x)
{
    struct serve *s = arg;
    struct buf body = { 0 };

    metrics_write(s->metrics, &body);
    reply_as(x, "text/plain; version=0.0.4; charset=utf-8", NULL, &body);
}

static void on_batches(void *arg, struct http_exchange *x)
{
    struct serve *s = arg;
    char format[16] = "";
    struct json_out w;
    struct buf body = { 0 };

    if (http_query(http_request(x), "format", format, sizeof(format)) && !str_eq(format, "svg") &&
        !str_eq(format, "json")) {
        admin_reply_error(x, 400, FAULT_INVALID, "'format' must be json or svg");
        return;
    }
    if (str_eq(format, "svg")) {
        sched_batches_svg(s->sched, &body);
        reply_as(x, "image/svg+xml", NULL, &body);
        return;
    }
    json_out_init(&w, &body, 0);
    sched_batches_json(s->sched, &w);
    admin_reply_json(x, 200, &body);
}

/* ---- the page */

static void on_page(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    page_write(&body);
    reply_as(x, page_type, page_fields, &body);
}

static void on_openapi(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    openapi_write(&body);
    reply_as(x, "application/json", NULL, &body);
}

static void on_routes(void *arg, struct http_exchange *x)
{
    struct buf body = { 0 };

    (void)arg;
    openapi_routes(api_at, &body);
    reply_as(x, "application/json", NULL, &body);
}

/* ---- the access log of what never became a request of an API; frontend.c logs those */

void admin_on_done(void *serve, const struct http_request *req, int status, size_t bytes_out,
                   int64_t end_ns, bool gone)
{
    static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS" };
    struct serve *s = serve;
    struct access_record a = { .unix_ms = clock_unix_ms(),
                               .id = req->id,
                               .method = methods[req->method],
                               .status = status,
                               .gone = gone,
                               .bytes_in = req->body_len,
                               .bytes_out = bytes_out,
                               .queue_ns = -1,
                               .run_ns = -1,
                               .total_ns = end_ns - req->begun_ns };

    if (!req->handled && status >= 400 && status != 499) /* 499: nobody refused it */
        stats_refused(s->stats, status);
    if (!s->access || (req->handled && req->method == HTTP_POST && api_find(req->path)))
        return;
    access_text(a.peer, sizeof(a.peer), req->peer);
    access_text(a.path, sizeof(a.path), req->path);
    access_names(&a, http_field(req, "x-request-id"), http_field(req, "traceparent"));
    (void)access_put(s->access, &a);
}

const struct http_route admin_routes[] = {
    { .method = HTTP_GET, .path = "/health", .run = on_health, .scope = HTTP_SCOPE_OPEN },
    { .method = HTTP_GET, .path = "/ping", .run = on_health, .scope = HTTP_SCOPE_OPEN },
    { .method = HTTP_GET, .path = "/info", .run = on_info },
    { .method = HTTP_GET, .path = "/v1/models", .run = on_models },
    { .method = HTTP_GET, .path = "/models", .run = on_models },
    { .method = HTTP_GET, .path = "/v1/models/*", .run = on_model },
    { .method = HTTP_GET, .path = "/v1/pools", .run = on_pools },
    { .method = HTTP_GET, .path = "/metrics", .run = on_metrics, .scope = HTTP_SCOPE_METRICS },
    { .method = HTTP_GET, .path = "/debug/batches", .run = on_batches },
    { .method = HTTP_GET, .path = "/", .run = on_page, .scope = HTTP_SCOPE_OPEN },
    { .method = HTTP_GET, .path = "/openapi.json", .run = on_openapi, .scope = HTTP_SCOPE_OPEN },
    { .method = HTTP_GET,
      .path = "/api-doc/openapi.json",
      .run = on_openapi,
      .scope = HTTP_SCOPE_OPEN },
    { .method = HTTP_GET, .path = "/api/routes", .run = on_routes, .scope = HTTP_SCOPE_OPEN },
    { .path = NULL },
};
