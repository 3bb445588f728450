/* SPDX-License-Identifier: MIT */
#include "bench/bench_api.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"

#include <assert.h>
#include <string.h>

#define TRUNCATE   ",\"truncate\":true"
#define COHERE_MAX ",\"input_type\":\"search_document\",\"embedding_types\":[\"float\"]"

static const struct peer_api apis[] = {
    { "tei", "/embed", "/rerank", "inputs", "texts", TRUNCATE, TRUNCATE, false },
    { "openai", "/v1/embeddings", NULL, "input", NULL, "", "", true },
    { "cohere", "/v2/embed", "/v2/rerank", "texts", "documents", COHERE_MAX, "", true },
    { "jina", "/v1/embeddings", "/v1/rerank", "input", "documents", "", "", true },
    { "vllm", "/v1/embeddings", "/v1/rerank", "input", "documents",
      ",\"truncate_prompt_tokens\":-1", ",\"truncate_prompt_tokens\":-1", true },
    { "llama", "/embedding", "/rerank", "content", "documents", "", "", false },
    { "infinity", "/embeddings", "/rerank", "input", "documents", "", "", true },
};
const char api_names[] = "tei|openai|cohere|jina|vllm|llama|infinity";

const struct peer_api *peer_api_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(apis); i++)
        if (str_eq(apis[i].name, name))
            return &apis[i];
    return NULL;
}

const char *api_path(const struct peer_api *a, enum api_route route)
{
    return route == API_EMBED ? a->embed_path : a->rerank_path;
}

/* ---- requests ---- */
static void add_texts(struct json_out *w, const struct texts *t, size_t first, size_t count)
{
    json_arr(w);
    for (size_t i = 0; i < count; i++) {
        const struct bench_text *one = &t->items[(first + i) % t->count];

        json_add_strn(w, one->p, one->len);
    }
    json_arr_end(w);
}

static void add_body(const struct api_wanted *want, size_t index, struct buf *out)
{
    const struct peer_api *a = want->api;
    bool rerank = want->route == API_RERANK;
    struct json_out w;

    json_out_init(&w, out, 0);
    json_obj(&w);
    if (a->model && want->model && *want->model)
        json_kv_str(&w, "model", want->model);
    if (rerank) {
        const struct bench_text *q = &want->queries->items[index % want->queries->count];

        json_key(&w, "query");
        json_add_strn(&w, q->p, q->len);
    }
    json_key(&w, rerank ? a->docs_key : a->texts_key);
    add_texts(&w, want->texts, index * want->items, want->items);
    buf_adds(out, rerank ? a->rerank_more : a->embed_more);
    json_obj_end(&w);
}

static void add_head(const struct api_wanted *want, size_t body_len, struct buf *out)
{
    char authority[URL_AUTHORITY_MAX];

    buf_addf(
        out, "POST %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: stoker-bench/" STOKER_VERSION "\r\n",
        want->url->prefix, api_path(want->api, want->route), url_authority(want->url, authority));
    buf_adds(out, "Content-Type: application/json\r\nAccept: application/json\r\n");
    if (want->token)
        buf_addf(out, "Authorization: Bearer %s\r\n", want->token);
    buf_addf(out, "Content-Length: %zu\r\n\r\n", body_len);
}

enum rc api_build(const struct api_wanted *want, struct api_requests *out, struct err *err)
{
    struct buf body = { .max = API_REQUEST_MAX }, whole = { .max = API_REQUEST_MAX };
    struct api_requests r = { .items = want->items };
    size_t bytes = 0;

    assert(api_path(want->api, want->route) && want->items && want->texts->count);
    r.bytes = xcalloc(API_REQUESTS_MAX, sizeof(*r.bytes));
    r.lens = xcalloc(API_REQUESTS_MAX, sizeof(*r.lens));
    while (r.count < API_REQUESTS_MAX && bytes < API_REQUESTS_BYTES) {
        buf_reset(&body);
        add_body(want, r.count, &body);
        add_head(want, body.len, &whole);
        buf_add(&whole, body.data, body.len);
        if (body.over || whole.over) {
            buf_release(&body);
            buf_release(&whole);
            api_requests_release(&r);
            return err_set(err, RC_LIMIT, "a request of %zu texts is larger than %d bytes",
                           want->items, API_REQUEST_MAX);
        }
        bytes += whole.len;
        r.lens[r.count] = whole.len;
        r.bytes[r.count++] = buf_take(&whole);
        whole.max = API_REQUEST_MAX;
    }
    buf_release(&body);
    *out = r;
    return RC_OK;
}

void api_requests_release(struct api_requests *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->bytes[i]);
    free(r->bytes);
    free(r->lens);
    *r = (struct api_requests){ 0 };
}
