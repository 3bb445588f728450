/* SPDX-License-Identifier: MIT */
/* inflate: a block's codes become one table indexed by the next bits of the input, as
 * many as the longest code has: one look-up a symbol.
 *
 *     entry: symbol << 4 | length of its code; 0: no code begins so
 *
 * Output goes into a buffer twice the window long; when it is full its first half is
 * written out and the second moves down, so that a distance always reaches back far
 * enough. */
#include "base/codec/inflate.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    CODE_BITS_MAX = 15,
    WINDOW = 32768,
    LITERALS_MAX = 288, /* symbols of a literal/length code */
    DISTANCES_MAX = 32,
    IN_BYTES = 16384
};

struct code {
    uint16_t table[1 << CODE_BITS_MAX];
    int bits; /* of the longest code; 0: no code at all */
};

struct state {
    const struct inflate_io *io;
    struct err *err;
    uint64_t hold; /* bits not used yet, lowest first */
    int held;
    uint8_t in[IN_BYTES];
    size_t in_at, in_len;
    bool ended;              /* the input has no more */
    uint8_t out[2 * WINDOW]; /* out[0..have) */
    size_t have, flushed;    /* out[0..flushed) is written */
    uint64_t total;
    struct code literals, distances, lengths;
};

static enum rc broken(struct state *s, const char *why)
{
    return err_set(s->err, RC_PARSE, "compressed data: %s", why);
}

/* --- input --- */
/* Holds at least `n` (at most 48) bits, or all there are. */
static enum rc fill(struct state *s, int n)
{
    while (s->held < n && !s->ended) {
        if (s->in_at == s->in_len) {
            enum rc rc = s->io->read(s->io->arg, s->in, sizeof(s->in), &s->in_len, s->err);

            if (rc)
                return rc;
            s->in_at = 0;
            s->ended = s->in_len == 0;
            continue;
        }
        s->hold |= (uint64_t)s->in[s->in_at++] << s->held;
        s->held += 8;
    }
    return RC_OK;
}

static enum rc bits(struct state *s, int n, uint32_t *out)
{
    enum rc rc = fill(s, n);

    if (rc)
        return rc;
    if (s->held < n)
        return broken(s, "it ends too early");
    *out = (uint32_t)(s->hold & ((1ull << n) - 1));
    s->hold >>= n;
    s->held -= n;
    return RC_OK;
}

static enum rc symbol(struct state *s, const struct code *c, uint32_t *out)
{
    enum rc rc = fill(s, CODE_BITS_MAX);
    uint16_t e = c->table[s->hold & ((1u << c->bits) - 1)];

    if (rc)
        return rc;
    if (!e)
        return broken(s, "a code that stands for nothing");
    if (s->held < (e & 15))
        return broken(s, "it ends too early");
    s->hold >>= e & 15;
    s->held -= e & 15;
    *out = e >> 4;
    return RC_OK;
}

/* --- output --- */
static enum rc flush(struct state *s, size_t upto)
{
    enum rc rc = RC_OK;

    if (upto > s->flushed)
        rc = s->io->write(s->io->arg, s->out + s->flushed, upto - s->flushed, s->err);
    s->flushed = upto;
    return rc;
}

static enum rc put(struct state *s, uint8_t byte)
{
    if (s->total == s->io->max)
        return err_set(s->err, RC_LIMIT, "compressed data: more than %llu bytes come out",
                       (unsigned long long)s->io->max);
    if (s->have == sizeof(s->out)) {
        enum rc rc = flush(s, s->have);

        if (rc)
            return rc;
        memcpy(s->out, s->out + WINDOW, WINDOW);
        s->have = s->flushed = WINDOW;
    }
    s->out[s->have++] = byte;
    s->total++;
    return RC_OK;
}

static enum rc copy(struct state *s, size_t distance, size_t length)
{
    enum rc rc = RC_OK;

    if (distance > s->total || distance > WINDOW)
        return broken(s, "a distance before the beginning");
    for (; length && !rc; length--) {
        /* put() may move the window: the distance is what stays true */
        uint8_t byte = s->out[s->have - distance];

        rc = put(s, byte);
    }
    return rc;
}

/* --- codes --- */
static uint32_t reversed(uint32_t code, int len)
{
    uint32_t r = 0;

    for (int i = 0; i < len; i++)
        r |= (code >> i & 1u) << (len - 1 - i);
    return r;
}

/* The table of a code with these lengths.  Like everybody, we take an incomplete code only
 * when it is a single one of one bit. */
static enum rc code_build(struct state *s, struct code *c, const uint8_t *lens, size_t n)
{
    uint32_t count[CODE_BITS_MAX + 1] = { 0 }, next[CODE_BITS_MAX + 2] = { 0 };
    uint32_t space = 1u << CODE_BITS_MAX, used = 0, codes = 0;

    c->bits = 0;
    for (size_t i = 0; i < n; i++)
        count[lens[i]]++;
    for (int len = 1; len <= CODE_BITS_MAX; len++) {
        used += count[len] << (CODE_BITS_MAX - len);
        codes += count[len];
        next[len + 1] = (next[len] + count[len]) << 1;
        c->bits = count[len] ? len : c->bits;
    }
    if (used > space || (used < space && codes && !(codes == 1 && count[1] == 1)))
        return broken(s, "code lengths that make no code");
    memset(c->table, 0, sizeof(c->table[0]) << c->bits);
    for (size_t i = 0; i < n; i++) {
        uint32_t len = lens[i];

        for (uint32_t at = len ? reversed(next[len]++, (int)len) : 1u << c->bits;
             at < 1u << c->bits; at += 1u << len)
            c->table[at] = (uint16_t)(i << 4 | len);
    }
    return RC_OK;
}

static enum rc codes_fixed(struct state *s)
{
    uint8_t lens[LITERALS_MAX];
    enum rc rc;

    memset(lens, 8, 144);
    memset(lens + 144, 9, 112);
    memset(lens + 256, 7, 24);
    memset(lens + 280, 8, 8);
    rc = code_build(s, &s->literals, lens, LITERALS_MAX);
    memset(lens, 5, DISTANCES_MAX);
    return rc ? rc : code_build(s, &s->distances, lens, DISTANCES_MAX);
}

/* One symbol of the code of code lengths: a length, or a run of one. */
static enum rc length_run(struct state *s, uint8_t *lens, size_t *at, size_t n)
{
    static const struct {
        int bits, base;
    } runs[] = { { 2, 3 }, { 3, 3 }, { 7, 11 } };
    uint32_t sym = 0, more = 0;
    enum rc rc = symbol(s, &s->lengths, &sym);

    if (rc)
        return rc;
    if (sym < 16) {
        lens[(*at)++] = (uint8_t)sym;
        return RC_OK;
    }
    if (sym == 16 && !*at)
        return broken(s, "a repeat of nothing");
    rc = bits(s, runs[sym - 16].bits, &more);
    if (rc)
        return rc;
    more += (uint32_t)runs[sym - 16].base;
    if (more > n - *at)
        return broken(s, "more code lengths than codes");
    memset(lens + *at, sym == 16 ? lens[*at - 1] : 0, more);
    *at += more;
    return RC_OK;
}

static enum rc codes_dynamic(struct state *s)
{
    static const uint8_t order[19] = { 16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                       11, 4,  12, 3, 13, 2, 14, 1, 15 };
    uint8_t lens[LITERALS_MAX + DISTANCES_MAX] = { 0 }, short_lens[19] = { 0 };
    uint32_t nlit = 0, ndist = 0, nlen = 0, v = 0;
    size_t at = 0;
    enum rc rc = bits(s, 5, &nlit);

    if (!rc)
        rc = bits(s, 5, &ndist);
    if (!rc)
        rc = bits(s, 4, &nlen);
    nlit += 257;
    ndist += 1;
    if (!rc && (nlit > 286 || ndist > 30))
        rc = broken(s, "more codes than there are");
    for (uint32_t i = 0; i < nlen + 4 && !rc; i++) {
        rc = bits(s, 3, &v);
        if (!rc)
            short_lens[order[i]] = (uint8_t)v;
    }
    if (!rc)
        rc = code_build(s, &s->lengths, short_lens, 19);
    while (!rc && at < nlit + ndist)
        rc = length_run(s, lens, &at, nlit + ndist);
    if (!rc && !lens[256])
        rc = broken(s, "a block without an end");
    if (!rc)
        rc = code_build(s, &s->literals, lens, nlit);
    return rc ? rc : code_build(s, &s->distances, lens + nlit, ndist);
}

/* --- blocks --- */
static const uint16_t length_base[29] = { 3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                          15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                          67, 83, 99, 115, 131, 163, 195, 227, 258 };
static const uint8_t length_bits[29] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                         2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0 };
static const uint16_t dist_base[30] = { 1,    2,    3,    4,     5,     7,    9,    13,
                                        17,   25,   33,   49,    65,    97,   129,  193,
                                        257,  385,  513,  769,   1025,  1537, 2049, 3073,
                                        4097, 6145, 8193, 12289, 16385, 24577 };
static const uint8_t dist_bits[30] = { 0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                       6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13 };

static enum rc match(struct state *s, uint32_t sym)
{
    uint32_t more = 0, far = 0, dist = 0;
    enum rc rc;

    if (sym > 285)
        return broken(s, "a length that does not exist");
    sym -= 257;
    rc = bits(s, length_bits[sym], &more);
    if (!rc)
        rc = symbol(s, &s->distances, &dist);
    if (!rc && dist > 29)
        rc = broken(s, "a distance that does not exist");
    if (!rc)
        rc = bits(s, dist_bits[dist], &far);
    return rc ? rc : copy(s, dist_base[dist] + far, length_base[sym] + more);
}

static enum rc block_coded(struct state *s)
{
    for (;;) {
        uint32_t sym = 0;
        enum rc rc = symbol(s, &s->literals, &sym);

        if (rc)
            return rc;
        if (sym == 256)
            return RC_OK;
        rc = sym < 256 ? put(s, (uint8_t)sym) : match(s, sym);
        if (rc)
            return rc;
    }
}

static enum rc block_stored(struct state *s)
{
    uint32_t drop = 0, len = 0, check = 0, byte = 0;
    enum rc rc = bits(s, s->held & 7, &drop);

    if (!rc)
        rc = bits(s, 16, &len);
    if (!rc)
        rc = bits(s, 16, &check);
    if (!rc && (len ^ check) != 0xffffu)
        rc = broken(s, "a stored block whose length is wrong");
    for (uint32_t i = 0; !rc && i < len; i++) {
        rc = bits(s, 8, &byte);
        if (!rc)
            rc = put(s, (uint8_t)byte);
    }
    return rc;
}

static enum rc block(struct state *s, bool *last)
{
    uint32_t final = 0, kind = 0;
    enum rc rc = bits(s, 1, &final);

    if (!rc)
        rc = bits(s, 2, &kind);
    if (rc)
        return rc;
    *last = final;
    if (kind == 0)
        return block_stored(s);
    if (kind == 3)
        return broken(s, "a block of no known kind");
    rc = kind == 1 ? codes_fixed(s) : codes_dynamic(s);
    return rc ? rc : block_coded(s);
}

enum rc inflate(const struct inflate_io *io, uint64_t *out_bytes, struct err *err)
{
    struct state *s = xcalloc(1, sizeof(*s));
    bool last = false;
    enum rc rc = RC_OK;

    s->io = io;
    s->err = err;
    while (!rc && !last)
        rc = block(s, &last);
    if (!rc)
        rc = flush(s, s->have);
    if (!rc)
        *out_bytes = s->total;
    if (!rc && io->out_unused)
        *io->out_unused = (size_t)s->held / 8 + s->in_len - s->in_at;
    free(s);
    return rc;
}
