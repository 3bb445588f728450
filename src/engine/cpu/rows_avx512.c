/* SPDX-License-Identifier: MIT */
/* rows_avx512: LayerNorm, softmax, quantising and packing of rows with AVX-512. */
#include "engine/cpu/cpu_int.h"
#include "engine/cpu/simd_target_int.h"

#include <math.h>

SIMD_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,fma,f16c")
#include "engine/cpu/simd_avx512_int.h"

#include "engine/cpu/epilogue_int.h"
#include "engine/cpu/rows_frame_int.h"
SIMD_END

const struct cpu_vec cpu_vec_avx512 = { .name = "avx512", .isa = CPU_AVX512, ROWS_FUNCTIONS };
