/* SPDX-License-Identifier: MIT */
/* limits: what holds a node back, from the samples of a window.
 *
 *     window ─► facts of a GPU and its host ─► verdict: class, evidence, confidence, advice
 *
 * A fact is a share of what is possible (tensor cores busy 0.93 of the time, PCIe at 0.85 of its
 * bandwidth).  data/limits.csv says from where on a fact is a sign of a class, how sure that is,
 * what must hold besides, why, and what to do; docs/user/bottlenecks.md explains it.  Pure: no
 * clock, no files.
 *
 * A fact that is not known is never taken as zero: it is named in the verdict and makes it less
 * sure.  A part that the machine does not have (no RDMA port) is not missed. */
#ifndef BOTTLENECK_BOTTLENECK_H
#define BOTTLENECK_BOTTLENECK_H
#include "base/text/json.h"
#include "history/history.h"
#include "telemetry/window.h"

enum bottleneck_class {
    BOTTLENECK_UNKNOWN,  /* too little is known */
    BOTTLENECK_IDLE,     /* there is no work */
    BOTTLENECK_NONE,     /* there is work, and nothing is at its limit */
    BOTTLENECK_THROTTLE, /* clocks are held back by heat or power */
    BOTTLENECK_NVLINK,
    BOTTLENECK_NETWORK,
    BOTTLENECK_PCIE,
    BOTTLENECK_MEMORY, /* the GPU's memory bandwidth */
    BOTTLENECK_COMPUTE,
    BOTTLENECK_DATA, /* data loading */
    BOTTLENECK_HOST, /* CPUs, kernel launches */
    BOTTLENECK_CLASSES
};
const char *bottleneck_word(enum bottleneck_class c);  /* "memory": stable, for programs */
const char *bottleneck_title(enum bottleneck_class c); /* "memory bandwidth" */

enum bottleneck_fact {
    BOTTLENECK_F_UTIL,
    BOTTLENECK_F_SM,
    BOTTLENECK_F_TENSOR,
    BOTTLENECK_F_PIPES,
    BOTTLENECK_F_TINY,
    BOTTLENECK_F_DRAM,
    BOTTLENECK_F_MEM_UTIL,
    BOTTLENECK_F_PCIE,
    BOTTLENECK_F_NVLINK,
    BOTTLENECK_F_THERMAL,
    BOTTLENECK_F_BRAKE,
    BOTTLENECK_F_POWER_CAP,
    BOTTLENECK_F_CLOCK_LOST,
    BOTTLENECK_F_WORK,
    /* ---- of the host */
    BOTTLENECK_F_CPU,
    BOTTLENECK_F_CORE,
    BOTTLENECK_F_IOWAIT,
    BOTTLENECK_F_PRESSURE_CPU,
    BOTTLENECK_F_PRESSURE_IO,
    BOTTLENECK_F_PRESSURE_MEMORY,
    BOTTLENECK_F_DISK,
    BOTTLENECK_F_REMOTE,
    BOTTLENECK_F_FED,
    BOTTLENECK_F_NET,
    BOTTLENECK_F_RDMA,
    BOTTLENECK_FACTS
};
const char *bottleneck_fact_metric(enum bottleneck_fact f); /* "gpu.prof.tensor" */
/* A value of it in words: "the tensor cores work 93 % of the time". */
void bottleneck_fact_text(enum bottleneck_fact f, double value, struct buf *out);

struct bottleneck_facts {
    double at[BOTTLENECK_FACTS];   /* NaN: unknown */
    bool absent[BOTTLENECK_FACTS]; /* the machine has no such part */
    double seconds;                /* that the window spans */
    bool no_gpu;                   /* only the host */
};

/* ---- from a window */
extern const char *const bottleneck_metrics[]; /* what a window must watch; NULL-terminated */
/* `gpu` -1: of the host only. */
void bottleneck_facts_of(const struct window *w, int gpu, struct bottleneck_facts *out);
/* Numbers of the GPUs that a window knows, rising; returns how many. */
enum { BOTTLENECK_GPUS_MAX = 64 };
size_t bottleneck_gpus(const struct window *w, int *out, size_t cap);
/* `into` becomes the mean of both, each with the weight of its seconds. */
void bottleneck_facts_merge(struct bottleneck_facts *into, const struct bottleneck_facts *more);

/* ---- judging */
enum { BOTTLENECK_EVIDENCE_MAX = 8, BOTTLENECK_ROWS_MAX = 64 };
struct bottleneck_evidence {
    enum bottleneck_fact fact;
    double value, threshold;
    bool above;      /* the threshold is passed from below */
    const char *why; /* of the threshold; static */
};
struct bottleneck_verdict {
    enum bottleneck_class limit;
    double confidence;                                            /* 0 to 1 */
    double strength;                                              /* 0 to 1: how near its ceiling */
    struct bottleneck_evidence evidence[BOTTLENECK_EVIDENCE_MAX]; /* the strongest first */
    size_t evidence_count;
    enum bottleneck_class also; /* nearly as strong; BOTTLENECK_UNKNOWN: none */
    bool missing[BOTTLENECK_FACTS];
    const char *advice; /* static; never NULL */
};
void bottleneck_judge(const struct bottleneck_facts *f, struct bottleneck_verdict *out);

struct bottleneck_report {
    int64_t from_ns, to_ns;
    struct bottleneck_gpu {
        int gpu;
        struct bottleneck_verdict verdict;
    } gpus[BOTTLENECK_GPUS_MAX];
    size_t gpu_count;
    struct bottleneck_verdict node;
    int node_gpu; /* whose verdict the node's is; -1: the host's */
    size_t agree; /* GPUs with the node's class */
};
void bottleneck_report(const struct window *w, struct bottleneck_report *out);
/* The node's verdict from those of its GPUs, which are there already. */
void bottleneck_report_node(struct bottleneck_report *r);
void bottleneck_verdict_json(const struct bottleneck_verdict *v,
                             struct json_out *w); /* an object */
void bottleneck_report_json(const struct bottleneck_report *r,
                            struct json_out *w); /* members of one */

/* ---- from history: seconds of `from_ns` to `to_ns` into a window */
enum rc bottleneck_from_history(struct history *r, int64_t from_ns, int64_t to_ns, struct window *w,
                                struct err *err) MUST_USE;

#endif
