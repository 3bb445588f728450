/* SPDX-License-Identifier: MIT */
/* feasible_room: what machines have for what runs on them, and which machines a pod may be on.
 *
 * Allocatable on Kubernetes is what the kubelet offers: the machine less kubeReserved,
 * systemReserved and the eviction threshold; pods of daemons come out of that.  What those ask
 * for is their own manifests' (rows below); the GPU Operator's DaemonSets ask for nothing
 * (resources: {} in the values of its chart, v26.7.0), only node feature discovery does. */
#include "base/str.h"
#include "plan/feasible.h"
#include "plan/feasible/feasible_int.h"
#include "plan/plan.h"

#include <ctype.h>
#include <stdlib.h>

enum {
    MIB = 1 << 20,
    SLURM_MIB_MIN = 4096,   /* for the system, at least */
    SLURM_KEPT_PERCENT = 4, /* firmware, kernel and daemons; a machine that reports less than
                               RealMemory is taken out of service by slurmctld */
    SHIFT_KEPT_CPU_M = 500, /* systemReserved that OpenShift's worker pool has by default */
    SHIFT_KEPT_MIB = 1024,
    SHIFT_SIZED_MINOR = 21, /* 4.21 */
    SHIFT_FIRST_MIB = 8192,
    SHIFT_MIDDLE_MIB = 122880,
    SHARES_MAX = 48, /* clients that MPS has at a GPU */
};

/* ---- MIG ---- */

static bool group_has_mig(const struct spec_node *n)
{
    return n && n->gpu && n->gpus_per_node && n->gpu->sharing == SPEC_SHARING_MIG &&
           n->gpu->mig_profile;
}

static double gpu_gb(const struct spec_node *n)
{
    struct plan_gpu gpu;

    if (n->gpu->memory_bytes.known)
        return (double)n->gpu->memory_bytes.v / 1e9;
    return plan_gpu_by_name(n->gpu->model, &gpu, NULL) ? 0 : (double)gpu.mem_bytes / 1073741824.0;
}

/* A GPU has 7 compute and 8 memory slices (A30 and RTX PRO 6000: 4 of each).  "2g.20gb" takes two
 * compute slices and as many memory slices as its gigabytes are eighths of the GPU's; media
 * extensions are there once. */
int64_t feasible_mig_instances(const struct spec_node *n)
{
    char *end;
    long compute, gb, parts;
    double all;
    bool quarters;

    if (!group_has_mig(n))
        return 0;
    compute = strtol(n->gpu->mig_profile, &end, 10);
    if (compute < 1 || end[0] != 'g' || end[1] != '.')
        return 1; /* not of this form: whoever reads the profile says so */
    gb = strtol(end + 2, &end, 10);
    if (strstr(end, "+me"))
        return 1;
    all = gpu_gb(n);
    quarters = str_starts(n->gpu->model, "A30") || strstr(n->gpu->model, "PRO 6000") ||
               strstr(n->gpu->model, "PRO-6000");
    parts = quarters ? 4 : 8;
    long by_compute = (quarters ? 4 : 7) / compute;
    long slices = all > 0 ? (long)((double)gb * (double)parts / all + 0.5) : 1;
    long by_memory = parts / (slices > 0 ? slices : 1);
    long count = by_compute < by_memory || all <= 0 ? by_compute : by_memory;

    return count > 0 ? count : 1;
}

int64_t feasible_gpus(const struct spec_node *n)
{
    int64_t mig = feasible_mig_instances(n);

    return n->gpus_per_node * (mig ? mig : 1);
}

const char *feasible_mig_name(struct arena *a, const struct spec_node *n)
{
    char *name = arena_strdup(a, n->gpu->mig_profile);

    for (char *p = name; *p; p++)
        if (*p == '+')
            *p = '.';
    return name;
}

/* ---- machines ---- */

int64_t feasible_slurm_mib(const struct spec_node *n)
{
    int64_t all = n->memory_bytes.v / MIB, kept = all * SLURM_KEPT_PERCENT / 100;

    if (kept < SLURM_MIB_MIN)
        kept = SLURM_MIB_MIN < all / 2 ? SLURM_MIB_MIN : all / 2;
    return all - kept;
}

static bool group_has_sriov(const struct spec *s, const struct spec_node *n)
{
    for (size_t i = 0; i < s->fabric_count; i++)
        if (s->fabrics[i].sriov && spec_group_on(n, &s->fabrics[i]))
            return true;
    return false;
}

static void daemons_sum(const struct spec *s, const struct spec_node *n,
                        enum feasible_system system, struct feasible_room *r)
{
    bool kube = system == FEASIBLE_KUBERNETES;
    bool operator= !s->targets.kubernetes || s->targets.kubernetes->gpu_operator;
    bool sriov = group_has_sriov(s, n);
    const struct {
        bool there;
        int64_t cpu_m, mib;
    } rows[] = {
        { kube, 250, 0 }, /* the network plug-in: calico-node */
        { kube && s->agent.enabled, FEASIBLE_AGENT_CPU_M, FEASIBLE_AGENT_MIB },
        { kube && n->role == SPEC_ROLE_CONTROL, 650, 100 }, /* etcd and kubeadm's static pods */
        { kube && operator, 5, 64 },                        /* node-feature-discovery-worker */
        { kube && sriov, 310, 250 },                        /* SR-IOV operator's daemons, Multus */
        { !kube, 300, 2048 }, /* OpenShift: OVN, Multus, DNS, node exporter, tuned ... */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        if (rows[i].there) {
            r->daemons_cpu_m += rows[i].cpu_m;
            r->daemons_mib += rows[i].mib;
        }
}

static struct maybe room_less(struct maybe all, int64_t kept)
{
    return !all.known ? all : maybe_of(all.v > kept ? all.v - kept : 0);
}

/* From 4.21 on a machine of OpenShift keeps what its size asks for: a GiB, 6 % of the memory from 8
 * to 120 GiB and 2 % of what is above; 60m, and 12m for each further thread. */
static void shift_kept(const struct spec *s, const struct spec_node *n, struct feasible_room *r)
{
    const char *version = s->targets.openshift ? s->targets.openshift->version : NULL;
    int64_t mib = maybe_or(r->memory_mib, 0), cpus = maybe_or(r->cpu_m, 0) / 1000;
    int64_t middle = (mib < SHIFT_MIDDLE_MIB ? mib : SHIFT_MIDDLE_MIB) - SHIFT_FIRST_MIB;

    r->kept_cpu_m = SHIFT_KEPT_CPU_M;
    r->kept_mib = SHIFT_KEPT_MIB;
    if (n->role == SPEC_ROLE_CONTROL || !version || !str_starts(version, "4.") ||
        strtol(version + 2, NULL, 10) < SHIFT_SIZED_MINOR)
        return;
    if (60 + 12 * (cpus - 1) > r->kept_cpu_m)
        r->kept_cpu_m = 60 + 12 * (cpus - 1);
    r->kept_mib += middle > 0 ? middle * 6 / 100 : 0;
    r->kept_mib += mib > SHIFT_MIDDLE_MIB ? (mib - SHIFT_MIDDLE_MIB) * 2 / 100 : 0;
}

struct feasible_room feasible_room_of(const struct spec *s, const struct spec_node *n,
                                      enum feasible_system system)
{
    struct feasible_room r = { .gpus = feasible_gpus(n) };
    bool kube = system == FEASIBLE_KUBERNETES;

    if (n->cpu_cores.known)
        r.cpu_m =
            maybe_of(n->cpu_cores.v * 1000 * (system == FEASIBLE_SLURM ? 1 : n->threads_per_core));
    if (n->memory_bytes.known)
        r.memory_mib =
            maybe_of(system == FEASIBLE_SLURM ? feasible_slurm_mib(n) : n->memory_bytes.v / MIB);
    if (system == FEASIBLE_HOST)
        r.gpus = n->gpus_per_node; /* by number: instances of MIG have none */
    if (system == FEASIBLE_SLURM || system == FEASIBLE_HOST)
        return r;
    r.kept_cpu_m = FEASIBLE_KUBELET_CPU_M;
    r.kept_mib = FEASIBLE_KUBELET_MIB;
    if (!kube)
        shift_kept(s, n, &r);
    r.kept_mib += FEASIBLE_EVICTION_MIB;
    daemons_sum(s, n, system, &r);
    r.cpu_m = room_less(r.cpu_m, r.kept_cpu_m + r.daemons_cpu_m);
    r.memory_mib = room_less(r.memory_mib, r.kept_mib + r.daemons_mib);
    return r;
}

/* ---- who may be where ---- */

bool feasible_on_kubernetes(const struct spec_component *c, const struct feasible_opts *opts)
{
    return c->target == SPEC_TARGET_KUBERNETES || (opts && opts->kubernetes_by_name && c->image);
}

static bool group_repels(const struct spec_node *n)
{
    for (size_t i = 0; i < n->taints.count; i++)
        if (!str_ends(n->taints.items[i], ":PreferNoSchedule"))
            return true;
    return false;
}

static bool group_is_worker(const struct spec_node *n)
{
    return n->count > 0 && (n->role == SPEC_ROLE_GPU || n->role == SPEC_ROLE_CPU);
}

static size_t groups_open(const struct spec *s, const struct spec_node **out)
{
    const struct spec_node *only = spec_node_of(s, NULL);
    size_t count = 0;

    for (size_t i = 0; i < s->node_count; i++) {
        const struct spec_node *n = &s->nodes[i];

        /* taints of the only group with GPUs are tolerated */
        if (group_is_worker(n) && (n == only || !group_repels(n)))
            out[count++] = n;
    }
    return count;
}

/* Groups whose machines have so many whole GPUs, or else all with GPUs: then there is no room. */
static size_t serve_groups(const struct spec *s, int64_t gpus, const struct spec_node **out)
{
    size_t count = 0;

    for (size_t i = 0; i < s->node_count; i++)
        if (s->nodes[i].gpus_per_node >= gpus && !feasible_mig_instances(&s->nodes[i]))
            out[count++] = &s->nodes[i];
    for (size_t i = 0; !count && i < s->node_count; i++)
        if (s->nodes[i].gpus_per_node)
            out[count++] = &s->nodes[i];
    out[count] = NULL;
    return count;
}

size_t feasible_groups(const struct spec *s, const struct spec_component *c,
                       const struct spec_node **out)
{
    bool gpus = c ? c->gpus || c->pools.count : feasible_serve_request(s).gpus;
    size_t count = 0;

    if (!gpus && !(c && c->nodes))
        return groups_open(s, out);
    if (c && !c->nodes && c->pools.count) {
        const struct spec_pool *p = spec_pool_find(s, c->pools.items[0]);

        out[0] = spec_node_of(s, p ? p->nodes : NULL);
        return out[0] != NULL;
    }
    if (!c)
        return serve_groups(s, feasible_serve_request(s).gpus, out);
    while ((out[count] = spec_component_group(s, c, count)) != NULL)
        count++;
    return count;
}

bool feasible_takes_machines(const struct spec *s, const struct spec_component *c)
{
    const struct spec_node *n;
    size_t i = 0;

    for (; (n = spec_component_group(s, c, i)) != NULL; i++)
        if (c->gpus != feasible_gpus(n))
            return false;
    return c->gpus && i;
}

bool feasible_apart(const struct spec *s, const struct spec_component *c,
                    enum feasible_system system)
{
    bool training = c->kind == SPEC_COMPONENT_TRAINING;
    bool batch = c->kind == SPEC_COMPONENT_BATCH;

    if (system == FEASIBLE_SLURM)
        return true;
    if (system == FEASIBLE_OPENSHIFT)
        return training || (batch && c->nodes_per_replica * c->replicas > 1);
    if (c->command.count && (training || (batch && c->nodes_per_replica > 1)))
        return true; /* the launch script counts machines */
    return feasible_takes_machines(s, c);
}

static int64_t gpu_bytes(const struct spec_node *n) /* 0: not known */
{
    struct plan_gpu gpu;

    if (!n->gpu)
        return 0;
    if (n->gpu->memory_bytes.known)
        return n->gpu->memory_bytes.v;
    return plan_gpu_by_name(n->gpu->model, &gpu, NULL) ? 0 : (int64_t)gpu.mem_bytes;
}

static int64_t pools_sum(const struct spec *s, const struct spec_component *c)
{
    int64_t sum = 0;

    for (size_t i = 0; i < c->pools.count; i++) {
        const struct spec_pool *p = spec_pool_find(s, c->pools.items[i]);

        sum += p ? p->size_bytes : 0;
    }
    return sum;
}

/* The device plug-in cuts a GPU evenly (MPS), or not at all (time slices): as many pods meet there
 * as the largest may. */
int64_t feasible_shares(const struct spec *s, const struct spec_node *n,
                        const struct feasible_opts *opts)
{
    int64_t pods = 0, largest = 0, count;

    for (size_t i = 0; !feasible_mig_instances(n) && i < s->component_count; i++) {
        const struct spec_component *c = &s->components[i];

        if (!feasible_on_kubernetes(c, opts) || c->gpus || !c->pools.count ||
            !spec_component_on(s, c, n))
            continue;
        pods += c->replicas;
        largest = pools_sum(s, c) > largest ? pools_sum(s, c) : largest;
    }
    if (!pods || !largest || !gpu_bytes(n))
        return pods ? pods + 1 : 0; /* how large a GPU is, is not known */
    count = gpu_bytes(n) / largest;
    return count < 1 ? 1 : count > SHARES_MAX ? SHARES_MAX : count;
}

/* As many GPUs as the models that no component serves are loaded on. */
struct feasible_request feasible_serve_request(const struct spec *s)
{
    int64_t least = INT64_MAX, most = 0;
    struct feasible_request request = { .cpu_m = maybe_of(FEASIBLE_SERVE_CPU_M),
                                        .memory_mib = maybe_of(FEASIBLE_SERVE_MIB) };

    for (size_t i = 0; i < s->node_count; i++) {
        int64_t gpus = s->nodes[i].gpus_per_node;

        most = gpus > most ? gpus : most;
        least = gpus && gpus < least ? gpus : least;
    }
    for (size_t i = 0; i < s->model_count; i++) {
        const struct spec_model *m = &s->models[i];

        if (m->component || m->device == SPEC_DEVICE_CPU ||
            (!m->gpus && !m->pool && m->device != SPEC_DEVICE_GPU))
            continue;
        for (int64_t g = 0; g < most; g++) /* unset: all, of whichever machine it is */
            if ((m->gpus ? spec_range_has(m->gpus, g) : g < least) && g + 1 > request.gpus)
                request.gpus = g + 1;
    }
    return request;
}
