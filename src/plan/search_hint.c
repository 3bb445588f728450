/* SPDX-License-Identifier: MIT */
/* search_hint: what to change where a search finds nothing.
 *
 * A search without a result is of one of two kinds: the rules leave no configuration, or none of
 * those they leave fits.  For the first the nearest value is named that the rules let through: of
 * a size that is given and breaks one whatever the rest is, of the batch, or of one size beside
 * the other ones; for the second a number of GPUs on which something
 * fits. */
#include "plan/search.h"

#include "base/str.h"
#include "plan/plan_int.h"

#include <stddef.h>
#include <stdlib.h>

enum {
    DOUBLINGS = 4,
    NEAR_MAX = 16 /* values beside a given one that are tried */
};

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

/* The sizes that are given break a rule whatever the batch is: which, and the nearest value.  Where
 * no cut is given the others are free, and only the number of experts is asked. */
static bool given_sizes_break(const struct plan_space *s, struct err *err)
{
    bool cut_given = s->fixed & (PLAN_GIVEN_TP | PLAN_GIVEN_PP | PLAN_GIVEN_CP | PLAN_GIVEN_DP);
    struct plan_config c = s->base;
    struct err why = { 0 };
    int64_t cut = (int64_t)c.tp * c.pp * c.cp;
    enum plan_rule rule;

    if (!(s->fixed & PLAN_GIVEN_DP))
        c.dp = (int32_t)plan_max(1, s->cluster->gpus / plan_max(1, cut));
    c.grad_acc = c.pp; /* what the schedule asks of the batch is not the question here */
    rule = plan_config_rule(s->model, s->cluster, &c);
    if (rule == PLAN_RULE_OK || (!cut_given && rule != PLAN_RULE_EP_EXPERTS) ||
        plan_config_check(s->model, s->cluster, &c, &why) == RC_OK)
        return false;
    err_hint(err, "It breaks %s. %s", why.msg, why.hint);
    return true;
}

static bool leaves_something(const struct plan_space *s)
{
    struct plan_found f;

    plan_search_count(s, &f);
    return f.tried > 0;
}

/* Every batch that can be is a multiple of a divisor of the GPUs, and of the micro-batch where that
 * is given: the nearest of those that leave something; 0: none. */
static int64_t nearest_batch(const struct plan_space *space)
{
    int64_t gpus = space->cluster->gpus, best = 0;
    int64_t each = space->fixed & PLAN_GIVEN_MICRO_BATCH ? space->base.micro_batch : 1;
    struct plan_space s = *space;

    for (int64_t d = 1; d <= gpus; d++) {
        int64_t unit = d * each;

        if (gpus % d)
            continue;
        s.batch = plan_max(1, (space->batch + unit / 2) / unit) * unit;
        if (s.batch > PLAN_BATCH_MAX ||
            (best && llabs(s.batch - space->batch) >= llabs(best - space->batch)))
            continue;
        if (leaves_something(&s))
            best = s.batch;
    }
    return best;
}

/* The one given size that another value of lets the rules leave something, with the nearest one;
 * `any_batch`: with another batch too. */
static bool nearest_size(const struct plan_space *space, bool any_batch, struct err *err)
{
    static const struct {
        unsigned bit;
        size_t offset;
        const char *name;
    } sizes[] = {
        { PLAN_GIVEN_VPP, offsetof(struct plan_config, vpp), "number of virtual stages" },
        { PLAN_GIVEN_MICRO_BATCH, offsetof(struct plan_config, micro_batch), "micro-batch" },
        { PLAN_GIVEN_GRAD_ACC, offsetof(struct plan_config, grad_acc), "gradient accumulation" },
        { PLAN_GIVEN_EP, offsetof(struct plan_config, ep), "expert-parallel size" },
        { PLAN_GIVEN_ETP, offsetof(struct plan_config, etp), "tensor-parallel size of experts" },
        { PLAN_GIVEN_CP, offsetof(struct plan_config, cp), "context-parallel size" },
        { PLAN_GIVEN_PP, offsetof(struct plan_config, pp), "pipeline size" },
        { PLAN_GIVEN_TP, offsetof(struct plan_config, tp), "tensor-parallel size" },
        { PLAN_GIVEN_DP, offsetof(struct plan_config, dp), "data-parallel size" },
        { PLAN_GIVEN_SHARD, offsetof(struct plan_config, shard), "shard group" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct plan_space s = *space;
        int32_t *size = (int32_t *)((char *)&s.base + sizes[i].offset), given = *size;

        if (!(space->fixed & sizes[i].bit))
            continue;
        if (any_batch) /* whatever the cut, replicas and stages divide it */
            s.batch =
                s.cluster->gpus * (space->fixed & PLAN_GIVEN_MICRO_BATCH ? s.base.micro_batch : 1);
        for (int32_t off = 1; off < NEAR_MAX; off++) {
            for (int sign = -1; sign <= 1; sign += 2) {
                *size = given + sign * off;
                if (*size < 1 || !leaves_something(&s))
                    continue;
                s.batch = space->batch;
                if (any_batch)
                    err_hint(err, "The nearest %s that works is %d, with a batch of %lld.",
                             sizes[i].name, *size, (long long)nearest_batch(&s));
                else
                    err_hint(err, "The nearest %s that works is %d.", sizes[i].name, *size);
                return true;
            }
        }
    }
    return false;
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
    else if (nearest_size(s, false, err) || nearest_size(s, true, err))
        return;
    else if (most)
        err_hint(err, "Rule %s refuses most: %llu of them.", plan_rule_names[most],
                 (unsigned long long)f->excluded[most]);
    else
        err_hint(err, "The sizes that are given have to divide the number of GPUs and the batch.");
}
