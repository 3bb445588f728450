/* SPDX-License-Identifier: MIT */
/* routes_int: the routes of every API that clients speak.
 *
 * One file an API (tei.c, openai.c, cohere.c, rank.c, llama.c), each a
 * table of struct serve_route.  parse and write are pure: they run on any front thread, touch
 * nothing but their arguments, and are fuzzed alone. */
#ifndef SERVE_API_ROUTES_INT_H
#define SERVE_API_ROUTES_INT_H
#include "base/text/json.h"
#include "http/http.h"
#include "serve/request_int.h"

/* How errors look. */
enum api_family {
    API_TEI,    /* {"error","error_type"}: 400, 413, 422, 424, 429 */
    API_OPENAI, /* {"error":{"message","type","param","code"}} */
    API_COHERE, /* {"message"} (v2) */
    API_VLLM,   /* {"error":{"message","type","param","code"}} with code a number */
    API_LLAMA   /* {"error":{"code","message","type"}} */
};

struct serve_route {
    const char *path;
    enum api_family family;
    const char *summary; /* for the OpenAPI document and the page */
    /* The body as a tree (in r->arena); fills what the request wants (zeroed before, but for
     * encodings: API_FLOAT).  False: r->fault is filled. */
    bool (*parse)(struct request *r, const struct json *body);
    /* The reply's body, as JSON. */
    void (*write)(const struct request *r, struct buf *out);
    /* (optional) Called once the model is known, before anything is computed: for routes that
     * do what the model can.  May change what, inputs and count.  False: r->fault is filled. */
    bool (*settle)(struct request *r, const struct model *m);
    /* (optional) Header lines "Name: value\r\n" for what the body has no place for. */
    void (*fields)(const struct request *r, struct buf *out);
    const char *example; /* a request body that works with an embedding model or a reranker */
};

extern const struct serve_route api_tei[], api_openai[], api_cohere[], api_rank[],
    api_llama[]; /* each ends with a row whose path is NULL */
const struct serve_route *api_find(const char *path);
const struct serve_route *api_at(size_t i); /* NULL: the end */

/* ---- api_write.c */
/* The reply's body: the route's, or nothing but numbers where that is asked for; returns the
 * Content-Type. */
const char *api_write(const struct request *r, struct buf *out);

/* ---- api_error.c */
/* The body, and the status code; the caller adds Retry-After. */
int api_error(enum api_family family, const struct request_fault *f, struct buf *out);

/* ---- api_read.c: what parsers share.  Each returns false with r->fault filled. */
/* "inputs"/"input": a string, a list of strings, a list of ids, or a list of lists of ids,
 * mixed where `mixed`; fills r->inputs, count, single. */
bool api_inputs(struct request *r, const struct json *v, const char *name, bool mixed);
/* A list of documents: strings, or objects whose "text" (or "content") is the text. */
bool api_documents(struct request *r, const struct json *v, const char *name);
bool api_string(struct request *r, const struct json *obj, const char *name,
                struct tok_text *out); /* absent: p NULL */
bool api_bool(struct request *r, const struct json *obj, const char *name, bool dflt, bool *out);
bool api_count(struct request *r, const struct json *obj, const char *name, size_t max,
               size_t *out); /* absent or null: 0 */
/* Numbers of a vector that are kept: one at least; absent or null: all. */
bool api_dimensions(struct request *r, const struct json *obj, const char *name);
/* prompt_name, input_type, instruction, model, priority ("interactive"|"bulk"), and
 * x-request-timeout (seconds, or with ms/s), which every route takes. */
bool api_extras(struct request *r, const struct json *body);
/* x-request-timeout alone, which needs no body: r->deadline_ns, where there is such a field. */
bool api_timeout(struct request *r);
/* The members that we add to every reply's items or top level, where the API's own clients
 * ignore what they do not know: "tokens", "truncated", "cut". */
void api_item_extras(struct json_out *w, const struct request_text *it);
/* A vector in one encoding, as a JSON value; `packed`: numbers of a byte as base64. */
void api_vector(struct json_out *w, const float *v, size_t n, enum api_encoding e, bool packed);
/* Indexes of the inputs by falling score, ties by index; top_n applied. */
size_t *api_ranking(const struct request *r, struct arena *arena, size_t *out_count);
/* The score a client sees: the config's activation, or raw. */
float api_score(const struct request *r, size_t i);

#endif
