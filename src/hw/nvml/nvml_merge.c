/* SPDX-License-Identifier: MIT */
/* nvml_merge: one list of GPUs out of what the driver tells and what PCI knows.
 *
 * The driver leaves out a GPU that fell off the bus, one that a container may not
 * see, and all of them when it is not loaded; sysfs still shows them.  Every GPU on
 * the bus ends up in the inventory with a state that says why it cannot be used.
 *
 * hw.gpus is in order of PCI address, which is the driver's order too on every
 * machine seen; pairs are turned from driver numbers into positions there. */
#include "hw/nvml/nvml_int.h"

#include "base/str.h"

#include <assert.h>

enum {
    PCI_VENDOR_NVIDIA = 0x10de,
    PCI_CLASS_VGA = 0x0300,
    PCI_CLASS_3D = 0x0302,
    NV_INFORMATION_MAX = 1024 /* bytes of /proc/driver/nvidia/gpus/BDF/information */
};

/* Names for GPUs that only PCI shows: those a training machine is likely to have. */
static const struct {
    int device;
    const char *name;
    const char *arch;
} known_ids[] = {
    { 0x1db1, "Tesla V100-SXM2-16GB", "Volta" },
    { 0x1db5, "Tesla V100-SXM2-32GB", "Volta" },
    { 0x1eb8, "Tesla T4", "Turing" },
    { 0x20b0, "NVIDIA A100-SXM4-40GB", "Ampere" },
    { 0x20b2, "NVIDIA A100-SXM4-80GB", "Ampere" },
    { 0x20b5, "NVIDIA A100 80GB PCIe", "Ampere" },
    { 0x20f1, "NVIDIA A100-PCIE-40GB", "Ampere" },
    { 0x2236, "NVIDIA A10", "Ampere" },
    { 0x2321, "NVIDIA H100 NVL", "Hopper" },
    { 0x2330, "NVIDIA H100 80GB HBM3", "Hopper" },
    { 0x2331, "NVIDIA H100 PCIe", "Hopper" },
    { 0x2335, "NVIDIA H200", "Hopper" },
    { 0x233b, "NVIDIA H200 NVL", "Hopper" },
    { 0x2342, "NVIDIA GH200", "Hopper" },
    { 0x2684, "NVIDIA GeForce RTX 4090", "Ada" },
    { 0x26b5, "NVIDIA L40", "Ada" },
    { 0x26b9, "NVIDIA L40S", "Ada" },
    { 0x27b8, "NVIDIA L4", "Ada" },
    { 0x2901, "NVIDIA B200", "Blackwell" },
    { 0x2941, "NVIDIA GB200", "Blackwell" },
    { 0x2b85, "NVIDIA GeForce RTX 5090", "Blackwell" },
    { 0x3182, "NVIDIA B300", "Blackwell" },
};

struct merge {
    struct hw_build *b;
    const struct hw_nvidia *nvidia; /* what the driver said of itself */
    struct hw_gpu gpus[NVML_GPUS_MAX];
    size_t count;
    const struct hw_pci *bus[NVML_GPUS_MAX]; /* GPUs that PCI shows */
    bool claimed[NVML_GPUS_MAX];             /* bus[i] is one of gpus[] */
    size_t bus_count;
    size_t told;     /* GPUs that the driver told of */
    bool restricted; /* GPUs may be kept from us on purpose */
};

/* ---- what PCI shows ---- */
static bool is_gpu(const struct hw_pci *p)
{
    int64_t class_ = maybe_or(p->class_, 0) >> 8;

    return maybe_is(p->vendor, PCI_VENDOR_NVIDIA) && p->bdf && !p->physfn &&
           (class_ == PCI_CLASS_VGA || class_ == PCI_CLASS_3D);
}

static void list_bus(struct merge *m)
{
    const struct hw *hw = m->b->hw;

    for (size_t i = 0; i < hw->pci_count && m->bus_count < NVML_GPUS_MAX; i++)
        if (is_gpu(&hw->pci[i]))
            m->bus[m->bus_count++] = &hw->pci[i];
}

static bool has_driver(const struct hw_pci *p)
{
    return str_eq(p->driver, "nvidia");
}

/* Device nodes "/dev/nvidia0", "/dev/nvidia1" … that this place has. */
static size_t count_nodes(struct hw_build *b)
{
    struct root_names names = { 0 };
    size_t n = 0;
    uint64_t minor;

    if (root_list(b->root, b->a, "/dev", &names) != 0)
        return 0;
    for (size_t i = 0; i < names.count; i++)
        if (str_starts(names.items[i], "nvidia") && str_to_u64(names.items[i] + 6, 10, &minor))
            n++;
    return n;
}

static bool find_restricted(const struct merge *m)
{
    const struct hw_place *place = &m->b->hw->place;
    size_t bound = 0;

    for (size_t i = 0; i < m->bus_count; i++)
        bound += has_driver(m->bus[i]);
    return place->container || place->slurm_job || count_nodes(m->b) < bound;
}

/* ---- what the driver told ---- */
static void take_driver_gpus(struct merge *m, const struct hw_nvml *n)
{
    for (size_t i = 0; i < n->gpus_count && m->count < NVML_GPUS_MAX; i++) {
        struct hw_gpu *g = &m->gpus[m->count++];
        char bdf[NVML_BDF_MAX];

        *g = n->gpus[i];
        /* from outside, and about to be part of a path */
        g->bdf = g->bdf && nvml_bdf(g->bdf, bdf) ? arena_strdup(m->b->a, bdf) : NULL;
        if (!g->state)
            g->state = "ok";
    }
    if (n->gpus_count > NVML_GPUS_MAX)
        hw_note_add(m->b, "nvml", "%zu GPUs told, %d kept", n->gpus_count, NVML_GPUS_MAX);
    m->told = m->count;
}

static void gpu_claim(struct merge *m, struct hw_gpu *g, size_t at)
{
    assert(!m->claimed[at]);
    m->claimed[at] = true;
    g->bdf = m->bus[at]->bdf;
}

static void claim_known(struct merge *m)
{
    for (size_t i = 0; i < m->count; i++)
        for (size_t j = 0; m->gpus[i].bdf && j < m->bus_count; j++)
            if (!m->claimed[j] && str_eq(m->gpus[i].bdf, m->bus[j]->bdf))
                gpu_claim(m, &m->gpus[i], j);
}

/* A GPU that could not be opened did not tell its address.  The driver numbers GPUs
 * in order of address, so when as many functions are left over as GPUs, they match
 * in order; of more functions, those that are dead on the bus are the lost ones. */
static void claim_rest(struct merge *m, bool dead_only)
{
    size_t left[NVML_GPUS_MAX], left_count = 0, gpus = 0, next = 0;

    for (size_t j = 0; j < m->bus_count; j++)
        if (!m->claimed[j] && has_driver(m->bus[j]) &&
            (!dead_only || maybe_is(m->bus[j]->alive, 0)))
            left[left_count++] = j;
    for (size_t i = 0; i < m->count; i++)
        gpus += !m->gpus[i].bdf;
    for (size_t i = 0; gpus > 0 && gpus == left_count && i < m->count; i++)
        if (!m->gpus[i].bdf)
            gpu_claim(m, &m->gpus[i], left[next++]);
}

/* ---- GPUs that the driver did not tell ---- */
/* The device node of this GPU is in /dev: its number is the driver's minor. */
static bool node_is_here(struct hw_build *b, const struct hw_pci *p)
{
    static const char label[] = "Device Minor:";
    char path[ROOT_PATH_MAX], text[NV_INFORMATION_MAX];
    const char *at = NULL;

    (void)snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", p->bdf);
    if (root_read(b->root, path, text, sizeof(text)) > 0)
        at = strstr(text, label);
    return at && root_exists(b->root, "/dev/nvidia%ld", strtol(at + sizeof(label) - 1, NULL, 10));
}

/* A container runtime gives the nodes of the GPUs that were asked for, and of no others: the GPU
 * is ours when its node is here and the driver tells of fewer than were asked for.  A job's
 * control group leaves all nodes where they are, and who has the host's /dev may open few of
 * them: of several that the driver does not tell nothing follows. */
static bool was_given(const struct merge *m, const struct hw_pci *p)
{
    const struct hw_place *place = &m->b->hw->place;
    const char *list = hw_env_get(m->b->hw, "NVIDIA_VISIBLE_DEVICES");
    size_t asked = 1, here = 0;

    if (!place->container || place->slurm_job || str_eq(place->container, "apptainer") || !list ||
        !*list || str_eq(list, "void") || str_eq(list, "none") || *list == '/')
        return false;
    for (const char *c = list; *c; c++)
        asked += *c == ',';
    for (size_t j = 0; j < m->bus_count; j++)
        here += !m->claimed[j] && has_driver(m->bus[j]) && node_is_here(m->b, m->bus[j]);
    return here == 1 && (str_eq(list, "all") || asked > m->told) && node_is_here(m->b, p);
}

static const char *silent_state(const struct merge *m, const struct hw_pci *p)
{
    const struct hw_nvidia *nv = m->nvidia;

    if (maybe_is(p->alive, 0))
        return "lost";
    if (!has_driver(p))
        return "no-driver";
    if (nv->hung_call)
        return "unanswered";
    if (!nv->nvml_library) /* nobody to ask: no library here, or none in the capture */
        return m->restricted ? "hidden" : "unanswered";
    if (nv->nvml_error)
        return "error";
    return m->restricted && !was_given(m, p) ? "hidden" : "lost";
}

static void add_silent(struct merge *m)
{
    for (size_t j = 0; j < m->bus_count && m->count < NVML_GPUS_MAX; j++)
        if (!m->claimed[j])
            m->gpus[m->count++] =
                (struct hw_gpu){ .bdf = m->bus[j]->bdf, .state = silent_state(m, m->bus[j]) };
}

/* ---- what sysfs adds to each ---- */
static void name_by_id(struct hw_gpu *g, const struct hw_pci *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(known_ids); i++) {
        if (!maybe_is(p->device, known_ids[i].device))
            continue;
        if (!g->name)
            g->name = known_ids[i].name;
        if (!g->arch)
            g->arch = known_ids[i].arch;
    }
}

static void add_place(struct merge *m, struct hw_gpu *g)
{
    const struct hw_pci *p = hw_find_pci(m->b->hw, g->bdf);

    if (!p)
        return;
    if (!g->numa.known)
        g->numa = p->numa;
    if (!g->cpus)
        g->cpus = root_str(m->b->root, m->b->a, "/sys/bus/pci/devices/%s/local_cpulist", g->bdf);
    if (!hw_cpulist_count(g->cpus).known)
        g->cpus = NULL;
    if (maybe_is(p->alive, 0) && str_eq(g->state, "ok"))
        g->state = "lost"; /* the driver has not noticed yet */
    name_by_id(g, p);
}

/* ---- order ---- */
static int by_address(const void *pa, const void *pb)
{
    const struct hw_gpu *a = pa, *b = pb;
    size_t la = a->bdf ? strlen(a->bdf) : SIZE_MAX, lb = b->bdf ? strlen(b->bdf) : SIZE_MAX;
    int64_t ia = maybe_or(a->index, INT64_MAX), ib = maybe_or(b->index, INT64_MAX);
    int c;

    if (la != lb) /* a longer domain is a higher one; no address comes last */
        return la < lb ? -1 : 1;
    c = a->bdf ? strcmp(a->bdf, b->bdf) : 0;
    return c ? c : (ia > ib) - (ia < ib);
}

static struct maybe gpu_position(const struct hw *hw, struct maybe index)
{
    for (size_t i = 0; index.known && i < hw->gpus_count; i++)
        if (maybe_is(hw->gpus[i].index, index.v))
            return maybe_of((int64_t)i);
    return maybe_none();
}

static int by_positions(const void *pa, const void *pb)
{
    const struct hw_gpu_pair *a = pa, *b = pb;

    if (a->a.v != b->a.v)
        return a->a.v < b->a.v ? -1 : 1;
    return (a->b.v > b->b.v) - (a->b.v < b->b.v);
}

static void take_pairs(struct hw_build *b, const struct hw_nvml *n)
{
    size_t count = n->pairs_count < NVML_PAIRS_MAX ? n->pairs_count : NVML_PAIRS_MAX;
    struct hw_gpu_pair *pairs = arena_array(b->a, struct hw_gpu_pair, count ? count : 1);
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        struct hw_gpu_pair p = n->pairs[i];
        struct maybe x = gpu_position(b->hw, p.a), y = gpu_position(b->hw, p.b);

        if (!x.known || !y.known || x.v == y.v)
            continue;
        p.a = x.v < y.v ? x : y;
        p.b = x.v < y.v ? y : x;
        pairs[used++] = p;
    }
    qsort(pairs, used, sizeof(*pairs), by_positions);
    b->hw->gpu_pairs = pairs;
    b->hw->gpu_pairs_count = used;
}

/* ---- the driver itself ---- */
static void take_nvidia(struct hw_build *b, const struct hw_nvidia *from)
{
    struct hw_nvidia *nv = &b->hw->nvidia; /* others have filled their part of it */

    nv->driver_version = from->driver_version;
    nv->cuda_driver = from->cuda_driver;
    nv->nvml_version = from->nvml_version;
    nv->nvml_library = from->nvml_library;
    nv->nvml_error = from->nvml_error;
    nv->hung_call = from->hung_call;
    nv->hung_pid = from->hung_pid;
    nv->hung_state = from->hung_state;
    nv->hung_wchan = from->hung_wchan;
    nv->hung_syscall = from->hung_syscall;
    if (from->hung_call)
        hw_note_add(b, "nvml",
                    "driver not answering: %s has not returned; process %lld is in state %s, "
                    "sleeping in %s",
                    from->hung_call, (long long)maybe_or(from->hung_pid, 0),
                    from->hung_state ? from->hung_state : "?",
                    from->hung_wchan ? from->hung_wchan : "a place it does not tell");
}

void nvml_merge(struct hw_build *b, const struct hw_nvml *n)
{
    struct merge *m = arena_new(b->a, struct merge);

    m->b = b;
    m->nvidia = &n->nvidia;
    take_nvidia(b, &n->nvidia);
    list_bus(m);
    m->restricted = find_restricted(m);
    take_driver_gpus(m, n);
    claim_known(m);
    claim_rest(m, false);
    claim_rest(m, true);
    add_silent(m);
    for (size_t i = 0; i < m->count; i++)
        add_place(m, &m->gpus[i]);
    qsort(m->gpus, m->count, sizeof(m->gpus[0]), by_address);
    b->hw->gpus = m->gpus;
    b->hw->gpus_count = m->count;
    take_pairs(b, n);
}
