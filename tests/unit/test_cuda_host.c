/* SPDX-License-Identifier: MIT */
/* The host side of the CUDA engine (loading, padding, staging, graphs, several passes, fp8,
 * errors) over a GPU that is plain loops on this machine (tests/gpu/fake_gpu.h), against the
 * scalar engine.  Skipped where the CUDA headers are not there to build that. */
#include "test.h"

#include "vectors_box.h"

#include <unistd.h>

static const double half_min = 0.9995, fp8_min = 0.99;

static bool have_fake(void)
{
    const char *build = getenv("BUILD");
    char dir[256], file[300];

    (void)snprintf(dir, sizeof(dir), "%s/tests/plugin/host", build ? build : "build");
    (void)snprintf(file, sizeof(file), "%s/stoker-cuda.so", dir);
    (void)setenv("STOKER_PLUGIN_DIR", dir, 1);
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

TEST_MAIN(cmocka_unit_test(every_model_matches_the_scalar_engine), cmocka_unit_test(fp8_is_near),
          cmocka_unit_test(fp8_short_texts_and_others), cmocka_unit_test(a_batch_of_several_passes),
          cmocka_unit_test(batches_in_two_halves), cmocka_unit_test(weights_go_out_and_come_back),
          cmocka_unit_test(types_and_numbers_that_do_not_exist),
          cmocka_unit_test(memory_that_is_not_there_is_an_error),
          cmocka_unit_test(an_error_that_stays_loses_the_device))
