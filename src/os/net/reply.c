/* SPDX-License-Identifier: MIT */
#include "os/net/net_int.h"

#include "base/str.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
    AT_STATUS,
    AT_FIELDS,
    AT_LENGTH,
    AT_EOF,
    AT_CHUNK,
    AT_DATA,
    AT_DATA_END,
    AT_TRAILER,
    AT_END
};

void reply_reset(struct reply *r, struct buf *keep)
{
    r->keep = keep;
    r->status = 0;
    r->close = r->chunked = r->has_length = r->http10 = r->keep_alive = false;
    r->tokens = r->retry_after_s = -1;
    r->body_bytes = r->left = 0;
    r->first_len = r->last_len = r->head_bytes = r->line_len = 0;
    r->why = NULL;
    r->at = AT_STATUS;
}

bool reply_begun(const struct reply *r)
{
    return r->head_bytes > 0;
}

static enum reply_state reply_is_bad(struct reply *r, const char *why)
{
    r->why = why;
    r->close = true;
    return REPLY_BAD;
}

/* ---- lines ---- */
/* "HTTP/1.1 200 OK" */
static enum reply_state status_line(struct reply *r)
{
    const char *l = r->line;

    if (strncmp(l, "HTTP/1.", 7) || (l[7] != '0' && l[7] != '1') || l[8] != ' ')
        return reply_is_bad(r, "it does not begin like an HTTP/1 reply");
    if (!isdigit((unsigned char)l[9]) || !isdigit((unsigned char)l[10]) ||
        !isdigit((unsigned char)l[11]) || (l[12] && l[12] != ' ') || l[9] == '0')
        return reply_is_bad(r, "its status is not a number of three digits");
    r->http10 = l[7] == '0';
    r->status = (l[9] - '0') * 100 + (l[10] - '0') * 10 + (l[11] - '0');
    r->at = AT_FIELDS;
    return REPLY_MORE;
}

static enum reply_state length_field(struct reply *r, const char *value)
{
    uint64_t v;

    if (!str_to_u64(value, 10, &v) || v > REPLY_BODY_MAX)
        return reply_is_bad(r, "its Content-Length is not a length");
    if (r->has_length && v != r->left)
        return reply_is_bad(r, "it has two lengths");
    r->has_length = true;
    r->left = v;
    return REPLY_MORE;
}

static enum reply_state field_line(struct reply *r)
{
    char *colon = strchr(r->line, ':'), *value;
    int64_t v;

    if (!colon || colon == r->line || isspace((unsigned char)r->line[0]))
        return reply_is_bad(r, "a header line has no name");
    *colon = '\0';
    value = str_trim(colon + 1);
    if (!strcasecmp(r->line, "content-length"))
        return length_field(r, value);
    if (!strcasecmp(r->line, "transfer-encoding")) {
        if (strcasecmp(value, "chunked"))
            return reply_is_bad(r, "its Transfer-Encoding is not 'chunked'");
        r->chunked = true;
    } else if (!strcasecmp(r->line, "connection")) {
        r->close = !strcasecmp(value, "close");
        r->keep_alive = !strcasecmp(value, "keep-alive");
    } else if (!strcasecmp(r->line, "x-compute-tokens")) {
        if (str_to_i64(value, 10, &v) && v >= 0)
            r->tokens = v;
    } else if (!strcasecmp(r->line, "retry-after")) {
        if (str_to_i64(value, 10, &v) && v >= 0)
            r->retry_after_s = v;
    }
    return REPLY_MORE;
}

static enum reply_state reply_is_done(struct reply *r)
{
    r->at = AT_END;
    return REPLY_DONE;
}

/* The empty line behind the fields: what kind of body follows? */
static enum reply_state head_end(struct reply *r)
{
    if (r->status < 200) { /* an interim reply: the real one follows */
        if (r->status == 101)
            return reply_is_bad(r, "it changes the protocol");
        r->status = 0;
        r->has_length = r->chunked = r->close = r->keep_alive = false;
        r->left = 0;
        r->at = AT_STATUS;
        return REPLY_MORE;
    }
    if (r->http10 && !r->keep_alive)
        r->close = true;
    if (r->status == 204 || r->status == 304)
        return reply_is_done(r);
    if (r->chunked) {
        r->at = AT_CHUNK;
        return REPLY_MORE;
    }
    if (!r->has_length) {
        r->close = true;
        r->at = AT_EOF;
        return REPLY_MORE;
    }
    r->at = AT_LENGTH;
    return r->left ? REPLY_MORE : reply_is_done(r);
}

/* "1a;ext=1" */
static enum reply_state chunk_line(struct reply *r)
{
    uint64_t v = 0;
    size_t n = 0;

    for (; isxdigit((unsigned char)r->line[n]); n++) {
        int c = tolower((unsigned char)r->line[n]);

        v = v * 16 + (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        if (v > REPLY_BODY_MAX)
            return reply_is_bad(r, "a chunk is too long");
    }
    if (!n || (r->line[n] && !strchr("; \t", r->line[n])))
        return reply_is_bad(r, "a chunk has no length");
    r->left = v;
    r->at = v ? AT_DATA : AT_TRAILER;
    return REPLY_MORE;
}

static enum reply_state whole_line(struct reply *r)
{
    r->line[r->line_len] = '\0';
    if (r->line_len && r->line[r->line_len - 1] == '\r')
        r->line[--r->line_len] = '\0';
    switch (r->at) {
    case AT_STATUS:
        return status_line(r);
    case AT_FIELDS:
        return r->line_len ? field_line(r) : head_end(r);
    case AT_CHUNK:
        return chunk_line(r);
    case AT_DATA_END:
        r->at = AT_CHUNK;
        return r->line_len ? reply_is_bad(r, "a chunk is longer than it says") : REPLY_MORE;
    default: /* a trailer */
        return r->line_len ? REPLY_MORE : reply_is_done(r);
    }
}

/* Gathers bytes up to a line feed; *used grows by what was taken. */
static enum reply_state feed_line(struct reply *r, const char *p, size_t len, size_t *used)
{
    const char *feed = memchr(p, '\n', len);
    size_t n = feed ? (size_t)(feed - p) : len, room = sizeof(r->line) - 1 - r->line_len;
    bool chunk = r->at == AT_CHUNK || r->at == AT_DATA_END;
    enum reply_state s;

    *used += n + !!feed;
    if (!chunk)
        r->head_bytes += n + !!feed;
    if (r->head_bytes > REPLY_HEAD_MAX)
        return reply_is_bad(r, "its head is too long");
    if (chunk && n > room)
        return reply_is_bad(r, "a chunk has no length");
    memcpy(r->line + r->line_len, p, n < room ? n : room);
    r->line_len += n < room ? n : room;
    if (!feed)
        return REPLY_MORE;
    s = whole_line(r);
    r->line_len = 0;
    return s;
}

/* ---- bodies ---- */
static void keep_ends(struct reply *r, const char *p, size_t len)
{
    size_t n = sizeof(r->first) - r->first_len, drop;

    if (n > len)
        n = len;
    memcpy(r->first + r->first_len, p, n);
    r->first_len += n;
    if (len >= sizeof(r->last)) {
        memcpy(r->last, p + len - sizeof(r->last), sizeof(r->last));
        r->last_len = sizeof(r->last);
        return;
    }
    drop = r->last_len + len > sizeof(r->last) ? r->last_len + len - sizeof(r->last) : 0;
    memmove(r->last, r->last + drop, r->last_len - drop);
    memcpy(r->last + r->last_len - drop, p, len);
    r->last_len += len - drop;
}

static enum reply_state feed_body(struct reply *r, const char *p, size_t len, size_t *used)
{
    size_t n = r->at != AT_EOF && r->left < len ? (size_t)r->left : len;

    keep_ends(r, p, n);
    if (r->keep)
        buf_add(r->keep, p, n);
    r->body_bytes += n;
    *used += n;
    if (r->at == AT_EOF)
        return REPLY_MORE;
    r->left -= n;
    if (r->left)
        return REPLY_MORE;
    if (r->at == AT_LENGTH)
        return reply_is_done(r);
    r->at = AT_DATA_END;
    return REPLY_MORE;
}

enum reply_state reply_feed(struct reply *r, const char *p, size_t len, size_t *out_used)
{
    enum reply_state s = REPLY_MORE;
    size_t used = 0;

    if (r->at == AT_END)
        s = REPLY_DONE;
    while (s == REPLY_MORE && used < len) {
        bool body = r->at == AT_LENGTH || r->at == AT_EOF || r->at == AT_DATA;

        s = body ? feed_body(r, p + used, len - used, &used)
                 : feed_line(r, p + used, len - used, &used);
    }
    *out_used = used;
    return s;
}

enum reply_state reply_eof(struct reply *r)
{
    r->close = true;
    if (r->at == AT_EOF)
        return reply_is_done(r);
    if (r->at == AT_END)
        return REPLY_DONE;
    return reply_is_bad(r, reply_begun(r) ? "the connection ended in its middle"
                                          : "the connection ended before it");
}
