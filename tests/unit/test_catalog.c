/* SPDX-License-Identifier: MIT */
/* catalog: the CSV reader with hostile text, and the tables that are compiled in. */
#include "test.h"

#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/csv.h"

TEST(csv_reads)
{
    static const char text[] = "a,b\r\n1,\"x, \"\"y\"\"\nz\"\n,\n";
    struct arena a = { 0 };
    struct err err = { 0 };
    struct csv t;

    assert_int_equal(csv_parse(&a, text, sizeof(text) - 1, &t, &err), RC_OK);
    assert_int_equal(t.cols, 2);
    assert_int_equal(t.rows, 2);
    assert_string_equal(csv_cell(&t, 0, 0), "1");
    assert_string_equal(csv_cell(&t, 0, 1), "x, \"y\"\nz");
    assert_string_equal(csv_cell(&t, 1, 1), "");
    assert_string_equal(csv_cell(&t, 9, 9), "");
    assert_int_equal(csv_col(&t, "b"), 1);
    assert_int_equal(csv_col(&t, "c"), -1);
    arena_release(&a);
}

TEST(csv_refuses)
{
    static const struct {
        const char *text;
        enum rc rc;
        const char *msg;
    } rows[] = {
        { "", RC_PARSE, "line 1: there is no header" },
        { "a,b\n1\n", RC_PARSE, "line 2: 1 cells where the header has 2" },
        { "a\n\"x", RC_PARSE, "line 2: the quoted cell has no end" },
        { "a\n\"x\"y\n", RC_PARSE, "line 2: text after the closing quote" },
        { "a\nx\"y\n", RC_PARSE, "line 2: a quote inside a plain cell" },
        { "a\n\xff\n", RC_PARSE, "line 2: a cell is not UTF-8 text" },
        { "a,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\n", RC_LIMIT,
          "line 1: more than 64 columns" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct arena a = { 0 };
        struct err err = { 0 };
        struct csv t = { .cols = 77 };

        assert_int_equal(csv_parse(&a, rows[i].text, strlen(rows[i].text), &t, &err), rows[i].rc);
        assert_string_equal(err.msg, rows[i].msg);
        assert_int_equal(t.cols, 77); /* untouched */
        arena_release(&a);
    }
}

TEST(csv_limits_cells)
{
    struct arena a = { 0 };
    struct err err = { 0 };
    struct csv t;
    char *big = malloc(CSV_CELL_MAX + 64);

    memset(big, 'x', CSV_CELL_MAX + 63);
    assert_int_equal(csv_parse(&a, big, CSV_CELL_MAX + 63, &t, &err), RC_LIMIT);
    free(big);
    arena_release(&a);
}

TEST(nccl_names)
{
    struct arena a = { 0 };
    struct err err = { 0 };
    static const char *const others[] = { "NCCL_SHARPEN_DISABLE", "NCCL_IBNEW_DISABLE",
                                          "NCCL_NVLS_DISABLE",    "NCCL_TIMEOUT",
                                          "NCCL_TUNER_ENABLE",    "NCCL_SPCX_ENABLE",
                                          "NCCL_GDR_LEVEL" };
    struct cat_nccl_table t;
    size_t explained = 0;

    assert_int_equal(cat_nccl_load(&a, &t, &err), RC_OK);
    CHECK(t.count >= 229);
    for (size_t i = 0; i < t.count; i++) {
        CHECK(str_starts(t.rows[i].name, "NCCL_"));
        CHECK(*t.rows[i].source);
        CHECK(*t.rows[i].dflt);
        explained += *t.rows[i].meaning != 0;
    }
    CHECK(explained >= 60);
    assert_string_equal(cat_nccl_find(&t, "NCCL_IB_GID_INDEX")->dflt, "-1");
    assert_string_equal(cat_nccl_find(&t, "NCCL_IB_GID_INDEX")->since, "2.1.4");
    assert_non_null(cat_nccl_find(&t, "NCCL_P2P_LEVEL"));
    assert_null(cat_nccl_find(&t, "NCCL_IB_HCAS"));
    assert_null(cat_nccl_find(&t, NULL));
    assert_string_equal(cat_nccl_nearest(&t, "NCCL_IB_HCAS"), "NCCL_IB_HCA");
    assert_string_equal(cat_nccl_nearest(&t, "NCCL_SOCKET_INFAME"), "NCCL_SOCKET_IFNAME");
    assert_string_equal(cat_nccl_nearest(&t, "NCCL_SOCKETIFNAME"), "NCCL_SOCKET_IFNAME");
    assert_null(cat_nccl_nearest(&t, "NCCL_SOMETHING_ELSE_ALTOGETHER"));
    for (size_t i = 0; i < ARRAY_SIZE(others);
         i++) /* following such a hint turns a transport off */
        assert_null(cat_nccl_nearest(&t, others[i]));
    arena_release(&a);
}

TEST(gpus)
{
    static const struct {
        int64_t id; /* 0: unknown */
        const char *product;
        const char *name;
    } rows[] = {
        { 0x2335, "whatever", "H200 SXM 141GB" },
        { 0, "NVIDIA H200", "H200 SXM 141GB" },
        { 0, "NVIDIA H200 NVL", "H200 NVL 141GB" },
        { 0, "NVIDIA GH200 480GB", "GH200 96GB" },
        { 0x2342, NULL, "GH200 96GB" },
        { 0x2348, NULL, "GH200 144GB" },
        { 0, "NVIDIA GH200 144G HBM3e", "GH200 144GB" },
        { 0, "NVIDIA L4", "L4 24GB" },
        { 0, "NVIDIA L40S", "L40S 48GB" },
        { 0, "NVIDIA A10", "A10 24GB" },
        { 0, "NVIDIA A10G", NULL },
        { 0, "NVIDIA A30", "A30 24GB" },
        { 0, "Tesla T4", "T4 16GB" },
        { 0, "NVIDIA H20", "H20 96GB" },
        { 0, "NVIDIA H20-3e", NULL },
        { 0, "Tesla V100-SXM2-32GB", "V100 SXM2 32GB" },
        { 0, "NVIDIA GB200", "GB200 186GB" },
        { 0x2941, NULL, "GB200 186GB" },
        { 0, "NVIDIA GB300", "GB300 288GB" },
        { 0x31c2, NULL, "GB300 288GB" },
        { 0, "NVIDIA B300 SXM6 AC", "B300 SXM 288GB" },
        { 0, "NVIDIA A40", "A40 48GB" },
        { 0, "NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server 96GB" },
        { 0x20b2, NULL, "A100 SXM4 80GB" },
        { 0, "NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB" },
        { 0, "NVIDIA H100 80GB HBM3", "H100 SXM5 80GB" },
        { 0x20f1, NULL, "A100 PCIe 40GB" },
        { 0x1234, "NVIDIA H200", NULL },
        { 0, NULL, NULL },
    };
    struct arena a = { 0 };
    struct err err = { 0 };
    struct cat_gpu_table t;

    assert_int_equal(cat_gpu_load(&a, &t, &err), RC_OK);
    CHECK(t.count >= 11);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct maybe id = rows[i].id ? maybe_of(rows[i].id) : maybe_none();
        const struct cat_gpu *g = cat_gpu_find(&t, id, rows[i].product);

        if (rows[i].name)
            assert_string_equal(g->name, rows[i].name);
        else
            assert_null(g);
    }
    CHECK(maybe_is(cat_gpu_find(&t, maybe_of(0x2335), NULL)->mem_gbps, 4800));
    CHECK(maybe_is(cat_gpu_find(&t, maybe_of(0x2342), NULL)->c2c, 1));
    CHECK(maybe_is(cat_gpu_find(&t, maybe_of(0x2941), NULL)->c2c, 1));
    CHECK(!cat_gpu_find(&t, maybe_of(0x2335), NULL)->c2c.known);
    CHECK(!cat_gpu_find(&t, maybe_of(0x20b2), NULL)->fp8_tflops.known);
    CHECK(maybe_is(cat_gpu_find(&t, maybe_of(0x26b9), NULL)->nvlink_links, 0));
    arena_release(&a);
}

/* What people write in a spec is the model, not its nearest neighbour. */
TEST(gpus_by_what_people_write)
{
    static const char *const rows[][2] = {
        { "L4", "L4 24GB" },
        { "A10", "A10 24GB" },
        { "a30", "A30 24GB" },
        { "T4", "T4 16GB" },
        { "H20", "H20 96GB" },
        { "GH200", "GH200 96GB" },
        { "Tesla T4", "T4 16GB" },
        { "V100", "V100 SXM2 32GB" },
        { "gh200-144gb", "GH200 144GB" },
        { "V100-16GB", "V100 SXM2 16GB" },
    };
    struct arena a = { 0 };
    struct cat_gpu_table t;
    const struct cat_gpu *g;

    assert_int_equal(cat_gpu_load(&a, &t, NULL), RC_OK);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        g = cat_gpu_named(&t, rows[i][0], NULL);
        assert_non_null(g);
        assert_string_equal(g->name, rows[i][1]);
        CHECK(g->mem_mib.known && g->bf16_tflops.known); /* it can be planned for */
    }
    for (size_t i = 0; i < t.count; i++) /* slower than tensor cores */
        CHECK(t.rows[i].fp32_gflops.known && t.rows[i].fp32_gflops.v > 1000 &&
              t.rows[i].fp32_gflops.v < 1000 * t.rows[i].bf16_tflops.v);
    g = cat_gpu_named(&t, "A30", NULL);
    CHECK(maybe_is(cat_mig_instances(g, "1g.6gb"), 4) &&
          maybe_is(cat_mig_instances(g, "2g.12gb"), 2) &&
          maybe_is(cat_mig_instances(g, "4g.24gb"), 1) &&
          maybe_is(cat_mig_instances(g, "1g.5gb"), 0));
    CHECK(maybe_is(cat_mig_instances(cat_gpu_named(&t, "T4", NULL), "1g.6gb"), 0));
    arena_release(&a);
}

/* What joins the GPUs of a machine is a fact of the row: a card that takes bridges has none of its
 * own, whatever its name, and a figure that nobody confirms is unknown. */
TEST(gpus_and_their_links)
{
    static const struct {
        const char *name;
        int gen;
    } rows[] = { { "V100", 2 },     { "A100", 3 }, { "H20", 4 },       { "gh200-144gb", 4 },
                 { "A30", 0 },      { "A40", 0 },  { "a100-pcie", 0 }, { "h100-nvl", 0 },
                 { "h200-nvl", 0 }, { "L4", 0 },   { "T4", 0 } };
    struct arena a = { 0 };
    struct cat_gpu_table t;
    const struct cat_gpu *g;

    assert_int_equal(cat_gpu_load(&a, &t, NULL), RC_OK);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(cat_gpu_nvlink(cat_gpu_named(&t, rows[i].name, NULL)), rows[i].gen);
    g = cat_gpu_named(&t, "A30", NULL);
    CHECK(maybe_is(g->nvlink_gen, 3) && !g->nvlink_gbps.known);
    CHECK(!cat_gpu_named(&t, "H20", NULL)->tdp_w.known);
    CHECK(str_eq(cat_gpu_named(&t, "Tesla-V100-SXM2-16GB", NULL)->name, "V100 SXM2 16GB"));
    g = cat_gpu_named(&t, "gh200-144gb", NULL);
    CHECK(maybe_is(cat_mig_instances(g, "1g.18gb"), 7) &&
          maybe_is(cat_mig_instances(g, "1g.12gb"), 0));
    arena_release(&a);
}

TEST_MAIN(cmocka_unit_test(csv_reads), cmocka_unit_test(csv_refuses),
          cmocka_unit_test(csv_limits_cells), cmocka_unit_test(nccl_names), cmocka_unit_test(gpus),
          cmocka_unit_test(gpus_by_what_people_write), cmocka_unit_test(gpus_and_their_links))
