/* SPDX-License-Identifier: MIT */
/* The fast half of memory against the one with every kind, the constants of memory against their
 * file, the first choice. */
#include "test.h"

#include "base/str.h"
#include "plan/memory/step_memory_int.h"
#include "plan/plan_int.h"
#include "plan/search/search_int.h"
#include "plan/time/step_time_int.h"

#include <math.h>

#define GIB ((double)(1 << 30))

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static int32_t two_to(uint32_t *seed, uint32_t most)
{
    return 1 << next(seed) % (most + 1);
}

static void any_config(uint32_t *seed, struct plan_config *c)
{
    plan_config_init(c);
    c->tp = two_to(seed, 4);
    c->pp = two_to(seed, 4);
    c->cp = two_to(seed, 1);
    c->ep = two_to(seed, 3);
    c->dp = two_to(seed, 6);
    c->micro_batch = two_to(seed, 3);
    c->grad_acc = c->pp * two_to(seed, 3);
    c->vpp = c->pp > 1 && next(seed) % 4 == 0 ? 2 : 1;
    c->schedule = c->vpp > 1 ? PLAN_INTERLEAVED : next(seed) % 8 ? PLAN_1F1B : PLAN_GPIPE;
    c->zero = (int32_t)(next(seed) % 4);
    c->seq_par = c->tp > 1 && next(seed) % 2;
    c->recompute = (enum plan_recompute)(next(seed) % 3);
    c->recompute_every = c->recompute == PLAN_RECOMPUTE_FULL ? two_to(seed, 2) : 1;
    c->precision = (enum plan_precision)(next(seed) % PLAN_PRECISIONS);
    c->optimizer = (enum plan_optimizer)(next(seed) % PLAN_OPTIMIZERS);
    c->lora_rank = next(seed) % 8 ? 0 : 16;
    c->offload_optimizer = next(seed) % 8 == 0;
    c->profile.split = (enum plan_split)(next(seed) % 4);
    c->profile.flash = next(seed) % 4;
    c->profile.fused = next(seed) % 2;
    c->profile.keep_gathered = next(seed) % 2;
    c->profile.fp32_copies = next(seed) % 2;
    c->profile.grad_copy = next(seed) % 2;
    c->profile.dropout = next(seed) % 4 == 0;
}

static bool near(double a, double b, double off)
{
    return fabs(a - b) <= off;
}

TEST(the_fast_half_answers_the_same)
{
    static const char *const names[] = { "llama-3.1-8b", "deepseek-v3", "mixtral-8x7b",
                                         "gpt3-175b" };
    uint32_t seed = 7;
    size_t tried = 0;

    for (int i = 0; i < 40000; i++) {
        struct plan_layer_memory l;
        struct plan_stages s;
        struct plan_memory want;
        struct plan_config c;
        struct plan_counts n;
        struct plan_model m;
        double got;

        if (plan_model_by_name(names[next(&seed) % 4], &m, NULL) || plan_model_counts(&m, &n, NULL))
            fail();
        any_config(&seed, &c);
        if (plan_config_rule(&m, NULL, &c) != PLAN_RULE_OK)
            continue;
        tried++;
        plan_layer_memory_of(&m, &n, &c, &plan_memory_default, &l);
        plan_stages_of(&m, &c, &s);
        got = plan_step_memory(&l, &s, &c);
        plan_memory_of(&m, &n, &c, &plan_memory_default, &want);
        CHECK(fabs(got - (double)want.total) <= PLAN_KINDS);
    }
    CHECK(tried > 1000);
}

TEST(the_layer_half_does_not_depend_on_the_step)
{
    struct plan_layer_memory a, b;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;

    CHECK(!plan_model_by_name("deepseek-v3", &m, NULL) && !plan_model_counts(&m, &n, NULL));
    plan_config_init(&c);
    c.tp = 4;
    c.seq_par = c.profile.keep_gathered = true;
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    plan_layer_memory_of(&m, &n, &c, &plan_memory_default, &a);
    c.pp = 8;
    c.vpp = 2;
    c.dp = 16;
    c.grad_acc = 32;
    c.zero = 2;
    c.schedule = PLAN_INTERLEAVED;
    plan_layer_memory_of(&m, &n, &c, &plan_memory_default, &b);
    CHECK(a.act_dense == b.act_dense && a.act_moe == b.act_moe && a.stays == b.stays &&
          a.logits == b.logits && a.attn == b.attn && a.experts == b.experts &&
          a.context == b.context && a.gather == b.gather && a.expert_replicas == b.expert_replicas);
}

/* Where the device is the slower side, or no pipeline waits, a gathered input of every micro-batch
 * stays; else those of all but two. */
TEST(gathered_inputs_stay_where_the_host_runs_ahead)
{
    struct plan_memory_stage with, without;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;
    double layer;

    CHECK(!plan_model_by_name("llama-3.1-8b", &m, NULL) && !plan_model_counts(&m, &n, NULL));
    plan_config_init(&c);
    c.tp = 8;
    c.pp = 4;
    c.seq_par = true;
    c.grad_acc = 16;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &without);
    c.profile.keep_gathered = true;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &with);
    layer = 4.0 * 4096 * (1 - 1.0 / 8) * 4096; /* two inputs in bf16, but the own eighth */
    CHECK(near((double)(with.kind[PLAN_MEM_ACTIVATIONS] - without.kind[PLAN_MEM_ACTIVATIONS]),
               layer * 8 * (4 - 2), 1));
    c.micro_batch = 16; /* 16 x 4096 x 4096 x 14336 / 64 is above 3e10 */
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &with);
    c.profile.keep_gathered = false;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &without);
    CHECK(near((double)(with.kind[PLAN_MEM_ACTIVATIONS] - without.kind[PLAN_MEM_ACTIVATIONS]),
               16 * layer * 8 * 4, 16));
}

TEST(constants_of_memory_are_the_files)
{
    struct plan_const_table t;
    struct plan_consts k;
    struct arena a = { 0 };
    size_t n = 0;

    CHECK(!plan_consts_table(&a, &t, NULL) && plan_consts_of(&t, "h100", &k));
    for (size_t i = 0; i < t.count; i++)
        n += str_eq(t.rows[i].kind, "memory");
    CHECK(n == plan_memory_const_count);
    for (size_t i = 0; i < plan_memory_const_count; i++) {
        double file, code;

        memcpy(&file, (const char *)&k.memory + plan_memory_const_table[i].offset, sizeof(file));
        memcpy(&code, (const char *)&plan_memory_default + plan_memory_const_table[i].offset,
               sizeof(code));
        CHECK(fabs(file / code - 1) < 1e-5); /* the file has six digits */
    }
    arena_release(&a);
}

static void offer(struct plan_found *f, const struct plan_cluster *cl, double step_s, int32_t tp,
                  int32_t pp)
{
    struct plan_pick p = { .step_s = step_s, .memory = 1 };

    plan_config_init(&p.config);
    p.config.tp = tp;
    p.config.pp = pp;
    found_offer_plain(f, &p, plan_plainness(&p.config, cl));
}

TEST(the_first_choice)
{
    const struct plan_cluster cl = { .node_gpus = 8 };
    struct plan_found f = { 0 };

    CHECK(!plan_choice(&f));
    offer(&f, &cl, 1.0, 1, 2);
    CHECK(plan_choice(&f)->config.pp == 2);
    offer(&f, &cl, 1.05, 2, 1); /* plainer, and slower by more than the model can tell */
    CHECK(plan_choice(&f)->config.pp == 2);
    offer(&f, &cl, 1.03, 4, 1);
    CHECK(plan_choice(&f)->config.tp == 4);
    offer(&f, &cl, 0.9, 2, 2);
    CHECK(plan_choice(&f)->step_s < 1);
}

TEST_MAIN(cmocka_unit_test(the_fast_half_answers_the_same),
          cmocka_unit_test(the_layer_half_does_not_depend_on_the_step),
          cmocka_unit_test(gathered_inputs_stay_where_the_host_runs_ahead),
          cmocka_unit_test(constants_of_memory_are_the_files), cmocka_unit_test(the_first_choice))
