/* SPDX-License-Identifier: MIT */
/* embed_resume: OUT.resume, a small JSON file beside an output in the making.
 *
 * It holds a key of model and options, how many records were done when it was last
 * written, and a hash of the input up to there: a run that continues the file can say
 * when it is given another model, other options or another input.  It is always
 * RESUME_BYTES long and written in place, so that a full disk does not stop it. */
#include "base/mem.h"
#include "base/text/json.h"
#include "cmd/embed/embed_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

enum { RESUME_BYTES = 2048, RESUME_ABOUT_MAX = 1024 };

static char *side_path(const char *out_path)
{
    struct buf b = { 0 };

    buf_addf(&b, "%s.resume", out_path);
    return buf_take(&b);
}

/* Numbers of 64 bits are text: JSON's integers are signed here. */
static bool get_hex(const struct json *v, const char *key, uint64_t *out)
{
    const char *text = json_str(json_get(v, key));
    char *end;

    if (!text || strlen(text) != 16)
        return false;
    errno = 0;
    *out = strtoull(text, &end, 16);
    return !errno && !*end;
}

static enum rc parse_side(const char *text, size_t len, struct resume *r, struct err *err)
{
    struct arena a = { 0 };
    struct json *v;
    struct maybe rows;
    enum rc rc = json_parse(&a, text, len, &v, err);

    if (!rc) {
        rows = json_int(json_get(v, "records"));
        if (!get_hex(v, "key", &r->key) || !get_hex(v, "input", &r->hash) || !rows.known ||
            rows.v < 0)
            rc = err_set(err, RC_PARSE, "it lacks 'key', 'input' or 'records'");
        else
            r->rows = (uint64_t)rows.v;
        r->complete = maybe_is(json_bool(json_get(v, "complete")), 1);
    }
    arena_release(&a);
    return rc;
}

enum rc resume_read(const char *out_path, struct resume *r, struct err *err)
{
    char *path = side_path(out_path), text[RESUME_BYTES + 1];
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ssize_t n;

    if (fd < 0) {
        err_sys(err, "could not open '%s'", path);
        free(path);
        return err->code;
    }
    n = pread(fd, text, sizeof(text), 0);
    if (n < 0 || parse_side(text, (size_t)n, r, err)) {
        if (n < 0)
            err_sys(err, "could not read '%s'", path);
        else
            err_ctx(err, "could not understand '%s'", path);
        close(fd);
        free(path);
        return err->code;
    }
    r->fd = fd;
    r->path = path;
    return RC_OK;
}

enum rc resume_create(const char *out_path, struct resume *r, struct err *err)
{
    r->path = side_path(out_path);
    r->rows = 0;
    r->hash = FNV1A_START;
    r->complete = false;
    r->fd = open(r->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (r->fd < 0)
        return err_sys(err, "could not write '%s'", r->path);
    return resume_note(r, err);
}

enum rc resume_note(struct resume *r, struct err *err)
{
    char about[RESUME_ABOUT_MAX / 2], hex[17];
    struct buf b = { 0 };
    struct json_out w;
    ssize_t n;

    if (r->fd < 0)
        return RC_OK;
    snprintf(about, sizeof(about), "%s", r->about ? r->about : "");
    json_out_init(&w, &b, 2);
    json_obj(&w);
    json_kv_str(&w, "schema", "stoker.embed-resume/1");
    json_kv_str(&w, "about", about);
    snprintf(hex, sizeof(hex), "%016" PRIx64, r->key);
    json_kv_str(&w, "key", hex);
    snprintf(hex, sizeof(hex), "%016" PRIx64, r->hash);
    json_kv_str(&w, "input", hex);
    json_kv_int(&w, "records", (int64_t)r->rows);
    json_kv_bool(&w, "complete", r->complete);
    json_obj_end(&w);
    if (b.len < RESUME_BYTES)
        buf_fill(&b, '\n', RESUME_BYTES - b.len);
    n = pwrite(r->fd, buf_str(&b), b.len, 0);
    buf_release(&b);
    return n == RESUME_BYTES ? RC_OK : err_sys(err, "could not write '%s'", r->path);
}

void resume_close(struct resume *r, bool remove)
{
    if (r->fd >= 0)
        close(r->fd);
    if (r->path && remove)
        (void)unlink(r->path);
    free(r->path);
    *r = (struct resume){ .fd = -1 };
}
