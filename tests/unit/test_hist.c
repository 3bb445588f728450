/* SPDX-License-Identifier: MIT */
/* hist against exact sorts, over laws that differ. */
#include "test.h"

#include "base/mem.h"
#include "bench/bench_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 20000 };

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static uint64_t draw(int law, uint64_t *state)
{
    switch (law) {
    case 0:
        return random_u64(state) % 200; /* buckets of one value, and the border */
    case 1:
        return (uint64_t)(1e6 * exp(random_normal(state)));
    case 2:
        return random_u64(state) >> (20 + random_u64(state) % 40);
    default:
        return random_u64(state) % 100 ? 1000000 : 1000000000; /* one in a hundred is far off */
    }
}

TEST(quantiles_are_those_of_a_sort)
{
    static const double qs[] = { 0, 0.001, 0.1, 0.5, 0.9, 0.98, 0.99, 0.999, 1 };
    uint64_t *v = xcalloc(COUNT, sizeof(*v)), seed = 7;
    struct hist *h = xcalloc(1, sizeof(*h));

    for (int law = 0; law < 4; law++) {
        double sum = 0;

        memset(h, 0, sizeof(*h));
        for (size_t i = 0; i < COUNT; i++) {
            v[i] = draw(law, &seed);
            sum += (double)v[i];
            hist_add(h, v[i]);
        }
        qsort(v, COUNT, sizeof(*v), by_value);
        for (size_t i = 0; i < ARRAY_SIZE(qs); i++) {
            size_t rank = qs[i] <= 0 ? 0 : (size_t)ceil(qs[i] * COUNT - 1e-9) - 1;
            double want = (double)v[rank], got = (double)hist_quantile(h, qs[i]);

            CHECK(fabs(got - want) <= want * 0.01);
        }
        CHECK(h->least == v[0] && h->greatest == v[COUNT - 1] && h->count == COUNT);
        CHECK(fabs(hist_mean(h) - sum / COUNT) <= 1e-9 * sum);
    }
    free(v);
    free(h);
}

TEST(every_power_keeps_its_error)
{
    struct hist *h = xcalloc(1, sizeof(*h));

    for (int power = 0; power < 44; power++)
        for (int k = 0; k < 3; k++) {
            uint64_t v = (UINT64_C(1) << power) + (k == 1   ? 1
                                                   : k == 2 ? (UINT64_C(1) << power) - 1
                                                            : 0);

            memset(h, 0, sizeof(*h));
            hist_add(h, 0);
            hist_add(h, v);
            hist_add(h, HIST_VALUE_MAX); /* so that the middle one is not an exact end */
            CHECK(fabs((double)hist_quantile(h, 0.6) - (double)v) <= 0.01 * (double)v);
        }
    free(h);
}

TEST(ends_and_merges)
{
    struct hist *a = xcalloc(1, sizeof(*a)), *b = xcalloc(1, sizeof(*b));

    CHECK(hist_quantile(a, 0.5) == 0 && hist_mean(a) == 0);
    hist_merge(a, b);
    CHECK(a->count == 0);
    hist_add(a, UINT64_MAX);
    CHECK(a->greatest == HIST_VALUE_MAX && hist_quantile(a, 0.5) == HIST_VALUE_MAX);
    hist_add(b, 5);
    hist_add(b, 5);
    hist_merge(a, b);
    CHECK(a->count == 3 && a->least == 5 && hist_quantile(a, 0.5) == 5);
    hist_merge(b, a);
    CHECK(b->count == 5 && b->greatest == HIST_VALUE_MAX);
    free(a);
    free(b);
}

/* A server that stops for a second of ten, asked a thousand times a second: what a
 * schedule sees, and what a client that waits sees. */
TEST(a_stall_shows_when_times_count_from_the_schedule)
{
    const uint64_t ms = 1000000, stall_begin = 4000 * ms, stall_end = 5000 * ms;
    struct hist *open = xcalloc(1, sizeof(*open)), *closed = xcalloc(1, sizeof(*closed));

    for (uint64_t due = 0; due < 10000 * ms; due += ms) {
        uint64_t done = due + ms / 2;

        if (due >= stall_begin && due < stall_end)
            done = stall_end + ms / 2;
        hist_add(open, done - due);
    }
    for (uint64_t now = 0; now < 10000 * ms;) {
        uint64_t took = now >= stall_begin && now < stall_begin + ms ? 1000 * ms : ms / 2;

        hist_add(closed, took);
        now += took > ms ? took : ms;
    }
    CHECK(hist_quantile(open, 0.99) > 850 * ms && hist_quantile(open, 0.95) > 450 * ms);
    CHECK(hist_quantile(closed, 0.99) < ms && hist_quantile(closed, 0.999) < ms);
    free(open);
    free(closed);
}

TEST_MAIN(cmocka_unit_test(quantiles_are_those_of_a_sort),
          cmocka_unit_test(every_power_keeps_its_error), cmocka_unit_test(ends_and_merges),
          cmocka_unit_test(a_stall_shows_when_times_count_from_the_schedule))
