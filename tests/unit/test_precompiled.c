/* SPDX-License-Identifier: MIT */
/* precompiled: how chunks are chosen, the flaw that must stay, and blobs that lie.  The
 * texts of tests/fixtures/unigram-small.jsonl were normalised by the reference library. */
#include "test.h"

#include "unigram_fixture.h"

enum { UNITS = 1024, ROOT_TO = 256, VALUES_AT = 768 };

/* A map from first bytes to replacements, in a buffer that tests may spoil. */
struct blob {
    unsigned char raw[4 + 4 * UNITS + 64];
    size_t len;
};

static void put_u32(struct blob *b, size_t at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        b->raw[at + (size_t)i] = (unsigned char)(v >> (8 * i));
}

static void put_unit(struct blob *b, size_t i, uint32_t v)
{
    put_u32(b, 4 + 4 * i, v);
}

/* The byte c alone is a key, with the replacement at `value` of the pool. */
static void put_key(struct blob *b, unsigned char c, uint32_t value)
{
    uint32_t at = ROOT_TO ^ c, leaf = VALUES_AT + c;

    put_unit(b, at, (at ^ leaf) << 10 | 1 << 8 | c);
    put_unit(b, leaf, UINT32_C(1) << 31 | value);
}

static void blob_init(struct blob *b)
{
    static const char pool[] = "X\0yes\0\xC3\xA9\0"; /* and an empty one at 1 */

    memset(b, 0, sizeof(*b));
    put_u32(b, 0, 4 * UNITS);
    put_unit(b, 0, ROOT_TO << 10);
    memcpy(b->raw + 4 + 4 * UNITS, pool, sizeof(pool) - 1);
    b->len = 4 + 4 * UNITS + sizeof(pool) - 1;
    put_key(b, 'e', 2);  /* e -> yes */
    put_key(b, '\r', 0); /* CR -> X */
    put_key(b, 0x01, 1); /* gone */
    put_key(b, 0xE2, 6); /* whatever begins with E2 -> é */
    put_key(b, 0xCC, 0); /* U+0300.. -> X */
}

struct seen {
    struct buf text, chunks;
    const char *s;
};

static void seen_emit(void *arg, size_t src, size_t src_len, const char *text, size_t len)
{
    struct seen *k = arg;

    buf_add(&k->text, text, len);
    buf_addf(&k->chunks, "%s%zu+%zu", text == k->s + src ? "=" : "~", src, src_len);
}

static void check(const struct precompiled *p, const char *s, const char *text, const char *chunks)
{
    struct seen k = { .s = s };

    precompiled_apply(p, s, strlen(s), seen_emit, &k);
    assert_string_equal(buf_str(&k.text), text);
    assert_string_equal(buf_str(&k.chunks), chunks);
    buf_release(&k.text);
    buf_release(&k.chunks);
}

TEST(chunks)
{
    struct blob b;
    struct precompiled *p = NULL;

    blob_init(&b);
    assert_int_equal(precompiled_new(b.raw, b.len, &p, NULL), RC_OK);
    check(p, "", "", "");
    check(p, "abc", "abc", "=0+3");
    check(p, "aeb", "ayesb", "=0+1~1+1=2+1");
    check(p,
          "a\x01"
          "b",
          "ab", "=0+1~1+1=2+1");
    check(p, "a\r\nb", "aXb", "=0+1~1+2=3+1");
    check(p, "\r", "X", "~0+1");
    /* the flaw: the accent is lost with the cluster, below six bytes */
    check(p, "e\xCC\x81z", "yesz", "~0+3=3+1");
    check(p, "e\xCC\x81\xCC\x81z", "yesz", "~0+5=5+1");
    /* six bytes and more go by characters */
    check(p, "e\xE2\x83\x90\xCC\x81z", "yes\xC3\xA9Xz", "~0+1~1+3~4+2=6+1");
    /* no key begins the cluster, but one a character of it */
    check(p, "a\xCC\x81", "aX", "=0+1~1+2");
    check(p, "\xD0\xB6\xD0\xB6", "\xD0\xB6\xD0\xB6", "=0+4");
    check(p,
          "\xFF"
          "e",
          "\xFFyes", "=0+1~1+1"); /* not UTF-8: kept */
    precompiled_free(p);
    precompiled_free(NULL);
}

static void refuse(const struct blob *b, size_t len, const char *word)
{
    struct precompiled *p = NULL;
    struct err err = { 0 };

    assert_int_equal(precompiled_new(b->raw, len, &p, &err), RC_PARSE);
    assert_non_null(strstr(err.msg, word));
    assert_null(p);
}

TEST(lies)
{
    struct blob b;
    struct precompiled *p = NULL;

    blob_init(&b);
    refuse(&b, 0, "cut short");
    refuse(&b, 3, "cut short");
    refuse(&b, 4, "bytes of array");
    refuse(&b, 4 * UNITS, "bytes of array");
    put_u32(&b, 0, UINT32_MAX);
    refuse(&b, b.len, "bytes of array");
    put_u32(&b, 0, 0);
    refuse(&b, b.len, "array of 0 bytes");
    put_u32(&b, 0, 4 * UNITS - 1);
    refuse(&b, b.len, "array of 4095 bytes");
    put_u32(&b, 0, 400); /* less than a block */
    refuse(&b, b.len, "UTF-8");
    blob_init(&b);
    put_unit(&b, 0, UINT32_C(1) << 31 | 5u << 10); /* the root is no value */
    refuse(&b, b.len, "outside");
    blob_init(&b);
    put_unit(&b, 0, UINT32_MAX >> 1);
    refuse(&b, b.len, "outside");
    blob_init(&b);
    put_unit(&b, ROOT_TO ^ 'e', 'e' | UNITS << 10);
    refuse(&b, b.len, "outside");
    blob_init(&b);
    put_key(&b, 'e', 4000);
    refuse(&b, b.len, "no replacement");
    put_key(&b, 'e', 7); /* within a character */
    refuse(&b, b.len, "no replacement");
    put_key(&b, 'e', 9); /* the end: empty */
    CHECK(precompiled_new(b.raw, b.len, &p, NULL) == RC_OK);
    check(p, "aeb", "ab", "=0+1~1+1=2+1");
    precompiled_free(p);
    b.raw[b.len - 1] = 0xC3;
    refuse(&b, b.len, "UTF-8");
    CHECK(precompiled_new(b.raw, (size_t)PRECOMPILED_BYTES_MAX + 1, &p, NULL) == RC_LIMIT);
}

TEST(a_circle_ends_with_the_key)
{
    struct blob b;
    struct precompiled *p = NULL;

    blob_init(&b);
    put_unit(&b, ROOT_TO ^ 'o', 'o' | (uint32_t)'o' << 10); /* its children are the root's */
    assert_int_equal(precompiled_new(b.raw, b.len, &p, NULL), RC_OK);
    check(p, "oooo", "oooo", "=0+4");
    check(p, "o\xCC\x81", "X", "~0+3"); /* o leads back, CC is a key there */
    precompiled_free(p);
}

TEST(texts_of_the_library)
{
    struct fixture f;
    struct arena a = { 0 };
    struct buf file = { 0 };
    struct err err = { 0 };

    assert_int_equal(fixture_load("tests/fixtures/unigram-small.json", &f, &err), RC_OK);
    assert_true(fixture_file("tests/fixtures/unigram-small.jsonl", &file));
    for (char *p = file.data, *end; (end = strchr(p, '\n')) != NULL; p = end + 1) {
        struct json *row;
        assert_int_equal(json_parse(&a, p, (size_t)(end - p), &row, &err), RC_OK);
        const struct json *text = json_get(row, "text"), *want = json_get(row, "normal");
        buf_reset(&f.text);
        precompiled_apply(f.map, text->text, text->len, fixture_emit, &f.text);
        assert_int_equal(f.text.len, want->len);
        assert_memory_equal(buf_str(&f.text), want->text, want->len);
    }
    buf_release(&file);
    arena_release(&a);
    fixture_release(&f);
}

TEST_MAIN(cmocka_unit_test(chunks), cmocka_unit_test(lies),
          cmocka_unit_test(a_circle_ends_with_the_key), cmocka_unit_test(texts_of_the_library))
