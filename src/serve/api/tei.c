/* SPDX-License-Identifier: MIT */
/* api_tei: the routes of Text Embeddings Inference.
 *
 * Replies are bare arrays with no place for more, so what we add goes into header lines.
 * "/" (and "/invocations") does what the model can, as TEI's own does: vectors, classes, a
 * ranking or similarities; it is where huggingface_hub's InferenceClient posts when its
 * model is a URL.  That client wants the classes of one text as a list of lists; it always
 * sends "parameters", which TEI's own clients never do. */
#include "serve/api/bodies_int.h"

#include <string.h>

static const char *const json_type = "application/json";

/* ---- vectors */

static bool vector_inputs(const struct json *body, struct ask *ask, struct ask_fault *f)
{
    return api_inputs(ask, json_get(body, "inputs"), "inputs", true, f) &&
           api_none_empty(ask, "inputs", f);
}

static bool vector_options(const struct http_request *req, const struct json *body, struct ask *ask,
                           struct ask_fault *f)
{
    bool unit;

    if (!api_cuts(body, API_CUT_BOOL, ask, f) || !api_encoding(req, body, ask, f) ||
        !api_bool(body, "normalize", true, &unit, f) || !api_dimensions(body, "dimensions", ask, f))
        return false;
    ask->normalize = unit ? ASK_YES : ASK_NO;
    ask->normalize_said = api_get(body, "normalize") != NULL;
    return true;
}

static bool parse_embed(const struct http_request *req, const struct json *body, struct ask *ask,
                        struct ask_fault *f)
{
    ask->what = ASK_VECTORS;
    return api_extras(req, body, ask, f) && vector_inputs(body, ask, f) &&
           vector_options(req, body, ask, f);
}

static bool parse_embed_all(const struct http_request *req, const struct json *body,
                            struct ask *ask, struct ask_fault *f)
{
    ask->what = ASK_TOKENS;
    ask->normalize = ASK_NO;
    return api_extras(req, body, ask, f) && vector_inputs(body, ask, f) &&
           api_cuts(body, API_CUT_BOOL, ask, f) && api_encoding(req, body, ask, f);
}

static const char *write_vectors(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct json_out w;

    if (ask->encodings == ASK_OCTETS)
        return api_octets(ask, a, out);
    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < ask->count; i++)
        api_item_vectors(&w, ask, a, i, (enum ask_encoding)ask->encodings);
    json_arr_end(&w);
    return json_type;
}

/* ---- ranking */

bool api_tei_rerank(const struct http_request *req, const struct json *body, struct ask *ask,
                    struct ask_fault *f)
{
    f->family = 1 + API_TEI;
    ask->what = ASK_RANK;
    ask->sigmoid = true;
    if (!api_extras(req, body, ask, f) || !api_string(body, "query", &ask->query, f) ||
        !api_documents(ask, json_get(body, "texts"), "texts", f) ||
        !api_cuts(body, API_CUT_BOOL, ask, f) ||
        !api_bool(body, "raw_scores", false, &ask->raw_scores, f) ||
        !api_bool(body, "return_text", false, &ask->return_texts, f) ||
        !api_count(body, "top_n", API_COUNT_MAX, &ask->top_n, f))
        return false;
    if (!ask->query.p)
        return ask_fault(f, ASK_E_INVALID, "query", "'query' is missing");
    for (size_t i = 0; !ask->query.len && i < ask->count; i++)
        if (!ask->inputs[i].text.len)
            return ask_fault(f, ASK_E_EMPTY, "query", "'query' and text %zu are both empty", i);
    return true;
}

const char *api_tei_write_rerank(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct arena arena = { 0 };
    struct json_out w;
    size_t n;
    const size_t *order = api_ranking(ask, a, &arena, &n);

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < n; i++) {
        const struct tok_text *t = &ask->inputs[order[i]].text;
        json_obj(&w);
        json_kv_int(&w, "index", (int64_t)order[i]);
        json_key(&w, "score");
        api_float(&w, api_score(ask, a, order[i]));
        if (ask->return_texts) {
            json_key(&w, "text");
            json_add_strn(&w, t->p, t->len);
        }
        json_obj_end(&w);
    }
    json_arr_end(&w);
    arena_release(&arena);
    return json_type;
}

/* ---- classes */

/* One text or a pair of them, as elements of a list. */
static bool read_sequence(const struct json *v, struct ask_input *out, struct ask_fault *f)
{
    const struct json *one = v->first, *two = one ? one->next : NULL;

    if (v->type != JSON_ARR || !one || v->count > 2 || one->type != JSON_STR ||
        (two && two->type != JSON_STR))
        return ask_fault(f, ASK_E_INVALID, "inputs",
                         "'inputs' must be a string, a pair of strings, or a list of lists that "
                         "hold one or two strings each");
    *out = (struct ask_input){ .text = { one->text, one->len } };
    if (two)
        out->pair = (struct tok_text){ two->text, two->len };
    return true;
}

static bool class_inputs(const struct json *body, struct ask *ask, struct ask_fault *f)
{
    const struct json *v = api_get(body, "inputs");
    size_t n = 0;

    if (!v)
        return ask_fault(f, ASK_E_INVALID, "inputs", "'inputs' is missing");
    if (v->type == JSON_ARR && !v->count)
        return ask_fault(f, ASK_E_EMPTY, "inputs", "'inputs' cannot be empty");
    bool batch = v->type == JSON_ARR && v->first->type == JSON_ARR;
    ask->single = !batch;
    ask->inputs = arena_array(&ask->arena, struct ask_input, batch ? v->count : 1);
    ask->count = batch ? v->count : 1;
    if (v->type == JSON_STR)
        ask->inputs[0].text = (struct tok_text){ v->text, v->len };
    else if (!batch && !read_sequence(v, &ask->inputs[0], f))
        return false;
    for (const struct json *e = batch ? v->first : NULL; e; e = e->next)
        if (!read_sequence(e, &ask->inputs[n++], f))
            return false;
    return api_none_empty(ask, "inputs", f);
}

/* huggingface_hub's, which always sends them and then wants a list of lists. */
static bool read_parameters(const struct json *body, struct ask *ask, struct ask_fault *f)
{
    static const char *const names[] = { "none", "sigmoid", "softmax" };
    const struct json *how = api_get(body, "parameters");
    struct api_own *own = api_own(ask);
    const char *apply;

    if (how && how->type != JSON_OBJ)
        return ask_fault(f, ASK_E_INVALID, "parameters", "'parameters' must be an object");
    own->nested = how != NULL;
    if (!api_count(how, "top_k", API_COUNT_MAX, &own->top_k, f) ||
        !api_name(how, "function_to_apply", API_NAME_MAX, &apply, f))
        return false;
    for (size_t i = 0; apply && i < ARRAY_SIZE(names); i++)
        if (!strcmp(apply, names[i]))
            own->apply = (enum api_apply)(API_APPLY_NONE + i);
    if (apply && own->apply == API_APPLY_DEFAULT)
        return ask_fault(f, ASK_E_INVALID, "function_to_apply",
                         "'function_to_apply' must be none, sigmoid or softmax");
    return true;
}

static bool parse_predict(const struct http_request *req, const struct json *body, struct ask *ask,
                          struct ask_fault *f)
{
    ask->what = ASK_CLASSES;
    return api_extras(req, body, ask, f) && class_inputs(body, ask, f) &&
           read_parameters(body, ask, f) && api_cuts(body, API_CUT_BOOL, ask, f) &&
           api_bool(body, "raw_scores", false, &ask->raw_scores, f);
}

static const char *write_predict(const struct ask *ask, const struct answer *a, struct buf *out)
{
    bool flat = ask->single && !api_owned(ask)->nested;
    struct json_out w;

    json_out_init(&w, out, 0);
    if (!flat)
        json_arr(&w);
    for (size_t i = 0; i < ask->count; i++)
        api_classes(&w, ask, a, i);
    if (!flat)
        json_arr_end(&w);
    return json_type;
}

/* ---- similarity */

static bool parse_similarity(const struct http_request *req, const struct json *body,
                             struct ask *ask, struct ask_fault *f)
{
    const struct json *in = api_get(body, "inputs"), *how = api_get(body, "parameters");
    struct tok_text source;

    ask->what = ASK_VECTORS;
    ask->normalize = ASK_YES;
    ask->normalize_said = true; /* cosines are of vectors of length one */
    if (!api_extras(req, body, ask, f))
        return false;
    if (!in || in->type != JSON_OBJ || (how && how->type != JSON_OBJ))
        return ask_fault(f, ASK_E_INVALID, in && in->type == JSON_OBJ ? "parameters" : "inputs",
                         "'inputs' and 'parameters' must be objects");
    if (!api_string(in, "source_sentence", &source, f) ||
        !api_documents(ask, json_get(in, "sentences"), "sentences", f) ||
        !api_cuts(how, API_CUT_BOOL, ask, f) ||
        (api_get(how, "prompt_name") &&
         !api_name(how, "prompt_name", API_NAME_MAX, &ask->prompt_name, f)))
        return false;
    if (!source.p)
        return ask_fault(f, ASK_E_INVALID, "source_sentence", "'source_sentence' is missing");
    struct ask_input *all = arena_array(&ask->arena, struct ask_input, ask->count + 1);
    all[0].text = source;
    memcpy(all + 1, ask->inputs, ask->count * sizeof(*all));
    ask->inputs = all;
    ask->count++;
    return api_none_empty(ask, "inputs", f);
}

static const char *write_similarity(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 1; i < ask->count; i++)
        api_float(&w, api_cosine(a, 0, i));
    json_arr_end(&w);
    return json_type;
}

/* ---- tokens */

static bool parse_tokenize(const struct http_request *req, const struct json *body, struct ask *ask,
                           struct ask_fault *f)
{
    bool specials;

    ask->what = ASK_IDS;
    if (!api_extras(req, body, ask, f) ||
        !api_inputs(ask, json_get(body, "inputs"), "inputs", false, f) ||
        !api_bool(body, "add_special_tokens", true, &specials, f))
        return false;
    for (size_t i = 0; i < ask->count; i++)
        if (!ask->inputs[i].text.p)
            return ask_fault(f, ASK_E_INVALID, "inputs",
                             "'inputs' must be a string or a list of strings");
    ask->no_specials = !specials;
    return api_none_empty(ask, "inputs", f);
}

static void write_token(struct json_out *w, const struct answer_token *t)
{
    json_obj(w);
    json_kv_int(w, "id", t->id);
    json_kv_str(w, "text", t->text ? t->text : "");
    json_kv_bool(w, "special", t->special);
    json_kv_maybe(w, "start", t->special ? maybe_none() : maybe_of(t->begin));
    json_kv_maybe(w, "stop", t->special ? maybe_none() : maybe_of(t->end));
    json_obj_end(w);
}

static const char *write_tokenize(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < ask->count; i++) {
        json_arr(&w);
        for (size_t k = 0; k < a->items[i].tokens; k++)
            write_token(&w, &a->tokens[i][k]);
        json_arr_end(&w);
    }
    json_arr_end(&w);
    return json_type;
}

static bool parse_decode(const struct http_request *req, const struct json *body, struct ask *ask,
                         struct ask_fault *f)
{
    ask->what = ASK_TEXTS;
    if (!api_extras(req, body, ask, f) ||
        !api_inputs(ask, json_get(body, "ids"), "ids", false, f) ||
        !api_bool(body, "skip_special_tokens", true, &ask->skip_specials, f))
        return false;
    for (size_t i = 0; i < ask->count; i++)
        if (ask->inputs[i].text.p)
            return ask_fault(f, ASK_E_INVALID, "ids",
                             "'ids' must be ids or a list of lists of them");
    return api_none_empty(ask, "ids", f);
}

static const char *write_decode(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_arr(&w);
    for (size_t i = 0; i < ask->count; i++)
        json_add_str(&w, a->texts[i] ? a->texts[i] : "");
    json_arr_end(&w);
    return json_type;
}

/* ---- whatever the model does */

static bool parse_root(const struct http_request *req, const struct json *body, struct ask *ask,
                       struct ask_fault *f)
{
    const struct json *in = api_get(body, "inputs");
    struct ask_fault other = { 0 };

    if (api_get(body, "query") || api_get(body, "texts"))
        return api_tei_rerank(req, body, ask, f);
    api_own(ask)->body = body;
    if (in && in->type == JSON_OBJ) {
        api_own(ask)->similar = true;
        return parse_similarity(req, body, ask, f);
    }
    ask->what = ASK_VECTORS;
    if (!api_extras(req, body, ask, f) || !read_parameters(body, ask, f) ||
        !vector_options(req, body, ask, f) ||
        !api_bool(body, "raw_scores", false, &ask->raw_scores, f))
        return false;
    if (vector_inputs(body, ask, f))
        return true;
    ask->what = ASK_CLASSES; /* a list of pairs is no list of texts */
    return class_inputs(body, ask, &other);
}

static bool settle_root(struct ask *ask, const struct model *m, struct ask_fault *f)
{
    const struct api_own *own = api_owned(ask);

    if (ask->what != ASK_VECTORS || own->similar || m->head == MODEL_HEAD_NONE)
        return true;
    ask->what = ASK_CLASSES;
    ask->encodings = ASK_FLOAT;
    return class_inputs(own->body, ask, f);
}

static const char *write_root(const struct ask *ask, const struct answer *a, struct buf *out)
{
    if (ask->what == ASK_RANK)
        return api_tei_write_rerank(ask, a, out);
    if (ask->what == ASK_CLASSES)
        return write_predict(ask, a, out);
    return api_owned(ask)->similar ? write_similarity(ask, a, out) : write_vectors(ask, a, out);
}

#define ROOT                                                                                       \
    .family = API_TEI, .summary = "what the model does: vectors, classes, ranks or similarities",  \
    .parse = parse_root, .write = write_root, .settle = settle_root, .fields = api_fields,         \
    .example = "{\"inputs\":\"What is deep learning?\"}"

const struct api api_tei[] = {
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
