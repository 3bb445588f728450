/* SPDX-License-Identifier: MIT */
/* feasible_host: GPUs by number on machines without a scheduler.
 *
 * A replica takes GPUs of one machine, and only those where all its pools are; without a pool it
 * never has those that a component without GPUs of its own shares by a pool, which runs on the
 * first machine, and is kept off others that have a pool while it can.  Replicas are given to
 * machines by first fit, then by a search over all ways; whether what a machine was given can
 * have its GPUs is a matching of replicas' GPUs to the machine's, found by augmenting paths.
 * Machines that were given the same are one. */
#include "base/str.h"
#include "plan/feasible/feasible_int.h"

#include <string.h>

enum { HOST_STEPS_MAX = 100000, HOST_GPUS = FEASIBLE_GPUS_MAX };

struct host_replica {
    const struct feasible_unit *u;
    const uint32_t *may;  /* by node group: GPUs where its pools are; 0: not its group */
    const uint32_t *last; /* of them those that it takes last */
    const uint32_t *bars; /* of those of the group's first machine: not its, others share them */
    int64_t gpus;
    size_t machine; /* where it is */
    uint32_t has;   /* GPUs that it was given */
};
struct host_machine {
    size_t group;
    int64_t index; /* in the group */
};
struct host_search { /* groups that share a component are searched together */
    struct host_replica *items;
    size_t count;
    struct host_machine *machines; /* of a group no more than there are replicas, and one */
    size_t machine_count;
    bool *barred; /* by node group: the first machine has GPUs that some may not have */
    int64_t steps;
};

uint32_t feasible_gpus_allowed(const struct spec *s, const struct spec_component *c,
                               const struct spec_node *n)
{
    uint32_t mask = 0;

    for (int64_t g = 0; n && g < n->gpus_per_node && g < HOST_GPUS; g++) {
        bool has = true;

        for (size_t i = 0; i < c->pools.count; i++) {
            const struct spec_pool *p = spec_pool_find(s, c->pools.items[i]);

            has = has && (!p || spec_range_has(p->gpus, g));
        }
        mask |= has ? 1U << g : 0;
    }
    return mask;
}

static uint32_t range_mask(const struct spec_node *n, const char *range)
{
    uint32_t mask = 0;

    for (int64_t g = 0; g < n->gpus_per_node && g < HOST_GPUS; g++)
        mask |= spec_range_has(range, g) ? 1U << g : 0;
    return mask;
}

uint32_t feasible_gpus_shared(const struct spec *s, const struct spec_node *n)
{
    uint32_t mask = 0;

    for (size_t i = 0; n && i < s->pool_count; i++)
        if (s->pools[i].device == SPEC_POOL_GPU && spec_node_of(s, s->pools[i].nodes) == n)
            mask |= range_mask(n, s->pools[i].gpus);
    for (size_t i = 0; n && i < s->model_count; i++) {
        const struct spec_model *m = &s->models[i];

        /* `stoker serve` of the machine itself; a component's models are on its own GPUs */
        if (!m->component && !m->pool && m->gpus && m->device != SPEC_DEVICE_CPU &&
            spec_node_of(s, NULL) == n)
            mask |= range_mask(n, m->gpus);
    }
    return mask;
}

/* Is it memory for a model of the component? */
static bool pool_serves(const struct spec *s, const char *pool, const struct spec_component *c)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (str_eq(s->models[i].component, c->name) && str_eq(s->models[i].pool, pool))
            return true;
    return false;
}

static bool shares_gpus(const struct spec_component *c)
{
    return !c->gpus && c->pools.count &&
           (c->target == SPEC_TARGET_LOCAL || c->target == SPEC_TARGET_SYSTEMD ||
            c->target == SPEC_TARGET_COMPOSE);
}

uint32_t feasible_gpus_barred(const struct spec *s, const struct spec_component *c,
                              const struct spec_node *n, struct feasible_sharer *out)
{
    uint32_t all = 0;

    for (size_t i = 0; c->gpus && !c->pools.count && i < s->component_count; i++) {
        const struct spec_component *x = &s->components[i];
        uint32_t mask = 0;

        if (shares_gpus(x) && spec_component_group(s, x, 0) == n &&
            !pool_serves(s, x->pools.items[0], c))
            mask = feasible_gpus_allowed(s, x, n);
        if (mask && !all && out)
            *out = (struct feasible_sharer){ .c = x, .pool = x->pools.items[0], .gpus = mask };
        all |= mask;
    }
    return all;
}

/* ---- one machine ---- */

struct host_match {
    size_t owner[HOST_GPUS]; /* slot that has each GPU; SIZE_MAX: none */
    size_t item[HOST_GPUS];  /* replica of each slot */
    size_t slots;
    struct host_machine at;
};

static uint32_t replica_gpus(const struct host_replica *r, const struct host_machine *m)
{
    return r->may[m->group] & ~(m->index == 0 ? r->bars[m->group] : UINT32_C(0));
}

static bool slot_match(const struct host_search *h, struct host_match *m, size_t slot,
                       uint32_t *tried)
{
    const struct host_replica *r = &h->items[m->item[slot]];
    uint32_t may = replica_gpus(r, &m->at);

    for (size_t k = 0; k < 2 * HOST_GPUS; k++) {
        size_t g = k % HOST_GPUS;
        uint32_t bit = 1U << g;
        bool last = (r->last[m->at.group] & bit) != 0;

        if (!(may & bit) || *tried & bit || last != (k >= HOST_GPUS))
            continue;
        *tried |= bit;
        if (m->owner[g] == SIZE_MAX || slot_match(h, m, m->owner[g], tried)) {
            m->owner[g] = slot;
            return true;
        }
    }
    return false;
}

/* Can the replicas before `count` that are on a machine all have their GPUs?  Writes which. */
static bool machine_match(struct host_search *h, size_t count, size_t machine)
{
    struct host_match m = { .at = h->machines[machine] };

    memset(m.owner, 0xff, sizeof(m.owner));
    for (size_t i = 0; i < count; i++)
        for (int64_t k = 0; h->items[i].machine == machine && k < h->items[i].gpus; k++) {
            uint32_t tried = 0;

            if (m.slots == HOST_GPUS)
                return false;
            m.item[m.slots] = i;
            if (!slot_match(h, &m, m.slots++, &tried))
                return false;
        }
    for (size_t i = 0; i < count; i++)
        if (h->items[i].machine == machine)
            h->items[i].has = 0;
    for (size_t g = 0; g < HOST_GPUS; g++)
        if (m.owner[g] != SIZE_MAX)
            h->items[m.item[m.owner[g]]].has |= 1U << g;
    return true;
}

/* ---- all machines ---- */

/* Does an earlier machine hold the same kinds of replicas?  The first of a group may be another one
 * to the replica that comes next. */
static bool machine_same(const struct host_search *h, size_t count, size_t a, size_t b)
{
    size_t i = 0, k = 0;

    if (h->machines[a].group != h->machines[b].group ||
        (h->machines[a].index == 0 && h->barred[h->machines[a].group]))
        return false;
    for (;; i++, k++) {
        while (i < count && h->items[i].machine != a)
            i++;
        while (k < count && h->items[k].machine != b)
            k++;
        if (i == count || k == count)
            return i == count && k == count;
        if (h->items[i].may != h->items[k].may || h->items[i].gpus != h->items[k].gpus)
            return false;
    }
}

static enum pack_answer replicas_place(struct host_search *h, size_t at)
{
    if (at == h->count)
        return PACK_FITS;
    for (size_t m = 0; m < h->machine_count; m++) {
        enum pack_answer answer;
        bool same = false;

        for (size_t e = 0; !same && e < m; e++)
            same = machine_same(h, at, e, m);
        if (same)
            continue;
        if (h->steps++ > HOST_STEPS_MAX)
            return PACK_UNKNOWN;
        h->items[at].machine = m;
        answer = machine_match(h, at + 1, m) ? replicas_place(h, at + 1) : PACK_NO;
        if (answer != PACK_NO)
            return answer;
    }
    h->items[at].machine = SIZE_MAX;
    return PACK_NO;
}

/* Larger ones first. */
static void replicas_sort(struct host_search *h)
{
    for (size_t i = 1; i < h->count; i++) {
        struct host_replica r = h->items[i];
        size_t k = i;

        for (; k && h->items[k - 1].gpus < r.gpus; k--)
            h->items[k] = h->items[k - 1];
        h->items[k] = r;
    }
}

static bool unit_takes_part(const struct feasible *f, size_t i, const size_t *of, size_t which)
{
    const struct feasible_unit *u = &f->units[i];

    return u->system == FEASIBLE_HOST && u->group_count && u->request.gpus && !u->lost &&
           of[u->groups[0] - f->s->nodes] == which;
}

/* `off`: it takes no GPU that a pool or a model has memory of. */
static void unit_gpus(const struct feasible *f, struct arena *a, bool off, struct host_replica *out)
{
    const struct feasible_unit *u = out->u;
    uint32_t *may = arena_array(a, uint32_t, f->s->node_count + 1);
    uint32_t *last = arena_array(a, uint32_t, f->s->node_count + 1);
    uint32_t *bars = arena_array(a, uint32_t, f->s->node_count + 1);

    for (size_t g = 0; g < u->group_count; g++) {
        const struct spec_node *n = u->groups[g];
        size_t at = (size_t)(n - f->s->nodes);

        last[at] = u->c->pools.count ? 0 : feasible_gpus_shared(f->s, n);
        may[at] = feasible_gpus_allowed(f->s, u->c, n) & ~(off ? last[at] : UINT32_C(0));
        bars[at] = feasible_gpus_barred(f->s, u->c, n, NULL);
    }
    out->may = may;
    out->last = last;
    out->bars = bars;
}

static void replica_add(struct host_search *h, const struct spec *s, const struct host_replica *r)
{
    h->items[h->count++] = *r;
    for (size_t n = 0; n < s->node_count; n++)
        h->barred[n] = h->barred[n] || r->bars[n];
}

/* Of each group no more than `most`. */
static void machines_make(const struct feasible *f, struct arena *a, const size_t *of, size_t which,
                          int64_t most, struct host_search *h)
{
    size_t count = 0;

    for (size_t n = 0; n < f->s->node_count; n++)
        count += of[n] == which
                     ? (size_t)(f->s->nodes[n].count < most ? f->s->nodes[n].count : most)
                     : 0;
    h->machines = arena_array(a, struct host_machine, count + 1);
    for (size_t n = 0; n < f->s->node_count; n++)
        for (int64_t m = 0; of[n] == which && m < f->s->nodes[n].count && m < most; m++)
            h->machines[h->machine_count++] = (struct host_machine){ n, m };
}

/* Units of a cluster of groups up to and with `last`, of which `pods` replicas. */
static enum pack_answer cluster_place(struct feasible *f, struct arena *a, const size_t *of,
                                      size_t which, size_t last, int64_t pods,
                                      struct host_search *h)
{
    int64_t count = 0, slots = 0;

    *h = (struct host_search){ 0 };
    for (size_t i = 0; i <= last && i < f->unit_count; i++)
        if (unit_takes_part(f, i, of, which))
            count += i == last ? pods : f->units[i].pods;
    for (size_t n = 0; n < f->s->node_count; n++)
        slots += of[n] == which ? f->s->nodes[n].count * f->s->nodes[n].gpus_per_node : 0;
    if (count > slots)
        return PACK_NO;
    h->items = arena_array(a, struct host_replica, (size_t)count + 1);
    h->barred = arena_array(a, bool, f->s->node_count + 1);
    machines_make(f, a, of, which, count + 1, h); /* one more: the first may be others' */
    for (size_t i = 0; i <= last && i < f->unit_count; i++) {
        const struct feasible_unit *u = &f->units[i];
        struct host_replica r = { .u = u, .gpus = u->request.gpus, .machine = SIZE_MAX }, off = r;

        if (!unit_takes_part(f, i, of, which))
            continue;
        unit_gpus(f, a, true, &off);
        unit_gpus(f, a, false, &r);
        for (int64_t k = 0; k < (i == last ? pods : u->pods); k++)
            replica_add(h, f->s, k < u->kept_off ? &off : &r);
    }
    replicas_sort(h);
    return replicas_place(h, 0);
}

/* Who else is there, for a refusal: one who shares GPUs is no GPU short, so it is named. */
static const char *beside_text(struct feasible *f, const struct feasible_unit *u)
{
    struct feasible_sharer by = { 0 };
    struct buf list = { 0 };
    const char *text;

    for (size_t g = 0; g < u->group_count && !by.c; g++)
        (void)feasible_gpus_barred(f->s, u->c, u->groups[g], &by);
    if (!by.c)
        return "the others";
    for (unsigned i = 0; i < HOST_GPUS; i++)
        if (by.gpus & (1U << i))
            buf_addf(&list, "%s%u", list.len ? "," : "", i);
    text = arena_printf(&f->a, "the others and '%s', which shares GPU%s %s by pool '%s'",
                        by.c->name, by.gpus & (by.gpus - 1) ? "s" : "", buf_str(&list), by.pool);
    buf_release(&list);
    return text;
}

static void cluster_refuse(struct feasible *f, struct arena *a, const size_t *of, size_t which)
{
    struct host_search h;

    for (size_t i = 0; i < f->unit_count; i++) {
        struct feasible_unit *u = &f->units[i];
        int64_t found = u->pods;

        if (!unit_takes_part(f, i, of, which))
            continue;
        while (found > 0 && cluster_place(f, a, of, which, i, found, &h) == PACK_NO)
            found--;
        if (found == u->pods)
            continue;
        feasible_tell_pods(f, u, DIM_GPUS, found, beside_text(f, u));
        u->lost = true;
    }
}

/* Components without a pool are kept off GPUs that a pool or a model has memory of, one component
 * after the other, as many of its replicas as can be while all find room. */
static void cluster_keep_off(struct feasible *f, struct arena *a, const size_t *of, size_t which)
{
    struct host_search h;

    for (size_t i = 0; i < f->unit_count; i++) {
        struct feasible_unit *u = &f->units[i];
        int64_t low = 0, high = u->pods + 1; /* low can be, high cannot */
        uint32_t shared = 0;

        if (!unit_takes_part(f, i, of, which) || u->c->pools.count ||
            u->c->target == SPEC_TARGET_COMPOSE) /* all of a compose file is on one machine */
            continue;
        for (size_t g = 0; g < u->group_count; g++)
            shared |= feasible_gpus_shared(f->s, u->groups[g]);
        for (u->kept_off = u->pods; shared && high - low > 1; u->kept_off = (low + high) / 2)
            if (cluster_place(f, a, of, which, f->unit_count, 0, &h) == PACK_FITS)
                low = u->kept_off;
            else
                high = u->kept_off;
        u->kept_off = low;
    }
}

static void cluster_check(struct feasible *f, const size_t *of, size_t which)
{
    const struct spec_node *nodes = f->s->nodes;
    struct arena a = { 0 };
    struct host_search h;

    cluster_keep_off(f, &a, of, which);
    switch (cluster_place(f, &a, of, which, f->unit_count, 0, &h)) {
    case PACK_NO:
        cluster_refuse(f, &a, of, which);
        break;
    case PACK_UNKNOWN:
        feasible_tell(f, true, &nodes[which].name, NULL,
                      "whether components fit on the GPUs of '%s' could not be decided in %d steps",
                      nodes[which].name, HOST_STEPS_MAX);
        break;
    case PACK_FITS:
        for (size_t i = 0; i < h.count; i++) {
            const struct host_machine *m = &h.machines[h.items[i].machine];

            feasible_place_add(f, (struct feasible_place){ .c = h.items[i].u->c,
                                                           .node = &nodes[m->group],
                                                           .first = m->index,
                                                           .count = 1,
                                                           .each = 1,
                                                           .gpus = h.items[i].has,
                                                           .system = FEASIBLE_HOST });
        }
    }
    arena_release(&a);
}

void feasible_hosts(struct feasible *f)
{
    bool *in = arena_array(&f->a, bool, f->unit_count + 1);
    size_t *of = arena_array(&f->a, size_t, f->s->node_count + 1);

    for (size_t i = 0; i < f->unit_count; i++)
        in[i] = f->units[i].system == FEASIBLE_HOST && f->units[i].request.gpus;
    feasible_clusters(f, in, of);
    for (size_t i = 0; i < f->s->node_count; i++)
        if (of[i] == i && f->s->nodes[i].gpus_per_node)
            cluster_check(f, of, i);
}
