/* SPDX-License-Identifier: MIT */
/* inflate: undoes DEFLATE (RFC 1951), for archives and for packed bodies of requests.
 *
 * zlib does the work; this is how the program uses it.  Bytes come and go through callbacks, so
 * memory stays at about 120 KiB whatever the size.  What comes out is bounded by the caller. */
#ifndef BASE_CODEC_INFLATE_H
#define BASE_CODEC_INFLATE_H
#include "base/err.h"

#include <stdint.h>

struct inflate_io {
    /* Up to `cap` bytes into `out`; *got 0 at the end of the input. */
    enum rc (*read)(void *arg, uint8_t *out, size_t cap, size_t *got, struct err *err);
    enum rc (*write)(void *arg, const uint8_t *p, size_t len, struct err *err);
    void *arg;
    uint64_t max;       /* bytes that may come out; more is RC_LIMIT, and is not written */
    size_t *out_unused; /* (optional) bytes that were read and lie behind the end */
};

/* *out_bytes: how many came out. */
enum rc inflate_stream(const struct inflate_io *io, uint64_t *out_bytes, struct err *err) MUST_USE;

#endif
