/* SPDX-License-Identifier: MIT */
/* The time model: a hundred rows of the prototype's, with the constants it had; parts that add up;
 * both halves apart as together; no absurd figure at the limits. */
#include "test.h"

#include "base/str.h"
#include "catalog/csv.h"
#include "os/file.h"
#include "plan/time.h"

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

TEST_MAIN(cmocka_unit_test(golden_rows_of_the_prototype),
          cmocka_unit_test(every_kind_of_the_catalogue_has_constants))
