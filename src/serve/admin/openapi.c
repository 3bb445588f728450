/* SPDX-License-Identifier: MIT */
/* openapi: data/openapi.json, compiled in, is the one description of all routes; the list
 * of routes is read from it. */
#include "base/embed.h"
#include "base/str.h"
#include "base/text/json.h"
#include "serve/admin/page_int.h"

#include <assert.h>
#include <string.h>

EMBED(data_openapi, "data/openapi.json");

static const char version_mark[] = "@VERSION@";

void openapi_write(struct buf *out)
{
    const char *mark = strstr(data_openapi, version_mark);

    assert(mark);
    buf_add(out, data_openapi, (size_t)(mark - data_openapi));
    buf_adds(out, STOKER_VERSION);
    buf_adds(out, mark + sizeof(version_mark) - 1);
}

static const struct serve_route *row_of(const struct serve_route *(*at)(size_t i), const char *path)
{
    const struct serve_route *a;

    for (size_t i = 0; at && (a = at(i)); i++)
        if (str_eq(a->path, path))
            return a;
    return NULL;
}

static void add_route(struct json_out *w, const char *method, const char *path, const char *summary,
                      const char *example)
{
    json_obj(w);
    json_kv_str(w, "method", method);
    json_kv_str(w, "path", path);
    json_kv_str(w, "summary", summary);
    json_kv_str(w, "example", example);
    json_obj_end(w);
}

/* The example of an operation's request body; NULL when it takes none. */
static const struct json *example_of(const struct json *operation)
{
    const struct json *body = json_get(operation, "requestBody");
    const struct json *content = json_get(json_get(body, "content"), "application/json");

    return json_get(content, "example");
}

static void add_operation(struct json_out *w, const char *path, const struct json *operation,
                          const struct serve_route *row)
{
    const char *method = str_eq(operation->key, "post")     ? "POST"
                         : str_eq(operation->key, "delete") ? "DELETE"
                                                            : "GET";
    const struct json *example = example_of(operation);
    struct buf text = { 0 };
    struct json_out inner;

    if (!str_eq(method, "POST"))
        row = NULL; /* the tables hold what is posted */
    if (example) {
        json_out_init(&inner, &text, 0);
        json_add_value(&inner, example);
    }
    add_route(w, method, path,
              row && row->summary ? row->summary : json_str(json_get(operation, "summary")),
              row && row->example ? row->example : text.data);
    buf_release(&text);
}

void openapi_routes(const struct serve_route *(*at)(size_t i), struct buf *out)
{
    const struct json *paths, *path, *operation;
    struct arena arena = { 0 };
    const struct serve_route *a;
    struct json_out w;
    struct json *doc;

    if (json_parse(&arena, data_openapi, data_openapi_len, &doc, NULL))
        assert(!"data/openapi.json is JSON: a unit test says so");
    paths = json_get(doc, "paths");
    json_out_init(&w, out, 0);
    json_arr(&w);
    for (path = paths->first; path; path = path->next)
        for (operation = path->first; operation; operation = operation->next)
            add_operation(&w, path->key, operation, row_of(at, path->key));
    for (size_t i = 0; at && (a = at(i)); i++)
        if (!json_get(paths, a->path) && row_of(at, a->path) == a)
            add_route(&w, "POST", a->path, a->summary, a->example);
    json_arr_end(&w);
    arena_release(&arena);
}
