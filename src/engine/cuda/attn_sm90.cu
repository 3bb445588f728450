/* SPDX-License-Identifier: MIT */
/* attn_sm90: flash attention over packed sequences by wgmma and the tensor copy engine; sm_90.
 *
 * A block takes one tile of one head: one warpgroup for 64 query rows, two for 128, which share
 * what is copied.  Queries go straight from memory into registers, as A operands; keys and values
 * come through a ring of stages, 64 rows of both each, in the layout that wgmma reads (rows of 128
 * or 64 bytes, swizzled by the copy engine).  There is no warp that only copies: thread 0 refills
 * the stage that was used up one block ago, after it has started its own products.  For the short
 * sequences that are usual all blocks fit the ring and are on their way before the first is used.
 *
 *   copy engine   | K0 V0 | K1 V1 | K2 V2 |            | K3 V3 |
 *   tensor cores          | q k0^T |        | q k1^T | p0 v0 |        | q k2^T | p1 v1 | ...
 *   the warpgroup                  | softmax 0 |     | softmax 1 ...  |        | softmax 2 ...
 *
 * While a warpgroup does its softmax the tensor cores work for the others: four warpgroups live on
 * a SM (four blocks, or two of two), as many as the registers allow.
 *
 * What is slow, as measured on an H200 with 2 x 8192 tokens, 16 heads of 64: products alone take
 * 0.70 ms (the chip's rate), softmax alone 0.67 ms, both 1.13 ms, with the copies 1.24 ms.  Short
 * sequences (108 tokens) take as long without any arithmetic: there it is the latency of a block's
 * life that counts, which is why nothing stands before the first copy that could stand behind it.
 * Tried and not faster: blocks of 128 keys (three warpgroups a SM); two sets of scores, with the
 * next products running under the exponentials (two or three); two warpgroups taking turns with the
 * tensor cores; blocks that stay and fetch the next tile ahead by a warp of their own (some 5 %
 * better for the shortest sequences, 10 % worse for long ones, 0.8 us worse for a single text).
 *
 * Rows behind the end of a sequence belong to the next one or to nobody.  They are copied (of a
 * last block of up to 32 rows only 32), their scores are masked, and such rows of v are overwritten
 * by zeros in shared memory, for 0 times NaN is NaN. */
#include "engine/cuda/attn.cuh"

#include <cuda.h>

namespace
{

enum {
    GROUP = 128,        /* threads of a warpgroup */
    SMALL_ROWS = 32,    /* rows of a small copy */
    SPIN_MAX = 1 << 20, /* asking that often means that the copy never comes */
    BARRIER_BYTES = 16  /* full and empty, a stage */
};

template <int D, int WGS> struct shape {
    static constexpr int stages = D == 64 ? (WGS == 1 ? 3 : 5) : 4;
    static constexpr int matrix = ATTN_KEYS * D * 2; /* bytes of k, or v, of a stage */
    static constexpr int stage = 2 * matrix;
    static constexpr int pairs_at = stages * (stage + BARRIER_BYTES);
    static constexpr int bytes = pairs_at + ATTN_BIAS_BYTES;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
/* ---- wgmma: d (+)= a b; a in registers, b in shared memory ---- */
/* clang-format off */
#define ATTN_WGMMA_64(d, a, b, add, turned, kind) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." kind "." kind " {" \
                 "%0, %1, %2, %3, %4, %5, %6, %7, " \
                 "%8, %9, %10, %11, %12, %13, %14, %15, " \
                 "%16, %17, %18, %19, %20, %21, %22, %23, " \
                 "%24, %25, %26, %27, %28, %29, %30, %31}, " \
                 "{%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}" \
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), \
                   "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), \
                   "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), \
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), \
                   "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), \
                   "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), \
                   "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]), \
                   "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]) \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), \
                   "r"((int)(add)), "n"(turned))

#define ATTN_WGMMA_32(d, a, b, add, turned, kind) \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32." kind "." kind " {" \
                 "%0, %1, %2, %3, %4, %5, %6, %7, " \
                 "%8, %9, %10, %11, %12, %13, %14, %15}, " \
                 "{%16, %17, %18, %19}, %20, p, 1, 1, %22;\n}" \
                 : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), \
                   "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]), \
                   "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), \
                   "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]) \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), \
                   "r"((int)(add)), "n"(turned))
/* clang-format on */

template <typename T> struct is_half {
    static constexpr bool value = false;
};
template <> struct is_half<__half> {
    static constexpr bool value = true;
};

template <typename T, int TURNED>
__device__ __forceinline__ void wgmma(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b,
                                      bool add)
{
    if constexpr (is_half<T>::value)
        ATTN_WGMMA_64(d, a, b, add, TURNED, "f16");
    else
        ATTN_WGMMA_64(d, a, b, add, TURNED, "bf16");
}
template <typename T, int TURNED>
__device__ __forceinline__ void wgmma(float (&d)[4][4], const uint32_t (&a)[4], uint64_t b,
                                      bool add)
{
    if constexpr (is_half<T>::value)
        ATTN_WGMMA_32(d, a, b, add, TURNED, "f16");
    else
        ATTN_WGMMA_32(d, a, b, add, TURNED, "bf16");
}
__device__ __forceinline__ void wgmma_open(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_close(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> __device__ __forceinline__ void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/* The compiler takes what a wgmma writes for written at once: nothing that reads it may be moved
 * before the wait. */
template <int N> __device__ __forceinline__ void hold(float (&d)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            asm volatile("" : "+f"(d[n][i])::"memory");
}

/* A matrix of rows of D numbers, in groups of 8 rows, as wgmma is told of it: the address, the way
 * from group to group, the swizzle.  It holds for k, whose rows are columns of the operand, and
 * (turned) for v, whose rows are its rows; a row being one swizzled line, no second way is used. */
template <int D> __device__ __forceinline__ uint64_t descriptor(uint32_t at)
{
    const uint64_t group = 8 * D * 2 >> 4, swizzle = D == 64 ? 1 : 2; /* 128 or 64 bytes */
    return (uint64_t)((at & 0x3ffff) >> 4) | group << 16 | group << 32 | swizzle << 62;
}

/* ---- barriers and copies ---- */
__device__ __forceinline__ void barrier_init(uint32_t bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t bar, uint32_t parity)
{
    uint32_t done = 0;

    for (int i = 0; !done; i++) {
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.b32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(bar), "r"(parity)
                     : "memory");
        if (i > SPIN_MAX)
            __trap();
    }
}
__device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap *map, int column, int row,
                                         uint32_t bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(bar)
                 : "memory");
}

/* Where things are for one block of the grid. */
struct place {
    const CUtensorMap *big, *small; /* boxes of ATTN_KEYS and SMALL_ROWS rows */
    uint32_t base, bars;            /* the ring; its barriers: all full ones, all empty ones */
    int first, count;               /* the sequence */
    int k_column, v_column;
};

/* Starts the copy of a block of keys and values into its stage; one thread. */
template <int D, int WGS> __device__ __forceinline__ void fetch(const struct place &p, int block)
{
    int slot = block % shape<D, WGS>::stages, row = p.first + block * ATTN_KEYS;
    int rows = p.count - block * ATTN_KEYS > SMALL_ROWS ? ATTN_KEYS : SMALL_ROWS;
    const CUtensorMap *map = rows == ATTN_KEYS ? p.big : p.small;
    uint32_t bar = p.bars + 8 * slot, to = p.base + slot * shape<D, WGS>::stage;

    barrier_expect(bar, rows * 2 * D * 2);
    copy_box(to, map, p.k_column, row, bar);
    copy_box(to + shape<D, WGS>::matrix, map, p.v_column, row, bar);
}

/* Zeros for the rows of v from `valid` on.  Each warpgroup does it for itself. */
template <int D> __device__ __forceinline__ void clear_rows(uint32_t v_at, int valid)
{
    const int end = ATTN_KEYS * D * 2;

    for (int i = valid * D * 2 + 16 * (int)(threadIdx.x % GROUP); i < end; i += 16 * GROUP)
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(v_at + i), "r"(0) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    if (threadIdx.x < GROUP)
        asm volatile("bar.sync 1, 128;" ::: "memory");
    else
        asm volatile("bar.sync 2, 128;" ::: "memory");
}

/* ---- the products of a block ---- */
template <typename T, int D>
__device__ __forceinline__ void scores(float (&s)[ATTN_GROUPS][4], const uint32_t (&q)[D / 16][4],
                                       uint32_t k_at)
{
    uint64_t k = descriptor<D>(k_at);

#pragma unroll
    for (int i = 0; i < D / 16; i++)
        wgmma<T, 0>(s, q[i], k + i * (32 >> 4), i > 0);
    wgmma_close();
}
template <typename T, int D>
__device__ __forceinline__ void gather(float (&o)[D / 8][4], const uint32_t (&p)[ATTN_STEPS][4],
                                       uint32_t v_at)
{
    uint64_t v = descriptor<D>(v_at);

#pragma unroll
    for (int i = 0; i < ATTN_STEPS; i++)
        wgmma<T, 1>(o, p[i], v + i * (16 * D * 2 >> 4), true);
    wgmma_close();
}

/* A warp's rows: what they have summed up. */
template <int D> struct rows {
    float o[D / 8][4], m[2], l[2];
};

/* Scores to probabilities, in place.  The product of the block before may still be adding to o:
 * it is waited for before o is touched, and in any case before the end. */
template <int D, bool REL, bool TAIL>
__device__ __forceinline__ void softmax(float (&s)[ATTN_GROUPS][4], struct rows<D> &r, float scale,
                                        const float2 *pairs, int key, int query, int valid)
{
    struct attn_line at = { scale, 0.0f };
    float top[2];

    if (REL)
        at = attn_bias(s, scale, pairs, key, query);
    if (TAIL)
        attn_mask(s, valid);
    if (attn_exceeds<REL>(s, at, r.m, top)) {
        wgmma_wait<0>();
        hold(r.o);
        attn_move<D>(top, r.m, r.l, r.o);
    }
    attn_powers<REL, TAIL>(s, at, r.m, r.l, valid);
    wgmma_wait<0>();
    hold(r.o);
}

/* All keys of the sequence for this warp's 16 rows, the first being `query`. */
template <typename T, int D, int WGS, bool REL>
__device__ __forceinline__ void walk(const struct place &p, struct rows<D> &r,
                                     const uint32_t (&q)[D / 16][4], const float2 *pairs,
                                     float scale, int query)
{
    const int last = (p.count - 1) / ATTN_KEYS, valid = p.count - last * ATTN_KEYS;
    float s[ATTN_GROUPS][4];
    uint32_t w[ATTN_STEPS][4], at = p.base, bar = p.bars, used = 0, parity = 0, used_parity = 1;

    barrier_wait(bar, 0);
    wgmma_open();
    scores<T, D>(s, q, at);
    wgmma_wait<0>();
    hold(s);
    for (int j = 0; j < last; j++) {
        uint32_t v_at = at + shape<D, WGS>::matrix, now = bar + 8 * shape<D, WGS>::stages;
        softmax<D, REL, false>(s, r, scale, pairs, j * ATTN_KEYS, query, ATTN_KEYS);
        attn_pack<T>(w, s);
        if (j > 0 && (threadIdx.x & 31) == 0)
            barrier_arrive(used); /* softmax() has waited for the product of block j - 1 */
        at += shape<D, WGS>::stage;
        bar += 8;
        if (bar == p.bars + 8 * shape<D, WGS>::stages) {
            at = p.base;
            bar = p.bars;
            parity ^= 1;
        }
        barrier_wait(bar, parity);
        wgmma_open();
        scores<T, D>(s, q, at);
        gather<T, D>(r.o, w, v_at);
        if (threadIdx.x == 0 && j > 0 && j - 1 + shape<D, WGS>::stages <= last) {
            barrier_wait(used, used_parity);
            fetch<D, WGS>(p, j - 1 + shape<D, WGS>::stages);
        }
        __syncwarp();
        used = now;
        used_parity ^= now == p.bars + 8 * shape<D, WGS>::stages;
        wgmma_wait<1>();
        hold(s);
    }
    if (valid < ATTN_KEYS) {
        clear_rows<D>(at + shape<D, WGS>::matrix, valid);
        softmax<D, REL, true>(s, r, scale, pairs, last * ATTN_KEYS, query, valid);
    } else {
        softmax<D, REL, false>(s, r, scale, pairs, last * ATTN_KEYS, query, ATTN_KEYS);
    }
    attn_pack<T>(w, s);
    wgmma_open();
    gather<T, D>(r.o, w, at + shape<D, WGS>::matrix);
    wgmma_wait<0>();
    hold(r.o);
}

/* Thread 0 opens the barriers and starts the first copies; the bias comes in meanwhile. */
template <int D, int WGS> __device__ __forceinline__ void begin(const struct place &p, int groups)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(p.big) : "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(p.small) : "memory");
    for (int i = 0; i < shape<D, WGS>::stages; i++) {
        barrier_init(p.bars + 8 * i, 1);
        barrier_init(p.bars + 8 * (shape<D, WGS>::stages + i), groups * GROUP / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    gk_wait_before();
    for (int i = 0; i < shape<D, WGS>::stages && i * ATTN_KEYS < p.count; i++)
        fetch<D, WGS>(p, i);
}
#endif /* sm_90a */

template <typename T, int D, int WGS, bool REL>
__global__ void __launch_bounds__(WGS *GROUP, 4 / WGS)
    attn_wgmma(const __grid_constant__ struct attn_args a, const __grid_constant__ CUtensorMap big,
               const __grid_constant__ CUtensorMap small)
{
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ __align__(1024) uint8_t shared[];
    float2 *pairs = (float2 *)(shared + shape<D, WGS>::pairs_at);
    struct gk_tile tile;
    int head, warp = (int)threadIdx.x >> 5;

    if (!attn_work(a, tile, head)) {
        if (blockIdx.x == 0)
            gk_wait_before();
        return;
    }
    gk_let_next();
    struct place p;
    p.big = &big;
    p.small = &small;
    p.base = (uint32_t)__cvta_generic_to_shared(shared);
    p.bars = p.base + shape<D, WGS>::stages * shape<D, WGS>::stage;
    p.first = (int)tile.first;
    p.count = (int)tile.count;
    p.k_column = (a.heads + head) * D;
    p.v_column = (2 * a.heads + head) * D;
    int left = p.count - (int)tile.q, groups = WGS == 2 && left > GROUP / 2 ? 2 : 1;
    if (threadIdx.x == 0)
        begin<D, WGS>(p, groups);
    __syncwarp();
    if (REL)
        attn_bias_fill(pairs, a.rel + (size_t)head * (2 * GK_REACH + 1), threadIdx.x, WGS * GROUP);
    gk_wait_before();

    int query = (int)tile.q + 16 * warp;
    const uint16_t *q0 = (const uint16_t *)a.qkv + (size_t)head * D;
    uint32_t q[D / 16][4];
    struct rows<D> r = {
    };
    r.m[0] = r.m[1] = -INFINITY;
    attn_load_q<D>(q, q0 + ((size_t)p.first + min(query, p.count - 1)) * a.ld, a.ld,
                   p.count - query);
    __syncthreads();
    if (warp / 4 >= groups)
        return;
    walk<T, D, WGS, REL>(p, r, q, pairs, a.scale, query);
    attn_store<T, D>(a, r.o, r.l, (size_t)p.first + query, p.count - query, head);
#else
    (void)a;
    (void)big;
    (void)small;
#endif
}

/* ---- launching ---- */
typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                              const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                              const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                              CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/* The driver's cuTensorMapEncodeTiled(), asked of the runtime: nothing is linked for it. */
encode_fn encoder(void)
{
    static encode_fn known; /* the same whoever asks first */
    cudaDriverEntryPointQueryResult found;
    void *fn = NULL;

    if (!known &&
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, cudaEnableDefault,
                                         &found) == cudaSuccess &&
        found == cudaDriverEntryPointSuccess)
        known = (encode_fn)fn;
    return known;
}

/* qkv as a matrix of which the copy engine takes boxes of `rows` rows and one head. */
cudaError_t map_make(const struct gk_attn *a, int rows, CUtensorMap *out)
{
    encode_fn encode = encoder();
    cuuint64_t size[2] = { (cuuint64_t)3 * a->heads * a->head_dim, (cuuint64_t)a->row_cap };
    cuuint64_t stride[1] = { a->ld * 2 };
    cuuint32_t box[2] = { (cuuint32_t)a->head_dim, (cuuint32_t)rows }, step[2] = { 1, 1 };

    if (!encode)
        return cudaErrorNotSupported;
    return encode(out,
                  a->type == GK_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                    : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                  2, (void *)a->qkv, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  a->head_dim == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

template <typename T, int D, int WGS, bool REL>
cudaError_t launch(const struct gk_attn *a, cudaStream_t s)
{
    const int bytes = shape<D, WGS>::bytes;
    CUtensorMap big, small;
    cudaError_t e = map_make(a, ATTN_KEYS, &big);

    if (e == cudaSuccess)
        e = map_make(a, SMALL_ROWS, &small);
    if (e == cudaSuccess)
        e = cudaFuncSetAttribute(attn_wgmma<T, D, WGS, REL>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (e != cudaSuccess)
        return e;
    return gk_launch(attn_wgmma<T, D, WGS, REL>, dim3((unsigned)a->tile_max * (unsigned)a->heads),
                     WGS * GROUP, bytes, s, a->pdl, attn_args_of(a), big, small);
}

template <typename T, int D> cudaError_t launch_of(const struct gk_attn *a, cudaStream_t s)
{
    if (a->tile_rows == GK_ATTN_ROWS_LONG)
        return a->rel ? launch<T, D, 2, true>(a, s) : launch<T, D, 2, false>(a, s);
    return a->rel ? launch<T, D, 1, true>(a, s) : launch<T, D, 1, false>(a, s);
}

} // namespace

extern "C" cudaError_t gk_attn_sm90(const struct gk_attn *a, cudaStream_t s)
{
    int device = 0, major = 0;

    if (!attn_fits(a))
        return cudaErrorInvalidValue;
    if (a->tile_max == 0)
        return cudaSuccess;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
        major != 9)
        return cudaErrorNoKernelImageForDevice;
    if (a->head_dim == 64)
        return a->type == GK_F16 ? launch_of<__half, 64>(a, s) : launch_of<__nv_bfloat16, 64>(a, s);
    return a->type == GK_F16 ? launch_of<__half, 32>(a, s) : launch_of<__nv_bfloat16, 32>(a, s);
}
