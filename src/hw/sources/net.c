/* SPDX-License-Identifier: MIT */
/* net: network interfaces and routes of this network namespace.
 *
 * Interfaces come from /sys/class/net (in a pod: those of the pod only), their
 * addresses and flags from the system calls that syscalls.c keeps, routes from
 * /proc/net.  What an interface is ("kind") has no one file: the rules stand in
 * kind_of(), surest first.  Speed reads as -1 or an error on interfaces that are down
 * or have none; that is unknown, not zero. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <assert.h>

enum {
    NET_IFS_MAX = 512,
    NET_NAME_MAX = 15,   /* IFNAMSIZ without its end */
    NET_ADDRS_MAX = 256, /* addresses of one interface */
    NET_ROUTES_MAX = 1024,
    NET_LINE_MAX = 256,                                 /* a line of /proc/net/route is 128 */
    NET_FILE_MAX = (NET_ROUTES_MAX + 1) * NET_LINE_MAX, /* what is read of a route file */
    NET_WORDS_MAX = 16,
    NET_SPEED_MAX = 100000000, /* Mb/s; unsigned -1 of old kernels is above it */
    NET_UEVENT_MAX = 1024,
    ARPHRD_INFINIBAND_ = 32,
    ARPHRD_LOOPBACK_ = 772,
    IFF_UP_ = 1
};

/* route flags, the same numbers in both families */
enum { RTF_UP_ = 0x1, RTF_REJECT_ = 0x200, RTF_ANYCAST_ = 0x100000, RTF_CACHE_ = 0x1000000 };
static const uint64_t RTF_LOCAL_ = 0x80000000;

/* ---- interfaces ---- */

/* DEVTYPE of the uevent file: "vlan", "wireguard", "macvlan", …; NULL: none. */
static const char *net_devtype(struct hw_build *b, const char *name)
{
    char path[ROOT_PATH_MAX], text[NET_UEVENT_MAX];
    char *at, *end;

    if (snprintf(path, sizeof(path), "/sys/class/net/%s/uevent", name) >= (int)sizeof(path) ||
        root_read(b->root, path, text, sizeof(text)) <= 0)
        return NULL;
    at = strstr(text, "DEVTYPE=");
    if (!at || (at != text && at[-1] != '\n'))
        return NULL;
    at += strlen("DEVTYPE=");
    end = at + strcspn(at, "\n");
    if (*end != '\n' || end == at) /* an unfinished line was cut */
        return NULL;
    *end = '\0';
    str_make_text(at);
    return arena_strdup(b->a, at);
}

/* For interfaces with no device below and no DEVTYPE. */
static const char *kind_of_virtual(struct hw_build *b, const char *name, struct maybe ifindex)
{
    struct maybe iflink = root_int(b->root, "/sys/class/net/%s/iflink", name);

    if (root_exists(b->root, "/proc/net/vlan/%s", name))
        return "vlan";
    if (str_starts(name, "dummy"))
        return "dummy";
    if (str_starts(name, "veth"))
        return "veth";
    /* A veth's link is its peer, here or in another namespace; a tunnel's is none (0). */
    if (iflink.known && ifindex.known && iflink.v > 0 && iflink.v != ifindex.v)
        return "veth";
    return "virtual";
}

static const char *kind_of(struct hw_build *b, const char *name, struct maybe ifindex)
{
    struct maybe type = root_int(b->root, "/sys/class/net/%s/type", name);
    const char *dev;

    if (maybe_is(type, ARPHRD_LOOPBACK_))
        return "loopback";
    if (maybe_is(type, ARPHRD_INFINIBAND_))
        return "infiniband";
    if (root_exists(b->root, "/sys/class/net/%s/bonding", name))
        return "bond";
    if (root_exists(b->root, "/sys/class/net/%s/bridge", name))
        return "bridge";
    if (root_exists(b->root, "/sys/class/net/%s/tun_flags", name))
        return "tun";
    dev = net_devtype(b, name);
    if (root_exists(b->root, "/sys/class/net/%s/device", name))
        return str_eq(dev, "vlan") ? dev : "physical";
    return dev ? dev : kind_of_virtual(b, name, ifindex);
}

static void fill_device(struct hw_build *b, struct hw_net *n)
{
    char link[ROOT_PATH_MAX], real[ROOT_PATH_MAX];
    const struct hw_pci *p;

    if (snprintf(link, sizeof(link), "/sys/class/net/%s/device", n->name) >= (int)sizeof(link) ||
        root_real(b->root, link, real, sizeof(real)) < 0)
        return;
    n->driver = root_link_name(b->root, b->a, "%s/driver", real);
    n->physfn = hw_physfn_of(b, real);
    n->numa = root_int(b->root, "%s/numa_node", real);
    n->bdf = hw_bdf_of_path(b->a, real);
    p = n->bdf ? hw_find_pci(b->hw, n->bdf) : NULL;
    if (!n->numa.known && p)
        n->numa = p->numa; /* virtio: the function above the device knows it */
    if (n->numa.known && n->numa.v < 0)
        n->numa = maybe_none();
}

/* Flags and addresses that the system calls gave. */
static void fill_self(struct hw_build *b, struct hw_net *n)
{
    const struct hw_self *s = &b->self;
    size_t count = 0;

    for (size_t i = 0; i < s->ifs_count; i++)
        if (str_eq(s->ifs[i].name, n->name)) {
            n->up = s->ifs[i].up;
            n->running = s->ifs[i].running;
        }
    if (!n->up.known) {
        struct maybe flags = root_int(b->root, "/sys/class/net/%s/flags", n->name);
        if (flags.known)
            n->up = maybe_of((flags.v & IFF_UP_) != 0);
    }
    for (size_t i = 0; i < s->addrs_count; i++)
        count += str_eq(s->addrs[i].ifname, n->name);
    if (count == 0)
        return;
    n->addrs = arena_array(b->a, struct hw_addr, count < NET_ADDRS_MAX ? count : NET_ADDRS_MAX);
    for (size_t i = 0; i < s->addrs_count && n->addrs_count < NET_ADDRS_MAX; i++)
        if (str_eq(s->addrs[i].ifname, n->name))
            n->addrs[n->addrs_count++] = (struct hw_addr){ .family = s->addrs[i].family,
                                                           .addr = s->addrs[i].addr,
                                                           .prefix = s->addrs[i].prefix };
}

/* Whether the kernel would give an interface that name (no white space, no ':') and it
 * is text: names end up in variables and commands. */
static bool name_is_sane(const char *s)
{
    size_t len = strlen(s);

    return len > 0 && len <= NET_NAME_MAX && str_is_text(s, len) && !strpbrk(s, " \t\n:/");
}

/* False when the name is no interface ("bonding_masters" is a file beside them). */
static bool fill_if(struct hw_build *b, const char *name, struct hw_net *n)
{
    struct maybe speed;

    n->name = name;
    n->ifindex = root_int(b->root, "/sys/class/net/%s/ifindex", name);
    n->mtu = root_int(b->root, "/sys/class/net/%s/mtu", name);
    n->operstate = root_str(b->root, b->a, "/sys/class/net/%s/operstate", name);
    if (!n->ifindex.known && !n->mtu.known && !n->operstate)
        return false;
    n->mac = root_str(b->root, b->a, "/sys/class/net/%s/address", name);
    speed = root_int(b->root, "/sys/class/net/%s/speed", name);
    if (speed.known && speed.v > 0 && speed.v <= NET_SPEED_MAX)
        n->speed_mbps = speed;
    n->kind = kind_of(b, name, n->ifindex);
    n->master = root_link_name(b->root, b->a, "/sys/class/net/%s/master", name);
    fill_device(b, n);
    fill_self(b, n);
    return true;
}

/* ---- routes ---- */

struct route_list {
    struct hw_route *items; /* heap until complete */
    size_t count, cap;
    bool cut;
};

/* Cuts a line at white space, in place; words beyond NET_WORDS_MAX are left out. */
static size_t line_split(char *line, char *words[NET_WORDS_MAX])
{
    size_t n = 0;

    while (n < NET_WORDS_MAX) {
        line += strspn(line, " \t");
        if (!*line)
            break;
        words[n++] = line;
        line += strcspn(line, " \t");
        if (*line)
            *line++ = '\0';
    }
    return n;
}

/* A 32-bit number that the kernel prints as %08X of network order: bytes as in memory. */
static bool hex_to_ip4(const char *hex, unsigned char out[4])
{
    uint64_t v;

    if (!str_to_u64(hex, 16, &v) || v > UINT32_MAX)
        return false;
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(v >> (8 * i));
    return true;
}

static bool hex_to_ip6(const char *hex, unsigned char out[16])
{
    char two[3] = "";
    uint64_t v;

    if (strlen(hex) != 32)
        return false;
    for (int i = 0; i < 16; i++) {
        memcpy(two, hex + (size_t)2 * (size_t)i, 2);
        if (!str_to_u64(two, 16, &v))
            return false;
        out[i] = (unsigned char)v;
    }
    return true;
}

static bool is_zero(const unsigned char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i])
            return false;
    return true;
}

static const char *ip_text(struct arena *a, int family, const unsigned char *ip)
{
    char text[INET6_ADDRSTRLEN];

    return inet_ntop(family, ip, text, sizeof(text)) ? arena_strdup(a, text) : NULL;
}

/* Ones at the front of a mask; unknown when there are ones behind a zero. */
static struct maybe mask_prefix(const unsigned char mask[4])
{
    uint32_t m = (uint32_t)mask[0] << 24 | (uint32_t)mask[1] << 16 | (uint32_t)mask[2] << 8 |
                 (uint32_t)mask[3];
    int n = __builtin_popcount(m);
    uint32_t want = n == 0 ? 0 : UINT32_MAX << (32 - n);

    return m == want ? maybe_of(n) : maybe_none();
}

/* "Iface Destination Gateway Flags RefCnt Use Metric Mask …"; the heading has no flags. */
static bool ipv4_route(struct arena *a, char *line, struct hw_route *out)
{
    char *w[NET_WORDS_MAX];
    unsigned char dst[4], gw[4], mask[4];
    uint64_t flags;

    if (line_split(line, w) < 8 || !str_to_u64(w[3], 16, &flags) || !(flags & RTF_UP_) ||
        (flags & RTF_REJECT_) || !hex_to_ip4(w[1], dst) || !hex_to_ip4(w[2], gw) ||
        !hex_to_ip4(w[7], mask) || !name_is_sane(w[0]))
        return false;
    *out = (struct hw_route){ .family = "inet",
                              .dst = ip_text(a, AF_INET, dst),
                              .prefix = mask_prefix(mask),
                              .gateway = is_zero(gw, 4) ? NULL : ip_text(a, AF_INET, gw),
                              .dev = arena_strdup(a, w[0]),
                              .metric = str_to_maybe(w[6]) };
    return true;
}

/* "dst plen src plen via metric refs use flags dev", all hexadecimal.  The kernel's own
 * entries (local, anycast, multicast, unreachable) are no way to anywhere. */
static bool ipv6_route(struct arena *a, char *line, struct hw_route *out)
{
    char *w[NET_WORDS_MAX];
    unsigned char dst[16], gw[16];
    uint64_t flags, plen, metric;

    if (line_split(line, w) < 10 || !hex_to_ip6(w[0], dst) || !str_to_u64(w[1], 16, &plen) ||
        plen > 128 || !hex_to_ip6(w[4], gw) || !str_to_u64(w[5], 16, &metric) ||
        metric > UINT32_MAX || !str_to_u64(w[8], 16, &flags))
        return false;
    if (!(flags & RTF_UP_) || (flags & (RTF_REJECT_ | RTF_ANYCAST_ | RTF_CACHE_)) ||
        (flags & RTF_LOCAL_) || dst[0] == 0xff || str_eq(w[9], "lo") || !name_is_sane(w[9]))
        return false;
    *out = (struct hw_route){ .family = "inet6",
                              .dst = ip_text(a, AF_INET6, dst),
                              .prefix = maybe_of((int64_t)plen),
                              .gateway = is_zero(gw, 16) ? NULL : ip_text(a, AF_INET6, gw),
                              .dev = arena_strdup(a, w[9]),
                              .metric = maybe_of((int64_t)metric) };
    return true;
}

/* False when the file could not be read.  A last line without its end was cut. */
static bool read_routes(struct hw_build *b, const char *path, struct route_list *l,
                        bool (*parse)(struct arena *, char *, struct hw_route *))
{
    char *text = xmalloc(NET_FILE_MAX);
    ssize_t n = root_read(b->root, path, text, NET_FILE_MAX);
    char *line = text, *end;

    for (; n > 0 && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        struct hw_route r;
        *end = '\0';
        if (!parse(b->a, line, &r))
            continue;
        if (l->count == NET_ROUTES_MAX) {
            l->cut = true;
            break;
        }
        VEC_GROW(l->items, l->count, l->cap);
        l->items[l->count++] = r;
    }
    if (n == NET_FILE_MAX - 1)
        l->cut = true;
    free(text);
    return n >= 0;
}

static bool is_default(const struct hw_route *r, const char *family)
{
    return str_eq(r->family, family) && maybe_is(r->prefix, 0);
}

/* The lowest metric among the default routes of a family; unknown when it has none. */
static struct maybe default_metric(const struct hw *hw, const char *family)
{
    struct maybe best = maybe_none();

    FOR_EACH(const struct hw_route, r, hw->routes) {
        int64_t metric = maybe_or(r->metric, 0);
        if (is_default(r, family) && (!best.known || metric < best.v))
            best = maybe_of(metric);
    }
    return best;
}

/* IPv4 decides; IPv6 only where IPv4 has no default. */
static void mark_defaults(struct hw *hw)
{
    const char *family = "inet";
    struct maybe best = default_metric(hw, family);

    if (!best.known) {
        family = "inet6";
        best = default_metric(hw, family);
    }
    for (size_t i = 0; i < hw->nets_count; i++) {
        hw->nets[i].default_route = maybe_of(0);
        for (size_t k = 0; k < hw->routes_count; k++)
            if (is_default(&hw->routes[k], family) &&
                maybe_or(hw->routes[k].metric, 0) == maybe_or(best, -1) &&
                str_eq(hw->routes[k].dev, hw->nets[i].name))
                hw->nets[i].default_route = maybe_of(1);
    }
}

/* ---- which interfaces, where there are too many ---- */

enum { RANK_WAY, RANK_ADDRESS, RANK_REST, RANKS }; /* kept first to last */

static bool has_gateway(const struct route_list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++)
        if (str_eq(l->items[i].dev, name) &&
            (l->items[i].gateway || maybe_is(l->items[i].prefix, 0)))
            return true;
    return false;
}

/* A machine of many containers has hundreds of ends of cables into them, each with a link-local
 * address and perhaps a route to one address: the machine's own ways come first. */
static int rank_of(struct hw_build *b, const struct route_list *l, const char *name)
{
    const struct hw_self *s = &b->self;

    if (has_gateway(l, name) || root_exists(b->root, "/sys/class/net/%s/device", name))
        return RANK_WAY;
    for (size_t i = 0; i < s->addrs_count; i++)
        if (str_eq(s->addrs[i].ifname, name) && s->addrs[i].addr &&
            !hw_addr_is_link_local(s->addrs[i].addr))
            return RANK_ADDRESS;
    return RANK_REST;
}

/* For each name: is there room for it?  The caller frees it. */
static bool *names_kept(struct hw_build *b, const struct route_list *l,
                        const struct root_names *names)
{
    bool *keep = xcalloc(names->count + 1, sizeof(*keep));
    size_t room = NET_IFS_MAX;

    for (int rank = 0; rank < RANKS; rank++)
        for (size_t i = 0; i < names->count && room; i++)
            if (names->count <= NET_IFS_MAX ||
                (name_is_sane(names->items[i]) && rank_of(b, l, names->items[i]) == rank)) {
                room -= !keep[i];
                keep[i] = true;
            }
    return keep;
}

static void read_ifs(struct hw_build *b, const struct route_list *routes)
{
    struct root_names names = { 0 };
    struct hw *hw = b->hw;
    size_t odd = 0;
    bool *keep;
    int rc = root_list(b->root, b->a, "/sys/class/net", &names);

    if (rc < 0) {
        hw_note_add(b, "net", "could not list '/sys/class/net': %s", strerror(-rc));
        return;
    }
    hw->nets =
        arena_array(b->a, struct hw_net, names.count < NET_IFS_MAX ? names.count : NET_IFS_MAX);
    keep = names_kept(b, routes, &names);
    for (size_t i = 0; i < names.count && hw->nets_count < NET_IFS_MAX; i++) {
        struct hw_net n = { 0 };
        if (!name_is_sane(names.items[i]))
            odd++;
        else if (keep[i] && fill_if(b, names.items[i], &n))
            hw->nets[hw->nets_count++] = n;
    }
    if (odd > 0)
        hw_note_add(b, "net", "%zu names in '/sys/class/net' are no interface names", odd);
    if (names.count > NET_IFS_MAX)
        hw_note_add(b, "net",
                    "more than %d interfaces: those with a gateway, a device or an address are "
                    "kept first, the rest is left out",
                    NET_IFS_MAX);
    free(keep);
}

/* Tables beside "Main:" and "Local:" are "Id 101:"; a route by a gateway is of the scope
 * "universe", one on link is not. */
static void count_tables(struct hw_build *b)
{
    char *text = xmalloc(NET_FILE_MAX);
    ssize_t n = root_read(b->root, "/proc/net/fib_trie", text, NET_FILE_MAX);
    int64_t count = 0;
    bool other = false;

    for (char *line = text, *end; n > 0 && (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        if (*line && *line != ' ') {
            other = str_starts(line, "Id ");
        } else if (other && strstr(line, " universe UNICAST")) {
            count++;
            other = false; /* the rest of this table adds nothing */
        }
    }
    if (n >= 0)
        b->hw->route_tables = maybe_of(count);
    free(text);
}

void hw_src_net(struct hw_build *b)
{
    struct route_list l = { 0 };
    bool told;

    told = read_routes(b, "/proc/net/route", &l, ipv4_route);
    told = read_routes(b, "/proc/net/ipv6_route", &l, ipv6_route) || told;
    count_tables(b);
    read_ifs(b, &l);
    if (!told)
        hw_note_add(b, "net", "could not read the routes below '/proc/net'");
    if (l.cut)
        hw_note_add(b, "net", "more than %d routes, the rest is left out", NET_ROUTES_MAX);
    if (l.count > 0) {
        b->hw->routes = arena_memdup(b->a, l.items, l.count * sizeof(*l.items));
        b->hw->routes_count = l.count;
    }
    if (told)
        mark_defaults(b->hw);
    assert(b->hw->nets_count <= NET_IFS_MAX && b->hw->routes_count <= NET_ROUTES_MAX);
    free(l.items);
}
