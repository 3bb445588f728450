/* SPDX-License-Identifier: MIT */
/* level: how far apart things are to NCCL, and what follows from it.
 *
 * NCCL's scale has one step where nvidia-smi has two: its CPU node is a NUMA node,
 * so what meets in one root complex (PHB) and what meets in one NUMA node (NODE)
 * are both PHB; only the way to another NUMA node is SYS. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <assert.h>

static const char *const names[] = { "LOC", "NVL", "NVB", "C2C", "PIX",
                                     "PXB", "P2C", "PXN", "PHB", "SYS" };
static_assert(ARRAY_SIZE(names) == LEVEL_SYS + 1, "a name for every level");

const char *level_name(enum nccl_level l)
{
    return l >= 0 && l <= LEVEL_SYS ? names[l] : NULL;
}

enum nccl_level level_of_path(const char *path)
{
    if (!path)
        return LEVEL_NONE;
    if (str_starts(path, "NV"))
        return LEVEL_NVL;
    if (str_eq(path, "NODE"))
        return LEVEL_PHB;
    for (int i = LEVEL_PIX; i <= LEVEL_SYS; i++)
        if (str_eq(path, names[i]))
            return (enum nccl_level)i;
    return LEVEL_NONE;
}

enum nccl_level level_parse(const char *text)
{
    static const enum nccl_level old[] = { LEVEL_LOC, LEVEL_PIX, LEVEL_PXB,
                                           LEVEL_PHB, LEVEL_SYS, LEVEL_SYS };
    long n;

    if (!text)
        return LEVEL_NONE;
    for (int i = 0; i <= LEVEL_SYS; i++)
        if (str_eq(text, names[i]))
            return (enum nccl_level)i;
    if (*text < '0' || *text > '9')
        return LEVEL_NONE;
    n = strtol(text, NULL, 0);
    return n >= 0 && n < (long)ARRAY_SIZE(old) ? old[n] : LEVEL_SYS;
}

/* 2.26 brought the name C2C, 2.27 P2C; an older one knows neither. */
enum nccl_level level_of_env(const struct hw *hw, const char *name)
{
    enum nccl_level l = level_parse(nccl_env_of(hw, name));

    if ((l == LEVEL_C2C && nccl_older_than(hw, 2, 26)) ||
        (l == LEVEL_P2C && nccl_older_than(hw, 2, 27)))
        return LEVEL_NONE;
    return l;
}

bool nccl_gpu_on_c2c(const struct hw *hw, size_t gpu)
{
    return maybe_is(hw->gpus[gpu].c2c, 1);
}

bool level_on_c2c(const struct hw *hw)
{
    for (size_t i = 0; i < hw->gpus_count; i++)
        if (nccl_gpu_on_c2c(hw, i))
            return true;
    return false;
}

/* 2.26 brought it, off; 2.27 turned it on. */
/* NCCL reads GPU memory over that link: unset, by version. */
static bool level_gdr_c2c(const struct hw *hw)
{
    return !nccl_older_than(hw, 2, 26) &&
           nccl_env_int(hw, "NCCL_NET_GDR_C2C", nccl_older_than(hw, 2, 27) ? 0 : 1) != 0;
}

struct pci_ends { /* the PCI functions of a GPU and a NIC */
    const struct hw_pci *gpu, *nic;
};

static struct pci_ends ends_of(const struct hw *hw, size_t gpu, const char *nic)
{
    const struct hw_rdma *r = hw_find_rdma(hw, nic);

    return (struct pci_ends){
        .gpu = hw->gpus[gpu].bdf ? hw_find_pci(hw, hw->gpus[gpu].bdf) : NULL,
        .nic = r && r->bdf ? hw_find_pci(hw, r->bdf) : NULL,
    };
}

/* Firmware that tells no NUMA node of a device (-1): NCCL makes a CPU of its own of those,
 * so that they are near each other and far from all whose node is known. */
static enum nccl_level by_numa(const struct hw_pci *a, const struct hw_pci *b, enum nccl_level l)
{
    if (!a || !b || !a->root || !b->root || str_eq(a->root, b->root))
        return l;
    if (a->numa.known != b->numa.known)
        return LEVEL_SYS;
    return a->numa.known ? l : LEVEL_PHB;
}

/* From 2.24 to 2.26 NCCL looks for a NIC at its own address. */
static bool nics_as_named(const struct hw *hw)
{
    return !nccl_older_than(hw, 2, 24) && nccl_older_than(hw, 2, 27);
}

/* Where NCCL looks for a NIC in a topology file: at its own address, with NCCL_IB_MERGE_VFS=0,
 * and by default. */
enum file_place { PLACE_OWN, PLACE_FUNCTION, PLACE_BUS };

static const char *way_path(const struct hw_nccl_way *way, enum file_place place)
{
    return place == PLACE_OWN        ? way->path
           : place == PLACE_FUNCTION ? way->path_function
                                     : way->path_bus;
}

/* NCCL finds nothing at device and function 0 of the NIC's bus, and hangs it on its first
 * processor, that of the first GPU (graph/xml.cc, ncclTopoFillNet). */
static bool nic_is_astray(const struct hw *hw, const char *nic)
{
    const struct hw_rdma *r = hw_find_rdma(hw, nic);

    return r && maybe_is(r->bus_first, 0) && !hw_nccl_topo_used(hw);
}

static const char *astray_path(const struct hw *hw, size_t gpu)
{
    const struct hw_pci *own = hw->gpus[gpu].bdf ? hw_find_pci(hw, hw->gpus[gpu].bdf) : NULL;
    const struct hw_pci *first = hw->gpus[0].bdf ? hw_find_pci(hw, hw->gpus[0].bdf) : NULL;

    if (!own || !first)
        return NULL;
    return own->numa.known == first->numa.known && own->numa.v == first->numa.v ? "PHB" : "SYS";
}

/* The nearest that any GPU has it there. */
static enum nccl_level file_best(const struct hw *hw, const char *nic, enum file_place place)
{
    enum nccl_level best = LEVEL_SYS;

    for (size_t g = 0; g < hw->gpus_count; g++) {
        const struct hw_nccl_way *way = hw_nccl_way_nic(hw, g, nic);
        enum nccl_level l = way ? level_of_path(way_path(way, place)) : LEVEL_NONE;

        if (l != LEVEL_NONE && l < best)
            best = l;
    }
    return best;
}

/* A GPU that has the NIC at another level than NCCL would; all to be asked of sysfs only. */
static bool astray_matters(const struct hw *hw, const char *nic)
{
    for (size_t g = 0; g < hw->gpus_count; g++) {
        enum nccl_level own = level_of_path(hw_distance_get(hw, g, nic));

        if (own != LEVEL_NONE && own != level_of_path(astray_path(hw, g)))
            return true;
    }
    return false;
}

bool level_nic_apart(const struct hw *hw, const char *nic)
{
    if (ports_merged(hw) && nic_is_astray(hw, nic))
        return astray_matters(hw, nic);
    return ports_merged(hw) && file_best(hw, nic, PLACE_FUNCTION) < file_best(hw, nic, PLACE_BUS);
}

/* Where NCCL looks for it with the variables as they are, or as --env sets them. */
static enum file_place place_of(const struct hw *hw, const char *nic)
{
    bool mend = !nccl_env_of(hw, "NCCL_IB_MERGE_VFS") && level_nic_apart(hw, nic);

    return nics_as_named(hw) ? PLACE_OWN : mend || !ports_merged(hw) ? PLACE_FUNCTION : PLACE_BUS;
}

bool level_nic_lost(const struct hw *hw, const char *nic)
{
    enum nccl_level best = file_best(hw, nic, PLACE_OWN), have;

    if (!hw_nccl_topo_used(hw) || level_nic_apart(hw, nic))
        return false;
    have = file_best(hw, nic, place_of(hw, nic));
    for (size_t g = 0; g < hw->gpus_count; g++) { /* not named at all: where it really is */
        const struct hw_nccl_way *way = hw_nccl_way_nic(hw, g, nic);
        enum nccl_level l = way && maybe_is(way->named, 0)
                                ? level_of_path(hw_distance_get(hw, g, nic))
                                : LEVEL_NONE;

        best = l != LEVEL_NONE && l < best ? l : best;
    }
    return best < have;
}

/* By the topology file, at the address where NCCL looks for the NIC, with NCCL_IB_MERGE_VFS=0
 * where --env sets that; else by sysfs. */
const char *level_nic_path(const struct hw *hw, size_t gpu, const char *nic)
{
    const struct hw_nccl_way *way = hw_nccl_way_nic(hw, gpu, nic);

    enum file_place place = place_of(hw, nic);

    if (way)
        return way_path(way, place);
    return place == PLACE_BUS && nic_is_astray(hw, nic) ? astray_path(hw, gpu)
                                                        : hw_distance_get(hw, gpu, nic);
}

/* From 2.27 on what meets at a CPU with a chip-to-chip link is P2C, not PHB. */
enum nccl_level level_gpu_nic(const struct hw *hw, size_t gpu, const char *nic)
{
    const char *path = level_nic_path(hw, gpu, nic);
    enum nccl_level l = level_of_path(path);

    if (!hw_nccl_way_nic(hw, gpu, nic) && (!path || str_eq(path, "NODE"))) {
        struct pci_ends e = ends_of(hw, gpu, nic);

        l = by_numa(e.gpu, e.nic, l);
    }
    return l == LEVEL_PHB && nccl_gpu_on_c2c(hw, gpu) && !nccl_older_than(hw, 2, 27) ? LEVEL_P2C
                                                                                     : l;
}

static struct maybe socket_of(const struct hw *hw, struct maybe numa)
{
    for (size_t i = 0; numa.known && i < hw->numa_count; i++)
        if (maybe_is(hw->numa[i].id, numa.v))
            return hw->numa[i].socket;
    return maybe_none();
}

bool level_same_socket(const struct hw *hw, size_t gpu, const char *nic)
{
    struct pci_ends e = ends_of(hw, gpu, nic);
    struct maybe a = e.gpu ? socket_of(hw, e.gpu->numa) : maybe_none();
    struct maybe b = e.nic ? socket_of(hw, e.nic->numa) : maybe_none();

    return a.known && b.known && a.v == b.v;
}

int level_rank(const struct hw *hw, size_t gpu, const char *nic)
{
    enum nccl_level l = level_gpu_nic(hw, gpu, nic);

    if (l == LEVEL_NONE)
        return -1;
    return 2 * (int)l + (l == LEVEL_SYS && !level_same_socket(hw, gpu, nic));
}

enum nccl_level level_gdr_default(const struct hw *hw)
{
    return level_on_c2c(hw) && level_gdr_c2c(hw) && !nccl_older_than(hw, 2, 29) ? LEVEL_P2C
                                                                                : LEVEL_PXB;
}

bool level_is_guest(const struct nccl_run *s)
{
    bool known = false;

    if (!s->hw->place.hypervisor || s->c->efa || hw_nccl_topo_used(s->hw) ||
        hw_nccl_topo_unread(s->hw))
        return false;
    for (size_t gpu = 0; gpu < s->hw->gpus_count; gpu++)
        for (size_t i = 0; s->gpu_visible[gpu] && i < s->c->ports_count; i++) {
            enum nccl_level l =
                s->c->ports[i].wanted ? level_gpu_nic(s->hw, gpu, s->c->ports[i].dev) : LEVEL_NONE;

            if (l != LEVEL_NONE && l < LEVEL_PHB)
                return false;
            known = known || l != LEVEL_NONE;
        }
    return known;
}

/* Is the way short enough for GPUDirect RDMA?  Up to 2.28 NCCL counts the way over the
 * chip-to-chip link as C2C, nearer than any PCIe switch, whatever level the user set beyond
 * that; from 2.29 on it is P2C, which a nearer level of the user's leaves out. */
static bool within_gdr_limit(const struct hw *hw, size_t gpu, enum nccl_level l,
                             enum nccl_level limit)
{
    bool chip = l == LEVEL_P2C || (l == LEVEL_PHB && nccl_older_than(hw, 2, 27));

    if (l == LEVEL_PXN)
        return true; /* the neighbour is within the limit */
    if (chip && nccl_gpu_on_c2c(hw, gpu) && level_gdr_c2c(hw) && nccl_older_than(hw, 2, 29))
        return limit >= LEVEL_C2C;
    return l <= limit;
}

enum nccl_level level_nic_best(const struct hw *hw, const char *nic)
{
    enum nccl_level best = LEVEL_NONE;

    for (size_t i = 0; i < hw->gpus_count; i++) {
        enum nccl_level l = level_gpu_nic(hw, i, nic);

        if (l != LEVEL_NONE && (best == LEVEL_NONE || l < best))
            best = l;
    }
    return best;
}

/* NCCL trusts AMD root complexes with two GPUs; before 2.23 it trusted all but those of
 * Arm, Intel and Zhaoxin, with any number. */
enum nccl_level level_p2p_default(const struct hw *hw, const struct nccl_choice *c)
{
    const char *vendor = hw->cpu.vendor;
    bool arm = str_eq(hw->cpu.arch, "aarch64");

    if (!nccl_older_than(hw, 2, 23))
        return str_eq(vendor, "AuthenticAMD") && !arm && c->gpus.known && c->gpus.v <= 2
                   ? LEVEL_SYS
                   : LEVEL_PXB;
    if (arm || str_eq(vendor, "GenuineIntel") || nccl_cpu_is_zhaoxin(hw))
        return LEVEL_PXB;
    return vendor || (hw->cpu.arch && str_starts(hw->cpu.arch, "ppc")) ? LEVEL_SYS : LEVEL_PXB;
}

/* How far apart two GPUs may be for NCCL to let one read the other's memory. */
static enum nccl_level p2p_limit(const struct nccl_run *s)
{
    enum nccl_level user = level_of_env(s->hw, "NCCL_P2P_LEVEL");

    if (nccl_env_int(s->hw, "NCCL_P2P_DISABLE", 0) == 1)
        return LEVEL_LOC;
    return user != LEVEL_NONE ? user : level_p2p_default(s->hw, s->c);
}

static bool p2p_refused(const struct hw *hw, const struct hw_gpu_pair *p)
{
    return nccl_env_int(hw, "NCCL_IGNORE_DISABLED_P2P", 0) != 2 &&
           ((p->p2p_read && !str_eq(p->p2p_read, "ok")) ||
            (p->p2p_write && !str_eq(p->p2p_write, "ok")));
}

static const struct hw_pci *gpu_pci(const struct hw *hw, struct maybe gpu)
{
    const char *bdf = gpu.known && (size_t)gpu.v < hw->gpus_count ? hw->gpus[gpu.v].bdf : NULL;

    return bdf ? hw_find_pci(hw, bdf) : NULL;
}

enum nccl_level level_gpu_pair(const struct hw *hw, const struct hw_gpu_pair *p)
{
    const struct hw_nccl_way *way =
        p->a.known && p->b.known ? hw_nccl_way_gpu(hw, (size_t)p->a.v, (size_t)p->b.v) : NULL;

    if (way)
        return level_of_path(way->path);
    if (maybe_or(p->nvlinks, 0) > 0)
        return LEVEL_NVL;
    if (p->path && !str_eq(p->path, "NODE"))
        return level_of_path(p->path);
    return by_numa(gpu_pci(hw, p->a), gpu_pci(hw, p->b), level_of_path(p->path));
}

static const struct hw_gpu_pair *pair_of(const struct hw *hw, size_t a, size_t b)
{
    FOR_EACH(const struct hw_gpu_pair, p, hw->gpu_pairs) {
        if ((maybe_is(p->a, (int64_t)a) && maybe_is(p->b, (int64_t)b)) ||
            (maybe_is(p->a, (int64_t)b) && maybe_is(p->b, (int64_t)a)))
            return p;
    }
    return NULL;
}

/* NVLink joins them, and NCCL uses it: else it leads even that way over the CPU, before it
 * looks for neighbours (PXN). */
static bool nvlink_between(const struct nccl_run *s, size_t a, size_t b)
{
    const struct hw_gpu_pair *p = pair_of(s->hw, a, b);

    return p && level_gpu_pair(s->hw, p) == LEVEL_NVL && p2p_limit(s) >= LEVEL_NVL &&
           !p2p_refused(s->hw, p);
}

/* NCCL's figures for one link of a generation (graph/topo.h). */
int64_t level_nvlink_mbps(const struct hw *hw, size_t a, size_t b)
{
    const struct hw_gpu_pair *p = pair_of(hw, a, b);
    int64_t links = p ? maybe_or(p->nvlinks, 0) : 0;
    int64_t major = maybe_or(hw->gpus[a].compute_major, 8);
    int64_t sm = major * 10 + maybe_or(hw->gpus[a].compute_minor, 0);
    int64_t one = sm >= 100  ? 320000
                  : sm >= 90 ? 164800
                  : sm == 86 ? 96000
                  : sm >= 70 ? 160000
                             : 144000;

    return links > 0 ? links * one : INT64_MAX;
}

/* How near a neighbour must be to the NIC to send in our stead: from 2.28 on also by its
 * chip-to-chip link, in 2.27 when asked for. */
static enum nccl_level pxn_limit(const struct hw *hw)
{
    bool c2c = !nccl_older_than(hw, 2, 27) &&
               nccl_env_int(hw, "NCCL_PXN_C2C", nccl_older_than(hw, 2, 28) ? 0 : 1) != 0;

    return c2c ? LEVEL_P2C : LEVEL_PXB;
}

/* ---- GPUDirect RDMA ---- */

static bool gpu_without_gdr(const struct hw_gpu *g)
{
    return g->brand && str_starts(g->brand, "GeForce");
}

bool nccl_gpus_without_gdr(const struct hw *hw)
{
    for (size_t i = 0; i < hw->gpus_count; i++)
        if (!gpu_without_gdr(&hw->gpus[i]))
            return false;
    return hw->gpus_count > 0;
}

const char *level_gdr_support(const struct hw *hw)
{
    bool dmabuf_off = nccl_env_int(hw, "NCCL_DMABUF_ENABLE", 1) == 0 ||
                      nccl_older_than(hw, 2, 13); /* which brought it */

    if (nccl_gpus_without_gdr(hw))
        return "none";
    if (!dmabuf_off && maybe_is(hw->limits.dmabuf, 1))
        return "dma-buf"; /* NCCL prefers it to the module */
    if (hw->limits.peermem)
        return hw->limits.peermem;
    return dmabuf_off || hw->limits.dmabuf.known ? "none" : NULL;
}

static int64_t picked_width(const struct nccl_run *s, size_t gpu, size_t port)
{
    int64_t way = s->direct_mbps[gpu * s->c->ports_count + port];

    return way < s->picked_mbps[port] ? way : s->picked_mbps[port];
}

static bool port_is_before(const struct nccl_run *s, size_t gpu, size_t a, size_t b)
{
    int64_t wide = picked_width(s, gpu, a), other = picked_width(s, gpu, b);
    size_t at = gpu * s->c->ports_count;

    return wide > other || (wide == other && s->levels[at + a] < s->levels[at + b]);
}

/* The distance over PCIe among the ports in use.  From 2.29 on P2C is for the NICs that NCCL
 * takes for the GPU (widest, then nearest) only: to others it prefers a neighbour. */
static enum nccl_level level_used(const struct nccl_run *s, size_t gpu, size_t port)
{
    enum nccl_level l = (enum nccl_level)s->levels[gpu * s->c->ports_count + port];

    for (size_t i = 0; l == LEVEL_P2C && !nccl_older_than(s->hw, 2, 29) && i < s->c->ports_count;
         i++)
        if (s->c->ports[i].picked && port_is_before(s, gpu, i, port))
            return LEVEL_PHB;
    return l;
}

static enum nccl_level level_any(const struct nccl_run *s, size_t gpu, size_t port)
{
    return (enum nccl_level)s->levels[gpu * s->c->ports_count + port];
}

/* `relay`, at `via` from a NIC, sends to it in the stead of `gpu`. */
static bool is_relay(const struct nccl_run *s, size_t gpu, size_t relay, enum nccl_level via,
                     enum nccl_level limit)
{
    return relay != gpu && s->gpu_visible[relay] && via != LEVEL_NONE && via <= pxn_limit(s->hw) &&
           within_gdr_limit(s->hw, relay, via, limit) && nvlink_between(s, gpu, relay);
}

/* The distance NCCL goes by: its own, or, through NVLink, that of a neighbour that
 * sits at the NIC's switch (PXN) and itself gets GPUDirect RDMA there.  `of`: level_any() for
 * any set of ports, level_used() for those
 * that NCCL takes once it starts. */
static enum nccl_level
effective_level(const struct nccl_run *s, size_t gpu, size_t port, enum nccl_level limit,
                enum nccl_level (*of)(const struct nccl_run *s, size_t gpu, size_t port))
{
    enum nccl_level l = of(s, gpu, port);

    if (l <= LEVEL_PXN || str_eq(s->c->gdr_support, "none") ||
        nccl_env_int(s->hw, "NCCL_PXN_DISABLE", 0) == 1 || nccl_older_than(s->hw, 2, 12))
        return l;
    for (size_t i = 0; i < s->hw->gpus_count; i++)
        if (is_relay(s, gpu, i, of(s, i, port), limit))
            return LEVEL_PXN;
    return l;
}

static enum nccl_level gdr_limit(const struct hw *hw)
{
    enum nccl_level user = level_of_env(hw, "NCCL_NET_GDR_LEVEL");

    return user == LEVEL_NONE ? level_gdr_default(hw) : user;
}

enum nccl_level level_direct(const struct nccl_run *s, size_t gpu, size_t port)
{
    enum nccl_level l = (enum nccl_level)s->levels[gpu * s->c->ports_count + port];

    /* without GPUDirect RDMA the data takes the way over the CPU */
    if (l != LEVEL_NONE && l < LEVEL_PHB &&
        (str_eq(s->c->gdr_support, "none") || !within_gdr_limit(s->hw, gpu, l, gdr_limit(s->hw))))
        return LEVEL_PHB;
    return l;
}

bool level_is_relay(const struct nccl_run *s, size_t gpu, size_t relay, size_t port)
{
    return is_relay(s, gpu, relay, level_any(s, relay, port), gdr_limit(s->hw));
}

enum nccl_level level_effective(const struct nccl_run *s, size_t gpu, size_t port)
{
    enum nccl_level l = effective_level(s, gpu, port, gdr_limit(s->hw), level_any);

    return l == LEVEL_PXN ? l : level_direct(s, gpu, port);
}

bool nccl_way_has(const struct nccl_way *w, const char *dev)
{
    size_t want = strlen(dev);

    for (const char *p = w->ports; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (!strncmp(p, dev, want) && p[want] == ':')
            return true;
    return false;
}

static void gdr_one(struct nccl_run *s, struct nccl_gdr *g, size_t port, enum nccl_level limit)
{
    enum nccl_level l = effective_level(s, g->gpu, port, limit, level_used);
    const char *support = s->c->gdr_support;
    bool near = within_gdr_limit(s->hw, g->gpu, l, limit);

    g->path = level_name(l);
    if (gpu_without_gdr(&s->hw->gpus[g->gpu])) {
        g->use = maybe_of(0);
        g->why = "A GeForce GPU has no GPUDirect RDMA, so data goes through host memory.";
    } else if (str_eq(support, "none")) {
        g->use = maybe_of(0);
        g->why =
            nccl_older_than(s->hw, 2, 13) && maybe_is(s->hw->limits.dmabuf, 1)
                ? "There is no peer-memory module, and NCCL uses dma-buf from 2.13 on, so data "
                  "goes through host memory."
                : "Neither a peer-memory module nor dma-buf is there, so data goes through host "
                  "memory.";
    } else if (l == LEVEL_NONE) {
        g->why = "The PCIe distance is not known.";
    } else if (!near) {
        g->use = maybe_of(0);
        g->why = arena_printf(s->a,
                              "The path is %s, beyond the level %s, so data goes through host "
                              "memory.",
                              g->path, s->c->gdr_level);
    } else if (!support) {
        g->why = "It cannot be told from here whether the kernel and the driver can do dma-buf.";
    } else {
        g->use = maybe_of(1);
        g->why = arena_printf(s->a,
                              l == LEVEL_PXN
                                  ? "NVLink leads to a GPU nearer to the NIC (%s), which is within "
                                    "the level %s, and %s is there."
                                  : "The path is %s, within the level %s, and %s is there.",
                              g->path, s->c->gdr_level, support);
    }
}

static bool first_port_of(const struct nccl_choice *c, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (c->ports[k].picked && str_eq(c->ports[k].dev, c->ports[i].dev))
            return false;
    return c->ports[i].picked;
}

void level_choose_gdr(struct nccl_run *s)
{
    enum nccl_level limit = gdr_limit(s->hw);
    struct nccl_choice *c = s->c;

    c->gdr_level = level_name(limit);
    c->gdr = arena_array(s->a, struct nccl_gdr, s->hw->gpus_count * c->ports_count + 1);
    for (size_t gpu = 0; gpu < s->hw->gpus_count; gpu++) {
        for (size_t i = 0; s->gpu_visible[gpu] && i < c->ports_count; i++) {
            if (!first_port_of(c, i))
                continue;
            c->gdr[c->gdr_count] = (struct nccl_gdr){ .gpu = gpu, .dev = c->ports[i].dev };
            gdr_one(s, &c->gdr[c->gdr_count++], i, limit);
        }
    }
}

static bool port_is_wanted(const struct nccl_choice *c, const char *dev)
{
    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].wanted && str_eq(c->ports[i].dev, dev))
            return true;
    return false;
}

/* Of one GPU, once every pair of GPU and NIC has been judged. */
static void near_fill(struct nccl_run *s, size_t gpu, struct nccl_near *out)
{
    const struct nccl_choice *c = s->c;
    int best = -1;

    for (size_t i = 0; i < c->ports_count; i++) {
        int rank = c->ports[i].wanted ? level_rank(s->hw, gpu, c->ports[i].dev) : -1;

        if (rank < 0 || (best >= 0 && rank >= best))
            continue;
        best = rank;
        out->dev = c->ports[i].dev;
        out->path = level_name(level_gpu_nic(s->hw, gpu, out->dev));
        out->same_socket = level_same_socket(s->hw, gpu, out->dev);
    }
    FOR_EACH(const struct nccl_gdr, g, c->gdr) {
        if (g->gpu != gpu || !port_is_wanted(c, g->dev))
            continue;
        if (str_eq(g->path, "PXN") && !out->relay && level_of_path(out->path) > LEVEL_PXN)
            out->relay = g->dev;
        if (str_eq(g->dev, out->dev) && !maybe_is(out->direct, 1))
            out->direct = g->use;
        if (out->relay == g->dev && maybe_is(g->use, 1))
            out->direct = g->use;
    }
}

void level_choose_near(struct nccl_run *s)
{
    s->c->near = arena_array(s->a, struct nccl_near, s->hw->gpus_count + 1);
    for (size_t gpu = 0; gpu < s->hw->gpus_count; gpu++)
        near_fill(s, gpu, &s->c->near[gpu]);
}

/* ---- what ACS and the IOMMU do to it ---- */

/* A pair behind one switch, and the port with ACS between them; NULL: none. */
static const char *detour_port(const struct nccl_run *s, bool *out_switch)
{
    const struct hw *hw = s->hw;
    const char *port = NULL;

    for (size_t g = 0; g < hw->gpus_count && !port; g++) {
        for (size_t i = 0; i < s->c->ports_count && !port; i++) {
            const struct hw_rdma *r = hw_find_rdma(hw, s->c->ports[i].dev);
            enum nccl_level l = (enum nccl_level)s->levels[g * s->c->ports_count + i];

            if (!s->c->ports[i].wanted || !r)
                continue;
            *out_switch = *out_switch || l == LEVEL_PIX || l == LEVEL_PXB;
            port = hw_acs_between(hw, hw->gpus[g].bdf, r->bdf);
        }
        for (size_t h = 0; h < g && !port; h++)
            port = hw_acs_between(hw, hw->gpus[g].bdf, hw->gpus[h].bdf);
    }
    for (size_t i = 0; i < hw->gpu_pairs_count; i++) {
        enum nccl_level l = level_of_path(hw->gpu_pairs[i].path);

        *out_switch = *out_switch || l == LEVEL_PIX || l == LEVEL_PXB;
    }
    return port;
}

/* A switch passes on directly what is addressed to a device below it.  Addresses that an IOMMU
 * translates are none of such, and go up; ACS sends requests up whatever their address. */
void level_choose_detour(struct nccl_run *s)
{
    bool arm = str_eq(s->hw->cpu.arch, "aarch64"), shared = false;
    const char *port = detour_port(s, &shared);

    if (s->hw->place.hypervisor)
        return; /* the host decides */
    if (shared && str_eq(s->hw->limits.iommu_mode, "translated"))
        s->c->detour_why = arena_printf(
            s->a,
            "The IOMMU translates addresses, so what GPUs and NICs behind one switch send each "
            "other goes through the root complex all the same: slower, and it can hang.  %s lets "
            "it pass directly.",
            arm ? "iommu.passthrough=1" : "iommu=pt");
    else if (port)
        s->c->detour_why = arena_printf(
            s->a,
            "ACS is on at %s, a port of the switch above GPUs and NICs: what they send each other "
            "goes through the root complex, slower, and it can hang; `stoker detect --check rdma` "
            "tells how to clear it.",
            port);
}

/* ---- P2P between GPUs ---- */

const char *level_unknown_why(const struct hw *hw, const struct nccl_choice *c)
{
    return hw->gpus_count && !gpus_cut(hw, c->gpu_used)
               ? "The GPUs cannot be asked how they are connected."
               : c->gpus_why;
}

static void p2p_one(struct nccl_run *s, const struct hw_gpu_pair *p, enum nccl_level limit,
                    struct nccl_p2p *out)
{
    enum nccl_level l = level_gpu_pair(s->hw, p);
    bool no_shm = nccl_env_int(s->hw, "NCCL_SHM_DISABLE", 0) == 1;
    int64_t ignore = nccl_env_int(s->hw, "NCCL_IGNORE_DISABLED_P2P", 0);
    const char *instead = no_shm ? "  Shared memory is turned off, so data goes over the "
                                   "network."
                                 : "";

    out->path = level_name(l);
    if (l == LEVEL_NONE) {
        out->why = "The path between them is not known.";
        return;
    }
    out->transport = no_shm ? "net" : "shm";
    if (maybe_is(s->hw->gpus[out->a].mig, 1) || maybe_is(s->hw->gpus[out->b].mig, 1)) {
        out->why = arena_printf(s->a, "The path is %s, but in MIG mode GPUs have no peer access.%s",
                                out->path, instead);
    } else if (l > limit) {
        out->why = arena_printf(s->a, "The path is %s, beyond the level %s.%s", out->path,
                                s->c->p2p_level, instead);
    } else if (p2p_refused(s->hw, p)) {
        bool stops = l <= LEVEL_NVB && !ignore; /* the driver cannot mean that, says NCCL */

        out->transport = stops ? "fails" : out->transport;
        out->why = arena_printf(
            s->a, "The path is %s, but the driver refuses peer access: %s.%s", out->path,
            p->p2p_read && !str_eq(p->p2p_read, "ok") ? p->p2p_read : p->p2p_write,
            stops ? "  NCCL stops with an error on such NVLink pairs." : instead);
    } else {
        out->transport = l <= LEVEL_NVB ? "nvlink" : "p2p";
        out->why =
            arena_printf(s->a, "The path is %s, within the level %s.", out->path, s->c->p2p_level);
    }
}

void level_choose_p2p(struct nccl_run *s)
{
    enum nccl_level limit = p2p_limit(s);
    struct nccl_choice *c = s->c;

    c->p2p_level = level_name(limit);
    c->p2p = arena_array(s->a, struct nccl_p2p, s->hw->gpu_pairs_count + 1);
    FOR_EACH(const struct hw_gpu_pair, p, s->hw->gpu_pairs) {
        size_t a = (size_t)maybe_or(p->a, -1), b = (size_t)maybe_or(p->b, -1);

        if (a >= s->hw->gpus_count || b >= s->hw->gpus_count || !s->gpu_visible[a] ||
            !s->gpu_visible[b])
            continue;
        c->p2p[c->p2p_count] = (struct nccl_p2p){ .a = a, .b = b };
        p2p_one(s, p, limit, &c->p2p[c->p2p_count++]);
    }
}
