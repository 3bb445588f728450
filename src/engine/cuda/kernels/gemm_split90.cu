/* SPDX-License-Identifier: MIT */
/* gemm_split90: products of some 64 to 512 rows on Hopper, where whole tiles of gemm_sm90.cu are
 * too few for the SMs.
 *
 * A tile of 128 rows and 64 columns belongs to a cluster of blocks that cut its sums along k
 * between them.  Each block adds up its part in registers, puts it into its shared memory as f32,
 * and then finishes some of the tile's rows: it reads them from all blocks of the cluster, in the
 * order of k, adds bias, applies the activation and stores.
 *
 *   block 0   k 0 .. K/2    [ weights | rows ][ sums ] -> shared |  rows 0 .. 63 of both -> out
 *   block 1   k K/2 .. K    [ weights | rows ][ sums ] -> shared |  rows 64 .. 127 of both -> out
 *
 * A block is two warpgroups of 64 rows each and one thread that keeps the copy engine busy.  The
 * first weights are asked for before the kernel ahead has ended, the others are sent for to L2:
 * reading them is a good part of the time here.  Clusters of four and eight do not fill all SMs, so
 * that many parts pay for few tiles alone.
 *
 * Tried and left out, on a H200: tiles of 128, 192 and 256 columns; half as many stages with two
 * blocks on a SM (too few bytes on their way); parts sent by the copy engine to who finishes them
 * (0.3 us faster for k = 1024, as much slower for k = 4096, for want of a stage).
 *
 * The order of sums depends on the number of parts, and so do the bits of a row: with `invariant`
 * this kernel is not used. */
#include "engine/cuda/kernels/gemm_split90_int.h"

#include "engine/cuda/kernels/gemm_sm90_core.cuh"
#include "engine/cuda/kernels/tensor_map.cuh"

namespace
{
using namespace sm90;

enum {
    ROW_BYTES = 128, /* of a tile in shared memory */
    STEP_BYTES = 32, /* of k in one instruction */
    STEPS = ROW_BYTES / STEP_BYTES,
    BK = ROW_BYTES / 2, /* of k in a stage */
    GROUP = 128,        /* threads of a warpgroup */
    SUMMERS = 2 * GROUP,
    THREADS = SUMMERS + 32,
    ROWS = 128, /* of a tile */
    COLS = 64,
    SUMS = COLS / 2, /* of a thread */
    EACH = 4,        /* columns that a thread finishes at a time */
    ACROSS = COLS / EACH,
    DOWN = SUMMERS / ACROSS, /* rows that are finished at a time */
    WAITS_MAX = 1 << 22,
    /* Shared memory: stages, each rows of A and then rows of W; barriers.  The block's part of the
     * sums stands over the stages. */
    A_BYTES = ROWS * ROW_BYTES,
    STAGE = A_BYTES + COLS * ROW_BYTES,
    STAGES = 8,
    PITCH = (COLS + 8) * 4, /* bytes of a row of a part: no two lanes in one bank */
    PART = ROWS * PITCH,
    BARRIERS_AT = STAGES * STAGE,
    SHARED_BYTES = BARRIERS_AT + 2 * STAGES * 8
};
static_assert(PART <= BARRIERS_AT && SHARED_BYTES <= 227 * 1024, "a block's shared memory");

struct split90_args {
    int m, n, k, splits;
    const int32_t *rows;
    void *out;
    size_t ldout;
    const float *bias;
    enum gk_act act;
    bool f16; /* out; else bf16 */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* Which tile, and which part of k. */
struct split90_work {
    uint32_t base;    /* shared memory */
    int row, col;     /* the tile's first */
    int first, count; /* stages of k */
    int rank, rows;
};

__device__ __forceinline__ uint32_t full_at(const struct split90_work *w, int stage)
{
    return w->base + BARRIERS_AT + stage * 8;
}
__device__ __forceinline__ uint32_t empty_at(const struct split90_work *w, int stage)
{
    return w->base + BARRIERS_AT + (STAGES + stage) * 8;
}

/* A wait that takes seconds is a fault, and is told as one. */
__device__ __forceinline__ void await(uint32_t bar, uint32_t parity)
{
    for (int i = 0; !barrier_try(bar, parity); i++)
        if (i == WAITS_MAX)
            __trap();
}

__device__ __forceinline__ struct split90_work work_of(const struct split90_args *p, uint32_t base)
{
    int tile = blockIdx.x / p->splits, across = p->n / COLS, total = p->k / BK;
    struct split90_work w;

    w.base = base;
    w.rank = (int)cluster_rank();
    w.row = tile / across * ROWS;
    w.col = tile % across * COLS;
    w.first = total * w.rank / p->splits;
    w.count = total * (w.rank + 1) / p->splits - w.first;
    w.rows = p->rows ? min(*p->rows, p->m) : p->m;
    return w;
}

/* The producer: weights do not wait for the kernel ahead, rows do. */
__device__ void produce(const struct split90_work *w, const CUtensorMap *ma, const CUtensorMap *mw)
{
    int ahead = min(w->count, (int)STAGES);

    for (int i = 0; i < ahead; i++) {
        barrier_expect(full_at(w, i), STAGE);
        tile_load(w->base + i * STAGE + A_BYTES, mw, (w->first + i) * BK, w->col, full_at(w, i));
    }
    for (int i = ahead; i < w->count; i++)
        tile_to_l2(mw, (w->first + i) * BK, w->col);
    gk_wait_before();
    for (int i = 0; i < ahead; i++)
        tile_load(w->base + i * STAGE, ma, (w->first + i) * BK, w->row, full_at(w, i));
    for (int i = ahead; i < w->count; i++) {
        int s = i % STAGES;
        uint32_t at = w->base + s * STAGE;

        await(empty_at(w, s), (i / STAGES - 1) & 1);
        barrier_expect(full_at(w, s), STAGE);
        tile_load(at + A_BYTES, mw, (w->first + i) * BK, w->col, full_at(w, s));
        tile_load(at, ma, (w->first + i) * BK, w->row, full_at(w, s));
    }
}

/* The sums of a warpgroup's 64 rows over this block's part of k. */
template <int TYPE>
__device__ __forceinline__ void multiply(float (&d)[SUMS], const struct split90_work *w, int group)
{
    uint32_t a0 = tile_place(w->base + group * (ROWS / 2) * ROW_BYTES);
    uint32_t b0 = tile_place(w->base + A_BYTES);
    int stage = 0, phase = 0, last = 0;

    for (int i = 0; i < w->count; i++) {
        uint32_t a = a0 + stage * (STAGE >> 4), b = b0 + stage * (STAGE >> 4);

        await(full_at(w, stage), phase);
        product_fence();
#pragma unroll
        for (int j = 0; j < STEPS; j++)
            product<TYPE>(d, a + j * STEP_BYTES / 16, b + j * STEP_BYTES / 16, j ? 1 : i);
        product_commit();
        product_wait<1>();
        if (i && threadIdx.x % GROUP == 0)
            barrier_arrive(empty_at(w, last));
        last = stage;
        if (++stage == STAGES) {
            stage = 0;
            phase ^= 1;
        }
    }
    product_wait<0>();
    sums_settled(d);
}

/* A thread's sums to the block's part: rows lane / 4 and that + 8, of each 8 columns two. */
__device__ __forceinline__ void put_part(const float (&d)[SUMS], uint32_t base)
{
    uint32_t lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    uint32_t at = base + row * PITCH + lane % 4 * 8;

    /* nobody reads the stages any more */
    asm volatile("bar.sync 1, %0;" ::"n"((int)SUMMERS) : "memory");
#pragma unroll
    for (int i = 0; i < SUMS / 2; i++)
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at + i / 2 * 32 + i % 2 * 8 * PITCH),
                     "f"(d[2 * i]), "f"(d[2 * i + 1])
                     : "memory");
}

/* From the same place in the shared memory of block `rank`. */
__device__ __forceinline__ float4 block_get4(uint32_t at, int rank)
{
    float4 v;

    asm volatile("{\n\t.reg .b32 there;\n\t"
                 "mapa.shared::cluster.u32 there, %4, %5;\n\t"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n\t}"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at), "r"(rank)
                 : "memory");
    return v;
}
__device__ __forceinline__ float4 sum4(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ __forceinline__ void activate(float4 *x, enum gk_act act)
{
    if (act == GK_ACT_GELU) {
        *x = make_float4(gk_gelu_lean(x->x), gk_gelu_lean(x->y), gk_gelu_lean(x->z),
                         gk_gelu_lean(x->w));
    } else if (act == GK_ACT_GELU_TANH) {
        *x = make_float4(gk_gelu_tanh(x->x), gk_gelu_tanh(x->y), gk_gelu_tanh(x->z),
                         gk_gelu_tanh(x->w));
    } else if (act == GK_ACT_RELU) {
        *x = make_float4(fmaxf(x->x, 0), fmaxf(x->y, 0), fmaxf(x->z, 0), fmaxf(x->w, 0));
    }
}

/* This block's share of the tile's rows, from all parts of them to `out`; a warp takes two rows.
 * Several of a thread are under way together, since another block's memory is far. */
template <int SPLITS>
__device__ __forceinline__ void finish(const struct split90_work *w, const struct split90_args *p,
                                       float4 bias)
{
    constexpr int share = ROWS / SPLITS, at_once = SPLITS >= 4 ? 1 : 4 / SPLITS;
    int col = w->col + threadIdx.x % ACROSS * EACH;
    int first = w->rank * share + threadIdx.x / ACROSS;
    uint32_t in = w->base + threadIdx.x % ACROSS * EACH * 4;

#pragma unroll 1
    for (int i = 0; i < share; i += at_once * DOWN) {
        float4 v[at_once][SPLITS];

#pragma unroll
        for (int j = 0; j < at_once * SPLITS; j++)
            v[j / SPLITS][j % SPLITS] =
                block_get4(in + (first + i + j / SPLITS * DOWN) * PITCH, j % SPLITS);
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            int row = w->row + first + i + j * DOWN;
            float4 x = v[j][0];

#pragma unroll
            for (int q = 1; q < SPLITS; q++)
                x = sum4(x, v[j][q]);
            x = sum4(x, bias);
            activate(&x, p->act);
            if (row < w->rows)
                *(uint2 *)((uint16_t *)p->out + row * p->ldout + col) =
                    p->f16 ? make_uint2(pair_f16(x.x, x.y), pair_f16(x.z, x.w))
                           : make_uint2(gk_pair<__nv_bfloat16>(x.x, x.y),
                                        gk_pair<__nv_bfloat16>(x.z, x.w));
        }
    }
}

template <int TYPE>
__device__ __forceinline__ void consume(const struct split90_work *w, const struct split90_args *p)
{
    int group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP, 0);
    int col = w->col + threadIdx.x % ACROSS * EACH;
    float4 bias = p->bias ? *(const float4 *)(p->bias + col) : make_float4(0, 0, 0, 0);
    float d[SUMS];

    multiply<TYPE>(d, w, group);
    put_part(d, w->base);
    cluster_sync();
    gk_wait_before(); /* `out` may be what the kernel ahead reads */
    if (p->splits == 1)
        finish<1>(w, p, bias);
    else if (p->splits == 2)
        finish<2>(w, p, bias);
    else if (p->splits == 4)
        finish<4>(w, p, bias);
    else
        finish<8>(w, p, bias);
    __syncwarp();
    cluster_sync(); /* the others have read this block's part */
}

__device__ __forceinline__ void begin(const struct split90_work *w)
{
    for (int s = 0; s < STAGES; s++) {
        barrier_init(full_at(w, s), 1);
        barrier_init(empty_at(w, s), 2);
    }
    barrier_init_done();
    proxy_fence();
}
#endif

template <int TYPE>
__global__ void __launch_bounds__(THREADS, 1)
    split_kernel(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mw,
                 const __grid_constant__ struct split90_args p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t raw[];
    struct split90_work w = work_of(&p, kept(shared_address(raw)));
    bool producer = threadIdx.x == SUMMERS;

    gk_let_next();
    if (w.row >= w.rows) { /* so for the whole cluster */
        gk_wait_before();
        return;
    }
    if (producer) {
        map_prefetch(&ma);
        map_prefetch(&mw);
        begin(&w);
    }
    __syncthreads();
    if (threadIdx.x >= SUMMERS) {
        if (producer)
            produce(&w, &ma, &mw);
        __syncwarp();
        cluster_sync();
        cluster_sync();
    } else {
        consume<TYPE>(&w, &p);
    }
#endif
}

/* ---- host ---- */
/* Rows of `cols` numbers, fetched in boxes of BK x box_rows. */
cudaError_t map_make(CUtensorMap *map, enum gk_type type, const void *at, int cols, int rows,
                     size_t ld, int box_rows)
{
    return tensor_map_rows(map, type, at, cols, rows, ld, BK, box_rows,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

template <int TYPE> cudaError_t launch(const struct gk_gemm *g, int splits, cudaStream_t s)
{
    auto kernel = split_kernel<TYPE>;
    int tiles = (g->m + ROWS - 1) / ROWS * (g->n / COLS);
    struct split90_args p = { g->m,   g->n,     g->k,    splits, g->rows,
                              g->out, g->ldout, g->bias, g->act, g->out_type == GK_F16 };
    CUtensorMap ma, mw;
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute at[2] = {};
    cudaError_t e;

    if ((e = map_make(&ma, g->type, g->a, g->k, g->m, g->lda, ROWS)) ||
        (e = map_make(&mw, g->type, g->w, g->k, g->n, g->k, COLS)) ||
        (e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  SHARED_BYTES)))
        return e;
    c.gridDim = dim3(tiles * splits);
    c.blockDim = dim3(THREADS);
    c.dynamicSmemBytes = SHARED_BYTES;
    c.stream = s;
    c.attrs = at;
    at[c.numAttrs].id = cudaLaunchAttributeClusterDimension;
    at[c.numAttrs].val.clusterDim.x = splits;
    at[c.numAttrs].val.clusterDim.y = 1;
    at[c.numAttrs++].val.clusterDim.z = 1;
    if (g->pdl) {
        at[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        at[c.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    return cudaLaunchKernelEx(&c, kernel, ma, mw, p);
}

} // namespace

extern "C" cudaError_t gk_gemm_split90(const struct gk_gemm *g, int splits, cudaStream_t s)
{
    int device, major;
    cudaError_t e;

    if (g->m <= 0 || g->n <= 0)
        return cudaSuccess;
    if ((g->type != GK_F16 && g->type != GK_BF16) ||
        (g->out_type != GK_F16 && g->out_type != GK_BF16) || g->n % COLS || splits < 1 ||
        splits > GK_SPLIT90_MAX || (splits & (splits - 1)) || splits > g->k / BK)
        return cudaErrorInvalidValue;
    if ((e = cudaGetDevice(&device)) ||
        (e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)))
        return e;
    if (major != 9)
        return cudaErrorNoKernelImageForDevice;
    return g->type == GK_F16 ? launch<GK_F16>(g, splits, s) : launch<GK_BF16>(g, splits, s);
}
