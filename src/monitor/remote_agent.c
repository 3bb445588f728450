/* SPDX-License-Identifier: MIT */
/* remote_agent: another agent's history, asked for in pieces.
 *
 * Every some seconds each metric that is watched is asked for with a step of one second, from
 * where the last answer ended: what the network lost meanwhile is not lost.  Times are the other
 * agent's. */
#include "monitor/monitor_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REMOTE_MS = 10000,          /* for an answer */
    REMOTE_BODY_MAX = 48 << 20, /* bytes of one */
    REMOTE_REQUEST_MAX = 8192,  /* bytes of a question */
    REMOTE_LAG_S = 2,           /* the newest second may not be there yet */
    REMOTE_EVENTS_MAX = 1000    /* of a question */
};

struct remote {
    struct monitor *m;
    struct url url;
    const char *token; /* borrowed; NULL: none */
    struct web *web;
    struct web_reply reply; /* of the question at hand */
    int64_t ahead_ns;       /* of its clock before ours, monotonic */
    int64_t from_ns;        /* taken up to here */
};

static enum rc judge_status(int status, struct err *err)
{
    if (status == 401) {
        err_hint(err, "Give --token-file.");
        return err_set(err, RC_FAIL, "it asks for a token");
    }
    if (status == 404)
        return err_set(err, RC_NODEV, "it keeps no history, or is not an agent");
    return status == 200 ? RC_OK : err_set(err, RC_FAIL, "it answered %d", status);
}

static enum rc ask_agent(struct remote *r, const char *path, struct arena *a, struct json **out,
                         struct err *err)
{
    struct web_request q = { .to = &r->url,
                             .path = path,
                             .accept = "application/json",
                             .token = r->token,
                             .timeout_ms = REMOTE_MS,
                             .body_max = REMOTE_BODY_MAX };
    enum rc rc = web_send(r->web, &q, &r->reply, err);

    if (rc == RC_OK)
        rc = judge_status(r->reply.status, err);
    if (rc == RC_OK)
        rc = json_parse(a, buf_str(&r->reply.body), r->reply.body.len, out, err);
    return rc;
}

/* ---- opening */

static enum rc greet_agent(struct remote *r, struct err *err)
{
    struct arena a = { 0 };
    struct json *d = NULL;
    enum rc rc = ask_agent(r, "/api/v1/node", &a, &d, err);
    struct maybe now = json_int(json_get(d, "time_ms"));

    if (rc == RC_OK && !now.known)
        rc = err_set(err, RC_PARSE, "it is not an agent: its answer has no time");
    if (rc == RC_OK && json_get(d, "history") && json_get(d, "history")->type == JSON_NULL)
        rc = err_set(err, RC_NODEV, "it keeps no history, which this needs");
    if (rc == RC_OK) {
        const char *host = json_str(json_get(d, "host"));
        (void)str_copy(r->m->host, sizeof(r->m->host), host ? host : "");
        r->ahead_ns = now.v * 1000000 - clock_mono_ns();
        r->from_ns = (now.v / 1000 - REMOTE_LAG_S) * MONITOR_SECOND;
    }
    arena_release(&a);
    return rc;
}

enum rc remote_open(const char *address, const char *token, const struct web_trust *trust,
                    struct monitor *m, struct remote **out, struct err *err)
{
    struct remote *r = xcalloc(1, sizeof(*r));
    enum rc rc;

    r->m = m;
    r->token = token;
    r->web = web_new(trust);
    rc = url_parse(address, &r->url, err);
    if (rc == RC_OK)
        rc = greet_agent(r, err);
    if (rc != RC_OK) {
        remote_close(r);
        return err_ctx(err, "agent '%s'", address);
    }
    *out = r;
    return RC_OK;
}

void remote_close(struct remote *r)
{
    if (!r)
        return;
    web_free(r->web);
    web_reply_release(&r->reply);
    free(r);
}

/* ---- taking */

static void take_series(struct remote *r, const struct telemetry_metric *metric,
                        const struct json *s, int64_t from_ns, int64_t step_ns)
{
    const struct json *labels = json_get(s, "labels"), *mean = json_get(s, "mean");
    struct telemetry_label list[TELEMETRY_LABELS_MAX];
    struct telemetry_series series = { .metric = metric, .labels = list };
    struct window_slot *all, *span;
    int64_t at = from_ns;

    for (const struct json *l = json_first(labels); l && series.label_count < TELEMETRY_LABELS_MAX;
         l = l->next)
        if (l->key && json_str(l))
            list[series.label_count++] = (struct telemetry_label){ l->key, json_str(l) };
    all = window_slot(r->m->all, &series);
    span = window_slot(r->m->span, &series);
    for (const struct json *v = json_first(mean); v; v = v->next, at += step_ns) {
        if (all && at > all->before_ns) /* not twice, when a question had to be asked again */
            window_add(all, at, json_num(v, NAN));
        if (span && at > span->before_ns)
            window_add(span, at, json_num(v, NAN));
    }
}

/* `row` is an id, or id|label=value. */
static enum rc take_metric(struct remote *r, const char *row, int64_t to_ns, struct err *err)
{
    struct telemetry_metric own = {
        .entity = TELEMETRY_APP, .kind = TELEMETRY_GAUGE, .unit = "1", .scale = 1
    };
    char path[REMOTE_REQUEST_MAX / 2], id[TELEMETRY_NAME_MAX];
    size_t len = strcspn(row, "|");
    struct arena a = { 0 };
    struct json *d = NULL;
    struct maybe from, step;
    enum rc rc;

    (void)snprintf(id, sizeof(id), "%.*s", (int)len, row);
    (void)snprintf(path, sizeof(path), "/api/v1/query?metric=%s&from=%lld&to=%lld&step=1s%s%s", id,
                   (long long)(r->from_ns / MONITOR_SECOND), (long long)(to_ns / MONITOR_SECOND),
                   row[len] ? "&label." : "", row[len] ? row + len + 1 : "");
    own.id = id;
    rc = ask_agent(r, path, &a, &d, err);
    from = json_int(json_get(d, "from_ms"));
    step = json_int(json_get(d, "step_ms"));
    if (rc == RC_OK && from.known && step.known && step.v > 0)
        for (const struct json *s = json_first(json_get(d, "series")); s; s = s->next)
            take_series(r, telemetry_metric(id) ? telemetry_metric(id) : &own, s, from.v * 1000000,
                        step.v * 1000000);
    arena_release(&a);
    if (rc == RC_FAIL && r->reply.fault == WEB_OK &&
        r->reply.status == 400) { /* nobody has measured it there */
        *err = (struct err){ 0 };
        return RC_OK;
    }
    return rc;
}

static enum rc take_events(struct remote *r, int64_t to_ns, struct err *err)
{
    char path[256];
    struct arena a = { 0 };
    struct json *d = NULL;
    enum rc rc;

    (void)snprintf(path, sizeof(path), "/api/v1/events?from=%lld&to=%lld&limit=%d",
                   (long long)(r->from_ns / MONITOR_SECOND), (long long)(to_ns / MONITOR_SECOND),
                   REMOTE_EVENTS_MAX);
    rc = ask_agent(r, path, &a, &d, err);
    for (const struct json *e = rc == RC_OK ? json_first(json_get(d, "events")) : NULL; e;
         e = e->next) {
        struct telemetry_event n = { .time_ns =
                                         maybe_or(json_int(json_get(e, "time_ms")), 0) * 1000000,
                                     .kind = TELEMETRY_EVENT_KINDS,
                                     .gpu = (int)maybe_or(json_int(json_get(e, "gpu")), -1),
                                     .code = (int)maybe_or(json_int(json_get(e, "code")), 0) };
        const char *kind = json_str(json_get(e, "kind")), *text = json_str(json_get(e, "text"));
        for (int k = 0; k < TELEMETRY_EVENT_KINDS; k++)
            if (str_eq(kind, telemetry_event_word((enum telemetry_event_kind)k)))
                n.kind = (enum telemetry_event_kind)k;
        (void)str_copy(n.text, sizeof(n.text), text ? text : "");
        if (n.kind != TELEMETRY_EVENT_KINDS && n.kind != TELEMETRY_EVENT_AGENT && n.time_ns < to_ns)
            monitor_add_event(r->m, &n);
    }
    arena_release(&a);
    return rc;
}

enum rc remote_take(struct remote *r, struct err *err)
{
    int64_t to = clock_mono_ns() + r->ahead_ns - REMOTE_LAG_S * MONITOR_SECOND;
    enum rc rc = RC_OK;

    to -= to % MONITOR_SECOND;
    if (to <= r->from_ns)
        return RC_OK;
    for (size_t i = 0; rc == RC_OK && i < window_metric_count(r->m->all); i++)
        rc = take_metric(r, window_metric(r->m->all, i), to, err);
    if (rc == RC_OK)
        rc = take_events(r, to, err);
    if (rc != RC_OK)
        return rc;
    if (!r->m->begun_ns)
        monitor_note(r->m, r->from_ns, 0);
    monitor_note(r->m, to - MONITOR_SECOND, (uint64_t)((to - r->from_ns) / MONITOR_SECOND));
    r->from_ns = to;
    return RC_OK;
}
