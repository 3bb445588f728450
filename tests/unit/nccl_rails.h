/* SPDX-License-Identifier: MIT */
/* nccl_rails: machines with RoCE ports of one or two networks each, for the tests of nccl/. */
#ifndef TESTS_NCCL_RAILS_H
#define TESTS_NCCL_RAILS_H
#include "nccl_machine.h"

/* A RoCE port at the switch of its GPU, with addresses 10.NET.0.5 in the order given. */
static inline struct hw_rdma_port *rail_add(struct machine *m, size_t gpu, const int *octets,
                                            size_t count)
{
    static char gids[M_MAX][2][40], addrs[M_MAX][2][20], nets[M_MAX][2][16], dsts[M_MAX][2][20];
    size_t i = m->hw.rdma_count;
    struct hw_rdma_port *p;

    snprintf(m->names[i], sizeof(m->names[i]), "mlx5_%zu", i);
    snprintf(m->bdfs[i], sizeof(m->bdfs[i]), "0000:%zx8:00.0", i + 1);
    p = m_rdma(m, m->names[i], m->bdfs[i], "Ethernet", 400);
    for (size_t k = 0; k < count; k++) {
        struct hw_net *n;

        snprintf(gids[i][k], sizeof(gids[i][k]), "0000:0000:0000:0000:0000:ffff:0a%02x:0005",
                 (unsigned)octets[k]);
        snprintf(addrs[i][k], sizeof(addrs[i][k]), "10.%d.0.5", octets[k]);
        snprintf(dsts[i][k], sizeof(dsts[i][k]), "10.%d.0.0", octets[k]);
        snprintf(nets[i][k], sizeof(nets[i][k]), "net%zu_%zu", i, k);
        n = m_net(m, nets[i][k], 30 + (int64_t)(2 * i + k), addrs[i][k], 16);
        n->rdma = m->names[i];
        m_route(m, dsts[i][k], 16, NULL, nets[i][k]);
        m_gid(p, (int64_t)(2 + 2 * k), gids[i][k], "IB/RoCE v1", nets[i][k]);
        m_gid(p, (int64_t)(3 + 2 * k), gids[i][k], "RoCE v2", nets[i][k]);
    }
    for (size_t g = 0; g < m->hw.gpus_count; g++)
        m_distance(m, g, m->names[i], g == gpu ? "PIX" : "NODE");
    return p;
}

/* GPUs on NVLink and a management interface with the default route, no NIC yet. */
static inline struct machine *machine_bare(size_t gpus)
{
    struct machine *m = machine_new();

    m_gpus(m, gpus, "ok");
    m_pairs(m, "NV18");
    m_net(m, "eno1", 2, "10.200.0.7", 16)->default_route = maybe_of(1);
    m_route(m, "0.0.0.0", 0, "10.200.0.1", "eno1");
    m_route(m, "10.200.0.0", 16, NULL, "eno1");
    m->hw.limits.peermem = "nvidia_peermem";
    m->hw.limits.uverbs = maybe_of(8);
    m->hw.cpu.vendor = "GenuineIntel";
    return m;
}

#endif
