/* SPDX-License-Identifier: MIT */
/* alert_int: what the files of the alerts share.
 *
 *   alert_rules.c  rows of data/alerts.csv         alert_spec.c  what a spec changes and adds
 *   alert.c        states: pending, firing ...     alert_window.c  rates and means
 *   alert_text.c   a summary's words               alert_prom.c  rules for Prometheus
 *   alert_cause.c  which have one cause
 *   alert_send.c   queues of notes, a target each  alert_post.c  one note to one target
 *   alert_keep.c   what outlives a restart
 */
#ifndef ALERT_ALERT_INT_H
#define ALERT_ALERT_INT_H
#include "alert/alert.h"
#include "base/text/json.h"
#include "os/net/web.h"

#define ALERT_SECOND INT64_C(1000000000)

bool alert_holds(enum alert_op op, double value, double than);
/* NaN when the rule has none: the threshold. */
double alert_clear_of(const struct alert_rule *r);
/* Is a series with these labels one that `where` means?  NULL means all. */
bool alert_where(const char *where, const struct telemetry_label *labels, size_t count);
const char *telemetry_label_of(const struct telemetry_series *s, const char *name); /* NULL: none */

/* ---- alert_text.c */
/* A value in the rule's unit, for people: "87 °C", "43 %", "12.0 GiB". */
void alert_value_text(const char *unit, double v, struct buf *out);
/* The XID or SXid that a series is about; false: none. */
bool alert_code_of(const struct telemetry_series *s, int *out);
void alert_summary(const struct alert_rule *r, const struct telemetry_series *s, double value,
                   char out[TELEMETRY_VALUE_MAX]);

/* ---- alert_window.c: sums over a sliding window in fixed memory.  The window is cut into slots,
 * so that it is up to a slot longer than asked for. */
enum { ALERT_SLOTS = 16, ALERT_SLOTS_FULL = ALERT_SLOTS - 1 };
struct alert_window {
    int64_t slot;            /* the newest, counted from the engine's zero */
    double sum[ALERT_SLOTS]; /* mean: value times seconds; counters: what was added */
    double sec[ALERT_SLOTS]; /* seconds that were seen */
};
/* now_ns is the engine's own time, which never goes back. */
void alert_window_add(struct alert_window *w, int64_t window_ns, int64_t now_ns, double sum,
                      double sec);
void alert_window_read(struct alert_window *w, int64_t window_ns, int64_t now_ns, double *out_sum,
                       double *out_sec);

/* ---- a note: one alert that fired or resolved, on its way */
struct alert_note {
    struct alert_note *next;
    char *labels, *annotations; /* JSON objects, owned */
    int64_t starts_ns, ends_ns; /* wall clock; ends 0: it fires */
    double value;               /* NaN: unknown */
};
struct alert_note *alert_note_new(const struct telemetry *t, const struct alert_active *x,
                                  const char *hostname, const char *generator);
/* The texts of alert_whose by their names; those that are not known are not written. */
enum { ALERT_WHOSE_ROWS = 5 };
extern const struct alert_whose_row {
    const char *name;
    size_t at, cap; /* in struct alert_whose */
} alert_whose_rows[ALERT_WHOSE_ROWS];
void alert_whose_json(const struct alert_whose *who, struct json_out *w); /* members of an object */
struct alert_note *alert_note_copy(const struct alert_note *n);
void alert_note_free(struct alert_note *n); /* NULL is fine */
struct alert_body {
    const char *generator; /* NULL: none */
    int64_t until_ns;      /* endsAt of what fires; 0: none is written */
    bool more;             /* status and value too, which Alertmanager's API does not have */
};
/* The JSON array of the first `count` notes. */
void alert_notes_json(const struct alert_note *first, size_t count, const struct alert_body *b,
                      struct buf *out);
void alert_time_text(int64_t ns, char out[40]); /* RFC 3339, UTC, milliseconds */

/* ---- alert_send.c, for alert_keep.c.  A receiver is known by its kind and a digest of its
 * address: another address was told nothing. */
enum { ALERT_RECEIVER_MAX = 40 }; /* bytes of "webhook:0f0e0d0c0b0a0908" and its NUL */
/* Texts of an array: who believes that it fires. */
void alert_sender_told(struct alert_sender *s, const struct telemetry *t,
                       const struct alert_active *x, struct json_out *w);
/* Those believe it already; nothing is sent. */
void alert_sender_believe(struct alert_sender *s, const struct telemetry *t,
                          const struct alert_active *x, const char *const *told, size_t count);
void alert_sender_each_waiting(struct alert_sender *s,
                               void (*fn)(void *arg, const char *to, const struct alert_note *n),
                               void *arg);
/* False: there is no such receiver. */
bool alert_sender_queue(struct alert_sender *s, const char *to, const struct alert_note *n);

/* ---- alert_post.c */
enum alert_post {
    POST_OK,
    POST_AGAIN, /* nobody there, too slow, a fault of the receiver's */
    POST_NEVER  /* it was understood and refused */
};
struct alert_http; /* a kept connection */
/* `token_file` NULL: none. */
struct alert_http *alert_http_new(const struct url *url, const char *path, int timeout_ms,
                                  const struct web_trust *trust, const char *token_file);
void alert_http_free(struct alert_http *h); /* NULL is fine */
/* *stop_ns (monotonic; 0: none) is when to give up, looked at while it waits.  out_after_s: what
 * Retry-After asked for, -1: nothing. */
enum alert_post alert_http_post(struct alert_http *h, const struct buf *body,
                                const _Atomic int64_t *stop_ns, int64_t *out_after_s,
                                struct err *err);
enum alert_post alert_command(const char *command, const struct buf *body, int timeout_ms,
                              struct err *err);

/* ---- for the files of alert and their tests */
struct alert_link {   /* one that fires */
    const char *rule; /* its name */
    const struct telemetry_series *subject;
    int64_t since_ns;
    /* out */
    int parent; /* which it follows from; -1: from none */
    size_t top; /* the root above it, or itself */
    enum alert_role role;
    char cause[ALERT_CAUSE_TEXT_MAX]; /* "": none */
};
struct alerts_stats {
    size_t tracks, active; /* pairs of rule and series; those that alerts_list() would give */
    uint64_t refused;      /* beyond ALERT_TRACKS_MAX or ALERT_ACTIVE_MAX */
};
void alerts_stats(struct alerts *a, struct alerts_stats *out); /* any thread */

/* How long a guard may be off before the rule is clear: half of `for`, at most of the window, so
 * that gaps between bursts of work are none and the end of the work never fires by itself. */
int64_t alert_guard_grace(const struct alert_rule *r);
/* Rules from a table like data/alerts.csv, in the arena. */
enum rc alert_rules_read(struct arena *a, const struct csv *t, const struct alert_rule **out,
                         size_t *out_count, struct err *err) MUST_USE;
enum rc alert_causes_read(struct arena *a, const struct csv *t, const struct alert_cause **out,
                          size_t *out_count, struct err *err) MUST_USE;
void alert_causes_link(const struct alert_cause *causes, size_t cause_count,
                       struct alert_link *list, size_t count);
/* Before the first turn: `x` fired when the agent stopped, on x->subject.  When a series of its
 * rule (name, metric, severity) with these labels is there, it fires on without being told, and
 * ends as any other; without a rule it is gone in the next turn, without a series after a while.
 * alerts_list() does not have it until its series is there.  Borrows nothing.  False: it
 * is there already, or there are ALERT_ACTIVE_MAX. */
bool alerts_restore(struct alerts *a, const struct alert_active *x);
/* The rule of the name, metric and severity of `r`; NULL: there is none now. */
const struct alert_rule *alerts_rule_of(const struct alerts *a, const struct alert_rule *r);
/* What fires, those of alerts_restore() that wait too, with `subject`.  On the writer's thread. */
void alerts_each_firing(struct alerts *a, void (*fn)(void *arg, const struct alert_active *x),
                        void *arg);
/* Those pending, firing or resolved lately; any thread. */
size_t alerts_list(struct alerts *a, struct alert_active *out, size_t cap);
const char *alert_state_word(enum alert_state s);

#endif
