/* SPDX-License-Identifier: MIT */
/* bench_report: a measurement of one server or of two in turn, and its forms: a table for
 * people, JSON, RESULT lines for scripts. */
#ifndef BENCH_BENCH_REPORT_H
#define BENCH_BENCH_REPORT_H
#include "base/text/table.h"
#include "bench/bench_load.h"

enum { REPORT_SLICES_MAX = 1000 };

struct report_side {
    const char *url, *api, *path, *model; /* borrowed; model "" when none was named */
    struct bench_load *load;              /* borrowed */
    struct load_stats stats;
    double slice_rps[REPORT_SLICES_MAX];
};

struct report {
    struct report_side sides[2];
    size_t count;  /* 1, or 2: compared */
    size_t slices; /* run in full, of each */
    const struct load_opts *opts;
    size_t items; /* in each request */
};

/* Loads all sides, in turn when there are two: `slices` windows of duration/slices each.
 * Ends early, without an error, when stopped. */
enum rc report_run(struct report *r, size_t slices, struct err *err) MUST_USE;

void report_text(const struct report *r, const struct term *term, struct buf *out);
void report_json(const struct report *r, struct buf *out);
void report_results(const struct report *r, const char *prefix, struct buf *out);

#endif
