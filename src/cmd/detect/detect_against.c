/* SPDX-License-Identifier: MIT */
/* detect_against: `stoker detect --against FILE`: reads the log or topology of a real run
 * and prints our choice beside it. */
#include "base/str.h"
#include "cmd/detect/detect_int.h"
#include "os/file.h"

enum rc detect_against(const struct detect_opts *o, const struct term *term, const struct hw *hw,
                       struct buf *out, struct err *err)
{
    const struct nccl_against_opts opts = { .host = o->host };
    struct nccl_against g = { 0 };
    struct buf text;
    enum rc rc;

    buf_init(&text, (size_t)NCCL_AGAINST_BYTES_MAX + 1);
    rc = file_read(o->against, NCCL_AGAINST_BYTES_MAX, &text, err);
    if (!rc) {
        rc = nccl_against(hw, &opts, buf_str(&text), text.len, &g, err);
        if (rc)
            err_ctx(err, "'%s'", o->against);
    }
    buf_release(&text);
    if (rc)
        return rc;
    if (o->json)
        nccl_against_json(&g, out);
    else
        nccl_against_write(&g, term, out);
    rc = g.differs ? RC_FAIL : RC_OK; /* told on stdout */
    nccl_against_release(&g);
    return rc;
}
