/* SPDX-License-Identifier: MIT */
/* vectors_box: the tiny models below tests/fixtures/models and what the reference makes of
 * them (tests/parity/vectors.py wrote both), for tests of any device. */
#ifndef TESTS_VECTORS_BOX_H
#define TESTS_VECTORS_BOX_H
#include "base/mem.h"
#include "base/text/json.h"
#include "engine/engine.h"

#include <math.h>

enum { BOX_FILE_MAX = 1 << 20, BOX_SEQUENCES_MAX = 16, BOX_TOKENS_MAX = 1024 };

static const char *const box_names[] = {
    "bert",        "bert-dense", "bert-joined",      "bert-score",
    "xlmr",        "xlmr-score", "roberta-score",    "mpnet",
    "mpnet-score", "distilbert", "distilbert-score",
};

struct box {
    struct arena arena;
    struct model *model;
    const struct json *doc; /* expected.json */
    uint32_t ids[BOX_TOKENS_MAX];
    uint8_t types[BOX_TOKENS_MAX];
    uint32_t starts[BOX_SEQUENCES_MAX + 1], skip[BOX_SEQUENCES_MAX];
    struct eng_batch batch; /* every sequence of the fixture */
};

static inline const struct json *box_read(struct arena *a, const char *path)
{
    char *text = xmalloc(BOX_FILE_MAX);
    FILE *f = fopen(path, "re");
    struct json *doc = NULL;
    size_t len;

    assert_non_null(f);
    len = fread(text, 1, BOX_FILE_MAX, f);
    fclose(f);
    assert_int_equal(json_parse(a, text, len, &doc, NULL), RC_OK);
    free(text);
    return doc;
}

static inline void box_sequences(struct box *b)
{
    const struct json *types = json_get(b->doc, "types")->first;
    size_t n = 0, s = 0;

    for (const struct json *q = json_get(b->doc, "ids")->first; q; q = q->next) {
        const struct json *t = types->first;

        assert_true(s < BOX_SEQUENCES_MAX && n + q->count <= BOX_TOKENS_MAX);
        for (const struct json *i = q->first; i; i = i->next, t = t->next) {
            b->ids[n] = (uint32_t)json_num(i, -1);
            b->types[n++] = (uint8_t)json_num(t, 255);
        }
        b->skip[s] = (uint32_t)json_num(json_get(b->doc, "skip"), 0);
        b->starts[++s] = (uint32_t)n;
        types = types->next;
    }
    b->batch = (struct eng_batch){
        .ids = b->ids, .types = b->types, .starts = b->starts, .sequences = s, .skip = b->skip
    };
}

static inline void box_open(struct box *b, const char *name)
{
    struct err err = { 0 };
    char path[256];

    *b = (struct box){ 0 };
    (void)snprintf(path, sizeof(path), "tests/fixtures/models/%s", name);
    if (model_open(path, &b->model, &err) != RC_OK)
        fail_msg("%s", err.msg);
    (void)snprintf(path, sizeof(path), "tests/fixtures/models/%s/expected.json", name);
    b->doc = box_read(&b->arena, path);
    box_sequences(b);
}

static inline void box_close(struct box *b)
{
    model_close(b->model);
    arena_release(&b->arena);
}

static inline struct eng *box_load(const struct box *b, const struct eng_opts *o)
{
    struct err err = { 0 };
    struct eng *e = NULL;

    if (eng_load(b->model, o, &e, &err) != RC_OK)
        fail_msg("%s", err.msg);
    return e;
}

/* Owned by the caller; [rows][eng_width()]. */
static inline float *box_run(struct eng *e, const struct eng_batch *b, enum eng_want want)
{
    size_t rows = want == ENG_TOKENS ? b->starts[b->sequences] : b->sequences;
    float *out = xcalloc(rows * eng_width(e->model, want), sizeof(*out));
    struct err err = { 0 };

    if (eng_run(e, b, want, out, &err) != RC_OK)
        fail_msg("%s", err.msg);
    return out;
}

/* Largest difference between `got` and the rows of the fixture. */
static inline double box_diff(const float *got, const struct json *rows, size_t width)
{
    double worst = 0;

    for (const struct json *row = rows->first; row; row = row->next) {
        assert_int_equal(row->count, width);
        for (const struct json *x = row->first; x; x = x->next)
            worst = fmax(worst, fabs((double)*got++ - json_num(x, NAN)));
    }
    assert_true(rows->count > 0);
    return worst;
}

/* Least cosine between the rows of `got` and those of the fixture, for the smaller types. */
static inline double box_cosine(const float *got, const struct json *rows, size_t width)
{
    double least = 1;

    for (const struct json *row = rows->first; row; row = row->next) {
        double ab = 0, aa = 0, bb = 0;

        assert_int_equal(row->count, width);
        for (const struct json *x = row->first; x; x = x->next, got++) {
            ab += (double)*got * json_num(x, NAN);
            aa += (double)*got * (double)*got;
            bb += json_num(x, NAN) * json_num(x, NAN);
        }
        least = fmin(least, ab / sqrt(aa * bb));
    }
    return least;
}

/* "cls" or, where the model joins vectors, "cls+mean": the first of them. */
static inline void box_pool_set(struct box *b, const char *name)
{
    static const struct {
        const char *name;
        enum model_pool pool;
    } pools[] = {
        { "mean", MODEL_POOL_MEAN },
        { "cls", MODEL_POOL_CLS },
        { "max", MODEL_POOL_MAX },
        { "lasttoken", MODEL_POOL_LAST },
        { "mean_sqrt_len_tokens", MODEL_POOL_MEAN_SQRT },
        { "weightedmean", MODEL_POOL_WEIGHTED },
    };

    for (size_t i = 0; i < ARRAY_SIZE(pools); i++)
        if (!strncmp(pools[i].name, name, strcspn(name, "+")) &&
            !pools[i].name[strcspn(name, "+")]) {
            b->model->pool = pools[i].pool;
            return;
        }
    fail_msg("no pooling '%s'", name);
}

/* The same bits for every sequence alone, in the whole batch and in the batch reversed. */
static inline void box_check_invariance(const struct box *b, struct eng *e, enum eng_want want)
{
    size_t n = b->batch.sequences, width = eng_width(e->model, want);
    float *all = box_run(e, &b->batch, want);
    uint32_t ids[BOX_TOKENS_MAX], starts[BOX_SEQUENCES_MAX + 1] = { 0 }, skip[BOX_SEQUENCES_MAX];
    uint8_t types[BOX_TOKENS_MAX];
    struct eng_batch back = {
        .ids = ids, .types = types, .starts = starts, .sequences = n, .skip = skip
    };
    float *reversed;

    for (size_t s = 0; s < n; s++) {
        size_t from = b->starts[n - 1 - s], len = b->starts[n - s] - from;

        memcpy(ids + starts[s], b->ids + from, len * sizeof(*ids));
        memcpy(types + starts[s], b->types + from, len);
        starts[s + 1] = starts[s] + (uint32_t)len;
        skip[s] = b->skip[n - 1 - s];
    }
    reversed = box_run(e, &back, want);
    for (size_t s = 0; s < n; s++) {
        uint32_t alone[2] = { 0, b->starts[s + 1] - b->starts[s] };
        struct eng_batch one = { .ids = b->ids + b->starts[s],
                                 .types = b->types + b->starts[s],
                                 .starts = alone,
                                 .sequences = 1,
                                 .skip = b->skip + s };
        float *got = box_run(e, &one, want);

        assert_memory_equal(got, all + s * width, width * sizeof(*got));
        assert_memory_equal(got, reversed + (n - 1 - s) * width, width * sizeof(*got));
        free(got);
    }
    free(reversed);
    free(all);
}

#endif
