/* SPDX-License-Identifier: MIT */
/* vocab: the texts of a vocabulary, and a table that finds them by their hash.
 *
 * Entries stand one behind the other in units of eight bytes, so that a piece's id, score
 * and text share a cache line and a table needs four bytes to name one.  A table does not
 * own its entries and does not know the hash: whoever fills it and asks it makes the same
 * one. */
#ifndef MODEL_TOKENIZER_VOCAB_INT_H
#define MODEL_TOKENIZER_VOCAB_INT_H
#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct vocab_entry {
    double score; /* a Unigram's; 0 elsewhere */
    uint32_t id;
    uint32_t len;
    char text[]; /* NUL behind it */
};

enum { VOCAB_UNIT = sizeof(uint64_t), VOCAB_HEAD = sizeof(struct vocab_entry) / VOCAB_UNIT };

struct vocab {
    uint64_t *units;  /* owned; unit 0 is nobody's */
    size_t used, cap; /* units */
    uint32_t *at;     /* owned: the entry's unit by id, 0 for none */
    size_t at_cap;
    size_t size;  /* ids are below it */
    size_t count; /* entries */
};

void vocab_release(struct vocab *v);
/* The first call, if any: room for a vocabulary that takes so many bytes in a file.  More
 * is found later, less is not touched. */
void vocab_reserve(struct vocab *v, size_t bytes);
void vocab_grow(struct vocab *v, size_t units); /* vocab_open()'s: room for so many more */
void vocab_ids(struct vocab *v, uint32_t id);   /* vocab_close()'s: room for this one */

/* A new entry.  Text: room for `room` bytes and a NUL, which vocab_close() cuts to what was
 * written. */
static inline struct vocab_entry *vocab_open(struct vocab *v, size_t room)
{
    size_t need = VOCAB_HEAD + room / VOCAB_UNIT + 1;

    if (v->cap - v->used < need)
        vocab_grow(v, need);
    return (struct vocab_entry *)(void *)(v->units + v->used);
}

/* False, and nothing done: the id has an entry. */
static inline bool MUST_USE vocab_close(struct vocab *v, struct vocab_entry *e, size_t len,
                                        uint32_t id)
{
    if (id >= v->at_cap)
        vocab_ids(v, id);
    if (v->at[id])
        return false;
    v->at[id] = (uint32_t)v->used;
    e->id = id;
    e->len = (uint32_t)len;
    e->text[len] = '\0';
    v->used += VOCAB_HEAD + len / VOCAB_UNIT + 1;
    v->count++;
    if (id >= v->size)
        v->size = (size_t)id + 1;
    return true;
}

static inline const struct vocab_entry *vocab_at(const struct vocab *v, uint32_t unit)
{
    return (const struct vocab_entry *)(const void *)(v->units + unit);
}

static inline uint32_t vocab_unit(const struct vocab *v, const struct vocab_entry *e)
{
    return (uint32_t)((const uint64_t *)(const void *)e - v->units);
}

static inline const struct vocab_entry *vocab_get(const struct vocab *v, uint32_t id)
{
    return id < v->size && v->at[id] ? vocab_at(v, v->at[id]) : NULL;
}

/* ---- the table ---- */
enum { VOCAB_AHEAD = 16 }; /* entries whose slots are on their way into the cache */

struct vocab_slot {
    uint32_t tag;  /* upper half of the hash */
    uint32_t unit; /* 0: free */
};

struct vocab_table {
    struct vocab_slot *slots; /* owned */
    uint64_t mask;
    uint32_t skip; /* bytes of an entry's text before the ones that were hashed */
};

struct vocab_fill { /* filling a table */
    struct vocab_table *t;
    const struct vocab *v;
    struct {
        uint64_t hash;
        uint32_t unit;
    } queue[VOCAB_AHEAD];
    size_t n;
    bool crowded; /* a file made so that its hashes collide */
};

/* Room for `count` entries. */
void vocab_table_init(struct vocab_table *t, size_t count, uint32_t skip);
void vocab_table_release(struct vocab_table *t);
/* Of equal texts the last one counts. */
void vocab_fill_add(struct vocab_fill *f, uint64_t hash, uint32_t unit);
bool vocab_fill_end(struct vocab_fill *f) MUST_USE; /* false: crowded */

static inline bool vocab_same8(const char *a, const char *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x == y;
}

static inline bool vocab_same4(const char *a, const char *b)
{
    uint32_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x == y;
}

/* memcmp() for texts that are short and mostly equal: no call. */
static inline bool vocab_same(const char *a, const char *b, size_t len)
{
    if (len < 4)
        return !len || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
    if (len < 8)
        return vocab_same4(a, b) && vocab_same4(a + len - 4, b + len - 4);
    for (size_t i = 0; i + 8 < len; i += 8)
        if (!vocab_same8(a + i, b + i))
            return false;
    return vocab_same8(a + len - 8, b + len - 8);
}

/* Two steps of a look-up, for who wants to have many on their way: the slots, and the unit
 * of the first entry that has this hash's tag, 0 for none. */
static inline void vocab_prefetch(const struct vocab_table *t, uint64_t hash)
{
    __builtin_prefetch(&t->slots[hash & t->mask]);
}

static inline uint32_t vocab_probe(const struct vocab_table *t, uint64_t hash)
{
    uint64_t i = hash;

    while (t->slots[i & t->mask].unit && t->slots[i & t->mask].tag != (uint32_t)(hash >> 32))
        i++;
    return t->slots[i & t->mask].unit;
}

/* The entry with this text, or NULL. */
static inline const struct vocab_entry *vocab_find(const struct vocab *v,
                                                   const struct vocab_table *t, uint64_t hash,
                                                   const char *s, size_t len)
{
    for (uint64_t i = hash;; i++) {
        const struct vocab_slot *slot = &t->slots[i & t->mask];
        const struct vocab_entry *e;

        if (!slot->unit)
            return NULL;
        if (slot->tag != (uint32_t)(hash >> 32))
            continue;
        e = vocab_at(v, slot->unit);
        if (e->len - t->skip == len && vocab_same(e->text + t->skip, s, len))
            return e;
    }
}

#endif
