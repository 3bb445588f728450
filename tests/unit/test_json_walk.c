/* SPDX-License-Identifier: MIT */
/* A member left out of the tree, and walked element by element. */
#include "test.h"

#include "base/json.h"

#include <string.h>

static const struct json *unread(struct arena *a, const char *doc)
{
    struct json *root = NULL;

    assert_int_equal(json_parse_around(a, doc, strlen(doc), "v", &root, NULL), RC_OK);
    return json_get(json_get(root, "m"), "v");
}

TEST(leaves_the_member_out)
{
    static const char doc[] = "{\"v\":[1],\"m\":{\"a\":[2],\"v\":{\"x\":[\"]}\",{}]},\"b\":3}}";
    struct arena a = { 0 };
    struct json *root = NULL;
    const struct json *v;

    assert_int_equal(json_parse_around(&a, doc, strlen(doc), "v", &root, NULL), RC_OK);
    v = json_get(json_get(root, "m"), "v");
    CHECK(v->type == JSON_OBJ && !v->first && !v->count);
    assert_int_equal(v->len, strlen("{\"x\":[\"]}\",{}]}"));
    assert_int_equal(json_get(root, "v")->count, 1); /* only below a member of the root */
    assert_int_equal(json_int(json_get(json_get(root, "m"), "b")).v, 3);
    arena_release(&a);
}

TEST(walks_members)
{
    static const char doc[] = "{\"m\":{\"v\":{ \"a\\u00e9\" : 12 , \"b\":\"s\", \"c\":[1,[2]]}}}";
    struct arena a = { 0 };
    struct json_walk w;
    struct json m;
    bool more;

    json_walk_init(&w, doc, unread(&a, doc));
    assert_int_equal(json_walk_next(&w, &a, &m, &more, NULL), RC_OK);
    CHECK(more && m.type == JSON_NUM && m.len == 2 && !memcmp(m.text, "12", 2));
    assert_string_equal(m.key, "a\xc3\xa9");
    assert_int_equal(json_walk_next(&w, &a, &m, &more, NULL), RC_OK);
    assert_string_equal(m.text, "s");
    assert_int_equal(json_walk_next(&w, &a, &m, &more, NULL), RC_OK);
    CHECK(m.type == JSON_ARR && m.len == 7);
    assert_int_equal(json_walk_next(&w, &a, &m, &more, NULL), RC_OK);
    CHECK(!more);
    arena_release(&a);
}

TEST(enters_rows)
{
    static const char doc[] = "{\"m\":{\"v\":[[\"a\",-1.5] , [ ] ]}}";
    struct arena a = { 0 };
    struct json_walk w, row;
    struct json m;
    bool more;

    json_walk_init(&w, doc, unread(&a, doc));
    assert_int_equal(json_walk_enter(&w, &row, &more, NULL), RC_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(json_walk_next(&row, &a, &m, &more, NULL), RC_OK);
        CHECK(more);
    }
    assert_int_equal(json_walk_next(&row, &a, &m, &more, NULL), RC_OK);
    CHECK(!more);
    json_walk_leave(&w, &row);
    assert_int_equal(json_walk_enter(&w, &row, &more, NULL), RC_OK);
    CHECK(more);
    assert_int_equal(json_walk_next(&row, &a, &m, &more, NULL), RC_OK);
    CHECK(!more);
    json_walk_leave(&w, &row);
    assert_int_equal(json_walk_enter(&w, &row, &more, NULL), RC_OK);
    CHECK(!more);
    arena_release(&a);
}

TEST(refuses_what_the_tree_would_refuse)
{
    static const char *const docs[] = {
        "{\"m\":{\"v\":[1,]}}",     "{\"m\":{\"v\":[1 2]}}",      "{\"m\":{\"v\":{\"a\" 1}}}",
        "{\"m\":{\"v\":{\"a\":}}}", "{\"m\":{\"v\":[1}}}",        "{\"m\":{\"v\":[\"\\x\"]}}",
        "{\"m\":{\"v\":{1:2}}}",    "{\"m\":{\"v\":[\"\xff\"]}}", "{\"m\":{\"v\":[01]}}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(docs); i++) {
        struct arena a = { 0 };
        struct err err = { 0 };
        struct json *root = NULL;
        struct json_walk w;
        struct json m;
        bool more = true;
        enum rc rc = json_parse_around(&a, docs[i], strlen(docs[i]), "v", &root, &err);

        if (!rc) {
            json_walk_init(&w, docs[i], json_get(json_get(root, "m"), "v"));
            while (!rc && more)
                rc = json_walk_next(&w, &a, &m, &more, &err);
        }
        if (rc != RC_PARSE || !strstr(err.msg, "line 1, column "))
            fail_msg("'%s': %d %s", docs[i], rc, err.msg);
        arena_release(&a);
    }
    CHECK(true);
}

TEST_MAIN(cmocka_unit_test(leaves_the_member_out), cmocka_unit_test(walks_members),
          cmocka_unit_test(enters_rows), cmocka_unit_test(refuses_what_the_tree_would_refuse))
