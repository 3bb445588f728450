/* SPDX-License-Identifier: MIT */
/* fp8: a model of 16 bits that is loaded becomes one of e4m3.
 *
 *   1. A batch of random tokens, short texts and long ones, runs in 16 bits; how far the output
 *      of attention and that of the activation reach gives their scales, one a layer.  (A
 *      LayerNorm's rows are scaled one by one as they are written and need none; weights have a
 *      scale a row.)
 *   2. Matrices are packed as e4m3, beside those of 16 bits.
 *   3. Each product alone runs in e4m3: the cosine of the rows with those of 16 bits says what
 *      it costs.  Those that lose most for the operations they save come first on a list, and as
 *      much of its beginning stays in 16 bits as is needed for every row of the batch to be near
 *      enough (LOSS_DEEP, LOSS_SHALLOW), measured.  These are below what is promised (0.01, 0.001):
 *      among many more rows there are worse ones.
 *   4. What is not used any more goes.
 *
 * e4m3 is a float: numbers far below the largest keep their three bits until 2^-6, so scales leave
 * room for texts whose numbers reach further than those of the batch. */
#include "engine/cuda/calib.h"
#include "engine/cuda/cuda_int.h"

#include <assert.h>
#include <math.h>

enum {
    CALIB_SEQUENCES = 9,
    CALIB_TOKENS = 1 + 1 + 2 + 3 + 7 + 16 + 33 + 64 + 128,
    KEPT_NAME_MAX = 16, /* bytes of "23.ffn2 " */
    SHALLOW = 6         /* layers */
};
static const uint32_t calib_lengths[CALIB_SEQUENCES] = { 1, 1, 2, 3, 7, 16, 33, 64, 128 };
#define E4M3_MAX     448.0f
#define SPARE        4.0f   /* times further than seen */
#define SCALE_MIN    1e-6f  /* of an output that is all zeros */
#define LOSS_DEEP    0.0085 /* 1 - cosine, of the worst row */
#define LOSS_SHALLOW 0.0006 /* for up to SHALLOW layers */

static const char *const product_names[CU_PRODUCTS] = { "qkv", "o", "ffn1", "ffn2" };

struct calib {
    struct net *e;
    struct region bytes8;        /* e4m3 matrices and their scales, all of them */
    struct region wide;          /* one matrix as f32 */
    float *rows16, *rows;        /* owned: the batch's vectors in 16 bits; now */
    struct cu_layer *as16, *as8; /* owned: the layers' products either way */
    double loss[MODEL_LAYERS_MAX][CU_PRODUCTS];
    bool keep[MODEL_LAYERS_MAX][CU_PRODUCTS];      /* in 16 bits */
    uint16_t list[MODEL_LAYERS_MAX * CU_PRODUCTS]; /* layer * CU_PRODUCTS + product, worst first */
};

/* ---- the batch ---- */
struct words {
    uint32_t ids[CALIB_TOKENS], starts[CALIB_SEQUENCES + 1];
};

static void make_words(const struct net *e, struct words *w)
{
    uint64_t seed = 1;

    w->starts[0] = 0;
    for (size_t s = 0; s < CALIB_SEQUENCES; s++)
        w->starts[s + 1] = w->starts[s] + (uint32_t)cu_min(calib_lengths[s], e->tokens_max);
    for (size_t i = 0; i < w->starts[CALIB_SEQUENCES]; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        w->ids[i] = (uint32_t)((seed >> 33) % e->base.model->vocab);
    }
}

static size_t words_count(const struct net *e)
{
    size_t n = 0;

    for (size_t s = 0; s < CALIB_SEQUENCES; s++)
        n += cu_min(calib_lengths[s], e->tokens_max);
    return n;
}

static enum rc run_words(struct calib *c, float *out, struct err *err)
{
    struct words w;

    make_words(c->e, &w);
    return net_run(
        c->e, &(struct eng_batch){ .ids = w.ids, .starts = w.starts, .sequences = CALIB_SEQUENCES },
        ENG_TOKENS, out, err);
}

static double loss_of_row(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0, loss;

    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    loss = 1 - ab / sqrt(aa * bb);
    return isfinite(loss) ? loss : 1;
}

/* 1 - cosine: the worst row's, or the mean of the sequences' means. */
static double loss_of(const struct calib *c, bool worst)
{
    size_t hidden = c->e->base.model->hidden, row = 0;
    double most = 0, sum = 0;

    for (size_t s = 0; s < CALIB_SEQUENCES; s++) {
        size_t n = cu_min(calib_lengths[s], c->e->tokens_max);

        for (size_t i = 0; i < n; i++, row++) {
            double loss = loss_of_row(c->rows16 + row * hidden, c->rows + row * hidden, hidden);

            most = fmax(most, loss);
            sum += loss / (double)n;
        }
    }
    return worst ? most : sum / CALIB_SEQUENCES;
}

/* ---- 1: scales ---- */
static cudaError_t look(void *arg, size_t layer, enum cu_product of, const void *x, size_t ld,
                        int n)
{
    struct net *e = arg;
    struct cu_layer *l = &e->layers[layer];

    return gk_amax(e->type, x, ld, (int)words_count(e), n, of == CU_O ? l->ctx_scale : l->mid_scale,
                   e->stream);
}

/* The batch is already in the slot's block: run_words() was there before. */
static enum rc measure(struct calib *c, struct err *err)
{
    struct net *e = c->e;
    struct cu_try t = { e->gpu, err, RC_OK };
    size_t tokens = graph_tokens(words_count(e));
    size_t sequences = graph_sequences(CALIB_SEQUENCES, tokens);
    size_t tiles = net_tiles_max(tokens, sequences);
    struct cu_pass p = { .tokens = (int)tokens,
                         .sequences = (int)sequences,
                         .tiles = (int)tiles,
                         .counted = true,
                         .tile_rows = GK_ATTN_ROWS,
                         .block = e->slots[0].block.base,
                         .at = net_layout_batch(tokens, sequences, tiles),
                         .want = ENG_TOKENS,
                         .seen = look,
                         .arg = e };

    (void)cu_ok(&t, net_forward(e, &p), "launch", "a calibration");
    for (size_t i = 0; i < e->base.model->layers; i++)
        (void)(cu_ok(&t,
                     gk_scale(e->layers[i].ctx_scale, 1, SPARE / E4M3_MAX, SCALE_MIN, e->stream),
                     "launch", "a calibration") &&
               cu_ok(&t,
                     gk_scale(e->layers[i].mid_scale, 1, SPARE / E4M3_MAX, SCALE_MIN, e->stream),
                     "launch", "a calibration"));
    (void)cu_ok(&t, cudaStreamSynchronize(e->stream), "cudaStreamSynchronize", "a calibration");
    return t.rc;
}

/* ---- 2: matrices ---- */
static enum rc quantize(struct calib *c, struct err *err)
{
    struct net *e = c->e;
    struct cu_try t = { e->gpu, err, RC_OK };
    float *wide = (float *)(void *)c->wide.base;

    for (size_t i = 0; i < e->base.model->layers; i++)
        for (int p = 0; p < CU_PRODUCTS && t.rc == RC_OK; p++) {
            const struct cu_linear *from = &c->as16[i].product[p], *to = &c->as8[i].product[p];

            (void)(cu_ok(&t,
                         gk_widen(e->type, from->w, (size_t)from->k, from->n, from->k, wide,
                                  e->stream),
                         "launch", "a matrix in 8 bits") &&
                   cu_ok(&t,
                         gk_pack(GK_E4M3, wide, to->n, to->k, to->n, to->k, to->w, to->scale, true,
                                 e->stream),
                         "launch", "a matrix in 8 bits"));
        }
    return t.rc;
}

/* All products of type `type`, at `base` if there is one. */
static size_t lay_out(struct net *e, enum gk_type type, unsigned char *base)
{
    for (size_t i = 0; i < e->base.model->layers; i++)
        for (int p = 0; p < CU_PRODUCTS; p++)
            e->layers[i].product[p].type = type;
    return net_layout_matrices(e, base);
}

static enum rc make_matrices(struct calib *c, struct err *err)
{
    struct net *e = c->e;
    size_t layers = e->base.model->layers, bytes = lay_out(e, GK_E4M3, NULL), largest;
    enum rc rc = region_open(e->gpu, "matrices of 8 bits", bytes, &c->bytes8, err);

    if (rc == RC_OK)
        rc = region_commit(&c->bytes8, bytes, e->stream, err);
    if (rc == RC_OK) {
        (void)lay_out(e, GK_E4M3, c->bytes8.base);
        memcpy(c->as8, e->layers, layers * sizeof(*c->as8));
    }
    (void)lay_out(e, e->type, e->matrices.base);
    memcpy(c->as16, e->layers, layers * sizeof(*c->as16));
    largest = cu_max(3 * e->wide, e->ffn) * cu_max(e->ld, e->wide) * sizeof(float);
    if (rc == RC_OK)
        rc = region_open(e->gpu, "a matrix", largest, &c->wide, err);
    if (rc == RC_OK)
        rc = region_commit(&c->wide, largest, e->stream, err);
    return rc == RC_OK ? quantize(c, err) : rc;
}

/* ---- 3: which stay ---- */
static void use(struct calib *c, size_t layer, int p, bool as8)
{
    c->e->layers[layer].product[p] = (as8 ? c->as8 : c->as16)[layer].product[p];
}

/* The second product of a feed-forward block takes e4m3 from the first alone. */
static enum rc weigh(struct calib *c, size_t layer, int p, struct err *err)
{
    enum rc rc;

    use(c, layer, p, true);
    if (p == CU_FFN2)
        use(c, layer, CU_FFN1, true);
    rc = run_words(c, c->rows, err);
    c->loss[layer][p] = loss_of(c, false);
    if (p == CU_FFN2)
        c->loss[layer][p] -= c->loss[layer][CU_FFN1];
    c->loss[layer][p] = fmax(c->loss[layer][p], 0);
    use(c, layer, p, false);
    if (p == CU_FFN2)
        use(c, layer, CU_FFN1, false);
    return rc;
}

/* What is lost for each operation that e4m3 makes faster. */
static double price(const struct calib *c, uint16_t at)
{
    const struct cu_linear *l = &c->as16[at / CU_PRODUCTS].product[at % CU_PRODUCTS];

    return c->loss[at / CU_PRODUCTS][at % CU_PRODUCTS] / ((double)l->n * (double)l->k);
}

static void sort_list(struct calib *c)
{
    size_t n = c->e->base.model->layers * CU_PRODUCTS;

    for (size_t i = 0; i < n; i++) {
        size_t at = i;

        for (; at > 0 && price(c, c->list[at - 1]) < price(c, (uint16_t)i); at--)
            c->list[at] = c->list[at - 1];
        c->list[at] = (uint16_t)i;
    }
}

/* The first `kept` of the list stay in 16 bits; what is lost then? */
static enum rc lose(struct calib *c, size_t kept, double *out, struct err *err)
{
    size_t layers = c->e->base.model->layers;
    enum rc rc;

    memset(c->keep, 0, sizeof(c->keep));
    for (size_t i = 0; i < kept; i++)
        c->keep[c->list[i] / CU_PRODUCTS][c->list[i] % CU_PRODUCTS] = true;
    for (size_t i = 0; i < layers; i++) {
        c->keep[i][CU_FFN2] |= c->keep[i][CU_FFN1];
        for (int p = 0; p < CU_PRODUCTS; p++)
            use(c, i, p, !c->keep[i][p]);
    }
    rc = run_words(c, c->rows, err);
    *out = loss_of(c, true);
    return rc;
}

/* The shortest beginning of the list that is enough. */
static enum rc keep_enough(struct calib *c, struct err *err)
{
    size_t layers = c->e->base.model->layers, low = 0, high = layers * CU_PRODUCTS;
    double most = layers <= SHALLOW ? LOSS_SHALLOW : LOSS_DEEP, loss = 0;
    enum rc rc = RC_OK;

    while (low < high && rc == RC_OK) {
        size_t mid = (low + high) / 2;

        rc = lose(c, mid, &loss, err);
        if (loss <= most)
            high = mid;
        else
            low = mid + 1;
    }
    return rc == RC_OK ? lose(c, high, &loss, err) : rc;
}

static size_t count_kept(const struct calib *c)
{
    size_t n = 0;

    for (size_t i = 0; i < c->e->base.model->layers; i++)
        for (int p = 0; p < CU_PRODUCTS; p++)
            n += c->keep[i][p];
    return n;
}

/* "3 of 24 products in 16 bits: 0.o 5.ffn1 5.ffn2" */
static void name_kept(struct calib *c)
{
    struct net *e = c->e;
    size_t kept = count_kept(c), all = e->base.model->layers * CU_PRODUCTS, used;

    if (!kept)
        return;
    used = (size_t)snprintf(e->kept, sizeof(e->kept), "%zu of %zu products in 16 bits:", kept, all);
    for (size_t i = 0; i < all; i++) {
        size_t layer = i / CU_PRODUCTS, p = i % CU_PRODUCTS;

        if (!c->keep[layer][p])
            continue;
        if (used + 2 * KEPT_NAME_MAX > sizeof(e->kept)) {
            (void)snprintf(e->kept + used, sizeof(e->kept) - used, " ...");
            break;
        }
        used += (size_t)snprintf(e->kept + used, sizeof(e->kept) - used, " %zu.%s", layer,
                                 product_names[p]);
    }
}

static enum rc choose(struct calib *c, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < c->e->base.model->layers && rc == RC_OK; i++)
        for (int p = 0; p < CU_PRODUCTS && rc == RC_OK; p++)
            rc = weigh(c, i, p, err);
    if (rc != RC_OK)
        return rc;
    sort_list(c);
    rc = keep_enough(c, err);
    name_kept(c);
    return rc;
}

/* ---- 4: what is left ---- */
static enum rc settle(struct calib *c, struct err *err)
{
    struct net *e = c->e;
    struct cu_try t = { e->gpu, err, RC_OK };
    struct region both = { 0 };
    size_t bytes;

    for (size_t i = 0; i < e->base.model->layers; i++)
        for (int p = 0; p < CU_PRODUCTS; p++)
            e->layers[i].product[p].type = c->keep[i][p] ? e->type : GK_E4M3;
    bytes = net_layout_matrices(e, NULL);
    t.rc = region_open(e->gpu, "matrices", bytes, &both, err);
    if (t.rc == RC_OK)
        t.rc = region_commit(&both, bytes, e->stream, err);
    (void)net_layout_matrices(e, both.base);
    for (size_t i = 0; i < e->base.model->layers; i++)
        for (int p = 0; p < CU_PRODUCTS && t.rc == RC_OK; p++) {
            struct cu_linear *to = &e->layers[i].product[p];
            const struct cu_linear *from = &(c->keep[i][p] ? c->as16 : c->as8)[i].product[p];
            size_t size = (size_t)to->n * (size_t)to->k * cu_type_bytes(to->type);

            if (cu_ok(&t,
                      cudaMemcpyAsync(to->w, from->w, size, cudaMemcpyDeviceToDevice, e->stream),
                      "cudaMemcpyAsync", "a matrix") &&
                to->scale)
                (void)cu_ok(&t,
                            cudaMemcpyAsync(to->scale, from->scale, (size_t)to->n * sizeof(float),
                                            cudaMemcpyDeviceToDevice, e->stream),
                            "cudaMemcpyAsync", "scales");
        }
    (void)cu_ok(&t, cudaStreamSynchronize(e->stream), "cudaStreamSynchronize", "matrices");
    region_close(&e->matrices);
    e->matrices = both;
    return t.rc;
}

enum rc net_to_fp8(struct net *e, struct err *err)
{
    size_t layers = e->base.model->layers, floats = words_count(e) * e->base.model->hidden;
    struct calib *c = cu_host()->alloc(1, sizeof(*c));
    enum rc rc;

    assert(layers <= MODEL_LAYERS_MAX);
    c->e = e;
    e->eager = true;
    c->rows16 = cu_host()->alloc(floats, sizeof(float));
    c->rows = cu_host()->alloc(floats, sizeof(float));
    c->as16 = cu_host()->alloc(layers, sizeof(*c->as16));
    c->as8 = cu_host()->alloc(layers, sizeof(*c->as8));
    rc = run_words(c, c->rows16, err);
    if (rc == RC_OK)
        rc = measure(c, err);
    if (rc == RC_OK)
        rc = make_matrices(c, err);
    if (rc == RC_OK)
        rc = choose(c, err);
    if (rc == RC_OK)
        rc = settle(c, err);
    e->eager = false;
    region_close(&c->bytes8);
    region_close(&c->wide);
    free(c->rows16);
    free(c->rows);
    free(c->as16);
    free(c->as8);
    free(c);
    return rc;
}
