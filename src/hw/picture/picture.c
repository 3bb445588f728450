/* SPDX-License-Identifier: MIT */
/* picture: the machine as an SVG that a person would put into a slide.  This file
 * gathers the devices and builds the tree of blocks; picture_draw.c draws it. */
#include "base/mem.h"
#include "base/str.h"
#include "hw/picture/picture_int.h"

#include <assert.h>
#include <inttypes.h>

/* ---- leaves ---- */
static void lanes_text(char *out, size_t cap, struct maybe gen, struct maybe width)
{
    char g[24] = "", w[24] = "";

    if (gen.known)
        snprintf(g, sizeof(g), "gen%" PRId64, gen.v);
    if (width.known && width.v > 0)
        snprintf(w, sizeof(w), "x%" PRId64, width.v);
    snprintf(out, cap, "%s%s%s", g, *g && *w ? " " : "", w);
}

static void pci_lanes(char *out, size_t cap, const struct hw_pci *pci)
{
    if (pci)
        lanes_text(out, cap, show_pcie_gen(pci->link_speed), pci->link_width);
}

static struct pic_leaf *leaf_add(struct pic *p, enum pic_kind kind, const char *bdf,
                                 struct maybe numa)
{
    struct pic_leaf *l;

    if (p->leaves_count == PIC_LEAVES_MAX) {
        p->left_out++;
        return NULL;
    }
    l = &p->leaves[p->leaves_count++];
    *l = (struct pic_leaf){ .kind = kind, .bdf = bdf, .pci = hw_find_pci(p->hw, bdf) };
    l->numa = numa.known ? numa : l->pci ? l->pci->numa : maybe_none();
    pci_lanes(l->mark, sizeof(l->mark), l->pci);
    return l;
}

static void leaf_fault(struct pic_leaf *l, const char *word)
{
    l->fault = true;
    snprintf(l->mark, sizeof(l->mark), "%s", word);
}

static bool gpu_has_links(const struct hw_gpu *g)
{
    for (size_t i = 0; i < g->nvlinks_count; i++)
        if (maybe_is(g->nvlinks[i].active, 1))
            return true;
    return false;
}

static const char *gpu_fault_word(const char *state)
{
    static const struct {
        const char *state, *word;
    } rows[] = { { "lost", "LOST" },
                 { "error", "ERROR" },
                 { "unanswered", "NO ANSWER" },
                 { "no-driver", "NO DRIVER" },
                 { "hidden", "HIDDEN" } };

    for (size_t i = 0; state && i < ARRAY_SIZE(rows); i++)
        if (str_eq(state, rows[i].state))
            return rows[i].word;
    return NULL;
}

static void add_gpu(struct pic *p, const struct hw_gpu *g)
{
    struct pic_leaf *l = leaf_add(p, PIC_GPU, g->bdf, g->numa);
    const char *word = gpu_fault_word(g->state);
    char text[UNITS_TEXT_MAX];
    const char *name = g->name ? g->name : "NVIDIA GPU";

    if (!l)
        return;
    l->nvlink = gpu_has_links(g);
    l->c2c = maybe_is(g->c2c, 1);
    if (g->pcie_gen.known || g->pcie_width.known)
        lanes_text(l->mark, sizeof(l->mark), g->pcie_gen, g->pcie_width);
    if (g->index.known)
        snprintf(l->title, sizeof(l->title), "GPU %" PRId64, g->index.v);
    else
        snprintf(l->title, sizeof(l->title), "GPU");
    snprintf(l->lines[0], sizeof(l->lines[0]), "%s",
             str_starts(name, "NVIDIA ") && name[7] ? name + 7 : name);
    snprintf(l->lines[1], sizeof(l->lines[1]), "%s",
             g->mem_total_bytes.known ? show_bytes(g->mem_total_bytes, text) : show_str(g->bdf));
    if (maybe_is(g->mig, 1)) {
        size_t len = strlen(l->lines[1]);
        snprintf(l->lines[1] + len, sizeof(l->lines[1]) - len, ", %zu MIG", g->migs_count);
    }
    if (word)
        leaf_fault(l, word);
    l->ghost = str_eq(g->state, "hidden") || str_eq(g->state, "no-driver");
    l->fault = l->fault && !l->ghost;
}

/* Virtual functions are drawn only where their parent is not to be seen. */
static size_t nic_vfs_below(const struct show_nic *nics, size_t count, const char *bdf)
{
    size_t vfs = 0;

    for (size_t i = 0; bdf && i < count; i++)
        if (str_eq(nics[i].rdma  ? nics[i].rdma->physfn
                   : nics[i].net ? nics[i].net->physfn
                                 : NULL,
                   bdf))
            vfs++;
    return vfs;
}

static bool nic_is_child(const struct show_nic *nics, size_t count, const struct show_nic *n)
{
    const char *parent = n->rdma ? n->rdma->physfn : n->net ? n->net->physfn : NULL;

    for (size_t i = 0; parent && i < count; i++)
        if (str_eq(nics[i].bdf, parent))
            return true;
    return false;
}

static bool port_used(const struct pic *p, const char *dev, struct maybe port)
{
    for (size_t i = 0; p->marks && i < p->marks->count; i++)
        if (str_eq(p->marks->items[i].dev, dev) &&
            (!port.known || port.v == p->marks->items[i].port))
            return true;
    return false;
}

/* Beside the mark of NCCL there is room for the short word only. */
static const char *layer_word(const struct hw_rdma_port *port, bool brief)
{
    if (!port)
        return "Ethernet";
    if (!port->link_layer)
        return "RDMA";
    if (str_eq(port->link_layer, "Ethernet"))
        return "RoCE";
    return brief && str_eq(port->link_layer, "InfiniBand") ? "IB" : port->link_layer;
}

static bool port_is_down(const struct hw_rdma_port *port)
{
    return port->state && !str_eq(port->state, "ACTIVE");
}

/* "1: 200 Gb/s IB": one of several ports of a device. */
static void port_line(const struct pic *p, struct pic_leaf *l, const struct hw_rdma *r, size_t i)
{
    const struct hw_rdma_port *port = &r->ports[i];
    char rate[UNITS_TEXT_MAX];
    bool rated = port->rate_mbps.known && port->rate_mbps.v > 0 && !port_is_down(port);

    snprintf(l->lines[i], sizeof(l->lines[i]), "%" PRId64 ": %s%s%s",
             maybe_or(port->port, (int64_t)i + 1), rated ? show_rate(port->rate_mbps, rate) : "",
             rated ? " " : "", port_is_down(port) ? port->state : layer_word(port, true));
    l->used |= port_used(p, r->name, port->port) ? 1U << i : 0;
}

static void nic_lines(const struct pic *p, struct pic_leaf *l, const struct show_nic *n, size_t vfs)
{
    const struct hw_rdma_port *port = n->rdma && n->rdma->ports_count ? n->rdma->ports : NULL;
    struct maybe mbps = port ? port->rate_mbps : n->net ? n->net->speed_mbps : maybe_none();
    size_t down = 0, ports = n->rdma ? n->rdma->ports_count : 0;
    char rate[UNITS_TEXT_MAX];

    assert(!ports || port);
    snprintf(l->title, sizeof(l->title), "%s", n->name);
    for (size_t i = 0; i < ports; i++)
        down += port_is_down(&n->rdma->ports[i]);
    l->used = ports == 1 && port_used(p, n->rdma->name, port->port);
    if (ports > 1) {
        port_line(p, l, n->rdma, 0);
        port_line(p, l, n->rdma, 1);
    } else if (mbps.known && mbps.v > 0) {
        snprintf(l->lines[0], sizeof(l->lines[0]), "%s %s", show_rate(mbps, rate),
                 layer_word(port, l->used));
    } else {
        snprintf(l->lines[0], sizeof(l->lines[0]), "%s", layer_word(port, l->used));
    }
    if (vfs) {
        size_t len = strlen(l->lines[0]);
        snprintf(l->lines[0] + len, sizeof(l->lines[0]) - len, ", %zu VFs", vfs);
    }
    if (ports && down == ports)
        leaf_fault(l, port->state);
}

/* ---- bonds: the ports of one card that are one link are one box ---- */
static const char *bond_of(const struct hw *hw, const struct hw_net *n)
{
    const struct hw_net *m = n ? hw_find_net(hw, n->master) : NULL;

    return m && str_eq(m->kind, "bond") ? m->name : NULL;
}

static bool same_card(const char *a, const char *b)
{
    size_t n = a ? strcspn(a, ".") : 0;

    return a && b && n == strcspn(b, ".") && !strncmp(a, b, n);
}

static struct pic_leaf *bond_leaf(struct pic *p, const char *master, const char *bdf)
{
    for (size_t i = 0; master && i < p->leaves_count; i++)
        if (p->leaves[i].kind == PIC_NIC && str_eq(p->leaves[i].master, master) &&
            same_card(p->leaves[i].bdf, bdf))
            return &p->leaves[i];
    return NULL;
}

/* A second link of a bond that has its box already. */
static void bond_join(const struct pic *p, struct pic_leaf *l, const struct show_nic *n)
{
    struct maybe mbps = n->net ? n->net->speed_mbps : maybe_none();
    char rate[UNITS_TEXT_MAX];

    l->links++;
    l->used |= n->rdma && port_used(p, n->rdma->name, maybe_none());
    if (mbps.known && mbps.v > 0)
        snprintf(l->lines[0], sizeof(l->lines[0]), "%zu x %s", l->links, show_rate(mbps, rate));
    snprintf(l->lines[1], sizeof(l->lines[1]), "%s, %zu links", l->master, l->links);
}

static void add_nic(struct pic *p, const struct show_nic *n, size_t vfs)
{
    const char *master = bond_of(p->hw, n->net);
    struct pic_leaf *l = bond_leaf(p, master, n->bdf);

    if (l) {
        bond_join(p, l, n);
        return;
    }
    l = leaf_add(p, PIC_NIC, n->bdf, n->rdma ? n->rdma->numa : n->net->numa);
    if (!l)
        return;
    nic_lines(p, l, n, vfs);
    l->master = master;
    l->links = master ? 1 : 0;
    if (master && !*l->lines[1])
        snprintf(l->lines[1], sizeof(l->lines[1]), "part of %s", master);
}

static void add_nics(struct pic *p)
{
    struct show_nic nics[SHOW_NICS_MAX];
    size_t count = show_nics(p->hw, nics, SHOW_NICS_MAX);

    for (size_t i = 0; i < count; i++)
        if (nics[i].bdf && !nic_is_child(nics, count, &nics[i]))
            add_nic(p, &nics[i], nic_vfs_below(nics, count, nics[i].bdf));
}

static void add_disks(struct pic *p)
{
    FOR_EACH(const struct hw_disk, d, p->hw->disks) {
        char size[UNITS_TEXT_MAX];
        struct pic_leaf *l;

        if (!d->bdf)
            continue;
        l = leaf_add(p, PIC_DISK, d->bdf, d->numa);
        if (!l)
            continue;
        snprintf(l->title, sizeof(l->title), "%s", show_str(d->name));
        snprintf(l->mark, sizeof(l->mark), "%s",
                 d->size_bytes.known ? show_bytes(d->size_bytes, size) : "");
    }
}

/* ---- blocks ---- */
static size_t block_get(struct pic *p, enum pic_kind kind, const char *key, int64_t numa,
                        size_t parent)
{
    struct pic_block *b;

    for (size_t i = 0; i < p->blocks_count; i++) {
        b = &p->blocks[i];
        if (b->kind == kind && b->numa == numa && b->parent == parent && str_eq(b->key, key))
            return i;
    }
    if (p->blocks_count == PIC_BLOCKS_MAX)
        return parent; /* the device then hangs one level higher */
    b = &p->blocks[p->blocks_count];
    *b = (struct pic_block){
        .kind = kind, .key = key, .numa = numa, .socket = -1, .parent = parent
    };
    return p->blocks_count++;
}

/* The bridges above a device, topmost first; returns how many. */
static size_t chain_of(const struct hw *hw, const struct hw_pci *pci,
                       const struct hw_pci *out[PIC_CHAIN_MAX])
{
    const struct hw_pci *up[PIC_CHAIN_MAX];
    size_t n = 0;

    for (const struct hw_pci *b = pci ? hw_find_pci(hw, pci->parent) : NULL; b && n < PIC_CHAIN_MAX;
         b = hw_find_pci(hw, b->parent))
        up[n++] = b;
    for (size_t i = 0; i < n; i++)
        out[i] = up[n - 1 - i];
    return n;
}

/* What hangs directly below bridge `i` of a chain: the next bridge, or the device
 * without its function number (two ports of one card are one thing). */
static void child_key(const struct hw_pci *const *chain, size_t n, size_t i,
                      const struct hw_pci *dev, char out[SHOW_TEXT_MAX])
{
    const char *bdf = i + 1 < n ? chain[i + 1]->bdf : dev ? dev->bdf : NULL;

    snprintf(out, SHOW_TEXT_MAX, "%.*s", (int)strcspn(show_str(bdf), "."), show_str(bdf));
}

static bool bridge_forks(const struct pic *p, const char *bdf)
{
    const struct hw_pci *chain[PIC_CHAIN_MAX];
    char first[SHOW_TEXT_MAX] = "", key[SHOW_TEXT_MAX];

    for (size_t l = 0; l < p->leaves_count; l++) {
        const struct hw_pci *dev = p->leaves[l].pci;
        size_t n = chain_of(p->hw, dev, chain);
        for (size_t i = 0; i < n; i++) {
            if (!str_eq(chain[i]->bdf, bdf))
                continue;
            child_key(chain, n, i, dev, key);
            if (*first && !str_eq(first, key))
                return true;
            str_copy(first, sizeof(first), key);
        }
    }
    return false;
}

/* A chain is root port, then upstream and downstream port of each switch. */
static bool is_switch(const struct pic *p, const struct hw_pci *const *chain, size_t n, size_t i)
{
    return (i % 2 == 1 && i + 1 < n) || bridge_forks(p, chain[i]->bdf);
}

static void place_leaf(struct pic *p, struct pic_leaf *l)
{
    const struct hw_pci *chain[PIC_CHAIN_MAX];
    size_t n = chain_of(p->hw, l->pci, chain);
    int64_t numa = maybe_or(l->numa, -1);
    size_t at;

    if (numa < 0 && p->hw->numa_count == 1)
        numa = maybe_or(p->hw->numa[0].id, 0);
    at = block_get(p, PIC_NUMA, NULL, numa, PIC_BLOCKS_MAX);
    at = block_get(p, PIC_HOST, l->pci ? l->pci->root : NULL, numa, at);
    for (size_t i = 0; i < n; i++) {
        if (!is_switch(p, chain, n, i))
            continue;
        at = block_get(p, PIC_SWITCH, chain[i]->bdf, numa, at);
        if (p->blocks[at].kind == PIC_SWITCH)
            pci_lanes(p->blocks[at].uplink, PIC_TEXT_MAX, chain[i]);
    }
    l->block = at;
}

/* ---- words on the blocks ---- */
static const struct hw_numa *numa_of(const struct hw *hw, int64_t id)
{
    for (size_t i = 0; i < hw->numa_count; i++)
        if (maybe_is(hw->numa[i].id, id))
            return &hw->numa[i];
    return NULL;
}

/* Sub-NUMA clustering (NPS4, SNC): the socket gets a frame around its nodes. */
static void frame_sockets(struct pic *p)
{
    FOR_EACH(struct pic_block, b, p->blocks) {
        const struct hw_numa *n = b->kind == PIC_NUMA ? numa_of(p->hw, b->numa) : NULL;
        size_t mates = 0;

        for (size_t k = 0; n && n->socket.known && k < p->hw->numa_count; k++)
            mates += maybe_is(p->hw->numa[k].socket, n->socket.v) && p->hw->numa[k].cpus &&
                     *p->hw->numa[k].cpus;
        if (mates > 1) {
            b->socket = n->socket.v;
            p->frames = true;
        }
    }
}

/* The nodes of a socket side by side, whatever the kernel's numbers. */
static void add_numa_nodes(struct pic *p)
{
    const struct hw *hw = p->hw;

    for (size_t i = 0; i < hw->numa_count; i++)
        for (size_t k = i; k < hw->numa_count; k++) {
            const struct hw_numa *n = &hw->numa[k];

            if (n->cpus && *n->cpus &&
                (k == i || (n->socket.known && maybe_is(hw->numa[i].socket, n->socket.v))))
                (void)block_get(p, PIC_NUMA, NULL, maybe_or(n->id, (int64_t)k), PIC_BLOCKS_MAX);
        }
}

static void name_numa(const struct pic *p, struct pic_block *b)
{
    const struct hw *hw = p->hw;
    const struct hw_numa *n = numa_of(hw, b->numa);
    char size[UNITS_TEXT_MAX];
    struct buf model = { 0 };
    struct maybe mem;

    if (b->numa < 0)
        snprintf(b->title, sizeof(b->title), "NUMA node unknown");
    else if (hw->cpu.sockets.known && hw->cpu.sockets.v == (int64_t)hw->numa_count)
        snprintf(b->title, sizeof(b->title), "Socket %" PRId64 ", NUMA node %" PRId64, b->numa,
                 b->numa);
    else
        snprintf(b->title, sizeof(b->title), "NUMA node %" PRId64, b->numa);
    show_cpu_model(hw->cpu.model ? hw->cpu.model : "CPU", &model);
    snprintf(b->lines[0], sizeof(b->lines[0]), "%s", buf_str(&model));
    buf_release(&model);
    mem = hw->numa_count < 2 ? hw->memory.total_bytes : n ? n->mem_total_bytes : maybe_none();
    snprintf(b->lines[1], sizeof(b->lines[1]), "%s%s%s%s", mem.known ? show_bytes(mem, size) : "",
             mem.known && n && n->cpus ? ", " : "", n && n->cpus ? "CPUs " : "",
             n && n->cpus ? n->cpus : "");
}

static void name_block(const struct pic *p, struct pic_block *b)
{
    const char *key = b->key ? b->key : "";

    if (b->kind == PIC_NUMA)
        name_numa(p, b);
    else if (b->kind == PIC_HOST && !*key)
        snprintf(b->title, sizeof(b->title), "PCI, bridge unknown");
    else if (b->kind == PIC_HOST)
        snprintf(b->title, sizeof(b->title), "Host bridge %s",
                 str_starts(key, "pci") ? key + strlen("pci") : key);
    else
        snprintf(b->title, sizeof(b->title), "Switch %.5s", /* bus and device only */
                 strlen(key) > 5 ? key + 5 : key);
}

/* ---- NVLink ---- */
struct gpu_links {
    size_t min, max; /* up, a GPU that has any */
    int64_t speed;   /* MB/s a link; 0: not told */
    bool switched;
};

static struct gpu_links links_of(const struct hw *hw)
{
    struct gpu_links l = { .min = SIZE_MAX };

    FOR_EACH(const struct hw_gpu, g, hw->gpus) {
        size_t up = 0;

        FOR_EACH(const struct hw_nvlink, n, g->nvlinks) {
            if (!maybe_is(n->active, 1))
                continue;
            up++;
            l.speed = l.speed ? l.speed : maybe_or(n->speed_mbps, 0);
            l.switched = l.switched || str_eq(n->remote_kind, "switch");
        }
        l.min = up && up < l.min ? up : l.min;
        l.max = up > l.max ? up : l.max;
    }
    return l;
}

/* "GPU 0 - GPU 1, GPU 2 - GPU 3" where not every GPU reaches every other. */
static void nvlink_pairs(const struct hw *hw, struct buf *b)
{
    size_t gpus = hw->gpus_count, joined = 0;
    char one[SHOW_TEXT_MAX], two[SHOW_TEXT_MAX];

    for (size_t i = 0; i < hw->gpu_pairs_count; i++)
        joined += hw->gpu_pairs[i].nvlinks.known && hw->gpu_pairs[i].nvlinks.v > 0;
    if (joined == 0 || joined == gpus * (gpus - 1) / 2)
        return;
    buf_adds(b, " (");
    for (size_t i = 0, n = 0; i < hw->gpu_pairs_count; i++) {
        const struct hw_gpu_pair *p = &hw->gpu_pairs[i];
        if (!p->nvlinks.known || p->nvlinks.v <= 0 || maybe_or(p->a, -1) < 0 ||
            maybe_or(p->b, -1) < 0 || p->a.v >= (int64_t)gpus || p->b.v >= (int64_t)gpus)
            continue;
        buf_addf(b, "%s%s - %s", n++ ? ", " : "", show_gpu_name(&hw->gpus[p->a.v], one),
                 show_gpu_name(&hw->gpus[p->b.v], two));
    }
    buf_addc(b, ')');
}

static void name_nvlink(struct pic *p)
{
    const struct hw *hw = p->hw;
    struct gpu_links l = links_of(hw);
    struct buf b = { 0 };

    if (l.max == 0)
        return;
    buf_adds(&b, l.switched ? "NVSwitch" : "NVLink between GPUs");
    if (l.switched && hw->nvidia.nvswitches.known && hw->nvidia.nvswitches.v > 0)
        buf_addf(&b, " x %" PRId64, hw->nvidia.nvswitches.v);
    if (!l.switched)
        nvlink_pairs(hw, &b);
    if (l.min == l.max)
        buf_addf(&b, ": %zu link%s a GPU", l.max, l.max == 1 ? "" : "s");
    else
        buf_addf(&b, ": %zu to %zu links a GPU", l.min, l.max);
    if (l.speed > 0)
        buf_addf(&b, ", %.1f GB/s a link, %.0f GB/s a GPU each way", (double)l.speed / 1000,
                 (double)l.speed * (double)l.max / 1000);
    str_copy(p->nvlink, sizeof(p->nvlink), buf_str(&b));
    buf_release(&b);
}

static int block_order(const void *a, const void *b)
{
    const struct pic_leaf *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return strcmp(show_str(x->bdf), show_str(y->bdf));
}

void hw_picture(const struct hw *hw, const struct hw_picture_marks *marks, struct buf *out)
{
    struct pic *p = xcalloc(1, sizeof(*p));

    p->hw = hw;
    p->marks = marks;
    for (size_t i = 0; i < hw->gpus_count; i++)
        add_gpu(p, &hw->gpus[i]);
    add_nics(p);
    add_disks(p);
    qsort(p->leaves, p->leaves_count, sizeof(p->leaves[0]), block_order);
    add_numa_nodes(p); /* in order, and also those without devices */
    for (size_t i = 0; i < p->leaves_count; i++)
        place_leaf(p, &p->leaves[i]);
    if (p->blocks_count == 0)
        (void)block_get(p, PIC_NUMA, NULL, 0, PIC_BLOCKS_MAX);
    frame_sockets(p);
    for (size_t i = 0; i < p->blocks_count; i++)
        name_block(p, &p->blocks[i]);
    name_nvlink(p);
    pic_layout(p);
    pic_draw(p, out);
    free(p);
}
