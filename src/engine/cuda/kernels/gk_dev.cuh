/* SPDX-License-Identifier: MIT */
/* gk_dev: what several kernels need on the device: numbers, GELU, reductions, and the few
 * instructions that CUDA C has no name for. */
#ifndef ENGINE_CUDA_GK_DEV_CUH
#define ENGINE_CUDA_GK_DEV_CUH
#include "engine/cuda/kernels/gk_int.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

/* ---- numbers ---- */
template <typename T> __device__ __forceinline__ float gk_float(T x);
template <> __device__ __forceinline__ float gk_float<__half>(__half x)
{
    return __half2float(x);
}
template <> __device__ __forceinline__ float gk_float<__nv_bfloat16>(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}
template <> __device__ __forceinline__ float gk_float<__nv_fp8_e4m3>(__nv_fp8_e4m3 x)
{
    return float(x);
}

template <typename T> __device__ __forceinline__ T gk_from(float x);
/* Beyond the largest number of 16 bits stands that number: an infinity would spoil a row. */
template <> __device__ __forceinline__ __half gk_from<__half>(float x)
{
    return __float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f));
}
template <> __device__ __forceinline__ __nv_bfloat16 gk_from<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ __forceinline__ __nv_fp8_e4m3 gk_from<__nv_fp8_e4m3>(float x)
{
    return __nv_fp8_e4m3(x); /* saturates at 448 */
}

/* Two numbers as the 32 bits that matrix instructions and stores take. */
template <typename T> __device__ __forceinline__ uint32_t gk_pair(float lo, float hi);
template <> __device__ __forceinline__ uint32_t gk_pair<__half>(float lo, float hi)
{
    __half2 h = __floats2half2_rn(fminf(fmaxf(lo, -65504.0f), 65504.0f),
                                  fminf(fmaxf(hi, -65504.0f), 65504.0f));
    return *reinterpret_cast<uint32_t *>(&h);
}
template <> __device__ __forceinline__ uint32_t gk_pair<__nv_bfloat16>(float lo, float hi)
{
    __nv_bfloat162 h = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&h);
}
template <typename T> __device__ __forceinline__ float2 gk_unpair(uint32_t v);
template <> __device__ __forceinline__ float2 gk_unpair<__half>(uint32_t v)
{
    return __half22float2(*reinterpret_cast<__half2 *>(&v));
}
template <> __device__ __forceinline__ float2 gk_unpair<__nv_bfloat16>(uint32_t v)
{
    return __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 *>(&v));
}

/* ---- activations ---- */
/* x Phi(x) with erf, without branches: erf by Abramowitz and Stegun 7.1.26, whose error is below
 * 1.5e-7, less than a 16-bit result can show. */
__device__ __forceinline__ float gk_gelu(float x)
{
    float z = fabsf(x) * 0.70710678118654752f;
    float t = __fdividef(1.0f, fmaf(0.3275911f, z, 1.0f));
    float p =
        fmaf(fmaf(fmaf(fmaf(1.061405429f, t, -1.453152027f), t, 1.421413741f), t, -0.284496736f), t,
             0.254829592f) *
        t;
    float tail = p * __expf(-z * z); /* 1 - erf(z) */
    float phi = x >= 0.0f ? fmaf(-0.5f, tail, 1.0f) : 0.5f * tail;
    return x * phi;
}
/* The same in eight instructions, for finite x: max(x, 0) - a Phi(-a), where a = |x|.  Phi(-a) is 2
 * to the power of a polynomial in a, whose error in the result is below 7e-7 for all x and below
 * 3e-5 of the result for |x| < 0.5; its last coefficient brings it to 0 however large a is. */
__device__ __forceinline__ float gk_gelu_lean(float x)
{
    float a = fabsf(x), q = fmaf(-4.7330931e-4f, a, 7.0845573e-3f), e;

    q = fmaf(q, a, -5.1827382e-2f);
    q = fmaf(q, a, -0.45999244f);
    q = fmaf(q, a, -1.1507878f);
    q = fmaf(q, a, -1.0000377f);
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(q));
    return fmaf(-a, e, fmaxf(x, 0.0f));
}
__device__ __forceinline__ float gk_gelu_tanh(float x)
{
    float u = 0.7978845608028654f * fmaf(0.044715f * x * x, x, x);
    return x * __fdividef(1.0f, 1.0f + __expf(-2.0f * u));
}
template <int ACT> __device__ __forceinline__ float gk_act(float x)
{
    if (ACT == GK_ACT_GELU)
        return gk_gelu(x);
    if (ACT == GK_ACT_GELU_TANH)
        return gk_gelu_tanh(x);
    if (ACT == GK_ACT_RELU)
        return fmaxf(x, 0.0f);
    return x;
}

/* ---- a warp's sums ---- */
__device__ __forceinline__ float gk_warp_sum(float v)
{
#pragma unroll
    for (int o = 16; o; o >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}
__device__ __forceinline__ float gk_warp_max(float v)
{
#pragma unroll
    for (int o = 16; o; o >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}

/* ---- programmatic dependent launch; nothing before sm_90 ---- */
__device__ __forceinline__ void gk_wait_before(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void gk_let_next(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* ---- memory ---- */
/* From L2: what another kernel wrote must not come out of an old line of L1. */
__device__ __forceinline__ uint4 gk_load16(const void *p)
{
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}

/* ---- mma.sync m16n8k16: c += a b, f32 sums ---- */
template <typename T>
__device__ __forceinline__ void gk_mma(float c[4], const uint32_t a[4], const uint32_t b[2]);
template <>
__device__ __forceinline__ void gk_mma<__half>(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
template <>
__device__ __forceinline__ void gk_mma<__nv_bfloat16>(float c[4], const uint32_t a[4],
                                                      const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* ---- launching ---- */
#ifdef __cplusplus
/* A launch with or without programmatic serialisation. */
template <typename... P, typename... A>
static cudaError_t gk_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                             cudaStream_t s, bool pdl, A... args)
{
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute at[1] = {};

    c.gridDim = grid;
    c.blockDim = block;
    c.dynamicSmemBytes = shared;
    c.stream = s;
    at[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at[0].val.programmaticStreamSerializationAllowed = 1;
    c.attrs = at;
    c.numAttrs = pdl ? 1 : 0;
    return cudaLaunchKernelEx(&c, kernel, P(args)...);
}
#endif
#endif
