/* SPDX-License-Identifier: MIT */
/* window: what some metrics were over a span of time.
 *
 * A window watches the metrics that it is told to and holds one slot for each of their series:
 * count, mean, least, most, first, last, the rise of a counter, and how often each bit of a mask
 * was set.  Asked to, it keeps the samples of GPUs and processes for percentiles and plots.  Fed
 * from a table second by second, or with points of history.
 *
 * Unknown is no sample: it changes nothing, and a slot without samples has NaN for everything. */
#ifndef TELEMETRY_WINDOW_H
#define TELEMETRY_WINDOW_H
#include "telemetry/telemetry.h"

enum {
    WINDOW_SLOTS_MAX = 4096,  /* series of a window: beyond them new ones are only counted */
    WINDOW_METRICS_MAX = 128, /* that a window watches */
    WINDOW_KEPT_MAX = 4096,   /* samples of a slot; then every second one goes */
    WINDOW_BITS = 16          /* of a mask that are counted */
};

struct window_slot {
    char id[TELEMETRY_NAME_MAX]; /* the metric's */
    enum telemetry_entity entity;
    enum telemetry_kind kind;
    char unit[16];
    struct telemetry_label *labels; /* owned, with their strings */
    size_t label_count;
    int gpu; /* of label "gpu"; -1: none */
    /* ---- of this span */
    uint64_t count;
    double sum, min, max, first, last;
    int64_t first_ns, last_ns;
    double rise;     /* of a counter, from the sample before the span on */
    int64_t rise_ns; /* over this time */
    uint64_t bits[WINDOW_BITS];
    /* ---- across spans */
    double before; /* the latest sample; NaN: none */
    int64_t before_ns;
    /* ---- samples, evenly thinned; of a counter its rises a second */
    bool keeps;
    float *kept; /* owned */
    int64_t *kept_ns;
    size_t kept_count, kept_cap, stride, skip;
};

struct window;
/* `metrics` are ids, or id|label=value, NULL-terminated, copied.  `keep`: samples of GPUs,
 * processes and applications are kept. */
struct window *window_new(const char *const *metrics, bool keep);
void window_free(struct window *w); /* NULL is fine */
/* A new span begins; counters go on from their latest sample.  Slots stay. */
void window_next(struct window *w);

/* The slot of a series, made at first use; NULL: not watched, or no room. */
struct window_slot *window_slot(struct window *w, const struct telemetry_series *s);
void window_add(struct window_slot *s, int64_t time_ns, double value); /* NaN is left out */
/* All latest values of a table; always the same table for a window. */
void window_take(struct window *w, struct telemetry *t, int64_t time_ns);

size_t window_metric_count(const struct window *w);
const char *window_metric(const struct window *w, size_t i); /* as it was given */
size_t window_count(const struct window *w);
const struct window_slot *window_at(const struct window *w, size_t i);
int64_t window_from_ns(const struct window *w); /* earliest and latest sample of the span; 0 */
int64_t window_to_ns(const struct window *w);
const char *window_label(const struct window_slot *s, const char *name); /* NULL: none */

/* Of one slot; NaN: unknown. */
double window_mean(const struct window_slot *s);
double window_rate(const struct window_slot *s); /* of a counter, a second */
/* A gauge's mean, a counter's rate: what a report shows of it. */
double window_level(const struct window_slot *s);
/* `q` 0 to 1, of the samples kept. */
double window_quantile(const struct window_slot *s, double q);
/* Of the first slot of a metric on a GPU (-1: whichever): NULL when none has samples. */
const struct window_slot *window_find(const struct window *w, const char *metric, int gpu);

#endif
