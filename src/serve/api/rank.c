/* SPDX-License-Identifier: MIT */
/* rank: /rerank and /v1/rerank, which TEI, Jina, Cohere's older client, vLLM, Infinity
 * and llama.cpp share, and vLLM's /score.
 *
 * One path, two shapes: a body with "texts" is TEI's and gets TEI's reply and errors; one
 * with "documents" gets a reply that the others read.  Jina's and vLLM's clients look at
 * each result's document, so it is there unless return_documents is false.  Infinity's always
 * send "raw_scores", which nobody else does beside "documents", and want another object's name,
 * documents as plain strings, and only when asked for.  Voyage's always send "truncation", say
 * "top_k", and read "data".
 *
 * /score with a model that gives vectors answers their cosines, as vLLM does. */
#include "serve/api/bodies_int.h"

#include <string.h>

/* ---- rerank */

/* A list of documents, or one bare text. */
static bool read_documents(struct request *r, const struct json *v, const char *name)
{
    if (!v || v->type != JSON_STR)
        return api_documents(r, v, name);
    r->inputs = arena_new(&r->arena, struct request_input);
    r->inputs[0].text = (struct tok_text){ v->text, v->len };
    r->count = 1;
    return true;
}

bool api_rank_body(struct request *r, const struct json *body)
{
    r->what = REQUEST_RANK;
    if (!api_extras(r, body) || !api_string(r, body, "query", &r->query))
        return false;
    if (!r->query.p)
        return request_fail(r, FAULT_INVALID, "query", "'query' is missing");
    if (api_get(body, "texts"))
        return request_fail(r, FAULT_INVALID, "texts", "give 'documents' or 'texts', not both");
    return read_documents(r, json_get(body, "documents"), "documents") &&
           api_cuts(r, body, API_CUT_ANY) &&
           api_count(r, body, "top_n", API_COUNT_MAX, &r->top_n) &&
           api_count(r, body, "max_tokens_per_doc", API_COUNT_MAX, &r->max_tokens_doc) &&
           api_count(r, body, "max_tokens_per_query", API_COUNT_MAX, &r->max_tokens_query) &&
           api_bool(r, body, "raw_scores", false, &r->raw_scores);
}

static bool parse_rerank(struct request *r, const struct json *body)
{
    if (api_get(body, "texts") && !api_get(body, "documents")) {
        api_priv(r)->tei = true;
        return api_tei_rerank(r, body);
    }
    bool active, cut, infinity = api_get(body, "raw_scores") != NULL;
    api_priv(r)->infinity = infinity;
    api_priv(r)->voyage = api_get(body, "truncation") != NULL;
    r->sigmoid = infinity; /* its rule, as TEI's */
    if (!api_rank_body(r, body) ||
        !api_bool(r, body, "return_documents", !infinity, &r->return_texts) ||
        !api_bool(r, body, "truncation", true, &cut) ||
        !api_bool(r, body, "use_activation", true, &active))
        return false;
    if (!r->top_n && !api_count(r, body, "top_k", API_COUNT_MAX, &r->top_n))
        return false;
    if (!cut)
        r->truncate = SERVE_NO;
    r->raw_scores = r->raw_scores || !active;
    return true;
}

static void write_result(struct json_out *w, const struct request *r, size_t i)
{
    const struct tok_text *t = &r->inputs[i].text;

    json_obj(w);
    json_kv_int(w, "index", (int64_t)i);
    json_key(w, "relevance_score");
    api_float(w, api_score(r, i));
    if (r->return_texts) {
        bool plain = api_priv_of(r)->infinity;

        json_key(w, "document");
        if (!plain) {
            json_obj(w);
            json_key(w, "text");
        }
        json_add_strn(w, t->p, t->len);
        if (!plain)
            json_obj_end(w);
    }
    api_item_extras(w, &r->texts[i]);
    json_obj_end(w);
}

static void write_rerank(const struct request *r, struct buf *out)
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
    json_kv_str(&w, "id", r->id);
    json_kv_str(&w, "object", api_priv_of(r)->infinity ? "rerank" : "list");
    json_kv_int(&w, "created", r->response.unix_s);
    json_kv_str(&w, "model", r->response.model);
    api_fingerprint(&w, r);
    api_usage(&w, r);
    json_kv_arr(&w, api_priv_of(r)->voyage ? "data" : "results");
    for (size_t i = 0; i < n; i++)
        write_result(&w, r, order[i]);
    json_arr_end(&w);
    json_obj_end(&w);
    arena_release(&arena);
}

void api_fields_rerank(const struct request *r, struct buf *out)
{
    if (api_priv_of(r)->tei)
        api_fields(r, out);
}

/* ---- score */

/* One side of the pairs under any of its three names: a text or a list of them.  *at: which of the
 * names is meant where there is none, then which was there. */
static bool read_side(struct request *r, const struct json *body, const char *const names[3],
                      size_t *at)
{
    const struct json *v = NULL;
    const char *name = names[*at];

    for (size_t i = 0; i < 3; i++) {
        const struct json *here = api_get(body, names[i]);
        if (here && v)
            return request_fail(r, FAULT_INVALID, names[i], "give '%s' or '%s', not both", name,
                                names[i]);
        if (here) {
            v = here;
            name = names[i];
            *at = i;
        }
    }
    return read_documents(r, v, name);
}

/* As many on the left as on the right: pair by pair. */
static void make_pairs(struct request *r, const struct request_input *left)
{
    r->what = REQUEST_CLASSES;
    for (size_t i = 0; i < r->count; i++) {
        r->inputs[i].pair = r->inputs[i].text;
        r->inputs[i].text = left[i].text;
    }
}

static bool parse_score(struct request *r, const struct json *body)
{
    static const char *const lefts[] = { "queries", "text_1", "data_1" };
    static const char *const rights[] = { "documents", "text_2", "data_2" };
    size_t at = 0, left_at;
    bool active;

    r->what = REQUEST_RANK;
    for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
        at = api_get(body, rights[i]) ? i : at;
    if (!api_extras(r, body) || !api_cuts(r, body, API_CUT_ANY) ||
        !api_bool(r, body, "use_activation", true, &active) || !read_side(r, body, lefts, &at))
        return false;
    struct request_input *left = r->inputs;
    size_t n = r->count;
    left_at = at;
    if (!read_side(r, body, rights, &at))
        return false;
    if (n != 1 && n != r->count)
        return request_fail(r, FAULT_INVALID, lefts[left_at],
                            "%zu texts on the left and %zu on the right: give one, or as many", n,
                            r->count);
    api_priv(r)->firsts = n;
    r->raw_scores = !active;
    r->query = left[0].text;
    if (n > 1)
        make_pairs(r, left);
    return true;
}

/* A model of vectors: both sides are texts of their own. */
static void split_pairs(struct request *r)
{
    size_t firsts = api_priv(r)->firsts;
    struct request_input *all = arena_array(&r->arena, struct request_input, firsts + r->count);

    for (size_t i = 0; i < firsts; i++)
        all[i].text = firsts == 1 ? r->query : r->inputs[i].text;
    for (size_t i = 0; i < r->count; i++)
        all[firsts + i].text = firsts == 1 ? r->inputs[i].text : r->inputs[i].pair;
    r->inputs = all;
    r->count += firsts;
    r->what = REQUEST_VECTORS;
    r->normalize = SERVE_YES;
    r->normalize_said = true; /* cosines are of vectors of length one */
    api_priv(r)->cosine = true;
}

static bool settle_score(struct request *r, const struct model *m)
{
    if (m->head == MODEL_HEAD_NONE) {
        split_pairs(r);
        return true;
    }
    return m->labels == 1 || request_fail(r, FAULT_MODEL_KIND, "model",
                                          "the model has %zu labels: no one score", m->labels);
}

static void write_score(const struct request *r, struct buf *out)
{
    const struct api_priv *priv = api_priv_of(r);
    size_t skip = priv->cosine ? priv->firsts : 0;
    struct json_out w;

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "id", r->id);
    json_kv_str(&w, "object", "list");
    json_kv_int(&w, "created", r->response.unix_s);
    json_kv_str(&w, "model", r->response.model);
    api_fingerprint(&w, r);
    json_kv_arr(&w, "data");
    for (size_t i = skip; i < r->count; i++) {
        size_t k = i - skip;
        json_obj(&w);
        json_kv_int(&w, "index", (int64_t)k);
        json_kv_str(&w, "object", "score");
        json_key(&w, "score");
        api_float(&w, priv->cosine ? api_cosine(r, priv->firsts == 1 ? 0 : k, i) : api_score(r, i));
        api_item_extras(&w, &r->texts[i]);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    api_usage(&w, r);
    json_obj_end(&w);
}

#define RERANK                                                                                     \
    .family = API_VLLM, .summary = "documents or texts by their relevance to a query",             \
    .parse = parse_rerank, .write = write_rerank, .fields = api_fields_rerank,                     \
    .example = "{\"query\":\"What is deep learning?\",\"documents\":"                              \
               "[\"A kind of machine learning.\",\"A kind of cheese.\"]}"
#define SCORE                                                                                      \
    .family = API_VLLM, .summary = "the score of pairs of texts", .parse = parse_score,            \
    .write = write_score, .settle = settle_score,                                                  \
    .example = "{\"text_1\":\"What is deep learning?\",\"text_2\":"                                \
               "[\"A kind of machine learning.\",\"A kind of cheese.\"]}"

const struct serve_route api_rank[] = {
    { .path = "/rerank", RERANK },
    { .path = "/v1/rerank", RERANK },
    { .path = "/score", SCORE },
    { .path = "/v1/score", SCORE },
    { .path = NULL },
};
