/* SPDX-License-Identifier: MIT */
/* batch: every text comes back in its place whatever the budget, one bad text costs
 * itself alone.  The engine is a function here: a row is the sum of a sequence's ids,
 * its length and its types' sum; the tokenizer cuts at blanks. */
#include "engine/batch.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 3, POISON = 666 };

struct fake {
    size_t calls, budget, longest_batch;
    uint32_t last_length; /* of the first sequence: batches come longest first */
    bool refuse_all;
};

static enum rc fake_run(void *arg, const struct eng_batch *b, float *out, struct err *err)
{
    struct fake *f = arg;
    size_t tokens = b->starts[b->sequences];

    f->calls++;
    if (tokens > f->longest_batch)
        f->longest_batch = tokens;
    CHECK(tokens <= f->budget || b->sequences == 1);
    for (size_t s = 0; s < b->sequences; s++) {
        float sum = 0, types = 0;

        for (uint32_t i = b->starts[s]; i < b->starts[s + 1]; i++) {
            if (b->ids[i] == POISON || f->refuse_all)
                return err_set(err, RC_FAIL, "a value is not finite");
            sum += (float)b->ids[i];
            types += b->types[i];
        }
        if (s)
            CHECK(b->starts[s + 1] - b->starts[s] <= b->starts[s] - b->starts[s - 1]);
        out[s * WIDTH] = sum;
        out[s * WIDTH + 1] = (float)(b->starts[s + 1] - b->starts[s]);
        out[s * WIDTH + 2] = types;
    }
    return RC_OK;
}

/* Words as ids: a word's length, so that texts differ. */
static void add_words(struct batch *b, const char *text)
{
    uint32_t ids[64];
    size_t n = 0;

    ids[n++] = 101;
    while (*text && n < 63) {
        size_t len = strcspn(text, " ");

        if (len)
            ids[n++] = (uint32_t)len;
        text += len + (text[len] == ' ');
    }
    ids[n++] = 102;
    batch_add(b, ids, NULL, n, false);
}

TEST(rows_come_back_in_order)
{
    static const char *const texts[] = { "a",
                                         "",
                                         "one two three four five six",
                                         "b b b",
                                         "longer words here",
                                         "a a a a a a a a a a a a" };
    static const float sums[] = { 204, 203, 225, 206, 218, 215 };
    static const float counts[] = { 3, 2, 8, 5, 5, 14 };

    for (size_t budget = 1; budget < 60; budget++) {
        struct fake f = { .budget = budget };
        struct batch_runner r = { fake_run, &f, WIDTH, budget };
        float rows[ARRAY_SIZE(texts) * WIDTH];
        struct batch b = { 0 };
        struct err err = { 0 };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
            add_words(&b, texts[i]);
        CHECK(batch_run(&b, &r, rows, &err) == RC_OK);
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
            CHECK(rows[i * WIDTH] == sums[i]);
            CHECK(rows[i * WIDTH + 1] == counts[i]);
        }
        CHECK(budget >= 37 ? f.calls == 1 : f.calls > 1);
        batch_release(&b);
    }
}

TEST(budget_is_filled)
{
    struct fake f = { .budget = 100 };
    struct batch_runner r = { fake_run, &f, WIDTH, 100 };
    float rows[30 * WIDTH];
    struct batch b = { 0 };
    struct err err = { 0 };

    for (size_t i = 0; i < 30; i++)
        add_words(&b, "a b c d e f g h"); /* ten tokens */
    CHECK(batch_run(&b, &r, rows, &err) == RC_OK);
    CHECK(f.calls == 3 && f.longest_batch == 100);
    batch_release(&b);
}

TEST(one_bad_text_costs_itself)
{
    struct fake f = { .budget = 100 };
    struct batch_runner r = { fake_run, &f, WIDTH, 100 };
    const uint32_t bad[] = { 101, POISON, 102 };
    float rows[4 * WIDTH];
    struct batch b = { 0 };
    struct err err = { 0 };

    add_words(&b, "a");
    batch_add(&b, bad, NULL, 3, true);
    batch_add_failed(&b, "the line is too long");
    add_words(&b, "b c");
    CHECK(batch_run(&b, &r, rows, &err) == RC_OK);
    CHECK(!b.items[0].why && !b.items[3].why && rows[0] == 204 && rows[9] == 205);
    assert_string_equal(b.items[1].why, "a value is not finite");
    assert_string_equal(b.items[2].why, "the line is too long");
    CHECK(b.items[1].truncated && isnan(rows[3]) && isnan(rows[8]));

    batch_reset(&b); /* what went wrong does not outlive its window */
    add_words(&b, "a");
    CHECK(batch_run(&b, &r, rows, &err) == RC_OK && !b.items[0].why && rows[0] == 204);
    batch_release(&b);
}

TEST(an_engine_that_never_works_is_an_error)
{
    struct fake f = { .budget = 100, .refuse_all = true };
    struct batch_runner r = { fake_run, &f, WIDTH, 100 };
    float rows[3 * WIDTH];
    struct batch b = { 0 };
    struct err err = { 0 };

    for (size_t i = 0; i < 3; i++)
        add_words(&b, "a");
    CHECK(batch_run(&b, &r, rows, &err) == RC_FAIL);
    assert_string_equal(err.msg, "no text could be run: a value is not finite");
    batch_release(&b);
}

TEST(nothing_to_run)
{
    struct fake f = { .budget = 8 };
    struct batch_runner r = { fake_run, &f, WIDTH, 8 };
    struct batch b = { 0 };
    struct err err = { 0 };
    float rows[WIDTH] = { 0 };

    CHECK(batch_run(&b, &r, rows, &err) == RC_OK && !f.calls);
    batch_add_failed(&b, "no");
    CHECK(batch_run(&b, &r, rows, &err) == RC_OK && !f.calls && isnan(rows[0]));
    batch_release(&b);
}

TEST(types_travel)
{
    struct fake f = { .budget = 8 };
    struct batch_runner r = { fake_run, &f, WIDTH, 8 };
    const uint32_t ids[] = { 1, 2, 3, 4 };
    const uint8_t types[] = { 0, 0, 1, 1 };
    struct batch b = { 0 };
    struct err err = { 0 };
    float rows[2 * WIDTH];

    batch_add(&b, ids, NULL, 2, false);
    batch_add(&b, ids, types, 4, false);
    CHECK(batch_run(&b, &r, rows, &err) == RC_OK);
    CHECK(rows[2] == 0 && rows[5] == 2);
    batch_release(&b);
}

TEST(a_window_ends)
{
    struct batch b = { 0 };
    uint32_t *many = calloc(BATCH_WINDOW_TOKENS_MAX, sizeof(*many));

    for (size_t i = 0; i + 1 < BATCH_WINDOW_MAX; i++)
        add_words(&b, "a");
    CHECK(!batch_full(&b));
    add_words(&b, "a");
    CHECK(batch_full(&b));
    batch_reset(&b);
    CHECK(!batch_full(&b));
    batch_add(&b, many, NULL, BATCH_WINDOW_TOKENS_MAX, false);
    CHECK(batch_full(&b));
    batch_release(&b);
    free(many);
}

static enum rc skip_run(void *arg, const struct eng_batch *b, float *out, struct err *err)
{
    (void)arg;
    (void)err;
    for (size_t s = 0; s < b->sequences; s++)
        out[s] = (float)b->skip[s];
    return RC_OK;
}

TEST(prompts_travel)
{
    static const char *const texts[] = { "a", "a b c", "", "a b" };
    struct batch b = { 0 };
    float rows[ARRAY_SIZE(texts)];

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        add_words(&b, texts[i]);
        if (i) /* without a word of it, none */
            batch_skip(&b, i);
    }
    assert_int_equal(batch_run(&b, &(struct batch_runner){ skip_run, NULL, 1, 8 }, rows, NULL), 0);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        CHECK(rows[i] == (float)i);
    batch_release(&b);
}

TEST_MAIN(cmocka_unit_test(rows_come_back_in_order), cmocka_unit_test(budget_is_filled),
          cmocka_unit_test(one_bad_text_costs_itself),
          cmocka_unit_test(an_engine_that_never_works_is_an_error),
          cmocka_unit_test(nothing_to_run), cmocka_unit_test(types_travel),
          cmocka_unit_test(prompts_travel), cmocka_unit_test(a_window_ends))
