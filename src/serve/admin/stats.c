/* SPDX-License-Identifier: MIT */
/* stats: the server's own figures: requests by route and status, texts and tokens by model, how
 * long each stage took.
 *
 * Series are made before the first request, so that a rate begins at 0 and not at the first event.
 * A request counts once, on the thread that answers it; figures of connections are looked up when
 * somebody reads the metrics. */
#include "serve/admin/stats_int.h"

#include "base/mem.h"
#include "http/http.h"
#include "os/clock.h"
#include "serve/serve_int.h"

#include <stdio.h>

static const char *const error_names[] = {
    [FAULT_JSON] = "json",         [FAULT_EMPTY] = "empty",         [FAULT_INVALID] = "invalid",
    [FAULT_TOO_LONG] = "too_long", [FAULT_TOO_MANY] = "too_many",   [FAULT_NO_MODEL] = "no_model",
    [FAULT_MODEL_KIND] = "kind",   [FAULT_LOADING] = "loading",     [FAULT_OVERLOADED] = "overload",
    [FAULT_DEADLINE] = "deadline", [FAULT_TOKENIZER] = "tokenizer", [FAULT_BACKEND] = "backend",
    [FAULT_NO_MEMORY] = "memory",  [FAULT_STOPPING] = "stopping",   [FAULT_TOO_LARGE] = "too_large",
    [FAULT_CHANGED] = "changed",
};

static const char *const stages[] = { "parse", "tokenize", "queue", "run", "write", "total" };

struct stats {
    struct metrics_family *requests, *seconds, *errors, *items, *tokens, *truncated, *cached;
    struct metrics_family *stages, *refused;
    struct gauge *connections, *connections_max;
    struct counter *dropped;
    const struct http_server *http; /* NULL: not yet */
};

const char *stats_error_name(enum fault_kind e)
{
    return error_names[e];
}

static void collect_connections(void *arg)
{
    struct stats *s = arg;
    uint64_t dropped;

    if (!s->http)
        return;
    gauge_set(s->connections, (double)http_connections(s->http));
    gauge_set(s->connections_max, (double)http_connections_max(s->http));
    dropped = http_connections_dropped(s->http);
    counter_add(s->dropped, dropped - counter_value(s->dropped));
}

void stats_watch_http(struct stats *s, struct metrics *m, const struct http_server *http)
{
    s->connections =
        metrics_gauge(metrics_gauges(m, "stoker_http_connections", "Open connections.", NULL));
    s->connections_max = metrics_gauge(
        metrics_gauges(m, "stoker_http_connections_max", "Connections that may be open.", NULL));
    s->dropped = metrics_counter(
        metrics_counters(m, "stoker_http_connections_dropped_total",
                         "Connections at rest closed for new ones, as all were taken.", NULL));
    s->http = http;
    metrics_on_collect(m, collect_connections, s);
}

struct stats *stats_new(struct metrics *m)
{
    static const char *const refusals[] = { "400", "401", "403", "404", "405",
                                            "408", "413", "421", "431" };
    struct stats *s = xcalloc(1, sizeof(*s));

    s->requests = metrics_counters(m, "stoker_requests_total",
                                   "Calls of the APIs answered, by status code.", "route,code");
    s->refused = metrics_counters(
        m, "stoker_http_refused_total",
        "Requests refused before they became one: no token or the wrong one, a path or "
        "a page that may not, slow, too large or no HTTP, by status code.",
        "code");
    s->seconds =
        metrics_timings(m, "stoker_request_seconds", "Seconds from first byte to reply.", "route");
    s->errors =
        metrics_counters(m, "stoker_errors_total", "Requests refused or failed, by kind.", "kind");
    s->items = metrics_counters(m, "stoker_items_total", "Texts computed or found.", "model");
    s->tokens = metrics_counters(m, "stoker_tokens_total", "Tokens of them.", "model");
    s->truncated = metrics_counters(m, "stoker_truncated_total", "Texts that were cut.", "model");
    s->cached = metrics_counters(m, "stoker_cached_total", "Texts found in the cache.", "model");
    s->stages = metrics_timings(
        m, "stoker_stage_seconds",
        "Seconds of a request in each stage; of parse and write, seconds of CPU time.",
        "model,stage");
    for (size_t i = 0; i < ARRAY_SIZE(error_names); i++)
        (void)metrics_counter(s->errors, error_names[i]);
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
        (void)metrics_counter(s->refused, refusals[i]);
    for (size_t i = 0; api_at(i); i++) {
        (void)metrics_counter(s->requests, api_at(i)->path, "200");
        (void)metrics_histogram(s->seconds, api_at(i)->path);
    }
    return s;
}

void stats_free(struct stats *s)
{
    free(s);
}

void stats_expect_model(struct stats *s, const char *model)
{
    (void)metrics_counter(s->items, model);
    (void)metrics_counter(s->tokens, model);
    (void)metrics_counter(s->truncated, model);
    (void)metrics_counter(s->cached, model);
    for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
        (void)metrics_histogram(s->stages, model, stages[i]);
}

static double in_seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

static void count_work(struct stats *s, const struct request *r)
{
    const char *model = r->model->name;
    const struct response_times *t = &r->response.times;
    uint64_t cut = 0, found = 0;

    for (size_t i = 0; i < r->count; i++) {
        cut += r->texts[i].truncated;
        found += r->texts[i].cached;
    }
    counter_add(metrics_counter(s->items, model), r->count);
    counter_add(metrics_counter(s->tokens, model), r->response.tokens_total);
    counter_add(metrics_counter(s->truncated, model), cut);
    counter_add(metrics_counter(s->cached, model), found);
    const int64_t spent[] = { t->parse, t->tokenize, t->queue, t->run, t->write, t->total };
    for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
        histogram_add(metrics_histogram(s->stages, model, stages[i]), in_seconds(spent[i]));
}

void stats_refused(struct stats *s, int status)
{
    char code[16];

    snprintf(code, sizeof(code), "%d", status);
    counter_add(metrics_counter(s->refused, code), 1);
}

void stats_request(struct stats *s, const struct request *r, int status)
{
    char code[16];

    snprintf(code, sizeof(code), "%d", status);
    counter_add(metrics_counter(s->requests, r->api->path, code), 1);
    histogram_add(metrics_histogram(s->seconds, r->api->path), in_seconds(r->response.times.total));
    if (status >= 400)
        counter_add(metrics_counter(s->errors, error_names[r->fault.kind]), 1);
    else if (r->submitted_ns)
        count_work(s, r);
}
