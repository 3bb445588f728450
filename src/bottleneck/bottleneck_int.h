/* SPDX-License-Identifier: MIT */
/* limits_int: what the files of limits share.
 *
 *   limits_facts.c  from a window's slots to facts
 *   limits_table.c  data/limits.csv with types, and the words of facts
 *   limits.c        judging
 *   limits_show.c   verdicts as text and JSON */
#ifndef BOTTLENECK_BOTTLENECK_INT_H
#define BOTTLENECK_BOTTLENECK_INT_H
#include "bottleneck/bottleneck.h"

enum limits_role {
    LIMITS_SIGN,  /* speaks for the class */
    LIMITS_NEED,  /* must hold for it, where it is known */
    LIMITS_ALONE, /* as need, of a host without GPUs */
    LIMITS_NOTE,  /* is told when it holds */
    LIMITS_ROLES
};
struct limits_row {
    enum limits_class limit;
    enum limits_role role;
    enum limits_fact fact;
    bool above;
    double threshold;
    double full;   /* of a sign: there it is as strong as it gets */
    double weight; /* of a sign: its strength then, 0 to 1 */
    const char *advice, *why;
};
/* The table, parsed once; any thread. */
const struct limits_row *limits_rows(size_t *out_count);
const char *limits_advice(enum limits_class c); /* of the classes that no sign stands for */

#endif
