/* SPDX-License-Identifier: MIT */
/* feasible_arrive: pods one by one, as Kubernetes' scheduler takes them.
 *
 * That a packing exists does not mean that it is found: the scheduler gives each pod the machine
 * with the best score and never moves one.  Orders of arrival are played through with its scores
 * (NodeResourcesFit, NodeResourcesBalancedAllocation, PodTopologySpread, InterPodAffinity, with
 * their default weights, in whole numbers as there) and with preemption.  Pods come roughly in the
 * order in which `kubectl apply -k` creates their owners, and are placed as they come: whoever has
 * a higher priority and comes later finds machines taken, and may push others aside.
 *
 * Both the order and ties between machines are drawn at random, as the scheduler breaks them; the
 * seed is fixed, so that a spec has one answer.  Orders that no `apply` makes (the last component
 * first, all at once by priority) are not played: the scheduler never bore out what they warn of.
 *
 * A pod that is left without a machine is a warning, not a refusal: another order may do. */
#include "plan/campaign.h"
#include "plan/campaign/campaign_int.h"
#include "plan/feasible/feasible_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ARRIVE_STEPS_MAX =
        1000000,         /* pods times machines looked at over all orders; as many for victims */
    ARRIVE_ORDERS = 200, /* as long as steps are left */
    ARRIVE_SEED = 26,
    ARRIVE_WORKERS = 5, /* Deployments that their controller takes at a time */
    ARRIVE_BLUR = 4,
    ARRIVE_NAMES = 4,  /* of those that other orders leave out, in the warning */
    SCORE_MAX = 100,   /* MaxNodeScore of the scheduler */
    SPREAD_WEIGHT = 2, /* PodTopologySpread and InterPodAffinity by default; the others 1 */
    CHANGE_MINOR = 36, /* of Kubernetes, from which on the change of the balance is scored */
    SHIFT_MINOR = 13,  /* OpenShift 4.N is Kubernetes 1.(N + 13) */
};

struct spot { /* a machine */
    const struct spec_node *node;
    const int64_t *room;
    const int64_t *daemons; /* CPU and memory of pods that it has beside ours */
    int64_t *left, *pods;   /* by dimension; by unit */
    int64_t filling;        /* pods of units that fill machines */
    int64_t crowd;          /* the pod's raw score of spreading; -1: it does not fit here */
};

struct arrival {
    struct feasible *f;
    const bool *in;
    size_t dims, spot_count;
    struct spot *spots;
    int64_t **need; /* of each unit */
    int64_t *left;  /* by dimension: of a machine, were pods taken from it */
    int64_t *kept;  /* by unit: pods that stay on that machine */
    size_t *queue;  /* the unit of each pod, in order of arrival; victims come behind */
    size_t queued, queue_cap;
    double *rank;  /* of each unit, as created */
    bool *out;     /* units of which a pod found no machine in this order */
    bool change;   /* a pod's change of the balance is scored, not the balance */
    int blur;      /* scores that are nearer than this are equal */
    size_t raised; /* a unit that is to have the highest priority; SIZE_MAX: none */
    int64_t steps; /* of looking for pods that give way, over all orders */
    struct plan_rng rng;
};

/* The minor version of Kubernetes: 1.N, or OpenShift's 4.(N - 13). */
static long kube_minor(const struct spec *s, enum feasible_system system)
{
    bool shift = system == FEASIBLE_OPENSHIFT;
    const char *version = shift ? (s->targets.openshift ? s->targets.openshift->version : NULL)
                                : (s->targets.kubernetes ? s->targets.kubernetes->version : NULL);
    const char *dot = version ? strchr(version, '.') : NULL;

    return dot ? strtol(dot + 1, NULL, 10) + (shift ? SHIFT_MINOR : 0) : 0;
}

/* All pods have one priority class, whatever the components say. */
static bool one_class(const struct spec *s)
{
    return s->targets.kubernetes && s->targets.kubernetes->priority_class;
}

static int priority_of(const struct arrival *a, size_t i)
{
    const struct feasible_unit *u = &a->f->units[i];

    if (i == a->raised)
        return SPEC_PRIORITY_HIGH;
    if (!u->c)
        return -1; /* `stoker serve`: no class, below all that have one */
    return one_class(a->f->s) ? SPEC_PRIORITY_MEDIUM : (int)u->c->priority;
}

static bool spot_is_of(const struct spot *s, const struct feasible_unit *u)
{
    for (size_t g = 0; g < u->group_count; g++)
        if (u->groups[g] == s->node)
            return true;
    return false;
}

static bool need_fits(const struct arrival *a, size_t i, const int64_t *left)
{
    for (size_t d = 0; d < a->dims; d++)
        if (a->need[i][d] > left[d])
            return false;
    return true;
}

static bool spot_takes(const struct arrival *a, const struct spot *s, size_t i)
{
    const struct feasible_unit *u = &a->f->units[i];

    return spot_is_of(s, u) && need_fits(a, i, s->left) &&
           (!u->apart || s->pods[i] < feasible_most_of(u, u->pods));
}

/* ---- scores ---- */

/* How alike CPU and memory are taken; of all of them `rest[d]` is left. */
static int64_t balance_of(const struct spot *s, const int64_t *rest)
{
    double used[2] = { 0 };

    for (size_t d = DIM_CPU; d <= DIM_MEMORY; d++)
        if (s->room[d] < PACK_ROOM_MAX && s->room[d] + s->daemons[d] > 0)
            used[d] = 1 - (double)rest[d] / (double)(s->room[d] + s->daemons[d]);
    return (int64_t)((1 - fabs(used[DIM_CPU] - used[DIM_MEMORY]) / 2) * (double)SCORE_MAX);
}

/* NodeResourcesFit (least allocated) and NodeResourcesBalancedAllocation, over CPU and memory; the
 * latter scores the change from 1.36 on. */
static int64_t resources_score(const struct arrival *a, const struct spot *s, size_t i)
{
    int64_t rest[2], least = 0, balance;

    for (size_t d = DIM_CPU; d <= DIM_MEMORY; d++) {
        int64_t all = s->room[d] + s->daemons[d];

        rest[d] = s->left[d] - a->need[i][d];
        least += s->room[d] >= PACK_ROOM_MAX || all <= 0 ? SCORE_MAX : rest[d] * SCORE_MAX / all;
    }
    balance = balance_of(s, rest);
    if (a->change)
        balance = SCORE_MAX / 2 + (SCORE_MAX / 2 + balance - balance_of(s, s->left)) / 2;
    return least / 2 + balance;
}

/* Are its pods of a job, which ends? */
static bool is_job(const struct feasible_unit *u)
{
    return u->c && (u->c->kind == SPEC_COMPONENT_TRAINING || u->c->kind == SPEC_COMPONENT_BATCH);
}

/* PodTopologySpread over machines: raw, before it is normalized. */
static int64_t crowd_of(const struct feasible_unit *u, int64_t here, size_t open)
{
    if (u->apart)
        return 0;
    return lround((double)here * log((double)open + 2)) + (u->fills ? FEASIBLE_FILL_SKEW - 1 : 0);
}

struct span { /* over machines that can take the pod */
    int64_t crowd_low, crowd_high, fill_low, fill_high;
};

static struct span spots_look(struct arrival *a, size_t i, size_t *open)
{
    const struct feasible_unit *u = &a->f->units[i];
    struct span w = { INT64_MAX, 0, INT64_MAX, 0 };

    *open = 0;
    for (size_t k = 0; k < a->spot_count; k++) {
        a->spots[k].crowd = spot_takes(a, &a->spots[k], i) ? 0 : -1;
        *open += a->spots[k].crowd == 0;
    }
    for (size_t k = 0; k < a->spot_count; k++) {
        struct spot *s = &a->spots[k];

        if (s->crowd < 0)
            continue;
        s->crowd = crowd_of(u, s->pods[i], *open);
        w.crowd_low = s->crowd < w.crowd_low ? s->crowd : w.crowd_low;
        w.crowd_high = s->crowd > w.crowd_high ? s->crowd : w.crowd_high;
        w.fill_low = s->filling < w.fill_low ? s->filling : w.fill_low;
        w.fill_high = s->filling > w.fill_high ? s->filling : w.fill_high;
    }
    return w;
}

static int64_t spot_score(const struct arrival *a, const struct spot *s, size_t i, struct span w)
{
    int64_t score = resources_score(a, s, i);

    if (w.crowd_high)
        score +=
            SPREAD_WEIGHT * (SCORE_MAX * (w.crowd_high + w.crowd_low - s->crowd) / w.crowd_high);
    if (a->f->units[i].fills && w.fill_high > w.fill_low)
        score +=
            SPREAD_WEIGHT * (SCORE_MAX * (s->filling - w.fill_low) / (w.fill_high - w.fill_low));
    return score;
}

/* ---- a pod ---- */

static void pods_add(struct arrival *a, struct spot *s, size_t i, int64_t count)
{
    for (size_t d = 0; d < a->dims; d++)
        s->left[d] -= count * a->need[i][d];
    s->pods[i] += count;
    s->filling += a->f->units[i].fills ? count : 0;
}

/* Pods of a machine that give way to one of unit `i`, as few as do, those of the lowest priority
 * first; a->kept says how many stay.  The number of victims with the highest priority among them
 * in front; INT64_MAX: it does not help. */
static int64_t victims_find(struct arrival *a, const struct spot *s, size_t i)
{
    const struct feasible_unit *u = &a->f->units[i];
    int64_t victims = 0, highest = 0;

    a->steps += (int64_t)a->f->unit_count;
    if (!spot_is_of(s, u) || (u->apart && s->pods[i] >= feasible_most_of(u, u->pods)))
        return INT64_MAX;
    memcpy(a->left, s->left, a->dims * sizeof(*a->left));
    memcpy(a->kept, s->pods, a->f->unit_count * sizeof(*a->kept));
    for (size_t j = 0; j < a->f->unit_count; j++)
        if (s->pods[j] && priority_of(a, j) < priority_of(a, i)) {
            for (size_t d = 0; d < a->dims; d++)
                a->left[d] += s->pods[j] * a->need[j][d];
            a->kept[j] = 0;
        }
    if (!need_fits(a, i, a->left))
        return INT64_MAX;
    for (size_t d = 0; d < a->dims; d++)
        a->left[d] -= a->need[i][d];
    for (int p = priority_of(a, i) - 1; p >= -1; p--)
        for (size_t j = 0; j < a->f->unit_count; j++) {
            if (!s->pods[j] || priority_of(a, j) != p)
                continue;
            while (a->kept[j] < s->pods[j] && need_fits(a, j, a->left)) {
                for (size_t d = 0; d < a->dims; d++)
                    a->left[d] -= a->need[j][d];
                a->kept[j]++;
            }
            if (a->kept[j] == s->pods[j])
                continue;
            victims += s->pods[j] - a->kept[j];
            highest = p + 2 > highest ? p + 2 : highest;
        }
    return highest * ((int64_t)1 << 32) + victims;
}

/* Of the machines where pods of lower priority give way, the one where it costs least.  Among
 * equals the scheduler takes the one whose pods started last: chance, where pods came together. */
static bool pod_preempts(struct arrival *a, size_t i)
{
    struct spot *best = NULL;
    int64_t least = INT64_MAX;
    size_t ties = 0;

    for (size_t k = 0; k < a->spot_count && a->steps < ARRIVE_STEPS_MAX; k++) {
        int64_t cost = victims_find(a, &a->spots[k], i);

        if (cost > least || cost == INT64_MAX)
            continue;
        ties = cost == least ? ties + 1 : 1;
        if (plan_rng_next(&a->rng) % ties == 0)
            best = &a->spots[k];
        least = cost;
    }
    if (!best)
        return false;
    (void)victims_find(a, best, i);
    for (size_t j = 0; j < a->f->unit_count; j++)
        while (best->pods[j] > a->kept[j] && a->queued < a->queue_cap) {
            pods_add(a, best, j, -1);
            a->queue[a->queued++] = j;
        }
    if (!need_fits(a, i, best->left))
        return false; /* the queue is full */
    pods_add(a, best, i, 1);
    return true;
}

static bool pod_arrives(struct arrival *a, size_t i)
{
    struct spot *best = NULL;
    int64_t high = 0;
    size_t open, ties = 0;
    struct span w = spots_look(a, i, &open);

    for (size_t k = 0; open && k < a->spot_count; k++) {
        struct spot *s = &a->spots[k];
        int64_t score;

        if (s->crowd < 0)
            continue;
        score = spot_score(a, s, i, w) + (int64_t)(plan_rng_next(&a->rng) % (uint64_t)a->blur);
        if (best && score < high)
            continue;
        ties = best && score == high ? ties + 1 : 1;
        if (plan_rng_next(&a->rng) % ties == 0)
            best = s;
        high = score;
    }
    if (!best)
        return pod_preempts(a, i);
    pods_add(a, best, i, 1);
    return true;
}

/* ---- orders ---- */

struct comer {
    double at;
    size_t unit;
};

static int comer_compare(const void *x, const void *y)
{
    const struct comer *a = x, *b = y;

    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->unit > b->unit) - (a->unit < b->unit);
}

/* Steps that creating a pod takes: 1/8 to 2. */
static double pace_draw(struct arrival *a)
{
    return exp2(4 * plan_rng_unit(&a->rng) - 3);
}

/* Pods of one owner, from when a worker of its controller takes it: 1, 2, 4 ... at a time, each
 * batch after the last pod of the one before. */
static void owner_makes(struct arrival *a, struct comer *comers, size_t i, double from, double pace)
{
    for (int64_t made = 0, batch = 1; made < a->f->units[i].pods; made += batch, batch *= 2) {
        double last = from;

        for (int64_t n = made; n < made + batch && n < a->f->units[i].pods; n++) {
            double at = from + pace * (1 + plan_rng_unit(&a->rng));

            comers[a->queued++] = (struct comer){ .at = at, .unit = i };
            last = at > last ? at : last;
        }
        from = last;
    }
}

/* `apply` creates owners one after the other, a step each.  A worker takes one up to `late` steps
 * late, one of a Deployment a step later, as a ReplicaSet's.  What a controller needs to create a
 * pod is less than a step or several, as busy as it is: pods of a service may all be there before
 * the first job is, and first pods of several jobs before the second pod of an earlier one.  Where
 * the controller of Deployments is slow, jobs go ahead by up to `slow` steps, and Deployments that
 * it takes at a time change places. */
static void queue_make(struct arrival *a, struct comer *comers, double late, double slow)
{
    double behind = 1 + slow * plan_rng_unit(&a->rng), apart = slow > 0 ? ARRIVE_WORKERS / 2.0 : 0;
    double job_pace = pace_draw(a), kept_pace = pace_draw(a);

    for (size_t i = 0; i < a->f->unit_count; i++) {
        bool job = is_job(&a->f->units[i]);
        double from = a->rank[i] + late * plan_rng_unit(&a->rng);

        if (!job)
            from += behind + apart * plan_rng_unit(&a->rng);
        if (a->in[i])
            owner_makes(a, comers, i, from, job ? job_pace : kept_pace);
    }
    qsort(comers, a->queued, sizeof(*comers), comer_compare);
    for (size_t k = 0; k < a->queued; k++)
        a->queue[k] = comers[k].unit;
}

/* Owners are created by kind, those that are kept before jobs, then by name. */
static void ranks_make(struct arrival *a)
{
    for (size_t i = 0; i < a->f->unit_count; i++)
        for (size_t k = 0; k < a->f->unit_count; k++) {
            const struct feasible_unit *u = &a->f->units[i], *v = &a->f->units[k];

            if (!a->in[k])
                continue;
            if (is_job(v) != is_job(u) ? is_job(u)
                                       : strcmp(v->c ? v->c->name : "", u->c ? u->c->name : "") < 0)
                a->rank[i]++;
        }
}

/* Whether all pods of the queue found a machine; a->out has who did not. */
static bool queue_play(struct arrival *a)
{
    bool all = true;

    memset(a->out, 0, a->f->unit_count * sizeof(*a->out));
    for (size_t k = 0; k < a->spot_count; k++) {
        memcpy(a->spots[k].left, a->spots[k].room, a->dims * sizeof(int64_t));
        memset(a->spots[k].pods, 0, a->f->unit_count * sizeof(int64_t));
        a->spots[k].filling = 0;
    }
    for (size_t k = 0; k < a->queued; k++)
        if (!pod_arrives(a, a->queue[k])) {
            a->out[a->queue[k]] = true;
            all = false;
        }
    return all;
}

static void spots_make(struct arrival *a, struct arena *mem, enum feasible_system system,
                       int64_t machines)
{
    const struct spec *s = a->f->s;

    a->spots = arena_array(mem, struct spot, (size_t)machines + 1);
    for (size_t i = 0; i < s->node_count; i++) {
        int64_t *room = arena_array(mem, int64_t, a->dims);
        int64_t *daemons = arena_array(mem, int64_t, DIM_MEMORY + 1);
        struct feasible_room r = feasible_room_of(s, &s->nodes[i], system);

        feasible_room_make(a->f, system, &s->nodes[i], room);
        daemons[DIM_CPU] = r.daemons_cpu_m;
        daemons[DIM_MEMORY] = r.daemons_mib;
        for (int64_t k = 0; k < s->nodes[i].count; k++)
            a->spots[a->spot_count++] =
                (struct spot){ .node = &s->nodes[i],
                               .room = room,
                               .daemons = daemons,
                               .left = arena_array(mem, int64_t, a->dims),
                               .pods = arena_array(mem, int64_t, a->f->unit_count + 1) };
    }
}

static void arrival_make(struct arrival *a, struct arena *mem, enum feasible_system system,
                         int64_t machines, int64_t pods)
{
    size_t count = a->f->unit_count + 1;

    spots_make(a, mem, system, machines);
    a->left = arena_array(mem, int64_t, a->dims);
    a->kept = arena_array(mem, int64_t, count);
    a->out = arena_array(mem, bool, count);
    a->rank = arena_array(mem, double, count);
    a->queue_cap = (size_t)pods * 4;
    a->queue = arena_array(mem, size_t, a->queue_cap);
    a->need = arena_array(mem, int64_t *, count);
    for (size_t i = 0; i < a->f->unit_count; i++) {
        a->need[i] = arena_array(mem, int64_t, a->dims);
        feasible_need_make(a->f, &a->f->units[i], a->need[i]);
    }
    ranks_make(a);
}

/* ---- the answer ---- */

static const char *unit_name(const struct feasible_unit *u)
{
    return u->c ? u->c->name : "stoker serve";
}

/* The unit that most orders leave out; SIZE_MAX: they leave out none. */
static size_t out_most(const struct feasible *f, const int *times)
{
    size_t most = 0;

    for (size_t i = 1; i < f->unit_count; i++)
        most = times[i] > times[most] ? i : most;
    return times[most] ? most : SIZE_MAX;
}

/* One warning: at the unit that most orders leave out; the others are named. */
static void out_tell(struct feasible *f, size_t most, const int *times, int played, bool helps)
{
    const struct feasible_unit *u = &f->units[most];
    struct buf b = { 0 };
    size_t named = 0;

    for (size_t i = 0; i < f->unit_count && named < ARRIVE_NAMES; i++)
        if (times[i] && i != most)
            buf_addf(&b, "%s'%s'", named++ ? ", " : "; in others one of ", unit_name(&f->units[i]));
    feasible_tell(f, true, u->c ? (const void *)&u->c->name : &f->s->models,
                  helps ? "Set its 'priority' to high: then all of them found one."
                        : "Give it a group of its own, or name one group only at components that "
                          "may be on several.",
                  "all pods fit, but the scheduler, which places them as they come, may leave one "
                  "of '%s' without a machine: so in %d of %d orders that were tried%s",
                  unit_name(u), times[most], played, buf_str(&b));
    buf_release(&b);
}

/* Counts in how many orders a pod of each unit is left out; how many were played. */
static int orders_play(struct arrival *a, struct comer *comers, int64_t each, int *times)
{
    static const double late[] = { 1, 2, 4 };
    size_t owners = 0;
    int orders = 0;

    for (size_t i = 0; i < a->f->unit_count; i++)
        owners += a->in[i];
    memset(times, 0, a->f->unit_count * sizeof(*times));
    a->rng = (struct plan_rng){ ARRIVE_SEED };
    a->steps = 0;
    for (; orders < ARRIVE_ORDERS && orders * each <= ARRIVE_STEPS_MAX; orders++) {
        a->queued = 0;
        a->blur = orders % 2 ? ARRIVE_BLUR : 1; /* daemons of a site may ask for more, or less */
        queue_make(a, comers, late[orders % (int)ARRAY_SIZE(late)],
                   orders % 4 < 3 ? 0 : (double)owners);
        if (queue_play(a))
            continue;
        if (a->steps >= ARRIVE_STEPS_MAX)
            break; /* who gives way was not looked for to the end */
        for (size_t i = 0; i < a->f->unit_count; i++)
            times[i] += a->out[i];
    }
    return orders;
}

void feasible_arrivals(struct feasible *f, enum feasible_system system, const bool *in)
{
    struct arena mem = { 0 };
    struct arrival a = { .f = f,
                         .in = in,
                         .dims = DIM_FABRICS + f->fabric_count,
                         .change = kube_minor(f->s, system) >= CHANGE_MINOR,
                         .raised = SIZE_MAX };
    int64_t machines = 0, pods = 0;
    struct comer *comers;
    size_t most;
    int *times, *then, played;

    for (size_t i = 0; i < f->s->node_count; i++)
        machines += f->s->nodes[i].count;
    for (size_t i = 0; i < f->unit_count; i++)
        pods += in[i] ? f->units[i].pods : 0;
    if (!pods || !machines || machines > ARRIVE_STEPS_MAX / pods ||
        machines * (int64_t)f->unit_count > ARRIVE_STEPS_MAX)
        return;
    arrival_make(&a, &mem, system, machines, pods);
    comers = arena_array(&mem, struct comer, (size_t)pods);
    times = arena_array(&mem, int, f->unit_count + 1);
    then = arena_array(&mem, int, f->unit_count + 1);
    played = orders_play(&a, comers, machines * pods, times);
    most = out_most(f, times);
    if (most != SIZE_MAX) {
        bool helps = false;

        if (f->units[most].c && priority_of(&a, most) < SPEC_PRIORITY_HIGH && !one_class(f->s)) {
            a.raised = most;
            helps = orders_play(&a, comers, machines * pods, then) == played &&
                    out_most(f, then) == SIZE_MAX;
        }
        out_tell(f, most, times, played, helps);
    }
    arena_release(&mem);
}
