/* SPDX-License-Identifier: MIT */
/* pod_pack: can pods of a few kinds be put onto machines of a few kinds?
 *
 * Vector bin packing with many equal pieces: a machine has room in several dimensions (CPU,
 * memory, GPUs ...), a pod needs some of each.  Equal machines and equal pods are never told
 * apart, so a site of 10,000 machines costs what its few kinds cost.
 *
 *   1. sums: more is asked for than there is              -> PACK_NO, a proof
 *   2. greedy in a few orders, tightest machine first     -> PACK_FITS, with who is where
 *   3. exact: machine after machine takes a fullest pattern of what is left, patterns in falling
 *      order; every packing can be brought into that form, so an exhausted search is a proof
 *   4. PACK_STEPS_MAX reached                             -> PACK_UNKNOWN: nothing is claimed
 *
 * Pure: memory comes from the caller's arena. */
#ifndef PLAN_FEASIBLE_POD_PACK_INT_H
#define PLAN_FEASIBLE_POD_PACK_INT_H
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

enum { PACK_STEPS_MAX = 2000000 };       /* of the exact search */
#define PACK_ROOM_MAX (INT64_C(1) << 40) /* of a dimension; stands for "not known" too */

struct pack_machines { /* equal ones */
    int64_t count;
    const int64_t *room; /* by dimension */
};
struct pack_pods { /* equal ones */
    int64_t count;
    const int64_t *need; /* by dimension */
    int64_t most;        /* of them on a machine; 0: as many as fit */
    const bool *may;     /* by kind of machine */
};
struct pack {
    size_t dims, machine_kinds, pod_kinds;
    const struct pack_machines *machines;
    const struct pack_pods *pods;
    int64_t steps_max; /* 0: PACK_STEPS_MAX */
};

/* `each` pods of a kind on each of `count` machines of a kind, from the `first` on. */
struct pack_run {
    size_t machine_kind, pod_kind;
    int64_t first, count, each;
};
struct pack_runs {
    struct pack_run *items; /* in the arena */
    size_t count, cap;
};

enum pack_answer { PACK_FITS, PACK_NO, PACK_UNKNOWN };
/* `out` is written when they fit; NULL: nobody asks who is where. */
enum pack_answer pack_solve(struct arena *a, const struct pack *p, struct pack_runs *out);

#endif
