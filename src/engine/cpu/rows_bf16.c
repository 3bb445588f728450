/* SPDX-License-Identifier: MIT */
/* rows_bf16: rows_avx512.c once more, with the instructions that round to bfloat16: without
 * them rounding takes as long as the exponential of a softmax. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target_int.h"

#include <math.h>

#define SIMD_CVT_BF16
SIMD_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c")
#include "engine/cpu/simd_avx512_int.h"

#include "engine/cpu/epilogue_int.h"
#include "engine/cpu/rows_frame_int.h"
SIMD_END

const struct cpu_vec cpu_vec_bf16 = { .name = "avx512 bf16", .isa = CPU_BF16, ROWS_FUNCTIONS };
