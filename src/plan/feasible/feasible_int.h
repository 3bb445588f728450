/* SPDX-License-Identifier: MIT */
/* feasible_int: what the files of feasible share.
 *
 *   feasible_room.c   machines: what they have, who may be on them
 *   feasible.c        units and the questions put to pod_pack.c, in which order
 *   feasible_arrive.c pods one by one, as a scheduler takes them
 *   feasible_spare.c  room for one pod more, wherever the others are
 *   feasible_host.c   GPUs by number on machines without a scheduler
 *   feasible_text.c   what is short, in words */
#ifndef PLAN_FEASIBLE_FEASIBLE_INT_H
#define PLAN_FEASIBLE_FEASIBLE_INT_H
#include "plan/feasible.h"
#include "plan/feasible/pod_pack_int.h"

enum { DIM_CPU, DIM_MEMORY, DIM_GPUS, DIM_FABRICS }; /* then one for each fabric that counts */

struct feasible_unit {              /* pods of a component, or stoker's own */
    const struct spec_component *c; /* NULL: `stoker serve` */
    enum feasible_system system;
    struct feasible_request request;
    const struct spec_node **groups;
    size_t group_count;
    int64_t pods;
    bool apart;       /* a machine each */
    bool queued;      /* takes its turn: alone, not beside the others */
    bool fills;       /* see feasible_fills() */
    bool again;       /* Kubernetes by name: the component's own system has it too */
    bool spare;       /* see feasible_spare() */
    int64_t kept_off; /* FEASIBLE_HOST: so many take no GPU that a pool or a model has memory of */
    bool lost;        /* refused: not asked about again */
};

struct feasible {
    struct arena a;
    const struct spec *s;
    struct feasible_opts opts;
    struct feasible_unit *units;
    size_t unit_count;
    size_t *unit_of;                    /* of each component: its unit of pods, SIZE_MAX: none */
    const struct spec_fabric **fabrics; /* those that count */
    size_t fabric_count;
    int *part; /* of each node group: eighths of its GPUs' part that derived asks take */
    struct feasible_fault faults[FEASIBLE_FAULTS_MAX];
    size_t fault_count;
    struct feasible_place *places;
    size_t place_count, place_cap;
};

/* One question: units for which `in` holds, `pods` of unit `changed` instead of its own number
 * (none: SIZE_MAX), dimension `free_dim` without a limit (none: -1). */
struct question {
    enum feasible_system system;
    const bool *in;
    size_t changed;
    int64_t pods;
    int free_dim;
    bool free_apart; /* pods of one unit may share a machine */
    size_t only;     /* of the clusters of groups this one; SIZE_MAX: all */
    bool keep;       /* who is where becomes the answer's */
};
void feasible_place_add(struct feasible *f, struct feasible_place p);

void feasible_tell(struct feasible *f, bool warning, const void *member, const char *hint,
                   const char *fmt, ...) PRINTF_LIKE(5, 6);
/* The place of a unit's value, or of its name where the value is a default. */
const void *feasible_member(const struct feasible *f, const struct feasible_unit *u, int dim);
/* No machine can hold one pod of it. */
void feasible_tell_pod(struct feasible *f, const struct feasible_unit *u, const struct spec_node *n,
                       int dim);
/* Does a replica span more machines than its groups have?  Then that is told: a scheduler would put
 * two of its pods on one machine. */
bool feasible_spans_too_many(struct feasible *f, const struct feasible_unit *u);
/* Its pods find no machines: alone (`beside` NULL), or beside others. */
void feasible_tell_pods(struct feasible *f, const struct feasible_unit *u, int dim, int64_t found,
                        const char *beside);
/* Numbers for node groups, the same for those that a unit of `in` may be on alike. */
void feasible_clusters(const struct feasible *f, const bool *in, size_t *of);
/* By dimension: what a machine of the group has for pods, what a pod of the unit needs. */
void feasible_room_make(const struct feasible *f, enum feasible_system system,
                        const struct spec_node *n, int64_t *out);
void feasible_need_make(const struct feasible *f, const struct feasible_unit *u, int64_t *out);
int64_t feasible_most_of(const struct feasible_unit *u, int64_t pods);
/* Warns where the scheduler, which takes pods as they come, may leave one without a machine. */
void feasible_arrivals(struct feasible *f, enum feasible_system system, const bool *in);
/* Fills unit.spare, once everything fits. */
void feasible_spares(struct feasible *f, enum feasible_system system);
void feasible_hosts(struct feasible *f); /* compose, systemd, local */

/* Is the component for Kubernetes, by its target or (where no component is) by name? */
bool feasible_on_kubernetes(const struct spec_component *c, const struct feasible_opts *opts);
/* Does it take all GPUs of a machine, whichever of its groups that is of? */
bool feasible_takes_machines(const struct spec *s, const struct spec_component *c);

#endif
