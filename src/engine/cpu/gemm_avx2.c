/* SPDX-License-Identifier: MIT */
/* gemm_avx2: products with 256-bit registers: f32, and bytes as 16-bit numbers (vpmaddwd,
 * which cannot overflow as vpmaddubsw can).
 *
 * A block is 6 rows by 16 columns: 12 registers of sums, 2 of B, and A broadcast. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target_int.h"

enum { MR = 6, NR = 16 };

SIMD_BEGIN("avx2,fma,f16c")
#include "engine/cpu/simd_avx2_int.h"

#include "engine/cpu/epilogue_int.h"

#define ISA        CPU_AVX2
#define GEMM_F32   cpu_avx2_f32
#define TITLE_F32  "avx2 f32"
#define GEMM_BF16  cpu_avx2_bf16
#define TITLE_BF16 "avx2 f32 by bf16"
#include "engine/cpu/gemm_f32_int.h"

/* Two neighbours of k at a time: u8 and s8 widened to 16 bits, multiplied, added by pairs. */
INLINE vi pair(const uint8_t *p)
{
    return _mm256_set1_epi32(p[0] | p[1] << 16);
}

INLINE vi pairs(const int8_t *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
}

#define GEMM            cpu_avx2_i8
#define TITLE           "avx2 int8"
#define A_ELEM          CPU_E_U8
#define B_ELEM          CPU_E_S8
#define KG              2
#define SUM             vi
#define OPERAND         vi
#define LOAD_A(p)       pair(p)
#define LOAD_B(p)       pairs(p)
#define STEP(sum, x, y) vi_add(sum, _mm256_madd_epi16(x, y))
#include "engine/cpu/gemm_frame_int.h"
SIMD_END
