/* SPDX-License-Identifier: MIT */
/* f32: a float as the shortest decimal text that reads back as the same float. */
#ifndef BASE_CODEC_F32_H
#define BASE_CODEC_F32_H
#include "base/attr.h"

enum { F32_TEXT_MAX = 24 }; /* bytes of the longest text and its NUL */

/* A JSON number, "-0.0123" or "1.5e-12"; NaN and infinities give "null".  Returns its length. */
size_t f32_print(float f, char out[F32_TEXT_MAX]);

#endif
