/* SPDX-License-Identifier: MIT */
/* cohere: /v2/embed and /v2/rerank, and /v1/embed for the older client.
 *
 * A reply can hold several encodings at once.  What we add lies in "meta", which the client
 * keeps whole.  (/v1/rerank is a path of Jina and vLLM too: rank.c.) */
#include "serve/api/bodies_int.h"

#include <string.h>
#include <strings.h>

/* ---- embed: the request */

static bool read_types(struct request *r, const struct json *body)
{
    const struct json *v = api_get(body, "embedding_types");
    unsigned all = 0, one;

    if (v && (v->type != JSON_ARR || !v->count))
        return request_fail(r, FAULT_INVALID, "embedding_types",
                            "'embedding_types' must be a list of names");
    for (const struct json *e = v ? v->first : NULL; e; e = e->next) {
        if (!api_encoding_of(r, e, "embedding_types", &one))
            return false;
        all |= one;
    }
    if ((all & API_OCTETS && all != API_OCTETS))
        return request_fail(r, FAULT_INVALID, "embedding_types", "octets go with no other type");
    if (all)
        r->encodings = all;
    if (api_accepts_octets(r))
        r->encodings = API_OCTETS;
    api_priv(r)->by_type = all != 0;
    return true;
}

/* {"content": [{"type": "text", "text": …}]}: one part, a text. */
static bool read_content(struct request *r, const struct json *v, struct tok_text *out)
{
    const struct json *list = api_get(v, "content");
    const struct json *part = list && list->type == JSON_ARR ? list->first : NULL;
    const struct json *text = part ? api_get(part, "text") : NULL;

    if (!text || text->type != JSON_STR || part->next)
        return request_fail(r, FAULT_INVALID, "inputs",
                            "'inputs' must be objects whose \"content\" is a list of one text");
    *out = (struct tok_text){ text->text, text->len };
    return true;
}

static bool read_contents(struct request *r, const struct json *v)
{
    size_t n = 0;

    if (v->type != JSON_ARR)
        return request_fail(r, FAULT_INVALID, "inputs", "'inputs' must be a list");
    if (!v->count)
        return request_fail(r, FAULT_EMPTY, "inputs", "'inputs' cannot be empty");
    r->inputs = arena_array(&r->arena, struct request_input, v->count);
    r->count = v->count;
    for (const struct json *e = v->first; e; e = e->next)
        if (!read_content(r, e, &r->inputs[n++].text))
            return false;
    return true;
}

static bool read_texts(struct request *r, const struct json *body)
{
    const struct json *texts = api_get(body, "texts"), *inputs = api_get(body, "inputs");
    const struct json *images = api_get(body, "images");

    if (images && (images->type != JSON_ARR || images->count))
        return request_fail(r, FAULT_INVALID, "images", "'images' are not supported, texts are");
    if (texts && inputs)
        return request_fail(r, FAULT_INVALID, "texts", "give 'texts' or 'inputs', not both");
    if (inputs)
        return read_contents(r, inputs);
    return api_documents(r, texts, "texts");
}

static bool parse_embed(struct request *r, const struct json *body)
{
    static const char *const types[] = { "search_document", "search_query", "classification",
                                         "clustering", NULL };

    r->what = REQUEST_VECTORS;
    r->normalize = SERVE_YES;
    if (!api_extras(r, body) || !read_texts(r, body) || !read_types(r, body) ||
        !api_cuts(r, body, API_CUT_WORD) ||
        !api_count(r, body, "max_tokens", API_COUNT_MAX, &r->max_tokens) ||
        !api_dimensions(r, body, "output_dimension"))
        return false;
    if (r->input_type && !strcmp(r->input_type, "image"))
        return request_fail(r, FAULT_INVALID, "input_type", "images are not supported");
    return api_one_of(r, body, "input_type", types, &r->input_type);
}

/* ---- embed: the reply */

static void write_lists(struct json_out *w, const struct request *r, enum api_encoding e)
{
    json_arr(w);
    for (size_t i = 0; i < r->count; i++)
        api_item_vectors(w, r, i, e);
    json_arr_end(w);
}

static void write_meta(struct json_out *w, const struct request *r, const char *version)
{
    json_kv_obj(w, "meta");
    json_kv_obj(w, "api_version");
    json_kv_str(w, "version", version);
    json_obj_end(w);
    json_kv_obj(w, "billed_units");
    if (r->what == REQUEST_RANK)
        json_kv_int(w, "search_units",
                    (int64_t)((r->count + API_SEARCH_UNIT_DOCS - 1) / API_SEARCH_UNIT_DOCS));
    else
        json_kv_int(w, "input_tokens", (int64_t)r->response.tokens_total);
    json_obj_end(w);
    json_kv_obj(w, "tokens");
    json_kv_int(w, "input_tokens", (int64_t)r->response.tokens_total);
    json_obj_end(w);
    json_kv_arr(w, "items");
    for (size_t i = 0; i < r->count; i++) {
        json_obj(w);
        api_item_extras(w, &r->texts[i]);
        json_obj_end(w);
    }
    json_arr_end(w);
    json_obj_end(w);
}

static void write_texts(struct json_out *w, const struct request *r)
{
    json_kv_arr(w, "texts");
    for (size_t i = 0; i < r->count; i++)
        json_add_strn(w, r->inputs[i].text.p, r->inputs[i].text.len);
    json_arr_end(w);
}

static void write_version(const struct request *r, struct buf *out, bool by_type,
                          const char *version)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "id", r->id);
    json_key(&w, "embeddings");
    if (by_type) {
        json_obj(&w);
        for (unsigned e = API_FLOAT; e < API_OCTETS; e <<= 1)
            if (r->encodings & e) {
                json_key(&w, api_encoding_name((enum api_encoding)e));
                write_lists(&w, r, (enum api_encoding)e);
            }
        json_obj_end(&w);
    } else {
        write_lists(&w, r, API_FLOAT);
    }
    write_texts(&w, r);
    write_meta(&w, r, version);
    json_kv_str(&w, "response_type", by_type ? "embeddings_by_type" : "embeddings_floats");
    json_obj_end(&w);
}

static void write_embed2(const struct request *r, struct buf *out)
{
    write_version(r, out, true, "2");
}

static void write_embed1(const struct request *r, struct buf *out)
{
    write_version(r, out, api_priv_of(r)->by_type, "1");
}

/* ---- rerank */

static bool parse_rerank(struct request *r, const struct json *body)
{
    if (!api_rank_body(r, body))
        return false;
    if (!r->query.len)
        return request_fail(r, FAULT_EMPTY, "query", "'query' cannot be empty");
    return api_bool(r, body, "return_documents", false, &r->return_texts);
}

static void write_result(struct json_out *w, const struct request *r, size_t i)
{
    json_obj(w);
    json_kv_int(w, "index", (int64_t)i);
    json_key(w, "relevance_score");
    api_float(w, api_score(r, i));
    if (r->return_texts) {
        json_kv_obj(w, "document");
        json_key(w, "text");
        json_add_strn(w, r->inputs[i].text.p, r->inputs[i].text.len);
        json_obj_end(w);
    }
    json_obj_end(w);
}

static void write_rerank(const struct request *r, struct buf *out)
{
    struct arena arena = { 0 };
    struct json_out w;
    size_t n;
    const size_t *order = api_ranking(r, &arena, &n);

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "id", r->id);
    json_kv_arr(&w, "results");
    for (size_t i = 0; i < n; i++)
        write_result(&w, r, order[i]);
    json_arr_end(&w);
    write_meta(&w, r, "2");
    json_obj_end(&w);
    arena_release(&arena);
}

static const char example[] =
    "{\"model\":\"\",\"input_type\":\"search_document\",\"embedding_types\":[\"float\"],"
    "\"texts\":[\"What is deep learning?\",\"A kind of machine learning.\"]}";

const struct serve_route api_cohere[] = {
    { .path = "/v2/embed",
      .family = API_COHERE,
      .summary = "a vector for each text, in one or several encodings",
      .parse = parse_embed,
      .write = write_embed2,
      .fields = api_fields_octets,
      .example = example },
    { .path = "/v1/embed",
      .family = API_COHERE,
      .summary = "a vector for each text",
      .parse = parse_embed,
      .write = write_embed1,
      .fields = api_fields_octets,
      .example = example },
    { .path = "/v2/rerank",
      .family = API_COHERE,
      .summary = "documents by their relevance to a query",
      .parse = parse_rerank,
      .write = write_rerank,
      .example = "{\"model\":\"\",\"query\":\"What is deep learning?\",\"top_n\":1,\"documents\":"
                 "[\"A kind of machine learning.\",\"A kind of cheese.\"]}" },
    { .path = NULL },
};
