/* SPDX-License-Identifier: MIT */
/* notify: tells the service manager how a long-running command is ("READY=1"), over the
 * datagram socket that systemd names in $NOTIFY_SOCKET.  Without one nothing happens. */
#ifndef OS_NET_NOTIFY_H
#define OS_NET_NOTIFY_H
#include <stdint.h>

void notify_send(const char *lines);
/* RELOADING=1, with the time, so that an older READY=1 does not count. */
void notify_reloading(void);
/* Microseconds between two "WATCHDOG=1" that the manager wants; 0: none. */
uint64_t notify_watchdog_us(void);

#endif
