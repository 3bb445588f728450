/* SPDX-License-Identifier: MIT */
/* choose_gemm: the ways there are of making a product on this device, for choose.h.
 *
 * Our own kernels come as functions, so that one that is not there (gk_gemm_sm90() on an A100) is
 * simply NULL.  cuBLASLt adds its algorithms where the library was opened. */
#ifndef ENGINE_CUDA_CHOOSE_GEMM_H
#define ENGINE_CUDA_CHOOSE_GEMM_H
#include "engine/cuda/choose.h"
#include "engine/cuda/gemm_lt.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gemm_ways {
    cudaError_t (*sm90)(const struct gk_gemm *g, cudaStream_t s); /* NULL: not here */
    cudaError_t (*sm80)(const struct gk_gemm *g, cudaStream_t s); /* NULL: not here */
    struct gk_lt *lt;                                             /* NULL: not here */
    struct gk_lt_room room;                                       /* for lt */
    cudaStream_t stream;                                          /* where it is measured */
    /* What is measured: a product with buffers that may be overwritten (m its bucket's rows or
     * fewer), and its bias in out_type or NULL. */
    const struct gk_gemm *g;
    const void *bias16;
};

struct choose_key gemm_key(const struct gk_gemm *g);
/* `w` is borrowed, and its g must have the key that is asked for. */
struct choose_ops gemm_choose_ops(struct gemm_ways *w);
/* Makes a product in the way chosen; false with the reason in err. */
bool gemm_by(const struct gemm_ways *w, const struct choose_way *way, const struct gk_gemm *g,
             const void *bias16, cudaStream_t s, char err[GK_LT_TEXT_MAX]);

#ifdef __cplusplus
}
#endif
#endif
