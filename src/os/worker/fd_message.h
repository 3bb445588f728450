/* SPDX-License-Identifier: MIT */
/* fd_message: a packet over a Unix socket that may carry a descriptor: how an owner hands the
 * memory that both share to the process that it has started. */
#ifndef OS_WORKER_FD_MESSAGE_H
#define OS_WORKER_FD_MESSAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* With `fd` if that is not -1; at once or not at all, and no SIGPIPE. */
bool fd_message_send(int sock, const void *p, size_t len, int fd);
/* The packet's length, 0 at the end, -1 and errno; 1 for one that is larger than `cap`.  `*out_fd`
 * is the caller's, -1 where none came; without `out_fd` one that comes is closed. */
ssize_t fd_message_receive(int sock, void *p, size_t cap, int *out_fd);

#endif
