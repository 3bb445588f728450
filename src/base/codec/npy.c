/* SPDX-License-Identifier: MIT */
/* npy: format 1.0: magic, version, length of the text, the text of a Python dict padded
 * with spaces, a line feed. */
#include "base/codec/npy.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAGIC_LEN = 10 }; /* magic, two bytes of version, two of length */

void npy_head(uint64_t rows, uint64_t cols, char out[NPY_HEAD])
{
    char text[NPY_HEAD + 1];
    int len =
        snprintf(text, sizeof(text),
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%" PRIu64 ", %" PRIu64 "), }",
                 rows, cols);

    assert(len > 0 && len < NPY_HEAD - MAGIC_LEN); /* two numbers of 20 digits fit */
    memset(out, ' ', NPY_HEAD);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(NPY_HEAD - MAGIC_LEN);
    out[9] = 0;
    memcpy(out + MAGIC_LEN, text, (size_t)len);
    out[NPY_HEAD - 1] = '\n';
}

enum rc npy_read_head(const char head[NPY_HEAD], uint64_t *out_rows, uint64_t *out_cols,
                      struct err *err)
{
    char text[NPY_HEAD + 1], again[NPY_HEAD];
    uint64_t rows, cols;
    const char *p;

    memcpy(text, head, NPY_HEAD);
    text[NPY_HEAD] = '\0';
    p = memchr(text + MAGIC_LEN, '(', NPY_HEAD - MAGIC_LEN);
    if (!p || sscanf(p, "(%19" SCNu64 ", %19" SCNu64 ")", &rows, &cols) != 2)
        return err_set(err, RC_PARSE, "it does not begin as an .npy file written by stoker");
    npy_head(rows, cols, again);
    if (memcmp(again, head, NPY_HEAD) != 0)
        return err_set(err, RC_PARSE, "it does not begin as an .npy file written by stoker");
    *out_rows = rows;
    *out_cols = cols;
    return RC_OK;
}
