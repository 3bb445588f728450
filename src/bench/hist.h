/* SPDX-License-Identifier: MIT */
/* hist: many numbers in little memory, with percentiles of a known error.
 *
 * Log-linear buckets: below 2^HIST_BITS each value has its own, above that every power of
 * two is cut into 2^HIST_BITS parts.  A bucket is answered by its middle, so that a
 * percentile is at most 2^-(HIST_BITS+1), that is 0.4 %, away from the true one; least,
 * greatest and mean are exact.  Values above HIST_VALUE_MAX count as that. */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H
#include <stddef.h>
#include <stdint.h>

enum {
    HIST_BITS = 7,
    HIST_POWER = 44, /* 2^44 ns are almost five hours */
    HIST_BUCKETS = (HIST_POWER - HIST_BITS + 1) << HIST_BITS
};
#define HIST_VALUE_MAX ((UINT64_C(1) << HIST_POWER) - 1)

struct hist { /* all zero is an empty one */
    uint64_t count;
    uint64_t least, greatest; /* of no meaning while count is 0 */
    double sum;
    uint64_t buckets[HIST_BUCKETS];
};

/* The smallest value that at least `q` (0 to 1) of all are not above; 0 when empty. */
uint64_t hist_quantile(const struct hist *h, double q);

#endif
