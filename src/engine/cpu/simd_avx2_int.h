/* SPDX-License-Identifier: MIT */
/* simd_avx2: the small vector vocabulary of rows_frame_int.h and epilogue_int.h with 8 lanes.
 * To be included between SIMD_BEGIN and SIMD_END. */
#ifndef ENGINE_CPU_SIMD_AVX2_INT_H
#define ENGINE_CPU_SIMD_AVX2_INT_H

enum { VW = 8 };
typedef __m256 vf;
typedef __m256i vi;
#define V(op)       _mm256_##op
#define V_BITS(v)   _mm256_castps_si256(v)
#define V_FLOATS(i) _mm256_castsi256_ps(i)
#define V_HALF      __m128i
#include "engine/cpu/simd_both_int.h"

INLINE vi lanes(size_t n)
{
    static const int32_t ones[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const vi *)(ones + 8 - (n < 8 ? n : 8)));
}

INLINE vf vf_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, lanes(n));
}

INLINE vi vi_zero(void)
{
    return _mm256_setzero_si256();
}

INLINE void vi_store(int32_t *p, vi v)
{
    _mm256_storeu_si256((vi *)p, v);
}

INLINE int32_t vi_sum(vi v)
{
    __m128i h = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    h = _mm_add_epi32(h, _mm_shuffle_epi32(h, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(h, _mm_shuffle_epi32(h, 0xb1)));
}

INLINE vf vi_load_float(const int32_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_loadu_si256((const vi *)p));
}

INLINE void vf_store_n(float *p, vf v, size_t n)
{
    _mm256_maskstore_ps(p, lanes(n), v);
}

/* Lanes from n on become `fill`. */
INLINE vf vf_first_n(vf v, size_t n, float fill)
{
    return _mm256_blendv_ps(_mm256_set1_ps(fill), v, _mm256_castsi256_ps(lanes(n)));
}

/* Sums in a fixed tree: halves, quarters, pairs. */
INLINE float vf_sum(vf v)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

INLINE float vf_greatest(vf v)
{
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

INLINE float vf_least(vf v)
{
    __m128 h = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    h = _mm_min_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_min_ss(h, _mm_movehdup_ps(h)));
}

/* The lanes by a Hadamard matrix: at each step (a, b) becomes (a + b, a - b). */
INLINE vf vf_turn(vf v)
{
    const vf one = _mm256_set1_ps(1.0f), minus = _mm256_set1_ps(-1.0f);

    v = _mm256_fmadd_ps(v, _mm256_blend_ps(one, minus, 0xaa), _mm256_permute_ps(v, 0xb1));
    v = _mm256_fmadd_ps(v, _mm256_blend_ps(one, minus, 0xcc), _mm256_permute_ps(v, 0x4e));
    return _mm256_fmadd_ps(v, _mm256_blend_ps(one, minus, 0xf0), _mm256_permute2f128_ps(v, v, 1));
}

/* e^x for x <= 88, 2 ulp; below -87 the result is that of -87, 1e-38. */
INLINE vf vf_exp(vf x)
{
    x = _mm256_max_ps(_mm256_set1_ps(-87.0f), x);
    vf n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vf p = vf_exp_rest(x, n);
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23)));
}

/* x * Phi(x) = max(x, 0) - |x| * Q(|x|), with Q(t) = erfc(t / sqrt 2) / 2 after Abramowitz
 * and Stegun 7.1.26, greatest error 1e-7. */
INLINE vf vf_gelu(vf x)
{
    vf t = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    vf z = _mm256_mul_ps(t, _mm256_set1_ps(0.70710678f));
    vf one = _mm256_set1_ps(1.0f);
    vf w = _mm256_div_ps(one, _mm256_fmadd_ps(z, _mm256_set1_ps(0.3275911f), one));
    vf p = _mm256_set1_ps(0.5f * 1.061405429f);
    p = _mm256_fmadd_ps(p, w, _mm256_set1_ps(0.5f * -1.453152027f));
    p = _mm256_fmadd_ps(p, w, _mm256_set1_ps(0.5f * 1.421413741f));
    p = _mm256_fmadd_ps(p, w, _mm256_set1_ps(0.5f * -0.284496736f));
    p = _mm256_fmadd_ps(p, w, _mm256_set1_ps(0.5f * 0.254829592f));
    vf e = vf_exp(_mm256_mul_ps(_mm256_set1_ps(-1.0f), _mm256_mul_ps(z, z)));
    vf q = _mm256_mul_ps(_mm256_mul_ps(p, w), e);
    return _mm256_fnmadd_ps(t, q, _mm256_max_ps(_mm256_setzero_ps(), x));
}

/* Rounds to nearest, ties to even. A NaN stays one. */
INLINE __m128i vf_to_bf16(vf v)
{
    vi b = _mm256_castps_si256(v);
    vi odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
    vi r = _mm256_add_epi32(_mm256_add_epi32(b, _mm256_set1_epi32(0x7fff)), odd);
    vi nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    r = _mm256_blendv_epi8(r, _mm256_set1_epi32(0x7fc00000), nan);
    r = _mm256_srli_epi32(r, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}

INLINE void vf_store_bf16(uint16_t *p, vf v)
{
    _mm_storeu_si128((__m128i *)p, vf_to_bf16(v));
}

INLINE void vf_store_bf16_two(uint16_t *p, vf a, vf b)
{
    vf_store_bf16(p, a);
    vf_store_bf16(p + VW, b);
}

INLINE void vf_store_bf16_n(uint16_t *p, vf v, size_t n)
{
    uint16_t part[8];

    _mm_storeu_si128((__m128i *)part, vf_to_bf16(v));
    memcpy(p, part, (n < 8 ? n : 8) * sizeof(*p));
}

INLINE vf vf_load_bf16(const uint16_t *p)
{
    return vf_of_bf16(_mm_loadu_si128((const __m128i *)p));
}

INLINE vf vf_load_bf16_n(const uint16_t *p, size_t n)
{
    uint16_t part[8] = { 0 };

    memcpy(part, p, (n < 8 ? n : 8) * sizeof(*p));
    return vf_load_bf16(part);
}

INLINE void vf_store_f16_n(uint16_t *p, vf v, size_t n)
{
    uint16_t part[8];

    _mm_storeu_si128((__m128i *)part, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
    memcpy(p, part, (n < 8 ? n : 8) * sizeof(*p));
}

INLINE vf vf_load_f16_n(const uint16_t *p, size_t n)
{
    uint16_t part[8] = { 0 };

    memcpy(part, p, (n < 8 ? n : 8) * sizeof(*p));
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)part));
}

/* round(v) as bytes; v is in 0 .. 255. */
INLINE void vf_store_u8_n(uint8_t *p, vf v, size_t n)
{
    uint8_t part[16];
    vi i = _mm256_cvtps_epi32(v);
    __m128i w = _mm_packus_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));

    _mm_storeu_si128((__m128i *)part, _mm_packus_epi16(w, w));
    memcpy(p, part, n < 8 ? n : 8);
}

INLINE vf vf_round(vf v)
{
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* v as bytes; v is in -128 .. 127. */
INLINE void vf_store_s8_n(int8_t *p, vf v, size_t n)
{
    int8_t part[16];
    vi i = _mm256_cvtps_epi32(v);
    __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));

    _mm_storeu_si128((__m128i *)part, _mm_packs_epi16(w, w));
    memcpy(p, part, n < 8 ? n : 8);
}

/* round(v) as words; what does not fit becomes the greatest or the least. */
INLINE void vf_store_s16_n(int16_t *p, vf v, size_t n)
{
    int16_t part[8];
    vi i = _mm256_cvtps_epi32(v);

    _mm_storeu_si128((__m128i *)part,
                     _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1)));
    memcpy(p, part, (n < 8 ? n : 8) * sizeof(*p));
}

/* round(v) = 256 upper + lower, both signed bytes; v is of a size that has such. */
INLINE void vf_store_split_n(int8_t *upper, int8_t *lower, vf v, size_t n)
{
    int32_t q[8];

    _mm256_storeu_si256((vi *)q, _mm256_cvtps_epi32(v));
    for (size_t i = 0; i < 8 && i < n; i++) {
        upper[i] = (int8_t)((q[i] + 128) >> 8);
        lower[i] = (int8_t)(q[i] & 0xff);
    }
}

/* An 8 x 8 block of 32-bit words, rows `ld` bytes apart, transposed. */
INLINE void transpose_block(const char *src, size_t ld, uint32_t *dst, size_t ld_dst)
{
    vi r[8], t[8];

    UNROLL
    for (int i = 0; i < 8; i++)
        r[i] = _mm256_loadu_si256((const vi *)(src + (size_t)i * ld));
    UNROLL
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2x128_si256(r[i], r[i + 4], 0x31);
    }
    UNROLL
    for (int i = 0; i < 8; i++)
        _mm256_storeu_si256((vi *)(dst + (size_t)i * ld_dst), t[i]);
}

/* Two bf16 rows, a[0] b[0] a[1] b[1] ...: columns 0..7 to dst, which takes 16 numbers. */
INLINE void interleave_bf16_n(const uint16_t *a, const uint16_t *b, size_t n, uint16_t *dst)
{
    for (size_t i = 0; i < 8; i++) {
        dst[2 * i] = i < n ? a[i] : 0;
        dst[2 * i + 1] = i < n && b ? b[i] : 0;
    }
}

#endif
