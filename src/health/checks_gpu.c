/* SPDX-License-Identifier: MIT */
/* checks_gpu: the GPUs and their driver.
 *
 * What the driver says about one GPU is judged GPU by GPU; what only makes sense for
 * several (the same model, the same links) is in checks_fabric.c. */
#include "base/str.h"
#include "health/health_int.h"

/* ---- thresholds ---- */
enum {
    /* Driver branch and CUDA level of the deployment checklist: R535 is the oldest
     * long-lived branch that drives Hopper with CUDA 12. */
    GPU_DRIVER_MIN = 535,
    GPU_CUDA_MIN = 12000,
    /* DCGM's health watch warns at this many uncorrectable row remaps. */
    GPU_REMAP_WARN = 512,
    /* The usual operating target is below 85 °C; closer than 5 °C to the slowdown
     * point a GPU in a warm aisle will throttle. */
    GPU_TEMP_WARN_C = 85,
    GPU_TEMP_MARGIN_C = 5,
    /* Below this share of its top clock a GPU is taken to idle, and many lower their
     * PCIe speed then. */
    GPU_BUSY_CLOCK_PERCENT = 70,
    /* NVML return codes that condemn a GPU: corrupted infoROM, lost, reset required. */
    NVML_CORRUPTED_INFOROM = 14,
    NVML_GPU_IS_LOST = 15,
    NVML_ERROR_RESET_REQUIRED = 16,
    NVML_ERROR_NO_PERMISSION = 4
};

/* ---- the driver ---- */
static void gpu_present(const struct hw *hw, struct check_out *o)
{
    size_t ok = facts_gpus_ok(hw);
    const char *name = NULL;
    bool same = true;

    if (hw->gpus_count == 0 && hw->pci_count == 0) {
        check_unknown(o, "Mount sysfs, or run it outside the sandbox.",
                      "the PCI bus could not be read, and no driver answers");
        return;
    }
    if (hw->gpus_count == 0) {
        check_fail(o,
                   "Run it on a machine that has one; in a virtual machine, attach the GPU to it; "
                   "on bare metal see whether `lspci -d 10de:` and the BIOS list it.",
                   "no NVIDIA GPU on the PCI bus");
        return;
    }
    for (size_t i = 0; i < hw->gpus_count; i++) {
        if (ok && !facts_gpu_ok(&hw->gpus[i]))
            continue; /* PCI knows other names than the driver */
        same = same && (!name || str_eq(hw->gpus[i].name, name));
        name = hw->gpus[i].name;
    }
    if (!same || !name)
        name = "NVIDIA GPU";
    if (ok == 0 || ok == hw->gpus_count)
        check_pass(o, "%zu x %s", hw->gpus_count, name);
    else
        check_pass(o, "%zu on the bus, of which %zu x %s answer", hw->gpus_count, ok, name);
}

static void driver_hung(const struct hw_nvidia *n, struct check_out *o)
{
    check_fail(o,
               "Look for 'Xid' and 'fallen off the bus' in `dmesg`, drain the node and reset the "
               "GPU or reboot: a process asleep in the driver cannot be killed.",
               "driver not answering: %s never returned, process %lld in state %s, asleep in %s",
               n->hung_call, (long long)maybe_or(n->hung_pid, -1),
               n->hung_state ? n->hung_state : "unknown",
               n->hung_wchan ? n->hung_wchan : "an unknown place");
}

static void gpu_driver(const struct hw *hw, struct check_out *o)
{
    const struct hw_nvidia *n = &hw->nvidia;

    if (n->hung_call)
        driver_hung(n, o);
    else if (n->driver_version && !n->nvml_error)
        check_pass(o, "%s answers", n->driver_version);
    else if (hw->gpus_count == 0)
        check_skip(o, "no GPU here");
    else if (!n->kernel_module && !n->driver_version)
        check_fail(o,
                   "Install the NVIDIA driver and `modprobe nvidia`; after a kernel update, "
                   "rebuild it (`dkms autoinstall`).",
                   "the nvidia kernel module is not loaded%s%s", n->nvml_error ? ": " : "",
                   n->nvml_error ? n->nvml_error : "");
    else if (!n->nvml_library)
        check_fail(o,
                   "Install the driver's user library (libnvidia-ml.so.1); in a container, run it "
                   "with the NVIDIA container toolkit and the 'utility' driver capability.",
                   "the kernel module is loaded, but %s",
                   n->nvml_error ? n->nvml_error : "libnvidia-ml.so.1 was not found");
    else
        check_fail(o,
                   "A version mismatch wants a reboot or `rmmod` and `modprobe` of the nvidia "
                   "modules; for anything else read `dmesg` for lines with 'NVRM'.",
                   "%s", n->nvml_error ? n->nvml_error : "the driver gives no version");
}

static void gpu_driver_version(const struct hw *hw, struct check_out *o)
{
    const char *v = hw->nvidia.driver_version;
    int major, minor;

    if (!v) {
        check_skip(o, "no driver version known");
    } else if (!facts_version(v, &major, &minor)) {
        check_unknown(o, NULL, "'%s' is no version", v);
    } else if (major < GPU_DRIVER_MIN) {
        check_fail(
            o,
            check_text(o, "Install driver branch %d or newer; 580 serves CUDA 13.", GPU_DRIVER_MIN),
            "driver %s is older than %d", v, GPU_DRIVER_MIN);
    } else {
        check_pass(o, "driver %s, %d or newer is wanted", v, GPU_DRIVER_MIN);
    }
}

static void gpu_cuda(const struct hw *hw, struct check_out *o)
{
    struct maybe c = hw->nvidia.cuda_driver;

    if (!c.known)
        check_skip(o, "the driver does not say which CUDA it serves");
    else if (c.v < GPU_CUDA_MIN)
        check_fail(o, "Install a newer driver: 525 serves CUDA 12.0, 535 serves 12.2.",
                   "the driver serves CUDA %lld.%lld, 12.0 is wanted", (long long)(c.v / 1000),
                   (long long)(c.v % 1000 / 10));
    else
        check_pass(o, "the driver serves CUDA %lld.%lld", (long long)(c.v / 1000),
                   (long long)(c.v % 1000 / 10));
}

/* ---- every GPU of the bus answers ---- */
static void visible_hidden(const struct hw *hw, struct check_out *o)
{
    bool meant = facts_in_container(hw) || hw->place.slurm_job;

    if (meant && facts_gpus_ok(hw) > 0)
        check_pass(o, "on the bus, given to somebody else");
    else if (hw->place.k8s_pod || str_eq(hw->place.container, "kubernetes"))
        check_fail(
            o,
            "Ask for nvidia.com/gpu in the resources of this very container; an init "
            "container gets no GPU of the pod's other containers, so detect in the main one.",
            "on the bus, not given to this container");
    else if (meant)
        check_fail(o,
                   "Start the container with --gpus all (docker) or the job with --gres=gpu:N "
                   "(Slurm).",
                   "on the bus, not given to this %s",
                   facts_in_container(hw) ? "container" : "job");
    else
        check_warn(o,
                   "See NVIDIA_VISIBLE_DEVICES, the permissions of /dev/nvidia* and the device "
                   "cgroup of this session.",
                   "on the bus, but the driver does not show it to this process");
}

static void visible_no_driver(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    const struct hw_pci *p = g->bdf ? hw_find_pci(hw, g->bdf) : NULL;
    const char *driver = p ? p->driver : NULL;

    if (str_eq(driver, "vfio-pci"))
        check_warn(o, "Nothing to do if a virtual machine is meant to have it; else unbind it.",
                   "bound to vfio-pci: set aside for a virtual machine");
    else
        check_fail(o, "Bind it to the nvidia driver; if it refuses, read `dmesg` for 'NVRM'.",
                   "bound to %s", driver ? driver : "no driver");
}

static void visible_one(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    const struct hw_gpu_err *e = g->errors_count ? &g->errors[0] : NULL;

    if (facts_gpu_ok(g))
        check_pass(o, "answers the driver");
    else if (str_eq(g->state, "hidden"))
        visible_hidden(hw, o);
    else if (str_eq(g->state, "no-driver"))
        visible_no_driver(hw, g, o);
    else if (str_eq(g->state, "lost"))
        check_fail(o,
                   "Drain the node and reboot it (NVIDIA's advice for Xid 79); if it comes back "
                   "lost, power the machine off, reseat the GPU, then have it replaced.",
                   "fallen off the bus at %s", g->bdf ? g->bdf : "an unknown address");
    else if (str_eq(g->state, "unanswered"))
        check_fail(o,
                   "Drain the node; reset the GPU (`nvidia-smi --gpu-reset`), reboot when the "
                   "reset hangs too.",
                   "the driver's call for it did not return");
    else if (str_eq(g->state, "error"))
        check_fail(o, "Reset the GPU; if the error stays, reboot and read `dmesg` for its Xid.",
                   "the driver answers with an error: %s%s%s", e && e->call ? e->call : "",
                   e && e->call ? ": " : "", e && e->text ? e->text : "no reason given");
    else
        check_unknown(o, NULL, "state '%s'", g->state ? g->state : "not told");
}

static void gpu_visible(const struct hw *hw, struct check_out *o)
{
    char name[FACTS_NAME_MAX];

    if (hw->gpus_count == 0)
        check_skip(o, "no GPU here");
    for (size_t i = 0; i < hw->gpus_count; i++) {
        o->object = facts_gpu_name(&hw->gpus[i], name);
        visible_one(hw, &hw->gpus[i], o);
    }
    o->object = NULL;
}

static void gpu_errors(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    bool said = false;

    (void)hw;
    FOR_EACH(const struct hw_gpu_err, e, g->errors) {
        const char *call = e->call ? e->call : "a call";
        const char *text = e->text ? e->text : "no reason given";

        if (maybe_is(e->code, NVML_ERROR_NO_PERMISSION))
            continue; /* about us, not about the GPU */
        said = true;
        if (maybe_is(e->code, NVML_CORRUPTED_INFOROM))
            check_fail(
                o, "Drain the node and ask the vendor to replace the GPU or reflash its infoROM.",
                "%s: %s", call, text);
        else if (maybe_is(e->code, NVML_GPU_IS_LOST) ||
                 maybe_is(e->code, NVML_ERROR_RESET_REQUIRED))
            check_fail(o, "Drain the node and reset the GPU; reboot when the reset is refused.",
                       "%s: %s", call, text);
        else
            check_warn(o, "Read `dmesg` for lines with 'NVRM' at the time of this check.", "%s: %s",
                       call, text);
    }
    if (!said)
        check_pass(o, "no driver call failed");
}

/* ---- memory ---- */
static void gpu_ecc(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    (void)hw;
    if (!g->ecc.known)
        check_unknown(o, NULL, "the driver does not say; consumer GPUs have none");
    else if (g->ecc_pending.known && g->ecc_pending.v != g->ecc.v)
        check_warn(o, "Reset the GPU or reboot, so that the setting takes effect.",
                   "ECC is %s and will be %s after the next reset", g->ecc.v ? "on" : "off",
                   g->ecc_pending.v ? "on" : "off");
    else if (!g->ecc.v)
        check_warn(o, "Switch it on with `nvidia-smi -e 1` and reset the GPU.",
                   "ECC is off: bit errors in GPU memory go unnoticed");
    else
        check_pass(o, "ECC is on");
}

static void gpu_ecc_errors(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    (void)hw;
    if (!g->ecc_dbe_volatile.known)
        check_unknown(o, NULL, "%s",
                      maybe_is(g->ecc, 0)   ? "ECC is off, nothing is counted"
                      : maybe_is(g->mig, 1) ? "the driver does not count for a GPU in MIG mode"
                                            : "the driver does not count them");
    else if (g->ecc_dbe_volatile.v > 0)
        check_fail(o,
                   "Drain the node, reset the GPU so that the rows are remapped, run a memory "
                   "diagnosis (`dcgmi diag -r 3`) before jobs return.",
                   "%lld uncorrectable memory errors since the driver was loaded",
                   (long long)g->ecc_dbe_volatile.v);
    else if (maybe_or(g->ecc_dbe_total, 0) > 0)
        check_pass(o, "no uncorrectable error since the driver was loaded (%lld in its life)",
                   (long long)g->ecc_dbe_total.v);
    else
        check_pass(o, "no uncorrectable error since the driver was loaded");
}

static void gpu_remap(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    (void)hw;
    if (!g->remap_failed.known && !g->remap_pending.known)
        check_unknown(o, NULL, "the driver does not tell of remapped rows");
    else if (maybe_is(g->remap_failed, 1))
        check_fail(o, "Have the GPU replaced: it has no spare rows left for the bad ones.",
                   "a row remapping failed");
    else if (maybe_is(g->remap_pending, 1))
        check_warn(o, "Reset the GPU when its jobs have ended: the reset applies the remapping.",
                   "a row remapping waits for a reset");
    else if (maybe_or(g->remap_uncorrectable, 0) >= GPU_REMAP_WARN)
        check_warn(o, "Plan to have the GPU replaced.",
                   "%lld rows remapped for uncorrectable errors",
                   (long long)g->remap_uncorrectable.v);
    else if (maybe_or(g->remap_uncorrectable, 0) > 0)
        check_pass(o, "none pending or failed (%lld rows remapped)",
                   (long long)g->remap_uncorrectable.v);
    else
        check_pass(o, "none pending or failed");
}

static void gpu_recovery(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    const char *a = g->recovery_action;

    (void)hw;
    if (!a)
        check_unknown(o, NULL, "the driver does not tell (R565 and newer do)");
    else if (str_eq(a, "none"))
        check_pass(o, "the driver asks for nothing");
    else if (str_eq(a, "reset"))
        check_fail(o, "End its jobs and run `nvidia-smi --gpu-reset -i INDEX`.",
                   "the driver asks for a GPU reset");
    else if (str_eq(a, "reboot"))
        check_fail(o, "Drain the node and reboot it.", "the driver asks for a reboot");
    else if (str_eq(a, "drain-p2p"))
        check_fail(o, "End the jobs that use this GPU's NVLink peers, then reset it.",
                   "the driver asks to drain peer-to-peer work");
    else if (str_eq(a, "drain-reset"))
        check_fail(o, "Let its jobs end, start none, then reset it.",
                   "the driver asks to drain and reset it");
    else
        check_fail(o, "Drain the node and ask the vendor what this action means.",
                   "the driver asks for '%s'", a);
}

/* ---- settings ---- */
static void gpu_persistence(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    if (maybe_is(g->persistence, 1))
        check_pass(o, "persistence mode is on");
    else if (g->persistence.known)
        check_warn(o,
                   "Start nvidia-persistenced with persistence mode, or run `nvidia-smi -pm 1` at "
                   "boot.",
                   "persistence mode is off%s",
                   maybe_is(hw->nvidia.persistenced_running, 1)
                       ? " although nvidia-persistenced runs"
                       : "");
    else if (maybe_is(hw->nvidia.persistenced_running, 1))
        check_pass(o, "nvidia-persistenced runs");
    else
        check_unknown(o, NULL, "the driver does not tell");
}

static void gpu_pcie_width(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    if (!g->pcie_width.known || !g->pcie_width_max.known)
        check_unknown(o, NULL, "the driver does not tell the PCIe width");
    else if (g->pcie_width.v < g->pcie_width_max.v)
        check_warn(o,
                   facts_is_arm(hw)
                       ? "Look for PCIe errors in `dmesg` (AER); reseat the card or, on a module, "
                         "have it exchanged; a PCIe link keeps its width when idle."
                       : "Reseat the GPU or its riser and look at the slot's BIOS setting; a PCIe "
                         "link keeps its width when idle.",
                   "PCIe x%lld of x%lld", (long long)g->pcie_width.v,
                   (long long)g->pcie_width_max.v);
    else
        check_pass(o, "PCIe x%lld", (long long)g->pcie_width.v);
}

static bool gpu_is_busy(const struct hw_gpu *g)
{
    return g->clock_sm_mhz.known && g->clock_sm_max_mhz.known &&
           g->clock_sm_mhz.v * 100 >= g->clock_sm_max_mhz.v * GPU_BUSY_CLOCK_PERCENT;
}

static void gpu_pcie_speed(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    if (!g->pcie_gen.known || !g->pcie_gen_max.known)
        check_unknown(o, NULL, "the driver does not tell the PCIe generation");
    else if (g->pcie_gen.v >= g->pcie_gen_max.v)
        check_pass(o, "PCIe gen %lld", (long long)g->pcie_gen.v);
    else if (gpu_is_busy(g))
        check_warn(
            o,
            facts_is_arm(hw)
                ? "Look for PCIe errors in `dmesg` (AER); reseat the card or, on a module, "
                  "have it exchanged."
                : "Reseat the GPU or its riser; look for PCIe errors in `dmesg` (AER) and at "
                  "the slot's BIOS setting.",
            "PCIe gen %lld of %lld at high clocks", (long long)g->pcie_gen.v,
            (long long)g->pcie_gen_max.v);
    else
        check_unknown(o, "Look again while the GPU works.",
                      "PCIe gen %lld of %lld now; some GPUs lower it at idle",
                      (long long)g->pcie_gen.v, (long long)g->pcie_gen_max.v);
}

static void gpu_power_limit(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    (void)hw;
    if (!g->power_limit_mw.known || !g->power_default_mw.known)
        check_unknown(o, NULL, "the driver does not tell the power limit");
    else if (g->power_limit_mw.v < g->power_default_mw.v)
        check_warn(o,
                   check_text(o, "Nothing to do if the cap is meant; else `nvidia-smi -pl %lld`.",
                              (long long)(g->power_default_mw.v / 1000)),
                   "capped at %lld W, the default is %lld W",
                   (long long)(g->power_limit_mw.v / 1000),
                   (long long)(g->power_default_mw.v / 1000));
    else
        check_pass(o, "%lld W, the default%s", (long long)(g->power_limit_mw.v / 1000),
                   g->power_limit_mw.v > g->power_default_mw.v ? " or more" : "");
}

/* The same text for every GPU that is cool enough, so that they share a row. */
static long long hottest_c(const struct hw *hw)
{
    int64_t t = INT64_MIN;

    for (size_t i = 0; i < hw->gpus_count; i++)
        if (facts_gpu_ok(&hw->gpus[i]) && maybe_or(hw->gpus[i].temp_c, t) > t)
            t = hw->gpus[i].temp_c.v;
    return (long long)t;
}

static void gpu_temperature(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    static const char cool[] =
        "Look at fans, air filters and the inlet temperature, and at the neighbours' load.";
    long long t = (long long)g->temp_c.v, slow = (long long)g->temp_slowdown_c.v;

    if (!g->temp_c.known)
        check_unknown(o, NULL, "the driver does not tell the temperature");
    else if (g->temp_slowdown_c.known && t >= slow)
        check_fail(o, cool, "%lld °C, it slows down at %lld °C", t, slow);
    else if (g->temp_margin_c.known && g->temp_margin_c.v <= 0)
        check_fail(o, cool, "%lld °C, past its thermal limit", t);
    else if (t >= GPU_TEMP_WARN_C || (g->temp_slowdown_c.known && slow - t < GPU_TEMP_MARGIN_C))
        check_warn(o, cool, "%lld °C, below %d °C is wanted", t, GPU_TEMP_WARN_C);
    else if (g->temp_margin_c.known && g->temp_margin_c.v < GPU_TEMP_MARGIN_C)
        check_warn(o, cool, "%lld °C, %lld °C from its thermal limit", t,
                   (long long)g->temp_margin_c.v);
    else
        check_pass(o, "at most %lld °C, below %d °C is wanted", hottest_c(hw), GPU_TEMP_WARN_C);
}

static void gpu_compute_mode(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    (void)hw;
    if (!g->compute_mode)
        check_unknown(o, NULL, "the driver does not tell the compute mode");
    else if (str_eq(g->compute_mode, "default"))
        check_pass(o, "compute mode default");
    else if (str_eq(g->compute_mode, "prohibited"))
        check_fail(o, "Run `nvidia-smi -c DEFAULT`.", "compute mode prohibited: CUDA is refused");
    else
        check_warn(o,
                   "Run `nvidia-smi -c DEFAULT`, unless MPS is meant to be the only user of the "
                   "GPU.",
                   "compute mode %s: a second process is refused", g->compute_mode);
}

static void gpu_numa(const struct hw *hw, const struct hw_gpu *g, struct check_out *o)
{
    if (hw->numa_count == 1)
        check_pass(o, "the machine has one NUMA node");
    else if (g->numa.known)
        check_pass(o, "NUMA node known");
    else if (hw->numa_count == 0)
        check_unknown(o, NULL, "the NUMA nodes of the machine could not be read");
    else
        check_warn(
            o,
            facts_is_arm(hw)
                ? "Update the firmware, whose tables tell the node, or give the virtual "
                  "machine a vNUMA topology: processes cannot be bound near the GPU without "
                  "it."
                : "Switch NUMA reporting on in the BIOS, or give the virtual machine a vNUMA "
                  "topology: processes cannot be bound near the GPU without it.",
            "the kernel does not know its NUMA node");
}

/* ---- kernel ---- */
static void gpu_module(const struct hw *hw, struct check_out *o)
{
    const char *k = hw->nvidia.kernel_module;
    bool blackwell = false;

    for (size_t i = 0; i < hw->gpus_count; i++)
        blackwell = blackwell || str_eq(hw->gpus[i].arch, "Blackwell");
    if (!k && !hw->nvidia.driver_version)
        check_skip(o, "no driver loaded");
    else if (!k)
        check_unknown(o, NULL, "which kind of kernel module is loaded could not be read");
    else if (str_eq(k, "proprietary") && blackwell)
        check_fail(o, "Install the driver's open kernel modules.",
                   "proprietary kernel module, Blackwell needs the open one");
    else if (str_eq(k, "proprietary"))
        check_pass(o, "proprietary; GPUDirect by dma-buf would need the open one");
    else
        check_pass(o, "%s", k);
}

static void gpu_iommu(const struct hw *hw, struct check_out *o)
{
    const struct hw_limits *l = &hw->limits;

    if (hw->place.hypervisor)
        check_skip(o, "the host of this virtual machine decides");
    else if (!l->iommu.known)
        check_unknown(o, NULL, "sysfs does not tell");
    else if (!l->iommu.v)
        check_pass(o, "off");
    else if (str_eq(l->iommu_mode, "passthrough"))
        check_pass(o, "on, passing addresses through");
    else if (str_eq(l->iommu_mode, "translated"))
        check_warn(
            o,
            facts_is_arm(hw) ? "Put iommu.passthrough=1 on the kernel command line and "
                               "reboot; leave the SMMU itself on."
                             : "Put iommu=pt on the kernel command line, or switch the "
                               "IOMMU off in the BIOS, and reboot.",
            "on and translating: traffic between devices goes through the root complex, also "
            "where one switch is above them and ACS is off");
    else
        check_unknown(o, "Look for the IOMMU's default domain type in `dmesg`.",
                      "on, its mode could not be read");
}

static const struct health_check rows[] = {
    HEALTH_CHECK(
        "gpu.present", CHECK_GPU | CHECK_TRAINING, "GPUs", .fn = gpu_present,
        "The machine has NVIDIA GPUs on its PCI bus, whether or not the driver shows them."),
    HEALTH_CHECK(
        "gpu.driver", CHECK_GPU | CHECK_TRAINING, "driver answers", .fn = gpu_driver,
        "The kernel module is loaded and the management library (NVML) answers. A call that "
        "does not return is named with the process that made it and where it sleeps."),
    HEALTH_CHECK("gpu.driver-version", CHECK_GPU | CHECK_TRAINING, "driver version",
                 .fn = gpu_driver_version,
                 "Driver 535 or newer, as the deployment checklist wants."),
    HEALTH_CHECK("gpu.cuda-driver", CHECK_GPU, "CUDA of the driver", .fn = gpu_cuda,
                 "The driver serves CUDA 12.0 or newer, as the deployment checklist wants."),
    HEALTH_CHECK(
        "gpu.visible", CHECK_GPU | CHECK_TRAINING | CHECK_CONTAINER, "GPUs visible",
        .fn = gpu_visible,
        "Every GPU of the PCI bus answers the driver. A lost GPU vanishes from the driver's "
        "list, so only the comparison with the bus shows it. In a container or a job, GPUs "
        "that were given to others are no fault; none at all is, and one that a container "
        "was given (NVIDIA_VISIBLE_DEVICES and a device node say so). An init container "
        "sees no GPU of the pod's other containers."),
    HEALTH_CHECK("gpu.errors", CHECK_GPU, "driver calls", .gpu = gpu_errors,
                 "No call about the GPU ended with an error other than \"not supported\" or \"no "
                 "permission\". A corrupted infoROM shows here alone."),
    HEALTH_CHECK("gpu.ecc", CHECK_GPU, "ECC", .gpu = gpu_ecc,
                 "Error correction of GPU memory is on and no change of it waits for a reset."),
    HEALTH_CHECK(
        "gpu.ecc-errors", CHECK_GPU, "memory errors", .gpu = gpu_ecc_errors,
        "No uncorrectable (double-bit) memory error since the driver was loaded. The count "
        "over the GPU's life is shown, not judged."),
    HEALTH_CHECK("gpu.remap", CHECK_GPU, "row remapping", .gpu = gpu_remap,
                 "No remapping of bad memory rows waits for a reset, and none failed (a failed one "
                 "means replacement). 512 remapped rows or more warn, as in DCGM."),
    HEALTH_CHECK("gpu.recovery", CHECK_GPU, "recovery action", .gpu = gpu_recovery,
                 "The driver asks for no reset, drain or reboot (NVML field 230, Xid 154)."),
    HEALTH_CHECK(
        "gpu.persistence", CHECK_GPU, "persistence mode", .gpu = gpu_persistence,
        "The driver keeps the GPU initialised when nobody uses it. Without, each start pays "
        "seconds, and counters of errors start again from zero."),
    HEALTH_CHECK("gpu.pcie-width", CHECK_GPU, "PCIe width", .gpu = gpu_pcie_width,
                 "The PCIe link has all its lanes. Lanes do not change at idle."),
    HEALTH_CHECK(
        "gpu.pcie-speed", CHECK_GPU, "PCIe speed", .gpu = gpu_pcie_speed,
        "The PCIe link runs at its highest generation. Many GPUs lower it at idle, so a low "
        "one warns only while the GPU's clock is high."),
    HEALTH_CHECK("gpu.power-limit", CHECK_GPU, "power limit", .gpu = gpu_power_limit,
                 "The enforced power limit is the board's default: a forgotten cap costs speed."),
    HEALTH_CHECK("gpu.temperature", CHECK_GPU, "temperature", .gpu = gpu_temperature,
                 "Below 85 °C and 5 °C away from the point where the GPU slows down."),
    HEALTH_CHECK("gpu.compute-mode", CHECK_GPU, "compute mode", .gpu = gpu_compute_mode,
                 "Compute mode is default. Exclusive refuses a second process, prohibited any."),
    HEALTH_CHECK(
        "gpu.numa", CHECK_GPU, "NUMA node", .gpu = gpu_numa,
        "The kernel knows which NUMA node the GPU hangs on, so that its process can be bound "
        "near it."),
    HEALTH_CHECK(
        "gpu.module", CHECK_GPU, "kernel module", .fn = gpu_module,
        "Which of NVIDIA's two kernel modules is loaded. Blackwell needs the open one, and so "
        "does GPUDirect by dma-buf."),
    HEALTH_CHECK(
        "gpu.iommu", CHECK_GPU | CHECK_RDMA, "IOMMU", .fn = gpu_iommu,
        "The IOMMU is off or passes addresses through (iommu=pt). When it translates, traffic "
        "between GPUs and NICs goes through the root complex and loses most of its speed."),
};

const struct check_table checks_gpu = { rows, ARRAY_SIZE(rows) };
