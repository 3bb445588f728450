/* SPDX-License-Identifier: MIT */
#include "base/str.h"

#include "base/text/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool str_eq(const char *a, const char *b)
{
    if (!a || !b)
        return a == b;
    return !strcmp(a, b);
}

bool str_starts(const char *s, const char *prefix)
{
    return s && !strncmp(s, prefix, strlen(prefix));
}

bool str_ends(const char *s, const char *suffix)
{
    size_t len = s ? strlen(s) : 0, tail = strlen(suffix);

    return s && len >= tail && !memcmp(s + len - tail, suffix, tail);
}

/* The next name of a path, without slashes and "."; *len 0 at its end. */
static const char *path_part(const char *p, size_t *len)
{
    do {
        p += strspn(p, "/");
        *len = strcspn(p, "/");
        if (*len != 1 || *p != '.')
            return p;
        p++;
    } while (1);
}

bool str_path_below(const char *p, const char *top)
{
    size_t a, b;

    for (;; p += a, top += b) {
        p = path_part(p, &a);
        top = path_part(top, &b);
        if (!b)
            return true;
        if (a != b || memcmp(p, top, a))
            return false;
    }
}

bool str_path_inside(const char *p)
{
    size_t len;

    if (*p == '/')
        return false;
    for (;; p += len) {
        p = path_part(p, &len);
        if (!len)
            return true;
        if (len == 2 && p[0] == '.' && p[1] == '.')
            return false;
    }
}

char *str_trim(char *s)
{
    size_t len;

    while (isspace((unsigned char)*s))
        s++;
    len = strlen(s);
    while (len && isspace((unsigned char)s[len - 1]))
        s[--len] = '\0';
    return s;
}

bool str_copy(char *dst, size_t cap, const char *src)
{
    size_t len = strlen(src);
    bool fits = len < cap;

    if (!cap)
        return false;
    if (!fits)
        len = cap - 1;
    memcpy(dst, src, len);
    dst[len] = '\0';
    return fits;
}

/* strtol() and friends skip white space and take signs; we let neither pass. */
static bool number_start(const char *s, bool sign)
{
    if (!s)
        return false;
    if (sign && *s == '-')
        s++;
    return isalnum((unsigned char)*s) || *s == '.';
}

bool str_to_i64(const char *s, int base, int64_t *out)
{
    char *end;
    long long v;

    if (!number_start(s, true))
        return false;
    errno = 0;
    v = strtoll(s, &end, base);
    if (errno || *end || end == s)
        return false;
    *out = v;
    return true;
}

bool str_to_u64(const char *s, int base, uint64_t *out)
{
    char *end;
    unsigned long long v;

    if (!number_start(s, false))
        return false;
    errno = 0;
    v = strtoull(s, &end, base);
    if (errno || *end || end == s)
        return false;
    *out = v;
    return true;
}

bool str_to_f64(const char *s, double *out)
{
    char *end;
    double v;

    if (!number_start(s, true))
        return false;
    errno = 0;
    v = strtod(s, &end);
    if (*end || end == s || !isfinite(v))
        return false;
    *out = v;
    return true;
}

struct maybe str_to_maybe(const char *s)
{
    bool hex = s && s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    int64_t v;

    return str_to_i64(s, hex ? 16 : 10, &v) ? maybe_of(v) : maybe_none();
}

static bool text_at(const char *s, size_t len, size_t *out_step)
{
    uint32_t c;
    size_t n = utf8_decode(s, len, &c);

    *out_step = n;
    return n && (c >= 0x20 || c == '\t' || c == '\n') && c != 0x7f && !(c >= 0x80 && c < 0xa0);
}

bool str_is_text(const char *s, size_t len)
{
    for (size_t i = 0, n; i < len; i += n)
        if (!text_at(s + i, len - i, &n))
            return false;
    return true;
}

void str_make_text(char *s)
{
    size_t len = strlen(s);

    for (size_t i = 0, n; i < len; i += n)
        if (!text_at(s + i, len - i, &n)) {
            if (!n)
                n = 1;
            memset(s + i, '?', n);
        }
}

bool str_is_shown(uint32_t c)
{
    static const struct {
        uint32_t from, to;
    } hidden[] = {
        { 0x00, 0x08 },     { 0x0b, 0x1f },     { 0x7f, 0x9f },     { 0xad, 0xad },
        { 0x61c, 0x61c },   { 0x180e, 0x180e }, { 0x200b, 0x200f }, { 0x2028, 0x202e },
        { 0x2060, 0x206f }, { 0xfeff, 0xfeff }, { 0xfff9, 0xfffb }, { 0xe0000, 0xe0fff },
    };

    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        if (c >= hidden[i].from && c <= hidden[i].to)
            return false;
    return true;
}

void str_add_shown(struct buf *out, const char *s)
{
    size_t len = strlen(s);

    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c;

        n = utf8_decode(s + i, len - i, &c);
        if (!n) {
            buf_addc(out, '?');
            n = 1;
        } else if (str_is_shown(c)) {
            buf_add(out, s + i, n);
        } else {
            buf_addf(out, c > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)c);
        }
    }
}

enum { STR_NEAR_MAX = 64 };

size_t str_distance(const char *a, const char *b, size_t max)
{
    size_t la = strlen(a), lb = strlen(b);
    size_t d[3][STR_NEAR_MAX + 1]; /* the last three rows of the edit matrix */

    if (la > STR_NEAR_MAX || lb > STR_NEAR_MAX)
        return max + 1;
    for (size_t j = 0; j <= lb; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t v = up[j - 1] + (a[i - 1] != b[j - 1]);

            if (up[j] + 1 < v)
                v = up[j] + 1;
            if (row[j - 1] + 1 < v)
                v = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < v)
                v = up2[j - 2] + 1;
            row[j] = v;
        }
    }
    return d[la % 3][lb] > max ? max + 1 : d[la % 3][lb];
}

const char *str_nearest(const char *s, const char *const *names, size_t count)
{
    size_t best_distance = strlen(s) < 4 ? 1 : strlen(s) < 9 ? 2 : 3;
    const char *best = NULL;

    for (size_t i = 0; i < count; i++) {
        size_t d = str_distance(s, names[i], best_distance);

        if (d < best_distance || (d == best_distance && !best)) {
            best_distance = d;
            best = names[i];
        }
    }
    for (size_t i = 0; !best && strlen(s) > 2 && i < count; i++)
        if (str_starts(names[i], s)) /* what was meant may just be cut short */
            best = names[i];
    return best;
}
