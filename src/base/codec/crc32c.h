/* SPDX-License-Identifier: MIT */
/* crc32c: the Castagnoli checksum, with the processor's instruction where it has one. */
#ifndef BASE_CODEC_CRC32C_H
#define BASE_CODEC_CRC32C_H
#include "base/attr.h"

#include <stdint.h>

/* Of `len` bytes behind those that gave `crc`; 0 begins.  crc32c(0, "123456789", 9) is
 * 0xe3069283. */
uint32_t crc32c(uint32_t crc, const void *p, size_t len);

#endif
