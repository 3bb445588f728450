/* SPDX-License-Identifier: MIT */
/* devices: what the processes of plug-ins' devices look like to Prometheus.  They are looked at
 * when somebody asks. */
#include "serve/admin/device_metrics_int.h"

#include "base/mem.h"
#include "engine/worker/worker.h"

#include <stdlib.h>

struct devices {
    struct workers *workers;
    struct metrics_family *up, *restarts, *beat;
};

static void collect_devices(void *arg)
{
    struct devices *d = arg;
    struct worker_state *list = xcalloc(WORKERS_MAX, sizeof(*list));
    size_t n = workers_look(d->workers, list, WORKERS_MAX);

    for (size_t i = 0; i < n; i++) {
        const struct worker_state *w = &list[i];
        struct counter *restarts = metrics_counter(d->restarts, w->device);
        uint64_t counted = counter_value(restarts);

        gauge_set(metrics_gauge(d->up, w->device), w->up);
        gauge_set(metrics_gauge(d->beat, w->device), w->beat_s);
        if (w->restarts > counted)
            counter_add(restarts, w->restarts - counted);
    }
    free(list);
}

struct devices *devices_new(struct metrics *m, struct workers *w)
{
    struct devices *d = xcalloc(1, sizeof(*d));

    d->workers = w;
    d->up = metrics_gauges(m, "stoker_worker_up",
                           "1 while the process of a plug-in's device answers.", "device");
    d->restarts = metrics_counters(m, "stoker_worker_restarts_total",
                                   "Times the process of a device was started again.", "device");
    d->beat = metrics_gauges(m, "stoker_worker_heartbeat_seconds",
                             "Seconds since the process of a device showed life.", "device");
    metrics_on_collect(m, collect_devices, d);
    return d;
}

void devices_free(struct devices *d)
{
    free(d);
}
