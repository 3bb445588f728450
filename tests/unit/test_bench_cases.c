/* SPDX-License-Identifier: MIT */
/* cases of `stoker bench engine`: lengths, batches, tokens, the order of rows. */
#include "test.h"

#include "bench/bench_int.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEED = 5, VOCAB = 1000 };

static struct model tiny(void)
{
    return (struct model){
        .vocab = VOCAB, .layers = 2, .hidden = 8, .heads = 2, .head_dim = 4, .ffn = 16
    };
}

TEST(texts_of_one_length_are_one_batch)
{
    struct model m = tiny();
    struct case_batches b;
    struct bench_case c;
    struct err err = { 0 };

    CHECK(case_parse("100x512", SEED, &c, &err) == RC_OK);
    CHECK(c.count == 100 && c.tokens == 51200 && c.lengths[99] == 512);
    CHECK(case_operations(&c, &m) == 51200.0 * 2 * (2 * (4 * 64 + 2 * 8 * 16) + 4.0 * 512 * 8));
    case_cut(&c, &m, 0, SEED, &b);
    CHECK(b.count == 1 && b.items[0].sequences == 100 && b.items[0].starts[100] == 51200);
    CHECK(!b.types);
    case_batches_release(&b);
    case_cut(&c, &m, 1, SEED, &b);
    CHECK(b.count == 100 && b.items[99].sequences == 1 && b.items[99].starts[1] == 512);
    case_batches_release(&b);
    case_release(&c);
}

TEST(the_corpus_is_the_same_every_time)
{
    struct bench_case c, again;
    struct err err = { 0 };

    CHECK(case_parse("corpus", SEED, &c, &err) == RC_OK);
    CHECK(case_parse("corpus", SEED, &again, &err) == RC_OK);
    CHECK(c.count == CASE_CORPUS_TEXTS && c.tokens == again.tokens);
    CHECK(!memcmp(c.lengths, again.lengths, c.count * sizeof(*c.lengths)));
    CHECK(c.tokens > 450000 && c.tokens < 550000);
    for (size_t i = 0; i < c.count; i++)
        CHECK(c.lengths[i] >= 4 && c.lengths[i] <= 512);
    case_release(&c);
    case_release(&again);
}

static void write_file(char path[32], const char *text)
{
    int fd;

    memcpy(path, "/tmp/stoker-cases-XXXXXX", sizeof("/tmp/stoker-cases-XXXXXX"));
    fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* Row 0, 1 … of the output is text 0, 1 … of the case, whatever the batches. */
static void check_rows(const struct bench_case *c, const struct case_batches *b, enum eng_want want)
{
    float rows[64], out[64];
    size_t at = 0;

    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < (want == ENG_TOKENS ? c->lengths[b->order[i]] : 1); k++)
            rows[at++] = (float)(b->order[i] * 100 + k);
    CHECK(at == case_rows(c, want));
    case_sort_rows(c, b, want, 1, rows, out);
    at = 0;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < (want == ENG_TOKENS ? c->lengths[i] : 1); k++)
            CHECK(out[at++] == (float)(i * 100 + k));
}

TEST(lengths_of_a_file_are_sorted_and_cut)
{
    struct model m = tiny();
    struct case_batches b, alone;
    struct bench_case c;
    struct err err = { 0 };
    char name[33] = "@";

    write_file(name + 1, "3\n7\n 2 \n7\n1\n");
    CHECK(case_parse(name, SEED, &c, &err) == RC_OK);
    CHECK(c.count == 5 && c.tokens == 20);
    case_cut(&c, &m, 10, SEED, &b);
    CHECK(b.count == 3); /* 7, 7 3, 2 1 */
    CHECK(b.order[0] == 1 && b.order[1] == 3 && b.order[2] == 0 && b.order[3] == 2);
    CHECK(b.items[1].sequences == 2 && b.items[1].starts[2] == 10 && b.items[2].starts[2] == 3);
    case_cut(&c, &m, 1, SEED, &alone);
    CHECK(alone.count == 5 && !memcmp(alone.ids, b.ids, 20 * sizeof(*b.ids)));
    for (size_t i = 0; i < 20; i++)
        CHECK(b.ids[i] >= 5 && b.ids[i] < VOCAB);
    check_rows(&c, &b, ENG_VECTORS);
    check_rows(&c, &b, ENG_TOKENS);
    case_batches_release(&b);
    case_batches_release(&alone);
    case_release(&c);
    unlink(name + 1);
}

TEST(a_model_for_pairs_has_types)
{
    struct model m = tiny();
    struct case_batches b;
    struct bench_case c;
    struct err err = { 0 };

    m.head = MODEL_HEAD_POOLER;
    m.types = 2;
    CHECK(case_parse("1x5", SEED, &c, &err) == RC_OK);
    case_cut(&c, &m, 0, SEED, &b);
    CHECK(!memcmp(b.items[0].types, "\0\0\0\1\1", 5));
    case_batches_release(&b);
    case_release(&c);
}

TEST(what_is_no_case_is_refused)
{
    static const char *const bad[] = { "",       "x",         "12",        "0x5",
                                       "5x0",    "axb",       "1x2x3",     "-1x5",
                                       "corpse", "@/nowhere", "1048577x1", "2x16777216" };
    struct bench_case c;
    char name[33] = "@";

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct err err = { 0 };

        CHECK(case_parse(bad[i], SEED, &c, &err) != RC_OK && err.msg[0]);
    }
    for (int i = 0; i < 2; i++) {
        struct err err = { 0 };

        write_file(name + 1, i ? "" : "3\nmany\n");
        CHECK(case_parse(name, SEED, &c, &err) == RC_PARSE);
        unlink(name + 1);
    }
}

TEST_MAIN(cmocka_unit_test(texts_of_one_length_are_one_batch),
          cmocka_unit_test(the_corpus_is_the_same_every_time),
          cmocka_unit_test(lengths_of_a_file_are_sorted_and_cut),
          cmocka_unit_test(a_model_for_pairs_has_types),
          cmocka_unit_test(what_is_no_case_is_refused))
