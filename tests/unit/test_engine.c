/* SPDX-License-Identifier: MIT */
/* test_engine: the scalar reference against the outputs of the Python one, and what the
 * engine refuses. */
#include "engine/engine_int.h"
#include "test.h"
#include "vectors_box.h"

static const struct eng_opts ref = { .device = "ref" };

/* The f32 bounds of tests/parity/vectors.py. */
static const double vector_max = 2e-5, score_max = 1e-4;

TEST(fixtures_match_the_python_reference)
{
    for (size_t i = 0; i < ARRAY_SIZE(box_names); i++) {
        const struct json *scores;
        struct box b;
        struct eng *e;
        float *got;

        box_open(&b, box_names[i]);
        e = box_load(&b, &ref);
        got = box_run(e, &b.batch, ENG_TOKENS);
        CHECK(box_diff(got, json_get(b.doc, "tokens"), b.model->hidden) <= vector_max);
        free(got);
        scores = json_get(b.doc, "scores");
        CHECK((scores != NULL) == (b.model->head != MODEL_HEAD_NONE));
        if (scores) {
            got = box_run(e, &b.batch, ENG_SCORES);
            CHECK(box_diff(got, scores, b.model->labels) <= score_max);
            free(got);
        }
        eng_free(e);
        box_close(&b);
    }
}

/* Every pooling, dense layers after it, normalising: what sentence-transformers gives. */
TEST(vectors_of_every_pooling_match)
{
    size_t seen = 0;

    for (size_t i = 0; i < ARRAY_SIZE(box_names); i++) {
        const struct json *pools;
        struct box b;
        struct eng *e;

        box_open(&b, box_names[i]);
        e = box_load(&b, &ref);
        pools = json_get(b.doc, "vectors");
        for (const struct json *p = pools ? pools->first : NULL; p; p = p->next, seen++) {
            float *got;

            if (p == pools->first) { /* the one the model's own files name */
                enum model_pool own = b.model->pool;

                box_pool_set(&b, p->key);
                CHECK(b.model->pool == own);
            }
            box_pool_set(&b, p->key);
            got = box_run(e, &b.batch, ENG_VECTORS);
            CHECK(box_diff(got, p, eng_dim(b.model)) <= vector_max);
            free(got);
        }
        eng_free(e);
        box_close(&b);
    }
    assert_int_equal(seen, 13);
}

TEST(bits_do_not_depend_on_the_batch)
{
    for (size_t i = 0; i < ARRAY_SIZE(box_names); i++) {
        struct box b;
        struct eng *e;

        box_open(&b, box_names[i]);
        e = box_load(&b, &ref);
        box_check_invariance(&b, e, b.model->head == MODEL_HEAD_NONE ? ENG_VECTORS : ENG_SCORES);
        eng_free(e);
        box_close(&b);
    }
}

TEST(types_left_out_are_zero)
{
    const uint8_t zeros[BOX_TOKENS_MAX] = { 0 };
    struct box b;
    struct eng *e;
    float *with, *without;

    box_open(&b, "bert");
    e = box_load(&b, &ref);
    b.batch.types = zeros;
    with = box_run(e, &b.batch, ENG_VECTORS);
    b.batch.types = NULL;
    without = box_run(e, &b.batch, ENG_VECTORS);
    assert_memory_equal(with, without, b.batch.sequences * eng_dim(b.model) * sizeof(*with));
    free(with);
    free(without);
    eng_free(e);
    box_close(&b);
}

/* Architectures without a table do not look at what a tokenizer of BERT gives to pairs. */
TEST(types_without_a_table_mean_nothing)
{
    static const char *const models[] = { "mpnet-score", "distilbert-score" };
    static const char *const devices[] = { "ref", NULL };

    for (size_t i = 0; i < ARRAY_SIZE(models) * ARRAY_SIZE(devices); i++) {
        const struct eng_opts o = { .device = devices[i / 2], .dtype = ENG_F32 };
        uint8_t ones[BOX_TOKENS_MAX];
        struct box b;
        struct eng *e;
        float *with, *without;

        memset(ones, 1, sizeof(ones));
        box_open(&b, models[i % 2]);
        e = box_load(&b, &o);
        b.batch.types = ones;
        with = box_run(e, &b.batch, ENG_SCORES);
        b.batch.types = NULL;
        without = box_run(e, &b.batch, ENG_SCORES);
        assert_memory_equal(with, without, b.batch.sequences * b.model->labels * sizeof(*with));
        free(with);
        free(without);
        eng_free(e);
        box_close(&b);
    }
}

/* ---- errors */

static void expect_refused(struct eng *e, const struct eng_batch *b, enum eng_want want,
                           enum rc code, const char *msg)
{
    static float out[BOX_TOKENS_MAX * 64];
    struct err err = { 0 };

    assert_int_equal(eng_run(e, b, want, out, &err), code);
    assert_string_equal(err.msg, msg);
    assert_int_equal(eng_run(e, b, want, out, NULL), code);
}

TEST(bad_batches_are_refused)
{
    uint32_t ids[80] = { 5, 6, 7, 8 }, starts[] = { 0, 2, 4 };
    uint8_t types[80] = { 0 };
    struct eng_batch b = { .ids = ids, .types = types, .starts = starts, .sequences = 2 };
    struct box box;
    struct eng *e;

    box_open(&box, "xlmr");
    e = box_load(&box, &ref);
    expect_refused(e, &b, ENG_SCORES, RC_USAGE, "model 'xlmr' has no head that gives scores");
    ids[3] = 100;
    expect_refused(e, &b, ENG_VECTORS, RC_USAGE,
                   "token 1 of sequence 1 is 100 and model 'xlmr' has 100 tokens");
    ids[3] = 8;
    types[2] = 1;
    expect_refused(e, &b, ENG_VECTORS, RC_USAGE,
                   "token 0 of sequence 1 has type 1 and model 'xlmr' has 1 types");
    types[2] = 0;
    starts[1] = 4;
    expect_refused(e, &b, ENG_TOKENS, RC_USAGE, "sequence 1 of the batch has no tokens");
    starts[1] = 2;
    starts[0] = 1;
    expect_refused(e, &b, ENG_TOKENS, RC_USAGE, "the batch starts at token 1, not 0");
    starts[0] = 0;
    b.sequences = 0;
    expect_refused(e, &b, ENG_TOKENS, RC_USAGE, "the batch has no sequences");
    b.sequences = 1;
    starts[1] = 65; /* 66 positions, the first token has 2 */
    expect_refused(e, &b, ENG_VECTORS, RC_LIMIT,
                   "sequence 0 has 65 tokens and model 'xlmr' takes 64 at most");
    eng_free(e);
    box_close(&box);
}

TEST(limits_of_length)
{
    uint32_t ids[64], starts[] = { 0, 64 };
    struct eng_batch b = { .ids = ids, .starts = starts, .sequences = 1 };
    struct box box;
    struct eng *e;

    for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
        ids[i] = (uint32_t)(4 + i);
    box_open(&box, "xlmr");
    e = box_load(&box, &ref);
    assert_int_equal(eng_tokens_max(box.model), 64);
    free(box_run(e, &b, ENG_VECTORS)); /* the last row of the table is used */
    eng_free(e);
    box_close(&box);
}

TEST(devices_by_name)
{
    static const struct {
        const char *name;
        enum rc rc;
    } rows[] = {
        { "cpu", RC_OK },    { "ref", RC_OK },           { NULL, RC_OK },
        { "", RC_USAGE },    { "abacus:1", RC_USAGE },   { "../../tmp/x", RC_USAGE },
        { "a/b", RC_USAGE }, { "ABACUS", RC_USAGE },     { "cpu ", RC_USAGE },
        { ":0", RC_USAGE },  { "abacus,cpu", RC_USAGE }, { "a-name-that-is-too-long", RC_USAGE },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct eng_ops *ops = NULL;
        struct err err = { 0 };

        assert_int_equal(eng_find(rows[i].name, &ops, &err), rows[i].rc);
        CHECK((ops != NULL) == (rows[i].rc == RC_OK));
        CHECK(rows[i].rc == RC_OK || strstr(err.msg, "unknown device"));
    }
}

static enum rc run_broken(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                          struct err *err)
{
    (void)e, (void)b, (void)want, (void)out;
    return err_set(err, RC_LIMIT, "it is on fire");
}

TEST(a_device_that_fails_is_told_from_a_bad_batch)
{
    static const struct eng_ops broken = { .name = "broken", .run = run_broken };
    const uint32_t id = 1, none = UINT32_MAX, starts[] = { 0, 1 };
    struct eng_batch good = { .ids = &id, .starts = starts, .sequences = 1 }, bad = good;
    struct err err = { 0 };
    float *out;
    struct box b;

    box_open(&b, "bert");
    struct eng e = { .ops = &broken, .model = b.model };
    out = xcalloc(eng_dim(b.model), sizeof(*out));
    assert_int_equal(eng_run(&e, &good, ENG_VECTORS, out, &err), RC_NODEV);
    assert_int_equal(err.code, RC_NODEV);
    assert_string_equal(err.msg, "device 'broken' failed: it is on fire");
    bad.ids = &none;
    err = (struct err){ 0 };
    assert_int_equal(eng_run(&e, &bad, ENG_VECTORS, out, &err), RC_USAGE);
    free(out);
    box_close(&b);
}

TEST(devices_and_types_that_do_not_exist)
{
    const struct eng_opts no_device = { .device = "abacus" };
    const struct eng_opts no_type = { .device = "ref", .dtype = ENG_BF16 };
    struct err err = { 0 };
    struct eng *e = NULL;
    struct box b;

    box_open(&b, "bert");
    assert_int_equal(eng_load(b.model, &no_device, &e, &err), RC_USAGE);
    assert_string_equal(err.msg, "unknown device 'abacus'");
    assert_non_null(strstr(err.hint, "'ref'"));
    err = (struct err){ 0 };
    assert_int_equal(eng_load(b.model, &no_type, &e, &err), RC_USAGE);
    assert_string_equal(err.msg, "device 'ref' computes in f32 alone");
    assert_null(e);
    box_close(&b);
}

TEST(best_device_is_found)
{
    struct box b;
    struct eng *e;
    char what[128] = "";

    box_open(&b, "bert");
    e = box_load(&b, NULL);
    CHECK(eng_ops_of(e)->score() >= eng_ref.score());
    eng_ops_of(e)->describe(e, what, sizeof(what));
    CHECK(what[0] != '\0');
    eng_free(e);
    eng_free(NULL);
    box_close(&b);
}

/* A device that gives what a broken weight would give. */
static float poison;

static enum rc poison_run(struct eng *e, const struct eng_batch *b, enum eng_want want, float *out,
                          struct err *err)
{
    size_t rows = want == ENG_TOKENS ? b->starts[b->sequences] : b->sequences;
    size_t width = eng_width(e->model, want);

    (void)err;
    memset(out, 0, rows * width * sizeof(*out));
    out[2 * width] = poison;
    return RC_OK;
}

TEST(results_that_are_no_numbers_are_errors)
{
    const struct eng_ops ops = { .name = "poison", .run = poison_run };
    uint32_t ids[] = { 5, 6, 7, 8 }, starts[] = { 0, 1, 3, 4 };
    struct eng_batch b = { .ids = ids, .starts = starts, .sequences = 3 };
    struct box box;
    struct eng e;

    box_open(&box, "bert");
    e = (struct eng){ .ops = &ops, .model = box.model };
    poison = NAN;
    expect_refused(&e, &b, ENG_VECTORS, RC_FAIL,
                   "sequence 2: model 'bert' gave NaN on device 'poison'; a weight may be damaged: "
                   "'stoker model verify' looks at each");
    poison = -INFINITY;
    expect_refused(&e, &b, ENG_TOKENS, RC_FAIL,
                   "sequence 1: model 'bert' gave infinity on device 'poison'; a weight may be "
                   "damaged: 'stoker model verify' looks at each");
    box_close(&box);
}

/* ---- weights */

TEST(shapes_by_role)
{
    struct box b;
    struct eng_shape s;

    box_open(&b, "mpnet");
    s = eng_weight_shape(b.model, W_REL_BIAS);
    CHECK(s.rows == 32 && s.cols == 2);
    CHECK(eng_weight_shape(b.model, W_TYPE).rows == 0);
    CHECK(eng_weight_shape(b.model, W_HEAD1).rows == 0);
    s = eng_weight_shape(b.model, W_FFN2);
    CHECK(s.rows == 24 && s.cols == 48);
    CHECK(eng_ref.memory(b.model, &ref) > 4 * 100 * 24);
    box_close(&b);
    box_open(&b, "roberta-score");
    s = eng_weight_shape(b.model, W_HEAD2);
    CHECK(s.rows == 3 && s.cols == 48);
    CHECK(eng_weight_shape(b.model, W_REL_BIAS).rows == 0);
    CHECK(eng_weight_shape(b.model, W_TYPE).rows == 1);
    box_close(&b);
}

/* The files lie: each wrong or missing tensor is named before any of it is used. */
TEST(tensors_that_do_not_fit_are_named)
{
    struct err err = { 0 };
    struct box b;
    struct eng *e = NULL;

    box_open(&b, "bert");
    b.model->ffn = 47;
    assert_int_equal(eng_load(b.model, &ref, &e, &err), RC_PARSE);
    assert_non_null(strstr(err.msg, "encoder.layer.0.intermediate.dense.weight"));
    b.model->ffn = 48;
    b.model->layers = 3;
    err = (struct err){ 0 };
    assert_int_equal(eng_load(b.model, &ref, &e, &err), RC_PARSE);
    assert_non_null(strstr(err.msg, "no tensor 'encoder.layer.2.attention.self.query.weight'"));
    b.model->layers = 2;
    assert_null(e);
    box_close(&b);
}

TEST(dense_layers_that_do_not_fit_are_named)
{
    struct err err = { 0 };
    struct box b;
    struct eng *e = NULL;

    box_open(&b, "bert-dense");
    assert_int_equal(b.model->dense_count, 2);
    b.model->dense[1].out = 21;
    assert_int_equal(eng_load(b.model, &ref, &e, &err), RC_PARSE);
    assert_non_null(strstr(err.msg, "3_Dense"));
    assert_non_null(strstr(err.msg, "linear.weight"));
    b.model->dense[1].out = 20;
    b.model->dense[1].dir = "9_Dense";
    err = (struct err){ 0 };
    CHECK(eng_load(b.model, &ref, &e, &err) != RC_OK);
    assert_non_null(strstr(err.msg, "9_Dense"));
    assert_null(e);
    box_close(&b);
}

TEST(positions_count_as_the_architecture_does)
{
    const uint32_t ids[] = { 0, 9, 1, 9, 1, 1, 2 };
    const uint32_t roberta[] = { 2, 3, 1, 4, 1, 1, 5 };
    const uint32_t bert[] = { 0, 1, 2, 3, 4, 5, 6 };
    struct model m = { .position_first = 2, .pad_id = 1 };
    uint32_t got[ARRAY_SIZE(ids)];

    eng_positions(&m, ids, ARRAY_SIZE(ids), got);
    assert_memory_equal(got, roberta, sizeof(got));
    m = (struct model){ .position_first = 0, .pad_id = 0 };
    eng_positions(&m, ids, ARRAY_SIZE(ids), got);
    assert_memory_equal(got, bert, sizeof(got));
}

/* First distance of each bucket, as torch computes them in f32. */
TEST(relative_buckets_have_the_edges_of_the_reference)
{
    static const ptrdiff_t edges[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91 };

    for (size_t b = 0; b < ARRAY_SIZE(edges); b++) {
        size_t up = b ? 16 + b : 0;

        assert_int_equal(eng_rel_bucket(edges[b]), up);
        assert_int_equal(eng_rel_bucket(-edges[b]), b);
        if (b > 0)
            assert_int_equal(eng_rel_bucket(1 - edges[b]), b - 1);
    }
    assert_int_equal(eng_rel_bucket(-100000), 15);
    assert_int_equal(eng_rel_bucket(100000), 31);
    assert_int_equal(eng_rel_bucket(MPNET_REACH), eng_rel_bucket(MPNET_REACH + 1));
}

TEST(relative_bias_is_the_table_by_bucket)
{
    enum { WIDTH = 2 * MPNET_REACH + 1 };
    float table[32 * 2], bias[2 * WIDTH];
    struct box b;

    box_open(&b, "mpnet");
    assert_int_equal(eng_weight(b.model, W_REL_BIAS, 0, table, ARRAY_SIZE(table), NULL), RC_OK);
    assert_int_equal(eng_rel_bias(b.model, bias, NULL), RC_OK);
    for (ptrdiff_t d = -MPNET_REACH; d <= MPNET_REACH; d++)
        for (size_t h = 0; h < 2; h++)
            CHECK(bias[h * WIDTH + (size_t)(d + MPNET_REACH)] == table[eng_rel_bucket(d) * 2 + h]);
    box_close(&b);
}

TEST_MAIN(cmocka_unit_test(fixtures_match_the_python_reference),
          cmocka_unit_test(vectors_of_every_pooling_match),
          cmocka_unit_test(bits_do_not_depend_on_the_batch),
          cmocka_unit_test(types_left_out_are_zero),
          cmocka_unit_test(types_without_a_table_mean_nothing),
          cmocka_unit_test(bad_batches_are_refused), cmocka_unit_test(limits_of_length),
          cmocka_unit_test(devices_by_name),
          cmocka_unit_test(a_device_that_fails_is_told_from_a_bad_batch),
          cmocka_unit_test(devices_and_types_that_do_not_exist),
          cmocka_unit_test(best_device_is_found),
          cmocka_unit_test(results_that_are_no_numbers_are_errors),
          cmocka_unit_test(shapes_by_role), cmocka_unit_test(tensors_that_do_not_fit_are_named),
          cmocka_unit_test(dense_layers_that_do_not_fit_are_named),
          cmocka_unit_test(positions_count_as_the_architecture_does),
          cmocka_unit_test(relative_buckets_have_the_edges_of_the_reference),
          cmocka_unit_test(relative_bias_is_the_table_by_bucket))
