/* SPDX-License-Identifier: MIT */
/* xid_merge: XIDs of both sources as one count.
 *
 * The GPU child hears the driver's events, a collector thread reads the kernel's log; here both
 * meet, on the sampling thread, and each XID counts once (xid_count.c).  Counts begin at zero with
 * the agent and hold what happened since the last second that an earlier run showed
 * (kernel_faults.c). Values are told from here, so that one GPU has one series whoever reported. */
#include "agent/agent_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>

enum { XIDS_GPUS_MAX = 64 }; /* GPUs of a node */

struct gpu_at {
    const struct telemetry_series *labels; /* a series that has all of a GPU's; NULL: none yet */
    uint32_t lost;                         /* series that is known while the GPU is looked at */
    int last;                              /* code; 0: none yet */
    int64_t last_ns;                       /* when that was */
};
struct xids {
    struct xid_counts *counts; /* owned */
    struct gpu_at gpus[XIDS_GPUS_MAX];
    size_t looked; /* series of the shown table that were looked at */
};

struct xids *xids_new(void)
{
    struct xids *x = xcalloc(1, sizeof(*x));

    x->counts = xid_counts_new();
    for (size_t i = 0; i < XIDS_GPUS_MAX; i++)
        x->gpus[i].lost = TELEMETRY_NONE;
    return x;
}

void xids_free(struct xids *x)
{
    if (!x)
        return;
    xid_counts_free(x->counts);
    free(x);
}

/* ---- events */

/* The log's own is told beside the driver's, which says no more than the code, as a line of the
 * log; the driver's beside the log's is not told. */
bool xids_take(struct agent *a, struct telemetry_event *e, bool of_log)
{
    char bdf[24] = "";

    if (of_log)
        kmsg_locate(a->shown, e, bdf);
    if (e->kind != TELEMETRY_EVENT_XID || a->player || (of_log && !faults_judged(a, e->time_ns)))
        return true;
    if (xid_counts_take(a->xids->counts, e->gpu, bdf, e->code, of_log, e->time_ns)) {
        if (e->gpu >= 0 && e->gpu < XIDS_GPUS_MAX)
            a->xids->gpus[e->gpu].last = e->code;
        if (e->gpu >= 0 && e->gpu < XIDS_GPUS_MAX)
            a->xids->gpus[e->gpu].last_ns = e->time_ns;
        return true;
    }
    if (of_log)
        e->kind = TELEMETRY_EVENT_KERNEL;
    return of_log;
}

/* ---- values */

static const char *label_value(const struct telemetry_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++)
        if (str_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return NULL;
}

static void look_for_gpus(struct agent *a)
{
    struct xids *x = a->xids;

    for (size_t n = telemetry_count(a->shown); x->looked < n; x->looked++) {
        const struct telemetry_series *s = telemetry_get(a->shown, (uint32_t)x->looked);
        const char *text = s->metric->entity == TELEMETRY_GPU ? label_value(s, "gpu") : NULL;
        uint64_t gpu;

        if (!text || !str_to_u64(text, 10, &gpu) || gpu >= XIDS_GPUS_MAX ||
            label_value(s, "GPU_I_ID"))
            continue;
        if (str_eq(s->metric->id, "gpu.lost"))
            x->gpus[gpu].lost = (uint32_t)x->looked;
        else if (str_eq(s->metric->id, "gpu.fb.total")) /* every GPU has it */
            x->gpus[gpu].labels = s;
    }
}

int64_t xids_last_ns(const struct agent *a, int gpu)
{
    return gpu >= 0 && gpu < XIDS_GPUS_MAX ? a->xids->gpus[gpu].last_ns : 0;
}

bool xids_know_gpus(const struct agent *a)
{
    for (size_t i = 0; i < XIDS_GPUS_MAX; i++)
        if (a->xids->gpus[i].labels)
            return true;
    return false;
}

static void put_counts(struct agent *a, int64_t time_ns)
{
    const struct xid_count *c;
    char code[12], window[12];

    snprintf(window, sizeof(window), "%d", XID_COUNT_WINDOW_MS);
    for (size_t i = 0; (c = xid_counts_get(a->xids->counts, i, time_ns)); i++) {
        const struct gpu_at *g =
            c->gpu >= 0 && c->gpu < XIDS_GPUS_MAX ? &a->xids->gpus[c->gpu] : NULL;
        struct telemetry_label l[TELEMETRY_LABELS_MAX];
        size_t n = 0;

        snprintf(code, sizeof(code), "%d", c->code);
        if (g && g->lost != TELEMETRY_NONE) { /* gpu, UUID, pci_bus_id */
            const struct telemetry_series *s = telemetry_get(a->shown, g->lost);

            for (; n < s->label_count && n < 3; n++)
                l[n] = s->labels[n];
        } else if (c->bdf[0]) {
            l[n++] = (struct telemetry_label){ "pci_bus_id", c->bdf };
        }
        l[n++] = (struct telemetry_label){ "xid", code };
        status_put(a, "gpu.xid.total", l, n, c->total);
        if (!g || !g->labels)
            continue;
        for (n = 0; n < g->labels->label_count && n + 2 < TELEMETRY_LABELS_MAX; n++)
            l[n] = g->labels->labels[n];
        l[n++] = (struct telemetry_label){ "xid", code };
        l[n++] = (struct telemetry_label){ "window_size_in_ms", window };
        status_put(a, "gpu.xid.window", l, n, c->window);
    }
}

void xids_put(struct agent *a, int64_t time_ns)
{
    look_for_gpus(a);
    for (size_t i = 0; i < XIDS_GPUS_MAX; i++) {
        const struct gpu_at *g = &a->xids->gpus[i];

        if (g->labels && g->lost != TELEMETRY_NONE && !isnan(a->next[g->lost]))
            status_put(a, "gpu.xid.last", g->labels->labels, g->labels->label_count, g->last);
    }
    put_counts(a, time_ns);
}
