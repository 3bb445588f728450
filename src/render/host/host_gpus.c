/* SPDX-License-Identifier: MIT */
/* host_gpus: which GPUs of which machine a component has.
 *
 * Components are taken in this order: first the one with most GPUs, then always the one that talks
 * most with those already placed (traffic[].rate), more GPUs first, then as they stand in the spec.
 * Each gets the lowest GPUs in a row that are free, on the first machine where there are enough, so
 * that neighbours talk and the same spec always gives the same answer; GPUs that a pool or a model
 * has memory of are taken last by whoever has no pool, and not at all where others share them.
 * Where that leaves somebody without GPUs, all are placed as plan/feasible.h found it possible.  A
 * component that has a pool and no GPU of its own sees the GPUs of that pool, which are others'.
 *
 * compose and systemd may share a machine, so components of both are placed together, whichever of
 * the two is being written. */
#include "base/mem.h"
#include "base/str.h"
#include "plan/feasible.h"
#include "render/host/host_int.h"

#include <assert.h>
#include <inttypes.h>

int host_gpu_count(uint32_t gpus)
{
    return __builtin_popcount(gpus);
}

void host_gpu_list(struct buf *out, uint32_t gpus)
{
    bool first = true;

    for (int i = 0; i < HOST_GPUS_MAX; i++)
        if (gpus & (1U << i)) {
            buf_addf(out, "%s%d", first ? "" : ",", i);
            first = false;
        }
}

/* `want` GPUs of `from`: a row of them if there is one, else the lowest; 0: too few. */
static uint32_t choose_gpus(uint32_t from, int64_t want)
{
    uint32_t row = (1U << want) - 1, out = 0;

    for (int at = 0; at + want <= HOST_GPUS_MAX; at++)
        if ((from & (row << at)) == row << at)
            return row << at;
    for (int i = 0; i < HOST_GPUS_MAX && want; i++)
        if (from & (1U << i)) {
            out |= 1U << i;
            want--;
        }
    return want ? 0 : out;
}

/* ---- the order ---- */

struct gpu_place {
    const struct spec_component *c;
    const struct spec_node *node;
    double talk; /* bits a second with those that are placed */
    bool done;
};

static struct gpu_place *next_of(const struct spec *s, struct gpu_place *all, size_t count)
{
    struct gpu_place *best = NULL;

    for (size_t i = 0; i < count; i++) {
        struct gpu_place *p = &all[i];

        if (p->done)
            continue;
        if (!best || p->talk > best->talk || (p->talk == best->talk && p->c->gpus > best->c->gpus))
            best = p;
        if (count > HOST_ORDER_MAX)
            break;
    }
    if (best && count <= HOST_ORDER_MAX) {
        for (size_t i = 0; i < s->traffic_count; i++) {
            const struct spec_traffic *t = &s->traffic[i];
            const char *other = str_eq(t->from, best->c->name) ? t->to
                                : str_eq(t->to, best->c->name) ? t->from
                                                               : NULL;

            for (size_t k = 0; other && k < count; k++)
                if (str_eq(all[k].c->name, other))
                    all[k].talk += (double)maybe_or(t->rate_bps, 1);
        }
    }
    if (best)
        best->done = true;
    return best;
}

/* ---- GPUs that are still free ---- */

struct gpu_group {
    const struct spec_node *node;
    uint32_t *taken; /* a machine each */
};
struct groups {
    struct gpu_group *items;
    size_t count;
};

static struct groups groups_make(struct arena *a, const struct spec *s)
{
    struct groups g = { .items = arena_array(a, struct gpu_group, s->node_count + 1),
                        .count = s->node_count };

    for (size_t i = 0; i < s->node_count; i++)
        g.items[i].node = &s->nodes[i];
    return g;
}

static struct gpu_group *group_of(struct arena *a, struct groups *g, const struct spec_node *n)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->items[i].node == n) {
            if (!g->items[i].taken)
                g->items[i].taken = arena_array(a, uint32_t, (size_t)n->count + 1);
            return &g->items[i];
        }
    return NULL;
}

/* On the first machine with enough of them; `off`: none that a pool or a model has memory of. */
static bool give_first(struct render *r, struct arena *a, struct groups *all, struct host_run *run,
                       bool off)
{
    const struct spec_component *c = run->c;
    const struct spec_node *n;

    for (size_t i = 0; (n = spec_component_group(r->spec, c, i)) != NULL; i++) {
        struct gpu_group *g = group_of(a, all, n);
        uint32_t allowed = feasible_gpus_allowed(r->spec, c, n);
        uint32_t barred = feasible_gpus_barred(r->spec, c, n, NULL);

        for (int64_t m = 0; g && m < n->count; m++) {
            uint32_t may = allowed & ~g->taken[m] & ~(m ? UINT32_C(0) : barred);
            uint32_t free = c->pools.count ? may : may & ~feasible_gpus_shared(r->spec, n);
            int64_t more = c->gpus - host_gpu_count(free);

            run->gpus = choose_gpus(free, c->gpus);
            if (!run->gpus && !off && more > 0)
                run->gpus = choose_gpus(may & ~free, more);
            if (run->gpus && more > 0)
                run->gpus |= free;
            if (!run->gpus)
                continue;
            g->taken[m] |= run->gpus;
            run->node = n;
            run->machine = m;
            return true;
        }
    }
    return false;
}

static bool give_gpus(struct render *r, struct arena *a, struct groups *all, struct host_run *run)
{
    const struct spec_component *c = run->c;

    if (c->gpus == 0) {
        run->gpus = c->pools.count ? feasible_gpus_allowed(r->spec, c, run->node) : 0;
        run->shared = run->gpus != 0;
        return true;
    }
    /* all of a compose file is on one machine: there a better GPU elsewhere is of no use */
    return (c->target != SPEC_TARGET_COMPOSE && give_first(r, a, all, run, true)) ||
           give_first(r, a, all, run, false);
}

/* Near each other did not work out: as plan/feasible.h found room for them, which it did, or the
 * spec was refused before. */
static bool give_as_found(struct render *r, struct host_plan *p)
{
    size_t at = 0, count = feasible_place_count(r->feasible);

    for (size_t i = 0; i < p->count; i++) {
        const struct feasible_place *f = NULL;
        size_t seen = 0;

        if (!p->runs[i].c->gpus)
            continue;
        for (at = 0; at < count && !f; at++) {
            const struct feasible_place *x = feasible_place_at(r->feasible, at);

            if (x->system == FEASIBLE_HOST && x->c == p->runs[i].c &&
                seen++ == (size_t)p->runs[i].replica)
                f = x;
        }
        if (!f) {
            render_refuse(r, &p->runs[i].c->gpus, NULL, "component '%s' was given no GPUs of '%s'",
                          p->runs[i].c->name, p->runs[i].node ? p->runs[i].node->name : "the site");
            return false;
        }
        p->runs[i].node = f->node;
        p->runs[i].machine = f->first;
        p->runs[i].gpus = f->gpus;
    }
    return true;
}

/* ---- the plan ---- */

/* Whoever runs them, they are on the same GPUs. */
static bool on_machine(const struct spec_component *c)
{
    return c->target == SPEC_TARGET_LOCAL || c->target == SPEC_TARGET_SYSTEMD ||
           c->target == SPEC_TARGET_COMPOSE;
}

static bool check_group(struct render *r, const struct spec_component *c)
{
    if (c->nodes_per_replica == 1)
        return true;
    render_refuse(r, &c->nodes_per_replica,
                  "Use target slurm, kubernetes or openshift for what spans several machines.",
                  "component '%s' spans %" PRId64 " machines; one machine runs it here", c->name,
                  c->nodes_per_replica);
    return false;
}

static struct gpu_place *collect_places(struct render *r, struct arena *a,
                                        bool (*takes)(const struct spec_component *c),
                                        size_t *count, size_t *runs)
{
    const struct spec *s = r->spec;
    struct gpu_place *out = arena_array(a, struct gpu_place, s->component_count + 1);

    *count = *runs = 0;
    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *c = &s->components[i];

        if (!on_machine(c) || (c->nodes_per_replica != 1 && !takes(c)))
            continue;
        if (!check_group(r, c))
            return NULL;
        out[(*count)++] = (struct gpu_place){ .c = c, .node = spec_component_group(s, c, 0) };
        *runs += (size_t)c->replicas;
    }
    return out;
}

static struct host_run *runs_of(struct host_plan *p, const struct spec_component *c)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->runs[i].c == c)
            return &p->runs[i];
    return NULL;
}

/* Those that were asked for; the others have their GPUs. */
static void keep_runs(struct host_plan *p, bool (*takes)(const struct spec_component *c))
{
    size_t n = 0;

    for (size_t i = 0; i < p->count; i++)
        if (takes(p->runs[i].c))
            p->runs[n++] = p->runs[i];
    p->count = n;
}

/* Is it memory for a model of the component? */
static bool pool_is_for(const struct spec *s, const struct spec_pool *p,
                        const struct spec_component *c)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (str_eq(s->models[i].component, c->name) && str_eq(s->models[i].pool, p->name))
            return true;
    return false;
}

/* Of whole GPUs that it asked for, those that others have a pool on. */
static uint32_t gpus_of_others(const struct spec *s, const struct host_run *run, const char **pool)
{
    uint32_t mask = 0;

    for (size_t i = 0; run->c->gpus && !run->c->pools.count && i < s->pool_count; i++) {
        const struct spec_pool *p = &s->pools[i];

        if (p->device == SPEC_POOL_CPU || spec_node_of(s, p->nodes) != run->node ||
            pool_is_for(s, p, run->c))
            continue;
        for (int g = 0; g < HOST_GPUS_MAX; g++)
            if (run->gpus & (1U << g) && spec_range_has(p->gpus, g)) {
                mask |= 1U << g;
                *pool = *pool ? *pool : p->name;
            }
    }
    return mask;
}

/* It runs, with less memory than it thinks it has: once for a component. */
static void beside_warn(struct render *r, const struct host_plan *p)
{
    const struct spec_component *told = NULL;

    for (size_t i = 0; i < p->count; i++) {
        const struct host_run *run = &p->runs[i];
        const char *pool = NULL;
        uint32_t gpus = gpus_of_others(r->spec, run, &pool);
        struct buf list = { 0 };

        if (!gpus || run->c == told)
            continue;
        told = run->c;
        host_gpu_list(&list, gpus);
        render_warn(
            r, &run->c->gpus, "Put the pool on other GPUs, or give the component a pool, too.",
            "GPU%s %s of '%s' %s not for '%s' only: pool '%s' has memory of %s, and no others "
            "are free",
            host_gpu_count(gpus) == 1 ? "" : "s", buf_str(&list), run->node->name,
            host_gpu_count(gpus) == 1 ? "is" : "are", run->c->name, pool,
            host_gpu_count(gpus) == 1 ? "it" : "them");
        buf_release(&list);
    }
}

bool host_plan_make(struct render *r, bool (*takes)(const struct spec_component *c),
                    struct host_plan *out)
{
    struct host_plan p = { 0 };
    size_t count, runs;
    struct gpu_place *all = collect_places(r, &p.arena, takes, &count, &runs), *at;
    struct groups groups = groups_make(&p.arena, r->spec);
    bool ok = all != NULL, near = true;

    if (ok)
        p.runs = arena_array(&p.arena, struct host_run, runs + 1);
    for (size_t i = 0; ok && i < count; i++)
        for (int64_t k = 0; k < all[i].c->replicas; k++) {
            struct host_run *run = &p.runs[p.count++];

            *run = (struct host_run){ .c = all[i].c, .node = all[i].node, .replica = k };
            if (run->c->replicas == 1)
                (void)snprintf(run->name, sizeof(run->name), "%s", run->c->name);
            else
                (void)snprintf(run->name, sizeof(run->name), "%s-%" PRId64, run->c->name,
                               run->replica + 1);
        }
    while (ok && (at = next_of(r->spec, all, count))) {
        struct host_run *run = runs_of(&p, at->c);

        for (int64_t k = 0; run && k < at->c->replicas; k++)
            near = give_gpus(r, &p.arena, &groups, &run[k]) && near;
    }
    ok = ok && (near || give_as_found(r, &p));
    if (!ok) {
        host_plan_release(&p);
        return false;
    }
    keep_runs(&p, takes);
    beside_warn(r, &p);
    *out = p;
    return true;
}

void host_plan_release(struct host_plan *p)
{
    arena_release(&p->arena);
    *p = (struct host_plan){ 0 };
}

const struct host_run *host_run_find(const struct host_plan *p, const char *component)
{
    for (size_t i = 0; component && i < p->count; i++)
        if (str_eq(p->runs[i].c->name, component))
            return &p->runs[i];
    return NULL;
}

/* ---- its share of the machine ---- */

static struct maybe share_of(const struct host_run *run, struct maybe whole)
{
    const struct spec_node *n = run->node;

    if (!n || !whole.known || !run->c->gpus || !n->gpus_per_node)
        return maybe_none();
    return maybe_of(whole.v * run->c->gpus / n->gpus_per_node);
}

struct maybe host_cpus(const struct host_run *run)
{
    const struct spec_node *n = run->node;
    struct maybe m = run->c->cpus;

    if (!m.known && n && n->cpu_cores.known)
        m = share_of(run, maybe_of(n->cpu_cores.v * n->threads_per_core));
    return m.known && m.v == 0 ? maybe_of(1) : m;
}

struct maybe host_memory(const struct host_run *run)
{
    if (run->c->memory_bytes.known || !run->node)
        return run->c->memory_bytes;
    return share_of(run, run->node->memory_bytes);
}

struct maybe host_pool_bytes(const struct spec *s, const struct spec_component *c)
{
    int64_t sum = 0;

    for (size_t i = 0; i < c->pools.count; i++) {
        const struct spec_pool *p = spec_pool_find(s, c->pools.items[i]);

        assert(p); /* names of a spec exist */
        sum += p->size_bytes;
    }
    return c->pools.count ? maybe_of(sum) : maybe_none();
}
