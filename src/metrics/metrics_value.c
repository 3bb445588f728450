/* SPDX-License-Identifier: MIT */
/* metrics_value: counting.  Integers are one relaxed addition; doubles are added by exchanging
 * their bits.  Nothing here orders anything else: a scrape sees each number as it was at
 * some moment of the scrape. */
#include "metrics/metrics_int.h"

#include <math.h>
#include <string.h>

enum { LOOKS = 8 }; /* at a histogram that moves, before a scrape takes what it has */

/* Four a decade, near to equal steps of the logarithm and short to read. */
const double metrics_durations[] = {
    1e-5,   1.8e-5, 3.2e-5, 5.6e-5, 1e-4,  1.8e-4, 3.2e-4, 5.6e-4, 0.001, 0.0018,
    0.0032, 0.0056, 0.01,   0.018,  0.032, 0.056,  0.1,    0.18,   0.32,  0.56,
    1,      1.8,    3.2,    5.6,    10,    18,     32,     56,     100,
};
const size_t metrics_durations_count = ARRAY_SIZE(metrics_durations);

static double of_bits(uint64_t bits)
{
    double v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

static uint64_t to_bits(double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static double double_load(const _Atomic uint64_t *p)
{
    return of_bits(atomic_load_explicit(p, memory_order_relaxed));
}

/* Unknown plus something is that something. */
static void double_add(_Atomic uint64_t *p, double v)
{
    uint64_t old = atomic_load_explicit(p, memory_order_relaxed), new;

    do {
        double was = of_bits(old);

        new = to_bits(isnan(was) ? v : was + v);
    } while (!atomic_compare_exchange_weak_explicit(p, &old, new, memory_order_relaxed,
                                                    memory_order_relaxed));
}

void counter_add(struct counter *c, uint64_t n)
{
    atomic_fetch_add_explicit(&c->n, n, memory_order_relaxed);
}

void counter_add_seconds(struct counter *c, double s)
{
    if (s > 0 && isfinite(s)) /* a counter never falls */
        double_add(&c->seconds, s);
}

uint64_t counter_value(const struct counter *c)
{
    return atomic_load_explicit(&c->n, memory_order_relaxed) + (uint64_t)double_load(&c->seconds);
}

double counter_total(const struct counter *c)
{
    return (double)atomic_load_explicit(&c->n, memory_order_relaxed) + double_load(&c->seconds);
}

void gauge_set(struct gauge *g, double v)
{
    atomic_store_explicit(&g->bits, to_bits(v), memory_order_relaxed);
}

void gauge_add(struct gauge *g, double v)
{
    if (!isnan(v))
        double_add(&g->bits, v);
}

double gauge_value(const struct gauge *g)
{
    return double_load(&g->bits);
}

void histogram_add_many(struct histogram *h, double v, uint64_t n)
{
    size_t low = 0, high = h->bound_count;

    if (isnan(v) || !n) /* it would make the sum unknown for ever */
        return;
    while (low < high) { /* the first bound that is not below v */
        size_t mid = low + (high - low) / 2;

        if (h->bounds[mid] < v)
            low = mid + 1;
        else
            high = mid;
    }
    atomic_fetch_add_explicit(&h->buckets[low], n, memory_order_relaxed);
    double_add(&h->sum, v * (double)n);
}

void histogram_add(struct histogram *h, double v)
{
    histogram_add_many(h, v, 1);
}

/* The count is that of the buckets seen, so buckets and count agree always.  The sum is
 * taken between two equal looks where observations leave the time for it; acquire keeps
 * the three reads in their order. */
void histogram_look(const struct histogram *h, struct histogram_view *out)
{
    uint64_t before = UINT64_MAX;

    for (int look = 0; look < LOOKS; look++) {
        uint64_t count = 0;

        for (size_t i = 0; i <= h->bound_count; i++) {
            count += atomic_load_explicit(&h->buckets[i], memory_order_acquire);
            out->below[i] = count;
        }
        out->count = count;
        if (count == before)
            return;
        before = count;
        out->sum = of_bits(atomic_load_explicit(&h->sum, memory_order_acquire));
    }
}
