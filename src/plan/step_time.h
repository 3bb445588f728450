/* SPDX-License-Identifier: MIT */
/* step_time: the parts a training step's time is made of.
 *
 * The parts are those a reader can act on; they add up to the step.  Each is the exposed time on
 * the slowest pipeline stage: what overlap hides is in `hidden`, not in its part.  Whoever computes
 * them takes a plan_model and plan_config that passed their checks, so that no part needs an
 * error of its own. */
#ifndef PLAN_STEP_TIME_H
#define PLAN_STEP_TIME_H
#include "plan/plan.h"

enum plan_part {
    PLAN_TIME_MATMUL,    /* matrices of layers, forward and backward */
    PLAN_TIME_ATTENTION, /* the attention core */
    PLAN_TIME_MEMORY,    /* norms, rotary, activations, residuals: bound by HBM */
    PLAN_TIME_HEAD,      /* embedding, head and loss */
    PLAN_TIME_RECOMPUTE, /* forward again */
    PLAN_TIME_LAUNCH,    /* host and launch cost of operations */
    PLAN_TIME_TP,        /* tensor-parallel collectives */
    PLAN_TIME_CP,        /* context-parallel exchange of keys and values */
    PLAN_TIME_EP,        /* dispatch and combine of experts */
    PLAN_TIME_PP,        /* sends between stages */
    PLAN_TIME_BUBBLE,    /* waiting for the pipeline, imbalance of stages included */
    PLAN_TIME_DP,        /* gradients and ZeRO traffic that nothing hides */
    PLAN_TIME_OPTIMIZER,
    PLAN_TIME_OFFLOAD,
    PLAN_PARTS
};

struct plan_time {
    double part[PLAN_PARTS];   /* seconds */
    double hidden[PLAN_PARTS]; /* seconds that run beside other work */
    double step_s;
    double tokens_s; /* of the whole job */
    double mfu;      /* model FLOPs over the data sheet's, with `flops` as convention */
    double hfu;
    enum plan_flops flops;
    double joules; /* a step, all GPUs */
};

extern const char *const plan_part_names[PLAN_PARTS]; /* "matmul" */

/* Constants of one GPU kind for time, and the one set for memory: data/plan.csv, which the fit
 * writes.  A kind without rows of its own takes another's, and says so in plan_gpu.note. */
enum { PLAN_CONST_NAME_MAX = 16, PLAN_CONSTS_MAX = 64 };
struct plan_consts {
    char kind[PLAN_ALIAS_MAX]; /* whose they are: "h100" */
    char note[160];            /* whom they stand in for, and why; "" else */
    double c[PLAN_CONSTS_MAX]; /* indexed by enum plan_const, consts.h */
    struct plan_memory_consts memory;
};
enum rc plan_consts_builtin(const struct plan_gpu *gpu, struct plan_consts *out,
                            struct err *err) MUST_USE;

/* What of a step does not depend on the pipeline, on replicas or on ZeRO: shared by thousands of
 * configurations of a search. Depends on the model, seq, micro_batch, tp, cp, ep, etp, seq_par,
 * recompute, precision and profile, and on the cluster. */
struct plan_layer_time; /* time.h */

/* The step.  `m`, `cl` and `c` have passed their checks.  No allocation. */
void plan_time_of(const struct plan_model *m, const struct plan_counts *n,
                  const struct plan_cluster *cl, const struct plan_config *c,
                  const struct plan_consts *k, struct plan_time *out);

#endif
