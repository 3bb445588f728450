/* SPDX-License-Identifier: MIT */
#include "os/file.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

/* One system call moves at most this much: the kernel's own limit is just below 2 GiB. */
enum { FILE_CALL_MAX = 1 << 30 };

enum rc file_open(const char *path, int *out_fd, uint64_t *out_size, struct err *err)
{
    /* O_NONBLOCK: opening a FIFO must not wait for a writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0)
        return err_sys(err, "cannot open '%s'", path);
    if (fstat(fd, &st)) {
        err_sys(err, "cannot look at '%s'", path);
        close(fd);
        return RC_FAIL;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, RC_FAIL, "'%s' is not a regular file", path);
    }
    *out_fd = fd;
    if (out_size)
        *out_size = (uint64_t)st.st_size;
    return RC_OK;
}

enum rc file_pread(int fd, const char *path, uint64_t offset, void *out, size_t count,
                   struct err *err)
{
    char *to = out;

    while (count) {
        size_t want = count < FILE_CALL_MAX ? count : FILE_CALL_MAX;
        ssize_t n = pread(fd, to, want, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "cannot read '%s'", path);
        if (n == 0)
            return err_set(err, RC_FAIL, "cannot read '%s': the file ends at byte %llu", path,
                           (unsigned long long)offset);
        to += n;
        offset += (uint64_t)n;
        count -= (size_t)n;
    }
    return RC_OK;
}

enum rc file_read(const char *path, size_t max, struct buf *out, struct err *err)
{
    char chunk[16384];
    size_t total = 0;
    enum rc rc;
    int fd = -1;

    rc = file_open(path, &fd, NULL, err);
    if (rc)
        return rc;
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = err_sys(err, "cannot read '%s'", path);
        if (n <= 0)
            break;
        total += (size_t)n;
        if (total <= max)
            buf_add(out, chunk, (size_t)n);
        if (total > max || out->over) {
            rc = err_set(err, RC_LIMIT, "'%s' is longer than %zu bytes", path, max);
            break;
        }
    }
    close(fd);
    return rc;
}

enum rc file_write(int fd, const char *path, const void *p, size_t count, struct err *err)
{
    const char *from = p;

    while (count) {
        size_t want = count < FILE_CALL_MAX ? count : FILE_CALL_MAX;
        ssize_t n = write(fd, from, want);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, "cannot write '%s'", path);
        from += n;
        count -= (size_t)n;
    }
    return RC_OK;
}

enum rc file_new_open(struct file_new *f, const char *path, struct err *err)
{
    return file_new_open_mode(f, path, 0666, err);
}

enum rc file_new_open_mode(struct file_new *f, const char *path, unsigned mode, struct err *err)
{
    mode_t mask = umask(077);

    umask(mask);
    if (snprintf(f->path, sizeof(f->path), "%s", path) >= (int)sizeof(f->path) ||
        snprintf(f->temp, sizeof(f->temp), "%s.XXXXXX", path) >= (int)sizeof(f->temp))
        return err_set(err, RC_LIMIT, "path '%.200s' is too long", path);
    f->fd = mkostemp(f->temp, O_CLOEXEC);
    if (f->fd < 0)
        return err_sys(err, "cannot create '%s'", path);
    if (fchmod(f->fd, (mode_t)mode & ~mask)) {
        err_sys(err, "cannot create '%s'", path);
        return file_new_close(f, RC_FAIL, err);
    }
    return RC_OK;
}

enum rc file_new_close(struct file_new *f, enum rc rc, struct err *err)
{
    if (!rc && fsync(f->fd))
        rc = err_sys(err, "cannot write '%s'", f->path);
    if (close(f->fd) && !rc)
        rc = err_sys(err, "cannot write '%s'", f->path);
    if (!rc && rename(f->temp, f->path))
        rc = err_sys(err, "cannot put '%s' in place", f->path);
    if (rc)
        unlink(f->temp);
    return rc;
}

bool file_exists(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISREG(st.st_mode);
}

bool file_exists_in(const char *dir, const char *name)
{
    char path[FILE_PATH_MAX];

    return !file_join(path, sizeof(path), dir, name, NULL) && file_exists(path);
}

bool file_is_dir(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

enum rc file_join(char *out, size_t cap, const char *dir, const char *name, struct err *err)
{
    size_t len = strlen(dir);
    const char *slash = len && dir[len - 1] == '/' ? "" : "/";
    char text[FILE_PATH_MAX];
    int n = snprintf(text, sizeof(text), "%s%s%s", dir, slash, name);

    if (n < 0 || (size_t)n >= sizeof(text) || (size_t)n >= cap)
        return err_set(err, RC_LIMIT, "path of '%s' in a folder is longer than %zu bytes", name,
                       cap < sizeof(text) ? cap : sizeof(text));
    memcpy(out, text, (size_t)n + 1);
    return RC_OK;
}

enum rc file_make_dirs(const char *path, struct err *err)
{
    char part[FILE_PATH_MAX];
    size_t len = strlen(path);

    if (!len || len >= sizeof(part))
        return err_set(err, RC_LIMIT, "path '%.200s' is empty or too long", path);
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        part[i] = '\0';
        if (mkdir(part, 0777) && errno != EEXIST)
            return err_sys(err, "cannot make folder '%s'", part);
        part[i] = path[i];
    }
    if (!file_is_dir(path))
        return err_set(err, RC_FAIL, "'%s' is not a folder", path);
    return RC_OK;
}

enum rc file_make_parents(const char *path, struct err *err)
{
    char dir[FILE_PATH_MAX], *slash;

    (void)str_copy(dir, sizeof(dir), path);
    slash = strrchr(dir, '/');
    if (!slash || slash == dir)
        return RC_OK;
    *slash = '\0';
    return file_make_dirs(dir, err);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    (void)remove(path); /* the caller cannot do more about it either */
    return 0;
}

void file_remove_tree(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
