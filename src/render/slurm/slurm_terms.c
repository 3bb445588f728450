/* SPDX-License-Identifier: MIT */
/* slurm_terms: on whose terms a job runs, and what of them it breaks.
 *
 * A component that names no partition, account or QOS has one all the same: the partition is chosen
 * here, the account is that of who submits it, and accounts.sh gives each account a QOS for jobs
 * that name none.  Limits of those hold as if they stood at the component, and a job beyond them
 * waits for ever.  Of several accounts one that can run it is enough; the others are told. */
#include "base/str.h"
#include "render/slurm/slurm_int.h"

#include <assert.h>
#include <inttypes.h>

static struct maybe lesser_of(struct maybe a, struct maybe b) /* unknown: no limit */
{
    return !a.known || (b.known && b.v < a.v) ? b : a;
}

static bool above_limit(struct maybe v, struct maybe limit) /* `v` unknown: as long as it may */
{
    return v.known && limit.known && v.v > limit.v;
}

static unsigned bars_of(const struct slurm *c, const struct spec_component *k,
                        const struct slurm_terms *t)
{
    struct maybe gpus = maybe_of(k->gpus * slurm_job_nodes(k));
    unsigned bars = 0;

    if (t->p && above_limit(k->time_limit_ms, t->p->time_limit_ms))
        bars |= SLURM_BAR_PARTITION_TIME;
    if (t->a && !t->q && c->s->qos_count)
        bars |= SLURM_BAR_NO_QOS;
    if (t->a && t->q && !slurm_account_has(t->a, t->q))
        bars |= SLURM_BAR_ACCOUNT_QOS;
    if (t->q && above_limit(k->time_limit_ms, t->q->max_time_ms))
        bars |= SLURM_BAR_QOS_TIME;
    if (t->q && above_limit(gpus, t->q->max_gpus))
        bars |= SLURM_BAR_QOS_GPUS;
    if (t->a && above_limit(gpus, t->a->max_gpus))
        bars |= SLURM_BAR_ACCOUNT_GPUS;
    if (!slurm_blocks_hold(c, k, t->p))
        bars |= SLURM_BAR_BLOCKS;
    return bars;
}

static struct slurm_terms terms_under(const struct slurm *c, const struct spec_component *k,
                                      const struct spec_account *a, const struct spec_partition *p)
{
    struct slurm_terms t = { .a = a, .p = p };

    if (k->qos)
        t.q = slurm_qos(c, k->qos);
    else if (a && c->s->accounting.enabled)
        t.q = slurm_default_qos(c, a, p);
    if (p)
        t.most_ms = p->time_limit_ms;
    if (t.q && c->s->accounting.enabled)
        t.most_ms = lesser_of(t.most_ms, t.q->max_time_ms);
    t.bars = bars_of(c, k, &t);
    return t;
}

/* Accounts whose users may submit it: the one it names, else all; without one, once with NULL. */
static bool account_next(const struct slurm *c, const struct spec_component *k, size_t *at,
                         const struct spec_account **out)
{
    size_t count = slurm_enforces(c) ? c->s->account_count : 0;

    if (k->account || !count) {
        *out = k->account ? slurm_account(c, k->account) : NULL;
        return (*at)++ == 0;
    }
    *out = *at < count ? &c->s->accounts[*at] : NULL;
    return (*at)++ < count;
}

struct slurm_terms slurm_terms_of(const struct slurm *c, const struct spec_component *k,
                                  const struct spec_partition *p)
{
    const struct spec_account *a;
    struct slurm_terms best = { 0 };

    for (size_t at = 0; account_next(c, k, &at, &a);) {
        struct slurm_terms t = terms_under(c, k, a, p);
        bool longer = best.most_ms.known && (!t.most_ms.known || t.most_ms.v > best.most_ms.v);

        if (at == 1 || (!t.bars && (best.bars || longer)))
            best = t;
    }
    return best;
}

const struct spec_qos *slurm_job_qos(const struct slurm *c, const struct spec_component *k,
                                     const struct spec_partition *p)
{
    const struct spec_qos *all = NULL;
    const struct spec_account *a;
    bool refused = false;

    if (k->qos || !c->s->accounting.enabled)
        return k->qos ? slurm_qos(c, k->qos) : NULL;
    for (size_t at = 0; account_next(c, k, &at, &a);) {
        const struct spec_qos *usual = a ? slurm_default_qos(c, a, NULL) : NULL;
        const struct spec_qos *here = a ? slurm_default_qos(c, a, p) : NULL;

        if (!here || (all && here != all))
            return NULL;
        all = here;
        refused = refused || (usual && !slurm_partition_takes(p, usual));
    }
    return refused ? all : NULL;
}

static bool has_all_groups(const struct slurm *c, const struct spec_partition *p,
                           const struct spec_component *k)
{
    const struct spec_node *n;

    for (size_t i = 0; (n = spec_component_group(c->r->spec, k, i)); i++)
        if (!slurm_partition_has(c, p, n))
            return false;
    return true;
}

const struct spec_partition *slurm_job_partition(const struct slurm *c,
                                                 const struct spec_component *k)
{
    const struct spec_qos *q = k->qos ? slurm_qos(c, k->qos) : NULL;
    const struct spec_partition *first = NULL;

    if (k->partition)
        return slurm_partition(c, k->partition);
    if (!c->s->partition_count) {
        /* Of a spec that names no partition. */
        const struct spec_partition *p;

        for (size_t i = 0; !has_all_groups(c, NULL, k) && (p = slurm_implied(c, i)); i++)
            if (has_all_groups(c, p, k))
                return p;
        return NULL;
    }
    for (size_t i = 0; i < c->s->partition_count; i++) {
        const struct spec_partition *p = &c->s->partitions[i];

        if (!has_all_groups(c, p, k) || (q && !slurm_partition_takes(p, q)))
            continue;
        if (!slurm_terms_of(c, k, p).bars)
            return p;
        first = first ? first : p;
    }
    return first;
}

/* --- what is told --- */

/* Why limits hold that the component does not name. */
static const char *why_qos(const struct spec_component *k, const struct slurm_terms *t,
                           struct buf *out)
{
    buf_reset(out);
    if (!k->qos)
        buf_addf(out, "Jobs of account '%s' that name no QOS have '%s'. ", t->a->name, t->q->name);
    buf_adds(out, "The job would wait for ever.");
    return buf_str(out);
}

static const void *term_where(const struct slurm *c, const struct spec_component *k,
                              const void *named, const void *wanted)
{
    if (spec_where(c->r->spec, named).line)
        return named;
    return spec_where(c->r->spec, wanted).line ? wanted : &k->name;
}

static void refuse_gpus(struct slurm *c, const struct spec_component *k,
                        const struct slurm_terms *t, struct buf *hint)
{
    int64_t gpus = k->gpus * slurm_job_nodes(k);

    if (t->bars & SLURM_BAR_QOS_GPUS)
        render_refuse(c->r, term_where(c, k, &k->qos, &k->gpus), why_qos(k, t, hint),
                      "component '%s' needs %" PRId64 " GPUs and QOS '%s' gives a user %" PRId64,
                      k->name, gpus, t->q->name, t->q->max_gpus.v);
    if (t->bars & SLURM_BAR_ACCOUNT_GPUS)
        render_refuse(c->r, term_where(c, k, &k->account, &k->gpus),
                      k->account ? "The job would wait for ever."
                                 : "It names no account, and no other could run it.",
                      "component '%s' needs %" PRId64 " GPUs and account '%s' has %" PRId64,
                      k->name, gpus, t->a->name, t->a->max_gpus.v);
}

static void refuse_blocks(struct slurm *c, const struct spec_component *k,
                          const struct slurm_terms *t)
{
    const struct spec_node *n = slurm_blocks_miss(c, t->p);

    if (t->bars & SLURM_BAR_BLOCKS && n)
        render_refuse(c->r, term_where(c, k, &k->partition, &k->nodes_per_replica),
                      "Give those a partition without machines of blocks, or take Slurm 25.05 or "
                      "later.",
                      "component '%s' would wait for ever: partition '%s' gives jobs no machine of "
                      "'%s' that is in no NVLink domain",
                      k->name, t->p ? t->p->name : SLURM_MAIN, n->name);
}

static void warn_others(struct slurm *c, const struct spec_component *k,
                        const struct slurm_terms *best)
{
    const struct spec_account *a;
    struct buf hint = { 0 };

    for (size_t at = 0; account_next(c, k, &at, &a);) {
        struct slurm_terms t = terms_under(c, k, a, best->p);
        bool shorter = !k->time_limit_ms.known && t.most_ms.known &&
                       (!best->most_ms.known || t.most_ms.v < best->most_ms.v);

        if (!a || (!t.bars && !shorter)) /* NULL: there is only what has no account */
            continue;
        buf_addf(&hint, "Add 'account: %s', which can run it, or a 'time_limit'.", best->a->name);
        render_warn(c->r, &k->name, buf_str(&hint),
                    "component '%s' names no account, and as a job of '%s' it is beyond the limits "
                    "there and waits for ever",
                    k->name, a->name);
        break;
    }
    buf_release(&hint);
}

void slurm_terms_check(struct slurm *c, const struct spec_component *k)
{
    struct slurm_terms t = slurm_terms_of(c, k, slurm_job_partition(c, k));
    struct buf hint = { 0 };

    if (t.bars & SLURM_BAR_PARTITION_TIME) {
        assert(t.p); /* whose time it is */
        render_refuse(c->r, &k->time_limit_ms,
                      k->partition ? "The job would wait for ever."
                                   : "No partition that has its machines allows more.",
                      "component '%s' may run longer than partition '%s' allows", k->name,
                      t.p->name);
    }
    if (t.bars & SLURM_BAR_QOS_TIME)
        render_refuse(c->r, &k->time_limit_ms, why_qos(k, &t, &hint),
                      "component '%s' may run longer than QOS '%s' allows", k->name, t.q->name);
    refuse_gpus(c, k, &t, &hint);
    if (t.bars & SLURM_BAR_ACCOUNT_QOS)
        render_refuse(c->r, &k->qos, "Add it to the account's 'qos', or take another.",
                      "account '%s' may not use QOS '%s'", t.a->name, k->qos);
    if (t.bars & SLURM_BAR_NO_QOS)
        render_refuse(c->r, term_where(c, k, &k->partition, &k->account),
                      "Add one of the account's to the partition's 'qos', or take another.",
                      "partition '%s' takes no QOS that account '%s' may use",
                      t.p ? t.p->name : SLURM_MAIN, t.a->name);
    refuse_blocks(c, k, &t);
    if (!t.bars && t.a && !k->account)
        warn_others(c, k, &t);
    buf_release(&hint);
}
