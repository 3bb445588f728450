/* SPDX-License-Identifier: MIT */
/* The checks of one GPU and of the driver, and of the GPUs together. */
#include "test_health_fixture.h"

TWEAK(no_gpu, f->hw.gpus_count = 0)
TWEAK(no_bus, f->hw.gpus_count = 0; f->hw.pci_count = 0)
TWEAK(mixed, f->gpus[1].name = "NVIDIA H100"; f->gpus[1].mem_total_bytes = maybe_of(80 * FX_GIB))

static void hung(struct fx *f)
{
    f->hw.nvidia.hung_call = "nvmlDeviceGetHandleByIndex_v2(1)";
    f->hw.nvidia.hung_pid = maybe_of(4711);
    f->hw.nvidia.hung_state = "D";
    f->hw.nvidia.hung_wchan = "os_acquire_rwlock_write";
    f->gpus[1].state = "unanswered";
}

TWEAK(no_module, f->hw.nvidia = (struct hw_nvidia){ .nvml_error = "driver not loaded" })
TWEAK(no_nvml, f->hw.nvidia.nvml_library = NULL;
      f->hw.nvidia.nvml_error = "libnvidia-ml.so.1 was not found")
TWEAK(mismatch, f->hw.nvidia.nvml_error = "driver/library version mismatch")
TWEAK(old_driver, f->hw.nvidia.driver_version = "525.60.13";
      f->hw.nvidia.cuda_driver = maybe_of(11080))
TWEAK(odd_driver, f->hw.nvidia.driver_version = "weird")
TWEAK(lost, f->gpus[1].state = "lost"; f->gpus[1].index = maybe_none())
TWEAK(hidden_one, fx_pod(f); f->gpus[1].state = "hidden")
TWEAK(hidden_all, fx_pod(f); f->gpus[0].state = f->gpus[1].state = "hidden")
TWEAK(hidden_job, f->hw.place.slurm_job = "7"; f->gpus[0].state = f->gpus[1].state = "hidden")
TWEAK(hidden_host, f->gpus[1].state = "hidden")
TWEAK(vfio, f->gpus[1].state = "no-driver"; f->pci[1].driver = "vfio-pci")
TWEAK(unbound, f->gpus[1].state = "no-driver"; f->pci[1].driver = NULL)

static void in_error(struct fx *f)
{
    f->gpus[1].state = "error";
    f->gpu_err = (struct hw_gpu_err){ "nvmlDeviceGetName", maybe_of(999), "unknown error" };
    f->gpus[1].errors = &f->gpu_err;
    f->gpus[1].errors_count = 1;
}

static void one_err(struct fx *f, int code, const char *text)
{
    f->gpu_err = (struct hw_gpu_err){ "nvmlDeviceGetInforomImageVersion", maybe_of(code), text };
    f->gpus[0].errors = &f->gpu_err;
    f->gpus[0].errors_count = 1;
}

TWEAK(inforom, one_err(f, 14, "corrupted infoROM"))
TWEAK(reset_required, one_err(f, 16, "reset required"))
TWEAK(no_permission, one_err(f, 4, "no permission"))
TWEAK(timeout, one_err(f, 10, "timeout"))
TWEAK(ecc_off, f->gpus[1].ecc = f->gpus[1].ecc_pending = maybe_of(0))
TWEAK(ecc_pending, f->gpus[1].ecc_pending = maybe_of(0))
TWEAK(ecc_unknown, f->gpus[0].ecc = maybe_none())
TWEAK(dbe, f->gpus[1].ecc_dbe_volatile = maybe_of(3))
TWEAK(dbe_old, f->gpus[1].ecc_dbe_total = maybe_of(2))
TWEAK(dbe_unknown, f->gpus[0].ecc_dbe_volatile = maybe_none(); f->gpus[0].mig = maybe_of(1))
TWEAK(remap_failed, f->gpus[0].remap_failed = maybe_of(1))
TWEAK(remap_pending, f->gpus[0].remap_pending = maybe_of(1))
TWEAK(remap_many, f->gpus[0].remap_uncorrectable = maybe_of(512))
TWEAK(remap_some, f->gpus[0].remap_uncorrectable = maybe_of(2))
TWEAK(remap_unknown, f->gpus[0].remap_failed = f->gpus[0].remap_pending = maybe_none())
TWEAK(recover_reset, f->gpus[0].recovery_action = "reset")
TWEAK(recover_reboot, f->gpus[0].recovery_action = "reboot")
TWEAK(recover_p2p, f->gpus[0].recovery_action = "drain-p2p")
TWEAK(recover_drain, f->gpus[0].recovery_action = "drain-reset")
TWEAK(recover_new, f->gpus[0].recovery_action = "recover-imex")
TWEAK(recover_unknown, f->gpus[0].recovery_action = NULL)
TWEAK(persist_off, f->gpus[0].persistence = maybe_of(0))
TWEAK(persist_daemon, f->gpus[0].persistence = maybe_none())
TWEAK(persist_unknown, persist_daemon(f); f->hw.nvidia.persistenced_running = maybe_none())
TWEAK(narrow, f->gpus[0].pcie_width = maybe_of(8))
TWEAK(width_unknown, f->gpus[0].pcie_width = maybe_none())
TWEAK(slow_idle, f->gpus[0].pcie_gen = maybe_of(1))
TWEAK(slow_busy, slow_idle(f); f->gpus[0].clock_sm_mhz = maybe_of(1980))
TWEAK(capped, f->gpus[0].power_limit_mw = maybe_of(500000))
TWEAK(power_unknown, f->gpus[0].power_limit_mw = maybe_none())
TWEAK(hot, f->gpus[0].temp_c = maybe_of(86))
TWEAK(too_hot, f->gpus[0].temp_c = maybe_of(89))
TWEAK(margin_gone, f->gpus[0].temp_slowdown_c = maybe_none();
      f->gpus[0].temp_margin_c = maybe_of(0))
TWEAK(margin_small, f->gpus[0].temp_slowdown_c = maybe_none();
      f->gpus[0].temp_margin_c = maybe_of(4))
TWEAK(exclusive, f->gpus[0].compute_mode = "exclusive")
TWEAK(prohibited, f->gpus[0].compute_mode = "prohibited")
TWEAK(numa_unknown, f->gpus[0].numa = maybe_none())
TWEAK(numa_one, numa_unknown(f); f->hw.numa_count = 1)
TWEAK(closed, f->hw.nvidia.kernel_module = "proprietary")
TWEAK(closed_blackwell, closed(f); f->gpus[0].arch = "Blackwell")
TWEAK(iommu_pt, f->hw.limits.iommu = maybe_of(1); f->hw.limits.iommu_mode = "passthrough")
TWEAK(iommu_on, f->hw.limits.iommu = maybe_of(1); f->hw.limits.iommu_mode = "translated")
TWEAK(iommu_unknown, f->hw.limits.iommu = maybe_none())
TWEAK(in_vm, f->hw.place.hypervisor = "kvm")
TWEAK(vbios, f->gpus[1].vbios = "96.00.30.00.01")
TWEAK(one_gpu, f->hw.gpus_count = 1; f->hw.gpu_pairs_count = 0)
TWEAK(mig_mixed, f->gpus[1].mig = f->gpus[1].mig_pending = maybe_of(1); f->gpus[1].migs = &f->mig;
      f->gpus[1].migs_count = 1)
TWEAK(mig_empty, mig_mixed(f); f->gpus[1].migs_count = 0)
TWEAK(mig_pending, f->gpus[1].mig_pending = maybe_of(1))
TWEAK(mig_none, f->gpus[0].mig = f->gpus[1].mig = maybe_none())
TWEAK(link_down, f->links[1][0].active = maybe_of(0))

static void links_down(struct fx *f)
{
    for (size_t i = 0; i < FX_GPUS; i++)
        for (size_t k = 0; k < FX_LINKS; k++)
            f->links[i][k].active = maybe_of(0);
}

TWEAK(links_half, f->links[0][1].active = f->links[1][1].active = maybe_of(0))

static void links_none(struct fx *f)
{
    for (size_t i = 0; i < FX_GPUS; i++) {
        f->gpus[i].nvlinks_count = 0;
        f->gpus[i].nvlinks_total = maybe_of(0);
    }
}

TWEAK(fm_stopped, f->hw.nvidia.fabricmanager_running = maybe_of(0))
TWEAK(fm_other, f->hw.nvidia.fabricmanager_version = "570.86.15")
TWEAK(fm_pod, fx_pod(f); fm_stopped(f))

/* HGX B200: the switches are no PCI devices of the host. */
static void switch_unseen(struct fx *f)
{
    f->hw.nvidia.nvswitches = maybe_of(0);
    fm_stopped(f);
    for (size_t i = 0; i < FX_GPUS; i++)
        for (size_t k = 0; k < f->gpus[i].nvlinks_count; k++)
            f->gpus[i].nvlinks[k].remote_kind = "switch";
}

TWEAK(switch_guest, switch_unseen(f); f->hw.place.hypervisor = "kvm")

static void no_switch(struct fx *f)
{
    f->hw.nvidia.nvswitches = maybe_of(0);
    for (size_t i = 0; i < FX_GPUS; i++)
        f->gpus[i].c2c = maybe_of(1); /* a tray: the switches are in the rack */
}

static void vgpu(struct fx *f)
{
    for (size_t i = 0; i < FX_GPUS; i++) {
        f->gpus[i].mem_total_bytes = maybe_of(INT64_C(20) << 30);
        f->gpus[i].virtualization = "vgpu";
    }
}

TWEAK(fabric_wait, f->gpus[0].fabric_state = "in-progress")
TWEAK(fabric_bad, f->gpus[0].fabric_status = "unknown error")

static void domain(struct fx *f) /* NVLink to other machines, as on GB200 */
{
    for (size_t i = 0; i < 2; i++) {
        f->gpus[i].fabric_cluster = "3f2504e0-4f89-11d3-9a0c-0305e82c3301";
        f->gpus[i].fabric_clique = maybe_of(1);
    }
    f->hw.nvidia.imex_running = maybe_of(1);
    f->hw.nvidia.imex_channels = maybe_of(1);
}

TWEAK(domain_cliques, domain(f); f->gpus[1].fabric_clique = maybe_of(7))
TWEAK(domain_no_channel, domain(f); f->hw.nvidia.imex_channels = maybe_none();
      f->hw.place.manager = "none")
TWEAK(domain_managed, domain_no_channel(f); f->hw.place.manager = "slurm")
TWEAK(fabric_none, f->gpus[0].fabric_state = f->gpus[1].fabric_state = NULL)
TWEAK(p2p_off, f->pair.p2p_read = f->pair.p2p_write = "chipset not supported")
TWEAK(p2p_unknown, f->pair.p2p_read = NULL)
TWEAK(captured, f->hw.captured = maybe_of(1))
TWEAK(half_memory, f->gpus[1].mem_total_bytes = maybe_of(70 * FX_GIB))
TWEAK(memory_unknown, f->gpus[1].mem_total_bytes = maybe_none())
TWEAK(newer, f->gpus[1].name = "NVIDIA Z900")
TWEAK(low_power, f->gpus[1].power_default_mw = maybe_of(600000))
TWEAK(low_unknown, f->gpus[1].power_default_mw = maybe_none())

static const struct fx_row rows[] = {
    { "gpu.present", NULL, CHECK_PASS, "2 x NVIDIA H200" },
    { "gpu.present", mixed, CHECK_PASS, "2 x NVIDIA GPU" },
    { "gpu.present", lost, CHECK_PASS, "2 on the bus, of which 1 x NVIDIA H200 answer" },
    { "gpu.present", no_gpu, CHECK_FAIL, "no NVIDIA GPU on the PCI bus" },
    { "gpu.present", no_bus, CHECK_UNKNOWN, "could not be read" },
    { "gpu.driver", NULL, CHECK_PASS, "580.95.05 answers" },
    { "gpu.driver", hung, CHECK_FAIL, "nvmlDeviceGetHandleByIndex_v2(1) never returned" },
    { "gpu.driver", hung, CHECK_FAIL, "process 4711 in state D, asleep in os_acquire_rwlock" },
    { "gpu.driver", no_module, CHECK_FAIL, "kernel module is not loaded: driver not loaded" },
    { "gpu.driver", no_nvml, CHECK_FAIL, "libnvidia-ml.so.1 was not found" },
    { "gpu.driver", mismatch, CHECK_FAIL, "version mismatch" },
    { "gpu.driver-version", NULL, CHECK_PASS, "driver 580.95.05" },
    { "gpu.driver-version", old_driver, CHECK_FAIL, "525.60.13 is older than 535" },
    { "gpu.driver-version", odd_driver, CHECK_UNKNOWN, "'weird' is no version" },
    { "gpu.driver-version", no_module, CHECK_SKIP, "no driver version" },
    { "gpu.cuda-driver", NULL, CHECK_PASS, "CUDA 13.0" },
    { "gpu.cuda-driver", old_driver, CHECK_FAIL, "CUDA 11.8, 12.0 is wanted" },
    { "gpu.visible", NULL, CHECK_PASS, "GPU 0-1: answers" },
    { "gpu.visible", lost, CHECK_FAIL, "0000:9b:00.0: fallen off the bus at 0000:9b:00.0" },
    { "gpu.visible", lost, CHECK_PASS, "GPU 0: answers" },
    { "gpu.visible", hung, CHECK_FAIL, "GPU 1: the driver's call for it did not return" },
    { "gpu.visible", hidden_one, CHECK_PASS, "GPU 1: on the bus, given to somebody else" },
    { "gpu.visible", hidden_all, CHECK_FAIL, "GPU 0-1: on the bus, not given to this container" },
    { "gpu.visible", hidden_job, CHECK_FAIL, "not given to this job" },
    { "gpu.visible", hidden_host, CHECK_WARN, "does not show it to this process" },
    { "gpu.visible", vfio, CHECK_WARN, "vfio-pci" },
    { "gpu.visible", unbound, CHECK_FAIL, "bound to no driver" },
    { "gpu.visible", in_error, CHECK_FAIL, "nvmlDeviceGetName: unknown error" },
    { "gpu.visible", no_gpu, CHECK_SKIP, "no GPU here" },
    { "gpu.errors", NULL, CHECK_PASS, "no driver call failed" },
    { "gpu.errors", inforom, CHECK_FAIL, "corrupted infoROM" },
    { "gpu.errors", reset_required, CHECK_FAIL, "reset required" },
    { "gpu.errors", timeout, CHECK_WARN, "timeout" },
    { "gpu.errors", no_permission, CHECK_PASS, "no driver call failed" },
    { "gpu.ecc", NULL, CHECK_PASS, "GPU 0-1: ECC is on" },
    { "gpu.ecc", ecc_off, CHECK_WARN, "GPU 1: ECC is off" },
    { "gpu.ecc", ecc_pending, CHECK_WARN, "on and will be off" },
    { "gpu.ecc", ecc_unknown, CHECK_UNKNOWN, "GPU 0" },
    { "gpu.ecc", hidden_all, CHECK_SKIP, "no GPU answers" },
    { "gpu.ecc-errors", NULL, CHECK_PASS, "no uncorrectable error" },
    { "gpu.ecc-errors", dbe, CHECK_FAIL, "GPU 1: 3 uncorrectable" },
    { "gpu.ecc-errors", dbe_old, CHECK_PASS, "2 in its life" },
    { "gpu.ecc-errors", dbe_unknown, CHECK_UNKNOWN, "MIG" },
    { "gpu.remap", NULL, CHECK_PASS, "none pending or failed" },
    { "gpu.remap", remap_failed, CHECK_FAIL, "failed" },
    { "gpu.remap", remap_pending, CHECK_WARN, "waits for a reset" },
    { "gpu.remap", remap_many, CHECK_WARN, "512 rows" },
    { "gpu.remap", remap_some, CHECK_PASS, "2 rows remapped" },
    { "gpu.remap", remap_unknown, CHECK_UNKNOWN, "does not tell" },
    { "gpu.recovery", NULL, CHECK_PASS, "asks for nothing" },
    { "gpu.recovery", recover_reset, CHECK_FAIL, "GPU reset" },
    { "gpu.recovery", recover_reboot, CHECK_FAIL, "reboot" },
    { "gpu.recovery", recover_p2p, CHECK_FAIL, "peer-to-peer" },
    { "gpu.recovery", recover_drain, CHECK_FAIL, "drain and reset" },
    { "gpu.recovery", recover_new, CHECK_FAIL, "recover-imex" },
    { "gpu.recovery", recover_unknown, CHECK_UNKNOWN, "R565" },
    { "gpu.persistence", NULL, CHECK_PASS, "is on" },
    { "gpu.persistence", persist_off, CHECK_WARN, "although nvidia-persistenced runs" },
    { "gpu.persistence", persist_daemon, CHECK_PASS, "nvidia-persistenced runs" },
    { "gpu.persistence", persist_unknown, CHECK_UNKNOWN, "does not tell" },
    { "gpu.pcie-width", NULL, CHECK_PASS, "x16" },
    { "gpu.pcie-width", narrow, CHECK_WARN, "x8 of x16" },
    { "gpu.pcie-width", width_unknown, CHECK_UNKNOWN, "does not tell" },
    { "gpu.pcie-speed", NULL, CHECK_PASS, "gen 5" },
    { "gpu.pcie-speed", slow_idle, CHECK_UNKNOWN, "gen 1 of 5 now" },
    { "gpu.pcie-speed", slow_busy, CHECK_WARN, "gen 1 of 5 at high clocks" },
    { "gpu.power-limit", NULL, CHECK_PASS, "700 W" },
    { "gpu.power-limit", capped, CHECK_WARN, "capped at 500 W, the default is 700 W" },
    { "gpu.power-limit", power_unknown, CHECK_UNKNOWN, "does not tell" },
    { "gpu.temperature", NULL, CHECK_PASS, "at most 32 °C" },
    { "gpu.temperature", hot, CHECK_WARN, "86 °C" },
    { "gpu.temperature", too_hot, CHECK_FAIL, "slows down at 89 °C" },
    { "gpu.temperature", margin_gone, CHECK_FAIL, "past its thermal limit" },
    { "gpu.temperature", margin_small, CHECK_WARN, "4 °C from" },
    { "gpu.compute-mode", NULL, CHECK_PASS, "default" },
    { "gpu.compute-mode", exclusive, CHECK_WARN, "exclusive" },
    { "gpu.compute-mode", prohibited, CHECK_FAIL, "prohibited" },
    { "gpu.numa", NULL, CHECK_PASS, "known" },
    { "gpu.numa", numa_unknown, CHECK_WARN, "does not know" },
    { "gpu.numa", numa_one, CHECK_PASS, "one NUMA node" },
    { "gpu.module", NULL, CHECK_PASS, "open" },
    { "gpu.module", closed, CHECK_PASS, "proprietary" },
    { "gpu.module", closed_blackwell, CHECK_FAIL, "Blackwell needs the open one" },
    { "gpu.iommu", NULL, CHECK_PASS, "off" },
    { "gpu.iommu", iommu_pt, CHECK_PASS, "passing addresses through" },
    { "gpu.iommu", iommu_on, CHECK_WARN, "translating" },
    { "gpu.iommu", iommu_unknown, CHECK_UNKNOWN, "does not tell" },
    { "gpu.iommu", in_vm, CHECK_SKIP, "host of this virtual machine" },
};

/* the switch above all below a root port, which makes it one with an upper side */
static void uplink(struct fx *f, const char *speed, int lanes)
{
    struct hw_pci *sw = &f->pci[f->hw.pci_count - 1];

    sw[0].class_ = maybe_of(0x060400);
    sw[0].parent = "0000:0f:00.0";
    sw[0].link_speed = speed;
    sw[0].link_width = maybe_of(lanes);
    sw[0].link_speed_max = "32.0 GT/s PCIe";
    sw[0].link_width_max = maybe_of(16);
    sw[1] = sw[0];
    sw[1].bdf = "0000:0f:00.0";
    sw[1].parent = NULL;
    f->hw.pci_count++;
}

TWEAK(uplink_well, uplink(f, "32.0 GT/s PCIe", 16))
TWEAK(uplink_narrow, uplink(f, "32.0 GT/s PCIe", 4))
TWEAK(uplink_slow, uplink(f, "8.0 GT/s PCIe", 16))
TWEAK(uplink_guest, uplink_slow(f); f->hw.place.hypervisor = "kvm")
TWEAK(p2p_mig, f->hw.gpu_pairs[0].p2p_read = f->hw.gpu_pairs[0].p2p_write = "not supported";
      f->hw.gpu_pairs[0].nvlinks = maybe_of(18); f->gpus[0].mig = maybe_of(1))

static const struct fx_row fabric_rows[] = {
    { "gpu.same-model", NULL, CHECK_PASS, "one model" },
    { "gpu.same-vbios", NULL, CHECK_PASS, "one VBIOS version" },
    { "gpu.same-model", mixed, CHECK_WARN, "several models: GPU 1 has NVIDIA H100" },
    { "gpu.same-vbios", vbios, CHECK_WARN, "several VBIOS versions" },
    { "gpu.same-model", one_gpu, CHECK_SKIP, "fewer than two" },
    { "gpu.same-memory", NULL, CHECK_PASS, "143360 MiB on each" },
    { "gpu.same-memory", mixed, CHECK_WARN, "between 81920 and 143360 MiB" },
    { "gpu.mig", NULL, CHECK_PASS, "off on 2 of 2" },
    { "gpu.mig", mig_mixed, CHECK_WARN, "on for 1 GPUs and off for 1" },
    { "gpu.mig", mig_empty, CHECK_FAIL, "without an instance" },
    { "gpu.mig", mig_pending, CHECK_WARN, "next reset" },
    { "gpu.mig", mig_none, CHECK_SKIP, "no GPU here that can do MIG" },
    { "gpu.nvlink", NULL, CHECK_PASS, "GPU 0-1: 2 links active" },
    { "gpu.nvlink", link_down, CHECK_FAIL, "GPU 1: 1 of 2 links active, other GPUs have 2" },
    { "gpu.nvlink", links_down, CHECK_WARN, "no link of 2" },
    { "gpu.nvlink", links_half, CHECK_WARN, "1 of 2 links active" },
    { "gpu.nvlink", links_none, CHECK_SKIP, "no NVLink here" },
    { "gpu.nvlink", one_gpu, CHECK_SKIP, "no peer" },
    { "gpu.fabric-manager", NULL, CHECK_PASS, "runs, version 580.95.05" },
    { "gpu.fabric-manager", fm_stopped, CHECK_FAIL, "not running, with 4 NVSwitches" },
    { "gpu.fabric-manager", fm_other, CHECK_FAIL, "fabric manager 570.86.15, driver 580.95.05" },
    { "gpu.fabric-manager", fm_pod, CHECK_UNKNOWN, "cannot be seen from here" },
    { "gpu.fabric-manager", no_switch, CHECK_SKIP, "no NVSwitch here" },
    { "gpu.fabric-manager", switch_unseen, CHECK_FAIL, "not running, with GPUs on NVSwitches" },
    { "gpu.fabric-manager", switch_guest, CHECK_UNKNOWN, "cannot be seen from here" },
    { "gpu.fabric", NULL, CHECK_PASS, "GPU 0-1: joined" },
    { "gpu.fabric", fabric_wait, CHECK_FAIL, "in-progress" },
    { "gpu.fabric", fabric_bad, CHECK_FAIL, "with an error" },
    { "gpu.fabric", fabric_none, CHECK_SKIP, "no NVSwitch fabric" },
    { "gpu.imex", NULL, CHECK_SKIP, "no NVLink domain that spans machines" },
    { "gpu.imex", domain, CHECK_PASS, "nvidia-imex runs" },
    { "gpu.imex", domain_cliques, CHECK_WARN, "not of one clique" },
    { "gpu.imex", domain_no_channel, CHECK_FAIL, "there is no /dev/nvidia-caps-imex-channels" },
    { "gpu.imex", domain_managed, CHECK_WARN, "slurm may bring" },
    { "gpu.p2p", NULL, CHECK_PASS, "1 of 1 pairs reach" },
    { "gpu.p2p", p2p_off, CHECK_WARN,
      "GPU 0 with 1: cannot reach each other's memory: chipset not supported" },
    { "gpu.p2p", p2p_unknown, CHECK_UNKNOWN, "does not tell" },
    { "gpu.p2p", one_gpu, CHECK_SKIP, "fewer than two" },
    { "gpu.p2p", p2p_mig, CHECK_SKIP, "MIG is on" },
    { "gpu.pcie-uplink", NULL, CHECK_SKIP, "no PCIe switch" },
    { "gpu.pcie-uplink", uplink_well, CHECK_PASS, "1 of 1 switches" },
    { "gpu.pcie-uplink", uplink_narrow, CHECK_WARN,
      "0000:10:00.0: the switch above 4 devices has x4" },
    { "gpu.pcie-uplink", uplink_slow, CHECK_WARN, "126 of 504 Gb/s" },
    { "gpu.pcie-uplink", uplink_guest, CHECK_SKIP, "virtual machine" },
    { "gpu.cuda-runs", NULL, CHECK_SKIP, "--deep" },
};

static const struct fx_row catalog_rows[] = {
    { "gpu.memory-size", NULL, CHECK_PASS, "GPU 0-1: the memory of the H200 SXM" },
    { "gpu.memory-size", half_memory, CHECK_WARN, "GPU 1: 70 GiB of memory, the H200 SXM 141GB" },
    { "gpu.memory-size", vgpu, CHECK_SKIP, "a vGPU has less memory" },
    { "gpu.memory-size", memory_unknown, CHECK_UNKNOWN, "no memory size to compare" },
    { "gpu.memory-size", newer, CHECK_SKIP, "NVIDIA Z900 is not in the catalogue" },
    { "gpu.memory-size", hidden_all, CHECK_SKIP, "no GPU answers" },
    { "gpu.memory-size", no_gpu, CHECK_SKIP, "no GPU here" },
    { "gpu.board-power", NULL, CHECK_PASS, "the power of the H200 SXM" },
    { "gpu.board-power", low_power, CHECK_WARN, "600 W by default, the H200 SXM 141GB has 700 W" },
    { "gpu.board-power", low_unknown, CHECK_UNKNOWN, "no power limit" },
};

TEST(as_the_data_sheet_says)
{
    fx_run(catalog_rows, ARRAY_SIZE(catalog_rows), CHECK_GPU);
    fx_cover(&checks_catalog, catalog_rows, ARRAY_SIZE(catalog_rows), NULL);
}

TEST(one_gpu_and_the_driver)
{
    fx_run(rows, ARRAY_SIZE(rows), CHECK_GPU);
    fx_cover(&checks_gpu, rows, ARRAY_SIZE(rows), NULL);
}

TEST(the_gpus_together)
{
    fx_run(fabric_rows, ARRAY_SIZE(fabric_rows), CHECK_GPU);
}

/* Everything but the probe, which needs a GPU to pass: test_health_plugin.c. */
TEST(every_check_of_the_fabric_has_rows)
{
    struct check_table t = checks_fabric;

    assert_string_equal(t.rows[t.count - 1].id, "gpu.cuda-runs");
    t.count--;
    fx_cover(&t, fabric_rows, ARRAY_SIZE(fabric_rows), NULL);
}

TEST(the_probe_never_runs_for_a_captured_machine)
{
    static struct fx f;
    struct health_opts opts = { .deep = true, .plugin_dir = "/nonexistent" };
    AUTO(health_list_release) struct health_list l = { 0 };

    fx_good(&f);
    captured(&f);
    health_check(&f.hw, CHECK_GPU, &opts, &l);
    assert_non_null(fx_find(&l, "gpu.cuda-runs", CHECK_SKIP, "captured"));
}

TEST_MAIN(cmocka_unit_test(one_gpu_and_the_driver), cmocka_unit_test(as_the_data_sheet_says),
          cmocka_unit_test(the_gpus_together), cmocka_unit_test(every_check_of_the_fabric_has_rows),
          cmocka_unit_test(the_probe_never_runs_for_a_captured_machine))
