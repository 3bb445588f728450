/* SPDX-License-Identifier: MIT */
/* rdma.c: devices, ports, GID tables, and whose network device is whose. */
#include "hw_box.h"

#include "base/str.h"
#include "os/clock.h"

#define ZERO_GID  "0000:0000:0000:0000:0000:0000:0000:0000\n"
#define BARE_GID  "fe80:0000:0000:0000:0000:0000:0000:0000\n"
#define LOCAL_GID "fe80:0000:0000:0000:0a00:00ff:fe00:0001\n" /* of 08:00:00:00:00:01 */
#define MAPPED(n) "0000:0000:0000:0000:0000:ffff:0a64:01" n "\n"

static const struct hw_rdma *get(const struct box *x, const char *name)
{
    const struct hw_rdma *r = hw_find_rdma(&x->hw, name);

    assert_non_null(r);
    return r;
}

/* /sys/class/infiniband/NAME is a link into the function's directory, as in sysfs. */
static void add_dev(struct box *x, const char *parent, const char *bdf, const char *name)
{
    char fn[ROOT_PATH_MAX], dir[256], link[300], target[300];

    box_pci(x, parent, bdf, "0x15b3\n", "0x020700\n", fn);
    box_attr(x, fn, "numa_node", "0\n");
    (void)snprintf(link, sizeof(link), "/sys/bus/pci/devices/%s/driver", bdf);
    box_link(x, link, "../../bus/pci/drivers/mlx5_core");
    (void)snprintf(dir, sizeof(dir), "/sys/devices/%s/%s/infiniband/%s", parent, bdf, name);
    box_attr(x, dir, "node_type", "1: CA\n");
    box_attr(x, dir, "node_guid", "a088:c203:0012:3456\n");
    box_attr(x, dir, "hca_type", "MT4129\n");
    box_attr(x, dir, "board_id", "MT_0000000838\n");
    box_attr(x, dir, "fw_ver", "28.39.1002\n");
    (void)snprintf(link, sizeof(link), "%s/device", dir);
    box_link(x, link, "../..");
    (void)snprintf(link, sizeof(link), "/sys/class/infiniband/%s", name);
    (void)snprintf(target, sizeof(target), "../..%s", dir + strlen("/sys"));
    box_link(x, link, target);
}

static void add_port(struct box *x, const char *dev, const char *layer, const char *rate,
                     const char *state)
{
    char dir[128];

    (void)snprintf(dir, sizeof(dir), "/sys/class/infiniband/%s/ports/1", dev);
    box_attr(x, dir, "state", state);
    box_attr(x, dir, "phys_state", "5: LinkUp\n");
    box_attr(x, dir, "link_layer", layer);
    box_attr(x, dir, "rate", rate);
    box_attr(x, dir, "lid", "0x1f\n");
    box_attr(x, dir, "sm_lid", "0x1\n");
}

/* A NULL type or ndev is a slot whose read fails with EINVAL, as the kernel's do. */
static void add_gid(struct box *x, const char *dev, int i, const char *gid, const char *type,
                    const char *ndev)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gids/%d", dev, i);
    box_file(x, path, gid);
    (void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/types/%d", dev,
                   i);
    box_file(x, path, type ? type : "must not be read\n");
    (void)snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/%d", dev,
                   i);
    box_file(x, path, ndev ? ndev : "must not be read\n");
}

TEST(an_infiniband_device)
{
    const struct hw_rdma *r;
    const struct hw_rdma_port *p;
    AUTO(box_release) struct box x;

    box_init(&x);
    add_dev(&x, "pci0000:15/0000:15:01.0", "0000:18:00.0", "mlx5_0");
    add_port(&x, "mlx5_0", "InfiniBand\n", "400 Gb/sec (4X NDR)\n", "4: ACTIVE\n");
    add_gid(&x, "mlx5_0", 0, "fe80:0000:0000:0000:a088:c203:0012:3456\n", "IB/RoCE v1\n", NULL);
    BOX_PROBE(&x, hw_src_rdma);
    assert_int_equal(x.hw.rdma_count, 1);
    r = get(&x, "mlx5_0");
    assert_string_equal(r->bdf, "0000:18:00.0");
    assert_string_equal(r->node_type, "CA");
    assert_string_equal(r->node_guid, "a088:c203:0012:3456");
    assert_string_equal(r->hca, "MT4129");
    assert_string_equal(r->board, "MT_0000000838");
    assert_string_equal(r->firmware, "28.39.1002");
    assert_string_equal(r->driver, "mlx5_core");
    CHECK(maybe_is(r->numa, 0) && maybe_is(r->vf, 0) && !r->physfn);
    assert_int_equal(r->ports_count, 1);
    p = &r->ports[0];
    assert_string_equal(p->state, "ACTIVE");
    assert_string_equal(p->phys_state, "LinkUp");
    assert_string_equal(p->link_layer, "InfiniBand");
    assert_string_equal(p->rate, "400 Gb/sec (4X NDR)");
    CHECK(maybe_is(p->port, 1) && maybe_is(p->rate_mbps, 400000));
    CHECK(maybe_is(p->lid, 0x1f) && maybe_is(p->sm_lid, 1));
    assert_int_equal(p->gids_count, 1);
    assert_null(p->gids[0].ndev);
}

TEST(rates)
{
    static const struct {
        const char *text;
        int64_t want; /* -1: unknown */
    } rows[] = {
        { "400 Gb/sec (4X NDR)\n", 400000 },
        { "2.5 Gb/sec (1X SDR)\n", 2500 },
        { "10 Gb/sec (4X SDR)\n", 10000 },
        { "800 Gb/sec (4X XDR)\n", 800000 },
        { "0 Gb/sec (4X SDR)\n", -1 },
        { "-5 Gb/sec\n", -1 },
        { "1e300 Gb/sec\n", -1 },
        { "nan Gb/sec\n", -1 },
        { "400\n", -1 },
        { "", -1 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO(box_release) struct box x;
        struct maybe got;
        box_init(&x);
        add_dev(&x, "pci0000:15", "0000:18:00.0", "mlx5_0");
        add_port(&x, "mlx5_0", "Ethernet\n", rows[i].text, "4: ACTIVE\n");
        BOX_PROBE(&x, hw_src_rdma);
        got = get(&x, "mlx5_0")->ports[0].rate_mbps;
        CHECK(maybe_or(got, -1) == rows[i].want);
    }
}

/* The index of each GID is its own, read and not assumed; empty slots are passed over
 * before anybody asks for their type, which would fail. */
TEST(a_gid_table_with_holes)
{
    struct hw_net nets[] = { { .name = "net1", .kind = "physical", .bdf = "0000:18:00.0" } };
    const struct hw_rdma_port *p;
    AUTO(box_release) struct box x;

    box_init(&x);
    add_dev(&x, "pci0000:15", "0000:18:00.0", "mlx5_0");
    add_port(&x, "mlx5_0", "Ethernet\n", "400 Gb/sec (4X NDR)\n", "4: ACTIVE\n");
    add_gid(&x, "mlx5_0", 0, LOCAL_GID, "IB/RoCE v1\n", "net1\n");
    add_gid(&x, "mlx5_0", 1, ZERO_GID, NULL, NULL);
    add_gid(&x, "mlx5_0", 2, BARE_GID, NULL, NULL);
    add_gid(&x, "mlx5_0", 3, MAPPED("07"), "RoCE v2\n", "net1\n");
    add_gid(&x, "mlx5_0", 4, MAPPED("08"), "RoCE v2\n", "net1\n");
    add_gid(&x, "mlx5_0", 5, "not a gid\n", NULL, NULL);
    for (int i = 6; i < 16; i++)
        add_gid(&x, "mlx5_0", i, ZERO_GID, NULL, NULL);
    box_file(
        &x, "/stoker/errors",
        "/sys/devices/pci0000:15/0000:18:00.0/infiniband/mlx5_0/ports/1/gid_attrs/types/4\t22\n"
        "/sys/devices/pci0000:15/0000:18:00.0/infiniband/mlx5_0/ports/1/gids/6\t22\n");
    x.hw.nets = nets;
    x.hw.nets_count = 1;
    BOX_PROBE(&x, hw_src_rdma);
    p = &get(&x, "mlx5_0")->ports[0];
    assert_int_equal(p->gids_count, 3);
    CHECK(maybe_is(p->gids[0].index, 0) && maybe_is(p->gids[1].index, 3));
    assert_string_equal(p->gids[1].gid, "0000:0000:0000:0000:0000:ffff:0a64:0107");
    assert_string_equal(p->gids[1].type, "RoCE v2");
    assert_string_equal(p->gids[1].ndev, "net1");
    assert_null(p->gids[2].type); /* the slot went away between the two reads */
    assert_string_equal(nets[0].rdma, "mlx5_0");
}

/* Names are those of sysfs, never a heading such as "1 HCA found:"; devices that are
 * down or slow are there and say so. */
TEST(every_device_is_listed_with_its_state)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    add_dev(&x, "pci0000:15", "0000:18:00.0", "mlx5_0");
    add_port(&x, "mlx5_0", "InfiniBand\n", "400 Gb/sec (4X NDR)\n", "4: ACTIVE\n");
    add_dev(&x, "pci0000:15", "0000:19:00.0", "mlx5_1");
    add_port(&x, "mlx5_1", "InfiniBand\n", "10 Gb/sec (4X SDR)\n", "1: DOWN\n");
    add_dev(&x, "pci0000:15", "0000:1a:00.0", "mlx5_10");
    add_port(&x, "mlx5_10", "Ethernet\n", "25 Gb/sec (1X EDR)\n", "2: INIT\n");
    BOX_PROBE(&x, hw_src_rdma);
    assert_int_equal(x.hw.rdma_count, 3);
    assert_string_equal(x.hw.rdma[0].name, "mlx5_0");
    assert_string_equal(x.hw.rdma[2].name, "mlx5_10");
    assert_string_equal(get(&x, "mlx5_1")->ports[0].state, "DOWN");
    assert_string_equal(get(&x, "mlx5_10")->ports[0].state, "INIT");
    CHECK(maybe_is(get(&x, "mlx5_10")->ports[0].rate_mbps, 25000));
}

TEST(a_virtual_function)
{
    struct hw_net nets[] = { { .name = "net1", .kind = "physical", .bdf = "0000:18:00.2" },
                             { .name = "net1v", .kind = "vlan" } };
    const struct hw_rdma *r;
    AUTO(box_release) struct box x;

    box_init(&x);
    add_dev(&x, "pci0000:15", "0000:18:00.2", "mlx5_4");
    box_link(&x, "/sys/bus/pci/devices/0000:18:00.2/physfn", "../0000:18:00.0");
    box_dir(&x, "/sys/bus/pci/devices/0000:18:00.2/net/net1");
    add_port(&x, "mlx5_4", "Ethernet\n", "400 Gb/sec (4X NDR)\n", "4: ACTIVE\n");
    add_gid(&x, "mlx5_4", 3, MAPPED("07"), "RoCE v2\n", "net1\n");
    add_gid(&x, "mlx5_4", 5, MAPPED("09"), "RoCE v2\n", "net1v\n");
    x.hw.nets = nets;
    x.hw.nets_count = 2;
    BOX_PROBE(&x, hw_src_rdma);
    r = get(&x, "mlx5_4");
    CHECK(maybe_is(r->vf, 1));
    assert_string_equal(r->physfn, "0000:18:00.0");
    assert_int_equal(r->netdevs_count, 2);
    assert_string_equal(r->netdevs[0], "net1");
    assert_string_equal(r->netdevs[1], "net1v");
    assert_string_equal(nets[0].rdma, "mlx5_4");
    assert_string_equal(nets[1].rdma, "mlx5_4");
}

/* A shared adapter seen from a pod: its table lists interfaces of the host and of other
 * pods under the names they have there. */
TEST(names_of_other_namespaces)
{
    struct hw_addr pod[] = { { .family = "inet", .addr = "10.100.1.7" } };
    struct hw_addr flat[] = { { .family = "inet", .addr = "10.1.2.3" } };
    struct hw_net nets[] = {
        { .name = "eth0", .kind = "veth", .addrs = flat, .addrs_count = 1 },
        { .name = "net1", .kind = "macvlan", .addrs = pod, .addrs_count = 1 },
        { .name = "net2", .kind = "physical", .bdf = "0000:77:00.1" },
    };
    const struct hw_rdma_port *p;
    AUTO(box_release) struct box x;

    box_init(&x);
    add_dev(&x, "pci0000:15", "0000:18:00.0", "mlx5_0");
    add_port(&x, "mlx5_0", "Ethernet\n", "200 Gb/sec (4X HDR)\n", "4: ACTIVE\n");
    add_gid(&x, "mlx5_0", 0, MAPPED("01"), "RoCE v2\n", "eth0\n"); /* the host's eth0 */
    add_gid(&x, "mlx5_0", 1, MAPPED("08"), "RoCE v2\n", "net1\n"); /* another pod's net1 */
    add_gid(&x, "mlx5_0", 2, MAPPED("07"), "RoCE v2\n", "net1\n"); /* ours */
    add_gid(&x, "mlx5_0", 3, MAPPED("09"), "RoCE v2\n", "net2\n"); /* another function */
    add_gid(&x, "mlx5_0", 4, MAPPED("0a"), "RoCE v2\n", "gone0\n");
    x.hw.nets = nets;
    x.hw.nets_count = ARRAY_SIZE(nets);
    BOX_PROBE(&x, hw_src_rdma);
    p = &get(&x, "mlx5_0")->ports[0];
    assert_int_equal(p->gids_count, 5);
    CHECK(!p->gids[0].ndev && !p->gids[1].ndev && !p->gids[3].ndev && !p->gids[4].ndev);
    assert_string_equal(p->gids[2].ndev, "net1");
    assert_int_equal(get(&x, "mlx5_0")->netdevs_count, 1);
    assert_string_equal(nets[1].rdma, "mlx5_0");
    CHECK(!nets[0].rdma && !nets[2].rdma);
}

/* The default GIDs of a bond come from its hardware address. */
TEST(a_bond_by_its_hardware_address)
{
    struct hw_addr addrs[] = { { .family = "inet", .addr = "10.100.1.7" } };
    struct hw_net nets[] = { { .name = "bond0",
                               .kind = "bond",
                               .mac = "08:00:00:00:00:01",
                               .addrs = addrs,
                               .addrs_count = 1 },
                             { .name = "eth2", .kind = "physical", .bdf = "0000:18:00.0" } };
    const struct hw_rdma *r;
    AUTO(box_release) struct box x;

    box_init(&x);
    add_dev(&x, "pci0000:15", "0000:18:00.0", "mlx5_bond_0");
    add_port(&x, "mlx5_bond_0", "Ethernet\n", "200 Gb/sec (4X HDR)\n", "4: ACTIVE\n");
    add_gid(&x, "mlx5_bond_0", 0, LOCAL_GID, "RoCE v2\n", "bond0\n");
    x.hw.nets = nets;
    x.hw.nets_count = 2;
    BOX_PROBE(&x, hw_src_rdma);
    r = get(&x, "mlx5_bond_0");
    assert_string_equal(r->ports[0].gids[0].ndev, "bond0");
    assert_int_equal(r->netdevs_count, 2);
    assert_string_equal(r->netdevs[0], "eth2");
    assert_string_equal(nets[0].rdma, "mlx5_bond_0");
    assert_string_equal(nets[1].rdma, "mlx5_bond_0");
}

/* EFA: no GID types, no link layer of the two, no network device. */
TEST(an_adapter_that_tells_little)
{
    const struct hw_rdma *r;
    AUTO(box_release) struct box x;

    box_init(&x);
    box_pci(&x, "pci0000:00", "0000:00:06.0", "0x1d0f\n", "0x020000\n", NULL);
    box_link(&x, "/sys/bus/pci/devices/0000:00:06.0/driver", "../../bus/pci/drivers/efa");
    box_link(&x, "/sys/class/infiniband/rdmap0s6/device", "../../../bus/pci/devices/0000:00:06.0");
    box_file(&x, "/sys/class/infiniband/rdmap0s6/node_type", "6: unspecified\n");
    box_file(&x, "/sys/class/infiniband/rdmap0s6/ports/1/state", "4: ACTIVE\n");
    box_file(&x, "/sys/class/infiniband/rdmap0s6/ports/1/link_layer", "Unspecified\n");
    box_file(&x, "/sys/class/infiniband/rdmap0s6/ports/1/gids/0",
             "fe80:0000:0000:0000:0000:0011:2233:4455\n");
    BOX_PROBE(&x, hw_src_rdma);
    r = get(&x, "rdmap0s6");
    assert_string_equal(r->driver, "efa");
    CHECK(maybe_is(r->vf, 0) && !r->hca && !r->firmware && r->netdevs_count == 0);
    CHECK(!r->ports[0].link_layer && !r->ports[0].rate_mbps.known && !r->ports[0].lid.known);
    assert_int_equal(r->ports[0].gids_count, 1);
    CHECK(!r->ports[0].gids[0].type && !r->ports[0].gids[0].ndev);
}

/* Software RoCE: no PCI function; whether it is a virtual one is not a question. */
TEST(a_software_device)
{
    struct hw_addr addrs[] = { { .family = "inet", .addr = "10.100.1.7" } };
    struct hw_net nets[] = { { .name = "eth0",
                               .kind = "physical",
                               .bdf = "0000:00:03.0",
                               .addrs = addrs,
                               .addrs_count = 1 } };
    AUTO(box_release) struct box x;

    box_init(&x);
    box_file(&x, "/sys/class/infiniband/rxe0/node_type", "1: CA\n");
    add_port(&x, "rxe0", "Ethernet\n", "2.5 Gb/sec (1X SDR)\n", "4: ACTIVE\n");
    add_gid(&x, "rxe0", 1, MAPPED("07"), "RoCE v2\n", "eth0\n");
    x.hw.nets = nets;
    x.hw.nets_count = 1;
    BOX_PROBE(&x, hw_src_rdma);
    CHECK(!get(&x, "rxe0")->bdf && !get(&x, "rxe0")->vf.known);
    assert_string_equal(nets[0].rdma, "rxe0");
}

TEST(no_rdma_is_no_fault)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    BOX_PROBE(&x, hw_src_rdma);
    assert_int_equal(x.hw.rdma_count, 0);
    assert_int_equal(x.hw.notes_count, 0);
}

TEST(names_and_ports_that_are_none)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    box_file(&x, "/sys/class/infiniband/1 HCA found:/node_type", "1: CA\n");
    box_file(&x, "/sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
    box_file(&x, "/sys/class/infiniband/mlx5_0/ports/-1/state", "4: ACTIVE\n");
    box_file(&x, "/sys/class/infiniband/mlx5_0/ports/0/state", "4: ACTIVE\n");
    box_file(&x, "/sys/class/infiniband/mlx5_0/ports/x/state", "4: ACTIVE\n");
    box_file(&x, "/sys/class/infiniband/mlx5_0/ports/2/state", "4: \n");
    BOX_PROBE(&x, hw_src_rdma);
    assert_int_equal(x.hw.rdma_count, 1);
    assert_string_equal(x.hw.rdma[0].name, "mlx5_0");
    assert_int_equal(x.hw.rdma[0].ports_count, 1);
    CHECK(maybe_is(x.hw.rdma[0].ports[0].port, 2));
    assert_int_equal(x.hw.notes_count, 1);
}

/* Ten adapters with full tables of 256 slots, as a large node has them. */
TEST(large_tables_are_quick)
{
    AUTO(box_release) struct box x;
    char name[16], bdf[16];
    int64_t start;

    box_init(&x);
    for (int d = 0; d < 10; d++) {
        (void)snprintf(name, sizeof(name), "mlx5_%d", d);
        (void)snprintf(bdf, sizeof(bdf), "0000:%02x:00.0", 0x20 + d);
        add_dev(&x, "pci0000:15", bdf, name);
        add_port(&x, name, "Ethernet\n", "400 Gb/sec (4X NDR)\n", "4: ACTIVE\n");
        for (int i = 0; i < 256; i++)
            add_gid(&x, name, i, i < 4 ? MAPPED("07") : ZERO_GID, "RoCE v2\n", "none\n");
    }
    start = clock_mono_ms();
    BOX_PROBE(&x, hw_src_rdma);
    print_message("# 10 devices with 256 slots: %lld ms\n", (long long)(clock_mono_ms() - start));
    assert_int_equal(x.hw.rdma_count, 10);
    assert_int_equal(x.hw.rdma[9].ports[0].gids_count, 4);
    CHECK(clock_mono_ms() - start < 5000); /* a bound for sanitizers on a busy machine */
}

TEST_MAIN(cmocka_unit_test(an_infiniband_device), cmocka_unit_test(rates),
          cmocka_unit_test(a_gid_table_with_holes),
          cmocka_unit_test(every_device_is_listed_with_its_state),
          cmocka_unit_test(a_virtual_function), cmocka_unit_test(names_of_other_namespaces),
          cmocka_unit_test(a_bond_by_its_hardware_address),
          cmocka_unit_test(an_adapter_that_tells_little), cmocka_unit_test(a_software_device),
          cmocka_unit_test(no_rdma_is_no_fault), cmocka_unit_test(names_and_ports_that_are_none),
          cmocka_unit_test(large_tables_are_quick))
