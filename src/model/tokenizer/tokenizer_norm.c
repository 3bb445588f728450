/* SPDX-License-Identifier: MIT */
/* tokenizer_norm: the normalizers, over code points that know where they came from.
 *
 * The reference writes each change as a list of (code point, change): 0 replaces the next
 * code point of the source, 1 is new and shares the place of the one before it, -n also
 * takes n more of the source away.  Where its arithmetic is odd (Precompiled; the normal
 * forms, in unicode.c) we do the same, because offsets are what is left of it; the others
 * keep or copy the place directly, which comes to the same. */
#include "base/mem.h"
#include "base/text/utf8.h"
#include "model/tokenizer/tokenizer_int.h"
#include "model/unicode/unicode_int.h"

#include <assert.h>

enum {
    LATIN_FIRST = 0xc0, /* below: no normal form changes it, no mark moves */
    COMPAT_FIRST = 0xa0 /* the same for NFKC and NFKD */
};

void tok_chars_room(struct tok_chars *a, size_t more)
{
    TOK_ROOM(a->v, a->n, a->cap, more);
}

void tok_swap(struct tok_scratch *s)
{
    struct tok_chars t = s->cur;

    s->cur = s->alt;
    s->alt = t;
    s->alt.n = 0;
}

/* ---- changes ---- */
/* In alt, `begin` holds the change (as int32_t): puts each in its place of cur. */
static void place_changes(struct tok_scratch *s)
{
    const struct tok_char *from = s->cur.v;
    size_t i = 0, last = s->cur.n ? s->cur.n - 1 : 0;

    assert(s->cur.n || !s->alt.n);
    for (size_t k = 0; k < s->alt.n; k++) {
        struct tok_char *c = &s->alt.v[k];
        int32_t change = (int32_t)c->begin;
        size_t at = change > 0 ? (i ? i - 1 : 0) : i;

        if (at > last)
            at = last;
        c->begin = from[at].begin;
        c->end = change > 0 && !i ? from[at].begin : from[at].end;
        if (change <= 0)
            i += 1 + (size_t)-change;
    }
    tok_swap(s);
}

static void push_change(struct tok_chars *a, uint32_t c, int32_t change)
{
    tok_chars_room(a, 1);
    a->v[a->n++] = (struct tok_char){ c, (uint32_t)change, 0 };
}

/* ---- normal forms ---- */
static bool all_below(const struct tok_chars *a, uint32_t limit)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->v[i].c >= limit)
            return false;
    return true;
}

static void norm_form(struct tok_scratch *s, enum uni_form form)
{
    bool compat = form == UNI_NFKC || form == UNI_NFKD;
    size_t n = s->cur.n;

    if (all_below(&s->cur, compat ? COMPAT_FIRST : LATIN_FIRST))
        return;
    TOK_ROOM(s->codes, (size_t)0, s->codes_cap, n);
    for (size_t i = 0; i < n; i++)
        s->codes[i] = s->cur.v[i].c;
    uni_normalize(form, s->codes, n, &s->form);
    tok_chars_room(&s->alt, s->form.count);
    for (size_t i = 0; i < s->form.count; i++) {
        int32_t from = s->form.source[i];

        tok_push(&s->alt, s->form.code[i], s->cur.v[from > 0 ? from : 0]);
    }
    tok_swap(s);
}

/* ---- simple ones ---- */
static void norm_lowercase(struct tok_scratch *s)
{
    for (size_t i = 0; i < s->cur.n; i++) {
        struct tok_char from = s->cur.v[i];
        uint32_t low[UNI_LOWER_MAX];
        size_t n = 1;

        low[0] = from.c >= 'A' && from.c <= 'Z' ? from.c + 32 : from.c;
        if (from.c >= 0x80)
            n = uni_lower(from.c, low);
        tok_chars_room(&s->alt, n);
        for (size_t k = 0; k < n; k++)
            tok_push(&s->alt, low[k], from);
    }
    tok_swap(s);
}

static void norm_drop(struct tok_scratch *s, bool (*drop)(uint32_t c))
{
    size_t n = 0;

    for (size_t i = 0; i < s->cur.n; i++)
        if (s->cur.v[i].c < 0x80 || !drop(s->cur.v[i].c))
            s->cur.v[n++] = s->cur.v[i];
    s->cur.n = n;
}

static void norm_strip(struct tok_scratch *s, bool left, bool right)
{
    size_t begin = 0, end = s->cur.n;

    while (left && begin < end && uni_is_space(s->cur.v[begin].c))
        begin++;
    while (right && end > begin && uni_is_space(s->cur.v[end - 1].c))
        end--;
    if (begin)
        memmove(s->cur.v, s->cur.v + begin, (end - begin) * sizeof(*s->cur.v));
    s->cur.n = end - begin;
}

/* Code points of a match at i; 0: none. */
static size_t match_at(const struct norm *m, const struct tok_chars *a, size_t i)
{
    size_t n = 0;

    if (m->repeat) {
        while (i + n < a->n && a->v[i + n].c == m->pattern[0])
            n++;
        return n >= m->repeat ? n : 0;
    }
    if (a->n - i < m->pattern_len)
        return 0;
    while (n < m->pattern_len && a->v[i + n].c == m->pattern[n])
        n++;
    return n == m->pattern_len ? n : 0;
}

static void norm_replace(struct tok_scratch *s, const struct norm *m)
{
    for (size_t i = 0; i < s->cur.n;) {
        size_t n = match_at(m, &s->cur, i);

        tok_chars_room(&s->alt, m->content_len + 1);
        if (!n) {
            s->alt.v[s->alt.n++] = s->cur.v[i++];
            continue;
        }
        i += n;
        for (size_t k = 0; k < m->content_len; k++)
            tok_push(&s->alt, m->content[k], s->cur.v[i - 1]);
    }
    tok_swap(s);
}

static void norm_prepend(struct tok_scratch *s, const struct norm *m)
{
    if (!s->cur.n)
        return;
    tok_chars_room(&s->alt, m->content_len + s->cur.n);
    for (size_t k = 0; k < m->content_len; k++)
        tok_push(&s->alt, m->content[k], s->cur.v[0]);
    memcpy(s->alt.v + s->alt.n, s->cur.v, s->cur.n * sizeof(*s->cur.v));
    s->alt.n += s->cur.n;
    tok_swap(s);
}

/* ---- Bert ---- */
static bool bert_dropped(uint32_t c)
{
    if (c == '\t' || c == '\n' || c == '\r')
        return false;
    return c == 0 || c == 0xfffd || uni_is_other(c);
}

static void bert_clean(struct tok_scratch *s, bool clean, bool chinese)
{
    tok_chars_room(&s->alt, s->cur.n * (chinese ? 3 : 1));
    for (size_t i = 0; i < s->cur.n; i++) {
        struct tok_char from = s->cur.v[i];

        if (clean && bert_dropped(from.c))
            continue;
        if (clean && uni_is_space(from.c))
            from.c = ' ';
        if (chinese && from.c >= 0x3400 && uni_is_chinese(from.c)) {
            tok_push(&s->alt, ' ', from);
            tok_push(&s->alt, from.c, from);
            tok_push(&s->alt, ' ', from);
        } else
            tok_push(&s->alt, from.c, from);
    }
    tok_swap(s);
}

static void norm_bert(struct tok_scratch *s, const struct norm *m)
{
    if (m->clean || m->chinese)
        bert_clean(s, m->clean, m->chinese);
    if (m->accents) {
        norm_form(s, UNI_NFD);
        norm_drop(s, uni_is_mark_nonspacing);
    }
    if (m->lower)
        norm_lowercase(s);
}

/* ---- Precompiled ---- */
static size_t count_chars(const char *p, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)p[i] & 0xc0) != 0x80;
    return n;
}

struct chunks { /* what precompiled_apply() says, on its way to alt */
    struct tok_scratch *s;
    size_t len;  /* of s->bytes */
    size_t next; /* of cur: the first that is not done */
    bool same;   /* all of it stays */
};

/* Code points of cur that stay as they are. */
static void keep_chars(struct chunks *k, size_t src_len)
{
    struct tok_scratch *s = k->s;

    tok_chars_room(&s->alt, src_len);
    for (size_t i = 0; i < src_len;) {
        uint32_t c = s->cur.v[k->next++].c;

        s->alt.v[s->alt.n++] = (struct tok_char){ c, 0, 0 };
        i += c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    }
}

/* The reference's way to write a chunk's replacement: too many are new at the end, too few
 * take the rest away with the last one (of any chunk before, when this one is empty). */
static void precompiled_chunk(void *arg, size_t src, size_t src_len, const char *text,
                              size_t text_len)
{
    struct chunks *k = arg;
    struct tok_scratch *s = k->s;
    size_t old, n = 0;

    if (text == s->bytes + src) {
        k->same = src_len == k->len;
        if (!k->same)
            keep_chars(k, src_len);
        return;
    }
    old = count_chars(s->bytes + src, src_len);
    k->next += old;
    for (size_t i = 0; i < text_len; n++) {
        uint32_t c;
        size_t step = utf8_decode(text + i, text_len - i, &c);

        if (!step)
            break; /* precompiled_new() checked its pool */
        push_change(&s->alt, c, n >= old);
        i += step;
    }
    if (n < old && !s->alt.n)
        s->shifted = true; /* nothing to write it to: all that follows is early by so many */
    else if (n < old) {
        struct tok_char *last = &s->alt.v[s->alt.n - 1];

        last->begin = (uint32_t)((int32_t)last->begin - (int32_t)(old - n));
    }
}

static void norm_precompiled(struct tok_scratch *s, const struct precompiled *p)
{
    struct chunks k = { .s = s };

    if (!s->cur.n)
        return;
    TOK_ROOM(s->bytes, (size_t)0, s->bytes_cap, s->cur.n * 4);
    for (size_t i = 0; i < s->cur.n; i++) {
        uint32_t c = s->cur.v[i].c;

        if (c < 0x80)
            s->bytes[k.len++] = (char)c;
        else
            k.len += utf8_encode(c, s->bytes + k.len);
    }
    precompiled_apply(p, s->bytes, k.len, precompiled_chunk, &k);
    if (!k.same)
        place_changes(s);
}

void tok_normalize(const struct norm *steps, size_t count, struct tok_scratch *s)
{
    for (size_t i = 0; i < count; i++) {
        const struct norm *m = &steps[i];

        switch (m->kind) {
        case NORM_BERT:
            norm_bert(s, m);
            break;
        case NORM_NFC:
            norm_form(s, UNI_NFC);
            break;
        case NORM_NFD:
            norm_form(s, UNI_NFD);
            break;
        case NORM_NFKC:
            norm_form(s, UNI_NFKC);
            break;
        case NORM_NFKD:
            norm_form(s, UNI_NFKD);
            break;
        case NORM_LOWERCASE:
            norm_lowercase(s);
            break;
        case NORM_STRIP_ACCENTS:
            norm_drop(s, tok_is_mark);
            break;
        case NORM_STRIP:
            norm_strip(s, m->left, m->right);
            break;
        case NORM_REPLACE:
            norm_replace(s, m);
            break;
        case NORM_PRECOMPILED:
            norm_precompiled(s, m->precompiled);
            break;
        case NORM_PREPEND:
            norm_prepend(s, m);
            break;
        }
    }
}
