/* SPDX-License-Identifier: MIT */
/* Bodies of requests: the first byte chooses the route, the rest is the body.  What is let
 * through holds what it promises, and an answer to it is written whole. */
#include "fuzz.h"

#include "base/mem.h"
#include "serve/api/routes_int.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 9, ROWS_MAX = 1 << 14 };

static size_t routes(void)
{
    size_t n = 0;

    while (api_at(n))
        n++;
    return n;
}

static void check(const struct request *r)
{
    if (!r->count || !r->inputs || !r->encodings || (r->what == REQUEST_RANK && !r->query.p))
        abort();
    for (size_t i = 0; i < r->count; i++) {
        const struct request_input *in = &r->inputs[i];
        if (!in->text.p == !in->ids || (in->pair.p && !in->text.p))
            abort();
        if (in->text.p && in->text.p[in->text.len] != '\0')
            abort();
    }
}

static void check_fault(const struct serve_route *api, const struct request_fault *f)
{
    struct arena arena = { 0 };
    struct buf out = { 0 };
    struct json *v;
    int status = api_error(api->family, f, &out);

    if (!f->message[0] || status < 400 || status > 599 ||
        json_parse(&arena, out.data, out.len, &v, NULL))
        abort();
    buf_release(&out);
    arena_release(&arena);
}

static void make_response(struct request *r, const struct model *net, float *rows)
{
    static struct response_token token = { 7, "x", false, 0, 1 };
    struct response *a = &r->response;

    *a = (struct response){ .model = "m", .net = net, .width = WIDTH, .rows = rows };
    r->texts = arena_array(&r->arena, struct request_text, r->count);
    a->tokens = arena_array(&r->arena, struct response_token *, r->count);
    a->decoded = arena_array(&r->arena, const char *, r->count);
    for (size_t i = 0; i < r->count; i++) {
        r->texts[i] = (struct request_text){
            .tokens = 1, .truncated = i & 1, .row = i % ROWS_MAX, .row_count = 1
        };
        a->tokens[i] = &token;
        a->decoded[i] = "x";
    }
}

static void write_response(const struct serve_route *api, struct request *r,
                           const struct model *net)
{
    float *rows = xcalloc(ROWS_MAX, WIDTH * sizeof(float));
    struct buf out = { 0 }, fields = { 0 };
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct json *v;

    for (size_t i = 0; i < (size_t)ROWS_MAX * WIDTH; i++)
        rows[i] = (float)(i % 17) * 0.37f - 2;
    make_response(r, net, rows);
    const char *type = api_write(r, &out);
    if (api->fields)
        api->fields(r, &fields);
    if (!strcmp(type, "application/json") && !out.over &&
        json_parse(&arena, out.data, out.len, &v, &err) && !strstr(err.msg, "too many values"))
        abort();
    buf_release(&out);
    buf_release(&fields);
    arena_release(&arena);
    free(rows);
}

static void one(const struct serve_route *api, const char *body, size_t len, bool head)
{
    struct http_request http = { .method = HTTP_POST, .path = api->path, .query = "", .id = 1 };
    struct model net = { .head = head ? MODEL_HEAD_POOLER : MODEL_HEAD_NONE, .labels = 1 };
    struct request r = { .http = &http, .api = api, .encodings = API_FLOAT, .norm_p = 2 };
    struct json *v;

    if (!json_parse(&r.arena, body, len, &v, NULL)) {
        if (api->parse(&r, v) && (!api->settle || api->settle(&r, &net))) {
            check(&r);
            write_response(api, &r, &net);
        } else {
            check_fault(api, &r.fault);
        }
    }
    arena_release(&r.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    one(api_at(data[0] % routes()), (const char *)data + 1, size - 1, data[0] & 0x80);
    return 0;
}
