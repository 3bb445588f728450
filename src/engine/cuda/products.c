/* SPDX-License-Identifier: MIT */
/* products: which way of making each product is the fastest here, for passes that are graphs.
 *
 * A way depends on the matrix, the activation and the bucket of rows.  What the choices' file of
 * this GPU (gemm_choices_int.h) does not know is measured when a model is loaded, over the weights
 * of its layers, and written there: the next load reads it.  A pass then only looks up.  cuBLASLt
 * takes longer to open than most models to load, so that it is opened beside that, and only where
 * there is something to measure or it was chosen for something.  Up to half of GK_SKINNY_ROWS rows
 * gk_gemm_skinny() has no rival, and beyond CU_GRAPH_TOKENS gk_gemm_sm90(): its tiles fill the
 * GPU.
 *
 * Sums are then added in different orders for different batches, so that with `invariant` (which
 * bf16 and fp8 always are) there is nothing to choose.
 *
 * All of it is a matter of speed: no library, no folder, no room, and the engine goes on with its
 * own kernels as they come. */
#include "engine/cuda/cuda_int.h"
#include "engine/cuda/kernels/gemm_split90_int.h"

#include <assert.h>
#include <dlfcn.h>
#include <sys/stat.h>

/* ---- what belongs to a choice ---- */

/* The driver's version, as CUDA counts and, where the kernel tells, with all its parts. */
static void driver_name(char *out, size_t cap)
{
    FILE *f = fopen("/proc/driver/nvidia/version", "re");
    char line[256] = "", *at = line;
    int version = 0;
    size_t n;

    (void)cudaDriverGetVersion(&version);
    if (f) {
        if (!fgets(line, sizeof(line), f))
            line[0] = '\0';
        (void)fclose(f);
    }
    while (*at && !(at[0] >= '0' && at[0] <= '9' && (n = strspn(at, "0123456789.")) > 4 &&
                    memchr(at, '.', n)))
        at++;
    at[strspn(at, "0123456789.")] = '\0';
    (void)snprintf(out, cap, "%d%s%s", version, *at ? "-" : "", at);
}

/* The plug-in itself by its file, whose kernels are other ones after the next build. */
static void stamp_of(const struct cuda_net *e, char *out, size_t cap)
{
    struct stat st = { 0 };
    Dl_info self;

    if (dladdr((const void *)&cu_ops, &self) && stat(self.dli_fname, &st))
        st = (struct stat){ 0 };
    (void)snprintf(out, cap, "sm%d-%llx-%llx.%09ld", e->gpu->sm, (unsigned long long)st.st_size,
                   (unsigned long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* ---- cuBLASLt and its memory ---- */
static void *lt_opener(void *arg)
{
    struct cuda_net *e = arg;
    char why[GK_LT_TEXT_MAX];

    if (cudaSetDevice(e->gpu->index) != cudaSuccess || !gk_lt_open(&e->products.lt, why))
        e->products.lt = NULL;
    return NULL;
}

static void lt_wait(struct cuda_net *e)
{
    if (e->products.opening)
        (void)pthread_join(e->products.opener, NULL);
    e->products.opening = false;
}

static void lt_close(struct cuda_net *e)
{
    struct cu_products *p = &e->products;

    lt_wait(e);
    if (!p->lt)
        return;
    gk_lt_close(p->lt);
    p->lt = NULL;
    region_close(&p->room);
    region_close(&p->bias16);
    for (size_t i = 0; i < e->base.model->layers * CU_PRODUCTS; i++)
        e->layers[i / CU_PRODUCTS].product[i % CU_PRODUCTS].bias16 = NULL;
}

/* Biases of all layers as the library wants them, in the products' type. */
static bool lt_biases(struct cuda_net *e)
{
    struct cu_products *p = &e->products;
    size_t layers = e->base.model->layers, bytes = 0, at = 0;

    for (int i = 0; i < CU_PRODUCTS; i++)
        bytes += layers * cu_round_up((size_t)e->layers[0].product[i].n * 2, CU_ALIGN);
    if (region_open(e->gpu, "biases", bytes, &p->bias16, NULL) ||
        region_commit(&p->bias16, bytes, e->stream, NULL))
        return false;
    for (size_t i = 0; i < layers * CU_PRODUCTS; i++) {
        struct cu_linear *l = &e->layers[i / CU_PRODUCTS].product[i % CU_PRODUCTS];

        l->bias16 = p->bias16.base + at;
        at += cu_round_up((size_t)l->n * 2, CU_ALIGN);
        if (gk_pack(e->type, l->bias, 1, l->n, 1, l->n, l->bias16, NULL, false, e->stream))
            return false;
    }
    return true;
}

/* Opened and ready, where that is possible. */
static void lt_open(struct cuda_net *e)
{
    struct cu_products *p = &e->products;

    lt_wait(e);
    if (p->room.gpu)
        return;
    if (!p->lt)
        (void)lt_opener(e);
    if (p->lt &&
        (region_open(e->gpu, "products of cuBLASLt", GK_LT_WORKSPACE_BYTES, &p->room, NULL) ||
         region_commit(&p->room, GK_LT_WORKSPACE_BYTES, e->stream, NULL) || !lt_biases(e)))
        lt_close(e);
}

/* ---- choosing ---- */
static struct gemm_ways ways_of(const struct cuda_net *e)
{
    const struct cu_products *p = &e->products;
    bool new = e->gpu->sm == 90;

    return (struct gemm_ways){ .sm90 = new ? gk_gemm_sm90 : NULL,
                               .sm80 = new ? NULL : gk_gemm_sm80,
                               .split90 = new ? gk_gemm_split90 : NULL,
                               .skinny = gk_gemm_skinny,
                               .partial = (float *)(void *)e->room.partial.base,
                               .sms = e->gpu->sms,
                               .lt = p->lt,
                               .room = { p->room.base, p->room.used },
                               .stream = e->stream };
}

/* Product `of` of a layer, as a pass would make it over rows that mean nothing. */
static struct gemm_one one_of(const struct cuda_net *e, size_t layer, enum cu_product of, int rows)
{
    const struct cu_linear *l = &e->layers[layer].product[of];
    const struct cu_room *r = &e->room;
    const void *const in[CU_PRODUCTS] = { r->x.base, r->ctx.base, r->x.base, r->wide.base };
    void *const out[CU_PRODUCTS] = { r->wide.base, r->y.base, r->wide.base, r->y.base };

    return (struct gemm_one){ .g = { .type = l->type,
                                     .out_type = e->type,
                                     .act = of == CU_FFN1 ? net_act(e) : GK_ACT_NONE,
                                     .m = rows,
                                     .n = l->n,
                                     .k = l->k,
                                     .a = in[of],
                                     .w = l->w,
                                     .out = out[of],
                                     .lda = (size_t)l->k,
                                     .ldout = (size_t)l->n,
                                     .bias = l->bias,
                                     .pdl = e->pdl },
                              .bias16 = l->bias16 };
}

/* The LayerNorm that follows two of the four products, for want of a better neighbour of all. */
struct neighbour {
    struct cuda_net *e;
    int rows, splits;
};

static cudaError_t neighbour_run(void *arg, const struct choose_way *way)
{
    const struct neighbour *a = arg;
    struct cuda_net *e = a->e;
    bool parts = way->impl == CHOOSE_SKINNY && a->splits > 1;
    struct gk_norm n = { .type = e->type,
                         .m = a->rows,
                         .hidden = (int)e->base.model->hidden,
                         .ld = e->ld,
                         .x = e->room.x.base,
                         .y = parts ? NULL : e->room.y.base,
                         .partial = parts ? (float *)(void *)e->room.partial.base : NULL,
                         .splits = parts ? a->splits : 0,
                         .bias = parts ? e->layers[0].product[CU_O].bias : NULL,
                         .gamma = e->layers[0].att.gain,
                         .beta = e->layers[0].att.bias,
                         .eps = e->base.model->ln_eps,
                         .pdl = e->pdl };

    return gk_add_norm(&n, e->stream);
}

static void choose_one(struct cuda_net *e, struct gemm_one *list, enum cu_product of, int bucket)
{
    struct neighbour after = { .e = e, .rows = CU_WAYS_ROWS << bucket };
    struct choose *c = e->products.known;
    struct gemm_ways w = ways_of(e);
    struct choose_ops ops = gemm_choose_ops(&w);
    struct choose_way way;
    struct choose_key key;
    const struct choose_entry *found;

    w.list = list;
    w.count = (int)e->base.model->layers;
    w.after = neighbour_run;
    w.arg = &after;
    w.splits = 1;
    if (of == CU_O || of == CU_FFN2) /* whose parts the LayerNorm adds up */
        w.splits =
            gk_skinny_splits(e->layers[0].product[of].n, e->layers[0].product[of].k, e->gpu->sms);
    after.splits = w.splits;
    for (int i = 0; i < w.count; i++)
        list[i] = one_of(e, (size_t)i, of, CU_WAYS_ROWS << bucket);
    key = gemm_key(&list[0].g);
    if (!choose_best(c, &key, &ops, &way))
        return;
    found = choose_find(c, &key);
    e->products.chosen[of][bucket] =
        (struct cu_chosen){ .way = way, .us = found ? found->us : 0, .there = true };
}

/* Numbers to multiply: on zeros a GPU is faster than it is. */
static void fill_operands(struct cuda_net *e, int byte)
{
    const struct region *const all[] = { &e->room.x, &e->room.ctx, &e->room.wide, &e->room.y };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        (void)cudaMemsetAsync(all[i]->base, byte, all[i]->used, e->stream);
}

/* Every choice from the file, and those that are not in it by measuring. */
static void choose_all(struct cuda_net *e)
{
    enum { SOME = 0x3c }; /* of all bytes: 1.06 in f16, 0.011 in bf16 */
    struct gemm_one *list = cu_host()->alloc(e->base.model->layers, sizeof(*list));

    fill_operands(e, SOME);
    for (int of = 0; of < CU_PRODUCTS; of++)
        for (int b = 0; b < CU_WAYS; b++)
            choose_one(e, list, (enum cu_product)of, b);
    fill_operands(e, 0);
    free(list);
}

/* Whether the library has to be opened: to be measured, to be used, or to see that it is there. */
static bool lt_wanted(const struct cuda_net *e)
{
    const struct choose *c = e->products.known;

    for (int i = 0; i < CU_PRODUCTS * CU_WAYS; i++) {
        struct gemm_one one =
            one_of(e, 0, (enum cu_product)(i / CU_WAYS), CU_WAYS_ROWS << i % CU_WAYS);
        struct choose_key key = gemm_key(&one.g);
        const struct choose_entry *found = choose_find(c, &key);

        if (!found || found->way.impl == CHOOSE_LT)
            return true;
    }
    return !c->lib.path[0];
}

static void keep_choices(struct cuda_net *e)
{
    struct cu_products *p = &e->products;
    char why[CHOOSE_TEXT_MAX] = "";

    if (!p->path[0] || !p->known->changed)
        return;
    choose_merge(p->known, p->path);
    if (!choose_write(p->known, p->path, why))
        (void)snprintf(p->unkept, sizeof(p->unkept), "%s", why);
}

/* STOKER_CUDA_PRODUCTS: "plain", nothing is chosen; "own", among our own kernels, not kept. */
static bool asked_for(const char *what)
{
    const char *text = getenv("STOKER_CUDA_PRODUCTS");

    return text && strcmp(text, what) == 0;
}

void net_products_begin(struct cuda_net *e)
{
    struct cu_products *p = &e->products;
    char driver[CHOOSE_STAMP_MAX], stamp[CHOOSE_STAMP_MAX], why[CHOOSE_TEXT_MAX];
    bool lt = false;

    if (e->invariant || asked_for("plain"))
        return;
    p->known = cu_host()->alloc(1, sizeof(*p->known));
    driver_name(driver, sizeof(driver));
    stamp_of(e, stamp, sizeof(stamp));
    choose_init(p->known, stamp);
    if (asked_for("own"))
        return;
    if (!choose_path(p->path, e->gpu->name, driver, p->unkept))
        p->path[0] = '\0';
    else
        (void)choose_read(p->known, p->path, why);
    if (!choose_library_same(p->known))
        choose_use_library(p->known, NULL);
    for (size_t i = 0; i < p->known->count; i++)
        lt = lt || p->known->entries[i].way.impl == CHOOSE_LT;
    if (lt || !p->known->count)
        p->opening = pthread_create(&p->opener, NULL, lt_opener, e) == 0;
}

enum rc net_products_open(struct cuda_net *e, struct err *err)
{
    struct cu_products *p = &e->products;
    struct cu_try t = { e->gpu, err, RC_OK };

    if (!p->known)
        return RC_OK;
    assert(e->room.tokens >= CU_GRAPH_TOKENS);
    if (!asked_for("own") && lt_wanted(e)) {
        lt_open(e);
        choose_use_library(p->known, p->lt ? gk_lt_path(p->lt) : NULL);
    }
    choose_all(e);
    keep_choices(e);
    if (!net_products_count(e, CHOOSE_LT))
        lt_close(e);
    free(p->known);
    p->known = NULL;
    (void)cu_ok(&t, cudaStreamSynchronize(e->stream), "cudaStreamSynchronize", "choosing products");
    return t.rc;
}

void net_products_close(struct cuda_net *e)
{
    lt_close(e);
    free(e->products.known);
    e->products.known = NULL;
}

/* ---- in a pass ---- */
/* The bucket of so many rows; CU_WAYS: none. */
static int bucket_of(int rows)
{
    int b = 0;

    while (b < CU_WAYS && rows != CU_WAYS_ROWS << b)
        b++;
    return b;
}

bool net_product_skinny(const struct cuda_net *e, const struct cu_linear *l, int rows)
{
    int b = bucket_of(rows);
    const struct cu_chosen *c = b < CU_WAYS ? &e->products.chosen[l->of][b] : NULL;

    return !c || !c->there || c->way.impl == CHOOSE_SKINNY;
}

cudaError_t net_product(struct cuda_net *e, const struct cu_linear *l, const struct gk_gemm *g)
{
    int b = bucket_of(g->m);
    struct cu_chosen *c = b < CU_WAYS ? &e->products.chosen[l->of][b] : NULL;

    if (c && c->there) {
        struct gemm_ways w = ways_of(e);
        struct gemm_one one = { .g = *g, .bias16 = l->bias16 };
        char why[GK_LT_TEXT_MAX];

        if (gemm_by(&w, &c->way, &one, e->stream, why))
            return cudaSuccess;
        c->there = false; /* a library that changed its mind: our own from now on */
    }
    return e->gpu->sm == 90 ? gk_gemm_sm90(g, e->stream) : gk_gemm_sm80(g, e->stream);
}

/* ---- telling ---- */
size_t net_products_count(const struct cuda_net *e, enum choose_impl impl)
{
    size_t n = 0;

    for (int i = 0; i < CU_PRODUCTS * CU_WAYS; i++) {
        const struct cu_chosen *c = &e->products.chosen[i / CU_WAYS][i % CU_WAYS];

        n += c->there && c->way.impl == impl;
    }
    return n;
}

/* Behind the last, why they are not kept. */
bool net_products_tell(const struct cuda_net *e, size_t i, char *out, size_t cap)
{
    static const char *const names[CU_PRODUCTS] = { "qkv", "o", "ffn1", "ffn2" };
    static const char *const ways[CHOOSE_IMPLS] = { [CHOOSE_SM90] = "sm90",
                                                    [CHOOSE_SM80] = "sm80",
                                                    [CHOOSE_LT] = "cublaslt",
                                                    [CHOOSE_SPLIT90] = "split",
                                                    [CHOOSE_SKINNY] = "skinny" };
    const struct cu_chosen *c;
    char how[32];

    for (size_t at = 0; at < CU_PRODUCTS * CU_WAYS; at++) {
        const struct cu_linear *l = &e->layers[0].product[at / CU_WAYS];

        c = &e->products.chosen[at / CU_WAYS][at % CU_WAYS];
        if (!c->there || i--)
            continue;
        (void)snprintf(how, sizeof(how), "%s", ways[c->way.impl]);
        if (c->way.impl == CHOOSE_SPLIT90)
            (void)snprintf(how, sizeof(how), "split in %d", c->way.parts);
        (void)snprintf(out, cap, "%s %dx%dx%d: %s, %.2f us", names[at / CU_WAYS],
                       CU_WAYS_ROWS << at % CU_WAYS, l->n, l->k, how, c->us);
        return true;
    }
    if (i > 0 || !e->products.unkept[0])
        return false;
    (void)snprintf(out, cap, "measured at every load: %s", e->products.unkept);
    return true;
}
