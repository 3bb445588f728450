/* SPDX-License-Identifier: MIT */
/* wanted_ports: the ports that should be used, and why others should not. */
#include "nccl_rails.h"

#include "nccl/nccl_int.h"

static size_t wanted_count(const struct nccl_choice *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->ports_count; i++)
        n += c->ports[i].wanted;
    return n;
}

TEST(a_rail_at_half_rate_stays)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m->ports[3].rate_mbps = maybe_of(200000);
    m_choose(m, &c);
    CHECK(c.ports[3].wanted);
    assert_int_equal(wanted_count(&c), 8);
}

TEST(a_faster_port_of_the_other_socket_goes)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m_gid(m_rdma(m, "mlx5_8", "0000:f0:00.0", "Ethernet", 800), 3,
          "0000:0000:0000:0000:0000:ffff:0a09:0005", "RoCE v2", "stor0");
    m_net(m, "stor0", 50, "10.9.0.5", 16)->rdma = "mlx5_8";
    m_route(m, "10.9.0.0", 16, NULL, "stor0");
    for (size_t g = 0; g < 8; g++)
        m_distance(m, g, "mlx5_8", "SYS");
    m_choose(m, &c);
    CHECK(!c.ports[8].wanted && c.ports[8].wanted_why);
    assert_int_equal(wanted_count(&c), 8);
}

TEST(a_second_network_with_a_file_system_goes)
{
    struct hw_mount mount = { .source = "10.9.0.200:/data", .target = "/d", .fstype = "nfs4" };
    AUTO(machine_free) struct machine *m = machine_bare(2);
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    rail_add(m, 0, (int[]){ 1 }, 1);
    rail_add(m, 1, (int[]){ 1 }, 1);
    rail_add(m, 1, (int[]){ 9 }, 1);
    m_choose(m, &c);
    assert_int_equal(wanted_count(&c), 3); /* nothing tells them apart yet */
    m->hw.mounts = &mount;
    m->hw.mounts_count = 1;
    m_choose(m, &c);
    CHECK(c.ports[0].wanted && c.ports[1].wanted && !c.ports[2].wanted);
    for (size_t i = 0; i < c.scores_count; i++)
        CHECK(!c.scores[i].worse);
}

TEST(nothing_is_wanted_that_is_down)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m->ports[0].state = "DOWN";
    m_choose(m, &c);
    CHECK(!c.ports[0].wanted && wanted_count(&c) == 7);
}

TEST_MAIN(cmocka_unit_test(a_rail_at_half_rate_stays),
          cmocka_unit_test(a_faster_port_of_the_other_socket_goes),
          cmocka_unit_test(a_second_network_with_a_file_system_goes),
          cmocka_unit_test(nothing_is_wanted_that_is_down))
