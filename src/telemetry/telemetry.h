/* SPDX-License-Identifier: MIT */
/* telemetry: a node's telemetry as series and their latest values.
 *
 * A metric is a row of data/telemetry.csv (or one that an application brought); a series is a
 * metric with label values.  A source (the GPU collector, the host's, an endpoint of an
 * application) writes batches: all that it knows at one time.  A series of the source that a
 * batch leaves out is unknown from then on; unknown is NaN here, absent in every output, and
 * never zero.
 *
 * One thread writes; readers copy under a lock (telemetry_copy).  Series keep their ids for the
 * life of the table: ids are dense, so that a frame is an array.  A budget bounds them: beyond it
 * new series of metrics with the lowest priority are refused first, and counted.
 *
 * Series of processes, jobs and applications pass: those of processes and jobs may fill a quarter
 * of the budget, those of applications their priority's share, then the id of the one that has
 * been unknown longest is given again, to another series of the same kind.  Who keeps anything by
 * id looks at telemetry_renewed() and telemetry_generation(); who reads series on another thread
 * than the writer's does so between telemetry_hold() and telemetry_let(). */
#ifndef TELEMETRY_TELEMETRY_H
#define TELEMETRY_TELEMETRY_H
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum {
    TELEMETRY_SERIES_MAX = 16384, /* of a table; the default budget is lower */
    TELEMETRY_SERIES_DEFAULT = 8192,
    TELEMETRY_LABELS_MAX = 16,  /* of a series */
    TELEMETRY_PASSING_PCT = 25, /* of the budget may be series of processes and jobs */
    TELEMETRY_REST_BATCHES = 5, /* batches of its source in which one was unknown: its id is free */
    TELEMETRY_VALUE_MAX = 256,  /* bytes of a label value and its NUL: longer ones are cut */
    TELEMETRY_NAME_MAX = 128,   /* of a metric or label name */
    TELEMETRY_SOURCES_MAX = 64, /* sources of a table */
    TELEMETRY_FOREIGN_MAX = 1024, /* metrics that applications brought */
    TELEMETRY_EVENTS_MAX = 4096,  /* events kept in memory */
    TELEMETRY_DOCS_MAX = 64,      /* documents of a table */
    TELEMETRY_DOC_MAX = 1 << 20   /* bytes of a document: a longer one is not taken */
};
#define TELEMETRY_NONE UINT32_MAX /* no series: the budget is used up */

enum telemetry_kind { TELEMETRY_GAUGE, TELEMETRY_COUNTER };
enum telemetry_entity {
    TELEMETRY_HOST,
    TELEMETRY_GPU,
    TELEMETRY_LINK, /* an NVLink of a GPU */
    TELEMETRY_PORT, /* of an RDMA device */
    TELEMETRY_NET,
    TELEMETRY_DISK,
    TELEMETRY_MOUNT,
    TELEMETRY_PROCESS, /* on a GPU */
    TELEMETRY_MODEL,   /* that our server serves */
    TELEMETRY_JOB,
    TELEMETRY_APP /* an application's own */
};

/* A row of the table.  Values are kept in the unit of `prom` times `scale`. */
/* What Prometheus calls the type of a family that several metrics make. */
enum telemetry_family { TELEMETRY_PLAIN, TELEMETRY_HISTOGRAM, TELEMETRY_SUMMARY };

struct telemetry_metric {
    const char *id; /* "gpu.temp" */
    enum telemetry_entity entity;
    enum telemetry_kind kind;
    const char *unit;          /* "C", "W", "B", "B/s", "%", "ratio", "s", "1" */
    const char *dcgm, *dcgm46; /* names in DCGM's exporter, NULL: it has none */
    const char *prom;          /* our own or node_exporter's name, NULL: only dcgm */
    const char *help;          /* of either name */
    double scale;              /* value in the exported unit = value here * scale */
    int priority;              /* 0 is kept longest */
    const char *labels;        /* names that its series have, by convention: "gpu,UUID" */
    const char *source;        /* where the value comes from */
    /* An application's only: NAME of a NAME_bucket, _sum, _count; NULL with TELEMETRY_PLAIN. */
    const char *family;
    enum telemetry_family family_type;
};
const struct telemetry_metric *telemetry_metric(const char *id); /* NULL: no such row */
/* By a name of DCGM, node_exporter or our own in Prometheus text. */
const struct telemetry_metric *telemetry_metric_named(const char *name);
const struct telemetry_metric *telemetry_metrics(size_t *count); /* the whole table, in its order */
const char *telemetry_entity_word(enum telemetry_entity e);      /* "gpu" */

struct telemetry_label {
    const char *name, *value;
};

struct telemetry_series {
    const struct telemetry_metric *metric;
    const struct telemetry_label *labels; /* in the order given, borrowed from the table */
    size_t label_count;
    unsigned source;
};

struct telemetry;
struct telemetry *telemetry_new(size_t series_max); /* 0: TELEMETRY_SERIES_DEFAULT */
void telemetry_free(struct telemetry *t);           /* NULL is fine */

/* A source, by name ("gpu", "host", "app:trainer"); the same name gives the same source.  Beyond
 * TELEMETRY_SOURCES_MAX it is TELEMETRY_SOURCES_MAX, which has no series and whose batches are
 * dropped. */
unsigned telemetry_source(struct telemetry *t, const char *name);
const char *telemetry_source_name(const struct telemetry *t, unsigned source);
/* The id of a series, made at first use.  The same metric and labels give the same id, and it
 * stays with the source that asked first: another's batches do not change it.  Labels are made
 * valid (names of letters, digits and _; values cut and UTF-8); a name given twice counts once.
 * Of a metric of priority 0, 1, 2, 3, 4 new series are refused once the table holds 100, 95, 85,
 * 70, 50 % of its budget. */
uint32_t telemetry_series(struct telemetry *t, unsigned source, const struct telemetry_metric *m,
                          const struct telemetry_label *labels, size_t count);
/* The same with the name, help, kind and family of another table's. */
const struct telemetry_metric *telemetry_foreign_like(struct telemetry *t,
                                                      const struct telemetry_metric *like);

/* A batch of one source, seen by readers as a whole at its end; times are the wall clock's, ns
 * since 1970. */
void telemetry_begin(struct telemetry *t, unsigned source, int64_t time_ns);
void telemetry_set(struct telemetry *t, uint32_t id,
                   double value); /* TELEMETRY_NONE and NaN are left out */
void telemetry_end(struct telemetry *t);

size_t telemetry_count(const struct telemetry *t);
/* How often an id was given again, and all ids together.  Any thread. */
uint32_t telemetry_generation(const struct telemetry *t, uint32_t id);
uint64_t telemetry_renewed(const struct telemetry *t);
bool telemetry_passes(const struct telemetry_metric *m); /* of a process, a job or an application */
/* No id is given again meanwhile.  Any thread but the writer's; not twice by one, and only for as
 * long as memory takes: the writer waits. */
void telemetry_hold(struct telemetry *t);
void telemetry_let(struct telemetry *t);
const struct telemetry_series *telemetry_get(const struct telemetry *t, uint32_t id);
/* All latest values by id into out[0..cap), NaN where unknown; returns how many there are.
 * Any thread. */
size_t telemetry_copy(struct telemetry *t, double *out, size_t cap);
int64_t telemetry_age_ns(struct telemetry *t, unsigned source,
                         int64_t now_ns); /* -1: no batch yet */
int64_t telemetry_time_ns(struct telemetry *t,
                          unsigned source);            /* of its last batch; -1: none yet */
uint64_t telemetry_refused(const struct telemetry *t); /* series that the budget kept out */
/* Of those that would have come, but were refused by the tables before this one. */
void telemetry_refused_before(struct telemetry *t, uint64_t count);

/* ---- events: what happened, beside what was measured */
enum telemetry_event_kind {
    TELEMETRY_EVENT_XID,
    TELEMETRY_EVENT_SXID,
    TELEMETRY_EVENT_KERNEL,   /* another line of the kernel's log that matters */
    TELEMETRY_EVENT_RECOVERY, /* the driver asks for a reset or reboot */
    TELEMETRY_EVENT_GPU,      /* lost, back, driver reloaded, version skew */
    TELEMETRY_EVENT_HANG,     /* a call of the driver that does not return */
    TELEMETRY_EVENT_LINK,     /* a network or RDMA port down, up */
    TELEMETRY_EVENT_ALERT,    /* fired, resolved */
    TELEMETRY_EVENT_AGENT,    /* started, released the driver, clock jumped, disk full */
    TELEMETRY_EVENT_KINDS
};
struct telemetry_event {
    int64_t time_ns;
    enum telemetry_event_kind kind;
    int gpu;  /* -1: none */
    int code; /* XID; 0: none */
    char text[TELEMETRY_VALUE_MAX];
};
const char *telemetry_event_word(enum telemetry_event_kind k);
void telemetry_event(struct telemetry *t, const struct telemetry_event *e);
/* The newest `cap` not older than since_ns, oldest first. Any thread. */
size_t telemetry_events(struct telemetry *t, int64_t since_ns, struct telemetry_event *out,
                        size_t cap);
/* All that are kept of them, in memory of the caller's; NULL: none. */
struct telemetry_event *telemetry_events_copy(struct telemetry *t, int64_t since_ns,
                                              size_t *count) MUST_USE;
/* The oldest `cap` that came after the first *io_seen ones, in the order in which they came;
 * *io_seen counts them then.  Those that are no longer kept are passed over. Any thread. */
size_t telemetry_events_after(struct telemetry *t, uint64_t *io_seen, struct telemetry_event *out,
                              size_t cap);

/* ---- things that are no numbers: one JSON document a name ("processes", "inventory", "jobs").
 * "gpu_labels" is what a GPU has for a time, so that it is in outputs and no part of a series:
 * {"0": {"hpc_job": "17"}, "1": {"container": …, "namespace": …, "pod": …, "pod_uid": …},
 *  "2.3": {…}}, the last one of MIG instance 3 of GPU 2 */
void telemetry_doc(struct telemetry *t, const char *name,
                   const char *json); /* replaces; NULL removes */
bool telemetry_doc_copy(struct telemetry *t, const char *name, struct buf *out);
/* Calls for each document put or removed (json NULL) since change number `since` (0: all), with
 * the table's lock held; returns the number of the last change.  Any thread. */
uint64_t telemetry_docs_after(struct telemetry *t, uint64_t since,
                              void (*take)(void *arg, const char *name, const char *json),
                              void *arg);

#endif
