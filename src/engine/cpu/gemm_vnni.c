/* SPDX-License-Identifier: MIT */
/* gemm_vnni: products of bytes with AVX512_VNNI (vpdpbusd), sums in int32.
 *
 * A is unsigned with a zero point for each row, B signed with a scale for each column.
 * Sums of 4096 products of 255 * 127 stay below 2^27, and become f32 in the epilogue. */
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
SIMD_END
