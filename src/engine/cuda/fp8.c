/* SPDX-License-Identifier: MIT */
/* fp8: a model of 16 bits that is loaded becomes one of e4m3.
 *
 *   1. A batch of random tokens, texts of several lengths, runs in 16 bits.  How far the output of
 *      attention and that of the activation reach gives their scales, one a layer.  (A LayerNorm's
 *      rows are scaled one by one as they are written and need none; weights have a scale a row.)
 *      The mean row that each product takes is kept for step 2.
 *   2. Matrices are packed as e4m3, beside those of 16 bits.  Where the rows of a model are much
 *      alike, most of what rounding the weights does to a product is the same for every row: the
 *      error at the mean row, which the product's bias can take back.  That is done where it takes
 *      much of the loss away (REBIAS), as with random weights; with those of MiniLM, whose rows
 *      are made to differ, it takes little from the batch and adds to texts of other words.
 *   3. The batch runs in e4m3.  Where a text's vector is not near enough to that of 16 bits
 *      (LOSS_DEEP, LOSS_SHALLOW; the first row and the mean of the rows are looked at, which is
 *      what pooling and heads read), some products stay in 16 bits: each product alone runs in
 *      e4m3 to say what it costs, those that lose most for the operations they save come first on
 *      a list, and as much of its beginning stays as is needed, measured.  The bounds are below
 *      what is promised (0.01, 0.001): among many more texts there are worse ones.
 *   4. The matrices of 16 bits stay for texts of up to SHORT tokens, which run by them.  The
 *      rounding of a single row's numbers is independent of that of every other row, and a long
 *      text takes the mean of many: at 24 layers texts of one token are at 0.986, of two at
 *      0.991, of five at 0.994, of a hundred at 0.997 (the first row) or 0.999 (the mean).
 *
 * e4m3 is a float: numbers far below the largest keep their three bits until 2^-6, so scales leave
 * room for texts whose numbers reach further than those of the batch. */
#include "engine/cuda/cuda_int.h"
#include "engine/cuda/kernels/calib_int.h"

#include <assert.h>
#include <math.h>

enum {
    CALIB_SEQUENCES = 11,
    CALIB_TOKENS = 5 + 6 + 7 + 8 + 12 + 16 + 24 + 33 + 48 + 64 + 128,
    SHORT = 4,          /* tokens */
    KEPT_NAME_MAX = 16, /* bytes of "23.ffn2 " */
    SHALLOW = 6         /* layers */
};
static const uint32_t calib_lengths[CALIB_SEQUENCES] = { 5, 6, 7, 8, 12, 16, 24, 33, 48, 64, 128 };
#define E4M3_MAX     448.0f
#define SPARE        4.0f   /* times further than seen */
#define SCALE_MIN    1e-6f  /* of an output that is all zeros */
#define LOSS_DEEP    0.0075 /* 1 - cosine, of the worst text */
#define LOSS_SHALLOW 0.0003 /* for up to SHALLOW layers */
#define REBIAS       0.6    /* of the loss that may be left by other biases */

static const char *const product_names[CU_PRODUCTS] = { "qkv", "o", "ffn1", "ffn2" };

struct calib {
    struct cuda_net *e;
    struct region wide;   /* one matrix as f32 */
    struct region means;  /* f32: the mean row of each product, mean_of() */
    float *rows16, *rows; /* owned: the batch's vectors in 16 bits; now */
    struct cu_layer *as8; /* owned: the layers' products in e4m3 */
    bool rebias;          /* with biases of their own */
    double loss[MODEL_LAYERS_MAX][CU_PRODUCTS];
    bool keep[MODEL_LAYERS_MAX][CU_PRODUCTS];      /* in 16 bits */
    uint16_t list[MODEL_LAYERS_MAX * CU_PRODUCTS]; /* layer * CU_PRODUCTS + product, worst first */
};

/* ---- the batch ---- */
struct fp8_words {
    uint32_t ids[CALIB_TOKENS], starts[CALIB_SEQUENCES + 1];
};

static void make_words(const struct cuda_net *e, struct fp8_words *w)
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

static size_t words_count(const struct cuda_net *e)
{
    size_t n = 0;

    for (size_t s = 0; s < CALIB_SEQUENCES; s++)
        n += cu_min(calib_lengths[s], e->tokens_max);
    return n;
}

static enum rc run_words(struct calib *c, float *out, struct err *err)
{
    struct fp8_words w;

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

/* The mean of `count` rows. */
static void mean_row(const float *rows, size_t count, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;

        for (size_t r = 0; r < count; r++)
            sum += (double)rows[r * n + i];
        out[i] = (float)(sum / (double)count);
    }
}

/* Of a text: the first row's loss or that of the mean, whichever is more. */
static double loss_of_text(const float *a, const float *b, size_t count, size_t n)
{
    float *mean = cu_host()->alloc(2 * n, sizeof(*mean));
    double loss = loss_of_row(a, b, n);

    mean_row(a, count, n, mean);
    mean_row(b, count, n, mean + n);
    loss = fmax(loss, loss_of_row(mean, mean + n, n));
    free(mean);
    return loss;
}

/* 1 - cosine: the worst text's, or the mean of the texts'. */
static double loss_of(const struct calib *c, bool worst)
{
    size_t hidden = c->e->base.model->hidden, row = 0;
    double most = 0, sum = 0;

    for (size_t s = 0; s < CALIB_SEQUENCES; s++) {
        size_t n = cu_min(calib_lengths[s], c->e->tokens_max);
        double loss = loss_of_text(c->rows16 + row * hidden, c->rows + row * hidden, n, hidden);

        row += n;
        most = fmax(most, loss);
        sum += loss;
    }
    return worst ? most : sum / CALIB_SEQUENCES;
}

/* ---- 1: scales and means ---- */

/* Where the mean row of a product stands, of as many floats as it has columns in; past the last
 * one: how many floats there are. */
static size_t mean_at(const struct cuda_net *e, size_t layer, int p)
{
    const size_t k[CU_PRODUCTS] = { e->ld, e->wide, e->ld, e->ffn };
    size_t at = layer * (2 * e->ld + e->wide + e->ffn);

    for (int i = 0; i < p; i++)
        at += k[i];
    return at;
}

static float *mean_of(const struct calib *c, size_t layer, int p)
{
    return (float *)(void *)c->means.base + mean_at(c->e, layer, p);
}

static cudaError_t look_at_product(void *arg, size_t layer, enum cu_product of, const void *x,
                                   int n)
{
    struct calib *c = arg;
    struct cuda_net *e = c->e;
    struct cu_layer *l = &e->layers[layer];
    int rows = (int)words_count(e);
    cudaError_t error = gk_mean(e->type, x, (size_t)n, rows, n, mean_of(c, layer, of), e->stream);

    if (error != cudaSuccess || of == CU_QKV || of == CU_FFN1)
        return error;
    return gk_amax(e->type, x, (size_t)n, rows, n, of == CU_O ? l->ctx_scale : l->mid_scale,
                   e->stream);
}

/* The batch is already in the slot's block: run_words() was there before. */
static enum rc measure_ranges(struct calib *c, struct err *err)
{
    struct cuda_net *e = c->e;
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
                         .seen = look_at_product,
                         .arg = c };
    size_t bytes = mean_at(e, e->base.model->layers, 0) * sizeof(float);

    t.rc = region_open(e->gpu, "mean rows", bytes, &c->means, err);
    if (t.rc == RC_OK)
        t.rc = region_commit(&c->means, bytes, e->stream, err);
    if (t.rc != RC_OK)
        return t.rc;
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
static enum rc quantize_matrices(struct calib *c, struct err *err)
{
    struct cuda_net *e = c->e;
    struct cu_try t = { e->gpu, err, RC_OK };
    float *wide = (float *)(void *)c->wide.base;

    for (size_t i = 0; i < e->base.model->layers; i++)
        for (int p = 0; p < CU_PRODUCTS && t.rc == RC_OK; p++) {
            const struct cu_linear *from = &e->layers16[i].product[p];
            const struct cu_linear *to = &c->as8[i].product[p];

            (void)(cu_ok(&t,
                         gk_widen(e->type, from->w, (size_t)from->k, from->n, from->k, wide,
                                  e->stream),
                         "launch", "a matrix in 8 bits") &&
                   cu_ok(&t,
                         gk_pack(GK_E4M3, wide, to->n, to->k, to->n, to->k, to->w, to->scale, true,
                                 e->stream),
                         "launch", "a matrix in 8 bits") &&
                   cu_ok(&t,
                         gk_rebias(wide, to->w, to->scale, to->n, to->k, mean_of(c, i, p),
                                   from->bias, to->bias, e->stream),
                         "launch", "a matrix in 8 bits"));
        }
    return t.rc;
}

static enum rc make_matrices(struct calib *c, struct err *err)
{
    struct cuda_net *e = c->e;
    size_t layers = e->base.model->layers, largest;
    enum rc rc;

    e->layers16 = cu_host()->alloc(layers, sizeof(*e->layers16));
    memcpy(e->layers16, e->layers, layers * sizeof(*e->layers16));
    largest = net_layout_matrices8(e, NULL);
    rc = region_open(e->gpu, "matrices of 8 bits", largest, &e->matrices8, err);
    if (rc == RC_OK)
        rc = region_commit(&e->matrices8, largest, e->stream, err);
    if (rc == RC_OK)
        (void)net_layout_matrices8(e, e->matrices8.base);
    memcpy(c->as8, e->layers, layers * sizeof(*c->as8));
    largest = cu_max(3 * e->wide, e->ffn) * cu_max(e->ld, e->wide) * sizeof(float);
    if (rc == RC_OK)
        rc = region_open(e->gpu, "a matrix", largest, &c->wide, err);
    if (rc == RC_OK)
        rc = region_commit(&c->wide, largest, e->stream, err);
    return rc == RC_OK ? quantize_matrices(c, err) : rc;
}

/* ---- 3: which stay ---- */
static void use_product(struct calib *c, size_t layer, int p, bool as8)
{
    const struct cu_linear *as16 = &c->e->layers16[layer].product[p];
    struct cu_linear *now = &c->e->layers[layer].product[p];

    *now = as8 ? c->as8[layer].product[p] : *as16;
    if (!c->rebias)
        now->bias = as16->bias;
}

/* The second product of a feed-forward block takes e4m3 only from the first. */
static enum rc weigh_product(struct calib *c, size_t layer, int p, struct err *err)
{
    enum rc rc;

    use_product(c, layer, p, true);
    if (p == CU_FFN2)
        use_product(c, layer, CU_FFN1, true);
    rc = run_words(c, c->rows, err);
    c->loss[layer][p] = loss_of(c, false);
    if (p == CU_FFN2)
        c->loss[layer][p] -= c->loss[layer][CU_FFN1];
    c->loss[layer][p] = fmax(c->loss[layer][p], 0);
    use_product(c, layer, p, false);
    if (p == CU_FFN2)
        use_product(c, layer, CU_FFN1, false);
    return rc;
}

/* What is lost for each operation that e4m3 makes faster. */
static double price_of(const struct calib *c, uint16_t at)
{
    const struct cu_linear *l = &c->as8[at / CU_PRODUCTS].product[at % CU_PRODUCTS];

    return c->loss[at / CU_PRODUCTS][at % CU_PRODUCTS] / ((double)l->n * (double)l->k);
}

static void sort_list(struct calib *c)
{
    size_t n = c->e->base.model->layers * CU_PRODUCTS;

    for (size_t i = 0; i < n; i++) {
        size_t at = i;

        for (; at > 0 && price_of(c, c->list[at - 1]) < price_of(c, (uint16_t)i); at--)
            c->list[at] = c->list[at - 1];
        c->list[at] = (uint16_t)i;
    }
}

/* The first `kept` of the list stay in 16 bits; what is lost then? */
static enum rc lose_with(struct calib *c, size_t kept, double *out, struct err *err)
{
    size_t layers = c->e->base.model->layers;
    enum rc rc;

    memset(c->keep, 0, sizeof(c->keep));
    for (size_t i = 0; i < kept; i++)
        c->keep[c->list[i] / CU_PRODUCTS][c->list[i] % CU_PRODUCTS] = true;
    for (size_t i = 0; i < layers; i++) {
        c->keep[i][CU_FFN2] |= c->keep[i][CU_FFN1];
        for (int p = 0; p < CU_PRODUCTS; p++)
            use_product(c, i, p, !c->keep[i][p]);
    }
    rc = run_words(c, c->rows, err);
    *out = loss_of(c, true);
    return rc;
}

static double most_of(const struct calib *c)
{
    return c->e->base.model->layers <= SHALLOW ? LOSS_SHALLOW : LOSS_DEEP;
}

/* The shortest beginning of the list that is enough. */
static enum rc keep_enough(struct calib *c, struct err *err)
{
    size_t layers = c->e->base.model->layers, low = 0, high = layers * CU_PRODUCTS;
    double loss = 0;
    enum rc rc = RC_OK;

    while (low < high && rc == RC_OK) {
        size_t mid = (low + high) / 2;

        rc = lose_with(c, mid, &loss, err);
        if (loss <= most_of(c))
            high = mid;
        else
            low = mid + 1;
    }
    return rc == RC_OK ? lose_with(c, high, &loss, err) : rc;
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
    struct cuda_net *e = c->e;
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

/* What each product costs by itself, then how many stay. */
static enum rc choose_kept(struct calib *c, struct err *err)
{
    size_t layers = c->e->base.model->layers;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < layers; i++)
        for (int p = 0; p < CU_PRODUCTS; p++)
            use_product(c, i, p, false);
    for (size_t i = 0; i < layers && rc == RC_OK; i++)
        for (int p = 0; p < CU_PRODUCTS && rc == RC_OK; p++)
            rc = weigh_product(c, i, p, err);
    if (rc != RC_OK)
        return rc;
    sort_list(c);
    rc = keep_enough(c, err);
    name_kept(c);
    return rc;
}

/* All in e4m3, with biases of its own or those of 16 bits: the loss of the worst text. */
static enum rc choose_biases(struct calib *c, double *out, struct err *err)
{
    enum rc rc = lose_with(c, 0, out, err);
    double without = loss_of(c, false);

    c->rebias = true;
    if (rc == RC_OK)
        rc = lose_with(c, 0, out, err);
    if (rc != RC_OK || loss_of(c, false) <= REBIAS * without)
        return rc;
    c->rebias = false;
    return lose_with(c, 0, out, err);
}

static enum rc choose_all(struct calib *c, struct err *err)
{
    double loss = 0;
    enum rc rc = choose_biases(c, &loss, err);

    return rc == RC_OK && loss > most_of(c) ? choose_kept(c, err) : rc;
}

enum rc net_to_fp8(struct cuda_net *e, struct err *err)
{
    size_t layers = e->base.model->layers, floats = words_count(e) * e->base.model->hidden;
    struct calib *c = cu_host()->alloc(1, sizeof(*c));
    enum rc rc;

    assert(layers <= MODEL_LAYERS_MAX);
    c->e = e;
    e->eager = true;
    c->rows16 = cu_host()->alloc(floats, sizeof(float));
    c->rows = cu_host()->alloc(floats, sizeof(float));
    c->as8 = cu_host()->alloc(layers, sizeof(*c->as8));
    rc = run_words(c, c->rows16, err);
    if (rc == RC_OK)
        rc = measure_ranges(c, err);
    if (rc == RC_OK)
        rc = make_matrices(c, err);
    if (rc == RC_OK)
        rc = choose_all(c, err);
    e->short_tokens = SHORT;
    e->eager = false;
    region_close(&c->wide);
    region_close(&c->means);
    free(c->rows16);
    free(c->rows);
    free(c->as8);
    free(c);
    return rc;
}
