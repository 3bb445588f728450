/* SPDX-License-Identifier: MIT */
/* tokenizer_post: truncation, the template, and ids back to text. */
#include "base/buf.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "model/tokenizer/tokenizer_int.h"
#include "model/unicode/unicode_int.h"

/* ---- truncation ---- */
struct keep {
    size_t n[2]; /* tokens of each text that stay */
};

/* How the longer text gives way first, in closed form as the reference has it: the shorter
 * one stays whole only while it is at most half of the room. */
static struct keep longest_first(size_t n1, size_t n2, size_t max)
{
    bool swap = n1 > n2;
    size_t small = swap ? n2 : n1, large;

    if (small > max)
        large = small;
    else
        large = small > max - small ? small : max - small;
    if (small + large > max) {
        small = max / 2;
        large = small + max % 2;
    }
    return swap ? (struct keep){ { large, small } } : (struct keep){ { small, large } };
}

static enum rc truncate_pair(const struct tok_opts *o, bool pair, size_t max, struct keep *keep,
                             struct err *err)
{
    size_t total = keep->n[0] + keep->n[1], cut;
    int side = o->truncate == TOK_ONLY_SECOND;

    if (total <= max)
        return RC_OK;
    if (!max) {
        *keep = (struct keep){ { 0, 0 } };
        return RC_OK;
    }
    if (o->truncate == TOK_LONGEST_FIRST) {
        struct keep k = longest_first(keep->n[0], keep->n[1], max);

        if (!pair)
            k = (struct keep){ { max, 0 } };
        for (int i = 0; i < 2; i++)
            keep->n[i] = k.n[i] < keep->n[i] ? k.n[i] : keep->n[i];
        return RC_OK;
    }
    cut = total - max;
    if (side && !pair)
        return err_set(err, RC_USAGE, "cannot truncate the second text alone: there is none");
    if (keep->n[side] <= cut)
        return err_set(err, RC_LIMIT,
                       "the %s text has %zu tokens, and %zu must go to keep to the limit",
                       side ? "second" : "first", keep->n[side], cut);
    keep->n[side] -= cut;
    return RC_OK;
}

/* ---- RobertaProcessing's offsets ---- */
static const char *step_right(const struct tok_clean *c, uint32_t at, uint32_t chars)
{
    const char *p = c->p + at, *end = c->p + c->len;

    for (; chars && p < end; chars--)
        do
            p++;
        while (p < end && ((unsigned char)*p & 0xc0) == 0x80);
    return p;
}

static const char *step_left(const struct tok_clean *c, uint32_t at, uint32_t chars)
{
    const char *p = c->p + at;

    for (; chars && p > c->p; chars--)
        do
            p--;
        while (p > c->p && ((unsigned char)*p & 0xc0) == 0x80);
    return p;
}

/* Code points of white space, or U+0120 (which stands for it elsewhere), at one end. */
static uint32_t spaces_at(const char *s, size_t len, bool left)
{
    uint32_t n = 0, c;

    while (len) {
        size_t step = left ? utf8_decode(s, len, &c) : 1;

        while (!left && step < len && ((unsigned char)s[len - step] & 0xc0) == 0x80)
            step++;
        if (!left)
            utf8_decode(s + len - step, step, &c);
        if (!step || (c != 0x120 && !uni_is_space(c)))
            break;
        n++;
        s += left ? step : 0;
        len -= step;
    }
    return n;
}

static struct tok_spaces token_spaces(const struct tokenizer *t, const struct tok_scratch *s,
                                      int side, size_t item, size_t *hint)
{
    struct tok_spaces sp = { .item = (uint32_t)item };
    const char *text;

    while (*hint < s->spaces_n[side] && s->spaces[side][*hint].item < item)
        ++*hint;
    if (*hint < s->spaces_n[side] && s->spaces[side][*hint].item == item)
        return s->spaces[side][*hint];
    text = tokenizer_token(t, s->items[side].v[item].id);
    if (text) {
        sp.lead = spaces_at(text, strlen(text), true);
        sp.trail = spaces_at(text, strlen(text), false);
    }
    return sp;
}

/* The reference leaves white space that a match took with it out of the offsets. */
static void trim_offsets(const struct tokenizer *t, struct tok_scratch *s, int side, size_t first,
                         size_t count)
{
    const struct tok_clean *c = &s->clean[side];
    size_t hint = 0;

    for (size_t i = first; i < first + count; i++) {
        struct tok_spaces sp = token_spaces(t, s, side, i, &hint);
        struct tok_item *it = &s->items[side].v[i];
        const char *p;

        if (sp.lead == 1 && t->prefix_space && (i == first || !it->begin))
            sp.lead = 0;
        p = step_right(c, it->begin, sp.lead);
        it->begin = p < c->p + it->end ? (uint32_t)(p - c->p) : it->end;
        p = step_left(c, it->end, sp.trail);
        if (sp.trail)
            it->end = p > c->p + it->begin ? (uint32_t)(p - c->p) : it->begin;
    }
}

/* ---- the template ---- */
static void out_room(struct tok_scratch *s, size_t n)
{
    if (n <= s->out_cap)
        return;
    s->out_cap = n * 3 / 2 + 64;
    s->ids = xreallocarray(s->ids, s->out_cap, sizeof(*s->ids));
    s->types = xreallocarray(s->types, s->out_cap, 1);
    s->special = xreallocarray(s->special, s->out_cap, 1);
    s->sequence = xreallocarray(s->sequence, s->out_cap, 1);
    s->offsets = xreallocarray(s->offsets, s->out_cap, sizeof(*s->offsets));
}

static size_t put_text(struct tok_scratch *s, size_t at, int side, uint8_t type, size_t first,
                       size_t count)
{
    const struct tok_clean *c = &s->clean[side];
    const struct tok_item *v = count ? s->items[side].v + first : NULL;

    for (size_t i = 0; i < count; i++) {
        s->ids[at + i] = v[i].id;
        s->offsets[at + i] = (struct tok_offset){ v[i].begin, v[i].end };
    }
    for (size_t i = 0; c->fixes_n && i < count; i++)
        s->offsets[at + i] =
            (struct tok_offset){ tok_unclean(c, v[i].begin), tok_unclean(c, v[i].end) };
    if (count) {
        memset(s->types + at, type, count);
        memset(s->special + at, 0, count);
        memset(s->sequence + at, side, count);
    }
    return at + count;
}

/* Texts of the tokens that put_text() puts. */
static void put_tokens(const struct tokenizer *t, struct tok_scratch *s, size_t at, int side,
                       size_t first, size_t count)
{
    const struct tok_item *v = s->items[side].v;
    const struct tok_unknown *u = s->unknown[side];
    size_t k = 0;

    TOK_ROOM(s->texts, at, s->texts_cap, count);
    for (size_t i = first; i < first + count; i++) {
        const char *piece = tokenizer_token(t, v[i].id);

        while (k < s->unknown_n[side] && u[k].item < i)
            k++;
        if (k < s->unknown_n[side] && u[k].item == i)
            piece = s->unknown_text + u[k].at;
        s->texts[at + i - first] = piece ? piece : "?";
    }
}

static size_t put_special(const struct tokenizer *t, struct tok_scratch *s, size_t at,
                          const struct template_part *p, bool tokens)
{
    if (tokens) {
        const char *piece = tokenizer_token(t, p->id);

        TOK_ROOM(s->texts, at, s->texts_cap, 1);
        s->texts[at] = piece ? piece : "?";
    }
    s->ids[at] = p->id;
    s->types[at] = p->type;
    s->special[at] = 1;
    s->sequence[at] = 255;
    s->offsets[at] = (struct tok_offset){ 0, 0 };
    return at + 1;
}

/* Byte behind the last kept token, or of the first one when the left was cut. */
static uint32_t cut_at(const struct tok_scratch *s, int side, bool left, size_t first, size_t count)
{
    const struct tok_clean *c = &s->clean[side];
    const struct tok_items *items = &s->items[side];
    uint32_t all = (uint32_t)c->len, at;

    if (left)
        at = count == items->n ? 0 : count ? items->v[first].begin : all;
    else
        at = count == items->n ? all : count ? items->v[first + count - 1].end : 0;
    return tok_unclean(c, at);
}

enum rc tok_finish(const struct tokenizer *t, struct tok_scratch *s, bool pair,
                   const struct tok_opts *o, struct tok_out *out, struct err *err)
{
    const struct template *m = pair ? &t->two : &t->one;
    struct keep keep = { { s->items[0].n, s->items[1].n } };
    size_t added = o->no_specials ? 0 : m->specials, all = keep.n[0] + keep.n[1] + added;
    size_t first[2] = { 0, 0 }, n = 0;
    enum rc rc = RC_OK;

    if (o->max_tokens && o->truncate != TOK_NEVER) {
        if (o->max_tokens < added)
            return err_set(err, RC_LIMIT, "a limit of %zu tokens has no room for %zu special ones",
                           o->max_tokens, added);
        rc = truncate_pair(o, pair, o->max_tokens - added, &keep, err);
    }
    if (rc)
        return rc;
    *out = (struct tok_out){ .untruncated = all };
    for (int i = 0; i < 1 + pair; i++) {
        if (o->left)
            first[i] = s->items[i].n - keep.n[i];
        if (t->trim)
            trim_offsets(t, s, i, first[i], keep.n[i]);
        out->cut[i] = cut_at(s, i, o->left, first[i], keep.n[i]);
    }
    for (size_t i = 0; i < m->count; i++)
        n += m->v[i].kind == PART_SPECIAL ? 1 : keep.n[m->v[i].kind];
    out_room(s, n);
    n = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct template_part *p = &m->v[i];

        if (p->kind != PART_SPECIAL) {
            if (o->tokens)
                put_tokens(t, s, n, p->kind == PART_B, first[p->kind], keep.n[p->kind]);
            n = put_text(s, n, p->kind == PART_B, p->type, first[p->kind], keep.n[p->kind]);
        } else if (!o->no_specials) {
            n = put_special(t, s, n, p, o->tokens);
        }
    }
    if (t->types_zero)
        memset(s->types, 0, n);
    out->ids = s->ids;
    out->types = s->types;
    out->special = s->special;
    out->sequence = s->sequence;
    out->offsets = s->offsets;
    out->tokens = o->tokens ? s->texts : NULL;
    out->count = n;
    out->truncated = keep.n[0] + keep.n[1] + added < all;
    return RC_OK;
}
