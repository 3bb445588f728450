/* SPDX-License-Identifier: MIT */
/* advice: learning rate, batch, loader and precision, each with where it comes from.
 *
 * Nothing here is computed from first principles: it is what published runs did (data/recipes.csv)
 * and the rules papers gave for changing it (data/lr_rules.csv).  So each answer carries its source
 * and the spread of the runs it rests on. */
#ifndef PLAN_ADVICE_H
#define PLAN_ADVICE_H
#include "plan/campaign.h"

struct plan_recipe {
    const char *name, *kind, *optimizer, *batch_unit, *warmup, *schedule, *source;
    double params, tokens; /* parameters one token meets; 0: not said */
    double lr, batch;      /* samples or tokens a step */
    double batch_last;     /* where it grows during the run; 0: it does not */
    double lr_end_share;
};
struct plan_lr_rule {
    const char *name, *optimizer, *holds, *source;
    double exponent; /* of the ratio of batches */
};
struct plan_recipes {
    const struct plan_recipe *rows;
    size_t count;
    const struct plan_lr_rule *rules;
    size_t rules_count;
};
enum rc plan_recipes_load(struct arena *a, struct plan_recipes *out, struct err *err) MUST_USE;

/* Runs of a kind ("llm" takes "moe" too) nearest in parameters, nearest first. */
size_t plan_recipes_near(const struct plan_recipes *r, const char *kind, double params,
                         const struct plan_recipe **out, size_t max);
/* Of them those within a factor of two in parameters, five at most; the nearest when there is none.
 */
enum { PLAN_NEAR_MAX = 5 };
size_t plan_recipes_like(const struct plan_recipes *r, const char *kind, double params,
                         const struct plan_recipe *out[PLAN_NEAR_MAX]);
/* Tokens in a step and peak learning rates of such runs: the median, the least and the most. */
struct plan_range plan_usual_lr(const struct plan_recipes *r, double params);
struct plan_range plan_usual_batch(const struct plan_recipes *r, double params);
/* The same in sequences, as a power of two. */
int64_t plan_usual_sequences(const struct plan_recipes *r, double params, int64_t seq);

/* What a learning rate becomes when the batch changes from `from` to `to`. */
struct plan_lr_change {
    const struct plan_lr_rule *rule;
    double lr;        /* by the rule, up to the critical batch */
    double low, high; /* of the rules that could be argued for */
    bool capped;      /* `to` lies above the critical batch, which capped the growth */
};
void plan_lr_change(const struct plan_recipes *r, const char *optimizer, double lr, double from,
                    double to, double critical, struct plan_lr_change *out);

/* Laws for language models: C FLOPs of compute, N parameters.
 * DeepSeek LLM (arXiv 2401.02954 equation 1): lr = 0.3118 C^-0.1250 and
 * batch = 0.2920 C^0.3271 tokens.
 * Kaplan et al. 2020 (arXiv 2001.08361 equation D.1): lr = 0.003239 - 0.0001395 ln N. */
double plan_lr_deepseek(double compute);
double plan_batch_deepseek(double compute);
double plan_lr_kaplan(double params);

/* ---- the training configuration for a machine (vision and other models) ---- */
struct plan_machine_want {
    int64_t gpus, node_gpus, cores; /* cores 0: unknown */
    struct plan_gpu gpu;
    double params;       /* of the model; 0: not measured */
    double flops_sample; /* forward and backward; 0: not measured */
    double act_bytes;    /* activations of a sample; 0: not measured */
    double sample_bytes; /* decoded, as the loader hands it over; 0: not measured */
    double cpu_s;        /* of a core, to load a sample; 0: not measured */
    double efficiency;   /* share of the data sheet's rate; 0: that of the constants */
    int64_t batch;       /* a GPU; 0: chosen */
    double samples, epochs;
};
enum plan_setting {
    PLAN_SET_BATCH_GPU,
    PLAN_SET_BATCH,
    PLAN_SET_PRECISION,
    PLAN_SET_WORKERS,
    PLAN_SET_PREFETCH,
    PLAN_SET_PIN,
    PLAN_SET_PERSISTENT,
    PLAN_SET_DROP_LAST,
    PLAN_SET_PARALLEL,
    PLAN_SET_SYNC_BN,
    PLAN_SETTINGS
};
extern const char *const plan_setting_names[PLAN_SETTINGS]; /* "loader workers a GPU" */
enum { PLAN_VALUE_MAX = 48, PLAN_WHY_MAX = 320 };
struct plan_machine {
    char value[PLAN_SETTINGS][PLAN_VALUE_MAX];
    char why[PLAN_SETTINGS][PLAN_WHY_MAX];
    int64_t batch_gpu, batch, workers, prefetch;
    bool bf16, sharded;
    double memory_bytes;      /* a GPU; 0: not known */
    double step_s, samples_s; /* 0: not known */
    double hours;             /* of the run; 0: not known */
};
/* RC_LIMIT when one sample does not fit. */
enum rc plan_machine_of(const struct plan_machine_want *w, struct plan_machine *out,
                        struct err *err) MUST_USE;

#endif
