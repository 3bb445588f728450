/* SPDX-License-Identifier: MIT */
/* choose: which of many configurations to take first.
 *
 * The fastest of those that leave the margin free.  Where others are as fast (within `tie`), of those
 * that no other beats in time and in memory the one with the fewest tensor-parallel ranks, then the
 * emptiest: what tensor parallelism costs is what the model of time knows least, and it errs on the
 * fast side.  Wider ties, a bonus for ZeRO 1 over ZeRO 0 and a malus for tensor parallelism or
 * pipelines over the network were tried on the cells of the Ultra-Scale table (a model on a number
 * of GPUs): each made more first choices worse than better, and a rule picked on all cells but one
 * loses 3 % on the cell left out.  What is fragile is kept away by the margin. */
#ifndef PLAN_CHOOSE_H
#define PLAN_CHOOSE_H
#include <stddef.h>
#include <stdint.h>

struct plan_candidate {
    double step_s; /* seconds for one and the same batch */
    double bytes;  /* of the fullest GPU: plan_memory.total or plan_step_memory() */
    int32_t tp;    /* tensor-parallel ranks */
};
struct plan_choice {
    double limit;  /* bytes of a GPU */
    double margin; /* share of them to leave free */
    double tie;    /* share of the time that is no difference */
};
/* Context, NCCL and fragmentation are in `bytes`: with them a tenth of the GPU has no tensors. */
#define PLAN_CHOICE_MARGIN 0.05
#define PLAN_CHOICE_TIE    0.01

/* The place of the first choice.  Where none leaves the margin free, the emptiest: whether it fits
 * is for the caller to say.  Candidates without a time (not above 0) are left out; `n`: none has
 * one. */
size_t plan_choose_first(const struct plan_candidate *c, size_t n, const struct plan_choice *rule);

#endif
