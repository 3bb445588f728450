/* SPDX-License-Identifier: MIT */
/* cuda_int: the encoder engine on NVIDIA GPUs, between its own files.
 *
 *   cuda_ops.c      struct eng_ops, GPUs of this machine, errors
 *   gpu_arena.c     memory of a GPU, through its virtual-memory API
 *   cuda_net.c      sizes of a model as kernels want them, places of its weights
 *   cuda_load.c     weights from files into those places, several threads
 *   fp8.c           scales of activations, weights as e4m3, which products stay in 16 bits
 *   cuda_forward.c  one pass through the layers, as launches on a stream
 *   products.c      which way of making a product is the fastest, measured once and kept on disk
 *   graph.c         small passes as CUDA graphs
 *   cuda_run.c      batches in, vectors out
 *   swap.c          weights out to the host and back
 *   profile.c       where the time goes
 *
 * Kernels stand behind gk_int.h.  Nothing of the program is linked: what is needed of it comes
 * through struct eng_host. */
#ifndef ENGINE_CUDA_CUDA_INT_H
#define ENGINE_CUDA_CUDA_INT_H
#include "engine/cuda/cuda_report_int.h"
#include "engine/cuda/gemm_choose_int.h"
#include "engine/cuda/kernels/gk_int.h"
#include "engine/engine_plugin.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    CU_GPUS_MAX = 64,
    CU_NAME_MAX = 96,
    CU_WHY_MAX = 256,
    CU_PASS_TOKENS = 65536,   /* of one pass; a longer batch is cut */
    CU_PASS_SEQUENCES = 8192, /* likewise */
    CU_ROOM_TOKENS = 2048,    /* room that is made at load */
    CU_GRAPH_TOKENS = 2048,   /* passes up to there are graphs */
    CU_GRAPHS_MAX = 128,      /* kept */
    CU_GRAPH_BACK = 32 << 10, /* bytes of results that kernels write to the host themselves */
    CU_WEIGHT_REGIONS = 3,    /* that are swapped */
    CU_SLOTS = 2,             /* passes under way: one computes, one is staged */
    CU_ALIGN = 256            /* of every buffer */
};

/* ---- cuda_ops.c ---- */
struct cu_arena {
    pthread_mutex_t lock;
    bool ready;
    size_t grain; /* bytes that memory comes in */
    uint64_t reserved, committed, used, regions;
};

struct gpu {
    int index; /* CUDA's number */
    char name[CU_NAME_MAX];
    int major, minor, sms;
    int sm; /* 90 or 80: whose kernels are used */
    uint64_t bytes;
    struct cu_arena arena;
    atomic_bool lost; /* an error that does not go away: every call fails from then on */
};

const struct eng_host *cu_host(void);
extern const struct eng_ops cu_ops;

/* A row of CUDA calls on one GPU, of which the first that fails is told. */
struct cu_try {
    struct gpu *gpu;
    struct err *err; /* may be NULL */
    enum rc rc;
};
/* True when the call worked and all before did; `what` is the object in words. */
bool cu_ok(struct cu_try *t, cudaError_t e, const char *call, const char *what);
static inline size_t cu_round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}
static inline size_t cu_min(size_t a, size_t b)
{
    return a < b ? a : b;
}
static inline size_t cu_max(size_t a, size_t b)
{
    return a > b ? a : b;
}
size_t cu_type_bytes(enum gk_type t);

/* ---- gpu_arena.c ---- */
/* A range of addresses whose first `committed` bytes have memory.  It grows where it stands:
 * pointers into it stay good, and so do graphs that hold them. */
struct region {
    struct gpu *gpu; /* NULL: not open */
    const char *what;
    unsigned char *base;
    size_t reserved, committed, used;
    CUmemGenericAllocationHandle *handles; /* owned */
    size_t *sizes;                         /* owned, of each handle */
    size_t handle_count;
};
enum rc region_open(struct gpu *g, const char *what, size_t reserve, struct region *out,
                    struct err *err) MUST_USE;
/* Memory for `bytes` from the start on.  What is new of it is all zeros. */
enum rc region_commit(struct region *r, size_t bytes, cudaStream_t s, struct err *err) MUST_USE;
/* Gives the memory back and keeps the addresses: commit() puts memory there again. */
void region_empty(struct region *r);
void region_close(struct region *r); /* fine when it is not open */

/* ---- cuda_net.c ---- */
enum cu_product { CU_QKV, CU_O, CU_FFN1, CU_FFN2, CU_PRODUCTS };
struct cu_linear {
    enum gk_type type;
    enum cu_product of;
    int n, k;     /* padded */
    void *w;      /* [n][k] */
    float *scale; /* [n], for e4m3 */
    float *bias;  /* [n]; e4m3 has one of its own */
    void *bias16; /* [n] of 16 bits, where cuBLASLt is used; else NULL */
};
struct cu_norm {
    float *gain, *bias; /* [ld] */
};
struct cu_layer {
    struct cu_linear product[CU_PRODUCTS];
    struct cu_norm att, out;
    float *ctx_scale, *mid_scale; /* [1], for e4m3: of what attention and the activation give */
};
struct cu_dense { /* f32 */
    int in, out;
    float *w, *bias; /* bias NULL: none */
    enum gk_dense_act act;
};

/* What passes through the layers, each in a region of its own. */
struct cu_room {
    struct region x, y, x8, x8_scale;
    struct region wide; /* q, k and v; then what the activation gives */
    struct region ctx;
    struct region partial;
    struct region tail[2];
    struct region rows32; /* f32 rows of ENG_TOKENS, some at a time */
    size_t tokens, sequences;
};

/* Where the parts of a batch stand in one block, in bytes. */
struct cu_layout {
    size_t ids, positions, types, starts, skip, tiles, bytes;
};
struct cu_counts { /* at the head of the block */
    int32_t tokens, sequences, tiles, spare;
};

/* One pass: a batch, or a part of one, on its way. */
struct cu_slot {
    struct region block;  /* the batch on the device */
    unsigned char *stage; /* pinned: the same bytes */
    size_t stage_bytes;
    float *back; /* pinned: what comes back */
    size_t back_bytes;
    float *graph_back;     /* pinned, of one size for good, since graphs hold it: small results */
    const float *result;   /* of the pass under way: back or graph_back */
    struct region vectors; /* of a pass that is no graph, until they are copied back */
    cudaEvent_t sent, computed, done;
    bool busy;
    uint32_t *pick; /* owned: the batch's sequences in this pass, in their order */
    size_t picked;
    float *out; /* of the batch: where the results go, `width` numbers a sequence */
    size_t width;
};

struct cu_key { /* what a graph was captured for */
    int tokens, sequences;
    enum eng_want want;
    bool normalize;
    enum model_pool pool;
    bool in16;
    int slot;
};
struct cu_graph {
    struct cu_key key;
    cudaGraphExec_t exec;
    uint64_t used;
};

/* Ways of making products, by bucket of rows: CU_WAYS_ROWS, twice that … CU_GRAPH_TOKENS. */
enum { CU_WAYS = 6, CU_WAYS_ROWS = GK_SKINNY_ROWS };
struct cu_chosen {
    struct choose_way way;
    double us; /* of one and a LayerNorm behind it, when it was measured */
    bool there;
};
struct cu_products {
    struct cu_chosen chosen[CU_PRODUCTS][CU_WAYS];
    struct gk_lt *lt;     /* owned; NULL: not here, or not chosen for anything */
    struct region room;   /* for it: memory of its own */
    struct region bias16; /* and biases */
    pthread_t opener;     /* opens it while weights are read */
    bool opening;
    struct choose *known;       /* owned, while the model is loaded */
    char path[CHOOSE_PATH_MAX]; /* of the choices' file; "": none */
    char unkept[CU_WHY_MAX];    /* why choices could not be written; "": they were */
};

/* An event behind every step of a pass. */
struct cu_profile {
    cudaEvent_t *events; /* owned */
    unsigned char *steps;
    size_t count, cap;
    double ms[STOKER_CUDA_STEPS];
};

struct cuda_net {
    struct eng base;
    struct gpu *gpu;
    cudaStream_t stream;
    cudaStream_t up, down; /* copies of large passes, beside the layers of another one */
    enum eng_dtype dtype;
    enum gk_type type; /* of 16 bits: tables and activations */
    bool invariant;    /* one algorithm a matrix */
    bool pdl;
    /* sizes as kernels see them */
    size_t ld;              /* hidden, padded */
    size_t heads, head_dim; /* 32 or 64; an even number of heads of 32 */
    size_t wide;            /* heads * head_dim */
    size_t ffn;             /* padded */
    size_t tokens_max;      /* of a sequence */
    size_t pass_tokens;     /* of a pass, at most: CU_PASS_TOKENS, or one longer sequence */
    size_t cut_tokens;      /* where a batch is cut into passes */
    float scale;
    /* weights */
    struct region small, matrices, matrices8; /* the last: only fp8 */
    void *word, *position, *token_type;
    float *rel;
    struct cu_norm emb;
    struct cu_layer *layers;   /* owned */
    struct cu_layer *layers16; /* owned; fp8: the same in 16 bits, for short texts */
    size_t short_tokens;       /* fp8: texts up to there run in 16 bits; else 0 */
    struct cu_dense dense[MODEL_DENSE_MAX], head[2];
    char kept[CU_WHY_MAX]; /* fp8: products that stay in 16 bit, in words; "" none */
    struct cu_products products;
    /* running */
    struct cu_room room;
    struct cu_slot slots[CU_SLOTS];
    int flights[CU_SLOTS]; /* batches submitted, oldest first: slots; -1: one that has ended */
    size_t flight_count;
    int slot_next;
    struct cu_graph graphs[CU_GRAPHS_MAX];
    size_t graph_count;
    uint64_t graph_clock, graph_replays;
    uint32_t *order, *buckets; /* owned: for sorting sequences by length */
    bool eager;                /* no graphs: while matrices are weighed, or where capturing fails */
    unsigned char *aside;      /* pinned, owned: weights that were swapped out once; NULL: never */
    size_t weight_bytes[CU_WEIGHT_REGIONS];
    bool away; /* their memory on the device is given back */
    bool timed;
    cudaEvent_t began, ended;
    double forward_ms;
    struct cu_profile *profile; /* owned; NULL: none asked for */
};

enum rc net_choose(struct cuda_net *e, const struct model *m, const struct eng_opts *o,
                   struct err *err) MUST_USE;
/* Places of everything; with a base of NULL it only counts. */
size_t net_layout_small(struct cuda_net *e, unsigned char *base);
size_t net_layout_matrices(struct cuda_net *e, unsigned char *base);  /* of 16 bits */
size_t net_layout_matrices8(struct cuda_net *e, unsigned char *base); /* of e4m3 */
uint64_t net_bytes(struct cuda_net *e, size_t tokens);
enum rc net_room(struct cuda_net *e, size_t tokens, size_t sequences, struct err *err) MUST_USE;
void net_release(struct cuda_net *e);
size_t net_pool_width(const struct model *m);
size_t net_width(const struct model *m, enum eng_want want);

/* ---- cuda_load.c ---- */
enum rc net_load(struct cuda_net *e, struct err *err) MUST_USE;

/* ---- cuda_forward.c ---- */
struct cu_pass {
    int tokens, sequences, tiles; /* at most */
    bool counted;                 /* how many there are stands in the block */
    bool in16;                    /* fp8: by the matrices of 16 bits */
    int tile_rows;                /* query rows of a tile of attention */
    const unsigned char *block;   /* on the device */
    struct cu_layout at;
    enum eng_want want;
    float *to; /* (optional) where the last kernel leaves the results: pinned, or the slot's */
    /* (optional) before each product: the rows it takes, [tokens][n], 16 bits */
    cudaError_t (*seen)(void *arg, size_t layer, enum cu_product of, const void *x, int n);
    void *arg;
};
cudaError_t net_forward(struct cuda_net *e, const struct cu_pass *p);
enum gk_act net_act(const struct cuda_net *e);
float *net_result(struct cuda_net *e, enum eng_want want); /* where it left vectors or scores */
size_t net_tail_row(const struct model *m); /* floats of the widest row of the tail */
struct cu_layout net_layout_batch(size_t tokens, size_t sequences, size_t tiles);
size_t net_tiles_max(size_t tokens, size_t sequences);

/* ---- products.c ---- */
/* What there is to know before the weights are there. */
void net_products_begin(struct cuda_net *e);
/* Chooses, once there is room for CU_GRAPH_TOKENS; waits for the stream.  An error is one of the
 * GPU alone. */
enum rc net_products_open(struct cuda_net *e, struct err *err) MUST_USE;
void net_products_close(struct cuda_net *e);
/* Whether a product of few rows is best made by gk_gemm_skinny(). */
bool net_product_skinny(const struct cuda_net *e, const struct cu_linear *l, int rows);
/* A product in the way chosen for its rows, when it is not that one. */
cudaError_t net_product(struct cuda_net *e, const struct cu_linear *l, const struct gk_gemm *g);
size_t net_products_count(const struct cuda_net *e, enum choose_impl impl);
/* The i-th choice in words; false: there are fewer. */
bool net_products_tell(const struct cuda_net *e, size_t i, char *out, size_t cap);

/* ---- profile.c ---- */
enum rc profile_open(struct cuda_net *e, struct err *err) MUST_USE; /* when it is asked for */
void profile_close(struct cuda_net *e);
void profile_begin(struct cuda_net *e);
cudaError_t profile_mark(struct cuda_net *e, int step); /* that ended; -1: before the first */
enum rc profile_read(struct cuda_net *e, struct err *err) MUST_USE;

/* ---- graph.c ---- */
/* Puts the pass on the stream: replays its graph, or launches it and keeps a graph. */
enum rc graph_run(struct cuda_net *e, const struct cu_pass *p, int slot, struct err *err) MUST_USE;
void graph_release(struct cuda_net *e);
/* Sizes that graphs are captured for. */
size_t graph_tokens(size_t tokens);
size_t graph_sequences(size_t sequences, size_t tokens);

/* ---- cuda_run.c ---- */
enum rc net_slots_open(struct cuda_net *e, struct err *err) MUST_USE;
void net_slots_close(struct cuda_net *e);
enum rc net_run(struct cuda_net *e, const struct eng_batch *b, enum eng_want want, float *out,
                struct err *err) MUST_USE;
/* The same in two halves, for CU_SLOTS batches at a time (RC_LIMIT: no room); the oldest ends
 * first. */
enum rc net_submit(struct cuda_net *e, const struct eng_batch *b, enum eng_want want, float *out,
                   struct err *err) MUST_USE;
enum rc net_collect(struct cuda_net *e, struct err *err) MUST_USE;

/* ---- swap.c ---- */
enum rc net_swap_out(struct cuda_net *e, struct err *err) MUST_USE;
enum rc net_swap_in(struct cuda_net *e, struct err *err) MUST_USE;

/* ---- fp8.c ---- */
enum rc net_to_fp8(struct cuda_net *e, struct err *err) MUST_USE;

#endif
