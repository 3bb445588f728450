/* SPDX-License-Identifier: MIT */
/* stream_read: the reader.
 *
 * Bytes are taken from where the caller has them; what is kept is one record that is not whole
 * yet.  A record is checked before a byte of it is believed, and its payload is still read as
 * outside data: a checksum says that it came as it was sent, not who sent it. */
#include "base/arena.h"
#include "base/codec/crc32c.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/text/json.h"
#include "telemetry/record/stream_int.h"
#include "telemetry/telemetry_int.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned no_source = TELEMETRY_SOURCES_MAX; /* a source that has no series yet */

struct stream_reader {
    struct stream_reader_opts o;
    char *head;         /* owned JSON; NULL: not yet read */
    struct buf pending; /* the begin of a head or record */
    uint64_t taken;
    bool stopped;
    char wrong[ERR_MSG_MAX]; /* "": nothing */
    unsigned sources[TELEMETRY_SOURCES_MAX];
    uint32_t *ids;        /* the table's by the stream's; grown */
    uint32_t *generation; /* telemetry_generation() of these, when they were told */
    size_t id_count;
};

struct stream_reader *stream_reader_new(const struct stream_reader_opts *o)
{
    struct stream_reader *r = xcalloc(1, sizeof(*r));

    r->o = *o;
    buf_init(&r->pending, STREAM_RECORD_MAX + STREAM_FRAME_LEN);
    for (size_t i = 0; i < TELEMETRY_SOURCES_MAX; i++)
        r->sources[i] = no_source;
    return r;
}

void stream_reader_free(struct stream_reader *r)
{
    if (!r)
        return;
    buf_release(&r->pending);
    free(r->head);
    free(r->ids);
    free(r->generation);
    free(r);
}

const char *stream_head(const struct stream_reader *r)
{
    return r->head;
}

uint64_t stream_taken(const struct stream_reader *r)
{
    return r->taken;
}

static enum rc stream_wrong(struct stream_reader *r, const char *why)
{
    (void)snprintf(r->wrong, sizeof(r->wrong), "the stream is wrong at byte %llu: %s",
                   (unsigned long long)r->taken, why);
    return RC_PARSE;
}

/* ---- a payload */

struct record_cursor {
    const char *p, *end;
    bool bad; /* something reached beyond the end; what was read is zero */
};

static bool take_bytes(struct record_cursor *c, void *out, size_t len)
{
    if (c->bad || (size_t)(c->end - c->p) < len) {
        c->bad = true;
        memset(out, 0, len);
        return false;
    }
    memcpy(out, c->p, len);
    c->p += len;
    return true;
}

static unsigned take_u8(struct record_cursor *c)
{
    uint8_t v;

    (void)take_bytes(c, &v, sizeof(v));
    return v;
}

static unsigned take_u16(struct record_cursor *c)
{
    uint16_t v;

    (void)take_bytes(c, &v, sizeof(v));
    return le16toh(v);
}

static uint32_t take_u32(struct record_cursor *c)
{
    uint32_t v;

    (void)take_bytes(c, &v, sizeof(v));
    return le32toh(v);
}

static uint64_t take_u64(struct record_cursor *c)
{
    uint64_t v;

    (void)take_bytes(c, &v, sizeof(v));
    return le64toh(v);
}

/* At most cap - 1 bytes of it; the rest is passed over, a NUL inside ends it. */
static void take_text(struct record_cursor *c, char *out, size_t cap)
{
    size_t len = take_u16(c), n;

    out[0] = '\0';
    if (c->bad || (size_t)(c->end - c->p) < len) {
        c->bad = true;
        return;
    }
    n = len < cap ? len : cap - 1;
    memcpy(out, c->p, n);
    out[n] = '\0';
    c->p += len;
}

static bool take_time(struct stream_reader *r, struct record_cursor *c, int64_t *out)
{
    int64_t t = (int64_t)take_u64(c);

    return !c->bad && t >= 0 && !__builtin_add_overflow(t, r->o.shift_ns, out) && *out >= 0;
}

/* ---- records */

static void map_id(struct stream_reader *r, uint32_t id, uint32_t mine)
{
    if (id >= r->id_count) {
        size_t count = r->id_count ? r->id_count : 64;

        while (count <= id)
            count *= 2;
        r->ids = xreallocarray(r->ids, count, sizeof(*r->ids));
        r->generation = xreallocarray(r->generation, count, sizeof(*r->generation));
        for (size_t i = r->id_count; i < count; i++) {
            r->ids[i] = TELEMETRY_NONE;
            r->generation[i] = 0;
        }
        r->id_count = count;
    }
    r->ids[id] = mine;
    r->generation[id] = telemetry_generation(r->o.into, mine);
}

static unsigned source_of(struct stream_reader *r, const char *name)
{
    char full[TELEMETRY_NAME_MAX];

    (void)snprintf(full, sizeof(full), "%s%.*s", r->o.source_prefix ? r->o.source_prefix : "",
                   TELEMETRY_NAME_MAX, name);
    return telemetry_source(r->o.into, full);
}

static const char *take_series(struct stream_reader *r, struct record_cursor *c)
{
    char name[TELEMETRY_NAME_MAX], metric[TELEMETRY_NAME_MAX], help[TELEMETRY_VALUE_MAX];
    char names[TELEMETRY_LABELS_MAX][TELEMETRY_NAME_MAX],
        values[TELEMETRY_LABELS_MAX][TELEMETRY_VALUE_MAX];
    struct telemetry_label labels[TELEMETRY_LABELS_MAX];
    const struct telemetry_metric *m;
    unsigned source = take_u16(c), kind;
    size_t count;
    uint32_t id;

    take_text(c, name, sizeof(name));
    id = take_u32(c);
    take_text(c, metric, sizeof(metric));
    kind = take_u8(c);
    take_text(c, help, sizeof(help));
    count = take_u8(c);
    if (c->bad || source >= TELEMETRY_SOURCES_MAX || id >= TELEMETRY_SERIES_MAX ||
        count > TELEMETRY_LABELS_MAX)
        return "a series that is none";
    for (size_t i = 0; i < count; i++) {
        take_text(c, names[i], TELEMETRY_NAME_MAX);
        take_text(c, values[i], TELEMETRY_VALUE_MAX);
        labels[i] = (struct telemetry_label){ .name = names[i], .value = values[i] };
    }
    if (c->bad)
        return "a series without all its labels";
    m = telemetry_metric(metric);
    if (!m)
        m = telemetry_foreign(r->o.into, metric, help,
                              kind == TELEMETRY_COUNTER ? TELEMETRY_COUNTER : TELEMETRY_GAUGE);
    r->sources[source] = source_of(r, name);
    map_id(r, id, telemetry_series(r->o.into, r->sources[source], m, labels, count));
    return NULL;
}

static const char *take_batch(struct stream_reader *r, struct record_cursor *c)
{
    enum { ENTRY = sizeof(uint32_t) + sizeof(double) };
    unsigned source = take_u16(c);
    int64_t time_ns;

    if (!take_time(r, c, &time_ns) || source >= TELEMETRY_SOURCES_MAX || (c->end - c->p) % ENTRY)
        return "a batch that is none";
    source = r->sources[source];
    if (source == no_source)
        return NULL;
    telemetry_begin(r->o.into, source, time_ns);
    while (c->p < c->end) {
        uint32_t id = take_u32(c);
        uint64_t bits = take_u64(c);
        double v;

        memcpy(&v, &bits, sizeof(v));
        if (id < r->id_count && r->generation[id] == telemetry_generation(r->o.into, r->ids[id]))
            telemetry_set(r->o.into, r->ids[id], v); /* else the id is another series' now */
    }
    telemetry_end(r->o.into);
    if (r->o.on_batch && !r->o.on_batch(r->o.arg, source, time_ns))
        r->stopped = true;
    return NULL;
}

static const char *take_event(struct stream_reader *r, struct record_cursor *c)
{
    struct telemetry_event e = { 0 };
    bool ok = take_time(r, c, &e.time_ns);
    unsigned kind = take_u8(c);

    e.gpu = (int)take_u32(c);
    e.code = (int)take_u32(c);
    take_text(c, e.text, sizeof(e.text));
    if (!ok || c->bad)
        return "an event that is none";
    if (kind >= TELEMETRY_EVENT_KINDS)
        return NULL;
    e.kind = (enum telemetry_event_kind)kind;
    if (e.gpu < 0)
        e.gpu = -1;
    telemetry_event(r->o.into, &e);
    return NULL;
}

static const char *take_doc(struct stream_reader *r, struct record_cursor *c)
{
    struct arena a = { 0 };
    char name[TELEMETRY_NAME_MAX];
    struct json *tree;
    const char *why = NULL;
    size_t len;

    take_text(c, name, sizeof(name));
    if (c->bad || !*name)
        return "a document without a name";
    len = (size_t)(c->end - c->p);
    if (!len) {
        telemetry_doc(r->o.into, name, NULL);
    } else if (json_parse(&a, c->p, len, &tree, NULL)) {
        why = "a document that is not JSON";
    } else {
        char *json = xstrndup(c->p, len);

        telemetry_doc(r->o.into, name, json);
        free(json);
    }
    arena_release(&a);
    return why;
}

static const char *apply_record(struct stream_reader *r, const char *record, size_t len)
{
    struct record_cursor c = { .p = record + 1, .end = record + len };

    switch ((enum stream_type)(unsigned char)record[0]) {
    case STREAM_SERIES:
        return take_series(r, &c);
    case STREAM_BATCH:
        return take_batch(r, &c);
    case STREAM_DOC:
        return take_doc(r, &c);
    case STREAM_EVENT:
        return take_event(r, &c);
    }
    return NULL; /* of a newer program */
}

/* ---- bytes */

/* How many bytes the part that begins at p[0..len) has in all, as far as they tell: the head to
 * its line end, a record by its length.  0: more must be seen; *why is set when it is wrong. */
static size_t head_size(const char *p, size_t len, const char **why)
{
    size_t n = len < STREAM_MAGIC_LEN ? len : STREAM_MAGIC_LEN;
    const char *end;

    if (memcmp(p, STREAM_MAGIC, n) != 0) {
        *why = "this is not a telemetry stream";
        return 0;
    }
    end = len > n ? memchr(p + n, '\n', len - n) : NULL;
    n = end ? (size_t)(end - p) + 1 : 0;
    if (n > STREAM_HEAD_MAX || (!n && len > STREAM_HEAD_MAX)) {
        *why = "its head is too long";
        return 0;
    }
    return n;
}

static size_t record_size(const char *p, size_t len, const char **why)
{
    uint32_t size;

    if (len < sizeof(size))
        return 0;
    memcpy(&size, p, sizeof(size));
    size = le32toh(size);
    if (size < 1 || size > STREAM_RECORD_MAX) {
        *why = "the length of a record is out of range";
        return 0;
    }
    return STREAM_FRAME_LEN + size;
}

static const char *take_head(struct stream_reader *r, const char *p, size_t len)
{
    const char *json = p + STREAM_MAGIC_LEN, *why = NULL, *schema;
    size_t n = len - STREAM_MAGIC_LEN - 1;
    struct arena a = { 0 };
    struct json *tree;

    if (json_parse(&a, json, n, &tree, NULL) || tree->type != JSON_OBJ) {
        why = "its head is not a JSON object";
    } else {
        schema = json_str(json_get(tree, "schema"));
        if (schema && !str_eq(schema, "stoker.tele/1"))
            why = "its schema is not stoker.tele/1";
        else
            r->head = xstrndup(json, n);
    }
    arena_release(&a);
    return why;
}

static const char *take_record(struct stream_reader *r, const char *p, size_t len)
{
    uint32_t crc;

    memcpy(&crc, p + sizeof(crc), sizeof(crc));
    p += STREAM_FRAME_LEN;
    len -= STREAM_FRAME_LEN;
    if (le32toh(crc) != crc32c(0, p, len))
        return "the checksum of a record does not fit";
    return apply_record(r, p, len);
}

/* One part from p[0..len) when it is whole; returns its size, 0 when it is not or is wrong. */
static size_t take_part(struct stream_reader *r, const char *p, size_t len, const char **why)
{
    size_t size = r->head ? record_size(p, len, why) : head_size(p, len, why);

    if (*why || !size || size > len)
        return 0;
    *why = r->head ? take_record(r, p, size) : take_head(r, p, size);
    if (*why)
        return 0;
    r->taken += size;
    return size;
}

/* How much to add to what is pending: to the line end of a head, or the end of a record. */
static size_t bytes_wanted(const struct stream_reader *r, const char *p, size_t len)
{
    const char *why = NULL;
    size_t size, have = r->pending.len, n;

    if (!r->head) {
        const char *end = memchr(p, '\n', len);

        n = end ? (size_t)(end - p) + 1 : len;
        return n > STREAM_HEAD_MAX ? STREAM_HEAD_MAX : n;
    }
    size = record_size(r->pending.data, have, &why);
    n = size ? size - have : sizeof(uint32_t) - have;
    return n < len ? n : len;
}

static enum rc feed_piece(struct stream_reader *r, const char *p, size_t len)
{
    const char *why = NULL;

    while (len && !r->stopped) {
        size_t n;

        if (r->pending.len) {
            n = bytes_wanted(r, p, len);
            buf_add(&r->pending, p, n);
            if (take_part(r, r->pending.data, r->pending.len, &why))
                buf_reset(&r->pending);
        } else {
            n = take_part(r, p, len, &why);
            if (!n && !why) {
                n = r->head ? len : len < STREAM_HEAD_MAX ? len : STREAM_HEAD_MAX;
                buf_add(&r->pending, p, n);
            }
        }
        if (why)
            return stream_wrong(r, why);
        p += n;
        len -= n;
    }
    return RC_OK;
}

enum rc stream_feed(struct stream_reader *r, const void *data, size_t len, struct err *err)
{
    r->stopped = false;
    if (r->wrong[0] || feed_piece(r, data, len))
        return err_set(err, RC_PARSE, "%s", r->wrong);
    return RC_OK;
}
