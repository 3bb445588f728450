/* SPDX-License-Identifier: MIT */
/* gemm_words: products of 16-bit integers with AVX512_VNNI (vpdpwssd), sums in int32.
 *
 * As fast as products of bfloat16 and as small in memory, but with 12 or 13 bits for a number,
 * the sign included, instead of 8: rows of A and columns of B share a scale each, that of their
 * Euclidean norm (CPU_WORDS_NORM), which also keeps every sum inside 32 bits.  Sums are exact,
 * so their order is of no matter. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target.h"

enum { MR = 14, NR = 32 };

SIMD_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")
#include "engine/cpu/simd_avx512.h"

#include "engine/cpu/epilogue.h"

INLINE void block(const char *a, size_t lda, const void *b, size_t kn, int32_t *c, int rows)
{
    vi acc[MR][2];

    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm512_setzero_si512();
    for (size_t k = 0; k < kn; k += 2) {
        vi b0 = _mm512_loadu_si512((const int16_t *)b + k * NR);
        vi b1 = _mm512_loadu_si512((const int16_t *)b + k * NR + 2 * VW);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vi x = _mm512_set1_epi32(*(const int32_t *)(a + (size_t)r * lda + k * 2));
            acc[r][0] = _mm512_dpwssd_epi32(acc[r][0], x, b0);
            acc[r][1] = _mm512_dpwssd_epi32(acc[r][1], x, b1);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        _mm512_storeu_si512(c + r * NR, acc[r][0]);
        _mm512_storeu_si512(c + r * NR + VW, acc[r][1]);
    }
}

#include "engine/cpu/gemm_switch.h"

#include "engine/cpu/gemm_loop.h"

static void run(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    gemm_loop(j, m0, m1, p0, p1, sizeof(int16_t), blocks);
}

static float peak(size_t n)
{
    vi acc[24], x = _mm512_set1_epi32(0x03010204), y = _mm512_set1_epi32(0x01fe0301);

    UNROLL
    for (int i = 0; i < 24; i++) {
        acc[i] = _mm512_set1_epi32(i);
        HIDE_VALUE(acc[i]);
    }
    for (size_t k = 0; k < n; k++) {
        UNROLL
        for (int i = 0; i < 24; i++)
            acc[i] = _mm512_dpwssd_epi32(acc[i], x, y);
    }
    UNROLL
    for (int i = 1; i < 24; i++)
        acc[0] = _mm512_add_epi32(acc[0], acc[i]);
    return (float)_mm512_reduce_add_epi32(acc[0]);
}
SIMD_END

const struct cpu_gemm cpu_vnni_i16 = {
    .name = "avx512 int16",
    .isa = CPU_VNNI,
    .a = CPU_E_S16,
    .b = CPU_E_S16,
    .mr = MR,
    .nr = NR,
    .kg = 2,
    .kstep = 2,
    .run = run,
    .peak = peak,
    .peak_ops = 24.0 * 32 * 2,
};
