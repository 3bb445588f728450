/* SPDX-License-Identifier: MIT */
/* offline: what is known of batches, as clients see it and as it lies on the disk; see
 * offline_int.h. */
#include "serve/bulk/offline_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/clock.h"

#include <assert.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const status_names[OFFLINE_STATUSES] = {
    [OFFLINE_VALIDATING] = "validating",   [OFFLINE_FAILED] = "failed",
    [OFFLINE_IN_PROGRESS] = "in_progress", [OFFLINE_FINALIZING] = "finalizing",
    [OFFLINE_COMPLETED] = "completed",     [OFFLINE_EXPIRED] = "expired",
    [OFFLINE_CANCELLING] = "cancelling",   [OFFLINE_CANCELLED] = "cancelled",
};

static const char *const time_names[OFFLINE_STATUSES] = {
    [OFFLINE_FAILED] = "failed_at",         [OFFLINE_IN_PROGRESS] = "in_progress_at",
    [OFFLINE_FINALIZING] = "finalizing_at", [OFFLINE_COMPLETED] = "completed_at",
    [OFFLINE_EXPIRED] = "expired_at",       [OFFLINE_CANCELLING] = "cancelling_at",
    [OFFLINE_CANCELLED] = "cancelled_at",
};

bool offline_has_ended(const struct offline_batch *b)
{
    return b->status == OFFLINE_FAILED || b->status == OFFLINE_COMPLETED ||
           b->status == OFFLINE_EXPIRED || b->status == OFFLINE_CANCELLED;
}

struct offline_batch *offline_find(struct store *st, const char *id, const char *owner)
{
    for (struct offline_batch *b = st->batches; b; b = b->next)
        if (str_eq(b->id, id) && (!owner || str_eq(b->owner, owner)))
            return b;
    return NULL;
}

void offline_file_id(const struct offline_batch *b, bool errors, char out[STORE_ID_MAX])
{
    (void)snprintf(out, STORE_ID_MAX, "file-%.24s%s", b->id + sizeof("batch_") - 1,
                   errors ? "err" : "out");
}

bool offline_needs_file(struct store *st, const char *file_id)
{
    for (struct offline_batch *b = st->batches; b; b = b->next)
        if (!offline_has_ended(b) && str_eq(b->input, file_id))
            return true;
    return false;
}

struct offline_batch *offline_of_id(struct store *st, const char *id)
{
    char made[STORE_ID_MAX];

    for (struct offline_batch *b = st->batches; b; b = b->next) {
        if (str_eq(b->id, id))
            return b;
        for (int errors = 0; errors < 2 && !offline_has_ended(b); errors++) {
            offline_file_id(b, errors, made);
            if (str_eq(made, id))
                return b;
        }
    }
    return NULL;
}

void offline_enter(struct offline_batch *b, enum offline_status status)
{
    b->status = status;
    b->entered[status] = clock_unix_s();
}

/* ---- as JSON */
static void put_files(const struct offline_batch *b, struct json_out *w)
{
    char id[STORE_ID_MAX];

    for (int errors = 0; errors < 2; errors++) {
        offline_file_id(b, errors, id);
        json_kv_str(w, errors ? "error_file_id" : "output_file_id",
                    (errors ? b->has_error : b->has_output) ? id : NULL);
    }
}

static void put_times(const struct offline_batch *b, struct json_out *w)
{
    json_kv_int(w, "created_at", b->created);
    json_kv_int(w, "expires_at", b->expires);
    for (size_t i = 0; i < OFFLINE_STATUSES; i++) {
        if (!time_names[i])
            continue;
        json_kv_maybe(w, time_names[i], b->entered[i] ? maybe_of(b->entered[i]) : maybe_none());
    }
}

static void put_rest(const struct offline_batch *b, struct json_out *w)
{
    json_kv_obj(w, "request_counts");
    json_kv_int(w, "total", (int64_t)b->total);
    json_kv_int(w, "completed", (int64_t)b->completed);
    json_kv_int(w, "failed", (int64_t)b->failed);
    json_obj_end(w);
    json_key(w, "errors");
    if (b->errors) {
        json_obj(w);
        json_kv_str(w, "object", "list");
        json_key(w, "data");
        buf_adds(json_raw(w), b->errors);
        json_obj_end(w);
    } else {
        json_add_null(w);
    }
    json_key(w, "metadata");
    buf_adds(json_raw(w), b->metadata ? b->metadata : "null");
}

static void put_batch(const struct offline_batch *b, struct json_out *w)
{
    json_kv_str(w, "id", b->id);
    json_kv_str(w, "object", "batch");
    json_kv_str(w, "endpoint", b->endpoint);
    json_kv_str(w, "input_file_id", b->input);
    json_kv_str(w, "completion_window", b->window);
    json_kv_str(w, "status", status_names[b->status]);
    put_files(b, w);
    put_times(b, w);
    put_rest(b, w);
}

void offline_json(const struct offline_batch *b, struct json_out *w)
{
    json_obj(w);
    put_batch(b, w);
    json_obj_end(w);
}

enum rc offline_save(struct store *st, const struct offline_batch *b, struct err *err)
{
    char path[FILE_PATH_MAX];
    struct buf text = { 0 };
    struct json_out w;
    enum rc rc;

    json_out_init(&w, &text, 0);
    json_obj(&w);
    json_kv_str(&w, "owner", b->owner);
    json_kv_int(&w, "output_expires_s", b->output_expires_s);
    put_batch(b, &w);
    json_obj_end(&w);
    store_path(st, path, sizeof(path), "batches", b->id, ".json");
    rc = store_write_meta(path, &text, err);
    buf_release(&text);
    return rc;
}

/* ---- the list */
static void insert_batch(struct store *st, struct offline_batch *b)
{
    struct offline_batch **at = &st->batches;

    while (*at && (*at)->created > b->created)
        at = &(*at)->next;
    b->next = *at;
    *at = b;
    st->batch_count++;
}

enum rc offline_add(struct store *st, struct offline_batch *b, struct err *err)
{
    size_t active = 0;
    enum rc rc;

    for (const struct offline_batch *other = st->batches; other; other = other->next)
        active += str_eq(other->owner, b->owner) && !offline_has_ended(other);
    if (active >= OFFLINE_ACTIVE_MAX)
        return err_set(err, RC_LIMIT, "%d batches have not ended yet", OFFLINE_ACTIVE_MAX);
    if (st->batch_count >= STORE_BATCHES_MAX)
        return err_set(err, RC_LIMIT, "there are %d batches already", STORE_BATCHES_MAX);
    rc = offline_save(st, b, err);
    if (rc == RC_OK)
        insert_batch(st, b);
    return rc;
}

static void free_batch(struct offline_batch *b)
{
    free(b->metadata);
    free(b->errors);
    free(b);
}

void offline_free(struct store *st)
{
    while (st->batches) {
        struct offline_batch *b = st->batches;

        st->batches = b->next;
        free_batch(b);
    }
}

void offline_expire(struct store *st, int64_t now_s)
{
    char path[FILE_PATH_MAX];

    for (struct offline_batch **at = &st->batches; *at;) {
        struct offline_batch *b = *at;
        int64_t ended = b->entered[b->status] ? b->entered[b->status] : b->created;

        if (!offline_has_ended(b) || b->running || ended + st->expiry_s > now_s) {
            at = &b->next;
            continue;
        }
        store_path(st, path, sizeof(path), "batches", b->id, ".json");
        (void)unlink(path);
        *at = b->next;
        st->batch_count--;
        free_batch(b);
    }
}

/* ---- from the disk */
static char *member_text(const struct json *v)
{
    struct buf text = { 0 };
    struct json_out w;

    if (!v || v->type == JSON_NULL)
        return NULL;
    json_out_init(&w, &text, 0);
    json_add_value(&w, v);
    return buf_take(&text);
}

/* Answers so far are counted against the store's limit as files are. */
static void count_answers(struct store *st, const struct offline_batch *b)
{
    static const char *const exts[] = { ".out", ".err" };
    char path[FILE_PATH_MAX];
    struct stat sb;

    for (size_t i = 0; i < ARRAY_SIZE(exts); i++) {
        store_path(st, path, sizeof(path), "batches", b->id, exts[i]);
        if (stat(path, &sb) == 0)
            st->bytes += (uint64_t)sb.st_size;
    }
}

void offline_load(struct store *st, const char *name, const struct json *doc)
{
    struct offline_batch *b = xcalloc(1, sizeof(*b));
    const struct json *counts = json_get(doc, "request_counts");
    char status[16] = "";
    size_t i = 0;

    if (!store_copy(doc, "id", b->id, sizeof(b->id)) || strchr(b->id, '/') ||
        !str_starts(b->id, "batch_") || !str_starts(name, b->id) ||
        !store_copy(doc, "owner", b->owner, sizeof(b->owner)) ||
        !store_copy(doc, "endpoint", b->endpoint, sizeof(b->endpoint)) ||
        !store_copy(doc, "input_file_id", b->input, sizeof(b->input)) ||
        !store_copy(doc, "completion_window", b->window, sizeof(b->window)) ||
        !store_copy(doc, "status", status, sizeof(status))) {
        log_warn("'%s' of '%s' tells of no batch", name, st->dir);
        free(b);
        return;
    }
    while (i < OFFLINE_STATUSES - 1 && !str_eq(status, status_names[i]))
        i++;
    b->status = (enum offline_status)i;
    atomic_store(&b->cancel, b->status == OFFLINE_CANCELLING);
    b->created = json_int(json_get(doc, "created_at")).v;
    b->expires = json_int(json_get(doc, "expires_at")).v;
    b->output_expires_s = json_int(json_get(doc, "output_expires_s")).v;
    for (i = 0; i < OFFLINE_STATUSES; i++)
        if (time_names[i])
            b->entered[i] = json_int(json_get(doc, time_names[i])).v;
    b->total = (uint64_t)json_int(json_get(counts, "total")).v;
    b->completed = (uint64_t)json_int(json_get(counts, "completed")).v;
    b->failed = (uint64_t)json_int(json_get(counts, "failed")).v;
    b->has_output = json_str(json_get(doc, "output_file_id")) != NULL;
    b->has_error = json_str(json_get(doc, "error_file_id")) != NULL;
    b->metadata = member_text(json_get(doc, "metadata"));
    b->errors = member_text(json_get(json_get(doc, "errors"), "data"));
    count_answers(st, b);
    insert_batch(st, b);
}
