/* SPDX-License-Identifier: MIT */
/* monitor_int: what the files of monitor share.
 *
 *   monitor_run.c     the life of a run, the command that is watched, the files it fills
 *   intervals.c       from seconds to intervals: sums, verdicts, lines, rows
 *   remote_agent.c    another agent's history as the source
 *   monitor_targets.c what is wanted, and whether it was met
 *   spec_goals.c      what a spec's goals want, and where its agent is
 *   monitor_report.c  the report as text
 *   monitor_json.c    and as JSON
 *   monitor_plot.c    and as a picture
 *
 *     agent (in this process) ─┐
 *     another agent (--host) ──┼─► watch ─► intervals ─► phases ─► report, JSON, SVG
 *     recording (--replay) ────┘     └► a line and CSV rows an interval
 *
 * The watch is written by one thread at a time and guarded by its lock: the agent's sampling
 * thread calls it while the command's own thread prints and writes files. */
#ifndef MONITOR_MONITOR_INT_H
#define MONITOR_MONITOR_INT_H
#include "base/text/table.h"
#include "bottleneck/bottleneck.h"
#include "monitor/monitor.h"
#include "os/net/web.h"

#include <pthread.h>

enum {
    MONITOR_INTERVALS_MAX = 2048, /* of a run; then two neighbours become one */
    MONITOR_EVENTS_MAX = 1024,    /* kept of a run; later ones are counted */
    MONITOR_TARGETS_MAX = 80,     /* defaults and those given */
    MONITOR_RESULTS_MAX = 256,    /* series that a target is held against */
    MONITOR_PHASES_MAX = 64,      /* shown of a run */
    MONITOR_INTERVAL_MS_MIN = 1000,
    MONITOR_INTERVAL_MS_DEFAULT = 30000,
    MONITOR_DURATION_MS_DEFAULT = 3600000
};
#define MONITOR_DURATION_MS_MAX (31 * 86400 * INT64_C(1000))
#define MONITOR_SECOND          INT64_C(1000000000)

/* ---- targets */
enum target_stat { TARGET_MEAN, TARGET_P50, TARGET_P95, TARGET_MIN, TARGET_MAX, TARGET_RISE };
enum target_op { TARGET_GE, TARGET_GT, TARGET_LE, TARGET_LT };
enum target_state { TARGET_UNKNOWN, TARGET_MET, TARGET_FAILED };
struct monitor_target {
    char text[TELEMETRY_NAME_MAX + 64]; /* as it is written */
    char metric[TELEMETRY_NAME_MAX];
    enum target_stat stat;
    enum target_op op;
    double value;
    bool dflt;
    bool asked;                   /* by an option */
    char goal[SPEC_NAME_MAX + 1]; /* of the spec; "": none */
};
struct target_result {
    int gpu; /* -1: none */
    char label[TELEMETRY_VALUE_MAX];
    double value; /* NaN: unknown */
    enum target_state state;
};
/* "gpu.util>=90", "p95(gpu.temp)<85"; RC_USAGE says what is wrong. */
enum rc target_parse(const char *text, struct monitor_target *out, struct err *err) MUST_USE;

/* ---- the watch */
struct monitor_interval {
    int64_t from_ns, to_ns;
    struct bottleneck_facts *facts; /* owned: of each GPU, or only of the host */
    size_t count;
};
struct monitor_phase {
    int64_t from_ns, to_ns;
    struct bottleneck_verdict verdict;
};
struct monitor {
    pthread_mutex_t lock; /* all below while a source runs */
    int64_t interval_ns;
    struct monitor_target targets[MONITOR_TARGETS_MAX];
    size_t target_count;
    struct window *all, *span; /* of the run, of the interval under way */
    uint64_t samples;
    int64_t begun_ns, last_ns;     /* first and latest second; 0: none */
    int64_t from_ns;               /* what happened before is not the run's; 0: its first second */
    int64_t span_ns;               /* begin of the interval under way */
    int gpus[BOTTLENECK_GPUS_MAX]; /* that each interval has facts of */
    size_t gpu_count;
    struct monitor_interval *intervals; /* owned */
    size_t interval_count;
    struct telemetry_event *events; /* owned */
    size_t event_count;
    uint64_t events_seen, events_left_out;
    char host[TELEMETRY_VALUE_MAX];
    char source[32]; /* "agent", "remote", "replay" */
    bool torn;       /* the recording is */
    bool want_csv, want_memory, want_lines;
    struct buf csv, memory_csv, lines; /* to be written by whoever prints */
};
void monitor_init(struct monitor *m, int64_t interval_ns);
void monitor_windows(struct monitor *m); /* when the targets are known */
void monitor_release(struct monitor *m);
/* A second of a table; any thread. */
void monitor_second(struct monitor *m, struct telemetry *t, int64_t time_ns);
/* Of a source that fills the windows itself: these seconds are in, the interval may be over. */
void monitor_note(struct monitor *m, int64_t time_ns, uint64_t seconds);
void monitor_add_event(struct monitor *m, const struct telemetry_event *e);
void monitor_end(struct monitor *m); /* closes the last interval */
/* Neighbours of one verdict are one phase, also when they came to it together; returns how many
 * there are. */
size_t monitor_phases(const struct monitor *m, struct monitor_phase *out, size_t cap);
void monitor_whole(const struct monitor *m, struct bottleneck_report *out);
extern const char monitor_csv_head[], monitor_memory_head[];

/* Of a GPU over the run; NULL: nothing. */
const struct window_slot *monitor_slot(const struct monitor *m, const char *metric, int gpu);
const char *monitor_model(const struct monitor *m, int gpu); /* "NVIDIA H200"; NULL */
uint64_t monitor_xids(const struct monitor *m, int gpu);
/* Share of the time in which clocks were held back, by reason; NaN. */
double monitor_held(const struct monitor *m, int gpu, unsigned bits);
enum { HELD_POWER = 1 << 2, HELD_HEAT = 1 << 5 | 1 << 6, HELD_BRAKE = 1 << 7 };

/* What a report shows of a GPU: one row a metric. */
struct monitor_row {
    const char *key, *title, *metric;
    double scale;
    const char *unit; /* of the scaled value; "B" and "B/s" are written for people */
};
extern const struct monitor_row monitor_rows[];
extern const size_t monitor_row_count;
/* Counters of errors, whose rise is shown. */
struct monitor_error {
    const char *key, *title, *metric; /* key NULL: not in JSON */
};
extern const struct monitor_error monitor_errors[]; /* ends with a zero row */

/* ---- targets against a run */
enum rc targets_fill(struct monitor *m, const struct monitor_opts *a, const struct spec *s,
                     struct err *err) MUST_USE;
/* Those that the goals of a spec ask for, but where a metric has a target already. */
enum rc targets_of_goals(struct monitor *m, const struct spec *s, struct err *err) MUST_USE;
/* The agent to watch by a spec: a->host with the spec's port, or the machine that the component
 * runs on.  *out_host NULL: this machine; else heap memory, the caller's. */
enum rc monitor_spec_host(const struct monitor_opts *a, const struct spec *s, char **out_host,
                          struct err *err) MUST_USE;
size_t target_judge(const struct monitor *m, const struct monitor_target *t,
                    struct target_result *out, size_t cap);
const char *target_word(enum target_state s);
/* One that an option asked for and that could not be judged counts as failed, too. */
bool targets_failed(const struct monitor *m);

/* ---- outputs */
void monitor_value(double v, const char *unit, struct buf *out); /* "93 %", "12.3 GiB", "-" */
/* What limits it, a row a GPU, targets that failed; `full`: all that there is. */
void monitor_text(const struct monitor *m, const struct term *term, bool full, struct buf *out);
void monitor_json(const struct monitor *m, struct buf *out);
void monitor_plot(const struct monitor *m, struct buf *out);

/* ---- another agent */
struct remote;
enum rc remote_open(const char *address, const char *token, const struct web_trust *trust,
                    struct monitor *m, struct remote **out, struct err *err) MUST_USE;
/* What came since the last call. */
enum rc remote_take(struct remote *r, struct err *err) MUST_USE;
void remote_close(struct remote *r); /* NULL is fine */

#endif
