/* SPDX-License-Identifier: MIT */
#include "bench/bench_int.h"

#include <assert.h>
#include <math.h>

static size_t bucket_of(uint64_t v)
{
    int power; /* of the highest bit */

    if (v < UINT64_C(1) << HIST_BITS)
        return (size_t)v;
    power = 63 - __builtin_clzll(v);
    return ((size_t)(power - HIST_BITS + 1) << HIST_BITS) +
           (size_t)((v >> (power - HIST_BITS)) - (UINT64_C(1) << HIST_BITS));
}

/* The middle of a bucket's values. */
static uint64_t value_of(size_t bucket)
{
    size_t row = bucket >> HIST_BITS, part = bucket & ((1 << HIST_BITS) - 1);
    uint64_t step;

    if (row == 0)
        return bucket;
    step = UINT64_C(1) << (row - 1);
    return (((UINT64_C(1) << HIST_BITS) + part) << (row - 1)) + step / 2;
}

void hist_add(struct hist *h, uint64_t v)
{
    size_t b;

    if (v > HIST_VALUE_MAX)
        v = HIST_VALUE_MAX;
    b = bucket_of(v);
    assert(b < HIST_BUCKETS);
    if (!h->count || v < h->least)
        h->least = v;
    if (!h->count || v > h->greatest)
        h->greatest = v;
    h->count++;
    h->sum += (double)v;
    h->buckets[b]++;
}

void hist_merge(struct hist *h, const struct hist *other)
{
    if (!other->count)
        return;
    if (!h->count || other->least < h->least)
        h->least = other->least;
    if (!h->count || other->greatest > h->greatest)
        h->greatest = other->greatest;
    h->count += other->count;
    h->sum += other->sum;
    for (size_t i = 0; i < HIST_BUCKETS; i++)
        h->buckets[i] += other->buckets[i];
}

uint64_t hist_quantile(const struct hist *h, double q)
{
    uint64_t want, seen = 0, v;
    size_t i = 0;

    if (!h->count)
        return 0;
    want = q <= 0 ? 1 : (uint64_t)ceil(q * (double)h->count - 1e-9);
    if (want < 1)
        want = 1;
    if (want >= h->count)
        return h->greatest;
    while (i < HIST_BUCKETS && (seen += h->buckets[i]) < want)
        i++;
    v = value_of(i);
    return v < h->least ? h->least : v > h->greatest ? h->greatest : v;
}

double hist_mean(const struct hist *h)
{
    return h->count ? h->sum / (double)h->count : 0;
}
