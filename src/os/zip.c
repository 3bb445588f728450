/* SPDX-License-Identifier: MIT */
/* zip: an archive is read from its end:
 *
 *     entries... | central directory | [zip64 end | zip64 locator] | end | comment
 *
 * All numbers are little-endian; those that do not fit are all ones and stand in the
 * entry's zip64 extra field instead. */
#include "os/zip.h"
#include "base/arena.h"
#include "base/codec/inflate.h"
#include "base/mem.h"
#include "os/file.h"

#include <assert.h>
#include <unistd.h>
#include <zlib.h>

enum {
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    CENTRAL_BYTES = 46,
    LOCAL_BYTES = 30,
    COMMENT_MAX = 65535,
    ZIP_CHUNK = 65536
};

struct zip {
    struct arena arena;
    char *path; /* owned */
    int fd;
    uint64_t size;
    struct zip_entry *entries;
    size_t count;
};

static uint64_t read_le(const uint8_t *p, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static enum rc zip_is_bad(const struct zip *z, const char *why, struct err *err)
{
    return err_set(err, RC_PARSE, "'%s' is not a zip archive we can read: %s", z->path, why);
}

/* --- the central directory --- */
struct directory {
    uint64_t at, bytes, count;
};

/* The end record stands before the comment: searched from the back. */
static enum rc end_find(const struct zip *z, uint64_t *out, uint8_t end[END_BYTES], struct err *err)
{
    size_t span = END_BYTES + COMMENT_MAX;
    uint8_t *tail;
    enum rc rc;

    span = span < z->size ? span : (size_t)z->size;
    if (span < END_BYTES)
        return zip_is_bad(z, "it is too short", err);
    tail = xmalloc(span);
    rc = file_pread(z->fd, z->path, z->size - span, tail, span, err);
    for (size_t i = span - END_BYTES + 1; !rc && i-- > 0;) {
        if (read_le(tail + i, 4) == 0x06054b50 &&
            i + END_BYTES + read_le(tail + i + 20, 2) == span) {
            memcpy(end, tail + i, END_BYTES);
            *out = z->size - span + i;
            free(tail);
            return RC_OK;
        }
    }
    free(tail);
    return rc ? rc : zip_is_bad(z, "it has no directory", err);
}

static enum rc end64_read(const struct zip *z, uint64_t end_at, struct directory *d,
                          struct err *err)
{
    uint8_t locator[LOCATOR_BYTES], end[END64_BYTES];
    uint64_t at;
    enum rc rc;

    if (end_at < LOCATOR_BYTES)
        return RC_OK;
    rc = file_pread(z->fd, z->path, end_at - LOCATOR_BYTES, locator, sizeof(locator), err);
    if (rc || read_le(locator, 4) != 0x07064b50)
        return rc;
    at = read_le(locator + 8, 8);
    if (z->size < END64_BYTES || at > z->size - END64_BYTES)
        return zip_is_bad(z, "its directory's place is outside", err);
    rc = file_pread(z->fd, z->path, at, end, sizeof(end), err);
    if (rc)
        return rc;
    if (read_le(end, 4) != 0x06064b50)
        return zip_is_bad(z, "its directory's place is wrong", err);
    *d = (struct directory){ .at = read_le(end + 48, 8),
                             .bytes = read_le(end + 40, 8),
                             .count = read_le(end + 32, 8) };
    return RC_OK;
}

static enum rc directory_find(const struct zip *z, struct directory *out, struct err *err)
{
    uint8_t end[END_BYTES];
    uint64_t end_at = 0;
    enum rc rc = end_find(z, &end_at, end, err);

    if (rc)
        return rc;
    *out = (struct directory){ .at = read_le(end + 16, 4),
                               .bytes = read_le(end + 12, 4),
                               .count = read_le(end + 10, 2) };
    rc = end64_read(z, end_at, out, err);
    if (rc)
        return rc;
    if (out->at > z->size || out->bytes > z->size - out->at)
        return zip_is_bad(z, "its directory is outside", err);
    if (out->bytes > ZIP_DIRECTORY_MAX || out->count > ZIP_ENTRIES_MAX ||
        out->count * CENTRAL_BYTES > out->bytes)
        return zip_is_bad(z, "its directory is too long", err);
    return RC_OK;
}

/* What did not fit the entry's own 32 bits, in the order the format says. */
static void read_extra64(const uint8_t *p, size_t len, struct zip_entry *e)
{
    uint64_t *const fields[] = { &e->size, &e->packed, &e->header };

    while (len >= 4) {
        size_t n = read_le(p + 2, 2), at = 4;

        if (n > len - 4)
            return;
        for (size_t i = 0; read_le(p, 2) == 1 && i < ARRAY_SIZE(fields); i++) {
            if (*fields[i] == 0xffffffffu && at + 8 <= n + 4) {
                *fields[i] = read_le(p + at, 8);
                at += 8;
            }
        }
        p += n + 4;
        len -= n + 4;
    }
}

/* One entry at p; *used: its length. */
static enum rc entry_read(struct zip *z, const uint8_t *p, size_t len, struct zip_entry *e,
                          size_t *used, struct err *err)
{
    size_t name, extra;
    uint64_t flags, method;

    if (len < CENTRAL_BYTES || read_le(p, 4) != 0x02014b50)
        return zip_is_bad(z, "its directory is damaged", err);
    name = read_le(p + 28, 2);
    extra = read_le(p + 30, 2);
    *used = CENTRAL_BYTES + name + extra + read_le(p + 32, 2);
    if (*used > len || !name || name > ZIP_NAME_MAX)
        return zip_is_bad(z, "its directory is damaged", err);
    e->name = arena_strndup(&z->arena, (const char *)p + CENTRAL_BYTES, name);
    e->crc = (uint32_t)read_le(p + 16, 4);
    e->packed = read_le(p + 20, 4);
    e->size = read_le(p + 24, 4);
    e->header = read_le(p + 42, 4);
    read_extra64(p + CENTRAL_BYTES + name, extra, e);
    flags = read_le(p + 8, 2);
    method = read_le(p + 10, 2);
    if (strlen(e->name) != name)
        return zip_is_bad(z, "a name in it has a NUL", err);
    if ((flags & 1) || (method != 0 && method != 8))
        return err_set(err, RC_PARSE,
                       "'%s': entry '%.200s' is encrypted or packed in a way we "
                       "cannot read",
                       z->path, e->name);
    e->deflated = method == 8;
    if (e->header > z->size || e->packed > z->size - e->header ||
        (!e->deflated && e->packed != e->size))
        return err_set(err, RC_PARSE, "'%s': entry '%.200s' is outside the file", z->path, e->name);
    return RC_OK;
}

static int by_name(const void *a, const void *b)
{
    const struct zip_entry *x = a, *y = b;

    return strcmp(x->name, y->name);
}

static enum rc directory_read(struct zip *z, struct err *err)
{
    struct directory d;
    uint8_t *all;
    size_t at = 0;
    enum rc rc = directory_find(z, &d, err);

    if (rc)
        return rc;
    all = xmalloc((size_t)d.bytes);
    z->entries = xcalloc((size_t)d.count, sizeof(*z->entries));
    rc = file_pread(z->fd, z->path, d.at, all, (size_t)d.bytes, err);
    while (!rc && z->count < d.count) {
        size_t used = 0;

        rc = entry_read(z, all + at, (size_t)d.bytes - at, &z->entries[z->count], &used, err);
        at += used;
        z->count += !rc;
    }
    free(all);
    if (rc)
        return rc;
    qsort(z->entries, z->count, sizeof(*z->entries), by_name);
    for (size_t i = 1; i < z->count; i++) {
        if (!strcmp(z->entries[i - 1].name, z->entries[i].name))
            return err_set(err, RC_PARSE, "'%s': entry '%.200s' is there twice", z->path,
                           z->entries[i].name);
    }
    return RC_OK;
}

enum rc zip_open(const char *path, struct zip **out, struct err *err)
{
    struct zip *z = xcalloc(1, sizeof(*z));
    enum rc rc;

    z->path = xstrdup(path);
    z->fd = -1;
    rc = file_open(path, &z->fd, &z->size, err);
    if (!rc)
        rc = directory_read(z, err);
    if (rc)
        zip_close(z);
    else
        *out = z;
    return rc;
}

void zip_close(struct zip *z)
{
    if (!z)
        return;
    if (z->fd >= 0)
        close(z->fd);
    free(z->entries);
    free(z->path);
    arena_release(&z->arena);
    free(z);
}

size_t zip_count(const struct zip *z)
{
    return z->count;
}

const struct zip_entry *zip_at(const struct zip *z, size_t i)
{
    assert(i < z->count);
    return &z->entries[i];
}

const struct zip_entry *zip_find(const struct zip *z, const char *name)
{
    struct zip_entry key = { .name = name };

    return z->count ? bsearch(&key, z->entries, z->count, sizeof(key), by_name) : NULL;
}

bool zip_name_ok(const char *name)
{
    const char *part = name;

    for (const char *p = name;; p++) {
        if (*p && *p != '/') {
            if ((unsigned char)*p < ' ' || *p == '\\')
                return false;
            continue;
        }
        if (p == part || (p - part == 1 && part[0] == '.') ||
            (p - part == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        if (!*p)
            return true;
        part = p + 1;
    }
}

int zip_fd(const struct zip *z)
{
    return z->fd;
}

/* --- an entry's bytes --- */
enum rc zip_place(const struct zip *z, const struct zip_entry *e, uint64_t *out, struct err *err)
{
    uint8_t local[LOCAL_BYTES];
    uint64_t at;
    enum rc rc = file_pread(z->fd, z->path, e->header, local, sizeof(local), err);

    if (rc)
        return rc;
    at = e->header + LOCAL_BYTES + read_le(local + 26, 2) + read_le(local + 28, 2);
    if (read_le(local, 4) != 0x04034b50 || at > z->size || e->packed > z->size - at)
        return err_set(err, RC_PARSE, "'%s': entry '%.200s' is not where it should be", z->path,
                       e->name);
    *out = at;
    return RC_OK;
}

struct reading {
    const struct zip *z;
    const struct zip_sink *to;
    uint64_t at, left; /* of the packed bytes */
    uLong crc;
};

static enum rc packed_read(void *arg, uint8_t *out, size_t cap, size_t *got, struct err *err)
{
    struct reading *r = arg;
    size_t n = r->left < cap ? (size_t)r->left : cap;
    enum rc rc = file_pread(r->z->fd, r->z->path, r->at, out, n, err);

    r->at += n;
    r->left -= n;
    *got = n;
    return rc;
}

static enum rc plain_write(void *arg, const uint8_t *p, size_t len, struct err *err)
{
    struct reading *r = arg;

    r->crc = crc32_z(r->crc, p, len);
    return r->to->write(r->to->arg, p, len, err);
}

static enum rc stored_copy(struct reading *r, struct err *err)
{
    uint8_t *chunk = xmalloc(ZIP_CHUNK);
    enum rc rc = RC_OK;
    size_t got;

    while (!rc && r->left) {
        rc = packed_read(r, chunk, ZIP_CHUNK, &got, err);
        if (!rc)
            rc = plain_write(r, chunk, got, err);
    }
    free(chunk);
    return rc;
}

enum rc zip_read(const struct zip *z, const struct zip_entry *e, const struct zip_sink *to,
                 struct err *err)
{
    struct reading r = { .z = z, .to = to, .left = e->packed };
    struct inflate_io io = { .read = packed_read, .write = plain_write, .arg = &r, .max = e->size };
    uint64_t total = e->size;
    enum rc rc = zip_place(z, e, &r.at, err);

    if (rc)
        return rc;
    rc = e->deflated ? inflate_stream(&io, &total, err) : stored_copy(&r, err);
    if (rc)
        return err_ctx(err, "'%s': entry '%.200s'", z->path, e->name);
    if (total != e->size || r.crc != e->crc)
        return err_set(err, RC_PARSE, "'%s': entry '%.200s' is damaged: its %s is wrong", z->path,
                       e->name, total != e->size ? "size" : "CRC");
    return RC_OK;
}
