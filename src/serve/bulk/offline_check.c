/* SPDX-License-Identifier: MIT */
/* offline_check: is a file what a batch can be made of?  Every line is read before the first is
 * answered, as a fault in the last one would else be told after hours.
 *
 * A line is {"custom_id": text, "method": "POST", "url": the batch's endpoint, "body": an object};
 * no two have the same custom_id.  Of those a hash is kept, not the text. */
#include "serve/bulk/offline_int.h"

#include "base/codec/sha256.h"
#include "base/mem.h"
#include "base/str.h"
#include "serve/bulk/lines_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10 };

/* ---- lines of a file */
enum rc line_reader_open(struct line_reader *r, const char *path, struct err *err)
{
    *r = (struct line_reader){ .fd = -1 };
    buf_init(&r->held, OFFLINE_LINE_BYTES_MAX + 2 * READ_BYTES);
    return file_open(path, &r->fd, NULL, err);
}

void line_reader_close(struct line_reader *r)
{
    if (r->fd >= 0)
        close(r->fd);
    buf_release(&r->held);
}

static enum rc read_more(struct line_reader *r, struct err *err)
{
    char *room;
    ssize_t n;

    if (r->at) {
        memmove(r->held.data, r->held.data + r->at, r->held.len - r->at);
        r->held.len -= r->at;
        r->at = 0;
    }
    room = buf_reserve(&r->held, READ_BYTES);
    if (!room)
        return err_set(err, RC_LIMIT, "a line is too long");
    do
        n = read(r->fd, room, READ_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_sys(err, "could not read a file of requests");
    buf_commit(&r->held, (size_t)n);
    r->end = n == 0;
    return RC_OK;
}

enum rc line_reader_next(struct line_reader *r, const char **out, size_t *out_len, struct err *err)
{
    size_t over = 0;

    for (;;) {
        size_t left = r->held.len - r->at;
        const char *from = r->held.data + r->at;
        const char *nl = left ? memchr(from, '\n', left) : NULL;
        size_t len = nl ? (size_t)(nl - from) : left;

        if (!nl && !r->end && left <= OFFLINE_LINE_BYTES_MAX) {
            if (read_more(r, err))
                return err->code;
            continue;
        }
        if (!nl && !r->end) { /* forget it, remember that it was too long */
            over += left;
            r->at = r->held.len;
            continue;
        }
        if (!nl && !left && !over) {
            *out = NULL;
            return RC_OK;
        }
        r->at += len + (nl != NULL);
        r->number++;
        *out = from ? from : "";
        *out_len = over + len;
        if (len && from[len - 1] == '\r' && !over)
            (*out_len)--;
        return RC_OK;
    }
}

/* ---- one line */
static bool is_blank(const char *text, size_t len)
{
    while (len && strchr(" \t\r", text[len - 1]))
        len--;
    return len == 0;
}

static const struct {
    const char *name, *what;
    enum json_type type;
} members[] = {
    { "custom_id", "a string", JSON_STR },
    { "method", "\"POST\"", JSON_STR },
    { "url", "the batch's endpoint", JSON_STR },
    { "body", "an object", JSON_OBJ },
};

bool offline_line_read(struct arena *a, const char *text, size_t len, const char *endpoint,
                       struct offline_line *out, const char **code, char *why, size_t why_cap)
{
    struct json *doc = NULL;
    struct err err = { 0 };

    *code = "invalid_json_line";
    if (len > OFFLINE_LINE_BYTES_MAX) {
        (void)snprintf(why, why_cap, "the line has %zu bytes, %d at most", len,
                       OFFLINE_LINE_BYTES_MAX);
        return false;
    }
    if (json_parse(a, text, len, &doc, &err) || doc->type != JSON_OBJ) {
        (void)snprintf(why, why_cap, "the line is no JSON object%s%.200s", err.msg[0] ? ": " : "",
                       err.msg);
        return false;
    }
    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        const struct json *v = json_get(doc, members[i].name);

        *code = v ? "invalid_value" : "missing_required_parameter";
        (void)snprintf(why, why_cap, "'%s' must be %s", members[i].name, members[i].what);
        if (!v || v->type != members[i].type)
            return false;
    }
    out->custom_id = json_str(json_get(doc, "custom_id"));
    out->body = json_get(doc, "body");
    *code = "invalid_custom_id";
    (void)snprintf(why, why_cap, "'custom_id' must have 1 to %d bytes", LINE_ID_MAX);
    if (!json_get(doc, "custom_id")->len || json_get(doc, "custom_id")->len > LINE_ID_MAX)
        return false;
    (void)snprintf(why, why_cap, "'custom_id' must not contain a NUL");
    if (strlen(out->custom_id) != json_get(doc, "custom_id")->len)
        return false;
    *code = "invalid_method";
    (void)snprintf(why, why_cap, "'method' must be POST");
    if (!str_eq(json_str(json_get(doc, "method")), "POST"))
        return false;
    *code = "mismatched_url";
    (void)snprintf(why, why_cap, "'url' is not the endpoint of this batch, %s", endpoint);
    return str_eq(json_str(json_get(doc, "url")), endpoint);
}

/* ---- all of them */
struct id_hash {
    uint8_t sum[16];
    uint32_t line;
};

static int by_sum(const void *a, const void *b)
{
    const struct id_hash *x = a, *y = b;
    int cmp = memcmp(x->sum, y->sum, sizeof(x->sum));

    return cmp ? cmp : x->line < y->line ? -1 : 1;
}

struct checking {
    struct json_out w;
    size_t faults;
    struct id_hash *ids; /* owned */
    size_t count, cap;
};

static void add_fault(struct checking *c, const char *code, const char *why, uint64_t line)
{
    if (c->faults++ >= OFFLINE_ERRORS_MAX)
        return;
    json_obj(&c->w);
    json_kv_str(&c->w, "code", code);
    json_kv_str(&c->w, "message", why);
    json_kv_str(&c->w, "param", NULL);
    json_key(&c->w, "line");
    if (line)
        json_add_uint(&c->w, line);
    else
        json_add_null(&c->w);
    json_obj_end(&c->w);
}

static void keep_id(struct checking *c, const char *id, uint64_t line)
{
    uint8_t sum[SHA256_BYTES];
    struct sha256 h;

    if (c->count == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 1024;
        c->ids = xreallocarray(c->ids, c->cap, sizeof(*c->ids));
    }
    sha256_init(&h);
    sha256_add(&h, id, strlen(id));
    sha256_end(&h, sum);
    memcpy(c->ids[c->count].sum, sum, sizeof(c->ids[0].sum));
    c->ids[c->count++].line = (uint32_t)line;
}

static void find_twins(struct checking *c)
{
    if (c->count)
        qsort(c->ids, c->count, sizeof(*c->ids), by_sum);
    for (size_t i = 1; i < c->count; i++) {
        char why[128];

        if (memcmp(c->ids[i].sum, c->ids[i - 1].sum, sizeof(c->ids[i].sum)) != 0)
            continue;
        (void)snprintf(why, sizeof(why), "'custom_id' is that of line %u, too", c->ids[i - 1].line);
        add_fault(c, "duplicate_custom_id", why, c->ids[i].line);
    }
}

static enum rc check_lines(struct checking *c, struct line_reader *r, const char *endpoint,
                           uint64_t *out_lines, struct err *err)
{
    char why[512];

    *out_lines = 0;
    for (;;) {
        struct arena a = { 0 };
        struct offline_line line;
        const char *text, *code;
        size_t len;

        if (line_reader_next(r, &text, &len, err))
            return err->code;
        if (!text)
            return RC_OK;
        if (len <= OFFLINE_LINE_BYTES_MAX && is_blank(text, len))
            continue;
        if (++*out_lines > OFFLINE_LINES_MAX) {
            (void)snprintf(why, sizeof(why), "the file has more than %d requests",
                           OFFLINE_LINES_MAX);
            add_fault(c, "too_many_requests", why, 0);
            return RC_OK;
        }
        if (offline_line_read(&a, text, len, endpoint, &line, &code, why, sizeof(why)))
            keep_id(c, line.custom_id, r->number);
        else
            add_fault(c, code, why, r->number);
        arena_release(&a);
    }
}

enum rc offline_check(const char *path, const char *endpoint, uint64_t *out_lines,
                      struct buf *out_errors, struct err *err)
{
    struct checking c = { 0 };
    struct line_reader r;
    enum rc rc = line_reader_open(&r, path, err);

    json_out_init(&c.w, out_errors, 0);
    json_arr(&c.w);
    if (rc == RC_OK)
        rc = check_lines(&c, &r, endpoint, out_lines, err);
    if (rc == RC_OK && !*out_lines)
        add_fault(&c, "empty_file", "the file has no requests", 0);
    find_twins(&c);
    json_arr_end(&c.w);
    if (!c.faults)
        buf_release(out_errors);
    line_reader_close(&r);
    free(c.ids);
    return rc;
}
