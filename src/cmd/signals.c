/* SPDX-License-Identifier: MIT */
/* signals: how commands that stay learn that they are to end or to read their spec again. */
#include "cmd/cmd.h"

#include <signal.h>
#include <sys/signalfd.h>

enum rc cmd_signals(int *out_fd, struct err *err)
{
    sigset_t set;

    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return err_sys(err, "could not block signals");
    *out_fd = signalfd(-1, &set, SFD_CLOEXEC);
    return *out_fd < 0 ? err_sys(err, "could not watch signals") : RC_OK;
}
