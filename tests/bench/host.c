/* SPDX-License-Identifier: MIT */
/* host: what one sample of the host's sources costs.
 *
 *     bench-host [ROOT] [ROUNDS]
 *
 * CPU time of this thread for each source and for all of one second (a source with a longer period
 * counts by its share), and the bytes allocated in a sample once every device is known: none.
 * Allocations are counted by standing before the allocator. */
#include "count_alloc.h"

#include "os/clock.h"
#include "telemetry/collect/collect.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCES_MAX = 32, WARM_UP = 3, ROUNDS_DEFAULT = 200 };

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Time in the log moves by a millisecond a round: folders are not looked into again meanwhile. */
static double median_us(const struct collector *c, void *state, struct telemetry *t, int rounds,
                        size_t *bytes)
{
    int64_t *ns = calloc((size_t)rounds, sizeof(*ns)), now = clock_unix_ms() * 1000000;
    double us;

    for (int i = 0; i < WARM_UP; i++)
        c->sample(state, t, now++);
    *bytes = atomic_load(&allocated);
    for (int i = 0; i < rounds; i++) {
        int64_t begin = clock_thread_ns();

        c->sample(state, t, now + i * INT64_C(1000000));
        ns[i] = clock_thread_ns() - begin;
    }
    *bytes = atomic_load(&allocated) - *bytes;
    qsort(ns, (size_t)rounds, sizeof(*ns), by_time);
    us = (double)ns[rounds / 2] / 1000;
    free(ns);
    return us;
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : ROUNDS_DEFAULT;
    struct telemetry *t = telemetry_new(0);
    struct root *root;
    struct err err = { 0 };
    double second = 0;
    size_t all = 0;

    if (root_open(argc > 1 && argv[1][0] ? argv[1] : "/", &root, &err) || rounds < 1) {
        fprintf(stderr, "bench-host: %s\n", err.msg);
        return 1;
    }
    printf("%-10s %10s %12s %10s %10s\n", "source", "period ms", "CPU us", "bytes", "series");
    for (size_t i = 0; collectors[i]; i++) {
        const struct collector *c = collectors[i];
        size_t bytes, before = telemetry_count(t);
        void *state = c->open(root, t);
        double us = median_us(c, state, t, rounds, &bytes);

        c->close(state);
        second += us * 1000 / c->period_ms;
        all += bytes;
        printf("%-10s %10d %12.1f %10zu %10zu\n", c->name, c->period_ms, us, bytes,
               telemetry_count(t) - before);
    }
    printf("RESULT host.sample_us %.1f us\n", second);
    printf("RESULT host.cpu_pct %.4f %%\n", second / 1e6 * 100);
    printf("RESULT host.sample_alloc_bytes %zu bytes\n", all);
    root_close(root);
    telemetry_free(t);
    return 0;
}
