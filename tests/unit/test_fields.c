/* SPDX-License-Identifier: MIT */
/* base/text/fields.c: a report's rows give the same values as JSON and as text. */
#include "test.h"

#include "base/text/fields.h"

#include <math.h>

enum mood { MOOD_GOOD, MOOD_BAD };
static const char *const mood_names[] = { "good", "bad" };

struct span {
    double low, high;
};
struct item {
    char name[8];
    const char *why;
    int64_t count;
    double share, price;
    bool fits;
    enum mood mood;
    struct span span, other;
};

static const char *in_euro(double v, char out[FIELD_TEXT_MAX])
{
    snprintf(out, FIELD_TEXT_MAX, "%.2f euro", v);
    return out;
}

static void write_extra(struct json_out *w, const void *obj)
{
    json_kv_int(w, "twice", 2 * ((const struct item *)obj)->count);
}

static const struct field span_fields[] = {
    FIELD_OF("low", struct span, low, "the low end"),
    FIELD_OF("high", struct span, high, "the high end"),
};
static FIELD_TABLE(span_table, "span", struct span, span_fields);

#define S struct item
static const struct field item_fields[] = {
    FIELD_OF("name", S, name, "its name", .title = "item"),
    FIELD_OF("count", S, count, "how many", .title = "n", .above_0 = true),
    FIELD_OF("share", S, share, "of all", .title = "share", .fmt = "%.1f %%", .scale = 100),
    FIELD_OF("price", S, price, "of one", .title = "price", .words = in_euro),
    FIELD_OF("fits", S, fits, "there is room"),
    FIELD_NAME_OF("mood", S, mood, mood_names, "how it is", .title = "mood"),
    FIELD_BY(write_extra),
    FIELD_SUB("span", S, span, &span_table, "from, to"),
    { .key = "other",
      .kind = FIELD_STRUCT,
      .off = offsetof(S, other),
      .sub = &span_table,
      .or_null = true },
    FIELD_OF(NULL, S, why, "", .title = "why"),
};
static FIELD_TABLE(item_table, "test.items/1", S, item_fields);
#undef S

static const struct item items[] = {
    { "one", "because", 3, 0.125, 2.5, true, MOOD_BAD, { 1, 2 }, { 3, 4 } },
    { "two", "-", 0, NAN, NAN, false, MOOD_GOOD, { NAN, 2 }, { NAN, 4 } },
};

TEST(a_report_is_written_as_json)
{
    struct buf b = { 0 };

    fields_write_report(&b, &item_table, &items[0]);
    assert_string_equal(buf_str(&b), "{\n  \"schema\": \"test.items/1\",\n  \"name\": \"one\",\n"
                                     "  \"count\": 3,\n  \"share\": 0.125,\n  \"price\": 2.5,\n"
                                     "  \"fits\": true,\n  \"mood\": \"bad\",\n  \"twice\": 6,\n"
                                     "  \"span\": {\n    \"low\": 1,\n    \"high\": 2\n  },\n"
                                     "  \"other\": {\n    \"low\": 3,\n    \"high\": 4\n  }\n}\n");
    buf_reset(&b);
    fields_write_report(&b, &item_table, &items[1]);
    assert_string_equal(buf_str(&b), "{\n  \"schema\": \"test.items/1\",\n  \"name\": \"two\",\n"
                                     "  \"count\": null,\n  \"share\": null,\n  \"price\": null,\n"
                                     "  \"fits\": false,\n  \"mood\": \"good\",\n  \"twice\": 0,\n"
                                     "  \"span\": {\n    \"low\": null,\n    \"high\": 2\n  },\n"
                                     "  \"other\": null\n}\n");
    buf_release(&b);
}

TEST(and_as_a_table)
{
    const struct term plain = { 0 }, colour = { .colour = true };
    struct buf b = { 0 };

    fields_print(&b, &plain, &item_table, items, 2, -1);
    assert_string_equal(buf_str(&b), "item  n   share      price  mood  why\n"
                                     "one   3  12.5 %  2.50 euro  bad   because\n"
                                     "two   -       -          -  good  -\n");
    buf_reset(&b);
    fields_print(&b, &colour, &item_table, items, 2, 1);
    assert_non_null(strstr(buf_str(&b), "\033[1mtwo"));
    assert_null(strstr(buf_str(&b), "\033[1mone"));
    buf_release(&b);
}

TEST(a_field_is_found_by_its_key)
{
    char text[FIELD_TEXT_MAX];

    assert_string_equal(field_text(fields_find(&item_table, "share"), &items[0], text), "12.5 %");
    assert_null(fields_find(&item_table, "nothing"));
}

TEST_MAIN(cmocka_unit_test(a_report_is_written_as_json), cmocka_unit_test(and_as_a_table),
          cmocka_unit_test(a_field_is_found_by_its_key))
