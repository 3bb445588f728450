/* SPDX-License-Identifier: MIT */
/* api_openai: embeddings in OpenAI's shape, and the members that vLLM, Infinity and Jina add
 * to it; classes in Infinity's.
 *
 * Every one of them gives vectors of length 1, so this is the rule here; "normalize" (Jina's
 * "normalized", vLLM's "use_activation") says otherwise.  Clients ignore members that they do
 * not know: items tell how many tokens they had and where they were cut. */
#include "serve/api/bodies_int.h"

#include <string.h>

static const char *const json_type = "application/json";

static bool read_normalize(const struct json *body, struct ask *ask, struct ask_fault *f)
{
    static const char *const names[] = { "use_activation", "normalized", "normalize" };
    bool unit = true;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (!api_bool(body, names[i], unit, &unit, f))
            return false;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        ask->normalize_said |= api_get(body, names[i]) != NULL;
    ask->normalize = unit ? ASK_YES : ASK_NO;
    return true;
}

/* Jina's tasks: "retrieval.query" is what others call "query". */
static bool read_task(const struct json *body, struct ask *ask, struct ask_fault *f)
{
    static const char *const tasks[] = { "retrieval.query",
                                         "retrieval.passage",
                                         "separation",
                                         "classification",
                                         "text-matching",
                                         "code.query",
                                         "code.passage",
                                         "nl2code.query",
                                         "nl2code.passage",
                                         "none",
                                         NULL };
    const char *task, *dot;

    if (!api_one_of(body, "task", tasks, &task, f))
        return false;
    dot = task ? strchr(task, '.') : NULL;
    if (task && !ask->input_type)
        ask->input_type = dot && !strncmp(task, "retrieval.", 10) ? dot + 1 : task;
    return true;
}

/* What would give other vectors than asked for if it were passed over. */
static bool refuse_unsupported(const struct json *body, struct ask_fault *f)
{
    static const char *const names[] = { "late_chunking", "return_multivector" };
    bool on;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!api_bool(body, names[i], false, &on, f))
            return false;
        if (on)
            return ask_fault(f, ASK_E_INVALID, names[i],
                             "'%s' is not supported: it must be false or absent", names[i]);
    }
    return true;
}

/* Voyage's names: truncation, output_dimension, output_dtype. */
static bool read_voyage(const struct json *body, struct ask *ask, struct ask_fault *f)
{
    static const char *const types[] = { "float", "int8", "uint8", "binary", "ubinary", NULL };
    const struct json *type = api_get(body, "output_dtype");
    const char *name;
    bool cut;

    if (!api_bool(body, "truncation", true, &cut, f))
        return false;
    if (api_get(body, "truncation"))
        ask->truncate = cut ? ASK_YES : ASK_NO;
    if (api_get(body, "output_dimension") && !api_dimensions(body, "output_dimension", ask, f))
        return false;
    if (!type || !api_one_of(body, "output_dtype", types, &name, f))
        return !type;
    if (!strcmp(name, "float"))
        return true;
    if (ask->encodings != ASK_FLOAT && ask->encodings != ASK_BASE64)
        return ask_fault(f, ASK_E_INVALID, "output_dtype",
                         "'output_dtype' %s goes with 'encoding_format' base64 or none", name);
    api_own(ask)->packed = ask->encodings == ASK_BASE64;
    return api_encoding_of(type, "output_dtype", &ask->encodings, f);
}

static bool read_modality(const struct json *body, struct ask_fault *f)
{
    const char *kind;

    if (!api_name(body, "modality", API_NAME_MAX, &kind, f))
        return false;
    if (kind && strcmp(kind, "text"))
        return ask_fault(f, ASK_E_INVALID, "modality", "'modality' must be text");
    if (api_get(body, "messages"))
        return ask_fault(f, ASK_E_INVALID, "messages", "'messages' are not taken: give 'input'");
    return true;
}

static bool parse_embeddings(const struct http_request *req, const struct json *body,
                             struct ask *ask, struct ask_fault *f)
{
    bool specials;

    ask->what = ASK_VECTORS;
    if (!api_extras(req, body, ask, f) || !read_modality(body, f) ||
        !api_inputs(ask, json_get(body, "input"), "input", false, f) ||
        !api_none_empty(ask, "input", f) || !api_cuts(body, API_CUT_ANY, ask, f) ||
        !api_encoding(req, body, ask, f) ||
        /* 0 is all of them: infinity's client sends it where none were asked for */
        !api_count(body, "dimensions", API_COUNT_MAX, &ask->dimensions, f) ||
        !api_bool(body, "add_special_tokens", true, &specials, f))
        return false;
    ask->no_specials = !specials;
    ask->ids_whole = specials;
    return refuse_unsupported(body, f) && read_voyage(body, ask, f) &&
           read_normalize(body, ask, f) && read_task(body, ask, f);
}

/* Without /v1 the path is llama.cpp's too; its own clients say "content". */
static bool parse_bare(const struct http_request *req, const struct json *body, struct ask *ask,
                       struct ask_fault *f)
{
    if (api_get(body, "input") || !api_get(body, "content"))
        return parse_embeddings(req, body, ask, f);
    api_own(ask)->llama = true;
    return api_llama_embedding(req, body, ask, f);
}

static void write_item(struct json_out *w, const struct ask *ask, const struct answer *a, size_t i)
{
    enum ask_encoding e = (enum ask_encoding)ask->encodings;

    json_obj(w);
    json_kv_str(w, "object", "embedding");
    json_kv_int(w, "index", (int64_t)i);
    json_key(w, "embedding");
    api_item_vectors(w, ask, a, i, e);
    if (e != ASK_FLOAT)
        json_kv_str(w, "encoding_format", api_encoding_name(e));
    api_item_extras(w, &a->items[i]);
    json_obj_end(w);
}

static void write_tail(struct json_out *w, const struct ask *ask, const struct answer *a)
{
    json_kv_str(w, "model", a->model);
    api_fingerprint(w, a);
    api_usage(w, a);
    json_kv_str(w, "id", ask->id);
    json_kv_int(w, "created", a->unix_s);
    json_obj_end(w);
}

static const char *write_embeddings(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct json_out w;

    if (api_owned(ask)->llama)
        return api_llama_write_embedding(ask, a, out);
    if (ask->encodings == ASK_OCTETS)
        return api_octets(ask, a, out);
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "object", "list");
    json_key(&w, "data");
    json_arr(&w);
    for (size_t i = 0; i < ask->count; i++)
        write_item(&w, ask, a, i);
    json_arr_end(&w);
    write_tail(&w, ask, a);
    return json_type;
}

/* ---- Infinity's /classify */

static bool parse_classify(const struct http_request *req, const struct json *body, struct ask *ask,
                           struct ask_fault *f)
{
    ask->what = ASK_CLASSES;
    return api_extras(req, body, ask, f) &&
           api_inputs(ask, json_get(body, "input"), "input", false, f) &&
           api_none_empty(ask, "input", f) && api_cuts(body, API_CUT_ANY, ask, f) &&
           api_bool(body, "raw_scores", false, &ask->raw_scores, f);
}

static const char *write_classify(const struct ask *ask, const struct answer *a, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "object", "classify");
    json_key(&w, "data");
    json_arr(&w);
    for (size_t i = 0; i < ask->count; i++)
        api_classes(&w, ask, a, i);
    json_arr_end(&w);
    write_tail(&w, ask, a);
    return json_type;
}

static const char example[] =
    "{\"model\":\"\",\"input\":[\"What is deep learning?\",\"A kind of machine learning.\"]}";

const struct api api_openai[] = {
    { .path = "/v1/embeddings",
      .family = API_OPENAI,
      .summary = "a vector for each text",
      .parse = parse_embeddings,
      .write = write_embeddings,
      .fields = api_fields_octets,
      .example = example },
    { .path = "/embeddings",
      .family = API_OPENAI,
      .summary = "a vector for each text",
      .parse = parse_bare,
      .write = write_embeddings,
      .fields = api_fields_octets,
      .example = example },
    { .path = "/classify",
      .family = API_OPENAI,
      .summary = "every label's score of each text",
      .parse = parse_classify,
      .write = write_classify,
      .fields = api_fields,
      .example = example },
    { .path = NULL },
};
