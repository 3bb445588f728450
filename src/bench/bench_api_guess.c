/* SPDX-License-Identifier: MIT */
/* bench_api_guess: which API does a server speak, and what is its model called?
 *
 * The order is from what tells most: /info is TEI's own, a list of models names its owner,
 * an OpenAPI document has the paths. */
#include "base/str.h"
#include "base/text/json.h"
#include "bench/bench_int.h"
#include "os/clock.h"
#include "os/net/client.h"

#include <string.h>

/* The first path of an OpenAPI document that is ours to know decides. */
static const char *const path_tells[][2] = {
    { "/embeddings", "infinity" }, { "/v1/embeddings", "openai" }, { "/embed", "tei" },
    { "/v2/embed", "cohere" },     { "/embedding", "llama" },      { "/v1/rerank", "jina" },
    { "/rerank", "infinity" },
};

static void take_model(const struct json *name, struct api_guess *io)
{
    if (json_str(name) && !io->model[0])
        (void)str_copy(io->model, sizeof(io->model), json_str(name));
}

/* A list of models: {"data":[{"id","owned_by"}]} */
static void from_models(const struct json *doc, const char *dflt, struct api_guess *io)
{
    const struct json *one = json_at(json_get(doc, "data"), 0);
    const char *owner = json_str(json_get(one, "owned_by"));

    if (!one)
        return;
    take_model(json_get(one, "id"), io);
    if (owner && peer_api_find(owner))
        io->api = peer_api_find(owner);
    else
        io->api = peer_api_find(str_eq(owner, "llamacpp") ? "llama" : dflt);
}

static void from_openapi(const struct json *doc, struct api_guess *io)
{
    const struct json *paths = json_get(doc, "paths");

    for (size_t i = 0; i < ARRAY_SIZE(path_tells) && !io->api; i++)
        if (json_get(paths, path_tells[i][0]))
            io->api = peer_api_find(path_tells[i][1]);
}

bool api_guess_from(const char *path, const char *body, size_t len, struct api_guess *io)
{
    struct arena a = { 0 };
    struct json *doc;

    if (!json_parse(&a, body, len, &doc, NULL)) {
        if (!strcmp(path, "/info") && json_str(json_get(doc, "model_id"))) {
            take_model(json_get(doc, "model_id"), io);
            io->api = peer_api_find("tei");
        } else if (!strcmp(path, "/v1/models")) {
            from_models(doc, "openai", io);
        } else if (!strcmp(path, "/models")) {
            from_models(doc, "infinity", io);
        } else if (!strcmp(path, "/openapi.json")) {
            from_openapi(doc, io);
        }
    }
    arena_release(&a);
    return io->api != NULL;
}

struct guess_answer { /* of one GET */
    bool done;
    const char *path;
    struct api_guess *guess;
};

static void on_answer(void *arg, const struct client_done *d)
{
    struct guess_answer *a = arg;

    a->done = true;
    if (d->fault == CLIENT_OK && d->reply->status == 200 && d->body->len <= API_PROBE_BYTES)
        (void)api_guess_from(a->path, buf_str(d->body), d->body->len, a->guess);
}

static enum rc ask_one(struct client *c, const struct url *url, const char *token,
                       struct guess_answer *a, struct err *err)
{
    char authority[URL_AUTHORITY_MAX];
    struct buf req = { 0 };
    enum rc rc = RC_OK;

    buf_addf(&req, "GET %s%s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n", url->prefix,
             a->path, url_authority(url, authority));
    if (token)
        buf_addf(&req, "Authorization: Bearer %s\r\n", token);
    buf_adds(&req, "\r\n");
    a->done = false;
    client_send(c, (size_t)client_free_slot(c), req.data, req.len, 0);
    while (!a->done && !rc)
        rc = client_poll(c, clock_mono_ns() + 1000000000, err);
    buf_release(&req);
    return rc;
}

enum rc api_guess(const struct url *url, const char *token, int64_t timeout_ns,
                  struct api_guess *out, struct err *err)
{
    static const char *const paths[] = { "/info", "/v1/models", "/models", "/openapi.json" };
    struct api_guess guess = { 0 };
    struct guess_answer a = { .guess = &guess };
    struct client_opts o = { .url = url,
                             .slots = 1,
                             .timeout_ns = timeout_ns,
                             .keep_bodies = true,
                             .on_done = on_answer,
                             .arg = &a };
    struct client *c;
    enum rc rc = client_new(&o, &c, err);

    if (rc)
        return rc;
    for (size_t i = 0; i < ARRAY_SIZE(paths) && !guess.api && !rc; i++) {
        a.path = paths[i];
        rc = ask_one(c, url, token, &a, err);
    }
    client_free(c);
    if (!rc)
        *out = guess;
    return rc;
}
