/* SPDX-License-Identifier: MIT */
/* top1: how good first choices are: measured speed of ours over the best measured, cell by cell.
 * A cell is the runs of one table, model shape, number of GPUs and batch; the first choice is what
 * the search would take of them (plan_choice()), the emptiest where none leaves the margin free. */
#ifndef PLAN_TOP1_H
#define PLAN_TOP1_H
#include "plan/runs.h"

/* Which runs take part: those R1 leaves in, with the crashed ones of the same kind; all up to 256
 * GPUs.  Both of the table that has crashes beside runs (Ultra-Scale), without R2. */
enum plan_top1_set { PLAN_TOP1_CLEAN, PLAN_TOP1_ALL };

struct plan_top1 {
    size_t cells;   /* with at least one run that ran */
    size_t crashed; /* first choices that did not run: they count as 0 */
    double mean, median, worst;
};
enum { PLAN_CELLS_MAX = 512 };
enum rc plan_top1_of(struct arena *a, const struct plan_rows *rows, const struct plan_consts_all *k,
                     enum plan_top1_set set, struct plan_top1 *out, struct err *err) MUST_USE;

#endif
