/* SPDX-License-Identifier: MIT */
/* rdma_link: what a NIC's PCIe link carries beside its ports, and which ports are spare.
 *
 * A link that trained with fewer lanes or at a lower generation than card and slot can do is a
 * fault.  NCCL reads the most that both can do (graph/xml.cc) and does not notice.
 *
 * mlx5 says "Disabled" of every Ethernet port without a carrier, so the physical state does not
 * tell a spare port from a broken cable: that nobody gave its network device an address does. */
#include "hw/hw_int.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

/* 8b/10b up to 5 GT/s, 128b/130b up to 32, flits of 256 bytes with 242 from 64 on. */
static struct maybe mbps_of(const char *speed, struct maybe width)
{
    double gt = speed ? strtod(speed, NULL) : 0;

    if (gt <= 0 || gt > 1000 || !width.known || width.v <= 0 || width.v > 64)
        return maybe_none();
    gt *= gt < 8 ? 800 : gt < 64 ? 1000.0 * 128 / 130 : 1000.0 * 242 / 256;
    return maybe_of((int64_t)gt * width.v);
}

struct maybe hw_link_mbps(const struct hw_pci *p)
{
    return p ? mbps_of(p->link_speed, p->link_width) : maybe_none();
}

static bool is_bridge(const struct hw_pci *p)
{
    return p && p->class_.known && p->class_.v >> 8 == 0x0604;
}

/* Root ports and the ports below a switch lead down, what is next below one of them leads up: the
 * kinds take turns from the root on. */
bool hw_pci_is_upstream(const struct hw *hw, const struct hw_pci *p)
{
    enum { DEEP = 32 };
    bool odd = false;

    if (!is_bridge(p))
        return false;
    for (size_t n = 0; n < DEEP; n++, odd = !odd) {
        p = p->parent ? hw_find_pci(hw, p->parent) : NULL;
        if (!is_bridge(p))
            return odd;
    }
    return false;
}

bool hw_net_is_gvnic(const struct hw_net *n)
{
    return n->driver && (str_starts(n->driver, "gve") || str_starts(n->driver, "gvnic"));
}

struct maybe hw_link_mbps_max(const struct hw *hw, const struct hw_pci *p)
{
    const struct hw_pci *slot = p && p->parent ? hw_find_pci(hw, p->parent) : NULL;
    struct maybe card = p ? mbps_of(p->link_speed_max, p->link_width_max) : maybe_none();
    struct maybe most = slot ? mbps_of(slot->link_speed_max, slot->link_width_max) : maybe_none();

    return card.known && most.known && most.v < card.v ? most : card;
}

struct maybe hw_rdma_link_short(const struct hw *hw, const struct hw_rdma *r)
{
    const char *bdf = r->physfn ? r->physfn : r->bdf;
    const struct hw_pci *p = bdf ? hw_find_pci(hw, bdf) : NULL;
    struct maybe now = hw_link_mbps(p), most = hw_link_mbps_max(hw, p);
    int64_t rate = 0;

    if (!now.known || !most.known || now.v >= most.v)
        return maybe_none();
    for (size_t i = 0; i < r->ports_count; i++)
        if (str_eq(r->ports[i].state, "ACTIVE"))
            rate += maybe_or(r->ports[i].rate_mbps, 0);
    return now.v < rate ? now : maybe_none();
}

/* ---- spare ports ---- */

static bool same_card(const struct hw_rdma *a, const struct hw_rdma *b)
{
    const char *dot = a->bdf ? strrchr(a->bdf, '.') : NULL;

    return dot && b->bdf && !a->physfn && !b->physfn &&
           !strncmp(a->bdf, b->bdf, (size_t)(dot - a->bdf) + 1);
}

static bool card_is_up(const struct hw *hw, const struct hw_rdma *r)
{
    for (size_t i = 0; i < hw->rdma_count; i++)
        for (size_t k = 0; same_card(r, &hw->rdma[i]) && k < hw->rdma[i].ports_count; k++)
            if (str_eq(hw->rdma[i].ports[k].state, "ACTIVE"))
                return true;
    return false;
}

bool hw_gid_is_link_local(const char *gid)
{
    return gid &&
           (str_starts(gid, "fe80:") || str_starts(gid, "0000:0000:0000:0000:0000:ffff:a9fe:"));
}

bool hw_addr_is_link_local(const char *addr)
{
    return addr && (str_starts(addr, "fe80:") || str_starts(addr, "169.254."));
}

/* Without an address that anybody gave it, up or not: the kernel keeps an IPv4 address of a
 * device that is taken down. */
static bool netdev_is_free(const struct hw_net *n)
{
    for (size_t i = 0; i < n->addrs_count; i++)
        if (n->addrs[i].addr && !hw_addr_is_link_local(n->addrs[i].addr))
            return false;
    return maybe_is(n->up, 0) || !n->master;
}

/* How many cards of this model there are, and of how many every port is up. */
static size_t cards_alike(const struct hw *hw, const struct hw_rdma *r, size_t *out_up)
{
    size_t cards = 0;

    *out_up = 0;
    for (size_t i = 0; i < hw->rdma_count; i++) {
        const struct hw_rdma *q = &hw->rdma[i];
        size_t ports = 0, up = 0;
        bool first = q->bdf != NULL;

        if (!str_eq(q->hca, r->hca) || !str_eq(q->board, r->board) || maybe_is(q->vf, 1))
            continue;
        for (size_t k = 0; k < hw->rdma_count; k++) {
            if (!same_card(q, &hw->rdma[k]) || maybe_is(hw->rdma[k].vf, 1))
                continue;
            first = first && k >= i;
            ports += hw->rdma[k].ports_count;
            for (size_t n = 0; n < hw->rdma[k].ports_count; n++)
                up += str_eq(hw->rdma[k].ports[n].state, "ACTIVE");
        }
        cards += first;
        *out_up += first && ports > 1 && up == ports;
    }
    return cards;
}

bool hw_rdma_is_odd(const struct hw *hw, const struct hw_rdma *r)
{
    size_t up, cards = cards_alike(hw, r, &up);

    return up > 0 && 2 * up <= cards;
}

bool hw_rdma_is_spare(const struct hw *hw, const struct hw_rdma *r, const struct hw_rdma_port *p)
{
    bool free = r->netdevs_count > 0;
    size_t up, cards;

    if (!p->state || str_eq(p->state, "ACTIVE") || !card_is_up(hw, r))
        return false;
    cards = cards_alike(hw, r, &up);
    if (2 * up > cards)
        return false; /* most cards of the model have all ports up: this one is missing */
    if (!str_eq(p->link_layer, "Ethernet"))
        return str_eq(p->phys_state, "Disabled");
    for (size_t i = 0; i < r->netdevs_count && free; i++) {
        const struct hw_net *n = hw_find_net(hw, r->netdevs[i]);

        free = n && netdev_is_free(n);
    }
    return free;
}
