/* SPDX-License-Identifier: MIT */
/* amx_emulated: AMX's tile operations in plain C, so that gemm_amx.c can be checked on a
 * machine without tiles.  Included by gemm_amx.c when AMX_EMULATED is defined. */
#ifndef TESTS_AMX_EMULATED_H
#define TESTS_AMX_EMULATED_H
#include <stdint.h>
#include <string.h>

static struct {
    unsigned char line[16][64];
} emu_tiles[8];

static void emu_zero(int t)
{
    memset(&emu_tiles[t], 0, sizeof(emu_tiles[t]));
}

static void emu_load(int t, const void *from, size_t stride)
{
    for (size_t r = 0; r < 16; r++)
        memcpy(emu_tiles[t].line[r], (const char *)from + r * stride, 64);
}

static void emu_store(int t, void *to, size_t stride)
{
    for (size_t r = 0; r < 16; r++)
        memcpy((char *)to + r * stride, emu_tiles[t].line[r], 64);
}

static float emu_half(const unsigned char *p)
{
    uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* c[r][n] += sum over k of a[r][k] b[k / 2][n][k % 2] */
static void emu_bf16(int c, int a, int b)
{
    for (size_t r = 0; r < 16; r++)
        for (size_t n = 0; n < 16; n++) {
            float sum;
            memcpy(&sum, emu_tiles[c].line[r] + n * 4, 4);
            for (size_t k = 0; k < 32; k++)
                sum += emu_half(emu_tiles[a].line[r] + k * 2) *
                       emu_half(emu_tiles[b].line[k / 2] + n * 4 + k % 2 * 2);
            memcpy(emu_tiles[c].line[r] + n * 4, &sum, 4);
        }
}

/* A's bytes are signed or not, B's are signed. */
static void emu_bytes(int c, int a, int b, int is_signed)
{
    for (size_t r = 0; r < 16; r++)
        for (size_t n = 0; n < 16; n++) {
            int32_t sum;
            memcpy(&sum, emu_tiles[c].line[r] + n * 4, 4);
            for (size_t k = 0; k < 64; k++) {
                unsigned char x = emu_tiles[a].line[r][k];
                sum +=
                    (is_signed ? (int8_t)x : x) * (int8_t)emu_tiles[b].line[k / 4][n * 4 + k % 4];
            }
            memcpy(emu_tiles[c].line[r] + n * 4, &sum, 4);
        }
}

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#undef _tile_dpbssd
#define _tile_loadconfig(cfg)       ((void)(cfg))
#define _tile_release()             ((void)0)
#define _tile_zero(t)               emu_zero(t)
#define _tile_loadd(t, p, s)        emu_load(t, p, s)
#define _tile_stream_loadd(t, p, s) emu_load(t, p, s)
#define _tile_stored(t, p, s)       emu_store(t, p, s)
#define _tile_dpbf16ps(c, a, b)     emu_bf16(c, a, b)
#define _tile_dpbusd(c, a, b)       emu_bytes(c, a, b, 0)
#define _tile_dpbssd(c, a, b)       emu_bytes(c, a, b, 1)

#endif
