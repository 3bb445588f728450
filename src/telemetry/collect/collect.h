/* SPDX-License-Identifier: MIT */
/* collect: sources of telemetry.
 *
 * Host sources read files below a root (os/root.h, so that captured machines and tests work) and
 * are called in turn by the agent's collector thread; none may block longer than its deadline.
 * What may block for ever (the driver, a dead NFS server) runs in a child (gpu/gpu_child.h) or in a
 * thread that may be left alone (mounts_probe.c). */
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

#endif
