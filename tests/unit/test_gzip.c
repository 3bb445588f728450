/* SPDX-License-Identifier: MIT */
/* gzip: what is packed is unpacked by inflate_stream(), bytes of every kind and length. */
#include "base/codec/gzip.h"
#include "base/codec/inflate.h"
#include "base/mem.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 10, TAIL = 8 };
struct pipe_of {
    const struct buf *in;
    size_t at;
    struct buf out;
};

static enum rc give(void *arg, uint8_t *out, size_t cap, size_t *got, struct err *err)
{
    struct pipe_of *p = arg;
    size_t left = p->in->len - TAIL - p->at;

    (void)err;
    *got = left < cap ? left : cap;
    memcpy(out, p->in->data + p->at, *got);
    p->at += *got;
    return RC_OK;
}

static enum rc keep(void *arg, const uint8_t *b, size_t len, struct err *err)
{
    struct pipe_of *p = arg;

    (void)err;
    buf_add(&p->out, (const char *)b, len);
    return RC_OK;
}

/* Packs, unpacks, compares; how many bytes it took. */
static size_t round_trip(const void *p, size_t len)
{
    struct buf packed = { 0 };
    struct pipe_of io = { .in = &packed, .at = HEAD };
    struct inflate_io i = { give, keep, &io, len + 1, NULL };
    uint64_t bytes = 0;
    size_t size;

    gzip_pack(p, len, &packed);
    CHECK(inflate_stream(&i, &bytes, NULL) == RC_OK && bytes == len);
    CHECK(io.out.len == len && (!len || !memcmp(io.out.data, p, len)));
    CHECK((uint8_t)packed.data[0] == 0x1f && (uint8_t)packed.data[1] == 0x8b);
    size = packed.len;
    buf_release(&packed);
    buf_release(&io.out);
    return size;
}

TEST(what_was_packed_is_unpacked_up_to_a_limit)
{
    struct buf packed = { 0 }, plain = { 0 };
    char *text = xmalloc(100000);
    struct err err = { 0 };

    for (size_t i = 0; i < 100000; i++)
        text[i] = (char)(i * 7 % 251);
    gzip_pack(text, 100000, &packed);
    CHECK(gzip_unpack(packed.data, packed.len, 100000, &plain, &err) == RC_OK);
    CHECK(plain.len == 100000 && !memcmp(plain.data, text, plain.len));
    buf_release(&plain);
    CHECK(gzip_unpack(packed.data, packed.len, 99999, &plain, &err) == RC_LIMIT);
    CHECK(plain.len <= 99999);
    buf_release(&plain);
    for (size_t len = 0; len < packed.len; len += len < 64 ? 1 : 97) {
        err = (struct err){ 0 };
        CHECK(gzip_unpack(packed.data, len, 1 << 20, &plain, &err) != RC_OK && err.msg[0]);
        buf_release(&plain);
    }
    buf_release(&packed);
    gzip_pack("", 0, &packed);
    CHECK(gzip_unpack(packed.data, packed.len, 0, &plain, NULL) == RC_OK && !plain.len);
    CHECK(gzip_pays(text, 100000) && !gzip_pays("0.1", 3));
    buf_release(&packed);
    buf_release(&plain);
    free(text);
}

TEST(every_length)
{
    char text[700];

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)("abcabcabd"[i % 9] + (i % 53 == 0));
    for (size_t n = 0; n <= sizeof(text); n++)
        (void)round_trip(text, n);
}

TEST(bytes_of_every_kind)
{
    size_t len = 300000;
    uint8_t *p = xmalloc(len);
    unsigned seed = 5;

    memset(p, 'x', len);
    CHECK(round_trip(p, len) < len / 100);
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)rand_r(&seed);
    CHECK(round_trip(p, len) < len + len / 8); /* noise grows a little */
    for (size_t i = 0; i < len; i++)           /* matches near and beyond the window */
        p[i] = i % 32769 < 40 ? (uint8_t)(i % 40) : (uint8_t)(rand_r(&seed) % 4);
    (void)round_trip(p, len);
    free(p);
}

TEST(text_of_metrics_shrinks)
{
    struct buf b = { 0 };

    for (int gpu = 0; gpu < 8; gpu++)
        for (int m = 0; m < 60; m++)
            buf_addf(&b,
                     "DCGM_FI_DEV_METRIC_%d{gpu=\"%d\",UUID=\"GPU-%08x\",device=\"nvidia%d\"} %d\n",
                     m, gpu, gpu * 7919, gpu, m * gpu);
    CHECK(round_trip(b.data, b.len) * 6 < b.len);
    buf_release(&b);
}

TEST_MAIN(cmocka_unit_test(what_was_packed_is_unpacked_up_to_a_limit),
          cmocka_unit_test(every_length), cmocka_unit_test(bytes_of_every_kind),
          cmocka_unit_test(text_of_metrics_shrinks))
