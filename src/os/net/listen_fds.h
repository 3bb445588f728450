/* SPDX-License-Identifier: MIT */
/* listen_fds: sockets that listen already, handed from one process to the next.
 *
 * The protocol is the one of systemd's socket activation: descriptors from 3 on, their number in
 * $LISTEN_FDS, their names, parted by ':', in $LISTEN_FDNAMES, and in $LISTEN_PID whom they are
 * for.  `stoker up` takes them that way and hands them to its children the same way: whoever holds
 * such a socket keeps its queue, so that a server that ends and starts again refuses nobody. */
#ifndef OS_NET_LISTEN_FDS_H
#define OS_NET_LISTEN_FDS_H
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LISTEN_FDS_FIRST = 3, /* sd_listen_fds(3) */
    LISTEN_FDS_MAX = 8,
    LISTEN_FDS_NAME_MAX = 256 /* systemd's limit of FileDescriptorName=, with the NUL */
};

struct listen_fds {
    size_t count;
    struct listen_fd {
        int fd;
        char name[LISTEN_FDS_NAME_MAX]; /* "" where nobody named it */
    } items[LISTEN_FDS_MAX];
};

/* Of this process; once.  They are not for its children: the variables are unset and the
 * descriptors are closed by exec. */
enum rc listen_fds_take(struct listen_fds *out, struct err *err) MUST_USE;
/* Between fork or nothing and exec: puts them where listen_fds_take() of this process's next
 * program looks.  Every other descriptor there must be one that exec closes.  False: no
 * descriptors are left. */
bool listen_fds_give(const struct listen_fds *fds) MUST_USE;
/* The first of that name; -1: none. */
int listen_fds_find(const struct listen_fds *fds, const char *name);

#endif
