/* SPDX-License-Identifier: MIT */
/* against: output of NCCL_DEBUG=INFO, or a topology, beside a small machine. */
#include "fuzz.h"

#include "nccl/nccl.h"

static struct hw small_machine(void)
{
    static struct hw_gpu gpus[2];
    static struct hw_rdma_port ports[2];
    static struct hw_rdma rdma[2];
    static struct hw_addr addr = { .family = "inet", .addr = "10.0.0.1" };
    static struct hw_net net = { .name = "eth0", .addrs = &addr, .addrs_count = 1 };
    static struct hw_gpu_pair pair;
    static struct hw_distance way = { .nic = "mlx5_0", .path = "PIX" };

    for (int i = 0; i < 2; i++) {
        gpus[i] = (struct hw_gpu){ .index = maybe_of(i),
                                   .state = "ok",
                                   .bdf = i ? "0000:43:00.0" : "0000:1b:00.0" };
        ports[i] = (struct hw_rdma_port){ .port = maybe_of(1),
                                          .state = "ACTIVE",
                                          .link_layer = "InfiniBand",
                                          .rate_mbps = maybe_of(400000) };
        rdma[i] = (struct hw_rdma){ .name = i ? "mlx5_1" : "mlx5_0",
                                    .ports = &ports[i],
                                    .ports_count = 1 };
    }
    net.running = maybe_of(1);
    pair = (struct hw_gpu_pair){ .a = maybe_of(0), .b = maybe_of(1), .path = "NV18" };
    way.gpu = maybe_of(0);
    return (struct hw){ .place = { .hostname = "n" },
                        .gpus = gpus,
                        .gpus_count = 2,
                        .gpu_pairs = &pair,
                        .gpu_pairs_count = 1,
                        .rdma = rdma,
                        .rdma_count = 2,
                        .nets = &net,
                        .nets_count = 1,
                        .distances = &way,
                        .distances_count = 1 };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hw hw = small_machine();
    struct term term = { .width = 80 };
    struct nccl_against g;
    struct buf out = { 0 };

    if (nccl_against(&hw, NULL, (const char *)data, size, &g, NULL))
        return 0;
    nccl_against_write(&g, &term, &out);
    nccl_against_json(&g, &out);
    buf_release(&out);
    nccl_against_release(&g);
    return 0;
}
