/* SPDX-License-Identifier: MIT */
/* gemm_bf16: products of bfloat16 with AVX512_BF16 (vdpbf16ps), sums in f32.
 *
 * The shape of gemm_avx512.c; one instruction multiplies two neighbours of k, so A is
 * broadcast as pairs and B holds pairs. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target.h"

#define SIMD_CVT_BF16
enum { MR = 14, NR = 32 };

SIMD_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")
#include "engine/cpu/simd_avx512.h"

#include "engine/cpu/epilogue.h"

INLINE vf dot2(vf acc, vi a, vi b)
{
    return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
}

INLINE void block(const char *a, size_t lda, const void *b, size_t kn, float *c, int rows)
{
    vf acc[MR][2];

    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = vf_zero();
    for (size_t k = 0; k < kn; k += 2) {
        vi b0 = _mm512_loadu_si512((const uint16_t *)b + k * NR);
        vi b1 = _mm512_loadu_si512((const uint16_t *)b + k * NR + 2 * VW);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vi x = _mm512_set1_epi32(*(const int32_t *)(a + (size_t)r * lda + k * 2));
            acc[r][0] = dot2(acc[r][0], x, b0);
            acc[r][1] = dot2(acc[r][1], x, b1);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        vf_store(c + r * NR, acc[r][0]);
        vf_store(c + r * NR + VW, acc[r][1]);
    }
}

#include "engine/cpu/gemm_switch.h"

#include "engine/cpu/gemm_loop.h"

static void run(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    gemm_loop(j, m0, m1, p0, p1, sizeof(uint16_t), blocks);
}

static float peak(size_t n)
{
    vf acc[24];
    vi x = _mm512_set1_epi32(0x3f813f7e), y = _mm512_set1_epi32(0x3e113e91);

    UNROLL
    for (int i = 0; i < 24; i++) {
        acc[i] = vf_set((float)i);
        HIDE_VALUE(acc[i]);
    }
    for (size_t k = 0; k < n; k++) {
        UNROLL
        for (int i = 0; i < 24; i++)
            acc[i] = dot2(acc[i], x, y);
    }
    UNROLL
    for (int i = 1; i < 24; i++)
        acc[0] = vf_add(acc[0], acc[i]);
    return vf_sum(acc[0]);
}
SIMD_END

const struct cpu_gemm cpu_dpbf16 = {
    .name = "avx512 bf16",
    .isa = CPU_BF16,
    .a = CPU_E_BF16,
    .b = CPU_E_BF16,
    .mr = MR,
    .nr = NR,
    .kg = 2,
    .kstep = 2,
    .run = run,
    .peak = peak,
    .peak_ops = 24.0 * 32 * 2,
};
