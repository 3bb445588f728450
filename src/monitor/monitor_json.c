/* SPDX-License-Identifier: MIT */
/* monitor_json: a run for programs, schema stoker.monitor/1. */
#include "monitor/monitor_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>

static void add_metric(const struct monitor *m, const struct monitor_row *r, int gpu,
                       struct json_out *w)
{
    const struct window_slot *s = monitor_slot(m, r->metric, gpu);

    json_key(w, r->key);
    if (!s) {
        json_add_null(w);
        return;
    }
    json_obj(w);
    json_kv_str(w, "metric", r->metric);
    json_kv_str(w, "unit", r->unit);
    json_kv_num(w, "mean", window_mean(s) * r->scale);
    json_kv_num(w, "p50", window_quantile(s, 0.5) * r->scale);
    json_kv_num(w, "p95", window_quantile(s, 0.95) * r->scale);
    json_kv_num(w, "min", s->min * r->scale);
    json_kv_num(w, "max", s->max * r->scale);
    json_kv_int(w, "samples", (int64_t)s->count);
    json_obj_end(w);
}

static void add_gpu(const struct monitor *m, int gpu, struct json_out *w)
{
    json_obj(w);
    json_kv_int(w, "gpu", gpu);
    json_kv_str(w, "model", monitor_model(m, gpu));
    json_kv_obj(w, "metrics");
    for (size_t i = 0; i < monitor_row_count; i++)
        add_metric(m, &monitor_rows[i], gpu, w);
    json_obj_end(w);
    json_kv_num(w, "memory_total_bytes", window_mean(monitor_slot(m, "gpu.fb.total", gpu)));
    json_kv_obj(w, "held_back");
    json_kv_num(w, "power", monitor_held(m, gpu, HELD_POWER));
    json_kv_num(w, "heat", monitor_held(m, gpu, HELD_HEAT));
    json_kv_num(w, "brake", monitor_held(m, gpu, HELD_BRAKE));
    json_obj_end(w);
    json_kv_obj(w, "errors");
    json_kv_int(w, "xid", (int64_t)monitor_xids(m, gpu));
    for (const struct monitor_error *e = monitor_errors; e->metric; e++) {
        const struct window_slot *s = monitor_slot(m, e->metric, gpu);
        if (e->key)
            json_kv_num(w, e->key, s && s->rise_ns > 0 ? s->rise : NAN);
    }
    json_obj_end(w);
    json_obj_end(w);
}

static void add_targets(const struct monitor *m, struct json_out *w)
{
    struct target_result *r = xcalloc(MONITOR_RESULTS_MAX, sizeof(*r));

    json_kv_arr(w, "targets");
    for (size_t i = 0; i < m->target_count; i++)
        for (size_t k = 0, n = target_judge(m, &m->targets[i], r, MONITOR_RESULTS_MAX); k < n;
             k++) {
            json_obj(w);
            json_kv_str(w, "target", m->targets[i].text);
            json_kv_bool(w, "default", m->targets[i].dflt);
            if (m->targets[i].goal[0])
                json_kv_str(w, "goal", m->targets[i].goal);
            json_kv_maybe(w, "gpu", r[k].gpu < 0 ? maybe_none() : maybe_of(r[k].gpu));
            json_kv_str(w, "series", r[k].label[0] ? r[k].label : NULL);
            json_kv_num(w, "value", r[k].value);
            json_kv_str(w, "state", target_word(r[k].state));
            json_obj_end(w);
        }
    json_arr_end(w);
    free(r);
}

static void add_processes(const struct monitor *m, struct json_out *w)
{
    json_kv_arr(w, "processes");
    for (size_t i = 0; i < window_count(m->all); i++) {
        const struct window_slot *s = window_at(m->all, i);
        if (!str_eq(s->id, "process.gpu.memory") || !s->count)
            continue;
        json_obj(w);
        json_kv_int(w, "gpu", s->gpu);
        json_kv_str(w, "pid", window_label(s, "pid"));
        json_kv_str(w, "command", window_label(s, "command"));
        json_kv_str(w, "user", window_label(s, "user"));
        json_kv_int(w, "first_ms", s->first_ns / 1000000);
        json_kv_int(w, "last_ms", s->last_ns / 1000000);
        json_kv_num(w, "first_bytes", s->first);
        json_kv_num(w, "mean_bytes", window_mean(s));
        json_kv_num(w, "max_bytes", s->max);
        json_kv_num(w, "last_bytes", s->last);
        json_obj_end(w);
    }
    json_arr_end(w);
}

static void add_phases(const struct monitor *m, struct json_out *w)
{
    struct monitor_phase *p = xcalloc(MONITOR_PHASES_MAX, sizeof(*p));
    size_t n = monitor_phases(m, p, MONITOR_PHASES_MAX);

    json_kv_arr(w, "phases");
    for (size_t i = 0; i < n; i++) {
        json_obj(w);
        json_kv_int(w, "from_ms", p[i].from_ns / 1000000);
        json_kv_int(w, "to_ms", p[i].to_ns / 1000000);
        json_key(w, "verdict");
        bottleneck_verdict_json(&p[i].verdict, w);
        json_obj_end(w);
    }
    json_arr_end(w);
    free(p);
}

static void add_events(const struct monitor *m, struct json_out *w)
{
    json_kv_arr(w, "events");
    for (size_t i = 0; i < m->event_count; i++) {
        const struct telemetry_event *e = &m->events[i];
        json_obj(w);
        json_kv_int(w, "time_ms", e->time_ns / 1000000);
        json_kv_str(w, "kind", telemetry_event_word(e->kind));
        json_kv_maybe(w, "gpu", e->gpu < 0 ? maybe_none() : maybe_of(e->gpu));
        json_kv_maybe(w, "code", e->code ? maybe_of(e->code) : maybe_none());
        json_kv_str(w, "text", e->text);
        json_obj_end(w);
    }
    json_arr_end(w);
}

void monitor_json(const struct monitor *m, struct buf *out)
{
    struct bottleneck_report *r = xcalloc(1, sizeof(*r));
    struct json_out w;

    json_doc(&w, out, "stoker.monitor/1");
    json_kv_str(&w, "host", m->host[0] ? m->host : NULL);
    json_kv_str(&w, "source", m->source);
    json_kv_bool(&w, "torn", m->torn);
    json_kv_maybe(&w, "from_ms", m->samples ? maybe_of(m->begun_ns / 1000000) : maybe_none());
    json_kv_maybe(&w, "to_ms", m->samples ? maybe_of(m->last_ns / 1000000) : maybe_none());
    json_kv_int(&w, "interval_ms", m->interval_ns / 1000000);
    json_kv_int(&w, "samples", (int64_t)m->samples);
    json_kv_arr(&w, "gpus");
    for (size_t i = 0; i < m->gpu_count; i++)
        add_gpu(m, m->gpus[i], &w);
    json_arr_end(&w);
    add_targets(m, &w);
    add_processes(m, &w);
    monitor_whole(m, r);
    json_kv_obj(&w, "limits");
    bottleneck_report_json(r, &w);
    json_obj_end(&w);
    add_phases(m, &w);
    add_events(m, &w);
    json_doc_end(&w);
    free(r);
}
