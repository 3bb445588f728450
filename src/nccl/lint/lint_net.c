/* SPDX-License-Identifier: MIT */
/* lint_net: mistakes in the variables that choose devices, addresses and interfaces. */
#include "nccl/nccl_int.h"

#include "base/str.h"

#include <arpa/inet.h>
#include <ctype.h>

/* ---- NCCL_IB_HCA ---- */

static bool is_active(const struct nccl_port *p)
{
    return str_eq(p->state, "ACTIVE") &&
           (str_eq(p->link_layer, "InfiniBand") || str_eq(p->link_layer, "Ethernet"));
}

static bool looks_like_pattern(const char *v)
{
    return strpbrk(v, "*[](){}|$?+\\") != NULL;
}

/* Whether a prefix that reads like a whole name ("mlx5_1") takes another device
 * ("mlx5_10"); "mlx5" and "mlx5_" are meant as they are. */
static bool takes_more(const struct hw *hw, const char *prefix, const char *dev)
{
    size_t len = strlen(prefix);

    if (str_eq(prefix, dev))
        return false;
    return hw_find_rdma(hw, prefix) ||
           (isdigit((unsigned char)prefix[len - 1]) && isdigit((unsigned char)dev[len]));
}

/* One name of the list that was meant to be taken. */
static void hca_entry(struct lint_run *r, const struct name_filter *m,
                      const struct name_filter_entry *e)
{
    const char *down = NULL;
    struct buf more = { 0 };
    bool active = false, exists = false;

    FOR_EACH(const struct nccl_port, p, r->choice.ports) {
        if (!name_filter_entry_takes(m, e, p->dev, p->port))
            continue;
        exists = true;
        if (is_active(p))
            active = true;
        else
            down = p->state ? p->state : "not active";
        if (!m->exact && takes_more(r->hw, e->name, p->dev))
            buf_addf(&more, "%s%s", more.len ? ", " : "", p->dev);
    }
    if (!exists)
        lint_add(r, "NCCL_IB_HCA",
                 r->choice.net && str_eq(r->choice.net, "rdma") ? NCCL_WARN : NCCL_ERROR,
                 "Name devices that exist, as stoker detect lists them.",
                 "There is no RDMA port '%s' on this machine, so the entry takes nothing%s.",
                 e->port >= 0 ? arena_printf(&r->out->arena, "%s:%lld", e->name, (long long)e->port)
                              : e->name,
                 e->port == 0 && nccl_older_patch(r->hw, 2, 30, 7)
                     ? " (NCCL before 2.30.7 reads an empty port as 0)"
                     : "");
    else if (!active)
        lint_add(r, "NCCL_IB_HCA", NCCL_WARN, "Bring the port up, or leave it out.",
                 "The port of '%s' is %s, so the entry takes nothing.", e->name, down);
    if (more.len)
        lint_add(r, "NCCL_IB_HCA", NCCL_WARN, "Put = before the list to ask for whole names.",
                 "Without = each entry is the beginning of a name: '%s' %s takes %s.", e->name,
                 hw_find_rdma(r->hw, e->name) ? "also" : "is no device here and", buf_str(&more));
    buf_release(&more);
}

/* "^mlx5_1" also leaves mlx5_10 … mlx5_19 out. */
static void hca_excluded(struct lint_run *r, const struct name_filter *m,
                         const struct name_filter_entry *e)
{
    struct buf more = { 0 };

    for (size_t i = 0; !m->exact && i < r->choice.ports_count; i++) {
        const struct nccl_port *p = &r->choice.ports[i];

        if (name_filter_entry_takes(m, e, p->dev, p->port) && takes_more(r->hw, e->name, p->dev))
            buf_addf(&more, "%s%s", more.len ? ", " : "", p->dev);
    }
    if (more.len)
        lint_add(r, "NCCL_IB_HCA", NCCL_WARN, "Write ^= before the list to exclude whole names.",
                 "Without = each entry is the beginning of a name: ^%s also excludes %s.", e->name,
                 buf_str(&more));
    buf_release(&more);
}

static void hca_layers(struct lint_run *r)
{
    bool ib = false, eth = false;

    for (size_t i = 0; i < r->choice.ports_count; i++) {
        ib = ib ||
             (r->choice.ports[i].picked && str_eq(r->choice.ports[i].link_layer, "InfiniBand"));
        eth =
            eth || (r->choice.ports[i].picked && str_eq(r->choice.ports[i].link_layer, "Ethernet"));
    }
    if (ib && eth)
        lint_add(
            r, "NCCL_IB_HCA", NCCL_WARN, "Name the ports of one fabric alone.",
            "It takes InfiniBand and Ethernet ports together, which cannot talk to each other.");
}

void lint_hca(struct lint_run *r)
{
    const char *v = nccl_env_of(r->hw, "NCCL_IB_HCA");
    size_t active = 0, taken = 0, before = r->out->count;
    struct name_filter m;

    if (!v || r->choice.efa || ports_hidden(r->hw))
        return;
    name_filter_hcas(&m, r->hw);
    FOR_EACH(const struct nccl_port, p, r->choice.ports) {
        active += is_active(p);
        taken += is_active(p) && name_filter_takes(&m, p->dev, p->port);
    }
    if (strstr(v, "HCA found") || strstr(v, "HCAs found")) {
        lint_add(r, "NCCL_IB_HCA", NCCL_ERROR, "Set it to device names, or unset it.",
                 "The heading of ibv_devinfo's list got into the value: NCCL looks for a device of "
                 "that name.");
    } else if (looks_like_pattern(v)) {
        lint_add(r, "NCCL_IB_HCA", taken ? NCCL_WARN : NCCL_ERROR,
                 "List the devices, or use the beginning of their names.",
                 "NCCL knows no patterns: it compares the text as it stands.");
    } else if (m.exclude && active && !taken) {
        lint_add(r, "NCCL_IB_HCA", NCCL_ERROR, "Remove the ^, or unset it.",
                 "A leading ^ excludes: every active RDMA port is left out, and NCCL falls back to "
                 "TCP without an error.");
        return;
    } else {
        for (size_t i = 0; i < m.count; i++)
            (m.exclude ? hca_excluded : hca_entry)(r, &m, &m.entries[i]);
    }
    if (active && !taken && r->out->count == before)
        lint_add(r, "NCCL_IB_HCA", NCCL_ERROR, "Name active ports, or unset it.",
                 "It leaves no active port, and NCCL falls back to TCP.");
    hca_layers(r);
    if (!m.exact && !m.exclude && taken && r->out->count == before)
        lint_add(r, "NCCL_IB_HCA", NCCL_INFO, "Put = before the list to ask for whole names.",
                 "Without = each entry is the beginning of a name; here it takes no other device, "
                 "on a node with more devices it may.");
}

/* ---- addresses of RoCE ports ---- */

enum gid_fault { GID_FINE, GID_EMPTY, GID_V1, GID_LINK_LOCAL, GID_ELSEWHERE };

static enum gid_fault gid_fault_of(const struct lint_run *r, const struct nccl_port *p,
                                   int64_t index)
{
    const struct hw_rdma_port *hp = ports_find(r->hw, p->dev, p->port);
    const struct hw_gid *g = hp ? gid_at(hp, index) : NULL;
    struct gid v;

    if (!hp)
        return GID_FINE;
    if (!g || !gid_parse(g->gid, &v) || !gid_is_set(&v))
        return GID_EMPTY;
    if (gid_version(g) == 1)
        return GID_V1;
    if (gid_is_link_local(&v))
        return GID_LINK_LOCAL;
    return gid_usable(r->hw, g) ? GID_FINE : GID_ELSEWHERE;
}

/* One line for all ports of which the same is to be said. */
static void gid_faults(struct lint_run *r, int64_t index)
{
    static const struct {
        enum nccl_severity severity;
        const char *text;
    } faults[] = {
        [GID_EMPTY] = { NCCL_ERROR, "is empty: every connection from there fails" },
        [GID_V1] = { NCCL_WARN, "is RoCE v1, which no router forwards and many fabrics drop" },
        [GID_LINK_LOCAL] = { NCCL_WARN, "is link-local, which no router forwards" },
        [GID_ELSEWHERE] = { NCCL_ERROR,
                            "belongs to a network device that is not in this namespace" },
    };

    for (int kind = GID_EMPTY; kind <= GID_ELSEWHERE; kind++) {
        struct buf b = { 0 };

        FOR_EACH(const struct nccl_port, p, r->choice.ports) {
            if (p->picked && str_eq(p->link_layer, "Ethernet") &&
                gid_fault_of(r, p, index) == (enum gid_fault)kind)
                buf_addf(&b, "%s%s", b.len ? ", " : "", p->dev);
        }
        if (b.len)
            lint_add(r, "NCCL_IB_GID_INDEX", faults[kind].severity,
                     "Unset it, so that NCCL searches on each port.", "Entry %lld of %s %s.",
                     (long long)index, buf_str(&b), faults[kind].text);
        buf_release(&b);
    }
}

static void lint_gid_index(struct lint_run *r)
{
    int64_t index = nccl_env_int(r->hw, "NCCL_IB_GID_INDEX", -1);
    size_t before = r->out->count, ib = 0, roce = 0, wanted_ib = 0, wanted_roce = 0;

    for (size_t i = 0; index >= 0 && i < r->choice.ports_count; i++) {
        const struct nccl_port *p = &r->choice.ports[i];

        if (!p->picked)
            continue;
        wanted_ib += p->wanted && str_eq(p->link_layer, "InfiniBand");
        wanted_roce += p->wanted && str_eq(p->link_layer, "Ethernet");
        ib += str_eq(p->link_layer, "InfiniBand");
        roce += str_eq(p->link_layer, "Ethernet");
    }
    if (index >= 0)
        gid_faults(r, index);
    if ((wanted_ib && !wanted_roce) || (ib && !roce))
        lint_add(r, "NCCL_IB_GID_INDEX", NCCL_WARN, "Unset it.",
                 "The fabric is InfiniBand, where NCCL never reads it: it has no effect.");
    else if (roce && !gid_networks_agree_at(r->hw, &r->choice, index, true))
        lint_add(r, "NCCL_IB_GID_INDEX", NCCL_ERROR,
                 nccl_older_than(r->hw, 2, 21) ? "Give each port its addresses in the same order."
                 : nccl_env_of(r->hw, "NCCL_IB_HCA")
                     ? "Unset it, and look at which ports NCCL_IB_HCA takes: without = a name is a "
                       "prefix, and may take ports of another network."
                     : "Unset it, and set what stoker detect --env says then.",
                 "Entry %lld is on different networks on different ports, which cannot reach each "
                 "other's.",
                 (long long)index);
    else if (roce && r->out->count == before)
        lint_add(r, "NCCL_IB_GID_INDEX", NCCL_INFO, "Unset it where NCCL's own search ends well.",
                 "The index is right here, but it may differ between pods and nodes.");
}

/* Ports without an address in the range: the search stays where it begins.  Those that should not
 * be used are for NCCL_IB_HCA to leave out, not for the range to hold. */
static void range_misses(struct lint_run *r, const struct gid_rule *rule)
{
    struct buf b = { 0 };

    FOR_EACH(const struct nccl_port, p, r->choice.ports) {
        struct gid v;

        if (p->picked && p->wanted && str_eq(p->link_layer, "Ethernet") && !p->gid_ok &&
            (!gid_parse(p->gid, &v) || !gid_in_range(&v, rule)))
            buf_addf(&b, "%s%s", b.len ? ", " : "", p->dev);
    }
    if (b.len)
        lint_add(r, "NCCL_IB_ADDR_RANGE", NCCL_ERROR,
                 "Unset it, and set what stoker detect --env prints then.",
                 "It holds no address of %s: NCCL's search ends on an entry there that no router "
                 "forwards.",
                 buf_str(&b));
    buf_release(&b);
}

static void lint_range(struct lint_run *r)
{
    const char *v = nccl_env_of(r->hw, "NCCL_IB_ADDR_RANGE");
    const char *family = nccl_env_of(r->hw, "NCCL_IB_ADDR_FAMILY");
    struct gid_rule rule;

    if (family && !str_eq(family, "AF_INET") && !str_eq(family, "AF_INET6"))
        lint_add(r, "NCCL_IB_ADDR_FAMILY", NCCL_WARN, "Use AF_INET or AF_INET6.",
                 "NCCL does not know that word and looks for IPv4.");
    if (!v)
        return;
    gid_rule_of(r->hw, &rule);
    if (strchr(v, ','))
        lint_add(r, "NCCL_IB_ADDR_RANGE", NCCL_WARN, "Give one range that holds all, or unset it.",
                 rule.prefix_bits
                     ? "It takes one range only: NCCL stops at the first and leaves out "
                       "the addresses of the others."
                     : "It takes one range only: NCCL cannot read the list and ignores "
                       "it.");
    else if (!rule.prefix_bits)
        lint_add(r, "NCCL_IB_ADDR_RANGE", NCCL_WARN, "Write it as ADDRESS/BITS, or unset it.",
                 "It is not a range of the address family in use; NCCL ignores it.");
    if (rule.prefix_bits && nccl_env_int(r->hw, "NCCL_IB_GID_INDEX", -1) < 0 &&
        !nccl_older_than(r->hw, 2, 21))
        range_misses(r, &rule);
}

void lint_gid(struct lint_run *r)
{
    lint_gid_index(r);
    lint_range(r);
}

/* ---- interfaces ---- */

static bool lo_allowed(const struct name_filter *m)
{
    return m->exclude && m->count && name_filter_takes(m, "lo", -1);
}

static void ifname_entries(struct lint_run *r, const struct name_filter *m)
{
    for (size_t i = 0; i < m->count; i++) {
        bool found = false;

        for (size_t k = 0; k < r->hw->nets_count; k++)
            found = found || name_filter_entry_takes(m, &m->entries[i], r->hw->nets[k].name, -1);
        if (!found)
            lint_add(r, "NCCL_SOCKET_IFNAME", NCCL_WARN, "Name interfaces that exist.",
                     "No interface here is called '%s'%s.", m->entries[i].name,
                     m->exact ? "" : " or begins so");
    }
}

/* Without RDMA data goes over all that the list takes. */
static void ifname_idle(struct lint_run *r)
{
    const struct hw_net *nets[FILTER_IFS];
    size_t count = iface_data_all(r->hw, nets, ARRAY_SIZE(nets));
    struct buf b = { 0 };

    for (size_t i = 0; i < count; i++)
        if (!str_eq(nets[i]->name, r->choice.wire_if) && !iface_carries(r->hw, nets[i]) &&
            !iface_is_able(r->hw, nets[i]) && !str_eq(nets[i]->name, r->choice.peer_if))
            buf_addf(&b, "%s%s%s", b.len ? ", " : "", nets[i]->name,
                     maybe_is(nets[i]->running, 0) ? " (no link)" : "");
    if (b.len)
        lint_add(r, "NCCL_SOCKET_IFNAME", NCCL_WARN, "Leave them out of the list.",
                 "Without RDMA data goes over every interface of the list, also %s, where "
                 "connections between nodes hang or fail.",
                 buf_str(&b));
    buf_release(&b);
}

static void lint_ifname(struct lint_run *r)
{
    const char *v = nccl_env_of(r->hw, "NCCL_SOCKET_IFNAME");
    const struct nccl_choice *c = &r->choice;
    const struct hw_net *n = c->wire_if ? hw_find_net(r->hw, c->wire_if) : NULL;
    static const char remedy[] =
        "Name the interface of the route to the other nodes with =, or unset it.";
    struct name_filter m;

    if (!v)
        return;
    if (strlen(v) < 2) {
        lint_add(r, "NCCL_SOCKET_IFNAME", NCCL_WARN, remedy,
                 "NCCL ignores a value of one character.");
        return;
    }
    name_filter_parse(&m, v, FILTER_IFS);
    if (str_eq(c->stop_var, "NCCL_SOCKET_IFNAME"))
        lint_add(r, "NCCL_SOCKET_IFNAME", NCCL_ERROR, remedy,
                 "No %sinterface with an address matches, and NCCL fails at start-up.",
                 nccl_older_than(r->hw, 2, 28) ? "" : "running ");
    else if (!m.exclude)
        ifname_entries(r, &m);
    if (lo_allowed(&m))
        lint_add(
            r, "NCCL_SOCKET_IFNAME", str_eq(c->wire_if, "lo") ? NCCL_ERROR : NCCL_WARN, remedy,
            "It excludes only what it names, so the loopback, which NCCL leaves out by itself, is "
            "let back in%s.",
            str_eq(c->wire_if, "lo") ? " and taken: no other node can be reached" : "");
    else if (n && iface_is_virtual(r->hw, n->name))
        lint_add(r, "NCCL_SOCKET_IFNAME", NCCL_WARN, remedy,
                 "%s stays inside this machine: a job over several nodes cannot start by it.",
                 n->name);
    else if (n && iface_is_side(r->hw, n) && !iface_is_able(r->hw, n) && c->peer_if &&
             !str_eq(c->peer_if, n->name))
        lint_add(r, "NCCL_SOCKET_IFNAME", NCCL_WARN, remedy,
                 "%s is a tunnel or another virtual network, and the route to the other nodes "
                 "leaves by %s.",
                 n->name, c->peer_if);
    if (n && maybe_is(n->running, 0))
        lint_add(r, "NCCL_SOCKET_IFNAME", NCCL_WARN, remedy,
                 "%s has no link, at which NCCL looks from 2.28 on only: no other node can be "
                 "reached over it.",
                 n->name);
    if (str_eq(c->net, "tcp"))
        ifname_idle(r);
    if (n && iface_is_rail(r->hw, n))
        lint_add(
            r, "NCCL_SOCKET_IFNAME", NCCL_WARN, remedy,
            "%s is an RDMA rail whose subnet has no gateway: nodes outside that subnet cannot be "
            "reached at start-up%s%s.",
            n->name, c->peer_if ? "; the route to them leaves by " : "",
            c->peer_if ? c->peer_if : "");
}

/* Without RDMA it chooses the interfaces of data, too.  In a container that was given no RDMA
 * device the one that trains may have it: nothing is told. */
static void lint_ifname_cost(struct lint_run *r)
{
    const struct hw_net *own[FILTER_IFS], *named[FILTER_IFS];
    size_t own_count, count;
    int64_t own_sum, sum;
    struct maybe most;

    if (!nccl_env_of(r->hw, "NCCL_SOCKET_IFNAME") || !str_eq(r->choice.net, "tcp") ||
        ports_hidden(r->hw) || doubt_net_plugin(r->hw) || hw_soft_found(r->hw, "nccl-net-plugin"))
        return;
    own_count = iface_default_all(r->hw, own, ARRAY_SIZE(own));
    count = iface_data_all(r->hw, named, ARRAY_SIZE(named));
    most = iface_fastest(r->hw, own, own_count, &own_sum);
    if (most.known && iface_fastest(r->hw, named, count, &sum).known && sum * 5 < own_sum * 4)
        lint_add(r, "NCCL_SOCKET_IFNAME", NCCL_WARN,
                 "Unset it, or name the interfaces for data with =.",
                 "Without RDMA it chooses the interfaces for data too: %g Gb/s, where NCCL's own "
                 "choice has %g Gb/s.",
                 (double)sum / 1000, (double)own_sum / 1000);
}

static void lint_cross_nic(struct lint_run *r)
{
    if (nccl_env_of(r->hw, "NCCL_CROSS_NIC") && nccl_env_int(r->hw, "NCCL_CROSS_NIC", 2) != 0 &&
        ports_isolated_rails(r->hw, &r->choice))
        lint_add(r, "NCCL_CROSS_NIC", NCCL_WARN, "Set it to 0.",
                 "The RDMA ports are in several subnets, and none leads to another: a ring that "
                 "crosses from one to another cannot connect.");
}

static void lint_merge_vfs(struct lint_run *r)
{
    const struct nccl_choice *c = &r->choice;

    for (size_t i = 0; nccl_env_of(r->hw, "NCCL_IB_MERGE_VFS") && i < c->ports_count; i++)
        if (c->ports[i].picked && level_nic_apart(r->hw, c->ports[i].dev)) {
            if (!hw_nccl_topo_used(r->hw))
                lint_add(r, "NCCL_IB_MERGE_VFS", NCCL_WARN, "Set it to 0.",
                         "NCCL looks for %s at device 0, function 0 of its bus, finds nothing "
                         "there, and takes it for a NIC at its first CPU.",
                         c->ports[i].dev);
            else
                lint_add(
                    r, "NCCL_IB_MERGE_VFS", NCCL_WARN, "Set it to 0.",
                    "NCCL does not find %s in the topology file %s, which names it by its own PCI "
                    "address, and takes it for a NIC at the CPU.",
                    c->ports[i].dev, r->hw->nccl.topo_file);
            return;
        }
}

/* Why no other node can be reached as it is, where one can without the variable; NULL: no. */
static const char *family_fault(struct lint_run *r)
{
    struct arena a = { 0 };
    struct nccl_choice c = { 0 };
    const char *fault = NULL;

    if (r->choice.socket_bad) {
        nccl_choose_without(r->hw, "NCCL_SOCKET_FAMILY", &a, &c);
        fault = c.socket_bad ? NULL : r->choice.socket_bad;
    }
    nccl_choice_release(&c);
    arena_release(&a);
    return fault;
}

/* Held against what the interfaces have. */
static void lint_family(struct lint_run *r)
{
    const char *family = nccl_env_of(r->hw, "NCCL_SOCKET_FAMILY");
    const struct nccl_choice *c = &r->choice;
    const struct hw_net *n = c->socket_if ? hw_find_net(r->hw, c->socket_if) : NULL;

    if (!family)
        return;
    if (!str_eq(family, "AF_INET") && !str_eq(family, "AF_INET6"))
        lint_add(
            r, "NCCL_SOCKET_FAMILY", NCCL_WARN, "Use AF_INET or AF_INET6, or unset it.",
            "NCCL knows AF_INET and AF_INET6 alone and ignores this: both families stay allowed.");
    else if (str_eq(c->stop_var, "NCCL_SOCKET_FAMILY"))
        lint_add(r, "NCCL_SOCKET_FAMILY", NCCL_ERROR, "Unset it.", "%s", c->stop_why);
    else if (n && c->socket_addr && !iface_addr_leaves(c->socket_addr) && iface_leaves(n) &&
             !maybe_is(n->running, 0))
        lint_add(r, "NCCL_SOCKET_FAMILY", NCCL_WARN,
                 "Unset it, or give the interface an address of that family that can be routed.",
                 "With it NCCL starts over %s %s, which is link-local: other nodes cannot be "
                 "counted on to reach it.",
                 c->socket_if, c->socket_addr);
    else if (family_fault(r))
        lint_add(r, "NCCL_SOCKET_FAMILY", NCCL_WARN,
                 "Unset it, or give the interface to the other nodes an address of that family.",
                 "With it NCCL starts over %s, and no other node can be reached by it: %s.",
                 c->socket_if, c->socket_bad);
}

/* Whether what stands behind the host is a port: 1 to 65535. */
static bool comm_id_has_port(const char *id)
{
    const char *at = *id == '[' ? strchr(id, ']') : id;
    int64_t port;

    at = at ? strchr(at, ':') : NULL;
    return at && str_to_i64(at + 1, 10, &port) && port > 0 && port < 65536;
}

static void lint_comm_id(struct lint_run *r)
{
    const char *id = hw_env_get(r->hw, "NCCL_COMM_ID");
    const struct nccl_choice *c = &r->choice;
    static const char form[] = "Write it as ADDRESS:PORT or [IPv6 ADDRESS]:PORT, or unset it.";

    if (!id)
        return;
    if (str_eq(c->stop_var, "NCCL_COMM_ID"))
        lint_add(r, "NCCL_COMM_ID", NCCL_ERROR,
                 "Give the address that the first node has in a subnet of all nodes, as "
                 "ADDRESS:PORT, or unset it.",
                 "%s", c->stop_why);
    else if (*id && *id != '[' && strchr(id, ':') != strrchr(id, ':'))
        lint_add(r, "NCCL_COMM_ID", NCCL_ERROR, form,
                 "NCCL ends the host at the first colon, and looks '%.*s' up.",
                 (int)strcspn(id, ":"), id);
    else if (*id && !comm_id_has_port(id))
        lint_add(r, "NCCL_COMM_ID", NCCL_ERROR, form,
                 "It has no port that the nodes could meet at.");
    else if (str_eq(c->socket_if, "lo"))
        lint_add(r, "NCCL_COMM_ID", NCCL_WARN,
                 "Give the address that the first node has in a subnet of all nodes.",
                 "NCCL starts over the loopback: a job of several machines cannot start by it.");
}

static void lint_topo_file(struct lint_run *r)
{
    if (hw_nccl_topo_unheld(r->hw))
        lint_add(
            r, "NCCL_TOPO_FILE", NCCL_WARN,
            "See that the job finds the file: ask on the machine itself, or in its container.",
            "The capture or inventory does not hold the file.  Where the machine has none either, "
            "NCCL goes on without an error, by the distances that the machine shows.");
    else if (hw_nccl_topo_missing(r->hw) && nccl_env_of(r->hw, "NCCL_TOPO_FILE"))
        lint_add(r, "NCCL_TOPO_FILE", NCCL_WARN,
                 "Correct the path (Azure: ndv4-topo.xml for A100, ndv5-topo.xml for H100), or "
                 "unset it.  Where only the job's container has the file, ask there.",
                 "The file is not followed, since %s.  NCCL goes on without an error, by the "
                 "distances that the machine shows.",
                 r->hw->nccl.topo_error);
    else if (hw_nccl_topo_refused(r->hw) && nccl_env_of(r->hw, "NCCL_TOPO_FILE"))
        lint_add(r, "NCCL_TOPO_FILE", NCCL_ERROR, "Mend the file, or unset it.", "Of this file %s.",
                 r->hw->nccl.topo_error);
    else if (hw_nccl_topo_foreign(r->hw) && nccl_env_of(r->hw, "NCCL_TOPO_FILE"))
        lint_add(r, "NCCL_TOPO_FILE", NCCL_WARN,
                 "Name the file of this kind of machine (Azure: ndv4-topo.xml for A100, "
                 "ndv5-topo.xml for H100), or unset it.",
                 "It names no two devices of this machine: NCCL goes by the distances that the "
                 "machine shows.");
}

void lint_sockets(struct lint_run *r)
{
    lint_topo_file(r);
    lint_family(r);
    lint_comm_id(r);
    lint_ifname(r);
    lint_ifname_cost(r);
    lint_cross_nic(r);
    lint_merge_vfs(r);
}
