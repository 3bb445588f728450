/* SPDX-License-Identifier: MIT */
/* gk_test: what the tests of single GPU kernels share: random numbers, a plain product to
 * compare with, comparing, timing.  A test prints TAP lines and one line a timing. */
#ifndef TESTS_GPU_GK_TEST_CUH
#define TESTS_GPU_GK_TEST_CUH
#include "engine/cuda/kernels/gk_dev.cuh"

#include <algorithm>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define MUST(call)                                                                                 \
    do {                                                                                           \
        cudaError_t e_ = (call);                                                                   \
        if (e_ != cudaSuccess) {                                                                   \
            printf("Bail out! %s:%d: %s: %s\n", __FILE__, __LINE__, #call,                         \
                   cudaGetErrorString(e_));                                                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static int gk_tests, gk_failed;

static inline void gk_ok(bool good, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void gk_ok(bool good, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    printf("%s %d - ", good ? "ok" : "not ok", ++gk_tests);
    vprintf(fmt, ap);
    printf("\n");
    fflush(stdout);
    va_end(ap);
    gk_failed += !good;
}
static inline int gk_done(void)
{
    printf("1..%d\n%s", gk_tests, gk_failed ? "# FAILED\n" : "");
    return gk_failed != 0;
}

/* ---- numbers: normal ones from a counter, the same on every run ---- */
__device__ __host__ inline uint32_t gk_hash(uint32_t i, uint32_t seed)
{
    i += seed * 0x9e3779b9u;
    i ^= i >> 16;
    i *= 0x85ebca6bu;
    i ^= i >> 13;
    i *= 0xc2b2ae35u;
    return i ^ (i >> 16);
}
__device__ __host__ inline float gk_normal(uint32_t i, uint32_t seed)
{
    float u = (gk_hash(i, seed) + 1.0f) * 2.3283064e-10f;
    float v = gk_hash(i, seed ^ 0x5bd1e995u) * 2.3283064e-10f;
    u = u > 1.0f ? 1.0f : u;
    return sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
}
template <typename T> __global__ void gk_fill_kernel(T *p, size_t n, float sd, uint32_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
         i += (size_t)gridDim.x * blockDim.x)
        p[i] = T(sd * gk_normal((uint32_t)i, seed));
}
template <typename T> static T *gk_random(size_t n, float sd, uint32_t seed)
{
    T *p = NULL;
    MUST(cudaMalloc((void **)&p, n * sizeof(T)));
    gk_fill_kernel<T><<<1024, 256>>>(p, n, sd, seed);
    MUST(cudaGetLastError());
    return p;
}
template <typename T> static T *gk_poisoned(size_t n) /* all NaN */
{
    T *p = NULL;
    MUST(cudaMalloc((void **)&p, n * sizeof(T)));
    MUST(cudaMemset(p, 0xff, n * sizeof(T)));
    return p;
}
template <typename T> static std::vector<T> gk_host(const T *p, size_t n)
{
    std::vector<T> v(n);
    MUST(cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
}

/* ---- a plain product, f32 sums ---- */
template <typename T>
__global__ void gk_plain_kernel(const T *a, size_t lda, const T *w, const float *bias, int m, int n,
                                int k, float *out)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (i >= m || j >= n)
        return;
    float sum = 0;
    for (int x = 0; x < k; x++)
        sum = fmaf(gk_float<T>(a[i * lda + x]), gk_float<T>(w[(size_t)j * k + x]), sum);
    out[(size_t)i * n + j] = sum + (bias ? bias[j] : 0.0f);
}
template <typename T>
static float *gk_plain(const T *a, size_t lda, const T *w, const float *bias, int m, int n, int k)
{
    float *out = NULL;
    MUST(cudaMalloc((void **)&out, (size_t)m * n * sizeof(float)));
    gk_plain_kernel<T><<<dim3((n + 127) / 128, m), 128>>>(a, lda, w, bias, m, n, k, out);
    MUST(cudaGetLastError());
    return out;
}

/* ---- comparing: |out - ref| / |ref|, NaN never passes ---- */
struct gk_diff {
    double relative, largest; /* of norms; of single numbers */
    size_t bad;               /* not finite */
};
template <typename T>
static struct gk_diff gk_compare(const T *out, size_t ldout, const float *ref, int m, int n)
{
    std::vector<T> o = gk_host(out, (size_t)m * ldout);
    std::vector<float> r = gk_host(ref, (size_t)m * n);
    struct gk_diff d = { 0, 0, 0 };
    double num = 0, den = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double x = float(o[i * ldout + j]), y = r[(size_t)i * n + j], e = x - y;
            if (!isfinite(x))
                d.bad++;
            num += e * e;
            den += y * y;
            d.largest = fabs(e) > d.largest ? fabs(e) : d.largest;
        }
    d.relative = d.bad ? INFINITY : sqrt(num / (den > 0 ? den : 1));
    return d;
}

/* ---- timing: median of `times` runs in ms, device events; fn(i) so that buffers can rotate ---- */
template <typename F> static float gk_time(F fn, int warm = 3, int times = 15)
{
    std::vector<float> ms;
    cudaEvent_t a, b;
    MUST(cudaEventCreate(&a));
    MUST(cudaEventCreate(&b));
    for (int i = 0; i < warm + times; i++) {
        float t;
        MUST(cudaEventRecord(a));
        fn(i);
        MUST(cudaEventRecord(b));
        MUST(cudaEventSynchronize(b));
        MUST(cudaEventElapsedTime(&t, a, b));
        if (i >= warm)
            ms.push_back(t);
    }
    std::sort(ms.begin(), ms.end());
    MUST(cudaEventDestroy(a));
    MUST(cudaEventDestroy(b));
    return ms[ms.size() / 2];
}
#endif
