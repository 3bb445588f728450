/* SPDX-License-Identifier: MIT */
/* stream_int: what the writer and the reader of a stream both know. */
#ifndef METRICS_STREAM_INT_H
#define METRICS_STREAM_INT_H
#include "metrics/stream.h"

#define STREAM_MAGIC "STKTELE1"
enum { STREAM_MAGIC_LEN = 8, STREAM_FRAME_LEN = 8 }; /* length and checksum before a record */
enum stream_type { STREAM_SERIES = 'S', STREAM_BATCH = 'B', STREAM_DOC = 'D', STREAM_EVENT = 'E' };

#endif
