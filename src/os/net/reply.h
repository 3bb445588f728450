/* SPDX-License-Identifier: MIT */
/* reply: an HTTP/1.x reply read piece by piece, whatever the pieces are.
 *
 * Nothing is allocated and nothing is kept but what a load tool asks for: the status, how
 * the connection goes on, and the first and last bytes of the body, where servers tell how
 * many tokens they counted.  A caller that wants the body gives a buf.
 *
 *     head lines ─► body by length │ in chunks │ until the connection ends ─► done
 *
 * Interim replies (1xx) are passed over. */
#ifndef OS_NET_REPLY_H
#define OS_NET_REPLY_H
#include "base/buf.h"

#include <stdint.h>

enum {
    REPLY_LINE_MAX = 512,      /* bytes of a header line that are looked at; the rest is passed */
    REPLY_HEAD_MAX = 64 << 10, /* bytes of a reply's head, trailers included */
    REPLY_ENDS_MAX = 512       /* bytes kept of a body's begin and of its end */
};
#define REPLY_BODY_MAX (UINT64_C(1) << 40) /* bytes a length or a chunk may claim */

enum reply_state { REPLY_MORE, REPLY_DONE, REPLY_BAD };

struct reply {
    /* the caller's */
    struct buf *keep; /* the body goes here too; NULL: it does not */
    /* the answer */
    int status;            /* 0 until the head is there */
    bool close;            /* the connection ends with this reply */
    int64_t tokens;        /* of the field x-compute-tokens; -1: none */
    int64_t retry_after_s; /* -1: none */
    uint64_t body_bytes;
    char first[REPLY_ENDS_MAX], last[REPLY_ENDS_MAX];
    size_t first_len, last_len;
    const char *why; /* REPLY_BAD: what was wrong */
    /* the parser's */
    int at;
    bool chunked, has_length, http10, keep_alive;
    uint64_t left; /* of the length or of the chunk */
    size_t head_bytes, line_len;
    char line[REPLY_LINE_MAX];
};

#endif
