/* SPDX-License-Identifier: MIT */
/* search_hint: what to change where a search finds nothing.
 *
 * A search without a result is of one of two kinds: the rules leave no configuration, or none of
 * those they leave fits.  For the first the nearest value is named that the rules let through, of
 * a size that is given or else of the batch; for the second a number of GPUs on which something
 * fits. */
#include "plan/search.h"

#include "base/str.h"
#include "plan/plan_int.h"

#include <stdlib.h>

enum { DOUBLINGS = 4 };

int64_t plan_enough_gpus(const struct plan_space *space)
{
    struct plan_cluster cl = *space->cluster;
    struct plan_space s = *space;

    s.cluster = &cl;
    s.base.dp = 1;
    s.fixed &= ~(unsigned)PLAN_GIVEN_DP;
    for (int i = 0; i < DOUBLINGS && cl.gpus <= PLAN_GPUS_MAX / 2; i++) {
        struct plan_search_run run = { .threads = 1, .top = 1 };
        struct plan_found f = { 0 };
        struct arena a = { 0 };
        enum rc rc;

        cl.gpus *= 2;
        rc = plan_search(&s, &run, &a, &f, NULL);
        arena_release(&a);
        if (rc != RC_OK)
            return 0;
        if (f.fit)
            return cl.gpus;
    }
    return 0;
}

/* The sizes that are given break a rule whatever the batch is: which, and the nearest value. */
static bool given_sizes_break(const struct plan_space *s, struct err *err)
{
    struct plan_config c = s->base;
    struct err why = { 0 };
    int64_t cut = (int64_t)c.tp * c.pp * c.cp;

    if (!(s->fixed & (PLAN_GIVEN_TP | PLAN_GIVEN_PP | PLAN_GIVEN_CP | PLAN_GIVEN_DP)))
        return false;
    if (!(s->fixed & PLAN_GIVEN_DP))
        c.dp = (int32_t)plan_max(1, s->cluster->gpus / plan_max(1, cut));
    c.grad_acc = c.pp; /* what the schedule asks of the batch is not the question here */
    if (plan_config_check(s->model, s->cluster, &c, &why) == RC_OK)
        return false;
    err_hint(err, "It breaks %s. %s", why.msg, why.hint);
    return true;
}

/* Every batch that can be is a multiple of a divisor of the GPUs: the nearest of those that leave
 * something; 0: none. */
static int64_t nearest_batch(const struct plan_space *space)
{
    int64_t gpus = space->cluster->gpus, best = 0;
    struct plan_space s = *space;

    for (int64_t d = 1; d <= gpus; d++) {
        struct plan_found f;

        if (gpus % d)
            continue;
        s.batch = plan_max(1, (space->batch + d / 2) / d) * d;
        if (s.batch > PLAN_BATCH_MAX ||
            (best && llabs(s.batch - space->batch) >= llabs(best - space->batch)))
            continue;
        plan_search_count(&s, &f);
        if (f.tried)
            best = s.batch;
    }
    return best;
}

/* Why the framework runs nothing of what the rules leave: what it says of the sizes that are given,
 * the others plain.  The highest ZeRO stage is asked first, since most frameworks have it with
 * everything; NULL: the reason is in a size that was searched. */
static const char *framework_reason(const struct plan_space *s)
{
    struct plan_config c = s->base;
    const char *why = NULL;

    if (!(s->fixed & PLAN_GIVEN_DP))
        c.dp = (int32_t)plan_max(1, s->cluster->gpus / ((int64_t)c.tp * c.pp * c.cp));
    for (c.zero = 3; c.zero >= 0 && !why; c.zero--)
        if (!(s->fixed & PLAN_GIVEN_ZERO) || c.zero == s->base.zero)
            why = plan_framework_refuses(s->framework, s->model, &c);
    return why;
}

void plan_refused_hint(const struct plan_space *s, const struct plan_found *f, struct err *err)
{
    int64_t batch;
    int most = 0;

    if (!err)
        return;
    for (int i = 1; i < PLAN_RULES; i++)
        most = f->excluded[i] > f->excluded[most] ? i : most;
    if (f->excluded[PLAN_RULE_FRAMEWORK]) { /* the rules left something, and it refused it all */
        const char *why = framework_reason(s);

        err_hint(err, "%s cannot run it: %s.", plan_framework_versions[s->framework],
                 why ? why : "each way to cut it has something that it has not");
    } else if (given_sizes_break(s, err))
        return;
    else if ((batch = nearest_batch(s)))
        err_hint(err, "The nearest batch that works is %lld.", (long long)batch);
    else if (most)
        err_hint(err, "Rule %s refuses most: %llu of them.", plan_rule_names[most],
                 (unsigned long long)f->excluded[most]);
    else
        err_hint(err, "The sizes that are given have to divide the number of GPUs and the batch.");
}
