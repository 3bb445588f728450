/* SPDX-License-Identifier: MIT */
/* store: the folder of files and batches (store_int.h has its layout and invariants).
 *
 * All is held in memory too, in two short lists: a look-up never reads the disk.  Opening reads
 * every .json, removes what none of them tells of, and leaves alone what cannot be read: somebody
 * may mend it. */
#include "serve/bulk/store_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/units.h"
#include "os/clock.h"
#include "serve/bulk/offline_int.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- paths and names */
void store_path(const struct store *st, char *out, size_t cap, const char *folder, const char *id,
                const char *ext)
{
    int n = snprintf(out, cap, "%s/%s/%s%s", st->dir, folder, id, ext);

    assert(n > 0 && (size_t)n < cap); /* store_open() has seen to the folder's length */
}

void store_new_id(char out[STORE_ID_MAX], const char *prefix)
{
    uint8_t bytes[12];
    int n = snprintf(out, STORE_ID_MAX, "%s", prefix);

    while (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        ;
    for (size_t i = 0; i < sizeof(bytes); i++)
        n += snprintf(out + n, STORE_ID_MAX - (size_t)n, "%02x", bytes[i]);
}

enum rc store_write_meta(const char *path, const struct buf *text, struct err *err)
{
    struct file_new f;
    enum rc rc = file_new_open(&f, path, err);

    if (rc != RC_OK)
        return rc;
    if (fchmod(f.fd, 0600) != 0)
        return file_new_close(&f, err_sys(err, "cannot protect '%s'", path), err);
    return file_new_close(&f, file_write(f.fd, path, text->data, text->len, err), err);
}

/* ---- space */
enum rc store_take_space(struct store *st, uint64_t bytes, struct err *err)
{
    char most[UNITS_TEXT_MAX];

    if (bytes > st->bytes_max || st->bytes > st->bytes_max - bytes) {
        err_hint(err, "Delete files, or raise --batch-size.");
        return err_set(err, RC_LIMIT, "the folder for files is full: %s at most (--batch-size)",
                       units_bytes_human(st->bytes_max, most));
    }
    st->bytes += bytes;
    return RC_OK;
}

void store_give_space(struct store *st, uint64_t bytes)
{
    st->bytes -= bytes < st->bytes ? bytes : st->bytes;
}

/* ---- files */
struct stored_file *store_file_find(struct store *st, const char *id, const char *owner)
{
    for (struct stored_file *f = st->files; f; f = f->next)
        if (str_eq(f->id, id) && (!owner || str_eq(f->owner, owner)))
            return f;
    return NULL;
}

void store_file_json(const struct stored_file *f, struct json_out *w)
{
    json_obj(w);
    json_kv_str(w, "id", f->id);
    json_kv_str(w, "object", "file");
    json_kv_int(w, "bytes", (int64_t)f->bytes);
    json_kv_int(w, "created_at", f->created);
    json_kv_maybe(w, "expires_at", f->expires ? maybe_of(f->expires) : maybe_none());
    json_kv_str(w, "filename", f->name);
    json_kv_str(w, "purpose", f->purpose);
    json_kv_str(w, "status", "processed");
    json_kv_str(w, "status_details", NULL);
    json_obj_end(w);
}

static enum rc write_file_meta(struct store *st, const struct stored_file *f, struct err *err)
{
    char path[FILE_PATH_MAX];
    struct buf text = { 0 };
    struct json_out w;
    enum rc rc;

    json_out_init(&w, &text, 0);
    json_obj(&w);
    json_kv_str(&w, "id", f->id);
    json_kv_str(&w, "owner", f->owner);
    json_kv_str(&w, "filename", f->name);
    json_kv_str(&w, "purpose", f->purpose);
    json_kv_int(&w, "created_at", f->created);
    json_kv_int(&w, "expires_at", f->expires);
    json_obj_end(&w);
    store_path(st, path, sizeof(path), "files", f->id, ".json");
    rc = store_write_meta(path, &text, err);
    buf_release(&text);
    return rc;
}

static void add_file(struct store *st, const struct stored_file *f)
{
    struct stored_file *own = xmalloc(sizeof(*own)), **at = &st->files;

    *own = *f;
    while (*at && (*at)->created > own->created)
        at = &(*at)->next;
    own->next = *at;
    *at = own;
    st->file_count++;
}

void store_file_drop(struct store *st, struct stored_file *f)
{
    struct stored_file **at = &st->files;
    char path[FILE_PATH_MAX];

    store_path(st, path, sizeof(path), "files", f->id, ".json");
    (void)unlink(path); /* first: what has none is nobody's */
    store_path(st, path, sizeof(path), "files", f->id, ".data");
    (void)unlink(path);
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    st->file_count--;
    store_give_space(st, f->bytes);
    free(f);
}

enum rc store_file_adopt(struct store *st, const struct stored_file *f, const char *path,
                         struct err *err)
{
    struct stored_file own = *f;
    char data[FILE_PATH_MAX];
    struct stat sb;
    enum rc rc;

    if (store_file_find(st, f->id, NULL))
        return RC_OK;
    store_path(st, data, sizeof(data), "files", f->id, ".data");
    if (path && rename(path, data) != 0 && errno != ENOENT) /* ENOENT: it was before */
        return err_sys(err, "could not move '%s' to '%s'", path, data);
    if (stat(data, &sb) != 0)
        return err_sys(err, "could not find '%s'", data);
    own.bytes = (uint64_t)sb.st_size;
    rc = write_file_meta(st, &own, err);
    if (rc == RC_OK)
        add_file(st, &own);
    return rc;
}

/* ---- uploads */
enum rc store_upload_open(struct store *st, struct store_upload *u, struct err *err)
{
    u->st = st;
    store_new_id(u->file.id, "file-");
    u->file.created = clock_unix_s();
    u->file.bytes = 0;
    store_path(st, u->path, sizeof(u->path), "tmp", u->file.id, "");
    u->fd = open(u->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return u->fd >= 0 ? RC_OK : err_sys(err, "could not make '%s'", u->path);
}

enum rc store_upload_write(struct store_upload *u, const char *data, size_t len, struct err *err)
{
    enum rc rc;

    if (u->file.bytes + len > STORE_UPLOAD_BYTES_MAX)
        return err_set(err, RC_USAGE, "the file is larger than %d MB",
                       STORE_UPLOAD_BYTES_MAX / 1000000);
    pthread_mutex_lock(&u->st->lock);
    rc = store_take_space(u->st, len, err);
    pthread_mutex_unlock(&u->st->lock);
    if (rc != RC_OK)
        return rc;
    u->file.bytes += len;
    errno = 0;
    if (file_write(u->fd, u->path, data, len, err))
        return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? (err->code = RC_LIMIT)
                                                                    : err->code;
    return RC_OK;
}

enum rc store_upload_commit(struct store_upload *u, struct err *err)
{
    struct store *st = u->st;
    char dir[FILE_PATH_MAX];
    enum rc rc = RC_OK;
    int fd;

    if (fdatasync(u->fd) != 0)
        return err_sys(err, "could not write '%s'", u->path);
    pthread_mutex_lock(&st->lock);
    if (st->file_count >= STORE_FILES_MAX)
        rc = err_set(err, RC_LIMIT, "there are %d files already", STORE_FILES_MAX);
    if (rc == RC_OK)
        rc = store_file_adopt(st, &u->file, u->path, err);
    pthread_mutex_unlock(&st->lock);
    if (rc != RC_OK)
        return rc;
    store_path(st, dir, sizeof(dir), "files", "", "");
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    u->file.bytes = 0; /* they are the store's now */
    return RC_OK;
}

void store_upload_abort(struct store_upload *u)
{
    if (u->fd < 0)
        return;
    close(u->fd);
    u->fd = -1;
    (void)unlink(u->path);
    pthread_mutex_lock(&u->st->lock);
    store_give_space(u->st, u->file.bytes);
    pthread_mutex_unlock(&u->st->lock);
}

/* ---- time */
void store_expire(struct store *st, int64_t now_s)
{
    struct stored_file *next;

    for (struct stored_file *f = st->files; f; f = next) {
        next = f->next;
        if (f->expires && f->expires <= now_s && !offline_needs_file(st, f->id))
            store_file_drop(st, f);
    }
    offline_expire(st, now_s);
}

/* ---- opening */
bool store_copy(const struct json *doc, const char *name, char *out, size_t cap)
{
    const char *text = json_str(json_get(doc, name));

    return text && str_copy(out, cap, text);
}

static void load_file(struct store *st, const char *name, const struct json *doc)
{
    struct stored_file f = { 0 };
    char data[FILE_PATH_MAX];
    struct stat sb;

    if (!store_copy(doc, "id", f.id, sizeof(f.id)) || strchr(f.id, '/') ||
        !str_starts(name, f.id) || !store_copy(doc, "owner", f.owner, sizeof(f.owner)) ||
        !store_copy(doc, "filename", f.name, sizeof(f.name)) ||
        !store_copy(doc, "purpose", f.purpose, sizeof(f.purpose))) {
        log_warn("'%s' of '%s' tells of no file", name, st->dir);
        return;
    }
    f.created = json_int(json_get(doc, "created_at")).v;
    f.expires = json_int(json_get(doc, "expires_at")).v;
    store_path(st, data, sizeof(data), "files", f.id, ".data");
    if (stat(data, &sb) != 0) {
        log_warn("file '%s' of '%s' has lost its data", f.id, st->dir);
        return;
    }
    f.bytes = (uint64_t)sb.st_size;
    st->bytes += f.bytes;
    add_file(st, &f);
}

/* Each .json of a folder. */
static void load_metas(struct store *st, const char *folder,
                       void (*load)(struct store *st, const char *name, const struct json *doc))
{
    char path[FILE_PATH_MAX];
    struct dirent *e;
    DIR *d;

    store_path(st, path, sizeof(path), folder, "", "");
    d = opendir(path);
    while (d && (e = readdir(d)) != NULL) {
        struct arena a = { 0 };
        struct buf text = { 0 };
        struct json *doc = NULL;
        struct err err = { 0 };

        if (!str_ends(e->d_name, ".json") || strlen(e->d_name) >= STORE_ID_MAX + 5)
            continue;
        store_path(st, path, sizeof(path), folder, e->d_name, "");
        if (file_read(path, STORE_META_BYTES_MAX, &text, &err) ||
            json_parse(&a, text.data, text.len, &doc, &err))
            log_warn("'%s' cannot be read: %s; it and what belongs to it are left alone", path,
                     err.msg);
        else
            load(st, e->d_name, doc);
        buf_release(&text);
        arena_release(&a);
    }
    if (d)
        closedir(d);
}

/*
 * What a kill left: data that no .json tells of (an upload or a removal cut off), and the half of
 * a .json that was not renamed yet (ID.json.XXXXXX, as file_new_open() names it).
 */
static void remove_orphans(struct store *st, const char *folder, bool all)
{
    char path[FILE_PATH_MAX], meta[FILE_PATH_MAX], id[STORE_ID_MAX];
    struct dirent *e;
    DIR *d;

    store_path(st, path, sizeof(path), folder, "", "");
    d = opendir(path);
    while (d && (e = readdir(d)) != NULL) {
        size_t len = strcspn(e->d_name, ".");

        if (e->d_name[0] == '.' || len >= sizeof(id) || str_ends(e->d_name, ".json"))
            continue;
        memcpy(id, e->d_name, len);
        id[len] = '\0';
        if (!all && !str_starts(e->d_name + len, ".json.") &&
            (store_file_find(st, id, NULL) || offline_of_id(st, id)))
            continue;
        store_path(st, meta, sizeof(meta), folder, id, ".json");
        if (!all && !str_starts(e->d_name + len, ".json.") && access(meta, F_OK) == 0)
            continue; /* its description is damaged, which was told: somebody may mend it */
        store_path(st, path, sizeof(path), folder, e->d_name, "");
        (void)unlink(path);
    }
    if (d)
        closedir(d);
}

static enum rc take_folder(struct store *st, struct err *err)
{
    static const char *const folders[] = { "tmp", "files", "batches" };
    char path[FILE_PATH_MAX];

    if (strlen(st->dir) + 2 * STORE_ID_MAX + 16 > FILE_PATH_MAX)
        return err_set(err, RC_LIMIT, "the path of the folder for files is too long");
    if (!file_is_dir(st->dir)) { /* one that is there may be shared: what is below is not */
        if (file_make_dirs(st->dir, err))
            return err_ctx(err, "--batch-dir");
        if (chmod(st->dir, 0700) != 0)
            return err_sys(err, "--batch-dir: cannot protect '%s'", st->dir);
    }
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        store_path(st, path, sizeof(path), folders[i], "", "");
        if (file_make_dirs(path, err))
            return err_ctx(err, "--batch-dir");
        if (chmod(path, 0700) != 0 && errno != EPERM) /* another user made it: his choice */
            return err_sys(err, "--batch-dir: cannot protect '%s'", path);
    }
    (void)snprintf(path, sizeof(path), "%s/lock", st->dir);
    st->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (st->lock_fd < 0)
        return err_sys(err, "could not open '%s'", path);
    if (flock(st->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        err_hint(err, "Each server needs a --batch-dir of its own.");
        return err_set(err, RC_LIMIT, "another server has the folder '%s'", st->dir);
    }
    return RC_OK;
}

enum rc store_open(const struct store_opts *o, struct store **out, struct err *err)
{
    struct store *st = xcalloc(1, sizeof(*st));
    enum rc rc;

    st->dir = xstrdup(o->dir);
    st->lock_fd = -1;
    st->bytes_max = o->bytes_max ? o->bytes_max : STORE_BYTES_DEFAULT;
    st->expiry_s = o->expiry_s ? o->expiry_s : STORE_EXPIRY_S_DEFAULT;
    pthread_mutex_init(&st->lock, NULL);
    clock_cond_init(&st->more);
    rc = take_folder(st, err);
    if (rc != RC_OK) {
        store_close(st);
        return rc;
    }
    load_metas(st, "files", load_file);
    load_metas(st, "batches", offline_load);
    remove_orphans(st, "tmp", true);
    remove_orphans(st, "files", false);
    remove_orphans(st, "batches", false);
    *out = st;
    return RC_OK;
}

void store_stop(struct store *st)
{
    pthread_mutex_lock(&st->lock);
    st->stop = true;
    pthread_cond_broadcast(&st->more);
    pthread_mutex_unlock(&st->lock);
}

void store_close(struct store *st)
{
    if (!st)
        return;
    while (st->files) {
        struct stored_file *f = st->files;

        st->files = f->next;
        free(f);
    }
    offline_free(st);
    if (st->lock_fd >= 0)
        close(st->lock_fd);
    pthread_cond_destroy(&st->more);
    pthread_mutex_destroy(&st->lock);
    free(st->dir);
    free(st);
}
