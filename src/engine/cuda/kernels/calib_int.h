/* SPDX-License-Identifier: MIT */
/* calib: how far the numbers of a matrix reach and what they are in the mean, for fp8. */
#ifndef ENGINE_CUDA_KERNELS_CALIB_INT_H
#define ENGINE_CUDA_KERNELS_CALIB_INT_H
#include "engine/cuda/kernels/gk_int.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raises *largest (device, not negative) to the largest |number| of x [m][ld], of which n columns
 * count; n and ld are multiples of GK_PAD.  f16 and bf16. */
cudaError_t gk_amax(enum gk_type type, const void *x, size_t ld, int m, int n, float *largest,
                    cudaStream_t s);
/* Each of `count` numbers times `factor`, and never below `least`. */
cudaError_t gk_scale(float *x, int count, float factor, float least, cudaStream_t s);
/* mean[n]: of the rows of x [m][ld], column by column; n and ld as above. */
cudaError_t gk_mean(enum gk_type type, const void *x, size_t ld, int m, int n, float *mean,
                    cudaStream_t s);
/* The bias [n] of a product whose weights w [n][k] became w8 by the scales of its rows, such that
 * the row `mean` [k] gives what it gave: to = from + (w - w8 * scale) mean. */
cudaError_t gk_rebias(const float *w, const void *w8, const float *scale, int n, int k,
                      const float *mean, const float *from, float *to, cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
