/* SPDX-License-Identifier: MIT */
/* tokenizer_plain: the short way for Unigram tokenizers whose steps leave most words with
 * single spaces between them as they are, apart from Metaspace's mark before each: XLM-R's
 * and those like it.
 *
 * Such a stretch needs no code points with their places: its words are copied with their
 * marks, and a token's offsets follow from those of its word.  It ends at the end of the
 * text or before a space between two plain characters: no step looks over such a place. */
#include "base/mem.h"
#include "base/text/utf8.h"
#include "model/tokenizer/tokenizer_int.h"

enum {
    WORDS = 64,         /* given to the model together */
    STRETCH_MIN = 1024, /* bytes after which a stretch ends at the first place */
    SPACES_END = 0x3000 /* the last white space */
};

struct plain_word { /* where it, and what its mark stands for, is in the text */
    uint32_t begin, mark_begin, mark_end;
};

struct plain_words {
    struct unigram_span spans[WORDS]; /* of s->bytes */
    struct plain_word from[WORDS];
    size_t n;
};

/* ---- is it exact? ---- */
/* A step that does nothing to plain words? */
static bool norm_fits(const struct norm *m)
{
    switch (m->kind) {
    case NORM_PRECOMPILED: /* the words are made of what it leaves */
        return true;
    case NORM_STRIP:
        return !m->left;
    case NORM_REPLACE:
        return m->repeat > 1 && m->pattern[0] == ' ';
    default:
        return false;
    }
}

/* What the first Precompiled leaves, or ASCII; without spaces, the mark and what an added
 * token begins with. */
static bool set_find(struct tokenizer *t, uint32_t mark)
{
    const struct precompiled *map = NULL;

    for (size_t i = 0; i < t->norms_count; i++) {
        if (!norm_fits(&t->norms[i]) || (map && t->norms[i].precompiled))
            return false;
        map = map ? map : t->norms[i].precompiled;
    }
    for (uint32_t c = ' '; !map && c < 0x7f; c++)
        uni_set_add(&t->plain_set, c);
    if (map)
        t->plain_set = *precompiled_plain(map);
    if (!uni_set_has(&t->plain_set, ' '))
        return false;
    for (uint32_t c = 0; c <= SPACES_END; c++)
        if (uni_is_space(c) || (c < 0x80 && t->normal.first[c]))
            uni_set_remove(&t->plain_set, c);
    uni_set_remove(&t->plain_set, mark);
    for (uint32_t b = 0x80; b < 0x100; b++)
        if (t->normal.first[b] || t->normal.first[' '])
            return false;
    for (uint32_t c = 0; c < 0x80; c++)
        t->plain_byte[c] = uni_set_has(&t->plain_set, c);
    return true;
}

void tok_plain_prepare(struct tokenizer *t)
{
    const struct pre *meta = t->pres_count ? &t->pres[t->pres_count - 1] : NULL;

    if (!t->unigram || !t->chunks || !meta || meta->kind != PRE_METASPACE || !meta->split ||
        meta->prepend != PRE_ALWAYS || meta->replacement < 0x80)
        return;
    t->plain_split = t->pres_count == 2 && t->pres[0].kind == PRE_WHITESPACE_SPLIT;
    if (t->pres_count > 1 && !t->plain_split)
        return;
    t->mark_len = utf8_encode(meta->replacement, t->mark);
    t->plain = set_find(t, meta->replacement);
}

/* ---- where ---- */
size_t tok_plain_end(const struct tokenizer *t, const char *p, size_t begin, size_t end)
{
    size_t last = begin, i = begin;

    while (i < end) {
        size_t space, n;

        if (t->plain_byte[(unsigned char)p[i]]) {
            i++;
            continue;
        }
        space = p[i] == ' ' ? 1 : 0;
        n = uni_set_step(&t->plain_set, p + i + space, end - i - space);
        if (!n)
            return last;
        if (space && i > begin) {
            last = i; /* a space between plain characters */
            if (i - begin >= STRETCH_MIN)
                return i;
        }
        i += space + n;
    }
    return end;
}

/* ---- encoding ---- */
static void flush_words(const struct tokenizer *t, struct tok_scratch *s, struct plain_words *w)
{
    struct tok_items *out = &s->items[s->side];
    const struct unigram_token *v;
    size_t n = unigram_encode_all(t->unigram, s->unigram, s->bytes, w->spans, w->n, &v), k = 0;

    TOK_ROOM(out->v, out->n, out->cap, n);
    for (size_t i = 0; i < n; i++) {
        struct tok_item *it;
        uint32_t text;

        if (s->tokens && v[i].id == t->unigram_unk)
            tok_note_unknown(s, s->bytes + v[i].begin, v[i].end - v[i].begin);
        it = &out->v[out->n++];
        while (v[i].begin >= w->spans[k].end)
            k++;
        text = w->spans[k].begin + (uint32_t)t->mark_len; /* where the word begins */
        it->id = v[i].id;
        it->begin =
            v[i].begin < text ? w->from[k].mark_begin : w->from[k].begin + v[i].begin - text;
        it->end = v[i].end <= text ? w->from[k].mark_end : w->from[k].begin + v[i].end - text;
    }
    w->n = 0;
}

/* A mark that stands for nothing has the place of the word's first character. */
static size_t behind_first(const char *p, size_t word)
{
    unsigned char lead = (unsigned char)p[word];

    return word + (lead < 0x80 ? 1 : lead < 0xe0 ? 2 : 3);
}

void tok_plain_encode(const struct tokenizer *t, struct tok_scratch *s, size_t begin, size_t end)
{
    struct plain_words w = { .n = 0 };
    uint32_t len = 0;

    TOK_ROOM(s->bytes, (size_t)0, s->bytes_cap, (end - begin + 1) * (1 + t->mark_len));
    for (size_t i = begin, word; i < end && !tok_has_enough(s);) {
        bool space = s->at[i] == ' ', marked = space && !t->plain_split; /* it becomes the mark */
        uint32_t start = len;

        word = i += space;
        memcpy(s->bytes + len, t->mark, t->mark_len);
        len += (uint32_t)t->mark_len;
        for (; i < end && s->at[i] != ' '; i++)
            s->bytes[len++] = s->at[i];
        w.spans[w.n] = (struct unigram_span){ start, len };
        w.from[w.n++] =
            (struct plain_word){ (uint32_t)word, (uint32_t)(marked ? word - 1 : word),
                                 (uint32_t)(marked ? word : behind_first(s->at, word)) };
        if (w.n == WORDS)
            flush_words(t, s, &w);
    }
    if (w.n)
        flush_words(t, s, &w);
}
