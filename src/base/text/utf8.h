/* SPDX-License-Identifier: MIT */
/* utf8: strict decoding, one code point at a time, and checking a whole text. */
#ifndef BASE_TEXT_UTF8_H
#define BASE_TEXT_UTF8_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The code point at s[0..len) and its length in bytes; 0 when it is not valid UTF-8
 * (overlong forms, surrogates, beyond U+10FFFF, cut short) or len is 0. */
size_t utf8_decode(const char *s, size_t len, uint32_t *out);
/* The whole of it is valid, in the same sense.  No branch depends on the text. */
bool utf8_is_valid(const char *s, size_t len);
/* Writes 1 to 4 bytes; returns how many. */
size_t utf8_encode(uint32_t c, char out[4]);
/* Terminal columns of a string, counted as one a code point. */
size_t utf8_width(const char *s);
/* Columns of the first character (0 when it combines, 2 when it is wide) and its bytes. */
size_t utf8_columns(const char *s, size_t len, size_t *out_step);

#endif
