/* SPDX-License-Identifier: MIT */
/* embed_write: rows as JSON lines, raw floats or .npy.
 *
 * Every write() ends at the end of a record, and a .npy head is written again behind the
 * rows it counts, so that a file is valid whenever the program ends.  When the disk fills
 * in the middle of a write, what was torn is cut off again. */
#include "base/codec/f32.h"
#include "base/codec/npy.h"
#include "base/text/json.h"
#include "cmd/embed/embed_int.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SINK_FLUSH = 1 << 20,     /* bytes gathered before they are written */
    SINK_RECORD_MAX = 1 << 20 /* bytes of one JSON record: 16384 floats and a reason */
};

static const char *name_of(const struct embed_sink *s)
{
    return s->path ? s->path : "standard output";
}

static enum rc write_at(struct embed_sink *s, const char *p, size_t len, uint64_t at,
                        struct err *err)
{
    while (len) {
        ssize_t n = s->seekable ? pwrite(s->fd, p, len, (off_t)at) : write(s->fd, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EPIPE)
            s->gone = true;
        if (n < 0)
            return err_sys(err, "could not write '%s'", name_of(s));
        p += n;
        at += (uint64_t)n;
        len -= (size_t)n;
    }
    return RC_OK;
}

static size_t head_bytes(const struct embed_sink *s)
{
    return s->format == SINK_NPY ? NPY_HEAD : 0;
}

static enum rc write_head(struct embed_sink *s, struct err *err)
{
    char head[NPY_HEAD];

    if (s->format != SINK_NPY)
        return RC_OK;
    npy_head(s->rows, s->width, head);
    return write_at(s, head, NPY_HEAD, s->base, err);
}

/* ---- opening ---- */
/* Whole records of what an earlier run left: lines, or rows of floats. */
static enum rc count_lines(struct embed_sink *s, struct err *err)
{
    char chunk[64 << 10];
    uint64_t at = 0;
    ssize_t n;

    while ((n = pread(s->fd, chunk, sizeof(chunk), (off_t)at)) > 0) {
        for (ssize_t i = 0; i < n; i++)
            if (chunk[i] == '\n') {
                s->rows++;
                s->bytes = at + (uint64_t)i + 1;
            }
        at += (uint64_t)n;
    }
    return n < 0 ? err_sys(err, "could not read '%s'", name_of(s)) : RC_OK;
}

static enum rc check_npy(struct embed_sink *s, uint64_t size, struct err *err)
{
    char head[NPY_HEAD];
    uint64_t rows, cols;

    if (size < NPY_HEAD) /* it ended before it began */
        return RC_OK;
    if (pread(s->fd, head, NPY_HEAD, 0) != NPY_HEAD)
        return err_sys(err, "could not read '%s'", name_of(s));
    if (npy_read_head(head, &rows, &cols, err))
        return err_ctx(err, "could not continue '%s'", name_of(s));
    if (cols != s->width)
        return err_set(err, RC_FAIL, "'%s' has rows of %" PRIu64 " numbers, not %zu", name_of(s),
                       cols, s->width);
    return RC_OK;
}

static enum rc count_rows(struct embed_sink *s, struct err *err)
{
    size_t head = head_bytes(s), row = s->width * sizeof(float);
    struct stat st;

    if (fstat(s->fd, &st))
        return err_sys(err, "could not read '%s'", name_of(s));
    if (s->format == SINK_JSONL)
        return count_lines(s, err);
    if (s->format == SINK_NPY && check_npy(s, (uint64_t)st.st_size, err))
        return err->code;
    if ((size_t)st.st_size < head)
        return RC_OK;
    s->rows = ((uint64_t)st.st_size - head) / row;
    s->bytes = head + s->rows * row;
    return RC_OK;
}

enum rc sink_open(struct embed_sink *s, const char *path, bool keep, struct err *err)
{
    struct stat st;

    s->fd = -1;
    s->path = path;
    s->rows = s->bytes = s->waiting = s->base = 0;
    s->buf = (struct buf){ .max = SINK_FLUSH + SINK_RECORD_MAX };
    if (!path) {
        off_t at = out_place();
        s->fd = STDOUT_FILENO;
        s->seekable = at >= 0;
        s->base = s->seekable ? (uint64_t)at : 0;
    } else {
        s->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (keep ? 0 : O_TRUNC), 0666);
        if (s->fd < 0 || fstat(s->fd, &st))
            return err_sys(err, "could not write '%s'", path);
        s->seekable = S_ISREG(st.st_mode);
        if (keep && count_rows(s, err))
            return err->code;
        if (s->seekable && ftruncate(s->fd, (off_t)s->bytes))
            return err_sys(err, "could not write '%s'", path);
    }
    if (s->format == SINK_NPY && !s->seekable) {
        /* the number of rows stands at the front and is known at the end */
        err_hint(err, "Name a plain file with -o.");
        return err_set(err, RC_USAGE, "an .npy file needs a plain file, not a pipe or a device");
    }
    if (!s->bytes)
        s->bytes = head_bytes(s);
    return write_head(s, err);
}

/* ---- rows ---- */
static void add_json(struct buf *b, const struct embed_sink *s, const struct sink_row *row)
{
    char text[1 + F32_TEXT_MAX] = ",";
    struct json_out w;

    buf_addf(b, "{\"index\":%" PRIu64, row->index);
    if (row->id)
        buf_addf(b, ",\"id\":%s", row->id);
    if (row->why) {
        buf_adds(b, ",\"error\":");
        json_out_init(&w, b, 0);
        json_add_str(&w, row->why);
        buf_adds(b, "}\n");
        return;
    }
    buf_adds(b, ",\"embedding\":[");
    for (size_t i = 0; i < s->width; i++) {
        size_t len = f32_print(row->values[i], text + 1);

        buf_add(b, text + !i, len + !!i);
    }
    buf_addf(b, "],\"tokens\":%zu,\"truncated\":%s}\n", row->tokens,
             row->truncated ? "true" : "false");
}

enum rc sink_add(struct embed_sink *s, const struct sink_row *row, struct err *err)
{
    if (s->format == SINK_JSONL)
        add_json(&s->buf, s, row);
    else
        buf_add(&s->buf, row->values, s->width * sizeof(float));
    assert(!s->buf.over);
    s->waiting++;
    return s->buf.len >= SINK_FLUSH ? sink_flush(s, err) : RC_OK;
}

/* After a failed write: back to whole records.  Those of the buffer that are whole in the
 * file are not looked for: they are few, and a later run makes them again. */
static void cut_torn(struct embed_sink *s)
{
    struct err ignored = { 0 };

    if (!s->seekable)
        return;
    (void)!ftruncate(s->fd, (off_t)(s->base + s->bytes));
    (void)!write_head(s, &ignored);
}

enum rc sink_flush(struct embed_sink *s, struct err *err)
{
    if (!s->waiting)
        return RC_OK;
    if (write_at(s, buf_str(&s->buf), s->buf.len, s->base + s->bytes, err)) {
        cut_torn(s);
        buf_reset(&s->buf);
        s->waiting = 0;
        return err->code;
    }
    s->bytes += s->buf.len;
    s->rows += s->waiting;
    s->waiting = 0;
    buf_reset(&s->buf);
    return write_head(s, err);
}

enum rc sink_close(struct embed_sink *s, struct err *err)
{
    enum rc rc = RC_OK;

    if (s->fd >= 0 && !s->gone)
        rc = sink_flush(s, err);
    if (s->fd >= 0 && !s->path && s->seekable) /* the shell's next command writes behind us */
        (void)lseek(s->fd, (off_t)(s->base + s->bytes), SEEK_SET);
    if (s->fd >= 0 && s->path && close(s->fd) && !rc)
        rc = err_sys(err, "could not write '%s'", name_of(s));
    s->fd = -1;
    buf_release(&s->buf);
    return rc;
}
