/* SPDX-License-Identifier: MIT */
/* cpu_net_int: a loaded model of the fast CPU engine and the room it works in.
 *
 * Memory is two blocks, reserved whole and cut up by one function (net_layout) that runs
 * twice: without a block to learn the size, and with it.  Pages that are never touched,
 * such as room for texts longer than usual, cost nothing. */
#ifndef ENGINE_CPU_CPU_NET_INT_H
#define ENGINE_CPU_CPU_NET_INT_H
#include "engine/cpu/cpu_int.h"
#include "engine/engine_int.h"

#include <stdatomic.h>

enum {
    NET_CHUNK = 512, /* tokens that pass through the layers together */
    NET_ROWS = 256,  /* rows that pass through the second half of a layer together */
    NET_QUERIES = 32 /* queries of a head whose scores are held at once */
};

/* Cuts pieces from a block; with base NULL it only counts. */
struct net_block {
    char *base;
    size_t used;
};

struct net_linear { /* [n][k] */
    bool normed;    /* A is a LayerNorm's output: see net_kernel() */
    void *b;        /* packed */
    size_t n, k;    /* k as padded */
    float *bias;    /* [n], padded to whole panels */
    float *col_scale;
    int32_t *col_sum; /* for integers, else NULL */
    size_t block;     /* of rows that are turned before they become bytes; 1: not */
    /* For bytes made of a LayerNorm's output: what each column of A is multiplied by first,
     * and the column of the weights divided by; else NULL. */
    float *mul;
};

struct net_norm {
    float *gain, *bias; /* [hidden] */
};

struct net_layer {
    struct net_linear qkv, o, ffn1, ffn2;
    struct net_norm att, out;
};

/* One thread's room, or the team's: rows of activations.  Strides are odd multiples of a
 * cache line, so that rows do not fall on one set of a cache. */
struct net_room {
    size_t rows;
    float *x;            /* [rows] the hidden states */
    float *y;            /* [rows] a sub-layer's output with the residual added */
    uint16_t *half;      /* [rows] x as bfloat16, for kernels that want it; else NULL */
    uint8_t *ints;       /* [rows] x, or what attention gave, as bytes or words; else NULL */
    void *qkv;           /* [rows] f32 or bfloat16 */
    void *ctx;           /* [rows] likewise: what attention gave */
    void *mid;           /* [NET_ROWS of each thread] likewise */
    uint8_t *mid_ints;   /* of mid; else NULL */
    float *scale;        /* [rows] of ints and mid_ints */
    int32_t *zero;       /* likewise, for bytes; else NULL */
    uint32_t *positions; /* [rows] */
};

/* One thread's room for one head of one sequence, and for what follows the layers. */
struct net_att {
    void *keys, *values; /* packed */
    float *scores;       /* [NET_QUERIES][ld_scores] */
    void *probs;         /* the same place when they are f32 */
    float *sums;         /* [NET_QUERIES]: 1 / sum */
    float *turned;       /* a row on its way to bytes */
    float *bias;         /* [2 tokens - 1]: by distance; NULL: none */
    float *tail;         /* [eng_tail_room()] */
};

struct net_span { /* sequences [first, end) that go through the layers together */
    size_t first, end;
    bool team; /* by all threads; else by one */
};

struct cpu_net {
    struct eng base;
    enum cpu_isa isa;
    enum eng_dtype dtype;
    /* Of linear layers, of those among them that read a LayerNorm's output, of attention. */
    const struct cpu_gemm *lin, *lin_normed, *att;
    const struct cpu_vec *vec;
    enum cpu_elem act;   /* of activations: CPU_E_F32 or CPU_E_BF16 */
    enum cpu_elem table; /* of the word table */
    enum cpu_act ffn_act;
    bool bare;                     /* residual and bias are added behind the product, not in it */
    size_t wide;                   /* heads * head_dim */
    size_t ld_x, ld_half;          /* elements; of rows of hidden */
    size_t ld_qkv, ld_ctx, ld_mid; /* elements */
    size_t ld_ints, ld_mid_ints;   /* bytes */
    size_t ld_scores, ld_probs;    /* elements */
    size_t tokens_max;             /* of one sequence */
    struct cpu_pool *pool;
    size_t threads;
    struct net_block weights, scratch; /* owned mappings */
    size_t weights_size, scratch_size;
    void *word;             /* [vocab][hidden] of `table` */
    float *position, *type; /* type NULL: none */
    struct net_norm emb;
    float *rel; /* MPNet: [heads][2 * MPNET_REACH + 1] */
    struct net_layer *layers;
    struct net_room *rooms; /* [threads]; the first is the team's too */
    struct net_att *heads;  /* [threads] */
    struct eng_tail *tail;
    struct net_span *spans;
    size_t spans_count, spans_cap;
};

static inline const struct cpu_gemm *net_kernel(const struct cpu_net *e, const struct net_linear *l)
{
    return l->normed ? e->lin_normed : e->lin;
}

static inline bool net_by_integers(const struct cpu_gemm *g)
{
    return g->a == CPU_E_U8 || g->a == CPU_E_S16 || g->a == CPU_E_SPLIT;
}

/* ---- cpu_net.c */
enum rc net_choose(struct cpu_net *e, const struct model *m, const struct eng_opts *o,
                   struct err *err);
enum rc net_load(struct cpu_net *e, struct err *err);
void net_release(struct cpu_net *e);
/* Bytes of weights and of scratch when no sequence is longer than `tokens`. */
uint64_t net_bytes(struct cpu_net *e, size_t tokens);

/* ---- cpu_layers.c */
struct net_work {
    const struct cpu_net *e;
    const struct eng_batch *batch;
    enum eng_want want;
    float *out;
    _Atomic size_t next; /* span to be taken by a thread alone */
};
void net_work_task(void *work, size_t rank);

#endif
