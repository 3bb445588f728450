/* SPDX-License-Identifier: MIT */
/* unicode: what tokenizers need to know of a code point.
 *
 * The tables are made by tools/unicode from what the reference `tokenizers` library
 * does, code point by code point, not from the newest standard: exactness means being
 * as old as it is.  All functions take any value up to 0x10FFFF. */
#ifndef MODEL_UNICODE_UNICODE_INT_H
#define MODEL_UNICODE_UNICODE_INT_H
#include "base/text/utf8.h"

#include <stdbool.h>

enum {
    UNI_LOWER_MAX = 3,  /* code points one lower-cases to, at most */
    UNI_DECOMP_MAX = 18 /* code points one decomposes to (NFKD), at most */
};

bool uni_is_space(uint32_t c);           /* Rust's char::is_whitespace */
bool uni_is_other(uint32_t c);           /* Cc, Cf, Co of crate unicode_categories */
bool uni_is_mark_nonspacing(uint32_t c); /* Mn of it */
bool uni_is_punct(uint32_t c);           /* P* of it */
bool uni_is_chinese(uint32_t c); /* the ranges BertNormalizer pads, its typing error included */
/* Full lower case, as Rust's char::to_lowercase; returns how many were written. */
size_t uni_lower(uint32_t c, uint32_t out[UNI_LOWER_MAX]);
/* Canonical (compat false) or compatibility decomposition of one code point. */
size_t uni_decompose(uint32_t c, bool compat, uint32_t out[UNI_DECOMP_MAX]);
unsigned uni_combining_class(uint32_t c);
/* The primary composite of two, or 0. */
uint32_t uni_compose(uint32_t a, uint32_t b);

/* Normal forms with the alignment the reference library keeps: source[i] is the index in
 * the input of what code[i] stands for.  As there, one that was put in by decomposing
 * belongs to the one before it, a composite to the first it was made of, and marks that
 * were put in order keep their places' alignment, not their own. */
enum uni_form { UNI_NFC, UNI_NFD, UNI_NFKC, UNI_NFKD };
enum { UNI_NORM_MAX = 64 << 20 }; /* code points of one input; the callers see to it */
struct uni_norm {                 /* all zero is an empty one; memory is kept from call to call */
    uint32_t *code;
    int32_t *source;
    size_t count;
    uint8_t *class; /* the rest is the function's own */
    struct uni_norm_item {
        uint32_t code;
        int32_t change;
        uint8_t class;
    } * spare;
    size_t cap, spare_cap;
};
void uni_normalize(enum uni_form form, const uint32_t *in, size_t count, struct uni_norm *out);
void uni_norm_release(struct uni_norm *n); /* NULL is fine */

/* Bytes of the extended grapheme cluster at the start of valid UTF-8; 0 when len is 0. */
size_t uni_grapheme(const char *s, size_t len);

/* ---- sets of characters below the surrogates ---- */
enum { UNI_SET_END = 0xd800 };
struct uni_set {
    uint64_t bits[UNI_SET_END / 64];
};

static inline bool uni_set_has(const struct uni_set *s, uint32_t c)
{
    return c < UNI_SET_END && s->bits[c >> 6] >> (c & 63) & 1;
}

static inline void uni_set_add(struct uni_set *s, uint32_t c)
{
    s->bits[c >> 6] |= UINT64_C(1) << (c & 63);
}

static inline void uni_set_remove(struct uni_set *s, uint32_t c)
{
    if (c < UNI_SET_END)
        s->bits[c >> 6] &= ~(UINT64_C(1) << (c & 63));
}

/* Bytes of the character that text begins with when the set has it; 0 for others, for what is
 * not UTF-8 and at the end. */
static inline size_t uni_set_step(const struct uni_set *s, const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t c;

    if (!len)
        return 0;
    if (p[0] < 0x80)
        return uni_set_has(s, p[0]);
    if (p[0] < 0xe0) {
        if (len < 2 || p[0] < 0xc2 || (p[1] & 0xc0) != 0x80)
            return 0;
        return uni_set_has(s, (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f)) ? 2 : 0;
    }
    if (p[0] >= 0xf0 || len < 3 || (p[1] & 0xc0) != 0x80 || (p[2] & 0xc0) != 0x80)
        return 0;
    c = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    return c >= 0x800 && uni_set_has(s, c) ? 3 : 0;
}

#endif
