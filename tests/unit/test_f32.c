/* SPDX-License-Identifier: MIT */
/* f32_print(): what it writes reads back as the same float and is never longer than the
 * C library's shortest. */
#include "base/codec/f32.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(known_texts)
{
    static const struct {
        float in;
        const char *want;
    } rows[] = {
        { 0.0f, "0" },
        { -0.0f, "-0" },
        { 1.0f, "1" },
        { -1.5f, "-1.5" },
        { 0.1f, "0.1" },
        { 0.00001f, "0.00001" },
        { 0.000001f, "1e-6" },
        { 10.0f, "10" },
        { 123456792.0f, "123456790" },
        { 16777216.0f, "16777216" },
        { 1e9f, "1e9" },
        { 1e-12f, "1e-12" },
        { 1.5e-30f, "1.5e-30" },
        { 3.4028235e38f, "3.4028235e38" },
        { 1.17549435e-38f, "1.1754944e-38" },
        { 1.4e-45f, "1e-45" },
        { 0.99999994f, "0.99999994" },
        { 9.999999f, "9.999999" },
        { -0.0366278f, "-0.0366278" },
        { INFINITY, "null" },
    };
    char text[F32_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        size_t len = f32_print(rows[i].in, text);

        assert_string_equal(text, rows[i].want);
        CHECK(len == strlen(text));
    }
    f32_print(NAN, text);
    assert_string_equal(text, "null");
}

static int digits_of(const char *s)
{
    int first = -1, last = -1, n = 0;

    for (; *s && *s != 'e'; s++)
        if (*s >= '0' && *s <= '9') {
            if (*s != '0' && first < 0)
                first = n;
            if (*s != '0')
                last = n;
            n++;
        }
    return last - first + 1;
}

/* One float of every few thousand bit patterns, and the powers of two. */
static void check_bits(uint32_t bits)
{
    char text[F32_TEXT_MAX], want[32];
    float f;

    memcpy(&f, &bits, sizeof(f));
    if (!isfinite(f))
        return;
    CHECK(f32_print(f, text) < F32_TEXT_MAX);
    if (strtof(text, NULL) != f)
        fail_msg("%a printed as %s", (double)f, text);
    for (int n = 1; n <= 9; n++) {
        snprintf(want, sizeof(want), "%.*e", n - 1, (double)f);
        if (strtof(want, NULL) == f)
            break;
    }
    if (digits_of(text) > digits_of(want))
        fail_msg("%s is longer than %s", text, want);
}

TEST(reads_back_everywhere)
{
    uint32_t x = 12345;

    for (uint32_t e = 0; e < 256; e++)
        for (uint32_t m = 0; m < 3; m++)
            check_bits(e << 23 | (m ? (uint32_t)0x7fffff * (m - 1) : 1));
    for (int i = 0; i < 100000; i++) {
        x = x * 1664525u + 1013904223u;
        check_bits(x);
        check_bits((x & 0x87ffffff) | 0x38000000); /* the magnitudes of vectors */
    }
}

TEST_MAIN(cmocka_unit_test(known_texts), cmocka_unit_test(reads_back_everywhere))
