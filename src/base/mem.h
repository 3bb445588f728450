/* SPDX-License-Identifier: MIT */
/* mem: heap allocation that cannot fail.
 *
 * Host memory running out ends the program in one place, here, with one message;
 * sizes that come from outside are checked against a named limit before they
 * reach these functions. */
#ifndef BASE_MEM_H
#define BASE_MEM_H
#include "base/attr.h"

void *xmalloc(size_t size) MUST_USE;
void *xcalloc(size_t count, size_t size) MUST_USE; /* dies on overflow too */
void *xreallocarray(void *p, size_t count, size_t size) MUST_USE;
/* For tables of megabytes that are read all over: in large pages where the kernel has them,
 * which saves a fault for each small one and most of the misses of the TLB.  Not cleared;
 * given back by free(). */
void *xlarge(size_t size) MUST_USE;
char *xstrdup(const char *s) MUST_USE;
char *xstrndup(const char *s, size_t len) MUST_USE;

/* Makes room for one more element in a growing array (`items`, `count`, `cap`). */
#define VEC_GROW(items, count, cap)                                                                \
    do {                                                                                           \
        if ((count) == (cap)) {                                                                    \
            (cap) = (cap) ? (cap)*2 : 8;                                                           \
            (items) = xreallocarray((items), (cap), sizeof(*(items)));                             \
        }                                                                                          \
    } while (0)

#endif
