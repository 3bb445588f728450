/* SPDX-License-Identifier: MIT */
/* buf: text that grows, with a maximum.
 *
 * Invariants: `data` is NULL or NUL-terminated at `len`; len < cap; len <= max.
 * Past `max` the buffer stops growing and `over` is set: callers check it once at
 * the end instead of after every append.  Text comes out whole or not at all. */
#ifndef BASE_BUF_H
#define BASE_BUF_H
#include "base/attr.h"

#include <stdarg.h>
#include <stdbool.h>

struct buf {
    char *data; /* owned; use buf_str() when it may be empty */
    size_t len;
    size_t cap;
    size_t max; /* 0: BUF_MAX_DEFAULT */
    bool over;  /* something did not fit below max */
};

enum { BUF_MAX_DEFAULT = 64 << 20 };

void buf_init(struct buf *b, size_t max); /* all zero is also an initialised buf */
void buf_release(struct buf *b);
void buf_reset(struct buf *b); /* empties it, keeps the memory */

void buf_add(struct buf *b, const void *p, size_t len);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
void buf_fill(struct buf *b, char c, size_t count);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
void buf_vaddf(struct buf *b, const char *fmt, va_list ap);

/* Room for `len` more bytes at the end, to be written by the caller; NULL: over.  Then
 * buf_commit() with how many there are. */
char *buf_reserve(struct buf *b, size_t len);
void buf_commit(struct buf *b, size_t len);

const char *buf_str(const struct buf *b); /* never NULL; borrowed until the next append */
char *buf_take(struct buf *b);            /* the caller owns it; the buf is empty after */

#endif
