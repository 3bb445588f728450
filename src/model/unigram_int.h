/* SPDX-License-Identifier: MIT */
/* unigram_int: the prefix trie of the Unigram model, for unigram.c alone.
 *
 * A double array over bytes.  The child of a node for byte c is units[base ^ c], and it
 * is one when its label is c; bases are therefore never shared.  Block 0 stays empty and
 * is the base of nodes without children, so that a walk needs no other test.  Below a node
 * that only one piece passes there are no more nodes: its `base` is a place in `tails`,
 * where the rest of the piece stands behind its length (two bytes, low first). */
#ifndef MODEL_UNIGRAM_INT_H
#define MODEL_UNIGRAM_INT_H
#include "model/unigram.h"

#include <string.h>

enum {
    TRIE_LABEL_SHIFT = 23, /* below it: leaf number + 1, 0 for none */
    TRIE_VALUE_MASK = (1 << TRIE_LABEL_SHIFT) - 1,
    TRIE_UNITS_MAX = 64 << 20, /* 512 MiB */
    TRIE_TAILS_MAX = 1 << 30,
    TRIE_TAIL_HEAD = 2 /* bytes of a tail's length */
};
#define TRIE_TAIL (UINT32_C(1) << 31) /* in `base`: the rest is a place in `tails` */
_Static_assert((int)UNIGRAM_PIECES_MAX <= (int)TRIE_VALUE_MASK, "a leaf number must fit");

struct trie_unit {
    uint32_t base;
    uint32_t label_value; /* label << TRIE_LABEL_SHIFT | leaf + 1 */
};

struct trie {
    struct trie_unit *units; /* owned */
    size_t count;            /* a multiple of 256 */
    uint32_t root;           /* base of the root */
    unsigned char *tails;    /* owned */
    size_t tails_len, tails_cap;
    uint32_t *ids; /* owned: piece of each leaf; leaves near in the trie are near here */
    size_t leaf_count;
};

/* Of equal pieces the last one counts; empty ones are left out. */
enum rc trie_build(const struct unigram_piece *pieces, size_t count, struct trie *out,
                   struct err *err) MUST_USE;
void trie_release(struct trie *t);

/* The end of a tail; -1 when the text goes another way. */
static inline int32_t trie_tail(const struct trie *t, struct trie_unit u, const char *text,
                                size_t len, size_t *at)
{
    const unsigned char *tail = t->tails + (u.base & ~TRIE_TAIL);
    size_t n = tail[0] | (size_t)tail[1] << 8;

    if (len - *at < n || memcmp(tail + TRIE_TAIL_HEAD, text + *at, n) != 0)
        return -1;
    *at += n;
    return (int32_t)(u.label_value & TRIE_VALUE_MASK);
}

/* Goes down from `*base` along text[*at, len), *at < len, and moves both: the leaf + 1, 0
 * when no piece ends there, or -1 when no piece goes on this way. */
static inline int32_t trie_step(const struct trie *t, uint32_t *base, const char *text, size_t len,
                                size_t *at)
{
    unsigned char c = (unsigned char)text[*at];
    struct trie_unit u = t->units[*base ^ c];

    if (u.label_value >> TRIE_LABEL_SHIFT != c)
        return -1;
    ++*at;
    if (u.base & TRIE_TAIL) {
        *base = 0;
        return trie_tail(t, u, text, len, at);
    }
    *base = u.base;
    return (int32_t)(u.label_value & TRIE_VALUE_MASK);
}

#endif
