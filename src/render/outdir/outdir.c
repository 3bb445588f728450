/* SPDX-License-Identifier: MIT */
/* outdir: files below the user's folder, reached without following a link in it.
 *
 * The folder is opened once; each folder on the way to a file is opened by itself with O_NOFOLLOW
 * from the one before, so that a link, also one that is put there meanwhile, never leads out.  A
 * new text is written beside its place under another name and is on the disk before it is renamed.
 * Folders that were made are remembered, for the way back.  Every system call of rendering to the
 * disk is here: tests/unit/test_outdir_write.c includes this file and lets each of them fail. */
#include "base/mem.h"
#include "os/file.h"
#include "render/outdir/outdir_int.h"
#include "render/text/quote_int.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { PART_MAX = 255 }; /* bytes of one part of a path: what file systems take */

/* A fixed name, so that what a run that was killed left behind is replaced by the next. */
#define PLACE_TEMP ".stoker-new."

static void made_add(struct outdir_made *m, const char *path, size_t len)
{
    VEC_GROW(m->paths, m->count, m->cap);
    m->paths[m->count++] = xstrndup(path, len);
}

static void made_release(struct outdir_made *m)
{
    for (size_t i = 0; i < m->count; i++)
        free(m->paths[i]);
    free(m->paths);
    *m = (struct outdir_made){ 0 };
}

/* ---- the folder ---- */

static enum rc make_above(struct outdir *p, struct err *err)
{
    size_t len = strlen(p->dir);

    for (size_t i = 1; i <= len; i++) {
        char *part;

        if (p->dir[i] != '/' && p->dir[i])
            continue;
        part = xstrndup(p->dir, i);
        if (!mkdir(part, 0777)) {
            made_add(&p->above, part, i);
        } else if (errno != EEXIST) {
            enum rc rc = err_sys(err, "cannot make folder '%s'", part);

            free(part);
            return rc;
        }
        free(part);
    }
    return RC_OK;
}

enum rc outdir_open(struct outdir *p, const char *dir, bool make, struct err *err)
{
    enum rc rc;

    *p = (struct outdir){ .dir = dir, .fd = -1 };
    if (!*dir || strlen(dir) >= FILE_PATH_MAX)
        return err_set(err, RC_USAGE, "the name of a folder is empty or too long");
    rc = make ? make_above(p, err) : RC_OK;
    if (rc == RC_OK) {
        p->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (p->fd < 0 && (make || errno != ENOENT))
            rc = err_sys(err, "cannot open folder '%s'", dir);
    }
    if (rc == RC_OK && make)
        rc = outdir_lock(p, err);
    if (rc) {
        outdir_undo(p);
        outdir_close(p);
    }
    return rc;
}

enum rc outdir_lock(struct outdir *p, struct err *err)
{
    if (flock(p->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return err_set(err, RC_FAIL, "another 'stoker render' is writing to '%s'", p->dir);
    return RC_OK; /* a file system without locks: as good as it gets there */
}

/* -1, with errno as it was. */
static int close_why(int fd)
{
    int why = errno;

    close(fd);
    errno = why;
    return -1;
}

/* The folder that a path is in, and its last part.  With `make` missing folders are made; without
 * it -1 and ENOENT.  The caller closes it. */
static int outdir_parent(struct outdir *p, const char *path, bool make, const char **out_name)
{
    int fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
    const char *at = path, *slash;

    for (; fd >= 0 && (slash = strchr(at, '/')); at = slash + 1) {
        char part[PART_MAX + 1];
        int next;

        memcpy(part, at, (size_t)(slash - at)); /* outdir_path_ok() saw its length */
        part[slash - at] = '\0';
        if (make && !mkdirat(fd, part, 0777))
            made_add(&p->below, path, (size_t)(slash - path));
        else if (make && errno != EEXIST)
            return close_why(fd);
        next = openat(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return close_why(fd);
        close(fd);
        fd = next;
    }
    *out_name = at;
    return fd;
}

void outdir_undo(struct outdir *p)
{
    for (size_t i = p->below.count; i-- > 0;) {
        const char *name;
        int fd = outdir_parent(p, p->below.paths[i], false, &name);

        if (fd < 0)
            continue;
        (void)unlinkat(fd, name, AT_REMOVEDIR); /* one that others put something into stays */
        close(fd);
    }
    for (size_t i = p->above.count; i-- > 0;)
        (void)rmdir(p->above.paths[i]);
}

void outdir_close(struct outdir *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    made_release(&p->above);
    made_release(&p->below);
}

/* ---- paths in it ---- */

bool outdir_path_ok(const char *path)
{
    while (true) {
        size_t len = strcspn(path, "/");

        if (!len || len > PART_MAX || (len <= 2 && !strncmp(path, "..", len)))
            return false;
        if (!path[len])
            return true;
        path += len + 1;
    }
}

/* One that cannot be opened because a link or a file stands where a folder should. */
static enum rc parent_error(const struct outdir *p, const char *path, struct err *err)
{
    if (errno == ELOOP || errno == ENOTDIR) {
        err_hint(err, "Move it away, or render into another folder; links are not followed.");
        return err_set(err, RC_FAIL, "a link or file stands in '%s' where '%s' needs a folder",
                       p->dir, path);
    }
    return err_sys(err, "cannot reach '%s' in '%s'", path, p->dir);
}

enum rc outdir_look(struct outdir *p, const char *path, bool *out_there, struct stat *out,
                    struct err *err)
{
    const char *name;
    enum rc rc = RC_OK;
    int fd;

    *out_there = false;
    if (p->fd < 0)
        return RC_OK;
    fd = outdir_parent(p, path, false, &name);
    if (fd < 0)
        return errno == ENOENT ? RC_OK : parent_error(p, path, err);
    if (!fstatat(fd, name, out, AT_SYMLINK_NOFOLLOW))
        *out_there = true;
    else if (errno != ENOENT)
        rc = err_sys(err, "cannot look at '%s' in '%s'", path, p->dir);
    close(fd);
    return rc;
}

static enum rc read_all(const struct outdir *p, int fd, const char *path, size_t max,
                        struct buf *out, struct err *err)
{
    char chunk[16384];
    size_t total = 0;

    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "cannot read '%s' in '%s'", path, p->dir);
        if (!n)
            return RC_OK;
        total += (size_t)n;
        if (total > max)
            return err_set(err, RC_LIMIT, "'%s' in '%s' is longer than %zu bytes", path, p->dir,
                           max);
        buf_add(out, chunk, (size_t)n);
    }
}

enum rc outdir_read(struct outdir *p, const char *path, size_t max, struct buf *out,
                    struct err *err)
{
    const char *name;
    struct stat st;
    enum rc rc;
    int fd = outdir_parent(p, path, false, &name), file;

    if (fd < 0)
        return parent_error(p, path, err);
    file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    close(fd);
    if (file < 0)
        return err_sys(err, "cannot open '%s' in '%s'", path, p->dir);
    if (fstat(file, &st) || !S_ISREG(st.st_mode))
        rc = err_set(err, RC_FAIL, "'%s' in '%s' is not a regular file", path, p->dir);
    else
        rc = read_all(p, file, path, max, out, err);
    close(file);
    return rc;
}

enum rc outdir_read_link(struct outdir *p, const char *path, struct buf *out, struct err *err)
{
    const char *name;
    char text[PATH_MAX];
    ssize_t n;
    int fd = outdir_parent(p, path, false, &name);

    if (fd < 0)
        return parent_error(p, path, err);
    n = readlinkat(fd, name, text, sizeof(text));
    close(fd);
    if (n < 0)
        return err_sys(err, "cannot read link '%s' in '%s'", path, p->dir);
    buf_add(out, text, (size_t)n);
    return RC_OK;
}

/* ---- files ---- */

static bool temp_name(char *out, size_t cap, const char *name)
{
    int n = snprintf(out, cap, PLACE_TEMP "%s", name);

    return n > 0 && (size_t)n < cap;
}

char *outdir_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash + 1 - path) : 0;
    struct buf out = { 0 };

    buf_add(&out, path, folder);
    buf_addf(&out, PLACE_TEMP "%s", path + folder);
    return buf_take(&out);
}

static enum rc write_temp(struct outdir *p, int fd, const char *temp, const char *path,
                          const char *text, size_t len, unsigned mode, struct err *err)
{
    enum rc rc;
    int file;

    (void)unlinkat(fd, temp, 0); /* left by a run that was killed */
    file = openat(fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return err_sys(err, "cannot create '%s' in '%s'", path, p->dir);
    rc = file_write(file, path, text, len, err);
    if (!rc && (fchmod(file, mode) || fsync(file)))
        rc = err_sys(err, "cannot write '%s' in '%s'", path, p->dir);
    if (close(file) && !rc)
        rc = err_sys(err, "cannot write '%s' in '%s'", path, p->dir);
    if (rc)
        (void)unlinkat(fd, temp, 0);
    return rc;
}

enum rc outdir_prepare(struct outdir *p, const char *path, const char *text, size_t len,
                       unsigned mode, struct err *err)
{
    char temp[PART_MAX + 1];
    const char *name;
    int fd = outdir_parent(p, path, true, &name);
    enum rc rc;

    if (fd < 0)
        return parent_error(p, path, err);
    rc = temp_name(temp, sizeof(temp), name)
             ? write_temp(p, fd, temp, path, text, len, mode, err)
             : err_set(err, RC_LIMIT, "the name of '%s' is too long", path);
    close(fd);
    return rc;
}

enum rc outdir_commit(struct outdir *p, const char *path, struct err *err)
{
    char temp[PART_MAX + 1];
    const char *name;
    int fd = outdir_parent(p, path, false, &name);
    enum rc rc = RC_OK;

    if (fd < 0)
        return parent_error(p, path, err);
    if (!temp_name(temp, sizeof(temp), name) || renameat(fd, temp, fd, name))
        rc = err_sys(err, "cannot put '%s' into '%s'", path, p->dir);
    close(fd);
    return rc;
}

void outdir_discard(struct outdir *p, const char *path)
{
    char temp[PART_MAX + 1];
    const char *name;
    int fd = outdir_parent(p, path, false, &name);

    if (fd < 0)
        return;
    if (temp_name(temp, sizeof(temp), name))
        (void)unlinkat(fd, temp, 0);
    close(fd);
}

enum rc outdir_link(struct outdir *p, const char *path, const char *aside, struct err *err)
{
    const char *name;
    int fd = outdir_parent(p, path, false, &name);
    enum rc rc = RC_OK;

    if (fd < 0)
        return parent_error(p, path, err);
    if (linkat(fd, name, fd, path_last_part(aside), 0) && errno != EPERM && errno != ENOTSUP)
        rc = err_sys(err, "cannot keep '%s' of '%s' as '%s'", path, p->dir, path_last_part(aside));
    close(fd);
    return rc;
}

enum rc outdir_aside(struct outdir *p, const char *path, const char *aside, struct err *err)
{
    const char *name, *other = path_last_part(aside);
    int fd = outdir_parent(p, path, false, &name);
    enum rc rc = RC_OK;

    if (fd < 0)
        return parent_error(p, path, err);
    if (linkat(fd, name, fd, other, 0) &&
        (errno == EEXIST || renameat2(fd, name, fd, other, RENAME_NOREPLACE)))
        rc = err_sys(err, "cannot keep '%s' of '%s' as '%s'", path, p->dir, other);
    close(fd);
    return rc;
}

enum rc outdir_remove(struct outdir *p, const char *path, struct err *err)
{
    const char *name;
    int fd = outdir_parent(p, path, false, &name);
    enum rc rc = RC_OK;

    if (fd < 0)
        return errno == ENOENT ? RC_OK : parent_error(p, path, err);
    if (unlinkat(fd, name, 0) && errno != ENOENT)
        rc = err_sys(err, "cannot remove '%s' from '%s'", path, p->dir);
    close(fd);
    return rc;
}

enum rc outdir_prune(struct outdir *p, const char *path, struct err *err)
{
    char *part = xstrdup(path), *slash;
    enum rc rc = RC_OK;

    while (rc == RC_OK && (slash = strrchr(part, '/'))) {
        const char *name;
        int fd;

        *slash = '\0';
        fd = outdir_parent(p, part, false, &name);
        if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
            break; /* somebody else's by now */
        if (fd >= 0 && unlinkat(fd, name, AT_REMOVEDIR) && errno != ENOENT) {
            bool full = errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR;

            if (!full)
                rc = err_sys(err, "cannot remove folder '%s' from '%s'", part, p->dir);
            close(fd);
            break;
        }
        if (fd >= 0)
            close(fd);
        else if (errno != ENOENT)
            rc = parent_error(p, part, err);
    }
    free(part);
    return rc;
}

void outdir_sync_made(struct outdir *p)
{
    for (size_t i = 0; i < p->below.count; i++)
        outdir_sync(p, p->below.paths[i]);
}

void outdir_sync(struct outdir *p, const char *path)
{
    const char *name;
    int fd = outdir_parent(p, path, false, &name);

    if (fd < 0)
        return;
    (void)fsync(fd); /* not every file system can; the files themselves are there */
    close(fd);
}
