/* SPDX-License-Identifier: MIT */
/* output: results to stdout, whole or not at all.
 *
 * A plain file whose disk fills in the middle of a write is cut back to where the write began:
 * what it holds then ends where a result ended. */
#include "cmd/cmd_int.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Other programs may write behind us where O_APPEND is set: nothing is cut there. */
off_t out_place(void)
{
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    struct stat st;

    if (flags < 0 || flags & O_APPEND || fstat(STDOUT_FILENO, &st) || !S_ISREG(st.st_mode))
        return -1;
    return lseek(STDOUT_FILENO, 0, SEEK_CUR);
}

static enum rc write_all(const char *p, size_t len, bool *gone, struct err *err)
{
    while (len) {
        ssize_t n = write(STDOUT_FILENO, p, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EPIPE) {
            *gone = true;
            return RC_OK;
        }
        if (n < 0)
            return err_sys(err, "could not write the output");
        p += n;
        len -= (size_t)n;
    }
    return RC_OK;
}

enum rc out_write(struct buf *out, bool *gone, struct err *err)
{
    off_t begun = out_place();
    enum rc rc = write_all(buf_str(out), out->len, gone, err);

    if (rc && begun >= 0 && !ftruncate(STDOUT_FILENO, begun))
        (void)lseek(STDOUT_FILENO, begun, SEEK_SET);
    buf_reset(out);
    return rc;
}
