/* SPDX-License-Identifier: MIT */
/* unigram: the rules that decide between paths, one model each, and the ids of 300 tricky
 * lines that the reference library gave (tests/parity/tokens.py fixtures). */
#include "test.h"

#include "unigram_fixture.h"

#include <math.h>

struct vocab {
    const char *text;
    double score;
};

static struct unigram *model(const struct vocab *v, size_t n, uint32_t unk, bool bytes)
{
    struct unigram_piece pieces[64];
    struct unigram *u = NULL;

    assert_true(n <= ARRAY_SIZE(pieces));
    for (size_t i = 0; i < n; i++)
        pieces[i] = (struct unigram_piece){ v[i].text, strlen(v[i].text), v[i].score };
    assert_int_equal(unigram_new(pieces, n, unk, bytes, &u, NULL), RC_OK);
    return u;
}

/* Encodes twice, since the second time comes from what the scratch remembers. */
static void check(const struct unigram *u, const char *text, const char *want)
{
    struct unigram_scratch *s = unigram_scratch_new();
    const struct unigram_token *t;
    struct buf got = { 0 };

    for (int round = 0; round < 2; round++) {
        size_t n = unigram_encode(u, s, text, strlen(text), &t);
        buf_reset(&got);
        for (size_t i = 0; i < n; i++)
            buf_addf(&got, "%s%u[%u,%u]", i ? " " : "", t[i].id, t[i].begin, t[i].end);
        assert_string_equal(buf_str(&got), want);
    }
    buf_release(&got);
    unigram_scratch_free(s);
}

TEST(best_path)
{
    static const struct vocab v[] = { { "<unk>", 0 }, { "a", 0 },   { "b", 0 },
                                      { "c", 0 },     { "d", 0 },   { "cd", 1 },
                                      { "ab", 2 },    { "abc", 5 }, { "abcd", 10 } };
    struct unigram *u = model(v, ARRAY_SIZE(v), 0, false);

    check(u, "abcdacdxx", "8[0,4] 1[4,5] 5[5,7] 0[7,9]");
    check(u, "", "");
    check(u, "xyz", "0[0,3]");
    check(u, "xax", "0[0,1] 1[1,2] 0[2,3]");
    unigram_free(u);
}

TEST(ties_go_to_the_earliest_start)
{
    static const struct vocab v[] = { { "<unk>", -9 }, { "a", -1 }, { "aa", -2 }, { "aaa", -3 } };
    struct unigram *u = model(v, ARRAY_SIZE(v), 0, false);

    check(u, "aa", "2[0,2]");
    check(u, "aaa", "3[0,3]");
    check(u, "aaaa", "1[0,1] 3[1,4]"); /* of all that end there, the longest last piece */
    unigram_free(u);
}

TEST(unknown_costs_ten_below_the_least)
{
    /* min is -30: an unknown edge is -40 */
    static const struct vocab v[] = {
        { "<unk>", 0 }, { "<pad>", -30 }, { "\xC3\xA9x", -19 }, { "y\xC3\xA9", -21 }, { "x", -1 }
    };
    struct unigram *u = model(v, ARRAY_SIZE(v), 0, false);

    check(u, "\xC3\xA9x", "2[0,3]");
    check(u, "\xC3\xA9", "0[0,2]");
    check(u, "\xC3\xA9\xE4\xB8\x80\xC3\xA9", "0[0,7]"); /* fused */
    check(u, "y\xC3\xA9\xC3\xA9", "3[0,3] 0[3,5]");     /* the second stands alone */
    unigram_free(u);
}

TEST(fused_unknowns_are_looked_up)
{
    /* positive scores: two unknown edges (2 * 90) beat the piece "xy" (100) */
    static const struct vocab v[] = { { "<unk>", 500 }, { "xy", 100 } };
    struct unigram *u = model(v, ARRAY_SIZE(v), 0, false);

    check(u, "xy", "1[0,2]");
    check(u, "xyx", "0[0,3]");
    check(u, "x<unk>y", "0[0,7]"); /* the piece <unk> in the text is unknown, too */
    check(u, "<unk>", "0[0,5]");
    unigram_free(u);
}

TEST(byte_pieces)
{
    static const struct vocab v[] = {
        { "<unk>", 0 }, { "a", -1 }, { "<0xC3>", 0 }, { "<0xA9>", 0 }, { "<0xE4>", 0 }
    };
    struct unigram *u = model(v, ARRAY_SIZE(v), 0, true);

    check(u, "a\xC3\xA9\x61", "1[0,1] 2[1,3] 3[1,3] 1[3,4]");
    check(u, "\xE4\xB8\x80", "0[0,3]"); /* not all of its bytes exist */
    check(u, "\xC3\xA9\xE4\xB8\x80", "0[0,5]");
    check(u, "\xC3\xA9\xC3\xA9", "2[0,4] 3[0,4] 2[0,4] 3[0,4]");
    unigram_free(u);
    u = model(v, ARRAY_SIZE(v), 0, false);
    check(u, "\xC3\xA9", "0[0,2]");
    unigram_free(u);
}

TEST(odd_vocabularies)
{
    static const struct vocab twice[] = { { "", -3 },  { "<unk>", 0 }, { "ab", -1 },
                                          { "a", -5 }, { "b", -5 },    { "ab", -20 } };
    struct unigram_piece nul[] = { { "<unk>", 5, 0 },   { "a", 1, -1 },     { "a\0", 2, -1 },
                                   { "a\0\0b", 4, -1 }, { "a\0\0", 3, -1 }, { "\0", 1, -9 } };
    struct unigram *u = model(twice, ARRAY_SIZE(twice), 1, false);
    struct unigram_scratch *s = unigram_scratch_new();
    const struct unigram_token *t;

    check(u, "ab", "3[0,1] 4[1,2]"); /* the last of equal pieces counts, with its score */
    unigram_free(u);
    assert_int_equal(unigram_new(nul, ARRAY_SIZE(nul), 0, false, &u, NULL), RC_OK);
    CHECK(unigram_encode(u, s, "a\0\0b", 4, &t) == 1 && t[0].id == 3);
    CHECK(unigram_encode(u, s, "a\0\0\0", 4, &t) == 2 && t[0].id == 4 && t[1].id == 5);
    CHECK(unigram_encode(u, s, "a\0", 2, &t) == 1 && t[0].id == 2);
    unigram_free(u);
    /* the scratch must not answer for another model */
    u = model((struct vocab[]){ { "<unk>", 0 }, { "zz", 0 } }, 2, 0, false);
    CHECK(unigram_encode(u, s, "a\0", 2, &t) == 1 && t[0].id == 0);
    unigram_free(u);
    unigram_scratch_free(s);
}

TEST(refused)
{
    static char big[UNIGRAM_PIECE_BYTES_MAX + 1];
    struct unigram_piece p[] = { { "<unk>", 5, 0 }, { big, sizeof(big), 0 } };
    struct unigram *u = NULL;
    struct err err = { 0 };

    memset(big, 'a', sizeof(big));
    CHECK(unigram_new(p, 0, 0, false, &u, &err) == RC_PARSE);
    CHECK(unigram_new(p, 1, 1, false, &u, NULL) == RC_PARSE);
    CHECK(unigram_new(p, 2, 0, false, &u, NULL) == RC_LIMIT);
    CHECK(unigram_new(p, (size_t)UNIGRAM_PIECES_MAX + 1, 0, false, &u, NULL) == RC_LIMIT);
    p[0].score = NAN;
    CHECK(unigram_new(p, 1, 0, false, &u, NULL) == RC_PARSE);
    p[0].score = -INFINITY;
    CHECK(unigram_new(p, 1, 0, false, &u, NULL) == RC_PARSE);
    CHECK(u == NULL);
    p[1].len--;
    p[0].score = 0;
    CHECK(unigram_new(p, 2, 0, false, &u, NULL) == RC_OK);
    unigram_free(u);
    unigram_free(NULL);
    unigram_scratch_free(NULL);
}

static uint32_t next_random(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    return *x ^= *x << 5;
}

/* Every piece is found again and nothing else is: the trie against the list. */
TEST(trie_of_random_pieces)
{
    enum { COUNT = 30000, BYTES = 12 };
    static char text[COUNT][BYTES];
    static struct unigram_piece p[COUNT];
    struct unigram *u = NULL;
    struct unigram_scratch *s = unigram_scratch_new();
    const struct unigram_token *t;
    uint32_t x = 1;

    for (size_t i = 0; i < COUNT; i++) {
        size_t len = 1 + next_random(&x) % BYTES;
        for (size_t k = 0; k < len; k++)
            text[i][k] = (char)(i % 3 ? 'a' + next_random(&x) % 4 : next_random(&x) % 128);
        p[i] = (struct unigram_piece){ text[i], len, 1000.0 * (double)len };
    }
    assert_int_equal(unigram_new(p, COUNT, 0, false, &u, NULL), RC_OK);
    for (size_t i = 1; i < COUNT; i++) {
        size_t n = unigram_encode(u, s, p[i].text, p[i].len, &t);
        CHECK(n >= 1 && t[n - 1].end == p[i].len);
        if (n != 1 || t[0].id == i || t[0].id == 0)
            continue; /* as good in parts, or the unknown piece */
        CHECK(t[0].id > i && p[t[0].id].len == p[i].len); /* a later equal one */
        CHECK(memcmp(p[t[0].id].text, p[i].text, p[i].len) == 0);
    }
    unigram_free(u);
    unigram_scratch_free(s);
}

TEST(lines_of_the_library)
{
    struct fixture f;
    struct arena a = { 0 };
    struct buf file = { 0 };
    struct err err = { 0 };
    size_t rows = 0;

    assert_int_equal(fixture_load("tests/fixtures/unigram-small.json", &f, &err), RC_OK);
    assert_true(fixture_file("tests/fixtures/unigram-small.jsonl", &file));
    for (char *p = file.data, *end; (end = strchr(p, '\n')) != NULL; p = end + 1, rows++) {
        struct json *row;
        assert_int_equal(json_parse(&a, p, (size_t)(end - p), &row, &err), RC_OK);
        const struct json *text = json_get(row, "text"), *ids = json_get(row, "ids");
        fixture_line(&f, text->text, text->len);
        assert_int_equal(f.count, ids->count);
        size_t i = 0;
        for (const struct json *id = ids->first; id; id = id->next, i++)
            assert_int_equal(f.ids[i], maybe_or(json_int(id), -1));
    }
    assert_int_equal(rows, 300);
    buf_release(&file);
    arena_release(&a);
    fixture_release(&f);
}

TEST_MAIN(cmocka_unit_test(best_path), cmocka_unit_test(ties_go_to_the_earliest_start),
          cmocka_unit_test(unknown_costs_ten_below_the_least),
          cmocka_unit_test(fused_unknowns_are_looked_up), cmocka_unit_test(byte_pieces),
          cmocka_unit_test(odd_vocabularies), cmocka_unit_test(refused),
          cmocka_unit_test(trie_of_random_pieces), cmocka_unit_test(lines_of_the_library))
