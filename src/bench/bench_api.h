/* SPDX-License-Identifier: MIT */
/* bench_api: how each server wants to be asked: paths and the shape of bodies.
 *
 * One row an API.  A row says where it embeds and ranks and what the members of its bodies
 * are called; api_build() makes whole HTTP requests of texts beforehand, so that sending
 * one costs the load loop nothing but a write. */
#ifndef BENCH_BENCH_API_H
#define BENCH_BENCH_API_H
#include "bench/texts.h"
#include "os/net/url.h"

#include <stdbool.h>

enum api_route { API_EMBED, API_RERANK };

enum {
    API_REQUESTS_MAX = 4096,       /* different requests made beforehand */
    API_REQUESTS_BYTES = 96 << 20, /* of all of them together */
    API_ITEMS_MAX = 100000,        /* texts or documents in one request */
    API_REQUEST_MAX = 512 << 20    /* bytes of one request */
};

struct peer_api {
    const char *name;                     /* "tei" */
    const char *embed_path, *rerank_path; /* NULL: it has none */
    const char *texts_key, *docs_key;     /* "inputs", "texts" */
    const char *embed_more, *rerank_more; /* further members, ",\"truncate\":true"; "" none */
    bool model;                           /* bodies name the model */
};

const struct peer_api *peer_api_find(const char *name); /* NULL: none */
extern const char api_names[];                          /* "tei|openai|…" */
const char *api_path(const struct peer_api *a, enum api_route route);

struct api_requests { /* owned; all zero is empty */
    char **bytes;
    size_t *lens;
    size_t count;
    size_t items; /* texts or documents in each */
};

struct api_wanted {
    const struct url *url;
    const struct peer_api *api;
    enum api_route route;
    const char *model;           /* NULL: bodies name none */
    const char *token;           /* bearer; NULL: none */
    size_t items;                /* in each request */
    const struct texts *texts;   /* taken in turn */
    const struct texts *queries; /* of reranks */
};

/* RC_LIMIT when one request is too large. */
enum rc api_build(const struct api_wanted *want, struct api_requests *out,
                  struct err *err) MUST_USE;
void api_requests_release(struct api_requests *r);

/* Asks a server which API it speaks and what its model is called: GET /info, /v1/models,
 * /models, /openapi.json.  *out_api NULL: it did not tell; model "": no name was told. */
enum { API_MODEL_MAX = 512, API_PROBE_BYTES = 4 << 20 };
struct api_guess {
    const struct peer_api *api;
    char model[API_MODEL_MAX];
};
enum rc api_guess(const struct url *url, const char *token, int64_t timeout_ns,
                  struct api_guess *out, struct err *err) MUST_USE;

#endif
