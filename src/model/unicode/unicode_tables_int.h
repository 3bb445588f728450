/* SPDX-License-Identifier: MIT */
/* unicode_tables_int: the shape of the generated tables, for the unicode files only.
 *
 * A code point's kind is found in three steps: uni_top[c >> 12] names a row of 64 in
 * uni_mid, that names a leaf of 64 letters, and uni_kinds[letter] is the word of UNI_K_*
 * bits with the grapheme break class above them.  The letters are printable so that the
 * leaves stay readable and short as source.  tools/unicode writes the same names. */
#ifndef MODEL_UNICODE_UNICODE_TABLES_INT_H
#define MODEL_UNICODE_UNICODE_TABLES_INT_H
#include "model/unicode/unicode_int.h"

enum {
    UNI_K_SPACE = 1 << 0,
    UNI_K_OTHER = 1 << 1,
    UNI_K_MARK = 1 << 2,
    UNI_K_PUNCT = 1 << 3,
    UNI_K_LOWER = 1 << 4,      /* its lower case is another */
    UNI_K_CLASS = 1 << 5,      /* combining class above 0 */
    UNI_K_CANON = 1 << 6,      /* decomposes canonically (Hangul syllables are not marked) */
    UNI_K_COMPAT = 1 << 7,     /* its NFKD is not its NFD */
    UNI_K_SECOND = 1 << 8,     /* second of some primary composite, or Hangul V or T */
    UNI_K_PICTO = 1 << 9,      /* Extended_Pictographic */
    UNI_K_CONSONANT = 1 << 10, /* Indic conjunct break: consonant, linker, extend */
    UNI_K_LINKER = 1 << 11,
    UNI_K_CONJUNCT = 1 << 12,
    UNI_K_BREAK_SHIFT = 16 /* enum uni_break stands from this bit on */
};

enum uni_break {
    UNI_B_ANY,
    UNI_B_CR,
    UNI_B_LF,
    UNI_B_CONTROL,
    UNI_B_EXTEND,
    UNI_B_ZWJ,
    UNI_B_SPACING,
    UNI_B_PREPEND,
    UNI_B_REGION,
    UNI_B_L,
    UNI_B_V,
    UNI_B_T,
    UNI_B_LV,
    UNI_B_LVT
};

struct uni_lower_run { /* first, first + step … last: lower case is `delta` away */
    uint32_t first, last, step;
    int32_t delta;
};

struct uni_class_run {
    uint32_t first, last;
    uint8_t class;
};

struct uni_run { /* code points first.. of which the n-th has entry at[index + n] */
    uint32_t first;
    uint16_t count, index;
};

struct uni_pair { /* sorted by a, b */
    uint32_t a, b, composite;
};

extern const uint32_t uni_kinds[128];
extern const uint8_t uni_top[272];
extern const uint16_t uni_mid[];
extern const char uni_leaf[][65];
extern const struct uni_lower_run uni_lower_runs[];
extern const size_t uni_lower_run_count;
extern const uint32_t uni_lower_long[][4]; /* code point, then its lower case, 0 behind it */
extern const size_t uni_lower_long_count;
extern const struct uni_class_run uni_class_runs[];
extern const size_t uni_class_run_count;
extern const struct uni_pair uni_pairs[];
extern const size_t uni_pair_count;

extern const struct uni_run uni_canon_runs[], uni_compat_runs[];
extern const size_t uni_canon_run_count, uni_compat_run_count;
extern const uint16_t uni_canon_at[], uni_compat_at[]; /* index into uni_pool */
extern const uint32_t uni_pool[];                      /* how many, then the code points */

enum { UNI_CODE_MAX = 0x10FFFF };

static inline uint32_t uni_kind(uint32_t c)
{
    if (c > UNI_CODE_MAX)
        return 0;
    unsigned mid = uni_mid[uni_top[c >> 12] * 64 + (c >> 6 & 63)];
    return uni_kinds[(unsigned char)uni_leaf[mid][c & 63]];
}

#endif
