/* SPDX-License-Identifier: MIT */
/* gemm_avx2: products with 256-bit registers: f32; f32 by bfloat16 that is widened when it
 * is loaded; bytes as 16-bit numbers (vpmaddwd, which cannot overflow as vpmaddubsw can).
 *
 * A block is 6 rows by 16 columns: 12 registers of sums, 2 of B, and A broadcast. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target.h"

enum { MR = 6, NR = 16 };
enum kind { WIDE, HALF, BYTES }; /* what B holds: f32, bfloat16, int8 */

SIMD_BEGIN("avx2,fma,f16c")
#include "engine/cpu/simd_avx2.h"

#include "engine/cpu/epilogue.h"

INLINE void block_float(const char *a, size_t lda, const void *b, size_t kn, float *c, int rows,
                        enum kind kind)
{
    vf acc[MR][2];

    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = vf_zero();
    for (size_t k = 0; k < kn; k++) {
        const float *wide = (const float *)b + k * NR;
        const uint16_t *half = (const uint16_t *)b + k * NR;
        vf b0 = kind == WIDE ? vf_load(wide) : vf_load_bf16(half);
        vf b1 = kind == WIDE ? vf_load(wide + VW) : vf_load_bf16(half + VW);
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

/* Two neighbours of k at a time: u8 and s8 widened to 16 bits, multiplied, added by pairs. */
INLINE void block_bytes(const char *a, size_t lda, const int8_t *b, size_t kn, int32_t *c, int rows)
{
    vi acc[MR][2];

    UNROLL
    for (int r = 0; r < rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_si256();
    for (size_t k = 0; k < kn; k += 2) {
        const __m128i *at = (const __m128i *)(b + k * NR);
        vi b0 = _mm256_cvtepi8_epi16(_mm_loadu_si128(at));
        vi b1 = _mm256_cvtepi8_epi16(_mm_loadu_si128(at + 1));
        UNROLL
        for (int r = 0; r < rows; r++) {
            const uint8_t *row = (const uint8_t *)a + (size_t)r * lda + k;
            vi x = _mm256_set1_epi32(row[0] | row[1] << 16);
            acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(x, b0));
            acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(x, b1));
        }
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        _mm256_storeu_si256((vi *)(c + r * NR), acc[r][0]);
        _mm256_storeu_si256((vi *)(c + r * NR + VW), acc[r][1]);
    }
}

INLINE void block(const char *a, size_t lda, const void *b, size_t kn, void *c, int rows,
                  enum kind kind)
{
    if (kind == BYTES)
        block_bytes(a, lda, b, kn, c, rows);
    else
        block_float(a, lda, b, kn, c, rows, kind);
}

#define BLOCK(rows)                                                                                \
    case rows:                                                                                     \
        block(a, lda, b, kn, c, rows, kind);                                                       \
        break

INLINE void blocks(const char *a, size_t lda, const void *b, size_t kn, void *c, size_t rows,
                   enum kind kind)
{
    switch (rows) {
        BLOCK(1);
        BLOCK(2);
        BLOCK(3);
        BLOCK(4);
        BLOCK(5);
        BLOCK(6);
    }
}

#include "engine/cpu/gemm_loop.h"

APART void blocks_f32(const char *a, size_t lda, const void *b, size_t kn, void *c, size_t rows)
{
    blocks(a, lda, b, kn, c, rows, WIDE);
}

APART void blocks_bf16(const char *a, size_t lda, const void *b, size_t kn, void *c, size_t rows)
{
    blocks(a, lda, b, kn, c, rows, HALF);
}

APART void blocks_i8(const char *a, size_t lda, const void *b, size_t kn, void *c, size_t rows)
{
    blocks(a, lda, b, kn, c, rows, BYTES);
}

static void run_f32(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    gemm_loop(j, m0, m1, p0, p1, sizeof(float), blocks_f32);
}

static void run_bf16(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    gemm_loop(j, m0, m1, p0, p1, sizeof(uint16_t), blocks_bf16);
}

static void run_i8(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1)
{
    gemm_loop(j, m0, m1, p0, p1, sizeof(int8_t), blocks_i8);
}

static float peak(size_t n)
{
    vf acc[12], x = vf_set(1.0001f), y = vf_set(0.9999f);

    UNROLL
    for (int i = 0; i < 12; i++) {
        acc[i] = vf_set((float)i);
        HIDE_VALUE(acc[i]);
    }
    for (size_t k = 0; k < n; k++) {
        UNROLL
        for (int i = 0; i < 12; i++)
            acc[i] = vf_fma(acc[i], x, y);
    }
    UNROLL
    for (int i = 1; i < 12; i++)
        acc[0] = vf_add(acc[0], acc[i]);
    return vf_sum(acc[0]);
}
SIMD_END

const struct cpu_gemm cpu_avx2_f32 = {
    .name = "avx2 f32",
    .isa = CPU_AVX2,
    .a = CPU_E_F32,
    .b = CPU_E_F32,
    .mr = MR,
    .nr = NR,
    .kg = 1,
    .kstep = 1,
    .run = run_f32,
    .peak = peak,
    .peak_ops = 12.0 * 8 * 2,
};
const struct cpu_gemm cpu_avx2_bf16 = {
    .name = "avx2 f32 by bf16",
    .isa = CPU_AVX2,
    .a = CPU_E_F32,
    .b = CPU_E_BF16,
    .mr = MR,
    .nr = NR,
    .kg = 1,
    .kstep = 1,
    .run = run_bf16,
    .peak = peak,
    .peak_ops = 12.0 * 8 * 2,
};
const struct cpu_gemm cpu_avx2_i8 = {
    .name = "avx2 int8",
    .isa = CPU_AVX2,
    .a = CPU_E_U8,
    .b = CPU_E_S8,
    .mr = MR,
    .nr = NR,
    .kg = 2,
    .kstep = 2,
    .run = run_i8,
    .peak = peak,
    .peak_ops = 12.0 * 8 * 2,
};
