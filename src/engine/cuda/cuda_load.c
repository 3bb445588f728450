/* SPDX-License-Identifier: MIT */
/* cuda_load: weights from their files into the places that cuda_net.c gave them.
 *
 * Every tensor is an item: which one, and where it goes.  Items are cut into chunks of rows, and
 * a few threads take chunks one by one:
 *
 *     file --pread--> pinned --copy--> device --widen, pad, pack--> place
 *                       two of each a thread: one is read while the other is on its way
 *
 * The host converts nothing: bytes travel as the file has them (f32, f16 or bf16), and kernels
 * make of them what is wanted.  Types that are rare (f64, integers) and rows of odd widths are
 * read as f32 instead. */
#include "engine/cuda/cuda_int.h"

#include <assert.h>
#include <sched.h>

enum {
    CHUNK_BYTES = 4 << 20,
    THREADS_MAX = 8,
    BUFFERS = 2, /* a thread */
    ITEMS_LAYER = 3 + CU_PRODUCTS * 3 + 4,
    ITEMS_OTHER = 16
};

struct item {
    const struct st_tensor *t;
    size_t rows, cols;  /* in the file; a vector is one row */
    unsigned char *dst; /* [rows][ld] */
    enum gk_type type;  /* of dst */
    size_t ld;
    /* Heads are wider in memory than in the file where their size is neither 32 nor 64. */
    size_t col_block, col_pad; /* each so many columns become so many; 0: none */
    size_t row_block, row_pad; /* likewise rows */
};

struct chunk {
    const struct item *item;
    size_t first, rows;
};

struct buffer {
    unsigned char *host; /* pinned */
    unsigned char *raw;  /* device: what was read */
    float *f32, *padded; /* device */
    cudaEvent_t free;
    bool used;
};

struct loader {
    struct cuda_net *e;
    struct item *items; /* owned */
    size_t item_count, item_cap;
    struct chunk *chunks; /* owned */
    size_t chunk_count;
    atomic_size_t next;
    atomic_bool stop;
    pthread_mutex_t lock;
    struct err *err; /* of the first failure */
    enum rc rc;
};

/* ---- items ---- */
static enum rc add_item(struct loader *l, enum model_role role, size_t layer, struct item i,
                        struct err *err)
{
    struct eng_shape s = cu_host()->weight_shape(l->e->base.model, role);
    enum rc rc;

    if (!s.rows)
        return RC_OK;
    assert(l->item_count < l->item_cap);
    i.rows = s.rows;
    i.cols = s.cols;
    rc = cu_host()->weight_tensor(l->e->base.model, role, layer, &i.t, err);
    if (rc == RC_OK)
        l->items[l->item_count++] = i;
    return rc;
}

static struct item to_f32(float *dst, size_t ld)
{
    return (struct item){ .dst = (unsigned char *)dst, .type = GK_F32, .ld = ld };
}

static struct item to_16(const struct cuda_net *e, void *dst, size_t ld)
{
    return (struct item){ .dst = dst, .type = e->type, .ld = ld };
}

/* Query, key and value stand one behind the other. */
static enum rc add_qkv(struct loader *l, size_t layer, struct err *err)
{
    const struct cuda_net *e = l->e;
    const struct model *m = e->base.model;
    const struct cu_linear *p = &e->layers[layer].product[CU_QKV];
    bool apart = e->head_dim != m->head_dim;
    enum rc rc = RC_OK;

    for (int i = 0; i < 3 && rc == RC_OK; i++) {
        size_t at = (size_t)i * e->wide;
        struct item w =
            to_16(e, (unsigned char *)p->w + at * e->ld * cu_type_bytes(e->type), e->ld);
        struct item b = to_f32(p->bias + at, e->wide);

        if (apart) {
            w.row_block = b.col_block = m->head_dim;
            w.row_pad = b.col_pad = e->head_dim;
        }
        rc = add_item(l, (enum model_role)(W_Q + 2 * i), layer, w, err);
        if (rc == RC_OK)
            rc = add_item(l, (enum model_role)(W_Q_B + 2 * i), layer, b, err);
    }
    return rc;
}

static enum rc add_linear(struct loader *l, enum model_role role, size_t layer, enum cu_product p,
                          struct err *err)
{
    const struct cuda_net *e = l->e;
    const struct model *m = e->base.model;
    const struct cu_linear *to = &e->layers[layer].product[p];
    struct item w = to_16(e, to->w, (size_t)to->k);
    enum rc rc;

    if (p == CU_O && e->head_dim != m->head_dim) {
        w.col_block = m->head_dim;
        w.col_pad = e->head_dim;
    }
    rc = add_item(l, role, layer, w, err);
    return rc == RC_OK ? add_item(l, role + 1, layer, to_f32(to->bias, (size_t)to->n), err) : rc;
}

static enum rc add_norm(struct loader *l, enum model_role role, size_t layer,
                        const struct cu_norm *n, struct err *err)
{
    enum rc rc = add_item(l, role, layer, to_f32(n->gain, l->e->ld), err);

    return rc == RC_OK ? add_item(l, role + 1, layer, to_f32(n->bias, l->e->ld), err) : rc;
}

static enum rc add_layer(struct loader *l, size_t i, struct err *err)
{
    const struct cu_layer *to = &l->e->layers[i];
    enum rc rc = add_qkv(l, i, err);

    if (rc == RC_OK)
        rc = add_linear(l, W_O, i, CU_O, err);
    if (rc == RC_OK)
        rc = add_linear(l, W_FFN1, i, CU_FFN1, err);
    if (rc == RC_OK)
        rc = add_linear(l, W_FFN2, i, CU_FFN2, err);
    if (rc == RC_OK)
        rc = add_norm(l, W_ATT_LN_G, i, &to->att, err);
    return rc == RC_OK ? add_norm(l, W_OUT_LN_G, i, &to->out, err) : rc;
}

static enum rc add_head(struct loader *l, struct err *err)
{
    static const enum model_role roles[2] = { W_HEAD1, W_HEAD2 };
    enum rc rc = RC_OK;

    for (size_t i = 0; i < 2 && rc == RC_OK; i++) {
        const struct cu_dense *d = &l->e->head[i];

        rc = add_item(l, roles[i], 0, to_f32(d->w, (size_t)d->in), err);
        if (rc == RC_OK)
            rc = add_item(l, roles[i] + 1, 0, to_f32(d->bias, (size_t)d->out), err);
    }
    return rc;
}

static enum rc add_all(struct loader *l, struct err *err)
{
    struct cuda_net *e = l->e;
    enum rc rc = add_item(l, W_WORD, 0, to_16(e, e->word, e->ld), err);

    if (rc == RC_OK)
        rc = add_item(l, W_POSITION, 0, to_16(e, e->position, e->ld), err);
    if (rc == RC_OK)
        rc = add_item(l, W_TYPE, 0, to_16(e, e->token_type, e->ld), err);
    if (rc == RC_OK)
        rc = add_norm(l, W_EMB_LN_G, 0, &e->emb, err);
    for (size_t i = 0; i < e->base.model->layers && rc == RC_OK; i++)
        rc = add_layer(l, i, err);
    return rc == RC_OK && e->base.model->head != MODEL_HEAD_NONE ? add_head(l, err) : rc;
}

/* ---- chunks ---- */

/* The type that bytes of the file travel as; GK_F32 where the host must convert them too. */
static enum gk_type travels_as(const struct item *i)
{
    bool even = i->cols % GK_PAD == 0; /* what the widening kernel wants */

    if (i->t->dtype == ST_F16 && (even || i->type == GK_F16))
        return GK_F16;
    if (i->t->dtype == ST_BF16 && (even || i->type == GK_BF16))
        return GK_BF16;
    return GK_F32;
}

/* From pinned memory straight to its place. */
static bool goes_direct(const struct item *i)
{
    return travels_as(i) == i->type && !i->col_block;
}

static size_t chunk_rows(const struct item *i)
{
    size_t row =
        goes_direct(i) ? i->cols * cu_type_bytes(i->type) : cu_max(i->cols, i->ld) * sizeof(float);
    size_t rows = CHUNK_BYTES / row;

    assert(row <= CHUNK_BYTES);
    return i->row_block ? cu_min(rows ? rows : 1, i->row_block) : rows ? rows : 1;
}

/* Chunks of one item; `out` NULL: counts. */
static size_t cut_item(const struct item *i, struct chunk *out)
{
    size_t n = 0, most = chunk_rows(i);

    for (size_t at = 0, rows; at < i->rows; at += rows, n++) {
        size_t left = i->row_block ? i->row_block - at % i->row_block : i->rows - at;

        rows = cu_min(most, left);
        if (out)
            out[n] = (struct chunk){ .item = i, .first = at, .rows = rows };
    }
    return n;
}

static void cut_all(struct loader *l)
{
    size_t n = 0;

    for (size_t i = 0; i < l->item_count; i++)
        n += cut_item(&l->items[i], NULL);
    l->chunks = cu_host()->alloc(n, sizeof(*l->chunks));
    for (size_t i = 0; i < l->item_count; i++)
        l->chunk_count += cut_item(&l->items[i], l->chunks + l->chunk_count);
}

/* ---- a chunk on its way ---- */
static enum rc read_chunk(const struct loader *l, const struct chunk *c, void *out, struct err *err)
{
    const struct model *m = l->e->base.model;
    const struct st_tensor *t = c->item->t;
    size_t size = cu_type_bytes(travels_as(c->item)), cols = c->item->cols;
    uint64_t first = (uint64_t)c->first * cols, count = (uint64_t)c->rows * cols;

    if (travels_as(c->item) == GK_F32 && t->dtype != ST_F32)
        return cu_host()->tensor_f32(m, t, first, count, out, err);
    return cu_host()->tensor_bytes(m, t, first * size, count * size, out, err);
}

static unsigned char *place_of(const struct chunk *c)
{
    const struct item *i = c->item;
    size_t row = c->first;

    if (i->row_block)
        row = c->first / i->row_block * i->row_pad + c->first % i->row_block;
    return i->dst + row * i->ld * cu_type_bytes(i->type);
}

/* Puts columns apart: src [rows][cols] to b->padded [rows][ld]. */
static bool pad_columns(const struct chunk *c, const struct buffer *b, const float *src,
                        cudaStream_t s, struct cu_try *t)
{
    const struct item *i = c->item;
    size_t f = sizeof(float);

    if (!cu_ok(t, cudaMemsetAsync(b->padded, 0, c->rows * i->ld * f, s), "cudaMemsetAsync",
               i->t->name))
        return false;
    for (size_t k = 0; k * i->col_block < i->cols; k++)
        if (!cu_ok(t,
                   cudaMemcpy2DAsync(b->padded + k * i->col_pad, i->ld * f, src + k * i->col_block,
                                     i->cols * f, i->col_block * f, c->rows,
                                     cudaMemcpyDeviceToDevice, s),
                   "cudaMemcpy2DAsync", i->t->name))
            return false;
    return true;
}

static bool convert_chunk(const struct chunk *c, const struct buffer *b, cudaStream_t s,
                          struct cu_try *t)
{
    const struct item *i = c->item;
    enum gk_type as = travels_as(i);
    const float *src = (const float *)(const void *)b->raw;
    size_t cols = i->cols, f = sizeof(float);
    const char *name = i->t->name;

    if (!cu_ok(t,
               cudaMemcpyAsync(b->raw, b->host, c->rows * cols * cu_type_bytes(as),
                               cudaMemcpyHostToDevice, s),
               "cudaMemcpyAsync", name))
        return false;
    if (as != GK_F32) {
        if (!cu_ok(t, gk_widen(as, b->raw, cols, (int)c->rows, (int)cols, b->f32, s), "launch",
                   name))
            return false;
        src = b->f32;
    }
    if (i->col_block) {
        if (!pad_columns(c, b, src, s, t))
            return false;
        src = b->padded;
        cols = i->ld;
    }
    if (i->type == GK_F32)
        return cu_ok(t,
                     cudaMemcpy2DAsync(place_of(c), i->ld * f, src, cols * f, cols * f, c->rows,
                                       cudaMemcpyDeviceToDevice, s),
                     "cudaMemcpy2DAsync", name);
    return cu_ok(t,
                 gk_pack(i->type, src, (int)c->rows, (int)cols, (int)c->rows, (int)i->ld,
                         place_of(c), NULL, false, s),
                 "launch", name);
}

static enum rc take_chunk(struct loader *l, const struct chunk *c, struct buffer *b, cudaStream_t s,
                          struct err *err)
{
    const struct item *i = c->item;
    struct cu_try t = { l->e->gpu, err, RC_OK };
    size_t size = cu_type_bytes(i->type);

    if (b->used && !cu_ok(&t, cudaEventSynchronize(b->free), "cudaEventSynchronize", i->t->name))
        return t.rc;
    t.rc = read_chunk(l, c, b->host, err);
    if (t.rc != RC_OK)
        return t.rc;
    if (goes_direct(i))
        (void)cu_ok(&t,
                    cudaMemcpy2DAsync(place_of(c), i->ld * size, b->host, i->cols * size,
                                      i->cols * size, c->rows, cudaMemcpyHostToDevice, s),
                    "cudaMemcpy2DAsync", i->t->name);
    else
        (void)convert_chunk(c, b, s, &t);
    b->used = true;
    (void)cu_ok(&t, cudaEventRecord(b->free, s), "cudaEventRecord", i->t->name);
    return t.rc;
}

/* ---- threads ---- */
static void buffers_close(struct buffer *b)
{
    for (size_t i = 0; i < BUFFERS; i++) {
        if (b[i].host)
            (void)cudaFreeHost(b[i].host);
        if (b[i].raw)
            (void)cudaFree(b[i].raw);
        if (b[i].free)
            (void)cudaEventDestroy(b[i].free);
    }
}

static bool buffers_open(struct buffer *b, struct cu_try *t)
{
    for (size_t i = 0; i < BUFFERS; i++) {
        if (!cu_ok(t, cudaHostAlloc((void **)&b[i].host, CHUNK_BYTES, cudaHostAllocDefault),
                   "cudaHostAlloc", "a loader") ||
            !cu_ok(t, cudaMalloc((void **)&b[i].raw, 3 * CHUNK_BYTES), "cudaMalloc", "a loader") ||
            !cu_ok(t, cudaEventCreateWithFlags(&b[i].free, cudaEventDisableTiming),
                   "cudaEventCreate", "a loader"))
            return false;
        b[i].f32 = (float *)(void *)(b[i].raw + CHUNK_BYTES);
        b[i].padded = (float *)(void *)(b[i].raw + 2 * (size_t)CHUNK_BYTES);
    }
    return true;
}

static void load_failed(struct loader *l, enum rc rc, const struct err *err)
{
    (void)pthread_mutex_lock(&l->lock);
    if (l->rc == RC_OK) {
        l->rc = rc;
        if (l->err)
            *l->err = *err;
    }
    (void)pthread_mutex_unlock(&l->lock);
    atomic_store(&l->stop, true);
}

static void *load_work(void *arg)
{
    struct loader *l = arg;
    struct buffer b[BUFFERS] = { 0 };
    struct err err = { 0 };
    struct cu_try t = { l->e->gpu, &err, RC_OK };
    cudaStream_t s = NULL;

    if (cu_ok(&t, cudaSetDevice(l->e->gpu->index), "cudaSetDevice", "a loader") &&
        cu_ok(&t, cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreate",
              "a loader"))
        (void)buffers_open(b, &t);
    for (size_t n = 0; t.rc == RC_OK && !atomic_load(&l->stop); n++) {
        size_t at = atomic_fetch_add(&l->next, 1);

        if (at >= l->chunk_count)
            break;
        t.rc = take_chunk(l, &l->chunks[at], &b[n % BUFFERS], s, &err);
    }
    if (s)
        (void)cu_ok(&t, cudaStreamSynchronize(s), "cudaStreamSynchronize", "weights");
    if (t.rc != RC_OK)
        load_failed(l, t.rc, &err);
    buffers_close(b);
    if (s)
        (void)cudaStreamDestroy(s);
    return NULL;
}

static size_t thread_count(size_t chunks)
{
    cpu_set_t cpus;
    size_t n = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (size_t)CPU_COUNT(&cpus) : 1;

    return cu_max(1, cu_min(cu_min(n, THREADS_MAX), chunks / 2));
}

/* The caller is one of the threads. */
static void work_all(struct loader *l)
{
    pthread_t threads[THREADS_MAX];
    size_t want = thread_count(l->chunk_count), made = 0;

    while (made + 1 < want && pthread_create(&threads[made], NULL, load_work, l) == 0)
        made++;
    (void)load_work(l);
    for (size_t i = 0; i < made; i++)
        (void)pthread_join(threads[i], NULL);
}

/* ---- what is small and made by the program ---- */
static enum rc put_floats(struct cuda_net *e, void *dst, const float *src, size_t floats,
                          const char *what, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };

    (void)cu_ok(&t, cudaMemcpy(dst, src, floats * sizeof(*src), cudaMemcpyHostToDevice),
                "cudaMemcpy", what);
    return t.rc;
}

static enum rc load_dense(struct cuda_net *e, size_t i, struct err *err)
{
    const struct cu_dense *d = &e->dense[i];
    size_t out = (size_t)d->out, n = (size_t)d->in * out;
    float *w = cu_host()->alloc(n, sizeof(*w)), *bias = cu_host()->alloc(out, sizeof(*bias));
    enum rc rc = cu_host()->dense_weight(e->base.model, i, w, bias, err);

    if (rc == RC_OK)
        rc = put_floats(e, d->w, w, n, "a dense layer", err);
    if (rc == RC_OK && d->bias)
        rc = put_floats(e, d->bias, bias, out, "a dense layer", err);
    free(w);
    free(bias);
    return rc;
}

static enum rc load_rel(struct cuda_net *e, struct err *err)
{
    const size_t row = 2 * GK_REACH + 1;
    float *rel, *wide;
    enum rc rc;

    if (!e->rel)
        return RC_OK;
    /* zeros for a head that the model does not have */
    rel = cu_host()->alloc(e->heads * row, sizeof(*rel));
    wide = cu_host()->alloc(e->heads * GK_REL, sizeof(*wide));
    rc = cu_host()->rel_bias(e->base.model, rel, err);
    for (size_t i = 0; i < e->heads && rc == RC_OK; i++)
        gk_rel_spread(rel + i * row, wide + i * GK_REL);
    if (rc == RC_OK)
        rc = put_floats(e, e->rel, wide, e->heads * GK_REL, "relative distances", err);
    free(wide);
    free(rel);
    return rc;
}

static enum rc load_rest(struct cuda_net *e, struct err *err)
{
    enum rc rc = load_rel(e, err);

    for (size_t i = 0; i < e->base.model->dense_count && rc == RC_OK; i++)
        rc = load_dense(e, i, err);
    return rc;
}

/* ---- all of it ---- */
static enum rc make_places(struct cuda_net *e, struct err *err)
{
    struct cu_try t = { e->gpu, err, RC_OK };
    size_t small, matrices;

    small = net_layout_small(e, NULL);
    matrices = net_layout_matrices(e, NULL);
    t.rc = region_open(e->gpu, "tables", small, &e->small, err);
    if (t.rc == RC_OK)
        t.rc = region_commit(&e->small, small, e->stream, err);
    if (t.rc == RC_OK)
        t.rc = region_open(e->gpu, "matrices", matrices, &e->matrices, err);
    if (t.rc == RC_OK)
        t.rc = region_commit(&e->matrices, matrices, e->stream, err);
    if (t.rc != RC_OK)
        return t.rc;
    (void)net_layout_small(e, e->small.base);
    (void)net_layout_matrices(e, e->matrices.base);
    /* zeros are there before weights come on other streams */
    (void)cu_ok(&t, cudaStreamSynchronize(e->stream), "cudaStreamSynchronize", "weights");
    return t.rc;
}

enum rc net_load(struct cuda_net *e, struct err *err)
{
    struct loader l = { .e = e, .err = err, .lock = PTHREAD_MUTEX_INITIALIZER };
    enum rc rc = make_places(e, err);

    l.item_cap = e->base.model->layers * ITEMS_LAYER + ITEMS_OTHER;
    l.items = cu_host()->alloc(l.item_cap, sizeof(*l.items));
    if (rc == RC_OK)
        rc = add_all(&l, err);
    if (rc == RC_OK) {
        cut_all(&l);
        work_all(&l);
        rc = l.rc;
    }
    free(l.items);
    free(l.chunks);
    return rc == RC_OK ? load_rest(e, err) : rc;
}
