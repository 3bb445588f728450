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
 * Pieces are found by a hash of their characters that any stretch of the text gets from two
 * sums over it.  Which lengths are worth a look is known from the first two characters, and
 * from four on from these; bits for all pieces answer most of what is left.  A vocabulary is
 * larger than the caches, so the look-ups of several pre-tokens go through their steps
 * together: none waits alone.
 *
 * Pre-tokens repeat, so each scratch remembers the short ones it has seen: one slot of a
 * cache line each, replaced by whatever comes later to the same slot. */
#include "model/tokenizer/unigram_int.h"

#include "base/mem.h"
#include "model/tokenizer/vocab_int.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

enum { NO_ID = -1, BYTE_PIECES = 256 };
static const double UNK_PENALTY = 10.0;

enum {
    MASK_BITS = 14, /* of the number of `lengths` */
    FOUR_BITS = 20, /* of the number of bits in `fours` */
    FOUR = 4,
    SEEN_BITS = 21,                            /* of the number of bits in `seen` */
    LENGTHS = 64,                              /* lengths from the last bit on share it */
    GUESSES_MAX = 2 * UNIGRAM_PIECE_BYTES_MAX, /* look-ups on their way together */
    GROUP_MAX = 32                             /* and pre-tokens, */
};
enum { GROUP_BYTES = 256 }; /* which end with the one that has these bytes together */

struct unigram {
    const struct vocab *v;
    struct vocab copy;        /* what unigram_new() was given */
    struct vocab_table table; /* by text */
    uint64_t *lengths;        /* owned: bit min(characters, 63), by the first two of them */
    uint64_t *fours;          /* owned: a bit for the first four characters of longer pieces */
    uint64_t *seen;           /* owned: a bit for each piece */
    uint64_t *powers;         /* owned: of FACTOR, up to `longest` */
    size_t longest;           /* characters of a piece */
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

struct best { /* the best path that ends at a character */
    double score;
    uint32_t start; /* of its last piece; NOWHERE: none ends here */
    uint32_t unit;  /* of the piece in the vocabulary; 0: the unknown edge */
};
static const uint32_t NOWHERE = UINT32_MAX;

struct guess {    /* characters [start, start + n) may be a piece */
    uint64_t key; /* its hash; then the unit of the one it can be, 0 for none */
    uint32_t start;
    uint32_t n : 31, seen : 1;
};

struct unigram_part {  /* a pre-token on its way */
    struct memo *memo; /* where it may be remembered; NULL: too long */
    uint32_t hash;
    bool known;
    uint32_t first, last; /* its nodes, else; characters and the end */
    size_t tokens, count; /* where they are */
};

struct unigram_scratch {
    struct best *best; /* nodes: one a character, one for the end; so are the next two */
    uint64_t *sums;
    uint32_t *at; /* its byte */
    size_t cap;   /* nodes */
    struct guess *guesses;
    struct unigram_token *tokens;
    size_t tokens_cap;
    struct memo *memo;
    uint64_t stamp; /* of the model that `memo` is about */
};

struct unigram_scratch *unigram_scratch_new(void)
{
    struct unigram_scratch *s = xcalloc(1, sizeof(*s));

    s->memo = xcalloc(MEMO_SLOTS, sizeof(*s->memo));
    s->guesses = xcalloc(GUESSES_MAX, sizeof(*s->guesses));
    return s;
}

void unigram_scratch_free(struct unigram_scratch *s)
{
    if (!s)
        return;
    free(s->best);
    free(s->sums);
    free(s->at);
    free(s->tokens);
    free(s->memo);
    free(s->guesses);
    free(s);
}

static void nodes_reserve(struct unigram_scratch *s, size_t nodes)
{
    if (nodes <= s->cap)
        return;
    s->cap = nodes + nodes / 4;
    free(s->best);
    free(s->sums);
    free(s->at);
    s->best = xreallocarray(NULL, s->cap, sizeof(*s->best));
    s->sums = xreallocarray(NULL, s->cap, sizeof(*s->sums));
    s->at = xreallocarray(NULL, s->cap, sizeof(*s->at));
}

/* Room for so many tokens behind those that are there. */
static void tokens_reserve(struct unigram_scratch *s, size_t have, size_t more)
{
    if (have + more <= s->tokens_cap)
        return;
    s->tokens_cap = (have + more) * 5 / 4 + 64;
    s->tokens = xreallocarray(s->tokens, s->tokens_cap, sizeof(*s->tokens));
}

/* ---- hashing ---- */
#define FACTOR UINT64_C(0x9E3779B97F4A7C15)

static uint64_t mix_hash(uint64_t h, uint64_t v)
{
    h = (h ^ v) * FACTOR;
    return h ^ h >> 29;
}

/* Bytes of the character that `lead` begins; bytes that begin none count as one. */
static inline size_t char_bytes(unsigned char lead, size_t left)
{
    size_t n = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;

    return n < left ? n : left;
}

/* The sum behind one more character. */
static inline uint64_t sum_step(uint64_t sum, const char *p, size_t n)
{
    uint32_t c = (unsigned char)p[0];

    if (n > 1)
        c = c << 8 | (unsigned char)p[1];
    if (n > 2)
        c = c << 8 | (unsigned char)p[2];
    if (n > 3)
        c = c << 8 | (unsigned char)p[3];
    return sum * FACTOR + c + 1;
}

/* Of a sum over nothing but the characters wanted. */
static inline uint64_t hash_end(uint64_t sum)
{
    sum = (sum ^ sum >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return sum ^ sum >> 32;
}

static inline uint64_t hash_of(const struct unigram *u, const uint64_t *sums, size_t n)
{
    return hash_end(sums[n] - sums[0] * u->powers[n]);
}

static inline uint64_t bit_of(const uint64_t *set, int bits, uint64_t hash)
{
    hash >>= 64 - bits;
    return set[hash >> 6] >> (hash & 63) & 1;
}

static inline void bit_add(uint64_t *set, int bits, uint64_t hash)
{
    hash >>= 64 - bits;
    set[hash >> 6] |= UINT64_C(1) << (hash & 63);
}

/* ---- building ---- */
/* Adds a piece to the tables; gives its hash. */
static uint64_t piece_add(struct unigram *u, struct vocab_fill *f, const struct vocab_entry *e,
                          uint32_t unit)
{
    uint64_t sum = 0, hash, two = 0, four = 0;
    size_t chars = 0;

    for (size_t i = 0, n; i < e->len; i += n) {
        n = char_bytes((unsigned char)e->text[i], e->len - i);
        sum = sum_step(sum, e->text + i, n);
        if (++chars == 2)
            two = sum;
        else if (chars == FOUR)
            four = sum;
    }
    hash = hash_end(sum);
    if (chars) {
        vocab_fill_add(f, hash, unit);
        bit_add(u->seen, SEEN_BITS, hash);
    }
    if (chars > 1)
        u->lengths[hash_end(two) >> (64 - MASK_BITS)] |= UINT64_C(1)
                                                         << (chars < LENGTHS ? chars : LENGTHS - 1);
    if (chars >= FOUR)
        bit_add(u->fours, FOUR_BITS, hash_end(four));
    if (chars > u->longest)
        u->longest = chars;
    return hash;
}

static enum rc tables_fill(struct unigram *u, struct err *err)
{
    struct vocab_fill f = { .t = &u->table, .v = u->v };
    double least = INFINITY;
    uint64_t stamp = u->unk_id;

    vocab_table_init(&u->table, u->v->count, 0);
    u->lengths = xcalloc((size_t)1 << MASK_BITS, sizeof(*u->lengths));
    u->fours = xcalloc((size_t)1 << (FOUR_BITS - 6), sizeof(*u->fours));
    u->seen = xcalloc((size_t)1 << (SEEN_BITS - 6), sizeof(*u->seen));
    for (uint32_t i = 0; i < u->v->size; i++) {
        const struct vocab_entry *e = vocab_at(u->v, u->v->at[i]);
        uint64_t score;

        if (!isfinite(e->score))
            return err_set(err, RC_PARSE, "the score of piece %" PRIu32 " is not a finite number",
                           i);
        if (e->score < least)
            least = e->score;
        memcpy(&score, &e->score, sizeof(score));
        stamp = mix_hash(stamp, score + piece_add(u, &f, e, u->v->at[i]));
    }
    if (!vocab_fill_end(&f))
        return err_set(err, RC_LIMIT, "the vocabulary has too many pieces of the same hash");
    u->unk_score = least - UNK_PENALTY;
    u->stamp = stamp;
    u->powers = xcalloc(u->longest + 2, sizeof(*u->powers));
    u->powers[0] = 1;
    for (size_t i = 0; i <= u->longest; i++)
        u->powers[i + 1] = u->powers[i] * FACTOR;
    return RC_OK;
}

static const struct vocab_entry *piece_find(const struct unigram *u, const char *text, size_t len)
{
    uint64_t sum = 0;

    for (size_t i = 0, n; i < len; i += n) {
        n = char_bytes((unsigned char)text[i], len - i);
        sum = sum_step(sum, text + i, n);
    }
    sum = hash_end(sum);
    return bit_of(u->seen, SEEN_BITS, sum) ? vocab_find(u->v, &u->table, sum, text, len) : NULL;
}

bool unigram_find(const struct unigram *u, const char *text, size_t len, uint32_t *out)
{
    const struct vocab_entry *e = piece_find(u, text, len);

    if (e)
        *out = e->id;
    return e;
}

static void byte_ids_find(struct unigram *u, bool byte_fallback)
{
    char name[8];

    for (unsigned b = 0; b < BYTE_PIECES; b++) {
        int n = snprintf(name, sizeof(name), "<0x%02X>", b);
        const struct vocab_entry *e = byte_fallback ? piece_find(u, name, (size_t)n) : NULL;
        u->byte_ids[b] = e ? (int32_t)e->id : NO_ID;
    }
}

static enum rc build_model(struct unigram *u, uint32_t unk_id, bool byte_fallback, struct err *err)
{
    enum rc rc;

    if (u->v->count == 0)
        return err_set(err, RC_PARSE, "the vocabulary is empty");
    if (unk_id >= u->v->count)
        return err_set(err, RC_PARSE, "'unk_id' is %u, but there are %zu pieces", unk_id,
                       u->v->count);
    u->unk_id = unk_id;
    rc = tables_fill(u, err);
    if (rc)
        return rc;
    byte_ids_find(u, byte_fallback);
    u->stamp = mix_hash(u->stamp, (uint64_t)u->byte_ids['a']) | 1; /* 0: a scratch of no model */
    return RC_OK;
}

static enum rc finish_new(struct unigram *u, enum rc rc, struct unigram **out)
{
    if (rc)
        unigram_free(u);
    else
        *out = u;
    return rc;
}

enum rc unigram_of(const struct vocab *v, uint32_t unk_id, bool byte_fallback, struct unigram **out,
                   struct err *err)
{
    struct unigram *u = xcalloc(1, sizeof(*u));

    u->v = v;
    return finish_new(u, build_model(u, unk_id, byte_fallback, err), out);
}

static enum rc pieces_copy(struct vocab *v, const struct unigram_piece *pieces, size_t count,
                           struct err *err)
{
    if (count > UNIGRAM_PIECES_MAX)
        return err_set(err, RC_LIMIT, "the vocabulary has %zu pieces, the limit is %d", count,
                       UNIGRAM_PIECES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct vocab_entry *e;

        if (pieces[i].len > UNIGRAM_PIECE_BYTES_MAX)
            return err_set(err, RC_LIMIT, "piece %" PRIu32 " has %zu bytes, the limit is %d", i,
                           pieces[i].len, UNIGRAM_PIECE_BYTES_MAX);
        e = vocab_open(v, pieces[i].len);
        memcpy(e->text, pieces[i].text, pieces[i].len);
        e->score = pieces[i].score;
        if (!vocab_close(v, e, pieces[i].len, i))
            assert(!"ids are counted up");
    }
    return RC_OK;
}

enum rc unigram_new(const struct unigram_piece *pieces, size_t count, uint32_t unk_id,
                    bool byte_fallback, struct unigram **out, struct err *err)
{
    struct unigram *u = xcalloc(1, sizeof(*u));
    enum rc rc = pieces_copy(&u->copy, pieces, count, err);

    u->v = &u->copy;
    return finish_new(u, rc ? rc : build_model(u, unk_id, byte_fallback, err), out);
}

void unigram_free(struct unigram *u)
{
    if (!u)
        return;
    vocab_release(&u->copy);
    vocab_table_release(&u->table);
    free(u->lengths);
    free(u->fours);
    free(u->seen);
    free(u->powers);
    free(u);
}

/* ---- encoding ---- */
static void path_offer(struct best *b, double score, size_t start, uint32_t unit)
{
    if (b->start != NOWHERE && score <= b->score)
        return;
    b->score = score;
    b->start = (uint32_t)start;
    b->unit = unit;
}

/* The nodes of text [begin, end) from `n` on: where characters are, their sums, no path to
 * any but the first.  Gives the last. */
static uint32_t prepare_guesses(struct unigram_scratch *s, const char *text,
                                struct unigram_span span, uint32_t n)
{
    uint64_t sum = 0;

    s->best[n] = (struct best){ 0, 0, 0 };
    for (uint32_t i = span.begin, bytes; i < span.end; i += bytes) {
        bytes = (uint32_t)char_bytes((unsigned char)text[i], span.end - i);
        s->sums[n] = sum;
        s->at[n] = i;
        s->best[++n].start = NOWHERE;
        sum = sum_step(sum, text + i, bytes);
    }
    s->sums[n] = sum;
    s->at[n] = span.end;
    return n;
}

static inline struct guess *guess_add(const struct unigram *u, struct guess *out, size_t start,
                                      size_t n, uint64_t hash)
{
    *out = (struct guess){ hash, (uint32_t)start, (uint32_t)n & INT32_MAX,
                           (uint32_t)bit_of(u->seen, SEEN_BITS, hash) & 1 };
    vocab_prefetch(&u->table, hash);
    return out + 1;
}

/* What may be a piece from `start` on, the shortest first. */
static struct guess *guesses_from(const struct unigram *u, const uint64_t *sums, size_t start,
                                  size_t most, struct guess *out)
{
    uint64_t two, lengths;

    out = guess_add(u, out, start, 1, hash_of(u, sums, 1));
    if (most < 2)
        return out;
    two = hash_of(u, sums, 2);
    lengths = u->lengths[two >> (64 - MASK_BITS)];
    if (lengths >> 2 & 1)
        out = guess_add(u, out, start, 2, two);
    if (lengths >> 3 & 1 && most > 2)
        out = guess_add(u, out, start, 3, hash_of(u, sums, 3));
    lengths = lengths >> FOUR << FOUR;
    if (!lengths || most < FOUR || !bit_of(u->fours, FOUR_BITS, hash_of(u, sums, FOUR)))
        return out;
    for (; lengths; lengths &= lengths - 1) {
        size_t n = (size_t)__builtin_ctzll(lengths);
        if (n > most)
            break;
        out = guess_add(u, out, start, n, hash_of(u, sums, n));
        for (; n >= LENGTHS - 1 && n < most; n++)
            out = guess_add(u, out, start, n + 1, hash_of(u, sums, n + 1));
    }
    return out;
}

/* Offers what a guess found; false: nothing. */
static inline bool guess_offer(const struct unigram *u, struct unigram_scratch *s, const char *text,
                               const struct guess *t)
{
    const struct vocab_entry *e = vocab_at(u->v, (uint32_t)t->key);
    const char *p = text + s->at[t->start];
    size_t len = s->at[t->start + t->n] - s->at[t->start];

    if (!t->key)
        return false;
    if (e->len != len || !vocab_same(e->text, p, len))
        e = piece_find(u, p, len); /* two pieces with one tag */
    if (e)
        path_offer(&s->best[t->start + t->n], e->score + s->best[t->start].score, t->start,
                   vocab_unit(u->v, e));
    return e;
}

/* The last two steps of all guesses. */
static void guesses_end(const struct unigram *u, struct unigram_scratch *s, const char *text,
                        struct guess *end)
{
    struct guess *keep = s->guesses;

    for (const struct guess *t = s->guesses; t < end; t++) {
        bool stays = t->seen | (t->n == 1); /* a character is known or not: either counts */
        *keep = *t;
        keep += stays;
    }
    end = keep;
    for (struct guess *t = s->guesses; t < end; t++) {
        t->key = t->seen ? vocab_probe(&u->table, t->key) : 0;
        __builtin_prefetch(vocab_at(u->v, (uint32_t)t->key));
    }
    for (const struct guess *t = s->guesses; t < end; t++) {
        if (!guess_offer(u, s, text, t) && t->n == 1)
            path_offer(&s->best[t->start + 1], u->unk_score + s->best[t->start].score, t->start, 0);
    }
}

static void viterbi_parts(const struct unigram *u, struct unigram_scratch *s, const char *text,
                          const struct unigram_part *parts, size_t count)
{
    struct guess *end = s->guesses;

    for (const struct unigram_part *p = parts; p < parts + count; p++) {
        for (uint32_t at = p->first; at < p->last; at++) {
            size_t most = p->last - at < u->longest ? p->last - at : u->longest;
            if ((size_t)(end - s->guesses) + most >= GUESSES_MAX) {
                guesses_end(u, s, text, end);
                end = s->guesses;
            }
            end = guesses_from(u, s->sums + at, at, most, end);
        }
    }
    guesses_end(u, s, text, end);
}

/* Writes the tokens of [begin, end), which ended as unknown, backwards. */
static size_t unknown_tokens(const struct unigram *u, const char *text, uint32_t begin,
                             uint32_t end, struct unigram_token *out)
{
    const struct vocab_entry *e = piece_find(u, text + begin, end - begin);
    bool bytes = true;

    if (e) {
        out[0] = (struct unigram_token){ e->id, begin, end };
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

static uint32_t id_of(const struct unigram *u, const struct best *b)
{
    return b->unit ? vocab_at(u->v, b->unit)->id : u->unk_id;
}

static size_t backtrack_part(const struct unigram *u, const struct unigram_scratch *s,
                             const char *text, const struct unigram_part *p,
                             struct unigram_token *out)
{
    const struct best *best = s->best;
    size_t n = 0;
    uint32_t end = p->last;

    while (end > p->first) {
        uint32_t begin = best[end].start, id = id_of(u, &best[end]);

        assert(out); /* only a part without text has no place for tokens */
        if (id != u->unk_id) {
            out[n++] = (struct unigram_token){ id, s->at[begin], s->at[end] };
            end = begin;
            continue;
        }
        while (begin > p->first && id_of(u, &best[begin]) == u->unk_id) /* unknown too */
            begin = best[begin].start;
        n += unknown_tokens(u, text, s->at[begin], s->at[end], out + n);
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
        h = mix_hash(h, v);
    }
    v = 0;
    memcpy(&v, text, len);
    h = mix_hash(h, v);
    return (uint32_t)(h >> 32 ^ h);
}

static size_t memo_read(const struct memo *m, uint32_t at, struct unigram_token *out)
{
    uint32_t begin = at;

    for (size_t i = 0; i < m->count; i++) {
        out[i] = (struct unigram_token){ m->ids[i], begin, at + m->ends[i] };
        begin = at + m->ends[i];
    }
    return m->count;
}

/* Byte pieces share their offsets, which a slot cannot say: those are not remembered. */
static void memo_write(struct memo *m, uint32_t hash, const char *text, struct unigram_span span,
                       const struct unigram_token *tokens, size_t count)
{
    uint32_t begin = span.begin;

    if (count > MEMO_TOKENS_MAX)
        return;
    for (size_t i = 0; i < count; i++) {
        if (tokens[i].begin != begin)
            return;
        begin = tokens[i].end;
    }
    m->hash = hash;
    m->len = (uint8_t)(span.end - span.begin);
    m->count = (uint8_t)count;
    memcpy(m->key, text + span.begin, m->len);
    for (size_t i = 0; i < count; i++) {
        m->ids[i] = tokens[i].id;
        m->ends[i] = (uint8_t)(tokens[i].end - span.begin);
    }
}

/* ---- groups of pre-tokens ---- */
static void memo_look(struct unigram_scratch *s, const char *text, struct unigram_span span,
                      struct unigram_part *out)
{
    size_t len = span.end - span.begin;

    *out = (struct unigram_part){ 0 };
    if (len > MEMO_KEY_MAX)
        return;
    out->hash = memo_hash(text + span.begin, len);
    out->memo = &s->memo[out->hash % MEMO_SLOTS];
    __builtin_prefetch(out->memo);
}

/* Tokens of the pre-tokens behind the `n` that are there already; their number, all told. */
static size_t group_encode(const struct unigram *u, struct unigram_scratch *s, const char *text,
                           const struct unigram_span *spans, size_t count, size_t bytes, size_t n)
{
    struct unigram_part parts[GROUP_MAX];
    uint32_t node = 0;

    nodes_reserve(s, bytes + count);
    tokens_reserve(s, n, bytes);
    for (size_t i = 0; i < count; i++)
        memo_look(s, text, spans[i], &parts[i]);
    for (size_t i = 0; i < count; i++) {
        struct unigram_part *p = &parts[i];
        const struct memo *m = p->memo;
        size_t len = spans[i].end - spans[i].begin;

        p->known = m && m->hash == p->hash && m->len == len &&
                   vocab_same(m->key, text + spans[i].begin, len);
        p->first = node;
        p->last = p->known ? node : prepare_guesses(s, text, spans[i], node);
        node = p->last + 1;
    }
    viterbi_parts(u, s, text, parts, count);
    for (size_t i = 0; i < count; i++) {
        struct unigram_part *p = &parts[i];
        struct unigram_token *out = s->tokens ? s->tokens + n : NULL; /* no text, no tokens */

        p->tokens = n;
        p->count =
            p->known ? memo_read(p->memo, spans[i].begin, out) : backtrack_part(u, s, text, p, out);
        n += p->count;
    }
    for (const struct unigram_part *p = parts; p < parts + count; p++) { /* when all are read */
        if (p->memo && !p->known)
            memo_write(p->memo, p->hash, text, spans[p - parts], s->tokens + p->tokens, p->count);
    }
    return n;
}

size_t unigram_encode_all(const struct unigram *u, struct unigram_scratch *s, const char *text,
                          const struct unigram_span *spans, size_t count,
                          const struct unigram_token **out)
{
    size_t n = 0;

    if (s->stamp != u->stamp) {
        memset(s->memo, 0, MEMO_SLOTS * sizeof(*s->memo));
        s->stamp = u->stamp;
    }
    for (size_t i = 0, some; i < count; i += some) {
        size_t bytes = 0;
        for (some = 0; i + some < count && some < GROUP_MAX && bytes < GROUP_BYTES; some++)
            bytes += spans[i + some].end - spans[i + some].begin;
        n = group_encode(u, s, text, spans + i, some, bytes, n);
    }
    *out = s->tokens;
    return n;
}

size_t unigram_encode(const struct unigram *u, struct unigram_scratch *s, const char *text,
                      size_t len, const struct unigram_token **out)
{
    struct unigram_span all = { 0, (uint32_t)len };

    assert(len < UNIGRAM_TEXT_MAX);
    return unigram_encode_all(u, s, text, &all, 1, out);
}
