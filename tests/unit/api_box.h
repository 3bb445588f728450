/* SPDX-License-Identifier: MIT */
/* api_box: a request body through a route's parser, a made-up answer through its writer. */
#ifndef TESTS_API_BOX_H
#define TESTS_API_BOX_H
#include "base/mem.h"
#include "base/text/json.h"
#include "serve/api/bodies_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct box {
    const struct serve_route *api;
    struct http_request http;
    struct request request;
    struct model net;
    float *rows;
};

/* A copy with quotes where `s` has backticks; the caller frees it. */
static inline char *box_quotes(const char *s)
{
    char *out = xstrdup(s);

    for (char *p = out; (p = strchr(p, '`'));)
        *p = '"';
    return out;
}

/* As frontend.c does it. */
static inline bool box_parse(struct box *b, const char *path, const char *body, size_t len,
                             const struct http_field *fields, size_t field_count)
{
    struct json *tree = NULL;
    struct err err = { 0 };

    *b = (struct box){
        .api = api_find(path),
        .http = { .method = HTTP_POST,
                  .path = path,
                  .query = "",
                  .fields = fields,
                  .field_count = field_count,
                  .body = body,
                  .body_len = len,
                  .id = 0x2a,
                  .begun_ns = 0x1000 },
        .request = { .http = &b->http, .api = api_find(path), .encodings = API_FLOAT, .norm_p = 2 }
    };
    if (json_parse(&b->request.arena, body, len, &tree, &err))
        return request_fail(&b->request, FAULT_JSON, NULL, "the body cannot be read as JSON: %s",
                            err.msg);
    return b->api->parse(&b->request, tree);
}

static inline void box_tokens(struct box *b, size_t i)
{
    static const struct response_token made[] = { { 101, "[CLS]", true, 0, 0 },
                                                  { 7592, "hello", false, 0, 5 } };

    b->request.response.tokens[i] = arena_memdup(&b->request.arena, made, sizeof(made));
    b->request.texts[i].tokens = ARRAY_SIZE(made);
}

/* Row k is (k+1)/4, -(k+1)/8, 0.5, …; every third input was cut at byte 9. */
static inline void box_answer(struct box *b, size_t width)
{
    struct request *r = &b->request;
    struct response *a = &r->response;
    size_t rows = 0;

    *a = (struct response){ .model = "m", .net = &b->net, .width = width, .unix_s = 1700000000 };
    r->texts = arena_array(&r->arena, struct request_text, r->count);
    a->tokens = arena_array(&r->arena, struct response_token *, r->count);
    a->decoded = arena_array(&r->arena, const char *, r->count);
    for (size_t i = 0; i < r->count; i++) {
        size_t n = r->what == REQUEST_TOKENS ? 2 : 1;
        r->texts[i] = (struct request_text){ .tokens = (uint32_t)(4 + i),
                                             .truncated = i % 3 == 2,
                                             .cut = 9,
                                             .row = rows,
                                             .row_count = n };
        rows += n;
        if (r->what == REQUEST_IDS)
            box_tokens(b, i);
        a->decoded[i] = "deep learning";
        a->tokens_total += r->texts[i].tokens;
    }
    b->rows = xcalloc(rows * width + 1, sizeof(float));
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < width; k++)
            b->rows[i * width + k] = k == 0   ? (float)(i + 1) / 4
                                     : k == 1 ? -(float)(i + 1) / 8
                                              : 0.5f;
    a->rows = b->rows;
}

static inline void box_release(struct box *b)
{
    free(b->rows);
    arena_release(&b->request.arena);
}

#endif
