/* SPDX-License-Identifier: MIT */
/* llama: llama.cpp's own routes: /embedding and /reranking.
 *
 * Scores are the model's, without activation; a list of lists holds each vector because that
 * server may give one a token.  (Its /embeddings, /rerank and /v1/… are paths of other APIs
 * here: openai.c and rank.c.) */
#include "serve/api/bodies_int.h"

/* -1: as it is; 0: the greatest |x| is 32760; p: length 1 by the p-norm. */
static bool read_norm(struct request *r, const struct json *body)
{
    const struct json *v = api_get(body, "embd_normalize");
    struct maybe n = json_int(v);

    if (v && (!n.known || n.v < -1 || n.v > API_COUNT_MAX))
        return request_fail(r, FAULT_INVALID, "embd_normalize",
                            "'embd_normalize' must be a whole number from -1 to %d", API_COUNT_MAX);
    r->normalize = v && n.v < 0 ? SERVE_NO : SERVE_YES;
    r->normalize_said = v != NULL;
    r->norm_p = v && n.v >= 0 ? (double)n.v : 2;
    return true;
}

bool api_llama_embedding(struct request *r, const struct json *body)
{
    const char *name = api_get(body, "input") ? "input" : "content";

    r->fault.family = 1 + API_LLAMA;
    r->what = REQUEST_VECTORS;
    return api_extras(r, body) && api_inputs(r, json_get(body, name), name, true) &&
           api_none_empty(r, name) && api_cuts(r, body, API_CUT_ANY) && api_encoding(r, body) &&
           read_norm(r, body);
}

void api_llama_write_embedding(const struct request *r, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < r->count; i++) {
        json_obj(&w);
        json_kv_int(&w, "index", (int64_t)i);
        json_kv_arr(&w, "embedding");
        api_item_vectors(&w, r, i, (enum api_encoding)r->encodings);
        json_arr_end(&w);
        api_item_extras(&w, &r->texts[i]);
        json_obj_end(&w);
    }
    json_arr_end(&w);
}

static bool parse_reranking(struct request *r, const struct json *body)
{
    bool tei = api_get(body, "texts") && !api_get(body, "documents");

    api_priv(r)->tei = tei;
    if (!(tei ? api_tei_rerank(r, body) : api_rank_body(r, body))) {
        r->fault.family = 0;
        return false;
    }
    r->fault.family = 0; /* the shape is TEI's, errors are not */
    r->raw_scores = true;
    return true;
}

static void write_reranking(const struct request *r, struct buf *out)
{
    struct arena arena = { 0 };
    struct json_out w;
    size_t n;

    if (api_priv_of(r)->tei) {
        api_tei_write_rerank(r, out);
        return;
    }
    const size_t *order = api_ranking(r, &arena, &n);
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "model", r->response.model);
    api_fingerprint(&w, r);
    json_kv_str(&w, "object", "list");
    api_usage(&w, r);
    json_kv_arr(&w, "results");
    for (size_t i = 0; i < n; i++) {
        json_obj(&w);
        json_kv_int(&w, "index", (int64_t)order[i]);
        json_key(&w, "relevance_score");
        api_float(&w, api_score(r, order[i]));
        api_item_extras(&w, &r->texts[order[i]]);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    json_obj_end(&w);
    arena_release(&arena);
}

const struct serve_route api_llama[] = {
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
