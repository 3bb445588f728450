/* SPDX-License-Identifier: MIT */
/* env_net: the interfaces: NCCL_SOCKET_IFNAME, and UCX where sockets carry the data.
 *
 * NCCL starts over one interface and, without RDMA, sends data by all it takes.  The variable
 * is set where that is not the interface to the other nodes, or where data would go by one
 * that leads to none; never so that data has less than without it. */
#include "nccl/env/env_int.h"

#include "base/str.h"

/* Without RDMA every interface NCCL takes carries data, not the first only. */
struct carriers {
    const char *list;  /* "=eth0,eth1": those that may */
    const char *other; /* "eth1": besides the one to the other nodes; NULL: none */
    const char *bad;   /* "the virtual cni0, flannel.1", "eno1 (no link)": those that must not;
                        * NULL: none */
};

static bool sockets_carry(const struct env_run *r)
{
    return env_is_tcp(r) || (str_eq(r->c.net, "tcp") && !r->c.efa && !ports_hidden(r->hw));
}

static struct carriers carriers_of(const struct env_run *r)
{
    const struct hw_net *nets[FILTER_IFS];
    size_t count = sockets_carry(r) ? iface_default_all(r->hw, nets, ARRAY_SIZE(nets)) : 0;
    struct buf list = { 0 }, other = { 0 }, side = { 0 }, dead = { 0 };
    struct carriers c = { 0 };

    buf_addf(&list, "=%s", r->c.peer_if);
    for (size_t i = 0; i < count; i++) {
        bool bad = !iface_carries(r->hw, nets[i]);
        struct buf *b = !bad ? &other : iface_is_side(r->hw, nets[i]) ? &side : &dead;

        if (str_eq(nets[i]->name, r->c.peer_if))
            continue;
        buf_addf(b, "%s%s", b->len ? ", " : "", nets[i]->name);
        if (!bad)
            buf_addf(&list, ",%s", nets[i]->name);
    }
    c.other = other.len ? nccl_text(r->a, &other) : NULL;
    if (side.len || dead.len)
        c.bad = arena_printf(r->a, "%s%s%s%s%s", side.len ? "the virtual " : "", buf_str(&side),
                             side.len && dead.len ? ", " : "", buf_str(&dead),
                             dead.len ? " (no link)" : "");
    buf_release(&side);
    buf_release(&dead);
    c.list = nccl_text(r->a, &list);
    return c;
}

/* Sites whose nodes talk over IPoIB: what we take for granted, and how to say otherwise. */
static const char *ipoib_text(const struct env_run *r, const struct hw_net *n)
{
    if (!n || !iface_is_ipoib(r->hw, n) || maybe_is(n->running, 0))
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
static struct env_verdict socket_found(const struct env_run *r)
{
    struct carriers c = carriers_of(r);

    if (c.bad)
        return env_set(
            NCCL_REQUIRED, c.list,
            arena_printf(r->a,
                         "%s leads to the other nodes.  %s  Without RDMA NCCL carries data "
                         "over every interface with an address, also over %s, where "
                         "connections between nodes hang or fail.",
                         r->c.peer_if, r->c.peer_why, c.bad));
    return env_pin(
        r, c.list,
        arena_printf(r->a, "%s leads to the other nodes, and NCCL takes it by itself.  %s%s%s%s%s",
                     r->c.peer_if, r->c.peer_why, ipoib_text(r, hw_find_net(r->hw, r->c.peer_if)),
                     c.other ? "  Without RDMA data goes over every running interface, also " : "",
                     c.other ? c.other : "", c.other ? "." : ""));
}

/* "ens100 (100 Gb/s)", "net1, net2 (400 Gb/s)": those that NCCL sends by when left alone. */
static const char *fastest_text(const struct env_run *r, const struct hw_net *const *nets,
                                size_t count)
{
    int64_t sum;
    struct maybe most = iface_fastest(r->hw, nets, count, &sum);
    struct buf b = { 0 };

    for (size_t i = 0; i < count; i++)
        if (iface_carries(r->hw, nets[i]) && maybe_is(most, iface_mbps(nets[i])))
            buf_addf(&b, "%s%s", b.len ? ", " : "", nets[i]->name);
    buf_addf(&b, " (%s)", nccl_rate_text(r->a, most));
    return nccl_text(r->a, &b);
}

/* Starting over the interface to the other nodes would take a faster one away from data. */
static struct env_verdict socket_kept(const struct env_run *r)
{
    const struct hw_net *nets[FILTER_IFS];
    size_t count = iface_default_all(r->hw, nets, ARRAY_SIZE(nets));
    const struct hw_net *peer = hw_find_net(r->hw, r->c.peer_if);
    struct carriers c = carriers_of(r);
    const char *start = count ? nets[0]->name : "the first", *why;

    for (size_t i = count; c.bad && i-- > 0;)
        if (iface_carries(r->hw, nets[i]))
            start = nets[i]->name;
    why = arena_printf(
        r->a,
        "Without RDMA it chooses the interfaces for data too: NCCL sends by %s, and %s (%s) alone, "
        "which leads to the other nodes, would take that away.  %s  NCCL starts over %s, the first "
        "in the kernel's order: where that does not lead to them, name those that do.",
        fastest_text(r, nets, count), r->c.peer_if,
        nccl_rate_text(r->a, peer ? maybe_of(iface_mbps(peer)) : maybe_none()), r->c.peer_why,
        start);
    if (!c.bad)
        return env_unset(why);
    return env_set(NCCL_REQUIRED, c.list,
                   arena_printf(r->a,
                                "%s  Left out: %s, where connections between nodes hang or fail.",
                                why, c.bad));
}

/* What NCCL takes when left alone. */
static const char *own_text(const struct env_run *r, const struct hw_net *own)
{
    return own                        ? own->name
           : iface_addrs_known(r->hw) ? "none"
                                      : "one that cannot be told, since no address is known";
}

/* Nothing tells which interface leads to the others, but what NCCL would take cannot: the
 * interfaces that may. */
static struct env_verdict socket_able(const struct env_run *r, const struct hw_net *own)
{
    const struct hw_net *able[FILTER_IFS], *all[FILTER_IFS];
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
        return env_unset(
            arena_printf(r->a,
                         "Which interface leads to the other nodes cannot be told.  %s  "
                         "NCCL would take %s.",
                         r->c.peer_why, own_text(r, own)));
    }
    return env_set(
        NCCL_REQUIRED, nccl_text(r->a, &b),
        arena_printf(r->a,
                     "Which interface leads to the other nodes is not certain: --peer with "
                     "the address of one tells.  %s  NCCL would take %s, and what is left out "
                     "leads to no other node: virtual networks of this machine, RDMA rails, "
                     "link-local addresses, interfaces without a link.",
                     r->c.peer_why, own_text(r, own)));
}

/* With NCCL_COMM_ID it starts by the subnet of that, and the variable is for the rest. */
static const char *wire_verb(const struct env_run *r)
{
    if (str_eq(r->c.stop_var, "NCCL_COMM_ID"))
        return "stop over NCCL_COMM_ID as it is, and once that is right connect its NICs over";
    if (!str_eq(r->c.socket_if, r->c.wire_if) && r->c.socket_if)
        return arena_printf(r->a, "start over %s by NCCL_COMM_ID, but connect its NICs over",
                            r->c.socket_if);
    return "take";
}

struct env_verdict env_socket_ifname(const struct env_run *r)
{
    const char *list;
    const char *addr, *why = NULL;
    const struct hw_net *n = iface_default(r->hw, &addr, &why);
    const struct hw_net *peer = r->c.peer_if ? hw_find_net(r->hw, r->c.peer_if) : NULL;

    if (str_eq(r->c.stop_var, "NCCL_SOCKET_FAMILY"))
        return env_unset(r->c.stop_why);
    if (!r->c.peer_if || iface_is_virtual(r->hw, r->c.peer_if))
        return socket_able(r, n);
    if (n && str_eq(n->name, r->c.peer_if))
        return socket_found(r);
    list = sockets_carry(r) ? iface_data_list(r->hw, r->a, r->c.peer_if)
                            : arena_printf(r->a, "=%s", r->c.peer_if);
    if (!list)
        return socket_kept(r);
    return env_set(NCCL_REQUIRED, list,
                   arena_printf(r->a, "%s leads to the other nodes.  %s  NCCL would %s %s%s.%s%s",
                                r->c.peer_if, r->c.peer_why, wire_verb(r), own_text(r, n),
                                n && maybe_is(n->running, 0)
                                    ? ", which has no link (NCCL looks at that from 2.28 on)"
                                : n && iface_is_rail(r->hw, n) ? ", a rail without a gateway"
                                : n && !iface_leaves(n) ? ", which has a link-local address only"
                                                        : "",
                                peer ? "" : "  That interface is not in the inventory, though.",
                                ipoib_text(r, n)));
}

/* By the way to the other nodes, unless NCCL has faster ones for data. */
struct env_verdict env_ucx_sockets(const struct env_run *r)
{
    const struct hw_net *all[FILTER_IFS], *peer = hw_find_net(r->hw, r->c.peer_if);
    size_t count = iface_data_all(r->hw, all, ARRAY_SIZE(all));
    int64_t sum;
    struct maybe most = iface_fastest(r->hw, all, count, &sum);
    struct buf b = { 0 };

    if (!peer || !most.known || iface_mbps(peer) >= most.v)
        return env_set(NCCL_PINNED, r->c.peer_if,
                       "Without RDMA, UCX goes by the interface to the others.");
    for (size_t i = 0; i < count; i++)
        if (iface_carries(r->hw, all[i]) && iface_leaves(all[i]) && iface_mbps(all[i]) == most.v)
            buf_addf(&b, "%s%s", b.len ? "," : "", all[i]->name);
    return env_set(
        NCCL_PINNED, nccl_text(r->a, &b),
        arena_printf(r->a,
                     "Without RDMA, UCX goes by the fastest interfaces, as NCCL does; %s "
                     "has %s.",
                     peer->name, nccl_rate_text(r->a, maybe_of(iface_mbps(peer)))));
}
