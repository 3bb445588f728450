/* SPDX-License-Identifier: MIT */
/* stream: what is written is what is read, cut anywhere, with any byte changed, in any pieces. */
#include "test.h"

#include "base/codec/crc32c.h"
#include "base/str.h"
#include "telemetry/record/stream_int.h"
#include "telemetry/telemetry_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

AUTO_OF(stream_writer_free, stream_writer);
AUTO_OF(telemetry_free, telemetry);

static const char head[] = "{\"schema\": \"stoker.tele/1\",\n \"host\": \"n1\"}";

/* Two GPUs, one of an application, an event and a document. */
static void write_all(struct buf *out)
{
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);
    unsigned gpu = telemetry_source(t, "gpu"), app = telemetry_source(t, "app:x");
    struct telemetry_label l[] = { { "gpu", "0" },
                                   { "UUID", "GPU-aa" },
                                   { "pci_bus_id", "00000000:06:00.0" },
                                   { "device", "nvidia0" } };
    const struct telemetry_metric *f =
        telemetry_foreign(t, "app_rows_total", "Rows", TELEMETRY_COUNTER);
    uint32_t ids[] = { telemetry_series(t, gpu, telemetry_metric("gpu.temp"), l, 4),
                       telemetry_series(t, gpu, telemetry_metric("gpu.power"), l, 4),
                       telemetry_series(t, app, f, NULL, 0), TELEMETRY_NONE };
    struct telemetry_event e = {
        .time_ns = 7, .kind = TELEMETRY_EVENT_XID, .gpu = 0, .code = 79, .text = "x"
    };
    AUTO(stream_writer_free_at) struct stream_writer *w = stream_writer_new(head, out);

    for (uint32_t i = 0; i < 3; i++)
        stream_series(w, telemetry_get(t, i)->source, i, telemetry_get(t, i),
                      telemetry_source_name(t, telemetry_get(t, i)->source));
    stream_batch(w, gpu, 1000, ids, (double[]){ 40.5, 81.25 }, 2);
    stream_batch(w, app, 1001, ids + 2, (double[]){ 12, 5 }, 2);
    stream_event(w, &e);
    stream_doc(w, "jobs", "{\"a\":[1]}");
    stream_batch(w, gpu, 2000, ids, (double[]){ NAN, 82 }, 2);
}

static void check_all(struct telemetry *t)
{
    AUTO(buf_release) struct buf b = { 0 };
    struct telemetry_event e[2];

    CHECK(telemetry_count(t) == 3);
    CHECK(isnan(telemetry_value(t, 0)) && telemetry_value(t, 1) == 82 &&
          telemetry_value(t, 2) == 12);
    CHECK(telemetry_get(t, 2)->metric->kind == TELEMETRY_COUNTER);
    assert_string_equal(telemetry_get(t, 2)->metric->prom, "app_rows_total");
    assert_string_equal(telemetry_get(t, 2)->metric->help, "Rows");
    assert_string_equal(telemetry_get(t, 1)->labels[1].value, "GPU-aa");
    CHECK(telemetry_events(t, 0, e, 2) == 1 && e[0].code == 79 && e[0].gpu == 0);
    CHECK(telemetry_doc_copy(t, "jobs", &b));
    assert_string_equal(buf_str(&b), "{\"a\":[1]}");
}

TEST(a_round_trip_whole_and_in_pieces)
{
    AUTO(buf_release) struct buf b = { 0 };

    write_all(&b);
    for (size_t piece = 1; piece <= b.len; piece = piece < 40 ? piece + 1 : piece + b.len / 3) {
        struct telemetry *t = telemetry_new(0);
        struct stream_reader *r = stream_reader_new(&(struct stream_reader_opts){ .into = t });

        for (size_t at = 0; at < b.len; at += piece)
            CHECK(stream_feed(r, b.data + at, b.len - at < piece ? b.len - at : piece, NULL) ==
                  RC_OK);
        CHECK(stream_taken(r) == b.len);
        assert_string_equal(stream_head(r), "{\"schema\": \"stoker.tele/1\",  \"host\": \"n1\"}");
        check_all(t);
        CHECK(telemetry_age_ns(t, telemetry_source(t, "gpu"), 2500) == 500);
        stream_reader_free(r);
        telemetry_free(t);
    }
}

TEST(cut_at_every_byte_what_is_whole_is_taken)
{
    AUTO(buf_release) struct buf b = { 0 };
    uint64_t before = 0;

    write_all(&b);
    for (size_t cut = 0; cut <= b.len; cut++) {
        struct telemetry *t = telemetry_new(0);
        struct stream_reader *r = stream_reader_new(&(struct stream_reader_opts){ .into = t });
        char *exact = malloc(cut + 1); /* so that a sanitizer sees a byte too far */

        memcpy(exact, b.data, cut);
        CHECK(stream_feed(r, exact, cut, NULL) == RC_OK); /* not whole is not wrong */
        CHECK(stream_taken(r) <= cut && stream_taken(r) >= before);
        CHECK((stream_head(r) != NULL) == (stream_taken(r) > 0));
        before = stream_taken(r);
        CHECK(stream_feed(r, b.data + cut, b.len - cut, NULL) == RC_OK); /* goes on */
        check_all(t);
        free(exact);
        stream_reader_free(r);
        telemetry_free(t);
    }
    CHECK(before == b.len);
}

TEST(a_flipped_byte_is_found_and_what_came_before_is_kept)
{
    AUTO(buf_release) struct buf b = { 0 };
    size_t head_len;

    write_all(&b);
    head_len = (size_t)((char *)memchr(b.data, '\n', b.len) - b.data) + 1;
    for (size_t at = 0; at < b.len; at++) {
        static const char flips[] = { 1, 0x20, (char)0x80 };

        for (size_t f = 0; f < sizeof(flips); f++) {
            struct telemetry *t = telemetry_new(0);
            struct stream_reader *r = stream_reader_new(&(struct stream_reader_opts){ .into = t });
            struct err err = { 0 };
            enum rc rc;

            b.data[at] ^= flips[f];
            rc = stream_feed(r, b.data, b.len, &err);
            CHECK(stream_taken(r) <= at || at < head_len); /* nothing from the wrong byte on */
            if (at >= head_len) /* wrong, or a length that now wants more */
                CHECK(rc == RC_PARSE || stream_taken(r) < b.len);
            if (rc) {
                CHECK(strstr(err.msg, "wrong at byte"));
                CHECK(stream_feed(r, "", 0, NULL) == RC_PARSE); /* and stays wrong */
            }
            b.data[at] ^= flips[f];
            stream_reader_free(r);
            telemetry_free(t);
        }
    }
}

/* ---- records that a checksum does not save us from */

static enum rc feed_record(const void *record, size_t len, uint32_t claimed, struct telemetry *t)
{
    struct stream_reader *r = stream_reader_new(&(struct stream_reader_opts){ .into = t });
    struct buf b = { 0 };
    uint32_t crc = crc32c(0, record, len);
    enum rc rc;

    buf_adds(&b, "STKTELE1{}\n");
    buf_add(&b, &claimed, 4);
    buf_add(&b, &crc, 4);
    buf_add(&b, record, len);
    rc = stream_feed(r, b.data, b.len, NULL);
    buf_release(&b);
    stream_reader_free(r);
    return rc;
}

TEST(hostile_records)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum rc rc;
    } rows[] = {
        { "Z of a newer program", 20, RC_OK },
        { "S", 1, RC_PARSE },
        { "S\0\0\2\0ab\0\0\0\0\1\0x\0\0\0\377", 18, RC_PARSE },       /* 255 labels */
        { "S\0\0\2\0ab\377\377\377\377\1\0x\0\0\0\0", 18, RC_PARSE }, /* a huge id */
        { "S\377\377\2\0ab\0\0\0\0\1\0x\0\0\0\0", 18, RC_PARSE },     /* a huge source */
        { "S\0\0\2\0ab\0\0\0\0\1\0x\0\0\0\1\377\377", 20, RC_PARSE }, /* a long text */
        { "S\0\0\2\0ab\0\0\0\0\4\0a b!\0\0\0\0", 21, RC_OK },         /* no metric: no series */
        { "B\0\0", 3, RC_PARSE },
        { "B\0\0\0\0\0\0\0\0\0\0", 11, RC_OK },                    /* of no source */
        { "B\0\0\0\0\0\0\0\0\0\0x", 12, RC_PARSE },                /* part of a value */
        { "B\0\0\377\377\377\377\377\377\377\377", 11, RC_PARSE }, /* before 1970 */
        { "B\377\0\0\0\0\0\0\0\0\0", 11, RC_PARSE },
        { "E\0\0\0\0\0\0\0\0\377\0\0\0\0\0\0\0\0\0\0", 20, RC_OK }, /* a kind of later */
        { "E\0", 2, RC_PARSE },
        { "D\0\0{}", 5, RC_PARSE },
        { "D\1\0x{", 5, RC_PARSE },
        { "D\1\0x{\"a\0\":1}", 12, RC_PARSE },
        { "D\1\0x", 4, RC_OK },
    };
    AUTO(telemetry_free_at) struct telemetry *t = telemetry_new(0);

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        CHECK(feed_record(rows[i].bytes, rows[i].len, (uint32_t)rows[i].len, t) == rows[i].rc);
    CHECK(feed_record("Z", 1, 0, t) == RC_PARSE);
    CHECK(feed_record("Z", 1, STREAM_RECORD_MAX + 1, t) == RC_PARSE);
    CHECK(feed_record("Z", 1, STREAM_RECORD_MAX, t) == RC_OK); /* not whole yet */
    CHECK(telemetry_count(t) == 0);
}

TEST(heads)
{
    static const struct {
        const char *text;
        enum rc rc;
        bool head;
    } rows[] = {
        { "", RC_OK, false },
        { "STKTELE1", RC_OK, false },
        { "STKTELE1{}\n", RC_OK, true },
        { "STKTELE2{}\n", RC_PARSE, false },
        { "S3", RC_PARSE, false },
        { "STKTELE1[]\n", RC_PARSE, false },
        { "STKTELE1{\n", RC_PARSE, false },
        { "STKTELE1\n", RC_PARSE, false },
        { "STKTELE1{\"schema\":\"stoker.tele/2\"}\n", RC_PARSE, false },
    };
    struct telemetry *t = telemetry_new(0);
    struct stream_reader *r;
    char *big = malloc(2 * STREAM_HEAD_MAX);

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        r = stream_reader_new(&(struct stream_reader_opts){ .into = t });
        CHECK(stream_feed(r, rows[i].text, strlen(rows[i].text), NULL) == rows[i].rc);
        CHECK((stream_head(r) != NULL) == rows[i].head);
        stream_reader_free(r);
    }
    memset(big, ' ', 2 * STREAM_HEAD_MAX);
    memcpy(big, "STKTELE1", 8);
    r = stream_reader_new(&(struct stream_reader_opts){ .into = t });
    CHECK(stream_feed(r, big, 20, NULL) == RC_OK);
    CHECK(stream_feed(r, big + 20, 2 * STREAM_HEAD_MAX - 20, NULL) == RC_PARSE);
    stream_reader_free(r);
    free(big);
    telemetry_free(t);
}

/* ---- what the reader changes */

struct seen {
    unsigned count, stop_at;
    int64_t last;
};

static bool on_batch(void *arg, unsigned source, int64_t time_ns)
{
    struct seen *s = arg;

    (void)source;
    s->last = time_ns;
    return ++s->count != s->stop_at;
}

TEST(a_reader_that_stops_goes_on_behind_what_it_took)
{
    struct telemetry *t = telemetry_new(0);
    struct seen s = { .stop_at = 1 };
    struct stream_reader_opts o = { .into = t, .shift_ns = 50, .on_batch = on_batch, .arg = &s };
    struct stream_reader *r = stream_reader_new(&o);
    AUTO(buf_release) struct buf b = { 0 };

    write_all(&b);
    CHECK(stream_feed(r, b.data, b.len, NULL) == RC_OK);
    CHECK(s.count == 1 && s.last == 1050 && stream_taken(r) < b.len);
    CHECK(telemetry_value(t, 0) == 40.5);
    CHECK(stream_feed(r, b.data + stream_taken(r), b.len - stream_taken(r), NULL) == RC_OK);
    CHECK(s.count == 3 && s.last == 2050 && stream_taken(r) == b.len);
    check_all(t);
    stream_reader_free(r);
    telemetry_free(t);
}

TEST(records_are_written_whole_or_not)
{
    AUTO(buf_release) struct buf b;
    struct stream_writer *w;
    char *big = malloc(STREAM_RECORD_MAX + 1);
    size_t before;

    memset(big, ' ', STREAM_RECORD_MAX);
    big[STREAM_RECORD_MAX] = '\0';
    buf_init(&b, 64);
    w = stream_writer_new(NULL, &b);
    before = b.len;
    stream_doc(w, "big", big); /* beyond a record */
    CHECK(b.len == before && !b.over);
    stream_doc(w, "more than the buf can take", "\"..........................\"");
    CHECK(b.len == before && b.over);
    buf_reset(&b);
    stream_doc(w, "d", "1");
    CHECK(b.len == 8 + 1 + 3 + 1);
    stream_writer_free(w);
    stream_writer_free(NULL);
    stream_reader_free(NULL);
    free(big);
}

TEST_MAIN(cmocka_unit_test(a_round_trip_whole_and_in_pieces),
          cmocka_unit_test(cut_at_every_byte_what_is_whole_is_taken),
          cmocka_unit_test(a_flipped_byte_is_found_and_what_came_before_is_kept),
          cmocka_unit_test(hostile_records), cmocka_unit_test(heads),
          cmocka_unit_test(a_reader_that_stops_goes_on_behind_what_it_took),
          cmocka_unit_test(records_are_written_whole_or_not))
