/* SPDX-License-Identifier: MIT */
/* The words of the table of published runs, the rules by which rows leave a figure, and the
 * figures. */
#include "test.h"

#include "base/buf.h"
#include "base/str.h"
#include "plan/run_rows.h"
#include "plan/validate/validate_int.h"

#include <math.h>
#include <string.h>

static const char header[] =
    "source,loc,model,params_b,layers,hidden,heads,kv_heads,ffn,mlp,vocab,moe,seq_len,"
    "hardware,gpus,tp,pp,vpp,cp,ep,dp,micro_batch,grad_acc,global_batch,zero,seq_par,"
    "recompute,precision,iter_time_s,tok_s_gpu,tflops_gpu,flop_convention,mfu_pct,"
    "hfu_pct,mem_gib,mem_kind,fields_known,notes,framework,kernels,attn,dp_overlap,"
    "stage_split\n";

/* A good row; `change` is "column=value;column=value". */
struct cell {
    const char *name, *value;
};
static const struct cell good[] = {
    { "source", "S" },
    { "loc", "L" },
    { "model", "M" },
    { "params_b", "8.03" },
    { "layers", "32" },
    { "hidden", "4096" },
    { "heads", "32" },
    { "kv_heads", "8" },
    { "ffn", "14336" },
    { "mlp", "swiglu" },
    { "vocab", "128256" },
    { "moe", "" },
    { "seq_len", "8192" },
    { "hardware", "DGX-H100" },
    { "gpus", "8" },
    { "tp", "1" },
    { "pp", "1" },
    { "vpp", "1" },
    { "cp", "1" },
    { "ep", "1" },
    { "dp", "8" },
    { "micro_batch", "1" },
    { "grad_acc", "" },
    { "global_batch", "128" },
    { "zero", "dist-opt" },
    { "seq_par", "yes if tp>1" },
    { "recompute", "none" },
    { "precision", "bf16" },
    { "iter_time_s", "" },
    { "tok_s_gpu", "10000" },
    { "tflops_gpu", "579" },
    { "flop_convention", "\"model FLOPs, FULL s^2 attention\"" },
    { "mfu_pct", "" },
    { "hfu_pct", "" },
    { "mem_gib", "" },
    { "mem_kind", "" },
    { "fields_known", "all" },
    { "notes", "embedding untied" },
    { "framework", "megatron" },
    { "kernels", "fused" },
    { "attn", "flash" },
    { "dp_overlap", "yes" },
    { "stage_split", "even" },
};

static const char *changed(const char *change, const char *name, char out[128])
{
    size_t len = strlen(name);

    for (const char *p = change; p; p = strchr(p, ';') ? strchr(p, ';') + 1 : NULL)
        if (!strncmp(p, name, len) && p[len] == '=') {
            size_t n = strcspn(p + len + 1, ";");

            memcpy(out, p + len + 1, n);
            out[n] = 0;
            return out;
        }
    return NULL;
}

static void add_row(struct buf *b, const char *change)
{
    char value[128];

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        const char *v = changed(change, good[i].name, value);

        buf_addf(b, "%s%s", i ? "," : "", v ? v : good[i].value);
    }
    buf_addc(b, '\n');
}

static struct plan_row read_one(struct arena *a, const char *change)
{
    struct buf text = { 0 };
    struct err err = { 0 };
    struct plan_rows rows;

    buf_adds(&text, header);
    add_row(&text, change);
    if (plan_rows_read(a, buf_str(&text), text.len, &rows, &err))
        fail_msg("%s", err.msg);
    assert_int_equal(rows.count, 1);
    buf_release(&text);
    return rows.rows[0];
}

TEST(a_good_row_is_whole)
{
    struct arena a = { 0 };
    struct plan_row r = read_one(&a, "");

    CHECK(!r.missing && !r.exclude && r.line == 2);
    CHECK(r.counts.total == 8030261248);
    CHECK(r.config.dp == 8 && r.config.grad_acc == 16 && r.config.zero == 1 && !r.config.seq_par);
    CHECK(str_starts(r.cluster.gpu.name, "H100") && r.cluster.gpus == 8);
    CHECK(r.measured.flops_known && r.measured.flops == PLAN_FLOPS_FULL);
    CHECK(fabs(r.measured.iter_s - 128 * 8192 / 10000.0 / 8) < 1e-9);
    arena_release(&a);
}

TEST(words_of_many_tables)
{
    static const struct {
        const char *change;
        int32_t zero, shard;
        enum plan_recompute recompute;
        enum plan_precision precision;
        unsigned missing, exclude;
    } rows[] = {
        { "zero=0", 0, 0, 0, PLAN_BF16, 0, 0 },
        { "zero=FSDP FULL_SHARD (ZeRO-3)", 3, 0, 0, PLAN_BF16, 0, 0 },
        { "zero=FSDP 4", 3, 4, 0, PLAN_BF16, 0, 0 },
        { "zero=HSDP;gpus=32;dp=32", 3, 8, 0, PLAN_BF16, 0, 0 },
        { "zero=HSDP 4", 3, 4, 0, PLAN_BF16, 0, 0 },
        { "zero=HSDP (replicate 2 x shard 4)", 3, 4, 0, PLAN_BF16, 0, 0 },
        { "zero=HSDP 2x4", 3, 4, 0, PLAN_BF16, 0, 0 },
        { "zero=hsdp 2x4", 3, 4, 0, PLAN_BF16, 0, 0 },
        { "zero=hsdp 4", 3, 4, 0, PLAN_BF16, 0, 0 },
        { "zero=fsdp 4", 3, 4, 0, PLAN_BF16, 0, 0 },
        { "zero=ZeRO 3", 3, 0, 0, PLAN_BF16, 0, 0 },
        { "zero=zero2", 2, 0, 0, PLAN_BF16, 0, 0 },
        { "zero=DeepSpeed stage 1", 1, 0, 0, PLAN_BF16, 0, 0 },
        { "zero=FSDP NO_SHARD", 0, 0, 0, PLAN_BF16, 0, 0 },
        { "zero=none", 0, 0, 0, PLAN_BF16, 0, 0 },
        { "zero=fully sharded", 0, 0, 0, PLAN_BF16, PLAN_NO_CUT, 0 }, /* not guessed */
        { "zero=?", 0, 0, 0, PLAN_BF16, PLAN_NO_CUT, 0 },
        { "zero=HSDP;dp=8", 3, 0, 0, PLAN_BF16, 0, 0 }, /* one node is one shard */
        { "zero=FSDP HYBRID_SHARD;gpus=16;dp=16", 3, 8, 0, PLAN_BF16, 0, 0 },
        { "zero=FSDP _HYBRID_SHARD_ZERO2;gpus=16;dp=16", 2, 8, 0, PLAN_BF16, 0, 0 },
        { "zero=BF16_Optimizer (ZeRO-1 equivalent)", 1, 0, 0, PLAN_BF16, 0, 0 },
        { "recompute=full", 1, 0, PLAN_RECOMPUTE_FULL, PLAN_BF16, 0, 0 },
        { "recompute=selective?", 1, 0, PLAN_RECOMPUTE_SELECTIVE, PLAN_BF16, PLAN_NO_RECOMPUTE, 0 },
        { "recompute=?", 1, 0, 0, PLAN_BF16, PLAN_NO_RECOMPUTE, 0 },
        { "precision=MXFP8", 1, 0, 0, PLAN_FP8, 0, 0 },
        { "precision=amp_bf16 mp=DEFAULT", 1, 0, 0, PLAN_FSDP_MIXED, 0, 0 },
        { "heads=;kv_heads=", 1, 0, 0, PLAN_BF16, PLAN_NO_HEADS, 0 },
        { "layers=", 1, 0, 0, PLAN_BF16, PLAN_NO_SHAPE, 0 },
        { "kv_heads=5", 1, 0, 0, PLAN_BF16, PLAN_BAD_MODEL, 0 },
        { "hardware=TPUv5", 1, 0, 0, PLAN_BF16, PLAN_NO_GPU, 0 },
        { "micro_batch=", 1, 0, 0, PLAN_BF16, PLAN_NO_MICRO_BATCH, 0 },
        { "tp=3;dp=;gpus=6", 1, 0, 0, PLAN_BF16, PLAN_BAD_CONFIG, 0 },
        { "gpus=9", 1, 0, 0, PLAN_BF16, 0, PLAN_R6_GPUS },
        { "pp=32;dp=1;gpus=32", 1, 0, 0, PLAN_BF16, PLAN_BAD_CONFIG, PLAN_R2_PP_LAYERS },
        { "model=M LoRA", 1, 0, 0, PLAN_BF16, 0, PLAN_R5_OTHER_WORK },
        { "loc=SFT Performance", 1, 0, 0, PLAN_BF16, 0, PLAN_R5_OTHER_WORK },
        { "source=Megatron-Bridge x;gpus=1;dp=1", 1, 0, 0, PLAN_BF16, 0, PLAN_R3_PEFT },
        { "source=HF Ultra-Scale Playbook", 1, 0, 0, PLAN_BF16, 0, PLAN_R1_NOT_CLEAN },
        { "source=HF Ultra-Scale Playbook;global_batch=256", 1, 0, 0, PLAN_BF16, 0, 0 },
    };
    struct arena a = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct plan_row r = read_one(&a, rows[i].change);

        if (r.config.zero != rows[i].zero || r.config.shard != rows[i].shard ||
            r.config.recompute != rows[i].recompute || r.config.precision != rows[i].precision ||
            r.missing != rows[i].missing || r.exclude != rows[i].exclude)
            fail_msg("%s: zero %d shard %d recompute %d precision %d missing %x exclude %x",
                     rows[i].change, r.config.zero, r.config.shard, r.config.recompute,
                     r.config.precision, r.missing, r.exclude);
    }
    arena_release(&a);
}

/* nanotron's log is rank 0's: without it the memory figures are those of another GPU. */
TEST(rates_and_caps_of_hardware)
{
    static const struct {
        const char *change;
        double net; /* bytes/s of a node */
        double watts;
    } rows[] = {
        { "hardware=H100 400Gb/s per GPU", 400e9, 700 },
        { "hardware=H100-80GB SXM 400 Gb/s/GPU", 400e9, 700 },
        { "hardware=H100 8x400Gb", 400e9, 700 },
        { "hardware=H100 50GB/s per GPU (RoCE)", 400e9, 700 },
        { "hardware=H100 3.2 Tb/s per node", 400e9, 700 },
        { "hardware=H100 1600Gb/s RoCE per node", 200e9, 700 },
        { "hardware=A100-80GB SXM 4 Omni-Path 100Gb/s per node", 50e9, 400 },
        { "hardware=H100 8x50GB/s per node", 400e9, 700 },
        { "hardware=H100 capped at 500 W", 400e9, 500 },
        { "hardware=H100-96GB 500W 400Gb/s per GPU", 400e9, 500 },
        { "hardware=H100 8 Ways", 400e9, 700 },
        { "hardware=H100 900W", 400e9, 700 }, /* above the board's limit: nothing */
    };
    struct arena a = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct plan_row r = read_one(&a, rows[i].change);

        if (fabs(r.cluster.net_bytes_s / rows[i].net - 1) > 1e-9 ||
            fabs(r.cluster.gpu.power_w - rows[i].watts) > 1e-9)
            fail_msg("%s: %g bytes/s, %g W", rows[i].change, r.cluster.net_bytes_s,
                     r.cluster.gpu.power_w);
        CHECK((rows[i].watts < 600 && rows[i].watts > 450) ==
              (r.cluster.gpu.clock > 0.8 && r.cluster.gpu.clock < 0.95));
    }
    arena_release(&a);
}

TEST(what_a_table_leaves_out)
{
    struct arena a = { 0 };
    struct plan_row r = read_one(&a, "global_batch==GPUs (weak scaling);tok_s_gpu=;mfu_pct=40;"
                                     "tflops_gpu=;flop_convention=");

    CHECK(r.global_batch == 8 && r.measured.iter_s > 0 && r.assumed == PLAN_ASSUMED_FLOPS);
    r = read_one(&a, "global_batch=?");
    CHECK(r.global_batch == 2048 && !r.missing && r.assumed == PLAN_ASSUMED_BATCH);
    r = read_one(&a, "vocab=;mlp=gelu");
    CHECK(r.model.vocab == 51200 && r.assumed == PLAN_ASSUMED_VOCAB);
    arena_release(&a);
}

/* "^" is what stands above: the repository's table is written so. */
TEST(cells_like_those_above)
{
    struct buf text = { 0 };
    struct plan_rows rows;
    struct arena a = { 0 };

    buf_adds(&text, header);
    add_row(&text, "layers=16");
    add_row(&text, "source=^;layers=^;hidden=^;gpus=^;model=N");
    add_row(&text, "source=^;layers=8;model=^");
    assert_int_equal(plan_rows_read(&a, buf_str(&text), text.len, &rows, NULL), RC_OK);
    CHECK(rows.rows[1].model.layers == 16 && rows.rows[1].cluster.gpus == 8);
    CHECK(str_eq(rows.rows[2].source, "S") && str_eq(rows.rows[2].name, "N"));
    CHECK(rows.rows[2].model.layers == 8);
    buf_release(&text);
    arena_release(&a);
}

TEST(whose_memory_a_figure_is)
{
    static const struct {
        const char *change;
        enum plan_mem_kind kind;
    } rows[] = {
        { "", PLAN_MEM_NONE },
        { "mem_gib=40;mem_kind=torch max allocated", PLAN_MEM_TORCH },
        { "mem_gib=40;mem_kind=GB nvidia-smi-like", PLAN_MEM_SMI },
        { "mem_gib=40;mem_kind=GB as printed (torch max mem);framework=nanotron", PLAN_MEM_RANK0 },
    };
    struct arena a = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        CHECK(read_one(&a, rows[i].change).measured.mem_kind == rows[i].kind);
    arena_release(&a);
}

TEST(models_of_the_table)
{
    struct arena a = { 0 };
    struct plan_row r;

    r = read_one(&a, "vocab=51200?;seq_len=1024?;mlp=gelu;kv_heads=32;ffn=16384;notes=");
    CHECK(r.model.vocab == 51200 && r.config.seq == 1024 && r.model.positions == 1024);
    CHECK(r.model.norm_bias && !r.model.gated);
    r = read_one(&a, "moe=128 experts top8 ffn1536;hidden=4096;heads=64;kv_heads=4;layers=94;"
                     "vocab=151936;model=Qwen3_235B;params_b=235.1");
    CHECK(r.model.experts == 128 && r.model.top_k == 8 && r.model.head_dim == 128);
    CHECK(fabs((double)r.counts.total / 235.0936e9 - 1) < 1e-3);
    r = read_one(&a, "kv_heads=MLA;heads=128;hidden=7168;ffn=18432;layers=4;model=DeepSeek-V3 cut");
    CHECK(r.model.kv_lora == 512 && r.model.experts == 256 && plan_moe_layers(&r.model) == 3);
    r = read_one(&a, "moe=128 experts top4 ffn2880;hidden=2880;heads=64;kv_heads=8;layers=36;"
                     "ffn=2880;vocab=201088;model=GPT OSS 120B;params_b=117");
    CHECK(r.model.head_dim == 64); /* not 2880 / 64 */
    /* the printed count says whether the head is the embedding where the notes do not */
    r = read_one(&a, "notes=;params_b=7.50");
    CHECK(r.model.tied);
    arena_release(&a);
}

TEST(versions_of_a_table_are_collapsed)
{
    struct arena a = { 0 };
    struct buf text = { 0 };
    struct plan_report report;
    struct plan_rows rows;

    buf_adds(&text, header);
    add_row(&text, "source=X performance summary 1.0");
    add_row(&text, "source=X performance summary 2.0");
    add_row(&text, "source=X performance summary 2.0;gpus=16;dp=16;mem_gib=40;mem_kind=torch max");
    CHECK(!plan_rows_read(&a, buf_str(&text), text.len, &rows, NULL));
    CHECK(rows.rows[0].exclude == PLAN_R4_VERSION && !rows.rows[1].exclude);
    CHECK(!plan_validate(&a, &rows, &plan_memory_default, &report, NULL));
    CHECK(report.count == 3 && report.sources[2].rows == 3 && report.sources[2].exclude[3] == 1);
    CHECK(report.sources[1].memory.n == 1 && report.sources[1].params.max < 1e-9);
    CHECK(report.sources[1].flops.median < 1e-3);
    buf_release(&text);
    arena_release(&a);
}

TEST(errors_of_a_list)
{
    double err[] = { -0.3, 0.1, 0.2, -0.1 };
    struct plan_errors e;

    plan_errors_of(err, 4, &e);
    CHECK(e.n == 4 && fabs(e.mape - 0.175) < 1e-12 && fabs(e.median - 0.15) < 1e-12);
    CHECK(fabs(e.max - 0.3) < 1e-12 && fabs(e.mean + 0.025) < 1e-12);
    plan_errors_of(err, 0, &e);
    CHECK(e.n == 0 && e.mape == 0);
}

TEST_MAIN(cmocka_unit_test(rates_and_caps_of_hardware), cmocka_unit_test(what_a_table_leaves_out),
          cmocka_unit_test(cells_like_those_above), cmocka_unit_test(a_good_row_is_whole),
          cmocka_unit_test(words_of_many_tables), cmocka_unit_test(whose_memory_a_figure_is),
          cmocka_unit_test(models_of_the_table),
          cmocka_unit_test(versions_of_a_table_are_collapsed), cmocka_unit_test(errors_of_a_list))
