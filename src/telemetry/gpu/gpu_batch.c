/* SPDX-License-Identifier: MIT */
/* gpu_batch: the values of a sample as series of the stream, under the labels of DCGM's
 * exporter. */
#include "telemetry/gpu/gpu_int.h"

#include "base/mem.h"

/* ---- one value ---- */
void gpu_put(struct gpu_sampler *s, uint32_t *id, const char *metric,
             const struct telemetry_label *labels, size_t count, double value)
{
    struct telemetry_series series = { .labels = labels, .label_count = count };

    if (isnan(value))
        return;
    if (*id == TELEMETRY_NONE) {
        series.metric = telemetry_metric(metric);
        if (!series.metric || !s->writer || s->next_id >= TELEMETRY_SERIES_MAX)
            return;
        *id = s->next_id++;
        stream_series(s->writer, 0, *id, &series, "gpu");
    }
    if (s->batch_count == s->batch_cap) {
        s->batch_cap = s->batch_cap ? s->batch_cap * 2 : 256;
        s->batch_ids = xreallocarray(s->batch_ids, s->batch_cap, sizeof(*s->batch_ids));
        s->batch_values = xreallocarray(s->batch_values, s->batch_cap, sizeof(*s->batch_values));
    }
    s->batch_ids[s->batch_count] = *id;
    s->batch_values[s->batch_count++] = value;
}

/* ---- labels ---- */
static void add_label(struct telemetry_label *out, size_t *n, const char *name, const char *value)
{
    if (value[0])
        out[(*n)++] = (struct telemetry_label){ name, value };
}

size_t gpu_labels(const struct gpu_sampler *s, const struct gpu_dev *g, const struct gpu_mig *m,
                  struct gpu_label_text *text, struct telemetry_label *out)
{
    size_t n = 0;

    snprintf(text->index, sizeof(text->index), "%u", g->index);
    add_label(out, &n, "gpu", text->index);
    add_label(out, &n, "UUID", g->uuid);
    add_label(out, &n, "pci_bus_id", g->bus);
    add_label(out, &n, "device", g->device);
    add_label(out, &n, "modelName", g->name);
    if (m) {
        snprintf(text->gi, sizeof(text->gi), "%u", m->gi);
        add_label(out, &n, "GPU_I_PROFILE", m->profile);
        add_label(out, &n, "GPU_I_ID", text->gi);
    }
    add_label(out, &n, "DCGM_FI_DRIVER_VERSION", s->driver);
    return n;
}

/* ---- a GPU ---- */
static void put_values(struct gpu_sampler *s, struct gpu_dev *g, struct gpu_mig *m)
{
    struct gpu_values *v = m ? &m->values : &g->values;
    struct telemetry_label labels[GPU_LABELS_MAX];
    struct gpu_label_text text = { 0 };
    size_t n = gpu_labels(s, g, m, &text, labels);

    for (size_t i = 0; i < GPU_ROW_COUNT; i++)
        gpu_put(s, &v->ids[i], gpu_row_ids[i], labels, n, v->v[i]);
}

static void put_links(struct gpu_sampler *s, struct gpu_dev *g)
{
    struct gpu_label_text text = { 0 };
    struct telemetry_label labels[3] = { { "gpu", text.index },
                                         { "UUID", g->uuid },
                                         { "nvlink", text.link } };

    snprintf(text.index, sizeof(text.index), "%u", g->index);
    for (unsigned i = 0; i < g->link_count; i++) {
        snprintf(text.link, sizeof(text.link), "%u", i);
        for (size_t k = 0; k < GPU_LINK_ROWS; k++)
            gpu_put(s, &g->links[i].ids[k], gpu_link_row_ids[k], labels, ARRAY_SIZE(labels),
                    g->links[i].v[k]);
    }
}

void gpu_put_gpu(struct gpu_sampler *s, struct gpu_dev *g)
{
    struct gpu_label_text text = { 0 };
    struct telemetry_label labels[GPU_LABELS_MAX];

    if (!g->known)
        return;
    (void)gpu_labels(s, g, NULL, &text, labels);
    gpu_put(s, &g->lost_id, "gpu.lost", labels, 3, g->lost || !g->dev);
    if (g->lost || !g->dev)
        return;
    put_values(s, g, NULL);
    put_links(s, g);
    for (size_t i = 0; i < g->mig_count; i++)
        put_values(s, g, &g->migs[i]);
}

/* ---- the driver ---- */
static void put_calls(struct gpu_sampler *s)
{
    for (unsigned i = 0; i < GPU_CALL_LOAD; i++) {
        struct gpu_call_stat *st = &s->stats[i];
        struct telemetry_label call = { "call", gpu_call_name(i) };

        if (!st->count)
            continue;
        gpu_put(s, &s->stat_ids[i][0], "gpu.driver.calls", &call, 1, (double)st->count);
        gpu_put(s, &s->stat_ids[i][1], "gpu.driver.call.total", &call, 1,
                (double)st->sum_ns * 1e-9);
        gpu_put(s, &s->stat_ids[i][2], "gpu.driver.call.peak", &call, 1,
                (double)st->peak_ns * 1e-9);
        gpu_put(s, &s->stat_ids[i][3], "gpu.driver.call.max", &call, 1, (double)st->max_ns * 1e-9);
        st->peak_ns = 0;
    }
}

void gpu_put_driver(struct gpu_sampler *s)
{
    double well = 0;

    for (unsigned i = 0; i < s->gpu_count; i++)
        well += s->gpus[i].dev && !s->gpus[i].lost;
    gpu_put(s, &s->count_ids[0], "gpu.count", NULL, 0, well);
    gpu_put(s, &s->count_ids[1], "gpu.count.failed", NULL, 0, s->gpu_count - well);
    put_calls(s);
}

void gpu_batch_send(struct gpu_sampler *s, int64_t now_ns)
{
    if (s->writer)
        stream_batch(s->writer, 0, now_ns, s->batch_ids, s->batch_values, s->batch_count);
    s->batch_count = 0;
}
