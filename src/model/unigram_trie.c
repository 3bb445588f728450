/* SPDX-License-Identifier: MIT */
/* unigram_trie: builds the double array of a vocabulary in some tens of milliseconds.
 *
 * Pieces are sorted eight bytes at a time (radix for large groups), then the trie is laid
 * out depth first, so that a node stands near its parent.  Nodes with one child fill the
 * first free units; the others fit themselves into the newest blocks or open another.
 * Most pieces part from all others before their end, and most nodes would stand there:
 * tails save them. */
#include "base/mem.h"
#include "model/unigram_int.h"

#include <assert.h>

enum {
    BLOCK = 256,
    SINGLE_TRIES = 8, /* free units that a node with one child looks at */
    NEW_BLOCKS = 2,   /* the newest blocks, in which all others look */
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

/* A few keys that share `depth` bytes, by all that follows. */
static void sort_few(struct key *k, size_t n, size_t depth)
{
    for (size_t i = 1; i < n; i++) {
        struct key x = k[i];
        size_t j = i;
        for (; j > 0; j--) {
            size_t shorter = k[j - 1].len < x.len ? k[j - 1].len : x.len;
            int c = memcmp(k[j - 1].text + depth, x.text + depth, shorter - depth);
            if (c < 0 || (c == 0 && k[j - 1].len <= x.len))
                break;
            k[j] = k[j - 1];
        }
        k[j] = x;
    }
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
        if (j - i <= INSERT_MAX) {
            sort_few(k + i, j - i, depth);
            continue;
        }
        size_t ended = sort_ended(k + i, spare, j - i, depth);
        if (j - i - ended > 1)
            sort_keys(k + i + ended, spare, j - i - ended, depth + 8);
    }
}

/* Copies the texts in their order: laying out goes through them again and again. */
static unsigned char *keys_gather(struct key *k, size_t n)
{
    enum { AHEAD = 8 }; /* texts on their way: in this order they are all over the place */
    unsigned char *all, *p;
    size_t size = 0;

    for (size_t i = 0; i < n; i++)
        size += k[i].len;
    p = all = xmalloc(size);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            __builtin_prefetch(k[i + AHEAD].text);
        memcpy(p, k[i].text, k[i].len);
        k[i].text = p;
        p += k[i].len;
    }
    return all;
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

/* Bit x of `out` is set when unit x ^ c of the block is free: words change places, then
 * groups of 1, 2, 4 … 32 bits in them. */
static void block_xor(const uint64_t used[BLOCK / 64], unsigned c, uint64_t out[BLOCK / 64])
{
    static const uint64_t low[6] = { UINT64_C(0x5555555555555555), UINT64_C(0x3333333333333333),
                                     UINT64_C(0x0F0F0F0F0F0F0F0F), UINT64_C(0x00FF00FF00FF00FF),
                                     UINT64_C(0x0000FFFF0000FFFF), UINT64_C(0x00000000FFFFFFFF) };

    for (unsigned w = 0; w < BLOCK / 64; w++)
        out[w] = ~used[w ^ c >> 6];
    for (unsigned i = 0; i < 6; i++) {
        if (!(c >> i & 1))
            continue;
        for (unsigned w = 0; w < BLOCK / 64; w++)
            out[w] = (out[w] & low[i]) << (1u << i) | (out[w] >> (1u << i) & low[i]);
    }
}

/* A base in the block such that all labels fall on free units; 0 when there is none.  All
 * 256 are tried at once, a bit each. */
static size_t block_fit(const struct layout *l, size_t block, const unsigned char *labels, size_t n)
{
    const uint64_t *used = l->used + block / 64, *taken = l->base_used + block / 64;
    uint64_t fit[BLOCK / 64], open[BLOCK / 64], any = 1;

    for (size_t w = 0; w < ARRAY_SIZE(fit); w++)
        fit[w] = ~taken[w];
    for (size_t i = 0; i < n && any; i++) {
        any = 0;
        block_xor(used, labels[i], open);
        for (size_t w = 0; w < ARRAY_SIZE(fit); w++) {
            fit[w] &= open[w];
            any |= fit[w];
        }
    }
    for (size_t w = 0; w < ARRAY_SIZE(fit); w++) {
        if (fit[w])
            return block + w * 64 + (size_t)__builtin_ctzll(fit[w]);
    }
    return 0;
}

/* The first free unit whose base for the one label is nobody's; 0 when there is none. */
static size_t single_fit(struct layout *l, unsigned char label)
{
    size_t at = free_from(l, l->first_free);

    l->first_free = at;
    for (int tries = 0; at < l->t->count && tries < SINGLE_TRIES; tries++) {
        if (!bit_get(l->base_used, at ^ label))
            return at ^ label;
        at = free_from(l, at + 1);
    }
    return 0;
}

/* A base for these labels; 0 at the limit of units. */
static uint32_t base_find(struct layout *l, const unsigned char *labels, size_t n)
{
    size_t base = n == 1 ? single_fit(l, labels[0]) : 0, newest = l->t->count;

    for (int i = 1; !base && i <= NEW_BLOCKS && newest > (size_t)i * BLOCK; i++)
        base = block_fit(l, newest - (size_t)i * BLOCK, labels, n);
    if (base)
        return (uint32_t)base;
    if (!block_add(l))
        return 0;
    return (uint32_t)newest; /* the new block: nothing is taken */
}

static void stack_push(struct layout *l, struct range r)
{
    VEC_GROW(l->stack, l->depth, l->stack_cap);
    l->stack[l->depth++] = r;
}

static void leaf_add(struct trie *t, uint32_t unit, uint32_t piece)
{
    t->ids[t->leaf_count++] = piece;
    t->units[unit].label_value |= (uint32_t)t->leaf_count;
}

/* Writes what is left of the only piece below `unit`; false at the limit. */
static bool tail_add(struct trie *t, uint32_t unit, const struct key *k, size_t depth)
{
    size_t n = k->len - depth;

    if (n > 0) {
        if (t->tails_len + TRIE_TAIL_HEAD + n > TRIE_TAILS_MAX)
            return false;
        if (t->tails_len + TRIE_TAIL_HEAD + n > t->tails_cap) {
            t->tails_cap = t->tails_cap * 2 + TRIE_TAIL_HEAD + n;
            t->tails = xreallocarray(t->tails, t->tails_cap, 1);
        }
        unsigned char *p = t->tails + t->tails_len;
        p[0] = n & 255;
        p[1] = (unsigned char)(n >> 8);
        memcpy(p + TRIE_TAIL_HEAD, k->text + depth, n);
        t->units[unit].base = TRIE_TAIL | (uint32_t)t->tails_len;
        t->tails_len += TRIE_TAIL_HEAD + n;
    }
    leaf_add(t, unit, k->piece);
    return true;
}

/* The pieces that end at this node are its first keys; gives the key behind them. */
static uint32_t leaf_set(struct layout *l, const struct range *r)
{
    uint32_t i = r->begin;

    while (i < r->end && l->keys[i].len == r->depth)
        i++;
    if (i > r->begin) /* of equal ones the last; never the root: no piece is empty */
        leaf_add(l->t, r->unit, l->keys[i - 1].piece);
    return i;
}

/* The first key of [i, end) whose byte at `depth` is not that of key i: looked for in
 * growing steps, so that a large group costs few looks. */
static uint32_t group_end(const struct key *keys, uint32_t i, uint32_t end, uint32_t depth)
{
    unsigned char c = keys[i].text[depth];
    uint32_t step = 1, low = i; /* key `low` is in the group */

    if (keys[end - 1].text[depth] == c)
        return end;
    while (step < end - low && keys[low + step].text[depth] == c) {
        low += step;
        step *= 2;
    }
    uint32_t high = step < end - low ? low + step : end; /* and `high` is not */
    while (high - low > 1) {
        uint32_t mid = low + (high - low) / 2;
        if (keys[mid].text[depth] == c)
            low = mid;
        else
            high = mid;
    }
    return high;
}

static bool node_place(struct layout *l, const struct range *r)
{
    unsigned char labels[256];
    uint32_t begins[257], n = 0, i = leaf_set(l, r);

    while (i < r->end) {
        labels[n] = l->keys[i].text[r->depth];
        begins[n++] = i;
        i = group_end(l->keys, i, r->end, r->depth);
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
    for (uint32_t k = 0; k < n; k++) {
        uint32_t unit = base ^ labels[k], depth = r->depth + 1;
        bit_set(l->used, unit);
        l->t->units[unit].label_value = (uint32_t)labels[k] << TRIE_LABEL_SHIFT;
        if (begins[k + 1] - begins[k] > 1)
            stack_push(l, (struct range){ begins[k], begins[k + 1], depth, unit });
        else if (!tail_add(l->t, unit, &l->keys[begins[k]], depth))
            return false;
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
    l->first_free = BLOCK;
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
    unsigned char *text = NULL;
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
    text = keys_gather(keys, n);
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
    free(text);
    free(spare);
    free(keys);
    return rc;
}

void trie_release(struct trie *t)
{
    free(t->units);
    free(t->tails);
    free(t->ids);
    *t = (struct trie){ 0 };
}
