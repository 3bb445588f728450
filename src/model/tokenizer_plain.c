/* SPDX-License-Identifier: MIT */
/* tokenizer_plain: the short way for Unigram tokenizers whose steps leave ASCII words with
 * single spaces between them as they are, apart from Metaspace's mark before each: XLM-R's
 * and those like it.
 *
 * Such a stretch needs no code points with their places: its words are copied with their
 * marks, and a token's offsets follow from those of its word.  It ends where the long way
 * may begin, before a space between ASCII letters (tokenizer_bert.c: can_chunk). */
#include "base/mem.h"
#include "base/utf8.h"
#include "model/tokenizer_int.h"

enum {
    WORDS = 64,        /* given to the model together */
    STRETCH_MIN = 1024 /* bytes after which a stretch ends at the first place */
};

struct word { /* where it, and what its mark stands for, is in the text */
    uint32_t begin, mark_begin, mark_end;
};

struct words {
    struct unigram_span spans[WORDS]; /* of s->bytes */
    struct word from[WORDS];
    size_t n;
};

/* ---- is it exact? ---- */
struct unchanged {
    const char *p;
    bool yes;
};

static void see_change(void *arg, size_t src, size_t src_len, const char *text, size_t text_len)
{
    struct unchanged *u = arg;

    (void)src_len;
    (void)text_len;
    u->yes = u->yes && text == u->p + src;
}

static bool stays(const struct precompiled *map, char c)
{
    struct unchanged u = { &c, true };

    precompiled_apply(map, &c, 1, see_change, &u);
    return u.yes;
}

/* A step that does nothing to plain words? */
static bool norm_fits(const struct norm *m)
{
    switch (m->kind) {
    case NORM_PRECOMPILED: /* asked byte by byte */
        return true;
    case NORM_STRIP:
        return !m->left;
    case NORM_REPLACE:
        return m->repeat > 1 && m->pattern[0] == ' ';
    default:
        return false;
    }
}

static bool byte_fits(const struct tokenizer *t, char c)
{
    if (t->normal.first[(unsigned char)c])
        return false;
    for (size_t i = 0; i < t->norms_count; i++)
        if (t->norms[i].kind == NORM_PRECOMPILED && !stays(t->norms[i].precompiled, c))
            return false;
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
    for (size_t i = 0; i < t->norms_count; i++)
        if (!norm_fits(&t->norms[i]))
            return;
    if (!byte_fits(t, ' '))
        return;
    for (char c = '!'; c <= '~'; c++)
        t->plain_byte[(unsigned char)c] = byte_fits(t, c);
    t->mark_len = utf8_encode(meta->replacement, t->mark);
    t->plain = true;
}

/* ---- where ---- */
static bool ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

size_t tok_plain_end(const struct tokenizer *t, const char *p, size_t begin, size_t end)
{
    size_t last = begin, i = begin;

    for (; i < end; i++) {
        if (t->plain_byte[(unsigned char)p[i]])
            continue;
        if (p[i] != ' ' || i + 1 == end || !t->plain_byte[(unsigned char)p[i + 1]])
            return last;
        if (i > begin && ascii_letter(p[i - 1]) && ascii_letter(p[i + 1])) {
            last = i;
            if (i - begin >= STRETCH_MIN)
                return i;
        }
    }
    return end;
}

/* ---- encoding ---- */
static void flush(const struct tokenizer *t, struct tok_scratch *s, struct words *w)
{
    struct tok_items *out = &s->items[s->side];
    const struct unigram_token *v;
    size_t n = unigram_encode_all(t->unigram, s->unigram, s->bytes, w->spans, w->n, &v), k = 0;

    TOK_ROOM(out->v, out->n, out->cap, n);
    for (size_t i = 0; i < n; i++) {
        struct tok_item *it = &out->v[out->n++];
        uint32_t text;

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

void tok_plain_encode(const struct tokenizer *t, struct tok_scratch *s, size_t begin, size_t end)
{
    struct words w = { .n = 0 };
    uint32_t len = 0;

    TOK_ROOM(s->bytes, (size_t)0, s->bytes_cap, (end - begin + 1) * (1 + t->mark_len));
    for (size_t i = begin, word; i < end;) {
        bool space = s->at[i] == ' ', own = space && !t->plain_split; /* it becomes the mark */
        uint32_t start = len;

        word = i += space;
        memcpy(s->bytes + len, t->mark, t->mark_len);
        len += (uint32_t)t->mark_len;
        for (; i < end && s->at[i] != ' '; i++)
            s->bytes[len++] = s->at[i];
        w.spans[w.n] = (struct unigram_span){ start, len };
        w.from[w.n++] = (struct word){ (uint32_t)word, (uint32_t)(own ? word - 1 : word),
                                       (uint32_t)(own ? word : word + 1) };
        if (w.n == WORDS)
            flush(t, s, &w);
    }
    if (w.n)
        flush(t, s, &w);
}
