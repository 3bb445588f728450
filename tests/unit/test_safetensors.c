/* SPDX-License-Identifier: MIT */
/* safetensors: what is written reads back; every lie of a header is told. */
#include "test.h"

#include "base/buf.h"
#include "base/str.h"
#include "model/weights/safetensors_int.h"
#include "model_box.h"

#include <math.h>

static char *folder(void)
{
    char name[] = "/tmp/stoker-st-XXXXXX";

    return xstrdup(mkdtemp(name) ? name : "");
}

/* A file of `header` and `data` bytes of zeros; `len` 0: the header's own length. */
static void put_raw(const char *dir, const char *name, const char *header, size_t data,
                    uint64_t len)
{
    char path[BOX_PATH_MAX], zero = 0;
    FILE *f;

    box_path(path, dir, name);
    f = fopen(path, "wb");
    assert_non_null(f);
    len = len ? len : strlen(header);
    fwrite(&len, 8, 1, f);
    fputs(header, f);
    for (size_t i = 0; i < data; i++)
        fwrite(&zero, 1, 1, f);
    fclose(f);
}

static void refused(const char *header, size_t data, uint64_t len, const char *why)
{
    char *dir = folder();
    struct err err = { 0 };
    struct st *s = NULL;

    put_raw(dir, "model.safetensors", header, data, len);
    assert_int_not_equal(st_open(dir, &s, &err), RC_OK);
    assert_null(s);
    if (!strstr(err.msg, why))
        fail_msg("'%s' does not say '%s'", err.msg, why);
    CHECK(strstr(err.msg, "model.safetensors") != NULL);
    box_remove(dir);
}

#define T(name, dtype, shape, from, to)                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

TEST(headers_that_lie)
{
    refused("{" T("a", "F32", "[2]", "0", "8") "}", 8, 1u << 30, "the header wants");
    refused("{" T("a", "F32", "[2]", "0", "8") "}", 4, 0, "'data_offsets' ends at 8");
    refused("{" T("a", "F32", "[2]", "0", "8") "}", 12, 0, "4 bytes at the end");
    refused("{" T("a", "F32", "[3]", "0", "8") "}", 8, 0, "want 12 bytes");
    refused("{" T("a", "Q4", "[2]", "0", "8") "}", 8, 0, "dtype 'Q4'");
    refused("{" T("a", "F32", "[-2]", "0", "8") "}", 8, 0, "something other than a size");
    refused("{" T("a", "F32", "[1.5]", "0", "8") "}", 8, 0, "something other than a size");
    refused("{" T("a", "F32", "2", "0", "8") "}", 8, 0, "'shape' is not a list");
    refused("{" T("a", "F32", "[9223372036854775807,3]", "0", "8") "}", 8, 0, "larger than any");
    refused("{" T("a", "F64", "[4611686018427387904]", "0", "8") "}", 8, 0, "larger than any");
    refused("{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, 0, "9 dimensions");
    refused("{" T("a", "F32", "[2]", "8", "0") "}", 8, 0, "rising");
    refused("{" T("a", "F32", "[2]", "-8", "0") "}", 8, 0, "rising");
    refused("{" T("a", "F32", "[2]", "0", "8") "," T("b", "F32", "[2]", "4", "12") "}", 12, 0,
            "overlaps");
    refused("{" T("a", "F32", "[1]", "0", "4") "," T("b", "F32", "[1]", "8", "12") "}", 12, 0,
            "belong to no tensor");
    refused("{" T("a", "F32", "[1]", "0", "4") "," T("a", "F32", "[1]", "4", "8") "}", 8, 0,
            "twice");
    refused("{\"a\":3}", 0, 0, "not described by an object");
    refused("{\"a\":{\"shape\":[1]}}", 0, 0, "'dtype' is not given");
    refused("[1]", 0, 0, "not an object");
    refused("{\"__metadata__\":{}}", 0, 0, "no tensor");
    refused("{\"a\":", 0, 0, "line 1");
    refused("version https://git-lfs", 0, 0x206e6f6973726576u, "Git LFS");
}

TEST(deep_header)
{
    struct buf b = { 0 };

    buf_adds(&b, "{\"a\":");
    buf_fill(&b, '[', 5000);
    refused(buf_str(&b), 0, 0, "header: line 1");
    buf_release(&b);
}

TEST(short_files)
{
    char *dir = folder();
    struct err err = { 0 };
    struct st *s;

    assert_int_equal(st_open(dir, &s, &err), RC_NODEV);
    box_put(dir, "pytorch_model.bin", "x");
    err = (struct err){ 0 };
    assert_int_equal(st_open(dir, &s, &err), RC_NODEV);
    CHECK(strstr(err.hint, "model convert") != NULL);
    box_put(dir, "model.safetensors", "1234");
    err = (struct err){ 0 };
    assert_int_equal(st_open(dir, &s, &err), RC_PARSE);
    CHECK(strstr(err.msg, "too short") != NULL);
    box_remove(dir);
}

/* --- writing and reading --- */
static enum rc fill_bytes(void *arg, size_t i, uint64_t first, void *out, size_t count,
                          struct err *err)
{
    const unsigned char *const *data = arg;

    (void)err;
    memcpy(out, data[i] + first, count);
    return RC_OK;
}

TEST(round_trip)
{
    const float f[6] = { 1, -2, 0.5f, 1e-40f, INFINITY, 3 };
    const uint16_t h[3] = { 0x3c00, 0x0001, 0xfc00 }, b[2] = { 0x3f80, 0xc000 };
    const int64_t l[2] = { -5, 1ll << 40 };
    const uint8_t flag[3] = { 0, 1, 7 };
    const double d[1] = { 0.1 };
    const void *data[] = { flag, f, h, b, l, d, f };
    const struct st_new list[] = {
        { "flag", ST_BOOL, { 3 }, 1 },   { "f", ST_F32, { 2, 3 }, 2 }, { "h", ST_F16, { 3 }, 1 },
        { "b", ST_BF16, { 2, 1 }, 2 },   { "l", ST_I64, { 2 }, 1 },    { "d", ST_F64, { 0 }, 0 },
        { "none", ST_F32, { 0, 4 }, 2 },
    };
    char *dir = folder(), path[BOX_PATH_MAX];
    struct st_source from = { .fill = fill_bytes, .arg = data };
    struct err err = { 0 };
    float out[6];
    struct st *s;

    box_path(path, dir, "model.safetensors");
    assert_int_equal(st_write(path, list, ARRAY_SIZE(list), &from, &err), RC_OK);
    assert_int_equal(st_open(dir, &s, &err), RC_OK);
    assert_int_equal(st_count(s), ARRAY_SIZE(list));
    assert_string_equal(st_at(s, 0)->name, "b");
    assert_null(st_find(s, "x"));
    assert_int_equal(st_find(s, "f")->offset % 4, 0);
    assert_int_equal(st_find(s, "l")->offset % 8, 0);
    assert_int_equal(st_find(s, "none")->count, 0);
    assert_int_equal(st_read_f32(s, st_find(s, "f"), 1, 5, out, &err), RC_OK);
    CHECK(out[0] == -2 && out[2] == 1e-40f && isinf(out[3]) && out[4] == 3);
    assert_int_equal(st_read_f32(s, st_find(s, "h"), 0, 3, out, &err), RC_OK);
    CHECK(out[0] == 1 && out[1] == 0x1p-24f && out[2] == -INFINITY);
    assert_int_equal(st_read_f32(s, st_find(s, "b"), 0, 2, out, &err), RC_OK);
    CHECK(out[0] == 1 && out[1] == -2);
    assert_int_equal(st_read_f32(s, st_find(s, "l"), 0, 2, out, &err), RC_OK);
    CHECK(out[0] == -5 && out[1] == 0x1p40f);
    assert_int_equal(st_read_f32(s, st_find(s, "flag"), 0, 3, out, &err), RC_OK);
    CHECK(out[0] == 0 && out[1] == 1 && out[2] == 1);
    assert_int_equal(st_read_f32(s, st_find(s, "d"), 0, 1, out, &err), RC_OK);
    CHECK(out[0] == 0.1f && st_find(s, "d")->ndim == 0);
    /* a file that shrinks under us is an error */
    assert_int_equal(truncate(path, (off_t)st_find(s, "f")->offset), 0);
    assert_int_equal(st_read_f32(s, st_find(s, "f"), 0, 6, out, &err), RC_FAIL);
    CHECK(strstr(err.msg, "tensor 'f'") && strstr(err.msg, "ends at byte"));
    st_close(s);
    box_remove(dir);
}

TEST(write_fails_whole)
{
    const struct st_new list[] = { { "f", ST_F32, { 1 }, 1 } };
    const float f = 1;
    const void *data[] = { &f };
    struct st_source from = { .fill = fill_bytes, .arg = data };
    struct err err = { 0 };

    assert_int_not_equal(st_write("/nonexistent/x", list, 1, &from, &err), RC_OK);
    CHECK(strstr(err.msg, "/nonexistent/x") != NULL);
}

/* --- shards --- */
TEST(shards)
{
    const char *index = "{\"weight_map\":{\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\"}}";
    char *dir = folder();
    struct err err = { 0 };
    struct st *s;

    box_put(dir, "model.safetensors.index.json", index);
    put_raw(dir, "m-1.safetensors", "{" T("a", "F32", "[1]", "0", "4") "}", 4, 0);
    assert_int_not_equal(st_open(dir, &s, &err), RC_OK);
    CHECK(strstr(err.msg, "m-2.safetensors") != NULL);
    put_raw(dir, "m-2.safetensors", "{" T("c", "F32", "[1]", "0", "4") "}", 4, 0);
    err = (struct err){ 0 };
    assert_int_equal(st_open(dir, &s, &err), RC_PARSE);
    CHECK(strstr(err.msg, "tensor 'b' is not in its shard") != NULL);
    put_raw(dir, "m-2.safetensors", "{" T("a", "F32", "[1]", "0", "4") "}", 4, 0);
    err = (struct err){ 0 };
    assert_int_equal(st_open(dir, &s, &err), RC_PARSE);
    CHECK(strstr(err.msg, "twice") != NULL);
    put_raw(dir, "m-2.safetensors", "{" T("b", "F32", "[1]", "0", "4") "}", 4, 0);
    assert_int_equal(st_open(dir, &s, &err), RC_OK);
    assert_int_equal(st_count(s), 2);
    assert_int_equal(st_shards(s), 2);
    CHECK(st_find(s, "a")->shard != st_find(s, "b")->shard);
    st_close(s);
    box_remove(dir);
}

TEST(shard_names_stay_here)
{
    static const char *const bad[] = { "{\"weight_map\":{\"a\":\"../x\"}}",
                                       "{\"weight_map\":{\"a\":\"/etc/passwd\"}}",
                                       "{\"weight_map\":{\"a\":\"\"}}",
                                       "{\"weight_map\":{\"a\":3}}",
                                       "{\"weight_map\":[]}",
                                       "{}",
                                       "{" };
    char *dir = folder();

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct err err = { 0 };
        struct st *s;

        box_put(dir, "model.safetensors.index.json", bad[i]);
        assert_int_equal(st_open(dir, &s, &err), RC_PARSE);
        CHECK(strstr(err.msg, "index.json") != NULL);
    }
    box_remove(dir);
}

/* --- conversions --- */
TEST(halves_are_exact)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = st_f16_to_f32((uint16_t)h);
        int exp = (int)(h >> 10 & 31);
        double want = exp ? ldexp(1024 + (h & 1023), exp - 25) : ldexp(h & 1023, -24);

        if (exp == 31) {
            CHECK((h & 1023) ? isnan(f) : isinf(f));
            CHECK((st_f32_to_f16(f) & 0x7c00) == 0x7c00);
            CHECK(((st_f32_to_f16(f) & 1023) != 0) == ((h & 1023) != 0));
        } else {
            CHECK(f == (float)(h & 0x8000 ? -want : want));
            assert_int_equal(st_f32_to_f16(f), h);
        }
        f = st_bf16_to_f32((uint16_t)h);
        if (!isnan(f))
            assert_int_equal(st_f32_to_bf16(f), h);
        else
            CHECK(isnan(st_bf16_to_f32(st_f32_to_bf16(f))));
    }
}

TEST(many_at_once)
{
    uint16_t h[37];
    float f[37], b[37];

    for (size_t i = 0; i < 37; i++)
        h[i] = (uint16_t)(i * 1777);
    st_f16s_to_f32(h, 37, f);
    st_bf16s_to_f32(h, 37, b);
    for (size_t i = 0; i < 37; i++) {
        float x = st_f16_to_f32(h[i]), y = st_bf16_to_f32(h[i]);

        assert_memory_equal(&f[i], &x, 4);
        assert_memory_equal(&b[i], &y, 4);
    }
}

TEST(rounding_to_even)
{
    assert_int_equal(st_f32_to_f16(65519.99f), 0x7bff);
    assert_int_equal(st_f32_to_f16(65520), 0x7c00);
    assert_int_equal(st_f32_to_f16(-1e30f), 0xfc00);
    assert_int_equal(st_f32_to_f16(1 + 0x1p-11f), 0x3c00);
    assert_int_equal(st_f32_to_f16(1 + 3 * 0x1p-11f), 0x3c02);
    assert_int_equal(st_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(st_f32_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(st_f32_to_f16(0x1.ffap-15f), 0x03ff);
    assert_int_equal(st_f32_to_f16(0x1.ffcp-15f), 0x0400);
    assert_int_equal(st_f32_to_f16(1e-45f), 0);
    assert_int_equal(st_f32_to_bf16(1 + 0x1p-8f), 0x3f80);
    assert_int_equal(st_f32_to_bf16(1 + 3 * 0x1p-8f), 0x3f82);
    assert_int_equal(st_f32_to_bf16(3.4e38f), 0x7f80);
}

TEST_MAIN(cmocka_unit_test(headers_that_lie), cmocka_unit_test(deep_header),
          cmocka_unit_test(short_files), cmocka_unit_test(round_trip),
          cmocka_unit_test(write_fails_whole), cmocka_unit_test(shards),
          cmocka_unit_test(shard_names_stay_here), cmocka_unit_test(halves_are_exact),
          cmocka_unit_test(many_at_once), cmocka_unit_test(rounding_to_even))
