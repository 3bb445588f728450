/* SPDX-License-Identifier: MIT */
/* models_meter: what the manager counts.  Gauges are set when something changes, so that
 * a scrape takes no lock of ours. */
#include "serve/models/manager_int.h"

#include "base/str.h"

void meter_init(struct models *m)
{
    struct metrics *r = m->o.metrics;
    struct models_meter *t = &m->meter;

    t->pool_bytes = metrics_family(
        r, METRICS_GAUGE, "stoker_pool_bytes",
        "Bytes of a memory pool; host memory is not cut up, so largest_free equals free.",
        "pool,state", NULL, 0);
    t->bytes =
        metrics_gauges(r, "stoker_model_bytes", "Bytes that a model's versions hold.", "model");
    t->state = metrics_gauges(r, "stoker_model_state", "1 for the state that a model is in.",
                              "model,state");
    t->loads = metrics_counters(r, "stoker_model_loads_total",
                                "Loads of a model, by how they ended.", "model,result");
    t->seconds =
        metrics_timings(r, "stoker_model_load_seconds", "Seconds that a load took.", "model");
    t->evictions = metrics_counters(r, "stoker_model_evictions_total",
                                    "Times a model left for another.", "model");
    t->swaps = metrics_counters(r, "stoker_model_swaps_total", "Times a version replaced another.",
                                "model");
    t->info = metrics_gauges(r, "stoker_model_info",
                             "1 for what a model is: the digest of its content and settings.",
                             "model,digest,dtype");
    t->changes = metrics_counters(r, "stoker_model_changes_refused_total",
                                  "Times a model was not loaded again since its files were others.",
                                  "model");
}

void meter_pools(struct models *m)
{
    for (size_t i = 0; i < m->pool_count; i++) {
        const struct pool *p = &m->pools[i];
        double left = p->bytes > p->used ? (double)(p->bytes - p->used) : 0;

        gauge_set(metrics_gauge(m->meter.pool_bytes, p->name, "used"), (double)p->used);
        gauge_set(metrics_gauge(m->meter.pool_bytes, p->name, "free"), left);
        gauge_set(metrics_gauge(m->meter.pool_bytes, p->name, "largest_free"), left);
    }
}

void meter_name(struct models *m, const char *name)
{
    const struct model_slot *s = names_find(m, name);
    uint64_t bytes = 0;
    bool leaving = false;

    s = s && str_eq(s->name, name) ? s : NULL;
    for (const struct version *v = m->living; v; v = v->next) {
        if (!str_eq(v->s.name, name))
            continue;
        bytes += v->s.bytes;
        leaving = leaving || !v->slot;
    }
    if (!s && !leaving) {
        /* counters stay: a name may come again, and a count that falls looks like a restart */
        for (size_t i = 0; i < MODELS_STATES; i++)
            metrics_drop(m->meter.state, name, models_state_name((enum models_state)i));
        metrics_drop(m->meter.bytes, name);
        return;
    }
    gauge_set(metrics_gauge(m->meter.bytes, name), (double)bytes);
    size_t state = s ? slot_state(s) : STATE_LEAVING;
    for (size_t i = 0; i < MODELS_STATES; i++)
        gauge_set(metrics_gauge(m->meter.state, name, models_state_name((enum models_state)i)),
                  i == state);
    (void)metrics_counter(m->meter.loads, name, "ok");
    (void)metrics_counter(m->meter.loads, name, "failed");
    (void)metrics_counter(m->meter.evictions, name);
    (void)metrics_counter(m->meter.swaps, name);
    (void)metrics_counter(m->meter.changes, name);
    (void)metrics_histogram(m->meter.seconds, name);
}

void meter_load(struct models *m, const char *name, bool ok, double seconds)
{
    counter_add(metrics_counter(m->meter.loads, name, ok ? "ok" : "failed"), 1);
    histogram_add(metrics_histogram(m->meter.seconds, name), seconds);
}

void meter_count(struct metrics_family *f, const char *name)
{
    counter_add(metrics_counter(f, name), 1);
}

void meter_info(struct models *m, const struct version *v, bool current)
{
    if (current)
        gauge_set(metrics_gauge(m->meter.info, v->s.name, v->s.digest, v->s.dtype), 1);
    else
        metrics_drop(m->meter.info, v->s.name, v->s.digest, v->s.dtype);
}
