/* SPDX-License-Identifier: MIT */
/* score: what each GPU gets of NCCL's own choice and of ours. */
#include "nccl_rails.h"

#include "nccl/nccl_int.h"

TEST(its_own_port_at_its_own_switch)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m_choose(m, &c);
    assert_int_equal(c.scores_count, 8);
    for (size_t i = 0; i < 8; i++) {
        CHECK(maybe_is(c.scores[i].dflt.mbps, 400000) && maybe_is(c.scores[i].ours.mbps, 400000));
        assert_string_equal(c.scores[i].ours.path, "PIX");
        CHECK(nccl_way_has(&c.scores[i].ours, m->names[i]) && !c.scores[i].worse);
    }
}

/* GPUs without a port of their own share those of others, and no bandwidth is counted twice. */
TEST(a_port_that_is_down_is_shared_for)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };
    int64_t sum = 0;

    m->ports[5].state = "DOWN";
    m_choose(m, &c);
    assert_string_equal(c.scores[5].dflt.path, "PXN");
    CHECK(!nccl_way_has(&c.scores[5].dflt, "mlx5_5"));
    for (size_t i = 0; i < 8; i++)
        sum += maybe_or(c.scores[i].dflt.mbps, 0);
    CHECK(sum > 0 && sum <= 7 * 400000);
    m_env(m, "NCCL_PXN_DISABLE", "1");
    m_choose(m, &c);
    assert_string_equal(c.scores[5].dflt.path, "PHB");
}

TEST(a_rate_that_is_not_known_makes_no_share)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    for (size_t i = 0; i < 8; i++)
        m->ports[i].rate_mbps = maybe_none();
    m_choose(m, &c);
    for (size_t i = 0; i < c.scores_count; i++)
        CHECK(!c.scores[i].dflt.mbps.known && !c.scores[i].worse);
}

TEST_MAIN(cmocka_unit_test(its_own_port_at_its_own_switch),
          cmocka_unit_test(a_port_that_is_down_is_shared_for),
          cmocka_unit_test(a_rate_that_is_not_known_makes_no_share))
