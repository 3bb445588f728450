/* SPDX-License-Identifier: MIT */
/* step_time_int: a training step's time in two halves, for searches that try millions.
 *
 *   layer half   plan_layer_time_of(): model, seq, micro_batch, tp, cp, ep, seq_par, recompute,
 *                precision, profile, cluster: a few microseconds, shared by every step below
 *   step half    plan_step_time(): pp, vpp, grad_acc, dp, zero: tens of nanoseconds, no pow and no
 *                log; what of it would need them is prepared in plan_group and plan_cut
 *
 * plan_time_of() is both, with the parts. */
#ifndef PLAN_TIME_STEP_TIME_INT_H
#define PLAN_TIME_STEP_TIME_INT_H
#include "plan/consts.h"
#include "plan/step_time.h"

/* A machine under constants: rates that are reached. */
struct plan_rates {
    double peak, hbm, nvl;   /* FLOP/s (data sheet), bytes/s, bytes/s */
    double net;              /* bytes/s of network a GPU reaches between two nodes */
    double fp32;             /* FLOP/s (data sheet) of plain fp32 */
    double fp8;              /* fp8 over bf16, as reached */
    double sms, node, nodes; /* node: GPUs of an NVLink domain */
    double memory;           /* bytes of a GPU */
};
void plan_rates_of(const struct plan_cluster *cl, const struct plan_consts *k,
                   struct plan_rates *out);

/* GPUs that reduce and gather together.  A collective takes bytes x slope + latency; an all-reduce
 * takes twice that of `reduce`. */
struct plan_group {
    double gather, reduce; /* seconds a byte: one pass of gather or scatter, of an all-reduce */
    double latency;        /* seconds a pass */
    double hop;            /* seconds a tensor that is gathered across nodes */
    double ring; /* seconds a tensor that is summed by itself across nodes waits for ranks */
};
/* `gpus` of a group on `span` nodes; tp: tensor parallel, whose messages are small. */
void plan_group_of(const struct plan_rates *r, const struct plan_consts *k, double gpus,
                   double span, bool tp, struct plan_group *out);
/* Replicas, dp x cp GPUs: those a ZeRO shard spreads over, and the copies of a shard. */
struct plan_groups {
    struct plan_group shard;  /* all replicas where there is one copy */
    struct plan_group copies; /* zero: there is one */
    double shard_gpus;        /* by which ZeRO divides */
};
/* `shard` 0: all replicas. */
void plan_groups_of(const struct plan_rates *r, const struct plan_consts *k, int32_t tp, int32_t cp,
                    int32_t dp, int32_t shard, struct plan_groups *out);
/* Layers on the first, the fullest middle and the last stage. */
struct plan_cut {
    double first, middle, last;
};
void plan_cut_of(const struct plan_model *m, enum plan_split split, int32_t pp,
                 struct plan_cut *out);

struct plan_layer_time {
    /* [0] without a pipeline or on one node, [1] with one across nodes */
    double fwd[2], bwd[2];
    double part[2][PLAN_PARTS];                  /* of a layer, forward, backward and again */
    double head, embed;                          /* a micro-batch: last and first stage */
    double head_tp, embed_tp;                    /* of them collectives */
    double send, send_hidden;                    /* a micro-batch to the next stage, and back */
    double tp_hidden, cp_hidden, ep_hidden;      /* a layer */
    double cp;                                   /* ranks that share weights beside dp */
    double micro;                                /* fixed, a micro-batch and stage */
    double layers, params, expert_params, table; /* parameters a GPU, of a layer; V x h / tp */
    double tables_one_stage;                     /* 1 tied, 2 not */
    double grad_bytes, opt_bytes;                /* a parameter */
    double tensors_layer, tensors;               /* gathered: a layer of the stage, in all */
    double expert_ratio;                         /* tp / ep: replicas of an expert over dp x cp */
    double hide;                                 /* share of layers that hides traffic; 0: none */
    double scatter_hide;                         /* the same where ZeRO scatters the gradients */
    double gather_hide;                          /* the same for gathers before the forward pass */
    double zero3_open;                           /* share of hidden ZeRO-3 traffic that stays */
    double floor, step, press, press_bytes;      /* constants of the step half */
    double hbm, pcie, host_mem;
    double chunk_open; /* of tensor-parallel traffic and sends what is not hidden */
    bool across;       /* the job spans nodes */
    bool sums_apart;   /* in a pipeline without ZeRO gradients are summed tensor by tensor */
    bool offload_optimizer, offload_params;
};
void plan_layer_time_of(const struct plan_model *m, const struct plan_rates *r,
                        const struct plan_consts *k, const struct plan_config *c,
                        struct plan_layer_time *out);

/* Seconds of a step.  `parts`, where it is not NULL, gets them by part; they add up. */
struct plan_step {
    int32_t pp, vpp, micro_batches, dp, zero;
};
double plan_step_time(const struct plan_layer_time *l, const struct plan_cut *cut,
                      const struct plan_groups *g, const struct plan_step *s,
                      struct plan_time *parts);

/* Seconds of a step, both halves, without the parts. */
double plan_seconds(const struct plan_model *m, const struct plan_cluster *cl,
                    const struct plan_config *c, const struct plan_consts *k);

/* RC_PARSE with the line for a file that is no such table. */
enum rc plan_consts_read(struct arena *a, const char *text, size_t len,
                         struct plan_const_table *out, struct err *err) MUST_USE;
/* Values of a kind ("h100"); false: the table has no row of that kind. */
bool plan_consts_of(const struct plan_const_table *t, const char *kind, struct plan_consts *out);
/* Which kind's constants a GPU takes: its own, its generation's, or a stand-in's. */
const char *plan_consts_kind(const struct plan_gpu *gpu);

#endif
