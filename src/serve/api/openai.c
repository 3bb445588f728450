/* SPDX-License-Identifier: MIT */
/* openai: embeddings in OpenAI's shape, and the members that vLLM, Infinity and Jina add
 * to it; classes in Infinity's.
 *
 * Every one of them gives vectors of length 1, so this is the rule here; "normalize" (Jina's
 * "normalized", vLLM's "use_activation") says otherwise.  Clients ignore members that they do
 * not know: items tell how many tokens they had and where they were cut. */
#include "serve/api/bodies_int.h"

#include <string.h>

static bool read_normalize(struct request *r, const struct json *body)
{
    static const char *const names[] = { "use_activation", "normalized", "normalize" };
    bool unit = true;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (!api_bool(r, body, names[i], unit, &unit))
            return false;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        r->normalize_said |= api_get(body, names[i]) != NULL;
    r->normalize = unit ? SERVE_YES : SERVE_NO;
    return true;
}

/* Jina's tasks: "retrieval.query" is what others call "query". */
static bool read_task(struct request *r, const struct json *body)
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

    if (!api_one_of(r, body, "task", tasks, &task))
        return false;
    dot = task ? strchr(task, '.') : NULL;
    if (task && !r->input_type)
        r->input_type = dot && !strncmp(task, "retrieval.", 10) ? dot + 1 : task;
    return true;
}

/* What would give other vectors than asked for if it were passed over. */
static bool refuse_unsupported(struct request *r, const struct json *body)
{
    static const char *const names[] = { "late_chunking", "return_multivector" };
    bool on;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (!api_bool(r, body, names[i], false, &on))
            return false;
        if (on)
            return request_fail(r, FAULT_INVALID, names[i],
                                "'%s' is not supported: it must be false or absent", names[i]);
    }
    return true;
}

/* Voyage's names: truncation, output_dimension, output_dtype. */
static bool read_voyage(struct request *r, const struct json *body)
{
    static const char *const types[] = { "float", "int8", "uint8", "binary", "ubinary", NULL };
    const struct json *type = api_get(body, "output_dtype");
    const char *name;
    bool cut;

    if (!api_bool(r, body, "truncation", true, &cut))
        return false;
    if (api_get(body, "truncation"))
        r->truncate = cut ? SERVE_YES : SERVE_NO;
    if (api_get(body, "output_dimension") && !api_dimensions(r, body, "output_dimension"))
        return false;
    if (!type || !api_one_of(r, body, "output_dtype", types, &name))
        return !type;
    if (!strcmp(name, "float"))
        return true;
    if (r->encodings != API_FLOAT && r->encodings != API_BASE64)
        return request_fail(r, FAULT_INVALID, "output_dtype",
                            "'output_dtype' %s goes with 'encoding_format' base64 or none", name);
    api_priv(r)->packed = r->encodings == API_BASE64;
    return api_encoding_of(r, type, "output_dtype", &r->encodings);
}

static bool read_modality(struct request *r, const struct json *body)
{
    const char *kind;

    if (!api_name(r, body, "modality", API_NAME_MAX, &kind))
        return false;
    if (kind && strcmp(kind, "text"))
        return request_fail(r, FAULT_INVALID, "modality", "'modality' must be text");
    if (api_get(body, "messages"))
        return request_fail(r, FAULT_INVALID, "messages", "'messages' are not taken: give 'input'");
    return true;
}

static bool parse_embeddings(struct request *r, const struct json *body)
{
    bool specials;

    r->what = REQUEST_VECTORS;
    if (!api_extras(r, body) || !read_modality(r, body) ||
        !api_inputs(r, json_get(body, "input"), "input", false) || !api_none_empty(r, "input") ||
        !api_cuts(r, body, API_CUT_ANY) || !api_encoding(r, body) ||
        /* 0 is all of them: infinity's client sends it where none were asked for */
        !api_count(r, body, "dimensions", API_COUNT_MAX, &r->dimensions) ||
        !api_bool(r, body, "add_special_tokens", true, &specials))
        return false;
    r->no_specials = !specials;
    r->ids_whole = specials;
    return refuse_unsupported(r, body) && read_voyage(r, body) && read_normalize(r, body) &&
           read_task(r, body);
}

/* Without /v1 the path is llama.cpp's too; its own clients say "content". */
static bool parse_bare(struct request *r, const struct json *body)
{
    if (api_get(body, "input") || !api_get(body, "content"))
        return parse_embeddings(r, body);
    api_priv(r)->llama = true;
    return api_llama_embedding(r, body);
}

static void write_item(struct json_out *w, const struct request *r, size_t i)
{
    enum api_encoding e = (enum api_encoding)r->encodings;

    json_obj(w);
    json_kv_str(w, "object", "embedding");
    json_kv_int(w, "index", (int64_t)i);
    json_key(w, "embedding");
    api_item_vectors(w, r, i, e);
    if (e != API_FLOAT)
        json_kv_str(w, "encoding_format", api_encoding_name(e));
    api_item_extras(w, &r->texts[i]);
    json_obj_end(w);
}

static void write_tail(struct json_out *w, const struct request *r)
{
    json_kv_str(w, "model", r->response.model);
    api_fingerprint(w, r);
    api_usage(w, r);
    json_kv_str(w, "id", r->id);
    json_kv_int(w, "created", r->response.unix_s);
    json_obj_end(w);
}

static void write_embeddings(const struct request *r, struct buf *out)
{
    struct json_out w;

    if (api_priv_of(r)->llama) {
        api_llama_write_embedding(r, out);
        return;
    }
    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "object", "list");
    json_kv_arr(&w, "data");
    for (size_t i = 0; i < r->count; i++)
        write_item(&w, r, i);
    json_arr_end(&w);
    write_tail(&w, r);
}

/* ---- Infinity's /classify */

static bool parse_classify(struct request *r, const struct json *body)
{
    r->what = REQUEST_CLASSES;
    return api_extras(r, body) && api_inputs(r, json_get(body, "input"), "input", false) &&
           api_none_empty(r, "input") && api_cuts(r, body, API_CUT_ANY) &&
           api_bool(r, body, "raw_scores", false, &r->raw_scores);
}

static void write_classify(const struct request *r, struct buf *out)
{
    struct json_out w;

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_str(&w, "object", "classify");
    json_kv_arr(&w, "data");
    for (size_t i = 0; i < r->count; i++)
        api_classes(&w, r, i);
    json_arr_end(&w);
    write_tail(&w, r);
}

static const char example[] =
    "{\"model\":\"\",\"input\":[\"What is deep learning?\",\"A kind of machine learning.\"]}";

const struct serve_route api_openai[] = {
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
