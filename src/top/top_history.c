/* SPDX-License-Identifier: MIT */
/* top_history: the last hour of each GPU as lines in per cent.  A sample's place is its time in
 * periods, so a gap in time is a gap in the line. */
#include "base/mem.h"
#include "base/str.h"
#include "top/top_int.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

void top_history_release(struct top_history *h)
{
    for (size_t i = 0; i < TOP_GPUS_MAX; i++)
        free(h->gpus[i]);
    *h = (struct top_history){ 0 };
}

static float *sample_at(const struct top_history *h, int gpu, enum top_line line, int64_t slot)
{
    return &h->gpus[gpu][(size_t)line * TOP_HISTORY_MAX + (size_t)(slot % TOP_HISTORY_MAX)];
}

static void forget_slot(struct top_history *h, int64_t slot)
{
    for (int g = 0; g < TOP_GPUS_MAX; g++)
        for (int l = 0; h->gpus[g] && l < TOP_LINES; l++)
            *sample_at(h, g, (enum top_line)l, slot) = NAN;
}

static void need_lines(struct top_history *h, int gpu)
{
    size_t count = (size_t)TOP_LINES * TOP_HISTORY_MAX;

    if (h->gpus[gpu])
        return;
    h->gpus[gpu] = xcalloc(count, sizeof(float));
    for (size_t i = 0; i < count; i++)
        h->gpus[gpu][i] = NAN;
}

/* The newest sample is of `slot` then.  A clock that was set back, or far ahead, begins anew. */
static void advance_to(struct top_history *h, int64_t slot)
{
    if (slot < h->newest || slot - h->newest >= TOP_HISTORY_MAX)
        for (int64_t i = 0; i < TOP_HISTORY_MAX; i++)
            forget_slot(h, i);
    else
        for (int64_t i = h->newest + 1; i <= slot; i++)
            forget_slot(h, i);
    h->newest = slot;
}

static double part_of(double v, double whole)
{
    return whole > 0 ? 100 * v / whole : (double)NAN;
}

/* What one of the metric's units is in per cent. */
static double scale_of(const struct top_gpu *g, enum top_line line)
{
    switch (line) {
    case TOP_LINE_MEM:
        return part_of(1, g->v[TOP_MEM_TOTAL]);
    case TOP_LINE_POWER:
        return part_of(1, g->v[TOP_POWER_LIMIT]);
    case TOP_LINE_TENSOR:
        return 100;
    default:
        return 1;
    }
}

static const struct {
    enum top_value value;
    const char *metric;
} lines[TOP_LINES] = { [TOP_LINE_UTIL] = { TOP_UTIL, "gpu.util" },
                       [TOP_LINE_MEM] = { TOP_MEM_USED, "gpu.fb.used" },
                       [TOP_LINE_TENSOR] = { TOP_TENSOR, "gpu.prof.tensor" },
                       [TOP_LINE_POWER] = { TOP_POWER, "gpu.power" } };

const char *top_history_metric(enum top_line line)
{
    return lines[line].metric;
}

void top_history_add(struct top_history *h, const struct top_snap *s)
{
    int64_t slot;

    if (s->time_ms <= 0)
        return;
    if (h->period_ms != s->period_ms) {
        top_history_release(h);
        h->period_ms = s->period_ms;
    }
    slot = s->time_ms / h->period_ms;
    if (slot != h->newest)
        advance_to(h, slot);
    for (size_t i = 0; i < s->gpu_count; i++) {
        const struct top_gpu *g = &s->gpus[i];

        need_lines(h, g->index);
        for (int l = 0; l < TOP_LINES; l++)
            *sample_at(h, g->index, (enum top_line)l, slot) =
                (float)(g->v[lines[l].value] * scale_of(g, (enum top_line)l));
    }
}

static const struct top_gpu *find_gpu(const struct top_snap *s, const struct json *labels)
{
    const char *text = json_str(json_get(labels, "gpu"));
    uint64_t n;

    if (!text || !str_to_u64(text, 10, &n))
        return NULL;
    for (size_t i = 0; i < s->gpu_count; i++)
        if (s->gpus[i].index == (int64_t)n)
            return &s->gpus[i];
    return NULL;
}

static void fill_line(struct top_history *h, enum top_line line, const struct top_gpu *g,
                      const struct json *values, int64_t slot)
{
    need_lines(h, g->index);
    for (const struct json *v = values && values->type == JSON_ARR ? values->first : NULL; v;
         v = v->next, slot++) {
        float *at = sample_at(h, g->index, line, slot);

        if (slot > h->newest - TOP_HISTORY_MAX && slot < h->newest && isnan(*at))
            *at = (float)(json_num(v, (double)NAN) * scale_of(g, line));
    }
}

enum rc top_history_fill(struct top_history *h, enum top_line line, const struct top_snap *s,
                         const char *text, size_t len, struct err *err)
{
    const struct json *list;
    struct arena a = { 0 };
    struct json *doc = NULL;
    struct maybe from, step;
    enum rc rc = len > TOP_BODY_MAX ? err_set(err, RC_LIMIT, "its history is too long")
                                    : json_parse(&a, text, len, &doc, err);

    from = json_int(json_get(doc, "from_ms"));
    step = json_int(json_get(doc, "step_ms"));
    list = json_get(doc, "series");
    if (!rc && h->newest && from.known && from.v > 0 && maybe_is(step, h->period_ms) && list &&
        list->type == JSON_ARR)
        for (const struct json *m = list->first; m; m = m->next) {
            const struct top_gpu *g = find_gpu(s, json_get(m, "labels"));

            if (g)
                fill_line(h, line, g, json_get(m, "mean"), from.v / h->period_ms);
        }
    arena_release(&a);
    return rc;
}

double top_history_at(const struct top_history *h, int gpu, enum top_line line, int64_t back,
                      int count)
{
    double sum = 0;
    int known = 0;

    for (int g = 0; g < TOP_GPUS_MAX; g++) {
        if (!h->gpus[g] || (gpu >= 0 && g != gpu))
            continue;
        for (int64_t slot = h->newest - back, end = slot - count; slot > end; slot--) {
            float v =
                slot > 0 && slot > h->newest - TOP_HISTORY_MAX ? *sample_at(h, g, line, slot) : NAN;
            if (isnan(v))
                continue;
            sum += (double)v;
            known++;
        }
    }
    return known ? sum / known : (double)NAN;
}
