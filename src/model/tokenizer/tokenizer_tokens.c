/* SPDX-License-Identifier: MIT */
/* tokenizer_tokens: which tokens are found in a text as they stand, and with what ids.
 *
 *   only tokenizer.json    its added_tokens, in their order
 *   TokenizersBackend      these, then added_tokens_decoder, then the special tokens
 *   a class of its own     added_tokens_decoder; or, where that is not given, added_tokens.json and
 *                          tokenizer.json's, by id; then the special tokens, its own defaults too
 *
 * The ids in the files give the order and nothing else: a token of the vocabulary has the id it
 * has there, any other the next one behind all.  A special token is added where no token listed
 * before it has its text. */
#include "base/mem.h"
#include "base/text/utf8.h"
#include "model/tokenizer/tokenizer_int.h"

#include <assert.h>

/* CamembertTokenizer has these where no extra_special_tokens are given. */
static const struct tok_token camembert[] = {
    { .text = "<s>NOTUSED", .special = true },
    { .text = "</s>NOTUSED", .special = true },
    { .text = "<unk>NOTUSED", .special = true },
};

struct token_list {
    struct tok_token *v; /* in the tokenizer's arena */
    size_t count;
};

static enum rc read_one(struct tokenizer *t, const struct json *v, size_t i, struct tok_token *out,
                        struct err *err)
{
    const struct json *content = json_get(v, "content");

    if (!content || content->type != JSON_STR || content->len > TOK_ADDED_BYTES ||
        strlen(content->text) != content->len)
        return err_set(err, RC_PARSE,
                       "member 'added_tokens[%zu].content' is not a string of at most %d bytes", i,
                       TOK_ADDED_BYTES);
    *out = (struct tok_token){
        .text = arena_strndup(&t->arena, content->text, content->len),
        .id = maybe_or(json_int(json_get(v, "id")), TOK_ID_MAX),
        .single_word = maybe_or(json_bool(json_get(v, "single_word")), 0),
        .lstrip = maybe_or(json_bool(json_get(v, "lstrip")), 0),
        .rstrip = maybe_or(json_bool(json_get(v, "rstrip")), 0),
        .normalized = maybe_or(json_bool(json_get(v, "normalized")), 1),
        .special = maybe_or(json_bool(json_get(v, "special")), 0),
    };
    return RC_OK;
}

/* Among the first `listed` with any way to match it, or behind them with the same. */
static bool list_has(const struct token_list *l, size_t listed, const struct tok_token *k)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct tok_token *x = &l->v[i];

        if (!strcmp(x->text, k->text) &&
            (i < listed || (x->bare == k->bare && x->single_word == k->single_word &&
                            x->lstrip == k->lstrip && x->rstrip == k->rstrip &&
                            x->normalized == k->normalized && x->special == k->special)))
            return true;
    }
    return false;
}

static int by_id(const void *a, const void *b)
{
    const struct tok_token *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id ? 1 : strcmp(x->text, y->text);
}

static int by_place(const void *a, const void *b)
{
    const struct tok_token *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void tokens_sort(struct tok_token *v, size_t count)
{
    if (count)
        qsort(v, count, sizeof(*v), by_id);
}

/* The file's tokens and those listed beside it; of two with one id the file's counts. */
static enum rc list_read(struct tokenizer *t, const struct json *v, const struct tok_rules *r,
                         struct token_list *out, struct err *err)
{
    bool theirs = r && t->by_class && r->listed_all;
    size_t i = 0, file_count, kept;
    struct tok_token *of_file;

    for (const struct json *m = v && !theirs ? v->first : NULL; m; m = m->next, i++)
        if (read_one(t, m, i, &out->v[out->count++], err))
            return err->code;
    if (!r || (!t->by_class && !r->listed_count))
        return RC_OK;
    file_count = out->count;
    of_file = arena_memdup(&t->arena, out->v, file_count * sizeof(*out->v));
    tokens_sort(of_file, file_count);
    for (i = 0; i < r->listed_count; i++)
        if (r->listed_all ||
            !bsearch(&r->listed[i], of_file, file_count, sizeof(*of_file), by_place))
            out->v[out->count++] = r->listed[i];
    kept = t->by_class ? 0 : file_count;
    tokens_sort(out->v + kept, out->count - kept);
    return RC_OK;
}

static bool is_named(const struct tokenizer *t, const struct tok_rules *r, const char *text)
{
    for (int n = 0; n < TOK_NAMES; n++) {
        const char *name = tok_named(r, (enum tok_name)n, t->by_class).text;

        if (name && !strcmp(name, text))
            return true;
    }
    for (size_t i = 0; i < r->more_named; i++)
        if (!strcmp(r->more[i].text, text))
            return true;
    return false;
}

/* A listed token that has a name is special, whatever the list says. */
static void list_promote(const struct tokenizer *t, const struct tok_rules *r, struct token_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        struct tok_token *k = &l->v[i];

        if (k->special || !is_named(t, r, k->text))
            continue;
        k->special = true;
        k->normalized = k->normalized && !k->loose;
    }
}

static void list_specials(const struct tokenizer *t, const struct tok_rules *r,
                          struct token_list *out)
{
    bool builtin = t->by_class && r->class == TOK_CLASS_CAMEMBERT && !r->more_set;
    size_t count = builtin ? ARRAY_SIZE(camembert) : 0, listed = out->count;

    for (int n = 0; n < TOK_NAMES; n++) {
        struct tok_token k = tok_named(r, (enum tok_name)n, t->by_class);

        if (k.text && !list_has(out, listed, &k))
            out->v[out->count++] = k;
    }
    for (size_t i = 0; i < r->more_count; i++)
        if (!list_has(out, listed, &r->more[i]))
            out->v[out->count++] = r->more[i];
    for (size_t i = 0; i < count; i++)
        if (!list_has(out, listed, &camembert[i]))
            out->v[out->count++] = camembert[i];
}

/* The reference looks for the normalised form in the normalised text. */
static void normalize_pattern(struct tokenizer *t, struct tok_scratch *s, struct added *a)
{
    char *p;

    s->cur.n = s->alt.n = 0;
    tok_chars_room(&s->cur, a->len);
    for (size_t i = 0; i < a->len;) {
        struct tok_char c = { 0 };

        i += utf8_decode(a->content + i, a->len - i, &c.c);
        s->cur.v[s->cur.n++] = c;
    }
    tok_normalize(t->norms, t->norms_count, s);
    a->pattern = p = arena_alloc(&t->arena, s->cur.n * 4 + 1);
    a->pattern_len = 0;
    for (size_t i = 0; i < s->cur.n; i++)
        a->pattern_len += utf8_encode(s->cur.v[i].c, p + a->pattern_len);
}

/* The same token again changes how it is matched. */
static enum rc add_one(struct tokenizer *t, struct tok_scratch *s, const struct tok_token *k,
                       uint32_t *next, struct err *err)
{
    struct added a = { .content = k->text,
                       .len = strlen(k->text),
                       .single_word = k->single_word,
                       .lstrip = k->lstrip,
                       .rstrip = k->rstrip,
                       .normalized = k->normalized,
                       .special = k->special };
    struct added *same = added_of_text(t, a.content, a.len);

    if (!a.len)
        return RC_OK;
    a.pattern = a.content = arena_strdup(&t->arena, k->text);
    a.pattern_len = a.len;
    if (same)
        a.id = same->id;
    else if (!tok_model_id(t, a.content, a.len, &a.id)) {
        if (*next >= TOK_ID_MAX)
            return err_set(err, RC_LIMIT, "member 'added_tokens': ids reach %d", TOK_ID_MAX);
        a.id = (*next)++;
        t->size++;
    }
    if (a.normalized)
        normalize_pattern(t, s, &a);
    if (same)
        *same = a;
    else
        t->added[t->added_count++] = a;
    return RC_OK;
}

static void specials_keep(struct tokenizer *t, const struct tok_rules *r)
{
    t->specials = arena_array(&t->arena, uint32_t, TOK_NAMES + r->more_count);
    for (size_t i = 0; i < TOK_NAMES + r->more_count; i++) {
        const char *text = i < TOK_NAMES ? tok_named(r, (enum tok_name)i, t->by_class).text
                                         : r->more[i - TOK_NAMES].text;

        if (text && tokenizer_id(t, text, &t->specials[t->specials_count]))
            t->specials_count++;
    }
}

enum rc tok_read_added(struct tokenizer *t, const struct json *v, const struct tok_rules *r,
                       struct err *err)
{
    bool given = v && v->type != JSON_NULL;
    size_t room = (given ? v->count : 0) + ARRAY_SIZE(camembert) +
                  (r ? r->listed_count + TOK_NAMES + r->more_count : 0);
    uint32_t next = (uint32_t)t->vocab.count;
    struct token_list list = { 0 };
    struct tok_scratch *s;
    enum rc rc;

    t->size = t->vocab.count;
    if (given && v->type != JSON_ARR)
        return err_set(err, RC_PARSE, "member 'added_tokens' is not an array");
    if (given && v->count > TOK_ADDED_MAX)
        return err_set(err, RC_LIMIT, "member 'added_tokens' has more than %d", TOK_ADDED_MAX);
    list.v = arena_array(&t->arena, struct tok_token, room);
    rc = list_read(t, given ? v : NULL, r, &list, err);
    if (rc)
        return rc;
    if (r)
        list_promote(t, r, &list);
    if (r)
        list_specials(t, r, &list);
    assert(list.count <= room);
    t->added = arena_array(&t->arena, struct added, list.count);
    s = tok_scratch_new();
    for (size_t i = 0; i < list.count && !rc; i++)
        rc = add_one(t, s, &list.v[i], &next, err);
    tok_scratch_free(s);
    if (!rc && r)
        specials_keep(t, r);
    return rc;
}
