/* SPDX-License-Identifier: MIT */
/* alert: rules over a table of telemetry, and what is firing.
 *
 * Rules are rows of data/alerts.csv, changed or switched off by the spec's `default_alerts` and
 * added to by its `alerts`.  They live here, below the renderers, so that the same rules are
 * evaluated by the agent and written as Prometheus rules.  A rule looks at every series of its
 * metric: it fires when the condition has held for `for`, and is resolved when the clearing
 * condition has (hysteresis).  A value that becomes unknown neither fires nor resolves a rule,
 * unless the rule asks for absence; an alert of whose subject nothing is known for long ends as
 * gone.  docs/user/alerts.md. */
#ifndef ALERT_ALERT_H
#define ALERT_ALERT_H
#include "base/arena.h"
#include "catalog/csv.h"
#include "os/net/web.h"
#include "spec/spec.h"
#include "telemetry/prom/prom.h"
#include "telemetry/telemetry.h"

enum {
    ALERT_RULES_MAX = 512,    /* rules of a node */
    ALERT_ACTIVE_MAX = 4096,  /* pending, firing and lately resolved */
    ALERT_TRACKS_MAX = 65536, /* pairs of a rule and a series that are watched */
    ALERT_NAME_MAX = 64       /* bytes of a rule's name and its NUL */
};
enum alert_how {
    ALERT_VALUE,
    ALERT_RATE,
    ALERT_INCREASE,
    ALERT_MEAN,
    ALERT_ABSENT
}; /* over `window` */
enum alert_op { ALERT_ABOVE, ALERT_BELOW, ALERT_EQUAL, ALERT_NOT_EQUAL };
enum alert_severity { ALERT_INFO, ALERT_WARNING, ALERT_CRITICAL };

struct alert_rule {
    const char *name;   /* "GpuTemperatureHigh" */
    const char *metric; /* id of the table */
    const char *of;     /* divides it, series by series with the same labels; NULL: nothing does */
    const char *where;  /* "xid=48|79": only series whose label is one of them; "xid!=…": the
                         * others; NULL: all */
    enum alert_how how;
    bool from_zero;    /* of ALERT_INCREASE: a series that appears later has come from zero, as a
                        * count of errors that is made by the first one */
    int64_t window_ns; /* of how; 0: the latest value */
    enum alert_op op;
    double threshold, clear; /* clear NaN: the threshold */
    int64_t for_ns, keep_ns; /* must hold so long; must be clear so long */
    /* Only while this metric of the same thing is so; NULL: always.  When it is not, the rule is
     * clear (one with a window alert_guard_grace() later); when it is unknown, so is the rule. */
    const char *guard;
    enum alert_op guard_op;
    double guard_than;
    enum alert_severity severity;
    const char *unit;    /* of the threshold: % ratio ns/s C W B B/s s /s $ 1 */
    const char *summary; /* with {label} and {value} */
    const char *why;     /* the reason of the threshold */
    const char *source;  /* where it comes from */
    const char *runbook; /* address of what to do; NULL: none */
    bool off;
};
/* The default rules. */
const struct alert_rule *alert_defaults(size_t *count);
/* The default rules as a spec changes them, then its own; those that are off are left out.  A
 * spec's alert with both thresholds gives two rules of one name.  `s` NULL: the default rules.
 * Errors are "FILE:LINE:COL: message".  Borrows from `s` and `a`. */
enum rc alert_rules_of(const struct spec *s, struct arena *a, const struct alert_rule **out,
                       size_t *out_count, struct err *err) MUST_USE;
/* Does the agent measure what this alert is about?  Cost, shares of errors and pools it does not:
 * alert_rules_of() leaves those out, and who starts the agent should say so. */
bool alert_is_watched(const struct spec_alert *x);
/* What a metric's word in a spec means on a node; one word may mean several metrics. */
struct alert_meaning {
    const char *metric, *of; /* ids of the table; `of` divides, NULL: nothing does */
    enum alert_how how;
    double scale; /* the table's units in one of the spec's */
    bool left;    /* the table has what is left, the word means what is used */
};
/* The `at`-th of them, from 0; false behind the last. */
bool alert_meaning_at(enum spec_metric word, size_t at, struct alert_meaning *out);
const char *alert_severity_word(enum alert_severity s); /* "critical" */
const char *alert_how_word(enum alert_how h);
const char *alert_op_word(enum alert_op o);

/* Who worked on the subject when it fired; "": not known. */
struct alert_whose {
    char job[64], user[64], pod[128], space[64], command[64];
};

/* ---- what has one cause (alert_cause.c, data/alert_causes.csv) */
enum {
    ALERT_CAUSES_MAX = 64,       /* rows of the table */
    ALERT_CAUSE_WORDS_MAX = 64,  /* rules in a list of it */
    ALERT_CAUSE_LABELS_MAX = 4,  /* labels in one */
    ALERT_CAUSE_TEXT_MAX = 160,  /* bytes of "gpu_lost:gpu=3" and its NUL */
    ALERT_CAUSE_WHERE_MAX = 256, /* bytes between the braces of a rule */
    ALERT_SOURCES_MAX = 64       /* alerts that tell of one row's cause and are looked at */
};
struct alert_cause { /* lists, blanks between their words; "": none */
    const char *name, *root, *scope, *signs, *symptoms, *same, *why;
    int64_t before_ns;
};
const struct alert_cause *alert_causes(size_t *count);
enum alert_role {
    ALERT_ROLE_NONE, /* of no cause in the table */
    ALERT_ROLE_ROOT, /* tells of it, first of all */
    ALERT_ROLE_SIGN, /* tells of it too */
    ALERT_ROLE_SYMPTOM
};
const char *alert_role_word(enum alert_role r); /* NULL: none */

enum { ALERT_FOLLOWS_MAX = 512 }; /* bytes of the names of those that follow from a root */
enum alert_state { ALERT_PENDING, ALERT_FIRING, ALERT_RESOLVED };
struct alert_active {
    const struct alert_rule *rule;
    uint32_t series;
    enum alert_state state;
    int64_t since_ns, fired_ns, resolved_ns;
    double value;
    bool gone; /* resolved: nothing is known of its subject any more */
    /* The series, where its id is another's by now; valid in the call of `changed`.  NULL: it is
     * telemetry_get(series). */
    const struct telemetry_series *subject;
    struct alert_whose whose;
    char summary[TELEMETRY_VALUE_MAX]; /* follows the value while it is pending or fires */
    /* Its cause and role when it fired: they are labels, which do not change. */
    char cause[ALERT_CAUSE_TEXT_MAX]; /* "": none */
    enum alert_role role;
    /* What it follows from now; rule NULL: from nothing, or it does not fire. */
    const struct alert_rule *root_rule;
    uint32_t root_series;
    char root_summary[TELEMETRY_VALUE_MAX];
    char
        follows[ALERT_FOLLOWS_MAX]; /* of a root: "GpuXidFatal, NvlinkDown (4)"; "": nothing does */
};
struct alerts;
struct alerts *alerts_new(const struct alert_rule *rules, size_t count, struct telemetry *t);
/* Before the first turn: the table plays a recording.  Counters of its first second were there
 * before it; without this all that are made under the engine's eyes have come from zero. */
void alerts_played(struct alerts *a);
/* Before the first turn: asked on the writer's thread for each that fires. */
void alerts_ask_whose(struct alerts *a,
                      bool (*fn)(void *arg, const struct telemetry_series *s,
                                 struct alert_whose *out),
                      void *arg);
/* Before the first turn: rules that are the same go on where `old`, of the same table, was
 * (pending since, firing, windows); others look at all series as if they had always been there.
 * `old` is empty afterwards. */
void alerts_inherit(struct alerts *a, struct alerts *old);
void alerts_free(struct alerts *a);
/* Once a second, on the writer's thread.  `changed` is called for each that fires or resolves. */
void alerts_turn(struct alerts *a, int64_t now_ns,
                 void (*changed)(void *arg, const struct alert_active *x), void *arg);
/* The rules that are on, valid for the engine's life. */
const struct alert_rule *alerts_rules(const struct alerts *a, size_t *count);
/* All of them, in memory of the caller's that is as large as they are many; NULL: none. */
struct alert_active *alerts_copy(struct alerts *a, size_t *count) MUST_USE;

/* ---- the same rules for Prometheus */
/* A rules file: what the agent evaluates, under the names that it exports (prom.h).  Rules
 * of which Prometheus sees nothing are left out, with a comment. */
struct alert_prom { /* how one rule is written */
    enum prom_export_names names;
    const char *only; /* matchers of the rule's series: group=~"gpu"; NULL: none */
    const char *own;  /* and of its alerts, beside name and severity; NULL: none */
    bool exact;       /* half of a window must have been seen, as the agent has it */
};
/* What Prometheus asks; false: it sees nothing of the rule's metric. */
bool alert_prom_expr(const struct alert_rule *r, const struct alert_prom *o, struct buf *out);
/* The summary as Prometheus' template. */
void alert_prom_summary(const struct alert_rule *r, struct buf *out);
/* The label of a rule's `where`, and its values separated by |; true for "!=". */
bool alert_where_split(const char *where, const char **out_name, size_t *out_len,
                       const char **out_values);
/* A metric's name there, and what a value there is of one in the table; NULL: there is none. */
const char *alert_prom_name(const char *id, enum prom_export_names names, double *out_scale);
void alert_prom_write(const struct alert_rule *rules, size_t count, enum prom_export_names names,
                      struct buf *out);

/* ---- delivery: each target has a thread and a bounded queue, retries with backoff; none is lost
 * while the queue lasts, and none waits for another's target */
enum {
    ALERT_QUEUE_MAX = 4096,          /* waiting for one target; then the oldest go, counted */
    ALERT_BATCH_MAX = 64,            /* alerts of one request to Alertmanager */
    ALERT_REPLY_MAX = 4096,          /* bytes kept of a command's output, of a reply */
    ALERT_TOKEN_MAX = 4096,          /* bytes of a token file */
    ALERT_TIMEOUT_MS_DEFAULT = 5000, /* for a request or a command */
    ALERT_RESEND_MS_DEFAULT = 60000, /* Alertmanager is told again of what fires */
    ALERT_BACKOFF_MS_DEFAULT = 500,  /* after the first failure; doubles */
    ALERT_BACKOFF_MS_MAX = 30000
};
struct alert_targets {
    const char *alertmanager; /* http://host:9093 or https://, NULL: none */
    const char *webhook;      /* a URL that is POSTed the same JSON */
    /* Its bearer token: the file is read for each post, so that it may change; NULL: none. */
    const char *webhook_token_file;
    const char *command; /* run by sh with the JSON on standard input */
    bool log;
    const char *hostname;  /* label `hostname` of every alert; NULL: this machine's */
    const char *generator; /* generatorURL: the agent's page; NULL: none */
    int timeout_ms, resend_ms, backoff_ms; /* 0: the defaults above */
    struct web_trust trust;                /* in the certificates of https; borrowed */
};
/* What a spec's `notify` says; strings borrowed from `s` and `a`. */
void alert_targets_of(const struct spec *s, struct arena *a, struct alert_targets *out);

struct alert_sender;
/* RC_USAGE when an address is none; that nobody is there is no error. */
enum rc alert_sender_new(const struct alert_targets *to, struct alert_sender **out,
                         struct err *err) MUST_USE;
/* Never blocks.  On the writer's thread, since it reads the series. */
void alert_sender_add(struct alert_sender *s, const struct telemetry *t,
                      const struct alert_active *x);
/* What fires, in its present words: receivers that are told again of it hear them then.  On the
 * writer's thread. */
void alert_sender_refresh(struct alert_sender *s, const struct telemetry *t,
                          const struct alert_active *list, size_t count);
/* Do receivers, or the log, believe that it fires? */
bool alert_sender_has(struct alert_sender *s, const struct telemetry *t,
                      const struct alert_active *x);
/* As alert_sender_add() of one that fires, for those who do not believe it yet. */
void alert_sender_catch_up(struct alert_sender *s, const struct telemetry *t,
                           const struct alert_active *x);
/* Grows when somebody was told, or something waits to be. */
uint64_t alert_sender_changes(struct alert_sender *s);
struct alert_sender_stats {
    uint64_t sent, failed, dropped, waiting;
};
/* Sums over the targets: delivered; given up since the receiver refused them for good; lost to a
 * full queue; still to go. */
void alert_sender_stats(struct alert_sender *s, struct alert_sender_stats *out);
/* Gives what waits wait_ms to go; nothing is sent afterwards.  NULL is fine. */
void alert_sender_stop(struct alert_sender *s, int wait_ms);
/* Stops it, where it is not yet.  NULL is fine. */
void alert_sender_free(struct alert_sender *s, int wait_ms);

/* ---- over a restart (alert_keep.c): what fires, who was told of it, what waits to be told */
enum {
    ALERT_KEEP_BYTES_MAX = 64 << 20, /* of the text; what is beyond is not kept */
    ALERT_KEEP_LINE_MAX = 64 << 10,  /* bytes of a line */
    ALERT_KEEP_NOTES_MAX = 3 * 4096, /* that wait: three queues of ALERT_QUEUE_MAX */
    ALERT_KEEP_TOLD_MAX = 8          /* receivers of one alert */
};
/* A line of JSON each.  On the writer's thread. */
void alert_keep_write(struct alerts *a, struct alert_sender *s, const struct telemetry *t,
                      struct buf *out);
/* Before the first turn and the first alert_sender_add(): puts back what such a text says, sends
 * what waits.  Returns the lines that are none; *out_kept counts the others. */
size_t alert_keep_read(const char *text, size_t len, struct alerts *a, struct alert_sender *s,
                       const struct telemetry *t, size_t *out_kept);

#endif
