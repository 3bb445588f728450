/* SPDX-License-Identifier: MIT */
/* topo.c: levels between PCI functions, GPU pairs, GPU-adapter distances. */
#include "hw_box.h"

#include "base/str.h"

/* One socket half of a DGX-like tree, made by hand:
 *
 *   pci0000:15 - 15:01.0 - 16:00.0 -+- 17:00.0 - 18:00.0  GPU 0
 *                                   +- 17:01.0 - 19:00.0/1 NIC, two ports
 *                                   +- 17:02.0 - 20:00.0 -+- 21:00.0 - 22:00.0  GPU 1
 *                                                         +- 21:01.0 - 23:00.0  NVMe
 *   pci0000:15 - 15:03.0 - 30:00.0  NIC on a root port
 *   pci0000:40 - 40:01.0 - 41:00.0  GPU 2, same NUMA node
 *   pci0000:97 - 97:01.0 - 98:00.0  GPU 3, other NUMA node
 *   pci0000:a0 - a0:01.0 - a1:00.0  NIC, NUMA node not told
 *   pci0000:00 - 00:05.0, 00:06.0   devices of a VM, on the root bus */
static struct hw_pci fns[] = {
    { .bdf = "0000:00:05.0", .root = "pci0000:00" },
    { .bdf = "0000:00:06.0", .root = "pci0000:00" },
    { .bdf = "0000:15:01.0", .root = "pci0000:15" },
    { .bdf = "0000:15:03.0", .root = "pci0000:15" },
    { .bdf = "0000:16:00.0", .root = "pci0000:15", .parent = "0000:15:01.0" },
    { .bdf = "0000:17:00.0", .root = "pci0000:15", .parent = "0000:16:00.0" },
    { .bdf = "0000:17:01.0", .root = "pci0000:15", .parent = "0000:16:00.0" },
    { .bdf = "0000:17:02.0", .root = "pci0000:15", .parent = "0000:16:00.0" },
    { .bdf = "0000:18:00.0", .root = "pci0000:15", .parent = "0000:17:00.0", .numa = { 0, true } },
    { .bdf = "0000:19:00.0", .root = "pci0000:15", .parent = "0000:17:01.0", .numa = { 0, true } },
    { .bdf = "0000:19:00.1", .root = "pci0000:15", .parent = "0000:17:01.0", .numa = { 0, true } },
    { .bdf = "0000:20:00.0", .root = "pci0000:15", .parent = "0000:17:02.0" },
    { .bdf = "0000:21:00.0", .root = "pci0000:15", .parent = "0000:20:00.0" },
    { .bdf = "0000:21:01.0", .root = "pci0000:15", .parent = "0000:20:00.0" },
    { .bdf = "0000:22:00.0", .root = "pci0000:15", .parent = "0000:21:00.0", .numa = { 0, true } },
    { .bdf = "0000:23:00.0", .root = "pci0000:15", .parent = "0000:21:01.0", .numa = { 0, true } },
    { .bdf = "0000:30:00.0", .root = "pci0000:15", .parent = "0000:15:03.0", .numa = { 0, true } },
    { .bdf = "0000:40:01.0", .root = "pci0000:40" },
    { .bdf = "0000:41:00.0", .root = "pci0000:40", .parent = "0000:40:01.0", .numa = { 0, true } },
    { .bdf = "0000:97:01.0", .root = "pci0000:97" },
    { .bdf = "0000:98:00.0", .root = "pci0000:97", .parent = "0000:97:01.0", .numa = { 1, true } },
    { .bdf = "0000:a0:01.0", .root = "pci0000:a0" },
    { .bdf = "0000:a1:00.0", .root = "pci0000:a0", .parent = "0000:a0:01.0" },
    { .bdf = "0000:b0:00.0" }, /* a capture without links: nothing known above */
};

static struct hw_numa nodes[2];

static void machine(struct hw *hw, struct hw_build *b)
{
    *hw = (struct hw){ .pci = fns, .pci_count = ARRAY_SIZE(fns), .numa = nodes, .numa_count = 2 };
    *b = (struct hw_build){ .hw = hw, .a = &hw->arena };
}

TEST(levels)
{
    static const struct {
        const char *a, *b, *want;
    } rows[] = {
        { "0000:18:00.0", "0000:19:00.0", "PIX" },     /* one switch */
        { "0000:19:00.0", "0000:19:00.1", "PIX" },     /* two ports of one adapter */
        { "0000:22:00.0", "0000:23:00.0", "PIX" },     /* one switch below another */
        { "0000:18:00.0", "0000:22:00.0", "PXB" },     /* two switches */
        { "0000:19:00.1", "0000:23:00.0", "PXB" },     /* the same, other devices */
        { "0000:18:00.0", "0000:30:00.0", "PHB" },     /* two root ports */
        { "0000:00:05.0", "0000:00:06.0", "PHB" },     /* on the root bus */
        { "0000:18:00.0", "0000:41:00.0", "NODE" },    /* two host bridges */
        { "0000:18:00.0", "0000:98:00.0", "SYS" },     /* two sockets */
        { "0000:18:00.0", "0000:a1:00.0", NULL },      /* not told where it is */
        { "0000:18:00.0", "0000:b0:00.0", NULL },      /* not told what is above */
        { "0000:18:00.0", "0000:77:00.0", NULL },      /* not there */
        { "00000000:18:00.0", "0000:19:00.0", "PIX" }, /* as the driver writes it */
        { "0000:18:00.0", NULL, NULL },
    };
    struct hw hw;
    struct hw_build b;

    machine(&hw, &b);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CHECK(str_eq(hw_pci_path(&hw, rows[i].a, rows[i].b), rows[i].want));
        CHECK(str_eq(hw_pci_path(&hw, rows[i].b, rows[i].a), rows[i].want));
    }
}

TEST(one_node_needs_no_telling)
{
    struct hw hw;
    struct hw_build b;

    machine(&hw, &b);
    hw.numa_count = 1;
    CHECK(str_eq(hw_pci_path(&hw, "0000:18:00.0", "0000:a1:00.0"), "NODE"));
    hw.numa_count = 0;
    CHECK(hw_pci_path(&hw, "0000:18:00.0", "0000:a1:00.0") == NULL);
    hw.cpu.sockets = maybe_of(1);
    CHECK(str_eq(hw_pci_path(&hw, "0000:18:00.0", "0000:a1:00.0"), "NODE"));
}

/* A list that is not sorted, and bridges above each other in a circle. */
TEST(odd_lists)
{
    struct hw_pci odd[] = {
        { .bdf = "0000:0c:00.0", .root = "pci0000:00", .parent = "0000:0b:00.0" },
        { .bdf = "0000:0a:00.0", .root = "pci0000:00", .parent = "0000:0b:00.0" },
        { .bdf = "0000:0b:00.0", .root = "pci0000:00", .parent = "0000:0b:00.0" },
        { .bdf = NULL },
    };
    struct hw hw = { .pci = odd, .pci_count = ARRAY_SIZE(odd) };

    CHECK(str_eq(hw_pci_path(&hw, "0000:0a:00.0", "0000:0c:00.0"), "PIX"));
}

static struct hw_nvlink *switch_links(struct arena *a, size_t count, size_t down)
{
    struct hw_nvlink *l = arena_array(a, struct hw_nvlink, count);

    for (size_t i = 0; i < count; i++)
        l[i] = (struct hw_nvlink){ .link = maybe_of((int64_t)i),
                                   .active = maybe_of(i >= down),
                                   .remote_kind = "switch",
                                   .remote_bdf = "00000000:07:00.0" };
    return l;
}

TEST(pairs_through_switches)
{
    struct hw hw;
    struct hw_build b;
    struct hw_gpu gpus[3] = { { .bdf = "0000:18:00.0", .state = "ok" },
                              { .bdf = "0000:22:00.0", .state = "ok" },
                              { .bdf = "0000:98:00.0", .state = "lost" } };
    struct hw_gpu_pair told[] = {
        { .a = { 1, true }, .b = { 0, true }, .p2p_read = "ok", .p2p_nvlink = "ok" },
    };

    machine(&hw, &b);
    hw.gpus = gpus;
    hw.gpus_count = 3;
    hw.gpu_pairs = told;
    hw.gpu_pairs_count = 1;
    gpus[0].nvlinks = switch_links(b.a, 18, 0);
    gpus[1].nvlinks = switch_links(b.a, 18, 1); /* one link down */
    gpus[0].nvlinks_count = gpus[1].nvlinks_count = 18;
    hw_src_topo(&b);
    assert_int_equal(hw.gpu_pairs_count, 3);
    CHECK(maybe_is(hw.gpu_pairs[0].a, 0) && maybe_is(hw.gpu_pairs[0].b, 1));
    CHECK(maybe_is(hw.gpu_pairs[0].nvlinks, 17));
    assert_string_equal(hw.gpu_pairs[0].path, "NV17");
    assert_string_equal(hw.gpu_pairs[0].p2p_read, "ok");
    /* nobody could ask the lost GPU: unknown, and PCI still says how far */
    CHECK(!hw.gpu_pairs[1].nvlinks.known);
    assert_string_equal(hw.gpu_pairs[1].path, "SYS");
    assert_null(hw.gpu_pairs[1].p2p_read);
    arena_release(&hw.arena);
}

/* A box with PCIe alone never says NVLink, whatever a legend reads. */
TEST(pairs_without_nvlink)
{
    struct hw hw;
    struct hw_build b;
    struct hw_gpu gpus[2] = { { .bdf = "0000:18:00.0", .state = "ok" },
                              { .bdf = "0000:41:00.0", .state = "ok" } };

    machine(&hw, &b);
    hw.gpus = gpus;
    hw.gpus_count = 2;
    hw_src_topo(&b);
    assert_int_equal(hw.gpu_pairs_count, 1);
    CHECK(maybe_is(hw.gpu_pairs[0].nvlinks, 0));
    assert_string_equal(hw.gpu_pairs[0].path, "NODE");
    arena_release(&hw.arena);
}

TEST(pairs_with_direct_links)
{
    struct hw hw;
    struct hw_build b;
    struct hw_nvlink l0[] = {
        { .active = { 1, true }, .remote_kind = "gpu", .remote_bdf = "00000000:22:00.0" },
        { .active = { 1, true }, .remote_kind = "gpu", .remote_bdf = "0000:22:00.0" },
        { .active = { 0, true }, .remote_kind = "gpu", .remote_bdf = "0000:22:00.0" },
        { .active = { 1, true }, .remote_kind = "gpu", .remote_bdf = NULL },
    };
    struct hw_nvlink l1[] = {
        { .active = { 1, true }, .remote_kind = "gpu", .remote_bdf = "0000:18:00.0" },
        { .active = { 1, true }, .remote_kind = "gpu", .remote_bdf = "0000:18:00.0" },
    };
    struct hw_gpu gpus[2] = {
        { .bdf = "0000:18:00.0", .state = "ok", .nvlinks = l0, .nvlinks_count = 4 },
        { .bdf = "0000:22:00.0", .state = "ok", .nvlinks = l1, .nvlinks_count = 2 },
    };

    machine(&hw, &b);
    hw.gpus = gpus;
    hw.gpus_count = 2;
    hw_src_topo(&b);
    CHECK(maybe_is(hw.gpu_pairs[0].nvlinks, 2));
    assert_string_equal(hw.gpu_pairs[0].path, "NV2");
    arena_release(&hw.arena);
}

TEST(distances_to_adapters)
{
    struct hw hw;
    struct hw_build b;
    struct hw_gpu gpus[1] = { { .bdf = "0000:18:00.0", .state = "ok" } };
    struct hw_rdma rdma[] = { { .name = "mlx5_0", .bdf = "0000:19:00.0" }, { .name = "rxe0" } };
    struct hw_net nets[] = {
        { .name = "eth0", .kind = "physical", .bdf = "0000:30:00.0" },
        { .name = "net1", .kind = "physical", .bdf = "0000:19:00.0", .rdma = "mlx5_0" },
        { .name = "lo", .kind = "loopback" },
        { .name = "eth9", .kind = "physical" }, /* no PCI function: virtio over MMIO */
        { .name = "br0", .kind = "bridge" },
    };

    machine(&hw, &b);
    hw.gpus = gpus;
    hw.gpus_count = 1;
    hw.rdma = rdma;
    hw.rdma_count = 2;
    hw.nets = nets;
    hw.nets_count = ARRAY_SIZE(nets);
    hw_src_topo(&b);
    assert_int_equal(hw.distances_count, 3);
    assert_int_equal(hw.gpu_pairs_count, 0);
    assert_string_equal(hw_distance_get(&hw, 0, "mlx5_0"), "PIX");
    assert_string_equal(hw_distance_get(&hw, 0, "eth0"), "PHB");
    assert_null(hw_distance_get(&hw, 0, "rxe0"));
    assert_null(hw_distance_get(&hw, 1, "mlx5_0"));
    assert_null(hw_distance_get(&hw, 0, "net1"));
    assert_null(hw_distance_get(&hw, 0, NULL));
    arena_release(&hw.arena);
}

TEST(nothing_to_measure)
{
    struct hw hw;
    struct hw_build b;

    machine(&hw, &b);
    hw_src_topo(&b);
    assert_int_equal(hw.distances_count, 0);
    assert_int_equal(hw.gpu_pairs_count, 0);
    arena_release(&hw.arena);
}

TEST_MAIN(cmocka_unit_test(levels), cmocka_unit_test(one_node_needs_no_telling),
          cmocka_unit_test(odd_lists), cmocka_unit_test(pairs_through_switches),
          cmocka_unit_test(pairs_without_nvlink), cmocka_unit_test(pairs_with_direct_links),
          cmocka_unit_test(distances_to_adapters), cmocka_unit_test(nothing_to_measure))
