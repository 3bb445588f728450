/* SPDX-License-Identifier: MIT */
/* queue: how long jobs wait for a cluster of so many GPUs.
 *
 * A simulation of discrete events, because the question has no closed form: jobs of several sizes
 * come at random, take GPUs of whole nodes or of a part of one, all at once or not at all, and
 * leave after a time that varies.  Assuming how many run at a time would assume the answer.
 *
 *   arrivals   Poisson, each class at its own rate
 *   durations  lognormal with a mean and a coefficient of variation (0: constant)
 *   placement  up to a node: the fullest node that has room; above: whole nodes
 *   order      first come, first served, or with EASY backfill: a later job may start when it
 *              ends before the first one in the queue can
 *
 * Every cluster size sees the same jobs (one seed), so that sizes differ only by their size.  No
 * I/O; memory from the caller's arena. */
#ifndef PLAN_QUEUE_H
#define PLAN_QUEUE_H
#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    QUEUE_CLASSES_MAX = 32,
    QUEUE_JOBS_MAX = 1 << 20,
    QUEUE_NODES_MAX = 1 << 14,
    QUEUE_NAME_MAX = 32
};

struct queue_class {
    char name[QUEUE_NAME_MAX];
    double per_month; /* jobs */
    int64_t gpus;
    double hours;  /* mean duration */
    double spread; /* coefficient of variation */
};
struct queue_in {
    const struct queue_class *classes;
    size_t class_count;
    int64_t nodes, node_gpus;
    bool backfill;
    double months; /* measured, after a tenth of it to fill the cluster */
    uint64_t seed;
};
struct queue_times { /* hours */
    double mean, p50, p90, p95, p99, max;
};
struct queue_out {
    size_t jobs;        /* measured */
    double utilisation; /* share of GPU-hours that jobs held */
    double queue_mean;  /* jobs waiting */
    struct queue_times wait, turnaround;
    bool unstable; /* the queue grows without end: more work comes than the cluster can do */
};
/* RC_USAGE for classes that cannot be (a job larger than the cluster, too many jobs). */
enum rc queue_run(struct arena *a, const struct queue_in *in, struct queue_out *out,
                  struct err *err) MUST_USE;

/* The fewest nodes whose turnaround at `percentile` (50, 90, 95 or 99) is at most `hours`, and the
 * same over `runs` seeds: between the least and the most of them the truth lies. */
struct queue_size {
    int64_t nodes;       /* the median of the runs */
    int64_t least, most; /* over the runs */
    int64_t load;        /* nodes that the work keeps busy if it comes evenly, rounded up */
    struct queue_out at; /* with `nodes`, the first seed */
};
enum rc queue_size_for(const struct queue_in *in, int percentile, double hours, size_t runs,
                       struct queue_size *out, struct err *err) MUST_USE;

/* A CSV: name,per_month,gpus,hours[,spread]. */
enum rc queue_read(struct arena *a, const char *text, size_t len, double spread,
                   struct queue_class out[QUEUE_CLASSES_MAX], size_t *out_count,
                   struct err *err) MUST_USE;

#endif
