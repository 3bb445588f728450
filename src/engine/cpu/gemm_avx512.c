/* SPDX-License-Identifier: MIT */
/* gemm_avx512: products of f32 with 512-bit registers; weights as f32, or as bfloat16 that
 * is widened when it is loaded, which halves the memory and its traffic.
 *
 * A block is 14 rows by 32 columns: 28 registers of sums, 2 of B, and A broadcast from
 * memory.  28 independent sums cover the latency of the multiply-add on every CPU (4 cycles
 * at two a cycle want 8).  Panels are the outer loop: a panel of B stays in L1 or L2 while
 * the rows of A stream past it. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target.h"

enum { MR = 14, NR = 32 };

SIMD_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")
#include "engine/cpu/simd_avx512.h"

#include "engine/cpu/epilogue.h"

INLINE void load_b(const void *b, size_t k, bool wide, vf *b0, vf *b1)
{
    if (wide) {
        *b0 = vf_load((const float *)b + k * NR);
        *b1 = vf_load((const float *)b + k * NR + VW);
    } else {
        *b0 = vf_load_bf16((const uint16_t *)b + k * NR);
        *b1 = vf_load_bf16((const uint16_t *)b + k * NR + VW);
    }
}

INLINE void block(const char *a, size_t lda, const void *b, size_t kn, float *c, int rows,
                  bool wide)
{
    vf acc[MR][2];

    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = vf_zero();
    for (size_t k = 0; k < kn; k++) {
        vf b0, b1;
        load_b(b, k, wide, &b0, &b1);
        UNROLL
        for (int r = 0; r < rows; r++) {
            vf x = vf_set(((const float *)(const void *)(a + (size_t)r * lda))[k]);
            acc[r][0] = vf_fma(x, b0, acc[r][0]);
            acc[r][1] = vf_fma(x, b1, acc[r][1]);
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        vf_store(c + r * NR, acc[r][0]);
        vf_store(c + r * NR + VW, acc[r][1]);
    }
}

#define BLOCK(rows)                                                                                \
    case rows:                                                                                     \
        block(a, lda, b, kn, c, rows, wide);                                                       \
        break

INLINE void blocks(const char *a, size_t lda, const void *b, size_t kn, float *c, size_t rows,
                   bool wide)
{
    switch (rows) {
        BLOCK(1);
        BLOCK(2);
        BLOCK(3);
        BLOCK(4);
        BLOCK(5);
        BLOCK(6);
        BLOCK(7);
        BLOCK(8);
        BLOCK(9);
        BLOCK(10);
        BLOCK(11);
        BLOCK(12);
        BLOCK(13);
        BLOCK(14);
    }
}

#include "engine/cpu/gemm_loop.h"

APART void blocks_f32(const char *a, size_t lda, const void *b, size_t kn, void *c, size_t rows)
{
    blocks(a, lda, b, kn, c, rows, true);
}

APART void blocks_bf16(const char *a, size_t lda, const void *b, size_t kn, void *c, size_t rows)
{
    blocks(a, lda, b, kn, c, rows, false);
}

static void run_f32(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    gemm_loop(j, m0, m1, p0, p1, sizeof(float), blocks_f32);
}

static void run_bf16(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    gemm_loop(j, m0, m1, p0, p1, sizeof(uint16_t), blocks_bf16);
}

static float peak(size_t n)
{
    vf acc[24], x = vf_set(1.0001f), y = vf_set(0.9999f);

    UNROLL
    for (int i = 0; i < 24; i++) {
        acc[i] = vf_set((float)i);
        HIDE_VALUE(acc[i]);
    }
    for (size_t k = 0; k < n; k++) {
        UNROLL
        for (int i = 0; i < 24; i++)
            acc[i] = vf_fma(acc[i], x, y);
    }
    UNROLL
    for (int i = 1; i < 24; i++)
        acc[0] = vf_add(acc[0], acc[i]);
    return vf_sum(acc[0]);
}
SIMD_END

const struct cpu_gemm cpu_avx512_f32 = {
    .name = "avx512 f32",
    .isa = CPU_AVX512,
    .a = CPU_E_F32,
    .b = CPU_E_F32,
    .mr = MR,
    .nr = NR,
    .kg = 1,
    .kstep = 1,
    .run = run_f32,
    .peak = peak,
    .peak_ops = 24.0 * 16 * 2,
};
const struct cpu_gemm cpu_avx512_bf16 = {
    .name = "avx512 f32 by bf16",
    .isa = CPU_AVX512,
    .a = CPU_E_F32,
    .b = CPU_E_BF16,
    .mr = MR,
    .nr = NR,
    .kg = 1,
    .kstep = 1,
    .run = run_bf16,
    .peak = peak,
    .peak_ops = 24.0 * 16 * 2,
};
