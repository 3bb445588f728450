/* SPDX-License-Identifier: MIT */
/* Weights of gigabytes pass through here whenever a model is loaded, so the instructions that x86
 * has for it are used where the CPU has them; sha256_plain() is the definition, and the two are
 * compared in tests/unit/test_zip.c. */
#include "base/codec/codec_int.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void block_plain(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], v[8];

    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];

        w[i] = w[i - 16] + (rotate_right(a, 7) ^ rotate_right(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate_right(b, 17) ^ rotate_right(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof(v));
    for (size_t i = 0; i < 64; i += 8) /* the letters move on by one a round: at(0) is A */
        for (size_t n = 0; n < 8; n++) {
#define at(letter) v[((letter) + 8 - n) % 8]
            uint32_t t1 =
                at(7) +
                (rotate_right(at(4), 6) ^ rotate_right(at(4), 11) ^ rotate_right(at(4), 25)) +
                ((at(4) & at(5)) ^ (~at(4) & at(6))) + k[i + n] + w[i + n];
            uint32_t t2 =
                (rotate_right(at(0), 2) ^ rotate_right(at(0), 13) ^ rotate_right(at(0), 22)) +
                ((at(0) & at(1)) ^ (at(0) & at(2)) ^ (at(1) & at(2)));

            at(3) += t1;
            at(7) = t1 + t2;
#undef at
        }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

#if defined(__x86_64__)
/* Two halves of the state as the instructions want them, A B E F and C D G H, high to low. */
__attribute__((target("sha,sse4.1"))) static void blocks_fast(uint32_t h[8], const uint8_t *p,
                                                              size_t count)
{
    const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)h), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(const void *)(h + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xf0);

    for (; count; count--, p += SHA256_BLOCK) {
        __m128i a = abef, c = cdgh, w[4];

        for (size_t i = 0; i < 16; i++) {
            __m128i *now = &w[i % 4];

            if (i < 4) {
                *now = _mm_shuffle_epi8(
                    _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)), order);
            } else {
                __m128i t = _mm_sha256msg1_epu32(*now, w[(i + 1) % 4]);

                t = _mm_add_epi32(t, _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4));
                *now = _mm_sha256msg2_epu32(t, w[(i + 3) % 4]);
            }
            __m128i wk =
                _mm_add_epi32(*now, _mm_loadu_si128((const __m128i *)(const void *)(k + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, wk);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(wk, 0x0e));
        }
        abef = _mm_add_epi32(abef, a);
        cdgh = _mm_add_epi32(cdgh, c);
    }
    low = _mm_shuffle_epi32(abef, 0x1b);
    high = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)h, _mm_blend_epi16(low, high, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(h + 4), _mm_alignr_epi8(high, low, 8));
}

/* The instruction that tells is slow in a virtual machine: once. */
static bool is_fast(void)
{
    enum { UNKNOWN, NO, YES };
    static _Atomic int known = UNKNOWN;
    unsigned a, b, c, d;
    int is = atomic_load_explicit(&known, memory_order_relaxed);

    if (is == UNKNOWN) {
        bool sse = __get_cpuid(1, &a, &b, &c, &d) && c & bit_SSE4_1;

        is = sse && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & 1u << 29 ? YES : NO;
        atomic_store_explicit(&known, is, memory_order_relaxed);
    }
    return is == YES;
}
#else
static bool is_fast(void)
{
    return false;
}

static void blocks_fast(uint32_t h[8], const uint8_t *p, size_t count)
{
    for (; count; count--, p += SHA256_BLOCK)
        block_plain(h, p);
}
#endif

static void blocks_add(struct sha256 *s, const uint8_t *p, size_t count)
{
    if (!s->plain && is_fast()) {
        blocks_fast(s->h, p, count);
        return;
    }
    for (; count; count--, p += SHA256_BLOCK)
        block_plain(s->h, p);
}

void sha256_init(struct sha256 *s)
{
    static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

    *s = (struct sha256){ 0 };
    memcpy(s->h, start, sizeof(start));
}

void sha256_plain(struct sha256 *s)
{
    sha256_init(s);
    s->plain = true;
}

void sha256_add(struct sha256 *s, const void *p, size_t len)
{
    const uint8_t *at = p;

    while (len) {
        size_t used = s->bytes % SHA256_BLOCK, n = SHA256_BLOCK - used;

        if (!used && len >= SHA256_BLOCK) {
            n = len / SHA256_BLOCK * SHA256_BLOCK;
            blocks_add(s, at, n / SHA256_BLOCK);
        } else {
            n = n < len ? n : len;
            memcpy(s->block + used, at, n);
            if (used + n == SHA256_BLOCK)
                blocks_add(s, s->block, 1);
        }
        s->bytes += n;
        at += n;
        len -= n;
    }
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    uint64_t bits = s->bytes * 8;
    uint8_t tail[SHA256_BLOCK + 8] = { 0x80 };
    size_t pad = (SHA256_BLOCK + 56 - (s->bytes + 1) % SHA256_BLOCK) % SHA256_BLOCK + 1;

    for (int i = 0; i < 8; i++)
        tail[pad + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(s, tail, pad + 8);
    for (int i = 0; i < 32; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

const char *sha256_hex(const uint8_t sum[SHA256_BYTES], char out[SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = digits[sum[i] >> 4];
        out[2 * i + 1] = digits[sum[i] & 15];
    }
    out[SHA256_HEX - 1] = '\0';
    return out;
}
