/* SPDX-License-Identifier: MIT */
/* parse: bytes to requests, piece by piece, the same however they are cut.
 *
 *     HEAD ─► (BODY | SIZE ─► DATA ─► DATA_END ─► SIZE … ─► TRAILER)? ─► WHOLE
 *
 * The head is gathered line by line; a fault is seen at the end of its line, so where a
 * read ends changes nothing.  Its text is cut into NUL-terminated strings where it lies.
 *
 * Strict, because a server that reads a request otherwise than a proxy in front of it can be
 * made to see requests that were never sent: lines end with CR LF and nothing else, no
 * control character but TAB in a value, no space before the colon, no folded lines, one
 * Host, one Transfer-Encoding which is "chunked" and alone, lengths that are digits and do
 * not differ.  All of that is 400.
 *
 * Memory: a head grows to HTTP_HEAD_BYTES_MAX, its fields to HTTP_FIELDS_MAX.  A body's block
 * doubles as its bytes arrive, so that announcing a length costs the client as much as us. */
#include "http/http_int.h"

#include "base/mem.h"

#include <strings.h>

enum state { HEAD, BODY, SIZE, DATA, DATA_END, TRAILER, WHOLE, FAILED };

enum { HEAD_FIRST = 512, BODY_FIRST = 4096, LENGTH_DIGITS_MAX = 18, CHUNK_DIGITS_MAX = 8 };

static size_t at_most(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_token(unsigned char c)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && memchr(others, c, sizeof(others) - 1));
}

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool fail_parse(struct http_parser *p, int status, const char *why)
{
    p->state = FAILED;
    p->status = (uint16_t)status;
    p->why = why;
    return false;
}

void http_parser_init(struct http_parser *p, size_t body_max)
{
    *p = (struct http_parser){ .body_max = body_max };
}

void http_parser_release(struct http_parser *p)
{
    free(p->head);
    free(p->body);
    free(p->spans);
    http_parser_init(p, p->body_max);
}

bool http_parser_idle(const struct http_parser *p)
{
    return p->state == HEAD && !p->head_len && !p->skipped_line;
}

bool http_parser_in_body(const struct http_parser *p)
{
    return p->state >= BODY && p->state <= TRAILER;
}

bool http_parser_keeps(const struct http_parser *p)
{
    return p->state != FAILED && !p->close && (p->minor > 0 || p->keep);
}

bool http_decode(const char *in, size_t len, bool plus, char *out, size_t cap, size_t *out_len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        int c = (unsigned char)in[i];

        if (c == '%') {
            int high = i + 2 < len ? hex_value((unsigned char)in[i + 1]) : -1;
            int low = i + 2 < len ? hex_value((unsigned char)in[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = high << 4 | low;
            i += 2;
        } else if (plus && c == '+') {
            c = ' ';
        }
        if (c < 0x20 || c == 0x7f || n + 1 >= cap)
            return false;
        out[n++] = (char)c;
    }
    out[n] = '\0';
    *out_len = n;
    return true;
}

/* ---- the request line */
static bool take_method(struct http_parser *p, const char *s, size_t len)
{
    static const char *const names[] = { "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS" };

    if (!len)
        return fail_parse(p, 400, "the request line has no method");
    for (size_t i = 0; i < len; i++)
        if (!is_token((unsigned char)s[i]))
            return fail_parse(p, 400, "the method is not a token");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strlen(names[i]) == len && !memcmp(names[i], s, len)) {
            p->method = (uint8_t)i;
            return true;
        }
    return fail_parse(p, 501, "this method is not known");
}

static bool take_version(struct http_parser *p, const char *s, size_t len)
{
    if (len != 8 || memcmp(s, "HTTP/", 5) != 0 || s[5] < '0' || s[5] > '9' || s[6] != '.' ||
        s[7] < '0' || s[7] > '9')
        return fail_parse(p, 400, "the request line does not end with a version of HTTP");
    if (s[5] != '1')
        return fail_parse(p, 505, "this server speaks HTTP/1.1 and HTTP/1.0");
    p->minor = (uint8_t)(s[7] - '0');
    return true;
}

/* "host:port" from `from` on, in a target of `len` bytes at head + at.  It moves two bytes to the
 * left, over the scheme's slashes: one for its NUL, one for the '/' of an empty path.  *out_end:
 * where the path begins. */
static bool take_authority(struct http_parser *p, uint32_t at, size_t from, size_t len,
                           size_t *out_end)
{
    char *s = p->head + at;
    size_t end = from;

    while (end < len && s[end] != '/' && s[end] != '?')
        end++;
    if (end == from)
        return fail_parse(p, 400, "the target names no host");
    if (memchr(s + from, '@', end - from))
        return fail_parse(p, 400, "the target's host holds a user's name");
    memmove(s + from - 2, s + from, end - from);
    s[end - 2] = '\0';
    p->authority = at + (uint32_t)(from - 2);
    if (end == len || s[end] != '/')
        s[--end] = '/';
    *out_end = end;
    return true;
}

/* "/path?query" or "http://host/path?query" of `len` bytes at head + at; decodes in place. */
static bool take_target(struct http_parser *p, uint32_t at, size_t len)
{
    char *s = p->head + at, *mark;
    size_t skip = 0, path_len;

    if (len > HTTP_TARGET_MAX)
        return fail_parse(p, 414, "the target is longer than 8192 bytes");
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] <= 0x20 || (unsigned char)s[i] >= 0x7f || s[i] == '#')
            return fail_parse(p, 400, "the target holds a character that must be escaped");
    if (!strncasecmp(s, "http://", 7))
        skip = 7;
    else if (!strncasecmp(s, "https://", 8))
        skip = 8;
    if (skip && !take_authority(p, at, skip, len, &skip))
        return false;
    if (skip >= len || s[skip] != '/')
        return fail_parse(p, 400, "the target is not a path");
    s += skip;
    len -= skip;
    s[len] = '\0';
    mark = memchr(s, '?', len);
    path_len = mark ? (size_t)(mark - s) : len;
    if (mark)
        p->query = at + (uint32_t)(skip + path_len + 1);
    p->path = at + (uint32_t)skip;
    if (!http_decode(s, path_len, false, s, path_len + 1, &path_len))
        return fail_parse(p, 400, "the path has a bad escape");
    return true;
}

static bool request_line(struct http_parser *p, size_t len)
{
    char *s = p->head + p->line;
    const char *one = memchr(s, ' ', len);
    const char *two = one ? memchr(one + 1, ' ', len - (size_t)(one + 1 - s)) : NULL;
    size_t target = one ? (size_t)(one + 1 - s) : 0;

    if (!two)
        return fail_parse(p, 400, "the request line is not 'METHOD TARGET HTTP/1.1'");
    if (!take_version(p, two + 1, len - (size_t)(two + 1 - s)) ||
        !take_method(p, s, (size_t)(one - s)) ||
        !take_target(p, p->line + (uint32_t)target, (size_t)(two - s) - target))
        return false;
    p->has_line = true;
    return true;
}

/* ---- fields */
static bool has_word(const char *list, const char *word)
{
    size_t want = strlen(word);

    while (*list) {
        size_t len;

        list += strspn(list, ", \t");
        len = strcspn(list, ", \t");
        if (len == want && !strncasecmp(list, word, len))
            return true;
        list += len;
    }
    return false;
}

static bool take_length(struct http_parser *p, const char *value)
{
    size_t digits = strspn(value, "0123456789");
    uint64_t n = 0;

    if (!digits || value[digits])
        return fail_parse(p, 400, "Content-Length is not a number");
    while (digits > 1 && *value == '0') {
        value++;
        digits--;
    }
    for (size_t i = 0; i < at_most(digits, LENGTH_DIGITS_MAX + 1); i++)
        n = n * 10 + (uint64_t)(value[i] - '0');
    if (digits > LENGTH_DIGITS_MAX)
        n = UINT64_MAX;
    if (p->has_length && n != p->left)
        return fail_parse(p, 400, "Content-Length is given twice, with different values");
    p->has_length = true;
    p->left = n;
    return true;
}

static bool take_coding(struct http_parser *p, const char *value)
{
    if (p->te)
        return fail_parse(p, 400, "Transfer-Encoding is given twice");
    p->te = true;
    p->chunked = !strcasecmp(value, "chunked");
    return p->chunked || fail_parse(p, 501, "no Transfer-Encoding but chunked is known");
}

/* Those fields that say how to read on. */
static bool note_field(struct http_parser *p, const char *name, const char *value)
{
    if (!strcasecmp(name, "content-length"))
        return take_length(p, value);
    if (!strcasecmp(name, "transfer-encoding"))
        return take_coding(p, value);
    if (!strcasecmp(name, "host"))
        return ++p->hosts == 1 || fail_parse(p, 400, "Host is given twice");
    if (!strcasecmp(name, "authorization")) /* who checks before us may have looked at the other */
        return ++p->authorizations == 1 || fail_parse(p, 400, "Authorization is given twice");
    if (!strcasecmp(name, "connection")) {
        p->close = p->close || has_word(value, "close");
        p->keep = p->keep || has_word(value, "keep-alive");
    } else if (!strcasecmp(name, "expect")) {
        if (strcasecmp(value, "100-continue") != 0)
            return fail_parse(p, 417, "no expectation but 100-continue can be met");
        p->expect = true;
    }
    return true;
}

/* Checks "name: value" of `len` bytes; cuts it in two.  Also used for trailers. */
static bool cut_field(struct http_parser *p, char *s, size_t len, char **out_value)
{
    size_t n = 0, from, to = len;

    if (*s == ' ' || *s == '\t')
        return fail_parse(p, 400, "a field is folded over two lines");
    while (n < len && is_token((unsigned char)s[n]))
        n++;
    if (n == 0 || n == len || s[n] != ':')
        return fail_parse(p, 400, "a field's name is not a token with a colon right behind it");
    for (size_t i = n + 1; i < len; i++) {
        unsigned char c = (unsigned char)s[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return fail_parse(p, 400, "a field's value holds a control character");
    }
    from = n + 1;
    while (from < to && (s[from] == ' ' || s[from] == '\t'))
        from++;
    while (to > from && (s[to - 1] == ' ' || s[to - 1] == '\t'))
        to--;
    s[n] = s[to] = '\0';
    *out_value = s + from;
    return true;
}

static bool field_line(struct http_parser *p, size_t len)
{
    char *s = p->head + p->line, *value;

    if (p->span_count == HTTP_FIELDS_MAX)
        return fail_parse(p, 431, "there are more than 100 fields");
    if (!cut_field(p, s, len, &value))
        return false;
    if (p->span_count == p->span_cap) {
        p->span_cap = p->span_cap ? (uint16_t)(p->span_cap * 2) : 16;
        p->spans = xreallocarray(p->spans, p->span_cap, sizeof(*p->spans));
    }
    p->spans[p->span_count++] =
        (struct http_span){ .name = p->line, .value = (uint32_t)(value - p->head) };
    return note_field(p, s, value);
}

/* The empty line is there: what follows? */
static bool head_end(struct http_parser *p)
{
    if (p->te && p->has_length)
        return fail_parse(p, 400, "Content-Length and Transfer-Encoding are both given");
    if (p->te && !p->minor)
        return fail_parse(p, 400, "HTTP/1.0 knows no Transfer-Encoding");
    if (p->minor && !p->hosts)
        return fail_parse(p, 400, "Host is missing");
    p->has_body = p->chunked || (p->has_length && p->left > 0);
    p->expect = p->expect && p->minor > 0 && p->has_body;
    p->state = p->chunked ? SIZE : p->has_body ? BODY : WHOLE;
    return true;
}

/* ---- lines */
static void head_add(struct http_parser *p, const char *data, size_t len)
{
    size_t cap = p->head_cap ? p->head_cap : HEAD_FIRST;

    while (cap < p->head_len + len + 1)
        cap *= 2;
    if (cap != p->head_cap) {
        p->head = xreallocarray(p->head, cap, 1);
        p->head_cap = (uint32_t)cap;
    }
    memcpy(p->head + p->head_len, data, len);
    p->head_len += (uint32_t)len;
    p->head[p->head_len] = '\0';
}

/* A line that ends in LF is in the head; true: go on with the next. */
static bool head_line(struct http_parser *p)
{
    size_t len = p->head_len - p->line;

    if (len < 2 || p->head[p->head_len - 2] != '\r')
        return fail_parse(p, 400, "a line ends without CR LF");
    len -= 2;
    if (!len && p->has_line) {
        p->head_len = p->line; /* the empty line is no part of what is kept */
        return head_end(p);
    }
    if (!len) {
        if (p->skipped_line)
            return fail_parse(p, 400, "empty lines stand before the request");
        p->skipped_line = true;
        p->head_len = 0;
        return true;
    }
    p->head[p->head_len - 2] = '\0';
    if (p->has_line ? !field_line(p, len) : !request_line(p, len))
        return false;
    p->line = p->head_len;
    return true;
}

static size_t read_head(struct http_parser *p, const char *data, size_t len)
{
    size_t used = 0;

    while (p->state == HEAD && used < len) {
        size_t n = at_most(len - used, HTTP_HEAD_BYTES_MAX - p->head_len);
        const char *end = memchr(data + used, '\n', n);

        if (!p->head_len && !is_token((unsigned char)data[used]) && data[used] != '\r') {
            fail_parse(p, 400, "this is not HTTP"); /* TLS, say: no line may ever end */
            return used;
        }
        n = end ? (size_t)(end - data) - used + 1 : n;
        head_add(p, data + used, n);
        used += n;
        if (!p->has_line && p->head_len - p->line > HTTP_LINE_MAX)
            fail_parse(p, 414, "the request line is longer than 8256 bytes");
        else if (end)
            (void)head_line(p);
        if (p->state == HEAD && p->head_len == HTTP_HEAD_BYTES_MAX)
            fail_parse(p, 431, "the head is longer than 65536 bytes");
    }
    return used;
}

/* ---- bodies */
static bool body_add(struct http_parser *p, const char *data, size_t len)
{
    size_t need = p->body_len + len + 1;

    if (len > p->body_max - p->body_len)
        return fail_parse(p, 413, "the body is longer than this server takes");
    if (p->drops) {
        p->body_len += len;
        return true;
    }
    if (need > p->body_cap) {
        size_t cap = p->body_cap * 2 > BODY_FIRST ? p->body_cap * 2 : BODY_FIRST;
        size_t most = p->chunked ? p->body_max + 1 : p->body_len + (size_t)p->left + 1;

        cap = at_most(cap > need ? cap : need, most);
        p->body = xreallocarray(p->body, cap, 1);
        p->body_cap = cap;
    }
    if (len)
        memcpy(p->body + p->body_len, data, len);
    p->body_len += len;
    p->body[p->body_len] = '\0';
    return true;
}

static size_t read_body(struct http_parser *p, const char *data, size_t len)
{
    size_t n = (size_t)(len < p->left ? len : p->left);

    if (!body_add(p, data, n))
        return n;
    p->left -= n;
    if (!p->left)
        p->state = p->chunked ? DATA_END : WHOLE;
    return n;
}

/* A line of the chunked coding is gathered at head[line..]; the number of bytes taken, and
 * whether it is whole (without its CR LF, NUL-terminated). */
static size_t read_line(struct http_parser *p, const char *data, size_t len, size_t max, bool *out)
{
    size_t n = at_most(len, max - (p->head_len - p->line));
    const char *end = memchr(data, '\n', n);

    *out = false;
    n = end ? (size_t)(end - data) + 1 : n;
    head_add(p, data, n);
    if (!end) {
        if (p->head_len - p->line == max)
            fail_parse(p, p->state == TRAILER ? 431 : 400,
                       p->state == DATA_END ? "a chunk is longer than its size"
                                            : "a line of the chunked body is too long");
        return n;
    }
    if (p->head_len - p->line < 2 || p->head[p->head_len - 2] != '\r') {
        fail_parse(p, 400, "a line of the chunked body ends without CR LF");
        return n;
    }
    p->head_len -= 2;
    p->head[p->head_len] = '\0';
    *out = true;
    return n;
}

/* "1a3;name=value": the number alone counts. */
static bool size_line(struct http_parser *p)
{
    const char *s = p->head + p->line;
    size_t len = p->head_len - p->line, n = 0, zeros = 0;
    uint64_t size = 0;

    while (zeros < len && s[zeros] == '0')
        zeros++;
    n = zeros;
    while (n < len && n - zeros <= CHUNK_DIGITS_MAX && hex_value((unsigned char)s[n]) >= 0)
        size = size << 4 | (uint64_t)hex_value((unsigned char)s[n++]);
    if (!n || (n < len && s[n] != ';' && hex_value((unsigned char)s[n]) < 0))
        return fail_parse(p, 400, "a chunk's size is not a number");
    for (size_t i = n; i < len; i++)
        if (((unsigned char)s[i] < 0x20 && s[i] != '\t') || s[i] == 0x7f)
            return fail_parse(p, 400, "a chunk's extension holds a control character");
    if (n - zeros > CHUNK_DIGITS_MAX || size > p->body_max - p->body_len)
        return fail_parse(p, 413, "the body is longer than this server takes");
    p->left = size;
    p->head_len = p->line;
    p->state = size ? DATA : TRAILER;
    return true;
}

static bool trailer_line(struct http_parser *p)
{
    size_t len = p->head_len - p->line;
    char *value;

    p->extra += (uint32_t)len + 2;
    if (p->extra > HTTP_HEAD_BYTES_MAX)
        return fail_parse(p, 431, "the trailers are longer than 65536 bytes");
    p->head_len = p->line;
    if (!len) {
        p->state = WHOLE;
        return body_add(p, NULL, 0);
    }
    return cut_field(p, p->head + p->line, len, &value); /* and thrown away */
}

static size_t read_chunked(struct http_parser *p, const char *data, size_t len)
{
    size_t max = p->state == TRAILER ? HTTP_HEAD_BYTES_MAX : HTTP_CHUNK_LINE_MAX, n;
    bool whole;

    if (p->state == DATA)
        return read_body(p, data, len);
    n = read_line(p, data, len, p->state == DATA_END ? 2 : max, &whole);
    if (!whole)
        return n;
    if (p->state == SIZE)
        (void)size_line(p);
    else if (p->state == TRAILER)
        (void)trailer_line(p);
    else
        p->state = SIZE;
    return n;
}

size_t http_parse(struct http_parser *p, const char *data, size_t len, enum http_step *out)
{
    size_t used = 0;

    *out = HTTP_MORE;
    if (p->state == HEAD) {
        used = read_head(p, data, len);
        if (p->state != HEAD && p->state != FAILED)
            *out = HTTP_HEAD_DONE;
    } else {
        /* not before the head is known to its reader, who may have another limit */
        if (p->state == BODY && !p->body_len && p->has_length && p->left > p->body_max)
            fail_parse(p, 413, "the body is longer than this server takes");
        while (used < len && http_parser_in_body(p))
            used += p->state == BODY ? read_body(p, data + used, len - used)
                                     : read_chunked(p, data + used, len - used);
        if (p->state == WHOLE)
            *out = HTTP_DONE;
    }
    if (p->state == FAILED)
        *out = HTTP_BAD;
    return used;
}

/* The request's strings, all of them in own->head. */
static void share_head(const struct http_parser *p, struct http_request *req,
                       struct http_parsed *own)
{
    bool whole = p->has_line; /* a fault may have come before there was a path */
    const char *head = own->head;

    own->fields = p->span_count ? xcalloc(p->span_count, sizeof(*own->fields)) : NULL;
    for (size_t i = 0; i < p->span_count; i++)
        own->fields[i] = (struct http_field){ .name = head + p->spans[i].name,
                                              .value = head + p->spans[i].value };
    req->method = (enum http_method)p->method;
    req->path = whole ? head + p->path : "";
    req->query = whole && p->query ? head + p->query : "";
    req->fields = own->fields;
    req->field_count = p->span_count;
}

void http_parser_copy_head(const struct http_parser *p, struct http_request *req,
                           struct http_parsed *own)
{
    own->head = xmalloc((size_t)p->head_len + 1);
    memcpy(own->head, p->head, (size_t)p->head_len + 1);
    share_head(p, req, own);
    req->body = "";
    req->body_len = 0;
}

void http_parser_take(struct http_parser *p, struct http_request *req, struct http_parsed *own)
{
    size_t body_max = p->body_max;

    own->head = p->head;
    own->body = p->body;
    share_head(p, req, own);
    req->body = p->body ? p->body : "";
    req->body_len = p->body ? p->body_len : 0;
    free(p->spans);
    http_parser_init(p, body_max);
}
