/* SPDX-License-Identifier: MIT */
/* signals: those a program waits for, as something to poll(). */
#ifndef OS_SIGNALS_H
#define OS_SIGNALS_H
#include "base/err.h"

#include <stddef.h>

/* Blocks these and opens a signalfd for them; call it before any thread is made. */
enum rc signals_watch(const int *list, size_t count, int *out_fd, struct err *err) MUST_USE;
/* SIGTERM, SIGINT and SIGHUP, as a server wants them, and SIGPIPE ignored. */
enum rc signals_watch_end(int *out_fd, struct err *err) MUST_USE;

#endif
