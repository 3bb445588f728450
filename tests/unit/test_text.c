/* SPDX-License-Identifier: MIT */
/* text: prompt, strip and lower case as Python has them.  What is expected was printed
 * by Python: repr((p + s).strip().lower()). */
#include "engine/text.h"
#include "test.h"

#include <string.h>

static void check_prepared(const char *in, size_t len, const struct text_opts *o, const char *want)
{
    struct buf scratch = { 0 };
    struct tok_text t = text_prepare((struct tok_text){ in, len }, o, &scratch);

    assert_int_equal(t.len, strlen(want));
    assert_memory_equal(t.p, want, t.len);
    buf_release(&scratch);
}

TEST(strips_what_python_strips)
{
    static const struct {
        const char *in, *want;
    } rows[] = {
        { "", "" },
        { " ", "" },
        { " a b ", "a b" },
        { "\t\n\v\f\ra\x1c\x1d\x1e\x1f", "a" },
        { "\xc2\x85\xc2\xa0x\xc2\xa0", "x" },             /* NEL, no-break space */
        { "\xe3\x80\x80x\xe2\x80\xa8\xe2\x80\xa9", "x" }, /* ideographic space, separators */
        { "\xe1\x9a\x80\xe2\x81\x9fx\xe2\x80\xaf", "x" }, /* ogham, math, narrow */
        { "\xe2\x80\x8bx", "\xe2\x80\x8bx" },             /* a zero-width space is none */
        { "\xef\xbb\xbfx", "\xef\xbb\xbfx" },             /* nor is a byte order mark */
        { "\x85x\x85", "\x85x\x85" },                     /* a bare byte is U+FFFD, no space */
        { "x\xe3\x80", "x\xe3\x80" },                     /* cut short */
        { "\xf0\xe3\x80\x80", "\xf0" },                   /* bad byte, then a space */
    };
    struct text_opts o = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        check_prepared(rows[i].in, strlen(rows[i].in), &o, rows[i].want);
}

TEST(nul_is_a_character)
{
    struct buf scratch = { 0 };
    struct text_opts o = { .prompt = "p:" };
    struct tok_text t = text_prepare((struct tok_text){ " a\0b ", 5 }, &o, &scratch);

    CHECK(t.len == 6 && !memcmp(t.p, "p: a\0b", 6));
    buf_release(&scratch);
}

TEST(prompt_comes_before_the_cut)
{
    struct text_opts o = { .prompt = "query: " };

    check_prepared(" hello ", 7, &o, "query:  hello"); /* the text's own blank stays */
    check_prepared("", 0, &o, "query:");
    o.prompt = "  x ";
    check_prepared("y", 1, &o, "x y");
    o.prompt = "";
    check_prepared(" y", 2, &o, "y");
}

/* Where a byte of what was prepared stands in the text as it came. */
TEST(origin_of_a_byte)
{
    static const struct {
        const char *text, *prompt;
        bool lower;
        size_t at, want;
    } rows[] = {
        { "hello", NULL, false, 3, 3 },
        { "  hello ", NULL, false, 3, 5 },
        { " hello", "query: ", false, 10, 3 }, /* "query:  he" */
        { "hello", "query: ", false, 4, 0 },   /* inside the prompt */
        { "hello", "query: ", false, 99, 5 },
        { "hello", "  q ", false, 3, 1 }, /* the prompt was stripped */
        { " HELLO", NULL, true, 2, 3 },
        { "\xc4\xb0X", NULL, true, 3, 2 }, /* a dotted I has three bytes when it is small */
        { "\xc4\xb0X", "Q", true, 5, 3 },
        { "", "", false, 0, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct text_opts o = { .prompt = rows[i].prompt, .lower = rows[i].lower };
        struct tok_text t = { rows[i].text, strlen(rows[i].text) };
        assert_int_equal(text_origin(t, &o, rows[i].at), rows[i].want);
    }
}

TEST(lower_case)
{
    static const struct {
        const char *in, *want;
    } rows[] = {
        { "Hello WORLD", "hello world" },
        { "ÀÉÎ Öß", "àéî öß" },
        { "ΟΔΟΣ", "οδος" }, /* a final sigma */
        { "ΟΔΟΣ ΣΟΦΙΑ", "οδος σοφια" },
        { "ΣΑΣ.", "σας." },
        { "Σ", "σ" },
        { "ΑΣ'Α", "ασ'α" }, /* the apostrophe is passed over */
        { "İ", "i̇" },       /* two code points */
        { "ДОМ 家 \xff", "дом 家 \xff" },
    };
    struct text_opts o = { .lower = true };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        check_prepared(rows[i].in, strlen(rows[i].in), &o, rows[i].want);
    o.prompt = "Query: ";
    check_prepared("ABC ", 4, &o, "query: abc");
}

TEST(instruction)
{
    struct buf b = { 0 };

    text_instruction("Find it", &b);
    assert_string_equal(buf_str(&b), "Instruct: Find it\nQuery: ");
    buf_release(&b);
}

TEST_MAIN(cmocka_unit_test(strips_what_python_strips), cmocka_unit_test(nul_is_a_character),
          cmocka_unit_test(prompt_comes_before_the_cut), cmocka_unit_test(origin_of_a_byte),
          cmocka_unit_test(lower_case), cmocka_unit_test(instruction))
