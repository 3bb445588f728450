/* SPDX-License-Identifier: MIT */
/* gid_networks: the networks that NCCL's search for RoCE addresses ends on, port by port.
 *
 * A port may have addresses in several networks (VLANs for compute and storage).  NCCL
 * takes the first that fits on each port by itself, so that a different order on one
 * NIC puts that NIC on another network than the others, and it cannot reach its peers.
 * NCCL_IB_ADDR_RANGE, one CIDR for all ports, mends that; also where the first that fits is
 * of a device outside this network namespace (a pod that shares the host's ports).
 *
 * It is well when all ports land on one network, or no port has the network of another
 * that it does not land on itself: rails, of one port or several each.  It is not when
 * one network has most ports and a few stray.  Otherwise we look for a network that all
 * ports have, first one without file systems on it, then for the rails' own ones under
 * one CIDR.
 *
 * It is not well either when all land on a network that file systems are mounted over and
 * each has another.  Where a port has several and nothing tells what they are for, which
 * comes first hangs on the order in which they were configured, on every machine anew. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <arpa/inet.h>

enum { GID_NETWORKS_MAX = 32 }; /* networks looked at a port */

struct gid_networks_port {
    struct nccl_port *p;
    const struct hw_rdma_port *hp;
    const char *nets[GID_NETWORKS_MAX]; /* of its usable addresses, each once */
    bool storage[GID_NETWORKS_MAX];
    size_t count;
    const char *at; /* where it lands; NULL: on no usable address, or not known */
};

struct gid_networks {
    struct nccl_run *s;
    struct gid_networks_port *ports;
    size_t count;
    struct gid_rule rule;
};

static bool port_has(const struct gid_networks_port *p, const char *net)
{
    for (size_t i = 0; i < p->count; i++)
        if (str_eq(p->nets[i], net))
            return true;
    return false;
}

static bool port_stores(const struct gid_networks_port *p, const char *net)
{
    for (size_t i = 0; i < p->count; i++)
        if (str_eq(p->nets[i], net))
            return p->storage[i];
    return false;
}

static bool gid_of_family(const struct hw_gid *g, int family)
{
    struct gid v;

    return gid_parse(g->gid, &v) && gid_is_v4(&v) == (family == 4);
}

static void port_fill(struct gid_networks *l, const bool *storage, struct gid_networks_port *p)
{
    const struct hw *hw = l->s->hw;

    for (size_t i = 0; i < p->hp->gids_count && p->count < GID_NETWORKS_MAX; i++) {
        const struct hw_gid *g = &p->hp->gids[i];
        const struct hw_net *n = g->ndev ? hw_find_net(hw, g->ndev) : NULL;
        const char *net;

        if (!n || !gid_usable(hw, g) || !gid_of_family(g, l->rule.family))
            continue;
        net = fabric_gid_network(l->s->a, hw, g);
        if (!net || port_has(p, net))
            continue;
        p->storage[p->count] = storage[n - hw->nets];
        p->nets[p->count++] = net;
    }
}

static const char *port_lands(const struct gid_networks *l, const struct gid_networks_port *p,
                              const struct gid_rule *rule)
{
    const struct hw_gid *g = gid_at(p->hp, gid_scan(p->hp, rule));

    return gid_usable(l->s->hw, g) ? fabric_gid_network(l->s->a, l->s->hw, g) : NULL;
}

static bool port_lands_here(const struct gid_networks *l, const struct gid_networks_port *p)
{
    return gid_usable(l->s->hw, gid_at(p->hp, gid_scan(p->hp, &l->rule)));
}

/* All on one network, or on rails. */
static bool nets_agree(const struct gid_networks *l, const char *const *at)
{
    size_t largest = 0;
    bool own = true;

    for (size_t i = 0; i < l->count; i++) {
        size_t same = 0;

        if (!at[i])
            return false;
        for (size_t k = 0; k < l->count; k++) {
            same += str_eq(at[i], at[k]);
            own = own && (str_eq(at[i], at[k]) || !port_has(&l->ports[k], at[i]));
        }
        largest = same > largest ? same : largest;
    }
    return largest == l->count || (own && (largest <= 1 || 2 * largest <= l->count));
}

/* ---- a better answer ---- */

/* With this range every port lands where it should. */
static bool range_works(const struct gid_networks *l, const char *range, const char *const *target)
{
    struct gid_rule rule = l->rule;

    if (!range || !gid_rule_range(&rule, range) || rule.prefix_bits <= 0)
        return false;
    for (size_t i = 0; i < l->count; i++)
        if (!str_eq(port_lands(l, &l->ports[i], &rule), target[i]))
            return false;
    return true;
}

struct range_offer { /* the best range so far */
    const char *range;
    const char **target; /* where each port lands with it */
    size_t stay;         /* ports that land there already */
};

static void answer_offer(const struct gid_networks *l, const char *range, const char *const *target,
                         struct range_offer *best)
{
    size_t stay = 0;

    if (!range_works(l, range, target))
        return;
    for (size_t i = 0; i < l->count; i++)
        stay += str_eq(l->ports[i].at, target[i]);
    if (best->range && best->stay >= stay)
        return;
    best->range = range;
    best->stay = stay;
    for (size_t i = 0; i < l->count; i++)
        best->target[i] = target[i];
}

/* Networks that every port has; without file systems on them unless `storage`. */
static void offer_common(const struct gid_networks *l, bool storage, const char **target,
                         struct range_offer *best)
{
    for (size_t i = 0; i < l->ports[0].count; i++) {
        const char *net = l->ports[0].nets[i];
        size_t have = 0;

        for (size_t k = 0; k < l->count; k++) {
            have += port_has(&l->ports[k], net) && (storage || !port_stores(&l->ports[k], net));
            target[k] = net;
        }
        if (have == l->count)
            answer_offer(l, net, target, best);
    }
}

/* The first network of a port that no other has. */
static const char *own_net(const struct gid_networks *l, size_t port)
{
    for (size_t i = 0; i < l->ports[port].count; i++) {
        const char *net = l->ports[port].nets[i];
        bool shared = l->ports[port].storage[i];

        for (size_t k = 0; k < l->count; k++)
            shared = shared || (k != port && port_has(&l->ports[k], net));
        if (!shared)
            return net;
    }
    return NULL;
}

static bool net_parse(const char *net, struct ip *out, int64_t *out_bits)
{
    const char *slash = net ? strchr(net, '/') : NULL;
    char host[INET6_ADDRSTRLEN];

    if (!slash || (size_t)(slash - net) >= sizeof(host))
        return false;
    memcpy(host, net, (size_t)(slash - net));
    host[slash - net] = 0;
    return str_to_i64(slash + 1, 10, out_bits) && ip_parse(host, out);
}

/* The smallest range that holds them all. */
static const char *cover_range(struct arena *a, const char *const *nets, size_t count)
{
    struct ip first, ip;
    int64_t bits, most;

    if (!net_parse(nets[0], &first, &most))
        return NULL;
    for (size_t i = 1; i < count; i++) {
        if (!net_parse(nets[i], &ip, &bits) || ip.family != first.family)
            return NULL;
        most = bits < most ? bits : most;
        while (most > 0 && !ip_same_net(&first, &ip, most))
            most--;
    }
    return most > 0 ? ip_net_text(a, &first, most) : NULL;
}

static void offer_rails(const struct gid_networks *l, const char **target, struct range_offer *best)
{
    for (size_t i = 0; i < l->count; i++) {
        target[i] = own_net(l, i);
        if (!target[i])
            return;
    }
    answer_offer(l, cover_range(l->s->a, target, l->count), target, best);
}

/* ---- the answer ---- */

/* "mlx5_0 on 10.1.0.0/16, mlx5_1 on 10.2.0.0/16; none of this namespace on mlx5_2, mlx5_3" */
static const char *landing_text(const struct gid_networks *l)
{
    struct buf b = { 0 }, lost = { 0 }, local = { 0 };

    for (size_t i = 0; i < l->count; i++)
        if (l->ports[i].at)
            buf_addf(&b, "%s%s on %s", b.len ? ", " : "", l->ports[i].p->dev, l->ports[i].at);
        else if (l->ports[i].p->gid_here)
            buf_addf(&local, "%s%s", local.len ? ", " : "", l->ports[i].p->dev);
        else
            buf_addf(&lost, "%s%s", lost.len ? ", " : "", l->ports[i].p->dev);
    if (local.len)
        buf_addf(&b, "%sone that no router forwards (link-local or RoCE v1) on %s",
                 b.len ? "; " : "", buf_str(&local));
    if (lost.len)
        buf_addf(&b, "%snone of this namespace on %s", b.len ? "; " : "", buf_str(&lost));
    buf_release(&local);
    buf_release(&lost);
    return nccl_text(l->s->a, &b);
}

static void ports_blame(struct gid_networks *l, const char *const *at,
                        const struct range_offer *best)
{
    for (size_t i = 0; i < l->count; i++) {
        struct nccl_port *p = l->ports[i].p;

        if (!at[i] || (best->range && str_eq(at[i], best->target[i])))
            continue;
        p->gid_ok = false;
        p->gid_why = arena_printf(
            l->s->a, "%s  It is in network %s, %s.", p->gid_why ? p->gid_why : "", at[i],
            l->s->c->gid_stores ? "which file systems are mounted over" : "other ports are not");
    }
}

static bool net_is_vlan(const struct gid_networks *l, const struct gid_networks_port *p,
                        const char *net)
{
    FOR_EACH(const struct hw_gid, g, p->hp->gids) {
        const struct hw_net *n = g->ndev ? hw_find_net(l->s->hw, g->ndev) : NULL;

        if (n && str_eq(n->kind, "vlan") && str_eq(fabric_gid_network(l->s->a, l->s->hw, g), net))
            return true;
    }
    return false;
}

/* File systems are on the ports' own network, the other is a VLAN: one network for all, and a
 * VLAN for something else, is as likely as a VLAN for training, and machines that lack it on
 * one port stay on the first. */
static bool stores_doubt(struct gid_networks *l, const char *const *at,
                         const struct range_offer *best)
{
    bool vlan = false;

    for (size_t i = 0; i < l->count; i++) {
        if (net_is_vlan(l, &l->ports[i], at[i]))
            return false;
        vlan = vlan || net_is_vlan(l, &l->ports[i], best->target[i]);
    }
    if (vlan)
        nccl_doubt(l->s,
                   "The addresses NCCL's search ends on are in a network that file systems are "
                   "mounted over (%s), and every port has one in a VLAN beside it (%s).  If that "
                   "is for training on every machine, set NCCL_IB_ADDR_RANGE=%s on all.",
                   at[0], best->target[0], best->range);
    return vlan;
}

/* All land well, some on a network of file systems: each has a better one. */
static bool networks_store(struct gid_networks *l, const char *const *at, const char **target,
                           struct range_offer *best)
{
    struct nccl_choice *c = l->s->c;
    bool stores = false;

    for (size_t i = 0; i < l->count; i++)
        stores = stores || port_stores(&l->ports[i], at[i]);
    if (!stores || l->rule.prefix_bits)
        return false;
    offer_rails(l, target, best);
    offer_common(l, false, target, best);
    if (!best->range)
        return false;
    if (stores_doubt(l, at, best))
        return true;
    c->gid_range = best->range;
    c->gid_stores = true;
    c->gid_nets_why = arena_printf(
        l->s->a,
        "The addresses NCCL's search ends on are in a network that file systems are mounted "
        "over: %s.",
        landing_text(l));
    ports_blame(l, at, best);
    return true;
}

/* The networks of a port that file systems do not claim: "10.1.0.0/16, 10.2.0.0/16". */
static const char *port_nets(const struct gid_networks *l, const struct gid_networks_port *p,
                             size_t *out_count)
{
    struct buf b = { 0 };

    *out_count = 0;
    for (size_t i = 0; i < p->count; i++)
        if (!p->storage[i])
            buf_addf(&b, "%s%s", (*out_count)++ ? ", " : "", p->nets[i]);
    return nccl_text(l->s->a, &b);
}

/* Nothing tells which network of a port is for training: NCCL takes what came up first. */
static void networks_doubt(struct gid_networks *l, const char *const *at)
{
    const char *range = cover_range(l->s->a, at, l->count), *nets = NULL;
    const struct gid_networks_port *p = NULL;
    size_t count;

    for (size_t i = 0; i < l->count && !p; i++) {
        nets = port_nets(l, &l->ports[i], &count);
        p = count > 1 ? &l->ports[i] : NULL;
    }
    if (!p || l->rule.prefix_bits || ports_off(l->s->hw))
        return;
    range = range_works(l, range, at) ? range : NULL;
    nccl_doubt(l->s,
               "%s has addresses in several networks (%s), and nothing tells which of them is for "
               "training.  NCCL takes the first that was configured, here %s; where that order is "
               "another, machines do not meet.%s%s%s",
               p->p->dev, nets, p->at,
               range ? "  If it is the right one, set NCCL_IB_ADDR_RANGE=" : "", range ? range : "",
               range ? " on all." : "");
}

/* False: the search fails on some port, and no range mends it. */
static bool networks_judge(struct gid_networks *l)
{
    const char **at = arena_array(l->s->a, const char *, l->count + 1);
    const char **target = arena_array(l->s->a, const char *, l->count + 1);
    struct nccl_choice *c = l->s->c;
    struct range_offer best = { 0 };
    bool lost = false;

    for (size_t i = 0; i < l->count; i++) {
        at[i] = l->ports[i].at;
        lost = lost || !at[i];
    }
    best.target = arena_array(l->s->a, const char *, l->count + 1);
    if (nets_agree(l, at)) {
        if (!networks_store(l, at, target, &best))
            networks_doubt(l, at);
        return true;
    }
    offer_rails(l, target, &best);
    offer_common(l, false, target, &best);
    if (!best.range)
        offer_common(l, true, target, &best);
    if (lost && !best.range)
        return false;
    if (l->rule.prefix_bits) /* somebody has set one, and it wins */
        c->gid_offer = best.range;
    else
        c->gid_range = best.range;
    c->gid_nets_why =
        arena_printf(l->s->a, "The addresses NCCL's search ends on are %s: %s.",
                     lost ? "not all usable here" : "in different networks", landing_text(l));
    ports_blame(l, at, &best);
    return true;
}

static bool networks_fill(struct gid_networks *l)
{
    struct nccl_choice *c = l->s->c;
    bool *storage = fabric_storage_nets(l->s->a, l->s->hw);

    l->count = 0;
    for (size_t i = 0; i < c->ports_count; i++) {
        struct gid_networks_port *p = &l->ports[l->count];

        *p = (struct gid_networks_port){
            .p = &c->ports[i], .hp = ports_find(l->s->hw, c->ports[i].dev, c->ports[i].port)
        };
        if (!p->p->wanted || !p->hp || !str_eq(p->p->link_layer, "Ethernet"))
            continue;
        port_fill(l, storage, p);
        p->at = port_lands(l, p, &l->rule);
        if (!p->at && (!p->count || port_lands_here(l, p)))
            return false; /* nothing to land on, or a network that is not known */
        l->count++;
    }
    return l->count > 0;
}

void gid_networks_choose(struct nccl_run *s)
{
    struct gid_networks l = { .s = s };

    if (nccl_env_int(s->hw, "NCCL_IB_GID_INDEX", -1) >= 0 || nccl_older_than(s->hw, 2, 21))
        return; /* then NCCL does not search */
    l.ports = arena_array(s->a, struct gid_networks_port, s->c->ports_count + 1);
    gid_rule_of(s->hw, &l.rule);
    if (networks_fill(&l) && networks_judge(&l))
        return;
    if (nccl_env_of(s->hw, "NCCL_IB_ADDR_FAMILY"))
        return;
    l.rule = (struct gid_rule){ .family = 6, .version = l.rule.version };
    if (networks_fill(&l)) /* as NCCL_IB_ADDR_FAMILY=AF_INET6 will have it */
        (void)networks_judge(&l);
}

bool gid_networks_agree_at(const struct hw *hw, const struct nccl_choice *c, int64_t index,
                           bool storage_too)
{
    struct arena a = { 0 };
    struct nccl_run s = { .hw = hw, .a = &a, .c = (struct nccl_choice *)c };
    struct gid_networks l = { .s = &s, .rule = { .family = 4, .version = 2 } };
    const char **at = arena_array(&a, const char *, c->ports_count + 1);
    bool *storage = fabric_storage_nets(&a, hw), agree, stores = false;

    l.ports = arena_array(&a, struct gid_networks_port, c->ports_count + 1);
    for (size_t i = 0; i < c->ports_count; i++) {
        struct gid_networks_port *p = &l.ports[l.count];
        const struct hw_gid *g;

        *p = (struct gid_networks_port){ .hp = ports_find(hw, c->ports[i].dev, c->ports[i].port) };
        g = p->hp && c->ports[i].wanted ? gid_at(p->hp, index) : NULL;
        if (!g)
            continue;
        l.rule.family = gid_of_family(g, 4) ? 4 : 6;
        port_fill(&l, storage, p);
        at[l.count] = fabric_gid_network(&a, hw, g);
        stores = stores || (at[l.count] && port_stores(p, at[l.count]));
        if (at[l.count]) /* a network that is not known is no reason to refuse */
            l.count++;
    }
    agree = nets_agree(&l, at) && (storage_too || !stores);
    arena_release(&a);
    return agree;
}
