/* SPDX-License-Identifier: MIT */
/* files_routes: OpenAI's /v1/files: upload, list, retrieve, content, delete. */
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"
#include "serve/bulk/bulk_int.h"
#include "serve/bulk/multipart_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum {
    UPLOAD_WAIT_MS = 1000,
    FILES_LIST_MAX = 10000, /* files of a list */
    CONTENT_BYTES = 256 << 10
};

/* ---- upload */
struct upload {
    struct store_upload file;
    bool has_file, open;
    char purpose[64], anchor[64], seconds[32];
    char *field; /* where the field that is read belongs; NULL: it is the file or ignored */
    size_t field_cap;
};

static enum rc begin_field(struct upload *u, const struct multipart_part *p, struct err *err)
{
    u->field = NULL;
    if (str_eq(p->name, "file")) {
        if (u->has_file)
            return err_set(err, RC_USAGE, "the form has two files");
        u->has_file = true;
        (void)str_copy(u->file.file.name, sizeof(u->file.file.name),
                       p->filename[0] ? p->filename : "file.jsonl");
        str_make_text(u->file.file.name);
    } else if (str_eq(p->name, "purpose")) {
        u->field = u->purpose;
        u->field_cap = sizeof(u->purpose);
    } else if (str_eq(p->name, "expires_after[anchor]")) {
        u->field = u->anchor;
        u->field_cap = sizeof(u->anchor);
    } else if (str_eq(p->name, "expires_after[seconds]")) {
        u->field = u->seconds;
        u->field_cap = sizeof(u->seconds);
    }
    if (u->field)
        u->field[0] = '\0';
    return RC_OK;
}

static enum rc take_part(void *arg, const struct multipart_part *p, const char *data, size_t len,
                         struct err *err)
{
    struct upload *u = arg;
    size_t have;

    if (!data)
        return begin_field(u, p, err);
    if (str_eq(p->name, "file"))
        return store_upload_write(&u->file, data, len, err);
    if (!u->field)
        return RC_OK;
    have = strlen(u->field);
    if (have + len >= u->field_cap || memchr(data, '\0', len))
        return err_set(err, RC_USAGE, "'%.64s' is too long", p->name);
    memcpy(u->field + have, data, len);
    u->field[have + len] = '\0';
    return RC_OK;
}

static enum rc read_expiry(const struct upload *u, int64_t dflt_s, int64_t *out, struct err *err)
{
    uint64_t v;

    *out = dflt_s;
    if (!u->anchor[0] && !u->seconds[0])
        return RC_OK;
    if (!str_eq(u->anchor, "created_at"))
        return err_set(err, RC_USAGE, "'expires_after[anchor]' must be created_at");
    if (!str_to_u64(u->seconds, 10, &v) || v < STORE_EXPIRY_S_MIN || v > STORE_EXPIRY_S_MAX)
        return err_set(err, RC_USAGE, "'expires_after[seconds]' must be %d to %d",
                       STORE_EXPIRY_S_MIN, STORE_EXPIRY_S_MAX);
    *out = (int64_t)v;
    return RC_OK;
}

/* The form, to the disk as it comes.  False: the exchange was answered. */
static bool read_form(struct serve *s, struct http_exchange *x, struct multipart *m)
{
    struct err err = { 0 };
    char piece[32 << 10];
    const char *why;
    size_t len;

    for (;;) {
        enum http_body what = http_body_read(x, piece, sizeof(piece), &len, UPLOAD_WAIT_MS);

        if (what == HTTP_BODY_LATE && !bulk_is_stopping(s))
            continue;
        if (what == HTTP_BODY_LATE) {
            bulk_refuse(x, 503, NULL, "the server is stopping");
            return false;
        }
        if (what == HTTP_BODY_FAILED) {
            int status = http_body_fault(x, &why);

            bulk_refuse(x, status, NULL, "%s", why);
            return false;
        }
        if (what == HTTP_BODY_END)
            break;
        if (multipart_feed(m, piece, len, &err)) {
            bool large = err.code == RC_USAGE && strstr(err.msg, "larger than");

            bulk_refuse(x,
                        err.code == RC_LIMIT  ? 507
                        : large               ? 413
                        : err.code == RC_FAIL ? 500
                                              : 400,
                        "file", "%s", err.msg);
            return false;
        }
    }
    if (multipart_finish(m, &err)) {
        bulk_refuse(x, 400, "file", "%s", err.msg);
        return false;
    }
    return true;
}

static void end_upload(struct http_exchange *x, struct upload *u)
{
    struct store *st = u->file.st;
    struct stored_file *f = &u->file.file, shown;
    struct err err = { 0 };
    struct buf body = { 0 };
    struct json_out w;
    int64_t keep_s;

    if (!u->has_file) {
        bulk_refuse(x, 400, "file", "the form has no 'file'");
        return;
    }
    if (!str_eq(u->purpose, "batch")) {
        bulk_refuse(x, 400, "purpose", "'purpose' must be batch");
        return;
    }
    if (read_expiry(u, st->expiry_s, &keep_s, &err)) {
        bulk_refuse(x, 400, "expires_after", "%s", err.msg);
        return;
    }
    (void)str_copy(f->purpose, sizeof(f->purpose), u->purpose);
    f->expires = f->created + keep_s;
    request_owner(http_request(x), f->owner);
    shown = *f;
    if (store_upload_commit(&u->file, &err)) {
        bulk_refuse(x, err.code == RC_LIMIT ? 507 : 500, "file", "%s", err.msg);
        return;
    }
    json_out_init(&w, &body, 0);
    store_file_json(&shown, &w);
    admin_reply_json(x, 200, &body);
}

void files_upload(struct serve *s, struct http_exchange *x)
{
    struct upload u = { .file = { .fd = -1 } };
    struct multipart m;
    struct err err = { 0 };

    if (multipart_init(&m, http_field(http_request(x), "content-type"), &err)) {
        bulk_refuse(x, 400, NULL, "%s", err.msg);
        return;
    }
    m.take = take_part;
    m.arg = &u;
    if (store_upload_open(bulk_store(s), &u.file, &err))
        bulk_refuse(x, 500, NULL, "%s", err.msg);
    else if (read_form(s, x, &m))
        end_upload(x, &u);
    store_upload_abort(&u.file);
    multipart_release(&m);
}

/* ---- what is there */
static void no_such_file(struct http_exchange *x, const char *id)
{
    bulk_refuse(x, 404, "id", "no file is called '%.60s'", id);
}

void files_list(struct serve *s, struct http_exchange *x)
{
    const struct http_request *r = http_request(x);
    struct store *st = bulk_store(s);
    char owner[REQUEST_OWNER_BYTES], purpose[32] = "", order[8] = "desc";
    const struct stored_file **all;
    struct bulk_page page;
    size_t n = 0;

    request_owner(r, owner);
    (void)http_query(r, "purpose", purpose, sizeof(purpose));
    if (http_query(r, "order", order, sizeof(order)) && !str_eq(order, "asc") &&
        !str_eq(order, "desc")) {
        bulk_refuse(x, 400, "order", "'order' must be asc or desc");
        return;
    }
    if (!bulk_page_begin(&page, x, FILES_LIST_MAX, FILES_LIST_MAX))
        return;
    pthread_mutex_lock(&st->lock);
    all = xcalloc(st->file_count + 1, sizeof(*all));
    for (const struct stored_file *f = st->files; f; f = f->next)
        if (str_eq(f->owner, owner) && (!purpose[0] || str_eq(f->purpose, purpose)))
            all[n++] = f;
    for (size_t i = 0; i < n && !page.has_more; i++) {
        const struct stored_file *f = all[str_eq(order, "asc") ? n - 1 - i : i];

        if (bulk_page_takes(&page, f->id))
            store_file_json(f, &page.w);
    }
    pthread_mutex_unlock(&st->lock);
    free(all);
    bulk_page_end(&page, x);
}

static void send_content(struct http_exchange *x, int fd, uint64_t size)
{
    char *piece = xmalloc(CONTENT_BYTES), fields[64];
    uint64_t left = size;

    (void)snprintf(fields, sizeof(fields), "Content-Length: %" PRIu64 "\r\n", size);
    http_stream_begin(x, "application/jsonl", fields);
    while (left) {
        ssize_t n = read(fd, piece, left < CONTENT_BYTES ? (size_t)left : CONTENT_BYTES);

        if (n <= 0 || !http_stream_wait(x, (size_t)n) || !http_stream_send(x, piece, (size_t)n))
            break; /* the client sees that it is shorter than its length */
        left -= (uint64_t)n;
    }
    http_stream_end(x);
    free(piece);
}

static void get_content(struct store *st, struct http_exchange *x, const char *id)
{
    char path[FILE_PATH_MAX];
    struct err err = { 0 };
    uint64_t size;
    int fd;

    store_path(st, path, sizeof(path), "files", id, ".data");
    if (file_open(path, &fd, &size, &err)) {
        bulk_refuse(x, 500, NULL, "%s", err.msg);
        return;
    }
    send_content(x, fd, size);
    close(fd);
}

void files_get(struct serve *s, struct http_exchange *x)
{
    struct store *st = bulk_store(s);
    char id[STORE_ID_MAX] = "", owner[REQUEST_OWNER_BYTES];
    const char *rest;
    struct stored_file *f = NULL, copy;
    struct buf body = { 0 };
    struct json_out w;

    request_owner(http_request(x), owner);
    if (bulk_path_id(x, id, &rest) && (!*rest || str_eq(rest, "/content"))) {
        pthread_mutex_lock(&st->lock);
        f = store_file_find(st, id, owner);
        if (f)
            copy = *f;
        pthread_mutex_unlock(&st->lock);
    }
    if (!f) {
        no_such_file(x, id);
        return;
    }
    if (*rest) {
        get_content(st, x, id);
        return;
    }
    json_out_init(&w, &body, 0);
    store_file_json(&copy, &w);
    admin_reply_json(x, 200, &body);
}

void files_delete(struct serve *s, struct http_exchange *x)
{
    struct store *st = bulk_store(s);
    char id[STORE_ID_MAX] = "", owner[REQUEST_OWNER_BYTES];
    const char *rest;
    bool found = false, needed = false;
    struct buf body = { 0 };
    struct json_out w;

    request_owner(http_request(x), owner);
    if (bulk_path_id(x, id, &rest) && !*rest) {
        pthread_mutex_lock(&st->lock);
        struct stored_file *f = store_file_find(st, id, owner);
        found = f != NULL;
        needed = found && offline_needs_file(st, id);
        if (found && !needed)
            store_file_drop(st, f);
        pthread_cond_broadcast(&st->more); /* there is room again */
        pthread_mutex_unlock(&st->lock);
    }
    if (!found) {
        no_such_file(x, id);
        return;
    }
    if (needed) {
        bulk_refuse(x, 400, "id", "a batch that has not ended reads file '%s'", id);
        return;
    }
    json_out_init(&w, &body, 0);
    json_obj(&w);
    json_kv_str(&w, "id", id);
    json_kv_str(&w, "object", "file");
    json_kv_bool(&w, "deleted", true);
    json_obj_end(&w);
    admin_reply_json(x, 200, &body);
}
