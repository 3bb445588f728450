/* SPDX-License-Identifier: MIT */
/* maybe: a number that may be unknown.
 *
 * Unknown is never zero: a detected or measured number carries whether it was
 * learned at all.  JSON prints unknown as null, tables as "-".  All zero is
 * "unknown". */
#ifndef BASE_MAYBE_H
#define BASE_MAYBE_H
#include <stdbool.h>
#include <stdint.h>

struct maybe {
    int64_t v; /* meaningful only when known */
    bool known;
};

static inline struct maybe maybe_of(int64_t v)
{
    return (struct maybe){ .v = v, .known = true };
}

static inline struct maybe maybe_none(void)
{
    return (struct maybe){ 0 };
}

/* The value, or `dflt` when unknown. */
static inline int64_t maybe_or(struct maybe m, int64_t dflt)
{
    return m.known ? m.v : dflt;
}

static inline bool maybe_is(struct maybe m, int64_t v)
{
    return m.known && m.v == v;
}

#endif
