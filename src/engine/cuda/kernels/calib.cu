/* SPDX-License-Identifier: MIT */
/* calib: the largest |number| of a matrix, the mean of its rows, and biases that make up for the
 * rounding of weights; once at load.
 *
 * Largest: a block takes a row, each thread pairs of its numbers; the block's largest is raised
 * into place by an atomic of integers, which order floats that are not negative as the floats are.
 * Mean: a thread has two neighbouring columns and goes down the rows.  Bias: a block takes a row
 * of weights. */
#include "engine/cuda/kernels/calib_int.h"
#include "engine/cuda/kernels/gk_dev.cuh"

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

template <typename T> __global__ void mean_kernel(const T *x, size_t ld, int m, int n, float *mean)
{
    int pair = blockIdx.x * THREADS + threadIdx.x;
    float2 sum = make_float2(0.0f, 0.0f);

    if (pair >= n / 2)
        return;
    for (int row = 0; row < m; row++) {
        float2 v = gk_unpair<T>(reinterpret_cast<const uint32_t *>(x + row * ld)[pair]);
        sum.x += v.x;
        sum.y += v.y;
    }
    mean[2 * pair] = sum.x / m;
    mean[2 * pair + 1] = sum.y / m;
}

__global__ void rebias_kernel(const float *w, const __nv_fp8_e4m3 *w8, const float *scale, int k,
                              const float *mean, const float *from, float *to)
{
    __shared__ float part[WARPS];
    size_t at = (size_t)blockIdx.x * k;
    float by = scale[blockIdx.x], sum = 0.0f;

    for (int i = threadIdx.x; i < k; i += THREADS)
        sum += (w[at + i] - by * gk_float<__nv_fp8_e4m3>(w8[at + i])) * mean[i];
    sum = gk_warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = gk_warp_sum(threadIdx.x < WARPS ? part[threadIdx.x] : 0.0f);
        if (threadIdx.x == 0)
            to[blockIdx.x] = from[blockIdx.x] + sum;
    }
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

extern "C" cudaError_t gk_mean(enum gk_type type, const void *x, size_t ld, int m, int n,
                               float *mean, cudaStream_t s)
{
    int blocks = (n / 2 + THREADS - 1) / THREADS;

    if (type == GK_F16)
        mean_kernel<__half>
            <<<blocks, THREADS, 0, s>>>(static_cast<const __half *>(x), ld, m, n, mean);
    else if (type == GK_BF16)
        mean_kernel<__nv_bfloat16>
            <<<blocks, THREADS, 0, s>>>(static_cast<const __nv_bfloat16 *>(x), ld, m, n, mean);
    else
        return cudaErrorInvalidValue;
    return cudaGetLastError();
}

extern "C" cudaError_t gk_rebias(const float *w, const void *w8, const float *scale, int n, int k,
                                 const float *mean, const float *from, float *to, cudaStream_t s)
{
    rebias_kernel<<<n, THREADS, 0, s>>>(w, static_cast<const __nv_fp8_e4m3 *>(w8), scale, k, mean,
                                        from, to);
    return cudaGetLastError();
}
