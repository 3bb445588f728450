/* SPDX-License-Identifier: MIT */
/* Advice: published recipes are there with their sources, rules change a rate as their papers say,
 * a machine of 8 H200 gives the reference configuration, clusters and their costs add up. */
#include "test.h"

#include "base/str.h"
#include "plan/advice.h"
#include "plan/campaign/campaign_int.h"
#include "plan/cluster_size.h"

#include <math.h>
#include <string.h>

static void near(double got, double want, double share)
{
    if (!(fabs(got - want) <= share * fabs(want)))
        fail_msg("%g is not %g within %g", got, want, share);
}

static void recipes(struct arena *a, struct plan_recipes *r)
{
    struct err err = { 0 };

    if (plan_recipes_load(a, r, &err))
        fail_msg("%s", err.msg);
}

TEST(recipes_have_sources)
{
    struct plan_recipes r;
    struct arena a = { 0 };

    recipes(&a, &r);
    CHECK(r.count >= 25 && r.rules_count == 3);
    for (size_t i = 0; i < r.count; i++) {
        const struct plan_recipe *x = &r.rows[i];

        if (!*x->source || !(x->lr > 0) || !(x->batch > 0) || !(x->params > 0) || !*x->schedule)
            fail_msg("recipe '%s' lacks something", x->name);
    }
    for (size_t i = 0; i < r.rules_count; i++)
        CHECK(strstr(r.rules[i].source, "arXiv") && *r.rules[i].holds);
    arena_release(&a);
}

TEST(nearest_runs)
{
    const struct plan_recipe *out[PLAN_NEAR_MAX];
    struct plan_recipes r;
    struct arena a = { 0 };

    recipes(&a, &r);
    assert_int_equal(plan_recipes_near(&r, "llm", 405e9, out, 3), 3);
    assert_string_equal(out[0]->name, "Llama 3 405B");
    assert_int_equal(plan_recipes_like(&r, "llm", 405e9, out), 1);
    near(plan_usual_batch(&r, 405e9).usual, 16e6, 1e-9);
    near(plan_usual_batch(&r, 8e9).usual, 4e6, 1e-9); /* of five 7B runs */
    near(plan_usual_lr(&r, 8e9).usual, 3e-4, 1e-9);
    assert_int_equal(plan_usual_sequences(&r, 8e9, 4096), 1024);
    arena_release(&a);
}

TEST(rates_follow_their_rules)
{
    struct plan_lr_change c;
    struct plan_recipes r;
    struct arena a = { 0 };

    recipes(&a, &r);
    plan_lr_change(&r, "sgd", 0.1, 256, 1024, 8192, &c); /* Goyal et al. */
    near(c.lr, 0.4, 1e-12);
    CHECK(str_eq(c.rule->name, "linear") && !c.capped);
    plan_lr_change(&r, "sgd", 0.1, 256, 8192, 8192, &c);
    near(c.lr, 3.2, 1e-12);
    plan_lr_change(&r, "sgd", 0.1, 256, 65536, 8192, &c); /* no further than it was shown */
    near(c.lr, 3.2, 1e-12);
    CHECK(c.capped);
    plan_lr_change(&r, "sgd", 0.4, 1024, 256, 8192, &c); /* and back */
    near(c.lr, 0.1, 1e-12);
    plan_lr_change(&r, "adam", 3e-4, 4e6, 16e6, 0, &c); /* Malladi et al. */
    near(c.lr, 6e-4, 1e-12);
    CHECK(str_eq(c.rule->name, "square root") && c.low < c.lr && c.lr < c.high);
    /* DeepSeek LLM: 7B on 2T tokens had 4.2e-4 and 9.4M tokens a step */
    near(plan_lr_deepseek(6 * 6.9e9 * 2e12), 4.2e-4, 0.03);
    near(plan_batch_deepseek(6 * 6.9e9 * 2e12), 9.4e6, 0.05);
    near(plan_lr_kaplan(1.5e9), 2.9e-4, 0.05);
    arena_release(&a);
}

static void h200(struct plan_machine_want *w)
{
    struct err err = { 0 };

    *w = (struct plan_machine_want){ .gpus = 8, .node_gpus = 8, .cores = 128 };
    assert_int_equal(plan_gpu_by_name("h200", &w->gpu, &err), RC_OK);
}

TEST(eight_h200)
{
    struct plan_machine_want w;
    struct plan_machine m;
    struct err err = { 0 };

    h200(&w);
    assert_int_equal(plan_machine_of(&w, &m, &err), RC_OK);
    CHECK(m.batch_gpu == 32 && m.batch == 256 && m.workers == 2 && m.prefetch == 4 && m.bf16);
    assert_string_equal(m.value[PLAN_SET_PRECISION], "bf16");
    assert_string_equal(m.value[PLAN_SET_PIN], "on");
    assert_string_equal(m.value[PLAN_SET_PERSISTENT], "on");
    assert_string_equal(m.value[PLAN_SET_DROP_LAST], "on");
    assert_string_equal(m.value[PLAN_SET_PARALLEL], "data parallel (DDP)");
    assert_string_equal(m.value[PLAN_SET_SYNC_BN], "synchronised");
    for (int i = 0; i < PLAN_SETTINGS; i++)
        CHECK(strlen(m.why[i]) > 20 && strlen(m.why[i]) < PLAN_WHY_MAX - 1);
}

TEST(a_measured_model_changes_it)
{
    struct plan_machine_want w;
    struct plan_machine m;
    struct err err = { 0 };

    h200(&w);
    w.params = 69e6;
    w.act_bytes = 26 * 0x1p30;
    w.flops_sample = 3.9e12;
    w.cpu_s = 0.02;
    w.efficiency = 0.2;
    assert_int_equal(plan_machine_of(&w, &m, &err), RC_OK);
    assert_int_equal(m.batch_gpu, 4); /* 4 x 26 GiB of 126 */
    near(m.samples_s, 8 * 0.2 * 989e12 / 3.9e12, 1e-9);
    assert_int_equal(m.workers, 2); /* 50.7 samples/s x 20 ms x 1.25 is 1.3 */
    w.cpu_s = 0.2;
    assert_int_equal(plan_machine_of(&w, &m, &err), RC_OK);
    assert_int_equal(m.workers, 13);
    w.cpu_s = 2;
    assert_int_equal(plan_machine_of(&w, &m, &err), RC_OK);
    assert_int_equal(m.workers, 15); /* all that 128 cores leave */
    CHECK(strstr(m.why[PLAN_SET_WORKERS], "hold the GPUs up"));
    w.act_bytes = 200 * 0x1p30;
    assert_int_equal(plan_machine_of(&w, &m, &err), RC_LIMIT);
    CHECK(strstr(err.msg, "one sample does not fit"));
}

/* The figures of the spreadsheet that the prices come from. */
TEST(switches_of_a_fat_tree)
{
    static const int64_t rows[][3] = { { 1, 0, 0 },     { 64, 8, 1 },     { 128, 48, 2 },
                                       { 512, 192, 2 }, { 2048, 768, 2 }, { 4096, 2560, 3 } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int64_t layers;

        assert_int_equal(plan_switches(rows[i][0], &layers), rows[i][1]);
        assert_int_equal(layers, rows[i][2]);
    }
}

TEST(the_smallest_cluster_in_time)
{
    struct plan_size_want w = { .best = { .batch = 1024, .seq = 4096, .free_share = 0.1 } };
    struct plan_cost_want cw = { 0 };
    struct plan_sized s, before, more;
    struct plan_facts f;
    struct plan_counts n;
    struct plan_model m;
    struct plan_cost cost;
    struct plan_gpu gpu;
    struct arena a = { 0 };
    struct err err = { 0 };

    assert_int_equal(plan_facts_load(&a, &f, &err), RC_OK);
    assert_int_equal(plan_model_by_name("llama-2-7b", &m, &err), RC_OK);
    assert_int_equal(plan_model_counts(&m, &n, &err), RC_OK);
    assert_int_equal(plan_gpu_by_name("h100", &gpu, &err), RC_OK);
    w.campaign.tokens = 1e12;
    w.days = 30;
    if (plan_size_for(&f, &m, &n, &gpu, &w, &s, &before, &err))
        fail_msg("%s", err.msg);
    CHECK(s.campaign.days.usual <= 30 && before.campaign.days.usual > 30);
    CHECK(s.cluster.gpus > before.cluster.gpus && s.cluster.gpus <= 2 * before.cluster.gpus);
    w.sure = true;
    assert_int_equal(plan_size_for(&f, &m, &n, &gpu, &w, &more, &before, &err), RC_OK);
    CHECK(more.cluster.gpus >= s.cluster.gpus && more.campaign.days.high <= 30);
    plan_cost_of(&f, &s, 1e12, &cw, &cost);
    CHECK(cost.rent_known && cost.buy_known);
    near(cost.rent_gpus.usual, s.campaign.gpu_hours.usual * gpu.price_usd_h, 1e-9);
    near(cost.data_bytes, 4e12, 1e-12);
    near(cost.buy_gpus.usual, (double)cost.nodes * 310000, 1e-12);
    CHECK(cost.rent_storage.usual > 0 && cost.rent_network.usual > 0 && cost.buy_network.usual > 0);
    w.days = 1e-3;
    assert_int_equal(plan_size_for(&f, &m, &n, &gpu, &w, &s, &before, &err), RC_LIMIT);
    CHECK(strstr(err.msg, "at best"));
    arena_release(&a);
}

TEST_MAIN(cmocka_unit_test(recipes_have_sources), cmocka_unit_test(nearest_runs),
          cmocka_unit_test(rates_follow_their_rules), cmocka_unit_test(eight_h200),
          cmocka_unit_test(a_measured_model_changes_it), cmocka_unit_test(switches_of_a_fat_tree),
          cmocka_unit_test(the_smallest_cluster_in_time))
