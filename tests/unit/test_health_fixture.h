/* SPDX-License-Identifier: MIT */
/* test_health_fixture: a healthy machine in C, and a table runner over the checks.
 *
 * fx_good() is a node of two H200 and two InfiniBand NICs with nothing to complain
 * about; a row changes one thing and states what the check must answer.  cover() sees
 * that every check of a table has a row that passes and one that does not. */
#ifndef TESTS_HEALTH_FIXTURE_H
#define TESTS_HEALTH_FIXTURE_H
#include "test.h"

#include "base/str.h"
#include "health/health_int.h"

enum { FX_GPUS = 2, FX_NICS = 2, FX_LINKS = 2, FX_ENV = 4, FX_SOFT = 12 };
#define FX_GIB (INT64_C(1) << 30)

struct fx {
    struct hw hw;
    struct hw_gpu gpus[FX_GPUS];
    struct hw_nvlink links[FX_GPUS][FX_LINKS];
    struct hw_gpu_err gpu_err;
    struct hw_mig mig;
    struct hw_gpu_pair pair;
    struct hw_rdma rdma[FX_NICS];
    struct hw_rdma_port ports[FX_NICS];
    struct hw_gid gids[FX_NICS];
    const char *netdevs[FX_NICS][1];
    struct hw_net nets[FX_NICS + 1];
    struct hw_addr addrs[FX_NICS + 1];
    struct hw_distance distances[FX_GPUS * FX_NICS];
    struct hw_pci pci[FX_GPUS + FX_NICS + 2]; /* the switch above all, and room for its root port */
    struct hw_numa numa[2];
    struct hw_hugepages huge;
    struct hw_disk disk;
    struct hw_mount mount;
    struct hw_soft soft[FX_SOFT];
    struct hw_env env[FX_ENV];
};

static inline void fx_env(struct fx *f, const char *name, const char *value)
{
    size_t n = f->hw.place.env_count++;

    assert_true(n < FX_ENV);
    f->env[n] = (struct hw_env){ name, value };
}

static inline void fx_soft(struct fx *f, const char *name, const char *version)
{
    size_t n = f->hw.software_count++;

    assert_true(n < FX_SOFT);
    f->soft[n] = (struct hw_soft){ .name = name, .version = version, .path = "/usr/lib" };
}

static inline void fx_drop_soft(struct fx *f, const char *name)
{
    for (size_t i = 0; i < f->hw.software_count; i++)
        if (str_eq(f->soft[i].name, name))
            f->soft[i].name = "gone";
}

static inline void fx_gpu(struct fx *f, size_t i)
{
    static const char *const bdfs[] = { "0000:1b:00.0", "0000:9b:00.0" };

    for (size_t k = 0; k < FX_LINKS; k++)
        f->links[i][k] = (struct hw_nvlink){ .link = maybe_of((int64_t)k), .active = maybe_of(1) };
    f->gpus[i] = (struct hw_gpu){ .index = maybe_of((int64_t)i),
                                  .state = "ok",
                                  .name = "NVIDIA H200",
                                  .arch = "Hopper",
                                  .vbios = "96.00.A5.00.01",
                                  .bdf = bdfs[i],
                                  .numa = maybe_of((int64_t)i),
                                  .mem_total_bytes = maybe_of(140 * FX_GIB),
                                  .pcie_gen = maybe_of(5),
                                  .pcie_gen_max = maybe_of(5),
                                  .pcie_width = maybe_of(16),
                                  .pcie_width_max = maybe_of(16),
                                  .clock_sm_mhz = maybe_of(345),
                                  .clock_sm_max_mhz = maybe_of(1980),
                                  .power_limit_mw = maybe_of(700000),
                                  .power_default_mw = maybe_of(700000),
                                  .temp_c = maybe_of(31 + (int64_t)i),
                                  .temp_slowdown_c = maybe_of(89),
                                  .ecc = maybe_of(1),
                                  .ecc_pending = maybe_of(1),
                                  .ecc_dbe_volatile = maybe_of(0),
                                  .ecc_dbe_total = maybe_of(0),
                                  .remap_correctable = maybe_of(0),
                                  .remap_uncorrectable = maybe_of(0),
                                  .remap_pending = maybe_of(0),
                                  .remap_failed = maybe_of(0),
                                  .mig = maybe_of(0),
                                  .mig_pending = maybe_of(0),
                                  .persistence = maybe_of(1),
                                  .compute_mode = "default",
                                  .recovery_action = "none",
                                  .fabric_state = "completed",
                                  .fabric_status = "ok",
                                  .nvlinks_total = maybe_of(FX_LINKS),
                                  .nvlinks = f->links[i],
                                  .nvlinks_count = FX_LINKS };
    f->pci[i] = (struct hw_pci){ .bdf = bdfs[i], .driver = "nvidia", .parent = "0000:10:00.0" };
}

static inline void fx_nic(struct fx *f, size_t i)
{
    static const char *const names[] = { "mlx5_0", "mlx5_1" };
    static const char *const bdfs[] = { "0000:1c:00.0", "0000:9c:00.0" };
    static const char *const nets[] = { "net1", "net2" };

    f->gids[i] = (struct hw_gid){ .index = maybe_of(0),
                                  .gid = "fe80:0000:0000:0000:e09d:7303:0012:3456",
                                  .type = "IB/RoCE v1" };
    f->ports[i] = (struct hw_rdma_port){ .port = maybe_of(1),
                                         .state = "ACTIVE",
                                         .phys_state = "LinkUp",
                                         .link_layer = "InfiniBand",
                                         .rate_mbps = maybe_of(400000),
                                         .rate = "400 Gb/sec (4X NDR)",
                                         .lid = maybe_of(17),
                                         .sm_lid = maybe_of(1),
                                         .gids = &f->gids[i],
                                         .gids_count = 1 };
    f->netdevs[i][0] = nets[i];
    f->rdma[i] = (struct hw_rdma){ .name = names[i],
                                   .bdf = bdfs[i],
                                   .hca = "MT4129",
                                   .board = "MT_0000000838",
                                   .firmware = "28.39.1002",
                                   .driver = "mlx5_core",
                                   .vf = maybe_of(0),
                                   .netdevs = f->netdevs[i],
                                   .netdevs_count = 1,
                                   .ports = &f->ports[i],
                                   .ports_count = 1 };
    f->pci[FX_GPUS + i] = (struct hw_pci){ .bdf = bdfs[i],
                                           .driver = "mlx5_core",
                                           .parent = "0000:10:00.0",
                                           .link_speed = "32.0 GT/s PCIe",
                                           .link_speed_max = "32.0 GT/s PCIe",
                                           .link_width = maybe_of(16),
                                           .link_width_max = maybe_of(16) };
    f->addrs[i] = (struct hw_addr){ .family = "inet", .addr = "10.0.0.1" };
    f->nets[i] = (struct hw_net){ .name = nets[i],
                                  .kind = "physical",
                                  .mtu = maybe_of(9000),
                                  .rdma = names[i],
                                  .addrs = &f->addrs[i],
                                  .addrs_count = 1 };
}

static inline void fx_links(struct fx *f)
{
    for (size_t g = 0; g < FX_GPUS; g++)
        for (size_t n = 0; n < FX_NICS; n++)
            f->distances[g * FX_NICS + n] = (struct hw_distance){ .gpu = maybe_of((int64_t)g),
                                                                  .nic = f->rdma[n].name,
                                                                  .path = g == n ? "PXB" : "SYS" };
    f->pair = (struct hw_gpu_pair){
        .a = maybe_of(0), .b = maybe_of(1), .path = "NV18", .p2p_read = "ok", .p2p_write = "ok"
    };
    f->pci[FX_GPUS + FX_NICS] = (struct hw_pci){ .bdf = "0000:10:00.0", .acs = maybe_of(0) };
    f->hw.gpus = f->gpus;
    f->hw.gpus_count = FX_GPUS;
    f->hw.gpu_pairs = &f->pair;
    f->hw.gpu_pairs_count = 1;
    f->hw.rdma = f->rdma;
    f->hw.rdma_count = FX_NICS;
    f->hw.nets = f->nets;
    f->hw.nets_count = FX_NICS;
    f->hw.distances = f->distances;
    f->hw.distances_count = ARRAY_SIZE(f->distances);
    f->hw.pci = f->pci;
    f->hw.pci_count = ARRAY_SIZE(f->pci) - 1;
}

static inline void fx_host(struct fx *f)
{
    f->numa[0].id = maybe_of(0);
    f->numa[1].id = maybe_of(1);
    f->huge = (struct hw_hugepages){ maybe_of(2 << 20), maybe_of(0), maybe_of(0) };
    f->disk = (struct hw_disk){ .name = "nvme0n1", .transport = "nvme" };
    f->mount = (struct hw_mount){ .source = "/dev/nvme0n1p2",
                                  .target = "/scratch",
                                  .fstype = "xfs",
                                  .avail_bytes = maybe_of(4096 * FX_GIB) };
    f->hw.numa = f->numa;
    f->hw.numa_count = 2;
    f->hw.memory = (struct hw_memory){ .total_bytes = maybe_of(1024 * FX_GIB),
                                       .swap_bytes = maybe_of(0),
                                       .thp = "madvise",
                                       .hugepages = &f->huge,
                                       .hugepages_count = 1 };
    f->hw.disks = &f->disk;
    f->hw.disks_count = 1;
    f->hw.mounts = &f->mount;
    f->hw.mounts_count = 1;
    f->hw.cpu = (struct hw_cpu){ .threads = maybe_of(64), .governor = "performance" };
    f->hw.place = (struct hw_place){ .cpus_usable = maybe_of(64), .cgroup = maybe_of(2) };
    f->hw.place.env = f->env;
    f->hw.limits = (struct hw_limits){ .memlock_bytes = maybe_of(-1),
                                       .memlock_hard_bytes = maybe_of(-1),
                                       .nofile = maybe_of(1048576),
                                       .shm_bytes = maybe_of(64 * FX_GIB),
                                       .iommu = maybe_of(0),
                                       .acs_bridges = maybe_of(0),
                                       .peermem = "nvidia_peermem",
                                       .dmabuf = maybe_of(1),
                                       .uverbs = maybe_of(2),
                                       .numa_balancing = maybe_of(0) };
}

static inline void fx_good(struct fx *f)
{
    *f = (struct fx){ 0 };
    for (size_t i = 0; i < FX_GPUS; i++)
        fx_gpu(f, i);
    for (size_t i = 0; i < FX_NICS; i++)
        fx_nic(f, i);
    fx_links(f);
    fx_host(f);
    f->hw.nvidia = (struct hw_nvidia){ .driver_version = "580.95.05",
                                       .cuda_driver = maybe_of(13000),
                                       .nvml_library = "libnvidia-ml.so.1",
                                       .kernel_module = "open",
                                       .nvswitches = maybe_of(4),
                                       .fabricmanager_version = "580.95.05",
                                       .fabricmanager_running = maybe_of(1),
                                       .persistenced_running = maybe_of(1),
                                       .hostengine_running = maybe_of(1) };
    f->hw.software = f->soft;
    fx_soft(f, "cuda", "12.9");
    fx_soft(f, "cudnn", "9.1.0");
    fx_soft(f, "nccl", "2.27.3");
    fx_soft(f, "torch", "2.8.0+cu129");
    fx_soft(f, "docker", "27.0");
    fx_soft(f, "nvidia-container-toolkit", "1.17.0");
    fx_soft(f, "dcgm", "4.2.0");
    fx_soft(f, "rdma-core", "50.0");
}

/* RoCE instead of InfiniBand: a usable v2 GID on each port. */
static inline void fx_roce(struct fx *f)
{
    for (size_t i = 0; i < FX_NICS; i++) {
        f->ports[i].link_layer = "Ethernet";
        f->gids[i] = (struct hw_gid){ .index = maybe_of(3),
                                      .gid = "0000:0000:0000:0000:0000:ffff:0a00:0001",
                                      .type = "RoCE v2",
                                      .ndev = f->nets[i].name };
    }
}

static inline void fx_pod(struct fx *f)
{
    f->hw.place.container = "kubernetes";
    f->hw.place.k8s_pod = "train-0";
    f->hw.place.k8s_namespace = "ml";
}

/* TWEAK(no_gpu, f->hw.gpus_count = 0): what a row changes of the healthy machine. */
#define TWEAK(name, ...)                                                                           \
    static void name(struct fx *f)                                                                 \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }

struct fx_row {
    const char *id;
    void (*tweak)(struct fx *f); /* NULL: the healthy machine */
    enum check_status want;
    const char *seen; /* part of the evidence */
};

/* The row of `id` with that status and that part in its evidence, or NULL. */
static inline const struct check_result *fx_find(const struct health_list *l, const char *id,
                                                 enum check_status want, const char *seen)
{
    for (size_t i = 0; i < l->rows_count; i++)
        if (str_eq(l->rows[i].id, id) && l->rows[i].status == want &&
            strstr(l->rows[i].evidence, seen))
            return &l->rows[i];
    return NULL;
}

static inline void fx_run(const struct fx_row *rows, size_t count, unsigned groups)
{
    static struct fx f;

    for (size_t i = 0; i < count; i++) {
        struct health_list l = { 0 };
        const struct check_result *r;

        fx_good(&f);
        if (rows[i].tweak)
            rows[i].tweak(&f);
        health_check(&f.hw, groups, NULL, &l);
        r = fx_find(&l, rows[i].id, rows[i].want, rows[i].seen);
        if (!r) {
            for (size_t k = 0; k < l.rows_count; k++)
                if (str_eq(l.rows[k].id, rows[i].id))
                    print_error("%s: %s\n", health_status_name(l.rows[k].status),
                                l.rows[k].evidence);
            fail_msg("row %zu: %s wants %s '%s'", i, rows[i].id, health_status_name(rows[i].want),
                     rows[i].seen);
        }
        assert_true(r->remedy ? str_ends(r->remedy, ".")
                              : r->status != CHECK_WARN && r->status != CHECK_FAIL);
        health_list_release(&l);
    }
}

static inline bool fx_has(const struct fx_row *rows, size_t count, const char *id, bool good)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(rows[i].id, id) &&
            (good ? rows[i].want == CHECK_PASS
                  : rows[i].want == CHECK_WARN || rows[i].want == CHECK_FAIL))
            return true;
    return false;
}

/* `no_bad`: a check that only tells, and never complains; NULL: none. */
static inline void fx_cover(const struct check_table *t, const struct fx_row *rows, size_t count,
                            const char *no_bad)
{
    for (size_t i = 0; i < t->count; i++) {
        const char *id = t->rows[i].id;

        if (!fx_has(rows, count, id, true))
            fail_msg("%s has no row that passes", id);
        if (!str_eq(id, no_bad) && !fx_has(rows, count, id, false))
            fail_msg("%s has no row that does not pass", id);
    }
}

#endif
