/* SPDX-License-Identifier: MIT */
/* Bytes against published ones, the rules with their words, stages, and the cheapest change. */
#include "test.h"

#include "base/str.h"
#include "plan/plan.h"
#include "plan/plan_int.h"

#include <math.h>
#include <string.h>

#define GIB ((double)(1 << 30))

static void known(const char *name, struct plan_model *m, struct plan_counts *n)
{
    struct err err = { 0 };

    if (plan_model_by_name(name, m, &err) || plan_model_counts(m, n, &err))
        fail_msg("%s", err.msg);
}

/* Korthikanti et al. 2022, Figure 1 (first stage; no flash attention, dropout).  Their static
 * bytes leave the embedding out; ours have it. */
TEST(korthikanti_figure_1)
{
    static const struct {
        const char *model;
        int32_t pp, vpp, mbs, ga;
        bool best; /* sequence parallel and selective recompute */
        double static_gib, act_gib;
    } rows[] = {
        { "gpt3-175b", 8, 3, 1, 64, false, 45.56, 66.84 },
        { "gpt3-175b", 8, 3, 1, 64, true, 45.56, 12.35 },
        { "gpt-529.6b", 35, 3, 1, 280, false, 31.64, 114.02 },
        { "gpt-529.6b", 35, 3, 1, 280, true, 31.64, 23.08 },
        { "gpt-1008.0b", 64, 1, 1, 512, false, 32.96, 131.25 },
        { "gpt-1008.0b", 64, 1, 1, 512, true, 32.96, 26.56 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct plan_memory_stage s;
        struct plan_config c;
        struct plan_counts n;
        struct plan_model m;
        double fixed, act, table;

        known(rows[i].model, &m, &n);
        plan_config_init(&c);
        c.tp = 8;
        c.pp = rows[i].pp;
        c.vpp = rows[i].vpp;
        c.micro_batch = rows[i].mbs;
        c.grad_acc = rows[i].ga;
        c.seq = 2048;
        c.seq_par = rows[i].best;
        c.recompute = rows[i].best ? PLAN_RECOMPUTE_SELECTIVE : PLAN_RECOMPUTE_NONE;
        c.schedule = c.vpp > 1 ? PLAN_INTERLEAVED : PLAN_1F1B;
        c.profile = (struct plan_profile){ .dropout = true, .fused = true };
        CHECK(plan_config_rule(&m, NULL, &c) == PLAN_RULE_OK);
        plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
        table = ((double)n.embed / 8 + (double)n.positions) * 18 / GIB;
        fixed = (double)(s.kind[PLAN_MEM_WEIGHTS] + s.kind[PLAN_MEM_GRADS] +
                         s.kind[PLAN_MEM_OPTIMIZER]) /
                    GIB -
                table;
        act = (double)s.kind[PLAN_MEM_ACTIVATIONS] / GIB;
        if (fabs(act / rows[i].act_gib - 1) > 0.025 || fabs(fixed / rows[i].static_gib - 1) > 0.01)
            fail_msg("%s: static %.2f (%.2f), activations %.2f (%.2f)", rows[i].model, fixed,
                     rows[i].static_gib, act, rows[i].act_gib);
    }
}

/* Korthikanti's table: sbh(34 + 5as/h), (10 + 24/t + 5as/ht), all over t, without 5as. */
TEST(korthikanti_formulas)
{
    struct plan_act_part parts[PLAN_ACT_PARTS_MAX];
    static const struct {
        int32_t tp;
        bool sp;
        enum plan_recompute recompute;
    } rows[] = { { 1, false, PLAN_RECOMPUTE_NONE },
                 { 8, false, PLAN_RECOMPUTE_NONE },
                 { 8, true, PLAN_RECOMPUTE_NONE },
                 { 8, true, PLAN_RECOMPUTE_SELECTIVE } };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        double sum = 0, h, a, t = rows[i].tp, want, core;
        struct plan_config c;
        struct plan_counts n;
        struct plan_model m;
        size_t count;

        known("gpt3-175b", &m, &n);
        h = (double)m.hidden;
        a = (double)m.heads;
        plan_config_init(&c);
        c.tp = rows[i].tp;
        c.seq = 2048;
        c.seq_par = rows[i].sp;
        c.recompute = rows[i].recompute;
        c.profile = (struct plan_profile){ .dropout = true, .fused = true };
        count = plan_act_parts(&m, &c, &plan_memory_default, false, parts);
        for (size_t k = 0; k < count; k++)
            sum += parts[k].bytes;
        core = rows[i].recompute == PLAN_RECOMPUTE_NONE ? 5 * a * 2048 / t : 0;
        want = rows[i].sp ? 34 * h / t + core : 10 * h + 24 * h / t + core;
        CHECK(fabs(sum / want - 1) < 1e-9);
    }
}

TEST(static_bytes_are_exact)
{
    struct plan_memory_stage s;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;

    known("llama-3.1-8b", &m, &n);
    plan_config_init(&c);
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.params == 8030261248);
    CHECK(s.kind[PLAN_MEM_WEIGHTS] == 2 * s.params);
    CHECK(s.kind[PLAN_MEM_GRADS] == 4 * s.params);
    CHECK(s.kind[PLAN_MEM_OPTIMIZER] == 12 * s.params);
    c.dp = 8;
    c.zero = 1;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_GRADS] == 4 * s.params &&
          s.kind[PLAN_MEM_OPTIMIZER] == 12 * s.params / 8);
    c.zero = 2;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_WEIGHTS] == 2 * s.params && s.kind[PLAN_MEM_GRADS] == 4 * s.params / 8);
    c.zero = 3;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_WEIGHTS] == 2 * s.params / 8);
    c.precision = PLAN_FSDP_MIXED; /* fp32 shards; 16 bits gathered, which ZeRO 2 keeps */
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_WEIGHTS] == 4 * s.params / 8);
    c.zero = 2;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_WEIGHTS] == 4 * s.params / 8 + 2 * s.params);
    c.precision = PLAN_BF16;
    c.zero = 0;
    c.lora_rank = 16;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_OPTIMIZER] < 12 * s.params / 100);
    c.lora_rank = 0;
    c.offload_optimizer = true;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_OPTIMIZER] == 0);
    /* a plain script on one GPU: what the step makes is where the moments are */
    c.dp = 1;
    c.precision = PLAN_FSDP_MIXED;
    c.profile.stack = PLAN_STACK_TORCH;
    c.recompute = PLAN_RECOMPUTE_FULL;
    c.seq = 512;
    for (int opt = PLAN_ADAM; opt <= PLAN_SGD; opt++) {
        c.optimizer = (enum plan_optimizer)opt;
        plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
        CHECK(s.kind[PLAN_MEM_GRADS] <= 4 * s.params);
    }
}

/* All stages and all tensor-parallel ranks together hold every parameter, norms more than once. */
TEST(experts_are_cut_by_their_own_sizes)
{
    struct plan_memory_stage s;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;
    uint64_t whole;

    known("deepseek-v3", &m, &n);
    plan_config_init(&c);
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    whole = s.params;
    CHECK(whole == n.total);
    c.ep = 64;
    c.dp = 64;
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.params == whole - 58 * 256 * n.expert + 58 * 4 * n.expert);
    c.zero = 1; /* experts have one replica: their optimizer is not cut again */
    plan_memory_stage(&m, &n, &c, &plan_memory_default, 0, &s);
    CHECK(s.kind[PLAN_MEM_OPTIMIZER] > 12 * 58 * 4 * n.expert);
}

TEST(stages_hold_every_layer_once)
{
    struct plan_counts n;
    struct plan_model m;

    known("llama-3.1-405b", &m, &n);
    for (int split = PLAN_SPLIT_EVEN; split <= PLAN_SPLIT_COST; split++)
        for (int32_t pp = 1; pp < 126; pp++) {
            struct plan_config c;
            struct plan_stage s;
            int64_t next = 0;

            plan_config_init(&c);
            c.pp = pp;
            c.profile.split = (enum plan_split)split;
            for (int32_t i = 0; i < pp; i++) {
                plan_stage_of(&m, &c, i, &s);
                /* the head alone may be a stage where costs are balanced */
                CHECK(s.first == next && s.count >= (split == PLAN_SPLIT_COST ? 0 : 1));
                CHECK(s.embed == (i == 0) && s.head == (i == pp - 1));
                next += s.count;
            }
            CHECK(next == m.layers);
        }
}

TEST(llama_405b_has_a_layer_less_at_both_ends)
{
    struct plan_config c;
    struct plan_counts n;
    struct plan_stage s;
    struct plan_model m;

    known("llama-3.1-405b", &m, &n);
    plan_config_init(&c);
    c.pp = 16;
    c.profile.split = PLAN_SPLIT_ENDS_LESS;
    for (int32_t i = 0; i < 16; i++) {
        plan_stage_of(&m, &c, i, &s);
        CHECK(s.count == (i == 0 || i == 15 ? 7 : 8));
    }
}

TEST(micro_batches_in_flight)
{
    struct plan_config c;

    plan_config_init(&c);
    c.pp = 4;
    c.grad_acc = 16;
    CHECK(plan_stage_in_flight(&c, 0) == 4 && plan_stage_in_flight(&c, 3) == 1);
    c.grad_acc = 2;
    CHECK(plan_stage_in_flight(&c, 0) == 2);
    c.grad_acc = 16;
    c.vpp = 2; /* p v (1 + (p-1)/pv) chunks on the first stage */
    CHECK(plan_stage_in_flight(&c, 0) == 4 * 2 + 3);
    CHECK(plan_stage_in_flight(&c, 3) == 4 + 1);
    c.vpp = 1;
    c.schedule = PLAN_GPIPE;
    CHECK(plan_stage_in_flight(&c, 3) == 16);
}

struct rule_case {
    enum plan_rule rule;
    const char *hint;
    struct plan_config c;
};
#define CUT(...)                                                                                   \
    {                                                                                              \
        .tp = 1, .pp = 1, .vpp = 1, .cp = 1, .ep = 1, .dp = 1, .micro_batch = 1, .grad_acc = 1,    \
        .seq = 4096, .recompute_every = 1, __VA_ARGS__                                             \
    }

TEST(every_rule_has_a_name_and_the_nearest_value)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#endif
    static const struct rule_case rows[] = {
        { PLAN_RULE_RANGE, "is 1.", CUT(.tp = 0) },
        { PLAN_RULE_RANGE, "is 16777216.", CUT(.micro_batch = INT32_MAX) },
        { PLAN_RULE_RANGE, "is 3.", CUT(.zero = 9) },
        { PLAN_RULE_RANGE, "is 1024.", CUT(.micro_batch = 2000, .seq = 1 << 26) },
        { PLAN_RULE_RANGE, "is 1048576 GPUs.", CUT(.tp = 1 << 20, .cp = 2) },
        { PLAN_RULE_TP_HEADS, "is 2.", CUT(.tp = 3) },
        { PLAN_RULE_TP_KV_HEADS, "is 8. Megatron-LM can", CUT(.tp = 16) },
        { PLAN_RULE_SP_NEEDS_TP, "of 2.", CUT(.seq_par = true) },
        { PLAN_RULE_SP_SEQ, "is 4096.", CUT(.tp = 8, .seq_par = true, .seq = 4097) },
        { PLAN_RULE_CP_SEQ, "is 4096.", CUT(.cp = 8, .seq = 4100) },
        { PLAN_RULE_PP_LAYERS, "is 16.", CUT(.pp = 32) },
        { PLAN_RULE_PP_EVEN, "is 4.", CUT(.pp = 5) },
        { PLAN_RULE_VPP_NEEDS_PP, "is 1.", CUT(.vpp = 2) },
        { PLAN_RULE_VPP_LAYERS, "is 2.", CUT(.pp = 4, .vpp = 3, .grad_acc = 4) },
        { PLAN_RULE_VPP_BATCH, "is 8: a batch of 48.",
          CUT(.pp = 4, .vpp = 2, .grad_acc = 6, .dp = 2, .micro_batch = 3) },
        { PLAN_RULE_EP_EXPERTS, "is 2.", CUT(.ep = 3, .dp = 3) },
        { PLAN_RULE_EP_GROUP, "expert-parallel size is 2.", CUT(.ep = 4, .dp = 2) },
        { PLAN_RULE_EP_GROUP, "size is 1.", CUT(.ep = 8, .dp = 3) }, /* 3 experts are none of 8 */
        { PLAN_RULE_EP_GROUP, "size is 4.", CUT(.ep = 8, .etp = 2, .dp = 4, .tp = 2) },
        { PLAN_RULE_EP_GROUP, "tensor-parallel size of experts is 1.", CUT(.etp = 2, .dp = 3) },
        { PLAN_RULE_EP_GROUP, "tensor-parallel size of experts is 2.",
          CUT(.ep = 2, .etp = 8, .dp = 4) },
        { PLAN_RULE_EP_GROUP, "size is 1, with whole experts", CUT(.ep = 2, .etp = 2, .dp = 3) },
        { PLAN_RULE_ETP_FFN, "is 2.", CUT(.etp = 3, .dp = 3) },
        { PLAN_RULE_SHARD_GROUP, "is 2.", CUT(.shard = 3, .dp = 4) },
        { PLAN_RULE_ZERO_OFFLOAD, "stage 3.", CUT(.offload_params = true) },
        { PLAN_RULE_RECOMPUTE_EVERY, "is 1.", CUT(.recompute_every = 2) },
        { PLAN_RULE_OK, "", CUT(.tp = 8, .pp = 4, .dp = 2, .seq_par = true, .ep = 8) },
    };
#pragma GCC diagnostic pop
    struct plan_counts n;
    struct plan_model m;

    known("mixtral-8x7b", &m, &n);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct err err = { 0 };
        enum rc rc = plan_config_check(&m, NULL, &rows[i].c, &err);

        if (plan_config_rule(&m, NULL, &rows[i].c) != rows[i].rule ||
            !strstr(err.hint, rows[i].hint))
            fail_msg("row %zu: %s / %s", i, err.msg, err.hint);
        CHECK((rc == RC_OK) == (rows[i].rule == PLAN_RULE_OK));
        CHECK(rc == RC_OK || strstr(err.msg, plan_rule_names[rows[i].rule]));
    }
    for (int i = 0; i < PLAN_RULES; i++)
        CHECK(plan_rule_names[i]);
}

TEST(gpus_of_the_catalogue)
{
    static const char *const names[] = { "A100-40GB", "a100", "NVIDIA H100", "h200",
                                         "B200",      "l40s", "RTX 4090",    "gb200" };
    struct err err = { 0 };
    struct plan_gpu g;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        CHECK(!plan_gpu_by_name(names[i], &g, NULL));
        CHECK(g.mem_bytes > 20 * GIB && g.mem_bytes_s > 5e11 && g.bf16_flops > 1e14);
    }
    CHECK(!plan_gpu_by_name("h200", &g, NULL));
    CHECK(strstr(g.note, "H100 constants"));
    CHECK(plan_gpu_by_name("h101", &g, &err) == RC_USAGE && strstr(err.hint, "'h100'"));
}

TEST(the_cheapest_change_fits)
{
    static const struct {
        const char *model, *gpu;
        int64_t gpus;
        const char *step;
    } rows[] = {
        { "llama-3.1-8b", "h100", 8, "--zero 1" },
        { "llama-3.1-70b", "h100", 64, "" },
        { "mixtral-8x22b", "h200", 128, "" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct plan_cluster cl;
        struct plan_config c;
        struct plan_counts n;
        struct plan_model m;
        struct plan_gpu g;
        struct plan_fix fix;
        uint64_t limit;

        known(rows[i].model, &m, &n);
        CHECK(!plan_gpu_by_name(rows[i].gpu, &g, NULL));
        plan_cluster_usual(&g, rows[i].gpus, &cl);
        plan_config_init(&c);
        c.dp = (int32_t)rows[i].gpus;
        limit = (uint64_t)g.mem_bytes;
        CHECK(plan_memory_fix(&(struct plan_job){ &m, &n, &cl, &c, &plan_memory_default, limit },
                              &fix));
        CHECK(fix.steps >= 1 && fix.memory.total <= limit);
        CHECK(plan_config_rule(&m, &cl, &fix.config) == PLAN_RULE_OK);
        CHECK(fix.config.dp * fix.config.grad_acc * fix.config.micro_batch == rows[i].gpus);
        if (!strstr(fix.step[0], rows[i].step))
            fail_msg("%s: %s", rows[i].model, fix.step[0]);
    }
}

/* ZeRO over one replica shards nothing: no change ends there, and a stage that was given goes. */
TEST(memory_fix_never_leaves_zero_over_one_replica)
{
    struct plan_cluster cl;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;
    struct plan_gpu g;
    struct plan_fix fix;

    known("llama-3.1-70b", &m, &n);
    CHECK(!plan_gpu_by_name("h100", &g, NULL));
    plan_cluster_usual(&g, 8, &cl);
    for (int32_t zero = 0; zero <= 3; zero++) {
        plan_config_init(&c);
        c.dp = 8;
        c.zero = zero;
        if (!plan_memory_fix(
                &(struct plan_job){ &m, &n, &cl, &c, &plan_memory_default, (uint64_t)g.mem_bytes },
                &fix))
            continue;
        CHECK(!fix.config.zero || fix.config.dp * fix.config.cp > 1);
        CHECK(!zero || fix.config.zero || strstr(fix.step[fix.steps - 1], "without --zero"));
    }
}

/* More of anything that takes memory never takes less, over a grid. */
TEST(memory_grows_with_what_it_holds)
{
    struct plan_memory small, large;
    struct plan_counts n;
    struct plan_model m;

    known("llama-3.1-8b", &m, &n);
    for (int32_t tp = 1; tp <= 8; tp *= 2)
        for (int32_t pp = 1; pp <= 16; pp *= 2)
            for (int32_t zero = 0; zero <= 3; zero++) {
                struct plan_config c;

                plan_config_init(&c);
                c.tp = tp;
                c.pp = pp;
                c.zero = zero;
                c.dp = 4;
                c.grad_acc = 32;
                plan_memory_of(&m, &n, &c, &plan_memory_default, &small);
                c.micro_batch = 2;
                plan_memory_of(&m, &n, &c, &plan_memory_default, &large);
                CHECK(large.total > small.total);
                c.recompute = PLAN_RECOMPUTE_FULL;
                plan_memory_of(&m, &n, &c, &plan_memory_default, &small);
                CHECK(small.total < large.total);
            }
}

/* plan_memory_of() looks at few stages where they are alike: it must find what all of them say. */
TEST(the_fullest_stage_is_found)
{
    static const char *const names[] = { "llama-3.1-8b", "deepseek-v3", "mixtral-8x7b", "gpt2" };

    for (size_t k = 0; k < ARRAY_SIZE(names); k++)
        for (int split = PLAN_SPLIT_EVEN; split <= PLAN_SPLIT_COST; split++)
            for (int32_t pp = 1; pp < 33; pp++)
                for (int32_t ga = 1; ga <= 64; ga *= 4) {
                    struct plan_memory_stage s;
                    struct plan_memory got;
                    struct plan_config c;
                    struct plan_counts n;
                    struct plan_model m;
                    uint64_t most = 0;

                    known(names[k], &m, &n);
                    plan_config_init(&c);
                    c.pp = pp;
                    c.grad_acc = ga;
                    c.profile.split = (enum plan_split)split;
                    if (plan_config_rule(&m, NULL, &c) != PLAN_RULE_OK)
                        continue;
                    plan_memory_of(&m, &n, &c, &plan_memory_default, &got);
                    for (int32_t i = 0; i < pp; i++) {
                        plan_memory_stage(&m, &n, &c, &plan_memory_default, i, &s);
                        most = s.total > most ? s.total : most;
                    }
                    CHECK(got.total == most);
                }
}

TEST(zero_2_in_a_pipeline_keeps_whole_gradients)
{
    struct plan_memory one, two;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;

    known("gpt3-175b", &m, &n);
    plan_config_init(&c);
    c.tp = c.pp = c.dp = 8;
    c.grad_acc = 16;
    c.zero = 1;
    plan_memory_of(&m, &n, &c, &plan_memory_default, &one);
    c.zero = 2;
    plan_memory_of(&m, &n, &c, &plan_memory_default, &two);
    CHECK(one.kind[PLAN_MEM_GRADS] == two.kind[PLAN_MEM_GRADS] && one.total == two.total);
    c.pp = 1;
    c.dp = 64;
    plan_memory_of(&m, &n, &c, &plan_memory_default, &two);
    CHECK(two.kind[PLAN_MEM_GRADS] < one.kind[PLAN_MEM_GRADS]);
}

static int64_t largest(const char *name, const struct plan_config *base, double gib)
{
    struct plan_config c = *base;
    struct plan_memory got;
    struct plan_counts n;
    struct plan_model m;

    known(name, &m, &n);
    for (c.micro_batch = 1;; c.micro_batch++) {
        plan_memory_of(&m, &n, &c, &plan_memory_default, &got);
        if ((double)(got.total - got.kind[PLAN_MEM_CONTEXT]) > gib * GIB)
            return c.micro_batch - 1;
    }
}

/* Plain scripts on an H200 whose allocator was capped. */
TEST(plain_scripts)
{
    struct plan_act_part parts[PLAN_ACT_PARTS_MAX];
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;
    double sum = 0;
    size_t count;

    plan_config_init(&c);
    c.profile.stack = PLAN_STACK_TORCH;
    c.precision = PLAN_PURE16;
    c.profile.fused = false;
    /* 5 ran in one script and ran out in another, by what the allocator could not join */
    CHECK(largest("llama-3.2-1b", &c, 79.1) == 4);
    c.recompute = PLAN_RECOMPUTE_FULL;
    CHECK(largest("llama-3.2-1b", &c, 45) == 4);  /* 4 ran, 5 did not */
    CHECK(largest("llama-3.1-8b", &c, 100) == 5); /* 6 did not run */
    c.recompute = PLAN_RECOMPUTE_NONE;
    CHECK(largest("llama-3.2-3b", &c, 79.1) == 2); /* as each of these: it ran, one more did not */
    CHECK(largest("llama-3.1-8b", &c, 120) == 2);
    c.precision = PLAN_FSDP_MIXED;
    CHECK(largest("llama-3.2-1b", &c, 56) == 2 && largest("llama-3.2-3b", &c, 92) == 1);
    c.profile.fused = true;
    CHECK(largest("llama-3.2-1b", &c, 46) == 3);
    c.recompute = PLAN_RECOMPUTE_FULL;
    CHECK(largest("llama-3.2-1b", &c, 42) == 6);
    c.recompute = PLAN_RECOMPUTE_NONE;
    c.precision = PLAN_PURE16;
    CHECK(largest("llama-3.2-1b", &c, 42) == 4 && largest("llama-3.2-3b", &c, 60) == 2);
    c.profile.fused = false;
    /* what autograd saves of a transformers layer: 16h, q, k, v, output, four of the MLP */
    known("llama-3.2-1b", &m, &n);
    count = plan_act_parts(&m, &c, &plan_memory_default, false, parts);
    for (size_t i = 0; i < count; i++)
        sum += parts[i].bytes;
    CHECK(fabs(sum - (16 * 2048 + 4 * 2048 + 4 * 512 + 8 * 8192 + 4 * 32)) < 1);
    c.precision = PLAN_FSDP_MIXED;
    count = plan_act_parts(&m, &c, &plan_memory_default, false, parts);
    sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += parts[i].bytes;
    CHECK(fabs(sum - (26 * 2048 + 4 * 2048 + 4 * 512 + 8 * 8192 + 4 * 32)) < 1);
}

/* fp8 stores less, not more: fp8 weights with their transpose, 16-bit gradients, fp8 inputs. */
TEST(fp8_takes_less_than_bf16)
{
    static const char *const names[] = { "llama-3.1-8b", "llama-3.1-70b", "deepseek-v3" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct plan_memory bf16, fp8, less;
        struct plan_config c;
        struct plan_counts n;
        struct plan_model m;

        known(names[i], &m, &n);
        plan_config_init(&c);
        c.dp = 8;
        c.zero = 1;
        plan_memory_of(&m, &n, &c, &plan_memory_default, &bf16);
        c.precision = PLAN_FP8;
        plan_memory_of(&m, &n, &c, &plan_memory_default, &fp8);
        CHECK(fp8.total < bf16.total);
        CHECK(fp8.kind[PLAN_MEM_ACTIVATIONS] < bf16.kind[PLAN_MEM_ACTIVATIONS]);
        c.optimizer = PLAN_ADAM16;
        plan_memory_of(&m, &n, &c, &plan_memory_default, &less);
        CHECK(less.kind[PLAN_MEM_OPTIMIZER] * 3 <= fp8.kind[PLAN_MEM_OPTIMIZER] * 2 + 3);
        for (uint32_t ops = 1; ops <= PLAN_OPS_ALL; ops = 2 * ops + 1) {
            plan_memory_of(&m, &n, &c, &plan_memory_default, &fp8);
            c.recompute_ops = ops;
            plan_memory_of(&m, &n, &c, &plan_memory_default, &less);
            CHECK(less.kind[PLAN_MEM_ACTIVATIONS] <= fp8.kind[PLAN_MEM_ACTIVATIONS]);
        }
    }
}

/* Files of the same models that others quantised with double quantisation: unsloth's
 * Meta-Llama-3.1-70B-bnb-4bit has 39.5 GB, Meta-Llama-3.1-8B-bnb-4bit 5.70 GB. */
static void frozen_weights_are_as_large_as_published_files(void **state)
{
    static const struct {
        const char *name;
        double gb;
    } rows[] = { { "llama-3.1-70b", 39.5 }, { "llama-3.1-8b", 5.70 } };
    struct plan_memory got;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;

    (void)state;
    plan_config_init(&c);
    c.lora_rank = 1;
    c.base_bits = 4;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        known(rows[i].name, &m, &n);
        plan_memory_of(&m, &n, &c, &plan_memory_default, &got);
        CHECK(fabs((double)got.kind[PLAN_MEM_WEIGHTS] / 1e9 / rows[i].gb - 1) < 0.015);
    }
}

/* 16 bits without a master copy: the optimizer's bytes are the moments alone. */
static void moments_are_as_the_optimizer_says(void **state)
{
    static const struct {
        enum plan_optimizer optimizer;
        double bytes; /* a parameter */
    } rows[] = { { PLAN_ADAM, 4 }, { PLAN_ADAM16, 4 }, { PLAN_ADAM8, 2 }, { PLAN_SGD, 2 } };
    struct plan_memory got;
    struct plan_config c;
    struct plan_counts n;
    struct plan_model m;

    (void)state;
    known("llama-3.1-8b", &m, &n);
    plan_config_init(&c);
    c.precision = PLAN_PURE16;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        c.optimizer = rows[i].optimizer;
        plan_memory_of(&m, &n, &c, &plan_memory_default, &got);
        CHECK(fabs((double)got.kind[PLAN_MEM_OPTIMIZER] / ((double)n.total * rows[i].bytes) - 1) <
              0.001);
    }
}

TEST_MAIN(cmocka_unit_test(fp8_takes_less_than_bf16),
          cmocka_unit_test(moments_are_as_the_optimizer_says),
          cmocka_unit_test(frozen_weights_are_as_large_as_published_files),
          cmocka_unit_test(zero_2_in_a_pipeline_keeps_whole_gradients),
          cmocka_unit_test(plain_scripts), cmocka_unit_test(korthikanti_figure_1),
          cmocka_unit_test(korthikanti_formulas), cmocka_unit_test(static_bytes_are_exact),
          cmocka_unit_test(experts_are_cut_by_their_own_sizes),
          cmocka_unit_test(stages_hold_every_layer_once),
          cmocka_unit_test(llama_405b_has_a_layer_less_at_both_ends),
          cmocka_unit_test(micro_batches_in_flight),
          cmocka_unit_test(every_rule_has_a_name_and_the_nearest_value),
          cmocka_unit_test(gpus_of_the_catalogue), cmocka_unit_test(the_cheapest_change_fits),
          cmocka_unit_test(memory_fix_never_leaves_zero_over_one_replica),
          cmocka_unit_test(memory_grows_with_what_it_holds),
          cmocka_unit_test(the_fullest_stage_is_found))
