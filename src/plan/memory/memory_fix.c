/* SPDX-License-Identifier: MIT */
/* memory_fix: the cheapest change that makes a job fit.
 *
 * The changes stand in the order of the work they add to a step.  One change is tried first, then
 * two, then three; among as many, those whose places in the list add up to least.  More GPUs than
 * the job has are never asked for: what a replica takes more, data parallelism has less, and the
 * gradient accumulation makes up for it, so that the batch stays what it was. */
#include "plan/plan_int.h"

struct change {
    const char *text; /* with the option that asks for it */
    bool (*apply)(const struct plan_model *m, struct plan_config *c); /* false: has no meaning */
};

static bool use_flash(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->profile.flash)
        return false;
    return c->profile.flash = true;
}

static bool use_seq_par(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->seq_par || c->tp == 1)
        return false;
    return c->seq_par = true;
}

static bool use_zero(struct plan_config *c, int32_t stage)
{
    if (c->zero >= stage || (int64_t)c->dp * c->cp == 1)
        return false;
    c->zero = stage;
    return true;
}

static bool use_zero1(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    return use_zero(c, 1);
}

static bool use_zero2(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    return c->pp == 1 && use_zero(c, 2);
}

static bool use_zero3(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    return c->pp == 1 && use_zero(c, 3);
}

static bool use_selective(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->recompute != PLAN_RECOMPUTE_NONE || c->profile.flash)
        return false;
    c->recompute = PLAN_RECOMPUTE_SELECTIVE;
    return true;
}

static bool halve_batch(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->micro_batch % 2 || c->grad_acc > PLAN_BATCH_MAX / 2)
        return false;
    c->micro_batch /= 2;
    c->grad_acc *= 2;
    return true;
}

static bool single_batch(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->micro_batch < 4 || c->grad_acc > PLAN_BATCH_MAX / c->micro_batch)
        return false;
    c->grad_acc *= c->micro_batch;
    c->micro_batch = 1;
    return true;
}

static bool use_full(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->recompute == PLAN_RECOMPUTE_FULL)
        return false;
    c->recompute = PLAN_RECOMPUTE_FULL;
    c->recompute_every = 1;
    return true;
}

/* `by` GPUs of data parallelism become something else. */
static bool take_dp(struct plan_config *c, int32_t by)
{
    if (c->dp % by || c->grad_acc > PLAN_BATCH_MAX / by)
        return false;
    c->dp /= by;
    c->grad_acc *= by;
    return true;
}

static bool double_ep(const struct plan_model *m, struct plan_config *c)
{
    if (!m->experts || m->experts % (2 * (int64_t)c->ep))
        return false;
    c->ep *= 2;
    return true;
}

static bool double_tp(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->tp >= 8 || !take_dp(c, 2))
        return false;
    c->tp *= 2;
    c->seq_par = true;
    return true;
}

static bool fix_tp8(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->tp > 2 || !take_dp(c, 8 / c->tp))
        return false;
    c->tp = 8;
    c->seq_par = true;
    return true;
}

static bool double_pp(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->pp > PLAN_STAGES_MAX / 2 || !take_dp(c, 2))
        return false;
    c->pp *= 2;
    return true;
}

static bool fix_pp8(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->pp > PLAN_STAGES_MAX / 8 || !take_dp(c, 8))
        return false;
    c->pp *= 8;
    return true;
}

static bool double_cp(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->seq < 8192 || !take_dp(c, 2))
        return false;
    c->cp *= 2;
    return true;
}

static bool fix_offload(const struct plan_model *m, struct plan_config *c)
{
    (void)m;
    if (c->offload_optimizer)
        return false;
    return c->offload_optimizer = true;
}

static const struct change changes[] = {
    { "use flash attention: the pairs are not stored", use_flash },
    { "--sp: norms and residuals are cut too, at no traffic", use_seq_par },
    { "--zero 1: each replica keeps its share of the optimizer", use_zero1 },
    { "--zero 2: each replica keeps its share of optimizer and gradients", use_zero2 },
    { "--recompute selective: attention is computed twice", use_selective },
    { "half the micro-batch, twice the accumulation", halve_batch },
    { "twice the expert parallelism: all-to-all over more GPUs", double_ep },
    { "--zero 3: and its share of the weights, gathered layer by layer", use_zero3 },
    { "micro-batch 1, the rest by accumulation", single_batch },
    { "twice the tensor parallelism, with sequence parallelism", double_tp },
    { "twice the context parallelism", double_cp },
    { "twice the pipeline", double_pp },
    { "tensor parallelism over 8 GPUs, with sequence parallelism", fix_tp8 },
    { "--recompute full: a third more work", use_full },
    { "eight times the pipeline", fix_pp8 },
    { "--offload optimizer: its bytes cross PCIe every step", fix_offload },
};

struct fix_search {
    const struct plan_job *job;
    size_t best_cost;
    struct plan_fix *out;
};

/* ZeRO over one replica shards nothing.  Where the changes leave one, the stage that the job came
 * with goes; false: they ask for a stage themselves, or weights in host memory need one. */
static bool drop_idle_zero(const struct plan_config *was, struct plan_config *c)
{
    if (!c->zero || (int64_t)c->dp * c->cp > 1 || (int64_t)was->dp * was->cp == 1)
        return true;
    if (c->zero != was->zero || c->offload_params)
        return false;
    c->zero = 0;
    c->shard = 0;
    return true;
}

/* Applies the changes pick[0..count); keeps the outcome when it fits. */
static void try_changes(struct fix_search *s, const size_t *pick, size_t count)
{
    struct plan_config c = *s->job->config;
    struct plan_memory mem;
    size_t cost = 0;

    for (size_t i = 0; i < count; i++) {
        cost += pick[i] + 1;
        if (!changes[pick[i]].apply(s->job->model, &c))
            return;
    }
    if (!drop_idle_zero(s->job->config, &c))
        return;
    if (cost >= s->best_cost ||
        plan_config_rule(s->job->model, s->job->cluster, &c) != PLAN_RULE_OK)
        return;
    plan_memory_of(s->job->model, s->job->counts, &c, s->job->consts, &mem);
    if (mem.total > s->job->limit)
        return;
    s->best_cost = cost;
    s->out->steps = count;
    s->out->config = c;
    s->out->memory = mem;
    for (size_t i = 0; i < count; i++)
        snprintf(s->out->step[i], PLAN_FIX_TEXT_MAX, "%s%s", changes[pick[i]].text,
                 i + 1 == count && c.zero < s->job->config->zero
                     ? "; without --zero: one replica is left"
                     : "");
}

bool plan_memory_fix(const struct plan_job *j, struct plan_fix *out)
{
    enum { N = ARRAY_SIZE(changes) };
    struct fix_search s = { j, SIZE_MAX, out };
    size_t p[PLAN_FIX_MAX];

    out->steps = 0;
    for (p[0] = 0; p[0] < N; p[0]++)
        try_changes(&s, p, 1);
    if (out->steps)
        return true;
    for (p[0] = 0; p[0] < N; p[0]++)
        for (p[1] = p[0] + 1; p[1] < N; p[1]++)
            try_changes(&s, p, 2);
    if (out->steps)
        return true;
    for (p[0] = 0; p[0] < N; p[0]++)
        for (p[1] = p[0] + 1; p[1] < N; p[1]++)
            for (p[2] = p[1] + 1; p[2] < N; p[2]++)
                try_changes(&s, p, 3);
    return out->steps > 0;
}

/* ---- the largest micro-batch ---- */
static bool batch_fits(const struct plan_job *job, int64_t micro_batch)
{
    struct plan_config c = *job->config;
    struct plan_memory m;

    if (micro_batch > PLAN_BATCH_MAX)
        return false;
    c.micro_batch = (int32_t)micro_batch;
    if (plan_config_rule(job->model, NULL, &c) != PLAN_RULE_OK)
        return false;
    plan_memory_of(job->model, job->counts, &c, job->consts, &m);
    return m.total <= job->limit;
}

int64_t plan_memory_largest_batch(const struct plan_job *job)
{
    int64_t low = 0, high = 1;

    while (batch_fits(job, high)) {
        low = high;
        high *= 2;
    }
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;

        *(batch_fits(job, middle) ? &low : &high) = middle;
    }
    return low;
}
