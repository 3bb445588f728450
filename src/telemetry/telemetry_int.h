/* SPDX-License-Identifier: MIT */
/* telemetry_int: what the files of telemetry share.
 *
 * Who may touch what: series, sources, foreign metrics and the staged batch belong to the writer's
 * thread.  Readers on other threads see a series or source once its count has been published
 * (release and acquire), and neither moves afterwards, but for series that pass: those are replaced
 * with `names` held for writing, and lie in blocks of their own.  Values, batch times, events and
 * documents are under `lock`. */
#ifndef TELEMETRY_TELEMETRY_INT_H
#define TELEMETRY_TELEMETRY_INT_H
#include "base/arena.h"
#include "telemetry/telemetry.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    TELEMETRY_PRIORITY_LAST = 4,   /* of an application's own metrics: refused first */
    TELEMETRY_REST_SOURCE_S = 300, /* without a batch: what a source said last is no use any more */
    TELEMETRY_REFUSED_MAX =
        16384, /* refused series that are told apart; further ones are not counted */
};

struct telemetry_source {
    const char *name;
    int64_t time_ns; /* of its last batch; -1: none */
};

struct telemetry_document {
    char name[TELEMETRY_NAME_MAX];
    char *json; /* owned; NULL: it was removed */
    size_t len;
    uint64_t change; /* when it was put */
};

/* Series that pass give their ids only to others of their class. */
enum telemetry_class { TELEMETRY_CLASS_OWN, TELEMETRY_CLASS_APP, TELEMETRY_CLASSES };

struct telemetry_passing {
    struct telemetry_series
        series; /* its labels' values are in `text`, their names are kept by all */
    struct telemetry_label labels[TELEMETRY_LABELS_MAX];
    uint32_t rest; /* batches of its source since it was known */
    char text[];
};

struct telemetry {
    pthread_mutex_t lock;
    size_t max; /* the budget */
    struct arena arena;

    pthread_rwlock_t names; /* held by readers of series on other threads */
    /* the writer's, readable below `count` */
    const struct telemetry_series **series; /* max entries */
    atomic_uint *generation;                /* max entries: how often an id was given again */
    atomic_uint_fast64_t renewed;
    atomic_size_t count;
    struct telemetry_source sources[TELEMETRY_SOURCES_MAX];
    atomic_uint source_count;

    /* only the writer's */
    struct telemetry_passing **passing; /* by id, owned; NULL: it stays */
    size_t passing_count;               /* of those of processes and jobs */
    bool none_rests[TELEMETRY_CLASSES]; /* no id of the class is free before the next batch */
    uint32_t *slots;                    /* series by hash of metric and labels: id + 1, 0 is free */
    size_t slot_mask;
    const char **strings; /* label names and values, each kept once */
    size_t string_count, string_cap;
    struct telemetry_metric *foreign[TELEMETRY_FOREIGN_MAX];
    size_t foreign_count;
    double *stage; /* of the open batch */
    unsigned batch;
    int64_t batch_ns;
    bool in_batch;
    uint64_t *refused_seen; /* hashes; NULL until the first refusal */
    atomic_uint_fast64_t refused, refused_before;

    /* under lock */
    double *values;
    struct telemetry_event *events; /* a ring once it has TELEMETRY_EVENTS_MAX */
    size_t event_count, event_cap, event_next;
    uint64_t event_total; /* that ever came */
    struct telemetry_document docs[TELEMETRY_DOCS_MAX];
    size_t doc_count;
    uint64_t doc_change; /* of the last one put */
};

/* The longest part of `s` that fits with its NUL, made valid text. */
void telemetry_text(char *dst, size_t cap, const char *s);
void telemetry_events_release(struct telemetry *t);

/* A metric that the table lacks (an application's): owned by `t`, of priority 4.  NULL, which
 * telemetry_series() takes as well, when `name` is no metric name or there are too many. */
const struct telemetry_metric *telemetry_foreign(struct telemetry *t, const char *name,
                                                 const char *help, enum telemetry_kind kind);
double telemetry_value(struct telemetry *t, uint32_t id);

struct window;
uint64_t window_refused(const struct window *w);

#endif
