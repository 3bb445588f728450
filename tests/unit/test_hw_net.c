/* SPDX-License-Identifier: MIT */
/* net.c: interfaces, what they are, and the routes. */
#include "hw_box.h"

#include "base/str.h"

static const struct hw_net *get(const struct box *x, const char *name)
{
    const struct hw_net *n = hw_find_net(&x->hw, name);

    assert_non_null(n);
    return n;
}

static void add_if(struct box *x, const char *name, const char *ifindex, const char *type)
{
    char dir[ROOT_PATH_MAX];

    (void)snprintf(dir, sizeof(dir), "/sys/class/net/%s", name);
    box_attr(x, dir, "ifindex", ifindex);
    box_attr(x, dir, "type", type);
    box_attr(x, dir, "mtu", "1500\n");
    box_attr(x, dir, "operstate", "up\n");
    box_attr(x, dir, "address", "02:00:00:00:00:01\n");
}

TEST(a_physical_interface)
{
    struct hw_self_addr addrs[] = {
        { .ifname = "eth0", .family = "inet", .addr = "10.0.0.7", .prefix = { 24, true } },
        { .ifname = "eth1", .family = "inet", .addr = "10.0.1.7", .prefix = { 24, true } },
        { .ifname = "eth0", .family = "inet6", .addr = "fe80::1", .prefix = { 64, true } },
    };
    struct hw_self_if ifs[] = { { .name = "eth0", .up = { 1, true }, .running = { 0, true } } };
    AUTO(box_release) struct box x;
    char fn[ROOT_PATH_MAX];
    const struct hw_net *n;

    box_init(&x);
    box_pci(&x, "pci0000:15/0000:15:01.0", "0000:1c:00.2", "0x15b3\n", "0x020000\n", fn);
    box_attr(&x, fn, "numa_node", "1\n");
    box_link(&x, "/sys/bus/pci/devices/0000:1c:00.2/driver", "../../bus/pci/drivers/mlx5_core");
    box_link(&x, "/sys/bus/pci/devices/0000:1c:00.2/physfn", "../0000:1c:00.0");
    add_if(&x, "eth0", "4\n", "1\n");
    box_file(&x, "/sys/class/net/eth0/speed", "400000\n");
    box_link(&x, "/sys/class/net/eth0/device", "../../../bus/pci/devices/0000:1c:00.2");
    x.b.self.addrs = addrs;
    x.b.self.addrs_count = ARRAY_SIZE(addrs);
    x.b.self.ifs = ifs;
    x.b.self.ifs_count = ARRAY_SIZE(ifs);
    BOX_PROBE(&x, hw_src_net);

    n = get(&x, "eth0");
    assert_string_equal(n->kind, "physical");
    assert_string_equal(n->driver, "mlx5_core");
    assert_string_equal(n->bdf, "0000:1c:00.2");
    assert_string_equal(n->physfn, "0000:1c:00.0");
    assert_string_equal(n->mac, "02:00:00:00:00:01");
    CHECK(maybe_is(n->ifindex, 4) && maybe_is(n->mtu, 1500) && maybe_is(n->speed_mbps, 400000));
    CHECK(maybe_is(n->numa, 1) && maybe_is(n->up, 1) && maybe_is(n->running, 0));
    assert_int_equal(n->addrs_count, 2);
    assert_string_equal(n->addrs[1].addr, "fe80::1");
    CHECK(!n->default_route.known); /* no route file was there */
}

/* virtio: the device is below the PCI function, which alone knows the NUMA node. */
TEST(a_virtio_interface)
{
    AUTO(box_release) struct box x;
    char fn[ROOT_PATH_MAX];

    box_init(&x);
    box_pci(&x, "pci0000:00", "0000:00:03.0", "0x1af4\n", "0x020000\n", fn);
    box_attr(&x, fn, "numa_node", "0\n");
    box_file(&x, "/sys/devices/pci0000:00/0000:00:03.0/virtio1/status", "0xf\n");
    box_link(&x, "/sys/devices/pci0000:00/0000:00:03.0/virtio1/driver", "../x/virtio_net");
    add_if(&x, "ens3", "2\n", "1\n");
    box_file(&x, "/sys/class/net/ens3/speed", "-1\n");
    box_file(&x, "/sys/class/net/ens3/flags", "0x1003\n");
    box_link(&x, "/sys/class/net/ens3/device", "../../../devices/pci0000:00/0000:00:03.0/virtio1");
    BOX_PROBE(&x, hw_src_pci, hw_src_net);
    assert_string_equal(get(&x, "ens3")->bdf, "0000:00:03.0");
    assert_string_equal(get(&x, "ens3")->driver, "virtio_net");
    CHECK(maybe_is(get(&x, "ens3")->numa, 0));
    CHECK(!get(&x, "ens3")->speed_mbps.known);
    CHECK(maybe_is(get(&x, "ens3")->up, 1) && !get(&x, "ens3")->running.known);
}

TEST(kinds)
{
    static const struct {
        const char *name, *type, *file, *text, *want;
    } rows[] = {
        { "lo", "772\n", NULL, NULL, "loopback" },
        { "ib0", "32\n", NULL, NULL, "infiniband" },
        { "bond0", "1\n", "bonding/slaves", "eth0 eth1\n", "bond" },
        { "br0", "1\n", "bridge/bridge_id", "8000\n", "bridge" },
        { "tap0", "1\n", "tun_flags", "0x1002\n", "tun" },
        { "eth0.7", "1\n", "uevent", "DEVTYPE=vlan\nINTERFACE=eth0.7\n", "vlan" },
        { "wg0", "65534\n", "uevent", "DEVTYPE=wireguard\nINTERFACE=wg0\n", "wireguard" },
        { "net1", "1\n", "uevent", "DEVTYPE=macvlan\nINTERFACE=net1\n", "macvlan" },
        { "flannel.1", "1\n", "uevent", "INTERFACE=flannel.1\nDEVTYPE=vxlan\n", "vxlan" },
        { "dummy0", "1\n", NULL, NULL, "dummy" },
        { "veth12ab", "1\n", NULL, NULL, "veth" },
        { "eth0", "1\n", "iflink", "37\n", "veth" },      /* a pod's end: its peer is outside */
        { "tunl0", "768\n", "iflink", "0\n", "virtual" }, /* a tunnel to nowhere in particular */
        { "odd0", "1\n", "uevent", "XDEVTYPE=vlan\n", "virtual" },
        { "odd1", "1\n", "uevent", "DEVTYPE=vlan", "virtual" }, /* the line has no end */
    };
    AUTO(box_release) struct box x;
    char dir[64];

    box_init(&x);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        add_if(&x, rows[i].name, "9\n", rows[i].type);
        (void)snprintf(dir, sizeof(dir), "/sys/class/net/%s", rows[i].name);
        if (rows[i].file)
            box_attr(&x, dir, rows[i].file, rows[i].text);
    }
    add_if(&x, "old.7", "9\n", "1\n");
    box_file(&x, "/proc/net/vlan/old.7", "old.7  VID: 7\n");
    box_file(&x, "/sys/class/net/bonding_masters", "bond0\n");
    BOX_PROBE(&x, hw_src_net);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_string_equal(get(&x, rows[i].name)->kind, rows[i].want);
    assert_string_equal(get(&x, "old.7")->kind, "vlan");
    assert_null(hw_find_net(&x.hw, "bonding_masters"));
}

TEST(speed_that_cannot_be_read)
{
    static const char *const texts[] = { "-1\n", "4294967295\n", "0\n", "fast\n", "" };
    AUTO(box_release) struct box x;
    char dir[64], name[16];

    box_init(&x);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        (void)snprintf(name, sizeof(name), "eth%zu", i);
        add_if(&x, name, "3\n", "1\n");
        (void)snprintf(dir, sizeof(dir), "/sys/class/net/%s", name);
        box_attr(&x, dir, "speed", texts[i]);
    }
    add_if(&x, "eth9", "3\n", "1\n"); /* the read fails with EINVAL while it is down */
    box_file(&x, "/sys/class/net/eth9/speed", "1000\n");
    box_file(&x, "/stoker/errors", "/sys/class/net/eth9/speed\t22\n");
    BOX_PROBE(&x, hw_src_net);
    assert_int_equal(x.hw.nets_count, 6);
    for (size_t i = 0; i < x.hw.nets_count; i++)
        CHECK(!x.hw.nets[i].speed_mbps.known);
}

static const char routes4[] =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT      \n"
    "eth1\t00000000\t0100000A\t0003\t0\t0\t200\t00000000\t0\t0\t0     \n"
    "eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0     \n"
    "net1\t0001640A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0     \n"
    "eth0\t0000A8C0\t00000000\t0001\t0\t0\t100\t0000FFFF\t0\t0\t0     \n"
    "*\t000064AC\t00000000\t0200\t0\t0\t0\t0000FFFF\t0\t0\t0     \n"
    "eth0\t0000A8C0\t00000000\t0000\t0\t0\t100\t0000FFFF\t0\t0\t0     \n"
    "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FF00FF\t0\t0\t0     \n"
    "eth0\tnonsense\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0     \n"
    "eth0\t00000000";

TEST(routes_of_ipv4)
{
    const struct hw_route *r;
    AUTO(box_release) struct box x;

    box_init(&x);
    add_if(&x, "eth0", "2\n", "1\n");
    add_if(&x, "eth1", "3\n", "1\n");
    add_if(&x, "net1", "4\n", "1\n");
    box_file(&x, "/proc/net/route", routes4);
    BOX_PROBE(&x, hw_src_net);
    assert_int_equal(x.hw.routes_count, 5);
    r = &x.hw.routes[1];
    assert_string_equal(r->family, "inet");
    assert_string_equal(r->dst, "0.0.0.0");
    assert_string_equal(r->gateway, "192.168.0.1");
    assert_string_equal(r->dev, "eth0");
    CHECK(maybe_is(r->prefix, 0) && maybe_is(r->metric, 100));
    r = &x.hw.routes[2];
    assert_string_equal(r->dst, "10.100.1.0");
    CHECK(maybe_is(r->prefix, 24) && r->gateway == NULL);
    CHECK(!x.hw.routes[4].prefix.known); /* a mask with a hole */
    /* the lower metric is the default; an isolated rail never is */
    CHECK(maybe_is(get(&x, "eth0")->default_route, 1));
    CHECK(maybe_is(get(&x, "eth1")->default_route, 0));
    CHECK(maybe_is(get(&x, "net1")->default_route, 0));
}

#define ZEROS "00000000000000000000000000000000"
static const char routes6[] =
    "20010db8000000000000000000000000 40 " ZEROS " 00 " ZEROS
    " 00000100 00000001 00000000 00000001     eth0\n" ZEROS " 00 " ZEROS
    " 00 fe800000000000000000000000000001 00000400 00000003 00000000 00000003     eth0\n"
    "fe800000000000000000000000000001 80 " ZEROS " 00 " ZEROS
    " 00000000 00000002 00000000 80200001     eth0\n"
    "ff000000000000000000000000000000 08 " ZEROS " 00 " ZEROS
    " 00000100 00000005 00000000 00000001     eth0\n" ZEROS " 00 " ZEROS " 00 " ZEROS
    " ffffffff 00000001 00000000 00200200       lo\n";

TEST(routes_of_ipv6)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    add_if(&x, "eth0", "2\n", "1\n");
    box_file(&x, "/proc/net/ipv6_route", routes6);
    BOX_PROBE(&x, hw_src_net);
    assert_int_equal(x.hw.routes_count, 2);
    assert_string_equal(x.hw.routes[0].dst, "2001:db8::");
    CHECK(maybe_is(x.hw.routes[0].prefix, 64) && maybe_is(x.hw.routes[0].metric, 256));
    assert_string_equal(x.hw.routes[1].gateway, "fe80::1");
    CHECK(maybe_is(get(&x, "eth0")->default_route, 1));
}

TEST(more_than_it_keeps)
{
    AUTO(box_release) struct box x;
    char name[32];
    struct buf text = { 0 };

    box_init(&x);
    for (int i = 0; i < 520; i++) {
        (void)snprintf(name, sizeof(name), "/sys/class/net/e%d/mtu", i);
        box_file(&x, name, "1500\n");
    }
    for (int i = 0; i < 1100; i++)
        buf_addf(&text, "e0\t%08X\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", i);
    box_file(&x, "/proc/net/route", buf_str(&text));
    buf_release(&text);
    BOX_PROBE(&x, hw_src_net);
    assert_int_equal(x.hw.nets_count, 512);
    assert_int_equal(x.hw.routes_count, 1024);
    assert_int_equal(x.hw.notes_count, 2);
}

/* Names that the kernel never gives do not reach a variable or a command. */
TEST(names_that_are_none)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    add_if(&x, "eth0", "2\n", "1\n");
    add_if(&x, "a;touch x", "3\n", "1\n");
    add_if(&x, "sixteen-letters-", "4\n", "1\n");
    add_if(&x, "eth\xff", "5\n", "1\n");
    box_file(&x, "/sys/class/net/bonding_masters", "bond0\n");
    box_file(&x, "/proc/net/route", "a:b\t00000000\t00000000\t0001\t0\t0\t0\t00000000\n");
    BOX_PROBE(&x, hw_src_net);
    assert_int_equal(x.hw.nets_count, 1);
    assert_int_equal(x.hw.routes_count, 0);
    assert_int_equal(x.hw.notes_count, 1);
    assert_string_equal(x.hw.notes[0].text, "3 names in '/sys/class/net' are no interface names");
}

TEST(nothing_there)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    BOX_PROBE(&x, hw_src_net);
    assert_int_equal(x.hw.nets_count, 0);
    assert_int_equal(x.hw.notes_count, 2);
}

TEST_MAIN(cmocka_unit_test(a_physical_interface), cmocka_unit_test(a_virtio_interface),
          cmocka_unit_test(kinds), cmocka_unit_test(speed_that_cannot_be_read),
          cmocka_unit_test(routes_of_ipv4), cmocka_unit_test(routes_of_ipv6),
          cmocka_unit_test(more_than_it_keeps), cmocka_unit_test(names_that_are_none),
          cmocka_unit_test(nothing_there))
