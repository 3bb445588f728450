/* SPDX-License-Identifier: MIT */
/* history_file: the file itself: its head in two copies, its areas, and how it comes to be.
 *
 * A new file is made beside its name and renamed when it is whole and on the disk, so that a name
 * is a history or is not there.  All space is reserved then: later writes change bytes that the
 * file has, and find no full disk. */
#include "base/codec/crc32c.h"
#include "base/mem.h"
#include "base/str.h"
#include "history/history_int.h"
#include "os/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is written as memory is");

static const char super_magic[8] = { 'S', 'T', 'K', 'R', 'I', 'N', 'G', '\n' };
enum { MINUTE_PCT_DEFAULT = 25, MINUTE_PCT_MAX = 80, ZERO_STEP = 1 << 20 };
#define NEW_SUFFIX ".ring-new"

struct super {
    char magic[8];
    uint32_t version, crc; /* of all with crc 0 */
    uint64_t id, bytes;
    uint32_t minute_pct, page;
};
static_assert(sizeof(struct super) == 40, "as in docs/design/history-file.md");

/* ---- the system's own */
static ssize_t sys_read(void *arg, int fd, void *p, size_t n, off_t at)
{
    (void)arg;
    return pread(fd, p, n, at);
}

static ssize_t sys_write(void *arg, int fd, const void *p, size_t n, off_t at)
{
    (void)arg;
    return pwrite(fd, p, n, at);
}

static int sys_sync(void *arg, int fd)
{
    (void)arg;
    return fdatasync(fd);
}

static int zero_fill(int fd, off_t bytes)
{
    char *zeros = xcalloc(1, ZERO_STEP);
    off_t at = 0;

    while (at < bytes) {
        size_t n = bytes - at < ZERO_STEP ? (size_t)(bytes - at) : ZERO_STEP;
        ssize_t got = pwrite(fd, zeros, n, at);

        if (got < 0 && errno != EINTR)
            break;
        at += got > 0 ? got : 0;
    }
    free(zeros);
    return at < bytes ? -1 : 0;
}

static int sys_reserve(void *arg, int fd, off_t bytes)
{
    struct stat st;

    (void)arg;
    if (!fallocate(fd, 0, 0, bytes))
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    /* a file system that cannot reserve: a new file is filled, one that was cut only grows */
    if (fstat(fd, &st) || st.st_size)
        return ftruncate(fd, bytes);
    return zero_fill(fd, bytes);
}

static const struct history_io sys_io = {
    .read = sys_read, .write = sys_write, .sync = sys_sync, .reserve = sys_reserve
};

/* ---- reading and writing */
bool history_file_get(const struct history_file *f, uint64_t at, void *p, size_t n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got =
            f->io->read(f->io->arg, f->fd, (char *)p + done, n - done, (off_t)(at + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

uint64_t history_file_data(const struct history_file *f, uint64_t at)
{
    off_t data = lseek(f->fd, (off_t)at, SEEK_DATA);

    if (data >= 0)
        return (uint64_t)data > at ? (uint64_t)data : at;
    return errno == ENXIO ? f->bytes : at; /* a file system that does not know says so */
}

/* A full disk is a limit, anything else has failed. */
static enum rc put_failed(const struct history_file *f, const char *what, struct err *err)
{
    if (errno == ENOSPC || errno == EDQUOT)
        return err_set(err, RC_LIMIT, "could not %s history '%s': %s", what, f->path,
                       strerror(errno));
    return err_sys(err, "could not %s history '%s'", what, f->path);
}

enum rc history_file_put(struct history_file *f, uint64_t at, const void *p, size_t n,
                         struct err *err)
{
    size_t done = 0;

    assert(at + n <= f->bytes);
    while (done < n) {
        ssize_t got =
            f->io->write(f->io->arg, f->fd, (const char *)p + done, n - done, (off_t)(at + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            errno = got ? errno : ENOSPC;
            return put_failed(f, "write", err);
        }
        done += (size_t)got;
    }
    return RC_OK;
}

enum rc history_file_sync(struct history_file *f, struct err *err)
{
    if (!f->no_sync && f->io->sync(f->io->arg, f->fd))
        return put_failed(f, "sync", err);
    return RC_OK;
}

/* ---- areas */
static uint64_t pages_of(uint64_t bytes, uint64_t max)
{
    bytes = bytes < max ? bytes : max;
    return bytes & ~(uint64_t)(HISTORY_PAGE - 1);
}

void history_map(uint64_t bytes, uint32_t minute_pct, struct history_map *out)
{
    uint64_t at = 2 * HISTORY_PAGE, rest;

    for (int i = 0; i < 2; i++) {
        out->dict[i] = (struct history_area){ at, pages_of(bytes / 64, HISTORY_DICT_MAX) };
        at += out->dict[i].size;
    }
    for (int i = 0; i < 2; i++) {
        out->log[i] = (struct history_area){ at, pages_of(bytes / 64, HISTORY_LOG_MAX) };
        at += out->log[i].size;
    }
    out->events = (struct history_area){ at, pages_of(bytes / 256, HISTORY_EVENTS_AREA_MAX) };
    at += out->events.size;
    rest = bytes - at;
    out->minutes.size = pages_of(rest / 100 * minute_pct, rest);
    out->seconds = (struct history_area){ at, pages_of(rest - out->minutes.size, rest) };
    out->minutes.at = at + out->seconds.size;
}

/* ---- the head */
static uint32_t super_crc(const struct super *s)
{
    struct super copy = *s;

    copy.crc = 0;
    return crc32c(0, &copy, sizeof(copy));
}

static bool super_good(const struct super *s)
{
    return s->crc == super_crc(s) && s->page == HISTORY_PAGE && s->bytes >= HISTORY_BYTES_MIN &&
           s->bytes <= HISTORY_BYTES_MAX && s->bytes % HISTORY_PAGE == 0 && s->minute_pct >= 1 &&
           s->minute_pct <= MINUTE_PCT_MAX;
}

static enum rc super_put(struct history_file *f, struct err *err)
{
    struct super s = { .version = HISTORY_VERSION,
                       .id = f->id,
                       .bytes = f->bytes,
                       .minute_pct = f->minute_pct,
                       .page = HISTORY_PAGE };

    memcpy(s.magic, super_magic, sizeof(s.magic));
    s.crc = super_crc(&s);
    for (int i = 0; i < 2; i++)
        if (history_file_put(f, (uint64_t)i * HISTORY_PAGE, &s, sizeof(s), err))
            return err->code;
    return RC_OK;
}

/* Takes over what the head says; one good copy of two is enough. */
static enum rc super_get(struct history_file *f, struct err *err)
{
    struct super s;
    bool ours = false;

    for (int i = 0; i < 2; i++) {
        if (!history_file_get(f, (uint64_t)i * HISTORY_PAGE, &s, sizeof(s)) ||
            memcmp(s.magic, super_magic, sizeof(s.magic)) != 0)
            continue;
        ours = true;
        if (s.crc == super_crc(&s) && s.version != HISTORY_VERSION) {
            err_hint(err, "Move it away, or use the program that made it.");
            return err_set(err, RC_PARSE, "'%s' is a history of version %u, this is %d", f->path,
                           s.version, HISTORY_VERSION);
        }
        if (!super_good(&s))
            continue;
        f->id = s.id;
        f->bytes = s.bytes;
        f->minute_pct = s.minute_pct;
        history_map(f->bytes, f->minute_pct, &f->map);
        return RC_OK;
    }
    err_hint(err, "It is left as it is.  Move it away, or name another file.");
    return err_set(err, RC_PARSE,
                   ours ? "the head of history '%s' is damaged" : "'%s' is not a history of ours",
                   f->path);
}

/* ---- a head that cannot be read */
/* A history of another version is none of ours to move, and a file that is no history is the
 * user's.  One is ours when a copy of its head begins as ours do, when what lies where a history
 * of its size has its log, dictionary and events begins as ours does, or when all before the first
 * thing in it that is ours is zeros: what a power cut leaves of a new file, and what is written
 * behind the end of one that was cut under us. */
static bool begins_as_ours(int fd, uint64_t at, const void *magic, size_t len)
{
    char have[sizeof(super_magic)];

    return len <= sizeof(have) && pread(fd, have, len, (off_t)at) == (ssize_t)len &&
           !memcmp(have, magic, len);
}

static bool head_is_whole(int fd)
{
    struct super s;

    for (int i = 0; i < 2; i++)
        if (pread(fd, &s, sizeof(s), (off_t)i * HISTORY_PAGE) == (ssize_t)sizeof(s) &&
            !memcmp(s.magic, super_magic, sizeof(s.magic)) && s.crc == super_crc(&s))
            return true;
    return false;
}

static const uint32_t magics[] = { HISTORY_ENTRY_MAGIC, HISTORY_RECORD_MAGIC, HISTORY_SLOT_MAGIC,
                                   HISTORY_BLOCK_MAGIC };

/* Zeros up to a magic number of ours, or to the end; holes are not read. */
static bool zeros_then_ours(int fd, uint64_t bytes)
{
    uint32_t *words = xmalloc(ZERO_STEP);
    uint64_t at = 0;
    ssize_t got = 0;
    uint32_t first = 0;

    while (at < bytes && !first) {
        off_t data = lseek(fd, (off_t)at, SEEK_DATA);

        if (data < 0 && errno == ENXIO)
            break; /* holes up to its end */
        at = data > (off_t)at ? (uint64_t)data & ~(uint64_t)(sizeof(first) - 1) : at;
        words[0] = 0;
        got = pread(fd, words, ZERO_STEP, (off_t)at);
        if (got <= 0)
            break;
        memset((char *)words + got, 0, (size_t)(-got & (ssize_t)(sizeof(first) - 1)));
        for (size_t i = 0; i * sizeof(first) < (size_t)got && !first; i++)
            first = words[i];
        at += (uint64_t)got;
    }
    free(words);
    for (size_t i = 0; i < ARRAY_SIZE(magics) && first; i++)
        if (first == magics[i])
            first = 0;
    return got >= 0 && !first;
}

bool history_file_damaged(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct history_map m;
    struct stat st;
    bool ours = false;

    if (fd < 0)
        return false;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !head_is_whole(fd)) {
        for (int i = 0; i < 2 && !ours; i++)
            ours = begins_as_ours(fd, (uint64_t)i * HISTORY_PAGE, super_magic, sizeof(super_magic));
        if (!ours && (uint64_t)st.st_size >= HISTORY_BYTES_MIN) {
            history_map((uint64_t)st.st_size, MINUTE_PCT_DEFAULT, &m);
            ours = begins_as_ours(fd, m.dict[0].at, &magics[0], sizeof(magics[0])) ||
                   begins_as_ours(fd, m.dict[1].at, &magics[0], sizeof(magics[0])) ||
                   begins_as_ours(fd, m.log[0].at, &magics[1], sizeof(magics[1])) ||
                   begins_as_ours(fd, m.log[1].at, &magics[1], sizeof(magics[1])) ||
                   begins_as_ours(fd, m.events.at, &magics[2], sizeof(magics[2]));
        }
        ours = ours || zeros_then_ours(fd, (uint64_t)st.st_size);
    }
    close(fd);
    return ours;
}

/* ---- making and opening */
static void file_init(struct history_file *f, const struct history_opts *o,
                      const struct history_io *io, const char *path)
{
    *f = (struct history_file){ .fd = -1,
                                .path = xstrdup(path),
                                .io = io ? io : &sys_io,
                                .bytes = o->bytes ? o->bytes : HISTORY_BYTES_DEFAULT,
                                .minute_pct = o->minute_pct ? o->minute_pct : MINUTE_PCT_DEFAULT,
                                .no_sync = o->no_sync };
    f->bytes &= ~(uint64_t)(HISTORY_PAGE - 1);
}

static enum rc check_opts(const struct history_file *f, struct err *err)
{
    if (f->bytes < HISTORY_BYTES_MIN || f->bytes > HISTORY_BYTES_MAX)
        return err_set(err, RC_USAGE, "history '%s' of %llu bytes is not between %d MiB and 1 TiB",
                       f->path, (unsigned long long)f->bytes, HISTORY_BYTES_MIN >> 20);
    if (f->minute_pct > MINUTE_PCT_MAX)
        return err_set(err, RC_USAGE, "history '%s': %u %% for minutes is above %d", f->path,
                       f->minute_pct, MINUTE_PCT_MAX);
    return RC_OK;
}

static enum rc lock_file(struct history_file *f, struct err *err)
{
    if (!flock(f->fd, LOCK_EX | LOCK_NB))
        return RC_OK;
    if (errno == EWOULDBLOCK)
        return err_set(err, RC_FAIL, "history '%s' is in use by another process", f->path);
    return err_sys(err, "could not lock history '%s'", f->path);
}

static uint64_t random_id(void)
{
    uint64_t id = 0;

    if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != sizeof(id))
        id = (uint64_t)getpid() << 32 ^ (uint64_t)(uintptr_t)&id;
    return id | 1;
}

enum rc history_file_make(struct history_file *f, const struct history_opts *o,
                          const struct history_io *io, uint64_t id, struct err *err)
{
    char temp[FILE_PATH_MAX];
    enum rc rc;

    if (snprintf(temp, sizeof(temp), "%s%s", o->path, NEW_SUFFIX) >= (int)sizeof(temp))
        return err_set(err, RC_LIMIT, "path of history '%.80s...' is too long", o->path);
    file_init(f, o, io, temp);
    f->id = id ? id : random_id();
    rc = check_opts(f, err);
    if (rc)
        return rc;
    history_map(f->bytes, f->minute_pct, &f->map);
    f->fd = open(temp, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (f->fd < 0)
        return err_sys(err, "could not make history '%s'", temp);
    (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM);
    rc = lock_file(f, err); /* two who make it at once */
    if (!rc && ftruncate(f->fd, 0))
        rc = err_sys(err, "could not make history '%s'", temp);
    if (!rc && f->io->reserve(f->io->arg, f->fd, (off_t)f->bytes)) {
        rc = put_failed(f, "reserve space for", err);
        err_hint(err, "It needs %llu MiB.", (unsigned long long)(f->bytes >> 20));
    }
    return rc ? rc : super_put(f, err);
}

static enum rc sync_dir(const char *path, struct err *err)
{
    char *dir = xstrdup(path), *slash = strrchr(dir, '/');
    enum rc rc = RC_OK;
    int fd;

    if (slash)
        slash[slash == dir] = '\0';
    fd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) && errno != EINVAL))
        rc = err_sys(err, "could not sync the folder of '%s'", path);
    if (fd >= 0)
        close(fd);
    free(dir);
    return rc;
}

enum rc history_file_publish(struct history_file *f, struct err *err)
{
    size_t len = strlen(f->path) - strlen(NEW_SUFFIX);
    char *path = xstrndup(f->path, len);
    enum rc rc = RC_OK;

    if (!f->no_sync && fsync(f->fd))
        rc = put_failed(f, "sync", err);
    if (!rc && rename(f->path, path))
        rc = err_sys(err, "could not rename '%s'", f->path);
    if (!rc && !f->no_sync)
        rc = sync_dir(path, err);
    if (rc) {
        free(path);
        return rc;
    }
    free(f->path);
    f->path = path;
    return RC_OK;
}

void history_file_unlink(struct history_file *f)
{
    if (f->fd >= 0 && str_ends(f->path, NEW_SUFFIX))
        unlink(f->path);
}

void history_file_discard(struct history_file *f)
{
    history_file_unlink(f);
    history_file_close(f);
}

void history_file_close(struct history_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    *f = (struct history_file){ .fd = -1 };
}

/* Does either copy of the head still say what this file was opened with? */
static bool super_is_ours(const struct history_file *f)
{
    struct super s;

    for (int i = 0; i < 2; i++)
        if (history_file_get(f, (uint64_t)i * HISTORY_PAGE, &s, sizeof(s)) && super_good(&s) &&
            s.id == f->id)
            return true;
    return false;
}

enum rc history_file_here(const struct history_file *f, struct err *err)
{
    struct stat named, ours;

    if (fstat(f->fd, &ours))
        return err_sys(err, "could not look at history '%s'", f->path);
    if (stat(f->path, &named))
        return errno == ENOENT || errno == ENOTDIR
                   ? err_set(err, RC_FAIL, "history '%s' was removed", f->path)
                   : err_sys(err, "history '%s' is out of reach", f->path);
    if (named.st_ino != ours.st_ino || named.st_dev != ours.st_dev)
        return err_set(err, RC_FAIL, "another file is in the place of history '%s'", f->path);
    if ((uint64_t)ours.st_size < f->bytes)
        return err_set(err, RC_FAIL, "history '%s' was cut to %llu of %llu bytes", f->path,
                       (unsigned long long)ours.st_size, (unsigned long long)f->bytes);
    /* a write that was under way when the file was cut makes it as long as it was */
    if (!super_is_ours(f))
        return err_set(err, RC_FAIL, "the head of history '%s' was overwritten", f->path);
    return RC_OK;
}

enum rc history_file_open(struct history_file *f, const struct history_opts *o,
                          const struct history_io *io, struct err *err)
{
    struct stat st;
    enum rc rc;

    file_init(f, o, io, o->path);
    rc = check_opts(f, err);
    if (rc)
        return rc;
    f->fd = open(o->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (f->fd < 0)
        return err_sys(err, "could not open history '%s'", o->path);
    if (fstat(f->fd, &st))
        return err_sys(err, "could not open history '%s'", o->path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, RC_PARSE, "'%s' is not a file", o->path);
    rc = lock_file(f, err);
    (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM); /* reads are small and apart */
    if (!rc)
        rc = super_get(f, err);
    if (!rc && (uint64_t)st.st_size < f->bytes) { /* what is there is used */
        f->cut_bytes = f->bytes - (uint64_t)st.st_size;
        f->cut_of = f->bytes;
    }
    if (!rc && f->cut_bytes && f->io->reserve(f->io->arg, f->fd, (off_t)f->bytes))
        rc = put_failed(f, "reserve space for", err);
    return rc ? rc : super_put(f, err);
}
