/* SPDX-License-Identifier: MIT */
/* tokenizer_encode: one or two texts to tokens, up to truncation.
 *
 * A text is made valid UTF-8, split at added tokens, and each piece between them goes the
 * long way (code points, normalizers, pre-tokenizers, model) or, when it is plain, the
 * short one of tokenizer_bert.c. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "model/tokenizer/tokenizer_int.h"
#include "model/unicode/unicode_int.h"

#include <assert.h>

enum {
    CHUNK_MIN = 256,    /* bytes of a piece before a place to cut it is looked for */
    SPLITS_AT_ONCE = 64 /* given to the Unigram together */
};

/* ---- valid UTF-8 ---- */
/* Bytes of the bad sequence at p that one U+FFFD stands for: the longest start of a good
 * one, or one byte. */
static size_t bad_length(const unsigned char *p, size_t len)
{
    unsigned lo = 0x80, hi = 0xbf;
    size_t want, n = 1;

    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 1;
    want = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] == 0xe0)
        lo = 0xa0;
    else if (p[0] == 0xed)
        hi = 0x9f;
    else if (p[0] == 0xf0)
        lo = 0x90;
    else if (p[0] == 0xf4)
        hi = 0x8f;
    for (; n < want && n < len && p[n] >= lo && p[n] <= hi; n++) {
        lo = 0x80;
        hi = 0xbf;
    }
    return n;
}

/* The length of the valid start. */
static size_t valid_length(const char *p, size_t len)
{
    size_t i = 0, n;
    uint64_t word;
    uint32_t c;

    while (i < len) {
        if (len - i >= sizeof(word)) {
            memcpy(&word, p + i, sizeof(word));
            if (!(word & UINT64_C(0x8080808080808080))) {
                i += sizeof(word);
                continue;
            }
        }
        n = utf8_decode(p + i, len - i, &c);
        if (!n)
            break;
        i += n;
    }
    return i;
}

static void own_add(struct tok_clean *c, const char *p, size_t len)
{
    if (!len)
        return;
    TOK_ROOM(c->copy, c->len, c->copy_cap, len);
    memcpy(c->copy + c->len, p, len);
    c->len += len;
}

static void clean_text(struct tok_clean *c, struct tok_text text)
{
    size_t i = valid_length(text.p, text.len);

    c->fixes_n = 0;
    c->p = text.p;
    c->len = text.len;
    if (i == text.len)
        return;
    c->len = 0;
    own_add(c, text.p, i);
    while (i < text.len) {
        size_t bad = bad_length((const unsigned char *)text.p + i, text.len - i), good;

        TOK_ROOM(c->fixes, c->fixes_n, c->fixes_cap, 1);
        c->fixes[c->fixes_n++] = (struct tok_fix){ (uint32_t)c->len, (uint32_t)i, (uint32_t)bad };
        own_add(c, "\xef\xbf\xbd", 3);
        i += bad;
        good = valid_length(text.p + i, text.len - i);
        own_add(c, text.p + i, good);
        i += good;
    }
    c->p = c->copy;
}

uint32_t tok_unclean(const struct tok_clean *c, uint32_t at)
{
    size_t lo = 0, hi = c->fixes_n;
    const struct tok_fix *f;

    while (lo < hi) { /* the fixes that begin before `at` */
        size_t mid = lo + (hi - lo) / 2;

        if (c->fixes[mid].at < at)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!lo)
        return at;
    f = &c->fixes[lo - 1];
    return f->from + f->len + (at - f->at - 3);
}

/* ---- the long way ---- */
/* cur as bytes, with the place of each. */
static void to_bytes(struct tok_scratch *s)
{
    size_t len = 0;

    TOK_ROOM(s->bytes, (size_t)0, s->bytes_cap, s->cur.n * 4);
    TOK_ROOM(s->pos, (size_t)0, s->pos_cap, s->cur.n + 1);
    for (size_t i = 0; i < s->cur.n; i++) {
        uint32_t c = s->cur.v[i].c;

        s->pos[i] = (uint32_t)len;
        if (c < 0x80)
            s->bytes[len++] = (char)c;
        else
            len += utf8_encode(c, s->bytes + len);
    }
    s->pos[s->cur.n] = (uint32_t)len;
}

/* Items from `first` on, none before cur[at], have offsets from `base` on: puts the text's in
 * their place. */
static void place_items(struct tok_scratch *s, size_t first, size_t at, uint32_t base)
{
    struct tok_items *out = &s->items[s->side];
    size_t i = at;

    for (size_t k = first; k < out->n; k++) {
        struct tok_item *it = &out->v[k];
        uint32_t end = base + it->end;

        while (s->pos[i] > base + it->begin) /* byte fallback gives one place to several */
            i--;
        while (s->pos[i] < base + it->begin)
            i++;
        it->begin = s->cur.v[i].begin;
        while (s->pos[i + 1] < end)
            i++;
        it->end = s->cur.v[i].end;
        if (k + 1 < out->n)
            i++;
    }
}

void tok_note_unknown(struct tok_scratch *s, const char *p, size_t len)
{
    int side = s->side;

    TOK_ROOM(s->unknown[side], s->unknown_n[side], s->unknown_cap[side], 1);
    s->unknown[side][s->unknown_n[side]++] =
        (struct tok_unknown){ (uint32_t)s->items[side].n, (uint32_t)s->unknown_len };
    TOK_ROOM(s->unknown_text, s->unknown_len, s->unknown_text_cap, len + 1);
    memcpy(s->unknown_text + s->unknown_len, p, len);
    s->unknown_text[s->unknown_len + len] = '\0';
    s->unknown_len += len + 1;
}

/* Splits that follow each other, all at once. */
static void unigram_splits(const struct tokenizer *t, struct tok_scratch *s,
                           const struct tok_range *r, size_t count)
{
    struct unigram_span spans[SPLITS_AT_ONCE];
    struct tok_items *out = &s->items[s->side];
    const struct unigram_token *v;
    size_t n, first = out->n;

    for (size_t i = 0; i < count; i++)
        spans[i] = (struct unigram_span){ s->pos[r[i].begin], s->pos[r[i].end] };
    n = unigram_encode_all(t->unigram, s->unigram, s->bytes, spans, count, &v);
    TOK_ROOM(out->v, out->n, out->cap, n);
    for (size_t i = 0; i < n; i++) {
        if (s->tokens && v[i].id == t->unigram_unk)
            tok_note_unknown(s, s->bytes + v[i].begin, v[i].end - v[i].begin);
        out->v[out->n++] = (struct tok_item){ v[i].id, v[i].begin, v[i].end };
    }
    place_items(s, first, r[0].begin, 0);
}

static void wordpiece_split(const struct tokenizer *t, struct tok_scratch *s, struct tok_range r)
{
    struct tok_items *out = &s->items[s->side];
    uint32_t base = s->pos[r.begin];
    size_t first = out->n;

    wordpiece_encode(t->wordpiece, s->bytes + base, s->pos[r.end] - base, out);
    place_items(s, first, r.begin, base);
}

/* cur is normalised and holds no added token. */
static void encode_words(const struct tokenizer *t, struct tok_scratch *s)
{
    tok_pretokenize(t->pres, t->pres_count, s);
    to_bytes(s);
    for (size_t i = 0, n; i < s->splits.n && !tok_has_enough(s); i += n) {
        n = 1;
        if (t->wordpiece) {
            wordpiece_split(t, s, s->splits.v[i]);
            continue;
        }
        n = s->splits.n - i < SPLITS_AT_ONCE ? s->splits.n - i : SPLITS_AT_ONCE;
        unigram_splits(t, s, s->splits.v + i, n);
    }
}

/* White space at both ends of a match, in code points. */
static void note_spaces(struct tok_scratch *s, const char *p, size_t len)
{
    struct tok_spaces sp = { .item = (uint32_t)s->items[s->side].n };
    size_t n, i = 0, end = len;
    uint32_t c;

    while (i < len && (n = utf8_decode(p + i, len - i, &c)) && (c == 0x120 || uni_is_space(c))) {
        sp.lead++;
        i += n;
    }
    for (; end; end = i) {
        i = end - 1;
        while (i && ((unsigned char)p[i] & 0xc0) == 0x80)
            i--;
        utf8_decode(p + i, end - i, &c);
        if (c != 0x120 && !uni_is_space(c))
            break;
        sp.trail++;
    }
    TOK_ROOM(s->spaces[s->side], s->spaces_n[s->side], s->spaces_cap[s->side], 1);
    s->spaces[s->side][s->spaces_n[s->side]++] = sp;
}

/* `p` is the matched text, whose first and last byte came from begin and end. */
static void add_token(const struct tokenizer *t, struct tok_scratch *s, const struct added *a,
                      const char *p, size_t len, struct tok_range from)
{
    struct tok_items *out = &s->items[s->side];

    if (t->trim)
        note_spaces(s, p, len);
    TOK_ROOM(out->v, out->n, out->cap, 1);
    out->v[out->n++] = (struct tok_item){ a->id, from.begin, from.end };
}

static size_t index_of(const struct tok_whole *w, size_t byte)
{
    size_t lo = 0, hi = w->chars.n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (w->pos[mid] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* cur, its bytes and their places change places with those of `whole`. */
static void keep_whole(struct tok_scratch *s)
{
    struct tok_whole w = s->whole;

    s->whole = (struct tok_whole){ s->cur, s->bytes, s->bytes_cap, s->pos, s->pos_cap };
    s->cur = w.chars;
    s->bytes = w.bytes;
    s->bytes_cap = w.bytes_cap;
    s->pos = w.pos;
    s->pos_cap = w.pos_cap;
}

static void encode_part(const struct tokenizer *t, struct tok_scratch *s,
                        const struct added_hit *hit)
{
    const struct tok_whole *w = &s->whole;
    size_t begin = index_of(w, hit->begin), end = index_of(w, hit->end);

    if (begin == end)
        return;
    if (hit->token) {
        s->open |= hit->token->lstrip && !hit->begin;
        add_token(t, s, hit->token, w->bytes + hit->begin, hit->end - hit->begin,
                  (struct tok_range){ w->chars.v[begin].begin, w->chars.v[end - 1].end });
        return;
    }
    s->cur.n = 0;
    tok_chars_room(&s->cur, end - begin);
    memcpy(s->cur.v, w->chars.v + begin, (end - begin) * sizeof(*s->cur.v));
    s->cur.n = end - begin;
    encode_words(t, s);
}

/* cur is normalised: finds the added tokens that are compared so.  Most pieces have none. */
static void normal_tokens(const struct tokenizer *t, struct tok_scratch *s)
{
    struct added_walk w = { 0 };
    struct added_hit hit;
    size_t len;

    to_bytes(s);
    len = s->pos[s->cur.n];
    if (!added_next(&t->normal, s->bytes, len, &w, &hit))
        return;
    if (!hit.token && hit.end == len) {
        encode_words(t, s);
        return;
    }
    keep_whole(s);
    do
        encode_part(t, s, &hit);
    while (!tok_has_enough(s) && added_next(&t->normal, s->whole.bytes, len, &w, &hit));
}

static void to_chars(struct tok_scratch *s, size_t begin, size_t end)
{
    s->cur.n = s->alt.n = 0;
    tok_chars_room(&s->cur, end - begin);
    for (size_t i = begin; i < end;) {
        uint32_t c;
        size_t n = 1;

        c = (unsigned char)s->at[i];
        if (c >= 0x80)
            n = utf8_decode(s->at + i, end - i, &c);
        assert(n); /* clean_text() made it valid */
        s->cur.v[s->cur.n++] = (struct tok_char){ c, (uint32_t)i, (uint32_t)(i + n) };
        i += n;
    }
}

void tok_piece(const struct tokenizer *t, struct tok_scratch *s, size_t begin, size_t end)
{
    to_chars(s, begin, end);
    tok_normalize(t->norms, t->norms_count, s);
    if (t->normal.count)
        normal_tokens(t, s);
    else
        encode_words(t, s);
}

static bool ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Where a piece may be cut behind `from`: before a space between ASCII letters or digits.
 * No step looks over such a place (tokenizer_bert.c: can_chunk). */
static size_t chunk_end(const char *p, size_t from, size_t end)
{
    for (size_t i = from + CHUNK_MIN; i + 1 < end; i++)
        if (p[i] == ' ' && ascii_letter(p[i - 1]) && ascii_letter(p[i + 1]))
            return i;
    return end;
}

static void long_way(const struct tokenizer *t, struct tok_scratch *s, size_t begin, size_t end)
{
    size_t first = s->items[s->side].n, spaces = s->spaces_n[s->side], at = begin, stop;
    size_t unknown = s->unknown_n[s->side];

    s->shifted = false;
    for (; at < end && !tok_has_enough(s); at = stop) {
        stop = t->plain ? tok_plain_end(t, s->at, at, end) : at;
        if (stop > at) {
            tok_plain_encode(t, s, at, stop);
            continue;
        }
        stop = t->chunks ? chunk_end(s->at, at, end) : end;
        tok_piece(t, s, at, stop);
        if (s->shifted && at == begin && stop < end) { /* it moves what follows too */
            s->items[s->side].n = first;
            s->spaces_n[s->side] = spaces;
            s->unknown_n[s->side] = unknown;
            tok_piece(t, s, begin, end);
            return;
        }
    }
}

/* Tokens of a text that decide the answer; one more tells that it was cut. */
static size_t stops_at(const struct tok_opts *o, int side)
{
    if (!o->stop_early || !o->max_tokens || o->left || o->truncate == TOK_NEVER)
        return SIZE_MAX;
    if (o->truncate != TOK_LONGEST_FIRST && side != (o->truncate == TOK_ONLY_SECOND))
        return SIZE_MAX; /* how long it is decides how much the other loses */
    return o->max_tokens;
}

static void encode_text(const struct tokenizer *t, struct tok_scratch *s, int side,
                        struct tok_text text, size_t enough)
{
    const struct tok_clean *c = &s->clean[side];
    struct added_walk w = { 0 };
    struct added_hit hit;

    clean_text(&s->clean[side], text);
    s->side = side;
    s->enough = enough;
    s->at = c->p;
    s->items[side].n = 0;
    s->spaces_n[side] = 0;
    s->unknown_n[side] = 0;
    s->open = false;
    while (!tok_has_enough(s) && added_next(&t->raw, c->p, c->len, &w, &hit)) {
        if (hit.token) {
            if (hit.begin < hit.end)
                add_token(t, s, hit.token, c->p + hit.begin, hit.end - hit.begin,
                          (struct tok_range){ (uint32_t)hit.begin, (uint32_t)hit.end });
        } else if (t->bert)
            tok_bert_encode(t, s, hit.begin, hit.end);
        else
            long_way(t, s, hit.begin, hit.end);
    }
}

enum rc tokenizer_encode(const struct tokenizer *t, struct tok_scratch *s, struct tok_text a,
                         const struct tok_text *b, const struct tok_opts *opts, struct tok_out *out,
                         struct err *err)
{
    static const struct tok_opts none;
    const struct tok_opts *o = opts ? opts : &none;
    size_t enough = o->max_tokens ? o->max_tokens : SIZE_MAX;

    if (a.len > TOK_TEXT_MAX || (b && b->len > TOK_TEXT_MAX))
        return err_set(err, RC_LIMIT, "a text of %zu bytes is longer than %d",
                       a.len > TOK_TEXT_MAX ? a.len : b->len, TOK_TEXT_MAX);
    s->tokens = o->tokens;
    s->unknown_len = 0;
    encode_text(t, s, 0, a, stops_at(o, 0));
    s->items[1].n = 0;
    if (b)
        encode_text(t, s, 1, *b, stops_at(o, 1));
    if (o->stop_early && s->items[0].n > enough && s->items[1].n > enough) {
        encode_text(t, s, 0, a, SIZE_MAX); /* the longer one keeps the odd token: which is it? */
        encode_text(t, s, 1, *b, SIZE_MAX);
    }
    return tok_finish(t, s, b, o, out, err);
}
