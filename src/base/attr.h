/* SPDX-License-Identifier: MIT */
/* attr: compiler attributes and the two macros every file wants. */
#ifndef BASE_ATTR_H
#define BASE_ATTR_H
#include <stddef.h>

#define MUST_USE               __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN               __attribute__((noreturn))
#define ALWAYS_INLINE          static inline __attribute__((always_inline))
#define ARRAY_SIZE(a)          (sizeof(a) / sizeof((a)[0]))

#endif
