/* SPDX-License-Identifier: MIT */
/* limits: what holds a node back, from the samples of a window.
 *
 *     window ─► facts of a GPU and its host ─► verdict: class, evidence, confidence, advice
 *
 * A fact is a share of what is possible (tensor cores busy 0.93 of the time, PCIe at 0.85 of its
 * bandwidth).  data/limits.csv says from where on a fact is a sign of a class, how sure that is,
 * what must hold besides, why, and what to do; docs/bottlenecks.md explains it.  Pure: no clock, no
 * files.
 *
 * A fact that is not known is never taken as zero: it is named in the verdict and makes it less
 * sure.  A part that the machine does not have (no RDMA port) is not missed. */
#ifndef BOTTLENECK_BOTTLENECK_H
#define BOTTLENECK_BOTTLENECK_H
#include "base/text/json.h"
#include "history/history.h"
#include "telemetry/window.h"

enum limits_class {
    LIMITS_UNKNOWN,  /* too little is known */
    LIMITS_IDLE,     /* there is no work */
    LIMITS_NONE,     /* there is work, and nothing is at its limit */
    LIMITS_THROTTLE, /* clocks are held back by heat or power */
    LIMITS_NVLINK,
    LIMITS_NETWORK,
    LIMITS_PCIE,
    LIMITS_MEMORY, /* the GPU's memory bandwidth */
    LIMITS_COMPUTE,
    LIMITS_DATA, /* data loading */
    LIMITS_HOST, /* CPUs, kernel launches */
    LIMITS_CLASSES
};
const char *limits_word(enum limits_class c);  /* "memory": stable, for programs */
const char *limits_title(enum limits_class c); /* "memory bandwidth" */

enum limits_fact {
    LIMITS_F_UTIL,
    LIMITS_F_SM,
    LIMITS_F_TENSOR,
    LIMITS_F_PIPES,
    LIMITS_F_TINY,
    LIMITS_F_DRAM,
    LIMITS_F_MEM_UTIL,
    LIMITS_F_PCIE,
    LIMITS_F_NVLINK,
    LIMITS_F_THERMAL,
    LIMITS_F_BRAKE,
    LIMITS_F_POWER_CAP,
    LIMITS_F_CLOCK_LOST,
    LIMITS_F_WORK,
    /* ---- of the host */
    LIMITS_F_CPU,
    LIMITS_F_CORE,
    LIMITS_F_IOWAIT,
    LIMITS_F_PRESSURE_CPU,
    LIMITS_F_PRESSURE_IO,
    LIMITS_F_PRESSURE_MEMORY,
    LIMITS_F_DISK,
    LIMITS_F_REMOTE,
    LIMITS_F_FED,
    LIMITS_F_NET,
    LIMITS_F_RDMA,
    LIMITS_FACTS
};
const char *limits_fact_word(enum limits_fact f);   /* "tensor" */
const char *limits_fact_metric(enum limits_fact f); /* "gpu.prof.tensor" */
/* A value of it in words: "the tensor cores work 93 % of the time". */
void limits_fact_text(enum limits_fact f, double value, struct buf *out);

struct limits_facts {
    double at[LIMITS_FACTS];   /* NaN: unknown */
    bool absent[LIMITS_FACTS]; /* the machine has no such part */
    double seconds;            /* that the window spans */
    bool no_gpu;               /* the host alone */
};

/* ---- from a window */
extern const char *const limits_metrics[]; /* what a window must watch; NULL-terminated */
/* `gpu` -1: of the host alone. */
void limits_facts_of(const struct window *w, int gpu, struct limits_facts *out);
/* Numbers of the GPUs that a window knows, rising; returns how many. */
enum { LIMITS_GPUS_MAX = 64 };
size_t limits_gpus(const struct window *w, int *out, size_t cap);
/* `into` becomes the mean of both, each with the weight of its seconds. */
void limits_facts_merge(struct limits_facts *into, const struct limits_facts *more);

/* ---- judging */
enum { LIMITS_EVIDENCE_MAX = 8, LIMITS_ROWS_MAX = 64 };
struct limits_evidence {
    enum limits_fact fact;
    double value, threshold;
    bool above;      /* the threshold is passed from below */
    const char *why; /* of the threshold; static */
};
struct limits_verdict {
    enum limits_class limit;
    double confidence;                                    /* 0 to 1 */
    double strength;                                      /* 0 to 1: how near its ceiling */
    struct limits_evidence evidence[LIMITS_EVIDENCE_MAX]; /* the strongest first */
    size_t evidence_count;
    enum limits_class also; /* nearly as strong; LIMITS_UNKNOWN: none */
    bool missing[LIMITS_FACTS];
    const char *advice; /* static; never NULL */
};
void limits_judge(const struct limits_facts *f, struct limits_verdict *out);

struct limits_report {
    int64_t from_ns, to_ns;
    struct limits_gpu {
        int gpu;
        struct limits_verdict verdict;
    } gpus[LIMITS_GPUS_MAX];
    size_t gpu_count;
    struct limits_verdict node;
    int node_gpu; /* whose verdict the node's is; -1: the host's */
    size_t agree; /* GPUs with the node's class */
};
void limits_report(const struct window *w, struct limits_report *out);
/* The node's verdict from those of its GPUs, which are there already. */
void limits_report_node(struct limits_report *r);
void limits_verdict_json(const struct limits_verdict *v, struct json_out *w); /* an object */
void limits_report_json(const struct limits_report *r, struct json_out *w);   /* members of one */
/* "compute (confidence 0.9): the tensor cores work 93 % of the time (from 50 % on)". */
void limits_verdict_text(const struct limits_verdict *v, struct buf *out);

/* ---- from history: seconds of `from_ns` to `to_ns` into a window */
enum rc limits_from_ring(struct ring *r, int64_t from_ns, int64_t to_ns, struct window *w,
                         struct err *err) MUST_USE;

#endif
