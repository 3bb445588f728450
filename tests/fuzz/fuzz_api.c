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

static void check(const struct ask *ask)
{
    if (!ask->count || !ask->inputs || !ask->encodings || (ask->what == ASK_RANK && !ask->query.p))
        abort();
    for (size_t i = 0; i < ask->count; i++) {
        const struct ask_input *in = &ask->inputs[i];
        if (!in->text.p == !in->ids || (in->pair.p && !in->text.p))
            abort();
        if (in->text.p && in->text.p[in->text.len] != '\0')
            abort();
    }
}

static void check_fault(const struct api *api, const struct ask_fault *f)
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

static void make_answer(struct ask *ask, const struct model *net, struct answer *a, float *rows)
{
    static struct answer_token token = { 7, "x", false, 0, 1 };

    *a = (struct answer){ .model = "m", .net = net, .width = WIDTH, .rows = rows };
    a->items = arena_array(&ask->arena, struct answer_item, ask->count);
    a->tokens = arena_array(&ask->arena, struct answer_token *, ask->count);
    a->texts = arena_array(&ask->arena, const char *, ask->count);
    for (size_t i = 0; i < ask->count; i++) {
        a->items[i] = (struct answer_item){
            .tokens = 1, .truncated = i & 1, .row = i % ROWS_MAX, .row_count = 1
        };
        a->tokens[i] = &token;
        a->texts[i] = "x";
    }
}

static void answer(const struct api *api, struct ask *ask, const struct model *net)
{
    float *rows = xcalloc(ROWS_MAX, WIDTH * sizeof(float));
    struct buf out = { 0 }, fields = { 0 };
    struct arena arena = { 0 };
    struct err err = { 0 };
    struct answer a;
    struct json *v;

    for (size_t i = 0; i < (size_t)ROWS_MAX * WIDTH; i++)
        rows[i] = (float)(i % 17) * 0.37f - 2;
    make_answer(ask, net, &a, rows);
    const char *type = api->write(ask, &a, &out);
    if (api->fields)
        api->fields(ask, &a, &fields);
    if (!strcmp(type, "application/json") && !out.over &&
        json_parse(&arena, out.data, out.len, &v, &err) && !strstr(err.msg, "too many values"))
        abort();
    buf_release(&out);
    buf_release(&fields);
    arena_release(&arena);
    free(rows);
}

static void one(const struct api *api, const char *body, size_t len, bool head)
{
    struct http_request req = { .method = HTTP_POST, .path = api->path, .query = "", .id = 1 };
    struct model net = { .head = head ? MODEL_HEAD_POOLER : MODEL_HEAD_NONE, .labels = 1 };
    struct ask ask = { .encodings = ASK_FLOAT, .norm_p = 2 };
    struct ask_fault f = { 0 };
    struct json *v;

    if (!json_parse(&ask.arena, body, len, &v, NULL)) {
        if (api->parse(&req, v, &ask, &f) && (!api->settle || api->settle(&ask, &net, &f))) {
            check(&ask);
            answer(api, &ask, &net);
        } else {
            check_fault(api, &f);
        }
    }
    arena_release(&ask.arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    one(api_at(data[0] % routes()), (const char *)data + 1, size - 1, data[0] & 0x80);
    return 0;
}
