/* SPDX-License-Identifier: MIT */
/* json and fields: strict reading, exact writing, and tables that go both ways. */
#include "test.h"

#include "base/text/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct json *parse(struct arena *a, const char *text)
{
    struct json *v = NULL;

    assert_int_equal(json_parse(a, text, strlen(text), &v, NULL), RC_OK);
    return v;
}

TEST(values_are_read)
{
    struct arena a = { 0 };
    struct json *v = parse(
        &a, " {\"i\":7,\"f\":2.5e-3,\"t\":true,\"n\":null,"
            "\"s\":\"\\u00e9\\ud83d\\ude00\\n\",\"a\":[1,[2],{}],\"i\":-9223372036854775808} ");

    CHECK(maybe_is(json_int(json_get(v, "i")), INT64_MIN)); /* the last of two wins */
    CHECK(json_num(json_get(v, "f"), 0) == 0.0025);
    CHECK(!json_int(json_get(v, "f")).known);
    CHECK(maybe_is(json_bool(json_get(v, "t")), 1));
    assert_string_equal(json_str(json_get(v, "s")), "\xc3\xa9\xf0\x9f\x98\x80\n");
    assert_int_equal(json_get(v, "a")->count, 3);
    CHECK(json_at(json_get(v, "a"), 2)->type == JSON_OBJ);
    CHECK(!json_at(json_get(v, "a"), 3));
    CHECK(!json_get(NULL, "x") && !json_str(NULL) && !json_get(v, "absent"));
    arena_release(&a);
}

TEST(wrong_text_is_refused_with_its_place)
{
    static const struct {
        const char *text, *msg;
    } rows[] = {
        { "", "line 1, column 1: text ends where a value should be" },
        { "{\n  \"a\" 1}", "line 2, column 7: expected ':'" },
        { "[1,]", "line 1, column 4: expected a value" },
        { "[1 2]", "line 1, column 4: expected ',' or ']'" },
        { "{\"a\":1,}", "line 1, column 8: expected a member name in quotes" },
        { "01", "line 1, column 1: malformed number" },
        { "1.", "line 1, column 1: malformed number" },
        { "-", "line 1, column 1: malformed number" },
        { "nul", "line 1, column 1: expected a value" },
        { "\"a", "line 1, column 1: string without an end" },
        { "\"\\x\"", "line 1, column 3: unknown escape in a string" },
        { "\"\\ud800\"", "line 1, column 8: high surrogate without a low one" },
        { "\"\\udc00\"", "line 1, column 8: low surrogate without a high one" },
        { "\"\x01\"", "line 1, column 2: control character in a string" },
        { "\"\xff\"", "line 1, column 2: string is not UTF-8" },
        { "1 2", "line 1, column 3: text after the end of the document" },
        { "// c\n1", "line 1, column 1: expected a value" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct arena a = { 0 };
        struct err err = { 0 };
        struct json *v = NULL;

        assert_int_equal(json_parse(&a, rows[i].text, strlen(rows[i].text), &v, &err), RC_PARSE);
        assert_string_equal(err.msg, rows[i].msg);
        assert_null(v);
        arena_release(&a);
    }
}

TEST(depth_is_bounded)
{
    char text[2 * JSON_DEPTH_MAX + 3];
    struct arena a = { 0 };
    struct json *v;

    for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        assert_int_equal(json_parse(&a, text, 2 * (size_t)depth, &v, NULL),
                         depth > JSON_DEPTH_MAX ? RC_PARSE : RC_OK);
    }
    arena_release(&a);
}

TEST(writer_escapes_and_indents)
{
    struct buf b = { 0 };
    struct json_out w;

    json_out_init(&w, &b, 2);
    json_obj(&w);
    json_kv_str(&w, "s", "q\"\\\n\x01\xff");
    json_kv_str(&w, "none", NULL);
    json_kv_arr(&w, "list");
    json_add_num(&w, 0.1);
    json_add_num(&w, 1e300);
    json_add_num(&w, NAN);
    json_add_maybe(&w, maybe_none());
    json_arr_end(&w);
    json_kv_obj(&w, "empty");
    json_obj_end(&w);
    json_obj_end(&w);
    assert_string_equal(buf_str(&b), "{\n  \"s\": \"q\\\"\\\\\\n\\u0001\xef\xbf\xbd\",\n"
                                     "  \"none\": null,\n  \"list\": [\n    0.1,\n    1e+300,\n"
                                     "    null,\n    null\n  ],\n  \"empty\": {}\n}");
    buf_release(&b);
}

/* ---- fields ---- */

struct leaf {
    const char *name;
    struct maybe on;
};

struct doc {
    const char *title;
    struct maybe size;
    const char *const *tags;
    size_t tags_count;
    struct maybe *numbers;
    size_t numbers_count;
    struct leaf one;
    struct leaf *many;
    size_t many_count;
};

static const struct field leaf_rows[] = {
    FIELD("name", STR, struct leaf, name, "a name"),
    FIELD("on", BOOL, struct leaf, on, "a switch"),
};
static FIELD_TABLE(leaf_table, "leaf", struct leaf, leaf_rows);

static const struct field doc_rows[] = {
    FIELD("title", STR, struct doc, title, "a title"),
    FIELD("size", INT, struct doc, size, "bytes"),
    FIELD_LIST("tags", STRS, struct doc, tags, tags_count, "words"),
    FIELD_LIST("numbers", INTS, struct doc, numbers, numbers_count, "numbers"),
    FIELD_SUB("one", struct doc, one, &leaf_table, "a leaf"),
    FIELD_SUBS("many", struct doc, many, many_count, &leaf_table, "leaves"),
};
static FIELD_TABLE(doc_table, "doc", struct doc, doc_rows);

static const char doc_text[] =
    "{\"title\":\"t\",\"size\":null,\"tags\":[\"a\",\"b\"],\"numbers\":[1,null],"
    "\"one\":{\"name\":null,\"on\":true},\"many\":[{\"name\":\"x\",\"on\":false}]}";

TEST(tables_go_both_ways)
{
    struct arena a = { 0 };
    struct buf b = { 0 };
    struct json_out w;
    struct doc d = { 0 };

    assert_int_equal(fields_read(&a, parse(&a, doc_text), &doc_table, &d, NULL), RC_OK);
    CHECK(d.many_count == 1 && d.tags_count == 2 && maybe_is(d.numbers[0], 1));
    CHECK(!d.size.known && !d.numbers[1].known);
    json_out_init(&w, &b, 0);
    fields_write(&w, &doc_table, &d);
    assert_string_equal(buf_str(&b), doc_text);
    buf_release(&b);
    arena_release(&a);
}

TEST(wrong_members_are_named)
{
    struct arena a = { 0 };
    struct err err = { 0 };
    struct doc d = { 0 };

    assert_int_equal(
        fields_read(&a, parse(&a, "{\"new\":1,\"many\":[{},{\"on\":1}]}"), &doc_table, &d, &err),
        RC_PARSE);
    assert_string_equal(err.msg, "many[1]: member 'on' must be true, false or null");
    assert_int_equal(fields_read(&a, parse(&a, "[]"), &doc_table, &d, NULL), RC_PARSE);
    arena_release(&a);
}

TEST(tables_document_themselves)
{
    struct buf b = { 0 };

    fields_doc(&b, &doc_table);
    assert_non_null(strstr(buf_str(&b), "| `many` | list of objects leaf | leaves |"));
    buf_release(&b);
}

TEST(values_are_counted)
{
    size_t len = 2 * (size_t)JSON_VALUES_MAX + 3;
    char *text = malloc(len + 1);
    struct arena a = { 0 };
    struct json *v = NULL;
    struct err err = { 0 };

    assert_non_null(text);
    for (size_t i = 0; i < len; i++)
        text[i] = i % 2 ? '1' : ',';
    text[0] = '[';
    text[len - 1] = ']';
    text[len] = '\0';
    assert_int_equal(json_parse(&a, text, len, &v, &err), RC_PARSE);
    assert_non_null(strstr(err.msg, "too many values"));
    free(text);
    arena_release(&a);
}

TEST(what_terminals_act_on_is_escaped)
{
    struct buf b = { 0 };
    struct json_out w;

    json_out_init(&w, &b, 0);
    json_add_str(&w, "\x1b\x7f\xc2\x9b\u00a0");
    assert_string_equal(buf_str(&b), "\"\\u001b\\u007f\\u009b\u00a0\"");
    buf_release(&b);
}

TEST(whole_numbers_at_their_ends)
{
    struct buf b = { 0 };
    struct json_out w;

    json_out_init(&w, &b, 0);
    json_arr(&w);
    json_add_int(&w, INT64_MIN);
    json_add_int(&w, INT64_MAX);
    json_add_int(&w, 0);
    json_add_uint(&w, UINT64_MAX);
    buf_adds(json_raw(&w), "1e5");
    json_arr_end(&w);
    assert_string_equal(buf_str(&b), "[-9223372036854775808,9223372036854775807,0,"
                                     "18446744073709551615,1e5]");
    buf_release(&b);
}

TEST_MAIN(cmocka_unit_test(whole_numbers_at_their_ends), cmocka_unit_test(values_are_counted),
          cmocka_unit_test(what_terminals_act_on_is_escaped), cmocka_unit_test(values_are_read),
          cmocka_unit_test(wrong_text_is_refused_with_its_place),
          cmocka_unit_test(depth_is_bounded), cmocka_unit_test(writer_escapes_and_indents),
          cmocka_unit_test(tables_go_both_ways), cmocka_unit_test(wrong_members_are_named),
          cmocka_unit_test(tables_document_themselves))
