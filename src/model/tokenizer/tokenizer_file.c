/* SPDX-License-Identifier: MIT */
/* tokenizer_file: the normalizer, pre_tokenizer, post_processor and decoder members of a
 * tokenizer.json.  What is not known is refused by name: a tokenizer that leaves a step out
 * gives wrong ids in silence. */
#include "base/str.h"
#include "base/text/utf8.h"
#include "model/tokenizer/tokenizer_int.h"

#include <assert.h>

struct where { /* a member's path, for messages */
    char text[160];
};

/* The path of a list's element; too long a path is a file that nests for its own sake. */
static enum rc path_below(const struct where *w, const char *list, size_t i, struct where *out,
                          struct err *err)
{
    int n = snprintf(out->text, sizeof(out->text), "%s.%s[%zu]", w->text, list, i);

    if (n < 0 || (size_t)n >= sizeof(out->text))
        return err_set(err, RC_LIMIT, "member '%s' is nested too deeply", w->text);
    return RC_OK;
}

static const char *type_of(const struct json *v)
{
    const char *type = json_str(json_get(v, "type"));

    return type ? type : "?";
}

static bool flag_of(const struct json *v, const char *key, bool dflt)
{
    return maybe_or(json_bool(json_get(v, key)), dflt);
}

static enum rc unknown_type(const struct where *w, const char *type, struct err *err)
{
    return err_set(err, RC_USAGE, "member '%s': type '%.60s' is not supported", w->text, type);
}

static enum rc member_lacks(const struct where *w, const char *key, const char *what,
                            struct err *err)
{
    return err_set(err, RC_PARSE, "member '%s.%s' is not %s", w->text, key, what);
}

/* A string as code points in the arena. */
static enum rc code_points(struct tokenizer *t, const struct json *v, const struct where *w,
                           const char *key, const uint32_t **out, size_t *out_len, struct err *err)
{
    const struct json *s = json_get(v, key);
    uint32_t *cp;
    size_t n = 0;

    if (!s || s->type != JSON_STR || s->len > TOK_PATTERN_MAX)
        return member_lacks(w, key, "a string of at most 256 bytes", err);
    cp = arena_array(&t->arena, uint32_t, s->len);
    for (size_t i = 0; i < s->len; n++) {
        size_t step = utf8_decode(s->text + i, s->len - i, &cp[n]);

        assert(step); /* json_parse() checked it */
        i += step;
    }
    *out = cp;
    *out_len = n;
    return RC_OK;
}

/* The list of a Sequence, or NULL for anything else. */
static const struct json *sequence_members(const struct json *v, const char *type, const char *key)
{
    const struct json *list = json_get(v, key);

    return str_eq(type_of(v), type) && list && list->type == JSON_ARR ? list : NULL;
}

/* ---- normalizer ---- */
/* The regular expressions that occur: one code point, and how often at least. */
static bool simple_regex(const uint32_t *p, size_t n, size_t *out_repeat)
{
    size_t repeat = 0;

    if (n < 2 || (p[0] < 0x80 && tok_ascii_punct(p[0])))
        return false;
    if (n == 2 && p[1] == '+') {
        *out_repeat = 1;
        return true;
    }
    if (n < 5 || n > 7 || p[1] != '{' || p[n - 1] != '}' || p[n - 2] != ',')
        return false;
    for (size_t i = 2; i < n - 2; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        repeat = repeat * 10 + (p[i] - '0');
    }
    *out_repeat = repeat;
    return repeat > 0;
}

static enum rc read_replace(struct tokenizer *t, const struct json *v, const struct where *w,
                            struct norm *out, struct err *err)
{
    const struct json *pattern = json_get(v, "pattern");
    const char *regex = json_str(json_get(pattern, "Regex"));

    if (code_points(t, pattern, w, regex ? "Regex" : "String", &out->pattern, &out->pattern_len,
                    err) ||
        code_points(t, v, w, "content", &out->content, &out->content_len, err))
        return RC_PARSE;
    if (!out->pattern_len)
        return err_set(err, RC_PARSE, "member '%s.pattern' is empty", w->text);
    if (!regex)
        return RC_OK;
    if (!simple_regex(out->pattern, out->pattern_len, &out->repeat))
        return err_set(err, RC_USAGE, "member '%s.pattern': Regex '%.60s' is not supported",
                       w->text, regex);
    out->pattern_len = 1;
    return RC_OK;
}

/* 1 + the value of each digit; 0: none. */
static const uint8_t *base64_digits(uint8_t out[256])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    memset(out, 0, 256);
    for (uint8_t i = 0; i < 64; i++)
        out[(unsigned char)digits[i]] = i + 1;
    return out;
}

static enum rc read_precompiled(struct tokenizer *t, const struct json *v, const struct where *w,
                                struct norm *out, struct err *err)
{
    const struct json *map = json_get(v, "precompiled_charsmap");
    uint8_t digits[256];
    const uint8_t *value = base64_digits(digits);
    unsigned char *blob;
    uint32_t bits = 0;
    size_t n = 0, have = 0, len;

    if (!map || map->type != JSON_STR)
        return member_lacks(w, "precompiled_charsmap", "a string", err);
    len = map->len;
    while (len && map->text[len - 1] == '=')
        len--;
    blob = arena_alloc(&t->arena, len + 1);
    for (size_t i = 0; i < len; i++) {
        unsigned d = value[(unsigned char)map->text[i]];

        if (!d)
            return member_lacks(w, "precompiled_charsmap", "base64", err);
        bits = bits << 6 | (d - 1);
        have += 6;
        if (have >= 8) {
            have -= 8;
            blob[n++] = (unsigned char)(bits >> have);
        }
    }
    if (precompiled_new(blob, n, &out->precompiled, err))
        return err_ctx(err, "member '%s.precompiled_charsmap'", w->text);
    return RC_OK;
}

static enum rc read_norm_args(struct tokenizer *t, const struct json *v, const struct where *w,
                              struct norm *out, struct err *err)
{
    switch (out->kind) {
    case NORM_BERT:
        out->clean = flag_of(v, "clean_text", true);
        out->chinese = flag_of(v, "handle_chinese_chars", true);
        out->lower = flag_of(v, "lowercase", true);
        out->accents = flag_of(v, "strip_accents", out->lower);
        return RC_OK;
    case NORM_STRIP:
        out->left = flag_of(v, "strip_left", false);
        out->right = flag_of(v, "strip_right", false);
        return RC_OK;
    case NORM_REPLACE:
        return read_replace(t, v, w, out, err);
    case NORM_PREPEND:
        return code_points(t, v, w, "prepend", &out->content, &out->content_len, err);
    case NORM_PRECOMPILED:
        return read_precompiled(t, v, w, out, err);
    default:
        return RC_OK;
    }
}

static enum rc read_norm(struct tokenizer *t, const struct json *v, const struct where *w,
                         struct err *err)
{
    static const struct {
        const char *name;
        enum norm_kind kind;
    } kinds[] = {
        { "BertNormalizer", NORM_BERT },
        { "NFC", NORM_NFC },
        { "NFD", NORM_NFD },
        { "NFKC", NORM_NFKC },
        { "NFKD", NORM_NFKD },
        { "Lowercase", NORM_LOWERCASE },
        { "Strip", NORM_STRIP },
        { "StripAccents", NORM_STRIP_ACCENTS },
        { "Replace", NORM_REPLACE },
        { "Precompiled", NORM_PRECOMPILED },
        { "Prepend", NORM_PREPEND },
    };
    const struct json *list = sequence_members(v, "Sequence", "normalizers");
    const char *type = type_of(v);
    size_t n = 0;

    for (const struct json *m = list ? list->first : NULL; m; m = m->next, n++) {
        struct where d = { "" };

        if (path_below(w, "normalizers", n, &d, err) || read_norm(t, m, &d, err))
            return err->code;
    }
    if (list)
        return RC_OK;
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (!str_eq(kinds[i].name, type))
            continue;
        if (t->norms_count == TOK_STEPS_MAX)
            return err_set(err, RC_LIMIT, "member 'normalizer' has more than %d steps",
                           TOK_STEPS_MAX);
        t->norms[t->norms_count++] = (struct norm){ .kind = kinds[i].kind };
        return read_norm_args(t, v, w, &t->norms[t->norms_count - 1], err);
    }
    return unknown_type(w, type, err);
}

/* ---- pre_tokenizer ---- */
static enum rc read_choice(const struct json *v, const char *key, const struct where *w,
                           const char *const *names, int dflt, int *out, struct err *err)
{
    const char *s = json_str(json_get(v, key));

    *out = dflt;
    for (int i = 0; s && names[i]; i++) {
        if (str_eq(names[i], s)) {
            *out = i;
            return RC_OK;
        }
    }
    return s ? err_set(err, RC_PARSE, "member '%s.%s': '%.60s' is not known", w->text, key, s)
             : RC_OK;
}

/* "▁" and the like: one code point. */
static enum rc read_char(const struct json *v, const char *key, const struct where *w,
                         uint32_t *out, struct err *err)
{
    const struct json *s = json_get(v, key);

    if (!s || s->type != JSON_STR || !s->len || utf8_decode(s->text, s->len, out) != s->len)
        return member_lacks(w, key, "one character", err);
    return RC_OK;
}

static enum rc read_metaspace(const struct json *v, const struct where *w, struct pre *out,
                              struct err *err)
{
    static const char *const schemes[] = { "always", "first", "never", NULL };
    struct maybe prefix = json_bool(json_get(v, "add_prefix_space"));
    int scheme;

    if (read_char(v, "replacement", w, &out->replacement, err) ||
        read_choice(v, "prepend_scheme", w, schemes, PRE_ALWAYS, &scheme, err))
        return err->code;
    if (maybe_is(prefix, 0) && scheme != PRE_NEVER)
        return err_set(err, RC_PARSE, "member '%s': add_prefix_space and prepend_scheme disagree",
                       w->text);
    out->prepend = (enum pre_prepend)scheme;
    out->split = flag_of(v, "split", true);
    return RC_OK;
}

static enum rc add_pre(struct tokenizer *t, struct pre p, struct err *err)
{
    if (t->pres_count == TOK_STEPS_MAX)
        return err_set(err, RC_LIMIT, "member 'pre_tokenizer' has more than %d steps",
                       TOK_STEPS_MAX);
    t->pres[t->pres_count++] = p;
    return RC_OK;
}

static enum rc read_one_pre(struct tokenizer *t, const struct json *v, const struct where *w,
                            struct err *err)
{
    static const char *const behaviors[] = { "Removed",        "Isolated",   "MergedWithPrevious",
                                             "MergedWithNext", "Contiguous", NULL };
    const char *type = type_of(v);
    struct pre p = { .kind = PRE_WHITESPACE_SPLIT };
    int behavior;

    if (str_eq(type, "BertPreTokenizer")) {
        if (add_pre(t, p, err))
            return err->code;
        p = (struct pre){ .kind = PRE_PUNCTUATION, .behavior = PRE_ISOLATED };
    } else if (str_eq(type, "Whitespace"))
        p.kind = PRE_WHITESPACE;
    else if (str_eq(type, "Punctuation")) {
        if (read_choice(v, "behavior", w, behaviors, PRE_ISOLATED, &behavior, err))
            return err->code;
        p = (struct pre){ .kind = PRE_PUNCTUATION, .behavior = (enum pre_behavior)behavior };
    } else if (str_eq(type, "Metaspace")) {
        p.kind = PRE_METASPACE;
        if (read_metaspace(v, w, &p, err))
            return err->code;
    } else if (!str_eq(type, "WhitespaceSplit"))
        return unknown_type(w, type, err);
    return add_pre(t, p, err);
}

static enum rc read_pre(struct tokenizer *t, const struct json *v, const struct where *w,
                        struct err *err)
{
    const struct json *list = sequence_members(v, "Sequence", "pretokenizers");
    size_t n = 0;

    if (!list)
        return read_one_pre(t, v, w, err);
    for (const struct json *m = list->first; m; m = m->next, n++) {
        struct where d = { "" };

        if (path_below(w, "pretokenizers", n, &d, err) || read_pre(t, m, &d, err))
            return err->code;
    }
    return RC_OK;
}

static bool is_present(const struct json *v)
{
    return v && v->type != JSON_NULL;
}

enum rc tok_read_members(struct tokenizer *t, const struct json *root, struct err *err)
{
    const struct json *norm = json_get(root, "normalizer"), *pre = json_get(root, "pre_tokenizer");
    const struct where in_norm = { "normalizer" }, in_pre = { "pre_tokenizer" };

    t->left = str_eq(json_str(json_get(json_get(root, "truncation"), "direction")), "Left");
    t->norms = arena_array(&t->arena, struct norm, TOK_STEPS_MAX);
    t->pres = arena_array(&t->arena, struct pre, TOK_STEPS_MAX);
    if (is_present(norm) && read_norm(t, norm, &in_norm, err))
        return err->code;
    if (is_present(pre) && read_pre(t, pre, &in_pre, err))
        return err->code;
    if (tok_read_template(t, json_get(root, "post_processor"), err))
        return err->code;
    return tok_read_decoder(t, json_get(root, "decoder"), err);
}

/* ---- decoder ---- */
enum rc tok_read_decoder(struct tokenizer *t, const struct json *v, struct err *err)
{
    static const char *const schemes[] = { "always", "first", "never", NULL };
    const struct where w = { "decoder" };
    const char *type = type_of(v), *prefix = json_str(json_get(v, "prefix"));
    struct decoder *d = &t->decoder;
    int scheme;

    *d = (struct decoder){ .kind = DECODE_JOIN, .name = arena_strdup(&t->arena, type) };
    if (!is_present(v))
        return RC_OK;
    if (str_eq(type, "WordPiece")) {
        d->kind = DECODE_WORDPIECE;
        d->prefix = arena_strdup(&t->arena, prefix ? prefix : "##");
        d->prefix_len = strlen(d->prefix);
        d->cleanup = flag_of(v, "cleanup", true);
    } else if (str_eq(type, "Metaspace")) {
        if (read_char(v, "replacement", &w, &d->replacement, err) ||
            read_choice(v, "prepend_scheme", &w, schemes, PRE_ALWAYS, &scheme, err))
            return err->code;
        d->kind = DECODE_METASPACE;
        d->prepend = scheme != PRE_NEVER && flag_of(v, "add_prefix_space", true);
    } else
        d->kind = DECODE_UNKNOWN;
    return RC_OK;
}
