/* SPDX-License-Identifier: MIT */
/* trades: what each kind of recomputation and each mix of precisions saves and costs, for one
 * cut. */
#include "plan/choices.h"
#include "plan/plan_int.h"

#include <math.h>
#include <stdio.h>

static const char *what_again(const struct plan_config *c)
{
    if (c->recompute == PLAN_RECOMPUTE_FULL)
        return c->recompute_every == 1 ? "every layer: its input is kept, all else computed again"
                                       : "groups of layers: one input kept a group";
    if (c->recompute == PLAN_RECOMPUTE_SELECTIVE)
        return "scores and softmax of attention";
    switch (c->precision) {
    case PLAN_BF16_GRADS:
        return "nothing; gradients in 16 bits";
    case PLAN_PURE16:
        return "nothing; all states in 16 bits: small updates are lost";
    case PLAN_FP8:
        return "nothing; products in fp8";
    case PLAN_FP32:
        return "nothing; all in fp32, without TF32";
    default:
        return "nothing";
    }
}

struct trades { /* what is tried, and what came of it */
    const struct plan_model *m;
    const struct plan_counts *n;
    const struct plan_cluster *cl;
    const struct plan_config *c;
    const struct plan_consts *k;
    uint64_t limit;
    struct plan_trade *rows;
    size_t count;
};

static void trade_add(struct trades *j, enum plan_recompute rc, int32_t every,
                      enum plan_precision p)
{
    struct plan_trade *t = &j->rows[j->count++];

    *t = (struct plan_trade){ .config = *j->c, .step_s = (double)NAN, .paid = (double)NAN };
    t->config.recompute = rc;
    t->config.recompute_every = every;
    t->config.precision = p;
    t->again = what_again(&t->config);
    if (every > 1)
        snprintf(t->name, sizeof(t->name), "full, in %d", every);
    else
        snprintf(t->name, sizeof(t->name), "%s", plan_recompute_names[rc]);
    t->valid = plan_config_rule(j->m, j->cl, &t->config) == PLAN_RULE_OK;
    if (!t->valid)
        return;
    plan_memory_of(j->m, j->n, &t->config, &j->k->memory, &t->memory);
    plan_time_of(j->m, j->n, j->cl, &t->config, j->k, &t->time);
    t->fits = t->memory.total <= j->limit;
    t->saved_bytes = (int64_t)j->rows[0].memory.total - (int64_t)t->memory.total;
    t->step_s = t->time.step_s;
    t->paid = t->step_s / j->rows[0].time.step_s - 1;
}

size_t plan_trades(const struct plan_model *m, const struct plan_counts *n,
                   const struct plan_cluster *cl, const struct plan_config *c,
                   const struct plan_consts *k, uint64_t limit,
                   struct plan_trade out[PLAN_TRADES_MAX], int *choice)
{
    struct trades j = { m, n, cl, c, k, limit, out, 0 };
    enum plan_precision p = c->precision;

    trade_add(&j, PLAN_RECOMPUTE_NONE, 1, p);
    trade_add(&j, PLAN_RECOMPUTE_SELECTIVE, 1, p);
    for (int32_t every = 1; every <= 8; every *= 2)
        trade_add(&j, PLAN_RECOMPUTE_FULL, every, p);
    trade_add(&j, PLAN_RECOMPUTE_NONE, 1, PLAN_BF16_GRADS);
    trade_add(&j, PLAN_RECOMPUTE_NONE, 1, PLAN_PURE16);
    if (cl->gpu.fp8_flops > 0)
        trade_add(&j, PLAN_RECOMPUTE_NONE, 1, PLAN_FP8);
    trade_add(&j, PLAN_RECOMPUTE_NONE, 1, PLAN_FP32);
    *choice = -1;
    for (size_t i = 0; i < j.count; i++) {
        const struct plan_trade *t = &out[i];
        bool same = t->config.precision == p || t->config.precision == PLAN_FP8;

        /* the choice keeps fp32 master weights: pure 16 bits learn differently */
        if (t->valid && t->fits && same && (*choice < 0 || t->step_s < out[*choice].step_s))
            *choice = (int)i;
    }
    return j.count;
}
