/* SPDX-License-Identifier: MIT */
#include "os/net/net_int.h"

#include "base/buf.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One name of the list, and what follows it. */
static const char *name_take(const char *names, char *out, size_t cap)
{
    size_t len = strcspn(names, ":");

    (void)snprintf(out, cap, "%.*s", (int)(len < cap ? len : cap - 1), names);
    str_make_text(out);
    return names[len] ? names + len + 1 : names + len;
}

enum rc listen_fds_parse(const char *listen_pid, const char *listen_fds, const char *names,
                         int64_t pid, struct listen_fds *out, struct err *err)
{
    uint64_t count, whom;

    *out = (struct listen_fds){ 0 };
    if (!listen_pid || !listen_fds || !str_to_u64(listen_pid, 10, &whom) || whom != (uint64_t)pid)
        return RC_OK;
    if (!str_to_u64(listen_fds, 10, &count))
        return err_set(err, RC_USAGE, "could not take sockets: LISTEN_FDS '%.40s' is not a number",
                       listen_fds);
    if (count > LISTEN_FDS_MAX)
        return err_set(err, RC_LIMIT, "could not take %llu sockets of LISTEN_FDS: at most %d",
                       (unsigned long long)count, LISTEN_FDS_MAX);
    for (size_t i = 0; i < count; i++) {
        out->items[i].fd = LISTEN_FDS_FIRST + (int)i;
        if (names)
            names = name_take(names, out->items[i].name, sizeof(out->items[i].name));
    }
    out->count = (size_t)count;
    return RC_OK;
}

enum rc listen_fds_take(struct listen_fds *out, struct err *err)
{
    enum rc rc = listen_fds_parse(getenv("LISTEN_PID"), getenv("LISTEN_FDS"),
                                  getenv("LISTEN_FDNAMES"), getpid(), out, err);

    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    for (size_t i = 0; rc == RC_OK && i < out->count; i++)
        if (fcntl(out->items[i].fd, F_SETFD, FD_CLOEXEC) != 0)
            rc = err_sys(err, "could not take socket %d of LISTEN_FDS", out->items[i].fd);
    return rc;
}

bool listen_fds_give(const struct listen_fds *fds)
{
    int away[LISTEN_FDS_MAX];
    struct buf names = { 0 };
    char text[32];
    bool ok = true;

    /* one of them may stand where another one goes */
    for (size_t i = 0; i < fds->count; i++) {
        away[i] = fcntl(fds->items[i].fd, F_DUPFD_CLOEXEC, LISTEN_FDS_FIRST + 2 * LISTEN_FDS_MAX);
        ok = ok && away[i] >= 0;
    }
    for (size_t i = 0; ok && i < fds->count; i++) {
        ok = dup2(away[i], LISTEN_FDS_FIRST + (int)i) >= 0;
        buf_addf(&names, "%s%s", i ? ":" : "", fds->items[i].name);
    }
    (void)snprintf(text, sizeof(text), "%zu", fds->count);
    (void)setenv("LISTEN_FDS", text, 1);
    (void)snprintf(text, sizeof(text), "%lld", (long long)getpid());
    (void)setenv("LISTEN_PID", text, 1);
    (void)setenv("LISTEN_FDNAMES", buf_str(&names), 1);
    buf_release(&names);
    return ok;
}

int listen_fds_find(const struct listen_fds *fds, const char *name)
{
    for (size_t i = 0; i < fds->count; i++)
        if (str_eq(fds->items[i].name, name))
            return fds->items[i].fd;
    return -1;
}
