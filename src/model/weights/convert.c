/* SPDX-License-Identifier: MIT */
/* convert: pytorch_model.bin, in one file or in shards, to model.safetensors.
 *
 * Numbers are copied as they are.  A view is written as the tensor it shows, a tensor under
 * two names twice.  Memory holds one tensor at most, and only when it does not lie in one
 * piece. */
#include "model/weights/convert.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "model/weights/safetensors_int.h"
#include "model/weights/torch_file_int.h"
#include "os/file.h"

#include <unistd.h>

static const char one_name[] = "pytorch_model.bin", index_name[] = "pytorch_model.bin.index.json";

enum { CONVERT_TIMES_MAX = 8, CONVERT_INDEX_MAX = 32 << 20 }; /* output to input; index's bytes */

struct convert_source { /* of a tensor to write */
    size_t file, tensor;
};

struct conversion {
    struct torch_file *files;
    size_t files_count, files_cap;
    struct st_new *list;
    struct convert_source *from; /* beside list */
    struct st_new *sorted;       /* list by name */
    size_t count;
    void (*progress)(uint64_t done, uint64_t total);
    uint64_t done, total;
    unsigned char *span; /* of tensor `span_of` */
    size_t span_of;
};

/* --- opening --- */
static enum rc file_add(struct conversion *c, const char *dir, const char *name, struct err *err)
{
    char path[FILE_PATH_MAX];
    enum rc rc = file_join(path, sizeof(path), dir, name, err);

    if (rc)
        return rc;
    VEC_GROW(c->files, c->files_count, c->files_cap);
    rc = torch_file_open(&c->files[c->files_count], path, err);
    if (!rc)
        c->files_count++;
    return rc;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static enum rc shards_add(struct conversion *c, const char *dir, const struct json *map,
                          struct err *err)
{
    enum rc rc = st_index_check(map, err);

    if (rc)
        return rc;
    for (const struct json *v = map->first; v; v = v->next) {
        const char *name = json_str(v);
        size_t i = 0;

        if (!st_shard_name_ok(name))
            return err_set(err, RC_PARSE, "'weight_map' gives no file name for tensor '%.200s'",
                           v->key);
        while (i < c->files_count && strcmp(last_part(c->files[i].path), name))
            i++;
        if (i < c->files_count)
            continue;
        if (i == ST_SHARDS_MAX)
            return err_set(err, RC_LIMIT, "more than %d shards", ST_SHARDS_MAX);
        rc = file_add(c, dir, name, err);
        if (rc)
            return rc;
    }
    return RC_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct st_new *x = a, *y = b;

    return strcmp(x->name, y->name);
}

/* Every tensor that the index names must have come. */
static enum rc index_check(const struct conversion *c, const struct json *map, struct err *err)
{
    for (const struct json *v = map->first; v; v = v->next) {
        struct st_new key = { .name = v->key };

        if (!bsearch(&key, c->sorted, c->count, sizeof(key), by_name))
            return err_set(err, RC_PARSE, "tensor '%.200s' is not in its shard '%s'", v->key,
                           json_str(v));
    }
    return RC_OK;
}

/* --- the list of what is written --- */
static enum rc names_check(struct conversion *c, struct err *err)
{
    const struct st_new *t = c->sorted = xcalloc(c->count, sizeof(*c->sorted));

    memcpy(c->sorted, c->list, c->count * sizeof(*c->sorted));
    qsort(c->sorted, c->count, sizeof(*c->sorted), by_name);
    for (size_t i = 0; i < c->count; i++) {
        if (i && !strcmp(t[i - 1].name, t[i].name))
            return err_set(err, RC_PARSE, "tensor '%.200s' is there twice", t[i].name);
        if (!strcmp(t[i].name, "__metadata__"))
            return err_set(err, RC_PARSE, "a tensor has the name '%s'", t[i].name);
    }
    return RC_OK;
}

/* Many names for one storage must not fill a disk. */
static enum rc size_check(const struct conversion *c, struct err *err)
{
    const uint64_t least = 64 << 20;
    uint64_t read = 0;

    for (size_t i = 0; i < c->files_count; i++)
        read += c->files[i].size;
    if (c->total <= least || c->total / CONVERT_TIMES_MAX <= read)
        return RC_OK;
    return err_set(err, RC_LIMIT, "its tensors would take %llu bytes, above %d times the file",
                   (unsigned long long)c->total, CONVERT_TIMES_MAX);
}

static enum rc list_make(struct conversion *c, struct err *err)
{
    size_t all = 0;
    enum rc rc;

    for (size_t i = 0; i < c->files_count; i++)
        all += c->files[i].pickle.count;
    if (all > ST_TENSORS_MAX)
        return err_set(err, RC_LIMIT, "more than %d tensors", ST_TENSORS_MAX);
    c->list = xcalloc(all, sizeof(*c->list));
    c->from = xcalloc(all, sizeof(*c->from));
    for (size_t i = 0; i < c->files_count; i++) {
        for (size_t k = 0; k < c->files[i].pickle.count; k++) {
            const struct pickle_tensor *t = &c->files[i].pickle.tensors[k];
            struct st_new *n = &c->list[c->count];
            uint64_t bytes;

            *n = (struct st_new){ .name = t->name, .dtype = t->dtype, .ndim = t->ndim };
            memcpy(n->dims, t->dims, sizeof(t->dims));
            c->from[c->count++] = (struct convert_source){ .file = i, .tensor = k };
            if (__builtin_mul_overflow(t->count, (uint64_t)st_dtype_bytes(t->dtype), &bytes) ||
                __builtin_add_overflow(c->total, bytes, &c->total))
                return err_set(err, RC_LIMIT, "tensor '%.200s' is larger than any file", t->name);
        }
    }
    rc = names_check(c, err);
    return rc ? rc : size_check(c, err);
}

static enum rc index_open(struct conversion *c, const char *dir, const char *path, struct err *err)
{
    struct buf text = { 0 };
    struct arena a = { 0 };
    struct json *index;
    enum rc rc;

    buf_init(&text, CONVERT_INDEX_MAX);
    rc = file_read(path, CONVERT_INDEX_MAX, &text, err);
    if (!rc) {
        rc = json_parse(&a, buf_str(&text), text.len, &index, err);
        if (!rc)
            rc = shards_add(c, dir, json_get(index, "weight_map"), err);
        if (!rc)
            rc = list_make(c, err);
        if (!rc)
            rc = index_check(c, json_get(index, "weight_map"), err);
        if (rc)
            err_ctx(err, "'%s'", path);
    }
    buf_release(&text);
    arena_release(&a);
    return rc;
}

/* --- writing --- */
static enum rc fill_tensor(void *arg, size_t i, uint64_t first, void *out, size_t count,
                           struct err *err)
{
    struct conversion *c = arg;
    size_t size = st_dtype_bytes(c->list[i].dtype);

    c->done += count;
    if (c->progress)
        c->progress(c->done, c->total);
    if (i != c->span_of) {
        free(c->span);
        c->span = NULL;
        c->span_of = i;
    }
    return torch_file_read(&c->files[c->from[i].file], c->from[i].tensor, first / size,
                           count / size, out, &c->span, err);
}

bool torch_found(const char *dir)
{
    return file_exists_in(dir, one_name) || file_exists_in(dir, index_name);
}

enum rc torch_convert(const char *dir, size_t *out_count,
                      void (*progress)(uint64_t done, uint64_t total), struct err *err)
{
    struct conversion c = { .progress = progress };
    struct st_source from = { .fill = fill_tensor, .arg = &c };
    char path[FILE_PATH_MAX], to[FILE_PATH_MAX];
    enum rc rc = file_join(path, sizeof(path), dir, index_name, err);

    if (!rc)
        rc = file_join(to, sizeof(to), dir, "model.safetensors", err);
    if (!rc && file_exists(path)) {
        rc = index_open(&c, dir, path, err);
    } else if (!rc) {
        rc = file_add(&c, dir, one_name, err);
        if (!rc) {
            rc = list_make(&c, err);
            if (rc)
                err_ctx(err, "'%s'", c.files[0].path);
        }
    }
    if (!rc)
        rc = st_write(to, c.list, c.count, &from, err);
    if (!rc)
        *out_count = c.count;
    for (size_t i = 0; i < c.files_count; i++)
        torch_file_close(&c.files[i]);
    free(c.files);
    free(c.list);
    free(c.from);
    free(c.sorted);
    free(c.span);
    return rc;
}
