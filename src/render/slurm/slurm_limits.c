/* SPDX-License-Identifier: MIT */
/* slurm_limits: what a job gets that asks for nothing, and limits that stand in each other's way.
 *
 * A job without --time gets its partition's DefaultTime; when its QOS has a shorter MaxWall it
 * waits for ever, so the default is never above any QOS that the partition takes.  A job without
 * --mem gets memory by its CPUs or GPUs; without these defaults it gets all of the machine, and
 * the next one waits.  Slurm's manual calls DefMemPerCPU and DefMemPerGPU mutually exclusive, but
 * they are read and kept apart (src/common/read_config.c): the first holds for jobs without GPUs,
 * the second for jobs with them, which tests/slurm sees on a real one. */
#include "base/str.h"
#include "render/slurm/slurm_int.h"

#include <stdlib.h>

enum {
    DEFAULT_TIME_MS = 3600 * 1000,
    PLAIN_PARTS = 8 /* one part of so many of a GPU machine is left to jobs without GPUs: else the
                       first of them would keep the last GPU from being used */
};

static int64_t least_of(int64_t a, int64_t b) /* 0: not known */
{
    return !a || (b && b < a) ? b : a;
}

static int64_t at_least_one(int64_t n)
{
    return n > 1 ? n : 1;
}

/* Threads of a GPU's job: whole cores, since Slurm gives no less. */
static int64_t gpu_threads(const struct spec_node *n, int64_t gpus)
{
    int64_t cpus = slurm_cpus(n) * (PLAIN_PARTS - 1) / PLAIN_PARTS / gpus;

    return at_least_one(cpus - cpus % n->threads_per_core);
}

struct slurm_share slurm_share_of(const struct spec_node *const *groups, size_t count)
{
    struct slurm_share s = { 0 };

    for (size_t i = 0; i < count; i++) {
        const struct spec_node *n = groups[i];
        int64_t gpus = slurm_gpu_count(n), cpus = slurm_cpus(n), mib = slurm_memory_mib(n);

        s.cpu_mib = least_of(s.cpu_mib, at_least_one(mib / cpus));
        if (!gpus)
            continue;
        s.gpu_cpus = least_of(s.gpu_cpus, gpu_threads(n, gpus));
        s.gpu_mib = least_of(s.gpu_mib, at_least_one(mib * (PLAIN_PARTS - 1) / PLAIN_PARTS / gpus));
    }
    return s;
}

bool slurm_partition_takes(const struct spec_partition *p, const struct spec_qos *q)
{
    return !p || !p->qos.count || render_strs_has(&p->qos, q->name);
}

bool slurm_keeps_qos(const struct slurm *c)
{
    return c->s->accounting.enabled && c->s->account_count;
}

int64_t slurm_default_time_ms(const struct slurm *c, const struct spec_partition *p)
{
    int64_t ms = p && p->default_time_ms.known ? p->default_time_ms.v : DEFAULT_TIME_MS;

    if (p && p->time_limit_ms.known && p->time_limit_ms.v < ms)
        ms = p->time_limit_ms.v;
    for (size_t i = 0; c->s->accounting.enabled && i < c->s->qos_count; i++) {
        const struct spec_qos *q = &c->s->qos[i];

        if (q->max_time_ms.known && q->max_time_ms.v < ms && slurm_partition_takes(p, q))
            ms = q->max_time_ms.v;
    }
    return ms;
}

/* --- limits of a QOS --- */

/* The longest job of any partition that takes the QOS; unknown: one has no limit. */
static struct maybe longest_time(const struct slurm *c, const struct spec_qos *q)
{
    struct maybe longest = maybe_none();

    for (size_t i = 0; i < c->s->partition_count; i++) {
        const struct spec_partition *p = &c->s->partitions[i];

        if (!slurm_partition_takes(p, q))
            continue;
        if (!p->time_limit_ms.known)
            return maybe_none();
        if (!longest.known || p->time_limit_ms.v > longest.v)
            longest = p->time_limit_ms;
    }
    return longest;
}

struct maybe slurm_qos_time(const struct slurm *c, const struct spec_qos *q)
{
    struct maybe longest = longest_time(c, q);

    if (!q->max_time_ms.known || !longest.known || q->max_time_ms.v <= longest.v)
        return q->max_time_ms;
    return longest;
}

static bool group_takes(const struct slurm *c, const struct spec_node *n, const struct spec_qos *q)
{
    if (!c->s->partition_count)
        return true;
    for (size_t i = 0; i < c->s->partition_count; i++)
        if (slurm_partition_takes(&c->s->partitions[i], q) &&
            slurm_partition_has(c, &c->s->partitions[i], n))
            return true;
    return false;
}

/* GPUs, or MIG instances: a user may have jobs in several partitions at once, and a machine that
 * is in several counts once. */
int64_t slurm_qos_gpus(const struct slurm *c, const struct spec_qos *q)
{
    int64_t gpus = 0;

    for (size_t i = 0; i < c->r->spec->node_count; i++) {
        const struct spec_node *n = &c->r->spec->nodes[i];

        if (slurm_has(c, n) && group_takes(c, n, q))
            gpus += n->count * slurm_gpu_count(n);
    }
    return gpus;
}

/* --- the QOS of jobs that name none --- */

bool slurm_account_has(const struct spec_account *a, const struct spec_qos *q)
{
    return !a->qos.count || render_strs_has(&a->qos, q->name);
}

/* "normal" where there is one, else the first that pushes nobody aside: who asks for nothing
 * should not be in anybody's way. */
const struct spec_qos *slurm_default_qos(const struct slurm *c, const struct spec_account *a,
                                         const struct spec_partition *p)
{
    const struct spec_qos *first = NULL, *meek = NULL;

    for (size_t i = 0; i < c->s->qos_count; i++) {
        const struct spec_qos *q = &c->s->qos[i];

        if (!slurm_account_has(a, q) || !slurm_partition_takes(p, q))
            continue;
        if (str_eq(q->name, "normal"))
            return q;
        first = first ? first : q;
        meek = meek || q->preempts.count ? meek : q;
    }
    return meek ? meek : first;
}
