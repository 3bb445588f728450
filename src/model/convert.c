/* SPDX-License-Identifier: MIT */
/* convert: pytorch_model.bin to model.safetensors.
 *
 * Since version 1.6 torch writes a zip with one folder: data.pkl, which names the tensors,
 * data/<key> with a storage each, byteorder.  Bytes are copied as they are. */
#include "base/mem.h"
#include "base/str.h"
#include "model/pickle.h"
#include "os/file.h"
#include "os/zip.h"

#include <unistd.h>

struct conversion {
    struct zip *zip;
    struct pickle pickle;
    uint64_t *places; /* of each tensor's first byte in the archive */
    void (*progress)(uint64_t done, uint64_t total);
    uint64_t done, total;
};

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

static enum rc places_find(struct conversion *c, const char *folder, struct err *err)
{
    c->places = xcalloc(c->pickle.count, sizeof(*c->places));
    for (size_t i = 0; i < c->pickle.count; i++) {
        const struct pickle_tensor *t = &c->pickle.tensors[i];
        uint64_t size = st_dtype_bytes(t->dtype), bytes;
        char name[2 * ZIP_NAME_MAX + 16];
        const struct zip_entry *e;
        enum rc rc;

        snprintf(name, sizeof(name), "%s/data/%s", folder, t->storage);
        e = zip_find(c->zip, name);
        if (!e || e->deflated)
            return err_set(err, RC_PARSE, "tensor '%.200s': its storage '%.64s' is %s", t->name,
                           t->storage, e ? "compressed" : "missing");
        if (__builtin_mul_overflow(t->storage_count, size, &bytes) || bytes != e->size)
            return err_set(err, RC_PARSE,
                           "tensor '%.200s': storage '%.64s' has %llu bytes, not "
                           "%llu numbers of %s",
                           t->name, t->storage, (unsigned long long)e->size,
                           (unsigned long long)t->storage_count, st_dtype_name(t->dtype));
        rc = zip_place(c->zip, e, &c->places[i], err);
        if (rc)
            return rc;
        c->places[i] += t->first * size;
        c->total += t->count * size;
    }
    return RC_OK;
}

static enum rc fill(void *arg, size_t i, uint64_t first, void *out, size_t count, struct err *err)
{
    struct conversion *c = arg;

    c->done += count;
    if (c->progress)
        c->progress(c->done, c->total);
    return file_pread(zip_fd(c->zip), zip_path(c->zip), c->places[i] + first, out, count, err);
}

static enum rc tensors_write(struct conversion *c, const char *path, struct err *err)
{
    struct st_new *list = xcalloc(c->pickle.count, sizeof(*list));
    struct st_source from = { .fill = fill, .arg = c };
    enum rc rc;

    for (size_t i = 0; i < c->pickle.count; i++) {
        const struct pickle_tensor *t = &c->pickle.tensors[i];

        list[i] = (struct st_new){ .name = t->name, .dtype = t->dtype, .ndim = t->ndim };
        memcpy(list[i].dims, t->dims, sizeof(t->dims));
    }
    rc = st_write(path, list, c->pickle.count, &from, err);
    free(list);
    return rc;
}

static enum rc archive_read(struct conversion *c, struct err *err)
{
    char folder[ZIP_NAME_MAX], name[ZIP_NAME_MAX + 16];
    struct buf text = { 0 };
    enum rc rc = folder_find(c->zip, folder, sizeof(folder), err);

    if (!rc)
        rc = order_check(c->zip, folder, err);
    if (rc)
        return rc;
    snprintf(name, sizeof(name), "%s/data.pkl", folder);
    rc = entry_text(c->zip, zip_find(c->zip, name), PICKLE_BYTES_MAX, &text, err);
    if (!rc)
        rc = pickle_parse((const uint8_t *)buf_str(&text), text.len, &c->pickle, err);
    buf_release(&text);
    return rc ? rc : places_find(c, folder, err);
}

/* Files of torch before 1.6 begin with a pickle. */
static bool is_old(const char *path)
{
    uint8_t head[2] = { 0 };
    int fd;

    if (file_open(path, &fd, NULL, NULL))
        return false;
    if (file_pread(fd, path, 0, head, sizeof(head), NULL))
        head[0] = 0;
    close(fd);
    return head[0] == 0x80;
}

enum rc pickle_convert(const char *dir, size_t *out_count,
                       void (*progress)(uint64_t done, uint64_t total), struct err *err)
{
    struct conversion c = { .progress = progress };
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX];
    enum rc rc = file_join(from, sizeof(from), dir, "pytorch_model.bin", err);

    if (!rc)
        rc = file_join(to, sizeof(to), dir, "model.safetensors", err);
    if (rc)
        return rc;
    if (is_old(from)) {
        err_hint(err, "Load it with torch.load() and write it again with torch.save().");
        return err_set(err, RC_PARSE, "'%s' is of torch before 1.6; its files are not read", from);
    }
    rc = zip_open(from, &c.zip, err);
    if (rc)
        return rc;
    rc = archive_read(&c, err);
    if (rc)
        err_ctx(err, "'%s'", from);
    if (!rc)
        rc = tensors_write(&c, to, err);
    if (!rc)
        *out_count = c.pickle.count;
    free(c.places);
    pickle_release(&c.pickle);
    zip_close(c.zip);
    return rc;
}
