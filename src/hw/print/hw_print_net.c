/* SPDX-License-Identifier: MIT */
/* hw_print_net: RDMA devices, network interfaces, disks and file systems of the page. */
#include "hw/print/hw_print_int.h"

#include "base/str.h"
#include "hw/hw_int.h"

#include <inttypes.h>

/* ---- RDMA ---- */
/* How good a GID is for a RoCE connection: version 2, with an IPv4 address best, one
 * that can be routed next. */
static int gid_rank(const struct hw_gid *g)
{
    if (!str_eq(g->type, "RoCE v2") || !g->gid)
        return 0;
    if (hw_gid_is_link_local(g->gid))
        return 1;
    return str_starts(g->gid, "0000:0000:0000:0000:0000:ffff:") ? 3 : 2;
}

/* The GID a RoCE connection should use; InfiniBand uses its first. */
static const struct hw_gid *port_gid(const struct hw_rdma_port *p)
{
    const struct hw_gid *best = p->gids_count ? &p->gids[0] : NULL;

    if (!str_eq(p->link_layer, "Ethernet"))
        return best;
    for (size_t i = 1; i < p->gids_count; i++)
        if (gid_rank(&p->gids[i]) > gid_rank(best))
            best = &p->gids[i];
    return best;
}

static void cell_gid(struct table *t, const struct hw_rdma_port *p)
{
    const struct hw_gid *g = port_gid(p);

    if (!g || !g->index.known)
        table_cell(t, COLOUR_DIM, "-");
    else if (str_eq(p->link_layer, "Ethernet"))
        table_cell(t, COLOUR_NONE, "%" PRId64 " %s", g->index.v, show_str(g->type));
    else
        table_cell(t, COLOUR_NONE, "%" PRId64, g->index.v);
}

/* "0 PIX", "0-3 NODE": the GPUs nearest to the device and how near. */
static void cell_near_gpu(struct table *t, const struct hw *hw, const char *nic)
{
    bool set[SHOW_IDS_MAX] = { false };
    const char *best = NULL;
    struct buf ids = { 0 };

    for (size_t i = 0; i < hw->gpus_count; i++) {
        const struct hw_nccl_way *way = hw_nccl_way_nic(hw, i, nic);
        const char *path = way ? way->path : hw_distance_get(hw, i, nic);
        struct maybe index = hw->gpus[i].index;
        if (!path || !index.known || index.v < 0 || index.v >= SHOW_IDS_MAX)
            continue;
        if (!best || show_path_rank(path) < show_path_rank(best)) {
            memset(set, 0, sizeof(set));
            best = path;
        }
        if (str_eq(path, best))
            set[index.v] = true;
    }
    show_ids(&ids, set, SHOW_IDS_MAX);
    if (best)
        table_cell(t, COLOUR_NONE, "%s %s", buf_str(&ids), best);
    else
        table_cell(t, COLOUR_DIM, "-");
    buf_release(&ids);
}

static void rdma_name(struct table *t, const struct hw_rdma *r, const struct hw_rdma_port *p)
{
    const char *vf = maybe_is(r->vf, 1) ? " (VF)" : "";

    if (p && p->port.known && r->ports_count > 1)
        table_cell(t, COLOUR_NONE, "%s/%" PRId64 "%s", show_str(r->name), p->port.v, vf);
    else
        table_cell(t, COLOUR_NONE, "%s%s", show_str(r->name), vf);
}

static void rdma_row(struct hw_print *s, struct table *t, const struct hw_rdma *r,
                     const struct hw_rdma_port *p)
{
    static const struct hw_rdma_port unknown = { 0 };
    char text[UNITS_TEXT_MAX];
    struct buf nets = { 0 };

    rdma_name(t, r, p);
    p = p ? p : &unknown;
    table_cell(t,
               !p->state                    ? COLOUR_DIM
               : str_eq(p->state, "ACTIVE") ? COLOUR_GREEN
                                            : COLOUR_RED,
               "%s", show_str(p->state));
    table_cell(t, COLOUR_NONE, "%s", show_rate(p->rate_mbps, text));
    table_cell(t, COLOUR_NONE, "%s", show_str(p->link_layer));
    cell_gid(t, p);
    for (size_t i = 0; i < r->netdevs_count; i++)
        show_part(&nets, ",", "%s", r->netdevs[i]);
    table_cell(t, COLOUR_NONE, "%s", show_str(buf_str(&nets)));
    buf_release(&nets);
    table_cell(t, COLOUR_NONE, "%s", show_str(r->firmware));
    show_cell_int(t, COLOUR_NONE, r->numa, "");
    if (s->hw->gpus_count)
        cell_near_gpu(t, s->hw, r->name);
}

/* NCCL goes by what card and slot could do, so nobody else tells. */
static void rdma_link_fault(struct hw_print *s, const struct hw_rdma *r)
{
    const struct hw_pci *p = hw_find_pci(s->hw, r->physfn ? r->physfn : show_str(r->bdf));
    struct maybe mbps = hw_rdma_link_short(s->hw, r);
    char text[UNITS_TEXT_MAX];

    if (p && mbps.known)
        show_line(s, COLOUR_RED,
                  "PROBLEM: PCIe link of %s degraded to x%" PRId64 " at %s, it can do x%" PRId64
                  " at %s: %s, less than its port",
                  show_str(r->name), p->link_width.v, p->link_speed, p->link_width_max.v,
                  p->link_speed_max, show_rate(maybe_of(mbps.v / 1000 * 1000), text));
}

/* A port that is down needs more than a word: what the cable says. */
static void rdma_faults(struct hw_print *s, const struct hw_rdma *r)
{
    rdma_link_fault(s, r);
    for (size_t i = 0; i < r->ports_count; i++) {
        const struct hw_rdma_port *p = &r->ports[i];
        if (!p->state || str_eq(p->state, "ACTIVE"))
            continue;
        if (hw_rdma_is_spare(s->hw, r, p)) {
            show_line(s, COLOUR_NONE,
                      "port %" PRId64 " of %s is %s and spare: another of the card "
                      "is up, and it has no address",
                      maybe_or(p->port, (int64_t)i + 1), show_str(r->name), p->state);
            continue;
        }
        show_line(s, COLOUR_RED, "PROBLEM: port %" PRId64 " of %s is %s%s%s",
                  maybe_or(p->port, (int64_t)i + 1), show_str(r->name), p->state,
                  p->phys_state ? ", physical state " : "", p->phys_state ? p->phys_state : "");
    }
}

void show_rdma(struct hw_print *s)
{
    const struct hw *hw = s->hw;
    size_t foreign = 0;
    struct table *t;

    if (hw->rdma_count == 0) {
        if (hw->gpus_count == 0)
            return; /* a laptop needs no line about it */
        show_section(s, "RDMA");
        show_line(s, COLOUR_NONE, "none: no RDMA device in this network namespace");
        return;
    }
    show_section(s, "RDMA");
    for (size_t i = 0; i < hw->rdma_count; i++)
        foreign += show_rdma_foreign(hw, &hw->rdma[i]);
    show_line(s, COLOUR_NONE, "%zu device%s", hw->rdma_count - foreign,
              hw->rdma_count - foreign == 1 ? "" : "s");
    t = table_new();
    table_col(t, "DEVICE", TABLE_SHRINK);
    table_col(t, "STATE", TABLE_SHRINK);
    table_col(t, "RATE", TABLE_RIGHT);
    table_col(t, "LINK", TABLE_SHRINK);
    table_col(t, "GID", TABLE_SHRINK);
    table_col(t, "NETDEV", TABLE_SHRINK);
    table_col(t, "FIRMWARE", TABLE_SHRINK);
    table_col(t, "NUMA", TABLE_RIGHT);
    if (hw->gpus_count)
        table_col(t, "NEAR GPU", TABLE_SHRINK);
    FOR_EACH(const struct hw_rdma, r, hw->rdma) {
        for (size_t k = 0; (k < r->ports_count || k == 0) && !show_rdma_foreign(hw, r); k++) {
            table_row(t);
            rdma_row(s, t, r, r->ports_count ? &r->ports[k] : NULL);
        }
    }
    show_table(s, t);
    if (hw->gpus_count && hw_nccl_topo_used(hw))
        show_line(s, COLOUR_NONE, "near GPU: by the topology file %s where it names both",
                  hw->nccl.topo_file);
    if (hw_nccl_topo_refused(hw))
        show_line(s, COLOUR_RED, "PROBLEM: topology file %s: %s", hw->nccl.topo_file,
                  hw->nccl.topo_error);
    for (size_t i = 0; i < hw->rdma_count; i++)
        if (!show_rdma_foreign(hw, &hw->rdma[i]))
            rdma_faults(s, &hw->rdma[i]);
    if (foreign)
        show_line(s, COLOUR_DIM, "%zu more of the host cannot be opened here", foreign);
}

/* ---- network ---- */
static bool net_is_link_local(const struct hw_addr *a)
{
    return hw_addr_is_link_local(a->addr);
}

static bool net_has_addr(const struct hw_net *n)
{
    for (size_t i = 0; i < n->addrs_count; i++)
        if (!net_is_link_local(&n->addrs[i]))
            return true;
    return false;
}

/* Worth a row of its own: what carries traffic between machines. */
static bool net_is_listed(const struct hw_net *n)
{
    if (str_eq(n->kind, "loopback"))
        return false;
    if (str_eq(n->kind, "veth"))
        return net_has_addr(n); /* a pod's eth0 is a veth */
    return str_eq(n->kind, "physical") || n->bdf || n->rdma || net_has_addr(n) ||
           maybe_is(n->default_route, 1);
}

static void cell_net_state(struct table *t, const struct hw_net *n)
{
    if (maybe_is(n->running, 1) || (!n->running.known && str_eq(n->operstate, "up")))
        table_cell(t, COLOUR_GREEN, "up");
    else if (maybe_is(n->up, 1) && maybe_is(n->running, 0))
        table_cell(t, COLOUR_YELLOW, "no link");
    else
        table_cell(t, COLOUR_DIM, "%s", maybe_is(n->up, 0) ? "down" : show_str(n->operstate));
}

static void cell_net_addrs(struct table *t, const struct hw_net *n)
{
    struct buf b = { 0 };

    FOR_EACH(const struct hw_addr, a, n->addrs) {
        bool ipv4 = str_eq(a->family, "inet"); /* programs may take it where it is the only one */

        if (!a->addr || (net_is_link_local(a) && (!ipv4 || net_has_addr(n))))
            continue;
        if (a->prefix.known)
            show_part(&b, ", ", "%s/%" PRId64, a->addr, a->prefix.v);
        else
            show_part(&b, ", ", "%s", a->addr);
    }
    if (maybe_is(n->default_route, 1))
        show_part(&b, ", ", "default route");
    table_cell(t, COLOUR_NONE, "%s", show_str(buf_str(&b)));
    buf_release(&b);
}

static void net_row(struct table *t, const struct hw_net *n, bool numa, bool rdma)
{
    char text[UNITS_TEXT_MAX];

    table_row(t);
    table_cell(t, COLOUR_NONE, "%s", show_str(n->name));
    cell_net_state(t, n);
    table_cell(t, COLOUR_NONE, "%s", show_rate(n->speed_mbps, text));
    show_cell_int(t, COLOUR_NONE, n->mtu, "");
    table_cell(t, COLOUR_NONE, "%s", n->driver ? n->driver : show_str(n->kind));
    if (numa)
        show_cell_int(t, COLOUR_NONE, n->numa, "");
    if (rdma)
        table_cell(t, COLOUR_NONE, "%s", show_str(n->rdma));
    cell_net_addrs(t, n);
}

/* "14 more: 12 veth, 2 bridge". */
static void nets_folded(struct hw_print *s, size_t shown)
{
    const struct hw *hw = s->hw;
    struct buf kinds = { 0 };
    size_t total = 0;

    for (size_t i = 0; i < hw->nets_count; i++) {
        const char *kind = hw->nets[i].kind;
        size_t same = 0;
        bool first = true;
        if (net_is_listed(&hw->nets[i]) || str_eq(kind, "loopback"))
            continue;
        total++;
        for (size_t k = 0; k < hw->nets_count; k++) {
            if (net_is_listed(&hw->nets[k]) || !str_eq(hw->nets[k].kind, kind))
                continue;
            same++;
            first = first && k >= i;
        }
        if (first)
            show_part(&kinds, ", ", "%zu %s", same, kind ? kind : "of unknown kind");
    }
    if (total)
        show_line(s, COLOUR_DIM, "%zu more without an address: %s", total, buf_str(&kinds));
    if (shown > SHOW_NETS_MAX)
        show_line(s, COLOUR_DIM, "%zu more with an address or a device: see --json",
                  shown - SHOW_NETS_MAX);
    buf_release(&kinds);
}

void show_nets(struct hw_print *s)
{
    const struct hw *hw = s->hw;
    size_t listed = 0, shown = 0;
    bool numa = hw->numa_count > 1, rdma = hw->rdma_count > 0; /* columns that say something */
    struct table *t;

    for (size_t i = 0; i < hw->nets_count; i++)
        listed += net_is_listed(&hw->nets[i]);
    show_section(s, "Network");
    if (listed == 0) {
        show_line(s, COLOUR_NONE, "no interface but loopback");
        nets_folded(s, 0);
        return;
    }
    show_line(s, COLOUR_NONE, "%zu interface%s", listed, listed == 1 ? "" : "s");
    t = table_new();
    table_col(t, "NAME", TABLE_SHRINK);
    table_col(t, "STATE", TABLE_SHRINK);
    table_col(t, "SPEED", TABLE_RIGHT);
    table_col(t, "MTU", TABLE_RIGHT);
    table_col(t, "DRIVER", TABLE_SHRINK);
    if (numa)
        table_col(t, "NUMA", TABLE_RIGHT);
    if (rdma)
        table_col(t, "RDMA", TABLE_SHRINK);
    table_col(t, "ADDRESSES", TABLE_SHRINK);
    for (size_t i = 0; i < hw->nets_count; i++)
        if (net_is_listed(&hw->nets[i]) && shown++ < SHOW_NETS_MAX)
            net_row(t, &hw->nets[i], numa, rdma);
    show_table(s, t);
    nets_folded(s, shown);
}

/* ---- storage ---- */
static void disk_table(struct hw_print *s)
{
    struct table *t = table_new();
    char text[UNITS_TEXT_MAX];

    table_col(t, "DISK", TABLE_SHRINK);
    table_col(t, "MODEL", TABLE_SHRINK);
    table_col(t, "SIZE", TABLE_RIGHT);
    table_col(t, "KIND", TABLE_SHRINK);
    if (s->hw->numa_count > 1)
        table_col(t, "NUMA", TABLE_RIGHT);
    FOR_EACH(const struct hw_disk, d, s->hw->disks) {
        table_row(t);
        table_cell(t, COLOUR_NONE, "%s", show_str(d->name));
        table_cell(t, COLOUR_NONE, "%s", show_str(d->model));
        table_cell(t, COLOUR_NONE, "%s", show_bytes(d->size_bytes, text));
        table_cell(t, COLOUR_NONE, "%s%s", show_str(d->transport),
                   maybe_is(d->rotational, 1) && !str_eq(d->transport, "virtio") ? ", rotating"
                                                                                 : "");
        if (s->hw->numa_count > 1)
            show_cell_int(t, COLOUR_NONE, d->numa, "");
    }
    show_table(s, t);
}

/* Files bound into a container (/etc/hosts and its like) are no file systems. */
static bool mount_is_listed(const struct hw_mount *m)
{
    return m->target && m->size_bytes.known && m->size_bytes.v > 0 &&
           !str_starts(m->target, "/etc/") && !str_starts(m->target, "/dev") &&
           !str_starts(m->target, "/proc") && !str_starts(m->target, "/sys") &&
           !str_starts(m->target, "/run/");
}

static void mount_row(struct table *t, const struct hw_mount *m)
{
    char text[UNITS_TEXT_MAX];
    bool full = m->avail_bytes.known && m->avail_bytes.v < m->size_bytes.v / 20;

    table_row(t);
    table_cell(t, COLOUR_NONE, "%s", show_str(m->target));
    table_cell(t, COLOUR_NONE, "%s", show_str(m->fstype));
    table_cell(t, COLOUR_NONE, "%s", show_bytes(m->size_bytes, text));
    table_cell(t, full ? COLOUR_YELLOW : COLOUR_NONE, "%s", show_bytes(m->avail_bytes, text));
    table_cell(t, COLOUR_NONE, "%s", show_str(m->source));
}

static size_t mount_table(struct hw_print *s)
{
    struct table *t = table_new();
    size_t shown = 0;

    table_col(t, "MOUNTED ON", TABLE_SHRINK);
    table_col(t, "TYPE", TABLE_SHRINK);
    table_col(t, "SIZE", TABLE_RIGHT);
    table_col(t, "FREE", TABLE_RIGHT);
    table_col(t, "FROM", TABLE_SHRINK);
    for (size_t i = 0; i < s->hw->mounts_count; i++)
        if (mount_is_listed(&s->hw->mounts[i]) && shown++ < SHOW_MOUNTS_MAX)
            mount_row(t, &s->hw->mounts[i]);
    if (shown)
        show_table(s, t);
    else
        table_free(t);
    return shown;
}

void show_storage(struct hw_print *s)
{
    size_t disks = s->hw->disks_count, mounts;

    show_section(s, "Storage");
    show_line(s, COLOUR_NONE,
              disks == 1 ? "%zu disk"
              : disks    ? "%zu disks"
                         : "no local disk seen",
              disks);
    if (disks)
        disk_table(s);
    mounts = mount_table(s);
    if (mounts > SHOW_MOUNTS_MAX)
        show_line(s, COLOUR_DIM, "%zu more file systems: see --json", mounts - SHOW_MOUNTS_MAX);
}
