/* SPDX-License-Identifier: MIT */
/* bodies_int: what the API modules share among themselves. */
#ifndef SERVE_API_BODIES_INT_H
#define SERVE_API_BODIES_INT_H
#include "serve/api/routes_int.h"

enum {
    API_NAME_MAX = 512,         /* bytes of a model's, a prompt's or a type's name */
    API_INSTRUCTION_MAX = 8192, /* bytes of an instruction */
    API_COUNT_MAX = 1 << 30,    /* of any number of things that a body asks for */
    API_TIMEOUT_S_MAX = 86400,  /* of x-request-timeout */
    API_FIELD_ITEMS_MAX = 128,  /* inputs told one by one in header lines */
    API_SEARCH_UNIT_DOCS = 100  /* documents that Cohere counts as one unit */
};

enum api_apply { API_APPLY_DEFAULT, API_APPLY_NONE, API_APPLY_SIGMOID, API_APPLY_SOFTMAX };

/* r->priv: what a route's parser tells its writer. */
struct api_priv {
    const struct json *body; /* for settle */
    bool tei;                /* /rerank: "texts" were given; the reply is TEI's */
    bool infinity;           /* /rerank: "raw_scores" were said; the reply is Infinity's */
    bool voyage;             /* /rerank: "truncation" was said; results are "data" */
    bool packed;             /* numbers of a byte are base64: Voyage's output_dtype with it */
    bool llama;              /* /embeddings: "content" was given; the reply is llama.cpp's */
    bool similar;            /* "/": one sentence and others; the reply is their cosines */
    bool nested;             /* "/": classes of one text are a list of lists */
    bool by_type;            /* /v1/embed: embedding_types were given */
    bool cosine;             /* /score: the model gives vectors, not scores */
    size_t firsts;           /* /score: texts on the left: 1, or as many as on the right */
    size_t top_k;            /* "/": classes an input; 0: all */
    enum api_apply apply;    /* "/": function_to_apply */
};
struct api_priv *api_priv(struct request *r);                /* made at first use */
const struct api_priv *api_priv_of(const struct request *r); /* all zero when there is none */

/* ---- api_read.c: reading */
/* A member; NULL when it is absent or null. */
const struct json *api_get(const struct json *obj, const char *name);
bool api_is(struct request *r, const struct json *body); /* an object? */
/* A short string without NUL; absent: *out is NULL. */
bool api_name(struct request *r, const struct json *obj, const char *name, size_t max,
              const char **out);
/* truncate, truncation_direction, truncation_side, truncate_prompt_tokens.  `forms`: what an API
 * takes for truncate. */
enum { API_CUT_BOOL = 1, API_CUT_WORD = 2, API_CUT_ANY = API_CUT_BOOL | API_CUT_WORD };
bool api_cuts(struct request *r, const struct json *body, unsigned forms);
/* A string that is one of `words`, which end with NULL; absent: *out is NULL. */
bool api_one_of(struct request *r, const struct json *body, const char *name,
                const char *const *words, const char **out);
/* encoding_format, embedding_type, embed_dtype, endianness, Accept. */
bool api_encoding(struct request *r, const struct json *body);
/* One name of an encoding. */
bool api_encoding_of(struct request *r, const struct json *v, const char *name, unsigned *out);
bool api_accepts_octets(const struct request *r);
/* No input may be empty: no text without a byte, no list without an id. */
bool api_none_empty(struct request *r, const char *name);

/* ---- api_write.c: writing */
void api_float(struct json_out *w, float f);
/* The vectors of an input: one, or for REQUEST_TOKENS a list of them. */
void api_item_vectors(struct json_out *w, const struct request *r, size_t i, enum api_encoding e);
const char *api_encoding_name(enum api_encoding e);
/* OpenAI's "system_fingerprint": replies with the same one come of the same model. */
void api_fingerprint(struct json_out *w, const struct request *r);
void api_usage(struct json_out *w, const struct request *r); /* "usage": {…} */
/* Every label of an input with its score, best first, as a list. */
void api_classes(struct json_out *w, const struct request *r, size_t i);
float api_cosine(const struct request *r, size_t i, size_t k);
/* x-compute-time, x-compute-characters, x-stoker-tokens, -truncated, -cuts, -shape. */
void api_fields(const struct request *r, struct buf *out);
/* The same when the body is nothing but numbers. */
void api_fields_octets(const struct request *r, struct buf *out);

/* ---- tei.c, for "/" and for /rerank */
bool api_tei_rerank(struct request *r, const struct json *body);
void api_tei_write_rerank(const struct request *r, struct buf *out);
/* ---- rank.c, for Cohere and llama.cpp: query, documents, top_n, …; header lines where
 * the reply has TEI's shape */
void api_fields_rerank(const struct request *r, struct buf *out);
bool api_rank_body(struct request *r, const struct json *body);
/* ---- llama.c, for /embeddings with "content" */
bool api_llama_embedding(struct request *r, const struct json *body);
void api_llama_write_embedding(const struct request *r, struct buf *out);

#endif
