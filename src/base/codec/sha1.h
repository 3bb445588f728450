/* SPDX-License-Identifier: MIT */
/* sha1: the hash of FIPS 180-4 that git names its objects by.  It tells whether a file is the one
 * that was listed; against somebody who means harm it does not hold, sha256 does. */
#ifndef BASE_CODEC_SHA1_H
#define BASE_CODEC_SHA1_H
#include <stddef.h>
#include <stdint.h>

enum { SHA1_BYTES = 20, SHA1_BLOCK = 64, SHA1_HEX = 41 /* with NUL */ };

struct sha1 {
    uint32_t h[5];
    uint64_t bytes; /* taken in so far */
    uint8_t block[SHA1_BLOCK];
};

void sha1_init(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *p, size_t len);
void sha1_end(struct sha1 *s, uint8_t out[SHA1_BYTES]);
const char *sha1_hex(const uint8_t sum[SHA1_BYTES], char out[SHA1_HEX]); /* lower case */

#endif
