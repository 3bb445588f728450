/* SPDX-License-Identifier: MIT */
/* sums: lists are read line by line, and the first that is no sum ends it with its number: a list
 * that is half understood would call a file unlisted. */
#include "base/mem.h"
#include "model/files/sums_int.h"
#include "os/file.h"

#include <unistd.h>

enum { SUMS_CHUNK = 1 << 18 };

void sums_release(struct sums *s)
{
    free(s->items);
    arena_release(&s->arena);
    *s = (struct sums){ 0 };
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool sums_hex_parse(const char *hex, uint8_t out[SHA256_BYTES])
{
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        int hi = hex_digit(hex[2 * i]), lo = hi < 0 ? -1 : hex_digit(hex[2 * i + 1]);

        if (lo < 0)
            return false;
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* 43 digits of base64url without padding are 32 bytes and two bits. */
static bool base64_parse(const char *p, size_t len, uint8_t out[SHA256_BYTES])
{
    uint32_t hold = 0, held = 0;
    size_t n = 0;

    if (len != 43)
        return false;
    for (size_t i = 0; i < len; i++) {
        int v = base64_digit(p[i]);

        if (v < 0)
            return false;
        hold = hold << 6 | (uint32_t)v;
        held += 6;
        if (held >= 8 && n < SHA256_BYTES) {
            held -= 8;
            out[n++] = (uint8_t)(hold >> held);
        }
    }
    return n == SHA256_BYTES;
}

static enum rc add_sum(struct sums *s, const char *name, size_t len,
                       const uint8_t sha[SHA256_BYTES], struct err *err)
{
    struct sum *one;

    if (s->count == SUMS_MAX || len > SUMS_NAME_MAX)
        return err_set(err, RC_LIMIT, "more than %d sums, or a name longer than %d bytes", SUMS_MAX,
                       SUMS_NAME_MAX);
    if (len > 2 && !memcmp(name, "./", 2)) {
        name += 2;
        len -= 2;
    }
    VEC_GROW(s->items, s->count, s->cap);
    one = &s->items[s->count++];
    one->name = arena_strndup(&s->arena, name, len);
    memcpy(one->sha, sha, SHA256_BYTES);
    return RC_OK;
}

/* "HEX  name" or "HEX *name" */
static enum rc line_sum(struct sums *s, const char *line, size_t len, struct err *err)
{
    enum { HEX = 2 * SHA256_BYTES };
    uint8_t sha[SHA256_BYTES];

    if (len < HEX + 3 || !sums_hex_parse(line, sha) || line[HEX] != ' ' ||
        (line[HEX + 1] != ' ' && line[HEX + 1] != '*'))
        return err_set(err, RC_PARSE, "it is not a sum and a name");
    return add_sum(s, line + HEX + 2, len - HEX - 2, sha, err);
}

/* "path,sha256=BASE64,bytes"; a path with a comma is quoted, which no model needs */
static enum rc line_record(struct sums *s, const char *line, size_t len, struct err *err)
{
    static const char mark[] = ",sha256=";
    const char *at = memmem(line, len, mark, sizeof(mark) - 1), *from, *end;
    uint8_t sha[SHA256_BYTES];

    if (!at || line[0] == '"')
        return RC_OK;
    from = at + sizeof(mark) - 1;
    end = memchr(from, ',', len - (size_t)(from - line));
    if (!end || !base64_parse(from, (size_t)(end - from), sha))
        return err_set(err, RC_PARSE, "its sha256 is not one");
    return add_sum(s, line, (size_t)(at - line), sha, err);
}

static enum rc read_lines(struct sums *s, const char *text, size_t len, bool record,
                          struct err *err)
{
    size_t number = 1;

    for (size_t at = 0; at < len; number++) {
        const char *nl = memchr(text + at, '\n', len - at);
        size_t n = nl ? (size_t)(nl - text) - at : len - at, cut = n;
        enum rc rc = RC_OK;

        if (cut && text[at + cut - 1] == '\r')
            cut--;
        if (cut)
            rc = record ? line_record(s, text + at, cut, err) : line_sum(s, text + at, cut, err);
        if (rc)
            return err_ctx(err, "line %zu", number);
        at += n + 1;
    }
    return RC_OK;
}

enum rc sums_parse(struct sums *s, const char *text, size_t len, struct err *err)
{
    return read_lines(s, text, len, false, err);
}

enum rc sums_parse_record(struct sums *s, const char *text, size_t len, struct err *err)
{
    return read_lines(s, text, len, true, err);
}

const struct sum *sums_find(const struct sums *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++) {
        if (!strcmp(s->items[i].name, name))
            return &s->items[i];
    }
    return NULL;
}

enum rc sums_fd(int fd, const char *path, uint64_t size,
                enum rc (*watch)(void *arg, uint64_t bytes, struct err *err), void *arg,
                uint8_t out[SHA256_BYTES], struct err *err)
{
    uint8_t *chunk = xmalloc(SUMS_CHUNK);
    struct sha256 sha;
    enum rc rc = RC_OK;

    sha256_init(&sha);
    for (uint64_t at = 0; !rc && at < size;) {
        size_t n = size - at < SUMS_CHUNK ? (size_t)(size - at) : SUMS_CHUNK;

        rc = file_pread(fd, path, at, chunk, n, err);
        if (!rc)
            sha256_add(&sha, chunk, n);
        if (!rc)
            rc = watch(arg, n, err);
        at += n;
    }
    if (!rc)
        sha256_end(&sha, out);
    free(chunk);
    return rc;
}

enum rc sums_file(const char *path, enum rc (*watch)(void *arg, uint64_t bytes, struct err *err),
                  void *arg, uint8_t out[SHA256_BYTES], struct err *err)
{
    uint64_t size;
    int fd;
    enum rc rc = file_open(path, &fd, &size, err);

    if (rc)
        return rc;
    rc = sums_fd(fd, path, size, watch, arg, out, err);
    close(fd);
    return rc;
}
