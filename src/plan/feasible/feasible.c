/* SPDX-License-Identifier: MIT */
/* feasible: units, and the questions about them.
 *
 * For each system, in this order: does one pod of a component fit on an empty machine; do all its
 * pods fit alone, also when it has grown; do those that are always there fit together; does a
 * queued one fit beside them.  A component that fails is refused and not asked about again, so
 * that one mistake gives one message.
 *
 * Where the spec leaves CPUs and memory of a GPU component open it gets its GPUs' part of what the
 * machine has left for it; if that part is what keeps the whole from fitting, it gets less. */
#include "plan/feasible/feasible_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

enum {
    MIB = 1 << 20,
    PART_MAX = 8,           /* eighths */
    SLACK_CPU_M = 1000,     /* a derived request leaves this to pods of operators and the like */
    SLACK_DIV = 32,         /* or this part of the machine */
    MEMORY_PCT = 90,        /* of the memory that derived asks take at most */
    WHOLE_GIB_MIB = 8192,   /* above it whole GiB are asked for */
    CULPRIT_STEPS = 200000, /* of a search that looks for who is too much */
    RDMA_SHARED_MAX = 64,   /* pods that k8s-rdma-shared-dev-plugin lets share the devices */
};

/* ---- what there is to place ---- */

static const char *mig_profile(const struct spec_node *n)
{
    return feasible_mig_instances(n) ? n->gpu->mig_profile : NULL;
}

static bool is_pods(enum feasible_system system)
{
    return system == FEASIBLE_KUBERNETES || system == FEASIBLE_OPENSHIFT;
}

static bool job_kind(const struct spec_component *c)
{
    return c->kind == SPEC_COMPONENT_TRAINING || c->kind == SPEC_COMPONENT_BATCH;
}

static enum feasible_system system_of(const struct spec_component *c)
{
    switch (c->target) {
    case SPEC_TARGET_KUBERNETES:
        return FEASIBLE_KUBERNETES;
    case SPEC_TARGET_OPENSHIFT:
        return FEASIBLE_OPENSHIFT;
    case SPEC_TARGET_SLURM:
        return FEASIBLE_SLURM;
    default:
        return FEASIBLE_HOST;
    }
}

static int64_t pods_of(const struct spec_component *c, enum feasible_system system)
{
    /* on Slurm replicas of a batch component are tasks of an array, each a job of its own */
    if (system == FEASIBLE_SLURM && c->kind == SPEC_COMPONENT_BATCH)
        return c->nodes_per_replica;
    return c->nodes_per_replica * c->replicas;
}

static struct feasible_request request_given(const struct spec_component *c)
{
    struct feasible_request request = { .gpus = c->gpus };

    if (c->cpus.known)
        request.cpu_m = maybe_of(c->cpus.v * 1000);
    if (c->memory_bytes.known)
        request.memory_mib = maybe_of(c->memory_bytes.v / MIB);
    return request;
}

static void unit_add(struct feasible *f, const struct spec_component *c,
                     enum feasible_system system)
{
    const struct spec_kubernetes *k = f->s->targets.kubernetes;
    struct feasible_unit *u = &f->units[f->unit_count];

    *u = (struct feasible_unit){ .c = c, .system = system, .pods = 1 };
    if (system == FEASIBLE_SLURM && !job_kind(c))
        return; /* Slurm does not run it, which is told elsewhere */
    u->again = c && system != system_of(c);
    if (c && is_pods(system))
        f->unit_of[c - f->s->components] = f->unit_count;
    u->groups = arena_array(&f->a, const struct spec_node *, f->s->node_count + 1);
    if (!c || is_pods(u->system)) {
        u->group_count = feasible_groups(f->s, c, u->groups);
    } else {
        while ((u->groups[u->group_count] = spec_component_group(f->s, c, u->group_count)) != NULL)
            u->group_count++;
    }
    u->request = c ? request_given(c) : feasible_serve_request(f->s);
    if (c) {
        u->pods = pods_of(c, u->system);
        u->apart = feasible_apart(f->s, c, u->system);
        u->queued = c->queued || u->system == FEASIBLE_SLURM ||
                    (u->system == FEASIBLE_KUBERNETES && job_kind(c) && k && k->queue) ||
                    (u->system == FEASIBLE_OPENSHIFT && c->kind == SPEC_COMPONENT_BATCH);
        if (is_pods(u->system) && !c->gpus && c->pools.count)
            u->request.gpus = 1; /* a share of one */
    }
    f->unit_count++;
}

static bool models_without_component(const struct spec *s)
{
    for (size_t i = 0; i < s->model_count; i++)
        if (!s->models[i].component)
            return true;
    return false;
}

static bool fabric_counts(const struct spec_fabric *f)
{
    return f->sriov || f->kind != SPEC_FABRIC_ETHERNET;
}

/* Groups of which a component of the system takes whole machines; who takes less fills machines. */
static void fills_mark(struct feasible *f, enum feasible_system system)
{
    bool *whole = arena_array(&f->a, bool, f->s->node_count + 1);

    for (size_t i = 0; i < f->unit_count; i++) {
        const struct feasible_unit *u = &f->units[i];

        for (size_t g = 0; u->system == system && u->c && g < u->group_count; g++)
            if (u->c->gpus && u->c->gpus == feasible_gpus(u->groups[g]))
                whole[u->groups[g] - f->s->nodes] = true;
    }
    for (size_t i = 0; i < f->unit_count; i++) {
        struct feasible_unit *u = &f->units[i];

        if (u->system != system || !u->c || !u->c->gpus || u->apart ||
            feasible_takes_machines(f->s, u->c))
            continue;
        for (size_t g = 0; g < u->group_count; g++)
            u->fills = u->fills || whole[u->groups[g] - f->s->nodes];
    }
}

static void units_make(struct feasible *f)
{
    const struct spec *s = f->s;

    f->units = arena_array(&f->a, struct feasible_unit, 2 * s->component_count + 2);
    f->unit_of = arena_array(&f->a, size_t, s->component_count + 1);
    memset(f->unit_of, 0xff, s->component_count * sizeof(*f->unit_of));
    f->opts.kubernetes_by_name = f->opts.kubernetes_by_name && spec_kubernetes_takes_others(s);
    f->fabrics = arena_array(&f->a, const struct spec_fabric *, s->fabric_count + 1);
    f->part = arena_array(&f->a, int, s->node_count + 1);
    for (size_t i = 0; i < s->node_count; i++)
        f->part[i] = PART_MAX;
    for (size_t i = 0; i < s->fabric_count; i++)
        if (fabric_counts(&s->fabrics[i]))
            f->fabrics[f->fabric_count++] = &s->fabrics[i];
    for (size_t i = 0; i < s->component_count; i++) {
        const struct spec_component *c = &s->components[i];

        unit_add(f, c, system_of(c));
        if (system_of(c) != FEASIBLE_KUBERNETES && feasible_on_kubernetes(c, &f->opts))
            unit_add(f, c, FEASIBLE_KUBERNETES);
    }
    if ((s->targets.kubernetes || f->opts.kubernetes_by_name) && models_without_component(s))
        unit_add(f, NULL, FEASIBLE_KUBERNETES);
    fills_mark(f, FEASIBLE_KUBERNETES);
    fills_mark(f, FEASIBLE_OPENSHIFT);
}

/* ---- asks that the spec leaves open ---- */

/* What CPU services on a group take of each machine, spread evenly. */
static void others_sum(const struct feasible *f, const struct feasible_unit *of,
                       const struct spec_node *n, int64_t *cpu_m, int64_t *mib)
{
    *cpu_m = *mib = 0;
    for (size_t i = 0; i < f->unit_count; i++) {
        const struct feasible_unit *u = &f->units[i];
        int64_t machines = 0, each;
        bool here = false;

        if (u->system != of->system || u->request.gpus)
            continue;
        for (size_t g = 0; g < u->group_count; g++) {
            machines += u->groups[g]->count;
            here = here || u->groups[g] == n;
        }
        each = here && machines ? (u->pods + machines - 1) / machines : 0;
        *cpu_m += each * maybe_or(u->request.cpu_m, 0);
        *mib += each * maybe_or(u->request.memory_mib, 0);
    }
}

static int64_t cpu_rounded(int64_t cpu_m)
{
    if (cpu_m >= 1000)
        return cpu_m / 1000 * 1000; /* whole CPUs: the static CPU manager gives no others */
    return cpu_m >= 10 ? cpu_m / 10 * 10 : 10;
}

static int64_t memory_rounded(int64_t mib)
{
    return mib >= WHOLE_GIB_MIB ? mib & ~(int64_t)1023 : mib > 0 ? mib : 1;
}

static void derive_on(const struct feasible *f, struct feasible_unit *u, const struct spec_node *n)
{
    struct feasible_room r = feasible_room_of(f->s, n, u->system);
    int64_t units = feasible_gpus(n), part = f->part[n - f->s->nodes], cpu_m, mib, free_m, slack;

    if (!units)
        return;
    others_sum(f, u, n, &cpu_m, &mib);
    if (r.cpu_m.known && (!u->request.cpu_m.known || u->request.cpu_derived)) {
        slack = r.cpu_m.v / SLACK_DIV > SLACK_CPU_M ? r.cpu_m.v / SLACK_DIV : SLACK_CPU_M;
        free_m = r.cpu_m.v - cpu_m - slack;
        free_m = free_m > r.cpu_m.v / 4 ? free_m : r.cpu_m.v / 4;
        free_m = cpu_rounded(free_m * u->request.gpus / units * part / PART_MAX);
        if (!u->request.cpu_m.known || free_m < u->request.cpu_m.v)
            u->request.cpu_m = maybe_of(free_m);
        u->request.cpu_derived = true;
    }
    if (r.memory_mib.known && (!u->request.memory_mib.known || u->request.memory_derived)) {
        int64_t all = n->memory_bytes.v / MIB * MEMORY_PCT / 100;

        free_m = r.memory_mib.v - mib < all ? r.memory_mib.v - mib : all;
        free_m = free_m > r.memory_mib.v / 4 ? free_m : r.memory_mib.v / 4;
        free_m = memory_rounded(free_m * u->request.gpus / units * part / PART_MAX);
        if (!u->request.memory_mib.known || free_m < u->request.memory_mib.v)
            u->request.memory_mib = maybe_of(free_m);
        u->request.memory_derived = true;
    }
}

/* Of units whose groups have the number `which` in `of` (NULL: of all). */
static void asks_derive(struct feasible *f, const size_t *of, size_t which)
{
    for (size_t i = 0; i < f->unit_count; i++) {
        struct feasible_unit *u = &f->units[i];

        if (!is_pods(u->system) || !u->c || !u->c->gpus || !u->group_count ||
            (of && of[u->groups[0] - f->s->nodes] != which))
            continue;
        if (u->request.cpu_derived)
            u->request.cpu_m = maybe_none();
        if (u->request.memory_derived)
            u->request.memory_mib = maybe_none();
        for (size_t g = 0; g < u->group_count; g++)
            derive_on(f, u, u->groups[g]);
    }
}

/* ---- one question, as pod_pack.c takes it ---- */

/* What a fabric lets each machine of a group have: virtual functions of a NIC, devices. */
static int64_t fabric_room(const struct feasible *f, const struct spec_fabric *fb,
                           const struct spec_node *n)
{
    bool listed = false;

    for (size_t i = 0; i < f->s->node_count; i++)
        listed = listed || spec_group_on(&f->s->nodes[i], fb);
    if (!listed)
        return PACK_ROOM_MAX; /* no group says that it is on it: nobody knows */
    if (!spec_group_on(n, fb))
        return 0;
    if (fb->sriov)
        return spec_group_nics(n, fb).count * fb->sriov->vfs;
    return fb->kind == SPEC_FABRIC_EFA ? spec_group_nics(n, fb).count : RDMA_SHARED_MAX;
}

/* Functions or devices that a pod takes: of the group with the fewest NICs, on all of them. */
static int64_t fabric_need(const struct feasible_unit *u, const struct spec_fabric *fb)
{
    int64_t least = fb->nics_most;

    if (!fb->sriov && fb->kind != SPEC_FABRIC_EFA)
        return 1;
    for (size_t g = 0; g < u->group_count; g++) {
        int64_t count = spec_group_nics(u->groups[g], fb).count;

        least = count < least ? count : least;
    }
    return least > 0 ? least : 1;
}

void feasible_room_make(const struct feasible *f, enum feasible_system system,
                        const struct spec_node *n, int64_t *out)
{
    struct feasible_room r = feasible_room_of(f->s, n, system);

    out[DIM_CPU] = r.cpu_m.known ? r.cpu_m.v : PACK_ROOM_MAX;
    out[DIM_MEMORY] = r.memory_mib.known ? r.memory_mib.v : PACK_ROOM_MAX;
    out[DIM_GPUS] = r.gpus;
    if (system == FEASIBLE_KUBERNETES && feasible_shares(f->s, n, &f->opts))
        out[DIM_GPUS] *= feasible_shares(f->s, n, &f->opts);
    for (size_t i = 0; i < f->fabric_count; i++)
        out[DIM_FABRICS + i] = is_pods(system) ? fabric_room(f, f->fabrics[i], n) : PACK_ROOM_MAX;
}

void feasible_need_make(const struct feasible *f, const struct feasible_unit *u, int64_t *out)
{
    out[DIM_CPU] = maybe_or(u->request.cpu_m, 0);
    out[DIM_MEMORY] = maybe_or(u->request.memory_mib, 0);
    out[DIM_GPUS] = u->request.gpus;
    for (size_t i = 0; i < f->fabric_count; i++)
        for (size_t k = 0; u->c && k < u->c->fabrics.count; k++)
            if (str_eq(u->c->fabrics.items[k], f->fabrics[i]->name))
                out[DIM_FABRICS + i] = fabric_need(u, f->fabrics[i]);
}

/* Groups that share a unit must be judged together: they get one number. */
void feasible_clusters(const struct feasible *f, const bool *in, size_t *of)
{
    for (size_t i = 0; i < f->s->node_count; i++)
        of[i] = i;
    for (size_t i = 0; i < f->unit_count; i++) {
        const struct feasible_unit *u = &f->units[i];

        for (size_t g = 1; in[i] && g < u->group_count; g++) {
            size_t from = of[u->groups[g] - f->s->nodes], to = of[u->groups[0] - f->s->nodes];

            for (size_t k = 0; k < f->s->node_count; k++)
                of[k] = of[k] == from ? to : of[k];
        }
    }
}

static void places_keep(struct feasible *f, const struct question *q, const struct pack_runs *runs,
                        const size_t *node_of, const size_t *unit_of)
{
    for (size_t i = 0; i < runs->count; i++) {
        const struct pack_run *r = &runs->items[i];

        feasible_place_add(f,
                           (struct feasible_place){ .c = f->units[unit_of[r->pod_kind]].c,
                                                    .node = &f->s->nodes[node_of[r->machine_kind]],
                                                    .first = r->first,
                                                    .count = r->count,
                                                    .each = r->each,
                                                    .system = q->system });
    }
}

/* Pods a machine may have of a unit whose pods are apart: one, or as even as it goes where there
 * are more pods than machines (a spread constraint with maxSkew 1). */
int64_t feasible_most_of(const struct feasible_unit *u, int64_t pods)
{
    int64_t machines = 0;

    for (size_t g = 0; g < u->group_count; g++)
        machines += u->groups[g]->count;
    if (u->system == FEASIBLE_SLURM || pods <= machines || !machines)
        return 1;
    return (pods + machines - 1) / machines;
}

static enum pack_answer cluster_solve(struct feasible *f, struct arena *a, const struct question *q,
                                      const size_t *of, size_t which)
{
    const struct spec *s = f->s;
    size_t dims = DIM_FABRICS + f->fabric_count, nodes = 0, units = 0;
    size_t *node_of = arena_array(a, size_t, s->node_count + 1);
    size_t *unit_of = arena_array(a, size_t, f->unit_count + 1);
    struct pack_machines *machines = arena_array(a, struct pack_machines, s->node_count + 1);
    struct pack_pods *pods = arena_array(a, struct pack_pods, f->unit_count + 1);
    struct pack_runs runs = { 0 };
    enum pack_answer answer;

    for (size_t i = 0; i < s->node_count; i++) {
        int64_t *room;

        if (of[i] != which)
            continue;
        room = arena_array(a, int64_t, dims);
        feasible_room_make(f, q->system, &s->nodes[i], room);
        if (q->free_dim >= 0)
            room[q->free_dim] = PACK_ROOM_MAX;
        node_of[nodes] = i;
        machines[nodes++] = (struct pack_machines){ s->nodes[i].count, room };
    }
    for (size_t i = 0; i < f->unit_count; i++) {
        const struct feasible_unit *u = &f->units[i];
        int64_t *need;
        bool *may;

        if (!q->in[i] || !u->group_count || of[u->groups[0] - s->nodes] != which)
            continue;
        need = arena_array(a, int64_t, dims);
        may = arena_array(a, bool, nodes + 1);
        feasible_need_make(f, u, need);
        for (size_t g = 0; g < u->group_count; g++)
            for (size_t k = 0; k < nodes; k++)
                may[k] = may[k] || &s->nodes[node_of[k]] == u->groups[g];
        unit_of[units] = i;
        pods[units] = (struct pack_pods){ i == q->changed ? q->pods : u->pods, need, 0, may };
        if (u->apart && !q->free_apart)
            pods[units].most = feasible_most_of(u, pods[units].count);
        units++;
    }
    answer =
        pack_solve(a,
                   &(struct pack){
                       .dims = dims,
                       .machine_kinds = nodes,
                       .pod_kinds = units,
                       .machines = machines,
                       .pods = pods,
                       .steps_max = q->changed == SIZE_MAX && q->free_dim < 0 ? 0 : CULPRIT_STEPS },
                   q->keep ? &runs : NULL);
    if (answer == PACK_FITS && q->keep)
        places_keep(f, q, &runs, node_of, unit_of);
    return answer;
}

static enum pack_answer question_solve(struct feasible *f, const struct question *q)
{
    struct arena a = { 0 };
    enum pack_answer all = PACK_FITS;
    size_t *of = arena_array(&a, size_t, f->s->node_count + 1), only = q->only;
    bool *used = arena_array(&a, bool, f->s->node_count + 1);

    feasible_clusters(f, q->in, of);
    for (size_t k = 0; k < f->unit_count; k++)
        if (q->in[k] && f->units[k].group_count)
            used[of[f->units[k].groups[0] - f->s->nodes]] = true;
    if (q->changed != SIZE_MAX && f->units[q->changed].group_count)
        only = of[f->units[q->changed].groups[0] - f->s->nodes]; /* the others do not change */
    for (size_t i = 0; i < f->s->node_count && all != PACK_NO; i++)
        if (used[i] && (only == SIZE_MAX || only == i)) {
            enum pack_answer one = cluster_solve(f, &a, q, of, i);

            all = one == PACK_FITS ? all : one;
        }
    arena_release(&a);
    return all;
}

/* ---- the questions ---- */

/* The dimension in which no machine that it may be on has enough for one pod; -1: there is one. */
static int pod_short(struct feasible *f, const struct feasible_unit *u,
                     const struct spec_node **out)
{
    size_t dims = DIM_FABRICS + f->fabric_count;
    struct arena a = { 0 };
    int64_t *need = arena_array(&a, int64_t, dims), *room = arena_array(&a, int64_t, dims);
    int dim = -1;

    feasible_need_make(f, u, need);
    for (size_t g = 0; g < u->group_count; g++) {
        int here = -1;

        feasible_room_make(f, u->system, u->groups[g], room);
        for (size_t d = 0; d < dims; d++) /* GPUs are told first: what is derived follows them */
            if (need[d] > room[d] && (here < 0 || d == DIM_GPUS))
                here = (int)d;
        if (here < 0) {
            dim = -1;
            break;
        }
        if (dim < 0) {
            dim = here;
            *out = u->groups[g];
        }
    }
    arena_release(&a);
    return dim;
}

static enum pack_answer solve_with(struct feasible *f, bool *in, size_t changed, int64_t pods,
                                   int free_dim, bool free_apart)
{
    return question_solve(f, &(struct question){ .system = f->units[changed].system,
                                                 .in = in,
                                                 .changed = changed,
                                                 .pods = pods,
                                                 .only = SIZE_MAX,
                                                 .free_dim = free_dim,
                                                 .free_apart = free_apart });
}

/* What must be had for unit `i` to fit among `in`: the first dimension without which it does;
 * machines (DIM_FABRICS + fabrics) where its pods are apart and that is why. */
static int dim_short(struct feasible *f, bool *in, size_t i)
{
    static const int order[] = { DIM_GPUS, DIM_CPU, DIM_MEMORY };
    const struct feasible_unit *u = &f->units[i];
    int dims = DIM_FABRICS + (int)f->fabric_count;

    for (size_t k = 0; k < 3; k++)
        if (solve_with(f, in, i, u->pods, order[k], false) != PACK_NO)
            return order[k];
    for (int d = DIM_FABRICS; d < dims; d++)
        if (solve_with(f, in, i, u->pods, d, false) != PACK_NO)
            return d;
    if (u->apart && solve_with(f, in, i, u->pods, -1, true) != PACK_NO)
        return dims;
    return u->request.gpus ? DIM_GPUS : DIM_CPU;
}

/* The most pods of unit `i` that fit among `in`. */
static int64_t pods_found(struct feasible *f, bool *in, size_t i)
{
    int64_t low = 0, high = f->units[i].pods; /* low fits, high does not */

    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;

        if (solve_with(f, in, i, mid, -1, false) == PACK_NO)
            high = mid;
        else
            low = mid;
    }
    return low;
}

static void tell_growth(struct feasible *f, const struct feasible_unit *u)
{
    feasible_tell(f, false, &u->c->scale->max, "Give it fewer replicas, or a larger node group.",
                  "component '%s' may grow to %lld replicas, and '%s' has no room for so many",
                  u->c->name, (long long)u->c->scale->max, u->groups[0]->name);
}

static void check_alone(struct feasible *f, bool *in, size_t i)
{
    struct feasible_unit *u = &f->units[i];
    const struct spec_scale *scale = u->c ? u->c->scale : NULL;
    const struct spec_node *n = NULL;
    int dim = pod_short(f, u, &n);

    u->lost = true;
    if (dim >= 0) {
        feasible_tell_pod(f, u, n, dim);
        return;
    }
    if (is_pods(u->system) && u->c && feasible_spans_too_many(f, u))
        return;
    in[i] = true;
    if (solve_with(f, in, i, u->pods, -1, false) == PACK_NO)
        feasible_tell_pods(f, u, dim_short(f, in, i), pods_found(f, in, i), NULL);
    else if (scale && is_pods(u->system) && u->request.gpus &&
             solve_with(f, in, i, scale->max * u->c->nodes_per_replica, -1, false) == PACK_NO)
        tell_growth(f, u);
    else
        u->lost = false;
    in[i] = false;
}

/* Names of those that share machines with unit `i`, "'a', 'b' and 2 more". */
static const char *beside_text(struct feasible *f, const bool *in, size_t i)
{
    struct buf b = { 0 };
    const char *out;
    size_t more = 0, named = 0;

    for (size_t k = 0; k < f->unit_count; k++) {
        const struct feasible_unit *u = &f->units[k];
        bool near = false;

        for (size_t g = 0; in[k] && k != i && g < u->group_count; g++)
            for (size_t h = 0; h < f->units[i].group_count; h++)
                near = near || u->groups[g] == f->units[i].groups[h];
        if (!near)
            continue;
        if (named == 3) {
            more++;
            continue;
        }
        buf_addf(&b, "%s'%s'", named ? ", " : "", u->c ? u->c->name : "stoker serve");
        named++;
    }
    if (more)
        buf_addf(&b, " and %zu more", more);
    out = arena_strdup(&f->a, named ? buf_str(&b) : "the daemons of the machines");
    buf_release(&b);
    return out;
}

/* One after the other in the order of the spec: who does not fit beside those before it is refused
 * and left out. */
static void culprits_find(struct feasible *f, enum feasible_system system, bool *in)
{
    memset(in, 0, f->unit_count * sizeof(*in));
    for (size_t i = 0; i < f->unit_count && f->fault_count < FEASIBLE_FAULTS_MAX; i++) {
        struct feasible_unit *u = &f->units[i];

        if (u->system != system || u->lost || u->queued)
            continue;
        in[i] = true;
        if (solve_with(f, in, i, u->pods, -1, false) != PACK_NO)
            continue;
        feasible_tell_pods(f, u, dim_short(f, in, i), pods_found(f, in, i), beside_text(f, in, i));
        u->lost = true;
        in[i] = false;
    }
}

static void in_always(const struct feasible *f, enum feasible_system system, bool *in)
{
    for (size_t i = 0; i < f->unit_count; i++)
        in[i] = f->units[i].system == system && !f->units[i].lost && !f->units[i].queued;
}

static struct question question_together(enum feasible_system system, const bool *in)
{
    return (struct question){
        .system = system, .in = in, .changed = SIZE_MAX, .only = SIZE_MAX, .free_dim = -1
    };
}

/* Derived asks of a cluster of groups as large as they can be while all that is always there
 * fits. */
static enum pack_answer part_choose(struct feasible *f, struct question *q, const size_t *of)
{
    static const int parts[] = { PART_MAX, 6, 4, 3, 2, 1, PART_MAX };
    enum pack_answer answer = PACK_NO;

    for (size_t k = 0; k < ARRAY_SIZE(parts); k++) { /* the last: nothing helps */
        for (size_t i = 0; i < f->s->node_count; i++)
            f->part[i] = of[i] == q->only ? parts[k] : f->part[i];
        asks_derive(f, of, q->only);
        if (k + 1 < ARRAY_SIZE(parts))
            answer = question_solve(f, q);
        if (answer != PACK_NO)
            break;
    }
    return answer;
}

static enum pack_answer parts_choose(struct feasible *f, enum feasible_system system, bool *in)
{
    struct question q = question_together(system, in);
    size_t *of = arena_array(&f->a, size_t, f->s->node_count + 1);
    enum pack_answer all = PACK_FITS;

    in_always(f, system, in);
    feasible_clusters(f, in, of);
    for (q.only = 0; q.only < f->s->node_count; q.only++) {
        enum pack_answer one = of[q.only] == q.only ? part_choose(f, &q, of) : PACK_FITS;

        all = all == PACK_NO || one == PACK_FITS ? all : one;
    }
    return all;
}

static void check_queued(struct feasible *f, enum feasible_system system, bool *in)
{
    in_always(f, system, in);
    for (size_t i = 0; i < f->unit_count; i++) {
        struct feasible_unit *u = &f->units[i];

        if (u->system != system || u->lost || !u->queued)
            continue;
        in[i] = true;
        if (solve_with(f, in, i, u->pods, -1, false) == PACK_NO)
            feasible_tell(f, true, feasible_member(f, u, dim_short(f, in, i)),
                          "It runs when they are scaled down or gone.",
                          "queued component '%s' finds no room beside %s", u->c->name,
                          beside_text(f, in, i));
        in[i] = false;
    }
}

static void check_pods(struct feasible *f, enum feasible_system system)
{
    bool *in = arena_array(&f->a, bool, f->unit_count + 1);
    struct question q = question_together(system, in);
    size_t mine = 0;

    asks_derive(f, NULL, 0);
    for (size_t i = 0; i < f->unit_count; i++)
        if (f->units[i].system == system && !f->units[i].lost) {
            check_alone(f, in, i);
            mine++;
        }
    if (!mine)
        return;
    switch (parts_choose(f, system, in)) {
    case PACK_NO:
        culprits_find(f, system, in);
        return;
    case PACK_UNKNOWN:
        feasible_tell(f, true, &f->s->components, NULL,
                      "whether all components fit on the machines could not be decided in %d steps",
                      PACK_STEPS_MAX);
        return;
    case PACK_FITS:
        q.keep = true;
        (void)question_solve(f, &q);
        feasible_arrivals(f, system, in);
        check_queued(f, system, in);
        if (system == FEASIBLE_KUBERNETES)
            feasible_spares(f, system);
    }
}

/* GPUs of a machine for the system: instances of MIG where it can name them. */
static int64_t machine_gpus(const struct spec_node *n, enum feasible_system system)
{
    return system == FEASIBLE_HOST ? n->gpus_per_node : feasible_gpus(n);
}

static bool grows_too_large(const struct feasible_unit *u)
{
    return u->c->scale && u->group_count && u->request.gpus &&
           u->c->scale->max * u->c->nodes_per_replica >
               u->groups[0]->count * (machine_gpus(u->groups[0], u->system) / u->request.gpus);
}

/* Jobs of Slurm one by one; of what runs on a machine without a scheduler one pod each, which
 * may not be larger than the machine (what they may use together is no reservation). */
static void check_others(struct feasible *f)
{
    bool *in = arena_array(&f->a, bool, f->unit_count + 1);

    for (size_t i = 0; i < f->unit_count; i++) {
        struct feasible_unit *u = &f->units[i];
        const struct spec_node *n;
        int dim;

        if (u->system == FEASIBLE_SLURM)
            check_alone(f, in, i);
        dim = u->system == FEASIBLE_HOST ? pod_short(f, u, &n) : -1;
        if (dim >= 0) {
            feasible_tell_pod(f, u, n, dim);
            u->lost = true;
        } else if (!is_pods(u->system) && !u->lost && grows_too_large(u)) {
            tell_growth(f, u);
            u->lost = true;
        }
    }
}

/* GPUs that several systems hold for good on the same machines: each has room by itself. */
static void check_systems(struct feasible *f)
{
    int64_t *taken = arena_array(&f->a, int64_t, f->s->node_count + 1);

    for (size_t i = 0; i < f->unit_count; i++) {
        const struct feasible_unit *u = &f->units[i];
        const struct spec_node *n = u->group_count == 1 ? u->groups[0] : NULL;
        int64_t want = u->c ? u->c->gpus * u->pods : 0, have, *t;

        if (!n || !want || u->queued || u->lost || u->again)
            continue;
        t = &taken[n - f->s->nodes];
        have = n->count * feasible_gpus(n);
        if (*t <= have && *t + want > have && !feasible_shares(f->s, n, &f->opts))
            feasible_tell(f, false, &u->c->gpus, "'queued: true' leaves it to a scheduler's queue.",
                          "components ask for %lld GPUs of '%s', which has %lld",
                          (long long)*t + (long long)want, n->name, (long long)have);
        *t += want;
    }
}

/* Is an instance of MIG the same resource as a GPU? */
static bool mig_single(const struct spec *s, enum feasible_system system)
{
    if (system == FEASIBLE_OPENSHIFT)
        return s->targets.openshift && s->targets.openshift->mig_strategy == SPEC_MIG_SINGLE;
    return s->targets.kubernetes && s->targets.kubernetes->mig_strategy == SPEC_MIG_SINGLE;
}

/* A pod asks for one resource: whole GPUs, or MIG instances of one profile. */
static void check_kinds(struct feasible *f)
{
    for (size_t i = 0; i < f->unit_count; i++) {
        struct feasible_unit *u = &f->units[i];
        const char *first = u->group_count ? mig_profile(u->groups[0]) : NULL;

        for (size_t g = 1; u->c && u->request.gpus && is_pods(u->system) && g < u->group_count; g++)
            if (!mig_single(f->s, u->system) && !str_eq(mig_profile(u->groups[g]), first)) {
                feasible_tell(
                    f, false, &u->c->groups,
                    "Make a component for each kind, or set 'mig_strategy: single' where a pod "
                    "may have either.",
                    "component '%s' asks for GPUs of '%s' and of '%s', which are not "
                    "cut alike",
                    u->c->name, u->groups[0]->name, u->groups[g]->name);
                u->lost = true;
                break;
            }
    }
}

/* ---- the whole ---- */

struct feasible *feasible_new(const struct spec *s, const struct feasible_opts *opts)
{
    struct feasible *f = xcalloc(1, sizeof(*f));

    f->s = s;
    if (opts)
        f->opts = *opts;
    units_make(f);
    check_kinds(f);
    check_pods(f, FEASIBLE_KUBERNETES);
    check_pods(f, FEASIBLE_OPENSHIFT);
    check_others(f);
    feasible_hosts(f);
    if (!f->fault_count)
        check_systems(f);
    return f;
}

enum rc feasible_check(const struct spec *s, const struct feasible_opts *opts,
                       struct spec_diags *diags, struct err *err)
{
    struct feasible *f = feasible_new(s, opts);
    enum rc rc = RC_OK;

    for (size_t i = 0; i < f->fault_count; i++) {
        const struct feasible_fault *t = &f->faults[i];
        struct spec_pos pos = spec_where(s, t->member);

        if (t->warning) {
            spec_diag_warn_at(diags, s, t->member, t->hint, "%s", t->msg);
            continue;
        }
        spec_diag_at(diags, s, t->member, t->hint, "%s", t->msg);
        if (rc == RC_OK)
            rc = err_set(err, RC_PARSE, "%s:%d:%d: %s", spec_file(s), pos.line, pos.col, t->msg);
    }
    feasible_free(f);
    return rc;
}

void feasible_free(struct feasible *f)
{
    if (!f)
        return;
    arena_release(&f->a);
    free(f->places);
    free(f);
}

size_t feasible_fault_count(const struct feasible *f)
{
    return f->fault_count;
}

const struct feasible_fault *feasible_fault_at(const struct feasible *f, size_t i)
{
    return &f->faults[i];
}

size_t feasible_place_count(const struct feasible *f)
{
    return f->place_count;
}

const struct feasible_place *feasible_place_at(const struct feasible *f, size_t i)
{
    return &f->places[i];
}

void feasible_place_add(struct feasible *f, struct feasible_place p)
{
    if (f->place_count == f->place_cap) {
        f->place_cap = f->place_cap ? 2 * f->place_cap : 64;
        f->places = xreallocarray(f->places, f->place_cap, sizeof(*f->places));
    }
    f->places[f->place_count++] = p;
}

struct feasible_request feasible_request_of(const struct feasible *f,
                                            const struct spec_component *c)
{
    size_t i = f->unit_of[c - f->s->components];

    return i == SIZE_MAX ? request_given(c) : f->units[i].request;
}

bool feasible_fills(const struct feasible *f, const struct spec_component *c)
{
    size_t i = f->unit_of[c - f->s->components];

    return i != SIZE_MAX && f->units[i].fills;
}

bool feasible_spare(const struct feasible *f, const struct spec_component *c)
{
    for (size_t i = 0; i < f->unit_count; i++)
        if (f->units[i].c == c && f->units[i].system == FEASIBLE_KUBERNETES)
            return f->units[i].spare;
    return false;
}
