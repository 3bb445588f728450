/* SPDX-License-Identifier: MIT */
/* spec: the site that stoker.yaml describes, as typed structs.
 *
 * One file says what there is (nodes, fabrics, storage), what runs on it (components,
 * models, memory pools, the traffic between them), how it is watched (goals, alerts),
 * what it costs (prices, budgets) and which systems it is written out for (targets).
 * Every other part of the program reads these structs and nothing else.
 *
 *   stoker.yaml --yaml.c--> tree with lines --bind.c + spec_schema.c--> struct spec --check.c-->
 *
 * Invariants, true of every struct spec that spec_load(), spec_parse() and
 * spec_default() hand out:
 *   1. every member holds a value of the file or the default of its schema row; members
 *      that may be unset are pointers (NULL), struct maybe, spec_num, spec_quantity or
 *      spec_money (known false); nothing is ever "zero for unknown"
 *   2. every name that refers to something (a node group, a pool, a storage ...) exists
 *   3. strings are UTF-8 without control characters but newline and tab
 *   4. it never changes after the load (render may learn of machines first: spec_node_learn()) and
 *      may be read from any thread
 *   5. all memory is in one arena and goes with spec_free()
 *
 * spec_where() says on which line a value stands, for messages about it later on.
 * Adding a key: a member here and a row in spec_schema.c (see its head). */
#ifndef SPEC_SPEC_H
#define SPEC_SPEC_H
#include "base/buf.h"
#include "base/err.h"
#include "base/maybe.h"
#include "base/text/json.h"
#include "base/text/table.h"
#include "base/text/units.h"

enum {
    SPEC_FILE_MAX = 1 << 20,     /* bytes of a file */
    SPEC_HISTORY_MIN = 8 << 20,  /* bytes of an agent's history */
    SPEC_DEPTH_MAX = 32,         /* levels of nesting */
    SPEC_NODES_MAX = 100000,     /* values in a file, aliases counted as often as they are used */
    SPEC_DIAGS_MAX = 20,         /* errors reported for a file */
    SPEC_WARNINGS_MAX = 100,     /* warnings reported for a file */
    SPEC_LIST_MAX = 10000,       /* items in one list or map */
    SPEC_TEXT_MAX = 65536,       /* bytes of one text value */
    SPEC_INCLUDES_MAX = 64,      /* files that one includes, those they include counted */
    SPEC_INCLUDE_DEPTH_MAX = 4,  /* files that include each other */
    SPEC_INCLUDE_PATH_MAX = 256, /* bytes of a path below the spec's folder */
    SPEC_INCLUDE_BYTES_MAX = 4 << 20, /* bytes of all files together */
    SPEC_NAME_MAX = 63                /* bytes of a name: what DNS, Slurm and Kubernetes all take */
};
#define SPEC_HISTORY_MAX (INT64_C(1) << 40)
/* What a history has when nobody says: a number for the agent, a text for schema and help. */
#define SPEC_HISTORY_MIB     256
#define SPEC_TEXT_OF_(x)     #x
#define SPEC_TEXT_OF(x)      SPEC_TEXT_OF_(x)
#define SPEC_HISTORY_DEFAULT SPEC_TEXT_OF(SPEC_HISTORY_MIB) "MiB"

/* --- values --- */
struct spec_num { /* a number that may be unset */
    double v;
    bool known;
};
struct spec_money {
    int64_t micro; /* millionths of a dollar */
    enum money_per per;
    bool known;
};
enum spec_unit { /* what a quantity counts */
                 SPEC_UNIT_PERCENT,
                 SPEC_UNIT_CELSIUS,
                 SPEC_UNIT_WATT,
                 SPEC_UNIT_BYTES,
                 SPEC_UNIT_BPS, /* bits per second */
                 SPEC_UNIT_MS,
                 SPEC_UNIT_COUNT,
                 SPEC_UNIT_MONEY, /* micro-dollars */
                 SPEC_UNIT_PER_S  /* samples, requests ... a second */
};
struct spec_quantity { /* a threshold: a number with its unit */
    double v;
    enum spec_unit unit;
    bool known;
    const char *text; /* as written */
};
struct spec_strs {
    const char *const *items;
    size_t count;
};
struct spec_pair {
    const char *key, *value;
};
struct spec_pairs {
    const struct spec_pair *items;
    size_t count;
};

/* --- choices: one list gives the enum here and the words in spec_schema.c --- */
#define SPEC_ENUM_(id, text) SPEC_##id,

#define SPEC_VERSIONS(X) X(VERSION_1, "stoker.spec/1")
enum spec_version { SPEC_VERSIONS(SPEC_ENUM_) };

#define SPEC_ROLES(X)                                                                              \
    X(ROLE_GPU, "gpu")                                                                             \
    X(ROLE_CPU, "cpu") X(ROLE_LOGIN, "login") X(ROLE_CONTROL, "control") X(ROLE_STORAGE, "storage")
enum spec_role { SPEC_ROLES(SPEC_ENUM_) };

#define SPEC_ARCHES(X) X(ARCH_X86_64, "x86_64") X(ARCH_AARCH64, "aarch64")
enum spec_arch { SPEC_ARCHES(SPEC_ENUM_) };

#define SPEC_CAPACITIES(X)                                                                         \
    X(CAPACITY_OWNED, "owned")                                                                     \
    X(CAPACITY_RESERVED, "reserved")                                                               \
    X(CAPACITY_ON_DEMAND, "on_demand") X(CAPACITY_SPOT, "spot")
enum spec_capacity { SPEC_CAPACITIES(SPEC_ENUM_) };

#define SPEC_LINKS(X)                                                                              \
    X(LINK_PCIE, "pcie")                                                                           \
    X(LINK_NVLINK2, "nvlink2")                                                                     \
    X(LINK_NVLINK3, "nvlink3") X(LINK_NVLINK4, "nvlink4") X(LINK_NVLINK5, "nvlink5")
enum spec_link { SPEC_LINKS(SPEC_ENUM_) };

#define SPEC_COMPUTE_MODES(X)                                                                      \
    X(COMPUTE_DEFAULT, "default")                                                                  \
    X(COMPUTE_EXCLUSIVE, "exclusive_process") X(COMPUTE_PROHIBITED, "prohibited")
enum spec_compute_mode { SPEC_COMPUTE_MODES(SPEC_ENUM_) };

#define SPEC_SHARINGS(X)                                                                           \
    X(SHARING_AUTO, "auto")                                                                        \
    X(SHARING_NONE, "none")                                                                        \
    X(SHARING_TIME_SLICING, "time_slicing") X(SHARING_MPS, "mps") X(SHARING_MIG, "mig")
enum spec_sharing { SPEC_SHARINGS(SPEC_ENUM_) };

#define SPEC_FABRIC_KINDS(X)                                                                       \
    X(FABRIC_ETHERNET, "ethernet")                                                                 \
    X(FABRIC_ROCE, "roce") X(FABRIC_INFINIBAND, "infiniband") X(FABRIC_EFA, "efa")
enum spec_fabric_kind { SPEC_FABRIC_KINDS(SPEC_ENUM_) };

#define SPEC_IPAMS(X)                                                                              \
    X(IPAM_WHEREABOUTS, "whereabouts")                                                             \
    X(IPAM_NV, "nv-ipam")                                                                          \
    X(IPAM_HOST_LOCAL, "host-local") X(IPAM_DHCP, "dhcp") X(IPAM_STATIC, "static")
enum spec_ipam { SPEC_IPAMS(SPEC_ENUM_) };

#define SPEC_STORAGE_KINDS(X)                                                                      \
    X(STORAGE_LOCAL, "local")                                                                      \
    X(STORAGE_LUSTRE, "lustre")                                                                    \
    X(STORAGE_NFS, "nfs")                                                                          \
    X(STORAGE_VOLUME, "volume")                                                                    \
    X(STORAGE_OBJECT, "object")                                                                    \
    X(STORAGE_MEMORY, "memory")                                                                    \
    X(STORAGE_GPFS, "gpfs")                                                                        \
    X(STORAGE_WEKA, "weka") X(STORAGE_BEEGFS, "beegfs") X(STORAGE_CEPH, "ceph")
enum spec_storage_kind { SPEC_STORAGE_KINDS(SPEC_ENUM_) };

#define SPEC_ACCESS_MODES(X)                                                                       \
    X(MODE_RWO, "ReadWriteOnce") X(MODE_RWX, "ReadWriteMany") X(MODE_ROX, "ReadOnlyMany")
enum spec_access_mode { SPEC_ACCESS_MODES(SPEC_ENUM_) };

#define SPEC_PRIORITIES(X)                                                                         \
    X(PRIORITY_LOW, "low") X(PRIORITY_MEDIUM, "medium") X(PRIORITY_HIGH, "high")
enum spec_priority { SPEC_PRIORITIES(SPEC_ENUM_) };

#define SPEC_PATTERNS(X)                                                                           \
    X(PATTERN_FLEXIBLE, "flexible")                                                                \
    X(PATTERN_SEQUENTIAL, "sequential")                                                            \
    X(PATTERN_RANDOM, "random") X(PATTERN_STREAMING, "streaming") X(PATTERN_MIXED, "mixed")
enum spec_pattern { SPEC_PATTERNS(SPEC_ENUM_) };

#define SPEC_COMPONENT_KINDS(X)                                                                    \
    X(COMPONENT_SERVICE, "service")                                                                \
    X(COMPONENT_TRAINING, "training") X(COMPONENT_SERVING, "serving") X(COMPONENT_BATCH, "batch")
enum spec_component_kind { SPEC_COMPONENT_KINDS(SPEC_ENUM_) };

#define SPEC_TARGETS(X)                                                                            \
    X(TARGET_LOCAL, "local")                                                                       \
    X(TARGET_SLURM, "slurm")                                                                       \
    X(TARGET_KUBERNETES, "kubernetes")                                                             \
    X(TARGET_OPENSHIFT, "openshift") X(TARGET_COMPOSE, "compose") X(TARGET_SYSTEMD, "systemd")
enum spec_target { SPEC_TARGETS(SPEC_ENUM_) };

#define SPEC_RESTARTS(X)                                                                           \
    X(RESTART_ALWAYS, "always") X(RESTART_ON_FAILURE, "on_failure") X(RESTART_NEVER, "never")
enum spec_restart { SPEC_RESTARTS(SPEC_ENUM_) };

#define SPEC_PROTOCOLS(X) X(PROTOCOL_TCP, "tcp") X(PROTOCOL_UDP, "udp")
enum spec_protocol { SPEC_PROTOCOLS(SPEC_ENUM_) };

#define SPEC_TRAFFICS(X)                                                                           \
    X(TRAFFIC_P2P, "p2p")                                                                          \
    X(TRAFFIC_BROADCAST, "broadcast")                                                              \
    X(TRAFFIC_ALL_REDUCE, "all_reduce")                                                            \
    X(TRAFFIC_ALL_TO_ALL, "all_to_all") X(TRAFFIC_REQUEST, "request")
enum spec_traffic_kind { SPEC_TRAFFICS(SPEC_ENUM_) };

#define SPEC_SHAPE_KINDS(X)                                                                        \
    X(SHAPE_DENSE, "dense") X(SHAPE_MOE, "moe") X(SHAPE_VISION, "vision") X(SHAPE_OTHER, "other")
enum spec_shape_kind { SPEC_SHAPE_KINDS(SPEC_ENUM_) };

#define SPEC_FRAMEWORKS(X)                                                                         \
    X(FRAMEWORK_TORCHRUN, "torchrun")                                                              \
    X(FRAMEWORK_TORCHTITAN, "torchtitan")                                                          \
    X(FRAMEWORK_MEGATRON, "megatron")                                                              \
    X(FRAMEWORK_DEEPSPEED, "deepspeed")                                                            \
    X(FRAMEWORK_ACCELERATE, "accelerate") X(FRAMEWORK_OTHER, "other")
enum spec_framework { SPEC_FRAMEWORKS(SPEC_ENUM_) };

#define SPEC_PRECISIONS(X)                                                                         \
    X(PRECISION_BF16, "bf16")                                                                      \
    X(PRECISION_FP16, "fp16")                                                                      \
    X(PRECISION_FP32, "fp32") X(PRECISION_TF32, "tf32") X(PRECISION_FP8, "fp8")
enum spec_precision { SPEC_PRECISIONS(SPEC_ENUM_) };

#define SPEC_RECOMPUTES(X)                                                                         \
    X(RECOMPUTE_AUTO, "auto")                                                                      \
    X(RECOMPUTE_NONE, "none") X(RECOMPUTE_SELECTIVE, "selective") X(RECOMPUTE_FULL, "full")
enum spec_recompute { SPEC_RECOMPUTES(SPEC_ENUM_) };

#define SPEC_MODEL_KINDS(X)                                                                        \
    X(MODEL_EMBEDDING, "embedding") X(MODEL_RERANK, "rerank") X(MODEL_CLASSIFY, "classify")
enum spec_model_kind { SPEC_MODEL_KINDS(SPEC_ENUM_) };

#define SPEC_DEVICES(X) X(DEVICE_AUTO, "auto") X(DEVICE_GPU, "gpu") X(DEVICE_CPU, "cpu")
enum spec_device { SPEC_DEVICES(SPEC_ENUM_) };
#define SPEC_POOL_DEVICES(X) X(POOL_GPU, "gpu") X(POOL_CPU, "cpu")
enum spec_pool_device { SPEC_POOL_DEVICES(SPEC_ENUM_) };
#define SPEC_LOADS(X) X(LOAD_AT_START, "at_start") X(LOAD_ON_DEMAND, "on_demand")
enum spec_load { SPEC_LOADS(SPEC_ENUM_) };

#define SPEC_DTYPES(X)                                                                             \
    X(DTYPE_AUTO, "auto")                                                                          \
    X(DTYPE_F32, "f32")                                                                            \
    X(DTYPE_F16, "f16") X(DTYPE_BF16, "bf16") X(DTYPE_INT8, "int8") X(DTYPE_FP8, "fp8")
enum spec_dtype { SPEC_DTYPES(SPEC_ENUM_) };

#define SPEC_POOLINGS(X)                                                                           \
    X(POOLING_AUTO, "auto") X(POOLING_MEAN, "mean") X(POOLING_CLS, "cls") X(POOLING_LAST, "last")
enum spec_pooling { SPEC_POOLINGS(SPEC_ENUM_) };

/* metric, its name, what it counts */
#define SPEC_METRICS(X)                                                                            \
    X(METRIC_GPU_UTILIZATION, "gpu_utilization", PERCENT)                                          \
    X(METRIC_GPU_MEMORY, "gpu_memory", PERCENT)                                                    \
    X(METRIC_GPU_MEMORY_UNUSED, "gpu_memory_unused", BYTES)                                        \
    X(METRIC_GPU_TEMPERATURE, "gpu_temperature", CELSIUS)                                          \
    X(METRIC_GPU_POWER, "gpu_power", WATT)                                                         \
    X(METRIC_GPU_TENSOR, "gpu_tensor_activity", PERCENT)                                           \
    X(METRIC_GPU_THROTTLE, "gpu_throttle_time", PERCENT)                                           \
    X(METRIC_GPU_ECC_DOUBLE, "gpu_ecc_double_bit", COUNT)                                          \
    X(METRIC_GPU_REMAP, "gpu_remapped_rows", COUNT)                                                \
    X(METRIC_GPU_XID, "gpu_xid", COUNT)                                                            \
    X(METRIC_NVLINK_RATE, "nvlink_rate", BPS)                                                      \
    X(METRIC_NVLINK_ERRORS, "nvlink_errors", COUNT)                                                \
    X(METRIC_PCIE_RATE, "pcie_rate", BPS)                                                          \
    X(METRIC_PCIE_REPLAYS, "pcie_replays", COUNT)                                                  \
    X(METRIC_RDMA_LINK_DOWN, "rdma_link_down", COUNT)                                              \
    X(METRIC_RDMA_FLAPS, "rdma_link_flaps", COUNT)                                                 \
    X(METRIC_CPU_UTILIZATION, "cpu_utilization", PERCENT)                                          \
    X(METRIC_DISK_USED, "disk_used", PERCENT)                                                      \
    X(METRIC_SWAP_USED, "swap_used", PERCENT)                                                      \
    X(METRIC_SAMPLES, "samples_per_second", PER_S)                                                 \
    X(METRIC_REQUESTS, "requests_per_second", PER_S)                                               \
    X(METRIC_QUEUE_AGE, "queue_age", MS)                                                           \
    X(METRIC_QUEUE_LENGTH, "queue_length", COUNT)                                                  \
    X(METRIC_LATENCY_P50, "latency_p50", MS)                                                       \
    X(METRIC_LATENCY_P99, "latency_p99", MS)                                                       \
    X(METRIC_ERROR_RATE, "error_rate", PERCENT)                                                    \
    X(METRIC_COST_DAY, "cost_per_day", MONEY)                                                      \
    X(METRIC_COST_TASK_RISE, "cost_per_task_rise", PERCENT)                                        \
    X(METRIC_POOL_USED, "pool_used", PERCENT)                                                      \
    X(METRIC_CUSTOM, "custom", COUNT)
#define SPEC_ENUM3_(id, text, unit) SPEC_##id,
enum spec_metric { SPEC_METRICS(SPEC_ENUM3_) };

#define SPEC_HOWS(X)                                                                               \
    X(HOW_VALUE, "value")                                                                          \
    X(HOW_RATE, "rate")                                                                            \
    X(HOW_INCREASE, "increase") X(HOW_MEAN, "mean") X(HOW_ABSENT, "absent")
enum spec_how { SPEC_HOWS(SPEC_ENUM_) };

#define SPEC_SEVERITIES(X)                                                                         \
    X(SEVERITY_UNCHANGED, "unchanged")                                                             \
    X(SEVERITY_INFO, "info") X(SEVERITY_WARNING, "warning") X(SEVERITY_CRITICAL, "critical")
enum spec_severity { SPEC_SEVERITIES(SPEC_ENUM_) };

#define SPEC_SIDES(X) X(SIDE_ABOVE, "above") X(SIDE_BELOW, "below")
enum spec_side { SPEC_SIDES(SPEC_ENUM_) };

#define SPEC_OVERRUNS(X) X(OVERRUN_WARN, "warn") X(OVERRUN_HOLD, "hold") X(OVERRUN_STOP, "stop")
enum spec_overrun { SPEC_OVERRUNS(SPEC_ENUM_) };

#define SPEC_PREEMPTS(X)                                                                           \
    X(PREEMPT_OFF, "off")                                                                          \
    X(PREEMPT_REQUEUE, "requeue") X(PREEMPT_SUSPEND, "suspend") X(PREEMPT_CANCEL, "cancel")
enum spec_preempt { SPEC_PREEMPTS(SPEC_ENUM_) };

#define SPEC_JOB_KINDS(X)                                                                          \
    X(JOB_JOB, "job")                                                                              \
    X(JOB_STATEFULSET, "statefulset")                                                              \
    X(JOB_PYTORCHJOB, "pytorchjob") X(JOB_TRAINJOB, "trainjob") X(JOB_JOBSET, "jobset")
enum spec_job_kind { SPEC_JOB_KINDS(SPEC_ENUM_) };

#define SPEC_TAKES(X) X(TAKES_AUTO, "auto") X(TAKES_OWN, "own") X(TAKES_ALL, "all")
enum spec_takes { SPEC_TAKES(SPEC_ENUM_) };

#define SPEC_MIG_STRATEGIES(X) X(MIG_MIXED, "mixed") X(MIG_SINGLE, "single")
enum spec_mig_strategy { SPEC_MIG_STRATEGIES(SPEC_ENUM_) };

#define SPEC_DCGM_NAMES(X) X(DCGM_OLD, "old") X(DCGM_NEW, "new") X(DCGM_BOTH, "both")
enum spec_dcgm_names { SPEC_DCGM_NAMES(SPEC_ENUM_) };

/* --- what there is --- */
struct spec_site {
    const char *name, *description, *owner, *contact;
    struct spec_pairs labels;
};

struct spec_software { /* minimum versions, for the deployment checklist */
    const char *driver, *cuda, *kernel, *cudnn, *nccl, *python, *torch; /* NULL: not asked */
    bool container_runtime, dcgm;
};

struct spec_gpu {
    const char *model;
    struct maybe memory_bytes, memory_bps, link_bps, power_w;
    enum spec_link link;
    bool persistence, ecc;
    enum spec_compute_mode compute_mode;
    enum spec_sharing sharing;
    const char *mig_profile;
    struct maybe power_limit_w, clock_mhz;
};

struct spec_nics { /* what a group's NICs on a fabric differ in; see spec_group_nics() */
    const char *fabric;
    struct maybe count, rate_bps;
    struct spec_strs interfaces, hcas, pfs;
};
struct spec_node { /* a group of equal machines */
    const char *name;
    enum spec_role role;
    enum spec_arch arch;
    int64_t count;
    const char *hosts; /* "gpu[1-4]"; NULL: NAME[1-COUNT] */
    int64_t gpus_per_node;
    struct maybe nvlink_domain; /* GPUs that NVLink joins across machines; unset: within one */
    struct spec_gpu *gpu;       /* NULL: none described */
    int64_t sockets, threads_per_core;
    struct maybe cpu_cores, memory_bytes, local_disk_bytes;
    const char *local_path;
    struct spec_strs fabrics;
    struct spec_nics *nics; /* by fabric */
    size_t nics_count;
    const char *rack;
    enum spec_capacity capacity;
    const char *instance;
    struct spec_strs fallback;
    int64_t notice_ms;
    struct spec_pairs labels;
    struct spec_strs taints;
    struct spec_money price, capex;
    struct maybe power_w;
};

struct spec_sriov {
    const char *resource_prefix, *vendor, *device, *network_namespace;
    struct spec_strs pfs; /* of the machines, one for each NIC; none: any of the vendor's */
    int64_t vfs;
    enum spec_ipam ipam;
    struct spec_pairs node_selector;
};
struct spec_switch {
    const char *name;
    const char *hosts;
    struct spec_strs switches;
};
struct spec_fabric {
    const char *name;
    enum spec_fabric_kind kind;
    int64_t rate_bps;      /* a NIC */
    int64_t nics_per_node; /* unless the group says otherwise: spec_group_nics() */
    int64_t nics_most;     /* of a machine of any group; not a key: derived */
    struct spec_strs interfaces, hcas, subnets;
    int64_t mtu;
    bool gpudirect;
    struct maybe gid_index, traffic_class;
    struct spec_sriov *sriov; /* NULL: no virtual functions */
    struct spec_switch *switches;
    size_t switch_count;
};

struct spec_stripe {
    const char *match;
    int64_t count, size_bytes;
};
struct spec_storage {
    const char *name;
    enum spec_storage_kind kind;
    const char *path, *source, *storage_class;
    struct maybe size_bytes, read_bps, write_bps;
    enum spec_access_mode access;
    bool per_replica, keep, read_only;
    struct spec_stripe *stripes;
    size_t stripe_count;
    struct spec_money price_per_tb;
};

/* --- what runs on it --- */
struct spec_pool {
    const char *name;
    int64_t size_bytes;
    enum spec_pool_device device; /* whose memory it is; CPU: what follows `access` says nothing */
    enum spec_priority priority;
    enum spec_pattern access;
    const char *nodes; /* node group; NULL: the only one with GPUs */
    const char *gpus;  /* "0-3"; NULL: every GPU of the group */
    enum spec_sharing sharing;
};

struct spec_shape {
    const char *name;
    enum spec_shape_kind kind;
    const char *config;
    struct maybe params, layers, hidden, heads, kv_heads, ffn, vocab, seq_len;
    struct maybe experts, experts_per_token, shared_experts;
    bool tied_embeddings;
    struct spec_num flops_per_sample;
    struct maybe activation_bytes;
};

struct spec_parallel {
    struct maybe tensor, pipeline, data, context, expert, zero;
    bool sequence;
};
struct spec_loader {
    int64_t workers_per_gpu, prefetch;
    bool pin_memory, persistent_workers, drop_last;
};
struct spec_checkpoint {
    const char *path;
    struct maybe every_steps, every_ms;
    int64_t keep;
    bool on_notice, async;
};
struct spec_rendezvous {
    int64_t port, timeout_ms, max_restarts;
};
struct spec_training {
    const char *shape;
    enum spec_framework framework;
    enum spec_precision precision;
    struct maybe global_batch, batch_per_gpu, seq_len, tokens, steps, epochs;
    struct spec_num learning_rate;
    const char *optimizer;
    enum spec_recompute recompute;
    bool sync_batch_norm;
    const char *allocator;
    struct spec_parallel parallel;
    struct spec_loader loader;
    struct spec_checkpoint checkpoint;
    struct spec_rendezvous rendezvous;
};

struct spec_scale {
    int64_t min, max, step;
    enum spec_metric metric;
    struct spec_quantity target;
    int64_t up_after_ms, down_after_ms, cooldown_ms, verify_ms;
    struct maybe zero_after_ms;
    bool predict, rollback;
    struct spec_money max_cost;
};

struct spec_mount {
    const char *storage, *path, *subpath;
    bool read_only;
};
struct spec_port {
    const char *name;
    int64_t port;
    enum spec_protocol protocol;
};
struct spec_health {
    const char *path;
    struct maybe port;
    struct spec_strs command;
    int64_t interval_ms, timeout_ms, start_ms, retries;
};
struct spec_image_build { /* how a component's image is made */
    const char *base;
    struct spec_strs packages, pip, copy;
};
struct spec_component {
    const char *name, *description;
    enum spec_component_kind kind;
    enum spec_target target;
    struct spec_strs groups; /* node groups; see spec_component_group() */
    const char *nodes;       /* the first of them; NULL: the only one with GPUs */
    int64_t gpus;            /* a node it runs on */
    int64_t nodes_per_replica, replicas;
    bool queued;
    const char *image, *workdir, *user;
    struct spec_strs command, args, depends_on;
    struct spec_pairs env;
    struct maybe cpus, memory_bytes, shm_bytes;
    struct spec_strs egress; /* spec_egress() reads each */
    struct spec_strs pools, fabrics;
    struct spec_mount *mounts;
    size_t mount_count;
    struct spec_port *ports;
    size_t port_count;
    struct spec_health *health; /* NULL: none */
    enum spec_restart restart;
    enum spec_priority priority;
    struct maybe time_limit_ms;
    const char *partition, *qos, *account;
    struct spec_training *training; /* NULL: not a training component */
    struct spec_scale *scale;       /* NULL: replicas are fixed */
    struct spec_image_build *build; /* NULL: the image exists already */
};

struct spec_traffic {
    const char *from, *to;
    enum spec_traffic_kind kind;
    struct maybe rate_bps, bytes_per_step, latency_ms_max;
};

struct spec_model {
    const char *name, *source, *revision;
    enum spec_model_kind kind;
    const char *component; /* NULL: served by `stoker serve` of every node */
    enum spec_device device;
    enum spec_dtype dtype;
    const char *gpus, *pool;
    const char *fallback; /* "auto", "none" or a device */
    bool fallback_at_start;
    enum spec_load load;
    struct maybe batch, batch_tokens, max_tokens, memory_bytes;
    bool normalize;
    enum spec_pooling pooling;
    enum spec_priority priority;
    struct spec_strs aliases;
    struct spec_pairs prompts;
};

struct spec_serve {
    const char *listen, *token_file, *admin_token_file, *tls_cert, *tls_key;
    struct spec_strs allow_origin;
    int64_t port, rerank_port;
    int64_t items_max, body_bytes_max, queue_max, connections_max, users_max;
    int64_t text_bytes_max; /* 0: by the model's length */
    int64_t calls_bytes_max;
    int64_t timeout_ms, timeout_max_ms, batch_ms, body_total_ms, drain_ms, cache_bytes;
    bool any_model;
    const char *batch_dir; /* NULL: no files and batches */
    int64_t batch_bytes_max, batch_expiry_ms;
};

/* --- how it is watched --- */
struct spec_agent {
    bool enabled;
    const char *listen, *token_file, *admin_token_file, *tls_cert, *tls_key, *dcgm;
    int64_t port, metrics_port, interval_ms, fine_ms, coarse_ms, history_bytes;
    bool open_metrics;
    enum spec_dcgm_names dcgm_names;
    struct spec_strs scrape, peers;
};

struct spec_goal {
    const char *name;
    enum spec_metric metric;
    struct spec_quantity min, max;
};
struct spec_alert {
    const char *name;
    enum spec_metric metric;
    enum spec_side when;
    const char *series; /* of metric custom: its id or name */
    enum spec_how how;  /* of metric custom */
    struct maybe window_ms;
    struct spec_quantity warn, critical, clear;
    int64_t for_ms, keep_ms;
    struct spec_strs nodes, components;
    const char *summary, *runbook;
};
struct spec_default_alert { /* what is changed of a rule of data/alerts.csv */
    const char *name;
    bool off;
    struct spec_quantity threshold, clear;
    struct maybe for_ms, keep_ms;
    enum spec_severity severity;
    const char *summary, *runbook;
};
struct spec_notify {
    const char *alertmanager, *webhook, *webhook_token_file, *ca_file;
    struct spec_strs command;
    bool log, page;
};

/* --- what it costs --- */
struct spec_prices {
    struct spec_money gpu_hour, energy_per_kwh, storage_per_tb, egress_per_gb, colo_per_kw;
    double pue;
    int64_t years;
    struct spec_num reserved_discount_pct, spot_discount_pct;
};
struct spec_share {
    const char *name; /* a component */
    struct spec_money day, month;
};
struct spec_budgets {
    struct spec_money day, month;
    double warn_pct;
    enum spec_overrun overrun;
    int64_t forecast_days;
    struct spec_share *components;
    size_t component_count;
};

/* --- what it is written out for --- */
struct spec_partition {
    const char *name;
    struct spec_strs nodes;
    bool is_default;
    struct maybe time_limit_ms, default_time_ms;
    int64_t priority;
    struct spec_strs qos;
    enum spec_preempt preempt;
};
struct spec_qos {
    const char *name;
    int64_t priority;
    struct maybe max_gpus, max_jobs, max_time_ms;
    struct spec_strs preempts;
    int64_t grace_ms;
};
struct spec_account {
    const char *name;
    int64_t share;
    struct spec_strs users, qos;
    struct maybe max_gpus;
};
struct spec_slurm_priority {
    int64_t age, fair_share, job_size, partition, qos, half_life_ms, max_age_ms;
};
struct spec_backfill {
    bool enabled;
    int64_t interval_ms;
    int64_t window_ms; /* unless the file says it, the longest time limit at least */
    int64_t max_jobs;
};
struct spec_accounting {
    bool enabled;
    const char *host, *database;
    bool enforce_limits;
};
struct spec_power_save {
    int64_t suspend_after_ms, resume_timeout_ms, suspend_timeout_ms;
    const char *resume_program, *suspend_program;
};
struct spec_slurm {
    const char *cluster, *controller, *version, *state_dir, *log_dir;
    const char *backup_controller; /* NULL: none */
    struct spec_partition *partitions;
    size_t partition_count;
    struct spec_qos *qos;
    size_t qos_count;
    struct spec_account *accounts;
    size_t account_count;
    struct spec_slurm_priority priority;
    struct spec_backfill backfill;
    enum spec_preempt preempt;
    bool gang;
    int64_t timeslice_ms;
    struct spec_accounting accounting;
    int64_t health_check_ms;
    struct spec_power_save *power_save; /* NULL: nodes stay on */
};
struct spec_kubernetes {
    const char *namespace, *version, *storage_class, *queue, *runtime_class;
    enum spec_job_kind job;
    enum spec_takes components; /* see spec_kubernetes_takes() */
    bool gpu_operator, network_policy;
    enum spec_mig_strategy mig_strategy;
    const char *priority_class;
    const char *stoker_image; /* NULL: that of a serving component, else "stoker" */
    struct spec_strs pull_secrets;
};
struct spec_build {
    const char *git, *ref, *containerfile, *context;
};
struct spec_openshift {
    const char *namespace, *version, *image_stream, *service, *service_account, *scc;
    const char *storage_class;
    const char *stoker_image; /* NULL: that of a serving component, else the project's own */
    bool network_policy;
    enum spec_mig_strategy mig_strategy;
    struct spec_build *build; /* NULL: the image exists already */
};
struct spec_compose {
    const char *project, *mps_dir;
    bool mps;
};
struct spec_systemd {
    const char *user, *group, *state_dir, *log_dir;
    bool harden;
    int64_t watchdog_ms;
};
struct spec_prometheus {
    const char *url;
    int64_t scrape_ms, evaluate_ms, retention_ms;
    struct spec_strs alertmanagers;
};
struct spec_grafana {
    const char *folder, *datasource;
};
struct spec_lustre {
    const char *fsname;
    const char *mgs;      /* NIDs: ':' between servers that stand in for each other, ',' of one */
    const char *metadata; /* node group of MGS and MDTs; NULL: a quarter of the storage machines */
    int64_t mdts, osts;
    bool failover;             /* each target may move to the next server of its kind */
    struct spec_strs networks; /* of LNet: "o2ib(ib0)" */
    const char *mount_options; /* of clients */
};
struct spec_targets { /* NULL: not written out */
    struct spec_slurm *slurm;
    struct spec_kubernetes *kubernetes;
    struct spec_openshift *openshift;
    struct spec_compose *compose;
    struct spec_systemd *systemd;
    struct spec_prometheus *prometheus;
    struct spec_grafana *grafana;
    struct spec_lustre *lustre;
};

struct spec_nccl {
    struct spec_pairs env;
};

struct spec_priv;
struct spec {
    enum spec_version version;
    struct spec_strs includes; /* as the file names them; what is in them is in the spec */
    struct spec_site site;
    struct spec_software software;
    struct spec_node *nodes;
    size_t node_count;
    struct spec_fabric *fabrics;
    size_t fabric_count;
    struct spec_nccl nccl;
    struct spec_storage *storage;
    size_t storage_count;
    struct spec_pool *pools;
    size_t pool_count;
    struct spec_shape *shapes;
    size_t shape_count;
    struct spec_component *components;
    size_t component_count;
    struct spec_traffic *traffic;
    size_t traffic_count;
    struct spec_model *models;
    size_t model_count;
    struct spec_serve serve;
    struct spec_agent agent;
    struct spec_goal *goals;
    size_t goal_count;
    struct spec_alert *alerts;
    size_t alert_count;
    struct spec_default_alert *default_alerts;
    size_t default_alert_count;
    struct spec_notify notify;
    struct spec_prices prices;
    struct spec_budgets budgets;
    struct spec_targets targets;
    struct spec_priv *priv; /* arena, file name, origins; only for spec/ */
};

/* --- errors and warnings --- */
struct spec_diag {
    const char *file; /* the one it stands in: the spec, or one that it includes */
    size_t file_no;   /* their order; 0: the spec */
    int line, col;    /* from 1, in characters; line 0: the file as a whole */
    const char *msg;
    const char *hint; /* a sentence; NULL: none */
    const char *text; /* the line it stands on; NULL: none */
};
struct spec_diags { /* all zero is an empty one; all in one arena */
    struct spec_diag items[SPEC_DIAGS_MAX];
    size_t count;
    size_t dropped; /* found beyond SPEC_DIAGS_MAX */
    /* What is taken, but not followed to the letter.  They are kept apart, so that count != 0 means
     * that the spec is refused. */
    struct spec_diag warnings[SPEC_WARNINGS_MAX];
    size_t warning_count;
    size_t warning_dropped;
    const char *file;
    struct spec_diags_mem *mem;
};
void spec_diags_release(struct spec_diags *d);
/* One more, of a spec that was loaded, at the value of `member` (as for spec_where()), with a hint
 * (NULL: none): for faults that only a later stage can see. */
void spec_diag_at(struct spec_diags *d, const struct spec *s, const void *member, const char *hint,
                  const char *fmt, ...) PRINTF_LIKE(5, 6);
/* The same as a warning: the spec is taken, and the user is told what is not as written.  One that
 * has been given at the same place already is not given again. */
void spec_diag_warn_at(struct spec_diags *d, const struct spec *s, const void *member,
                       const char *hint, const char *fmt, ...) PRINTF_LIKE(5, 6);
/* Of a load or a later stage, by line; the order of one line stays. */
void spec_diags_sort(struct spec_diags *d);
/* As for a terminal: "FILE:LINE:COL: message", the line with a caret, the hint. */
void spec_diags_print(const struct spec_diags *d, const struct term *term, struct buf *out);
/* "FILE:LINE:COL: warning: message" likewise. */
void spec_warnings_print(const struct spec_diags *d, const struct term *term, struct buf *out);
/* Arrays of {"file","line","column","message","hint"}. */
void spec_diags_json(const struct spec_diags *d, struct json_out *w);
void spec_warnings_json(const struct spec_diags *d, struct json_out *w);

/* --- loading --- */
/* RC_PARSE when the text has errors: all of them are in `diags` (which may be NULL), and
 * `err` holds the first one as "FILE:LINE:COL: message".  RC_FAIL, RC_NODEV or RC_LIMIT
 * with only `err` when the file cannot be read.  "-" is standard input. */
enum rc spec_load(const char *path, struct spec **out, struct spec_diags *diags,
                  struct err *err) MUST_USE;
enum rc spec_parse(const char *text, size_t len, const char *name, struct spec **out,
                   struct spec_diags *diags, struct err *err) MUST_USE;
/* The same with a reader for the files that it includes; `path` is relative to the spec's folder
 * and has been looked at: no "..", not absolute.  NULL: including is an error. */
struct spec_source {
    enum rc (*read)(void *ctx, const char *path, struct buf *out, struct err *err);
    void *ctx;
};
/* What a later stage finds in a spec, added to `diags`, and its result. */
struct spec_judge {
    enum rc (*fn)(struct spec *s, bool whole, struct spec_diags *diags, void *ctx, struct err *err);
    void *ctx;
};
/* spec_load(), and the later stage with it: a file without faults goes to the judge as a whole, and
 * is handed out when that one finds nothing; of one with faults, the judge's included, what has
 * none goes to the judge, until that one finds no more. */
enum rc spec_load_judged(const char *path, const struct spec_judge *judge, struct spec **out,
                         struct spec_diags *diags, struct err *err) MUST_USE;
/* What holds without a file: every default, no nodes, no components. */
struct spec *spec_default(void) MUST_USE;
void spec_free(struct spec *s); /* NULL is fine */

/* --- asking --- */
const char *spec_file(const struct spec *s); /* as given to the load */
struct spec_pos {
    int line, col;    /* line 0: a default, or not a value of this spec */
    const char *file; /* NULL: likewise; "stoker.yaml", or one that it includes */
    size_t file_no;   /* 0: the spec itself */
};
/* Where a value stands: `member` is its address, as in spec_where(s, &c->gpus). */
struct spec_pos spec_where(const struct spec *s, const void *member);
/* "Line 12", or "Line 12 of 'nodes.yaml'" where that is not the spec itself. */
enum { SPEC_LINE_WORDS_MAX = 320 };
const char *spec_line_words(const struct spec *s, const void *member,
                            char out[SPEC_LINE_WORDS_MAX]);
/* The keys that lead to it, "components.train.gpus"; NULL: a default.  Unlike a line it stays the
 * same when something else in the file is edited. */
const char *spec_path(const struct spec *s, const void *member);
/* What machines of a group were found to have, put in where the file has nothing or too much;
 * `from` says by whom ("the inventory of gpu1") and is what spec_path() then gives, behind the key
 * where the file has one.  Unknown members change nothing.  `s` has no other readers yet. */
struct spec_found {
    struct maybe cpu_cores, sockets, threads_per_core, memory_bytes;
};
/* Who it was, for a member that was learned; NULL: it was not. */
const char *spec_learned_from(const struct spec *s, const void *member);
void spec_node_learn(struct spec *s, const struct spec_node *n, const struct spec_found *found,
                     const char *from);

/* Each value that the file sets, not those that stay at their defaults, of one item of a section
 * ("components", &s->components[0]; "agent", &s->agent).  `key` is as in the reference, without the
 * names and numbers of items: "training.checkpoint.path", "mounts.path". */
typedef void spec_set_fn(void *ctx, const char *key, const void *member);
void spec_each_set(const struct spec *s, const char *section, const void *item, spec_set_fn *fn,
                   void *ctx);

/* By name; NULL when there is none. */
const struct spec_node *spec_node_find(const struct spec *s, const char *name);
const struct spec_fabric *spec_fabric_find(const struct spec *s, const char *name);
const struct spec_storage *spec_storage_find(const struct spec *s, const char *name);
const struct spec_pool *spec_pool_find(const struct spec *s, const char *name);
/* It says so, or the memory it takes does; false: on GPUs, or where its server thinks best. */
bool spec_model_on_cpu(const struct spec *s, const struct spec_model *m);
const struct spec_shape *spec_shape_find(const struct spec *s, const char *name);
const struct spec_component *spec_component_find(const struct spec *s, const char *name);
/* The node group a component or pool is on; `name` NULL is the only one with GPUs. */
const struct spec_node *spec_node_of(const struct spec *s, const char *name);
/* The node groups a component may run on, one after the other in its own order; NULL past the last
 * one.  Its machines are those of all of them together. */
const struct spec_node *spec_component_group(const struct spec *s, const struct spec_component *c,
                                             size_t i);
bool spec_model_is_fetched(const struct spec_model *m); /* its source is a name of the hub */
size_t spec_component_group_count(const struct spec *s, const struct spec_component *c);
/* Is the image a file of the machines, by its path?  only Slurm starts one. */
bool spec_image_is_file(const char *image);
/* Is it rendered for Kubernetes?  Others' components are, if they have an image and the spec says
 * so, or says nothing and no component is for Kubernetes. */
bool spec_kubernetes_takes_others(const struct spec *s);
bool spec_kubernetes_takes(const struct spec *s, const struct spec_component *c);
bool spec_component_on(const struct spec *s, const struct spec_component *c,
                       const struct spec_node *n);

/* The NICs of a machine of group `n` on fabric `f`: what the group says for itself, else what the
 * fabric says of all; `n` NULL: the fabric.  Every pointer is a member of the spec, so that
 * spec_where() takes it; the lists hold `count` names or none. */
struct spec_nics_of {
    int64_t count;
    int64_t rate_bps; /* a NIC */
    const struct spec_strs *interfaces, *hcas;
    const struct spec_strs *pfs; /* of virtual functions; never NULL */
    const void *count_at, *rate_at;
};
struct spec_nics_of spec_group_nics(const struct spec_node *n, const struct spec_fabric *f);
/* What a program on several fabrics may say to RoCE once, for all its devices: of each value, that
 * of the first RoCE fabric that has one (NULL: none has).  `*_other`: one that has another. */
struct spec_roce {
    const struct spec_fabric *gid_index, *gid_index_other;
    const struct spec_fabric *traffic_class, *traffic_class_other;
};
struct spec_roce spec_roce_of(const struct spec *s, const struct spec_strs *fabrics);
/* Is the group on the fabric? */
bool spec_group_on(const struct spec_node *n, const struct spec_fabric *f);
/* A file system that every machine mounts at one path: lustre, gpfs, weka, beegfs, ceph, nfs. */
bool spec_storage_is_shared_fs(enum spec_storage_kind k);
/* "10.0.0.0/8:443", "fd00::/8": the subnet, and its port (0: all).  False: it is neither. */
enum { SPEC_CIDR_MAX = 64 };
bool spec_egress(const char *text, char out_cidr[SPEC_CIDR_MAX], int64_t *out_port);
/* GPUs that NVLink joins: the group's domain, else those of a machine, or 1 on PCIe. */
int64_t spec_group_nvlink_gpus(const struct spec_node *n);
/* Is index `i` in a list such as "0-3,6"?  NULL holds every index. */
bool spec_range_has(const char *range, int64_t i);
const char *spec_metric_name(enum spec_metric m);

/* --- machines by name, hosts.c --- */
/* Machines of a group one by one: "gpu[1-64]" or, without hosts, NAME1 .. NAMEn.  `out` holds
 * SPEC_NAME_MAX + 12 bytes; false past the end. */
bool spec_host(const struct spec_node *n, int64_t i, char *out, size_t cap);
/* All of them as one hostlist expression: "gpu[1-64]". */
void spec_hosts(const struct spec_node *n, struct buf *out);
/* The same one after the other, which is quicker than spec_host() for long lists:
 *     for (spec_walk(&w, n); spec_walk_next(&w);) use(w.name); */
struct spec_walk {
    char name[SPEC_NAME_MAX + 12];
    const struct spec_node *node; /* without a list: NAME1 ..; NULL: only a list */
    const char *at;               /* the rest of the list */
    const char *in, *close, *end; /* the rest of a bracket, its end, the end of its item */
    const char *item, *open;
    int64_t next, last; /* of a range */
    int width;
};
void spec_walk(struct spec_walk *w, const struct spec_node *n);
void spec_walk_list(struct spec_walk *w, const char *hosts);
bool spec_walk_next(struct spec_walk *w);
/* An address whose host may be a list: http://gpu[1-8]:8090/x is "http://", "gpu[1-8]" and
 * ":8090/x", in the arena; without a list, as [::1] is, `hosts` is NULL.  What is wrong with the
 * list, or NULL. */
struct spec_address {
    const char *head, *hosts, *tail;
};
const char *spec_address_split(const char *text, struct arena *a, struct spec_address *out);

/* --- writing --- */
/* The whole spec as YAML.  What the file does not give is a comment, "# key: value  # default": a
 * key that is left open can mean more than its default, and the output is the same spec again. */
enum spec_show_flags {
    SPEC_SHOW_ALL = 1,   /* keys that are not set, as comments */
    SPEC_SHOW_LINES = 2, /* "# line 12"; a copy for others does without, to stay the same */
    SPEC_SHOW_AGENT = 4, /* what the agent gets: no environment of components, it may be secret */
    SPEC_SHOW_SET = 8    /* no defaults, only what the file gives */
};
void spec_show(const struct spec *s, const struct term *term, unsigned flags, struct buf *out);
/* A copy for other programs: what the file gives, less the keys of `without`, which are paths of
 * sections, lists and maps ("models", "budgets.components") up to a NULL; NULL: all of it. */
void spec_show_set(const struct spec *s, unsigned flags, const char *const *without,
                   struct buf *out);
/* The same as JSON: {"schema","file","spec":{…},"origins":[{"path","line","col"},…]}. */
void spec_show_json(const struct spec *s, struct buf *out);
/* The reference of a key and what is below it ("" or NULL: all), for a terminal. */
enum rc spec_doc(const char *path, const struct term *term, struct buf *out,
                 struct err *err) MUST_USE;
/* docs/reference/spec.md */
enum rc spec_doc_json(const char *path, struct buf *out, struct err *err) MUST_USE;
void spec_doc_markdown(struct buf *out);

/* --- examples, compiled in --- */
struct spec_example {
    const char *name;
    const char *what; /* one line */
    const char *text;
    size_t len;
};
size_t spec_example_count(void);
struct spec_example spec_example_at(size_t i); /* sorted by name */
bool spec_example_find(const char *name, struct spec_example *out);

#endif
