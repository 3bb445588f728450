/* SPDX-License-Identifier: MIT */
/* inflate: zlib's inflate() between two callbacks.
 *
 * A piece of input is read when zlib has used up the one before, a piece of output is written
 * when it has given one.  zlib is never offered room for more than one byte beyond the limit: that
 * byte, which is not written, tells a stream that ends there from one that goes on. */
#include "base/codec/codec_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>

enum { IN_BYTES = 16384, OUT_BYTES = 65536 };

struct inflate_state {
    z_stream z;
    uint64_t total; /* bytes written */
    uint8_t in[IN_BYTES], out[OUT_BYTES];
};

void *zlib_alloc(void *arg, unsigned count, unsigned size)
{
    (void)arg;
    return xcalloc(count, size);
}

void zlib_free(void *arg, void *p)
{
    (void)arg;
    free(p);
}

/* One turn: *ended when the stream's last block is over. */
static enum rc inflate_piece(struct inflate_state *s, const struct inflate_io *io, bool *ended,
                             struct err *err)
{
    uint64_t room = io->max - s->total;
    size_t got = 0;
    int status;

    if (!s->z.avail_in) {
        enum rc rc = io->read(io->arg, s->in, sizeof(s->in), &got, err);

        if (rc)
            return rc;
        s->z.next_in = s->in;
        s->z.avail_in = (unsigned)got;
    }
    s->z.next_out = s->out;
    s->z.avail_out = room < OUT_BYTES ? (unsigned)room + 1 : OUT_BYTES;
    status = inflate(&s->z, Z_NO_FLUSH);
    got = (size_t)(s->z.next_out - s->out);
    if (got > room)
        return err_set(err, RC_LIMIT, "compressed data: more than %llu bytes come out",
                       (unsigned long long)io->max);
    if (status == Z_DATA_ERROR)
        return err_set(err, RC_PARSE, "compressed data: %s", s->z.msg);
    if (status == Z_BUF_ERROR) /* no input was left, and none came */
        return err_set(err, RC_PARSE, "compressed data: it ends too early");
    s->total += got;
    *ended = status == Z_STREAM_END;
    return got ? io->write(io->arg, s->out, got, err) : RC_OK;
}

enum rc inflate_stream(const struct inflate_io *io, uint64_t *out_bytes, struct err *err)
{
    struct inflate_state *s = xcalloc(1, sizeof(*s));
    bool ended = false;
    enum rc rc = RC_OK;
    int status;

    s->z.zalloc = zlib_alloc;
    s->z.zfree = zlib_free;
    status = inflateInit2(&s->z, -MAX_WBITS); /* below 0: without a head and a tail */
    assert(status == Z_OK);                   /* it fails for want of memory only */
    while (!rc && !ended)
        rc = inflate_piece(s, io, &ended, err);
    if (!rc) {
        *out_bytes = s->total;
        if (io->out_unused)
            *io->out_unused = s->z.avail_in;
    }
    (void)inflateEnd(&s->z);
    free(s);
    return rc;
}
