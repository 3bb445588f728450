/* SPDX-License-Identifier: MIT */
/* All JSON and weight files of the folder and of its folders are looked at (1_Pooling, 2_Dense,
 * 0_Transformer); links are followed, so a cache that links to its blobs is seen as what it links
 * to, and the links themselves count in the look.  Summed is only what the model was read from:
 * other files beside it (a README, weights of another format) are not its identity. */
#include "model/files/files.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/files/sums_int.h"
#include "model/model.h"
#include "os/clock.h"
#include "os/file.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILES_LINE_MAX = FILE_PATH_MAX + SHA256_HEX + 4 };

struct seen_file { /* of an inode */
    uint64_t device, number, bytes;
    int64_t written_ns, changed_ns;
};

struct file {
    const char *name; /* "config.json", "1_Pooling/config.json" */
    struct seen_file of;
    struct seen_file link; /* all zero: it is no link */
    bool summed;
    uint8_t sum[SHA256_BYTES];
};

struct files {
    struct arena arena;
    _Atomic size_t refs;
    const char *dir;
    struct file *list; /* sorted by name */
    size_t count, cap;
};

/* ---- looking */

static bool file_counts(const char *name)
{
    return str_ends(name, ".json") || str_ends(name, ".safetensors");
}

static int64_t time_of(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static struct seen_file seen_of(const struct stat *st)
{
    return (struct seen_file){ .device = (uint64_t)st->st_dev,
                               .number = (uint64_t)st->st_ino,
                               .bytes = (uint64_t)st->st_size,
                               .written_ns = time_of(st->st_mtim),
                               .changed_ns = time_of(st->st_ctim) };
}

static bool same_seen(const struct seen_file *a, const struct seen_file *b)
{
    return a->device == b->device && a->number == b->number && a->bytes == b->bytes &&
           a->written_ns == b->written_ns && a->changed_ns == b->changed_ns;
}

static enum rc add_file(struct files *f, const char *name, const char *path, const struct stat *st,
                        struct err *err)
{
    struct stat link;

    if (f->count == MODEL_FILES_MAX)
        return err_set(err, RC_LIMIT, "'%s' holds more than %d files", f->dir, MODEL_FILES_MAX);
    VEC_GROW(f->list, f->count, f->cap);
    struct file *one = &f->list[f->count++];
    *one = (struct file){ .name = arena_strdup(&f->arena, name), .of = seen_of(st) };
    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
        one->link = seen_of(&link);
    return RC_OK;
}

/* `sub` is "" or a folder below dir, with its slash. */
static enum rc look_at_file(struct files *f, const char *sub, struct err *err)
{
    char path[FILE_PATH_MAX], name[FILE_PATH_MAX];
    enum rc rc = file_join(path, sizeof(path), f->dir, sub, err);
    DIR *d = rc == RC_OK ? opendir(path) : NULL;
    struct dirent *e;

    if (!d)
        return rc != RC_OK ? rc : err_sys(err, "cannot open '%s'", path);
    while (rc == RC_OK && (e = readdir(d))) {
        struct stat st;
        if (e->d_name[0] == '.' || snprintf(name, sizeof(name), "%s%s", sub, e->d_name) < 0 ||
            file_join(path, sizeof(path), f->dir, name, NULL) || stat(path, &st) != 0)
            continue;
        if (S_ISREG(st.st_mode) && file_counts(e->d_name))
            rc = add_file(f, name, path, &st, err);
        else if (S_ISDIR(st.st_mode) && !sub[0] &&
                 file_join(name, sizeof(name), e->d_name, "", NULL) == RC_OK)
            rc = look_at_file(f, name, err);
    }
    closedir(d);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t); /* as inodes have it */
    return time_of(t);
}

/* What is written behind this has another time than what was seen. */
static void wait_tick(const struct files *f)
{
    int64_t newest = INT64_MIN, left;

    for (size_t i = 0; i < f->count; i++) {
        const struct file *x = &f->list[i];
        int64_t t = x->link.changed_ns > x->of.changed_ns ? x->link.changed_ns : x->of.changed_ns;
        newest = t > newest ? t : newest;
    }
    left = f->count ? FILES_TICK_MS * 1000000LL - (now_ns() - newest) : 0;
    if (left > 0 && left <= FILES_TICK_MS * 1000000LL)
        (void)nanosleep(&(struct timespec){ .tv_nsec = left }, NULL);
}

enum rc files_look(const char *dir, struct files **out, struct err *err)
{
    struct files *f = xcalloc(1, sizeof(*f));
    enum rc rc;

    atomic_init(&f->refs, 1);
    f->dir = arena_strdup(&f->arena, dir);
    rc = look_at_file(f, "", err);
    if (rc != RC_OK) {
        files_free(f);
        return rc;
    }
    if (f->count)
        qsort(f->list, f->count, sizeof(*f->list), by_name);
    wait_tick(f);
    *out = f;
    return RC_OK;
}

struct files *files_ref(struct files *f)
{
    atomic_fetch_add(&f->refs, 1);
    return f;
}

void files_free(struct files *f)
{
    if (!f || atomic_fetch_sub(&f->refs, 1) != 1)
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
        if (!same_seen(&x->of, &y->of) || !same_seen(&x->link, &y->link))
            return x->name;
    }
    return NULL;
}

/* ---- sums that are kept */

struct kept_sum {
    struct seen_file of;
    uint8_t sum[SHA256_BYTES];
};

struct files_cache {
    pthread_mutex_t lock;
    struct kept_sum *list; /* a ring once it is full */
    size_t count, cap, next;
};

struct files_cache *files_cache_new(void)
{
    struct files_cache *c = xcalloc(1, sizeof(*c));

    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void files_cache_free(struct files_cache *c)
{
    if (!c)
        return;
    pthread_mutex_destroy(&c->lock);
    free(c->list);
    free(c);
}

static bool cache_get(struct files_cache *c, const struct seen_file *of, uint8_t out[SHA256_BYTES])
{
    bool found = false;

    if (!c)
        return false;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < c->count && !found; i++)
        if (same_seen(&c->list[i].of, of)) {
            memcpy(out, c->list[i].sum, SHA256_BYTES);
            found = true;
        }
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* `begun_ns`: of the reading. */
static void cache_put(struct files_cache *c, const struct seen_file *of, int64_t begun_ns,
                      const uint8_t sum[SHA256_BYTES])
{
    if (!c || begun_ns - of->changed_ns < FILES_SETTLED_MS * 1000000LL)
        return;
    pthread_mutex_lock(&c->lock);
    if (c->count < FILES_CACHE_MAX) {
        VEC_GROW(c->list, c->count, c->cap);
        c->next = c->count++;
    }
    c->list[c->next] = (struct kept_sum){ .of = *of };
    memcpy(c->list[c->next].sum, sum, SHA256_BYTES);
    c->next = (c->next + 1) % FILES_CACHE_MAX;
    pthread_mutex_unlock(&c->lock);
}

/* ---- summing */

/* What is summed, and how it is called in messages. */
struct sum_source {
    const char *path, *name;
    const struct seen_file *want; /* NULL: whatever is there */
    const _Atomic bool *stop;     /* NULL: nobody stops it */
};

static enum rc file_changed(const char *name, struct err *err)
{
    return err_set(err, RC_FAIL, "file '%s' changed while the model was loading", name);
}

static enum rc ask_stop(void *arg, uint64_t bytes, struct err *err)
{
    const struct sum_source *s = arg;

    (void)bytes;
    if (s->stop && atomic_load_explicit(s->stop, memory_order_relaxed))
        return err_set(err, RC_FAIL, "file '%s' is not wanted any more", s->name);
    return RC_OK;
}

static enum rc sum_source(const struct sum_source *s, struct files_cache *c,
                          uint8_t out[SHA256_BYTES], struct err *err)
{
    int64_t begun = now_ns();
    struct seen_file of, after;
    bool fresh = false;
    struct stat st;
    int fd = -1;
    enum rc rc = file_open(s->path, &fd, NULL, err);

    if (rc != RC_OK)
        return rc;
    if (fstat(fd, &st)) {
        rc = err_sys(err, "cannot look at '%s'", s->path);
    } else {
        of = seen_of(&st);
        if (s->want && !same_seen(&of, s->want))
            rc = file_changed(s->name, err);
        else if ((fresh = !cache_get(c, &of, out)))
            rc = sums_fd(fd, s->path, of.bytes, ask_stop, (void *)(uintptr_t)s, out, err);
    }
    if (rc == RC_OK && fstat(fd, &st))
        rc = err_sys(err, "cannot look at '%s'", s->path);
    if (rc == RC_OK) {
        after = seen_of(&st);
        if (!same_seen(&of, &after))
            rc = file_changed(s->name, err);
        else if (fresh)
            cache_put(c, &of, begun, out);
    }
    close(fd);
    return rc;
}

static struct file *find_file(const struct files *f, const char *name)
{
    struct file key = { .name = name };

    return f->count ? bsearch(&key, f->list, f->count, sizeof(key), by_name) : NULL;
}

static enum rc sum_one(struct files *f, const char *name, struct files_cache *c,
                       const _Atomic bool *stop, struct err *err)
{
    struct file *one = find_file(f, name);
    char path[FILE_PATH_MAX];

    if (!one && !file_counts(name))
        return err_set(err, RC_USAGE, "file '%s' is no .json and no .safetensors", name);
    if (!one)
        return file_changed(name, err);
    if (file_join(path, sizeof(path), f->dir, name, err) ||
        sum_source(&(struct sum_source){ path, name, &one->of, stop }, c, one->sum, err))
        return err->code;
    one->summed = true;
    return RC_OK;
}

struct files_task {
    struct files *f;
    struct files_cache *cache;
    char **names; /* owned, as they are: the model may go */
    size_t count;
    struct err err;
    pthread_t thread;
    bool running;
    _Atomic bool stop;
};

static void *sum_main(void *arg)
{
    struct files_task *t = arg;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < t->count && rc == RC_OK; i++)
        rc = sum_one(t->f, t->names[i], t->cache, &t->stop, &t->err);
    return NULL;
}

struct files_task *files_sum_begin(struct files *f, const struct model *m, struct files_cache *c)
{
    struct files_task *t = xcalloc(1, sizeof(*t));

    t->f = f;
    t->cache = c;
    t->names = xcalloc(m->part_count + 1, sizeof(*t->names));
    for (; t->count < m->part_count; t->count++)
        t->names[t->count] = xstrdup(m->parts[t->count]);
    t->running = pthread_create(&t->thread, NULL, sum_main, t) == 0;
    return t;
}

enum rc files_sum_end(struct files_task *t, struct err *err)
{
    if (t->running)
        (void)pthread_join(t->thread, NULL);
    else
        (void)sum_main(t);
    enum rc rc = t->err.code;
    if (rc != RC_OK && err && !err->code)
        *err = t->err;
    for (size_t i = 0; i < t->count; i++)
        free(t->names[i]);
    free(t->names);
    free(t);
    return rc;
}

void files_sum_drop(struct files_task *t)
{
    if (!t)
        return;
    atomic_store(&t->stop, true);
    if (files_sum_end(t, NULL))
        return; /* as it was told */
}

/* ---- what the sums say */

void files_digest(const struct files *f, uint8_t out[SHA256_BYTES])
{
    char line[FILES_LINE_MAX], hex[SHA256_HEX];
    struct sha256 sha;

    sha256_init(&sha);
    for (size_t i = 0; i < f->count; i++) {
        const struct file *x = &f->list[i];

        if (!x->summed)
            continue;
        int n = snprintf(line, sizeof(line), "%s  %s\n", sha256_hex(x->sum, hex), x->name);
        assert(n > 0 && (size_t)n < sizeof(line));
        sha256_add(&sha, line, (size_t)n);
    }
    sha256_end(&sha, out);
}

const char *files_changed(const struct files *f, const char *dir, struct files_cache *c)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct file *x = &f->list[i];
        uint8_t sum[SHA256_BYTES];
        char path[FILE_PATH_MAX];

        if (!x->summed)
            continue;
        if (file_join(path, sizeof(path), dir, x->name, NULL) ||
            sum_source(&(struct sum_source){ path, x->name, NULL, NULL }, c, sum, NULL) ||
            memcmp(sum, x->sum, SHA256_BYTES) != 0)
            return x->name;
    }
    return NULL;
}

/* The next one of the list that was summed, or behind its end. */
static size_t next_summed(const struct files *f, size_t i)
{
    while (i < f->count && !f->list[i].summed)
        i++;
    return i;
}

const char *files_differ_summed(const struct files *a, const struct files *b)
{
    size_t i = next_summed(a, 0), k = next_summed(b, 0);

    for (; i < a->count && k < b->count; i = next_summed(a, i + 1), k = next_summed(b, k + 1)) {
        const struct file *x = &a->list[i], *y = &b->list[k];
        int order = strcmp(x->name, y->name);

        if (order)
            return order < 0 ? x->name : y->name;
        if (memcmp(x->sum, y->sum, SHA256_BYTES) != 0)
            return x->name;
    }
    return i < a->count ? a->list[i].name : k < b->count ? b->list[k].name : NULL;
}
