/* SPDX-License-Identifier: MIT */
/* codec_int: what the files of base/codec share, and tests. */
#ifndef BASE_CODEC_CODEC_INT_H
#define BASE_CODEC_CODEC_INT_H
#include "base/codec/inflate.h"
#include "base/codec/sha256.h"

/* ---- sha256.c */
void sha256_plain(struct sha256 *s); /* the same, in plain C on every machine: for tests */

/* ---- inflate.c */
/* zlib's memory: xmalloc's, so that there is no failure to handle. */
void *zlib_alloc(void *arg, unsigned count, unsigned size);
void zlib_free(void *arg, void *p);

#endif
