/* SPDX-License-Identifier: MIT */
/* tele: a node's telemetry as series and their latest values.
 *
 * A metric is a row of data/telemetry.csv (or one that an application brought); a series is a
 * metric with label values.  A source (the GPU collector, the host's, an endpoint of an
 * application) writes batches: all that it knows at one time.  A series of the source that a
 * batch leaves out is unknown from then on; unknown is NaN here, absent in every output, and
 * never zero.
 *
 * One thread writes; readers copy under a lock (tele_copy).  Series keep their ids for the life
 * of the table: ids are dense, so that a frame is an array.  A budget bounds them: beyond it new
 * series of metrics with the lowest priority are refused first, and counted.
 *
 * Series of processes, jobs and applications pass: those of processes and jobs may fill a
 * quarter of the budget, those of applications their priority's share, then the id of the one that
 * has been unknown longest is given again, to another series of the same kind.  Who keeps anything
 * by id looks at tele_renewed() and tele_born(); who reads series on another thread than the
 * writer's does so between tele_hold() and tele_let(). */
#ifndef TELEMETRY_TELEMETRY_H
#define TELEMETRY_TELEMETRY_H
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum {
    TELE_SERIES_MAX = 16384, /* of a table; the default budget is lower */
    TELE_SERIES_DEFAULT = 8192,
    TELE_LABELS_MAX = 16,    /* of a series */
    TELE_PASSING_PCT = 25,   /* of the budget may be series of processes and jobs */
    TELE_REST_BATCHES = 5,   /* batches of its source in which one was unknown: its id is free */
    TELE_VALUE_MAX = 256,    /* bytes of a label value and its NUL: longer ones are cut */
    TELE_NAME_MAX = 128,     /* of a metric or label name */
    TELE_SOURCES_MAX = 64,   /* sources of a table */
    TELE_FOREIGN_MAX = 1024, /* metrics that applications brought */
    TELE_EVENTS_MAX = 4096,  /* events kept in memory */
    TELE_DOCS_MAX = 64,      /* documents of a table */
    TELE_DOC_MAX = 1 << 20   /* bytes of a document: a longer one is not taken */
};
#define TELE_NONE UINT32_MAX /* no series: the budget is used up */

enum tele_kind { TELE_GAUGE, TELE_COUNTER };
enum tele_entity {
    TELE_HOST,
    TELE_GPU,
    TELE_LINK, /* an NVLink of a GPU */
    TELE_PORT, /* of an RDMA device */
    TELE_NET,
    TELE_DISK,
    TELE_MOUNT,
    TELE_PROCESS, /* on a GPU */
    TELE_MODEL,   /* that our server serves */
    TELE_JOB,
    TELE_APP /* an application's own */
};

/* A row of the table.  Values are kept in the unit of `prom` times `scale`. */
/* What Prometheus calls the type of a family that several metrics make. */
enum tele_family { TELE_PLAIN, TELE_HISTOGRAM, TELE_SUMMARY };

struct tele_metric {
    const char *id; /* "gpu.temp" */
    enum tele_entity entity;
    enum tele_kind kind;
    const char *unit;          /* "C", "W", "B", "B/s", "%", "ratio", "s", "1" */
    const char *dcgm, *dcgm46; /* names in DCGM's exporter, NULL: it has none */
    const char *prom;          /* our own or node_exporter's name, NULL: dcgm alone */
    const char *help;          /* of either name */
    double scale;              /* value in the exported unit = value here * scale */
    int priority;              /* 0 is kept longest */
    const char *labels;        /* names that its series have, by convention: "gpu,UUID" */
    const char *source;        /* where the value comes from */
    /* An application's only: NAME of a NAME_bucket, _sum, _count; NULL with TELE_PLAIN. */
    const char *family;
    enum tele_family family_type;
};
const struct tele_metric *tele_metric(const char *id); /* NULL: no such row */
/* By a name of DCGM, node_exporter or our own in Prometheus text. */
const struct tele_metric *tele_metric_named(const char *name);
const struct tele_metric *tele_metrics(size_t *count); /* the whole table, in its order */
const char *tele_entity_word(enum tele_entity e);      /* "gpu" */

struct tele_label {
    const char *name, *value;
};

struct tele_series {
    const struct tele_metric *metric;
    const struct tele_label *labels; /* in the order given, borrowed from the table */
    size_t label_count;
    unsigned source;
};

struct tele;
struct tele *tele_new(size_t series_max); /* 0: TELE_SERIES_DEFAULT */
void tele_free(struct tele *t);           /* NULL is fine */

/* A source, by name ("gpu", "host", "app:trainer"); the same name gives the same source.  Beyond
 * TELE_SOURCES_MAX it is TELE_SOURCES_MAX, which has no series and whose batches are dropped. */
unsigned tele_source(struct tele *t, const char *name);
const char *tele_source_name(const struct tele *t, unsigned source);
/* The id of a series, made at first use.  The same metric and labels give the same id, and it
 * stays with the source that asked first: another's batches do not change it.  Labels are made
 * valid (names of letters, digits and _; values cut and UTF-8); a name given twice counts once.
 * Of a metric of priority 0, 1, 2, 3, 4 new series are refused once the table holds 100, 95, 85,
 * 70, 50 % of its budget. */
uint32_t tele_series(struct tele *t, unsigned source, const struct tele_metric *m,
                     const struct tele_label *labels, size_t count);
/* A metric that the table lacks (an application's): owned by `t`, of priority 4.  NULL, which
 * tele_series() takes as well, when `name` is no metric name or there are too many. */
const struct tele_metric *tele_foreign(struct tele *t, const char *name, const char *help,
                                       enum tele_kind kind);
/* The same with the name, help, kind and family of another table's. */
const struct tele_metric *tele_foreign_like(struct tele *t, const struct tele_metric *like);

/* A batch of one source, seen by readers as a whole at its end; times are the wall clock's, ns
 * since 1970. */
void tele_begin(struct tele *t, unsigned source, int64_t time_ns);
void tele_set(struct tele *t, uint32_t id, double value); /* TELE_NONE and NaN are left out */
void tele_end(struct tele *t);

size_t tele_count(const struct tele *t);
/* How often an id was given again, and all ids together.  Any thread. */
uint32_t tele_born(const struct tele *t, uint32_t id);
uint64_t tele_renewed(const struct tele *t);
bool tele_passes(const struct tele_metric *m); /* of a process, a job or an application */
/* No id is given again meanwhile.  Any thread but the writer's; not twice by one, and only for as
 * long as memory takes: the writer waits. */
void tele_hold(struct tele *t);
void tele_let(struct tele *t);
const struct tele_series *tele_get(const struct tele *t, uint32_t id);
/* All latest values by id into out[0..cap), NaN where unknown; returns how many there are.
 * Any thread. */
size_t tele_copy(struct tele *t, double *out, size_t cap);
double tele_value(struct tele *t, uint32_t id);
int64_t tele_age_ns(struct tele *t, unsigned source, int64_t now_ns); /* -1: no batch yet */
int64_t tele_time_ns(struct tele *t, unsigned source); /* of its last batch; -1: none yet */
uint64_t tele_refused(const struct tele *t);           /* series that the budget kept out */
/* Of those that would have come, but were refused by the tables before this one. */
void tele_refused_before(struct tele *t, uint64_t count);

/* ---- events: what happened, beside what was measured */
enum tele_event_kind {
    TELE_EVENT_XID,
    TELE_EVENT_SXID,
    TELE_EVENT_KERNEL,   /* another line of the kernel's log that matters */
    TELE_EVENT_RECOVERY, /* the driver asks for a reset or reboot */
    TELE_EVENT_GPU,      /* lost, back, driver reloaded, version skew */
    TELE_EVENT_HANG,     /* a call of the driver that does not return */
    TELE_EVENT_LINK,     /* a network or RDMA port down, up */
    TELE_EVENT_ALERT,    /* fired, resolved */
    TELE_EVENT_AGENT,    /* started, released the driver, clock jumped, disk full */
    TELE_EVENT_KINDS
};
struct tele_event {
    int64_t time_ns;
    enum tele_event_kind kind;
    int gpu;  /* -1: none */
    int code; /* XID; 0: none */
    char text[TELE_VALUE_MAX];
};
const char *tele_event_word(enum tele_event_kind k);
void tele_event(struct tele *t, const struct tele_event *e);
/* The newest `cap` not older than since_ns, oldest first. Any thread. */
size_t tele_events(struct tele *t, int64_t since_ns, struct tele_event *out, size_t cap);
/* All that are kept of them, in memory of the caller's; NULL: none. */
struct tele_event *tele_events_copy(struct tele *t, int64_t since_ns, size_t *count) MUST_USE;
/* The oldest `cap` that came after the first *io_seen ones, in the order in which they came;
 * *io_seen counts them then.  Those that are no longer kept are passed over. Any thread. */
size_t tele_events_after(struct tele *t, uint64_t *io_seen, struct tele_event *out, size_t cap);

/* ---- things that are no numbers: one JSON document a name ("processes", "inventory", "jobs").
 * "gpu_labels" is what a GPU has for a time, so that it is in outputs and no part of a series:
 * {"0": {"hpc_job": "17"}, "1": {"container": …, "namespace": …, "pod": …, "pod_uid": …},
 *  "2.3": {…}}, the last one of MIG instance 3 of GPU 2 */
void tele_doc(struct tele *t, const char *name, const char *json); /* replaces; NULL removes */
bool tele_doc_copy(struct tele *t, const char *name, struct buf *out);
/* Calls for each document put or removed (json NULL) since change number `since` (0: all), with
 * the table's lock held; returns the number of the last change.  Any thread. */
uint64_t tele_docs_after(struct tele *t, uint64_t since,
                         void (*take)(void *arg, const char *name, const char *json), void *arg);

#endif
