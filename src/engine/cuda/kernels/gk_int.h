/* SPDX-License-Identifier: MIT */
/* gk: the GPU kernels of the encoder, as the host side calls them.
 *
 * Host code is C (cuda_net.c and its neighbours), kernels are CUDA C; this header is what they
 * share.  A launcher puts its work on a stream and returns what the launch said; it allocates
 * nothing, waits for nothing and keeps nothing between calls but facts of the device, so that
 * every one of them can be captured into a graph.
 *
 * Tokens of a batch stand one behind the other in rows; there is no padding between sequences.
 * Widths are padded once, when weights are loaded, with zeros: every n and k here is a multiple
 * of GK_PAD, heads are 32 or 64 wide, and a kernel need not look at the ends of a row.  Only
 * those that sum over a row (LayerNorm, pooling) are told the true width.  Buffers of rows have
 * room for a multiple of GK_ROWS_PAD rows: kernels may read (never write) rows behind the last
 * one, whose numbers mean nothing.
 *
 * The number of rows may stand in device memory (`rows`): a graph is captured for the most
 * rows (`m`) and run for fewer.
 *
 * `pdl` launches with programmatic stream serialisation: the kernel may begin while the one
 * before it on the stream still runs, and asks griddepcontrol.wait before it touches what that
 * one wrote (weights it may fetch before).  Every kernel behind which another may be launched so
 * runs griddepcontrol.launch_dependents; sm_80 has neither, and `pdl` means nothing there. */
#ifndef ENGINE_CUDA_KERNELS_GK_INT_H
#define ENGINE_CUDA_KERNELS_GK_INT_H
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { GK_PAD = 64, GK_ROWS_PAD = 256, GK_REACH = 128 /* MPNET_REACH */ };

enum gk_type { GK_F16, GK_BF16, GK_E4M3, GK_F32 };
enum gk_act { GK_ACT_NONE, GK_ACT_GELU /* erf */, GK_ACT_GELU_TANH, GK_ACT_RELU };

/* ---- products: out[i][j] = act(sum over k of a[i][k] * w[j][k], scaled, + bias[j]) ---- */
struct gk_gemm {
    enum gk_type type;     /* of a and w: f16, bf16 or e4m3; sums are f32 */
    enum gk_type out_type; /* of out: f16 or bf16; e4m3 only where a and w are e4m3 too */
    enum gk_act act;
    int m, n, k;         /* rows, at most; columns out; columns in */
    const int32_t *rows; /* device: rows there are (0 .. m); NULL: m */
    const void *a;       /* [m][lda] */
    const void *w;       /* [n][k] */
    void *out;           /* [m][ldout] */
    size_t lda, ldout;   /* elements; multiples of GK_PAD */
    const float *bias;   /* [n]; NULL: none */
    /* e4m3: a number is what is stored times its scale.  Device memory. */
    const float *a_scale; /* [m] when a_scale_rows, else [1] */
    const float *w_scale; /* [n] when w_scale_cols, else [1] */
    bool a_scale_rows, w_scale_cols;
    const float *out_scale; /* [1]; for out_type e4m3: stored = number / scale, saturating */
    bool pdl;
};

/* wgmma and the tensor copy engine; only sm_90.  One order of sums whatever m is: a row has
 * the same bits in every batch. */
cudaError_t gk_gemm_sm90(const struct gk_gemm *g, cudaStream_t s);
/* mma.sync and cp.async; sm_80 and everything newer; f16 and bf16.  The same promise. */
cudaError_t gk_gemm_sm80(const struct gk_gemm *g, cudaStream_t s);

/* Few rows: reading the weights is the work.  f16 and bf16, m up to GK_SKINNY_ROWS.  With
 * splits > 1 the sums over k are cut into that many parts, and `partial` [splits][m][n] takes
 * them as f32 instead of `out`: bias and activation are left to who adds them up
 * (gk_add_norm()). */
enum { GK_SKINNY_ROWS = 64, GK_SPLITS_MAX = 8 };
cudaError_t gk_gemm_skinny(const struct gk_gemm *g, float *partial, int splits, cudaStream_t s);
int gk_skinny_splits(int n, int k,
                     int sms); /* a good number of splits for gk_add_norm() after it */

/* ---- attention: softmax(q k^T * scale + bias of the distance) v, each sequence for itself ---- */
/* A piece of work: rows q .. of a sequence, for every head. */
struct gk_tile {
    uint32_t first, count; /* the sequence's rows in the batch */
    uint32_t q;            /* its first query row, counted in the sequence */
};
struct gk_attn {
    enum gk_type type;     /* of qkv: f16 or bf16 */
    enum gk_type out_type; /* the same, or e4m3 */
    int heads, head_dim;   /* 32 or 64 */
    const void *qkv;       /* [rows][ld]: q of all heads, then k, then v; each heads * head_dim */
    void *out;             /* [rows][ldout] */
    size_t ld, ldout;
    int row_cap;      /* rows the buffers have room for */
    float scale;      /* 1 / sqrt(true head size) */
    const float *rel; /* [heads][GK_REL] by gk_rel_spread(), 16-byte aligned; NULL: no bias */
    const struct gk_tile *tiles; /* device; longest sequences first; room for tile_max */
    int tile_max;                /* tiles, at most */
    int tile_rows;               /* of a tile: GK_ATTN_ROWS (or 0) or GK_ATTN_ROWS_LONG */
    const int32_t *tile_count;   /* device; NULL: tile_max */
    const float *out_scale;      /* [1], for e4m3 */
    bool pdl;
};
/* The bias of the distance key - query, clamped to GK_REACH, as the kernels want it: in powers of
 * two, in pairs of neighbours, once for each parity of the distance, and so far beyond the reach
 * that nothing is clamped in a loop.  Pair k of parity p has distances 2 k + p - GK_REL_REACH and
 * the one behind it. */
enum {
    GK_REL_REACH = GK_REACH + 80,
    GK_REL_PAIRS = GK_REL_REACH + 1,
    GK_REL = 2 * 2 * GK_REL_PAIRS
};
#define GK_LOG2E 1.4426950408889634f
static inline void gk_rel_spread(const float *bias /* [2 * GK_REACH + 1] */, float *out)
{
    for (int i = 0; i < GK_REL; i++) {
        int pair = i / 2 % GK_REL_PAIRS, parity = i / 2 / GK_REL_PAIRS;
        int d = 2 * pair + parity + i % 2 - GK_REL_REACH;

        d = d < -GK_REACH ? -GK_REACH : d > GK_REACH ? GK_REACH : d;
        out[i] = bias[d + GK_REACH] * GK_LOG2E;
    }
}
/* Query rows of a tile, which whoever makes `tiles` must know.  Long tiles read keys and values
 * half as often; the numbers have the same bits either way. */
enum { GK_ATTN_ROWS = 64, GK_ATTN_ROWS_LONG = 128 };
cudaError_t gk_attn_sm90(const struct gk_attn *a, cudaStream_t s);
cudaError_t gk_attn_sm80(const struct gk_attn *a, cudaStream_t s);

/* ---- rows ---- */
struct gk_embed {      /* x = LN(word[id] + position[pos] + type[t]) */
    enum gk_type type; /* of tables and of x */
    int m;
    const int32_t *rows;
    int hidden;                      /* true width */
    size_t ld;                       /* of tables and of x; columns from hidden on become 0 */
    const uint32_t *ids, *positions; /* [m] device */
    const uint8_t *types;            /* [m] device; NULL: all 0 */
    const void *word, *position, *token_type; /* tables; token_type may be NULL */
    const float *gamma, *beta;
    float eps;
    void *x;
    void *x8;        /* (optional) the same as e4m3 */
    float *x8_scale; /* [m]: its scales, by row */
    bool pdl;
};
cudaError_t gk_embed(const struct gk_embed *e, cudaStream_t s);

struct gk_norm { /* x = LN(x + y), y being a product's output or the parts of one */
    enum gk_type type;
    int m;
    const int32_t *rows;
    int hidden;
    size_t ld;            /* of x, y */
    void *x;              /* in and out */
    const void *y;        /* [m][ld]; NULL: partial */
    const float *partial; /* [splits][m][ld] f32 */
    int splits;
    const float *bias; /* [ld]; with partial; NULL: none */
    const float *gamma, *beta;
    float eps;
    void *x8;        /* (optional) the same as e4m3, each row by its own largest number */
    float *x8_scale; /* [m] */
    bool pdl;
};
cudaError_t gk_add_norm(const struct gk_norm *n, cudaStream_t s);

/* ---- a feed-forward block in one kernel: x = LN(x + w2 act(w1 x + b1) + b2) ---- */
struct gk_ffn {
    enum gk_type type; /* of x, w1 and w2: f16 or bf16; sums are f32 */
    enum gk_act act;   /* only GELU (erf) */
    int m;             /* rows, at most */
    const int32_t *rows;
    int hidden, ffn;      /* hidden: 256 or 384, without padding; ffn: a multiple of GK_PAD */
    size_t ld;            /* of x */
    void *x;              /* in and out */
    const void *w1, *w2;  /* [ffn][hidden], [hidden][ffn] */
    const float *b1, *b2; /* [ffn], [hidden]; 16-byte aligned */
    const float *gamma, *beta;
    float eps;
    bool pdl;
};
/* Whether gk_ffn_sm90() serves such a block; looks at type, act, hidden and ffn only.  It takes
 * the same time for any number of rows up to 128 a multiprocessor, then for twice that, and so
 * on: on an H200 it pays from some 14000 rows on, most with few left over from 16896. */
bool gk_ffn_sm90_can(const struct gk_ffn *f);
cudaError_t gk_ffn_sm90(const struct gk_ffn *f, cudaStream_t s);

/* ---- after the last layer, all in f32 ---- */
enum gk_pool_kind {
    GK_POOL_MEAN,
    GK_POOL_CLS,
    GK_POOL_MAX,
    GK_POOL_LAST,
    GK_POOL_MEAN_SQRT,
    GK_POOL_WEIGHTED
}; /* in the order of enum model_pool */
enum { GK_POOLS_MAX = 6 };
struct gk_pool {
    enum gk_type type;
    int sequences;        /* at most */
    const int32_t *count; /* device: sequences there are; NULL: sequences */
    int hidden;
    size_t ld;
    const void *x;
    const uint32_t *starts; /* [sequences + 1] device */
    const uint32_t *skip;   /* [sequences] device, first rows left out; NULL: none */
    enum gk_pool_kind kinds[GK_POOLS_MAX];
    int kind_count; /* their vectors stand one behind the other */
    bool normalize; /* x / max(|x|, 1e-12), over all of a vector */
    float *out;     /* [sequences][kind_count * hidden] */
    bool pdl;
};
cudaError_t gk_pool(const struct gk_pool *p, cudaStream_t s);

enum gk_dense_act { GK_DENSE_NONE, GK_DENSE_TANH, GK_DENSE_RELU, GK_DENSE_GELU };
struct gk_dense { /* out[i] = act(w x[i] + bias), f32, a warp a number */
    int sequences;
    const int32_t *count;
    int in, n;
    const float *x;    /* [sequences][in] */
    const float *w;    /* [n][in] */
    const float *bias; /* [n]; NULL */
    enum gk_dense_act act;
    bool normalize;
    float *out; /* [sequences][n] */
    bool pdl;
};
cudaError_t gk_dense(const struct gk_dense *d, cudaStream_t s);

/* Rows as f32, without their padding: [m][ld] to [m][hidden]. */
cudaError_t gk_widen(enum gk_type type, const void *x, size_t ld, int m, int hidden, float *out,
                     cudaStream_t s);
/* f32 weights [n][k] to `type` [n_pad][k_pad], zeros around; e4m3: scale[n_pad] is written, a row
 * by its largest number when `by_row`, else all the same. */
cudaError_t gk_pack(enum gk_type type, const float *w, int n, int k, int n_pad, int k_pad,
                    void *out, float *scale, bool by_row, cudaStream_t s);

#ifdef __cplusplus
}
#endif
#endif
