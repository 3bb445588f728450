/* SPDX-License-Identifier: MIT */
/* choose: which of many configurations to take first.
 *
 * The fastest of those that leave the margin free.  Where others are as fast (within `tie`), of
 * those that no other beats in time and in memory the one that cuts the model over the fewest GPUs,
 * then the emptiest: what a cut costs is what the model of time knows least.  With it no first
 * choice of forty fits to two thirds of the runs crashed on the cells of the Ultra-Scale table (a
 * model on a number of GPUs); the emptiest alone took a run that crashed in most of them.  Wider
 * ties, a bonus for ZeRO 1 over ZeRO 0 and a malus for tensor parallelism or pipelines over the
 * network were tried there too: each made more first choices worse than better.  What is fragile is
 * kept away by the margin. */
#ifndef PLAN_CHOOSE_H
#define PLAN_CHOOSE_H
#include <stddef.h>
#include <stdint.h>

struct plan_candidate {
    double step_s; /* seconds for one and the same batch */
    double bytes;  /* of the fullest GPU: plan_memory.total or plan_step_memory() */
    int64_t cut;   /* GPUs of a replica: tp x pp x cp */
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
