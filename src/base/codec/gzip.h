/* SPDX-License-Identifier: MIT */
/* gzip: packs and unpacks bytes as gzip (RFC 1952), for replies to clients that take it and for
 * bodies of those that send it.
 *
 * Packed is at zlib's lowest level: text of metrics becomes a tenth at some hundred MB a second,
 * and what a larger search would gain is not worth its time in a reply. */
#ifndef BASE_CODEC_GZIP_H
#define BASE_CODEC_GZIP_H
#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

enum { GZIP_SAMPLE = 4096 };

/* Appends `len` bytes, packed. */
void gzip_pack(const void *p, size_t len, struct buf *out);
/* Is packing worth its time?  Looks at the first GZIP_SAMPLE bytes: a quarter must be saved.
 * Numbers as text, and base64 of them, save less. */
bool gzip_pays(const void *p, size_t len);
/* Appends what one member holds, `max` bytes at most: RC_LIMIT beyond, before they are kept.  What
 * is broken, cut off, or followed by something else is RC_FAIL. */
enum rc gzip_unpack(const void *p, size_t len, uint64_t max, struct buf *out,
                    struct err *err) MUST_USE;

#endif
