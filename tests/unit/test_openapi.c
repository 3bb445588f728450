/* SPDX-License-Identifier: MIT */
/* The OpenAPI document describes what is served: every route stands in it, whole, and every
 * reference in it leads somewhere.  The page is small and asks nobody outside. */
#include "base/str.h"
#include "base/text/json.h"
#include "serve/admin/admin_int.h"
#include "serve/admin/loads_int.h"
#include "serve/admin/page_int.h"
#include "serve/bulk/bulk_int.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

enum { PAGE_BYTES_MAX = 30000 };

static struct arena arena;
static const struct json *doc;

static struct json *parsed(const struct buf *b)
{
    struct err err = { 0 };
    struct json *v = NULL;

    assert_int_equal(json_parse(&arena, buf_str(b), b->len, &v, &err), RC_OK);
    return v;
}

static int read_doc(void **state __attribute__((unused)))
{
    struct buf text = { 0 };

    openapi_write(&text);
    doc = parsed(&text);
    buf_release(&text);
    return 0;
}

static int release_doc(void **state __attribute__((unused)))
{
    arena_release(&arena);
    return 0;
}

TEST(head)
{
    assert_string_equal(json_str(json_get(doc, "openapi")), "3.1.0");
    assert_string_equal(json_str(json_get(json_get(doc, "info"), "version")), STOKER_VERSION);
}

/* ---- the document and the tables of routes are one set */

/* The operation of a served path; a star is a name in the document. */
static const struct json *described(const char *method, const char *path)
{
    char templated[128];
    size_t len = strlen(path);

    snprintf(templated, sizeof(templated), "%s", path);
    if (str_ends(path, "/*"))
        snprintf(templated + len - 1, sizeof(templated) - len + 1, "{model}");
    return json_get(json_get(json_get(doc, "paths"), templated), method);
}

/* What bulk_routes and bulk_streamed_routes serve; what stands behind a star is their own. */
static const struct {
    const char *method, *path, *row;
} bulk[] = {
    { "get", "/v1/files", "/v1/files" },
    { "post", "/v1/files", "/v1/files" },
    { "get", "/v1/files/{file_id}", "/v1/files/*" },
    { "delete", "/v1/files/{file_id}", "/v1/files/*" },
    { "get", "/v1/files/{file_id}/content", "/v1/files/*" },
    { "get", "/v1/batches", "/v1/batches" },
    { "post", "/v1/batches", "/v1/batches" },
    { "get", "/v1/batches/{batch_id}", "/v1/batches/*" },
    { "post", "/v1/batches/{batch_id}/cancel", "/v1/batches/*" },
    { "post", "/v1/embeddings/stream", "/v1/embeddings/stream" },
    { "post", "/v1/rerank/stream", "/v1/rerank/stream" },
};

static bool is_bulk(const struct http_route *r)
{
    const char *method = r->method == HTTP_POST     ? "post"
                         : r->method == HTTP_DELETE ? "delete"
                                                    : "get";

    for (size_t i = 0; i < ARRAY_SIZE(bulk); i++)
        if (str_eq(bulk[i].row, r->path) && str_eq(bulk[i].method, method))
            return json_get(json_get(json_get(doc, "paths"), bulk[i].path), method) != NULL;
    return false;
}

static size_t served_count(void)
{
    size_t apis = 0, admin = 0, loads = 0;

    while (api_at(apis))
        apis++;
    while (admin_routes[admin].path)
        admin++;
    while (loads_routes[loads].path)
        loads++;
    return apis + admin + loads + ARRAY_SIZE(bulk);
}

static size_t described_count(void)
{
    size_t count = 0;

    for (const struct json *p = json_get(doc, "paths")->first; p; p = p->next)
        count += p->count;
    return count;
}

TEST(every_route_stands_in_it)
{
    const struct serve_route *a;

    for (size_t i = 0; (a = api_at(i)); i++)
        if (!described("post", a->path))
            fail_msg("post %s is missing", a->path);
    for (const struct http_route *r = admin_routes; r->path; r++)
        if (!described(r->method == HTTP_POST ? "post" : "get", r->path))
            fail_msg("%s is missing", r->path);
    for (const struct http_route *r = loads_routes; r->path; r++)
        if (!described("post", r->path))
            fail_msg("%s is missing", r->path);
    for (const struct http_route *r = bulk_routes; r->path; r++)
        if (!is_bulk(r))
            fail_msg("%s is missing", r->path);
    for (const struct http_route *r = bulk_streamed_routes; r->path; r++)
        if (!is_bulk(r))
            fail_msg("%s is missing", r->path);
    assert_int_equal(described_count(), served_count()); /* and nothing that is not served */
}

/* A route that needs no token says so, and no other does. */
TEST(open_routes_are_told)
{
    for (const struct http_route *r = admin_routes; r->path; r++) {
        const struct json *o = described(r->method == HTTP_POST ? "post" : "get", r->path);
        if ((r->scope == HTTP_SCOPE_OPEN) != (json_get(o, "security") != NULL))
            fail_msg("%s: who may call it?", r->path);
    }
}

/* "#/components/schemas/Input" */
static const struct json *pointed_at(const char *ref)
{
    const struct json *v = doc;
    char part[128];

    assert_true(str_starts(ref, "#/"));
    for (ref += 2; v && *ref; ref += *ref == '/') {
        size_t len = strcspn(ref, "/");

        snprintf(part, sizeof(part), "%.*s", (int)len, ref);
        v = json_get(v, part);
        ref += len;
    }
    return v;
}

static size_t check_refs(const struct json *v)
{
    const char *ref = json_str(json_get(v, "$ref"));
    size_t count = 0;

    if (ref && !pointed_at(ref))
        fail_msg("%s leads nowhere", ref);
    for (const struct json *c = v->first; c; c = c->next)
        count += check_refs(c);
    return count + (ref != NULL);
}

TEST(references_lead_somewhere)
{
    assert_true(check_refs(doc) > 100);
}

/* Schemas that nothing refers to would be left-overs. */
TEST(every_part_is_used)
{
    const struct json *schemas = json_get(json_get(doc, "components"), "schemas");
    struct buf text = { 0 };
    char want[160];

    openapi_write(&text);
    for (const struct json *s = schemas->first; s; s = s->next) {
        snprintf(want, sizeof(want), "\"#/components/schemas/%s\"", s->key);
        if (!strstr(text.data, want))
            fail_msg("schema %s is not used", s->key);
    }
    buf_release(&text);
}

static void check_operation(const char *path, const struct json *o)
{
    const struct json *responses = json_get(o, "responses");
    const struct json *body = json_get(o, "requestBody");
    const struct json *content = json_get(json_get(body, "content"), "application/json");

    if (!json_str(json_get(o, "summary")) || !json_str(json_get(o, "operationId")))
        fail_msg("%s %s has no summary or name", o->key, path);
    if (!json_get(responses, "200") && !json_get(responses, "202"))
        fail_msg("%s %s has no good end", o->key, path);
    if (!json_get(responses, "401") && !json_get(o, "security"))
        fail_msg("%s %s neither wants a token nor is open", o->key, path);
    if (!str_eq(o->key, "post") || (!content && body) || str_ends(path, "/cancel"))
        return; /* forms, lines, and what takes no body */
    if (!json_get(content, "schema") || !json_get(content, "example"))
        fail_msg("%s %s has no schema or example of its body", o->key, path);
}

TEST(operations_are_whole)
{
    for (const struct json *p = json_get(doc, "paths")->first; p; p = p->next)
        for (const struct json *o = p->first; o; o = o->next)
            check_operation(p->key, o);
}

TEST(names_are_unique)
{
    const char *seen[128];
    size_t count = 0;

    for (const struct json *p = json_get(doc, "paths")->first; p; p = p->next)
        for (const struct json *o = p->first; o; o = o->next) {
            const char *id = json_str(json_get(o, "operationId"));

            for (size_t i = 0; i < count; i++)
                assert_string_not_equal(seen[i], id);
            assert_true(count < ARRAY_SIZE(seen));
            seen[count++] = id;
        }
}

/* ---- the list of routes */

static const struct json *route(const struct json *list, const char *method, const char *path)
{
    const struct json *found = NULL;

    for (const struct json *r = list->first; r; r = r->next)
        if (str_eq(json_str(json_get(r, "method")), method) &&
            str_eq(json_str(json_get(r, "path")), path)) {
            assert_null(found); /* each once */
            found = r;
        }
    return found;
}

static const struct json *routes_with(const struct serve_route *(*at)(size_t i))
{
    struct buf text = { 0 };
    const struct json *list;

    openapi_routes(at, &text);
    list = parsed(&text);
    buf_release(&text);
    return list;
}

/* Is a body of JSON described for it? */
static bool takes_json(const struct json *r)
{
    const struct json *path = json_get(json_get(doc, "paths"), json_str(json_get(r, "path")));
    const struct json *body = json_get(json_get(path, "post"), "requestBody");

    return str_eq(json_str(json_get(r, "method")), "POST") &&
           json_get(json_get(body, "content"), "application/json");
}

TEST(routes_from_the_document)
{
    const struct json *list = routes_with(NULL);
    struct buf text = { 0 };

    assert_int_equal(list->count, described_count());
    for (const struct json *r = list->first; r; r = r->next) {
        const char *example = json_str(json_get(r, "example"));

        assert_non_null(json_str(json_get(r, "summary")));
        assert_int_equal(example != NULL, takes_json(r));
        if (example) { /* a body that is JSON */
            buf_reset(&text);
            buf_adds(&text, example);
            assert_int_equal(parsed(&text)->type, JSON_OBJ);
        }
    }
    buf_release(&text);
}

static const struct serve_route *some_rows(size_t i)
{
    static const struct serve_route rows[] = {
        { .path = "/embed", .summary = "of the table", .example = "{\"inputs\":\"x\"}" },
        { .path = "/v9/new", .summary = "not in the document", .example = "{}" },
        { .path = "/v9/new", .summary = "twice", .example = "{}" },
    };

    return i < ARRAY_SIZE(rows) ? &rows[i] : NULL;
}

TEST(routes_of_the_tables_win)
{
    const struct json *list = routes_with(some_rows);
    const struct json *r = route(list, "POST", "/embed");

    assert_int_equal(list->count, described_count() + 1);
    assert_string_equal(json_str(json_get(r, "summary")), "of the table");
    assert_string_equal(json_str(json_get(r, "example")), "{\"inputs\":\"x\"}");
    r = route(list, "POST", "/v9/new");
    assert_string_equal(json_str(json_get(r, "summary")), "not in the document");
}

/* ---- the page */

TEST(page_stands_alone)
{
    struct buf page = { 0 };
    const char *p;

    page_write(&page);
    assert_true(page.len > 1000 && page.len < PAGE_BYTES_MAX);
    assert_int_equal(strlen(page.data), page.len);
    assert_true(str_starts(page.data, "<!doctype html>"));
    /* no address but the name space of SVG, no script or style from elsewhere, no raw HTML */
    for (p = page.data; (p = strstr(p, "://")); p += 3)
        assert_true(str_starts(p, "://www.w3.org/2000/svg\""));
    assert_null(strstr(page.data, " src="));
    assert_null(strstr(page.data, "rel=\"stylesheet\""));
    assert_null(strstr(page.data, "@import"));
    assert_null(strstr(page.data, "innerHTML"));
    buf_release(&page);
    /* the fields are whole lines */
    assert_true(str_ends(page_fields, "\r\n"));
    assert_null(strstr(page_fields, "\r\n\r\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head),
        cmocka_unit_test(every_route_stands_in_it),
        cmocka_unit_test(open_routes_are_told),
        cmocka_unit_test(references_lead_somewhere),
        cmocka_unit_test(every_part_is_used),
        cmocka_unit_test(operations_are_whole),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(routes_from_the_document),
        cmocka_unit_test(routes_of_the_tables_win),
        cmocka_unit_test(page_stands_alone),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, read_doc, release_doc);
}
