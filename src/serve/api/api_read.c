/* SPDX-License-Identifier: MIT */
/* api_read: what parsers of request bodies share.
 *
 * A member that is null counts as absent, one that nobody knows is ignored, and one of the
 * wrong kind is a fault that names it.  Texts are borrowed from the tree, which lies in the
 * request's arena. */
#include "base/str.h"
#include "serve/api/bodies_int.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct api_priv *api_priv(struct request *r)
{
    if (!r->priv)
        r->priv = arena_new(&r->arena, struct api_priv);
    return r->priv;
}

const struct api_priv *api_priv_of(const struct request *r)
{
    static const struct api_priv none;

    return r->priv ? r->priv : &none;
}

/* ---- members */

const struct json *api_get(const struct json *obj, const char *name)
{
    const struct json *v = json_get(obj, name);

    return v && v->type != JSON_NULL ? v : NULL;
}

bool api_is(struct request *r, const struct json *body)
{
    return (body && body->type == JSON_OBJ) ||
           request_fail(r, FAULT_JSON, NULL, "the body must be a JSON object");
}

bool api_string(struct request *r, const struct json *obj, const char *name, struct tok_text *out)
{
    const struct json *v = api_get(obj, name);

    if (v && v->type != JSON_STR)
        return request_fail(r, FAULT_INVALID, name, "'%s' must be a string", name);
    *out = v ? (struct tok_text){ v->text, v->len } : (struct tok_text){ 0 };
    return true;
}

bool api_name(struct request *r, const struct json *obj, const char *name, size_t max,
              const char **out)
{
    struct tok_text t = { 0 };

    if (!api_string(r, obj, name, &t))
        return false;
    if (t.p && (t.len > max || memchr(t.p, '\0', t.len)))
        return request_fail(r, FAULT_INVALID, name, "'%s' is longer than %zu bytes or holds a NUL",
                            name, max);
    *out = t.p;
    return true;
}

bool api_bool(struct request *r, const struct json *obj, const char *name, bool dflt, bool *out)
{
    const struct json *v = api_get(obj, name);

    if (v && v->type != JSON_BOOL)
        return request_fail(r, FAULT_INVALID, name, "'%s' must be true or false", name);
    *out = v ? v->boolean : dflt;
    return true;
}

bool api_count(struct request *r, const struct json *obj, const char *name, size_t max, size_t *out)
{
    const struct json *v = api_get(obj, name);
    struct maybe n = json_int(v);

    if (v && (!n.known || n.v < 0 || (uint64_t)n.v > max))
        return request_fail(r, FAULT_INVALID, name, "'%s' must be a whole number from 0 to %zu",
                            name, max);
    *out = v ? (size_t)n.v : 0;
    return true;
}

bool api_dimensions(struct request *r, const struct json *obj, const char *name)
{
    return (api_count(r, obj, name, API_COUNT_MAX, &r->dimensions) &&
            (!api_get(obj, name) || r->dimensions)) ||
           request_fail(r, FAULT_INVALID, name, "'%s' must be a whole number from 1 to %d", name,
                        API_COUNT_MAX);
}

/* ---- inputs */

static bool read_ids(struct request *r, const struct json *v, const char *name,
                     struct request_input *out)
{
    uint32_t *ids = arena_array(&r->arena, uint32_t, v->count ? v->count : 1);
    size_t n = 0;

    for (const struct json *e = v->first; e; e = e->next) {
        struct maybe id = json_int(e);
        if (e->type != JSON_NUM)
            return request_fail(r, FAULT_INVALID, name,
                                "'%s' mixes ids with something else at element %zu", name, n);
        if (!id.known || id.v < 0 || id.v > UINT32_MAX)
            return request_fail(
                r, FAULT_INVALID, name,
                "'%s' holds %.40s, which is not an id: whole numbers from 0 to %u are", name,
                e->text, UINT32_MAX);
        ids[n++] = (uint32_t)id.v;
    }
    *out = (struct request_input){ .ids = ids, .id_count = n };
    return true;
}

static bool read_input(struct request *r, const struct json *v, const char *name, size_t i,
                       struct request_input *out)
{
    if (v->type == JSON_STR) {
        *out = (struct request_input){ .text = { v->text, v->len } };
        return true;
    }
    if (v->type == JSON_ARR)
        return read_ids(r, v, name, out);
    return request_fail(r, FAULT_INVALID, name,
                        "element %zu of '%s' is neither a string nor a list of ids", i, name);
}

static bool read_list(struct request *r, const struct json *v, const char *name, bool mixed)
{
    size_t n = 0;

    r->inputs = arena_array(&r->arena, struct request_input, v->count);
    for (const struct json *e = v->first; e; e = e->next, n++) {
        if (!mixed && (e->type == JSON_STR || e->type == JSON_ARR) && e->type != v->first->type)
            return request_fail(r, FAULT_INVALID, name, "'%s' mixes strings with lists of ids",
                                name);
        if (!read_input(r, e, name, n, &r->inputs[n]))
            return false;
    }
    r->count = n;
    return true;
}

bool api_inputs(struct request *r, const struct json *v, const char *name, bool mixed)
{
    if (!v || v->type == JSON_NULL)
        return request_fail(r, FAULT_INVALID, name, "'%s' is missing", name);
    r->single = v->type == JSON_STR || (v->first && v->first->type == JSON_NUM);
    if (v->type == JSON_ARR && !v->count)
        return request_fail(r, FAULT_EMPTY, name, "'%s' cannot be empty", name);
    if (v->type == JSON_ARR && !r->single)
        return read_list(r, v, name, mixed);
    if (v->type != JSON_STR && v->type != JSON_ARR)
        return request_fail(r, FAULT_INVALID, name,
                            "'%s' must be a string, a list of strings, or ids", name);
    r->inputs = arena_new(&r->arena, struct request_input);
    r->count = 1;
    return read_input(r, v, name, 0, r->inputs);
}

bool api_none_empty(struct request *r, const char *name)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct request_input *in = &r->inputs[i];
        if (in->text.p ? !in->text.len && !in->pair.len : !in->id_count)
            return r->single ? request_fail(r, FAULT_EMPTY, name, "'%s' cannot be empty", name)
                             : request_fail(r, FAULT_EMPTY, name,
                                            "'%s' cannot be empty: element %zu is", name, i);
    }
    return true;
}

/* A string, or an object that holds one. */
static const struct json *document_text(const struct json *v)
{
    const struct json *t;

    if (v->type != JSON_OBJ)
        return v;
    t = api_get(v, "text");
    return t ? t : api_get(v, "content");
}

bool api_documents(struct request *r, const struct json *v, const char *name)
{
    size_t n = 0;

    if (!v || v->type == JSON_NULL)
        return request_fail(r, FAULT_INVALID, name, "'%s' is missing", name);
    if (v->type != JSON_ARR)
        return request_fail(r, FAULT_INVALID, name, "'%s' must be a list of strings", name);
    if (!v->count)
        return request_fail(r, FAULT_EMPTY, name, "'%s' cannot be empty", name);
    r->inputs = arena_array(&r->arena, struct request_input, v->count);
    for (const struct json *e = v->first; e; e = e->next, n++) {
        const struct json *t = document_text(e);
        if (!t || t->type != JSON_STR)
            return request_fail(
                r, FAULT_INVALID, name,
                "element %zu of '%s' is neither a string nor an object with \"text\"", n, name);
        r->inputs[n].text = (struct tok_text){ t->text, t->len };
    }
    r->count = n;
    return true;
}

/* ---- truncation */

static bool read_truncate(struct request *r, const struct json *v, unsigned forms)
{
    const char *s = forms & API_CUT_WORD ? json_str(v) : NULL;

    if (!v)
        return true;
    if (forms & API_CUT_BOOL && v->type == JSON_BOOL) {
        r->truncate = v->boolean ? SERVE_YES : SERVE_NO;
        return true;
    }
    if (s && !strcasecmp(s, "NONE"))
        r->truncate = SERVE_NO;
    else if (s && (!strcasecmp(s, "START") || !strcasecmp(s, "END")))
        r->truncate = SERVE_YES;
    else
        return request_fail(r, FAULT_INVALID, "truncate", "'truncate' must be %s",
                            forms == API_CUT_BOOL ? "true or false"
                            : forms == API_CUT_WORD
                                ? "\"NONE\", \"START\" or \"END\""
                                : "true, false, \"NONE\", \"START\" or \"END\"");
    if (r->truncate == SERVE_YES)
        r->cut_left = !strcasecmp(s, "START") ? SERVE_YES : SERVE_NO;
    return true;
}

static bool read_side(struct request *r, const struct json *body, const char *name)
{
    const char *s = NULL;

    if (!api_name(r, body, name, API_NAME_MAX, &s))
        return false;
    if (s && strcasecmp(s, "left") && strcasecmp(s, "right"))
        return request_fail(r, FAULT_INVALID, name, "'%s' must be \"left\" or \"right\"", name);
    if (s)
        r->cut_left = !strcasecmp(s, "left") ? SERVE_YES : SERVE_NO;
    return true;
}

bool api_cuts(struct request *r, const struct json *body, unsigned forms)
{
    const struct json *most = api_get(body, "truncate_prompt_tokens");
    struct maybe n = json_int(most);

    if (!read_truncate(r, api_get(body, "truncate"), forms) ||
        !read_side(r, body, "truncation_direction") || !read_side(r, body, "truncation_side"))
        return false;
    if (!most)
        return true;
    if (!n.known || n.v < -1 || !n.v || n.v > API_COUNT_MAX)
        return request_fail(r, FAULT_INVALID, "truncate_prompt_tokens",
                            "'truncate_prompt_tokens' must be -1 or a whole number from 1 to %d",
                            API_COUNT_MAX);
    r->truncate = SERVE_YES;
    r->max_tokens = n.v > 0 ? (size_t)n.v : 0;
    return true;
}

/* ---- encodings */

static const struct {
    const char *name;
    enum api_encoding e;
} encodings[] = {
    /* the first name of each is the one that replies say */
    { "float", API_FLOAT },       { "base64", API_BASE64 }, { "float16", API_F16 },
    { "int8", API_INT8 },         { "uint8", API_UINT8 },   { "binary", API_BINARY },
    { "ubinary", API_UBINARY },   { "octets", API_OCTETS }, { "float32", API_FLOAT },
    { "f32", API_FLOAT },         { "f16", API_F16 },       { "bytes", API_OCTETS },
    { "bytes_only", API_OCTETS },
};

const char *api_encoding_name(enum api_encoding e)
{
    for (size_t i = 0; i < ARRAY_SIZE(encodings); i++)
        if (encodings[i].e == e)
            return encodings[i].name;
    return "float";
}

bool api_one_of(struct request *r, const struct json *body, const char *name,
                const char *const *words, const char **out)
{
    struct buf list = { 0 };

    if (!api_name(r, body, name, API_NAME_MAX, out))
        return false;
    for (size_t i = 0; *out && words[i]; i++)
        if (!strcmp(*out, words[i]))
            return true;
    if (!*out)
        return true;
    for (size_t i = 0; words[i]; i++)
        buf_addf(&list, "%s%s", !i ? "" : words[i + 1] ? ", " : " or ", words[i]);
    (void)request_fail(r, FAULT_INVALID, name, "'%s' must be %.300s, not '%.64s'", name,
                       buf_str(&list), *out);
    buf_release(&list);
    return false;
}

bool api_encoding_of(struct request *r, const struct json *v, const char *name, unsigned *out)
{
    const char *s = json_str(v);

    for (size_t i = 0; s && i < ARRAY_SIZE(encodings); i++)
        if (!strcmp(s, encodings[i].name)) {
            *out = encodings[i].e;
            return true;
        }
    return request_fail(
        r, FAULT_INVALID, name,
        "'%s' must be float, base64, float16, int8, uint8, binary, ubinary or octets", name);
}

/* vLLM's: the type of the numbers inside base64, and their order. */
static bool read_dtype(struct request *r, const struct json *body)
{
    const char *type = NULL, *order = NULL;

    if (!api_name(r, body, "embed_dtype", API_NAME_MAX, &type) ||
        !api_name(r, body, "endianness", API_NAME_MAX, &order))
        return false;
    if (order && strcmp(order, "native") && strcmp(order, "little"))
        return request_fail(r, FAULT_INVALID, "endianness",
                            "'endianness' must be native or little");
    if (!type || !strcmp(type, "float32") || r->encodings == API_FLOAT)
        return true;
    if (strcmp(type, "float16") || r->encodings != API_BASE64)
        return request_fail(
            r, FAULT_INVALID, "embed_dtype",
            "'embed_dtype' must be float32, or float16 with encoding_format base64");
    r->encodings = API_F16;
    return true;
}

bool api_accepts_octets(const struct request *r)
{
    const char *accept = http_field(r->http, "accept");

    return accept && strcasestr(accept, "application/octet-stream");
}

bool api_encoding(struct request *r, const struct json *body)
{
    static const char *const names[] = { "encoding_format", "embedding_type" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct json *v = api_get(body, names[i]);
        if (v && !api_encoding_of(r, v, names[i], &r->encodings))
            return false;
    }
    if (!read_dtype(r, body))
        return false;
    if (api_accepts_octets(r))
        r->encodings = API_OCTETS;
    return true;
}

/* ---- what every route takes */

static bool priority_word(struct request *r, const char *s)
{
    if (strcasecmp(s, "bulk") && strcasecmp(s, "interactive"))
        return request_fail(r, FAULT_INVALID, "priority",
                            "'priority' must be \"interactive\", \"bulk\" or a whole number");
    r->class = strcasecmp(s, "bulk") ? REQUEST_INTERACTIVE : REQUEST_BULK;
    return true;
}

/* Cohere's and vLLM's priority is a number: 0 is the usual, a greater one may wait. */
static bool read_priority(struct request *r, const struct json *body)
{
    const struct json *v = api_get(body, "priority");
    const char *field = http_field(r->http, "x-priority");
    struct maybe n = json_int(v);

    if (v && v->type == JSON_NUM && n.known)
        r->class = n.v > 0 ? REQUEST_BULK : REQUEST_INTERACTIVE;
    else if (v)
        return priority_word(r, v->type == JSON_STR ? v->text : "");
    else if (field)
        return priority_word(r, field);
    return true;
}

/* "500ms", "2s", "1.5": shorter than the server's default, or longer up to its limit. */
bool api_timeout(struct request *r)
{
    const char *s = http_field(r->http, "x-request-timeout");
    char digits[32];
    double v;

    if (!s)
        return true;
    size_t n = strspn(s, "0123456789.");
    const char *unit = s + n;
    double scale = !strcmp(unit, "ms")            ? 1e-3
                   : !*unit || !strcmp(unit, "s") ? 1
                   : !strcmp(unit, "m")           ? 60
                   : !strcmp(unit, "h")           ? 3600
                                                  : 0;
    if (!n || n >= sizeof(digits) || scale == 0)
        return request_fail(
            r, FAULT_INVALID, "x-request-timeout",
            "x-request-timeout must be a time such as \"500ms\", \"2s\", \"5m\" or \"2\"");
    memcpy(digits, s, n);
    digits[n] = '\0';
    double most = r->timeout_max_ns ? (double)r->timeout_max_ns * 1e-9 : API_TIMEOUT_S_MAX;
    if (!str_to_f64(digits, &v) || v * scale <= 0 || v * scale > most)
        return request_fail(r, FAULT_INVALID, "x-request-timeout",
                            "x-request-timeout must be above 0 and at most %g s (--timeout-max)",
                            most);
    r->deadline_ns = r->http->begun_ns + (int64_t)(v * scale * 1e9);
    return true;
}

/* The body's, else the query's: a client that has nothing but a URL can choose too.  Infinity's
 * client sends a name of its own where its caller gave none. */
static bool read_model(struct request *r, const struct json *body)
{
    char name[API_NAME_MAX + 1];

    if (!api_name(r, body, "model", API_NAME_MAX, &r->model_name))
        return false;
    if (r->model_name && !strcmp(r->model_name, "default/not-specified"))
        r->model_name = NULL;
    if ((!r->model_name || !r->model_name[0]) && http_query(r->http, "model", name, sizeof(name)))
        r->model_name = arena_strdup(&r->arena, name);
    return true;
}

bool api_extras(struct request *r, const struct json *body)
{
    r->id = arena_printf(&r->arena, "stoker-%" PRIx64 "-%" PRIx64, (uint64_t)r->http->begun_ns,
                         r->http->id);
    return api_is(r, body) && read_model(r, body) &&
           api_name(r, body, "prompt_name", API_NAME_MAX, &r->prompt_name) &&
           api_name(r, body, "input_type", API_NAME_MAX, &r->input_type) &&
           api_name(r, body, "instruction", API_INSTRUCTION_MAX, &r->instruction) &&
           read_priority(r, body) && api_timeout(r);
}
