/* SPDX-License-Identifier: MIT */
/* wordpiece: greedy longest match over a vocabulary.
 *
 * Two open-addressing tables: pieces that may begin a word (all of them, by their whole
 * text) and pieces that may continue one (by the text behind the prefix, "##").  The hash
 * goes byte by byte, so that one pass over a word gives it for every prefix; the prefixes
 * are then tried from the longest a piece can be.  The set of lengths of the pieces that
 * begin with the same two bytes leaves out most of the tries. */
#include "base/mem.h"
#include "model/tokenizer/tokenizer_int.h"

#include <assert.h>

enum {
    LENGTHS = 64, /* lengths from the last bit on share it */
    PAIRS = 4096
};

struct wordpiece_side {
    struct vocab_table table;
    size_t longest;
    uint64_t lengths[PAIRS]; /* bit min(len, 63), by the first two bytes */
    bool alone[256];         /* a byte that is a piece */
};

struct wordpiece {
    struct wordpiece_side first, next;
    const struct vocab *vocab; /* borrowed */
    size_t max_chars;
    uint32_t unk;
};

static inline uint64_t mix_hash(uint64_t h)
{
    return h ^ h >> 29;
}

static uint64_t hash_of(const char *s, size_t len)
{
    uint64_t h = WORDPIECE_SEED;

    for (size_t i = 0; i < len; i++)
        h = wordpiece_step(h, (unsigned char)s[i]);
    return h;
}

static inline unsigned pair_of(const char *s)
{
    return ((unsigned char)s[0] * 67u + (unsigned char)s[1]) % PAIRS;
}

/* The piece with this text, or NULL. */
static inline const struct vocab_entry *find_piece(const struct wordpiece *w,
                                                   const struct wordpiece_side *d, const char *s,
                                                   size_t len, uint64_t hash)
{
    return vocab_find(w->vocab, &d->table, mix_hash(hash), s, len);
}

static inline unsigned length_bit(size_t len)
{
    return len < LENGTHS - 1 ? (unsigned)len : LENGTHS - 1;
}

static void put_piece(struct vocab_fill *f, struct wordpiece_side *d, const struct vocab_entry *e,
                      uint32_t unit)
{
    const char *text = e->text + d->table.skip;
    size_t len = e->len - d->table.skip;

    if (!len)
        return; /* no word is empty */
    vocab_fill_add(f, mix_hash(hash_of(text, len)), unit);
    if (len > d->longest)
        d->longest = len;
    if (len == 1)
        d->alone[(unsigned char)text[0]] = true;
    else
        d->lengths[pair_of(text)] |= UINT64_C(1) << length_bit(len);
}

static bool continues_word(const struct vocab_entry *e, const char *prefix, size_t prefix_len)
{
    return e->len > prefix_len && vocab_same(e->text, prefix, prefix_len);
}

struct wordpiece *wordpiece_new(const struct vocab *v, const char *prefix, size_t max_chars)
{
    struct wordpiece *w = xcalloc(1, sizeof(*w));
    struct vocab_fill first = { .t = &w->first.table, .v = v };
    struct vocab_fill next = { .t = &w->next.table, .v = v };
    size_t count = 0, prefix_len = strlen(prefix);
    const struct vocab_entry *e;

    w->vocab = v;
    w->max_chars = max_chars;
    for (uint32_t i = 0; i < v->size; i++)
        count += (e = vocab_get(v, i)) && continues_word(e, prefix, prefix_len);
    vocab_table_init(&w->first.table, v->count, 0);
    vocab_table_init(&w->next.table, count, (uint32_t)prefix_len);
    for (uint32_t i = 0; i < v->size; i++) {
        e = vocab_get(v, i);
        if (!e)
            continue;
        put_piece(&first, &w->first, e, v->at[i]);
        if (continues_word(e, prefix, prefix_len))
            put_piece(&next, &w->next, e, v->at[i]);
    }
    bool fair = vocab_fill_end(&first);
    if (!vocab_fill_end(&next) || !fair) {
        wordpiece_free(w);
        return NULL;
    }
    return w;
}

void wordpiece_free(struct wordpiece *w)
{
    if (!w)
        return;
    vocab_table_release(&w->first.table);
    vocab_table_release(&w->next.table);
    free(w);
}

void wordpiece_set_unk(struct wordpiece *w, uint32_t id)
{
    w->unk = id;
}

size_t wordpiece_max_chars(const struct wordpiece *w)
{
    return w->max_chars;
}

bool wordpiece_whole(const struct wordpiece *w, const char *s, size_t len, uint64_t hash,
                     uint32_t *out)
{
    const struct vocab_entry *e =
        len <= w->first.longest ? find_piece(w, &w->first, s, len, hash) : NULL;

    if (e)
        *out = e->id;
    return e;
}

bool wordpiece_find(const struct wordpiece *w, const char *s, size_t len, uint32_t *out)
{
    return len && wordpiece_whole(w, s, len, hash_of(s, len), out);
}

/* The longest piece at the start of s: its id and length; 0: none. */
static size_t longest_piece(const struct wordpiece *w, const struct wordpiece_side *d,
                            const char *s, size_t len, uint32_t *out)
{
    uint64_t hashes[TOK_PIECE_MAX + 1], lengths = len > 1 ? d->lengths[pair_of(s)] : 0;
    uint64_t h = WORDPIECE_SEED;
    size_t n = len < d->longest ? len : d->longest;

    lengths |= (uint64_t)d->alone[(unsigned char)s[0]] << 1;
    if (!lengths)
        return 0;
    if (!(lengths >> (LENGTHS - 1)) && n > (size_t)(LENGTHS - 1 - __builtin_clzll(lengths)))
        n = (size_t)(LENGTHS - 1 - __builtin_clzll(lengths));
    for (size_t i = 0; i < n; i++)
        hashes[i + 1] = h = wordpiece_step(h, (unsigned char)s[i]);
    for (; n; n--) {
        const struct vocab_entry *e;

        if (!(lengths >> length_bit(n) & 1))
            continue;
        e = find_piece(w, d, s, n, hashes[n]);
        if (!e)
            continue;
        *out = e->id;
        return n;
    }
    return 0;
}

static bool too_long(const struct wordpiece *w, const char *s, size_t len)
{
    size_t chars = 0;

    if (len <= w->max_chars)
        return false;
    for (size_t i = 0; i < len; i++)
        chars += ((unsigned char)s[i] & 0xc0) != 0x80;
    return chars > w->max_chars;
}

void wordpiece_encode(const struct wordpiece *w, const char *s, size_t len, struct tok_items *out)
{
    size_t start = out->n;

    assert(len && len <= UINT32_MAX);
    TOK_ROOM(out->v, out->n, out->cap, 1);
    for (size_t i = 0; i < len && !(i == 0 && too_long(w, s, len));) {
        uint32_t id;
        size_t n = longest_piece(w, i ? &w->next : &w->first, s + i, len - i, &id);

        if (!n)
            break;
        TOK_ROOM(out->v, out->n, out->cap, 2);
        out->v[out->n++] = (struct tok_item){ id, (uint32_t)i, (uint32_t)(i + n) };
        i += n;
        if (i == len)
            return;
    }
    out->n = start; /* the whole word is unknown */
    out->v[out->n++] = (struct tok_item){ w->unk, 0, (uint32_t)len };
}
