/* SPDX-License-Identifier: MIT */
/* json: the writer. */
#include "base/text/json.h"

#include "base/text/utf8.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_out_init(struct json_out *w, struct buf *buf, int indent)
{
    *w = (struct json_out){ .buf = buf, .indent = indent };
}

static void new_line(struct json_out *w)
{
    if (w->indent) {
        buf_addc(w->buf, '\n');
        buf_fill(w->buf, ' ', (size_t)w->indent * (size_t)w->depth);
    }
}

/* Before every value: the comma and line break its place asks for. */
static void value_starts(struct json_out *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->comma[w->depth])
        buf_addc(w->buf, ',');
    if (w->depth)
        new_line(w);
    w->comma[w->depth] = true;
}

static void open_level(struct json_out *w, char c)
{
    value_starts(w);
    assert(w->depth < JSON_DEPTH_MAX);
    buf_addc(w->buf, c);
    w->comma[++w->depth] = false;
}

static void close_level(struct json_out *w, char c)
{
    bool any = w->comma[w->depth];

    assert(w->depth > 0 && !w->after_key);
    w->depth--;
    if (any)
        new_line(w);
    buf_addc(w->buf, c);
}

void json_obj(struct json_out *w)
{
    open_level(w, '{');
}

void json_obj_end(struct json_out *w)
{
    close_level(w, '}');
}

void json_arr(struct json_out *w)
{
    open_level(w, '[');
}

void json_arr_end(struct json_out *w)
{
    close_level(w, ']');
}

/* Bytes at the start that need no look: printable ASCII but quote and backslash. */
static size_t plain_run(const char *s, size_t len)
{
    size_t n = 0;

    while (n < len && s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
        n++;
    return n;
}

static void add_quoted(struct buf *b, const char *s, size_t len)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t c;

    buf_addc(b, '"');
    for (size_t i = 0, n; i < len; i += n) {
        n = plain_run(s + i, len - i);
        if (n) {
            buf_add(b, s + i, n);
            continue;
        }
        n = utf8_decode(s + i, len - i, &c);
        if (!n) {
            buf_adds(b, "\xef\xbf\xbd"); /* U+FFFD */
            n = 1;
        } else if (c == '"' || c == '\\') {
            buf_addc(b, '\\');
            buf_addc(b, (char)c);
        } else if (c == '\n')
            buf_adds(b, "\\n");
        else if (c == '\t')
            buf_adds(b, "\\t");
        else if (c < 0x20 || (c >= 0x7f && c < 0xa0)) { /* terminals act on these */
            const char esc[6] = { '\\', 'u', '0', '0', hex[c >> 4], hex[c & 15] };

            buf_add(b, esc, sizeof(esc));
        } else
            buf_add(b, s + i, n);
    }
    buf_addc(b, '"');
}

void json_key(struct json_out *w, const char *key)
{
    value_starts(w);
    add_quoted(w->buf, key, strlen(key));
    buf_adds(w->buf, w->indent ? ": " : ":");
    w->after_key = true;
}

void json_add_strn(struct json_out *w, const char *s, size_t len)
{
    value_starts(w);
    add_quoted(w->buf, s, len);
}

void json_add_str(struct json_out *w, const char *s)
{
    if (s)
        json_add_strn(w, s, strlen(s));
    else
        json_add_null(w);
}

static void add_decimal(struct buf *b, bool minus, uint64_t v)
{
    char text[24];
    size_t at = sizeof(text);

    do
        text[--at] = (char)('0' + v % 10);
    while (v /= 10);
    if (minus)
        text[--at] = '-';
    buf_add(b, text + at, sizeof(text) - at);
}

void json_add_int(struct json_out *w, int64_t v)
{
    value_starts(w);
    add_decimal(w->buf, v < 0, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void json_add_uint(struct json_out *w, uint64_t v)
{
    value_starts(w);
    add_decimal(w->buf, false, v);
}

struct buf *json_raw(struct json_out *w)
{
    value_starts(w);
    return w->buf;
}

void json_add_num(struct json_out *w, double v)
{
    char text[40];

    if (!isfinite(v)) {
        json_add_null(w);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) { /* the shortest that reads back */
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    value_starts(w);
    buf_adds(w->buf, text);
}

void json_add_bool(struct json_out *w, bool v)
{
    value_starts(w);
    buf_adds(w->buf, v ? "true" : "false");
}

void json_add_null(struct json_out *w)
{
    value_starts(w);
    buf_adds(w->buf, "null");
}

void json_add_maybe(struct json_out *w, struct maybe v)
{
    if (v.known)
        json_add_int(w, v.v);
    else
        json_add_null(w);
}

/* Depth is bounded by what json_parse() let through. */
void json_add_value(struct json_out *w, const struct json *v)
{
    switch (v->type) {
    case JSON_NULL:
        json_add_null(w);
        return;
    case JSON_BOOL:
        json_add_bool(w, v->boolean);
        return;
    case JSON_NUM:
        value_starts(w);
        buf_add(w->buf, v->text, v->len);
        return;
    case JSON_STR:
        json_add_strn(w, v->text, v->len);
        return;
    case JSON_ARR:
    case JSON_OBJ:
        break;
    }
    open_level(w, v->type == JSON_OBJ ? '{' : '[');
    for (const struct json *c = v->first; c; c = c->next) {
        if (v->type == JSON_OBJ)
            json_key(w, c->key);
        json_add_value(w, c);
    }
    close_level(w, v->type == JSON_OBJ ? '}' : ']');
}

void json_kv_str(struct json_out *w, const char *key, const char *s)
{
    json_key(w, key);
    json_add_str(w, s);
}

void json_kv_int(struct json_out *w, const char *key, int64_t v)
{
    json_key(w, key);
    json_add_int(w, v);
}

void json_kv_bool(struct json_out *w, const char *key, bool v)
{
    json_key(w, key);
    json_add_bool(w, v);
}

void json_kv_maybe(struct json_out *w, const char *key, struct maybe v)
{
    json_key(w, key);
    json_add_maybe(w, v);
}

void json_kv_num(struct json_out *w, const char *key, double v)
{
    json_key(w, key);
    json_add_num(w, v);
}

void json_kv_obj(struct json_out *w, const char *key)
{
    json_key(w, key);
    json_obj(w);
}

void json_kv_arr(struct json_out *w, const char *key)
{
    json_key(w, key);
    json_arr(w);
}

void json_doc(struct json_out *w, struct buf *buf, const char *schema)
{
    json_out_init(w, buf, 2);
    json_obj(w);
    json_kv_str(w, "schema", schema);
}

void json_doc_end(struct json_out *w)
{
    json_obj_end(w);
    buf_addc(w->buf, '\n');
}
