/* SPDX-License-Identifier: MIT */
/* expo: a table of telemetry as Prometheus text, under the names of DCGM's exporter, of
 * node_exporter and our own.
 *
 * Unknown values are left out.  One bad label or value never fails the text: it is made valid, or
 * its series left out and counted.  The text is made from one copy of the values. */
#ifndef TELEMETRY_PROM_PROM_EXPORT_H
#define TELEMETRY_PROM_PROM_EXPORT_H
#include "base/arena.h"
#include "telemetry/telemetry.h"

enum expo_names { EXPO_OLD = 1, EXPO_NEW = 2, EXPO_BOTH = 3 }; /* of DCGM's fields */

struct expo_opts {
    enum expo_names names; /* 0: EXPO_OLD */
    bool lower_hostname;   /* label `hostname` instead of `Hostname` */
    const char *hostname;  /* of the GPUs' label; NULL: none */
    /* Which metrics, NULL-terminated; NULL: all.  Each is an id, a name in this text, or a word for
     * a kind of thing ("gpu", "mount"); * and ? stand for anything. */
    const char *const *only;
    bool open_metrics; /* as OpenMetrics 1.0 has it instead of Prometheus' own text */
};
void expo_write(struct tele *t, const struct expo_opts *o, struct buf *out);
/* Does `pattern` choose a metric of the table or one that `t` has (NULL: of the table)? */
bool expo_pattern_known(struct tele *t, const char *pattern);
/* Patterns of a list or of a CSV as DCGM's exporter takes it: the first cell of each line; # begins
 * a comment.  NULL-terminated, in the arena.  RC_LIMIT: more than EXPO_PATTERNS_MAX. */
enum { EXPO_PATTERNS_MAX = 1024, EXPO_PATTERN_BYTES_MAX = 128 };
enum rc expo_patterns_read(struct arena *a, const char *text, const char *const **out,
                           struct err *err) MUST_USE;

#endif
