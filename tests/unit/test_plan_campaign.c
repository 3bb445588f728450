/* SPDX-License-Identifier: MIT */
/* Interruptions: formulas against each other, against published figures and against playing them;
 * the tables and their sources; a campaign's figures add up. */
#include "test.h"

#include "base/str.h"
#include "plan/campaign.h"
#include "plan/campaign/campaign_int.h"

#include <math.h>
#include <string.h>

static void near(double got, double want, double share)
{
    if (!(fabs(got - want) <= share * fabs(want)))
        fail_msg("%g is not %g within %g", got, want, share);
}

TEST(intervals_agree_where_failures_are_rare)
{
    near(plan_interval_young(10, 6000), sqrt(2 * 10 * 6000.0), 1e-12);
    for (double mtbf = 1e4; mtbf < 1e8; mtbf *= 10) {
        near(plan_interval_daly(10, mtbf), plan_interval_exact(10, mtbf), 1e-3);
        near(plan_interval_young(10, mtbf), plan_interval_exact(10, mtbf), 0.02);
    }
    /* a save as long as the time between failures: Young is far off, Daly gives up */
    CHECK(plan_interval_exact(100, 100) < 100);
}

/* The exact interval is where the wall time is least. */
TEST(exact_interval_is_the_minimum)
{
    static const double saves[] = { 1, 30, 300, 3000 }, mtbfs[] = { 600, 1e4, 1e6 };

    for (size_t i = 0; i < ARRAY_SIZE(saves); i++)
        for (size_t k = 0; k < ARRAY_SIZE(mtbfs); k++) {
            struct plan_outage o = { .mtbf_s = mtbfs[k], .save_s = saves[i], .restart_s = 600 };
            double best = plan_outage_interval(&o), at = plan_wall_factor(&o, best);

            CHECK(at <= plan_wall_factor(&o, best * 1.01));
            CHECK(at <= plan_wall_factor(&o, best * 0.99));
            CHECK(at <= plan_wall_factor(&o, plan_interval_young(saves[i], mtbfs[k])) + 1e-12);
        }
}

/* The linear form that papers quote is the first order of ours. */
TEST(ettr_is_the_limit)
{
    struct plan_outage o = { .mtbf_s = 1e6, .save_s = 5, .restart_s = 300 };
    double t = plan_outage_interval(&o);

    near(1 / plan_wall_factor(&o, t), plan_ettr(&o, t), 1e-4);
}

static void formula_is_played(const struct plan_outage *o, double work, double interval)
{
    enum { RUNS = 4000 };
    static double walls[RUNS];
    struct plan_played p, again;
    double want = work * plan_wall_factor(o, interval);

    plan_outage_play(o, work, interval, RUNS, 42, walls, &p);
    if (fabs(p.mean - want) > 4 * p.sd / sqrt(RUNS) + 1e-6 * want)
        fail_msg("played %g, formula %g, deviation of the mean %g", p.mean, want,
                 p.sd / sqrt(RUNS));
    CHECK(p.p10 <= p.p50 && p.p50 <= p.p90);
    plan_outage_play(o, work, interval, RUNS, 42, walls, &again);
    assert_memory_equal(&p, &again, sizeof(p)); /* the seed is all there is */
}

/* Work is a whole number of intervals: the formula counts whole ones. */
TEST(formula_equals_playing)
{
    static const struct plan_outage outages[] = {
        { .mtbf_s = 11100, .save_s = 4, .restart_s = 600 },  /* 16,384 H100 */
        { .mtbf_s = 1800, .save_s = 120, .restart_s = 900 }, /* failures faster than comfort */
        { .mtbf_s = 300, .save_s = 60, .restart_s = 300 },   /* hardly any progress */
        { .mtbf_s = 1e6,
          .save_s = 40,
          .restart_s = 600,
          .preempt_s = 4e4,
          .preempt_wait = 1800,
          .notice_s = 120 }, /* spot, saved on notice */
        { .mtbf_s = 1e6,
          .save_s = 200,
          .restart_s = 600,
          .preempt_s = 4e4,
          .preempt_wait = 1800,
          .notice_s = 30 }, /* spot, notice too short */
    };

    for (size_t i = 0; i < ARRAY_SIZE(outages); i++) {
        double t = plan_outage_interval(&outages[i]);

        formula_is_played(&outages[i], 200 * t, t);
        formula_is_played(&outages[i], 100 * t, 2 * t);
    }
}

TEST(spares)
{
    near(plan_spares_suffice(1, 0), exp(-1), 1e-12);
    near(plan_spares_suffice(2, 2), exp(-2) * 5, 1e-12);
    CHECK(plan_spares_for(0, 0.99) == 0 && plan_spares_for(2, 0.99) == 6);
    near(plan_spares_suffice(499, 520), plan_spares_suffice(501, 522), 0.01); /* both branches */
    for (double mean = 0.1; mean < 3000; mean *= 3) {
        int64_t k = plan_spares_for(mean, 0.99);

        CHECK(plan_spares_suffice(mean, k) >= 0.99 &&
              (!k || plan_spares_suffice(mean, k - 1) < 0.99));
    }
}

static void facts(struct arena *a, struct plan_facts *f)
{
    struct err err = { 0 };

    if (plan_facts_load(a, f, &err))
        fail_msg("%s", err.msg);
}

TEST(tables_have_sources_and_published_figures)
{
    static const char *const names[] = { "checkpoint_bytes",
                                         "write_node_gb_s",
                                         "restart_s",
                                         "repair_h",
                                         "spot_wait_s",
                                         "hardware_share",
                                         "pue",
                                         "host_w_hopper",
                                         "host_w_ampere",
                                         "host_w_blackwell",
                                         "tokens_a_parameter",
                                         "data_bytes_token",
                                         "checkpoints_kept" };
    struct plan_failure_rate r;
    struct plan_gpu h100, a100;
    struct arena a = { 0 };
    struct plan_facts f;
    struct err err = { 0 };

    facts(&a, &f);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        CHECK(plan_fact_row(&f, names[i]) && *plan_fact_row(&f, names[i])->source);
    for (size_t i = 0; i < f.prices_count; i++)
        CHECK(*f.prices[i].source && *f.prices[i].date && f.prices[i].low <= f.prices[i].high);
    for (size_t i = 0; i < f.failures_count; i++)
        CHECK(*f.failures[i].source && f.failures[i].failures > 0);
    assert_int_equal(plan_gpu_by_name("h100", &h100, &err), RC_OK);
    assert_int_equal(plan_gpu_by_name("a100", &a100, &err), RC_OK);
    plan_failure_rate_of(&f, &h100, &r);
    near(r.gpu_hours.usual * 3600 / 16384 / 3600, 3.09, 0.005); /* hours, the Llama 3 paper */
    plan_failure_rate_of(&f, &a100, &r);
    near(r.gpu_hours.usual / 16384, 1.8, 0.01); /* Kokolis et al.: 1.8 h at 16,384 GPUs */
    arena_release(&a);
}

/* Llama 3's goodput was above 90 % with a failure each three hours. */
TEST(a_campaign_adds_up)
{
    struct plan_time t = { .step_s = 10 };
    struct plan_campaign_want w = { .tokens = 1e12 };
    struct plan_campaign r;
    struct plan_cluster cl;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;
    struct plan_gpu gpu;
    struct arena a = { 0 };
    struct plan_facts f;
    struct err err = { 0 };

    facts(&a, &f);
    assert_int_equal(plan_model_by_name("llama-3.1-405b", &m, &err), RC_OK);
    assert_int_equal(plan_model_counts(&m, &n, &err), RC_OK);
    assert_int_equal(plan_gpu_by_name("h100", &gpu, &err), RC_OK);
    plan_cluster_usual(&gpu, 16384, &cl);
    plan_config_init(&c);
    c.seq = 8192;
    c.dp = 128;
    c.grad_acc = 16;
    plan_campaign_of(&f, &m, &n, &cl, &c, &t, &w, &r);
    near(r.clean_days, ceil(1e12 / (8192.0 * 2048)) * 10 / 86400, 1e-12);
    near(r.checkpoint_bytes, 405.853e9 * 14, 1e-4);
    CHECK(r.goodput > 0.9 && r.goodput < 0.95);
    near(r.goodput, r.ettr, 0.01);
    near(r.days.usual * r.goodput, r.clean_days, 1e-12);
    CHECK(r.days.low < r.days.usual && r.days.usual < r.days.high);
    near(r.gpu_hours.usual, r.days.usual * 24 * 16384, 1e-12);
    near(r.bill[PLAN_ON_DEMAND].usd.usual, r.gpu_hours.usual * gpu.price_usd_h, 1e-12);
    near(r.gpu_w, 16384 * 700, 1e-12);
    near(r.site_kwh, (700 + 575) * 1.2 * 16384 * r.days.usual * 24 / 1000, 1e-9);
    CHECK(r.bill[PLAN_SPOT].days > r.days.usual && r.spares > 0);
    arena_release(&a);
}

TEST_MAIN(cmocka_unit_test(intervals_agree_where_failures_are_rare),
          cmocka_unit_test(exact_interval_is_the_minimum), cmocka_unit_test(ettr_is_the_limit),
          cmocka_unit_test(formula_equals_playing), cmocka_unit_test(spares),
          cmocka_unit_test(tables_have_sources_and_published_figures),
          cmocka_unit_test(a_campaign_adds_up))
