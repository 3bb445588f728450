/* SPDX-License-Identifier: MIT */
/* safetensors: a file is
 *
 *     u64 length | JSON header of that length | tensors' bytes, one behind the other
 *
 * with all offsets counted from the end of the header, everything little-endian.  As the
 * format's own reader does, we want the tensors to cover the rest of the file: a hole, an
 * overlap or bytes behind the last tensor are a damaged file.
 *
 * Invariant: once st_open() has returned, offset + bytes of every tensor was inside its
 * shard and bytes == count * size of its type. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "model/files/lfs_int.h"
#include "model/weights/safetensors_int.h"

#include "model/weights/convert.h"
#include "model/weights/torch_file_int.h"
#include "os/file.h"

#include <assert.h>
#include <unistd.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "tensors are read as they lie in the file");

enum {
    ST_NAME_MAX = 1024,     /* bytes of a tensor's name */
    ST_CHUNK_MAX = 1 << 16, /* bytes converted at a time */
    ST_LEN_BYTES = 8        /* of the length before the header */
};

struct st_shard {
    char *path; /* owned */
    int fd;     /* -1: not open */
    uint64_t size;
};

struct st {
    struct arena arena; /* names */
    struct st_shard *shards;
    size_t shards_count, shards_cap;
    struct st_tensor *tensors; /* owned; sorted by name once open */
    size_t count, cap;
};

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [ST_F64] = { "F64", 8 },   [ST_F32] = { "F32", 4 }, [ST_F16] = { "F16", 2 },
    [ST_BF16] = { "BF16", 2 }, [ST_I64] = { "I64", 8 }, [ST_I32] = { "I32", 4 },
    [ST_I16] = { "I16", 2 },   [ST_I8] = { "I8", 1 },   [ST_U8] = { "U8", 1 },
    [ST_BOOL] = { "BOOL", 1 },
};

const char *st_dtype_name(enum st_dtype d)
{
    assert((size_t)d < ARRAY_SIZE(dtypes));
    return dtypes[d].name;
}

size_t st_dtype_bytes(enum st_dtype d)
{
    assert((size_t)d < ARRAY_SIZE(dtypes));
    return dtypes[d].bytes;
}

static bool dtype_parse(const char *name, enum st_dtype *out)
{
    for (size_t i = 0; name && i < ARRAY_SIZE(dtypes); i++) {
        if (!strcmp(name, dtypes[i].name)) {
            *out = (enum st_dtype)i;
            return true;
        }
    }
    return false;
}

/* --- one header --- */
static enum rc shape_parse(const struct json *shape, struct st_tensor *t, struct err *err)
{
    uint64_t count = 1;

    if (!shape || shape->type != JSON_ARR)
        return err_set(err, RC_PARSE, "'shape' is not a list");
    if (shape->count > ST_DIMS_MAX)
        return err_set(err, RC_LIMIT, "%zu dimensions; at most %d are read", shape->count,
                       ST_DIMS_MAX);
    for (const struct json *v = shape->first; v; v = v->next) {
        struct maybe dim = json_int(v);

        if (!dim.known || dim.v < 0)
            return err_set(err, RC_PARSE, "'shape' holds something other than a size");
        if (__builtin_mul_overflow(count, (uint64_t)dim.v, &count))
            return err_set(err, RC_PARSE, "'shape' is larger than any file");
        t->dims[t->ndim++] = (size_t)dim.v;
    }
    t->count = count;
    return RC_OK;
}

/* Sets offset and bytes; `base` is where the data begins, `room` how much there is. */
static enum rc place_parse(const struct json *v, uint64_t base, uint64_t room, struct st_tensor *t,
                           struct err *err)
{
    struct maybe first = json_int(json_at(v, 0)), end = json_int(json_at(v, 1));
    uint64_t bytes;

    if (!v || v->type != JSON_ARR || v->count != 2 || !first.known || !end.known || first.v < 0 ||
        end.v < first.v)
        return err_set(err, RC_PARSE, "'data_offsets' is not a pair of rising offsets");
    if ((uint64_t)end.v > room)
        return err_set(err, RC_PARSE, "'data_offsets' ends at %lld, the file's data at %llu",
                       (long long)end.v, (unsigned long long)room);
    if (__builtin_mul_overflow(t->count, st_dtype_bytes(t->dtype), &bytes))
        return err_set(err, RC_PARSE, "'shape' is larger than any file");
    if (bytes != (uint64_t)(end.v - first.v))
        return err_set(err, RC_PARSE, "shape and type want %llu bytes, 'data_offsets' spans %lld",
                       (unsigned long long)bytes, (long long)(end.v - first.v));
    t->offset = base + (uint64_t)first.v;
    t->bytes = bytes;
    return RC_OK;
}

static enum rc tensor_parse(const struct json *v, uint64_t base, uint64_t room, struct st_tensor *t,
                            struct err *err)
{
    const char *dtype = json_str(json_get(v, "dtype"));
    enum rc rc;

    if (v->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "is not described by an object");
    if (!dtype)
        return err_set(err, RC_PARSE, "'dtype' is not given");
    if (!dtype_parse(dtype, &t->dtype))
        return err_set(err, RC_PARSE, "dtype '%.32s' is not known", dtype);
    rc = shape_parse(json_get(v, "shape"), t, err);
    if (rc)
        return rc;
    return place_parse(json_get(v, "data_offsets"), base, room, t, err);
}

static int by_place(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Tensors of one shard must follow each other without holes and end with the file. */
static enum rc cover_check(struct st_tensor *t, size_t n, uint64_t base, uint64_t end,
                           struct err *err)
{
    uint64_t at = base;

    qsort(t, n, sizeof(*t), by_place);
    for (size_t i = 0; i < n; i++) {
        if (i && !strcmp(t[i].name, t[i - 1].name))
            return err_set(err, RC_PARSE, "tensor '%.200s' is there twice", t[i].name);
        if (t[i].offset < at && t[i].bytes)
            return err_set(err, RC_PARSE, "tensor '%s' overlaps tensor '%s'", t[i].name,
                           i ? t[i - 1].name : "");
        if (t[i].offset > at)
            return err_set(err, RC_PARSE, "%llu bytes before tensor '%s' belong to no tensor",
                           (unsigned long long)(t[i].offset - at), t[i].name);
        at = t[i].offset + t[i].bytes > at ? t[i].offset + t[i].bytes : at;
    }
    if (at != end)
        return err_set(err, RC_PARSE, "%llu bytes at the end belong to no tensor",
                       (unsigned long long)(end - at));
    return RC_OK;
}

static enum rc header_take(struct st *s, size_t shard, const struct json *head, uint64_t base,
                           struct err *err)
{
    uint64_t size = s->shards[shard].size;
    size_t first = s->count;

    if (head->type != JSON_OBJ)
        return err_set(err, RC_PARSE, "the header is not an object");
    for (const struct json *v = head->first; v; v = v->next) {
        struct st_tensor t = { .shard = shard };
        enum rc rc;

        if (!strcmp(v->key, "__metadata__"))
            continue;
        if (s->count == ST_TENSORS_MAX)
            return err_set(err, RC_LIMIT, "more than %d tensors", ST_TENSORS_MAX);
        if (!v->key[0] || strlen(v->key) > ST_NAME_MAX)
            return err_set(err, RC_LIMIT, "a tensor's name is empty or longer than %d bytes",
                           ST_NAME_MAX);
        t.name = v->key;
        rc = tensor_parse(v, base, size - base, &t, err);
        if (rc)
            return err_ctx(err, "tensor '%.200s'", v->key);
        t.name = arena_strdup(&s->arena, v->key);
        VEC_GROW(s->tensors, s->count, s->cap);
        s->tensors[s->count++] = t;
    }
    if (s->count == first)
        return err_set(err, RC_PARSE, "it holds no tensor");
    return cover_check(s->tensors + first, s->count - first, base, size, err);
}

static enum rc header_read(struct st *s, size_t shard, struct arena *a, struct err *err)
{
    struct st_shard *f = &s->shards[shard];
    struct json *head;
    uint64_t len;
    char *text;
    enum rc rc;

    if (f->size < ST_LEN_BYTES)
        return err_set(err, RC_PARSE, "the file is too short for a header");
    rc = file_pread(f->fd, f->path, 0, &len, sizeof(len), err);
    if (rc)
        return rc;
    rc = lfs_pointer_refuse(&len, sizeof(len), err);
    if (rc)
        return rc;
    if (len > f->size - ST_LEN_BYTES)
        return err_set(err, RC_PARSE, "the header wants %llu bytes, the file has %llu",
                       (unsigned long long)len, (unsigned long long)(f->size - ST_LEN_BYTES));
    if (len > ST_HEADER_MAX)
        return err_set(err, RC_LIMIT, "a header of %llu bytes; at most %d are read",
                       (unsigned long long)len, ST_HEADER_MAX);
    text = xmalloc(len);
    rc = file_pread(f->fd, f->path, ST_LEN_BYTES, text, len, err);
    if (!rc) {
        rc = json_parse(a, text, len, &head, err);
        if (rc)
            err_ctx(err, "header");
    }
    free(text);
    return rc ? rc : header_take(s, shard, head, ST_LEN_BYTES + len, err);
}

static enum rc shard_add(struct st *s, const char *path, struct err *err)
{
    struct arena a = { 0 };
    struct st_shard *f;
    enum rc rc;

    VEC_GROW(s->shards, s->shards_count, s->shards_cap);
    f = &s->shards[s->shards_count++];
    *f = (struct st_shard){ .path = xstrdup(path), .fd = -1 };
    rc = file_open(path, &f->fd, &f->size, err);
    if (rc)
        return rc;
    rc = header_read(s, s->shards_count - 1, &a, err);
    arena_release(&a);
    return rc ? err_ctx(err, "'%s'", path) : RC_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static enum rc sort_names(struct st *s, struct err *err)
{
    qsort(s->tensors, s->count, sizeof(*s->tensors), by_name);
    for (size_t i = 1; i < s->count; i++) {
        const struct st_tensor *t = &s->tensors[i];

        if (!strcmp(t[-1].name, t->name))
            return err_set(err, RC_PARSE, "'%s': tensor '%.200s' is there twice",
                           s->shards[t->shard].path, t->name);
    }
    return RC_OK;
}

enum rc st_open_file(const char *path, struct st **out, struct err *err)
{
    struct st *s = xcalloc(1, sizeof(*s));
    enum rc rc = shard_add(s, path, err);

    if (!rc)
        rc = sort_names(s, err);
    if (rc)
        st_close(s);
    else
        *out = s;
    return rc;
}

/* --- shards --- */
bool st_shard_name_ok(const char *name)
{
    return name && name[0] && name[0] != '.' && !strchr(name, '/') && strlen(name) <= 255;
}

enum rc st_index_check(const struct json *map, struct err *err)
{
    if (!map || map->type != JSON_OBJ || !map->count)
        return err_set(err, RC_PARSE, "'weight_map' is not an object with tensors");
    if (map->count > ST_TENSORS_MAX)
        return err_set(err, RC_LIMIT, "'weight_map' has more than %d tensors", ST_TENSORS_MAX);
    return RC_OK;
}

static enum rc shard_find(struct st *s, const char *dir, const char *name, size_t *out,
                          struct err *err)
{
    char path[FILE_PATH_MAX];
    enum rc rc = file_join(path, sizeof(path), dir, name, err);

    if (rc)
        return rc;
    for (size_t i = 0; i < s->shards_count; i++) {
        if (!strcmp(s->shards[i].path, path)) {
            *out = i;
            return RC_OK;
        }
    }
    if (s->shards_count == ST_SHARDS_MAX)
        return err_set(err, RC_LIMIT, "more than %d shards", ST_SHARDS_MAX);
    rc = shard_add(s, path, err);
    if (!rc)
        *out = s->shards_count - 1;
    return rc;
}

static enum rc index_open(struct st *s, const char *dir, const struct json *map, struct err *err)
{
    size_t shard;
    enum rc rc;

    rc = st_index_check(map, err);
    if (rc)
        return rc;
    for (const struct json *v = map->first; v; v = v->next) {
        if (!st_shard_name_ok(json_str(v)))
            return err_set(err, RC_PARSE, "'weight_map' gives no file name for tensor '%.200s'",
                           v->key);
        rc = shard_find(s, dir, json_str(v), &shard, err);
        if (rc)
            return rc;
    }
    return sort_names(s, err);
}

static enum rc index_check(const struct st *s, const struct json *map, struct err *err)
{
    for (const struct json *v = map->first; v; v = v->next) {
        const struct st_tensor *t = st_find(s, v->key);

        if (!t || !str_eq(strrchr(s->shards[t->shard].path, '/') + 1, json_str(v)))
            return err_set(err, RC_PARSE, "tensor '%.200s' is not in its shard '%s'", v->key,
                           json_str(v));
    }
    return RC_OK;
}

static enum rc open_index(const char *dir, const char *path, struct st **out, struct err *err)
{
    struct st *s = xcalloc(1, sizeof(*s));
    struct arena a = { 0 };
    struct buf text = { .max = ST_HEADER_MAX + 1 };
    struct json *index;
    enum rc rc = file_read(path, ST_HEADER_MAX, &text, err);

    if (rc)
        goto release;
    rc = lfs_pointer_refuse(buf_str(&text), text.len, err);
    if (!rc)
        rc = json_parse(&a, buf_str(&text), text.len, &index, err);
    if (!rc)
        rc = index_open(s, dir, json_get(index, "weight_map"), err);
    if (!rc)
        rc = index_check(s, json_get(index, "weight_map"), err);
    if (rc)
        err_ctx(err, "'%s'", path);
release:
    buf_release(&text);
    arena_release(&a);
    if (rc)
        st_close(s);
    else
        *out = s;
    return rc;
}

enum rc st_open(const char *dir, struct st **out, struct err *err)
{
    char path[FILE_PATH_MAX];
    enum rc rc;

    rc = file_join(path, sizeof(path), dir, "model.safetensors.index.json", err);
    if (rc)
        return rc;
    if (file_exists(path))
        return open_index(dir, path, out, err);
    rc = file_join(path, sizeof(path), dir, "model.safetensors", err);
    if (rc)
        return rc;
    if (file_exists(path))
        return st_open_file(path, out, err);
    if (torch_found(dir))
        err_hint(err, "Run 'stoker model convert %s' to make one of pytorch_model.bin.", dir);
    return err_set(err, RC_NODEV, "there is no model.safetensors in '%s'", dir);
}

void st_close(struct st *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->shards_count; i++) {
        if (s->shards[i].fd >= 0)
            close(s->shards[i].fd);
        free(s->shards[i].path);
    }
    free(s->shards);
    free(s->tensors);
    arena_release(&s->arena);
    free(s);
}

/* --- looking up and reading --- */
size_t st_count(const struct st *s)
{
    return s->count;
}

const struct st_tensor *st_at(const struct st *s, size_t i)
{
    assert(i < s->count);
    return &s->tensors[i];
}

const struct st_tensor *st_find(const struct st *s, const char *name)
{
    struct st_tensor key = { .name = name };

    return s->count ? bsearch(&key, s->tensors, s->count, sizeof(key), by_name) : NULL;
}

size_t st_shards(const struct st *s)
{
    return s->shards_count;
}

const char *st_shard_path(const struct st *s, size_t i)
{
    assert(i < s->shards_count);
    return s->shards[i].path;
}

enum rc st_read(const struct st *s, const struct st_tensor *t, uint64_t first_byte, uint64_t count,
                void *out, struct err *err)
{
    const struct st_shard *f = &s->shards[t->shard];
    enum rc rc;

    assert(first_byte <= t->bytes && count <= t->bytes - first_byte);
    rc = file_pread(f->fd, f->path, t->offset + first_byte, out, count, err);
    return rc ? err_ctx(err, "tensor '%.200s'", t->name) : RC_OK;
}

/* `n` elements of type `d` at `from`, which has no alignment, to f32. */
static void widen_elements(enum st_dtype d, const unsigned char *from, size_t n, float *out)
{
#define WIDEN(type, expression)                                                                    \
    for (size_t i = 0; i < n; i++) {                                                               \
        type x;                                                                                    \
                                                                                                   \
        memcpy(&x, from + i * sizeof(x), sizeof(x));                                               \
        out[i] = (expression);                                                                     \
    }                                                                                              \
    break

    switch (d) {
    case ST_F64:
        WIDEN(double, (float)x);
    case ST_F32:
        memcpy(out, from, n * sizeof(*out));
        break;
    case ST_F16:
        st_f16s_to_f32(from, n, out);
        break;
    case ST_BF16:
        st_bf16s_to_f32(from, n, out);
        break;
    case ST_I64:
        WIDEN(int64_t, (float)x);
    case ST_I32:
        WIDEN(int32_t, (float)x);
    case ST_I16:
        WIDEN(int16_t, (float)x);
    case ST_I8:
        WIDEN(int8_t, (float)x);
    case ST_U8:
        WIDEN(uint8_t, (float)x);
    case ST_BOOL:
        WIDEN(uint8_t, x ? 1.0f : 0.0f);
    }
#undef WIDEN
}

enum rc st_read_f32(const struct st *s, const struct st_tensor *t, uint64_t first, uint64_t count,
                    float *out, struct err *err)
{
    size_t size = st_dtype_bytes(t->dtype), step = ST_CHUNK_MAX / size;
    unsigned char *chunk;
    enum rc rc = RC_OK;

    assert(first <= t->count && count <= t->count - first);
    if (t->dtype == ST_F32)
        return st_read(s, t, first * size, count * size, out, err);
    chunk = xmalloc(ST_CHUNK_MAX);
    while (count && !rc) {
        size_t n = count < step ? (size_t)count : step;

        rc = st_read(s, t, first * size, n * size, chunk, err);
        if (!rc)
            widen_elements(t->dtype, chunk, n, out);
        first += n;
        count -= n;
        out += n;
    }
    free(chunk);
    return rc;
}
