/* SPDX-License-Identifier: MIT */
/* Packed bodies of requests: what comes out is bounded, and what was packed comes back. */
#include "fuzz.h"

#include "base/codec/gzip.h"

#include <stdlib.h>
#include <string.h>

enum { OUT_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf plain = { 0 }, packed = { 0 };
    struct err err = { 0 };

    if (gzip_unpack(data, size, OUT_MAX, &plain, &err) == RC_OK && plain.len > OUT_MAX)
        abort();
    buf_release(&plain);
    gzip_pack(data, size, &packed);
    if (gzip_unpack(packed.data, packed.len, size, &plain, NULL) || plain.len != size ||
        (size && memcmp(plain.data, data, size)))
        abort();
    buf_release(&packed);
    buf_release(&plain);
    return 0;
}
