/* SPDX-License-Identifier: MIT */
/* api_cohere: /v2/embed and /v2/rerank, and /v1/embed for the older client.
 *
 * A reply can hold several encodings at once.  What we add lies in "meta", which the client
 * keeps whole.  (/v1/rerank is a path of Jina and vLLM too: rank.c.) */
#include "serve/api/bodies_int.h"

#include <string.h>
#include <strings.h>

static const char *const json_type = "application/json";

/* ---- embed: the request */

static bool read_types(const struct http_request *req, const struct json *body, struct ask *ask,
                       struct ask_fault *f)
{
    const struct json *v = api_get(body, "embedding_types");
    unsigned all = 0, one;

    if (v && (v->type != JSON_ARR || !v->count))
        return ask_fault(f, ASK_E_INVALID, "embedding_types",
                         "'embedding_types' must be a list of names");
    for (const struct json *e = v ? v->first : NULL; e; e = e->next) {
        if (!api_encoding_of(e, "embedding_types", &one, f))
            return false;
        all |= one;
    }
    if ((all & ASK_OCTETS && all != ASK_OCTETS))
        return ask_fault(f, ASK_E_INVALID, "embedding_types", "octets go with no other type");
    if (all)
        ask->encodings = all;
    if (api_accepts_octets(req))
        ask->encodings = ASK_OCTETS;
    api_own(ask)->by_type = all != 0;
    return true;
}

/* {"content": [{"type": "text", "text": …}]}: one part, a text. */
static bool read_content(const struct json *v, struct tok_text *out, struct ask_fault *f)
{
    const struct json *list = api_get(v, "content");
    const struct json *part = list && list->type == JSON_ARR ? list->first : NULL;
    const struct json *text = part ? api_get(part, "text") : NULL;

    if (!text || text->type != JSON_STR || part->next)
        return ask_fault(f, ASK_E_INVALID, "inputs",
                         "'inputs' must be objects whose \"content\" is a list of one text");
    *out = (struct tok_text){ text->text, text->len };
    return true;
}

static bool read_contents(const struct json *v, struct ask *ask, struct ask_fault *f)
{
    size_t n = 0;

    if (v->type != JSON_ARR)
        return ask_fault(f, ASK_E_INVALID, "inputs", "'inputs' must be a list");
    if (!v->count)
        return ask_fault(f, ASK_E_EMPTY, "inputs", "'inputs' cannot be empty");
    ask->inputs = arena_array(&ask->arena, struct ask_input, v->count);
    ask->count = v->count;
    for (const struct json *e = v->first; e; e = e->next)
        if (!read_content(e, &ask->inputs[n++].text, f))
            return false;
    return true;
}

static bool read_texts(const struct json *body, struct ask *ask, struct ask_fault *f)
{
    const struct json *texts = api_get(body, "texts"), *inputs = api_get(body, "inputs");
    const struct json *images = api_get(body, "images");

    if (images && (images->type != JSON_ARR || images->count))
        return ask_fault(f, ASK_E_INVALID, "images", "'images' are not supported, texts are");
    if (texts && inputs)
        return ask_fault(f, ASK_E_INVALID, "texts", "give 'texts' or 'inputs', not both");
    if (inputs)
        return read_contents(inputs, ask, f);
    return api_documents(ask, texts, "texts", f);
}

static bool parse_embed(const struct http_request *req, const struct json *body, struct ask *ask,
                        struct ask_fault *f)
{
    static const char *const types[] = { "search_document", "search_query", "classification",
                                         "clustering", NULL };

    ask->what = ASK_VECTORS;
    ask->normalize = ASK_YES;
    if (!api_extras(req, body, ask, f) || !read_texts(body, ask, f) ||
        !read_types(req, body, ask, f) || !api_cuts(body, API_CUT_WORD, ask, f) ||
        !api_count(body, "max_tokens", API_COUNT_MAX, &ask->max_tokens, f) ||
        !api_dimensions(body, "output_dimension", ask, f))
        return false;
    if (ask->input_type && !strcmp(ask->input_type, "image"))
        return ask_fault(f, ASK_E_INVALID, "input_type", "images are not supported");
    return api_one_of(body, "input_type", types, &ask->input_type, f);
}

/* ---- embed: the reply */

static void write_lists(struct json_out *w, const struct ask *ask, const struct answer *a,
                        enum ask_encoding e)
{
    json_arr(w);
    for (size_t i = 0; i < ask->count; i++)
        api_item_vectors(w, ask, a, i, e);
    json_arr_end(w);
}

static void write_meta(struct json_out *w, const struct ask *ask, const struct answer *a,
                       const char *version)
{
    json_key(w, "meta");
    json_obj(w);
    json_key(w, "api_version");
    json_obj(w);
    json_kv_str(w, "version", version);
    json_obj_end(w);
    json_key(w, "billed_units");
    json_obj(w);
    if (ask->what == ASK_RANK)
        json_kv_int(w, "search_units",
                    (int64_t)((ask->count + API_SEARCH_UNIT_DOCS - 1) / API_SEARCH_UNIT_DOCS));
    else
        json_kv_int(w, "input_tokens", (int64_t)a->tokens_total);
    json_obj_end(w);
    json_key(w, "tokens");
    json_obj(w);
    json_kv_int(w, "input_tokens", (int64_t)a->tokens_total);
    json_obj_end(w);
    json_key(w, "items");
    json_arr(w);
    for (size_t i = 0; i < ask->count; i++) {
        json_obj(w);
        api_item_extras(w, &a->items[i]);
        json_obj_end(w);
    }
    json_arr_end(w);
    json_obj_end(w);
}

static void write_texts(struct json_out *w, const struct ask *ask)
{
    json_key(w, "texts");
    json_arr(w);
    for (size_t i = 0; i < ask->count; i++)
        json_add_strn(w, ask->inputs[i].text.p, ask->inputs[i].text.len);
    json_arr_end(w);
}

static const char *write_version(const struct ask *ask, const struct answer *a, struct buf *out,
                                 bool by_type, const char *version)
{
    struct json_out w;

    if (ask->encodings == ASK_OCTETS)
        return api_octets(ask, a, out);
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "id", ask->id);
    json_key(&w, "embeddings");
    if (by_type) {
        json_obj(&w);
        for (unsigned e = ASK_FLOAT; e < ASK_OCTETS; e <<= 1)
            if (ask->encodings & e) {
                json_key(&w, api_encoding_name((enum ask_encoding)e));
                write_lists(&w, ask, a, (enum ask_encoding)e);
            }
        json_obj_end(&w);
    } else {
        write_lists(&w, ask, a, ASK_FLOAT);
    }
    write_texts(&w, ask);
    write_meta(&w, ask, a, version);
    json_kv_str(&w, "response_type", by_type ? "embeddings_by_type" : "embeddings_floats");
    json_obj_end(&w);
    return json_type;
}

static const char *write_embed2(const struct ask *ask, const struct answer *a, struct buf *out)
{
    return write_version(ask, a, out, true, "2");
}

static const char *write_embed1(const struct ask *ask, const struct answer *a, struct buf *out)
{
    return write_version(ask, a, out, api_owned(ask)->by_type, "1");
}

/* ---- rerank */

static bool parse_rerank(const struct http_request *req, const struct json *body, struct ask *ask,
                         struct ask_fault *f)
{
    if (!api_rank_body(req, body, ask, f))
        return false;
    if (!ask->query.len)
        return ask_fault(f, ASK_E_EMPTY, "query", "'query' cannot be empty");
    return api_bool(body, "return_documents", false, &ask->return_texts, f);
}

static void write_result(struct json_out *w, const struct ask *ask, const struct answer *a,
                         size_t i)
{
    json_obj(w);
    json_kv_int(w, "index", (int64_t)i);
    json_key(w, "relevance_score");
    api_float(w, api_score(ask, a, i));
    if (ask->return_texts) {
        json_key(w, "document");
        json_obj(w);
        json_key(w, "text");
        json_add_strn(w, ask->inputs[i].text.p, ask->inputs[i].text.len);
        json_obj_end(w);
    }
    json_obj_end(w);
}

static const char *write_rerank(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct arena arena = { 0 };
    struct json_out w;
    size_t n;
    const size_t *order = api_ranking(ask, a, &arena, &n);

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "id", ask->id);
    json_key(&w, "results");
    json_arr(&w);
    for (size_t i = 0; i < n; i++)
        write_result(&w, ask, a, order[i]);
    json_arr_end(&w);
    write_meta(&w, ask, a, "2");
    json_obj_end(&w);
    arena_release(&arena);
    return json_type;
}

static const char example[] =
    "{\"model\":\"\",\"input_type\":\"search_document\",\"embedding_types\":[\"float\"],"
    "\"texts\":[\"What is deep learning?\",\"A kind of machine learning.\"]}";

const struct api api_cohere[] = {
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
