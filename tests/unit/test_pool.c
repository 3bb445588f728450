/* SPDX-License-Identifier: MIT */
/* test_pool: identities that pooling, normalising and scores must keep. */
#include "engine/engine_int.h"
#include "test.h"

#include <math.h>

enum { TOKENS = 7, HIDDEN = 37 }; /* no multiple of any block */

static float numbers[TOKENS * HIDDEN];

static void pool(enum model_pool kind, size_t count, size_t skip, float *out)
{
    eng_pool(kind, &(struct eng_rows){ numbers, HIDDEN, count, skip }, HIDDEN, out);
}

static void fill(unsigned seed)
{
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        seed = seed * 1664525U + 1013904223U;
        numbers[i] = (float)(seed >> 8) / (float)(1 << 23) - 1.0F;
    }
}

TEST(one_token_is_its_own_pool)
{
    static const enum model_pool all[] = { MODEL_POOL_MEAN,      MODEL_POOL_CLS,
                                           MODEL_POOL_MAX,       MODEL_POOL_LAST,
                                           MODEL_POOL_MEAN_SQRT, MODEL_POOL_WEIGHTED };
    float out[HIDDEN];

    fill(1);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        pool(all[i], 1, 0, out);
        assert_memory_equal(out, numbers, sizeof(out));
    }
}

TEST(first_last_and_largest)
{
    float cls[HIDDEN], last[HIDDEN], max[HIDDEN];

    fill(2);
    pool(MODEL_POOL_CLS, TOKENS, 0, cls);
    pool(MODEL_POOL_LAST, TOKENS, 0, last);
    pool(MODEL_POOL_MAX, TOKENS, 0, max);
    assert_memory_equal(cls, numbers, sizeof(cls));
    assert_memory_equal(last, numbers + (TOKENS - 1) * HIDDEN, sizeof(last));
    for (size_t c = 0; c < HIDDEN; c++) {
        bool is_there = false;

        for (size_t t = 0; t < TOKENS; t++) {
            CHECK(max[c] >= numbers[t * HIDDEN + c]);
            is_there = is_there || max[c] == numbers[t * HIDDEN + c];
        }
        CHECK(is_there);
    }
}

TEST(mean_times_root_of_count_is_mean_sqrt)
{
    float mean[HIDDEN], root[HIDDEN];

    fill(3);
    pool(MODEL_POOL_MEAN, TOKENS, 0, mean);
    pool(MODEL_POOL_MEAN_SQRT, TOKENS, 0, root);
    for (size_t c = 0; c < HIDDEN; c++) {
        double sum = 0;

        for (size_t t = 0; t < TOKENS; t++)
            sum += (double)numbers[t * HIDDEN + c];
        CHECK(mean[c] == (float)(sum / TOKENS));
        CHECK(fabs((double)mean[c] * sqrt(TOKENS) - (double)root[c]) < 1e-6);
    }
}

TEST(weights_are_places)
{
    float out[HIDDEN], rest[HIDDEN];

    fill(8);
    pool(MODEL_POOL_WEIGHTED, TOKENS, 0, out);
    pool(MODEL_POOL_WEIGHTED, TOKENS, 2, rest); /* the places stay those of the whole */
    for (size_t c = 0; c < HIDDEN; c++) {
        double sum = 0, weights = 0;

        for (size_t t = TOKENS; t-- > 0;) {
            sum += (double)(t + 1) * (double)numbers[t * HIDDEN + c];
            weights += (double)(t + 1);
            if (t == 2)
                CHECK(fabs(sum / weights - (double)rest[c]) < 1e-6);
        }
        CHECK(fabs(sum / weights - (double)out[c]) < 1e-6);
    }
}

/* Rows that are skipped might as well not be there, but for the weights above. */
TEST(skipped_tokens_do_not_count)
{
    static const enum model_pool all[] = { MODEL_POOL_MEAN, MODEL_POOL_CLS, MODEL_POOL_MAX,
                                           MODEL_POOL_LAST, MODEL_POOL_MEAN_SQRT };
    float with[HIDDEN], without[HIDDEN];

    fill(9);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        struct eng_rows rest = { numbers + 3 * HIDDEN, HIDDEN, TOKENS - 3, 0 };

        pool(all[i], TOKENS, 3, with);
        eng_pool(all[i], &rest, HIDDEN, without);
        assert_memory_equal(with, without, sizeof(with));
    }
}

/* What the reference gives when a prompt is all that is left of a text. */
TEST(nothing_but_a_prompt)
{
    static const enum model_pool zeros[] = { MODEL_POOL_MEAN, MODEL_POOL_MEAN_SQRT,
                                             MODEL_POOL_WEIGHTED, MODEL_POOL_LAST };
    float out[HIDDEN];

    fill(10);
    for (size_t i = 0; i < ARRAY_SIZE(zeros); i++)
        for (size_t skip = TOKENS; skip < TOKENS + 2; skip++) {
            pool(zeros[i], TOKENS, skip, out);
            for (size_t c = 0; c < HIDDEN; c++)
                CHECK(out[c] == 0);
        }
    pool(MODEL_POOL_CLS, TOKENS, TOKENS, out);
    assert_memory_equal(out, numbers, sizeof(out));
    pool(MODEL_POOL_MAX, TOKENS, TOKENS, out);
    CHECK(out[0] == -INFINITY); /* which the engine refuses to give */
}

TEST(gaps_between_rows_do_not_count)
{
    enum { LD = HIDDEN + 5 };
    static float apart[TOKENS * LD];
    float want[HIDDEN], got[HIDDEN];

    fill(11);
    for (size_t i = 0; i < ARRAY_SIZE(apart); i++)
        apart[i] = i % LD < HIDDEN ? numbers[i / LD * HIDDEN + i % LD] : NAN;
    for (int kind = MODEL_POOL_MEAN; kind <= MODEL_POOL_WEIGHTED; kind++) {
        pool((enum model_pool)kind, TOKENS, 1, want);
        eng_pool((enum model_pool)kind, &(struct eng_rows){ apart, LD, TOKENS, 1 }, HIDDEN, got);
        assert_memory_equal(got, want, sizeof(got));
    }
}

TEST(mean_of_equal_tokens_is_the_token)
{
    float out[HIDDEN];

    fill(4);
    for (size_t t = 1; t < TOKENS; t++)
        memcpy(numbers + t * HIDDEN, numbers, HIDDEN * sizeof(float));
    pool(MODEL_POOL_MEAN, TOKENS, 0, out);
    assert_memory_equal(out, numbers, sizeof(out));
}

TEST(not_a_number_survives_every_pool)
{
    static const enum model_pool all[] = { MODEL_POOL_MEAN, MODEL_POOL_MAX, MODEL_POOL_MEAN_SQRT,
                                           MODEL_POOL_WEIGHTED };
    float out[HIDDEN];

    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        for (size_t t = 0; t < TOKENS; t++) {
            fill(5);
            numbers[t * HIDDEN + 20] = NAN;
            pool(all[i], TOKENS, 0, out);
            CHECK(isnan(out[20]) && !isnan(out[19]));
        }
}

static double norm(const float *v, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    return sqrt(sum);
}

TEST(normalised_vectors_have_length_one)
{
    float v[HIDDEN], zero[HIDDEN] = { 0 };

    fill(6);
    memcpy(v, numbers, sizeof(v));
    eng_normalize(v, HIDDEN);
    CHECK(fabs(norm(v, HIDDEN) - 1) < 1e-6);
    for (size_t i = 0; i < HIDDEN; i++) /* the direction stays */
        CHECK(fabs((double)v[i] * norm(numbers, HIDDEN) - (double)numbers[i]) < 1e-6);
    eng_normalize(zero, HIDDEN); /* divides by 1e-12, not by 0 */
    for (size_t i = 0; i < HIDDEN; i++)
        CHECK(zero[i] == 0);
    v[0] = 1e30F; /* whose square is no f32 */
    eng_normalize(v, HIDDEN);
    CHECK(v[0] == 1);
}

TEST(truncated_vectors_are_normalised_again)
{
    float v[HIDDEN];

    fill(7);
    memcpy(v, numbers, sizeof(v));
    eng_normalize(v, HIDDEN);
    eng_truncate(v, 8);
    CHECK(fabs(norm(v, 8) - 1) < 1e-6);
    for (size_t i = 1; i < 8; i++)
        CHECK(fabs((double)v[i] / (double)v[0] - (double)numbers[i] / (double)numbers[0]) < 1e-4);
}

TEST(scores)
{
    CHECK(eng_score(MODEL_SCORE_RAW, -8.7265625F) == -8.7265625F);
    CHECK(eng_score(MODEL_SCORE_SIGMOID, 0) == 0.5F);
    CHECK(fabsf(eng_score(MODEL_SCORE_SIGMOID, -8.7265625F) - 1.6219e-4F) < 1e-7F);
    CHECK(eng_score(MODEL_SCORE_SIGMOID, 200) == 1);
    CHECK(eng_score(MODEL_SCORE_SIGMOID, -2000) == 0);
}

TEST_MAIN(cmocka_unit_test(one_token_is_its_own_pool), cmocka_unit_test(first_last_and_largest),
          cmocka_unit_test(mean_times_root_of_count_is_mean_sqrt),
          cmocka_unit_test(weights_are_places), cmocka_unit_test(skipped_tokens_do_not_count),
          cmocka_unit_test(nothing_but_a_prompt), cmocka_unit_test(gaps_between_rows_do_not_count),
          cmocka_unit_test(mean_of_equal_tokens_is_the_token),
          cmocka_unit_test(not_a_number_survives_every_pool),
          cmocka_unit_test(normalised_vectors_have_length_one),
          cmocka_unit_test(truncated_vectors_are_normalised_again), cmocka_unit_test(scores))
