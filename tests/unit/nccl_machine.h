/* SPDX-License-Identifier: MIT */
/* nccl_machine: small inventories built in C for the tests of nccl/.  Each machine is
 * a struct with room for everything; the functions below add one thing each. */
#ifndef TESTS_NCCL_MACHINE_H
#define TESTS_NCCL_MACHINE_H
#include "test.h"

#include "base/mem.h"
#include "base/str.h"
#include "hw/hw.h"
#include "nccl/nccl.h"

#include <assert.h>

enum { M_MAX = 80, M_GIDS = 16 };

struct machine {
    struct hw hw;
    struct hw_gpu gpus[M_MAX];
    struct hw_gpu_pair pairs[M_MAX];
    struct hw_rdma rdma[M_MAX];
    struct hw_rdma_port ports[M_MAX];
    struct hw_gid gids[M_MAX][M_GIDS];
    struct hw_net nets[M_MAX];
    struct hw_addr addrs[M_MAX][2];
    struct hw_route routes[M_MAX];
    struct hw_distance distances[8 * M_MAX];
    struct hw_env env[M_MAX];
    struct hw_soft soft[1];
    char names[M_MAX][24];
    char bdfs[M_MAX][24];
};

static inline struct machine *machine_new(void)
{
    struct machine *m = xcalloc(1, sizeof(*m));

    m->hw.gpus = m->gpus;
    m->hw.gpu_pairs = m->pairs;
    m->hw.rdma = m->rdma;
    m->hw.nets = m->nets;
    m->hw.routes = m->routes;
    m->hw.distances = m->distances;
    m->hw.place.env = m->env;
    m->hw.software = m->soft;
    return m;
}

static inline void machine_free(struct machine **m) /* for AUTO() */
{
    free(*m);
}

static inline void m_env(struct machine *m, const char *name, const char *value)
{
    for (size_t i = 0; i < m->hw.place.env_count; i++)
        if (str_eq(m->env[i].name, name)) {
            m->env[i].value = value;
            return;
        }
    assert(m->hw.place.env_count < M_MAX);
    m->env[m->hw.place.env_count++] = (struct hw_env){ .name = name, .value = value };
}

static inline void m_gpus(struct machine *m, size_t count, const char *state)
{
    for (size_t i = 0; i < count; i++) {
        bool ok = str_eq(state, "ok");

        m->gpus[m->hw.gpus_count++] = (struct hw_gpu){
            .index = ok ? maybe_of((int64_t)i) : maybe_none(),
            .state = state,
            .name = ok ? "NVIDIA H100 80GB HBM3" : NULL,
        };
    }
}

/* Every pair of GPUs at the same distance. */
static inline void m_pairs(struct machine *m, const char *path)
{
    for (size_t a = 0; a < m->hw.gpus_count; a++)
        for (size_t b = a + 1; b < m->hw.gpus_count; b++)
            m->pairs[m->hw.gpu_pairs_count++] = (struct hw_gpu_pair){
                .a = maybe_of((int64_t)a),
                .b = maybe_of((int64_t)b),
                .path = path,
                .nvlinks = maybe_of(str_starts(path, "NV") ? 18 : 0),
                .p2p_read = "ok",
                .p2p_write = "ok",
            };
}

static inline struct hw_rdma_port *m_rdma(struct machine *m, const char *name, const char *bdf,
                                          const char *layer, int64_t gbps)
{
    size_t i = m->hw.rdma_count++;

    assert(i < M_MAX);
    m->ports[i] = (struct hw_rdma_port){ .port = maybe_of(1),
                                         .state = "ACTIVE",
                                         .phys_state = "LinkUp",
                                         .link_layer = layer,
                                         .rate_mbps = maybe_of(gbps * 1000),
                                         .gids = m->gids[i] };
    m->rdma[i] = (struct hw_rdma){
        .name = name, .bdf = bdf, .driver = "mlx5_core", .ports = &m->ports[i], .ports_count = 1
    };
    return &m->ports[i];
}

static inline void m_gid(struct hw_rdma_port *p, int64_t index, const char *gid, const char *type,
                         const char *ndev)
{
    assert(p->gids_count < M_GIDS);
    p->gids[p->gids_count++] =
        (struct hw_gid){ .index = maybe_of(index), .gid = gid, .type = type, .ndev = ndev };
}

static inline struct hw_net *m_net(struct machine *m, const char *name, int64_t ifindex,
                                   const char *addr, int64_t prefix)
{
    size_t i = m->hw.nets_count++;

    assert(i < M_MAX);
    m->nets[i] = (struct hw_net){ .name = name,
                                  .ifindex = maybe_of(ifindex),
                                  .up = maybe_of(1),
                                  .running = maybe_of(1),
                                  .addrs = m->addrs[i] };
    if (addr) {
        m->addrs[i][0] = (struct hw_addr){ .family = strchr(addr, ':') ? "inet6" : "inet",
                                           .addr = addr,
                                           .prefix = maybe_of(prefix) };
        m->nets[i].addrs_count = 1;
    }
    return &m->nets[i];
}

static inline void m_route(struct machine *m, const char *dst, int64_t prefix, const char *gateway,
                           const char *dev)
{
    m->routes[m->hw.routes_count++] =
        (struct hw_route){ .family = strchr(dst, ':') ? "inet6" : "inet",
                           .dst = dst,
                           .prefix = maybe_of(prefix),
                           .gateway = gateway,
                           .dev = dev };
}

static inline void m_distance(struct machine *m, size_t gpu, const char *nic, const char *path)
{
    assert(m->hw.distances_count < ARRAY_SIZE(m->distances));
    m->distances[m->hw.distances_count++] =
        (struct hw_distance){ .gpu = maybe_of((int64_t)gpu), .nic = nic, .path = path };
}

static inline void m_nccl(struct machine *m, const char *version)
{
    m->soft[0] = (struct hw_soft){ .name = "nccl", .version = version };
    m->hw.software_count = 1;
}

/* Bare metal: 8 GPUs on NVLink, each with a 400 Gb/s InfiniBand NIC at its switch, a
 * management interface with the default route. */
static inline struct machine *machine_dgx(void)
{
    struct machine *m = machine_new();

    m_gpus(m, 8, "ok");
    m_pairs(m, "NV18");
    m_net(m, "lo", 1, "127.0.0.1", 8);
    m_net(m, "eno1", 2, "10.1.0.7", 16)->default_route = maybe_of(1);
    m_net(m, "docker0", 20, "172.17.0.1", 16);
    m_route(m, "0.0.0.0", 0, "10.1.0.1", "eno1");
    m_route(m, "10.1.0.0", 16, NULL, "eno1");
    for (size_t i = 0; i < 8; i++) {
        struct hw_rdma_port *p;

        snprintf(m->names[i], sizeof(m->names[i]), "mlx5_%zu", i);
        snprintf(m->bdfs[i], sizeof(m->bdfs[i]), "0000:%zx8:00.0", i + 1);
        p = m_rdma(m, m->names[i], m->bdfs[i], "InfiniBand", 400);
        m_gid(p, 0, "fe80:0000:0000:0000:a088:c203:00ab:cdef", "IB/RoCE v1", NULL);
        for (size_t g = 0; g < 8; g++)
            m_distance(m, g, m->names[i], g == i ? "PIX" : g / 4 == i / 4 ? "NODE" : "SYS");
    }
    m->hw.limits.peermem = "nvidia_peermem";
    m->hw.limits.uverbs = maybe_of(8);
    m->hw.place.cpus_usable = maybe_of(224);
    m->hw.cpu.vendor = "GenuineIntel";
    return m;
}

/* An OpenShift pod: 4 GPUs, 64 CPUs by quota, four RoCE virtual functions net1 to net4
 * in isolated subnets with the address at index 3; eth0 is the cluster network. */
static inline struct machine *machine_pod(const char *gpu_state)
{
    static const char *const gid_v4[] = { "0000:0000:0000:0000:0000:ffff:c0a8:010a",
                                          "0000:0000:0000:0000:0000:ffff:c0a8:020a",
                                          "0000:0000:0000:0000:0000:ffff:c0a8:030a",
                                          "0000:0000:0000:0000:0000:ffff:c0a8:040a" };
    static const char *const addr[] = { "192.168.1.10", "192.168.2.10", "192.168.3.10",
                                        "192.168.4.10" };
    static const char *const dst[] = { "192.168.1.0", "192.168.2.0", "192.168.3.0", "192.168.4.0" };
    static const char *const nets[] = { "net1", "net2", "net3", "net4" };
    static const char *const devs[] = { "mlx5_6", "mlx5_7", "mlx5_10", "mlx5_11" };
    static const char *const bdfs[] = { "0000:1a:00.2", "0000:3c:00.2", "0000:9a:00.2",
                                        "0000:bc:00.2" };
    struct machine *m = machine_new();

    m_gpus(m, 4, gpu_state);
    if (str_eq(gpu_state, "ok"))
        m_pairs(m, "NV18");
    m_net(m, "lo", 1, "127.0.0.1", 8);
    m_net(m, "eth0", 2, "10.128.3.44", 23)->default_route = maybe_of(1);
    m_route(m, "0.0.0.0", 0, "10.128.2.1", "eth0");
    m_route(m, "10.128.2.0", 23, NULL, "eth0");
    for (size_t i = 0; i < 4; i++) {
        struct hw_net *n = m_net(m, nets[i], 30 + (int64_t)i, addr[i], 24);
        struct hw_rdma_port *p = m_rdma(m, devs[i], bdfs[i], "Ethernet", 400);

        n->rdma = devs[i];
        m_route(m, dst[i], 24, NULL, nets[i]);
        m_gid(p, 0, "fe80:0000:0000:0000:0c42:a1ff:fe00:0001", "IB/RoCE v1", nets[i]);
        m_gid(p, 1, "fe80:0000:0000:0000:0c42:a1ff:fe00:0001", "RoCE v2", nets[i]);
        m_gid(p, 2, gid_v4[i], "IB/RoCE v1", nets[i]);
        m_gid(p, 3, gid_v4[i], "RoCE v2", nets[i]);
        m->rdma[i].vf = maybe_of(1);
        m->rdma[i].openable = maybe_of(1);
        for (size_t g = 0; g < 4; g++)
            m_distance(m, g, devs[i], g == i ? "PXB" : g / 2 == i / 2 ? "NODE" : "SYS");
    }
    m->hw.limits.peermem = "nvidia_peermem";
    m->hw.limits.uverbs = maybe_of(4);
    m->hw.place.container = "kubernetes";
    m->hw.place.cpus_usable = maybe_of(64);
    m->hw.cpu.vendor = "GenuineIntel";
    return m;
}

/* What NCCL chooses there, in place of what `c` has. */
static inline void m_choose(const struct machine *m, struct nccl_choice *c)
{
    nccl_choice_release(c);
    nccl_choose(&m->hw, c);
}

#endif
