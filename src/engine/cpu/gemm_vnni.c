/* SPDX-License-Identifier: MIT */
/* gemm_vnni: products of integers with AVX512_VNNI, sums in int32.
 *
 * Bytes (vpdpbusd): A is unsigned with a zero point for each row, B signed with a scale for each
 * column.  Sums of 4096 products of 255 * 127 stay below 2^27, and become f32 in the epilogue.
 *
 * Words (vpdpwssd): as fast as products of bfloat16 and as small in memory, but with 12 or 13 bits
 * for a number, the sign included, instead of 8: rows of A and columns of B share a scale each,
 * that of their Euclidean norm (CPU_WORDS_NORM), which also keeps every sum inside 32 bits.  Sums
 * are exact, so their order is of no matter. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target_int.h"

enum { MR = 14, NR = 32 };

SIMD_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,fma,f16c")
#include "engine/cpu/simd_avx512_int.h"

#include "engine/cpu/epilogue_int.h"

#define GEMM            cpu_vnni_i8
#define TITLE           "avx512 int8"
#define ISA             CPU_VNNI
#define A_ELEM          CPU_E_U8
#define B_ELEM          CPU_E_S8
#define KG              4
#define SUM             vi
#define OPERAND         vi
#define LOAD_A(p)       vi_set_bits(p)
#define LOAD_B(p)       vi_load(p)
#define STEP(sum, x, y) _mm512_dpbusd_epi32(sum, x, y)
#include "engine/cpu/gemm_frame_int.h"

#define GEMM            cpu_vnni_i16
#define TITLE           "avx512 int16"
#define A_ELEM          CPU_E_S16
#define B_ELEM          CPU_E_S16
#define KG              2
#define SUM             vi
#define OPERAND         vi
#define LOAD_A(p)       vi_set_bits(p)
#define LOAD_B(p)       vi_load(p)
#define STEP(sum, x, y) _mm512_dpwssd_epi32(sum, x, y)
#include "engine/cpu/gemm_frame_int.h"
SIMD_END
