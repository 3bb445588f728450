/* SPDX-License-Identifier: MIT */
/* topo: how far GPUs and network adapters are from each other, computed from the
 * inventory only.
 *
 * The levels are those of `nvidia-smi topo -m`, nearest first:
 *
 *   NVn   n NVLinks, direct or through NVSwitches
 *   PIX   one PCIe switch at most
 *   PXB   several PCIe switches, but no host bridge
 *   PHB   the host bridge ("pci0000:15") they share
 *   NODE  two host bridges of one NUMA node
 *   SYS   the link between NUMA nodes
 *
 * A PCIe switch shows up as two bridges, one above the other: its upstream port and,
 * below, a downstream port a device.  So two devices on one switch have the upstream
 * port as nearest common bridge and one bridge (their downstream port) between; two
 * functions of one card have the port above them in common and none between.  Any
 * more bridges between are another switch.
 *
 *   PIX when the nearest common bridge has at most one bridge between it and each
 *   PXB when it has more on either side
 *
 * NCCL reaches the same by climbing two bridges at a time, each step one switch.
 * It differs in three points, of which only the third can change what it does (a
 * virtual machine with a conventional PCI bridge):
 *   1. it knows no NODE: PHB there means one NUMA node, whatever the host bridges;
 *   2. Broadcom switches that show two levels count as one (PIX, here PXB);
 *   3. a function next to another behind one root port goes over the CPU (PHB, here
 *      PIX); the functions of one adapter are a single device to it.
 *
 * A NUMA node that the kernel does not tell is no reason to guess: the level is
 * unknown (NULL) unless the machine has one node only. */
#include "hw/hw_int.h"

#include "base/str.h"

#include <assert.h>

enum {
    TOPO_DEPTH_MAX = 32,       /* bridges above one function */
    TOPO_GPUS_MAX = 64,        /* GPUs that get pairs and distances */
    TOPO_NVLINKS_MAX = 64,     /* links looked at a GPU */
    TOPO_DISTANCES_MAX = 16384 /* GPU-adapter pairs */
};

struct chain { /* a function and the bridges above it, nearest first */
    const struct hw_pci *at[TOPO_DEPTH_MAX];
    size_t count;
};

/* pci.c leaves hw.pci sorted by address; a list made by hand may not be. */
static const struct hw_pci *pci_find(const struct hw *hw, const char *bdf)
{
    size_t lo = 0, hi = hw->pci_count;
    uint64_t want, key;

    if (!hw_bdf_key(bdf, &want))
        return NULL;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (!hw_bdf_key(hw->pci[mid].bdf, &key))
            break;
        if (key == want)
            return &hw->pci[mid];
        if (key < want)
            lo = mid + 1;
        else
            hi = mid;
    }
    return hw_find_pci(hw, bdf);
}

static void chain_fill(const struct hw *hw, const struct hw_pci *p, struct chain *c)
{
    c->count = 0;
    while (p && c->count < TOPO_DEPTH_MAX) {
        c->at[c->count++] = p;
        p = p->parent ? pci_find(hw, p->parent) : NULL;
    }
}

/* Positions of the nearest bridge both have above them. */
static bool chain_meet(const struct chain *a, const struct chain *b, size_t *out_a, size_t *out_b)
{
    for (size_t i = 1; i < a->count; i++)
        for (size_t j = 1; j < b->count; j++)
            if (a->at[i] == b->at[j]) {
                *out_a = i;
                *out_b = j;
                return true;
            }
    return false;
}

static bool single_node(const struct hw *hw)
{
    return hw->numa_count == 1 || (hw->numa_count == 0 && maybe_is(hw->cpu.sockets, 1));
}

static const char *path_over_host(const struct hw *hw, const struct hw_pci *a,
                                  const struct hw_pci *b)
{
    if (!a->root || !b->root)
        return NULL;
    if (str_eq(a->root, b->root))
        return "PHB";
    if (a->numa.known && b->numa.known)
        return a->numa.v == b->numa.v ? "NODE" : "SYS";
    return single_node(hw) ? "NODE" : NULL;
}

static bool same_slot(const struct hw_pci *a, const struct hw_pci *b)
{
    uint64_t ka, kb;

    return hw_bdf_key(a->bdf, &ka) && hw_bdf_key(b->bdf, &kb) && ka >> 3 == kb >> 3;
}

enum { ACS_DEPTH_MAX = 32 }; /* bridges above one device */

/* Is `high` among the bridges above `low`? */
static bool bridge_is_above(const struct hw *hw, const struct hw_pci *high,
                            const struct hw_pci *low)
{
    for (int i = 0; low && low->parent && i < ACS_DEPTH_MAX; i++) {
        low = hw_find_pci(hw, low->parent);
        if (low == high)
            return true;
    }
    return false;
}

/* The first port with ACS on the way up from `p` to the switch above both. */
static const char *acs_below_common(const struct hw *hw, const struct hw_pci *p,
                                    const struct hw_pci *other)
{
    const char *found = NULL;

    for (int i = 0; p && p->parent && i < ACS_DEPTH_MAX; i++) {
        p = hw_find_pci(hw, p->parent);
        if (p && bridge_is_above(hw, p, other))
            return found;
        if (p && !found && maybe_is(p->acs, 1))
            found = p->bdf;
    }
    return NULL;
}

const char *hw_acs_between(const struct hw *hw, const char *bdf_a, const char *bdf_b)
{
    const struct hw_pci *a = bdf_a ? hw_find_pci(hw, bdf_a) : NULL;
    const struct hw_pci *b = bdf_b ? hw_find_pci(hw, bdf_b) : NULL;
    const char *port;

    if (!a || !b || a == b)
        return NULL;
    port = acs_below_common(hw, a, b);
    return port ? port : acs_below_common(hw, b, a);
}

const char *hw_pci_path(const struct hw *hw, const char *bdf_a, const char *bdf_b)
{
    const struct hw_pci *a = pci_find(hw, bdf_a), *b = pci_find(hw, bdf_b);
    struct chain ca, cb;
    size_t i = 0, j = 0;

    if (!a || !b)
        return NULL;
    if (same_slot(a, b))
        return "PIX";
    chain_fill(hw, a, &ca);
    chain_fill(hw, b, &cb);
    if (!chain_meet(&ca, &cb, &i, &j))
        return path_over_host(hw, a, b);
    assert(i > 0 && j > 0);
    return i - 1 <= 1 && j - 1 <= 1 ? "PIX" : "PXB";
}

/* ---- GPU to GPU ---- */

static bool same_bdf(const char *a, const char *b)
{
    uint64_t ka, kb;

    return hw_bdf_key(a, &ka) && hw_bdf_key(b, &kb) && ka == kb;
}

static int64_t links_to(const struct hw_gpu *from, const struct hw_gpu *to)
{
    int64_t n = 0;

    for (size_t i = 0; i < from->nvlinks_count && i < TOPO_NVLINKS_MAX; i++)
        n += maybe_is(from->nvlinks[i].active, 1) && same_bdf(from->nvlinks[i].remote_bdf, to->bdf);
    return n;
}

static int64_t links_to_switch(const struct hw_gpu *g)
{
    int64_t n = 0;

    for (size_t i = 0; i < g->nvlinks_count && i < TOPO_NVLINKS_MAX; i++)
        n += maybe_is(g->nvlinks[i].active, 1) && str_eq(g->nvlinks[i].remote_kind, "switch");
    return n;
}

int64_t hw_gpu_links(const struct hw_gpu *from, const struct hw_gpu *to, int64_t *out_switched)
{
    *out_switched = links_to_switch(from);
    return links_to(from, to);
}

/* Whether the driver told us of this GPU's links: a GPU without any has an empty list,
 * and so has one the driver could not ask. */
static bool links_told(const struct hw_gpu *g)
{
    return g->nvlinks_count > 0 || g->nvlinks_total.known || str_eq(g->state, "ok");
}

/* Either end may miss what the other sees (a GPU lost since), so the lesser counts. */
static struct maybe pair_nvlinks(const struct hw_gpu *a, const struct hw_gpu *b)
{
    int64_t direct, sa, sb;

    if (!links_told(a) || !links_told(b))
        return maybe_none();
    direct = links_to(a, b);
    if (links_to(b, a) < direct)
        direct = links_to(b, a);
    if (direct > 0)
        return maybe_of(direct);
    sa = links_to_switch(a);
    sb = links_to_switch(b);
    return maybe_of(sa < sb ? sa : sb);
}

/* What the driver said of the pair, in either order; NULL when it said nothing. */
static const struct hw_gpu_pair *pair_told(const struct hw *hw, int64_t a, int64_t b)
{
    FOR_EACH(const struct hw_gpu_pair, p, hw->gpu_pairs) {
        if ((maybe_is(p->a, a) && maybe_is(p->b, b)) || (maybe_is(p->a, b) && maybe_is(p->b, a)))
            return p;
    }
    return NULL;
}

static void pair_fill(struct hw_build *b, size_t i, size_t j, struct hw_gpu_pair *out)
{
    const struct hw *hw = b->hw;
    const struct hw_gpu_pair *told = pair_told(hw, (int64_t)i, (int64_t)j);

    if (told)
        *out = *told;
    out->a = maybe_of((int64_t)i);
    out->b = maybe_of((int64_t)j);
    out->nvlinks = pair_nvlinks(&hw->gpus[i], &hw->gpus[j]);
    if (out->nvlinks.known && out->nvlinks.v > 0)
        out->path = arena_printf(b->a, "NV%lld", (long long)out->nvlinks.v);
    else
        out->path = hw_pci_path(hw, hw->gpus[i].bdf, hw->gpus[j].bdf);
}

static void fill_pairs(struct hw_build *b, size_t gpus)
{
    struct hw_gpu_pair *pairs;
    size_t count, n = 0;

    if (gpus < 2)
        return;
    count = gpus * (gpus - 1) / 2;
    pairs = arena_array(b->a, struct hw_gpu_pair, count);
    for (size_t i = 0; i < gpus; i++)
        for (size_t j = i + 1; j < gpus; j++)
            pair_fill(b, i, j, &pairs[n++]);
    assert(n == count);
    b->hw->gpu_pairs = pairs;
    b->hw->gpu_pairs_count = count;
}

/* ---- GPU to network adapter ---- */

static bool is_plain_nic(const struct hw_net *n)
{
    return str_eq(n->kind, "physical") && n->bdf && !n->rdma;
}

static size_t count_nics(const struct hw *hw)
{
    size_t n = hw->rdma_count;

    for (size_t i = 0; i < hw->nets_count; i++)
        n += is_plain_nic(&hw->nets[i]);
    return n;
}

static void add_distance(struct hw *hw, size_t gpu, const char *nic, const char *bdf)
{
    struct hw_distance *d = &hw->distances[hw->distances_count++];

    d->gpu = maybe_of((int64_t)gpu);
    d->nic = nic;
    d->path = bdf ? hw_pci_path(hw, hw->gpus[gpu].bdf, bdf) : NULL;
}

static void fill_distances(struct hw_build *b, size_t gpus)
{
    struct hw *hw = b->hw;
    size_t nics = count_nics(hw);

    if (gpus == 0 || nics == 0)
        return;
    if (nics > TOPO_DISTANCES_MAX / gpus) {
        hw_note_add(b, "topo", "%zu GPUs and %zu adapters: distances are left out", gpus, nics);
        return;
    }
    hw->distances = arena_array(b->a, struct hw_distance, gpus * nics);
    for (size_t g = 0; g < gpus; g++) {
        for (size_t i = 0; i < hw->rdma_count; i++)
            add_distance(hw, g, hw->rdma[i].name, hw->rdma[i].bdf);
        for (size_t i = 0; i < hw->nets_count; i++)
            if (is_plain_nic(&hw->nets[i]))
                add_distance(hw, g, hw->nets[i].name, hw->nets[i].bdf);
    }
    assert(hw->distances_count == gpus * nics);
}

void hw_src_topo(struct hw_build *b)
{
    size_t gpus = b->hw->gpus_count;

    if (gpus > TOPO_GPUS_MAX) {
        hw_note_add(b, "topo", "distances are given for the first %d GPUs alone", TOPO_GPUS_MAX);
        gpus = TOPO_GPUS_MAX;
    }
    fill_pairs(b, gpus);
    fill_distances(b, gpus);
}

const char *hw_distance_get(const struct hw *hw, size_t gpu, const char *nic)
{
    for (size_t i = 0; nic && i < hw->distances_count; i++)
        if (maybe_is(hw->distances[i].gpu, (int64_t)gpu) && str_eq(hw->distances[i].nic, nic))
            return hw->distances[i].path;
    return NULL;
}
