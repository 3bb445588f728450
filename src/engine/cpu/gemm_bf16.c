/* SPDX-License-Identifier: MIT */
/* gemm_bf16: products of bfloat16 with AVX512_BF16 (vdpbf16ps), sums in f32.
 *
 * The shape of gemm_avx512.c; one instruction multiplies two neighbours of k, so A is
 * broadcast as pairs and B holds pairs. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target_int.h"

#define SIMD_CVT_BF16
enum { MR = 14, NR = 32 };

SIMD_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")
#include "engine/cpu/simd_avx512_int.h"

#include "engine/cpu/epilogue_int.h"

#define GEMM            cpu_dpbf16
#define TITLE           "avx512 bf16"
#define ISA             CPU_BF16
#define A_ELEM          CPU_E_BF16
#define B_ELEM          CPU_E_BF16
#define KG              2
#define SUM             vf
#define OPERAND         vi
#define LOAD_A(p)       vi_set_bits(p)
#define LOAD_B(p)       vi_load(p)
#define STEP(sum, x, y) _mm512_dpbf16_ps(sum, (__m512bh)(x), (__m512bh)(y))
#include "engine/cpu/gemm_frame_int.h"
SIMD_END
