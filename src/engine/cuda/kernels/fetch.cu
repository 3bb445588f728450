/* SPDX-License-Identifier: MIT */
/* fetch: a small batch from pinned memory, by a kernel.
 *
 * A copy engine takes some microseconds to start.  A few kilobytes are read over the bus by
 * threads meanwhile: all loads of a thread are under way before the first is stored. */
#include "engine/cuda/kernels/fetch_int.h"

namespace
{

enum { THREADS = 256, AHEAD = 4 }; /* words of 16 bytes that a thread asks for at once */

__global__ void fetch_kernel(const uint4 *from, uint4 *to, int words)
{
    int first = blockIdx.x * THREADS * AHEAD + threadIdx.x;
    uint4 v[AHEAD];

#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (first + i * THREADS < words)
            v[i] = __ldcv(from + first + i * THREADS);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (first + i * THREADS < words)
            to[first + i * THREADS] = v[i];
}

} // namespace

extern "C" cudaError_t gk_fetch(const void *from, void *to, size_t bytes, cudaStream_t s)
{
    int words = (int)(bytes / sizeof(uint4)), block = THREADS * AHEAD;

    fetch_kernel<<<(words + block - 1) / block, THREADS, 0, s>>>(static_cast<const uint4 *>(from),
                                                                 static_cast<uint4 *>(to), words);
    return cudaGetLastError();
}
