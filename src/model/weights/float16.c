/* SPDX-License-Identifier: MIT */
/* float16: half and bfloat16 to single precision and back.
 *
 * Widening is exact.  Narrowing rounds to nearest, ties to even, as hardware does;
 * NaN stays NaN (quiet, its payload cut).  Only integers and normal floats take part, so
 * that a thread that flushes denormals gets the same bits. */
#include "model/weights/safetensors_int.h"

static float from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

float st_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, mant = h & 0x3ffu, exp = (h >> 10) & 0x1fu;
    /* a denormal half is mant * 2^-24: a normal single */
    uint32_t small = to_bits((float)mant * 0x1p-24f);
    uint32_t normal = (exp + 112) << 23 | mant << 13;
    uint32_t infinite = 0x7f800000u | mant << 13;

    return from_bits(sign | (exp == 0 ? small : exp == 31 ? infinite : normal));
}

float st_bf16_to_f32(uint16_t h)
{
    return from_bits((uint32_t)h << 16);
}

uint16_t st_f32_to_bf16(float f)
{
    uint32_t bits = to_bits(f);

    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* `value` without its lowest `drop` bits (1 to 31), to nearest, ties to even. */
static uint32_t shift_even(uint32_t value, uint32_t drop)
{
    uint32_t half = 1u << (drop - 1), rest = value & ((half << 1) - 1), kept = value >> drop;

    return kept + (rest > half || (rest == half && (kept & 1u)));
}

uint16_t st_f32_to_f16(float f)
{
    uint32_t bits = to_bits(f), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    uint32_t exp = a >> 23, mant = (a & 0x7fffffu) | 0x800000u;

    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (exp >= 143) /* 2^16 and above */
        return (uint16_t)(sign | 0x7c00u);
    if (exp >= 113) /* normal; a carry out of the mantissa moves the exponent up, as it must */
        return (uint16_t)(sign | shift_even(a - (112u << 23), 13));
    if (exp < 102) /* below half of the least denormal */
        return (uint16_t)sign;
    return (uint16_t)(sign | shift_even(mant, 126 - exp));
}

/* Blocks of a fixed length: compilers make vector code of them. */
enum { BLOCK = 16 };

void st_f16s_to_f32(const void *from, size_t n, float *out)
{
    const unsigned char *p = from;
    uint16_t h[BLOCK];

    for (; n >= BLOCK; n -= BLOCK, p += sizeof(h), out += BLOCK) {
        memcpy(h, p, sizeof(h));
        for (size_t i = 0; i < BLOCK; i++)
            out[i] = st_f16_to_f32(h[i]);
    }
    memcpy(h, p, n * sizeof(*h));
    for (size_t i = 0; i < n; i++)
        out[i] = st_f16_to_f32(h[i]);
}

void st_bf16s_to_f32(const void *from, size_t n, float *out)
{
    const unsigned char *p = from;
    uint16_t h[BLOCK];

    for (; n >= BLOCK; n -= BLOCK, p += sizeof(h), out += BLOCK) {
        memcpy(h, p, sizeof(h));
        for (size_t i = 0; i < BLOCK; i++)
            out[i] = st_bf16_to_f32(h[i]);
    }
    memcpy(h, p, n * sizeof(*h));
    for (size_t i = 0; i < n; i++)
        out[i] = st_bf16_to_f32(h[i]);
}
