/* SPDX-License-Identifier: MIT */
/* api_error: what went wrong, in the words and codes of each API.
 *
 * TEI has its own set of types, capitalised; OpenAI, vLLM and llama.cpp put an object below
 * "error", with a code that is a word, a number and a number; Cohere has a message alone.  Voyage's
 * clients share their routes with OpenAI's and vLLM's, and know errors by "detail" alone: it stands
 * beside "error", where the others do not look. */
#include "base/text/json.h"
#include "serve/api/bodies_int.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

struct word {
    int status;
    const char *type;
    const char *code; /* OpenAI; NULL: none */
};

enum { KINDS = FAULT_STOPPING + 1, FAMILIES = API_LLAMA + 1 };

static const struct word tei[KINDS] = {
    [FAULT_JSON] = { 400, "Validation", NULL },
    [FAULT_EMPTY] = { 400, "Empty", NULL },
    [FAULT_INVALID] = { 422, "Validation", NULL },
    [FAULT_TOO_LONG] = { 422, "Validation", NULL },
    [FAULT_TOO_MANY] = { 422, "Validation", NULL },
    [FAULT_TOO_LARGE] = { 413, "Validation", NULL },
    [FAULT_NO_MODEL] = { 404, "Validation", NULL },
    [FAULT_MODEL_KIND] = { 424, "Backend", NULL },
    [FAULT_LOADING] = { 503, "Unhealthy", NULL },
    [FAULT_OVERLOADED] = { 429, "Overloaded", NULL },
    [FAULT_DEADLINE] = { 504, "Overloaded", NULL },
    [FAULT_TOKENIZER] = { 422, "Tokenizer", NULL },
    [FAULT_BACKEND] = { 424, "Backend", NULL },
    [FAULT_NO_MEMORY] = { 503, "Unhealthy", NULL },
    [FAULT_CHANGED] = { 503, "Unhealthy", NULL },
    [FAULT_STOPPING] = { 503, "Unhealthy", NULL },
};

static const struct word openai[KINDS] = {
    [FAULT_JSON] = { 400, "invalid_request_error", NULL },
    [FAULT_EMPTY] = { 400, "invalid_request_error", NULL },
    [FAULT_INVALID] = { 400, "invalid_request_error", NULL },
    [FAULT_TOO_LONG] = { 400, "invalid_request_error", "context_length_exceeded" },
    [FAULT_TOO_MANY] = { 400, "invalid_request_error", NULL },
    [FAULT_TOO_LARGE] = { 413, "invalid_request_error", "request_too_large" },
    [FAULT_NO_MODEL] = { 404, "invalid_request_error", "model_not_found" },
    [FAULT_MODEL_KIND] = { 400, "invalid_request_error", "model_not_supported" },
    [FAULT_LOADING] = { 503, "server_error", "model_loading" },
    [FAULT_OVERLOADED] = { 429, "tokens", "rate_limit_exceeded" },
    [FAULT_DEADLINE] = { 504, "server_error", "timeout" },
    [FAULT_TOKENIZER] = { 400, "invalid_request_error", NULL },
    [FAULT_BACKEND] = { 500, "server_error", NULL },
    [FAULT_NO_MEMORY] = { 503, "server_error", "out_of_memory" },
    [FAULT_CHANGED] = { 503, "server_error", "model_changed" },
    [FAULT_STOPPING] = { 503, "server_error", "shutting_down" },
};

/* What that server finds itself has a name; what its HTTP layer says has the status's words. */
static const struct word vllm[KINDS] = {
    [FAULT_JSON] = { 400, "Bad Request", NULL },
    [FAULT_EMPTY] = { 400, "BadRequestError", NULL },
    [FAULT_INVALID] = { 400, "BadRequestError", NULL },
    [FAULT_TOO_LONG] = { 400, "BadRequestError", NULL },
    [FAULT_TOO_MANY] = { 400, "BadRequestError", NULL },
    [FAULT_TOO_LARGE] = { 413, "Request Entity Too Large", NULL },
    [FAULT_NO_MODEL] = { 404, "NotFoundError", NULL },
    [FAULT_MODEL_KIND] = { 400, "BadRequestError", NULL },
    [FAULT_LOADING] = { 503, "Service Unavailable", NULL },
    [FAULT_OVERLOADED] = { 429, "Too Many Requests", NULL },
    [FAULT_DEADLINE] = { 504, "Gateway Timeout", NULL },
    [FAULT_TOKENIZER] = { 400, "BadRequestError", NULL },
    [FAULT_BACKEND] = { 500, "InternalServerError", NULL },
    [FAULT_NO_MEMORY] = { 503, "Service Unavailable", NULL },
    [FAULT_CHANGED] = { 503, "Service Unavailable", NULL },
    [FAULT_STOPPING] = { 503, "Service Unavailable", NULL },
};

static const struct word llama[KINDS] = {
    [FAULT_JSON] = { 400, "invalid_request_error", NULL },
    [FAULT_EMPTY] = { 400, "invalid_request_error", NULL },
    [FAULT_INVALID] = { 400, "invalid_request_error", NULL },
    [FAULT_TOO_LONG] = { 400, "exceed_context_size_error", NULL },
    [FAULT_TOO_MANY] = { 400, "invalid_request_error", NULL },
    [FAULT_TOO_LARGE] = { 413, "invalid_request_error", NULL },
    [FAULT_NO_MODEL] = { 404, "not_found_error", NULL },
    [FAULT_MODEL_KIND] = { 501, "not_supported_error", NULL },
    [FAULT_LOADING] = { 503, "unavailable_error", NULL },
    [FAULT_OVERLOADED] = { 429, "unavailable_error", NULL },
    [FAULT_DEADLINE] = { 504, "server_error", NULL },
    [FAULT_TOKENIZER] = { 400, "invalid_request_error", NULL },
    [FAULT_BACKEND] = { 500, "server_error", NULL },
    [FAULT_NO_MEMORY] = { 503, "unavailable_error", NULL },
    [FAULT_CHANGED] = { 503, "unavailable_error", NULL },
    [FAULT_STOPPING] = { 503, "unavailable_error", NULL },
};

static const struct word *const words[FAMILIES] = {
    [API_TEI] = tei,       [API_OPENAI] = openai,
    [API_COHERE] = openai, /* the same codes; no words are written */
    [API_VLLM] = vllm,     [API_LLAMA] = llama,
};

/* What the HTTP server refuses before a route sees it, where an API has a word for it. */
static const struct {
    enum api_family family;
    struct word word;
} refusals[] = {
    { API_OPENAI, { 401, "invalid_request_error", "invalid_api_key" } },
    { API_VLLM, { 401, "Unauthorized", NULL } },
    { API_LLAMA, { 401, "authentication_error", NULL } },
    { API_OPENAI, { 405, "invalid_request_error", "method_not_supported" } },
    { API_VLLM, { 405, "Method Not Allowed", NULL } },
    { API_VLLM, { 413, "Request Entity Too Large", NULL } },
};

static const struct word *word_of(enum api_family family, const struct request_fault *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
        if (refusals[i].family == family && refusals[i].word.status == f->status)
            return &refusals[i].word;
    return &words[family][f->kind];
}

static void write_fault(struct request_fault *f, enum fault_kind kind, const char *param,
                        const char *fmt, va_list ap)
{
    f->kind = kind;
    f->param = param;
    vsnprintf(f->message, sizeof(f->message), fmt, ap);
}

bool fault_set(struct request_fault *f, enum fault_kind kind, const char *param, const char *fmt,
               ...)
{
    va_list ap;

    va_start(ap, fmt);
    write_fault(f, kind, param, fmt, ap);
    va_end(ap);
    return false;
}

bool request_fail(struct request *r, enum fault_kind kind, const char *param, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    write_fault(&r->fault, kind, param, fmt, ap);
    va_end(ap);
    return false;
}

/* The two that have message, type, param and code, in that order. */
static void write_openai(struct json_out *w, const struct request_fault *f, const struct word *word,
                         int number)
{
    json_kv_str(w, "message", f->message);
    json_kv_str(w, "type", word->type);
    json_kv_str(w, "param", f->param);
    if (number)
        json_kv_int(w, "code", number);
    else
        json_kv_str(w, "code", word->code);
}

static void write_below(struct json_out *w, enum api_family family, const struct request_fault *f,
                        const struct word *word, int status)
{
    json_kv_obj(w, "error");
    if (family == API_LLAMA) {
        json_kv_int(w, "code", status);
        json_kv_str(w, "message", f->message);
        json_kv_str(w, "type", word->type);
    } else {
        write_openai(w, f, word, family == API_VLLM ? status : 0);
    }
    json_obj_end(w);
    if (family != API_LLAMA)
        json_kv_str(w, "detail", f->message);
}

int api_error(enum api_family family, const struct request_fault *f, struct buf *out)
{
    struct json_out w;

    if (f->family)
        family = (enum api_family)(f->family - 1);
    assert((unsigned)family < FAMILIES && (unsigned)f->kind < KINDS);
    const struct word *word = word_of(family, f);
    int status = f->status ? f->status : word->status;
    json_out_init(&w, out, 0);
    json_obj(&w);
    if (family == API_TEI) {
        json_kv_str(&w, "error", f->message);
        json_kv_str(&w, "error_type", word->type);
    } else if (family == API_COHERE) {
        json_kv_str(&w, "message", f->message);
    } else {
        write_below(&w, family, f, word, status);
    }
    json_obj_end(&w);
    return status;
}
