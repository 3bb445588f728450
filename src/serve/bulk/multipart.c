/* SPDX-License-Identifier: MIT */
/* multipart: see multipart_int.h.
 *
 *     BEFORE ─► MARK ─► HEAD ─► DATA ─► MARK … ─► END
 *
 * A CR LF is put before the first byte, so that a boundary there is like any other. */
#include "serve/bulk/multipart_int.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MULTIPART_PIECE_MAX = 64 << 10 }; /* bytes taken at a time */

/* The value of `;name=` in a field's value, without quotes; false: not there or too long. */
static bool read_param(const char *text, const char *name, char *out, size_t cap)
{
    size_t len = strlen(name), n = 0;
    bool quoted = false;

    for (const char *p = text; *p; p++) {
        if (*p == '"')
            quoted = !quoted;
        if (*p == '\\' && quoted && p[1])
            p++;
        if (*p != ';' || quoted)
            continue;
        p += 1 + strspn(p + 1, " \t");
        if (!strncasecmp(p, name, len) && p[len] == '=') {
            p += len + 1;
            quoted = *p == '"';
            for (p += quoted; *p && (quoted ? *p != '"' : !strchr("; \t", *p)); p++) {
                p += *p == '\\' && quoted && p[1];
                if (n + 1 >= cap)
                    return false;
                out[n++] = *p;
            }
            out[n] = '\0';
            return !quoted || *p == '"';
        }
        p--;
    }
    return false;
}

enum rc multipart_init(struct multipart *m, const char *content_type, struct err *err)
{
    char boundary[MULTIPART_BOUNDARY_MAX + 1];
    static const char type[] = "multipart/form-data";

    *m = (struct multipart){ .state = MULTIPART_BEFORE };
    if (!content_type || strncasecmp(content_type, type, sizeof(type) - 1) != 0)
        return err_set(err, RC_USAGE, "the body must be a form: Content-Type: %s", type);
    if (!read_param(content_type, "boundary", boundary, sizeof(boundary)) || !boundary[0])
        return err_set(err, RC_USAGE, "the Content-Type has no boundary of 1 to %d bytes",
                       MULTIPART_BOUNDARY_MAX);
    m->mark_len = (size_t)snprintf(m->mark, sizeof(m->mark), "\r\n--%s", boundary);
    buf_init(&m->held, 2 * MULTIPART_HEAD_MAX + MULTIPART_PIECE_MAX);
    buf_adds(&m->held, "\r\n");
    return RC_OK;
}

void multipart_release(struct multipart *m)
{
    buf_release(&m->held);
}

static void forget_held(struct multipart *m, size_t len)
{
    memmove(m->held.data, m->held.data + len, m->held.len - len);
    m->held.len -= len;
    m->held.data[m->held.len] = '\0';
}

static enum rc begin_part(struct multipart *m, char *head, struct err *err)
{
    static const char name[] = "content-disposition:";
    struct multipart_part *part = &m->part;

    *part = (struct multipart_part){ 0 };
    if (++m->parts > MULTIPART_PARTS_MAX)
        return err_set(err, RC_LIMIT, "the form has more than %d parts", MULTIPART_PARTS_MAX);
    for (char *line = head, *next; line && *line; line = next) {
        next = strstr(line, "\r\n");
        if (next) {
            *next = '\0';
            next += 2;
        }
        if (strncasecmp(line, name, sizeof(name) - 1) != 0)
            continue;
        if (!read_param(line, "name", part->name, sizeof(part->name)))
            part->name[0] = '\0';
        part->filename[0] = '\0';
        if (!read_param(line, "filename", part->filename, sizeof(part->filename))) {
            if (part->filename[0])
                return err_set(err, RC_USAGE, "a file's name has %zu bytes at most",
                               sizeof(part->filename) - 1);
            part->filename[0] = '\0';
        }
    }
    if (!part->name[0])
        return err_set(err, RC_PARSE, "part %zu of the form has no name", m->parts);
    return m->take(m->arg, part, NULL, 0, err);
}

static enum rc read_head(struct multipart *m, bool *out_more, struct err *err)
{
    struct buf *held = &m->held;
    char *end = memmem(held->data, held->len, "\r\n\r\n", 4);
    enum rc rc;

    if (!end && held->len > MULTIPART_HEAD_MAX)
        return err_set(err, RC_LIMIT, "the head of a part of the form is too long");
    if (!end)
        return RC_OK;
    *end = '\0';
    rc = begin_part(m, end > held->data ? held->data + 2 : end, err);
    forget_held(m, (size_t)(end - held->data) + 2);
    m->skip = 2; /* the CR LF stays: of an empty part the boundary begins with it */
    m->state = MULTIPART_DATA;
    *out_more = true;
    return rc;
}

static enum rc read_data(struct multipart *m, bool *out_more, struct err *err)
{
    struct buf *held = &m->held;
    const char *at = memmem(held->data, held->len, m->mark, m->mark_len);
    size_t len = at                         ? (size_t)(at - held->data)
                 : held->len >= m->mark_len ? held->len - m->mark_len + 1
                                            : 0;
    enum rc rc = RC_OK;

    if (len > m->skip) {
        rc = m->take(m->arg, &m->part, held->data + m->skip, len - m->skip, err);
        m->skip = 0;
        forget_held(m, len);
        len = 0;
    }
    if (!at)
        return rc;
    forget_held(m, len + m->mark_len);
    m->state = MULTIPART_MARK;
    *out_more = true;
    return rc;
}

/* One step over what is held; *out_more false: it needs more bytes. */
static enum rc step_form(struct multipart *m, bool *out_more, struct err *err)
{
    struct buf *held = &m->held;
    const char *at;

    *out_more = false;
    switch (m->state) {
    case MULTIPART_BEFORE:
        at = memmem(held->data, held->len, m->mark, m->mark_len);
        if (!at && held->len > MULTIPART_HEAD_MAX)
            return err_set(err, RC_LIMIT, "the form does not begin with its boundary");
        if (!at)
            return RC_OK;
        forget_held(m, (size_t)(at - held->data) + m->mark_len);
        m->state = MULTIPART_MARK;
        *out_more = true;
        return RC_OK;
    case MULTIPART_MARK:
        if (held->len < 2)
            return RC_OK;
        if (memcmp(held->data, "\r\n", 2) != 0 && memcmp(held->data, "--", 2) != 0)
            return err_set(err, RC_PARSE, "a boundary of the form is followed by something else");
        m->state = held->data[0] == '-' ? MULTIPART_END : MULTIPART_HEAD;
        *out_more = true; /* the CR LF stays: there may be no field behind it */
        return RC_OK;
    case MULTIPART_HEAD:
        return read_head(m, out_more, err);
    case MULTIPART_DATA:
        return read_data(m, out_more, err);
    case MULTIPART_END:
        break;
    }
    buf_reset(held); /* what follows the form is nobody's */
    return RC_OK;
}

enum rc multipart_feed(struct multipart *m, const char *data, size_t len, struct err *err)
{
    while (len) {
        size_t n = len < MULTIPART_PIECE_MAX ? len : MULTIPART_PIECE_MAX;
        bool more = true;

        buf_add(&m->held, data, n);
        data += n;
        len -= n;
        while (more)
            if (step_form(m, &more, err))
                return err ? err->code : RC_PARSE;
    }
    return RC_OK;
}

enum rc multipart_finish(const struct multipart *m, struct err *err)
{
    return m->state == MULTIPART_END
               ? RC_OK
               : err_set(err, RC_PARSE, "the form ends before its last boundary");
}
