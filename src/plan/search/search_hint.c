/* SPDX-License-Identifier: MIT */
/* search_hint: what to change where a search finds nothing.
 *
 * A search without a result is of one of two kinds: the rules leave no configuration, or none of
 * those they leave fits.  For the first the nearest value is named: of the batch where another one
 * helps, else of the given size that has to change the least, with the rule that the given sizes
 * break.  A value is named only after the space with it was searched and had something; a rule's
 * own nearest value (plan_config_check()) knows nothing of the batch and of what else is given.
 * For the second, a number of GPUs on which something fits. */
#include "plan/search.h"

#include "base/buf.h"
#include "plan/plan_int.h"
#include "plan/search/search_int.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    DOUBLINGS = 4,
    NEAR_MAX = 16,        /* values beside a given one that are tried */
    HINT_WORK = 200000000 /* combinations of sizes that a hint looks at: a second or two */
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

/* Every batch that can be is a multiple of a divisor of the GPUs, and of what is given of the
 * micro-batch and of their number, or such a product itself where both are: the nearest of those
 * that leave something; 0: none. */
static int64_t nearest_batch(const struct plan_space *space, double *left)
{
    bool micro = space->fixed & PLAN_GIVEN_MICRO_BATCH, acc = space->fixed & PLAN_GIVEN_GRAD_ACC;
    int64_t gpus = space->cluster->gpus, best = 0;
    int64_t each = micro ? space->base.micro_batch : 1;
    struct plan_space s = *space;

    if (acc)
        each *= space->base.grad_acc;
    for (int64_t d = 1; d <= gpus; d++) {
        int64_t unit = d * each;

        if (gpus % d || unit > PLAN_BATCH_MAX)
            continue;
        s.batch = micro && acc ? unit : plan_max(1, (space->batch + unit / 2) / unit) * unit;
        if (best && llabs(s.batch - space->batch) >= llabs(best - space->batch))
            continue;
        if (plan_search_any(&s, left))
            best = s.batch;
    }
    return best;
}

enum of_what { OF_GPUS, OF_BATCH, OF_LAYERS, OF_EXPERTS }; /* what a size divides */
static const struct given_size {
    unsigned bit;
    size_t offset;
    const char *name;
    enum of_what of;
} given_sizes[] = {
    { PLAN_GIVEN_VPP, offsetof(struct plan_config, vpp), "number of virtual stages", OF_LAYERS },
    { PLAN_GIVEN_MICRO_BATCH, offsetof(struct plan_config, micro_batch), "micro-batch", OF_BATCH },
    { PLAN_GIVEN_GRAD_ACC, offsetof(struct plan_config, grad_acc), "gradient accumulation",
      OF_BATCH },
    { PLAN_GIVEN_EP, offsetof(struct plan_config, ep), "expert-parallel size", OF_EXPERTS },
    { PLAN_GIVEN_ETP, offsetof(struct plan_config, etp), "tensor-parallel size of experts",
      OF_GPUS },
    { PLAN_GIVEN_CP, offsetof(struct plan_config, cp), "context-parallel size", OF_GPUS },
    { PLAN_GIVEN_PP, offsetof(struct plan_config, pp), "pipeline size", OF_GPUS },
    { PLAN_GIVEN_TP, offsetof(struct plan_config, tp), "tensor-parallel size", OF_GPUS },
    { PLAN_GIVEN_DP, offsetof(struct plan_config, dp), "data-parallel size", OF_GPUS },
    { PLAN_GIVEN_SHARD, offsetof(struct plan_config, shard), "shard group", OF_GPUS },
};

static bool size_can_be(const struct plan_space *s, enum of_what of, int64_t v)
{
    int64_t layers = s->model->layers;

    switch (of) {
    case OF_GPUS:
        return s->cluster->gpus % v == 0;
    case OF_BATCH:
        return s->batch % v == 0;
    case OF_EXPERTS:
        return v == 1 || (s->model->experts && s->model->experts % v == 0);
    case OF_LAYERS:
        break;
    }
    return layers % v == 0 || (layers + 2) % v == 0;
}

struct near_size {
    const struct given_size *size; /* NULL: none */
    int32_t value;
    int64_t batch; /* 0: the one that is given */
    double ratio;  /* to what is given, above 1 */
};

/* The values that one size can have, those nearest to what is given first, until the rules leave
 * something: at most NEAR_MAX. */
static void try_size(const struct plan_space *space, const struct given_size *size, bool any_batch,
                     struct near_size *best, double *left)
{
    struct plan_space s = *space;
    int32_t *value = (int32_t *)((char *)&s.base + size->offset);
    int64_t given = *value, batch = 0, tried = 0;
    int64_t most = plan_max(plan_max(space->cluster->gpus, space->batch),
                            plan_max(space->model->layers + 2, space->model->experts));

    for (int64_t off = 1; off <= plan_max(given, most - given) && tried < NEAR_MAX; off++)
        for (int sign = -1; sign <= 1; sign += 2) {
            int64_t v = given + sign * off;
            double ratio = v < given ? (double)given / (double)v : (double)v / (double)given;

            if (v < 1 || v > most || !size_can_be(space, size->of, v) ||
                (best->size && ratio >= best->ratio))
                continue;
            *value = (int32_t)v;
            tried++;
            if (any_batch ? (batch = nearest_batch(&s, left)) > 0 : plan_search_any(&s, left)) {
                *best = (struct near_size){ size, (int32_t)v, batch, ratio };
                return;
            }
        }
}

/* The one given size that has to change the least for the rules to leave something. */
static struct near_size nearest_size(const struct plan_space *s, bool any_batch, double *left)
{
    struct near_size best = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(given_sizes); i++)
        if (s->fixed & given_sizes[i].bit)
            try_size(s, &given_sizes[i], any_batch, &best, left);
    return best;
}

/* Where more than one size has to change: one that is wrong whatever the others are. */
static struct near_size nearest_alone(const struct plan_space *space, bool any_batch, double *left)
{
    struct near_size best = { 0 };
    struct plan_space s = *space;
    unsigned others = space->fixed;

    for (size_t i = 0; i < ARRAY_SIZE(given_sizes); i++)
        others &= ~given_sizes[i].bit;
    for (size_t i = 0; i < ARRAY_SIZE(given_sizes) && !best.size; i++) {
        s.fixed = others | given_sizes[i].bit;
        if (!(space->fixed & given_sizes[i].bit) ||
            (any_batch ? nearest_batch(&s, left) > 0 : plan_search_any(&s, left)))
            continue;
        try_size(&s, &given_sizes[i], any_batch, &best, left);
    }
    return best;
}

/* The number of GPUs nearest to the given one on which the given sizes leave something, with the
 * batch that takes (0: the given one); 0: none. */
static int64_t nearest_gpus(const struct plan_space *space, int64_t product, int64_t *out_batch,
                            double *left)
{
    struct plan_cluster cl = *space->cluster;
    struct plan_space s = *space;
    int64_t near = plan_max(1, (cl.gpus + product / 2) / product);

    s.cluster = &cl;
    for (int any_batch = 0; any_batch <= 1; any_batch++)
        for (int64_t off = 0; off < NEAR_MAX; off++)
            for (int sign = -1; sign <= 1; sign += 2) {
                int64_t times = near + sign * off;

                cl.gpus = times * product;
                if (times < 1 || cl.gpus > PLAN_GPUS_MAX)
                    continue;
                *out_batch = any_batch ? nearest_batch(&s, left) : 0;
                if (any_batch ? *out_batch > 0 : plan_search_any(&s, left))
                    return cl.gpus;
            }
    return 0;
}

/* The sizes a rule is about; 0: of what is given it asks nothing but what the search is free to
 * choose. */
static unsigned rule_is_of(enum plan_rule rule)
{
    switch (rule) {
    case PLAN_RULE_TP_HEADS:
    case PLAN_RULE_TP_KV_HEADS:
    case PLAN_RULE_TP_FFN:
    case PLAN_RULE_TP_NODE:
    case PLAN_RULE_SP_NEEDS_TP:
    case PLAN_RULE_SP_SEQ:
        return PLAN_GIVEN_TP;
    case PLAN_RULE_PP_LAYERS:
    case PLAN_RULE_PP_EVEN:
        return PLAN_GIVEN_PP;
    case PLAN_RULE_VPP_NEEDS_PP:
    case PLAN_RULE_VPP_LAYERS:
        return PLAN_GIVEN_PP | PLAN_GIVEN_VPP;
    case PLAN_RULE_CP_SEQ:
        return PLAN_GIVEN_CP;
    case PLAN_RULE_EP_EXPERTS:
        return PLAN_GIVEN_EP;
    case PLAN_RULE_ETP_FFN:
        return PLAN_GIVEN_ETP;
    default:
        return 0;
    }
}

/* The rule that the given sizes break; a rule's own nearest value goes to `out_own`. */
static void say_broken(const struct plan_space *s, int64_t product, struct buf *out,
                       struct err *out_own)
{
    unsigned all = PLAN_GIVEN_TP | PLAN_GIVEN_PP | PLAN_GIVEN_CP | PLAN_GIVEN_DP, of;
    struct plan_cluster cl = *s->cluster; /* of as many GPUs as make the sizes multiply to them */
    struct plan_config c = s->base;
    int64_t cut = (int64_t)c.tp * c.pp * c.cp;

    c.dp = (int32_t)plan_max(1, cl.gpus / cut);
    c.grad_acc = c.pp; /* what the schedule asks of the batch is not the question here */
    cl.gpus = cut * c.dp;
    of = rule_is_of(plan_config_rule(s->model, &cl, &c));
    if (of && (s->fixed & of) == of && plan_config_check(s->model, &cl, &c, out_own) != RC_OK)
        buf_addf(out, "It breaks %s.", out_own->msg);
    else if (s->cluster->gpus % product || ((s->fixed & all) == all && product != s->cluster->gpus))
        buf_addf(out, "It breaks rule gpus: the sizes that are given multiply to %lld.",
                 (long long)product);
}

/* How much of a reason is about what the search is free to choose. */
static int reason_about_free(const struct plan_space *s, const char *why)
{
    return (!(s->fixed & PLAN_GIVEN_ZERO) && strstr(why, "ZeRO")) +
           (!(s->fixed & PLAN_GIVEN_SP) && strstr(why, "sequence parallelism"));
}

/* Why the framework runs nothing of what the rules leave: what it says of the sizes that are given,
 * the others plain.  The highest ZeRO stage is asked first, since most frameworks have it with
 * everything; what one stage, or sequence parallelism, is refused for is no reason where these are
 * free and there is another.  NULL: the reason is in a size that was searched. */
static const char *framework_reason(const struct plan_space *s)
{
    struct plan_config c = s->base;
    const char *why = NULL;

    if (!(s->fixed & PLAN_GIVEN_DP))
        c.dp = (int32_t)plan_max(1, s->cluster->gpus / ((int64_t)c.tp * c.pp * c.cp));
    for (c.zero = 3; c.zero >= 0; c.zero--)
        for (int sp = 0; sp < (c.tp > 1 ? 2 : 1); sp++) {
            const char *says;

            c.seq_par = sp;
            if (((s->fixed & PLAN_GIVEN_ZERO) && c.zero != s->base.zero) ||
                ((s->fixed & PLAN_GIVEN_SP) && c.seq_par != s->base.seq_par))
                continue;
            says = plan_framework_refuses(s->framework, s->model, &c);
            if (says && (!why || reason_about_free(s, says) < reason_about_free(s, why)))
                why = says;
        }
    return why;
}

/* No batch works with the sizes that are given: the rule they break, and what would work. */
static bool sizes_hint(const struct plan_space *s, double *left, struct err *err)
{
    int64_t product = (int64_t)s->base.tp * s->base.pp * s->base.cp, gpus = 0;
    struct near_size near = nearest_size(s, false, left);
    struct err by_rule = { 0 };
    struct buf text = { 0 };
    const char *why = NULL;
    bool said, alone = false;

    if (!near.size)
        near = nearest_size(s, true, left);
    if (s->fixed & PLAN_GIVEN_DP)
        product *= s->base.dp;
    say_broken(s, product, &text, &by_rule);
    if (!near.size)
        gpus = nearest_gpus(s, product, &near.batch, left);
    for (int any_batch = 0; any_batch <= 1 && !near.size && !gpus; any_batch++)
        alone = (near = nearest_alone(s, any_batch, left)).size != NULL;
    if (!near.size && !gpus && s->for_one)
        why = framework_reason(s);
    if (text.len && (near.size || gpus || why || *by_rule.hint))
        buf_addc(&text, ' ');
    if (near.size)
        buf_addf(&text, "The nearest %s that works is %d", near.size->name, near.value);
    else if (gpus)
        buf_addf(&text, "The nearest number of GPUs that works is %lld", (long long)gpus);
    if (near.batch)
        buf_addf(&text, ", with a batch of %lld", (long long)near.batch);
    if (near.size || gpus)
        buf_adds(&text, alone ? " where the other sizes are left out." : ".");
    else if (why)
        buf_addf(&text, "%s cannot run it: %s.", plan_framework_versions[s->framework], why);
    else
        buf_adds(&text, by_rule.hint);
    said = text.len > 0;
    if (said)
        err_hint(err, "%s", buf_str(&text));
    buf_release(&text);
    return said;
}

void plan_refused_hint(const struct plan_space *s, const struct plan_found *f, struct err *err)
{
    double left = HINT_WORK;
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
    } else if ((batch = nearest_batch(s, &left)))
        err_hint(err, "The nearest batch that works is %lld.", (long long)batch);
    else if (sizes_hint(s, &left, err))
        return;
    else if (most)
        err_hint(err, "Rule %s refuses most: %llu of them.", plan_rule_names[most],
                 (unsigned long long)f->excluded[most]);
    else
        err_hint(err, "The sizes that are given have to divide the number of GPUs and the batch.");
}
