/* SPDX-License-Identifier: MIT */
/* slurm_int: what the files of the slurm target share.  Nobody else includes it. */
#ifndef RENDER_SLURM_SLURM_INT_H
#define RENDER_SLURM_SLURM_INT_H
#include "render/render_int.h"

struct hw;

/* Where the files of slurm/ are copied to on every machine; Debian's place for them. */
#define SLURM_ETC "/etc/slurm"
/* The partitions of a spec that names none: machines with GPUs (or all, where none has any), those
 * without, and both, for jobs that name groups of either kind. */
#define SLURM_MAIN "main"
#define SLURM_CPU  "cpu"
#define SLURM_ALL  "all"
/* The switch above all racks, and the one above the switches of a fabric and who is on none. */
#define SLURM_RACKS    "all-racks"
#define SLURM_SWITCHES "all-switches"

enum {
    SLURM_TIME_MAX = 32, /* "365-00:00:00" */
    SLURM_STOP_S = 30,   /* of a notice, for the job to be stopped in */
    SLURM_NOTICE_S_MIN = 2 * SLURM_STOP_S,
    SLURM_TYPE_MAX = 64,                 /* a GRES type: "h100" */
    SLURM_HOST_MAX = SPEC_NAME_MAX + 12, /* one host name, as for spec_host() */
};

/* What differs between releases, as far as our files go. */
struct slurm_version {
    const char *name;         /* "22.05" */
    bool cgroup_automount;    /* cgroup.conf has CgroupAutomount */
    bool cloud_reg_addrs;     /* SlurmctldParameters has it; later it is always so */
    bool private_cloud;       /* sleeping machines are hidden without PrivateData=cloud */
    bool srun_cpus_forgotten; /* srun does not take --cpus-per-task from the batch job */
    bool preempt_parameters;  /* PreemptParameters; before, its words are SlurmctldParameters */
    bool max_batch_requeue;   /* slurm.conf has MaxBatchRequeue; before it is 5 */
    bool auth_slurm;          /* auth/slurm can stand for MUNGE */
    bool topology_yaml;       /* topology.yaml can stand for topology.conf */
    bool requeue_delay;       /* SchedulerParameters has it; before cred_expire decides */
    bool blocks;              /* topology/block with BlockSizes, and --segment of jobs */
    bool small_blocks;        /* a block may have fewer machines than BlockSizes says */
    bool imex;                /* switch/nvidia_imex */
};
const struct slurm_version *slurm_version_find(const char *text); /* NULL: not known */
void slurm_versions_list(struct buf *out);                        /* "22.05, 23.02 …" */

struct slurm { /* one run of the target */
    struct render *r;
    const struct spec_slurm *s;
    const struct slurm_version *v;
    bool *others; /* by node group: it is another target's, see slurm.c */
};

/* --- slurm.c --- */
/* "Key=Value   # stoker.yaml:12" and the same with a reason instead. */
void slurm_line(struct slurm *c, struct buf *out, const void *member, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
void slurm_fixed(struct buf *out, const char *why, const char *fmt, ...) PRINTF_LIKE(3, 4);
void slurm_part(struct buf *out, const char *title); /* "# --- title ---" */
/* "7-00:00:00", rounded up to a second. */
const char *slurm_time(int64_t ms, char out[SLURM_TIME_MAX]);
int64_t slurm_seconds(int64_t ms); /* rounded up */
/* Is this group part of the cluster, and does it sleep when idle? */
bool slurm_has(const struct slurm *c, const struct spec_node *n);
bool slurm_sleeps(const struct slurm *c, const struct spec_node *n);
bool slurm_power_saves(const struct slurm *c); /* does any group sleep? */
const struct spec_partition *slurm_partition(const struct slurm *c, const char *name);
const struct spec_qos *slurm_qos(const struct slurm *c, const char *name);
const struct spec_account *slurm_account(const struct slurm *c, const char *name);
/* Partitions beside SLURM_MAIN of a spec that names none; NULL behind the last. */
const struct spec_partition *slurm_implied(const struct slurm *c, size_t i);
bool slurm_is_implied(const struct spec_partition *p); /* SLURM_MAIN (NULL) or one of those */
/* Does a partition have this group?  One that lists none has every group with GPUs. */
bool slurm_partition_has(const struct slurm *c, const struct spec_partition *p,
                         const struct spec_node *n);
bool slurm_has_gpus(const struct slurm *c); /* has a machine of the cluster? */
/* All groups of a partition, in the order of the spec; the caller frees the array. */
const struct spec_node **slurm_partition_groups(const struct slurm *c,
                                                const struct spec_partition *p, size_t *count);

enum slurm_preempt { SLURM_PREEMPT_NONE, SLURM_PREEMPT_QOS, SLURM_PREEMPT_PARTITION };
enum slurm_preempt slurm_preempt_by(const struct slurm *c); /* who pushes whom aside */
bool slurm_is_job(const struct spec_component *k);          /* has an sbatch file */
int64_t slurm_job_nodes(const struct spec_component *k);    /* machines of one job */
const char *slurm_preempt_word(enum spec_preempt p);        /* "REQUEUE" */
bool slurm_suspends(const struct slurm *c);                 /* does preemption suspend anywhere? */

/* --- slurm_check.c: what slurm.conf cannot hold, and jobs that could never run --- */
void slurm_check(struct slurm *c);

/* --- slurm_hosts.c --- */
struct slurm_names { /* sorted once slurm_names_sort() was called */
    char **items;    /* owned, each too */
    size_t count, cap;
};
void slurm_names_add(struct slurm_names *n, const char *name);
void slurm_names_add_list(struct slurm_names *n, const char *hosts); /* "gpu[1-4]" */
void slurm_names_add_group(struct slurm_names *n, const struct spec_node *group);
void slurm_names_sort(struct slurm_names *n);
bool slurm_names_has(const struct slurm_names *n, const char *name);
void slurm_names_release(struct slurm_names *n);
/* The machines of a list or a group as Slurm reads them, to be released by the caller. */
struct buf slurm_hosts_list(const char *hosts);
struct buf slurm_hosts_of(const struct spec_node *n);
void slurm_hosts_add(struct buf *out, const struct spec_node *n); /* the same, appended */

/* --- slurm_nodes.c --- */
/* GRES type and count of a machine: "h100", 8; with MIG its profile and how many instances. */
const char *slurm_gpu_type(const struct spec_node *n, char out[SLURM_TYPE_MAX]);
int64_t slurm_gpu_count(const struct spec_node *n);
int64_t slurm_memory_mib(const struct spec_node *n); /* what jobs may have of a machine */
int64_t slurm_cpus(const struct spec_node *n);       /* hardware threads */
void slurm_nodes(struct slurm *c, struct buf *out);
void slurm_partitions(struct slurm *c, struct buf *out);
void slurm_gres_conf(struct slurm *c);

/* --- slurm_sharing.c: GPUs that several jobs use at once --- */
enum slurm_sharing { SLURM_SHARING_NONE, SLURM_SHARING_MPS, SLURM_SHARING_SHARD };
enum slurm_sharing slurm_sharing_of(const struct slurm *c, const struct spec_node *n);
const char *slurm_sharing_word(enum slurm_sharing s);  /* "mps", "shard" */
bool slurm_job_shares(const struct spec_component *k); /* has it part of a GPU? */
int64_t slurm_job_parts(const struct slurm *c, const struct spec_component *k,
                        const struct spec_node *n);
int64_t slurm_gpu_parts(const struct slurm *c, const struct spec_node *n); /* of a whole GPU */
bool slurm_has_mps(const struct slurm *c);
bool slurm_has_shards(const struct slurm *c);
void slurm_gres_types(const struct slurm *c, struct buf *out);
void slurm_node_parts(const struct slurm *c, const struct spec_node *n, struct buf *out);
void slurm_gres_parts(struct slurm *c, const struct spec_node *n, const char *hosts,
                      struct buf *out);

/* --- slurm_limits.c: what jobs get that ask for nothing, and limits that stand in each other's
 * way --- */
struct slurm_share {           /* of a machine: the least of some groups */
    int64_t cpu_mib;           /* memory for a hardware thread */
    int64_t gpu_cpus, gpu_mib; /* threads and memory for a GPU; 0: no GPUs */
};
struct slurm_share slurm_share_of(const struct spec_node *const *groups, size_t count);
bool slurm_partition_takes(const struct spec_partition *p, const struct spec_qos *q);
/* Do partitions keep QOS out?  Only users of accounts have one; others could not run a job. */
bool slurm_keeps_qos(const struct slurm *c);
int64_t slurm_default_time_ms(const struct slurm *c, const struct spec_partition *p);
/* The longest job of a QOS, at most what the partitions have that it may be used in, and the GPUs
 * of all their machines. */
struct maybe slurm_qos_time(const struct slurm *c, const struct spec_qos *q);
int64_t slurm_qos_gpus(const struct slurm *c, const struct spec_qos *q);
/* Whose `grace` the jobs of a QOS get: in Slurm the QOS of the job that must go decides.  Where the
 * spec says nothing there, the longest of those that push it aside. */
const struct spec_qos *slurm_grace(const struct slurm *c, const struct spec_qos *q);
/* The QOS of an account's jobs that name none, in a partition (NULL: any); NULL: none fits. */
const struct spec_qos *slurm_default_qos(const struct slurm *c, const struct spec_account *a,
                                         const struct spec_partition *p);
bool slurm_account_has(const struct spec_account *a, const struct spec_qos *q);

/* --- slurm_terms.c: on whose terms a job runs --- */
enum slurm_bars { /* why it never would */
                  SLURM_BAR_PARTITION_TIME = 1,
                  SLURM_BAR_NO_QOS = 2, /* the partition takes none of the account's */
                  SLURM_BAR_ACCOUNT_QOS = 4,
                  SLURM_BAR_QOS_TIME = 8,
                  SLURM_BAR_QOS_GPUS = 16,
                  SLURM_BAR_ACCOUNT_GPUS = 32,
                  SLURM_BAR_BLOCKS = 64 /* too few of its machines are in a block */
};
struct slurm_terms {
    const struct spec_partition *p; /* NULL: SLURM_MAIN; others may be implied, too */
    const struct spec_account *a;   /* NULL: none is needed */
    const struct spec_qos *q;       /* the one it names, or the account's default; NULL: none */
    struct maybe most_ms;           /* time that a job may ask for; unknown: no limit */
    unsigned bars;
};
/* In a partition, under the account that it names or the one that gives it most. */
struct slurm_terms slurm_terms_of(const struct slurm *c, const struct spec_component *k,
                                  const struct spec_partition *p);
/* The partition of a job: the one it names, or the first with its machines that can run it; when
 * none can, the first that has its machines and takes its QOS. */
const struct spec_partition *slurm_job_partition(const struct slurm *c,
                                                 const struct spec_component *k);
/* The QOS that a job asks for: the one it names, or where its partition does not take the usual one
 * of its account, that of the account there; NULL: none, or accounts do not agree on one. */
const struct spec_qos *slurm_job_qos(const struct slurm *c, const struct spec_component *k,
                                     const struct spec_partition *p);
void slurm_terms_check(struct slurm *c, const struct spec_component *k);

/* --- slurm_wishes.c: what the spec wants and Slurm cannot do, told as warnings --- */
void slurm_wishes(struct slurm *c);

/* --- slurm_blocks.c: NVLink domains of several machines --- */
int64_t slurm_domain_machines(const struct spec_node *n); /* 1: it ends with the machine */
bool slurm_has_blocks(const struct slurm *c);             /* and a release that can keep to them */
bool slurm_has_imex(const struct slurm *c);
int64_t slurm_job_domain(const struct slurm *c, const struct spec_component *k);
/* Machines of a job that must be of one domain: the most that divides them and
 * that the blocks hold often enough; 0: none. */
int64_t slurm_segment(const struct slurm *c, const struct spec_component *k);
void slurm_blocks_print(struct slurm *c, struct buf *out);
/* A group with machines in no block, which a partition (NULL: the only one) has beside blocks. */
const struct spec_node *slurm_blocks_miss(const struct slurm *c, const struct spec_partition *p);
/* Is a job given as many machines as it wants there, those in no block left out? */
bool slurm_blocks_hold(const struct slurm *c, const struct spec_component *k,
                       const struct spec_partition *p);

/* --- slurm_topology.c --- */
bool slurm_has_topology(const struct slurm *c);
void slurm_topology_conf(struct slurm *c);

/* --- slurm_conf.c, slurm_scripts.c, slurm_power.c, slurm_accounts.c, slurm_sbatch.c --- */
void slurm_conf(struct slurm *c);
void slurm_cgroup_conf(struct slurm *c);
void slurm_dbd_conf(struct slurm *c);
bool slurm_enforces(const struct slurm *c); /* do limits of accounts and QOS hold? */
void slurm_check_scripts(struct slurm *c);
void slurm_power_scripts(struct slurm *c);
void slurm_accounts(struct slurm *c);
void slurm_sbatch(struct slurm *c);
void slurm_install(struct slurm *c); /* slurm_install.c */

/* --- slurm_image.c: a job's image, with what the machine has for it --- */
void slurm_container(struct slurm *c, struct buf *out, const struct spec_component *k);

/* --- slurm_sweep.c --- */
/* "%16": how many tasks of an array run at once; "": no limit. */
const char *slurm_array_limit(const struct slurm *c, const struct spec_component *k,
                              char out[SLURM_TIME_MAX]);
void slurm_sweep(struct slurm *c, const struct spec_component *k);
void slurm_commands(struct slurm *c);

#endif
