/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ARENA_BLOCK_MIN = 4096,
    ARENA_BLOCK_MAX = 1 << 20, /* blocks stop doubling here; a larger object has its own */
    ARENA_ALIGN = 16
};

struct arena_block {
    struct arena_block *next; /* older */
    size_t size;              /* bytes in data */
    size_t used;
    _Alignas(ARENA_ALIGN) unsigned char data[];
};

void arena_init(struct arena *a)
{
    *a = (struct arena){ 0 };
}

void arena_release(struct arena *a)
{
    struct arena_block *b = a->head;

    while (b) {
        struct arena_block *older = b->next;

        free(b);
        b = older;
    }
    arena_init(a);
}

static void arena_grow(struct arena *a, size_t need)
{
    size_t size = a->head ? a->head->size * 2 : ARENA_BLOCK_MIN;
    struct arena_block *b;

    if (size > ARENA_BLOCK_MAX)
        size = ARENA_BLOCK_MAX;
    if (size < need)
        size = need;
    b = xcalloc(1, sizeof(*b) + size);
    b->size = size;
    b->next = a->head;
    a->head = b;
}

void *arena_alloc(struct arena *a, size_t size)
{
    void *p;

    assert(size <= SIZE_MAX / 2);
    size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (!size)
        size = ARENA_ALIGN;
    if (!a->head || a->head->size - a->head->used < size)
        arena_grow(a, size);
    p = a->head->data + a->head->used;
    a->head->used += size;
    a->used_bytes += size;
    return p;
}

void *arena_array_bytes(struct arena *a, size_t count, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total))
        total = SIZE_MAX / 2 + 1; /* arena_alloc() asserts: a programmer's error */
    return arena_alloc(a, total);
}

void *arena_memdup(struct arena *a, const void *p, size_t len)
{
    void *q = arena_alloc(a, len);

    if (len)
        memcpy(q, p, len);
    return q;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
    char *p = arena_alloc(a, len + 1);

    memcpy(p, s, len);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return s ? arena_strndup(a, s, strlen(s)) : NULL;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    char small[256];
    va_list ap, again;
    int len;
    char *p;

    va_start(ap, fmt);
    va_copy(again, ap);
    len = vsnprintf(small, sizeof(small), fmt, ap);
    va_end(ap);
    assert(len >= 0);
    p = arena_alloc(a, (size_t)len + 1);
    if ((size_t)len < sizeof(small))
        memcpy(p, small, (size_t)len);
    else
        vsnprintf(p, (size_t)len + 1, fmt, again);
    va_end(again);
    return p;
}
