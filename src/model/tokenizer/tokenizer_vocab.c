/* SPDX-License-Identifier: MIT */
/* tokenizer_vocab: model.vocab, nearly all of a tokenizer.json, into its place.
 *
 * Both forms, {"piece": id, …} and [["piece", score], …], are read by hand as long as they
 * look as every writer writes them: no escapes, plain numbers.  Whatever else there is goes
 * through json_walk, which knows all of JSON and says what is wrong. */
#include "base/mem.h"
#include "base/str.h"
#include "base/text/utf8.h"
#include "model/tokenizer/tokenizer_int.h"

#include <math.h>

enum {
    NAME_SHOWN = 40,    /* bytes of a token in a message */
    NUMBER_MAX = 64,    /* bytes of a score as written */
    DIGITS_MAX = 19,    /* decimal digits that always fit 64 bits */
    EXPONENT_MAX = 308, /* of the largest power of ten a double holds */
    POWER_MAX = 10000   /* of an exponent as written; what is beyond 308 is 0 or refused */
};

struct vocab_text { /* what is left of the file */
    const char *p, *end;
};

/* ---- strings ---- */
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Bits 7 of the bytes that a string's copying must stop at: quote, backslash, control.  The
 * lowest set one is right, those above it may not be. */
static inline uint64_t stop_bytes(uint64_t w)
{
    uint64_t quote = w ^ EACH('"'), slash = w ^ EACH('\\');

    return ((quote - EACH(1)) & ~quote & EACH(0x80)) | ((slash - EACH(1)) & ~slash & EACH(0x80)) |
           ((w - EACH(0x20)) & ~w & EACH(0x80));
}

/* A string without escapes, at most `max` bytes, into a new entry; p moves behind its closing
 * quote.  NULL: it is another kind of string. */
ALWAYS_INLINE struct vocab_entry *plain_string(struct vocab_text *in, struct vocab *v, size_t max,
                                               size_t *len)
{
    struct vocab_entry *e = vocab_open(v, max + sizeof(uint64_t));
    const char *p = in->p + 1;
    uint64_t w, stop = 0, high = 0;
    size_t n = 0;

    if (in->p == in->end || *in->p != '"')
        return NULL;
    for (; n < max && (size_t)(in->end - p) >= n + sizeof(w); n += sizeof(w)) {
        memcpy(&w, p + n, sizeof(w));
        memcpy(e->text + n, &w, sizeof(w));
        stop = stop_bytes(w);
        if (stop) {
            unsigned bits = (unsigned)__builtin_ctzll(stop) & ~7u;
            high |= bits ? w << (64 - bits) : 0;
            n += bits / 8;
            break;
        }
        high |= w;
    }
    if (!stop || p[n] != '"' || n > max || (high & EACH(0x80) && !utf8_is_valid(e->text, n)))
        return NULL;
    in->p = p + n + 1;
    *len = n;
    return e;
}

static inline bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static inline void skip_space(struct vocab_text *in)
{
    while (in->p < in->end && (unsigned char)*in->p <= ' ' && is_space(*in->p))
        in->p++;
}

/* This byte, white space around it; there seldom is any. */
static inline bool take_byte(struct vocab_text *in, char c)
{
    if (in->p < in->end && *in->p != c)
        skip_space(in);
    if (in->p == in->end || *in->p != c)
        return false;
    in->p++;
    skip_space(in);
    return true;
}

/* ---- numbers ---- */
/* The reference's reader of numbers does not round to the nearest double but once for the
 * digits and once for the power of ten.  Scores that are off by the last bit decide ties
 * between paths, so ours must be off by the same. */
static bool ten_to(int exponent, double *out)
{
    char text[NUMBER_MAX];

    (void)snprintf(text, sizeof(text), "1e%d", exponent);
    return str_to_f64(text, out);
}

static bool scaled_score(uint64_t digits, int64_t exponent, double *out)
{
    double f = (double)digits, ten = 1;

    for (; exponent < -EXPONENT_MAX && f != 0; exponent += EXPONENT_MAX)
        f /= 1e308;
    if (f != 0 && (exponent > EXPONENT_MAX || !ten_to(abs((int)exponent), &ten)))
        return false;
    if (f != 0)
        f = exponent < 0 ? f / ten : f * ten;
    *out = f;
    return isfinite(f);
}

/* Digits that do not fit 64 bits count for nothing but their places. */
static const char *digits_add(const char *p, const char *end, uint64_t *digits, bool point,
                              int64_t *exponent)
{
    bool full = false;

    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        uint64_t more;

        full = full || __builtin_mul_overflow(*digits, (uint64_t)10, &more) ||
               __builtin_add_overflow(more, (uint64_t)(*p - '0'), &more);
        if (!full)
            *digits = more;
        *exponent += full ? !point : -(int64_t)point;
    }
    return p;
}

/* Any number of JSON, as json_walk took it. */
static bool any_number(const struct json *v, double *out)
{
    const char *p = v->text, *end = p + v->len;
    bool minus = v->len && *p == '-';
    uint64_t digits = 0;
    int64_t exponent = 0, power = 0;

    if (v->type != JSON_NUM || v->len >= NUMBER_MAX)
        return false;
    p = digits_add(p + minus, end, &digits, false, &exponent);
    if (p < end && *p == '.')
        p = digits_add(p + 1, end, &digits, true, &exponent);
    if (p < end) { /* an exponent; a length below NUMBER_MAX keeps it in bounds or not a number */
        char text[NUMBER_MAX];

        (void)snprintf(text, sizeof(text), "%.*s", (int)(end - p - 1), p + 1);
        if (!str_to_i64(text + (*text == '+'), 10, &power) || llabs(power) > POWER_MAX)
            return false;
    }
    if (!scaled_score(digits, exponent + power, out))
        return false;
    *out = minus ? -*out : *out;
    return true;
}

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The number that the first n of eight bytes are, each the value of a digit. */
static inline uint64_t digits_of(uint64_t w, size_t n)
{
    w = n ? w << (64 - 8 * n) : 0; /* zeros before them */
    w = w * 10 + (w >> 8);         /* pairs, then fours, then all */
    return ((w & UINT64_C(0xFF000000FF)) * UINT64_C(0xF424000000064) +
            (w >> 16 & UINT64_C(0xFF000000FF)) * UINT64_C(0x271000000001)) >>
           32;
}

/* Digits added behind those of *digits, up to another byte or 24 of them; gives their count.
 * Reads up to 32 bytes.  Eight digits are told by a branch, which is guessed right, so that what
 * comes behind a number need not wait for its length. */
static inline size_t digits_take(const char *p, uint64_t *digits)
{
    static const uint32_t tens[] = { 1, 10, 100, 1000, 10000, 100000, 1000000, 10000000 };
    size_t all = 0, n;
    uint64_t w, other;

    for (;; all += sizeof(w)) {
        memcpy(&w, p + all, sizeof(w));
        w ^= EACH('0');                              /* a digit is below 10 now, others are not */
        other = ((w + EACH(0x76)) | w) & EACH(0x80); /* right up to the first of them */
        if (other || all > DIGITS_MAX)
            break;
        *digits = *digits * 100000000 + digits_of(w, sizeof(w));
    }
    if (!other)
        return all;
    n = (size_t)__builtin_ctzll(other) / 8;
    *digits = *digits * tens[n] + digits_of(w, n);
    return all + n;
}

/* -12.3456: no exponent, few enough digits, and the file goes on behind it. */
ALWAYS_INLINE bool plain_number(struct vocab_text *in, double *out)
{
    static const double tens[DIGITS_MAX + 1] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,
                                                 1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
                                                 1e14, 1e15, 1e16, 1e17, 1e18, 1e19 };
    const char *p = in->p, *first;
    uint64_t digits = 0;
    size_t whole, places = 0;

    if (in->end - p < NUMBER_MAX)
        return false;
    first = p += *p == '-';
    for (; is_digit(*p) && p - first <= DIGITS_MAX; p++)
        digits = digits * 10 + (uint64_t)(*p - '0');
    whole = (size_t)(p - first);
    if (*p == '.') {
        places = digits_take(++p, &digits);
        if (!places)
            return false;
        p += places;
    }
    if (*p == 'e' || *p == 'E' || !whole || whole + places > DIGITS_MAX ||
        (whole > 1 && *first == '0'))
        return false;
    *out = (double)digits / tens[places];
    *out = *in->p == '-' ? -*out : *out;
    in->p = p;
    return true;
}

static bool any_id(const struct json *v, uint32_t *out)
{
    uint32_t id = 0;

    if (v->type != JSON_NUM || !v->len)
        return false;
    for (size_t i = 0; i < v->len; i++) {
        if (v->text[i] < '0' || v->text[i] > '9' || id >= TOK_ID_MAX)
            return false;
        id = id * 10 + (uint32_t)(v->text[i] - '0');
    }
    *out = id;
    return id < TOK_ID_MAX;
}

static enum rc vocab_full(struct err *err)
{
    return err_set(err, RC_LIMIT, "member 'model.vocab' has more than %d entries", TOK_VOCAB_MAX);
}

/* ---- {"piece": id} ---- */
/* One member and the comma behind it.  False, and nothing done: it is not plain. */
static bool plain_member(struct vocab_text *in, struct vocab *v)
{
    struct vocab_text at = *in;
    uint32_t id = 0;
    size_t len;
    struct vocab_entry *e = plain_string(&at, v, TOK_PIECE_MAX, &len);

    if (!e || !take_byte(&at, ':') || at.p == at.end || *at.p < '1' || *at.p > '9')
        return false;
    for (; at.p < at.end && *at.p >= '0' && *at.p <= '9' && id < TOK_ID_MAX; at.p++)
        id = id * 10 + (uint32_t)(*at.p - '0');
    if (id >= TOK_ID_MAX || !take_byte(&at, ',') || !vocab_close(v, e, len, id))
        return false;
    e->score = 0;
    *in = at;
    return true;
}

static enum rc any_member(struct vocab *v, const struct json *m, struct err *err)
{
    size_t len = strlen(m->key);
    struct vocab_entry *e;
    uint32_t id;

    if (!any_id(m, &id))
        return err_set(err, RC_PARSE, "member 'model.vocab': the id of '%.*s' is not one below %d",
                       NAME_SHOWN, m->key, TOK_ID_MAX);
    if (len > TOK_PIECE_MAX)
        return err_set(err, RC_LIMIT, "member 'model.vocab': '%.*s…' has more than %d bytes",
                       NAME_SHOWN, m->key, TOK_PIECE_MAX);
    e = vocab_open(v, len);
    memcpy(e->text, m->key, len);
    e->score = 0;
    if (!vocab_close(v, e, len, id))
        return err_set(err, RC_PARSE, "member 'model.vocab': '%.*s' and '%.*s' have the same id",
                       NAME_SHOWN, vocab_get(v, id)->text, NAME_SHOWN, m->key);
    return RC_OK;
}

/* ---- ["piece", score] ---- */
static bool plain_row(struct vocab_text *in, struct vocab *v)
{
    struct vocab_text at = *in;
    struct vocab_entry *e;
    double score;
    size_t len;

    if (!take_byte(&at, '[') || !(e = plain_string(&at, v, UNIGRAM_PIECE_BYTES_MAX, &len)) ||
        !take_byte(&at, ',') || !plain_number(&at, &score) || !take_byte(&at, ']') ||
        !take_byte(&at, ',') || !vocab_close(v, e, len, (uint32_t)v->count))
        return false;
    e->score = score;
    *in = at;
    return true;
}

static bool any_row(struct vocab *v, struct arena *a, struct json_walk *row)
{
    struct json text, number, rest;
    struct vocab_entry *e;
    double score;
    bool more;

    if (json_walk_next(row, a, &text, &more, NULL) || !more || text.type != JSON_STR ||
        json_walk_next(row, a, &number, &more, NULL) || !more || !any_number(&number, &score) ||
        json_walk_next(row, a, &rest, &more, NULL) || more || text.len > UNIGRAM_PIECE_BYTES_MAX)
        return false;
    e = vocab_open(v, text.len);
    memcpy(e->text, text.text, text.len);
    e->score = score;
    return vocab_close(v, e, text.len, (uint32_t)v->count);
}

static enum rc bad_row(size_t i, struct err *err)
{
    return err_set(err, RC_PARSE,
                   "member 'model.vocab[%zu]' is not [piece of at most %d bytes, score]", i,
                   UNIGRAM_PIECE_BYTES_MAX);
}

/* ---- elements ---- */
/* Plain elements up to one that is not; json_walk goes on there. */
static void plain_elements(struct vocab *v, struct json_walk *w)
{
    struct vocab_text in = { w->p, w->end };
    size_t before = v->count;

    if (w->begun && !take_byte(&in, ','))
        return;
    skip_space(&in);
    while (v->count < TOK_VOCAB_MAX && (w->object ? plain_member(&in, v) : plain_row(&in, v)))
        ;
    if (v->count == before)
        return;
    while (*--in.p != ',') /* json_walk wants to see the comma */
        ;
    w->p = in.p;
    w->begun = true;
}

static enum rc any_element(struct vocab *v, struct arena *a, struct json_walk *w, bool *more,
                           struct err *err)
{
    struct json_walk row;
    struct json m;

    if (w->object) {
        if (json_walk_next(w, a, &m, more, err))
            return err ? err->code : RC_PARSE;
        return *more ? any_member(v, &m, err) : RC_OK;
    }
    if (json_walk_enter(w, &row, more, NULL))
        return bad_row(v->count, err);
    if (!*more)
        return RC_OK;
    if (!any_row(v, a, &row))
        return bad_row(v->count, err);
    json_walk_leave(w, &row);
    return RC_OK;
}

enum rc tok_read_vocab(void *tokenizer, struct json_walk *w, struct err *err)
{
    struct tokenizer *t = tokenizer;
    struct arena escaped = { 0 };
    bool more = true;
    enum rc rc = RC_OK;

    if (t->vocab.units)
        return err_set(err, RC_PARSE, "member 'model.vocab' is there twice");
    vocab_reserve(&t->vocab, (size_t)(w->end - w->p));
    while (!rc && more) {
        plain_elements(&t->vocab, w);
        rc = any_element(&t->vocab, &escaped, w, &more, err);
        if (!rc && t->vocab.count > TOK_VOCAB_MAX)
            rc = vocab_full(err);
    }
    arena_release(&escaped);
    return rc;
}
