/* SPDX-License-Identifier: MIT */
/* schema_int: the words in which the rows of the schema are written.
 *
 *   ROW(KIND, "key", struct, member, .dflt = ..., .doc = ...)        one value
 *   TREE(SECTION|OPTION, "key", struct, member, table, .doc = ...)   keys below a key
 *   TREES(LIST|MAP, "key", struct, member, count, table, .doc = ...) many of them
 *
 * ROW finds the C type of the member, so a row and its member cannot disagree. */
#ifndef SPEC_SCHEMA_SCHEMA_INT_H
#define SPEC_SCHEMA_SCHEMA_INT_H
#include "spec/spec_int.h"

#include <stdint.h>

/* clang-format off */
#define STORE_OF(s, m)                                                                             \
    _Generic(((s *)0)->m,                                                                          \
        const char *: STORE_STR, int64_t: STORE_I64, bool: STORE_BOOL, double: STORE_F64,          \
        unsigned: STORE_ENUM, struct maybe: STORE_MAYBE, struct spec_num: STORE_NUM,               \
        struct spec_money: STORE_MONEY, struct spec_quantity: STORE_QUANTITY,                      \
        struct spec_strs: STORE_STRS, struct spec_pairs: STORE_PAIRS)
/* clang-format on */
#define ROW(kind_, key_, s, m, ...)                                                                \
    {                                                                                              \
        .key = (key_), .kind = SPEC_##kind_, .store = STORE_OF(s, m), .off = offsetof(s, m),       \
        __VA_ARGS__                                                                                \
    }
#define TREE(kind_, key_, s, m, table_, ...)                                                       \
    {                                                                                              \
        .key = (key_), .kind = SPEC_##kind_, .off = offsetof(s, m), .sub = &(table_), __VA_ARGS__  \
    }
#define TREES(kind_, key_, s, m, count_, table_, ...)                                              \
    {                                                                                              \
        .key = (key_), .kind = SPEC_##kind_, .off = offsetof(s, m),                                \
        .count_off = offsetof(s, count_), .sub = &(table_), __VA_ARGS__                            \
    }
#define TABLE(var, s, rows_)                                                                       \
    static const struct spec_table var = { sizeof(s), rows_, ARRAY_SIZE(rows_) }
#define WORD_(id, text)  text,
#define WORDS(var, LIST) static const char *const var[] = { LIST(WORD_) NULL }

#define KB     INT64_C(1024)
#define MB     (KB * 1024)
#define GB     (MB * 1024)
#define TB     (GB * 1024)
#define SEC    INT64_C(1000)
#define MINUTE (60 * SEC)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

extern const struct spec_table spec_target_table; /* schema_targets.c */

#endif
