/* SPDX-License-Identifier: MIT */
/* The host side of the CUDA engine (loading, padding, staging, graphs, several passes, fp8,
 * errors) over a GPU that is plain loops on this machine (tests/gpu/fake_gpu.h), against the
 * scalar engine.  Skipped where the CUDA headers are not there to build that. */
#include "test.h"

#include "vectors_box.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const double half_min = 0.9995, fp8_min = 0.99;

static bool have_fake(void)
{
    const char *build = getenv("BUILD");
    char dir[256], file[300];

    (void)snprintf(dir, sizeof(dir), "%s/tests/plugin/host", build ? build : "build");
    (void)snprintf(file, sizeof(file), "%s/stoker-cuda.so", dir);
    (void)setenv("STOKER_PLUGIN_DIR", dir, 1);
    (void)setenv("STOKER_CUDA_PRODUCTS", "plain", 0); /* measuring takes a while without a GPU */
    if (access(file, R_OK) == 0)
        return true;
    print_message("# skipped: there is no %s\n", file);
    return false;
}

static double least_cosine(const float *a, const float *b, size_t rows, size_t width)
{
    double least = 1;

    for (size_t r = 0; r < rows; r++, a += width, b += width) {
        double ab = 0, aa = 0, bb = 0;

        for (size_t i = 0; i < width; i++) {
            ab += (double)a[i] * (double)b[i];
            aa += (double)a[i] * (double)a[i];
            bb += (double)b[i] * (double)b[i];
        }
        least = fmin(least, ab / sqrt(aa * bb));
    }
    return least;
}

static double largest_gap(const float *a, const float *b, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* ---- batches: the fixture's sequences again and again ---- */
struct big {
    uint32_t *ids, *starts, *skip;
    uint8_t *types;
    struct eng_batch batch;
};

/* `most` tokens of each. */
static void big_make(const struct box *b, size_t sequences, size_t most, struct big *out)
{
    size_t n = 0;

    out->ids = xcalloc(sequences * most, sizeof(uint32_t));
    out->types = xcalloc(sequences * most, 1);
    out->starts = xcalloc(sequences + 1, sizeof(uint32_t));
    out->skip = xcalloc(sequences, sizeof(uint32_t));
    for (size_t s = 0; s < sequences; s++) {
        size_t from = s * 7 % b->batch.sequences, first = b->starts[from];
        size_t len = b->starts[from + 1] - first;

        len = len < most ? len : most;
        memcpy(out->ids + n, b->ids + first, len * sizeof(uint32_t));
        memcpy(out->types + n, b->types + first, len);
        out->skip[s] = b->skip[from];
        n += len;
        out->starts[s + 1] = (uint32_t)n;
    }
    out->batch = (struct eng_batch){ .ids = out->ids,
                                     .types = out->types,
                                     .starts = out->starts,
                                     .skip = out->skip,
                                     .sequences = sequences };
}

static void big_release(struct big *b)
{
    free(b->ids);
    free(b->types);
    free(b->starts);
    free(b->skip);
}

static void compare(struct eng *ref, struct eng *gpu, const struct eng_batch *b, enum eng_want want,
                    double min)
{
    size_t rows = want == ENG_TOKENS ? b->starts[b->sequences] : b->sequences;
    size_t width = eng_width(ref->model, want);
    float *a = box_run(ref, b, want), *g = box_run(gpu, b, want);
    double cosine = width > 1 ? least_cosine(a, g, rows, width) : 1;
    double gap = largest_gap(a, g, rows * width);

    if (!(cosine >= min) || !(gap < (min < half_min ? 0.5 : 0.05)))
        fail_msg("%s: %zu sequences, want %d: cosine %.6f, gap %.4f", ref->model->name,
                 b->sequences, (int)want, cosine, gap);
    free(a);
    free(g);
}

/* Every size of batch twice: the second time a graph replays. */
static void check_model(const char *name, const struct eng_opts *o, double min)
{
    static const size_t sizes[] = { 1, 2, 9, 150, 1 };
    struct box b;
    struct eng *ref, *gpu;
    enum eng_want want;

    box_open(&b, name);
    want = b.model->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES;
    ref = box_load(&b, &(struct eng_opts){ .device = "ref" });
    gpu = box_load(&b, o);
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct big big;

        big_make(&b, sizes[i], BOX_TOKENS_MAX, &big);
        compare(ref, gpu, &big.batch, want, min);
        if (sizes[i] <= 9)
            compare(ref, gpu, &big.batch, want, min);
        if (sizes[i] == 9)
            compare(ref, gpu, &big.batch, ENG_TOKENS, min);
        big_release(&big);
    }
    eng_free(gpu);
    eng_free(ref);
    box_close(&b);
}

TEST(every_model_matches_the_scalar_engine)
{
    if (!have_fake())
        return;
    for (size_t i = 0; i < ARRAY_SIZE(box_names); i++)
        check_model(box_names[i], &(struct eng_opts){ .device = "cuda" }, half_min);
    check_model("xlmr", &(struct eng_opts){ .device = "cuda:0", .dtype = ENG_BF16 }, 0.999);
}

TEST(fp8_is_near)
{
    if (!have_fake())
        return;
    check_model("bert", &(struct eng_opts){ .device = "cuda", .dtype = ENG_FP8 }, fp8_min);
    check_model("mpnet", &(struct eng_opts){ .device = "cuda", .dtype = ENG_FP8 }, fp8_min);
}

/* Short texts and longer ones of one batch run in two passes: each comes back in its place, with
 * the bits it has alone. */
TEST(fp8_short_texts_and_others)
{
    struct box b;
    struct big big;
    struct eng *gpu;
    float *all, *tokens;

    if (!have_fake())
        return;
    box_open(&b, "bert");
    gpu = box_load(&b, &(struct eng_opts){ .device = "cuda", .dtype = ENG_FP8 });
    big_make(&b, 40, BOX_TOKENS_MAX, &big);
    all = box_run(gpu, &big.batch, ENG_VECTORS);
    tokens = box_run(gpu, &big.batch, ENG_TOKENS);
    for (size_t s = 0; s < 40; s++) {
        uint32_t first = big.starts[s], starts[2] = { 0, big.starts[s + 1] - first };
        struct eng_batch one = { .ids = big.ids + first,
                                 .types = big.types + first,
                                 .starts = starts,
                                 .skip = big.skip + s,
                                 .sequences = 1 };
        size_t dim = eng_dim(b.model), hidden = b.model->hidden;
        float *v = box_run(gpu, &one, ENG_VECTORS), *t = box_run(gpu, &one, ENG_TOKENS);

        CHECK(memcmp(v, all + s * dim, dim * sizeof(float)) == 0);
        CHECK(memcmp(t, tokens + first * hidden, starts[1] * hidden * sizeof(float)) == 0);
        free(v);
        free(t);
    }
    free(all);
    free(tokens);
    big_release(&big);
    eng_free(gpu);
    box_close(&b);
}

TEST(a_batch_of_several_passes)
{
    struct box b;
    struct big big;
    struct eng *ref, *gpu;

    if (!have_fake())
        return;
    box_open(&b, "bert");
    ref = box_load(&b, &(struct eng_opts){ .device = "ref" });
    gpu = box_load(&b, &(struct eng_opts){ .device = "cuda" });
    big_make(&b, 17000, 1, &big); /* three passes, by sequences */
    compare(ref, gpu, &big.batch, ENG_VECTORS, half_min);
    big_release(&big);
    eng_free(gpu);
    eng_free(ref);
    box_close(&b);
}

/* Two batches at a time, and one of several passes between them. */
static void check_halves(enum eng_dtype dtype)
{
    static const size_t sizes[] = { 3, 1, 9000, 40, 2, 1 };
    struct box b;
    struct eng *gpu;
    struct err err = { 0 };
    struct big big[ARRAY_SIZE(sizes)];
    float *want[ARRAY_SIZE(sizes)], *got[ARRAY_SIZE(sizes)];
    bool done = false;

    box_open(&b, "bert");
    gpu = box_load(&b, &(struct eng_opts){ .device = "cuda", .dtype = dtype });
    assert_true(eng_can_submit(gpu));
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        big_make(&b, sizes[i], sizes[i] > 40 ? 2 : 7, &big[i]);
        want[i] = box_run(gpu, &big[i].batch, ENG_VECTORS);
        got[i] = xcalloc(sizes[i] * eng_dim(b.model), sizeof(float));
    }
    for (size_t i = 0; i <= ARRAY_SIZE(sizes); i++) {
        if (i < ARRAY_SIZE(sizes))
            assert_int_equal(eng_submit(gpu, &big[i].batch, ENG_VECTORS, got[i], &err), RC_OK);
        if (i == 1)
            assert_int_equal(eng_submit(gpu, &big[0].batch, ENG_VECTORS, got[0], NULL), RC_LIMIT);
        if (i > 0)
            assert_int_equal(
                eng_collect(gpu, &big[i - 1].batch, ENG_VECTORS, got[i - 1], &done, &err), RC_OK);
        if (i > 0)
            CHECK(done && memcmp(want[i - 1], got[i - 1],
                                 sizes[i - 1] * eng_dim(b.model) * sizeof(float)) == 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        big_release(&big[i]);
        free(want[i]);
        free(got[i]);
    }
    eng_free(gpu);
    box_close(&b);
}

TEST(batches_in_two_halves)
{
    if (!have_fake())
        return;
    check_halves(ENG_F16);
    check_halves(ENG_FP8);
}

static void check_swap(enum eng_dtype dtype)
{
    struct box b;
    struct eng *gpu;
    float *before, *after;

    box_open(&b, "xlmr");
    gpu = box_load(&b, &(struct eng_opts){ .device = "cuda", .dtype = dtype });
    before = box_run(gpu, &b.batch, ENG_VECTORS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gpu->ops->swap_out(gpu, NULL), RC_OK);
        assert_int_equal(gpu->ops->swap_out(gpu, NULL), RC_OK);
        assert_int_equal(gpu->ops->swap_in(gpu, NULL), RC_OK);
        after = box_run(gpu, &b.batch, ENG_VECTORS);
        CHECK(memcmp(before, after, b.batch.sequences * eng_dim(b.model) * sizeof(float)) == 0);
        free(after);
    }
    free(before);
    eng_free(gpu);
    box_close(&b);
}

TEST(weights_go_out_and_come_back)
{
    if (!have_fake())
        return;
    check_swap(ENG_F16);
    check_swap(ENG_FP8);
}

TEST(types_and_numbers_that_do_not_exist)
{
    static const enum eng_dtype refused[] = { ENG_F32, ENG_I8 };
    struct box b;
    struct eng *e = NULL;

    if (!have_fake())
        return;
    box_open(&b, "bert");
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        struct eng_opts o = { .device = "cuda", .dtype = refused[i] };
        struct err err = { 0 };

        assert_int_equal(eng_load(b.model, &o, &e, &err), RC_USAGE);
        CHECK(strstr(err.msg, eng_dtype_name(refused[i])) && err.hint[0]);
    }
    struct err err = { 0 };
    assert_int_equal(eng_load(b.model, &(struct eng_opts){ .device = "cuda:1" }, &e, &err),
                     RC_NODEV);
    box_close(&b);
}

TEST(memory_that_is_not_there_is_an_error)
{
    struct box b;
    struct eng *e = NULL;
    struct err err = { 0 };

    if (!have_fake())
        return;
    box_open(&b, "bert");
    (void)setenv("FAKE_GPU_BYTES", "6291456", 1);
    assert_int_equal(eng_load(b.model, &(struct eng_opts){ .device = "cuda" }, &e, &err), RC_LIMIT);
    CHECK(strstr(err.msg, "bytes were asked"));
    (void)unsetenv("FAKE_GPU_BYTES");
    e = box_load(&b, &(struct eng_opts){ .device = "cuda" });
    eng_free(e);
    box_close(&b);
}

/* ---- which product is the fastest, and the file that keeps it ---- */
enum {
    CHOICES = 24,    /* of a model */
    CHOICES_LT = 12, /* of them those that cuBLASLt may win: without GELU, from 256 rows on */
    CHOICES_TEXT = 1 << 16
};

struct cache {
    char folder[64], file[400], lib[80]; /* lib: what plays cuBLASLt */
};

static void cache_open(struct cache *c)
{
    *c = (struct cache){ .folder = "/tmp/stoker-choices-XXXXXX" };
    assert_non_null(mkdtemp(c->folder));
    (void)setenv("STOKER_CACHE", c->folder, 1);
}

/* A library of so many bytes that takes `us` for a product. */
static void cache_library(struct cache *c, size_t bytes, const char *us)
{
    FILE *f;

    (void)snprintf(c->lib, sizeof(c->lib), "%s.so", c->folder);
    f = fopen(c->lib, "wb");
    assert_non_null(f);
    for (size_t i = 0; i < bytes; i++)
        (void)fputc('x', f);
    (void)fclose(f);
    (void)setenv("FAKE_LT", c->lib, 1);
    (void)setenv("FAKE_LT_US", us, 1);
}

/* Files there; the path of the last in c->file. */
static size_t cache_files(struct cache *c)
{
    DIR *d = opendir(c->folder);
    size_t n = 0;

    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') {
            (void)snprintf(c->file, sizeof(c->file), "%s/%s", c->folder, e->d_name);
            n++;
        }
    if (d)
        (void)closedir(d);
    return n;
}

static void cache_text(struct cache *c, char out[CHOICES_TEXT])
{
    FILE *f;
    size_t n;

    assert_int_equal(cache_files(c), 1);
    f = fopen(c->file, "rb");
    assert_non_null(f);
    n = fread(out, 1, CHOICES_TEXT - 1, f);
    out[n] = '\0';
    (void)fclose(f);
}

static void cache_put(const struct cache *c, const char *text, size_t len)
{
    FILE *f = fopen(c->file, "wb");

    assert_non_null(f);
    CHECK(fwrite(text, 1, len, f) == len && fclose(f) == 0);
}

static void cache_close(struct cache *c)
{
    static const char *const ours[] = { "FAKE_LT", "FAKE_LT_US", "FAKE_SPLIT90_US",
                                        "FAKE_SKINNY_US", "STOKER_CACHE" };

    while (cache_files(c))
        CHECK(unlink(c->file) == 0);
    CHECK(rmdir(c->folder) == 0);
    if (c->lib[0])
        (void)unlink(c->lib);
    for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
        (void)unsetenv(ours[i]);
}

/* With a GPU that computes nothing while it is measured. */
static struct eng *load_choosing(const struct box *b, const struct eng_opts *o)
{
    struct eng *e;

    (void)setenv("STOKER_CUDA_PRODUCTS", "all", 1);
    (void)setenv("FAKE_GPU_IDLE", "1", 1);
    e = box_load(b, o);
    (void)unsetenv("FAKE_GPU_IDLE");
    (void)setenv("STOKER_CUDA_PRODUCTS", "plain", 1);
    return e;
}

/* Choices whose line has that word in it. */
static size_t choices_with(const struct eng *e, const char *word)
{
    char line[256];
    size_t n = 0;

    for (size_t i = 0; e->ops->choice(e, i, line, sizeof(line)); i++)
        n += strstr(line, word) != NULL;
    return n;
}

static size_t choices_loaded(const struct box *b, const char *word)
{
    struct eng *e = load_choosing(b, &(struct eng_opts){ .device = "cuda" });
    size_t n = choices_with(e, word);

    eng_free(e);
    return n;
}

/* Passes of several buckets, twice each: launched, then replayed. */
static void compare_buckets(const struct box *b, struct eng *gpu)
{
    static const size_t sizes[] = { 6, 12, 40, 90, 12 };
    struct eng *ref = box_load(b, &(struct eng_opts){ .device = "ref" });

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        struct big big;

        big_make(b, sizes[i], BOX_TOKENS_MAX, &big);
        compare(ref, gpu, &big.batch, ENG_VECTORS, half_min);
        compare(ref, gpu, &big.batch, ENG_VECTORS, half_min);
        big_release(&big);
    }
    eng_free(ref);
}

/* The first test: a GPU has its name for the life of a process. */
TEST(another_gpu_has_another_file)
{
    struct cache cache;
    struct box b;
    int status = -1;
    pid_t child;

    if (!have_fake())
        return;
    cache_open(&cache);
    box_open(&b, "bert");
    child = fork();
    if (child == 0) {
        (void)setenv("FAKE_GPU_NAME", "Fake/B300", 1);
        _exit(choices_loaded(&b, ": sm90") == CHOICES ? 0 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cache_files(&cache) == 1 && strstr(cache.file, "/cuda-Fake_B300-13000"));
    CHECK(choices_loaded(&b, ": sm90") == CHOICES && cache_files(&cache) == 2);
    box_close(&b);
    cache_close(&cache);
}

TEST(choices_are_kept_and_read_again)
{
    static char first[CHOICES_TEXT], again[CHOICES_TEXT];
    struct cache cache;
    struct box b;
    struct eng *e;

    if (!have_fake())
        return;
    cache_open(&cache);
    box_open(&b, "bert");
    cache_library(&cache, 10, "5");
    e = load_choosing(&b, &(struct eng_opts){ .device = "cuda" });
    CHECK(choices_with(e, ": cublaslt, 5.00 us") == CHOICES_LT);
    cache_text(&cache, first);
    CHECK(strstr(first, " lt 5.00 0000000000000042 0000000000000000"));
    CHECK(strstr(first, "\nlibrary 000000000000000a ") && strstr(first, cache.lib));
    compare_buckets(&b, e);
    eng_free(e);
    (void)setenv("FAKE_LT_US", "100", 1); /* what is known is not measured again */
    CHECK(choices_loaded(&b, ": cublaslt, 5.00 us") == CHOICES_LT);
    cache_text(&cache, again);
    CHECK(strcmp(first, again) == 0);
    cache_library(&cache, 11, "100"); /* another version of it */
    CHECK(choices_loaded(&b, ": sm90, 10.00 us") == CHOICES);
    cache_text(&cache, again);
    CHECK(strstr(again, "\nlibrary 000000000000000b ") && !strstr(again, " lt "));
    (void)setenv("FAKE_LT_US", "5", 1); /* it is the same, so nothing is measured */
    CHECK(choices_loaded(&b, ": sm90, 10.00 us") == CHOICES);
    (void)unlink(cache.lib); /* it is gone, and comes again */
    (void)unsetenv("FAKE_LT");
    CHECK(choices_loaded(&b, ": sm90") == CHOICES);
    cache_text(&cache, again);
    CHECK(strstr(again, "\nlibrary none\n"));
    cache_library(&cache, 10, "5");
    CHECK(choices_loaded(&b, ": cublaslt, 5.00 us") == CHOICES_LT);
    box_close(&b);
    cache_close(&cache);
}

TEST(a_damaged_file_is_measured_anew)
{
    static char text[CHOICES_TEXT], again[CHOICES_TEXT];
    struct cache cache;
    struct box b;
    size_t len;

    if (!have_fake())
        return;
    cache_open(&cache);
    box_open(&b, "bert");
    CHECK(choices_loaded(&b, ": sm90") == CHOICES);
    cache_text(&cache, text);
    len = strlen(text);
    (void)setenv("FAKE_SPLIT90_US", "1", 1); /* which shows that it was measured */
    for (size_t i = 0; i < 4; i++) {
        static const size_t cuts[] = { 0, 30, 200 };
        char was = text[len / 2];

        text[len / 2] = i == 3 ? '7' + (was == '7') : was;
        cache_put(&cache, text, i == 3 ? len : cuts[i]);
        text[len / 2] = was;
        CHECK(choices_loaded(&b, ": split in ") == CHOICES);
        cache_text(&cache, again);
        CHECK(strstr(again, " split90 ") && strlen(again) > len);
    }
    box_close(&b);
    cache_close(&cache);
}

TEST(a_product_in_parts)
{
    struct cache cache;
    struct box b;
    struct eng *e;

    if (!have_fake())
        return;
    cache_open(&cache);
    box_open(&b, "xlmr");
    (void)setenv("FAKE_SPLIT90_US", "1", 1);
    e = load_choosing(&b, &(struct eng_opts){ .device = "cuda" });
    CHECK(choices_with(e, ": split in ") > CHOICES / 2);
    compare_buckets(&b, e);
    eng_free(e);
    cache_files(&cache);
    CHECK(unlink(cache.file) == 0);
    (void)setenv("FAKE_SKINNY_US", "0.5", 1); /* where there are few rows */
    e = load_choosing(&b, &(struct eng_opts){ .device = "cuda" });
    CHECK(choices_with(e, ": skinny, 0.50 us") == 4);
    compare_buckets(&b, e);
    eng_free(e);
    box_close(&b);
    cache_close(&cache);
}

/* A disk without room: every load measures, and says why. */
TEST(choices_that_cannot_be_written)
{
    struct rlimit was, none;
    struct cache cache;
    struct box b;

    if (!have_fake())
        return;
    cache_open(&cache);
    box_open(&b, "bert");
    CHECK(getrlimit(RLIMIT_FSIZE, &was) == 0 && signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    none = was;
    none.rlim_cur = 0;
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    size_t told = choices_loaded(&b, "measured at every load: could not write");
    CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0 && signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
    CHECK(told == 1 && cache_files(&cache) == 0);
    (void)setenv("STOKER_CACHE", "/proc/none", 1);
    CHECK(choices_loaded(&b, "measured at every load: could not make the folder") == 1);
    box_close(&b);
    cache_close(&cache);
}

/* What it was chosen for does not work any more: our own kernels then. */
TEST(a_library_that_fails_later)
{
    struct cache cache;
    struct box b;
    struct eng *e;

    if (!have_fake())
        return;
    cache_open(&cache);
    box_open(&b, "bert");
    cache_library(&cache, 10, "5");
    e = load_choosing(&b, &(struct eng_opts){ .device = "cuda" });
    CHECK(choices_with(e, ": cublaslt") == CHOICES_LT);
    (void)setenv("FAKE_LT_FAILS", "1", 1);
    compare_buckets(&b, e);
    (void)unsetenv("FAKE_LT_FAILS");
    CHECK(choices_with(e, ": cublaslt") < CHOICES_LT);
    eng_free(e);
    box_close(&b);
    cache_close(&cache);
}

TEST(the_same_bits_leave_nothing_to_choose)
{
    const struct eng_opts opts[] = { { .device = "cuda", .invariant = true },
                                     { .device = "cuda", .dtype = ENG_BF16 },
                                     { .device = "cuda", .dtype = ENG_FP8 } };
    struct cache cache;
    struct box b;

    if (!have_fake())
        return;
    cache_open(&cache);
    box_open(&b, "bert");
    cache_library(&cache, 10, "5");
    for (size_t i = 0; i < ARRAY_SIZE(opts); i++) {
        struct eng *e = NULL;

        (void)setenv("STOKER_CUDA_PRODUCTS", "all", 1);
        e = box_load(&b, &opts[i]);
        (void)setenv("STOKER_CUDA_PRODUCTS", "plain", 1);
        CHECK(choices_with(e, "") == 0 && cache_files(&cache) == 0);
        eng_free(e);
    }
    box_close(&b);
    cache_close(&cache);
}

/* The last test: the fake GPU is lost to this process. */
TEST(an_error_that_stays_loses_the_device)
{
    struct box b;
    struct err err = { 0 };
    struct eng *e;
    float out[64 * BOX_SEQUENCES_MAX];

    if (!have_fake())
        return;
    box_open(&b, "bert");
    e = box_load(&b, &(struct eng_opts){ .device = "cuda" });
    (void)setenv("FAKE_GPU_FAILS", "1", 1);
    assert_int_equal(eng_run(e, &b.batch, ENG_VECTORS, out, &err), RC_NODEV);
    CHECK(strstr(err.msg, "illegal memory access") && strstr(err.msg, "lost"));
    err = (struct err){ 0 };
    assert_int_equal(eng_run(e, &b.batch, ENG_VECTORS, out, &err), RC_NODEV);
    CHECK(strstr(err.msg, "lost"));
    eng_free(e);
    box_close(&b);
}

TEST_MAIN(cmocka_unit_test(another_gpu_has_another_file),
          cmocka_unit_test(every_model_matches_the_scalar_engine), cmocka_unit_test(fp8_is_near),
          cmocka_unit_test(fp8_short_texts_and_others), cmocka_unit_test(a_batch_of_several_passes),
          cmocka_unit_test(batches_in_two_halves), cmocka_unit_test(weights_go_out_and_come_back),
          cmocka_unit_test(types_and_numbers_that_do_not_exist),
          cmocka_unit_test(memory_that_is_not_there_is_an_error),
          cmocka_unit_test(choices_are_kept_and_read_again),
          cmocka_unit_test(a_damaged_file_is_measured_anew), cmocka_unit_test(a_product_in_parts),
          cmocka_unit_test(choices_that_cannot_be_written),
          cmocka_unit_test(a_library_that_fails_later),
          cmocka_unit_test(the_same_bits_leave_nothing_to_choose),
          cmocka_unit_test(an_error_that_stays_loses_the_device))
