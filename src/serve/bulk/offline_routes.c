/* SPDX-License-Identifier: MIT */
/* offline_routes: OpenAI's /v1/batches: create, list, retrieve, cancel. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "os/clock.h"
#include "serve/bulk/bulk_int.h"

#include <stdio.h>

enum {
    OFFLINE_LIST_DEFAULT = 20, /* batches of a list whose request names no limit: OpenAI's */
    OFFLINE_LIST_MAX = 100
};

/* What lines may ask for. */
static const char *const endpoints[] = { "/v1/embeddings", "/v1/rerank" };

/* ---- create */
static bool copy_text(const struct json *body, const char *name, char *out, size_t cap,
                      struct request_fault *f)
{
    const struct json *v = json_get(body, name);
    const char *text = json_str(v);

    if (!text)
        return fault_set(f, FAULT_INVALID, name, v ? "'%s' must be a string" : "'%s' is missing",
                         name);
    return str_copy(out, cap, text) || fault_set(f, FAULT_INVALID, name, "'%s' is too long", name);
}

static bool read_metadata(const struct json *v, struct offline_batch *b, struct request_fault *f)
{
    struct buf text = { 0 };
    struct json_out w;

    if (!v || v->type == JSON_NULL)
        return true;
    if (v->type != JSON_OBJ || v->count > OFFLINE_METADATA_MAX)
        return fault_set(f, FAULT_INVALID, "metadata", "'metadata' must be an object of %d strings",
                         OFFLINE_METADATA_MAX);
    for (const struct json *m = v->first; m; m = m->next)
        if (m->type != JSON_STR || m->len > 512 || strlen(m->key) > 64)
            return fault_set(f, FAULT_INVALID, "metadata",
                             "'metadata' holds names of 64 bytes and strings of 512 at most");
    json_out_init(&w, &text, 0);
    json_add_value(&w, v);
    b->metadata = buf_take(&text);
    return true;
}

static bool read_output_expiry(const struct json *v, struct offline_batch *b,
                               struct request_fault *f)
{
    struct maybe s = json_int(json_get(v, "seconds"));

    if (!v || v->type == JSON_NULL)
        return true;
    if (!str_eq(json_str(json_get(v, "anchor")), "created_at") || !s.known ||
        s.v < STORE_EXPIRY_S_MIN || s.v > STORE_EXPIRY_S_MAX)
        return fault_set(f, FAULT_INVALID, "output_expires_after",
                         "'output_expires_after' must have the anchor created_at and %d to %d "
                         "seconds",
                         STORE_EXPIRY_S_MIN, STORE_EXPIRY_S_MAX);
    b->output_expires_s = s.v;
    return true;
}

static bool read_batch(const struct json *body, struct offline_batch *b, struct request_fault *f)
{
    uint64_t window_ms = 0;
    bool known = false;

    if (!body || body->type != JSON_OBJ)
        return fault_set(f, FAULT_JSON, NULL, "the body must be a JSON object");
    if (!copy_text(body, "input_file_id", b->input, sizeof(b->input), f) ||
        !copy_text(body, "endpoint", b->endpoint, sizeof(b->endpoint), f) ||
        !copy_text(body, "completion_window", b->window, sizeof(b->window), f))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(endpoints); i++)
        known = known || str_eq(b->endpoint, endpoints[i]);
    if (!known)
        return fault_set(f, FAULT_INVALID, "endpoint",
                         "'endpoint' must be /v1/embeddings or /v1/rerank");
    if (units_duration_parse(b->window, &window_ms, NULL) || window_ms < 1000 ||
        window_ms / 1000 > OFFLINE_WINDOW_S_MAX)
        return fault_set(f, FAULT_INVALID, "completion_window",
                         "'completion_window' must be a time such as 24h, 7d at most");
    b->expires = b->created + (int64_t)(window_ms / 1000);
    return read_metadata(json_get(body, "metadata"), b, f) &&
           read_output_expiry(json_get(body, "output_expires_after"), b, f);
}

/* The lock is held. */
static bool add_batch(struct store *st, struct offline_batch *b, struct request_fault *f)
{
    const struct stored_file *in = store_file_find(st, b->input, b->owner);
    struct err err = { 0 };
    enum rc rc;

    if (!in || !str_eq(in->purpose, "batch"))
        return fault_set(f, FAULT_INVALID, "input_file_id",
                         in ? "file '%s' was not uploaded for a batch" : "no file is called '%s'",
                         b->input);
    rc = offline_add(st, b, &err);
    if (rc == RC_OK)
        return true;
    f->status = rc == RC_LIMIT ? 429 : 507;
    return fault_set(f, rc == RC_LIMIT ? FAULT_OVERLOADED : FAULT_BACKEND, NULL, "%s", err.msg);
}

void offline_create(struct serve *s, struct http_exchange *x)
{
    const struct http_request *r = http_request(x);
    struct store *st = bulk_store(s);
    struct offline_batch *b = xcalloc(1, sizeof(*b));
    struct request_fault f = { 0 };
    struct buf body = { 0 };
    struct arena a = { 0 };
    struct json *doc = NULL;
    struct err err = { 0 };
    struct json_out w;
    bool ok;

    b->created = clock_unix_s();
    request_owner(r, b->owner);
    store_new_id(b->id, "batch_");
    ok = json_parse(&a, r->body, r->body_len, &doc, &err) == RC_OK
             ? read_batch(doc, b, &f)
             : fault_set(&f, FAULT_JSON, NULL, "the body cannot be read as JSON: %s", err.msg);
    if (ok) {
        pthread_mutex_lock(&st->lock);
        ok = add_batch(st, b, &f);
        if (ok) {
            json_out_init(&w, &body, 0);
            offline_json(b, &w);
            pthread_cond_broadcast(&st->more);
        }
        pthread_mutex_unlock(&st->lock);
    }
    arena_release(&a);
    if (ok) {
        admin_reply_json(x, 200, &body);
        return;
    }
    bulk_refuse(x, f.status ? f.status : 400, f.param, "%s", f.message);
    free(b->metadata);
    free(b);
}

/* ---- what is there */
void offline_get(struct serve *s, struct http_exchange *x)
{
    struct store *st = bulk_store(s);
    char id[STORE_ID_MAX] = "", owner[REQUEST_OWNER_BYTES];
    const struct offline_batch *b = NULL;
    struct buf body = { 0 };
    const char *rest;
    struct json_out w;

    request_owner(http_request(x), owner);
    if (bulk_path_id(x, id, &rest) && !*rest) {
        pthread_mutex_lock(&st->lock);
        b = offline_find(st, id, owner);
        json_out_init(&w, &body, 0);
        if (b)
            offline_json(b, &w);
        pthread_mutex_unlock(&st->lock);
    }
    if (b)
        admin_reply_json(x, 200, &body);
    else
        bulk_refuse(x, 404, "id", "no batch is called '%.60s'", id);
}

/* The lock is held.  NULL: it is, or will be. */
static const char *cancel_batch(struct store *st, struct offline_batch *b, struct err *err)
{
    if (b->status == OFFLINE_CANCELLING)
        return NULL;
    if (b->status != OFFLINE_VALIDATING && b->status != OFFLINE_IN_PROGRESS)
        return b->status == OFFLINE_FINALIZING ? "it is about to be completed" : "it has ended";
    offline_enter(b, OFFLINE_CANCELLING);
    atomic_store(&b->cancel, true);
    pthread_cond_broadcast(&st->more);
    return offline_save(st, b, err) ? err->msg : NULL;
}

void offline_cancel(struct serve *s, struct http_exchange *x)
{
    struct store *st = bulk_store(s);
    char id[STORE_ID_MAX] = "", owner[REQUEST_OWNER_BYTES];
    struct offline_batch *b = NULL;
    const char *rest, *why = NULL;
    struct err err = { 0 };
    struct buf body = { 0 };
    struct json_out w;

    request_owner(http_request(x), owner);
    if (bulk_path_id(x, id, &rest) && str_eq(rest, "/cancel")) {
        pthread_mutex_lock(&st->lock);
        b = offline_find(st, id, owner);
        if (b) {
            why = cancel_batch(st, b, &err);
            json_out_init(&w, &body, 0);
            offline_json(b, &w);
        }
        pthread_mutex_unlock(&st->lock);
    }
    if (!b)
        bulk_refuse(x, 404, "id", "no batch is called '%.60s'", id);
    else if (why)
        bulk_refuse(x, err.code ? 507 : 400, "id", "batch '%s' cannot be cancelled: %s", id, why);
    else
        admin_reply_json(x, 200, &body);
    buf_release(&body);
}

void offline_list(struct serve *s, struct http_exchange *x)
{
    struct store *st = bulk_store(s);
    char owner[REQUEST_OWNER_BYTES];
    struct bulk_page page;

    request_owner(http_request(x), owner);
    if (!bulk_page_begin(&page, x, OFFLINE_LIST_DEFAULT, OFFLINE_LIST_MAX))
        return;
    pthread_mutex_lock(&st->lock);
    for (const struct offline_batch *b = st->batches; b && !page.has_more; b = b->next)
        if (str_eq(b->owner, owner) && bulk_page_takes(&page, b->id))
            offline_json(b, &page.w);
    pthread_mutex_unlock(&st->lock);
    bulk_page_end(&page, x);
}
