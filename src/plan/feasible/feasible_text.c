/* SPDX-License-Identifier: MIT */
/* feasible_text: what is short, at the value that asks for it. */
#include "base/str.h"
#include "plan/feasible/feasible_int.h"

#include <inttypes.h>
#include <stdarg.h>

enum { TEXT_MAX = 128, HINT_MAX = 512 };

void feasible_tell(struct feasible *f, bool warning, const void *member, const char *hint,
                   const char *fmt, ...)
{
    struct feasible_fault *t = &f->faults[f->fault_count];
    struct buf b = { 0 };
    va_list ap;

    if (f->fault_count == FEASIBLE_FAULTS_MAX)
        return;
    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    *t = (struct feasible_fault){ .member = member,
                                  .msg = arena_strdup(&f->a, buf_str(&b)),
                                  .hint = arena_strdup(&f->a, hint),
                                  .warning = warning };
    f->fault_count++;
    buf_release(&b);
}

const void *feasible_member(const struct feasible *f, const struct feasible_unit *u, int dim)
{
    const struct spec_component *c = u->c;
    const void *at;

    if (!c)
        return &f->s->models;
    at = dim == DIM_CPU      ? (const void *)&c->cpus
         : dim == DIM_MEMORY ? (const void *)&c->memory_bytes
         : dim == DIM_GPUS   ? (const void *)&c->gpus
         : dim < DIM_FABRICS + (int)f->fabric_count
             ? (const void *)&c->fabrics
             : (const void *)(c->nodes_per_replica > 1 ? &c->nodes_per_replica : &c->replicas);
    return spec_where(f->s, at).line ? at : &c->name;
}

static const char *unit_text(const struct feasible_unit *u, char out[TEXT_MAX])
{
    if (u->c)
        (void)snprintf(out, TEXT_MAX, "component '%s'", u->c->name);
    else
        (void)snprintf(out, TEXT_MAX, "the model server");
    return out;
}

/* 253500 as "253.5". */
static const char *cpus_text(int64_t m, char out[TEXT_MAX])
{
    int n = snprintf(out, TEXT_MAX, "%" PRId64 ".%03" PRId64, m / 1000, m % 1000);

    while (n > 1 && out[n - 1] == '0')
        out[--n] = '\0';
    if (out[n - 1] == '.')
        out[n - 1] = '\0';
    return out;
}

static const char *mib_text(int64_t v, char out[TEXT_MAX])
{
    char text[UNITS_TEXT_MAX];

    (void)snprintf(out, TEXT_MAX, "%s", units_bytes_human((uint64_t)v << 20, text));
    return out;
}

/* Machines without a scheduler have GPUs by number: instances of MIG have none there. */
static const char *gpus_text(const struct feasible_unit *u, const struct spec_node *n,
                             char out[TEXT_MAX])
{
    int64_t count = u->request.gpus;

    if (u->system != FEASIBLE_HOST && feasible_mig_instances(n))
        (void)snprintf(out, TEXT_MAX, "%" PRId64 " MIG instance%s (%s)", count,
                       count == 1 ? "" : "s", n->gpu->mig_profile);
    else
        (void)snprintf(out, TEXT_MAX, "%" PRId64 " GPU%s", count, count == 1 ? "" : "s");
    return out;
}

static const char *need_text(const struct feasible *f, const struct feasible_unit *u, int dim,
                             char out[TEXT_MAX])
{
    char number[TEXT_MAX];

    if (dim == DIM_CPU)
        (void)snprintf(out, TEXT_MAX, "%s CPU%s", cpus_text(maybe_or(u->request.cpu_m, 0), number),
                       maybe_is(u->request.cpu_m, 1000) ? "" : "s");
    else if (dim == DIM_MEMORY)
        (void)snprintf(out, TEXT_MAX, "%.100s of memory",
                       mib_text(maybe_or(u->request.memory_mib, 0), number));
    else if (dim == DIM_GPUS)
        return gpus_text(u, u->groups[0], out);
    else if (dim < DIM_FABRICS + (int)f->fabric_count)
        (void)snprintf(out, TEXT_MAX, "%s of fabric '%.63s'",
                       f->fabrics[dim - DIM_FABRICS]->sriov ? "a virtual function of each NIC"
                                                            : "the devices",
                       f->fabrics[dim - DIM_FABRICS]->name);
    else
        (void)snprintf(out, TEXT_MAX, "a machine");
    return out;
}

/* ---- one pod ---- */

static void tell_cpu(struct feasible *f, const struct feasible_unit *u, const struct spec_node *n)
{
    struct feasible_room r = feasible_room_of(f->s, n, u->system);
    const void *at = feasible_member(f, u, DIM_CPU);
    char name[TEXT_MAX], want[TEXT_MAX], have[TEXT_MAX], kept[TEXT_MAX], daemons[TEXT_MAX];
    char hint[HINT_MAX];

    unit_text(u, name);
    cpus_text(u->request.cpu_m.v, want);
    if (u->system == FEASIBLE_SLURM) {
        feasible_tell(f, false, at, NULL, "%s needs %s cores and a machine of '%s' has %" PRId64,
                      name, want, n->name, n->cpu_cores.v);
        return;
    }
    if (u->system == FEASIBLE_HOST) {
        feasible_tell(f, false, at, NULL,
                      "%s asks for %s CPUs, but a machine of '%s' has %" PRId64 " cores of %" PRId64
                      " thread%s",
                      name, want, n->name, n->cpu_cores.v, n->threads_per_core,
                      n->threads_per_core == 1 ? "" : "s");
        return;
    }
    (void)snprintf(hint, sizeof(hint),
                   "%" PRId64 " threads, less %s for the kubelet and the system and %s for pods "
                   "that every machine has.",
                   n->cpu_cores.v * n->threads_per_core, cpus_text(r.kept_cpu_m, kept),
                   cpus_text(r.daemons_cpu_m, daemons));
    feasible_tell(f, false, at, hint, "%s asks for %s CPUs, but a machine of '%s' has %s for pods",
                  name, want, n->name, cpus_text(r.cpu_m.v, have));
}

static void tell_memory(struct feasible *f, const struct feasible_unit *u,
                        const struct spec_node *n)
{
    struct feasible_room r = feasible_room_of(f->s, n, u->system);
    const void *at = feasible_member(f, u, DIM_MEMORY);
    char name[TEXT_MAX], want[UNITS_TEXT_MAX], have[TEXT_MAX], kept[TEXT_MAX], daemons[TEXT_MAX];
    char hint[HINT_MAX], all[UNITS_TEXT_MAX];
    int64_t bytes =
        u->c && u->c->memory_bytes.known ? u->c->memory_bytes.v : u->request.memory_mib.v << 20;

    unit_text(u, name);
    units_bytes_exact((uint64_t)bytes, want);
    units_bytes_exact((uint64_t)n->memory_bytes.v, all);
    if (u->system == FEASIBLE_SLURM) {
        feasible_tell(f, false, at, "Part of the memory is left to the system.",
                      "%s needs more memory than the %" PRId64
                      " MiB jobs have on a machine of '%s'",
                      name, r.memory_mib.v, n->name);
        return;
    }
    if (u->system == FEASIBLE_HOST) {
        feasible_tell(f, false, at, NULL, "%s asks for %s of memory, but a machine of '%s' has %s",
                      name, want, n->name, all);
        return;
    }
    (void)snprintf(hint, sizeof(hint),
                   "%s, less %s for the kubelet and the system and %s for pods that every machine "
                   "has.",
                   all, mib_text(r.kept_mib, kept), mib_text(r.daemons_mib, daemons));
    feasible_tell(f, false, at, hint,
                  "%s asks for %s of memory, but a machine of '%s' has %s for pods", name, want,
                  n->name, mib_text(r.memory_mib.v, have));
}

void feasible_tell_pod(struct feasible *f, const struct feasible_unit *u, const struct spec_node *n,
                       int dim)
{
    char name[TEXT_MAX], want[TEXT_MAX];
    int64_t have = u->system == FEASIBLE_HOST ? n->gpus_per_node : feasible_gpus(n);

    unit_text(u, name);
    if (dim == DIM_CPU)
        tell_cpu(f, u, n);
    else if (dim == DIM_MEMORY)
        tell_memory(f, u, n);
    else if (dim == DIM_GPUS)
        feasible_tell(f, false, feasible_member(f, u, dim),
                      "Use 'nodes_per_replica' to span several machines.",
                      "%s asks for %s a node, but '%s' has %" PRId64, name, gpus_text(u, n, want),
                      n->name, have);
    else
        feasible_tell(f, false, feasible_member(f, u, dim),
                      "Add the fabric to the group's 'fabrics', or name another group.",
                      "%s uses fabric '%s', and machines of '%s' are not on it", name,
                      f->fabrics[dim - DIM_FABRICS]->name, n->name);
}

/* ---- all pods ---- */

static const char *groups_text(const struct feasible_unit *u, char out[TEXT_MAX])
{
    if (u->group_count == 1)
        (void)snprintf(out, TEXT_MAX, "'%s'", u->groups[0]->name);
    else
        (void)snprintf(out, TEXT_MAX, "its %zu node groups", u->group_count);
    return out;
}

/* What a system calls one of them. */
static const char *piece_words(enum feasible_system system, int64_t count)
{
    if (system == FEASIBLE_HOST)
        return count == 1 ? "replica on" : "replicas on";
    if (system == FEASIBLE_SLURM)
        return count == 1 ? "job on" : "jobs on";
    return count == 1 ? "pod on" : "pods on";
}

static int64_t unit_machines(const struct feasible_unit *u)
{
    int64_t machines = 0;

    for (size_t g = 0; g < u->group_count; g++)
        machines += u->groups[g]->count;
    return machines;
}

static void tell_span(struct feasible *f, const struct feasible_unit *u, int64_t span)
{
    char name[TEXT_MAX], where[TEXT_MAX];

    unit_text(u, name);
    groups_text(u, where);
    feasible_tell(f, false, feasible_member(f, u, DIM_FABRICS + (int)f->fabric_count), NULL,
                  "%s spans %" PRId64 " machines, but %s has %" PRId64, name, span, where,
                  unit_machines(u));
}

bool feasible_spans_too_many(struct feasible *f, const struct feasible_unit *u)
{
    bool too_many = u->group_count && u->c->nodes_per_replica > unit_machines(u);

    if (too_many)
        tell_span(f, u, u->c->nodes_per_replica);
    return too_many;
}

void feasible_tell_pods(struct feasible *f, const struct feasible_unit *u, int dim, int64_t found,
                        const char *beside)
{
    char name[TEXT_MAX], need[TEXT_MAX], where[TEXT_MAX];
    bool apart = u->apart && u->c && u->pods > 1 &&
                 (u->c->nodes_per_replica > 1 || u->c->kind == SPEC_COMPONENT_TRAINING);

    unit_text(u, name);
    groups_text(u, where);
    if (!beside && apart && u->pods > unit_machines(u)) {
        tell_span(f, u, u->pods);
        return;
    }
    feasible_tell(f, false, feasible_member(f, u, dim),
                  u->queued                    ? NULL
                  : u->system == FEASIBLE_HOST ? "Give it fewer replicas, or other machines."
                                               : "Give it fewer replicas, other machines, or "
                                                 "'queued: true' where a scheduler has a queue.",
                  "%s needs %s %s %" PRId64 " %s %s; %" PRId64 " %s%s%s", name,
                  need_text(f, u, dim, need), apart ? "on each of" : "for each of", u->pods,
                  apart ? "machines of" : piece_words(u->system, u->pods), where, found,
                  apart ? (found == 1 ? "is free" : "are free") : (found == 1 ? "fits" : "fit"),
                  beside ? " beside " : "", beside ? beside : "");
}
