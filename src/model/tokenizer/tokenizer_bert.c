/* SPDX-License-Identifier: MIT */
/* tokenizer_bert: the short way for BertNormalizer, BertPreTokenizer and WordPiece.
 *
 * Both work on single code points, apart from the order of marks, which never crosses a
 * space.  So text is taken from one ASCII space to the next: what holds only ASCII is cut
 * into words and looked up as it is read; the rest goes the long way by itself, with the
 * white space before it (an added token may want that). */
#include "base/mem.h"
#include "model/tokenizer/tokenizer_int.h"
#include "model/unicode/unicode_int.h"

#include <assert.h>

enum bert_class {
    BERT_LETTER,
    BERT_PUNCT,
    BERT_SPACE,
    BERT_OTHER /* dropped, or what an added token may begin with: the long way */
};

enum { BERT_WORD_MAX = 256 }; /* bytes of a word of the short way */

/* Does an added token in normalised form begin with this, once it is normalised? */
static bool begins_added(const struct tokenizer *t, char c)
{
    return t->normal.first[(unsigned char)c];
}

static enum bert_class class_of(const struct tokenizer *t, const struct norm *m, unsigned char c)
{
    bool kept = c == '\t' || c == '\n' || c == '\r';

    if (begins_added(t, t->lower[c]))
        return BERT_OTHER;
    if (m->clean && !kept && (c == 0 || uni_is_other(c)))
        return BERT_OTHER;
    if (uni_is_space(c))
        return BERT_SPACE;
    return tok_ascii_punct(c) ? BERT_PUNCT : BERT_LETTER;
}

static bool added_fit(const struct added_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        const struct added *a = set->v[i];

        if (a->rstrip)
            return false;
        for (size_t k = 0; k < a->pattern_len; k++) /* no ASCII white space inside */
            if (a->pattern[k] == ' ' || (a->pattern[k] >= '\t' && a->pattern[k] <= '\r'))
                return false;
    }
    return true;
}

/* It touches neither a lone space nor an ASCII letter or digit beside it. */
static bool replace_fits(const struct norm *m)
{
    for (size_t k = 0; k < m->pattern_len; k++) {
        uint32_t c = m->pattern[k];

        if ((c == ' ' && m->repeat < 2) || (c < 0x80 && c != ' ' && !tok_ascii_punct(c)))
            return false;
    }
    return true;
}

/* A piece may be cut before a space between ASCII letters when no step looks across it. */
static bool can_chunk(const struct tokenizer *t)
{
    if (!added_fit(&t->normal) || !t->pres_count)
        return false;
    for (size_t i = 0; i < t->norms_count; i++) {
        const struct norm *m = &t->norms[i];

        if (m->kind == NORM_PREPEND || (m->kind == NORM_STRIP && m->left))
            return false;
        if (m->kind == NORM_REPLACE && !replace_fits(m))
            return false;
    }
    if (t->pres[0].kind == PRE_METASPACE)
        return t->pres[0].split;
    return t->pres[0].kind != PRE_PUNCTUATION;
}

void tok_bert_prepare(struct tokenizer *t)
{
    const struct norm *m = t->norms;

    t->chunks = can_chunk(t);
    t->bert = t->wordpiece && t->norms_count == 1 && m->kind == NORM_BERT && t->pres_count == 2 &&
              t->pres[0].kind == PRE_WHITESPACE_SPLIT && t->pres[1].kind == PRE_PUNCTUATION &&
              t->pres[1].behavior == PRE_ISOLATED && added_fit(&t->normal);
    if (!t->bert)
        return;
    for (int c = 0; c < 128; c++)
        t->lower[c] = (char)(m->lower && c >= 'A' && c <= 'Z' ? c + 32 : c);
    for (int c = 0; c < 128; c++)
        t->ascii[c] = (uint8_t)class_of(t, m, (unsigned char)c);
}

static void add_word(const struct tokenizer *t, struct tok_items *out, const char *word, size_t len,
                     uint64_t hash, size_t at)
{
    size_t first = out->n;
    uint32_t id;

    TOK_ROOM(out->v, out->n, out->cap, 1);
    if (len <= wordpiece_max_chars(t->wordpiece) &&
        wordpiece_whole(t->wordpiece, word, len, hash, &id)) {
        out->v[out->n++] = (struct tok_item){ id, (uint32_t)at, (uint32_t)(at + len) };
        return;
    }
    wordpiece_encode(t->wordpiece, word, len, out);
    for (size_t i = first; i < out->n; i++) {
        out->v[i].begin += (uint32_t)at;
        out->v[i].end += (uint32_t)at;
    }
}

/* Words from `i` up to an ASCII space or the end; where it stopped, or `end` + 1 when the
 * text is not for the short way. */
static size_t plain_words(const struct tokenizer *t, struct tok_scratch *s, size_t i, size_t end)
{
    struct tok_items *out = &s->items[s->side];
    uint64_t hash = WORDPIECE_SEED;
    char word[BERT_WORD_MAX];
    size_t n = 0;

    for (; i < end; i++) {
        unsigned char c = (unsigned char)s->at[i];
        unsigned class = c < 0x80 ? t->ascii[c] : BERT_OTHER;

        if (class == BERT_LETTER && n < BERT_WORD_MAX) {
            word[n] = t->lower[c];
            hash = wordpiece_step(hash, (unsigned char)word[n++]);
            continue;
        }
        if (class == BERT_OTHER || n == BERT_WORD_MAX)
            return end + 1;
        if (n)
            add_word(t, out, word, n, hash, i - n);
        n = 0;
        hash = WORDPIECE_SEED;
        if (class == BERT_SPACE)
            return i;
        add_word(t, out, s->at + i, 1, wordpiece_step(hash, c), i);
    }
    if (n)
        add_word(t, out, word, n, hash, i - n);
    return end;
}

static bool is_space_byte(const struct tokenizer *t, char c)
{
    return (unsigned char)c < 0x80 && t->ascii[(unsigned char)c] == BERT_SPACE;
}

void tok_bert_encode(const struct tokenizer *t, struct tok_scratch *s, size_t begin, size_t end)
{
    struct tok_items *out = &s->items[s->side];
    size_t start = out->n, spaces = s->spaces_n[s->side], done = begin, first, stop;

    assert(end <= TOK_TEXT_MAX * (size_t)3);
    for (size_t i = begin; i < end && !tok_has_enough(s); i = done = stop) {
        while (i < end && is_space_byte(t, s->at[i]))
            i++;
        first = out->n;
        stop = plain_words(t, s, i, end);
        if (stop <= end)
            continue;
        out->n = first;
        for (stop = i; stop < end && !is_space_byte(t, s->at[stop]);)
            stop++;
        tok_piece(t, s, done, stop);
        if (s->open && done > begin) { /* rare: what is before it must be seen with it */
            out->n = start;
            s->spaces_n[s->side] = spaces;
            tok_piece(t, s, begin, end);
            return;
        }
        s->open = false;
    }
}
