/* SPDX-License-Identifier: MIT */
/* top_docs: an agent's documents, made up, for tests of `stoker top`. */
#ifndef TESTS_TOP_DOCS_H
#define TESTS_TOP_DOCS_H
#include "test.h"

#include "base/buf.h"
#include "top/top_int.h"

#include <string.h>

struct docs {
    struct buf node, series, processes, alerts;
};

static void docs_release(struct docs *d)
{
    buf_release(&d->node);
    buf_release(&d->series);
    buf_release(&d->processes);
    buf_release(&d->alerts);
}

/* `v` is put as JSON: a number or null. */
static void add_series(struct docs *d, int gpu, const char *metric, const char *v)
{
    buf_addf(&d->series,
             "%s{\"id\":1,\"metric\":\"%s\",\"source\":\"gpu\",\"labels\":{\"gpu\":\"%d\"},"
             "\"value\":%s}",
             d->series.data[d->series.len - 1] == '[' ? "" : ",", metric, gpu, v);
}

static void add_process(struct docs *d, int gpu, int pid, const char *more_labels,
                        const char *figures)
{
    buf_addf(&d->processes, "%s{\"labels\":{\"gpu\":\"%d\",\"pid\":\"%d\"%s%s},%s}",
             d->processes.data[d->processes.len - 1] == '[' ? "" : ",", gpu, pid,
             *more_labels ? "," : "", more_labels, figures);
}

/* A node whose GPUs have utilisation 10 times their number and memory, and nothing else. */
static void docs_begin(struct docs *d, int gpus)
{
    memset(d, 0, sizeof(*d));
    buf_adds(&d->node, "{\"schema\":\"stoker.node/1\",\"host\":\"n1\",\"version\":\"1\",\"demo\":"
                       "false,\"note\":null,\"time_ms\":1700000000000,\"period_ms\":1000,"
                       "\"gpus\":[");
    for (int i = 0; i < gpus; i++)
        buf_addf(&d->node,
                 "%s{\"gpu\":%d,\"labels\":{\"gpu\":\"%d\",\"modelName\":\"NVIDIA H200\","
                 "\"DCGM_FI_DRIVER_VERSION\":\"580.1\"},\"now\":{\"gpu.util\":%d,\"gpu.fb.used\":"
                 "%.0f,\"gpu.fb.total\":%.0f,\"gpu.temp\":null}}",
                 i ? "," : "", i, i, i * 10, (i + 1) * 1073741824.0, 140 * 1073741824.0);
    buf_adds(&d->node, "]}");
    buf_adds(&d->series, "{\"series\":[");
    buf_adds(&d->processes, "{\"processes\":[");
    buf_adds(&d->alerts, "{\"alerts\":[");
}

static struct top_snap *docs_end(struct docs *d)
{
    struct top_docs t;
    struct top_snap *s = NULL;
    struct err err = { 0 };

    buf_adds(&d->series, "]}");
    buf_adds(&d->processes, "]}");
    buf_adds(&d->alerts, "]}");
    t = (struct top_docs){ d->node.data, d->series.data, d->processes.data, d->alerts.data,
                           d->node.len,  d->series.len,  d->processes.len,  d->alerts.len };
    if (top_snap_read(&t, &s, &err))
        fail_msg("%s", err.msg);
    docs_release(d);
    return s;
}

#endif
