/* SPDX-License-Identifier: MIT */
/* ports: the RDMA ports NCCL takes, and those it should take.
 *
 * NCCL takes every ACTIVE port of InfiniBand or Ethernet that NCCL_IB_HCA lets
 * through, whatever its speed, place or use.  The right ones are of one link
 * layer, at the highest rate, with an address that works from here, and at a
 * GPU's switch when any is: what is left out is a storage or management NIC. */
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

bool ports_hidden(const struct hw *hw)
{
    return hw->rdma_count > 0 && maybe_is(hw->limits.uverbs, 0);
}

/* ---- what NCCL takes ---- */

static const char *net_off(const struct hw *hw)
{
    const char *net = nccl_env_of(hw, "NCCL_NET");

    if (nccl_env_int(hw, "NCCL_IB_DISABLE", 0) != 0)
        return "NCCL_IB_DISABLE turns RDMA off.";
    if (net && !strcasecmp(net, "Socket"))
        return "NCCL_NET=Socket turns RDMA off.";
    return NULL;
}

static void use_one(struct sim *s, const struct hw_rdma *r, const struct hw_rdma_port *hp,
                    const struct match *m, size_t used, struct nccl_port *p)
{
    const char *off = net_off(s->hw);

    if (off)
        p->why = off;
    else if (ports_hidden(s->hw))
        p->why = "There is no /dev/infiniband/uverbs device here, so it cannot be opened.";
    else if (maybe_is(r->openable, 0))
        p->why = "Its node in /dev/infiniband is not here, so it cannot be opened.";
    else if (device_is_efa(s->hw, r))
        p->why = "It is an AWS EFA device: NCCL's own RDMA code cannot drive it, the aws-ofi-nccl "
                 "plug-in can.";
    else if (!str_eq(hp->state, "ACTIVE"))
        p->why =
            arena_printf(s->a, "Its port is %s.", hp->state ? hp->state : "in an unknown state");
    else if (!str_eq(hp->link_layer, "InfiniBand") && !str_eq(hp->link_layer, "Ethernet"))
        p->why = arena_printf(s->a, "Its link layer is %s.",
                              hp->link_layer ? hp->link_layer : "unknown");
    else if (!match_takes(m, p->dev, p->port))
        p->why =
            arena_printf(s->a, "NCCL_IB_HCA=%s leaves it out.", nccl_env_of(s->hw, "NCCL_IB_HCA"));
    else if (used >= NCCL_PORTS_MAX)
        p->why = arena_printf(s->a, "NCCL uses %d ports at most.", NCCL_PORTS_MAX);
    else if (!s->c->socket_if)
        p->why = "NCCL finds no IP interface, and without one it does not start RDMA.";
    else
        p->used = true;
    if (p->used)
        p->why = arena_printf(s->a, "ACTIVE, %s, %s.", p->link_layer,
                              nccl_rate_text(s->a, p->rate_mbps));
}

/* Ports at one PCI bus (with NCCL_IB_MERGE_VFS=0: one slot) are one NIC to NCCL. */
static const char *card_of(struct sim *s, const struct hw_rdma *r)
{
    bool merge = nccl_env_int(s->hw, "NCCL_IB_MERGE_VFS", 1) != 0;
    size_t len = r->bdf ? strlen(r->bdf) : 0;

    if (len < 7) /* "…00:00.0" */
        return r->bdf;
    return merge ? arena_printf(s->a, "%.*s00.0", (int)(len - 4), r->bdf)
                 : arena_printf(s->a, "%.*s0", (int)(len - 1), r->bdf);
}

static void use_all(struct sim *s)
{
    struct nccl_choice *c = s->c;
    struct match m;
    size_t total = 0, used = 0;

    for (size_t i = 0; i < s->hw->rdma_count; i++)
        total += s->hw->rdma[i].ports_count;
    c->ports = arena_array(s->a, struct nccl_port, total + 1);
    match_parse(&m, nccl_env_of(s->hw, "NCCL_IB_HCA"), MATCH_HCAS);
    for (size_t i = 0; i < s->hw->rdma_count; i++) {
        const struct hw_rdma *r = &s->hw->rdma[i];

        for (size_t k = 0; r->name && k < r->ports_count; k++) {
            const struct hw_rdma_port *hp = &r->ports[k];
            struct nccl_port *p = &c->ports[c->ports_count++];

            *p = (struct nccl_port){ .dev = r->name,
                                     .port = maybe_or(hp->port, (int64_t)k + 1),
                                     .state = hp->state,
                                     .link_layer = hp->link_layer,
                                     .rate_mbps = hp->rate_mbps,
                                     .card = card_of(s, r) };
            p->near_path = level_name(level_nic_best(s->hw, r->name));
            use_one(s, r, hp, &m, used, p);
            used += p->used;
            if (p->used)
                gid_choose(s, hp, p);
        }
    }
}

static void count_cards(struct nccl_choice *c)
{
    for (size_t i = 0; i < c->ports_count; i++)
        for (size_t k = 0; k < c->ports_count; k++)
            c->ports[i].card_ports += c->ports[i].used && c->ports[k].used && c->ports[i].card &&
                                      str_eq(c->ports[i].card, c->ports[k].card);
}

/* ---- what it should take ---- */

static bool is_candidate(struct sim *s, struct nccl_port *p)
{
    const struct hw_rdma_port *hp = ports_find(s->hw, p->dev, p->port);
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);

    if (!r || device_is_efa(s->hw, r) || ports_hidden(s->hw) || maybe_is(r->openable, 0) ||
        !str_eq(p->state, "ACTIVE") ||
        (!str_eq(p->link_layer, "InfiniBand") && !str_eq(p->link_layer, "Ethernet"))) {
        p->wanted_why = "It cannot be used: see why.";
        return false;
    }
    if (str_eq(p->link_layer, "Ethernet") && hp && gid_port_class(s->hw, hp) == GID_NONE) {
        p->wanted_why = "None of its addresses belongs to a network device in this namespace.";
        return false;
    }
    return true;
}

static bool ethernet(const struct nccl_port *p)
{
    return str_eq(p->link_layer, "Ethernet");
}

/* Drops wanted ports that `bad` refuses, when at least one would stay. */
static void drop(struct sim *s, bool (*bad)(struct sim *s, const struct nccl_port *p, void *arg),
                 void *arg, const char *why)
{
    size_t stay = 0;

    for (size_t i = 0; i < s->c->ports_count; i++)
        stay += s->c->ports[i].wanted && !bad(s, &s->c->ports[i], arg);
    for (size_t i = 0; stay && i < s->c->ports_count; i++) {
        struct nccl_port *p = &s->c->ports[i];

        if (p->wanted && bad(s, p, arg)) {
            p->wanted = false;
            p->wanted_why = why;
        }
    }
}

static bool only_local(struct sim *s, const struct nccl_port *p, void *arg)
{
    const struct hw_rdma_port *hp = ports_find(s->hw, p->dev, p->port);

    (void)arg;
    return ethernet(p) && hp && gid_port_class(s->hw, hp) != GID_ROUTABLE;
}

struct layer {
    bool ethernet;
    int64_t rate_mbps;
};

/* The layer with the fastest ports; of two, the one with more of them; then InfiniBand. */
static struct layer best_layer(const struct nccl_choice *c)
{
    struct layer best = { .ethernet = false, .rate_mbps = -1 };
    size_t best_count = 0;

    for (int eth = 0; eth < 2; eth++) {
        int64_t top = -1;
        size_t count = 0;

        for (size_t i = 0; i < c->ports_count; i++) {
            int64_t rate = maybe_or(c->ports[i].rate_mbps, 0);

            if (!c->ports[i].wanted || ethernet(&c->ports[i]) != (eth == 1))
                continue;
            count = rate > top ? 1 : count + (rate == top);
            top = rate > top ? rate : top;
        }
        if (top > best.rate_mbps || (top == best.rate_mbps && count > best_count)) {
            best = (struct layer){ .ethernet = eth == 1, .rate_mbps = top };
            best_count = count;
        }
    }
    return best;
}

static bool other_layer(struct sim *s, const struct nccl_port *p, void *arg)
{
    (void)s;
    return ethernet(p) != ((const struct layer *)arg)->ethernet;
}

static bool slower(struct sim *s, const struct nccl_port *p, void *arg)
{
    (void)s;
    return maybe_or(p->rate_mbps, 0) < ((const struct layer *)arg)->rate_mbps;
}

static bool beyond_switch(struct sim *s, const struct nccl_port *p, void *arg)
{
    bool any_near = false;

    (void)arg;
    for (size_t i = 0; i < s->c->ports_count; i++) {
        enum level l = level_of_path(s->c->ports[i].near_path);

        any_near = any_near || (s->c->ports[i].wanted && l != LEVEL_NONE && l <= LEVEL_PXB);
    }
    return any_near && level_of_path(p->near_path) > LEVEL_PXB;
}

/* The NIC of the default route, when the others are one for each GPU already. */
static bool management(struct sim *s, const struct nccl_port *p, void *arg)
{
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);
    size_t gpus = s->c->gpus.known ? (size_t)s->c->gpus.v : s->hw->gpus_count;
    size_t others = 0;

    (void)arg;
    for (size_t i = 0; i < s->c->ports_count; i++)
        others += s->c->ports[i].wanted && &s->c->ports[i] != p;
    if (others == 0 || others < gpus)
        return false;
    for (size_t i = 0; i < s->hw->nets_count; i++) {
        const struct hw_net *n = &s->hw->nets[i];
        bool mine = str_eq(n->rdma, p->dev);

        for (size_t k = 0; r && k < r->netdevs_count; k++)
            mine = mine || str_eq(n->name, r->netdevs[k]);
        if (mine && maybe_is(n->default_route, 1))
            return true;
    }
    return false;
}

static const char *wanted_text(struct sim *s, const struct nccl_port *p)
{
    return arena_printf(s->a, "ACTIVE at %s%s%s%s.", nccl_rate_text(s->a, p->rate_mbps),
                        p->near_path ? ", " : "", p->near_path ? p->near_path : "",
                        p->near_path ? " from the nearest GPU" : "");
}

static void want_all(struct sim *s)
{
    struct nccl_choice *c = s->c;
    struct layer layer;

    if (nccl_env_of(s->hw, "NCCL_IB_HCA")) {
        for (size_t i = 0; i < c->ports_count; i++) {
            c->ports[i].wanted = c->ports[i].used;
            c->ports[i].wanted_why = "NCCL_IB_HCA is set already and decides.";
        }
        return;
    }
    for (size_t i = 0; i < c->ports_count; i++)
        c->ports[i].wanted = is_candidate(s, &c->ports[i]);
    drop(s, only_local, NULL,
         "It has only link-local or RoCE v1 addresses, while others have routable ones.");
    layer = best_layer(c);
    drop(s, other_layer, &layer,
         layer.ethernet
             ? "NCCL cannot join InfiniBand and Ethernet ports, and the Ethernet ones are "
               "faster or more."
             : "NCCL cannot join InfiniBand and Ethernet ports, and the InfiniBand ones "
               "are at least as fast and as many.");
    drop(s, slower, &layer, "It is slower than the others: a storage or management NIC.");
    drop(s, beyond_switch, NULL,
         "No GPU is at its PCIe switch, while the others have one: a storage or management NIC.");
    drop(s, management, NULL,
         "It carries the default route, and there is a NIC for each GPU besides.");
    for (size_t i = 0; i < c->ports_count; i++)
        if (c->ports[i].wanted)
            c->ports[i].wanted_why = wanted_text(s, &c->ports[i]);
}

/* Rails: every wanted port speaks from its own subnet, and no subnet has a gateway. */
bool ports_isolated_rails(const struct hw *hw, const struct nccl_choice *c)
{
    const char *seen[NCCL_PORTS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < c->ports_count; i++) {
        const struct nccl_port *p = &c->ports[i];
        const struct hw_net *n = p->gid_ndev ? hw_find_net(hw, p->gid_ndev) : NULL;
        const char *dst = NULL;

        if (!p->wanted)
            continue;
        if (!ethernet(p) || !n || !iface_is_rail(hw, n) || count == NCCL_PORTS_MAX)
            return false;
        for (size_t k = 0; k < hw->routes_count && !dst; k++)
            if (str_eq(hw->routes[k].dev, n->name) && !hw->routes[k].gateway &&
                !str_starts(hw->routes[k].dst ? hw->routes[k].dst : "fe80", "fe80") &&
                !str_starts(hw->routes[k].dst, "ff") && maybe_or(hw->routes[k].prefix, 0) > 0)
                dst = hw->routes[k].dst;
        for (size_t k = 0; dst && k < count; k++)
            if (str_eq(seen[k], dst))
                return false; /* two NICs on one subnet: one switch joins them */
        if (!dst)
            return false;
        seen[count++] = dst;
    }
    return count > 1;
}

void ports_choose(struct sim *s)
{
    s->c->efa = ports_is_efa(s->hw);
    use_all(s);
    count_cards(s->c);
    want_all(s);
}
