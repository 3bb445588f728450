/* SPDX-License-Identifier: MIT */
#include "os/worker/fd_message.h"

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool fd_message_send(int sock, const void *p, size_t len, int fd)
{
    char space[CMSG_SPACE(sizeof(int))] = { 0 };
    struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = len };
    struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };

    if (fd >= 0) {
        m.msg_control = space;
        m.msg_controllen = sizeof(space);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(fd));
    }
    return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

ssize_t fd_message_receive(int sock, void *p, size_t cap, int *out_fd)
{
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec iov = { .iov_base = p, .iov_len = cap };
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)
    };
    ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;

    if (out_fd)
        *out_fd = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int))) {
        int fd;
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
        if (out_fd)
            *out_fd = fd;
        else
            close(fd);
    }
    if (n > 0 && m.msg_flags & MSG_TRUNC)
        return 1; /* larger than any of ours: no reader takes that length */
    return n;
}
