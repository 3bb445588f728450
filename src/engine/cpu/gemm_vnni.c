/* SPDX-License-Identifier: MIT */
/* gemm_vnni: products of bytes with AVX512_VNNI (vpdpbusd), sums in int32.
 *
 * A is unsigned with a zero point for each row, B signed with a scale for each column.
 * Sums of 4096 products of 255 * 127 stay below 2^27, and become f32 in the epilogue. */
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
    for (size_t k = 0; k < kn; k += 4) {
        vi b0 = _mm512_loadu_si512((const int8_t *)b + k * NR);
        vi b1 = _mm512_loadu_si512((const int8_t *)b + k * NR + 4 * VW);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vi x = _mm512_set1_epi32(*(const int32_t *)(a + (size_t)r * lda + k));
            acc[r][0] = _mm512_dpbusd_epi32(acc[r][0], x, b0);
            acc[r][1] = _mm512_dpbusd_epi32(acc[r][1], x, b1);
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
    gemm_loop(j, m0, m1, p0, p1, sizeof(int8_t), blocks);
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
            acc[i] = _mm512_dpbusd_epi32(acc[i], x, y);
    }
    UNROLL
    for (int i = 1; i < 24; i++)
        acc[0] = _mm512_add_epi32(acc[0], acc[i]);
    return (float)_mm512_reduce_add_epi32(acc[0]);
}
SIMD_END

const struct cpu_gemm cpu_vnni_i8 = {
    .name = "avx512 int8",
    .isa = CPU_VNNI,
    .a = CPU_E_U8,
    .b = CPU_E_S8,
    .mr = MR,
    .nr = NR,
    .kg = 4,
    .kstep = 4,
    .run = run,
    .peak = peak,
    .peak_ops = 24.0 * 64 * 2,
};
