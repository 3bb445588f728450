/* SPDX-License-Identifier: MIT */
/* hw/compare: what differs between machines, and what is no difference. */
#include "test.h"

#include "base/str.h"
#include "hw/compare/compare_int.h"

#include <stdlib.h>

struct rig { /* a machine of two GPUs and a NIC */
    struct hw hw;
    struct hw_gpu gpus[4];
    struct hw_rdma nic;
    struct hw_rdma_port port;
    struct hw_gid gids[2];
};

static void rig_make(struct rig *m, const char *host)
{
    static const char *const bdfs[] = { "0000:1b:00.0", "0000:43:00.0", "0000:52:00.0",
                                        "0000:9d:00.0" };

    *m = (struct rig){ 0 };
    m->hw.place.hostname = host;
    m->hw.place.kernel = "6.1.0";
    m->hw.memory.total_bytes = maybe_of(2000000000000);
    m->hw.limits.cmdline = "iommu=pt";
    for (size_t i = 0; i < 4; i++)
        m->gpus[i] = (struct hw_gpu){ .bdf = bdfs[i],
                                      .state = "ok",
                                      .vbios = "96.00.74",
                                      .uuid = host,
                                      .temp_c = maybe_of((int64_t)strlen(host)),
                                      .pcie_width = maybe_of(16) };
    m->hw.gpus = m->gpus;
    m->hw.gpus_count = 4;
    m->nic = (struct hw_rdma){
        .name = "mlx5_0", .firmware = "28.39", .ports = &m->port, .ports_count = 1
    };
    m->port = (struct hw_rdma_port){
        .port = maybe_of(1), .link_layer = "Ethernet", .gids = m->gids, .gids_count = 2
    };
    m->gids[0] = (struct hw_gid){ .index = maybe_of(0),
                                  .type = "IB/RoCE v1",
                                  .gid = "fe80:0000:0000:0000:0000:0000:0000:0001" };
    m->gids[1] = (struct hw_gid){ .index = maybe_of(3),
                                  .type = "RoCE v2",
                                  .gid = "0000:0000:0000:0000:0000:ffff:0a00:0001" };
    m->hw.rdma = &m->nic;
    m->hw.rdma_count = 1;
}

static const struct hw_compare_diff *find(const struct hw_compare_diff *d, size_t count,
                                          const char *field, const char *item)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(d[i].field, field) && (!item || str_eq(d[i].item, item)))
            return &d[i];
    return NULL;
}

static const struct hw_compare_diff *run(struct hw_compare *c, struct rig *rigs, size_t n,
                                         size_t *count)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(hw_compare_add(c, &rigs[i].hw, NULL), RC_OK);
    return hw_compare_end(c, count);
}

static void rigs_make(struct rig *r, size_t n)
{
    static const char *const hosts[] = { "gpu1", "gpu2", "gpu33", "gpu444" };

    for (size_t i = 0; i < n; i++)
        rig_make(&r[i], hosts[i % 4]);
}

TEST(identity_and_moment_are_no_differences)
{
    struct hw_compare *c = hw_compare_new();
    struct rig r[4];
    size_t count;

    rigs_make(r, 4);
    r[1].gids[1].gid = "0000:0000:0000:0000:0000:ffff:0a00:0002";
    r[2].hw.memory.total_bytes = maybe_of(2000000000000 - 4096);
    (void)run(c, r, 4, &count);
    assert_int_equal(count, 0);
    hw_compare_free(c);
}

TEST(majority_and_outlier)
{
    struct hw_compare *c = hw_compare_new();
    const struct hw_compare_diff *d, *x;
    struct rig r[4];
    size_t count;

    rigs_make(r, 4);
    r[2].gpus[3].vbios = "96.00.5E";
    r[1].hw.limits.cmdline = "";
    r[3].gids[1].index = maybe_of(5);
    d = run(c, r, 4, &count);
    assert_int_equal(count, 3);
    x = find(d, count, "gpus.vbios", "3");
    assert_non_null(x);
    assert_false(x->tie);
    assert_string_equal(x->values[0]->text, "96.00.74");
    assert_int_equal(x->values[0]->count, 3);
    assert_true(hw_compare_in(&x->values[1]->set, 2));
    assert_int_equal(hw_compare_odd(x), 1);
    x = find(d, count, "limits.cmdline", "iommu");
    assert_non_null(x);
    assert_int_equal(x->values[1]->kind, HW_COMPARE_MISSING);
    x = find(d, count, "rdma.ports.gid_routable", "mlx5_0/1");
    assert_non_null(x);
    assert_string_equal(x->values[1]->text, "5");
    hw_compare_free(c);
}

TEST(a_tie_has_no_majority)
{
    struct hw_compare *c = hw_compare_new();
    const struct hw_compare_diff *d;
    struct rig r[4];
    size_t count;

    rigs_make(r, 4);
    r[0].hw.place.kernel = r[1].hw.place.kernel = "6.8.0";
    d = run(c, r, 4, &count);
    assert_int_equal(count, 1);
    assert_true(d->tie);
    assert_int_equal(hw_compare_odd(d), 4);
    hw_compare_free(c);
}

TEST(unknown_is_a_value)
{
    struct hw_compare *c = hw_compare_new();
    const struct hw_compare_diff *d;
    struct rig r[4];
    size_t count;

    rigs_make(r, 4);
    r[0].nic.firmware = NULL;
    d = run(c, r, 4, &count);
    assert_int_equal(count, 1);
    assert_string_equal(d->field, "rdma.firmware");
    assert_int_equal(d->values[1]->kind, HW_COMPARE_UNKNOWN);
    hw_compare_free(c);
}

/* Other bus numbers are told as such; the GPUs are still compared one by one. */
TEST(gpus_by_position_where_buses_differ)
{
    static const char *const others[] = { "0000:0b:00.0", "0000:33:00.0", "0000:42:00.0",
                                          "0000:8d:00.0" };
    struct hw_compare *c = hw_compare_new();
    const struct hw_compare_diff *d;
    struct rig r[4];
    size_t count;

    rigs_make(r, 4);
    for (size_t i = 0; i < 4; i++)
        r[1].gpus[i].bdf = others[i];
    r[1].gpus[2].pcie_width = maybe_of(8);
    d = run(c, r, 4, &count);
    assert_int_equal(count, 5);
    assert_non_null(find(d, count, "gpus.bdf", "0"));
    assert_non_null(find(d, count, "gpus.pcie_width", "2"));
    assert_null(find(d, count, "gpus", NULL));
    hw_compare_free(c);
}

/* One that fell off is missing, and the GPUs behind it are not taken for one another. */
TEST(a_missing_gpu_moves_no_other)
{
    struct hw_compare *c = hw_compare_new();
    const struct hw_compare_diff *d;
    struct rig r[4];
    size_t count;

    rigs_make(r, 4);
    r[0].gpus[1] = r[0].gpus[2]; /* the first machine, so that it is no accident of the order */
    r[0].gpus[2] = r[0].gpus[3];
    r[0].hw.gpus_count = 3;
    d = run(c, r, 4, &count);
    assert_int_equal(count, 2);
    assert_non_null(find(d, count, "gpus.count", ""));
    assert_non_null(find(d, count, "gpus", "1"));
    hw_compare_free(c);
}

TEST(limits_hold)
{
    struct hw_compare *c = hw_compare_new();
    const struct hw_compare_diff *d;
    static char kernels[200][8];
    struct err err = { 0 };
    struct rig r;
    size_t count;

    rig_make(&r, "x");
    for (int i = 0; i < HW_COMPARE_MACHINES_MAX; i++) {
        (void)snprintf(kernels[i % 200], sizeof(kernels[0]), "%d", i % 200);
        r.hw.place.kernel = kernels[i % 200];
        assert_int_equal(hw_compare_add(c, &r.hw, &err), RC_OK);
    }
    assert_int_equal(hw_compare_add(c, &r.hw, &err), RC_LIMIT);
    d = hw_compare_end(c, &count);
    assert_int_equal(count, 1);
    assert_int_equal(d->count, HW_COMPARE_EACH_MAX + 1);
    assert_int_equal(d->values[d->count - 1]->kind, HW_COMPARE_OTHER);
    hw_compare_free(c);
}

TEST(names_are_short)
{
    static const char *const names[] = { "gpu1", "gpu2", "gpu3", "gpu7", "login", "n09", "n10" };
    struct hw_compare_set set = { { 0x7f } };
    AUTO(buf_release) struct buf out = { 0 };

    hw_compare_names(&set, names, 7, &out);
    assert_string_equal(buf_str(&out), "gpu[1-3,7], login, n[09-10]");
}

TEST_MAIN(cmocka_unit_test(identity_and_moment_are_no_differences),
          cmocka_unit_test(majority_and_outlier), cmocka_unit_test(a_tie_has_no_majority),
          cmocka_unit_test(unknown_is_a_value),
          cmocka_unit_test(gpus_by_position_where_buses_differ),
          cmocka_unit_test(a_missing_gpu_moves_no_other), cmocka_unit_test(limits_hold),
          cmocka_unit_test(names_are_short))
