/* SPDX-License-Identifier: MIT */
/* gzip: zlib packs and sums; a member's head and tail are read here, so that what does not belong
 * there is refused in our own words. */
#include "base/codec/gzip.h"

#include "base/codec/codec_int.h"

#include <assert.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

enum { GZIP_WINDOW = MAX_WBITS + 16 }; /* with gzip's head and tail */

static void pack_bytes(const void *p, size_t len, int level, int strategy, struct buf *out)
{
    z_stream z = { .zalloc = zlib_alloc, .zfree = zlib_free };
    const Bytef *from = p;
    uint8_t piece[16384];
    int status = deflateInit2(&z, level, Z_DEFLATED, GZIP_WINDOW, MAX_MEM_LEVEL - 1, strategy);

    assert(status == Z_OK); /* it fails for want of memory only */
    do {
        if (!z.avail_in && len) { /* zlib counts what it is given in 32 bits */
            z.next_in = (Bytef *)(uintptr_t)from;
            z.avail_in = len < UINT_MAX ? (unsigned)len : UINT_MAX;
            from += z.avail_in;
            len -= z.avail_in;
        }
        z.next_out = piece;
        z.avail_out = sizeof(piece);
        status = deflate(&z, len ? Z_NO_FLUSH : Z_FINISH);
        buf_add(out, piece, (size_t)(z.next_out - piece));
    } while (status != Z_STREAM_END);
    (void)deflateEnd(&z);
}

void gzip_pack(const void *p, size_t len, struct buf *out)
{
    pack_bytes(p, len, 1, Z_DEFAULT_STRATEGY, out);
}

bool gzip_pays(const void *p, size_t len)
{
    size_t some = len < GZIP_SAMPLE ? len : GZIP_SAMPLE;
    struct buf packed = { 0 };

    /* with fixed codes: what repeats counts, not that digits need few bits */
    pack_bytes(p, some, 3, Z_FIXED, &packed);
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
    enum rc rc = inflate_stream(&io, &total, err);
    if (rc != RC_OK)
        return rc;
    if (unused || u.from != u.end || (uint32_t)total != get_u32(u.end + 4) ||
        out->len - was != total ||
        crc32_z(0, (const uint8_t *)buf_str(out) + was, out->len - was) != get_u32(u.end))
        return err_set(err, RC_FAIL, "the packed bytes are damaged, or more than one member");
    return RC_OK;
}
