/* SPDX-License-Identifier: MIT */
/* kernel_limits: what the kernel grants and what stands in the way of GPUDirect.
 *
 * Peer memory and dma-buf are the two ways an RDMA card reaches GPU memory.  For the
 * first NCCL looks for one of three files, and so do we.  The second can be asked
 * for certain only of an open RDMA device; what we say of it rests on the kernel's
 * release and the driver's kind, and dmabuf_why says so. */
#include "hw/hw_int.h"

#include "base/str.h"

#include <assert.h>
#include <ctype.h>

enum {
    CMDLINE_MAX = 4096,      /* bytes of /proc/cmdline */
    NV_VERSION_MAX = 1024,   /* bytes of /proc/driver/nvidia/version */
    DMABUF_DRIVER_MIN = 515, /* first driver series with open modules and dma-buf export */
    PCI_CLASS_DISPLAY = 0x03,
    PCI_CLASS_NETWORK = 0x02,
    PCI_CLASS_BRIDGE = 0x06
};

/* -1 is "unlimited"; below that is no limit anybody set. */
static struct maybe limit_of(struct maybe v)
{
    return v.known && v.v >= -1 ? v : maybe_none();
}

static void process_limits(const struct hw_self *self, struct hw_limits *l)
{
    l->memlock_bytes = limit_of(self->memlock_bytes);
    l->memlock_hard_bytes = limit_of(self->memlock_hard_bytes);
    l->nofile = limit_of(self->nofile);
    for (size_t i = 0; i < self->filesystems_count; i++)
        if (str_eq(self->filesystems[i].target, "/dev/shm"))
            l->shm_bytes = self->filesystems[i].size_bytes;
}

/* ---- kernel command line ---- */
static bool arg_matters(const char *word)
{
    static const char *const wanted[] = {
        "iommu",
        "iommu.passthrough",
        "iommu.strict",
        "intel_iommu",
        "amd_iommu",
        "pci",
        "pcie_acs_override",
        "pcie_aspm",
        "hugepages",
        "hugepagesz",
        "default_hugepagesz",
        "transparent_hugepage",
        "numa_balancing",
        "isolcpus",
        "systemd.unified_cgroup_hierarchy",
    };
    size_t len = strcspn(word, "=");

    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        if (strlen(wanted[i]) == len && !memcmp(word, wanted[i], len))
            return true;
    return false;
}

/* "" when the line has nothing that matters; NULL when it cannot be read. */
static const char *cmdline_read(struct hw_build *b)
{
    char text[CMDLINE_MAX], out[CMDLINE_MAX] = "", *save = NULL;
    size_t len = 0;

    if (root_line(b->root, text, sizeof(text), "/proc/cmdline") < 0)
        return NULL;
    for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
        if (arg_matters(w))
            len += (size_t)snprintf(out + len, sizeof(out) - len, "%s%s", len ? " " : "", w);
    assert(len < sizeof(out)); /* never longer than what was read */
    return arena_strdup(b->a, out);
}

/* ---- IOMMU and ACS ---- */
static int pci_class(const struct hw_pci *p)
{
    return p->class_.known ? (int)((p->class_.v >> 16) & 0xff) : -1;
}

/* The group of a GPU, else of a NIC, else the first. */
static int64_t telling_group(const struct hw *hw)
{
    static const int classes[] = { PCI_CLASS_DISPLAY, PCI_CLASS_NETWORK };

    for (size_t c = 0; c < ARRAY_SIZE(classes); c++)
        for (size_t i = 0; i < hw->pci_count; i++)
            if (pci_class(&hw->pci[i]) == classes[c] && hw->pci[i].iommu_group.known)
                return hw->pci[i].iommu_group.v;
    return 0;
}

static const char *iommu_mode(struct hw_build *b, const char *cmdline)
{
    char type[ROOT_LINE_MAX];

    if (root_line(b->root, type, sizeof(type), "/sys/kernel/iommu_groups/%lld/type",
                  (long long)telling_group(b->hw)) > 0) {
        if (str_starts(type, "DMA"))
            return "translated";
        if (str_eq(type, "identity"))
            return "passthrough";
    }
    if (hw_word_in(cmdline, "iommu=pt") || hw_word_in(cmdline, "iommu.passthrough=1"))
        return "passthrough";
    return NULL;
}

static void iommu_read(struct hw_build *b, struct hw_limits *l)
{
    struct arena tmp = { 0 };
    struct root_names groups;

    if (root_list(b->root, &tmp, "/sys/kernel/iommu_groups", &groups) == 0)
        l->iommu = maybe_of(groups.count > 0);
    else if (root_exists(b->root, "/sys/kernel"))
        l->iommu = maybe_of(0);
    arena_release(&tmp);
    if (maybe_is(l->iommu, 1))
        l->iommu_mode = iommu_mode(b, l->cmdline);
}

/* Unknown when no bridge let its configuration be read. */
static struct maybe acs_bridges(const struct hw *hw)
{
    struct maybe count = maybe_none();

    for (size_t i = 0; i < hw->pci_count; i++)
        if (pci_class(&hw->pci[i]) == PCI_CLASS_BRIDGE && hw->pci[i].acs.known)
            count = maybe_of(count.v + maybe_is(hw->pci[i].acs, 1));
    return count;
}

/* ---- GPUDirect ---- */
static void peermem_read(struct hw_build *b, struct hw_limits *l)
{
    static const struct {
        const char *file, *module;
    } places[] = {
        { "/sys/module/nvidia_peermem/version", "nvidia_peermem" },
        { "/sys/kernel/mm/memory_peers/nv_mem/version", "nv_peer_mem" },
        { "/sys/kernel/mm/memory_peers/nv_mem_nc/version", "nv_peer_mem" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        if (root_exists(b->root, "%s", places[i].file)) {
            l->peermem = places[i].module;
            l->peermem_version = root_str(b->root, b->a, "%s", places[i].file);
            return;
        }
}

/* The first word such as "535.104.05", in the arena. */
static const char *version_in(struct arena *a, const char *text)
{
    for (const char *p = text; *p;) {
        size_t word, digits;

        p += strspn(p, " \t");
        word = strcspn(p, " \t");
        digits = strspn(p, "0123456789.");
        if (digits == word && isdigit((unsigned char)*p) && memchr(p, '.', word))
            return arena_strndup(a, p, word);
        p += word;
    }
    return NULL;
}

/* "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release …" */
static void driver_read(struct hw_build *b, struct hw_nvidia *nv)
{
    char text[NV_VERSION_MAX];

    if (root_read(b->root, "/proc/driver/nvidia/version", text, sizeof(text)) <= 0)
        return;
    str_make_text(text);
    text[strcspn(text, "\n")] = '\0';
    nv->kernel_module = strstr(text, "Open Kernel Module") ? "open" : "proprietary";
    if (!nv->driver_version)
        nv->driver_version = version_in(b->a, text);
}

/* -1 when the release is not a number. */
static int kernel_at_least(const char *release, unsigned major, unsigned minor)
{
    unsigned have_major, have_minor;

    if (!release || sscanf(release, "%3u.%5u", &have_major, &have_minor) != 2)
        return -1;
    return have_major > major || (have_major == major && have_minor >= minor);
}

static void dmabuf_judge(struct hw_build *b, struct hw_limits *l)
{
    const struct hw_nvidia *nv = &b->hw->nvidia;
    const char *kernel = b->self.kernel;
    int new_enough = kernel_at_least(kernel, 5, 12);
    unsigned series = 0;

    if (new_enough < 0) {
        l->dmabuf_why = "the kernel's release is unknown";
    } else if (!new_enough) {
        l->dmabuf = maybe_of(0);
        l->dmabuf_why = arena_printf(b->a, "kernel %s is older than 5.12", kernel);
    } else if (!nv->kernel_module) {
        l->dmabuf_why = "no NVIDIA kernel module is loaded";
    } else if (!str_eq(nv->kernel_module, "open")) {
        l->dmabuf = maybe_of(0);
        l->dmabuf_why = "the proprietary kernel module exports no dma-buf";
    } else if (!nv->driver_version || sscanf(nv->driver_version, "%5u", &series) != 1) {
        l->dmabuf_why = "the driver's version is unknown";
    } else if (series < DMABUF_DRIVER_MIN) {
        l->dmabuf = maybe_of(0);
        l->dmabuf_why =
            arena_printf(b->a, "driver %s is older than %d", nv->driver_version, DMABUF_DRIVER_MIN);
    } else {
        l->dmabuf = maybe_of(1);
        l->dmabuf_why = arena_printf(b->a,
                                     "kernel %s and open driver %s; whether the RDMA driver "
                                     "takes part shows only when the device is opened",
                                     kernel, nv->driver_version);
    }
}

static struct maybe uverbs_count(struct root *r)
{
    struct arena tmp = { 0 };
    struct root_names names;
    struct maybe count = maybe_none();

    if (root_list(r, &tmp, "/dev/infiniband", &names) == 0) {
        count = maybe_of(0);
        for (size_t i = 0; i < names.count; i++)
            count.v += str_starts(names.items[i], "uverbs");
    } else if (root_exists(r, "/dev")) {
        count = maybe_of(0);
    }
    arena_release(&tmp);
    return count;
}

void hw_src_limits(struct hw_build *b)
{
    struct hw_limits *l = &b->hw->limits;
    struct maybe balancing = root_int(b->root, "/proc/sys/kernel/numa_balancing");

    process_limits(&b->self, l);
    l->cmdline = cmdline_read(b);
    iommu_read(b, l);
    l->acs_bridges = acs_bridges(b->hw);
    peermem_read(b, l);
    driver_read(b, &b->hw->nvidia);
    dmabuf_judge(b, l);
    l->uverbs = uverbs_count(b->root);
    if (balancing.known)
        l->numa_balancing = maybe_of(balancing.v != 0);
}
