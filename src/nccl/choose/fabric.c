/* SPDX-License-Identifier: MIT */
/* fabric: which network an RDMA port is on, and what that network is for.
 *
 * InfiniBand: the subnet prefix (the upper half of GID 0) and the LID of the subnet
 * manager.  Two subnets often keep the default prefix, but each has its own manager.
 * RoCE: the IP subnet of the address NCCL speaks from.  Different subnets by themselves say
 * nothing: a fabric of rails has one for each rail.
 *
 * A network is for storage when the address a file system is mounted from (an NFS or
 * Ceph server, a Lustre NID; by name, the address in the options) is reached by it, and
 * the front end when the default route leaves by it.  Both hold for the network: what is
 * true of one port is true of all ports on it, unless it is a few of an InfiniBand subnet's. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <arpa/inet.h>

enum {
    FABRIC_ADDRS_MAX = 64, /* addresses read from one mount */
    FABRIC_WORD_MAX = 64   /* bytes of one address */
};

/* ---- where file systems come from ---- */

static bool mount_is_remote(const struct hw_mount *m)
{
    static const char *const kinds[] = { "lustre", "nfs",    "nfs4", "ceph",      "beegfs",
                                         "weka",   "wekafs", "gpfs", "glusterfs", "cifs",
                                         "smb3",   "panfs",  "daos", "orangefs",  "juicefs" };
    const char *kind = m->fstype ? m->fstype : "";

    if (str_starts(kind, "fuse.")) /* "fuse.glusterfs", "fuse.ceph-fuse" */
        kind += strlen("fuse.");
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        size_t len = strlen(kinds[i]);

        /* also "beegfs_nodev", "ceph-fuse" */
        if (!strncmp(kind, kinds[i], len) && (!kind[len] || kind[len] == '_' || kind[len] == '-'))
            return true;
    }
    return str_eq(kind, "dfuse");
}

/* Every interface whose route to `ip` is as good as the kernel's own choice: clients of
 * several rails have one address in the servers' subnet on each.  False: no route leads there,
 * or it is our own address. */
static bool mark_route(const struct hw *hw, const struct ip *ip, bool *marks)
{
    const struct hw_route *best = iface_route_to(hw, ip);

    for (size_t i = 0; best && maybe_or(best->prefix, 0) > 0 && i < hw->routes_count; i++) {
        const struct hw_route *r = &hw->routes[i];

        if (!str_eq(r->dst, best->dst) || maybe_or(r->prefix, -1) != maybe_or(best->prefix, -1))
            continue;
        for (size_t k = 0; k < hw->nets_count; k++)
            if (str_eq(hw->nets[k].name, r->dev))
                marks[k] = true;
    }
    return best != NULL;
}

/* The addresses in "10.0.0.1@o2ib:10.0.0.2@o2ib:/fs", "10.0.0.1:6789,10.0.0.2:/",
 * "[fd00::1]:/data", and after "addr=" in options. */
static bool mark_text(const struct hw *hw, const char *text, bool *marks)
{
    static const char ends[] = ",:/@;= ";
    bool placed = false;

    for (size_t n = 0; text && *text && n < FABRIC_ADDRS_MAX; n++) {
        size_t len = *text == '[' ? strcspn(text, "]") + 1 : strcspn(text, ends);
        char word[FABRIC_WORD_MAX];
        struct ip ip;

        if (*text == '[' && !strchr(text, ']'))
            break;
        if (len && len < sizeof(word)) {
            memcpy(word, text, len);
            word[len] = 0;
            if (ip_parse(word, &ip))
                placed = mark_route(hw, &ip, marks) || placed;
        }
        text += len;
        text += strspn(text, ends);
    }
    return placed;
}

static bool mark_option(const struct hw *hw, const char *options, const char *name, bool *marks)
{
    const char *at = options ? strstr(options, name) : NULL;
    char value[FABRIC_WORD_MAX * 4];
    size_t len;

    /* "clientaddr=" is our own address: the name begins an option */
    while (at && at != options && at[-1] != ',')
        at = strstr(at + 1, name);
    if (!at)
        return false;
    at += strlen(name);
    len = strcspn(at, ",");
    if (len >= sizeof(value))
        return false;
    memcpy(value, at, len);
    value[len] = 0;
    return mark_text(hw, value, marks);
}

/* The interfaces it goes by; false: its source and options do not tell. */
static bool mark_mount(const struct hw *hw, const struct hw_mount *m, bool *marks)
{
    bool placed = mark_text(hw, m->source, marks);

    placed = mark_option(hw, m->options, "addr=", marks) || placed;
    placed = mark_option(hw, m->options, "mountaddr=", marks) || placed;
    return mark_option(hw, m->options, "mon_addr=", marks) || placed;
}

bool *fabric_storage_nets(struct arena *a, const struct hw *hw)
{
    bool *marks = arena_array(a, bool, hw->nets_count + 1);

    for (size_t i = 0; i < hw->mounts_count; i++)
        if (mount_is_remote(&hw->mounts[i]))
            (void)mark_mount(hw, &hw->mounts[i], marks);
    return marks;
}

const struct hw_mount *fabric_unplaced(struct arena *a, const struct hw *hw)
{
    bool *marks = arena_array(a, bool, hw->nets_count + 1);

    for (size_t i = 0; i < hw->mounts_count; i++)
        if (mount_is_remote(&hw->mounts[i]) && !mark_mount(hw, &hw->mounts[i], marks))
            return &hw->mounts[i];
    return NULL;
}

/* ---- the network of a port ---- */

const char *fabric_gid_network(struct arena *a, const struct hw *hw, const struct hw_gid *g)
{
    const struct hw_net *n = g && g->ndev ? hw_find_net(hw, g->ndev) : NULL;
    struct ip ip, own;

    if (!n || !ip_parse(gid_text(a, g), &ip))
        return NULL;
    for (size_t i = 0; i < n->addrs_count; i++) {
        int64_t bits = maybe_or(n->addrs[i].prefix, -1);

        if (ip_parse(n->addrs[i].addr, &own) && ip_same_net(&ip, &own, bits))
            return ip_net_text(a, &ip, bits);
    }
    return NULL;
}

static const char *ib_network(struct arena *a, const struct hw_rdma_port *hp)
{
    const struct hw_gid *g = gid_at(hp, 0);
    struct gid v;

    if (!g || !gid_parse(g->gid, &v) || !hp->sm_lid.known || hp->sm_lid.v <= 0)
        return NULL;
    return arena_printf(a, "subnet %.19s of the manager at LID %lld", g->gid,
                        (long long)hp->sm_lid.v);
}

/* The address NCCL's search ends on, or the first that works. */
static const char *roce_network(struct nccl_run *s, const struct hw_rdma_port *hp)
{
    const struct hw_gid *g;
    struct gid_rule rule;

    gid_rule_of(s->hw, &rule);
    g = gid_at(hp, gid_scan(hp, &rule));
    for (size_t i = 0; !gid_usable(s->hw, g) && i < hp->gids_count; i++)
        g = &hp->gids[i];
    return gid_usable(s->hw, g) ? fabric_gid_network(s->a, s->hw, g) : NULL;
}

/* An interface on this port: its own, one that an address of its table belongs to, or a bond
 * of its own and others. */
static bool net_of_port(const struct hw *hw, const struct hw_rdma *r, const struct hw_rdma_port *hp,
                        const struct hw_net *n)
{
    if (str_eq(hp->link_layer, "Ethernet")) {
        for (size_t i = 0; i < hp->gids_count; i++)
            if (str_eq(hp->gids[i].ndev, n->name))
                return true;
        return false;
    }
    if (!iface_fits_layer(r, n, hp->link_layer))
        return false;
    for (size_t i = 0; i < r->netdevs_count; i++) {
        const struct hw_net *own = hw_find_net(hw, r->netdevs[i]);

        if (own && !iface_fits_layer(r, own, hp->link_layer))
            continue;
        if (str_eq(r->netdevs[i], n->name) || (own && str_eq(own->master, n->name)))
            return true;
    }
    return str_eq(n->rdma, r->name);
}

/* The IPv4 subnet of an interface; NULL: it has none. */
static const char *net_text(struct arena *a, const struct hw_net *n)
{
    struct ip ip;

    for (size_t i = 0; i < n->addrs_count; i++)
        if (ip_parse(n->addrs[i].addr, &ip) && ip.family == AF_INET && n->addrs[i].prefix.known)
            return ip_net_text(a, &ip, n->addrs[i].prefix.v);
    return NULL;
}

/* Of a RoCE port whose link is down, and whose table of addresses is empty for that: the subnet
 * of its interface. */
static const char *down_network(struct nccl_run *s, const struct hw_rdma *r,
                                const struct hw_rdma_port *hp)
{
    const char *net = NULL;

    for (size_t i = 0; !str_eq(hp->state, "ACTIVE") && !net && i < r->netdevs_count; i++) {
        const struct hw_net *n = hw_find_net(s->hw, r->netdevs[i]);

        net = n && iface_fits_layer(r, n, hp->link_layer) ? net_text(s->a, n) : NULL;
    }
    return net;
}

/* A port on which compute and storage share the cable (by VLANs) is not for storage:
 * every address of it would have to be. */
static void look_at_port(struct nccl_run *s, const bool *storage, struct nccl_port *p)
{
    const struct hw_rdma *r = hw_find_rdma(s->hw, p->dev);
    const struct hw_rdma_port *hp = ports_find(s->hw, p->dev, p->port);
    size_t all = 0, stores = 0;

    if (!r || !hp)
        return;
    p->network = str_eq(hp->link_layer, "Ethernet") ? roce_network(s, hp) : ib_network(s->a, hp);
    if (!p->network && str_eq(hp->link_layer, "Ethernet"))
        p->network = down_network(s, r, hp);
    for (size_t i = 0; i < s->hw->nets_count; i++) {
        const struct hw_net *n = &s->hw->nets[i];

        if (!n->name || !n->addrs_count || !net_of_port(s->hw, r, hp, n))
            continue;
        all++;
        stores += storage[i];
        if (!p->ip_net && str_eq(hp->link_layer, "InfiniBand"))
            p->ip_net = net_text(s->a, n);
        p->frontend = p->frontend || maybe_is(n->default_route, 1);
    }
    p->storage = all && stores == all;
}

/* A port whose link is down, of the model of one on that network that has no other use: it was
 * on that network, too. */
static bool port_was_on(const struct nccl_run *s, const struct nccl_port *down, const char *network)
{
    const struct hw_rdma *mine = hw_find_rdma(s->hw, down->dev);

    if (down->network || str_eq(down->state, "ACTIVE"))
        return false;
    FOR_EACH(const struct nccl_port, q, s->c->ports) {
        const struct hw_rdma *r = hw_find_rdma(s->hw, q->dev);

        if (str_eq(q->network, network) && !q->storage && !q->frontend && mine && r &&
            str_eq(mine->hca, r->hca) && str_eq(mine->board, r->board))
            return true;
    }
    return false;
}

/* An InfiniBand subnet is for storage as a whole when file systems are mounted over most of
 * its ports that are here.  Over a few of many they say it of these only: those that servers
 * are reached by are told by their IP subnet, whatever else is on the same fabric. */
static bool network_follows(const struct nccl_run *s, const struct nccl_port *p)
{
    const struct nccl_choice *c = s->c;
    size_t all = 0, same = 0;

    FOR_EACH(const struct nccl_port, q, c->ports) {
        if (!str_eq(q->network, p->network)) {
            all += port_was_on(s, q, p->network);
            continue;
        }
        all++;
        same += (p->storage && q->storage) || (p->frontend && q->frontend);
    }
    return str_eq(p->link_layer, "Ethernet") || 2 * same >= all;
}

void fabric_choose(struct nccl_run *s)
{
    bool *storage = fabric_storage_nets(s->a, s->hw), *spread;
    struct nccl_choice *c = s->c;

    for (size_t i = 0; i < c->ports_count; i++)
        look_at_port(s, storage, &c->ports[i]);
    spread = arena_array(s->a, bool, c->ports_count + 1);
    for (size_t i = 0; i < c->ports_count; i++)
        spread[i] = (c->ports[i].storage || c->ports[i].frontend) && c->ports[i].network &&
                    network_follows(s, &c->ports[i]);
    for (size_t i = 0; i < c->ports_count; i++)
        for (size_t k = 0; spread[i] && k < c->ports_count; k++) {
            if (!str_eq(c->ports[i].network, c->ports[k].network))
                continue;
            c->ports[k].storage = c->ports[k].storage || c->ports[i].storage;
            c->ports[k].frontend = c->ports[k].frontend || c->ports[i].frontend;
        }
}
