/* SPDX-License-Identifier: MIT */
/* render/text/text_diff.c: what it prints is what patch(1) takes, whatever the two texts are. */
#include "test.h"

#include "base/mem.h"
#include "render/text/text_diff_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct render_text text_of(const char *s)
{
    return (struct render_text){ s, strlen(s) };
}

static void check_diff(const char *a, const char *b, const char *want)
{
    struct buf out = { 0 };

    render_diff_text(text_of(a), text_of(b), &out);
    assert_string_equal(buf_str(&out), want);
    buf_release(&out);
}

TEST(known_diffs)
{
    check_diff("", "", "");
    check_diff("a\nb\n", "a\nb\n", "");
    check_diff("", "a\n", "@@ -0,0 +1 @@\n+a\n");
    check_diff("a\n", "", "@@ -1 +0,0 @@\n-a\n");
    check_diff("a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    check_diff("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
               "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
    /* six equal lines between two changes make one hunk, seven make two */
    check_diff("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
               "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
    check_diff("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
               "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}

/* The shortest way: no more lines out and in than differ. */
TEST(edits_are_few)
{
    struct buf a = { 0 }, b = { 0 }, out = { 0 };
    size_t signs = 0;

    for (int i = 0; i < 500; i++) {
        buf_addf(&a, "%d\n", i);
        if (i % 50 != 7)
            buf_addf(&b, "%d\n", i);
    }
    render_diff_text((struct render_text){ a.data, a.len }, (struct render_text){ b.data, b.len },
                     &out);
    for (const char *p = buf_str(&out); *p; p = strchr(p, '\n') + 1)
        signs += *p == '-' || *p == '+';
    assert_int_equal(signs, 10);
    buf_release(&a);
    buf_release(&b);
    buf_release(&out);
}

/* ---- random texts through patch(1) ---- */

static uint32_t seed = 1;

static unsigned below(unsigned n)
{
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 8) % n;
}

/* Lines of few words, so that many are equal; now and then no newline at the end, a tab, a line
 * that looks like one of a diff. */
static void random_text(struct buf *out, unsigned lines)
{
    static const char *const words[] = { "a",     "b",         "c", "",    "--- x", "+++ y",
                                         "@@ -1", "\\ No new", "d", "\te", " f" };

    for (unsigned i = 0; i < lines; i++)
        buf_addf(out, "%s\n", words[below(sizeof(words) / sizeof(*words))]);
    if (out->len && below(4) == 0)
        out->data[--out->len] = '\0';
}

static void change_text(const struct buf *from, struct buf *out)
{
    for (const char *p = buf_str(from); *p;) {
        size_t len = strcspn(p, "\n") + 1;

        if (p[len - 1] == '\0')
            len--;
        if (below(8))
            buf_add(out, p, len);
        if (!below(8) && out->len && out->data[out->len - 1] == '\n')
            random_text(out, 1 + below(3));
        if (out->len && out->data[out->len - 1] != '\n')
            break;
        p += len;
    }
}

static void put(const char *path, const char *p, size_t len)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

static void patch_gives(const struct buf *a, const struct buf *b, int round)
{
    struct buf diff = { 0 }, got = { 0 };
    char chunk[4096];
    size_t n;
    FILE *f;
    int status;

    buf_adds(&diff, "--- a/t\n+++ b/t\n");
    render_diff_text((struct render_text){ buf_str(a), a->len },
                     (struct render_text){ buf_str(b), b->len }, &diff);
    if (a->len == b->len && !memcmp(buf_str(a), buf_str(b), a->len)) {
        assert_null(strstr(buf_str(&diff), "@@"));
        buf_release(&diff);
        return;
    }
    put("t", buf_str(a), a->len);
    put("t.diff", diff.data, diff.len);
    status = system("patch -s -f -p1 -F0 --no-backup-if-mismatch <t.diff >t.log 2>&1");
    if (status)
        print_message("# round %d: patch says %d\n%s\n", round, status, buf_str(&diff));
    assert_int_equal(status, 0);
    f = fopen("t", "r"); /* patch removes a file that becomes empty */
    while (f && (n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        buf_add(&got, chunk, n);
    if (f)
        (void)fclose(f);
    assert_int_equal(got.len, b->len);
    assert_memory_equal(buf_str(&got), buf_str(b), b->len);
    buf_release(&diff);
    buf_release(&got);
}

TEST(patch_takes_random_diffs)
{
    char dir[] = "/tmp/stoker-diff.XXXXXX";

    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    for (int i = 0; i < 150; i++) {
        struct buf a = { 0 }, b = { 0 };

        random_text(&a, below(60));
        if (below(5))
            change_text(&a, &b);
        else
            random_text(&b, below(60));
        patch_gives(&a, &b, i);
        buf_release(&a);
        buf_release(&b);
    }
    (void)unlink("t");
    (void)unlink("t.diff");
    (void)unlink("t.log");
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(dir), 0);
}

/* Beyond the limit of edits it is all out, all in, and still right. */
TEST(texts_far_apart)
{
    struct buf a = { 0 }, b = { 0 }, out = { 0 };

    buf_adds(&a, "same\n");
    buf_adds(&b, "same\n");
    for (int i = 0; i < 3000; i++) {
        buf_addf(&a, "a%d\n", i);
        buf_addf(&b, "b%d\n", i);
    }
    render_diff_text((struct render_text){ a.data, a.len }, (struct render_text){ b.data, b.len },
                     &out);
    assert_true(strstr(buf_str(&out), "@@ -1,3001 +1,3001 @@\n same\n-a0\n") == buf_str(&out));
    assert_non_null(strstr(buf_str(&out), "-a2999\n+b0\n"));
    buf_release(&a);
    buf_release(&b);
    buf_release(&out);
}

static void check_merge(const char *base, const char *mine, const char *theirs, const char *want)
{
    struct buf out = { 0 };
    bool ok = render_merge_text(text_of(base), text_of(mine), text_of(theirs), &out);

    assert_int_equal(ok, want != NULL);
    if (want)
        assert_string_equal(buf_str(&out), want);
    buf_release(&out);
}

TEST(merges)
{
    check_merge("", "", "", "");
    check_merge("a\nb\nc\n", "a\nb\nc\n", "a\nB\nc\n", "a\nB\nc\n");
    check_merge("a\nb\nc\n", "a\nB\nc\n", "a\nb\nc\n", "a\nB\nc\n");
    check_merge("a\nb\nc\nd\n", "A\nb\nc\nd\n", "a\nb\nc\nD\n", "A\nb\nc\nD\n");
    check_merge("a\nb\nc\n", "a\nc\n", "a\nb\nc\nd\n", "a\nc\nd\n");
    check_merge("a\nb\nc\n", "x\na\nb\nc\n", "a\nb\n", "x\na\nb\n");
    check_merge("a\nb\n", "a\nX\n", "a\nX\n", "a\nX\n"); /* both the same */
    check_merge("a\nb\n", "a\nX\n", "a\nY\n", NULL);
    check_merge("a\nb\n", "A\nb\n", "a\nB\n", NULL); /* side by side */
    check_merge("a\n", "a\nmine\n", "a\ntheirs\n", NULL);
    check_merge("a\nb", "a\nb\nmine", "A\nb", NULL); /* the last line has no end: it changed too */
    check_merge("a\nx\nb", "a\nx\nb\nmine", "A\nx\nb", "A\nx\nb\nmine");
}

TEST_MAIN(cmocka_unit_test(merges), cmocka_unit_test(known_diffs), cmocka_unit_test(edits_are_few),
          cmocka_unit_test(patch_takes_random_diffs), cmocka_unit_test(texts_far_apart))
