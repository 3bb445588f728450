/* SPDX-License-Identifier: MIT */
/* attn_sm80: flash attention over packed sequences by mma.sync and cp.async; sm_80 and newer.
 *
 * A block of four warps takes one tile (64 or 128 query rows of one sequence) of one head.  Its
 * queries go straight from memory into registers; keys and values come in blocks of 64 through two
 * stages of shared memory, one being filled while the other is used:
 *
 *        cp.async     K0 V0 | K1 V1 | K2 V2 | ...
 *        warps              | q k^T, softmax, p v of 0 | ... of 1 | ...
 *
 * A warp holds 16 rows (32 in a long tile, so that what it loads of K and V serves twice as many),
 * walks over the keys alone and keeps scores and probabilities in registers (attn.cuh).  Rows of 16
 * bytes are stored crosswise (chunk ^ row), so that ldmatrix meets no two in one bank.
 *
 * Rows behind the end of the sequence are never read: cp.async fills zeros there, so that a
 * probability of 0 meets a value of 0 and not what the next sequence, or nobody, wrote.  Groups of
 * keys behind the end are not computed either: a sequence of 20 tokens costs two groups of four. */
#include "engine/cuda/kernels/attn.cuh"

namespace
{

enum { WARPS = 4, THREADS = 32 * WARPS, STAGES = 2 };

/* Where 16 bytes stand in a stage: element offset of a chunk of a row. */
template <int D> __device__ __forceinline__ int chunk_at(int row, int chunk)
{
    int swizzle = D == 64 ? row & 7 : (row >> 1) & 3;
    return row * D + (chunk ^ swizzle) * 8;
}

__device__ __forceinline__ void copy16(uint32_t to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
}
__device__ __forceinline__ void copies_close(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ __forceinline__ void copies_wait(void)
{
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

__device__ __forceinline__ void load4(uint32_t (&r)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}
__device__ __forceinline__ void load4_turned(uint32_t (&r)[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

/* Starts the copy of up to 64 rows of keys and values; rows up to a multiple of 16 are filled. */
template <int D>
__device__ __forceinline__ void fetch(uint32_t k_at, uint32_t v_at, const uint16_t *k,
                                      const uint16_t *v, size_t ld, int valid)
{
    constexpr int chunks = D / 8;
    int fill = (valid + 15) & ~15;

#pragma unroll
    for (int i = 0; i < ATTN_KEYS * chunks / THREADS; i++) {
        int x = (int)threadIdx.x + i * THREADS, row = x / chunks, chunk = x % chunks;
        bool there = row < valid;
        size_t from = (size_t)(there ? row : 0) * ld + 8 * chunk;
        uint32_t to = 2 * (uint32_t)chunk_at<D>(row, chunk);
        if (row < fill) {
            copy16(k_at + to, k + from, there);
            copy16(v_at + to, v + from, there);
        }
    }
    copies_close();
}

/* s = q k^T for MT times 16 rows; groups of 16 keys from `valid` on are left zeros. */
template <typename T, int D, int MT>
__device__ __forceinline__ void scores(float (&s)[MT][ATTN_GROUPS][4],
                                       const uint32_t (&q)[MT][D / 16][4], uint32_t k_at, int valid)
{
    int lane = (int)threadIdx.x & 31, row = (lane & 7) + (lane >> 4) * 8, half = (lane >> 3) & 1;

#pragma unroll
    for (int n = 0; n < ATTN_GROUPS; n += 2) {
#pragma unroll
        for (int t = 0; t < MT; t++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                s[t][n][i] = s[t][n + 1][i] = 0.0f;
        if (8 * n >= valid)
            continue;
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
            uint32_t b[4];
            load4(b, k_at + 2 * (uint32_t)chunk_at<D>(8 * n + row, 2 * k + half));
#pragma unroll
            for (int t = 0; t < MT; t++) {
                gk_mma<T>(s[t][n], q[t][k], b);
                gk_mma<T>(s[t][n + 1], q[t][k], b + 2);
            }
        }
    }
}

/* o += p v */
template <typename T, int D, int MT>
__device__ __forceinline__ void
gather(float (&o)[MT][D / 8][4], const uint32_t (&p)[MT][ATTN_STEPS][4], uint32_t v_at, int valid)
{
    int lane = (int)threadIdx.x & 31, row = lane & 15, half = lane >> 4;

#pragma unroll
    for (int k = 0; k < ATTN_STEPS; k++) {
        if (16 * k >= valid)
            continue;
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
            uint32_t b[4];
            load4_turned(b, v_at + 2 * (uint32_t)chunk_at<D>(16 * k + row, n + half));
#pragma unroll
            for (int t = 0; t < MT; t++) {
                gk_mma<T>(o[t][n], p[t][k], b);
                gk_mma<T>(o[t][n + 1], p[t][k], b + 2);
            }
        }
    }
}

/* A warp's rows: what they have summed up, and where they are. */
template <int D, int MT> struct rows {
    float o[MT][D / 8][4], m[MT][2], l[MT][2];
    int query; /* the first one's place in the sequence */
};

/* One block of keys, from the scores to the sums. */
template <typename T, int D, int MT, bool REL, bool TAIL>
__device__ __forceinline__ void
take_block(struct rows<D, MT> &r, const uint32_t (&q)[MT][D / 16][4], uint32_t k_at, uint32_t v_at,
           const float2 *pairs, float scale, int key, int valid)
{
    float s[MT][ATTN_GROUPS][4];
    uint32_t p[MT][ATTN_STEPS][4];

    scores<T, D, MT>(s, q, k_at, TAIL ? valid : ATTN_KEYS);
#pragma unroll
    for (int t = 0; t < MT; t++) {
        const float by = REL ? 1.0f : scale;
        float top[2];
        if (REL)
            attn_bias(s[t], scale, pairs, key, r.query + 16 * t);
        if (TAIL)
            attn_mask(s[t], valid);
        if (attn_exceeds(s[t], by, r.m[t], top))
            attn_move(top, r.m[t], r.l[t], r.o[t]);
        attn_powers<TAIL>(s[t], by, r.m[t], r.l[t], valid);
        attn_pack<T>(p[t], s[t]);
    }
    gather<T, D, MT>(r.o, p, v_at, TAIL ? valid : ATTN_KEYS);
}

template <int D, int MT> __device__ __forceinline__ void rows_init(struct rows<D, MT> &r, int query)
{
    r.query = query;
#pragma unroll
    for (int t = 0; t < MT; t++) {
        r.m[t][0] = r.m[t][1] = -INFINITY;
        r.l[t][0] = r.l[t][1] = 0.0f;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                r.o[t][n][i] = 0.0f;
    }
}

template <typename T, int D, int MT, bool REL>
__global__ void __launch_bounds__(THREADS, MT == 1 ? 4 : 2)
    attn_mma(const __grid_constant__ struct attn_args a)
{
    __shared__ __align__(128) uint16_t stages[STAGES][2][ATTN_KEYS * D]; /* k, v */
    __shared__ float2 pairs[REL ? 2 * GK_REL_PAIRS : 1];
    uint32_t at = (uint32_t)__cvta_generic_to_shared(stages);
    const uint32_t matrix = ATTN_KEYS * D * 2;
    struct gk_tile tile;
    int head, warp = (int)threadIdx.x >> 5;

    if (!attn_work(a, tile, head)) {
        if (blockIdx.x == 0)
            gk_wait_before();
        return;
    }
    gk_let_next();
    if (REL)
        for (int i = (int)threadIdx.x; i < 2 * GK_REL_PAIRS; i += THREADS)
            pairs[i] = ((const float2 *)a.rel)[(size_t)head * 2 * GK_REL_PAIRS + i];
    gk_wait_before();

    int count = (int)tile.count, query = (int)tile.q + 16 * MT * warp;
    const uint16_t *q0 = (const uint16_t *)a.qkv + (size_t)tile.first * a.ld + (size_t)head * D;
    const uint16_t *k0 = q0 + (size_t)a.heads * D, *v0 = k0 + (size_t)a.heads * D;
    uint32_t q[MT][D / 16][4];
    struct rows<D, MT> r;

    fetch<D>(at, at + matrix, k0, v0, a.ld, min(count, (int)ATTN_KEYS));
#pragma unroll
    for (int t = 0; t < MT; t++) {
        struct attn_q<D> raw;
        attn_read_q<D>(raw, q0 + (size_t)min(query + 16 * t, count - 1) * a.ld, a.ld,
                       count - query - 16 * t);
        attn_turn_q<D>(q[t], raw);
    }
    rows_init<D, MT>(r, query);
    for (int key = 0; key < count; key += ATTN_KEYS) {
        uint32_t k_at = at + (uint32_t)(key / ATTN_KEYS % STAGES) * 2 * matrix;
        uint32_t k_next = at + (uint32_t)((key / ATTN_KEYS + 1) % STAGES) * 2 * matrix;
        int next = key + ATTN_KEYS, valid = count - key;
        copies_wait();
        __syncthreads(); /* this block is there, and the one before it is used up */
        if (next < count)
            fetch<D>(k_next, k_next + matrix, k0 + (size_t)next * a.ld, v0 + (size_t)next * a.ld,
                     a.ld, min(count - next, (int)ATTN_KEYS));
        if (query >= count)
            continue;
        if (valid >= ATTN_KEYS)
            take_block<T, D, MT, REL, false>(r, q, k_at, k_at + matrix, pairs, a.scale, key,
                                             ATTN_KEYS);
        else
            take_block<T, D, MT, REL, true>(r, q, k_at, k_at + matrix, pairs, a.scale, key, valid);
    }
#pragma unroll
    for (int t = 0; t < MT; t++)
        if (query + 16 * t < count) {
            const float sum[2] = { attn_total(r.l[t][0]), attn_total(r.l[t][1]) };
            attn_store<T, D>(a, r.o[t], sum, (size_t)tile.first + query + 16 * t,
                             count - query - 16 * t, head);
        }
}

template <typename T, int D, int MT> cudaError_t launch(const struct gk_attn *a, cudaStream_t s)
{
    dim3 grid((unsigned)a->tile_max * (unsigned)a->heads);

    if (a->rel)
        return gk_launch(attn_mma<T, D, MT, true>, grid, THREADS, 0, s, a->pdl, attn_args_of(a));
    return gk_launch(attn_mma<T, D, MT, false>, grid, THREADS, 0, s, a->pdl, attn_args_of(a));
}

template <typename T> cudaError_t launch_of(const struct gk_attn *a, cudaStream_t s)
{
    bool longer = a->tile_rows == GK_ATTN_ROWS_LONG;

    if (a->head_dim == 64)
        return longer ? launch<T, 64, 2>(a, s) : launch<T, 64, 1>(a, s);
    return longer ? launch<T, 32, 2>(a, s) : launch<T, 32, 1>(a, s);
}

} // namespace

extern "C" cudaError_t gk_attn_sm80(const struct gk_attn *a, cudaStream_t s)
{
    if (!attn_fits(a))
        return cudaErrorInvalidValue;
    if (a->tile_max == 0)
        return cudaSuccess;
    return a->type == GK_F16 ? launch_of<__half>(a, s) : launch_of<__nv_bfloat16>(a, s);
}
