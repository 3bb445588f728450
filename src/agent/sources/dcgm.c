/* SPDX-License-Identifier: MIT */
/* dcgm: what DCGM's own exporter says of this node's GPUs, for what the driver does not tell us:
 * tensor activity before Hopper, health, licences.
 *
 * Its text is asked for like an application's (app_scrape.c).  A metric of DCGM that is one of our
 * rows becomes that row of the GPU with the same UUID, named as the driver's own series of that GPU
 * are, so that both fill one series; the driver's value wins while it is known (publish.c).  Other
 * names, instances of MIG and the exporter's labels of pods and jobs are passed over. */
#include "agent/agent_int.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DCGM_GPUS_MAX = 64, /* that are known by name */
    DCGM_LABELS_MAX = 12
};
#define DCGM_BLANK 9223372036854774784.0 /* its own "unknown" begins there */

struct dcgm_gpu { /* labels of a series that the driver gave */
    const char *uuid;
    struct telemetry_label labels[TELEMETRY_LABELS_MAX];
    size_t count;
};
struct dcgm {
    struct telemetry *t;
    unsigned source;
    struct arena arena;
    struct dcgm_gpu gpus[DCGM_GPUS_MAX];
    size_t gpu_count, taken;
};

static const char *label_of(const struct telemetry_label *labels, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(labels[i].name, name))
            return labels[i].value;
    return NULL;
}

/* ---- GPUs that the driver told of */

static struct dcgm_gpu *find_gpu(struct dcgm *d, const char *uuid)
{
    for (size_t i = 0; i < d->gpu_count; i++)
        if (str_eq(d->gpus[i].uuid, uuid))
            return &d->gpus[i];
    return NULL;
}

static void know_gpu(struct dcgm *d, const struct telemetry_series *s)
{
    const char *uuid = label_of(s->labels, s->label_count, "UUID");
    struct dcgm_gpu *g;

    if (!uuid || find_gpu(d, uuid) || d->gpu_count == DCGM_GPUS_MAX ||
        !label_of(s->labels, s->label_count, "modelName") ||
        label_of(s->labels, s->label_count, "GPU_I_ID"))
        return;
    g = &d->gpus[d->gpu_count++];
    g->uuid = arena_strdup(&d->arena, uuid);
    for (g->count = 0; g->count < s->label_count; g->count++)
        g->labels[g->count] =
            (struct telemetry_label){ arena_strdup(&d->arena, s->labels[g->count].name),
                                      arena_strdup(&d->arena, s->labels[g->count].value) };
}

static void know_gpus(struct dcgm *d, struct telemetry *shown)
{
    telemetry_hold(shown);
    for (uint32_t id = 0, n = (uint32_t)telemetry_count(shown); id < n; id++) {
        const struct telemetry_series *s = telemetry_get(shown, id);

        if (s && s->metric->entity == TELEMETRY_GPU)
            know_gpu(d, s);
    }
    telemetry_let(shown);
}

/* ---- samples */

/* The labels that a row's series have by convention, in its order: of the driver's series where
 * there is one, else of the sample. */
static size_t choose_labels(const struct dcgm_gpu *g, const struct prom_parse_sample *s,
                            const struct telemetry_metric *m, char names[][TELEMETRY_NAME_MAX],
                            struct telemetry_label *out)
{
    size_t n = 0;

    for (const char *p = m->labels; p && *p && n < DCGM_LABELS_MAX;) {
        size_t len = strcspn(p, ",");
        const char *value;

        if (len < TELEMETRY_NAME_MAX) {
            memcpy(names[n], p, len);
            names[n][len] = '\0';
            value = g ? label_of(g->labels, g->count, names[n]) : NULL;
            value = value ? value : label_of(s->labels, s->label_count, names[n]);
            if (value) {
                out[n] = (struct telemetry_label){ names[n], value };
                n++;
            }
        }
        p += len + (p[len] == ',');
    }
    return n;
}

static void on_sample(void *arg, const struct prom_parse_sample *s)
{
    struct dcgm *d = arg;
    const struct telemetry_metric *m = telemetry_metric_named(s->name);
    const char *uuid = label_of(s->labels, s->label_count, "UUID");
    const char *instance = label_of(s->labels, s->label_count, "GPU_I_ID");
    char names[DCGM_LABELS_MAX][TELEMETRY_NAME_MAX];
    struct telemetry_label labels[DCGM_LABELS_MAX];
    size_t n;

    if (!m || m->entity != TELEMETRY_GPU || !uuid || (instance && *instance) ||
        !isfinite(s->value) || fabs(s->value) >= DCGM_BLANK ||
        !(str_eq(s->name, m->dcgm) || (m->dcgm46 && str_eq(s->name, m->dcgm46))))
        return;
    n = choose_labels(find_gpu(d, uuid), s, m, names, labels);
    telemetry_set(d->t, telemetry_series(d->t, d->source, m, labels, n), s->value / m->scale);
    d->taken++;
}

/* Names come from the driver where there is one; it needs a second or two. */
static bool driver_will_tell(const struct agent *a)
{
    enum gpu_child_state s = agent_driver(a);

    return a->gpu && (s == GPU_CHILD_OFF || s == GPU_CHILD_RUNS);
}

enum rc dcgm_take(struct agent *a, struct telemetry *t, const char *text, size_t len,
                  struct err *err)
{
    struct dcgm *d = xcalloc(1, sizeof(*d));
    enum rc rc = RC_OK;
    bool early;

    d->t = t;
    d->source = telemetry_source(t, "dcgm");
    know_gpus(d, a->shown);
    early = !d->gpu_count && driver_will_tell(a);
    if (!early) {
        telemetry_begin(t, d->source, agent_wall_ns());
        rc = prom_parse_each(text, len, on_sample, d, err);
        telemetry_end(t);
        if (rc == RC_OK && !d->taken)
            rc = err_set(err, RC_PARSE, "the text has no metrics of DCGM");
    }
    arena_release(&d->arena);
    free(d);
    return rc;
}
