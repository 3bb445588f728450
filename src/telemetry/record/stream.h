/* SPDX-License-Identifier: MIT */
/* stream: telemetry as bytes.  What a collector child sends its agent, what `--record` writes and
 * `--replay` reads are the same: a head, then records, each with its length and checksum.
 *
 *   head    "STKTELE1", then a JSON line: schema stoker.tele/1, host, begin, options
 *   record  u32 length, u32 crc32c, u8 type, payload; little endian.  Length and checksum are of
 *           type and payload.  A text is u16 and its bytes.
 *     S  a series: u16 source, text name of the source, u32 id, text metric id, u8 kind, text
 *        help (the two serve metrics that the reader's table lacks), u8 count, labels as texts
 *     B  a batch: u16 source, i64 time, then u32 id, f64 value to the end
 *     D  a document: text name, then JSON to the end; without JSON it is removed
 *     E  an event: i64 time, u8 kind, i32 gpu, i32 code, text
 *
 * A reader takes what is whole and says where the rest begins to be wrong; nothing in a stream
 * can make it allocate beyond the limits below.  Records and events of kinds that it does not
 * know, and values of ids that have no series, are passed over: a newer program wrote them. */
#ifndef TELEMETRY_RECORD_STREAM_H
#define TELEMETRY_RECORD_STREAM_H
#include "telemetry/telemetry.h"

enum { STREAM_RECORD_MAX = 1 << 20, STREAM_HEAD_MAX = 64 << 10 };

/* Into a buf; the caller sends or saves it, and may empty it at any time.  Records come out whole
 * or not at all (a document beyond STREAM_RECORD_MAX, a buf that is full). */
struct stream_writer;
struct stream_writer *stream_writer_new(const char *head_json, struct buf *out); /* NULL: {} */
void stream_writer_free(struct stream_writer *w);
void stream_series(struct stream_writer *w, unsigned source, uint32_t id,
                   const struct telemetry_series *s, const char *source_name);
void stream_batch(struct stream_writer *w, unsigned source, int64_t time_ns, const uint32_t *ids,
                  const double *values, size_t count);
void stream_event(struct stream_writer *w, const struct telemetry_event *e);
void stream_doc(struct stream_writer *w, const char *name, const char *json); /* NULL removes */

/* Fed with bytes as they come; applies whole records to a table.  Ids of the stream are mapped to
 * the table's. */
struct stream_reader;
struct stream_reader_opts {
    struct telemetry *into;
    int64_t shift_ns;          /* added to every time */
    const char *source_prefix; /* NULL: none */
    /* After a batch was applied, with the table's source; NULL: none.  False stops: stream_feed()
     * returns at once, and what lies behind stream_taken() is to be fed again. */
    bool (*on_batch)(void *arg, unsigned source, int64_t time_ns);
    void *arg;
};
struct stream_reader *stream_reader_new(const struct stream_reader_opts *o);
/* RC_PARSE says at which byte the stream is wrong, now and at every further call. */
enum rc stream_feed(struct stream_reader *r, const void *data, size_t len,
                    struct err *err) MUST_USE;
const char *stream_head(const struct stream_reader *r); /* JSON; NULL: not yet read */
void stream_reader_free(struct stream_reader *r);

#endif
