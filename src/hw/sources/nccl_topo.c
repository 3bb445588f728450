/* SPDX-License-Identifier: MIT */
/* nccl_topo: the topology file that NCCL reads in place of sysfs: NCCL_TOPO_FILE, else the
 * one NVIDIA's topology daemon leaves.
 *
 * Its tree holds for every function it names.  A GPU's NVLinks are the file's where the file
 * lists any of it, else the driver's; a link whose other end is no device of this machine
 * leads to an NVSwitch (graph/xml.cc, ncclTopoGetXmlFromGpu).  Kept are the distances by it,
 * between GPUs and between GPUs and NICs, where it names both; all others are sysfs's. */
#include "hw/hw_int.h"

#include "base/mem.h"
#include "base/str.h"
#include "hw/topo_xml.h"

#include <strings.h>

enum {
    CONF_TOPO_MAX = 1 << 20, /* bytes read of a topology file */
    CONF_PAIRS_MAX = 4096,   /* distances kept */
    CONF_DEPTH_MAX = 32      /* switches above one function */
};

#define TOPO_CLOSED       "it cannot be opened: "
#define TOPO_EMPTY        "it is empty"
#define CONF_TOPO_DEFAULT "/var/run/nvidia-topologyd/virtualTopology.xml"

static int pci_node(const struct topo_xml *t, const char *bdf)
{
    for (size_t i = 0; bdf && i < t->count; i++) {
        const char *id =
            str_eq(t->nodes[i].name, "pci") ? topo_xml_get(&t->nodes[i], "busid") : NULL;

        if (id && !strcasecmp(id, bdf))
            return (int)i;
    }
    return -1;
}

static bool leads_to_switch(const struct hw *hw, const struct topo_xml_node *n)
{
    const char *class = topo_xml_get(n, "tclass"), *target = topo_xml_get(n, "target");
    const struct hw_pci *p;

    if (class)
        return str_starts(class, "0x0680");
    p = target ? hw_find_pci(hw, target) : NULL;
    return !p || (p->class_.known && p->class_.v >> 8 == 0x0680);
}

struct file_links {
    int64_t direct, switched;
    bool listed; /* the file has links of this GPU */
};

/* Those of the GPU at `pci` to the one at `bdf`. */
static struct file_links links_of(const struct hw *hw, const struct topo_xml *t, int pci,
                                  const char *bdf)
{
    struct file_links l = { 0 };

    for (int i = pci + 1; i < (int)t->count; i++) {
        const struct topo_xml_node *n = &t->nodes[i];
        const char *target = topo_xml_get(n, "target");
        int64_t count = maybe_or(topo_xml_int(n, "count"), 1);

        if (!str_eq(n->name, "nvlink") || n->parent < 0 || t->nodes[n->parent].parent != pci)
            continue;
        l.listed = true;
        if (target && !strcasecmp(target, bdf))
            l.direct += count;
        else if (leads_to_switch(hw, n))
            l.switched += count;
    }
    return l;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static const char *gpus_path(struct hw_build *b, const struct topo_xml *t, size_t one, size_t two)
{
    const struct hw_gpu *g = &b->hw->gpus[one], *h = &b->hw->gpus[two];
    int at = pci_node(t, g->bdf), to = pci_node(t, h->bdf);
    struct file_links out = links_of(b->hw, t, at, h->bdf), back = links_of(b->hw, t, to, g->bdf);
    int64_t links;

    if (!out.listed)
        out.direct = hw_gpu_links(g, h, &out.switched);
    if (!back.listed)
        back.direct = hw_gpu_links(h, g, &back.switched);
    links = least_of(out.direct, back.direct);
    if (links <= 0)
        links = least_of(out.switched, back.switched);
    return links > 0 ? arena_printf(b->a, "NV%lld", (long long)links) : topo_xml_path(t, at, to);
}

/* The element of an adapter that the file lists by its name; NCCL asks for no address then. */
static int net_node(const struct topo_xml *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (str_eq(t->nodes[i].name, "net") && str_eq(topo_xml_get(&t->nodes[i], "name"), name))
            return (int)i;
    return -1;
}

/* NCCL hangs a function on a processor: that of this NUMA node, where -1 is one of its own, which
 * the file may lack, or the file's first. */
static const char *path_by_cpu(const struct topo_xml *t, int gpu, const struct maybe *numa)
{
    int cpu = topo_xml_above(t, gpu, "cpu"), first = -1;

    for (size_t i = 0; first < 0 && i < t->count; i++)
        if (str_eq(t->nodes[i].name, "cpu"))
            first = (int)i;
    if (cpu < 0)
        return NULL;
    if (!numa)
        return cpu == first ? "PHB" : "SYS";
    return maybe_is(topo_xml_int(&t->nodes[cpu], "numaid"), maybe_or(*numa, -1)) ? "PHB" : "SYS";
}

/* From a GPU that the file names to the function that NCCL takes a NIC for.  One that the file
 * does not name is where sysfs has it, two bridges at a time up to one that the file names
 * or to a processor; one that is not there at all is at the first processor (graph/xml.cc,
 * ncclTopoFillNet, ncclTopoGetXmlFromSys). */
static const char *nic_path(struct hw_build *b, const struct topo_xml *t, int gpu, const char *bdf)
{
    const struct hw *hw = b->hw;
    const struct hw_pci *p = bdf ? hw_find_pci(hw, bdf) : NULL;
    int at = pci_node(t, bdf);

    if (at >= 0)
        return topo_xml_path(t, gpu, at);
    for (int depth = 0; p && depth < CONF_DEPTH_MAX; depth++) {
        const struct hw_pci *port = p->parent ? hw_find_pci(hw, p->parent) : NULL;
        const struct hw_pci *above = port && port->parent ? hw_find_pci(hw, port->parent) : NULL;
        const char *path;

        if (!above) {
            struct maybe numa = root_int(b->root, "/sys/bus/pci/devices/%s/numa_node", p->bdf);

            return path_by_cpu(t, gpu, &numa);
        }
        at = pci_node(t, above->bdf);
        path = at >= 0 ? topo_xml_path_below(t, gpu, at) : NULL;
        if (path)
            return depth && str_eq(path, "PIX") ? "PXB" : path;
        p = above;
    }
    return path_by_cpu(t, gpu, NULL);
}

/* The address with zeros for its function, or for device and function, as NCCL joins functions
 * (net_ib, ncclIbGetPciPath). */
static const char *bdf_joined(struct hw_build *b, const char *bdf, bool device)
{
    size_t len = bdf ? strlen(bdf) : 0;

    if (len < 7) /* "…00:00.0" */
        return bdf;
    return device ? arena_printf(b->a, "%.*s00.0", (int)(len - 4), bdf)
                  : arena_printf(b->a, "%.*s0", (int)(len - 1), bdf);
}

static struct hw_nccl_way nic_way(struct hw_build *b, const struct topo_xml *t, int gpu,
                                  const struct hw_rdma *r)
{
    int net = net_node(t, r->name);
    const char *path = net >= 0 ? topo_xml_path(t, gpu, net) : NULL;

    const char *function = bdf_joined(b, r->bdf, false), *bus = bdf_joined(b, r->bdf, true);

    if (path)
        return (struct hw_nccl_way){
            .path = path, .path_function = path, .path_bus = path, .named = maybe_of(1)
        };
    return (struct hw_nccl_way){
        .path = nic_path(b, t, gpu, r->bdf),
        .path_function = nic_path(b, t, gpu, function),
        .path_bus = nic_path(b, t, gpu, bus),
        .named = maybe_of(pci_node(t, r->bdf) >= 0 || pci_node(t, function) >= 0 ||
                          pci_node(t, bus) >= 0),
    };
}

static void way_add(struct hw_nccl *n, struct hw_nccl_way way)
{
    if (n->topo_count < CONF_PAIRS_MAX)
        n->topo[n->topo_count++] = way;
}

static void topo_ways(struct hw_build *b, const struct topo_xml *t)
{
    struct hw_nccl *n = &b->hw->nccl;

    n->topo = arena_array(b->a, struct hw_nccl_way, CONF_PAIRS_MAX);
    for (size_t g = 0; g < b->hw->gpus_count; g++) {
        int gpu = pci_node(t, b->hw->gpus[g].bdf);

        for (size_t r = 0; gpu >= 0 && r < b->hw->rdma_count; r++) {
            struct hw_nccl_way way = nic_way(b, t, gpu, &b->hw->rdma[r]);

            way.gpu = maybe_of((int64_t)g);
            way.nic = b->hw->rdma[r].name;
            way_add(n, way);
        }
        for (size_t h = g + 1; gpu >= 0 && h < b->hw->gpus_count; h++)
            if (pci_node(t, b->hw->gpus[h].bdf) >= 0)
                way_add(n, (struct hw_nccl_way){ .gpu = maybe_of((int64_t)g),
                                                 .peer = maybe_of((int64_t)h),
                                                 .path = gpus_path(b, t, g, h) });
    }
}

/* What makes NCCL refuse the file and end the job; NULL: nothing. */
static const char *topo_refused(struct hw_build *b, const struct topo_xml *t)
{
    const struct topo_xml_node *top = t->count ? &t->nodes[0] : NULL;
    const char *version = top ? topo_xml_get(top, "version") : NULL;

    if (!top || !str_eq(top->name, "system") || maybe_is(topo_xml_int(top, "version"), 1))
        return NULL;
    return arena_printf(b->a,
                        "its version is %s, NCCL reads 1 alone: every job stops with an error",
                        version ? version : "missing");
}

static void topo_read(struct hw_build *b, const char *path)
{
    struct hw_nccl *n = &b->hw->nccl;
    struct arena tmp = { 0 };
    struct topo_xml t = { 0 };
    struct err err = { 0 };
    char *text = xmalloc(CONF_TOPO_MAX + 1);
    ssize_t len = root_read(b->root, path, text, CONF_TOPO_MAX + 1);

    n->topo_file = arena_strdup(b->a, path);
    if (len < 0)
        n->topo_error = arena_printf(b->a, TOPO_CLOSED "%s", strerror((int)-len));
    else if (len == CONF_TOPO_MAX)
        n->topo_error = "it is too long";
    else if (strspn(text, " \n\r") == (size_t)len)
        n->topo_error = TOPO_EMPTY;
    else if (topo_xml_refused(b->a, text, (size_t)len))
        n->topo_error = topo_xml_refused(b->a, text, (size_t)len);
    else if (topo_xml_parse(&tmp, text, (size_t)len, &t, &err))
        n->topo_error = arena_strdup(b->a, err.msg);
    else if (topo_refused(b, &t))
        n->topo_error = topo_refused(b, &t);
    else
        topo_ways(b, &t);
    arena_release(&tmp);
    free(text);
}

/* A capture holds the files that were named when it was made: one that is named now and is not
 * in it may be on the machine all the same. */
static bool topo_out_of_reach(const struct hw_build *b, const char *path)
{
    bool named = false;

    for (size_t i = 0; i < b->opts->env_count; i++)
        named = named || str_eq(b->opts->env[i].name, "NCCL_TOPO_FILE");
    return named && !root_is_live(b->root) && !root_exists(b->root, "%s", path);
}

void hw_nccl_topo_find(struct hw_build *b)
{
    const char *user = hw_env_get(b->hw, "NCCL_TOPO_FILE");

    if (user && *user && !topo_out_of_reach(b, user))
        topo_read(b, user);
    else if (user && *user)
        return;
    else if (root_exists(b->root, CONF_TOPO_DEFAULT))
        topo_read(b, CONF_TOPO_DEFAULT);
}

/* ---- the distances it gives ---- */

/* It was read, and is still the one that counts. */
static bool topo_is_read(const struct hw *hw)
{
    const char *user = hw_env_get(hw, "NCCL_TOPO_FILE");

    return hw->nccl.topo_file && !hw->nccl.topo_error &&
           (!user || !*user || str_eq(user, hw->nccl.topo_file));
}

bool hw_nccl_topo_used(const struct hw *hw)
{
    return topo_is_read(hw) && hw->nccl.topo_count > 0;
}

bool hw_nccl_topo_foreign(const struct hw *hw)
{
    return topo_is_read(hw) && !hw->nccl.topo_count && hw->gpus_count &&
           hw->gpus_count + hw->rdma_count > 1;
}

bool hw_nccl_topo_refused(const struct hw *hw)
{
    return hw->nccl.topo_file && hw->nccl.topo_error &&
           str_ends(hw->nccl.topo_error, "every job stops with an error");
}

bool hw_nccl_topo_missing(const struct hw *hw)
{
    const char *user = hw_env_get(hw, "NCCL_TOPO_FILE");

    return (!user || !*user || str_eq(user, hw->nccl.topo_file)) && hw->nccl.topo_error &&
           (str_starts(hw->nccl.topo_error, TOPO_CLOSED) ||
            str_eq(hw->nccl.topo_error, TOPO_EMPTY));
}

bool hw_nccl_topo_unread(const struct hw *hw)
{
    const char *user = hw_env_get(hw, "NCCL_TOPO_FILE");

    return user && *user && !topo_is_read(hw) && !hw_nccl_topo_missing(hw);
}

bool hw_nccl_topo_unheld(const struct hw *hw)
{
    const char *user = hw_env_get(hw, "NCCL_TOPO_FILE");

    return user && *user && !str_eq(user, hw->nccl.topo_file);
}

const struct hw_nccl_way *hw_nccl_way_nic(const struct hw *hw, size_t gpu, const char *nic)
{
    for (size_t i = 0; hw_nccl_topo_used(hw) && nic && i < hw->nccl.topo_count; i++)
        if (maybe_is(hw->nccl.topo[i].gpu, (int64_t)gpu) && str_eq(hw->nccl.topo[i].nic, nic))
            return &hw->nccl.topo[i];
    return NULL;
}

const struct hw_nccl_way *hw_nccl_way_gpu(const struct hw *hw, size_t a, size_t b)
{
    int64_t low = (int64_t)(a < b ? a : b), high = (int64_t)(a < b ? b : a);

    for (size_t i = 0; hw_nccl_topo_used(hw) && i < hw->nccl.topo_count; i++)
        if (maybe_is(hw->nccl.topo[i].gpu, low) && maybe_is(hw->nccl.topo[i].peer, high))
            return &hw->nccl.topo[i];
    return NULL;
}
