/* SPDX-License-Identifier: MIT */
#include "os/token_file.h"

#include "os/file.h"

#include <string.h>

enum rc token_file_read(const char *path, char *out, size_t cap, struct err *err)
{
    static const char blank[] = " \t\r\n";
    struct buf b = { 0 };
    enum rc rc = file_read(path, cap - 1, &b, err);
    size_t from = 0, end = b.len;

    out[0] = '\0';
    while (rc == RC_OK && from < end && b.data[from] && strchr(blank, b.data[from]))
        from++;
    while (rc == RC_OK && from < end && b.data[end - 1] && strchr(blank, b.data[end - 1]))
        end--;
    if (rc == RC_OK && from == end)
        rc = err_set(err, RC_USAGE, "token file '%s' is empty", path);
    /* what no client can send would lock everybody out, and a NUL would end it early */
    for (size_t i = from; rc == RC_OK && i < end; i++)
        if (b.data[i] < ' ' || b.data[i] > '~') {
            err_hint(err, "A token is one line of ASCII text: 'openssl rand -hex 32' makes one.");
            rc = err_set(err, RC_USAGE, "token file '%s' holds %s, which no token has", path,
                         b.data[i] == '\n' ? "a second line" : "a byte that is not ASCII text");
        }
    if (rc == RC_OK) {
        memcpy(out, b.data + from, end - from);
        out[end - from] = '\0';
    }
    buf_release(&b);
    return rc;
}
