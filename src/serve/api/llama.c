/* SPDX-License-Identifier: MIT */
/* api_llama: llama.cpp's own routes: /embedding and /reranking.
 *
 * Scores are the model's, without activation; a list of lists holds each vector because that
 * server may give one a token.  (Its /embeddings, /rerank and /v1/… are paths of other APIs
 * here: openai.c and rank.c.) */
#include "serve/api/bodies_int.h"

static const char *const json_type = "application/json";

/* -1: as it is; 0: the greatest |x| is 32760; p: length 1 by the p-norm. */
static bool read_norm(const struct json *body, struct ask *ask, struct ask_fault *f)
{
    const struct json *v = api_get(body, "embd_normalize");
    struct maybe n = json_int(v);

    if (v && (!n.known || n.v < -1 || n.v > API_COUNT_MAX))
        return ask_fault(f, ASK_E_INVALID, "embd_normalize",
                         "'embd_normalize' must be a whole number from -1 to %d", API_COUNT_MAX);
    ask->normalize = v && n.v < 0 ? ASK_NO : ASK_YES;
    ask->normalize_said = v != NULL;
    ask->norm_p = v && n.v >= 0 ? (double)n.v : 2;
    return true;
}

bool api_llama_embedding(const struct http_request *req, const struct json *body, struct ask *ask,
                         struct ask_fault *f)
{
    const char *name = api_get(body, "input") ? "input" : "content";

    f->family = 1 + API_LLAMA;
    ask->what = ASK_VECTORS;
    return api_extras(req, body, ask, f) && api_inputs(ask, json_get(body, name), name, true, f) &&
           api_none_empty(ask, name, f) && api_cuts(body, API_CUT_ANY, ask, f) &&
           api_encoding(req, body, ask, f) && read_norm(body, ask, f);
}

const char *api_llama_write_embedding(const struct ask *ask, const struct answer *a,
                                      struct buf *out)
{
    struct json_out w;

    if (ask->encodings == ASK_OCTETS)
        return api_octets(ask, a, out);
    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < ask->count; i++) {
        json_obj(&w);
        json_kv_int(&w, "index", (int64_t)i);
        json_key(&w, "embedding");
        json_arr(&w);
        api_item_vectors(&w, ask, a, i, (enum ask_encoding)ask->encodings);
        json_arr_end(&w);
        api_item_extras(&w, &a->items[i]);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    return json_type;
}

static bool parse_reranking(const struct http_request *req, const struct json *body,
                            struct ask *ask, struct ask_fault *f)
{
    bool tei = api_get(body, "texts") && !api_get(body, "documents");

    api_own(ask)->tei = tei;
    if (!(tei ? api_tei_rerank(req, body, ask, f) : api_rank_body(req, body, ask, f))) {
        f->family = 0;
        return false;
    }
    f->family = 0; /* the shape is TEI's, errors are not */
    ask->raw_scores = true;
    return true;
}

static const char *write_reranking(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct arena arena = { 0 };
    struct json_out w;
    size_t n;

    if (api_owned(ask)->tei)
        return api_tei_write_rerank(ask, a, out);
    const size_t *order = api_ranking(ask, a, &arena, &n);
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "model", a->model);
    api_fingerprint(&w, a);
    json_kv_str(&w, "object", "list");
    api_usage(&w, a);
    json_key(&w, "results");
    json_arr(&w);
    for (size_t i = 0; i < n; i++) {
        json_obj(&w);
        json_kv_int(&w, "index", (int64_t)order[i]);
        json_key(&w, "relevance_score");
        api_float(&w, api_score(ask, a, order[i]));
        api_item_extras(&w, &a->items[order[i]]);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_obj_end(&w);
    arena_release(&arena);
    return json_type;
}

const struct api api_llama[] = {
    { .path = "/embedding",
      .family = API_LLAMA,
      .summary = "a vector for each text",
      .parse = api_llama_embedding,
      .write = api_llama_write_embedding,
      .fields = api_fields_octets,
      .example = "{\"content\":\"What is deep learning?\"}" },
    { .path = "/reranking",
      .family = API_LLAMA,
      .summary = "documents by their raw score for a query",
      .parse = parse_reranking,
      .write = write_reranking,
      .fields = api_fields_rerank,
      .example = "{\"query\":\"What is deep learning?\",\"documents\":"
                 "[\"A kind of machine learning.\",\"A kind of cheese.\"]}" },
    { .path = NULL },
};
