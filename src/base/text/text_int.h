/* SPDX-License-Identifier: MIT */
/* text_int: what the files of base/text share. */
#ifndef BASE_TEXT_TEXT_INT_H
#define BASE_TEXT_TEXT_INT_H
#include "base/text/utf8.h"

size_t utf8_width_n(const char *s, size_t len);

#endif
