/* SPDX-License-Identifier: MIT */
/* gzip: see gzip.h. */
#include "base/codec/gzip.h"

#include "base/codec/inflate.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum {
    GZIP_MATCH_MIN = 4, /* three bytes rarely gain over three literals */
    GZIP_MATCH_MAX = 258,
    GZIP_BACK_MAX = 32768,
    GZIP_HASH_BITS = 15,
    GZIP_CHAIN = 12, /* places looked at for one match */
    GZIP_GOOD = 64   /* bytes of a match that is long enough to stop the search */
};

uint32_t gzip_crc32(uint32_t crc, const void *p, size_t len)
{
    const uint8_t *b = p;
    uint32_t table[256];

    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0xEDB88320u : c >> 1;
        table[i] = c;
    }
    crc = ~crc;
    for (size_t i = 0; i < len; i++)
        crc = table[(crc ^ b[i]) & 0xFF] ^ crc >> 8;
    return ~crc;
}

/* ---- bits, the lowest first */
struct bits {
    struct buf *out;
    uint64_t held;
    unsigned count;
};

static void put_bits(struct bits *w, uint32_t value, unsigned n)
{
    w->held |= (uint64_t)value << w->count;
    w->count += n;
    while (w->count >= 8) {
        buf_addc(w->out, (char)(w->held & 0xFF));
        w->held >>= 8;
        w->count -= 8;
    }
}

/* Codes go with their highest bit first. */
static void put_code(struct bits *w, uint32_t code, unsigned n)
{
    uint32_t turned = 0;

    for (unsigned i = 0; i < n; i++)
        turned |= (code >> i & 1) << (n - 1 - i);
    put_bits(w, turned, n);
}

/* The fixed code of a literal or a length's symbol (RFC 1951, 3.2.6). */
static void put_symbol(struct bits *w, unsigned s)
{
    if (s < 144)
        put_code(w, 0x30 + s, 8);
    else if (s < 256)
        put_code(w, 0x190 + s - 144, 9);
    else if (s < 280)
        put_code(w, s - 256, 7);
    else
        put_code(w, 0xC0 + s - 280, 8);
}

/* Symbol `first + i` begins at base[i] and has bits[i] more. */
static void put_match(struct bits *w, unsigned len, unsigned back)
{
    static const uint16_t lens[] = { 3,  4,  5,  6,   7,   8,   9,   10,  11, 13,
                                     15, 17, 19, 23,  27,  31,  35,  43,  51, 59,
                                     67, 83, 99, 115, 131, 163, 195, 227, 258 };
    static const uint16_t backs[] = {
        1,   2,   3,   4,   5,   7,    9,    13,   17,   25,   33,   49,   65,    97,    129,
        193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577
    };
    unsigned l = 28, d = 29, more;

    while (lens[l] > len)
        l--;
    while (backs[d] > back)
        d--;
    put_symbol(w, 257 + l);
    more = l < 8 || l == 28 ? 0 : (l - 4) / 4;
    put_bits(w, len - lens[l], more);
    put_code(w, d, 5);
    more = d < 4 ? 0 : (d - 2) / 2;
    put_bits(w, back - backs[d], more);
}

/* ---- matches */
struct finder {
    const uint8_t *p;
    size_t len;
    uint32_t *last;   /* by hash: place + 1; 0: none */
    uint32_t *before; /* by place in the window: the one before + 1 */
};

static uint32_t hash_at(const struct finder *f, size_t i)
{
    uint32_t v;

    memcpy(&v, f->p + i, sizeof(v));
    return v * 2654435761u >> (32 - GZIP_HASH_BITS);
}

static void note_place(struct finder *f, size_t i)
{
    uint32_t h;

    if (i + GZIP_MATCH_MIN > f->len)
        return;
    h = hash_at(f, i);
    f->before[i % GZIP_BACK_MAX] = f->last[h];
    f->last[h] = (uint32_t)i + 1;
}

static unsigned match_at(const struct finder *f, size_t i, unsigned *out_back)
{
    size_t most = f->len - i < GZIP_MATCH_MAX ? f->len - i : GZIP_MATCH_MAX, best = 0;
    uint32_t at;

    if (most < GZIP_MATCH_MIN)
        return 0;
    at = f->last[hash_at(f, i)];
    for (int tries = 0; at && tries < GZIP_CHAIN && i - (at - 1) <= GZIP_BACK_MAX; tries++) {
        const uint8_t *q = f->p + (at - 1);
        size_t n = 0;

        while (n < most && q[n] == f->p[i + n])
            n++;
        if (n > best) {
            best = n;
            *out_back = (unsigned)(i - (at - 1));
        }
        if (best >= GZIP_GOOD || f->before[(at - 1) % GZIP_BACK_MAX] >= at)
            break; /* long enough, or the place was written over */
        at = f->before[(at - 1) % GZIP_BACK_MAX];
    }
    return best >= GZIP_MATCH_MIN ? (unsigned)best : 0;
}

static void deflate_fixed(const uint8_t *p, size_t len, struct buf *out)
{
    struct finder f = { .p = p, .len = len };
    struct bits w = { .out = out };

    f.last = xcalloc((size_t)1 << GZIP_HASH_BITS, sizeof(*f.last));
    f.before = xcalloc(GZIP_BACK_MAX, sizeof(*f.before));
    put_bits(&w, 1, 1); /* the last block */
    put_bits(&w, 1, 2); /* of fixed codes */
    for (size_t i = 0; i < len;) {
        unsigned back = 0, n = match_at(&f, i, &back);

        if (n)
            put_match(&w, n, back);
        else
            put_symbol(&w, p[i]);
        for (size_t end = i + (n ? n : 1); i < end; i++)
            note_place(&f, i);
    }
    put_symbol(&w, 256);
    if (w.count)
        put_bits(&w, 0, 8 - w.count);
    free(f.last);
    free(f.before);
}

static void put_u32(struct buf *out, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        buf_addc(out, (char)(v >> 8 * i & 0xFF));
}

void gzip_pack(const void *p, size_t len, struct buf *out)
{
    static const char head[] = { 0x1f, (char)0x8b, 8, 0, 0, 0, 0, 0, 0, (char)0xff };

    buf_add(out, head, sizeof(head));
    deflate_fixed(p, len, out);
    put_u32(out, gzip_crc32(0, p, len));
    put_u32(out, (uint32_t)len);
}

bool gzip_pays(const void *p, size_t len)
{
    size_t some = len < GZIP_SAMPLE ? len : GZIP_SAMPLE;
    struct buf packed = { 0 };

    gzip_pack(p, some, &packed);
    bool pays = packed.len < some - some / 4;
    buf_release(&packed);
    return pays;
}

/* ---- unpacking */

enum {
    GZIP_HEAD = 10, /* bytes before the optional ones */
    GZIP_TAIL = 8,  /* checksum and length */
    GZIP_DEFLATE = 8,
    GZIP_HAS_CRC = 2,
    GZIP_HAS_EXTRA = 4,
    GZIP_HAS_NAME = 8,
    GZIP_HAS_COMMENT = 16
};

static uint32_t get_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Where the packed bytes begin; 0: it is no gzip. */
static size_t skip_head(const uint8_t *p, size_t len)
{
    size_t at = GZIP_HEAD;

    if (len < GZIP_HEAD + GZIP_TAIL || p[0] != 0x1f || p[1] != 0x8b || p[2] != GZIP_DEFLATE)
        return 0;
    if (p[3] & GZIP_HAS_EXTRA)
        at += 2 + (size_t)(p[at] | p[at + 1] << 8);
    for (unsigned bit = GZIP_HAS_NAME; bit <= GZIP_HAS_COMMENT; bit <<= 1) {
        if (!(p[3] & bit))
            continue;
        while (at < len && p[at])
            at++;
        at++;
    }
    at += p[3] & GZIP_HAS_CRC ? 2 : 0;
    return at + GZIP_TAIL <= len ? at : 0;
}

struct unpack {
    const uint8_t *from, *end;
    struct buf *out;
};

static enum rc unpack_read(void *arg, uint8_t *out, size_t cap, size_t *got, struct err *err)
{
    struct unpack *u = arg;
    size_t left = (size_t)(u->end - u->from);

    (void)err;
    *got = left < cap ? left : cap;
    memcpy(out, u->from, *got);
    u->from += *got;
    return RC_OK;
}

static enum rc unpack_write(void *arg, const uint8_t *p, size_t len, struct err *err)
{
    struct unpack *u = arg;

    (void)err;
    buf_add(u->out, p, len);
    return RC_OK;
}

enum rc gzip_unpack(const void *p, size_t len, uint64_t max, struct buf *out, struct err *err)
{
    const uint8_t *b = p;
    size_t at = skip_head(b, len), was = out->len;
    struct unpack u = { b + at, b + len - GZIP_TAIL, out };
    size_t unused = 0;
    struct inflate_io io = {
        .read = unpack_read, .write = unpack_write, .arg = &u, .max = max, .out_unused = &unused
    };
    uint64_t total = 0;

    if (!at)
        return err_set(err, RC_FAIL, "the bytes are no gzip");
    enum rc rc = inflate(&io, &total, err);
    if (rc != RC_OK)
        return rc;
    if (unused || u.from != u.end || (uint32_t)total != get_u32(u.end + 4) ||
        out->len - was != total ||
        gzip_crc32(0, buf_str(out) + was, out->len - was) != get_u32(u.end))
        return err_set(err, RC_FAIL, "the packed bytes are damaged, or more than one member");
    return RC_OK;
}
