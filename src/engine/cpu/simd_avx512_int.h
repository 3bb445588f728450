/* SPDX-License-Identifier: MIT */
/* simd_avx512: the small vector vocabulary of rows_frame_int.h and epilogue_int.h with 16 lanes.
 * To be included between SIMD_BEGIN and SIMD_END. */
#ifndef ENGINE_CPU_SIMD_AVX512_INT_H
#define ENGINE_CPU_SIMD_AVX512_INT_H

enum { VW = 16 };
typedef __m512 vf;
typedef __m512i vi;
#define V(op)       _mm512_##op
#define V_BITS(v)   _mm512_castps_si512(v)
#define V_FLOATS(i) _mm512_castsi512_ps(i)
#define V_HALF      __m256i
#include "engine/cpu/simd_both_int.h"

INLINE __mmask16 lanes(size_t n)
{
    return n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1);
}

INLINE vf vf_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(lanes(n), p);
}

INLINE vi vi_zero(void)
{
    return _mm512_setzero_si512();
}

/* The 32 bits at p, whatever they are, in every lane. */
INLINE vi vi_set_bits(const void *p)
{
    int32_t bits;

    memcpy(&bits, p, sizeof(bits));
    return _mm512_set1_epi32(bits);
}

INLINE vi vi_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

INLINE void vi_store(int32_t *p, vi v)
{
    _mm512_storeu_si512(p, v);
}

INLINE int32_t vi_sum(vi v)
{
    return _mm512_reduce_add_epi32(v);
}

INLINE vf vi_load_float(const int32_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_loadu_si512(p));
}

INLINE void vf_store_n(float *p, vf v, size_t n)
{
    _mm512_mask_storeu_ps(p, lanes(n), v);
}

/* Lanes from n on become `fill`. */
INLINE vf vf_first_n(vf v, size_t n, float fill)
{
    return _mm512_mask_mov_ps(_mm512_set1_ps(fill), lanes(n), v);
}

/* Sums in a fixed tree: halves, quarters, pairs. */
INLINE float vf_sum(vf v)
{
    return _mm512_reduce_add_ps(v);
}

INLINE float vf_greatest(vf v)
{
    return _mm512_reduce_max_ps(v);
}

INLINE float vf_least(vf v)
{
    return _mm512_reduce_min_ps(v);
}

/* The lanes by a Hadamard matrix: at each step (a, b) becomes (a + b, a - b). */
INLINE vf vf_turn(vf v)
{
    const vf one = _mm512_set1_ps(1.0f), minus = _mm512_set1_ps(-1.0f);

    v = _mm512_fmadd_ps(v, _mm512_mask_mov_ps(one, 0xaaaa, minus), _mm512_permute_ps(v, 0xb1));
    v = _mm512_fmadd_ps(v, _mm512_mask_mov_ps(one, 0xcccc, minus), _mm512_permute_ps(v, 0x4e));
    v = _mm512_fmadd_ps(v, _mm512_mask_mov_ps(one, 0xf0f0, minus),
                        _mm512_shuffle_f32x4(v, v, 0xb1));
    return _mm512_fmadd_ps(v, _mm512_mask_mov_ps(one, 0xff00, minus),
                           _mm512_shuffle_f32x4(v, v, 0x4e));
}

/* e^x for x <= 88, 2 ulp. */
INLINE vf vf_exp(vf x)
{
    x = _mm512_max_ps(_mm512_set1_ps(-104.0f), x);
    vf n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
                                _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return _mm512_scalef_ps(vf_exp_rest(x, n), n);
}

/* The normal distribution's upper tail Q(t) = erfc(t / sqrt 2) / 2 on [0, 5.5] in 16 pieces,
 * each the polynomial of degree 4 through the Chebyshev nodes, in u = place in the piece,
 * -0.5 .. 0.5.  Greatest error of Q 1.2e-7, of t * Q 1.2e-7 (checked by test_cpu_kernels). */
static const float q_tail[5][16] = {
    { 0.431767911f, 0.303058177f, 0.195066825f, 0.114463978f, 0.0609466955f, 0.0293372106f,
      0.0127292043f, 0.00496690301f, 0.00173965574f, 0.000546113937f, 0.000153467816f,
      3.85685562e-05f, 8.66114078e-06f, 1.73678495e-06f, 3.10812084e-07f, 4.96159132e-08f },
    { -0.135124862f, -0.120065592f, -0.0947948843f, -0.0665018186f, -0.0414537266f, -0.022960091f,
      -0.0112995738f, -0.00494113704f, -0.00191984314f, -0.000662790029f, -0.000203307995f,
      -5.54112303e-05f, -1.34184429e-05f, -2.8871093e-06f, -5.51920436e-07f, -9.37425426e-08f },
    { 0.00399170676f, 0.010640515f, 0.0140015716f, 0.0137515804f, 0.0110211521f, 0.00746085728f,
      0.00433942396f, 0.002189541f, 0.000964192091f, 0.0003720487f, 0.000126146391f,
      3.76590506e-05f, 9.91386241e-06f, 2.30410342e-06f, 4.73199265e-07f, 8.59382396e-08f },
    { 0.00256872736f, 0.00172948278f, 0.000491171493f, -0.00057744974f, -0.00112860545f,
      -0.00115936238f, -0.000887601695f, -0.000550797326f, -0.000286715542f, -0.000127433988f,
      -4.8868591e-05f, -1.62782744e-05f, -4.73180762e-06f, -1.20428263e-06f, -2.69022081e-07f,
      -5.28482502e-08f },
    { -0.000116050338f, -0.000284881826f, -0.000310418051f, -0.000209788806f, -6.63190294e-05f,
      4.14856222e-05f, 8.46112307e-05f, 7.84305812e-05f, 5.26026161e-05f, 2.81783632e-05f,
      1.25395927e-05f, 4.72993725e-06f, 1.53037865e-06f, 4.28018609e-07f, 1.04030612e-07f,
      2.20582983e-08f },
};

/* x * Phi(x) = max(x, 0) - |x| * Q(|x|). */
INLINE vf vf_gelu(vf x)
{
    vf t = _mm512_min_ps(_mm512_abs_ps(x), _mm512_set1_ps(5.4999995f));
    vf s = _mm512_mul_ps(t, _mm512_set1_ps(16 / 5.5f));
    vi i = _mm512_cvttps_epi32(s);
    vf u = _mm512_sub_ps(_mm512_sub_ps(s, _mm512_cvtepi32_ps(i)), _mm512_set1_ps(0.5f));
    vf q = _mm512_permutexvar_ps(i, _mm512_loadu_ps(q_tail[4]));
    q = _mm512_fmadd_ps(q, u, _mm512_permutexvar_ps(i, _mm512_loadu_ps(q_tail[3])));
    q = _mm512_fmadd_ps(q, u, _mm512_permutexvar_ps(i, _mm512_loadu_ps(q_tail[2])));
    q = _mm512_fmadd_ps(q, u, _mm512_permutexvar_ps(i, _mm512_loadu_ps(q_tail[1])));
    q = _mm512_fmadd_ps(q, u, _mm512_permutexvar_ps(i, _mm512_loadu_ps(q_tail[0])));
    return _mm512_fnmadd_ps(t, q, _mm512_max_ps(_mm512_setzero_ps(), x));
}

/* Rounds to nearest, ties to even. A NaN stays one. */
INLINE __m256i vf_to_bf16(vf v)
{
#ifdef SIMD_CVT_BF16
    return (__m256i)_mm512_cvtneps_pbh(v);
#else
    vi b = _mm512_castps_si512(v);
    vi odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
    vi r = _mm512_add_epi32(_mm512_add_epi32(b, _mm512_set1_epi32(0x7fff)), odd);
    r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q),
                              _mm512_set1_epi32(0x7fc00000));
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16));
#endif
}

INLINE void vf_store_bf16(uint16_t *p, vf v)
{
    _mm256_storeu_si256((__m256i *)p, vf_to_bf16(v));
}

/* 32 numbers to bfloat16. */
INLINE void vf_store_bf16_two(uint16_t *p, vf a, vf b)
{
#ifdef SIMD_CVT_BF16
    _mm512_storeu_si512(p, (vi)_mm512_cvtne2ps_pbh(b, a));
#else
    vf_store_bf16(p, a);
    vf_store_bf16(p + VW, b);
#endif
}

INLINE void vf_store_bf16_n(uint16_t *p, vf v, size_t n)
{
    _mm256_mask_storeu_epi16(p, lanes(n), vf_to_bf16(v));
}

INLINE vf vf_load_bf16(const uint16_t *p)
{
    return vf_of_bf16(_mm256_loadu_si256((const __m256i *)p));
}

INLINE vf vf_load_bf16_n(const uint16_t *p, size_t n)
{
    return vf_of_bf16(_mm256_maskz_loadu_epi16(lanes(n), p));
}

INLINE void vf_store_f16_n(uint16_t *p, vf v, size_t n)
{
    _mm256_mask_storeu_epi16(p, lanes(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

INLINE vf vf_load_f16_n(const uint16_t *p, size_t n)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes(n), p));
}

/* round(v) as bytes; v is in 0 .. 255. */
INLINE void vf_store_u8_n(uint8_t *p, vf v, size_t n)
{
    _mm_mask_storeu_epi8(p, lanes(n), _mm512_cvtusepi32_epi8(_mm512_cvtps_epi32(v)));
}

INLINE vf vf_round(vf v)
{
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* v as bytes; v is in -128 .. 127. */
INLINE void vf_store_s8_n(int8_t *p, vf v, size_t n)
{
    _mm_mask_storeu_epi8(p, lanes(n), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}

/* round(v) as words; what does not fit becomes the greatest or the least. */
INLINE void vf_store_s16_n(int16_t *p, vf v, size_t n)
{
    _mm256_mask_storeu_epi16(p, lanes(n), _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(v)));
}

/* round(v) = 256 upper + lower, both signed bytes; v is of a size that has such. */
INLINE void vf_store_split_n(int8_t *upper, int8_t *lower, vf v, size_t n)
{
    vi q = _mm512_cvtps_epi32(v),
       u = _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);

    _mm_mask_storeu_epi8(upper, lanes(n), _mm512_cvtepi32_epi8(u));
    _mm_mask_storeu_epi8(lower, lanes(n), _mm512_cvtepi32_epi8(q));
}

/* A 16 x 16 block of 32-bit words, rows `ld` bytes apart, transposed. */
INLINE void transpose_block(const char *src, size_t ld, uint32_t *dst, size_t ld_dst)
{
    vi r[16], t[16];

    UNROLL
    for (int i = 0; i < 16; i++)
        r[i] = _mm512_loadu_si512(src + (size_t)i * ld);
    UNROLL
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    UNROLL
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
    UNROLL
    for (int i = 0; i < 16; i++)
        _mm512_storeu_si512(dst + (size_t)i * ld_dst, r[i]);
}

/* Two bf16 rows, a[0] b[0] a[1] b[1] ...: columns 0..15 to dst, which takes 32 numbers. */
INLINE void interleave_bf16_n(const uint16_t *a, const uint16_t *b, size_t n, uint16_t *dst)
{
    vi lo = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes(n), a));
    vi hi = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes(b ? n : 0), b ? b : a));
    _mm512_storeu_si512(dst, _mm512_or_si512(lo, _mm512_slli_epi32(hi, 16)));
}

#endif
