/* SPDX-License-Identifier: MIT */
/* check_int: what the rules across keys share. */
#ifndef SPEC_CHECK_INT_H
#define SPEC_CHECK_INT_H
#include "spec/spec_int.h"

struct check {
    struct load *l;
    const struct spec *s;
};

/* An error at the value `at`. */
#define ERROR(c, at, ...)                                                                          \
    do {                                                                                           \
        struct spec_pos pos_ = spec_where((c)->s, (at));                                           \
        diag_add((c)->l, pos_.line, pos_.col, __VA_ARGS__);                                        \
    } while (0)

void check_refs(struct check *c);       /* names that must exist */
void check_names(struct check *c);      /* names that must differ */
void check_thresholds(struct check *c); /* check_alerts.c */

#endif
