/* SPDX-License-Identifier: MIT */
/* sha256: the hash of FIPS 180-4, for checksums of files. */
#ifndef BASE_CODEC_SHA256_H
#define BASE_CODEC_SHA256_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64, SHA256_HEX = 65 /* with NUL */ };

struct sha256 {
    uint32_t h[8];
    uint64_t bytes; /* taken in so far */
    uint8_t block[SHA256_BLOCK];
    bool plain; /* without the CPU's instructions for it */
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *p, size_t len);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);
const char *sha256_hex(const uint8_t sum[SHA256_BYTES], char out[SHA256_HEX]); /* lower case */

#endif
