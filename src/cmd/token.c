/* SPDX-License-Identifier: MIT */
/* token: the bearer token that a file holds, for every command that asks clients for one; and
 * whether such files have changed.  A look a second is enough: who changes a secret waits longer
 * than that before the old one is taken away, and a link that is turned (as Kubernetes does) is
 * seen like a file that is written. */
#include "base/str.h"
#include "cmd/cmd.h"
#include "os/file.h"

#include <sys/stat.h>

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

bool cmd_watch_changed(struct cmd_watch *w)
{
    bool changed = false;

    for (size_t i = 0; i < CMD_WATCH_MAX; i++) {
        struct stat st;

        if (!w->paths[i] || stat(w->paths[i], &st) != 0)
            continue; /* away for a moment, or for good: what was read stays */
        if (w->seen[i].device == st.st_dev && w->seen[i].inode == st.st_ino &&
            w->seen[i].bytes == (uint64_t)st.st_size && w->seen[i].s == st.st_mtim.tv_sec &&
            w->seen[i].ns == st.st_mtim.tv_nsec)
            continue;
        w->seen[i].device = st.st_dev;
        w->seen[i].inode = st.st_ino;
        w->seen[i].bytes = (uint64_t)st.st_size;
        w->seen[i].s = st.st_mtim.tv_sec;
        w->seen[i].ns = st.st_mtim.tv_nsec;
        changed = true;
    }
    return changed;
}
