/* SPDX-License-Identifier: MIT */
/* step_memory_int: bytes of a GPU in two halves, for searches that try millions.
 *
 *   layer half   plan_layer_memory_of(): what does not depend on the pipeline, on replicas or on
 *                ZeRO.  Depends on the model, seq, micro_batch, tp, cp, ep, etp, seq_par,
 *                recompute, recompute_every, precision, optimizer, lora_rank, base_bits, offload
 *                and profile.  About a microsecond, shared by every step below.
 *   stages       plan_stages_of(): the few stages that can be the fullest.  Depends on the model,
 *                pp and profile.split only; one table of them by pp serves a whole search.
 *   step half    plan_step_memory(): pp, vpp, grad_acc, dp, zero, shard, schedule: tens of
 *                nanoseconds, no allocation.
 *
 * plan_memory_of() and plan_memory_stage() are the same formulas, with every kind apart: the step
 * half answers their total to the byte that rounding each kind leaves open. */
#ifndef PLAN_MEMORY_STEP_MEMORY_INT_H
#define PLAN_MEMORY_STEP_MEMORY_INT_H
#include "plan/plan.h"

struct plan_layer_memory {
    /* parameters a GPU holds: of a layer, of a dense and of a MoE layer's MLP, of the ends */
    double attn, mlp, shared, experts;
    double table, positions, head, outer;
    double adapters;       /* LoRA's, of a layer */
    double unit_d, unit_m; /* largest unit that ZeRO 3 gathers: a dense layer, a MoE layer */
    /* bytes a parameter */
    double weight, frozen, frozen_end, grad, copy, optimizer, gathered_weight;
    /* frozen_end: of embedding, head and outer norms, which quantisation leaves alone */
    double table_copy; /* of the table, once more */
    double cast;       /* a 16-bit copy for the passes */
    double whole_copy; /* weights gathered once a micro-batch and kept beside their shards */
    double step_copy;  /* what the optimizer makes for its step, of what learns */
    /* bytes of a micro-batch */
    double act_dense, act_moe; /* a layer saves */
    double stays;              /* a layer's gathered inputs, where they stay */
    double input;              /* of a layer: what full recompute keeps */
    double embed_act, head_act, logits;
    /* bytes of communication */
    double gather, exchange, send, bucket; /* send: with a pipeline; bucket: with replicas */
    double fixed, context, group;          /* tensors; CUDA; each group of more than one GPU */
    double fragment, logit_fragment, logit_fragment_low; /* shares */
    double expert_replicas; /* of an expert over those of a dense weight: tp / (ep x etp) */
    int32_t groups;         /* of tp, cp and ep */
    int32_t every;          /* full recompute: layers between kept inputs; 0: not full */
    bool adapt;             /* LoRA */
    bool torch;             /* a plain script */
    bool ahead;             /* the device is the slower side: gathered inputs stay */
    bool keep_gathered, offload_weights, offload_optimizer, tied_far;
};
void plan_layer_memory_of(const struct plan_model *m, const struct plan_counts *n,
                          const struct plan_config *c, const struct plan_memory_consts *k,
                          struct plan_layer_memory *out);

/* A stage is left out where one in front of it has as many layers of each kind, and the ends it
 * has: it holds as many micro-batches or more. */
enum { PLAN_STAGES_KEPT = 6 };
struct plan_stages {
    int32_t count;
    int32_t index[PLAN_STAGES_KEPT];
    struct plan_stage stage[PLAN_STAGES_KEPT];
};
void plan_stages_of(const struct plan_model *m, const struct plan_config *c,
                    struct plan_stages *out);

/* Bytes of the fullest stage, as plan_memory.total. */
double plan_step_memory(const struct plan_layer_memory *l, const struct plan_stages *s,
                        const struct plan_config *c);

/* Names of plan_memory_consts, as data/plan.csv has them (kind "memory"). */
struct plan_memory_const {
    const char *name;
    size_t offset; /* of a double in struct plan_memory_consts */
};
extern const struct plan_memory_const plan_memory_const_table[];
extern const size_t plan_memory_const_count;

#endif
