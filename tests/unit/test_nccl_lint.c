/* SPDX-License-Identifier: MIT */
/* Known mistakes in the environment: one row each, with the machine it is made on. */
#include "nccl_machine.h"

#include "nccl/nccl.h"

enum where { POD, DGX, PCIE, LATE_ETH0, DOWN };

static struct machine *machine(enum where w)
{
    struct machine *m = w == DGX ? machine_dgx() : machine_pod("ok");

    if (w == PCIE)
        for (size_t i = 0; i < m->hw.gpu_pairs_count; i++) {
            m->pairs[i].path = "SYS";
            m->pairs[i].nvlinks = maybe_of(0);
        }
    if (w == LATE_ETH0) { /* the address of eth0 is gone: net1 is first */
        m->nets[1].addrs_count = 0;
    }
    for (size_t i = 0; w == DOWN && i < m->hw.rdma_count; i++)
        m->ports[i].state = "DOWN";
    return m;
}

static const struct {
    enum where where;
    const char *name, *value;
    enum nccl_severity severity;
    const char *says; /* NULL: nothing may be said */
} rows[] = {
    { POD, "NCCL_IB_HCA", "^mlx5_", NCCL_ERROR, "falls back to TCP" },
    { POD, "NCCL_IB_HCA", "mlx5_1", NCCL_WARN, "is no device here and takes mlx5_10, mlx5_11" },
    { POD, "NCCL_IB_HCA", "mlx5", NCCL_INFO, "on a node with more devices it may" },
    { POD, "NCCL_IB_HCA", "mlx5_", NCCL_INFO, "on a node with more devices it may" },
    { DGX, "NCCL_IB_HCA", "mlx5_0,mlx5_1", NCCL_INFO, "takes no other device" },
    { DGX, "NCCL_IB_HCA", "=mlx5_0,mlx5_1", NCCL_WARN, "costs 8 of 8 GPUs bandwidth" },
    { DGX, "NCCL_NET_GDR_LEVEL", "LOC", NCCL_ERROR, "turns GPUDirect RDMA off" },
    { DGX, "NCCL_IB_HCA", "=mlx5_0,mlx5_12", NCCL_WARN, "no RDMA port 'mlx5_12'" },
    { DGX, "NCCL_IB_HCA", "=mlx5_12", NCCL_ERROR, "no RDMA port 'mlx5_12'" },
    { DGX, "NCCL_IB_HCA", "=mlx5_0:2", NCCL_ERROR, "no RDMA port 'mlx5_0:2'" },
    { DGX, "NCCL_IB_HCA", "1 HCA found:,mlx5_0", NCCL_ERROR, "heading of ibv_devinfo" },
    { DGX, "NCCL_IB_HCA", "8 HCAs found:", NCCL_ERROR, "heading of ibv_devinfo" },
    { DGX, "NCCL_IB_HCA", "mlx5_[0-7]", NCCL_ERROR, "knows no patterns" },
    { DGX, "NCCL_IB_HCA", "^mlx5_0", NCCL_INFO, NULL },
    { POD, "NCCL_IB_GID_INDEX", "3", NCCL_INFO, "may differ between pods" },
    { POD, "NCCL_IB_GID_INDEX", "2", NCCL_WARN, "RoCE v1" },
    { POD, "NCCL_IB_GID_INDEX", "1", NCCL_WARN, "link-local" },
    { POD, "NCCL_IB_GID_INDEX", "9", NCCL_ERROR, "is empty" },
    { POD, "NCCL_IB_GID_INDEX", "three", NCCL_WARN, "not a number" },
    { POD, "NCCL_IB_GID_INDEX", "three", NCCL_WARN,
      "Entry 0 of mlx5_6, mlx5_7, mlx5_10, mlx5_11 is RoCE v1" },
    { POD, "NCCL_IB_DISABLE", "true", NCCL_WARN, "reads 0" },
    { POD, "NCCL_P2P_DISABLE", "yes", NCCL_WARN, "reads 0" },
    { POD, "NCCL_BUFFSIZE", "4M", NCCL_WARN, "reads 4" },
    { POD, "NCCL_MAX_CTAS", "many", NCCL_WARN, "reads 0" },
    { POD, "NCCL_IB_TIMEOUT", "99999999999999999999", NCCL_WARN, "too great" },
    { POD, "NCCL_CROSS_NIC", "1", NCCL_WARN, "cannot connect" },
    { POD, "NCCL_CROSS_NIC", "0", NCCL_INFO, NULL },
    { DGX, "NCCL_CROSS_NIC", "1", NCCL_INFO, NULL },
    { POD, "NCCL_NET", "IB", NCCL_INFO, NULL },
    { POD, "NCCL_NET", "SOCKET", NCCL_ERROR, "over TCP" },
    { DOWN, "NCCL_NET", "IB", NCCL_ERROR, "NCCL fails" },
    { POD, "NCCL_SOCKET_IFNAME", "lo", NCCL_WARN, "stays inside this machine" },
    { POD, "NCCL_SOCKET_IFNAME", "eth", NCCL_INFO, NULL },
    { POD, "NCCL_IB_HCA", "=mlx5_6:1", NCCL_WARN, "costs 4 of 4 GPUs" },
    { POD, "NCCL_IB_HCA", "=mlx5_6:1,mlx5_7:1,mlx5_10:1,mlx5_11:1", NCCL_INFO, NULL },
    { POD, "NCCL_IB_TIMEOUT", "22", NCCL_INFO, NULL },
    { POD, "NCCL_IB_RETRY_CNT", "7", NCCL_INFO, NULL },
    { POD, "NCCL_IB_TC", "106", NCCL_INFO, NULL },
    { POD, "NCCL_IB_SL", "0x3", NCCL_INFO, NULL },
    { POD, "NCCL_IB_QPS_PER_CONNECTION", "4", NCCL_INFO, NULL },
    { POD, "NCCL_IB_ADAPTIVE_ROUTING", "1", NCCL_INFO, NULL },
    { POD, "NCCL_NVLS_ENABLE", "0", NCCL_INFO, NULL },
    { POD, "NCCL_CUMEM_ENABLE", "0", NCCL_INFO, NULL },
    { POD, "NCCL_BUFFSIZE", "8388608", NCCL_INFO, NULL },
    { POD, "NCCL_NET_PLUGIN", "none", NCCL_INFO, NULL },
    { POD, "NCCL_DEBUG_SUBSYS", "INIT,NET", NCCL_INFO, NULL },
    { POD, "NCCL_ASYNC_ERROR_HANDLING", "1", NCCL_INFO, NULL },
    { POD, "NCCL_IB_GID_INDEX", "-1", NCCL_INFO, NULL },
    { DGX, "NCCL_IB_GID_INDEX", "3", NCCL_WARN, "never reads it" },
    { POD, "NCCL_IB_ADDR_RANGE", "192.168.1.0/24,192.168.2.0/24", NCCL_WARN, "stops at the first" },
    { POD, "NCCL_IB_ADDR_RANGE", "192.168.1.0,192.168.2.0/24", NCCL_WARN, "ignores it" },
    { POD, "NCCL_IB_ADDR_RANGE", "192.168.0.0", NCCL_WARN, "not a range" },
    { POD, "NCCL_IB_ADDR_RANGE", "192.168.0.0/16", NCCL_INFO, NULL },
    { POD, "NCCL_IB_ADDR_FAMILY", "IPv6", NCCL_WARN, "looks for IPv4" },
    { POD, "NCCL_SOCKET_FAMILY", "4", NCCL_WARN, "AF_INET and AF_INET6 alone" },
    { POD, "NCCL_SOCKET_FAMILY", "AF_INET", NCCL_INFO, NULL },
    { POD, "NCCL_SOCKET_IFNAME", "^docker0", NCCL_ERROR, "let back in and taken" },
    { POD, "NCCL_SOCKET_IFNAME", "^lo,docker", NCCL_INFO, NULL },
    { POD, "NCCL_SOCKET_IFNAME", "net1,net2,net3,net4", NCCL_WARN, "leaves by eth0" },
    { POD, "NCCL_SOCKET_IFNAME", "ib0", NCCL_ERROR, "NCCL fails at start-up" },
    { POD, "NCCL_SOCKET_IFNAME", "=eth0,eth1", NCCL_WARN, "called 'eth1'" },
    { POD, "NCCL_SOCKET_IFNAME", "=eth0", NCCL_INFO, NULL },
    { POD, "NCCL_SOCKET_IFNAME", "e", NCCL_WARN, "one character" },
    { LATE_ETH0, "NCCL_SOCKET_IFNAME", "^docker,lo", NCCL_WARN, "rail" },
    { POD, "NCCL_IB_DISABLE", "1", NCCL_ERROR, "over TCP" },
    { POD, "NCCL_IB_DISABLE", "0", NCCL_INFO, NULL },
    { POD, "NCCL_NET", "Socket", NCCL_ERROR, "over TCP" },
    { POD, "NCCL_P2P_DISABLE", "1", NCCL_ERROR, "NVLink" },
    { PCIE, "NCCL_P2P_DISABLE", "1", NCCL_WARN, "through host memory" },
    { POD, "NCCL_P2P_LEVEL", "5", NCCL_WARN, "SYS" },
    { POD, "NCCL_P2P_LEVEL", "0", NCCL_ERROR, "not even over NVLink" },
    { PCIE, "NCCL_P2P_LEVEL", "NVL", NCCL_WARN, "no NVLink here" },
    { POD, "NCCL_P2P_LEVEL", "NVL", NCCL_INFO, NULL },
    { POD, "NCCL_NET_GDR_LEVEL", "2", NCCL_WARN, "old way to write PXB" },
    { POD, "NCCL_NET_GDR_LEVEL", "NODE", NCCL_WARN, "no level of that name" },
    { POD, "NCCL_NET_GDR_LEVEL", "SYS", NCCL_WARN, "slower" },
    { POD, "NCCL_NET_GDR_LEVEL", "PHB", NCCL_INFO, NULL },
    { POD, "NCCL_DMABUF_ENABLE", "0", NCCL_INFO, "nvidia_peermem alone" },
    { POD, "NCCL_SHM_DISABLE", "1", NCCL_WARN, "over the network" },
    { POD, "NCCL_ALGO", "Ring", NCCL_WARN, "one fixed choice" },
    { POD, "NCCL_PROTO", "LL128", NCCL_WARN, "corrupts" },
    { POD, "NCCL_PROTO", "^LL128", NCCL_WARN, "what it leaves out" },
    { POD, "NCCL_ALGO", "nvls", NCCL_WARN, "slow for the others." },
    { POD, "NCCL_IB_TIMEOUT", "40", NCCL_WARN, "holds 0 to 31" },
    { POD, "NCCL_IB_RETRY_CNT", "9", NCCL_WARN, "holds 0 to 7" },
    { POD, "NCCL_IB_TC", "300", NCCL_WARN, "holds 0 to 255" },
    { POD, "NCCL_DEBUG", "TRACE", NCCL_WARN, "slows" },
    { POD, "NCCL_DEBUG", "trace", NCCL_WARN, "slows" },
    { POD, "NCCL_DEBUG", "INFO", NCCL_INFO, NULL },
    { POD, "OMP_NUM_THREADS", "128", NCCL_WARN, "Only 64 CPUs" },
    { POD, "OMP_NUM_THREADS", "16", NCCL_INFO, NULL },
    { POD, "GPUS_PER_NODE", "0", NCCL_WARN, "4 GPUs" },
    { POD, "GPUS_PER_NODE", "4", NCCL_INFO, NULL },
    { POD, "NCCL_IB_HCAS", "mlx5_0", NCCL_WARN, "did you mean NCCL_IB_HCA?" },
    { POD, "NCCL_COMPLETELY_UNKNOWN_THING", "1", NCCL_INFO, "no such variable" },
    { POD, "NCCL_IB_GDR_LEVEL", "3", NCCL_WARN, "NCCL_NET_GDR_LEVEL" },
    { POD, "NCCL_VERSION", "2.27.3", NCCL_INFO, NULL },
    { POD, "NCCL_TESTS_MIN_BW", "100", NCCL_INFO, NULL },
    { POD, "CUDA_VISIBLE_DEVICES", "0", NCCL_INFO, NULL },
};

TEST(table)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO(machine_free) struct machine *m = machine(rows[i].where);
        const struct nccl_lint *hit = NULL;
        AUTO(nccl_lints_release) struct nccl_lints l;

        m_env(m, rows[i].name, rows[i].value);
        nccl_lint_env(&m->hw, &l);
        for (size_t k = 0; k < l.count; k++) {
            assert_string_equal(l.items[k].name, rows[i].name);
            assert_string_equal(l.items[k].value, rows[i].value);
            CHECK(str_ends(l.items[k].remedy, "."));
            if (rows[i].says && strstr(l.items[k].message, rows[i].says))
                hit = &l.items[k];
        }
        if (rows[i].says ? !hit || hit->severity != rows[i].severity : l.count > 0) {
            struct buf out = { 0 };

            nccl_lints_write(&l, false, &out);
            print_error("row %zu, %s=%s:\n%s", i, rows[i].name, rows[i].value, buf_str(&out));
            buf_release(&out);
            fail();
        }
    }
}

TEST(clean_machines_are_silent)
{
    for (int w = POD; w <= PCIE; w++) {
        AUTO(machine_free) struct machine *m = machine((enum where)w);
        AUTO(nccl_lints_release) struct nccl_lints l;

        nccl_lint_env(&m->hw, &l);
        assert_int_equal(l.count, 0);
        nccl_lints_release(&l);
    }
}

static bool has(struct machine *m, const char *name, const char *text)
{
    struct nccl_lints l;
    bool found = false;

    nccl_lint_env(&m->hw, &l);
    for (size_t k = 0; k < l.count; k++)
        found = found || (str_eq(l.items[k].name, name) && strstr(l.items[k].message, text));
    nccl_lints_release(&l);
    return found;
}

/* mlx5_1 takes mlx5_10 too, on a machine that has both. */
TEST(prefix_takes_more)
{
    AUTO(machine_free) struct machine *m = machine_dgx();

    m_env(m, "NCCL_IB_HCA", "mlx5_0,mlx5_1");
    m_rdma(m, "mlx5_10", "0000:e8:00.0", "InfiniBand", 100);
    CHECK(has(m, "NCCL_IB_HCA", "'mlx5_1' also takes mlx5_10"));
    m_env(m, "NCCL_IB_HCA", "=mlx5_0,mlx5_1");
    CHECK(!has(m, "NCCL_IB_HCA", "also takes"));
    m->ports[0].state = "DOWN";
    CHECK(has(m, "NCCL_IB_HCA", "port of 'mlx5_0' is DOWN"));
    m->ports[0].state = "ACTIVE";
    m->ports[0].link_layer = "Ethernet";
    CHECK(has(m, "NCCL_IB_HCA", "InfiniBand and Ethernet"));
}

TEST(dmabuf_without_peermem)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");

    m_env(m, "NCCL_DMABUF_ENABLE", "0");
    m->hw.limits.peermem = NULL;
    CHECK(has(m, "NCCL_DMABUF_ENABLE", "35.4 instead of 194.6"));
}

TEST(gid_of_another_namespace)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");

    m_env(m, "NCCL_IB_GID_INDEX", "3");
    m->gids[1][3].ndev = NULL;
    CHECK(has(m, "NCCL_IB_GID_INDEX", "not in this namespace"));
}

/* A script that ran without the GPUs wrote 0, and the GPUs are still out of sight. */
TEST(zero_gpus_where_none_can_be_seen)
{
    AUTO(machine_free) struct machine *m = machine_pod("hidden");

    m_env(m, "GPUS_PER_NODE", "0");
    CHECK(has(m, "GPUS_PER_NODE", "starts no rank"));
}

/* The whole environment of a manifest seen in the field. */
TEST(everything_at_once)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_lints_release) struct nccl_lints l;
    AUTO(buf_release) struct buf out = { 0 };
    size_t errors = 0;

    m_env(m, "NCCL_IB_HCA", "^mlx5_");
    m_env(m, "NCCL_SOCKET_FAMILY", "4");
    m_env(m, "NCCL_ALGO", "Ring");
    m_env(m, "NCCL_NET_GDR_LEVEL", "5");
    m_env(m, "NCCL_IB_GID_INDEX", "3");
    m_env(m, "NCCL_SOCKET_IFNAME", "net1,net2,net3,net4");
    nccl_lint_env(&m->hw, &l);
    for (size_t i = 0; i < l.count; i++)
        errors += l.items[i].severity == NCCL_ERROR;
    assert_int_equal(errors, 1);
    assert_int_equal(l.count, 6); /* the GID is moot: no port is used */
    nccl_lints_write(&l, true, &out);
    for (const char *p = buf_str(&out); *p; p += strcspn(p, "\n") + 1)
        CHECK(str_starts(p, "# "));
}

TEST_MAIN(cmocka_unit_test(table), cmocka_unit_test(clean_machines_are_silent),
          cmocka_unit_test(prefix_takes_more), cmocka_unit_test(dmabuf_without_peermem),
          cmocka_unit_test(gid_of_another_namespace),
          cmocka_unit_test(zero_gpus_where_none_can_be_seen), cmocka_unit_test(everything_at_once))
