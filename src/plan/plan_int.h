/* SPDX-License-Identifier: MIT */
/* plan_int: arithmetic that the files of plan/ share. */
#ifndef PLAN_PLAN_INT_H
#define PLAN_PLAN_INT_H
#include "plan/plan.h"

#include <assert.h>

__extension__ typedef unsigned __int128 plan_u128;

/* To 64 bits.  The limits of plan.h keep every product of the folder below 2^63; a value above is
 * a fault of the program, and saturating it would hide one. */
static inline uint64_t plan_u64(plan_u128 v)
{
    assert(v <= UINT64_MAX);
    return (uint64_t)v;
}

static inline int64_t plan_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t plan_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t plan_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* GPUs the tensor parallelism of experts spans, by the rule where it is not given. */
static inline int64_t plan_etp(const struct plan_config *c)
{
    return c->etp ? c->etp : c->ep > 1 ? 1 : c->tp;
}

bool plan_layer_is_moe(const struct plan_model *m, int64_t layer);
double plan_flops_token(const struct plan_model *m, int64_t seq, enum plan_flops kind,
                        struct plan_recompute_share again);
/* A power cap below the board's limit lowers the clock: dynamic power goes with its third power
 * (voltage follows the clock), a share of the board's limit is drawn whatever the clock.  0 and
 * what is not below the limit change nothing. */
void plan_gpu_cap(struct plan_gpu *g, double watts);
/* By the driver's product name: "NVIDIA H100 80GB HBM3". */
enum rc plan_gpu_by_product(const char *product, struct plan_gpu *out, struct err *err) MUST_USE;
/* Of the divisors of n the one nearest to v, at most `max`. */
int64_t plan_nearest_divisor(int64_t n, int64_t v, int64_t max);
/* Layers of a stage, all its chunks together. */
void plan_stage_of(const struct plan_model *m, const struct plan_config *c, int32_t stage,
                   struct plan_stage *out);
/* Micro-batches whose activations a stage holds at its peak, in chunks of a vpp-th of a stage. */
int64_t plan_stage_in_flight(const struct plan_config *c, int32_t stage);
/* What torch has allocated, of a GPU's bytes by kind: nvidia-smi shows all of them. */
uint64_t plan_memory_allocated(const uint64_t kind[PLAN_KINDS]);
/* Bits of a weight of a frozen layer under LoRA, with the constants of its quantisation: 4-bit
 * blocks of 64 have one each, of 8 bits under double quantisation (QLoRA), with one in fp32 for 256
 * of them.  Only matrices of layers are quantised: bitsandbytes replaces nn.Linear, Transformers
 * leaves the head out. */
double plan_frozen_bits(const struct plan_config *c);
/* Bytes for each logit, by the profile. */
double plan_logit_bytes(const struct plan_config *c, const struct plan_memory_consts *k);

/* The first rule that `c` breaks on `cl` (NULL: any cluster).  No text: for searches. */
enum plan_rule plan_config_rule(const struct plan_model *m, const struct plan_cluster *cl,
                                const struct plan_config *c);

#endif
