/* SPDX-License-Identifier: MIT */
/* gemm_sm90: products on Hopper, with scales, bias and activation in the same pass.
 *
 * One block a SM stays for the whole product and walks over tiles of the output, 128 x 128 or
 * 128 x 192 each.  A block is one producer thread that keeps the copy engine busy, and two
 * warpgroups that take turns:
 *
 *   copy engine   A and W of tile 0, 1, 2 ... -> ring of stages in shared memory
 *   warpgroup 0   [ sums 0 ][ epilogue 0 ......][ sums 2 ][ epilogue 2 ......]
 *   warpgroup 1             [ sums 1 ][ epilogue 1 ......][ sums 3 ][ epilogue 3 ...
 *
 * so that the tensor cores have work from one while the other applies bias and GELU and stores.
 * (With both on one tile of 128 x 256 the tensor cores stood still for 3000 clocks of 20000 at k =
 * 1024, 7000 with GELU, and letting one fall behind the other by what the ring can hold won
 * little of it back.)  Two blocks with neighbouring rows form a cluster: each fetches half of the
 * W tile for both.  Tiles are handed out columns first: all of W stays in L2 and A comes from
 * memory once.  Wide tiles read shared memory and L2 less for a sum.  They pay most with GELU,
 * beside which the sums of a 128 x 128 tile take a tenth longer; theirs fill 192 of a thread's
 * 240 registers, and their results leave in two goes.
 *
 * Where there are too few tiles to give each SM two, both warpgroups share a tile (128X128), or a
 * block has one warpgroup and a smaller tile.
 *
 * Results leave a warp 16 rows and 64 columns at a time, through 2 KiB of shared memory for each
 * such chunk of its tile: the copy engine stores it whenever it comes to it, behind its loads, and
 * no warp waits before its next tile.  A warp whose 16 rows are not all there stores those that
 * are itself.
 *
 * Every sum runs over k in steps of 32 bytes from the first to the last, in one accumulator,
 * whatever the tile: the bits of a row depend on nothing but the row. */
#include "engine/cuda/kernels/gemm_sm90_int.cuh"

#include "engine/cuda/kernels/gemm_sm90_core.cuh"
#include "engine/cuda/kernels/tensor_map.cuh"

namespace
{
using namespace sm90;

enum {
    ROW_BYTES = 128, /* of a tile in shared memory; k steps of a stage: ROW_BYTES / STEP_BYTES */
    STEP_BYTES = 32, /* of k in one instruction */
    STEPS = ROW_BYTES / STEP_BYTES,
    GROUP = 128, /* threads of a warpgroup */
    PART = 64,   /* rows of one instruction */
    CHUNK = 64,  /* columns that leave at once */
    WARP_ROWS = 16,
    CHUNK_BYTES = WARP_ROWS * ROW_BYTES,
    SHARED_MAX = 227 * 1024,
    BARRIER_BYTES = 256,
    STAGES_MAX = 8,
    /* registers a thread: 65536 for a SM, with 168 for each of 384 threads at the start */
    PRODUCER_REGS = 40,
    CONSUMER_REGS = 232,
    PRODUCER_REGS_WIDE = 24,
    CONSUMER_REGS_WIDE = 240,
    WIDE = 192 /* columns */
};

struct gemm90_args {
    int m, n, k;
    const int32_t *rows;
    void *out;
    size_t out_stride; /* bytes */
    const float *bias, *a_scale, *w_scale, *out_scale;
    int a_scale_step, w_scale_step; /* 0 or 1 */
    enum gk_type out_type;
    enum gk_act act;
    bool pdl;
};

/* A tile shape: GROUPS warpgroups of PARTS * 64 rows each and BN columns, each warpgroup with tiles
 * of its own (APART) or all with one; and where things are in a block's shared memory.  One
 * warpgroup alone has few instructions to a stage, so there a stage has two columns of 128 bytes
 * (`sub`). */
template <int GROUPS, int PARTS, int BN, bool APART> struct layout {
    static constexpr int sub = GROUPS == 1 ? 2 : 1;
    static constexpr int group_rows = PARTS * PART;
    static constexpr int rows = APART ? group_rows : GROUPS * group_rows;
    static constexpr int a_bytes = rows * ROW_BYTES * sub;
    static constexpr int stage = a_bytes + BN * ROW_BYTES * sub;   /* A, then W */
    static constexpr int chunks = PARTS * BN / CHUNK;              /* of a warp */
    static constexpr int rooms = BN == WIDE ? chunks / 2 : chunks; /* for a chunk each */
    static constexpr int staging = GROUPS * 4 * rooms * CHUNK_BYTES;
    static constexpr int facts = GROUPS * 2 * BN * 4; /* bias and scales of columns */
    static constexpr int room = (SHARED_MAX - BARRIER_BYTES - staging - facts) / stage;
    static constexpr int stages = room < STAGES_MAX ? room : STAGES_MAX;
    static constexpr int staging_at = stages * stage;
    static constexpr int facts_at = staging_at + staging;
    static constexpr int barriers_at = facts_at + facts;
    static constexpr int bytes = barriers_at + BARRIER_BYTES;
};

/* A place in the ring: a stage and which time round. */
struct gemm90_ring {
    uint32_t stage, phase;
};
template <int STAGES> __device__ __forceinline__ void ring_next(struct gemm90_ring *r)
{
    if (++r->stage == STAGES) {
        r->stage = 0;
        r->phase ^= 1;
    }
}

/* What a block walks over. */
struct gemm90_walk {
    uint32_t base;      /* shared memory */
    uint32_t barriers;  /* the first of them */
    int first, step;    /* tiles: of this cluster, and clusters there are */
    int tiles, tiles_n; /* tiles count CL blocks of rows as one */
    int k_blocks, rank; /* rank: block in the cluster */
    int rows;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* Barriers: a stage is full, a stage is empty, and whose turn to multiply it is. */
__device__ __forceinline__ uint32_t full_at(uint32_t barriers, int stage)
{
    return barriers + stage * 8;
}
__device__ __forceinline__ uint32_t empty_at(uint32_t barriers, int stage)
{
    return barriers + (STAGES_MAX + stage) * 8;
}
__device__ __forceinline__ uint32_t turn_at(uint32_t barriers, int group)
{
    return barriers + (2 * STAGES_MAX + group) * 8;
}

template <class L, int GROUPS, bool APART, int CL> __device__ void barriers_begin(uint32_t barriers)
{
    for (int s = 0; s < L::stages; s++) {
        barrier_init(full_at(barriers, s), 1);
        barrier_init(empty_at(barriers, s), (APART ? 1 : GROUPS) * CL);
    }
    for (int g = 0; g < GROUPS; g++)
        barrier_init(turn_at(barriers, g), 1);
    barrier_init_done();
}

/* The producer, one thread.  In a cluster each block loads a share of W, for all. */
template <int TYPE, class L, int BN, int CL>
__device__ void produce(const struct gemm90_walk *w, const CUtensorMap *ma, const CUtensorMap *mw)
{
    constexpr int bk = TYPE == GK_E4M3 ? ROW_BYTES : ROW_BYTES / 2;
    constexpr int share = BN / CL;
    struct gemm90_ring r = { 0, 1 };

    for (int t = w->first; t < w->tiles; t += w->step) {
        int row = (t / w->tiles_n * CL + w->rank) * L::rows;
        int col = t % w->tiles_n * BN + w->rank * share;
        for (int kb = 0; kb < w->k_blocks; kb++) {
            uint32_t full = full_at(w->barriers, r.stage);
            uint32_t a_at = w->base + r.stage * L::stage;
            uint32_t w_at = a_at + L::a_bytes + w->rank * share * ROW_BYTES;
            barrier_wait(empty_at(w->barriers, r.stage), r.phase);
            barrier_expect(full, L::stage);
#pragma unroll
            for (int j = 0; j < L::sub; j++) {
                int x = (kb * L::sub + j) * bk;
                if (CL > 1)
                    tile_load_all(w_at + j * BN * ROW_BYTES, mw, x, col, full, (1 << CL) - 1);
                else
                    tile_load(w_at + j * BN * ROW_BYTES, mw, x, col, full);
                tile_load(a_at + j * L::rows * ROW_BYTES, ma, x, row, full);
            }
            ring_next<L::stages>(&r);
        }
    }
}

/* Weights of this block's first tile on their way to L2, before the kernel ahead has ended. */
template <int TYPE, class L, int BN, int CL>
__device__ void weights_ahead(const struct gemm90_walk *w, const CUtensorMap *map)
{
    constexpr int bk = TYPE == GK_E4M3 ? ROW_BYTES : ROW_BYTES / 2;

    if (w->first < w->tiles_n)
        for (int kb = 0; kb < w->k_blocks * L::sub; kb++)
            tile_to_l2(map, kb * bk, w->first * BN + w->rank * (BN / CL));
}

/* Where a consumer warpgroup is. */
struct gemm90_place {
    struct gemm90_ring r;
    uint32_t last; /* the stage that its last instructions read */
    bool there;    /* the stage at r was seen to be full */
    uint32_t lane; /* thread of the warpgroup */
};

template <int CL>
__device__ __forceinline__ void stage_free(const struct gemm90_walk *w,
                                           const struct gemm90_place *at)
{
    if (CL > 1 && at->lane < CL)
        barrier_arrive_at(empty_at(w->barriers, at->last), at->lane);
    if (CL == 1 && at->lane == 0)
        barrier_arrive(empty_at(w->barriers, at->last));
}

/* The sums of a warpgroup's rows and all columns of the tile.  Whether the next stage is there is
 * asked as soon as the instructions for this one are on their way; a stage is given back when those
 * for the next one are. */
template <int TYPE, class L, int PARTS, int BN, bool APART, int CL>
__device__ __forceinline__ void multiply(float (&d)[PARTS][BN / 2], const struct gemm90_walk *w,
                                         int group, struct gemm90_place *at)
{
    uint32_t a0 = tile_place(w->base + (APART ? 0 : group) * L::group_rows * ROW_BYTES);
    uint32_t b0 = tile_place(w->base + L::a_bytes);

    for (int kb = 0; kb < w->k_blocks; kb++) {
        uint32_t a = a0 + at->r.stage * (L::stage >> 4), b = b0 + at->r.stage * (L::stage >> 4);
        uint32_t now = at->r.stage;
        if (!at->there)
            barrier_wait(full_at(w->barriers, now), at->r.phase);
        product_fence();
#pragma unroll
        for (int i = 0; i < L::sub * STEPS; i++)
#pragma unroll
            for (int h = 0; h < PARTS; h++) {
                int j = i / STEPS, in = i % STEPS * STEP_BYTES;
                product<TYPE>(d[h], a + ((j * L::rows + h * PART) * ROW_BYTES + in) / 16,
                              b + (j * BN * ROW_BYTES + in) / 16, i ? 1 : kb);
            }
        product_commit();
        ring_next<L::stages>(&at->r);
        at->there = barrier_test(full_at(w->barriers, at->r.stage), at->r.phase);
        product_wait<1>();
        if (kb)
            stage_free<CL>(w, at);
        at->last = now;
    }
    if (APART && at->lane == 0)
        barrier_arrive(turn_at(w->barriers, 1 - group));
    product_wait<0>();
#pragma unroll
    for (int h = 0; h < PARTS; h++)
        sums_settled(d[h]);
    stage_free<CL>(w, at);
}

/* ---- epilogue ---- */
/* The sums a thread holds of a chunk: rows lane / 4 and that + 8, of each 8 columns two. */
enum { CHUNK_SUMS = CHUNK / 2, CHUNK_PAIRS = CHUNK / 8 };

/* Bias and scale of a tile's columns, which each warpgroup fetches before its sums, a thread a
 * column or two, and puts into shared memory after them: [2][BN]. */
template <int BN> struct column_facts {
    static constexpr int each = (BN + GROUP - 1) / GROUP;
    float bias[each], scale[each];
};
template <int TYPE, int BN>
__device__ __forceinline__ void facts_fetch(struct column_facts<BN> *f, const struct gemm90_args *p,
                                            int col)
{
#pragma unroll
    for (int i = 0; i < f->each; i++) {
        int c = col + threadIdx.x % GROUP + i * GROUP;
        bool there = c < p->n && threadIdx.x % GROUP + i * GROUP < BN;
        f->bias[i] = p->bias && there ? p->bias[c] : 0.0f;
        if (TYPE == GK_E4M3)
            f->scale[i] = p->w_scale && there ? p->w_scale[c * p->w_scale_step] : 1.0f;
    }
}
template <int TYPE, int BN>
__device__ __forceinline__ void facts_share(const struct column_facts<BN> *f, uint32_t at,
                                            int group)
{
    group_sync(group); /* everybody is done with those of the tile before */
#pragma unroll
    for (int i = 0; i < f->each; i++) {
        int c = threadIdx.x % GROUP + i * GROUP;
        if (c < BN) {
            shared_put(at + c * 4, f->bias[i]);
            if (TYPE == GK_E4M3)
                shared_put(at + (BN + c) * 4, f->scale[i]);
        }
    }
    group_sync(group);
}

template <int ACT> __device__ __forceinline__ void chunk_act(float *d)
{
#pragma unroll
    for (int i = 0; i < CHUNK_SUMS; i++)
        d[i] = ACT == GK_ACT_GELU ? gk_gelu_lean(d[i]) : gk_act<ACT>(d[i]);
}

/* Those of the columns of a chunk that a thread has; `at`: of the first of them. */
struct chunk_facts {
    float2 bias[CHUNK_PAIRS], scale[CHUNK_PAIRS];
};
template <int TYPE, int BN>
__device__ __forceinline__ void facts_get(struct chunk_facts *f, uint32_t at)
{
#pragma unroll
    for (int j = 0; j < CHUNK_PAIRS; j++) {
        f->bias[j] = shared_get2(at + j * 32);
        if (TYPE == GK_E4M3)
            f->scale[j] = shared_get2(at + BN * 4 + j * 32);
    }
}

/* Scales and bias, in place. */
template <int TYPE>
__device__ __forceinline__ void chunk_scale(float *d, const struct chunk_facts *f, float2 a_scale)
{
#pragma unroll
    for (int i = 0; i < CHUNK_SUMS; i++) {
        float bias = i & 1 ? f->bias[i / 4].y : f->bias[i / 4].x;
        if (TYPE == GK_E4M3) {
            float scale = i & 1 ? f->scale[i / 4].y : f->scale[i / 4].x;
            d[i] = fmaf(d[i] * (i & 2 ? a_scale.y : a_scale.x), scale, bias);
        } else {
            d[i] += bias;
        }
    }
}
__device__ __forceinline__ void chunk_activate(float *d, enum gk_act act)
{
    if (act == GK_ACT_GELU)
        chunk_act<GK_ACT_GELU>(d);
    else if (act == GK_ACT_GELU_TANH)
        chunk_act<GK_ACT_GELU_TANH>(d);
    else if (act == GK_ACT_RELU)
        chunk_act<GK_ACT_RELU>(d);
}

/* Two numbers as 16 bits each. */
template <int OUT> __device__ __forceinline__ uint32_t pair_of(float lo, float hi)
{
    return OUT == GK_F16 ? pair_f16(lo, hi) : gk_pair<__nv_bfloat16>(lo, hi);
}

/* 16 x 64 numbers of 16 bits to shared memory, rows of 128 swizzled bytes. */
template <int OUT> __device__ __forceinline__ void chunk_put16(const float *d, uint32_t at)
{
    uint32_t lane = threadIdx.x % 32, row = lane % 16, half = lane / 16;
    uint32_t w[CHUNK_SUMS / 2];

#pragma unroll
    for (int i = 0; i < CHUNK_SUMS / 2; i++)
        w[i] = pair_of<OUT>(d[2 * i], d[2 * i + 1]);
#pragma unroll
    for (int j = 0; j < CHUNK_PAIRS; j += 2)
        matrices_store(at + row * ROW_BYTES + ((j + half) ^ (row & 7)) * 16, w[2 * j], w[2 * j + 1],
                       w[2 * j + 2], w[2 * j + 3]);
}

/* 16 x 64 e4m3 numbers: rows of 64 bytes in the 64-byte swizzle.  COARSE: after GELU. */
template <bool COARSE>
__device__ __forceinline__ void chunk_put8(const float *d, uint32_t at, float inverse)
{
    uint32_t lane = threadIdx.x % 32, row = lane / 4;
    __half2 by = __float2half2_rn(inverse);

#pragma unroll
    for (int i = 0; i < CHUNK_SUMS / 2; i++) {
        uint32_t r = row + (i & 1) * 8, col = i / 2 * 8 + lane % 4 * 2;
        uint32_t to = at + r * 64 + ((col / 16) ^ (r / 2 & 3)) * 16 + col % 16;
        uint16_t two;
        if (COARSE) {
            __half2 y = __hmul2(gelu_coarse(d[2 * i], d[2 * i + 1]), by);
            two = __nv_cvt_halfraw2_to_fp8x2(y, __NV_SATFINITE, __NV_E4M3);
        } else {
            float2 v = make_float2(d[2 * i] * inverse, d[2 * i + 1] * inverse);
            two = __nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, __NV_E4M3);
        }
        asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(two) : "memory");
    }
}

/* The rows that are there of a chunk in shared memory, to `out`, 16 bytes a thread. */
__device__ __forceinline__ void chunk_copy(const struct gemm90_args *p, uint32_t at, int row,
                                           int col, int rows)
{
    bool e4m3 = p->out_type == GK_E4M3;
    int lane = threadIdx.x % 32, pieces = e4m3 ? 4 : 8; /* of 16 bytes, a row */
    size_t size = e4m3 ? 1 : 2;

    for (int i = lane; i < WARP_ROWS * pieces; i += 32) {
        int r = i / pieces, c = i % pieces;
        uint4 v = shared_load(e4m3 ? at + r * 64 + (c ^ (r / 2 & 3)) * 16
                                   : at + r * ROW_BYTES + (c ^ (r & 7)) * 16);
        if (row + r < rows)
            *(uint4 *)((uint8_t *)p->out + (row + r) * p->out_stride + col * size + c * 16) = v;
    }
}

struct finish { /* what a warp's epilogue works with */
    const struct gemm90_args *p;
    const CUtensorMap *mo;
    uint32_t at;       /* rooms, for a chunk each */
    float inverse;     /* 1 / out_scale */
    float2 a_scale[2]; /* of the thread's two rows, in each part */
    uint32_t facts;    /* of the tile's columns, from the thread's first one on */
};

/* Sums of a chunk, finished, to shared memory. */
template <int TYPE>
__device__ __forceinline__ void chunk_put(float *d, const struct finish *f, uint32_t at)
{
    enum gk_type out = f->p->out_type;

    if (out == GK_F16)
        chunk_put16<GK_F16>(d, at);
    else if (out == GK_BF16)
        chunk_put16<GK_BF16>(d, at);
    else if (TYPE == GK_E4M3)
        chunk_put8<false>(d, at, f->inverse);
}

/* One chunk, from sums to its way out, through a room of the warp's. */
template <int TYPE>
__device__ __forceinline__ void chunk_out(float *d, const struct finish *f, uint32_t at, int row,
                                          int col, int rows)
{
    const struct gemm90_args *p = f->p;

    if (TYPE == GK_E4M3 && p->act == GK_ACT_GELU && p->out_type == GK_E4M3) {
        chunk_put8<true>(d, at, f->inverse);
    } else {
        chunk_activate(d, p->act);
        chunk_put<TYPE>(d, f, at);
    }
    if (row + WARP_ROWS <= rows) {
        proxy_fence();
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            tile_store(f->mo, col, row, at);
    } else {
        __syncwarp();
        chunk_copy(p, at, row, col, rows);
    }
}

/* What the warp's last stores came from may be written again. */
__device__ __forceinline__ void rooms_free(void)
{
    if (threadIdx.x % 32 == 0)
        stores_read();
    __syncwarp();
}

/* The epilogue of a warp's rows from chunk C on, whose facts are `x`; those of the next columns
 * are fetched as soon as these are used.  (A recursion, since every place in d must be known when
 * compiling.) */
template <int TYPE, class L, int PARTS, int BN, int C>
__device__ __forceinline__ void finish_tile(float (&d)[PARTS][BN / 2], const struct finish *f,
                                            struct chunk_facts *x, int row, int col, int rows)
{
    if constexpr (C < BN / CHUNK) {
#pragma unroll
        for (int h = 0; h < PARTS; h++)
            chunk_scale<TYPE>(d[h] + C * CHUNK_SUMS, x, f->a_scale[h]);
        if (C + 1 < BN / CHUNK)
            facts_get<TYPE, BN>(x, f->facts + (C + 1) * CHUNK * 4);
#pragma unroll
        for (int h = 0; h < PARTS; h++) {
            if (C * PARTS + h == L::rooms)
                rooms_free();
            if (row + h * PART < rows && col < f->p->n)
                chunk_out<TYPE>(d[h] + C * CHUNK_SUMS, f,
                                f->at + (C * PARTS + h) % L::rooms * CHUNK_BYTES, row + h * PART,
                                col, rows);
        }
        finish_tile<TYPE, L, PARTS, BN, C + 1>(d, f, x, row, col + CHUNK, rows);
    }
}

/* Scales of a warp's rows, fetched before the sums. */
template <int TYPE, int PARTS>
__device__ __forceinline__ void rows_fetch(struct finish *f, int row, int rows)
{
    const struct gemm90_args *p = f->p;

#pragma unroll
    for (int h = 0; h < PARTS; h++) {
        int r = row + h * PART + threadIdx.x % 32 / 4;
        f->a_scale[h] = make_float2(1, 1);
        if (TYPE == GK_E4M3 && p->a_scale)
            f->a_scale[h] = make_float2(p->a_scale[min(r, rows - 1) * p->a_scale_step],
                                        p->a_scale[min(r + 8, rows - 1) * p->a_scale_step]);
    }
}

/* A consumer warpgroup: sums, then epilogue, tile after tile.  APART: every second tile of the
 * block's, whose stages come behind those of the other warpgroup's; and not before that one has
 * seen all of its own full, or a stage could be taken for what it was a round before. */
template <int TYPE, class L, int PARTS, int BN, bool APART, int CL>
__device__ __forceinline__ void consume(const struct gemm90_walk *w, const struct gemm90_args *p,
                                        const CUtensorMap *mo, int group)
{
    int warp = threadIdx.x / 32;
    struct gemm90_place at = {};
    struct finish f = {};
    struct column_facts<BN> facts;
    struct chunk_facts first;
    uint32_t facts_at = w->base + L::facts_at + group * 2 * BN * 4;
    float d[PARTS][BN / 2];

    at.lane = threadIdx.x % GROUP;
    f.p = p;
    f.mo = mo;
    f.at = w->base + L::staging_at + warp * L::rooms * CHUNK_BYTES;
    f.facts = facts_at + threadIdx.x % 4 * 8;
    f.inverse = p->out_scale ? 1.0f / *p->out_scale : 1.0f;
    for (int i = APART ? group : 0; w->first + i * w->step < w->tiles; i += APART ? 2 : 1) {
        int t = w->first + i * w->step, col = t % w->tiles_n * BN;
        int row = (t / w->tiles_n * CL + w->rank) * L::rows + warp % 4 * WARP_ROWS +
                  (APART ? 0 : group) * L::group_rows;
        facts_fetch<TYPE>(&facts, p, col);
        rows_fetch<TYPE, PARTS>(&f, row, w->rows);
        if (APART) {
            uint32_t before = i * w->k_blocks;
            if (i)
                barrier_wait(turn_at(w->barriers, group), (i - 1) / 2 & 1);
            at.r.stage = before % L::stages;
            at.r.phase = before / L::stages & 1;
            at.there = false;
        }
        multiply<TYPE, L, PARTS, BN, APART, CL>(d, w, group, &at);
        facts_share<TYPE>(&facts, facts_at, group);
        facts_get<TYPE, BN>(&first, f.facts);
        rooms_free(); /* of the tile before */
        finish_tile<TYPE, L, PARTS, BN, 0>(d, &f, &first, row, col, w->rows);
    }
    if (threadIdx.x % 32 == 0)
        stores_done();
    __syncwarp();
}
#endif

template <int TYPE, int GROUPS, int PARTS, int BN, bool APART, int CL>
__global__ void __launch_bounds__((GROUPS + 1) * GROUP, 1)
    gemm_kernel(const __grid_constant__ CUtensorMap ma, const __grid_constant__ CUtensorMap mw,
                const __grid_constant__ CUtensorMap mo,
                const __grid_constant__ struct gemm90_args p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using L = layout<GROUPS, PARTS, BN, APART>;
    constexpr int producer = GROUPS * GROUP; /* the thread */
    extern __shared__ __align__(1024) uint8_t raw[];
    int group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP, 0);
    struct gemm90_walk w;

    w.base = kept(shared_address(raw));
    w.barriers = w.base + L::barriers_at;
    w.rank = CL > 1 ? cluster_rank() : 0;
    w.first = blockIdx.x / CL;
    w.step = gridDim.x / CL;
    w.tiles_n = (p.n + BN - 1) / BN;
    w.k_blocks = (p.k * (TYPE == GK_E4M3 ? 1 : 2) + L::sub * ROW_BYTES - 1) / (L::sub * ROW_BYTES);
    if (threadIdx.x == 0)
        barriers_begin<L, GROUPS, APART, CL>(w.barriers);
    if (threadIdx.x == producer) {
        map_prefetch(&ma);
        map_prefetch(&mw);
        map_prefetch(&mo);
        if (p.pdl)
            weights_ahead<TYPE, L, BN, CL>(&w, &mw);
    }
    __syncwarp();
    if (CL > 1)
        cluster_sync();
    else
        __syncthreads();
    gk_wait_before();
    gk_let_next();
    w.rows = p.rows ? min(*p.rows, p.m) : p.m;
    w.tiles = ((w.rows + L::rows - 1) / L::rows + CL - 1) / CL * w.tiles_n;
    /* Two ways that never meet again: only so may the registers differ. */
    if (group == GROUPS) {
        if (GROUPS > 1)
            registers_give<BN == WIDE ? PRODUCER_REGS_WIDE : PRODUCER_REGS>();
        if (threadIdx.x == producer)
            produce<TYPE, L, BN, CL>(&w, &ma, &mw);
        __syncwarp();
        if (CL > 1)
            cluster_sync(); /* what the other block sends here finds us */
    } else {
        if (GROUPS > 1)
            registers_take<BN == WIDE ? CONSUMER_REGS_WIDE : CONSUMER_REGS>();
        consume<TYPE, L, PARTS, BN, APART, CL>(&w, &p, &mo, group);
        if (CL > 1)
            cluster_sync();
    }
#endif
}

/* ---- host ---- */
/* Columns of a wide tile: e4m3 has none, since scales would take the registers it lives on. */
template <int TYPE> constexpr int columns_wide = TYPE == GK_E4M3 ? 128 : WIDE;

/* Rows of `cols` numbers, fetched in boxes of box_cols x box_rows. */
cudaError_t map_make(CUtensorMap *map, enum gk_type type, const void *at, int cols, int rows,
                     size_t ld, int box_cols, int box_rows)
{
    return tensor_map_rows(map, type, at, cols, rows, ld, box_cols, box_rows,
                           CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}

struct gemm90_args args_of(const struct gk_gemm *g)
{
    struct gemm90_args p = {};

    p.m = g->m;
    p.n = g->n;
    p.k = g->k;
    p.rows = g->rows;
    p.out = g->out;
    p.out_stride = g->ldout * (g->out_type == GK_E4M3 ? 1 : 2);
    p.bias = g->bias;
    p.a_scale = g->a_scale;
    p.w_scale = g->w_scale;
    p.a_scale_step = g->a_scale_rows;
    p.w_scale_step = g->w_scale_cols;
    p.out_scale = g->out_type == GK_E4M3 ? g->out_scale : NULL;
    p.out_type = g->out_type;
    p.act = g->act;
    p.pdl = g->pdl;
    return p;
}

template <int TYPE, int GROUPS, int PARTS, int BN, bool APART, int CL>
cudaError_t launch(const struct gk_gemm *g, int sms, cudaStream_t s)
{
    using L = layout<GROUPS, PARTS, BN, APART>;
    constexpr int bk = TYPE == GK_E4M3 ? ROW_BYTES : ROW_BYTES / 2;
    auto kernel = gemm_kernel<TYPE, GROUPS, PARTS, BN, APART, CL>;
    CUtensorMap ma, mw, mo;
    int tiles = ((g->m + L::rows - 1) / L::rows + CL - 1) / CL * ((g->n + BN - 1) / BN);
    cudaLaunchConfig_t c = {};
    cudaLaunchAttribute at[2] = {};
    cudaError_t e;

    if ((e = map_make(&ma, g->type, g->a, g->k, g->m, g->lda, bk, L::rows)) ||
        (e = map_make(&mw, g->type, g->w, g->k, g->n, g->k, bk, BN / CL)) ||
        (e = map_make(&mo, g->out_type, g->out, g->n, g->m, g->ldout, CHUNK, WARP_ROWS)) ||
        (e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, L::bytes)))
        return e;
    c.gridDim = dim3((tiles < sms / CL ? tiles : sms / CL) * CL);
    c.blockDim = dim3((GROUPS + 1) * GROUP);
    c.dynamicSmemBytes = L::bytes;
    c.stream = s;
    c.attrs = at;
    at[c.numAttrs].id = cudaLaunchAttributeClusterDimension;
    at[c.numAttrs].val.clusterDim.x = CL;
    at[c.numAttrs].val.clusterDim.y = 1;
    at[c.numAttrs++].val.clusterDim.z = 1;
    if (g->pdl) {
        at[c.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        at[c.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    return cudaLaunchKernelEx(&c, kernel, ma, mw, mo, args_of(g));
}

template <int TYPE>
cudaError_t launch_shape(const struct gk_gemm *g, int shape, int sms, cudaStream_t s)
{
    switch (shape) {
    case GEMM90_TURNS_PAIR:
        return launch<TYPE, 2, 2, 128, true, 2>(g, sms, s);
    case GEMM90_TURNS:
        return launch<TYPE, 2, 2, 128, true, 1>(g, sms, s);
    case GEMM90_WIDE_PAIR:
        return launch<TYPE, 2, 2, columns_wide<TYPE>, true, 2>(g, sms, s);
    case GEMM90_WIDE:
        return launch<TYPE, 2, 2, columns_wide<TYPE>, true, 1>(g, sms, s);
    case GEMM90_128X128:
        return launch<TYPE, 2, 1, 128, false, 1>(g, sms, s);
    case GEMM90_64X128:
        return launch<TYPE, 1, 1, 128, false, 1>(g, sms, s);
    case GEMM90_64X64:
        return launch<TYPE, 1, 1, 64, false, 1>(g, sms, s);
    default:
        return cudaErrorInvalidValue;
    }
}

/* The shape whose rounds over the SMs cost least.  `each`: what a round costs, `gelu`: what that
 * adds to it, `once`: what there is besides, all in tenths of a microsecond as measured with
 * k = 1024 on a H200.  With a small k neither pairs nor wide tiles pay, with e4m3 wide ones
 * never. */
int shape_choose(const struct gk_gemm *g, int sms)
{
    static const struct {
        int rows, cols, blocks, each, gelu, once;
    } shapes[GEMM90_SHAPES] = {
        { 128, 128, 2, 60, 6, 30 },  { 128, 128, 1, 61, 6, 24 }, { 128, WIDE, 2, 89, 2, 40 },
        { 128, WIDE, 1, 90, 2, 40 }, { 128, 128, 1, 68, 7, 12 }, { 64, 128, 1, 48, 5, 10 },
        { 64, 64, 1, 24, 3, 24 },
    };
    bool e4m3 = g->type == GK_E4M3, deep = g->k * (e4m3 ? 1 : 2) >= 1536;
    int choice = GEMM90_TURNS;
    long best = 0;

    for (int i = 0; i < GEMM90_SHAPES; i++) {
        int slots = sms / shapes[i].blocks, rows = shapes[i].rows * shapes[i].blocks;
        long down = (g->m + rows - 1) / rows, across = (g->n + shapes[i].cols - 1) / shapes[i].cols;
        long each = shapes[i].each + (g->act == GK_ACT_GELU ? shapes[i].gelu : 0);
        long cost = (down * across + slots - 1) / slots * each + shapes[i].once;
        bool wide = shapes[i].cols == WIDE;
        bool can = (deep || (shapes[i].blocks == 1 && !wide)) && !(e4m3 && wide);
        if (can && (!best || cost < best)) {
            best = cost;
            choice = i;
        }
    }
    return choice;
}

} // namespace

extern "C" cudaError_t gk_gemm_sm90_as(const struct gk_gemm *g, int shape, cudaStream_t s)
{
    int device, sms, major;
    cudaError_t e;

    if (g->m <= 0 || g->n <= 0)
        return cudaSuccess;
    if ((e = cudaGetDevice(&device)) ||
        (e = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device)) ||
        (e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)))
        return e;
    if (major != 9)
        return cudaErrorNoKernelImageForDevice;
    if (shape == GEMM90_CHOSEN)
        shape = shape_choose(g, sms);
    if (g->type == GK_F16)
        return launch_shape<GK_F16>(g, shape, sms, s);
    if (g->type == GK_BF16)
        return launch_shape<GK_BF16>(g, shape, sms, s);
    if (g->type == GK_E4M3)
        return launch_shape<GK_E4M3>(g, shape, sms, s);
    return cudaErrorInvalidValue;
}

extern "C" cudaError_t gk_gemm_sm90(const struct gk_gemm *g, cudaStream_t s)
{
    return gk_gemm_sm90_as(g, GEMM90_CHOSEN, s);
}
