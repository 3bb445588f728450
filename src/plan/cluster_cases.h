/* SPDX-License-Identifier: MIT */
/* cluster_cases: one training job on several clusters, each with what the search found on it.
 *
 * A case is a cluster with its space and the search's lists.  What people compare is derived here:
 * days and dollars of a configuration, the points that no other beats over all clusters, the case
 * that meets a goal best, the number of GPUs that would. */
#ifndef PLAN_CLUSTER_CASES_H
#define PLAN_CLUSTER_CASES_H
#include "plan/consts.h"
#include "plan/search.h"

struct plan_goal { /* 0: not given */
    double tokens, days, budget;
};
struct plan_case {
    struct plan_cluster cluster;
    struct plan_consts consts;
    struct plan_space space; /* of this cluster and these constants */
    struct plan_found found;
    double price; /* dollars an hour and GPU; 0: unknown */
};

struct plan_figures { /* of one configuration on one cluster */
    struct plan_time time;
    struct plan_memory memory;
    double step_s_low, step_s_high; /* by the error band, where the caller sets them; 0 */
    double days, dollars;           /* of the tokens; 0: not known */
    double dollars_btok;            /* a billion tokens; 0: not known */
    bool fits, misses_days, misses_budget;
};
void plan_case_figures(const struct plan_case *k, const struct plan_goal *goal,
                       const struct plan_config *c, struct plan_figures *out);

struct plan_point { /* of the front over all clusters */
    size_t cluster; /* whose point it is, of the cases */
    const struct plan_pick *pick;
    double token_s;  /* seconds a token */
    double headroom; /* bytes below the GPU's memory */
    double dollars;  /* a token; 0: not known */
};
/* Points that no other beats in time, headroom and cost together; best time first. */
size_t plan_cases_front(const struct plan_case *cases, size_t count, struct plan_point *out,
                        size_t max);

/* The cheapest that meets the deadline, the fastest within the budget, or the fastest of all;
 * false: nothing fits on any. */
bool plan_cases_choose(const struct plan_case *cases, size_t count, const struct plan_goal *goal,
                       size_t *chosen);
/* Sizes above the case's cluster, four in each doubling, whole nodes: the first that trains all
 * tokens in the days; 0: none. */
int64_t plan_gpus_in_time(const struct plan_case *k, const struct plan_goal *goal, int threads);

#endif
