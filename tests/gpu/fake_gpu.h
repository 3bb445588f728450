/* SPDX-License-Identifier: MIT */
/* fake_gpu: a GPU without hardware, to test the host side of the CUDA engine on any machine.
 *
 * "Device" memory is that of the host, every call works at once, kernels are plain loops over
 * the definitions of gk_int.h.  What is captured is kept as a list of launches that a graph
 * repeats.  Memory that the contract leaves undefined is filled with NaN, so that who reads it
 * shows. */
#ifndef TESTS_GPU_FAKE_GPU_H
#define TESTS_GPU_FAKE_GPU_H
#include "engine/cuda/kernels/calib_int.h"
#include "engine/cuda/kernels/fetch_int.h"
#include "engine/cuda/kernels/gk_int.h"

enum fake_kind {
    FAKE_GEMM,
    FAKE_LT, /* all m rows, whatever is there */
    FAKE_SKINNY,
    FAKE_ATTN,
    FAKE_EMBED,
    FAKE_NORM,
    FAKE_POOL,
    FAKE_DENSE,
    FAKE_FETCH
};
struct fake_launch {
    enum fake_kind kind;
    union {
        struct gk_gemm gemm;
        struct gk_attn attn;
        struct gk_embed embed;
        struct gk_norm norm;
        struct gk_pool pool;
        struct gk_dense dense;
        struct {
            const void *from;
            void *to;
            size_t bytes;
        } fetch;
    };
    float *partial; /* FAKE_SKINNY */
    int splits;
    const void *bias16; /* FAKE_LT; NULL: none */
    double us;          /* that it takes by the events' clock */
};
/* What an environment variable says, or `us`. */
double fake_us(const char *variable, double us);
/* Runs it, or keeps it while a stream is captured. */
cudaError_t fake_launch(const struct fake_launch *l);
void fake_run(const struct fake_launch *l); /* fake_kernels.c */

#endif
