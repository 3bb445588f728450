/* SPDX-License-Identifier: MIT */
/* torch_file: where the bytes of each tensor of a pickle lie in its file.
 *
 * A tensor is a view of a storage: most lie in one piece and are read as they are; one with other
 * strides is gathered from the span of the storage that it touches. */
#include "base/mem.h"
#include "base/str.h"
#include "model/files/lfs_int.h"
#include "model/weights/safetensors_int.h"
#include "model/weights/torch_file_int.h"
#include "os/file.h"
#include "os/zip.h"

#include <assert.h>
#include <unistd.h>

enum { OLD_COUNT_BYTES = 8 }; /* of the count before each storage of an old file */
/* Bytes of a tensor that has to be gathered in memory. */
static const uint64_t SPAN_BYTES_MAX = 8ull << 30;

/* --- archives --- */
static enum rc to_buf(void *arg, const void *p, size_t len, struct err *err)
{
    struct buf *b = arg;

    buf_add(b, p, len);
    return b->over ? err_set(err, RC_LIMIT, "an entry is longer than %zu bytes", b->max) : RC_OK;
}

static enum rc entry_text(const struct zip *z, const struct zip_entry *e, size_t max,
                          struct buf *out, struct err *err)
{
    struct zip_sink sink = { .write = to_buf, .arg = out };

    buf_init(out, max);
    if (e->size > max)
        return err_set(err, RC_LIMIT, "entry '%.200s' is longer than %zu bytes", e->name, max);
    return zip_read(z, e, &sink, err);
}

/* The folder everything lies in: what stands before "/data.pkl". */
static enum rc folder_find(const struct zip *z, char *out, size_t cap, struct err *err)
{
    for (size_t i = 0; i < zip_count(z); i++) {
        const char *name = zip_at(z, i)->name, *slash = strchr(name, '/');

        if (slash && !strcmp(slash, "/data.pkl") && (size_t)(slash - name) < cap) {
            memcpy(out, name, (size_t)(slash - name));
            out[slash - name] = '\0';
            return RC_OK;
        }
    }
    return err_set(err, RC_PARSE, "it has no data.pkl");
}

static enum rc order_check(const struct zip *z, const char *folder, struct err *err)
{
    char name[ZIP_NAME_MAX + 16];
    const struct zip_entry *e;
    struct buf text = { 0 };
    enum rc rc;

    snprintf(name, sizeof(name), "%s/byteorder", folder);
    e = zip_find(z, name);
    if (!e)
        return RC_OK; /* written before torch noted it: little */
    rc = entry_text(z, e, 64, &text, err);
    if (!rc && strcmp(buf_str(&text), "little"))
        rc = err_set(err, RC_PARSE, "its numbers are not little-endian");
    buf_release(&text);
    return rc;
}

static enum rc place_in_zip(struct torch_file *f, const char *folder, size_t i, struct err *err)
{
    const struct pickle_tensor *t = &f->pickle.tensors[i];
    uint64_t size = st_dtype_bytes(t->dtype), bytes;
    char name[2 * ZIP_NAME_MAX + 16];
    const struct zip_entry *e;
    enum rc rc;

    snprintf(name, sizeof(name), "%s/data/%s", folder, t->storage);
    e = zip_find(f->zip, name);
    if (!e || e->deflated)
        return err_set(err, RC_PARSE, "tensor '%.200s': its storage '%.64s' is %s", t->name,
                       t->storage, e ? "compressed" : "missing");
    if (__builtin_mul_overflow(t->storage_count, size, &bytes) || bytes != e->size)
        return err_set(err, RC_PARSE,
                       "tensor '%.200s': storage '%.64s' has %llu bytes, not "
                       "%llu numbers of %s",
                       t->name, t->storage, (unsigned long long)e->size,
                       (unsigned long long)t->storage_count, st_dtype_name(t->dtype));
    rc = zip_place(f->zip, e, &f->places[i], err);
    if (!rc)
        f->places[i] += t->first * size;
    return rc;
}

static enum rc open_zip(struct torch_file *f, struct err *err)
{
    char folder[ZIP_NAME_MAX], name[ZIP_NAME_MAX + 16];
    struct buf text = { 0 };
    enum rc rc = folder_find(f->zip, folder, sizeof(folder), err);

    if (!rc)
        rc = order_check(f->zip, folder, err);
    if (rc)
        return rc;
    snprintf(name, sizeof(name), "%s/data.pkl", folder);
    rc = entry_text(f->zip, zip_find(f->zip, name), PICKLE_BYTES_MAX, &text, err);
    if (!rc)
        rc = pickle_parse((const uint8_t *)buf_str(&text), text.len, &f->pickle, err);
    buf_release(&text);
    f->places = xcalloc(f->pickle.count, sizeof(*f->places));
    for (size_t i = 0; i < f->pickle.count && !rc; i++)
        rc = place_in_zip(f, folder, i, err);
    return rc;
}

/* --- old files --- */
static int by_key(const void *a, const void *b)
{
    const struct pickle_storage *const *x = a, *const *y = b;

    return strcmp((*x)->key, (*y)->key);
}

/* Where each storage begins: they follow each other from `at`. */
static enum rc old_storages(const struct torch_file *f, uint64_t at, uint64_t *begins,
                            struct err *err)
{
    for (size_t i = 0; i < f->pickle.storages_count; i++) {
        const struct pickle_storage *s = &f->pickle.storages[i];
        uint64_t count, bytes;
        enum rc rc;

        if (f->size < OLD_COUNT_BYTES || at > f->size - OLD_COUNT_BYTES)
            return err_set(err, RC_PARSE, "the file ends before storage '%.64s'", s->key);
        rc = file_pread(f->fd, f->path, at, &count, sizeof(count), err);
        if (rc)
            return rc;
        at += OLD_COUNT_BYTES;
        if (count != s->count ||
            __builtin_mul_overflow(count, (uint64_t)st_dtype_bytes(s->dtype), &bytes) ||
            bytes > f->size - at)
            return err_set(err, RC_PARSE,
                           "storage '%.64s' has %llu numbers, the pickle wants %llu, the file has "
                           "%llu bytes left",
                           s->key, (unsigned long long)count, (unsigned long long)s->count,
                           (unsigned long long)(f->size - at));
        begins[i] = at;
        at += bytes;
    }
    return RC_OK;
}

/* Every storage of the pickle is in f->pickle.storages: tensors come only of those. */
static void old_places(struct torch_file *f, const uint64_t *begins)
{
    size_t n = f->pickle.storages_count;
    const struct pickle_storage **sorted = xcalloc(n, sizeof(*sorted));

    for (size_t i = 0; i < n; i++)
        sorted[i] = &f->pickle.storages[i];
    qsort(sorted, n, sizeof(*sorted), by_key);
    for (size_t i = 0; i < f->pickle.count; i++) {
        const struct pickle_tensor *t = &f->pickle.tensors[i];
        struct pickle_storage key = { .key = t->storage };
        const struct pickle_storage *want = &key;
        const struct pickle_storage **s = bsearch(&want, sorted, n, sizeof(*sorted), by_key);

        assert(s);
        f->places[i] =
            begins[*s - f->pickle.storages] + t->first * (uint64_t)st_dtype_bytes(t->dtype);
    }
    free(sorted);
}

static enum rc open_old(struct torch_file *f, struct err *err)
{
    size_t len = f->size < PICKLE_BYTES_MAX ? (size_t)f->size : PICKLE_BYTES_MAX, end = 0;
    uint8_t *head = xmalloc(len);
    uint64_t *begins;
    enum rc rc = file_pread(f->fd, f->path, 0, head, len, err);

    if (!rc)
        rc = pickle_parse_old(head, len, &f->pickle, &end, err);
    free(head);
    if (rc)
        return rc;
    f->places = xcalloc(f->pickle.count, sizeof(*f->places));
    begins = xcalloc(f->pickle.storages_count, sizeof(*begins));
    rc = old_storages(f, end, begins, err);
    if (!rc)
        old_places(f, begins);
    free(begins);
    return rc;
}

/* --- both --- */
/* Old files begin with a pickle, archives with "PK". */
static enum rc look_at_head(struct torch_file *f, bool *old, struct err *err)
{
    uint8_t head[8] = { 0 };
    enum rc rc = file_open(f->path, &f->fd, &f->size, err);

    if (!rc && f->size < sizeof(head))
        return err_set(err, RC_PARSE, "the file is too short");
    if (!rc)
        rc = file_pread(f->fd, f->path, 0, head, sizeof(head), err);
    if (!rc)
        rc = lfs_pointer_refuse(head, sizeof(head), err);
    if (rc)
        return rc;
    if (head[0] != 0x80 && memcmp(head, "PK", 2))
        return err_set(err, RC_PARSE, "it is no file of torch.save()");
    *old = head[0] == 0x80;
    return RC_OK;
}

enum rc torch_file_open(struct torch_file *f, const char *path, struct err *err)
{
    bool old = false;
    enum rc rc;

    *f = (struct torch_file){ .path = xstrdup(path), .fd = -1 };
    rc = look_at_head(f, &old, err);
    if (!rc && old)
        rc = open_old(f, err);
    if (!rc && !old) {
        close(f->fd);
        f->fd = -1;
        rc = zip_open(path, &f->zip, err);
        if (!rc) {
            f->fd = zip_fd(f->zip);
            rc = open_zip(f, err);
        }
    }
    if (rc) {
        err_ctx(err, "'%s'", path);
        torch_file_close(f);
    }
    return rc;
}

void torch_file_close(struct torch_file *f)
{
    if (f->zip)
        zip_close(f->zip);
    else if (f->fd >= 0)
        close(f->fd);
    free(f->places);
    free(f->path);
    pickle_release(&f->pickle);
    *f = (struct torch_file){ .fd = -1 };
}

/* Copies elements [first, first + count) of `t`, whose storage begins at `span`. */
static void gather_elements(const struct pickle_tensor *t, const unsigned char *span,
                            uint64_t first, size_t count, unsigned char *out)
{
    size_t size = st_dtype_bytes(t->dtype), at[ST_DIMS_MAX] = { 0 };
    uint64_t from = 0, left = first;

    for (size_t d = t->ndim; d-- > 0;) {
        at[d] = (size_t)(left % t->dims[d]);
        left /= t->dims[d];
        from += at[d] * t->strides[d];
    }
    for (size_t i = 0; i < count; i++) {
        memcpy(out + i * size, span + from * size, size);
        for (size_t d = t->ndim; d-- > 0;) {
            from += t->strides[d];
            if (++at[d] < t->dims[d])
                break;
            from -= at[d] * t->strides[d];
            at[d] = 0;
        }
    }
}

enum rc torch_file_read(const struct torch_file *f, size_t i, uint64_t first, size_t count,
                        void *out, unsigned char **span, struct err *err)
{
    const struct pickle_tensor *t = &f->pickle.tensors[i];
    uint64_t size = st_dtype_bytes(t->dtype), bytes = t->span * size;
    enum rc rc = RC_OK;

    assert(first <= t->count && count <= t->count - first);
    if (!count)
        return RC_OK;
    if (t->in_one_piece)
        return file_pread(f->fd, f->path, f->places[i] + first * size, out, count * size, err);
    if (bytes > SPAN_BYTES_MAX)
        return err_set(err, RC_LIMIT,
                       "'%s': tensor '%.200s' lies in pieces over %llu bytes; %llu "
                       "at most are gathered",
                       f->path, t->name, (unsigned long long)bytes,
                       (unsigned long long)SPAN_BYTES_MAX);
    if (!*span) {
        *span = xmalloc(bytes);
        rc = file_pread(f->fd, f->path, f->places[i], *span, bytes, err);
    }
    if (!rc)
        gather_elements(t, *span, first, count, out);
    return rc;
}
