/* SPDX-License-Identifier: MIT */
/* feasible: can everything that a spec wants to run be put onto the machines it describes?
 *
 *   spec ──room─────► what a machine of each group has for pods, jobs or containers
 *        ──request──► what a pod of each component asks for, also where the spec leaves it open
 *        ──pack─────► who is where, or which component finds no room and what it is short of
 *
 * One answer for `render`, `spec check` and `up`.  By the system that runs a component:
 *
 *   kubernetes, openshift   all pods at once, beside the daemons of every machine; queued ones
 *                           must fit alone, and a warning says when they never fit beside the rest
 *   slurm                   each job alone
 *   compose, systemd, local GPUs by number, on the machines of the group
 *
 * A refusal is a proof; where the search gave up, a warning says so.  What is not known (cores,
 * memory of a group) refuses nothing.  Whether the placement is a good one is another question:
 * feasible_place_at() says who is where for whoever wants to improve on it. */
#ifndef PLAN_FEASIBLE_H
#define PLAN_FEASIBLE_H
#include "base/arena.h"
#include "spec/spec.h"

enum {
    FEASIBLE_GPUS_MAX = 16,   /* of a machine: the schema's maximum */
    FEASIBLE_FAULTS_MAX = 32, /* that are told */
    /* What the kubelet keeps of a machine: kubeReserved and systemReserved of node-prepare.sh. */
    FEASIBLE_KUBELET_CPU_M = 2000,
    FEASIBLE_KUBELET_MIB = 8192,
    FEASIBLE_EVICTION_MIB = 100, /* evictionHard's default for memory.available */
    /* What stoker's own pods ask for. */
    FEASIBLE_AGENT_CPU_M = 250,
    FEASIBLE_AGENT_MIB = 512,
    FEASIBLE_SERVE_CPU_M = 4000,
    FEASIBLE_SERVE_MIB = 16384,
    /* maxSkew of pods that fill machines: so wide that spreading counts for nothing. */
    FEASIBLE_FILL_SKEW = 1000,
};

enum feasible_system {
    FEASIBLE_KUBERNETES,
    FEASIBLE_OPENSHIFT,
    FEASIBLE_SLURM,
    FEASIBLE_HOST /* compose, systemd, local: one machine runs it */
};

struct feasible_room {  /* of a machine for what it runs */
    struct maybe cpu_m; /* thousandths of a CPU (thread); of a core on Slurm */
    struct maybe memory_mib;
    int64_t gpus;                       /* GPUs, MIG instances, or shares of GPUs */
    int64_t kept_cpu_m, kept_mib;       /* of it by the kubelet and the system */
    int64_t daemons_cpu_m, daemons_mib; /* by pods that every machine has */
};

struct feasible_request { /* of one pod, or one machine of a job */
    struct maybe cpu_m, memory_mib;
    int64_t gpus;
    bool cpu_derived, memory_derived; /* the spec does not say: its GPUs' part of the machine */
};

struct feasible_place { /* `each` pods on each of `count` machines of a group, from `first` on */
    const struct spec_component *c; /* NULL: `stoker serve` for models of no component */
    const struct spec_node *node;
    int64_t first, count, each;
    uint32_t gpus; /* FEASIBLE_HOST: a bit for each GPU of the machine */
    enum feasible_system system;
};

struct feasible_fault {
    const void *member; /* where it stands, for spec_diag_at() */
    const char *msg, *hint;
    bool warning;
};

struct feasible_opts {
    bool kubernetes_by_name; /* it may take those of other targets that have an image */
};

struct feasible; /* opaque: the spec's answer; borrows the spec */
struct feasible *feasible_new(const struct spec *s, const struct feasible_opts *opts) MUST_USE;
void feasible_free(struct feasible *f); /* NULL is fine */

size_t feasible_fault_count(const struct feasible *f);
const struct feasible_fault *feasible_fault_at(const struct feasible *f, size_t i);
size_t feasible_place_count(const struct feasible *f);
const struct feasible_place *feasible_place_at(const struct feasible *f, size_t i);

/* The whole as one call: faults go into `diags` at their lines.  RC_PARSE when one is no warning,
 * with the first of them in `err` as "FILE:LINE:COL: message". */
enum rc feasible_check(const struct spec *s, const struct feasible_opts *opts,
                       struct spec_diags *diags, struct err *err) MUST_USE;

/* What a pod of a component asks for, such that its GPUs' part of a machine leaves room for the
 * others there. */
struct feasible_request feasible_request_of(const struct feasible *f,
                                            const struct spec_component *c);
/* What `stoker serve` for models of no component asks for. */
struct feasible_request feasible_serve_request(const struct spec *s);

/* ---- parts of it, without an answer: feasible_room.c ---- */
struct feasible_room feasible_room_of(const struct spec *s, const struct spec_node *n,
                                      enum feasible_system system);
/* MIG instances of one GPU with the profile of the group; 0: the group has no MIG. */
int64_t feasible_mig_instances(const struct spec_node *n);
/* GPUs or MIG instances of a machine. */
int64_t feasible_gpus(const struct spec_node *n);
/* "1g.10gb.me" for "1g.10gb+me": the profile in names of resources and configurations. */
const char *feasible_mig_name(struct arena *a, const struct spec_node *n);
/* MiB that Slurm gives to jobs of a machine whose memory is known. */
int64_t feasible_slurm_mib(const struct spec_node *n);
/* Groups whose machines a pod may be on, `out` with room for node_count and a NULL; `c` NULL:
 * `stoker serve` for models of no component. */
size_t feasible_groups(const struct spec *s, const struct spec_component *c,
                       const struct spec_node **out);
/* Is each of its pods on a machine of its own? */
bool feasible_apart(const struct spec *s, const struct spec_component *c,
                    enum feasible_system system);
/* Should its pods fill machines instead of spreading over them?  So where they take some GPUs of a
 * machine and another component of the same system takes whole machines of the group: a scheduler
 * that spreads them leaves no machine free. */
bool feasible_fills(const struct feasible *f, const struct spec_component *c);
/* Is there surely room for one pod more of it, wherever the scheduler has put all the others, grown
 * as far as they may and queued ones running?  A rolling update that starts the new pod before it
 * ends an old one needs that: running pods do not move.  "No" may be too careful, "yes" holds.  `c`
 * NULL: `stoker serve` for models of no component. */
bool feasible_spare(const struct feasible *f, const struct spec_component *c);
/* How often each GPU of a group is offered to pods that have a memory pool and no GPU of their own:
 * as often as the largest of them fits.  0: no component shares one. */
int64_t feasible_shares(const struct spec *s, const struct spec_node *n,
                        const struct feasible_opts *opts);
/* GPUs of a machine of the group, a bit each: those where all pools of the component are, and those
 * that a pool or a model takes memory of, which a component without a pool is better kept off. */
uint32_t feasible_gpus_allowed(const struct spec *s, const struct spec_component *c,
                               const struct spec_node *n);
uint32_t feasible_gpus_shared(const struct spec *s, const struct spec_node *n);
struct feasible_sharer { /* a component without GPUs of its own, and what it shares */
    const struct spec_component *c;
    const char *pool;
    uint32_t gpus;
};
/* Of the group's first machine, where compose, systemd and local run what has no GPUs of its own:
 * those that somebody shares by a pool, so that a component of whole GPUs cannot have them.  The
 * first of them in `out` (NULL: not asked), if there is one. */
uint32_t feasible_gpus_barred(const struct spec *s, const struct spec_component *c,
                              const struct spec_node *n, struct feasible_sharer *out);
#endif
