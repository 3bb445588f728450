/* SPDX-License-Identifier: MIT */
/* safetensors_write: a file of named tensors, whole or not at all.
 *
 * Tensors lie by falling size of their type, then by name, and the header is padded to a
 * multiple of eight: every tensor is aligned for its type, as the format's own writer has
 * it.  The bytes come from the caller piece by piece, so memory does not grow with the
 * file. */
#include "base/mem.h"
#include "base/text/json.h"
#include "model/weights/safetensors_int.h"
#include "os/file.h"

#include <assert.h>
#include <unistd.h>

enum { ST_WRITE_CHUNK = 1 << 20, ST_ALIGN = 8 };

struct tensor_slot {
    const struct st_new *t;
    size_t index; /* in the caller's list */
    uint64_t bytes;
};

static int by_size_name(const void *a, const void *b)
{
    const struct tensor_slot *x = a, *y = b;
    size_t xs = st_dtype_bytes(x->t->dtype), ys = st_dtype_bytes(y->t->dtype);

    if (xs != ys)
        return xs > ys ? -1 : 1;
    return strcmp(x->t->name, y->t->name);
}

static enum rc slot_set(struct tensor_slot *s, const struct st_new *t, size_t index,
                        struct err *err)
{
    uint64_t bytes = st_dtype_bytes(t->dtype);

    assert(t->ndim <= ST_DIMS_MAX);
    for (size_t i = 0; i < t->ndim; i++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)t->dims[i], &bytes))
            return err_set(err, RC_LIMIT, "tensor '%.200s' is larger than any file", t->name);
    }
    *s = (struct tensor_slot){ .t = t, .index = index, .bytes = bytes };
    return RC_OK;
}

static void header_build(const struct tensor_slot *slots, size_t count, struct buf *out)
{
    struct json_out w;
    uint64_t at = 0;

    json_out_init(&w, out, 0);
    json_obj(&w);
    json_kv_obj(&w, "__metadata__");
    json_kv_str(&w, "format", "pt");
    json_obj_end(&w);
    for (size_t i = 0; i < count; i++) {
        const struct st_new *t = slots[i].t;

        json_kv_obj(&w, t->name);
        json_kv_str(&w, "dtype", st_dtype_name(t->dtype));
        json_kv_arr(&w, "shape");
        for (size_t d = 0; d < t->ndim; d++)
            json_add_uint(&w, t->dims[d]);
        json_arr_end(&w);
        json_kv_arr(&w, "data_offsets");
        json_add_uint(&w, at);
        at += slots[i].bytes;
        json_add_uint(&w, at);
        json_arr_end(&w);
        json_obj_end(&w);
    }
    json_obj_end(&w);
    buf_fill(out, ' ', (ST_ALIGN - out->len % ST_ALIGN) % ST_ALIGN);
}

static enum rc data_write(int fd, const char *path, const struct tensor_slot *s,
                          const struct st_source *from, struct err *err)
{
    unsigned char *chunk = xmalloc(ST_WRITE_CHUNK);
    enum rc rc = RC_OK;

    for (uint64_t at = 0; at < s->bytes && !rc;) {
        size_t n = s->bytes - at < ST_WRITE_CHUNK ? (size_t)(s->bytes - at) : ST_WRITE_CHUNK;

        rc = from->fill(from->arg, s->index, at, chunk, n, err);
        if (!rc)
            rc = file_write(fd, path, chunk, n, err);
        at += n;
    }
    free(chunk);
    return rc;
}

static enum rc all_write(int fd, const char *path, const struct tensor_slot *slots, size_t count,
                         const struct st_source *from, struct err *err)
{
    struct buf head = { 0 };
    uint64_t len;
    enum rc rc = RC_OK;

    header_build(slots, count, &head);
    len = head.len;
    if (head.over || len > ST_HEADER_MAX)
        rc = err_set(err, RC_LIMIT, "the header of '%s' would be longer than %d bytes", path,
                     ST_HEADER_MAX);
    if (!rc)
        rc = file_write(fd, path, &len, sizeof(len), err);
    if (!rc)
        rc = file_write(fd, path, head.data, head.len, err);
    buf_release(&head);
    for (size_t i = 0; i < count && !rc; i++)
        rc = data_write(fd, path, &slots[i], from, err);
    return rc;
}

enum rc st_write(const char *path, const struct st_new *list, size_t count,
                 const struct st_source *from, struct err *err)
{
    struct tensor_slot *slots = xcalloc(count, sizeof(*slots));
    struct file_new f = { .fd = -1 };
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && !rc; i++)
        rc = slot_set(&slots[i], &list[i], i, err);
    if (!rc)
        rc = file_new_open(&f, path, err);
    if (rc)
        goto free_slots;
    qsort(slots, count, sizeof(*slots), by_size_name);
    rc = all_write(f.fd, path, slots, count, from, err);
    rc = file_new_close(&f, rc, err);
free_slots:
    free(slots);
    return rc;
}
