/* SPDX-License-Identifier: MIT */
/* table and svg: text for terminals and pictures. */
#include "test.h"

#include "base/svg.h"
#include "base/table.h"

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

TEST_MAIN(cmocka_unit_test(columns_line_up), cmocka_unit_test(wide_columns_give_way),
          cmocka_unit_test(colour_only_where_it_shows), cmocka_unit_test(words_wrap),
          cmocka_unit_test(svg_text_is_escaped))
