/* SPDX-License-Identifier: MIT */
/* search: every way to cut a training job on a cluster, evaluated and ranked.
 *
 * The space is the product of
 *
 *   tp x pp x cp x dp   that multiply to the GPUs      ep, etp     of models with experts
 *   micro-batch         dp x it divides the batch      vpp         chunks of a stage
 *   schedule            1f1b, gpipe; interleaved       sp          on and off
 *   recompute           none, selective, full in       ZeRO 0 to 3, each over every shard group
 *                       units of 1.. layers of a chunk  that divides dp x cp
 *
 * less what plan_config_rule() refuses, and stages that a framework does not lay out by itself;
 * refused ones are counted by rule.  Memory and time are
 * computed for every configuration that is left: nothing is sampled and nothing is cut off.
 * Precision, optimizer, kernels and the stage split are given, not searched.
 *
 * Order is total (seconds, then memory, then the sizes), so that the answer is the same whatever
 * the number of threads.  The choice is the plainest of those that cannot be told from the fastest:
 * PLAN_PLAIN_TIE is how far two plans of one job must be apart before the model ranks them right
 * (the median error of Ultra-Scale's cells); its margin of memory is in the limit. */
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H
#include "plan/step_time.h"

/* Fields that plan_config_parse() found in its text. */
enum plan_given {
    PLAN_GIVEN_TP = 1 << 0,
    PLAN_GIVEN_PP = 1 << 1,
    PLAN_GIVEN_VPP = 1 << 2,
    PLAN_GIVEN_CP = 1 << 3,
    PLAN_GIVEN_EP = 1 << 4,
    PLAN_GIVEN_ETP = 1 << 5,
    PLAN_GIVEN_DP = 1 << 6,
    PLAN_GIVEN_ZERO = 1 << 7,
    PLAN_GIVEN_SHARD = 1 << 8,
    PLAN_GIVEN_MICRO_BATCH = 1 << 9,
    PLAN_GIVEN_GRAD_ACC = 1 << 10,
    PLAN_GIVEN_SP = 1 << 11,
    PLAN_GIVEN_RECOMPUTE = 1 << 12,
    PLAN_GIVEN_EVERY = 1 << 13,
    PLAN_GIVEN_PRECISION = 1 << 14,
    PLAN_GIVEN_SCHEDULE = 1 << 15,
    PLAN_GIVEN_OFFLOAD = 1 << 16
};
enum { PLAN_CONFIG_TEXT_MAX = 512 };
/* The text of plan_config_text(), in any order, blanks or commas between the words; "tp=8" is
 * "tp8", "nosp" and "none" say so.  What it does not name stays as it is in `c`.  RC_USAGE with
 * the nearest word. */
enum rc plan_config_parse(const char *text, struct plan_config *c, unsigned *out_given,
                          struct err *err) MUST_USE;
/* What follows from the rest: dp from the GPUs, the accumulation from the batch, the schedule from
 * the chunks. */
enum rc plan_config_complete(struct plan_config *c, unsigned given, int64_t gpus, int64_t batch,
                             struct err *err) MUST_USE;

enum plan_framework {
    PLAN_MEGATRON,
    PLAN_TORCHTITAN,
    PLAN_DEEPSPEED,
    PLAN_ACCELERATE,
    PLAN_TORCHRUN,
    PLAN_FRAMEWORKS
};

struct plan_space { /* everything is borrowed */
    const struct plan_model *model;
    const struct plan_counts *counts;
    const struct plan_cluster *cluster;
    const struct plan_consts *consts;
    struct plan_config base; /* what is given, and the values of `fixed` */
    unsigned fixed;          /* enum plan_given: sizes that are not searched */
    int64_t batch;           /* sequences a step */
    uint64_t limit;          /* bytes of a GPU that may be used */
    bool offload;            /* the optimizer in host memory too */
    double reference;        /* > 0: seconds: those that fit and are faster are counted */
    bool all;                /* `top` has every configuration; false: the best of a cut */
    bool for_one;            /* what `framework` cannot run is left out */
    enum plan_framework framework;
};

struct plan_pick {
    struct plan_config config;
    double step_s;
    uint64_t memory;
};

enum {
    PLAN_TOP_MAX = 1000,
    PLAN_FRONT_MAX = 4096,
    PLAN_THREADS_MAX = 256,
    PLAN_CUTS_MAX = 200000000 /* (tp, pp, cp, ep, etp, micro-batch, vpp, sp) of one search */
};
#define PLAN_SPACE_MAX UINT64_C(20000000000) /* configurations of one search */
#define PLAN_PLAIN_TIE 0.04
/* Of a GPU's bytes, to leave free.  Context, NCCL and fragmentation are counted: with them a tenth
 * of the GPU has no tensors. */
#define PLAN_CHOICE_MARGIN 0.05
enum { PLAN_PLAIN_SCORES = 28 };
/* Tensor or context parallelism with Megatron-FSDP before Blackwell: one wants
 * CUDA_DEVICE_MAX_CONNECTIONS=1, the other refuses it, and Megatron-LM says not to. */
bool plan_megatron_queues(const struct plan_config *c, const struct plan_gpu *gpu);

struct plan_found {
    struct plan_pick *top; /* best first, at most top_cap */
    size_t top_count, top_cap;
    struct plan_pick *front; /* fastest first, memory falling: nothing is better in both */
    size_t front_count;
    struct plan_pick least; /* of all, the one with the least memory */
    uint64_t tried;         /* memory and time computed */
    uint64_t fit;           /* of them below the limit */
    uint64_t better;        /* faster than the reference, of those that fit */
    uint64_t excluded[PLAN_RULES];
    bool front_full; /* PLAN_FRONT_MAX was met: the front has a gap */
    struct plan_pick
        plain[PLAN_PLAIN_SCORES]; /* the fastest that fits of each score; step_s 0: none */
};

/* A hint for a space of which the rules leave nothing (f->tried is 0): the rule that a given size
 * breaks, or the batch, with the nearest value that works.  `err` may be NULL. */
void plan_refused_hint(const struct plan_space *s, const struct plan_found *f, struct err *err);
/* The number of GPUs, doubled and doubled again, on which something fits; 0: none. */
int64_t plan_enough_gpus(const struct plan_space *s);

struct plan_search_run {
    int threads; /* 0: one */
    size_t top;  /* how many to keep */
    /* from the thread that called, now and then; NULL: none */
    void (*progress)(void *arg, uint64_t done, uint64_t all);
    void *arg;
};
/* RC_USAGE for a batch or a number of GPUs that cannot be, RC_LIMIT for a space that is too large;
 * lists are in the arena.  A space in which nothing fits is no error: found->fit is 0. */
enum rc plan_search(const struct plan_space *s, const struct plan_search_run *run, struct arena *a,
                    struct plan_found *out, struct err *err) MUST_USE;
/* The plainest of those that fit and are as fast as the fastest; NULL when nothing fits. */
const struct plan_pick *plan_choice(const struct plan_found *f);
/* The first of `top` whose cut is another than that of `c`; NULL: none. */
const struct plan_pick *plan_runner_up(const struct plan_found *f, const struct plan_config *c);
/* One configuration as the search sees it; it has passed its rules. */
void plan_pick_of(const struct plan_space *s, const struct plan_config *c, struct plan_pick *out);
int plan_pick_cmp(const struct plan_pick *a, const struct plan_pick *b);

/* ---- what would change it ---- */
enum { PLAN_VARIES = 6 };
struct plan_vary {
    const char *name; /* "network x 0.5" */
    bool any;         /* something fits */
    struct plan_pick best;
    struct plan_pick same; /* the choice under the changed conditions */
    bool same_valid, same_fits;
};
/* Searches again with half and twice the network, the memory and the batch. */
enum rc plan_vary_all(const struct plan_space *s, const struct plan_search_run *run,
                      const struct plan_config *choice, struct plan_vary out[PLAN_VARIES],
                      struct err *err) MUST_USE;

/* ---- the same for a framework ---- */
extern const char *const plan_framework_names[];                   /* NULL at the end */
extern const char *const plan_framework_versions[PLAN_FRAMEWORKS]; /* that the flags are of */
/* Why it cannot train on such a GPU in 16 bits; NULL: it can. */
const char *plan_framework_refuses_gpu(enum plan_framework f, const struct plan_gpu *gpu);
/* What its trainer stores where nothing is said. */
enum plan_precision plan_framework_precision(enum plan_framework f);
/* Launchers start as many processes on each node: as many as the machine has, or the most that
 * divide the GPUs and hold groups of tensor parallelism whole.  false: only with less than half of
 * a machine. */
bool plan_launch_shape(const struct plan_cluster *cl, const struct plan_config *c,
                       int64_t *out_nodes, int64_t *out_each);
/* A command (and a file for DeepSpeed) as text; lines that begin with # say what the framework has
 * no flag for. */
void plan_flags(const struct plan_model *m, const struct plan_cluster *cl,
                const struct plan_config *c, enum plan_framework f, struct buf *out);

#endif
