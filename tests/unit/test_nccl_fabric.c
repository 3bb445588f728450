/* SPDX-License-Identifier: MIT */
/* fabric: the network of a port, and what that network is for. */
#include "nccl_rails.h"

#include "nccl/nccl_int.h"

TEST(infiniband_is_told_by_prefix_and_manager)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    for (size_t i = 0; i < 8; i++)
        m->ports[i].sm_lid = maybe_of(i == 7 ? 2 : 1);
    m_choose(m, &c);
    assert_string_equal(c.ports[0].network, c.ports[6].network);
    assert_string_not_equal(c.ports[0].network, c.ports[7].network);
}

/* The server decides, not who mounts: a mount by the default route marks no port. */
TEST(storage_is_where_the_server_is)
{
    static const struct {
        const char *source;
        bool storage[2];
    } rows[] = {
        { "10.2.0.9:/data", { false, true } },
        { "10.1.0.9:/data", { true, false } },
        { "192.0.2.9:/data", { false, false } },
        { "10.20.0.9:/data", { false, false } }, /* 10.2 is but the beginning of it */
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct hw_mount mount = { .source = rows[i].source, .target = "/d", .fstype = "nfs4" };
        AUTO(machine_free) struct machine *m = machine_bare(2);
        AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

        rail_add(m, 0, (int[]){ 1 }, 1);
        rail_add(m, 1, (int[]){ 2 }, 1);
        m->hw.mounts = &mount;
        m->hw.mounts_count = 1;
        m_choose(m, &c);
        assert_string_equal(c.ports[0].network, "10.1.0.0/16");
        for (size_t k = 0; k < 2; k++)
            if (c.ports[k].storage != rows[i].storage[k])
                fail_msg("%s: port %zu", rows[i].source, k);
    }
}

TEST(frontend_is_where_the_default_route_leaves)
{
    AUTO(machine_free) struct machine *m = machine_bare(2);
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    rail_add(m, 0, (int[]){ 1 }, 1);
    rail_add(m, 1, (int[]){ 2 }, 1);
    m_choose(m, &c);
    CHECK(!c.ports[0].frontend && !c.ports[1].frontend);
    m->routes[0].dev = "net1_0";
    m->routes[0].gateway = "10.2.0.1";
    m->nets[0].default_route = maybe_of(0);
    m->nets[2].default_route = maybe_of(1);
    m_choose(m, &c);
    CHECK(!c.ports[0].frontend && c.ports[1].frontend);
}

TEST(file_systems_that_cannot_be_placed)
{
    static const struct {
        const char *fstype, *source;
        bool unplaced;
    } rows[] = {
        { "gpfs", "gpfs0", true },
        { "nfs4", "10.2.0.9:/data", false },
        { "ext4", "/dev/sda1", false },
        { "lustre", "10.2.0.9@o2ib:/fs", false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct hw_mount mount = { .source = rows[i].source,
                                  .target = "/d",
                                  .fstype = rows[i].fstype };
        AUTO(machine_free) struct machine *m = machine_bare(2);
        AUTO(arena_release) struct arena a = { 0 };

        rail_add(m, 0, (int[]){ 2 }, 1);
        m->hw.mounts = &mount;
        m->hw.mounts_count = 1;
        if ((fabric_unplaced(&a, &m->hw) != NULL) != rows[i].unplaced)
            fail_msg("%s from %s", rows[i].fstype, rows[i].source);
    }
}

/* One card, one function: port 1 is InfiniBand, port 2 is Ethernet, and both have an interface. */
TEST(a_card_of_both_layers)
{
    struct hw_mount mount = { .source = "10.2.0.9:/data", .target = "/d", .fstype = "nfs4" };
    AUTO(machine_free) struct machine *m = machine_bare(1);
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    rail_add(m, 0, (int[]){ 1 }, 1);
    rail_add(m, 0, (int[]){ 2 }, 1);
    m->hw.rdma_count = 1;
    m->rdma[0].ports_count = 2;
    m->ports[0].link_layer = "InfiniBand";
    m->ports[0].sm_lid = maybe_of(1);
    m->ports[1].port = maybe_of(2);
    m->nets[1].kind = "infiniband";
    m->nets[2].rdma = m->names[0];
    m->hw.mounts = &mount;
    m->hw.mounts_count = 1;
    m_choose(m, &c);
    CHECK(c.ports_count == 2 && !c.ports[0].storage && c.ports[1].storage);
    CHECK(iface_is_ipoib(&m->hw, &m->nets[1]) && !iface_is_ipoib(&m->hw, &m->nets[2]));
    mount.source = "10.1.0.9:/data";
    m_choose(m, &c);
    CHECK(c.ports[0].storage && !c.ports[1].storage);
}

TEST_MAIN(cmocka_unit_test(a_card_of_both_layers),
          cmocka_unit_test(infiniband_is_told_by_prefix_and_manager),
          cmocka_unit_test(storage_is_where_the_server_is),
          cmocka_unit_test(frontend_is_where_the_default_route_leaves),
          cmocka_unit_test(file_systems_that_cannot_be_placed))
