/* SPDX-License-Identifier: MIT */
/* gemm_sm90: the tile shapes of the Hopper product, for its test. */
#ifndef ENGINE_CUDA_GEMM_SM90_CUH
#define ENGINE_CUDA_GEMM_SM90_CUH
#include "engine/cuda/kernels/gk_int.h"

/* Tiles of 128 x 128 with warpgroups that take turns, in clusters of two blocks or without; the
 * same of 128 x 192; then rows x columns of a tile that all of a block work on. */
enum gemm90_shape {
    GEMM90_CHOSEN = -1,
    GEMM90_TURNS_PAIR,
    GEMM90_TURNS,
    GEMM90_WIDE_PAIR,
    GEMM90_WIDE,
    GEMM90_128X128,
    GEMM90_64X128,
    GEMM90_64X64,
    GEMM90_SHAPES
};

#ifdef __cplusplus
extern "C" {
#endif
/* gk_gemm_sm90() with a tile shape of the caller's choice. */
cudaError_t gk_gemm_sm90_as(const struct gk_gemm *g, int shape, cudaStream_t s);
#ifdef __cplusplus
}
#endif
#endif
