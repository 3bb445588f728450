/* SPDX-License-Identifier: MIT */
/* tei: the routes of Text Embeddings Inference.
 *
 * Replies are bare arrays with no place for more, so what we add goes into header lines.
 * "/" (and "/invocations") does what the model can, as TEI's own does: vectors, classes, a
 * ranking or similarities; it is where huggingface_hub's InferenceClient posts when its
 * model is a URL.  That client wants the classes of one text as a list of lists; it always
 * sends "parameters", which TEI's own clients never do. */
#include "serve/api/bodies_int.h"

#include <string.h>

/* ---- vectors */

static bool vector_inputs(struct request *r, const struct json *body)
{
    return api_inputs(r, json_get(body, "inputs"), "inputs", true) && api_none_empty(r, "inputs");
}

static bool vector_options(struct request *r, const struct json *body)
{
    bool unit;

    if (!api_cuts(r, body, API_CUT_BOOL) || !api_encoding(r, body) ||
        !api_bool(r, body, "normalize", true, &unit) || !api_dimensions(r, body, "dimensions"))
        return false;
    r->normalize = unit ? SERVE_YES : SERVE_NO;
    r->normalize_said = api_get(body, "normalize") != NULL;
    return true;
}

static bool parse_embed(struct request *r, const struct json *body)
{
    r->what = REQUEST_VECTORS;
    return api_extras(r, body) && vector_inputs(r, body) && vector_options(r, body);
}

static bool parse_embed_all(struct request *r, const struct json *body)
{
    r->what = REQUEST_TOKENS;
    r->normalize = SERVE_NO;
    return api_extras(r, body) && vector_inputs(r, body) && api_cuts(r, body, API_CUT_BOOL) &&
           api_encoding(r, body);
}

static void write_vectors(const struct request *r, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < r->count; i++)
        api_item_vectors(&w, r, i, (enum api_encoding)r->encodings);
    json_arr_end(&w);
}

/* ---- ranking */

bool api_tei_rerank(struct request *r, const struct json *body)
{
    r->fault.family = 1 + API_TEI;
    r->what = REQUEST_RANK;
    r->sigmoid = true;
    if (!api_extras(r, body) || !api_string(r, body, "query", &r->query) ||
        !api_documents(r, json_get(body, "texts"), "texts") || !api_cuts(r, body, API_CUT_BOOL) ||
        !api_bool(r, body, "raw_scores", false, &r->raw_scores) ||
        !api_bool(r, body, "return_text", false, &r->return_texts) ||
        !api_count(r, body, "top_n", API_COUNT_MAX, &r->top_n))
        return false;
    if (!r->query.p)
        return request_fail(r, FAULT_INVALID, "query", "'query' is missing");
    for (size_t i = 0; !r->query.len && i < r->count; i++)
        if (!r->inputs[i].text.len)
            return request_fail(r, FAULT_EMPTY, "query", "'query' and text %zu are both empty", i);
    return true;
}

void api_tei_write_rerank(const struct request *r, struct buf *out)
{
    struct arena arena = { 0 };
    struct json_out w;
    size_t n;
    const size_t *order = api_ranking(r, &arena, &n);

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < n; i++) {
        const struct tok_text *t = &r->inputs[order[i]].text;
        json_obj(&w);
        json_kv_int(&w, "index", (int64_t)order[i]);
        json_key(&w, "score");
        api_float(&w, api_score(r, order[i]));
        if (r->return_texts) {
            json_key(&w, "text");
            json_add_strn(&w, t->p, t->len);
        }
        json_obj_end(&w);
    }
    json_arr_end(&w);
    arena_release(&arena);
}

/* ---- classes */

/* One text or a pair of them, as elements of a list. */
static bool read_sequence(struct request *r, const struct json *v, struct request_input *out)
{
    const struct json *one = v->first, *two = one ? one->next : NULL;

    if (v->type != JSON_ARR || !one || v->count > 2 || one->type != JSON_STR ||
        (two && two->type != JSON_STR))
        return request_fail(r, FAULT_INVALID, "inputs",
                            "'inputs' must be a string, a pair of strings, or a list of lists that "
                            "hold one or two strings each");
    *out = (struct request_input){ .text = { one->text, one->len } };
    if (two)
        out->pair = (struct tok_text){ two->text, two->len };
    return true;
}

static bool class_inputs(struct request *r, const struct json *body)
{
    const struct json *v = api_get(body, "inputs");
    size_t n = 0;

    if (!v)
        return request_fail(r, FAULT_INVALID, "inputs", "'inputs' is missing");
    if (v->type == JSON_ARR && !v->count)
        return request_fail(r, FAULT_EMPTY, "inputs", "'inputs' cannot be empty");
    bool batch = v->type == JSON_ARR && v->first->type == JSON_ARR;
    r->single = !batch;
    r->inputs = arena_array(&r->arena, struct request_input, batch ? v->count : 1);
    r->count = batch ? v->count : 1;
    if (v->type == JSON_STR)
        r->inputs[0].text = (struct tok_text){ v->text, v->len };
    else if (!batch && !read_sequence(r, v, &r->inputs[0]))
        return false;
    for (const struct json *e = batch ? v->first : NULL; e; e = e->next)
        if (!read_sequence(r, e, &r->inputs[n++]))
            return false;
    return api_none_empty(r, "inputs");
}

/* huggingface_hub's, which always sends them and then wants a list of lists. */
static bool read_parameters(struct request *r, const struct json *body)
{
    static const char *const names[] = { "none", "sigmoid", "softmax" };
    const struct json *how = api_get(body, "parameters");
    struct api_priv *priv = api_priv(r);
    const char *apply;

    if (how && how->type != JSON_OBJ)
        return request_fail(r, FAULT_INVALID, "parameters", "'parameters' must be an object");
    priv->nested = how != NULL;
    if (!api_count(r, how, "top_k", API_COUNT_MAX, &priv->top_k) ||
        !api_name(r, how, "function_to_apply", API_NAME_MAX, &apply))
        return false;
    for (size_t i = 0; apply && i < ARRAY_SIZE(names); i++)
        if (!strcmp(apply, names[i]))
            priv->apply = (enum api_apply)(API_APPLY_NONE + i);
    if (apply && priv->apply == API_APPLY_DEFAULT)
        return request_fail(r, FAULT_INVALID, "function_to_apply",
                            "'function_to_apply' must be none, sigmoid or softmax");
    return true;
}

static bool parse_predict(struct request *r, const struct json *body)
{
    r->what = REQUEST_CLASSES;
    return api_extras(r, body) && class_inputs(r, body) && read_parameters(r, body) &&
           api_cuts(r, body, API_CUT_BOOL) &&
           api_bool(r, body, "raw_scores", false, &r->raw_scores);
}

static void write_predict(const struct request *r, struct buf *out)
{
    bool flat = r->single && !api_priv_of(r)->nested;
    struct json_out w;

    json_out_init(&w, out, 0);
    if (!flat)
        json_arr(&w);
    for (size_t i = 0; i < r->count; i++)
        api_classes(&w, r, i);
    if (!flat)
        json_arr_end(&w);
}

/* ---- similarity */

static bool parse_similarity(struct request *r, const struct json *body)
{
    const struct json *in = api_get(body, "inputs"), *how = api_get(body, "parameters");
    struct tok_text source;

    r->what = REQUEST_VECTORS;
    r->normalize = SERVE_YES;
    r->normalize_said = true; /* cosines are of vectors of length one */
    if (!api_extras(r, body))
        return false;
    if (!in || in->type != JSON_OBJ || (how && how->type != JSON_OBJ))
        return request_fail(r, FAULT_INVALID, in && in->type == JSON_OBJ ? "parameters" : "inputs",
                            "'inputs' and 'parameters' must be objects");
    if (!api_string(r, in, "source_sentence", &source) ||
        !api_documents(r, json_get(in, "sentences"), "sentences") ||
        !api_cuts(r, how, API_CUT_BOOL) ||
        (api_get(how, "prompt_name") &&
         !api_name(r, how, "prompt_name", API_NAME_MAX, &r->prompt_name)))
        return false;
    if (!source.p)
        return request_fail(r, FAULT_INVALID, "source_sentence", "'source_sentence' is missing");
    struct request_input *all = arena_array(&r->arena, struct request_input, r->count + 1);
    all[0].text = source;
    memcpy(all + 1, r->inputs, r->count * sizeof(*all));
    r->inputs = all;
    r->count++;
    return api_none_empty(r, "inputs");
}

static void write_similarity(const struct request *r, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 1; i < r->count; i++)
        api_float(&w, api_cosine(r, 0, i));
    json_arr_end(&w);
}

/* ---- tokens */

static bool parse_tokenize(struct request *r, const struct json *body)
{
    bool specials;

    r->what = REQUEST_IDS;
    if (!api_extras(r, body) || !api_inputs(r, json_get(body, "inputs"), "inputs", false) ||
        !api_bool(r, body, "add_special_tokens", true, &specials))
        return false;
    for (size_t i = 0; i < r->count; i++)
        if (!r->inputs[i].text.p)
            return request_fail(r, FAULT_INVALID, "inputs",
                                "'inputs' must be a string or a list of strings");
    r->no_specials = !specials;
    return api_none_empty(r, "inputs");
}

static void write_token(struct json_out *w, const struct response_token *t)
{
    json_obj(w);
    json_kv_int(w, "id", t->id);
    json_kv_str(w, "text", t->text ? t->text : "");
    json_kv_bool(w, "special", t->special);
    json_kv_maybe(w, "start", t->special ? maybe_none() : maybe_of(t->begin));
    json_kv_maybe(w, "stop", t->special ? maybe_none() : maybe_of(t->end));
    json_obj_end(w);
}

static void write_tokenize(const struct request *r, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < r->count; i++) {
        json_arr(&w);
        for (size_t k = 0; k < r->texts[i].tokens; k++)
            write_token(&w, &r->response.tokens[i][k]);
        json_arr_end(&w);
    }
    json_arr_end(&w);
}

static bool parse_decode(struct request *r, const struct json *body)
{
    r->what = REQUEST_TEXTS;
    if (!api_extras(r, body) || !api_inputs(r, json_get(body, "ids"), "ids", false) ||
        !api_bool(r, body, "skip_special_tokens", true, &r->skip_specials))
        return false;
    for (size_t i = 0; i < r->count; i++)
        if (r->inputs[i].text.p)
            return request_fail(r, FAULT_INVALID, "ids",
                                "'ids' must be ids or a list of lists of them");
    return api_none_empty(r, "ids");
}

static void write_decode(const struct request *r, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < r->count; i++)
        json_add_str(&w, r->response.decoded[i] ? r->response.decoded[i] : "");
    json_arr_end(&w);
}

/* ---- whatever the model does */

static bool parse_root(struct request *r, const struct json *body)
{
    const struct json *in = api_get(body, "inputs");

    if (api_get(body, "query") || api_get(body, "texts"))
        return api_tei_rerank(r, body);
    api_priv(r)->body = body;
    if (in && in->type == JSON_OBJ) {
        api_priv(r)->similar = true;
        return parse_similarity(r, body);
    }
    r->what = REQUEST_VECTORS;
    if (!api_extras(r, body) || !read_parameters(r, body) || !vector_options(r, body) ||
        !api_bool(r, body, "raw_scores", false, &r->raw_scores))
        return false;
    if (vector_inputs(r, body))
        return true;
    struct request_fault first = r->fault;
    r->what = REQUEST_CLASSES; /* a list of pairs is no list of texts */
    bool ok = class_inputs(r, body);
    r->fault = first;
    return ok;
}

static bool settle_root(struct request *r, const struct model *m)
{
    const struct api_priv *priv = api_priv_of(r);

    if (r->what != REQUEST_VECTORS || priv->similar || m->head == MODEL_HEAD_NONE)
        return true;
    r->what = REQUEST_CLASSES;
    r->encodings = API_FLOAT;
    return class_inputs(r, priv->body);
}

static void write_root(const struct request *r, struct buf *out)
{
    if (r->what == REQUEST_RANK)
        api_tei_write_rerank(r, out);
    else if (r->what == REQUEST_CLASSES)
        write_predict(r, out);
    else if (api_priv_of(r)->similar)
        write_similarity(r, out);
    else
        write_vectors(r, out);
}

#define ROOT                                                                                       \
    .family = API_TEI, .summary = "what the model does: vectors, classes, ranks or similarities",  \
    .parse = parse_root, .write = write_root, .settle = settle_root, .fields = api_fields,         \
    .example = "{\"inputs\":\"What is deep learning?\"}"

const struct serve_route api_tei[] = {
    { .path = "/embed",
      .family = API_TEI,
      .summary = "a vector for each text",
      .parse = parse_embed,
      .write = write_vectors,
      .fields = api_fields,
      .example = "{\"inputs\":[\"What is deep learning?\",\"A kind of machine learning.\"]}" },
    { .path = "/embed_all",
      .family = API_TEI,
      .summary = "a vector for each token of each text",
      .parse = parse_embed_all,
      .write = write_vectors,
      .fields = api_fields,
      .example = "{\"inputs\":\"What is deep learning?\"}" },
    { .path = "/predict",
      .family = API_TEI,
      .summary = "every label's score of a text or a pair of texts",
      .parse = parse_predict,
      .write = write_predict,
      .fields = api_fields,
      .example = "{\"inputs\":[[\"What is deep learning?\",\"A kind of machine learning.\"]]}" },
    { .path = "/similarity",
      .family = API_TEI,
      .summary = "how near sentences are to one",
      .parse = parse_similarity,
      .write = write_similarity,
      .fields = api_fields,
      .example = "{\"inputs\":{\"source_sentence\":\"What is deep learning?\",\"sentences\":"
                 "[\"What is machine learning?\",\"What is cheese?\"]}}" },
    { .path = "/tokenize",
      .family = API_TEI,
      .summary = "the tokens of each text",
      .parse = parse_tokenize,
      .write = write_tokenize,
      .example = "{\"inputs\":\"What is deep learning?\"}" },
    { .path = "/decode",
      .family = API_TEI,
      .summary = "ids back to text",
      .parse = parse_decode,
      .write = write_decode,
      .example = "{\"ids\":[101,2784,4083,102]}" },
    { .path = "/", ROOT },
    { .path = "/invocations", ROOT },
    { .path = NULL },
};
