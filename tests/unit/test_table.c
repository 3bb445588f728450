/* SPDX-License-Identifier: MIT */
/* table and svg: text for terminals and pictures. */
#include "test.h"

#include "base/text/svg.h"
#include "base/text/table.h"
#include "base/text/utf8.h"

#include <string.h>

static const struct term plain = { 0 }, narrow = { .width = 24 }, colour = { .colour = true };

static struct table *sample(void)
{
    struct table *t = table_new();

    table_col(t, "name", TABLE_LEFT);
    table_col(t, "what it is", TABLE_SHRINK);
    table_col(t, "n", TABLE_RIGHT);
    table_row(t);
    table_cell(t, COLOUR_BOLD, "a");
    table_cell(t, COLOUR_NONE, "caf\xc3\xa9 with a long text");
    table_cell(t, COLOUR_NONE, "%d", 7);
    table_row(t);
    table_cell(t, COLOUR_NONE, "longer");
    return t;
}

TEST(columns_line_up)
{
    struct table *t = sample();
    struct buf b = { 0 };

    table_print(t, &plain, 1, &b);
    assert_string_equal(buf_str(&b), " name    what it is             n\n"
                                     " a       caf\xc3\xa9 with a long text  7\n"
                                     " longer\n");
    buf_release(&b);
    table_free(t);
}

TEST(wide_columns_give_way)
{
    struct table *t = sample();
    struct buf b = { 0 };

    table_print(t, &narrow, 0, &b);
    assert_string_equal(buf_str(&b), "name    what it is     n\n"
                                     "a       caf\xc3\xa9 with a \xe2\x80\xa6  7\n"
                                     "longer\n");
    buf_release(&b);
    table_free(t);
}

TEST(others_give_way_next)
{
    static const struct term tight = { .width = 20 };
    struct table *t = table_new();
    struct buf b = { 0 };

    table_col(t, "name", TABLE_LEFT);
    table_col(t, "sum", TABLE_WHOLE);
    table_row(t);
    table_cell(t, COLOUR_NONE, "a name that is long");
    table_cell(t, COLOUR_NONE, "0123456789");
    table_print(t, &tight, 0, &b);
    assert_string_equal(buf_str(&b), "name      sum\n"
                                     "a name \xe2\x80\xa6  0123456789\n");
    buf_release(&b);
    table_free(t);
}

TEST(last_column_wraps)
{
    static const struct term tight = { .width = 22 };
    struct table *t = table_new();
    struct buf b = { 0 };

    table_col(t, NULL, TABLE_WHOLE);
    table_col(t, NULL, TABLE_WRAP);
    table_row(t);
    table_cell(t, COLOUR_DIM, "k");
    table_cell(t, COLOUR_NONE, "one two three  four aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    table_row(t);
    table_cell(t, COLOUR_DIM, "l");
    table_cell(t, COLOUR_NONE, "short");
    table_print(t, &tight, 1, &b);
    assert_string_equal(buf_str(&b), " k  one two three\n"
                                     "    four\n"
                                     "    aaaaaaaaaaaaaaaaaa\n"
                                     "    aaaaaaaaaaaa\n"
                                     " l  short\n");
    buf_release(&b);
    table_free(t);
}

TEST(colour_only_where_it_shows)
{
    struct buf b = { 0 };

    term_text(&plain, &b, COLOUR_RED, "x");
    assert_string_equal(buf_str(&b), "x");
    buf_reset(&b);
    term_text(&colour, &b, COLOUR_RED, "x");
    assert_string_equal(buf_str(&b), "\033[31mx\033[0m");
    buf_release(&b);
}

TEST(words_wrap)
{
    struct buf b = { 0 };

    term_wrap(&narrow, &b, 2, "one two three four five six");
    assert_string_equal(buf_str(&b), "  one two three four\n  five six\n");
    buf_release(&b);
}

TEST(svg_text_is_escaped)
{
    struct buf b = { 0 };

    svg_text(&b, "t", 1, 2.5, "start", "<%s>\x01\xff", "a&\"b");
    assert_non_null(strstr(buf_str(&b), ">&lt;a&amp;&quot;b&gt;?\?</text>"));
    buf_release(&b);
}

TEST(what_xml_has_no_way_to_write)
{
    struct buf b = { 0 };

    svg_escape(&b, "a\xef\xbf\xbf"
                   "b\xef\xbf\xbe"
                   "c\x1b"
                   "d\xff\xef\xbf\xbd");
    assert_string_equal(buf_str(&b), "a?b?c?d?\xef\xbf\xbd");
    buf_release(&b);
}

TEST(long_words_stay_whole)
{
    const struct term small = { .width = 40 };
    struct buf b = { 0 }, word = { 0 };

    buf_addc(&word, 'x'); /* so that no multiple of two ends a character */
    for (int i = 0; i < 300; i++)
        buf_adds(&word, "é");
    term_wrap(&small, &b, 0, buf_str(&word));
    assert_int_equal(b.len, word.len + 1);
    assert_memory_equal(b.data, word.data, word.len);
    buf_release(&b);
    buf_release(&word);
}

TEST(wide_characters_take_two_columns)
{
    const struct term small = { .width = 9 };
    struct table *t = table_new();
    struct buf b = { 0 };

    assert_int_equal(utf8_width("a\u0301\u65e5\U0001f600"), 5);
    table_col(t, NULL, TABLE_SHRINK);
    table_col(t, NULL, TABLE_LEFT);
    table_row(t);
    table_cell(t, COLOUR_NONE, "\u65e5\u672c\u8a9e\u65e5"); /* eight columns, six are left */
    table_cell(t, COLOUR_NONE, "|");
    table_print(t, &small, 0, &b);
    assert_string_equal(buf_str(&b), "\u65e5\u672c…   |\n");
    buf_release(&b);
    table_free(t);
}

TEST_MAIN(cmocka_unit_test(what_xml_has_no_way_to_write), cmocka_unit_test(long_words_stay_whole),
          cmocka_unit_test(wide_characters_take_two_columns), cmocka_unit_test(columns_line_up),
          cmocka_unit_test(wide_columns_give_way), cmocka_unit_test(others_give_way_next),
          cmocka_unit_test(last_column_wraps), cmocka_unit_test(colour_only_where_it_shows),
          cmocka_unit_test(words_wrap), cmocka_unit_test(svg_text_is_escaped))
