/* SPDX-License-Identifier: MIT */
/* kernel_limits: GPUDirect's conditions, IOMMU, ACS, the kernel's command line. */
#include "hw_box.h"

#include "base/str.h"

static const char open_driver[] =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"
    "GCC version:  gcc version 12.3.0\n";
static const char closed_driver[] =
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n";

/* -1: unknown */
static void check_dmabuf(const char *kernel, const char *driver, int want, const char *why)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    if (driver)
        box_file(&x, "/proc/driver/nvidia/version", driver);
    x.b.self.kernel = kernel;
    BOX_PROBE(&x, hw_src_limits);
    assert_int_equal(maybe_or(x.hw.limits.dmabuf, -1), want);
    assert_non_null(strstr(x.hw.limits.dmabuf_why, why));
}

TEST(dma_buf)
{
    check_dmabuf("6.8.0-45-generic", open_driver, 1, "open driver 580.95.05");
    check_dmabuf("5.12.0", open_driver, 1, "kernel 5.12.0");
    check_dmabuf("5.4.0-150", open_driver, 0, "older than 5.12");
    check_dmabuf("6.8.0", closed_driver, 0, "proprietary");
    check_dmabuf("6.8.0", NULL, -1, "no NVIDIA kernel module");
    check_dmabuf(NULL, open_driver, -1, "release is unknown");
    check_dmabuf("99999999999999999999", open_driver, -1, "release is unknown");
    check_dmabuf("6.8.0", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  510.1\n", 0,
                 "older than 515");
    check_dmabuf("6.8.0", "Open Kernel Module \xff\xfe", -1, "version is unknown");
}

TEST(the_driver_is_named)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    box_file(&x, "/proc/driver/nvidia/version", closed_driver);
    BOX_PROBE(&x, hw_src_limits);
    assert_string_equal(x.hw.nvidia.kernel_module, "proprietary");
    assert_string_equal(x.hw.nvidia.driver_version, "535.104.05");
}

static void check_peermem(const char *file, const char *want)
{
    AUTO(box_release) struct box x;

    box_init(&x);
    box_file(&x, file, "1.3\n");
    BOX_PROBE(&x, hw_src_limits);
    assert_string_equal(x.hw.limits.peermem, want);
    assert_string_equal(x.hw.limits.peermem_version, "1.3");
}

TEST(peer_memory)
{
    check_peermem("/sys/module/nvidia_peermem/version", "nvidia_peermem");
    check_peermem("/sys/kernel/mm/memory_peers/nv_mem/version", "nv_peer_mem");
    check_peermem("/sys/kernel/mm/memory_peers/nv_mem_nc/version", "nv_peer_mem");
}

TEST(nothing_seen)
{
    AUTO(box_release) struct box x;
    struct hw_limits *l = &x.hw.limits;

    box_init(&x);
    BOX_PROBE(&x, hw_src_limits);
    assert_null(l->peermem);
    assert_null(l->cmdline);
    assert_false(l->iommu.known);
    assert_false(l->uverbs.known);
    assert_false(l->acs_bridges.known);
    assert_false(l->memlock_bytes.known);
    assert_false(l->numa_balancing.known);
}

static void check_iommu(const char *type, const char *cmdline, const char *want)
{
    struct hw_pci gpu = { .bdf = "0000:1b:00.0",
                          .class_ = maybe_of(0x030200),
                          .iommu_group = maybe_of(7) };
    AUTO(box_release) struct box x;

    box_init(&x);
    x.hw.pci = &gpu;
    x.hw.pci_count = 1;
    box_dir(&x, "/sys/kernel/iommu_groups/7/devices");
    if (type)
        box_file(&x, "/sys/kernel/iommu_groups/7/type", type);
    box_file(&x, "/proc/cmdline", cmdline);
    BOX_PROBE(&x, hw_src_limits);
    assert_true(maybe_is(x.hw.limits.iommu, 1));
    assert_true(str_eq(x.hw.limits.iommu_mode, want));
}

TEST(iommu)
{
    AUTO(box_release) struct box x;

    check_iommu("DMA-FQ\n", "quiet\n", "translated");
    check_iommu("identity\n", "quiet\n", "passthrough");
    check_iommu(NULL, "quiet iommu=pt\n", "passthrough");
    check_iommu(NULL, "quiet\n", NULL);
    box_init(&x);
    box_dir(&x, "/sys/kernel/mm");
    box_dir(&x, "/dev/infiniband");
    box_file(&x, "/dev/infiniband/uverbs0", "");
    box_file(&x, "/dev/infiniband/uverbs1", "");
    box_file(&x, "/dev/infiniband/rdma_cm", "");
    BOX_PROBE(&x, hw_src_limits);
    assert_true(maybe_is(x.hw.limits.iommu, 0));
    assert_int_equal(x.hw.limits.uverbs.v, 2);
}

TEST(acs_and_command_line)
{
    struct hw_pci pci[] = {
        { .bdf = "0000:00:01.0", .class_ = maybe_of(0x060400), .acs = maybe_of(1) },
        { .bdf = "0000:00:02.0", .class_ = maybe_of(0x060400), .acs = maybe_of(0) },
        { .bdf = "0000:00:03.0", .class_ = maybe_of(0x060400) },
        { .bdf = "0000:01:00.0", .class_ = maybe_of(0x020000), .acs = maybe_of(1) },
    };
    struct hw_self_fs shm = { .target = "/dev/shm", .size_bytes = maybe_of(65536) };
    AUTO(box_release) struct box x;

    box_init(&x);
    x.hw.pci = pci;
    x.hw.pci_count = ARRAY_SIZE(pci);
    x.b.self.filesystems = &shm;
    x.b.self.filesystems_count = 1;
    x.b.self.memlock_bytes = maybe_of(-1);
    x.b.self.nofile = maybe_of(-99);
    box_file(
        &x, "/proc/cmdline",
        "BOOT_IMAGE=/vmlinuz root=UUID=1 iommu=pt intel_iommu=on nokaslr hugepages=4 pcilike=1\n");
    box_file(&x, "/proc/sys/kernel/numa_balancing", "2\n");
    BOX_PROBE(&x, hw_src_limits);
    assert_int_equal(x.hw.limits.acs_bridges.v, 1);
    assert_string_equal(x.hw.limits.cmdline, "iommu=pt intel_iommu=on hugepages=4");
    assert_true(maybe_is(x.hw.limits.numa_balancing, 1));
    assert_int_equal(x.hw.limits.shm_bytes.v, 65536);
    assert_true(maybe_is(x.hw.limits.memlock_bytes, -1));
    assert_false(x.hw.limits.nofile.known);
}

TEST_MAIN(cmocka_unit_test(dma_buf), cmocka_unit_test(the_driver_is_named),
          cmocka_unit_test(peer_memory), cmocka_unit_test(nothing_seen), cmocka_unit_test(iommu),
          cmocka_unit_test(acs_and_command_line))
