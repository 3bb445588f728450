/* SPDX-License-Identifier: MIT */
/* token: the bearer tokens of a server, each from a file, and whether such files have changed.  A
 * look a second is enough: who changes a secret waits longer than that before the old one is taken
 * away, and a link that is turned (as Kubernetes does) is seen like a file that is written. */
#include "base/log.h"
#include "base/str.h"
#include "cmd/cmd_int.h"
#include "os/clock.h"
#include "os/token_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { WATCH_AWAY_MS = 3000 }; /* a file is written, or it was removed */

enum rc cmd_keys_read(struct cmd_keys *k, struct cmd_watch *w, struct err *err)
{
    struct cmd_keys fresh = *k;

    for (size_t i = 0; i < CMD_KEYS; i++)
        w->paths[i] = k->files[i];
    (void)cmd_watch_changed(w); /* what is written from here on is a change */
    for (size_t i = 0; i < CMD_KEYS; i++)
        if (k->files[i] &&
            token_file_read(k->files[i], fresh.texts[i], sizeof(fresh.texts[i]), err))
            return err->code;
    for (size_t i = 0; i < CMD_KEY_ADMIN; i++) /* who has that one could do what an admin may */
        if (k->files[CMD_KEY_ADMIN] && k->files[i] &&
            str_eq(fresh.texts[CMD_KEY_ADMIN], fresh.texts[i]))
            return err_set(err, RC_USAGE, "the admin's token is the one that %s",
                           i == CMD_KEY_CALL ? "all clients have" : "opens nothing but /metrics");
    *k = fresh;
    return RC_OK;
}

const char *cmd_key(const struct cmd_keys *k, enum cmd_key which)
{
    return k->files[which] ? k->texts[which] : NULL;
}

/* Away for a moment while it is written, or for good: the next start would fail. */
static void tell_away(const char *path, int64_t *since_ms)
{
    int why = errno;
    int64_t now = clock_mono_ms();

    if (!*since_ms)
        *since_ms = now;
    if (*since_ms == INT64_MAX || now - *since_ms < WATCH_AWAY_MS)
        return;
    *since_ms = INT64_MAX;
    log_warn("could not read '%s': %s; what was read of it before stays, and the next start fails",
             path, strerror(why));
}

bool cmd_watch_changed(struct cmd_watch *w)
{
    bool changed = false;

    for (size_t i = 0; i < CMD_WATCH_MAX; i++) {
        struct stat st;

        if (!w->paths[i])
            continue;
        if (stat(w->paths[i], &st) != 0) { /* what was read stays */
            tell_away(w->paths[i], &w->seen[i].away_ms);
            continue;
        }
        w->seen[i].away_ms = 0;
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
