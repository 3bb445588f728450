/* SPDX-License-Identifier: MIT */
/* plan_int: arithmetic that the files of plan/ share. */
#ifndef PLAN_PLAN_INT_H
#define PLAN_PLAN_INT_H
#include "plan/plan.h"

#include <assert.h>

__extension__ typedef unsigned __int128 plan_u128;

/* To 64 bits.  The limits of plan.h keep every product of the folder below 2^63; a value above is
 * a fault of the program, and saturating it would hide one. */
static inline uint64_t plan_u64(plan_u128 v)
{
    assert(v <= UINT64_MAX);
    return (uint64_t)v;
}

/* a * b / c, rounded up. */
static inline uint64_t plan_muldiv(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t p;

    assert(c > 0);
    if (!__builtin_mul_overflow(a, b, &p) && p <= UINT64_MAX - c)
        return (p + c - 1) / c;
    return plan_u64(((plan_u128)a * b + c - 1) / c);
}

static inline int64_t plan_ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static inline int64_t plan_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t plan_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* GPUs the tensor parallelism of experts spans, by the rule where it is not given. */
static inline int64_t plan_etp(const struct plan_config *c)
{
    return c->etp ? c->etp : c->ep > 1 ? 1 : c->tp;
}

#endif
