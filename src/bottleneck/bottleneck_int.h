/* SPDX-License-Identifier: MIT */
/* bottleneck_int: what the files of limits share.
 *
 *   bottleneck_facts.c  from a window's slots to facts
 *   bottleneck_table.c  data/limits.csv with types, and the words of facts
 *   bottleneck.c        judging
 *   bottleneck_show.c   verdicts as text and JSON */
#ifndef BOTTLENECK_BOTTLENECK_INT_H
#define BOTTLENECK_BOTTLENECK_INT_H
#include "bottleneck/bottleneck.h"

enum bottleneck_role {
    BOTTLENECK_SIGN,  /* speaks for the class */
    BOTTLENECK_NEED,  /* must hold for it, where it is known */
    BOTTLENECK_ALONE, /* as need, of a host without GPUs */
    BOTTLENECK_NOTE,  /* is told when it holds */
    BOTTLENECK_ROLES
};
struct bottleneck_row {
    enum bottleneck_class limit;
    enum bottleneck_role role;
    enum bottleneck_fact fact;
    bool above;
    double threshold;
    double full;   /* of a sign: there it is as strong as it gets */
    double weight; /* of a sign: its strength then, 0 to 1 */
    const char *advice, *why;
};
/* The table, parsed once; any thread. */
const struct bottleneck_row *bottleneck_rows(size_t *out_count);
const char *bottleneck_advice(enum bottleneck_class c); /* of the classes that no sign stands for */

const char *bottleneck_fact_word(enum bottleneck_fact f); /* "tensor" */
/* "compute (confidence 0.9): the tensor cores work 93 % of the time (from 50 % on)". */
void bottleneck_verdict_text(const struct bottleneck_verdict *v, struct buf *out);

#endif
