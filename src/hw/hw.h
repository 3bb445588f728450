/* SPDX-License-Identifier: MIT */
/* hw: what is in this machine.
 *
 * hw_probe() reads sysfs, procfs, system calls and the NVIDIA driver below one root
 * and returns an immutable inventory.  Nothing else in the program touches those
 * sources, so a captured root replays a machine in a test.  A missing source leaves
 * its fields unknown (struct maybe, NULL strings) and is a note, not an error.
 *
 * Every struct here has a row table in hw/hw_schema.c: JSON (stoker.inventory/1) is
 * written and read from it.  A field is added in three places: here, its row there,
 * the source that fills it.
 *
 * All pointers belong to the inventory's arena. */
#ifndef HW_HW_H
#define HW_HW_H
#include "base/text/fields.h"
#include "os/root.h"

/* ---- processors and memory (cpu.c, mem.c) ---- */
struct hw_cache {
    struct maybe level;
    const char *type;        /* "Data", "Instruction", "Unified" */
    struct maybe size_bytes; /* of one */
    struct maybe count;      /* how many such caches the machine has */
    struct maybe shared_by;  /* logical CPUs a cache */
};

struct hw_cpu {
    const char *vendor;
    const char *model;
    struct maybe family; /* "cpu family" and "model" of /proc/cpuinfo: x86 only */
    struct maybe model_id;
    const char *arch; /* x86_64, aarch64 */
    struct maybe sockets;
    struct maybe cores;   /* physical cores online */
    struct maybe threads; /* logical CPUs online */
    const char *online;   /* "0-127" */
    struct maybe mhz_max;
    const char *governor;     /* of CPU 0 */
    const char *const *flags; /* those that matter to us: avx2, avx512f, amx_bf16, … */
    size_t flags_count;
    struct hw_cache *caches;
    size_t caches_count;
};

struct hw_hugepages {
    struct maybe size_bytes;
    struct maybe total;
    struct maybe free;
};

struct hw_numa {
    struct maybe id;
    const char *cpus;    /* "0-63,128-191" */
    struct maybe socket; /* physical package of its processors; unknown without any */
    struct maybe mem_total_bytes;
    struct maybe *distances; /* to each node, in order */
    size_t distances_count;
    struct hw_hugepages *hugepages;
    size_t hugepages_count;
};

struct hw_memory {
    struct maybe total_bytes;
    struct maybe available_bytes;
    struct maybe swap_bytes;
    const char *thp; /* "always", "madvise", "never" */
    struct hw_hugepages *hugepages;
    size_t hugepages_count;
};

/* ---- PCI (pci.c): GPUs, NVSwitches, NICs, NVMe and every bridge above them ---- */
struct hw_pci {
    const char *bdf;     /* "0000:1b:00.0", lower case */
    struct maybe vendor; /* 0x10de */
    struct maybe device;
    struct maybe class_; /* 24 bits: 0x030200; "class" in JSON */
    const char *driver;
    struct maybe numa;      /* unknown when the kernel says -1 */
    const char *parent;     /* bdf of the bridge above; NULL below the root complex */
    const char *root;       /* "pci0000:15": the host bridge */
    const char *physfn;     /* bdf of the physical function when this is a virtual one */
    struct maybe vfs;       /* virtual functions enabled (sriov_numvfs) */
    struct maybe vfs_max;   /* sriov_totalvfs */
    const char *link_speed; /* "32.0 GT/s PCIe" as now */
    struct maybe link_width;
    const char *link_speed_max;
    struct maybe link_width_max;
    struct maybe iommu_group;
    struct maybe
        acs; /* 1: ACS SrcValid is on (redirects peer traffic); unknown without config space */
    struct maybe
        acs_direct;     /* ... and what ATS has translated passes all the same; unknown as acs */
    struct maybe alive; /* 0: config space reads all ones, the device does not answer */
};

/* ---- GPUs (nvml.c fills most through the driver; pci.c knows what the driver does not) ---- */
struct hw_nvlink {
    struct maybe link;
    struct maybe active;
    struct maybe version;
    struct maybe speed_mbps; /* megabytes a second, one direction */
    const char *remote_kind; /* "gpu", "switch", "npu", "unknown" */
    const char *remote_bdf;
};

struct hw_mig {
    struct maybe gi; /* GPU instance id */
    struct maybe ci; /* compute instance id */
    const char *uuid;
    const char *name; /* "1g.18gb" */
    struct maybe mem_bytes;
    struct maybe sms;
    struct maybe slices;
};

struct hw_gpu_err { /* a driver call that did not answer with a value */
    const char *call;
    struct maybe code; /* NVML return code */
    const char *text;
};

struct hw_gpu {
    struct maybe index; /* the driver's; unknown when only PCI knows it */
    const char *state;  /* "ok", "lost", "hidden", "error", "unanswered", "no-driver" */
    const char *name;
    const char *arch; /* "Hopper", "Ampere" … */
    const char *brand;
    const char *uuid;
    const char *serial;
    const char *board_part;
    const char *vbios;
    const char *inforom;
    struct maybe minor; /* /dev/nvidiaN */
    const char *bdf;
    struct maybe numa;
    const char *cpus; /* CPUs near it */
    struct maybe compute_major, compute_minor;
    struct maybe cores;
    struct maybe sms;
    struct maybe mem_total_bytes;
    struct maybe mem_reserved_bytes;
    struct maybe mem_used_bytes;
    struct maybe mem_bus_bits;
    struct maybe bar1_bytes;
    struct maybe pcie_gen, pcie_gen_max;
    struct maybe pcie_width, pcie_width_max;
    struct maybe clock_sm_mhz, clock_sm_max_mhz;
    struct maybe clock_mem_mhz, clock_mem_max_mhz;
    struct maybe clock_app_sm_mhz, clock_app_mem_mhz;
    struct maybe power_limit_mw; /* enforced now */
    struct maybe power_default_mw;
    struct maybe power_min_mw, power_max_mw;
    struct maybe power_mw; /* drawn */
    struct maybe temp_c;
    struct maybe temp_slowdown_c, temp_shutdown_c, temp_max_c; /* absolute thresholds */
    struct maybe temp_margin_c;    /* to the first limit (Hopper's tlimit) */
    struct maybe ecc, ecc_pending; /* bool */
    struct maybe ecc_dbe_volatile, ecc_dbe_total, ecc_sbe_volatile, ecc_sbe_total;
    struct maybe remap_correctable, remap_uncorrectable;
    struct maybe remap_pending, remap_failed; /* bool */
    struct maybe mig, mig_pending;            /* bool; unknown when the GPU has no MIG */
    struct maybe persistence;                 /* bool */
    const char *compute_mode;                 /* "default", "exclusive", "prohibited" */
    const char *virtualization;               /* "none", "passthrough", "vgpu", … */
    const char *recovery_action; /* "none", "reset", "reboot", "drain-p2p", "drain-reset" */
    const char *gsp_firmware;
    const char *fabric_state;   /* "not-supported", "not-started", "in-progress", "completed" */
    const char *fabric_status;  /* "ok" or NVML's error text */
    const char *fabric_cluster; /* cluster UUID */
    struct maybe fabric_clique;
    struct maybe c2c;           /* bool: NVLink-C2C joins it to its processor */
    const char *addressing;     /* "hmm", "ats", "none" */
    struct maybe nvlinks_total; /* links the chip has, active or not */
    struct hw_nvlink *nvlinks;
    size_t nvlinks_count;
    struct maybe mig_max;
    struct hw_mig *migs;
    size_t migs_count;
    struct hw_gpu_err *errors; /* except "not supported", which is just unknown */
    size_t errors_count;
};

struct hw_gpu_pair {      /* two GPUs of hw.gpus[] */
    struct maybe a, b;    /* positions in hw.gpus[], a < b */
    struct maybe nvlinks; /* direct links; through switches: the lesser GPU's switch links */
    const char *path;     /* "NV18", "PIX", "PXB", "PHB", "NODE", "SYS", "DIS" */
    const char *p2p_read; /* NVML's word: "ok", "chipset not supported", … */
    const char *p2p_write;
    const char *p2p_nvlink;
    const char *p2p_atomics;
};

struct hw_nvidia {
    const char *driver_version;
    struct maybe cuda_driver; /* 13000 */
    const char *nvml_version;
    const char *nvml_library;          /* name it was loaded under; NULL: not found */
    const char *nvml_error;            /* why there is no answer: a missing library, an init code */
    const char *kernel_module;         /* "open", "proprietary", NULL: not loaded */
    struct maybe nvswitches;           /* NVSwitch PCI functions (0 when PCI was readable) */
    const char *fabricmanager_version; /* installed */
    struct maybe fabricmanager_running;
    struct maybe persistenced_running;
    struct maybe hostengine_running; /* nv-hostengine: DCGM */
    struct maybe mps_running;
    struct maybe imex_running;  /* nvidia-imex: memory shared between machines over NVLink */
    struct maybe imex_nodes;    /* machines in its nodes_config.cfg; unknown: no such file */
    struct maybe imex_channels; /* channel devices of this machine or container */
    /* a driver call that never returned */
    const char *hung_call; /* NULL: none */
    struct maybe hung_pid;
    const char *hung_state; /* "D" */
    const char *hung_wchan;
    const char *hung_syscall;
};

/* ---- RDMA (rdma.c) ---- */
struct hw_gid {
    struct maybe index;
    const char *gid;  /* eight groups as sysfs gives them */
    const char *type; /* "IB/RoCE v1", "RoCE v2" */
    const char *ndev; /* network device, NULL when none in this namespace */
};

struct hw_rdma_port {
    struct maybe port;
    const char *state;      /* "ACTIVE", "DOWN", … */
    const char *phys_state; /* "LinkUp", … */
    const char *link_layer; /* "InfiniBand", "Ethernet" */
    struct maybe rate_mbps; /* megabits a second */
    const char *rate;       /* as the kernel writes it */
    struct maybe lid;
    struct maybe sm_lid;
    struct hw_gid *gids; /* those not all zero */
    size_t gids_count;
};

struct hw_rdma {
    const char *name; /* "mlx5_0" */
    const char *bdf;
    struct maybe numa;
    const char *node_type; /* "CA", … */
    const char *node_guid;
    const char *sys_image_guid; /* of the card: its ports share it */
    const char *hca;            /* hca_type: "MT4129" */
    const char *board;
    const char *firmware;
    const char *driver;
    struct maybe vf;            /* bool: a virtual function */
    struct maybe bus_first;     /* bool: there is a device 0, function 0 on its bus */
    const char *physfn;         /* its parent's bdf */
    struct maybe openable;      /* bool: its node in /dev/infiniband is here */
    const char *const *netdevs; /* network devices on the same function */
    size_t netdevs_count;
    struct hw_rdma_port *ports;
    size_t ports_count;
};

/* ---- network (net.c) ---- */
struct hw_addr {
    const char *family; /* "inet", "inet6" */
    const char *addr;
    struct maybe prefix;
};

struct hw_net {
    const char *name;
    struct maybe ifindex;
    const char *kind; /* "physical", "virtual", "loopback", "bond", "bridge", "vlan", "veth" … */
    const char *mac;
    struct maybe mtu;
    struct maybe speed_mbps;
    const char *operstate; /* "up", "down", "unknown" */
    struct maybe up;       /* bool: IFF_UP */
    struct maybe running;  /* bool: IFF_RUNNING */
    const char *driver;
    const char *bdf;
    struct maybe numa;
    const char *physfn;
    const char *rdma;           /* RDMA device behind it, by function or by GID table */
    const char *master;         /* bond or bridge that it is part of; NULL: none */
    struct maybe default_route; /* bool */
    struct hw_addr *addrs;
    size_t addrs_count;
};

struct hw_route {
    const char *family; /* "inet", "inet6" */
    const char *dst;    /* "0.0.0.0" for the default */
    struct maybe prefix;
    const char *gateway; /* NULL: on link */
    const char *dev;
    struct maybe metric;
};

/* ---- distances (topo.c, computed) ---- */
struct hw_distance { /* GPU i of gpus[] to a NIC */
    struct maybe gpu;
    const char *nic;  /* RDMA device, or network device when it has no RDMA */
    const char *path; /* "PIX" same switch, "PXB" several switches, "PHB" same host bridge,
                                 "NODE" same NUMA node, "SYS" across sockets; NULL unknown */
};

/* ---- limits and kernel facts (kernel_limits.c) ---- */
struct hw_limits {
    struct maybe memlock_bytes; /* soft RLIMIT_MEMLOCK; -1: unlimited */
    struct maybe memlock_hard_bytes;
    struct maybe nofile;
    struct maybe shm_bytes;   /* size of /dev/shm */
    struct maybe iommu;       /* bool: groups exist */
    const char *iommu_mode;   /* "translated", "passthrough", NULL unknown */
    struct maybe acs_bridges; /* PCI bridges with ACS redirection on */
    const char *peermem;      /* "nvidia_peermem", "nv_peer_mem", NULL: none seen */
    const char *peermem_version;
    struct maybe dmabuf;         /* bool: kernel and driver can do GPUDirect by dma-buf */
    const char *dmabuf_why;      /* what that rests on */
    struct maybe uverbs;         /* RDMA user device nodes in /dev/infiniband */
    const char *cmdline;         /* kernel command line, the parts that matter */
    struct maybe numa_balancing; /* bool */
};

/* ---- storage (storage.c) ---- */
struct hw_disk {
    const char *name; /* "nvme0n1" */
    const char *model;
    struct maybe size_bytes;
    struct maybe rotational; /* bool */
    const char *transport;   /* "nvme", "virtio", "sata", … */
    const char *bdf;
    struct maybe numa;
    const char *scheduler;
};

struct hw_mount {
    const char *source;
    const char *target;
    const char *fstype;
    const char *options;
    struct maybe size_bytes;
    struct maybe avail_bytes;
};

/* ---- where it runs (runtime_env.c) ---- */
struct hw_env {
    const char *name;
    const char *value;
};

struct hw_place {
    const char *hostname;
    const char *kernel; /* "6.1.0-18-amd64" */
    const char *os;     /* PRETTY_NAME */
    const char *vendor; /* DMI system vendor */
    const char *product;
    const char *hypervisor; /* "kvm", "firecracker", NULL: none seen */
    const char *container;  /* "docker", "podman", "kubernetes", "crio", "lxc", NULL: none */
    const char *manager; /* daemon that starts jobs here: "slurmd", "kubelet", …; "none"; NULL: the
                          * machine's processes do not show */
    struct maybe cgroup;          /* 1 or 2 */
    struct maybe cpu_quota_milli; /* CPUs by cgroup quota, in thousandths; unknown: no quota */
    struct maybe cpus_usable;     /* min of affinity, cpuset and quota, at least 1 */
    const char *cpuset;
    struct maybe mem_limit_bytes;
    struct maybe pids_limit;
    const char *k8s_pod, *k8s_namespace, *k8s_node;
    const char *slurm_job, *slurm_nodes, *slurm_gpus, *slurm_cpus;
    struct hw_env *env; /* variables that steer GPU work: NCCL_*, CUDA_*, UCX_*, OMP_* … */
    size_t env_count;
};

/* ---- software (software.c) ---- */
struct hw_soft {
    const char *name;    /* "cuda", "cudnn", "nccl", "torch", "docker", "dcgm", "rdma-core" … */
    const char *version; /* NULL: found, version not told */
    const char *path;    /* where it was found */
};

/* ---- what steers NCCL besides the environment (nccl_conf.c) ---- */
struct hw_nccl_var {
    const char *name, *value;
    const char *path; /* of the file that sets it */
};

struct hw_nccl_way {   /* a distance by the topology file, to a NIC or to another GPU */
    struct maybe gpu;  /* position in gpus[] */
    const char *nic;   /* NULL: a GPU */
    struct maybe peer; /* position of that, greater than `gpu` */
    const char *path;  /* "NV4", "PIX", "PXB", "PHB", "SYS"; NULL: the file does not say */
    const char
        *path_function;   /* ... to function 0 of the NIC, and to device and function 0 of its */
    const char *path_bus; /* bus, where NCCL looks for it; NULL: to a GPU */
    struct maybe named;   /* bool: the file names the NIC, by one of the three or by its name */
};

struct hw_nccl {
    const char *const *conf_files; /* those that were read, in NCCL's order */
    size_t conf_files_count;
    struct hw_nccl_var *conf; /* settings of theirs, the first file's before the next one's */
    size_t conf_count;
    const char *topo_file;  /* the file NCCL takes PCI distances from; NULL: none */
    const char *topo_error; /* why it could not be followed; NULL: it was */
    struct hw_nccl_way *topo;
    size_t topo_count;
    const char *net_plugin;             /* the library NCCL would load; NULL: none */
    const char *tuner_plugin;           /* likewise */
    struct maybe verbs;                 /* bool: libibverbs is where the loader looks */
    struct maybe verbs_told;            /* bool: all its providers are listed */
    const char *const *verbs_providers; /* "mlx5", "efa" */
    size_t verbs_providers_count;
};

struct hw_note {
    const char *source; /* "nvml", "rdma", … */
    const char *text;
};

struct hw {
    struct arena arena;    /* everything below lives here */
    struct maybe captured; /* bool: read from a captured root, not from this machine */
    struct hw_place place;
    struct hw_cpu cpu;
    struct hw_memory memory;
    struct hw_numa *numa;
    size_t numa_count;
    struct hw_nvidia nvidia;
    struct hw_gpu *gpus; /* in order of PCI address */
    size_t gpus_count;
    struct hw_gpu_pair *gpu_pairs;
    size_t gpu_pairs_count;
    struct hw_rdma *rdma;
    size_t rdma_count;
    struct hw_net *nets;
    size_t nets_count;
    struct hw_route *routes; /* of the main table */
    size_t routes_count;
    struct maybe route_tables; /* others, with a route by a gateway: of `ip rule` */
    struct hw_distance *distances;
    size_t distances_count;
    struct hw_limits limits;
    struct hw_pci *pci;
    size_t pci_count;
    struct hw_disk *disks;
    size_t disks_count;
    struct hw_mount *mounts;
    size_t mounts_count;
    struct hw_soft *software;
    size_t software_count;
    struct hw_nccl nccl;
    struct hw_note *notes;
    size_t notes_count;
};

extern const struct field_table hw_table; /* struct hw, for stoker.inventory/1 */
extern const struct field_table hw_gpu_table;
extern const struct field_table hw_nvidia_table;
extern const struct field_table hw_gpu_pair_table;

struct hw_opts {
    const char *nvml_lib; /* library to load instead of libnvidia-ml.so.1; NULL: that one live,
                              the capture's nvml.json on a captured root */
    long nvml_stall_ms;   /* 0: HW_NVML_STALL_MS */
    struct recorder *rec; /* borrowed: files read and what is no file go there; NULL: nowhere */
    /* As if the environment had these, too: what they name is looked for like anything else.
     * Borrowed; not recorded. */
    const struct hw_env *env;
    size_t env_count;
};
enum { HW_NVML_STALL_MS = 4000 };

/* Never fails for want of hardware; an err means the root itself cannot be read. */
enum rc hw_probe(struct root *root, const struct hw_opts *opts, struct hw **out,
                 struct err *err) MUST_USE;
void hw_free(struct hw *hw);

void hw_write_json(const struct hw *hw, struct buf *out); /* with the schema tag */
enum rc hw_read_json(const char *text, size_t len, struct hw **out, struct err *err) MUST_USE;

/* Look-ups; NULL when there is none. */
const struct hw_pci *hw_find_pci(const struct hw *hw, const char *bdf);
/* What is wrong with a capture's system calls, which addresses and limits come from; NULL: nothing
 * that is known. */
const char *hw_capture_damage(const struct hw *hw);
const struct hw_net *hw_find_net(const struct hw *hw, const char *name);
const struct hw_rdma *hw_find_rdma(const struct hw *hw, const char *name);
/* NVLinks lead to switches of this machine that are no PCI devices of its own (HGX B200): those of
 * a rack, by GPUs on a chip-to-chip link, are managed elsewhere. */
bool hw_links_switched(const struct hw *hw);
/* Google's virtual NIC, whose driver has two names. */
bool hw_net_is_gvnic(const struct hw_net *n);
/* The upper side of a PCIe switch: its link leads up, where those of other bridges lead down. */
bool hw_pci_is_upstream(const struct hw *hw, const struct hw_pci *p);
/* What the PCIe link of a function carries as it runs now, in Mb/s. */
struct maybe hw_link_mbps(const struct hw_pci *p);
/* ... when it runs below what card and slot can both do, and carries less than the ports of
 * the RDMA device; unknown: it does not, or cannot be told. */
struct maybe hw_rdma_link_short(const struct hw *hw, const struct hw_rdma *r);
/* The most that a function and the port above it can do together. */
struct maybe hw_link_mbps_max(const struct hw *hw, const struct hw_pci *p);
/* fe80::/64 or 169.254.0.0/16, as text of eight groups. */
bool hw_gid_is_link_local(const char *gid);
/* The port is not up, nobody uses it, and another of its card is up: left free on purpose, for
 * all that can be told. */
bool hw_rdma_is_spare(const struct hw *hw, const struct hw_rdma *r, const struct hw_rdma_port *p);
/* Some cards of its model have every port up, and no more than half: whether a port of it that is
 * down is spare or missing cannot be told. */
bool hw_rdma_is_odd(const struct hw *hw, const struct hw_rdma *r);
/* What a program started here gets: the environment, and where that has no such NCCL_*
 * variable, NCCL's configuration files. */
const char *hw_env_get(const struct hw *hw, const char *name);
/* The file that sets it; NULL: the environment does, or nobody. */
const char *hw_env_file(const struct hw *hw, const char *name);
bool hw_soft_found(const struct hw *hw, const char *name);
/* The NCCL that a job started here loads: the first of several (software.c); NULL: none. */
const struct hw_soft *hw_nccl_soft(const struct hw *hw);
const char *hw_nccl_version(const struct hw *hw); /* its version; NULL: none, or not told */
/* The provider of libibverbs that an RDMA device needs and that is not here ("mlx5"); NULL: it
 * is, or that cannot be told (verbs.c). */
const char *hw_verbs_lacks(const struct hw *hw, const struct hw_rdma *r);
/* PCI distance between two functions: "PIX", "PXB", "PHB", "NODE", "SYS"; NULL unknown. */
const char *hw_pci_path(const struct hw *hw, const char *bdf_a, const char *bdf_b);
/* The two functions share a PCIe switch, and ACS at one of its ports sends what passes between
 * them up to the root complex: that port; NULL: none does, or they share none. */
const char *hw_acs_between(const struct hw *hw, const char *bdf_a, const char *bdf_b);
const char *hw_distance_get(const struct hw *hw, size_t gpu, const char *nic);
/* A topology file is in force for NCCL, and was read (nccl_topo.c). */
bool hw_nccl_topo_used(const struct hw *hw);
/* ... was read, and names no two devices of this machine: NCCL goes by what the machine shows. */
bool hw_nccl_topo_foreign(const struct hw *hw);
/* NCCL stops on it: its version, or what its reader does not take. */
bool hw_nccl_topo_refused(const struct hw *hw);
/* It cannot be opened here, or is empty: NCCL goes on without one. */
bool hw_nccl_topo_missing(const struct hw *hw);
/* NCCL_TOPO_FILE names a file that is there, or may be, and was not followed. */
bool hw_nccl_topo_unread(const struct hw *hw);
/* ... since this is a capture, which does not hold it. */
bool hw_nccl_topo_unheld(const struct hw *hw);
/* The distance by it; NULL: there is none in force, or it does not name both. */
const struct hw_nccl_way *hw_nccl_way_nic(const struct hw *hw, size_t gpu, const char *nic);
const struct hw_nccl_way *hw_nccl_way_gpu(const struct hw *hw, size_t a, size_t b);

#endif
