/* SPDX-License-Identifier: MIT */
/* score: what each GPU gets of a set of ports, so that two choices can be compared.
 *
 * NCCL gives a GPU the NICs with the widest path to it, and of those the nearest: the
 * bandwidth of a path is the least of its links (port, PCIe, the link between CPUs),
 * its distance the worst (graph/topo.cc, ncclTopoGetLocal); ports of one card are one NIC
 * (merge_nics.c).  So a fast NIC far away is
 * taken before a slower one at the GPU's own switch, also when many GPUs share it.
 * A GPU spreads its data over its ports, and a port is shared by what GPUs bring to it.
 * What a port brings is its rate, or its part of what the card's PCIe link carries now; a GPU
 * takes no more than its own link can.
 * By way of NVLink a neighbour's NIC has the width of the neighbour's path (PXN), the
 * neighbour's own PCIe link counted, and all that GPUs send that way goes over that link.
 *
 * Rings and trees may take more ports than these if that adds up to more; which ones
 * hangs on the other nodes, so it is not counted for either choice. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <stdlib.h>

enum {
    SCORE_DEPTH_MAX = 32,        /* bridges above a device */
    SCORE_UNKNOWN_MBPS = 100000, /* where no rate of any port is known */
    SCORE_LANE_MBPS = 6000,      /* of a link whose speed the kernel does not tell: PCIe 3 */
    SCORE_LANES = 16,            /* ... or whose width */
    /* NCCL's figures for the link between CPUs (graph/topo.h), in Mb/s */
    SCORE_AMD_MBPS = 128000,
    SCORE_INTEL_ERP_MBPS = 320000, /* model 0xcf and later */
    SCORE_INTEL_SRP_MBPS = 176000, /* 0x8f and later */
    SCORE_INTEL_SKL_MBPS = 80000,  /* 0x55 and later */
    SCORE_POWER_MBPS = 256000,
    SCORE_YONGFENG_MBPS = 72000,
    SCORE_OLDER_MBPS = 48000, /* an older Xeon or Zhaoxin, every Arm processor */
    SCORE_LOCAL_MBPS = 40000000
};

bool score_gpu_counts(const struct nccl_run *s, size_t gpu)
{
    return !s->c->gpus.known || s->gpu_visible[gpu];
}

/* ---- the width of a path ---- */

/* 600 Mb/s a lane for each GT/s up to 5, 750 from 8 on; 0: not told ("Unknown"). */
static int64_t lane_mbps(const struct hw_pci *p)
{
    double speed = p && p->link_speed_max ? strtod(p->link_speed_max, NULL) : 0;

    return speed > 0 && speed <= 1000 ? (int64_t)(speed * (speed < 8 ? 600 : 750)) : 0;
}

static int64_t link_lanes(const struct hw_pci *p)
{
    int64_t width = p ? maybe_or(p->link_width_max, 0) : 0;

    return width > 0 && width <= 64 ? width : 0;
}

/* The link of a function and the bridge above it: the lesser of what both can do, as NCCL
 * reads it (graph/xml.cc).  A side that does not tell its speed leaves it to the other; one
 * that does not tell its width makes it 16 lanes. */
static int64_t link_mbps(const struct hw_pci *p, const struct hw_pci *above)
{
    int64_t lane = lane_mbps(p), port = lane_mbps(above);
    int64_t lanes = link_lanes(p) < link_lanes(above) ? link_lanes(p) : link_lanes(above);

    lane = !lane || (port && port < lane) ? port : lane;
    return (lane ? lane : SCORE_LANE_MBPS) * (lanes ? lanes : SCORE_LANES);
}

static const struct hw_pci *pci_above(const struct hw *hw, const struct hw_pci *p)
{
    return p && p->parent ? hw_find_pci(hw, p->parent) : NULL;
}

static bool pci_is_above(const struct hw *hw, const struct hw_pci *p, const struct hw_pci *low)
{
    for (int depth = 0; low && depth < SCORE_DEPTH_MAX; depth++, low = pci_above(hw, low))
        if (low == p)
            return true;
    return false;
}

static const struct hw_pci *pci_of(const struct hw *hw, const char *bdf)
{
    const struct hw_pci *p = bdf ? hw_find_pci(hw, bdf) : NULL;

    /* a virtual function has no link of its own */
    return p && p->physfn ? hw_find_pci(hw, p->physfn) : p;
}

/* The least of the links from `p` up to the switch that it shares with `other`, or up to
 * the CPU where there is none; NULL: of its own link only. */
static int64_t way_mbps(const struct hw *hw, const struct hw_pci *p, const struct hw_pci *other)
{
    int64_t least = INT64_MAX;

    for (int depth = 0; p && depth < SCORE_DEPTH_MAX; depth++) {
        const struct hw_pci *above = pci_above(hw, p), *next = pci_above(hw, above);
        int64_t l = link_mbps(p, above);

        least = l < least ? l : least;
        p = !other || pci_is_above(hw, above, other) || pci_is_above(hw, next, other) ? NULL : next;
    }
    return least;
}

static int64_t intel_mbps(const struct hw *hw)
{
    int64_t model = maybe_is(hw->cpu.family, 6) ? maybe_or(hw->cpu.model_id, 0) : 0;

    if (nccl_older_than(hw, 2, 26)) /* knew no later one than Skylake */
        return model >= 0x55 ? SCORE_INTEL_SKL_MBPS : SCORE_OLDER_MBPS;
    return model >= 0xcf   ? SCORE_INTEL_ERP_MBPS
           : model >= 0x8f ? SCORE_INTEL_SRP_MBPS
           : model >= 0x55 ? SCORE_INTEL_SKL_MBPS
                           : SCORE_OLDER_MBPS;
}

/* A maker that NCCL does not know gets the width of what is within one chip. */
static int64_t socket_mbps(const struct hw *hw)
{
    const struct hw_cpu *cpu = &hw->cpu;
    const char *arch = cpu->arch ? cpu->arch : "";

    if (str_starts(arch, "ppc"))
        return SCORE_POWER_MBPS;
    if (str_eq(arch, "aarch64"))
        return SCORE_OLDER_MBPS;
    if (str_eq(cpu->vendor, "GenuineIntel"))
        return intel_mbps(hw);
    if (str_eq(cpu->vendor, "AuthenticAMD"))
        return nccl_older_than(hw, 2, 19) ? SCORE_LOCAL_MBPS : SCORE_AMD_MBPS;
    if (nccl_cpu_is_zhaoxin(hw))
        return maybe_is(cpu->family, 7) && maybe_is(cpu->model_id, 0x5b) ? SCORE_YONGFENG_MBPS
                                                                         : SCORE_OLDER_MBPS;
    return cpu->vendor ? SCORE_LOCAL_MBPS : SCORE_OLDER_MBPS;
}

static int64_t lesser_mbps(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The most that a port of this model runs at; of the layer where none of the model is up. */
static int64_t rate_of_like(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct hw_rdma *mine = hw_find_rdma(s->hw, p->dev), *r;
    int64_t model = -1, layer = -1;

    FOR_EACH(const struct nccl_port, q, s->c->ports) {
        int64_t rate = maybe_or(q->rate_mbps, -1);

        r = hw_find_rdma(s->hw, q->dev);
        if (!str_eq(q->state, "ACTIVE") || !str_eq(q->link_layer, p->link_layer))
            continue;
        layer = rate > layer ? rate : layer;
        if (mine && r && str_eq(mine->hca, r->hca) && str_eq(mine->board, r->board) && rate > model)
            model = rate;
    }
    return model > 0 ? model : layer;
}

/* A rate that is not known is taken for the most that is: place decides then.  A port that
 * is down tells the rate of no link, and would run at that of its like. */
int64_t score_port_mbps(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct nccl_choice *c = s->c;
    int64_t most = p->state && !str_eq(p->state, "ACTIVE") ? rate_of_like(s, p) : -1;

    if (most > 0)
        return most;
    for (size_t i = 0; !p->rate_mbps.known && i < c->ports_count; i++)
        if (maybe_or(c->ports[i].rate_mbps, -1) > most)
            most = c->ports[i].rate_mbps.v;
    return p->rate_mbps.known ? p->rate_mbps.v : most > 0 ? most : SCORE_UNKNOWN_MBPS;
}

/* What is between the two: PCIe, or where the level is that far, the link between CPUs. */
static int64_t way_direct(const struct nccl_run *s, size_t gpu, const struct nccl_port *p,
                          enum nccl_level l)
{
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);
    const struct hw_pci *nic = pci_of(s->hw, r ? r->bdf : NULL);
    const struct hw_pci *card = pci_of(s->hw, s->hw->gpus[gpu].bdf);
    int64_t mbps = way_mbps(s->hw, nic, card);

    if (l < LEVEL_P2C || !nccl_gpu_on_c2c(s->hw, gpu)) /* else by the chip-to-chip link */
        mbps = lesser_mbps(mbps, way_mbps(s->hw, card, nic));
    return l == LEVEL_SYS ? lesser_mbps(mbps, socket_mbps(s->hw)) : mbps;
}

/* By NVLink to the neighbour with the widest way to the port, and on from there. */
static int64_t way_relayed(const struct nccl_run *s, size_t gpu, size_t port)
{
    int64_t most = 0;

    for (size_t i = 0; i < s->hw->gpus_count; i++) {
        enum nccl_level l = (enum nccl_level)s->levels[i * s->c->ports_count + port];
        int64_t mbps = level_is_relay(s, gpu, i, port)
                           ? lesser_mbps(way_direct(s, i, &s->c->ports[port], l),
                                         level_nvlink_mbps(s->hw, gpu, i))
                           : 0;

        most = mbps > most ? mbps : most;
    }
    return most;
}

static int64_t between_mbps(const struct nccl_run *s, size_t gpu, size_t port, enum nccl_level l)
{
    return l == LEVEL_PXN ? way_relayed(s, gpu, port) : way_direct(s, gpu, &s->c->ports[port], l);
}

void score_prepare(struct nccl_run *s)
{
    size_t ports = s->c->ports_count, pairs = s->hw->gpus_count * ports;
    bool *picked = arena_array(s->a, bool, ports + 1);

    s->levels = arena_array(s->a, signed char, pairs + 1);
    s->ranks = arena_array(s->a, int, pairs + 1);
    s->paths = arena_array(s->a, signed char, pairs + 1);
    s->way_mbps = arena_array(s->a, int64_t, pairs + 1);
    s->direct = arena_array(s->a, signed char, pairs + 1);
    s->direct_mbps = arena_array(s->a, int64_t, pairs + 1);
    for (size_t g = 0; g < s->hw->gpus_count; g++)
        for (size_t i = 0; i < ports; i++) {
            s->levels[g * ports + i] = (signed char)level_gpu_nic(s->hw, g, s->c->ports[i].dev);
            s->ranks[g * ports + i] = level_rank(s->hw, g, s->c->ports[i].dev);
        }
    for (size_t g = 0; g < s->hw->gpus_count; g++)
        for (size_t i = 0; i < ports; i++) {
            enum nccl_level l = level_effective(s, g, i), direct = level_direct(s, g, i);

            s->paths[g * ports + i] = (signed char)l;
            s->way_mbps[g * ports + i] = between_mbps(s, g, i, l);
            s->direct[g * ports + i] = (signed char)direct;
            s->direct_mbps[g * ports + i] = between_mbps(s, g, i, direct);
        }
    for (size_t i = 0; i < ports; i++)
        picked[i] = s->c->ports[i].picked;
    s->picked_mbps = merge_nics_of(s, picked).rates;
}

/* ---- the ports of a GPU ---- */

struct path { /* of a GPU to a port, in one set of ports */
    int64_t mbps;
    enum nccl_level level;
};

struct picks { /* ports that NCCL would have */
    const bool *set;
    struct merged_nics nics;
    bool *relayed; /* some GPU behind the same switch takes it by itself */
};

static struct path path_direct(const struct nccl_run *s, const struct picks *k, size_t gpu,
                               size_t port)
{
    size_t at = gpu * s->c->ports_count + port;

    return (struct path){ .mbps = lesser_mbps(k->nics.rates[port], s->direct_mbps[at]),
                          .level = (enum nccl_level)s->direct[at] };
}

/* A neighbour passes data on to a NIC only if it is one of the neighbour's own. */
static struct path path_in_set(const struct nccl_run *s, const struct picks *k, size_t gpu,
                               size_t port)
{
    size_t at = gpu * s->c->ports_count + port;

    if (s->paths[at] == LEVEL_PXN && !k->relayed[port])
        return path_direct(s, k, gpu, port);
    return (struct path){ .mbps = lesser_mbps(k->nics.rates[port], s->way_mbps[at]),
                          .level = (enum nccl_level)s->paths[at] };
}

static bool path_is_better(struct path a, struct path b)
{
    int la = a.level == LEVEL_NONE ? LEVEL_SYS + 1 : (int)a.level;
    int lb = b.level == LEVEL_NONE ? LEVEL_SYS + 1 : (int)b.level;

    return a.mbps > b.mbps || (a.mbps == b.mbps && la < lb);
}

static struct picks picks_of(const struct nccl_run *s, const bool *set)
{
    size_t ports = s->c->ports_count;
    struct picks k = { .set = set,
                       .nics = merge_nics_of(s, set),
                       .relayed = arena_array(s->a, bool, ports + 1) };

    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        struct path best = { .mbps = -1, .level = LEVEL_NONE };

        for (size_t i = 0; i < ports; i++)
            if (set[i] && path_is_better(path_direct(s, &k, g, i), best))
                best = path_direct(s, &k, g, i);
        for (size_t i = 0; i < ports; i++) {
            struct path p = path_direct(s, &k, g, i);

            k.relayed[i] =
                k.relayed[i] || (set[i] && score_gpu_counts(s, g) && p.level < LEVEL_PXN &&
                                 p.mbps == best.mbps && p.level == best.level);
        }
    }
    return k;
}

static void serve_gpu(const struct nccl_run *s, const struct picks *k, size_t gpu,
                      struct score_way *out)
{
    struct path best = { .mbps = -1, .level = LEVEL_NONE };

    for (size_t i = 0; i < s->c->ports_count; i++) {
        struct path p = path_in_set(s, k, gpu, i);

        if (k->set[i] && path_is_better(p, best))
            best = p;
    }
    for (size_t i = 0; i < s->c->ports_count; i++) {
        struct path p = path_in_set(s, k, gpu, i);

        out->serves[i] = k->set[i] && p.mbps == best.mbps && p.level == best.level;
    }
    out->path = best.level;
}

/* What the GPU brings to each of its NICs: one divided by how many it has. */
static double gpu_load(const struct nccl_run *s, const struct picks *k, const struct score_way *w)
{
    bool *seen = arena_array(s->a, bool, s->c->ports_count + 1);
    size_t n = 0;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        if (!w->serves[i] || !s->c->ports[i].counts)
            continue;
        n += !seen[k->nics.first[i]];
        seen[k->nics.first[i]] = true;
    }
    return n ? 1.0 / (double)n : 0;
}

static bool ports_share_link(const struct hw_pci *a, const struct hw_pci *b)
{
    const char *dot = a && a->bdf ? strrchr(a->bdf, '.') : NULL;

    return dot && b && b->bdf && !strncmp(a->bdf, b->bdf, (size_t)(dot - a->bdf) + 1);
}

/* The rate of a port, or its part of what the card's PCIe link carries now. */
static double port_carries(const struct nccl_run *s, size_t port)
{
    const struct nccl_choice *c = s->c;
    const struct hw_rdma *r = hw_find_rdma(s->hw, c->ports[port].dev);
    const struct hw_pci *nic = pci_of(s->hw, r ? r->bdf : NULL);
    struct maybe link = hw_link_mbps(nic);
    double rate = (double)score_port_mbps(s, &c->ports[port]), sum = 0;

    for (size_t i = 0; link.known && i < c->ports_count; i++) {
        const struct hw_rdma *q = hw_find_rdma(s->hw, c->ports[i].dev);

        if (c->ports[i].counts && q && ports_share_link(nic, pci_of(s->hw, q->bdf)))
            sum += (double)score_port_mbps(s, &c->ports[i]);
    }
    return link.known && (double)link.v < sum ? rate * (double)link.v / sum : rate;
}

/* A GPU's own link: over NVLink or to its processor's chip it needs none. */
static int64_t gpu_takes(const struct nccl_run *s, size_t gpu, enum nccl_level l)
{
    struct maybe link = hw_link_mbps_max(s->hw, pci_of(s->hw, s->hw->gpus[gpu].bdf));

    return l == LEVEL_PXN || nccl_gpu_on_c2c(s->hw, gpu) || !link.known ? INT64_MAX : link.v;
}

/* What of a port can be had: where GPUs send to it by way of others, all of it goes over the
 * links of those that take it themselves. */
static double port_gives(const struct nccl_run *s, size_t port, const struct score_way *all)
{
    double gives = port_carries(s, port), links = 0;
    bool relayed = false;

    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        if (!score_gpu_counts(s, g) || !all[g].serves[port])
            continue;
        relayed = relayed || all[g].path == LEVEL_PXN;
        links += all[g].path == LEVEL_PXN ? 0 : (double)gpu_takes(s, g, all[g].path);
    }
    return relayed && links > 0 && links < gives ? links : gives;
}

static void sum_gpu(const struct nccl_run *s, size_t gpu, struct score_way *all)
{
    struct score_way *w = &all[gpu];
    size_t ports = s->c->ports_count;
    double sum = 0;

    w->level = LEVEL_NONE;
    w->known = true;
    for (size_t i = 0; i < ports; i++) {
        const struct nccl_port *p = &s->c->ports[i];
        double load = 0;

        if (!w->serves[i] || !p->counts)
            continue;
        for (size_t g = 0; g < s->hw->gpus_count; g++)
            if (score_gpu_counts(s, g) && all[g].serves[i])
                load += all[g].load;
        sum += port_gives(s, i, all) * (load > 0 ? w->load / load : 1);
        w->level = w->path;
        w->known = w->known && p->rate_mbps.known && w->level != LEVEL_NONE;
    }
    w->mbps = lesser_mbps((int64_t)(sum + 0.5), gpu_takes(s, gpu, w->path));
}

void score_set(const struct nccl_run *s, const bool *set, struct score_way *out)
{
    struct picks k = picks_of(s, set);

    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        out[g] = (struct score_way){ .serves = arena_array(s->a, bool, s->c->ports_count + 1) };
        serve_gpu(s, &k, g, &out[g]);
        out[g].load = gpu_load(s, &k, &out[g]);
    }
    for (size_t g = 0; g < s->hw->gpus_count; g++)
        sum_gpu(s, g, out);
}

/* Some GPU has no port of `set` nearer than this one. */
static bool port_is_nearest(const struct nccl_run *s, const bool *set, size_t port)
{
    size_t ports = s->c->ports_count;

    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        const int *ranks = s->ranks + g * ports;
        bool nearest = ranks[port] >= 0;

        for (size_t i = 0; nearest && i < ports; i++)
            nearest = !set[i] || ranks[i] < 0 || ranks[i] >= ranks[port];
        if (nearest)
            return true;
    }
    return false;
}

/* The most that a port of `set` of this layer runs at; one of another model that is nobody's
 * nearest is no rail, and may well be faster.  0: none tells. */
static int64_t rate_of_set(const struct nccl_run *s, const bool *set, const struct nccl_port *p)
{
    int64_t most = 0;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        const struct nccl_port *q = &s->c->ports[i];

        if (set[i] && str_eq(q->link_layer, p->link_layer) && str_eq(q->state, "ACTIVE") &&
            (!wanted_models_differ(s, p, q) || port_is_nearest(s, set, i)) &&
            maybe_or(q->rate_mbps, 0) > most)
            most = q->rate_mbps.v;
    }
    return most;
}

void score_set_well(const struct nccl_run *s, const bool *set, struct score_way *out)
{
    struct nccl_choice c = *s->c;
    struct nccl_run well = *s;

    c.ports = arena_array(s->a, struct nccl_port, c.ports_count + 1);
    for (size_t i = 0; i < c.ports_count; i++) {
        int64_t rate = rate_of_set(s, set, &s->c->ports[i]);

        c.ports[i] = s->c->ports[i];
        c.ports[i].counts = set[i];
        c.ports[i].state = "ACTIVE";
        if (rate)
            c.ports[i].rate_mbps = maybe_of(rate);
    }
    well.c = &c;
    score_prepare(&well);
    score_set(&well, set, out);
}

/* ---- both choices ---- */

static struct nccl_way way_told(const struct nccl_run *s, const struct score_way *w)
{
    struct nccl_way out = { .mbps = w->known ? maybe_of(w->mbps) : maybe_none(),
                            .path = level_name(w->level) };
    struct buf b = { 0 };

    for (size_t i = 0; i < s->c->ports_count; i++)
        if (w->serves[i])
            buf_addf(&b, "%s%s:%lld", b.len ? "," : "", s->c->ports[i].dev,
                     (long long)s->c->ports[i].port);
    out.ports = nccl_text(s->a, &b);
    return out;
}

/* Without a known rate or distance: every port that served still does. */
static bool serves_all(const struct nccl_run *s, const struct score_way *ours,
                       const struct score_way *dflt)
{
    for (size_t i = 0; i < s->c->ports_count; i++)
        if (dflt->serves[i] && s->c->ports[i].counts && !ours->serves[i])
            return false;
    return true;
}

static bool way_is_worse(const struct nccl_run *s, const struct score_way *ours,
                         const struct score_way *dflt)
{
    if (!ours->known || !dflt->known)
        return !serves_all(s, ours, dflt);
    if (dflt->level == LEVEL_NONE) /* nothing that counts served it */
        return false;
    return ours->mbps < dflt->mbps || ours->level == LEVEL_NONE || ours->level > dflt->level;
}

struct rivals { /* the sets of ports that are compared */
    bool *dflt; /* what NCCL takes by itself: the first nccl_ports_max() that it can */
    bool *able; /* ... without those that cannot reach another node */
    bool *ours;
};

static struct rivals rivals_of(const struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    struct rivals r = { .dflt = arena_array(s->a, bool, c->ports_count + 1),
                        .able = arena_array(s->a, bool, c->ports_count + 1),
                        .ours = arena_array(s->a, bool, c->ports_count + 1) };
    size_t taken = 0;

    for (size_t i = 0; i < c->ports_count; i++) {
        r.dflt[i] = c->ports[i].takes && taken < nccl_ports_max(s->hw);
        taken += r.dflt[i];
        r.able[i] = r.dflt[i] && c->ports[i].counts;
        r.ours[i] = c->ports[i].wanted;
    }
    return r;
}

static bool layers_mixed(const struct nccl_run *s, const bool *set)
{
    const char *layer = NULL;

    for (size_t i = 0; i < s->c->ports_count; i++) {
        const struct nccl_port *p = &s->c->ports[i];

        if (!set[i] || !p->counts)
            continue;
        if (layer && !str_eq(layer, p->link_layer))
            return true;
        layer = p->link_layer;
    }
    return false;
}

/* The share of the ports that NCCL takes of a set.  Ports of both layers in one set are taken as
 * one would be, by width and distance (NCCL looks at the layer no sooner than it connects two
 * ports, and stops where they differ): what a GPU can have is what those of one layer give it. */
static void score_taken(const struct nccl_run *s, const bool *set, struct score_way *out)
{
    static const char *const layers[] = { "InfiniBand", "Ethernet" };
    struct nccl_choice one = *s->c;
    struct score_way *ways = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);
    struct nccl_run part = *s;

    score_set(s, set, out);
    if (!layers_mixed(s, set))
        return;
    part.c = &one;
    one.ports = arena_array(s->a, struct nccl_port, one.ports_count + 1);
    for (size_t l = 0; l < ARRAY_SIZE(layers); l++) {
        for (size_t i = 0; i < one.ports_count; i++) {
            one.ports[i] = s->c->ports[i];
            one.ports[i].counts = one.ports[i].counts && str_eq(one.ports[i].link_layer, layers[l]);
        }
        score_set(&part, set, ways);
        for (size_t g = 0; g < s->hw->gpus_count; g++)
            if (!l || ways[g].mbps > out[g].mbps)
                out[g] = ways[g];
    }
}

/* A GPU that NCCL alone would send over a port which reaches nobody leaves the others'
 * ports free, and has nothing for it: a loss must be one beside the ports that work, too. */
bool score_choose(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    struct rivals r = rivals_of(s);
    struct score_way *a = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);
    struct score_way *w = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);
    struct score_way *b = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);
    bool good = true, numbered = true;

    for (size_t g = 0; g < s->hw->gpus_count; g++)
        numbered = numbered && (!score_gpu_counts(s, g) || s->hw->gpus[g].index.known);
    score_taken(s, r.dflt, a);
    score_taken(s, r.able, w);
    score_taken(s, r.ours, b);
    c->scores = arena_array(s->a, struct nccl_score, s->hw->gpus_count + 1);
    c->scores_count = 0;
    for (size_t g = 0; g < s->hw->gpus_count; g++) {
        struct nccl_score *out = &c->scores[c->scores_count];

        if (!score_gpu_counts(s, g))
            continue;
        *out = (struct nccl_score){ .gpu = g,
                                    .number = numbered ? s->hw->gpus[g].index.v : (int64_t)g,
                                    .dflt = way_told(s, &a[g]),
                                    .ours = way_told(s, &b[g]),
                                    .worse = way_is_worse(s, &b[g], &a[g]) &&
                                             way_is_worse(s, &b[g], &w[g]) };
        good = good && !out->worse;
        c->scores_count++;
    }
    return good;
}

void score_aside(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    struct score_way *ways = arena_array(s->a, struct score_way, s->hw->gpus_count + 1);

    for (size_t i = 0; i < c->ports_count; i++)
        c->ports[i].counts = c->ports[i].counts || c->ports[i].aside;
    score_taken(s, rivals_of(s).dflt, ways);
    for (size_t i = 0; i < c->ports_count; i++)
        c->ports[i].counts = c->ports[i].counts && !c->ports[i].aside;
    for (size_t i = 0; i < c->scores_count; i++) {
        const struct score_way *w = &ways[c->scores[i].gpu];

        if (w->known && w->mbps > maybe_or(c->scores[i].dflt.mbps, INT64_MAX))
            c->scores[i].dflt.all_mbps = maybe_of(w->mbps);
    }
}

/* ---- for people ---- */

static const char *way_text(struct arena *a, const struct nccl_way *w)
{
    if (!*w->ports)
        return "no port";
    if (!w->path && w->mbps.known && w->mbps.v == 0)
        return "only ports of another fabric or without an address that works";
    return arena_printf(a, "%s at %s", nccl_rate_text(a, w->mbps),
                        w->path ? w->path : "an unknown distance");
}

const char *score_way_text(struct arena *a, const struct nccl_way *w)
{
    return arena_printf(a, "%s%s%s%s%s%s", way_text(a, w), *w->ports ? " by " : "", w->ports,
                        w->all_mbps.known ? " (" : "",
                        w->all_mbps.known ? nccl_rate_text(a, w->all_mbps) : "",
                        w->all_mbps.known ? " with those that are left out)" : "");
}

static bool scores_equal(struct arena *a, const struct nccl_score *x, const struct nccl_score *y)
{
    return str_eq(way_text(a, &x->dflt), way_text(a, &y->dflt)) &&
           maybe_or(x->dflt.all_mbps, -1) == maybe_or(y->dflt.all_mbps, -1) &&
           str_eq(way_text(a, &x->ours), way_text(a, &y->ours));
}

/* "0-3,6" of the scores that are like score `i`; empty when one before it is. */
static const char *like_score(struct arena *a, const struct nccl_choice *c, size_t i)
{
    struct buf b = { 0 };

    for (size_t k = 0; k < i; k++)
        if (scores_equal(a, &c->scores[k], &c->scores[i]))
            return "";
    for (size_t k = i; k < c->scores_count; k++) {
        size_t last = k;

        if (!scores_equal(a, &c->scores[k], &c->scores[i]))
            continue;
        while (last + 1 < c->scores_count &&
               c->scores[last + 1].number == c->scores[last].number + 1 &&
               scores_equal(a, &c->scores[last + 1], &c->scores[i]))
            last++;
        buf_addf(&b, "%s%lld", b.len ? "," : "", (long long)c->scores[k].number);
        if (last > k)
            buf_addf(&b, "-%lld", (long long)c->scores[last].number);
        k = last;
    }
    return nccl_text(a, &b);
}

const char *score_text(struct arena *a, const struct nccl_choice *c, const char *ours)
{
    struct buf b = { 0 };

    for (size_t i = 0; i < c->scores_count; i++) {
        const struct nccl_score *x = &c->scores[i];
        const char *gpus = like_score(a, c, i);
        const char *theirs = way_text(a, &x->dflt), *mine = way_text(a, &x->ours);

        if (!*gpus)
            continue;
        buf_addf(&b, "%sGPU %s %s", b.len ? "; " : "", gpus, theirs);
        if (str_eq(theirs, mine))
            buf_adds(&b, " either way");
        else
            buf_addf(&b, " by NCCL's own choice, %s %s", mine, ours);
        if (x->dflt.all_mbps.known)
            buf_addf(&b,
                     ", ports that are left out not counted (with them %s by NCCL's "
                     "own choice)",
                     nccl_rate_text(a, x->dflt.all_mbps));
    }
    return nccl_text(a, &b);
}
