/* SPDX-License-Identifier: MIT */
/* gid_networks: the networks that the search for addresses ends on. */
#include "nccl_rails.h"

#include "nccl/nccl_int.h"

struct landing {
    const char *what;
    int octets[4][2]; /* of each port's addresses, in order; 0: one address only */
    bool told;        /* it says that the networks differ */
    const char *range;
};

static const struct landing landings[] = {
    { "one network", { { 1 }, { 1 }, { 1 }, { 1 } }, false, NULL },
    { "a rail each", { { 1 }, { 2 }, { 3 }, { 4 } }, false, NULL },
    { "one NIC has the other first",
      { { 1, 9 }, { 1, 9 }, { 1, 9 }, { 9, 1 } },
      true,
      "10.1.0.0/16" },
};

TEST(a_port_that_strays_is_told_and_mended)
{
    for (size_t i = 0; i < ARRAY_SIZE(landings); i++) {
        const struct landing *l = &landings[i];
        AUTO(machine_free) struct machine *m = machine_bare(4);
        AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

        for (size_t k = 0; k < 4; k++)
            rail_add(m, k, l->octets[k], l->octets[k][1] ? 2 : 1);
        m_choose(m, &c);
        if ((c.gid_nets_why != NULL) != l->told)
            fail_msg("%s: %s", l->what, c.gid_nets_why ? c.gid_nets_why : "nothing is told");
        if (!str_eq(c.gid_range ? c.gid_range : "", l->range ? l->range : ""))
            fail_msg("%s: range %s", l->what, c.gid_range ? c.gid_range : "none");
    }
}

/* The range it gives makes NCCL's own search end on one network. */
TEST(the_range_mends_it)
{
    AUTO(machine_free) struct machine *m = machine_bare(2);
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    rail_add(m, 0, (int[]){ 1, 9 }, 2);
    rail_add(m, 1, (int[]){ 9, 1 }, 2);
    m_env(m, "NCCL_IB_ADDR_RANGE", "10.1.0.0/16");
    m_choose(m, &c);
    assert_string_equal(c.ports[0].network, "10.1.0.0/16");
    assert_string_equal(c.ports[1].network, "10.1.0.0/16");
    assert_int_equal(c.ports[0].gid_index.v, 3);
    assert_int_equal(c.ports[1].gid_index.v, 5);
    assert_null(c.gid_nets_why);
}

TEST(an_index_must_be_of_one_network)
{
    AUTO(machine_free) struct machine *m = machine_bare(2);
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    rail_add(m, 0, (int[]){ 1, 9 }, 2);
    rail_add(m, 1, (int[]){ 9, 1 }, 2);
    m_choose(m, &c);
    CHECK(!gid_networks_agree_at(&m->hw, &c, 3, true) &&
          !gid_networks_agree_at(&m->hw, &c, 5, true));
    free(m);
    m = machine_bare(2);
    rail_add(m, 0, (int[]){ 1, 9 }, 2);
    rail_add(m, 1, (int[]){ 1, 9 }, 2);
    m_choose(m, &c);
    CHECK(gid_networks_agree_at(&m->hw, &c, 3, true) && gid_networks_agree_at(&m->hw, &c, 5, true));
}

TEST_MAIN(cmocka_unit_test(a_port_that_strays_is_told_and_mended),
          cmocka_unit_test(the_range_mends_it), cmocka_unit_test(an_index_must_be_of_one_network))
