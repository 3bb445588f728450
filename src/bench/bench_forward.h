/* SPDX-License-Identifier: MIT */
/* bench_forward: runs the cases of a benchmark through a loaded engine and takes the time.
 *
 * A pass is every batch of a case once, from ids in host memory to vectors in host memory, checks
 * of both included; a device that takes the next batch while one runs is given it.  The device's
 * own time is of passes with one batch after the other, as the device measured them, where it does
 * (eng_ops.device_ms). */
#ifndef BENCH_BENCH_FORWARD_H
#define BENCH_BENCH_FORWARD_H
#include "base/text/table.h"
#include "bench/bench_cases.h"

enum {
    FORWARD_CASES_MAX = 64,
    FORWARD_PASSES_MAX = 100000,
    FORWARD_OUT_MAX = 1 << 30, /* floats of one case's output */
    FORWARD_CHOICE_MAX = 256,  /* bytes of a line of what the device chose */
    FORWARD_SWAPS = 3          /* the first makes the room in host memory */
};

struct forward_opts {
    enum eng_want want;
    size_t batch_tokens;      /* 0: as the case has it */
    size_t warmup;            /* passes that do not count */
    size_t passes;            /* 0: as many as fit the seconds */
    double seconds;           /* for one case */
    uint64_t seed;            /* of lengths and tokens */
    const char *save, *check; /* .npy to write, or to compare with; NULL: none */
};

struct forward_figures { /* of one case */
    struct bench_case what;
    size_t batches, passes;
    double ms, ms_least;   /* of a pass: the median, the shortest */
    double device_ms;      /* the median; NAN: not known */
    double first_ms;       /* of the first pass: it may compile, choose, capture */
    double operations;     /* of a pass */
    bool steady;           /* every pass gave the bits of the first */
    bool compared;         /* with opts.check: the two below, over all rows */
    double cosine, differ; /* the least cosine; the largest difference of two numbers */
};

/* What happened before the first case. */
struct forward_start {
    double open_ms, load_ms; /* reading the folder's small files; weights onto the device */
    char device[128];        /* as it describes itself */
};

/* Runs one case.  `f` is written only on success; release it. */
enum rc forward_run(struct eng *e, const char *name, const struct forward_opts *o,
                    struct forward_figures *f, struct err *err) MUST_USE;
void forward_figures_release(struct forward_figures *f);

/* Weights to host memory and back, FORWARD_SWAPS times; of the last in ms.  RC_USAGE: the device
 * cannot. */
struct forward_swap {
    bool done;
    double out_ms, in_ms;
};
enum rc forward_swap(struct eng *e, struct forward_swap *out, struct err *err) MUST_USE;

struct forward_report {
    const struct model *model;
    const char *dtype;
    struct forward_start start;
    struct forward_swap swap;
    struct forward_figures cases[FORWARD_CASES_MAX];
    size_t count;
    struct eng *e; /* borrowed: whose choices are told */
};
void forward_text(const struct forward_report *r, const struct term *term, struct buf *out);
void forward_json(const struct forward_report *r, struct buf *out);

#endif
