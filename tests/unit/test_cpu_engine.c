/* SPDX-License-Identifier: MIT */
/* The fast CPU engine on whole models: against the outputs of the Python reference, against
 * the scalar engine, and against itself in other batches, with other threads.
 *
 * STOKER_TEST_MODEL names a real model directory for the tests that want one. */
#include "test.h"

#include "engine/cpu/cpu_net_int.h"
#include "vectors_box.h"

#include <unistd.h>

static const double vector_max = 2e-5, score_max = 1e-4, half_min = 0.9995, bytes_min = 0.99;

static struct eng *load(const struct model *m, const struct eng_opts *o)
{
    struct err err = { 0 };
    struct eng *e = NULL;

    if (eng_cpu.load(m, o, &e, &err) != RC_OK)
        fail_msg("%s", err.msg);
    return e;
}

static enum eng_want what(const struct box *b)
{
    return b->model->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES;
}

/* Calls `check` for every tiny model, instruction set and type. */
static void for_each(void (*check)(const struct box *b, const struct eng_opts *o))
{
    for (size_t i = 0; i < ARRAY_SIZE(box_names); i++) {
        struct box b;
        box_open(&b, box_names[i]);
        for (enum cpu_isa isa = CPU_AVX2; isa <= cpu_isa_best(); isa++)
            for (enum eng_dtype t = ENG_AUTO; t <= ENG_I8; t++)
                check(&b, &(struct eng_opts){
                              .dtype = t, .isa = cpu_isa_name(isa), .threads = 1 + (int)(i % 3) });
        box_close(&b);
    }
}

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Token vectors of the scalar engine and of this one. */
static void check_tokens(const struct box *b, const struct eng_opts *o)
{
    struct eng *ref = box_load(b, &(struct eng_opts){ .device = "ref" }), *e = load(b->model, o);
    size_t hidden = b->model->hidden, tokens = b->starts[b->batch.sequences];
    float *want = box_run(ref, &b->batch, ENG_TOKENS), *got = box_run(e, &b->batch, ENG_TOKENS);
    float *end_want = box_run(ref, &b->batch, what(b)), *end_got = box_run(e, &b->batch, what(b));
    size_t width = eng_width(b->model, what(b));
    enum eng_dtype t = ((struct cpu_net *)e)->dtype;

    for (size_t i = 0; i < tokens; i++)
        if (t != ENG_F32)
            CHECK(cosine(got + i * hidden, want + i * hidden, hidden) > 0.99);
    for (size_t i = 0; t == ENG_F32 && i < tokens * hidden; i++)
        CHECK(fabsf(got[i] - want[i]) <= 2e-5f);
    for (size_t s = 0; s < b->batch.sequences; s++) {
        const float *x = end_got + s * width, *y = end_want + s * width;
        for (size_t i = 0; t == ENG_F32 && i < width; i++)
            CHECK(fabs((double)x[i] - (double)y[i]) <=
                  (what(b) == ENG_SCORES ? score_max : vector_max));
        if (what(b) == ENG_VECTORS && t != ENG_F32)
            CHECK(cosine(x, y, width) >= (t == ENG_BF16 ? half_min : bytes_min));
    }
    free(want);
    free(got);
    free(end_want);
    free(end_got);
    eng_free(ref);
    eng_free(e);
}

TEST(every_type_matches_the_scalar_engine)
{
    for_each(check_tokens);
}

static void check_invariance(const struct box *b, const struct eng_opts *o)
{
    struct eng *e = load(b->model, o);

    box_check_invariance(b, e, what(b));
    eng_free(e);
}

TEST(bits_do_not_depend_on_the_batch)
{
    for_each(check_invariance);
}

/* Many sequences of a model, more than fit one span. */
enum { MANY = 24, MANY_LONGEST = 62 };
struct many {
    uint32_t ids[MANY * MANY_LONGEST], starts[MANY + 1], skip[MANY];
};

static void many_fill(struct many *w, const struct model *m)
{
    w->starts[0] = 0;
    for (size_t s = 0; s < MANY; s++) {
        w->starts[s + 1] = w->starts[s] + 1 + (uint32_t)(s * 37 % MANY_LONGEST);
        w->skip[s] = (uint32_t)(s % 5);
        for (size_t i = w->starts[s]; i < w->starts[s + 1]; i++)
            w->ids[i] = (uint32_t)(i * 2654435761u >> 8) % (uint32_t)m->vocab;
    }
}

/* Batches of `size` sequences, in their order or from the last one on: rows as `out` has them. */
static void many_run(const struct many *w, struct eng *e, size_t size, bool back, float *out)
{
    enum eng_want want = e->model->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES;
    size_t width = eng_width(e->model, want);

    for (size_t first = 0; first < MANY; first += size) {
        size_t n = MANY - first < size ? MANY - first : size;
        uint32_t ids[MANY * MANY_LONGEST], starts[MANY + 1] = { 0 }, skip[MANY];
        struct eng_batch b = { .ids = ids, .starts = starts, .sequences = n, .skip = skip };
        float *got;

        for (size_t i = 0; i < n; i++) {
            size_t s = back ? MANY - 1 - first - i : first + i;
            size_t len = w->starts[s + 1] - w->starts[s];
            memcpy(ids + starts[i], w->ids + w->starts[s], len * sizeof(*ids));
            starts[i + 1] = starts[i] + (uint32_t)len;
            skip[i] = w->skip[s];
        }
        got = box_run(e, &b, want);
        for (size_t i = 0; i < n; i++) {
            size_t s = back ? MANY - 1 - first - i : first + i;
            memcpy(out + s * width, got + i * width, width * sizeof(*out));
        }
        free(got);
    }
}

static void check_threads(const struct box *b, const struct eng_opts *o)
{
    static const size_t sizes[] = { MANY, 1, 7 };
    size_t floats = MANY * eng_width(b->model, what(b));
    float *first = xcalloc(floats, sizeof(*first)), *got = xcalloc(floats, sizeof(*got));
    struct many w;

    if (o->dtype == ENG_AUTO) { /* it is one of the others */
        free(first);
        free(got);
        return;
    }
    many_fill(&w, b->model);
    for (int threads = 1; threads <= 4; threads++) {
        struct eng_opts mine = { .dtype = o->dtype, .isa = o->isa, .threads = threads };
        struct eng *e = load(b->model, &mine);
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
            many_run(&w, e, sizes[i], i % 2, threads == 1 && i == 0 ? first : got);
            if (threads > 1 || i > 0)
                assert_memory_equal(got, first, floats * sizeof(*got));
        }
        eng_free(e);
    }
    free(first);
    free(got);
}

/* Alone, by a team, in spans and batches of many sizes, in another order. */
TEST(bits_do_not_depend_on_threads_or_spans)
{
    for_each(check_threads);
}

TEST(bad_options_are_refused)
{
    static const struct {
        struct eng_opts o;
        enum rc rc;
    } rows[] = {
        { { .isa = "sse9" }, RC_USAGE },
        { { .threads = -1 }, RC_USAGE },
        { { .threads = CPU_THREADS_MAX + 1 }, RC_USAGE },
        { { .dtype = ENG_F16 }, RC_USAGE }, /* for GPUs */
        { { .dtype = ENG_FP8 }, RC_USAGE },
    };
    struct box b;

    box_open(&b, "bert");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct eng *e = NULL;
        struct err err = { 0 };
        CHECK(eng_cpu.load(b.model, &rows[i].o, &e, &err) == rows[i].rc);
        CHECK(!e && err.msg[0]);
        CHECK(eng_cpu.memory(b.model, &rows[i].o) == 0);
    }
    if (cpu_isa_best() < CPU_AMX) {
        struct eng *e = NULL;
        CHECK(eng_cpu.load(b.model, &(struct eng_opts){ .isa = "amx" }, &e, NULL) == RC_NODEV);
    }
    box_close(&b);
}

/* What it says it will take is what it cuts from its blocks. */
static void check_memory(const struct box *b, const struct eng_opts *o)
{
    struct eng *e = load(b->model, o);
    const struct cpu_net *n = (const struct cpu_net *)e;
    char text[64];

    CHECK(eng_cpu.memory(b->model, o) ==
          n->weights_size + n->scratch_size + eng_tail_bytes(b->model));
    CHECK(n->weights.used <= n->weights_size && n->scratch.used <= n->scratch_size);
    eng_cpu.describe(e, text, sizeof(text));
    CHECK(strstr(text, o->isa) == text && strstr(text, "thread"));
    eng_free(e);
}

TEST(memory_is_what_was_said)
{
    for_each(check_memory);
}

static double resident(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    char line[128] = "", *end;

    assert_non_null(f);
    assert_non_null(fgets(line, sizeof(line), f));
    fclose(f);
    (void)strtod(line, &end);
    return strtod(end, NULL) * (double)sysconf(_SC_PAGESIZE);
}

/* After batches that fill every room, the process has grown by what was said. */
TEST(a_real_model_takes_the_memory_that_was_said)
{
    const char *dir = getenv("STOKER_TEST_MODEL");
    struct model *m = NULL;
    enum { SEQUENCES = 16, LEN = 500 };
    static uint32_t ids[SEQUENCES * LEN], starts[SEQUENCES + 1];

    if (!dir || model_open(dir, &m, NULL) != RC_OK || eng_tokens_max(m) < LEN) {
        printf("# skipped: STOKER_TEST_MODEL names no model of %d tokens\n", LEN);
        model_close(m);
        return;
    }
    for (size_t i = 0; i < SEQUENCES * LEN; i++)
        ids[i] = (uint32_t)(i * 2654435761u >> 8) % (uint32_t)m->vocab;
    for (size_t s = 0; s <= SEQUENCES; s++)
        starts[s] = (uint32_t)(s * LEN);
    for (enum eng_dtype t = ENG_F32; t <= ENG_I8; t++) {
        struct eng_opts o = { .dtype = t, .threads = 2 };
        double before = resident(), said = (double)eng_cpu.memory(m, &o), grown;
        struct eng *e = load(m, &o);
        struct eng_batch all = { .ids = ids, .starts = starts, .sequences = SEQUENCES };
        free(box_run(e, &all, ENG_VECTORS));
        grown = resident() - before;
        printf("# %d: said %.1f MB, grown by %.1f MB\n", (int)t, said * 1e-6, grown * 1e-6);
        CHECK(fabs(grown / said - 1) < 0.05);
        eng_free(e);
    }
    model_close(m);
}

TEST_MAIN(cmocka_unit_test(every_type_matches_the_scalar_engine),
          cmocka_unit_test(bits_do_not_depend_on_the_batch),
          cmocka_unit_test(bits_do_not_depend_on_threads_or_spans),
          cmocka_unit_test(bad_options_are_refused), cmocka_unit_test(memory_is_what_was_said),
          cmocka_unit_test(a_real_model_takes_the_memory_that_was_said))
