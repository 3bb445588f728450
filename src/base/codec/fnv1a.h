/* SPDX-License-Identifier: MIT */
/* fnv1a: FNV-1a, for tables and for whether a text has changed; nothing against an adversary.  Its
 * low bits alone are poor: fold the high ones in before a table's mask. */
#ifndef BASE_CODEC_FNV1A_H
#define BASE_CODEC_FNV1A_H
#include <stddef.h>
#include <stdint.h>

#define FNV1A_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t fnv1a_add(uint64_t h, const void *bytes, size_t len)
{
    const uint8_t *p = (const uint8_t *)bytes;

    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001b3);
    return h;
}

#endif
