/* SPDX-License-Identifier: MIT */
/* A member left out of the tree, and walked element by element. */
#include "test.h"

#include "base/text/json.h"

#include <string.h>

struct visit {
    struct arena a;
    void (*check)(struct arena *a, struct json_walk *w); /* NULL: to the end */
    size_t reads;
};

static enum rc visit(void *arg, struct json_walk *w, struct err *err)
{
    struct visit *v = arg;
    struct json m;
    bool more = !v->check;
    enum rc rc = RC_OK;

    v->reads++;
    if (v->check)
        v->check(&v->a, w);
    while (!rc && more)
        rc = json_walk_next(w, &v->a, &m, &more, err);
    return rc;
}

static enum rc parse(struct visit *v, const char *doc, struct json **root, struct err *err)
{
    struct json_reader r = { "m", "v", visit, v };

    return json_parse_reading(&v->a, doc, strlen(doc), &r, root, err);
}

TEST(leaves_the_member_out)
{
    static const char doc[] = "{\"v\":[1],\"n\":{\"v\":[4]},\"m\":{\"a\":{\"v\":[2]},"
                              "\"v\" : {\"x\":[\"]}\",{}]},\"b\":3}}";
    struct visit visits = { 0 };
    struct json *root = NULL;
    const struct json *v;

    assert_int_equal(parse(&visits, doc, &root, NULL), RC_OK);
    assert_int_equal(visits.reads, 1); /* no other "v" */
    v = json_get(json_get(root, "m"), "v");
    CHECK(v->type == JSON_OBJ && !v->first && !v->count);
    assert_int_equal(v->len, strlen("{\"x\":[\"]}\",{}]}"));
    assert_int_equal(json_get(root, "v")->count, 1);
    assert_int_equal(json_int(json_get(json_get(root, "m"), "b")).v, 3);
    arena_release(&visits.a);
}

static void check_members(struct arena *a, struct json_walk *w)
{
    struct json m;
    bool more;

    assert_int_equal(json_walk_next(w, a, &m, &more, NULL), RC_OK);
    CHECK(more && m.type == JSON_NUM && m.len == 2 && !memcmp(m.text, "12", 2));
    assert_string_equal(m.key, "a\xc3\xa9");
    assert_int_equal(json_walk_next(w, a, &m, &more, NULL), RC_OK);
    assert_string_equal(m.text, "s");
    assert_int_equal(json_walk_next(w, a, &m, &more, NULL), RC_OK);
    CHECK(m.type == JSON_ARR && m.len == 7);
    assert_int_equal(json_walk_next(w, a, &m, &more, NULL), RC_OK);
    CHECK(!more);
}

TEST(walks_members)
{
    static const char doc[] = "{\"m\":{\"v\":{ \"a\\u00e9\" : 12 , \"b\":\"s\", \"c\":[1,[2]]}}}";
    struct visit visits = { .check = check_members };
    struct json *root = NULL;

    assert_int_equal(parse(&visits, doc, &root, NULL), RC_OK);
    assert_int_equal(visits.reads, 1);
    arena_release(&visits.a);
}

static void check_rows(struct arena *a, struct json_walk *w)
{
    struct json_walk row;
    struct json m;
    bool more;

    assert_int_equal(json_walk_enter(w, &row, &more, NULL), RC_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(json_walk_next(&row, a, &m, &more, NULL), RC_OK);
        CHECK(more);
    }
    assert_int_equal(json_walk_next(&row, a, &m, &more, NULL), RC_OK);
    CHECK(!more);
    json_walk_leave(w, &row);
    assert_int_equal(json_walk_enter(w, &row, &more, NULL), RC_OK);
    CHECK(more);
    assert_int_equal(json_walk_next(&row, a, &m, &more, NULL), RC_OK);
    CHECK(!more);
    json_walk_leave(w, &row);
    assert_int_equal(json_walk_enter(w, &row, &more, NULL), RC_OK);
    CHECK(!more);
}

TEST(enters_rows)
{
    static const char doc[] = "{\"m\":{\"v\":[[\"a\",-1.5] , [ ] ]}}";
    struct visit visits = { .check = check_rows };
    struct json *root = NULL;

    assert_int_equal(parse(&visits, doc, &root, NULL), RC_OK);
    assert_int_equal(visits.reads, 1);
    arena_release(&visits.a);
}

TEST(refuses_what_the_tree_would_refuse)
{
    static const char *const docs[] = {
        "{\"m\":{\"v\":[1,]}}",     "{\"m\":{\"v\":[1 2]}}",      "{\"m\":{\"v\":{\"a\" 1}}}",
        "{\"m\":{\"v\":{\"a\":}}}", "{\"m\":{\"v\":[1}}}",        "{\"m\":{\"v\":[\"\\x\"]}}",
        "{\"m\":{\"v\":{1:2}}}",    "{\"m\":{\"v\":[\"\xff\"]}}", "{\"m\":{\"v\":[01]}}",
        "{\"m\":{\"v\":[1]",
    };

    for (size_t i = 0; i < ARRAY_SIZE(docs); i++) {
        struct visit visits = { 0 };
        struct err err = { 0 };
        struct json *root = NULL;
        enum rc rc = parse(&visits, docs[i], &root, &err);

        if (rc != RC_PARSE || !strstr(err.msg, "line 1, column "))
            fail_msg("'%s': %d %s", docs[i], rc, err.msg);
        arena_release(&visits.a);
    }
    CHECK(true);
}

TEST_MAIN(cmocka_unit_test(leaves_the_member_out), cmocka_unit_test(walks_members),
          cmocka_unit_test(enters_rows), cmocka_unit_test(refuses_what_the_tree_would_refuse))
