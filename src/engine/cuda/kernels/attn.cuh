/* SPDX-License-Identifier: MIT */
/* attn: what the two attention kernels share: everything a warp does in registers.
 *
 * Both kernels give a warp 16 query rows (or 32, as two times 16) and walk over the keys of its
 * sequence in blocks of ATTN_KEYS.  mma.sync and wgmma deal a 16-row piece of a matrix out to the
 * lanes in the same way, so scores, softmax, bias and the store of the result are the same code:
 *
 *   lane = 4 g + c          s[n][0], s[n][1]: row g,     columns 8 n + 2 c and the one behind it
 *   (g 0..7, c 0..3)        s[n][2], s[n][3]: row g + 8, the same columns
 *
 * and two neighbouring groups n of scores, rounded to 16 bits, are an A operand of the next
 * product: probabilities never leave the registers.
 *
 * Softmax is done in f32, in powers of two: the scale takes log2(e) in.  The subtrahend m of a row
 * is its first block's maximum and moves only when a score exceeds it by more than ATTN_SLACK:
 * probabilities then reach 2^ATTN_SLACK instead of 1, which 16 bits hold as exactly, and most
 * blocks need neither an exchange between lanes nor a pass over the sums.  (On sm_90 it does not
 * move at all in a first attempt.)  What a row does depends on nothing but its own sequence: its
 * bits are the same in every batch. */
#ifndef ENGINE_CUDA_ATTN_CUH
#define ENGINE_CUDA_ATTN_CUH
#include "engine/cuda/kernels/gk_dev.cuh"

enum {
    ATTN_KEYS = 64,              /* keys of a block */
    ATTN_GROUPS = ATTN_KEYS / 8, /* groups of 8 columns in a block of scores */
    ATTN_STEPS = ATTN_KEYS / 16, /* steps of the product with v */
    ATTN_SLACK = 8
};

/* What a kernel is given; by value. */
struct attn_args {
    const void *qkv;
    void *out;
    size_t ld, ldout;
    const struct gk_tile *tiles;
    const int32_t *tile_count;
    int tile_max, heads;
    float scale; /* with log2(e) in it */
    const float *rel;
    const float *out_scale;
    bool e4m3; /* of out */
};

/* The block's tile and head; heads run fastest, so that neighbours in time are neighbours in
 * memory.  False: there is no such tile; it is read all the same, beside the count, not after. */
__device__ __forceinline__ bool attn_work(const struct attn_args &a, struct gk_tile &t, int &head)
{
    int tile = (int)(blockIdx.x / (unsigned)a.heads);

    head = (int)(blockIdx.x % (unsigned)a.heads);
    t = a.tiles[tile];
    return !a.tile_count || tile < *a.tile_count;
}

__device__ __forceinline__ float attn_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* A pair that cannot be too large for f16. */
template <typename T> __device__ __forceinline__ uint32_t attn_pair(float lo, float hi);
template <> __device__ __forceinline__ uint32_t attn_pair<__half>(float lo, float hi)
{
    __half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&h);
}
template <> __device__ __forceinline__ uint32_t attn_pair<__nv_bfloat16>(float lo, float hi)
{
    return gk_pair<__nv_bfloat16>(lo, hi);
}

/* 4 x 4 words across the four lanes of a row: w[i] becomes lane i's w[c]. */
__device__ __forceinline__ void attn_transpose(uint32_t (&w)[4])
{
    bool odd = threadIdx.x & 1, high = threadIdx.x & 2;

#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? w[i] : w[i + 1], 1);
        w[i] = odd ? got : w[i];
        w[i + 1] = odd ? w[i + 1] : got;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t got = __shfl_xor_sync(0xffffffffu, high ? w[i] : w[i + 2], 2);
        w[i] = high ? got : w[i];
        w[i + 2] = high ? w[i + 2] : got;
    }
}

/* 16 rows of q as A operands, straight from memory; rows from `rows` on are zeros.  The four lanes
 * of a row read 16 bytes each and then hand each other the words they need. */
template <int D> struct attn_q {
    uint4 x[2][D / 32];
};
template <int D>
__device__ __forceinline__ void attn_read_q(struct attn_q<D> &r, const uint16_t *row0, size_t ld,
                                            int rows)
{
    int g = (int)(threadIdx.x & 31) >> 2, c = (int)threadIdx.x & 3;

#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int k = 0; k < D / 32; k++) {
            r.x[i][k] = make_uint4(0, 0, 0, 0);
            if (g + 8 * i < rows)
                r.x[i][k] = *(const uint4 *)(row0 + (size_t)(g + 8 * i) * ld + 32 * k + 8 * c);
        }
}
template <int D>
__device__ __forceinline__ void attn_turn_q(uint32_t (&q)[D / 16][4], const struct attn_q<D> &r)
{
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int k = 0; k < D / 32; k++) {
            uint32_t w[4] = { r.x[i][k].x, r.x[i][k].y, r.x[i][k].z, r.x[i][k].w };
            attn_transpose(w);
            q[2 * k][i] = w[0];
            q[2 * k][i + 2] = w[1];
            q[2 * k + 1][i] = w[2];
            q[2 * k + 1][i + 2] = w[3];
        }
}

/* ---- relative bias ---- */
/* A lane's distances key - query step by 8 from group to group and are all odd or all even, and
 * row g + 8 meets in group n what row g met in group n - 1: with the table of gk_rel_spread() a
 * block costs a lane nine loads of 8 bytes.  Blocks all beyond the reach read one that just is:
 * there is no branch. */
enum {
    ATTN_REL_BYTES = GK_REL * sizeof(float),
    ATTN_REL_LEAST = -(GK_REACH + ATTN_KEYS), /* key - query of such blocks; multiples of 16 */
    ATTN_REL_MOST = GK_REACH + 16
};
static_assert((int)GK_REL_REACH >= (int)GK_REACH + (int)ATTN_KEYS + 16, "they are in the table");

/* s = s * scale + bias, for a block whose first column is `key` and the 16 rows from `query` on. */
__device__ __forceinline__ void attn_bias(float (&s)[ATTN_GROUPS][4], float scale,
                                          const float2 *pairs, int key, int query)
{
    int g = (int)(threadIdx.x & 31) >> 2, c = (int)threadIdx.x & 3, p = g & 1;
    int d = min(max(key - query, (int)ATTN_REL_LEAST), (int)ATTN_REL_MOST);
    const float2 *mine = pairs + p * GK_REL_PAIRS + ((d + 2 * c - g - p + GK_REL_REACH) >> 1);
    float2 before = mine[-4];

#pragma unroll
    for (int n = 0; n < ATTN_GROUPS; n++) {
        float2 b = mine[4 * n];
        s[n][0] = fmaf(s[n][0], scale, b.x);
        s[n][1] = fmaf(s[n][1], scale, b.y);
        s[n][2] = fmaf(s[n][2], scale, before.x);
        s[n][3] = fmaf(s[n][3], scale, before.y);
        before = b;
    }
}

/* ---- softmax ---- */
/* Keys from `valid` on are none: whatever was computed from what stands there is dropped. */
__device__ __forceinline__ void attn_mask(float (&s)[ATTN_GROUPS][4], int valid)
{
    int c = 2 * ((int)threadIdx.x & 3);

#pragma unroll
    for (int n = 0; n < ATTN_GROUPS; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] = 8 * n + c + (i & 1) < valid ? s[n][i] : -INFINITY;
}

/* This lane's largest score of each of its two rows, times `by`; true when any lane of the warp
 * has one that m does not cover. */
__device__ __forceinline__ bool attn_exceeds(const float (&s)[ATTN_GROUPS][4], float by,
                                             const float (&m)[2], float (&top)[2])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float t = fmaxf(s[0][2 * i], s[0][2 * i + 1]);
#pragma unroll
        for (int n = 1; n < ATTN_GROUPS; n++)
            t = fmaxf(t, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
        top[i] = t * by;
    }
    return __any_sync(0xffffffffu, top[0] > m[0] + ATTN_SLACK || top[1] > m[1] + ATTN_SLACK);
}

/* Moves m of the rows that need it, and what was summed up with it. */
template <int N>
__device__ __forceinline__ void attn_move(float (&top)[2], float (&m)[2], float (&l)[2],
                                          float (&o)[N][4])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float t = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 1)), by;
        t = fmaxf(t, __shfl_xor_sync(0xffffffffu, t, 2));
        t = t > m[i] + ATTN_SLACK ? t : m[i];
        by = attn_exp2(m[i] - t);
        m[i] = t;
        l[i] *= by;
#pragma unroll
        for (int n = 0; n < N; n++) {
            o[n][2 * i] *= by;
            o[n][2 * i + 1] *= by;
        }
    }
}

/* s = 2^(s * by - m), l += s.  Groups from `valid` on are zeros. */
template <bool TAIL>
__device__ __forceinline__ void attn_powers(float (&s)[ATTN_GROUPS][4], float by,
                                            const float (&m)[2], float (&l)[2], int valid)
{
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
            s[n][i] = attn_exp2(fmaf(s[n][i], by, -m[i >> 1]));
        l[0] += s[n][0] + s[n][1];
        l[1] += s[n][2] + s[n][3];
    }
}

template <typename T>
__device__ __forceinline__ void attn_pack(uint32_t (&p)[ATTN_STEPS][4],
                                          const float (&s)[ATTN_GROUPS][4])
{
#pragma unroll
    for (int k = 0; k < ATTN_STEPS; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            p[k][i] = attn_pair<T>(s[2 * k + (i >> 1)][2 * (i & 1)],
                                   s[2 * k + (i >> 1)][2 * (i & 1) + 1]);
}

/* ---- the result ---- */
__device__ __forceinline__ uint32_t attn_pair8(float lo, float hi)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(lo, hi), __NV_SATFINITE, __NV_E4M3);
}

/* Row g (i = 0) or g + 8 (i = 1), 16 bits: each lane stores 16 bytes a time. */
template <typename T, int D, int N>
__device__ __forceinline__ void attn_store16(const float (&o)[N][4], int i, float by, uint16_t *row,
                                             bool there)
{
    int c = (int)threadIdx.x & 3;

#pragma unroll
    for (int n = 0; n < D / 8; n += 4) {
        uint32_t w[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            w[k] = gk_pair<T>(o[n + k][2 * i] * by, o[n + k][2 * i + 1] * by);
        attn_transpose(w);
        if (there)
            *(uint4 *)(row + 8 * (n + c)) = make_uint4(w[0], w[1], w[2], w[3]);
    }
}

/* The same, 8 bits: a word takes two groups along, four apart. */
template <int D, int N>
__device__ __forceinline__ void attn_store8(const float (&o)[N][4], int i, float by, uint8_t *row,
                                            bool there)
{
    int c = (int)threadIdx.x & 3;
    uint32_t w[4];

#pragma unroll
    for (int k = 0; k < 4; k++) {
        w[k] = attn_pair8(o[k][2 * i] * by, o[k][2 * i + 1] * by);
        if (D == 64)
            w[k] |=
                attn_pair8(o[(k + 4) % (D / 8)][2 * i] * by, o[(k + 4) % (D / 8)][2 * i + 1] * by)
                << 16;
    }
    attn_transpose(w);
    if (!there)
        return;
    *(uint2 *)(row + 8 * c) =
        make_uint2(__byte_perm(w[0], w[1], 0x5410), __byte_perm(w[2], w[3], 0x5410));
    if (D == 64)
        *(uint2 *)(row + 32 + 8 * c) =
            make_uint2(__byte_perm(w[0], w[1], 0x7632), __byte_perm(w[2], w[3], 0x7632));
}

/* A row's sum, from those of its four lanes. */
__device__ __forceinline__ float attn_total(float l)
{
    l += __shfl_xor_sync(0xffffffffu, l, 1);
    return l + __shfl_xor_sync(0xffffffffu, l, 2);
}

/* o / sum, to 16 rows from `first` on; `rows` of them are there. */
template <typename T, int D, int N>
__device__ __forceinline__ void attn_store(const struct attn_args &a, const float (&o)[N][4],
                                           const float (&sum)[2], size_t first, int rows, int head)
{
    int g = (int)(threadIdx.x & 31) >> 2;
    float scale = a.e4m3 ? 1.0f / *a.out_scale : 1.0f;

#pragma unroll
    for (int i = 0; i < 2; i++) {
        bool there = g + 8 * i < rows;
        size_t at = (first + g + 8 * i) * a.ldout + (size_t)head * D;
        if (a.e4m3)
            attn_store8<D>(o, i, scale / sum[i], (uint8_t *)a.out + at, there);
        else
            attn_store16<T, D>(o, i, 1.0f / sum[i], (uint16_t *)a.out + at, there);
    }
}

/* ---- launching ---- */
static inline bool attn_fits(const struct gk_attn *a)
{
    return (a->type == GK_F16 || a->type == GK_BF16) &&
           (a->out_type == a->type || (a->out_type == GK_E4M3 && a->out_scale)) &&
           (a->head_dim == 32 || a->head_dim == 64) && a->heads > 0 &&
           (a->tile_rows == 0 || a->tile_rows == GK_ATTN_ROWS || a->tile_rows == GK_ATTN_ROWS_LONG);
}

static inline struct attn_args attn_args_of(const struct gk_attn *a)
{
    struct attn_args x = {};

    x.qkv = a->qkv;
    x.out = a->out;
    x.ld = a->ld;
    x.ldout = a->ldout;
    x.tiles = a->tiles;
    x.tile_count = a->tile_count;
    x.tile_max = a->tile_max;
    x.heads = a->heads;
    x.scale = a->scale * GK_LOG2E;
    x.rel = a->rel;
    x.out_scale = a->out_scale;
    x.e4m3 = a->out_type == GK_E4M3;
    return x;
}
#endif
