/* SPDX-License-Identifier: MIT */
/* gemm_lt_act: out = act(out + bias) in place, behind a product that could not do it itself.
 *
 * A pass over memory and nothing else: each thread has eight numbers at a time, 16 bytes in and
 * 16 out, and a block takes whole stretches of a row so that bias comes from the cache. */
#include "engine/cuda/gemm_lt_int.h"
#include "engine/cuda/kernels/gk_dev.cuh"

namespace
{

enum { THREADS = 256, EACH = 8 /* numbers of a thread */, WAVES = 8 /* blocks a multiprocessor */ };

template <typename T, int ACT>
__global__ void __launch_bounds__(THREADS)
    bias_act(T *out, size_t ld, int m, const int32_t *rows, int chunks, const float *bias)
{
    uint32_t total, step = gridDim.x * THREADS;

    gk_wait_before();
    total = (uint32_t)(rows ? *rows : m) * (uint32_t)chunks;
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < total; i += step) {
        uint32_t row = i / (uint32_t)chunks, col = i % (uint32_t)chunks * EACH;
        uint4 *at = (uint4 *)(out + row * ld + col), v = *at;
        uint32_t w[4] = { v.x, v.y, v.z, v.w };

#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 x = gk_unpair<T>(w[j]);

            if (bias) {
                float2 b = __ldg((const float2 *)(bias + col + j * 2));

                x.x += b.x;
                x.y += b.y;
            }
            if (ACT == GK_ACT_GELU)
                w[j] = gk_pair<T>(gk_gelu_lean(x.x), gk_gelu_lean(x.y));
            else
                w[j] = gk_pair<T>(gk_act<ACT>(x.x), gk_act<ACT>(x.y));
        }
        *at = make_uint4(w[0], w[1], w[2], w[3]);
    }
    gk_let_next();
}

template <typename T, int ACT>
cudaError_t start(const struct gk_gemm *g, const float *bias, unsigned blocks, cudaStream_t s)
{
    return gk_launch(bias_act<T, ACT>, dim3(blocks), dim3(THREADS), 0, s, g->pdl, (T *)g->out,
                     g->ldout, g->m, g->rows, g->n / EACH, bias);
}

template <typename T>
cudaError_t start_act(const struct gk_gemm *g, const float *bias, unsigned blocks, cudaStream_t s)
{
    switch (g->act) {
    case GK_ACT_NONE:
        return start<T, GK_ACT_NONE>(g, bias, blocks, s);
    case GK_ACT_GELU:
        return start<T, GK_ACT_GELU>(g, bias, blocks, s);
    case GK_ACT_GELU_TANH:
        return start<T, GK_ACT_GELU_TANH>(g, bias, blocks, s);
    case GK_ACT_RELU:
        return start<T, GK_ACT_RELU>(g, bias, blocks, s);
    }
    return cudaErrorInvalidValue;
}

} // namespace

extern "C" cudaError_t gk_bias_act(const struct gk_gemm *g, bool with_bias, cudaStream_t s)
{
    const float *bias = with_bias ? g->bias : NULL;
    size_t total = g->m > 0 ? (size_t)g->m * (size_t)(g->n / EACH) : 0;
    int device = 0, sms = 0;
    unsigned blocks;
    cudaError_t e = cudaGetDevice(&device);

    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    if (e != cudaSuccess)
        return e;
    if (g->m < 0 || g->n % GK_PAD || total > UINT32_MAX)
        return cudaErrorInvalidValue;
    if (!total || (!bias && g->act == GK_ACT_NONE))
        return cudaSuccess;
    blocks = (unsigned)((total + THREADS - 1) / THREADS);
    if (blocks > (unsigned)(sms * WAVES))
        blocks = (unsigned)(sms * WAVES);
    if (g->out_type == GK_F16)
        return start_act<__half>(g, bias, blocks, s);
    if (g->out_type == GK_BF16)
        return start_act<__nv_bfloat16>(g, bias, blocks, s);
    return cudaErrorNotSupported;
}
