/* SPDX-License-Identifier: MIT */
/* A query and its documents: the pairs are those of the tokenizer itself, at every length. */
#include "test.h"

#include "base/buf.h"
#include "engine/pair.h"

#include <stdlib.h>

enum { PAIR_MAX = 32, WORDS_MAX = 60 };

static struct tok_text words(struct buf *b, const char *word, size_t n)
{
    buf_reset(b);
    for (size_t i = 0; i < n; i++)
        buf_addf(b, "%s%s", i ? " " : "", word);
    return (struct tok_text){ buf_str(b), b->len };
}

static struct tokenizer *load(void)
{
    struct tokenizer *t = NULL;
    struct err err = { 0 };

    if (tokenizer_load("tests/fixtures/tokens-uncased.json", NULL, &t, &err))
        fail_msg("%s", err.msg);
    return t;
}

/* Every length of a query beside every length of a document. */
TEST(as_the_tokenizer_cuts_them)
{
    struct tokenizer *t = load();
    struct tok_scratch *s = tok_scratch_new(), *own = tok_scratch_new();
    struct buf a = { 0 }, b = { 0 };

    for (size_t most = PAIR_MAX - 1; most <= PAIR_MAX; most++)
        for (size_t q = 0; q < WORDS_MAX; q++)
            for (int left = 0; left < 2; left++) {
                struct pair_opts o = { .max_tokens = most, .left = left };
                struct tok_text query = words(&a, "a", q);
                struct pair p = { 0 };

                assert_int_equal(pair_open(&p, t, s, query, &o, NULL), RC_OK);
                for (size_t d = 0; d < WORDS_MAX; d++) {
                    struct tok_opts to = { .max_tokens = most,
                                           .truncate = TOK_LONGEST_FIRST,
                                           .left = left };
                    struct tok_text doc = words(&b, "b", d);
                    uint32_t ids[PAIR_MAX];
                    uint8_t types[PAIR_MAX];
                    struct pair_out out;
                    struct tok_out want;

                    assert_int_equal(pair_encode(&p, t, s, doc, &o, ids, types, &out, NULL), RC_OK);
                    assert_int_equal(tokenizer_encode(t, own, query, &doc, &to, &want, NULL),
                                     RC_OK);
                    assert_int_equal(out.count, want.count);
                    assert_memory_equal(ids, want.ids, want.count * sizeof(*ids));
                    assert_memory_equal(types, want.types, want.count);
                    assert_int_equal(out.truncated, want.truncated);
                    assert_int_equal(out.cut, want.cut[1]);
                }
                pair_close(&p);
            }
    buf_release(&a);
    buf_release(&b);
    tok_scratch_free(s);
    tok_scratch_free(own);
    tokenizer_free(t);
}

/* With a limit of its own the query stays, and the document gives way. */
TEST(limits_of_query_and_document)
{
    struct tokenizer *t = load();
    struct tok_scratch *s = tok_scratch_new();
    struct pair_opts o = { .max_tokens = PAIR_MAX, .max_query_tokens = 20 };
    struct buf a = { 0 }, b = { 0 };
    struct tok_text doc = words(&b, "b", WORDS_MAX);
    uint32_t ids[PAIR_MAX];
    uint8_t types[PAIR_MAX];
    struct pair_out out;
    struct pair p = { 0 };
    size_t second = 0;

    assert_int_equal(pair_open(&p, t, s, words(&a, "a", WORDS_MAX), &o, NULL), RC_OK);
    assert_int_equal(p.query_tokens, 20);
    assert_int_equal(pair_encode(&p, t, s, doc, &o, ids, types, &out, NULL), RC_OK);
    assert_int_equal(out.count, PAIR_MAX);
    for (size_t i = 0; i < out.count; i++)
        second += types[i];
    assert_int_equal(second, PAIR_MAX - 20 - 2); /* the document and its [SEP] */
    pair_close(&p);
    buf_release(&a);
    buf_release(&b);
    tok_scratch_free(s);
    tokenizer_free(t);
}

TEST_MAIN(cmocka_unit_test(as_the_tokenizer_cuts_them),
          cmocka_unit_test(limits_of_query_and_document))
