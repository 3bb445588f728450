/* SPDX-License-Identifier: MIT */
/* The search against loops that know nothing of it: every configuration they can write down, each
 * asked for its rule, its memory and its time by the functions that take one at a time. */
#include "test.h"

#include "base/str.h"
#include "plan/plan_int.h"
#include "plan/search.h"
#include "plan/search/search_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct plan_model m;
    struct plan_counts n;
    struct plan_cluster cl;
    struct plan_consts k;
    struct plan_space s;
};

static void job_of(struct job *j, const char *model, const char *gpu, int64_t gpus, int64_t batch,
                   int64_t seq)
{
    struct plan_gpu g;

    *j = (struct job){ 0 };
    assert_int_equal(plan_model_by_name(model, &j->m, NULL), RC_OK);
    assert_int_equal(plan_model_counts(&j->m, &j->n, NULL), RC_OK);
    assert_int_equal(plan_gpu_by_name(gpu, &g, NULL), RC_OK);
    assert_int_equal(plan_consts_builtin(&g, &j->k, NULL), RC_OK);
    plan_cluster_usual(&g, gpus, &j->cl);
    j->s = (struct plan_space){ .model = &j->m,
                                .counts = &j->n,
                                .cluster = &j->cl,
                                .consts = &j->k,
                                .batch = batch,
                                .limit = (uint64_t)(0.9 * (double)g.mem_bytes) };
    plan_config_init(&j->s.base);
    j->s.base.seq = seq;
}

/* ---- by force ---- */
enum { ALL_MAX = 1 << 20 };
struct force {
    struct job *j;
    struct plan_pick *all; /* those that fit */
    size_t count;
    uint64_t tried, excluded[PLAN_RULES];
};

static void force_one(struct force *f, const struct plan_config *c)
{
    const struct plan_space *s = &f->j->s;
    enum plan_rule rule = s->batch % ((int64_t)c->dp * c->micro_batch)
                              ? PLAN_RULE_BATCH
                              : plan_config_rule(s->model, s->cluster, c);

    if (rule != PLAN_RULE_OK) {
        f->excluded[rule]++;
        return;
    }
    f->tried++;
    assert_true(f->count < ALL_MAX);
    plan_pick_of(s, c, &f->all[f->count]);
    if (f->all[f->count].memory <= s->limit)
        f->count++;
}

static void force_inner(struct force *f, struct plan_config c)
{
    int64_t group = (int64_t)c.dp * c.cp, chunk = plan_ceil_div(f->j->m.layers, c.pp * c.vpp);

    for (c.recompute = 0; c.recompute < 3; c.recompute++)
        for (c.recompute_every = 1; c.recompute_every <= chunk; c.recompute_every++) {
            if (c.recompute == PLAN_RECOMPUTE_FULL ? chunk % c.recompute_every
                                                   : c.recompute_every > 1)
                continue;
            for (c.zero = 0; c.zero <= (group > 1 ? 3 : 0); c.zero++)
                for (int32_t shard = 2; shard <= plan_max(2, group); shard++) {
                    if (group > 1 && group % shard)
                        continue;
                    c.shard = c.zero == 0 || shard >= group ? 0 : shard;
                    if (c.zero == 0 && shard > 2 && group % 2 == 0)
                        continue; /* once */
                    if (c.zero == 0 && group % 2 && shard < group)
                        continue;
                    if (c.zero == 2 && c.pp > 1)
                        continue; /* ZeRO 1 by another name */
                    force_one(f, &c);
                }
        }
}

static void force_pipeline(struct force *f, struct plan_config c)
{
    for (c.vpp = 1; c.vpp <= f->j->m.layers; c.vpp++) {
        if (f->j->m.layers % c.vpp)
            continue;
        for (int gpipe = 0; gpipe < (c.vpp == 1 && c.pp > 1 ? 2 : 1); gpipe++)
            for (int sp = 0; sp < 2; sp++) {
                c.seq_par = sp;
                c.schedule = c.vpp > 1 ? PLAN_INTERLEAVED : gpipe ? PLAN_GPIPE : PLAN_1F1B;
                force_inner(f, c);
            }
    }
}

static void force_all(struct force *f)
{
    const struct plan_space *s = &f->j->s;
    int64_t gpus = s->cluster->gpus, experts = plan_max(1, s->model->experts);
    struct plan_config c = s->base;

    for (c.tp = 1; c.tp <= gpus; c.tp++)
        for (c.pp = 1; c.tp * c.pp <= gpus; c.pp++)
            for (c.cp = 1; c.tp * c.pp * c.cp <= gpus; c.cp++)
                for (c.ep = 1; c.ep <= experts; c.ep++)
                    for (c.micro_batch = 1; c.micro_batch <= s->batch; c.micro_batch++)
                        for (int etp = 0; etp < (s->model->experts && c.tp > 1 ? 2 : 1); etp++) {
                            if (gpus % (c.tp * c.pp * c.cp) || experts % c.ep ||
                                s->batch % c.micro_batch)
                                continue;
                            c.etp = s->model->experts ? (etp ? c.tp : 1) : 0;
                            c.dp = (int32_t)(gpus / (c.tp * c.pp * c.cp));
                            c.grad_acc = (int32_t)plan_max(1, s->batch / (c.dp * c.micro_batch));
                            force_pipeline(f, c);
                        }
}

static int by_order(const void *a, const void *b)
{
    return plan_pick_cmp(a, b);
}

static bool same_config(const struct plan_config *a, const struct plan_config *b)
{
    return plan_same_cut(a, b) && a->zero == b->zero && a->shard == b->shard &&
           a->seq_par == b->seq_par && a->recompute == b->recompute &&
           a->recompute_every == b->recompute_every && a->schedule == b->schedule;
}

/* Memory of the two ways may differ by what rounding each kind leaves open. */
static bool same_pick(const struct plan_pick *a, const struct plan_pick *b)
{
    return a->step_s == b->step_s && llabs((int64_t)a->memory - (int64_t)b->memory) <= PLAN_KINDS;
}

static void check_front(const struct force *f, const struct plan_found *found)
{
    size_t at = 0;
    uint64_t least = UINT64_MAX;

    for (size_t i = 0; i < f->count; i++) { /* sorted by time, then memory */
        if (f->all[i].memory + PLAN_KINDS >= least)
            continue;
        least = f->all[i].memory;
        CHECK(at < found->front_count);
        CHECK(same_pick(&found->front[at], &f->all[i]));
        at++;
    }
    CHECK(at == found->front_count);
}

static void check_choice(const struct force *f, const struct plan_found *found,
                         const struct plan_cluster *cl)
{
    const struct plan_pick *best = NULL, *choice = plan_choice(found);

    for (size_t i = 0; i < f->count; i++) { /* sorted by time, then memory */
        if (f->all[i].step_s > f->all[0].step_s * (1 + PLAN_PLAIN_TIE))
            break;
        if (!best || plan_plainness(&f->all[i].config, cl) < plan_plainness(&best->config, cl))
            best = &f->all[i];
    }
    CHECK(choice && best);
    CHECK(same_config(&choice->config, &best->config));
    CHECK(same_pick(choice, best));
}

static void hold_against(const char *model, const char *gpu, int64_t gpus, int64_t batch,
                         int64_t seq)
{
    struct plan_search_run run = { .threads = 2, .top = 500 };
    struct arena a = { 0 };
    struct plan_found found;
    struct force f = { 0 };
    struct job j;

    job_of(&j, model, gpu, gpus, batch, seq);
    j.s.all = true;
    f.j = &j;
    f.all = calloc(ALL_MAX, sizeof(*f.all));
    assert_non_null(f.all);
    force_all(&f);
    assert_int_equal(plan_search(&j.s, &run, &a, &found, NULL), RC_OK);
    assert_int_equal(found.tried, f.tried);
    assert_int_equal(found.fit, f.count);
    for (int i = 0; i < PLAN_RULES; i++)
        assert_int_equal(found.excluded[i], f.excluded[i]);
    qsort(f.all, f.count, sizeof(*f.all), by_order);
    assert_int_equal(found.top_count, plan_min(500, (int64_t)f.count));
    for (size_t i = 0; i < found.top_count; i++)
        CHECK(same_pick(&found.top[i], &f.all[i]));
    if (f.count) {
        CHECK(same_config(&found.top[0].config, &f.all[0].config));
        check_front(&f, &found);
        check_choice(&f, &found, &j.cl);
    }
    free(f.all);
    arena_release(&a);
}

TEST(the_search_is_what_force_finds)
{
    hold_against("llama-3.1-8b", "h100", 8, 16, 4096);
    hold_against("llama-3.1-8b", "h200", 12, 24, 8192);
    hold_against("gpt-39.1b", "a100", 32, 64, 2048);
    hold_against("gpt3-175b", "a100", 64, 64, 2048);
    hold_against("mixtral-8x7b", "h100", 16, 16, 4096);
}

TEST(stages_that_frameworks_lay_out)
{
    struct plan_search_run run = { .threads = 1, .top = 1000 };
    struct plan_found f;
    struct arena a = { 0 };
    struct job j;
    bool uneven = false;

    job_of(&j, "llama-3.1-405b", "h200", 2048, 2048, 8192); /* 126 layers: 128 with the ends */
    j.s.base.profile.split = PLAN_SPLIT_ENDS_LESS;
    j.s.base.tp = 8;
    j.s.fixed = PLAN_GIVEN_TP;
    assert_int_equal(plan_search(&j.s, &run, &a, &f, NULL), RC_OK);
    CHECK(f.top_count > 0);
    for (size_t i = 0; i < f.top_count; i++) {
        const struct plan_config *c = &f.top[i].config;
        int64_t chunks = (int64_t)c->pp * c->vpp;
        struct plan_pick p;

        CHECK(c->pp == 1 || 126 % chunks == 0 || 128 % chunks == 0);
        uneven = uneven || (c->pp > 2 && 128 % c->pp == 0);
        plan_pick_of(&j.s, c, &p);
        CHECK(same_pick(&p, &f.top[i]));
    }
    CHECK(uneven);
    arena_release(&a);
}

TEST(what_is_larger_than_a_number_does_not_fit)
{
    struct plan_search_run run = { .threads = 1, .top = 1 };
    struct plan_found f;
    struct arena a = { 0 };
    struct err err = { 0 };
    struct job j;

    job_of(&j, "llama-3.1-8b", "h100", 8, PLAN_BATCH_MAX, PLAN_SEQ_MAX);
    assert_int_equal(plan_search(&j.s, &run, &a, &f, NULL), RC_OK);
    CHECK(f.tried > 0 && f.fit == 0);
    job_of(&j, "llama-3.1-405b", "h100", 720720, 8648640, 4096);
    assert_int_equal(plan_search(&j.s, &run, &a, &f, &err), RC_LIMIT);
    arena_release(&a);
}

TEST(the_answer_does_not_depend_on_threads)
{
    struct plan_found one, many;
    struct arena a = { 0 };
    struct job j;

    job_of(&j, "llama-3.1-70b", "h100", 64, 256, 4096);
    for (int all = 0; all < 2; all++) {
        struct plan_search_run run = { .threads = 1, .top = 100 };

        j.s.all = all;
        assert_int_equal(plan_search(&j.s, &run, &a, &one, NULL), RC_OK);
        for (int threads = 2; threads <= 9; threads += 7) {
            run.threads = threads;
            assert_int_equal(plan_search(&j.s, &run, &a, &many, NULL), RC_OK);
            assert_int_equal(one.tried, many.tried);
            assert_int_equal(one.top_count, many.top_count);
            assert_int_equal(one.front_count, many.front_count);
            for (size_t i = 0; i < one.top_count; i++)
                CHECK(plan_pick_cmp(&one.top[i], &many.top[i]) == 0);
            for (size_t i = 0; i < one.front_count; i++)
                CHECK(plan_pick_cmp(&one.front[i], &many.front[i]) == 0);
            CHECK(plan_pick_cmp(&one.least, &many.least) == 0);
        }
    }
    arena_release(&a);
}

TEST(fixed_sizes_cut_the_space)
{
    struct plan_search_run run = { .threads = 1, .top = 1000 };
    struct plan_found f;
    struct arena a = { 0 };
    struct job j;

    job_of(&j, "llama-3.1-70b", "h200", 64, 256, 4096);
    assert_int_equal(plan_config_parse("tp8,zero1 sp selective", &j.s.base, &j.s.fixed, NULL),
                     RC_OK);
    j.s.all = true;
    assert_int_equal(plan_search(&j.s, &run, &a, &f, NULL), RC_OK);
    CHECK(f.fit > 0 && f.top_count > 0);
    for (size_t i = 0; i < f.top_count; i++) {
        const struct plan_config *c = &f.top[i].config;

        CHECK(c->tp == 8 && c->zero == 1 && c->seq_par && c->recompute == PLAN_RECOMPUTE_SELECTIVE);
    }
    arena_release(&a);
}

TEST(whatever_is_fixed_what_is_found_can_be)
{
    static const char *const fixes[] = {
        "ga8",
        "shard8",
        "zero3 shard16 offload-all",
        "offload-all",
        "every7 full",
        "every80 full",
        "gpipe",
        "interleaved zero0",
        "vpp3 pp4",
        "dp3",
        "shard7",
        "zero2 mbs2 none cp2 nosp",
    };
    size_t some = 0;

    for (size_t i = 0; i < ARRAY_SIZE(fixes); i++) {
        struct plan_search_run run = { .threads = 1, .top = 1000 };
        struct plan_found f;
        struct arena a = { 0 };
        struct job j;

        job_of(&j, "llama-3.1-8b", "h200", 32, 128, 4096);
        j.s.all = true;
        assert_int_equal(plan_config_parse(fixes[i], &j.s.base, &j.s.fixed, NULL), RC_OK);
        assert_int_equal(plan_search(&j.s, &run, &a, &f, NULL), RC_OK);
        some += f.fit > 0;
        for (size_t k = 0; k < f.top_count; k++) {
            struct plan_pick p;

            assert_int_equal(plan_config_rule(&j.m, &j.cl, &f.top[k].config), PLAN_RULE_OK);
            plan_pick_of(&j.s, &f.top[k].config, &p);
            CHECK(same_pick(&p, &f.top[k]));
        }
        arena_release(&a);
    }
    CHECK(some >= 8);
}

TEST(the_reference_counts_those_that_are_better)
{
    struct plan_search_run run = { .threads = 2, .top = 50 };
    struct plan_found f, g;
    struct arena a = { 0 };
    struct job j;

    job_of(&j, "llama-3.1-8b", "h100", 16, 64, 4096);
    j.s.all = true;
    assert_int_equal(plan_search(&j.s, &run, &a, &f, NULL), RC_OK);
    j.s.reference = f.top[20].step_s;
    assert_int_equal(plan_search(&j.s, &run, &a, &g, NULL), RC_OK);
    for (size_t i = 0; i < f.top_count; i++)
        CHECK((i < g.better) == (f.top[i].step_s < f.top[20].step_s));
    arena_release(&a);
}

TEST(what_cannot_be_is_refused)
{
    static const struct {
        int64_t gpus, batch, seq;
        const char *hint;
    } rows[] = {
        { 8, 1000000000, 4096, "16777216" },      { 8, 0, 4096, "is 1." }, { 0, 8, 4096, "is 1." },
        { INT64_C(1) << 40, 8, 4096, "1048576" }, { 8, 8, 0, "is 1." },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct plan_search_run run = { .threads = 1, .top = 1 };
        struct plan_found f;
        struct arena a = { 0 };
        struct err err = { 0 };
        struct job j;

        job_of(&j, "llama-3.1-8b", "h100", rows[i].gpus, rows[i].batch, rows[i].seq);
        assert_int_equal(plan_search(&j.s, &run, &a, &f, &err), RC_USAGE);
        CHECK(strstr(err.hint, rows[i].hint));
        arena_release(&a);
    }
}

/* ---- text ---- */
TEST(a_configuration_reads_back)
{
    static const char *const texts[] = {
        "tp8 pp4 vpp2 dp2 zero1 mbs1 ga16 sp selective recompute bf16",
        "tp8 pp4 vpp2 dp2 zero1 mbs1 ga16 sp norm act recompute fp8",
        "tp8 pp4 vpp2 dp2 zero1 mbs1 ga16 sp selective recompute mla-up experts fp8",
        "tp2 cp4 ep8 etp2 dp4 zero3 shard8 mbs2 ga1 full recompute every 4 layers fp8",
        "pp4 dp2 mbs1 ga16 gpipe bf16",
        "dp64 zero3 mbs1 ga1 offload-optimizer bf16",
        "mbs1 ga1 fsdp",
    };

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct plan_config c;
        struct buf out = { 0 };
        unsigned given;

        plan_config_init(&c);
        assert_int_equal(plan_config_parse(texts[i], &c, &given, NULL), RC_OK);
        plan_config_text(&c, &out);
        assert_string_equal(buf_str(&out), texts[i]);
        buf_release(&out);
    }
}

TEST(words_that_are_none_are_named)
{
    static const struct {
        const char *text, *msg, *hint;
    } rows[] = {
        { "tp8 pq4", "'pq4'", "pp" },
        { "", "empty", "tp8" },
        { "tp0", "'tp' cannot be '0'", "tp1" },
        { "zero4", "'zero'", "zero3" },
        { "tp8 tp4", "a second time", "" },
        { "tp", "'tp' cannot be ''", "tp1" },
        { "tp99999999999999999999", "'tp'", "tp" },
        { "selectiv", "'selectiv'", "selective" },
        { "sp nosp", "a second time", "" },
        { "offload-some", "'offload-some'", "offload" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct plan_config c, before;
        struct err err = { 0 };
        unsigned given;

        plan_config_init(&c);
        before = c;
        assert_int_equal(plan_config_parse(rows[i].text, &c, &given, &err), RC_USAGE);
        if (!strstr(err.msg, rows[i].msg) || !strstr(err.hint, rows[i].hint))
            fail_msg("'%s': %s | %s", rows[i].text, err.msg, err.hint);
        assert_memory_equal(&c, &before, sizeof(c)); /* untouched */
    }
}

TEST(what_is_left_out_follows)
{
    struct plan_config c;
    struct err err = { 0 };
    unsigned given;

    plan_config_init(&c);
    assert_int_equal(plan_config_parse("tp8 pp4 vpp2 mbs2", &c, &given, NULL), RC_OK);
    assert_int_equal(plan_config_complete(&c, given, 64, 256, NULL), RC_OK);
    CHECK(c.dp == 2 && c.grad_acc == 64 && c.schedule == PLAN_INTERLEAVED);
    assert_int_equal(plan_config_complete(&c, given, 64, 255, &err), RC_USAGE);
    CHECK(strstr(err.msg, "rule batch") && strstr(err.hint, "256"));
    plan_config_init(&c);
    assert_int_equal(plan_config_parse("dp2 mbs1 ga3", &c, &given, NULL), RC_OK);
    assert_int_equal(plan_config_complete(&c, given, 2, 8, NULL), RC_USAGE);
}

/* ---- frameworks ---- */
TEST(flags_of_every_framework)
{
    static const struct {
        enum plan_framework f;
        const char *has[6];
    } rows[] = {
        { PLAN_MEGATRON,
          { "--tensor-model-parallel-size 8", "--pipeline-model-parallel-size 4",
            "--num-virtual-stages-per-pipeline-rank 2", "--use-distributed-optimizer",
            "--recompute-granularity selective", "--global-batch-size 64" } },
        { PLAN_TORCHTITAN,
          { "--parallelism.tensor_parallel_degree 8", "--parallelism.pipeline_parallel_degree 4",
            "Interleaved1F1B", "--training.local_batch_size 32", "--training.disable_cuda_graphs",
            "-m torchtitan.train --module" } },
        { PLAN_DEEPSPEED,
          { "\"stage\": 1", "\"train_batch_size\": 64", "\"autotp_size\": 8",
            "\"gradient_accumulation_steps\": 32", "# DeepSpeed: the pipeline", "deepspeed " } },
        { PLAN_ACCELERATE,
          { "accelerate launch", "--num_processes 64", "--num_machines 8", "--mixed_precision bf16",
            "per-device batch 1", "gradient accumulation 32" } },
        { PLAN_TORCHRUN,
          { "torchrun --nnodes 8 --nproc-per-node 8", "(4, 2, 1, 8)", "ScheduleInterleaved1F1B",
            "ZeRO 1", "attention alone", "gradient accumulation 32" } },
    };
    struct plan_config c;
    unsigned given;
    struct job j;

    job_of(&j, "llama-3.1-70b", "h100", 64, 64, 4096);
    c = j.s.base;
    assert_int_equal(plan_config_parse("tp8 pp4 vpp2 zero1 mbs1 sp selective", &c, &given, NULL),
                     RC_OK);
    assert_int_equal(plan_config_complete(&c, given, 64, 64, NULL), RC_OK);
    assert_int_equal(plan_config_rule(&j.m, &j.cl, &c), PLAN_RULE_OK);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct buf out = { 0 };

        plan_flags(&j.m, &j.cl, &c, rows[i].f, &out);
        for (size_t k = 0; k < ARRAY_SIZE(rows[i].has); k++)
            if (!strstr(buf_str(&out), rows[i].has[k]))
                fail_msg("%s: no '%s' in\n%s", plan_framework_names[rows[i].f], rows[i].has[k],
                         buf_str(&out));
        buf_release(&out);
    }
}

TEST(other_conditions_are_searched)
{
    struct plan_search_run run = { .threads = 2, .top = 1 };
    struct plan_vary v[PLAN_VARIES];
    struct plan_found f;
    struct arena a = { 0 };
    struct job j;

    job_of(&j, "llama-3.1-8b", "h100", 16, 64, 4096);
    assert_int_equal(plan_search(&j.s, &run, &a, &f, NULL), RC_OK);
    assert_int_equal(plan_vary_all(&j.s, &run, &plan_choice(&f)->config, v, NULL), RC_OK);
    for (int i = 0; i < PLAN_VARIES; i++)
        CHECK(v[i].any);
    CHECK(v[0].best.step_s >= v[1].best.step_s * (1 - PLAN_PLAIN_TIE)); /* network */
    CHECK(v[4].best.step_s < v[5].best.step_s);                         /* batch */
    arena_release(&a);
}

TEST_MAIN(cmocka_unit_test(the_search_is_what_force_finds),
          cmocka_unit_test(stages_that_frameworks_lay_out),
          cmocka_unit_test(what_is_larger_than_a_number_does_not_fit),
          cmocka_unit_test(the_answer_does_not_depend_on_threads),
          cmocka_unit_test(fixed_sizes_cut_the_space),
          cmocka_unit_test(whatever_is_fixed_what_is_found_can_be),
          cmocka_unit_test(the_reference_counts_those_that_are_better),
          cmocka_unit_test(what_cannot_be_is_refused), cmocka_unit_test(a_configuration_reads_back),
          cmocka_unit_test(words_that_are_none_are_named),
          cmocka_unit_test(what_is_left_out_follows), cmocka_unit_test(flags_of_every_framework),
          cmocka_unit_test(other_conditions_are_searched))
