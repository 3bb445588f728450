/* SPDX-License-Identifier: MIT */
/* cluster_size: how many GPUs a deadline needs, and what such a cluster costs.
 *
 * Sizes tried are whole nodes, in steps of a half and a third of a power of two (1, 2, 3, 4, 6, 8,
 * 12 ...): sizes that a batch can be divided by.  Cost has three parts, which are asked for
 * separately because different people pay them: GPUs, storage, network; rented and bought. */
#ifndef PLAN_CLUSTER_SIZE_H
#define PLAN_CLUSTER_SIZE_H
#include "plan/campaign.h"

struct plan_sized {
    struct plan_cluster cluster;
    struct plan_best best;
    struct plan_campaign campaign;
};
struct plan_size_want {
    struct plan_best_want best;
    struct plan_campaign_want campaign;
    double days;  /* the deadline; 0: the fewest that hold the job */
    bool sure;    /* the far end of the range must keep it, not the expected figure */
    int64_t most; /* GPUs; 0: 65,536 */
    bool parts;   /* one, two or four GPUs of a node count as well */
};
/* The smallest that does; `before` is the next smaller one that fits at all (cluster.gpus 0: none).
 * RC_LIMIT when even the largest does not, with its days. */
enum rc plan_size_for(const struct plan_facts *f, const struct plan_model *m,
                      const struct plan_counts *n, const struct plan_gpu *gpu,
                      const struct plan_size_want *want, struct plan_sized *out,
                      struct plan_sized *before, struct err *err) MUST_USE;

/* ---- cost ---- */
struct plan_cost_want {
    double data_bytes; /* of the training data; 0: 4 bytes a token */
    double kept;       /* checkpoints; 0: the usual */
    double node_usd;   /* to buy a node; 0: by the table, where it has one */
    int64_t spares;
    double own_years; /* to write it off; 0: 3 */
};
struct plan_cost {
    bool rent_known, buy_known;
    struct plan_range rent_gpus, rent_storage, rent_network;
    struct plan_range buy_gpus, buy_network;
    double buy_power; /* of the campaign */
    double data_bytes, kept_bytes, egress_bytes;
    int64_t nodes, switches, layers; /* of switches */
    double months;
    double break_even_hours; /* of a GPU: from there buying is cheaper than renting; 0: unknown */
};
void plan_cost_of(const struct plan_facts *f, const struct plan_sized *s, double tokens,
                  const struct plan_cost_want *want, struct plan_cost *out);

#endif
