/* SPDX-License-Identifier: MIT */
/* best_config: the search's choice for a number of GPUs, as one call. */
#include "plan/campaign.h"
#include "plan/search.h"

#include "base/str.h"
#include "plan/consts.h"
#include "plan/time/step_time_int.h"

void plan_profile_usual(const struct plan_cluster *cl, struct plan_profile *out)
{
    struct plan_config c;

    plan_config_init(&c);
    c.profile.split = PLAN_SPLIT_ENDS_LESS;
    c.profile.stack = plan_stack_usual(cl->gpus);
    /* what the runs behind the constants have: all that an A100's were fitted to are eager */
    c.profile.fused = !str_eq(plan_consts_kind(&cl->gpu), "a100");
    *out = c.profile;
}

static void space_of(const struct plan_model *m, const struct plan_counts *n,
                     const struct plan_cluster *cl, const struct plan_best_want *w,
                     const struct plan_consts *k, struct plan_space *out)
{
    *out =
        (struct plan_space){ .model = m,
                             .counts = n,
                             .cluster = cl,
                             .consts = k,
                             .batch = w->batch,
                             .fixed = w->whole ? 0 : PLAN_GIVEN_SHARD | PLAN_GIVEN_EVERY,
                             .limit = (uint64_t)((double)cl->gpu.mem_bytes * (1 - w->free_share)) };
    plan_config_init(&out->base);
    out->base.seq = w->seq;
    out->base.precision = w->precision;
    out->base.optimizer = w->optimizer;
    out->base.lora_rank = w->lora_rank;
    out->base.base_bits = w->base_bits;
    plan_profile_usual(cl, &out->base.profile);
    out->base.profile.fused = out->base.profile.fused && !w->eager;
    out->base.profile.flash = !w->no_flash;
    if (w->stack_given && cl->gpus > 1)
        out->base.profile.stack = w->stack;
}

enum rc plan_best_of(const struct plan_model *m, const struct plan_counts *n,
                     const struct plan_cluster *cl, const struct plan_best_want *want,
                     struct plan_best *out, struct err *err)
{
    struct plan_search_run run = { .threads = want->threads, .top = 1 };
    const struct plan_pick *choice;
    struct plan_found found = { 0 };
    struct plan_consts k;
    struct plan_space s;
    struct arena a = { 0 };
    enum rc rc;

    rc = plan_precision_rule_check(&cl->gpu, want->precision, err);
    if (!rc)
        rc = plan_consts_builtin(&cl->gpu, &k, err);
    if (rc)
        return rc;
    space_of(m, n, cl, want, &k, &s);
    rc = plan_search(&s, &run, &a, &found, err);
    choice = rc == RC_OK ? plan_choice(&found) : NULL;
    if (choice) {
        *out =
            (struct plan_best){ .config = choice->config, .tried = found.tried, .fit = found.fit };
        plan_memory_of(m, n, &out->config, &k.memory, &out->memory);
        plan_time_of(m, n, cl, &out->config, &k, &out->time);
    } else if (rc == RC_OK && !found.tried) {
        plan_refused_hint(&s, &found, err);
        rc = err_set(err, RC_LIMIT, "no way to cut '%s' on %lld GPUs passes the rules", m->name,
                     (long long)cl->gpus);
    } else if (rc == RC_OK) {
        int64_t more = err ? plan_enough_gpus(&s) : 0;

        if (more)
            err_hint(err, "On %lld GPUs something fits.", (long long)more);
        else
            err_hint(err, "GPUs with more memory or shorter sequences would help.");
        rc = err_set(err, RC_LIMIT,
                     "'%s' does not fit on %lld x %s: the least takes %.1f GiB of %.1f", m->name,
                     (long long)cl->gpus, cl->gpu.name, (double)found.least.memory / 0x1p30,
                     (double)s.limit / 0x1p30);
    }
    arena_release(&a);
    return rc;
}
