/* SPDX-License-Identifier: MIT */
/* grapheme: extended grapheme clusters (UAX #29, rules GB3 to GB13 with GB9c).
 *
 * The walk keeps what the rules look back at: the class before, how far an emoji
 * sequence and an Indic conjunct have come, and whether a flag is half done. */
#include "model/unicode/unicode_tables_int.h"

enum emoji { EMOJI_NONE, EMOJI_BASE, EMOJI_JOINED };      /* ExtPict Extend* [ZWJ] */
enum conjunct { CONJ_NONE, CONJ_CONSONANT, CONJ_LINKED }; /* consonant … linker … */

struct cluster_walk {
    enum uni_break before;
    enum emoji emoji;
    enum conjunct conjunct;
    bool half_flag; /* an odd number of regional indicators stands before */
};

static void walk_take(struct cluster_walk *w, uint32_t kind)
{
    enum uni_break b = (enum uni_break)(kind >> UNI_K_BREAK_SHIFT);

    if (kind & UNI_K_PICTO)
        w->emoji = EMOJI_BASE;
    else if (w->emoji == EMOJI_BASE && b == UNI_B_ZWJ)
        w->emoji = EMOJI_JOINED;
    else if (!(w->emoji == EMOJI_BASE && b == UNI_B_EXTEND))
        w->emoji = EMOJI_NONE;

    if (kind & UNI_K_CONSONANT)
        w->conjunct = CONJ_CONSONANT;
    else if (w->conjunct && kind & UNI_K_LINKER)
        w->conjunct = CONJ_LINKED;
    else if (!(kind & UNI_K_CONJUNCT))
        w->conjunct = CONJ_NONE;

    w->half_flag = b == UNI_B_REGION && !w->half_flag;
    w->before = b;
}

static bool hangul_joins(enum uni_break a, enum uni_break b)
{
    switch (a) {
    case UNI_B_L:
        return b == UNI_B_L || b == UNI_B_V || b == UNI_B_LV || b == UNI_B_LVT;
    case UNI_B_LV:
    case UNI_B_V:
        return b == UNI_B_V || b == UNI_B_T;
    case UNI_B_LVT:
    case UNI_B_T:
        return b == UNI_B_T;
    default:
        return false;
    }
}

/* Does a character of this kind stay in the cluster walked so far? */
static bool walk_joins(const struct cluster_walk *w, uint32_t kind)
{
    enum uni_break a = w->before, b = (enum uni_break)(kind >> UNI_K_BREAK_SHIFT);

    if (a == UNI_B_CR && b == UNI_B_LF)
        return true;
    if (a == UNI_B_CR || a == UNI_B_LF || a == UNI_B_CONTROL)
        return false;
    if (b == UNI_B_CR || b == UNI_B_LF || b == UNI_B_CONTROL)
        return false;
    if (b == UNI_B_EXTEND || b == UNI_B_ZWJ || b == UNI_B_SPACING || a == UNI_B_PREPEND)
        return true;
    if (kind & UNI_K_CONSONANT && w->conjunct == CONJ_LINKED)
        return true;
    if (kind & UNI_K_PICTO && w->emoji == EMOJI_JOINED)
        return true;
    return (b == UNI_B_REGION && w->half_flag) || hangul_joins(a, b);
}

size_t uni_grapheme(const char *s, size_t len)
{
    struct cluster_walk w = { .before = UNI_B_ANY };
    size_t at = 0;

    while (at < len) {
        uint32_t c;
        size_t n = utf8_decode(s + at, len - at, &c);
        if (n == 0) /* not UTF-8: each byte is a cluster */
            return at ? at : 1;
        uint32_t kind = uni_kind(c);
        if (at && !walk_joins(&w, kind))
            break;
        walk_take(&w, kind);
        at += n;
    }
    return at;
}
