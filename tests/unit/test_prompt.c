/* SPDX-License-Identifier: MIT */
/* text: the prompt before a text and where its bytes come from; nothing is cut off a text.  That
 * vectors are those of sentence-transformers is tests/parity's to show. */
#include "engine/prompt.h"
#include "test.h"

#include <string.h>

static void check_prepared(const char *in, size_t len, const char *prompt, const char *want)
{
    struct buf scratch = { 0 };
    struct tok_text t = text_prepare((struct tok_text){ in, len }, prompt, &scratch);

    assert_int_equal(t.len, strlen(want));
    assert_memory_equal(t.p, want, t.len);
    buf_release(&scratch);
}

TEST(texts_stay_as_they_are)
{
    static const char *const rows[] = { "",      " ",   " a b ", "\t\na\x1c", "\xc2\xa0x\xc2\xa0",
                                        "\x85x", "ΟΔΟΣ" };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        check_prepared(rows[i], strlen(rows[i]), NULL, rows[i]);
        check_prepared(rows[i], strlen(rows[i]), "", rows[i]);
    }
}

TEST(prompt_comes_first)
{
    struct buf scratch = { 0 };
    struct tok_text t = text_prepare((struct tok_text){ " a\0b ", 5 }, "p:", &scratch);

    CHECK(t.len == 7 && !memcmp(t.p, "p: a\0b ", 7));
    buf_release(&scratch);
    check_prepared(" hello ", 7, "query: ", "query:  hello ");
    check_prepared("", 0, "query: ", "query: ");
    check_prepared("y", 1, "  x ", "  x y");
}

/* Where a byte of what was prepared stands in the text as it came. */
TEST(origin_of_a_byte)
{
    static const struct {
        const char *text, *prompt;
        size_t at, want;
    } rows[] = {
        { "hello", NULL, 3, 3 },        { "  hello ", NULL, 3, 3 },
        { " hello", "query: ", 10, 3 }, /* "query:  he" */
        { "hello", "query: ", 4, 0 },   /* inside the prompt */
        { "hello", "query: ", 99, 5 },  { "", "", 0, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct tok_text t = { rows[i].text, strlen(rows[i].text) };
        assert_int_equal(text_origin(t, rows[i].prompt, rows[i].at), rows[i].want);
    }
}

TEST(instruction)
{
    struct buf b = { 0 };

    text_instruction("find", &b);
    assert_string_equal(buf_str(&b), "Instruct: find\nQuery: ");
    buf_release(&b);
}

TEST_MAIN(cmocka_unit_test(texts_stay_as_they_are), cmocka_unit_test(prompt_comes_first),
          cmocka_unit_test(origin_of_a_byte), cmocka_unit_test(instruction))
