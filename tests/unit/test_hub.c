/* SPDX-License-Identifier: MIT */
/* Names of the Hub, its digests, the list of a repository and the choice among its files. */
#include "test.h"

#include "base/codec/sha1.h"
#include "base/str.h"
#include "model/hub/hub_int.h"

#include <string.h>

TEST(names)
{
    static const struct {
        const char *in, *repo, *revision; /* repo NULL: refused */
    } rows[] = {
        { "org/name", "org/name", "main" },
        { "BAAI/bge-m3@v1.0", "BAAI/bge-m3", "v1.0" },
        { "a/b@refs/pr/12", "a/b", "refs/pr/12" },
        { "a_1/b.c-d", "a_1/b.c-d", "main" },
        { "name", NULL, NULL },
        { "./name", NULL, NULL },
        { "../name", NULL, NULL },
        { "/srv/models", NULL, NULL },
        { "a/b/c", NULL, NULL },
        { "a/", NULL, NULL },
        { "/a", NULL, NULL },
        { "a/b--c", NULL, NULL },
        { "a/b..c", NULL, NULL },
        { "a/.b", NULL, NULL },
        { "a/b-", NULL, NULL },
        { "a/b.git", NULL, NULL },
        { "a/b c", NULL, NULL },
        { "a/b@", NULL, NULL },
        { "a/b@../x", NULL, NULL },
        { "a/b@x y", NULL, NULL },
        { "a/b@/x", NULL, NULL },
        { "a@b/c", NULL, NULL },
        { "", NULL, NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct hub_name n = { .repo = "x" };

        CHECK(hub_name_parse(rows[i].in, &n) == (rows[i].repo != NULL));
        assert_string_equal(n.repo, rows[i].repo ? rows[i].repo : "x");
        if (rows[i].repo)
            assert_string_equal(n.revision, rows[i].revision);
    }
}

TEST(etags)
{
    static const struct {
        const char *in, *want; /* NULL: refused */
    } rows[] = {
        { "\"abc\"", "abc" },         { "W/\"abc\"", "abc" }, { "abc", "abc" },
        { "\"a-b_c.d\"", "a-b_c.d" }, { "", NULL },           { "\"\"", NULL },
        { "\"..\"", NULL },           { "\"../x\"", NULL },   { "a/b", NULL },
        { "\"a b\"", NULL },          { "\".x\"", NULL },     { "\"a", NULL },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char out[HUB_ETAG_MAX + 1] = "x";

        CHECK(hub_etag_parse(rows[i].in, out) == (rows[i].want != NULL));
        assert_string_equal(out, rows[i].want ? rows[i].want : "x");
    }
}

/* What is taken of these names, with folder "1_Pooling". */
static void chosen(const char *const *paths, size_t count, const char *want)
{
    static const char *const folders[] = { "1_Pooling" };
    struct hub_file files[16] = { 0 };
    struct hub_list l = { .files = files, .count = count };
    struct buf got = { 0 };

    for (size_t i = 0; i < count; i++)
        files[i].path = paths[i];
    hub_list_choose(&l, folders, 1);
    for (size_t i = 0; i < count; i++)
        if (files[i].wanted)
            buf_addf(&got, "%s ", paths[i]);
    assert_string_equal(buf_str(&got), want);
    buf_release(&got);
}

TEST(the_choice)
{
    static const char *const both[] = { "config.json",         "pytorch_model.bin",
                                        "model.safetensors",   "onnx/config.json",
                                        "README.md",           "1_Pooling/config.json",
                                        "2_Dense/config.json", "sentence_bert_config.json" };
    static const char *const shards[] = { "model.safetensors.index.json",
                                          "model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors", "model.safetensors",
                                          "model.fp16.safetensors" };
    static const char *const torch[] = { "pytorch_model.bin.index.json",
                                         "pytorch_model-00001-of-00001.bin", "pytorch_model.bin",
                                         "tf_model.h5", "vocab.txt" };
    static const char *const deep[] = { "1_Pooling/model.safetensors", "1_Pooling/x/config.json",
                                        "1_Poolingx/config.json" };

    chosen(both, ARRAY_SIZE(both),
           "config.json model.safetensors 1_Pooling/config.json sentence_bert_config.json ");
    chosen(shards, ARRAY_SIZE(shards),
           "model.safetensors.index.json model-00001-of-00002.safetensors "
           "model-00002-of-00002.safetensors ");
    chosen(torch, ARRAY_SIZE(torch),
           "pytorch_model.bin.index.json pytorch_model-00001-of-00001.bin vocab.txt ");
    chosen(deep, ARRAY_SIZE(deep), "1_Pooling/model.safetensors ");
}

#define SHA "c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff"
TEST(lists)
{
    static const char good[] =
        "{\"sha\":\"" SHA "\",\"siblings\":[{\"rfilename\":\"a\",\"size\":5,\"blobId\":\"" SHA
        "\"},"
        "{\"rfilename\":\"b/c\",\"size\":1,\"blobId\":\"" SHA "\",\"lfs\":{\"size\":7,\"sha256\":"
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}},"
        "{\"rfilename\":\"d\"},{\"rfilename\":\"e\",\"blobId\":\"" SHA "\",\"lfs\":{\"size\":7}}]}";
    struct hub_list l = { 0 };

    CHECK(!hub_list_parse(good, strlen(good), &l, NULL));
    CHECK(l.count == 4 && str_eq(l.commit, SHA));
    CHECK(l.files[0].bytes == 5 && str_eq(l.files[0].etag, SHA));
    CHECK(l.files[1].bytes == 7 && strlen(l.files[1].etag) == 64);
    CHECK(l.files[2].bytes == -1 && !l.files[2].etag[0]);
    CHECK(!l.files[3].etag[0]); /* the pointer's digest is not the file's */
    CHECK(hub_list_find(&l, "b/c") == &l.files[1] && !hub_list_find(&l, "b"));
    hub_list_release(&l);
    for (size_t cut = 0; cut + 1 < sizeof(good) - 1; cut++)
        CHECK(hub_list_parse(good, cut, &l, NULL) == RC_PARSE);
}

TEST(quoting)
{
    struct buf b = { 0 };

    hub_add_quoted(&b, "a b/c?d#e%f\xc3\xa9", true);
    assert_string_equal(buf_str(&b), "a%20b/c%3Fd%23e%25f%C3%A9");
    buf_reset(&b);
    hub_add_quoted(&b, "refs/pr/1", false);
    assert_string_equal(buf_str(&b), "refs%2Fpr%2F1");
    buf_release(&b);
}

TEST(sha1_known_answers)
{
    static const struct {
        const char *in, *want;
    } rows[] = {
        { "", "da39a3ee5e6b4b0d3255bfef95601890afd80709" },
        { "abc", "a9993e364706816aba3e25717850c26c9cd0d89d" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "84983e441c3bd26ebaae4aa1f95129e5e54670f1" },
    };
    uint8_t sum[SHA1_BYTES];
    char hex[SHA1_HEX];
    struct sha1 s;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        sha1_init(&s);
        for (const char *p = rows[i].in; *p; p++)
            sha1_add(&s, p, 1);
        sha1_end(&s, sum);
        assert_string_equal(sha1_hex(sum, hex), rows[i].want);
    }
    sha1_init(&s);
    for (int i = 0; i < 1000; i++) {
        char block[1000];

        memset(block, 'a', sizeof(block));
        sha1_add(&s, block, sizeof(block));
    }
    sha1_end(&s, sum);
    assert_string_equal(sha1_hex(sum, hex), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST_MAIN(cmocka_unit_test(names), cmocka_unit_test(etags), cmocka_unit_test(the_choice),
          cmocka_unit_test(lists), cmocka_unit_test(quoting), cmocka_unit_test(sha1_known_answers))
