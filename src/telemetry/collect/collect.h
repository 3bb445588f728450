/* SPDX-License-Identifier: MIT */
/* collect: sources of telemetry.
 *
 * Host sources read files below a root (os/root.h, so that captured machines and tests work) and
 * are called in turn by the agent's collector thread; none may block longer than its deadline.
 * What may block for ever (the driver, a dead NFS server) runs in a child: collect_gpu. */
#ifndef TELEMETRY_COLLECT_COLLECT_H
#define TELEMETRY_COLLECT_COLLECT_H
#include "os/root.h"
#include "telemetry/telemetry.h"

/* A host source: reads, and writes one batch into `t`. */
struct collector {
    const char *name;
    int period_ms; /* default */
    /* State between calls (rates, previous counters); NULL: none. */
    void *(*open)(const struct root *root, struct telemetry *t);
    void (*sample)(void *state, struct telemetry *t, int64_t now_ns);
    void (*close)(void *state);
};
extern const struct collector collect_cpu, collect_memory, collect_pressure, collect_disk,
    collect_net, collect_rdma, collect_lustre, collect_nfs, collect_mounts, collect_jobs,
    collect_self;
extern const struct collector *const collectors[]; /* ends with NULL */

/* ---- kmsg: lines of /dev/kmsg (or a file of a test) become events; never blocks */
struct kmsg;
struct kmsg *kmsg_open(const struct root *root, const char *path); /* path NULL: /dev/kmsg */
size_t kmsg_poll(struct kmsg *k,
                 struct telemetry *t); /* events added; a flood is counted and cut */
void kmsg_close(struct kmsg *k);
int kmsg_fault_errno(const struct kmsg *k); /* why it cannot be read; 0: it can */
/* XID or SXID of a kernel line: false when it has none.  gpu is its PCI address as text. */
bool kmsg_xid(const char *line, int *code, char bdf[24], char *text, size_t cap);
/* Is the code an NVSwitch's (SXID)?  They begin where a GPU's end. */
bool xid_is_switch(int code);
/* What a code means (data/xid.csv); false: not in the table. */
enum xid_severity { XID_INFO, XID_WARNING, XID_CRITICAL };
struct xid_info {
    int code;
    enum xid_severity severity;
    char mnemonic[64], action[24], text[128];
};
bool xid_find(int code, struct xid_info *out);
/* "NAME: cause; action: reboot", or that the table lacks it. */
void xid_words(int code, char *out, size_t cap);

/* ---- lines of the log that tell of failing hardware, or of a kernel that is stuck */
enum { KMSG_DEVICE_MAX = 48, KMSG_FAULT_COUNT_MAX = 100000 };
enum kmsg_fault_kind {
    KMSG_FAULT_AER_FATAL, /* PCIe */
    KMSG_FAULT_AER_NONFATAL,
    KMSG_FAULT_AER_CORRECTED,
    KMSG_FAULT_MCE, /* machine check, by the CPU or its firmware */
    KMSG_FAULT_MCE_CORRECTED,
    KMSG_FAULT_EDAC_UE, /* the memory's controller */
    KMSG_FAULT_EDAC_CE,
    KMSG_FAULT_MEMORY, /* a page was taken out of use */
    KMSG_FAULT_NVME,
    KMSG_FAULT_HUNG_TASK
};
struct kmsg_fault {
    enum kmsg_fault_kind kind;
    unsigned count;               /* that the line tells of */
    bool announced;               /* a line of the device itself may follow, of the same error */
    char device[KMSG_DEVICE_MAX]; /* address, CPU, module, disk, task; "": not named */
};
bool kmsg_fault(const char *line, struct kmsg_fault *out);
const char *kmsg_fault_word(enum kmsg_fault_kind k); /* "aer_fatal" */
/* Does a switch's error, in the words of its event, end the work of its fabric? */
bool kmsg_sxid_fatal(int code, const char *text);
struct kmsg_stats {
    uint64_t lines, lost, cut; /* read; gone before they were read; events left out in a flood */
};
void kmsg_stats(const struct kmsg *k, struct kmsg_stats *out);

/* The GPU that a line of the log is about, by the addresses of GPUs that `t` has; its address as
 * the log has it, "": it names none. */
void kmsg_locate(const struct telemetry *t, struct telemetry_event *io, char bdf[24]);

/* ---- XIDs that two sources tell, each counted once (xid_count.c); one thread */
enum { XID_COUNT_WINDOW_MS = 300000 }; /* as DCGM's exporter counts them */
struct xid_count {
    int gpu; /* -1: only its address is known */
    char bdf[24];
    int code;
    double total, window; /* since the beginning, in the last XID_COUNT_WINDOW_MS */
};
struct xid_counts;
struct xid_counts *xid_counts_new(void);
/* False: the other side told of it already. */
bool xid_counts_take(struct xid_counts *x, int gpu, const char *bdf, int code, bool of_log,
                     int64_t time_ns);
/* NULL behind the last; valid until it is asked for again. */
const struct xid_count *xid_counts_get(struct xid_counts *x, size_t i, int64_t now_ns);
void xid_counts_free(struct xid_counts *x); /* NULL is fine */

/* ---- whose is this process */
struct owner {
    char slurm_job[32], pod_uid[40], container[72], unit[128], user[64], command[64];
    char pod[254], pod_namespace[64], pod_container[64]; /* names, "": not known */
};
bool owner_of(const struct root *root, int pid, struct owner *out);
/* What it takes of the host; false, with *out untouched, when it is gone or may not be read. */
struct process_use {
    double cpu_s, rss_bytes; /* CPU time of its own so far, children left out; resident memory */
};
bool process_use(const struct root *root, int pid, struct process_use *out);

/* ---- Prometheus text of an application into the table (A6's custom metrics) */
enum rc prom_parse_take(struct telemetry *t, unsigned source, const char *text, size_t len,
                        int64_t now_ns, const struct telemetry_label *extra, size_t extra_count,
                        struct err *err) MUST_USE;
/* Only its samples, one after the other; what `s` points to is valid in the call. */
struct prom_parse_sample {
    const char *name;
    const struct telemetry_label *labels;
    size_t label_count;
    double value;
};
enum rc prom_parse_each(const char *text, size_t len,
                        void (*fn)(void *arg, const struct prom_parse_sample *s), void *arg,
                        struct err *err) MUST_USE;

/* ---- GPUs: a child process that alone speaks with the driver and sends a stream (stream.h) */
struct gpu_child_opts {
    const char *nvml;        /* the library; NULL: libnvidia-ml.so.1 */
    int period_ms;           /* 1000 */
    int hang_ms;             /* without a sign of life: hung; 5000 */
    const struct root *root; /* for owners of processes */
    const char *root_path;   /* of a captured one, which the child opens by itself; NULL: none */
};
enum gpu_child_state {
    GPU_CHILD_OFF,
    GPU_CHILD_RUNS,
    GPU_CHILD_HUNG,
    GPU_CHILD_RELEASED,
    GPU_CHILD_NO_DRIVER
};
struct gpu_child;
struct gpu_child *gpu_child_new(const struct gpu_child_opts *o, struct telemetry *t);
/* To be called in turn with the host sources: reads what came, watches, restarts with backoff.
 * Never blocks. */
void gpu_child_turn(struct gpu_child *c, int64_t now_ns);
int gpu_child_fd(const struct gpu_child *c); /* readable when there is something; -1: none */
enum gpu_child_state gpu_child_state(const struct gpu_child *c);
/* A call has not returned: of the child that runs, or of one that was left alone. */
bool gpu_child_hangs(const struct gpu_child *c);
/* The call that hangs, since when, and where the kernel has it (wchan, syscall); "" when none. */
void gpu_child_why(const struct gpu_child *c, struct buf *out);
void gpu_child_release(struct gpu_child *c); /* lets go of the driver: for resets and upgrades */
void gpu_child_attach(struct gpu_child *c);
/* Asks the child to end and waits for it, a little; one that hangs is left.  By the thread of
 * gpu_child_turn(), before it ends: no child outlives the thread that started it. */
void gpu_child_end(struct gpu_child *c); /* NULL is fine */
void gpu_child_free(struct gpu_child *c);
/* What the child runs (stoker agent --gpu-child FD). */
int gpu_child_main(const struct gpu_child_opts *o, int fd);
/* One full sample as JSON with the cost of each call, made by this very process (stoker agent
 * --gpu-sample): it takes two periods and hangs when the driver does. */
enum rc gpu_sample_json(const struct gpu_child_opts *o, struct buf *out, struct err *err) MUST_USE;

#endif
