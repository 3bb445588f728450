/* SPDX-License-Identifier: MIT */
/* npy heads, and the line that shows progress. */
#include "base/codec/npy.h"
#include "base/progress.h"
#include "test.h"

#include <string.h>

TEST(head_is_what_numpy_reads)
{
    static const char want[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 384), }";
    char head[NPY_HEAD];

    npy_head(3, 384, head);
    CHECK(!memcmp(head, "\x93NUMPY\x01\x00\x76\x00", 10));
    CHECK(!memcmp(head + 10, want, sizeof(want) - 1));
    CHECK(head[10 + sizeof(want) - 1] == ' ' && head[NPY_HEAD - 1] == '\n');
}

TEST(head_comes_back)
{
    static const uint64_t rows[] = { 0, 1, 4096, UINT64_C(1) << 60 };
    uint64_t r, c;
    char head[NPY_HEAD];

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        npy_head(rows[i], 1024, head);
        CHECK(npy_read_head(head, &r, &c, NULL) == RC_OK && r == rows[i] && c == 1024);
    }
    npy_head(UINT64_MAX, UINT64_MAX, head); /* the longest still fits */
    CHECK(head[NPY_HEAD - 1] == '\n');
}

TEST(other_heads_are_refused)
{
    char head[NPY_HEAD];
    uint64_t r = 7, c = 7;

    for (size_t at = 0; at < NPY_HEAD; at++) {
        struct err err = { 0 };

        npy_head(12, 384, head);
        head[at] ^= 2;
        if (npy_read_head(head, &r, &c, &err) == RC_OK)
            CHECK(r != 12 || c != 384); /* another digit, another shape */
    }
    memset(head, '(', sizeof(head));
    CHECK(npy_read_head(head, &r, &c, NULL) == RC_PARSE);
}

TEST(progress_says_what_is_known)
{
    struct progress p = { .done = 0.5,
                          .elapsed_ms = 4000,
                          .items = 12345,
                          .what = "texts",
                          .rate = 70400,
                          .unit = "tokens/s" };
    struct buf b = { 0 };

    progress_line(&p, 100, &b);
    assert_string_equal(buf_str(&b),
                        "[############............]  50% 12,345 texts, 70.4k tokens/s, 4 s left");
    buf_reset(&b);
    p.done = -1;
    progress_line(&p, 100, &b);
    assert_string_equal(buf_str(&b), "12,345 texts, 70.4k tokens/s");
    buf_reset(&b);
    progress_line(&p, 20, &b);
    CHECK(b.len < 20);
    buf_release(&b);
}

TEST(numbers_for_people)
{
    char t[PROGRESS_TEXT_MAX];

    assert_string_equal(progress_count(0, t), "0");
    assert_string_equal(progress_count(999, t), "999");
    assert_string_equal(progress_count(1000, t), "1,000");
    assert_string_equal(progress_count(1234567, t), "1,234,567");
    assert_string_equal(progress_rate(812, t), "812");
    assert_string_equal(progress_rate(1e6, t), "1.0M");
    assert_string_equal(progress_rate(-1, t), "-");
}

TEST_MAIN(cmocka_unit_test(head_is_what_numpy_reads), cmocka_unit_test(head_comes_back),
          cmocka_unit_test(other_heads_are_refused), cmocka_unit_test(progress_says_what_is_known),
          cmocka_unit_test(numbers_for_people))
