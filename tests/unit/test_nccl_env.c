/* SPDX-License-Identifier: MIT */
/* The environment: what is exported, what is left unset and why, on the machines that
 * matter and on those that older scripts got wrong. */
#include "nccl_machine.h"

#include "base/text/json.h"
#include "nccl/nccl.h"

/* In place of what `env` has. */
static void make(struct machine *m, enum nccl_mode mode, struct nccl_env *env)
{
    struct nccl_opts opts = { .mode = mode };

    nccl_env_release(env);
    nccl_env_make(&m->hw, &opts, env);
}

/* The value printed for `name`; NULL when unset or not mentioned. */
static const char *value(const struct nccl_env *env, const char *name)
{
    const struct nccl_var *v = nccl_env_find(env, name);

    return v ? v->value : NULL;
}

static bool says(const struct nccl_env *env, const char *name, const char *text)
{
    const struct nccl_var *v = nccl_env_find(env, name);

    if (v && strstr(v->reason, text))
        return true;
    print_error("%s: %s\n", name, v ? v->reason : "not mentioned");
    return false;
}

static size_t exports(const struct nccl_env *env)
{
    size_t n = 0;

    for (size_t i = 0; i < env->count; i++)
        n += env->vars[i].kind == NCCL_REQUIRED || env->vars[i].kind == NCCL_PINNED;
    return n;
}

#define IS(env, name, want) assert_string_equal(value(env, name), want)
#define UNSET(env, name)    assert_null(value(env, name))

TEST(dgx_needs_nothing)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(exports(&env), 0);
    CHECK(says(&env, "NCCL_IB_HCA", "NCCL takes them by itself"));
    CHECK(says(&env, "NCCL_IB_GID_INDEX", "InfiniBand, where NCCL never reads it"));
    CHECK(says(&env, "NCCL_NET_GDR_LEVEL", "PIX or nearer"));
    CHECK(says(&env, "NCCL_P2P_LEVEL", "NVLink joins every pair"));
    CHECK(says(&env, "NCCL_SOCKET_IFNAME", "eno1"));

    make(m, NCCL_FULL, &env);
    IS(&env, "GPUS_PER_NODE", "8");
    IS(&env, "NCCL_IB_HCA",
       "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1");
    UNSET(&env, "NCCL_IB_GID_INDEX");
    IS(&env, "NCCL_P2P_LEVEL", "NVL");
    IS(&env, "NCCL_NET_GDR_LEVEL", "PXB");
    IS(&env, "NCCL_SOCKET_IFNAME", "=eno1");
    IS(&env, "NCCL_IB_DISABLE", "0");
    IS(&env, "OMP_NUM_THREADS", "28");
    IS(&env, "STOKER_TRANSPORT", "rdma");
}

TEST(pod_full)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    make(m, NCCL_FULL, &env);
    IS(&env, "GPUS_PER_NODE", "4");
    IS(&env, "NCCL_IB_HCA", "=mlx5_6:1,mlx5_7:1,mlx5_10:1,mlx5_11:1");
    IS(&env, "NCCL_IB_GID_INDEX", "3");
    IS(&env, "NCCL_P2P_LEVEL", "NVL");
    IS(&env, "NCCL_NET_GDR_LEVEL", "PXB");
    IS(&env, "NCCL_SOCKET_IFNAME", "=eth0");
    IS(&env, "OMP_NUM_THREADS", "16");
    IS(&env, "STOKER_TRANSPORT", "rdma");
    IS(&env, "NCCL_IB_DISABLE", "0");
    IS(&env, "NCCL_CROSS_NIC", "0");
    IS(&env, "UCX_NET_DEVICES", "mlx5_6:1,mlx5_7:1,mlx5_10:1,mlx5_11:1");
    assert_null(nccl_env_find(&env, "UCX_TLS"));
    CHECK(says(&env, "NCCL_IB_GID_INDEX", "may differ between pods"));
}

TEST(pod_minimal)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(exports(&env), 1); /* isolated rails: NCCL cannot know */
    IS(&env, "NCCL_CROSS_NIC", "0");
    CHECK(says(&env, "NCCL_IB_GID_INDEX", "index 3"));

    /* virtual functions that come before eth0 in the kernel's order */
    m->nets[1].ifindex = maybe_of(99);
    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(exports(&env), 2);
    IS(&env, "NCCL_SOCKET_IFNAME", "=eth0");
    CHECK(says(&env, "NCCL_SOCKET_IFNAME", "net1, a rail without a gateway"));
}

TEST(pod_with_hidden_gpus)
{
    AUTO(machine_free) struct machine *m = machine_pod("hidden");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    make(m, NCCL_FULL, &env);
    UNSET(&env, "GPUS_PER_NODE");
    CHECK(says(&env, "GPUS_PER_NODE", "cannot be known"));
    UNSET(&env, "OMP_NUM_THREADS");
    UNSET(&env, "NCCL_P2P_LEVEL");
    IS(&env, "NCCL_IB_HCA", "=mlx5_6:1,mlx5_7:1,mlx5_10:1,mlx5_11:1");
    IS(&env, "NCCL_NET_GDR_LEVEL", "PXB"); /* the PCI bus still tells */

    make(m, NCCL_MINIMAL, &env);
    CHECK(says(&env, "GPUS_PER_NODE", "init container"));

    m->hw.nvidia.hung_call = "nvmlInit_v2";
    make(m, NCCL_FULL, &env);
    CHECK(says(&env, "GPUS_PER_NODE", "nvmlInit_v2 never returned"));
}

TEST(container_without_the_rdma_resource)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m->hw.limits.uverbs = maybe_of(0);
    make(m, NCCL_FULL, &env);
    UNSET(&env, "NCCL_IB_HCA");
    UNSET(&env, "STOKER_TRANSPORT");
    UNSET(&env, "NCCL_IB_DISABLE");
    CHECK(says(&env, "NCCL_IB_HCA", "cannot be known"));
}

TEST(roce_with_ipv6_alone)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    for (size_t i = 0; i < 4; i++) {
        m->gids[i][2].gid = "fd00:0000:0000:0001:0000:0000:0000:000a";
        m->gids[i][3].gid = "fd00:0000:0000:0001:0000:0000:0000:000a";
    }
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_IB_ADDR_FAMILY", "AF_INET6");
    UNSET(&env, "NCCL_IB_GID_INDEX");
    CHECK(says(&env, "NCCL_IB_ADDR_FAMILY", "IPv6"));
    make(m, NCCL_FULL, &env);
    IS(&env, "NCCL_IB_GID_INDEX", "3");
    /* the user's word on the family is not overruled */
    m_env(m, "NCCL_IB_ADDR_FAMILY", "AF_INET");
    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(nccl_env_find(&env, "NCCL_IB_ADDR_FAMILY")->kind, NCCL_USER);
    IS(&env, "NCCL_IB_GID_INDEX", "3"); /* the way out that is left */
}

TEST(gid_of_another_namespace)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    /* a shared adapter: the first IPv4 address is another pod's, ours comes after */
    for (size_t i = 0; i < 4; i++) {
        m->gids[i][2].ndev = NULL;
        m->gids[i][3].ndev = NULL;
        m_gid(&m->ports[i], 6, "0000:0000:0000:0000:0000:ffff:c0a8:0909", "IB/RoCE v1",
              m->nets[2 + i].name);
        m_gid(&m->ports[i], 7, "0000:0000:0000:0000:0000:ffff:c0a8:0909", "RoCE v2",
              m->nets[2 + i].name);
    }
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_IB_GID_INDEX", "7");
    CHECK(says(&env, "NCCL_IB_GID_INDEX", "may differ between pods"));
    CHECK(says(&env, "NCCL_IB_GID_INDEX", "not in this network namespace"));
    /* and at different places: nothing can be pinned */
    m->gids[0][5].index = maybe_of(9);
    make(m, NCCL_FULL, &env);
    UNSET(&env, "NCCL_IB_GID_INDEX");
}

TEST(gid_at_different_indices)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m->gids[2][3].index = maybe_of(5);
    make(m, NCCL_FULL, &env);
    UNSET(&env, "NCCL_IB_GID_INDEX");
    CHECK(says(&env, "NCCL_IB_GID_INDEX", "5 on mlx5_10"));
}

TEST(old_nccl_does_not_search)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_nccl(m, "2.18.5");
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_IB_GID_INDEX", "3");
    m_nccl(m, "2.21.5");
    make(m, NCCL_MINIMAL, &env);
    UNSET(&env, "NCCL_IB_GID_INDEX");
}

TEST(no_address_in_this_namespace)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++)
            m->gids[i][k].ndev = NULL;
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_IB_DISABLE", "1");
    assert_int_equal(nccl_env_find(&env, "NCCL_IB_DISABLE")->kind, NCCL_REQUIRED);
    make(m, NCCL_FULL, &env);
    IS(&env, "STOKER_TRANSPORT", "tcp");
}

TEST(bnxt_order_of_the_table)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };
    struct hw_rdma_port *p;

    m_gpus(m, 1, "ok");
    m_net(m, "ens1f0", 3, "10.20.0.4", 24)->rdma = "bnxt_re0";
    m->nets[0].default_route = maybe_of(1);
    m_route(m, "0.0.0.0", 0, "10.20.0.1", "ens1f0");
    p = m_rdma(m, "bnxt_re0", "0000:41:00.0", "Ethernet", 200);
    m_gid(p, 0, "fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", "ens1f0");
    m_gid(p, 1, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2", "ens1f0");
    m_gid(p, 2, "0000:0000:0000:0000:0000:ffff:0a14:0004", "IB/RoCE v1", "ens1f0");
    m_gid(p, 3, "0000:0000:0000:0000:0000:ffff:0a14:0004", "RoCE v2", "ens1f0");
    m_distance(m, 0, "bnxt_re0", "PHB");
    m->hw.limits.dmabuf = maybe_of(1);
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_NET_GDR_LEVEL", "PHB"); /* beyond NCCL's default */
    assert_int_equal(exports(&env), 1);
    m->hw.limits.dmabuf = maybe_none();
    make(m, NCCL_MINIMAL, &env);
    UNSET(&env, "NCCL_NET_GDR_LEVEL");
    CHECK(says(&env, "NCCL_NET_GDR_LEVEL", "cannot be told"));
    m->hw.limits.dmabuf = maybe_of(0);
    make(m, NCCL_FULL, &env);
    UNSET(&env, "NCCL_NET_GDR_LEVEL");
    CHECK(says(&env, "NCCL_NET_GDR_LEVEL", "not possible"));
    UNSET(&env, "NCCL_P2P_LEVEL"); /* one GPU */
    m->hw.limits.dmabuf = maybe_of(1);
    m->distances[0].path = "SYS";
    make(m, NCCL_FULL, &env);
    UNSET(&env, "NCCL_NET_GDR_LEVEL"); /* SYS is the user's to ask for */
}

TEST(infiniband_and_roce)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    struct hw_rdma_port *p = m_rdma(m, "mlx5_bond_0", "0000:f8:00.0", "Ethernet", 200);
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_gid(p, 3, "0000:0000:0000:0000:0000:ffff:0a01:0007", "RoCE v2", "eno1");
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_IB_HCA",
       "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1");
    assert_int_equal(nccl_env_find(&env, "NCCL_IB_HCA")->kind, NCCL_REQUIRED);
    CHECK(says(&env, "NCCL_IB_HCA", "mlx5_bond_0:1 (NCCL cannot join"));
}

TEST(storage_nics_are_left_out)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    for (size_t i = 0; i < 8; i++)
        m->rdma[i].hca = "MT4129";
    m_rdma(m, "mlx5_8", "0000:c8:00.0", "InfiniBand", 200); /* slower, another model */
    m->rdma[8].hca = "MT4123";
    m_distance(m, 0, "mlx5_8", "PIX");
    m_rdma(m, "mlx5_9", "0000:d8:00.0", "InfiniBand", 400); /* as fast, at no GPU's switch */
    for (size_t g = 0; g < 8; g++)
        m_distance(m, g, "mlx5_9", "NODE");
    m_rdma(m, "mlx5_10", "0000:e8:00.0", "InfiniBand", 400)->state = "DOWN";
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_IB_HCA",
       "=mlx5_0:1,mlx5_1:1,mlx5_2:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_7:1");
    CHECK(says(&env, "NCCL_IB_HCA", "mlx5_8:1 (it is slower than a NIC of another model"));
    CHECK(says(&env, "NCCL_IB_HCA", "mlx5_9:1 (every GPU has a nearer port"));
    CHECK(!strstr(nccl_env_find(&env, "NCCL_IB_HCA")->reason, "mlx5_10"));
}

TEST(management_nic_is_left_out)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    struct hw_rdma_port *p = m_rdma(m, "mlx5_20", "0000:e1:00.0", "Ethernet", 400);
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m->nets[1].rdma = "mlx5_20"; /* eth0 has the default route */
    m_gid(p, 3, "0000:0000:0000:0000:0000:ffff:0a80:032c", "RoCE v2", "eth0");
    m_distance(m, 0, "mlx5_20", "PXB");
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_IB_HCA", "=mlx5_6:1,mlx5_7:1,mlx5_10:1,mlx5_11:1");
    CHECK(says(&env, "NCCL_IB_HCA", "default route"));
}

TEST(no_rdma)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_gpus(m, 4, "ok");
    m_pairs(m, "SYS");
    m_net(m, "lo", 1, "127.0.0.1", 8);
    m_net(m, "docker0", 2, "172.17.0.1", 16);
    m_net(m, "ens5", 3, "10.0.0.4", 24)->default_route = maybe_of(1);
    m_route(m, "0.0.0.0", 0, "10.0.0.1", "ens5");
    m->hw.place.cpus_usable = maybe_of(3); /* fewer than GPUs */
    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(exports(&env), 0);
    make(m, NCCL_FULL, &env);
    IS(&env, "STOKER_TRANSPORT", "tcp");
    IS(&env, "NCCL_IB_DISABLE", "1");
    IS(&env, "NCCL_SOCKET_IFNAME", "=ens5");
    IS(&env, "NCCL_P2P_LEVEL", "PXB"); /* no NVLink: never NVL */
    IS(&env, "OMP_NUM_THREADS", "1");
    IS(&env, "UCX_NET_DEVICES", "ens5");
    IS(&env, "UCX_TLS", "self,sm,tcp");
    UNSET(&env, "NCCL_IB_HCA");
    UNSET(&env, "NCCL_IB_GID_INDEX");
}

/* Sockets carry data over every interface NCCL takes, not the first alone. */
/* Without RDMA the variable chooses the interfaces of the data as well. */
TEST(no_rdma_keeps_the_fast_interface)
{
    AUTO(machine_free) struct machine *m = machine_new();
    struct hw_net *fast, *front;
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_gpus(m, 4, "ok");
    fast = m_net(m, "ens100", 2, "192.168.50.41", 24);
    front = m_net(m, "eno1", 3, "10.0.0.4", 24);
    front->default_route = maybe_of(1);
    m_route(m, "0.0.0.0", 0, "10.0.0.1", "eno1");
    fast->speed_mbps = maybe_of(100000);
    front->speed_mbps = maybe_of(1000);
    for (int full = 0; full < 2; full++) {
        make(m, full ? NCCL_FULL : NCCL_MINIMAL, &env);
        UNSET(&env, "NCCL_SOCKET_IFNAME");
        CHECK(says(&env, "NCCL_SOCKET_IFNAME", "NCCL sends by ens100 (100 Gb/s)"));
    }
    front->speed_mbps = maybe_of(200000); /* nothing is lost: start where the route is */
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_SOCKET_IFNAME", "=eno1");

    fast->speed_mbps = front->speed_mbps; /* one of two is lost, unless it comes later */
    make(m, NCCL_MINIMAL, &env);
    UNSET(&env, "NCCL_SOCKET_IFNAME");
    m_net(m, "ens200", 4, "192.168.51.41", 24)->speed_mbps = maybe_of(400000);
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_SOCKET_IFNAME", "=eno1,ens200");

    fast->speed_mbps = maybe_of(800000); /* a bridge beside is left out, the fast one kept */
    m_net(m, "br-5f2c", 5, "172.18.0.1", 16)->kind = "bridge";
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_SOCKET_IFNAME", "=eno1,ens100,ens200");
}

/* A list that names an interface without an address ends the job: it is never printed. */
TEST(a_default_route_by_an_interface_without_an_address)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_gpus(m, 4, "ok");
    m_net(m, "lo", 1, "127.0.0.1", 8);
    m_net(m, "bmc0", 2, "169.254.3.1", 24);
    m_net(m, "bond0", 3, NULL, 0)->default_route = maybe_of(1);
    m_net(m, "eno1", 4, "10.0.0.4", 24);
    m_route(m, "0.0.0.0", 0, "10.150.0.1", "bond0");
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_SOCKET_IFNAME", "=eno1");
    CHECK(says(&env, "NCCL_SOCKET_IFNAME", "bond0, which has no address that NCCL could use"));
}

TEST(mig_has_no_peers)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_choice_release) struct nccl_choice c = { 0 };
    struct nccl_env env = { 0 };

    m->hw.gpus[3].mig = maybe_of(1);
    make(m, NCCL_FULL, &env);
    CHECK(says(&env, "GPUS_PER_NODE", "MIG is on"));
    CHECK(says(&env, "NCCL_P2P_LEVEL", "MIG is on"));
    assert_non_null(strstr(env.doubts[env.doubts_count - 1], "MIG is on"));
    nccl_env_release(&env);
    m_choose(m, &c);
    for (size_t i = 0; i < c.p2p_count; i++)
        assert_string_equal(c.p2p[i].transport,
                            c.p2p[i].a == 3 || c.p2p[i].b == 3 ? "shm" : "nvlink");
}

TEST(gvnics_need_a_plugin)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_gpus(m, 8, "ok");
    for (int i = 0; i < 5; i++) {
        static const char *const names[] = { "eth0", "eth1", "eth2", "eth3", "eth4" };
        static const char *const addresses[] = { "10.0.0.5", "10.1.0.5", "10.2.0.5", "10.3.0.5",
                                                 "10.4.0.5" };

        m_net(m, names[i], 2 + i, addresses[i], 24)->driver =
            i ? "gve" : "gvnic"; /* older kernels have the longer name */
    }
    make(m, NCCL_FULL, &env);
    assert_int_equal(env.doubts_count, 1);
    assert_non_null(strstr(env.doubts[0], "GPUDirect-TCPX"));
    m->hw.nccl.net_plugin = "/opt/lib/libnccl-net.so";
    make(m, NCCL_FULL, &env);
    for (size_t i = 0; i < env.doubts_count; i++)
        assert_null(strstr(env.doubts[i], "no net plug-in"));
}

TEST(slingshot_needs_a_plugin)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_gpus(m, 4, "ok");
    for (int i = 0; i < 2; i++) {
        struct hw_net *n =
            m_net(m, i ? "hsn1" : "hsn0", 2 + i, i ? "172.28.0.6" : "172.28.0.5", 16);

        n->driver = "cxi_ss1";
        n->speed_mbps = maybe_of(200000);
    }
    m_net(m, "nmn0", 9, "10.100.0.5", 22)->default_route = maybe_of(1);
    m->nets[2].speed_mbps = maybe_of(1000);
    m_route(m, "0.0.0.0", 0, "10.100.0.1", "nmn0");
    make(m, NCCL_FULL, &env);
    IS(&env, "UCX_NET_DEVICES", "hsn0,hsn1");
    assert_int_equal(env.doubts_count, 1);
    assert_non_null(strstr(env.doubts[0], "libfabric"));
    m->hw.nccl.net_plugin = "/opt/lib/libnccl-net.so";
    make(m, NCCL_FULL, &env);
    assert_null(strstr(env.doubts[0], "no net plug-in was found"));
}

TEST(rdma_in_software_is_never_beside_hardware)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    size_t last = m->hw.rdma_count;
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    for (size_t i = 0; i < last; i++)
        if (!m->rdma[i].bdf)
            m->rdma[i].bdf = "0000:13:00.0";
    m->rdma[last] = m->rdma[0];
    m->rdma[last].name = "rxe0";
    m->rdma[last].bdf = m->rdma[last].hca = NULL;
    m->hw.rdma_count++;
    make(m, NCCL_MINIMAL, &env);
    CHECK(says(&env, "NCCL_IB_HCA", "it is RDMA in software"));
    m->rdma[0] = m->rdma[last]; /* alone: told */
    m->hw.rdma_count = 1;
    make(m, NCCL_MINIMAL, &env);
    assert_true(env.doubts_count > 0);
    assert_non_null(strstr(env.doubts[0], "rxe0 is RDMA in software"));
}

TEST(a_damaged_capture_is_not_certain)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    struct hw_note note = { "self", "/stoker/self.json of the capture is not usable: line 1" };
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m->hw.notes = &note;
    m->hw.notes_count = 1;
    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(env.doubts_count, 2);
    assert_non_null(strstr(env.doubts[0], "No NCCL was found here"));
    assert_non_null(strstr(env.doubts[1], "The capture is damaged"));
}

TEST(no_rdma_and_virtual_networks)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_gpus(m, 4, "ok");
    m_net(m, "lo", 1, "127.0.0.1", 8);
    m_net(m, "ens5", 2, "10.0.0.4", 24)->default_route = maybe_of(1);
    m_net(m, "ens6", 3, "10.0.1.4", 24);
    m_net(m, "docker0", 4, "172.17.0.1", 16); /* NCCL leaves it out by itself */
    m_route(m, "0.0.0.0", 0, "10.0.0.1", "ens5");
    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(exports(&env), 0);
    CHECK(says(&env, "NCCL_SOCKET_IFNAME", "every running interface, also ens6."));
    make(m, NCCL_FULL, &env);
    IS(&env, "NCCL_SOCKET_IFNAME", "=ens5,ens6");

    m_net(m, "br-5f2c", 5, "172.18.0.1", 16)->kind = "bridge";
    m_net(m, "nodelocaldns", 6, "169.254.20.10", 32)->kind = "dummy";
    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(exports(&env), 1);
    IS(&env, "NCCL_SOCKET_IFNAME", "=ens5,ens6");
    CHECK(says(&env, "NCCL_SOCKET_IFNAME", "virtual br-5f2c, nodelocaldns, where"));
    free(m);

    m = machine_dgx(); /* with RDMA the first alone counts */
    m_net(m, "br-5f2c", 30, "172.18.0.1", 16)->kind = "bridge";
    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(exports(&env), 0);
}

static void all_at(struct machine *m, const char *path)
{
    for (size_t i = 0; i < m->hw.distances_count; i++)
        m->distances[i].path = path;
}

TEST(level_of_the_gpus_in_use)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    all_at(m, "PHB");
    m->distances[0].path = "PIX"; /* GPU 0 and mlx5_0 */
    make(m, NCCL_MINIMAL, &env);
    UNSET(&env, "NCCL_NET_GDR_LEVEL"); /* the others send by way of GPU 0 */
    CHECK(says(&env, "NCCL_NET_GDR_LEVEL", "PXN"));
    m_env(m, "NCCL_PXN_DISABLE", "1");
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_NET_GDR_LEVEL", "PHB");
    CHECK(says(&env, "NCCL_NET_GDR_LEVEL", "Some GPUs and their nearest NIC"));
    m_env(m, "CUDA_VISIBLE_DEVICES", "0"); /* the others may be those of other ranks */
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_NET_GDR_LEVEL", "PHB");
    free(m);

    m = machine_dgx();
    all_at(m, "PHB");
    m_env(m, "NCCL_TOPO_FILE", "/opt/microsoft/ndv5-topo.xml");
    make(m, NCCL_MINIMAL, &env);
    UNSET(&env, "NCCL_NET_GDR_LEVEL");
    CHECK(says(&env, "NCCL_NET_GDR_LEVEL", "NCCL_TOPO_FILE"));
}

TEST(chip_to_chip_link_needs_no_level)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    all_at(m, "NODE");
    for (size_t i = 0; i < 8; i++)
        m->gpus[i].c2c = maybe_of(1);
    make(m, NCCL_MINIMAL, &env);
    UNSET(&env, "NCCL_NET_GDR_LEVEL");
    CHECK(says(&env, "NCCL_NET_GDR_LEVEL", "P2C"));
    m_nccl(m, "2.25.1"); /* does not know it */
    make(m, NCCL_MINIMAL, &env);
    IS(&env, "NCCL_NET_GDR_LEVEL", "PHB");
}

/* Whoever uses what we print must get neither a warning nor another answer. */
static void check_own_words(struct machine *m, enum nccl_mode mode)
{
    struct nccl_env env = { 0 }, again = { 0 };
    struct nccl_lints l;

    make(m, mode, &env);
    for (size_t i = 0; i < env.count; i++)
        if (env.vars[i].value)
            m_env(m, env.vars[i].name, env.vars[i].value);
    nccl_lint_env(&m->hw, &l);
    for (size_t i = 0; i < l.count; i++) {
        if (l.items[i].severity != NCCL_INFO)
            print_error("%s=%s: %s\n", l.items[i].name, l.items[i].value, l.items[i].message);
        assert_int_equal(l.items[i].severity, NCCL_INFO);
    }
    nccl_lints_release(&l);
    make(m, NCCL_MINIMAL, &again);
    assert_int_equal(exports(&again), 0);
    nccl_env_release(&again);
    nccl_env_release(&env); /* m's environment pointed into it */
    free(m);
}

static struct machine *nth_machine(int n)
{
    struct machine *m = n < 2 ? machine_dgx() : machine_pod("ok");

    if (n == 1)
        all_at(m, "PHB");
    if (n == 3)
        for (size_t i = 0; i < 4; i++) /* addresses of another namespace */
            for (size_t k = 0; k < m->ports[i].gids_count; k++)
                m->gids[i][k].ndev = NULL;
    if (n == 4)
        for (size_t i = 0; i < 4; i++) /* IPv6 alone */
            m->gids[i][2].gid = m->gids[i][3].gid = "fd00:0000:0000:0001:0000:0000:0000:000a";
    if (n == 5)
        m->nets[1].ifindex = maybe_of(99); /* rails come first */
    return m;
}

TEST(our_own_words_pass)
{
    for (int n = 0; n < 6; n++) {
        check_own_words(nth_machine(n), NCCL_MINIMAL);
        check_own_words(nth_machine(n), NCCL_FULL);
    }
}

TEST(aws_efa)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_gpus(m, 8, "ok");
    m_pairs(m, "NV18");
    m_net(m, "ens32", 2, "10.0.0.4", 24)->default_route = maybe_of(1);
    m_route(m, "0.0.0.0", 0, "10.0.0.1", "ens32");
    m_rdma(m, "rdmap16s27", "0000:10:1b.0", "Unspecified", 100);
    m->rdma[0].driver = "efa";
    make(m, NCCL_FULL, &env);
    UNSET(&env, "NCCL_IB_HCA");
    UNSET(&env, "NCCL_IB_DISABLE");
    UNSET(&env, "STOKER_TRANSPORT");
    CHECK(says(&env, "NCCL_IB_HCA", "aws-ofi-nccl"));
    IS(&env, "GPUS_PER_NODE", "8");
}

TEST(azure_topology_file)
{
    AUTO(machine_free) struct machine *m = machine_dgx();
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    make(m, NCCL_MINIMAL, &env);
    assert_null(nccl_env_find(&env, "NCCL_TOPO_FILE"));
    m->hw.place.vendor = "Microsoft Corporation";
    m->hw.place.product = "Virtual Machine";
    make(m, NCCL_MINIMAL, &env);
    CHECK(says(&env, "NCCL_TOPO_FILE", "Azure"));
}

TEST(what_is_set_wins)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };
    AUTO(buf_release) struct buf out = { 0 };

    m_env(m, "NCCL_IB_HCA", "^mlx5_");
    m_env(m, "GPUS_PER_NODE", "2");
    make(m, NCCL_MINIMAL, &env);
    assert_int_equal(nccl_env_find(&env, "NCCL_IB_HCA")->kind, NCCL_USER);
    IS(&env, "NCCL_IB_HCA", "^mlx5_");
    CHECK(says(&env, "NCCL_IB_HCA", "falls back to TCP"));
    nccl_env_write(&env, &out);
    assert_null(strstr(buf_str(&out), "export NCCL_IB_HCA"));
    make(m, NCCL_FULL, &env);
    buf_reset(&out);
    nccl_env_write(&env, &out);
    assert_non_null(strstr(buf_str(&out), "\nexport NCCL_IB_HCA='^mlx5_'\n"));
    assert_non_null(strstr(buf_str(&out), "\nexport GPUS_PER_NODE=2\n"));
}

/* Every line is a comment or an export, and no value escapes its quotes. */
TEST(set_by_hand_is_never_left_unset)
{
    AUTO(machine_free) struct machine *m = machine_pod("hidden");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };

    m_env(m, "GPUS_PER_NODE", "4");
    make(m, NCCL_MINIMAL, &env);
    assert_null(nccl_env_find(&env, "GPUS_PER_NODE"));
    free(m);

    m = machine_pod("ok"); /* a fixed index: NCCL does not search, so it needs no family */
    for (size_t i = 0; i < 4; i++)
        m->gids[i][2].gid = m->gids[i][3].gid = "fd00:0000:0000:0001:0000:0000:0000:000a";
    m_env(m, "NCCL_IB_GID_INDEX", "3");
    make(m, NCCL_MINIMAL, &env);
    assert_null(nccl_env_find(&env, "NCCL_IB_ADDR_FAMILY"));
}

TEST(shell_text_is_safe)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(nccl_env_release) struct nccl_env env = { 0 };
    AUTO(buf_release) struct buf out = { 0 };

    m_env(m, "NCCL_SOCKET_IFNAME", "eth0'; rm -rf $HOME\n#");
    m_env(m, "NCCL_IB_HCA", "a\nb`c`");
    m_env(m, "NCCL_P2P_LEVEL", "a:=ls");       /* zsh: the path of ls */
    m_env(m, "NCCL_NET_GDR_LEVEL", "\033[2J"); /* clears a terminal */
    make(m, NCCL_FULL, &env);
    nccl_env_write(&env, &out);
    assert_non_null(
        strstr(buf_str(&out), "export NCCL_SOCKET_IFNAME='eth0'\\''; rm -rf $HOME\n#'\n"));
    assert_non_null(strstr(buf_str(&out), "export NCCL_IB_HCA='a\nb`c`'\n"));
    assert_non_null(strstr(buf_str(&out), "export NCCL_P2P_LEVEL='a:=ls'\n"));
    buf_reset(&out);
    make(m, NCCL_MINIMAL, &env);
    nccl_env_write(&env, &out);
    for (const char *p = buf_str(&out); *p; p += strcspn(p, "\n") + 1) {
        CHECK(str_starts(p, "# ") || str_starts(p, "export "));
        CHECK(!str_starts(p, "# ") || strcspn(p, "\n") <= 90);
        CHECK(!memchr(p, '\033', strcspn(p, "\n")));
    }
}

TEST(json_form)
{
    AUTO(machine_free) struct machine *m = machine_pod("hidden");
    struct nccl_opts opts = { .mode = NCCL_FULL };
    AUTO(buf_release) struct buf out = { 0 };
    AUTO(arena_release) struct arena a = { 0 };
    struct err err = { 0 };
    struct json *doc;

    m_env(m, "NCCL_DEBUG", "TRACE");
    nccl_write_json(&m->hw, &opts, &out);
    assert_int_equal(json_parse(&a, buf_str(&out), out.len, &doc, &err), RC_OK);
    assert_string_equal(json_str(json_get(doc, "schema")), "stoker.nccl/1");
    assert_string_equal(json_str(json_get(json_get(doc, "choice"), "transport")), "rdma");
    assert_int_equal(json_get(json_get(doc, "choice"), "gpus")->type, JSON_NULL);
    assert_int_equal(json_get(json_get(doc, "choice"), "ports")->count, 4);
    assert_string_equal(json_str(json_get(json_at(json_get(doc, "lint"), 0), "name")),
                        "NCCL_DEBUG");
    CHECK(json_get(doc, "env")->count > 8);
}

TEST(why_explains)
{
    AUTO(machine_free) struct machine *m = machine_pod("ok");
    AUTO(buf_release) struct buf out = { 0 };
    struct err err = { 0 };

    m_env(m, "NCCL_IB_GID_INDEX", "1");
    assert_int_equal(nccl_why(&m->hw, "NCCL_IB_GID_INDEX", NULL, false, &out, &err), RC_OK);
    assert_non_null(strstr(buf_str(&out), "known since NCCL 2.1.4"));
    assert_non_null(strstr(buf_str(&out), "link-local"));
    assert_non_null(strstr(buf_str(&out), "NCCL_IB_GID_INDEX=1"));
    buf_reset(&out);
    assert_int_equal(nccl_why(&m->hw, "OMP_NUM_THREADS", NULL, false, &out, &err), RC_OK);
    assert_non_null(strstr(buf_str(&out), "sets 16"));
    buf_reset(&out);
    assert_int_equal(nccl_why(&m->hw, "NCCL_WIN_STRIDE", NULL, false, &out, &err),
                     RC_OK); /* no topic */
    buf_reset(&out);
    assert_int_equal(nccl_why(&m->hw, "NCCL_IB_HAC", NULL, false, &out, &err), RC_USAGE);
    assert_int_equal(out.len, 0);
    assert_string_equal(err.msg, "unknown variable 'NCCL_IB_HAC'");
    assert_string_equal(err.hint, "Did you mean NCCL_IB_HCA?");
}

/* No machine, however empty, breaks any of the writers. */
TEST(empty_machines)
{
    AUTO(machine_free) struct machine *m = machine_new();
    AUTO(buf_release) struct buf out = { 0 };
    struct err err = { 0 };
    struct nccl_env env = { 0 };

    for (int full = 0; full < 2; full++) {
        make(m, full ? NCCL_FULL : NCCL_MINIMAL, &env);
        nccl_env_write(&env, &out);
        for (size_t i = 0; i < env.count; i++) {
            assert_null(env.vars[i].value);
            assert_non_null(env.vars[i].reason);
        }
        nccl_env_release(&env);
    }
    nccl_write_json(&m->hw, NULL, &out);
    m_rdma(m, "mlx5_0", NULL, NULL, 0)->state = NULL;
    nccl_write_json(&m->hw, NULL, &out);
    assert_int_equal(nccl_why(&m->hw, "NCCL_IB_HCA", NULL, false, &out, &err), RC_OK);
}

TEST_MAIN(cmocka_unit_test(mig_has_no_peers), cmocka_unit_test(gvnics_need_a_plugin),
          cmocka_unit_test(slingshot_needs_a_plugin),
          cmocka_unit_test(rdma_in_software_is_never_beside_hardware),
          cmocka_unit_test(a_damaged_capture_is_not_certain),
          cmocka_unit_test(a_default_route_by_an_interface_without_an_address),
          cmocka_unit_test(dgx_needs_nothing), cmocka_unit_test(pod_full),
          cmocka_unit_test(pod_minimal), cmocka_unit_test(pod_with_hidden_gpus),
          cmocka_unit_test(container_without_the_rdma_resource),
          cmocka_unit_test(roce_with_ipv6_alone), cmocka_unit_test(gid_of_another_namespace),
          cmocka_unit_test(gid_at_different_indices), cmocka_unit_test(old_nccl_does_not_search),
          cmocka_unit_test(no_address_in_this_namespace), cmocka_unit_test(bnxt_order_of_the_table),
          cmocka_unit_test(infiniband_and_roce), cmocka_unit_test(storage_nics_are_left_out),
          cmocka_unit_test(management_nic_is_left_out), cmocka_unit_test(no_rdma),
          cmocka_unit_test(no_rdma_keeps_the_fast_interface),
          cmocka_unit_test(no_rdma_and_virtual_networks),
          cmocka_unit_test(level_of_the_gpus_in_use),
          cmocka_unit_test(chip_to_chip_link_needs_no_level), cmocka_unit_test(our_own_words_pass),
          cmocka_unit_test(set_by_hand_is_never_left_unset), cmocka_unit_test(aws_efa),
          cmocka_unit_test(azure_topology_file), cmocka_unit_test(what_is_set_wins),
          cmocka_unit_test(shell_text_is_safe), cmocka_unit_test(json_form),
          cmocka_unit_test(why_explains), cmocka_unit_test(empty_machines))
