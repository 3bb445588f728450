/* SPDX-License-Identifier: MIT */
/* prom: a table of telemetry as Prometheus text, under the names of DCGM's exporter, of
 * node_exporter and our own; and the text of an application into a table.
 *
 * Unknown values are left out.  One bad label or value never fails the text: it is made valid, or
 * its series left out and counted.  The text is made from one copy of the values. */
#ifndef TELEMETRY_PROM_PROM_H
#define TELEMETRY_PROM_PROM_H
#include "base/arena.h"
#include "telemetry/telemetry.h"

enum prom_export_names {
    PROM_EXPORT_OLD = 1,
    PROM_EXPORT_NEW = 2,
    PROM_EXPORT_BOTH = 3
}; /* of DCGM's fields */

struct prom_export_opts {
    enum prom_export_names names; /* 0: PROM_EXPORT_OLD */
    bool lower_hostname;          /* label `hostname` instead of `Hostname` */
    const char *hostname;         /* of the GPUs' label; NULL: none */
    /* Which metrics, NULL-terminated; NULL: all.  Each is an id, a name in this text, or a word for
     * a kind of thing ("gpu", "mount"); * and ? stand for anything. */
    const char *const *only;
    bool open_metrics; /* as OpenMetrics 1.0 has it instead of Prometheus' own text */
};
void prom_export_write(struct telemetry *t, const struct prom_export_opts *o, struct buf *out);
/* Does `pattern` choose a metric of the table or one that `t` has (NULL: of the table)? */
bool prom_export_pattern_known(struct telemetry *t, const char *pattern);
/* Patterns of a list or of a CSV as DCGM's exporter takes it: the first cell of each line; # begins
 * a comment.  NULL-terminated, in the arena.  RC_LIMIT: more than PROM_EXPORT_PATTERNS_MAX. */
enum { PROM_EXPORT_PATTERNS_MAX = 1024, PROM_EXPORT_PATTERN_BYTES_MAX = 128 };
enum rc prom_export_patterns_read(struct arena *a, const char *text, const char *const **out,
                                  struct err *err) MUST_USE;

/* ---- Prometheus text of an application into the table */
enum rc prom_parse_take(struct telemetry *t, unsigned source, const char *text, size_t len,
                        int64_t now_ns, const struct telemetry_label *extra, size_t extra_count,
                        struct err *err) MUST_USE;
/* Only its samples, one after the other; what `s` points to is valid in the call. */
struct prom_parse_sample {
    const char *name;
    const struct telemetry_label *labels;
    size_t label_count;
    double value;
};
enum rc prom_parse_each(const char *text, size_t len,
                        void (*fn)(void *arg, const struct prom_parse_sample *s), void *arg,
                        struct err *err) MUST_USE;

#endif
