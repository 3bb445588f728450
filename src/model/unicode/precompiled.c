/* SPDX-License-Identifier: MIT */
/* precompiled: SentencePiece's compiled character map, read as the reference library does.
 *
 * The blob: a 32-bit little-endian size in bytes, a Darts double array of that size, and a
 * pool of NUL-terminated replacements.  A unit has its label in the low byte (with bit 31,
 * which only values have), bit 8 says that a value hangs below it, and its offset stands
 * from bit 10 on, eight bits further up when bit 9 is set.
 *
 * The library's reading has a flaw that has to be kept: it looks up a grapheme cluster
 * below six bytes as a whole, takes the SHORTEST prefix that the map knows, and replaces
 * the whole cluster, so the rest of it is lost.  Longer clusters, and those without any
 * hit, go character by character.
 *
 * Everything a look-up could step on is checked once when the blob is read; a walk is as
 * long as its key, so cycles in the array end too. */
#include "base/mem.h"
#include "base/text/utf8.h"
#include "model/tokenizer/unigram_int.h"
#include "model/unicode/unicode_tables_int.h"

enum {
    CLUSTER_BYTES_MAX = 5, /* longer clusters are never looked up as a whole */
    UNIT_LEAF = 1 << 8,
    UNIT_WIDE = 1 << 9,
    UNIT_OFFSET_SHIFT = 10
};
static const uint32_t UNIT_VALUE = UINT32_C(1) << 31;

struct precompiled {
    uint32_t *units; /* owned */
    size_t unit_count;
    char *pool; /* owned, NUL behind it */
    size_t pool_len;
    struct uni_set plain; /* what the map leaves as it is and joins none of them in a cluster */
    bool ascii[256];      /* the same, of single bytes */
};

static uint64_t unit_offset(uint32_t u)
{
    return (uint64_t)(u >> UNIT_OFFSET_SHIFT) << (u & UNIT_WIDE ? 8 : 0);
}

/* The replacement for the shortest prefix of `key` that the map knows, or NULL. */
static const char *map_find(const struct precompiled *p, const char *key, size_t len)
{
    size_t at = unit_offset(p->units[0]);

    for (size_t i = 0; i < len && key[i]; i++) {
        unsigned char c = (unsigned char)key[i];
        at ^= c;
        uint32_t u = p->units[at];
        if ((u & (UNIT_VALUE | 0xFF)) != c)
            return NULL;
        at ^= unit_offset(u);
        if (u & UNIT_LEAF)
            return p->pool + (p->units[at] & ~UNIT_VALUE);
    }
    return NULL;
}

/* ---- reading the blob ---- */
static bool starts_char(const struct precompiled *p, uint32_t at)
{
    return at == p->pool_len || (at < p->pool_len && ((unsigned char)p->pool[at] & 0xC0) != 0x80);
}

static enum rc units_check(const struct precompiled *p, struct err *err)
{
    for (size_t i = 0; i < p->unit_count; i++) {
        uint32_t u = p->units[i];
        if (i > 0 && u & UNIT_VALUE)
            continue; /* a value: its label matches no byte */
        uint64_t to = i ^ unit_offset(u);
        if ((to | 0xFF) >= p->unit_count)
            return err_set(err, RC_PARSE, "unit %zu of the character map leads outside it", i);
        if (u & UNIT_LEAF && !starts_char(p, p->units[to] & ~UNIT_VALUE))
            return err_set(err, RC_PARSE, "unit %zu of the character map has no replacement", i);
    }
    return RC_OK;
}

static enum rc pool_check(const struct precompiled *p, struct err *err)
{
    uint32_t c;

    for (size_t at = 0, n; at < p->pool_len; at += n) {
        n = utf8_decode(p->pool + at, p->pool_len - at, &c);
        if (n == 0)
            return err_set(err, RC_PARSE, "the character map's replacements are not UTF-8");
    }
    return RC_OK;
}

static uint32_t read_u32(const unsigned char *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static enum rc blob_check(const unsigned char *b, size_t len, size_t *units, struct err *err)
{
    if (len > PRECOMPILED_BYTES_MAX)
        return err_set(err, RC_LIMIT, "the character map has %zu bytes, the limit is %d", len,
                       PRECOMPILED_BYTES_MAX);
    if (len < 4)
        return err_set(err, RC_PARSE, "the character map is cut short");
    size_t size = read_u32(b);
    if (size > len - 4)
        return err_set(err, RC_PARSE, "the character map says %zu bytes of array and has %zu", size,
                       len - 4);
    if (size == 0 || size % 4 != 0)
        return err_set(err, RC_PARSE, "the character map has an array of %zu bytes", size);
    *units = size / 4;
    return RC_OK;
}

/* Between two of these a cluster ends always, so each of them is looked up by itself. */
static bool breaks_always(uint32_t c)
{
    enum uni_break b = (enum uni_break)(uni_kind(c) >> UNI_K_BREAK_SHIFT);

    return b == UNI_B_ANY || b == UNI_B_LV || b == UNI_B_LVT;
}

static void plain_find(struct precompiled *p)
{
    for (uint32_t c = 1; c < UNI_SET_END; c++) {
        char utf8[4] = "";
        size_t n = utf8_encode(c, utf8);

        if (breaks_always(c) && !map_find(p, utf8, n))
            uni_set_add(&p->plain, c);
    }
    for (uint32_t c = 0; c < 0x80; c++)
        p->ascii[c] = uni_set_has(&p->plain, c);
}

const struct uni_set *precompiled_plain(const struct precompiled *p)
{
    return &p->plain;
}

enum rc precompiled_new(const void *blob, size_t len, struct precompiled **out, struct err *err)
{
    const unsigned char *b = blob;
    struct precompiled *p;
    size_t units = 0;
    enum rc rc = blob_check(b, len, &units, err);

    if (rc)
        return rc;
    p = xcalloc(1, sizeof(*p));
    p->unit_count = units;
    p->units = xcalloc(units, sizeof(*p->units));
    for (size_t i = 0; i < units; i++)
        p->units[i] = read_u32(b + 4 + 4 * i);
    p->pool_len = len - 4 - 4 * units;
    p->pool = xstrndup((const char *)b + 4 + 4 * units, p->pool_len);
    rc = pool_check(p, err);
    if (!rc)
        rc = units_check(p, err);
    if (rc) {
        precompiled_free(p);
        return rc;
    }
    plain_find(p);
    *out = p;
    return RC_OK;
}

void precompiled_free(struct precompiled *p)
{
    if (!p)
        return;
    free(p->units);
    free(p->pool);
    free(p);
}

/* ---- applying it ---- */
struct map_sink {
    void (*emit)(void *arg, size_t src, size_t src_len, const char *text, size_t text_len);
    void *arg;
    const char *s;
    size_t kept; /* from here on nothing has been emitted: bytes that stay as they are */
};

static void sink_flush(struct map_sink *k, size_t at)
{
    if (at > k->kept)
        k->emit(k->arg, k->kept, at - k->kept, k->s + k->kept, at - k->kept);
}

/* Looks up s[at, at + n); true when it was replaced. */
static bool replace_prefix(const struct precompiled *p, struct map_sink *k, size_t at, size_t n)
{
    const char *text = map_find(p, k->s + at, n);

    if (!text)
        return false;
    sink_flush(k, at);
    k->emit(k->arg, at, n, text, strlen(text));
    k->kept = at + n;
    return true;
}

void precompiled_apply(const struct precompiled *p, const char *s, size_t len,
                       void (*emit)(void *arg, size_t src, size_t src_len, const char *text,
                                    size_t text_len),
                       void *arg)
{
    struct map_sink k = { .emit = emit, .arg = arg, .s = s };
    size_t at = 0;

    while (at < len) {
        while (at + 1 < len && p->ascii[(unsigned char)s[at]] && p->ascii[(unsigned char)s[at + 1]])
            at++;
        for (size_t m = uni_set_step(&p->plain, s + at, len - at), next; m; m = next) {
            next = uni_set_step(&p->plain, s + at + m, len - at - m);
            if (!next && at + m < len)
                break; /* it may join what follows */
            at += m;
        }
        if (at == len)
            break;
        size_t n = uni_grapheme(s + at, len - at), end = at + n;
        if (n <= CLUSTER_BYTES_MAX && replace_prefix(p, &k, at, n)) {
            at = end;
            continue;
        }
        for (size_t m; at < end; at += m) {
            uint32_t code;
            m = utf8_decode(s + at, end - at, &code);
            if (m == 0)
                m = 1;
            (void)replace_prefix(p, &k, at, m);
        }
    }
    sink_flush(&k, len);
}
