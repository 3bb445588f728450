/* SPDX-License-Identifier: MIT */
#include "os/net/notify.h"

#include "base/str.h"
#include "os/clock.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_send(const char *lines)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    size_t len = path ? strlen(path) : 0;

    if (len < 2 || len >= sizeof(a.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(a.sun_path, path, len);
    if (path[0] == '@') /* an abstract name */
        a.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&a,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    close(fd);
}

void notify_reloading(void)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
                   (long long)(clock_mono_ns() / 1000));
    notify_send(text);
}

uint64_t notify_watchdog_us(void)
{
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t value, whom;

    if (!us || !str_to_u64(us, 10, &value))
        return 0;
    if (pid && str_to_u64(pid, 10, &whom) && whom != (uint64_t)getpid())
        return 0;
    return value;
}
