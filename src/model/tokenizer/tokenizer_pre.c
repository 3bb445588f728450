/* SPDX-License-Identifier: MIT */
/* tokenizer_pre: the pre-tokenizers.  Each turns a list of ranges of code points into a
 * longer one; empty ranges are left out, as the reference does. */
#include "base/mem.h"
#include "model/tokenizer/tokenizer_int.h"
#include "model/unicode/unicode_int.h"

bool tok_is_punct(uint32_t c)
{
    return c < 0x80 ? tok_ascii_punct(c) : uni_is_punct(c);
}

static bool is_space(uint32_t c)
{
    return c < 0x80 ? c == ' ' || (c >= '\t' && c <= '\r') : uni_is_space(c);
}

static void add_range(struct tok_ranges *r, size_t begin, size_t end)
{
    if (begin == end)
        return;
    TOK_ROOM(r->v, r->n, r->cap, 1);
    r->v[r->n++] = (struct tok_range){ (uint32_t)begin, (uint32_t)end };
}

static void swap_splits(struct tok_scratch *s)
{
    struct tok_ranges t = s->splits;

    s->splits = s->splits_alt;
    s->splits_alt = t;
    s->splits_alt.n = 0;
}

/* ---- by a class of code points ---- */
struct split {
    struct tok_ranges *out;
    bool (*is)(uint32_t c);
    enum pre_behavior behavior;
};

/* Does a piece end between two code points, each a delimiter or not?  A delimiter joins the
 * text before it, the text behind it, other delimiters, or nothing. */
static bool cut_between(enum pre_behavior b, bool left, bool right)
{
    if (!left && !right)
        return false;
    switch (b) {
    case PRE_PREVIOUS:
        return left;
    case PRE_NEXT:
        return right;
    case PRE_CONTIGUOUS:
        return left != right;
    case PRE_REMOVED:
    case PRE_ISOLATED:
        break;
    }
    return true;
}

static void split_range(const struct split *p, const struct tok_chars *a, struct tok_range r)
{
    size_t begin = r.begin;
    bool left, right;

    if (r.begin == r.end)
        return;
    left = p->is(a->v[r.begin].c);
    for (size_t i = r.begin; i < r.end; i++, left = right) {
        right = i + 1 < r.end && p->is(a->v[i + 1].c);
        if (i + 1 < r.end && !cut_between(p->behavior, left, right))
            continue;
        if (!(p->behavior == PRE_REMOVED && left))
            add_range(p->out, begin, i + 1);
        begin = i + 1;
    }
}

static void split_class(struct tok_scratch *s, bool (*is)(uint32_t c), enum pre_behavior b)
{
    struct split p = { &s->splits_alt, is, b };

    for (size_t i = 0; i < s->splits.n; i++)
        split_range(&p, &s->cur, s->splits.v[i]);
    swap_splits(s);
}

/* ---- Whitespace: \w+|[^\w\s]+ ---- */
static int word_class(uint32_t c)
{
    if (is_space(c))
        return 0;
    return tok_is_word(c) ? 1 : 2;
}

static void split_words(struct tok_scratch *s)
{
    for (size_t k = 0; k < s->splits.n; k++) {
        struct tok_range r = s->splits.v[k];
        size_t begin = r.begin;

        for (size_t i = r.begin; i < r.end; i++) {
            int class = word_class(s->cur.v[i].c);

            if (i + 1 < r.end && word_class(s->cur.v[i + 1].c) == class)
                continue;
            if (class)
                add_range(&s->splits_alt, begin, i + 1);
            begin = i + 1;
        }
    }
    swap_splits(s);
}

/* ---- Metaspace ---- */
static bool wants_prefix(const struct pre *p, const struct tok_char *first)
{
    uint32_t c = first->c == ' ' ? p->replacement : first->c;

    if (c == p->replacement || p->prepend == PRE_NEVER)
        return false;
    return p->prepend == PRE_ALWAYS || first->begin == 0;
}

static void metaspace_range(struct tok_scratch *s, const struct pre *p, struct tok_range r)
{
    size_t begin = s->alt.n;

    tok_chars_room(&s->alt, (size_t)(r.end - r.begin) + 1);
    if (wants_prefix(p, &s->cur.v[r.begin]))
        tok_push(&s->alt, p->replacement, s->cur.v[r.begin]);
    for (size_t i = r.begin; i < r.end; i++) {
        struct tok_char c = s->cur.v[i];

        if (c.c == ' ')
            c.c = p->replacement;
        if (p->split && c.c == p->replacement) {
            add_range(&s->splits_alt, begin, s->alt.n);
            begin = s->alt.n;
        }
        s->alt.v[s->alt.n++] = c;
    }
    add_range(&s->splits_alt, begin, s->alt.n);
}

void tok_pretokenize(const struct pre *steps, size_t count, struct tok_scratch *s)
{
    s->splits.n = s->splits_alt.n = 0;
    add_range(&s->splits, 0, s->cur.n);
    for (size_t i = 0; i < count; i++) {
        switch (steps[i].kind) {
        case PRE_WHITESPACE_SPLIT:
            split_class(s, is_space, PRE_REMOVED);
            break;
        case PRE_WHITESPACE:
            split_words(s);
            break;
        case PRE_PUNCTUATION:
            split_class(s, tok_is_punct, steps[i].behavior);
            break;
        case PRE_METASPACE:
            for (size_t k = 0; k < s->splits.n; k++)
                metaspace_range(s, &steps[i], s->splits.v[k]);
            tok_swap(s);
            swap_splits(s);
            break;
        }
    }
}
