/* SPDX-License-Identifier: MIT */
#include "base/mem.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE_PAGE = 2 << 20 };

static void NORETURN out_of_memory(size_t size)
{
    fprintf(stderr, "stoker: out of memory asking for %zu bytes\n", size);
    _exit(4); /* a limit was reached */
}

void *xmalloc(size_t size)
{
    void *p = malloc(size ? size : 1);

    if (!p)
        out_of_memory(size);
    return p;
}

void *xcalloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);

    if (!p)
        out_of_memory(count * size);
    return p;
}

void *xreallocarray(void *p, size_t count, size_t size)
{
    void *q = reallocarray(p, count ? count : 1, size ? size : 1);

    if (!q)
        out_of_memory(count * size);
    return q;
}

void *xlarge(size_t size)
{
    size_t whole = size / LARGE_PAGE * LARGE_PAGE; /* a page that is not filled stays small ones */
    void *p;

    if (!whole || size > SIZE_MAX - LARGE_PAGE)
        return xmalloc(size);
    p = aligned_alloc(LARGE_PAGE, whole == size ? size : whole + LARGE_PAGE);
    if (!p)
        out_of_memory(size);
    (void)madvise(p, whole, MADV_HUGEPAGE); /* a wish */
    return p;
}

char *xstrdup(const char *s)
{
    return xstrndup(s, strlen(s));
}

char *xstrndup(const char *s, size_t len)
{
    char *p = xmalloc(len + 1);

    memcpy(p, s, len);
    p[len] = '\0';
    return p;
}
