/* SPDX-License-Identifier: MIT */
/* metrics: counters, gauges and histograms that any thread may change at any time, and
 * their text for Prometheus.
 *
 * A family has a name, a help text and label names; a series is a family with label
 * values.  Series are made once, at start or at the first use, and their pointers stay
 * good for the registry's life, so that counting is one atomic addition.  A series that
 * exists is written from the first scrape on, with 0: a rate over it is right from the
 * start.  A gauge that is not known is not written: unknown is never zero. */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum {
    METRICS_LABELS_MAX = 8,
    METRICS_BUCKETS_MAX = 48,
    METRICS_SERIES_MAX = 100000, /* of a registry: further ones count into none, and are counted */
    METRICS_VALUE_MAX = 256      /* bytes of a label value and its NUL: longer ones are cut */
};

struct metrics;        /* the registry */
struct metrics_family; /* borrowed from it, as series are */
struct counter;
struct gauge;
struct histogram;

enum metrics_kind { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

struct metrics *metrics_new(void);
void metrics_free(struct metrics *m); /* NULL is fine */

/* `labels` is "model,route" or NULL.  The same name twice gives the same family; with other
 * labels or another kind it is a programmer's error (assert).  `buckets` are upper bounds in
 * rising order, +Inf is added; only for histograms. */
struct metrics_family *metrics_family(struct metrics *m, enum metrics_kind kind, const char *name,
                                      const char *help, const char *labels, const double *buckets,
                                      size_t bucket_count);
struct metrics_family *metrics_counters(struct metrics *m, const char *name, const char *help,
                                        const char *labels);
struct metrics_family *metrics_gauges(struct metrics *m, const char *name, const char *help,
                                      const char *labels);
struct metrics_family *metrics_timings(struct metrics *m, const char *name, const char *help,
                                       const char *labels); /* with metrics_durations */

/* The series with these label values, in the order of the family's names; made at first use,
 * with 0.  Values become valid UTF-8 of at most METRICS_VALUE_MAX bytes; NULL is "". */
struct counter *metrics_counter(struct metrics_family *f, ...);     /* const char *…  */
struct gauge *metrics_gauge(struct metrics_family *f, ...);         /* as many as the */
struct histogram *metrics_histogram(struct metrics_family *f, ...); /* family has     */
/* Takes a series out (a model that left); its pointer is dead then. */
void metrics_drop(struct metrics_family *f, ...);

void counter_add(struct counter *c, uint64_t n);
void counter_add_seconds(struct counter *c, double s); /* a counter of time */
uint64_t counter_value(const struct counter *c);
void gauge_set(struct gauge *g, double v); /* NAN: unknown, not written */
void gauge_add(struct gauge *g, double v);
void histogram_add(struct histogram *h, double v);                  /* NAN is left out */
void histogram_add_many(struct histogram *h, double v, uint64_t n); /* the same, n times */

/* Called before the text is written, to set gauges that are looked up rather than kept; with
 * no lock held, by one scrape at a time. */
void metrics_on_collect(struct metrics *m, void (*fn)(void *arg), void *arg);
/* Exposition format 0.0.4: families by name, series by label values. */
void metrics_write(struct metrics *m, struct buf *out);

/* 10 us .. 100 s, four a decade: for durations in seconds. */
extern const double metrics_durations[];
extern const size_t metrics_durations_count;

#endif
