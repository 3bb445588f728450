/* SPDX-License-Identifier: MIT */
/* rdma: RDMA devices, their ports and GIDs, from /sys/class/infiniband.
 *
 * Every device is in the inventory, also those that are down or serve storage: which
 * of them a job may use is decided elsewhere, from state, rate and link layer.
 *
 * A GID table has up to 256 slots and most are empty.  An empty slot reads as zeros
 * (or as a bare fe80::), and the type of an empty slot fails with EINVAL, so the GID
 * is read first and the rest of the slot only when it holds one.
 *
 * Which network device belongs to which RDMA device is told in two places:
 *   1. device/net lists those of the same PCI function, in this namespace;
 *   2. gid_attrs/ndevs names the one a GID came from (VLAN, bond, macvlan, a virtual
 *      function moved into a pod).  That name is of the namespace the interface is in,
 *      which may not be ours: a shared adapter's table lists "net1" of every pod on
 *      it, and "eth0" of the host is not "eth0" of a pod.  It counts when an interface
 *      here has that name and either the same PCI function or, lacking one, the
 *      address the GID is made of;
 *   3. a child of an IPoIB interface (a partition of the fabric, ib0.8001) has no function
 *      and no GID: its file parent, or where ip(8) made it its iflink, names the one it is on.
 * Adapters with no such tables (EFA) keep their fields unknown. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <assert.h>

enum {
    RDMA_DEVS_MAX = 512,
    RDMA_PORTS_MAX = 16,
    RDMA_GIDS_MAX = 256,      /* GIDs kept of one port */
    RDMA_SLOTS_MAX = 1024,    /* slots looked at in one port's table */
    RDMA_NETDEVS_MAX = 64,    /* of one device */
    RDMA_LINE_MAX = 128,      /* a GID, a type or a name */
    RDMA_NAME_MAX = 63,       /* the kernel's own limit */
    RDMA_PORT_MAX = 255,      /* number of a port */
    RDMA_RATE_MAX = 10000000, /* megabits a second */
    BDF_SLOT_LEN = 4          /* "00.0", the end of a PCI address */
};

struct netdev_names { /* of network devices, no name twice */
    const char *items[RDMA_NETDEVS_MAX];
    size_t count;
};

/* ---- small texts ---- */

/* A file's line, cut at RDMA_LINE_MAX; NULL when missing or empty. */
static const char *rdma_attr(struct hw_build *b, const char *dir, const char *name)
{
    char line[RDMA_LINE_MAX];

    return root_line(b->root, line, sizeof(line), "%s/%s", dir, name) > 0 ? arena_strdup(b->a, line)
                                                                          : NULL;
}

/* Whether a device can have that name: it ends up in variables and commands. */
static bool name_is_sane(const char *s)
{
    size_t len = strlen(s);

    for (const char *p = s; *p; p++)
        if (*p <= ' ' || *p > '~')
            return false;
    return len > 0 && len <= RDMA_NAME_MAX;
}

/* "4: ACTIVE" gives "ACTIVE". */
static const char *after_number(const char *s)
{
    const char *colon = s ? strchr(s, ':') : NULL;

    if (!colon || colon == s || strspn(s, "0123456789") != (size_t)(colon - s))
        return s;
    colon++;
    colon += strspn(colon, " ");
    return *colon ? colon : NULL;
}

/* "400 Gb/sec (4X NDR)" is 400000, "2.5 Gb/sec (1X SDR)" is 2500. */
static struct maybe rate_mbps(const char *rate)
{
    char number[32];
    size_t len = rate ? strcspn(rate, " ") : 0;
    double gbps;

    if (len == 0 || len >= sizeof(number) || !str_starts(rate + len, " Gb/sec"))
        return maybe_none();
    memcpy(number, rate, len);
    number[len] = '\0';
    if (!str_to_f64(number, &gbps) || gbps <= 0 || gbps * 1000 > RDMA_RATE_MAX)
        return maybe_none();
    return maybe_of((int64_t)(gbps * 1000 + 0.5));
}

/* The sixteen bytes of "0000:0000:0000:0000:0000:ffff:0a00:0001". */
static bool gid_bytes(const char *s, unsigned char out[16])
{
    return strlen(s) == 39 && inet_pton(AF_INET6, s, out) == 1;
}

/* All zero, or the link-local prefix with no interface behind it. */
static bool gid_is_empty(const unsigned char g[16])
{
    static const unsigned char zero[16], bare[16] = { 0xfe, 0x80 };

    return memcmp(g, zero, 16) == 0 || memcmp(g, bare, 16) == 0;
}

/* ---- whose network device ---- */

static struct hw_net *net_find(struct hw *hw, const char *name)
{
    for (size_t i = 0; i < hw->nets_count; i++)
        if (str_eq(hw->nets[i].name, name))
            return &hw->nets[i];
    return NULL;
}

static bool addr_is_gid(const char *addr, const unsigned char g[16])
{
    static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
    unsigned char ip[16];

    if (!addr)
        return false;
    if (memcmp(g, mapped, sizeof(mapped)) == 0)
        return inet_pton(AF_INET, addr, ip) == 1 && memcmp(ip, g + 12, 4) == 0;
    return inet_pton(AF_INET6, addr, ip) == 1 && memcmp(ip, g, 16) == 0;
}

/* The default GIDs are fe80:: and the hardware address with ff:fe in the middle, also
 * where the interface makes its own link-local address another way. */
static bool mac_is_gid(const char *mac, const unsigned char g[16])
{
    char want[sizeof("00:00:00:00:00:00")];

    if (!mac || g[0] != 0xfe || g[1] != 0x80 || g[11] != 0xff || g[12] != 0xfe)
        return false;
    (void)snprintf(want, sizeof(want), "%02x:%02x:%02x:%02x:%02x:%02x", g[8] ^ 2U, g[9], g[10],
                   g[13], g[14], g[15]);
    return str_eq(mac, want);
}

static bool net_has_gid(const struct hw_net *n, const unsigned char g[16])
{
    for (size_t i = 0; i < n->addrs_count; i++)
        if (addr_is_gid(n->addrs[i].addr, g))
            return true;
    return mac_is_gid(n->mac, g);
}

/* Whether an interface of this namespace is the one that a GID of `r` names. */
static bool net_is_of(const struct hw_net *n, const struct hw_rdma *r, const unsigned char g[16])
{
    static const char *const stacked[] = { "vlan", "macvlan", "ipvlan", "bond" };

    if (n->bdf && r->bdf)
        return str_eq(n->bdf, r->bdf);
    if (n->addrs_count > 0 || !r->bdf)
        return net_has_gid(n, g);
    for (size_t i = 0; i < ARRAY_SIZE(stacked); i++)
        if (str_eq(n->kind, stacked[i]))
            return true;
    return false;
}

static void names_add(struct netdev_names *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (str_eq(l->items[i], name))
            return;
    if (l->count < RDMA_NETDEVS_MAX)
        l->items[l->count++] = name;
}

/* Those of the same function.  In a pod the directory may be missing or empty, while
 * the interface's own device link still leads here. */
static void names_by_function(struct hw_build *b, const char *dir, const struct hw_rdma *r,
                              struct netdev_names *l)
{
    char path[ROOT_PATH_MAX];
    struct root_names names = { 0 };

    if (snprintf(path, sizeof(path), "%s/device/net", dir) < (int)sizeof(path) &&
        root_list(b->root, b->a, path, &names) >= 0)
        for (size_t i = 0; i < names.count; i++)
            if (name_is_sane(names.items[i]))
                names_add(l, names.items[i]);
    for (size_t i = 0; r->bdf && l->count == 0 && i < b->hw->nets_count; i++)
        if (str_eq(b->hw->nets[i].bdf, r->bdf))
            names_add(l, b->hw->nets[i].name);
}

/* The interface that an IPoIB child is on; NULL: it is no child, or not here. */
static const struct hw_net *net_parent(struct hw_build *b, const struct hw_net *n)
{
    char name[RDMA_LINE_MAX];
    struct maybe link;

    if (n->bdf || !str_eq(n->kind, "infiniband"))
        return NULL;
    if (root_line(b->root, name, sizeof(name), "/sys/class/net/%s/parent", n->name) > 0)
        return net_find(b->hw, name);
    link = root_int(b->root, "/sys/class/net/%s/iflink", n->name);
    for (size_t i = 0; link.known && i < b->hw->nets_count; i++)
        if (&b->hw->nets[i] != n && maybe_is(b->hw->nets[i].ifindex, link.v))
            return &b->hw->nets[i];
    return NULL;
}

/* The children of the interfaces that are in the list. */
static void names_by_parent(struct hw_build *b, struct netdev_names *l)
{
    size_t own = l->count;

    for (size_t i = 0; i < b->hw->nets_count; i++) {
        const struct hw_net *up = net_parent(b, &b->hw->nets[i]);

        for (size_t k = 0; up && k < own; k++)
            if (str_eq(l->items[k], up->name))
                names_add(l, b->hw->nets[i].name);
    }
}

static void netdev_claim(struct hw *hw, const char *netdev, const char *rdma)
{
    struct hw_net *n = net_find(hw, netdev);

    if (n && !n->rdma)
        n->rdma = rdma;
}

/* ---- ports ---- */

/* One slot of the table; false when it is empty or unreadable. */
static bool fill_gid(struct hw_build *b, const char *port, const char *slot,
                     const struct hw_rdma *r, struct hw_gid *out)
{
    char text[RDMA_LINE_MAX], name[RDMA_LINE_MAX];
    unsigned char g[16];
    const struct hw_net *net;
    struct maybe index = str_to_maybe(slot);

    if (!index.known || index.v < 0 ||
        root_line(b->root, text, sizeof(text), "%s/gids/%s", port, slot) <= 0 ||
        !gid_bytes(text, g) || gid_is_empty(g))
        return false;
    *out = (struct hw_gid){ .index = index, .gid = arena_strdup(b->a, text) };
    out->type = root_str(b->root, b->a, "%s/gid_attrs/types/%s", port, slot);
    if (root_line(b->root, name, sizeof(name), "%s/gid_attrs/ndevs/%s", port, slot) > 0) {
        net = net_find(b->hw, name);
        if (net && net_is_of(net, r, g))
            out->ndev = net->name;
    }
    return true;
}

static void fill_gids(struct hw_build *b, const char *port, const struct hw_rdma *r,
                      struct hw_rdma_port *p)
{
    char path[ROOT_PATH_MAX];
    struct root_names slots = { 0 };
    struct hw_gid gids[RDMA_GIDS_MAX];
    size_t n = 0;

    if (snprintf(path, sizeof(path), "%s/gids", port) >= (int)sizeof(path) ||
        root_list(b->root, b->a, path, &slots) < 0)
        return;
    for (size_t i = 0; i < slots.count && i < RDMA_SLOTS_MAX && n < RDMA_GIDS_MAX; i++)
        n += fill_gid(b, port, slots.items[i], r, &gids[n]);
    if (n == 0)
        return;
    p->gids = arena_memdup(b->a, gids, n * sizeof(gids[0]));
    p->gids_count = n;
}

static const char *link_layer(struct hw_build *b, const char *port)
{
    const char *s = rdma_attr(b, port, "link_layer");

    return str_eq(s, "InfiniBand") || str_eq(s, "Ethernet") ? s : NULL;
}

static struct maybe port_number(const char *name)
{
    struct maybe n = str_to_maybe(name);

    return n.known && n.v >= 1 && n.v <= RDMA_PORT_MAX ? n : maybe_none();
}

static void fill_port(struct hw_build *b, const char *dir, const char *name,
                      const struct hw_rdma *r, struct hw_rdma_port *p)
{
    char port[ROOT_PATH_MAX];

    p->port = port_number(name);
    if (snprintf(port, sizeof(port), "%s/ports/%s", dir, name) >= (int)sizeof(port))
        return;
    p->state = after_number(rdma_attr(b, port, "state"));
    p->phys_state = after_number(rdma_attr(b, port, "phys_state"));
    p->link_layer = link_layer(b, port);
    p->rate = rdma_attr(b, port, "rate");
    p->rate_mbps = rate_mbps(p->rate);
    p->lid = root_int(b->root, "%s/lid", port);
    p->sm_lid = root_int(b->root, "%s/sm_lid", port);
    fill_gids(b, port, r, p);
}

static void fill_ports(struct hw_build *b, const char *dir, struct hw_rdma *r)
{
    char path[ROOT_PATH_MAX];
    struct root_names names = { 0 };

    if (snprintf(path, sizeof(path), "%s/ports", dir) >= (int)sizeof(path) ||
        root_list(b->root, b->a, path, &names) < 0)
        return;
    r->ports = arena_array(b->a, struct hw_rdma_port,
                           names.count < RDMA_PORTS_MAX ? names.count : RDMA_PORTS_MAX);
    for (size_t i = 0; i < names.count && r->ports_count < RDMA_PORTS_MAX; i++)
        if (port_number(names.items[i]).known)
            fill_port(b, dir, names.items[i], r, &r->ports[r->ports_count++]);
}

/* ---- devices ---- */

/* The function the device is on; nothing for software devices (rxe, siw). */
static void fill_function(struct hw_build *b, const char *dir, struct hw_rdma *r)
{
    char link[ROOT_PATH_MAX], real[ROOT_PATH_MAX];
    const struct hw_pci *p;

    if (snprintf(link, sizeof(link), "%s/device", dir) >= (int)sizeof(link) ||
        root_real(b->root, link, real, sizeof(real)) < 0)
        return;
    r->bdf = hw_bdf_of_path(b->a, real);
    r->driver = root_link_name(b->root, b->a, "%s/driver", real);
    r->physfn = hw_physfn_of(b, real);
    r->numa = root_int(b->root, "%s/numa_node", real);
    p = r->bdf ? hw_find_pci(b->hw, r->bdf) : NULL;
    if (!r->numa.known && p)
        r->numa = p->numa;
    if (r->numa.known && r->numa.v < 0)
        r->numa = maybe_none();
    if (r->bdf)
        r->vf = maybe_of(r->physfn != NULL);
    if (r->bdf && strlen(r->bdf) > BDF_SLOT_LEN) {
        int bus = (int)(strlen(r->bdf) - BDF_SLOT_LEN);

        r->bus_first = maybe_of(root_exists(b->root, "/sys/bus/pci/devices/%.*s00.0", bus, r->bdf));
    }
}

/* libibverbs passes over a device whose node is not in /dev/infiniband: a container has
 * those of its own devices only, while sysfs shows it all of the host's. */
static void fill_node(struct hw_build *b, const char *dir, struct hw_rdma *r)
{
    char verbs[ROOT_PATH_MAX];
    struct root_names names = { 0 };

    if (snprintf(verbs, sizeof(verbs), "%s/device/infiniband_verbs", dir) >= (int)sizeof(verbs) ||
        root_list(b->root, b->a, verbs, &names) < 0)
        return;
    for (size_t i = 0; i < names.count; i++) {
        bool here = root_exists(b->root, "/dev/infiniband/%s", names.items[i]);

        if (str_starts(names.items[i], "uverbs") && !maybe_is(r->openable, 1))
            r->openable = maybe_of(here);
    }
}

static void fill_dev(struct hw_build *b, const char *dir, struct hw_rdma *r)
{
    r->node_type = after_number(rdma_attr(b, dir, "node_type"));
    r->node_guid = rdma_attr(b, dir, "node_guid");
    r->sys_image_guid = rdma_attr(b, dir, "sys_image_guid");
    r->hca = rdma_attr(b, dir, "hca_type");
    r->board = rdma_attr(b, dir, "board_id");
    r->firmware = rdma_attr(b, dir, "fw_ver");
    fill_function(b, dir, r);
    fill_node(b, dir, r);
    fill_ports(b, dir, r);
}

/* The network devices of one device: by function, then those its GIDs name. */
static void fill_netdevs(struct hw_build *b, const char *dir, struct hw_rdma *r)
{
    struct netdev_names l = { .count = 0 };

    names_by_function(b, dir, r, &l);
    names_by_parent(b, &l);
    for (size_t i = 0; i < l.count; i++)
        netdev_claim(b->hw, l.items[i], r->name);
    for (size_t i = 0; i < r->ports_count; i++)
        for (size_t k = 0; k < r->ports[i].gids_count; k++)
            if (r->ports[i].gids[k].ndev)
                names_add(&l, r->ports[i].gids[k].ndev);
    if (l.count == 0)
        return;
    r->netdevs = arena_memdup(b->a, l.items, l.count * sizeof(l.items[0]));
    r->netdevs_count = l.count;
}

/* The device's directory with links resolved once, not again for each of its files. */
static void dev_dir(struct hw_build *b, const char *name, char *out, size_t cap)
{
    char link[ROOT_PATH_MAX];

    (void)snprintf(link, sizeof(link), "/sys/class/infiniband/%s", name);
    if (root_real(b->root, link, out, cap) < 0)
        (void)str_copy(out, cap, link);
}

/* The device names, those that can be none left out. */
static size_t dev_names(struct hw_build *b, const char *names[RDMA_DEVS_MAX])
{
    struct root_names all = { 0 };
    size_t n = 0, odd = 0;

    if (root_list(b->root, b->a, "/sys/class/infiniband", &all) < 0)
        return 0; /* no RDMA here is a fact, not a fault */
    for (size_t i = 0; i < all.count; i++)
        if (!name_is_sane(all.items[i]))
            odd++;
        else if (n < RDMA_DEVS_MAX)
            names[n++] = all.items[i];
    if (odd > 0)
        hw_note_add(b, "rdma", "%zu names in '/sys/class/infiniband' are no device names", odd);
    if (all.count - odd > n)
        hw_note_add(b, "rdma", "more than %d RDMA devices, the rest is left out", RDMA_DEVS_MAX);
    return n;
}

void hw_src_rdma(struct hw_build *b)
{
    const char *names[RDMA_DEVS_MAX];
    struct hw *hw = b->hw;
    char dir[ROOT_PATH_MAX];
    size_t count = dev_names(b, names);

    if (count == 0)
        return;
    hw->rdma = arena_array(b->a, struct hw_rdma, count);
    hw->rdma_count = count;
    for (size_t i = 0; i < count; i++) {
        hw->rdma[i].name = names[i];
        dev_dir(b, names[i], dir, sizeof(dir));
        fill_dev(b, dir, &hw->rdma[i]);
        fill_netdevs(b, dir, &hw->rdma[i]);
    }
    /* Last: a function's own device goes before one that a GID table names. */
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < hw->rdma[i].netdevs_count; k++)
            netdev_claim(hw, hw->rdma[i].netdevs[k], hw->rdma[i].name);
}
