/* SPDX-License-Identifier: MIT */
/* arena: memory with one lifetime.
 *
 * Everything a document, plan or request allocates comes from one arena and goes
 * with it.  Blocks double from 4 KiB, so a small arena stays small.  Memory is
 * zeroed.  An arena has one owner and is not locked. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H
#include "base/attr.h"

struct arena_block;
struct arena {
    struct arena_block *head; /* newest block; owned */
    size_t used_bytes;        /* handed out, for reports and limits */
};

void arena_init(struct arena *a); /* all zero is also an initialised arena */
void arena_release(struct arena *a);

void *arena_alloc(struct arena *a, size_t size) MUST_USE;    /* aligned to 16, zeroed */
char *arena_strdup(struct arena *a, const char *s) MUST_USE; /* NULL gives NULL */
char *arena_strndup(struct arena *a, const char *s, size_t len) MUST_USE;
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3) MUST_USE;
void *arena_array_bytes(struct arena *a, size_t count, size_t size) MUST_USE;
/* A copy of `len` bytes, for arrays built on the heap or the stack. */
void *arena_memdup(struct arena *a, const void *p, size_t len) MUST_USE;

#define arena_new(a, type)      ((type *)arena_alloc((a), sizeof(type)))
#define arena_array(a, type, n) ((type *)arena_array_bytes((a), (n), sizeof(type)))

#endif
