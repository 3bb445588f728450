/* SPDX-License-Identifier: MIT */
/* ffn_sm90: a whole feed-forward block in one kernel, x = LN(x + w2 gelu(w1 x + b1) + b2).
 *
 * For narrow models the two products are short, and what lies between them, [rows][ffn], costs
 * more to write and read than the products themselves.  Here it never leaves the registers.
 *
 * A block takes 128 rows of x, 64 for each of two warpgroups, whose sums y [64][hidden] stay in
 * registers while 64 columns of ffn at a time pass by:
 *
 *     x [64][hidden] (shared) --wgmma, w1's chunk--> h [64][64] + b1 --GELU--> 16 bit, registers
 *                                                                                   |
 *     y [64][hidden] (registers) += <-----------------wgmma, w2's chunk-------------+
 *
 *     end: y + b2 + x, LayerNorm by quads of threads, back into x's place, and out.
 *
 * Weights come through a ring of SLOTS slots of 16 KB, filled by the copy engine in the order of
 * use: PARTS slots of w1, then PARTS of w2, for every chunk.  They stay in the L2 cache.
 *
 * The sums and h take 224 registers of a thread: with two warpgroups a thread can have 255, and a
 * third that did nothing but fetch would leave too few.  So warps of the second group fill the ring
 * as well, at moments when that costs nothing: when all of a product has been handed to the tensor
 * cores, each fetches into a slot that the product before has used up.
 *
 * All operands lie in boxes of 64 rows of 128 bytes, in the 128-byte swizzle of the copy engine.
 * Sums are added in one order whatever m is. */
#include "engine/cuda/kernels/gk_dev.cuh"
#include "engine/cuda/kernels/tensor_map.cuh"

#include <cuda.h>

namespace
{

enum {
    BOX = 64,           /* rows and columns of a box */
    BOX_BYTES = 8192,   /* 64 rows of 128 bytes */
    SLOT_BYTES = 16384, /* two boxes */
    SLOTS = 8,          /* a power of 2 */
    CHUNK = 64,         /* columns of ffn at a time */
    BIAS_BYTES = 256,   /* of b1 for a chunk, beside the first slot of it */
    PART = 128,         /* columns of y in one product; of x in one slot of w1 */
    GROUP = 128,        /* threads of a warpgroup */
    GROUPS = 2,
    GROUP_ROWS = 64, /* of a warpgroup */
    BLOCK_ROWS = 128,
    THREADS = GROUP * GROUPS,
    FILLER = 4, /* the first warp of those that fill the ring */
    BARRIER_BYTES = 1024,
    SPIN_MAX = 1 << 20, /* tries before a wait is called a fault */
    GROUP_BARRIER = 1   /* named barriers 1 and 2: a warpgroup by itself */
};

struct block {
    CUtensorMap x, w1, w2;
    const float *b1, *b2, *gamma, *beta;
    const int32_t *rows;
    void *out;
    size_t ld;
    int m, ffn;
    float eps;
};

/* Where things are in shared memory, in bytes from its beginning. */
template <int PARTS> struct layout {
    enum {
        HIDDEN = PART * PARTS,
        X_GROUP = HIDDEN / BOX * BOX_BYTES, /* of one warpgroup's rows */
        X = 0,
        RING = GROUPS * X_GROUP,
        BIAS = RING + SLOTS * SLOT_BYTES,
        BARRIERS = BIAS + SLOTS * BIAS_BYTES,
        FULL = BARRIERS,
        EMPTY = FULL + SLOTS * 8,
        X_FULL = EMPTY + SLOTS * 8,
        BYTES = BARRIERS + BARRIER_BYTES
    };
    static_assert((int)BYTES <= 232448, "more shared memory than a block can have");
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* ---- barriers ---- */
__device__ __forceinline__ void bar_init(uint32_t at, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}

__device__ __forceinline__ void bar_expect(uint32_t at, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void bar_arrive(uint32_t at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}

/* Written as one piece of assembler: with a loop of C around it the compiler needs registers that
 * there are not. */
__device__ __forceinline__ void bar_wait(uint32_t at, uint32_t parity)
{
    asm volatile("{\n.reg .pred p;\n.reg .u32 tries;\n"
                 "mov.u32 tries, 0;\n"
                 "AGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra DONE;\n"
                 "add.u32 tries, tries, 1;\n"
                 "setp.lt.u32 p, tries, %2;\n"
                 "@p bra AGAIN;\n"
                 "trap;\n"
                 "DONE:\n}" ::"r"(at),
                 "r"(parity), "n"((int)SPIN_MAX)
                 : "memory");
}

__device__ __forceinline__ void named_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* True in one thread of a warp. */
__device__ __forceinline__ bool elected(void)
{
    uint32_t yes;

    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(yes));
    return yes;
}

/* ---- the copy engine ---- */
/* Boxes beside each other, from the one that begins at column 64 * `box`. */
__device__ __forceinline__ void boxes_load(uint32_t to, const CUtensorMap *map, int row, int box,
                                           uint32_t bar)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(map), "r"(0), "r"(row), "r"(box), "r"(bar)
                 : "memory");
}

__device__ __forceinline__ void bytes_load(uint32_t to, const void *from, uint32_t bytes,
                                           uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}

/* ---- wgmma ---- */
/* Describes an operand in boxes: 128-byte swizzle, 1024 bytes from 8 rows to the next 8.  `at` is
 * its place in units of 16 bytes: constants are added to it where it is used. */
__device__ __forceinline__ uint64_t operand(uint32_t at)
{
    return (uint64_t)0x40000040 << 32 | at;
}
__device__ __forceinline__ uint32_t place(uint32_t address)
{
    return address >> 4 | 1 << 16;
}

__device__ __forceinline__ void mma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void mma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N> __device__ __forceinline__ void mma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define SUMS4(d, i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS16(d, i) SUMS4(d, i), SUMS4(d, i + 4), SUMS4(d, i + 8), SUMS4(d, i + 12)

/* d [64][64] += a b, both in shared memory. */
#define MMA_H(TYPE)                                                                                \
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {"                  \
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                          \
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"                 \
                 "}, %32, %33, 1, 1, 1, 0, 0;"                                                     \
                 : SUMS16(d, 0), SUMS16(d, 16)                                                     \
                 : "l"(a), "l"(b))
/* d [64][128] += a b, a in registers. */
#define MMA_Y(TYPE)                                                                                \
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {"                 \
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"                          \
                 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"                \
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"                \
                 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"                 \
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"                                          \
                 : SUMS16(d, 0), SUMS16(d, 16), SUMS16(d, 32), SUMS16(d, 48)                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

template <typename T> __device__ __forceinline__ void mma_h(float d[32], uint64_t a, uint64_t b);
template <> __device__ __forceinline__ void mma_h<__half>(float d[32], uint64_t a, uint64_t b)
{
    MMA_H("f16");
}
template <>
__device__ __forceinline__ void mma_h<__nv_bfloat16>(float d[32], uint64_t a, uint64_t b)
{
    MMA_H("bf16");
}
template <typename T>
__device__ __forceinline__ void mma_y(float d[64], const uint32_t a[4], uint64_t b);
template <>
__device__ __forceinline__ void mma_y<__half>(float d[64], const uint32_t a[4], uint64_t b)
{
    MMA_Y("f16");
}
template <>
__device__ __forceinline__ void mma_y<__nv_bfloat16>(float d[64], const uint32_t a[4], uint64_t b)
{
    MMA_Y("bf16");
}

/* ---- numbers ---- */
/* Two GELUs as an operand: never below -0.2, so that only the upper end needs care. */
template <typename T> __device__ __forceinline__ uint32_t gelu_pair(float lo, float hi);
template <> __device__ __forceinline__ uint32_t gelu_pair<__half>(float lo, float hi)
{
    __half2 v =
        __hmin2(__floats2half2_rn(gk_gelu_lean(lo), gk_gelu_lean(hi)), __float2half2_rn(65504.0f));

    return *reinterpret_cast<uint32_t *>(&v);
}
template <> __device__ __forceinline__ uint32_t gelu_pair<__nv_bfloat16>(float lo, float hi)
{
    return gk_pair<__nv_bfloat16>(gk_gelu_lean(lo), gk_gelu_lean(hi));
}

__device__ __forceinline__ uint32_t word_at(uint32_t at)
{
    uint32_t v;

    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
    return v;
}

__device__ __forceinline__ void matrices_store(uint32_t at, const uint32_t v[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at),
                 "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
}

__device__ __forceinline__ float2 floats_at(uint32_t at)
{
    float2 v;

    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
    return v;
}

/* The thread's number, read anew: what is computed from it takes no registers before. */
__device__ __forceinline__ int thread_again(void)
{
    int t;

    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(t)::"memory");
    return t;
}

/* The four threads of a quad share a row. */
__device__ __forceinline__ float quad_sum(float v)
{
    v += __shfl_xor_sync(0xffffffffu, v, 1);
    return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

/* ---- fetching ---- */
/* Where a block stands.  Its tiles are blockIdx.x, + gridDim.x and so on. */
struct ffn90_work {
    uint32_t base; /* of shared memory */
    int warp;
    int rows, tiles, chunks;
    uint32_t slots; /* that are filled in all */
};

template <int PARTS>
__device__ __forceinline__ struct ffn90_work work_of(const struct block &b, uint32_t base, int rows)
{
    struct ffn90_work w;
    int first = (int)blockIdx.x, step = (int)gridDim.x;

    w.base = base;
    w.warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
    w.rows = rows;
    w.tiles = (rows + BLOCK_ROWS - 1) / BLOCK_ROWS;
    w.chunks = b.ffn / CHUNK;
    w.slots = first < w.tiles
                  ? (uint32_t)((w.tiles - first + step - 1) / step * w.chunks * 2 * PARTS)
                  : 0;
    return w;
}

/* Fills slot n with part `part` of chunk c: of w1 columns of x, of w2 columns of y. */
template <int PARTS>
__device__ __forceinline__ void slot_fill(const struct block &b, uint32_t base, uint32_t n, int c,
                                          int part)
{
    using L = layout<PARTS>;
    uint32_t slot = n % SLOTS, full = base + L::FULL + slot * 8;
    uint32_t to = base + L::RING + slot * SLOT_BYTES;

    bar_expect(full, SLOT_BYTES + (part ? 0 : BIAS_BYTES));
    if (part < PARTS)
        boxes_load(to, &b.w1, c * CHUNK, part * (PART / BOX), full);
    else
        boxes_load(to, &b.w2, (part - PARTS) * PART, c, full);
    if (part == 0)
        bytes_load(base + L::BIAS + slot * BIAS_BYTES, b.b1 + c * CHUNK, BIAS_BYTES, full);
}

/* The first slots of all. */
template <int PARTS>
__device__ __forceinline__ void slots_begin(const struct block &b, const struct ffn90_work &w)
{
    for (uint32_t n = 0; n < SLOTS && n < w.slots; n++)
        slot_fill<PARTS>(b, w.base, n, (int)n / (2 * PARTS) % w.chunks, (int)n % (2 * PARTS));
}

/* A product has begun with slot n, part FIRST of chunk c: what the product before it has used is
 * filled again, each slot by a warp of its own. */
template <int PARTS, int FIRST>
__device__ __forceinline__ void slots_refill(const struct block &b, const struct ffn90_work &w,
                                             uint32_t n, int c)
{
    enum { AHEAD = SLOTS - PARTS };

    n += AHEAD;
#pragma unroll
    for (int q = 0; q < PARTS; q++) {
        int part = (FIRST + AHEAD + q) % (2 * PARTS), later = c + (FIRST + AHEAD + q) / (2 * PARTS);
        uint32_t at = w.base + layout<PARTS>::EMPTY + (n + q) % SLOTS * 8;

        if (w.warp == FILLER + q && n + q >= SLOTS && n + q < w.slots && elected()) {
            while (later >= w.chunks)
                later -= w.chunks;
            bar_wait(at, ((n + q) / SLOTS & 1) ^ 1);
            slot_fill<PARTS>(b, w.base, n + q, later, part);
        }
    }
    __syncwarp();
}

/* One group's rows of a tile; one thread of the group asks for them. */
template <int PARTS>
__device__ __forceinline__ void x_fetch(const struct block &b, uint32_t base, int tile, int group)
{
    using L = layout<PARTS>;
    uint32_t full = base + L::X_FULL + group * 8;

    bar_expect(full, L::X_GROUP);
    boxes_load(base + L::X + group * L::X_GROUP, &b.x, tile * BLOCK_ROWS + group * GROUP_ROWS, 0,
               full);
}

/* A warp is done with slot n. */
template <int PARTS> __device__ __forceinline__ void slot_free(uint32_t base, uint32_t n)
{
    if (threadIdx.x % 32 == 0)
        bar_arrive(base + layout<PARTS>::EMPTY + n % SLOTS * 8);
}

/* ---- multiplying ---- */
/* h = b1: what the products are added to.  Each number stands for two rows. */
__device__ __forceinline__ void bias_into(float h[32], uint32_t at)
{
    at += threadIdx.x % 4 * 8;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float2 v = floats_at(at + j * 32);

        h[j * 4] = h[j * 4 + 2] = v.x;
        h[j * 4 + 1] = h[j * 4 + 3] = v.y;
    }
}

/* The products are under way: waits for one part after the other and gives its slot back. */
template <int PARTS, int P = 0>
__device__ __forceinline__ void parts_end(const struct ffn90_work &w, uint32_t n)
{
    mma_wait<PARTS - 1 - P>();
    slot_free<PARTS>(w.base, n + P);
    if constexpr (P + 1 < PARTS)
        parts_end<PARTS, P + 1>(w, n);
}

/* h [64][64] = b1 + x w1^T for chunk c; `n` counts slots, `x` is a place. */
template <typename T, int PARTS>
__device__ __forceinline__ void h_product(float h[32], const struct block &b,
                                          const struct ffn90_work &w, uint32_t x, uint32_t n, int c)
{
    using L = layout<PARTS>;

#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        uint32_t slot = (n + p) % SLOTS, from = place(w.base + L::RING) + slot * (SLOT_BYTES >> 4);

        bar_wait(w.base + L::FULL + slot * 8, (n + p) / SLOTS & 1);
        if (p == 0)
            bias_into(h, w.base + L::BIAS + slot * BIAS_BYTES);
        mma_fence();
#pragma unroll
        for (int k = 0; k < PART / 16; k++)
            mma_h<T>(h, operand(x + (p * 2 + k / 4) * (BOX_BYTES >> 4) + k % 4 * 2),
                     operand(from + k / 4 * (BOX_BYTES >> 4) + k % 4 * 2));
        mma_commit();
    }
    slots_refill<PARTS, 0>(b, w, n, c);
    parts_end<PARTS>(w, n);
}

/* y [64][hidden] += a w2^T, likewise. */
template <typename T, int PARTS>
__device__ __forceinline__ void y_product(float y[PARTS][64], const uint32_t a[4][4],
                                          const struct block &b, const struct ffn90_work &w,
                                          uint32_t n, int c)
{
    using L = layout<PARTS>;

#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        uint32_t slot = (n + p) % SLOTS, from = place(w.base + L::RING) + slot * (SLOT_BYTES >> 4);

        bar_wait(w.base + L::FULL + slot * 8, (n + p) / SLOTS & 1);
        mma_fence();
#pragma unroll
        for (int k = 0; k < CHUNK / 16; k++)
            mma_y<T>(y[p], a[k], operand(from + k * 2));
        mma_commit();
    }
    slots_refill<PARTS, PARTS>(b, w, n, c);
    parts_end<PARTS>(w, n);
}

/* y = LN(y + b2 + x), written where x stands; only a warp's own 16 rows are touched. */
template <typename T, int PARTS>
__device__ __forceinline__ void norm(float y[PARTS][64], const struct block &b, uint32_t x)
{
    int thread = thread_again(), lane = thread % 32, group = lane / 4, pair = lane % 4 * 2;
    uint32_t rows = x + thread / 32 % 4 * 16 * 128, at = rows + group * 128 + pair * 2;
    float sum[2] = { 0, 0 }, square[2] = { 0, 0 };

#pragma unroll
    for (int i = 0; i < PARTS * 16; i++) {
        uint32_t from = at + i / 8 * BOX_BYTES + ((i % 8 ^ group) << 4);
        float2 add = __ldg((const float2 *)(b.b2 + i * 8 + pair));
        float *v = &y[i / 16][i % 16 * 4];

#pragma unroll
        for (int r = 0; r < 2; r++) {
            float2 old = gk_unpair<T>(word_at(from + r * 1024));

            v[r * 2] += add.x + old.x;
            v[r * 2 + 1] += add.y + old.y;
            sum[r] += v[r * 2] + v[r * 2 + 1];
        }
    }
    sum[0] = quad_sum(sum[0]) * (1.0f / (PARTS * PART));
    sum[1] = quad_sum(sum[1]) * (1.0f / (PARTS * PART));
#pragma unroll
    for (int i = 0; i < PARTS * 64; i++) {
        float v = y[i / 64][i % 64] -= sum[i / 2 % 2];

        square[i / 2 % 2] = fmaf(v, v, square[i / 2 % 2]);
    }
    square[0] = rsqrtf(fmaf(quad_sum(square[0]), 1.0f / (PARTS * PART), b.eps));
    square[1] = rsqrtf(fmaf(quad_sum(square[1]), 1.0f / (PARTS * PART), b.eps));
    __syncwarp(); /* everybody has read x */
    at = rows + lane % 16 * 128;
#pragma unroll
    for (int i = 0; i < PARTS * 16; i += 2) {
        uint32_t v[4];

#pragma unroll
        for (int q = 0; q < 4; q++) {
            float2 gamma = __ldg((const float2 *)(b.gamma + (i + q / 2) * 8 + pair));
            float2 beta = __ldg((const float2 *)(b.beta + (i + q / 2) * 8 + pair));
            const float *from = &y[i / 16][i % 16 * 4 + q * 2];

            v[q] = gk_pair<T>(fmaf(from[0] * square[q % 2], gamma.x, beta.x),
                              fmaf(from[1] * square[q % 2], gamma.y, beta.y));
        }
        matrices_store(at + i / 8 * BOX_BYTES + (((i % 8 + lane / 16) ^ lane % 8) << 4), v);
    }
}

/* A warp's 16 rows from shared to device memory, in lines of 128 bytes. */
template <typename T, int PARTS>
__device__ __forceinline__ void write_out(const struct block &b, uint32_t x, int row, int rows)
{
    int thread = thread_again(), lane = thread % 32, chunk = lane % 8;
    int first = thread / 32 % 4 * 16 + lane / 8;

#pragma unroll
    for (int i = 0; i < PARTS * 8; i++) {
        int r = first + i % 4 * 4;
        uint32_t from = x + i / 4 * BOX_BYTES + r * 128 + ((chunk ^ (r & 7)) << 4);
        uint4 v;

        asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "r"(from)
                     : "memory");
        if (row + r < rows)
            *(uint4 *)((T *)b.out + (size_t)(row + r) * b.ld + i / 4 * BOX + chunk * 8) = v;
    }
}

/* One tile of a warpgroup, from x in shared memory to the finished rows there. */
template <typename T, int PARTS>
__device__ __forceinline__ void multiply_tile(const struct block &b, const struct ffn90_work &w,
                                              uint32_t x, uint32_t &n)
{
    float y[PARTS][64];
    int c = 0;

#pragma unroll
    for (int i = 0; i < PARTS * 64; i++)
        y[i / 64][i % 64] = 0.0f;
    do { /* there is a chunk: the compiler need not think of none */
        float h[32];
        uint32_t a[4][4];

        h_product<T, PARTS>(h, b, w, place(x), n, c);
#pragma unroll
        for (int i = 0; i < 16; i++)
            a[i / 4][i % 4] = gelu_pair<T>(h[i * 2], h[i * 2 + 1]);
        y_product<T, PARTS>(y, a, b, w, n + PARTS, c);
        n += 2 * PARTS;
    } while (++c < w.chunks);
    named_sync(GROUP_BARRIER + w.warp / 4, GROUP); /* nobody's products read x any more */
    norm<T, PARTS>(y, b, x);
}

template <typename T, int PARTS>
__device__ __forceinline__ void multiply(const struct block &b, const struct ffn90_work &w)
{
    using L = layout<PARTS>;
    int group = w.warp / 4;
    uint32_t n = 0, done = 0, x = w.base + L::X + (uint32_t)group * L::X_GROUP;

    for (int tile = (int)blockIdx.x; tile < w.tiles; tile += (int)gridDim.x, done++) {
        bar_wait(w.base + L::X_FULL + group * 8, done & 1);
        multiply_tile<T, PARTS>(b, w, x, n);
        __syncwarp();
        write_out<T, PARTS>(b, x, tile * BLOCK_ROWS + group * GROUP_ROWS, w.rows);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        named_sync(GROUP_BARRIER + group, GROUP);
        if (threadIdx.x % GROUP == 0 && tile + (int)gridDim.x < w.tiles)
            x_fetch<PARTS>(b, w.base, tile + (int)gridDim.x, group);
        __syncwarp();
    }
}

template <int PARTS> __device__ __forceinline__ void prepare(uint32_t base)
{
    using L = layout<PARTS>;

    if (threadIdx.x == 0) {
        if (base & 1023)
            __trap(); /* boxes begin at multiples of 1024 bytes */
        for (int i = 0; i < SLOTS; i++) {
            bar_init(base + L::FULL + i * 8, 1);
            bar_init(base + L::EMPTY + i * 8, GROUPS * (GROUP / 32));
        }
        for (int i = 0; i < GROUPS; i++)
            bar_init(base + L::X_FULL + i * 8, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
}
#endif

template <typename T, int PARTS>
__global__ void __launch_bounds__(THREADS, 1) ffn(const __grid_constant__ struct block b)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) char shared[];
    uint32_t base = (uint32_t)__cvta_generic_to_shared(shared);
    struct ffn90_work w;

    prepare<PARTS>(base);
    gk_wait_before();
    w = work_of<PARTS>(b, base, b.rows ? *b.rows : b.m);
    if (threadIdx.x == 0)
        slots_begin<PARTS>(b, w);
    if (threadIdx.x % GROUP == 0 && (int)blockIdx.x < w.tiles)
        x_fetch<PARTS>(b, base, (int)blockIdx.x, (int)threadIdx.x / GROUP);
    __syncwarp();
    multiply<T, PARTS>(b, w);
    gk_let_next();
#endif
}

/* ---- the host's side ---- */
/* [rows][cols], `ld` numbers from row to row, as blocks of 64 columns: the copy engine fetches
 * `boxes` of them, `high` rows each. */
bool encode(tensor_map_fn fn, CUtensorMap *map, enum gk_type type, const void *p, size_t rows,
            size_t cols, size_t ld, unsigned high, unsigned boxes)
{
    cuuint64_t size[3] = { BOX, rows, cols / BOX }, stride[2] = { ld * 2, BOX * 2 };
    cuuint32_t box[3] = { BOX, high, boxes }, step[3] = { 1, 1, 1 };

    return fn(map, tensor_map_type(type), 3, (void *)p, size, stride, box, step,
              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
              CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* Multiprocessors of the current device, which must be a Hopper. */
cudaError_t device_facts(int *sms)
{
    int device = 0, major = 0, minor = 0;
    cudaError_t e = cudaGetDevice(&device);

    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (e == cudaSuccess)
        e = cudaDeviceGetAttribute(sms, cudaDevAttrMultiProcessorCount, device);
    if (e != cudaSuccess)
        return e;
    return major == 9 && minor == 0 ? cudaSuccess : cudaErrorNoKernelImageForDevice;
}

template <typename T, int PARTS>
cudaError_t start(const struct gk_ffn *f, const struct block &b, int sms, cudaStream_t s)
{
    int tiles = (f->m + BLOCK_ROWS - 1) / BLOCK_ROWS, bytes = layout<PARTS>::BYTES;
    cudaError_t e =
        cudaFuncSetAttribute(ffn<T, PARTS>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);

    if (e != cudaSuccess)
        return e;
    return gk_launch(ffn<T, PARTS>, dim3((unsigned)(tiles < sms ? tiles : sms)), dim3(THREADS),
                     (size_t)bytes, s, f->pdl, b);
}

cudaError_t describe(const struct gk_ffn *f, struct block *b)
{
    tensor_map_fn fn = tensor_map_encoder();
    size_t m = (size_t)f->m, hidden = (size_t)f->hidden, wide = (size_t)f->ffn;

    if (!fn)
        return cudaErrorNotSupported;
    if (!encode(fn, &b->x, f->type, f->x, m, hidden, f->ld, BOX, (unsigned)f->hidden / BOX) ||
        !encode(fn, &b->w1, f->type, f->w1, wide, hidden, hidden, BOX, PART / BOX) ||
        !encode(fn, &b->w2, f->type, f->w2, hidden, wide, wide, PART, 1))
        return cudaErrorInvalidValue;
    b->b1 = f->b1;
    b->b2 = f->b2;
    b->gamma = f->gamma;
    b->beta = f->beta;
    b->rows = f->rows;
    b->out = f->x;
    b->ld = f->ld;
    b->m = f->m;
    b->ffn = f->ffn;
    b->eps = f->eps;
    return cudaSuccess;
}

} // namespace

extern "C" bool gk_ffn_sm90_can(const struct gk_ffn *f)
{
    return (f->type == GK_F16 || f->type == GK_BF16) && f->act == GK_ACT_GELU &&
           (f->hidden == 256 || f->hidden == 384) && f->ffn > 0 && f->ffn % CHUNK == 0;
}

extern "C" cudaError_t gk_ffn_sm90(const struct gk_ffn *f, cudaStream_t s)
{
    struct block b;
    int sms = 0;
    cudaError_t e;

    if (f->m <= 0)
        return f->m ? cudaErrorInvalidValue : cudaSuccess;
    if (!gk_ffn_sm90_can(f))
        return cudaErrorNotSupported;
    e = device_facts(&sms);
    if (e == cudaSuccess)
        e = describe(f, &b);
    if (e != cudaSuccess)
        return e;
    if (f->type == GK_F16)
        return f->hidden == 384 ? start<__half, 3>(f, b, sms, s) : start<__half, 2>(f, b, sms, s);
    return f->hidden == 384 ? start<__nv_bfloat16, 3>(f, b, sms, s)
                            : start<__nv_bfloat16, 2>(f, b, sms, s);
}
