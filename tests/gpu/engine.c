/* SPDX-License-Identifier: MIT */
/* engine: a model on a GPU, compared with the CPU in f32 and timed.
 *
 *     gpu-engine MODEL-DIR [DEVICE [DTYPE [PARTS]]]     cuda:0, auto, "check time invariant"
 *
 * check: random batches of many sizes, each twice (the second time graphs replay); the least
 * cosine and the largest difference of all rows.  time: medians by device events ("device") and
 * by the clock from host bytes to host vectors ("host"); large: batches of 4096 tokens on alone.
 * invariant: a text's bits alone and in
 * larger batches.  Exit status 1 when something is worse than its bound. */
#include "engine/engine.h"
#include "base/mem.h"
#include "base/str.h"
#include "engine/cuda/cuda_report_int.h"

#include <dlfcn.h>
#include <math.h>
#include <time.h>

enum { TOKENS_MAX = 131072, SEQUENCES_MAX = 4096, TIMES_MAX = 400 };
static const double cosine_min_16 = 0.9995, cosine_min_8 = 0.99;

static int failed;

struct words {
    uint32_t *ids, *starts;
    struct eng_batch b;
};

/* ---- numbers ---- */
static uint64_t seed = 1;

static double uniform(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(seed >> 11) + 0.5) * 0x1p-53;
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

/* ---- batches ---- */
static void words_new(struct words *w)
{
    w->ids = xcalloc(TOKENS_MAX, sizeof(*w->ids));
    w->starts = xcalloc(SEQUENCES_MAX + 1, sizeof(*w->starts));
    w->b = (struct eng_batch){ .ids = w->ids, .starts = w->starts };
}

static void words_free(struct words *w)
{
    free(w->ids);
    free(w->starts);
}

static void words_add(struct words *w, const struct model *m, size_t tokens)
{
    size_t at = w->starts[w->b.sequences], low = m->vocab > 300 ? 200 : 3;

    tokens = tokens < eng_tokens_max(m) ? tokens : eng_tokens_max(m);
    if (at + tokens > TOKENS_MAX || w->b.sequences == SEQUENCES_MAX)
        return;
    for (size_t i = 0; i < tokens; i++)
        w->ids[at + i] = (uint32_t)(low + (size_t)(uniform() * (double)(m->vocab - low)));
    w->starts[++w->b.sequences] = (uint32_t)(at + tokens);
}

/* Lengths as in the corpus: exp(ln 90 + 0.8 z), 4 to 512. */
static size_t corpus_length(void)
{
    double z = sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
    double n = round(exp(log(90) + 0.8 * z));

    return n < 4 ? 4 : n > 512 ? 512 : (size_t)n;
}

/* ---- comparing ---- */
static float *run(struct eng *e, const struct eng_batch *b, enum eng_want want)
{
    size_t rows = want == ENG_TOKENS ? b->starts[b->sequences] : b->sequences;
    float *out = xcalloc(rows * eng_width(e->model, want), sizeof(*out));
    struct err err = { 0 };

    if (eng_run(e, b, want, out, &err) != RC_OK) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    return out;
}

struct gap {
    double cosine, largest;
};

static struct gap compare(const float *a, const float *b, size_t rows, size_t width)
{
    struct gap g = { .cosine = 1 };

    for (size_t r = 0; r < rows; r++, a += width, b += width) {
        double ab = 0, aa = 0, bb = 0;

        for (size_t i = 0; i < width; i++) {
            ab += (double)a[i] * (double)b[i];
            aa += (double)a[i] * (double)a[i];
            bb += (double)b[i] * (double)b[i];
            g.largest = fmax(g.largest, fabs((double)a[i] - (double)b[i]));
        }
        g.cosine = fmin(g.cosine, width > 1 ? ab / sqrt(aa * bb) : 1);
    }
    return g;
}

static void check_batch(struct eng *cpu, struct eng *gpu, const struct words *w, const char *name,
                        enum eng_want want, double min)
{
    size_t rows = want == ENG_TOKENS ? w->starts[w->b.sequences] : w->b.sequences;
    size_t width = eng_width(cpu->model, want);
    float *a = run(cpu, &w->b, want), *once = run(gpu, &w->b, want), *again = run(gpu, &w->b, want);
    struct gap g = compare(a, once, rows, width), h = compare(a, again, rows, width);
    bool same = memcmp(once, again, rows * width * sizeof(*a)) == 0;
    bool ok = fmin(g.cosine, h.cosine) >= min;

    printf(
        "%s - %s (%zu sequences, %u tokens): cosine %.6f, then %.6f; largest difference %.5f%s\n",
        ok ? "ok" : "not ok", name, w->b.sequences, w->starts[w->b.sequences], g.cosine, h.cosine,
        fmax(g.largest, h.largest), same ? "" : "; the second run has other bits");
    fflush(stdout);
    failed += !ok;
    free(a);
    free(once);
    free(again);
}

static void check(struct eng *cpu, struct eng *gpu, double min)
{
    static const struct {
        const char *name;
        size_t lengths[8]; /* then 0 */
        size_t more;       /* sequences of the corpus' lengths */
        enum eng_want want;
    } rows[] = {
        { "one token", { 1 }, 0, ENG_VECTORS },
        { "one short text", { 32 }, 0, ENG_VECTORS },
        { "tokens of short texts", { 7, 1, 33 }, 0, ENG_TOKENS },
        { "64 rows", { 40, 24 }, 0, ENG_VECTORS },
        { "around a tile", { 63, 64, 65, 1 }, 0, ENG_TOKENS },
        { "long and short", { 512, 3 }, 0, ENG_TOKENS },
        { "a graph of 2048", { 130, 129, 257 }, 10, ENG_VECTORS },
        { "without a graph", { 511, 2 }, 20, ENG_VECTORS },
    };
    const struct model *m = cpu->model;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        enum eng_want want = rows[i].want;
        struct words w;

        words_new(&w);
        for (size_t k = 0; rows[i].lengths[k]; k++)
            words_add(&w, m, rows[i].lengths[k]);
        for (size_t k = 0; k < rows[i].more; k++)
            words_add(&w, m, corpus_length());
        if (want == ENG_VECTORS && m->head != MODEL_HEAD_NONE)
            want = ENG_SCORES;
        check_batch(cpu, gpu, &w, rows[i].name, want, min);
        words_free(&w);
    }
}

/* The first text's bits alone, then with others. */
static void check_invariant(struct eng *gpu, enum eng_want want)
{
    size_t width = eng_width(gpu->model, want);
    struct words w;
    float *alone, *beside;
    double worst = 1;
    bool same = true;

    words_new(&w);
    words_add(&w, gpu->model, 37);
    alone = run(gpu, &w.b, want);
    for (size_t more = 1; more < 60; more = more * 2 + 3) {
        for (size_t i = 0; i < more; i++)
            words_add(&w, gpu->model, corpus_length());
        beside = run(gpu, &w.b, want);
        same = same && memcmp(alone, beside, width * sizeof(*alone)) == 0;
        worst = fmin(worst, compare(alone, beside, 1, width).cosine);
        free(beside);
    }
    printf("# alone and in batches: %s bits, cosine %.7f\n", same ? "the same" : "other", worst);
    free(alone);
    words_free(&w);
}

/* ---- timing ---- */
static double operations(const struct model *m, const struct words *w)
{
    double wide = (double)(m->heads * m->head_dim), hidden = (double)m->hidden, sum = 0;
    double linear = 2 * (4 * wide * hidden + 2 * hidden * (double)m->ffn);

    for (size_t s = 0; s < w->b.sequences; s++) {
        double n = w->starts[s + 1] - w->starts[s];

        sum += n * (double)m->layers * (linear + 4 * n * wide);
    }
    return sum;
}

/* With STOKER_CUDA_PROFILE=1: what each step took, of all layers. */
static void say_profile(const struct eng *e)
{
    static const char *const names[] = { "embed", "qkv",  "attention", "o",   "norm",
                                         "ffn1",  "ffn2", "norm",      "tail" };
    const char *dir = getenv("STOKER_PLUGIN_DIR");
    bool (*profile)(const struct eng *, double *) = NULL;
    double ms[STOKER_CUDA_STEPS];
    char path[1024];
    void *so;

    (void)snprintf(path, sizeof(path), "%s/stoker-cuda.so", dir ? dir : "build");
    so = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (so)
        *(void **)&profile = dlsym(so, "stoker_cuda_profile");
    if (!profile || !profile(e, ms))
        return;
    printf("#  ");
    for (size_t i = 0; i < STOKER_CUDA_STEPS; i++)
        printf(" %s %.3f", names[i], ms[i]);
    printf(" ms\n");
}

static void time_batch(struct eng *e, const struct words *w, const char *name, size_t times)
{
    enum eng_want want = e->model->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES;
    double device[TIMES_MAX], host[TIMES_MAX], d, h;
    double tokens = w->starts[w->b.sequences];

    times = times < TIMES_MAX ? times : TIMES_MAX;
    for (size_t i = 0; i < times + 3; i++) {
        double begun = now_ms();
        float *out = run(e, &w->b, want);

        if (i >= 3) {
            host[i - 3] = now_ms() - begun;
            device[i - 3] = e->ops->device_ms ? e->ops->device_ms(e) : NAN;
        }
        free(out);
    }
    d = median(device, times);
    h = median(host, times);
    printf("# %s: device %.4f ms, %.3f Mtok/s, %.0f TFLOP/s; host %.4f ms, %.3f Mtok/s\n", name, d,
           tokens / d / 1e3, operations(e->model, w) / d / 1e9, h, tokens / h / 1e3);
    say_profile(e);
    fflush(stdout);
}

static int longest_first(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x < y) - (x > y);
}

/* Batches of 32768 tokens, the longest texts first, as others are measured. */
static void time_corpus(struct eng *e)
{
    enum eng_want want = e->model->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES;
    size_t *lengths = xcalloc(SEQUENCES_MAX, sizeof(*lengths)), tokens = 0;
    double device = 0, host = 0;

    for (size_t i = 0; i < SEQUENCES_MAX; i++)
        tokens += lengths[i] = corpus_length();
    qsort(lengths, SEQUENCES_MAX, sizeof(*lengths), longest_first);
    for (size_t i = 0; i < SEQUENCES_MAX;) {
        struct words w;
        double begun;

        words_new(&w);
        for (; i < SEQUENCES_MAX && w.starts[w.b.sequences] + lengths[i] <= 32768; i++)
            words_add(&w, e->model, lengths[i]);
        free(run(e, &w.b, want));
        begun = now_ms();
        free(run(e, &w.b, want));
        host += now_ms() - begun;
        device += e->ops->device_ms ? e->ops->device_ms(e) : NAN;
        words_free(&w);
    }
    printf("# corpus of %zu tokens: device %.2f ms, %.3f Mtok/s; host %.2f ms, %.3f Mtok/s\n",
           tokens, device, (double)tokens / device / 1e3, host, (double)tokens / host / 1e3);
    free(lengths);
}

static void time_all(struct eng *e, bool large)
{
    static const struct {
        const char *name;
        size_t sequences, tokens, times;
    } rows[] = {
        { "1 x 32", 1, 32, 200 },     { "1 x 128", 1, 128, 100 },  { "8 x 32", 8, 32, 100 },
        { "16 x 100", 16, 100, 50 },  { "33 x 128", 33, 128, 20 }, { "100 x 128", 100, 128, 10 },
        { "128 x 512", 128, 512, 5 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct words w;

        if (large && rows[i].sequences * rows[i].tokens < 4096)
            continue;
        words_new(&w);
        for (size_t s = 0; s < rows[i].sequences; s++)
            words_add(&w, e->model, rows[i].tokens);
        time_batch(e, &w, rows[i].name, rows[i].times);
        words_free(&w);
    }
    time_corpus(e);
}

static struct eng *load(const struct model *m, const struct eng_opts *o)
{
    struct err err = { 0 };
    struct eng *e = NULL;
    char text[256] = "";
    double begun = now_ms();

    if (eng_load(m, o, &e, &err) != RC_OK) {
        printf("Bail out! %s: %s %s\n", o->device, err.msg, err.hint);
        exit(1);
    }
    e->ops->describe(e, text, sizeof(text));
    printf("# %s: loaded in %.0f ms: %s\n", o->device, now_ms() - begun, text);
    fflush(stdout);
    return e;
}

int main(int argc, char **argv)
{
    struct eng_opts o = { .device = argc > 2 ? argv[2] : "cuda:0", .timed = true };
    const char *parts = argc > 4 ? argv[4] : "check time";
    struct model *m = NULL;
    struct err err = { 0 };
    struct eng *gpu;

    if (argc < 2 || (argc > 3 && !eng_dtype_parse(argv[3], &o.dtype))) {
        fprintf(stderr, "usage: gpu-engine MODEL-DIR [DEVICE [DTYPE [PARTS]]]\n");
        return 2;
    }
    if (model_open(argv[1], &m, &err) != RC_OK) {
        printf("Bail out! %s\n", err.msg);
        return 1;
    }
    o.invariant = strstr(parts, "invariant") != NULL;
    gpu = load(m, &o);
    if (strstr(parts, "check")) {
        struct eng *cpu = load(m, &(struct eng_opts){ .device = "cpu", .dtype = ENG_F32 });

        check(cpu, gpu, o.dtype == ENG_FP8 ? cosine_min_8 : cosine_min_16);
        eng_free(cpu);
    }
    if (strstr(parts, "check") || o.invariant)
        check_invariant(gpu, m->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES);
    if (strstr(parts, "time") || strstr(parts, "large"))
        time_all(gpu, strstr(parts, "large") != NULL);
    eng_free(gpu);
    model_close(m);
    return failed != 0;
}
