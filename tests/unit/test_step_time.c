/* SPDX-License-Identifier: MIT */
/* The time model: a hundred rows of the prototype's, with the constants it had; parts that add up;
 * both halves apart as together; no absurd figure at the limits. */
#include "test.h"

#include "base/str.h"
#include "catalog/csv.h"
#include "os/file.h"
#include "plan/time/step_time_int.h"

#include <math.h>

static struct arena arena;

struct golden {
    struct csv t;
    size_t row;
};

static double num(const struct golden *g, const char *col)
{
    int c = csv_col(&g->t, col);
    double v = 0;

    CHECK(c >= 0 && str_to_f64(csv_cell(&g->t, g->row, (size_t)c), &v));
    return v;
}

static const char *text(const struct golden *g, const char *col)
{
    int c = csv_col(&g->t, col);

    CHECK(c >= 0);
    return csv_cell(&g->t, g->row, (size_t)c);
}

static void load(const char *path, struct buf *out)
{
    struct err err = { 0 };

    CHECK(file_read(path, 1 << 20, out, &err) == RC_OK);
}

/* The hardware as the prototype has it. */
static void golden_gpu(const struct golden *g, struct plan_cluster *cl)
{
    static const struct {
        const char *name;
        double peak, fp8, gib, sms, link;
    } gpus[] = {
        { "A100", 312e12, 0, 80, 108, 300e9 },    { "H100", 989e12, 2, 80, 132, 450e9 },
        { "B200", 2250e12, 2, 180, 148, 900e9 },  { "B300", 2250e12, 2, 270, 148, 900e9 },
        { "GB200", 2500e12, 2, 186, 152, 900e9 }, { "GB300", 2500e12, 2, 277, 152, 900e9 },
    };
    size_t i = 0;

    while (i + 1 < ARRAY_SIZE(gpus) && !str_eq(gpus[i].name, text(g, "kind")))
        i++;
    *cl = (struct plan_cluster){ .gpus = (int64_t)num(g, "n"),
                                 .node_gpus = (int64_t)num(g, "dom"),
                                 .net_bytes_s = num(g, "bwr") * num(g, "dom") };
    cl->gpu.bf16_flops = gpus[i].peak;
    cl->gpu.fp8_flops = gpus[i].fp8 * gpus[i].peak;
    cl->gpu.mem_bytes_s = num(g, "hbmr");
    cl->gpu.mem_bytes = (int64_t)(num(g, "cap40") > 0 ? 40 : gpus[i].gib) * (INT64_C(1) << 30);
    cl->gpu.sms = (int64_t)gpus[i].sms;
    cl->gpu.link_bytes_s = gpus[i].link;
    cl->gpu.power_w = 700;
}

static void golden_model(const struct golden *g, struct plan_model *m)
{
    *m = (struct plan_model){ .layers = (int64_t)num(g, "L"),
                              .hidden = (int64_t)num(g, "h"),
                              .heads = (int64_t)num(g, "a"),
                              .kv_heads = (int64_t)num(g, "kv"),
                              .head_dim = (int64_t)num(g, "hd"),
                              .ffn = (int64_t)num(g, "f"),
                              .vocab = (int64_t)num(g, "V"),
                              .gated = num(g, "gated") > 0,
                              .tied = num(g, "tied") > 0,
                              .head = true,
                              .layer_norms = 2,
                              .outer_norms = 1,
                              .experts = (int64_t)num(g, "E"),
                              .top_k = (int64_t)num(g, "topk"),
                              .expert_ffn = (int64_t)num(g, "fe"),
                              .shared_ffn = (int64_t)(num(g, "sh") * num(g, "fe")),
                              .moe_first = (int64_t)num(g, "dl"),
                              .moe_every = 1 };
    if (num(g, "mla") > 0) {
        m->q_lora = 1536;
        m->kv_lora = 512;
        m->qk_nope = m->v_dim = 128;
        m->qk_rope = 64;
    }
}

static void golden_config(const struct golden *g, struct plan_config *c)
{
    const char *split = text(g, "split");

    plan_config_init(c);
    c->tp = (int32_t)num(g, "tp");
    c->pp = (int32_t)num(g, "pp");
    c->vpp = (int32_t)num(g, "vpp");
    c->cp = (int32_t)num(g, "cp");
    c->ep = (int32_t)num(g, "ep");
    c->dp = (int32_t)num(g, "dp");
    c->micro_batch = (int32_t)num(g, "b");
    c->grad_acc = (int32_t)num(g, "m");
    c->seq = (int64_t)num(g, "s");
    c->zero = (int32_t)num(g, "zero");
    c->seq_par = num(g, "sp") > 0;
    c->recompute = (enum plan_recompute)(int)num(g, "rc");
    c->precision = num(g, "fp8") > 0 ? PLAN_FP8 : num(g, "g32") > 0 ? PLAN_BF16 : PLAN_BF16_GRADS;
    c->profile = (struct plan_profile){
        .stack = num(g, "nano") > 0   ? PLAN_STACK_NANOTRON
                 : num(g, "fsdp") > 0 ? PLAN_STACK_FSDP
                                      : PLAN_STACK_MEGATRON,
        .fused = !(num(g, "eager") > 0),
        .flash = num(g, "flash") > 0,
        .dp_overlap = num(g, "ovl") > 0,
        .split = str_eq(split, "cost-balanced") ? PLAN_SPLIT_COST
                 : str_starts(split, "first")   ? PLAN_SPLIT_ENDS_LESS
                 : str_starts(split, "embed")   ? PLAN_SPLIT_EMBED_LAYER
                                                : PLAN_SPLIT_EVEN,
    };
}

static void check_parts(const struct plan_time *t)
{
    double sum = 0;

    for (int i = 0; i < PLAN_PARTS; i++) {
        CHECK(isfinite(t->part[i]) && t->part[i] >= -1e-12);
        CHECK(isfinite(t->hidden[i]) && t->hidden[i] >= -1e-9);
        sum += t->part[i];
    }
    CHECK(fabs(sum / t->step_s - 1) < 1e-9);
    CHECK(t->mfu > 0 && t->mfu < 1.0 && t->hfu >= t->mfu - 1e-12);
}

TEST(golden_rows_of_the_prototype)
{
    struct buf rows = { 0 }, consts = { 0 };
    struct plan_const_table table;
    struct golden g = { 0 };
    struct err err = { 0 };
    double worst = 0;

    load("tests/fixtures/plan/time.csv", &rows);
    load("tests/fixtures/plan/consts.csv", &consts);
    CHECK(csv_parse(&arena, buf_str(&rows), rows.len, &g.t, &err) == RC_OK);
    CHECK(plan_consts_read(&arena, buf_str(&consts), consts.len, &table, &err) == RC_OK);
    CHECK(g.t.rows == 110);
    for (; g.row < g.t.rows; g.row++) {
        const char *kind = text(&g, "constants");
        struct plan_counts n = { 0 };
        struct plan_cluster cl;
        struct plan_config c;
        struct plan_consts k;
        struct plan_model m;
        struct plan_time t;
        struct plan_cut cut;
        double off;

        CHECK(plan_consts_of(&table,
                             str_eq(kind, "A100")   ? "a100"
                             : str_eq(kind, "H100") ? "h100"
                                                    : "b200",
                             &k));
        golden_gpu(&g, &cl);
        golden_model(&g, &m);
        golden_config(&g, &c);
        plan_cut_of(&m, c.profile.split, c.pp, &cut);
        CHECK(cut.first == num(&g, "n0") && cut.middle == num(&g, "nm") &&
              cut.last == num(&g, "nl"));
        plan_time_of(&m, &n, &cl, &c, &k, &t);
        off = fabs(t.step_s / num(&g, "time_s") - 1);
        if (off > 1e-8)
            print_message("line %s: %.9g, not %s\n", text(&g, "line"), t.step_s,
                          text(&g, "time_s"));
        worst = fmax(worst, off);
        check_parts(&t);
    }
    CHECK(worst < 1e-8);
    buf_release(&rows);
    buf_release(&consts);
    arena_release(&arena);
}

TEST(every_kind_of_the_catalogue_has_constants)
{
    static const struct {
        const char *gpu, *kind;
        bool own;
    } rows[] = {
        { "a100", "a100", true },  { "h100", "h100", true },  { "h200", "h100", false },
        { "b200", "b200", true },  { "b300", "b200", false }, { "gb200", "b200", false },
        { "l40s", "a100", false }, { "4090", "a100", false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct plan_consts k;
        struct plan_gpu gpu;

        CHECK(plan_gpu_by_name(rows[i].gpu, &gpu, NULL) == RC_OK);
        CHECK(plan_consts_builtin(&gpu, &k, NULL) == RC_OK);
        CHECK(str_eq(k.kind, rows[i].kind));
        CHECK(!k.note[0] == rows[i].own);
        for (int j = 0; j < PLAN_C_COUNT; j++)
            CHECK(k.c[j] >= 0 && isfinite(k.c[j]));
    }
}

/* Times of a model on a cluster, with `change` applied to a plain configuration. */
static double seconds(const char *gpu, int64_t gpus, void (*change)(struct plan_config *))
{
    struct plan_counts n = { 0 };
    struct plan_cluster cl;
    struct plan_config c;
    struct plan_consts k;
    struct plan_model m;
    struct plan_time t;
    struct plan_gpu g;

    CHECK(plan_model_by_name("llama-3.1-70b", &m, NULL) == RC_OK);
    CHECK(plan_gpu_by_name(gpu, &g, NULL) == RC_OK);
    CHECK(plan_consts_builtin(&g, &k, NULL) == RC_OK);
    plan_cluster_usual(&g, gpus, &cl);
    plan_config_init(&c);
    c.tp = 8;
    c.seq_par = true;
    c.dp = (int32_t)(gpus / 8);
    c.grad_acc = 8;
    c.zero = 1;
    change(&c);
    plan_time_of(&m, &n, &cl, &c, &k, &t);
    check_parts(&t);
    return t.step_s;
}

static void plain(struct plan_config *c)
{
    (void)c;
}
static void full(struct plan_config *c)
{
    c->recompute = PLAN_RECOMPUTE_FULL;
}
static void fp8(struct plan_config *c)
{
    c->precision = PLAN_FP8;
}
static void fp32(struct plan_config *c)
{
    c->precision = PLAN_FP32;
}
static void eager(struct plan_config *c)
{
    c->profile.fused = false;
}
static void unfused(struct plan_config *c)
{
    c->profile.flash = false;
}
static void stages(struct plan_config *c)
{
    c->dp /= 4;
    c->pp = 4;
    c->grad_acc *= 4;
}
static void chunks(struct plan_config *c)
{
    stages(c);
    c->vpp = 4;
    c->schedule = PLAN_INTERLEAVED;
}
static void context(struct plan_config *c)
{
    c->dp /= 4;
    c->cp = 4;
    c->micro_batch = 4;
}
static void sharded(struct plan_config *c)
{
    c->zero = 3;
    c->profile.stack = PLAN_STACK_FSDP;
}
static void offload(struct plan_config *c)
{
    c->offload_optimizer = true;
}
static void lora(struct plan_config *c)
{
    c->lora_rank = 16;
}

TEST(times_move_the_way_they_must)
{
    double t = seconds("h100", 64, plain);

    CHECK(seconds("h100", 64, full) > 1.2 * t && seconds("h100", 64, full) < 1.4 * t);
    CHECK(seconds("h100", 64, fp8) < 0.9 * t);
    CHECK(seconds("h100", 64, fp32) > 8 * t); /* 67 of 989 TFLOP/s: TF32 is off */
    CHECK(seconds("v100", 64, fp32) > 4 * seconds("v100", 64, plain)); /* 15.7 of 125 */
    CHECK(seconds("h100", 64, eager) > t && seconds("h100", 64, unfused) > t);
    CHECK(seconds("h100", 64, chunks) < seconds("h100", 64, stages));
    CHECK(seconds("h100", 64, context) > t); /* the same tokens, and an exchange */
    CHECK(seconds("h100", 64, offload) > t && seconds("h100", 64, lora) < t);
    CHECK(seconds("h100", 64, sharded) > t);
    CHECK(seconds("h200", 64, plain) < t); /* memory is faster */
    CHECK(seconds("b200", 64, plain) < t && seconds("a100", 64, plain) > 1.5 * t);
    CHECK(seconds("l40s", 64, plain) > 3 * t); /* no NVLink */
    CHECK(seconds("h100", 512, plain) >= t);
}

/* Whatever passes the checks has a time that is a number. */
TEST(no_absurd_figure_at_the_limits)
{
    static const struct plan_model models[] = {
        { .layers = 1,
          .hidden = 1,
          .heads = 1,
          .kv_heads = 1,
          .head_dim = 1,
          .ffn = 1,
          .vocab = 1 },
        { .layers = PLAN_LAYERS_MAX,
          .hidden = PLAN_HIDDEN_MAX,
          .heads = PLAN_HEADS_MAX,
          .kv_heads = PLAN_HEADS_MAX,
          .head_dim = 64,
          .ffn = PLAN_FFN_MAX,
          .vocab = PLAN_VOCAB_MAX,
          .head = true },
        { .layers = 4,
          .hidden = 64,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 16,
          .vocab = 9,
          .experts = PLAN_EXPERTS_MAX,
          .top_k = PLAN_EXPERTS_MAX,
          .expert_ffn = PLAN_FFN_MAX,
          .moe_every = 1 },
    };
    static const char *const gpus[] = { "a100", "h100", "b200", "l40s", "gb300" };

    for (size_t i = 0; i < ARRAY_SIZE(models) * ARRAY_SIZE(gpus) * 3 * 4; i++) {
        struct plan_counts n = { 0 };
        struct plan_cluster cl;
        struct plan_config c;
        struct plan_consts k;
        struct plan_time t;
        struct plan_gpu g;

        CHECK(plan_gpu_by_name(gpus[i % 5], &g, NULL) == RC_OK);
        CHECK(plan_consts_builtin(&g, &k, NULL) == RC_OK);
        plan_config_init(&c);
        c.profile.stack = (enum plan_stack)(i / 5 % 4);
        c.profile.fused = i & 1;
        c.profile.flash = i & 2;
        c.zero = (int32_t)(i / 15 % 4);
        c.micro_batch = i & 4 ? PLAN_BATCH_MAX : 1;
        c.seq = i & 4 ? PLAN_TOKENS_MAX / PLAN_BATCH_MAX : 1;
        c.grad_acc = i & 8 ? PLAN_BATCH_MAX : 1;
        c.dp = i & 16 ? PLAN_GPUS_MAX / 2 : 1;
        c.tp = i & 32 ? 2 : 1;
        plan_cluster_usual(&g, (int64_t)c.dp * c.tp, &cl);
        plan_time_of(&models[i / 60 % 3], &n, &cl, &c, &k, &t);
        CHECK(isfinite(t.step_s) && t.step_s > 0 && isfinite(t.mfu) && t.mfu >= 0);
        for (int p = 0; p < PLAN_PARTS; p++)
            CHECK(isfinite(t.part[p]) && t.part[p] >= -1e-9 * t.step_s);
    }
}

/* MegaScale's Megatron-LM runs (NSDI'24, Table 2): ZeRO 2 in a pipeline scatters once a step. */
TEST(zero_2_in_a_pipeline_scatters_once)
{
    static const struct {
        int64_t gpus, batch;
        double seconds;
    } runs[] = { { 256, 768, 40.0 },   { 512, 768, 21.2 },    { 1024, 768, 11.9 },
                 { 3072, 6144, 29.0 }, { 6144, 6144, 14.78 }, { 8192, 6144, 12.24 } };

    for (size_t i = 0; i < ARRAY_SIZE(runs); i++) {
        struct plan_cluster cl;
        struct plan_counts n;
        struct plan_config c;
        struct plan_consts k;
        struct plan_model m;
        struct plan_gpu g;
        double two, one;

        CHECK(!plan_gpu_by_name("a100", &g, NULL) && !plan_consts_builtin(&g, &k, NULL));
        CHECK(!plan_model_by_name("gpt3-175b", &m, NULL) && !plan_model_counts(&m, &n, NULL));
        plan_cluster_usual(&g, runs[i].gpus, &cl);
        cl.net_bytes_s = 200e9;
        plan_config_init(&c);
        c.tp = c.pp = 8;
        c.vpp = 6;
        c.dp = (int32_t)(runs[i].gpus / 64);
        c.grad_acc = (int32_t)(runs[i].batch / c.dp);
        c.seq = 2048;
        c.seq_par = true;
        c.recompute = PLAN_RECOMPUTE_SELECTIVE;
        c.schedule = PLAN_INTERLEAVED;
        c.profile.fused = false;
        c.zero = 2;
        two = plan_seconds(&m, &cl, &c, &k);
        if (fabs(two / runs[i].seconds - 1) > 0.3)
            fail_msg("%lld GPUs: %.1f s, measured %.1f", (long long)runs[i].gpus, two,
                     runs[i].seconds);
        c.zero = 1;
        one = plan_seconds(&m, &cl, &c, &k);
        CHECK(fabs(two / one - 1) < 0.02);
    }
}

TEST_MAIN(cmocka_unit_test(zero_2_in_a_pipeline_scatters_once),
          cmocka_unit_test(golden_rows_of_the_prototype),
          cmocka_unit_test(every_kind_of_the_catalogue_has_constants),
          cmocka_unit_test(times_move_the_way_they_must),
          cmocka_unit_test(no_absurd_figure_at_the_limits))
