/* SPDX-License-Identifier: MIT */
/* unigram: the most probable pieces of a pre-token, as the reference library finds them.
 *
 * Viterbi from left to right over byte positions.  What must be the same to the bit:
 *   1. scores are doubles, added one piece at a time from the left;
 *   2. a path replaces another to the same position only when strictly better, so the one
 *      with the earliest last start wins a tie;
 *   3. where no piece is exactly the one character, an unknown edge over it scores ten
 *      below the least score of the whole vocabulary, control pieces included;
 *   4. neighbours that ended as the unknown piece become one token, which is looked up as
 *      a whole, then as bytes if the model has byte pieces, then is unknown.
 *
 * Pre-tokens repeat, so each scratch remembers the short ones it has seen: one slot of a
 * cache line each, replaced by whatever comes later to the same slot. */
#include "model/unigram.h"

#include "base/mem.h"
#include "model/unigram_int.h"

#include <assert.h>
#include <math.h>

enum { NO_ID = -1, BYTE_PIECES = 256 };
static const double UNK_PENALTY = 10.0;

struct unigram {
    struct trie trie;
    double *scores; /* owned: of each leaf */
    double unk_score;
    uint32_t unk_id;
    int32_t byte_ids[BYTE_PIECES]; /* NO_ID: the vocabulary lacks it; all, without fallback */
    uint64_t stamp;                /* of the contents: what a scratch remembers is for it */
};

/* ---- scratch ---- */
enum { MEMO_SLOTS = 1 << 14, MEMO_KEY_MAX = 27, MEMO_TOKENS_MAX = 6 };

struct memo { /* 64 bytes: the tokens of one short pre-token */
    uint32_t hash;
    uint8_t len; /* of the key; 0: empty slot */
    uint8_t count;
    uint8_t ends[MEMO_TOKENS_MAX];
    char key[MEMO_KEY_MAX + 1];
    uint32_t ids[MEMO_TOKENS_MAX];
};
_Static_assert(sizeof(struct memo) == 64, "a slot is a cache line");

struct best { /* the best path that ends at a byte */
    double score;
    uint32_t start; /* of its last piece; NOWHERE: none ends here */
    uint32_t leaf;  /* leaf + 1; 0: the unknown edge */
};
static const uint32_t NOWHERE = UINT32_MAX;

struct unigram_scratch {
    struct best *best; /* one a byte, and the end */
    struct unigram_token *tokens;
    size_t cap; /* bytes of text that both hold */
    struct memo *memo;
    uint64_t stamp; /* of the model that `memo` is about */
};

struct unigram_scratch *unigram_scratch_new(void)
{
    struct unigram_scratch *s = xcalloc(1, sizeof(*s));

    s->memo = xcalloc(MEMO_SLOTS, sizeof(*s->memo));
    return s;
}

void unigram_scratch_free(struct unigram_scratch *s)
{
    if (!s)
        return;
    free(s->best);
    free(s->tokens);
    free(s->memo);
    free(s);
}

static void scratch_reserve(struct unigram_scratch *s, size_t len)
{
    if (len <= s->cap && s->best)
        return;
    s->cap = len < 256 ? 256 : len + len / 4;
    free(s->best);
    free(s->tokens);
    s->best = xreallocarray(NULL, s->cap + 1, sizeof(*s->best));
    s->tokens = xreallocarray(NULL, s->cap + 1, sizeof(*s->tokens));
}

/* ---- building ---- */
static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static uint64_t stamp_make(const struct unigram *u)
{
    uint64_t h = mix(mix(u->trie.count, u->unk_id), (uint64_t)u->byte_ids['a']), v;

    for (size_t i = 0; i < u->trie.count; i++) {
        memcpy(&v, &u->trie.units[i], sizeof(v));
        h = mix(h, v);
    }
    for (size_t i = 0; i + sizeof(v) <= u->trie.tails_len; i += sizeof(v)) {
        memcpy(&v, u->trie.tails + i, sizeof(v));
        h = mix(h, v);
    }
    for (size_t i = u->trie.tails_len & ~(sizeof(v) - 1); i < u->trie.tails_len; i++)
        h = mix(h, u->trie.tails[i]);
    for (size_t i = 0; i < u->trie.leaf_count; i++) {
        memcpy(&v, &u->scores[i], sizeof(v));
        h = mix(h, v ^ u->trie.ids[i]);
    }
    memcpy(&v, &u->unk_score, sizeof(v));
    return mix(h, v) | 1; /* 0 is the scratch that knows no model */
}

/* The leaf + 1 that is exactly this text, or 0. */
static uint32_t piece_find(const struct unigram *u, const char *text, size_t len)
{
    uint32_t base = u->trie.root;
    int32_t leaf = 0;

    for (size_t at = 0; at < len;) {
        leaf = trie_step(&u->trie, &base, text, len, &at);
        if (leaf < 0)
            return 0;
    }
    return (uint32_t)leaf;
}

static void byte_ids_find(struct unigram *u, bool byte_fallback)
{
    char name[8];

    for (unsigned b = 0; b < BYTE_PIECES; b++) {
        int n = snprintf(name, sizeof(name), "<0x%02X>", b);
        uint32_t leaf = byte_fallback ? piece_find(u, name, (size_t)n) : 0;
        u->byte_ids[b] = leaf ? (int32_t)u->trie.ids[leaf - 1] : NO_ID;
    }
}

static enum rc pieces_check(const struct unigram_piece *pieces, size_t count, uint32_t unk_id,
                            double *min_score, struct err *err)
{
    if (count == 0)
        return err_set(err, RC_PARSE, "the vocabulary is empty");
    if (count > UNIGRAM_PIECES_MAX)
        return err_set(err, RC_LIMIT, "the vocabulary has %zu pieces, the limit is %d", count,
                       UNIGRAM_PIECES_MAX);
    if (unk_id >= count)
        return err_set(err, RC_PARSE, "'unk_id' is %u, but there are %zu pieces", unk_id, count);
    *min_score = INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(pieces[i].score))
            return err_set(err, RC_PARSE, "the score of piece %zu is not a finite number", i);
        if (pieces[i].score < *min_score)
            *min_score = pieces[i].score;
    }
    return RC_OK;
}

enum rc unigram_new(const struct unigram_piece *pieces, size_t count, uint32_t unk_id,
                    bool byte_fallback, struct unigram **out, struct err *err)
{
    struct unigram *u;
    double min_score = 0;
    enum rc rc = pieces_check(pieces, count, unk_id, &min_score, err);

    if (rc)
        return rc;
    u = xcalloc(1, sizeof(*u));
    rc = trie_build(pieces, count, &u->trie, err);
    if (rc) {
        unigram_free(u);
        return rc;
    }
    u->unk_id = unk_id;
    u->unk_score = min_score - UNK_PENALTY;
    u->scores = xcalloc(u->trie.leaf_count + 1, sizeof(*u->scores));
    for (size_t i = 0; i < u->trie.leaf_count; i++)
        u->scores[i] = pieces[u->trie.ids[i]].score;
    byte_ids_find(u, byte_fallback);
    u->stamp = stamp_make(u);
    *out = u;
    return RC_OK;
}

void unigram_free(struct unigram *u)
{
    if (!u)
        return;
    trie_release(&u->trie);
    free(u->scores);
    free(u);
}

/* ---- encoding ---- */

/* Bytes of the character that `lead` begins; bytes that begin none count as one. */
static size_t char_bytes(unsigned char lead, size_t left)
{
    size_t n = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;

    return n < left ? n : left;
}

static void path_offer(struct best *b, double score, size_t start, uint32_t leaf)
{
    if (b->start != NOWHERE && score <= b->score)
        return;
    b->score = score;
    b->start = (uint32_t)start;
    b->leaf = leaf;
}

static void viterbi(const struct unigram *u, struct best *best, const char *text, size_t len)
{
    for (size_t i = 0; i <= len; i++)
        best[i].start = NOWHERE;
    best[0].score = 0;
    for (size_t start = 0, chars; start < len; start += chars) {
        double here = best[start].score;
        uint32_t base = u->trie.root;
        bool single = false;

        chars = char_bytes((unsigned char)text[start], len - start);
        for (size_t i = start; i < len;) {
            int32_t leaf = trie_step(&u->trie, &base, text, len, &i);
            if (leaf < 0)
                break;
            if (leaf == 0)
                continue;
            path_offer(&best[i], u->scores[leaf - 1] + here, start, (uint32_t)leaf);
            single |= i - start == chars;
        }
        if (!single)
            path_offer(&best[start + chars], u->unk_score + here, start, 0);
    }
}

/* Writes the tokens of [begin, end), which ended as unknown, backwards. */
static size_t unknown_tokens(const struct unigram *u, const char *text, uint32_t begin,
                             uint32_t end, struct unigram_token *out)
{
    uint32_t leaf = piece_find(u, text + begin, end - begin);
    bool bytes = true;

    if (leaf) {
        out[0] = (struct unigram_token){ u->trie.ids[leaf - 1], begin, end };
        return 1;
    }
    for (uint32_t i = begin; bytes && i < end; i++)
        bytes = u->byte_ids[(unsigned char)text[i]] != NO_ID;
    if (!bytes) {
        out[0] = (struct unigram_token){ u->unk_id, begin, end };
        return 1;
    }
    for (uint32_t i = 0; i < end - begin; i++)
        out[i] = (struct unigram_token){ (uint32_t)u->byte_ids[(unsigned char)text[end - 1 - i]],
                                         begin, end };
    return end - begin;
}

static size_t backtrack(const struct unigram *u, const struct best *best, const char *text,
                        size_t len, struct unigram_token *out)
{
    size_t n = 0;
    uint32_t end = (uint32_t)len;

    while (end > 0) {
        uint32_t begin = best[end].start, leaf = best[end].leaf;
        uint32_t id = leaf ? u->trie.ids[leaf - 1] : u->unk_id;
        if (id != u->unk_id) {
            out[n++] = (struct unigram_token){ id, begin, end };
            end = begin;
            continue;
        }
        while (begin > 0) { /* what stands before it and is unknown too */
            leaf = best[begin].leaf;
            if (leaf && u->trie.ids[leaf - 1] != u->unk_id)
                break;
            begin = best[begin].start;
        }
        n += unknown_tokens(u, text, begin, end, out + n);
        end = begin;
    }
    for (size_t i = 0; i < n / 2; i++) {
        struct unigram_token t = out[i];
        out[i] = out[n - 1 - i];
        out[n - 1 - i] = t;
    }
    return n;
}

/* ---- remembering ---- */
static uint32_t memo_hash(const char *text, size_t len)
{
    uint64_t h = len, v;

    for (; len >= 8; text += 8, len -= 8) {
        memcpy(&v, text, 8);
        h = mix(h, v);
    }
    v = 0;
    memcpy(&v, text, len);
    h = mix(h, v);
    return (uint32_t)(h >> 32 ^ h);
}

static size_t memo_read(const struct memo *m, struct unigram_token *out)
{
    uint32_t begin = 0;

    for (size_t i = 0; i < m->count; i++) {
        out[i] = (struct unigram_token){ m->ids[i], begin, m->ends[i] };
        begin = m->ends[i];
    }
    return m->count;
}

/* Byte pieces share their offsets, which a slot cannot say: those are not remembered. */
static void memo_write(struct memo *m, uint32_t hash, const char *text, size_t len,
                       const struct unigram_token *tokens, size_t count)
{
    uint32_t begin = 0;

    if (count > MEMO_TOKENS_MAX)
        return;
    for (size_t i = 0; i < count; i++) {
        if (tokens[i].begin != begin)
            return;
        begin = tokens[i].end;
    }
    m->hash = hash;
    m->len = (uint8_t)len;
    m->count = (uint8_t)count;
    memcpy(m->key, text, len);
    for (size_t i = 0; i < count; i++) {
        m->ids[i] = tokens[i].id;
        m->ends[i] = (uint8_t)tokens[i].end;
    }
}

size_t unigram_encode(const struct unigram *u, struct unigram_scratch *s, const char *text,
                      size_t len, const struct unigram_token **out)
{
    struct memo *m = NULL;
    uint32_t hash = 0;
    size_t n;

    assert(len < UNIGRAM_TEXT_MAX);
    scratch_reserve(s, len);
    *out = s->tokens;
    if (len == 0)
        return 0;
    if (s->stamp != u->stamp) {
        memset(s->memo, 0, MEMO_SLOTS * sizeof(*s->memo));
        s->stamp = u->stamp;
    }
    if (len <= MEMO_KEY_MAX) {
        hash = memo_hash(text, len);
        m = &s->memo[hash % MEMO_SLOTS];
        if (m->hash == hash && m->len == len && memcmp(m->key, text, len) == 0)
            return memo_read(m, s->tokens);
    }
    viterbi(u, s->best, text, len);
    n = backtrack(u, s->best, text, len, s->tokens);
    if (m)
        memo_write(m, hash, text, len, s->tokens, n);
    return n;
}
