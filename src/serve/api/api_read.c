/* SPDX-License-Identifier: MIT */
/* api_common: what parsers of request bodies share.
 *
 * A member that is null counts as absent, one that nobody knows is ignored, and one of the
 * wrong kind is a fault that names it.  Texts are borrowed from the tree, which lies in the
 * ask's arena. */
#include "base/str.h"
#include "serve/api/bodies_int.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct api_own *api_own(struct ask *ask)
{
    if (!ask->own)
        ask->own = arena_new(&ask->arena, struct api_own);
    return ask->own;
}

const struct api_own *api_owned(const struct ask *ask)
{
    static const struct api_own none;

    return ask->own ? ask->own : &none;
}

/* ---- members */

const struct json *api_get(const struct json *obj, const char *name)
{
    const struct json *v = json_get(obj, name);

    return v && v->type != JSON_NULL ? v : NULL;
}

bool api_is(const struct json *body, struct ask_fault *f)
{
    return (body && body->type == JSON_OBJ) ||
           ask_fault(f, ASK_E_JSON, NULL, "the body must be a JSON object");
}

bool api_string(const struct json *obj, const char *name, struct tok_text *out, struct ask_fault *f)
{
    const struct json *v = api_get(obj, name);

    if (v && v->type != JSON_STR)
        return ask_fault(f, ASK_E_INVALID, name, "'%s' must be a string", name);
    *out = v ? (struct tok_text){ v->text, v->len } : (struct tok_text){ 0 };
    return true;
}

bool api_name(const struct json *obj, const char *name, size_t max, const char **out,
              struct ask_fault *f)
{
    struct tok_text t = { 0 };

    if (!api_string(obj, name, &t, f))
        return false;
    if (t.p && (t.len > max || memchr(t.p, '\0', t.len)))
        return ask_fault(f, ASK_E_INVALID, name, "'%s' is longer than %zu bytes or holds a NUL",
                         name, max);
    *out = t.p;
    return true;
}

bool api_bool(const struct json *obj, const char *name, bool dflt, bool *out, struct ask_fault *f)
{
    const struct json *v = api_get(obj, name);

    if (v && v->type != JSON_BOOL)
        return ask_fault(f, ASK_E_INVALID, name, "'%s' must be true or false", name);
    *out = v ? v->boolean : dflt;
    return true;
}

bool api_count(const struct json *obj, const char *name, size_t max, size_t *out,
               struct ask_fault *f)
{
    const struct json *v = api_get(obj, name);
    struct maybe n = json_int(v);

    if (v && (!n.known || n.v < 0 || (uint64_t)n.v > max))
        return ask_fault(f, ASK_E_INVALID, name, "'%s' must be a whole number from 0 to %zu", name,
                         max);
    *out = v ? (size_t)n.v : 0;
    return true;
}

bool api_dimensions(const struct json *obj, const char *name, struct ask *ask, struct ask_fault *f)
{
    struct ask_fault ignored = { 0 };

    return (api_count(obj, name, API_COUNT_MAX, &ask->dimensions, &ignored) &&
            (!api_get(obj, name) || ask->dimensions)) ||
           ask_fault(f, ASK_E_INVALID, name, "'%s' must be a whole number from 1 to %d", name,
                     API_COUNT_MAX);
}

/* ---- inputs */

static bool read_ids(struct ask *ask, const struct json *v, const char *name, struct ask_input *out,
                     struct ask_fault *f)
{
    uint32_t *ids = arena_array(&ask->arena, uint32_t, v->count ? v->count : 1);
    size_t n = 0;

    for (const struct json *e = v->first; e; e = e->next) {
        struct maybe id = json_int(e);
        if (e->type != JSON_NUM)
            return ask_fault(f, ASK_E_INVALID, name,
                             "'%s' mixes ids with something else at element %zu", name, n);
        if (!id.known || id.v < 0 || id.v > UINT32_MAX)
            return ask_fault(f, ASK_E_INVALID, name,
                             "'%s' holds %.40s, which is not an id: whole numbers from 0 to %u are",
                             name, e->text, UINT32_MAX);
        ids[n++] = (uint32_t)id.v;
    }
    *out = (struct ask_input){ .ids = ids, .id_count = n };
    return true;
}

static bool read_input(struct ask *ask, const struct json *v, const char *name, size_t i,
                       struct ask_input *out, struct ask_fault *f)
{
    if (v->type == JSON_STR) {
        *out = (struct ask_input){ .text = { v->text, v->len } };
        return true;
    }
    if (v->type == JSON_ARR)
        return read_ids(ask, v, name, out, f);
    return ask_fault(f, ASK_E_INVALID, name,
                     "element %zu of '%s' is neither a string nor a list of ids", i, name);
}

static bool read_list(struct ask *ask, const struct json *v, const char *name, bool mixed,
                      struct ask_fault *f)
{
    size_t n = 0;

    ask->inputs = arena_array(&ask->arena, struct ask_input, v->count);
    for (const struct json *e = v->first; e; e = e->next, n++) {
        if (!mixed && (e->type == JSON_STR || e->type == JSON_ARR) && e->type != v->first->type)
            return ask_fault(f, ASK_E_INVALID, name, "'%s' mixes strings with lists of ids", name);
        if (!read_input(ask, e, name, n, &ask->inputs[n], f))
            return false;
    }
    ask->count = n;
    return true;
}

bool api_inputs(struct ask *ask, const struct json *v, const char *name, bool mixed,
                struct ask_fault *f)
{
    if (!v || v->type == JSON_NULL)
        return ask_fault(f, ASK_E_INVALID, name, "'%s' is missing", name);
    ask->single = v->type == JSON_STR || (v->first && v->first->type == JSON_NUM);
    if (v->type == JSON_ARR && !v->count)
        return ask_fault(f, ASK_E_EMPTY, name, "'%s' cannot be empty", name);
    if (v->type == JSON_ARR && !ask->single)
        return read_list(ask, v, name, mixed, f);
    if (v->type != JSON_STR && v->type != JSON_ARR)
        return ask_fault(f, ASK_E_INVALID, name, "'%s' must be a string, a list of strings, or ids",
                         name);
    ask->inputs = arena_new(&ask->arena, struct ask_input);
    ask->count = 1;
    return read_input(ask, v, name, 0, ask->inputs, f);
}

bool api_none_empty(const struct ask *ask, const char *name, struct ask_fault *f)
{
    for (size_t i = 0; i < ask->count; i++) {
        const struct ask_input *in = &ask->inputs[i];
        if (in->text.p ? !in->text.len && !in->pair.len : !in->id_count)
            return ask->single ? ask_fault(f, ASK_E_EMPTY, name, "'%s' cannot be empty", name)
                               : ask_fault(f, ASK_E_EMPTY, name,
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

bool api_documents(struct ask *ask, const struct json *v, const char *name, struct ask_fault *f)
{
    size_t n = 0;

    if (!v || v->type == JSON_NULL)
        return ask_fault(f, ASK_E_INVALID, name, "'%s' is missing", name);
    if (v->type != JSON_ARR)
        return ask_fault(f, ASK_E_INVALID, name, "'%s' must be a list of strings", name);
    if (!v->count)
        return ask_fault(f, ASK_E_EMPTY, name, "'%s' cannot be empty", name);
    ask->inputs = arena_array(&ask->arena, struct ask_input, v->count);
    for (const struct json *e = v->first; e; e = e->next, n++) {
        const struct json *t = document_text(e);
        if (!t || t->type != JSON_STR)
            return ask_fault(f, ASK_E_INVALID, name,
                             "element %zu of '%s' is neither a string nor an object with \"text\"",
                             n, name);
        ask->inputs[n].text = (struct tok_text){ t->text, t->len };
    }
    ask->count = n;
    return true;
}

/* ---- truncation */

static bool read_truncate(const struct json *v, unsigned forms, struct ask *ask,
                          struct ask_fault *f)
{
    const char *s = forms & API_CUT_WORD ? json_str(v) : NULL;

    if (!v)
        return true;
    if (forms & API_CUT_BOOL && v->type == JSON_BOOL) {
        ask->truncate = v->boolean ? ASK_YES : ASK_NO;
        return true;
    }
    if (s && !strcasecmp(s, "NONE"))
        ask->truncate = ASK_NO;
    else if (s && (!strcasecmp(s, "START") || !strcasecmp(s, "END")))
        ask->truncate = ASK_YES;
    else
        return ask_fault(f, ASK_E_INVALID, "truncate", "'truncate' must be %s",
                         forms == API_CUT_BOOL   ? "true or false"
                         : forms == API_CUT_WORD ? "\"NONE\", \"START\" or \"END\""
                                                 : "true, false, \"NONE\", \"START\" or \"END\"");
    if (ask->truncate == ASK_YES)
        ask->left = !strcasecmp(s, "START") ? ASK_YES : ASK_NO;
    return true;
}

static bool read_side(const struct json *body, const char *name, struct ask *ask,
                      struct ask_fault *f)
{
    const char *s = NULL;

    if (!api_name(body, name, API_NAME_MAX, &s, f))
        return false;
    if (s && strcasecmp(s, "left") && strcasecmp(s, "right"))
        return ask_fault(f, ASK_E_INVALID, name, "'%s' must be \"left\" or \"right\"", name);
    if (s)
        ask->left = !strcasecmp(s, "left") ? ASK_YES : ASK_NO;
    return true;
}

bool api_cuts(const struct json *body, unsigned forms, struct ask *ask, struct ask_fault *f)
{
    const struct json *most = api_get(body, "truncate_prompt_tokens");
    struct maybe n = json_int(most);

    if (!read_truncate(api_get(body, "truncate"), forms, ask, f) ||
        !read_side(body, "truncation_direction", ask, f) ||
        !read_side(body, "truncation_side", ask, f))
        return false;
    if (!most)
        return true;
    if (!n.known || n.v < -1 || !n.v || n.v > API_COUNT_MAX)
        return ask_fault(f, ASK_E_INVALID, "truncate_prompt_tokens",
                         "'truncate_prompt_tokens' must be -1 or a whole number from 1 to %d",
                         API_COUNT_MAX);
    ask->truncate = ASK_YES;
    ask->max_tokens = n.v > 0 ? (size_t)n.v : 0;
    return true;
}

/* ---- encodings */

static const struct {
    const char *name;
    enum ask_encoding e;
} encodings[] = {
    /* the first name of each is the one that replies say */
    { "float", ASK_FLOAT },       { "base64", ASK_BASE64 }, { "float16", ASK_F16 },
    { "int8", ASK_INT8 },         { "uint8", ASK_UINT8 },   { "binary", ASK_BINARY },
    { "ubinary", ASK_UBINARY },   { "octets", ASK_OCTETS }, { "float32", ASK_FLOAT },
    { "f32", ASK_FLOAT },         { "f16", ASK_F16 },       { "bytes", ASK_OCTETS },
    { "bytes_only", ASK_OCTETS },
};

const char *api_encoding_name(enum ask_encoding e)
{
    for (size_t i = 0; i < ARRAY_SIZE(encodings); i++)
        if (encodings[i].e == e)
            return encodings[i].name;
    return "float";
}

bool api_one_of(const struct json *body, const char *name, const char *const *words,
                const char **out, struct ask_fault *f)
{
    struct buf list = { 0 };

    if (!api_name(body, name, API_NAME_MAX, out, f))
        return false;
    for (size_t i = 0; *out && words[i]; i++)
        if (!strcmp(*out, words[i]))
            return true;
    if (!*out)
        return true;
    for (size_t i = 0; words[i]; i++)
        buf_addf(&list, "%s%s", !i ? "" : words[i + 1] ? ", " : " or ", words[i]);
    (void)ask_fault(f, ASK_E_INVALID, name, "'%s' must be %.300s, not '%.64s'", name,
                    buf_str(&list), *out);
    buf_release(&list);
    return false;
}

bool api_encoding_of(const struct json *v, const char *name, unsigned *out, struct ask_fault *f)
{
    const char *s = json_str(v);

    for (size_t i = 0; s && i < ARRAY_SIZE(encodings); i++)
        if (!strcmp(s, encodings[i].name)) {
            *out = encodings[i].e;
            return true;
        }
    return ask_fault(f, ASK_E_INVALID, name,
                     "'%s' must be float, base64, float16, int8, uint8, binary, ubinary or octets",
                     name);
}

/* vLLM's: the type of the numbers inside base64, and their order. */
static bool read_dtype(const struct json *body, struct ask *ask, struct ask_fault *f)
{
    const char *type = NULL, *order = NULL;

    if (!api_name(body, "embed_dtype", API_NAME_MAX, &type, f) ||
        !api_name(body, "endianness", API_NAME_MAX, &order, f))
        return false;
    if (order && strcmp(order, "native") && strcmp(order, "little"))
        return ask_fault(f, ASK_E_INVALID, "endianness", "'endianness' must be native or little");
    if (!type || !strcmp(type, "float32") || ask->encodings == ASK_FLOAT)
        return true;
    if (strcmp(type, "float16") || ask->encodings != ASK_BASE64)
        return ask_fault(f, ASK_E_INVALID, "embed_dtype",
                         "'embed_dtype' must be float32, or float16 with encoding_format base64");
    ask->encodings = ASK_F16;
    return true;
}

static const char *field_of(const struct http_request *req, const char *name)
{
    for (size_t i = 0; i < req->field_count; i++)
        if (!strcasecmp(req->fields[i].name, name))
            return req->fields[i].value;
    return NULL;
}

bool api_accepts_octets(const struct http_request *req)
{
    const char *accept = field_of(req, "accept");

    return accept && strcasestr(accept, "application/octet-stream");
}

bool api_encoding(const struct http_request *req, const struct json *body, struct ask *ask,
                  struct ask_fault *f)
{
    static const char *const names[] = { "encoding_format", "embedding_type" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const struct json *v = api_get(body, names[i]);
        if (v && !api_encoding_of(v, names[i], &ask->encodings, f))
            return false;
    }
    if (!read_dtype(body, ask, f))
        return false;
    if (api_accepts_octets(req))
        ask->encodings = ASK_OCTETS;
    return true;
}

/* ---- what every route takes */

static bool priority_word(const char *s, struct ask *ask, struct ask_fault *f)
{
    if (strcasecmp(s, "bulk") && strcasecmp(s, "interactive"))
        return ask_fault(f, ASK_E_INVALID, "priority",
                         "'priority' must be \"interactive\", \"bulk\" or a whole number");
    ask->class = strcasecmp(s, "bulk") ? ASK_INTERACTIVE : ASK_BULK;
    return true;
}

/* Cohere's and vLLM's priority is a number: 0 is the usual, a greater one may wait. */
static bool read_priority(const struct http_request *req, const struct json *body, struct ask *ask,
                          struct ask_fault *f)
{
    const struct json *v = api_get(body, "priority");
    const char *field = field_of(req, "x-priority");
    struct maybe n = json_int(v);

    if (v && v->type == JSON_NUM && n.known)
        ask->class = n.v > 0 ? ASK_BULK : ASK_INTERACTIVE;
    else if (v)
        return priority_word(v->type == JSON_STR ? v->text : "", ask, f);
    else if (field)
        return priority_word(field, ask, f);
    return true;
}

/* "500ms", "2s", "1.5": shorter than the server's default, or longer up to its limit. */
bool api_timeout(const struct http_request *req, struct ask *ask, struct ask_fault *f)
{
    const char *s = field_of(req, "x-request-timeout");
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
        return ask_fault(
            f, ASK_E_INVALID, "x-request-timeout",
            "x-request-timeout must be a time such as \"500ms\", \"2s\", \"5m\" or \"2\"");
    memcpy(digits, s, n);
    digits[n] = '\0';
    double most = ask->timeout_max_ns ? (double)ask->timeout_max_ns * 1e-9 : API_TIMEOUT_S_MAX;
    if (!str_to_f64(digits, &v) || v * scale <= 0 || v * scale > most)
        return ask_fault(f, ASK_E_INVALID, "x-request-timeout",
                         "x-request-timeout must be above 0 and at most %g s (--timeout-max)",
                         most);
    ask->deadline_ns = req->begun_ns + (int64_t)(v * scale * 1e9);
    return true;
}

/* The body's, else the query's: a client that has nothing but a URL can choose too.  Infinity's
 * client sends a name of its own where its caller gave none. */
static bool read_model(const struct http_request *req, const struct json *body, struct ask *ask,
                       struct ask_fault *f)
{
    char name[API_NAME_MAX + 1];

    if (!api_name(body, "model", API_NAME_MAX, &ask->model, f))
        return false;
    if (ask->model && !strcmp(ask->model, "default/not-specified"))
        ask->model = NULL;
    if ((!ask->model || !ask->model[0]) && http_query(req, "model", name, sizeof(name)))
        ask->model = arena_strdup(&ask->arena, name);
    return true;
}

bool api_extras(const struct http_request *req, const struct json *body, struct ask *ask,
                struct ask_fault *f)
{
    ask->id =
        arena_printf(&ask->arena, "stoker-%" PRIx64 "-%" PRIx64, (uint64_t)req->begun_ns, req->id);
    return api_is(body, f) && read_model(req, body, ask, f) &&
           api_name(body, "prompt_name", API_NAME_MAX, &ask->prompt_name, f) &&
           api_name(body, "input_type", API_NAME_MAX, &ask->input_type, f) &&
           api_name(body, "instruction", API_INSTRUCTION_MAX, &ask->instruction, f) &&
           read_priority(req, body, ask, f) && api_timeout(req, ask, f);
}
