/* SPDX-License-Identifier: MIT */
/* devices: metrics of the processes that run plug-ins' devices (engine/worker/worker.h). */
#ifndef SERVE_ADMIN_DEVICE_METRICS_INT_H
#define SERVE_ADMIN_DEVICE_METRICS_INT_H
#include "metrics/metrics.h"

struct workers;
struct devices;
struct devices *devices_new(struct metrics *m, struct workers *w); /* both outlive it */
void devices_free(struct devices *d); /* when nobody reads the metrics; NULL is fine */

#endif
