/* SPDX-License-Identifier: MIT */
/* plan_train_int: what the files of `stoker plan train` share. */
#ifndef CMD_PLAN_PLAN_TRAIN_INT_H
#define CMD_PLAN_PLAN_TRAIN_INT_H
#include "base/text/json.h"
#include "cmd/plan/plan_cmd_int.h"
#include "plan/advice.h"
#include "plan/cluster_cases.h"

#define GIB ((double)(1 << 30))
enum {
    CASES_MAX = 16,
    FRONT_SHOWN = 12,
    TRAIN_GIVEN_MAX = 24, /* facts that a spec gives */
    VARY_MAX = 20000000   /* configurations of a space that is searched again six times */
};

struct train_opts {
    const char *file; /* of the spec; NULL: none */
    const char *model, *gpu, *gpus, *tokens, *days, *budget, *price, *net, *precision, *optimizer,
        *stack, *split, *free, *fix, *explain, *compare, *flags, *framework;
    int64_t batch, seq, top, threads, node;
    int64_t machine; /* the spec's GPUs of a machine; 0: none is told */
    bool eager, fused, no_flash, no_overlap, offload, all, no_vary, rules, json;
};

/* What the spec said instead of an option. */
struct train_given {
    const char *option, *value; /* "--gpus", "64" */
    const char *key;            /* "components.train.gpus" */
    int line;                   /* 0: the schema's default */
    const char *file;           /* that the line is of; NULL: likewise */
};

struct train_job {
    const char *file, *component; /* of the spec; NULL: none */
    struct train_given given[TRAIN_GIVEN_MAX];
    size_t given_count;
    struct plan_model model; /* layers 0: not known yet */
    bool measured;           /* the spec's model has no layers to cut: `machine` is what is asked */
    struct plan_machine_want machine;
    struct plan_counts counts;
    struct plan_config base;
    struct plan_case cases[CASES_MAX];
    size_t count;
    size_t chosen; /* the case that is shown in full */
    int64_t batch;
    bool batch_usual; /* nobody named one: that of published runs */
    struct plan_goal goal;
    int64_t gpus_in_time; /* the fewest, of sizes tried, that meet `days`; 0: not asked, or none */
    bool rules;           /* refusals are shown */
    double free_percent;
    double band_low, band_high; /* factors of a step's time */
    const char *band_source;
    bool band_stand_in;
    bool vary;
    struct plan_vary varies[PLAN_VARIES];
    struct arena arena;
};

/* Fills what `o` leaves open from a component of the spec o->file (NULL: the only one that trains).
 * RC_USAGE names the key of what the spec lacks. */
enum rc train_spec(struct cmd_ctx *ctx, struct train_opts *o, const char *component,
                   struct train_job *j, struct err *err) MUST_USE;
/* For commands that ask another question about a component: the job as `stoker plan train -f` reads
 * it (RC_USAGE where its model was only measured), and its plan, which is the choice of
 * j->cases[j->chosen].  `j` is zeroed; release it in any state. */
enum rc train_read(struct cmd_ctx *ctx, struct train_opts *o, const char *component,
                   struct train_job *j, struct err *err) MUST_USE;
enum rc train_search(struct cmd_ctx *ctx, const struct train_opts *o, struct train_job *j,
                     struct err *err) MUST_USE;
void train_job_free(struct train_job *j); /* of the heap; NULL: nothing */
/* Of what the spec said the values of these options (up to NULL); the others did not count. */
void train_spec_keep(struct train_job *j, const char *const *options);
void train_spec_print(struct cmd_ctx *ctx, const struct train_job *j);
void train_spec_json(struct json_out *w, const void *train_job); /* a FIELD_BY() */

extern const struct field_table train_time_table, train_cost_table; /* of plan_figures */

void train_print(struct cmd_ctx *ctx, const struct train_job *j);
void train_json(struct cmd_ctx *ctx, const struct train_job *j);
void train_explain(struct cmd_ctx *ctx, const struct train_job *j, const struct plan_config *c,
                   bool json);
void train_compare(struct cmd_ctx *ctx, const struct train_job *j, const struct plan_config *a,
                   const struct plan_config *b, bool json);
/* "bubble +0.120 s, dp +0.050 s, tp -0.030 s": the largest differences of parts, b less a. */
void train_differences(const struct plan_time *a, const struct plan_time *b, struct buf *out);

#endif
