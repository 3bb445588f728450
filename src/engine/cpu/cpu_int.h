/* SPDX-License-Identifier: MIT */
/* cpu_int: what the files of the fast CPU engine share.
 *
 * The network is a row of products C = A * W^T with something done to each element of C
 * before it is stored (bias, GELU, residual).  A kernel (struct cpu_gemm) is one way to
 * compute such products on one instruction set; struct cpu_vec holds the work on rows
 * around them.  cpu_engine.c chooses both at load and knows nothing of instruction sets.
 *
 * Invariants
 *  1. An element of C is a sum over k in one fixed order that does not depend on the
 *     number of rows, on the row's place in its block, or on the number of threads: the
 *     same text gives the same bits whatever shares its batch.
 *  2. Sums are f32 (int32 for integers); LayerNorm, softmax and activations are f32.
 *  3. Rows of A may be read up to CPU_ROWS_SLACK beyond the last one, and W is padded
 *     with zeros to whole panels and k-steps; what those rows hold never reaches a result.
 *  4. Nothing here allocates, logs or takes a lock while a batch runs. */
#ifndef ENGINE_CPU_CPU_INT_H
#define ENGINE_CPU_CPU_INT_H
#include "base/attr.h"

#include <stdbool.h>
#include <stdint.h>

/* Each includes all before it: every CPU with one of them has the earlier ones. */
enum cpu_isa {
    CPU_NONE,   /* less than AVX2 and FMA: the reference engine serves such a machine */
    CPU_AVX2,   /* AVX2, FMA */
    CPU_AVX512, /* F, BW, DQ, VL */
    CPU_VNNI,   /* products of bytes */
    CPU_BF16,   /* products of bfloat16 */
    CPU_AMX,    /* tiles: bfloat16 and bytes */
    CPU_ISAS
};
enum cpu_elem {
    CPU_E_F32,
    CPU_E_BF16,
    CPU_E_F16,
    CPU_E_U8,
    CPU_E_S8,
    CPU_E_S16,
    CPU_E_SPLIT /* 16 bits as an upper and a lower byte, both signed, that stand apart */
};
enum cpu_act { CPU_ACT_NONE, CPU_ACT_GELU, CPU_ACT_GELU_TANH, CPU_ACT_RELU };

enum {
    CPU_ROWS_SLACK = 32, /* rows that a kernel may read behind the last of A */
    CPU_PANEL_MAX = 32,  /* columns of the widest panel */
    CPU_MR_MAX = 32,     /* rows of the highest block */
    CPU_TURN_MIN = 16,   /* numbers of a row that are turned together, see `quantize` */
    CPU_TURN_MAX = 128,
    CPU_LINE = 64 /* bytes of a cache line; every buffer and panel starts on one */
};

/* One product, C[m][n] = A[m][k] * B[k][n], and what is done to each element:
 *   v = product, for integers (product - zero[row] * col_sum[col]) * scale[row] * col_scale[col]
 *   v += bias[col];  v = act(v);  v += add[row][col];  v *= row_mul[row];  out[row][col] = v */
struct cpu_job {
    const void *a;
    size_t lda; /* bytes from a row to the next */
    const void *b;
    size_t k, n, m;
    const float *bias; /* [n] or NULL; readable up to the end of the last panel */
    enum cpu_act act;
    const float *add; /* [m][ld_add] or NULL */
    size_t ld_add;
    const float *row_mul; /* [m] or NULL */
    void *out;
    size_t ldo;             /* elements from a row to the next */
    enum cpu_elem out_elem; /* CPU_E_F32 or CPU_E_BF16 */
    bool whole;             /* out has room for whole blocks, and wants the bare product */
    const float *scale;     /* [m] of A as integers; NULL otherwise */
    const int32_t *zero;    /* [m]; NULL: all are 0 */
    const float *col_scale; /* [n], to the end of the last panel */
    const int32_t *col_sum; /* [n], likewise */
};

/* A way to multiply.  Layout of B: panels of `nr` columns one behind the other; inside,
 *   element(k, j) at ((k / kg) * nr + j) * kg + k % kg
 * so that `kg` neighbours of k, which one instruction multiplies and adds, stand together. */
struct cpu_gemm {
    const char *name;
    enum cpu_isa isa; /* least that runs it */
    enum cpu_elem a, b;
    size_t mr, nr, kg, kstep; /* kstep: B's k is padded to a multiple of it */
    /* Rows [m0, m1) of panels [p0, p1). */
    void (*run)(const struct cpu_job *j, size_t m0, size_t m1, size_t p0, size_t p1);
    bool bare; /* it stores a bare product (`whole`) faster than one with anything added */
    /* (optional) This thread multiplies no more for some time: gives back what it holds. */
    void (*rest)(void);
    /* Does `n` rounds of nothing but multiply-adds on registers; operations of one round
     * are `peak_ops`.  For measuring what is possible. */
    float (*peak)(size_t n);
    double peak_ops;
};

/* Work on rows. */
struct cpu_vec {
    const char *name;
    enum cpu_isa isa;
    /* y = LN(x) * g + b; `out` (NULL: none) gets y as bfloat16.  With `add`, x += add_bias + add
     * comes first: what a bare product left out.  x, y and add may be one. */
    void (*layernorm)(float *x, const float *add, const float *add_bias, size_t n, const float *g,
                      const float *b, float eps, float *y, uint16_t *out);
    /* A row as bytes: turn(x * mul) = (q - zero) * scale; mul [n] may be NULL.  turn() is that
     * of `turn` below, and none for a block of 1; `room` holds n numbers, or is NULL then. */
    void (*quantize)(const void *x, enum cpu_elem elem, const float *mul, size_t n, size_t block,
                     float *room, uint8_t *q, float *scale, int32_t *zero);
    /* A row of weights as bytes: x = q * scale, q in -127 .. 127; the scale is NaN where x has one.
     * Returns the sum of q, which may be where x is. */
    int32_t (*bytes)(const float *x, size_t n, int8_t *q, float *scale);
    /* A row as words: x = q * scale, with the sum of q^2 below CPU_WORDS_NORM^2. q may be x. */
    void (*words)(const void *x, enum cpu_elem elem, size_t n, int16_t *q, float *scale);
    /* A row as split words: x = (256 q[i] + q[apart + i]) * scale; the scale is NaN where x has
     * one. */
    void (*split)(const void *x, enum cpu_elem elem, size_t n, size_t apart, int8_t *q,
                  float *scale);
    /* Each `block` numbers by a Hadamard matrix of 1 and -1; twice is `block` times x. x may be
     * y; the block is one that cpu_turn_block() gives, not 1. */
    void (*turn)(const float *x, size_t n, size_t block, float *y);
    /* p[j] = exp((s[j] * mul + bias[j]) - greatest), zeros up to `padded`; bias may be NULL.
     * Returns 1 / sum.  `p` is f32 or bf16 by `elem`, and may be `s` itself as f32. */
    float (*softmax)(const float *s, size_t n, size_t padded, float mul, const float *bias, void *p,
                     enum cpu_elem elem);
    /* Keys of a head as B of a product: `rows` rows of `words` 32-bit words, `ld` bytes apart,
     * transposed into panels of `nr`; `words_padded` rows a panel. */
    void (*pack_keys)(const void *src, size_t ld, size_t rows, size_t words, size_t words_padded,
                      size_t nr, uint32_t *dst);
    /* Values of a head as B: f32 rows copied, bf16 rows interleaved by twos. */
    void (*pack_values)(const void *src, size_t ld, size_t rows, size_t rows_padded, size_t cols,
                        size_t nr, enum cpu_elem elem, void *dst);
    /* y = (word + type) + position; type may be NULL. */
    void (*embed)(const void *word, enum cpu_elem elem, const float *type, const float *position,
                  size_t n, float *y);
    /* To CPU_E_BF16 or CPU_E_F16; `out` may be where x is. Returns the greatest |x|. */
    float (*narrow)(const float *x, size_t n, enum cpu_elem elem, uint16_t *out);
    void (*act)(enum cpu_act act, float *x, size_t n);
};

/* ---- isa.c */
enum cpu_isa cpu_isa_best(void); /* what this CPU and kernel allow; asks for AMX's state */
const char *cpu_isa_name(enum cpu_isa isa);
enum cpu_isa cpu_isa_parse(const char *name); /* CPU_NONE: no such name */

/* ---- kernels, each in a file of its own; `cpu_gemms` ends with NULL */
extern const struct cpu_gemm cpu_avx2_f32, cpu_avx2_bf16, cpu_avx2_i8;
extern const struct cpu_gemm cpu_avx512_f32, cpu_avx512_bf16, cpu_vnni_i8, cpu_vnni_i16, cpu_dpbf16;
extern const struct cpu_gemm cpu_amx_bf16, cpu_amx_i8, cpu_amx_split;
extern const struct cpu_vec cpu_vec_avx2, cpu_vec_avx512, cpu_vec_bf16;
extern const struct cpu_gemm *const cpu_gemms[];

/* Words of 16 bits: rows of A and columns of B have a Euclidean norm below this, so that no
 * part of any sum of their products leaves 32 bits (Cauchy and Schwarz).  A usual number then
 * has 11 or 12 bits and a sign, where bfloat16 has 8. */
#define CPU_WORDS_NORM 45000.0f
#define CPU_WORDS_TOP  32767.0f
#define CPU_SPLIT_TOP  32639.0f /* 127 * 256 + 127 */

/* ---- cpu_pack.c: weights as B */
size_t cpu_round_up(size_t n, size_t to);
size_t cpu_pack_bytes(const struct cpu_gemm *g, size_t n, size_t k);
/* How many neighbours of a row of k numbers `turn` mixes; 1: too few to be of use. */
size_t cpu_turn_block(size_t k);
/* W is [n][k] row-major, dst zeroed before.  For integers col_scale and col_sum are written,
 * for others they may be NULL. */
void cpu_pack(const struct cpu_gemm *g, const float *w, size_t n, size_t k, void *dst,
              float *col_scale, int32_t *col_sum);

/* The same for a kernel that wants words of 32 bits, several times as fast; w is lost. */
void cpu_pack_fast(const struct cpu_gemm *g, const struct cpu_vec *v, float *w, size_t n, size_t k,
                   void *dst, float *col_scale, int32_t *col_sum);

/* ---- threads.c: a pool of pinned threads, the caller being the first */
struct cpu_pool;
typedef void cpu_task(void *arg, size_t rank);
/* threads 0: one for each CPU that this process may use, CPU_THREADS_MAX at most. */
enum { CPU_THREADS_MAX = 256 };
size_t cpu_pool_default(void);
struct cpu_pool *cpu_pool_new(size_t threads);
void cpu_pool_free(struct cpu_pool *p); /* NULL is fine */
size_t cpu_pool_size(const struct cpu_pool *p);
/* Runs task(arg, rank) on every thread and returns when all have ended. */
void cpu_pool_run(struct cpu_pool *p, cpu_task *task, void *arg);
/* Called by every thread inside a task: nobody passes until all have come. */
void cpu_pool_barrier(struct cpu_pool *p);

#endif
