/* SPDX-License-Identifier: MIT */
/* gemm_split90: products of some 64 to 2048 rows on Hopper, cut along k between the blocks of a
 * cluster. */
#ifndef ENGINE_CUDA_KERNELS_GEMM_SPLIT90_INT_H
#define ENGINE_CUDA_KERNELS_GEMM_SPLIT90_INT_H
#include "engine/cuda/kernels/gk_int.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { GK_SPLIT90_MAX = 8 };

/* As gk_gemm_sm90(), for f16 and bf16, in tiles of 128 rows and 64 columns whose
 * sums are cut into `splits` parts (1, 2, 4, 8; at most k / 64).  A row has the same bits in
 * every batch that is made with the same number of parts. */
cudaError_t gk_gemm_split90(const struct gk_gemm *g, int splits, cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
