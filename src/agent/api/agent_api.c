/* SPDX-License-Identifier: MIT */
/* agent_api: the routes, the threads that answer what needs the disk or the network, and the small
 * documents. */
#include "agent/api/api_parts_int.h"

#include "base/codec/gzip.h"
#include "base/mem.h"
#include "base/str.h"
#include "hw/print/hw_print.h"
#include "nccl/nccl.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    VALUE_DIGITS = 7,        /* of a number in a reply */
    API_PACK_BYTES = 4 << 10 /* a shorter reply is not packed */
};

static const char json_type[] = "application/json";
static const char no_store[] = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";

/* ---- what all answers use */
int64_t api_now_ns(const struct agent_api *a)
{
    struct timespec t;

    if (a->o.now_ns)
        return a->o.now_ns();
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * API_SECOND + t.tv_nsec;
}

void api_enter(struct agent_api *a, struct api_view *out)
{
    *out = a->o.view;
    if (a->o.enter)
        a->o.enter(a->o.arg, out);
}

void api_leave(struct agent_api *a)
{
    if (a->o.enter && a->o.leave)
        a->o.leave(a->o.arg);
}

void api_add_value(struct json_out *w, double v)
{
    char text[40];

    if (!isfinite(v)) {
        json_add_null(w);
        return;
    }
    if (v == floor(v) && fabs(v) < 9e15)
        snprintf(text, sizeof(text), "%.0f", v == 0 ? 0.0 : v);
    else
        snprintf(text, sizeof(text), "%.*g", VALUE_DIGITS, v);
    buf_adds(json_raw(w), text);
}

void api_add_time(struct json_out *w, const char *key, int64_t ns)
{
    json_kv_maybe(w, key, ns ? maybe_of(ns / 1000000) : maybe_none());
}

void api_add_doc(struct agent_api *a, struct json_out *w, const char *key, const char *name)
{
    struct buf doc = { .max = API_BODY_MAX / 2 };

    json_key(w, key);
    if (telemetry_doc_copy(a->o.telemetry, name, &doc) && doc.len && !doc.over)
        buf_add(json_raw(w), doc.data, doc.len);
    else
        json_add_null(w);
    buf_release(&doc);
}

/* ---- /api/v1/node */
/* What a fleet shows of a GPU, and what tells why one is slow. */
const char *const api_brief[API_BRIEF] = {
    "gpu.util",           "gpu.prof.tensor",  "gpu.fb.used",      "gpu.fb.total",
    "gpu.temp",           "gpu.temp.margin",  "gpu.power",        "gpu.power.limit",
    "gpu.clock.sm",       "gpu.clock.sm.max", "gpu.clock_events", "gpu.pcie.width",
    "gpu.pcie.width.max", "gpu.lost",         "gpu.processes",    "gpu.xid.last",
};

struct gpu_brief {
    const struct telemetry_series *first; /* whose labels are shown; NULL: no such GPU */
    double now[API_BRIEF];
};

static void gather_gpus(struct agent_api *a, struct gpu_brief *gpus, const double *values,
                        size_t count)
{
    for (size_t i = 0; i < API_GPUS_MAX; i++)
        for (size_t k = 0; k < API_BRIEF; k++)
            gpus[i].now[k] = NAN;
    for (uint32_t id = 0; id < count; id++) {
        const struct telemetry_series *s = telemetry_get(a->o.telemetry, id);
        const char *text = s && s->metric->entity == TELEMETRY_GPU ? api_label(s, "gpu") : NULL;
        uint64_t gpu;

        if (!text || !str_to_u64(text, 10, &gpu) || gpu >= API_GPUS_MAX)
            continue;
        if (!gpus[gpu].first)
            gpus[gpu].first = s;
        for (size_t k = 0; k < API_BRIEF; k++)
            if (str_eq(s->metric->id, api_brief[k])) {
                gpus[gpu].now[k] = values[id];
                if (!api_label(gpus[gpu].first, "modelName") && api_label(s, "modelName"))
                    gpus[gpu].first = s; /* some metrics lack the name */
            }
    }
}

static void add_gpus(struct agent_api *a, struct json_out *w)
{
    struct gpu_brief *gpus = xcalloc(API_GPUS_MAX, sizeof(*gpus));
    double *values = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*values));

    telemetry_hold(a->o.telemetry);
    gather_gpus(a, gpus, values, telemetry_copy(a->o.telemetry, values, TELEMETRY_SERIES_MAX));
    json_kv_arr(w, "gpus");
    for (size_t i = 0; i < API_GPUS_MAX; i++) {
        if (!gpus[i].first)
            continue;
        json_obj(w);
        json_kv_int(w, "gpu", (int64_t)i);
        json_key(w, "labels");
        api_add_labels(w, gpus[i].first);
        json_kv_obj(w, "now");
        for (size_t k = 0; k < API_BRIEF; k++) {
            json_key(w, api_brief[k]);
            api_add_value(w, gpus[i].now[k]);
        }
        json_obj_end(w);
        json_obj_end(w);
    }
    json_arr_end(w);
    telemetry_let(a->o.telemetry);
    free(values);
    free(gpus);
}

static void add_sources(struct agent_api *a, struct json_out *w, int64_t now)
{
    json_kv_arr(w, "sources");
    for (unsigned i = 0; i < TELEMETRY_SOURCES_MAX && *telemetry_source_name(a->o.telemetry, i);
         i++) {
        int64_t age = telemetry_age_ns(a->o.telemetry, i, now);

        json_obj(w);
        json_kv_str(w, "name", telemetry_source_name(a->o.telemetry, i));
        json_kv_maybe(w, "age_ms", age < 0 ? maybe_none() : maybe_of(age / 1000000));
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void add_history(struct agent_api *a, struct json_out *w)
{
    struct history_stats r = { 0 };
    struct api_view view;

    api_enter(a, &view);
    if (view.ring)
        history_stats(view.ring, &r);
    api_leave(a);
    json_key(w, "history");
    if (!view.ring) {
        json_add_null(w);
        return;
    }
    json_obj(w);
    json_kv_int(w, "bytes", (int64_t)r.bytes);
    json_kv_int(w, "used_bytes", (int64_t)r.used);
    json_kv_int(w, "samples", (int64_t)r.samples);
    json_kv_int(w, "bad_blocks", (int64_t)r.bad_blocks);
    api_add_time(w, "oldest_ms", r.oldest_ns);
    api_add_time(w, "oldest_minute_ms", r.oldest_minute_ns);
    api_add_time(w, "newest_ms", r.newest_ns);
    json_obj_end(w);
}

static void add_counts(struct agent_api *a, struct json_out *w, size_t series)
{
    json_kv_obj(w, "series");
    json_kv_int(w, "count", (int64_t)series);
    json_kv_int(w, "refused", (int64_t)telemetry_refused(a->o.telemetry));
    json_obj_end(w);
    api_add_firing(a, w);
}

static enum rc answer_node(struct agent_api *a, const struct api_params *p, struct buf *out,
                           struct err *err)
{
    static const char *const names[] = { NULL };
    size_t count = telemetry_count(a->o.telemetry);
    int64_t now = api_now_ns(a);
    struct json_out w;
    enum rc rc = api_params_check(p, names, err);

    if (rc)
        return rc;
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.node/1");
    json_kv_str(&w, "host", a->o.host);
    json_kv_str(&w, "version", STOKER_VERSION);
    json_kv_bool(&w, "demo", a->o.demo);
    json_kv_str(&w, "note", a->o.note);
    json_kv_str(&w, "serve_url", a->o.serve_url);
    api_add_time(&w, "time_ms", now);
    api_add_time(&w, "begun_ms", a->o.begun_ns);
    json_kv_int(&w, "period_ms", a->o.period_ms ? a->o.period_ms : 1000);
    add_gpus(a, &w);
    add_sources(a, &w, now);
    add_history(a, &w);
    add_counts(a, &w, count);
    json_kv_int(&w, "fleet", (int64_t)(a->o.fleet && a->o.fleet[0]));
    api_add_jobs(a, &w);
    json_key(&w, "story");
    if (a->o.story)
        a->o.story(a->o.arg, &w);
    else
        json_add_null(&w);
    json_key(&w, "agent");
    if (a->o.status)
        a->o.status(a->o.arg, &w);
    else
        json_add_null(&w);
    json_obj_end(&w);
    return RC_OK;
}

/* ---- documents */
static enum rc answer_processes(struct agent_api *a, const struct api_params *p, struct buf *out,
                                struct err *err)
{
    static const char *const names[] = { NULL };
    struct json_out w;
    enum rc rc = api_params_check(p, names, err);

    if (rc)
        return rc;
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.gpu-processes/1");
    api_add_time(&w, "time_ms", api_now_ns(a));
    api_add_processes(a, &w);
    api_add_doc(a, &w, "gpu_labels", "gpu_labels");
    api_add_doc(a, &w, "jobs", "jobs");
    json_obj_end(&w);
    return RC_OK;
}

static enum rc read_inventory(struct agent_api *a, struct hw **out, struct err *err)
{
    struct buf doc = { .max = API_BODY_MAX / 2 };
    enum rc rc;

    if (!telemetry_doc_copy(a->o.telemetry, "inventory", &doc) || !doc.len)
        rc = err_set(err, RC_NODEV, "the inventory of this machine is not known");
    else
        rc = hw_read_json(doc.data, doc.len, out, err);
    buf_release(&doc);
    return rc;
}

static enum rc answer_topology(struct agent_api *a, const struct api_params *p, struct buf *out,
                               struct err *err)
{
    static const char *const names[] = { NULL };
    struct buf svg = { 0 }, topo = { 0 }, nccl = { 0 };
    struct hw *hw = NULL;
    struct json_out w;
    enum rc rc = api_params_check(p, names, err);

    if (!rc)
        rc = read_inventory(a, &hw, err);
    if (rc)
        return rc;
    nccl_picture(hw, &svg);
    hw_topo_json(hw, &topo);
    nccl_write_json(hw, NULL, &nccl);
    hw_free(hw);
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.topology/1");
    json_key(&w, "svg");
    json_add_strn(&w, buf_str(&svg), svg.len);
    json_key(&w, "topo");
    if (topo.len)
        buf_add(json_raw(&w), topo.data, topo.len);
    else
        json_add_null(&w);
    json_key(&w, "nccl");
    buf_add(json_raw(&w), buf_str(&nccl), nccl.len);
    json_obj_end(&w);
    buf_release(&svg);
    buf_release(&topo);
    buf_release(&nccl);
    return RC_OK;
}

/* ---- answering */
static void reply_error(struct http_exchange *x, int status, const struct err *err)
{
    struct buf body = { 0 };
    struct json_out w;

    json_out_init(&w, &body, 0);
    json_obj(&w);
    json_kv_str(&w, "error", err->msg);
    if (err->hint[0])
        json_kv_str(&w, "hint", err->hint);
    json_obj_end(&w);
    http_reply(x, status, json_type, &body, no_store);
}

/* Packed where the client takes it and it is worth the work: on the api's own threads only. */
static void reply_packed(struct http_exchange *x, struct buf *body)
{
    struct buf packed = { 0 };

    if (body->len < API_PACK_BYTES ||
        !http_wish(http_field(http_request(x), "accept-encoding"), "gzip")) {
        http_reply(x, 200, json_type, body, no_store);
        return;
    }
    gzip_pack(buf_str(body), body->len, &packed);
    buf_release(body);
    http_reply(x, 200, json_type, &packed,
               "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
               "Vary: Accept-Encoding\r\nContent-Encoding: gzip\r\n");
}

static void answer_job(struct agent_api *a, struct api_job job)
{
    struct buf body = { .max = API_BODY_MAX };
    struct api_params p;
    struct err err = { 0 };
    enum rc rc = api_params_read(http_request(job.x)->query, &p, &err);

    if (!rc)
        rc = job.answer(a, &p, &body, &err);
    if (!rc && job.packs) {
        reply_packed(job.x, &body);
        return;
    }
    if (!rc) {
        http_reply(job.x, 200, json_type, &body, no_store);
        return;
    }
    buf_release(&body);
    reply_error(job.x, rc == RC_USAGE ? 400 : rc == RC_NODEV ? 404 : 503, &err);
}

static void reply_busy(struct http_exchange *x)
{
    struct err err = { 0 };

    (void)err_set(&err, RC_LIMIT, "too many questions wait already");
    reply_error(x, 503, &err);
}

/* Into the queue of a thread. */
static void queue_job(struct agent_api *a, int thread, struct api_job job)
{
    struct api_thread *l = &a->threads[thread];
    bool full;

    pthread_mutex_lock(&a->lock);
    full = a->ending || l->count == API_QUEUE_MAX;
    if (!full) {
        l->queue[(l->first + l->count++) % API_QUEUE_MAX] = job;
        pthread_cond_signal(&l->come);
    }
    pthread_mutex_unlock(&a->lock);
    if (full)
        reply_busy(job.x);
}

static void *run_queue(void *arg)
{
    struct api_thread *l = arg;
    struct agent_api *a = l->a;

    for (;;) {
        struct api_job job;
        bool ending;

        pthread_mutex_lock(&a->lock);
        while (!l->count && !a->ending)
            pthread_cond_wait(&l->come, &a->lock);
        if (!l->count) {
            pthread_mutex_unlock(&a->lock);
            return NULL;
        }
        job = l->queue[l->first];
        l->first = (l->first + 1) % API_QUEUE_MAX;
        l->count--;
        ending = a->ending;
        pthread_mutex_unlock(&a->lock);
        if (ending || http_gone(job.x))
            reply_busy(job.x);
        else
            answer_job(a, job);
    }
}

#define NOW(name, fn)                                                                              \
    static void name(void *arg, struct http_exchange *x)                                           \
    {                                                                                              \
        answer_job(arg, (struct api_job){ x, fn, false });                                         \
    }
#define LATER(name, thread, fn)                                                                    \
    static void name(void *arg, struct http_exchange *x)                                           \
    {                                                                                              \
        queue_job(arg, thread, (struct api_job){ x, fn, true });                                   \
    }
/* The same answers for a caller in this process. */
enum rc api_ask(struct agent_api *a, const char *path, struct buf *out, struct err *err)
{
    static const struct {
        const char *path;
        enum rc (*answer)(struct agent_api *, const struct api_params *, struct buf *,
                          struct err *);
    } rows[] = {
        { "/api/v1/node", answer_node },  { "/api/v1/series", api_series },
        { "/api/v1/query", api_history }, { "/api/v1/events", api_events },
        { "/api/v1/alerts", api_alerts }, { "/api/v1/processes", answer_processes },
        { "/api/v1/models", api_models }, { "/api/v1/topology", answer_topology },
    };
    size_t len = strcspn(path, "?");
    struct api_params *p;
    enum rc rc;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (strlen(rows[i].path) != len || memcmp(rows[i].path, path, len) != 0)
            continue;
        p = xcalloc(1, sizeof(*p));
        rc = api_params_read(path[len] ? path + len + 1 : "", p, err);
        if (!rc)
            rc = rows[i].answer(a, p, out, err);
        free(p);
        return rc;
    }
    return err_set(err, RC_NODEV, "the API has no '%.*s'", (int)len, path);
}

NOW(on_node, answer_node)
NOW(on_series, api_series)
NOW(on_models, api_models)
NOW(on_alerts, api_alerts)
NOW(on_rules, api_rules)
NOW(on_processes, answer_processes)
LATER(on_topology, API_DISK, answer_topology)
LATER(on_query, API_DISK, api_history)
LATER(on_events, API_DISK, api_events)
LATER(on_limits, API_DISK, api_limits)
LATER(on_fleet, API_NETWORK, api_fleet)

/* ---- the public side */
static void set_routes(struct agent_api *a)
{
    const struct http_route rows[API_ROUTES] = {
        { HTTP_GET, "/", api_page, a, true },
        { HTTP_GET, "/openapi.json", api_openapi, a, true },
        { HTTP_GET, "/api/v1/node", on_node, a, false },
        { HTTP_GET, "/api/v1/series", on_series, a, false },
        { HTTP_GET, "/api/v1/query", on_query, a, false },
        { HTTP_GET, "/api/v1/events", on_events, a, false },
        { HTTP_GET, "/api/v1/alerts", on_alerts, a, false },
        { HTTP_GET, "/api/v1/rules", on_rules, a, false },
        { HTTP_GET, "/api/v1/processes", on_processes, a, false },
        { HTTP_GET, "/api/v1/models", on_models, a, false },
        { HTTP_GET, "/api/v1/topology", on_topology, a, false },
        { HTTP_GET, "/api/v1/limits", on_limits, a, false },
        { HTTP_GET, "/api/v1/fleet", on_fleet, a, false },
        { HTTP_GET, "/api/v1/live", api_live, a, false },
    };

    memcpy(a->routes, rows, sizeof(rows));
}

static enum rc start_threads(struct agent_api *a, struct err *err)
{
    sigset_t all, old;
    int e = 0;

    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (size_t i = 0; i < API_THREADS && !e; i++) {
        e = pthread_create(&a->threads[i].thread, NULL, run_queue, &a->threads[i]);
        a->threads[i].on = !e;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = e;
    return e ? err_sys(err, "could not start a thread") : RC_OK;
}

enum rc api_new(const struct api_opts *o, struct agent_api **out, struct err *err)
{
    struct agent_api *a = xcalloc(1, sizeof(*a));
    enum rc rc;

    a->o = *o;
    set_routes(a);
    pthread_mutex_init(&a->lock, NULL);
    for (size_t i = 0; i < API_THREADS; i++) {
        a->threads[i].a = a;
        pthread_cond_init(&a->threads[i].come, NULL);
    }
    a->values = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*a->values));
    a->before = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*a->before));
    a->event_ns = api_now_ns(a);
    api_fleet_open(a);
    rc = start_threads(a, err);
    if (rc)
        api_free(a);
    else
        *out = a;
    return rc;
}

const struct http_route *api_routes(struct agent_api *a, size_t *count)
{
    *count = API_ROUTES;
    return a->routes;
}

void api_free(struct agent_api *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->ending = true;
    for (size_t i = 0; i < API_THREADS; i++)
        pthread_cond_signal(&a->threads[i].come);
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; i < API_THREADS; i++)
        if (a->threads[i].on)
            pthread_join(a->threads[i].thread, NULL);
    api_live_free(a);
    for (size_t i = 0; i < API_THREADS; i++)
        pthread_cond_destroy(&a->threads[i].come);
    pthread_mutex_destroy(&a->lock);
    api_fleet_close(a);
    free(a->values);
    free(a->before);
    free(a);
}
