/* SPDX-License-Identifier: MIT */
/* yaml_out: YAML in block style, for people to read and any reader to take alike.
 *
 * A text stands bare only when no reader could take it for anything else: letters first, then
 * letters, digits and a few marks, and none of the words that YAML 1.1 or 1.2 gives a meaning
 * (yes, off, null ...).  Everything else is in double quotes with JSON's escapes, which are YAML's
 * too.  Lines of a script go into a literal block when they can. */
#include "base/str.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "render/text/quote_int.h"
#include "render/text/yaml_out_int.h"

#include <assert.h>
#include <inttypes.h>

enum { KEY_MAX = 160 }; /* bytes of a simple key: YAML has 1024 characters, escapes included */

static const char *const WORDS[] = { "y",    "n",     "yes",  "no",   "on",  "off",
                                     "true", "false", "null", "none", "nan", "inf" };

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_bare(const char *s)
{
    if (!is_letter(*s) && *s != '/')
        return false;
    for (const char *p = s; *p; p++)
        if (!is_letter(*p) && !(*p >= '0' && *p <= '9') && !strchr("_-./", *p))
            return false;
    for (size_t i = 0; i < sizeof(WORDS) / sizeof(*WORDS); i++)
        if (!strcasecmp(s, WORDS[i]))
            return false;
    return true;
}

/* A part of a text with JSON's escapes, without the quotes around it. */
static void put_quoted(struct buf *b, const char *s, size_t len)
{
    struct buf part = { 0 };
    struct json_out w;

    json_out_init(&w, &part, 0);
    json_add_strn(&w, s, len);
    buf_add(b, part.data + 1, part.len - 2);
    buf_release(&part);
}

/* YAML 1.1 ends a line at U+0085, U+2028 and U+2029 and folds it, even in quotes; what it does not
 * call printable it refuses.  JSON leaves them as they are. */
static bool needs_escape(uint32_t c)
{
    return (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff ||
           (c & 0xfffe) == 0xfffe;
}

static void put_text(struct buf *b, const char *s)
{
    size_t left = strlen(s), n;
    const char *from = s;
    uint32_t c = 0;

    if (is_bare(s)) {
        buf_adds(b, s);
        return;
    }
    buf_addc(b, '"');
    for (; left; s += n, left -= n) {
        n = utf8_decode(s, left, &c);
        n = n ? n : 1;
        if (n == 1 ? *s != 0x7f : !needs_escape(c))
            continue;
        put_quoted(b, from, (size_t)(s - from));
        buf_addf(b, c > 0xffff ? "\\U%08x" : "\\u%04x", c);
        from = s + n;
    }
    put_quoted(b, from, (size_t)(s - from));
    buf_addc(b, '"');
}

static void put_note(struct yaml_out *y, const char *note)
{
    if (!note)
        return;
    buf_adds(y->buf, "  # ");
    quote_comment(y->buf, note);
}

/* Where the innermost container has nothing in it yet, its line is still open. */
static void finish_line(struct yaml_out *y)
{
    int in = y->depth - 1;

    if (in == 0 || !y->empty[in] || y->commented[in])
        return;
    if (y->seq[in - 1]) { /* "- key: value" */
        buf_addc(y->buf, ' ');
        y->same_line = true;
        return;
    }
    put_note(y, y->notes[in]);
    y->notes[in] = NULL;
    buf_addc(y->buf, '\n');
}

static void put_indent(struct yaml_out *y)
{
    if (!y->same_line)
        buf_fill(y->buf, ' ', 2 * (size_t)(y->depth - 1));
    y->same_line = false;
}

/* The line up to where a value or a container begins. */
static void open_line(struct yaml_out *y, const char *key)
{
    assert(y->depth > 0 && y->seq[y->depth - 1] == !key);
    finish_line(y);
    y->empty[y->depth - 1] = false;
    put_indent(y);
    if (!key) {
        buf_addc(y->buf, '-');
        return;
    }
    if (strlen(key) > KEY_MAX) { /* readers look no further for the colon of a simple one */
        buf_adds(y->buf, "? ");
        put_text(y->buf, key);
        buf_addc(y->buf, '\n');
        put_indent(y);
    } else {
        put_text(y->buf, key);
    }
    buf_addc(y->buf, ':');
}

static void close_line(struct yaml_out *y)
{
    put_note(y, y->note);
    y->note = NULL;
    buf_addc(y->buf, '\n');
}

void yaml_begin(struct yaml_out *y, struct buf *buf)
{
    if (buf->len)
        buf_adds(buf, "---\n");
    *y = (struct yaml_out){ .buf = buf, .depth = 1, .empty = { true } };
}

void yaml_finish(struct yaml_out *y)
{
    yaml_ends(y, y->depth - 1);
    if (y->empty[0])
        buf_adds(y->buf, "{}\n");
}

static void open_container(struct yaml_out *y, const char *key, bool seq)
{
    assert(y->depth < YAML_OUT_DEPTH_MAX);
    open_line(y, key);
    y->seq[y->depth] = seq;
    y->empty[y->depth] = true;
    y->commented[y->depth] = false;
    y->notes[y->depth] = key ? y->note : NULL;
    if (key)
        y->note = NULL; /* one of an item stands behind its first value */
    y->depth++;
}

void yaml_map(struct yaml_out *y, const char *key)
{
    open_container(y, key, false);
}

void yaml_seq(struct yaml_out *y, const char *key)
{
    open_container(y, key, true);
}

void yaml_open(struct yaml_out *y, const char *path)
{
    for (size_t len; *path; path += len) {
        char key[YAML_OPEN_KEY_MAX];
        bool seq;

        path += *path == '.';
        len = strcspn(path, ".[");
        seq = path[len] == '[';
        assert(len < sizeof(key) && (!seq || path[len + 1] == ']'));
        memcpy(key, path, len);
        key[len] = '\0';
        if (len)
            open_container(y, key, seq);
        if (seq)
            open_container(y, NULL, false);
        len += seq ? 2 : 0;
    }
}

void yaml_end(struct yaml_out *y)
{
    assert(y->depth > 1);
    y->depth--;
    if (!y->empty[y->depth])
        return;
    if (y->commented[y->depth])
        buf_fill(y->buf, ' ', 2 * (size_t)y->depth - 1);
    buf_adds(y->buf, y->seq[y->depth] ? " []" : " {}");
    y->note = y->notes[y->depth];
    close_line(y);
}

void yaml_ends(struct yaml_out *y, int count)
{
    while (count-- > 0)
        yaml_end(y);
}

void yaml_str(struct yaml_out *y, const char *key, const char *value)
{
    open_line(y, key);
    buf_addc(y->buf, ' ');
    put_text(y->buf, value);
    close_line(y);
}

void yaml_strf(struct yaml_out *y, const char *key, const char *fmt, ...)
{
    struct buf b = { 0 };
    va_list ap;

    va_start(ap, fmt);
    buf_vaddf(&b, fmt, ap);
    va_end(ap);
    yaml_str(y, key, buf_str(&b));
    buf_release(&b);
}

void yaml_int(struct yaml_out *y, const char *key, int64_t value)
{
    open_line(y, key);
    buf_addf(y->buf, " %" PRId64, value);
    close_line(y);
}

void yaml_bool(struct yaml_out *y, const char *key, bool value)
{
    open_line(y, key);
    buf_adds(y->buf, value ? " true" : " false");
    close_line(y);
}

/* A literal block keeps every byte only of printable lines that end in exactly one newline, none
 * of which begins the text with a blank or ends in one. */
static bool literal_ok(const char *s)
{
    size_t len = strlen(s);

    if (!len || s[len - 1] != '\n' || (len > 1 && s[len - 2] == '\n') || strchr(" \n\t", *s))
        return false;
    for (const char *p = s; *p; p++) {
        unsigned char c = (unsigned char)*p;

        if ((c < ' ' && c != '\n' && c != '\t') || c >= 0x7f)
            return false;
    }
    return true;
}

void yaml_text(struct yaml_out *y, const char *key, const char *value)
{
    if (!literal_ok(value)) {
        yaml_str(y, key, value);
        return;
    }
    open_line(y, key);
    buf_adds(y->buf, " |");
    close_line(y);
    for (const char *p = value, *nl; *p; p = nl + 1) {
        nl = strchr(p, '\n');
        if (nl > p)
            buf_fill(y->buf, ' ', 2 * (size_t)y->depth);
        buf_add(y->buf, p, (size_t)(nl - p) + 1);
    }
}

void yaml_strs(struct yaml_out *y, const char *key, const struct spec_strs *items)
{
    yaml_seq(y, key);
    for (size_t i = 0; i < items->count; i++)
        yaml_str(y, NULL, items->items[i]);
    yaml_end(y);
}

void yaml_texts(struct yaml_out *y, const char *key, bool seq, const char *const *texts,
                size_t count)
{
    open_container(y, key, seq);
    for (size_t i = 0; i < count; i += seq ? 1 : 2)
        yaml_str(y, seq ? NULL : texts[i], texts[seq ? i : i + 1]);
    yaml_end(y);
}

void yaml_note(struct yaml_out *y, const char *note)
{
    y->note = note;
}

void yaml_comment(struct yaml_out *y, const char *words)
{
    bool in_item = y->depth > 1 && y->empty[y->depth - 1] && y->seq[y->depth - 2];

    assert(!in_item); /* a comment cannot stand between "-" and its key */
    finish_line(y);
    y->commented[y->depth - 1] = true;
    put_indent(y);
    buf_adds(y->buf, "# ");
    quote_comment(y->buf, words);
    buf_addc(y->buf, '\n');
}
