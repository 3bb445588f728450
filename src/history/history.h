/* SPDX-License-Identifier: MIT */
/* history: the history of all series in one preallocated file, seconds for hours and minutes for
 * weeks.
 *
 * A second's values are appended and synced before anybody is shown them (history_append returns
 * after fdatasync), so what a scraper or the page has seen survives kill -9 and a crash of the
 * machine loses at most the second under way.  The file never grows; the oldest goes.  Blocks
 * have checksums and say their own time: a torn or flipped block is skipped and counted, all
 * others are read.  Written with pwrite, read with pread, never mapped. */
#ifndef HISTORY_HISTORY_H
#define HISTORY_HISTORY_H
#include "spec/spec.h"
#include "telemetry/telemetry.h"

enum {
    HISTORY_BYTES_DEFAULT = SPEC_HISTORY_MIB << 20,
    HISTORY_BYTES_MIN = SPEC_HISTORY_MIN,
    HISTORY_POINTS_MAX = 100000 /* of a reply */
};
#define HISTORY_BYTES_MAX ((uint64_t)SPEC_HISTORY_MAX)

struct history_opts {
    const char *path;
    uint64_t bytes;      /* of the whole file; 0: the default */
    uint32_t minute_pct; /* share of the file for minutes; 0: 25 */
    bool no_sync;        /* only tests and benches */
    bool move_damaged;   /* a history of ours whose head is damaged goes aside, a new one is made */
};
struct history;
/* Opens or makes it; a file of another size is remade with what can be kept.  A file that is no
 * history is refused, never overwritten, and so is one of another version. */
enum rc history_open(const struct history_opts *o, struct history **out, struct err *err) MUST_USE;
void history_close(struct history *r); /* NULL is fine */
/* Is the file under its name still, and whole?  Removed, replaced, cut or overwritten: why, and
 * what is appended from now on is lost to who opens it next. */
enum rc history_here(const struct history *r, struct err *err) MUST_USE;
/* Where a damaged one was moved when this was opened; NULL: there was none. */
const char *history_moved(const struct history *r);

/* One second of a table: values[i] is of series i of `t` (NaN: unknown).  Times rise; one that
 * jumps back begins a new run, and both are kept.  RC_LIMIT (a full disk, too many series) and
 * RC_FAIL leave what is there.  Gauges are kept to at least five digits, counters and what
 * applications measure exactly (docs/design/history-file.md).  One thread; events come from any. */
enum rc history_append(struct history *r, struct telemetry *t, int64_t time_ns,
                       const double *values, size_t count, struct err *err) MUST_USE;
enum rc history_append_event(struct history *r, const struct telemetry_event *e,
                             struct err *err) MUST_USE;

struct history_point {
    int64_t time_ns; /* the begin of its step: a multiple of it since 1970 */
    double min, max, mean, last;
    uint32_t count; /* 0: unknown */
};
struct history_query {
    const char *metric;                   /* id, or a foreign name; NULL: every one */
    const struct telemetry_label *labels; /* those that a series must have */
    size_t label_count;
    int64_t from_ns, to_ns, step_ns; /* step 0: as stored */
};
/* Calls for each series that matches, with its points in time order; steps without a value are
 * left out.  Where seconds have gone, and for steps of whole minutes, minutes are read.  Any
 * thread; the writer does not wait for it.  RC_LIMIT: more than HISTORY_POINTS_MAX of a series. */
typedef bool history_take(void *arg, const struct telemetry_series *s,
                          const struct history_point *p, size_t n);
enum rc history_read(struct history *r, const struct history_query *q, history_take *take,
                     void *arg, struct err *err) MUST_USE;
/* How many series found no room for their names, and are not kept.  The writer's thread. */
uint64_t history_refused(const struct history *r);
/* Has a series of this metric, whenever it was.  Any thread. */
bool history_has(struct history *r, const char *metric);
enum rc history_events(struct history *r, int64_t from_ns, int64_t to_ns,
                       bool (*take)(void *arg, const struct telemetry_event *e), void *arg,
                       struct err *err) MUST_USE;
struct history_stats {
    uint64_t bytes, used, samples, blocks;
    uint64_t bad_blocks; /* blocks, seconds, series and events that were found damaged or missing */
    uint64_t cut_bytes;  /* that the file had lost when it was opened, … */
    uint64_t cut_of;     /* … of so many */
    int64_t oldest_ns, newest_ns, oldest_minute_ns;
};
void history_stats(struct history *r, struct history_stats *out);

#endif
