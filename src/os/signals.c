/* SPDX-License-Identifier: MIT */
#include "os/signals.h"

#include <signal.h>
#include <sys/signalfd.h>

enum rc signals_watch(const int *list, size_t count, int *out_fd, struct err *err)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < count; i++)
        sigaddset(&set, list[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return err_sys(err, "could not block signals");
    *out_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return *out_fd < 0 ? err_sys(err, "could not watch signals") : RC_OK;
}

enum rc signals_watch_end(int *out_fd, struct err *err)
{
    static const int list[] = { SIGTERM, SIGINT, SIGHUP };

    (void)signal(SIGPIPE, SIG_IGN);
    return signals_watch(list, ARRAY_SIZE(list), out_fd, err);
}
