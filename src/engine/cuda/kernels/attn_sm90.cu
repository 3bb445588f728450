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
 * While a warpgroup does its softmax the tensor cores work on its product with v, and for the
 * others: four warpgroups live on a SM (four blocks, or two of two), as many as the registers
 * allow.  The assembler moves a wait for products up over arithmetic as far as the block of
 * instructions goes, and then nothing overlaps: a branch (asking whether the next keys are there)
 * stands between the powers and the wait, and must stay there.  Descriptors stay in uniform
 * registers only as long as the assembler sees that no warp can be divided: copies dealt out to all
 * warps before the loop, or a branch on the distance inside it, cost 5 %.
 *
 * Softmax has no maximum.  Probabilities are ratios of powers of two, f32 and bf16 hold 2^-126 to
 * 2^127, and scores are far inside: what is subtracted is 0, for bf16, or, since f16 holds less,
 * the first block's maximum and some room.  A sum of a row that is not within 1e-20 to 1e20 says
 * that this was not enough (or that there is a NaN), and its 64 rows are done again, all of them
 * with a maximum that moves along (ATTN_SLACK): scores beyond 46 cost twice the time.  What is done
 * again depends on these rows alone, so that a sequence has the same bits in every batch and with
 * both sizes of tiles.
 *
 * What is slow, as measured on an H200 with 128 x 512 tokens, 16 heads of 64, bf16: it is the
 * chip's power.  The kernel runs at 1.45 GHz instead of 1.98, at about 500 clocks a block of 64 by
 * 64 of which the tensor cores need 256 and the powers 256; without the powers it takes 7 % less
 * time, without the products 34 %, with neither 48 %.  For short sequences it is memory: 58 tokens
 * take 0.091 ms a batch, 0.070 without any arithmetic.  Tried and not faster: a part of the powers
 * by a polynomial on other units (2 to 7 % slower); sums of rows by the tensor cores; a narrow
 * product for a short last block; two sets of 64 rows a warpgroup, taking turns; blocks of 128
 * keys; four warpgroups a block (256 rows); blocks that stay and fetch the next tile ahead.
 *
 * Rows behind the end of a sequence belong to the next one or to nobody.  They are copied (of a
 * last block of up to 32 rows only 32), their scores are masked, and such rows of v are overwritten
 * by zeros in shared memory, for 0 times NaN is NaN. */
#include "engine/cuda/kernels/attn.cuh"
#include "engine/cuda/kernels/tensor_map.cuh"

#include <cuda.h>

namespace
{

enum {
    GROUP = 128,        /* threads of a warpgroup */
    SMALL_ROWS = 32,    /* rows of a small copy */
    SPIN_MAX = 1 << 20, /* asking that often means that the copy never comes */
    BARRIER_BYTES = 16, /* full and empty, a stage */
    HALF_ROOM = 4       /* f16: what the first block's largest power leaves to later ones */
};

template <int D, int WGS> struct shape {
    static constexpr int stages = D == 64 ? (WGS == 1 ? 3 : 6) : (WGS == 1 ? 4 : 8);
    static constexpr int matrix = ATTN_KEYS * D * 2; /* bytes of k, or v, of a stage */
    static constexpr int stage = 2 * matrix;
    static constexpr int bars_at = stages * stage;
    static constexpr int pairs_at = bars_at + stages * BARRIER_BYTES;
    static constexpr int bytes = pairs_at + ATTN_REL_BYTES;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <typename T> struct is_half {
    static constexpr bool value = false;
};
template <> struct is_half<__half> {
    static constexpr bool value = true;
};

/* ---- wgmma: d (+)= a b; a in registers, b in shared memory ---- */
/* clang-format off */
#define D4(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define D16(d) D4(d, 0), D4(d, 1), D4(d, 2), D4(d, 3)
#define D32(d) D16(d), D4(d, 4), D4(d, 5), D4(d, 6), D4(d, 7)
#define N16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define N32 N16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define AB(a, b) "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b)
#define WGMMA(size, kind) \
    "wgmma.mma_async.sync.aligned.m64n" size "k16.f32." kind "." kind

#define WGMMA_64(d, a, b, add, turned, kind) \
    asm volatile(WGMMA("64", kind) " {" N32 "}, {%32, %33, %34, %35}, %36, %37, 1, 1, %38;" \
                 : D32(d) : AB(a, b), "n"(add), "n"(turned))
#define WGMMA_32(d, a, b, add, turned, kind) \
    asm volatile(WGMMA("32", kind) " {" N16 "}, {%16, %17, %18, %19}, %20, %21, 1, 1, %22;" \
                 : D16(d) : AB(a, b), "n"(add), "n"(turned))
/* clang-format on */

/* As many columns as d has; ADD 0: d is written, not added to. */
template <typename T, int TURNED, int ADD, int G>
__device__ __forceinline__ void wgmma(float (&d)[G][4], const uint32_t (&a)[4], uint64_t b)
{
    if constexpr (is_half<T>::value && G == 8)
        WGMMA_64(d, a, b, ADD, TURNED, "f16");
    else if constexpr (is_half<T>::value)
        WGMMA_32(d, a, b, ADD, TURNED, "f16");
    else if constexpr (G == 8)
        WGMMA_64(d, a, b, ADD, TURNED, "bf16");
    else
        WGMMA_32(d, a, b, ADD, TURNED, "bf16");
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
 * (turned) for v, whose rows are its rows; a row being one swizzled line, no second way is used.
 * Only the address changes, so the low word is what is computed with. */
__device__ __forceinline__ uint32_t low_word(uint32_t at)
{
    return (at & 0x3ffff) >> 4;
}
template <int D> __device__ __forceinline__ uint64_t descriptor(uint32_t low)
{
    const uint32_t high = (8 * D * 2 >> 4) | (D == 64 ? 1u : 2u) << 30; /* 128 or 64 bytes */
    uint64_t d;

    asm volatile("mov.b64 %0, {%1, %2};" : "=l"(d) : "r"(low), "n"(high));
    return d;
}

/* ---- barriers and copies ---- */
__device__ __forceinline__ void barrier_init(uint32_t bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_end(uint32_t bar)
{
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
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
/* The bias, beside what else the barrier waits for. */
__device__ __forceinline__ void copy_table(uint32_t to, const float *rel, uint32_t bar)
{
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar),
                 "n"((int)ATTN_REL_BYTES)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(rel), "n"((int)ATTN_REL_BYTES), "r"(bar)
                 : "memory");
}
/* What is written to shared memory so far is seen by the copy engine and the tensor cores. */
__device__ __forceinline__ void proxy_fence(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/* Whether `yes` holds for any of so many threads, which all come here. */
template <int ID> __device__ __forceinline__ bool any_of(bool yes, int threads)
{
    uint32_t out;

    asm volatile("{\n.reg .pred p, q;\nsetp.ne.b32 p, %1, 0;\n"
                 "barrier.cta.red.or.pred q, %2, %3, p;\nselp.b32 %0, 1, 0, q;\n}"
                 : "=r"(out)
                 : "r"((int)yes), "n"(ID), "r"(threads)
                 : "memory");
    return out;
}
/* The same for this thread's warpgroup. */
__device__ __forceinline__ bool group_any(bool yes)
{
    return threadIdx.x < GROUP ? any_of<1>(yes, GROUP) : any_of<2>(yes, GROUP);
}

/* Where things are for one block of the grid. */
struct attn90_place {
    const CUtensorMap *big, *small; /* boxes of ATTN_KEYS and SMALL_ROWS rows */
    uint32_t base, bars;            /* the ring; its barriers: all full ones, all empty ones */
    int first, count;               /* the sequence */
    int k_column, v_column;
    int groups;       /* warpgroups that have rows */
    uint32_t pairs;   /* where the bias goes */
    const float *rel; /* of the head; NULL */
};

/* Starts the copy of a block of keys and values into its stage; one thread. */
template <int D, int WGS>
__device__ __forceinline__ void fetch(const struct attn90_place &p, int block)
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
    proxy_fence();
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
    uint32_t k = low_word(k_at);

    wgmma<T, 0, 0>(s, q[0], descriptor<D>(k));
#pragma unroll
    for (int i = 1; i < D / 16; i++)
        wgmma<T, 0, 1>(s, q[i], descriptor<D>(k + i * (32 >> 4)));
    wgmma_close();
}
template <typename T, int D>
__device__ __forceinline__ void gather(float (&o)[D / 8][4], const uint32_t (&p)[ATTN_STEPS][4],
                                       uint32_t v_at)
{
    uint32_t v = low_word(v_at);

#pragma unroll
    for (int i = 0; i < ATTN_STEPS; i++)
        wgmma<T, 1, 1>(o, p[i], descriptor<D>(v + i * (16 * D * 2 >> 4)));
    wgmma_close();
}

/* ---- softmax ---- */
/* A warp's rows: what they have summed up. */
template <int D> struct rows {
    float o[D / 8][4], m[2], l[2];
};
template <int D> __device__ __forceinline__ void rows_init(struct rows<D> &r, float m)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        r.m[i] = m;
        r.l[i] = 0.0f;
    }
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            r.o[n][i] = 0.0f;
}
__device__ __forceinline__ float power(float x) /* volatile: it stays before the next wait */
{
    float y;
    asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Moves m where a row's scores exceed it. */
template <int D>
__device__ __forceinline__ void raise(const float (&s)[ATTN_GROUPS][4], struct rows<D> &r, float by)
{
    float top[2];

    if (!attn_exceeds(s, by, r.m, top))
        return;
    wgmma_wait<0>();
    hold(r.o);
    attn_move(top, r.m, r.l, r.o);
}

/* Scores to probabilities, in place.  m moves in exact passes; else it is 0, or for f16 what the
 * first block says. */
template <typename T, int D, bool REL, bool TAIL>
__device__ __forceinline__ void softmax(float (&s)[ATTN_GROUPS][4], struct rows<D> &r, float scale,
                                        const float2 *pairs, int key, int query, int valid,
                                        bool exact)
{
    const bool half = is_half<T>::value, plain = REL && !half;

    if (REL)
        attn_bias(s, scale, pairs, key, query);
    if (TAIL)
        attn_mask(s, valid);
    if (exact || (half && key == 0)) {
        raise<D>(s, r, REL ? 1.0f : scale);
        if (half && !exact) {
            r.m[0] += HALF_ROOM;
            r.m[1] += HALF_ROOM;
        }
        if (plain)
#pragma unroll
            for (int n = 0; n < ATTN_GROUPS; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s[n][i] -= r.m[i >> 1];
    }
#pragma unroll
    for (int n = 0; n < ATTN_GROUPS; n++) {
        if (TAIL && 8 * n >= valid) {
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[n][i] = 0.0f;
            continue;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] = power(plain ? s[n][i] : fmaf(s[n][i], REL ? 1.0f : scale, -r.m[i >> 1]));
        r.l[0] += s[n][0] + s[n][1];
        r.l[1] += s[n][2] + s[n][3];
    }
}

/* All keys of the sequence for this warp's 16 rows, the first being `query`. */
template <typename T, int D, int WGS, bool REL>
__device__ __forceinline__ void walk(const struct attn90_place &p, struct rows<D> &r,
                                     const uint32_t (&q)[D / 16][4], const float2 *pairs,
                                     float scale, int query, bool exact)
{
    const int last = (p.count - 1) / ATTN_KEYS, valid = p.count - last * ATTN_KEYS;
    const bool refill = last >= shape<D, WGS>::stages;
    float s[ATTN_GROUPS][4];
    uint32_t w[ATTN_STEPS][4], at = p.base, bar = p.bars, used = 0, parity = 0, used_parity = 1;

    barrier_wait(bar, 0);
    wgmma_open();
    scores<T, D>(s, q, at);
    wgmma_wait<0>();
    hold(s);
    for (int j = 0; j < last; j++) {
        uint32_t v_at = at + shape<D, WGS>::matrix, now = bar + 8 * shape<D, WGS>::stages;
        softmax<T, D, REL, false>(s, r, scale, pairs, j * ATTN_KEYS, query, ATTN_KEYS, exact);
        at += shape<D, WGS>::stage;
        bar += 8;
        if (bar == p.bars + 8 * shape<D, WGS>::stages) {
            at = p.base;
            bar = p.bars;
            parity ^= 1;
        }
        barrier_wait(bar, parity); /* its branch keeps the powers before the next wait */
        wgmma_wait<0>();
        hold(r.o);
        attn_pack<T>(w, s);
        if (refill && j > 0 && (threadIdx.x & 31) == 0)
            barrier_arrive(used); /* the product of block j - 1 has been waited for */
        wgmma_open();
        scores<T, D>(s, q, at);
        gather<T, D>(r.o, w, v_at);
        if (refill) {
            if (threadIdx.x == 0 && j > 0 && j - 1 + shape<D, WGS>::stages <= last) {
                barrier_wait(used, used_parity);
                fetch<D, WGS>(p, j - 1 + shape<D, WGS>::stages);
            }
            __syncwarp();
            used = now;
            used_parity ^= now == p.bars + 8 * shape<D, WGS>::stages;
        }
        wgmma_wait<1>();
        hold(s);
    }
    at += shape<D, WGS>::matrix;
    if (valid < ATTN_KEYS) {
        clear_rows<D>(at, valid);
        softmax<T, D, REL, true>(s, r, scale, pairs, last * ATTN_KEYS, query, valid, exact);
    } else {
        softmax<T, D, REL, false>(s, r, scale, pairs, last * ATTN_KEYS, query, ATTN_KEYS, exact);
    }
    wgmma_wait<0>();
    hold(r.o);
    attn_pack<T>(w, s);
    wgmma_open();
    gather<T, D>(r.o, w, at);
    wgmma_wait<0>();
    hold(r.o);
}

/* Thread 0 opens the barriers and starts the first copies. */
template <int D, int WGS> __device__ __forceinline__ void begin(const struct attn90_place &p)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(p.big) : "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(p.small) : "memory");
    for (int i = 0; i < shape<D, WGS>::stages; i++) {
        barrier_init(p.bars + 8 * i, 1);
        barrier_init(p.bars + 8 * (shape<D, WGS>::stages + i), p.groups * GROUP / 32);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    proxy_fence();
    if (p.rel)
        copy_table(p.pairs, p.rel, p.bars);
    gk_wait_before();
    for (int i = 0; i < shape<D, WGS>::stages && i * ATTN_KEYS < p.count; i++)
        fetch<D, WGS>(p, i);
}
/* The same once more, for another pass over the sequence; all copies have been waited for. */
template <int D, int WGS> __device__ __forceinline__ void begin_again(const struct attn90_place &p)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * shape<D, WGS>::stages; i++)
            barrier_end(p.bars + 8 * i);
        begin<D, WGS>(p);
    }
    __syncwarp();
    any_of<WGS + 1>(false, p.groups * GROUP);
}

/* Whether a pass that did not move m is of no use: a row's sum is so far from 1 that powers, or
 * their products with v, may have been too large or lost, or a lane's is more than f16 holds. */
template <typename T> __device__ __forceinline__ bool outside(float l, float sum)
{
    return !(sum > 1e-20f && sum < 1e20f) || (is_half<T>::value && !(l < 6e4f));
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
    struct attn90_place p;
    p.big = &big;
    p.small = &small;
    p.base = (uint32_t)__cvta_generic_to_shared(shared);
    p.bars = p.base + shape<D, WGS>::bars_at;
    p.first = (int)tile.first;
    p.count = (int)tile.count;
    p.k_column = (a.heads + head) * D;
    p.v_column = (2 * a.heads + head) * D;
    p.pairs = p.base + shape<D, WGS>::pairs_at;
    p.rel = REL ? a.rel + (size_t)head * GK_REL : NULL;
    p.groups = WGS == 2 && p.count - (int)tile.q > GROUP / 2 ? 2 : 1;
    if (threadIdx.x == 0)
        begin<D, WGS>(p);
    __syncwarp();
    gk_wait_before();

    int query = (int)tile.q + 16 * warp;
    const uint16_t *q0 = (const uint16_t *)a.qkv + (size_t)head * D;
    uint32_t q[D / 16][4];
    struct rows<D> r;
    rows_init(r, is_half<T>::value ? -INFINITY : 0.0f);
    struct attn_q<D> raw;
    attn_read_q<D>(raw, q0 + ((size_t)p.first + min(query, p.count - 1)) * a.ld, a.ld,
                   p.count - query);
    __syncthreads();
    if (warp / 4 >= p.groups)
        return;
    attn_turn_q<D>(q, raw);
    bool bad = true;
    for (int pass = 0; pass < 2; pass++) {
        walk<T, D, WGS, REL>(p, r, q, pairs, a.scale, query, pass);
        const float sum[2] = { attn_total(r.l[0]), attn_total(r.l[1]) };
        bool good = bad;
        if (pass == 0) {
            bad = group_any(outside<T>(r.l[0], sum[0]) || outside<T>(r.l[1], sum[1]));
            good = !bad;
        }
        if (good)
            attn_store<T, D>(a, r.o, sum, (size_t)p.first + query, p.count - query, head);
        if (pass == 1 || !(WGS == 1 ? bad : any_of<WGS + 1>(bad, p.groups * GROUP)))
            return;
        begin_again<D, WGS>(p);
        rows_init(r, -INFINITY);
    }
#else
    (void)a;
    (void)big;
    (void)small;
#endif
}

/* ---- launching ---- */
/* qkv as a matrix of which the copy engine takes boxes of `rows` rows and one head. */
cudaError_t map_make(const struct gk_attn *a, int rows, CUtensorMap *out)
{
    return tensor_map_rows(out, a->type, a->qkv, 3 * a->heads * a->head_dim, a->row_cap, a->ld,
                           a->head_dim, rows, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
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
