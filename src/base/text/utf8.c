/* SPDX-License-Identifier: MIT */
#include "base/text/text_int.h"

#include <string.h>

size_t utf8_decode(const char *s, size_t len, uint32_t *out)
{
    const unsigned char *p = (const unsigned char *)s;
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n;
    uint32_t c;

    *out = 0;
    if (!len)
        return 0;
    if (p[0] < 0x80) {
        *out = p[0];
        return 1;
    }
    n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > len)
        return 0;
    c = p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    *out = c;
    return n;
}

/* ---- the whole of a text ---- */
/* An automaton whose step is one shift: a state is where in a byte's row its next state
 * stands.  The last four are behind lead bytes that not every second byte may follow. */
enum { BAD = 0, DONE = 6, ONE = 12, TWO = 18, THREE = 24, E0 = 30, ED = 36, F0 = 42, F4 = 48 };
#define TO(from, to) ((uint64_t)(to) << (from))
#define MORE         (TO(ONE, DONE) | TO(TWO, ONE) | TO(THREE, TWO)) /* any byte that continues */
#define ASCII        TO(DONE, DONE)
#define LEAD2        TO(DONE, ONE)
#define LEAD3        TO(DONE, TWO)
#define LEAD4        TO(DONE, THREE)
#define X2(v)        v, v
#define X4(v)        X2(v), X2(v)
#define X16(v)       X4(v), X4(v), X4(v), X4(v)
#define X64(v)       X16(v), X16(v), X16(v), X16(v)
#define LEADS_C0     X2(BAD), X2(LEAD2), X4(LEAD2), X4(LEAD2), X4(LEAD2)
#define LEADS_E0                                                                                   \
    TO(DONE, E0), LEAD3, X2(LEAD3), X4(LEAD3), X4(LEAD3), LEAD3, TO(DONE, ED), X2(LEAD3)
#define LEADS_F0 TO(DONE, F0), LEAD4, X2(LEAD4), TO(DONE, F4) /* the rest is BAD */

static const uint64_t steps[256] = {
    X64(ASCII),
    X64(ASCII),
    X16(MORE | TO(ED, ONE) | TO(F4, TWO)), /* 80 */
    X16(MORE | TO(ED, ONE) | TO(F0, TWO)), /* 90 */
    X16(MORE | TO(E0, ONE) | TO(F0, TWO)), /* a0 */
    X16(MORE | TO(E0, ONE) | TO(F0, TWO)), /* b0 */
    LEADS_C0,
    X16(LEAD2),
    LEADS_E0,
    LEADS_F0,
};

bool utf8_is_valid(const char *s, size_t len)
{
    uint64_t state = DONE;

    for (size_t i = 0; i < len; i++)
        state = steps[(unsigned char)s[i]] >> (state & 63);
    return (state & 63) == DONE;
}

size_t utf8_encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

/* What terminals draw over the character before, and what they give two columns: the
 * blocks of Unicode's East Asian Width and the emoji, not every exception. */
static const struct {
    uint32_t first, last;
    size_t columns;
} widths[] = {
    { 0x0300, 0x036f, 0 },   { 0x1100, 0x115f, 2 },   { 0x200b, 0x200f, 0 },
    { 0x202a, 0x202e, 0 },   { 0x2060, 0x2064, 0 },   { 0x2e80, 0xa4cf, 2 },
    { 0xac00, 0xd7a3, 2 },   { 0xf900, 0xfaff, 2 },   { 0xfe00, 0xfe0f, 0 },
    { 0xfe30, 0xfe6f, 2 },   { 0xfeff, 0xfeff, 0 },   { 0xff00, 0xff60, 2 },
    { 0xffe0, 0xffe6, 2 },   { 0x1f300, 0x1f64f, 2 }, { 0x1f680, 0x1f6ff, 2 },
    { 0x1f900, 0x1faff, 2 }, { 0x20000, 0x3fffd, 2 },
};

size_t utf8_columns(const char *s, size_t len, size_t *out_step)
{
    uint32_t c;
    size_t n = utf8_decode(s, len, &c);

    *out_step = n ? n : 1;
    for (size_t i = 0; c >= widths[0].first && i < sizeof(widths) / sizeof(widths[0]); i++)
        if (c >= widths[i].first && c <= widths[i].last)
            return widths[i].columns;
    return 1;
}

size_t utf8_width_n(const char *s, size_t len)
{
    size_t width = 0;

    for (size_t i = 0, n; i < len; i += n)
        width += utf8_columns(s + i, len - i, &n);
    return width;
}

size_t utf8_width(const char *s)
{
    return utf8_width_n(s, strlen(s));
}
