/* SPDX-License-Identifier: MIT */
/* search_int: what the files of the search share. */
#ifndef PLAN_SEARCH_SEARCH_INT_H
#define PLAN_SEARCH_SEARCH_INT_H
#include "plan/memory/step_memory_int.h"
#include "plan/search.h"
#include "plan/time/step_time_int.h"

/* Divisors: 2^20 GPUs have at most 240, 2^24 sequences 480, 4096 layers (and two more) fewer. */
enum { AXIS_MAX = 512 };
struct axis {
    int32_t v[AXIS_MAX];
    int count;
};
void axis_divisors(struct axis *a, int64_t n);

struct space_axes { /* values of the outer sizes */
    struct axis tp, cp, ep, etp, micro_batch, pp, vpp;
    struct plan_rates rates;
    struct plan_cut cut[AXIS_MAX];       /* of pp.v[i] */
    struct plan_stages stages[AXIS_MAX]; /* of pp.v[i] */
};
void space_axes_of(const struct plan_space *s, struct space_axes *out);
/* How often the rules are asked: what counting a space costs. */
double space_work(const struct plan_space *s, const struct space_axes *x);
uint64_t space_units(const struct space_axes *x); /* (tp, cp, ep, etp, micro-batch), mixed radix */

struct search_unit { /* what the loops of a unit share */
    struct plan_config c;
    struct half {
        struct plan_layer_time time;
        struct plan_layer_memory memory;
        bool ready;
    } half[2][2][3];                     /* offload, sp, recompute */
    struct plan_groups groups[AXIS_MAX]; /* of shards.v[i] */
    struct plan_groups whole;            /* without ZeRO */
    struct axis shards;                  /* groups that divide dp x cp; [0] is all of them */
    struct axis every;
    int zeros; /* (zero, shard) pairs */
};

struct search_worker { /* of one thread; nothing in it is shared */
    const struct plan_space *space;
    const struct space_axes *axes;
    struct plan_found *found;
    struct search_unit *unit;
    bool count_only;
    uint64_t looked;       /* (pp, vpp, sp) that rules were asked about, and pp that were not */
    struct plan_pick best; /* of the cut at hand */
    double ceiling[64];    /* fastest of the front below a 64th of the limit */
};
void worker_init(struct search_worker *w, const struct plan_space *s, const struct space_axes *x,
                 struct plan_found *f, struct search_unit *u);
/* Every configuration of one unit. */
void worker_unit(struct search_worker *w, uint64_t unit);

/* ---- lists ---- */
void found_init(struct plan_found *f, size_t top, struct arena *a); /* a NULL: no lists */
void found_offer_plain(struct plan_found *f, const struct plan_pick *p, int score);
void found_offer_top(struct plan_found *f, const struct plan_pick *p);
void found_offer_front(struct plan_found *f, const struct plan_pick *p);
void found_merge(struct plan_found *into, const struct plan_found *from);
bool pick_is_leaner(const struct plan_pick *a, const struct plan_pick *b);

/* How much machinery a configuration needs: 0 is plain replicas, each kind of cut adds to it.
 * Tensor parallelism across nodes is the least plain: its collectives are in every layer, and what
 * they take hangs on the network.  What Megatron-LM advises against comes next. */
int plan_plainness(const struct plan_config *c, const struct plan_cluster *cl);
/* Whether there is one that the rules and the framework leave.  What it may look at is taken from
 * *left (combinations of sizes); false as well where that is too little. */
bool plan_search_any(const struct plan_space *s, double *left);
/* tp, pp, vpp, cp, ep, etp, dp and micro-batch are the same. */
bool plan_same_cut(const struct plan_config *a, const struct plan_config *b);
/* Why the framework cannot run `c`, which passed the rules; NULL: it can. */
const char *plan_framework_refuses(enum plan_framework f, const struct plan_model *m,
                                   const struct plan_config *c);
/* Whether Accelerate runs `c` by DeepSpeed; else FSDP2, or replicas. */
bool plan_accelerate_deepspeed(const struct plan_config *c);
/* Whether Megatron-LM's precision-aware optimizer is what `c` needs. */
bool plan_megatron_aware(const struct plan_config *c);

#endif
