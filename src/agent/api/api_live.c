/* SPDX-License-Identifier: MIT */
/* api_live: server-sent events.
 *
 *     event: hello   {"time_ms", "period_ms", "demo"}           at once
 *     event: values  {"time_ms", "count", "full", "id": […], "value": […]}    each second
 *     event: event   one of /events                             as it comes
 *     event: alerts  the list of /alerts                        when one fires, resolves or goes
 *
 * Values are those that changed since the second before; a client's first are all of them.  Their
 * ids are those of /series, whose list has grown when `count` has.  The text of a second is made
 * once for every set of entities that somebody asked for, not once a client. */
#include "agent/api/api_parts_int.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

enum {
    LIVE_DEFAULT =
        1U << TELEMETRY_HOST | 1U << TELEMETRY_GPU | 1U << TELEMETRY_MODEL | 1U << TELEMETRY_JOB
};

static void begin_event(struct buf *out, struct json_out *w, const char *name)
{
    buf_addf(out, "event: %s\ndata: ", name);
    json_out_init(w, out, 0);
}

static void end_event(struct buf *out)
{
    buf_adds(out, "\n\n");
}

/* ---- a client comes */
void api_refuse(struct http_exchange *x, int status, const char *why)
{
    struct buf body = { 0 };
    struct json_out w;

    json_out_init(&w, &body, 0);
    json_obj(&w);
    json_kv_str(&w, "error", why);
    json_obj_end(&w);
    http_reply(x, status, "application/json", &body, NULL);
}

static void send_hello(struct agent_api *a, struct buf *out)
{
    struct json_out w;

    buf_adds(out, "retry: 2000\n");
    begin_event(out, &w, "hello");
    json_obj(&w);
    api_add_time(&w, "time_ms", api_now_ns(a));
    json_kv_int(&w, "period_ms", a->o.period_ms ? a->o.period_ms : 1000);
    json_kv_bool(&w, "demo", a->o.demo);
    json_obj_end(&w);
    end_event(out);
}

static bool add_client(struct agent_api *a, struct http_exchange *x, unsigned entities)
{
    struct buf text = { 0 };
    bool room;

    send_hello(a, &text);
    pthread_mutex_lock(&a->lock);
    room = !a->ending && a->client_count < API_LIVE_MAX;
    if (room) {
        http_stream_begin(x, "text/event-stream",
                          "Cache-Control: no-store\r\n"
                          "X-Content-Type-Options: nosniff\r\n");
        (void)!http_stream_send(x, text.data, text.len); /* its first second tells */
        a->clients[a->client_count++] = (struct api_client){ x, entities, true };
    }
    pthread_mutex_unlock(&a->lock);
    buf_release(&text);
    return room;
}

/* Those who left since the last second make room. */
static void forget_gone(struct agent_api *a)
{
    pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->client_count;) {
        if (!http_gone(a->clients[i].x)) {
            i++;
            continue;
        }
        http_stream_end(a->clients[i].x);
        a->clients[i] = a->clients[--a->client_count];
    }
    pthread_mutex_unlock(&a->lock);
}

void api_live(void *arg, struct http_exchange *x)
{
    static const char *const names[] = { "entity", NULL };
    struct agent_api *a = arg;
    struct api_params p;
    struct err err = { 0 };
    unsigned entities;

    if (api_params_read(http_request(x)->query, &p, &err) || api_params_check(&p, names, &err) ||
        api_param_entities(&p, "entity", LIVE_DEFAULT, &entities, &err)) {
        api_refuse(x, 400, err.msg);
        return;
    }
    forget_gone(a);
    if (!add_client(a, x, entities))
        api_refuse(x, 503, "too many listen already");
}

/* ---- a second */
static bool value_differs(const struct agent_api *a, size_t i)
{
    if (i >= a->before_count)
        return !isnan(a->values[i]);
    return isnan(a->values[i]) ? !isnan(a->before[i]) : a->values[i] != a->before[i];
}

/* The ids, then the values, of what is new; full: of all that is known. */
static void add_part(struct agent_api *a, struct json_out *w, unsigned entities, bool full,
                     size_t count, bool ids)
{
    json_kv_arr(w, ids ? "id" : "value");
    for (size_t i = 0; i < count; i++) {
        const struct telemetry_series *s;

        if (full ? isnan(a->values[i]) : !value_differs(a, i))
            continue;
        s = telemetry_get(a->o.telemetry, (uint32_t)i);
        if (!s || !(entities & 1U << s->metric->entity))
            continue;
        if (ids)
            json_add_int(w, (int64_t)i);
        else
            api_add_value(w, a->values[i]);
    }
    json_arr_end(w);
}

static void values_text(struct agent_api *a, int64_t time_ns, unsigned entities, bool full,
                        size_t count, struct buf *out)
{
    struct json_out w;

    begin_event(out, &w, "values");
    json_obj(&w);
    api_add_time(&w, "time_ms", time_ns);
    json_kv_int(&w, "count", (int64_t)count);
    json_kv_int(&w, "renewed", (int64_t)telemetry_renewed(a->o.telemetry));
    json_kv_bool(&w, "full", full);
    add_part(a, &w, entities, full, count, true);
    add_part(a, &w, entities, full, count, false);
    json_obj_end(&w);
    end_event(out);
}

/* Events since the last one that was sent; those of its very time are counted. */
static void events_text(struct agent_api *a, struct buf *out)
{
    size_t n, skip = a->event_same;
    struct telemetry_event *list = telemetry_events_copy(a->o.telemetry, a->event_ns, &n);

    for (size_t i = 0; i < n; i++) {
        struct json_out w;

        if (list[i].time_ns == a->event_ns && skip) {
            skip--;
            continue;
        }
        if (list[i].time_ns > a->event_ns) {
            a->event_ns = list[i].time_ns;
            a->event_same = 0;
        }
        a->event_same++;
        begin_event(out, &w, "event");
        api_add_event(&w, &list[i]);
        end_event(out);
    }
    free(list);
}

static uint64_t mix_hash(uint64_t hash, uint64_t v)
{
    return (hash ^ v) * UINT64_C(0x100000001b3);
}

enum { LIVE_WORDS_MAX = 64 }; /* alerts whose words are followed; of more only their states are */

/* Who fires since when, and in which words: these follow the values. */
static uint64_t alerts_hash(struct agent_api *a)
{
    struct alert_active *list = NULL;
    struct api_view view;
    uint64_t hash = 1;
    size_t n = 0;

    api_enter(a, &view);
    if (view.alerts)
        list = alerts_copy(view.alerts, &n);
    for (size_t i = 0; i < n; i++) {
        hash = mix_hash(mix_hash(hash, list[i].series), (uint64_t)list[i].state);
        hash = mix_hash(mix_hash(hash, (uint64_t)list[i].since_ns), (uint64_t)list[i].fired_ns);
        hash = mix_hash(hash, list[i].root_rule ? list[i].root_series + UINT64_C(1) : 0);
        for (const char *s = list[i].rule->name; *s; s++)
            hash = mix_hash(hash, (unsigned char)*s);
        for (const char *s = list[i].summary; *s && n <= LIVE_WORDS_MAX; s++)
            hash = mix_hash(hash, (unsigned char)*s);
    }
    api_leave(a);
    free(list);
    return hash;
}

static void alerts_text(struct agent_api *a, struct buf *out)
{
    uint64_t hash = alerts_hash(a);
    struct json_out w;

    if (hash == a->alerts_hash)
        return;
    a->alerts_hash = hash;
    begin_event(out, &w, "alerts");
    api_add_alerts(a, &w);
    end_event(out);
}

/* Everybody's own values, then what is for all.  The lock is held. */
static void send_all(struct agent_api *a, int64_t time_ns, size_t count, const struct buf *common)
{
    struct buf text = { 0 };
    unsigned of = 0;
    bool full = false;

    for (size_t i = 0; i < a->client_count;) {
        struct api_client *c = &a->clients[i];

        if (!text.len || of != c->entities || full != c->fresh) {
            buf_reset(&text);
            of = c->entities;
            full = c->fresh;
            values_text(a, time_ns, of, full, count, &text);
        }
        c->fresh = false;
        if (http_stream_send(c->x, text.data, text.len) &&
            (!common->len || http_stream_send(c->x, common->data, common->len))) {
            i++;
            continue;
        }
        http_stream_end(c->x);
        *c = a->clients[--a->client_count];
    }
    buf_release(&text);
}

void api_tick(struct agent_api *a, int64_t time_ns)
{
    struct buf common = { 0 };
    double *swap = a->before;
    bool heard;
    size_t count;

    pthread_mutex_lock(&a->lock);
    heard = a->client_count > 0;
    pthread_mutex_unlock(&a->lock);
    events_text(a, &common);
    alerts_text(a, &common);
    if (heard) {
        count = telemetry_copy(a->o.telemetry, a->values, TELEMETRY_SERIES_MAX);
        pthread_mutex_lock(&a->lock);
        send_all(a, time_ns, count, &common);
        pthread_mutex_unlock(&a->lock);
        a->before = a->values;
        a->values = swap;
        a->before_count = count;
    }
    buf_release(&common);
}

void api_live_free(struct agent_api *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->client_count)
        http_stream_end(a->clients[--a->client_count].x);
    pthread_mutex_unlock(&a->lock);
}

size_t api_live_count(struct agent_api *a)
{
    size_t n;

    pthread_mutex_lock(&a->lock);
    n = a->client_count;
    pthread_mutex_unlock(&a->lock);
    return n;
}
