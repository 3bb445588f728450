/* SPDX-License-Identifier: MIT */
/* ports: the RDMA ports NCCL takes.
 *
 * NCCL takes every ACTIVE port of InfiniBand or Ethernet that NCCL_IB_HCA lets
 * through, whatever its speed, place or use; wanted_ports.c says which it should take. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <strings.h>

enum { PCI_VENDOR_AMAZON = 0x1d0f, PCI_EFA_FIRST = 0xefa0, PCI_EFA_LAST = 0xefaf };

const struct hw_rdma_port *ports_find(const struct hw *hw, const char *dev, int64_t port)
{
    const struct hw_rdma *r = hw_find_rdma(hw, dev);

    for (size_t i = 0; r && i < r->ports_count; i++)
        if (maybe_is(r->ports[i].port, port))
            return &r->ports[i];
    return NULL;
}

static bool device_is_efa(const struct hw *hw, const struct hw_rdma *r)
{
    const struct hw_pci *p = r->bdf ? hw_find_pci(hw, r->bdf) : NULL;

    return str_eq(r->driver, "efa") || (r->name && str_starts(r->name, "efa_")) ||
           (p && maybe_is(p->vendor, PCI_VENDOR_AMAZON));
}

bool ports_is_efa(const struct hw *hw)
{
    for (size_t i = 0; i < hw->rdma_count; i++)
        if (device_is_efa(hw, &hw->rdma[i]))
            return true;
    for (size_t i = 0; i < hw->pci_count; i++)
        if (maybe_is(hw->pci[i].vendor, PCI_VENDOR_AMAZON) && hw->pci[i].device.known &&
            hw->pci[i].device.v >= PCI_EFA_FIRST && hw->pci[i].device.v <= PCI_EFA_LAST)
            return true;
    return false;
}

/* Its link layer is Ethernet as RoCE's, but connections are made by the connection manager
 * only, which NCCL does not ask. */
bool ports_is_iwarp(const struct hw *hw, const char *dev)
{
    const struct hw_rdma *r = hw_find_rdma(hw, dev);

    return r && str_eq(r->node_type, "RNIC");
}

/* rxe and siw are no PCI device: the processor does the work, over a NIC or over any interface. */
bool ports_is_soft(const struct hw *hw, const char *dev)
{
    const struct hw_rdma *r = hw_find_rdma(hw, dev);

    return r && !r->bdf && (str_starts(dev, "rxe") || str_starts(dev, "siw") || !r->hca);
}

bool ports_all_iwarp(const struct hw *hw, const struct nccl_choice *c)
{
    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].picked && !ports_is_iwarp(hw, c->ports[i].dev))
            return false;
    return true;
}

bool ports_hidden(const struct hw *hw)
{
    return hw->rdma_count > 0 && maybe_is(hw->limits.uverbs, 0);
}

/* ---- what NCCL takes ---- */

const char *ports_off(const struct hw *hw)
{
    const char *net = nccl_env_of(hw, "NCCL_NET");

    if (nccl_env_int(hw, "NCCL_IB_DISABLE", 0) != 0)
        return "NCCL_IB_DISABLE turns RDMA off.";
    if (net && !strcasecmp(net, "Socket"))
        return "NCCL_NET=Socket turns RDMA off.";
    return NULL;
}

/* Why NCCL passes a port over whatever the variables say; NULL: it does not. */
static const char *port_fault(struct nccl_run *s, const struct hw_rdma *r,
                              const struct hw_rdma_port *hp)
{
    if (ports_hidden(s->hw))
        return "There is no /dev/infiniband/uverbs device here, so it cannot be opened.";
    if (maybe_is(r->openable, 0))
        return "Its node in /dev/infiniband is not here, so it cannot be opened.";
    if (device_is_efa(s->hw, r))
        return "It is an AWS EFA device: NCCL's own RDMA code cannot drive it, the aws-ofi-nccl "
               "plug-in can.";
    if (!str_eq(hp->state, "ACTIVE"))
        return arena_printf(s->a, "Its port is %s.", hp->state ? hp->state : "in an unknown state");
    if (!str_eq(hp->link_layer, "InfiniBand") && !str_eq(hp->link_layer, "Ethernet"))
        return arena_printf(s->a, "Its link layer is %s.",
                            hp->link_layer ? hp->link_layer : "unknown");
    return NULL;
}

static void use_one(struct nccl_run *s, const struct hw_rdma *r, const struct hw_rdma_port *hp,
                    const struct name_filter *m, size_t used, struct nccl_port *p)
{
    const char *off = ports_off(s->hw), *fault = port_fault(s, r, hp);

    p->takes = !fault;
    if (off)
        p->why = off;
    else if (fault)
        p->why = fault;
    else if (!name_filter_takes(m, p->dev, p->port))
        p->why =
            arena_printf(s->a, "NCCL_IB_HCA=%s leaves it out.", nccl_env_of(s->hw, "NCCL_IB_HCA"));
    else if (used >= nccl_ports_max(s->hw))
        p->why = arena_printf(s->a, "NCCL uses %zu ports at most.", nccl_ports_max(s->hw));
    else
        p->picked = true;
    if (p->picked && s->c->stop_why)
        p->why = s->c->stop_why;
    else if (p->picked && !s->c->wire_if)
        p->why = "NCCL finds no IP interface, and without one it does not start RDMA.";
    else
        p->used = p->picked;
    if (p->used)
        p->why = arena_printf(s->a, "ACTIVE, %s, %s.", p->link_layer,
                              nccl_rate_text(s->a, p->rate_mbps));
}

bool ports_merged(const struct hw *hw)
{
    bool never = !nccl_older_than(hw, 2, 24) && nccl_older_than(hw, 2, 27);

    return !never && nccl_env_int(hw, "NCCL_IB_MERGE_VFS", 1) != 0;
}

/* Ports at one PCI bus (with NCCL_IB_MERGE_VFS=0 and from 2.24 to 2.26: one slot) are one NIC to
 * NCCL. */
static const char *card_of(struct nccl_run *s, const struct hw_rdma *r)
{
    size_t len = r->bdf ? strlen(r->bdf) : 0;

    if (len < 7) /* "…00:00.0" */
        return r->bdf;
    /* --env sets NCCL_IB_MERGE_VFS=0 for those that NCCL would not find */
    return ports_merged(s->hw) &&
                   (nccl_env_of(s->hw, "NCCL_IB_MERGE_VFS") || !level_nic_apart(s->hw, r->name))
               ? arena_printf(s->a, "%.*s00.0", (int)(len - 4), r->bdf)
               : arena_printf(s->a, "%.*s0", (int)(len - 1), r->bdf);
}

static void use_all(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    struct name_filter m;
    size_t total = 0, used = 0;

    for (size_t i = 0; i < s->hw->rdma_count; i++)
        total += s->hw->rdma[i].ports_count;
    c->ports = arena_array(s->a, struct nccl_port, total + 1);
    name_filter_hcas(&m, s->hw);
    FOR_EACH(const struct hw_rdma, r, s->hw->rdma) {
        for (size_t k = 0; r->name && k < r->ports_count; k++) {
            const struct hw_rdma_port *hp = &r->ports[k];
            struct nccl_port *p = &c->ports[c->ports_count++];

            *p = (struct nccl_port){ .dev = r->name,
                                     .port = maybe_or(hp->port, (int64_t)k + 1),
                                     .state = hp->state,
                                     .link_layer = hp->link_layer,
                                     .rate_mbps = hp->rate_mbps,
                                     .pcie_mbps = hw_rdma_link_short(s->hw, r),
                                     .card = card_of(s, r) };
            p->near_path = level_name(level_nic_best(s->hw, r->name));
            use_one(s, r, hp, &m, used, p);
            used += p->picked;
            if (p->picked)
                gid_choose(s, hp, p);
        }
    }
}

static void count_cards(struct nccl_choice *c)
{
    for (size_t i = 0; i < c->ports_count; i++)
        for (size_t k = 0; k < c->ports_count; k++)
            c->ports[i].card_ports += c->ports[i].picked && c->ports[k].picked &&
                                      c->ports[i].card &&
                                      str_eq(c->ports[i].card, c->ports[k].card);
}

/* ---- rails ---- */

/* A subnet for a port and its gateway only: whatever is reached from there is routed, by
 * tables that are not among those we see. */
static bool route_is_link(const struct hw_route *r)
{
    return maybe_or(r->prefix, 0) >= (str_eq(r->family, "inet6") ? 126 : 30);
}

/* The subnet that a RoCE port speaks from; NULL: not known. */
static const char *roce_subnet(const struct hw *hw, const struct hw_net *n)
{
    for (size_t k = 0; n && k < hw->routes_count; k++)
        if (str_eq(hw->routes[k].dev, n->name) && !hw->routes[k].gateway && hw->routes[k].dst &&
            !str_starts(hw->routes[k].dst, "fe80") && !str_starts(hw->routes[k].dst, "169.254.") &&
            !str_starts(hw->routes[k].dst, "ff") && maybe_or(hw->routes[k].prefix, 0) > 0 &&
            !route_is_link(&hw->routes[k]))
            return hw->routes[k].dst;
    return NULL;
}

struct rail {
    const char *net;
    size_t ports;
};

/* "10.1.0.0" of a route is "10.1.0.0/16" of an address. */
static bool net_is(const char *a, const char *b)
{
    size_t len = strcspn(a, "/");

    return len == strcspn(b, "/") && !strncmp(a, b, len);
}

/* The rail of this network, new or not; NULL: no room. */
static struct rail *rail_of(struct rail *rails, size_t *count, const char *net)
{
    for (size_t k = 0; k < *count; k++)
        if (net_is(rails[k].net, net))
            return &rails[k];
    if (*count == NCCL_PORTS_MAX)
        return NULL;
    rails[*count] = (struct rail){ .net = net };
    return &rails[(*count)++];
}

/* The device of the address that the port speaks from, also of one that NCCL does not take as
 * long as nothing is named. */
static const char *port_ndev(const struct hw *hw, const struct nccl_choice *c,
                             const struct nccl_port *p)
{
    const struct hw_rdma_port *hp = ports_find(hw, p->dev, p->port);
    const struct hw_gid *g = NULL;
    const char *mended = NULL;
    struct gid_rule rule;

    if (hp && c->gid_pin.known)
        return (g = gid_at(hp, c->gid_pin.v)) ? g->ndev : NULL;
    /* the search ends badly: on the good entry once that is mended, if all are of one device */
    for (size_t i = 0; hp && !c->gid_range && !p->gid_ok && i < hp->gids_count; i++) {
        if (!gid_usable(hw, &hp->gids[i]))
            continue;
        if (mended && !str_eq(mended, hp->gids[i].ndev))
            return NULL;
        mended = hp->gids[i].ndev;
    }
    if (mended)
        return mended;
    if (hp && (c->gid_range || !p->gid_ndev)) {
        gid_rule_of(hw, &rule);
        if (c->gid_range) /* the address that NCCL has once the range is set */
            (void)gid_rule_range(&rule, c->gid_range);
        g = gid_at(hp, gid_scan(hp, &rule));
    }
    return g ? g->ndev : p->gid_ndev;
}

struct rails {
    struct rail list[NCCL_PORTS_MAX];
    size_t count, gateways, ports, largest;
    const char *layer;
};

/* False: the port tells no network, is of another layer than the others, or one too many. */
static bool rails_add(struct rails *r, const struct hw *hw, const struct nccl_choice *c,
                      const struct nccl_port *p)
{
    bool roce = str_eq(p->link_layer, "Ethernet");
    const char *ndev = roce && p->wanted ? port_ndev(hw, c, p) : NULL;
    const struct hw_net *n = ndev ? hw_find_net(hw, ndev) : NULL;
    const char *net = roce && p->wanted ? roce_subnet(hw, n) : p->network;
    struct rail *rail;

    if (p->down && !net) { /* of some rail, and of none that is known */
        r->ports++;
        return true;
    }
    if (!net || (r->layer && !str_eq(r->layer, p->link_layer)))
        return false;
    r->layer = p->link_layer;
    rail = rail_of(r->list, &r->count, net);
    if (!rail)
        return false;
    r->gateways += roce && n && !rail->ports && !iface_is_rail(hw, n);
    r->ports++;
    if (++rail->ports > r->largest)
        r->largest = rail->ports;
    return true;
}

/* Several networks, and none leads to another: IP subnets of which at most one has a
 * gateway (the way back ends at the rest), or InfiniBand subnets, which only a router
 * joins.  One InfiniBand subnet with most ports and a few outside it is no pattern: a
 * manager may just have moved.  Rails that are down count: machines that are well have them. */
size_t ports_isolated_rails(const struct hw *hw, const struct nccl_choice *c)
{
    struct rails r = { 0 };
    bool any = false;

    FOR_EACH(const struct nccl_port, p, c->ports) {
        any = any || p->wanted;
        if ((p->wanted || p->down) && !rails_add(&r, hw, c, p))
            return 0;
    }
    if (!any || (str_eq(r.layer, "InfiniBand") && r.largest > 1 && 2 * r.largest > r.ports))
        return 0;
    /* a table of its own for each rail (ip rule) leads from one to another */
    if (str_eq(r.layer, "Ethernet") && maybe_or(hw->route_tables, 0) >= (int64_t)r.count)
        return 0;
    return r.count > 1 && r.gateways <= 1 ? r.count : 0;
}

void ports_choose(struct nccl_run *s)
{
    s->c->efa = ports_is_efa(s->hw);
    s->c->gdr_support = level_gdr_support(s->hw);
    use_all(s);
    count_cards(s->c);
    fabric_choose(s);
    score_prepare(s);
    wanted_choose(s);
    gid_networks_choose(s);
    s->c->gid_pin = env_gid_pin(s);
    wanted_rails(s);
}
