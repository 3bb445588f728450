/* SPDX-License-Identifier: MIT */
/* campaign_int: what the files of a campaign, and those that use its facts inside the planner,
 * share. */
#ifndef PLAN_CAMPAIGN_CAMPAIGN_INT_H
#define PLAN_CAMPAIGN_CAMPAIGN_INT_H
#include "plan/cluster_size.h"
#include "plan/queue.h"

const struct plan_fact *plan_fact_row(const struct plan_facts *f, const char *name);
/* Price of a GPU-hour: on demand is usually the catalogue's.  False: unknown. */
bool plan_gpu_price(const struct plan_facts *f, const struct plan_gpu *gpu, enum plan_pay pay,
                    struct plan_range *out);
/* Whose rows describe a GPU's time, its generation's: "a100", "h100", "b200" or "none"; and the
 * name of a stack's rows. */
const char *plan_gpu_kin(const struct plan_gpu *gpu);
const char *plan_band_stack(enum plan_stack stack);

struct plan_rng { /* the seed is the caller's, so that every answer repeats */
    uint64_t s;
};
uint64_t plan_rng_next(struct plan_rng *r);           /* splitmix64 */
double plan_rng_unit(struct plan_rng *r);             /* in (0, 1] */
double plan_rng_exp(struct plan_rng *r, double mean); /* exponential */
double plan_rng_lognormal(struct plan_rng *r, double mean, double cv);

/* Seconds of work between saves, beside Young's and Daly's: the minimum of plan_wall_factor(),
 * M (1 + W0(-e^-(1 + C/M))), which neither a long save nor a short MTBF breaks. */
double plan_interval_exact(double save_s, double mtbf_s);
enum { PLAN_SIZES_MAX = 48 };
/* 64-port switches of a fat tree over so many 8-port nodes; out_layers: of switches. */
int64_t plan_switches(int64_t nodes, int64_t *out_layers);

#endif
