/* SPDX-License-Identifier: MIT */
/* env: the environment that makes NCCL's choice right.
 *
 * One row of steps[] a variable, in the order they are printed.  A step says what
 * the variable should be and why, as if nobody had set it; a value that is there
 * already wins over it.  Minimal mode keeps what NCCL would not find itself and
 * says of the others why they stay unset; full mode writes everything down. */
#include "nccl/env/env_int.h"

#include "base/str.h"

#include <ctype.h>

struct env_verdict env_unset(const char *reason)
{
    return (struct env_verdict){ .said = true, .kind = NCCL_LEFT_UNSET, .reason = reason };
}

struct env_verdict env_set(enum nccl_kind kind, const char *value, const char *reason)
{
    return (struct env_verdict){ .said = true, .kind = kind, .value = value, .reason = reason };
}

struct env_verdict env_pin(const struct env_run *r, const char *value, const char *reason)
{
    return r->full ? env_set(NCCL_PINNED, value, reason) : env_unset(reason);
}

struct env_verdict env_nothing(void)
{
    return (struct env_verdict){ 0 };
}

/* "mlx5_0:1,mlx5_1:1" of the wanted ports. */
static const char *port_list(const struct env_run *r, const char *prefix)
{
    struct buf b = { 0 };

    for (size_t i = 0, n = 0; i < r->c.ports_count; i++)
        if (r->c.ports[i].wanted)
            buf_addf(&b, "%s%s:%lld", n++ ? "," : prefix, r->c.ports[i].dev,
                     (long long)r->c.ports[i].port);
    return nccl_text(r->a, &b);
}

bool env_is_tcp(const struct env_run *r)
{
    return !r->wanted && !r->c.efa && !(ports_hidden(r->hw) && r->hw->place.container) &&
           r->c.peer_if != NULL && !r->c.stop_why;
}

/* ---- the job ---- */

static struct env_verdict gpus_per_node(const struct env_run *r)
{
    if (r->c.gpus.known)
        return r->full ? env_set(NCCL_PINNED, arena_printf(r->a, "%lld", (long long)r->c.gpus.v),
                                 r->c.gpus_why)
                       : env_nothing();
    return r->full || r->hw->gpus_count ? env_unset(r->c.gpus_why) : env_nothing();
}

static struct env_verdict transport_of(const struct env_run *r)
{
    if (!r->full)
        return env_nothing();
    if (r->wanted)
        return env_set(NCCL_PINNED, "rdma",
                       arena_printf(r->a, "%zu RDMA port%s will carry the traffic between nodes.",
                                    r->wanted, r->wanted == 1 ? "" : "s"));
    if (str_eq(r->c.net, "efa"))
        return env_set(NCCL_PINNED, "efa", "The aws-ofi-nccl plug-in was found and drives EFA.");
    if (r->c.efa && doubt_plugin_off(r->hw))
        return env_unset(r->c.net_why);
    if (r->c.efa)
        return env_unset(
            "With the aws-ofi-nccl plug-in traffic goes over EFA, without it over TCP; "
            "which of the two cannot be told from here.");
    if (env_is_tcp(r))
        return env_set(NCCL_PINNED, "tcp",
                       r->off             ? r->off
                       : r->c.ports_count ? "No RDMA port can be used from here."
                                          : "There is no RDMA device.");
    return env_unset(ports_hidden(r->hw)
                         ? "This container was not given the RDMA devices, so what the "
                           "training container will use cannot be known."
                         : r->c.peer_why);
}

static int64_t slurm_number(const struct env_run *r, const char *name)
{
    const char *v = nccl_env_of(r->hw, name);
    int64_t n;

    return v && str_to_i64(v, 10, &n) && n > 0 ? n : 0;
}

/* What Slurm gives a task, shared by the ranks of the task: one where srun starts them,
 * several where torchrun does so in a task of its own. */
static struct env_verdict omp_slurm(const struct env_run *r)
{
    int64_t task = slurm_number(r, "SLURM_CPUS_PER_TASK");
    int64_t tasks = slurm_number(r, "SLURM_NTASKS_PER_NODE");
    int64_t gpus = maybe_or(r->c.gpus, 1), ranks = 1, each;

    if (!tasks && r->hw->place.cpus_usable.known && task >= r->hw->place.cpus_usable.v)
        tasks = 1; /* one task has all there is */
    if (tasks && tasks < gpus)
        ranks = gpus / tasks;
    each = task / ranks > 0 ? task / ranks : 1;
    return env_set(
        NCCL_PINNED, arena_printf(r->a, "%lld", (long long)each),
        arena_printf(r->a,
                     "SLURM_CPUS_PER_TASK=%lld: what Slurm gives each task, with %lld rank%s "
                     "in a task.  torchrun would set 1.",
                     (long long)task, (long long)ranks, ranks == 1 ? "" : "s"));
}

static struct env_verdict omp_threads(const struct env_run *r)
{
    int64_t cpus = maybe_or(r->hw->place.cpus_usable, 0), gpus, each;

    if (!r->full)
        return env_nothing();
    if (slurm_number(r, "SLURM_CPUS_PER_TASK"))
        return omp_slurm(r);
    if (!r->c.gpus.known)
        return env_unset(r->hw->gpus_count || r->hw->place.container
                             ? "It is the usable CPUs divided by the GPUs, and the number of GPUs "
                               "cannot be known."
                             : r->c.gpus_why);
    if (cpus <= 0)
        return env_unset("How many CPUs may be used here is not known.");
    gpus = r->all ? r->all->gpus.v : r->c.gpus.v;
    each = cpus / gpus;
    return env_set(
        NCCL_PINNED, arena_printf(r->a, "%lld", (long long)(each > 0 ? each : 1)),
        arena_printf(r->a,
                     "%lld usable CPU%s (affinity, cpuset and quota) for %lld local "
                     "rank%s, one for each GPU%s.  torchrun would set 1.",
                     (long long)cpus, cpus == 1 ? "" : "s", (long long)gpus, gpus == 1 ? "" : "s",
                     r->all ? ", also those that CUDA_VISIBLE_DEVICES leaves to others" : ""));
}

/* ---- RDMA devices ---- */

/* Active RoCE ports, and none has an address in this namespace. */
static bool roce_without_address(const struct env_run *r)
{
    for (size_t i = 0; i < r->c.ports_count; i++)
        if (r->c.ports[i].picked)
            return !r->wanted;
    return false;
}

static struct env_verdict ib_disable(const struct env_run *r)
{
    if (r->c.efa)
        return r->full ? env_unset(
                             "EFA is not driven by NCCL's RDMA code, which this variable is about.")
                       : env_nothing();
    if (roce_without_address(r))
        return env_set(
            NCCL_REQUIRED, "1",
            ports_all_iwarp(r->hw, &r->c)
                ? "NCCL would take the active ports for RoCE, but they are iWARP (their node type "
                  "is RNIC), which it cannot connect, so every connection would fail."
                : "NCCL would take the active RoCE ports, but none of their addresses belongs to a "
                  "network device in this namespace, so every connection would fail.");
    if (r->wanted)
        return r->full ? env_set(NCCL_PINNED, "0", "RDMA ports are active and usable.")
                       : env_nothing();
    if (env_is_tcp(r))
        return env_pin(r, "1",
                       r->off ? r->off
                       : r->c.ports_count
                           ? "No RDMA port can be used, and NCCL goes over TCP."
                           : arena_printf(r->a,
                                          "There is no RDMA device, and NCCL goes over "
                                          "TCP.%s%s%s%s",
                                          r->c.bare_why ? "  " : "",
                                          r->c.bare_why ? r->c.bare_why : "",
                                          r->c.bare_remedy ? "  " : "",
                                          r->c.bare_remedy ? r->c.bare_remedy : ""));
    if (r->c.stop_why)
        return env_unset(r->c.stop_why);
    return r->full ? env_unset("Whether RDMA can be used cannot be told from here.")
                   : env_nothing();
}

static bool is_dropped(const struct nccl_port *p, const char *why)
{
    return p->picked && !p->wanted && (!why || str_eq(p->wanted_why, why));
}

/* "mlx5_8:1, mlx5_9:1 (it is slower)", one group for each reason. */
static const char *dropped_text(const struct env_run *r)
{
    struct buf b = { 0 };

    for (size_t i = 0; i < r->c.ports_count; i++) {
        const char *why = r->c.ports[i].wanted_why;
        bool said = false;

        for (size_t k = 0; k < i; k++)
            said = said || is_dropped(&r->c.ports[k], why);
        if (said || !is_dropped(&r->c.ports[i], why))
            continue;
        for (size_t k = i; k < r->c.ports_count; k++)
            if (is_dropped(&r->c.ports[k], why))
                buf_addf(&b, "%s%s:%lld", b.len ? ", " : "", r->c.ports[k].dev,
                         (long long)r->c.ports[k].port);
        /* "It is slower." inside a sentence: "(it is slower)"; NCCL stays NCCL */
        buf_addf(&b, " (%c%.*s)", islower((unsigned char)why[1]) ? tolower(why[0]) : why[0],
                 (int)strlen(why) - 2, why + 1);
    }
    return nccl_text(r->a, &b);
}

/* "400 Gb/s", "200 and 400 Gb/s" of the wanted ports. */
static const char *rates_text(const struct env_run *r)
{
    struct maybe least = maybe_none(), most = maybe_none();

    for (size_t i = 0; i < r->c.ports_count; i++) {
        struct maybe rate = r->c.ports[i].rate_mbps;

        if (!r->c.ports[i].wanted || !rate.known)
            continue;
        least = !least.known || rate.v < least.v ? rate : least;
        most = !most.known || rate.v > most.v ? rate : most;
    }
    if (least.known && least.v != most.v)
        return arena_printf(r->a, "%s to %s", nccl_rate_text(r->a, least),
                            nccl_rate_text(r->a, most));
    return nccl_rate_text(r->a, most);
}

static const char *layer_text(const struct env_run *r)
{
    bool ib = false;

    for (size_t i = 0; i < r->c.ports_count; i++)
        ib = ib || (r->c.ports[i].wanted && str_eq(r->c.ports[i].link_layer, "InfiniBand"));
    return !r->roce ? "InfiniBand" : ib ? "InfiniBand and RoCE" : "RoCE";
}

/* Wanted ports behind a degraded link: NCCL counts on all of their rate. */
static const char *hca_degraded(const struct env_run *r)
{
    struct buf b = { 0 };

    FOR_EACH(const struct nccl_port, p, r->c.ports) {
        if (p->wanted && p->pcie_mbps.known)
            buf_addf(&b, "%s%s:%lld (%lld Gb/s)", b.len ? ", " : "", p->dev, (long long)p->port,
                     (long long)(p->pcie_mbps.v / 1000));
    }
    if (!b.len)
        return "";
    return arena_printf(r->a,
                        "  The PCIe link of %s is degraded; NCCL does not see that, and every ring "
                        "waits for it.",
                        nccl_text(r->a, &b));
}

static const char *hca_score(const struct env_run *r)
{
    return arena_printf(r->a, "%s%s%s%s", r->c.scores_count ? "  Each GPU's share: " : "",
                        r->c.scores_count ? r->c.score_text : "", r->c.scores_count ? "." : "",
                        hca_degraded(r));
}

/* More active ports than NCCL takes: which, and why. */
static const char *hca_beyond(const struct env_run *r)
{
    size_t active = 0;

    for (size_t i = 0; i < r->c.ports_count; i++)
        active += r->c.ports[i].takes;
    return active <= nccl_ports_max(r->hw)
               ? ""
               : arena_printf(r->a, "  %zu ports are active, and NCCL takes the first %zu.", active,
                              nccl_ports_max(r->hw));
}

/* NCCL takes what is wanted, and nothing else. */
static struct env_verdict hca_all(const struct env_run *r)
{
    const char *all = *hca_beyond(r) ? "The first" : "All";

    if (r->c.gone_why)
        return env_unset(r->c.gone_why);
    if (r->c.all_why)
        return env_unset(
            arena_printf(r->a,
                         "%s %zu active ports are left to NCCL, since naming others would "
                         "be worse.  %s%s%s",
                         all, r->wanted, r->c.all_why, hca_beyond(r), hca_score(r)));
    if (r->wanted == 1)
        return env_pin(
            r, port_list(r, "="),
            arena_printf(r->a,
                         "The one active %s port (%s, %s) is the right one, and NCCL takes "
                         "it by itself.%s",
                         layer_text(r), port_list(r, ""), rates_text(r), hca_score(r)));
    return env_pin(
        r, port_list(r, "="),
        arena_printf(r->a,
                     "%s %zu active %s ports (%s, %s) are the right ones%s, and NCCL takes "
                     "them by itself.%s%s",
                     all, r->wanted, layer_text(r), port_list(r, ""), rates_text(r),
                     r->c.doubts_count > r->c.mnnvl_doubt ? " as far as can be told" : "",
                     hca_beyond(r), hca_score(r)));
}

static struct env_verdict ib_hca(const struct env_run *r)
{
    if (r->c.efa)
        return env_unset(
            "This machine has AWS EFA, which NCCL's own RDMA code cannot drive.  The "
            "aws-ofi-nccl plug-in is needed and brings its own settings; NCCL_IB_* has no "
            "effect on it.");
    if (r->c.ports_count == 0)
        return r->full ? env_unset("There is no RDMA device.") : env_nothing();
    if (ports_hidden(r->hw))
        return env_unset(
            "RDMA devices are in sysfs, but /dev/infiniband has none: this container cannot "
            "open them, and which ones the training container gets cannot be known.");
    if (!r->wanted)
        return env_unset(r->off ? r->off : "No RDMA port can be used from here.");
    for (size_t i = 0; i < r->c.ports_count; i++)
        if (r->c.ports[i].picked && !r->c.ports[i].wanted)
            return env_set(
                NCCL_REQUIRED, port_list(r, "="),
                arena_printf(r->a,
                             "The %zu port%s of the %s fabric at %s.  NCCL would take every "
                             "active port, also %s.%s",
                             r->wanted, r->wanted == 1 ? "" : "s", layer_text(r), rates_text(r),
                             dropped_text(r), hca_score(r)));
    return hca_all(r);
}

/* ---- distances ---- */

struct need {
    enum nccl_level level; /* serves every GPU: the worst of their nearest wanted NICs, SYS set
                       * aside; LEVEL_NONE: no distance is known */
    bool sys;              /* some GPU has nothing nearer */
    enum nccl_level dflt;  /* what NCCL allows by itself */
    bool some;             /* ... which is enough for some GPU */
};

static struct need level_needed(const struct env_run *r)
{
    struct need n = { .level = LEVEL_NONE, .dflt = level_gdr_default(r->hw) };

    for (size_t gpu = 0; gpu < r->hw->gpus_count; gpu++) {
        enum nccl_level best = LEVEL_NONE;

        if (r->c.gpus.known && !r->c.gpu_used[gpu])
            continue;
        for (size_t i = 0; i < r->c.ports_count; i++) {
            enum nccl_level l =
                r->c.ports[i].wanted ? level_gpu_nic(r->hw, gpu, r->c.ports[i].dev) : LEVEL_NONE;
            if (l != LEVEL_NONE && (best == LEVEL_NONE || l < best))
                best = l;
        }
        n.sys = n.sys || best == LEVEL_SYS;
        n.some = n.some || (best != LEVEL_NONE && best <= n.dflt);
        if (best != LEVEL_SYS && best > n.level)
            n.level = best;
    }
    return n;
}

/* The way of the GPU that NCCL takes with the wanted ports; NULL: not known. */
static const struct nccl_way *gpu_way(const struct env_run *r, size_t gpu)
{
    for (size_t i = 0; i < r->c.scores_count; i++)
        if (r->c.scores[i].gpu == gpu && r->c.scores[i].ours.path)
            return &r->c.scores[i].ours;
    return NULL;
}

/* Some GPU's data goes through host memory by NCCL's default, and PHB would mend it: its way
 * leads over the root complex, and no neighbour at the NIC's switch takes it (PXN). */
static bool level_falls_short(const struct env_run *r)
{
    bool known = false;

    for (size_t gpu = 0; gpu < r->hw->gpus_count; gpu++) {
        const struct nccl_way *way = gpu_way(r, gpu);

        if (r->c.gpus.known && !r->c.gpu_used[gpu])
            continue;
        known = known || way;
        for (size_t i = 0; way && i < r->c.gdr_count; i++) {
            const struct nccl_gdr *g = &r->c.gdr[i];

            if (g->gpu == gpu && str_eq(g->path, "PHB") && !maybe_is(g->use, 1) &&
                nccl_way_has(way, g->dev))
                return true;
        }
    }
    return !known;
}

/* Every GPU's way ends at a NIC behind its own switch or a neighbour's. */
static bool ways_relayed(const struct env_run *r)
{
    bool known = false;

    for (size_t gpu = 0; gpu < r->hw->gpus_count; gpu++) {
        const struct nccl_way *way = gpu_way(r, gpu);

        if (r->c.gpus.known && !r->c.gpu_used[gpu])
            continue;
        if (!way || (level_of_path(way->path) > LEVEL_PXB && !str_eq(way->path, "PXN")))
            return false;
        known = true;
    }
    return known;
}

static const char *relayed_text(const struct env_run *r, const char *dflt)
{
    return arena_printf(r->a,
                        "Every GPU has GPUDirect RDMA by NCCL's default (%s): those without a NIC "
                        "at their switch send by way of NVLink and a neighbour that has one (PXN).",
                        dflt);
}

static const char *detour_text(const struct env_run *r)
{
    return r->c.detour_why ? arena_printf(r->a, "  %s", r->c.detour_why) : "";
}

/* A GPU for which NCCL takes a farther NIC than the nearest, since that is wider; NULL: none.  The
 * level does not change which NIC it takes. */
static const struct nccl_score *way_beyond(const struct env_run *r, enum nccl_level dflt)
{
    for (size_t i = 0; i < r->c.scores_count; i++) {
        const char *path = r->c.scores[i].ours.path;

        if ((str_eq(path, "PHB") || str_eq(path, "SYS")) && level_of_path(path) > dflt)
            return &r->c.scores[i];
    }
    return NULL;
}

/* Near enough for NCCL's default. */
static struct env_verdict gdr_covered(const struct env_run *r, const struct need *n)
{
    const char *dflt = level_name(n->dflt);
    const struct nccl_score *far = n->sys ? NULL : way_beyond(r, n->dflt);

    if (far)
        return env_pin(
            r, dflt,
            arena_printf(r->a,
                         "Every GPU has a NIC at %s or nearer, but NCCL takes the widest "
                         "way: GPU %lld and others like it send by %s at %s, beyond its "
                         "default (%s), through host memory.",
                         level_name(n->level), (long long)far->number, far->ours.ports,
                         far->ours.path, dflt));
    if (n->sys && ways_relayed(r))
        return env_pin(r, dflt, relayed_text(r, dflt));
    if (n->sys)
        return env_pin(
            r, dflt,
            arena_printf(r->a,
                         "Some GPUs have a NIC at %s or nearer, which NCCL's default (%s) "
                         "covers; data of those that NCCL takes to be across the sockets from "
                         "every NIC (SYS) goes through host memory or a neighbour's NIC.",
                         level_name(n->level), dflt));
    return env_pin(r, dflt,
                   arena_printf(r->a,
                                "Every GPU has a NIC at %s or nearer, which NCCL's default (%s) "
                                "covers.%s",
                                level_name(n->level), dflt, detour_text(r)));
}

/* Why a GPU has nothing nearer than SYS. */
static const char *far_text(const struct env_run *r)
{
    bool near = true, told = true;

    for (size_t g = 0; g < r->hw->gpus_count; g++) {
        const struct nccl_near *n = &r->c.near[g];

        if (!n->dev || (r->c.gpus.known && !r->c.gpu_used[g]))
            continue;
        near = near && n->same_socket;
        told = told && (hw_distance_get(r->hw, g, n->dev) || hw_nccl_way_nic(r->hw, g, n->dev));
    }
    if (near)
        return "Every GPU's nearest NIC is in another NUMA node of its socket, which NCCL takes "
               "for another socket (SYS).  SYS would allow GPUDirect RDMA there, and to NICs of "
               "the other socket as well: set it only after measuring, or give each socket one "
               "NUMA node (NPS1, SNC off).";
    if (!told)
        return "The firmware tells no NUMA node of some GPUs or NICs, and NCCL takes that for "
               "another socket (SYS).  SYS would allow GPUDirect RDMA there: set it only after "
               "measuring, or give NCCL the topology in NCCL_TOPO_FILE.";
    return "Every GPU is across the socket from its nearest NIC.  SYS would allow GPUDirect RDMA "
           "there, but it is often slower than host memory: set it only after measuring.";
}

static struct env_verdict gdr_level_of(const struct env_run *r)
{
    const char *support = r->c.gdr_support;
    struct need need;

    if (!r->wanted)
        return r->full && !r->c.efa ? env_unset("GPUDirect RDMA needs an RDMA port.")
                                    : env_nothing();
    if (r->c.gone_why)
        return env_unset(
            "The ports that belong to the GPUs are down, and those that are up say nothing "
            "of the level they need.");
    if (nccl_gpus_without_gdr(r->hw))
        return env_unset("GeForce GPUs have no GPUDirect RDMA: data goes through host memory, "
                         "whatever the level.");
    if (str_eq(support, "none"))
        return env_unset(
            "GPUDirect RDMA is not possible here: no peer-memory module is loaded and "
            "dma-buf cannot be used.  Every byte is copied through host memory; on four "
            "400 Gb/s NICs that was measured as 35 instead of 195 GB/s.  Load "
            "nvidia_peermem or use the open kernel driver.");
    need = level_needed(r);
    if (need.level == LEVEL_NONE)
        return env_unset(need.sys ? far_text(r)
                                  : "The PCIe distance between GPUs and NICs is not known here.");
    if (need.level <= need.dflt)
        return gdr_covered(r, &need);
    if (level_on_c2c(r->hw) && !nccl_older_than(r->hw, 2, 26))
        return env_unset(
            "NCCL_NET_GDR_C2C decides on the way over the GPUs' chip-to-chip link, not "
            "the level.");
    if (hw_nccl_topo_unread(r->hw))
        return env_unset(
            "NCCL takes the distances from NCCL_TOPO_FILE where it can, and that file could not be "
            "followed here: whether its default reaches far enough cannot be told.");
    if (r->c.topo_lost)
        return env_unset(arena_printf(r->a,
                                      "NCCL does not find %s in the topology file %s, and has them "
                                      "farther away than they are: mend the file, the level "
                                      "follows.",
                                      r->c.topo_lost, r->hw->nccl.topo_file));
    if (!support)
        return env_unset(
            "GPU and NIC meet in the root complex (PHB), beyond NCCL's default, but whether "
            "GPUDirect RDMA is possible cannot be told: no peer-memory module is loaded and "
            "dma-buf support is not known.");
    if (!level_falls_short(r))
        return ways_relayed(r)
                   ? env_pin(r, level_name(need.dflt), relayed_text(r, level_name(need.dflt)))
                   : env_unset("Whether NCCL's default reaches far enough cannot be told here.");
    if (str_eq(r->hw->limits.iommu_mode, "translated"))
        return env_unset(
            "GPU and NIC meet in the root complex (PHB), beyond NCCL's default (PXB), so "
            "data is copied through host memory.  PHB would allow GPUDirect RDMA there, "
            "but the IOMMU translates addresses, which makes it slow or fails: let "
            "it pass them through first, as `stoker detect --check` says.");
    if (r->c.guest)
        return env_unset(
            "This virtual machine shows GPU and NIC at the root complex (PHB), beyond "
            "NCCL's default (PXB), so data is copied through host memory.  On the host "
            "they may be at one switch or across the sockets, and its IOMMU and ACS "
            "decide whether GPUDirect RDMA works: give NCCL the topology "
            "(NCCL_TOPO_FILE), or set PHB only after measuring.");
    return env_set(
        NCCL_REQUIRED, "PHB",
        arena_printf(
            r->a,
            "%s meet in the root complex (PHB), and NCCL's default stops at PCIe "
            "switches (PXB), so it would copy through host memory although %s is "
            "there.%s",
            need.some || need.sys ? "Some GPUs and their nearest NIC" : "GPU and NIC", support,
            need.sys ? "  Data of GPUs that NCCL takes to be across the sockets from them (SYS) "
                       "stays on the way through host memory."
                     : ""));
}

/* GPUs that CUDA_VISIBLE_DEVICES hides may be those of other ranks, and NCCL wants one level on
 * all: it is chosen for all GPUs of the machine. */
static struct env_verdict gdr_level(const struct env_run *r)
{
    struct env_run whole = *r;

    if (r->all)
        whole.c = *r->all;
    return gdr_level_of(&whole);
}

/* GPUs that reach their NICs by the CPU's chip-to-chip link: 2.26 has the way, off. */
static struct env_verdict gdr_c2c(const struct env_run *r)
{
    if (!r->wanted || !level_on_c2c(r->hw) || str_eq(r->c.gdr_support, "none"))
        return env_nothing();
    if (nccl_older_than(r->hw, 2, 26))
        return env_nothing(); /* NCCL_NET_GDR_LEVEL is the way there */
    if (nccl_older_than(r->hw, 2, 27))
        return env_set(
            NCCL_REQUIRED, "1",
            "NICs at the CPU reach GPU memory over the chip-to-chip link; NCCL 2.26 has that "
            "off unless told, 2.27 and newer have it on.");
    return env_pin(r, "1",
                   "NCCL reaches GPU memory over the chip-to-chip link by itself from 2.27 on.");
}

static struct env_verdict mnnvl_enable(const struct env_run *r)
{
    if (!r->c.mnnvl_why)
        return env_nothing();
    if (str_eq(r->c.mnnvl, "fails"))
        return env_set(
            NCCL_REQUIRED, "0",
            arena_printf(r->a,
                         "%s  Have nvidia-imex and a channel on every machine of the domain to "
                         "have NVLink between them, and leave this unset then.",
                         r->c.mnnvl_why));
    return str_eq(r->c.mnnvl, "on") ? env_pin(r, "2", r->c.mnnvl_why) : env_unset(r->c.mnnvl_why);
}

static struct env_verdict p2p_level(const struct env_run *r)
{
    size_t nvl = 0, unknown = 0, fails = 0, refused = 0;
    enum nccl_level limit = level_p2p_default(r->hw, &r->c), worst = LEVEL_NONE;
    const char *dflt = level_name(level_p2p_default(r->hw, &r->c));

    for (size_t i = 0; i < r->c.p2p_count; i++) {
        enum nccl_level l = level_of_path(r->c.p2p[i].path);

        nvl += l == LEVEL_NVL;
        unknown += l == LEVEL_NONE;
        fails += str_eq(r->c.p2p[i].transport, "fails");
        refused += l <= limit && !str_eq(r->c.p2p[i].transport, "p2p") && l > LEVEL_NVB;
        worst = l > worst ? l : worst;
    }
    if (!r->c.gpus.known)
        return r->full || r->hw->gpus_count ? env_unset(level_unknown_why(r->hw, &r->c))
                                            : env_nothing();
    if (r->c.gpus.v < 2)
        return r->full ? env_unset("One GPU has no peer.") : env_nothing();
    if (!r->c.p2p_count || unknown)
        return env_unset("How the GPUs are connected is not known.");
    if (nccl_env_int(r->hw, "NCCL_P2P_DISABLE", 0) == 1)
        return env_unset(arena_printf(r->a,
                                      "NCCL_P2P_DISABLE=1 keeps GPUs from each other's memory%s, "
                                      "whatever the level.",
                                      nvl ? ", over NVLink too" : ""));
    if (fails)
        return env_unset(
            arena_printf(r->a,
                         "NVLink joins %zu pair%s of GPUs whose peer access the driver "
                         "refuses: NCCL stops with an error.  Drain the machine until that "
                         "is mended; NCCL_IGNORE_DISABLED_P2P=1 goes on without NVLink "
                         "between them.",
                         fails, fails == 1 ? "" : "s"));
    if (nvl == r->c.p2p_count)
        return env_pin(r, "NVL", "NVLink joins every pair of GPUs, and NCCL uses it by itself.");
    if (worst <= LEVEL_PXB)
        return env_pin(r, dflt,
                       arena_printf(r->a,
                                    "%s  The farthest pair is at %s, which NCCL's default (%s) "
                                    "covers.%s",
                                    nvl ? "NVLink joins some pairs only." : "There is no NVLink.",
                                    level_name(worst), dflt, detour_text(r)));
    return env_pin(
        r, dflt,
        arena_printf(r->a, "%s  The farthest pair is at %s; NCCL's default (%s) %s%s",
                     nvl ? "NVLink joins some pairs only." : "There is no NVLink.",
                     level_name(worst), dflt,
                     refused ? "would allow direct copies there, but the driver refuses them, "
                               "and shared memory serves."
                     : str_eq(dflt, "SYS")
                         ? "allows direct copies there.  ACS or an IOMMU can break them at "
                           "that distance."
                         : "uses shared memory there.  ACS or an IOMMU can break direct "
                           "copies at that distance.",
                     detour_text(r)));
}

/* ---- network ---- */

static struct env_verdict cross_nic(const struct env_run *r)
{
    size_t rails = r->wanted && !r->c.gone_why ? ports_isolated_rails(r->hw, &r->c) : 0, down = 0;

    if (!rails)
        return env_nothing();
    for (size_t i = 0; i < r->c.ports_count; i++)
        down += r->c.ports[i].down;
    return env_set(
        NCCL_REQUIRED, "0",
        arena_printf(r->a,
                     "The %zu %s ports%s are rails, %s: a ring that crosses from one rail to "
                     "another could not connect.",
                     r->wanted + down, layer_text(r),
                     down ? arena_printf(r->a, " (%zu of them down)", down) : "",
                     rails >= r->wanted
                         ? "each in a subnet of its own that leads to no other"
                         : arena_printf(r->a, "in %zu subnets that lead to no other", rails)));
}

static struct env_verdict merge_vfs(const struct env_run *r)
{
    const char *why = doubt_topo_missed(r->hw, &r->c, r->a);
    return why ? env_set(NCCL_REQUIRED, "0", why) : env_nothing();
}

static struct env_verdict topo_file(const struct env_run *r)
{
    const struct hw_place *p = &r->hw->place;
    bool azure =
        p->vendor && str_starts(p->vendor, "Microsoft") && str_eq(p->product, "Virtual Machine");

    for (size_t i = 0; azure && i < r->hw->gpus_count; i++) {
        const char *name = r->hw->gpus[i].name;

        if (name && (strstr(name, "A100") || strstr(name, "H100") || strstr(name, "H200")))
            return env_unset(
                "This is an Azure virtual machine, which hides its PCIe switches.  Azure's "
                "HPC images bring a topology file for it (ndv4 or ndv5) and name it in "
                "/etc/nccl.conf; elsewhere copy it and set this variable.");
    }
    if (r->c.guest && r->wanted)
        return env_unset(
            "This virtual machine hides the PCIe switches of its host, and NCCL deals "
            "the NICs out as if all were as near.  Whoever runs the host knows which GPU "
            "and NIC share a switch: write that as a topology file and name it here, or "
            "put it at /var/run/nvidia-topologyd/virtualTopology.xml, which NCCL reads by "
            "itself.  Where NICs are not device 0 of a bus of their own, set "
            "NCCL_IB_MERGE_VFS=0 with it, or NCCL does not find them in it.");
    return env_nothing();
}

static struct env_verdict ucx_devices(const struct env_run *r)
{
    if (!r->full || r->c.efa)
        return env_nothing();
    if (r->wanted)
        return env_set(NCCL_PINNED, port_list(r, ""),
                       "The same ports as for NCCL, in UCX's notation.");
    if (env_is_tcp(r))
        return env_ucx_sockets(r);
    return env_nothing();
}

static struct env_verdict ucx_tls(const struct env_run *r)
{
    if (!r->full || !env_is_tcp(r))
        return env_nothing();
    return env_set(
        NCCL_PINNED, "self,sm,tcp",
        "Without RDMA, MPI needs shared memory and TCP alone; GPU data goes through NCCL.");
}

/* ---- the list ---- */

static const struct {
    const char *name;
    struct env_verdict (*fn)(const struct env_run *r);
    bool ours; /* not NCCL's: minimal mode says nothing about a value that is there */
} steps[] = {
    { "GPUS_PER_NODE", gpus_per_node, true },
    { "STOKER_TRANSPORT", transport_of, true },
    { "NCCL_IB_DISABLE", ib_disable, false },
    { "NCCL_IB_HCA", ib_hca, false },
    { "NCCL_IB_ADDR_FAMILY", env_addr_family, false },
    { "NCCL_IB_ADDR_RANGE", env_addr_range, false },
    { "NCCL_IB_GID_INDEX", env_gid_index, false },
    { "NCCL_SOCKET_IFNAME", env_socket_ifname, false },
    { "NCCL_NET_GDR_LEVEL", gdr_level, false },
    { "NCCL_NET_GDR_C2C", gdr_c2c, false },
    { "NCCL_MNNVL_ENABLE", mnnvl_enable, false },
    { "NCCL_P2P_LEVEL", p2p_level, false },
    { "NCCL_CROSS_NIC", cross_nic, false },
    { "NCCL_IB_MERGE_VFS", merge_vfs, false },
    { "NCCL_TOPO_FILE", topo_file, false },
    { "OMP_NUM_THREADS", omp_threads, true },
    { "UCX_NET_DEVICES", ucx_devices, true },
    { "UCX_TLS", ucx_tls, true },
};

static const char *user_reason(const struct env_run *r, const struct nccl_lints *lints,
                               const char *name)
{
    struct buf b = { 0 };

    if (hw_env_file(r->hw, name))
        buf_addf(&b, "%s sets it, and that wins.", hw_env_file(r->hw, name));
    else
        buf_adds(&b, "It was set before and wins.");
    for (size_t i = 0; i < lints->count; i++)
        if (str_eq(lints->items[i].name, name) && lints->items[i].severity != NCCL_INFO)
            buf_addf(&b, "  %s: %s  %s",
                     lints->items[i].severity == NCCL_ERROR ? "Error" : "Warning",
                     lints->items[i].message, lints->items[i].remedy);
    return nccl_text(r->a, &b);
}

static void step_run(struct env_run *r, size_t i, const struct nccl_lints *lints)
{
    const char *user = nccl_env_of(r->hw, steps[i].name);
    struct env_verdict v = steps[i].fn(r);

    if (user && !r->full && steps[i].ours)
        return;
    if (user)
        v = env_set(NCCL_USER, arena_strdup(r->a, user), user_reason(r, lints, steps[i].name));
    if (!v.said)
        return;
    r->out->vars[r->out->count++] = (struct nccl_var){
        .name = steps[i].name, .value = v.value, .reason = v.reason, .kind = v.kind
    };
}

void env_ports_count(struct env_run *r)
{
    r->off = r->c.ports_count ? ports_off(r->hw) : NULL;
    for (size_t i = 0; !r->off && i < r->c.ports_count; i++) {
        r->wanted += r->c.ports[i].wanted;
        if (r->c.ports[i].wanted && str_eq(r->c.ports[i].link_layer, "Ethernet"))
            r->roce = true;
    }
}

static void env_look(struct env_run *r)
{
    env_ports_count(r);
    r->need_inet6 = env_gid_wants_inet6(r);
}

void nccl_env_make(const struct hw *hw, const struct nccl_opts *opts, struct nccl_env *out)
{
    struct env_run r = { .hw = hw, .full = opts && opts->mode == NCCL_FULL, .out = out };
    struct nccl_choice all = { 0 };
    struct nccl_lints lints;
    struct hw whole;

    *out = (struct nccl_env){ .mode = r.full ? NCCL_FULL : NCCL_MINIMAL };
    r.a = &out->arena;
    nccl_choose_for(hw, opts ? opts->peer : NULL, &r.c);
    if (hw_env_get(hw, "CUDA_VISIBLE_DEVICES") && r.c.gpus.known) {
        whole = lint_without(hw, "CUDA_VISIBLE_DEVICES", r.a);
        nccl_choose_for(&whole, opts ? opts->peer : NULL, &all);
        r.all = all.gpus.known && all.gpus.v > r.c.gpus.v ? &all : NULL;
    }
    nccl_lint_env(hw, &lints);
    env_look(&r);
    out->vars = arena_array(r.a, struct nccl_var, ARRAY_SIZE(steps));
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
        step_run(&r, i, &lints);
    out->doubts = arena_array(r.a, const char *, r.c.doubts_count + 1);
    for (size_t i = 0; i < r.c.doubts_count; i++)
        out->doubts[out->doubts_count++] = arena_strdup(r.a, r.c.doubts[i]);
    /* reasons may point into the choice: keep it as long as the list */
    for (size_t i = 0; i < out->count; i++) {
        out->vars[i].reason = arena_strdup(r.a, out->vars[i].reason);
        out->vars[i].value = arena_strdup(r.a, out->vars[i].value);
    }
    nccl_lints_release(&lints);
    nccl_choice_release(&r.c);
    nccl_choice_release(&all);
}

void nccl_env_release(struct nccl_env *env)
{
    arena_release(&env->arena);
    *env = (struct nccl_env){ 0 };
}

const struct nccl_var *nccl_env_find(const struct nccl_env *env, const char *name)
{
    for (size_t i = 0; i < env->count; i++)
        if (str_eq(env->vars[i].name, name))
            return &env->vars[i];
    return NULL;
}
