/* SPDX-License-Identifier: MIT */
/* search_rank: the order of configurations, and the lists a search keeps.
 *
 * Every thread fills lists of its own.  The order is total, so that merging them in any order gives
 * the same lists. */
#include "plan/search/search_int.h"

#include "plan/plan_int.h"

#include <math.h>

enum {
    PLAIN_TP_ACROSS = 7, /* more than a pipeline with chunks, context cuts and ZeRO 2 */
    PLAIN_QUEUES = 3     /* with ZeRO 2 more than a pipeline with chunks */
};

static int cmp_f64(double a, double b)
{
    return a < b ? -1 : a > b;
}

/* Of configurations as fast and as small the plainer one is first. */
static int config_cmp(const struct plan_config *a, const struct plan_config *b)
{
    const int32_t pairs[][2] = {
        { a->offload_params, b->offload_params },
        { a->offload_optimizer, b->offload_optimizer },
        { a->pp, b->pp },
        { a->vpp, b->vpp },
        { a->tp, b->tp },
        { a->cp, b->cp },
        { a->ep, b->ep },
        { a->etp, b->etp },
        { a->micro_batch, b->micro_batch },
        { a->zero, b->zero },
        { a->shard, b->shard },
        { (int32_t)a->recompute, (int32_t)b->recompute },
        { a->recompute_every, b->recompute_every },
        { (int32_t)a->schedule, (int32_t)b->schedule },
        { a->seq_par, b->seq_par },
    };

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++)
        if (pairs[i][0] != pairs[i][1])
            return pairs[i][0] < pairs[i][1] ? -1 : 1;
    return 0;
}

int plan_pick_cmp(const struct plan_pick *a, const struct plan_pick *b)
{
    int d = cmp_f64(a->step_s, b->step_s);

    if (!d && a->memory != b->memory)
        d = a->memory < b->memory ? -1 : 1;
    return d ? d : config_cmp(&a->config, &b->config);
}

bool pick_is_leaner(const struct plan_pick *a, const struct plan_pick *b)
{
    return a->memory != b->memory ? a->memory < b->memory : plan_pick_cmp(a, b) < 0;
}

bool plan_same_cut(const struct plan_config *a, const struct plan_config *b)
{
    return a->tp == b->tp && a->pp == b->pp && a->vpp == b->vpp && a->cp == b->cp &&
           a->ep == b->ep && plan_etp(a) == plan_etp(b) && a->dp == b->dp &&
           a->micro_batch == b->micro_batch;
}

void found_init(struct plan_found *f, size_t top, struct arena *a)
{
    *f = (struct plan_found){ .least = { .memory = UINT64_MAX } };
    if (!a)
        return;
    f->top_cap = top < 1 ? 1 : top > PLAN_TOP_MAX ? PLAN_TOP_MAX : top;
    f->top = arena_array_bytes(a, f->top_cap, sizeof(*f->top));
    f->front = arena_array_bytes(a, PLAN_FRONT_MAX, sizeof(*f->front));
}

void found_offer_top(struct plan_found *f, const struct plan_pick *p)
{
    size_t at = 0, end = f->top_count;

    if (end == f->top_cap && plan_pick_cmp(p, &f->top[end - 1]) >= 0)
        return;
    while (at < end) { /* the first that is worse */
        size_t mid = (at + end) / 2;

        if (plan_pick_cmp(&f->top[mid], p) <= 0)
            at = mid + 1;
        else
            end = mid;
    }
    if (f->top_count < f->top_cap)
        f->top_count++;
    memmove(f->top + at + 1, f->top + at, (f->top_count - at - 1) * sizeof(*p));
    f->top[at] = *p;
}

/* The first place that is not faster than `step_s`. */
static size_t front_place(const struct plan_found *f, double step_s)
{
    size_t lo = 0, hi = f->front_count;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (f->front[mid].step_s < step_s)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void found_offer_front(struct plan_found *f, const struct plan_pick *p)
{
    size_t at = front_place(f, p->step_s), end = at;

    if (at && f->front[at - 1].memory <= p->memory)
        return;
    /* at most one stands with the same time */
    if (at < f->front_count && f->front[at].step_s <= p->step_s &&
        plan_pick_cmp(&f->front[at], p) <= 0)
        return;
    while (end < f->front_count && f->front[end].memory >= p->memory)
        end++;
    if (end == at && f->front_count == PLAN_FRONT_MAX) {
        f->front_full = true;
        return;
    }
    memmove(f->front + at + 1, f->front + end, (f->front_count - end) * sizeof(*p));
    f->front[at] = *p;
    f->front_count = f->front_count - end + at + 1;
}

void found_merge(struct plan_found *into, const struct plan_found *from)
{
    for (size_t i = 0; i < from->top_count; i++)
        found_offer_top(into, &from->top[i]);
    for (size_t i = 0; i < from->front_count; i++)
        found_offer_front(into, &from->front[i]);
    for (int i = 0; i < PLAN_PLAIN_SCORES; i++)
        if (from->plain[i].step_s > 0)
            found_offer_plain(into, &from->plain[i], i);
    if (from->tried && pick_is_leaner(&from->least, &into->least))
        into->least = from->least;
    into->tried += from->tried;
    into->fit += from->fit;
    into->better += from->better;
    into->front_full = into->front_full || from->front_full;
    for (int i = 0; i < PLAN_RULES; i++)
        into->excluded[i] += from->excluded[i];
}

bool plan_megatron_queues(const struct plan_config *c, const struct plan_gpu *gpu)
{
    return gpu->few_queues && c->profile.stack == PLAN_STACK_MEGATRON && c->zero >= 2 &&
           (c->tp > 1 || c->cp > 1);
}

int plan_plainness(const struct plan_config *c, const struct plan_cluster *cl)
{
    return (c->tp > 1) + (c->tp > cl->node_gpus ? PLAIN_TP_ACROSS : 0) +
           (plan_megatron_queues(c, &cl->gpu) ? PLAIN_QUEUES : 0) + 2 * (c->pp > 1) + (c->vpp > 1) +
           2 * (c->cp > 1) + (c->ep > 1) + (c->etp > 1) + (c->zero >= 2) + 2 * (c->shard > 0) +
           (c->recompute != PLAN_RECOMPUTE_NONE) + (c->recompute_every > 1) +
           (c->schedule == PLAN_GPIPE) + 2 * (c->offload_optimizer || c->offload_params);
}

void found_offer_plain(struct plan_found *f, const struct plan_pick *p, int score)
{
    struct plan_pick *at = &f->plain[score];

    if (!(at->step_s > 0) || plan_pick_cmp(p, at) < 0)
        *at = *p;
}

const struct plan_pick *plan_choice(const struct plan_found *f)
{
    double best = INFINITY;

    for (int i = 0; i < PLAN_PLAIN_SCORES; i++)
        if (f->plain[i].step_s > 0 && f->plain[i].step_s < best)
            best = f->plain[i].step_s;
    for (int i = 0; i < PLAN_PLAIN_SCORES; i++)
        if (f->plain[i].step_s > 0 && f->plain[i].step_s <= best * (1 + PLAN_PLAIN_TIE))
            return &f->plain[i];
    return NULL;
}

const struct plan_pick *plan_runner_up(const struct plan_found *f, const struct plan_config *c)
{
    for (size_t i = 0; i < f->top_count; i++)
        if (!plan_same_cut(&f->top[i].config, c))
            return &f->top[i];
    return NULL;
}
