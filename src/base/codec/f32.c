/* SPDX-License-Identifier: MIT */
/* f32: shortest decimal text of a float, fast for the magnitudes that vectors hold.
 *
 * Nine digits always suffice.  v times a power of ten (exact as a double up to 10^22) has
 * nine digits before its point and is off by less than 2^-23; so is the distance to the
 * middle between v and its neighbours, times the same power.  Every number nearer than that
 * reads back as v: the one that ends in most zeros is the shortest.  Where a candidate lies
 * so near to a middle that doubles cannot tell, and for magnitudes with larger powers, the C
 * library decides instead. */
#include "base/codec/f32.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIGITS_MAX = 9,
    DIGITS_END = 1000000000, /* the first number with more */
    POWER_MAX = 22,
    FIXED_LEAST = -5 /* 0.00001 is the last one without e */
};
#define DOUBT 1e-6 /* of a number below 10^9 as a double: well above what it can be off */

static const double pow10_table[POWER_MAX + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

static size_t put_exponent(int e, char *out)
{
    return (size_t)snprintf(out, 8, "e%d", e);
}

/* `digits` ("12345") with the point behind the first one times 10^e. */
static size_t lay_out(const char *digits, int count, int e, char *out)
{
    size_t len = 0;

    assert(count > 0 && digits[0] >= '0'); /* print_digits() wrote at least one */
    if (e < FIXED_LEAST || e >= DIGITS_MAX) {
        out[len++] = digits[0];
        if (count > 1) {
            out[len++] = '.';
            memcpy(out + len, digits + 1, (size_t)count - 1);
            len += (size_t)count - 1;
        }
        return len + put_exponent(e, out + len);
    }
    if (e < 0) {
        memcpy(out, "0.000000", (size_t)(1 - e));
        len = (size_t)(1 - e);
    }
    for (int i = 0; i < count || i <= e; i++) {
        out[len++] = i < count ? digits[i] : '0';
        if (i == e && i + 1 < count)
            out[len++] = '.';
    }
    return len;
}

static inline void put_pair(char *out, uint32_t v)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";

    memcpy(out, pairs + (size_t)v * 2, 2);
}

static inline void put_nine(char *out, uint32_t d)
{
    out[0] = (char)('0' + d / 100000000);
    put_pair(out + 1, d / 1000000 % 100);
    put_pair(out + 3, d / 10000 % 100);
    put_pair(out + 5, d / 100 % 100);
    put_pair(out + 7, d % 100);
}

/* `d` has nine digits, of which `count` are told; the first is worth 10^exp10.  Or it is
 * 10^9 when rounding carried. */
static size_t print_digits(uint32_t d, int count, int exp10, char *out)
{
    static const char zeros[] = { '0', '.', '0', '0', '0', '0', '0', '0' };
    char digits[DIGITS_MAX];

    if (d == DIGITS_END) {
        d /= 10;
        count = 1;
        exp10++;
    }
    assert(d >= DIGITS_END / 10 && d < DIGITS_END);
    if (exp10 < 0 && exp10 >= FIXED_LEAST) { /* what vectors hold; the tail is cut */
        memcpy(out, zeros, sizeof(zeros));
        put_nine(out + 1 - exp10, d);
        return (size_t)count + 1 + (size_t)-exp10;
    }
    put_nine(digits, d);
    return lay_out(digits, count, exp10, out);
}

/* Through the C library: any magnitude, any tie. */
static size_t print_slow(float f, char *out)
{
    char text[32], digits[DIGITS_MAX] = "";
    int count = 0, exp10;
    const char *p;

    for (int n = 1; n <= DIGITS_MAX; n++) {
        snprintf(text, sizeof(text), "%.*e", n - 1, (double)f);
        if (strtof(text, NULL) == f)
            break;
    }
    for (p = text; *p && *p != 'e' && count < DIGITS_MAX; p++)
        if (*p >= '0' && *p <= '9')
            digits[count++] = *p;
    p = strchr(text, 'e');
    exp10 = p ? (int)strtol(p + 1, NULL, 10) : 0;
    while (count > 1 && digits[count - 1] == '0')
        count--;
    return lay_out(digits, count, exp10, out);
}

/* Half the distance to the next float above, and below, where a power of two is twice as
 * near. */
static void half_gaps(float f, double *above, double *below)
{
    uint32_t bits, gap;
    float ulp;

    memcpy(&bits, &f, sizeof(bits));
    gap = (bits & 0x7f800000) - (23u << 23); /* normal: 1e-12 is far above the least */
    memcpy(&ulp, &gap, sizeof(ulp));
    *above = (double)ulp / 2;
    *below = bits & 0x7fffff ? *above : *above / 2;
}

/* A number times a power of ten, and how far from it others read back as the same. */
struct scaled {
    double v, above, below;
    int exp10; /* 10^exp10 is what the first of its nine digits is worth */
};

static struct scaled scale_float(float f)
{
    struct scaled s;
    uint32_t bits;
    double by;

    memcpy(&bits, &f, sizeof(bits));
    s.exp10 = (((int)(bits >> 23) - 127) * 1233) >> 12; /* log10 of 2 is 1233 / 4096 */
    s.exp10 += (double)f * pow10_table[DIGITS_MAX - 1 - s.exp10] >= DIGITS_END;
    by = pow10_table[DIGITS_MAX - 1 - s.exp10];
    half_gaps(f, &s.above, &s.below);
    s.v = (double)f * by;
    s.above *= by;
    s.below *= by;
    return s;
}

/* Puts the multiple of `unit` nearest to s that reads back into *best, if there is one.
 * Written without branches: which way it goes is as random as the numbers are. */
static inline bool nearest_digits(const struct scaled *s, uint32_t unit, uint32_t *best,
                                  bool *unsure)
{
    uint32_t low = (uint32_t)s->v / unit * unit;
    double down = s->v - (double)low, up = (double)(low + unit) - s->v;
    bool is_low = down < s->below, is_high = up < s->above;
    bool high = is_high & ((up <= down) | !is_low), any = is_low | is_high;

    *unsure |= (fabs(down - s->below) < DOUBT) | (fabs(up - s->above) < DOUBT);
    *best = any ? low + unit * high : *best;
    return any;
}

static size_t print_positive(float f, char *out)
{
    static const uint32_t units[] = { 10000, 100000, 1000000, 10000000, 100000000 };
    bool unsure = false, shorter;
    uint32_t best;
    int zeros;

    if (f < 1e-12f || f >= 1e9f)
        return print_slow(f, out);
    struct scaled s = scale_float(f);
    best = (uint32_t)(s.v + 0.5);
    zeros = nearest_digits(&s, 10, &best, &unsure); /* a multiple of 100 is one of 10 too */
    zeros += nearest_digits(&s, 100, &best, &unsure);
    zeros += shorter = nearest_digits(&s, 1000, &best, &unsure);
    for (size_t i = 0; shorter && i < sizeof(units) / sizeof(units[0]); i++)
        zeros += shorter = nearest_digits(&s, units[i], &best, &unsure);
    if (unsure)
        return print_slow(f, out);
    return print_digits(best, DIGITS_MAX - zeros, s.exp10, out);
}

size_t f32_print(float f, char out[F32_TEXT_MAX])
{
    size_t len;

    if (!isfinite(f)) {
        memcpy(out, "null", 5);
        return 4;
    }
    out[0] = '-';
    len = signbit(f) != 0;
    if (f == 0.0f)
        out[len++] = '0';
    else
        len += print_positive(fabsf(f), out + len);
    assert(len < F32_TEXT_MAX);
    out[len] = '\0';
    return len;
}
