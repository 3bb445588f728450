/* SPDX-License-Identifier: MIT */
/* env: the environment that makes NCCL's choice right.
 *
 * One row of steps[] a variable, in the order they are printed.  A step says what
 * the variable should be and why, as if nobody had set it; a value that is there
 * already wins over it.  Minimal mode keeps what NCCL would not find itself and
 * says of the others why they stay unset; full mode writes everything down. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <ctype.h>

struct run {
    const struct hw *hw;
    struct arena *a;
    struct nccl_choice c;
    bool full;
    struct nccl_env *out;
    const char *off; /* the environment turns RDMA off, as a sentence; NULL: it does not */
    size_t wanted;   /* RDMA ports that should be used */
    bool roce;       /* the wanted ports are Ethernet */
    bool need_inet6; /* NCCL_IB_ADDR_FAMILY=AF_INET6 mends the search for a GID */
};

/* What a step decided.  All zero: the variable is not mentioned. */
struct verdict {
    bool said;
    enum nccl_kind kind;
    const char *value;
    const char *reason;
};

static struct verdict unset(const char *reason)
{
    return (struct verdict){ .said = true, .kind = NCCL_LEFT_UNSET, .reason = reason };
}

static struct verdict set(enum nccl_kind kind, const char *value, const char *reason)
{
    return (struct verdict){ .said = true, .kind = kind, .value = value, .reason = reason };
}

/* Right already: written down in full mode, a comment in minimal mode. */
static struct verdict pin(const struct run *r, const char *value, const char *reason)
{
    return r->full ? set(NCCL_PINNED, value, reason) : unset(reason);
}

static struct verdict nothing(void)
{
    return (struct verdict){ 0 };
}

/* "mlx5_0:1,mlx5_1:1" of the wanted ports. */
static const char *port_list(const struct run *r, const char *prefix)
{
    struct buf b = { 0 };

    for (size_t i = 0, n = 0; i < r->c.ports_count; i++)
        if (r->c.ports[i].wanted)
            buf_addf(&b, "%s%s:%lld", n++ ? "," : prefix, r->c.ports[i].dev,
                     (long long)r->c.ports[i].port);
    return nccl_text(r->a, &b);
}

static bool is_tcp(const struct run *r)
{
    return !r->wanted && !r->c.efa && !(ports_hidden(r->hw) && r->hw->place.container) &&
           r->c.peer_if != NULL;
}

/* ---- the job ---- */

static struct verdict gpus_per_node(const struct run *r)
{
    if (r->c.gpus.known)
        return r->full ? set(NCCL_PINNED, arena_printf(r->a, "%lld", (long long)r->c.gpus.v),
                             r->c.gpus_why)
                       : nothing();
    return r->full || r->hw->gpus_count ? unset(r->c.gpus_why) : nothing();
}

static struct verdict transport(const struct run *r)
{
    if (!r->full)
        return nothing();
    if (r->wanted)
        return set(NCCL_PINNED, "rdma",
                   arena_printf(r->a, "%zu RDMA port%s will carry the traffic between nodes.",
                                r->wanted, r->wanted == 1 ? "" : "s"));
    if (str_eq(r->c.net, "efa"))
        return set(NCCL_PINNED, "efa", "The aws-ofi-nccl plug-in was found and drives EFA.");
    if (r->c.efa)
        return unset("With the aws-ofi-nccl plug-in traffic goes over EFA, without it over TCP; "
                     "which of the two cannot be told from here.");
    if (is_tcp(r))
        return set(NCCL_PINNED, "tcp",
                   r->off             ? r->off
                   : r->c.ports_count ? "No RDMA port can be used from here."
                                      : "There is no RDMA device.");
    return unset(ports_hidden(r->hw) ? "This container was not given the RDMA devices, so what the "
                                       "training container will use cannot be known."
                                     : r->c.peer_why);
}

static int64_t slurm_number(const struct run *r, const char *name)
{
    const char *v = nccl_env_of(r->hw, name);
    int64_t n;

    return v && str_to_i64(v, 10, &n) && n > 0 ? n : 0;
}

/* What Slurm gives a task, shared by the ranks of the task: one where srun starts them,
 * several where torchrun does so in a task of its own. */
static struct verdict omp_slurm(const struct run *r)
{
    int64_t task = slurm_number(r, "SLURM_CPUS_PER_TASK");
    int64_t tasks = slurm_number(r, "SLURM_NTASKS_PER_NODE");
    int64_t gpus = maybe_or(r->c.gpus, 1), ranks = 1, each;

    if (!tasks && r->hw->place.cpus_usable.known && task >= r->hw->place.cpus_usable.v)
        tasks = 1; /* one task has all there is */
    if (tasks && tasks < gpus)
        ranks = gpus / tasks;
    each = task / ranks > 0 ? task / ranks : 1;
    return set(
        NCCL_PINNED, arena_printf(r->a, "%lld", (long long)each),
        arena_printf(r->a,
                     "SLURM_CPUS_PER_TASK=%lld: what Slurm gives each task, with %lld rank%s "
                     "in a task.  torchrun would set 1.",
                     (long long)task, (long long)ranks, ranks == 1 ? "" : "s"));
}

static struct verdict omp(const struct run *r)
{
    int64_t cpus = maybe_or(r->hw->place.cpus_usable, 0), each;

    if (!r->full)
        return nothing();
    if (slurm_number(r, "SLURM_CPUS_PER_TASK"))
        return omp_slurm(r);
    if (!r->c.gpus.known)
        return unset(r->hw->gpus_count || r->hw->place.container
                         ? "It is the usable CPUs divided by the GPUs, and the number of GPUs "
                           "cannot be known."
                         : r->c.gpus_why);
    if (cpus <= 0)
        return unset("How many CPUs may be used here is not known.");
    each = cpus / r->c.gpus.v;
    return set(NCCL_PINNED, arena_printf(r->a, "%lld", (long long)(each > 0 ? each : 1)),
               arena_printf(r->a,
                            "%lld usable CPU%s (affinity, cpuset and quota) for %lld local "
                            "rank%s, one for each GPU.  torchrun would set 1.",
                            (long long)cpus, cpus == 1 ? "" : "s", (long long)r->c.gpus.v,
                            r->c.gpus.v == 1 ? "" : "s"));
}

/* ---- RDMA devices ---- */

/* Active RoCE ports, and none has an address in this namespace. */
static bool roce_without_address(const struct run *r)
{
    for (size_t i = 0; i < r->c.ports_count; i++)
        if (r->c.ports[i].used)
            return !r->wanted;
    return false;
}

static struct verdict ib_disable(const struct run *r)
{
    if (r->c.efa)
        return r->full
                   ? unset("EFA is not driven by NCCL's RDMA code, which this variable is about.")
                   : nothing();
    if (roce_without_address(r))
        return set(
            NCCL_REQUIRED, "1",
            ports_all_iwarp(r->hw, &r->c)
                ? "NCCL would take the active ports for RoCE, but they are iWARP (their node type "
                  "is RNIC), which it cannot connect, so every connection would fail."
                : "NCCL would take the active RoCE ports, but none of their addresses belongs to a "
                  "network device in this namespace, so every connection would fail.");
    if (r->wanted)
        return r->full ? set(NCCL_PINNED, "0", "RDMA ports are active and usable.") : nothing();
    if (is_tcp(r))
        return pin(r, "1",
                   r->off             ? r->off
                   : r->c.ports_count ? "No RDMA port can be used, and NCCL goes over TCP."
                                      : "There is no RDMA device, and NCCL goes over TCP.");
    return r->full ? unset("Whether RDMA can be used cannot be told from here.") : nothing();
}

static bool is_dropped(const struct nccl_port *p, const char *why)
{
    return p->used && !p->wanted && (!why || str_eq(p->wanted_why, why));
}

/* "mlx5_8:1, mlx5_9:1 (it is slower)", one group for each reason. */
static const char *dropped_text(const struct run *r)
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
static const char *rates_text(const struct run *r)
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

static const char *layer_text(const struct run *r)
{
    bool ib = false;

    for (size_t i = 0; i < r->c.ports_count; i++)
        ib = ib || (r->c.ports[i].wanted && str_eq(r->c.ports[i].link_layer, "InfiniBand"));
    return !r->roce ? "InfiniBand" : ib ? "InfiniBand and RoCE" : "RoCE";
}

/* Wanted ports behind a degraded link: NCCL counts on all of their rate. */
static const char *hca_degraded(const struct run *r)
{
    struct buf b = { 0 };

    for (size_t i = 0; i < r->c.ports_count; i++) {
        const struct nccl_port *p = &r->c.ports[i];

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

static const char *hca_score(const struct run *r)
{
    return arena_printf(r->a, "%s%s%s%s", r->c.scores_count ? "  Each GPU's share: " : "",
                        r->c.scores_count ? r->c.score_text : "", r->c.scores_count ? "." : "",
                        hca_degraded(r));
}

/* More active ports than NCCL takes: which, and why. */
static const char *hca_beyond(const struct run *r)
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
static struct verdict hca_all(const struct run *r)
{
    const char *all = *hca_beyond(r) ? "The first" : "All";

    if (r->c.gone_why)
        return unset(r->c.gone_why);
    if (r->c.all_why)
        return unset(arena_printf(r->a,
                                  "%s %zu active ports are left to NCCL, since naming others would "
                                  "be worse.  %s%s%s",
                                  all, r->wanted, r->c.all_why, hca_beyond(r), hca_score(r)));
    if (r->wanted == 1)
        return pin(r, port_list(r, "="),
                   arena_printf(r->a,
                                "The one active %s port (%s, %s) is the right one, and NCCL takes "
                                "it by itself.%s",
                                layer_text(r), port_list(r, ""), rates_text(r), hca_score(r)));
    return pin(r, port_list(r, "="),
               arena_printf(r->a,
                            "%s %zu active %s ports (%s, %s) are the right ones%s, and NCCL takes "
                            "them by itself.%s%s",
                            all, r->wanted, layer_text(r), port_list(r, ""), rates_text(r),
                            r->c.doubts_count > r->c.mnnvl_doubt ? " as far as can be told" : "",
                            hca_beyond(r), hca_score(r)));
}

static struct verdict ib_hca(const struct run *r)
{
    if (r->c.efa)
        return unset("This machine has AWS EFA, which NCCL's own RDMA code cannot drive.  The "
                     "aws-ofi-nccl plug-in is needed and brings its own settings; NCCL_IB_* has no "
                     "effect on it.");
    if (r->c.ports_count == 0)
        return r->full ? unset("There is no RDMA device.") : nothing();
    if (ports_hidden(r->hw))
        return unset(
            "RDMA devices are in sysfs, but /dev/infiniband has none: this container cannot "
            "open them, and which ones the training container gets cannot be known.");
    if (!r->wanted)
        return unset(r->off ? r->off : "No RDMA port can be used from here.");
    for (size_t i = 0; i < r->c.ports_count; i++)
        if (r->c.ports[i].used && !r->c.ports[i].wanted)
            return set(NCCL_REQUIRED, port_list(r, "="),
                       arena_printf(r->a,
                                    "The %zu port%s of the %s fabric at %s.  NCCL would take every "
                                    "active port, also %s.%s",
                                    r->wanted, r->wanted == 1 ? "" : "s", layer_text(r),
                                    rates_text(r), dropped_text(r), hca_score(r)));
    return hca_all(r);
}

/* ---- GID ---- */

enum { GID_TRY_MAX = 256 };

/* The table of a wanted port whose address is searched for; InfiniBand ports use entry 0. */
static const struct hw_rdma_port *roce_port(const struct run *r, const struct nccl_port *p)
{
    return p->wanted && str_eq(p->link_layer, "Ethernet") ? ports_find(r->hw, p->dev, p->port)
                                                          : NULL;
}

/* Where the search ends on every wanted port with this rule.  True when it is a usable
 * entry on all; *out_index is the common index, -1 when they differ. */
static bool search_ok(const struct run *r, const struct gid_rule *rule, int64_t *out_index)
{
    int64_t common = -2;

    for (size_t i = 0; i < r->c.ports_count; i++) {
        const struct nccl_port *p = &r->c.ports[i];
        const struct hw_rdma_port *hp = roce_port(r, p);
        int64_t index;

        if (!hp)
            continue;
        index = gid_scan(hp, rule);
        if (!gid_usable(r->hw, gid_at(hp, index)))
            return false;
        common = common == -2 || common == index ? index : -1;
    }
    *out_index = common;
    return common != -2;
}

/* It is usable on every wanted port. */
static bool index_serves(const struct run *r, int64_t index, bool v4)
{
    size_t good = 0, all = 0;

    for (size_t i = 0; i < r->c.ports_count; i++) {
        const struct nccl_port *p = &r->c.ports[i];
        const struct hw_rdma_port *hp = roce_port(r, p);
        const struct hw_gid *g = hp ? gid_at(hp, index) : NULL;
        struct gid v;

        all += hp != NULL;
        good += g && gid_usable(r->hw, g) && gid_parse(g->gid, &v) && (!v4 || gid_is_v4(&v));
    }
    return good && good == all;
}

/* An index that is usable on every wanted port: of a network without file systems first, IPv4
 * first; -1: none. */
static int64_t common_index(const struct run *r)
{
    for (int pass = 0; pass < 4; pass++)
        for (int64_t index = 0; index < GID_TRY_MAX; index++)
            if (index_serves(r, index, pass % 2 == 0) &&
                land_index_agrees(r->hw, &r->c, index, pass >= 2))
                return index;
    return -1;
}

static const char *index_text(const struct run *r, const struct gid_rule *rule)
{
    struct buf b = { 0 };

    for (size_t i = 0, n = 0; i < r->c.ports_count; i++) {
        const struct nccl_port *p = &r->c.ports[i];
        const struct hw_rdma_port *hp = roce_port(r, p);

        if (hp)
            buf_addf(&b, "%s%lld on %s", n++ ? ", " : "", (long long)gid_scan(hp, rule), p->dev);
    }
    return nccl_text(r->a, &b);
}

/* The search is right, with or without NCCL_IB_ADDR_FAMILY. */
static struct verdict gid_found(const struct run *r, const struct gid_rule *rule, int64_t index)
{
    const char *with = !r->c.gid_range
                           ? (r->need_inet6 ? "With NCCL_IB_ADDR_FAMILY=AF_INET6 " : "")
                           : arena_printf(r->a, "With NCCL_IB_ADDR_RANGE=%s%s ", r->c.gid_range,
                                          r->need_inet6 ? " and AF_INET6" : "");

    if (index < 0)
        return unset(arena_printf(r->a,
                                  "%sNCCL's search ends on a good RoCE v2 address on every port, "
                                  "but at different indices (%s), so one number cannot serve "
                                  "them all.",
                                  with, index_text(r, rule)));
    if (r->full)
        return set(NCCL_PINNED, arena_printf(r->a, "%lld", (long long)index),
                   arena_printf(r->a,
                                "%sNCCL's search ends at index %lld on every port, a routable "
                                "RoCE v2 address.  The index may differ between pods and "
                                "nodes: unset is safer.",
                                with, (long long)index));
    return unset(arena_printf(r->a,
                              "%sNCCL's own search ends at index %lld on every port, a routable "
                              "RoCE v2 address of this network namespace.",
                              with, (long long)index));
}

/* Every wanted RoCE port has an address that routers pass on, at whatever index. */
static bool roce_is_routable(const struct run *r)
{
    for (size_t i = 0; i < r->c.ports_count; i++) {
        const struct nccl_port *p = &r->c.ports[i];
        const struct hw_rdma_port *hp = roce_port(r, p);

        if (hp && gid_port_class(r->hw, hp) != GID_ROUTABLE)
            return false;
    }
    return true;
}

static struct verdict gid_pinned(const struct run *r, const char *why)
{
    int64_t index = common_index(r);

    if (index < 0)
        return unset(arena_printf(
            r->a,
            "%s  No index holds a routable RoCE v2 address of one network "
            "on every port, so none can be given%s",
            why,
            nccl_older_than(r->hw, 2, 21) ? "; NCCL_IB_ADDR_RANGE, which chooses by network, came "
                                            "with NCCL 2.21."
            : roce_is_routable(r)         ? "."
                                  : ": RDMA will work within one Ethernet segment at best."));
    return set(NCCL_REQUIRED, arena_printf(r->a, "%lld", (long long)index),
               arena_printf(r->a,
                            "%s  Index %lld is a routable RoCE v2 address on every port here; "
                            "it may differ between pods and nodes, so set it on each by what is "
                            "found there.",
                            why, (long long)index));
}

static const char *search_fault(const struct run *r)
{
    for (size_t i = 0; i < r->c.ports_count; i++)
        if (r->c.ports[i].wanted && r->c.ports[i].used && !r->c.ports[i].gid_ok)
            return arena_printf(r->a, "NCCL's search goes wrong on %s.  %s", r->c.ports[i].dev,
                                r->c.ports[i].gid_why);
    return "NCCL's search does not end on a routable RoCE v2 address on every port.";
}

/* Runs before the steps are printed, so that NCCL_IB_ADDR_FAMILY knows. */
static struct verdict gid_decide(struct run *r)
{
    struct gid_rule rule, six;
    int64_t index = -1;

    if (!r->wanted)
        return r->full && !r->c.efa ? unset(r->off ? r->off : "No RoCE port can be used.")
                                    : nothing();
    if (!r->roce)
        return unset("The fabric is InfiniBand, where NCCL never reads it and uses entry 0.");
    if (nccl_older_than(r->hw, 2, 21))
        return gid_pinned(r, arena_printf(r->a,
                                          "NCCL %s does not search for an address (2.21 and "
                                          "later do) and would take index 0.",
                                          r->c.nccl_version));
    gid_rule_of(r->hw, &rule);
    (void)gid_rule_range(&rule, r->c.gid_range);
    if (r->c.gid_nets_why && !r->c.gid_range)
        return unset(arena_printf(r->a,
                                  "%s  No index and no single NCCL_IB_ADDR_RANGE puts them on one "
                                  "network: give each port its addresses in the same order.",
                                  r->c.gid_nets_why));
    if (search_ok(r, &rule, &index))
        return gid_found(r, &rule, index);
    six = (struct gid_rule){ .family = 6, .version = rule.version };
    (void)gid_rule_range(&six, r->c.gid_range);
    if (rule.family != 6 && !nccl_env_of(r->hw, "NCCL_IB_ADDR_FAMILY") &&
        search_ok(r, &six, &index)) {
        r->need_inet6 = true;
        return gid_found(r, &six, index);
    }
    return gid_pinned(r, search_fault(r));
}

static struct verdict addr_family(const struct run *r)
{
    if (!r->need_inet6)
        return nothing();
    return set(NCCL_REQUIRED, "AF_INET6",
               arena_printf(r->a,
                            "NCCL looks for an IPv4 address, and not every port has one of RoCE "
                            "v2; each has an IPv6 one.  %s",
                            search_fault(r)));
}

static struct verdict addr_range(const struct run *r)
{
    if (!r->wanted || !r->roce || !r->c.gid_range)
        return nothing();
    return set(NCCL_REQUIRED, r->c.gid_range,
               arena_printf(r->a,
                            "%s  With this range NCCL's search ends on every port at an address "
                            "of one fabric.",
                            r->c.gid_nets_why));
}

/* ---- distances ---- */

struct need {
    enum level level; /* serves every GPU: the worst of their nearest wanted NICs, SYS set
                       * aside; LEVEL_NONE: no distance is known */
    bool sys;         /* some GPU has nothing nearer */
    enum level dflt;  /* what NCCL allows by itself */
    bool some;        /* ... which is enough for some GPU */
};

static struct need level_needed(const struct run *r)
{
    struct need n = { .level = LEVEL_NONE, .dflt = level_gdr_default(r->hw) };

    for (size_t gpu = 0; gpu < r->hw->gpus_count; gpu++) {
        enum level best = LEVEL_NONE;

        if (r->c.gpus.known && !r->c.gpu_used[gpu])
            continue;
        for (size_t i = 0; i < r->c.ports_count; i++) {
            enum level l =
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
static const struct nccl_way *gpu_way(const struct run *r, size_t gpu)
{
    for (size_t i = 0; i < r->c.scores_count; i++)
        if (r->c.scores[i].gpu == gpu && r->c.scores[i].ours.path)
            return &r->c.scores[i].ours;
    return NULL;
}

/* Some GPU's data goes through host memory by NCCL's default, and PHB would mend it: its way
 * leads over the root complex, and no neighbour at the NIC's switch takes it (PXN). */
static bool level_falls_short(const struct run *r)
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
                level_way_has(way, g->dev))
                return true;
        }
    }
    return !known;
}

/* Every GPU's way ends at a NIC behind its own switch or a neighbour's. */
static bool ways_relayed(const struct run *r)
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

static const char *relayed_text(const struct run *r, const char *dflt)
{
    return arena_printf(r->a,
                        "Every GPU has GPUDirect RDMA by NCCL's default (%s): those without a NIC "
                        "at their switch send by way of NVLink and a neighbour that has one (PXN).",
                        dflt);
}

/* Near enough for NCCL's default. */
static struct verdict gdr_covered(const struct run *r, const struct need *n)
{
    const char *dflt = level_name(n->dflt);

    if (n->sys && ways_relayed(r))
        return pin(r, dflt, relayed_text(r, dflt));
    if (n->sys)
        return pin(r, dflt,
                   arena_printf(r->a,
                                "Some GPUs have a NIC at %s or nearer, which NCCL's default (%s) "
                                "covers; data of those that have NICs across the sockets alone "
                                "goes through host memory or a neighbour's NIC.",
                                level_name(n->level), dflt));
    return pin(r, dflt,
               arena_printf(r->a,
                            "Every GPU has a NIC at %s or nearer, which NCCL's default (%s) "
                            "covers.",
                            level_name(n->level), dflt));
}

/* Why a GPU has nothing nearer than SYS. */
static const char *far_text(const struct run *r)
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

static struct verdict gdr_level(const struct run *r)
{
    const char *support = r->c.gdr_support;
    struct need need;

    if (!r->wanted)
        return r->full && !r->c.efa ? unset("GPUDirect RDMA needs an RDMA port.") : nothing();
    if (r->c.gone_why)
        return unset(
            "The ports that belong to the GPUs are down, and those that are up say nothing "
            "of the level they need.");
    if (str_eq(support, "none"))
        return unset("GPUDirect RDMA is not possible here: no peer-memory module is loaded and "
                     "dma-buf cannot be used.  Every byte is copied through host memory; on four "
                     "400 Gb/s NICs that was measured as 35 instead of 195 GB/s.  Load "
                     "nvidia_peermem or use the open kernel driver.");
    need = level_needed(r);
    if (need.level == LEVEL_NONE)
        return unset(need.sys ? far_text(r)
                              : "The PCIe distance between GPUs and NICs is not known here.");
    if (need.level <= need.dflt)
        return gdr_covered(r, &need);
    if (level_on_c2c(r->hw) && !nccl_older_than(r->hw, 2, 26))
        return unset("NCCL_NET_GDR_C2C decides on the way over the GPUs' chip-to-chip link, not "
                     "the level.");
    if (nccl_env_of(r->hw, "NCCL_TOPO_FILE") && !hw_nccl_topo_used(r->hw))
        return unset("NCCL takes the distances from NCCL_TOPO_FILE and not from this machine, so "
                     "whether its default reaches far enough cannot be told from here.");
    if (!support)
        return unset(
            "GPU and NIC meet in the root complex (PHB), beyond NCCL's default, but whether "
            "GPUDirect RDMA is possible cannot be told: no peer-memory module is loaded and "
            "dma-buf support is not known.");
    if (!level_falls_short(r))
        return ways_relayed(r)
                   ? pin(r, level_name(need.dflt), relayed_text(r, level_name(need.dflt)))
                   : unset("Whether NCCL's default reaches far enough cannot be told here.");
    if (str_eq(r->hw->limits.iommu_mode, "translated"))
        return unset("GPU and NIC meet in the root complex (PHB), beyond NCCL's default (PXB), so "
                     "data is copied through host memory.  PHB would allow GPUDirect RDMA there, "
                     "but the IOMMU translates addresses, which makes it slow or fails: let "
                     "it pass them through first, as `stoker detect --check` says.");
    if (r->c.guest)
        return unset("This virtual machine shows GPU and NIC at the root complex (PHB), beyond "
                     "NCCL's default (PXB), so data is copied through host memory.  On the host "
                     "they may be at one switch or across the sockets, and its IOMMU and ACS "
                     "decide whether GPUDirect RDMA works: give NCCL the topology "
                     "(NCCL_TOPO_FILE), or set PHB only after measuring.");
    return set(
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

/* GPUs that reach their NICs by the CPU's chip-to-chip link: 2.26 has the way, off. */
static struct verdict gdr_c2c(const struct run *r)
{
    if (!r->wanted || !level_on_c2c(r->hw) || str_eq(r->c.gdr_support, "none"))
        return nothing();
    if (nccl_older_than(r->hw, 2, 26))
        return nothing(); /* NCCL_NET_GDR_LEVEL is the way there */
    if (nccl_older_than(r->hw, 2, 27))
        return set(
            NCCL_REQUIRED, "1",
            "NICs at the CPU reach GPU memory over the chip-to-chip link; NCCL 2.26 has that "
            "off unless told, 2.27 and newer have it on.");
    return pin(r, "1",
               "NCCL reaches GPU memory over the chip-to-chip link by itself from 2.27 on.");
}

static struct verdict mnnvl_enable(const struct run *r)
{
    if (!r->c.mnnvl_why)
        return nothing();
    if (str_eq(r->c.mnnvl, "fails"))
        return set(
            NCCL_REQUIRED, "0",
            arena_printf(r->a,
                         "%s  Have nvidia-imex and a channel on every machine of the domain to "
                         "have NVLink between them, and leave this unset then.",
                         r->c.mnnvl_why));
    return str_eq(r->c.mnnvl, "on") ? pin(r, "2", r->c.mnnvl_why) : unset(r->c.mnnvl_why);
}

static struct verdict p2p_level(const struct run *r)
{
    size_t nvl = 0, unknown = 0, fails = 0;
    enum level worst = LEVEL_NONE;
    const char *dflt = level_name(level_p2p_default(r->hw, &r->c));

    for (size_t i = 0; i < r->c.p2p_count; i++) {
        enum level l = level_of_path(r->c.p2p[i].path);

        nvl += l == LEVEL_NVL;
        unknown += l == LEVEL_NONE;
        fails += str_eq(r->c.p2p[i].transport, "fails");
        worst = l > worst ? l : worst;
    }
    if (!r->c.gpus.known)
        return r->full || r->hw->gpus_count ? unset(level_unknown_why(r->hw, &r->c)) : nothing();
    if (r->c.gpus.v < 2)
        return r->full ? unset("One GPU has no peer.") : nothing();
    if (!r->c.p2p_count || unknown)
        return unset("How the GPUs are connected is not known.");
    if (nccl_env_int(r->hw, "NCCL_P2P_DISABLE", 0) == 1)
        return unset(arena_printf(r->a,
                                  "NCCL_P2P_DISABLE=1 keeps GPUs from each other's memory%s, "
                                  "whatever the level.",
                                  nvl ? ", over NVLink too" : ""));
    if (fails)
        return unset(
            arena_printf(r->a,
                         "NVLink joins %zu pair%s of GPUs whose peer access the driver "
                         "refuses: NCCL stops with an error.  Drain the machine until that "
                         "is mended; NCCL_IGNORE_DISABLED_P2P=1 goes on without NVLink "
                         "between them.",
                         fails, fails == 1 ? "" : "s"));
    if (nvl == r->c.p2p_count)
        return pin(r, "NVL", "NVLink joins every pair of GPUs, and NCCL uses it by itself.");
    if (worst <= LEVEL_PXB)
        return pin(r, dflt,
                   arena_printf(r->a,
                                "%s  The farthest pair is at %s, which NCCL's default (%s) "
                                "covers.",
                                nvl ? "NVLink joins some pairs only." : "There is no NVLink.",
                                level_name(worst), dflt));
    return pin(r, dflt,
               arena_printf(r->a,
                            "%s  The farthest pair is at %s; NCCL's default (%s) %s there.  ACS "
                            "or an IOMMU can break direct copies at that distance.",
                            nvl ? "NVLink joins some pairs only." : "There is no NVLink.",
                            level_name(worst), dflt,
                            str_eq(dflt, "SYS") ? "allows direct copies" : "uses shared memory"));
}

/* ---- network ---- */

/* Without RDMA every interface NCCL takes carries data, not the first alone. */
struct carriers {
    const char *list;  /* "=eth0,eth1": those that may */
    const char *other; /* "eth1": besides the one to the other nodes; NULL: none */
    const char *side;  /* "cni0, flannel.1": those that must not; NULL: none */
};

static bool sockets_carry(const struct run *r)
{
    return is_tcp(r) || (str_eq(r->c.net, "tcp") && !r->c.efa && !ports_hidden(r->hw));
}

static struct carriers carriers_of(const struct run *r)
{
    const struct hw_net *nets[MATCH_IFS];
    size_t count = sockets_carry(r) ? iface_default_all(r->hw, nets, ARRAY_SIZE(nets)) : 0;
    struct buf list = { 0 }, other = { 0 }, side = { 0 };
    struct carriers c = { 0 };

    buf_addf(&list, "=%s", r->c.peer_if);
    for (size_t i = 0; i < count; i++) {
        bool bad = iface_is_side(nets[i]);
        struct buf *b = bad ? &side : &other;

        if (str_eq(nets[i]->name, r->c.peer_if))
            continue;
        buf_addf(b, "%s%s", b->len ? ", " : "", nets[i]->name);
        if (!bad)
            buf_addf(&list, ",%s", nets[i]->name);
    }
    c.other = other.len ? nccl_text(r->a, &other) : NULL;
    c.side = side.len ? nccl_text(r->a, &side) : NULL;
    c.list = nccl_text(r->a, &list);
    return c;
}

/* Sites whose nodes talk over IPoIB: what we take for granted, and how to say otherwise. */
static const char *ipoib_text(const struct run *r, const struct hw_net *n)
{
    if (!n || !iface_is_ipoib(r->hw, n))
        return "";
    if (str_eq(n->name, r->c.peer_if))
        return arena_printf(r->a,
                            "  %s is IP over InfiniBand: this assumes that every node has an "
                            "address in its subnet.",
                            n->name);
    return arena_printf(r->a,
                        "  %s is IP over InfiniBand: this assumes that not every node has an "
                        "address in its subnet.  Where all have one, either will do; --peer with "
                        "the IPoIB address of another node chooses it.",
                        n->name);
}

/* NCCL's first interface is the right one. */
static struct verdict socket_found(const struct run *r)
{
    struct carriers c = carriers_of(r);

    if (c.side)
        return set(NCCL_REQUIRED, c.list,
                   arena_printf(r->a,
                                "%s leads to the other nodes.  %s  Without RDMA NCCL carries data "
                                "over every running interface, also over the virtual %s, where "
                                "connections between nodes hang or fail.",
                                r->c.peer_if, r->c.peer_why, c.side));
    return pin(
        r, c.list,
        arena_printf(r->a, "%s leads to the other nodes, and NCCL takes it by itself.  %s%s%s%s%s",
                     r->c.peer_if, r->c.peer_why, ipoib_text(r, hw_find_net(r->hw, r->c.peer_if)),
                     c.other ? "  Without RDMA data goes over every running interface, also " : "",
                     c.other ? c.other : "", c.other ? "." : ""));
}

/* "ens100 (100 Gb/s)", "net1, net2 (400 Gb/s)": those that NCCL sends by when left alone. */
static const char *fastest_text(const struct run *r, const struct hw_net *const *nets, size_t count)
{
    int64_t sum;
    struct maybe most = iface_fastest(nets, count, &sum);
    struct buf b = { 0 };

    for (size_t i = 0; i < count; i++)
        if (!iface_is_side(nets[i]) && maybe_is(most, iface_mbps(nets[i])))
            buf_addf(&b, "%s%s", b.len ? ", " : "", nets[i]->name);
    buf_addf(&b, " (%s)", nccl_rate_text(r->a, most));
    return nccl_text(r->a, &b);
}

/* Starting over the interface to the other nodes would take a faster one away from data. */
static struct verdict socket_kept(const struct run *r)
{
    const struct hw_net *nets[MATCH_IFS];
    size_t count = iface_default_all(r->hw, nets, ARRAY_SIZE(nets));
    const struct hw_net *peer = hw_find_net(r->hw, r->c.peer_if);
    struct carriers c = carriers_of(r);
    const char *why = arena_printf(
        r->a,
        "Without RDMA it chooses the interfaces for data too: NCCL sends by %s, and a list that "
        "begins with %s (%s), where it should start, would take that away.  %s  Where %s does not "
        "lead to the other nodes, name those that do.",
        fastest_text(r, nets, count), r->c.peer_if,
        nccl_rate_text(r->a, peer ? maybe_of(iface_mbps(peer)) : maybe_none()), r->c.peer_why,
        count ? nets[0]->name : "the first");

    if (!c.side)
        return unset(why);
    return set(NCCL_REQUIRED, c.list,
               arena_printf(r->a,
                            "%s  Left out: the virtual %s, where connections between nodes "
                            "hang or fail.",
                            why, c.side));
}

/* Nothing tells which interface leads to the others, but what NCCL would take cannot: the
 * interfaces that may. */
static struct verdict socket_able(const struct run *r, const struct hw_net *own)
{
    const struct hw_net *able[MATCH_IFS], *all[MATCH_IFS];
    size_t count = iface_able_all(r->hw, able, ARRAY_SIZE(able));
    size_t taken = sockets_carry(r) ? iface_default_all(r->hw, all, ARRAY_SIZE(all)) : 0;
    bool bad = count && own && !iface_is_able(r->hw, own);
    struct buf b = { 0 };

    for (size_t i = 0; i < taken; i++)
        bad = bad || (count && !iface_is_able(r->hw, all[i]));
    for (size_t i = 0; i < count; i++)
        buf_addf(&b, "%s%s", i ? "," : "=", able[i]->name);
    if (!bad) {
        buf_release(&b);
        return unset(arena_printf(r->a,
                                  "Which interface leads to the other nodes cannot be told.  %s  "
                                  "NCCL would take %s.",
                                  r->c.peer_why, own ? own->name : "none"));
    }
    return set(
        NCCL_REQUIRED, nccl_text(r->a, &b),
        arena_printf(r->a,
                     "Which interface leads to the other nodes is not certain: --peer with "
                     "the address of one tells.  %s  NCCL would take %s, and what is left out "
                     "leads to no other node: virtual networks of this machine, RDMA rails, "
                     "link-local addresses.",
                     r->c.peer_why, own ? own->name : "none"));
}

static struct verdict socket_ifname(const struct run *r)
{
    const char *list;
    const char *addr, *why = NULL;
    const struct hw_net *n = iface_default(r->hw, &addr, &why);
    const struct hw_net *peer = r->c.peer_if ? hw_find_net(r->hw, r->c.peer_if) : NULL;

    if (!r->c.peer_if || iface_is_virtual(r->c.peer_if))
        return socket_able(r, n);
    if (n && str_eq(n->name, r->c.peer_if))
        return socket_found(r);
    list = sockets_carry(r) ? iface_data_list(r->hw, r->a, r->c.peer_if)
                            : arena_printf(r->a, "=%s", r->c.peer_if);
    if (!list)
        return socket_kept(r);
    return set(NCCL_REQUIRED, list,
               arena_printf(r->a, "%s leads to the other nodes.  %s  NCCL would take %s%s.%s%s",
                            r->c.peer_if, r->c.peer_why, n ? n->name : "none",
                            n && iface_is_rail(r->hw, n) ? ", a rail without a gateway"
                            : n && !iface_leaves(n)      ? ", which has a link-local address only"
                                                         : "",
                            peer ? "" : "  That interface is not in the inventory, though.",
                            ipoib_text(r, n)));
}

static struct verdict cross_nic(const struct run *r)
{
    size_t rails = r->wanted && !r->c.gone_why ? ports_isolated_rails(r->hw, &r->c) : 0, down = 0;

    if (!rails)
        return nothing();
    for (size_t i = 0; i < r->c.ports_count; i++)
        down += r->c.ports[i].down;
    return set(
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

static struct verdict merge_vfs(const struct run *r)
{
    const char *why = doubt_topo_missed(r->hw, &r->c, r->a);
    return why ? set(NCCL_REQUIRED, "0", why) : nothing();
}

static struct verdict topo_file(const struct run *r)
{
    const struct hw_place *p = &r->hw->place;
    bool azure =
        p->vendor && str_starts(p->vendor, "Microsoft") && str_eq(p->product, "Virtual Machine");

    for (size_t i = 0; azure && i < r->hw->gpus_count; i++) {
        const char *name = r->hw->gpus[i].name;

        if (name && (strstr(name, "A100") || strstr(name, "H100") || strstr(name, "H200")))
            return unset(
                "This is an Azure virtual machine, which hides its PCIe switches.  Azure's "
                "HPC images bring a topology file for it (ndv4 or ndv5) and name it in "
                "/etc/nccl.conf; elsewhere copy it and set this variable.");
    }
    if (r->c.guest && r->wanted)
        return unset("This virtual machine hides the PCIe switches of its host, and NCCL deals "
                     "the NICs out as if all were as near.  Whoever runs the host knows which GPU "
                     "and NIC share a switch: write that as a topology file and name it here, or "
                     "put it at /var/run/nvidia-topologyd/virtualTopology.xml, which NCCL reads by "
                     "itself.  Where NICs are not device 0 of a bus of their own, set "
                     "NCCL_IB_MERGE_VFS=0 with it, or NCCL does not find them in it.");
    return nothing();
}

/* By the way to the other nodes, unless NCCL has faster ones for data. */
static struct verdict ucx_sockets(const struct run *r)
{
    const struct hw_net *all[MATCH_IFS], *peer = hw_find_net(r->hw, r->c.peer_if);
    size_t count = iface_data_all(r->hw, all, ARRAY_SIZE(all));
    int64_t sum;
    struct maybe most = iface_fastest(all, count, &sum);
    struct buf b = { 0 };

    if (!peer || !most.known || iface_mbps(peer) >= most.v)
        return set(NCCL_PINNED, r->c.peer_if,
                   "Without RDMA, UCX goes by the interface to the others.");
    for (size_t i = 0; i < count; i++)
        if (!iface_is_side(all[i]) && iface_leaves(all[i]) && iface_mbps(all[i]) == most.v)
            buf_addf(&b, "%s%s", b.len ? "," : "", all[i]->name);
    return set(NCCL_PINNED, nccl_text(r->a, &b),
               arena_printf(r->a,
                            "Without RDMA, UCX goes by the fastest interfaces, as NCCL does; %s "
                            "has %s.",
                            peer->name, nccl_rate_text(r->a, maybe_of(iface_mbps(peer)))));
}

static struct verdict ucx_devices(const struct run *r)
{
    if (!r->full || r->c.efa)
        return nothing();
    if (r->wanted)
        return set(NCCL_PINNED, port_list(r, ""), "The same ports as for NCCL, in UCX's notation.");
    if (is_tcp(r))
        return ucx_sockets(r);
    return nothing();
}

static struct verdict ucx_tls(const struct run *r)
{
    if (!r->full || !is_tcp(r))
        return nothing();
    return set(NCCL_PINNED, "self,sm,tcp",
               "Without RDMA, MPI needs shared memory and TCP alone; GPU data goes through NCCL.");
}

/* ---- the list ---- */

static struct verdict gid_index(const struct run *r)
{
    struct run copy = *r;

    return gid_decide(&copy);
}

static const struct {
    const char *name;
    struct verdict (*fn)(const struct run *r);
    bool ours; /* not NCCL's: minimal mode says nothing about a value that is there */
} steps[] = {
    { "GPUS_PER_NODE", gpus_per_node, true },      { "STOKER_TRANSPORT", transport, true },
    { "NCCL_IB_DISABLE", ib_disable, false },      { "NCCL_IB_HCA", ib_hca, false },
    { "NCCL_IB_ADDR_FAMILY", addr_family, false }, { "NCCL_IB_ADDR_RANGE", addr_range, false },
    { "NCCL_IB_GID_INDEX", gid_index, false },     { "NCCL_SOCKET_IFNAME", socket_ifname, false },
    { "NCCL_NET_GDR_LEVEL", gdr_level, false },    { "NCCL_NET_GDR_C2C", gdr_c2c, false },
    { "NCCL_MNNVL_ENABLE", mnnvl_enable, false },  { "NCCL_P2P_LEVEL", p2p_level, false },
    { "NCCL_CROSS_NIC", cross_nic, false },        { "NCCL_IB_MERGE_VFS", merge_vfs, false },
    { "NCCL_TOPO_FILE", topo_file, false },        { "OMP_NUM_THREADS", omp, true },
    { "UCX_NET_DEVICES", ucx_devices, true },      { "UCX_TLS", ucx_tls, true },
};

static const char *user_reason(const struct run *r, const struct nccl_lints *lints,
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

static void step(struct run *r, size_t i, const struct nccl_lints *lints)
{
    const char *user = nccl_env_of(r->hw, steps[i].name);
    struct verdict v = steps[i].fn(r);

    if (user && !r->full && steps[i].ours)
        return;
    if (user)
        v = set(NCCL_USER, arena_strdup(r->a, user), user_reason(r, lints, steps[i].name));
    if (!v.said)
        return;
    r->out->vars[r->out->count++] = (struct nccl_var){
        .name = steps[i].name, .value = v.value, .reason = v.reason, .kind = v.kind
    };
}

static void look(struct run *r)
{
    r->off = r->c.ports_count ? ports_off(r->hw) : NULL;
    for (size_t i = 0; !r->off && i < r->c.ports_count; i++) {
        r->wanted += r->c.ports[i].wanted;
        if (r->c.ports[i].wanted && str_eq(r->c.ports[i].link_layer, "Ethernet"))
            r->roce = true;
    }
    (void)gid_decide(r); /* for need_inet6 */
    if (nccl_env_int(r->hw, "NCCL_IB_GID_INDEX", -1) >= 0)
        r->need_inet6 = false; /* then NCCL does not search */
}

void nccl_env_make(const struct hw *hw, const struct nccl_opts *opts, struct nccl_env *out)
{
    struct run r = { .hw = hw, .full = opts && opts->mode == NCCL_FULL, .out = out };
    struct nccl_lints lints;

    *out = (struct nccl_env){ .mode = r.full ? NCCL_FULL : NCCL_MINIMAL };
    r.a = &out->arena;
    nccl_choose_for(hw, opts ? opts->peer : NULL, &r.c);
    nccl_lint_env(hw, &lints);
    look(&r);
    out->vars = arena_array(r.a, struct nccl_var, ARRAY_SIZE(steps));
    for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
        step(&r, i, &lints);
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
