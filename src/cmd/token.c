/* SPDX-License-Identifier: MIT */
/* token: the bearer token that a file holds, for every command that asks clients for one. */
#include "base/str.h"
#include "cmd/cmd.h"
#include "os/file.h"

enum rc cmd_token(const char *path, char *out, size_t cap, struct err *err)
{
    struct buf b = { 0 };
    enum rc rc = file_read(path, cap - 1, &b, err);

    out[0] = '\0';
    if (rc == RC_OK && b.data)
        (void)str_copy(out, cap, str_trim(b.data));
    if (rc == RC_OK && !out[0])
        rc = err_set(err, RC_USAGE, "token file '%s' is empty", path);
    buf_release(&b);
    return rc;
}
