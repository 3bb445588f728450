/* SPDX-License-Identifier: MIT */
/* count_alloc: an allocator that counts the bytes it was asked for, for programs that state how
 * much their inner loop allocates.  Included once in a program. */
#ifndef TESTS_BENCH_COUNT_ALLOC_H
#define TESTS_BENCH_COUNT_ALLOC_H
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
static atomic_size_t allocated;

void *malloc(size_t size)
{
    atomic_fetch_add(&allocated, size);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    atomic_fetch_add(&allocated, count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    atomic_fetch_add(&allocated, size);
    return __libc_realloc(p, size);
}

#endif
