/* SPDX-License-Identifier: MIT */
/* stream_int: what the writer and the reader of a stream both know. */
#ifndef TELEMETRY_RECORD_STREAM_INT_H
#define TELEMETRY_RECORD_STREAM_INT_H
#include "telemetry/record/stream.h"

#define STREAM_MAGIC "STKTELE1"
enum { STREAM_MAGIC_LEN = 8, STREAM_FRAME_LEN = 8 }; /* length and checksum before a record */
enum stream_type { STREAM_SERIES = 'S', STREAM_BATCH = 'B', STREAM_DOC = 'D', STREAM_EVENT = 'E' };

uint64_t stream_taken(const struct stream_reader *r); /* bytes of whole records */

#endif
