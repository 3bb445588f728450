/* SPDX-License-Identifier: MIT */
/* agent_status: the agent about itself: as values beside all others, and as JSON. */
#include "agent/agent_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <math.h>
#include <stdlib.h>

/* ---- values */

void status_put(struct agent *a, const char *metric, const struct telemetry_label *labels,
                size_t count, double value)
{
    uint32_t id = telemetry_series(a->shown, a->self, telemetry_metric(metric), labels, count);

    if (id != TELEMETRY_NONE)
        a->next[id] = value;
}

static void put_one(struct agent *a, const char *metric, double value)
{
    status_put(a, metric, NULL, 0, value);
}

static void put_named(struct agent *a, const char *metric, const char *label, const char *name,
                      double value)
{
    struct telemetry_label l = { label, name };

    status_put(a, metric, &l, 1, value);
}

static double seconds_of(int64_t ns)
{
    return (double)ns / 1e9;
}

static void put_collectors(struct agent *a, int64_t mono_ns)
{
    for (size_t i = 0; i < a->source_count; i++) {
        struct thread_source *s = &a->sources[i];
        int64_t done = atomic_load(&s->done_ns);
        if (!done)
            continue;
        put_named(a, "agent.collector.age", "collector", s->c->name, seconds_of(mono_ns - done));
        put_named(a, "agent.collector.duration", "collector", s->c->name,
                  seconds_of(atomic_load(&s->cost_ns)));
        put_named(a, "agent.collector.errors", "collector", s->c->name,
                  (double)atomic_load(&s->late));
    }
}

/* Sources of feeds that are no collector thread's: the GPU child's. */
static void put_gpu_age(struct agent *a, int64_t mono_ns)
{
    const struct feed *f = &a->feeds[a->gpu_feed];

    if (!a->gpu)
        return;
    for (unsigned i = 0; i < TELEMETRY_SOURCES_MAX; i++)
        if (f->sources[i].used && f->sources[i].batch_ns)
            put_named(a, "agent.collector.age", "collector", telemetry_source_name(f->t, i),
                      seconds_of(mono_ns - f->sources[i].changed_ns));
}

static void put_target(void *arg, struct scrape_target *t)
{
    struct agent *a = arg;
    int64_t done = atomic_load(&t->done_ns);

    put_named(a, "agent.app.up", "app", t->name, atomic_load(&t->up));
    if (done)
        put_named(a, "agent.collector.age", "collector", t->name,
                  seconds_of(clock_mono_ns() - done));
    put_named(a, "agent.collector.duration", "collector", t->name,
              seconds_of(atomic_load(&t->cost_ns)));
    put_named(a, "agent.collector.errors", "collector", t->name, (double)atomic_load(&t->failed));
}

static void put_ring(struct agent *a, int64_t time_ns)
{
    struct history_stats st = { 0 };

    put_one(a, "agent.ring.errors", (double)atomic_load(&a->ring_errors));
    if (!a->ring)
        return;
    history_stats(a->ring, &st);
    put_one(a, "agent.ring.bytes", (double)st.bytes);
    put_one(a, "agent.ring.used", (double)st.used);
    put_one(a, "agent.ring.samples", (double)st.samples);
    put_one(a, "agent.ring.blocks", (double)st.blocks);
    put_one(a, "agent.ring.bad_blocks", (double)st.bad_blocks);
    put_one(a, "agent.ring.sync", seconds_of(atomic_load(&a->sync_ns)));
    if (st.oldest_ns)
        put_one(a, "agent.ring.age", seconds_of(time_ns - st.oldest_ns));
    if (st.oldest_minute_ns)
        put_one(a, "agent.ring.minute_age", seconds_of(time_ns - st.oldest_minute_ns));
}

static void put_alerts(struct agent *a)
{
    static const char *const states[] = { "pending", "firing" };
    static const char *const severities[] = { "info", "warning", "critical" };
    struct alert_sender_stats st = { 0 };
    size_t counts[2][3] = { 0 }, n;

    struct alert_active *list = alerts_copy(a->alerts, &n);
    for (size_t i = 0; i < n; i++)
        if (list[i].state <= ALERT_FIRING && list[i].rule->severity <= ALERT_CRITICAL)
            counts[list[i].state][list[i].rule->severity]++;
    free(list);
    for (size_t s = 0; s < 2; s++)
        for (size_t k = 0; k < 3; k++) {
            struct telemetry_label l[] = { { "state", states[s] }, { "severity", severities[k] } };
            status_put(a, "agent.alerts", l, 2, (double)counts[s][k]);
        }
    if (!a->sender)
        return;
    alert_sender_stats(a->sender, &st);
    put_one(a, "agent.alerts.sent", (double)st.sent);
    put_one(a, "agent.alerts.failed", (double)st.failed);
    put_one(a, "agent.alerts.dropped", (double)st.dropped);
}

static void put_counts(struct agent *a)
{
    uint64_t refused = 0;

    for (size_t i = 0; i < a->feed_count; i++)
        refused += telemetry_refused(a->feeds[i].t);
    telemetry_refused_before(a->shown, refused);
    put_named(a, "agent.build", "version", STOKER_VERSION, 1);
    put_one(a, "agent.series", (double)telemetry_count(a->shown));
    put_one(a, "agent.series.limit",
            (double)(a->o.series_max ? a->o.series_max : TELEMETRY_SERIES_DEFAULT));
    put_one(a, "agent.series.refused", (double)telemetry_refused(a->shown));
    put_one(a, "agent.scrapes", (double)atomic_load(&a->scrapes));
    if (atomic_load(&a->scrape_ns))
        put_one(a, "agent.scrape.duration", seconds_of(atomic_load(&a->scrape_ns)));
    for (int k = 0; k < TELEMETRY_EVENT_KINDS; k++)
        put_named(a, "agent.events", "kind", telemetry_event_word((enum telemetry_event_kind)k),
                  (double)atomic_load(&a->events[k]));
}

void status_publish(struct agent *a, int64_t time_ns)
{
    int64_t mono = clock_mono_ns();

    if (a->player) { /* the recording's own are played; this one says that they are */
        uint32_t id = telemetry_series(a->shown, telemetry_source(a->shown, "replay"),
                                       telemetry_metric("agent.demo"), NULL, 0);
        if (id != TELEMETRY_NONE) {
            a->next[id] = 1;
            a->dirty[telemetry_get(a->shown, id)->source] = true;
        }
        return;
    }
    put_collectors(a, mono);
    put_gpu_age(a, mono);
    scrape_each(a->scraper, put_target, a);
    put_ring(a, time_ns);
    put_alerts(a);
    put_counts(a);
    xids_put(a, time_ns);
    faults_put(a);
    a->dirty[a->self] = true;
    a->batch_ns[a->self] = time_ns;
}

/* ---- JSON */

static const char *gpu_word(int state)
{
    static const char *const words[] = { [GPU_CHILD_OFF] = "off",
                                         [GPU_CHILD_RUNS] = "runs",
                                         [GPU_CHILD_HUNG] = "hung",
                                         [GPU_CHILD_RELEASED] = "released",
                                         [GPU_CHILD_NO_DRIVER] = "no driver" };

    return (size_t)state < ARRAY_SIZE(words) ? words[state] : "unknown";
}

static void add_seconds(struct json_out *w, const char *key, int64_t ns)
{
    json_kv_num(w, key, round((double)ns / 1e6) / 1e3);
}

static void history_json(struct agent *a, struct json_out *w)
{
    struct history_stats st = { 0 };
    char why[ERR_MSG_MAX];
    bool on;

    pthread_rwlock_rdlock(&a->view);
    on = a->ring != NULL;
    if (on)
        history_stats(a->ring, &st);
    pthread_rwlock_unlock(&a->view);
    pthread_mutex_lock(&a->lock);
    (void)str_copy(why, sizeof(why), a->ring_why);
    pthread_mutex_unlock(&a->lock);
    json_obj(w);
    json_kv_str(w, "file", a->ring_path);
    json_kv_bool(w, "kept", on);
    json_kv_str(w, "why", why[0] ? why : NULL);
    if (on) {
        json_kv_int(w, "bytes", (int64_t)st.bytes);
        json_kv_int(w, "used", (int64_t)st.used);
        json_kv_int(w, "bad_blocks", (int64_t)st.bad_blocks);
        json_kv_int(w, "cut_bytes", (int64_t)st.cut_bytes);
        json_kv_int(w, "oldest", st.oldest_ns / 1000000000);
        json_kv_int(w, "newest", st.newest_ns / 1000000000);
        json_kv_int(w, "oldest_minute", st.oldest_minute_ns / 1000000000);
    }
    json_obj_end(w);
}

static void target_json(void *arg, struct scrape_target *t)
{
    struct json_out *w = arg;
    int64_t done = atomic_load(&t->done_ns);

    json_obj(w);
    json_kv_str(w, "name", t->name);
    json_kv_str(w, "url", t->url);
    json_kv_bool(w, "up", atomic_load(&t->up));
    if (done)
        add_seconds(w, "age_s", clock_mono_ns() - done);
    json_obj_end(w);
}

static void sources_json(struct agent *a, struct json_out *w)
{
    int64_t now = clock_mono_ns();

    json_arr(w);
    for (size_t i = 0; i < a->source_count; i++) {
        struct thread_source *s = &a->sources[i];
        int64_t done = atomic_load(&s->done_ns), begun = atomic_load(&s->begun_ns);
        json_obj(w);
        json_kv_str(w, "name", s->c->name);
        json_kv_int(w, "period_ms", s->period_ns / AGENT_MS);
        if (done) {
            add_seconds(w, "age_s", now - done);
            json_kv_num(w, "cost_us", (double)(atomic_load(&s->cost_ns) / 1000));
        }
        json_kv_bool(w, "hangs", begun && now - begun > AGENT_HANG_MS * AGENT_MS);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void gpu_json(struct agent *a, struct json_out *w)
{
    char why[TELEMETRY_VALUE_MAX];

    pthread_mutex_lock(&a->lock);
    (void)str_copy(why, sizeof(why), a->gpu_why);
    pthread_mutex_unlock(&a->lock);
    json_obj(w);
    json_kv_str(w, "state", a->player ? "played" : gpu_word(atomic_load(&a->gpu_state)));
    json_kv_str(w, "why", why[0] ? why : NULL);
    json_obj_end(w);
}

void status_members(void *arg, struct json_out *w)
{
    struct agent *a = arg;

    json_kv_str(w, "version", STOKER_VERSION);
    json_kv_str(w, "host", a->host);
    json_kv_bool(w, "demo", a->o.demo);
    if (a->player) {
        json_key(w, "replay");
        player_describe(a->player, w);
    }
    json_kv_int(w, "started", a->begun_wall_ns / 1000000000);
    add_seconds(w, "uptime_s", clock_mono_ns() - a->begun_ns);
    json_kv_int(w, "period_ms", a->o.period_ms);
    json_kv_int(w, "seconds", (int64_t)atomic_load(&a->seconds));
    json_kv_int(w, "missed", (int64_t)atomic_load(&a->missed));
    add_seconds(w, "age_s", clock_mono_ns() - atomic_load(&a->turned_ns));
    json_kv_int(w, "series", (int64_t)telemetry_count(a->shown));
    json_kv_int(w, "series_refused", (int64_t)telemetry_refused(a->shown));
    json_key(w, "driver");
    gpu_json(a, w);
    json_key(w, "history");
    history_json(a, w);
    json_kv_str(w, "recording", a->o.record);
    json_kv_obj(w, "kernel_log");
    json_kv_bool(w, "read", !a->kernel_log && !a->player);
    json_kv_str(w, "why", a->kernel_log ? strerror(a->kernel_log) : NULL);
    json_obj_end(w);
    json_key(w, "sources");
    sources_json(a, w);
    json_kv_arr(w, "applications");
    scrape_each(a->scraper, target_json, w);
    json_arr_end(w);
}

void agent_status(struct agent *a, struct buf *out)
{
    struct json_out w;

    json_doc(&w, out, "stoker.agent/1");
    json_kv_bool(&w, "alive", agent_alive(a));
    if (a->port > 0)
        json_kv_int(&w, "port", a->port);
    if (a->metrics_port > 0)
        json_kv_int(&w, "metrics_port", a->metrics_port);
    status_members(a, &w);
    json_doc_end(&w);
}

static void value_json(const struct telemetry_series *s, double value, struct json_out *w)
{
    json_obj(w);
    json_kv_str(w, "metric", s->metric->id);
    json_kv_str(w, "unit", s->metric->unit);
    json_kv_obj(w, "labels");
    for (size_t i = 0; i < s->label_count; i++)
        json_kv_str(w, s->labels[i].name, s->labels[i].value);
    json_obj_end(w);
    json_kv_num(w, "value", value);
    json_obj_end(w);
}

void agent_values(struct agent *a, struct buf *out)
{
    double *values = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*values));
    struct json_out w;
    size_t n;

    pthread_mutex_lock(&a->show);
    telemetry_hold(a->shown); /* until the last of them is written */
    n = telemetry_copy(a->shown, values, TELEMETRY_SERIES_MAX);
    pthread_mutex_unlock(&a->show);
    json_out_init(&w, out, 1);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.telemetry/1");
    json_kv_str(&w, "host", a->host);
    json_kv_bool(&w, "demo", a->o.demo);
    json_kv_int(&w, "time", agent_wall_ns() / 1000000000);
    json_kv_arr(&w, "values");
    for (size_t i = 0; i < n; i++)
        if (!isnan(values[i]))
            value_json(telemetry_get(a->shown, (uint32_t)i), values[i], &w);
    telemetry_let(a->shown);
    json_arr_end(&w);
    json_obj_end(&w);
    buf_addc(out, '\n');
    free(values);
}
