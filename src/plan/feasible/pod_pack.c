/* SPDX-License-Identifier: MIT */
/* pod_pack: the four stages of pod_pack_int.h.
 *
 * Pods of equal need are folded into one kind first and told apart again at the end.  The exact
 * search lays a pattern on as many equal machines as can have it, then on fewer, and goes a level
 * deeper for the machines that are left, whose patterns come after it in the order: so no set of
 * machines is tried twice.  Every pattern counts as a step. */
#include "plan/feasible/pod_pack_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct pack_level { /* one pattern on some machines */
    int64_t *pattern, *room;
};

struct pack_search { /* one question; pods of equal need are one kind here */
    struct arena *a;
    const struct pack *p;
    size_t kinds; /* of pods, folded */
    struct pack_pods *pods;
    size_t *fold; /* folded kind of each kind of the question */
    struct pack_runs runs;
    int64_t *left;             /* pods that have no machine yet */
    struct pack_level *levels; /* of the exact search, by depth; made when they are reached */
    size_t depth;
    int64_t steps, steps_max;
};

enum { FRAMES_MAX = 16384 }; /* calls of the exact search inside each other */

static void run_add(struct arena *a, struct pack_runs *v, struct pack_run r)
{
    if (v->count == v->cap) {
        size_t cap = v->cap ? 2 * v->cap : 64;
        struct pack_run *items = arena_array(a, struct pack_run, cap);

        if (v->count)
            memcpy(items, v->items, v->count * sizeof(*items));
        v->items = items;
        v->cap = cap;
    }
    v->items[v->count++] = r;
}

/* How many more of a kind fit into a room where `there` of them are. */
static int64_t pods_fit(const struct pack_search *s, const struct pack_pods *k, const int64_t *room,
                        int64_t there)
{
    int64_t n = k->most ? k->most - there : INT64_MAX;

    for (size_t d = 0; d < s->p->dims; d++)
        if (k->need[d] && room[d] / k->need[d] < n)
            n = room[d] / k->need[d];
    return n < 0 ? 0 : n;
}

/* ---- folding ---- */

static bool pods_equal(const struct pack *p, const struct pack_pods *x, const struct pack_pods *y)
{
    return !x->most && !y->most && !memcmp(x->need, y->need, p->dims * sizeof(*x->need)) &&
           !memcmp(x->may, y->may, p->machine_kinds * sizeof(*x->may));
}

static void kinds_fold(struct pack_search *s)
{
    const struct pack *p = s->p;

    s->pods = arena_array(s->a, struct pack_pods, p->pod_kinds + 1);
    s->fold = arena_array(s->a, size_t, p->pod_kinds + 1);
    for (size_t i = 0; i < p->pod_kinds; i++) {
        size_t k = 0;

        while (k < s->kinds && !pods_equal(p, &s->pods[k], &p->pods[i]))
            k++;
        s->fold[i] = k;
        if (k == s->kinds)
            s->pods[s->kinds++] = p->pods[i];
        else
            s->pods[k].count += p->pods[i].count;
    }
}

/* Runs of folded kinds as runs of the question's: each machine's pods are handed to the kinds in
 * their order. */
static void runs_unfold(const struct pack_search *s, struct pack_runs *out)
{
    int64_t *open = arena_array(s->a, int64_t, s->p->pod_kinds + 1);

    for (size_t i = 0; i < s->p->pod_kinds; i++)
        open[i] = s->p->pods[i].count;
    for (size_t r = 0; r < s->runs.count; r++) {
        struct pack_run run = s->runs.items[r];
        size_t i = 0;

        for (int64_t m = 0, here = run.each; m < run.count;) {
            while (s->fold[i] != run.pod_kind || !open[i])
                i++;
            if (here == run.each && open[i] >= run.each) { /* whole machines of one kind */
                int64_t n = open[i] / run.each;

                n = n < run.count - m ? n : run.count - m;
                run_add(s->a, out,
                        (struct pack_run){ run.machine_kind, i, run.first + m, n, run.each });
                open[i] -= n * run.each;
                m += n;
                continue;
            }
            int64_t n = open[i] < here ? open[i] : here;

            run_add(s->a, out, (struct pack_run){ run.machine_kind, i, run.first + m, 1, n });
            open[i] -= n;
            here -= n;
            if (!here) {
                here = run.each;
                m++;
            }
        }
    }
}

/* ---- 1: sums ---- */

static bool may_within(const struct pack *p, const struct pack_pods *x, const struct pack_pods *y)
{
    for (size_t g = 0; g < p->machine_kinds; g++)
        if (x->may[g] && !y->may[g])
            return false;
    return true;
}

/* Does one kind alone, or all kinds that may only go where it may, ask for more than is there? */
static bool sums_exceed(const struct pack_search *s, const struct pack_pods *k)
{
    int64_t slots = 0;

    for (size_t g = 0; g < s->p->machine_kinds; g++) {
        const struct pack_machines *m = &s->p->machines[g];
        int64_t fit = k->may[g] ? pods_fit(s, k, m->room, 0) : 0;

        if (!fit || !m->count)
            continue;
        slots += fit > k->count ? k->count : m->count > k->count / fit ? k->count : m->count * fit;
    }
    if (slots < k->count)
        return true;
    for (size_t d = 0; d < s->p->dims; d++) {
        double have = 0, want = 0;

        for (size_t g = 0; g < s->p->machine_kinds; g++)
            have +=
                k->may[g] ? (double)s->p->machines[g].count * (double)s->p->machines[g].room[d] : 0;
        for (size_t i = 0; i < s->kinds; i++)
            if (may_within(s->p, &s->pods[i], k))
                want += (double)s->pods[i].count * (double)s->pods[i].need[d];
        if (want > have)
            return true;
    }
    return false;
}

/* ---- 2: greedy ---- */

struct pod_batch { /* equal machines that hold the same */
    size_t kind;
    int64_t first, count;
    int64_t *room, *held;
};
struct batches {
    struct pod_batch *items;
    size_t count, cap;
};

static void batch_add(struct pack_search *s, struct batches *v, struct pod_batch from,
                      int64_t first, int64_t count)
{
    struct pod_batch *b;

    if (v->count == v->cap) {
        size_t cap = v->cap ? 2 * v->cap : 32;
        struct pod_batch *items = arena_array(s->a, struct pod_batch, cap);

        if (v->count)
            memcpy(items, v->items, v->count * sizeof(*items));
        v->items = items;
        v->cap = cap;
    }
    b = &v->items[v->count++];
    *b = (struct pod_batch){ .kind = from.kind, .first = first, .count = count };
    b->room = arena_array(s->a, int64_t, s->p->dims + 1);
    b->held = arena_array(s->a, int64_t, s->kinds + 1);
    memcpy(b->room, from.room, s->p->dims * sizeof(*b->room));
    if (from.held)
        memcpy(b->held, from.held, s->kinds * sizeof(*b->held));
}

/* Room of a machine as shares of what an empty one has: small is tight. */
static double room_share(const struct pack_search *s, const struct pod_batch *b)
{
    const int64_t *all = s->p->machines[b->kind].room;
    double sum = 0;

    for (size_t d = 0; d < s->p->dims; d++)
        if (all[d] && all[d] < PACK_ROOM_MAX)
            sum += (double)b->room[d] / (double)all[d];
    return sum;
}

static struct pod_batch *batch_choose(const struct pack_search *s, const struct batches *v,
                                      size_t k, bool tight)
{
    struct pod_batch *best = NULL;
    double best_share = 0;

    for (size_t i = 0; i < v->count; i++) {
        struct pod_batch *b = &v->items[i];
        double share;

        if (!b->count || !s->pods[k].may[b->kind] || !pods_fit(s, &s->pods[k], b->room, b->held[k]))
            continue;
        share = room_share(s, b);
        if (!best || (tight ? share < best_share : share > best_share)) {
            best = b;
            best_share = share;
        }
    }
    return best;
}

static bool kind_place(struct pack_search *s, struct batches *v, size_t k, bool tight)
{
    int64_t left = s->pods[k].count;

    while (left) {
        struct pod_batch *b = batch_choose(s, v, k, tight), *to;
        int64_t each, n;

        if (!b)
            return false;
        each = pods_fit(s, &s->pods[k], b->room, b->held[k]);
        each = !tight && each > 1 ? 1 : each; /* spread: one at a time */
        each = each < left ? each : left;
        assert(each > 0); /* one at least fits, or it had not been chosen */
        n = left / each < b->count ? left / each : b->count;
        if (n < b->count) {
            struct pod_batch from = *b;
            size_t at = (size_t)(b - v->items);

            batch_add(s, v, from, from.first, n);
            v->items[at].first += n;
            v->items[at].count -= n;
            to = &v->items[v->count - 1];
        } else {
            to = b;
        }
        for (size_t d = 0; d < s->p->dims; d++)
            to->room[d] -= each * s->pods[k].need[d];
        to->held[k] += each;
        left -= n * each;
        if (v->count > 4096)
            return false; /* spreading split the site too finely: other orders do not */
    }
    return true;
}

struct pack_order {
    size_t kind;
    double size;
};

static int by_size(const void *x, const void *y)
{
    const struct pack_order *a = x, *b = y;

    if (a->size != b->size)
        return a->size < b->size ? 1 : -1;
    return (a->kind > b->kind) - (a->kind < b->kind);
}

/* A pod's part of the smallest machine it may be on: of one dimension, or of the worst. */
static double pod_size(const struct pack_search *s, size_t k, size_t dim)
{
    double worst = 0;

    for (size_t g = 0; g < s->p->machine_kinds; g++)
        for (size_t d = 0; s->pods[k].may[g] && d < s->p->dims; d++) {
            int64_t all = s->p->machines[g].room[d];
            double part = all ? (double)s->pods[k].need[d] / (double)all : 0;

            if ((dim == s->p->dims || dim == d) && part > worst)
                worst = part;
        }
    return worst + (s->pods[k].most ? 1e-6 : 0);
}

static bool greedy_try(struct pack_search *s, size_t dim, bool tight)
{
    struct pack_order *order = arena_array(s->a, struct pack_order, s->kinds + 1);
    struct batches v = { 0 };

    for (size_t k = 0; k < s->kinds; k++)
        order[k] = (struct pack_order){ k, pod_size(s, k, dim) };
    if (s->kinds)
        qsort(order, s->kinds, sizeof(*order), by_size);
    for (size_t g = 0; g < s->p->machine_kinds; g++) {
        struct pod_batch empty = { .kind = g, .room = (int64_t *)s->p->machines[g].room };

        batch_add(s, &v, empty, 0, s->p->machines[g].count);
    }
    for (size_t i = 0; i < s->kinds; i++)
        if (!kind_place(s, &v, order[i].kind, tight))
            return false;
    s->runs = (struct pack_runs){ 0 };
    for (size_t i = 0; i < v.count; i++)
        for (size_t k = 0; v.items[i].count && k < s->kinds; k++)
            if (v.items[i].held[k])
                run_add(s->a, &s->runs,
                        (struct pack_run){ v.items[i].kind, k, v.items[i].first, v.items[i].count,
                                           v.items[i].held[k] });
    return true;
}

static bool greedy_search(struct pack_search *s)
{
    for (size_t d = 0; d <= s->p->dims; d++) {
        size_t dim = s->p->dims - d; /* the worst of all first */

        if (greedy_try(s, dim, true) || greedy_try(s, dim, false))
            return true;
    }
    return false;
}

/* ---- 3: exact ---- */

static enum pack_answer exact_machines(struct pack_search *s, size_t g, int64_t machines,
                                       const int64_t *below);

/* What is left against all room that is left, by dimension and by kind. */
static bool left_exceeds(const struct pack_search *s, size_t g, int64_t machines)
{
    for (size_t d = 0; d < s->p->dims; d++) {
        double want = 0, have = (double)machines * (double)s->p->machines[g].room[d];

        for (size_t k = 0; k < s->kinds; k++)
            want += (double)s->left[k] * (double)s->pods[k].need[d];
        for (size_t h = g + 1; h < s->p->machine_kinds; h++)
            have += (double)s->p->machines[h].count * (double)s->p->machines[h].room[d];
        if (want > have)
            return true;
    }
    for (size_t k = 0; k < s->kinds; k++) {
        double slots = 0;

        for (size_t h = g; s->left[k] && h < s->p->machine_kinds; h++)
            if (s->pods[k].may[h]) {
                int64_t fit = pods_fit(s, &s->pods[k], s->p->machines[h].room, 0);

                fit = fit < s->left[k] ? fit : s->left[k];
                slots += (double)(h == g ? machines : s->p->machines[h].count) * (double)fit;
            }
        if (slots < (double)s->left[k])
            return true;
    }
    return false;
}

static bool pattern_is_full(const struct pack_search *s, size_t g, const int64_t *x,
                            const int64_t *room)
{
    for (size_t k = 0; k < s->kinds; k++)
        if (s->pods[k].may[g] && x[k] < s->left[k] && pods_fit(s, &s->pods[k], room, x[k]))
            return false;
    return true;
}

/* The pattern on as many machines as can have it, then on fewer. */
static enum pack_answer pattern_use(struct pack_search *s, size_t g, int64_t machines,
                                    const int64_t *x)
{
    int64_t most = machines;
    size_t mark = s->runs.count;
    bool empty = true;

    for (size_t k = 0; k < s->kinds; k++)
        if (x[k]) {
            most = s->left[k] / x[k] < most ? s->left[k] / x[k] : most;
            empty = false;
        }
    if (empty) /* nothing that is left can go here */
        return exact_machines(s, g, 0, NULL);
    for (int64_t n = most; n > 0; n--) {
        enum pack_answer answer;

        for (size_t k = 0; k < s->kinds; k++) {
            if (x[k])
                run_add(s->a, &s->runs,
                        (struct pack_run){ g, k, s->p->machines[g].count - machines, n, x[k] });
            s->left[k] -= n * x[k];
        }
        answer = exact_machines(s, g, machines - n, x);
        if (answer == PACK_FITS)
            return answer;
        for (size_t k = 0; k < s->kinds; k++)
            s->left[k] += n * x[k];
        s->runs.count = mark;
        if (answer == PACK_UNKNOWN)
            return answer;
    }
    return PACK_NO;
}

/* Patterns of a machine from the fullest of the first kind on, below `below` in that order. */
static enum pack_answer patterns_try(struct pack_search *s, size_t g, int64_t machines, size_t k,
                                     const int64_t *below, struct pack_level *l)
{
    int64_t most, here;

    if (s->steps++ >= s->steps_max)
        return PACK_UNKNOWN;
    if (k == s->kinds) {
        if (below || !pattern_is_full(s, g, l->pattern, l->room))
            return PACK_NO; /* equal to the one before, or not full */
        return pattern_use(s, g, machines, l->pattern);
    }
    most = s->pods[k].may[g] ? pods_fit(s, &s->pods[k], l->room, 0) : 0;
    most = most < s->left[k] ? most : s->left[k];
    here = below && below[k] < most ? below[k] : most;
    for (; here >= 0; here--) {
        enum pack_answer answer;

        for (size_t d = 0; d < s->p->dims; d++)
            l->room[d] -= here * s->pods[k].need[d];
        l->pattern[k] = here;
        answer = patterns_try(s, g, machines, k + 1, below && below[k] == here ? below : NULL, l);
        for (size_t d = 0; d < s->p->dims; d++)
            l->room[d] += here * s->pods[k].need[d];
        if (answer != PACK_NO)
            return answer;
    }
    return PACK_NO;
}

/* Machines of kind `g` that are left, each with a pattern below `below` (NULL: any), then the
 * kinds behind it. */
static enum pack_answer exact_machines(struct pack_search *s, size_t g, int64_t machines,
                                       const int64_t *below)
{
    struct pack_level *l;
    enum pack_answer answer;
    bool done = true;

    for (size_t k = 0; k < s->kinds; k++)
        done = done && !s->left[k];
    if (done)
        return PACK_FITS;
    while (!machines) {
        if (++g >= s->p->machine_kinds)
            return PACK_NO;
        machines = s->p->machines[g].count;
        below = NULL;
    }
    if (left_exceeds(s, g, machines))
        return PACK_NO;
    if ((s->depth + 1) * (s->kinds + 2) > FRAMES_MAX)
        return PACK_UNKNOWN;
    l = &s->levels[s->depth++];
    if (!l->pattern) {
        l->pattern = arena_array(s->a, int64_t, s->kinds + 1);
        l->room = arena_array(s->a, int64_t, s->p->dims + 1);
    }
    memcpy(l->room, s->p->machines[g].room, s->p->dims * sizeof(*l->room));
    answer = patterns_try(s, g, machines, 0, below, l);
    s->depth--;
    return answer;
}

static enum pack_answer exact_search(struct pack_search *s)
{
    s->left = arena_array(s->a, int64_t, s->kinds + 1);
    for (size_t k = 0; k < s->kinds; k++)
        s->left[k] = s->pods[k].count;
    s->levels = arena_array(s->a, struct pack_level, FRAMES_MAX / (s->kinds + 2) + 1);
    s->runs = (struct pack_runs){ 0 };
    return s->p->machine_kinds ? exact_machines(s, 0, s->p->machines[0].count, NULL) : PACK_NO;
}

enum pack_answer pack_solve(struct arena *a, const struct pack *p, struct pack_runs *out)
{
    struct pack_search s = { .a = a, .p = p };
    enum pack_answer answer;

    s.steps_max = p->steps_max ? p->steps_max : PACK_STEPS_MAX;
    kinds_fold(&s);
    for (size_t k = 0; k < s.kinds; k++)
        if (s.pods[k].count && sums_exceed(&s, &s.pods[k]))
            return PACK_NO;
    answer = greedy_search(&s) ? PACK_FITS : exact_search(&s);
    if (answer == PACK_FITS && out)
        runs_unfold(&s, out);
    return answer;
}
