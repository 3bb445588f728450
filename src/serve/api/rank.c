/* SPDX-License-Identifier: MIT */
/* api_rank: /rerank and /v1/rerank, which TEI, Jina, Cohere's older client, vLLM, Infinity
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

static const char *const json_type = "application/json";

/* ---- rerank */

/* A list of documents, or one bare text. */
static bool read_documents(const struct json *v, const char *name, struct ask *ask,
                           struct ask_fault *f)
{
    if (!v || v->type != JSON_STR)
        return api_documents(ask, v, name, f);
    ask->inputs = arena_new(&ask->arena, struct ask_input);
    ask->inputs[0].text = (struct tok_text){ v->text, v->len };
    ask->count = 1;
    return true;
}

bool api_rank_body(const struct http_request *req, const struct json *body, struct ask *ask,
                   struct ask_fault *f)
{
    ask->what = ASK_RANK;
    if (!api_extras(req, body, ask, f) || !api_string(body, "query", &ask->query, f))
        return false;
    if (!ask->query.p)
        return ask_fault(f, ASK_E_INVALID, "query", "'query' is missing");
    if (api_get(body, "texts"))
        return ask_fault(f, ASK_E_INVALID, "texts", "give 'documents' or 'texts', not both");
    return read_documents(json_get(body, "documents"), "documents", ask, f) &&
           api_cuts(body, API_CUT_ANY, ask, f) &&
           api_count(body, "top_n", API_COUNT_MAX, &ask->top_n, f) &&
           api_count(body, "max_tokens_per_doc", API_COUNT_MAX, &ask->max_tokens_doc, f) &&
           api_count(body, "max_tokens_per_query", API_COUNT_MAX, &ask->max_tokens_query, f) &&
           api_bool(body, "raw_scores", false, &ask->raw_scores, f);
}

static bool parse_rerank(const struct http_request *req, const struct json *body, struct ask *ask,
                         struct ask_fault *f)
{
    if (api_get(body, "texts") && !api_get(body, "documents")) {
        api_own(ask)->tei = true;
        return api_tei_rerank(req, body, ask, f);
    }
    bool active, cut, infinity = api_get(body, "raw_scores") != NULL;
    api_own(ask)->infinity = infinity;
    api_own(ask)->voyage = api_get(body, "truncation") != NULL;
    ask->sigmoid = infinity; /* its rule, as TEI's */
    if (!api_rank_body(req, body, ask, f) ||
        !api_bool(body, "return_documents", !infinity, &ask->return_texts, f) ||
        !api_bool(body, "truncation", true, &cut, f) ||
        !api_bool(body, "use_activation", true, &active, f))
        return false;
    if (!ask->top_n && !api_count(body, "top_k", API_COUNT_MAX, &ask->top_n, f))
        return false;
    if (!cut)
        ask->truncate = ASK_NO;
    ask->raw_scores = ask->raw_scores || !active;
    return true;
}

static void write_result(struct json_out *w, const struct ask *ask, const struct answer *a,
                         size_t i)
{
    const struct tok_text *t = &ask->inputs[i].text;

    json_obj(w);
    json_kv_int(w, "index", (int64_t)i);
    json_key(w, "relevance_score");
    api_float(w, api_score(ask, a, i));
    if (ask->return_texts) {
        bool plain = api_owned(ask)->infinity;

        json_key(w, "document");
        if (!plain) {
            json_obj(w);
            json_key(w, "text");
        }
        json_add_strn(w, t->p, t->len);
        if (!plain)
            json_obj_end(w);
    }
    api_item_extras(w, &a->items[i]);
    json_obj_end(w);
}

static const char *write_rerank(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct arena arena = { 0 };
    struct json_out w;
    size_t n;

    if (api_owned(ask)->tei)
        return api_tei_write_rerank(ask, a, out);
    const size_t *order = api_ranking(ask, a, &arena, &n);
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "id", ask->id);
    json_kv_str(&w, "object", api_owned(ask)->infinity ? "rerank" : "list");
    json_kv_int(&w, "created", a->unix_s);
    json_kv_str(&w, "model", a->model);
    api_fingerprint(&w, a);
    api_usage(&w, a);
    json_key(&w, api_owned(ask)->voyage ? "data" : "results");
    json_arr(&w);
    for (size_t i = 0; i < n; i++)
        write_result(&w, ask, a, order[i]);
    json_arr_end(&w);
    json_obj_end(&w);
    arena_release(&arena);
    return json_type;
}

void api_fields_rerank(const struct ask *ask, const struct answer *a, struct buf *out)
{
    if (api_owned(ask)->tei)
        api_fields(ask, a, out);
}

/* ---- score */

/* One side of the pairs under any of its three names: a text or a list of them.  *at: which of the
 * names is meant where there is none, then which was there. */
static bool read_side(const struct json *body, const char *const names[3], size_t *at,
                      struct ask *ask, struct ask_fault *f)
{
    const struct json *v = NULL;
    const char *name = names[*at];

    for (size_t i = 0; i < 3; i++) {
        const struct json *here = api_get(body, names[i]);
        if (here && v)
            return ask_fault(f, ASK_E_INVALID, names[i], "give '%s' or '%s', not both", name,
                             names[i]);
        if (here) {
            v = here;
            name = names[i];
            *at = i;
        }
    }
    return read_documents(v, name, ask, f);
}

/* As many on the left as on the right: pair by pair. */
static void make_pairs(struct ask *ask, const struct ask_input *left)
{
    ask->what = ASK_CLASSES;
    for (size_t i = 0; i < ask->count; i++) {
        ask->inputs[i].pair = ask->inputs[i].text;
        ask->inputs[i].text = left[i].text;
    }
}

static bool parse_score(const struct http_request *req, const struct json *body, struct ask *ask,
                        struct ask_fault *f)
{
    static const char *const lefts[] = { "queries", "text_1", "data_1" };
    static const char *const rights[] = { "documents", "text_2", "data_2" };
    size_t at = 0, left_at;
    bool active;

    ask->what = ASK_RANK;
    for (size_t i = 0; i < ARRAY_SIZE(rights); i++)
        at = api_get(body, rights[i]) ? i : at;
    if (!api_extras(req, body, ask, f) || !api_cuts(body, API_CUT_ANY, ask, f) ||
        !api_bool(body, "use_activation", true, &active, f) || !read_side(body, lefts, &at, ask, f))
        return false;
    struct ask_input *left = ask->inputs;
    size_t n = ask->count;
    left_at = at;
    if (!read_side(body, rights, &at, ask, f))
        return false;
    if (n != 1 && n != ask->count)
        return ask_fault(f, ASK_E_INVALID, lefts[left_at],
                         "%zu texts on the left and %zu on the right: give one, or as many", n,
                         ask->count);
    api_own(ask)->firsts = n;
    ask->raw_scores = !active;
    ask->query = left[0].text;
    if (n > 1)
        make_pairs(ask, left);
    return true;
}

/* A model of vectors: both sides are texts of their own. */
static void split_pairs(struct ask *ask)
{
    size_t firsts = api_own(ask)->firsts;
    struct ask_input *all = arena_array(&ask->arena, struct ask_input, firsts + ask->count);

    for (size_t i = 0; i < firsts; i++)
        all[i].text = firsts == 1 ? ask->query : ask->inputs[i].text;
    for (size_t i = 0; i < ask->count; i++)
        all[firsts + i].text = firsts == 1 ? ask->inputs[i].text : ask->inputs[i].pair;
    ask->inputs = all;
    ask->count += firsts;
    ask->what = ASK_VECTORS;
    ask->normalize = ASK_YES;
    ask->normalize_said = true; /* cosines are of vectors of length one */
    api_own(ask)->cosine = true;
}

static bool settle_score(struct ask *ask, const struct model *m, struct ask_fault *f)
{
    if (m->head == MODEL_HEAD_NONE) {
        split_pairs(ask);
        return true;
    }
    return m->labels == 1 || ask_fault(f, ASK_E_MODEL_KIND, "model",
                                       "the model has %zu labels: no one score", m->labels);
}

static const char *write_score(const struct ask *ask, const struct answer *a, struct buf *out)
{
    const struct api_own *own = api_owned(ask);
    size_t skip = own->cosine ? own->firsts : 0;
    struct json_out w;

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "id", ask->id);
    json_kv_str(&w, "object", "list");
    json_kv_int(&w, "created", a->unix_s);
    json_kv_str(&w, "model", a->model);
    api_fingerprint(&w, a);
    json_key(&w, "data");
    json_arr(&w);
    for (size_t i = skip; i < ask->count; i++) {
        size_t k = i - skip;
        json_obj(&w);
        json_kv_int(&w, "index", (int64_t)k);
        json_kv_str(&w, "object", "score");
        json_key(&w, "score");
        api_float(&w,
                  own->cosine ? api_cosine(a, own->firsts == 1 ? 0 : k, i) : api_score(ask, a, i));
        api_item_extras(&w, &a->items[i]);
        json_obj_end(&w);
    }
    json_arr_end(&w);
    api_usage(&w, a);
    json_obj_end(&w);
    return json_type;
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

const struct api api_rank[] = {
    { .path = "/rerank", RERANK },
    { .path = "/v1/rerank", RERANK },
    { .path = "/score", SCORE },
    { .path = "/v1/score", SCORE },
    { .path = NULL },
};
