/* SPDX-License-Identifier: MIT */
/* gemm_choose_int: the ways there are of making a product on this device, for gemm_choices_int.h.
 *
 * Our own kernels come as functions, so that one that is not there (gk_gemm_sm90() on an A100) is
 * simply NULL.  cuBLASLt adds its algorithms where the library was opened. */
#ifndef ENGINE_CUDA_GEMM_CHOOSE_INT_H
#define ENGINE_CUDA_GEMM_CHOOSE_INT_H
#include "engine/cuda/gemm_choices_int.h"
#include "engine/cuda/gemm_lt_int.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A product, and its bias in out_type or NULL. */
struct gemm_one {
    struct gk_gemm g;
    const void *bias16;
};

struct gemm_ways {
    cudaError_t (*sm90)(const struct gk_gemm *g, cudaStream_t s); /* NULL: not here */
    cudaError_t (*sm80)(const struct gk_gemm *g, cudaStream_t s); /* NULL: not here */
    /* gk_gemm_split90(); NULL: not here */
    cudaError_t (*split90)(const struct gk_gemm *g, int parts, cudaStream_t s);
    /* gk_gemm_skinny(), for few rows; where its parts go, and how many; NULL: not here */
    cudaError_t (*skinny)(const struct gk_gemm *g, float *partial, int splits, cudaStream_t s);
    float *partial;
    int splits;
    int sms;
    struct gk_lt *lt;       /* NULL: not here */
    struct gk_lt_room room; /* for lt */
    cudaStream_t stream;    /* where it is measured */
    /* What is measured: products of one key, of different weights, whose buffers may be
     * overwritten.  They run one behind the other, as often as it takes for a chain. */
    const struct gemm_one *list;
    int count;
    /* (optional) What follows each of them, launched as in a pass: how a product begins and ends
     * beside its neighbours is part of its time. */
    cudaError_t (*after)(void *arg, const struct choose_way *way);
    void *arg;
};

struct choose_key gemm_key(const struct gk_gemm *g);
/* `w` is borrowed, and its list must have the key that is asked for.  Measuring waits for the
 * stream, which must not be under capture. */
struct choose_ops gemm_choose_ops(struct gemm_ways *w);
/* Makes a product in the way chosen; false with the reason in err. */
bool gemm_by(const struct gemm_ways *w, const struct choose_way *way, const struct gemm_one *one,
             cudaStream_t s, char err[GK_LT_TEXT_MAX]);

#ifdef __cplusplus
}
#endif
#endif
