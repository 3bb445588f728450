/* SPDX-License-Identifier: MIT */
/* f32: shortest decimal text of a float, fast for the magnitudes that vectors hold.
 *
 * Nine digits always suffice.  A candidate of n digits is the integer d nearest to
 * v * 10^k; it is right when (float)(d / 10^k) is v.  d and 10^k are exact as doubles
 * (d < 2^53, k <= 22), so the quotient is the nearest double, and rounding it to float
 * is the nearest float unless the quotient lies exactly between two floats: such rare
 * values, and magnitudes with larger powers, go through the C library instead. */
#include "base/f32.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 9, POWER_MAX = 22, FIXED_LEAST = -5 /* 0.00001 is the last one without e */ };

static const double pow10_table[POWER_MAX + 1] = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
};

enum verdict { NO, YES, UNSURE }; /* UNSURE: doubles cannot tell */

/* Does d * 10^-k read back as `f`? */
static enum verdict reads_back(uint64_t d, int k, float f)
{
    double q = k < 0 ? (double)d * pow10_table[-k] : (double)d / pow10_table[k];
    uint64_t bits;

    memcpy(&bits, &q, sizeof(bits));
    if (k > 0 && (bits & 0x1fffffff) == 0x10000000) /* between two floats */
        return UNSURE;
    return (float)q == f ? YES : NO;
}

/* The integer of `n` digits nearest to v, and whether it reads back.  At a power of two
 * the floats below are twice as dense, so a neighbour may do where the nearest does not. */
static enum verdict candidate(double v, int exp10, int n, float f, uint64_t *out)
{
    int k = n - 1 - exp10;
    enum verdict is;

    assert(k > -DIGITS_MAX && k <= POWER_MAX);
    *out = (uint64_t)((k < 0 ? v / pow10_table[-k] : v * pow10_table[k]) + 0.5);
    is = reads_back(*out, k, f);
    if (is != NO)
        return is;
    ++*out;
    return reads_back(*out, k, f);
}

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

/* `d` holds `n` digits, or is 10^n when rounding carried. */
static size_t print_digits(uint64_t d, int n, int exp10, char *out)
{
    char digits[DIGITS_MAX + 2] = "0";
    int count = 0;
    uint64_t left;

    for (left = d; left; left /= 10)
        count++;
    assert(count == n || count == n + 1);
    exp10 += count - n;
    left = d;
    for (int i = count; i-- > 0; left /= 10)
        digits[i] = (char)('0' + left % 10);
    while (count > 1 && digits[count - 1] == '0')
        count--;
    return lay_out(digits, count, exp10, out);
}

/* Through the C library: any magnitude, any tie. */
static size_t print_slow(float f, char *out)
{
    char text[32], digits[DIGITS_MAX];
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

/* The exponent of the first decimal digit: 10^e <= v < 10^(e+1). */
static int decimal_exponent(double v)
{
    int e = 0;

    if (v >= 1) {
        while (e < POWER_MAX && v >= pow10_table[e + 1])
            e++;
        return e;
    }
    while (e < POWER_MAX && v * pow10_table[e] < 1)
        e++;
    return -e;
}

static size_t print_positive(float f, char *out)
{
    double v = (double)f;
    uint64_t best = 0, d;
    enum verdict is = YES;
    int e, digits = DIGITS_MAX;

    if (v < 1e-12 || v >= 1e9)
        return print_slow(f, out);
    e = decimal_exponent(v);
    for (int n = DIGITS_MAX - 1; n > 0; n--) {
        is = candidate(v, e, n, f, &d);
        if (is != YES)
            break;
        best = d;
        digits = n;
    }
    if (is == NO && !best)
        is = candidate(v, e, DIGITS_MAX, f, &best) == YES ? YES : UNSURE;
    return is == UNSURE ? print_slow(f, out) : print_digits(best, digits, e, out);
}

size_t f32_print(float f, char out[F32_TEXT_MAX])
{
    size_t len = 0;

    if (!isfinite(f)) {
        memcpy(out, "null", 5);
        return 4;
    }
    if (signbit(f))
        out[len++] = '-';
    if (f == 0.0f)
        out[len++] = '0';
    else
        len += print_positive(fabsf(f), out + len);
    assert(len < F32_TEXT_MAX);
    out[len] = '\0';
    return len;
}
