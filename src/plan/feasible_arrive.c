/* SPDX-License-Identifier: MIT */
/* feasible_arrive: pods one by one, as Kubernetes' scheduler takes them.
 *
 * That a packing exists does not mean that it is found: the scheduler gives each pod the machine
 * with the best score, never moves one, and prefers machines with much left.  A few orders of
 * arrival are played through with its main scores (least allocated; even spread of a component;
 * machines that others fill), those of higher priority first.  An order that leaves a pod without
 * a machine is a warning, not a refusal: another order may do. */
#include "plan/feasible_int.h"

#include <string.h>

enum {
    ARRIVE_STEPS_MAX = 1000000, /* pods times machines that are looked at */
    ARRIVE_ORDERS = 3,          /* as written, from the end, in turn */
};

struct spot { /* a machine */
    const struct spec_node *node;
    const int64_t *room;
    int64_t *left, *pods; /* by dimension; by unit */
    int64_t filling;      /* pods of units that fill machines */
};

struct arrival {
    struct feasible *f;
    size_t dims, spot_count;
    struct spot *spots;
    int64_t **need; /* of each unit */
};

static bool spot_takes(const struct arrival *a, const struct spot *s, size_t i)
{
    const struct unit *u = &a->f->units[i];
    bool ours = false;

    for (size_t g = 0; g < u->group_count; g++)
        ours = ours || u->groups[g] == s->node;
    for (size_t d = 0; ours && d < a->dims; d++)
        ours = a->need[i][d] <= s->left[d];
    return ours && (!u->apart || s->pods[i] < feasible_most_of(u, u->pods));
}

static double spot_score(const struct arrival *a, const struct spot *s, size_t i)
{
    const struct unit *u = &a->f->units[i];
    double score = 0;

    for (size_t d = DIM_CPU; d <= DIM_MEMORY; d++)
        if (s->room[d] > 0 && s->room[d] < PACK_ROOM_MAX)
            score += 50.0 * (double)(s->left[d] - a->need[i][d]) / (double)s->room[d];
    if (u->fills)
        return score + (s->filling ? 200 : 0);
    return score - 200.0 * (double)s->pods[i] / (double)(u->pods ? u->pods : 1);
}

static bool pod_arrives(struct arrival *a, size_t i)
{
    struct spot *best = NULL;
    double score = 0;

    for (size_t k = 0; k < a->spot_count; k++) {
        struct spot *s = &a->spots[k];

        if (!spot_takes(a, s, i) || (best && spot_score(a, s, i) <= score))
            continue;
        best = s;
        score = spot_score(a, s, i);
    }
    if (!best)
        return false;
    for (size_t d = 0; d < a->dims; d++)
        best->left[d] -= a->need[i][d];
    best->pods[i]++;
    best->filling += a->f->units[i].fills;
    return true;
}

static enum spec_priority priority_of(const struct unit *u)
{
    return u->c ? u->c->priority : SPEC_PRIORITY_MEDIUM;
}

/* The units of one priority in one order; the one that is left out, SIZE_MAX: none. */
static size_t units_arrive(struct arrival *a, const bool *in, enum spec_priority p, int order)
{
    size_t count = a->f->unit_count;
    bool more = true;

    for (int64_t turn = 0; more; turn++) {
        more = false;
        for (size_t k = 0; k < count; k++) {
            size_t i = order == 1 ? count - 1 - k : k;
            const struct unit *u = &a->f->units[i];

            if (!in[i] || priority_of(u) != p)
                continue;
            for (int64_t n = order == 2 ? turn : 0; n < u->pods && (order != 2 || n == turn); n++)
                if (!pod_arrives(a, i))
                    return i;
            more = more || (order == 2 && turn + 1 < u->pods);
        }
    }
    return SIZE_MAX;
}

static size_t order_play(struct arrival *a, const bool *in, int order)
{
    size_t out = SIZE_MAX;

    for (size_t k = 0; k < a->spot_count; k++) {
        memcpy(a->spots[k].left, a->spots[k].room, a->dims * sizeof(int64_t));
        memset(a->spots[k].pods, 0, a->f->unit_count * sizeof(int64_t));
        a->spots[k].filling = 0;
    }
    for (int p = SPEC_PRIORITY_HIGH; p >= 0 && out == SIZE_MAX; p--)
        out = units_arrive(a, in, (enum spec_priority)p, order);
    return out;
}

static void spots_make(struct arrival *a, struct arena *mem, enum feasible_system system,
                       int64_t machines)
{
    const struct spec *s = a->f->s;

    a->spots = arena_array(mem, struct spot, (size_t)machines + 1);
    for (size_t i = 0; i < s->node_count; i++) {
        int64_t *room = arena_array(mem, int64_t, a->dims);

        feasible_room_make(a->f, system, &s->nodes[i], room);
        for (int64_t k = 0; k < s->nodes[i].count; k++)
            a->spots[a->spot_count++] =
                (struct spot){ .node = &s->nodes[i],
                               .room = room,
                               .left = arena_array(mem, int64_t, a->dims),
                               .pods = arena_array(mem, int64_t, a->f->unit_count + 1) };
    }
}

void feasible_arrivals(struct feasible *f, enum feasible_system system, const bool *in)
{
    struct arena mem = { 0 };
    struct arrival a = { .f = f, .dims = DIM_FABRICS + f->fabric_count };
    int64_t machines = 0, pods = 0;
    bool *told;

    for (size_t i = 0; i < f->s->node_count; i++)
        machines += f->s->nodes[i].count;
    for (size_t i = 0; i < f->unit_count; i++)
        pods += in[i] ? f->units[i].pods : 0;
    if (!pods || machines > ARRIVE_STEPS_MAX / pods ||
        machines * (int64_t)f->unit_count > ARRIVE_STEPS_MAX)
        return;
    spots_make(&a, &mem, system, machines);
    told = arena_array(&mem, bool, f->unit_count + 1);
    a.need = arena_array(&mem, int64_t *, f->unit_count + 1);
    for (size_t i = 0; i < f->unit_count; i++) {
        a.need[i] = arena_array(&mem, int64_t, a.dims);
        feasible_need_make(f, &f->units[i], a.need[i]);
    }
    for (int order = 0; order < ARRIVE_ORDERS; order++) {
        size_t out = order_play(&a, in, order);

        if (out != SIZE_MAX && f->units[out].c && !told[out])
            feasible_tell(f, true, &f->units[out].c->name,
                          "Set its 'priority' higher, or give it a group of its own.",
                          "all pods fit, but the scheduler, which spreads them as they come, may "
                          "leave one of '%s' without a machine",
                          f->units[out].c->name);
        if (out != SIZE_MAX)
            told[out] = true;
    }
    arena_release(&mem);
}
