/* SPDX-License-Identifier: MIT */
/* hw_int: what the sources of hw/ share; nobody outside includes it.
 *
 * hw_probe() (hw.c) runs the sources in the order of its table: each reads files
 * through b->root, fills its part of b->hw, and notes what kept it from knowing.
 * A source never fails: a missing file is an unknown field. */
#ifndef HW_HW_INT_H
#define HW_HW_INT_H
#include "base/each.h"
#include "hw/hw.h"

/* What system calls say, in a struct with a row table so that a capture can carry
 * it as /stoker/self.json (syscalls.c).  Everything else comes from files. */
struct hw_self_addr { /* getifaddrs() */
    const char *ifname;
    const char *family; /* "inet", "inet6" */
    const char *addr;
    struct maybe prefix;
};

struct hw_self_if { /* interface flags */
    const char *name;
    struct maybe ifindex;
    struct maybe up;       /* bool */
    struct maybe running;  /* bool */
    struct maybe loopback; /* bool */
};

struct hw_self_fs { /* statvfs() of a mount point */
    const char *target;
    struct maybe size_bytes;
    struct maybe avail_bytes;
};

struct hw_self {
    const char *hostname;
    const char *kernel;
    const char *arch;
    struct maybe affinity_cpus; /* CPUs in sched_getaffinity() */
    struct maybe memlock_bytes; /* -1: unlimited */
    struct maybe memlock_hard_bytes;
    struct maybe nofile;
    struct maybe uid;
    const char *home;        /* $HOME, where it holds a .nccl.conf */
    const char *passwd_home; /* of the user database, where that is another */
    struct hw_self_addr *addrs;
    size_t addrs_count;
    struct hw_self_if *ifs;
    size_t ifs_count;
    struct hw_self_fs *filesystems; /* of real mounts and /dev/shm only */
    size_t filesystems_count;
    const char *const *daemons; /* known daemons seen in /proc: "nv-fabricmanager", … */
    size_t daemons_count;
    struct hw_env *env; /* the variables that steer GPU work and tell where we run */
    size_t env_count;
    struct maybe host_pids;   /* bool: /proc shows the machine's processes, not a container's */
    struct hw_soft *packages; /* dpkg's word on the packages that matter: name and version */
    size_t packages_count;
};
extern const struct field_table hw_self_table;
/* Makes every string below `obj` printable (hw_schema.c): a capture's documents may hold
 * terminal escapes, and none may reach a terminal. */
void hw_clean(const struct field_table *t, void *obj);
/* Figures of an inventory that was read from a file and that no machine has: range.c */
enum rc hw_range_check(const struct hw *hw, struct err *err) MUST_USE;
extern const struct field_table hw_soft_table;
extern const struct field_table hw_env_table;

/* A line of /proc/self/mountinfo (storage.c). */
struct hw_mountinfo {
    const char *dev;  /* "259:2" */
    const char *root; /* what of the file system is mounted: "/" unless a bind mount */
    const char *target;
    const char *options;
    const char *fstype;
    const char *source;
    const char *super_options; /* of the file system: cgroup v1 lists controllers here */
};

struct hw_build {
    struct hw *hw;
    struct arena *a; /* &hw->arena */
    struct root *root;
    const struct hw_opts *opts;
    struct hw_self self;
    struct recorder *rec; /* NULL: nothing is recorded */
    /* read once, by whoever asks first */
    const char *cpuinfo;         /* of cpu.c */
    struct hw_mountinfo *mounts; /* hw_mountinfo() */
    size_t mounts_count;
    bool mounts_read;
};

void hw_note_add(struct hw_build *b, const char *source, const char *fmt, ...) PRINTF_LIKE(3, 4);
/* The environment variable at capture time; NULL when unset. */
const char *hw_self_env(const struct hw_self *self, const char *name);
bool hw_self_daemon(const struct hw_self *self, const char *name);
/* 1 when seen; 0 when not seen though the machine's processes show; else unknown: in a
 * container the machine's daemons do not show. */
struct maybe hw_self_daemon_state(const struct hw_self *self, const char *name);

/* CPU lists, "0-63,128-191" (cpu.c).  Hostile ones end the walk early. */
enum { HW_CPU_MAX = 8192 }; /* logical CPUs; higher numbers are refused */
/* The next range; false at the end or where the list is malformed.  *pos starts as
 * the list and walks on. */
bool hw_cpulist_next(const char **pos, unsigned *out_first, unsigned *out_last);
/* CPUs in the list; unknown when it is NULL, empty or malformed. */
struct maybe hw_cpulist_count(const char *list);

/* A value of it by key, in the arena; NULL when missing. */
const char *hw_cpuinfo_get(struct hw_build *b, const char *key);
/* Is `word` one of the blank-separated words of `text`? */
bool hw_word_in(const char *text, const char *word);
/* The mounts, in order of mounting, those later covered by another left out (storage.c). */
const struct hw_mountinfo *hw_mountinfo(struct hw_build *b, size_t *out_count);
/* Is it a file system people keep data on, or /dev/shm? */
bool hw_mount_is_real(const struct hw_mountinfo *m);
/* Does it live on a server or behind a daemon, so that asking it may take for ever? */
bool hw_mount_is_remote(const struct hw_mountinfo *m);
/* The pools below `dir` ("/sys/kernel/mm/hugepages"), in the arena (memory.c). */
void hw_hugepages_read(struct hw_build *b, const char *dir, struct hw_hugepages **out,
                       size_t *out_count);
/* The [chosen] word of a sysfs file such as "always [madvise] never"; NULL when none. */
const char *hw_choice_read(struct hw_build *b, const char *path);
/* The value in bytes of "MemTotal:  123 kB" in a meminfo text; unknown when missing. */
struct maybe hw_meminfo_get(const char *text, const char *key);

/* The sources, in the order they run. */
void hw_src_self(struct hw_build *b);     /* system calls, or /stoker/self.json */
void hw_src_place(struct hw_build *b);    /* host, container, cgroup, scheduler */
void hw_src_cpu(struct hw_build *b);      /* cpu, caches, NUMA nodes */
void hw_src_memory(struct hw_build *b);   /* memory, hugepages */
void hw_src_pci(struct hw_build *b);      /* PCI functions and the bridges above them */
void hw_src_nvml(struct hw_build *b);     /* GPUs by the driver, or /stoker/nvml.json; then
                                             merges the GPUs that only PCI knows */
void hw_src_net(struct hw_build *b);      /* interfaces, addresses, routes */
void hw_src_rdma(struct hw_build *b);     /* RDMA devices, ports, GIDs; sets net.rdma */
void hw_src_limits(struct hw_build *b);   /* memlock, shm, IOMMU, ACS, peer memory, dma-buf */
void hw_src_storage(struct hw_build *b);  /* disks, mounts */
void hw_src_software(struct hw_build *b); /* CUDA, cuDNN, NCCL, runtimes */
void hw_src_nccl(struct hw_build *b);     /* NCCL's configuration, topology file, plug-ins */
struct hw_conf_rule {
    bool buffered;    /* as NCCL reads from 2.30 on */
    struct buf *kept; /* the lines that set NCCL's variables go there; NULL: nowhere */
};
struct hw_conf { /* what one of NCCL's configuration files sets */
    struct hw_nccl_var *vars;
    size_t count;
    bool carriage;      /* a line ends in a carriage return */
    const char *astray; /* the first name like "export NCCL_X" or " NCCL_X"; NULL: none */
};
void hw_conf_parse(struct arena *a, const char *text, size_t len, const struct hw_conf_rule *rule,
                   struct hw_conf *out);
void hw_nccl_topo_find(struct hw_build *b); /* of hw_src_nccl(): the topology file */
/* libibverbs at `library` (NULL: nowhere) and its providers (verbs.c). */
void hw_verbs_find(struct hw_build *b, const char *library);
void hw_c2c_fill(struct hw *hw);      /* what the driver did not say, by the catalogue */
void hw_src_topo(struct hw_build *b); /* computed: GPU pairs, GPU-NIC distances */
/* Active NVLinks from one GPU to another, and those to switches. */
int64_t hw_gpu_links(const struct hw_gpu *from, const struct hw_gpu *to, int64_t *out_switched);

/* pci.c: an address of a PCI function as one number that sorts as the bus does.  Takes
 * "0000:1b:00.0", any case and domains of up to eight digits (NVML writes eight).
 * False, with *out untouched, for anything else. */
bool hw_bdf_key(const char *s, uint64_t *out);
/* The physical function that DIR/physfn links to; NULL when that is no PCI address. */
const char *hw_physfn_of(struct hw_build *b, const char *dir);
/* The last PCI address in a resolved path ("…/0000:00:03.0/virtio0"); NULL: none. */
const char *hw_bdf_of_path(struct arena *a, const char *path);

/* nvml.c: what the child sends and the capture holds, a JSON document of schema
 * "stoker.nvml/1": {"schema", "nvidia": {…}, "gpus": [ … ], "pairs": [ … ]}. */
struct hw_nvml {
    struct hw_nvidia nvidia;
    struct hw_gpu *gpus; /* in the driver's order */
    size_t gpus_count;
    struct hw_gpu_pair *pairs; /* a and b are driver indices here */
    size_t pairs_count;
};
extern const struct field_table hw_nvml_table;

/* fe80::/64 or 169.254.0.0/16, as people write it. */
bool hw_addr_is_link_local(const char *addr);
/* The version of a piece of software that was found; NULL: none, or not told. */
const char *hw_soft_version(const struct hw *hw, const char *name);

/* ---- topo_xml.c: what nccl_topo.c asks of a topology file ---- */
struct topo_xml;
/* What NCCL's own reader, which takes less than XML, stops on: a line and a sentence; NULL: it
 * reads the text to its end (graph/xml.cc, xmlGetNode). */
const char *topo_xml_refused(struct arena *a, const char *text, size_t len);
/* As topo_xml_path(), to a function that the file does not name, right below one of its bridges. */
const char *topo_xml_path_below(const struct topo_xml *t, int a, int bridge);

#endif
