/* SPDX-License-Identifier: MIT */
/* gemm_avx512: products of f32 with 512-bit registers.
 *
 * A block is 14 rows by 32 columns: 28 registers of sums, 2 of B, and A broadcast from
 * memory.  28 independent sums cover the latency of the multiply-add on every CPU (4 cycles
 * at two a cycle want 8). */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target_int.h"

enum { MR = 14, NR = 32 };

SIMD_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")
#include "engine/cpu/simd_avx512_int.h"

#include "engine/cpu/epilogue_int.h"

#define ISA        CPU_AVX512
#define GEMM_F32   cpu_avx512_f32
#define TITLE_F32  "avx512 f32"
#define GEMM_BF16  cpu_avx512_bf16
#define TITLE_BF16 "avx512 f32 by bf16"
#include "engine/cpu/gemm_f32_int.h"
SIMD_END
