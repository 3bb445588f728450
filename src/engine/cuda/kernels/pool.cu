/* SPDX-License-Identifier: MIT */
/* pool: from the last hidden states to vectors and scores, in f32.
 *
 * A CTA pools a sequence: a thread has 8 neighbouring columns of every RG-th row, where RG is
 * how many times a row's columns go into the CTA's threads:
 *
 *     thread   0 .. C-1     C .. 2C-1    ...          C = hidden / 8
 *     rows     0, RG, 2RG   1, RG+1 ...
 *
 * so that the rows of one long sequence are read by all threads at once.  The RG sums of a
 * column are then added in order: the result depends on the sequence and the width alone.  Every
 * kind is a weighted sum of some rows divided by something, or the largest of some rows; the
 * definitions are those of engine/pool.c.  The whole vector stays in shared memory until it is
 * normalised.
 *
 * A dense layer has a warp for each output, which does SEQUENCES sequences with one reading of
 * its weights; the first weights are read before the kernel before has ended. */
#include "engine/cuda/kernels/gk_dev.cuh"

namespace
{

enum {
    LANE = 8, /* columns of a thread */
    POOL_THREADS = 512,
    HIDDEN_MAX = POOL_THREADS * LANE,
    ROWS_AHEAD = 8, /* rows a thread reads before it adds the first */
    DENSE_WARPS = 8,
    DENSE_AHEAD = 8, /* loads of weights before the first is used */
    SEQUENCES = 4,
    CARVEOUT = 100 /* as gemm_skinny.cu's: SMs in a chain of small kernels keep one division */
};

struct pool_args {
    const int32_t *count;
    const void *x;
    const uint32_t *starts, *skip;
    float *out;
    size_t ld;
    int hidden, kind_count;
    bool normalize;
    uint32_t kinds; /* 4 bits each */
};

/* Rows from .. to of a sequence, what they are multiplied and their sum is divided by. */
struct rows_wanted {
    uint32_t from, to;
    bool weighted, largest;
    float divisor;
};

/* Where a prompt leaves no row at all, sums are of nothing and CLS is the first row. */
__device__ struct rows_wanted rows_of(int kind, uint32_t count, uint32_t skip)
{
    struct rows_wanted r = { min(skip, count), count, false, false, 1.0f };
    uint32_t kept = count - r.from;

    switch (kind) {
    case GK_POOL_MEAN:
        r.divisor = fmaxf((float)kept, 1.0f);
        break;
    case GK_POOL_MEAN_SQRT:
        r.divisor = fmaxf(sqrtf((float)kept), 1.0f);
        break;
    case GK_POOL_WEIGHTED: { /* the sum of the places from .. to, counted from 1 */
        uint64_t n = count, s = r.from, sum = (n * (n + 1) - s * (s + 1)) / 2;
        r.weighted = true;
        r.divisor = sum ? (float)sum : 1.0f;
        break;
    }
    case GK_POOL_MAX:
        r.largest = true;
        break;
    case GK_POOL_CLS:
        r.from = kept ? r.from : 0;
        r.to = r.from + 1;
        break;
    default: /* GK_POOL_LAST */
        r.from = kept ? count - 1 : count;
    }
    return r;
}

__device__ __forceinline__ float larger(float was, float x) /* a NaN stays */
{
    return x > was || x != x ? x : was;
}

/* v = 8 columns of rows from + first, from + first + step, ...; ROWS_AHEAD of them are read at
 * once, the last one again where there are no more, which then counts nothing. */
template <typename T>
__device__ __forceinline__ void pool_rows(const T *x, size_t ld, struct rows_wanted r,
                                          uint32_t first, uint32_t step, float v[LANE])
{
#pragma unroll
    for (int i = 0; i < LANE; i++)
        v[i] = r.largest ? -INFINITY : 0.0f;
#pragma unroll 1
    for (uint32_t t = r.from + first; t < r.to; t += step * ROWS_AHEAD) {
        uint4 u[ROWS_AHEAD];

#pragma unroll
        for (int a = 0; a < ROWS_AHEAD; a++)
            u[a] = gk_load16(x + min(t + a * step, r.to - 1) * ld);
#pragma unroll
        for (int a = 0; a < ROWS_AHEAD; a++) {
            uint32_t at = t + a * step, w[4] = { u[a].x, u[a].y, u[a].z, u[a].w };
            float by = at >= r.to ? 0.0f : r.weighted ? (float)(at + 1) : 1.0f;

#pragma unroll
            for (int i = 0; i < LANE; i++) {
                float2 f = gk_unpair<T>(w[i / 2]);
                float y = i % 2 ? f.y : f.x;
                v[i] = r.largest ? larger(v[i], y) : fmaf(y, by, v[i]);
            }
        }
    }
}

/* One kind's vector into shared memory. */
template <typename T>
__device__ __forceinline__ void pool_kind(const T *x, const struct pool_args &p,
                                          struct rows_wanted r, float *part, float *vector)
{
    int lanes = (p.hidden + LANE - 1) / LANE, width = lanes * LANE, groups = POOL_THREADS / lanes;
    int column = threadIdx.x % lanes * LANE, group = threadIdx.x / lanes;
    float v[LANE];

    if (group < groups) {
        float4 *to = (float4 *)(part + group * width + column);

        pool_rows<T>(x + column, p.ld, r, group, groups, v);
        to[0] = make_float4(v[0], v[1], v[2], v[3]);
        to[1] = make_float4(v[4], v[5], v[6], v[7]);
    }
    __syncthreads();
#pragma unroll 1
    for (int c = threadIdx.x; c < p.hidden; c += POOL_THREADS) {
        float sum = part[c];

#pragma unroll 2
        for (int g = 1; g < groups; g++)
            sum = r.largest ? larger(sum, part[g * width + c]) : sum + part[g * width + c];
        vector[c] = __fdividef(sum, r.divisor);
    }
    __syncthreads();
}

/* max(|v|, 1e-12), over the CTA. */
template <int THREADS> __device__ __forceinline__ float cta_norm(const float *v, int n)
{
    __shared__ float shared[THREADS / 32];
    float sum = 0;

#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += THREADS)
        sum = fmaf(v[i], v[i], sum);
    sum = gk_warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < THREADS / 32; i++)
        sum += shared[i];
    return fmaxf(sqrtf(sum), 1e-12f);
}

template <typename T>
__global__ void __launch_bounds__(POOL_THREADS, 2) pool_kernel(const struct pool_args p)
{
    extern __shared__ float4 room[];
    float *part = (float *)room, *vector = part + POOL_THREADS * LANE;
    uint32_t s = blockIdx.x, start, count, skip;
    int n = p.kind_count * p.hidden;

    gk_let_next();
    gk_wait_before();
    start = __ldcg(p.starts + s);
    count = __ldcg(p.starts + s + 1) - start;
    skip = p.skip ? __ldcg(p.skip + s) : 0;
    if (p.count && s >= *(volatile const int32_t *)p.count)
        return;
    for (int i = 0; i < p.kind_count; i++)
        pool_kind<T>((const T *)p.x + start * p.ld, p, rows_of(p.kinds >> 4 * i & 15, count, skip),
                     part, vector + i * p.hidden);
    float by = p.normalize ? 1.0f / cta_norm<POOL_THREADS>(vector, n) : 1.0f;
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += POOL_THREADS)
        p.out[(size_t)s * n + i] = vector[i] * by;
}

/* ---- dense ---- */
struct dense_args {
    int sequences;
    const int32_t *count;
    int in, n;
    const float *x, *w, *bias;
    enum gk_dense_act act;
    float *out;
};

__device__ __forceinline__ float dense_act(enum gk_dense_act act, float x)
{
    switch (act) {
    case GK_DENSE_TANH:
        return tanhf(x);
    case GK_DENSE_RELU:
        return x > 0 || x != x ? x : 0.0f;
    case GK_DENSE_GELU:
        return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    default:
        return x;
    }
}
__device__ __forceinline__ int sequences_there(const int32_t *count, int most)
{
    return count ? min(*(volatile const int32_t *)count, most) : most;
}

/* V numbers a load: 4 where rows begin on 16 bytes, else 1. */
template <int V> struct alignas(V * 4) floats {
    float f[V];
};
template <int V>
__device__ __forceinline__ void read_row(const float *w, int from, int in, struct floats<V> *v)
{
#pragma unroll
    for (int a = 0; a < DENSE_AHEAD; a++) {
        int at = from + (a * 32 + threadIdx.x % 32) * V;
        v[a] = at < in ? *(const struct floats<V> *)(w + at) : floats<V>{};
    }
}
template <int V>
__global__ void __launch_bounds__(DENSE_WARPS * 32) dense_kernel(const struct dense_args p)
{
    constexpr int STEP = DENSE_AHEAD * 32 * V;
    int j = blockIdx.x * DENSE_WARPS + threadIdx.x / 32, first = blockIdx.y * SEQUENCES, last;
    const float *row = p.w + (size_t)min(j, p.n - 1) * p.in;
    float sum[SEQUENCES] = {}, bias = p.bias ? p.bias[min(j, p.n - 1)] : 0.0f;
    struct floats<V> w[DENSE_AHEAD], x[DENSE_AHEAD];

    gk_let_next();
    read_row<V>(row, 0, p.in, w);
    gk_wait_before();
    last = min(sequences_there(p.count, p.sequences), first + (int)SEQUENCES);
    for (int from = 0; from < p.in; from += STEP) {
        if (from)
            read_row<V>(row, from, p.in, w);
#pragma unroll
        for (int s = 0; s < SEQUENCES; s++) {
            if (first + s >= last)
                break;
            read_row<V>(p.x + (size_t)(first + s) * p.in, from, p.in, x);
#pragma unroll
            for (int i = 0; i < DENSE_AHEAD * V; i++)
                sum[s] = fmaf(w[i / V].f[i % V], x[i / V].f[i % V], sum[s]);
        }
    }
#pragma unroll
    for (int s = 0; s < SEQUENCES; s++) {
        float y = gk_warp_sum(sum[s]) + bias;

        if (first + s < last && j < p.n && threadIdx.x % 32 == 0)
            p.out[(size_t)(first + s) * p.n + j] = dense_act(p.act, y);
    }
}
__global__ void __launch_bounds__(DENSE_WARPS * 32) dense_norm_kernel(const struct dense_args p)
{
    float *v = p.out + (size_t)blockIdx.x * p.n, norm;

    gk_let_next();
    gk_wait_before();
    if ((int)blockIdx.x >= sequences_there(p.count, p.sequences))
        return;
    norm = cta_norm<DENSE_WARPS * 32>(v, p.n);
    for (int i = threadIdx.x; i < p.n; i += DENSE_WARPS * 32)
        v[i] /= norm;
}

} // namespace

extern "C" cudaError_t gk_pool(const struct gk_pool *p, cudaStream_t s)
{
    struct pool_args a = { p->count, p->x,      p->starts,     p->skip,      p->out,
                           p->ld,    p->hidden, p->kind_count, p->normalize, 0 };
    void (*fn)(struct pool_args) =
        p->type == GK_F16 ? pool_kernel<__half> : pool_kernel<__nv_bfloat16>;
    size_t shared = sizeof(float) * (HIDDEN_MAX + (size_t)p->kind_count * p->hidden);
    cudaError_t e;

    if ((p->type != GK_F16 && p->type != GK_BF16) || p->sequences < 1 || p->kind_count < 1 ||
        p->kind_count > GK_POOLS_MAX || p->hidden < 1 || p->hidden > HIDDEN_MAX)
        return cudaErrorInvalidValue;
    for (int i = 0; i < p->kind_count; i++)
        a.kinds |= (uint32_t)p->kinds[i] << 4 * i;
    e = cudaFuncSetAttribute(fn, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(fn, cudaFuncAttributePreferredSharedMemoryCarveout, CARVEOUT);
    return e == cudaSuccess ? gk_launch(fn, dim3((unsigned)p->sequences), dim3(POOL_THREADS),
                                        shared, s, p->pdl, a)
                            : e;
}

extern "C" cudaError_t gk_dense(const struct gk_dense *d, cudaStream_t s)
{
    struct dense_args a = {
        d->sequences, d->count, d->in, d->n, d->x, d->w, d->bias, d->act, d->out
    };
    bool wide = d->in % 4 == 0 && (uintptr_t)d->w % 16 == 0 && (uintptr_t)d->x % 16 == 0;
    dim3 grid((unsigned)((d->n + DENSE_WARPS - 1) / DENSE_WARPS),
              (unsigned)((d->sequences + SEQUENCES - 1) / SEQUENCES));
    cudaError_t e;

    if (d->sequences < 1 || d->in < 1 || d->n < 1)
        return cudaErrorInvalidValue;
    e = gk_launch(wide ? dense_kernel<4> : dense_kernel<1>, grid, dim3(DENSE_WARPS * 32), 0, s,
                  d->pdl, a);
    if (e == cudaSuccess && d->normalize)
        e = gk_launch(dense_norm_kernel, dim3((unsigned)d->sequences), dim3(DENSE_WARPS * 32), 0, s,
                      d->pdl, a);
    return e;
}
