/* SPDX-License-Identifier: MIT */
/* iface: the IP interface NCCL starts over, and the one it should.
 *
 * NCCL walks getifaddrs(): every IPv4 address in order of interface index, then IPv6; from 2.28
 * on of running interfaces only.  NCCL_SOCKET_IFNAME filters (find or fail); without it: names
 * that begin with "ib", then the subnet of NCCL_COMM_ID, then anything but docker, lo and (from
 * 2.28 on) virbr, then those.  So are found the interface that NICs connect over and those of
 * data.  Bootstrap goes by the same, unless NCCL_COMM_ID is set: then by its subnet only,
 * whatever the other variables say, and NCCL stops where no interface is in it.
 *
 * Where sockets carry the data, the same list chooses the interfaces for it: NCCL has them
 * all, sends by the fastest, and takes them in the kernel's order whatever the order of the
 * list.  So a list that puts another interface first may take the fast one away from data.
 *
 * The right one holds the route to the other nodes: that of MASTER_ADDR, else the
 * default route.  A rail (an RDMA network without a gateway) reaches its like on
 * other nodes at best, so it is never chosen by us. */
#include "nccl/nccl_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>

/* Whatever it is called: a card, or made of cards. */
static bool kind_leaves(const struct hw_net *n)
{
    static const char *const kinds[] = { "physical", "vlan", "bond", "infiniband" };

    for (size_t i = 0; n && i < ARRAY_SIZE(kinds); i++)
        if (str_eq(n->kind, kinds[i]))
            return true;
    return false;
}

bool iface_is_virtual(const struct hw *hw, const char *name)
{
    static const char *const prefixes[] = { "docker",  "veth", "cali", "tunl", "virbr", "br-",
                                            "flannel", "cni",  "kube", "lxc",  "vnet",  "podman" };

    if (kind_leaves(hw_find_net(hw, name)))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
        if (str_starts(name, prefixes[i]))
            return true;
    return str_eq(name, "lo");
}

bool iface_is_side(const struct hw *hw, const struct hw_net *n)
{
    static const char *const kinds[] = { "bridge", "veth", "tun", "dummy", "vxlan", "wireguard" };
    static const char *const tunnels[] = { "tailscale", "wg", "zt", "tun", "tap" };

    if (kind_leaves(n))
        return false;
    for (size_t i = 0; n->name && i < ARRAY_SIZE(tunnels); i++)
        if (str_starts(n->name, tunnels[i]))
            return true;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (str_eq(n->kind, kinds[i]))
            return true;
    return iface_is_virtual(hw, n->name);
}

static bool has_gateway(const struct hw *hw, const char *dev)
{
    for (size_t i = 0; i < hw->routes_count; i++)
        if (hw->routes[i].gateway && str_eq(hw->routes[i].dev, dev))
            return true;
    return false;
}

static bool is_rdma(const struct hw *hw, const struct hw_net *n)
{
    if (n->rdma)
        return true;
    for (size_t i = 0; i < hw->rdma_count; i++)
        for (size_t k = 0; k < hw->rdma[i].netdevs_count; k++)
            if (str_eq(hw->rdma[i].netdevs[k], n->name))
                return true;
    return false;
}

bool iface_fits_layer(const struct hw_rdma *r, const struct hw_net *n, const char *link_layer)
{
    bool both = false;

    for (size_t i = 0; i < r->ports_count; i++)
        both = both || !str_eq(r->ports[i].link_layer, link_layer);
    return !both || str_eq(n->kind, "bond") ||
           str_eq(n->kind, "infiniband") == str_eq(link_layer, "InfiniBand");
}

bool iface_is_ipoib(const struct hw *hw, const struct hw_net *n)
{
    FOR_EACH(const struct hw_rdma, r, hw->rdma) {
        bool mine = str_eq(n->rdma, r->name);

        for (size_t k = 0; k < r->netdevs_count; k++)
            mine = mine || str_eq(r->netdevs[k], n->name);
        for (size_t k = 0; mine && k < r->ports_count; k++)
            if (str_eq(r->ports[k].link_layer, "InfiniBand") &&
                iface_fits_layer(r, n, "InfiniBand"))
                return true;
    }
    return false;
}

bool iface_is_rail(const struct hw *hw, const struct hw_net *n)
{
    return is_rdma(hw, n) && !has_gateway(hw, n->name) && !maybe_is(n->default_route, 1);
}

static int by_index(const void *pa, const void *pb)
{
    const struct hw_net *a = *(const struct hw_net *const *)pa;
    const struct hw_net *b = *(const struct hw_net *const *)pb;
    int64_t ia = maybe_or(a->ifindex, INT64_MAX), ib = maybe_or(b->ifindex, INT64_MAX);

    if (ia != ib)
        return ia < ib ? -1 : 1;
    return (a > b) - (a < b);
}

/* The interfaces in the kernel's order, by index; the caller frees it. */
static const struct hw_net **in_order(const struct hw *hw, size_t *out_count)
{
    const struct hw_net **list = xcalloc(hw->nets_count + 1, sizeof(*list));
    size_t n = 0;

    for (size_t i = 0; i < hw->nets_count; i++)
        if (hw->nets[i].name)
            list[n++] = &hw->nets[i];
    qsort(list, n, sizeof(*list), by_index);
    *out_count = n;
    return list;
}

static const char *addr_of(const struct hw_net *n, const char *family)
{
    for (size_t i = 0; i < n->addrs_count; i++)
        if (str_eq(n->addrs[i].family, family) && n->addrs[i].addr &&
            !str_eq(n->addrs[i].addr, "::1"))
            return n->addrs[i].addr;
    return NULL;
}

static bool net_is_among(const struct hw_net *const *list, size_t count, const struct hw_net *n)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == n)
            return true;
    return false;
}

/* The family that NCCL_SOCKET_FAMILY leaves; NULL: both. */
static const char *family_only(const struct hw *hw)
{
    const char *user = nccl_env_of(hw, "NCCL_SOCKET_FAMILY");

    return str_eq(user, "AF_INET") ? "inet" : str_eq(user, "AF_INET6") ? "inet6" : NULL;
}

/* The interfaces a list takes, in NCCL's order, each once; *out_addr is the first's. */
static size_t find_all(const struct hw *hw, const char *list, const struct hw_net **out, size_t max,
                       const char **out_addr)
{
    static const char *const families[] = { "inet", "inet6" };
    const char *only = family_only(hw);
    bool linked = !nccl_older_than(hw, 2, 28); /* older ones do not look */
    const struct hw_net **nets;
    struct name_filter m;
    size_t count, found = 0;

    name_filter_parse(&m, list, FILTER_IFS);
    nets = in_order(hw, &count);
    for (size_t f = 0; f < ARRAY_SIZE(families); f++) {
        if (only && !str_eq(only, families[f]))
            continue;
        for (size_t i = 0; i < count && found < max; i++) {
            const char *addr = addr_of(nets[i], families[f]);

            if (!addr || (linked && maybe_is(nets[i]->running, 0)) ||
                !name_filter_takes(&m, nets[i]->name, -1) || net_is_among(out, found, nets[i]))
                continue;
            if (found == 0)
                *out_addr = addr;
            out[found++] = nets[i];
        }
    }
    free(nets);
    return found;
}

/* ---- addresses and routes ---- */

bool ip_parse(const char *text, struct ip *out)
{
    char host[INET6_ADDRSTRLEN];

    if (!text)
        return false;
    if (*text == '[') { /* [fd00::1]:29500 */
        const char *end = strchr(text, ']');
        size_t len = end ? (size_t)(end - text - 1) : sizeof(host);

        if (len >= sizeof(host))
            return false;
        memcpy(host, text + 1, len);
        host[len] = 0;
        text = host;
    }
    for (int f = 0; f < 2; f++) {
        out->family = f ? AF_INET6 : AF_INET;
        if (inet_pton(out->family, text, out->raw) == 1)
            return true;
    }
    return false;
}

bool ip_same_net(const struct ip *a, const struct ip *b, int64_t bits)
{
    size_t size = a->family == AF_INET ? 4 : 16;

    if (a->family != b->family || bits < 0 || (size_t)bits > size * 8)
        return false;
    for (size_t i = 0; bits > 0; i++, bits -= 8) {
        uint8_t mask = bits >= 8 ? 0xff : (uint8_t)(0xff << (8 - bits));

        if ((a->raw[i] ^ b->raw[i]) & mask)
            return false;
    }
    return true;
}

const char *ip_net_text(struct arena *a, const struct ip *ip, int64_t bits)
{
    struct ip net = *ip;
    char text[INET6_ADDRSTRLEN];
    int64_t size = ip->family == AF_INET ? 32 : 128;

    if (bits < 0 || bits > size)
        return NULL;
    for (int64_t i = bits; i < size; i++)
        net.raw[i / 8] &= (uint8_t) ~(0x80 >> (i % 8));
    inet_ntop(net.family, net.raw, text, sizeof(text));
    return arena_printf(a, "%s/%lld", text, (long long)bits);
}

/* The address of `n` that is `ip` (whole) or in its subnet; NULL: none. */
static const char *net_address_in(const struct hw_net *n, const struct ip *ip, bool whole)
{
    for (size_t i = 0; i < n->addrs_count; i++) {
        int64_t bits =
            whole ? (ip->family == AF_INET ? 32 : 128) : maybe_or(n->addrs[i].prefix, -1);
        struct ip own;

        if (ip_parse(n->addrs[i].addr, &own) && ip_same_net(ip, &own, bits))
            return n->addrs[i].addr;
    }
    return NULL;
}

/* The first interface that holds `ip` itself (whole) or an address in its subnet. */
static const struct hw_net *net_with(const struct hw *hw, const struct ip *ip, bool whole)
{
    const struct hw_net *found = NULL;
    const struct hw_net **nets;
    size_t count;

    nets = in_order(hw, &count);
    for (size_t i = 0; i < count && !found; i++)
        if (net_address_in(nets[i], ip, whole))
            found = nets[i];
    free(nets);
    return found;
}

/* Longest prefix, then lowest metric, as the kernel decides. */
const struct hw_route *iface_route_to(const struct hw *hw, const struct ip *ip)
{
    const struct hw_route *best = NULL;

    FOR_EACH(const struct hw_route, r, hw->routes) {
        struct ip dst;

        int64_t bits = maybe_or(r->prefix, -1);

        if (!r->dev || str_eq(r->dev, "lo") || !ip_parse(r->dst, &dst) ||
            !ip_same_net(ip, &dst, bits))
            continue;
        if (!best || bits > best->prefix.v ||
            (bits == best->prefix.v && maybe_or(r->metric, 0) < maybe_or(best->metric, 0)))
            best = r;
    }
    return best;
}

static const struct hw_route *default_route(const struct hw *hw)
{
    static const char *const any[] = { "0.0.0.0", "::" };

    for (size_t f = 0; f < ARRAY_SIZE(any); f++) {
        struct ip ip;
        const struct hw_route *r = ip_parse(any[f], &ip) ? iface_route_to(hw, &ip) : NULL;

        if (r && maybe_is(r->prefix, 0))
            return r;
    }
    return NULL;
}

/* ---- the choices ---- */

/* The host of "10.0.0.1:29500", "[fd00::1]:29500" or "node1:29500". */
static const char *comm_id_host(const struct hw *hw, struct arena *a)
{
    const char *id = nccl_env_of(hw, "NCCL_COMM_ID");

    if (!id)
        return NULL;
    if (*id == '[')
        return arena_strndup(a, id + 1, strcspn(id + 1, "]%")); /* [fe80::1%eth0]:29500 */
    if (str_starts(id, "localhost:"))
        return "127.0.0.1";
    return arena_strndup(a, id, strcspn(id, ":"));
}

const char *iface_env_peer(const struct hw *hw, struct arena *a, const char **out_name)
{
    const char *id = comm_id_host(hw, a), *master = nccl_env_of(hw, "MASTER_ADDR");
    struct ip ip;

    if (id && *id && (ip_parse(id, &ip) || !master || !ip_parse(master, &ip))) {
        *out_name = "NCCL_COMM_ID";
        return id;
    }
    *out_name = "MASTER_ADDR";
    return master;
}

/* NCCL looks at neither the family nor whether the interface is running here. */
static const struct hw_net *by_comm_id(const struct hw *hw, const char **out_addr)
{
    struct arena a = { 0 };
    const char *host = comm_id_host(hw, &a);
    const struct hw_net *n = NULL;
    struct ip ip;

    if (host && ip_parse(host, &ip))
        n = net_with(hw, &ip, false);
    if (n)
        *out_addr = net_address_in(n, &ip, false);
    arena_release(&a);
    return n;
}

static size_t default_all(const struct hw *hw, const struct hw_net **out, size_t max,
                          const char **out_addr, const char **out_why)
{
    static const struct {
        const char *list, *why;
        const char *old; /* before 2.28 */
    } steps[] = {
        { "ib", "Its name begins with \"ib\", which NCCL tries first.", NULL },
        { NULL, "Its subnet holds the address in NCCL_COMM_ID.", NULL },
        { "^docker,lo,virbr",
          "It is the first running interface in kernel order that is not docker, lo or virbr.",
          "^docker,lo" },
        { "docker",
          "NCCL passes over names that begin with \"docker\", \"lo\" or \"virbr\", and there is no "
          "other; of those it tries \"docker\" first.",
          NULL },
        { "lo",
          "NCCL passes over names that begin with \"docker\", \"lo\" or \"virbr\", and there is no "
          "other.",
          NULL },
        { "virbr", "Only interfaces whose names begin with \"virbr\" have an address.", NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
        bool old = steps[i].old && nccl_older_than(hw, 2, 28); /* before it knew of virbr */
        size_t found;

        if (steps[i].list)
            found = find_all(hw, old ? steps[i].old : steps[i].list, out, max, out_addr);
        else
            found = (out[0] = by_comm_id(hw, out_addr)) != NULL;
        if (found) {
            *out_why = old ? "It is the first interface with an address in kernel order that is "
                             "not docker or lo."
                           : steps[i].why;
            return found;
        }
    }
    return 0;
}

size_t iface_default_all(const struct hw *hw, const struct hw_net **out, size_t max)
{
    const char *addr, *why;

    return default_all(hw, out, max, &addr, &why);
}

size_t iface_data_all(const struct hw *hw, const struct hw_net **out, size_t max)
{
    const char *user = nccl_env_of(hw, "NCCL_SOCKET_IFNAME"), *addr;

    if (user && strlen(user) > 1)
        return find_all(hw, user, out, max, &addr);
    return iface_default_all(hw, out, max);
}

const struct hw_net *iface_default(const struct hw *hw, const char **out_addr, const char **out_why)
{
    const struct hw_net *n;

    return default_all(hw, &n, 1, out_addr, out_why) ? n : NULL;
}

/* ---- sockets that carry the data ---- */

enum { IFACE_UNTOLD_MBPS = 10000 }; /* NCCL's figure for an interface that tells no speed */

int64_t iface_mbps(const struct hw_net *n)
{
    return maybe_or(n->speed_mbps, 0) > 0 ? n->speed_mbps.v : IFACE_UNTOLD_MBPS;
}

struct maybe iface_fastest(const struct hw *hw, const struct hw_net *const *nets, size_t count,
                           int64_t *out_sum)
{
    struct maybe most = maybe_none();

    *out_sum = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t mbps = iface_mbps(nets[i]);

        if (!iface_carries(hw, nets[i]) || !iface_leaves(nets[i]) || (most.known && mbps < most.v))
            continue;
        *out_sum = most.known && mbps == most.v ? *out_sum + mbps : mbps;
        most = maybe_of(mbps);
    }
    return most;
}

/* With this list NCCL starts over `peer`, and data has as much as without one. */
static bool list_keeps(const struct hw *hw, const char *list, const char *peer)
{
    const struct hw_net *own[FILTER_IFS], *named[FILTER_IFS];
    size_t own_count = iface_default_all(hw, own, ARRAY_SIZE(own)), count;
    int64_t own_sum, sum;
    const char *addr;
    struct maybe own_most = iface_fastest(hw, own, own_count, &own_sum), most;

    count = find_all(hw, list, named, ARRAY_SIZE(named), &addr);
    if (!count) /* not in the inventory: nothing to compare */
        return !own_most.known;
    most = iface_fastest(hw, named, count, &sum);
    return str_eq(named[0]->name, peer) &&
           (!own_most.known || (most.known && most.v >= own_most.v && sum >= own_sum));
}

const char *iface_data_list(const struct hw *hw, struct arena *a, const char *peer)
{
    const struct hw_net *own[FILTER_IFS];
    size_t count = iface_default_all(hw, own, ARRAY_SIZE(own));
    const char *alone = arena_printf(a, "=%s", peer), *list;
    struct buf b = { 0 };
    bool after = false;

    buf_adds(&b, alone);
    for (size_t i = 0; i < count; i++) {
        if (after && iface_carries(hw, own[i]))
            buf_addf(&b, ",%s", own[i]->name);
        after = after || str_eq(own[i]->name, peer);
    }
    list = nccl_text(a, &b);
    return list_keeps(hw, alone, peer) ? alone : list_keeps(hw, list, peer) ? list : NULL;
}

/* ---- what NCCL takes ---- */

bool iface_addrs_known(const struct hw *hw)
{
    for (size_t i = 0; i < hw->nets_count; i++)
        if (hw->nets[i].addrs_count)
            return true;
    return false;
}

/* The first interface of NCCL_SOCKET_IFNAME, or of NCCL's own order. */
static const struct hw_net *find_wire(struct nccl_run *s, const char **out_addr,
                                      const char **out_why)
{
    const char *user = nccl_env_of(s->hw, "NCCL_SOCKET_IFNAME");
    const struct hw_net *n;

    if (!user || strlen(user) < 2)
        return iface_default(s->hw, out_addr, out_why);
    *out_why = arena_printf(s->a, "It is the first that NCCL_SOCKET_IFNAME=%s matches.", user);
    return find_all(s->hw, user, &n, 1, out_addr) ? n : NULL;
}

/* No interface is left: which variable is to blame, and what becomes of it. */
static void wire_stops(struct nccl_run *s)
{
    const char *user = nccl_env_of(s->hw, "NCCL_SOCKET_IFNAME"), *only = family_only(s->hw);
    const char *family = str_eq(only, "inet6") ? "IPv6" : "IPv4";
    bool named = user && strlen(user) > 1, other = false;
    struct nccl_choice *c = s->c;
    struct name_filter m;

    name_filter_parse(&m, named ? user : NULL, FILTER_IFS);
    for (size_t i = 0; i < s->hw->nets_count; i++)
        other = other || (s->hw->nets[i].addrs_count && !maybe_is(s->hw->nets[i].running, 0) &&
                          name_filter_takes(&m, s->hw->nets[i].name, -1));
    if (only && other) {
        c->stop_var = "NCCL_SOCKET_FAMILY";
        c->stop_why = arena_printf(
            s->a,
            "NCCL_SOCKET_FAMILY=%s leaves no interface: none%s has an %s address, and NCCL "
            "stops at start-up.",
            nccl_env_of(s->hw, c->stop_var), named ? " that NCCL_SOCKET_IFNAME matches" : "",
            family);
    } else if (named) {
        c->stop_var = "NCCL_SOCKET_IFNAME";
        c->stop_why = arena_printf(s->a,
                                   "NCCL_SOCKET_IFNAME=%s matches no %sinterface with an address, "
                                   "and NCCL then fails.",
                                   user, nccl_older_than(s->hw, 2, 28) ? "" : "running ");
    }
}

/* NCCL ends the job over the text itself: no host, or a bracket that is not closed. */
static bool comm_id_is_broken(const struct hw *hw)
{
    const char *id = hw_env_get(hw, "NCCL_COMM_ID");

    return id && (strlen(id) < 2 || *id == ':' || (*id == '[' && !strchr(id, ']')));
}

static void comm_id_stops(struct nccl_run *s, const char *why)
{
    s->c->stop_var = "NCCL_COMM_ID";
    s->c->stop_why = why;
}

/* Bootstrap by NCCL_COMM_ID; *out is NULL where it stops, or where the name decides. */
static void choose_by_id(struct nccl_run *s, const struct hw_net **out)
{
    struct nccl_choice *c = s->c;
    const char *host = comm_id_host(s->hw, s->a);
    struct ip ip;

    if (comm_id_is_broken(s->hw))
        comm_id_stops(s, "NCCL_COMM_ID is not HOST:PORT or [ADDRESS]:PORT, and NCCL stops with an "
                         "error.");
    if (c->stop_why || !host || !iface_addrs_known(s->hw))
        return;
    if (!ip_parse(host, &ip)) {
        *out = NULL;
        c->socket_why = arena_printf(
            s->a,
            "NCCL_COMM_ID names %s, which is not looked up here: NCCL starts over the interface in "
            "whose subnet its address is, and stops with an error where none is.",
            host);
        nccl_doubt(s, "%s", c->socket_why);
        return;
    }
    *out = by_comm_id(s->hw, &c->socket_addr);
    c->socket_why = "Its subnet holds the address in NCCL_COMM_ID, and NCCL looks at nothing else "
                    "to start.";
    if (!*out)
        comm_id_stops(
            s, arena_printf(s->a,
                            "No interface is in the subnet of NCCL_COMM_ID's address, %s; NCCL "
                            "takes no other to start and stops with an error.",
                            host));
}

bool iface_addr_leaves(const char *addr)
{
    struct hw_addr own = { .addr = addr };
    struct hw_net alone = { .addrs = &own, .addrs_count = 1 };

    return iface_leaves(&alone);
}

/* Some interface has an address that others could reach, whatever the variables leave NCCL. */
static bool any_leaves(const struct hw *hw)
{
    for (size_t i = 0; i < hw->nets_count; i++)
        if (!iface_is_side(hw, &hw->nets[i]) && !maybe_is(hw->nets[i].running, 0) &&
            iface_leaves(&hw->nets[i]))
            return true;
    return false;
}

/* Why nobody else can be reached over the interface that NCCL starts over. */
static const char *socket_fault(struct nccl_run *s)
{
    const struct nccl_choice *c = s->c;
    const struct hw_net *n = c->socket_if ? hw_find_net(s->hw, c->socket_if) : NULL;

    if (!n)
        return NULL;
    if (maybe_is(n->running, 0))
        return "it has no link";
    if (c->socket_addr && !iface_addr_leaves(c->socket_addr))
        return "its address is link-local";
    if (c->peer_if && !str_eq(c->peer_if, n->name) && iface_is_side(s->hw, n) &&
        !iface_is_able(s->hw, n))
        return arena_printf(s->a, "it is %s, and the way to them is %s",
                            str_eq(n->name, "lo") ? "the loopback" : "a virtual network",
                            c->peer_if);
    if (str_eq(n->name, "lo") && any_leaves(s->hw))
        return "it is the loopback";
    return NULL;
}

static void choose_socket(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    const char *addr = NULL, *why = NULL;
    const struct hw_net *wire = find_wire(s, &addr, &why), *n = wire;

    c->wire_if = wire ? wire->name : NULL;
    c->socket_addr = wire ? addr : NULL;
    c->socket_why = why;
    if (!wire && iface_addrs_known(s->hw))
        wire_stops(s);
    if (!c->stop_why)
        choose_by_id(s, &n);
    if (!n || c->stop_why) {
        c->socket_addr = NULL;
        c->socket_why = c->stop_why ? c->stop_why
                        : n == wire ? "No running interface with an address is known."
                                    : c->socket_why;
        return;
    }
    c->socket_if = n->name;
    if (maybe_is(n->running, 0))
        c->socket_why = arena_printf(s->a, "%s  It has no link, at which NCCL looks from 2.28 on.",
                                     c->socket_why);
}

bool iface_carries(const struct hw *hw, const struct hw_net *n)
{
    return !iface_is_side(hw, n) && !maybe_is(n->running, 0);
}

bool iface_leaves(const struct hw_net *n)
{
    for (size_t i = 0; i < n->addrs_count; i++) {
        struct ip ip;

        if (!ip_parse(n->addrs[i].addr, &ip))
            continue;
        if (ip.family == AF_INET ? ip.raw[0] != 169 || ip.raw[1] != 254
                                 : ip.raw[0] != 0xfe || (ip.raw[1] & 0xc0) != 0x80)
            return true;
    }
    return false;
}

/* A bridge over a real interface is the machine's own way out. */
static bool has_member(const struct hw *hw, const struct hw_net *n)
{
    for (size_t i = 0; i < hw->nets_count; i++)
        if (str_eq(hw->nets[i].master, n->name) && !iface_is_side(hw, &hw->nets[i]))
            return true;
    return false;
}

/* NCCL_SOCKET_FAMILY leaves it an address. */
static bool has_family(const struct hw *hw, const struct hw_net *n)
{
    const char *only = family_only(hw);

    return !only || addr_of(n, only);
}

bool iface_is_able(const struct hw *hw, const struct hw_net *n)
{
    return n->name && !iface_is_virtual(hw, n->name) &&
           (!iface_is_side(hw, n) || has_member(hw, n)) && !iface_is_rail(hw, n) &&
           !maybe_is(n->running, 0) && iface_leaves(n) && has_family(hw, n);
}

size_t iface_able_all(const struct hw *hw, const struct hw_net **out, size_t max)
{
    const struct hw_net **nets;
    size_t count, found = 0;

    nets = in_order(hw, &count);
    for (size_t i = 0; i < count && found < max; i++)
        if (iface_is_able(hw, nets[i]))
            out[found++] = nets[i];
    free(nets);
    return found;
}

/* NCCL passes over an interface without an address, and a list that names it alone ends the job.
 * Where no address is known at all, nothing can be said against it. */
static bool iface_is_open(const struct nccl_run *s, const char *dev)
{
    const struct hw_net *n = hw_find_net(s->hw, dev), *found;
    const char *addr;

    return !n || !iface_addrs_known(s->hw) ||
           (!maybe_is(n->running, 0) &&
            find_all(s->hw, arena_printf(s->a, "=%s", dev), &found, 1, &addr));
}

static bool by_peer(struct nccl_run *s)
{
    struct nccl_choice *c = s->c;
    const struct hw_route *r;
    const struct hw_net *own;
    struct ip ip;

    if (!s->peer)
        return false;
    if (!ip_parse(s->peer, &ip)) {
        nccl_note(s,
                  "%s names %s, which is not looked up here: the default route stands for the "
                  "route to the other nodes.",
                  s->peer_from ? s->peer_from : "--peer", s->peer);
        return false;
    }
    own = net_with(s->hw, &ip, true);
    if (own && !str_eq(own->name, "lo")) {
        c->peer_if = own->name;
        c->peer_why = arena_printf(
            s->a, "It holds %s itself, the address the other nodes are told.", s->peer);
        return true;
    }
    r = own ? NULL : iface_route_to(s->hw, &ip);
    if (!r || !iface_is_open(s, r->dev))
        return false;
    c->peer_if = r->dev;
    c->peer_why = arena_printf(s->a, "The route to %s (%s/%lld%s%s) leaves by it.", s->peer, r->dst,
                               (long long)r->prefix.v, r->gateway ? " via " : ", on link",
                               r->gateway ? r->gateway : "");
    return true;
}

static void choose_peer(struct nccl_run *s)
{
    const struct hw_route *r = default_route(s->hw);
    const struct hw_net *n = NULL, *able[2];
    struct nccl_choice *c = s->c;
    const char *out;

    if (by_peer(s))
        return;
    for (size_t i = 0; !r && !n && i < s->hw->nets_count; i++)
        if (s->hw->nets[i].name && maybe_is(s->hw->nets[i].default_route, 1))
            n = &s->hw->nets[i];
    out = r ? r->dev : n ? n->name : NULL;
    if (out && iface_is_open(s, out)) {
        c->peer_if = out;
        c->peer_why =
            arena_printf(s->a, "The default route%s%s leaves by it.",
                         r && r->gateway ? " via " : "", r && r->gateway ? r->gateway : "");
        return;
    }
    n = iface_able_all(s->hw, able, ARRAY_SIZE(able)) == 1 ? able[0] : NULL;
    c->peer_if = n ? n->name : NULL;
    c->peer_why = arena_printf(
        s->a, "%s%s%s%s",
        out ? "The default route leaves by "
        : n ? ""
            : "There is no default route, and ",
        out ? out : "", out ? ", which has no address that NCCL could use.  " : "",
        n     ? "It is the only interface that is neither virtual, an RDMA rail nor link-local."
        : out ? "More than one interface or none could be it."
              : "more than one interface or none could be it.");
}

void iface_choose(struct nccl_run *s)
{
    choose_socket(s);
    choose_peer(s);
    s->c->socket_bad = socket_fault(s);
}
