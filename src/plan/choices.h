/* SPDX-License-Identifier: MIT */
/* choices: which kind of GPU for a model and a use, which recomputation for a job.
 *
 * Both try the few ways there are with the same model of memory and time, and say of each what it
 * takes and why it is not the choice. */
#ifndef PLAN_CHOICES_H
#define PLAN_CHOICES_H
#include "plan/cluster_size.h"
#include "plan/consts.h"

/* ---- a kind of GPU ---- */
enum plan_use { PLAN_USE_PRETRAIN, PLAN_USE_FINETUNE, PLAN_USE_LORA, PLAN_USE_SERVE };
extern const char *const plan_use_names[]; /* NULL at the end */
enum { PLAN_CHOICES = 9 };
extern const char *const plan_choice_kinds[PLAN_CHOICES]; /* "h100", ... */

struct plan_choice_want {
    const struct plan_facts *facts;
    const struct plan_model *model;
    const struct plan_counts *counts;
    const struct plan_best_want *best; /* not for serving */
    enum plan_use use;
    double tokens;
    double budget;            /* dollars of the run, for serving of a month; 0: none */
    double days;              /* 0: no deadline */
    int64_t most;             /* GPUs; 0: by the use */
    double usd[PLAN_CHOICES]; /* of a GPU-hour, by kind; 0: the catalogue's */
};
struct plan_gpu_choice {
    struct plan_gpu gpu;
    int64_t sheet_gb;      /* memory, as a data sheet says it */
    bool fits, affordable; /* within the budget; what does not fit is neither */
    int64_t gpus;          /* the fewest; 0: it does not fit */
    double usd;    /* of the run; for serving of an hour; NaN: no price, or it does not fit */
    double metric; /* days; for serving tokens/s of one stream at most; NaN likewise */
    char why_not[ERR_MSG_MAX];
    const char *remark; /* "the choice", why_not, "above the budget", "" */
};
/* *best: of those that fit and are affordable the cheapest, without prices the one of which the
 * fewest do; *next: the runner-up.  -1: there is none. */
enum rc plan_gpu_choices(const struct plan_choice_want *w, struct plan_gpu_choice out[PLAN_CHOICES],
                         int *best, int *next, struct err *err) MUST_USE;

/* ---- recomputation and precision ---- */
enum { PLAN_TRADES_MAX = 12 };
struct plan_trade {
    struct plan_config config;
    struct plan_memory memory;
    struct plan_time time;
    bool valid, fits;
    int64_t saved_bytes; /* against no recomputation */
    double step_s, paid; /* share that a step is longer; NaN: not valid */
    char name[32];       /* "full, in 2" */
    const char *again;   /* what is computed again */
};
/* Of the cut of `c` every granularity and mix of precisions, the first without any; returns how
 * many.  *choice: the fastest below `limit` bytes that keeps fp32 master weights, -1: none. */
size_t plan_trades(const struct plan_model *m, const struct plan_counts *n,
                   const struct plan_cluster *cl, const struct plan_config *c,
                   const struct plan_consts *k, uint64_t limit,
                   struct plan_trade out[PLAN_TRADES_MAX], int *choice);

#endif
