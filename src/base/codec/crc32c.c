/* SPDX-License-Identifier: MIT */
/* The plain form takes half a byte at a time from a table of 16 that fits in a cache line; x86
 * has an instruction for eight bytes. */
#include "base/codec/crc32c.h"

#include <string.h>

/* What machines without the instruction run, and the test of the other. */
static uint32_t crc32c_plain(uint32_t crc, const void *p, size_t len)
{
    static const uint32_t table[16] = { 0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                        0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75 };
    const uint8_t *s = p;

    crc = ~crc;
    for (size_t i = 0; i < len; i++) {
        crc ^= s[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t crc32c_x86(uint32_t crc, const void *p,
                                                             size_t len)
{
    const uint8_t *s = p;
    uint64_t c = (uint32_t)~crc;

    for (; len >= 8; s += 8, len -= 8) {
        uint64_t word;

        memcpy(&word, s, sizeof(word));
        c = __builtin_ia32_crc32di(c, word);
    }
    for (; len; s++, len--)
        c = __builtin_ia32_crc32qi((uint32_t)c, *s);
    return ~(uint32_t)c;
}
#endif

uint32_t crc32c(uint32_t crc, const void *p, size_t len)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_x86(crc, p, len);
#endif
    return crc32c_plain(crc, p, len);
}
