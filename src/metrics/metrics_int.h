/* SPDX-License-Identifier: MIT */
/* metrics_int: the registry's parts, only for the files of metrics/. */
#ifndef METRICS_METRICS_INT_H
#define METRICS_METRICS_INT_H
#include "metrics/metrics.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    METRICS_LINE = 64, /* bytes of a cache line: series that count do not slow each other */
    METRICS_COLLECTORS_MAX = 64 /* functions called before a scrape */
};

struct counter {
    _Atomic uint64_t n;
    _Atomic uint64_t seconds; /* bits of a double: counter_add_seconds() */
};

struct gauge {
    _Atomic uint64_t bits; /* of a double; NAN: unknown */
};

/* Buckets are kept apart and summed when they are read: one addition an observation. */
struct histogram {
    const double *bounds; /* the family's */
    size_t bound_count;
    _Atomic uint64_t sum;      /* bits of a double */
    _Atomic uint64_t *buckets; /* [bound_count + 1], the last is +Inf; in the series' block */
};

struct series {
    char *values; /* label values, each with its NUL; in the same block */
    size_t values_len;
    union {
        struct counter counter;
        struct gauge gauge;
        struct histogram histogram;
    } u;
};

struct metrics_family {
    struct metrics *owner;
    enum metrics_kind kind;
    char *name, *help;
    char *labels[METRICS_LABELS_MAX];
    size_t label_count;
    double *bounds; /* without +Inf */
    size_t bound_count;
    pthread_mutex_t lock;   /* guards what follows */
    struct series **series; /* sorted by values */
    size_t series_count, series_cap;
    struct series *none; /* where refused series count; never written */
};

struct metrics {
    size_t series_max;
    _Atomic size_t series_count;
    struct counter *dropped;          /* series refused */
    pthread_mutex_t lock;             /* guards what follows */
    struct metrics_family **families; /* sorted by name; they stay */
    size_t family_count, family_cap;
    struct {
        void (*fn)(void *arg);
        void *arg;
    } collectors[METRICS_COLLECTORS_MAX];
    size_t collector_count;
    pthread_mutex_t collecting; /* one scrape calls collectors at a time */
};

/* A counter's value with its seconds. */
double counter_total(const struct counter *c);

/* One scrape's view of a histogram. */
struct histogram_view {
    uint64_t below[METRICS_BUCKETS_MAX + 1]; /* cumulative; the last is the count */
    uint64_t count;
    double sum;
};
void histogram_look(const struct histogram *h, struct histogram_view *out);

struct metrics *metrics_new_max(size_t series_max); /* another limit than METRICS_SERIES_MAX */
double gauge_value(const struct gauge *g);

struct access_record;
/* A record as its line, with the newline. */
void access_line(const struct access_record *r, struct buf *out);

#endif
