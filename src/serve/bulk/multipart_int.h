/* SPDX-License-Identifier: MIT */
/* multipart: a form with files (RFC 7578), piece by piece, the same however it is cut.
 *
 * Nothing is held but the end of a piece that may be the beginning of a boundary, and the head of
 * a part up to MULTIPART_HEAD_MAX; a part's bytes are given on as they come. */
#ifndef SERVE_BULK_MULTIPART_INT_H
#define SERVE_BULK_MULTIPART_INT_H
#include "base/buf.h"
#include "base/err.h"

enum {
    MULTIPART_BOUNDARY_MAX = 70,  /* bytes, by RFC 2046 */
    MULTIPART_HEAD_MAX = 8 << 10, /* bytes before the first boundary, or of a part's head */
    MULTIPART_PARTS_MAX = 32,     /* of a form */
    MULTIPART_NAME_MAX = 256      /* bytes of a field's or a file's name, NUL included */
};

struct multipart_part {
    char name[MULTIPART_NAME_MAX];
    char filename[MULTIPART_NAME_MAX]; /* "": it is no file */
};

struct multipart {
    char mark[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF "--" boundary */
    size_t mark_len, parts;
    enum { MULTIPART_BEFORE, MULTIPART_MARK, MULTIPART_HEAD, MULTIPART_DATA, MULTIPART_END } state;
    struct buf held;
    size_t skip;                /* bytes of it that are not the part's */
    struct multipart_part part; /* the one that is read */
    /* `data` NULL: the part begins. */
    enum rc (*take)(void *arg, const struct multipart_part *part, const char *data, size_t len,
                    struct err *err);
    void *arg;
};

/* Of a Content-Type; RC_USAGE: it is no multipart/form-data with a boundary. */
enum rc multipart_init(struct multipart *m, const char *content_type, struct err *err) MUST_USE;
void multipart_release(struct multipart *m);
enum rc multipart_feed(struct multipart *m, const char *data, size_t len, struct err *err) MUST_USE;
enum rc multipart_finish(const struct multipart *m, struct err *err) MUST_USE; /* was it whole? */

#endif
