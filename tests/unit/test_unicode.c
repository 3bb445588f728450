/* SPDX-License-Identifier: MIT */
/* unicode and grapheme: one row a rule; tests/parity/unicode.py compares every code point
 * with the reference library. */
#include "test.h"

#include "model/unicode/unicode_int.h"

#include <string.h>

TEST(kinds)
{
    static const struct {
        uint32_t c;
        bool space, other, mark, punct, chinese;
    } rows[] = {
        { .c = 0, .other = true },
        { .c = '\t', .space = true, .other = true },
        { .c = 0x0B, .space = true, .other = true },
        { .c = ' ', .space = true },
        { .c = '!', .punct = true },
        { .c = '$' }, /* a symbol, though BERT splits at it */
        { .c = '_', .punct = true },
        { .c = 'a' },
        { .c = 0x85, .space = true, .other = true },
        { .c = 0xA0, .space = true },
        { .c = 0xAD, .other = true },
        { .c = 0x300, .mark = true },
        { .c = 0x903 }, /* spacing mark */
        { .c = 0x200B, .other = true },
        { .c = 0x2028, .space = true },
        { .c = 0x3000, .space = true },
        { .c = 0x3002, .punct = true },
        { .c = 0x4E00, .chinese = true },
        { .c = 0x3042 },
        { .c = 0xE000, .other = true },
        { .c = 0xFFFD },
        { .c = 0x2B820 }, /* the library begins at 2B920 by mistake */
        { .c = 0x2B920, .chinese = true },
        { .c = 0x10FFFF },
        { .c = 0x110000 },
        { .c = UINT32_MAX },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint32_t c = rows[i].c;
        CHECK(uni_is_space(c) == rows[i].space);
        CHECK(uni_is_other(c) == rows[i].other);
        CHECK(uni_is_mark_nonspacing(c) == rows[i].mark);
        CHECK(uni_is_punct(c) == rows[i].punct);
        CHECK(uni_is_chinese(c) == rows[i].chinese);
    }
}

TEST(lower)
{
    static const uint32_t pairs[][2] = {
        { 'A', 'a' },      { 'z', 'z' },         { 0xC9, 0xE9 },     { 0x100, 0x101 },
        { 0x101, 0x101 },  { 0x178, 0xFF },      { 0x1E9E, 0xDF },   { 0x3A3, 0x3C3 },
        { 0x2126, 0x3C9 }, { 0x10400, 0x10428 }, { 0x1C89, 0x1C8A }, { 0x110000, 0x110000 }
    };
    uint32_t out[UNI_LOWER_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        CHECK(uni_lower(pairs[i][0], out) == 1);
        assert_int_equal(out[0], pairs[i][1]);
    }
    CHECK(uni_lower(0x130, out) == 2 && out[0] == 'i' && out[1] == 0x307);
}

TEST(decompose_and_compose)
{
    uint32_t out[UNI_DECOMP_MAX];

    CHECK(uni_decompose('a', true, out) == 1 && out[0] == 'a');
    CHECK(uni_decompose(0xE9, false, out) == 2 && out[0] == 'e' && out[1] == 0x301);
    CHECK(uni_decompose(0x1E9B, false, out) == 2 && out[0] == 0x17F);
    CHECK(uni_decompose(0x1E9B, true, out) == 2 && out[0] == 's');
    CHECK(uni_decompose(0xAC01, false, out) == 3 && out[2] == 0x11A8);
    CHECK(uni_decompose(0xAC00, false, out) == 2 && out[0] == 0x1100 && out[1] == 0x1161);
    CHECK(uni_decompose(0xFDFA, true, out) == UNI_DECOMP_MAX);
    CHECK(uni_decompose(0xFDFA, false, out) == 1);
    CHECK(uni_compose('e', 0x301) == 0xE9);
    CHECK(uni_compose(0x1100, 0x1161) == 0xAC00);
    CHECK(uni_compose(0xAC00, 0x11A8) == 0xAC01);
    CHECK(uni_compose(0xAC01, 0x11A8) == 0);
    CHECK(uni_compose(0xAC00, 0x11A7) == 0);
    CHECK(uni_compose(0x915, 0x93C) == 0); /* excluded from composition */
    CHECK(uni_compose('e', 'e') == 0);
    CHECK(uni_combining_class('a') == 0);
    CHECK(uni_combining_class(0x301) == 230);
    CHECK(uni_combining_class(0x345) == 240);
    CHECK(uni_combining_class(0x94D) == 9);
}

static void check_norm(enum uni_form form, const uint32_t *in, size_t n, const uint32_t *want,
                       const int32_t *source, size_t count)
{
    struct uni_norm norm = { 0 };

    uni_normalize(form, in, n, &norm);
    assert_int_equal(norm.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(norm.code[i], want[i]);
        assert_int_equal(norm.source[i], source[i]);
    }
    uni_norm_release(&norm);
}

TEST(normal_forms_and_alignment)
{
#define CODES(...)                                                                                 \
    (const uint32_t[]){ __VA_ARGS__ }, ARRAY_SIZE(((const uint32_t[]){ __VA_ARGS__ }))
#define WANT(...) (const uint32_t[]){ __VA_ARGS__ }
#define FROM(...) (const int32_t[]){ __VA_ARGS__ }, ARRAY_SIZE(((const int32_t[]){ __VA_ARGS__ }))
    check_norm(UNI_NFD, CODES('x', 0xE9, 'y'), WANT('x', 'e', 0x301, 'y'), FROM(0, 1, 1, 2));
    check_norm(UNI_NFC, CODES('x', 'e', 0x301, 'y'), WANT('x', 0xE9, 'y'), FROM(0, 1, 3));
    check_norm(UNI_NFC, CODES(0xE9), WANT(0xE9), FROM(0));
    /* marks are put in order: 230 behind 220; the places keep their alignment */
    check_norm(UNI_NFD, CODES('a', 0x301, 0x323), WANT('a', 0x323, 0x301), FROM(0, 1, 2));
    check_norm(UNI_NFC, CODES('a', 0x301, 0x323), WANT(0x1EA1, 0x301), FROM(0, 2));
    check_norm(UNI_NFC, CODES(0x1100, 0x1161, 0x11A8), WANT(0xAC01), FROM(0));
    check_norm(UNI_NFKC, CODES(0xFB01, 0xFF21), WANT('f', 'i', 'A'), FROM(0, 0, 1));
    check_norm(UNI_NFKD, CODES(0x2460), WANT('1'), FROM(0));
    check_norm(UNI_NFC, CODES(0x301, 'e'), WANT(0x301, 'e'), FROM(0, 1));
#undef CODES
#undef WANT
#undef FROM
}

TEST(long_runs_of_marks_are_sorted_alike)
{
    enum { MARKS = 20000 };
    static uint32_t in[MARKS + 1];
    struct uni_norm norm = { 0 };

    in[0] = 'a';
    for (size_t i = 1; i <= MARKS; i++)
        in[i] = i % 2 ? 0x305 : 0x331; /* classes 230 and 220, no composites */
    uni_normalize(UNI_NFC, in, MARKS + 1, &norm);
    assert_int_equal(norm.count, MARKS + 1);
    for (size_t i = 1; i <= MARKS; i++)
        CHECK(norm.code[i] == (i <= MARKS / 2 ? 0x331u : 0x305u));
    uni_normalize(UNI_NFC, in, 0, &norm);
    assert_int_equal(norm.count, 0);
    uni_norm_release(&norm);
    uni_norm_release(NULL);
}

TEST(grapheme_clusters)
{
    static const struct {
        const char *text;
        size_t first;
    } rows[] = {
        { "", 0 },
        { "ab", 1 },
        { "\r\n", 2 },
        { "\n\r", 1 },
        { "a\r", 1 },
        { "e\xCC\x81x", 3 },                                       /* combining acute */
        { "\n\xCC\x81", 1 },                                       /* nothing joins a control */
        { "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8x", 9 },            /* Hangul L V T */
        { "\xEA\xB0\x80\xE1\x86\xA8\xE1\x84\x80", 6 },             /* LV T, then L */
        { "\xF0\x9F\x87\xA9\xF0\x9F\x87\xAA\xF0\x9F\x87\xAB", 8 }, /* flags go in pairs */
        { "\xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9x", 11 },   /* emoji ZWJ emoji */
        { "a\xE2\x80\x8D\xF0\x9F\x91\xA9", 4 },                    /* letter ZWJ, emoji */
        { "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBDx", 8 },                /* skin tone */
        { "\xE0\xA4\x95\xE0\xA5\x8D\xE0\xA4\x95\xE0\xA4\x95", 9 }, /* ka virama ka, ka */
        { "\xE0\xA4\x95\xE0\xA4\xBE\xE0\xA4\x95", 6 },             /* spacing mark */
        { "\xD8\x80\x61", 3 },                                     /* prepend */
        { "\xD8\x80\n", 2 },                                       /* but not to a control */
        { "\xFF\x61", 1 },                                         /* no UTF-8 */
        { "a\xCC", 1 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(uni_grapheme(rows[i].text, strlen(rows[i].text)), rows[i].first);
}

TEST(sets_of_characters)
{
    static const struct {
        const char *text;
        size_t len, want;
    } rows[] = {
        { "a", 1, 1 },
        { "b", 1, 0 },
        { "", 0, 0 },
        { "\xd0\xb6x", 3, 2 },
        { "\xd0", 1, 0 },
        { "\xd0x", 2, 0 },
        { "\xe4\xb8\xad", 3, 3 },
        { "\xe4\xb8", 2, 0 },
        { "\xe4\xb8x", 3, 0 },
        { "\xc1\xa1", 2, 0 },
        /* 'a', too long */ { "\xe0\x81\xa1", 3, 0 },
        { "\xed\xa0\x80", 3, 0 },
        { "\xf0\x9f\x98\x80", 4, 0 },
        { "\xff", 1, 0 },
    };
    static struct uni_set s;

    uni_set_add(&s, 'a');
    uni_set_add(&s, 0x436);
    uni_set_add(&s, 0x4e2d);
    uni_set_add(&s, 'b');
    uni_set_remove(&s, 'b');
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(uni_set_step(&s, rows[i].text, rows[i].len), rows[i].want);
    CHECK(!uni_set_has(&s, UNI_SET_END) && !uni_set_has(&s, 0x10ffff));
}

TEST_MAIN(cmocka_unit_test(sets_of_characters), cmocka_unit_test(kinds), cmocka_unit_test(lower),
          cmocka_unit_test(decompose_and_compose), cmocka_unit_test(normal_forms_and_alignment),
          cmocka_unit_test(long_runs_of_marks_are_sorted_alike),
          cmocka_unit_test(grapheme_clusters))
