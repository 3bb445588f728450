/* SPDX-License-Identifier: MIT */
/* choose: which of many configurations to take first.
 *
 * The fastest of those that leave the margin free; of predictions that are the same (within `tie`)
 * the emptiest.  Wider ties, a bonus for ZeRO 1 over ZeRO 0 and a malus for tensor parallelism or
 * pipelines over the network were tried on the cells of the Ultra-Scale table (a model on a number
 * of GPUs): each made more first choices worse than better, and a rule picked on all cells but one
 * loses 3 % on the cell left out.  What is fragile is kept away by the margin. */
#ifndef PLAN_CHOOSE_H
#define PLAN_CHOOSE_H
#include "plan/rows.h"

struct plan_candidate {
    double step_s; /* seconds for one and the same batch */
    double bytes;  /* of the fullest GPU: plan_memory.total or plan_step_memory() */
};
struct plan_choice {
    double limit;  /* bytes of a GPU; 0 in plan_top1_of(): what each row's GPU has */
    double margin; /* share of them to leave free */
    double tie;    /* share of the time that is no difference */
};
#define PLAN_CHOICE_MARGIN 0.10
#define PLAN_CHOICE_TIE    0.005

/* The place of the first choice.  Where none leaves the margin free, the emptiest that fits at
 * all; `n` where none does.  Candidates without a time (not above 0) are left out. */
size_t plan_choose_first(const struct plan_candidate *c, size_t n, const struct plan_choice *rule);

/* Measured speed of our first choice over the best measured, cell by cell: runs of one table, model
 * shape, number of GPUs and batch. */
struct plan_top1 {
    size_t cells;   /* with at least one run that ran */
    size_t crashed; /* first choices that did not run: they count as 0 */
    double mean, median, worst;
};
enum { PLAN_CELLS_MAX = 512 };
/* `step_s` is the predicted time of each row, 0 for those that take no part. */
enum rc plan_top1_of(struct arena *a, const struct plan_rows *rows, const double *step_s,
                     const struct plan_memory_consts *k, const struct plan_choice *rule,
                     struct plan_top1 *out, struct err *err) MUST_USE;

#endif
