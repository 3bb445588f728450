/* SPDX-License-Identifier: MIT */
/* feasible_spare: is there room for one pod more, wherever the scheduler has put the others?
 *
 * That all pods and one more can be packed says little: those that run do not move, and a rolling
 * update whose new pod finds no machine hangs.  So the others are an adversary's.  A machine is
 * shut to a pod of unit u when in some dimension what is there exceeds room - need(u).  A pod of
 * unit k does at most the part
 *
 *     w = max over dimensions of need(k) / (room - need(u) + 1)
 *
 * of shutting one, in whole units, and the parts on a shut machine add up to 1 or more.  All pods
 * of k together hence shut at most min(pods * w, machines that k and u may both be on); where the
 * sum over all k is below the number of u's machines, one is open.  Proven for every arrangement;
 * the reverse does not hold, since parts of several dimensions are taken for one. */
#include "plan/feasible/feasible_int.h"

struct opening { /* what unit `u` meets */
    struct feasible *f;
    const struct feasible_unit *u;
    size_t dims;
    int64_t *need, *other, *room; /* by dimension */
};

static int64_t pods_grown(const struct feasible_unit *u)
{
    int64_t most = u->c && u->c->scale ? u->c->scale->max * u->c->nodes_per_replica : 0;

    return most > u->pods ? most : u->pods;
}

static bool group_opens(struct opening *o, const struct spec_node *n)
{
    feasible_room_make(o->f, o->u->system, n, o->room);
    for (size_t d = 0; d < o->dims; d++)
        if (o->need[d] > o->room[d])
            return false;
    return true;
}

/* The part of a machine of the group in o->room that one pod of `k` shuts. */
static double pod_shuts(const struct opening *o, const struct feasible_unit *k)
{
    double part = 0;

    for (size_t d = 0; d < o->dims; d++) {
        double here = (double)o->other[d] / (double)(o->room[d] - o->need[d] + 1);

        part = here > part ? here : part;
    }
    if (k == o->u && k->apart) {
        double own = 1.0 / (double)feasible_most_of(k, pods_grown(k));

        part = own > part ? own : part;
    }
    return part < 1 ? part : 1;
}

/* Machines of o->u that all pods of `k` can shut, at most. */
static double unit_shuts(struct opening *o, const struct feasible_unit *k)
{
    double most = 0;
    int64_t both = 0;

    feasible_need_make(o->f, k, o->other);
    for (size_t g = 0; g < k->group_count; g++)
        for (size_t h = 0; h < o->u->group_count; h++) {
            double part;

            if (k->groups[g] != o->u->groups[h] || !group_opens(o, o->u->groups[h]))
                continue;
            part = pod_shuts(o, k);
            most = part > most ? part : most;
            both += k->groups[g]->count;
        }
    most *= (double)pods_grown(k);
    return most < (double)both ? most : (double)both;
}

static bool unit_spare(struct feasible *f, const struct feasible_unit *u)
{
    struct arena a = { 0 };
    size_t dims = DIM_FABRICS + f->fabric_count;
    struct opening o = { .f = f,
                         .u = u,
                         .dims = dims,
                         .need = arena_array(&a, int64_t, dims),
                         .other = arena_array(&a, int64_t, dims),
                         .room = arena_array(&a, int64_t, dims) };
    int64_t machines = 0;
    double shut = 0;

    feasible_need_make(f, u, o.need);
    for (size_t g = 0; g < u->group_count; g++)
        machines += group_opens(&o, u->groups[g]) ? u->groups[g]->count : 0;
    for (size_t k = 0; k < f->unit_count; k++)
        if (f->units[k].system == u->system && !f->units[k].lost)
            shut += unit_shuts(&o, &f->units[k]);
    arena_release(&a);
    return shut < (double)machines - 1e-9; /* rounding is no room */
}

void feasible_spares(struct feasible *f, enum feasible_system system)
{
    for (size_t i = 0; i < f->unit_count; i++)
        if (f->units[i].system == system && !f->units[i].lost && !f->units[i].queued)
            f->units[i].spare = unit_spare(f, &f->units[i]);
}
