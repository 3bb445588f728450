/* SPDX-License-Identifier: MIT */
/* sha256, inflate and zip: known answers, and archives that lie. */
#include "test.h"

#include "base/buf.h"
#include "base/codec/codec_int.h"
#include "base/codec/inflate.h"
#include "os/file.h"
#include "os/zip.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- sha256: vectors of FIPS 180-4 --- */
static void sums_to(const char *text, size_t len, size_t piece, const char *want)
{
    uint8_t sum[SHA256_BYTES];
    char hex[SHA256_HEX];
    struct sha256 s;

    for (int plain = 0; plain < 2; plain++) { /* the CPU's instructions, where it has them */
        if (plain)
            sha256_plain(&s);
        else
            sha256_init(&s);
        for (size_t at = 0; at < len; at += piece)
            sha256_add(&s, text + at, len - at < piece ? len - at : piece);
        sha256_end(&s, sum);
        assert_string_equal(sha256_hex(sum, hex), want);
    }
}

TEST(sha256_vectors)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    char *million = malloc(1000000);

    sums_to("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    sums_to("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t piece = 1; piece < 57; piece += 11)
        sums_to(two, strlen(two), piece,
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    assert_non_null(million);
    memset(million, 'a', 1000000);
    sums_to(million, 1000000, 977,
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* Padding goes wrong at the edges of a block if anywhere. */
TEST(sha256_lengths)
{
    char text[64];

    memset(text, 'a', sizeof(text));
    sums_to(text, 55, 7, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    sums_to(text, 56, 7, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    sums_to(text, 63, 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
    sums_to(text, 64, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

/* --- inflate --- */
struct stream {
    const uint8_t *data;
    size_t left;
    struct buf out;
};

static enum rc give(void *arg, uint8_t *out, size_t cap, size_t *got, struct err *err)
{
    struct stream *s = arg;

    (void)err;
    (void)cap;
    *got = s->left ? 1 : 0; /* a byte at a time */
    if (*got)
        *out = *s->data++;
    s->left -= *got;
    return RC_OK;
}

static enum rc keep(void *arg, const uint8_t *p, size_t len, struct err *err)
{
    struct stream *s = arg;

    (void)err;
    buf_add(&s->out, p, len);
    return RC_OK;
}

static enum rc inflate_all(const void *data, size_t len, uint64_t max, struct stream *s)
{
    struct inflate_io io = { .read = give, .write = keep, .arg = s, .max = max };
    uint64_t total;

    *s = (struct stream){ .data = data, .left = len };
    return inflate_stream(&io, &total, NULL);
}

TEST(inflate_kinds)
{
    static const uint8_t stored[] = { 0x01, 0x03, 0x00, 0xfc, 0xff, 'a', 'b', 'c' };
    static const uint8_t fixed[] = { 0x4b, 0x4c, 0x4a, 0x4e, 0x49, 0x4d, 0x4b, 0x04, 0x93, 0x00 };
    struct stream s;

    assert_int_equal(inflate_all(stored, sizeof(stored), 100, &s), RC_OK);
    assert_string_equal(buf_str(&s.out), "abc");
    buf_release(&s.out);
    assert_int_equal(inflate_all(fixed, sizeof(fixed), 100, &s), RC_OK);
    assert_string_equal(buf_str(&s.out), "abcdefabcdef");
    buf_release(&s.out);
    assert_int_equal(inflate_all(fixed, sizeof(fixed), 11, &s), RC_LIMIT);
    buf_release(&s.out);
    for (size_t cut = 0; cut < sizeof(fixed) - 1; cut++) { /* every cut is noticed */
        assert_int_equal(inflate_all(fixed, cut, 100, &s), RC_PARSE);
        buf_release(&s.out);
    }
}

TEST(inflate_refuses)
{
    static const uint8_t kind3[] = { 0x07 }, length[] = { 0x01, 0x03, 0x00, 0xfc, 0xfe, 'a' };
    static const uint8_t before[] = { 0x03, 0x02 }, many[] = { 0xfd, 0xff, 0xff };
    struct stream s;

    assert_int_equal(inflate_all(kind3, 1, 100, &s), RC_PARSE);
    assert_int_equal(inflate_all(length, sizeof(length), 100, &s), RC_PARSE);
    assert_int_equal(inflate_all(before, sizeof(before), 100, &s), RC_PARSE);
    assert_int_equal(inflate_all(many, sizeof(many), 100, &s), RC_PARSE);
    buf_release(&s.out);
}

/* --- zip --- */
/* An archive with one stored entry "a" = "hello". */
static const uint8_t one_entry[] = {
    'P',  'K',  3, 4, 20, 0, 0,  0, 0, 0, 0,   0, 0,   0,   0x86, 0xa6, 0x10, 0x36,
    5,    0,    0, 0, 5,  0, 0,  0, 1, 0, 0,   0, 'a', 'h', 'e',  'l',  'l',  'o', /* 36 */
    'P',  'K',  1, 2, 20, 0, 20, 0, 0, 0, 0,   0, 0,   0,   0,    0,    0x86, 0xa6,
    0x10, 0x36, 5, 0, 0,  0, 5,  0, 0, 0, 1,   0, 0,   0,   0,    0,    0,    0,
    0,    0,    0, 0, 0,  0, 0,  0, 0, 0, 'a', /* 47 */
    'P',  'K',  5, 6, 0,  0, 0,  0, 1, 0, 1,   0, 47,  0,   0,    0,    36,   0,
    0,    0,    0, 0,
};

static enum rc take(void *arg, const void *p, size_t len, struct err *err)
{
    (void)err;
    buf_add(arg, p, len);
    return RC_OK;
}

/* Opens these bytes as an archive and reads entry "a". */
static enum rc open_bytes(const uint8_t *data, size_t len, struct buf *out, struct err *err)
{
    int fd = memfd_create("zip", MFD_CLOEXEC);
    struct zip_sink sink = { .write = take, .arg = out };
    char path[64];
    struct zip *z;
    enum rc rc;

    assert_int_equal(write(fd, data, len), len);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    rc = zip_open(path, &z, err);
    if (!rc) {
        rc = zip_find(z, "a") ? zip_read(z, zip_find(z, "a"), &sink, err) : RC_NODEV;
        zip_close(z);
    }
    close(fd);
    return rc;
}

TEST(zip_reads)
{
    struct err err = { 0 };
    struct buf out = { 0 };

    assert_int_equal(open_bytes(one_entry, sizeof(one_entry), &out, &err), RC_OK);
    assert_string_equal(buf_str(&out), "hello");
    buf_release(&out);
}

/* Each byte of the directory spoilt in turn: an error or the same text, never else. */
TEST(zip_spoilt)
{
    uint8_t bytes[sizeof(one_entry)];

    for (size_t i = 0; i < sizeof(bytes); i++) {
        struct err err = { 0 };
        struct buf out = { 0 };

        memcpy(bytes, one_entry, sizeof(bytes));
        bytes[i] ^= 0xff;
        if (open_bytes(bytes, sizeof(bytes), &out, &err) == RC_OK)
            assert_string_equal(buf_str(&out), "hello");
        buf_release(&out);
        err = (struct err){ 0 };
        assert_int_not_equal(open_bytes(one_entry, i, &out, &err), RC_OK);
        buf_release(&out);
    }
}

TEST(zip_names)
{
    static const char *const good[] = { "a", "a/b.c", "..a/b", "a/..b" };
    static const char *const bad[] = { "",     "/a",     "a/", "a//b", "..",   "../a",
                                       "a/..", "a/../b", ".",  "./a",  "a\\b", "a\nb" };

    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        CHECK(zip_name_ok(good[i]));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        CHECK(!zip_name_ok(bad[i]));
}

TEST_MAIN(cmocka_unit_test(sha256_vectors), cmocka_unit_test(sha256_lengths),
          cmocka_unit_test(inflate_kinds), cmocka_unit_test(inflate_refuses),
          cmocka_unit_test(zip_reads), cmocka_unit_test(zip_spoilt), cmocka_unit_test(zip_names))
