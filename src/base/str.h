/* SPDX-License-Identifier: MIT */
/* str: strings and numbers from outside, bounded and exact. */
#ifndef BASE_STR_H
#define BASE_STR_H
#include "base/attr.h"
#include "base/buf.h"
#include "base/maybe.h"

bool str_eq(const char *a, const char *b); /* NULL equals only NULL */
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);
/* Is the absolute path `p` the same as `top` or below it, however many slashes and "." it has? */
bool str_path_below(const char *p, const char *top);
/* Relative, and never above where it starts: without ".."? */
bool str_path_inside(const char *p);
/* Cuts white space at both ends in place; returns the new start. */
char *str_trim(char *s);
/* Copies at most cap-1 bytes and always terminates; returns false when cut. */
bool str_copy(char *dst, size_t cap, const char *src);

/* The whole string must be the number (base 0, 10 or 16); no white space, no sign
 * for u64.  False, with *out untouched, for anything else or out of range. */
bool str_to_i64(const char *s, int base, int64_t *out);
bool str_to_u64(const char *s, int base, uint64_t *out);
bool str_to_f64(const char *s, double *out); /* finite only */
struct maybe str_to_maybe(const char *s);    /* decimal or 0x…; unknown when not a number */

/* Valid UTF-8 without NUL or control characters other than tab and newline? */
bool str_is_text(const char *s, size_t len);
/* Replaces what str_is_text() refuses by '?', in place. */
void str_make_text(char *s);
/* Adds `s` as it may be shown to a person: what a terminal would obey, or what changes the order or
 * hides (controls, marks of direction, characters of no width), stands there as \u202e, bytes that
 * are no UTF-8 as '?'.  Tabs and newlines stay. */
void str_add_shown(struct buf *out, const char *s);
/* Does a person see such a character as it is? */
bool str_is_shown(uint32_t c);

/* Of `names` the one nearest to `s`, or NULL when none is near: for "did you mean". */
const char *str_nearest(const char *s, const char *const *names, size_t count);
/* Edit distance with transpositions, at most `max`+1. */
size_t str_distance(const char *a, const char *b, size_t max);

#endif
