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
    const struct api *api;
    struct ask ask;
    struct ask_fault fault;
    struct answer answer;
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
    struct http_request req = { .method = HTTP_POST,
                                .path = path,
                                .query = "",
                                .fields = fields,
                                .field_count = field_count,
                                .body = body,
                                .body_len = len,
                                .id = 0x2a,
                                .begun_ns = 0x1000 };
    struct json *tree = NULL;
    struct err err = { 0 };

    memset(b, 0, sizeof(*b));
    b->api = api_find(path);
    b->ask.encodings = ASK_FLOAT;
    b->ask.norm_p = 2;
    if (json_parse(&b->ask.arena, body, len, &tree, &err))
        return ask_fault(&b->fault, ASK_E_JSON, NULL, "the body cannot be read as JSON: %s",
                         err.msg);
    return b->api->parse(&req, tree, &b->ask, &b->fault);
}

static inline void box_tokens(struct box *b, size_t i)
{
    static const struct answer_token made[] = { { 101, "[CLS]", true, 0, 0 },
                                                { 7592, "hello", false, 0, 5 } };

    b->answer.tokens[i] = arena_memdup(&b->ask.arena, made, sizeof(made));
    b->answer.items[i].tokens = ARRAY_SIZE(made);
}

/* Row r is (r+1)/4, -(r+1)/8, 0.5, …; every third input was cut at byte 9. */
static inline void box_answer(struct box *b, size_t width)
{
    struct ask *ask = &b->ask;
    struct answer *a = &b->answer;
    size_t rows = 0;

    *a = (struct answer){ .model = "m", .net = &b->net, .width = width, .unix_s = 1700000000 };
    a->items = arena_array(&ask->arena, struct answer_item, ask->count);
    a->tokens = arena_array(&ask->arena, struct answer_token *, ask->count);
    a->texts = arena_array(&ask->arena, const char *, ask->count);
    for (size_t i = 0; i < ask->count; i++) {
        size_t n = ask->what == ASK_TOKENS ? 2 : 1;
        a->items[i] = (struct answer_item){ .tokens = (uint32_t)(4 + i),
                                            .truncated = i % 3 == 2,
                                            .cut = 9,
                                            .row = rows,
                                            .row_count = n };
        rows += n;
        if (ask->what == ASK_IDS)
            box_tokens(b, i);
        a->texts[i] = "deep learning";
        a->tokens_total += a->items[i].tokens;
    }
    b->rows = xcalloc(rows * width + 1, sizeof(float));
    for (size_t r = 0; r < rows; r++)
        for (size_t k = 0; k < width; k++)
            b->rows[r * width + k] = k == 0   ? (float)(r + 1) / 4
                                     : k == 1 ? -(float)(r + 1) / 8
                                              : 0.5f;
    a->rows = b->rows;
}

static inline void box_release(struct box *b)
{
    free(b->rows);
    arena_release(&b->ask.arena);
}

#endif
