/* SPDX-License-Identifier: MIT */
/* tokenizer_model: the model and added_tokens members of a tokenizer.json. */
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/tokenizer_int.h"

enum { NAME_SHOWN = 40 }; /* bytes of a token in a message */

static enum rc bad(struct err *err, const char *member, const char *what)
{
    return err_set(err, RC_PARSE, "member '%s' %s", member, what);
}

/* ---- WordPiece ---- */
static enum rc read_wordpiece(struct tokenizer *t, const struct json *v, struct err *err)
{
    const struct json *vocab = json_get(v, "vocab");
    const char *unk = json_str(json_get(v, "unk_token"));
    const char *prefix = json_str(json_get(v, "continuing_subword_prefix"));
    struct maybe chars = json_int(json_get(v, "max_input_chars_per_word"));
    uint32_t unk_id;

    if (!unk || !prefix || !chars.known || chars.v < 0)
        return bad(err, "model",
                   "has no unk_token, continuing_subword_prefix or max_input_chars_per_word");
    if (!vocab || vocab->type != JSON_OBJ)
        return bad(err, "model.vocab", "is not an object");
    t->odd_prefix = !str_eq(prefix, "##");
    t->wordpiece = wordpiece_new(&t->vocab, prefix, (size_t)chars.v);
    if (!t->wordpiece)
        return err_set(err, RC_LIMIT, "member 'model.vocab' has too many pieces of the same hash");
    if (!wordpiece_find(t->wordpiece, unk, strlen(unk), &unk_id))
        return err_set(err, RC_PARSE, "member 'model.unk_token': '%.*s' is not in the vocabulary",
                       NAME_SHOWN, unk);
    wordpiece_set_unk(t->wordpiece, unk_id);
    return RC_OK;
}

/* ---- Unigram ---- */
static enum rc read_unigram(struct tokenizer *t, const struct json *v, struct err *err)
{
    const struct json *vocab = json_get(v, "vocab");
    struct maybe unk = json_int(json_get(v, "unk_id"));
    bool fallback = maybe_or(json_bool(json_get(v, "byte_fallback")), 0);

    if (!vocab || vocab->type != JSON_ARR)
        return bad(err, "model.vocab", "is not an array");
    if (!unk.known || unk.v < 0 || (uint64_t)unk.v >= t->vocab.count)
        return bad(err, "model.unk_id", "is not an id of the vocabulary");
    t->unigram_unk = (uint32_t)unk.v;
    return unigram_of(&t->vocab, (uint32_t)unk.v, fallback, &t->unigram, err);
}

enum rc tok_read_model(struct tokenizer *t, const struct json *v, struct err *err)
{
    const char *type = json_str(json_get(v, "type"));

    if (!v || v->type != JSON_OBJ)
        return bad(err, "model", "is missing");
    if (str_eq(type, "Unigram"))
        return read_unigram(t, v, err);
    if (str_eq(type, "WordPiece") || (!type && json_get(v, "continuing_subword_prefix")))
        return read_wordpiece(t, v, err);
    return err_set(err, RC_USAGE, "member 'model': type '%.60s' is not supported",
                   type ? type : "?");
}

bool tok_model_id(const struct tokenizer *t, const char *s, size_t len, uint32_t *out)
{
    if (t->wordpiece)
        return wordpiece_find(t->wordpiece, s, len, out);
    return unigram_find(t->unigram, s, len, out);
}

/* ---- added tokens ---- */
static enum rc read_one(struct tokenizer *t, const struct json *v, size_t i, struct added *out,
                        struct err *err)
{
    const struct json *content = json_get(v, "content");

    if (!content || content->type != JSON_STR || content->len > TOK_ADDED_BYTES)
        return err_set(err, RC_PARSE,
                       "member 'added_tokens[%zu].content' is not a string of at most %d bytes", i,
                       TOK_ADDED_BYTES);
    *out = (struct added){
        .content = arena_strndup(&t->arena, content->text, content->len),
        .len = content->len,
        .single_word = maybe_or(json_bool(json_get(v, "single_word")), 0),
        .lstrip = maybe_or(json_bool(json_get(v, "lstrip")), 0),
        .rstrip = maybe_or(json_bool(json_get(v, "rstrip")), 0),
        .normalized = maybe_or(json_bool(json_get(v, "normalized")), 1),
        .special = maybe_or(json_bool(json_get(v, "special")), 0),
    };
    out->pattern = out->content;
    out->pattern_len = out->len;
    return RC_OK;
}

static struct added *added_with(struct tokenizer *t, const struct added *a)
{
    for (size_t i = 0; i < t->added_count; i++)
        if (t->added[i].len == a->len && !memcmp(t->added[i].content, a->content, a->len))
            return &t->added[i];
    return NULL;
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

/* The id a file gives counts for nothing in the reference: it is the model's, or the next
 * one behind the vocabulary. */
static enum rc add_one(struct tokenizer *t, struct tok_scratch *s, struct added a, uint32_t *next,
                       struct err *err)
{
    struct added *same = added_with(t, &a);

    if (!a.len)
        return RC_OK;
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

/* Tokens that are named beside the file's: of those that both have the file's is kept. */
static enum rc add_named(struct tokenizer *t, struct tok_scratch *s, const struct tok_rules *r,
                         uint32_t *next, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < r->named_count && !rc; i++) {
        const struct tok_named *k = &r->named[i];
        struct added a = { .content = arena_strdup(&t->arena, k->text),
                           .len = strlen(k->text),
                           .single_word = k->single_word,
                           .lstrip = k->lstrip,
                           .rstrip = k->rstrip,
                           .normalized = k->normalized,
                           .special = k->special };

        a.pattern = a.content;
        a.pattern_len = a.len;
        if (a.len > TOK_ADDED_BYTES)
            return err_set(err, RC_LIMIT, "a special token has more than %d bytes",
                           TOK_ADDED_BYTES);
        if (!added_with(t, &a) && (k->fresh || tok_model_id(t, a.content, a.len, &a.id)))
            rc = add_one(t, s, a, next, err);
    }
    return rc;
}

enum rc tok_read_added(struct tokenizer *t, const struct json *v, const struct tok_rules *r,
                       struct err *err)
{
    bool own = !(r && r->named_alone && t->by_class); /* the file's own count */
    size_t named = r ? r->named_count : 0;
    uint32_t next = (uint32_t)t->vocab.count;
    struct tok_scratch *s = NULL;
    enum rc rc = RC_OK;
    size_t i = 0;

    t->size = t->vocab.count;
    if (v && v->type != JSON_NULL && v->type != JSON_ARR)
        return bad(err, "added_tokens", "is not an array");
    if (v && v->count > TOK_ADDED_MAX)
        return err_set(err, RC_LIMIT, "member 'added_tokens' has more than %d", TOK_ADDED_MAX);
    if (named > TOK_ADDED_MAX)
        return err_set(err, RC_LIMIT, "there are more than %d special tokens", TOK_ADDED_MAX);
    t->added = arena_array(&t->arena, struct added, (v ? v->count : 0) + named);
    s = tok_scratch_new();
    for (const struct json *m = v && own ? v->first : NULL; m && !rc; m = m->next, i++) {
        struct added a;

        rc = read_one(t, m, i, &a, err);
        if (!rc)
            rc = add_one(t, s, a, &next, err);
    }
    if (!rc && r)
        rc = add_named(t, s, r, &next, err);
    tok_scratch_free(s);
    return rc;
}
