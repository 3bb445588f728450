/* SPDX-License-Identifier: MIT */
/* stream_write: records, each made whole before it goes out. */
#include "base/codec/crc32c.h"
#include "base/mem.h"
#include "telemetry/record/stream_int.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct stream_writer {
    struct buf *out;   /* borrowed */
    struct buf record; /* type and payload */
};

static void add_u8(struct buf *b, unsigned v)
{
    buf_addc(b, (char)(unsigned char)v);
}

static void add_u16(struct buf *b, unsigned v)
{
    uint16_t x = htole16((uint16_t)v);

    buf_add(b, &x, sizeof(x));
}

static void add_u32(struct buf *b, uint32_t v)
{
    uint32_t x = htole32(v);

    buf_add(b, &x, sizeof(x));
}

static void add_u64(struct buf *b, uint64_t v)
{
    uint64_t x = htole64(v);

    buf_add(b, &x, sizeof(x));
}

static void add_text(struct buf *b, const char *s)
{
    size_t len = s ? strlen(s) : 0;

    if (len > UINT16_MAX)
        len = UINT16_MAX;
    add_u16(b, (unsigned)len);
    buf_add(b, s ? s : "", len);
}

static void record_begin(struct stream_writer *w, enum stream_type type)
{
    buf_reset(&w->record);
    add_u8(&w->record, type);
}

static void record_end(struct stream_writer *w)
{
    size_t len = w->record.len;
    uint32_t frame[2]; /* STREAM_FRAME_LEN */
    char *to;

    if (w->record.over)
        return;
    to = buf_reserve(w->out, STREAM_FRAME_LEN + len);
    if (!to)
        return;
    frame[0] = htole32((uint32_t)len);
    frame[1] = htole32(crc32c(0, w->record.data, len));
    memcpy(to, frame, STREAM_FRAME_LEN);
    memcpy(to + STREAM_FRAME_LEN, w->record.data, len);
    buf_commit(w->out, STREAM_FRAME_LEN + len);
}

struct stream_writer *stream_writer_new(const char *head_json, struct buf *out)
{
    struct stream_writer *w = xcalloc(1, sizeof(*w));
    size_t len = head_json ? strnlen(head_json, STREAM_HEAD_MAX) : 0;

    w->out = out;
    buf_init(&w->record, STREAM_RECORD_MAX);
    if (!len || len == STREAM_HEAD_MAX) {
        head_json = "{}";
        len = 2;
    }
    buf_adds(out, STREAM_MAGIC);
    for (size_t i = 0; i < len; i++) /* one line: JSON has line ends only between its parts */
        buf_addc(out, head_json[i] == '\n' ? ' ' : head_json[i]);
    buf_addc(out, '\n');
    return w;
}

void stream_writer_free(struct stream_writer *w)
{
    if (!w)
        return;
    buf_release(&w->record);
    free(w);
}

void stream_series(struct stream_writer *w, unsigned source, uint32_t id,
                   const struct telemetry_series *s, const char *source_name)
{
    struct buf *b = &w->record;

    record_begin(w, STREAM_SERIES);
    add_u16(b, source);
    add_text(b, source_name);
    add_u32(b, id);
    add_text(b, s->metric->id);
    add_u8(b, s->metric->kind);
    add_text(b, s->metric->help);
    add_u8(b, (unsigned)s->label_count);
    for (size_t i = 0; i < s->label_count; i++) {
        add_text(b, s->labels[i].name);
        add_text(b, s->labels[i].value);
    }
    record_end(w);
}

void stream_batch(struct stream_writer *w, unsigned source, int64_t time_ns, const uint32_t *ids,
                  const double *values, size_t count)
{
    struct buf *b = &w->record;

    record_begin(w, STREAM_BATCH);
    add_u16(b, source);
    add_u64(b, (uint64_t)time_ns);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;

        if (isnan(values[i]) || ids[i] == TELEMETRY_NONE)
            continue; /* left out is unknown */
        memcpy(&bits, &values[i], sizeof(bits));
        add_u32(b, ids[i]);
        add_u64(b, bits);
    }
    record_end(w);
}

void stream_event(struct stream_writer *w, const struct telemetry_event *e)
{
    struct buf *b = &w->record;

    record_begin(w, STREAM_EVENT);
    add_u64(b, (uint64_t)e->time_ns);
    add_u8(b, e->kind);
    add_u32(b, (uint32_t)e->gpu);
    add_u32(b, (uint32_t)e->code);
    add_text(b, e->text);
    record_end(w);
}

void stream_doc(struct stream_writer *w, const char *name, const char *json)
{
    record_begin(w, STREAM_DOC);
    add_text(&w->record, name);
    if (json)
        buf_adds(&w->record, json);
    record_end(w);
}
