/* SPDX-License-Identifier: MIT */
/* fetch: a small batch from pinned memory, by a kernel. */
#ifndef ENGINE_CUDA_KERNELS_FETCH_INT_H
#define ENGINE_CUDA_KERNELS_FETCH_INT_H
#include "engine/cuda/kernels/gk_int.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies `bytes` (a multiple of 16, both places aligned so) from pinned host memory. */
cudaError_t gk_fetch(const void *from, void *to, size_t bytes, cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
