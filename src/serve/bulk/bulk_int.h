/* SPDX-License-Identifier: MIT */
/* bulk: work that is too large for one request: files and batches in OpenAI's API, and streams of
 * lines.
 *
 * Each request of these routes has a thread of its own while it lasts, as it waits for a disk or
 * for a client; BULK_THREADS_MAX of them at a time, further ones are refused with 429.  Nothing of
 * it runs on the HTTP server's thread. */
#ifndef SERVE_BULK_BULK_INT_H
#define SERVE_BULK_BULK_INT_H
#include "serve/admin/admin_int.h"
#include "serve/bulk/offline_int.h"
#include "serve/bulk/store_int.h"

enum {
    BULK_THREADS_MAX = 64,       /* requests for files, batches and streams under way */
    BULK_CLIENT_THREADS_MAX = 32 /* of one client */
};

struct bulk;
/* Opens the folder where the options name one. */
enum rc bulk_new(struct serve *s, struct bulk **out, struct err *err) MUST_USE;
void bulk_stop(struct bulk *b); /* no more lines are begun */
void bulk_free(struct bulk *b); /* before the frontend does; NULL is fine */

/* Routes, each with the server as argument; both end with a row whose path is NULL. */
extern const struct http_route bulk_routes[], bulk_streamed_routes[];

/* ---- for its own files */
typedef void bulk_work(struct serve *s, struct http_exchange *x);
/* Runs it on a thread of its own; it answers the exchange. */
void bulk_spawn(struct serve *s, struct http_exchange *x, bulk_work *work);
struct store *bulk_store(struct serve *s); /* NULL: there is no folder */
bool bulk_is_stopping(struct serve *s);
void bulk_refuse(struct http_exchange *x, int status, const char *param, const char *fmt, ...)
    PRINTF_LIKE(4, 5);

/* The id in "/v1/files/ID" or "/v1/batches/ID", and what follows it in *out_rest ("", "/content",
 * "/cancel").  False: it is too long. */
bool bulk_path_id(const struct http_exchange *x, char id[STORE_ID_MAX], const char **out_rest);

/* A page of a list as OpenAI's lists are: data, first_id, last_id, has_more.  The query says which:
 * after (the last id of the page before) and limit. */
struct bulk_page {
    struct json_out w;        /* where elements that are taken are written */
    bool has_more;            /* it is full, and there was another */
    bool begun;               /* `after` is behind us */
    uint64_t limit, shown;    /* elements */
    struct buf body;          /* behind w */
    char after[STORE_ID_MAX]; /* "": from the first */
    char first[STORE_ID_MAX], last[STORE_ID_MAX];
};
/* False: the query was refused, and the exchange is answered. */
bool bulk_page_begin(struct bulk_page *p, struct http_exchange *x, uint64_t limit_default,
                     uint64_t limit_max);
/* For each element in its order, until has_more: is it on this page? */
bool bulk_page_takes(struct bulk_page *p, const char *id);
void bulk_page_end(struct bulk_page *p, struct http_exchange *x); /* answers */

/* ---- files_routes.c */
void files_upload(struct serve *s, struct http_exchange *x);
void files_list(struct serve *s, struct http_exchange *x);
void files_get(struct serve *s, struct http_exchange *x); /* the object, or its content */
void files_delete(struct serve *s, struct http_exchange *x);
/* ---- offline_routes.c */
void offline_create(struct serve *s, struct http_exchange *x);
void offline_list(struct serve *s, struct http_exchange *x);
void offline_get(struct serve *s, struct http_exchange *x);
void offline_cancel(struct serve *s, struct http_exchange *x);
/* ---- stream_lines.c */
void stream_embeddings(struct serve *s, struct http_exchange *x);
void stream_rerank(struct serve *s, struct http_exchange *x);

#endif
