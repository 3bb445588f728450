/* SPDX-License-Identifier: MIT */
/* json: the reader.  One pass over the text, an explicit stack instead of recursion,
 * strings copied once into the arena.  The writer is in json_out.c. */
#include "base/text/json.h"

#include "base/str.h"
#include "base/text/utf8.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

struct parser {
    struct arena *a;
    const char *text, *p, *end;
    const struct json_reader *reader; /* json_parse_reading(), or NULL */
    bool walk;                        /* numbers are borrowed, containers not read */
    struct err *err;
    size_t values; /* read so far */
};

static enum rc fail_at(struct parser *ps, const char *at, const char *what)
{
    size_t line = 1, col = 1;

    for (const char *q = ps->text; q < at; q++) {
        if (*q == '\n') {
            line++;
            col = 1;
        } else if (((unsigned char)*q & 0xc0) != 0x80)
            col++;
    }
    return err_set(ps->err, RC_PARSE, "line %zu, column %zu: %s", line, col, what);
}

static enum rc parse_fail(struct parser *ps, const char *what)
{
    return fail_at(ps, ps->p, what);
}

static void skip_space(struct parser *ps)
{
    while (ps->p < ps->end && (*ps->p == ' ' || *ps->p == '\n' || *ps->p == '\t' || *ps->p == '\r'))
        ps->p++;
}

static int hex4_read(const char *p, const char *end, uint32_t *out)
{
    uint32_t v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];

        if (!isxdigit((unsigned char)c))
            return -1;
        v = v << 4 | (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    *out = v;
    return 0;
}

/* After "\u": one code point, joining a surrogate pair.  Advances ps->p. */
static enum rc read_unicode(struct parser *ps, char **w)
{
    uint32_t c, low;

    if (hex4_read(ps->p, ps->end, &c))
        return parse_fail(ps, "\\u needs four hex digits");
    ps->p += 4;
    if (c >= 0xdc00 && c < 0xe000)
        return parse_fail(ps, "low surrogate without a high one");
    if (c >= 0xd800 && c < 0xdc00) {
        if (ps->end - ps->p < 6 || ps->p[0] != '\\' || ps->p[1] != 'u' ||
            hex4_read(ps->p + 2, ps->end, &low) || low < 0xdc00 || low >= 0xe000)
            return parse_fail(ps, "high surrogate without a low one");
        ps->p += 6;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    *w += utf8_encode(c, *w);
    return RC_OK;
}

static enum rc read_escape(struct parser *ps, char **w)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *hit;

    if (ps->p == ps->end)
        return parse_fail(ps, "text ends inside a string");
    if (*ps->p == 'u') {
        ps->p++;
        return read_unicode(ps, w);
    }
    hit = *ps->p ? strchr(from, *ps->p) : NULL;
    if (!hit)
        return parse_fail(ps, "unknown escape in a string");
    *(*w)++ = to[hit - from];
    ps->p++;
    return RC_OK;
}

/* The end of the string whose first byte after the quote is p, or NULL. */
static const char *string_end(const char *p, const char *end)
{
    for (; p < end && *p != '"'; p++)
        if (*p == '\\' && ++p == end)
            break;
    return p < end ? p : NULL;
}

/* At the opening quote.  An escape is never longer than what it stands for, so the
 * raw length is room enough. */
static enum rc read_string(struct parser *ps, const char **out, size_t *out_len)
{
    const char *open = ps->p++, *close = string_end(ps->p, ps->end);
    char *text, *w;

    if (!close)
        return fail_at(ps, open, "string without an end");
    text = w = arena_alloc(ps->a, (size_t)(close - ps->p) + 1);
    while (ps->p < close) {
        unsigned char c = (unsigned char)*ps->p;
        uint32_t cp;
        size_t n;

        if (c >= 0x20 && c < 0x80 && c != '\\') {
            *w++ = (char)c;
            ps->p++;
            continue;
        }
        if (c == '\\') {
            ps->p++;
            if (read_escape(ps, &w))
                return RC_PARSE;
            continue;
        }
        if (c < 0x20)
            return parse_fail(ps, "control character in a string");
        n = utf8_decode(ps->p, (size_t)(close - ps->p), &cp);
        if (!n)
            return parse_fail(ps, "string is not UTF-8");
        memcpy(w, ps->p, n);
        w += n;
        ps->p += n;
    }
    ps->p = close + 1;
    *w = '\0';
    *out = text;
    *out_len = (size_t)(w - text);
    return RC_OK;
}

static const char *skip_digits(const char *p, const char *end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

static enum rc read_number(struct parser *ps, struct json *v)
{
    const char *start = ps->p, *p = start, *mark;

    if (p < ps->end && *p == '-')
        p++;
    mark = p;
    p = skip_digits(p, ps->end);
    if (p == mark || (*mark == '0' && p - mark > 1))
        return parse_fail(ps, "malformed number");
    if (p < ps->end && *p == '.') {
        mark = ++p;
        if ((p = skip_digits(p, ps->end)) == mark)
            return parse_fail(ps, "malformed number");
    }
    if (p < ps->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < ps->end && (*p == '+' || *p == '-'))
            p++;
        mark = p;
        if ((p = skip_digits(p, ps->end)) == mark)
            return parse_fail(ps, "malformed number");
    }
    v->type = JSON_NUM;
    v->len = (size_t)(p - start);
    v->text = ps->walk ? start : arena_strndup(ps->a, start, v->len);
    ps->p = p;
    return RC_OK;
}

/* At the opening bracket: the value's text up to its closing one, unread. */
static enum rc skip_container(struct parser *ps, struct json *v)
{
    static const bool marks[256] = {
        ['"'] = true, ['{'] = true, ['['] = true, ['}'] = true, [']'] = true
    };
    const char *open = ps->p;
    size_t depth = 0;

    for (; ps->p < ps->end; ps->p++) {
        if (!marks[(unsigned char)*ps->p])
            continue;
        if (*ps->p == '"') {
            const char *close = string_end(ps->p + 1, ps->end);

            if (!close)
                return parse_fail(ps, "string without an end");
            ps->p = close;
        } else if (*ps->p == '{' || *ps->p == '[') {
            if (depth++ == JSON_DEPTH_MAX)
                return parse_fail(ps, "nested too deeply");
        } else if (--depth == 0) {
            v->text = open;
            v->len = (size_t)(++ps->p - open);
            return RC_OK;
        }
    }
    return fail_at(ps, open, "a value without an end");
}

static bool take_word(struct parser *ps, const char *word)
{
    size_t len = strlen(word);

    if ((size_t)(ps->end - ps->p) < len || memcmp(ps->p, word, len))
        return false;
    ps->p += len;
    return true;
}

/* A scalar, or the opening of a container (whose children the caller reads). */
static enum rc read_value(struct parser *ps, struct json *v)
{
    skip_space(ps);
    if (ps->p == ps->end)
        return parse_fail(ps, "text ends where a value should be");
    switch (*ps->p) {
    case '{':
    case '[':
        v->type = *ps->p++ == '{' ? JSON_OBJ : JSON_ARR;
        return RC_OK;
    case '"':
        v->type = JSON_STR;
        return read_string(ps, &v->text, &v->len);
    case 't':
    case 'f':
        v->type = JSON_BOOL;
        v->boolean = *ps->p == 't';
        if (take_word(ps, v->boolean ? "true" : "false"))
            return RC_OK;
        break;
    case 'n':
        if (take_word(ps, "null"))
            return RC_OK;
        break;
    default:
        if (*ps->p == '-' || isdigit((unsigned char)*ps->p))
            return read_number(ps, v);
    }
    return parse_fail(ps, "expected a value");
}

struct level {
    struct json *v;    /* the open container */
    struct json *last; /* its newest child */
};

/* Before an element: passes the comma and a member's name (into *out_key).  *out_more false,
 * and the closing bracket passed, when there is none. */
static enum rc next_element(struct parser *ps, bool object, bool begun, const char **out_key,
                            bool *out_more)
{
    size_t len;

    *out_more = false;
    skip_space(ps);
    if (ps->p < ps->end && *ps->p == (object ? '}' : ']')) {
        ps->p++;
        return RC_OK;
    }
    if (begun) {
        if (ps->p == ps->end || *ps->p != ',')
            return parse_fail(ps, object ? "expected ',' or '}'" : "expected ',' or ']'");
        ps->p++;
        skip_space(ps);
    }
    *out_more = true;
    if (!object)
        return RC_OK;
    if (ps->p == ps->end || *ps->p != '"')
        return parse_fail(ps, "expected a member name in quotes");
    if (read_string(ps, out_key, &len))
        return RC_PARSE;
    skip_space(ps);
    if (ps->p == ps->end || *ps->p != ':')
        return parse_fail(ps, "expected ':'");
    ps->p++;
    return RC_OK;
}

/* json_walk's: containers are left unread. */
static enum rc walk_element(struct parser *ps, struct json *v)
{
    skip_space(ps);
    if (ps->p == ps->end || (*ps->p != '{' && *ps->p != '['))
        return read_value(ps, v);
    v->type = *ps->p == '{' ? JSON_OBJ : JSON_ARR;
    return skip_container(ps, v);
}

/* At a bracket: has the value read by json_parse_reading()'s caller. */
static enum rc hand_over(struct parser *ps, struct json *v)
{
    struct json_walk w = { ps->text, ps->p + 1, ps->end, *ps->p == '{', false };

    v->type = *ps->p == '{' ? JSON_OBJ : JSON_ARR;
    v->text = ps->p;
    if (ps->reader->read(ps->reader->arg, &w, ps->err))
        return RC_PARSE;
    ps->p = w.p;
    v->len = (size_t)(w.p - v->text);
    return RC_OK;
}

static bool handed_over(struct parser *ps, const struct json *parent, const struct json *v,
                        size_t depth)
{
    const struct json_reader *r = ps->reader;

    if (!r || depth != 2 || !parent->key || !v->key || strcmp(parent->key, r->parent) ||
        strcmp(v->key, r->key))
        return false;
    skip_space(ps);
    return ps->p < ps->end && (*ps->p == '{' || *ps->p == '[');
}

/* The next child of an open container, or NULL when it closes here. */
static enum rc read_child(struct parser *ps, struct level *l, size_t depth, struct json **out)
{
    const char *key = NULL;
    struct json *child;
    bool more;

    *out = NULL;
    if (next_element(ps, l->v->type == JSON_OBJ, l->last, &key, &more))
        return RC_PARSE;
    if (!more)
        return RC_OK;
    if (++ps->values > JSON_VALUES_MAX)
        return parse_fail(ps, "too many values");
    child = arena_new(ps->a, struct json);
    child->key = key;
    if (handed_over(ps, l->v, child, depth) ? hand_over(ps, child) : read_value(ps, child))
        return RC_PARSE;
    if (l->last)
        l->last->next = child;
    else
        l->v->first = child;
    l->last = child;
    l->v->count++;
    *out = child;
    return RC_OK;
}

static enum rc parse_value(struct parser *ps, struct json **out)
{
    struct level stack[JSON_DEPTH_MAX];
    struct json *root = arena_new(ps->a, struct json), *v = root;
    size_t depth = 0;

    if (read_value(ps, root))
        return RC_PARSE;
    for (;;) {
        if (v && (v->type == JSON_OBJ || v->type == JSON_ARR) && !v->text) {
            if (depth == JSON_DEPTH_MAX)
                return parse_fail(ps, "nested too deeply");
            stack[depth++] = (struct level){ .v = v };
        }
        if (!depth)
            break;
        if (read_child(ps, &stack[depth - 1], depth, &v))
            return RC_PARSE;
        if (!v)
            depth--;
    }
    skip_space(ps);
    if (ps->p != ps->end)
        return parse_fail(ps, "text after the end of the document");
    *out = root;
    return RC_OK;
}

enum rc json_parse(struct arena *a, const char *text, size_t len, struct json **out,
                   struct err *err)
{
    struct parser ps = { .a = a, .text = text, .p = text, .end = text + len, .err = err };

    return parse_value(&ps, out);
}

enum rc json_parse_reading(struct arena *a, const char *text, size_t len,
                           const struct json_reader *r, struct json **out, struct err *err)
{
    struct parser ps = {
        .a = a, .text = text, .p = text, .end = text + len, .reader = r, .err = err
    };
    enum rc rc = parse_value(&ps, out);

    return rc && err && err->code ? err->code : rc;
}

enum rc json_walk_next(struct json_walk *w, struct arena *a, struct json *out, bool *out_more,
                       struct err *err)
{
    struct parser ps = {
        .a = a, .text = w->doc, .p = w->p, .end = w->end, .walk = true, .err = err
    };
    struct json v = { 0 };
    bool more;

    if (next_element(&ps, w->object, w->begun, &v.key, &more))
        return RC_PARSE;
    if (more && walk_element(&ps, &v))
        return RC_PARSE;
    w->p = ps.p;
    w->begun = true;
    *out = v;
    *out_more = more;
    return RC_OK;
}

enum rc json_walk_enter(struct json_walk *w, struct json_walk *out_inner, bool *out_more,
                        struct err *err)
{
    struct parser ps = { .text = w->doc, .p = w->p, .end = w->end, .walk = true, .err = err };

    assert(!w->object);
    if (next_element(&ps, false, w->begun, NULL, out_more))
        return RC_PARSE;
    skip_space(&ps);
    if (*out_more && (ps.p == ps.end || *ps.p != '['))
        return parse_fail(&ps, "expected an array");
    w->p = ps.p;
    w->begun = true;
    if (*out_more)
        *out_inner = (struct json_walk){ w->doc, ps.p + 1, w->end, false, false };
    return RC_OK;
}

void json_walk_leave(struct json_walk *w, const struct json_walk *inner)
{
    w->p = inner->p;
}

const struct json *json_get(const struct json *obj, const char *key)
{
    const struct json *last = NULL;

    if (!obj || obj->type != JSON_OBJ)
        return NULL;
    for (const struct json *v = obj->first; v; v = v->next)
        if (!strcmp(v->key, key))
            last = v;
    return last;
}

const struct json *json_first(const struct json *v)
{
    return v && (v->type == JSON_ARR || v->type == JSON_OBJ) ? v->first : NULL;
}

const struct json *json_at(const struct json *arr, size_t i)
{
    const struct json *v = arr && arr->type == JSON_ARR ? arr->first : NULL;

    while (v && i--)
        v = v->next;
    return v;
}

const char *json_str(const struct json *v)
{
    return v && v->type == JSON_STR ? v->text : NULL;
}

struct maybe json_int(const struct json *v)
{
    int64_t i;

    if (v && v->type == JSON_NUM && str_to_i64(v->text, 10, &i))
        return maybe_of(i);
    return maybe_none();
}

double json_num(const struct json *v, double dflt)
{
    double d;

    return v && v->type == JSON_NUM && str_to_f64(v->text, &d) ? d : dflt;
}

struct maybe json_bool(const struct json *v)
{
    return v && v->type == JSON_BOOL ? maybe_of(v->boolean) : maybe_none();
}
