/* SPDX-License-Identifier: MIT */
/* tokenizer_model: the model and added_tokens members of a tokenizer.json.  The vocabulary,
 * nearly all of the file, is read element by element into its place. */
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"
#include "model/tokenizer_int.h"

enum {
    NAME_SHOWN = 40, /* bytes of a token in a message */
    NUMBER_MAX = 64, /* bytes of a score as written */
    LOOKUPS = 64     /* from so many on a table beats a search */
};

static enum rc bad(struct err *err, const char *member, const char *what)
{
    return err_set(err, RC_PARSE, "member '%s' %s", member, what);
}

/* Room for an id; what is new is without a text. */
static void vocab_room(struct vocab *v, size_t id)
{
    size_t size = v->cap ? v->cap : 1024;

    if (id >= v->size)
        v->size = id + 1;
    if (id < v->cap)
        return;
    while (size <= id)
        size *= 2;
    v->text = xreallocarray(v->text, size, sizeof(*v->text));
    v->len = xreallocarray(v->len, size, sizeof(*v->len));
    memset(v->text + v->cap, 0, (size - v->cap) * sizeof(*v->text));
    memset(v->len + v->cap, 0, (size - v->cap) * sizeof(*v->len));
    v->cap = size;
}

static enum rc vocab_full(struct err *err)
{
    return err_set(err, RC_LIMIT, "member 'model.vocab' has more than %d entries", TOK_VOCAB_MAX);
}

/* ---- WordPiece ---- */
/* A number's text from json_walk as an id. */
static bool read_id(const struct json *v, uint32_t *out)
{
    uint32_t id = 0;

    if (v->type != JSON_NUM || !v->len)
        return false;
    for (size_t i = 0; i < v->len; i++) {
        if (v->text[i] < '0' || v->text[i] > '9' || id >= TOK_ID_MAX)
            return false;
        id = id * 10 + (uint32_t)(v->text[i] - '0');
    }
    *out = id;
    return id < TOK_ID_MAX;
}

static enum rc vocab_put(struct vocab *v, const struct json *m, struct err *err)
{
    size_t len = strlen(m->key);
    uint32_t id;

    if (!read_id(m, &id))
        return err_set(err, RC_PARSE, "member 'model.vocab': the id of '%.*s' is not one below %d",
                       NAME_SHOWN, m->key, TOK_ID_MAX);
    if (len > TOK_PIECE_MAX)
        return err_set(err, RC_LIMIT, "member 'model.vocab': '%.*s…' has more than %d bytes",
                       NAME_SHOWN, m->key, TOK_PIECE_MAX);
    vocab_room(v, id);
    if (v->text[id])
        return err_set(err, RC_PARSE, "member 'model.vocab': '%.*s' and '%.*s' have the same id",
                       NAME_SHOWN, v->text[id], NAME_SHOWN, m->key);
    v->text[id] = m->key; /* in the tokenizer's arena already */
    v->len[id] = (uint32_t)len;
    return v->count++ < TOK_VOCAB_MAX ? RC_OK : vocab_full(err);
}

static enum rc read_vocab(struct tokenizer *t, const char *doc, const struct json *v,
                          struct err *err)
{
    struct json_walk w;
    struct json m;
    bool more;

    if (!v || v->type != JSON_OBJ)
        return bad(err, "model.vocab", "is not an object");
    json_walk_init(&w, doc, v);
    for (;;) {
        if (json_walk_next(&w, &t->arena, &m, &more, err))
            return err->code;
        if (!more)
            return RC_OK;
        if (vocab_put(&t->vocab, &m, err))
            return err->code;
    }
}

static enum rc read_wordpiece(struct tokenizer *t, const char *doc, const struct json *v,
                              struct err *err)
{
    const char *unk = json_str(json_get(v, "unk_token"));
    const char *prefix = json_str(json_get(v, "continuing_subword_prefix"));
    struct maybe chars = json_int(json_get(v, "max_input_chars_per_word"));
    uint32_t unk_id;

    if (!unk || !prefix || !chars.known || chars.v < 0)
        return bad(err, "model",
                   "has no unk_token, continuing_subword_prefix or max_input_chars_per_word");
    if (read_vocab(t, doc, json_get(v, "vocab"), err))
        return err->code;
    t->wordpiece = wordpiece_new(&t->vocab, prefix, (size_t)chars.v);
    if (!wordpiece_find(t->wordpiece, unk, strlen(unk), &unk_id))
        return err_set(err, RC_PARSE, "member 'model.unk_token': '%.*s' is not in the vocabulary",
                       NAME_SHOWN, unk);
    wordpiece_set_unk(t->wordpiece, unk_id);
    return RC_OK;
}

/* ---- Unigram ---- */
struct pieces {
    struct unigram_piece *v;
    size_t n, cap;
};

/* Few digits and a small power of ten are exact in a double: then one division is the
 * rounding strtod() would do, in a fraction of the time. */
static bool short_score(const char *p, size_t len, double *out)
{
    static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
    bool minus = len && *p == '-', point = false;
    size_t places = 0;
    uint64_t digits = 0;

    for (size_t i = minus; i < len; i++) {
        if (p[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (p[i] < '0' || p[i] > '9' || digits > UINT64_C(900719925474098))
            return false; /* ten times that is still below 2^53 */
        digits = digits * 10 + (uint64_t)(p[i] - '0');
        places += point;
    }
    if (places >= ARRAY_SIZE(tens))
        return false;
    *out = (double)digits / tens[places];
    *out = minus ? -*out : *out;
    return true;
}

static bool read_score(const struct json *v, double *out)
{
    char digits[NUMBER_MAX];

    if (v->type != JSON_NUM || v->len >= sizeof(digits))
        return false;
    if (short_score(v->text, v->len, out))
        return true;
    memcpy(digits, v->text, v->len);
    digits[v->len] = '\0';
    return str_to_f64(digits, out);
}

static enum rc bad_piece(size_t i, struct err *err)
{
    return err_set(err, RC_PARSE,
                   "member 'model.vocab[%zu]' is not [piece of at most %d bytes, score]", i,
                   UNIGRAM_PIECE_BYTES_MAX);
}

/* [piece, score] */
static bool read_piece(struct tokenizer *t, struct json_walk *row, struct unigram_piece *out)
{
    struct json text, score, rest;
    bool more;

    if (json_walk_next(row, &t->arena, &text, &more, NULL) || !more || text.type != JSON_STR ||
        json_walk_next(row, &t->arena, &score, &more, NULL) || !more ||
        !read_score(&score, &out->score) || json_walk_next(row, &t->arena, &rest, &more, NULL) ||
        more)
        return false;
    out->text = text.text;
    out->len = text.len;
    return text.len <= UNIGRAM_PIECE_BYTES_MAX;
}

static enum rc read_pieces(struct tokenizer *t, const char *doc, const struct json *v,
                           struct pieces *out, struct err *err)
{
    struct json_walk w, row;
    bool more;

    json_walk_init(&w, doc, v);
    for (;; out->n++) {
        if (json_walk_enter(&w, &row, &more, NULL))
            return bad_piece(out->n, err);
        if (!more)
            return RC_OK;
        if (out->n == TOK_VOCAB_MAX)
            return vocab_full(err);
        VEC_GROW(out->v, out->n, out->cap);
        if (!read_piece(t, &row, &out->v[out->n]))
            return bad_piece(out->n, err);
        json_walk_leave(&w, &row);
        vocab_room(&t->vocab, out->n);
        t->vocab.text[out->n] = out->v[out->n].text;
        t->vocab.len[out->n] = (uint32_t)out->v[out->n].len;
        t->vocab.count++;
    }
}

static enum rc read_unigram(struct tokenizer *t, const char *doc, const struct json *v,
                            struct err *err)
{
    const struct json *vocab = json_get(v, "vocab");
    struct maybe unk = json_int(json_get(v, "unk_id"));
    bool fallback = maybe_or(json_bool(json_get(v, "byte_fallback")), 0);
    struct pieces pieces = { 0 };
    enum rc rc;

    if (!vocab || vocab->type != JSON_ARR)
        return bad(err, "model.vocab", "is not an array");
    rc = read_pieces(t, doc, vocab, &pieces, err);
    if (!rc && (!unk.known || unk.v < 0 || (uint64_t)unk.v >= pieces.n))
        rc = bad(err, "model.unk_id", "is not an id of the vocabulary");
    if (!rc)
        rc = unigram_new(pieces.v, pieces.n, (uint32_t)unk.v, fallback, &t->unigram, err);
    free(pieces.v);
    return rc;
}

enum rc tok_read_model(struct tokenizer *t, const char *doc, const struct json *v, struct err *err)
{
    const char *type = json_str(json_get(v, "type"));

    if (!v || v->type != JSON_OBJ)
        return bad(err, "model", "is missing");
    if (str_eq(type, "Unigram"))
        return read_unigram(t, doc, v, err);
    if (str_eq(type, "WordPiece") || (!type && json_get(v, "continuing_subword_prefix")))
        return read_wordpiece(t, doc, v, err);
    return err_set(err, RC_PARSE, "member 'model': type '%.60s' is not supported",
                   type ? type : "?");
}

bool tok_model_id(const struct tokenizer *t, const char *s, size_t len, uint32_t *out)
{
    if (t->wordpiece || t->lookup)
        return wordpiece_find(t->wordpiece ? t->wordpiece : t->lookup, s, len, out);
    for (size_t i = t->vocab.count; i-- > 0;) { /* the last of equal ones counts */
        if (t->vocab.len[i] == len && !memcmp(t->vocab.text[i], s, len)) {
            *out = (uint32_t)i;
            return true;
        }
    }
    return false;
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

enum rc tok_read_added(struct tokenizer *t, const struct json *v, struct err *err)
{
    uint32_t next = (uint32_t)t->vocab.count;
    struct tok_scratch *s = NULL;
    enum rc rc = RC_OK;
    size_t i = 0;

    t->size = t->vocab.count;
    if (!v || v->type == JSON_NULL)
        return RC_OK;
    if (v->type != JSON_ARR)
        return bad(err, "added_tokens", "is not an array");
    if (v->count > TOK_ADDED_MAX)
        return err_set(err, RC_LIMIT, "member 'added_tokens' has more than %d", TOK_ADDED_MAX);
    t->added = arena_array(&t->arena, struct added, v->count);
    if (t->unigram && v->count > LOOKUPS)
        t->lookup = wordpiece_new(&t->vocab, "", 0);
    s = tok_scratch_new();
    for (const struct json *m = v->first; m && !rc; m = m->next, i++) {
        struct added a;

        rc = read_one(t, m, i, &a, err);
        if (!rc)
            rc = add_one(t, s, a, &next, err);
    }
    tok_scratch_free(s);
    return rc;
}
