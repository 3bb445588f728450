/* SPDX-License-Identifier: MIT */
/* gemm_lt: products by cuBLASLt, where that library is on the machine.
 *
 * It is found at run time (dlopen) and nothing else depends on it: gk_lt_open() says why it is
 * not there, and the caller goes on with gk_gemm_sm90() and gk_gemm_sm80().  Its fused GELU is
 * only the tanh form, so activations are a pass of our own over the output, in place.
 *
 * Every function that can fail returns false (or -1) with the reason in err.  A struct gk_lt
 * belongs to the device that was current when it was opened and to one thread at a time.
 *
 * Not for gk_gemm.rows (it always makes all m rows) nor for scales by row or column; and which
 * algorithm adds up k in which order is the library's affair: the bits of a row may depend on m. */
#ifndef ENGINE_CUDA_GEMM_LT_INT_H
#define ENGINE_CUDA_GEMM_LT_INT_H
#include "engine/cuda/kernels/gk_int.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GK_LT_TEXT_MAX = 200,
    GK_LT_ALGOS_MAX = 8,
    GK_LT_ALGO_WORDS = 8,
    GK_LT_WORKSPACE_BYTES = 32 << 20 /* what a caller should give */
};

struct gk_lt; /* the library, opened */

/* An algorithm as the library describes it: good only for the same version of it. */
struct gk_lt_algo {
    uint64_t words[GK_LT_ALGO_WORDS];
    double us; /* a product's time where it was measured; else 0 */
};

/* Device memory that algorithms may use for themselves; 256-byte aligned. */
struct gk_lt_room {
    void *p;
    size_t bytes;
};

bool gk_lt_open(struct gk_lt **out, char err[GK_LT_TEXT_MAX]);
void gk_lt_close(struct gk_lt *lt);             /* NULL is fine */
size_t gk_lt_version(const struct gk_lt *lt);   /* 130000: 13.0.0 */
const char *gk_lt_name(const struct gk_lt *lt); /* "libcublasLt.so.13" */
const char *gk_lt_path(const struct gk_lt *lt); /* of its file; "" where that is not known */

/* The algorithms that the library thinks best for g, best first, at most GK_LT_ALGOS_MAX. */
int gk_lt_algos(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
                const struct gk_lt_room *room, struct gk_lt_algo out[GK_LT_ALGOS_MAX],
                char err[GK_LT_TEXT_MAX]);
/* The same, each run and timed on the device (g's output is overwritten), fastest first.  Waits
 * for the stream, which must not be under capture. */
int gk_lt_tune(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
               const struct gk_lt_room *room, cudaStream_t s,
               struct gk_lt_algo out[GK_LT_ALGOS_MAX], char err[GK_LT_TEXT_MAX]);
/* The product.  `bias16` is g->bias in out_type (the library adds no other); when it is NULL and
 * g->bias is not, the pass behind the product adds g->bias.  `algo` NULL: the library's first. */
bool gk_lt_product(struct gk_lt *lt, const struct gk_gemm *g, const void *bias16,
                   const struct gk_lt_algo *algo, const struct gk_lt_room *room, cudaStream_t s,
                   char err[GK_LT_TEXT_MAX]);

/* out = act(out + bias), in place, over g's rows; f16 and bf16.  `with_bias`: add g->bias. */
cudaError_t gk_bias_act(const struct gk_gemm *g, bool with_bias, cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
