/* SPDX-License-Identifier: MIT */
/* expo: a table of telemetry as Prometheus text, under the names of DCGM's exporter, of
 * node_exporter and our own.
 *
 * Unknown values are left out.  One bad label or value never fails the text: it is made valid, or
 * its series left out and counted.  The text is made from one copy of the values. */
#ifndef METRICS_EXPO_H
#define METRICS_EXPO_H
#include "metrics/tele.h"

enum expo_names { EXPO_OLD = 1, EXPO_NEW = 2, EXPO_BOTH = 3 }; /* of DCGM's fields */

struct expo_opts {
    enum expo_names names;   /* 0: EXPO_OLD */
    bool lower_hostname;     /* label `hostname` instead of `Hostname` */
    const char *hostname;    /* of the GPUs' label; NULL: none */
    const char *const *only; /* metric ids; NULL: all */
};
void expo_write(struct tele *t, const struct expo_opts *o, struct buf *out);

#endif
