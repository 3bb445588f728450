/* SPDX-License-Identifier: MIT */
/* What NCCL will choose: filters, GID search, interfaces, levels, GPUs. */
#include "nccl_machine.h"

#include "nccl/nccl_int.h"

TEST(filters)
{
    static const struct {
        const char *list, *name;
        int64_t port;
        bool takes;
    } rows[] = {
        { NULL, "mlx5_0", 1, true },           { "mlx5_1", "mlx5_1", 1, true },
        { "mlx5_1", "mlx5_10", 1, true }, /* a prefix */
        { "=mlx5_1", "mlx5_10", 1, false },    { "=mlx5_1:1", "mlx5_1", 1, true },
        { "=mlx5_1:2", "mlx5_1", 1, false },   { "=mlx5_0:1:3:0,mlx5_1::2", "mlx5_1", 7, true },
        { "^mlx5_", "mlx5_3", 1, false },      { "^mlx5_", "bnxt_re0", 1, true },
        { "^=mlx5_1", "mlx5_10", 1, true },    { "^", "mlx5_0", 1, false },
        { ",,:1,mlx5_2", "mlx5_0", 1, false }, { "^docker,lo,virbr", "lo", -1, false },
        { "^docker0", "lo", -1, true },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct name_filter m;

        name_filter_parse(&m, rows[i].list, FILTER_HCAS);
        if (name_filter_takes(&m, rows[i].name, rows[i].port) != rows[i].takes)
            fail_msg("row %zu: '%s' on %s", i, rows[i].list, rows[i].name);
    }
}

#define LL  "fe80:0000:0000:0000:0c42:a1ff:fe00:0001"
#define V4  "0000:0000:0000:0000:0000:ffff:0a00:0005"
#define V4B "0000:0000:0000:0000:0000:ffff:0a01:0005"
#define V6  "fd00:0000:0000:0000:0000:0000:0000:0005"

TEST(gid_search)
{
    static const struct {
        const char *what;
        const char *gids[6]; /* "" is an empty slot */
        int types[6];        /* RoCE version; 0: unreadable */
        int family;
        const char *range;
        int64_t want;
    } rows[] = {
        { "mlx5 with IPv4", { LL, LL, V4, V4 }, { 1, 2, 1, 2 }, 4, NULL, 3 },
        { "mlx5 with both", { LL, LL, V4, V4, V6, V6 }, { 1, 2, 1, 2, 1, 2 }, 4, NULL, 3 },
        { "IPv6 alone, default family", { LL, LL, V6, V6 }, { 1, 2, 1, 2 }, 4, NULL, 0 },
        { "IPv6 alone, AF_INET6", { LL, LL, V6, V6 }, { 1, 2, 1, 2 }, 6, NULL, 3 },
        { "link-local alone", { LL, LL }, { 1, 2 }, 4, NULL, 0 },
        { "IPv4 as RoCE v1 alone", { LL, LL, V4 }, { 1, 2, 1 }, 4, NULL, 2 },
        { "v2 before v1, as bnxt has it", { LL, LL, V4, V4 }, { 2, 1, 2, 1 }, 4, NULL, 2 },
        { "IPv4 first", { V4, V4 }, { 1, 2 }, 4, NULL, 1 },
        { "holes", { "", "", "", V4, "", V4 }, { 0, 0, 0, 1, 0, 2 }, 4, NULL, 5 },
        { "a type that cannot be read", { LL, V4, V4 }, { 1, 0, 2 }, 4, NULL, 2 },
        { "two subnets", { LL, LL, V4, V4, V4B, V4B }, { 1, 2, 1, 2, 1, 2 }, 4, "10.1.0.0/16", 5 },
        { "no entry in the range", { LL, LL, V4, V4 }, { 1, 2, 1, 2 }, 4, "10.9.0.0/16", 0 },
        { "a comma list: the first counts",
          { LL, LL, V4, V4, V4B, V4B },
          { 1, 2, 1, 2, 1, 2 },
          4,
          "10.1.0.0/16,10.0.0.0/16",
          5 },
        { "a comma list without bits first",
          { LL, LL, V4, V4 },
          { 1, 2, 1, 2 },
          4,
          "10.9.0.0,10.1.0.0/16",
          3 },
        { "IPv6 wanted, none there", { V4, V4 }, { 1, 2 }, 6, NULL, 2 },
    };
    static const char *const types[] = { NULL, "IB/RoCE v1", "RoCE v2" };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO(machine_free) struct machine *m = machine_new();
        struct hw_rdma_port *p = m_rdma(m, "mlx5_0", "0000:01:00.0", "Ethernet", 400);
        struct gid_rule rule;

        for (int64_t k = 0; k < 6; k++)
            if (rows[i].gids[k] && *rows[i].gids[k])
                m_gid(p, k, rows[i].gids[k], types[rows[i].types[k]], "net1");
        if (rows[i].family == 6)
            m_env(m, "NCCL_IB_ADDR_FAMILY", "AF_INET6");
        if (rows[i].range)
            m_env(m, "NCCL_IB_ADDR_RANGE", rows[i].range);
        gid_rule_of(&m->hw, &rule);
        if (gid_scan(p, &rule) != rows[i].want)
            fail_msg("%s: %lld", rows[i].what, (long long)gid_scan(p, &rule));
    }
}

TEST(gid_infiniband)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    struct hw_rdma_port *p = &m->ports[0];

    assert_int_equal(gid_ib(&m->hw, p), 0);
    m_gid(p, 1, "fec0:0000:0012:0001:a088:c203:00ab:cdef", NULL, NULL); /* FLID 0x12 */
    assert_int_equal(gid_ib(&m->hw, p), 1);
    m_env(m, "NCCL_IB_ROUTABLE_FLID_GID_INDEX", "2");
    assert_int_equal(gid_ib(&m->hw, p), 0);
}

TEST(gid_text_forms)
{
    struct gid g;

    CHECK(gid_parse(V4, &g) && gid_is_v4(&g) && gid_is_set(&g));
    CHECK(gid_parse(LL, &g) && gid_is_link_local(&g));
    CHECK(gid_parse("fe80:0000:0000:0000:0000:0000:0000:0000", &g) && !gid_is_set(&g));
    CHECK(!gid_parse("", &g));
    CHECK(!gid_parse(NULL, &g));
    CHECK(!gid_parse("fe80:0000", &g));
    CHECK(!gid_parse(V4 ":1", &g));
    CHECK(!gid_parse("fe800:0000:0000:0000:0000:0000:0000:0000", &g));
}

TEST(levels)
{
    static const struct {
        const char *text;
        enum nccl_level want;
    } rows[] = {
        { "PHB", LEVEL_PHB },   { "0", LEVEL_LOC },    { "1", LEVEL_PIX },   { "2", LEVEL_PXB },
        { "3", LEVEL_PHB },     { "4", LEVEL_SYS },    { "5", LEVEL_SYS },   { "99", LEVEL_SYS },
        { "NODE", LEVEL_NONE }, { "phb", LEVEL_NONE }, { "-1", LEVEL_NONE }, { NULL, LEVEL_NONE },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(level_parse(rows[i].text), rows[i].want);
    assert_int_equal(level_of_path("NODE"), LEVEL_PHB);
    assert_int_equal(level_of_path("NV18"), LEVEL_NVL);
    assert_int_equal(level_of_path("DIS"), LEVEL_NONE);
}

TEST(dgx)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m_choose(m, &c);
    assert_string_equal(c.net, "rdma");
    assert_string_equal(c.socket_if, "eno1");
    assert_string_equal(c.peer_if, "eno1");
    assert_int_equal(c.ports_count, 8);
    for (size_t i = 0; i < 8; i++) {
        CHECK(c.ports[i].used && c.ports[i].wanted && c.ports[i].gid_ok);
        CHECK(maybe_is(c.ports[i].gid_index, 0));
        assert_int_equal(c.ports[i].card_ports, 1);
    }
    CHECK(maybe_is(c.gpus, 8));
    assert_int_equal(c.p2p_count, 28);
    assert_string_equal(c.p2p[0].transport, "nvlink");
    assert_int_equal(c.gdr_count, 64);
    assert_string_equal(c.gdr[0].path, "PIX");
    assert_string_equal(c.gdr[1].path, "PXN"); /* by NVLink to the GPU beside that NIC */
    CHECK(maybe_is(c.gdr[1].use, 1));

    m_env(m, "NCCL_PXN_DISABLE", "1");
    m_choose(m, &c);
    assert_string_equal(c.gdr[1].path, "PHB");
    CHECK(maybe_is(c.gdr[1].use, 0));
}

TEST(pod_merges_functions_of_one_bus)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m->rdma[1].bdf = "0000:1a:01.3"; /* another virtual function on the bus of the first */
    m_choose(m, &c);
    assert_string_equal(c.ports[0].card, "0000:1a:00.0");
    assert_int_equal(c.ports[0].card_ports, 2);
    assert_int_equal(c.ports[2].card_ports, 1);
    m_env(m, "NCCL_IB_MERGE_VFS", "0");
    m_choose(m, &c);
    assert_string_equal(c.ports[1].card, "0000:1a:01.0");
    assert_int_equal(c.ports[0].card_ports, 1);
}

/* sysfs shows the host's adapters too; only the pod's have a node in /dev/infiniband. */
TEST(pod_sees_the_hosts_adapters)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    struct hw_rdma_port *p = m_rdma(m, "mlx5_0", "0000:1a:00.0", "Ethernet", 400);
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m_gid(p, 3, "0000:0000:0000:0000:0000:ffff:c0a8:0101", "RoCE v2", NULL);
    m->rdma[4].openable = maybe_of(0);
    m_choose(m, &c);
    CHECK(!c.ports[4].used && !c.ports[4].wanted && c.ports[0].used);
    assert_non_null(strstr(c.ports[4].why, "cannot be opened"));
    m->rdma[4].openable = maybe_of(1); /* a privileged pod has them all */
    m_choose(m, &c);
    CHECK(c.ports[4].used && !c.ports[4].wanted);
    m->rdma[4].openable = maybe_none(); /* cannot tell */
    m_choose(m, &c);
    CHECK(c.ports[4].used && c.ports[0].used);
}

TEST(interfaces)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    /* virtual functions that were there before eth0 come first in the kernel's order */
    m->nets[1].ifindex = maybe_of(99);
    m_choose(m, &c);
    assert_string_equal(c.socket_if, "net1");
    assert_string_equal(c.peer_if, "eth0");

    m->nets[2].running = maybe_of(0);
    m_choose(m, &c);
    assert_string_equal(c.socket_if, "net2");

    m->nets[3].name = "ibs1";
    m->nets[3].ifindex = maybe_of(200);
    m_choose(m, &c);
    assert_string_equal(c.socket_if, "ibs1"); /* whatever its place */

    m_env(m, "NCCL_SOCKET_IFNAME", "=nothing");
    m_choose(m, &c);
    assert_null(c.socket_if);
    CHECK(!c.ports[0].used); /* RDMA needs an IP interface to start */
    assert_string_equal(c.net, "fails");
}

TEST(interfaces_ipv6_come_last)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m_net(m, "lo", 1, "127.0.0.1", 8);
    m_net(m, "six0", 2, "fd00::9", 64);
    m_net(m, "four0", 3, "10.0.0.9", 24);
    m_choose(m, &c);
    assert_string_equal(c.socket_if, "four0");
    m_env(m, "NCCL_SOCKET_FAMILY", "AF_INET6");
    m_choose(m, &c);
    assert_string_equal(c.socket_if, "six0");
    m_env(m, "NCCL_SOCKET_FAMILY", "4"); /* no such family: ignored */
    m_env(m, "NCCL_COMM_ID", "[fd00::1]:29500");
    m_choose(m, &c);
    assert_string_equal(c.socket_if, "six0");
    assert_null(c.peer_if); /* two interfaces and no default route */
}

TEST(route_to_the_peer)
{
    static const struct {
        const char *peer, *dev;
    } rows[] = {
        { "10.128.2.17", "eth0" },  { "10.99.1.1", "storage0" }, { "8.8.8.8", "eth0" },
        { "192.168.2.11", "net2" }, { "10.128.3.44", "eth0" },   { "node-7.example", "eth0" },
        { "127.0.0.1", "eth0" },
    };
    AUTO(machine_free) struct machine *m = machine_pod("ok");

    m_net(m, "storage0", 40, "10.99.0.2", 16);
    m_route(m, "10.99.0.0", 16, NULL, "storage0");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

        m_env(m, "MASTER_ADDR", rows[i].peer);
        m_choose(m, &c);
        assert_string_equal(c.peer_if, rows[i].dev);
    }
}

TEST(visible_gpus)
{
    static const struct {
        const char *var, *value;
        int64_t want; /* -1: unknown */
    } rows[] = {
        { "CUDA_VISIBLE_DEVICES", "0,2", 2 },      { "CUDA_VISIBLE_DEVICES", "", -1 },
        { "CUDA_VISIBLE_DEVICES", "-1", -1 },      { "CUDA_VISIBLE_DEVICES", "1,9,2", 1 },
        { "CUDA_VISIBLE_DEVICES", "GPU-aa,3", 1 }, { "NVIDIA_VISIBLE_DEVICES", "all", 4 },
        { "NVIDIA_VISIBLE_DEVICES", "GPU-aa", 1 }, { "NVIDIA_VISIBLE_DEVICES", "6,7", 4 },
        { "NVIDIA_VISIBLE_DEVICES", "void", 4 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO(machine_free) struct machine *m = machine_pod("ok");
        AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

        m->gpus[0].uuid = "GPU-aa11";
        m_env(m, rows[i].var, rows[i].value);
        m_choose(m, &c);
        assert_int_equal(maybe_or(c.gpus, -1), rows[i].want);
    }
}

TEST(lost_gpu_is_not_counted)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m->gpus[5].state = "lost";
    m_choose(m, &c);
    CHECK(maybe_is(c.gpus, 7));
    assert_int_equal(c.p2p_count, 21);
}

TEST(gpudirect_support)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m->hw.limits.peermem = NULL;
    m_choose(m, &c);
    assert_null(c.gdr_support);
    CHECK(!c.gdr[0].use.known);
    m->hw.limits.dmabuf = maybe_of(1);
    m_choose(m, &c);
    assert_string_equal(c.gdr_support, "dma-buf");
    CHECK(maybe_is(c.gdr[0].use, 1));
    m->hw.limits.peermem = "nvidia_peermem"; /* both: NCCL prefers dma-buf */
    m_choose(m, &c);
    assert_string_equal(c.gdr_support, "dma-buf");
    m_env(m, "NCCL_DMABUF_ENABLE", "0");
    m_choose(m, &c);
    assert_string_equal(c.gdr_support, "nvidia_peermem");
    m->hw.limits.peermem = NULL;
    m_choose(m, &c);
    assert_string_equal(c.gdr_support, "none");
    CHECK(maybe_is(c.gdr[0].use, 0));
}

TEST(peer_to_peer)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m_gpus(m, 2, "ok");
    m_pairs(m, "NODE");
    m_choose(m, &c);
    assert_string_equal(c.p2p[0].path, "PHB");
    assert_string_equal(c.p2p[0].transport, "shm");
    m->hw.cpu.vendor = "AuthenticAMD"; /* two GPUs on AMD: any distance */
    m_choose(m, &c);
    assert_string_equal(c.p2p[0].transport, "p2p");
    m->pairs[0].p2p_read = "chipset not supported";
    m_choose(m, &c);
    assert_string_equal(c.p2p[0].transport, "shm");
    m->pairs[0].path = NULL;
    m_choose(m, &c);
    assert_null(c.p2p[0].transport);
}

TEST(filters_end_where_nccl_stops_reading)
{
    AUTO(buf_release) struct buf b = { 0 };
    struct name_filter m;

    for (int i = 0; i < 40; i++)
        buf_addf(&b, "%sdev%d", i ? "," : "=", i);
    name_filter_parse(&m, buf_str(&b), FILTER_HCAS);
    CHECK(name_filter_takes(&m, "dev31", 1));
    CHECK(!name_filter_takes(&m, "dev32", 1));
    name_filter_parse(&m, buf_str(&b), FILTER_IFS);
    CHECK(name_filter_takes(&m, "dev15", -1));
    CHECK(!name_filter_takes(&m, "dev16", -1));
}

/* strtoll() as NCCL uses it: "true" is 0, "4M" is 4. */
TEST(numbers_as_nccl_reads_them)
{
    static const struct {
        const char *text;
        int64_t want;
    } rows[] = { { "1", 1 },     { "true", 0 }, { "yes", 0 }, { "4M", 4 },
                 { "0x10", 16 }, { " 7 ", 7 },  { "", -2 },   { "99999999999999999999", -2 } };
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        m_env(m, "NCCL_X", rows[i].text);
        assert_int_equal(nccl_env_int(&m->hw, "NCCL_X", -2), rows[i].want);
    }
    m_env(m, "NCCL_IB_DISABLE", "true"); /* disables nothing */
    m_choose(m, &c);
    assert_string_equal(c.net, "rdma");
    m_env(m, "NCCL_NET", "SOCKET"); /* any case */
    m_choose(m, &c);
    assert_string_equal(c.net, "tcp");
}

TEST(comm_id)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m_net(m, "eth0", 2, "10.0.0.4", 24);
    m_net(m, "eth1", 3, "10.9.9.9", 32);
    m->addrs[1][1] =
        (struct hw_addr){ .family = "inet", .addr = "10.5.0.4", .prefix = maybe_of(16) };
    m->nets[1].addrs_count = 2;
    m_env(m, "NCCL_COMM_ID", "10.5.7.7"); /* the port may be missing */
    m_choose(m, &c);
    assert_string_equal(c.socket_if, "eth1");
    assert_string_equal(c.socket_addr, "10.5.0.4");
}

static const struct nccl_gdr *gdr_of(const struct nccl_choice *c, size_t gpu, const char *dev)
{
    for (size_t i = 0; i < c->gdr_count; i++)
        if (c->gdr[i].gpu == gpu && str_eq(c->gdr[i].dev, dev))
            return &c->gdr[i];
    fail_msg("no pair of GPU %zu and %s", gpu, dev);
    return NULL;
}

/* By way of a neighbour only where that neighbour gets GPUDirect RDMA itself. */
TEST(neighbours_nic)
{
    static const struct {
        const char *name, *value, *path;
        bool use;
    } rows[] = {
        { "NCCL_NET_GDR_LEVEL", "PXB", "PXN", true },  { "NCCL_NET_GDR_LEVEL", "PIX", "PXN", true },
        { "NCCL_NET_GDR_LEVEL", "LOC", "SYS", false }, { "NCCL_PXN_DISABLE", "1", "SYS", false },
        { "NCCL_DMABUF_ENABLE", "0", "SYS", false }, /* no module either */
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        AUTO(machine_free) struct machine *m = machine_dgx();
        const struct nccl_gdr *g;
        AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

        m->hw.limits.peermem = NULL;
        m->hw.limits.dmabuf = maybe_of(1);
        m_env(m, rows[i].name, rows[i].value);
        m_choose(m, &c);
        g = gdr_of(&c, 0, "mlx5_7");
        assert_string_equal(g->path, rows[i].path);
        assert_int_equal(maybe_or(g->use, -1), rows[i].use);
    }
}

TEST(nothing_at_all)
{
    AUTO(machine_free) struct machine *m = machine_new();
    struct nccl_choice c;

    nccl_choose(&m->hw, &c);
    assert_null(c.net);
    CHECK(!c.gpus.known);
    nccl_choice_release(&c);
    nccl_choice_release(&c); /* twice does no harm */
}

TEST(address_of_a_used_port)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };

    m_choose(m, &c);
    assert_string_equal(c.ports[0].dev, "mlx5_6");
    CHECK(c.ports[0].used);
    CHECK(strstr(c.ports[0].gid_why, "Index 3 (192.168.1.10, RoCE v2 on net1)") != NULL);
}

TEST_MAIN(cmocka_unit_test(filters), cmocka_unit_test(gid_search), cmocka_unit_test(gid_infiniband),
          cmocka_unit_test(gid_text_forms), cmocka_unit_test(levels), cmocka_unit_test(dgx),
          cmocka_unit_test(pod_merges_functions_of_one_bus),
          cmocka_unit_test(pod_sees_the_hosts_adapters), cmocka_unit_test(interfaces),
          cmocka_unit_test(interfaces_ipv6_come_last), cmocka_unit_test(route_to_the_peer),
          cmocka_unit_test(visible_gpus), cmocka_unit_test(lost_gpu_is_not_counted),
          cmocka_unit_test(gpudirect_support), cmocka_unit_test(peer_to_peer),
          cmocka_unit_test(filters_end_where_nccl_stops_reading),
          cmocka_unit_test(numbers_as_nccl_reads_them), cmocka_unit_test(comm_id),
          cmocka_unit_test(neighbours_nic), cmocka_unit_test(nothing_at_all),
          cmocka_unit_test(address_of_a_used_port))
