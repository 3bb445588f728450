/* SPDX-License-Identifier: MIT */
/* gemm_f32: the products of f32 that every width of registers has: weights as f32, or as
 * bfloat16 that is widened when it is loaded, which halves the memory and its traffic.
 *
 * To be included once, where gemm_frame_int.h could be, with ISA, GEMM_F32 and GEMM_BF16 (the
 * structs that are defined), TITLE_F32 and TITLE_BF16 (their names) set. */
#ifndef ENGINE_CPU_GEMM_F32_INT_H
#define ENGINE_CPU_GEMM_F32_INT_H

#define GEMM            GEMM_F32
#define TITLE           TITLE_F32
#define A_ELEM          CPU_E_F32
#define B_ELEM          CPU_E_F32
#define KG              1
#define SUM             vf
#define OPERAND         vf
#define LOAD_A(p)       vf_set(*(p))
#define LOAD_B(p)       vf_load(p)
#define STEP(sum, x, y) vf_fma(x, y, sum)
#include "engine/cpu/gemm_frame_int.h"

#define GEMM            GEMM_BF16
#define TITLE           TITLE_BF16
#define A_ELEM          CPU_E_F32
#define B_ELEM          CPU_E_BF16
#define KG              1
#define SUM             vf
#define OPERAND         vf
#define LOAD_A(p)       vf_set(*(p))
#define LOAD_B(p)       vf_load_bf16(p)
#define STEP(sum, x, y) vf_fma(x, y, sum)
#include "engine/cpu/gemm_frame_int.h"

#endif
