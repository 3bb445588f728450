/* SPDX-License-Identifier: MIT */
/* rows_avx2: LayerNorm, softmax, quantising and packing of rows with AVX2. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target_int.h"

#include <math.h>

SIMD_BEGIN("avx2,fma,f16c")
#include "engine/cpu/simd_avx2_int.h"

#include "engine/cpu/epilogue_int.h"
#include "engine/cpu/rows_frame_int.h"
SIMD_END

const struct cpu_vec cpu_vec_avx2 = { .name = "avx2", .isa = CPU_AVX2, ROWS_FUNCTIONS };
