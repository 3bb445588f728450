/* SPDX-License-Identifier: MIT */
#include "base/codec/sha1.h"

#include <stdio.h>
#include <string.h>

static uint32_t rotate_left(uint32_t v, int by)
{
    return v << by | v >> (32 - by);
}

static void mix_block(struct sha1 *s, const uint8_t *p)
{
    uint32_t w[80], v[5], f, k, t;

    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (size_t i = 16; i < 80; i++)
        w[i] = rotate_left(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, s->h, sizeof(v));
    for (size_t i = 0; i < 80; i++) {
        if (i < 20) {
            f = (v[1] & v[2]) | (~v[1] & v[3]);
            k = 0x5a827999;
        } else if (i < 40) {
            f = v[1] ^ v[2] ^ v[3];
            k = 0x6ed9eba1;
        } else if (i < 60) {
            f = (v[1] & v[2]) | (v[1] & v[3]) | (v[2] & v[3]);
            k = 0x8f1bbcdc;
        } else {
            f = v[1] ^ v[2] ^ v[3];
            k = 0xca62c1d6;
        }
        t = rotate_left(v[0], 5) + f + v[4] + k + w[i];
        v[4] = v[3];
        v[3] = v[2];
        v[2] = rotate_left(v[1], 30);
        v[1] = v[0];
        v[0] = t;
    }
    for (size_t i = 0; i < 5; i++)
        s->h[i] += v[i];
}

void sha1_init(struct sha1 *s)
{
    *s = (struct sha1){ .h = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 } };
}

void sha1_add(struct sha1 *s, const void *p, size_t len)
{
    const uint8_t *c = p;
    size_t have = (size_t)(s->bytes % SHA1_BLOCK);

    s->bytes += len;
    while (len) {
        size_t n = SHA1_BLOCK - have < len ? SHA1_BLOCK - have : len;

        memcpy(s->block + have, c, n);
        c += n;
        len -= n;
        have += n;
        if (have == SHA1_BLOCK) {
            mix_block(s, s->block);
            have = 0;
        }
    }
}

void sha1_end(struct sha1 *s, uint8_t out[SHA1_BYTES])
{
    static const uint8_t pad[SHA1_BLOCK] = { 0x80 };
    uint64_t bits = s->bytes * 8;
    size_t have = (size_t)(s->bytes % SHA1_BLOCK);
    uint8_t tail[8];

    for (size_t i = 0; i < 8; i++)
        tail[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha1_add(s, pad, have < 56 ? 56 - have : 120 - have);
    sha1_add(s, tail, sizeof(tail));
    for (size_t i = 0; i < SHA1_BYTES; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

const char *sha1_hex(const uint8_t sum[SHA1_BYTES], char out[SHA1_HEX])
{
    for (size_t i = 0; i < SHA1_BYTES; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", sum[i]);
    return out;
}
