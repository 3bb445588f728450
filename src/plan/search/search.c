/* SPDX-License-Identifier: MIT */
/* search: the loops over the space.
 *
 * A unit is one (tp, cp, ep, etp, micro-batch): what the layer half of the time model depends on,
 * but for sp, recompute and offload, of which a unit has twelve halves at most.  They are computed
 * once and shared by all pipelines, schedules, ZeRO stages and shard groups below.  Collectives of
 * replicas are prepared once for each (unit, pp).  Nothing is allocated below worker_unit(). */
#include "plan/search/search_int.h"

#include "plan/plan_int.h"

#include <math.h>

/* ---- values of the sizes ---- */
enum { ETP_IS_TP = -1 };

static int cmp_i32(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return x < y ? -1 : x > y;
}

/* In order: the small ones upwards, then their partners. */
void axis_divisors(struct axis *a, int64_t n)
{
    int small;

    a->count = 0;
    for (int64_t d = 1; d <= n / d && a->count < AXIS_MAX / 2; d++)
        if (n % d == 0)
            a->v[a->count++] = (int32_t)d;
    small = a->count;
    for (int i = small - 1; i >= 0; i--)
        if (a->v[i] != n / a->v[i])
            a->v[a->count++] = (int32_t)(n / a->v[i]);
}

static void axis_one(struct axis *a, int32_t v)
{
    a->v[0] = v;
    a->count = 1;
}

static void axis_add_all(struct axis *a, const struct axis *from)
{
    int n = a->count;

    for (int i = 0; i < from->count; i++) {
        bool there = false;

        for (int j = 0; j < n; j++)
            there = there || a->v[j] == from->v[i];
        if (!there && a->count < AXIS_MAX)
            a->v[a->count++] = from->v[i];
    }
    qsort(a->v, (size_t)a->count, sizeof(a->v[0]), cmp_i32);
}

/* Chunks of a stage: divisors of the layers, and where the ends may have fewer layers, those of
 * the layers with embedding and head counted as one each. */
static void chunks_of(const struct plan_space *s, struct axis *out)
{
    struct axis more;

    axis_divisors(out, s->model->layers);
    if (s->base.profile.split == PLAN_SPLIT_EVEN)
        return;
    axis_divisors(&more, s->model->layers + 2);
    axis_add_all(out, &more);
}

void space_axes_of(const struct plan_space *s, struct space_axes *x)
{
    const struct plan_config *b = &s->base;
    const struct {
        unsigned bit;
        int32_t v;
        struct axis *axis;
    } fixed[] = {
        { PLAN_GIVEN_TP, b->tp, &x->tp },
        { PLAN_GIVEN_CP, b->cp, &x->cp },
        { PLAN_GIVEN_PP, b->pp, &x->pp },
        { PLAN_GIVEN_EP, b->ep, &x->ep },
        { PLAN_GIVEN_ETP, b->etp, &x->etp },
        { PLAN_GIVEN_VPP, b->vpp, &x->vpp },
        { PLAN_GIVEN_MICRO_BATCH, b->micro_batch, &x->micro_batch },
    };

    axis_divisors(&x->tp, s->cluster->gpus);
    x->cp = x->pp = x->tp;
    axis_divisors(&x->ep, s->model->experts ? s->model->experts : 1);
    axis_one(&x->etp, s->model->experts ? 1 : 0);
    if (s->model->experts) /* experts are whole, or cut as the rest is */
        x->etp.v[x->etp.count++] = ETP_IS_TP;
    axis_divisors(&x->micro_batch, s->batch);
    chunks_of(s, &x->vpp);
    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
        if (s->fixed & fixed[i].bit)
            axis_one(fixed[i].axis, fixed[i].v);
    plan_rates_of(s->cluster, s->consts, &x->rates);
    for (int i = 0; i < x->pp.count; i++) {
        struct plan_config c = *b;

        c.pp = x->pp.v[i];
        if (c.pp > plan_min(s->model->layers, PLAN_STAGES_MAX))
            continue; /* a rule refuses it */
        plan_cut_of(s->model, b->profile.split, c.pp, &x->cut[i]);
        plan_stages_of(s->model, &c, &x->stages[i]);
    }
}

double space_work(const struct plan_space *s, const struct space_axes *x)
{
    double triples = 0;

    for (int t = 0; t < x->tp.count; t++)
        for (int c = 0; c < x->cp.count; c++) {
            int64_t group = (int64_t)x->tp.v[t] * x->cp.v[c];

            if (s->cluster->gpus % group)
                continue;
            for (int p = 0; p < x->pp.count; p++)
                triples += s->cluster->gpus / group % x->pp.v[p] == 0;
        }
    return triples * x->ep.count * x->etp.count * x->micro_batch.count * x->vpp.count * 2;
}

uint64_t space_units(const struct space_axes *x)
{
    return (uint64_t)x->tp.count * (uint64_t)x->cp.count * (uint64_t)x->ep.count *
           (uint64_t)x->etp.count * (uint64_t)x->micro_batch.count;
}

/* ---- inner values ---- */
/* Shard groups of dp x cp GPUs, the whole first. */
static void shards_of(const struct plan_space *s, int64_t replicas, struct axis *out)
{
    struct axis d;

    out->count = 0;
    if (replicas == 1 || (s->fixed & PLAN_GIVEN_SHARD)) {
        axis_one(out, s->fixed & PLAN_GIVEN_SHARD ? s->base.shard : 0);
        return;
    }
    axis_divisors(&d, replicas);
    out->v[out->count++] = 0;
    for (int i = 1; i + 1 < d.count; i++)
        out->v[out->count++] = d.v[i];
}

/* Weights in host memory are ZeRO 3's; one replica has nothing to share; in a pipeline ZeRO 2 is
 * ZeRO 1 by another name. */
static bool wants_zero(const struct plan_space *s, int64_t replicas, int32_t pp, int zero)
{
    if (s->fixed & PLAN_GIVEN_ZERO)
        return s->base.zero == zero;
    if (s->base.offload_params)
        return zero == 3;
    return zero == 0 || (replicas > 1 && (zero != 2 || plan_scatters_each(zero, pp)));
}

static int zeros_of(const struct plan_space *s, int64_t replicas, int32_t pp, int shards)
{
    int n = 0;

    for (int zero = 0; zero <= 3; zero++)
        if (wants_zero(s, replicas, pp, zero))
            n += zero ? shards : 1;
    return n;
}

/* Units of full recompute: those that divide the layers of a chunk. */
static void every_of(const struct plan_space *s, int32_t pp, int32_t vpp, struct axis *out)
{
    if (s->fixed & PLAN_GIVEN_EVERY)
        axis_one(out, s->base.recompute_every);
    else
        axis_divisors(out, plan_ceil_div(s->model->layers, (int64_t)pp * vpp));
}

static bool wants_recompute(const struct plan_space *s, int rc)
{
    return !(s->fixed & PLAN_GIVEN_RECOMPUTE) || (int)s->base.recompute == rc;
}

/* Schedules of (pp, vpp): how many, from which on. */
static int schedules_of(const struct plan_space *s, int32_t pp, int32_t vpp,
                        enum plan_schedule out[2])
{
    int n = 0;

    if (vpp > 1) {
        out[n++] = PLAN_INTERLEAVED;
    } else {
        out[n++] = PLAN_1F1B;
        if (pp > 1)
            out[n++] = PLAN_GPIPE;
    }
    if (!(s->fixed & PLAN_GIVEN_SCHEDULE))
        return n;
    for (int i = 0; i < n; i++)
        if (out[i] == s->base.schedule) {
            out[0] = out[i];
            return 1;
        }
    return 0;
}

static uint64_t inner_count(const struct plan_space *s, const struct search_unit *u, int schedules)
{
    uint64_t recomputes = 0;

    for (int rc = 0; rc < 3; rc++)
        if (wants_recompute(s, rc))
            recomputes += rc == PLAN_RECOMPUTE_FULL ? (uint64_t)u->every.count : 1;
    return recomputes * (uint64_t)u->zeros * (uint64_t)schedules * (s->offload ? 2 : 1);
}

/* ---- one configuration ---- */
static void pick_accept(struct search_worker *w, const struct plan_pick *p)
{
    struct plan_found *f = w->found;
    size_t bucket = (size_t)((double)p->memory / (double)w->space->limit * 63.999);

    if (plan_pick_cmp(p, &w->best) < 0)
        w->best = *p;
    if (w->space->all)
        found_offer_top(f, p);
    if (p->step_s > w->ceiling[bucket])
        return;
    found_offer_front(f, p);
    /* whoever stands above this bucket and is not faster cannot come into the front */
    for (size_t i = bucket + 1; i < ARRAY_SIZE(w->ceiling) && w->ceiling[i] > p->step_s; i++)
        w->ceiling[i] = p->step_s;
}

static inline void config_consider(struct search_worker *w, const struct plan_config *c,
                                   double step_s, uint64_t memory)
{
    struct plan_found *f = w->found;
    const struct plan_pick *plain;
    struct plan_pick p;
    int score;

    f->tried++;
    if (memory > w->space->limit && memory > f->least.memory)
        return;
    p.step_s = step_s;
    p.memory = memory;
    if (memory <= f->least.memory) {
        p.config = *c;
        if (pick_is_leaner(&p, &f->least))
            f->least = p;
    }
    if (memory > w->space->limit)
        return;
    f->fit++;
    f->better += p.step_s < w->space->reference;
    score = plan_plainness(c, w->space->cluster);
    plain = &f->plain[score];
    if (!(plain->step_s > 0) || p.step_s <= plain->step_s) {
        p.config = *c;
        found_offer_plain(f, &p, score);
    }
    if (p.step_s > w->best.step_s && !w->space->all &&
        p.step_s > w->ceiling[(size_t)((double)memory / (double)w->space->limit * 63.999)])
        return;
    p.config = *c;
    pick_accept(w, &p);
}

static uint64_t bytes_of(double v)
{
    return v < (double)PLAN_BYTES_MAX ? (uint64_t)(v + 0.5) : PLAN_BYTES_MAX;
}

/* What the loops below one (pp, vpp, sp) need. */
struct inner {
    const struct plan_cut *cut;
    const struct plan_stages *stages;
    struct half *half;
    enum plan_schedule schedule[2];
    int schedules;
};

/* All schedules and units of recompute of one (zero, shard). */
static void eval_shard(struct search_worker *w, struct search_unit *u, const struct inner *n,
                       const struct plan_groups *groups)
{
    struct plan_config *c = &u->c;
    const struct plan_step step = {
        .pp = c->pp, .vpp = c->vpp, .micro_batches = c->grad_acc, .dp = c->dp, .zero = c->zero
    };
    bool full = c->recompute == PLAN_RECOMPUTE_FULL;
    int every = full ? u->every.count : 1;

    for (int e = 0; e < every; e++) {
        c->recompute_every = full ? u->every.v[e] : 1;
        n->half->memory.every = full ? u->every.v[e] : 0;
        for (int i = 0; i < n->schedules; i++) {
            double step_s, bytes;

            c->schedule = n->schedule[i];
            if (w->space->for_one &&
                plan_framework_refuses(w->space->framework, w->space->model, c)) {
                w->found->excluded[PLAN_RULE_FRAMEWORK]++;
                continue;
            }
            step_s = plan_step_time(&n->half->time, n->cut, groups, &step, NULL);
            bytes = plan_step_memory(&n->half->memory, n->stages, c);
            config_consider(w, c, step_s, bytes_of(bytes));
        }
    }
    c->recompute_every = 1;
}

static void eval_zeros(struct search_worker *w, struct search_unit *u, const struct inner *n)
{
    const struct plan_space *s = w->space;
    struct plan_config *c = &u->c;

    for (c->zero = 0; c->zero <= 3; c->zero++) {
        int shards = c->zero == 0 ? 1 : u->shards.count;

        if (!wants_zero(s, (int64_t)c->dp * c->cp, c->pp, c->zero))
            continue;
        for (int i = 0; i < shards; i++) {
            c->shard = c->zero ? u->shards.v[i] : 0;
            eval_shard(w, u, n, c->zero ? &u->groups[i] : &u->whole);
        }
    }
    c->zero = c->shard = 0;
}

static struct half *half_of(struct search_worker *w, struct search_unit *u)
{
    const struct plan_space *s = w->space;
    const struct plan_config *c = &u->c;
    struct half *h = &u->half[c->offload_optimizer][c->seq_par][c->recompute];

    if (h->ready)
        return h;
    plan_layer_time_of(s->model, &w->axes->rates, s->consts, c, &h->time);
    plan_layer_memory_of(s->model, s->counts, c, &s->consts->memory, &h->memory);
    h->ready = true;
    return h;
}

/* One (pp, vpp, sp): its rules hold. */
static void eval_inner(struct search_worker *w, struct search_unit *u, struct inner *n)
{
    const struct plan_space *s = w->space;

    for (int off = 0; off < (s->offload ? 2 : 1); off++)
        for (int rc = 0; rc < 3; rc++) {
            if (!wants_recompute(s, rc))
                continue;
            u->c.offload_optimizer = s->base.offload_optimizer || off;
            u->c.recompute = (enum plan_recompute)rc;
            n->half = half_of(w, u);
            eval_zeros(w, u, n);
        }
    u->c.offload_optimizer = s->base.offload_optimizer;
    u->c.recompute = PLAN_RECOMPUTE_NONE;
}

/* Stages, and the chunks of them, have the same number of layers, or they have when embedding and
 * head count as one each: what a framework lays out by itself. */
static enum plan_rule layout_rule(const struct plan_space *s, const struct plan_config *c)
{
    int64_t chunks = (int64_t)c->pp * c->vpp, layers = s->model->layers;
    enum plan_split split = s->base.profile.split;

    if (c->pp == 1 || split == PLAN_SPLIT_EVEN || split == PLAN_SPLIT_COST ||
        (layers + 2) % chunks == 0 || (split == PLAN_SPLIT_ENDS_LESS && layers % chunks == 0))
        return PLAN_RULE_OK;
    return c->vpp > 1 ? PLAN_RULE_VPP_LAYERS : PLAN_RULE_PP_EVEN;
}

/* The first rule that all of (pp, vpp, sp) break; sizes that are given are theirs too. */
static enum plan_rule group_rule(const struct plan_space *s, const struct plan_config *at)
{
    struct plan_config c = *at;
    enum plan_rule rule;

    if (s->batch % ((int64_t)c.dp * c.micro_batch) ||
        ((s->fixed & PLAN_GIVEN_GRAD_ACC) && s->base.grad_acc != c.grad_acc))
        return PLAN_RULE_BATCH;
    if (s->fixed & PLAN_GIVEN_ZERO)
        c.zero = s->base.zero;
    else if (s->base.offload_params)
        c.zero = 3;
    if (s->fixed & PLAN_GIVEN_SHARD)
        c.shard = s->base.shard;
    if ((s->fixed & PLAN_GIVEN_EVERY) && s->base.recompute_every > s->model->layers)
        return PLAN_RULE_RECOMPUTE_EVERY;
    rule = plan_config_rule(s->model, s->cluster, &c);
    return rule == PLAN_RULE_OK ? layout_rule(s, &c) : rule;
}

static void eval_chunks(struct search_worker *w, struct search_unit *u, int pp_place, int32_t vpp)
{
    const struct plan_space *s = w->space;
    struct plan_config *c = &u->c;
    struct inner n = { .cut = &w->axes->cut[pp_place], .stages = &w->axes->stages[pp_place] };

    n.schedules = schedules_of(s, c->pp, vpp, n.schedule);
    every_of(s, c->pp, vpp, &u->every);
    c->vpp = vpp;
    c->schedule = n.schedule[0];
    w->best.step_s = INFINITY;
    for (int sp = 0; sp < 2 && n.schedules; sp++) {
        uint64_t count = inner_count(s, u, n.schedules);
        enum plan_rule rule;

        if ((s->fixed & PLAN_GIVEN_SP) && s->base.seq_par != sp)
            continue;
        c->seq_par = sp;
        rule = group_rule(s, c);
        if (rule != PLAN_RULE_OK)
            w->found->excluded[rule] += count;
        else if (w->count_only)
            w->found->tried += count;
        else
            eval_inner(w, u, &n);
    }
    if (!s->all && w->best.step_s < INFINITY)
        found_offer_top(w->found, &w->best);
}

static void eval_pipeline(struct search_worker *w, struct search_unit *u, int pp_place)
{
    const struct plan_space *s = w->space;
    const struct space_axes *x = w->axes;
    struct plan_config *c = &u->c;
    int64_t model = (int64_t)c->tp * c->cp * x->pp.v[pp_place], dp = s->cluster->gpus / model;
    int64_t round = dp * c->micro_batch;

    w->looked++;
    if (s->cluster->gpus % model || ((s->fixed & PLAN_GIVEN_DP) && s->base.dp != dp))
        return;
    w->looked += 2 * (uint64_t)x->vpp.count;
    c->pp = x->pp.v[pp_place];
    c->dp = (int32_t)dp;
    c->grad_acc = (int32_t)plan_max(1, s->batch / round);
    shards_of(s, dp * c->cp, &u->shards);
    u->zeros = zeros_of(s, dp * c->cp, c->pp, u->shards.count);
    if (!w->count_only && s->batch % round == 0) {
        plan_groups_of(&x->rates, s->consts, c->tp, c->cp, c->dp, 0, &u->whole);
        for (int i = 0; i < u->shards.count; i++)
            plan_groups_of(&x->rates, s->consts, c->tp, c->cp, c->dp, u->shards.v[i],
                           &u->groups[i]);
    }
    for (int i = 0; i < x->vpp.count; i++)
        eval_chunks(w, u, pp_place, x->vpp.v[i]);
}

void worker_init(struct search_worker *w, const struct plan_space *s, const struct space_axes *x,
                 struct plan_found *f, struct search_unit *u)
{
    *w = (struct search_worker){ .space = s, .axes = x, .found = f, .unit = u };
    for (size_t i = 0; i < ARRAY_SIZE(w->ceiling); i++)
        w->ceiling[i] = INFINITY;
}

static int32_t unit_digit(uint64_t *unit, const struct axis *a)
{
    int32_t v = a->v[*unit % (uint64_t)a->count];

    *unit /= (uint64_t)a->count;
    return v;
}

void worker_unit(struct search_worker *w, uint64_t unit)
{
    const struct space_axes *x = w->axes;
    struct search_unit *u = w->unit;

    u->c = w->space->base;
    for (int i = 0; i < 12; i++)
        (&u->half[0][0][0])[i].ready = false;
    u->c.vpp = u->c.recompute_every = 1;
    u->c.zero = u->c.shard = 0;
    u->c.recompute = PLAN_RECOMPUTE_NONE;
    u->c.micro_batch = unit_digit(&unit, &x->micro_batch);
    u->c.etp = unit_digit(&unit, &x->etp);
    u->c.ep = unit_digit(&unit, &x->ep);
    u->c.cp = unit_digit(&unit, &x->cp);
    u->c.tp = unit_digit(&unit, &x->tp);
    if (w->space->cluster->gpus % ((int64_t)u->c.tp * u->c.cp) ||
        (u->c.etp == ETP_IS_TP && u->c.tp == 1))
        return;
    if (u->c.etp == ETP_IS_TP)
        u->c.etp = u->c.tp;
    for (int i = 0; i < x->pp.count; i++)
        eval_pipeline(w, u, i);
}
