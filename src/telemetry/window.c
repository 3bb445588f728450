/* SPDX-License-Identifier: MIT */
/* window: slots by metric and labels, and their sums. */
#include "telemetry/window.h"

#include "base/mem.h"
#include "base/str.h"
#include "telemetry/telemetry_int.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_KEPT_MIN = 64 };
static_assert(WINDOW_KEPT_MAX % WINDOW_KEPT_MIN == 0, "it grows by doubling");

struct window {
    char *metrics[WINDOW_METRICS_MAX]; /* owned */
    size_t metric_count;
    bool keep;
    struct window_slot **slots; /* owned */
    size_t count, cap;
    uint64_t refused;
    /* ---- window_take()'s: slots by id of the table */
    struct window_slot **by_id;
    double *values;
    uint32_t *generation; /* telemetry_generation() of these, when they were mapped */
    uint64_t renewed;
    size_t mapped;
};

struct window *window_new(const char *const *metrics, bool keep)
{
    struct window *w = xcalloc(1, sizeof(*w));

    w->keep = keep;
    for (; *metrics && w->metric_count < WINDOW_METRICS_MAX; metrics++)
        w->metrics[w->metric_count++] = xstrdup(*metrics);
    return w;
}

static void slot_free(struct window_slot *s)
{
    for (size_t i = 0; i < s->label_count; i++) {
        free((void *)(uintptr_t)s->labels[i].name);
        free((void *)(uintptr_t)s->labels[i].value);
    }
    free(s->labels);
    free(s->kept);
    free(s->kept_ns);
    free(s);
}

void window_free(struct window *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++)
        slot_free(w->slots[i]);
    for (size_t i = 0; i < w->metric_count; i++)
        free(w->metrics[i]);
    free(w->slots);
    free(w->by_id);
    free(w->generation);
    free(w->values);
    free(w);
}

static void slot_clear(struct window_slot *s)
{
    s->count = 0;
    s->sum = s->rise = 0;
    s->min = s->max = s->first = s->last = NAN;
    s->first_ns = s->last_ns = s->rise_ns = 0;
    memset(s->bits, 0, sizeof(s->bits));
}

void window_next(struct window *w)
{
    for (size_t i = 0; i < w->count; i++)
        slot_clear(w->slots[i]);
}

/* ---- slots */

const char *window_label(const struct window_slot *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++)
        if (str_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return NULL;
}

static const char *series_label(const struct telemetry_series *s, const char *name, size_t len)
{
    for (size_t i = 0; i < s->label_count; i++)
        if (strlen(s->labels[i].name) == len && !strncmp(s->labels[i].name, name, len))
            return s->labels[i].value;
    return NULL;
}

/* `row` is "id" or "id|label=value". */
static bool row_fits(const char *row, const struct telemetry_series *s)
{
    size_t len = strcspn(row, "|"), name;

    if (strlen(s->metric->id) != len || strncmp(row, s->metric->id, len) != 0)
        return false;
    if (!row[len])
        return true;
    row += len + 1;
    name = strcspn(row, "=");
    return row[name] && str_eq(series_label(s, row, name), row + name + 1);
}

static bool is_watched(const struct window *w, const struct telemetry_series *s)
{
    for (size_t i = 0; i < w->metric_count; i++)
        if (row_fits(w->metrics[i], s))
            return true;
    return false;
}

static bool same_series(const struct window_slot *a, const struct telemetry_series *s)
{
    if (a->label_count != s->label_count || !str_eq(a->id, s->metric->id))
        return false;
    for (size_t i = 0; i < s->label_count; i++)
        if (!str_eq(a->labels[i].value, s->labels[i].value) ||
            !str_eq(a->labels[i].name, s->labels[i].name))
            return false;
    return true;
}

static struct window_slot *slot_new(const struct window *w, const struct telemetry_series *s)
{
    struct window_slot *n = xcalloc(1, sizeof(*n));
    const char *gpu;
    uint64_t number;

    (void)str_copy(n->id, sizeof(n->id), s->metric->id);
    (void)str_copy(n->unit, sizeof(n->unit), s->metric->unit ? s->metric->unit : "1");
    n->entity = s->metric->entity;
    n->kind = s->metric->kind;
    n->labels = xcalloc(s->label_count ? s->label_count : 1, sizeof(*n->labels));
    for (size_t i = 0; i < s->label_count; i++) {
        n->labels[i].name = xstrdup(s->labels[i].name);
        n->labels[i].value = xstrdup(s->labels[i].value);
    }
    n->label_count = s->label_count;
    gpu = window_label(n, "gpu");
    n->gpu = gpu && str_to_u64(gpu, 10, &number) && number < INT32_MAX ? (int)number : -1;
    n->before = NAN;
    n->stride = 1;
    n->keeps = w->keep && (n->entity == TELEMETRY_GPU || n->entity == TELEMETRY_PROCESS ||
                           n->entity == TELEMETRY_JOB || n->entity == TELEMETRY_APP);
    slot_clear(n);
    return n;
}

struct window_slot *window_slot(struct window *w, const struct telemetry_series *s)
{
    if (!is_watched(w, s))
        return NULL;
    for (size_t i = 0; i < w->count; i++)
        if (same_series(w->slots[i], s))
            return w->slots[i];
    if (w->count == WINDOW_SLOTS_MAX) {
        w->refused++;
        return NULL;
    }
    VEC_GROW(w->slots, w->count, w->cap);
    w->slots[w->count] = slot_new(w, s);
    return w->slots[w->count++];
}

/* ---- samples */

static void keep_sample(struct window_slot *s, int64_t time_ns, double v)
{
    if (!s->keeps || s->skip++ % s->stride)
        return;
    if (s->kept_count == WINDOW_KEPT_MAX) {
        /* Every second one goes, so that those left stand evenly. */
        for (size_t i = 0; i < WINDOW_KEPT_MAX / 2; i++) {
            s->kept[i] = s->kept[2 * i];
            s->kept_ns[i] = s->kept_ns[2 * i];
        }
        s->kept_count = WINDOW_KEPT_MAX / 2;
        s->stride *= 2;
    }
    if (s->kept_count == s->kept_cap) {
        s->kept_cap = s->kept_cap ? s->kept_cap * 2 : WINDOW_KEPT_MIN;
        s->kept = xreallocarray(s->kept, s->kept_cap, sizeof(*s->kept));
        s->kept_ns = xreallocarray(s->kept_ns, s->kept_cap, sizeof(*s->kept_ns));
    }
    s->kept[s->kept_count] = (float)v;
    s->kept_ns[s->kept_count++] = time_ns;
}

static void add_rise(struct window_slot *s, int64_t time_ns, double v)
{
    int64_t span = time_ns - s->before_ns;

    if (isnan(s->before) || span <= 0 || v < s->before)
        return; /* the first, a clock that was set, a counter that began anew */
    s->rise += v - s->before;
    s->rise_ns += span;
    keep_sample(s, time_ns, (v - s->before) / ((double)span / 1e9));
}

static void count_bits(struct window_slot *s, double v)
{
    uint64_t mask = v >= 0 && v < 9e15 ? (uint64_t)v : 0;

    for (size_t i = 0; i < WINDOW_BITS; i++)
        s->bits[i] += mask >> i & 1;
}

void window_add(struct window_slot *s, int64_t time_ns, double v)
{
    if (!isfinite(v))
        return;
    if (s->kind == TELEMETRY_COUNTER)
        add_rise(s, time_ns, v);
    else
        keep_sample(s, time_ns, v);
    if (!s->count) {
        s->first = v;
        s->first_ns = time_ns;
    }
    s->min = s->count && s->min < v ? s->min : v;
    s->max = s->count && s->max > v ? s->max : v;
    s->sum += v;
    s->count++;
    s->last = s->before = v;
    s->last_ns = s->before_ns = time_ns;
    if (str_eq(s->unit, "mask"))
        count_bits(s, v);
}

static void map_series(struct window *w, const struct telemetry *t, uint32_t id)
{
    const struct telemetry_series *s = telemetry_get(t, id);

    w->generation[id] = telemetry_generation(t, id);
    w->by_id[id] = s ? window_slot(w, s) : NULL;
}

void window_take(struct window *w, struct telemetry *t, int64_t time_ns)
{
    size_t n;

    if (!w->by_id) {
        w->by_id = xcalloc(TELEMETRY_SERIES_MAX, sizeof(struct window_slot *));
        w->values = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*w->values));
        w->generation = xcalloc(TELEMETRY_SERIES_MAX, sizeof(*w->generation));
    }
    telemetry_hold(t);
    n = telemetry_copy(t, w->values, TELEMETRY_SERIES_MAX);
    n = n < TELEMETRY_SERIES_MAX ? n : TELEMETRY_SERIES_MAX;
    for (size_t i = 0; i < w->mapped && w->renewed != telemetry_renewed(t); i++)
        if (w->generation[i] !=
            telemetry_generation(t, (uint32_t)i)) /* the id is another series' now */
            map_series(w, t, (uint32_t)i);
    w->renewed = telemetry_renewed(t);
    for (; w->mapped < n; w->mapped++)
        map_series(w, t, (uint32_t)w->mapped);
    telemetry_let(t);
    for (size_t i = 0; i < n; i++)
        if (w->by_id[i])
            window_add(w->by_id[i], time_ns, w->values[i]);
}

/* ---- asking */

size_t window_metric_count(const struct window *w)
{
    return w->metric_count;
}

const char *window_metric(const struct window *w, size_t i)
{
    return w->metrics[i];
}

size_t window_count(const struct window *w)
{
    return w->count;
}

const struct window_slot *window_at(const struct window *w, size_t i)
{
    return w->slots[i];
}

uint64_t window_refused(const struct window *w)
{
    return w->refused;
}

int64_t window_from_ns(const struct window *w)
{
    int64_t from = 0;

    for (size_t i = 0; i < w->count; i++)
        if (w->slots[i]->count && (!from || w->slots[i]->first_ns < from))
            from = w->slots[i]->first_ns;
    return from;
}

int64_t window_to_ns(const struct window *w)
{
    int64_t to = 0;

    for (size_t i = 0; i < w->count; i++)
        if (w->slots[i]->count && w->slots[i]->last_ns > to)
            to = w->slots[i]->last_ns;
    return to;
}

double window_mean(const struct window_slot *s)
{
    return s && s->count ? s->sum / (double)s->count : NAN;
}

double window_rate(const struct window_slot *s)
{
    return s && s->rise_ns > 0 ? s->rise / ((double)s->rise_ns / 1e9) : NAN;
}

double window_level(const struct window_slot *s)
{
    return s && s->kind == TELEMETRY_COUNTER ? window_rate(s) : window_mean(s);
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* The nearest rank. */
double window_quantile(const struct window_slot *s, double q)
{
    float *sorted;
    double v;

    if (!s || !s->kept_count)
        return NAN;
    sorted = xcalloc(s->kept_count, sizeof(*sorted));
    memcpy(sorted, s->kept, s->kept_count * sizeof(*sorted));
    qsort(sorted, s->kept_count, sizeof(*sorted), by_value);
    v = ceil(q * (double)s->kept_count);
    v = (double)sorted[v < 1 ? 0 : (size_t)v - 1];
    free(sorted);
    return v;
}

const struct window_slot *window_find(const struct window *w, const char *metric, int gpu)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->slots[i]->count && (gpu < 0 || w->slots[i]->gpu == gpu) &&
            str_eq(w->slots[i]->id, metric))
            return w->slots[i];
    return NULL;
}
