/* SPDX-License-Identifier: MIT */
/* calib: the largest |number| of a matrix, once at load.
 *
 * A block takes a row, each thread pairs of its numbers; the block's largest is raised into place
 * by an atomic of integers, which order floats that are not negative as the floats are. */
#include "engine/cuda/calib.h"
#include "engine/cuda/gk_dev.cuh"

namespace
{

enum { THREADS = 256, WARPS = THREADS / 32 };

template <typename T>
__global__ void amax_kernel(const T *x, size_t ld, int n, unsigned int *largest)
{
    __shared__ float part[WARPS];
    const uint32_t *row = reinterpret_cast<const uint32_t *>(x + blockIdx.x * ld);
    float most = 0.0f;

    for (int i = threadIdx.x; i < n / 2; i += THREADS) {
        float2 v = gk_unpair<T>(row[i]);
        most = fmaxf(most, fmaxf(fabsf(v.x), fabsf(v.y)));
    }
    most = gk_warp_max(most);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = most;
    __syncthreads();
    if (threadIdx.x < 32) {
        most = gk_warp_max(threadIdx.x < WARPS ? part[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0)
            atomicMax(largest, __float_as_uint(most));
    }
}

__global__ void scale_kernel(float *x, int count, float factor, float least)
{
    int i = blockIdx.x * THREADS + threadIdx.x;

    if (i < count)
        x[i] = fmaxf(x[i] * factor, least);
}

} // namespace

extern "C" cudaError_t gk_amax(enum gk_type type, const void *x, size_t ld, int m, int n,
                               float *largest, cudaStream_t s)
{
    unsigned int *bits = reinterpret_cast<unsigned int *>(largest);

    if (type == GK_F16)
        amax_kernel<__half><<<m, THREADS, 0, s>>>(static_cast<const __half *>(x), ld, n, bits);
    else if (type == GK_BF16)
        amax_kernel<__nv_bfloat16>
            <<<m, THREADS, 0, s>>>(static_cast<const __nv_bfloat16 *>(x), ld, n, bits);
    else
        return cudaErrorInvalidValue;
    return cudaGetLastError();
}

extern "C" cudaError_t gk_scale(float *x, int count, float factor, float least, cudaStream_t s)
{
    scale_kernel<<<(count + THREADS - 1) / THREADS, THREADS, 0, s>>>(x, count, factor, least);
    return cudaGetLastError();
}
