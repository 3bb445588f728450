/* SPDX-License-Identifier: MIT */
/* run_rows: published training runs, read into the planner's own terms.
 *
 * The table (one header, CSV) was gathered from many tables whose words differ: "dist-opt", "FSDP
 * 64", "yes if tp>1", "51200?".  Every word that is understood becomes a field; a row that cannot
 * become a (model, cluster, config, measured) is kept with the reason, so that rows used and rows
 * skipped always add up to the file. */
#ifndef PLAN_RUN_ROWS_H
#define PLAN_RUN_ROWS_H
#include "catalog/csv.h"
#include "plan/plan.h"

/* Rules by which rows leave a figure; a row may fall under several. */
enum plan_exclude {
    PLAN_R1_NOT_CLEAN = 1 << 0,  /* stalled, 512 GPUs or another batch (Ultra-Scale table) */
    PLAN_R2_PP_LAYERS = 1 << 1,  /* as many stages as layers: invalid, not out of memory */
    PLAN_R3_PEFT = 1 << 2,       /* 16 bytes a parameter exceed all memory: adapters, unsaid */
    PLAN_R4_VERSION = 1 << 3,    /* another version of the same table has the row again */
    PLAN_R5_OTHER_WORK = 1 << 4, /* LoRA, fine-tuning, a modified block */
    PLAN_R6_GPUS = 1 << 5        /* tp x pp x cp x dp is not the number of GPUs */
};
enum { PLAN_EXCLUDES = 6 };
extern const char *const plan_exclude_names[PLAN_EXCLUDES]; /* "R1", ... */

/* What the table does not say: the row serves figures that do not need it. */
enum plan_missing {
    PLAN_NO_SHAPE = 1 << 0, /* layers, hidden or vocabulary */
    PLAN_NO_HEADS = 1 << 1,
    PLAN_NO_MICRO_BATCH = 1 << 2,
    PLAN_NO_RECOMPUTE = 1 << 3,
    PLAN_NO_CUT = 1 << 4,     /* tp, pp or the number of GPUs */
    PLAN_NO_BATCH = 1 << 5,   /* global batch and accumulation */
    PLAN_NO_GPU = 1 << 6,     /* hardware the catalogue does not have */
    PLAN_BAD_MODEL = 1 << 7,  /* plan_model_check() refuses it */
    PLAN_BAD_CONFIG = 1 << 8, /* plan_config_rule() refuses it: `rule` */
    PLAN_BAD_TIME = 1 << 9    /* above the GPU's peak, or next to standing still */
};
enum { PLAN_MISSINGS = 10 };
extern const char *const plan_missing_names[PLAN_MISSINGS];

/* What was taken where the table is silent: told with the row. */
enum plan_assumed {
    PLAN_ASSUMED_VOCAB = 1 << 0, /* a GPT's: Megatron's table of 51,200 */
    PLAN_ASSUMED_BATCH = 1 << 1, /* a rate without a batch: some 2,048 sequences, as is usual */
    PLAN_ASSUMED_FLOPS = 1 << 2  /* "model FLOPs": over all pairs */
};
enum { PLAN_ASSUMEDS = 3 };
extern const char *const plan_assumed_names[PLAN_ASSUMEDS];

/* Whose memory a figure is: the fullest GPU's tensors, those of rank 0 (nanotron's log is printed
 * by it, and where the last stage has more, the published figures follow the first), or all that
 * nvidia-smi shows. */
enum plan_mem_kind { PLAN_MEM_NONE, PLAN_MEM_TORCH, PLAN_MEM_RANK0, PLAN_MEM_SMI };

struct plan_measured { /* 0: not measured */
    double iter_s;
    double tokens_s_gpu;
    double tflops_gpu;
    double mfu; /* 0 to 1 */
    double mem_bytes;
    enum plan_mem_kind mem_kind;
    double params;     /* as printed */
    double params_ulp; /* worth of its last digit */
    double rate_ulp;   /* share of the rate that rounding of the printed digits leaves open */
    bool flops_known;  /* the convention was understood */
    enum plan_flops flops;
    bool failed; /* out of memory or crashed */
};

struct plan_row {
    const char *source, *loc, *name; /* borrowed from the arena */
    size_t line;                     /* of the file, from 1; quoted line ends not counted */
    unsigned missing;                /* enum plan_missing */
    unsigned exclude;                /* enum plan_exclude */
    unsigned assumed;                /* enum plan_assumed */
    enum plan_rule rule;
    struct plan_model model;
    struct plan_counts counts;
    struct plan_cluster cluster;
    struct plan_config config;
    int64_t global_batch;
    struct plan_measured measured;
};
struct plan_rows {
    struct plan_row *rows;
    size_t count;
};
/* RC_PARSE for a file that is not such a table; rows never fail it. */
enum rc plan_rows_read(struct arena *a, const char *text, size_t len, struct plan_rows *out,
                       struct err *err) MUST_USE;

/* ---- figures ---- */
struct plan_errors { /* relative errors of one figure */
    size_t n;
    double mape, median, p90, max, mean; /* mean is signed: above 0 we predict too much */
};

struct plan_source_report {
    const char *source;
    size_t rows, used; /* used for memory or FLOPs or parameters */
    size_t missing[PLAN_MISSINGS], exclude[PLAN_EXCLUDES];
    struct plan_errors params, flops, memory, memory_large;
    size_t fit_n, fit_right;                             /* fits or not */
    size_t fit_yes, fit_yes_right, fit_no, fit_no_right; /* by what happened */
};
struct plan_report {
    struct plan_source_report *sources; /* sorted as they first appear; the last is "all" */
    size_t count;
    size_t fp8_n, fp8_fit; /* published fp8 runs on Hopper, and those that are counted to fit; where
                              recompute is not printed, single operations may be recomputed */
};
enum rc plan_validate(struct arena *a, const struct plan_rows *rows,
                      const struct plan_memory_consts *k, struct plan_report *out,
                      struct err *err) MUST_USE;

#endif
