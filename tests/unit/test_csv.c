/* SPDX-License-Identifier: MIT */
/* catalog/csv.c: a table by its columns' names, and as structs. */
#include "test.h"

#include "catalog/csv.h"

#include <math.h>

struct price {
    const char *item;
    double usd, usual;
    int64_t n;
};
static const struct field price_fields[] = {
    FIELD_OF("item", struct price, item, "what"),
    FIELD_OF("kusd", struct price, usd, "thousands of dollars", .scale = 1e3),
    FIELD_OF("usual", struct price, usual, "empty: not known", .or_null = true),
    FIELD_OF("n", struct price, n, "how many"),
};
static FIELD_TABLE(price_table, "prices", struct price, price_fields);

static enum rc prices_read(struct arena *a, const char *text, const struct price **rows, size_t *n,
                           struct err *err)
{
    return csv_rows(a, "prices.csv", text, strlen(text), &price_table, rows, n, err);
}

TEST(rows_are_structs)
{
    const struct price *rows;
    struct arena a = { 0 };
    struct err err = { 0 };
    size_t n;

    assert_int_equal(
        prices_read(&a, "n,item,usual,kusd\n3,node,7,2.5\n,cable,,\n", &rows, &n, &err), RC_OK);
    assert_int_equal(n, 2);
    assert_string_equal(rows[0].item, "node");
    assert_true(rows[0].usd == 2500 && rows[0].usual == 7 && rows[0].n == 3);
    assert_string_equal(rows[1].item, "cable");
    assert_true(rows[1].usd == 0 && isnan(rows[1].usual) && rows[1].n == 0);
    arena_release(&a);
}

TEST(what_is_wrong_is_named)
{
    const struct price *rows;
    struct arena a = { 0 };
    struct err err = { 0 };
    size_t n;

    assert_int_equal(prices_read(&a, "item,usual,n\n", &rows, &n, &err), RC_PARSE);
    assert_string_equal(err.msg, "table 'prices.csv': there is no column 'kusd'");
    err = (struct err){ 0 };
    assert_int_equal(prices_read(&a, "item,kusd,usual,n\na,1,1,1\nb,x,1,1\n", &rows, &n, &err),
                     RC_PARSE);
    assert_string_equal(err.msg, "table 'prices.csv': line 3: 'x' is not a number");
    arena_release(&a);
}

TEST_MAIN(cmocka_unit_test(rows_are_structs), cmocka_unit_test(what_is_wrong_is_named))
