/* SPDX-License-Identifier: MIT */
/* bulk: routes, a thread for each of their requests, and what these routes share.
 *
 * An upload or a stream lasts as long as its client likes, so it may hold a thread but not the HTTP
 * loop; how many threads there are, and how many are one client's, has a limit.  Faults of the disk
 * are told to the log, and to clients without the folder's name. */
#include "serve/bulk/bulk_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct bulk_thread { /* one request */
    struct bulk_thread *next;
    struct serve *s;
    struct http_exchange *x;
    bulk_work *work;
    uint64_t client;
};

struct bulk {
    struct serve *s;
    struct store *store; /* NULL: no folder was given */
    struct offline_runners *runners;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct bulk_thread *threads;
    size_t count;
    _Atomic bool stop;
};

/* ---- replies */
void bulk_refuse(struct http_exchange *x, int status, const char *param, const char *fmt, ...)
{
    struct request_fault f = { .status = status };
    struct buf body = { 0 };
    char why[ERR_MSG_MAX];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    if (status >= 500 && strchr(why, '\'')) { /* where its folders are is not a client's business */
        const char *last = strrchr(why, ':');
        char cause[ERR_MSG_MAX];

        log_warn("%s", why);
        (void)snprintf(cause, sizeof(cause), "the server's folder for files failed%.200s",
                       last ? last : "");
        (void)str_copy(why, sizeof(why), cause);
    }
    (void)fault_set(&f,
                    status == 429   ? FAULT_OVERLOADED
                    : status >= 500 ? FAULT_BACKEND
                                    : FAULT_INVALID,
                    param, "%s", why);
    (void)api_error(API_OPENAI, &f, &body);
    http_reply(x, status == 499 ? 400 : status, "application/json", &body,
               status == 429 ? "Retry-After: 1\r\n" : NULL);
    buf_release(&body);
}

bool bulk_path_id(const struct http_exchange *x, char id[STORE_ID_MAX], const char **out_rest)
{
    const char *from = strchr(http_request(x)->path + sizeof("/v1/") - 1, '/') + 1;
    size_t len = strcspn(from, "/");

    *out_rest = from + len;
    if (len >= STORE_ID_MAX)
        return false;
    memcpy(id, from, len);
    id[len] = '\0';
    return true;
}

/* ---- lists */

bool bulk_page_begin(struct bulk_page *p, struct http_exchange *x, uint64_t limit_default,
                     uint64_t limit_max)
{
    const struct http_request *r = http_request(x);
    char limit[16] = "";

    *p = (struct bulk_page){ .limit = limit_default };
    (void)http_query(r, "after", p->after, sizeof(p->after));
    if (http_query(r, "limit", limit, sizeof(limit)) &&
        (!str_to_u64(limit, 10, &p->limit) || !p->limit || p->limit > limit_max)) {
        bulk_refuse(x, 400, "limit", "'limit' must be 1 to %" PRIu64, limit_max);
        return false;
    }
    p->begun = !p->after[0];
    json_out_init(&p->w, &p->body, 0);
    json_obj(&p->w);
    json_kv_str(&p->w, "object", "list");
    json_kv_arr(&p->w, "data");
    return true;
}

bool bulk_page_takes(struct bulk_page *p, const char *id)
{
    bool takes = p->begun && p->shown < p->limit;

    p->has_more = p->begun && !takes;
    p->begun = p->begun || str_eq(id, p->after);
    if (!takes)
        return false;
    if (!p->shown++)
        (void)str_copy(p->first, sizeof(p->first), id);
    (void)str_copy(p->last, sizeof(p->last), id);
    return true;
}

void bulk_page_end(struct bulk_page *p, struct http_exchange *x)
{
    if (!p->begun) { /* an empty page would pass for the end of the list */
        buf_release(&p->body);
        bulk_refuse(x, 400, "after", "'after': there is no '%s' in this list", p->after);
        return;
    }
    json_arr_end(&p->w);
    json_kv_str(&p->w, "first_id", p->shown ? p->first : NULL);
    json_kv_str(&p->w, "last_id", p->shown ? p->last : NULL);
    json_kv_bool(&p->w, "has_more", p->has_more);
    json_obj_end(&p->w);
    admin_reply_json(x, 200, &p->body);
}

struct store *bulk_store(struct serve *s)
{
    return s->bulk->store;
}

bool bulk_is_stopping(struct serve *s)
{
    return atomic_load(&s->bulk->stop);
}

/* ---- threads */
static void end_thread(struct bulk *b, struct bulk_thread *t)
{
    struct bulk_thread **at = &b->threads;

    pthread_mutex_lock(&b->lock);
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    b->count--;
    pthread_cond_signal(&b->ended);
    pthread_mutex_unlock(&b->lock);
    free(t);
}

static void *thread_main(void *arg)
{
    struct bulk_thread *t = arg;

    t->work(t->s, t->x);
    end_thread(t->s->bulk, t);
    return NULL;
}

/* Is there room for one more of this client? */
static bool add_thread(struct bulk *b, struct bulk_thread *t)
{
    size_t same = 0;
    bool fits;

    pthread_mutex_lock(&b->lock);
    for (const struct bulk_thread *other = b->threads; other; other = other->next)
        same += other->client == t->client;
    fits = b->count < BULK_THREADS_MAX && same < BULK_CLIENT_THREADS_MAX;
    if (fits) {
        t->next = b->threads;
        b->threads = t;
        b->count++;
    }
    pthread_mutex_unlock(&b->lock);
    return fits;
}

void bulk_spawn(struct serve *s, struct http_exchange *x, bulk_work *work)
{
    struct bulk *b = s->bulk;
    struct bulk_thread *t = xcalloc(1, sizeof(*t));
    char owner[REQUEST_OWNER_BYTES];
    pthread_attr_t attr;
    pthread_t id;

    request_owner(http_request(x), owner);
    *t = (struct bulk_thread){ .s = s, .x = x, .work = work, .client = request_client(owner) };
    if (!add_thread(b, t)) {
        free(t);
        bulk_refuse(x, 429, NULL,
                    "too many requests for files, batches and streams are under way: %d at most, "
                    "%d of one client",
                    BULK_THREADS_MAX, BULK_CLIENT_THREADS_MAX);
        return;
    }
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&id, &attr, thread_main, t) != 0) {
        bulk_refuse(x, 503, NULL, "could not start a thread");
        end_thread(b, t);
    }
    pthread_attr_destroy(&attr);
}

/* ---- routes */
/* A handler that runs `work` where there is a folder for it. */
static void with_store(void *arg, struct http_exchange *x, bulk_work *work)
{
    struct serve *s = arg;

    if (bulk_store(s))
        bulk_spawn(s, x, work);
    else
        bulk_refuse(x, 404, NULL,
                    "files and batches are off on this server: it was started without --batch-dir");
}

/* A route's handler, which has `work` done by bulk_spawn() or with_store(). */
#define HANDLER(name, start, work)                                                                 \
    static void name(void *arg, struct http_exchange *x)                                           \
    {                                                                                              \
        start(arg, x, work);                                                                       \
    }
HANDLER(on_upload, with_store, files_upload)
HANDLER(on_files, with_store, files_list)
HANDLER(on_file, with_store, files_get)
HANDLER(on_file_delete, with_store, files_delete)
HANDLER(on_batch_create, with_store, offline_create)
HANDLER(on_batches, with_store, offline_list)
HANDLER(on_batch, with_store, offline_get)
HANDLER(on_batch_cancel, with_store, offline_cancel)
HANDLER(on_embeddings, bulk_spawn, stream_embeddings)
HANDLER(on_rerank, bulk_spawn, stream_rerank)

const struct http_route bulk_routes[] = {
    { .method = HTTP_GET, .path = "/v1/files", .run = on_files },
    { .method = HTTP_GET, .path = "/v1/files/*", .run = on_file },
    { .method = HTTP_DELETE, .path = "/v1/files/*", .run = on_file_delete },
    { .method = HTTP_POST, .path = "/v1/batches", .run = on_batch_create },
    { .method = HTTP_GET, .path = "/v1/batches", .run = on_batches },
    { .method = HTTP_GET, .path = "/v1/batches/*", .run = on_batch },
    { .method = HTTP_POST, .path = "/v1/batches/*", .run = on_batch_cancel },
    { .path = NULL },
};

const struct http_route bulk_streamed_routes[] = {
    { .method = HTTP_POST, .path = "/v1/files", .run = on_upload },
    { .method = HTTP_POST, .path = "/v1/embeddings/stream", .run = on_embeddings },
    { .method = HTTP_POST, .path = "/v1/rerank/stream", .run = on_rerank },
    { .path = NULL },
};

/* ---- life */
enum rc bulk_new(struct serve *s, struct bulk **out, struct err *err)
{
    struct store_opts so = { .dir = s->o.batch_dir,
                             .bytes_max = s->o.batch_bytes_max,
                             .expiry_s = s->o.batch_expiry_s };
    struct bulk *b = xcalloc(1, sizeof(*b));
    enum rc rc = RC_OK;

    b->s = s;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->ended, NULL);
    if (s->o.batch_dir)
        rc = store_open(&so, &b->store, err);
    if (rc == RC_OK && b->store)
        rc = offline_runners_start(s, b->store, &b->runners, err);
    if (rc != RC_OK) {
        bulk_free(b);
        return rc;
    }
    *out = b;
    return RC_OK;
}

void bulk_stop(struct bulk *b)
{
    atomic_store(&b->stop, true);
    if (b->store)
        store_stop(b->store);
}

void bulk_free(struct bulk *b)
{
    if (!b)
        return;
    bulk_stop(b);
    offline_runners_stop(b->runners);
    pthread_mutex_lock(&b->lock);
    while (b->count)
        pthread_cond_wait(&b->ended, &b->lock);
    pthread_mutex_unlock(&b->lock);
    store_close(b->store);
    pthread_cond_destroy(&b->ended);
    pthread_mutex_destroy(&b->lock);
    free(b);
}
