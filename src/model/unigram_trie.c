/* SPDX-License-Identifier: MIT */
/* unigram_trie: builds the double array of a vocabulary in some tens of milliseconds.
 *
 * Pieces are sorted eight bytes at a time (radix for large groups), then the trie is laid
 * out depth first, so that a node stands near its parent and leaves are numbered in byte
 * order.  Nodes with one child, nearly all, take the first free unit; the others try some
 * free units and then open a new block. */
#include "base/mem.h"
#include "model/unigram_int.h"

#include <assert.h>

enum {
    BLOCK = 256,
    FIT_TRIES = 48,   /* free units a node with several children looks at */
    RADIX_MIN = 1024, /* keys below which an insertion or merge sort is faster */
    INSERT_MAX = 16
};

static const uint32_t UNIT_EMPTY = UINT32_C(0x100) << TRIE_LABEL_SHIFT; /* no byte's label */

/* ---- sorting ---- */
struct key {
    uint64_t head; /* the eight bytes at the current depth, big-endian, 0 behind the end */
    const unsigned char *text;
    uint32_t len;
    uint32_t piece;
};

static uint64_t head_at(const unsigned char *text, size_t len, size_t depth)
{
    unsigned char b[8] = { 0 };
    uint64_t v;

    if (depth < len)
        memcpy(b, text + depth, len - depth < 8 ? len - depth : 8);
    memcpy(&v, b, 8);
    return __builtin_bswap64(v);
}

static bool key_after(const struct key *a, const struct key *b)
{
    return a->head > b->head;
}

static void sort_insert(struct key *k, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct key x = k[i];
        size_t j = i;
        for (; j > 0 && key_after(&k[j - 1], &x); j--)
            k[j] = k[j - 1];
        k[j] = x;
    }
}

static void sort_merge(struct key *k, struct key *spare, size_t n)
{
    for (size_t i = 0; i < n; i += INSERT_MAX)
        sort_insert(k + i, n - i < INSERT_MAX ? n - i : INSERT_MAX);
    for (size_t w = INSERT_MAX; w < n; w *= 2) {
        for (size_t lo = 0; lo + w < n; lo += 2 * w) {
            size_t mid = lo + w, hi = mid + w < n ? mid + w : n, a = 0, b = mid, o = lo;
            memcpy(spare, k + lo, w * sizeof(*k));
            while (a < w && b < hi)
                k[o++] = key_after(&spare[a], &k[b]) ? k[b++] : spare[a++];
            memcpy(k + o, spare + a, (w - a) * sizeof(*k));
        }
    }
}

static void sort_radix(struct key *k, struct key *spare, size_t n)
{
    static_assert(sizeof(k->head) == 8, "eight passes");
    uint32_t count[8][256] = { 0 };
    struct key *from = k, *to = spare;

    for (size_t i = 0; i < n; i++) {
        for (int b = 0; b < 8; b++)
            count[b][k[i].head >> (8 * b) & 255]++;
    }
    for (int b = 0; b < 8; b++) {
        uint32_t at = 0, *c = count[b];
        if (c[from[0].head >> (8 * b) & 255] == n)
            continue; /* all the same here */
        for (int v = 0; v < 256; v++) {
            uint32_t m = c[v];
            c[v] = at;
            at += m;
        }
        for (size_t i = 0; i < n; i++)
            to[c[from[i].head >> (8 * b) & 255]++] = from[i];
        struct key *t = from;
        from = to;
        to = t;
    }
    if (from != k)
        memcpy(k, from, n * sizeof(*k));
}

/* Of keys with the same head those that end within it go first, the shorter the earlier
 * (only NUL bytes make lengths differ there).  Gives the number that end. */
static size_t sort_ended(struct key *k, struct key *spare, size_t n, size_t depth)
{
    size_t start[10] = { 0 }; /* behind the head by 0 to 8 bytes; longer */

    for (size_t i = 0; i < n; i++) {
        spare[i] = k[i];
        start[k[i].len > depth + 8 ? 9 : k[i].len - depth]++;
    }
    size_t at = 0, ended = n - start[9];
    for (size_t b = 0; b < ARRAY_SIZE(start); b++) {
        size_t m = start[b];
        start[b] = at;
        at += m;
    }
    for (size_t i = 0; i < n; i++)
        k[start[spare[i].len > depth + 8 ? 9 : spare[i].len - depth]++] = spare[i];
    return ended;
}

/* Stable: equal pieces stay in the order of their ids.  All keys are longer than `depth`;
 * it is bounded by UNIGRAM_PIECE_BYTES_MAX. */
static void sort_keys(struct key *k, struct key *spare, size_t n, size_t depth)
{
    for (size_t i = 0; i < n; i++)
        k[i].head = head_at(k[i].text, k[i].len, depth);
    if (n >= RADIX_MIN)
        sort_radix(k, spare, n);
    else
        sort_merge(k, spare, n);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && k[j].head == k[i].head;)
            j++;
        if (j - i < 2)
            continue;
        size_t ended = sort_ended(k + i, spare, j - i, depth);
        if (j - i - ended > 1)
            sort_keys(k + i + ended, spare, j - i - ended, depth + 8);
    }
}

/* ---- laying out ---- */
struct range { /* keys [begin, end) share `depth` bytes and belong to the node `unit` */
    uint32_t begin, end, depth;
    uint32_t unit; /* UINT32_MAX: the root */
};

struct layout {
    struct trie *t;
    const struct key *keys;
    struct range *stack;
    size_t depth, stack_cap;
    uint64_t *used;      /* a bit a unit: taken */
    uint64_t *base_used; /* a bit a unit: some node's base */
    size_t cap;          /* units allocated */
    size_t first_free;   /* no unit below it is free */
    size_t fit_from;     /* where nodes with several children begin to look */
};

static bool bit_get(const uint64_t *bits, size_t i)
{
    return bits[i >> 6] >> (i & 63) & 1;
}

static void bit_set(uint64_t *bits, size_t i)
{
    bits[i >> 6] |= UINT64_C(1) << (i & 63);
}

/* Adds a block of free units; false at the limit. */
static bool block_add(struct layout *l)
{
    struct trie *t = l->t;

    if (t->count == l->cap) {
        size_t cap = l->cap * 2;
        if (l->cap >= TRIE_UNITS_MAX)
            return false;
        t->units = xreallocarray(t->units, cap, sizeof(*t->units));
        l->used = xreallocarray(l->used, cap / 64, sizeof(*l->used));
        l->base_used = xreallocarray(l->base_used, cap / 64, sizeof(*l->base_used));
        l->cap = cap;
    }
    for (size_t i = t->count; i < t->count + BLOCK; i++)
        t->units[i] = (struct trie_unit){ 0, UNIT_EMPTY };
    memset(l->used + t->count / 64, 0, BLOCK / 8);
    memset(l->base_used + t->count / 64, 0, BLOCK / 8);
    t->count += BLOCK;
    return true;
}

/* The first free unit at or behind `i`; t->count when there is none. */
static size_t free_from(const struct layout *l, size_t i)
{
    size_t words = l->t->count / 64, w = i / 64;

    if (w >= words)
        return l->t->count;
    uint64_t open = ~l->used[w] & (UINT64_MAX << (i & 63));
    while (!open) {
        if (++w == words)
            return l->t->count;
        open = ~l->used[w];
    }
    return w * 64 + (size_t)__builtin_ctzll(open);
}

static bool base_fits(const struct layout *l, size_t base, const unsigned char *labels, size_t n)
{
    if (bit_get(l->base_used, base))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (bit_get(l->used, base ^ labels[i]))
            return false;
    }
    return true;
}

/* A base for these labels; 0 at the limit of units. */
static uint32_t base_find(struct layout *l, const unsigned char *labels, size_t n)
{
    size_t at, tries = 0;

    l->first_free = free_from(l, l->first_free);
    at = n == 1 ? l->first_free : free_from(l, l->fit_from);
    for (; at < l->t->count && tries < FIT_TRIES; at = free_from(l, at + 1), tries++) {
        if (base_fits(l, at ^ labels[0], labels, n))
            return (uint32_t)(at ^ labels[0]);
    }
    if (n > 1 && tries == FIT_TRIES) /* too crowded there */
        l->fit_from = at;
    at = l->t->count;
    if (!block_add(l))
        return 0;
    return (uint32_t)(at ^ labels[0]); /* the new block: nothing is taken */
}

static void stack_push(struct layout *l, struct range r)
{
    VEC_GROW(l->stack, l->depth, l->stack_cap);
    l->stack[l->depth++] = r;
}

/* The pieces that end at this node are its first keys; gives the key behind them. */
static uint32_t leaf_set(struct layout *l, const struct range *r)
{
    uint32_t i = r->begin;

    while (i < r->end && l->keys[i].len == r->depth)
        i++;
    if (i > r->begin && r->unit != UINT32_MAX) {
        l->t->ids[l->t->leaf_count++] = l->keys[i - 1].piece;
        l->t->units[r->unit].label_value |= (uint32_t)l->t->leaf_count;
    }
    return i;
}

static bool node_place(struct layout *l, const struct range *r)
{
    unsigned char labels[256];
    uint32_t begins[257], n = 0, i = leaf_set(l, r);

    while (i < r->end) {
        unsigned char c = l->keys[i].text[r->depth];
        labels[n] = c;
        begins[n++] = i;
        while (i < r->end && l->keys[i].text[r->depth] == c)
            i++;
    }
    begins[n] = i;
    if (n == 0)
        return true;
    uint32_t base = base_find(l, labels, n);
    if (base == 0)
        return false;
    bit_set(l->base_used, base);
    if (r->unit == UINT32_MAX)
        l->t->root = base;
    else
        l->t->units[r->unit].base = base;
    for (uint32_t k = n; k-- > 0;) {
        uint32_t unit = base ^ labels[k];
        bit_set(l->used, unit);
        l->t->units[unit].label_value = (uint32_t)labels[k] << TRIE_LABEL_SHIFT;
        stack_push(l, (struct range){ begins[k], begins[k + 1], r->depth + 1, unit });
    }
    return true;
}

static bool layout_run(struct layout *l, size_t count)
{
    l->cap = BLOCK * 16;
    while (l->cap < count * 4)
        l->cap *= 2;
    l->t->units = xreallocarray(NULL, l->cap, sizeof(*l->t->units));
    l->used = xcalloc(l->cap / 64, sizeof(*l->used));
    l->base_used = xcalloc(l->cap / 64, sizeof(*l->base_used));
    (void)block_add(l); /* block 0: nobody's children */
    l->first_free = l->fit_from = BLOCK;
    memset(l->used, 0xFF, BLOCK / 8);
    stack_push(l, (struct range){ 0, (uint32_t)count, 0, UINT32_MAX });
    while (l->depth > 0) {
        struct range r = l->stack[--l->depth];
        if (!node_place(l, &r))
            return false;
    }
    return true;
}

/* Gives back what the array has too much. */
static void layout_trim(struct layout *l)
{
    struct trie *t = l->t;

    t->units = xreallocarray(t->units, t->count, sizeof(*t->units));
}

static enum rc keys_make(const struct unigram_piece *pieces, size_t count, struct key *keys,
                         size_t *out, struct err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        if (pieces[i].len > UNIGRAM_PIECE_BYTES_MAX)
            return err_set(err, RC_LIMIT, "piece %zu has %zu bytes, the limit is %d", i,
                           pieces[i].len, UNIGRAM_PIECE_BYTES_MAX);
        if (pieces[i].len > 0)
            keys[n++] = (struct key){ .text = (const unsigned char *)pieces[i].text,
                                      .len = (uint32_t)pieces[i].len,
                                      .piece = (uint32_t)i };
    }
    *out = n;
    return RC_OK;
}

enum rc trie_build(const struct unigram_piece *pieces, size_t count, struct trie *out,
                   struct err *err)
{
    struct key *keys, *spare;
    struct trie t = { 0 };
    struct layout l = { .t = &t };
    size_t n = 0;
    enum rc rc;

    assert(count > 0 && count <= UNIGRAM_PIECES_MAX);
    keys = xcalloc(count, sizeof(*keys));
    spare = xcalloc(count, sizeof(*spare));
    rc = keys_make(pieces, count, keys, &n, err);
    if (rc)
        goto out_free;
    sort_keys(keys, spare, n, 0);
    t.ids = xcalloc(count, sizeof(*t.ids));
    l.keys = keys;
    if (!layout_run(&l, n)) {
        rc = err_set(err, RC_LIMIT, "the vocabulary needs more than %d trie nodes", TRIE_UNITS_MAX);
        trie_release(&t);
        goto out_free;
    }
    layout_trim(&l);
    *out = t;

out_free:
    free(l.used);
    free(l.base_used);
    free(l.stack);
    free(spare);
    free(keys);
    return rc;
}

void trie_release(struct trie *t)
{
    free(t->units);
    free(t->ids);
    *t = (struct trie){ 0 };
}
