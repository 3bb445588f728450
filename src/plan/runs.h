/* SPDX-License-Identifier: MIT */
/* runs: published runs against the time model: which rows a figure covers, their errors, the fit
 * of the constants, and a picture.
 *
 * A set says which rows a line of the accuracy table is about, so it may name a source.  The model
 * may not: it sees a model, a cluster, a configuration and a software profile. */
#ifndef PLAN_RUNS_H
#define PLAN_RUNS_H
#include "plan/campaign.h"
#include "plan/consts.h"
#include "plan/run_rows.h"

enum plan_set { /* the first ones are disjoint and fitted */
                PLAN_SET_KORTHIKANTI,
                PLAN_SET_SC21,
                PLAN_SET_VTRAIN_MULTI,
                PLAN_SET_VTRAIN_SINGLE,
                PLAN_SET_BLOOM,
                PLAN_SET_FOUNDRY_A100,
                PLAN_SET_FOUNDRY_H100,
                PLAN_SET_NEMO,
                PLAN_SET_BRIDGE_H100,
                PLAN_SET_HF_CLEAN,
                PLAN_SET_BRIDGE_MOE,
                PLAN_SET_SIMUMAX,
                PLAN_SET_BRIDGE_B200,
                PLAN_SETS_FITTED,
                PLAN_SET_HF_MFU20 = PLAN_SETS_FITTED,
                PLAN_SET_HF_CLEAN8,
                PLAN_SETS
};
struct plan_set_info {
    const char *name;  /* of RESULT lines: "vtrain-multi" */
    const char *title; /* "vTrain multi-node" */
    const char *kind;  /* whose constants its rows fit */
    double limit;      /* of the error, 0: none */
    bool median;       /* the limit is of the median, not of the mean */
    size_t rows;       /* how many the published table has, 0: not said */
};
extern const struct plan_set_info plan_sets[PLAN_SETS];

/* The mean error that a source of the repository's table may have; 0: another source. */
double plan_source_limit(const char *source);

/* Constants for every kind of the table. */
struct plan_consts_all {
    struct plan_consts kind[PLAN_CONST_KINDS_MAX];
    size_t count;
};
void plan_consts_each(const struct plan_const_table *t, struct plan_consts_all *out);

/* ---- fit ---- */
struct plan_fit_report {
    const char *kind;
    size_t rows, free;
    int steps;
    double loss, loss_start;
};
/* Levenberg-Marquardt on logarithms of the free constants of `kind`, deterministic; values of the
 * table's rows of that kind are replaced.  `without` is left out (PLAN_SETS: none).  RC_LIMIT for
 * a kind without rows. */
enum rc plan_fit(struct arena *a, const struct plan_rows *rows, const char *kind,
                 enum plan_set without, struct plan_const_table *t, struct plan_fit_report *report,
                 struct err *err) MUST_USE;
/* The table as data/plan.csv has it. */
void plan_consts_write(const struct plan_const_table *t, struct buf *out);

/* ---- errors ---- */
struct plan_set_report {
    struct plan_errors e;
    struct plan_errors left_out; /* n 0: not asked, or no rows */
};
enum { PLAN_NO_TIME_MAX = 24 };
struct plan_time_source {
    const char *source;
    size_t rows, used;
    struct plan_errors e;
    const char *reason[PLAN_NO_TIME_MAX]; /* of rows that were not */
    size_t reasons, skipped[PLAN_NO_TIME_MAX];
};
struct plan_cell { /* rows of one model, number of GPUs and batch */
    const char *model;
    int64_t gpus, batch;
    size_t rows;
    double rank;  /* Spearman's, predicted against measured time */
    double first; /* measured speed of the row predicted fastest over the best measured */
};
struct plan_time_report {
    struct plan_set_report sets[PLAN_SETS];
    struct plan_time_source *sources; /* the last is "all" */
    size_t source_count;
    struct plan_cell *cells;
    size_t cell_count;
    double *seconds; /* for every row; 0: none */
    double *unseen;  /* the same by constants without the row's set; NULL: not asked */
    double left_median, left_worst;
    size_t left_n;
};
enum rc plan_validate_time(struct arena *a, const struct plan_rows *rows,
                           const struct plan_const_table *t, bool leave_out,
                           struct plan_time_report *out, struct err *err) MUST_USE;

/* ---- bands ---- */
enum { PLAN_BANDS_MAX = 16 };
struct plan_bands {
    const char *group[PLAN_BANDS_MAX]; /* "a100,no,megatron" */
    struct plan_band_row row[PLAN_BANDS_MAX];
    size_t count;
    struct plan_band_row any;
    size_t sources;
    double coverage; /* share of a source's rows in the band that the others make, their mean */
};
/* `seconds` of every row, by constants that had not seen its source (plan_time_report.unseen). */
void plan_bands_of(struct arena *a, const struct plan_rows *rows, const double *seconds,
                   struct plan_bands *out);
/* As data/plan_bands.csv has them. */
void plan_bands_write(const struct plan_bands *b, struct buf *out);

/* Predicted over measured seconds, a dot a row. */
void plan_scatter_svg(const struct plan_rows *rows, const struct plan_time_report *t,
                      struct buf *out);
void plan_scatter_text(const struct plan_rows *rows, const struct plan_time_report *t, int width,
                       int height, struct buf *out);

#endif
