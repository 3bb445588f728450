/* SPDX-License-Identifier: MIT */
/* reply_check: what stands in a server's reply.
 *
 * check_tokens() looks for a count of tokens in the first and last bytes of a body, which
 * costs next to nothing.  check_body() reads a whole body, without a tree: every vector is
 * counted and measured, every number must be finite. */
#include "bench/bench_int.h"

#include "base/str.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* ---- tokens ---- */
/* The number behind "key" in a piece of a body; -1: none. */
static int64_t number_behind(const char *p, size_t len, const char *key)
{
    size_t key_len = strlen(key);
    const char *end = p + len, *at = p;
    int64_t v = 0;
    int digits = 0;

    at = memmem(p, len, key, key_len);
    if (!at)
        return -1;
    for (at += key_len; at < end && (isspace((unsigned char)*at) || *at == ':'); at++)
        ;
    for (; at < end && isdigit((unsigned char)*at) && digits < 15; at++, digits++)
        v = v * 10 + (*at - '0');
    return digits && at < end ? v : -1; /* a number cut by the piece's end is none */
}

int64_t check_tokens(const struct reply *r)
{
    static const char *const keys[] = { "\"total_tokens\"", "\"prompt_tokens\"",
                                        "\"input_tokens\"" };

    if (r->tokens >= 0)
        return r->tokens;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        int64_t v = number_behind(r->last, r->last_len, keys[i]);

        if (v < 0)
            v = number_behind(r->first, r->first_len, keys[i]);
        if (v >= 0)
            return v;
    }
    return -1;
}

/* ---- whole bodies ---- */
enum key { KEY_NONE, KEY_VECTOR, KEY_SCORE, KEY_OTHER };

struct reply_level {
    bool object;
    enum key key; /* of the nearest member above or in it */
    size_t numbers, others;
};

struct scan {
    const char *p, *end;
    struct reply_level levels[CHECK_DEPTH_MAX];
    int depth; /* levels open */
    struct check_found found;
    struct err *err;
};

static enum rc wrong_at(struct scan *s, const char *why)
{
    return err_set(s->err, RC_PARSE, "%s", why);
}

static void skip_space(struct scan *s)
{
    while (s->p < s->end && strchr(" \t\r\n", *s->p) && *s->p)
        s->p++;
}

static enum rc scan_string(struct scan *s, const char **out, size_t *out_len)
{
    const char *start = ++s->p;

    for (; s->p < s->end && *s->p != '"'; s->p++)
        if (*s->p == '\\' && s->p + 1 < s->end)
            s->p++;
    if (s->p >= s->end)
        return wrong_at(s, "the body ends inside a string");
    *out = start;
    *out_len = (size_t)(s->p++ - start);
    return RC_OK;
}

static enum key key_of(const char *p, size_t len)
{
    static const struct {
        const char *name;
        enum key key;
    } keys[] = {
        { "embedding", KEY_VECTOR }, { "embeddings", KEY_VECTOR },     { "float", KEY_VECTOR },
        { "score", KEY_SCORE },      { "relevance_score", KEY_SCORE },
    };

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (strlen(keys[i].name) == len && !memcmp(keys[i].name, p, len))
            return keys[i].key;
    return KEY_OTHER;
}

static enum key nearest_key(const struct scan *s)
{
    return s->depth ? s->levels[s->depth - 1].key : KEY_NONE;
}

static enum rc scan_number(struct scan *s)
{
    char text[CHECK_NUMBER_MAX];
    size_t n = 0;
    double v;

    while (s->p < s->end && n + 1 < sizeof(text) && *s->p && strchr("+-.0123456789eE", *s->p))
        text[n++] = *s->p++;
    text[n] = '\0';
    if (!str_to_f64(text, &v) || !isfinite(v))
        return wrong_at(s, "a number is not finite, or no number");
    if (s->depth) {
        struct reply_level *l = &s->levels[s->depth - 1];

        l->numbers += !l->object;
        s->found.scores += l->object && l->key == KEY_SCORE;
    }
    return RC_OK;
}

static enum rc scan_word(struct scan *s)
{
    static const char *const words[] = { "true", "false", "null" };
    enum key key = nearest_key(s);

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t len = strlen(words[i]);

        if ((size_t)(s->end - s->p) < len || memcmp(s->p, words[i], len))
            continue;
        s->p += len;
        if (s->depth && !s->levels[s->depth - 1].object)
            s->levels[s->depth - 1].others++;
        if (i == 2 && key == KEY_SCORE)
            return wrong_at(s, "a score is null");
        return RC_OK;
    }
    return wrong_at(s, "a number is not finite, or the body is no JSON");
}

static enum rc open_level(struct scan *s, bool object)
{
    enum key key = nearest_key(s);

    if (s->depth == CHECK_DEPTH_MAX)
        return wrong_at(s, "the body is nested too deep");
    if (s->depth && !s->levels[s->depth - 1].object)
        s->levels[s->depth - 1].others++;
    s->levels[s->depth++] =
        (struct reply_level){ .object = object, .key = object ? KEY_OTHER : key };
    s->p++;
    return RC_OK;
}

/* An array that ends: only numbers make a vector where one is due. */
static enum rc close_level(struct scan *s)
{
    const struct reply_level *l = &s->levels[--s->depth];

    s->p++;
    if (l->object || (l->key != KEY_NONE && l->key != KEY_VECTOR) || !l->numbers)
        return RC_OK;
    if (l->others)
        return wrong_at(s, "a vector holds something that is no number");
    if (s->found.vectors++ && s->found.width != l->numbers)
        return err_set(s->err, RC_PARSE, "a vector has %zu numbers, another %zu", s->found.width,
                       l->numbers);
    s->found.width = l->numbers;
    return RC_OK;
}

static enum rc scan_key(struct scan *s)
{
    const char *key = NULL;
    size_t len = 0;

    if (*s->p != '"')
        return wrong_at(s, "a member has no name");
    if (scan_string(s, &key, &len))
        return RC_PARSE;
    skip_space(s);
    if (s->p >= s->end || *s->p++ != ':')
        return wrong_at(s, "':' is missing");
    skip_space(s);
    s->levels[s->depth - 1].key = key_of(key, len);
    return RC_OK;
}

/* One value, or the begin of one. */
static enum rc scan_value(struct scan *s)
{
    const char *text;
    size_t len;

    if (s->p >= s->end)
        return wrong_at(s, "the body ends too early");
    if (*s->p == '{' || *s->p == '[')
        return open_level(s, *s->p == '{');
    if (*s->p == '"') {
        if (s->depth && !s->levels[s->depth - 1].object)
            s->levels[s->depth - 1].others++;
        return scan_string(s, &text, &len);
    }
    if (*s->p == '-' || isdigit((unsigned char)*s->p))
        return scan_number(s);
    return scan_word(s);
}

/* What stands between two values: separators and ends.  *out_value: one is due. */
static enum rc scan_between(struct scan *s, bool begun, bool *out_value)
{
    struct reply_level *l = &s->levels[s->depth - 1];

    *out_value = false;
    if (s->p >= s->end)
        return wrong_at(s, "the body ends too early");
    if (*s->p == (l->object ? '}' : ']'))
        return close_level(s);
    if (begun) {
        if (*s->p != ',')
            return wrong_at(s, "',' is missing");
        s->p++;
        skip_space(s);
    }
    if (l->object && (s->p >= s->end || scan_key(s)))
        return wrong_at(s, "the body ends too early");
    *out_value = true;
    return RC_OK;
}

enum rc check_body(const char *text, size_t len, struct check_found *out, struct err *err)
{
    struct err local = { 0 };
    struct scan s = { .p = text, .end = text + len, .err = err ? err : &local };
    bool begun, value;
    int depth;

    skip_space(&s);
    if (scan_value(&s))
        return RC_PARSE;
    begun = false; /* an element of the innermost level has been read */
    while (s.depth) {
        skip_space(&s);
        depth = s.depth;
        if (scan_between(&s, begun, &value))
            return RC_PARSE;
        begun = true;
        if (value) {
            if (scan_value(&s))
                return RC_PARSE;
            begun = s.depth <= depth;
        }
    }
    skip_space(&s);
    if (s.p != s.end)
        return wrong_at(&s, "something stands behind the body's end");
    *out = s.found;
    return RC_OK;
}
