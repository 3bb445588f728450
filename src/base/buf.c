/* SPDX-License-Identifier: MIT */
#include "base/buf.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){ .max = max };
}

void buf_release(struct buf *b)
{
    free(b->data);
    buf_init(b, b->max);
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->over = false;
    if (b->data)
        b->data[0] = '\0';
}

/* Room for `more` bytes and the NUL; false once the maximum is reached. */
static bool buf_room(struct buf *b, size_t more)
{
    size_t max = b->max ? b->max : BUF_MAX_DEFAULT;

    if (b->over || more > max - b->len) {
        b->over = true;
        return false;
    }
    if (b->len + more + 1 > b->cap) {
        size_t cap = b->cap ? b->cap * 2 : 128;

        if (cap < b->len + more + 1)
            cap = b->len + more + 1;
        b->data = xreallocarray(b->data, cap, 1);
        b->cap = cap;
    }
    return true;
}

void buf_add(struct buf *b, const void *p, size_t len)
{
    if (!buf_room(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, p, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_fill(struct buf *b, char c, size_t count)
{
    if (!buf_room(b, count))
        return;
    memset(b->data + b->len, c, count);
    b->len += count;
    b->data[b->len] = '\0';
}

char *buf_reserve(struct buf *b, size_t len)
{
    return buf_room(b, len) ? b->data + b->len : NULL;
}

void buf_commit(struct buf *b, size_t len)
{
    assert(b->len + len < b->cap);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
    va_list again;
    int len;

    va_copy(again, ap);
    len = vsnprintf(NULL, 0, fmt, ap);
    assert(len >= 0);
    if (buf_room(b, (size_t)len)) {
        vsnprintf(b->data + b->len, (size_t)len + 1, fmt, again);
        b->len += (size_t)len;
    }
    va_end(again);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(b, fmt, ap);
    va_end(ap);
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
    char *s = b->data ? b->data : xstrdup("");

    b->data = NULL;
    buf_init(b, b->max);
    return s;
}
