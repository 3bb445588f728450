/* SPDX-License-Identifier: MIT */
/* unigram_int: the prefix trie of the Unigram model, for unigram.c alone.
 *
 * A double array over bytes.  The child of a node for byte c is units[base ^ c], and it
 * is one when its label is c; bases are therefore never shared.  Block 0 stays empty and
 * is the base of nodes without children, so that a walk needs no other test. */
#ifndef MODEL_UNIGRAM_INT_H
#define MODEL_UNIGRAM_INT_H
#include "model/unigram.h"

enum {
    TRIE_LABEL_SHIFT = 23, /* below it: leaf number + 1, 0 for none */
    TRIE_VALUE_MASK = (1 << TRIE_LABEL_SHIFT) - 1,
    TRIE_UNITS_MAX = 64 << 20 /* 512 MiB */
};
_Static_assert((int)UNIGRAM_PIECES_MAX <= (int)TRIE_VALUE_MASK, "a leaf number must fit");

struct trie_unit {
    uint32_t base;
    uint32_t label_value; /* label << TRIE_LABEL_SHIFT | leaf + 1 */
};

struct trie {
    struct trie_unit *units; /* owned */
    size_t count;            /* a multiple of 256 */
    uint32_t root;           /* base of the root */
    uint32_t *ids;           /* owned: piece of each leaf; leaves are in byte order */
    size_t leaf_count;
};

/* Of equal pieces the last one counts; empty ones are left out. */
enum rc trie_build(const struct unigram_piece *pieces, size_t count, struct trie *out,
                   struct err *err) MUST_USE;
void trie_release(struct trie *t);

/* One step down from `*base`: the leaf + 1 (0: no piece ends here) or -1: no such child. */
static inline int32_t trie_step(const struct trie *t, uint32_t *base, unsigned char c)
{
    struct trie_unit u = t->units[*base ^ c];

    if (u.label_value >> TRIE_LABEL_SHIFT != c)
        return -1;
    *base = u.base;
    return (int32_t)(u.label_value & TRIE_VALUE_MASK);
}

#endif
