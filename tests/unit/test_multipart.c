/* SPDX-License-Identifier: MIT */
/* test_multipart: forms with files, whole and cut anywhere; lines of a batch. */
#include "base/str.h"
#include "serve/bulk/multipart_int.h"
#include "serve/bulk/offline_int.h"
#include "test.h"

#include <string.h>

static enum rc take(void *arg, const struct multipart_part *part, const char *data, size_t len,
                    struct err *err)
{
    struct buf *out = arg;

    (void)err;
    if (!data)
        buf_addf(out, "[%s|%s]", part->name, part->filename);
    else
        buf_add(out, data, len);
    return RC_OK;
}

/* In pieces of `piece` bytes: what came out, or "error". */
static void read_form(const char *type, const char *body, size_t len, size_t piece, struct buf *out)
{
    struct multipart m;
    enum rc rc = multipart_init(&m, type, NULL);

    m.take = take;
    m.arg = out;
    for (size_t at = 0; rc == RC_OK && at < len; at += piece) {
        struct err err = { 0 };

        rc = multipart_feed(&m, body + at, len - at < piece ? len - at : piece, &err);
    }
    if (rc == RC_OK)
        rc = multipart_finish(&m, NULL);
    if (rc != RC_OK) {
        buf_reset(out);
        buf_adds(out, "error");
    }
    multipart_release(&m);
}

TEST(forms_are_the_same_however_they_are_cut)
{
    static const char type[] = "multipart/form-data; boundary=\"xyz\"";
    static const struct {
        const char *body, *want;
    } rows[] = {
        { "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nv\r\n--xyz--\r\n", "[a|]v" },
        { "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--xyz--", "[a|]" },
        { "before\r\n--xyz\r\ncontent-disposition: form-data; filename=\"q\\\"x.y\"; name=f\r\nX: "
          "y\r\n\r\nl1\r\nl2\r\n--xy\r\n--xyz\r\nContent-Disposition: form-data; "
          "name=\"b\"\r\n\r\n\r\n\r\n--xyz--after",
          "[f|q\"x.y]l1\r\nl2\r\n--xy[b|]\r\n" },
        { "--xyz--\r\n", "" },
        { "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nv\r\n--xyz", "error" },
        { "--xyz\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nv\r\n--xyzz\r\n", "error" },
        { "--xyz\r\nX: y\r\n\r\nv\r\n--xyz--", "error" },
        { "--xyz\r\n\r\nv\r\n--xyz--", "error" },
        { "nothing", "error" },
        { "", "error" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        for (size_t piece = 1; piece < 200; piece += piece < 20 ? 1 : 37) {
            struct buf out = { 0 };

            read_form(type, rows[i].body, strlen(rows[i].body), piece, &out);
            if (!str_eq(buf_str(&out), rows[i].want))
                fail_msg("row %zu, pieces of %zu: '%s'", i, piece, buf_str(&out));
            buf_release(&out);
        }
}

TEST(content_types)
{
    static const struct {
        const char *type;
        bool ok;
    } rows[] = {
        { "multipart/form-data; boundary=a", true },
        { "Multipart/Form-Data; charset=utf-8; BOUNDARY=\"a b\"", true },
        { "multipart/form-data", false },
        { "multipart/form-data; boundary=", false },
        { "multipart/mixed; boundary=a", false },
        { "multipart/form-data; boundary=\"a", false },
        { "multipart/form-data; boundary="
          "0123456789012345678901234567890123456789012345678901234567890123456789x",
          false },
        { NULL, false },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct multipart m;
        bool ok = multipart_init(&m, rows[i].type, NULL) == RC_OK;

        if (ok != rows[i].ok)
            fail_msg("row %zu", i);
        multipart_release(&m);
    }
}

TEST(heads_have_a_limit)
{
    struct buf body = { 0 }, out = { 0 };

    buf_adds(&body, "--b\r\nX: ");
    buf_fill(&body, 'y', 100000);
    read_form("multipart/form-data; boundary=b", body.data, body.len, 4096, &out);
    CHECK(str_eq(out.data, "error"));
    buf_reset(&body);
    buf_reset(&out);
    for (int i = 0; i < MULTIPART_PARTS_MAX + 1; i++)
        buf_adds(&body, "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n");
    buf_adds(&body, "--b--");
    read_form("multipart/form-data; boundary=b", body.data, body.len, 4096, &out);
    CHECK(str_eq(out.data, "error"));
    buf_release(&body);
    buf_release(&out);
}

TEST(lines_of_a_batch)
{
    static const struct {
        const char *text, *code; /* code NULL: it is one */
    } rows[] = {
        { "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":{}}",
          NULL },
        { "{\"custom_id\":\"\",\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":{}}",
          "invalid_custom_id" },
        { "{\"custom_id\":\"a\\u0000b\",\"method\":\"POST\",\"url\":\"/v1/embeddings\","
          "\"body\":{}}",
          "invalid_custom_id" },
        { "{\"custom_id\":7,\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":{}}",
          "invalid_value" },
        { "{\"custom_id\":\"a\",\"method\":\"PUT\",\"url\":\"/v1/embeddings\",\"body\":{}}",
          "invalid_method" },
        { "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/rerank\",\"body\":{}}",
          "mismatched_url" },
        { "{\"custom_id\":\"a\",\"method\":\"POST\",\"url\":\"/v1/embeddings\"}",
          "missing_required_parameter" },
        { "[]", "invalid_json_line" },
        { "{", "invalid_json_line" },
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct arena a = { 0 };
        struct offline_line line;
        const char *code;
        char why[256];
        bool ok = offline_line_read(&a, rows[i].text, strlen(rows[i].text), "/v1/embeddings", &line,
                                    &code, why, sizeof(why));

        if (ok != !rows[i].code || (!ok && !str_eq(code, rows[i].code)))
            fail_msg("row %zu: %s, %s", i, code, why);
        arena_release(&a);
    }
}

TEST_MAIN(cmocka_unit_test(forms_are_the_same_however_they_are_cut),
          cmocka_unit_test(content_types), cmocka_unit_test(heads_have_a_limit),
          cmocka_unit_test(lines_of_a_batch))
