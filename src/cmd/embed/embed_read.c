/* SPDX-License-Identifier: MIT */
/* embed_read: one record a line, from files or stdin, plain or JSON.
 *
 * Lines are bounded (SOURCE_LINE_MAX): a longer one is passed over to its end and told
 * as a bad record, so that it costs only itself.  Reading does not wait when the caller
 * has something to do meanwhile: a pipe that trickles gets its answers as it goes. */
#include "base/mem.h"
#include "base/text/json.h"
#include "cmd/embed/embed_int.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    SOURCE_LINE_MAX = TOK_TEXT_MAX, /* bytes of a line */
    SOURCE_CHUNK = 256 << 10,       /* bytes asked for at once */
    SOURCE_KEEP = 4 << 20           /* buffer kept after a long line */
};

struct embed_source {
    struct source_opts o;
    size_t at; /* file now open */
    int fd;    /* -1: none */
    bool end;  /* of the file now open */
    char *data;
    size_t begin, len, cap; /* unread bytes are data[begin..len) */
    size_t searched;        /* no line feed before data[searched] */
    bool skipping;          /* inside a line that is too long */
    uint64_t line, bytes, size;
    bool size_known;
    struct arena arena; /* one JSON record's */
};

static const char *path_of(const struct embed_source *s)
{
    return s->o.count ? s->o.paths[s->at] : "-";
}

static bool is_stdin(const char *path)
{
    return !strcmp(path, "-");
}

/* Bytes to be read, when every part is a plain file. */
static bool total_size(const struct source_opts *o, uint64_t *out)
{
    uint64_t sum = 0;
    struct stat st;

    for (size_t i = 0; i < (o->count ? o->count : 1); i++) {
        const char *path = o->count ? o->paths[i] : "-";
        int rc = is_stdin(path) ? fstat(STDIN_FILENO, &st) : stat(path, &st);

        if (rc || !S_ISREG(st.st_mode))
            return false;
        sum += (uint64_t)st.st_size;
    }
    *out = sum;
    return true;
}

static enum rc check_paths(const struct source_opts *o, struct err *err)
{
    struct stat st;

    for (size_t i = 0; i < o->count; i++) {
        if (is_stdin(o->paths[i]))
            continue;
        if (access(o->paths[i], R_OK) || stat(o->paths[i], &st)) {
            err_sys(err, "could not read '%s'", o->paths[i]);
            return err ? err->code = RC_FAIL : RC_FAIL;
        }
        if (S_ISDIR(st.st_mode))
            return err_set(err, RC_FAIL, "could not read '%s': it is a directory", o->paths[i]);
    }
    return RC_OK;
}

static enum rc open_next(struct embed_source *s, struct err *err)
{
    const char *path = path_of(s);

    s->end = false;
    s->line = 0;
    s->fd = is_stdin(path) ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0)
        return err_sys(err, "could not read '%s'", path);
    return RC_OK;
}

enum rc source_open(const struct source_opts *o, struct embed_source **out, struct err *err)
{
    struct embed_source *s;

    if (o->count > SOURCE_PATHS_MAX)
        return err_set(err, RC_LIMIT, "more than %d files", SOURCE_PATHS_MAX);
    if (check_paths(o, err))
        return err->code;
    s = xcalloc(1, sizeof(*s));
    s->o = *o;
    if (!s->o.field)
        s->o.field = "text";
    s->size_known = total_size(o, &s->size);
    s->cap = SOURCE_CHUNK;
    s->data = xmalloc(s->cap);
    if (open_next(s, err)) {
        source_close(s);
        return err->code;
    }
    *out = s;
    return RC_OK;
}

void source_close(struct embed_source *s)
{
    if (!s)
        return;
    if (s->fd >= 0)
        close(s->fd);
    arena_release(&s->arena);
    free(s->data);
    free(s);
}

uint64_t source_bytes(const struct embed_source *s)
{
    return s->bytes - (s->len - s->begin);
}

bool source_size(const struct embed_source *s, uint64_t *out)
{
    *out = s->size;
    return s->size_known;
}

/* ---- bytes ---- */
/* Moves what is unread to the front and makes room for a chunk. */
static void make_room(struct embed_source *s)
{
    if (s->begin) {
        memmove(s->data, s->data + s->begin, s->len - s->begin);
        s->len -= s->begin;
        s->searched -= s->begin;
        s->begin = 0;
    }
    if (s->cap > SOURCE_KEEP && s->len < SOURCE_CHUNK) {
        s->cap = SOURCE_KEEP;
        s->data = xreallocarray(s->data, s->cap, 1);
    }
    if (s->cap - s->len < SOURCE_CHUNK) {
        s->cap = 2 * s->cap;
        s->data = xreallocarray(s->data, s->cap, 1);
    }
}

static bool is_ready(int fd, bool wait)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };

    return wait || poll(&p, 1, 0) != 0;
}

/* One read(); `*out_later` when it would have to wait. */
static enum rc fill_buffer(struct embed_source *s, bool wait, bool *out_later, struct err *err)
{
    ssize_t n;

    *out_later = !is_ready(s->fd, wait);
    if (*out_later)
        return RC_OK;
    make_room(s);
    do
        n = read(s->fd, s->data + s->len, s->cap - s->len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(err, "could not read '%s'", path_of(s));
    s->end = n == 0;
    s->len += (size_t)n;
    s->bytes += (uint64_t)n;
    return RC_OK;
}

/* ---- lines ---- */
/* The next line of the open file, without its line feed.  SOURCE_END: the file's end. */
static enum rc next_line(struct embed_source *s, bool wait, enum source_got *out_got,
                         struct tok_text *out, struct err *err)
{
    for (;;) {
        char *from = s->data + s->searched;
        char *lf = memchr(from, '\n', s->len - s->searched);
        bool later;

        if (lf || (s->end && s->len > s->begin)) {
            size_t stop = lf ? (size_t)(lf - s->data) : s->len;

            *out = (struct tok_text){ s->data + s->begin, stop - s->begin };
            s->begin = s->searched = stop + (lf != NULL);
            s->line++;
            *out_got = s->skipping || out->len > SOURCE_LINE_MAX ? SOURCE_BAD : SOURCE_TEXT;
            s->skipping = false;
            return RC_OK;
        }
        if (s->end) {
            *out_got = s->skipping ? SOURCE_BAD : SOURCE_END;
            s->line += s->skipping;
            s->skipping = false;
            return RC_OK;
        }
        s->searched = s->len;
        if (s->len - s->begin > SOURCE_LINE_MAX) { /* keep none of it */
            s->skipping = true;
            s->begin = s->len;
        }
        if (fill_buffer(s, wait, &later, err))
            return err->code;
        if (later) {
            *out_got = SOURCE_LATER;
            return RC_OK;
        }
    }
}

static enum rc next_file(struct embed_source *s, bool *out_more, struct err *err)
{
    close(s->fd);
    s->fd = -1;
    s->begin = s->len = s->searched = 0;
    *out_more = s->at + 1 < s->o.count;
    if (!*out_more)
        return RC_OK;
    s->at++;
    return open_next(s, err);
}

/* ---- records ---- */
static bool is_blank(struct tok_text t)
{
    for (size_t i = 0; i < t.len; i++)
        if (!strchr(" \t\r", t.p[i]) || !t.p[i])
            return false;
    return true;
}

/* The member as JSON text in the arena: a string or a number; anything else is null. */
static bool take_id(struct embed_source *s, const struct json *v, struct source_record *r)
{
    const struct json *id = v->type == JSON_OBJ ? json_get(v, s->o.id) : NULL;
    struct buf text = { 0 };
    struct json_out w;

    if (id && id->len > SOURCE_ID_MAX) {
        snprintf(r->why, sizeof(r->why), "member '%.80s' is longer than %d bytes", s->o.id,
                 SOURCE_ID_MAX);
        return false;
    }
    json_out_init(&w, &text, 0);
    if (id && (id->type == JSON_STR || id->type == JSON_NUM))
        json_add_value(&w, id);
    else
        json_add_null(&w);
    r->id = arena_strdup(&s->arena, buf_str(&text));
    buf_release(&text);
    return true;
}

/* A line of JSON: an object with the field, or a string. */
static enum source_got from_json(struct embed_source *s, struct source_record *r)
{
    struct err err = { 0 };
    struct json *v;
    const struct json *text;

    arena_release(&s->arena);
    if (json_parse(&s->arena, r->text.p, r->text.len, &v, &err)) {
        snprintf(r->why, sizeof(r->why), "not JSON: %.200s", err.msg);
        return SOURCE_BAD;
    }
    if (s->o.id && !take_id(s, v, r))
        return SOURCE_BAD;
    text = v->type == JSON_STR ? v : json_get(v, s->o.field);
    if (!text || text->type != JSON_STR) {
        snprintf(r->why, sizeof(r->why),
                 text ? "member '%.80s' is not a string" : "no member '%.80s'", s->o.field);
        return SOURCE_BAD;
    }
    r->text = (struct tok_text){ text->text, text->len };
    return SOURCE_TEXT;
}

enum rc source_next(struct embed_source *s, bool wait, enum source_got *out_got,
                    struct source_record *out, struct err *err)
{
    struct source_record r = { 0 };
    enum source_got got = SOURCE_END;
    bool more = true;

    for (;;) {
        if (s->fd < 0) {
            *out_got = SOURCE_END;
            return RC_OK;
        }
        if (next_line(s, wait, &got, &r.text, err))
            return err->code;
        if (got == SOURCE_END && next_file(s, &more, err))
            return err->code;
        if (got == SOURCE_END || (got == SOURCE_TEXT && s->o.jsonl && is_blank(r.text)))
            continue;
        break;
    }
    r.file = path_of(s);
    r.line = s->line;
    if (got == SOURCE_BAD)
        snprintf(r.why, sizeof(r.why), "the line is longer than %d bytes", SOURCE_LINE_MAX);
    else if (got == SOURCE_TEXT && s->o.jsonl)
        got = from_json(s, &r);
    *out = r;
    *out_got = got;
    return RC_OK;
}
