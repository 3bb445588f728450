/* SPDX-License-Identifier: MIT */
/* collect_memory: /proc/meminfo, /proc/vmstat, the NUMA nodes' meminfo and the memory
 * controllers' ECC counts (EDAC), as node_exporter has them. */
#include "telemetry/collect/collect_int.h"

#include "base/mem.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MEM_NODES_MAX = 64,       /* NUMA nodes */
    MEM_CONTROLLERS_MAX = 64, /* EDAC memory controllers */
    MEM_KIB = 1024
};

static const struct collect_key meminfo[] = {
    { "MemTotal", "node_memory_MemTotal_bytes", MEM_KIB },
    { "MemFree", "node_memory_MemFree_bytes", MEM_KIB },
    { "MemAvailable", "node_memory_MemAvailable_bytes", MEM_KIB },
    { "Buffers", "node_memory_Buffers_bytes", MEM_KIB },
    { "Cached", "node_memory_Cached_bytes", MEM_KIB },
    { "SwapCached", "node_memory_SwapCached_bytes", MEM_KIB },
    { "Active", "node_memory_Active_bytes", MEM_KIB },
    { "Inactive", "node_memory_Inactive_bytes", MEM_KIB },
    { "Active(anon)", "node_memory_Active_anon_bytes", MEM_KIB },
    { "Inactive(anon)", "node_memory_Inactive_anon_bytes", MEM_KIB },
    { "Active(file)", "node_memory_Active_file_bytes", MEM_KIB },
    { "Inactive(file)", "node_memory_Inactive_file_bytes", MEM_KIB },
    { "Unevictable", "node_memory_Unevictable_bytes", MEM_KIB },
    { "Mlocked", "node_memory_Mlocked_bytes", MEM_KIB },
    { "SwapTotal", "node_memory_SwapTotal_bytes", MEM_KIB },
    { "SwapFree", "node_memory_SwapFree_bytes", MEM_KIB },
    { "Dirty", "node_memory_Dirty_bytes", MEM_KIB },
    { "Writeback", "node_memory_Writeback_bytes", MEM_KIB },
    { "AnonPages", "node_memory_AnonPages_bytes", MEM_KIB },
    { "Mapped", "node_memory_Mapped_bytes", MEM_KIB },
    { "Shmem", "node_memory_Shmem_bytes", MEM_KIB },
    { "KReclaimable", "node_memory_KReclaimable_bytes", MEM_KIB },
    { "Slab", "node_memory_Slab_bytes", MEM_KIB },
    { "SReclaimable", "node_memory_SReclaimable_bytes", MEM_KIB },
    { "SUnreclaim", "node_memory_SUnreclaim_bytes", MEM_KIB },
    { "KernelStack", "node_memory_KernelStack_bytes", MEM_KIB },
    { "PageTables", "node_memory_PageTables_bytes", MEM_KIB },
    { "CommitLimit", "node_memory_CommitLimit_bytes", MEM_KIB },
    { "Committed_AS", "node_memory_Committed_AS_bytes", MEM_KIB },
    { "VmallocTotal", "node_memory_VmallocTotal_bytes", MEM_KIB },
    { "VmallocUsed", "node_memory_VmallocUsed_bytes", MEM_KIB },
    { "VmallocChunk", "node_memory_VmallocChunk_bytes", MEM_KIB },
    { "Percpu", "node_memory_Percpu_bytes", MEM_KIB },
    { "HardwareCorrupted", "node_memory_HardwareCorrupted_bytes", MEM_KIB },
    { "AnonHugePages", "node_memory_AnonHugePages_bytes", MEM_KIB },
    { "ShmemHugePages", "node_memory_ShmemHugePages_bytes", MEM_KIB },
    { "ShmemPmdMapped", "node_memory_ShmemPmdMapped_bytes", MEM_KIB },
    { "FileHugePages", "node_memory_FileHugePages_bytes", MEM_KIB },
    { "FilePmdMapped", "node_memory_FilePmdMapped_bytes", MEM_KIB },
    { "NFS_Unstable", "node_memory_NFS_Unstable_bytes", MEM_KIB },
    { "Bounce", "node_memory_Bounce_bytes", MEM_KIB },
    { "WritebackTmp", "node_memory_WritebackTmp_bytes", MEM_KIB },
    { "Hugepagesize", "node_memory_Hugepagesize_bytes", MEM_KIB },
    { "Hugetlb", "node_memory_Hugetlb_bytes", MEM_KIB },
    { "Zswap", "node_memory_Zswap_bytes", MEM_KIB },
    { "Zswapped", "node_memory_Zswapped_bytes", MEM_KIB },
    { "SecPageTables", "node_memory_SecPageTables_bytes", MEM_KIB },
    { "CmaTotal", "node_memory_CmaTotal_bytes", MEM_KIB },
    { "CmaFree", "node_memory_CmaFree_bytes", MEM_KIB },
    { "Unaccepted", "node_memory_Unaccepted_bytes", MEM_KIB },
    { "DirectMap4k", "node_memory_DirectMap4k_bytes", MEM_KIB },
    { "DirectMap2M", "node_memory_DirectMap2M_bytes", MEM_KIB },
    { "DirectMap1G", "node_memory_DirectMap1G_bytes", MEM_KIB },
    { "HugePages_Total", "node_memory_HugePages_Total", 1 },
    { "HugePages_Free", "node_memory_HugePages_Free", 1 },
    { "HugePages_Rsvd", "node_memory_HugePages_Rsvd", 1 },
    { "HugePages_Surp", "node_memory_HugePages_Surp", 1 },
};

static const struct collect_key vmstat[] = {
    { "pgpgin", "node_vmstat_pgpgin", 1 },     { "pgpgout", "node_vmstat_pgpgout", 1 },
    { "pswpin", "node_vmstat_pswpin", 1 },     { "pswpout", "node_vmstat_pswpout", 1 },
    { "pgfault", "node_vmstat_pgfault", 1 },   { "pgmajfault", "node_vmstat_pgmajfault", 1 },
    { "oom_kill", "node_vmstat_oom_kill", 1 },
};

/* Of "Node 0 MemTotal:  …": the line's head is passed over. */
static const struct collect_key numa[] = {
    { "MemTotal", "node_memory_numa_MemTotal", MEM_KIB },
    { "MemFree", "node_memory_numa_MemFree", MEM_KIB },
    { "MemUsed", "node_memory_numa_MemUsed", MEM_KIB },
    { "FilePages", "node_memory_numa_FilePages", MEM_KIB },
};

struct mem_node {
    struct cfile file;
    uint32_t ids[ARRAY_SIZE(numa)];
};
struct mem_controller {
    struct cfile files[2]; /* corrected, uncorrected */
    uint32_t ids[2];
};

struct memory {
    unsigned source;
    struct cfile info, vm;
    uint32_t info_ids[ARRAY_SIZE(meminfo)], vm_ids[ARRAY_SIZE(vmstat)];
    struct mem_node nodes[MEM_NODES_MAX];
    struct mem_controller mcs[MEM_CONTROLLERS_MAX];
    size_t node_count, mc_count;
    char text[COLLECT_FILE_MAX];
};

/* "node3" with "node" is "3"; NULL: another name. */
static const char *number_of(const char *name, const char *prefix)
{
    const char *n = name + strlen(prefix);
    uint64_t v;

    return str_starts(name, prefix) && str_to_u64(n, 10, &v) ? n : NULL;
}

static void nodes_open(struct memory *m, const struct root *root, struct telemetry *t)
{
    struct arena a = { 0 };
    struct root_names names;
    char path[ROOT_PATH_MAX];

    if (!collect_list(root, &a, "/sys/devices/system/node", &names))
        for (size_t i = 0; i < names.count && m->node_count < MEM_NODES_MAX; i++) {
            const char *n = number_of(names.items[i], "node");
            struct mem_node *node = &m->nodes[m->node_count];

            if (!n)
                continue;
            snprintf(path, sizeof(path), "/sys/devices/system/node/%.32s/meminfo", names.items[i]);
            cfile_open(&node->file, root, path);
            if (node->file.error)
                continue;
            collect_keys_ids(t, m->source, numa, ARRAY_SIZE(numa),
                             &(struct telemetry_label){ "node", n }, 1, node->ids);
            m->node_count++;
        }
    arena_release(&a);
}

static void edac_open(struct memory *m, const struct root *root, struct telemetry *t)
{
    static const char *const files[2] = { "ce_count", "ue_count" };
    static const char *const proms[2] = { "node_edac_correctable_errors_total",
                                          "node_edac_uncorrectable_errors_total" };
    struct arena a = { 0 };
    struct root_names names;
    char path[ROOT_PATH_MAX];

    if (!collect_list(root, &a, "/sys/devices/system/edac/mc", &names))
        for (size_t i = 0; i < names.count && m->mc_count < MEM_CONTROLLERS_MAX; i++) {
            const char *n = number_of(names.items[i], "mc");
            struct telemetry_label l = { "controller", n };
            struct mem_controller *mc = &m->mcs[m->mc_count];

            if (!n)
                continue;
            for (size_t k = 0; k < 2; k++) {
                snprintf(path, sizeof(path), "/sys/devices/system/edac/mc/%.32s/%s", names.items[i],
                         files[k]);
                cfile_open(&mc->files[k], root, path);
                mc->ids[k] = collect_id(t, m->source, proms[k], &l, 1);
            }
            m->mc_count++;
        }
    arena_release(&a);
}

static void *memory_open(const struct root *root, struct telemetry *t)
{
    struct memory *m = xcalloc(1, sizeof(*m));

    m->source = telemetry_source(t, collect_memory.name);
    cfile_open(&m->info, root, "/proc/meminfo");
    cfile_open(&m->vm, root, "/proc/vmstat");
    collect_keys_ids(t, m->source, meminfo, ARRAY_SIZE(meminfo), NULL, 0, m->info_ids);
    collect_keys_ids(t, m->source, vmstat, ARRAY_SIZE(vmstat), NULL, 0, m->vm_ids);
    nodes_open(m, root, t);
    edac_open(m, root, t);
    return m;
}

static void memory_close(void *state)
{
    struct memory *m = state;

    if (!m)
        return;
    cfile_close(&m->info);
    cfile_close(&m->vm);
    for (size_t i = 0; i < m->node_count; i++)
        cfile_close(&m->nodes[i].file);
    for (size_t i = 0; i < m->mc_count; i++)
        for (size_t k = 0; k < 2; k++)
            cfile_close(&m->mcs[i].files[k]);
    free(m);
}

/* Blanks out "Node N" at the head of each line: what follows is as in /proc/meminfo. */
static void node_heads_blank(char *text)
{
    for (char *line = text; *line; line = (char *)scan_line(line)) {
        if (strncmp(line, "Node ", 5) != 0)
            continue;
        for (char *p = line; *p && *p != '\n' && (p < line + 5 || (*p >= '0' && *p <= '9')); p++)
            *p = ' ';
    }
}

static void edac_set(struct memory *m, struct telemetry *t)
{
    for (size_t i = 0; i < m->mc_count; i++)
        for (size_t k = 0; k < 2; k++) {
            const char *p = m->text;
            uint64_t v;

            if (cfile_read(&m->mcs[i].files[k], m->text, sizeof(m->text)) > 0 && scan_u64(&p, &v))
                telemetry_set(t, m->mcs[i].ids[k], (double)v);
        }
}

static void memory_sample(void *state, struct telemetry *t, int64_t now_ns)
{
    struct memory *m = state;

    telemetry_begin(t, m->source, now_ns);
    if (cfile_read(&m->info, m->text, sizeof(m->text)) > 0)
        collect_keys_set(t, m->text, meminfo, ARRAY_SIZE(meminfo), m->info_ids);
    if (cfile_read_all(&m->vm, m->text, sizeof(m->text)) > 0)
        collect_keys_set(t, m->text, vmstat, ARRAY_SIZE(vmstat), m->vm_ids);
    for (size_t i = 0; i < m->node_count; i++)
        if (cfile_read(&m->nodes[i].file, m->text, sizeof(m->text)) > 0) {
            node_heads_blank(m->text);
            collect_keys_set(t, m->text, numa, ARRAY_SIZE(numa), m->nodes[i].ids);
        }
    edac_set(m, t);
    telemetry_end(t);
}

const struct collector collect_memory = { .name = "memory",
                                          .period_ms = 1000,
                                          .open = memory_open,
                                          .sample = memory_sample,
                                          .close = memory_close };
