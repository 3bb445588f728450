/* SPDX-License-Identifier: MIT */
/* All JSON and weight files of the folder and of its folders count (1_Pooling, 2_Dense,
 * 0_Transformer); links are followed, so a cache that links to its blobs is seen as what it links
 * to.  Reading and hashing whole weights would take longer than loading them. */
#include "model/files.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

struct file {
    const char *name; /* "config.json", "1_Pooling/config.json" */
    uint64_t bytes, number;
    int64_t time_ns;
};

struct files {
    struct arena arena;
    struct file *list; /* sorted by name */
    size_t count, cap;
};

static bool counts(const char *name)
{
    return str_ends(name, ".json") || str_ends(name, ".safetensors");
}

static enum rc add(struct files *f, const char *name, const struct stat *st, const char *dir,
                   struct err *err)
{
    if (f->count == MODEL_FILES_MAX)
        return err_set(err, RC_LIMIT, "'%s' holds more than %d files", dir, MODEL_FILES_MAX);
    VEC_GROW(f->list, f->count, f->cap);
    f->list[f->count++] =
        (struct file){ .name = arena_strdup(&f->arena, name),
                       .bytes = (uint64_t)st->st_size,
                       .number = (uint64_t)st->st_ino,
                       .time_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec };
    return RC_OK;
}

/* `sub` is "" or a folder below dir, with its slash. */
static enum rc look(struct files *f, const char *dir, const char *sub, struct err *err)
{
    char path[FILE_PATH_MAX], name[FILE_PATH_MAX];
    enum rc rc = file_join(path, sizeof(path), dir, sub, err);
    DIR *d = rc == RC_OK ? opendir(path) : NULL;
    struct dirent *e;

    if (!d)
        return rc != RC_OK ? rc : err_sys(err, "cannot open '%s'", path);
    while (rc == RC_OK && (e = readdir(d))) {
        struct stat st;
        if (e->d_name[0] == '.' || snprintf(name, sizeof(name), "%s%s", sub, e->d_name) < 0 ||
            file_join(path, sizeof(path), dir, name, NULL) || stat(path, &st) != 0)
            continue;
        if (S_ISREG(st.st_mode) && counts(e->d_name))
            rc = add(f, name, &st, dir, err);
        else if (S_ISDIR(st.st_mode) && !sub[0] &&
                 file_join(name, sizeof(name), e->d_name, "", NULL) == RC_OK)
            rc = look(f, dir, name, err);
    }
    closedir(d);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

enum rc files_look(const char *dir, struct files **out, struct err *err)
{
    struct files *f = xcalloc(1, sizeof(*f));
    enum rc rc = look(f, dir, "", err);

    if (rc != RC_OK) {
        files_free(f);
        return rc;
    }
    if (f->count)
        qsort(f->list, f->count, sizeof(*f->list), by_name);
    *out = f;
    return RC_OK;
}

void files_free(struct files *f)
{
    if (!f)
        return;
    arena_release(&f->arena);
    free(f->list);
    free(f);
}

const char *files_differ(const struct files *a, const struct files *b)
{
    for (size_t i = 0; i < a->count || i < b->count; i++) {
        if (i >= a->count || i >= b->count)
            return i < a->count ? a->list[i].name : b->list[i].name;
        const struct file *x = &a->list[i], *y = &b->list[i];
        int order = strcmp(x->name, y->name);
        if (order)
            return order < 0 ? x->name : y->name;
        if (x->bytes != y->bytes || x->number != y->number || x->time_ns != y->time_ns)
            return x->name;
    }
    return NULL;
}

static uint64_t mix(uint64_t h, const void *p, size_t len)
{
    const unsigned char *c = p;

    for (size_t i = 0; i < len; i++)
        h = (h ^ c[i]) * 1099511628211u;
    return h;
}

uint64_t files_hash(const struct files *f)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < f->count; i++) {
        const struct file *x = &f->list[i];
        h = mix(h, x->name, strlen(x->name) + 1);
        h = mix(h, &x->bytes, sizeof(x->bytes));
        h = mix(h, &x->number, sizeof(x->number));
        h = mix(h, &x->time_ns, sizeof(x->time_ns));
    }
    return h;
}
